//! Properties of the engine under every protocol: lazily committed ports equal explicit dequeues,
//! packets and bytes are conserved, a seed determines the run, and steady state allocates nothing.

use std::collections::BTreeSet;

use crate::common::busy::{Record, Recorder, busy, with_ecn};
use crate::common::observers::{Explicit, ObserverAccess, TestProbe};
use crate::common::*;
use tidegate_algos::Protocol;
use tidegate_core::fabric::{Buffer, Fabric, Node, Routing};
use tidegate_core::params::Value;
use tidegate_core::workload::{Pattern, Traffic};
use tidegate_core::{Domain, Rate, Rng, Span, Time};
use tidegate_sim::{Engine, FlowRecord, LinkRecord, Probe, SEMANTICS, Setup, SwitchRecord};

/// Departures, finished flows, digest and links of a run.
pub(crate) fn recorded<P: Probe + ObserverAccess>(
    setup: Setup,
) -> (Vec<Vec<Record>>, Vec<FlowRecord>, u64, Vec<LinkRecord>) {
    let duration = setup.duration;
    let mut engine = Engine::new(setup, P::of(Recorder::default())).unwrap();
    engine.advance(duration);
    let ports = engine.probe().inner::<Recorder>().take_ports();
    let mut outcome = engine.finish().unwrap();
    let finished = std::mem::take(&mut outcome.finished);
    (ports, finished, outcome.digest, outcome.links)
}

#[test]
fn lazy_commits_equal_explicit_dequeues() {
    for &protocol in Protocol::ALL {
        for seed in 1..=2 {
            let lazy = recorded::<TestProbe>(busy(protocol.stack(), seed));
            let explicit = recorded::<Explicit>(busy(protocol.stack(), seed));
            let records: usize = lazy.0.iter().map(Vec::len).sum();
            assert!(records > 10_000, "{records} records are too few to mean anything");
            for (a, b) in lazy.0.iter().flatten().zip(explicit.0.iter().flatten()) {
                assert_eq!(a, b, "{}", protocol.info().name);
            }
            assert!(lazy == explicit, "{}: same records, different outcome", protocol.info().name);
        }
    }
}

#[test]
fn work_limits_change_nothing() {
    let run = |work: &mut dyn FnMut() -> u64| {
        let mut setup = busy(stack("dctcp"), 1);
        // Also many submissions at the same time.
        setup.workload.traffic.push(Traffic {
            pattern: Pattern::AllToAll,
            start: Time::us(50),
            ..setup.workload.traffic[0].clone()
        });
        let mut engine = Engine::new(setup, TestProbe::of(Recorder::default())).unwrap();
        let mut pauses = 0;
        for until in [100, 250, 400].map(Time::us) {
            while !engine.advance_some(until, work()).unwrap() {
                pauses += 1;
            }
            assert_eq!(engine.now(), until);
        }
        let ports = engine.probe().inner::<Recorder>().take_ports();
        let mut outcome = engine.finish().unwrap();
        let finished = std::mem::take(&mut outcome.finished);
        (pauses, ports, finished, outcome.digest, outcome.links, outcome.events)
    };
    let whole = run(&mut || u64::MAX);
    assert_eq!(whole.0, 0);
    let mut rng = Rng::stream(1, Domain::Traffic, 0);
    for most in [1, 2, 10, 1000] {
        let paused = run(&mut || 1 + rng.below(most));
        assert!(paused.0 > 100, "{}", paused.0);
        assert!(
            (&whole.1, &whole.2, whole.3) == (&paused.1, &paused.2, paused.3),
            "at most {most} a step"
        );
        assert_eq!((&whole.4, whole.5), (&paused.4, paused.5));
    }
}

#[test]
fn strict_priorities_hold_at_every_departure() {
    // SIRD sends control packets above data.
    let setup = busy(stack("sird"), 3);
    let duration = setup.duration;
    let mut engine = Engine::new(setup, TestProbe::of(Recorder::default())).unwrap();
    engine.advance(duration);
    let mut overtakings = 0;
    for port in &engine.probe().inner::<Recorder>().take_ports() {
        for pair in port.windows(2) {
            let [first, second] = pair else { unreachable!("windows of two") };
            assert!(first.at < second.at);
            let second_was_there = second.at - second.waited < first.at;
            let (first_priority, second_priority) = (first.frame.2, second.frame.2);
            assert!(
                first_priority <= second_priority || !second_was_there,
                "{first:?} left before {second:?}"
            );
            if first_priority == second_priority {
                assert!(
                    first.at - first.waited <= second.at - second.waited,
                    "{first:?} overtook {second:?}"
                );
            } else if first_priority < second_priority && second_was_there {
                overtakings += 1;
            }
        }
    }
    assert!(overtakings > 100, "{overtakings} overtakings are too few to mean anything");
}

