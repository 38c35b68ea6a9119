//! Links whose directions have different rates, and rates that change during a run.

use crate::common::*;
use tidegate_algos::Protocol;
use tidegate_core::fabric::{
    CreditQueue, Ecn, Fabric, MarkAt, Node, PortRate, RateChange, TrimVictim, Trimming,
};
use tidegate_core::routes::Routes;
use tidegate_core::{FabricProperties, HEADER_BYTES, MIN_WIRE_BYTES, Rate, Span, Time};
use tidegate_sim::{LinkRecord, Outcome, Setup};

/// Port from the first switch to the second in [`over_one_link`].
const THERE: u32 = 8;
/// That back.
const BACK: u32 = 9;

fn slow(setup: &mut Setup, port: u32, gbps: u64) {
    setup.fabric.port_rates = vec![PortRate { port, rate: Rate::gbps(gbps) }];
}

/// Both directions of the link between the switches.
fn both(outcome: &Outcome) -> [&LinkRecord; 2] {
    [THERE, BACK].map(|port| &outcome.links[port as usize])
}

/// Two switches with two hosts each: hosts 0 and 1, and 2 and 3.
fn fabric() -> Fabric {
    let mut made = None;
    over_one_link(|setup| {
        setup.duration = Time::us(201);
        made = Some(setup.fabric.clone());
    });
    made.expect("a fabric")
}

#[test]
fn base_rtt_counts_each_direction() {
    let mut fabric = fabric();
    fabric.port_rates = vec![PortRate { port: THERE, rate: Rate::gbps(25) }];
    let routes = Routes::new(&fabric).unwrap();
    let full = u64::from(fabric.mtu + HEADER_BYTES);
    let least = u64::from(MIN_WIRE_BYTES);
    // Six propagation delays; 80 ps a byte at 100 Gbit/s and 320 ps at 25.
    let there = Span::us(6) + Span::ps((2 * full + 3 * least) * 80 + full * 320);
    let back = Span::us(6) + Span::ps((3 * full + 2 * least) * 80 + least * 320);
    assert_eq!([routes.base_rtt(0, 2), routes.base_rtt(2, 0)], [there, back]);
    let properties = FabricProperties::of(&fabric, routes.reach(), None);
    assert_eq!((properties.base_rtt, properties.slowest), (there, Rate::gbps(25)));
    assert_eq!(properties.bdp_bytes, Rate::gbps(100).bytes_in(there) as f64);
}

#[test]
fn lone_messages_take_their_ideal_time() {
    for (port, expected) in [(THERE, [25, 100]), (BACK, [100, 25])] {
        let flows = vec![flow(0, 2, 100_000, Time::ZERO), flow(3, 1, 100_000, Time::ms(1))];
        let mut fabric = fabric();
        fabric.port_rates = vec![PortRate { port, rate: Rate::gbps(25) }];
        let setup = setup(fabric, open_loop(100), flows, Time::ms(2));
        let (finished, _) = run(setup);
        for (row, gbps) in finished.iter().zip(expected) {
            assert_eq!(row.completed.unwrap() - row.start, row.ideal);
            // 100 packets of 1,080 B, three links of 1 us; the first packet on two other links.
            let slowest = Rate::gbps(gbps).serialise(1080).times(100);
            let time = Span::us(3) + slowest + Span::ps(2 * 1080 * 80);
            assert_eq!(row.ideal, time, "{gbps}");
        }
    }
}

/// The ideal time is that of the intact link, which the message would have at another time.
#[test]
fn changes_at_the_start_precede_all_packets() {
    let row = |rate_changes: &[RateChange]| {
        let mut fabric = fabric();
        fabric.rate_changes = rate_changes.into();
        let flows = vec![flow(0, 2, 100_000, Time::ZERO)];
        let (finished, _) = run(setup(fabric, open_loop(100), flows, Time::ms(2)));
        (finished[0].completed.unwrap() - finished[0].start, finished[0].ideal)
    };
    let change = |port, at, gbps| RateChange { port, at, rate: Rate::gbps(gbps) };
    let (intact, ideal) = row(&[]);
    assert_eq!(intact, ideal);
    let (later, ms) = (ideal + Rate::gbps(25).serialise(1080).times(100), Time::ms(1));
    let later = later - Rate::gbps(100).serialise(1080).times(100);
    // The link between the switches, and the host's own.
    for port in [THERE, 0] {
        let changes = [change(port, Time::ZERO, 25), change(port, ms, 100)];
        assert_eq!(row(&changes), (later, ideal), "{port}");
    }
}

