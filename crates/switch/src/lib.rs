//! Switches in software: real datagrams and frames meet the queues, marks and telemetry of the
//! simulator's ports, by the [same code](tidegate_sim::OpenFabric). One switch is a fabric, too.
//!
//! Hosts have addresses, and there is a UDP socket for each of them: what host A sends to the one
//! that stands for B goes through the fabric to the port of B, and leaves for B from the one that
//! stands for A. Or they are behind network interfaces, and any frame is forwarded as switches of
//! Ethernet do. Both ways hosts know nothing of switches between them.
//!
//! * [`datagram`](mod@datagram): what a switch reads of a datagram, and what it writes into it.
//! * `ethernet`: the same of a frame, and where it goes: `stations`.
//! * `crossing`: datagrams and frames on their way through the switches.
//! * `border`: where they come from, with the kernel's time of arrival, and go to: `addresses` or
//!   `interfaces`, over `sockets`.
//! * [`SoftwareSwitch`]: brings these together with the switches and a clock.
//!
//! What leaves when is computed from when it came, not from when this program was awake. That it
//! wakes up late shows only in when the datagram is handed to the kernel, and is
//! [measured](Report::late_us).
//!
//! Only Linux has what it takes; elsewhere there is nothing here.
#![cfg(target_os = "linux")]

mod addresses;
#[cfg(feature = "testing")]
mod any_frame;
#[cfg(feature = "testing")]
mod any_traffic;
mod backend;
mod clock;
mod crossing;
pub mod datagram;
mod ethernet;
mod interfaces;
mod slots;
mod sockets;
mod software_switch;
mod stations;
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

/// What switches are made from.
#[derive(Clone, Debug, PartialEq)]
pub struct Config {
    /// Switches and links; its hosts are places where real ones are.
    pub fabric: Fabric,
    /// How datagrams choose among equal paths; those from one host to one other are a connection.
    pub routing: Routing,
    /// Where hosts are.
    pub places: Places,
    /// The links from hosts are here, too, with rate and delay: for hosts that have none of their
    /// own.
    pub uplinks: bool,
    /// Datagrams end with six bytes, most significant first: what links carry of it, in two, and
    /// what its path is chosen by.
    pub sized: bool,
    /// How its clock goes; none: as the system's, from when the switch is opened.
    pub clock: Option<Dilation>,
    /// All chance in marks and paths comes from here.
    pub seed: u64,
}

/// Where hosts are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Places {
    /// They send UDP datagrams.
    Addresses {
        /// By host of the fabric: where those that are there receive. They are not connected with
        /// each other.
        hosts: Vec<Vec<SocketAddrV4>>,
        /// What is for real host j (counted over all) is sent to this address, at the port j above
        /// its own; port 0: at ports that the kernel chooses.
        listen: SocketAddrV4,
    },
    /// They send Ethernet frames. By host of the fabric: the network interface that it is behind.
    Interfaces(Vec<String>),
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
    /// From no host, or for one of the same place; frames that links keep for themselves, too.
    pub strangers: u64,
    /// Frames that hardware should have cut into pieces, or given a checksum.
    pub unfinished: u64,
    /// Longer than the simulator's packets can be.
    pub too_long: u64,
    /// Lost before a host's link, which had more to send than a host may hold.
    pub too_fast: u64,
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
    /// The ports of switches, by number.
    pub ports: Vec<LinkRecord>,
    /// The links from hosts, where they are here, by host.
    pub uplinks: Vec<LinkRecord>,
    /// The switches.
    pub switches: Vec<SwitchRecord>,
    /// Datagrams and frames.
    pub counts: Counts,
    /// Interfaces by which unfinished frames have come.
    pub unfinished: Vec<String>,
    /// How much later than they should datagrams were handed to the kernel, in microseconds.
    pub late_us: Spread,
}
