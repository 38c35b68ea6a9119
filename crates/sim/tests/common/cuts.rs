//! Runs in several partitions or processes that must give the same results.

use std::collections::BTreeSet;

use tidegate_algos::{Protocol, Stack};
use tidegate_core::collective::{Collective, Op, Stragglers, expert_loads};
use tidegate_core::fabric::{
    Buffer, Fabric, Link, Node, RateChange, Routing, StackTime, TelemetryResolution, TrimVictim,
    Trimming,
};
use tidegate_core::faults::{Failing, Faults, Flaps, Outage};
use tidegate_core::params::Value;
use tidegate_core::workload::{Pattern, Sizes, Traffic};
use tidegate_core::{Rate, Span, Time};
use tidegate_sim::Setup;

use super::busy::{busy, with_ecn};
use super::programs::copied;
use super::{crediting, leaf_spine, link, lossless, open_loop, setup, stack, switch};

/// Name and setup of each run.
pub type Cuts = Vec<(&'static str, Setup)>;

/// Switches with hosts: the most partitions.
pub fn racks(setup: &Setup) -> usize {
    let rack = |link: &Link| match (link.a, link.b) {
        (Node::Host(_), Node::Switch(s)) | (Node::Switch(s), Node::Host(_)) => Some(s),
        _ => None,
    };
    setup.fabric.links.iter().filter_map(rack).collect::<BTreeSet<_>>().len()
}

/// The same on four racks of three hosts, where no switch differs from the usual ones.
pub fn on_four_racks(cuts: Cuts) -> Cuts {
    let usual = busy(stack("swift"), 1).fabric.switches;
    let moved = |(what, mut setup): (_, Setup)| {
        assert!(setup.fabric.switches == usual, "{what} has other switches");
        setup.fabric = leaf_spine(4, 3, 2, Rate::gbps(100), Rate::gbps(100), Span::ns(600), 1000);
        (what, setup)
    };
    cuts.into_iter().map(moved).collect()
}

pub fn every_protocol() -> Cuts {
    let cut = |protocol: &Protocol| (protocol.info().name, busy(protocol.stack(), 1));
    Protocol::ALL.iter().map(cut).collect()
}

pub fn every_protocol_sprayed_and_marked_at_random() -> Cuts {
    let cut = |protocol: &Protocol| {
        let mut setup = with_ecn(busy(protocol.stack(), 2));
        setup.routing = Routing::Spray;
        setup.histograms = true;
        (protocol.info().name, setup)
    };
    Protocol::ALL.iter().map(cut).collect()
}

/// Packets smaller than Ethernet's smallest frame, so that windows between barriers are shorter.
pub fn every_protocol_with_small_packets() -> Cuts {
    let cut = |protocol: &Protocol| {
        let mut stack = protocol.stack();
        stack.set("header_bytes", Value::Integer(40)).unwrap();
        stack.set("control_bytes", Value::Integer(40)).unwrap();
        let is_credited = stack.set("smallest_credit", Value::Integer(20)).is_ok();
        let setup = busy(stack, 1);
        (protocol.info().name, if is_credited { crediting(setup) } else { setup })
    };
    Protocol::ALL.iter().map(cut).collect()
}

pub fn two_protocols_beside_each_other_with_a_drain() -> Cuts {
    let mut setup = busy(stack("swift"), 3);
    setup.stacks.push(stack("sird"));
    setup.workload.traffic[0].stack = 1;
    setup.workload.traffic[2].stack = 1;
    setup.warmup = Time::us(100);
    setup.drain = Span::ms(5);
    vec![("swift and sird", setup)]
}

pub fn small_shared_buffers() -> Cuts {
    let cut = |protocol| {
        let mut setup = with_ecn(busy(stack(protocol), 4));
        for switch in &mut setup.fabric.switches {
            switch.buffer = Buffer::Shared { bytes: 60_000, alpha: 1.0 };
        }
        setup.duration = Time::ms(3);
        (protocol, setup)
    };
    ["dctcp", "swift", "sird"].map(cut).into()
}

/// Telemetry in units, of units and periods, and of some switches in periods alone.
pub fn coarse_telemetry() -> Cuts {
    let cut = |protocol| {
        let mut setup = busy(stack(protocol), 4);
        for (number, switch) in setup.fabric.switches.iter_mut().enumerate() {
            switch.telemetry_resolution = TelemetryResolution {
                quantum: Span::ns(if number % 2 == 0 { 300 } else { 0 }),
                period: Span::us(if number % 3 == 0 { 0 } else { 7 }),
            };
        }
        setup.duration = Time::ms(1);
        (protocol, setup)
    };
    ["poseidon", "powertcp", "hpcc", "tide"].map(cut).into()
}

/// Credit queues: as required, then with faults.
pub fn queues_for_credits() -> Cuts {
    let plain = crediting(busy(stack("expresspass"), 4));
    let mut faulty = crediting(busy(stack("expresspass"), 5));
    faulty.faults = Faults { loss: 1e-3, duplication: 1e-3, ..Faults::default() };
    faulty.duration = Time::ms(2);
    vec![("expresspass", plain), ("expresspass with faults", faulty)]
}

/// Packets over many paths that lose their payload at full queues.
pub fn trimming() -> Cuts {
    let cut = |(name, protocol, victim)| {
        let mut setup = busy(stack(protocol), 3);
        let data_bytes = 8 * (setup.fabric.mtu + 80);
        let trimming = Trimming {
            data_bytes,
            header_queue_bytes: data_bytes,
            trimmed_bytes: 84,
            victim,
            per: None,
            return_to_sender: false,
            header_weight: (protocol == "ndp").then_some(10),
        };
        setup.fabric.switches.iter_mut().for_each(|switch| switch.trimming = Some(trimming));
        (name, setup)
    };
    let mut cuts: Cuts = [
        ("arriving", "nscc", TrimVictim::Arriving),
        ("random", "nscc", TrimVictim::Random),
        ("pulls", "rccc", TrimVictim::Random),
        ("pulls beside windows", "nscc-rccc", TrimVictim::Random),
        ("a pull for each arrival", "ndp", TrimVictim::Random),
    ]
    .map(cut)
    .into();
    let (_, mut setup) = cut(("", "nscc", TrimVictim::Random));
    let (hosts, links) = (setup.fabric.hosts.len() as u32, setup.fabric.links.len() as u32);
    for switch in &mut setup.fabric.switches {
        switch.trimming.as_mut().unwrap().per = Some(Rate::gbps(100));
    }
    let change = |link: u32| {
        let at = Time::us(20) + Span::ns(130 * u64::from(link));
        RateChange { port: 2 * link + link % 2, at, rate: Rate::gbps(25) }
    };
    setup.fabric.rate_changes = (hosts..links).map(change).collect();
    cuts.push(("queues that follow a rate", setup));
    cuts
}

/// Queues for headers of five, so that many return to their senders; then with faults.
pub fn returning() -> Cuts {
    let returns = |(name, setup): (&'static str, Setup)| {
        let mut setup = setup;
        for switch in &mut setup.fabric.switches {
            let trimming = switch.trimming.as_mut().unwrap();
            trimming.header_queue_bytes = 420;
            trimming.return_to_sender = true;
        }
        (name, setup)
    };
    let mut cuts: Cuts = trimming().into_iter().map(returns).collect();
    let mut faulty = cuts[3].1.clone();
    faulty.faults = Faults { loss: 1e-3, duplication: 1e-3, ..Faults::default() };
    cuts.push(("with faults", faulty));
    cuts
}

/// Packets that are lost, corrupted, delayed and duplicated; then links and hosts that fail and
/// return.
pub fn faults() -> Cuts {
    let suffering = |protocol| {
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
        (protocol, setup)
    };
    let failing = |protocol| {
        let mut setup = busy(stack(protocol), 6);
        let outage = |of, down, up| Outage { of, down, up };
        setup.faults.outages = vec![
            outage(Failing::Link(12), Time::us(40), Time::us(90)),
            outage(Failing::Link(15), Time::us(60), Time::us(160)),
            outage(Failing::Host(2), Time::us(100), Time::us(130)),
        ];
        setup.faults.flaps = Some(Flaps { mean_up: Span::us(300), mean_down: Span::us(20) });
        setup.duration = Time::ms(2);
        (protocol, setup)
    };
    ["poseidon", "powertcp", "sird"].iter().flat_map(|p| [suffering(*p), failing(*p)]).collect()
}

pub fn hosts_that_take_time() -> Cuts {
    let mut setup = busy(stack("swift"), 7);
    setup.stack_time = StackTime { delay: Span::us(2), jitter: Span::us(3) };
    vec![("swift", setup)]
}

/// Two pods of two racks and two aggregation switches, two cores; links of different lengths, so
/// the lookahead depends on the partitioning.
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
        ..Fabric::default()
    }
}

