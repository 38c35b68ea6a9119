//! Models compared with results that need no solver.

use tidegate_fluid::{
    Arrivals, Bottleneck, Feedback, Law, Model, Past, Signal, Targets, TwoHops, Windows, solve,
};

/// The example of PowerTCP's figure 3: a BDP of 250 KB.
const LINK: Bottleneck = Bottleneck { gbps: 100.0, base_rtt_us: 20.0 };
const DELAYED: Feedback = Feedback::Delayed { forward_us: 5.0 };
const LAWS: [Law; 4] = [Law::QueueLength, Law::Delay, Law::Gradient, Law::Power];

/// Initial states with and without a queue, above and below the BDP.
const STARTS: [[f64; 2]; 6] =
    [[0.0, 50.0], [0.0, 750.0], [250.0, 50.0], [250.0, 750.0], [500.0, 400.0], [100.0, 300.0]];

fn windows(law: Law) -> Windows {
    let feedback = Feedback::Instant;
    Windows { link: LINK, law, gamma: 0.9, update_us: 20.0, increase_kb: 12.5, feedback }
}

fn last<const N: usize>(model: &impl Model<N>, start: [f64; N], until_us: f64) -> [f64; N] {
    *solve(model, start, until_us, until_us).unwrap().last().unwrap()
}

fn assert_near(value: f64, expected: f64, error: f64, what: &str) {
    assert!((value - expected).abs() <= error, "{what}: {value}, not {expected}");
}

/// Theorem 2, equation 18. The delays of appendix A cancel in the window.
#[test]
fn power_window_decays_with_one_time_constant() {
    for feedback in [Feedback::Instant, DELAYED] {
        let model = Windows { feedback, ..windows(Law::Power) };
        let [_, rest] = model.equilibrium().unwrap();
        for start in STARTS {
            let states = solve(&model, start, 200.0, 1.0).unwrap();
            assert_eq!(states.len(), 201);
            for (us, [_, window]) in states.into_iter().enumerate() {
                let gone = (-(us as f64) / model.time_constant_us()).exp();
                let expected = rest + (start[1] - rest) * gone;
                assert_near(window, expected, 1e-4, &format!("{feedback:?} {start:?} {us} us"));
            }
        }
    }
}

#[test]
fn five_updates_remove_993_in_1000_at_gamma_one() {
    let model = Windows { gamma: 1.0, ..windows(Law::Power) };
    let [_, rest] = model.equilibrium().unwrap();
    let [_, window] = last(&model, [0.0, 750.0], 5.0 * model.update_us);
    let gone = 100.0 * (1.0 - (window - rest) / (750.0 - rest));
    assert_near(gone, 99.3, 0.05, "per cent");
}

/// Equations 16 and 17: near its equilibrium the queue follows the window with eigenvalues −1/θ and
/// −γ/δt. The paper has τ instead of θ, which is 1 % more here.
#[test]
fn queue_near_equilibrium_has_linear_eigenvalues() {
    let model = Windows { gamma: 1.0, update_us: 8.0, increase_kb: 2.5, ..windows(Law::Power) };
    let ([queue, window], rtt) = (model.equilibrium().unwrap(), LINK.rtt_us(2.5));
    let rate = 1.0 / model.time_constant_us();
    let off = 0.01;
    let states = solve(&model, [queue, window + off], 100.0, 1.0).unwrap();
    for (us, [now, _]) in states.into_iter().enumerate() {
        let us = us as f64;
        let shape = ((-rate * us).exp() - (-us / rtt).exp()) / (1.0 - rate * rtt);
        assert_near(now - queue, off * shape, 1e-5, &format!("{us} us"));
    }
}

/// Theorem 1 and appendix C.
#[test]
fn every_law_but_gradient_has_one_equilibrium() {
    for law in LAWS {
        for feedback in [Feedback::Instant, DELAYED] {
            let model = Windows { feedback, ..windows(law) };
            let Some(rest) = model.equilibrium() else {
                assert_eq!(law, Law::Gradient);
                continue;
            };
            assert_eq!(rest, [12.5, 262.5]);
            for start in STARTS {
                let end = last(&model, start, 8_000.0);
                for (value, expected) in end.into_iter().zip(rest) {
                    assert_near(value, expected, 1e-3, &format!("{model:?} {start:?}"));
                }
            }
        }
    }
}

