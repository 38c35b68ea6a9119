//! Windows, thresholds and arrivals compared with the results of their papers.

use crate::common::observers::{Observer, ObserverAccess, TestProbe};
use crate::common::*;
use tidegate_algos::Protocol;
use tidegate_core::fabric::{Buffer, Ecn, Fabric, MarkAt, Node, Routing};
use tidegate_core::faults::{Failing, Outage};
use tidegate_core::params::Value;
use tidegate_core::workload::{Distribution, Pattern, Sampling, Sizes, Traffic};
use tidegate_core::{
    ConnectionPolicy, Domain, Extent, HEADER_BYTES, Marking, Rate, Rng, Span, Time,
};
use tidegate_sim::{Departure, Engine, FlowRecord, Outcome};

/// `senders` hosts and one receiver around a switch, and the index of the port that leads to the
/// receiver.
fn funnel(senders: u32, rate: Rate, delay: Span, mtu: u32) -> (Fabric, usize) {
    let fabric = star(senders + 1, rate, delay, mtu);
    // Link i has ports 2i (from the host) and 2i + 1 (from the switch).
    let port = 2 * fabric.links.len() - 1;
    (fabric, port)
}

/// An unlimited flow from each of the first `senders` hosts to the next host, started within
/// `within`.
fn starts(senders: u32, within: Span, seed: u64) -> Vec<tidegate_core::workload::Flow> {
    let mut rng = Rng::stream(seed, Domain::Traffic, 9);
    (0..senders).map(|h| unlimited(h, senders, Time::ZERO + within.scale(rng.unit()))).collect()
}

/// Slope and intercept of the least-squares line.
fn line(points: &[(f64, f64)]) -> (f64, f64) {
    let (x, y): (Vec<f64>, Vec<f64>) = points.iter().copied().unzip();
    let (x, y) = (mean(&x), mean(&y));
    let (xy, xx) = points
        .iter()
        .fold((0.0, 0.0), |(xy, xx), p| (xy + (p.0 - x) * (p.1 - y), xx + (p.0 - x).powi(2)));
    (xy / xx, y - xy / xx * x)
}

fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len() as f64
}

/// PowerTCP (NSDI 2022), theorem 1: the windows at a link add up to bτ + Σβ, so its queue is Σβ.
#[test]
fn powertcp_queue_is_the_sum_of_betas() {
    let (flows, rate) = (4, Rate::gbps(200));
    for (mtu, delay) in [(1000, Span::us(1)), (4096, Span::us(1)), (4096, Span::us(3))] {
        let mut points = Vec::new();
        for sum in [0.2, 0.4, 0.6, 0.8, 1.0] {
            let (fabric, port) = funnel(flows, rate, delay, mtu);
            let mut powertcp = stack("powertcp");
            powertcp.set("tau", Value::Choice("path")).unwrap();
            powertcp.set("beta", Value::Extent(Extent::Bdp(sum / f64::from(flows)))).unwrap();
            let mut setup = setup(fabric, powertcp, starts(flows, Span::us(20), 1), Time::ms(4));
            setup.warmup = Time::ms(2);
            let mut engine = unobserved(setup, 1).unwrap();
            let path = engine.paths().path(0, flows);
            engine.advance(Time::ms(4));
            let mut outcome = engine.finish().unwrap();
            let finished = std::mem::take(&mut outcome.finished);
            let jain = jain(&goodputs(&finished, &outcome));
            assert!(jain > 0.98, "sum {sum}: Jain {jain}");
            points.push((sum * path.bdp_bytes, outcome.links[port].queue_bytes.mean));
            let utilisation = outcome.links[port].utilisation;
            assert!(utilisation > 0.99, "sum {sum}, {mtu} B, {delay}: {utilisation} of the link");
        }
        let (slope, intercept) = line(&points);
        let packets_a_flow = intercept / f64::from(flows) / f64::from(mtu + HEADER_BYTES);
        let case = format!(
            "{mtu} B, {delay}: slope {slope:.3}, intercept {packets_a_flow:.2} packets a flow"
        );
        println!("{case}");
        assert!((slope - 1.0).abs() < 0.05, "{case}");
        assert!(packets_a_flow.abs() < 0.5, "{case}");
    }
}