pub fn three_tiers_with_latency() -> Cuts {
    let cut = |protocol| {
        let mut setup = busy(stack(protocol), 8);
        setup.fabric = three_tiers();
        for (number, switch) in setup.fabric.switches.iter_mut().enumerate() {
            switch.latency = Span::ns(50 * number as u64);
        }
        (protocol, setup)
    };
    ["hpcc", "sird"].map(cut).into()
}

/// Switches with PFC; a second run has failing links, processing time at hosts, a PFC storm, and
/// two protocols, one of which sends above data.
pub fn lossless_fabrics() -> Cuts {
    let cut = |stack: Stack| {
        let mut setup = busy(stack, 9);
        lossless(&mut setup, 200_000);
        setup.duration = Time::us(600);
        setup
    };
    let mut all: Cuts = ["swift", "hpcc", "sird"].map(|name| (name, cut(stack(name)))).into();
    all.push(("open-loop", cut(open_loop(60))));
    let mut troubled = cut(open_loop(60));
    troubled.stacks.push(stack("sird"));
    troubled.workload.traffic[2].stack = 1;
    troubled.stack_time = StackTime { delay: Span::ns(200), jitter: Span::us(1) };
    troubled.warmup = Time::us(70);
    troubled.drain = Span::us(500);
    troubled.histograms = true;
    troubled.faults = Faults {
        duplication: 1e-3,
        outages: vec![
            Outage { of: Failing::Link(12), down: Time::us(40), up: Time::us(90) },
            Outage { of: Failing::Host(2), down: Time::us(100), up: Time::us(130) },
            Outage { of: Failing::Nic(9), down: Time::us(150), up: Time::us(400) },
        ],
        ..Faults::default()
    };
    all.push(("open-loop and sird with faults", troubled));
    all
}

