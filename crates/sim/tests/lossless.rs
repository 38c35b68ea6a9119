//! Lossless fabrics: nothing is lost, flows behind a paused port wait too, and deadlocks are
//! detected.

use crate::common::busy::Recorder;
use crate::common::observers::{ObserverAccess, TestProbe};
use crate::common::{
    Advance, dropped, flow, goodputs, leaf_spine, link, lossless, open_loop, over_one_link, ring,
    run, setup, stack, star, switch, unlimited, unobserved,
};
use tidegate_core::fabric::{Buffer, Headroom, Node, Pausing};
use tidegate_core::faults::{Failing, Outage};
use tidegate_core::params::Value;
use tidegate_core::workload::Flow;
use tidegate_core::{Domain, Rate, Rng, Span, Time, frame_flag};
use tidegate_sim::{Engine, Failure, Outcome, PauseStorm, Setup};

/// Time of a full packet on a link.
const FULL: u64 = 1_080;

fn each(setup: &mut Setup, change: impl Fn(&mut Pausing)) {
    setup.fabric.switches.iter_mut().flat_map(|s| &mut s.pausing).for_each(change);
}

/// The same buffer without PFC.
fn lossy(setup: &mut Setup, bytes: u64) {
    for switch in &mut setup.fabric.switches {
        switch.buffer = Buffer::Shared { bytes, alpha: 1.0 };
    }
}

#[test]
fn pfc_prevents_losses() {
    let (_, without) = over_one_link(|setup| lossy(setup, 200_000));
    assert!(dropped(&without) > 1_000);
    let (rates, with) = over_one_link(|setup| lossless(setup, 400_000));
    assert_eq!(dropped(&with), 0);
    let held = with.switches.iter().map(|switch| switch.buffer_bytes.max).fold(0.0, f64::max);
    assert!(held > 30_000.0 && held <= 400_000.0, "{held}");
    assert!(with.links[0].pfc_pauses > 10 && with.links[2].pfc_pauses > 10);
    // Each sends half of the time.
    for uplink in [0, 2] {
        let still = with.links[uplink].paused.as_us_f64() / 1_800.0;
        assert!((still - 0.5).abs() < 0.03, "{still}");
    }
    // The link between the switches stays busy, and each flow has half of it.
    let share = 50e9 * 1000.0 / 1080.0;
    assert!(rates.iter().all(|rate| (rate / share - 1.0).abs() < 0.02), "{rates:?}");
}

/// Both ends forget a pause when the link fails. Otherwise the switch would consider its sender
/// paused and send no pause frame while its buffer fills.
#[test]
fn restored_link_is_paused_again() {
    let (_, outcome) = over_one_link(|setup| {
        lossless(setup, 200_000);
        setup.faults.outages = (1..60)
            .map(|nth| Outage {
                of: Failing::Link(0),
                down: Time::us(20 * nth),
                up: Time::us(20 * nth) + Span::ns(500),
            })
            .collect();
    });
    assert!(outcome.faults.lost > 100, "{:?}", outcome.faults);
    assert_eq!(dropped(&outcome), 0);
}

/// 255 windows of a bandwidth-delay product each at one port, with a buffer for a quarter of them.
#[test]
fn incast_delivers_every_byte() {
    let fabric = star(256, Rate::gbps(100), Span::us(1), 1000);
    let flows = (1..256).map(|src| flow(src, 0, 60_000, Time::ZERO)).collect();
    let mut setup = setup(fabric, stack("hpcc"), flows, Time::ms(3));
    lossless(&mut setup, 9_500_000);
    let mut lost = setup.clone();
    let pool = 9_500_000 - lost.fabric.kept_bytes()[0];
    lossy(&mut lost, pool);
    let mut engine = Engine::new(setup, TestProbe::of(Recorder::default())).unwrap();
    engine.advance(Time::NEVER);
    let (mut sent, mut arrived) = (0, 0);
    for record in engine.probe().inner::<Recorder>().take_ports().iter().flatten() {
        if record.frame.3 & frame_flag::PAUSE == 0 && record.body.payload_bytes > 0 {
            let payload = record.body.payload_bytes as u64;
            if record.port == 1 { arrived += payload } else { sent += payload }
        }
    }
    assert_eq!(engine.packets_in_flight(), 0);
    let outcome = engine.finish().unwrap();
    assert_eq!((dropped(&outcome), outcome.unfinished.len()), (0, 0));
    let again: u64 = outcome.finished.iter().map(|row| row.retransmitted_bytes).sum();
    assert_eq!((sent, arrived), (255 * 60_000 + again, 255 * 60_000 + again));
    let pauses: u64 = outcome.links.iter().map(|link| link.pfc_pauses).sum();
    assert!(pauses >= 255, "{pauses}");
    assert!(outcome.switches[0].buffer_bytes.max <= 9_500_000.0);
    lost.fabric.switches[0].pausing = None;
    assert!(dropped(&run(lost).1) > 1_000);
}

