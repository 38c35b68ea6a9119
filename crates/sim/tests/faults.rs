//! Reliability: whatever the network does to packets, every transport delivers every message
//! exactly once.
//!
//! `TIDEGATE_SEEDS=20000 cargo test -p tidegate-sim faults::` runs more seeds; a failure
//! prints how to replay its seed.

use crate::common::*;
use crate::planes;
use tidegate_algos::Protocol;
use tidegate_core::fabric::{Ecn, MarkAt, Routing, TrimVictim, Trimming};
use tidegate_core::faults::{Failing, Faults, Flaps, Outage};
use tidegate_core::params::Value;
use tidegate_core::workload::{Pattern, Sizes, Traffic};
use tidegate_core::{ConnectionPolicy, Domain, Rate, Rng, Span, Time};
use tidegate_sim::Setup;

/// Impairments by name.
fn impairments(rng: &mut Rng) -> Vec<(&'static str, Faults)> {
    let none = Faults::default;
    let outage = |of, down, length| Outage { of, down, up: down + length };
    let (link, host) = (12 + rng.below(6) as u32, rng.below(12) as u32);
    let (at, length) = (Time::us(10 + rng.below(100)), Span::us(20 + rng.below(400)));
    vec![
        ("loss 1 %", Faults { loss: 0.01, ..none() }),
        ("loss 5 %", Faults { loss: 0.05, ..none() }),
        (
            "everything",
            Faults {
                loss: 0.01,
                corruption: 0.01,
                reordering: 0.05,
                reorder_delay: Span::us(30),
                duplication: 0.03,
                ..none()
            },
        ),
        (
            "a link fails",
            Faults { outages: vec![outage(Failing::Link(link), at, length)], ..none() },
        ),
        (
            "a host stops",
            Faults { outages: vec![outage(Failing::Host(host), at, length)], ..none() },
        ),
        (
            "links flap",
            Faults {
                loss: 0.002,
                flaps: Some(Flaps { mean_up: Span::us(150), mean_down: Span::us(60) }),
                ..none()
            },
        ),
    ]
}

/// A few dozen messages of all sizes over a leaf-spine of twelve hosts.
fn small(protocol: Protocol, faults: Faults, seed: u64) -> Setup {
    let mut rng = Rng::stream(seed, Domain::Faults, u64::MAX);
    let fabric = leaf_spine(3, 4, 2, Rate::gbps(100), Rate::gbps(100), Span::ns(600), 1000);
    let mut setup = setup(fabric, protocol.stack(), Vec::new(), Time::s(20));
    let block = |pattern, bytes, start| Traffic {
        pattern,
        sizes: Sizes::Fixed(bytes),
        stack: 0,
        label: 0,
        start,
        stop: Time::us(120),
    };
    let incast = Pattern::Incast {
        fan_in: 5,
        dst: None,
        interval: Span::us(60),
        poisson: false,
        jitter: Span::us(1),
    };
    let poisson = Pattern::Poisson {
        mean_gap_ps: 60e6,
        senders: (0..12).collect(),
        receivers: (0..12).collect(),
    };
    setup.workload.traffic = vec![
        block(Pattern::Permutation, 1 + rng.below(60_000), Time::us(2)),
        block(incast, 1 + rng.below(20_000), Time::us(10)),
        block(poisson, 1 + rng.below(3_000), Time::ZERO),
    ];
    setup.connections = [
        ConnectionPolicy::PerPair,
        ConnectionPolicy::PerMessage,
        ConnectionPolicy::Pool(2),
        ConnectionPolicy::ShortestFirst,
    ][rng.below(4) as usize];
    for switch in &mut setup.fabric.switches {
        let at = 40e3;
        switch.ecn = Some(Ecn {
            min_bytes: at,
            max_bytes: at,
            max_probability: 1.0,
            at: MarkAt::Enqueue,
            core_only: false,
            per: None,
        });
    }
    let requirements = requirements_of(&setup);
    let sprays = requirements.routing == Routing::Spray || rng.below(3) == 0;
    setup.routing = if sprays { Routing::Spray } else { requirements.routing };
    for switch in &mut setup.fabric.switches {
        switch.credit_queue = requirements.credit_queue;
    }
    setup.faults = faults;
    setup.seed = seed;
    setup
}

