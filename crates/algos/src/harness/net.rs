//! A small network in memory.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;

use tidegate_core::wire::{Carried, Header};
use tidegate_core::{Body, Domain, Frame, Handle, Message, Reply, Rng, Span, Time, frame_flag};

use super::{Checking, RATE, Subject, kind_named, kind_of, message, receive, transmit};

/// A host, and the start and end of a fault at it.
type Outage = Option<(u32, Time, Time)>;

/// Faults of the network.
#[derive(Clone, Copy)]
pub(crate) struct Faults {
    /// Share of packets that are lost.
    pub(crate) loss: f64,
    /// Share of lost data packets that return to their senders without payload.
    pub(crate) returned: f64,
    /// Share of packets that are duplicated.
    pub(crate) duplication: f64,
    /// Delay after which every packet arrives a second time.
    pub(crate) echo: Option<Span>,
    /// Largest random delay of a packet in addition to 1 µs.
    pub(crate) jitter: Span,
    /// Share of packets that carry a congestion signal, if they support one.
    pub(crate) congestion: f64,
    /// Loses all packets from this host in this interval.
    pub(crate) egress_outage: Outage,
    /// Loses all packets to this host in this interval.
    pub(crate) ingress_outage: Outage,
    /// Loses the first packet of each kind whose bit is set; see [`kinds`](super::kinds).
    pub(crate) first_of: u32,
}

/// No faults except that packets overtake each other.
pub(crate) const NO_FAULTS: Faults = Faults {
    loss: 0.0,
    returned: 0.0,
    duplication: 0.0,
    echo: None,
    jitter: Span::us(1),
    congestion: 0.0,
    egress_outage: None,
    ingress_outage: None,
    first_of: 0,
};

/// Hosts, each with a link into a network at a distance of 1 µs. The network has no queues unless
/// it is a [switch](Net::through_a_switch).
pub(crate) struct Net<T: Subject> {
    pub(crate) hosts: Vec<T>,
    pub(crate) now: Time,
    pub(crate) app: Checking,
    /// Number of lost packets.
    pub(crate) lost: u64,
    /// Retransmitted payload.
    pub(crate) resent_bytes: u64,
    /// Longest queueing time of a packet at the switch, if there is one.
    pub(crate) longest_wait: Span,
    faults: Faults,
    rng: Rng,
    uplink_free: Vec<Time>,
    /// Time at which the switch's link to each host is free, if there is a switch.
    downlink_free: Vec<Time>,
    /// By arrival, then by order of sending.
    wires: BTreeMap<(Time, u64), (Frame, Body)>,
    order: u64,
    /// Pairs of hosts without a session: the first sends nothing to the second, and packets in the
    /// other direction do not reach it.
    separated: BTreeSet<(u32, u32)>,
    /// By kind.
    sent: Vec<u64>,
}

impl<T: Subject> Net<T> {
    pub(crate) fn new(hosts: u32, params: &T::Params, faults: Faults, seed: u64) -> Net<T> {
        Net {
            hosts: (0..hosts).map(|host| T::new(params, &T::context(host))).collect(),
            now: Time::ZERO,
            app: Checking {
                in_order: T::IN_ORDER,
                all_new: !T::REUSES_NUMBERS,
                ..Checking::default()
            },
            lost: 0,
            resent_bytes: 0,
            longest_wait: Span::ZERO,
            faults,
            rng: Rng::stream(seed, Domain::Faults, 0),
            uplink_free: alloc::vec![Time::ZERO; hosts as usize],
            downlink_free: Vec::new(),
            wires: BTreeMap::new(),
            order: 0,
            separated: BTreeSet::new(),
            sent: alloc::vec![0; T::Header::FORMAT.kinds.len()],
        }
    }

    /// Adds a switch, with a link of 1 µs to each host.
    pub(crate) fn through_a_switch(mut self) -> Net<T> {
        self.downlink_free = self.uplink_free.clone();
        self
    }

    /// Submits a message, under the number of an acknowledged one, if there is one.
    pub(crate) fn submit(&mut self, src: u32, dst: u32, bytes: u64) -> (u32, Handle) {
        self.submit_weighed(src, dst, bytes, 1)
    }

