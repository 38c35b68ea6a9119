//! PFC deadlocks: ports that pause each other in a cycle, so that none of them will ever send
//! again.
//!
//! A paused port waits for the switch that it leads to, which buffers too many bytes from this
//! ingress. That switch waits for those of its own ports that are paused with some of these bytes
//! in their queues. All other queues will drain. So the analysis starts with all paused ports and
//! repeatedly removes those that their switch will resume once the rest has drained. The ports that
//! remain wait for each other for ever, unless a link fails. The result is exact: it never contains
//! a port that would have resumed.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use tidegate_core::fabric::{Fabric, Node, PortEnds};
use tidegate_core::{Span, Time};

use crate::bytes::bytes;
use crate::measures::outcome::PauseStorm;
use crate::ports::ingress::{Held, pool_bytes, resumes};

/// Interval of the search for deadlocks.
pub(crate) const INTERVAL: Span = Span::us(100);

/// The search of a run for deadlocks, and for hosts that pause their switches.
pub(crate) struct Detection {
    /// Time of the next search; never if no switch uses PFC.
    pub(crate) next: Time,
    /// By host: start of its first long pause of its switch.
    storms: BTreeMap<u32, Time>,
}

impl Detection {
    pub(crate) fn new(fabric: &Fabric) -> Detection {
        let uses_pfc = fabric.switches.iter().any(|switch| switch.pausing.is_some());
        let next = if uses_pfc { Time::ZERO + INTERVAL } else { Time::NEVER };
        Detection { next, storms: BTreeMap::new() }
    }

    /// Returns the first deadlock in the waits of all partitions at `at`, and keeps their storms.
    pub(crate) fn search(&mut self, waits: &Waits, fabric: &Fabric, at: Time) -> Option<Deadlock> {
        for paused in &waits.paused {
            if let Node::Host(host) = fabric.port_ends(paused.port).to {
                self.storms.entry(host).or_insert(paused.since);
            }
        }
        let deadlock = Deadlock::of(waits, fabric, at);
        if deadlock.is_none() {
            self.next = at.after(INTERVAL);
        }
        deadlock
    }

    /// Hosts that have paused their switch for long, by index.
    pub(crate) fn storms(&self) -> Vec<PauseStorm> {
        self.storms.iter().map(|(&host, &since)| PauseStorm { host, since }).collect()
    }
}

/// Ports that pause each other in a cycle. The run ends with this error.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Deadlock {
    /// Time of detection, up to some 100 us after the deadlock formed.
    pub at: Time,
    /// Names of both ends of every port in the cycle. Each port waits for the next one, and the
    /// last for the first.
    pub ports: Vec<(String, String)>,
}

impl Deadlock {
    /// The first deadlock in `waits`, if any.
    fn of(waits: &Waits, fabric: &Fabric, at: Time) -> Option<Deadlock> {
        let name = |node| match node {
            Node::Host(host) => fabric.hosts[host as usize].clone(),
            Node::Switch(switch) => fabric.switches[switch as usize].name.clone(),
        };
        let ends = |port| {
            let PortEnds { from, to } = fabric.port_ends(port);
            (name(from), name(to))
        };
        let ports: Vec<_> = waits.cycle(fabric).into_iter().map(ends).collect();
        (!ports.is_empty()).then_some(Deadlock { at, ports })
    }
}

impl fmt::Display for Deadlock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "deadlock detected at {}: ", self.at)?;
        for (number, (from, to)) in self.ports.iter().enumerate() {
            write!(f, "{}{from} to {to}", if number > 0 { ", " } else { "" })?;
        }
        f.write_str(
            " pause each other in a cycle, and none of them can resume: use routes without a \
             cycle, or set switch.pfc = \"off\"",
        )
    }
}

impl std::error::Error for Deadlock {}

/// Paused ports of a partition and the queues behind them, with global port IDs.
#[derive(Default)]
pub(crate) struct Waits {
    /// Ports that have been paused for long.
    pub(crate) paused: Vec<PausedPort>,
    /// Bytes buffered in switches that have such ports, by ingress.
    pub(crate) held: Vec<At>,
    /// Of these bytes, those queued at such ports in paused classes.
    pub(crate) queued: Vec<Queued>,
}

