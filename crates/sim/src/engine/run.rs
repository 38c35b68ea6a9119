//! A run: the partitions of its fabric, their inputs, and their combined results.
//!
//! One partition is the whole fabric. Several run in parallel on threads, possibly in several
//! processes. No result depends on their number. Random draws, numbers and tie-breaks are functions
//! of the entity that they concern (a host, a port, a message of a host), never of the order of
//! events over the fabric.

use std::sync::Arc;
use std::thread;

use tidegate_core::routes::Routes;
use tidegate_core::{PathOracle, Rate, Span, Time};

use crate::bytes::Bytes;
use crate::engine::failure::Failure;
use crate::measures::digest;
use crate::measures::iterations::IterationTime;
use crate::measures::outcome::{
    FaultCounts, FlowRecord, LinkRecord, Outcome, Sample, SwitchRecord, Window,
};
use crate::measures::probe::Probe;
use crate::naming::Naming;
use crate::parallel::barrier::PanicGuard;
use crate::parallel::boundary_exchange::{BoundaryExchange, WindowState};
use crate::parallel::communicator::{Communicator, RankFailure};
use crate::parallel::process_partitions::ProcessPartitions;
use crate::parallel::ranks::{Order, Ranks};
use crate::parallel::reports::{Completions, FinalState, Snapshot};
use crate::parallel::run_interval::{Awaits, Coordinator, RunInterval, SharedRun};
use crate::partition::Partition;
use crate::partition::partitioning::Partitioning;
use crate::ports::deadlock::{Detection, Waits};
use crate::run_context::RunContext;
use crate::setup::Setup;
use crate::traffic::feed::Feed;
use crate::traffic::flows::Done;
use crate::traffic::rows::Rows;

/// Records of links, by port, and of switches.
type Measured = (Vec<(u32, LinkRecord)>, Vec<SwitchRecord>);

/// A simulation in progress.
pub(crate) struct Run<P, N> {
    now: Time,
    /// Partitions of this process.
    partitions: Vec<Partition<P, N>>,
    /// Position of these partitions among those of all processes.
    process: ProcessPartitions,
    /// The other processes, if any.
    ranks: Option<Ranks>,
    /// Least time that a packet takes from one partition to another.
    lookahead: Span,
    exchange: BoundaryExchange,
    /// Threads of the next run interval.
    threads: usize,
    feed: Feed,
    rows: Rows,
    routes: Arc<Routes>,
    warm: bool,
    /// Records of links and switches over the measured window, once it is over.
    measured: Option<Measured>,
    /// End of the measured window: `duration`, or earlier if the run has ended by itself.
    end: Time,
    /// Number of incomplete listed messages that the run waits for.
    awaited: u64,
    /// The last interval has reached the condition that it waited for. After a drain, the run is
    /// over.
    reached: bool,
    /// End of a window in which the work limit interrupted a partition that runs alone.
    interrupted: Option<Time>,
    detection: Detection,
    setup: Arc<Setup>,
}

impl<P: Probe, N: Naming> Run<P, N> {
    /// A run with the partitions of `partitioning`, which all ranks share equally.
    pub(crate) fn new(
        context: RunContext,
        partitioning: Partitioning,
        probes: Vec<P>,
        communicator: Option<Box<dyn Communicator>>,
    ) -> Run<P, N> {
        let process = communicator.as_ref().map_or(
            ProcessPartitions::alone(partitioning.partitions),
            |communicator| ProcessPartitions {
                rank: communicator.rank(),
                ranks: communicator.count(),
                partitions: partitioning.partitions / communicator.count(),
            },
        );
        let fabric = &context.setup.fabric;
        let partition = |(number, probe)| Partition::new(&context, &partitioning, number, probe);
        Run {
            now: Time::ZERO,
            partitions: (process.first()..)
                .zip(probes)
                .take(process.partitions)
                .map(partition)
                .collect(),
            process,
            ranks: communicator.map(|communicator| Ranks::new(communicator, process)),
            lookahead: partitioning.lookahead,
            exchange: BoundaryExchange::new(process),
            threads: process.partitions,
            feed: Feed::new(&context.setup, partitioning.of_host),
            rows: Rows::new(fabric.hosts.len(), Window::of(&context.setup)),
            routes: context.routes,
            warm: false,
            measured: None,
            end: context.setup.duration,
            awaited: context.setup.awaited().unwrap_or(0),
            reached: false,
            interrupted: None,
            detection: Detection::new(fabric),
            setup: context.setup,
        }
    }

