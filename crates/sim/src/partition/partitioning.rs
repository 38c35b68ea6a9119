//! Partitioning: the assignment of switches and hosts to partitions.
//!
//! Switches with hosts are divided in their order into runs with about as many hosts each. Every
//! other switch joins the partition that nearly all of its links lead to, or else the one with the
//! least load. A host is in the partition of its switch. Results do not depend on the partitioning.

use std::cmp::Reverse;
use std::collections::BTreeSet;

use tidegate_core::fabric::{Fabric, Link, Node};
use tidegate_core::{HEADER_BYTES, MIN_WIRE_BYTES, Span};

/// Links with a shorter crossing time are not cut, because partitions would have to synchronise too
/// often.
const SHORTEST_CUT: Span = Span::ns(50);

/// With fewer packet-hops per partition and window, barriers cost more than parallelism gains.
const HOPS_PER_WINDOW: f64 = 800.0;

/// Assignment of a fabric's nodes to partitions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Partitioning {
    pub(crate) partitions: usize,
    /// Partition by switch.
    pub(crate) of_switch: Vec<u32>,
    /// Partition by host.
    pub(crate) of_host: Vec<u32>,
    /// Least time that a packet takes from one partition to another, from the start of its
    /// transmission; [`Span::FOREVER`] with one partition.
    pub(crate) lookahead: Span,
}

impl Partitioning {
    /// A single partition.
    pub(crate) fn whole(fabric: &Fabric) -> Partitioning {
        Partitioning {
            partitions: 1,
            of_switch: vec![0; fabric.switches.len()],
            of_host: vec![0; fabric.hosts.len()],
            lookahead: Span::FOREVER,
        }
    }

    /// At most `partitions` partitions; fewer if the fabric has fewer racks that can be separated.
    /// No packet has less than `least_bytes` on the wire.
    pub(crate) fn new(fabric: &Fabric, least_bytes: u32, partitions: usize) -> Partitioning {
        let crossing = |link: (usize, &Link)| crossing(fabric, least_bytes, link);
        let clusters = clusters(fabric, crossing);
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
        let partitions = partitions.min(racks.len());
        if partitions <= 1 {
            return Self::whole(fabric);
        }
        let mut partition_of = vec![None; fabric.switches.len()];
        let all: u64 = hosts.iter().sum();
        let (mut before, mut next) = (0, 0);
        for (number, &rack) in racks.iter().enumerate() {
            // By the middle of its hosts, but such that no partition stays empty.
            let middle = 2 * before + hosts[rack];
            let by_hosts = (middle as u128 * partitions as u128 / (2 * all) as u128) as usize;
            let least = (number + partitions).saturating_sub(racks.len());
            // The next partition must not be skipped either.
            let partition = by_hosts.clamp(least, next.min(partitions - 1));
            partition_of[rack] = Some(partition);
            next = partition + 1;
            before += hosts[rack];
        }
        assign_others(fabric, &clusters, &mut partition_of, partitions);
        let of_switch: Vec<u32> =
            clusters.iter().map(|&leader| partition_of[leader].unwrap_or(0) as u32).collect();
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
        let lookahead = fabric.links.iter().enumerate().filter(cut).map(crossing).min();
        // Partitions without a link between them never need to synchronise.
        let lookahead = lookahead.unwrap_or(Span::s(1));
        Partitioning { partitions, of_switch, of_host, lookahead }
    }
}

/// Number of partitions, at most `most`, that a run on `fabric` with this number of packet-hops per
/// simulated second profits from: each should have enough work between two barriers.
pub fn partitions_worth(fabric: &Fabric, most: usize, packet_hops_per_second: f64) -> usize {
    let rack = |link: &Link| match (link.a, link.b) {
        (Node::Host(_), Node::Switch(s)) | (Node::Switch(s), Node::Host(_)) => Some(s),
        _ => None,
    };
    let racks: BTreeSet<u32> = fabric.links.iter().filter_map(rack).collect();
    // There are no more partitions than racks, however many threads are requested.
    let most = most.min(racks.len());
    let is_worth = |partitioning: &Partitioning| {
        let window = partitioning.lookahead.as_s_f64();
        packet_hops_per_second * window >= HOPS_PER_WINDOW * partitioning.partitions as f64
    };
    let of = |partitions| Partitioning::new(fabric, MIN_WIRE_BYTES, partitions);
    let cut = (2..=most).rev().map(of).find(is_worth);
    cut.map_or(1, |partitioning| partitioning.partitions)
}

