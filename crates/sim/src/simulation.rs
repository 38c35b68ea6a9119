//! Engines of one type, whatever hears of them.
//!
//! [`Engine`] is compiled for each type of probe, so that a probe that is off costs nothing, and in
//! each crate that names such a type, as well or as little optimised as that crate. Here it is done
//! once: for runs that nobody hears from inside, and for those with one [`Listener`] of any type.
//! Calls that go through a table are then a few for each chunk of a run, and one for each event of
//! a run that is heard.

use tidegate_core::{PathOracle, Time};

use crate::engine::Engine;
use crate::failure::Failure;
use crate::outcome::{FlowRecord, Outcome, Sample};
use crate::peers::{Lost, Peers};
use crate::probe::{Listener, Probe};
use crate::setup::Setup;

/// A simulation in progress: what all engines can do. See [`Engine`] for each.
#[allow(missing_docs, reason = "what Engine says of them")]
pub trait Simulation: Send {
    fn serve(&mut self) -> Result<(), Lost>;
    fn now(&self) -> Time;
    fn parts(&self) -> usize;
    fn ranks(&self) -> usize;
    fn packet_hops(&self) -> u64;
    fn paths(&self) -> &dyn PathOracle;
    fn is_over(&self) -> bool;
    fn advance_some(&mut self, until: Time, work: u64) -> Result<bool, Failure>;
    fn take_finished(&mut self, out: &mut Vec<FlowRecord>) -> Result<(), Lost>;
    fn sample(&mut self, out: &mut Vec<Sample>) -> Result<(), Lost>;
    fn finish(self: Box<Self>) -> Result<Outcome, Lost>;
}

impl<P: Probe> Simulation for Engine<P> {
    fn serve(&mut self) -> Result<(), Lost> {
        Engine::serve(self)
    }
    fn now(&self) -> Time {
        Engine::now(self)
    }
    fn parts(&self) -> usize {
        Engine::parts(self)
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
    fn take_finished(&mut self, out: &mut Vec<FlowRecord>) -> Result<(), Lost> {
        Engine::take_finished(self, out)
    }
    fn sample(&mut self, out: &mut Vec<Sample>) -> Result<(), Lost> {
        Engine::sample(self, out)
    }
    fn finish(self: Box<Self>) -> Result<Outcome, Lost> {
        Engine::finish(*self)
    }
}

/// A run that nobody hears from inside, in at most `parts` parts.
///
/// # Errors
/// As [`Engine::in_parts`].
pub fn silent(setup: Setup, parts: usize) -> Result<Box<dyn Simulation>, String> {
    Ok(Box::new(Engine::in_parts(setup, vec![(); parts])?))
}

/// A run of one part that `listener` hears.
///
/// # Errors
/// As [`Engine::new`].
pub fn heard(setup: Setup, listener: Box<dyn Listener>) -> Result<Box<dyn Simulation>, String> {
    Ok(Box::new(Engine::new(setup, listener)?))
}

/// A run in several processes, at most `parts` parts in each, that nobody hears from inside.
///
/// # Errors
/// As [`Engine::among`].
pub fn among(
    setup: Setup,
    parts: usize,
    peers: Box<dyn Peers>,
) -> Result<Box<dyn Simulation>, String> {
    Ok(Box::new(Engine::among(setup, vec![(); parts], peers)?))
}
