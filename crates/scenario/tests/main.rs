//! All tests of scenario files, in one test program.

mod common;

mod chakra;
mod interop;
mod jobs;
mod mutations;
mod resolved;
mod schema;
mod several_ports;
mod software;
mod valid;
mod workload;
mod wrong;
