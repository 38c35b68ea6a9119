//! The engine and its protocols compared with arithmetic, queueing theory and independently
//! computed fixed points.

use crate::common::*;
use tidegate_algos::Protocol;
use tidegate_algos::message::dcpim::Dcpim;
use tidegate_algos::message::expresspass::ExpressPass;
use tidegate_core::fabric::{Fabric, Node};
use tidegate_core::params::Value;
use tidegate_core::{Domain, Endpoint, Rate, Rng, Span, Time};

/// Σ (serialisation + propagation) of one packet over links with these rates and one delay.
fn store_and_forward(wire: u32, rates: &[Rate], delay: Span) -> Span {
    rates.iter().fold(Span::ZERO, |sum, rate| sum + rate.serialise(wire as u64) + delay)
}

#[test]
fn lone_packet_takes_serialisation_and_propagation() {
    let delay = Span::ns(245);
    let rates = [Rate::gbps(100), Rate::gbps(400), Rate::gbps(400), Rate::gbps(100)];
    for &protocol in Protocol::ALL {
        let info = protocol.info();
        let is = |name: &str| info.name == name;
        // ExpressPass first sends a request and receives a credit of up to 92 bytes.
        let credit = is(<ExpressPass as Endpoint>::INFO.name).then_some(92);
        // dcPIM announces a short message by a minimum frame that leaves just before it.
        let is_announced = is(<Dcpim as Endpoint>::INFO.name);
        for bytes in [1u32, 4, 5, 100, 1459, 1460] {
            let fabric = leaf_spine(2, 2, 1, rates[0], rates[1], delay, 1460);
            let flows = vec![flow(0, 3, bytes as u64, Time::us(3))];
            let (finished, _) = run(setup(fabric, protocol.stack(), flows, Time::ms(1)));
            let wire = protocol.stack().largest_data(bytes, 3);
            let announced = if is_announced { rates[0].serialise(84) } else { Span::ZERO };
            let least = announced + store_and_forward(wire, &rates, delay);
            let request = |granted| {
                store_and_forward(84, &rates, delay) + store_and_forward(granted, &rates, delay)
            };
            let range = match credit {
                Some(most) => least + request(84)..=least + request(most),
                None => least..=least,
            };
            let took = finished[0].completed.expect("delivered") - finished[0].start;
            assert!(range.contains(&took), "{} with {bytes} B: {took}, {range:?}", info.name);
            assert_eq!(finished[0].ideal, store_and_forward((bytes + 80).max(84), &rates, delay));
        }
    }
}

#[test]
fn lone_message_pipelines_as_store_and_forward() {
    // Without telemetry the measured time equals the ideal, for any number of packets.
    let fabric = |rates: [u64; 2]| {
        leaf_spine(2, 1, 1, Rate::gbps(rates[0]), Rate::gbps(rates[1]), Span::us(1), 1000)
    };
    for rates in [[100, 100], [100, 40], [40, 100]] {
        for bytes in [1_000, 1_001, 9_999, 100_000, 1_234_567] {
            let mut swift = stack("open-loop");
            swift.set("rate", Value::Rate(Rate::gbps(400))).unwrap();
            let flows = vec![flow(0, 1, bytes, Time::ZERO)];
            let (finished, _) = run(setup(fabric(rates), swift, flows, Time::ms(2)));
            let took = finished[0].completed.expect("delivered") - finished[0].start;
            assert_eq!(took, finished[0].ideal, "{bytes} B over {rates:?}");
        }
    }
}

#[test]
fn poisson_arrivals_wait_as_in_m_d_1() {
    // Sixty sources with links sixteen times as fast as the queue's, so their own serialisation
    // hardly spaces packets.
    let sources = 60;
    let mut fabric = star(sources + 1, Rate::gbps(1600), Span::us(1), 1000);
    let last = fabric.links.len() - 1;
    fabric.links[last].rate = Rate::gbps(100);
    for rho in [0.5, 0.8] {
        let mut open_loop = stack("open-loop");
        open_loop
            .set("rate", Value::Rate(Rate::bps((rho * 100e9 / sources as f64) as u64)))
            .unwrap();
        open_loop.set("arrivals", Value::Choice("poisson")).unwrap();
        let flows = (0..sources).map(|h| unlimited(h, sources, Time::ZERO)).collect();
        let mut setup = setup(fabric.clone(), open_loop, flows, Time::ms(240));
        setup.warmup = Time::ms(10);
        let (_, outcome) = run(setup);
        // Link i has records 2i and 2i + 1; the switch side of the last link is the queue.
        let link = &outcome.links[2 * last + 1];
        assert!(link.packets > 1_000_000, "{} packets", link.packets);
        let service_us = Rate::gbps(100).serialise(1080).as_us_f64();
        let offered = link.packets as f64 * service_us / 230_000.0;
        let expected = service_us * offered / (2.0 * (1.0 - offered));
        let error = link.queue_delay_us.mean / expected - 1.0;
        assert!((offered / rho - 1.0).abs() < 0.01, "offered {offered}");
        assert!(
            error.abs() < 0.03,
            "rho {rho}: waits {} us, M/D/1 {expected} us",
            link.queue_delay_us.mean
        );
        // Little's law relates the two measures of the queue.
        let arrivals_per_us = link.packets as f64 / 230_000.0;
        let by_little = arrivals_per_us * 1080.0 * link.queue_delay_us.mean;
        assert!(
            (link.queue_bytes.mean / by_little - 1.0).abs() < 1e-3,
            "{} {by_little}",
            link.queue_bytes.mean
        );
    }
}

