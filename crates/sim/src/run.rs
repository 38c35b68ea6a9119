//! A run: the parts of its fabric, what it hands to them, and what it collects.
//!
//! One part is the whole fabric; several run beside each other on threads, and nothing that a run
//! leaves tells how many there were. Whatever is drawn, numbered or decided among equals is so by
//! what it concerns (a host, a port, a message of a host) and never by the order of events over the
//! fabric.

use std::sync::Arc;
use std::thread;

use tidegate_core::routes::Routes;
use tidegate_core::{HEADER_BYTES, MessageId, PathOracle, Rate, Span, Time, mix64};

use crate::exchange::{Exchange, Heard, Present};
use crate::feed::Feed;
use crate::flows::{Flows, Rows};
use crate::marking::Markings;
use crate::naming::Naming;
use crate::outcome::{
    FaultCounts, FlowRecord, LinkRecord, Outcome, Quantity, Sample, SwitchRecord, Window,
};
use crate::part::Part;
use crate::partition::Partition;
use crate::probe::Probe;
use crate::setup::Setup;

/// Whether all messages have finished is looked at so often in a drain, which ends then.
const DRAIN_STEP: u64 = Span::us(1).as_ps();

/// A simulation in progress.
pub(crate) struct Run<P, N> {
    now: Time,
    parts: Vec<Part<P, N>>,
    /// Least time that a packet takes from part to part.
    lookahead: Span,
    exchange: Exchange,
    feed: Feed,
    rows: Rows,
    routes: Arc<Routes>,
    warm: bool,
    /// Links and switches between warm-up and the end, once that is over.
    measured: Option<(Vec<LinkRecord>, Vec<SwitchRecord>)>,
    /// All messages have finished in the drain.
    drained: bool,
    setup: Arc<Setup>,
}

/// How far parts may run.
#[derive(Clone, Copy)]
struct Stretch {
    until: Time,
    /// Or until so much is done.
    work: u64,
    /// Or until all messages have finished.
    draining: bool,
    lookahead: Span,
}

impl<P: Probe, N: Naming> Run<P, N> {
    /// In as many parts as `partition` has.
    pub(crate) fn new(
        setup: Arc<Setup>,
        routes: Arc<Routes>,
        markings: &Markings,
        partition: Partition,
        probes: Vec<P>,
    ) -> Run<P, N> {
        let part =
            |(number, probe)| Part::new(&setup, &routes, markings, &partition, number, probe);
        Run {
            now: Time::ZERO,
            parts: (0..partition.parts as u32).zip(probes).map(part).collect(),
            lookahead: partition.lookahead,
            exchange: Exchange::new(partition.parts),
            feed: Feed::new(&setup, partition.of_host),
            rows: Rows::new(setup.fabric.hosts.len(), setup.measured()),
            routes,
            warm: false,
            measured: None,
            drained: false,
            setup,
        }
    }

    pub(crate) fn now(&self) -> Time {
        self.now
    }

    pub(crate) fn parts(&self) -> usize {
        self.parts.len()
    }

    pub(crate) fn packet_hops(&self) -> u64 {
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

    pub(crate) fn advance_some(&mut self, until: Time, work: u64) -> bool {
        let Setup { duration, drain, warmup, .. } = *self.setup;
        let mut stretch =
            Stretch { until: Time::ZERO, work, draining: false, lookahead: self.lookahead };
        if self.measured.is_none() {
            let until = until.min(duration);
            if !self.warm && until >= warmup {
                // What happens at the very moment of warm-up counts already.
                if let Some(before) = warmup.as_ps().checked_sub(1) {
                    stretch.until = Time::ps(before);
                    if !self.run(&mut stretch) {
                        return false;
                    }
                }
                self.warm_up();
            }
            stretch.until = until;
            if !self.run(&mut stretch) {
                return false;
            }
            if until == duration {
                self.close_window();
            }
        }
        if until <= duration || drain == Span::ZERO {
            return true;
        }
        stretch = Stretch { until: until.min(duration.after(drain)), draining: true, ..stretch };
        self.drained || self.run(&mut stretch)
    }

    /// Runs the parts over `stretch`, and takes what is done off its work; `false` if there is more
    /// work than that.
    fn run(&mut self, stretch: &mut Stretch) -> bool {
        if self.parts.len() == 1 { self.run_alone(stretch) } else { self.run_together(stretch) }
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
            let Some(end) = stretch.next_end(self.now, &heard) else { break };
            let all = part.run_until(end);
            self.now = part.now;
            if !all {
                return false;
            }
        }
        stretch.work = part.work;
        self.drained = stretch.is_drained(self.now, part.flows.open());
        true
    }