#[test]
fn utilisation_refers_to_the_direction() {
    let (rates, outcome) = over_one_link(|setup| {
        slow(setup, THERE, 25);
        setup.stacks[0] = open_loop(50);
        setup.workload.flows.push(unlimited(2, 0, Time::ZERO));
    });
    let payload = 1000.0 / 1080.0;
    let [there, back] = both(&outcome);
    assert_eq!([there.rate_bps, back.rate_bps], [25_000_000_000, 100_000_000_000]);
    // Two flows share the slow direction with the acknowledgements of the third, which has half of
    // the other direction.
    let shared = (rates[0] + rates[1]) / (25e9 * payload);
    assert!(shared > 0.95 && shared < 1.0, "{rates:?}");
    assert!((rates[2] / (50e9 * payload) - 1.0).abs() < 0.01, "{rates:?}");
    let share = |link: &LinkRecord, rate: f64| link.wire_bytes as f64 * 8.0 / 1.8e-3 / rate;
    assert!((there.utilisation - 1.0).abs() < 1e-3, "{there:?}");
    assert!((share(there, 25e9) - 1.0).abs() < 2e-3, "{there:?}");
    assert!((back.utilisation - share(back, 100e9)).abs() < 1e-3, "{back:?}");
}

#[test]
fn telemetry_reports_the_rate_of_the_direction() {
    // Laws that took the slow direction for one of 100 Gbit/s would see it at a quarter of its
    // load and fill its queue.
    for name in ["hpcc", "powertcp"] {
        let (rates, outcome) = over_one_link(|setup| {
            slow(setup, THERE, 25);
            setup.stacks[0] = Protocol::named(name).unwrap().stack();
        });
        let sum = (rates[0] + rates[1]) / 25e9;
        assert!(sum > 0.75 && sum < 0.95, "{name}: {rates:?}");
        let [there, _] = both(&outcome);
        // A BDP of the slow direction is 19 kB.
        assert!(there.queue_bytes.mean < 19e3, "{name}: {there:?}");
    }
}

#[test]
fn rate_changes_count_in_utilisation() {
    let change = |us, gbps| RateChange { port: THERE, at: Time::us(us), rate: Rate::gbps(gbps) };
    let (rates, outcome) = over_one_link(|setup| {
        setup.fabric.rate_changes = vec![change(100, 50), change(1_100, 25)];
    });
    // 50 Gbit/s for half of the measured window, 25 for the other half.
    let payload = 1000.0 / 1080.0;
    let sum = (rates[0] + rates[1]) / (37.5e9 * payload);
    assert!((sum - 1.0).abs() < 0.01, "{rates:?}");
    let [there, _] = both(&outcome);
    assert!((there.utilisation - 1.0).abs() < 1e-3, "{there:?}");
    assert_eq!(there.rate_bps, 25_000_000_000);
    // A rate that rises: bytes are counted at the rate at which they left.
    let (_, outcome) = over_one_link(|setup| {
        setup.fabric.rate_changes = vec![change(100, 25), change(1_100, 50)];
    });
    let [there, _] = both(&outcome);
    assert!((there.utilisation - 1.0).abs() < 1e-3, "{there:?}");
}

/// Credits that kept the share of the intact link would request four times what the link carries.
#[test]
fn credit_queues_follow_the_rate() {
    let (rates, outcome) = over_one_link(|setup| {
        setup.stacks[0] = stack("expresspass");
        for switch in &mut setup.fabric.switches {
            let (share, bytes, burst_bytes) = (0.04, 672, 168);
            switch.credit_queue = Some(CreditQueue { share, bytes, burst_bytes });
        }
        let at = Time::us(100);
        setup.fabric.rate_changes =
            [THERE, BACK].map(|port| RateChange { port, at, rate: Rate::gbps(25) }).into();
    });
    let [there, back] = both(&outcome);
    let used = back.wire_bytes as f64 * 8.0 / 1.8e-3 / (0.04 * 25e9);
    assert!(used > 0.9 && used < 1.001, "{used} {back:?}");
    assert!(there.queue_bytes.max < 20e3, "{there:?}");
    let sum = (rates[0] + rates[1]) / 25e9;
    assert!(sum > 0.4 && sum < 0.95, "{rates:?}");
}

#[test]
fn hosts_follow_a_rate_change() {
    let (rates, outcome) = over_one_link(|setup| {
        let at = Time::us(1_100);
        setup.fabric.rate_changes =
            [0, 1].map(|port| RateChange { port, at, rate: Rate::gbps(10) }).into();
        setup.workload.flows.truncate(1);
    });
    let expected = (100e9 + 10e9) / 2.0 * 1000.0 / 1080.0;
    assert!((rates[0] / expected - 1.0).abs() < 0.01, "{rates:?}");
    assert!((outcome.links[0].utilisation - 1.0).abs() < 1e-3, "{:?}", outcome.links[0]);
}

