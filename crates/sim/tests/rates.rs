//! Congestion controls of RDMA networks compared with the results of their papers and fluid models:
//! queues, shares and convergence times.

use crate::common::*;
use tidegate_algos::Stack;
use tidegate_core::fabric::Node;
use tidegate_core::params::Value;
use tidegate_core::{Domain, Extent, Path, Rate, Rng, Span, Time};
use tidegate_sim::Setup;

/// One link that `n` unlimited flows share, each from a host of its own.
struct Funnel {
    n: u32,
    rate: Rate,
    delay: Span,
    mtu: u32,
    /// Flows start within this time.
    within: Span,
    /// Start of the measured window, whose length is the same time again.
    warmup: Span,
}

/// Results at the link.
struct Seen {
    path: Path,
    /// Rates of all flows in bit/s.
    goodputs: Vec<f64>,
    queue_bytes: f64,
    utilisation: f64,
}

impl Funnel {
    fn setup(&self, stack: Stack) -> Setup {
        let fabric = star(self.n + 1, self.rate, self.delay, self.mtu);
        let mut rng = Rng::stream(1, Domain::Traffic, 9);
        let mut start = || Time::ZERO + self.within.scale(rng.unit());
        let flows = (0..self.n).map(|h| unlimited(h, self.n, start())).collect();
        let warmup = Time::ZERO + self.warmup;
        let mut setup = setup(fabric, stack, flows, warmup + self.warmup);
        setup.warmup = warmup;
        // ECN as the protocol requires, in proportion to rates.
        let bdp = unobserved(setup.clone(), 1).unwrap().paths().path(0, self.n).bdp_bytes;
        let ecn = requirements_of(&setup).ecn.map(|marking| marking.resolved(bdp));
        setup.fabric.switches[0].ecn = ecn;
        setup
    }

    fn run(&self, stack: Stack) -> Seen {
        let setup = self.setup(stack);
        let end = setup.duration;
        let mut engine = unobserved(setup, 1).unwrap();
        let path = engine.paths().path(0, self.n);
        engine.advance(end);
        let mut outcome = engine.finish().unwrap();
        let finished = std::mem::take(&mut outcome.finished);
        let link = outcome.links.last().expect("the switch side of the last link");
        Seen {
            path,
            queue_bytes: link.queue_bytes.mean,
            utilisation: link.utilisation,
            goodputs: goodputs(&finished, &outcome),
        }
    }
}

/// θ-PowerTCP (NSDI 2022, appendix B): in equilibrium power is `θ / τ`, so the queue is Σβ as with
/// PowerTCP. Each flow may add half a packet, because queues change by whole packets.
#[test]
fn theta_powertcp_queue_is_the_sum_of_betas() {
    for (mtu, delay) in [(1000, Span::us(1)), (4096, Span::us(3))] {
        for n in [1, 2, 4, 16] {
            for sum in [0.2, 0.5, 1.0] {
                let (rate, warmup) = (Rate::gbps(100), Span::ms(4));
                let funnel = Funnel { n, rate, delay, mtu, within: Span::us(20), warmup };
                let mut theta = stack("theta-powertcp");
                // Two flows with a Σβ of a BDP have a window of one BDP each: the cap must not
                // bind.
                theta.set("max_window", Value::Extent(Extent::Bdp(2.0))).unwrap();
                theta.set("beta", Value::Extent(Extent::Bdp(sum / f64::from(n)))).unwrap();
                let seen = funnel.run(theta);
                let expected = if n == 1 { 0.0 } else { sum * seen.path.bdp_bytes };
                let error =
                    (seen.queue_bytes - expected) / f64::from(n * seen.path.full_wire_bytes);
                let case = format!(
                    "{n} flows, {mtu} B, {delay}: queue {:.0} of {expected:.0} B, {error:.2} \
                     packets a flow off, {:.4} of the link",
                    seen.queue_bytes, seen.utilisation
                );
                println!("{case}");
                assert!(error.abs() < 0.5, "{case}");
                assert!(seen.utilisation > 0.99 && jain(&seen.goodputs) > 0.98, "{case}");
            }
        }
    }
}

