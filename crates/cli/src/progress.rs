//! Progress bars on stderr, where that is a terminal.

use std::io::{self, IsTerminal};

use indicatif::{MultiProgress, ProgressBar, ProgressDrawTarget, ProgressStyle};
use tidegate_workbench::Progress;

use crate::format;

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
