//! Which part of a fabric each switch and host is in, so that parts can run beside each other.
//!
//! Switches that have hosts are dealt out in their order, in runs of about as many hosts each; every
//! other switch goes where most of its links lead, or where least is. A host is with its switch.
//! Parts are told apart by nothing else: what they do does not depend on where the cuts are.

use tidegate_core::fabric::{Fabric, Link, Node};
use tidegate_core::{MIN_WIRE_BYTES, Time};

/// Links that are crossed faster than this are not cut: parts would have to meet too often.
const SHORTEST_CUT: Time = Time::ns(50);

/// Parts of a fabric.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Partition {
    pub(crate) parts: usize,
    /// By switch.
    pub(crate) of_switch: Vec<u32>,
    /// By host.
    pub(crate) of_host: Vec<u32>,
    /// Least time that a packet takes from one part to another, from the start of its transmission;
    /// [`Time::NEVER`] where there is one part.
    pub(crate) lookahead: Time,
}

impl Partition {
    /// All in one.
    pub(crate) fn whole(fabric: &Fabric) -> Partition {
        Partition {
            parts: 1,
            of_switch: vec![0; fabric.switches.len()],
            of_host: vec![0; fabric.hosts.len()],
            lookahead: Time::NEVER,
        }
    }

    /// At most so many parts; fewer where the fabric has fewer racks that can be cut apart.
    pub(crate) fn new(fabric: &Fabric, parts: usize) -> Partition {
        let clusters = clusters(fabric);
        let leaders: Vec<usize> = {
            let mut leaders: Vec<usize> = clusters.clone();
            leaders.sort_unstable();
            leaders.dedup();
            leaders
        };
        let mut hosts = vec![0u64; fabric.switches.len()];
        for link in &fabric.links {
            if let (Node::Host(_), Node::Switch(s)) | (Node::Switch(s), Node::Host(_)) =
                (link.a, link.b)
            {
                hosts[clusters[s as usize]] += 1;
            }
        }
        let racks: Vec<usize> = leaders.iter().copied().filter(|&s| hosts[s] > 0).collect();
        let parts = parts.min(racks.len());
        if parts <= 1 {
            return Self::whole(fabric);
        }
        let mut part_of = vec![None; fabric.switches.len()];
        let all: u64 = hosts.iter().sum();
        let mut before = 0;
        for (number, &rack) in racks.iter().enumerate() {
            // By the middle of its hosts, but so that no part stays empty.
            let middle = 2 * before + hosts[rack];
            let by_hosts = (middle as u128 * parts as u128 / (2 * all) as u128) as usize;
            let least = (number + parts).saturating_sub(racks.len());
            part_of[rack] = Some(by_hosts.clamp(least, number.min(parts - 1)));
            before += hosts[rack];
        }
        assign_others(fabric, &clusters, &mut part_of, parts);
        let of_switch: Vec<u32> =
            clusters.iter().map(|&leader| part_of[leader].unwrap_or(0) as u32).collect();
        let mut of_host = vec![0; fabric.hosts.len()];
        for link in &fabric.links {
            if let (Node::Host(h), Node::Switch(s)) | (Node::Switch(s), Node::Host(h)) =
                (link.a, link.b)
            {
                of_host[h as usize] = of_switch[s as usize];
            }
        }
        let cut = |(_, link): &(usize, &Link)| match (link.a, link.b) {
            (Node::Switch(a), Node::Switch(b)) => of_switch[a as usize] != of_switch[b as usize],
            _ => false,
        };
        let lookahead =
            fabric.links.iter().enumerate().filter(cut).map(|link| crossing(fabric, link)).min();
        // Parts that no link joins never need each other.
        let lookahead = lookahead.unwrap_or(Time::s(1));
        Partition { parts, of_switch, of_host, lookahead }
    }
}

/// Least time that a packet takes over a link between switches, either way.
fn crossing(fabric: &Fabric, (number, link): (usize, &Link)) -> Time {
    let latency = |node| match node {
        Node::Switch(s) => fabric.switches[s as usize].latency,
        Node::Host(_) => Time::ZERO,
    };
    let into = latency(link.a).min(latency(link.b));
    let rates = fabric.rate_changes.iter().filter(|change| change.port / 2 == number as u32);
    let fastest = rates.map(|change| change.rate).fold(link.rate, tidegate_core::Rate::max);
    fastest.serialise(MIN_WIRE_BYTES as u64) + link.delay + into
}

/// By switch: the least number of those that it must be with.
fn clusters(fabric: &Fabric) -> Vec<usize> {
    let mut leader: Vec<usize> = (0..fabric.switches.len()).collect();
    fn find(leader: &mut [usize], mut at: usize) -> usize {
        while leader[at] != at {
            leader[at] = leader[leader[at]];
            at = leader[at];
        }
        at
    }
    for (number, link) in fabric.links.iter().enumerate() {
        if let (Node::Switch(a), Node::Switch(b)) = (link.a, link.b)
            && crossing(fabric, (number, link)) < SHORTEST_CUT
        {
            let (a, b) = (find(&mut leader, a as usize), find(&mut leader, b as usize));
            leader[a.max(b)] = a.min(b);
        }
    }
    (0..leader.len()).map(|switch| find(&mut leader, switch)).collect()
}

/// Finds a part for the switches without hosts, from those next to racks outwards.
fn assign_others(fabric: &Fabric, clusters: &[usize], part_of: &mut [Option<usize>], parts: usize) {
    let mut beside: Vec<Vec<usize>> = vec![Vec::new(); part_of.len()];
    for link in &fabric.links {
        if let (Node::Switch(a), Node::Switch(b)) = (link.a, link.b) {
            let (a, b) = (clusters[a as usize], clusters[b as usize]);
            if a != b {
                beside[a].push(b);
                beside[b].push(a);
            }
        }
    }
    let mut load = vec![0usize; parts];
    let mut frontier: Vec<usize> = (0..part_of.len()).filter(|&s| part_of[s].is_some()).collect();
    while !frontier.is_empty() {
        let mut next: Vec<usize> = frontier
            .iter()
            .flat_map(|&s| beside[s].iter().copied())
            .filter(|&s| part_of[s].is_none())
            .collect();
        next.sort_unstable();
        next.dedup();
        // All of a tier see the tier below, and not each other.
        let mut chosen = Vec::new();
        for &switch in &next {
            let mut links = vec![0usize; parts];
            for &other in &beside[switch] {
                if let Some(part) = part_of[other] {
                    links[part] += 1;
                }
            }
            let best = (0..parts).max_by_key(|&part| {
                (links[part], std::cmp::Reverse(load[part]), std::cmp::Reverse(part))
            });
            let best = best.unwrap_or(0);
            load[best] += beside[switch].len();
            chosen.push((switch, best));
        }
        for (switch, part) in chosen {
            part_of[switch] = Some(part);
        }
        frontier = next;
    }
}
