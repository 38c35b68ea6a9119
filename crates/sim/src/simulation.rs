//! Engines of one type, whatever hears of them.
//!
//! [`Engine`] is compiled for each type of probe, so that a probe that is off costs nothing, and in
//! each crate that names such a type, as well or as little optimised as that crate. Here it is done
//! once: for runs that nobody hears from inside, and for those with one [`Observer`] of any type.
//! Calls that go through a table are then a few for each chunk of a run, and one for each event of
//! a run that is heard.

use tidegate_core::{PathOracle, Time};

use crate::communicator::{Communicator, RankFailure};
use crate::engine::Engine;
use crate::failure::Failure;
use crate::outcome::{FlowRecord, Outcome, Sample};
use crate::probe::{Observer, Probe};
use crate::setup::Setup;

/// A simulation in progress: what all engines can do. See [`Engine`] for each.
#[allow(missing_docs, reason = "what Engine says of them")]
pub trait Simulation: Send {
    fn serve(&mut self) -> Result<(), RankFailure>;
    fn now(&self) -> Time;
    fn end(&self) -> Time;
    fn awaited(&self) -> u64;
    fn partitions(&self) -> usize;
    fn ranks(&self) -> usize;
    fn packet_hops(&self) -> u64;
    fn paths(&self) -> &dyn PathOracle;
    fn is_over(&self) -> bool;
    fn advance_some(&mut self, until: Time, work: u64) -> Result<bool, Failure>;
    fn take_finished(&mut self, out: &mut Vec<FlowRecord>) -> Result<(), RankFailure>;
    fn sample(&mut self, out: &mut Vec<Sample>) -> Result<(), RankFailure>;
    fn finish(self: Box<Self>) -> Result<Outcome, RankFailure>;
}

impl<P: Probe> Simulation for Engine<P> {
    fn serve(&mut self) -> Result<(), RankFailure> {
        Engine::serve(self)
    }
    fn now(&self) -> Time {
        Engine::now(self)
    }
    fn end(&self) -> Time {
        Engine::end(self)
    }
    fn awaited(&self) -> u64 {
        Engine::awaited(self)
    }
    fn partitions(&self) -> usize {
        Engine::partitions(self)
    }
    fn ranks(&self) -> usize {
        Engine::ranks(self)
    }
    fn packet_hops(&self) -> u64 {
        Engine::packet_hops(self)
    }
    fn paths(&self) -> &dyn PathOracle {
        Engine::paths(self)
    }
    fn is_over(&self) -> bool {
        Engine::is_over(self)
    }
    fn advance_some(&mut self, until: Time, work: u64) -> Result<bool, Failure> {
        Engine::advance_some(self, until, work)
    }
    fn take_finished(&mut self, out: &mut Vec<FlowRecord>) -> Result<(), RankFailure> {
        Engine::take_finished(self, out)
    }
    fn sample(&mut self, out: &mut Vec<Sample>) -> Result<(), RankFailure> {
        Engine::sample(self, out)
    }
    fn finish(self: Box<Self>) -> Result<Outcome, RankFailure> {
        Engine::finish(*self)
    }
}

/// A run that nobody hears from inside, in at most `parts` parts.
///
/// # Errors
/// As [`Engine::in_parts`].
pub fn silent(setup: Setup, partitions: usize) -> Result<Box<dyn Simulation>, String> {
    Ok(Box::new(Engine::in_partitions(setup, vec![(); partitions])?))
}

/// A run of one partition that `listener` hears.
///
/// # Errors
/// As [`Engine::new`].
pub fn heard(setup: Setup, listener: Box<dyn Observer>) -> Result<Box<dyn Simulation>, String> {
    Ok(Box::new(Engine::new(setup, listener)?))
}

/// A run in several processes, at most `parts` parts in each, that nobody hears from inside.
///
/// # Errors
/// As [`Engine::among`].
pub fn among(
    setup: Setup,
    partitions: usize,
    communicator: Box<dyn Communicator>,
) -> Result<Box<dyn Simulation>, String> {
    Ok(Box::new(Engine::among(setup, vec![(); partitions], communicator)?))
}