    pub(crate) fn now(&self) -> Time {
        self.now
    }

    /// Number of partitions per process.
    pub(crate) fn partitions(&self) -> usize {
        self.partitions.len()
    }

    /// Sets the number of threads; at most one per partition has an effect.
    pub(crate) fn set_threads(&mut self, threads: usize) {
        self.threads = threads.clamp(1, self.partitions.len());
    }

    /// Number of processes.
    pub(crate) fn ranks(&self) -> usize {
        self.process.ranks
    }

    pub(crate) fn packet_hops(&self) -> u64 {
        self.own_hops() + self.ranks.as_ref().map_or(0, |ranks| ranks.packet_hops)
    }

    fn own_hops(&self) -> u64 {
        self.partitions.iter().map(|partition| partition.packet_hops).sum()
    }

    pub(crate) fn paths(&self) -> &dyn PathOracle {
        self.partitions[0].paths()
    }

    pub(crate) fn probe(&self, partition: usize) -> &P {
        self.partitions[partition].probe()
    }

    pub(crate) fn live_flows(&self) -> usize {
        self.partitions.iter().map(|partition| partition.flows.live()).sum::<usize>()
            + self.rows.held()
    }

    pub(crate) fn packets_in_flight(&self) -> usize {
        self.partitions.iter().map(Partition::packets_in_flight).sum()
    }

    /// End of the measured window; it can become earlier.
    pub(crate) fn end(&self) -> Time {
        self.end
    }

    /// Messages that the run waits for and that have not finished.
    pub(crate) fn awaited(&self) -> u64 {
        self.awaited
    }

    pub(crate) fn is_over(&self) -> bool {
        self.measured.is_some() && (self.reached || self.now >= self.end.after(self.setup.drain))
    }

    /// Executes the orders of rank 0 until the run has finished.
    pub(crate) fn serve(&mut self) -> Result<(), RankFailure> {
        while let Some(ranks) = &mut self.ranks {
            match ranks.next_order()? {
                Order::Advance(until, work) => _ = self.advance_to(until, work)?,
                Order::DetectDeadlocks => {
                    let waits = self.waits();
                    self.report(&waits)?;
                }
                Order::Rows => {
                    let packet_hops = self.own_hops();
                    let done = done(&mut self.partitions).map(std::mem::take).collect();
                    self.report(&Completions { done, packet_hops })?;
                }
                Order::Sample => {
                    let snapshot = self.snapshot();
                    self.report(&snapshot)?;
                }
                Order::Finish => {
                    let left = self.take_final_state();
                    return self.report(&left);
                }
            }
        }
        Ok(())
    }

    fn report(&mut self, report: &impl Bytes) -> Result<(), RankFailure> {
        self.ranks.as_mut().map_or(Ok(()), |ranks| ranks.report(report))
    }

    /// Sends an order to the other processes, if any.
    fn order(&mut self, order: Order) -> Result<(), RankFailure> {
        self.ranks.as_mut().map_or(Ok(()), |ranks| ranks.order(order))
    }

    pub(crate) fn advance_some(&mut self, until: Time, mut work: u64) -> Result<bool, Failure> {
        loop {
            let end = until.min(self.detection.next);
            let measuring = self.measured.is_none();
            self.order(Order::Advance(end, work))?;
            match self.advance_to(end, work)? {
                None => return Ok(false),
                Some(left) => work = left,
            }
            // The run, and its measured window, may have ended earlier.
            if self.now < self.detection.next {
                return Ok(true);
            }
            self.detect_deadlocks()?;
            if measuring && self.measured.is_some() {
                return Ok(true);
            }
            if end == until || work == 0 {
                return Ok(end == until);
            }
        }
    }

    /// Detects deadlocks and hosts that pause their switches.
    fn detect_deadlocks(&mut self) -> Result<(), Failure> {
        self.order(Order::DetectDeadlocks)?;
        let mut waits = self.waits();
        if let Some(ranks) = &mut self.ranks {
            ranks.collect_reports(|others| waits.join(others))?;
        }
        let found = self.detection.search(&waits, &self.setup.fabric, self.now);
        found.map_or(Ok(()), |deadlock| Err(Failure::Deadlock(deadlock)))
    }