/// A paused port.
#[derive(Clone, Copy)]
pub(crate) struct PausedPort {
    pub(crate) port: u32,
    /// Paused classes; one bit each.
    pub(crate) classes: u8,
    pub(crate) since: Time,
}

/// Bytes of a class that a switch holds from one ingress.
pub(crate) struct At {
    pub(crate) ingress: u32,
    pub(crate) class: u8,
    pub(crate) bytes: u64,
    pub(crate) headroom: u64,
    /// The switch has paused the sender.
    pub(crate) sender_paused: bool,
}

/// Bytes of a class that arrived by one port and wait at another.
pub(crate) struct Queued {
    pub(crate) egress: u32,
    pub(crate) ingress: u32,
    pub(crate) class: u8,
    pub(crate) bytes: u64,
}

bytes! {
    Waits { paused, held, queued }
    PausedPort { port, classes, since }
    At { ingress, class, bytes, headroom, sender_paused }
    Queued { egress, ingress, class, bytes }
}

impl Waits {
    /// Adds the waits of other partitions.
    pub(crate) fn join(&mut self, others: Waits) {
        self.paused.extend(others.paused);
        self.held.extend(others.held);
        self.queued.extend(others.queued);
    }

    /// Ports in a cycle, each of which waits for the next one. Empty if there is none.
    fn cycle(&self, fabric: &Fabric) -> Vec<u32> {
        let stuck = self.stuck(fabric);
        let Some(&first) = stuck.first() else { return Vec::new() };
        let (mut path, mut at) = (Vec::new(), first);
        loop {
            if let Some(start) = path.iter().position(|&seen| seen == at) {
                return path[start..].iter().map(|&(port, _)| port).collect();
            }
            path.push(at);
            let waits_for = |queued: &&Queued| (queued.ingress, queued.class) == at;
            let next = self.queued.iter().filter(waits_for).map(|q| (q.egress, q.class));
            match next.filter(|next| stuck.contains(next)).min() {
                Some(next) => at = next,
                None => return Vec::new(),
            }
        }
    }

    /// Ports and classes that will never resume.
    fn stuck(&self, fabric: &Fabric) -> BTreeSet<(u32, u8)> {
        let paused: BTreeSet<_> = self
            .held
            .iter()
            .filter(|at| at.sender_paused)
            .map(|at| (at.ingress, at.class))
            .collect();
        let classes = |&PausedPort { port, classes, .. }: &PausedPort| {
            (0..8).filter(move |class| classes & 1 << class != 0).map(move |class| (port, class))
        };
        let mut stuck: BTreeSet<_> = self.paused.iter().flat_map(classes).collect();
        stuck.retain(|port| paused.contains(port));
        let pools = pool_bytes(fabric);
        loop {
            let left = self.left(fabric, &pools, &stuck);
            if left.len() == stuck.len() {
                return stuck;
            }
            stuck = left;
        }
    }