/// Utilisation of a link whose only queue is Σβ: the law has the granularity of a packet, and a β
/// of one packet keeps the link busy.
#[test]
fn powertcp_fills_links_if_its_beta_is_a_packet() {
    let seen = |n: u32, rate, mtu, beta_packets: Option<f64>, pending| {
        let (fabric, port) = funnel(n, rate, Span::us(1), mtu);
        let mut powertcp = stack("powertcp");
        powertcp.set("pending_packet", Value::Choice(pending)).unwrap();
        if let Some(packets) = beta_packets {
            // 80 bytes of headers, and 12 of telemetry over one switch.
            let bytes = packets * f64::from(mtu + HEADER_BYTES + 12);
            powertcp.set("beta", Value::Extent(Extent::Bytes(bytes))).unwrap();
        }
        let mut setup = setup(fabric, powertcp.clone(), starts(n, Span::us(20), 1), Time::ms(4));
        setup.warmup = Time::ms(2);
        let mut engine = unobserved(setup, 1).unwrap();
        let operating_point = powertcp.operating_point(&engine.paths().path(0, n), 1e9);
        let warns = operating_point.domain_warning().is_some();
        engine.advance(Time::ms(4));
        (engine.finish().unwrap().links[port].utilisation, warns)
    };
    for (gbps, mtu) in [(10, 1000), (10, 4096), (100, 1000), (100, 4096), (400, 4096)] {
        for n in [2, 4, 10, 20] {
            let rate = Rate::gbps(gbps);
            let ((default, warns), (packet, silent)) =
                (seen(n, rate, mtu, None, "shift"), seen(n, rate, mtu, Some(1.0), "shift"));
            let case =
                format!("{n} flows at {rate}, {mtu} B: {default:.3}, with a packet {packet:.3}");
            println!("{case}");
            assert!(warns && !silent, "{case}");
            assert!(packet > 0.95 && default > 0.8, "{case}");
        }
    }
    // Short paths: an independent simulator, in which pending packets keep their time, gives 0.970,
    // 0.944 and 1.000. If pending packets move, ten flows use 0.980.
    for (n, other) in [(4, 0.970), (10, 0.944), (20, 1.0)] {
        let (ours, _) = seen(n, Rate::gbps(100), 1000, None, "keep");
        assert!((ours - other).abs() < 0.03, "{n} flows: {ours}, not {other}");
    }
}

/// An increase below a fiftieth of a packet does not equalise shares of a few packets; an increase
/// of a twentieth does.
#[test]
fn hpcc_shares_links_with_a_sufficient_increase() {
    let seen = |n: u32, rate, mtu, additive: Option<f64>| {
        let (fabric, _) = funnel(n, rate, Span::us(1), mtu);
        let mut hpcc = stack("hpcc");
        if let Some(packets) = additive {
            // 80 bytes of headers, and 10 of telemetry over one switch.
            let bytes = packets * f64::from(mtu + HEADER_BYTES + 10);
            hpcc.set("additive", Value::Extent(Extent::Bytes(bytes))).unwrap();
        }
        let mut setup = setup(fabric, hpcc.clone(), starts(n, Span::us(20), 1), Time::ms(10));
        setup.warmup = Time::ms(5);
        let mut engine = unobserved(setup, 1).unwrap();
        let operating_point = hpcc.operating_point(&engine.paths().path(0, n), 1e9);
        let warns = operating_point.domain_warning().is_some();
        engine.advance(Time::ms(10));
        let mut outcome = engine.finish().unwrap();
        let finished = std::mem::take(&mut outcome.finished);
        (jain(&goodputs(&finished, &outcome)), warns)
    };
    for (gbps, mtu) in [(10, 1000), (10, 4096), (25, 1000), (100, 4096)] {
        for n in [4, 10] {
            let rate = Rate::gbps(gbps);
            let ((default, warns), (more, silent)) =
                (seen(n, rate, mtu, None), seen(n, rate, mtu, Some(0.05)));
            let case =
                format!("{n} flows at {rate}, {mtu} B: Jain {default:.3}, with more {more:.3}");
            println!("{case}");
            assert!(warns && !silent, "{case}");
            assert!(more > 0.97, "{case}");
            // Four flows with less than a packet of the BDP each have one packet in flight each.
            assert!(n > 4 || (gbps, mtu) == (10, 4096) || default < 0.8, "{case}");
        }
    }
    let (default, warns) = seen(4, Rate::gbps(100), 1000, None);
    assert!(!warns && default > 0.95, "48 packets to a BDP: {default}");
}

