//! All tests of the programs for the kernel, in one test program.

#![cfg(all(feature = "kernel", target_os = "linux"))]

mod faults;
mod laws;
mod loading;
mod network;
mod ports;
mod stamping;
mod windows;
