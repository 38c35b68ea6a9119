//! Congestion control as papers write it: differential equations of the windows and the queue at
//! one bottleneck, solved apart from the packet simulator. Nothing here knows a packet, a scenario
//! or an engine.
//!
//! A [`Model`] is what its paper prints, from a state to its derivative. [`solve`] follows it over
//! time, with the delays that it has. Windows and queues are in KB (1,000 bytes), times in
//! microseconds, rates in Gbit/s.
//!
//! # What is not in them
//!
//! Packets, and with them everything that comes in whole ones: acknowledgements in which windows
//! move, records of queues that jump by a packet, the floor that a packet sets to a window. A flow
//! sends `window / RTT` from the first moment. Nothing is lost.

mod bottleneck;
mod law;
mod solve;
mod target;

pub use bottleneck::Bottleneck;
pub use law::{Law, Signal, Windows};
pub use solve::{Lags, Model, NoSolution, Past, solve};
pub use target::Targets;

/// When what happens at the bottleneck is heard of by senders.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Feedback {
    /// At once, which makes a model autonomous: every state has one direction.
    Instant,
    /// After the way to the receiver and back; and what they send arrives later, too.
    Delayed {
        /// From senders to the bottleneck, in microseconds; above zero, less than the base RTT.
        forward_us: f64,
    },
}
