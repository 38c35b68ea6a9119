//! The vocabulary that every other crate speaks: time and rates, packets, feedback, parameters, and
//! the two traits a protocol can implement ([`CongestionControl`] and [`Transport`]).
//!
//! Nothing here reads a clock, a file or a socket, and nothing here is random unless a seed was
//! handed in: time is always a parameter.
#![no_std]

extern crate alloc;

mod card;
pub mod circuits;
pub mod collective;
mod congestion;
mod dilation;
mod equipment;
pub mod fabric;
pub mod faults;
pub mod math;
mod packet;
pub mod params;
mod profile;
mod rng;
pub mod routes;
mod time;
mod token_bucket;
mod transport;
mod units;
pub mod wire;
pub mod workload;

pub use card::{Card, Dash, Marker, TelemetryBytes};
pub use congestion::{
    Ack, CongestionControl, Limit, Loss, LossKind, Path, PendingRule, RecoveryRule, WindowRule,
};
pub use dilation::Dilation;
pub use equipment::{Equipment, Facts, Marking, Need, Telemetry};
pub use packet::{
    Body, Frame, HEADER_BYTES, Hop, HopTrace, MAX_HOPS, MIN_WIRE_BYTES, PacketMut, frame_flag,
};
pub use profile::{Habits, Profile};
pub use rng::{Domain, Rng, mix64};
pub use time::{Span, Time};
pub use token_bucket::TokenBucket;
pub use transport::{
    Application, ConnectionPolicy, Endpoint, Feedback, Handle, HostContext, Limits, Message,
    MessageId, PathOracle, Reply, Role, Transmit, Transport,
};
pub use units::{Extent, Pace, Rate};
