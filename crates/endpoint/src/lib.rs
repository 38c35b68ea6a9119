//! The transports outside the simulator.
//!
//! [`Endpoint`] is one host's driver: it owns packet memory, queues replies before data and keeps
//! the transport's clock. It knows no socket and no clock; whoever has them calls it.
//! [`pair`](fn@pair) is the first such caller: two endpoints on a link in memory, on a fake clock,
//! with nothing of the simulator in between. Real sockets are the second, and not here yet.

mod datagram;
mod endpoint;
mod pair;
mod torment;

pub use datagram::datagram;
pub use endpoint::{Endpoint, Packet};
pub use pair::{Departure, Link, Submission, pair};
pub use torment::torment;
