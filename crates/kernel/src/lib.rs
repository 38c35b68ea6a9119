//! Congestion controls and telemetry in an unmodified Linux kernel, by eBPF.
//!
//! Each law is a C header in `bpf/`, in integer fixed point. It is compiled for the kernel and, for
//! tests, natively; the tests compare both with each other and with the protocol in the crate
//! `tidegate-algos`. Parameters are those of that crate.
//!
//! Without the feature `kernel` the crate is empty, so that the workspace builds without clang.

#![cfg(all(feature = "kernel", target_os = "linux"))]

mod control;
mod error;
mod interface;
mod laws;
mod log;
mod pins;
mod preflight;
mod stamp;
#[cfg(feature = "testing")]
mod testing;

pub use control::{ControlStatus, Counters, Loaded, controls, foreign, load, unload};
pub use error::Error;
pub use laws::{BASE_RTTS, Control, Fabric, PARAMS, Params};
pub use pins::{PINS, remove_abandoned};
pub use preflight::{Check, preflight, require, require_stamping};
pub use stamp::{Port, PortStatus, peer, ports, stamp, unstamp};
#[cfg(feature = "testing")]
pub use testing::{FAULT_PROGRAM, PROBE_PROGRAM, Ring, STEP_PROGRAM, Step, native_table};