/// Host software delays every packet, which RTTs exclude but the BDP covers.
#[test]
fn theta_powertcp_converges_with_host_software() {
    let n = 4;
    let (fabric, port) = funnel(n, Rate::gbps(100), Span::us(1), 1000);
    let mut theta = stack("theta-powertcp");
    theta.set("beta", Value::Extent(Extent::Bytes(2.0 * 1080.0))).unwrap();
    let mut setup = setup(fabric, theta, starts(n, Span::us(20), 1), Time::ms(6));
    setup.warmup = Time::ms(4);
    setup.stack_time.delay = Span::us(5);
    setup.bdp_bytes = Some(177e3);
    let (_, outcome) = run(setup);
    let (link, queue) = (&outcome.links[port], outcome.links[port].queue_bytes.mean);
    println!("{:.3} of the link, {queue:.0} B", link.utilisation);
    assert!(link.utilisation > 0.93 && queue < 20e3, "{}, {queue}", link.utilisation);
}

/// 200 flows start together with a BDP each, so that the first RTTs are about 100 times the base
/// RTT. Windows fall far below a packet, and packets leave at the minimum rate.
#[test]
fn hpcc_flows_do_not_pause_after_a_crowded_start() {
    let n = 200;
    let (fabric, _) = funnel(n, Rate::gbps(100), Span::us(1), 4096);
    let mut setup = setup(fabric, stack("hpcc"), starts(n, Span::ZERO, 1), Time::ms(6));
    setup.warmup = Time::ms(2);
    let (finished, outcome) = run(setup);
    let rates = goodputs(&finished, &outcome);
    let lowest = rates.iter().copied().fold(f64::INFINITY, f64::min);
    let jain = jain(&rates);
    println!("lowest {:.1} Mbit/s, Jain {jain:.3}", lowest / 1e6);
    // 100 Mbit/s with headers and telemetry.
    assert!(lowest > 90e6 && jain > 0.8, "{lowest}, {jain}");
}

/// Completion times of messages of 20 packets, one after another with gaps of `apart`, with windows
/// that start at one packet.
fn one_after_another(apart: Span, restart_after: Span) -> Vec<Span> {
    let mut swift = stack("swift");
    swift.set("initial_window", Value::Extent(Extent::Bytes(1080.0))).unwrap();
    swift.set("restart_after", Value::Span(restart_after)).unwrap();
    let (fabric, _) = funnel(1, Rate::gbps(100), Span::us(1), 1000);
    let message =
        |start| tidegate_core::workload::Flow { dedicated: false, ..flow(0, 1, 20_000, start) };
    let (finished, _) = run(setup(
        fabric,
        swift,
        vec![message(Time::ZERO), message(Time::ZERO + apart)],
        Time::ms(5),
    ));
    finished.iter().map(|record| record.completed.unwrap().since(record.start)).collect()
}

#[test]
fn idle_connection_restarts_after_the_set_time() {
    let kept = one_after_another(Span::ms(1), Span::ms(1));
    assert!(kept[1] < kept[0], "a window that has grown is kept: {kept:?}");
    let restarted = one_after_another(Span::ms(2), Span::ms(1));
    assert_eq!(restarted[1], restarted[0], "the window is not kept beyond the set time");
}

/// Pacing belongs to a connection's control. A message on an idle connection must not wait for the
/// pace of the previous message, and a packet sent at time 0 counts like any other.
#[test]
fn used_connections_are_as_fast_as_new_ones() {
    // With windows below a packet, one packet leaves every `rtt · packet / window`.
    for name in ["swift", "dctcp", "poseidon", "hpcc", "powertcp"] {
        for bytes in [1000, 3000] {
            let mut small = stack(name);
            small.set("initial_window", Value::Extent(Extent::Bytes(100.0))).unwrap();
            let starts = [Time::ZERO, Time::us(1), Time::us(10), Time::us(500), Time::us(505)];
            let messages = starts.map(|start| flow(1, 0, bytes, start)).to_vec();
            let fabric = star(2, Rate::gbps(100), Span::us(1), 1000);
            let (finished, _) = run(setup(fabric, small, messages, Time::ms(2)));
            let took: Vec<Span> = finished
                .iter()
                .map(|record| record.completed.unwrap().since(record.start))
                .collect();
            assert_eq!(took, [took[0]; 5], "{name}, {bytes} B");
        }
    }
}

#[test]
fn timeouts_are_those_configured() {
    let (fabric, _) = funnel(1, Rate::gbps(100), Span::us(1), 1000);
    let (initial, smallest) = (Span::us(700), Span::us(300));
    let mut swift = stack("swift");
    swift.set("initial_rto", Value::Span(initial)).unwrap();
    swift.set("min_rto", Value::Span(smallest)).unwrap();
    let message =
        |start| tidegate_core::workload::Flow { dedicated: false, ..flow(0, 1, 1000, start) };
    let starts = [Time::ZERO, Time::ms(1), Time::ms(2)];
    let mut setup = setup(fabric, swift, starts.map(message).to_vec(), Time::ms(5));
    // The link is down when the first and the last message leave their host.
    let outage = |down| Outage { of: Failing::Link(0), down, up: down.after(Span::us(10)) };
    setup.faults.outages = vec![outage(Time::ZERO), outage(Time::ms(2))];
    let (finished, _) = run(setup);
    let took: Vec<Span> =
        finished.iter().map(|record| record.completed.unwrap().since(record.start)).collect();
    assert_eq!(took, [initial + took[1], took[1], smallest + took[1]]);
}