/// Packet-hops per simulated second if all hosts send full packets at the rate of their links:
/// eight for each packet, with its acknowledgement.
pub fn packet_hops_at_full_rate(fabric: &Fabric) -> f64 {
    let of_host =
        |link: &&Link| matches!((link.a, link.b), (Node::Host(_), _) | (_, Node::Host(_)));
    let per_second =
        |link: &Link| link.rate.as_bps() as f64 / (8.0 * (fabric.mtu + HEADER_BYTES) as f64);
    8.0 * fabric.links.iter().filter(of_host).map(per_second).sum::<f64>()
}

/// Least time that a packet takes over a link between switches, in either direction.
fn crossing(fabric: &Fabric, least_bytes: u32, (number, link): (usize, &Link)) -> Span {
    let latency = |node| match node {
        Node::Switch(s) => fabric.switches[s as usize].latency,
        Node::Host(_) => Span::ZERO,
    };
    let into = latency(link.a).min(latency(link.b));
    let port = 2 * number as u32;
    let fastest = fabric.fastest(port).max(fabric.fastest(port + 1));
    fastest.serialise(least_bytes as u64) + link.delay + into
}

/// By switch: the least index among the switches that must share its partition.
fn clusters(fabric: &Fabric, crossing: impl Fn((usize, &Link)) -> Span) -> Vec<usize> {
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
            && crossing((number, link)) < SHORTEST_CUT
        {
            let (a, b) = (find(&mut leader, a as usize), find(&mut leader, b as usize));
            leader[a.max(b)] = a.min(b);
        }
    }
    // Hosts of one server exchange messages without packets.
    if let Some(servers) = fabric.servers {
        let mut of_host = vec![None; fabric.hosts.len()];
        for link in &fabric.links {
            if let (Node::Host(host), Node::Switch(switch))
            | (Node::Switch(switch), Node::Host(host)) = (link.a, link.b)
            {
                of_host[host as usize] = Some(switch as usize);
            }
        }
        for server in of_host.chunks(servers.hosts as usize) {
            for pair in server.windows(2) {
                if let [Some(a), Some(b)] = *pair {
                    let (a, b) = (find(&mut leader, a), find(&mut leader, b));
                    leader[a.max(b)] = a.min(b);
                }
            }
        }
    }
    (0..leader.len()).map(|switch| find(&mut leader, switch)).collect()
}

