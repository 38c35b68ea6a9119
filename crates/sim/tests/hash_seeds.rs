//! Switches that hash alike: traffic polarises.

use std::collections::BTreeSet;

use crate::common::*;
use tidegate_core::fabric::{Fabric, HashSeeds, Node};
use tidegate_core::{Rate, Span, Time};

const PODS: u32 = 2;
const HOSTS: u32 = 8;
/// Racks and aggregation switches of a pod, and cores of a plane.
const WAYS: u32 = 4;

/// A fat tree: racks, then aggregation switches, then cores by plane.
fn fat_tree(hash_seeds: HashSeeds) -> Fabric {
    let mut fabric = star(PODS * WAYS * HOSTS, Rate::gbps(100), Span::us(1), 1000);
    let switches = PODS * WAYS * 2 + WAYS * WAYS;
    fabric.switches = (0..switches).map(|s| switch(&format!("s{s}"))).collect();
    for (host, link) in (0..).zip(&mut fabric.links) {
        link.b = Node::Switch(host / HOSTS);
    }
    let mut connect = |a, b| {
        let [a, b] = [a, b].map(Node::Switch);
        fabric.links.push(link(a, b, Rate::gbps(100), Span::us(1)));
    };
    for pod in 0..PODS {
        for plane in 0..WAYS {
            let agg = PODS * WAYS + pod * WAYS + plane;
            (0..WAYS).for_each(|rack| connect(pod * WAYS + rack, agg));
            (0..WAYS).for_each(|core| connect(agg, PODS * WAYS * 2 + plane * WAYS + core));
        }
    }
    fabric.hash_seeds = hash_seeds;
    fabric
}

/// Uplinks of racks, and of aggregation switches, that carry flows from the first pod to the
/// second: index of the switch in its tier and pod, and of the switch above among its neighbours.
fn used(hash_seeds: HashSeeds) -> [BTreeSet<(u32, u32)>; 2] {
    let fabric = fat_tree(hash_seeds);
    let hosts = WAYS * HOSTS;
    let flows = (0..16 * hosts).map(|i| flow(i % hosts, hosts + i / 16, 5_000, Time::ZERO));
    let (_, outcome) = run(setup(fabric, stack("swift"), flows.collect(), Time::ms(9)));
    let (aggs, cores) = (PODS * WAYS, PODS * WAYS * 2);
    let mut used = [BTreeSet::new(), BTreeSet::new()];
    for link in outcome.links.iter().filter(|link| link.packets > 0) {
        match (link.from, link.to) {
            (Node::Switch(rack), Node::Switch(agg)) if rack < WAYS => {
                used[0].insert((rack, agg - aggs));
            }
            (Node::Switch(agg), Node::Switch(core))
                if (aggs..aggs + WAYS).contains(&agg) && core >= cores =>
            {
                used[1].insert((agg - aggs, (core - cores) % WAYS));
            }
            _ => {}
        }
    }
    used
}

#[test]
fn same_seed_leaves_one_way_after_the_first_tier() {
    let all: BTreeSet<_> = (0..WAYS).flat_map(|a| (0..WAYS).map(move |b| (a, b))).collect();
    for seeds in [HashSeeds::PerSwitch, HashSeeds::PerTier] {
        assert_eq!(used(seeds), [all.clone(), all.clone()], "{seeds:?}");
    }
    // Aggregation switch i receives the flows whose hash selects way i of four, and selects its way
    // i for all of them: 4 of 16 uplinks carry everything.
    let diagonal: BTreeSet<_> = (0..WAYS).map(|i| (i, i)).collect();
    assert_eq!(used(HashSeeds::Same), [all, diagonal]);
}
