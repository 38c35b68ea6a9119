//! Congestion controls of RDMA networks against what their papers and fluid models compute of them:
//! queues, shares and how fast these settle.
mod common;

use common::*;
use tidegate_algos::Stack;
use tidegate_core::params::Value;
use tidegate_core::{Domain, Extent, Path, Rate, Rng, Span, Time};
use tidegate_sim::{Engine, Setup};

/// One link that `n` unlimited flows share, each from a host of its own.
struct Funnel {
    n: u32,
    rate: Rate,
    delay: Span,
    mtu: u32,
    /// Flows start within this.
    within: Span,
    /// Measured from here on, for as long once more.
    settled: Span,
}

/// What was made of the link.
struct Seen {
    path: Path,
    /// In bit/s, of every flow.
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
        let warmup = Time::ZERO + self.settled;
        let mut setup = setup(fabric, stack, flows, warmup + self.settled);
        setup.warmup = warmup;
        // As it asks for, in proportion to rates.
        let bdp = Engine::new(setup.clone(), ()).unwrap().paths().path(0, self.n).bdp_bytes;
        let ecn = wanted(&setup).ecn.map(|marking| marking.settled(bdp));
        setup.fabric.switches[0].ecn = ecn;
        setup
    }

    fn run(&self, stack: Stack) -> Seen {
        let setup = self.setup(stack);
        let end = setup.duration;
        let mut engine = Engine::new(setup, ()).unwrap();
        let path = engine.paths().path(0, self.n);
        engine.advance(end);
        let mut outcome = engine.finish().unwrap();
        let finished = std::mem::take(&mut outcome.finished);
        let link = outcome.links.last().expect("the switch's side of the last link");
        Seen {
            path,
            queue_bytes: link.queue_bytes.mean,
            utilisation: link.utilisation,
            goodputs: goodputs(&finished, &outcome),
        }
    }
}

/// θ-PowerTCP (NSDI 2022, appendix B): at rest power is `θ / τ`, so the queue is Σβ as under
/// PowerTCP. Each flow may add half a packet: queues move by whole ones.
#[test]
fn theta_powertcp_leaves_a_queue_of_the_sum_of_its_betas() {
    for (mtu, delay) in [(1000, Span::us(1)), (4096, Span::us(3))] {
        for n in [1, 2, 4, 16] {
            for sum in [0.2, 0.5, 1.0] {
                let (rate, settled) = (Rate::gbps(100), Span::ms(4));
                let funnel = Funnel { n, rate, delay, mtu, within: Span::us(20), settled };
                let mut theta = stack("theta-powertcp");
                // Two flows with a Σβ of a BDP have a window of one each: the cap must not bind.
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

/// What Algorithm 2 says to the letter does not come to rest from a start of many at once; half a
/// pipe of growth for each of its swings is what `gradient_floor` takes away.
#[test]
fn theta_powertcp_needs_a_floor_of_its_derivative() {
    let queue = |floor: f64| {
        let (rate, delay) = (Rate::gbps(100), Span::us(1));
        let settled = Span::ms(4);
        let funnel = Funnel { n: 16, rate, delay, mtu: 1000, within: Span::us(20), settled };
        let mut theta = stack("theta-powertcp");
        theta.set("gradient_floor", Value::Number(floor)).unwrap();
        let seen = funnel.run(theta);
        seen.queue_bytes / seen.path.bdp_bytes
    };
    let (with, without) = (queue(0.5), queue(0.0));
    assert!(with < 0.3 && without > 5.0, "{with:.2} and {without:.2} BDP");
}

/// Patched TIMELY (CoNEXT 2016, section 4.3): at rest `rtt = T_low · (1 + δ / (β · R))` with `R` the
/// share of each, whatever they start from.
#[test]
fn patched_timely_rests_at_its_reference() {
    for (gbps, mtu) in [(10, 1000), (100, 1000), (100, 4096)] {
        for n in [2, 4, 8, 16] {
            let (rate, within, settled) = (Rate::gbps(gbps), Span::us(20), Span::ms(40));
            let funnel = Funnel { n, rate, delay: Span::us(1), mtu, within, settled };
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

/// Two flows that begin with shares of 0.7 and 0.3: the shares after so many milliseconds, and the
/// largest and the mean delay of the queue in microseconds.
fn unequal_starts(variant: &'static str, settled: Span) -> (Vec<f64>, f64, f64) {
    let (rate, delay) = (Rate::gbps(10), Span::us(1));
    let funnel = Funnel { n: 2, rate, delay, mtu: 1000, within: Span::us(1), settled };
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
    let (finished, outcome) = run(setup, ());
    let delay = &outcome.links.last().unwrap().queue_delay_us;
    (goodputs(&finished, &outcome), delay.max, delay.mean)
}

/// TIMELY has no fixed point, for it grows at a gradient of zero (CoNEXT 2016, theorem 3): its queue
/// swings between nothing and beyond its lower threshold, which leaves some of the link idle. The patched
/// one keeps still and makes shares equal.
#[test]
fn timely_swings_and_the_patched_one_rests() {
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