/// Eleven flows of one rack converge with HPCC as PowerTCP's authors ran it: in their simulator the
/// port carries 24.2 of 25 Gbit/s and the queue holds 1.4 KB. If a pending packet keeps its time
/// under a new rate, the rates swing instead. The base RTT of the fabric, which HPCC uses, is six
/// times that of the rack, because an idle host is 13 us away.
#[test]
fn hpcc_converges_if_rates_move_pending_packets() {
    let seen = |pending| {
        let (n, rate, mtu) = (11, Rate::gbps(25), 1000);
        let mut hpcc = stack("hpcc");
        hpcc.set("eta", Value::Number(0.95)).unwrap();
        hpcc.set("additive", Value::Extent(Extent::Bdp(0.002))).unwrap();
        hpcc.set("min_rate", Value::Rate(Rate::mbps(100))).unwrap();
        hpcc.set("pending_packet", Value::Choice(pending)).unwrap();
        let mut fabric = star(n + 2, rate, Span::us(1), mtu);
        fabric.links[n as usize + 1].delay = Span::us(13);
        let flows = (0..n).map(|h| unlimited(h, n, Time::ZERO)).collect();
        let mut setup = setup(fabric, hpcc, flows, Time::ms(10));
        setup.warmup = Time::ms(4);
        let (_, outcome) = run(setup);
        let port = outcome.links.iter().find(|link| link.to == Node::Host(n)).unwrap();
        println!("{pending}: {:.4}, {:.0} B", port.utilisation, port.queue_bytes.mean);
        (port.utilisation * 25.0, port.queue_bytes.mean)
    };
    let ((moved, queue), (kept, longer)) = (seen("shift"), seen("keep"));
    assert!((moved - 24.2).abs() < 0.25 && (queue - 1_400.0).abs() < 300.0, "{moved}, {queue} B");
    assert!(kept < moved - 0.5 && longer > 1.5 * queue, "{kept}, {longer} B");
}

/// Algorithm 2, implemented literally, does not converge after many flows start at once. Half a BDP
/// of growth in each of its swings is what `gradient_floor` prevents.
#[test]
fn theta_powertcp_needs_a_gradient_floor() {
    let queue = |floor: f64| {
        let (rate, delay) = (Rate::gbps(100), Span::us(1));
        let warmup = Span::ms(4);
        let funnel = Funnel { n: 16, rate, delay, mtu: 1000, within: Span::us(20), warmup };
        let mut theta = stack("theta-powertcp");
        theta.set("gradient_floor", Value::Number(floor)).unwrap();
        let seen = funnel.run(theta);
        seen.queue_bytes / seen.path.bdp_bytes
    };
    let (with, without) = (queue(0.5), queue(0.0));
    assert!(with < 0.3 && without > 5.0, "{with:.2} and {without:.2} BDP");
}

/// Patched TIMELY (CoNEXT 2016, section 4.3): in equilibrium `rtt = T_low · (1 + δ / (β · R))`,
/// with `R` the share of each flow, for any initial shares.
#[test]
fn patched_timely_converges_to_its_reference() {
    for (gbps, mtu) in [(10, 1000), (100, 1000), (100, 4096)] {
        for n in [2, 4, 8, 16] {
            let (rate, within, warmup) = (Rate::gbps(gbps), Span::us(20), Span::ms(40));
            let funnel = Funnel { n, rate, delay: Span::us(1), mtu, within, warmup };
            let mut timely = stack("timely");
            timely.set("variant", Value::Choice("patched")).unwrap();
            timely.set("initial_rate", Value::Number(1.0 / f64::from(n))).unwrap();
            let seen = funnel.run(timely);
            // δ is a thousandth of the link's rate, β is 0.008.
            let rtt_us = 50.0 * (1.0 + f64::from(n) * 0.001 / 0.008);
            let expected = rate.bytes_in(Span::from_us_f64(rtt_us).beyond(seen.path.base_rtt));
            let error = seen.queue_bytes / expected as f64 - 1.0;
            let case = format!("{n} flows at {rate}, {mtu} B: queue {error:+.4} off {expected} B");
            println!("{case}");
            assert!(error.abs() < 0.02, "{case}");
            assert!(seen.utilisation > 0.999 && jain(&seen.goodputs) > 0.99, "{case}");
        }
    }
}

/// Two flows with initial shares of 0.7 and 0.3: the shares after `warmup`, and the largest and
/// the mean queueing delay in microseconds.
fn unequal_starts(variant: &'static str, warmup: Span) -> (Vec<f64>, f64, f64) {
    let (rate, delay) = (Rate::gbps(10), Span::us(1));
    let funnel = Funnel { n: 2, rate, delay, mtu: 1000, within: Span::us(1), warmup };
    let stacks = [0.7, 0.3].map(|share| {
        let mut timely = stack("timely");
        timely.set("variant", Value::Choice(variant)).unwrap();
        timely.set("initial_rate", Value::Number(share)).unwrap();
        timely
    });
    let [first, second] = stacks;
    let mut setup = funnel.setup(first);
    setup.stacks.push(second);
    setup.workload.flows[1].stack = 1;
    let (finished, outcome) = run(setup);
    let delay = &outcome.links.last().unwrap().queue_delay_us;
    (goodputs(&finished, &outcome), delay.max, delay.mean)
}

