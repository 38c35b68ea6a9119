//! Ports that pause each other in a circle, so that none of them will ever send again.
//!
//! A port that stands still waits for the switch that it leads to, which holds too much of what
//! came in by it; and that waits for those of its own ports that stand still with some of it in
//! their queues. All else will drain. So of the ports that stand still those are left out, one
//! after another, whose switch will let them go on once the rest has drained; whoever is left waits
//! for others that are left, for ever, unless a link fails. That is exact: nobody is accused who
//! would have gone on.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use tidegate_core::Time;
use tidegate_core::fabric::{Fabric, Node, PortEnds};

use crate::bytes::bytes;
use crate::ingress::{Held, pool_bytes, resumes};

/// Ports that pause each other in a circle: the run cannot go on as it should.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Deadlock {
    /// When it was found, some 100 us after it came about.
    pub at: Time,
    /// The names of both ends of every port in the circle: each waits for the next, and the last
    /// for the first.
    pub ports: Vec<(String, String)>,
}

impl Deadlock {
    /// The first of those that `waits` has, if it has any.
    pub(crate) fn of(waits: &Waits, fabric: &Fabric, at: Time) -> Option<Deadlock> {
        let name = |node| match node {
            Node::Host(host) => fabric.hosts[host as usize].clone(),
            Node::Switch(switch) => fabric.switches[switch as usize].name.clone(),
        };
        let ends = |port| {
            let PortEnds { from, to } = fabric.port_ends(port);
            (name(from), name(to))
        };
        let ports: Vec<_> = waits.circle(fabric).into_iter().map(ends).collect();
        (!ports.is_empty()).then_some(Deadlock { at, ports })
    }
}

impl fmt::Display for Deadlock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "deadlock, found at {}: ", self.at)?;
        for (number, (from, to)) in self.ports.iter().enumerate() {
            write!(f, "{}{from} to {to}", if number > 0 { ", " } else { "" })?;
        }
        f.write_str(
            " are paused in a circle, each until the next one sends again (switch.pfc over routes \
             that go round)",
        )
    }
}

impl std::error::Error for Deadlock {}

/// Who stands still in a partition, by names of ports.
#[derive(Default)]
pub(crate) struct Waits {
    /// Ports that have stood still for long.
    pub(crate) still: Vec<Still>,
    /// What switches that have such ports hold.
    pub(crate) held: Vec<At>,
    /// What of it is queued at those ports in classes that stand still.
    pub(crate) queued: Vec<Queued>,
}

/// A port that stands still.
#[derive(Clone, Copy)]
pub(crate) struct Still {
    pub(crate) port: u32,
    /// A bit each.
    pub(crate) classes: u8,
    pub(crate) since: Time,
}

/// What a switch holds of a class that came in by a port.
pub(crate) struct At {
    pub(crate) ingress: u32,
    pub(crate) class: u8,
    pub(crate) bytes: u64,
    pub(crate) headroom: u64,
    /// Whether its sender is told to pause.
    pub(crate) is_told: bool,
}

/// Bytes of a class that came in by one port and wait at another.
pub(crate) struct Queued {
    pub(crate) egress: u32,
    pub(crate) ingress: u32,
    pub(crate) class: u8,
    pub(crate) bytes: u64,
}

bytes! {
    Waits { still, held, queued }
    Still { port, classes, since }
    At { ingress, class, bytes, headroom, is_told }
    Queued { egress, ingress, class, bytes }
}

impl Waits {
    /// Adds those of other partitions.
    pub(crate) fn join(&mut self, others: Waits) {
        self.still.extend(others.still);
        self.held.extend(others.held);
        self.queued.extend(others.queued);
    }

    /// Hosts that have paused their switch for long, and since when.
    pub(crate) fn storms(&self, fabric: &Fabric) -> impl Iterator<Item = (u32, Time)> {
        self.still.iter().filter_map(|still| match fabric.port_ends(still.port).to {
            Node::Host(host) => Some((host, still.since)),
            Node::Switch(_) => None,
        })
    }

