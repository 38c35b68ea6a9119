//! Tests in virtual time, in one test program.

mod common;

mod attacker;
mod batch;
mod datagrams;
mod half_open;
mod hostile;
mod mirror;
mod nodes;
mod pair;
mod path;
mod stress;
mod trimming;
mod world;