/// TIMELY has no fixed point, because it grows at a gradient of zero (CoNEXT 2016, theorem 3): its
/// queue swings between zero and beyond its lower threshold, which leaves some of the link idle.
/// Patched TIMELY is steady and equalises shares.
#[test]
fn timely_swings_and_patched_timely_converges() {
    let (shares, max, mean) = unequal_starts("gradient", Span::ms(50));
    println!("gradient: {shares:?}, {max:.1} us at most, {mean:.1} us in the mean");
    assert!((46.0..80.0).contains(&max) && mean < max / 2.0, "{max} and {mean} us");
    assert!(shares.iter().sum::<f64>() < 0.85e10, "{shares:?}");
    let (shares, max, mean) = unequal_starts("patched", Span::ms(200));
    println!("patched: {shares:?}, {max:.1} us at most, {mean:.1} us in the mean");
    assert!(max - mean < 2.0, "{max} and {mean} us");
    let total = shares.iter().sum::<f64>();
    assert!(jain(&shares) > 0.999 && total > 0.999 * 1e10 * 1000.0 / 1080.0, "{shares:?}");
}

/// Constants of DCQCN (SIGCOMM 2015) at its defaults, times in seconds.
const CNP_INTERVAL: f64 = 50e-6;
const TIMER: f64 = 55e-6;
const G: f64 = 1.0 / 256.0;
const FAST_RECOVERY: u32 = 5;

/// Mean rate of one flow whose packets are marked with probability `p`, independently, as a share
/// of a NIC that sends `line` packets per second; by the rules of DCQCN, over about ten thousand
/// cuts.
fn rate_under_marks(p: f64, line: f64) -> f64 {
    let mut rng = Rng::stream(1, Domain::Traffic, 1);
    let counter = 10e6 / 1080.0;
    let (mut rate, mut target, mut alpha) = (0.25, 0.25, 0.2);
    let (mut sent, mut time) = (0.0, 0.0);
    for _ in 0..10_000 {
        let (mut now, mut timer, mut bytes) = (0.0, TIMER, counter);
        let (mut by_time, mut by_bytes) = (0, 0);
        // Packets until the next effective mark, after the 50 us have passed.
        let mut unmarked = rng.exponential() / p;
        let mut reacts = false;
        loop {
            let pps = rate * line;
            let next = if reacts { now + unmarked / pps } else { CNP_INTERVAL };
            let at = next.min(timer).min(now + bytes / pps);
            let packets = pps * (at - now);
            (sent, time) = (sent + packets, time + at - now);
            bytes -= packets;
            unmarked -= if reacts { packets } else { 0.0 };
            now = at;
            if at == next && reacts {
                break;
            } else if at == next {
                reacts = true;
                continue;
            }
            let (least, most): (u32, u32) = (by_time.min(by_bytes), by_time.max(by_bytes));
            if most >= FAST_RECOVERY {
                let step = if least > FAST_RECOVERY { 0.002 } else { 0.001 };
                target = f64::min(target + step, 1.0);
            }
            rate = (rate + target) / 2.0;
            if at == timer {
                (timer, by_time) = (timer + TIMER, by_time + 1);
            } else {
                (bytes, by_bytes) = (counter, by_bytes + 1);
            }
        }
        alpha *= (1.0 - G).powf((now / TIMER).floor());
        (target, rate) = (rate, rate * (1.0 - alpha / 2.0));
        alpha = (1.0 - G) * alpha + G;
    }
    sent / time / line
}

/// Excess of cuts over increases if packets are marked with probability `p`, in the fluid model of
/// DCQCN (CoNEXT 2016, equations 5 to 7 in equilibrium) with `n` flows.
fn fluid_excess(p: f64, n: f64, line: f64) -> f64 {
    let (rate, bytes, f) = (line / n, 10e6 / 1080.0, f64::from(FAST_RECOVERY));
    let none_in = |packets: f64| (1.0 - p).powf(packets);
    let alpha = 1.0 - none_in(TIMER * rate);
    let cut = 1.0 - none_in(CNP_INTERVAL * rate);
    let by_bytes = p / (1.0 / none_in(bytes) - 1.0);
    let by_time = p / (1.0 / none_in(TIMER * rate) - 1.0);
    let steps = none_in(f * bytes) * by_bytes + none_in(f * TIMER * rate) * by_time;
    // From dR_T/dt = 0: excess of the target over the rate.
    let above = 0.001 * line * rate * steps * CNP_INTERVAL / cut;
    alpha * cut / (2.0 * CNP_INTERVAL) - above / 2.0 * (by_bytes + by_time)
}

