//! States over time.
//!
//! By the fifth-order method of Dormand and Prince with an error of 10⁻⁹ a step. Delays are looked
//! up in what was solved so far, between steps by its dense output; before the start everything was
//! as it is there. The right side jumps where a queue runs empty, and where it fills again: a step
//! over that place is refused for its error until it ends there, and no step is longer than the
//! model allows, so that none leaps over a whole idle time.

use std::fmt;

use differential_equations::dde::DDE;
use differential_equations::ivp::IVP;
use differential_equations::methods::ExplicitRungeKutta;
use differential_equations::ode::ODE;

/// Differential equations of `N` numbers, the first of which is a queue in KB.
pub trait Model<const N: usize> {
    /// No step may be longer, in microseconds: less than the shortest delay.
    fn longest_step_us(&self) -> f64;
    /// How long ago the states were that count now; nothing where that is now.
    fn lags(&self, now: &[f64; N]) -> Option<Lags>;
    /// Change a microsecond.
    fn derivative(&self, now: &[f64; N], past: &Past<N>) -> [f64; N];
}

/// Delays in microseconds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Lags {
    /// What arrives at the bottleneck now was sent so long ago.
    pub sent_us: f64,
    /// What is heard of now was measured so long ago.
    pub measured_us: f64,
    /// And sent so long ago.
    pub round_us: f64,
}

/// The states of these moments.
#[derive(Clone, Copy, Debug)]
pub struct Past<const N: usize> {
    /// When what arrives now was sent.
    pub sent: [f64; N],
    /// When what is heard of now was measured.
    pub measured: [f64; N],
    /// When that was sent.
    pub round: [f64; N],
}

/// Why a model could not be followed to the end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NoSolution(String);

impl fmt::Display for NoSolution {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the model has no solution: {}", self.0)
    }
}

impl std::error::Error for NoSolution {}

/// Relative error of a step, and in KB.
const ERROR: f64 = 1e-9;

/// So many of the longest steps are looked back at most: what is further is an error.
const HISTORY: f64 = 500.0;

/// The states from `start` on, `every_us` up to `until_us`, the start among them.
///
/// # Errors
/// When times are not above zero, a delay is longer than 500 of the longest steps, or a state stops
/// being a number.
pub fn solve<const N: usize>(
    model: &impl Model<N>,
    start: [f64; N],
    until_us: f64,
    every_us: f64,
) -> Result<Vec<[f64; N]>, NoSolution> {
    let step_us = model.longest_step_us();
    if ![step_us, until_us, every_us].iter().all(|us| us.is_finite() && *us > 0.0) {
        return Err(NoSolution("a time is not above zero".to_owned()));
    }
    let count = (until_us / every_us + 1e-9) as usize;
    let times: Vec<f64> = (0..=count).map(|i| (i as f64 * every_us).min(until_us)).collect();
    // Most steps are as long as they may be, and a few are tried several times where it jumps.
    let steps = 1_000 + 100 * (until_us / step_us) as usize;
    let equations = Equations(model);
    // The two kinds of equations have types of their own all the way.
    macro_rules! method {
        () => {
            ExplicitRungeKutta::dopri5().rtol(ERROR).atol(ERROR).h_max(step_us).max_steps(steps)
        };
    }
    let solution = if model.lags(&start).is_some() {
        let problem = IVP::dde(&equations, 0.0, until_us, start, |_| start).t_eval(times);
        problem.method(method!().max_delay(HISTORY * step_us)).solve()
    } else {
        IVP::ode(&equations, 0.0, until_us, start).t_eval(times).method(method!()).solve()
    };
    let mut states = solution.map_err(|error| NoSolution(format!("{error:?}")))?.y;
    if !states.iter().flatten().all(|value| value.is_finite()) {
        return Err(NoSolution("a state is no number".to_owned()));
    }
    // By no more than the error of a step.
    states.iter_mut().for_each(|state| state[0] = state[0].max(0.0));
    Ok(states)
}

/// A model as the solver wants it.
struct Equations<'a, M>(&'a M);

impl<const N: usize, M: Model<N>> ODE<f64, [f64; N]> for Equations<'_, M> {
    fn diff(&self, _us: f64, now: &[f64; N], change: &mut [f64; N]) {
        let past = Past { sent: *now, measured: *now, round: *now };
        *change = self.0.derivative(now, &past);
    }
}

impl<const N: usize, M: Model<N>> DDE<3, f64, [f64; N]> for Equations<'_, M> {
    fn diff(&self, _us: f64, now: &[f64; N], past: &[[f64; N]; 3], change: &mut [f64; N]) {
        let [sent, measured, round] = *past;
        *change = self.0.derivative(now, &Past { sent, measured, round });
    }

    fn lags(&self, _us: f64, now: &[f64; N], lags: &mut [f64; 3]) {
        if let Some(Lags { sent_us, measured_us, round_us }) = self.0.lags(now) {
            *lags = [sent_us, measured_us, round_us];
        }
    }
}
