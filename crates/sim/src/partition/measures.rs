//! Warm-up, samples, and the records that a partition produces.

use std::sync::Arc;

use tidegate_core::fabric::{Node, PortEnds};
use tidegate_core::{Span, Time, Transport};

use super::Partition;
use super::clock::Source;
use super::links::Links;
use super::switching::Switching;
use crate::events::FAR;
use crate::measures::outcome::{LinkRecord, Spread, SwitchRecord};
use crate::measures::probe::Probe;
use crate::naming::Naming;
use crate::ports::port::HOST;
use crate::setup::Setup;

/// Interval at which switch buffers are sampled for percentiles.
const SAMPLE_INTERVAL: Span = Span::us(10);

/// The measured window of a partition.
pub(super) struct Measures {
    /// Start of the measured window.
    from: Time,
    /// Warm-up is over.
    is_warm: bool,
    /// The measured window is over.
    is_closed: bool,
    /// Counters of every port at the end of warm-up.
    baselines: Vec<Baseline>,
    setup: Arc<Setup>,
}

/// Counters of a port at the end of warm-up.
#[derive(Clone, Copy, Default)]
struct Baseline {
    tx_bytes: u64,
    packets: u64,
    /// Remainder of a transmission in progress.
    busy: Span,
    /// Remainder of the transmissions that a failing link has cut short since then.
    unsent: Span,
    /// Waiting so far of the packets that were queued at that time.
    byte_ps: u128,
    /// Waiting of all packets that had left by that time.
    waited: u128,
    /// Wire bytes that were sent before the last rate change, and the time that they took.
    earlier: (u64, Span),
    /// Number of pauses, and their total duration.
    paused: (u64, Span),
}

impl Measures {
    /// For a partition with this number of ports.
    pub(super) fn new(setup: Arc<Setup>, ports: usize) -> Measures {
        let baselines = vec![Baseline::default(); ports];
        Measures { from: setup.warmup, is_warm: false, is_closed: false, baselines, setup }
    }

    /// Ends the measured window: from now on, buffers are not sampled.
    pub(super) fn close(&mut self) {
        self.is_closed = true;
    }

    /// A failing link has cut the transmission in progress short by `unsent`.
    pub(super) fn cut_short(&mut self, index: u32, unsent: Span) {
        self.baselines[index as usize].unsent += unsent;
    }

    /// A port is about to change its rate: accounts for what it has sent at the present one.
    pub(super) fn before_rate_change<P, N>(&mut self, links: &Links<P, N>, index: u32) {
        let port = &links.ports[index as usize];
        let Baseline { tx_bytes, earlier, .. } = &mut self.baselines[index as usize];
        let bytes = port.tx_bytes - *tx_bytes - earlier.0;
        *earlier = (earlier.0 + bytes, earlier.1 + port.serialise_all(bytes));
    }

    /// Ends warm-up at a port, and discards its measurements so far. Packets that are queued now
    /// are charged only for their wait from now on.
    fn warm_up_port<P, N>(
        &mut self,
        links: &mut Links<P, N>,
        switching: &Switching,
        paused: (u64, Span),
        index: u32,
    ) {
        let byte_ps = switching.queued_byte_ps(links, index, self.from);
        let port = &mut links.ports[index as usize];
        let waited = port.waits.byte_ps;
        port.waits = Default::default();
        port.waits.max_bytes = if port.owner & HOST == 0 { port.queue_bytes } else { 0 };
        self.baselines[index as usize] = Baseline {
            tx_bytes: port.tx_bytes,
            packets: port.packets,
            busy: port.busy_beyond(self.from),
            unsent: Span::ZERO,
            byte_ps,
            waited,
            earlier: (0, Span::ZERO),
            paused,
        };
    }

    /// Queueing at a port since warm-up, in byte picoseconds.
    fn queued_since_warmup<P, N>(
        &self,
        links: &Links<P, N>,
        switching: &Switching,
        index: u32,
        end: Time,
    ) -> u128 {
        let left = links.ports[index as usize].waits.byte_ps;
        let queued = left + switching.queued_byte_ps(links, index, end);
        queued.saturating_sub(self.baselines[index as usize].byte_ps)
    }