/// Successive messages are sent to a host whose link is down for some time. The first successful
/// attempt is at a multiple of the initial timeout or of the smallest one, doubled up to the
/// largest, whatever happened before.
#[test]
fn timeouts_double_until_something_arrives() {
    let largest = Span::ms(20);
    let mut dctcp = stack("dctcp");
    dctcp.set("max_rto", Value::Span(largest)).unwrap();
    for connections in [ConnectionPolicy::PerPair, ConnectionPolicy::PerMessage] {
        let (mut fabric, _) = funnel(1, Rate::gbps(100), Span::us(1), 1000);
        fabric.switches[0].ecn = None;
        let down_for =
            [Span::ZERO, Span::us(1100), Span::ms(6), Span::ms(90), Span::ZERO, Span::us(300)];
        let start = |i: usize| Time::ms(1 + 200 * i as u64);
        let message =
            |i| tidegate_core::workload::Flow { dedicated: false, ..flow(0, 1, 1000, start(i)) };
        let messages = (0..down_for.len()).map(message).collect();
        let mut setup = setup(fabric, dctcp.clone(), messages, Time::s(2));
        setup.connections = connections;
        let outage = |(i, &length): (usize, &Span)| Outage {
            of: Failing::Link(1),
            down: start(i).before(Span::us(1)),
            up: start(i).after(length),
        };
        setup.faults.outages = down_for
            .iter()
            .enumerate()
            .filter(|(_, length)| **length > Span::ZERO)
            .map(outage)
            .collect();
        let (finished, _) = run(setup);
        let took: Vec<Span> =
            finished.iter().map(|record| record.completed.unwrap().since(record.start)).collect();
        // Attempts are after 1, 3, 7, … timeouts of the first kind.
        let attempt = |i: usize| {
            let known = connections == ConnectionPolicy::PerPair && i > 0;
            let mut timeout = if known { Span::us(200) } else { Span::ms(1) };
            let mut at = Span::ZERO;
            while at < down_for[i] {
                at += timeout;
                timeout = timeout.times(2).min(largest);
            }
            at
        };
        for (i, &took_i) in took.iter().enumerate() {
            assert_eq!(took_i, attempt(i) + took[0], "message {i}, {connections:?}");
        }
    }
}

/// An acknowledgement for several packets costs less on the reverse path and has the same
/// information: DCTCP's queue depends on its marks, Swift's on its RTT samples.
#[test]
fn coalesced_acknowledgements_carry_the_same_signal() {
    for name in ["dctcp", "swift"] {
        let seen = |every| {
            let (mut fabric, port) = funnel(2, Rate::gbps(10), Span::us(24), 1420);
            let step = 60_000.0;
            let at = MarkAt::Enqueue;
            let ecn = Ecn {
                min_bytes: step,
                max_bytes: step,
                max_probability: 1.0,
                at,
                core_only: false,
                per: None,
            };
            fabric.switches[0].ecn = Some(ecn);
            let mut stack = stack(name);
            stack.set("ack_every", Value::Integer(every)).unwrap();
            if name == "swift" {
                stack.set("base_target", Value::Span(Span::us(130))).unwrap();
            }
            let mut setup = setup(fabric, stack, starts(2, Span::us(100), 1), Time::ms(120));
            setup.warmup = Time::ms(40);
            let (_, outcome) = run(setup);
            let acks = outcome.links[port - 1].packets as f64 / outcome.links[port].packets as f64;
            (acks, outcome.links[port].utilisation, outcome.links[port].queue_bytes.mean / 1500.0)
        };
        let (one, utilisation, queue) = seen(1);
        println!("{name}: {one:.3} acks a packet, {utilisation:.3} of the link, queue {queue:.1}");
        assert!((one - 1.0).abs() < 0.01, "{name}");
        for every in [2, 4] {
            let (acks, used, waiting) = seen(every);
            println!(
                "{name} every {every}: {acks:.3} acks a packet, {used:.3} of the link, queue \
                 {waiting:.1}"
            );
            // A change of marks triggers an early acknowledgement.
            assert!(
                (1.0 / every as f64..1.15 / every as f64 + 0.01).contains(&acks),
                "{name}: {acks}"
            );
            assert!((used - utilisation).abs() < 0.01, "{name}: {used}");
            assert!((waiting / queue - 1.0).abs() < 0.15, "{name}: {waiting}, not {queue}");
        }
    }
}