#[test]
fn gradient_law_depends_on_its_initial_state() {
    let still = Windows { increase_kb: 0.0, ..windows(Law::Gradient) };
    let end = |start| last(&still, start, 2_000.0);
    let ends = STARTS.map(end);
    for (start, [queue, window]) in STARTS.iter().zip(ends) {
        // Any queue that no longer grows is an equilibrium. Below the BDP and without a queue there
        // is no signal.
        let rests =
            (window - queue - LINK.bdp_kb()).abs() < 1e-3 || (queue == 0.0 && window < 250.0);
        assert!(rests, "{start:?} to {queue} {window}");
    }
    let queues = ends.map(|[queue, _]| queue);
    let most = queues.into_iter().fold(0.0, f64::max);
    assert!(most > 100.0 && queues.contains(&0.0), "{queues:?}");
    // With an increase there is no equilibrium: the queue grows for ever.
    let growing = windows(Law::Gradient);
    let [one, two] = [1_000.0, 2_000.0].map(|us| last(&growing, [0.0, 300.0], us)[0]);
    assert!(two > one + 100.0 && one > 100.0, "{one} {two}");
}

/// With the delay of appendix C, z = w − q − bτ has z' = −z/θ − γ/δt · z(t − θ) near equilibrium,
/// which is stable up to a gain of γθ/δt = 2.26: here up to an RTT of 50 us, a queue of 377 KB.
#[test]
fn delayed_gradient_is_stable_with_short_queues_only() {
    let model = Windows { increase_kb: 0.0, feedback: DELAYED, ..windows(Law::Gradient) };
    let off = |queue: f64| {
        let states = solve(&model, [queue, queue + LINK.bdp_kb() + 0.01], 1_500.0, 1.0).unwrap();
        let off = |[queue, window]: &[f64; 2]| (window - queue - LINK.bdp_kb()).abs();
        let most = |states: &[[f64; 2]]| states.iter().map(off).fold(0.0, f64::max);
        most(&states[1_250..]) / most(&states[250..500])
    };
    let [short, long] = [330.0, 430.0].map(off);
    assert!(short < 0.5 && long > 2.0, "{short} {long}");
}

/// An empty queue stays empty until the window reaches a BDP again.
#[test]
fn empty_queue_fills_when_the_window_is_a_bdp() {
    let model = windows(Law::Power);
    let ([_, rest], start) = (model.equilibrium().unwrap(), 100.0);
    let fills = model.time_constant_us() * ((rest - start) / (rest - LINK.bdp_kb())).ln();
    let states = solve(&model, [0.0, start], 2.0 * fills, fills / 100.0).unwrap();
    for (i, [queue, _]) in states.into_iter().enumerate() {
        assert_eq!(queue > 1e-6, i > 100, "{i} per cent of the time: {queue}");
    }
}

#[test]
fn division_of_every_law() {
    let signal = |queue_kb, growth| Signal { queue_kb, growth, sent: LINK.rate() };
    let divisions = |signal| LAWS.map(|law| law.division(LINK, signal));
    assert_eq!(divisions(signal(0.0, 0.0)), [1.0; 4]);
    // Twice the BDP, and an arrival rate of twice the link's.
    assert_eq!(divisions(signal(250.0, 0.0)), [2.0, 2.0, 1.0, 2.0]);
    assert_eq!(divisions(signal(0.0, 12.5)), [1.0, 1.0, 2.0, 2.0]);
    assert_eq!(divisions(signal(250.0, 12.5)), [2.0, 2.0, 2.0, 4.0]);
}

/// Euler steps of ten nanoseconds with the whole history: slow, and independent of the solver.
fn in_small_steps<const N: usize>(
    model: &impl Model<N>,
    start: [f64; N],
    until_us: f64,
) -> [f64; N] {
    const STEP_US: f64 = 0.01;
    let mut states = vec![start];
    let ago = |states: &[[f64; N]], us: f64| {
        let steps = us / STEP_US;
        let whole = steps as usize;
        let at = |back: usize| states.len().checked_sub(1 + back).map_or(start, |i| states[i]);
        let (near, far, part) = (at(whole), at(whole + 1), steps - whole as f64);
        std::array::from_fn(|i| near[i] + part * (far[i] - near[i]))
    };
    for _ in 0..(until_us / STEP_US).round() as usize {
        let mut now = *states.last().unwrap();
        let past = match model.lags(&now) {
            None => Past { sent: now, measured: now, round: now },
            Some(lags) => {
                let [sent, measured, round] =
                    [lags.sent_us, lags.measured_us, lags.round_us].map(|us| ago(&states, us));
                Past { sent, measured, round }
            }
        };
        let change = model.derivative(&now, &past);
        for (value, change) in now.iter_mut().zip(change) {
            *value += STEP_US * change;
        }
        now[0] = now[0].max(0.0);
        states.push(now);
    }
    *states.last().unwrap()
}

