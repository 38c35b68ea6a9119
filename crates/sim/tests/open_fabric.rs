//! Switches without hosts compared with the same switches in an engine: packets that hosts sent in
//! the engine are passed to the open fabric, and all results must be equal, to the picosecond.
#![allow(missing_docs)]

use crate::common::observers::{ObserverAccess, TestProbe};
use tidegate_algos::Stack;
use tidegate_core::fabric::{Buffer, Ecn, Fabric, Headroom, MarkAt, Node, Pausing, Routing};
use tidegate_core::{Domain, Frame, Hop, HopTrace, Rate, Rng, Span, Time};
use tidegate_sim::{Engine, LinkRecord, OpenFabric, Packet, Setup};

use crate::common::busy::{Record, Recorder, busy};
use crate::common::cuts::trimming;
use crate::common::{crediting, stack, star};

/// Twelve hosts around one switch.
fn around_one(stack: Stack) -> Setup {
    let mut setup = busy(stack, 5);
    setup.fabric = star(12, Rate::gbps(100), Span::ns(600), 1000);
    setup
}

fn marking(setup: &mut Setup, at: MarkAt) {
    for switch in &mut setup.fabric.switches {
        switch.buffer = Buffer::Shared { bytes: 150_000, alpha: 0.5 };
        switch.ecn = Some(Ecn {
            min_bytes: 20e3,
            max_bytes: 80e3,
            max_probability: 0.3,
            at,
            core_only: false,
            per: None,
        });
    }
}

/// Contents of a packet that leaves, except for its number.
type Contents = (Time, (Span, u16, u8, u8), Vec<Hop>);

fn contents(record: &Record) -> Contents {
    (record.at, record.frame, record.hops.clone())
}

/// Records by port of a switch, in order of the ports.
fn of_switches(links: &[LinkRecord]) -> Vec<LinkRecord> {
    links.iter().filter(|link| matches!(link.from, Node::Switch(_))).cloned().collect()
}

/// Time at which a packet has arrived completely at the switch of its host.
fn landed(fabric: &Fabric, host: usize, record: &Record) -> Time {
    let link = fabric.links[host];
    record.at + link.rate.serialise(record.frame.1 as u64) + link.delay
}

/// Runs both. Returns how many packets left for hosts, were dropped, marked, and trimmed.
fn both(name: &str, mut setup: Setup) -> [u64; 4] {
    setup.histograms = true;
    let (fabric, end) = (&setup.fabric, setup.duration);
    let mut engine = Engine::new(setup.clone(), TestProbe::of(Recorder::default())).unwrap();
    engine.advance(end);
    let ports = engine.probe().inner::<Recorder>().take_ports();
    let outcome = engine.finish().unwrap();

    // Link i belongs to host i.
    let mut arrivals: Vec<(Time, u32, &Record)> = Vec::new();
    for host in 0..fabric.hosts.len() {
        let up = ports[2 * host].iter();
        arrivals.extend(up.map(|record| (landed(fabric, host, record), host as u32, record)));
    }
    arrivals.retain(|&(at, ..)| at <= end);
    arrivals.sort_by_key(|&(at, ..)| at);

    let mut open = OpenFabric::new(fabric.clone(), setup.routing, setup.seed).unwrap();
    let mut random = Rng::stream(9, Domain::Traffic, 0);
    let (mut left, mut dropped) = (Vec::new(), Vec::new());
    for (number, &(at, host, record)) in (0..).zip(&arrivals) {
        let (peak_hop_delay, wire_bytes, priority, flags) = record.frame;
        let Record { dst, entropy, .. } = *record;
        let mut hops = HopTrace::default();
        hops.set(&record.hops);
        let frame =
            Frame { peak_hop_delay, dst, entropy, wire_bytes, priority, flags, at, next: 0 };
        // The times of intermediate calls have no effect.
        if random.unit() < 0.3 {
            let gap = at.since(open.now()).as_ps() as f64;
            let between = open.now() + Span::from_ps_f64(gap * random.unit());
            open.advance(between, &mut left, &mut dropped);
        }
        let packet = Packet { number, frame, payload_bytes: record.body.payload_bytes, hops };
        assert!(open.arrive(at, host, &packet));
    }
    open.advance(end, &mut left, &mut dropped);
    assert!(open.next() > end);

    for (host, link) in (0..fabric.hosts.len()).zip(&fabric.links) {
        let own = left.iter().filter(|leaving| leaving.packet.frame.dst == host as u32);
        let own: Vec<Contents> = own
            .map(|leaving| {
                let Packet { number, frame, hops, payload_bytes } = leaving.packet;
                assert_eq!(
                    leaving.end,
                    leaving.start + link.rate.serialise(frame.wire_bytes as u64)
                );
                assert_eq!(leaving.landing, leaving.end + link.delay);
                let (arrived, _, record) = arrivals[number as usize];
                assert!(arrived <= leaving.start && record.dst == host as u32);
                let is_whole = payload_bytes == record.body.payload_bytes;
                assert!(is_whole || payload_bytes == 0 && frame.wire_bytes == 84, "{name}");
                let what = (frame.peak_hop_delay, frame.wire_bytes, frame.priority, frame.flags);
                (leaving.start, what, hops.as_slice().to_vec())
            })
            .collect();
        let theirs: Vec<Contents> =
            ports.get(2 * host + 1).into_iter().flatten().map(contents).collect();
        assert!(own == theirs, "{name}: packets for host {host} differ");
    }
    let (links, switches) = open.records();
    assert_eq!(links, of_switches(&outcome.links), "{name}");
    for (own, theirs) in switches.iter().zip(&outcome.switches) {
        let figures = |of: &tidegate_sim::SwitchRecord| {
            (of.switch, of.buffer_bytes.mean, of.buffer_bytes.max, of.drops)
        };
        assert_eq!(figures(own), figures(theirs), "{name}");
    }
    let sum = |of: fn(&LinkRecord) -> u64| links.iter().map(of).sum::<u64>();
    assert_eq!(dropped.len() as u64, sum(|link| link.drops + link.credit_drops), "{name}");
    let [marked, trimmed] = [sum(|link| link.ecn_marks), sum(|link| link.trims)];
    [left.len() as u64, dropped.len() as u64, marked, trimmed]
}