/// Peaks and troughs of the queue behind departing packets at one port.
struct Swings {
    port: u32,
    from: Time,
    /// A swing goes below the first level and above the second.
    band: (u32, u32),
    rising: bool,
    extreme: u32,
    peaks: Vec<f64>,
    troughs: Vec<f64>,
}

impl Observer for Swings {
    fn departed(&mut self, d: &Departure<'_>) {
        if d.port != self.port || d.at < self.from {
            return;
        }
        let queue = d.queue_bytes;
        let is_reversed = if self.rising { queue < self.band.0 } else { queue > self.band.1 };
        if is_reversed {
            let extremes = if self.rising { &mut self.peaks } else { &mut self.troughs };
            extremes.push(f64::from(self.extreme));
            self.rising = !self.rising;
            self.extreme = queue;
        }
        self.extreme = if self.rising { self.extreme.max(queue) } else { self.extreme.min(queue) };
    }
}

/// DCTCP (SIGCOMM 2010), section 3.3, with the threshold, rate and round-trip time of its figure
/// 12. A round trip passes between the first mark and its effect, in which each of N windows, at
/// `W* = (C·RTT + K) / N` packets, grows by one: the queue peaks at K + N. The share of marked
/// packets solves `α²·(1 − α/4) = (2W* + 1) / (W* + 1)²` (equation 6; the paper goes on with
/// √(2/W*), which is too coarse for small windows), and a cut takes `N·(W* + 1)·α/2` off the queue
/// (equations 7 and 8).
/// Thresholds in proportion to a port's rate are those of that port, whatever others have.
#[test]
fn ports_mark_in_proportion_to_their_rates() {
    let seen = |receiver: u32, ecn: Ecn| {
        let mut fabric = star(4, Rate::gbps(100), Span::us(1), 1000);
        fabric.links[3].rate = Rate::gbps(25);
        fabric.switches[0].ecn = Some(ecn);
        let flows = vec![unlimited(0, receiver, Time::ZERO), unlimited(1, receiver, Time::us(10))];
        trace(setup(fabric, stack("dctcp"), flows, Time::us(500)))
    };
    let step = |bytes| Marking::step(Extent::Bytes(bytes)).resolved(0.0);
    let ramp = |bytes| Ecn { max_bytes: 2.0 * bytes, max_probability: 0.3, ..step(bytes) };
    for shape in [&step as &dyn Fn(f64) -> Ecn, &ramp] {
        let scaled = Ecn { per: Some(Rate::gbps(25)), ..shape(15e3) };
        assert_eq!(seen(3, scaled), seen(3, shape(15e3)));
        assert_eq!(seen(2, scaled), seen(2, shape(60e3)));
        assert_ne!(seen(2, scaled), seen(2, shape(15e3)));
    }
}

