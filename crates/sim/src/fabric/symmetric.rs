//! Symmetric ECMP: both directions of a connection take the same path.
//!
//! A switch knows neither the source of a packet nor the choices of other switches. So the choice
//! depends on the next switch, not on the one that chooses. Each switch has a **colour**, which
//! switches of different pods share if they are counterparts. Among several next switches, the one
//! wins whose colour, hashed with the connection, is largest. On the way up both ends see the same
//! colours, so they choose alike. On the way down the winner among all is also the winner among the
//! few that are left. Parallel links are chosen in the same way, by their order.
//!
//! This mirrors paths in regular tiers: at each end of a pair the ways up have the same colours. It
//! holds in every fabric whose paths have at most three switches, and in fat trees and Clos
//! networks, whether aggregation switches belong to planes or reach every core. A failed link
//! removes a path from both directions if at most one way leads down from a core to a rack (this is
//! not the case if aggregation switches reach every core). In other fabrics a connection keeps one
//! path per direction, and the two may differ.

use std::collections::{BTreeMap, VecDeque};

use tidegate_core::fabric::{Fabric, Node};
use tidegate_core::routes::{NO_PORT, Ways};

/// Colour of a port, by which it is chosen.
#[derive(Clone, Copy, Debug, Default)]
struct Colour {
    /// Colour of the next switch, scrambled.
    switch: u32,
    /// Index of its link among those between the same two switches, scrambled.
    link: u32,
}

/// Keys of symmetric choices.
#[derive(Debug)]
pub(crate) struct Symmetric {
    by_port: Vec<Colour>,
}

impl Symmetric {
    /// `salt` determines which connections take which path.
    pub(crate) fn new(fabric: &Fabric, salt: u32) -> Symmetric {
        let colours = colours(fabric);
        let scattered = |number: u32| number.wrapping_mul(0x9e37_79b1) ^ salt;
        let mut alongside: BTreeMap<(Node, Node), u32> = BTreeMap::new();
        let mut by_port = Vec::with_capacity(2 * fabric.links.len());
        for link in &fabric.links {
            let number = alongside.entry((link.a.min(link.b), link.a.max(link.b))).or_default();
            for to in [link.b, link.a] {
                by_port.push(match to {
                    Node::Host(_) => Colour::default(),
                    Node::Switch(to) => Colour {
                        switch: scattered(colours[to as usize]),
                        link: !scattered(*number),
                    },
                });
            }
            *number += 1;
        }
        Symmetric { by_port }
    }

    /// Returns the port that a connection takes.
    pub(crate) fn choose(&self, entropy: u32, ways: Ways<'_>) -> u32 {
        let of_colour = |port: u32| mixed(entropy ^ self.by_port[port as usize].switch);
        let (mut best, mut highest, mut tied) = (NO_PORT, 0, false);
        for port in ways.ports() {
            let hash = of_colour(port);
            // This code avoids branches: they would be mispredicted half of the time.
            tied = (hash == highest) | (tied & (hash < highest));
            best = std::hint::select_unpredictable(hash > highest, port, best);
            highest = highest.max(hash);
        }
        if !tied {
            return best;
        }
        // Parallel links.
        let score = |port: u32| {
            let link = mixed(entropy ^ self.by_port[port as usize].link);
            u64::from(of_colour(port)) << 32 | u64::from(link)
        };
        ways.ports().max_by_key(|&port| score(port)).unwrap_or(NO_PORT)
    }
}

/// Two rounds of multiply and fold. A single round correlates the choices of successive tiers.
#[inline]
pub(crate) fn mixed(mut x: u32) -> u32 {
    x = (x ^ (x >> 16)).wrapping_mul(0x7feb_352d);
    x = (x ^ (x >> 15)).wrapping_mul(0x846c_a68b);
    x ^ (x >> 16)
}