    pub(crate) fn submit_weighed(
        &mut self,
        src: u32,
        dst: u32,
        bytes: u64,
        weight: u8,
    ) -> (u32, Handle) {
        let id = self.app.submit(src, dst, bytes);
        let message = Message { weight, ..message(id, dst, bytes) };
        (id, self.hosts[src as usize].submit(self.now, message, T::paths()))
    }

    pub(crate) fn stop(&mut self, src: u32, handle: Handle) {
        self.hosts[src as usize].stop(self.now, handle);
    }

    /// Host `by` forgets `peer`, but packets from it still arrive.
    pub(crate) fn forget(&mut self, by: u32, peer: u32) {
        self.hosts[by as usize].forget(self.now, peer);
        self.app.forget(by, peer);
    }

    /// The same, and the driver discards these packets.
    pub(crate) fn forget_and_discard(&mut self, by: u32, peer: u32) {
        self.forget(by, peer);
        self.separated.insert((by, peer));
    }

    /// Two hosts forget each other, and packets in flight between them are lost.
    pub(crate) fn end_session(&mut self, hosts: [u32; 2]) {
        let [a, b] = hosts;
        self.forget_and_discard(a, b);
        self.forget_and_discard(b, a);
        self.app.end_session(hosts);
        let is_between =
            |frame: &Frame, body: &Body| hosts.contains(&frame.dst) && hosts.contains(&body.src);
        self.wires.retain(|_, (frame, body)| !is_between(frame, body));
    }

    /// Starts a new session between two hosts that have forgotten each other.
    pub(crate) fn start_session(&mut self, [a, b]: [u32; 2]) {
        self.separated.remove(&(a, b));
        self.separated.remove(&(b, a));
    }

    /// Number of packets of that kind sent by hosts.
    pub(crate) fn sent(&self, kind: &str) -> u64 {
        self.sent[kind_named::<T::Header>(kind)]
    }

    /// Number of packets other than data.
    pub(crate) fn control(&self) -> u64 {
        self.sent.iter().sum::<u64>() - self.sent("Data")
    }

    /// Loses all packets in flight.
    pub(crate) fn lose_all(&mut self) {
        self.wires.clear();
    }

    /// Sends a packet at `at`. Returns the time at which its link is free again.
    fn send(&mut self, at: Time, mut frame: Frame, body: Body) -> Time {
        let Some(header) = T::Header::read(&body) else { panic!("{body:?}") };
        T::check_packet(&frame, &header, body.payload_bytes);
        assert!(frame.priority < T::context(0).priorities, "{frame:?}");
        let is_separated = self.separated.contains(&(body.src, frame.dst));
        assert!(!is_separated, "{header:?} without a session: {frame:?}");
        let kind = kind_of(&header);
        self.sent[kind] += 1;
        if body.is_retransmission {
            self.resent_bytes += body.payload_bytes as u64;
        }
        let left = at + RATE.serialise(frame.wire_bytes as u64);
        if self.faults.congestion > 0.0 && self.rng.unit() < self.faults.congestion {
            signal_congestion(&mut frame);
        }
        let copies = 1 + (self.rng.unit() < self.faults.duplication) as u32;
        for _ in 0..copies {
            let (mut frame, mut body) = (frame, body);
            if self.loses(at, &frame, &body, kind) {
                self.lost += 1;
                let returned = self.faults.returned;
                if header.offset().is_none() || returned == 0.0 || self.rng.unit() >= returned {
                    continue;
                }
                (frame.dst, body.payload_bytes) = (body.src, 0);
            }
            let first = self.arrival(left, &frame);
            let second = self.faults.echo.map(|later| first + later);
            for at in [Some(first), second].into_iter().flatten() {
                self.order += 1;
                self.wires.insert((at, self.order), (frame, body));
            }
        }
        left
    }

    /// Arrival of a packet that left its host at `left`.
    fn arrival(&mut self, left: Time, frame: &Frame) -> Time {
        let jitter = Span::ps(self.rng.below(self.faults.jitter.as_ps() + 1));
        let at = left + Span::us(1) + jitter;
        let Some(free) = self.downlink_free.get_mut(frame.dst as usize) else { return at };
        let start = at.max(*free);
        *free = start + RATE.serialise(frame.wire_bytes as u64);
        self.longest_wait = self.longest_wait.max(start - at);
        *free + Span::us(1)
    }

