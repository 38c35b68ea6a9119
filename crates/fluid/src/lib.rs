//! Congestion control as papers describe it: differential equations of the windows and the queue at
//! one bottleneck, or at two links of a flow. This crate solves them independently of the packet
//! simulator; it knows no packets, scenarios or engine.
//!
//! A [`Model`] is the equations that a paper prints: it maps a state to its derivative. [`solve`]
//! integrates it over time, with its delays. Windows and queues are in KB (1,000 bytes), times in
//! microseconds, rates in Gbit/s.
//!
//! # Omissions of the models
//!
//! The models have no packets, and thus none of the effects of whole packets: acknowledgements in
//! which windows move, queue records that jump by a packet, the lower bound of a window at one
//! packet. A flow sends `window / RTT` from the start. There are no losses.

mod bottleneck;
mod hops;
mod law;
mod solve;
mod target;

pub use bottleneck::Bottleneck;
pub use hops::TwoHops;
pub use law::{Law, Signal, Windows};
pub use solve::{Lags, Model, NoSolution, Past, solve};
pub use target::{Arrivals, Targets};

/// Time at which senders receive feedback from the bottleneck.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Feedback {
    /// Immediately. This makes a model autonomous: every state has one direction.
    Instant,
    /// After the way to the receiver and back. Packets from senders are delayed, too.
    Delayed {
        /// Delay from senders to the bottleneck, in microseconds; above zero and below the base
        /// RTT.
        forward_us: f64,
    },
}