/// Runs until everything is delivered and acknowledged, or fails after a limit.
fn check(protocol: Protocol, name: &str, faults: Faults, seed: u64) {
    let setup = small(protocol, faults, seed);
    check_run(protocol, name, setup, seed);
}

/// Time limit for every message. Go-back-N makes little progress if only one round trip in six
/// succeeds.
fn patience(setup: &Setup) -> Span {
    let goes_back = ("recovery", Value::Choice("go-back-n"));
    Span::s(if setup.stacks[0].values().contains(&goes_back) { 200 } else { 20 })
}

fn check_run(protocol: Protocol, name: &str, mut setup: Setup, seed: u64) {
    let patience = patience(&setup);
    // A permutation of all hosts and two bursts of five; others are random.
    let least = setup.fabric.hosts.len() + 10;
    setup.duration = Time::ZERO + patience;
    let replay = || {
        format!(
            "{}, {name}: replay with TIDEGATE_SEED={seed} TIDEGATE_PROTOCOL={} cargo test -p \
             tidegate-sim faults::",
            protocol.info().name,
            protocol.info().name
        )
    };
    let mut engine = unobserved(setup, 1).unwrap();
    let mut rows = Vec::new();
    engine.advance(Time::us(200));
    // The run is advanced in steps, because most runs finish long before the limit.
    let mut until = Span::ms(2);
    while until <= patience {
        engine.advance(Time::ZERO + until);
        engine.take_finished(&mut rows).unwrap();
        if engine.live_flows() == 0 {
            break;
        }
        until = until.times(2);
    }
    assert_eq!(
        engine.live_flows(),
        0,
        "{} messages not done after {patience}; {}",
        engine.live_flows(),
        replay()
    );
    assert!(rows.len() >= least, "{} messages are too few; {}", rows.len(), replay());
    for row in &rows {
        assert_eq!(
            row.delivered_bytes,
            row.bytes,
            "message {} of {} B; {}",
            row.id,
            row.bytes,
            replay()
        );
        assert!(row.acked > row.completed, "acknowledged no later than delivered; {}", replay());
    }
}

fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok()?.parse().ok()
}

/// Number of seeds of a test that runs more on demand.
fn chosen(number_of_seeds: u64) -> u64 {
    number("TIDEGATE_SEEDS").unwrap_or(number_of_seeds)
}

/// Every protocol with every seed, or those to replay.
fn runs(protocols: &[Protocol], seeds: u64) -> Vec<(Protocol, u64)> {
    let only = std::env::var("TIDEGATE_PROTOCOL").ok();
    let is_meant = |of: &Protocol| only.as_ref().is_none_or(|only| only == of.info().name);
    let seeds = number("TIDEGATE_SEED").map_or(0..seeds, |seed| seed..seed + 1);
    let of = |&protocol: &Protocol| seeds.clone().map(move |seed| (protocol, seed));
    protocols.iter().filter(|of| is_meant(of)).flat_map(of).collect()
}

#[test]
fn every_message_is_delivered_exactly_once() {
    for (protocol, seed) in runs(Protocol::ALL, chosen(252)) {
        let mut impairments = impairments(&mut Rng::stream(seed, Domain::Faults, 1 << 60));
        let (name, faults) = impairments.swap_remove((seed % impairments.len() as u64) as usize);
        check(protocol, name, faults, seed);
    }
}

#[test]
fn coalesced_acknowledgements_lose_nothing() {
    for name in ["swift", "dctcp", "powertcp"] {
        let protocol = Protocol::named(name).unwrap();
        for seed in 0..120 {
            let mut impairments = impairments(&mut Rng::stream(seed, Domain::Faults, 1 << 60));
            let (impairment, faults) =
                impairments.swap_remove((seed % impairments.len() as u64) as usize);
            let mut setup = small(protocol, faults, seed);
            setup.stacks[0].set("ack_every", Value::Integer(2 + seed % 7)).unwrap();
            check_run(protocol, impairment, setup, seed);
        }
    }
}