/// Colour of every switch. Switches of different pods have the same colour if they are
/// counterparts: they are in the same tier, below the same top switches, and at the same position
/// among the switches of their pod of which this is also true.
fn colours(fabric: &Fabric) -> Vec<u32> {
    let tiers = Tiers::of(fabric);
    let number = fabric.switches.len();
    // The least top switch that can be reached by going up.
    let mut top: Vec<u32> = (0..number as u32).collect();
    let mut downwards: Vec<usize> = (0..number).filter(|&s| tiers.tier[s] > 0).collect();
    downwards.sort_by_key(|&s| std::cmp::Reverse(tiers.tier[s]));
    for s in downwards {
        top[s] = tiers.above(s).map(|above| top[above]).min().unwrap_or(top[s]);
    }
    let mut position = vec![0; number];
    for below in 0..number {
        let mut counts: BTreeMap<u32, u32> = BTreeMap::new();
        for above in tiers.above(below) {
            let before = counts.entry(top[above]).or_default();
            position[above] = (*before).max(position[above]);
            *before += 1;
        }
    }
    let mut known = BTreeMap::new();
    let colour = |s: usize| {
        let next = known.len() as u32;
        *known.entry((tiers.tier[s], top[s], position[s])).or_insert(next)
    };
    (0..number).map(colour).collect()
}

/// Distances of switches from the nearest hosts.
pub(super) struct Tiers {
    pub(super) tier: Vec<u32>,
    /// Neighbours of each switch, sorted and without duplicates.
    next: Vec<Vec<usize>>,
}

impl Tiers {
    pub(super) fn of(fabric: &Fabric) -> Tiers {
        let number = fabric.switches.len();
        let (mut tier, mut next) = (vec![u32::MAX; number], vec![Vec::new(); number]);
        let mut queue = VecDeque::new();
        for link in fabric.packet_links() {
            for (a, b) in [(link.a, link.b), (link.b, link.a)] {
                match (a, b) {
                    (Node::Switch(a), Node::Switch(b)) => next[a as usize].push(b as usize),
                    (Node::Switch(a), Node::Host(_)) if tier[a as usize] > 0 => {
                        tier[a as usize] = 0;
                        queue.push_back(a as usize);
                    }
                    _ => {}
                }
            }
        }
        for near in &mut next {
            near.sort_unstable();
            near.dedup();
        }
        while let Some(near) = queue.pop_front() {
            for &far in &next[near] {
                if tier[far] == u32::MAX {
                    tier[far] = tier[near] + 1;
                    queue.push_back(far);
                }
            }
        }
        Tiers { tier, next }
    }

