//! All tests of scenario files, in one test program.

mod common;

mod exchange;
mod good;
mod mutations;
mod resolved;
mod schema;
mod software;
mod workload;
mod wrong;
