//! Simulations behind one type, whatever their observers.
//!
//! [`Engine`] is generic over the probe, so a disabled probe costs nothing. It is compiled in each
//! crate that names such a type, with that crate's optimisation level. This module instantiates it
//! once: for runs without an observer, and for runs with one boxed [`Observer`]. Dynamic dispatch
//! then costs a few calls per chunk of a run, and one per event of an observed run.

use tidegate_core::{PathOracle, Time};

use crate::engine::Engine;
use crate::engine::failure::Failure;
use crate::measures::outcome::{FlowRecord, Outcome, Sample};
use crate::measures::probe::{Observer, Probe};
use crate::parallel::communicator::{Communicator, RankFailure};
use crate::setup::Setup;

/// A simulation in progress, with the operations of [`Engine`].
#[allow(missing_docs, reason = "documented at Engine")]
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

/// A run without an observer, in at most `partitions` partitions.
///
/// # Errors
/// As [`Engine::in_partitions`].
pub fn silent(setup: Setup, partitions: usize) -> Result<Box<dyn Simulation>, String> {
    Ok(Box::new(Engine::in_partitions(setup, vec![(); partitions])?))
}

/// A run in one partition that reports to `listener`.
///
/// # Errors
/// As [`Engine::new`].
pub fn heard(setup: Setup, listener: Box<dyn Observer>) -> Result<Box<dyn Simulation>, String> {
    Ok(Box::new(Engine::new(setup, listener)?))
}

/// A run without an observer in several processes, with at most `partitions` partitions in each.
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