    /// Ports of this process that have been paused since the last search, and what waits for them.
    fn waits(&self) -> Waits {
        let mut all = Waits::default();
        self.partitions.iter().for_each(|partition| all.join(partition.waits(self.now)));
        all
    }

    /// Advances to `until`. Returns what is left of `work`, or `None` if it did not suffice.
    fn advance_to(&mut self, until: Time, work: u64) -> Result<Option<u64>, RankFailure> {
        let Setup { drain, warmup, .. } = *self.setup;
        let awaits = Awaits::Nothing;
        let mut interval =
            RunInterval { until: Time::ZERO, work, awaits, lookahead: self.lookahead };
        if self.measured.is_none() {
            let until = until.min(self.end);
            if !self.warm && until >= warmup {
                // Events at the exact end of warm-up are measured.
                if let Some(before) = warmup.as_ps().checked_sub(1) {
                    interval.until = Time::ps(before);
                    if !self.run(&mut interval)? {
                        return Ok(None);
                    }
                }
                self.warm_up();
            }
            interval.until = until;
            // The run cannot end before warm-up ends.
            if self.warm
                && let Some(count) = self.setup.awaited()
            {
                interval.awaits = Awaits::Listed(count, warmup);
            }
            if !self.run(&mut interval)? {
                return Ok(None);
            }
            let ends_early = std::mem::take(&mut self.reached) && self.now < self.end;
            if ends_early {
                self.end = self.now;
            }
            if self.now == self.end {
                self.close_window();
            }
            // The driver samples the run at this time.
            if ends_early {
                return Ok(Some(interval.work));
            }
        }
        if until <= self.end || drain == Span::ZERO {
            return Ok(Some(interval.work));
        }
        let until = until.min(self.end.after(drain));
        interval = RunInterval { until, awaits: Awaits::Quiet, ..interval };
        let done = self.reached || self.run(&mut interval)?;
        Ok(done.then_some(interval.work))
    }

    /// Runs the partitions over `interval` and deducts the work done. Returns `false` if the work
    /// did not suffice.
    fn run(&mut self, interval: &mut RunInterval) -> Result<bool, RankFailure> {
        if self.process.partitions * self.process.ranks == 1 {
            Ok(self.run_alone(interval))
        } else {
            self.run_together(interval)
        }
    }

    fn run_alone(&mut self, interval: &mut RunInterval) -> bool {
        let partition = &mut self.partitions[0];
        partition.work = interval.work;
        loop {
            if self.feed.known() <= self.now {
                self.feed.distribute(self.now, |_, submission| partition.submit(submission));
                partition.schedule_generator();
            }
            let state = WindowState::of(partition, self.feed.known());
            // Remaining events may be at the very end of an interrupted window.
            let interrupted = self.interrupted.take();
            let Some(end) = interrupted.or_else(|| interval.next_end(self.now, &state)) else {
                break;
            };
            let all = partition.run_until(end);
            self.now = partition.now();
            if !all {
                self.interrupted = Some(end);
                return false;
            }
        }
        interval.work = partition.work;
        let state = WindowState::of(partition, self.feed.known());
        self.conclude(interval, &state);
        true
    }

    /// Records whether the awaited condition holds at `now`.
    fn conclude(&mut self, interval: &RunInterval, state: &WindowState) {
        self.reached = interval.is_reached(self.now, state);
        self.awaited = self.setup.awaited().map_or(0, |count| count - state.listed_done);
    }

