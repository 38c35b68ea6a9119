//! A switch by itself against the same switch in an engine: what hosts have sent to the one is
//! handed to the other, and everything has to be the same, to the picosecond.
#![allow(missing_docs)]

use tidegate_algos::Stack;
use tidegate_core::fabric::{Buffer, Ecn, Headroom, MarkAt, Pausing, Switch};
use tidegate_core::{Domain, Frame, Rate, Rng, Span, Time};
use tidegate_sim::{Engine, LonePort, LoneSwitch, Packet, Setup};

use crate::common::busy::{Record, Recorder, busy};
use crate::common::{crediting, stack, star, switch};

const RATE: Rate = Rate::gbps(100);

/// Twelve hosts around one switch, which `equip` changes. No two links are of one length, so that
/// packets hardly ever arrive at one time.
fn around_one(stack: Stack, equip: impl Fn(&mut Switch)) -> Setup {
    let mut setup = busy(stack, 5);
    setup.fabric = star(12, RATE, Span::ns(600), 1000);
    let mut random = Rng::stream(5, Domain::Traffic, 0);
    for link in &mut setup.fabric.links {
        link.delay = Span::ps(600_000 + random.below(60_000));
    }
    equip(&mut setup.fabric.switches[0]);
    setup.histograms = true;
    setup
}

fn ports_of(setup: &Setup) -> Vec<LonePort> {
    let ports = setup.fabric.hosts.iter().zip(&setup.fabric.links);
    ports
        .map(|(name, link)| LonePort { name: name.clone(), rate: link.rate, delay: link.delay })
        .collect()
}

/// What a packet that leaves says, but for its number.
type Said = (Time, u32, (Span, u16, u8, u8), Vec<tidegate_core::Hop>);

fn said(record: &Record) -> Said {
    (record.at, record.dst, record.frame, record.hops.as_slice().to_vec())
}

/// Runs both; how many packets left, were refused, and were marked.
fn both(name: &str, setup: &Setup) -> [u64; 3] {
    let end = setup.duration;
    let mut engine = Engine::new(setup.clone(), Recorder::<false>::default()).unwrap();
    engine.advance(end);
    let ports = engine.probe().ports.clone();
    let outcome = engine.finish().unwrap();

    let mut arrivals: Vec<(Time, &Record)> = Vec::new();
    for (link, up) in setup.fabric.links.iter().zip(ports.iter().step_by(2)) {
        let landed =
            |record: &Record| record.at + link.rate.serialise(record.frame.1 as u64) + link.delay;
        arrivals.extend(up.iter().map(|record| (landed(record), record)));
    }
    arrivals.retain(|&(at, _)| at <= end);
    arrivals.sort_by_key(|&(at, _)| at);
    let ties = arrivals.windows(2).filter(|pair| pair[0].0 == pair[1].0).count();
    assert_eq!(ties, 0, "{name}: packets that arrive at one time");

    let mut lone =
        LoneSwitch::new(setup.fabric.switches[0].clone(), &ports_of(setup), setup.seed).unwrap();
    let mut random = Rng::stream(9, Domain::Traffic, 0);
    let (mut left, mut refused) = (Vec::new(), 0);
    for (number, &(at, record)) in (0..).zip(&arrivals) {
        let (peak_hop_delay, wire_bytes, priority, flags) = record.frame;
        let dst = record.dst;
        let frame = Frame { peak_hop_delay, dst, wire_bytes, priority, flags, ..Frame::default() };
        let packet = Packet { number, frame, hops: record.hops };
        // Nothing depends on when it is looked at in between.
        if random.unit() < 0.3 {
            let before = lone.now();
            let gap = at.since(before).as_ps() as f64;
            lone.advance(before + Span::from_ps_f64(gap * random.unit()), &mut left);
        }
        refused += u64::from(!lone.arrive(at, &packet));
    }
    lone.advance(end, &mut left);
    assert!(lone.next() > end);

    for (host, link) in (0..).zip(&setup.fabric.links) {
        let own = left.iter().filter(|leaving| leaving.packet.frame.dst == host);
        let own: Vec<Said> = own
            .map(|leaving| {
                let Packet { number, frame, hops } = leaving.packet;
                let took = link.rate.serialise(frame.wire_bytes as u64);
                assert_eq!(leaving.end, leaving.start + took);
                assert_eq!(leaving.landing, leaving.end + link.delay);
                let arrived = arrivals[number as usize];
                assert!(arrived.0 <= leaving.start && arrived.1.dst == host);
                let what = (frame.peak_hop_delay, frame.wire_bytes, frame.priority, frame.flags);
                (leaving.start, frame.dst, what, hops.as_slice().to_vec())
            })
            .collect();
        let theirs: Vec<Said> =
            ports.get(2 * host as usize + 1).into_iter().flatten().map(said).collect();
        assert!(own == theirs, "{name}: what left by port {host} differs");
    }
    let (links, state) = lone.records();
    let theirs: Vec<_> = outcome.links.iter().skip(1).step_by(2).cloned().collect();
    assert_eq!(links, theirs, "{name}");
    let theirs = &outcome.switches[0];
    assert_eq!(state.buffer_bytes.mean, theirs.buffer_bytes.mean, "{name}");
    assert_eq!(state.buffer_bytes.max, theirs.buffer_bytes.max, "{name}");
    let sum = |of: fn(&tidegate_sim::LinkRecord) -> u64| links.iter().map(of).sum::<u64>();
    assert_eq!(refused, sum(|link| link.drops + link.credit_drops), "{name}");
    [left.len() as u64, refused, sum(|link| link.ecn_marks)]
}

