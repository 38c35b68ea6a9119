//! A run: the parts of its fabric, what it hands to them, and what it collects.
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

use crate::bytes::Bytes;
use crate::deadlock::{Deadlock, Waits};
use crate::engine::Ground;
use crate::exchange::{Exchange, Heard};
use crate::failure::Failure;
use crate::feed::Feed;
use crate::flows::{Done, Rows};
use crate::naming::Naming;
use crate::outcome::{
    FaultCounts, FlowRecord, LinkRecord, Outcome, PauseStorm, Sample, SwitchRecord, Window,
};
use crate::part::Part;
use crate::partition::Partition;
use crate::peers::{Lost, Peers};
use crate::probe::Probe;
use crate::ranks::{Order, Place, Ranks};
use crate::setup::Setup;
use crate::stretch::{Beside, Lead, Stretch};
use crate::told::{Ended, Left, Seen};

/// Where switches pause senders, it is looked so often for those that wait for each other.
const LOOK: Span = Span::us(100);

/// Records of links, by port, and of switches.
type Measured = (Vec<(u32, LinkRecord)>, Vec<SwitchRecord>);

/// A simulation in progress.
pub(crate) struct Run<P, N> {
    now: Time,
    /// Those of this process.
    parts: Vec<Part<P, N>>,
    place: Place,
    /// The other processes, where there are any.
    ranks: Option<Ranks>,
    /// Least time that a packet takes from part to part.
    lookahead: Span,
    exchange: Exchange,
    feed: Feed,
    rows: Rows,
    routes: Arc<Routes>,
    warm: bool,
    /// Links and switches between warm-up and the end, once that is over.
    measured: Option<Measured>,
    /// All messages have finished in the drain.
    drained: bool,
    /// The end of a window in which a part that runs alone has more to do.
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
        partition: Partition,
        probes: Vec<P>,
        peers: Option<Box<dyn Peers>>,
    ) -> Run<P, N> {
        let place = peers.as_ref().map_or(Place::alone(partition.parts), |peers| Place {
            rank: peers.rank(),
            ranks: peers.count(),
            parts: partition.parts / peers.count(),
        });
        let fabric = &ground.setup.fabric;
        let pauses = fabric.switches.iter().any(|switch| switch.pausing.is_some());
        let part = |(number, probe)| Part::new(&ground, &partition, number, probe);
        Run {
            now: Time::ZERO,
            parts: (place.first()..).zip(probes).take(place.parts).map(part).collect(),
            place,
            ranks: peers.map(|peers| Ranks::new(peers, place)),
            lookahead: partition.lookahead,
            exchange: Exchange::new(place),
            feed: Feed::new(&ground.setup, partition.of_host),
            rows: Rows::new(fabric.hosts.len(), ground.setup.measured()),
            routes: ground.routes,
            warm: false,
            measured: None,
            drained: false,
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
    pub(crate) fn parts(&self) -> usize {
        self.parts.len()
    }

    /// How many processes.
    pub(crate) fn ranks(&self) -> usize {
        self.place.ranks
    }

    pub(crate) fn packet_hops(&self) -> u64 {
        self.own_hops() + self.ranks.as_ref().map_or(0, |ranks| ranks.packet_hops)
    }

    fn own_hops(&self) -> u64 {
        self.parts.iter().map(|part| part.packet_hops).sum()
    }

    pub(crate) fn paths(&self) -> &dyn PathOracle {
        self.parts[0].paths()
    }

    pub(crate) fn probe(&self, part: usize) -> &P {
        &self.parts[part].probe
    }

    pub(crate) fn live_flows(&self) -> usize {
        self.parts.iter().map(|part| part.flows.live()).sum::<usize>() + self.rows.held()
    }

    pub(crate) fn packets_in_flight(&self) -> usize {
        self.parts.iter().map(Part::packets_in_flight).sum()
    }

    pub(crate) fn is_over(&self) -> bool {
        let Setup { duration, drain, .. } = *self.setup;
        self.measured.is_some() && (self.drained || self.now >= duration.after(drain))
    }

    /// Does what rank 0 says, until it has finished.
    pub(crate) fn serve(&mut self) -> Result<(), Lost> {
        while let Some(ranks) = &mut self.ranks {
            match ranks.next_order()? {
                Order::Advance(until, work) => _ = self.go_on(until, work)?,
                Order::Look => {
                    let waits = self.waits();
                    self.answer(&waits)?;
                }
                Order::Rows => {
                    let packet_hops = self.own_hops();
                    let done = done(&mut self.parts).map(std::mem::take).collect();
                    self.answer(&Ended { done, packet_hops })?;
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

    fn answer(&mut self, answer: &impl Bytes) -> Result<(), Lost> {
        self.ranks.as_mut().map_or(Ok(()), |ranks| ranks.answer(answer))
    }

    /// Tells the other processes, if any, what is done next.
    fn order(&mut self, order: Order) -> Result<(), Lost> {
        self.ranks.as_mut().map_or(Ok(()), |ranks| ranks.order(order))
    }

    pub(crate) fn advance_some(&mut self, until: Time, mut work: u64) -> Result<bool, Failure> {
        loop {
            let end = until.min(self.next_look);
            self.order(Order::Advance(end, work))?;
            match self.go_on(end, work)? {
                None => return Ok(false),
                Some(left) => work = left,
            }
            // A run may end before.
            if self.now < self.next_look {
                return Ok(true);
            }
            self.look()?;
            self.next_look = self.now.after(LOOK);
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
        self.parts.iter().for_each(|part| all.join(part.waits(self.now.before(LOOK))));
        all
    }

    /// Runs on; what is left of `work`, or `None` where there was more.
    fn go_on(&mut self, until: Time, work: u64) -> Result<Option<u64>, Lost> {
        let Setup { duration, drain, warmup, .. } = *self.setup;
        let mut stretch =
            Stretch { until: Time::ZERO, work, draining: false, lookahead: self.lookahead };
        if self.measured.is_none() {
            let until = until.min(duration);
            if !self.warm && until >= warmup {
                // What happens at the very moment of warm-up counts already.
                if let Some(before) = warmup.as_ps().checked_sub(1) {
                    stretch.until = Time::ps(before);
                    if !self.run(&mut stretch)? {
                        return Ok(None);
                    }
                }
                self.warm_up();
            }
            stretch.until = until;
            if !self.run(&mut stretch)? {
                return Ok(None);
            }
            if until == duration {
                self.close_window();
            }
        }
        if until <= duration || drain == Span::ZERO {
            return Ok(Some(stretch.work));
        }
        stretch = Stretch { until: until.min(duration.after(drain)), draining: true, ..stretch };
        let done = self.drained || self.run(&mut stretch)?;
        Ok(done.then_some(stretch.work))
    }

    /// Runs the parts over `stretch`, and takes what is done off its work; `false` if there is more
    /// work than that.
    fn run(&mut self, stretch: &mut Stretch) -> Result<bool, Lost> {
        if self.place.parts * self.place.ranks == 1 {
            Ok(self.run_alone(stretch))
        } else {
            self.run_together(stretch)
        }
    }

    fn run_alone(&mut self, stretch: &mut Stretch) -> bool {
        let part = &mut self.parts[0];
        part.work = stretch.work;
        loop {
            if self.feed.known() <= self.now {
                self.feed.hand_out(self.now, |_, submission| part.agenda.submit(submission));
                part.schedule_generator();
            }
            let heard = Heard {
                next: part.next_at(),
                work: 0,
                open: part.flows.open(),
                known: self.feed.known(),
            };
            // What was left undone may be at the very end of its window.
            let undone = self.undone.take();
            let Some(end) = undone.or_else(|| stretch.next_end(self.now, &heard)) else { break };
            let all = part.run_until(end);
            self.now = part.now;
            if !all {
                self.undone = Some(end);
                return false;
            }
        }
        stretch.work = part.work;
        self.drained = stretch.is_drained(self.now, part.flows.open());
        true
    }

    fn run_together(&mut self, stretch: &mut Stretch) -> Result<bool, Lost> {
        let Run { parts, feed, exchange, ranks, place, .. } = self;
        if feed.known() <= self.now {
            feed.hand_out(self.now.after(stretch.ahead()), |part, submission| {
                if let Some(part) = parts.get_mut(place.here(part)) {
                    part.agenda.submit(submission);
                }
            });
            parts.iter_mut().for_each(Part::schedule_generator);
        }
        let mut heard = Heard {
            next: parts.iter().map(Part::next_at).min().unwrap_or(Time::NEVER),
            work: 0,
            open: parts.iter().map(|part| part.flows.open()).sum(),
            known: feed.known(),
        };
        let (mut peers, mut border): (Option<&mut dyn Peers>, _) = (None, None);
        if let Some(ranks) = ranks {
            ranks.border.trade(&mut *ranks.peers, heard);
            heard = ranks.border.heard()?;
            peers = Some(&mut *ranks.peers);
            border = Some(&ranks.border);
        }
        let Some(first) = stretch.next_end(self.now, &heard) else {
            self.drained = stretch.is_drained(self.now, heard.open);
            // Or nothing may be done any more.
            return Ok(self.now >= stretch.until || self.drained);
        };
        let beside = Beside { exchange, border, place: *place, stretch: *stretch, first };
        let (leader, others) = parts.split_at_mut(1);
        let (end, heard) = thread::scope(|scope| {
            for (number, part) in (1..).zip(others) {
                scope.spawn(move || beside.run(number, part, None));
            }
            beside.run(0, &mut leader[0], Some(Lead { feed, peers }))
        })?;
        self.now = end;
        self.drained = stretch.is_drained(end, heard.open);
        stretch.work = stretch.work.saturating_sub(heard.work);
        Ok(end == stretch.until || self.drained)
    }

    /// Everything measured so far is forgotten.
    fn warm_up(&mut self) {
        self.warm = true;
        self.parts.iter_mut().for_each(Part::warm_up);
    }

    /// What is measured of links and switches ends here; in a drain nothing more is submitted.
    fn close_window(&mut self) {
        let (mut links, mut switches) = (Vec::new(), Vec::new());
        for part in &mut self.parts {
            let (own_links, own_switches) = part.close();
            links.extend(own_links);
            switches.extend(own_switches);
        }
        self.measured = Some((links, switches));
        if self.setup.drain > Span::ZERO {
            self.feed.close();
            self.parts.iter_mut().for_each(Part::close_to_arrivals);
        }
    }

    pub(crate) fn take_finished(&mut self, out: &mut Vec<FlowRecord>) -> Result<(), Lost> {
        self.order(Order::Rows)?;
        let mut others = self.ranks.as_mut().map_or(Ok(Vec::new()), Ranks::ended)?;
        let first = out.len();
        self.rows.collect(done(&mut self.parts).chain(&mut others), self.now);
        self.rows.take(out);
        debug_assert!(out[first..].iter().all(|record| self.is_within_links(record)));
        Ok(())
    }

    pub(crate) fn sample(&mut self, out: &mut Vec<Sample>) -> Result<(), Lost> {
        self.order(Order::Sample)?;
        let mut seen = self.see();
        if let Some(ranks) = &mut self.ranks {
            ranks.answers(|others| seen.join(others))?;
        }
        seen.samples(self.now, out);
        Ok(())
    }

    /// What is sampled here.
    fn see(&mut self) -> Seen {
        self.parts.iter_mut().for_each(Part::commit_all);
        let running = self.parts.iter().flat_map(|part| part.flows.running());
        Seen {
            running: running.map(|end| (end.id, end.delivered_bytes)).collect(),
            windows: self.parts.iter().flat_map(Part::windows).collect(),
            queues: self.parts.iter().flat_map(Part::queues).collect(),
            ports: self.parts.iter().flat_map(Part::carried).collect(),
            paused: self.parts.iter().flat_map(Part::pauses).collect(),
        }
    }

    pub(crate) fn backlog_bytes(&self, host: u32) -> u64 {
        self.parts.iter().find_map(|part| part.backlog_bytes(host)).unwrap_or(0)
    }

    pub(crate) fn finish(mut self) -> Result<Outcome, Lost> {
        self.order(Order::Finish)?;
        let mut left = self.leave();
        if let Some(ranks) = &mut self.ranks {
            ranks.answers(|others| left.join(others))?;
        }
        left.sort();
        let rows = std::mem::replace(&mut self.rows, Rows::new(0, Window::default()));
        let (finished, unfinished, mut digest, received) = rows.take_rest(left.flows, self.now);
        for (&(_, byte_ps), (_, link)) in left.waits.iter().zip(&left.links) {
            let parts = [link.wire_bytes, link.packets, link.drops, link.ecn_marks, byte_ps as u64];
            // Others than credits leave the digest as it was before there were any.
            let credits = Some(link.credit_drops).filter(|&drops| drops > 0);
            digest = parts
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
    fn leave(&mut self) -> Left {
        self.parts.iter_mut().for_each(Part::commit_all);
        if !self.warm {
            self.warm_up();
        }
        if self.measured.is_none() {
            self.close_window();
        }
        let (links, switches) = self.measured.take().unwrap_or_default();
        let counts = self.parts.iter().map(|part| &part.fault_counts);
        Left {
            links,
            switches,
            waits: self.parts.iter().flat_map(Part::byte_ps).collect(),
            faults: counts.fold(FaultCounts::default(), FaultCounts::plus),
            packet_hops: self.own_hops(),
            events: self.parts.iter().map(|part| part.handled).sum(),
            flows: self.parts.iter_mut().map(|part| part.flows.take_rest()).collect(),
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
        let span = self.now.min(self.setup.duration).since(self.setup.warmup).as_s_f64();
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

fn done<P, N>(parts: &mut [Part<P, N>]) -> impl Iterator<Item = &mut Done> {
    parts.iter_mut().map(|part| &mut part.flows.done)
}