#[test]
fn telemetry_and_priorities_are_those_of_the_engine() {
    for name in ["poseidon", "hpcc", "powertcp", "sird", "tide", "homa"] {
        let [left, ..] = both(name, around_one(stack(name)));
        assert!(left > 5_000, "{name}: {left} packets");
    }
}

#[test]
fn marks_and_drops_are_those_of_the_engine() {
    for at in [MarkAt::Enqueue, MarkAt::Dequeue] {
        let mut setup = around_one(stack("dctcp"));
        marking(&mut setup, at);
        let [left, refused, marked, _] = both("dctcp", setup);
        assert!(refused > 10 && marked > 50 && left > 5_000, "{left} {refused} {marked}");
    }
}

#[test]
fn credit_queues_are_those_of_the_engine() {
    let setup = crediting(around_one(stack("expresspass")));
    assert!(setup.fabric.switches[0].credit_queue.is_some());
    let [_, refused, ..] = both("expresspass", setup);
    assert!(refused > 100, "{refused} credits found no room");
}

#[test]
fn trimmed_packets_are_those_of_the_engine() {
    for (name, setup) in trimming() {
        // Links whose rate changes are refused.
        if setup.fabric.rate_changes.is_empty() {
            let [left, _, _, trimmed] = both(name, setup);
            assert!(left > 5_000 && trimmed > 100, "{name}: {left} packets, {trimmed} trimmed");
        }
    }
}

#[test]
fn multi_switch_paths_match_the_engine() {
    for (name, routing) in [
        ("hpcc", Routing::Ecmp),
        ("dctcp", Routing::Ecmp),
        ("sird", Routing::Spray),
        ("expresspass", Routing::SymmetricEcmp),
    ] {
        let mut setup = crediting(busy(stack(name), 6));
        marking(&mut setup, MarkAt::Enqueue);
        setup.routing = routing;
        for (number, switch) in setup.fabric.switches.iter_mut().enumerate() {
            switch.latency = Span::ns(50 * number as u64);
        }
        // The switch's latency is part of the way from its hosts.
        let [left, dropped, ..] = both(name, setup);
        assert!(left > 5_000 && dropped > 0, "{name}: {left} packets, {dropped} dropped");
    }
}

#[test]
fn pfc_is_refused_by_name() {
    let mut fabric = star(2, Rate::gbps(1), Span::ZERO, 1000);
    let switch = &mut fabric.switches[0];
    switch.buffer = Buffer::Shared { bytes: 1_000_000, alpha: 1.0 };
    switch.pausing = Some(Pausing {
        classes: 1,
        alpha: 1.0,
        reserved_bytes: 0,
        headroom: Headroom::Bytes(0),
        headroom_on_top: false,
        resume_offset_bytes: 0,
    });
    let why = OpenFabric::new(fabric, Routing::Ecmp, 1).err().expect("a refusal");
    assert!(why.contains("switch s0 uses it"), "{why}");
}

#[test]
fn packets_of_unknown_hosts_are_refused() {
    let fabric = star(2, Rate::gbps(1), Span::ZERO, 1000);
    let mut open = OpenFabric::new(fabric, Routing::Ecmp, 1).unwrap();
    let packet = |dst| Packet {
        frame: Frame { dst, wire_bytes: 84, ..Frame::default() },
        ..Packet::default()
    };
    assert!(!open.arrive(Time::ZERO, 0, &packet(2)) && !open.arrive(Time::ZERO, 2, &packet(1)));
    assert!(open.arrive(Time::ZERO, 0, &packet(1)));
}

#[test]
fn late_packets_of_a_host_keep_their_order() {
    let mut fabric = star(3, Rate::gbps(1), Span::ZERO, 1000);
    fabric.switches[0].latency = Span::us(3);
    let mut open = OpenFabric::new(fabric, Routing::Ecmp, 1).unwrap();
    let (mut left, mut dropped) = (Vec::new(), Vec::new());
    let frame = Frame { dst: 2, wire_bytes: 1_000, ..Frame::default() };
    // The packet of 10 us is reported before the packet of 5 us; the switch has reached neither
    // time.
    for (number, at, host) in [(0, 10, 0), (1, 5, 0), (2, 5, 1), (3, 1, 1)] {
        let packet = Packet { number, frame, ..Packet::default() };
        assert!(open.arrive(Time::us(at), host, &packet));
    }
    open.advance(Time::us(60), &mut left, &mut dropped);
    let mut numbers: Vec<u32> = left.iter().map(|leaving| leaving.packet.number).collect();
    assert!(left.iter().all(|leaving| leaving.start >= Time::us(8)) && dropped.is_empty());
    let at = |number| numbers.iter().position(|&other| other == number);
    assert!(at(0) < at(1) && at(2) < at(3));
    numbers.sort_unstable();
    assert_eq!(numbers, [0, 1, 2, 3]);
}
