//! Packet simulations compared with the differential equations of their protocols.

use crate::common::*;
use tidegate_core::params::Value;
use tidegate_core::{Extent, Rate, Span, Time};
use tidegate_fluid::{Arrivals, Bottleneck, Feedback, Targets, solve};
use tidegate_sim::{Quantity, Sample};

const RATE: Rate = Rate::gbps(100);
/// Time at which the second flow joins the first, which is in equilibrium by then.
const JOINS: Time = Time::ms(2);

/// Windows of two flows and the queue of their link, in bytes.
struct Moment {
    windows: [f64; 2],
    queue: f64,
}

/// Samples every `every` for `times` times while a second flow with a window of `part` of a BDP
/// joins the first. Also returns the base RTT in microseconds.
fn joined(m: f64, part: f64, every: Span, times: u64) -> (Vec<Moment>, f64) {
    let mut poseidon = stack("poseidon");
    poseidon.set("m", Value::Number(m)).unwrap();
    poseidon.set("initial_window", Value::Extent(Extent::Bdp(part))).unwrap();
    let fabric = star(3, RATE, Span::us(2), 1000);
    let flows = vec![unlimited(0, 2, Time::ZERO), unlimited(1, 2, JOINS)];
    let end = JOINS + every.times(times);
    let mut engine = unobserved(setup(fabric, poseidon, flows, end), 1).unwrap();
    let base_rtt_us = engine.paths().path(0, 2).base_rtt.as_us_f64();
    let mut samples: Vec<Sample> = Vec::new();
    for i in 1..=times {
        engine.advance(JOINS + every.times(i));
        engine.sample(&mut samples).unwrap();
    }
    let port = (engine.finish().unwrap().links.len() - 1) as u64;
    let moments = samples.chunk_by(|one, other| one.at == other.at).map(|samples| {
        let value = |quantity, entity| {
            let is_meant =
                |sample: &&Sample| (sample.quantity, sample.entity) == (quantity, entity);
            samples.iter().find(is_meant).map_or(0.0, |sample| sample.value)
        };
        let windows = [0, 1].map(|flow| value(Quantity::WindowBytes, flow));
        Moment { windows, queue: value(Quantity::QueueBytes, port) }
    });
    (moments.collect(), base_rtt_us)
}

/// Decrease of the logarithm of the ratio of two windows per round trip, measured between two
/// fractions of its initial value.
fn closing(moments: &[Moment], link: Bottleneck, every_us: f64) -> f64 {
    let ratio = |moment: &Moment| (moment.windows[0] / moment.windows[1]).ln();
    let initial = ratio(&moments[0]);
    let (mut rounds, mut points) = (0.0, Vec::new());
    for moment in moments {
        let left = ratio(moment) / initial;
        if left < 0.15 {
            break;
        }
        points.push((rounds, left.ln()));
        rounds += every_us / link.rtt_us(moment.queue / 1e3);
    }
    let n = points.len() as f64;
    let (x, y) = points.iter().fold((0.0, 0.0), |sum, point| (sum.0 + point.0, sum.1 + point.1));
    let (x, y) = (x / n, y / n);
    let over = |of: fn(f64, f64) -> f64| -> f64 {
        points.iter().map(|point| of(point.0 - x, point.1 - y)).sum()
    };
    -over(|x, y| x * y) / over(|x, _| x * x)
}

/// The logarithm of the ratio of two windows decreases by the factor `m` per round trip, whatever
/// the queue does, and rests where the model does. A fluid is updated continuously. Packets raise a
/// window by `U − 1` spread over its acknowledgements, which from a ratio of three is up to 1.15
/// times as fast, and cut it by `U` once per round trip. The tolerance is a quarter, so the
/// tolerance ranges of different `m` do not overlap.
#[test]
fn poseidon_windows_converge_as_its_fluid_does() {
    let every = Span::us(1);
    for m in [0.1, 0.25, 0.5] {
        let (moments, base_rtt_us) = joined(m, 0.5, every, 1_500);
        let link = Bottleneck { gbps: RATE.as_gbps_f64(), base_rtt_us };
        let packets = closing(&moments, link, every.as_us_f64());

        let feedback = Feedback::Delayed { forward_us: base_rtt_us / 4.0 };
        let rates_gbps = (0.02, 200.0);
        let arrivals = Arrivals::Paced;
        let model = Targets { link, p_us: 40.0, k_us: 2.0, m, rates_gbps, feedback, arrivals };
        let first = &moments[0];
        let start = [first.queue, first.windows[0], first.windows[1]].map(|bytes| bytes / 1e3);
        let states = solve(&model, start, 1_500.0, 1.0).unwrap();
        let fluid: Vec<Moment> = states
            .into_iter()
            .map(|state| state.map(|kb| 1e3 * kb))
            .map(|[queue, one, other]| Moment { windows: [one, other], queue })
            .collect();
        let modelled = closing(&fluid, link, 1.0);

        let queues = moments[1_200..].iter().map(|moment| moment.queue / 1e3);
        let least = queues.clone().fold(f64::INFINITY, f64::min);
        let most = queues.clone().fold(0.0, f64::max);
        let queue = queues.clone().sum::<f64>() / queues.count() as f64;
        let expected = model.equilibrium_kb(2.0);
        let fluids = fluid[1_200..].iter().map(|moment| moment.queue / 1e3);
        let below = fluids.clone().fold(f64::INFINITY, f64::min);
        let above = fluids.fold(0.0, f64::max);
        let case = format!(
            "m of {m}: {packets:.3} a round trip, the model {modelled:.3}; queue {queue:.1} KB \
             ({least:.1} to {most:.1}), the model {expected:.1} KB ({below:.1} to {above:.1})"
        );
        println!("{case}");
        assert!((modelled / m - 1.0).abs() < 0.02, "{case}");
        // With clocked arrivals the model rests, also where paced flows oscillate.
        let model = Targets { arrivals: Arrivals::Clocked, ..model };
        let windows = [start[1], start[2]];
        let at_start = windows[0] + windows[1] - link.bdp_kb();
        let states = solve(&model, [at_start, windows[0], windows[1]], 1_500.0, 1.0).unwrap();
        for [queue, _, _] in &states[1_200..] {
            assert!((queue / expected - 1.0).abs() < 0.01, "m of {m}, clocked: {queue:.1} KB");
        }
        assert!((packets / modelled - 1.0).abs() < 0.25, "{case}");
        // As for single fixed points (theory.rs).
        assert!((queue / expected - 1.0).abs() < 0.10, "{case}");
    }
}