/// Zero of an increasing function of a probability.
fn crossing(excess: impl Fn(f64) -> f64) -> f64 {
    let (mut low, mut high) = (1e-6f64, 0.3f64);
    for _ in 0..16 {
        let middle = (low * high).sqrt();
        if excess(middle) < 0.0 { low = middle } else { high = middle }
    }
    low
}

/// DCQCN converges to the marking rate that keeps a flow at its share. The fluid model of CoNEXT
/// 2016 gives a quarter less, because there the next cut may follow the last one at once, whereas
/// the rules ignore marks for 50 us.
#[test]
fn dcqcn_queue_marks_at_the_rate_of_the_share() {
    for (gbps, n) in [(40, 2), (40, 8), (100, 4), (100, 16)] {
        // The run is long: 60 ms contain only about a hundred marks, and the queue has a
        // statistical error of a tenth.
        let (rate, within, warmup) = (Rate::gbps(gbps), Span::us(20), Span::ms(240));
        let funnel = Funnel { n, rate, delay: Span::us(1), mtu: 1000, within, warmup };
        let seen = funnel.run(stack("dcqcn"));
        let line = rate.as_bps() as f64 / 8.0 / 1080.0;
        let share = 1.0 / f64::from(n);
        // 5 KB at 40 Gbit/s, and 1 % of marks 195 KB above it.
        let queue = |p: f64| (5e3 + p / 0.01 * 195e3) * gbps as f64 / 40.0;
        let expected = queue(crossing(|p| share - rate_under_marks(p, line)));
        let fluid = queue(crossing(|p| fluid_excess(p, f64::from(n), line)));
        let (error, by_fluid) = (seen.queue_bytes / expected - 1.0, seen.queue_bytes / fluid);
        let case = format!(
            "{n} flows at {rate}: queue {error:+.3} off {expected:.0} B, {by_fluid:.2} of the \
             fluid's"
        );
        println!("{case}");
        assert!(error.abs() < 0.10, "{case}");
        assert!((1.0..1.35).contains(&by_fluid), "{case}");
        assert!(seen.utilisation > 0.99 && jain(&seen.goodputs) > 0.97, "{case}");
    }
}

/// The vendor's version, with rarer increases, swings from above the lower threshold (400 KB at
/// this rate) to zero, and still shares fairly.
#[test]
fn dcqcn_of_the_vendor_swings_below_its_thresholds() {
    let mut dcqcn = stack("dcqcn");
    for (name, value) in [
        ("reaction", Value::Choice("ticks")),
        ("cnp_interval", Value::Span(Span::ZERO)),
        ("alpha_interval", Value::Span(Span::us(1))),
        ("clamp_target", Value::Flag(false)),
        ("timer", Value::Span(Span::us(300))),
        ("byte_counter", Value::Extent(Extent::Bytes(0.0))),
        ("fast_recovery", Value::Integer(1)),
        ("additive", Value::Number(0.0002)),
        ("kmin", Value::Extent(Extent::Bytes(100e3))),
        ("kmax", Value::Extent(Extent::Bytes(400e3))),
        ("pmax", Value::Number(0.2)),
    ] {
        dcqcn.set(name, value).unwrap();
    }
    for n in [1, 2, 4, 8] {
        let (rate, within, warmup) = (Rate::gbps(100), Span::us(20), Span::ms(60));
        let funnel = Funnel { n, rate, delay: Span::us(1), mtu: 1000, within, warmup };
        let seen = funnel.run(dcqcn.clone());
        let jain = jain(&seen.goodputs);
        let case = format!(
            "{n} flows: queue {:.0} B, {:.4} of the link, Jain {jain:.3}",
            seen.queue_bytes, seen.utilisation
        );
        println!("{case}");
        let queue = if n == 1 { 0.0..1.0 } else { 40e3..400e3 };
        assert!(queue.contains(&seen.queue_bytes), "{case}");
        assert!(seen.utilisation > 0.98 && jain > 0.98, "{case}");
    }
}