#[test]
fn dctcp_swings_as_its_paper_computes() {
    let (rate, mtu, threshold) = (Rate::gbps(10), 1420, 40.0);
    let packet = f64::from(mtu + HEADER_BYTES);
    for n in [2, 5, 10, 20, 40] {
        let flows = f64::from(n);
        let (mut fabric, port) = funnel(n, rate, Span::us(24), mtu);
        let step = threshold * packet;
        let ecn = Ecn {
            min_bytes: step,
            max_bytes: step,
            max_probability: 1.0,
            at: MarkAt::Enqueue,
            core_only: false,
            per: None,
        };
        fabric.switches[0].ecn = Some(ecn);
        // The peak, one packet that has yet to join the queue, and one packet of slack.
        let bytes = ((threshold + flows + 2.0) * packet) as u64;
        fabric.switches[0].buffer = Buffer::Shared { bytes, alpha: f64::INFINITY };
        let mut setup = setup(fabric, stack("dctcp"), starts(n, Span::us(100), 1), Time::ms(300));
        setup.warmup = Time::ms(100);
        let swings = Swings {
            port: port as u32,
            from: setup.warmup,
            band: (((threshold - 4.0) * packet) as u32, step as u32),
            rising: true,
            extreme: 0,
            peaks: Vec::new(),
            troughs: Vec::new(),
        };
        let mut engine = Engine::new(setup, TestProbe::of(swings)).unwrap();
        let pipe = rate.bytes_in(engine.paths().path(0, n).base_rtt) as f64 / packet;
        engine.advance(Time::ms(300));
        let probe: &Swings = engine.probe().inner();
        let swing = (mean(&probe.peaks[1..]) - mean(&probe.troughs[1..])) / packet;
        let swings = probe.troughs.len();
        let mut outcome = engine.finish().unwrap();
        let finished = std::mem::take(&mut outcome.finished);

        let window = (pipe + threshold) / flows;
        let alpha = (0..60).fold(0.0f64, |alpha, _| {
            ((2.0 * window + 1.0) / ((window + 1.0).powi(2) * (1.0 - alpha / 4.0))).sqrt()
        });
        let peak = threshold + flows;
        let expected_swing = flows * (window + 1.0) * alpha / 2.0;
        let expected_mean = peak - expected_swing / 2.0;
        let link = &outcome.links[port];
        let (queue, most) = (link.queue_bytes.mean / packet, link.queue_bytes.max / packet);
        let jain = jain(&goodputs(&finished, &outcome));
        let case = format!(
            "{n} flows, Jain {jain:.3}: mean {queue:.1} (theory {expected_mean:.1}), swing \
             {swing:.1} ({expected_swing:.1}), peak {most:.1} \
             ({peak}), {swings} swings, {} drops",
            link.drops
        );
        println!("{case}");
        // The analysis is for a fluid. Synchronised flows change by a packet each at once, so N
        // packets are the granularity of the swing. The result is accurate to half of that plus the
        // packet that has yet to join, and the mean to half of this.
        assert!(
            (queue - expected_mean).abs() < (0.08 * expected_mean).max(flows / 4.0 + 0.5),
            "{case}"
        );
        assert!(
            (swing - expected_swing).abs() < (0.25 * expected_swing).max(flows / 2.0 + 1.0),
            "{case}"
        );
        assert!(most > peak - 1.5 && most < peak + 1.5, "{case}");
        assert!(swings > 100 && link.drops == 0, "{case}");
        assert!(jain > 0.95, "{case}");
    }
}

/// Dynamic Thresholds (Choudhury and Hahne, IEEE/ACM Transactions on Networking 6(2), 1998): a port
/// may hold α times the free bytes, so k overloaded ports hold αB / (1 + kα) each, whenever they
/// started.
#[test]
fn overloaded_ports_reach_dynamic_thresholds() {
    let (rate, mtu, buffer) = (Rate::gbps(100), 1000, 1_000_000);
    let packet = f64::from(mtu + HEADER_BYTES);
    for alpha in [0.125, 0.5, 1.0, 2.0, 8.0] {
        for k in [1u32, 2, 4, 8] {
            // Two senders for each of k receivers.
            let mut fabric = star(3 * k, rate, Span::us(1), mtu);
            fabric.switches[0].buffer = Buffer::Shared { bytes: buffer, alpha };
            let mut open_loop = stack("open-loop");
            open_loop.set("rate", Value::Rate(rate)).unwrap();
            let late = Span::us(50);
            let flow =
                |h: u32| unlimited(h, 2 * k + h / 2, Time::ZERO + late.times(u64::from(h / 2)));
            let mut setup = setup(fabric, open_loop, (0..2 * k).map(flow).collect(), Time::ms(4));
            setup.warmup = Time::ms(2);
            let (_, outcome) = run(setup);
            let share = alpha * buffer as f64 / (1.0 + f64::from(k) * alpha);
            // The threshold itself changes by α packets with every packet.
            let tolerance = packet * alpha.max(1.0);
            for receiver in 2 * k..3 * k {
                let link = &outcome.links[2 * receiver as usize + 1];
                for held in [link.queue_bytes.mean, link.queue_bytes.max] {
                    assert!(
                        (held - share).abs() <= tolerance,
                        "alpha {alpha}, {k} ports: {held} B, not {share:.0} B"
                    );
                }
                // Two full links arrive, one leaves.
                let fits = rate.bytes_in(Span::ms(2)) as f64 / packet;
                assert!(
                    (link.packets as f64 - fits).abs() <= 1.0
                        && (link.drops as f64 - fits).abs() < 0.01 * fits
                );
            }
        }
    }
}

fn poisson(hosts: u32, sizes: Sizes, mean_bytes: f64, bps_a_host: f64) -> Traffic {
    Traffic {
        pattern: Pattern::Poisson {
            mean_gap_ps: mean_bytes * 8e12 / bps_a_host,
            senders: (0..hosts).collect(),
            receivers: (0..hosts).collect(),
        },
        sizes,
        stack: 0,
        label: 0,
        start: Time::ZERO,
        stop: Time::NEVER,
    }
}

