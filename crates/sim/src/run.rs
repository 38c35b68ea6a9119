//! A run: the partitions of its fabric, what it hands to them, and what it collects.
//!
//! One part is the whole fabric; several run beside each other on threads, and on those of other
//! processes, and nothing that a run leaves tells how many there were. Whatever is drawn, numbered
//! or decided among equals is so by what it concerns (a host, a port, a message of a host) and
//! never by the order of events over the fabric.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::thread;

use tidegate_core::routes::Routes;
use tidegate_core::{HEADER_BYTES, PathOracle, Rate, Span, Time, mix64};

use crate::boundary_exchange::{BoundaryExchange, WindowState};
use crate::bytes::Bytes;
use crate::communicator::{Communicator, RankFailure};
use crate::deadlock::{Deadlock, Waits};
use crate::engine::Ground;
use crate::failure::Failure;
use crate::feed::Feed;
use crate::flows::{Done, Rows};
use crate::naming::Naming;
use crate::outcome::{
    FaultCounts, FlowRecord, LinkRecord, Outcome, PauseStorm, Sample, SwitchRecord, Window,
};
use crate::partition::Partition;
use crate::partitioning::Partitioning;
use crate::probe::Probe;
use crate::ranks::{Order, Place, Ranks};
use crate::reports::{Completions, FinalState, Snapshot};
use crate::run_interval::{Awaits, Coordinator, RunInterval, SharedRun};
use crate::setup::Setup;

/// Where switches pause senders, it is looked so often for those that wait for each other.
const LOOK: Span = Span::us(100);

/// Records of links, by port, and of switches.
type Measured = (Vec<(u32, LinkRecord)>, Vec<SwitchRecord>);

/// A simulation in progress.
pub(crate) struct Run<P, N> {
    now: Time,
    /// Those of this process.
    partitions: Vec<Partition<P, N>>,
    place: Place,
    /// The other processes, where there are any.
    ranks: Option<Ranks>,
    /// Least time that a packet takes from part to part.
    lookahead: Span,
    exchange: BoundaryExchange,
    feed: Feed,
    rows: Rows,
    routes: Arc<Routes>,
    warm: bool,
    /// Links and switches between warm-up and the end, once that is over.
    measured: Option<Measured>,
    /// When what is measured ends, as far as is known: `duration`, or before where the run ends by
    /// itself.
    end: Time,
    /// Listed messages that the run waits for and that have not finished.
    awaited: u64,
    /// What the last stretch waited for has come. Where that was a drain, the run is over.
    come: bool,
    /// The end of a window in which a partition that runs alone has more to do.
    undone: Option<Time>,
    /// When it is looked next for ports that wait for each other; never where none can.
    next_look: Time,
    /// By host: since when it has paused its switch for long, where it first did.
    storms: BTreeMap<u32, Time>,
    setup: Arc<Setup>,
}

impl<P: Probe, N: Naming> Run<P, N> {
    /// In as many parts as `partition` has, of which each of `peers` has as many.
    pub(crate) fn new(
        ground: Ground,
        partitioning: Partitioning,
        probes: Vec<P>,
        communicator: Option<Box<dyn Communicator>>,
    ) -> Run<P, N> {
        let place =
            communicator.as_ref().map_or(Place::alone(partitioning.partitions), |communicator| {
                Place {
                    rank: communicator.rank(),
                    ranks: communicator.count(),
                    partitions: partitioning.partitions / communicator.count(),
                }
            });
        let fabric = &ground.setup.fabric;
        let pauses = fabric.switches.iter().any(|switch| switch.pausing.is_some());
        let partition = |(number, probe)| Partition::new(&ground, &partitioning, number, probe);
        Run {
            now: Time::ZERO,
            partitions: (place.first()..)
                .zip(probes)
                .take(place.partitions)
                .map(partition)
                .collect(),
            place,
            ranks: communicator.map(|communicator| Ranks::new(communicator, place)),
            lookahead: partitioning.lookahead,
            exchange: BoundaryExchange::new(place),
            feed: Feed::new(&ground.setup, partitioning.of_host),
            rows: Rows::new(fabric.hosts.len(), ground.setup.measured()),
            routes: ground.routes,
            warm: false,
            measured: None,
            end: ground.setup.duration,
            awaited: ground.setup.awaited().unwrap_or(0),
            come: false,
            undone: None,
            next_look: if pauses { Time::ZERO + LOOK } else { Time::NEVER },
            storms: BTreeMap::new(),
            setup: ground.setup,
        }
    }

