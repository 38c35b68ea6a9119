//! The engine as others see it.

use std::sync::Arc;

use tidegate_algos::Stack;
use tidegate_core::fabric::Node;
use tidegate_core::routes::Routes;
use tidegate_core::{FabricProperties, PathOracle, Span, Time};

use crate::communicator::{Communicator, RankFailure};
use crate::disciplines;
use crate::events::{FAR, MAX_SOURCES};
use crate::failure::Failure;
use crate::host::MAX_STACKS;
use crate::marking::Markings;
use crate::naming::{Same, Table};
use crate::outcome::{FlowRecord, Outcome, Sample};
use crate::partitioning::Partitioning;
use crate::port::longest_flight;
use crate::probe::Probe;
use crate::run::Run;
use crate::setup::Setup;

/// A simulation in progress.
pub struct Engine<P: Probe = ()>(Form<P>);

/// A run of one partition pays nothing for the names that several need.
enum Form<P> {
    Whole(Run<P, Same>),
    Parts(Run<P, Table>),
}

/// Asks the run, whatever its form.
macro_rules! ask {
    ($form:expr, $run:ident => $answer:expr) => {
        match $form {
            Form::Whole($run) => $answer,
            Form::Parts($run) => $answer,
        }
    };
}

impl<P: Probe> Engine<P> {
    /// Builds the network and schedules the first arrivals.
    ///
    /// # Errors
    /// When the fabric cannot carry the workload: a host without exactly one link, hosts that
    /// cannot reach each other, too many links and hosts for the event list, a link on which a
    /// packet spends more than four seconds, more than 65,535 ways to mark.
    pub fn new(setup: Setup, probe: P) -> Result<Engine<P>, String> {
        Self::in_partitions(setup, vec![probe])
    }

    /// As [`new`](Self::new), in at most as many parts as there are probes, each with a probe of
    /// its own and, while [`advance`](Self::advance) runs, a thread. Fewer where the fabric has
    /// fewer racks; one with explicit dequeues. No outcome depends on their number.
    ///
    /// # Errors
    /// As [`new`](Self::new).
    pub fn in_partitions(setup: Setup, probes: Vec<P>) -> Result<Engine<P>, String> {
        let ground = Ground::of(setup)?;
        let fabric = &ground.setup.fabric;
        let partitioning = match probes.len() {
            2.. if !P::EXPLICIT_DEQUEUES => Partitioning::new(fabric, probes.len()),
            _ => Partitioning::whole(fabric),
        };
        Ok(Engine(match partitioning.partitions {
            1 => Form::Whole(Run::new(ground, partitioning, probes, None)),
            _ => Form::Parts(Run::new(ground, partitioning, probes, None)),
        }))
    }

    /// As [`in_parts`](Self::in_parts), in at most as many parts in each of several processes as
    /// there are probes, as many in each. All have to call this with the same setup and as many
    /// probes. Rank 0 is then asked as if it were alone, and the others [`serve`](Self::serve) it.
    /// A process builds only its own parts, and has one at least.
    ///
    /// # Errors
    /// As [`new`](Self::new); and where the fabric has fewer racks that can be cut apart than there
    /// are processes.
    pub fn among(
        setup: Setup,
        mut probes: Vec<P>,
        communicator: Box<dyn Communicator>,
    ) -> Result<Engine<P>, String> {
        debug_assert!(!P::EXPLICIT_DEQUEUES, "only the whole can have an event for every dequeue");
        let ground = Ground::of(setup)?;
        let (fabric, ranks) = (&ground.setup.fabric, communicator.count());
        let most = Partitioning::new(fabric, ranks * probes.len()).partitions;
        if most < ranks {
            return Err(format!(
                "{ranks} processes are more than this fabric can be cut into, which is {most}: \
                 racks, and links between switches of 50 ns at least; start {most} at most"
            ));
        }
        probes.truncate(most / ranks);
        let partitioning = Partitioning::new(fabric, ranks * probes.len());
        Ok(Engine(Form::Parts(Run::new(ground, partitioning, probes, Some(communicator)))))
    }

    /// Does what rank 0 is asked to do, until it has finished: for all other ranks. Their engines
    /// are asked nothing else but for their probes.
    ///
    /// # Errors
    /// Where a rank is lost.
    pub fn serve(&mut self) -> Result<(), RankFailure> {
        ask!(&mut self.0, run => run.serve())
    }

    /// How far the run has come.
    pub fn now(&self) -> Time {
        ask!(&self.0, run => run.now())
    }

    /// When what is measured ends, as far as is known: a run may end by itself before.
    pub fn end(&self) -> Time {
        ask!(&self.0, run => run.end())
    }

    /// Messages that the run waits for and that have not finished.
    pub fn awaited(&self) -> u64 {
        ask!(&self.0, run => run.awaited())
    }

    /// Parts that run beside each other in this process.
    pub fn partitions(&self) -> usize {
        ask!(&self.0, run => run.partitions())
    }

    /// Processes that the run is done in.
    pub fn ranks(&self) -> usize {
        ask!(&self.0, run => run.ranks())
    }

    /// Packets delivered over any link so far; in other processes, when rows were last taken.
    pub fn packet_hops(&self) -> u64 {
        ask!(&self.0, run => run.packet_hops())
    }

    /// What a path looks like: base RTT, rates, hops.
    pub fn paths(&self) -> &dyn PathOracle {
        ask!(&self.0, run => run.paths())
    }

