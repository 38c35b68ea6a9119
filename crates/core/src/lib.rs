//! The vocabulary of all other crates: time and rates, packets, feedback, parameters, and the two
//! traits that a protocol can implement ([`CongestionControl`] and [`Transport`]).
//!
//! This crate reads no clock, file or socket. Time is always a parameter, and random numbers come
//! only from a seed that the caller supplies.
#![no_std]

extern crate alloc;

pub mod collective;
mod congestion;
mod connection;
mod dilation;
pub mod fabric;
pub use fabric::circuits;
pub mod faults;
pub mod job;
pub mod math;
mod message;
mod operating_point;
mod packet;
pub mod params;
mod path;
mod protocol_info;
mod requirements;
mod rng;
pub mod routes;
mod time;
mod token_bucket;
mod transport;
mod units;
pub mod wire;
pub mod workload;

pub use congestion::{Ack, CongestionControl, Limit, Loss, LossKind, Trim};
pub use connection::{ConnectionDefaults, MultipathRule, PendingRule, RecoveryRule, WindowRule};
pub use dilation::Dilation;
pub use message::{Message, MessageId, Role};
pub use operating_point::OperatingPoint;
pub use packet::{
    Body, Frame, HEADER_BYTES, Hop, HopTrace, MAX_HOPS, MIN_WIRE_BYTES, PacketMut, PacketSizes,
    frame_flag,
};
pub use path::Path;
pub use protocol_info::{Dash, Marker, ProtocolInfo, TelemetryBytes};
pub use requirements::{
    FabricProperties, FabricRequirements, Marking, Need, Telemetry, TrimmingRule,
};
pub use rng::{Domain, Rng, mix64};
pub use time::{Span, Time};
pub use token_bucket::TokenBucket;
pub use transport::{
    Application, ConnectionPolicy, Endpoint, Feedback, Handle, HostContext, Limits, PathOracle,
    Reply, Transmit, Transport,
};
pub use units::{Extent, Pace, Rate};

/// The examples of the file for the registry are tests.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
