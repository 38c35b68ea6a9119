//! The transports outside the simulator.
//!
//! [`Endpoint`] is one host's driver: it owns packet memory, queues replies before data and keeps
//! the transport's clock. It knows no socket and no clock; whoever has them calls it.
//! [`pair`](fn@pair) is the first such caller: two endpoints on a link in memory, on a fake clock,
//! with nothing of the simulator in between. [`Node`](node::Node) is the second: an endpoint, its
//! peers and the bytes of messages, as datagrams. [`Driver`](driver::Driver) puts that on a socket,
//! and [`Host`](host::Host) in a thread: that is what applications use.

#[cfg(feature = "testing")]
mod datagram;
#[cfg(target_os = "linux")]
pub mod driver;
mod endpoint;
#[cfg(target_os = "linux")]
pub mod host;
pub mod message;
pub mod node;
mod pair;
#[cfg(feature = "testing")]
mod script;
pub mod session;
#[cfg(target_os = "linux")]
pub mod socket;
#[cfg(feature = "testing")]
mod torment;

#[cfg(feature = "testing")]
pub use datagram::{datagram, header};
pub use endpoint::{Endpoint, Packet};
#[cfg(feature = "testing")]
pub use node::{hostile, versions};
pub use pair::{Departure, Link, Submission, pair};
#[cfg(feature = "testing")]
pub use torment::torment;