    /// The probe, or that of the first partition.
    pub fn probe(&self) -> &P {
        ask!(&self.0, run => run.probe(0))
    }

    /// The probes of all partitions of this process.
    pub fn probes(&self) -> impl Iterator<Item = &P> {
        (0..self.partitions()).map(|partition| ask!(&self.0, run => run.probe(partition)))
    }

    /// Flows submitted in this process and not taken by [`take_finished`](Self::take_finished).
    pub fn live_flows(&self) -> usize {
        ask!(&self.0, run => run.live_flows())
    }

    /// Packets that are somewhere in the partitions of this process.
    pub fn packets_in_flight(&self) -> usize {
        ask!(&self.0, run => run.packets_in_flight())
    }

    /// Whether nothing is left to simulate.
    pub fn is_over(&self) -> bool {
        ask!(&self.0, run => run.is_over())
    }

    /// Runs to `until` or the end of the run, whichever is first. The outcome does not depend on
    /// the steps.
    ///
    /// # Panics
    /// Where the run cannot go on; [`advance_some`](Self::advance_some) says so instead.
    pub fn advance(&mut self, until: Time) {
        while !self.advance_some(until, u64::MAX).unwrap_or_else(|why| panic!("{why}")) {}
    }

    /// As [`advance`](Self::advance), but for at most about `work` events and submissions, so that
    /// it returns soon: `false` where it has to be called again before anything else is asked of
    /// the engine. The outcome does not depend on that either.
    ///
    /// # Errors
    /// Where another process is lost, or ports pause each other in a circle.
    pub fn advance_some(&mut self, until: Time, work: u64) -> Result<bool, Failure> {
        ask!(&mut self.0, run => run.advance_some(until, work))
    }

    /// Appends the flows that finished, in order of completion, then id.
    ///
    /// # Errors
    /// Where another process is lost.
    pub fn take_finished(&mut self, out: &mut Vec<FlowRecord>) -> Result<(), RankFailure> {
        ask!(&mut self.0, run => run.take_finished(out))
    }

    /// Samples the running flows and the ports: delivered bytes in all, windows, queues.
    ///
    /// # Errors
    /// Where another process is lost.
    pub fn sample(&mut self, out: &mut Vec<Sample>) -> Result<(), RankFailure> {
        ask!(&mut self.0, run => run.sample(out))
    }

    /// Payload submitted at `host`, which is in this process, and not yet sent for the first time.
    pub fn backlog_bytes(&self, host: u32) -> u64 {
        ask!(&self.0, run => run.backlog_bytes(host))
    }

    /// Ends the run where it is.
    ///
    /// # Errors
    /// Where another process is lost.
    pub fn finish(self) -> Result<Outcome, RankFailure> {
        ask!(self.0, run => run.finish())
    }
}

/// What all partitions of a run stand on.
pub(crate) struct Ground {
    pub(crate) setup: Arc<Setup>,
    pub(crate) routes: Arc<Routes>,
    pub(crate) markings: Markings,
    /// Packets have room for hop records: some protocol asks for them.
    pub(crate) keeps_records: bool,
}

impl Ground {
    /// # Errors
    /// When the fabric cannot carry the workload.
    pub(crate) fn of(setup: Setup) -> Result<Ground, String> {
        let fabric = &setup.fabric;
        let scheduled = !fabric.rate_changes.is_empty()
            || fabric.circuits.is_some()
            || fabric.switches.iter().any(|s| s.discipline.is_some() || s.pausing.is_some());
        let each = if scheduled { 4 } else { 2 };
        let sources = fabric.links.len() * each + fabric.hosts.len() + 3;
        if sources > MAX_SOURCES {
            return Err(format!("{sources} links and hosts are more than {MAX_SOURCES}"));
        }
        if setup.stacks.len() > MAX_STACKS {
            let stacks = setup.stacks.len();
            return Err(format!("{stacks} protocols side by side are more than {MAX_STACKS}"));
        }
        refuse_slow_links(&setup)?;
        disciplines::check(fabric)?;
        disciplines::check_circuits(&setup)?;
        let routes = Arc::new(Routes::new(fabric)?);
        let markings = Markings::of(fabric)?;
        let properties = FabricProperties::of(fabric, routes.reach(), setup.bdp_bytes);
        let keeps = |stack: &Stack| stack.requirements(&properties).telemetry.hop_records;
        let keeps_records = setup.stacks.iter().any(keeps);
        Ok(Ground { setup: Arc::new(setup), routes, markings, keeps_records })
    }
}

/// # Errors
/// A link that carries a packet for longer than the event list looks ahead.
fn refuse_slow_links(setup: &Setup) -> Result<(), String> {
    let fabric = &setup.fabric;
    for port in 0..2 * fabric.links.len() as u32 {
        let link = &fabric.links[port as usize / 2];
        let latency = match fabric.port_ends(port).to {
            Node::Switch(s) => fabric.switches[s as usize].latency,
            Node::Host(_) => Span::ZERO,
        };
        let flight = longest_flight(link.rate).plus(link.delay).plus(latency);
        if flight > FAR {
            let name = |node| match node {
                Node::Host(h) => &fabric.hosts[h as usize],
                Node::Switch(s) => &fabric.switches[s as usize].name,
            };
            let (a, b) = (name(link.a), name(link.b));
            return Err(format!(
                "the link between {a} and {b} takes up to {flight} to carry a packet \
                 (serialisation, propagation and switch latency); at most {FAR} is allowed"
            ));
        }
    }
    Ok(())
}