/// Go-back-N, as in NICs for lossless fabrics, must complete with losses, too.
#[test]
fn go_back_n_loses_nothing() {
    for name in ["swift", "dctcp", "powertcp", "open-loop"] {
        let protocol = Protocol::named(name).unwrap();
        for seed in 0..120 {
            let mut impairments = impairments(&mut Rng::stream(seed, Domain::Faults, 1 << 60));
            let (impairment, faults) =
                impairments.swap_remove((seed % impairments.len() as u64) as usize);
            let mut setup = small(protocol, faults, seed);
            setup.stacks[0].set("recovery", Value::Choice("go-back-n")).unwrap();
            if seed % 2 == 0 {
                setup.stacks[0].set("ack_every", Value::Integer(2 + seed % 7)).unwrap();
            }
            check_run(protocol, impairment, setup, seed);
        }
    }
}

/// Hosts with a port in each of four planes, small queues that trim, and a plane that fails at some
/// of the hosts while packets are lost, overtake each other and are duplicated.
#[test]
fn trimming_and_failing_planes_lose_nothing() {
    let protocols = ["nscc", "smartt", "rccc", "nscc-rccc", "eqds", "ndp", "swift"];
    let protocols = protocols.map(|name| Protocol::named(name).unwrap());
    for (protocol, seed) in runs(&protocols, chosen(60)) {
        let mut rng = Rng::stream(seed, Domain::Faults, 1 << 61);
        let (down, fails) = (Time::us(5 + rng.below(60)), 1 + rng.below(planes::HOSTS as u64));
        let (plane, up) = (rng.below(planes::PLANES as u64) as u32, down + Span::us(200));
        let outage = |host| Outage {
            of: Failing::Link(planes::up(host as u32, plane) / 2),
            down,
            up: if seed % 3 == 0 { Time::NEVER } else { up },
        };
        let faults = Faults {
            loss: [0.0, 0.01][seed as usize % 2],
            reordering: 0.05,
            reorder_delay: Span::us(20),
            duplication: 0.01,
            outages: (0..fails).map(outage).collect(),
            ..Faults::default()
        };
        let mut setup = small(protocol, faults, seed);
        setup.fabric = planes::fabric();
        // Five headers, and others return to their senders.
        let returns = seed % 2 == 1;
        for switch in setup.fabric.network_switches_mut() {
            switch.trimming = Some(Trimming {
                data_bytes: 6 * 1_080,
                header_queue_bytes: if returns { 420 } else { 20_000 },
                trimmed_bytes: 84,
                victim: TrimVictim::Random,
                per: None,
                return_to_sender: returns,
                header_weight: [None, Some(1), Some(10)][seed as usize % 3],
            });
        }
        for block in &mut setup.workload.traffic {
            if let Pattern::Poisson { senders, receivers, .. } = &mut block.pattern {
                (*senders, *receivers) =
                    ((0..planes::HOSTS).collect(), (0..planes::HOSTS).collect());
            }
        }
        let rule = ["mixed", "reps", "bitmap", "oblivious"][rng.below(4) as usize];
        setup.stacks[0].set("multipath", Value::Choice(rule)).unwrap();
        check_run(protocol, "a plane fails", setup, seed);
    }
}

/// Most trimmed packets return to their senders, which may not expect that.
#[test]
fn returned_packets_lose_nothing() {
    for (protocol, seed) in runs(Protocol::ALL, chosen(12)) {
        let faults =
            Faults { loss: [0.0, 0.01][seed as usize % 2], duplication: 0.01, ..Faults::default() };
        let mut setup = small(protocol, faults, seed);
        for switch in &mut setup.fabric.switches {
            // Credits have no queue of their own beside trimming.
            switch.credit_queue = None;
            switch.trimming = Some(Trimming {
                data_bytes: 2_160,
                header_queue_bytes: 252,
                trimmed_bytes: 84,
                victim: TrimVictim::Random,
                per: None,
                return_to_sender: true,
                header_weight: None,
            });
        }
        check_run(protocol, "packets return", setup, seed);
    }
}

/// Without losses: packets are duplicated, late and out of order.
#[test]
fn duplicates_are_delivered_once() {
    for &protocol in Protocol::ALL {
        for seed in 0..30 {
            let faults = Faults {
                duplication: 0.3,
                reordering: if seed % 2 == 0 { 0.3 } else { 0.0 },
                reorder_delay: Span::us(30),
                ..Faults::default()
            };
            check(protocol, "repeated", faults, seed);
        }
    }
}

