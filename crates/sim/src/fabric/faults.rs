//! Injected faults: impairments of packets at the end of a link, and outages of links and hosts.
//!
//! Every link draws from a random stream of its own, in the order of its packets, so the faults of
//! one link do not affect those of others.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

use tidegate_core::fabric::{Fabric, Node, RateChange};
use tidegate_core::faults::{Failing, Faults, Outage};
use tidegate_core::{Domain, Rate, Rng, Span, Time};

/// Outcome of a packet that reaches the end of a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Impairment {
    Arrives,
    Lost,
    Corrupted,
    Duplicated,
    /// Delayed by this time.
    Late(Span),
}

/// Faults of a run, for one partition.
pub(crate) struct Injector {
    faults: Faults,
    /// Random streams, by port of the partition.
    streams: Vec<Option<Rng>>,
    /// (time, order, change).
    changes: BinaryHeap<Reverse<(Time, u64, Change)>>,
    order: u64,
    /// Random streams of flapping links, by link.
    flaps: Vec<Rng>,
    /// Delayed packets: (release time, order, packet).
    late: BinaryHeap<Reverse<(Time, u64, Held)>>,
    /// By link, if links can fail: number of current outages, including those of its host.
    links_down: Vec<u32>,
    /// By host, if hosts can stop: number of current outages.
    hosts_down: Vec<u32>,
    /// Time from a change of a link until routing follows.
    convergence: Span,
    /// Changes of links that routing has not followed: (time at which it does, link, down).
    unrouted: VecDeque<(Time, u32, bool)>,
    /// By link, if links can fail: whether routing avoids it.
    is_avoided: Vec<bool>,
    /// Starts and ends of PFC storms of hosts, the next one last.
    storms: Vec<(Time, u32, bool)>,
    /// Rate changes, the next one last.
    rates: Vec<(Time, NewRate)>,
}

/// Rate of a port from now on.
#[derive(Clone, Copy, Debug)]
pub(crate) struct NewRate {
    /// Global ID of the port.
    pub(crate) port: u32,
    pub(crate) rate: Rate,
    /// Index of the ECN configuration at this rate, if the port marks.
    pub(crate) marking: Option<u16>,
}

/// A delayed packet: at the end of a link, or between NIC and transport.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Held {
    pub(crate) packet: u32,
    /// Node that it is about to reach.
    pub(crate) to: u32,
    /// Time at which it came off its link.
    pub(crate) landed: Time,
    /// Time at which the NIC took it, if it has.
    pub(crate) received: Option<Time>,
}

/// Start or end of an outage of a link, or of a host with its link.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Change {
    link: u32,
    host: Option<u32>,
    down: bool,
    flap: bool,
}

/// Effect of a change. Overlapping outages last until all of them are over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Changed {
    /// The link or host goes down; otherwise it comes back.
    pub(crate) down: bool,
    pub(crate) link: Option<u32>,
    pub(crate) host: Option<u32>,
}

impl Injector {
    /// For a partition with these ports. Routing follows changes of links after `convergence`.
    /// `marking_from` returns the ECN configuration of the port from a rate change on, by the index
    /// of the change.
    pub(crate) fn new(
        (faults, convergence): (&Faults, Span),
        fabric: &Fabric,
        marking_from: impl Fn(usize) -> Option<u16>,
        ports: &[u32],
        seed: u64,
    ) -> Injector {
        let stream = |entity: usize| Rng::stream(seed, Domain::Faults, entity as u64);
        let links = fabric.links.len();
        let fails = !faults.outages.is_empty() || faults.flaps.is_some();
        let flapping = if faults.flaps.is_some() { links } else { 0 };
        let mut injector = Injector {
            faults: faults.clone(),
            streams: if faults.touch_packets() {
                // A link between a host and its NIC is no cable.
                let is_spared = |port: u32| {
                    let link = &fabric.links[port as usize / 2];
                    matches!(
                        (link.a, link.b),
                        (Node::Host(_), nic) | (nic, Node::Host(_)) if fabric.is_nic(nic)
                    )
                };
                let stream = |&port: &u32| (!is_spared(port)).then(|| stream(port as usize));
                ports.iter().map(stream).collect()
            } else {
                Vec::new()
            },
            changes: BinaryHeap::new(),
            order: 0,
            flaps: (0..flapping).map(|link| stream(1 << 32 | link)).collect(),
            late: BinaryHeap::new(),
            links_down: vec![0; if fails { links } else { 0 }],
            hosts_down: vec![0; if fails { fabric.hosts.len() } else { 0 }],
            convergence,
            unrouted: VecDeque::new(),
            is_avoided: vec![false; if fails { links } else { 0 }],
            storms: storms(faults),
            rates: rates(fabric, marking_from),
        };
        for outage in &faults.outages {
            let (link, host) = match outage.of {
                Failing::Link(link) => (link, None),
                Failing::Host(host) => (link_of(fabric, host), Some(host)),
                Failing::Nic(_) => continue,
            };
            injector.schedule(outage.down, Change { link, host, down: true, flap: false });
            if outage.up < Time::NEVER {
                injector.schedule(outage.up, Change { link, host, down: false, flap: false });
            }
        }
        if let Some(flaps) = faults.flaps {
            for (link, ends) in fabric.links.iter().enumerate() {
                if fabric.joins_switches(ends) {
                    let up = flaps.mean_up.scale(injector.flaps[link].exponential());
                    injector.schedule(
                        Time::ZERO.after(up),
                        Change { link: link as u32, host: None, down: true, flap: true },
                    );
                }
            }
        }
        injector
    }

    fn schedule(&mut self, at: Time, change: Change) {
        self.order += 1;
        self.changes.push(Reverse((at, self.order, change)));
    }