#[test]
fn marks_follow_the_rate_if_they_refer_to_one() {
    let longest = |per| {
        let (_, outcome) = over_one_link(|setup| {
            let at = Time::us(100);
            setup.fabric.rate_changes = vec![RateChange { port: THERE, at, rate: Rate::gbps(25) }];
            setup.stacks[0] = stack("dctcp");
            for switch in &mut setup.fabric.switches {
                let (min_bytes, max_bytes, max_probability) = (80e3, 80e3, 1.0);
                let (at, core_only) = (MarkAt::Enqueue, false);
                let ecn = Ecn { min_bytes, max_bytes, max_probability, at, core_only, per };
                switch.ecn = Some(ecn);
            }
        });
        both(&outcome)[0].queue_bytes.mean
    };
    let [constant, scaled] = [None, Some(Rate::gbps(100))].map(longest);
    assert!((60e3..90e3).contains(&constant), "{constant}");
    assert!((10e3..25e3).contains(&scaled), "{scaled}");
}

/// A threshold of 40 B becomes 0 at a hundredth of the rate: every packet is marked from then on,
/// also those that find the port free.
#[test]
fn threshold_that_scales_to_0_marks_all() {
    for at in [MarkAt::Enqueue, MarkAt::Dequeue] {
        for histograms in [false, true] {
            let (_, outcome) = over_one_link(|setup| {
                let change = Time::us(500);
                setup.fabric.rate_changes =
                    vec![RateChange { port: THERE, at: change, rate: Rate::gbps(1) }];
                setup.stacks[0] = stack("dctcp");
                let start = |number: u64| change + Span::us(12 * number);
                let packet = |number| flow(0, 2, 1_000, start(number));
                setup.workload.flows = (0..100).map(packet).collect();
                setup.histograms = histograms;
                setup.warmup = change;
                for switch in &mut setup.fabric.switches {
                    let (min_bytes, max_bytes, max_probability) = (40.0, 40.0, 1.0);
                    let (core_only, per) = (false, Some(Rate::gbps(100)));
                    let ecn = Ecn { min_bytes, max_bytes, max_probability, at, core_only, per };
                    switch.ecn = Some(ecn);
                }
            });
            let there = both(&outcome)[0];
            assert_eq!([there.packets, there.ecn_marks], [100; 2], "{at:?}, {histograms}");
        }
    }
}

#[test]
fn trimming_queues_follow_the_rate_they_refer_to() {
    let longest = |per| {
        let (_, outcome) = over_one_link(|setup| {
            slow(setup, THERE, 25);
            let data_bytes = 200 * 1080;
            let trimming = Trimming {
                data_bytes,
                header_queue_bytes: 840,
                trimmed_bytes: 84,
                victim: TrimVictim::Arriving,
                per,
                return_to_sender: false,
                header_weight: None,
            };
            setup.fabric.switches.iter_mut().for_each(|switch| switch.trimming = Some(trimming));
        });
        let there = both(&outcome)[0];
        assert!(there.trims > 1_000, "{there:?}");
        there.queue_bytes.max
    };
    let [constant, scaled] = [None, Some(Rate::gbps(100))].map(longest);
    // A full queue for data, and at most ten headers or two.
    assert!((215e3..=216e3 + 840.0).contains(&constant), "{constant}");
    assert!((53e3..=54e3 + 210.0).contains(&scaled), "{scaled}");
}

#[test]
fn lookahead_is_a_lower_bound_for_both_directions() {
    // A slower direction must not lengthen the window of the faster one.
    let fabric = {
        let mut fabric = leaf_spine(2, 2, 2, Rate::gbps(100), Rate::gbps(100), Span::us(1), 1000);
        let links = 4..fabric.links.len() as u32;
        fabric.port_rates =
            links.map(|link| PortRate { port: 2 * link, rate: Rate::gbps(1) }).collect();
        fabric
    };
    assert!(matches!(fabric.port_ends(8).from, Node::Switch(_)));
    let flows = (0..8).map(|i| flow(i % 4, (i + 2) % 4, 40_000, Time::us(u64::from(i)))).collect();
    let setup = setup(fabric, stack("swift"), flows, Time::ms(3));
    let (alone, together) = [1, 2]
        .map(|partitions| {
            let probes = (0..partitions).map(|_| ()).collect();
            let mut engine = tidegate_sim::Engine::in_partitions(setup.clone(), probes).unwrap();
            engine.advance(Time::NEVER);
            assert_eq!(engine.partitions(), partitions);
            engine.finish().unwrap().digest
        })
        .into();
    assert_eq!(alone, together);
}
