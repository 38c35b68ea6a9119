//! The simulation engine: packets, links, switches and hosts in simulated time. It reads no file
//! and parses no text.
//!
//! ```text
//! let mut engine = Engine::new(setup, ())?;      // () is the empty probe
//! while !engine.is_over() {
//!     engine.advance(engine.now() + chunk);
//!     engine.take_finished(&mut rows);
//! }
//! let outcome = engine.finish();
//! ```
mod bytes;
mod engine;
mod events;
mod fabric;
mod host;
mod ids;
mod measures;
mod naming;
mod open;
mod parallel;
mod partition;
mod ports;
mod prefetch;
mod run_context;
mod setup;
// Unit tests run no engine, and compile none.
#[cfg(not(test))]
pub mod simulation;
mod traffic;

pub use engine::Engine;
pub use engine::failure::Failure;
pub use ids::Step;
pub use ports::deadlock::Deadlock;
pub use traffic::generate::flows;

pub use measures::iterations::IterationTime;
pub use measures::outcome::{
    Exchange, FaultCounts, FlowRecord, LinkRecord, Outcome, PauseStorm, Quantity, SEMANTICS,
    Sample, Spread, SwitchRecord, Window,
};
pub use measures::probe::{Departure, Observer, Probe};
pub use open::open_fabric::{Leaving, OpenFabric, Packet};
pub use open::open_hosts::{
    Delivery, HostAction, MessageStart, NAME_BYTES, OpenHost, OpenOutcome, OpenRows,
};
pub use parallel::communicator::{Communicator, ProcessGroup, RankFailure};
pub use partition::partitioning::{packet_hops_at_full_rate, partitions_worth};
pub use setup::Setup;

/// The examples of the file for the registry are tests.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