/// If every link loses or corrupts a fifth of all packets, one round trip in six over four links
/// succeeds. Timeouts are frequent, and every message still completes.
#[test]
fn messages_complete_at_extreme_loss() {
    for &protocol in Protocol::ALL {
        check(protocol, "a fifth lost", Faults { loss: 0.2, ..Faults::default() }, 0);
        check(protocol, "a fifth damaged", Faults { corruption: 0.2, ..Faults::default() }, 1);
    }
}

#[test]
fn faults_are_counted_and_come_from_the_seed() {
    let faults = Faults {
        loss: 0.01,
        corruption: 0.02,
        reordering: 0.03,
        reorder_delay: Span::us(5),
        duplication: 0.04,
        ..Faults::default()
    };
    let outcome = |seed| {
        let mut setup = small(Protocol::named("swift").unwrap(), faults.clone(), seed);
        setup.duration = Time::ms(2);
        run(setup).1
    };
    let (first, again, other) = (outcome(1), outcome(1), outcome(2));
    assert_eq!((first.digest, first.faults), (again.digest, again.faults));
    assert_ne!(first.digest, other.digest);
    let hops = first.packet_hops as f64;
    for (count, share) in
        [(first.faults.lost, 0.01), (first.faults.reordered, 0.03), (first.faults.duplicated, 0.04)]
    {
        let error = count as f64 / hops / share - 1.0;
        assert!(error.abs() < 0.25, "{count} of {hops} packet-hops, {share} expected");
    }
    // A corrupted packet is detected at its host, after at most four more links.
    assert!(first.faults.corrupted as f64 > 0.01 * hops * 0.9);
}

#[test]
fn failed_spine_is_bypassed_until_it_returns() {
    let fabric = leaf_spine(2, 2, 2, Rate::gbps(100), Rate::gbps(100), Span::us(1), 1000);
    // Links 4 and 5 lead from tor0 to the spines.
    let flows = vec![unlimited(0, 2, Time::ZERO), unlimited(1, 3, Time::ZERO)];
    let mut setup = setup(fabric, stack("swift"), flows, Time::ms(6));
    setup.faults.outages =
        vec![Outage { of: Failing::Link(4), down: Time::ms(2), up: Time::ms(4) }];
    let mut engine = unobserved(setup, 1).unwrap();
    let mut sent = Vec::new();
    for ms in [3, 4, 6] {
        engine.advance(Time::ms(ms));
        let mut samples = Vec::new();
        engine.sample(&mut samples).unwrap();
        let delivered =
            |s: &&tidegate_sim::Sample| s.quantity == tidegate_sim::Quantity::DeliveredBytes;
        sent.push(samples.iter().filter(delivered).map(|s| s.value).sum::<f64>());
    }
    // With one path left, both flows share one link's rate.
    let gbps = (sent[1] - sent[0]) * 8.0 / 1e6;
    assert!((80.0..95.0).contains(&gbps), "{gbps} Gbit/s over the remaining link");
    let outcome = engine.finish().unwrap();
    assert_eq!(outcome.faults.outages, 1);
}

/// Bytes that h0 has put on its link by each of these times in microseconds.
fn sent_by(outages: Vec<Outage>, times: &[u64]) -> Vec<u64> {
    let fabric = leaf_spine(2, 2, 2, Rate::gbps(100), Rate::gbps(100), Span::us(1), 1000);
    let mut setup =
        setup(fabric, stack("open-loop"), vec![unlimited(0, 2, Time::ZERO)], Time::ms(9));
    setup.faults.outages = outages;
    let sent = |&us: &u64| {
        let mut setup = setup.clone();
        setup.duration = Time::us(us);
        run(setup).1.links[0].wire_bytes
    };
    times.iter().map(sent).collect()
}

