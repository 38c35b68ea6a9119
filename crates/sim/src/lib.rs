//! The engine: packets, links, switches and hosts in simulated time. It knows no file and no text.
//!
//! ```text
//! let mut engine = Engine::new(setup, ())?;      // () probes nothing
//! while !engine.is_over() {
//!     engine.advance(engine.now() + chunk);
//!     engine.take_finished(&mut rows);
//! }
//! let outcome = engine.finish();
//! ```
mod agenda;
mod bytes;
mod credits;
mod deadlock;
mod disciplines;
mod engine;
mod events;
mod exchange;
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
mod part;
mod partition;
mod peers;
mod port;
mod prefetch;
mod probe;
mod ranks;
mod routing;
mod run;
mod scheduler;
mod setup;
pub mod simulation;
mod stops;
mod stretch;
mod symmetric;
mod told;
mod turns;
mod voqs;

pub use deadlock::Deadlock;
pub use engine::Engine;
pub use failure::Failure;
pub use generate::flows;

pub use open_fabric::{Leaving, OpenFabric, Packet};
pub use open_hosts::{Begun, Deed, Delivery, NAME_BYTES, OpenHost, OpenOutcome, OpenRows};
pub use outcome::{
    Exchange, FaultCounts, FlowRecord, LinkRecord, Outcome, PauseStorm, Quantity, SEMANTICS,
    Sample, Spread, Step, SwitchRecord, Window,
};
pub use partition::parts_worth;
pub use peers::{Lost, Peers};
pub use probe::{Departure, Listener, Probe};
pub use setup::Setup;
