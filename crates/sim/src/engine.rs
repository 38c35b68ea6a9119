//! The public interface of the engine.

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

/// A run with one partition avoids the mapping of IDs that several need.
enum Form<P> {
    Whole(Run<P, Same>),
    Parts(Run<P, Table>),
}

/// Calls the run, whatever its form.
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
    /// If the fabric cannot carry the workload: a host without exactly one link, hosts that cannot
    /// reach each other, too many links and hosts for the event list, a link on which a packet
    /// spends more than four seconds, or more than 65,535 ECN configurations.
    pub fn new(setup: Setup, probe: P) -> Result<Engine<P>, String> {
        Self::in_partitions(setup, vec![probe])
    }

    /// As [`new`](Self::new), with at most one partition per probe. Each partition has a probe of
    /// its own and, while [`advance`](Self::advance) runs, a thread. There are fewer partitions if
    /// the fabric has fewer racks, and only one with explicit dequeues. The outcome does not depend
    /// on their number.
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

    /// As [`in_partitions`](Self::in_partitions), in several processes with at most one partition
    /// per probe in each. All processes have equally many partitions, at least one, and build only
    /// their own. All must call this with the same setup and number of probes. Rank 0 is then used
    /// like an engine of one process; the other ranks [`serve`](Self::serve) it.
    ///
    /// # Errors
    /// As [`new`](Self::new), or if the fabric has fewer racks that can be separated than there are
    /// processes.
    pub fn among(
        setup: Setup,
        mut probes: Vec<P>,
        communicator: Box<dyn Communicator>,
    ) -> Result<Engine<P>, String> {
        debug_assert!(!P::EXPLICIT_DEQUEUES, "explicit dequeues need a single partition");
        let ground = Ground::of(setup)?;
        let (fabric, ranks) = (&ground.setup.fabric, communicator.count());
        let most = Partitioning::new(fabric, ranks * probes.len()).partitions;
        if most < ranks {
            return Err(format!(
                "{ranks} processes: this fabric can be divided among at most {most} (partitions \
                 consist of racks, separated by links of at least 50 ns); start at most {most}"
            ));
        }
        probes.truncate(most / ranks);
        let partitioning = Partitioning::new(fabric, ranks * probes.len());
        Ok(Engine(Form::Parts(Run::new(ground, partitioning, probes, Some(communicator)))))
    }

    /// Executes the operations of rank 0 until it has finished. All other ranks call this, and then
    /// only read their probes.
    ///
    /// # Errors
    /// If a rank is lost.
    pub fn serve(&mut self) -> Result<(), RankFailure> {
        ask!(&mut self.0, run => run.serve())
    }

    /// Time to which the run has advanced.
    pub fn now(&self) -> Time {
        ask!(&self.0, run => run.now())
    }

    /// End of the measured window: `duration`, or earlier if the run has ended by itself.
    pub fn end(&self) -> Time {
        ask!(&self.0, run => run.end())
    }

    /// Number of incomplete messages that the run waits for.
    pub fn awaited(&self) -> u64 {
        ask!(&self.0, run => run.awaited())
    }

    /// Number of partitions in this process.
    pub fn partitions(&self) -> usize {
        ask!(&self.0, run => run.partitions())
    }

    /// Number of processes.
    pub fn ranks(&self) -> usize {
        ask!(&self.0, run => run.ranks())
    }

    /// Packets delivered over any link so far. For other processes, as of the last call of
    /// [`take_finished`](Self::take_finished).
    pub fn packet_hops(&self) -> u64 {
        ask!(&self.0, run => run.packet_hops())
    }

    /// Path properties: base RTT, rates, hops.
    pub fn paths(&self) -> &dyn PathOracle {
        ask!(&self.0, run => run.paths())
    }

    /// The probe of the first partition.
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

    /// Packets in this process, queued or in flight.
    pub fn packets_in_flight(&self) -> usize {
        ask!(&self.0, run => run.packets_in_flight())
    }

    /// Returns whether the run has ended.
    pub fn is_over(&self) -> bool {
        ask!(&self.0, run => run.is_over())
    }

    /// Advances to `until` or to the end of the run, whichever is first. The outcome does not
    /// depend on the steps.
    ///
    /// # Panics
    /// If the run fails; [`advance_some`](Self::advance_some) returns the error instead.
    pub fn advance(&mut self, until: Time) {
        while !self.advance_some(until, u64::MAX).unwrap_or_else(|why| panic!("{why}")) {}
    }

    /// As [`advance`](Self::advance), but limited to about `work` events and submissions, so that
    /// it returns soon. If it returns `false`, it must be called again before any other method. The
    /// outcome does not depend on the limit.
    ///
    /// # Errors
    /// If another process is lost, or ports are in a PFC deadlock.
    pub fn advance_some(&mut self, until: Time, work: u64) -> Result<bool, Failure> {
        ask!(&mut self.0, run => run.advance_some(until, work))
    }

    /// Appends the flows that have completed, in order of completion, then ID.
    ///
    /// # Errors
    /// If another process is lost.
    pub fn take_finished(&mut self, out: &mut Vec<FlowRecord>) -> Result<(), RankFailure> {
        ask!(&mut self.0, run => run.take_finished(out))
    }

    /// Samples the running flows and the ports: delivered bytes, windows, queues.
    ///
    /// # Errors
    /// If another process is lost.
    pub fn sample(&mut self, out: &mut Vec<Sample>) -> Result<(), RankFailure> {
        ask!(&mut self.0, run => run.sample(out))
    }

    /// Payload submitted at `host`, which must be in this process, and not yet sent for the first
    /// time.
    pub fn backlog_bytes(&self, host: u32) -> u64 {
        ask!(&self.0, run => run.backlog_bytes(host))
    }

    /// Ends the run at the present time.
    ///
    /// # Errors
    /// If another process is lost.
    pub fn finish(self) -> Result<Outcome, RankFailure> {
        ask!(self.0, run => run.finish())
    }
}

/// State that all partitions of a run share.
pub(crate) struct Ground {
    pub(crate) setup: Arc<Setup>,
    pub(crate) routes: Arc<Routes>,
    pub(crate) markings: Markings,
    /// Packets have room for hop records, because some protocol needs them.
    pub(crate) keeps_records: bool,
}

impl Ground {
    /// # Errors
    /// If the fabric cannot carry the workload.
    pub(crate) fn of(setup: Setup) -> Result<Ground, String> {
        let fabric = &setup.fabric;
        let scheduled = !fabric.rate_changes.is_empty()
            || fabric.circuits.is_some()
            || fabric.switches.iter().any(|s| s.discipline.is_some() || s.pausing.is_some());
        let each = if scheduled { 4 } else { 2 };
        let sources = fabric.links.len() * each + fabric.hosts.len() + 3;
        if sources > MAX_SOURCES {
            return Err(format!(
                "the fabric needs {sources} event sources for its links and hosts; at most \
                 {MAX_SOURCES} are supported"
            ));
        }
        if setup.stacks.len() > MAX_STACKS {
            let stacks = setup.stacks.len();
            return Err(format!(
                "the run has {stacks} protocols; at most {MAX_STACKS} are supported"
            ));
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
/// If a link carries a packet for longer than the horizon of the event list.
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
