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
mod agenda;
mod boundary_exchange;
mod bytes;
mod communicator;
mod credits;
mod deadlock;
mod dependents;
mod disciplines;
mod engine;
mod events;
mod failure;
mod faults;
mod feed;
mod flows;
mod generate;
mod histogram;
mod host;
mod ingress;
mod jobs;
mod loops;
mod marking;
mod naming;
mod open_fabric;
mod open_hosts;
mod outcome;
mod packets;
mod partition;
mod partitioning;
mod pause_state;
mod port;
mod prefetch;
mod probe;
mod ranks;
mod reports;
mod routing;
mod run;
mod run_interval;
mod scheduler;
mod setup;
pub mod simulation;
mod symmetric;
mod voqs;

pub use deadlock::Deadlock;
pub use engine::Engine;
pub use failure::Failure;
pub use generate::flows;

pub use communicator::{Communicator, ProcessGroup, RankFailure};
pub use open_fabric::{Leaving, OpenFabric, Packet};
pub use open_hosts::{
    Delivery, HostAction, MessageStart, NAME_BYTES, OpenHost, OpenOutcome, OpenRows,
};
pub use outcome::{
    Exchange, FaultCounts, FlowRecord, LinkRecord, Outcome, PauseStorm, Quantity, SEMANTICS,
    Sample, Spread, Step, SwitchRecord, Window,
};
pub use partitioning::partitions_worth;
pub use probe::{Departure, Observer, Probe};
pub use setup::Setup;