    /// Neighbours in the next tier up.
    fn above(&self, switch: usize) -> impl Iterator<Item = usize> {
        let tier = self.tier[switch];
        self.next[switch]
            .iter()
            .copied()
            .filter(move |&next| self.tier[next] == tier.saturating_add(1))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tidegate_core::fabric::{Buffer, Link, Stamping, Switch, TelemetryResolution};
    use tidegate_core::routes::Routes;
    use tidegate_core::{Domain, Rate, Rng, Span};

    /// Two hosts on each of the first switches, and links between switches in random order.
    fn fabric(leaves: u32, switches: u32, mut between: Vec<(u32, u32)>) -> Fabric {
        let mut rng = Rng::stream(7, Domain::Routing, 1);
        for i in (1..between.len()).rev() {
            between.swap(i, rng.below(i as u64 + 1) as usize);
        }
        let switch = |s| Switch {
            name: format!("s{s}"),
            latency: Span::ZERO,
            telemetry: Stamping::All,
            telemetry_resolution: TelemetryResolution::EXACT,
            buffer: Buffer::Unlimited,
            ecn: None,
            priorities: 8,
            pausing: None,
            credit_queue: None,
            trimming: None,
        };
        let link = |a, b| Link { a, b, rate: Rate::gbps(100), delay: Span::us(1) };
        let hosts = (0..2 * leaves).map(|h| link(Node::Host(h), Node::Switch(h / 2)));
        Fabric {
            hosts: (0..2 * leaves).map(|h| format!("h{h}")).collect(),
            switches: (0..switches).map(switch).collect(),
            links: between
                .into_iter()
                .map(|(a, b)| link(Node::Switch(a), Node::Switch(b)))
                .chain(hosts)
                .collect(),
            mtu: 1000,
            ..Fabric::default()
        }
    }

    fn leaf_spine(racks: u32, spines: u32, parallel: u32) -> Fabric {
        let links = (0..racks * spines * parallel)
            .map(|i| (i / (spines * parallel), racks + i / parallel % spines));
        fabric(racks, racks + spines, links.collect())
    }

    /// `pods` pods of `racks` racks and `aggs` aggregation switches. `reaches` returns whether
    /// aggregation switch i reaches a core.
    fn clos(
        (pods, racks, aggs, cores): (u32, u32, u32, u32),
        reaches: impl Fn(u32, u32) -> bool,
    ) -> Fabric {
        let (leaves, tops) = (pods * racks, pods * (racks + aggs));
        let mut links = Vec::new();
        for pod in 0..pods {
            for agg in 0..aggs {
                let above = leaves + pod * aggs + agg;
                links.extend((0..racks).map(|rack| (pod * racks + rack, above)));
                links.extend((0..cores).filter(|&c| reaches(agg, c)).map(|c| (above, tops + c)));
            }
        }
        fabric(leaves, tops + cores, links)
    }

    /// Ports from host to host.
    fn path(
        fabric: &Fabric,
        routes: &Routes,
        all: &Symmetric,
        ends: [u32; 2],
        entropy: u32,
    ) -> Vec<u32> {
        let mut ports = vec![routes.uplink(ends[0])];
        let end = |port: u32| fabric.port_ends(port).to;
        while let Node::Switch(at) = end(ports[ports.len() - 1]) {
            ports.push(routes.egress(at, ends[1], |ways| all.choose(entropy, ways)));
            assert!(ports.len() < 10, "the path is a loop");
        }
        assert_eq!(end(ports[ports.len() - 1]), Node::Host(ends[1]));
        ports
    }

    /// Checks every pair of hosts under `connections` connections. Returns how often each link was
    /// crossed.
    fn mirrored(name: &str, fabric: &Fabric, routes: &Routes, connections: u32) -> Vec<u32> {
        let symmetric = Symmetric::new(fabric, 0x1234_5678);
        let mut crossed = vec![0; fabric.links.len()];
        let mut rng = Rng::stream(3, Domain::Routing, 2);
        for _ in 0..connections {
            let entropy = rng.bits() as u32;
            for src in 0..fabric.hosts.len() as u32 {
                for dst in 0..src {
                    let there = path(fabric, routes, &symmetric, [src, dst], entropy);
                    let mut back = path(fabric, routes, &symmetric, [dst, src], entropy);
                    back.reverse();
                    back.iter_mut().for_each(|port| *port ^= 1);
                    assert_eq!(there, back, "{name}: h{src} and h{dst}, {entropy:#x}");
                    there.iter().for_each(|&port| crossed[port as usize / 2] += 1);
                }
            }
        }
        crossed
    }

    fn regular() -> Vec<(&'static str, Fabric)> {
        vec![
            ("leaf-spine", leaf_spine(4, 6, 1)),
            ("leaf-spine with parallel links", leaf_spine(3, 3, 3)),
            ("fat tree in planes", clos((4, 2, 2, 4), |agg, core| core / 2 == agg)),
            (
                "two aggregation switches a plane",
                clos((3, 2, 4, 4), |agg, core| core / 2 == agg / 2),
            ),
            ("Clos whose aggregation switches reach all", clos((3, 2, 3, 4), |_, _| true)),
        ]
    }

    #[test]
    fn paths_are_mirrored_and_spread_over_links() {
        for (name, fabric) in regular() {
            let routes = Routes::new(&fabric).unwrap();
            let crossed = mirrored(name, &fabric, &routes, 5000);
            let racks = fabric.hosts.len() as u32 / 2;
            let is_rack = |node| matches!(node, Node::Switch(s) if s < racks);
            // Links of racks, then those of cores.
            for of_racks in [true, false] {
                let crossed: Vec<u32> = fabric
                    .links
                    .iter()
                    .zip(&crossed)
                    .filter(|(link, _)| matches!(link.a, Node::Switch(_)))
                    .filter(|(link, _)| (is_rack(link.a) || is_rack(link.b)) == of_racks)
                    .map(|(_, &times)| times)
                    .collect();
                let (Some(&least), Some(&most)) = (crossed.iter().min(), crossed.iter().max())
                else {
                    continue;
                };
                println!("{name}: {least} to {most}");
                assert!(4 * least > 3 * most, "{name}: {least} to {most}");
            }
        }
    }

    #[test]
    fn paths_stay_mirrored_when_links_fail() {
        // Only one way leads down from every switch, or parallel ways.
        for (name, fabric) in regular().into_iter().take(3) {
            let between = fabric.links.len() as u32 - fabric.hosts.len() as u32;
            for failed in 0..between {
                let mut routes = Routes::new(&fabric).unwrap();
                routes.reroute(|link| link != failed);
                let crossed = mirrored(name, &fabric, &routes, 50);
                assert_eq!(crossed[failed as usize], 0);
            }
        }
    }
}
