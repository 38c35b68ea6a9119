//! A switch in software: real UDP datagrams meet the queues, marks and telemetry of the simulator's
//! ports, by the [same code](tidegate_sim::LoneSwitch).
//!
//! Every pair of hosts has a socket of the switch's for each direction. What host A sends to the
//! one that stands for B goes through the port of B, and leaves for B from the one that stands for
//! A: hosts know nothing of a switch between them.
//!
//! * [`datagram`](mod@datagram): what a switch reads of a datagram, and what it writes into it.
//! * `sockets`: datagrams in, with the kernel's time of arrival, and out.
//! * [`SoftwareSwitch`]: brings these together with the switch and a clock.
//!
//! What leaves when is computed from when it came, not from when this program was awake. That it
//! wakes up late shows only in when the datagram is handed to the kernel, and is
//! [measured](Report::late_us).
//!
//! Only Linux has what it takes; elsewhere there is nothing here.
#![cfg(target_os = "linux")]

mod clock;
pub mod datagram;
mod slots;
mod sockets;
mod software_switch;

use std::net::SocketAddrV4;

use tidegate_core::fabric::Switch;
use tidegate_sim::{LinkRecord, LonePort, Spread, SwitchRecord};

pub use software_switch::SoftwareSwitch;

/// A port and who is behind it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Port {
    /// The port.
    pub port: LonePort,
    /// Where the hosts behind it receive; those of one port are not connected with each other.
    pub hosts: Vec<SocketAddrV4>,
}

/// What a switch is made from.
#[derive(Clone, Debug, PartialEq)]
pub struct Config {
    /// What it does.
    pub switch: Switch,
    /// Its ports, at least two.
    pub ports: Vec<Port>,
    /// What host i (counted over all ports) sends to host j of n goes to this address, at the port
    /// `i · n + j` above its own; port 0: at ports that the kernel chooses.
    pub listen: SocketAddrV4,
    /// All chance in marks comes from here.
    pub seed: u64,
}

/// Where one host sends what is for another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Path {
    /// Who sends.
    pub from: SocketAddrV4,
    /// For whom.
    pub to: SocketAddrV4,
    /// Where to.
    pub at: SocketAddrV4,
}

/// What became of datagrams, but for what the ports refused.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Came in, whatever became of them then.
    pub received: u64,
    /// Left.
    pub sent: u64,
    /// Not from the host that the socket is for.
    pub strangers: u64,
    /// Longer than the simulator's packets can be.
    pub too_long: u64,
    /// The kernel did not take them.
    pub unsent: u64,
    /// Came while a socket's buffer was full: the switch was too slow, and never saw them.
    pub overrun: u64,
}

/// What a switch has done so far.
#[derive(Clone, Debug, PartialEq)]
pub struct Report {
    /// How long, in seconds.
    pub seconds: f64,
    /// Its ports.
    pub ports: Vec<LinkRecord>,
    /// Its buffer.
    pub buffer: SwitchRecord,
    /// Datagrams.
    pub counts: Counts,
    /// How much later than they should datagrams were handed to the kernel, in microseconds.
    pub late_us: Spread,
}