    fn run_together(&mut self, interval: &mut RunInterval) -> Result<bool, RankFailure> {
        let Run { partitions, feed, exchange, ranks, process, threads, .. } = self;
        if feed.known() <= self.now {
            feed.distribute(self.now.after(interval.ahead()), |partition, submission| {
                if let Some(partition) = partitions.get_mut(process.index_of(partition)) {
                    partition.submit(submission);
                }
            });
            partitions.iter_mut().for_each(Partition::schedule_generator);
        }
        let mut state = partitions
            .iter()
            .map(|partition| WindowState::of(partition, feed.known()))
            .fold(WindowState::none(), |all, own| all.with(&own));
        let (mut communicator, mut boundary): (Option<&mut dyn Communicator>, _) = (None, None);
        if let Some(ranks) = ranks {
            ranks.boundary.exchange(&mut *ranks.communicator, state);
            state = ranks.boundary.state()?;
            communicator = Some(&mut *ranks.communicator);
            boundary = Some(&ranks.boundary);
        }
        let Some(first) = interval.next_end(self.now, &state) else {
            self.conclude(interval, &state);
            // Or there is no work left.
            return Ok(self.now >= interval.until || self.reached);
        };
        let threads = *threads;
        let shared = SharedRun {
            exchange,
            boundary,
            process: *process,
            threads,
            interval: *interval,
            first,
        };
        let count = partitions.len();
        let first_of = |thread| thread * count / threads;
        let (leading, mut others) = partitions.split_at_mut(first_of(1));
        let (end, state) = thread::scope(|scope| {
            // Ends the waits of started threads if another one cannot be started.
            let _present = PanicGuard(&shared.exchange.barrier);
            for thread in 1..threads {
                let (first, next) = (first_of(thread), first_of(thread + 1));
                let own = others.split_off_mut(..next - first).unwrap_or_default();
                scope.spawn(move || shared.run(thread, first, own, None));
            }
            shared.run(0, 0, leading, Some(Coordinator { feed, communicator }))
        })?;
        self.now = end;
        self.conclude(interval, &state);
        interval.work = interval.work.saturating_sub(state.work);
        Ok(end == interval.until || self.reached)
    }

    /// Discards all measurements so far.
    fn warm_up(&mut self) {
        self.warm = true;
        self.partitions.iter_mut().for_each(Partition::warm_up);
    }

    /// Ends the measured window of links and switches. If there is a drain, also ends submissions.
    fn close_window(&mut self) {
        let (mut links, mut switches) = (Vec::new(), Vec::new());
        self.rows.close_window(self.end);
        for partition in &mut self.partitions {
            partition.flows.close_window(self.end);
            let (own_links, own_switches) = partition.close();
            links.extend(own_links);
            switches.extend(own_switches);
        }
        self.measured = Some((links, switches));
        if self.setup.drain > Span::ZERO {
            self.feed.close();
            self.partitions.iter_mut().for_each(Partition::close_to_arrivals);
        }
    }

    pub(crate) fn take_finished(&mut self, out: &mut Vec<FlowRecord>) -> Result<(), RankFailure> {
        self.order(Order::Rows)?;
        let mut others = self.ranks.as_mut().map_or(Ok(Vec::new()), Ranks::ended)?;
        let first = out.len();
        self.rows.collect(done(&mut self.partitions).chain(&mut others), self.now);
        self.rows.take(out);
        debug_assert!(out[first..].iter().all(|record| self.is_within_links(record)));
        Ok(())
    }

    pub(crate) fn sample(&mut self, out: &mut Vec<Sample>) -> Result<(), RankFailure> {
        self.order(Order::Sample)?;
        let mut snapshot = self.snapshot();
        if let Some(ranks) = &mut self.ranks {
            ranks.collect_reports(|others| snapshot.join(others))?;
        }
        snapshot.samples(self.now, out);
        Ok(())
    }

    /// Samples of this process.
    fn snapshot(&mut self) -> Snapshot {
        self.partitions.iter_mut().for_each(Partition::commit_all);
        let running = self.partitions.iter().flat_map(|partition| partition.flows.running());
        Snapshot {
            running: running.map(|end| (end.id, end.delivered_bytes)).collect(),
            windows: self.partitions.iter().flat_map(Partition::windows).collect(),
            queues: self.partitions.iter().flat_map(Partition::queues).collect(),
            ports: self.partitions.iter().flat_map(Partition::carried).collect(),
            paused: self.partitions.iter().flat_map(Partition::pauses).collect(),
        }
    }

    pub(crate) fn backlog_bytes(&self, host: u32) -> u64 {
        self.partitions.iter().find_map(|partition| partition.backlog_bytes(host)).unwrap_or(0)
    }