/// Assigns the switches without hosts, from those next to racks outwards.
fn assign_others(
    fabric: &Fabric,
    clusters: &[usize],
    partition_of: &mut [Option<usize>],
    partitions: usize,
) {
    let mut beside: Vec<Vec<usize>> = vec![Vec::new(); partition_of.len()];
    for link in &fabric.links {
        if let (Node::Switch(a), Node::Switch(b)) = (link.a, link.b) {
            let (a, b) = (clusters[a as usize], clusters[b as usize]);
            if a != b {
                beside[a].push(b);
                beside[b].push(a);
            }
        }
    }
    // Number of links, as a measure of the packets that pass.
    let mut load = vec![0usize; partitions];
    for (switch, partition) in partition_of.iter().enumerate() {
        partition.iter().for_each(|&partition| load[partition] += 2 * beside[switch].len());
    }
    let mut frontier: Vec<usize> =
        (0..partition_of.len()).filter(|&s| partition_of[s].is_some()).collect();
    while !frontier.is_empty() {
        let mut next: Vec<usize> = frontier
            .iter()
            .flat_map(|&s| beside[s].iter().copied())
            .filter(|&s| partition_of[s].is_none())
            .collect();
        next.sort_unstable();
        next.dedup();
        // The switches of a tier consider the tier below, and not each other.
        let mut chosen = Vec::new();
        for &switch in &next {
            let mut links = vec![0usize; partitions];
            for &other in &beside[switch] {
                if let Some(partition) = partition_of[other] {
                    links[partition] += 1;
                }
            }
            // A switch of a pod stays with its pod; switches that all share are distributed by
            // load.
            let known: usize = links.iter().sum();
            let own = (0..partitions).find(|&partition| 4 * links[partition] >= 3 * known);
            let least = (0..partitions)
                .min_by_key(|&partition| (load[partition], Reverse(links[partition])));
            let best = own.or(least).unwrap_or(0);
            load[best] += beside[switch].len();
            chosen.push((switch, best));
        }
        for (switch, partition) in chosen {
            partition_of[switch] = Some(partition);
        }
        frontier = next;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tidegate_core::Rate;
    use tidegate_core::fabric::{Buffer, Stamping, Switch, TelemetryResolution};

    /// `racks` racks of `hosts` hosts under `spines` spines; links take `delay`.
    fn fabric(racks: u32, hosts: u32, spines: u32, delay: Span) -> Fabric {
        let switch = |number: u32| Switch {
            name: format!("s{number}"),
            latency: Span::ZERO,
            telemetry: Stamping::Off,
            telemetry_resolution: TelemetryResolution::EXACT,
            buffer: Buffer::Unlimited,
            ecn: None,
            priorities: 1,
            pausing: None,
            credit_queue: None,
            trimming: None,
        };
        let rate = Rate::gbps(100);
        let link = |a, b| Link { a, b, rate, delay };
        let mut links: Vec<Link> = (0..racks * hosts)
            .map(|host| link(Node::Host(host), Node::Switch(host / hosts)))
            .collect();
        for rack in 0..racks {
            links
                .extend((racks..racks + spines).map(|s| link(Node::Switch(rack), Node::Switch(s))));
        }
        Fabric {
            hosts: (0..racks * hosts).map(|h| format!("h{h}")).collect(),
            switches: (0..racks + spines).map(switch).collect(),
            links,
            mtu: 1436,
            ..Fabric::default()
        }
    }

    #[test]
    fn racks_are_cut_in_runs_and_spines_by_load() {
        let partitioning = Partitioning::new(&fabric(7, 2, 4, Span::us(1)), 84, 3);
        assert_eq!(partitioning.of_switch, [0, 0, 1, 1, 1, 2, 2, 0, 2, 0, 2]);
        assert_eq!(partitioning.of_host[4..10], [1; 6]);
        let least = Span::us(1) + Rate::gbps(100).serialise(84);
        assert_eq!((partitioning.partitions, partitioning.lookahead), (3, least));
        let smaller = Partitioning::new(&fabric(7, 2, 4, Span::us(1)), 40, 3);
        let least = Span::us(1) + Rate::gbps(100).serialise(40);
        assert_eq!(smaller, Partitioning { lookahead: least, ..partitioning });
    }

    #[test]
    fn partitions_are_limited_by_racks_and_delays() {
        assert_eq!(Partitioning::new(&fabric(3, 4, 2, Span::us(1)), 84, 8).partitions, 3);
        assert_eq!(Partitioning::new(&fabric(1, 4, 2, Span::us(1)), 84, 8).partitions, 1);
        let instant = fabric(4, 4, 2, Span::ZERO);
        assert_eq!(Partitioning::new(&instant, 84, 2), Partitioning::whole(&instant));
    }

    #[test]
    fn partitions_are_worth_it_with_enough_work() {
        let worth = |racks, hosts, spines, most| {
            let fabric = fabric(racks, hosts, spines, Span::us(1));
            partitions_worth(&fabric, most, packet_hops_at_full_rate(&fabric))
        };
        assert_eq!(worth(16, 8, 8, 2), 2);
        assert_eq!(worth(16, 8, 8, 64), 10);
        // An unlimited number of threads must not take unlimited time.
        assert_eq!(worth(16, 8, 8, usize::MAX), 10);
        assert_eq!(worth(4, 2, 2, 8), 1);
        assert_eq!(worth(16, 8, 8, 1), 1);
        assert_eq!(partitions_worth(&fabric(16, 8, 8, Span::us(1)), 8, 1e9), 1, "little traffic");
    }
}
