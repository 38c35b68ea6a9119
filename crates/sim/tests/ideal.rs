//! The ideal completion time of a message is a lower bound for every routing, rate and protocol.

use crate::common::*;
use tidegate_algos::Protocol;
use tidegate_core::fabric::{Ecn, Fabric, MarkAt, Routing};
use tidegate_core::params::Value;
use tidegate_core::workload::Flow;
use tidegate_core::{Domain, Rate, Rng, Span, Time};

/// Three racks of three hosts under four spines, with the given rates of the links to each spine.
fn spines(host: u64, rates: [u64; 4]) -> Fabric {
    let mut fabric = leaf_spine(3, 3, 4, Rate::gbps(host), Rate::gbps(1), Span::ns(400), 1000);
    for (i, link) in fabric.links[9..].iter_mut().enumerate() {
        link.rate = Rate::gbps(rates[i % 4]);
    }
    for switch in &mut fabric.switches {
        switch.ecn = Some(Ecn {
            min_bytes: 40e3,
            max_bytes: 40e3,
            max_probability: 1.0,
            at: MarkAt::Enqueue,
            core_only: false,
            per: None,
        });
    }
    fabric
}

fn fabrics() -> Vec<(&'static str, Fabric)> {
    let mut uneven = spines(100, [100; 4]);
    // A rate at which a byte takes no whole number of picoseconds, and hosts of several rates.
    uneven.links.iter_mut().step_by(2).for_each(|link| link.rate = Rate::mbps(33_333));
    // A full packet is quicker over the fast links, a short one over the links with short delay.
    let mut short_and_slow = spines(100, [100, 400, 100, 400]);
    for link in short_and_slow.links[9..].iter_mut().filter(|link| link.rate == Rate::gbps(100)) {
        link.delay = Span::ns(350);
    }
    vec![
        ("short slow spines, long fast ones", short_and_slow),
        ("fast spines", spines(100, [400; 4])),
        ("even spines", spines(100, [100; 4])),
        ("slow spines", spines(100, [10; 4])),
        ("mixed spines", spines(100, [10, 40, 100, 400])),
        ("uneven", uneven),
    ]
}

const SIZES: [u64; 12] =
    [1, 999, 1_000, 1_001, 1_999, 2_000, 2_001, 3_500, 7_001, 20_000, 100_001, 400_000];

fn slowdowns(setup: tidegate_sim::Setup) -> Vec<f64> {
    let (messages, name) = (setup.workload.flows.len(), setup.stacks[0].protocol().info().name);
    let (finished, _) = run(setup);
    assert_eq!(finished.len(), messages, "{name}: some messages are incomplete");
    finished
        .iter()
        .map(|row| (row.completed.unwrap() - row.start).as_ps() as f64 / row.ideal.as_ps() as f64)
        .collect()
}

#[test]
fn no_message_is_faster_than_its_ideal() {
    for &protocol in Protocol::ALL {
        for (name, fabric) in fabrics() {
            // First alone, one after the other, then all together. Alone, none takes 1.7 ms; longer
            // gaps would only simulate an empty network.
            for gap in [Span::ms(2), Span::ns(700)] {
                for routing in [Routing::Ecmp, Routing::Spray] {
                    let mut rng = Rng::stream(7, Domain::Traffic, 1);
                    let flows = (0..60u32).map(|i| {
                        let src = rng.below(9) as u32;
                        let dst = (src + 1 + rng.below(8) as u32) % 9;
                        let size = SIZES[i as usize % SIZES.len()];
                        flow(src, dst, size, Time::ZERO + gap.times(i as u64))
                    });
                    let flows: Vec<Flow> = flows.collect();
                    let mut setup = setup(fabric.clone(), protocol.stack(), flows, Time::s(1));
                    setup.routing = routing;
                    let least = slowdowns(setup).into_iter().fold(f64::MAX, f64::min);
                    // `run` has compared every message with its ideal; this checks that the ideal
                    // is close to reachable.
                    assert!(least < 1.7, "{}, {name}, {routing:?}: {least}", protocol.info().name);
                }
            }
        }
    }
}