/// Three senders to host 4 and one to host 5, over a link that carries all four.
fn beside_an_incast(senders: u32, change: impl FnOnce(&mut Setup)) -> (f64, Outcome) {
    let mut fabric = star(6, Rate::gbps(100), Span::us(1), 1000);
    fabric.switches.push(switch("s1"));
    for host in [4, 5] {
        fabric.links[host].b = Node::Switch(1);
    }
    fabric.links.push(link(Node::Switch(0), Node::Switch(1), Rate::gbps(400), Span::us(1)));
    let mut flows = vec![unlimited(3, 5, Time::ZERO)];
    flows.extend((0..senders).map(|src| unlimited(src, 4, Time::ZERO)));
    let mut setup = setup(fabric, open_loop(100), flows, Time::ms(2));
    setup.warmup = Time::us(500);
    change(&mut setup);
    let (finished, outcome) = run(setup);
    (*goodputs(&finished, &outcome).last().unwrap() / (100e9 * 1000.0 / 1080.0), outcome)
}

#[test]
fn flow_behind_a_paused_incast_waits_too() {
    let (alone, _) = beside_an_incast(0, |setup| lossless(setup, 300_000));
    assert!(alone > 0.99, "{alone}");
    let (beside, _) = beside_an_incast(3, |setup| lossy(setup, 300_000));
    assert!(beside > 0.99, "{beside}");
    // All four flows share the rate of the port to host 4: a quarter of the link between the
    // switches.
    let (behind, outcome) = beside_an_incast(3, |setup| lossless(setup, 300_000));
    assert!(behind < 0.5, "{behind}");
    assert_eq!(dropped(&outcome), 0);
    let between = &outcome.links[12];
    assert!(between.pfc_pauses > 10 && between.paused > Span::us(750), "{between:?}");
    // The ports to hosts are never paused.
    assert_eq!((outcome.links[9].pfc_pauses, outcome.links[9].paused), (0, Span::ZERO));
}

/// One sender at 100 Gbit/s to a port of 1 Gbit/s. Pause frames wait for packets on the way back,
/// for a time that depends on their rate. The links are so long that every term of the headroom
/// matters.
fn drops_with_headroom(bytes: Option<u32>) -> (u64, u64) {
    let mut fabric = star(3, Rate::gbps(100), Span::ns(1_016), 1000);
    fabric.links[1].rate = Rate::gbps(1);
    let back = Flow { stack: 1, ..unlimited(2, 0, Time::ZERO) };
    let flows = vec![unlimited(0, 1, Time::ZERO), back];
    let (mut drops, mut needed) = (0, 0);
    for gbps in 80..100 {
        let mut setup = setup(fabric.clone(), open_loop(100), flows.clone(), Time::ms(2));
        let mut stack = open_loop(gbps);
        stack.set("ack_every", Value::Integer(1_000)).unwrap();
        stack.set("ack_delay", Value::Span(Span::us(150))).unwrap();
        setup.stacks.push(stack);
        lossless(&mut setup, 400_000);
        let exact = Headroom::RoundTrip { packet_bytes: FULL as u32 };
        each(&mut setup, |pausing| pausing.headroom = bytes.map_or(exact, Headroom::Bytes));
        needed = setup.fabric.headroom(0);
        drops += dropped(&run(setup).1);
    }
    (drops, needed)
}

#[test]
fn headroom_is_sufficient_and_minimal() {
    let (drops, needed) = drops_with_headroom(None);
    assert_eq!((drops, needed), (0, 25_400 + 3 * FULL + 84));
    let (drops, _) = drops_with_headroom(Some((needed - FULL) as u32));
    assert!(drops > 0, "{drops}");
}