#[test]
fn packets_and_bytes_are_conserved() {
    let mut dropped = 0;
    for &protocol in Protocol::ALL {
        for buffer in [Buffer::Unlimited, Buffer::Shared { bytes: 60_000, alpha: 1.0 }] {
            let mut setup = with_ecn(busy(protocol.stack(), 4));
            setup.fabric.switches.iter_mut().for_each(|switch| switch.buffer = buffer);
            let links = setup.fabric.links.clone();
            let duration = setup.duration;
            let mut engine = Engine::new(setup, TestProbe::of(Recorder::default())).unwrap();
            engine.advance(duration);
            let in_network = engine.packets_in_flight();
            let recorder: &Recorder = engine.probe().inner();
            let (ports, arrived) = (recorder.take_ports(), recorder.arrived);
            let mut outcome = engine.finish().unwrap();
            let finished = std::mem::take(&mut outcome.finished);
            // Packets that left every port, by record and by counter.
            for (port, link) in ports.iter().zip(&outcome.links) {
                assert_eq!(port.len() as u64, link.packets);
                assert_eq!(port.iter().map(|r| r.frame.1 as u64).sum::<u64>(), link.wire_bytes);
            }
            // Packets: sent by hosts = arrived + in flight + dropped.
            let from_hosts: u64 = links
                .iter()
                .enumerate()
                .map(|(i, link)| match link.a {
                    Node::Host(_) => outcome.links[2 * i].packets,
                    Node::Switch(_) => 0,
                })
                .sum();
            let drops: u64 = outcome.links.iter().map(|link| link.drops).sum();
            assert_eq!(drops, outcome.switches.iter().map(|switch| switch.drops).sum::<u64>());
            assert!(drops == 0 || buffer != Buffer::Unlimited);
            dropped += drops;
            assert_eq!(from_hosts, arrived + drops + in_network as u64, "{}", protocol.info().name);
            // Messages: exactly their bytes.
            for record in finished.iter().chain(&outcome.unfinished) {
                assert!(record.delivered_bytes <= record.bytes);
                assert!(record.completed.is_none() || record.delivered_bytes == record.bytes);
            }
        }
    }
    assert!(
        dropped > 100,
        "only {dropped} drops: the small buffers were not small enough to mean anything"
    );
}

/// All results of a run, and every packet.
#[derive(Debug, PartialEq)]
struct Left {
    ports: Vec<Vec<Record>>,
    rows: Vec<FlowRecord>,
    unfinished: Vec<FlowRecord>,
    links: Vec<LinkRecord>,
    switches: Vec<SwitchRecord>,
    totals: (u64, u64, Time),
}

/// A run in steps of at most `step`, or in a single step; with or without samples at every step.
fn in_steps(setup: Setup, step: Option<Time>, sampled: bool) -> Left {
    let mut engine = Engine::new(setup, TestProbe::of(Recorder::default())).unwrap();
    let mut rng = Rng::stream(1, Domain::Faults, 1);
    let (mut rows, mut samples) = (Vec::new(), Vec::new());
    while !engine.is_over() {
        engine.advance(
            step.map_or(Time::NEVER, |step| engine.now() + Span::ps(rng.below(step.as_ps()))),
        );
        engine.take_finished(&mut rows).unwrap();
        if sampled {
            engine.sample(&mut samples).unwrap();
        }
    }
    // A drain that reaches its time limit leaves ports at their last commit.
    engine.sample(&mut samples).unwrap();
    let ports = engine.probe().inner::<Recorder>().take_ports();
    let end = engine.now();
    let mut outcome = engine.finish().unwrap();
    let rest = std::mem::take(&mut outcome.finished);
    rows.extend(rest);
    Left {
        ports,
        rows,
        unfinished: outcome.unfinished,
        links: outcome.links,
        switches: outcome.switches,
        totals: (outcome.digest, outcome.packet_hops, end),
    }
}

#[test]
fn steps_and_samples_do_not_change_results() {
    for &protocol in Protocol::ALL {
        for (sprayed, seed) in [(false, 1), (true, 2)] {
            let make = || {
                let mut setup = busy(protocol.stack(), seed);
                if sprayed {
                    setup = with_ecn(setup);
                    setup.routing = Routing::Spray;
                }
                setup.warmup = Time::us(130);
                setup.drain = Span::us(150);
                setup.histograms = true;
                setup
            };
            let whole = in_steps(make(), None, false);
            assert!(whole.rows.len() > 100, "{} rows", whole.rows.len());
            for (step, sampled) in
                [(Time::us(3), true), (Time::us(40), false), (Time::us(40), true)]
            {
                let partitions = in_steps(make(), Some(step), sampled);
                assert!(
                    partitions == whole,
                    "{}, {step}, sampled: {sampled}",
                    protocol.info().name
                );
            }
            assert!(
                whole
                    .rows
                    .windows(2)
                    .all(|w| (w[0].completed, w[0].id) < (w[1].completed, w[1].id))
            );
        }
    }
}

