//! Integration of states over time.
//!
//! The solver uses the fifth-order method of Dormand and Prince with an error of 10⁻⁹ per step.
//! Delayed states are looked up in the solution so far, between steps by dense output. Before the
//! start all states equal the initial state. The right-hand side is discontinuous where a queue
//! becomes empty and where it fills again. A step over such a point is refused because of its
//! error, until a step ends there. The model bounds the step length, so no step skips a whole idle
//! period.

use std::fmt;

use differential_equations::dde::DDE;
use differential_equations::ivp::IVP;
use differential_equations::methods::ExplicitRungeKutta;
use differential_equations::ode::ODE;

/// Differential equations of `N` variables, the first of which is a queue in KB.
pub trait Model<const N: usize> {
    /// Longest step in microseconds; less than the shortest delay.
    fn longest_step_us(&self) -> f64;
    /// Delays of the past states that determine the present change; `None` if there are no delays.
    fn lags(&self, now: &[f64; N]) -> Option<Lags>;
    /// Change per microsecond.
    fn derivative(&self, now: &[f64; N], past: &Past<N>) -> [f64; N];
}

/// Delays in microseconds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Lags {
    /// Time since the bytes that arrive at the bottleneck now were sent.
    pub sent_us: f64,
    /// Time since the values that senders receive now were measured.
    pub measured_us: f64,
    /// Time since the bytes to which these values refer were sent.
    pub round_us: f64,
}

/// States at these times.
#[derive(Clone, Copy, Debug)]
pub struct Past<const N: usize> {
    /// When the bytes that arrive now were sent.
    pub sent: [f64; N],
    /// When the values that senders receive now were measured.
    pub measured: [f64; N],
    /// When the bytes to which these values refer were sent.
    pub round: [f64; N],
}

/// Failure to integrate a model to the end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NoSolution(String);

impl fmt::Display for NoSolution {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the model has no solution: {}", self.0)
    }
}

impl std::error::Error for NoSolution {}

/// Relative error of a step, and absolute error in KB.
const ERROR: f64 = 1e-9;

/// Maximum delay, in longest steps. Longer delays are an error.
const HISTORY: f64 = 500.0;

/// Returns the states from `start` on, every `every_us` up to `until_us`, including the start.
///
/// # Errors
/// If a time is not above zero, a delay is longer than 500 of the longest steps, or a state becomes
/// infinite or NaN.
pub fn solve<const N: usize>(
    model: &impl Model<N>,
    start: [f64; N],
    until_us: f64,
    every_us: f64,
) -> Result<Vec<[f64; N]>, NoSolution> {
    let step_us = model.longest_step_us();
    if ![step_us, until_us, every_us].iter().all(|us| us.is_finite() && *us > 0.0) {
        return Err(NoSolution("step, end and interval must be above zero and finite".to_owned()));
    }
    let count = (until_us / every_us + 1e-9) as usize;
    let times: Vec<f64> = (0..=count).map(|i| (i as f64 * every_us).min(until_us)).collect();
    // Most steps have the maximum length, and a few are retried several times at discontinuities.
    let steps = 1_000 + 100 * (until_us / step_us) as usize;
    let equations = Equations(model);
    // The two kinds of equations have separate types throughout.
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
        return Err(NoSolution("a state became infinite or NaN".to_owned()));
    }
    // This changes the queue by no more than the error of a step.
    states.iter_mut().for_each(|state| state[0] = state[0].max(0.0));
    Ok(states)
}

/// Adapter of a model for the solver.
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
