//! Simulations behind one type, whatever their observers.
//!
//! [`Engine`] is generic over the probe, so a disabled probe costs nothing. It is compiled in each
//! crate that names such a type, with that crate's optimisation level. This module instantiates it
//! once: for runs without an observer, and for runs with one boxed [`Observer`], which have one
//! partition. Dynamic dispatch then costs a few calls per chunk of a run, and one per event of an
//! observed run.

use tidegate_core::{PathOracle, Time};

use crate::engine::failure::Failure;
use crate::engine::run::Run;
use crate::engine::{Engine, Form};
use crate::measures::outcome::{FlowRecord, Outcome, Sample};
use crate::measures::probe::{Observer, Probe};
use crate::naming::Naming;
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
    fn set_threads(&mut self, threads: usize);
    fn ranks(&self) -> usize;
    fn packet_hops(&self) -> u64;
    fn live_flows(&self) -> usize;
    fn paths(&self) -> &dyn PathOracle;
    fn is_over(&self) -> bool;
    fn advance_some(&mut self, until: Time, work: u64) -> Result<bool, Failure>;
    fn take_finished(&mut self, out: &mut Vec<FlowRecord>) -> Result<(), RankFailure>;
    fn sample(&mut self, out: &mut Vec<Sample>) -> Result<(), RankFailure>;
    fn finish(self: Box<Self>) -> Result<Outcome, RankFailure>;
}

impl<P: Probe, N: Naming> Simulation for Run<P, N> {
    fn serve(&mut self) -> Result<(), RankFailure> {
        Run::serve(self)
    }
    fn now(&self) -> Time {
        Run::now(self)
    }
    fn end(&self) -> Time {
        Run::end(self)
    }
    fn awaited(&self) -> u64 {
        Run::awaited(self)
    }
    fn partitions(&self) -> usize {
        Run::partitions(self)
    }
    fn set_threads(&mut self, threads: usize) {
        Run::set_threads(self, threads)
    }
    fn ranks(&self) -> usize {
        Run::ranks(self)
    }
    fn packet_hops(&self) -> u64 {
        Run::packet_hops(self)
    }
    fn live_flows(&self) -> usize {
        Run::live_flows(self)
    }
    fn paths(&self) -> &dyn PathOracle {
        Run::paths(self)
    }
    fn is_over(&self) -> bool {
        Run::is_over(self)
    }
    fn advance_some(&mut self, until: Time, work: u64) -> Result<bool, Failure> {
        Run::advance_some(self, until, work)
    }
    fn take_finished(&mut self, out: &mut Vec<FlowRecord>) -> Result<(), RankFailure> {
        Run::take_finished(self, out)
    }
    fn sample(&mut self, out: &mut Vec<Sample>) -> Result<(), RankFailure> {
        Run::sample(self, out)
    }
    fn finish(self: Box<Self>) -> Result<Outcome, RankFailure> {
        Run::finish(*self)
    }
}

/// The run of an engine, whatever its form.
fn boxed(engine: Engine) -> Box<dyn Simulation> {
    match engine.0 {
        Form::Whole(run) => Box::new(run),
        Form::Partitioned(run) => Box::new(run),
    }
}

/// A run without an observer, in at most `partitions` partitions.
///
/// # Errors
/// As [`Engine::in_partitions`].
pub fn unobserved(setup: Setup, partitions: usize) -> Result<Box<dyn Simulation>, String> {
    Ok(boxed(Engine::in_partitions(setup, vec![(); partitions])?))
}

/// A run in one partition that reports to `observer`.
///
/// # Errors
/// As [`Engine::new`].
pub fn observed(setup: Setup, observer: Box<dyn Observer>) -> Result<Box<dyn Simulation>, String> {
    Ok(Box::new(Engine::whole(setup, observer)?))
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
    Ok(boxed(Engine::among(setup, vec![(); partitions], communicator)?))
}
