//! The laws in C against the protocols in Rust, and the laws in the kernel against the native ones.
//!
//! Decisions compare a delay with a target that C computes with an error. An acknowledgement whose
//! delay is within this error of the target is not applied to either side; the number of these is
//! bounded.

mod fixed;
mod flow;
mod in_kernel;
mod pair;
mod random;
mod scripts;

pub(crate) use random::Random;