/// A sender pauses at `alpha` of what is free: at a ninth of the pool with `alpha` 1/8. Headroom on
/// top of the buffer leaves the pool three times 90,000 B more, so that a ninth is 30,000 B more.
#[test]
fn headroom_on_top_is_not_taken_from_the_pool() {
    let most = |on_top: bool| {
        let mut fabric = star(3, Rate::gbps(100), Span::us(1), 1000);
        fabric.links[1].rate = Rate::gbps(1);
        let flows = vec![unlimited(0, 1, Time::ZERO)];
        let mut setup = setup(fabric, open_loop(100), flows, Time::ms(2));
        lossless(&mut setup, 400_000);
        each(&mut setup, |pausing| {
            pausing.headroom = Headroom::Bytes(90_000);
            pausing.headroom_on_top = on_top;
        });
        let kept = setup.fabric.kept_bytes()[0];
        assert_eq!(kept, if on_top { 6_000 } else { 276_000 });
        let (_, outcome) = run(setup);
        assert_eq!(dropped(&outcome), 0);
        outcome.switches[0].buffer_bytes.max
    };
    let more = most(true) - most(false);
    assert!((more - 30_000.0).abs() <= 2.0 * FULL as f64, "{more}");
}

#[test]
fn larger_resume_offset_means_fewer_pauses() {
    let pauses = |offset: u32| {
        let (_, outcome) = over_one_link(|setup| {
            lossless(setup, 400_000);
            each(setup, |pausing| pausing.resume_offset_bytes = offset);
        });
        assert_eq!(dropped(&outcome), 0);
        outcome.links[0].pfc_pauses
    };
    let (none, some) = (pauses(0), pauses(20_000));
    assert!(some > 5 && none > some + some / 4, "{none} pauses without an offset, {some} with");
}

/// Credits of host 0 for data that it receives leave the host while its own data is paused.
#[test]
fn paused_host_sends_packets_above_data() {
    let fabric = star(4, Rate::gbps(100), Span::us(1), 1000);
    let flows = vec![unlimited(0, 1, Time::ZERO), unlimited(3, 1, Time::ZERO)];
    let mut setup = setup(fabric, open_loop(100), flows, Time::ms(3));
    for protocol in ["sird", "homa"] {
        setup.stacks.push(stack(protocol));
        let stack = setup.stacks.len() as u16 - 1;
        let (bytes, start) = (1_000_000, Time::us(300 * stack as u64));
        setup.workload.flows.push(Flow { stack, ..flow(2, 0, bytes, start) });
    }
    lossless(&mut setup, 300_000);
    let (finished, outcome) = run(setup);
    assert!(outcome.links[0].pfc_pauses > 20, "{:?}", outcome.links[0]);
    let still = outcome.links[0].paused.as_us_f64() / 3_000.0;
    assert!(still > 0.4, "{still}");
    assert_eq!((dropped(&outcome), finished.len()), (0, 2));
    for row in finished {
        let took = row.completed.unwrap().since(row.start).as_us_f64();
        let slowdown = took / row.ideal.as_us_f64();
        assert!(slowdown < 1.15, "{slowdown}: {row:?}");
    }
}

/// A switch without PFC obeys the pauses of one with PFC.
#[test]
fn switches_without_pfc_obey_pauses() {
    let (_, outcome) = beside_an_incast(3, |setup| {
        lossless(setup, 600_000);
        setup.fabric.switches[0].pausing = None;
        setup.fabric.switches[0].buffer = Buffer::Unlimited;
    });
    assert_eq!(dropped(&outcome), 0);
    assert!(outcome.links[12].pfc_pauses > 10 && outcome.links[0].pfc_pauses == 0);
}

#[test]
fn deadlock_is_detected_and_named() {
    let found = |switches: u32, partitions: usize| {
        let mut engine = unobserved(ring(switches), partitions).unwrap();
        assert_eq!(engine.partitions(), partitions);
        let failure = loop {
            match engine.advance_some(Time::NEVER, 100_000) {
                Ok(all) => assert!(!all, "no deadlock"),
                Err(failure) => break failure,
            }
        };
        let Failure::Deadlock(deadlock) = failure else { panic!("{failure}") };
        deadlock
    };
    for switches in [4, 6] {
        let whole = found(switches, 1);
        println!("{whole}");
        assert!(whole.at < Time::ms(5), "{}", whole.at);
        assert_eq!(whole.ports.len(), switches as usize);
        for (at, (from, to)) in whole.ports.iter().enumerate() {
            let (next, _) = &whole.ports[(at + 1) % whole.ports.len()];
            assert!(to == next && from != to, "{whole}");
        }
        let message = whole.to_string();
        assert!(message.contains("s0 to s1") || message.contains("s1 to s0"), "{message}");
        assert_eq!(found(switches, 3), whole);
    }
}