/// Poseidon's target in microseconds at its default parameters (paper, equation 3).
fn poseidon_target_us(rate_gbps: f64) -> f64 {
    40.0 * (200.0 / rate_gbps).ln() / (200.0f64 / 0.02).ln() + 2.0
}

#[test]
fn poseidon_delay_is_the_target_of_the_fair_share() {
    for (rate, mtu, delay) in [(200, 4096, 620), (100, 1000, 690)] {
        for n in [2u32, 3, 5, 10, 20, 40, 60] {
            for seed in 1..=3 {
                fixed_point(Rate::gbps(rate), mtu, Span::ns(delay), n, seed);
            }
        }
    }
}

/// `n` senders and `n` receivers on either side of one link.
fn fixed_point(rate: Rate, mtu: u32, delay: Span, n: u32, seed: u64) {
    let mut fabric = Fabric {
        hosts: (0..2 * n).map(|h| format!("h{h}")).collect(),
        switches: vec![switch("left"), switch("right")],
        links: vec![link(Node::Switch(0), Node::Switch(1), rate, delay.times(2))],
        mtu,
        ..Fabric::default()
    };
    for h in 0..2 * n {
        fabric.links.push(link(Node::Host(h), Node::Switch(h / n), rate, delay));
    }
    let mut rng = Rng::stream(seed, Domain::Traffic, 9);
    let flows =
        (0..n).map(|h| unlimited(h, n + h, Time::ZERO + Span::us(6).scale(rng.unit()))).collect();
    let mut setup = setup(fabric, stack("poseidon"), flows, Time::ms(40));
    setup.warmup = Time::ms(20);
    setup.seed = seed;
    let (finished, outcome) = run(setup);
    let share = rate.as_gbps_f64() / n as f64;
    let target = poseidon_target_us(share);
    let link = &outcome.links[0];
    let case = format!("{rate}, {n} flows, seed {seed}");
    let jain = jain(&goodputs(&finished, &outcome));
    let utilisation = link.wire_bytes as f64 * 8.0 / 0.02 / rate.as_bps() as f64;
    let error = link.queue_delay_us.mean / target - 1.0;
    println!(
        "{case}: delay {:.3} us, target {target:.3} us ({:+.1} %), Jain {jain:.4}, utilisation \
         {utilisation:.4}",
        link.queue_delay_us.mean,
        error * 100.0
    );
    assert!(
        error.abs() < 0.10,
        "{case}: delay {} us, target {target} us",
        link.queue_delay_us.mean
    );
    assert!(jain > 0.98, "{case}: Jain {jain}");
    assert!(utilisation > 0.98, "{case}: utilisation {utilisation}");
}

/// A victim over two hops, `m` flows on the first and `n` flows on the second; all hosts are
/// distinct.
fn multi_hop(protocol: &str, rate: Rate, mtu: u32, m: u32, n: u32) -> f64 {
    let delay = Span::ns(650);
    let mut fabric = Fabric {
        hosts: Vec::new(),
        switches: vec![switch("s0"), switch("s1"), switch("s2")],
        links: (0..2).map(|s| link(Node::Switch(s), Node::Switch(s + 1), rate, delay)).collect(),
        mtu,
        ..Fabric::default()
    };
    let mut host = |at: u32| {
        let h = fabric.hosts.len() as u32;
        fabric.hosts.push(format!("h{h}"));
        fabric.links.push(link(Node::Host(h), Node::Switch(at), rate, delay));
        h
    };
    let mut pairs = vec![(host(0), host(2))];
    pairs.extend((0..m).map(|_| (host(0), host(1))));
    pairs.extend((0..n).map(|_| (host(1), host(2))));
    let mut rng = Rng::stream(1, Domain::Traffic, 9);
    let flows = pairs
        .iter()
        .map(|&(a, b)| unlimited(a, b, Time::ZERO + Span::us(6).scale(rng.unit())))
        .collect();
    let mut setup = setup(fabric, stack(protocol), flows, Time::ms(40));
    setup.warmup = Time::ms(20);
    let (finished, outcome) = run(setup);
    let wire =
        mtu as f64 / (mtu + 80 + Protocol::named(protocol).unwrap().info().telemetry(3)) as f64;
    let share = rate.as_bps() as f64 * wire / (m.max(n) + 1) as f64;
    let ratio = goodputs(&finished, &outcome)[0] / share;
    println!("{protocol} {rate} M {m} N {n}: victim has {ratio:.3} of its share");
    ratio
}

#[test]
fn multi_hop_victim_has_its_share_under_poseidon() {
    for (rate, mtu) in [(Rate::gbps(200), 4096), (Rate::gbps(100), 1000)] {
        for (m, n) in [(1, 1), (2, 2), (4, 1), (2, 9), (9, 2), (5, 5), (9, 9)] {
            let ratio = multi_hop("poseidon", rate, mtu, m, n);
            assert!((ratio - 1.0).abs() < 0.10, "{rate} M {m} N {n}: {ratio} of the share");
            let ratio = multi_hop("swift", rate, mtu, m, n);
            assert!(ratio < 0.20, "Swift, {rate} M {m} N {n}: {ratio} of the share");
        }
    }
}