/// DCTCP on NICs swings like DCTCP (SIGCOMM 2010, section 3.3): from `K + N` down by `√(2N (C·T +
/// K)) / 2` packets, here with windows that together exceed C·T.
#[test]
fn nic_dctcp_keeps_the_queue_near_its_threshold() {
    for (mtu, delay) in [(1000, Span::us(10)), (4096, Span::us(20))] {
        for n in [2, 4, 8, 16] {
            let (rate, within, warmup) = (Rate::gbps(100), Span::us(20), Span::ms(20));
            let funnel = Funnel { n, rate, delay, mtu, within, warmup };
            let seen = funnel.run(stack("dctcp-rate"));
            let packet = f64::from(seen.path.full_wire_bytes);
            // 30 KB per 10 Gbit/s.
            let (threshold, pipe) = (3e5 / packet, seen.path.bdp_bytes / packet);
            let flows = f64::from(n);
            let swing = (2.0 * flows * (pipe + threshold)).sqrt() / 2.0;
            let expected = threshold + flows - swing / 2.0;
            let error = seen.queue_bytes / packet - expected;
            let case = format!(
                "{n} flows, {mtu} B: {error:+.1} packets off {expected:.1}, which swing by \
                 {swing:.1}"
            );
            println!("{case}");
            assert!(error.abs() < swing / 4.0, "{case}");
            assert!(seen.utilisation > 0.99 && jain(&seen.goodputs) > 0.97, "{case}");
        }
    }
}

/// With at most five flows of one window each, windows and not marks determine the queue.
#[test]
fn windows_bound_the_queue_of_rate_controls() {
    for n in [2, 4] {
        let (rate, delay, warmup) = (Rate::gbps(100), Span::us(1), Span::ms(10));
        let funnel = Funnel { n, rate, delay, mtu: 1000, within: Span::us(20), warmup };
        for name in ["dctcp-rate", "timely"] {
            let mut windowed = stack(name);
            windowed.set("max_window", Value::Extent(Extent::Bdp(1.0))).unwrap();
            let seen = funnel.run(windowed);
            let beyond = seen.queue_bytes / seen.path.bdp_bytes - f64::from(n - 1);
            // A packet may start while any part of the window is left.
            let packets = beyond * seen.path.bdp_bytes / f64::from(n * seen.path.full_wire_bytes);
            let case = format!("{n} flows of {name}: {packets:+.2} packets a flow beyond windows");
            println!("{case}");
            assert!((0.0..1.0).contains(&packets), "{case}");
            assert!(seen.utilisation > 0.99, "{case}");
        }
    }
}

/// Go-back-N: a lost packet costs the packets that were sent until the sender knows of the loss.
/// This is a round trip and the packet that arrived in its place. If the retransmission or its
/// request is lost, too, the cost includes the 500 us after which the receiver repeats the request.
#[test]
fn go_back_n_costs_a_round_trip_per_loss() {
    let (rate, delay) = (Rate::gbps(10), Span::us(20));
    for loss in [0.0002, 0.0005, 0.001] {
        let warmup = Span::ms(100);
        let funnel = Funnel { n: 1, rate, delay, mtu: 1000, within: Span::ZERO, warmup };
        let mut open_loop = stack("open-loop");
        open_loop.set("rate", Value::Rate(rate)).unwrap();
        // Timeouts are excluded from this measurement.
        open_loop.set("min_rto", Value::Span(Span::ms(10))).unwrap();
        let goodput = |recovery| {
            let mut open_loop = open_loop.clone();
            open_loop.set("recovery", Value::Choice(recovery)).unwrap();
            let mut setup = funnel.setup(open_loop);
            setup.faults.loss = loss;
            let (finished, outcome) = run(setup);
            goodputs(&finished, &outcome)[0] / 1e10 * 1080.0 / 1000.0
        };
        // Each of two links loses packets, and as many on the way back.
        let lost = 2.0 * loss;
        let gap_us = rate.serialise(1080).as_us_f64();
        let round_trip = 4.0 * 20.0 + 2.0 * gap_us + 2.0 * rate.serialise(84).as_us_f64();
        let packets = |us: f64| us / gap_us;
        let again = 2.0 * lost * packets(500.0);
        let expected = (1.0 - lost) / (1.0 + lost * (packets(round_trip) + 1.0 + again));
        let (back, selective) = (goodput("go-back-n"), goodput("selective"));
        let case = format!(
            "loss {loss} a link: {back:.4}, expected {expected:.4}; selective {selective:.4}"
        );
        println!("{case}");
        assert!((back / expected - 1.0).abs() < 0.02, "{case}");
        assert!((selective / (1.0 - lost) - 1.0).abs() < 0.002, "{case}");
    }
}