    /// Bounds mean and percentile by `max`: a percentile is the middle of a histogram bin and could
    /// exceed it.
    fn spread(&self, byte_ps: u128, end: Time, p99: Option<f64>, max: f64) -> Spread {
        let span = end.since(self.from).as_ps() as f64;
        let mean = if span > 0.0 { byte_ps as f64 / span } else { 0.0 };
        Spread { mean: mean.min(max), p99: p99.map(|p99| p99.min(max)), max }
    }

    fn switch_record<P, N>(
        &self,
        links: &Links<P, N>,
        switching: &Switching,
        switch: u32,
        end: Time,
    ) -> SwitchRecord {
        let ports = switching.ports_of(switch).iter();
        let queued: u128 =
            ports.map(|&port| self.queued_since_warmup(links, switching, port, end)).sum();
        let queued = queued.saturating_sub(switching.credit_byte_ps(links, switch, end));
        let totals = switching.totals(switch);
        SwitchRecord {
            switch,
            buffer_bytes: self.spread(queued, end, totals.p99_bytes, totals.max_bytes as f64),
            samples: totals.samples,
            drops: totals.drops,
        }
    }

    fn link_record<P: Probe, N: Naming>(
        &self,
        links: &Links<P, N>,
        switching: &mut Switching,
        (pauses, paused): (u64, Span),
        index: u32,
        end: Time,
    ) -> LinkRecord {
        let queued = self.queued_since_warmup(links, switching, index, end);
        let port = &links.ports[index as usize];
        let name = links.name(index);
        let span = self.open_span(name, end).as_ps() as f64;
        let PortEnds { from, to } = self.setup.fabric.port_ends(name);
        let before = self.baselines[index as usize];
        let packets = port.packets - before.packets;
        let departed = switching.departed_for_rack(index).unwrap_or(packets);
        let (p99_bytes, p99_delay_ns) = switching.percentiles(links, index, end, departed);
        let per = |sum: f64, by: f64| if by > 0.0 { sum / by } else { 0.0 };
        let wire_bytes = port.tx_bytes - before.tx_bytes;
        // Transmissions that were in progress at warm-up count in part, and so do those in progress
        // now.
        let sending = before.earlier.1 + port.serialise_all(wire_bytes - before.earlier.0);
        let busy = sending + before.busy;
        let unsent = before.unsent + port.busy_beyond(end);
        let utilisation = per(busy.beyond(unsent).as_ps() as f64, span).min(1.0);
        LinkRecord {
            from,
            to,
            utilisation,
            rate_bps: links.rate(index).as_bps(),
            wire_bytes,
            packets,
            queue_bytes: self.spread(queued, end, p99_bytes, port.waits.max_bytes as f64),
            queue_delay_us: Spread {
                mean: per(port.waits.delay_ps as f64 * 1e-6, departed as f64),
                p99: p99_delay_ns.map(|ns| ns * 1e-3),
                max: port.waits.max_delay.as_us_f64(),
            },
            drops: port.waits.drops,
            credit_drops: switching.credit_drops(index),
            trims: port.waits.trims as u64,
            returned: switching.returned(index),
            ecn_marks: port.waits.marks,
            pfc_pauses: pauses - before.paused.0,
            paused: paused.beyond(before.paused.1),
        }
    }

    /// Time within the measured window in which the link of the port with this global ID is up.
    fn open_span(&self, port: u32, until: Time) -> Span {
        let whole = until.since(self.from);
        let fabric = &self.setup.fabric;
        let Some(circuits) = &fabric.circuits else { return whole };
        match fabric.port_ends(port) {
            PortEnds { from: Node::Switch(from), to: Node::Switch(to) }
                if port >= 2 * circuits.first_link =>
            {
                let days = circuits.days(from, to);
                let up = |at| circuits.up_until(&days, at);
                up(until).beyond(up(self.from))
            }
            _ => whole,
        }
    }
}

impl<P: Probe, N: Naming> Partition<P, N> {
    /// Samples the switch buffers, and moves the event list's epoch on when needed.
    pub(super) fn on_sampler(&mut self) {
        self.links.clock.rebase();
        let now = self.links.now();
        let next = if self.measures.is_closed {
            now + FAR
        } else if self.measures.is_warm {
            // An event costs about as much as eight ports. With many ports and no traffic, samples
            // are all the work there is.
            self.work = self.work.saturating_sub(self.links.ports.len() as u64 / 8);
            self.commit_all();
            self.switching.sample();
            now + SAMPLE_INTERVAL
        } else {
            self.measures.from
        };
        self.links.clock.set(Source::Sampler, next);
    }