    pub(crate) fn now(&self) -> Time {
        self.now
    }

    /// How many parts every process has.
    pub(crate) fn partitions(&self) -> usize {
        self.partitions.len()
    }

    /// How many processes.
    pub(crate) fn ranks(&self) -> usize {
        self.place.ranks
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
        &self.partitions[partition].probe
    }

    pub(crate) fn live_flows(&self) -> usize {
        self.partitions.iter().map(|partition| partition.flows.live()).sum::<usize>()
            + self.rows.held()
    }

    pub(crate) fn packets_in_flight(&self) -> usize {
        self.partitions.iter().map(Partition::packets_in_flight).sum()
    }

    /// When what is measured ends, as far as is known.
    pub(crate) fn end(&self) -> Time {
        self.end
    }

    /// Messages that the run waits for and that have not finished.
    pub(crate) fn awaited(&self) -> u64 {
        self.awaited
    }

    pub(crate) fn is_over(&self) -> bool {
        self.measured.is_some() && (self.come || self.now >= self.end.after(self.setup.drain))
    }

    /// Does what rank 0 says, until it has finished.
    pub(crate) fn serve(&mut self) -> Result<(), RankFailure> {
        while let Some(ranks) = &mut self.ranks {
            match ranks.next_order()? {
                Order::Advance(until, work) => _ = self.go_on(until, work)?,
                Order::Look => {
                    let waits = self.waits();
                    self.answer(&waits)?;
                }
                Order::Rows => {
                    let packet_hops = self.own_hops();
                    let done = done(&mut self.partitions).map(std::mem::take).collect();
                    self.answer(&Completions { done, packet_hops })?;
                }
                Order::Sample => {
                    let seen = self.see();
                    self.answer(&seen)?;
                }
                Order::Finish => {
                    let left = self.leave();
                    return self.answer(&left);
                }
            }
        }
        Ok(())
    }

    fn answer(&mut self, answer: &impl Bytes) -> Result<(), RankFailure> {
        self.ranks.as_mut().map_or(Ok(()), |ranks| ranks.answer(answer))
    }

    /// Tells the other processes, if any, what is done next.
    fn order(&mut self, order: Order) -> Result<(), RankFailure> {
        self.ranks.as_mut().map_or(Ok(()), |ranks| ranks.order(order))
    }

    pub(crate) fn advance_some(&mut self, until: Time, mut work: u64) -> Result<bool, Failure> {
        loop {
            let end = until.min(self.next_look);
            let measuring = self.measured.is_none();
            self.order(Order::Advance(end, work))?;
            match self.go_on(end, work)? {
                None => return Ok(false),
                Some(left) => work = left,
            }
            // A run may end before, and what is measured of it.
            if self.now < self.next_look {
                return Ok(true);
            }
            self.look()?;
            self.next_look = self.now.after(LOOK);
            if measuring && self.measured.is_some() {
                return Ok(true);
            }
            if end == until || work == 0 {
                return Ok(end == until);
            }
        }
    }

    /// Looks for ports that wait for each other, and for hosts that pause their switches.
    fn look(&mut self) -> Result<(), Failure> {
        self.order(Order::Look)?;
        let mut waits = self.waits();
        if let Some(ranks) = &mut self.ranks {
            ranks.answers(|others| waits.join(others))?;
        }
        let fabric = &self.setup.fabric;
        for (host, since) in waits.storms(fabric) {
            self.storms.entry(host).or_insert(since);
        }
        Deadlock::of(&waits, fabric, self.now)
            .map_or(Ok(()), |deadlock| Err(Failure::Deadlock(deadlock)))
    }

    /// Who has stood still here since the last look.
    fn waits(&self) -> Waits {
        let mut all = Waits::default();
        self.partitions
            .iter()
            .for_each(|partition| all.join(partition.waits(self.now.before(LOOK))));
        all
    }

