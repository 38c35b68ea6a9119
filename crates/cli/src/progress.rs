//! Progress on stderr: bars where that is a terminal, else a line now and then.

use std::io::{self, IsTerminal};
use std::sync::Mutex;
use std::time::Duration;

use indicatif::{MultiProgress, ProgressBar, ProgressDrawTarget, ProgressStyle};
use tidegate_workbench::{Progress, Step};

use crate::{complain, format};

/// Steps of a bar.
const STEPS: u64 = 1000;

/// One bar a run.
pub(crate) struct Bars {
    shown: bool,
    all: MultiProgress,
    bars: Vec<ProgressBar>,
}

impl Bars {
    /// Bars at zero, one a name.
    pub(crate) fn new(names: &[String]) -> Bars {
        let shown = io::stderr().is_terminal();
        let target = if shown {
            ProgressDrawTarget::stderr_with_hz(10)
        } else {
            ProgressDrawTarget::hidden()
        };
        let all = MultiProgress::with_draw_target(target);
        let style = ProgressStyle::with_template("{prefix} [{bar:30}] {msg}");
        let style = style.unwrap_or_else(|_| ProgressStyle::default_bar()).progress_chars("=> ");
        let names: Vec<String> = names.iter().map(|name| format::shown(name)).collect();
        let width = names.iter().map(|name| name.chars().count()).max().unwrap_or(0);
        let bar = |name: &String| {
            let bar = all.add(ProgressBar::new(STEPS).with_style(style.clone()));
            bar.with_prefix(format!("{name:width$}"))
        };
        let bars = names.iter().map(bar).collect();
        Bars { shown, all, bars }
    }

    /// Whether anybody sees them.
    pub(crate) fn are_shown(&self) -> bool {
        self.shown
    }

    /// Run `number` is so far.
    pub(crate) fn tell(&self, number: usize, progress: &Progress) {
        let Some(bar) = self.bars.get(number) else { return };
        bar.set_position((progress.share() * STEPS as f64) as u64);
        let left = progress
            .left()
            .map(|left| format!(", {} left", format::clock(left)))
            .unwrap_or_default();
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

    /// Takes them off the screen.
    pub(crate) fn clear(&self) {
        // Nothing depends on whether the terminal took it.
        let _ = self.all.clear();
    }
}

/// Time between two lines where there is no bar.
const MINUTE: Duration = Duration::from_secs(60);

/// One bar for many runs together; where nobody sees it, a line a minute.
pub(crate) struct Total {
    is_seen: bool,
    bar: ProgressBar,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// How far each run is.
    shares: Vec<f64>,
    /// When the last line was written.
    told: Duration,
}

impl Total {
    /// A bar at zero for so many runs.
    pub(crate) fn of(runs: usize) -> Total {
        let is_seen = io::stderr().is_terminal();
        let bar = if is_seen { ProgressBar::new(STEPS) } else { ProgressBar::hidden() };
        let style = ProgressStyle::with_template("[{bar:30}] {msg}");
        bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()).progress_chars("=> "));
        let state = State { shares: vec![0.0; runs], ..State::default() };
        Total { is_seen, bar, state: Mutex::new(state) }
    }

    /// Run `number` is so far.
    pub(crate) fn hear(&self, number: usize, progress: &Progress) {
        let mut state = self.state.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        if let Some(share) = state.shares.get_mut(number) {
            *share = progress.share();
        }
        let all = state.shares.len();
        let done = state.shares.iter().filter(|share| **share >= 1.0).count();
        let share = state.shares.iter().sum::<f64>() / all as f64;
        self.say(&mut state, share, (done, all), "");
    }

    /// So many runs are done, of which the bar hears nothing else.
    pub(crate) fn tell(&self, step: &Step<'_>) {
        let mut state = self.state.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        self.say(&mut state, step.share, (step.done, step.all), &format!(": {}", step.name));
    }

    fn say(&self, state: &mut State, share: f64, (done, all): (usize, usize), last: &str) {
        let elapsed = self.bar.elapsed();
        let left = elapsed.as_secs_f64() * (1.0 - share) / share;
        let left = Duration::try_from_secs_f64(left).ok().filter(|_| share < 1.0);
        let left = left.map_or_else(String::new, |left| format!(", {} left", format::clock(left)));
        let elapsed_text = format::clock(elapsed);
        let text = format!("{done} of {all} runs, {elapsed_text}{left}{last}");
        self.bar.set_position((share * STEPS as f64) as u64);
        self.bar.set_message(text.clone());
        if !self.is_seen && elapsed - state.told >= MINUTE {
            state.told = elapsed;
            complain(&text);
        }
    }

    /// Takes it off the screen.
    pub(crate) fn clear(&self) {
        self.bar.finish_and_clear();
    }
}
