//! Progress on stderr: bars if stderr is a terminal, else one line per minute.

use std::io::{self, IsTerminal};
use std::sync::Mutex;
use std::time::Duration;

use indicatif::{MultiProgress, ProgressBar, ProgressDrawTarget, ProgressStyle};
use tidegate_workbench::{Progress, Step};

use crate::options::Verbosity;
use crate::{format, print_stderr};

/// Share of the work from which the remaining time is estimated. Earlier estimates extrapolate the
/// start of a run, whose network is still empty.
const ESTIMATED_FROM: f64 = 0.05;

/// Resolution of a bar.
const STEPS: u64 = 1000;

/// One bar per run; without a terminal, lines for all runs together.
pub(crate) enum Bars {
    Each(MultiProgress, Vec<ProgressBar>),
    Together(Total),
}

impl Bars {
    /// Creates one bar per name, at zero.
    pub(crate) fn new(names: &[String], verbosity: Verbosity) -> Bars {
        if verbosity.quiet || !io::stderr().is_terminal() {
            return Bars::Together(Total::of(names.len(), verbosity));
        }
        let all = MultiProgress::with_draw_target(ProgressDrawTarget::stderr_with_hz(10));
        let style = ProgressStyle::with_template("{prefix} [{bar:20}] {wide_msg}");
        let style = style.unwrap_or_else(|_| ProgressStyle::default_bar()).progress_chars("=> ");
        let names: Vec<String> = names.iter().map(|name| format::shown(name)).collect();
        let width = names.iter().map(|name| name.chars().count()).max().unwrap_or(0);
        let bar = |name: &String| {
            let bar = all.add(ProgressBar::new(STEPS).with_style(style.clone()));
            bar.with_prefix(format!("{name:width$}"))
        };
        let bars = names.iter().map(bar).collect();
        Bars::Each(all, bars)
    }

    /// Updates the progress of run `number`.
    pub(crate) fn update(&self, number: usize, progress: &Progress) {
        let bars = match self {
            Bars::Each(_, bars) => bars,
            Bars::Together(total) => return total.update(number, progress),
        };
        let Some(bar) = bars.get(number) else { return };
        bar.set_position((progress.share() * STEPS as f64) as u64);
        let left = time_left(progress.share(), progress.left());
        bar.set_message(format!(
            "{:.0} % of {}, {:.1} M packet-hops/s{left}",
            progress.share() * 100.0,
            progress.duration,
            progress.packet_hops_per_second() / 1e6
        ));
        if progress.now == progress.duration {
            bar.finish();
        }
    }

    /// Writes to the terminal without the bars.
    pub(crate) fn suspended(&self, write: impl FnOnce()) {
        match self {
            Bars::Each(all, _) => all.suspend(write),
            Bars::Together(_) => write(),
        }
    }

    /// Removes the bars from the screen.
    pub(crate) fn clear(&self) {
        match self {
            // A failure to clear the terminal is harmless.
            Bars::Each(all, _) => drop(all.clear()),
            Bars::Together(total) => total.clear(),
        }
    }
}

/// Interval between two lines without a bar.
const MINUTE: Duration = Duration::from_secs(60);

/// One bar for many runs together; without a terminal, one line per minute.
pub(crate) struct Total {
    /// Whether lines are written.
    has_lines: bool,
    bar: ProgressBar,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// The completed share of each run.
    shares: Vec<f64>,
    /// The time of the last line.
    last_line: Duration,
}

impl Total {
    /// Creates a bar at zero for this number of runs.
    pub(crate) fn of(runs: usize, verbosity: Verbosity) -> Total {
        let is_terminal = io::stderr().is_terminal();
        let is_bar = is_terminal && !verbosity.quiet;
        let bar = if is_bar { ProgressBar::new(STEPS) } else { ProgressBar::hidden() };
        let style = ProgressStyle::with_template("[{bar:20}] {wide_msg}");
        bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()).progress_chars("=> "));
        let state = State { shares: vec![0.0; runs], ..State::default() };
        Total { has_lines: !is_terminal && !verbosity.quiet, bar, state: Mutex::new(state) }
    }

    /// Updates the progress of run `number`.
    pub(crate) fn update(&self, number: usize, progress: &Progress) {
        let mut state = self.state.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        if let Some(share) = state.shares.get_mut(number) {
            *share = progress.share();
        }
        let all = state.shares.len();
        let done = state.shares.iter().filter(|share| **share >= 1.0).count();
        let share = state.shares.iter().sum::<f64>() / all as f64;
        self.show(&mut state, share, (done, all), "");
    }

    /// Sets the total progress, for runs that do not report their own.
    pub(crate) fn set(&self, step: &Step<'_>) {
        let mut state = self.state.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        self.show(&mut state, step.share, (step.done, step.all), &format!(": {}", step.name));
    }

    fn show(&self, state: &mut State, share: f64, (done, all): (usize, usize), last: &str) {
        let elapsed = self.bar.elapsed();
        let text = format!("{}{last}", line(share, (done, all), elapsed));
        self.bar.set_position((share * STEPS as f64) as u64);
        self.bar.set_message(text.clone());
        if self.has_lines && elapsed - state.last_line >= MINUTE {
            state.last_line = elapsed;
            print_stderr(&text);
        }
    }

    /// Removes the bar from the screen.
    pub(crate) fn clear(&self) {
        self.bar.finish_and_clear();
    }
}

/// `3 of 8 runs, 1:05, 2:10 left`
fn line(share: f64, (done, all): (usize, usize), elapsed: Duration) -> String {
    let left = elapsed.as_secs_f64() * (1.0 - share) / share;
    let left = Duration::try_from_secs_f64(left).ok().filter(|_| share < 1.0);
    let left = time_left(share, left);
    let done = match all {
        1 => format!("{:.0} %", share * 100.0),
        _ => format!("{done} of {all} runs"),
    };
    format!("{done}, {}{left}", format::clock(elapsed))
}

/// `, 2:10 left`; empty without an estimate, or if too little is done for one.
fn time_left(share: f64, left: Option<Duration>) -> String {
    let left = left.filter(|_| share >= ESTIMATED_FROM);
    left.map_or_else(String::new, |left| format!(", {} left", format::clock(left)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn line_share_and_time_left() {
        let line = |share, done, all| line(share, (done, all), Duration::from_secs(60));
        assert_eq!(line(0.25, 0, 1), "25 %, 1:00, 3:00 left");
        assert_eq!(line(0.5, 3, 8), "3 of 8 runs, 1:00, 1:00 left");
        assert_eq!(line(1.0, 8, 8), "8 of 8 runs, 1:00");
        assert_eq!(line(0.0, 0, 8), "0 of 8 runs, 1:00", "no estimate");
        assert_eq!(line(0.02, 0, 1), "2 %, 1:00", "too early for an estimate");
        assert_eq!(time_left(0.02, Some(Duration::ZERO)), "");
    }
}