    /// Draws the impairment of a packet at the end of the link of `port`.
    pub(crate) fn impairment(&mut self, port: u32) -> Impairment {
        let Some(Some(rng)) = self.streams.get_mut(port as usize) else {
            return Impairment::Arrives;
        };
        let mut u = rng.unit();
        let mut hit = |probability: f64| {
            let hit = u < probability;
            u -= probability;
            hit
        };
        if hit(self.faults.loss) {
            Impairment::Lost
        } else if hit(self.faults.corruption) {
            Impairment::Corrupted
        } else if hit(self.faults.duplication) {
            Impairment::Duplicated
        } else if hit(self.faults.reordering) {
            Impairment::Late(self.faults.reorder_delay.scale(rng.unit()))
        } else {
            Impairment::Arrives
        }
    }

    /// Delays a packet until `at`.
    pub(crate) fn hold(&mut self, at: Time, held: Held) {
        self.order += 1;
        self.late.push(Reverse((at, self.order, held)));
    }

    /// Time of the next change or release.
    pub(crate) fn next_at(&self) -> Time {
        let change = self.changes.peek().map_or(Time::NEVER, |Reverse((at, ..))| *at);
        let storm = self.storms.last().map_or(Time::NEVER, |&(at, ..)| at);
        let rate = self.rates.last().map_or(Time::NEVER, |&(at, ..)| at);
        let routes = self.unrouted.front().map_or(Time::NEVER, |&(at, ..)| at);
        change
            .min(storm)
            .min(rate)
            .min(routes)
            .min(self.late.peek().map_or(Time::NEVER, |Reverse((at, ..))| *at))
    }

    /// Releases a delayed packet that is due.
    pub(crate) fn release(&mut self, now: Time) -> Option<Held> {
        let Reverse((at, _, held)) = *self.late.peek()?;
        (at <= now).then(|| {
            self.late.pop();
            held
        })
    }

    /// Applies a change that is due, and returns its effect.
    pub(crate) fn change(&mut self, now: Time) -> Option<Changed> {
        let &Reverse((at, _, change)) = self.changes.peek()?;
        if at > now {
            return None;
        }
        self.changes.pop();
        if let Some(flaps) = self.faults.flaps.filter(|_| change.flap) {
            let mean = if change.down { flaps.mean_down } else { flaps.mean_up };
            let next = now.after(mean.scale(self.flaps[change.link as usize].exponential()));
            self.schedule(next, Change { down: !change.down, ..change });
        }
        let toggles = |held: &mut u32| {
            let before = *held;
            *held = if change.down { before + 1 } else { before - 1 };
            before.min(*held) == 0
        };
        let link = Some(change.link).filter(|&link| toggles(&mut self.links_down[link as usize]));
        let host = change.host.filter(|&host| toggles(&mut self.hosts_down[host as usize]));
        if let Some(link) = link {
            self.schedule_routing(now, link, change.down);
        }
        Some(Changed { down: change.down, link, host })
    }

    /// Routing will follow a change of a link. A change that is undone before remains unnoticed.
    fn schedule_routing(&mut self, now: Time, link: u32, down: bool) {
        let before = self.unrouted.len();
        self.unrouted.retain(|&(_, other, _)| other != link);
        if self.unrouted.len() == before {
            self.unrouted.push_back((now.after(self.convergence), link, down));
        }
    }

    /// Lets routing follow the changes of links that it has had time for. Returns whether there are
    /// any.
    pub(crate) fn converge(&mut self, now: Time) -> bool {
        let due = self.unrouted.iter().take_while(|&&(at, ..)| at <= now).count();
        for (_, link, down) in self.unrouted.drain(..due) {
            self.is_avoided[link as usize] = down;
        }
        due > 0
    }

    /// A host that starts (`true`) or ends a PFC storm at `now`.
    pub(crate) fn storm(&mut self, now: Time) -> Option<(u32, bool)> {
        let (_, host, on) = self.storms.pop_if(|&mut (at, ..)| at <= now)?;
        Some((host, on))
    }

    /// A rate change that is due.
    pub(crate) fn new_rate(&mut self, now: Time) -> Option<NewRate> {
        self.rates.pop_if(|&mut (at, _)| at <= now).map(|(_, new)| new)
    }

    pub(crate) fn is_avoided(&self, link: u32) -> bool {
        self.is_avoided[link as usize]
    }
}

/// Starts and ends of PFC storms, the last first.
fn storms(faults: &Faults) -> Vec<(Time, u32, bool)> {
    let ends = |outage: &Outage| match outage.of {
        Failing::Nic(host) => vec![(outage.down, host, true), (outage.up, host, false)],
        Failing::Link(_) | Failing::Host(_) => Vec::new(),
    };
    let mut all: Vec<_> = faults.outages.iter().flat_map(ends).collect();
    all.retain(|&(at, ..)| at < Time::NEVER);
    all.sort_unstable();
    all.reverse();
    all
}

/// Rate changes, the last first.
fn rates(fabric: &Fabric, marking_from: impl Fn(usize) -> Option<u16>) -> Vec<(Time, NewRate)> {
    let changes = fabric.rate_changes.iter().enumerate();
    let new = |(number, &RateChange { port, at, rate }): (usize, &RateChange)| {
        (at, NewRate { port, rate, marking: marking_from(number) })
    };
    changes.map(new).rev().collect()
}

fn link_of(fabric: &Fabric, host: u32) -> u32 {
    let at_host = |link: &tidegate_core::fabric::Link| {
        link.a == Node::Host(host) || link.b == Node::Host(host)
    };
    fabric.links.iter().position(at_host).unwrap_or(0) as u32
}