#[test]
fn small_steps_agree_for_every_law_and_delay() {
    for law in LAWS {
        for feedback in [Feedback::Instant, DELAYED] {
            let model = Windows { feedback, ..windows(law) };
            for start in STARTS {
                for us in [10.0, 45.0, 150.0] {
                    let [ours, plain] =
                        [last(&model, start, us), in_small_steps(&model, start, us)];
                    for (ours, plain) in ours.into_iter().zip(plain) {
                        // A delayed gradient oscillates with growing amplitude if RTTs are long.
                        let error = match plain {
                            10_000.0.. => continue,
                            1_000.0.. => 0.05 * plain,
                            _ => 0.5,
                        };
                        assert_near(ours, plain, error, &format!("{model:?} {start:?} {us} us"));
                    }
                }
            }
        }
    }
}

#[test]
fn small_steps_agree_for_targets() {
    for (m, feedback, arrivals) in [
        (0.25, Feedback::Instant, Arrivals::Paced),
        (0.25, DELAYED, Arrivals::Paced),
        (0.5, DELAYED, Arrivals::Paced),
        (0.25, DELAYED, Arrivals::Clocked),
    ] {
        let model = Targets { m, arrivals, ..targets(20.0, 100.0, feedback) };
        // The BDP is 250 KB.
        for start in [[0.0, 50.0, 200.0], [350.0, 300.0, 300.0]] {
            for us in [20.0, 90.0] {
                let [ours, plain] = [last(&model, start, us), in_small_steps(&model, start, us)];
                for (ours, plain) in ours.into_iter().zip(plain) {
                    assert_near(ours, plain, 0.5, &format!("{model:?} {start:?} {us} us"));
                }
            }
        }
    }
}

fn targets(base_rtt_us: f64, gbps: f64, feedback: Feedback) -> Targets {
    let link = Bottleneck { gbps, base_rtt_us };
    let rates_gbps = (0.02, 200.0);
    let arrivals = Arrivals::Paced;
    Targets { link, p_us: 40.0, k_us: 2.0, m: 0.25, rates_gbps, feedback, arrivals }
}

/// Poseidon, equations 3 to 5, and the condition of fairness (equation 2).
#[test]
fn update_reduces_the_ratio_of_two_rates() {
    let model = targets(5.0, 200.0, Feedback::Instant);
    for (rate, us) in [(200.0, 2.0), (100.0, 5.010), (10.0, 15.010), (1.0, 25.010), (0.02, 42.0)] {
        assert_near(model.target_us(rate), us, 5e-4, "target");
    }
    for (delay, rate) in [(5.010, 100.0), (15.010, 10.0)] {
        assert_near(model.update(50.0, delay), (rate / 50.0f64).powf(0.25), 1e-4, "eq. 5");
    }
    for (one, other) in [(1.0f64, 100.0f64), (30.0, 40.0)] {
        for delay in [0.0, 8.0, 40.0] {
            let updated = |rate: f64| rate * model.update(rate, delay);
            let (before, after) = ((other / one).ln(), (updated(other) / updated(one)).ln());
            assert_near(after / before, 1.0 - model.m, 1e-9, "ratio in the logarithm");
        }
    }
}

#[test]
fn targets_lead_to_equal_rates() {
    let late = Feedback::Delayed { forward_us: 1.0 };
    for (feedback, arrivals) in
        [(Feedback::Instant, Arrivals::Paced), (late, Arrivals::Paced), (late, Arrivals::Clocked)]
    {
        let model = Targets { arrivals, ..targets(5.0, 200.0, feedback) };
        // The BDP is 125 KB.
        for start in [[0.0, 1.0, 100.0, 24.0], [475.0, 100.0, 100.0, 400.0]] {
            let [queue, windows @ ..] = last(&model, start, 2_000.0);
            let rest = model.equilibrium_kb(3.0);
            assert_near(queue, rest, 1e-3, &format!("{feedback:?} {start:?}"));
            let share = (rest + model.link.bdp_kb()) / 3.0;
            for window in windows {
                assert_near(window, share, 1e-3, "window");
            }
        }
    }
}

/// How much a small deviation of one flow from its equilibrium grows in 1 ms.
fn growth(model: &Targets) -> f64 {
    let rest = model.equilibrium_kb(1.0);
    let off = 1e-4 * (rest + model.link.bdp_kb());
    let start = match model.arrivals {
        Arrivals::Paced => [rest, rest + model.link.bdp_kb() + off],
        Arrivals::Clocked => [rest + off, rest + model.link.bdp_kb() + off],
    };
    let states = solve(model, start, 1_500.0, 1.0).unwrap();
    let most = |states: &[[f64; 2]]| {
        states.iter().map(|[queue, _]| (queue - rest).abs()).fold(0.0, f64::max)
    };
    most(&states[1_250..]) / most(&states[250..500])
}