#[test]
fn telemetry_and_priorities_are_those_of_the_engine() {
    for name in ["poseidon", "hpcc", "powertcp", "sird", "homa"] {
        let [left, ..] = both(name, &around_one(stack(name), |_| {}));
        assert!(left > 5_000, "{name}: {left} packets");
    }
}

#[test]
fn marks_and_drops_are_those_of_the_engine() {
    for at in [MarkAt::Enqueue, MarkAt::Dequeue] {
        let setup = around_one(stack("dctcp"), |switch| {
            switch.buffer = Buffer::Shared { bytes: 150_000, alpha: 0.5 };
            switch.ecn = Some(Ecn {
                min_bytes: 20e3,
                max_bytes: 80e3,
                max_probability: 0.3,
                at,
                core_only: false,
                per: None,
            });
        });
        let [left, refused, marked] = both("dctcp", &setup);
        assert!(refused > 10 && marked > 100 && left > 5_000, "{left} {refused} {marked}");
    }
}

#[test]
fn credit_queues_are_those_of_the_engine() {
    let setup = crediting(around_one(stack("expresspass"), |_| {}));
    assert!(setup.fabric.switches[0].credit_queue.is_some());
    let [_, refused, _] = both("expresspass", &setup);
    assert!(refused > 100, "{refused} credits found no room");
}

#[test]
fn what_nobody_could_answer_is_refused_by_name() {
    let setup = around_one(stack("swift"), |_| {});
    let refusal = |change: fn(&mut Switch)| {
        let mut switch = switch("s0");
        change(&mut switch);
        LoneSwitch::new(switch, &ports_of(&setup), 1).err().expect("a refusal")
    };
    let pausing = refusal(|switch| {
        switch.buffer = Buffer::Shared { bytes: 1_000_000, alpha: 1.0 };
        switch.pausing = Some(Pausing {
            classes: 1,
            alpha: 1.0,
            reserved_bytes: 0,
            headroom: Headroom::Bytes(0),
            resume_offset_bytes: 0,
        });
    });
    assert!(pausing.contains("pauses"), "{pausing}");
    let latency = refusal(|switch| switch.latency = Span::ns(1));
    assert!(latency.contains("latency"), "{latency}");
}

#[test]
fn a_packet_for_no_port_is_refused() {
    let setup = around_one(stack("swift"), |_| {});
    let mut lone = LoneSwitch::new(switch("s0"), &ports_of(&setup), 1).unwrap();
    let packet = |dst| Packet {
        frame: Frame { dst, wire_bytes: 84, ..Frame::default() },
        ..Packet::default()
    };
    assert!(!lone.arrive(Time::ZERO, &packet(12)));
    assert!(lone.arrive(Time::ZERO, &packet(11)));
}