    fn run_together(&mut self, stretch: &mut Stretch) -> bool {
        let Run { parts, feed, exchange, .. } = self;
        let exchange = &*exchange;
        if feed.known() <= self.now {
            feed.hand_out(self.now.after(stretch.ahead()), |part, submission| {
                parts[part as usize].agenda.submit(submission);
            });
            parts.iter_mut().for_each(Part::schedule_generator);
        }
        let heard = Heard {
            next: parts.iter().map(Part::next_at).min().unwrap_or(Time::NEVER),
            work: 0,
            open: parts.iter().map(|part| part.flows.open()).sum(),
            known: feed.known(),
        };
        let Some(first) = stretch.next_end(self.now, &heard) else {
            self.drained = stretch.is_drained(self.now, heard.open);
            // Or nothing may be done any more.
            return self.now >= stretch.until || self.drained;
        };
        let here = *stretch;
        let (leader, others) = parts.split_at_mut(1);
        let (end, heard) = thread::scope(|scope| {
            for (number, part) in (1..).zip(others) {
                scope.spawn(move || run_beside(number, part, None, exchange, here, first));
            }
            run_beside(0, &mut leader[0], Some(feed), exchange, here, first)
        });
        self.now = end;
        self.drained = stretch.is_drained(end, heard.open);
        stretch.work = stretch.work.saturating_sub(heard.work);
        end == stretch.until || self.drained
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
        links.sort_unstable_by_key(|&(port, _)| port);
        switches.sort_unstable_by_key(|record| record.switch);
        self.measured = Some((links.into_iter().map(|(_, record)| record).collect(), switches));
        if self.setup.drain > Span::ZERO {
            self.feed.close();
            self.parts.iter_mut().for_each(Part::close_to_arrivals);
        }
    }

    pub(crate) fn take_finished(&mut self, out: &mut Vec<FlowRecord>) {
        let first = out.len();
        self.rows.collect(flows(&mut self.parts), self.now);
        self.rows.take(out);
        debug_assert!(out[first..].iter().all(|record| self.is_within_links(record)));
    }

    pub(crate) fn sample(&mut self, out: &mut Vec<Sample>) {
        self.parts.iter_mut().for_each(Part::commit_all);
        let at = self.now;
        let mut push = |entity, quantity, value| out.push(Sample { at, entity, quantity, value });
        let mut running: Vec<(u64, MessageId, u64)> = self
            .parts
            .iter()
            .flat_map(|part| part.flows.running())
            .map(|end| (end.id, end.message, end.delivered_bytes))
            .collect();
        running.sort_unstable_by_key(|&(id, ..)| id);
        for (id, message, delivered) in running {
            push(id, Quantity::DeliveredBytes, delivered as f64);
            let sender = &self.parts[self.feed.part_of(message.src) as usize];
            if let Some(window) = sender.window_bytes(message) {
                push(id, Quantity::WindowBytes, window);
            }
        }
        let mut queues: Vec<(u32, u32)> = self.parts.iter().flat_map(Part::queues).collect();
        queues.sort_unstable();
        for (port, bytes) in queues {
            push(port as u64, Quantity::QueueBytes, bytes as f64);
        }
    }

    pub(crate) fn backlog_bytes(&self, host: u32) -> u64 {
        self.parts.iter().find_map(|part| part.backlog_bytes(host)).unwrap_or(0)
    }