/// All flows of a run, by ID.
fn all(finished: &[FlowRecord], outcome: &Outcome) -> Vec<FlowRecord> {
    let mut all: Vec<_> = finished.iter().chain(&outcome.unfinished).copied().collect();
    all.sort_by_key(|record| record.id);
    all
}

#[test]
fn arrivals_have_their_load_under_every_protocol() {
    let (hosts, rate, load) = (16, Rate::gbps(100), 0.5);
    // Sizes are uniform from 64 B to 2 KB, with the last tenth up to 30 KB: a mean of 2,528.8 B.
    let points = vec![(64.0, 0.0), (2_000.0, 0.9), (30_000.0, 1.0)];
    let mean_bytes = 0.9 * 1_032.0 + 0.1 * 16_000.0;
    let sizes = Sizes::Drawn(Distribution { points, sampling: Sampling::Linear, mean_bytes });
    let arrivals = |protocol: Protocol, duration: Time| {
        let mut setup =
            setup(star(hosts, rate, Span::us(1), 1500), protocol.stack(), Vec::new(), duration);
        setup.workload.traffic.push(poisson(
            hosts,
            sizes.clone(),
            mean_bytes,
            load * rate.as_bps() as f64,
        ));
        let (finished, outcome) = run(equipped(setup, 60e3));
        let flows = all(&finished, &outcome);
        assert!(
            flows.iter().enumerate().all(|(i, flow)| flow.id == i as u64 && flow.src != flow.dst)
        );
        flows.iter().map(|flow| (flow.src, flow.dst, flow.bytes, flow.start)).collect::<Vec<_>>()
    };

    let duration = Time::ms(12);
    let long = arrivals(Protocol::ALL[0], duration);
    let bytes: f64 = long.iter().map(|(_, _, bytes, _)| *bytes as f64).sum();
    let offered = bytes * 8.0 / duration.as_s_f64() / f64::from(hosts) / rate.as_bps() as f64;
    let mean_size = bytes / long.len() as f64;
    println!("{} messages, load {offered:.4}, mean {mean_size:.1} B", long.len());
    assert!(long.len() > 400_000, "{} messages are too few to mean anything", long.len());
    assert!((offered / load - 1.0).abs() < 0.01, "load {offered}");
    assert!((mean_size / mean_bytes - 1.0).abs() < 0.01, "mean {mean_size} B");
    // Every host sends and receives its share.
    for host in 0..hosts {
        let count = |to: bool| {
            long.iter().filter(|flow| if to { flow.1 == host } else { flow.0 == host }).count()
        };
        for share in [count(false), count(true)] {
            let share = share as f64 * f64::from(hosts) / long.len() as f64;
            assert!((share - 1.0).abs() < 0.03, "host {host}: {share}");
        }
    }

    let short = arrivals(Protocol::ALL[0], Time::us(300));
    assert_eq!(short[..], long[..short.len()], "a longer run begins as a shorter one");
    for &protocol in &Protocol::ALL[1..] {
        assert!(arrivals(protocol, Time::us(300)) == short, "{}", protocol.info().name);
    }
}

/// The fabric of SIRD's evaluation (NSDI 2025): nine racks of sixteen hosts, four spines.
fn racks() -> Fabric {
    let mut fabric = leaf_spine(9, 16, 4, Rate::gbps(100), Rate::gbps(400), Span::ns(500), 1458);
    for link in &mut fabric.links {
        if matches!(link.a, Node::Host(_)) {
            link.delay = Span::ns(1250);
        }
    }
    fabric
}

