//! A run is the same, to the byte, in however many parts it is done.
mod common;

use common::busy::{Record, Recorder, busy, with_ecn};
use common::{Trace, leaf_spine, link, setup, stack, switch};
use tidegate_algos::Protocol;
use tidegate_core::fabric::{Buffer, Fabric, Node, Routing, StackTime};
use tidegate_core::faults::{Failing, Faults, Flaps, Outage};
use tidegate_core::workload::{Pattern, Sizes, Traffic};
use tidegate_core::{Domain, Rate, Rng, Span, Time};
use tidegate_sim::{Engine, FlowRecord, Outcome, Sample, Setup};

/// More parts than racks are as many as racks.
const PARTS: [usize; 5] = [1, 2, 3, 5, 8];

/// Everything that a run leaves, but for how many events it took.
#[derive(Debug, PartialEq)]
struct Left {
    rows: Vec<FlowRecord>,
    outcome: String,
    samples: Vec<Sample>,
    packets: Vec<Vec<Record>>,
    end: Time,
}

/// Runs in `parts`, in steps of random length with samples in between; what is left, and in how
/// many parts it was done.
fn left(setup: Setup, parts: usize, steps: u64) -> (Left, usize) {
    let probes = (0..parts).map(|_| <Recorder>::default()).collect();
    let (mut rows, mut samples) = (Vec::new(), Vec::new());
    let mut rng = Rng::stream(steps, Domain::Faults, 7);
    let quarter = Span::ps(setup.duration.as_ps() / 4);
    let mut engine = Engine::in_parts(setup, probes).unwrap();
    let mut next_sample = Time::ZERO + quarter;
    while !engine.is_over() {
        let until = engine.now() + Span::ps(1 + rng.below(quarter.as_ps()));
        let until = until.min(next_sample);
        while !engine.advance_some(until, 1 + rng.below(10_000)) {}
        engine.take_finished(&mut rows);
        if until == next_sample {
            engine.sample(&mut samples);
            next_sample = next_sample.after(quarter);
        }
    }
    let (end, parts) = (engine.now(), engine.parts());
    let ports = engine.probes().map(|probe| probe.ports.len()).max().unwrap();
    let mut packets = vec![Vec::new(); ports];
    for probe in engine.probes() {
        for (port, records) in probe.ports.iter().enumerate().filter(|(_, r)| !r.is_empty()) {
            assert!(packets[port].is_empty(), "two parts send by port {port}");
            packets[port] = records.clone();
        }
    }
    let mut outcome = engine.finish();
    let finished = std::mem::take(&mut outcome.finished);
    rows.extend(finished);
    let outcome = format!("{:?}", Outcome { events: 0, ..outcome });
    (Left { rows, outcome, samples, packets, end }, parts)
}

/// Asserts that all numbers of parts leave the same.
fn same(what: &str, setup: impl Fn() -> Setup) {
    let (whole, one) = left(setup(), 1, 1);
    assert_eq!(one, 1);
    let packets: usize = whole.packets.iter().map(Vec::len).sum();
    assert!(packets > 2_000 && !whole.rows.is_empty(), "{what}: {packets} packets");
    for parts in &PARTS[1..] {
        let (cut, done_in) = left(setup(), *parts, *parts as u64);
        assert!(done_in > 1, "{what}: nothing was cut");
        for (port, (a, b)) in whole.packets.iter().zip(&cut.packets).enumerate() {
            let first = a.iter().zip(b).position(|(a, b)| a != b);
            let at = first.unwrap_or(a.len().min(b.len()));
            assert_eq!(a.get(at), b.get(at), "{what}, {parts} parts: packet {at} of port {port}");
        }
        assert_eq!(whole.rows, cut.rows, "{what}, {parts} parts");
        assert!(whole == cut, "{what}, {parts} parts: {} and {}", whole.outcome, cut.outcome);
    }
}

#[test]
fn of_every_protocol() {
    for &protocol in Protocol::ALL {
        same(protocol.card().name, || busy(protocol.stack(), 1));
    }
}

#[test]
fn of_every_protocol_sprayed_and_marked_at_random() {
    for &protocol in Protocol::ALL {
        same(protocol.card().name, || {
            let mut setup = with_ecn(busy(protocol.stack(), 2));
            setup.routing = Routing::Spray;
            setup.histograms = true;
            setup
        });
    }
}

#[test]
fn of_two_protocols_beside_each_other_with_a_drain() {
    same("swift and sird", || {
        let mut setup = busy(stack("swift"), 3);
        setup.stacks.push(stack("sird"));
        setup.workload.traffic[0].stack = 1;
        setup.workload.traffic[2].stack = 1;
        setup.warmup = Time::us(100);
        setup.drain = Span::ms(5);
        setup
    });
}

#[test]
fn of_small_shared_buffers() {
    for protocol in ["dctcp", "swift", "sird"] {
        same(protocol, || {
            let mut setup = with_ecn(busy(stack(protocol), 4));
            for switch in &mut setup.fabric.switches {
                switch.buffer = Buffer::Shared { bytes: 60_000, alpha: 1.0 };
            }
            setup.duration = Time::ms(3);
            setup
        });
    }
}