/// Deviations shrink at RTTs below the bound of the linear system, and grow above.
#[test]
fn delayed_targets_are_stable_up_to_a_round_trip() {
    let late = Feedback::Delayed { forward_us: 1.0 };
    for arrivals in [Arrivals::Paced, Arrivals::Clocked] {
        for m in [0.1, 0.25, 0.5] {
            let at = |share: f64| {
                let mut model = Targets { m, arrivals, ..targets(1.0, 100.0, late) };
                let rtt_us = share * model.longest_stable_us();
                model.link.base_rtt_us = rtt_us - model.target_us(100.0);
                growth(&model)
            };
            let [short, long] = [0.9, 1.1].map(at);
            assert!(short < 0.7 && long > 1.4, "{arrivals:?}, m of {m}: {short} {long}");
        }
    }
    // With instant feedback, Poseidon's law is stable at any RTT.
    assert!(growth(&targets(60.0, 100.0, Feedback::Instant)) < 0.5);
}

/// `ω tan ω` is 1.25 for a gain of 1.45 and 1.5 for one of 1.78 (docs/theory.md). A clocked flow
/// with a small `m` has the delay of a plain integrator, π/2.
#[test]
fn stable_gains_have_known_values() {
    for (m, arrivals, gain) in [
        (0.25, Arrivals::Paced, 1.45),
        (0.5, Arrivals::Paced, 1.78),
        (1e-6, Arrivals::Clocked, std::f64::consts::FRAC_PI_2),
        (0.5, Arrivals::Clocked, 2.40),
    ] {
        let model = Targets { m, arrivals, ..targets(5.0, 200.0, Feedback::Instant) };
        // p / A is 40 us / ln(200 / 0.02).
        let found = model.longest_stable_us() * m * 1e4f64.ln() / 40.0;
        assert_near(found, gain, 5e-3, &format!("{arrivals:?}, m of {m}"));
    }
}

/// Independent of the queue.
#[test]
fn ratio_of_two_windows_decays_with_m() {
    let model = targets(8.0, 100.0, Feedback::Delayed { forward_us: 2.0 });
    let every_us = 0.05;
    let states = solve(&model, [0.0, 5.0, 90.0], 150.0, every_us).unwrap();
    let mut rounds = 0.0;
    for pair in states.windows(2) {
        let [queue, one, other] = pair[1];
        let rtt = |state: [f64; 3]| model.link.rtt_us(state[0]);
        rounds += every_us * 0.5 * (1.0 / rtt(pair[0]) + 1.0 / rtt(pair[1]));
        let expected = (90.0f64 / 5.0).ln() * (-model.m * rounds).exp();
        assert_near((other / one).ln(), expected, 1e-4, &format!("{rounds} rounds, {queue} KB"));
    }
    assert!(rounds > 8.0, "{rounds}");
}

/// From two starts, the victim has the share of the link with more flows, and the others on the
/// second link share the rest.
#[test]
fn largest_delay_of_two_hops_leads_to_max_min_shares() {
    let law = targets(8.0, 100.0, Feedback::Instant);
    for others in [[1.0, 1.0], [4.0, 4.0], [9.0, 4.0], [4.0, 9.0], [1.0, 39.0]] {
        let model = TwoHops { law, others };
        let most = f64::max(others[0], others[1]);
        let share = 100.0 / (most + 1.0);
        for start in [[0.0, 0.0, 1.0, 50.0, 50.0], [500.0, 100.0, 90.0, 10.0, 300.0]] {
            let state = last(&model, start, 20_000.0);
            let [victim, one, other] = model.rates_gbps(&state);
            assert_near(victim, share, 1e-3, &format!("victim beside {others:?}"));
            let expected = others.map(|others| (100.0 - share) / others);
            assert_near(one, expected[0], 1e-3, &format!("first link of {others:?}"));
            assert_near(other, expected[1], 1e-3, &format!("second link of {others:?}"));
            for (queue_kb, rate) in [(state[0], one), (state[1], other)] {
                let expected_kb = 12.5 * law.target_us(rate);
                assert_near(queue_kb, expected_kb, 1e-3, &format!("queue of {others:?}"));
            }
        }
    }
}

#[test]
fn models_without_solution_are_refused() {
    let nowhere =
        Windows { feedback: Feedback::Delayed { forward_us: 20.0 }, ..windows(Law::Power) };
    assert!(solve(&nowhere, [0.0, 100.0], 10.0, 1.0).is_err(), "no way back");
    assert!(solve(&windows(Law::Power), [0.0, 100.0], 0.0, 1.0).is_err(), "no time");
    let endless = Windows { update_us: 0.0, ..windows(Law::Power) };
    assert!(solve(&endless, [0.0, 100.0], 10.0, 1.0).is_err(), "an update at every moment");
}