#[test]
fn packets_carry_their_hosts_count_of_messages() {
    for &protocol in Protocol::ALL {
        let left = in_steps(busy(protocol.stack(), 1), None, false);
        let mut numbers: Vec<BTreeSet<u32>> = vec![BTreeSet::new(); 12];
        // Link i belongs to host i; port 2i is its uplink. Only data packets identify the message's
        // sender.
        for (host, numbers) in numbers.iter_mut().enumerate() {
            let data = left.ports[2 * host].iter().filter(|record| record.body.payload_bytes > 0);
            numbers.extend(data.map(|record| record.body.message));
        }
        let mut submitted = [0u32; 12];
        for record in left.rows.iter().chain(&left.unfinished) {
            submitted[record.src as usize] += 1;
        }
        for (numbers, submitted) in numbers.iter().zip(submitted) {
            let (count, last) = (numbers.len() as u32, numbers.last().copied().unwrap_or(0));
            assert!(
                last < submitted && count <= submitted && count + 3 >= submitted,
                "{numbers:?}"
            );
        }
    }
}

#[test]
fn several_protocols_share_a_host_fairly() {
    // Two senders of each protocol on one host, to different receivers. The uplink is the
    // bottleneck.
    let mut setup =
        setup(star(5, Rate::gbps(100), Span::us(1), 1000), stack("swift"), Vec::new(), Time::ms(4));
    setup.stacks.push(stack("poseidon"));
    for (i, dst) in (1..5).enumerate() {
        setup.workload.flows.push(tidegate_core::workload::Flow {
            stack: (i % 2) as u16,
            ..unlimited(0, dst, Time::ZERO)
        });
    }
    setup.warmup = Time::ms(1);
    let (_, outcome) = run(setup);
    let by_dst =
        |dst: u32| outcome.unfinished.iter().find(|r| r.dst == dst).unwrap().window_bytes as f64;
    let rates: Vec<f64> = (1..5).map(by_dst).collect();
    assert!(jain(&rates) > 0.999, "{rates:?}");
}

/// Outcomes of small runs. An intended change of the digests of a protocol requires a new revision
/// of it, and a change of other digests a new [`SEMANTICS`].
#[test]
fn golden_digests() {
    let mut lines = String::new();
    for &protocol in Protocol::ALL {
        let plain = run(busy(protocol.stack(), 1)).1.digest;
        let mut sprayed = with_ecn(busy(protocol.stack(), 2));
        sprayed.routing = Routing::Spray;
        let sprayed = run(sprayed).1.digest;
        let info = protocol.info();
        lines += &format!("{} {} {plain:016x} {sprayed:016x}\n", info.name, info.revision);
    }
    for protocol in ["hpcc", "swift", "sird"] {
        let paused = |seed| {
            let mut setup = busy(stack(protocol), seed);
            lossless(&mut setup, 200_000);
            run(setup).1.digest
        };
        lines += &format!("lossless {protocol} {:016x} {:016x}\n", paused(1), paused(2));
    }
    let credited = |seed| run(crediting(busy(stack("expresspass"), seed))).1.digest;
    lines += &format!("credits expresspass {:016x} {:016x}\n", credited(1), credited(2));
    if std::env::var_os("UPDATE").is_some() {
        std::fs::write(
            concat!(env!("CARGO_MANIFEST_DIR"), "/tests/golden.txt"),
            format!("semantics {SEMANTICS}\n{lines}"),
        )
        .unwrap();
        return;
    }
    let golden = include_str!("golden.txt");
    let (version, digests) = golden.split_once('\n').unwrap();
    assert_eq!(
        version,
        format!("semantics {SEMANTICS}"),
        "golden.txt belongs to another version of the semantics"
    );
    let new: Vec<_> = lines.lines().filter(|line| !digests.contains(line)).collect();
    let changed: Vec<_> = digests.lines().filter(|line| !lines.contains(line)).collect();
    assert!(
        changed.is_empty(),
        "outcomes changed: raise the `revision` of these protocols, or SEMANTICS if a change is \
         not due to their own rules, and rewrite golden.txt with UPDATE=1\nbefore: \
         {changed:#?}\nnow: {new:#?}"
    );
    assert!(
        new.is_empty(),
        "protocols that are new: {new:#?}\nUPDATE=1 cargo test -p tidegate-sim golden \
         records them; SEMANTICS stays"
    );
}