#[test]
fn overlapping_outages_last_until_all_are_over() {
    let outage = |of, down, up| Outage { of, down: Time::ms(down), up: Time::ms(up) };
    let (host, link) = (Failing::Host(0), Failing::Link(0));
    for outages in [
        // Nested, successive, and identical outages.
        vec![outage(host, 1, 6), outage(host, 2, 4)],
        vec![outage(host, 1, 4), outage(host, 2, 6)],
        vec![outage(host, 1, 6), outage(host, 1, 4)],
        vec![outage(link, 1, 6), outage(link, 2, 4)],
        // A host and its link, in either order.
        vec![outage(host, 1, 6), outage(link, 2, 4)],
        vec![outage(link, 1, 6), outage(host, 2, 4)],
        vec![outage(host, 1, 4), outage(link, 2, 6)],
        vec![outage(link, 1, 4), outage(host, 2, 6)],
    ] {
        let sent = sent_by(outages.clone(), &[1_001, 2_001, 4_001, 5_000, 5_999, 8_000]);
        assert!(sent[0] > 1_000_000, "{outages:?}: the host never sent");
        assert!(sent[1..5].iter().all(|&bytes| bytes == sent[0]), "{outages:?}: {sent:?}");
        assert!(sent[5] > sent[4] + 1_000_000, "{outages:?}: the host did not resume, {sent:?}");
    }
}

#[test]
fn stopped_host_has_no_deadlines() {
    // Swift's timeouts would retransmit during an outage if an earlier end of another outage
    // counted.
    let outage = |down, up| Outage { of: Failing::Host(0), down: Time::us(down), up: Time::us(up) };
    let fabric = star(2, Rate::gbps(100), Span::us(1), 1000);
    let mut setup =
        setup(fabric, stack("swift"), vec![flow(0, 1, 200_000, Time::ZERO)], Time::ms(40));
    setup.faults.outages = vec![outage(5, 30_000), outage(6, 5_000), outage(7, 6_000)];
    let resent = |until: Time| {
        let mut setup = setup.clone();
        setup.duration = until;
        let (finished, outcome) = run(setup);
        (
            finished.len(),
            finished
                .iter()
                .chain(&outcome.unfinished)
                .map(|row| row.retransmitted_bytes)
                .sum::<u64>(),
        )
    };
    assert_eq!(resent(Time::us(29_999)), (0, 0));
    assert_eq!(resent(Time::ms(40)).0, 1);
}

#[test]
fn flaps_and_outages_overlap() {
    // A flapping link that is also held down stays down, and is counted once.
    let fabric = leaf_spine(2, 1, 1, Rate::gbps(100), Rate::gbps(100), Span::us(1), 1000);
    let mut setup =
        setup(fabric, stack("open-loop"), vec![unlimited(0, 1, Time::ZERO)], Time::ms(4));
    setup.faults.flaps = Some(Flaps { mean_up: Span::us(100), mean_down: Span::us(20) });
    setup.faults.outages =
        vec![Outage { of: Failing::Link(2), down: Time::ms(1), up: Time::ms(3) }];
    let delivered = |until| {
        let mut setup = setup.clone();
        setup.duration = Time::us(until);
        run(setup).1.unfinished[0].delivered_bytes
    };
    let [early, down, still, back] = [990, 1_010, 2_990, 3_990].map(delivered);
    assert!(
        early > 500_000 && down == still && back > still + 500_000,
        "{early} {down} {still} {back}"
    );
}
#[test]
fn many_messages_between_one_pair_arrive() {
    // More concurrent connections than 16 bits can count.
    let messages = 70_000;
    for &protocol in Protocol::ALL {
        let flows: Vec<_> = (0..messages).map(|_| flow(0, 1, 100, Time::ZERO)).collect();
        let fabric = star(2, Rate::gbps(100), Span::us(1), 1000);
        let mut setup = setup(fabric, protocol.stack(), flows, Time::ms(40));
        setup.connections = ConnectionPolicy::PerMessage;
        let (finished, outcome) = run(setup);
        let name = protocol.info().name;
        assert_eq!((finished.len(), outcome.unfinished.len()), (messages, 0), "{name}");
        let resent: u64 = finished.iter().map(|record| record.retransmitted_bytes).sum();
        println!("{name}: {:?}, {resent} B retransmitted", finished.last().unwrap().completed);
        assert_eq!(resent, 0, "{name}");
    }
}