    /// Those of `stuck` that stay paused once all bytes have drained that do not wait for any of
    /// them.
    fn left(
        &self,
        fabric: &Fabric,
        pools: &[u64],
        stuck: &BTreeSet<(u32, u8)>,
    ) -> BTreeSet<(u32, u8)> {
        let mut stays = BTreeMap::new();
        for queued in self.queued.iter().filter(|q| stuck.contains(&(q.egress, q.class))) {
            *stays.entry((queued.ingress, queued.class)).or_insert(0) += queued.bytes;
        }
        let switch_of = |port| match fabric.port_ends(port).to {
            Node::Switch(switch) => switch as usize,
            Node::Host(_) => usize::MAX,
        };
        let after = |at: &At| {
            let stays = stays.get(&(at.ingress, at.class)).copied().unwrap_or(0);
            Held { bytes: at.bytes, headroom: at.headroom }.without(at.bytes - stays)
        };
        let mut used = vec![0; fabric.switches.len()];
        for at in &self.held {
            let switch = switch_of(at.ingress);
            used[switch] += fabric.switches[switch].pausing.map_or(0, |p| after(at).shared(&p));
        }
        let remains = |at: &&At| {
            let (switch, after) = (switch_of(at.ingress), after(at));
            let Some(pausing) = fabric.switches[switch].pausing else { return false };
            // The switch checks only when some of these bytes leave.
            let may_resume = after.bytes < at.bytes
                && resumes(&pausing, after, pools[switch].saturating_sub(used[switch]));
            stuck.contains(&(at.ingress, at.class)) && after.bytes > 0 && !may_resume
        };
        self.held.iter().filter(remains).map(|at| (at.ingress, at.class)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tidegate_core::fabric::{
        Buffer, Headroom, Link, Pausing, Stamping, Switch, TelemetryResolution,
    };
    use tidegate_core::{Rate, Span};

    /// Two switches with PFC and one host each: links to the hosts, then the one between the
    /// switches.
    fn pair() -> Fabric {
        let pausing = Pausing {
            classes: 1,
            alpha: 0.5,
            reserved_bytes: 100,
            headroom: Headroom::Bytes(1_000),
            headroom_on_top: false,
            resume_offset_bytes: 50,
        };
        let switch = |name: &str| Switch {
            name: name.into(),
            latency: Span::ZERO,
            telemetry: Stamping::Off,
            telemetry_resolution: TelemetryResolution::EXACT,
            buffer: Buffer::Shared { bytes: 4_200, alpha: 1.0 },
            ecn: None,
            priorities: 1,
            pausing: Some(pausing),
            credit_queue: None,
            trimming: None,
        };
        let link = |a, b| Link { a, b, rate: Rate::gbps(1), delay: Span::us(1) };
        Fabric {
            hosts: vec!["h0".into(), "h1".into()],
            switches: vec![switch("s0"), switch("s1")],
            links: vec![
                link(Node::Host(0), Node::Switch(0)),
                link(Node::Host(1), Node::Switch(1)),
                link(Node::Switch(0), Node::Switch(1)),
            ],
            mtu: 1000,
            ..Fabric::default()
        }
    }

    /// Ports 4 and 5, between the switches, are paused. Each switch holds 1,500 B from the other,
    /// of which `back` bytes wait at the port back.
    fn waits(back: [u64; 2]) -> Waits {
        let paused = |port| PausedPort { port, classes: 1, since: Time::ZERO };
        let held =
            |ingress| At { ingress, class: 0, bytes: 1_500, headroom: 200, sender_paused: true };
        let queued = |egress, bytes| Queued { egress, ingress: egress ^ 1, class: 0, bytes };
        Waits {
            paused: vec![paused(4), paused(5)],
            held: vec![held(4), held(5)],
            queued: vec![queued(4, back[0]), queued(5, back[1])],
        }
    }

    #[test]
    fn only_stuck_ports_form_a_cycle() {
        let fabric = pair();
        assert_eq!(pool_bytes(&fabric), [2_000; 2]);
        assert_eq!(waits([1_500, 1_500]).cycle(&fabric), [4, 5]);
        // Once the rest has drained, 1,100 B are left, 1,000 B of them in the pool: at least half
        // of the free bytes.
        assert_eq!(waits([1_100, 1_500]).cycle(&fabric), [4, 5]);
        // 600 B of the pool and an offset of 50 B, against half of 1,400 B: this port resumes, and
        // then the other.
        assert_eq!(waits([1_500, 700]).cycle(&fabric), []);
        // 700 B of the pool: with an offset of 50 B this exceeds half of the 1,300 B that are free
        // then.
        assert_eq!(waits([800, 1_500]).cycle(&fabric), [4, 5]);
        assert_eq!(waits([0, 1_500]).cycle(&fabric), []);
        // Few bytes are held, but none of them leaves, so the switch never checks.
        let mut little = waits([500, 500]);
        little.held.iter_mut().for_each(|at| (at.bytes, at.headroom) = (500, 0));
        assert_eq!(little.cycle(&fabric), [4, 5]);
        // A port whose resume frame is still on the link does not wait.
        let mut resumed = waits([1_500, 1_500]);
        resumed.held[0].sender_paused = false;
        assert_eq!(resumed.cycle(&fabric), []);
    }
}