    pub(crate) fn commit_all(&mut self) {
        for index in self.boundary.own_ports() {
            self.commit(index);
        }
    }

    /// Ends warm-up: discards all measurements so far.
    pub(crate) fn warm_up(&mut self) {
        self.commit_all();
        self.measures.is_warm = true;
        let from = self.measures.from;
        for index in 0..self.links.ports.len() as u32 {
            let paused = self.paused(index, from);
            let Partition { links, switching, measures, .. } = self;
            measures.warm_up_port(links, switching, paused, index);
        }
        self.switching.warm_up(&self.links, from);
    }

    /// Starts the measured window at `now`, which must be the present.
    pub(crate) fn measure_from(&mut self, now: Time) {
        self.measures.from = now;
        self.warm_up();
    }

    /// Ends the measured window of links and switches. Returns the records of those that belong to
    /// this partition, by global port ID.
    pub(crate) fn close(&mut self) -> (Vec<(u32, LinkRecord)>, Vec<SwitchRecord>) {
        self.measures.close();
        self.records()
    }

    /// Returns the same records as of now, without ending the window.
    pub(crate) fn records(&mut self) -> (Vec<(u32, LinkRecord)>, Vec<SwitchRecord>) {
        self.commit_all();
        let end = self.links.now();
        let ports = self.boundary.own_ports();
        let record = |index| {
            let paused = self.paused(index, end);
            let Partition { links, switching, measures, .. } = &mut *self;
            (links.name(index), measures.link_record(links, switching, paused, index, end))
        };
        let all_links = ports.map(record).collect();
        let Partition { links, switching, measures, .. } = self;
        let own = switching.own().iter();
        let switches = own.map(|&switch| measures.switch_record(links, switching, switch, end));
        (all_links, switches.collect())
    }

    /// Switch ports of the partition.
    fn switch_ports(&self) -> impl Iterator<Item = u32> {
        let owner = |port: u32| self.links.ports[port as usize].owner;
        self.boundary.own_ports().filter(move |&port| owner(port) & HOST == 0)
    }

    /// Bytes queued at every switch port of the partition, by global port ID.
    pub(crate) fn queues(&self) -> impl Iterator<Item = (u32, u32)> {
        self.switch_ports()
            .map(|port| (self.links.name(port), self.links.ports[port as usize].queue_bytes))
    }

    /// By switch port of the partition: queueing since time 0 in byte picoseconds, and wire bytes
    /// sent since then.
    pub(crate) fn carried(&self) -> impl Iterator<Item = (u32, (u128, u64))> {
        let Partition { links, switching, measures, .. } = self;
        self.switch_ports().map(|index| {
            let port = &links.ports[index as usize];
            let left = measures.baselines[index as usize].waited + port.waits.byte_ps;
            let queued = switching.queued_byte_ps(links, index, links.now());
            (links.name(index), (left + queued, port.tx_bytes))
        })
    }

    /// Queueing at every port of the partition in byte picoseconds, by global port ID.
    pub(crate) fn byte_ps(&self) -> impl Iterator<Item = (u32, u128)> {
        let ports = self.boundary.own_ports();
        ports.map(|port| (self.links.name(port), self.links.ports[port as usize].waits.byte_ps))
    }

    /// Windows in wire bytes of the flows that this partition sends, by flow ID and in no order.
    /// Flows without a window are left out.
    pub(crate) fn windows(&self) -> impl Iterator<Item = (u64, f64)> {
        self.flows.senders().filter_map(|sending| {
            let host = self.uplinks.host(self.uplinks.find(sending.flow.src)?);
            let transport = host.transports.existing(sending.flow.stack)?;
            let limits = transport.limits(sending.handle)?;
            Some((sending.id, limits.window_bytes)).filter(|(_, bytes)| bytes.is_finite())
        })
    }

    /// Payload submitted at `host` and not yet sent for the first time; `None` if another partition
    /// has the host.
    pub(crate) fn backlog_bytes(&self, host: u32) -> Option<u64> {
        let host = self.uplinks.find(host)?;
        Some(self.uplinks.host(host).transports.backlog_bytes())
    }
}