/// Digests of every packet, recorded before the paper's reading became the default. The sprayed one
/// was recorded again when each host received a stream of its own for its paths.
#[test]
fn published_code_of_sird_is_unchanged() {
    let mut sird = stack("sird");
    sird.set("rules", Value::Choice("published-code")).unwrap();
    let mut sprayed = with_ecn(busy(sird.clone(), 2));
    sprayed.routing = Routing::Spray;
    let traces = [trace(busy(sird, 1)), trace(sprayed)];
    assert_eq!(traces, [0x364ef13c80b8e610, 0xbb78436c8d554b13], "{traces:x?}");
}

#[test]
fn poseidon_shares_random_graphs_max_min_fairly() {
    for seed in 1..=12 {
        let (fabric, pairs, paths) = random_graph(seed);
        let shares = water_fill(&fabric, &paths);
        let flows = pairs.iter().map(|&(a, b)| unlimited(a, b, Time::ZERO)).collect();
        let mut poseidon = stack("poseidon");
        poseidon.set("max_rate", Value::Rate(Rate::gbps(200))).unwrap();
        let mut setup = setup(fabric, poseidon, flows, Time::ms(40));
        setup.warmup = Time::ms(20);
        let (finished, outcome) = run(setup);
        for (flow, (rate, share)) in goodputs(&finished, &outcome).iter().zip(&shares).enumerate() {
            let ratio = rate / (share * 4096.0 / 4178.0);
            assert!(
                (ratio - 1.0).abs() < 0.12,
                "seed {seed}, flow {flow}: {ratio:.3} of {share:e} bit/s"
            );
        }
    }
}

/// A line of four to six switches with links of 100 or 200 Gbit/s, and a dozen flows over random
/// sections of it. Each flow has hosts of its own. Also returns the links of each flow's path.
fn random_graph(seed: u64) -> (Fabric, Vec<(u32, u32)>, Vec<Vec<usize>>) {
    let mut rng = Rng::stream(seed, Domain::Traffic, 77);
    let switches = 4 + rng.below(3) as u32;
    let mut rate = || Rate::gbps(100 * (1 + rng.below(2)));
    let mut fabric = Fabric {
        hosts: Vec::new(),
        switches: (0..switches).map(|s| switch(&format!("s{s}"))).collect(),
        links: (0..switches - 1)
            .map(|s| link(Node::Switch(s), Node::Switch(s + 1), rate(), Span::ns(300)))
            .collect(),
        mtu: 4096,
        ..Fabric::default()
    };
    let (mut pairs, mut paths) = (Vec::new(), Vec::new());
    for _ in 0..12 {
        let from = rng.below(switches as u64 - 1) as u32;
        let to = from + 1 + rng.below((switches - from - 1) as u64) as u32;
        let mut path: Vec<usize> = (from as usize..to as usize).collect();
        let mut host = |at: u32| {
            fabric.hosts.push(format!("h{}", fabric.hosts.len()));
            let host = fabric.hosts.len() as u32 - 1;
            path.push(fabric.links.len());
            fabric.links.push(link(
                Node::Host(host),
                Node::Switch(at),
                Rate::gbps(200),
                Span::ns(300),
            ));
            host
        };
        pairs.push((host(from), host(to)));
        paths.push(path);
    }
    (fabric, pairs, paths)
}

/// Max-min fair rates by water filling: repeatedly, the least fair share of any link becomes final
/// for its flows.
fn water_fill(fabric: &Fabric, paths: &[Vec<usize>]) -> Vec<f64> {
    let mut left: Vec<f64> = fabric.links.iter().map(|link| link.rate.as_bps() as f64).collect();
    let mut shares = vec![None; paths.len()];
    while shares.iter().any(Option::is_none) {
        let users = |link: usize| {
            paths.iter().zip(&shares).filter(|(p, s)| s.is_none() && p.contains(&link)).count()
        };
        let fair = |link: usize| (users(link) > 0).then(|| (left[link] / users(link) as f64, link));
        let (share, tightest) = (0..left.len())
            .filter_map(fair)
            .min_by(|a, b| a.0.total_cmp(&b.0))
            .expect("an unfixed flow uses a link");
        for (path, fixed) in paths.iter().zip(&mut shares) {
            if fixed.is_none() && path.contains(&tightest) {
                *fixed = Some(share);
                path.iter().for_each(|&link| left[link] -= share);
            }
        }
    }
    shares.into_iter().flatten().collect()
}