    pub(crate) fn finish(mut self) -> Result<Outcome, RankFailure> {
        self.order(Order::Finish)?;
        let mut left = self.take_final_state();
        if let Some(ranks) = &mut self.ranks {
            ranks.collect_reports(|others| left.join(others))?;
        }
        left.sort();
        let rows = std::mem::replace(&mut self.rows, Rows::new(0, Window::default()));
        let (finished, unfinished, mut digest, received) = rows.take_rest(left.flows, self.now);
        for (&(_, byte_ps), (_, link)) in left.waits.iter().zip(&left.links) {
            let counts =
                [link.wire_bytes, link.packets, link.drops, link.ecn_marks, byte_ps as u64];
            // Without dropped credits, the digest is the same as before credit queues existed.
            let credits = Some(link.credit_drops).filter(|&drops| drops > 0);
            digest = digest::extended(digest, counts.into_iter().chain(credits));
        }
        debug_assert!(finished.iter().chain(&unfinished).all(|row| self.is_within_links(row)));
        debug_assert!((0..).zip(received).all(|(host, bytes)| self.carries(host, bytes)));
        Ok(Outcome {
            finished,
            unfinished,
            switches: left.switches,
            links: left.links.into_iter().map(|(_, record)| record).collect(),
            iterations: IterationTime::joined(left.iterations),
            faults: left.faults,
            storms: self.detection.storms(),
            digest,
            packet_hops: left.packet_hops,
            events: left.events,
        })
    }

    /// Ends the run in this process and returns its final state.
    fn take_final_state(&mut self) -> FinalState {
        self.partitions.iter_mut().for_each(Partition::commit_all);
        if !self.warm {
            self.warm_up();
        }
        if self.measured.is_none() {
            self.close_window();
        }
        let (links, switches) = self.measured.take().unwrap_or_default();
        let counts = self.partitions.iter().map(Partition::fault_counts);
        FinalState {
            links,
            switches,
            waits: self.partitions.iter().flat_map(Partition::byte_ps).collect(),
            iterations: self
                .partitions
                .iter()
                .flat_map(|partition| partition.iterations())
                .collect(),
            faults: counts.fold(FaultCounts::default(), FaultCounts::plus),
            packet_hops: self.own_hops(),
            events: self.partitions.iter().map(|partition| partition.handled).sum(),
            flows: self
                .partitions
                .iter_mut()
                .map(|partition| partition.flows.take_rest())
                .collect(),
        }
    }

    fn nic_rate(&self, host: u32) -> Rate {
        self.routes.edge(self.routes.uplink(host)).rate
    }

    /// Checks that a flow is not faster than the links of its two hosts. Debug builds check every
    /// run.
    fn is_within_links(&self, record: &FlowRecord) -> bool {
        let server = self.setup.fabric.servers.filter(|all| all.joins(record.src, record.dst));
        let nic = self.nic_rate(record.src).min(self.nic_rate(record.dst));
        let most = server.map_or(self.payload_bps(nic), |server| server.rate.as_bps() as f64);
        let within = record.goodput_bps().is_none_or(|bps| bps <= most * (1.0 + 1e-6));
        assert!(within, "{:?} bit/s is above {nic}: {record:?}", record.goodput_bps());
        within
    }

    /// Checks that a host's link could carry the bytes delivered to it.
    fn carries(&self, host: u32, received: u64) -> bool {
        let downlink = self.routes.uplink(host) ^ 1;
        let nic = self.setup.fabric.fastest(downlink);
        let span = self.now.min(self.end).since(self.setup.warmup).as_s_f64();
        let within = self
            .setup
            .fabric
            .servers
            .map_or(0.0, |servers| f64::from(servers.hosts - 1) * servers.rate.as_bps() as f64);
        let most = (self.payload_bps(nic) + within) * span / 8.0;
        let carried = received as f64 <= most + 1e-3;
        assert!(carried, "{received} B to host {host}, whose link carries {most}");
        carried
    }

    /// Payload rate of a link, which is highest with full packets. A millionth is added, because a
    /// byte may not take a whole number of picoseconds.
    fn payload_bps(&self, rate: Rate) -> f64 {
        let (mtu, header) = (self.setup.fabric.mtu, self.setup.least_header_bytes());
        rate.as_bps() as f64 * mtu as f64 / (mtu + header) as f64 * (1.0 + 1e-6)
    }
}

fn done<P, N>(partitions: &mut [Partition<P, N>]) -> impl Iterator<Item = &mut Done> {
    partitions.iter_mut().map(|partition| &mut partition.flows.done)
}
