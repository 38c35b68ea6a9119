//! Software switches: UDP datagrams and Ethernet frames pass through the queues, ECN marking and
//! telemetry of the simulator's ports, in the [same code](tidegate_sim::OpenFabric). A single
//! switch is a fabric, too.
//!
//! There are two backends. With addresses, the switch has a UDP socket for each host: a datagram
//! that host A sends to the socket of B passes through the fabric to the port of B, and leaves for
//! B from the socket of A. With network interfaces, the switch forwards all frames as an Ethernet
//! switch does. In both cases the switches are transparent to hosts.
//!
//! * [`datagram`](mod@datagram): the fields of a datagram that a switch reads and writes.
//! * `ethernet`: the same for frames; `stations` learns addresses.
//! * `pipeline`: datagrams and frames on their way through the switches.
//! * `backend`: receives with the kernel's time of arrival, and sends: `addresses` or `interfaces`,
//!   over `sockets`.
//! * [`SoftwareSwitch`]: combines these with the switches and a clock.
//!
//! Departure times are computed from arrival times, so they do not depend on when this program was
//! scheduled. If it wakes up late, only the hand-over to the kernel is late; this lateness is
//! [measured](Report::late_us).
//!
//! The crate needs Linux and is empty on other systems.
#![cfg(target_os = "linux")]

mod addresses;
#[cfg(feature = "testing")]
mod any_frame;
#[cfg(feature = "testing")]
mod any_traffic;
mod backend;
mod clock;
mod content;
pub mod datagram;
mod ethernet;
mod interfaces;
mod pipeline;
mod received;
mod slots;
mod sockets;
mod software_switch;
mod stations;
mod tcp;
mod uplinks;

use std::net::SocketAddrV4;

use tidegate_core::Dilation;
use tidegate_core::fabric::{Fabric, Routing};
use tidegate_sim::{LinkRecord, Spread, SwitchRecord};

#[cfg(feature = "testing")]
pub use any_frame::any_frame;
#[cfg(feature = "testing")]
pub use any_traffic::any_traffic;
pub use software_switch::SoftwareSwitch;

/// Configuration of software switches.
#[derive(Clone, Debug, PartialEq)]
pub struct Config {
    /// Switches and links. Each host of the fabric is a place, where real hosts are attached.
    pub fabric: Fabric,
    /// How datagrams choose among equal paths. All datagrams between two hosts are one connection.
    pub routing: Routing,
    /// Where hosts are attached.
    pub places: Places,
    /// Whether the links from hosts are emulated, too, with rate and delay: for hosts without
    /// physical links.
    pub uplinks: bool,
    /// Whether datagrams end with six bytes, in network byte order: the size that counts on links
    /// (two bytes) and the path entropy (four bytes).
    pub sized: bool,
    /// The clock; `None`: that of the system, beginning when the switch is opened.
    pub clock: Option<Dilation>,
    /// Seed of all random choices of marks and paths.
    pub seed: u64,
}

/// Where hosts are attached.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Places {
    /// Hosts send UDP datagrams.
    Addresses {
        /// By host of the fabric: the addresses of the real hosts at this place. Hosts of one place
        /// cannot send to each other.
        hosts: Vec<Vec<SocketAddrV4>>,
        /// Address of the sockets: the socket of real host j (counted over all places) has this
        /// port plus j. Port 0: the kernel chooses ports.
        listen: SocketAddrV4,
    },
    /// Hosts send Ethernet frames. By host of the fabric: the network interface that leads to it.
    Interfaces(Vec<String>),
}

/// The address to which one host sends datagrams for another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Path {
    /// The sender.
    pub from: SocketAddrV4,
    /// The destination.
    pub to: SocketAddrV4,
    /// The address to which the sender sends.
    pub at: SocketAddrV4,
}

/// Counters of datagrams and frames, without drops at ports.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Received.
    pub received: u64,
    /// Sent.
    pub sent: u64,
    /// Dropped: datagrams from sources that are not in the file, datagrams and frames for a host of
    /// the same place, and link-local frames.
    pub filtered: u64,
    /// Dropped: frames that still need segmentation or a checksum by hardware.
    pub unfinished: u64,
    /// Dropped: longer than packets of the simulator.
    pub too_long: u64,
    /// Dropped before the emulated link of a host, whose backlog was full.
    pub too_fast: u64,
    /// Refused by the kernel when sent.
    pub unsent: u64,
    /// Dropped by the kernel because a socket's buffer was full: the switch was too slow.
    pub overrun: u64,
}

/// Measurements of a switch since the last reset.
#[derive(Clone, Debug, PartialEq)]
pub struct Report {
    /// Length of the measurement, in seconds.
    pub seconds: f64,
    /// The ports of switches, by number.
    pub ports: Vec<LinkRecord>,
    /// The emulated links from hosts, if any, by host.
    pub uplinks: Vec<LinkRecord>,
    /// The switches.
    pub switches: Vec<SwitchRecord>,
    /// Counters since the switch was opened.
    pub counts: Counts,
    /// Interfaces that delivered unfinished frames.
    pub unfinished: Vec<String>,
    /// Lateness with which datagrams were handed to the kernel, in microseconds.
    pub late_us: Spread,
}

/// The examples of the file for the registry are tests.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