    /// Ports in a circle, each of which waits for the next; empty: there is none.
    fn circle(&self, fabric: &Fabric) -> Vec<u32> {
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

    /// Ports and classes that will never go on.
    fn stuck(&self, fabric: &Fabric) -> BTreeSet<(u32, u8)> {
        let told: BTreeSet<_> =
            self.held.iter().filter(|at| at.is_told).map(|at| (at.ingress, at.class)).collect();
        let classes = |&Still { port, classes, .. }: &Still| {
            (0..8).filter(move |class| classes & 1 << class != 0).map(move |class| (port, class))
        };
        let mut stuck: BTreeSet<_> = self.still.iter().flat_map(classes).collect();
        stuck.retain(|port| told.contains(port));
        let pools = pool_bytes(fabric);
        loop {
            let left = self.left(fabric, &pools, &stuck);
            if left.len() == stuck.len() {
                return stuck;
            }
            stuck = left;
        }
    }

    /// Those of `stuck` that do not go on once all has drained that does not wait for any of them.
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
            // Its switch looks when some of it leaves.
            let may_go_on = after.bytes < at.bytes
                && resumes(&pausing, after, pools[switch].saturating_sub(used[switch]));
            stuck.contains(&(at.ingress, at.class)) && after.bytes > 0 && !may_go_on
        };
        self.held.iter().filter(remains).map(|at| (at.ingress, at.class)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tidegate_core::fabric::{Buffer, Headroom, Link, Pausing, Switch};
    use tidegate_core::{Rate, Span};

    /// Two switches that pause, with a host each: links to the hosts, then the one between.
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
            telemetry: false,
            buffer: Buffer::Shared { bytes: 4_200, alpha: 1.0 },
            ecn: None,
            priorities: 1,
            discipline: None,
            pausing: Some(pausing),
            credit_queue: None,
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
            rate_changes: Vec::new(),
            circuits: None,
            mtu: 1000,
        }
    }

    /// Ports 4 and 5, between the switches, stand still. Each switch holds 1,500 B from the other,
    /// of which so many wait at the port back.
    fn waits(back: [u64; 2]) -> Waits {
        let still = |port| Still { port, classes: 1, since: Time::ZERO };
        let held = |ingress| At { ingress, class: 0, bytes: 1_500, headroom: 200, is_told: true };
        let queued = |egress, bytes| Queued { egress, ingress: egress ^ 1, class: 0, bytes };
        Waits {
            still: vec![still(4), still(5)],
            held: vec![held(4), held(5)],
            queued: vec![queued(4, back[0]), queued(5, back[1])],
        }
    }

    #[test]
    fn only_who_never_goes_on_is_in_a_circle() {
        let fabric = pair();
        assert_eq!(pool_bytes(&fabric), [2_000; 2]);
        assert_eq!(waits([1_500, 1_500]).circle(&fabric), [4, 5]);
        // Once the rest has drained, 1,100 B are left, 1,000 of the pool: no less than half of what
        // is free.
        assert_eq!(waits([1_100, 1_500]).circle(&fabric), [4, 5]);
        // 600 of the pool and an offset of 50, of which half is 700: that one goes on, and with it
        // the other.
        assert_eq!(waits([1_500, 700]).circle(&fabric), []);
        // 700 of the pool: an offset of 50 is too much for half of the 1,300 that are free then.
        assert_eq!(waits([800, 1_500]).circle(&fabric), [4, 5]);
        assert_eq!(waits([0, 1_500]).circle(&fabric), []);
        // Little is held, but nothing of it leaves, and so nobody looks.
        let mut little = waits([500, 500]);
        little.held.iter_mut().for_each(|at| (at.bytes, at.headroom) = (500, 0));
        assert_eq!(little.circle(&fabric), [4, 5]);
        // Who has been told to go on, but not heard of it yet, does not wait.
        let mut heard = waits([1_500, 1_500]);
        heard.held[0].is_told = false;
        assert_eq!(heard.circle(&fabric), []);
    }
}