    /// Runs on; what is left of `work`, or `None` where there was more.
    fn go_on(&mut self, until: Time, work: u64) -> Result<Option<u64>, RankFailure> {
        let Setup { drain, warmup, .. } = *self.setup;
        let awaits = Awaits::Nothing;
        let mut interval =
            RunInterval { until: Time::ZERO, work, awaits, lookahead: self.lookahead };
        if self.measured.is_none() {
            let until = until.min(self.end);
            if !self.warm && until >= warmup {
                // What happens at the very moment of warm-up counts already.
                if let Some(before) = warmup.as_ps().checked_sub(1) {
                    interval.until = Time::ps(before);
                    if !self.run(&mut interval)? {
                        return Ok(None);
                    }
                }
                self.warm_up();
            }
            interval.until = until;
            // It is over only once there is something to measure.
            if self.warm
                && let Some(count) = self.setup.awaited()
            {
                interval.awaits = Awaits::Listed(count, warmup);
            }
            if !self.run(&mut interval)? {
                return Ok(None);
            }
            let ends_early = std::mem::take(&mut self.come) && self.now < self.end;
            if ends_early {
                self.end = self.now;
            }
            if self.now == self.end {
                self.close_window();
            }
            // Its driver looks at it then.
            if ends_early {
                return Ok(Some(interval.work));
            }
        }
        if until <= self.end || drain == Span::ZERO {
            return Ok(Some(interval.work));
        }
        let until = until.min(self.end.after(drain));
        interval = RunInterval { until, awaits: Awaits::Quiet, ..interval };
        let done = self.come || self.run(&mut interval)?;
        Ok(done.then_some(interval.work))
    }