#[test]
fn sprayed_message_uses_the_rates_of_all_spines() {
    // 1 MB at 40 Gbit/s over four spines of 10, at 100 over one of 100, at 100 over four of 100.
    for (rates, gbps) in
        [([10; 4], 40.0), ([10, 20, 30, 20], 80.0), ([100; 4], 100.0), ([400; 4], 100.0)]
    {
        let mut setup = setup(
            spines(100, rates),
            stack("swift"),
            vec![flow(0, 8, 1_000_000, Time::ZERO)],
            Time::ms(50),
        );
        setup.routing = Routing::Spray;
        let ideal = run(setup).0[0].ideal.as_us_f64();
        let fluid = 1_000.0 * 1_080.0 * 8e-3 / gbps;
        assert!(
            (fluid..fluid + 4.0).contains(&ideal),
            "{ideal} us for {rates:?}, {fluid} us in transmission"
        );
    }
}

#[test]
fn spraying_over_one_path_changes_no_ideal() {
    let one_spine = || leaf_spine(2, 2, 1, Rate::gbps(100), Rate::gbps(40), Span::ns(400), 1000);
    for size in SIZES {
        let ideal = |routing| {
            let mut open_loop = stack("open-loop");
            open_loop.set("rate", Value::Rate(Rate::gbps(400))).unwrap();
            let flows = vec![flow(0, 3, size, Time::ZERO), flow(1, 0, size, Time::ms(1))];
            let mut setup = setup(one_spine(), open_loop, flows, Time::ms(2));
            setup.routing = routing;
            let finished = run(setup).0;
            finished
                .iter()
                .for_each(|row| assert_eq!(row.completed.unwrap() - row.start, row.ideal));
            finished.iter().map(|row| row.ideal).collect::<Vec<_>>()
        };
        assert_eq!(ideal(Routing::Ecmp), ideal(Routing::Spray));
    }
}

#[test]
fn full_packets_on_equal_paths_reach_their_ideal() {
    // The bound is reached by a single packet, and by successive packets over spines no slower than
    // hosts.
    for (fabric, packets) in
        [(spines(100, [10; 4]), 1), (spines(100, [100; 4]), 1), (spines(100, [400; 4]), 30)]
    {
        let mut open_loop = stack("open-loop");
        open_loop.set("rate", Value::Rate(Rate::gbps(400))).unwrap();
        let mut setup =
            setup(fabric, open_loop, vec![flow(0, 8, packets * 1_000, Time::ZERO)], Time::ms(2));
        setup.routing = Routing::Spray;
        let row = run(setup).0[0];
        assert_eq!(row.completed.unwrap() - row.start, row.ideal, "{packets} packets");
    }
}

#[test]
fn two_equal_paths_are_both_used() {
    // 1 MB at 20 Gbit/s over two spines of 10.
    let fabric = leaf_spine(2, 2, 2, Rate::gbps(100), Rate::gbps(10), Span::ns(400), 1000);
    let mut setup =
        setup(fabric, stack("swift"), vec![flow(0, 3, 1_000_000, Time::ZERO)], Time::ms(50));
    setup.routing = Routing::Spray;
    let ideal = run(setup).0[0].ideal.as_us_f64();
    let fluid = 1_000.0 * 1_080.0 * 8e-3 / 20.0;
    assert!((fluid..fluid + 4.0).contains(&ideal), "{ideal} us, {fluid} us in transmission");
}

#[test]
fn sprayed_ideal_is_monotonic_in_size() {
    let sizes: Vec<u64> =
        (1..8).flat_map(|packets| [packets * 1_000, packets * 1_000 + 1]).collect();
    for (name, fabric) in fabrics() {
        let flows = sizes.iter().enumerate();
        let flows = flows.map(|(i, &size)| flow(0, 8, size, Time::ms(i as u64))).collect();
        let mut setup = setup(fabric, stack("swift"), flows, Time::s(1));
        setup.routing = Routing::Spray;
        let mut rows = run(setup).0;
        rows.sort_by_key(|row| row.bytes);
        assert_eq!(rows.len(), sizes.len());
        for two in rows.windows(2) {
            let (less, more) = (two[0], two[1]);
            assert!(
                less.ideal <= more.ideal,
                "{name}: {} B {}, {} B {}",
                less.bytes,
                less.ideal,
                more.bytes,
                more.ideal
            );
        }
    }
}
