//! The public interface of the engine.

pub(crate) mod failure;
pub(crate) mod run;

use tidegate_core::{PathOracle, Time};

use crate::engine::failure::Failure;
use crate::engine::run::Run;
use crate::measures::outcome::{FlowRecord, Outcome, Sample};
use crate::measures::probe::Probe;
use crate::naming::{Same, Table};
use crate::parallel::communicator::{Communicator, RankFailure};
use crate::partition::partitioning::Partitioning;
use crate::run_context::RunContext;
use crate::setup::Setup;

/// A simulation in progress.
pub struct Engine<P: Probe = ()>(pub(crate) Form<P>);

/// A run with one partition avoids the mapping of IDs that several need.
pub(crate) enum Form<P> {
    Whole(Run<P, Same>),
    Partitioned(Run<P, Table>),
}

/// Calls the run, whatever its form.
macro_rules! delegate {
    ($form:expr, $run:ident => $result:expr) => {
        match $form {
            Form::Whole($run) => $result,
            Form::Partitioned($run) => $result,
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
    /// its own and, while [`advance`](Self::advance) runs, a thread
    /// (see [`set_threads`](Self::set_threads)). There are fewer partitions if
    /// the fabric has fewer racks, and only one with explicit dequeues. The outcome does not depend
    /// on their number.
    ///
    /// # Errors
    /// As [`new`](Self::new).
    pub fn in_partitions(setup: Setup, probes: Vec<P>) -> Result<Engine<P>, String> {
        let context = RunContext::of(setup)?;
        let (fabric, least) = (&context.setup.fabric, context.setup.least_bytes());
        let partitioning = match probes.len() {
            2.. if !P::EXPLICIT_DEQUEUES => Partitioning::new(fabric, least, probes.len()),
            _ => Partitioning::whole(fabric),
        };
        Ok(Engine(match partitioning.partitions {
            1 => Form::Whole(Run::new(context, partitioning, probes, None)),
            _ => Form::Partitioned(Run::new(context, partitioning, probes, None)),
        }))
    }

    /// As [`new`](Self::new), without the code for several partitions.
    #[cfg(not(test))]
    pub(crate) fn whole(setup: Setup, probe: P) -> Result<Run<P, Same>, String> {
        let context = RunContext::of(setup)?;
        let partitioning = Partitioning::whole(&context.setup.fabric);
        Ok(Run::new(context, partitioning, vec![probe], None))
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
        let context = RunContext::of(setup)?;
        let (fabric, ranks) = (&context.setup.fabric, communicator.count());
        let least = context.setup.least_bytes();
        let most = Partitioning::new(fabric, least, ranks * probes.len()).partitions;
        if most < ranks {
            return Err(format!(
                "{ranks} processes: this fabric can be divided among at most {most} (partitions \
                 consist of racks, separated by links of at least 50 ns); start at most {most}"
            ));
        }
        probes.truncate(most / ranks);
        let partitioning = Partitioning::new(fabric, least, ranks * probes.len());
        Ok(Engine(Form::Partitioned(Run::new(context, partitioning, probes, Some(communicator)))))
    }

    /// Executes the operations of rank 0 until it has finished. All other ranks call this, and then
    /// only read their probes.
    ///
    /// # Errors
    /// If a rank is lost.
    pub fn serve(&mut self) -> Result<(), RankFailure> {
        delegate!(&mut self.0, run => run.serve())
    }

    /// Time to which the run has advanced.
    pub fn now(&self) -> Time {
        delegate!(&self.0, run => run.now())
    }

    /// End of the measured window: `duration`, or earlier if the run has ended by itself.
    pub fn end(&self) -> Time {
        delegate!(&self.0, run => run.end())
    }

    /// Number of incomplete messages that the run waits for.
    pub fn awaited(&self) -> u64 {
        delegate!(&self.0, run => run.awaited())
    }

    /// Number of partitions in this process.
    pub fn partitions(&self) -> usize {
        delegate!(&self.0, run => run.partitions())
    }

    /// Sets the number of threads of the next call of [`advance`](Self::advance). At first each
    /// partition has a thread of its own, and more have no effect. The outcome does not depend on
    /// their number.
    pub fn set_threads(&mut self, threads: usize) {
        delegate!(&mut self.0, run => run.set_threads(threads))
    }

    /// Number of processes.
    pub fn ranks(&self) -> usize {
        delegate!(&self.0, run => run.ranks())
    }

    /// Packets delivered over any link so far. For other processes, as of the last call of
    /// [`take_finished`](Self::take_finished).
    pub fn packet_hops(&self) -> u64 {
        delegate!(&self.0, run => run.packet_hops())
    }

    /// Path properties: base RTT, rates, hops.
    pub fn paths(&self) -> &dyn PathOracle {
        delegate!(&self.0, run => run.paths())
    }

    /// The probe of the first partition.
    pub fn probe(&self) -> &P {
        delegate!(&self.0, run => run.probe(0))
    }

    /// The probes of all partitions of this process.
    pub fn probes(&self) -> impl Iterator<Item = &P> {
        (0..self.partitions()).map(|partition| delegate!(&self.0, run => run.probe(partition)))
    }

    /// Flows submitted in this process and not taken by [`take_finished`](Self::take_finished).
    pub fn live_flows(&self) -> usize {
        delegate!(&self.0, run => run.live_flows())
    }

    /// Packets in this process, queued or in flight.
    pub fn packets_in_flight(&self) -> usize {
        delegate!(&self.0, run => run.packets_in_flight())
    }

    /// Returns whether the run has ended.
    pub fn is_over(&self) -> bool {
        delegate!(&self.0, run => run.is_over())
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
        delegate!(&mut self.0, run => run.advance_some(until, work))
    }

    /// Appends the flows that have completed, in order of completion, then ID.
    ///
    /// # Errors
    /// If another process is lost.
    pub fn take_finished(&mut self, out: &mut Vec<FlowRecord>) -> Result<(), RankFailure> {
        delegate!(&mut self.0, run => run.take_finished(out))
    }

    /// Samples the running flows and the ports: delivered bytes, windows, queues.
    ///
    /// # Errors
    /// If another process is lost.
    pub fn sample(&mut self, out: &mut Vec<Sample>) -> Result<(), RankFailure> {
        delegate!(&mut self.0, run => run.sample(out))
    }

    /// Payload submitted at `host`, which must be in this process, and not yet sent for the first
    /// time.
    pub fn backlog_bytes(&self, host: u32) -> u64 {
        delegate!(&self.0, run => run.backlog_bytes(host))
    }

    /// Ends the run at the present time.
    ///
    /// # Errors
    /// If another process is lost.
    pub fn finish(self) -> Result<Outcome, RankFailure> {
        delegate!(self.0, run => run.finish())
    }
}