    /// Runs the partitions over `stretch`, and takes what is done off its work; `false` if there is
    /// more work than that.
    fn run(&mut self, interval: &mut RunInterval) -> Result<bool, RankFailure> {
        if self.place.partitions * self.place.ranks == 1 {
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
                self.feed.hand_out(self.now, |_, submission| partition.agenda.submit(submission));
                partition.schedule_generator();
            }
            let state = WindowState::of(partition, self.feed.known());
            // What was left undone may be at the very end of its window.
            let undone = self.undone.take();
            let Some(end) = undone.or_else(|| interval.next_end(self.now, &state)) else { break };
            let all = partition.run_until(end);
            self.now = partition.now;
            if !all {
                self.undone = Some(end);
                return false;
            }
        }
        interval.work = partition.work;
        let state = WindowState::of(partition, self.feed.known());
        self.settle(interval, &state);
        true
    }

    /// Sees whether what a stretch waits for has come by now.
    fn settle(&mut self, interval: &RunInterval, state: &WindowState) {
        self.come = interval.has_come(self.now, state);
        self.awaited = self.setup.awaited().map_or(0, |count| count - state.listed_done);
    }

    fn run_together(&mut self, interval: &mut RunInterval) -> Result<bool, RankFailure> {
        let Run { partitions, feed, exchange, ranks, place, .. } = self;
        if feed.known() <= self.now {
            feed.hand_out(self.now.after(interval.ahead()), |partition, submission| {
                if let Some(partition) = partitions.get_mut(place.here(partition)) {
                    partition.agenda.submit(submission);
                }
            });
            partitions.iter_mut().for_each(Partition::schedule_generator);
        }
        let mut state = WindowState {
            next: partitions.iter().map(Partition::next_at).min().unwrap_or(Time::NEVER),
            work: 0,
            open: partitions.iter().map(|partition| partition.flows.open()).sum(),
            listed_done: partitions.iter().map(|partition| partition.flows.listed_done()).sum(),
            known: feed.known(),
        };
        let (mut communicator, mut boundary): (Option<&mut dyn Communicator>, _) = (None, None);
        if let Some(ranks) = ranks {
            ranks.boundary.trade(&mut *ranks.communicator, state);
            state = ranks.boundary.state()?;
            communicator = Some(&mut *ranks.communicator);
            boundary = Some(&ranks.boundary);
        }
        let Some(first) = interval.next_end(self.now, &state) else {
            self.settle(interval, &state);
            // Or nothing may be done any more.
            return Ok(self.now >= interval.until || self.come);
        };
        let beside = SharedRun { exchange, boundary, place: *place, interval: *interval, first };
        let (leader, others) = partitions.split_at_mut(1);
        let (end, state) = thread::scope(|scope| {
            for (number, partition) in (1..).zip(others) {
                scope.spawn(move || beside.run(number, partition, None));
            }
            beside.run(0, &mut leader[0], Some(Coordinator { feed, communicator }))
        })?;
        self.now = end;
        self.settle(interval, &state);
        interval.work = interval.work.saturating_sub(state.work);
        Ok(end == interval.until || self.come)
    }

    /// Everything measured so far is forgotten.
    fn warm_up(&mut self) {
        self.warm = true;
        self.partitions.iter_mut().for_each(Partition::warm_up);
    }

    /// What is measured of links and switches ends here; in a drain nothing more is submitted.
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
        let mut seen = self.see();
        if let Some(ranks) = &mut self.ranks {
            ranks.answers(|others| seen.join(others))?;
        }
        seen.samples(self.now, out);
        Ok(())
    }

    /// What is sampled here.
    fn see(&mut self) -> Snapshot {
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
        let mut left = self.leave();
        if let Some(ranks) = &mut self.ranks {
            ranks.answers(|others| left.join(others))?;
        }
        left.sort();
        let rows = std::mem::replace(&mut self.rows, Rows::new(0, Window::default()));
        let (finished, unfinished, mut digest, received) = rows.take_rest(left.flows, self.now);
        for (&(_, byte_ps), (_, link)) in left.waits.iter().zip(&left.links) {
            let partitions =
                [link.wire_bytes, link.packets, link.drops, link.ecn_marks, byte_ps as u64];
            // Others than credits leave the digest as it was before there were any.
            let credits = Some(link.credit_drops).filter(|&drops| drops > 0);
            digest = partitions
                .iter()
                .chain(&credits)
                .fold(digest, |digest, &x| mix64(digest ^ x).wrapping_add(0x9e37_79b9_7f4a_7c15));
        }
        debug_assert!(finished.iter().chain(&unfinished).all(|row| self.is_within_links(row)));
        debug_assert!((0..).zip(received).all(|(host, bytes)| self.carries(host, bytes)));
        Ok(Outcome {
            finished,
            unfinished,
            switches: left.switches,
            links: left.links.into_iter().map(|(_, record)| record).collect(),
            faults: left.faults,
            storms: std::mem::take(&mut self.storms)
                .into_iter()
                .map(|(host, since)| PauseStorm { host, since })
                .collect(),
            digest,
            packet_hops: left.packet_hops,
            events: left.events,
        })
    }

    /// Ends what runs here: what is left of it.
    fn leave(&mut self) -> FinalState {
        self.partitions.iter_mut().for_each(Partition::commit_all);
        if !self.warm {
            self.warm_up();
        }
        if self.measured.is_none() {
            self.close_window();
        }
        let (links, switches) = self.measured.take().unwrap_or_default();
        let counts = self.partitions.iter().map(|partition| &partition.fault_counts);
        FinalState {
            links,
            switches,
            waits: self.partitions.iter().flat_map(Partition::byte_ps).collect(),
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

    /// Whether a flow is not faster than the links of its two hosts. Every run in every test is
    /// held to that.
    fn is_within_links(&self, record: &FlowRecord) -> bool {
        let nic = self.nic_rate(record.src).min(self.nic_rate(record.dst));
        let within = record.goodput_bps().is_none_or(|bps| bps <= self.payload_bps(nic));
        assert!(within, "{:?} bit/s is above {nic}: {record:?}", record.goodput_bps());
        within
    }

    /// Whether a host's link could carry what is said to have been delivered to it.
    fn carries(&self, host: u32, received: u64) -> bool {
        let downlink = self.routes.uplink(host) ^ 1;
        let nic = self.setup.fabric.fastest(downlink);
        let span = self.now.min(self.end).since(self.setup.warmup).as_s_f64();
        let most = self.payload_bps(nic) * span / 8.0;
        let carried = received as f64 <= most + 1e-3;
        assert!(carried, "{received} B to host {host}, whose link carries {most}");
        carried
    }

    /// What a link carries of payload, which is most in full packets; a bit/s in a million more,
    /// for a byte may not take a whole number of picoseconds.
    fn payload_bps(&self, rate: Rate) -> f64 {
        let mtu = self.setup.fabric.mtu as f64;
        rate.as_bps() as f64 * mtu / (mtu + HEADER_BYTES as f64) * (1.0 + 1e-6)
    }
}

fn done<P, N>(partitions: &mut [Partition<P, N>]) -> impl Iterator<Item = &mut Done> {
    partitions.iter_mut().map(|partition| &mut partition.flows.done)
}