    pub(crate) fn finish(mut self) -> Outcome {
        self.parts.iter_mut().for_each(Part::commit_all);
        if !self.warm {
            self.warm_up();
        }
        if self.measured.is_none() {
            self.close_window();
        }
        let (links, switches) = self.measured.take().unwrap_or_default();
        self.rows.collect(flows(&mut self.parts), self.now);
        let rows = std::mem::replace(&mut self.rows, Rows::new(0, Window::default()));
        let (finished, unfinished, mut digest, received) =
            rows.take_rest(flows(&mut self.parts), self.now);
        let mut waits: Vec<(u32, u128)> = self.parts.iter().flat_map(Part::byte_ps).collect();
        waits.sort_unstable();
        for (&(_, byte_ps), link) in waits.iter().zip(&links) {
            let parts = [link.wire_bytes, link.packets, link.drops, link.ecn_marks, byte_ps as u64];
            digest = parts
                .iter()
                .fold(digest, |digest, &x| mix64(digest ^ x).wrapping_add(0x9e37_79b9_7f4a_7c15));
        }
        debug_assert!(finished.iter().chain(&unfinished).all(|row| self.is_within_links(row)));
        debug_assert!((0..).zip(received).all(|(host, bytes)| self.carries(host, bytes)));
        Outcome {
            finished,
            unfinished,
            switches,
            links,
            faults: self
                .parts
                .iter()
                .fold(FaultCounts::default(), |sum, part| sum.plus(&part.fault_counts)),
            digest,
            packet_hops: self.packet_hops(),
            events: self.parts.iter().map(|part| part.handled).sum(),
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

fn flows<P, N>(parts: &mut [Part<P, N>]) -> impl Iterator<Item = &mut Flows> {
    parts.iter_mut().map(|part| &mut part.flows)
}

/// Runs a part window by window, the first of which ends at `end`: where the stretch ended, and
/// what was heard then, which is the same for all.
fn run_beside<P: Probe, N: Naming>(
    number: usize,
    part: &mut Part<P, N>,
    mut feed: Option<&mut Feed>,
    exchange: &Exchange,
    stretch: Stretch,
    mut end: Time,
) -> (Time, Heard) {
    let _present = Present(exchange);
    let before = part.handled;
    let mut turn = 0;
    loop {
        part.work = u64::MAX;
        part.run_until(end);
        let mut next = part.hand_over(|to| exchange.mail(turn, number, to as usize));
        let mut known = Time::NEVER;
        if let Some(feed) = feed.as_deref_mut() {
            let first = feed.hand_out(end.after(stretch.ahead()), |to, submission| {
                exchange.mail(turn, number, to as usize).submissions.push(submission);
            });
            (next, known) = (next.min(first), feed.known());
        }
        let own = Heard {
            next: next.min(part.next_at()),
            work: part.handled - before,
            open: part.flows.open(),
            known,
        };
        exchange.tell(turn, number, own);
        exchange.meet();
        for from in 0..exchange.parts() {
            part.take_in(&mut exchange.mail(turn, from, number));
        }
        let heard = exchange.hear(turn);
        match stretch.next_end(end, &heard) {
            Some(next) => end = next,
            None => return (end, heard),
        }
        turn ^= 1;
    }
}

impl Stretch {
    /// Flows are handed out so long before they begin: where the next window ends is not known yet.
    fn ahead(&self) -> Span {
        self.lookahead.times(2)
    }

    /// Whether a drain is over at `now`.
    fn is_drained(&self, now: Time, open: u64) -> bool {
        self.draining && open == 0 && now.as_ps().is_multiple_of(DRAIN_STEP)
    }

    /// Where the window after the one that ended at `end` ends; `None`: the stretch is over.
    fn next_end(&self, end: Time, heard: &Heard) -> Option<Time> {
        if end >= self.until || heard.work >= self.work || self.is_drained(end, heard.open) {
            return None;
        }
        let first = heard.next.max(end);
        let mut next = self.until.min(heard.known);
        if self.lookahead < Span::FOREVER {
            next = next.min(first.after(self.lookahead - Span::ps(1)));
        }
        if self.draining {
            // Nothing finishes before something happens.
            let looks = if heard.open == 0 { end.after(Span::ps(1)) } else { first };
            let step = looks.as_ps().checked_next_multiple_of(DRAIN_STEP);
            next = next.min(step.map_or(Time::NEVER, Time::ps));
        }
        Some(next)
    }
}