#[test]
fn of_faults() {
    for protocol in ["poseidon", "powertcp", "sird"] {
        same(protocol, || {
            let mut setup = busy(stack(protocol), 5);
            setup.faults = Faults {
                loss: 1e-3,
                corruption: 1e-3,
                reordering: 1e-2,
                reorder_delay: Span::us(7),
                duplication: 1e-3,
                ..Faults::default()
            };
            setup.duration = Time::ms(2);
            setup
        });
        same(protocol, || {
            let mut setup = busy(stack(protocol), 6);
            let outage = |of, down, up| Outage { of, down, up };
            setup.faults.outages = vec![
                outage(Failing::Link(12), Time::us(40), Time::us(90)),
                outage(Failing::Link(15), Time::us(60), Time::us(160)),
                outage(Failing::Host(2), Time::us(100), Time::us(130)),
            ];
            setup.faults.flaps = Some(Flaps { mean_up: Span::us(300), mean_down: Span::us(20) });
            setup.duration = Time::ms(2);
            setup
        });
    }
}

#[test]
fn of_hosts_that_take_time() {
    same("swift", || {
        let mut setup = busy(stack("swift"), 7);
        setup.stack_time = StackTime { delay: Span::us(2), jitter: Span::us(3) };
        setup
    });
}

/// Two pods of two racks and two aggregation switches, two cores; links of different lengths, so
/// that cuts are of different lengths too.
fn three_tiers() -> Fabric {
    let names = ["tor0", "tor1", "tor2", "tor3", "agg0", "agg1", "agg2", "agg3", "core0", "core1"];
    let rate = Rate::gbps(100);
    let mut links = Vec::new();
    for host in 0..12 {
        links.push(link(Node::Host(host), Node::Switch(host / 3), rate, Span::ns(300)));
    }
    for tor in 0..4 {
        for agg in [4 + tor / 2 * 2, 5 + tor / 2 * 2] {
            links.push(link(Node::Switch(tor), Node::Switch(agg), rate, Span::ns(500)));
        }
    }
    for agg in 4..8 {
        let core = Node::Switch(8 + agg % 2);
        links.push(link(Node::Switch(agg), core, Rate::gbps(400), Span::us(2)));
    }
    Fabric {
        hosts: (0..12).map(|h| format!("h{h}")).collect(),
        switches: names.iter().map(|name| switch(name)).collect(),
        links,
        mtu: 1000,
        rate_changes: Vec::new(),
    }
}

#[test]
fn of_three_tiers_with_latency() {
    for protocol in ["hpcc", "sird"] {
        same(protocol, || {
            let mut setup = busy(stack(protocol), 8);
            setup.fabric = three_tiers();
            for (number, switch) in setup.fabric.switches.iter_mut().enumerate() {
                switch.latency = Span::ns(50 * number as u64);
            }
            setup
        });
    }
}

/// A quiet fabric: windows are skipped where nothing happens.
#[test]
fn of_rare_messages() {
    same("swift", || {
        let fabric = leaf_spine(4, 2, 2, Rate::gbps(10), Rate::gbps(10), Span::us(1), 1000);
        let mut setup = setup(fabric, stack("swift"), Vec::new(), Time::ms(20));
        let pattern = Pattern::Poisson {
            mean_gap_ps: 2e9,
            senders: (0..8).collect(),
            receivers: (0..8).collect(),
        };
        setup.workload.traffic = vec![Traffic {
            pattern,
            sizes: Sizes::Fixed(10_000),
            stack: 0,
            label: 0,
            start: Time::ZERO,
            stop: Time::ms(19),
        }];
        setup.drain = Span::ms(1);
        setup
    });
}

/// Work that is used up at the very end of a span does not end the next one.
#[test]
fn of_little_work_at_a_time() {
    let outcome = |parts: usize, work: u64| {
        let mut setup = busy(stack("swift"), 10);
        setup.warmup = Time::us(150);
        setup.drain = Span::us(50);
        let duration = setup.duration;
        let mut engine = Engine::in_parts(setup, vec![(); parts]).unwrap();
        while !engine.advance_some(duration, work) {}
        assert_eq!(engine.now(), duration);
        while !engine.is_over() {
            engine.advance_some(Time::NEVER, work);
        }
        let mut outcome = engine.finish();
        let rows = std::mem::take(&mut outcome.finished);
        (rows, outcome.digest, outcome.packet_hops)
    };
    let whole = outcome(1, u64::MAX);
    assert!(whole == outcome(3, 1) && whole == outcome(2, 40) && whole == outcome(1, 1));
}

/// Without a probe that keeps everything: traces of a longer run.
#[test]
fn of_a_longer_run_under_load() {
    let digests = |parts: usize| {
        let mut setup = busy(stack("sird"), 9);
        setup.fabric = leaf_spine(8, 4, 4, Rate::gbps(100), Rate::gbps(100), Span::us(1), 1000);
        setup.duration = Time::ms(2);
        for block in &mut setup.workload.traffic {
            block.stop = Time::ms(2);
        }
        let probes = (0..parts).map(|_| Trace::default()).collect();
        let mut engine = Engine::in_parts(setup, probes).unwrap();
        engine.advance(Time::NEVER);
        assert_eq!(engine.parts(), parts);
        let trace = Trace::merged(engine.probes());
        (trace, engine.finish().digest)
    };
    let whole = digests(1);
    for parts in &PARTS[1..] {
        assert_eq!(digests(*parts), whole, "{parts} parts");
    }
}
