//! The live UDP mode: the same protocol code over sockets, as a server and a sender (`net`), a
//! switch in software, and a testbed that emulates a scenario with processes, or over the kernel's
//! TCP.

mod controls;
mod medium;
#[cfg(target_os = "linux")]
pub mod net;
mod switch;
#[cfg(target_os = "linux")]
pub mod testbed;

pub use controls::{ControlLoader, KernelNetwork};
pub use medium::Medium;
pub use switch::{
    Datagrams, SwitchEntrance, SwitchOptions, SwitchPath, SwitchReport, load_switch, run_switch,
};