/// Many ports in a leaf-spine are paused, but none for ever.
#[test]
fn temporary_pauses_are_no_deadlock() {
    for senders in [2, 3] {
        let (_, outcome) = beside_an_incast(senders, |setup| {
            lossless(setup, 600_000);
            // Host 4 receives slowly.
            setup.fabric.links[4].rate = Rate::gbps(1);
            setup.warmup = Time::ZERO;
            setup.duration = Time::ms(5);
        });
        let between = &outcome.links[12];
        assert!(between.paused > Span::ms(4), "{between:?}");
        assert_eq!((dropped(&outcome), outcome.storms.len()), (0, 0));
    }
}

/// Credits arrive at a host whose NIC pauses data, and the data that they permit leaves.
#[test]
fn storm_spares_classes_that_are_not_paused() {
    let fabric = star(3, Rate::gbps(100), Span::us(1), 1000);
    let flows = vec![flow(2, 0, 1_000_000, Time::us(50))];
    let mut setup = setup(fabric, stack("sird"), flows, Time::ms(1));
    lossless(&mut setup, 300_000);
    let outage = Outage { of: Failing::Nic(2), down: Time::us(10), up: Time::NEVER };
    setup.faults.outages = vec![outage];
    let (finished, outcome) = run(setup);
    assert_eq!((finished.len(), outcome.storms.len()), (1, 1));
    let took = finished[0].completed.unwrap().since(finished[0].start);
    assert!(took.as_us_f64() < 1.15 * finished[0].ideal.as_us_f64(), "{took}");
}

#[test]
fn pause_storm_names_its_host() {
    let stormy = |until: Time, again: Option<Time>| {
        over_one_link(|setup| {
            lossless(setup, 200_000);
            let outage = |down, up| Outage { of: Failing::Nic(2), down, up };
            setup.faults.outages = vec![outage(Time::us(300), until)];
            setup.faults.outages.extend(again.map(|down| outage(down, Time::NEVER)));
        })
    };
    let (rates, outcome) = stormy(Time::NEVER, None);
    assert_eq!(outcome.storms, [PauseStorm { host: 2, since: Time::us(300) }]);
    assert_eq!(dropped(&outcome), 0);
    // No packet passes the link any more, not even to host 3.
    assert!(rates.iter().all(|&rate| rate < 0.1 * 50e9), "{rates:?}");
    // Of two storms, the first is reported.
    let (_, outcome) = stormy(Time::us(550), Some(Time::us(600)));
    assert_eq!(outcome.storms, [PauseStorm { host: 2, since: Time::us(300) }]);
    let (rates, outcome) = stormy(Time::us(350), None);
    assert!(outcome.storms.is_empty());
    assert!(rates.iter().all(|&rate| rate > 0.9 * 46e9), "{rates:?}");
}

/// A packet on a link without delay lands when the next one starts. At such a time a resume frame
/// precedes arrivals at its switch, however far the switch is ahead of its hosts.
#[test]
fn links_without_delay_keep_the_order_of_departures() {
    let digest = |seed: u64, partitions: usize| {
        let (rate, delay) = (Rate::gbps(100), Span::us(1));
        let mut fabric = leaf_spine(2, 4, 1, rate, rate, delay, 1436);
        fabric.links[..8].iter_mut().for_each(|link| link.delay = Span::ZERO);
        fabric.switches.iter_mut().for_each(|switch| switch.latency = Span::ns(200));
        let mut rng = Rng::stream(seed, Domain::Stack, 0);
        let flows = (0..1_500u64).map(|i| {
            let (src, apart) = (rng.below(8) as u32, 1 + rng.below(7) as u32);
            let at = Time::ns(200 * i + rng.below(200));
            flow(src, (src + apart) % 8, 20_000, at)
        });
        let mut setup = setup(fabric, stack("timely"), flows.collect(), Time::us(400));
        setup.seed = seed;
        lossless(&mut setup, 400_000);
        let mut engine = unobserved(setup, partitions).unwrap();
        assert_eq!(engine.partitions(), partitions);
        engine.advance(Time::NEVER);
        let outcome = engine.finish().unwrap();
        let pauses: u64 = outcome.links.iter().map(|link| link.pfc_pauses).sum();
        (outcome.digest, pauses)
    };
    for seed in 1..=4 {
        let whole = digest(seed, 1);
        assert!(whole.1 > 500 && digest(seed, 2) == whole, "{seed}: {whole:?}");
    }
}