    fn loses(&mut self, at: Time, frame: &Frame, body: &Body, kind: usize) -> bool {
        let Faults { loss, egress_outage, ingress_outage, first_of, .. } = self.faults;
        self.faults.first_of &= !(1 << kind);
        let falls_into = |outage: Outage, of: u32| {
            outage.is_some_and(|(host, from, to)| host == of && (from..to).contains(&at))
        };
        let cut_off = falls_into(egress_outage, body.src) || falls_into(ingress_outage, frame.dst);
        self.rng.unit() < loss || cut_off || first_of & 1 << kind != 0
    }

    /// Packets to an absent host or from an unknown source are lost.
    fn arrive(&mut self, mut frame: Frame, mut body: Body) {
        let dst = frame.dst as usize;
        if self.separated.contains(&(frame.dst, body.src)) {
            return;
        }
        let Some(host) = self.hosts.get_mut(dst) else { return };
        if receive(host, self.now, &mut frame, &mut body, &mut self.app) != Reply::None {
            let at = self.uplink_free[dst].max(self.now);
            self.uplink_free[dst] = self.send(at, frame, body);
        }
    }

    /// Runs until no event is left, or to `until`.
    pub(crate) fn run(&mut self, until: Time) {
        self.run_watched(until, |_| {});
    }

    /// The same with a check of every host after each of its events.
    pub(crate) fn run_watched(&mut self, until: Time, mut watch: impl FnMut(&Net<T>)) {
        loop {
            let arrived = |net: &mut Net<T>| {
                let entry = net.wires.first_entry()?;
                (entry.key().0 <= net.now).then(|| entry.remove())
            };
            while let Some((frame, body)) = arrived(self) {
                self.arrive(frame, body);
                watch(self);
            }
            let mut next = Time::NEVER;
            for host in 0..self.hosts.len() {
                if self.hosts[host].deadline() <= self.now {
                    self.hosts[host].on_deadline(self.now, &mut self.app);
                    watch(self);
                }
                if self.uplink_free[host] <= self.now
                    && let Some((frame, body)) = transmit(&mut self.hosts[host], self.now)
                {
                    self.uplink_free[host] = self.send(self.now, frame, body);
                    watch(self);
                }
                next = next.min(self.wakes(host));
            }
            next = self.wires.keys().next().map_or(next, |key| next.min(key.0));
            if next > until {
                self.now = until;
                return;
            }
            self.now = next.max(self.now + Span::ps(1));
        }
    }

    /// Time of the next event of a host without arrivals.
    fn wakes(&self, host: usize) -> Time {
        let (host, free) = (&self.hosts[host], self.uplink_free[host]);
        let deadline = host.deadline();
        if free <= self.now {
            deadline
        } else if deadline > self.now {
            deadline.min(free)
        } else {
            // A packet that could already leave waits for its link.
            free
        }
    }

    pub(crate) fn assert_quiet(&self, case: &str) {
        for host in &self.hosts {
            host.check_quiet(&self.hosts, case);
            assert_eq!((host.backlog_bytes(), host.deadline()), (0, Time::NEVER), "{case}");
        }
        assert!(self.wires.is_empty(), "{case}");
    }

    pub(crate) fn assert_all_delivered(&self, case: &str) {
        for record in &self.app.messages {
            assert!(record.acked.is_some() || record.over, "{case}: {record:?}");
        }
        self.assert_quiet(case);
    }
}

/// Congestion signals: marks a packet if it supports marks, and records a queueing delay of 10 µs
/// if it supports that.
fn signal_congestion(frame: &mut Frame) {
    if frame.flags & frame_flag::ECN_CAPABLE != 0 {
        frame.flags |= frame_flag::CONGESTION_EXPERIENCED;
    }
    if frame.flags & frame_flag::STAMP_PEAK != 0 {
        frame.peak_hop_delay = Span::us(10);
    }
}
