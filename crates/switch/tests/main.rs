//! Tests in real time, in one test program.

mod common;

mod interfaces;
mod loopback;
mod namespaces;
