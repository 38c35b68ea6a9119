//! Tests in virtual time, in one test program.

mod common;

mod batch;
mod datagrams;
mod half_open;
mod hostile;
mod mirror;
mod nodes;
mod pair;
mod path;
mod strangers;
mod torment;
mod trimming;
mod world;
