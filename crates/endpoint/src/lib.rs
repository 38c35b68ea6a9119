//! Runs the transports over real networks.
//!
//! [`Endpoint`] drives the transport of one host: it owns packet memory and queues replies before
//! data. It uses neither sockets nor clocks; its caller passes packets and times. The simplest
//! caller is `pair`, behind the feature `testing`: two endpoints on a link in memory, with a fake
//! clock and without the simulator. [`Node`](node::Node) adds peers and message bytes to an
//! endpoint, and reads and writes datagrams. [`Driver`](driver::Driver) runs a node on a socket,
//! and [`Host`](host::Host) runs a driver in a thread. Applications use `Host`.

#[cfg(feature = "testing")]
mod datagram;
#[cfg(target_os = "linux")]
pub mod driver;
mod endpoint;
#[cfg(target_os = "linux")]
pub mod host;
pub mod message;
pub mod node;
#[cfg(feature = "testing")]
mod pair;
#[cfg(feature = "testing")]
mod script;
pub mod session;
#[cfg(target_os = "linux")]
pub mod socket;
#[cfg(feature = "testing")]
mod stress;

#[cfg(feature = "testing")]
pub use datagram::{datagram, header};
pub use endpoint::{Endpoint, Packet};
#[cfg(feature = "testing")]
pub use node::{hostile, versions};
#[cfg(feature = "testing")]
pub use pair::{Departure, Link, Submission, pair};
#[cfg(feature = "testing")]
pub use stress::stress;

/// The examples of the file for the registry are tests.
#[cfg(all(doctest, target_os = "linux"))]
#[doc = include_str!("../README.md")]
struct Readme;