#[test]
fn every_protocol_carries_a_mix_over_144_hosts() {
    for &protocol in Protocol::ALL {
        let name = protocol.info().name;
        let mut setup = setup(racks(), protocol.stack(), Vec::new(), Time::us(600));
        let points = vec![(200.0, 0.0), (1_000.0, 0.6), (60_000.0, 0.97), (1_000_000.0, 1.0)];
        let mean_bytes = 0.6 * 600.0 + 0.37 * 30_500.0 + 0.03 * 530_000.0;
        let sizes = Sizes::Drawn(Distribution { points, sampling: Sampling::Linear, mean_bytes });
        setup.workload.traffic = vec![
            Traffic { stop: Time::us(400), ..poisson(144, sizes, mean_bytes, 40e9) },
            Traffic {
                pattern: Pattern::Incast {
                    fan_in: 30,
                    dst: None,
                    interval: Span::us(150),
                    poisson: false,
                    jitter: Span::ZERO,
                },
                sizes: Sizes::Fixed(50_000),
                stack: 0,
                label: 1,
                start: Time::us(50),
                stop: Time::us(400),
            },
        ];
        setup.bdp_bytes = Some(100e3);
        setup.warmup = Time::us(100);
        let setup = equipped(setup, 125e3);
        let measured = setup.duration.since(setup.warmup);
        let (finished, outcome) = run(setup);
        let flows = all(&finished, &outcome);
        let done = finished.len() as f64 / flows.len() as f64;
        println!(
            "{name}: {} messages, {:.1} % done, {} packet-hops",
            flows.len(),
            done * 100.0,
            outcome.packet_hops
        );
        assert!(
            flows.len() > 7_000 && done > if name == "open-loop" { 0.8 } else { 0.97 },
            "{name}: {done} done"
        );
        for flow in &finished {
            let fct = flow.completed.expect("finished") - flow.start;
            // Ideal times include 80 B per packet; other header sizes change them by less than two
            // per cent.
            assert!(fct.as_ps() as f64 >= 0.98 * flow.ideal.as_ps() as f64, "{name}: {flow:?}");
        }
        for link in &outcome.links {
            // A packet that is in transmission at the end counts completely.
            let fits = Rate::bps(link.rate_bps).bytes_in(measured) + 1_600;
            assert!(link.wire_bytes <= fits, "{name}: {link:?}");
            assert_eq!(link.drops, 0, "{name}: buffers are unlimited");
        }
    }
}

/// Ports that mark at random between 0 and `max_bytes`, or always.
fn marking(fabric: &mut Fabric, max_bytes: f64, buffer: Buffer) {
    for switch in &mut fabric.switches {
        let at = MarkAt::Enqueue;
        switch.ecn = Some(Ecn {
            min_bytes: 0.0,
            max_bytes,
            max_probability: 0.5,
            at,
            core_only: false,
            per: None,
        });
        switch.buffer = buffer;
    }
}

#[test]
fn only_admitted_packets_are_marked() {
    let (mut fabric, port) = funnel(8, Rate::gbps(100), Span::us(1), 1000);
    marking(&mut fabric, 0.0, Buffer::Shared { bytes: 20_000, alpha: 1.0 });
    let setup = setup(fabric, stack("dctcp"), starts(8, Span::us(1), 1), Time::ms(1));
    let duration = setup.duration;
    let mut engine = unobserved(setup, 1).unwrap();
    engine.advance(duration);
    let mut samples = Vec::new();
    engine.sample(&mut samples).unwrap();
    let queued = samples
        .iter()
        .find(|s| s.quantity == tidegate_sim::Quantity::QueueBytes && s.entity == port as u64);
    let queued = queued.unwrap().value / 1_080.0;
    let outcome = engine.finish().unwrap();
    let link = &outcome.links[port];
    assert!(link.drops > 100, "{} drops are too few to mean anything", link.drops);
    assert_eq!(link.ecn_marks, link.packets + queued as u64, "{} drops", link.drops);
}

#[test]
fn other_traffic_changes_no_mark_and_no_path() {
    // Two pairs of racks that share spines but no port; the second pair has senders of its own.
    let outcome = |others: bool| {
        let mut fabric = leaf_spine(4, 4, 2, Rate::gbps(100), Rate::gbps(40), Span::us(1), 1000);
        marking(&mut fabric, 100e3, Buffer::Unlimited);
        let pair = |first: u32| {
            (0..4).map(move |h| unlimited(first + h, first + 4 + h, Time::ns(h as u64 * 77)))
        };
        // Flows of the others come last, so the flows keep their indices.
        let flows = pair(0).chain(pair(8).filter(|_| others)).collect();
        let mut setup = setup(fabric, stack("dctcp"), flows, Time::us(400));
        setup.routing = Routing::Spray;
        run(setup).1
    };
    let (alone, together) = (outcome(false), outcome(true));
    let ours = |outcome: &Outcome| {
        let of_ours = |node: Node, racks: [u32; 2], hosts: u32| match node {
            Node::Host(host) => host < hosts,
            Node::Switch(switch) => racks.contains(&switch),
        };
        let links =
            outcome.links.iter().filter(|l| of_ours(l.from, [0, 1], 8) || of_ours(l.to, [0, 1], 8));
        links.cloned().collect::<Vec<_>>()
    };
    let marks: u64 = ours(&alone).iter().map(|link| link.ecn_marks).sum();
    assert!(marks > 100, "{marks} marks are too few to mean anything");
    assert_eq!(ours(&alone), ours(&together));
}