/// A quiet fabric: windows without events are skipped.
pub fn rare_messages() -> Cuts {
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
    vec![("swift", setup)]
}

/// Clients that wait for replies beside other traffic, some of them on one host, with and without
/// thinking time.
pub fn closed_loops() -> Cuts {
    let cut = |protocol, think, exponential| {
        let mut setup = busy(stack(protocol), 8);
        let pattern = Pattern::ClosedLoop {
            clients: vec![0, 0, 0, 3, 5, 10],
            servers: (0..12).collect(),
            replies: Sizes::Fixed(7_000),
            reply_label: 0,
            think,
            exponential,
        };
        let block = setup.workload.traffic[0].clone();
        setup.workload.traffic.push(Traffic { pattern, sizes: Sizes::Fixed(300), ..block });
        setup.warmup = Time::us(50);
        setup.drain = Span::us(100);
        (protocol, setup)
    };
    // Also messages at times of their own that are answered.
    let (name, mut answered) = cut("swift", Span::us(3), true);
    let block = answered.workload.traffic[0].clone();
    let (of, replies) = (Box::new(block.pattern.clone()), Sizes::Fixed(2_000));
    let pattern = Pattern::Answered { of, replies, reply_label: 0 };
    answered.workload.traffic.push(Traffic { pattern, ..block });
    vec![
        cut("swift", Span::ZERO, false),
        cut("swift", Span::us(3), true),
        cut("sird", Span::us(1), false),
        (name, answered),
    ]
}

/// Collectives over all racks, beside other traffic and closed loops: two that share hosts, one
/// with computing time and a straggler, and a job that computes in every operation.
pub fn collectives() -> Cuts {
    let of = |op, bytes, chunks, compute| {
        let hosts = vec![11, 0, 5, 6, 3, 8, 2];
        let stragglers = Stragglers { ranks: vec![1], factor: 1.5 };
        let iterations = 1_000;
        Collective { op, hosts, bytes, chunks, iterations, compute, stragglers }
    };
    let mut all = closed_loops();
    for (_, setup) in &mut all {
        let experts = Op::Experts { loads: expert_loads(70_000, 7, 1.0), combine: true };
        let ring = of(Op::RingAllReduce, 70_000, 2, Span::ZERO);
        let job = Pattern::Job(copied(&ring, Span::ns(700)));
        for pattern in [
            Pattern::Collective(ring),
            Pattern::Collective(of(Op::TreeAllReduce, 10_000, 1, Span::us(4))),
            Pattern::Collective(of(experts, 70_000, 1, Span::ZERO)),
            job,
        ] {
            let block = setup.workload.traffic[0].clone();
            setup.workload.traffic.push(Traffic { pattern, sizes: Sizes::Fixed(1), ..block });
        }
    }
    all
}
