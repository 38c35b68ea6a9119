//! `tidegate switch`: prints the addresses that it listens on, a line per second, and a final
//! report.

use std::cell::RefCell;
use std::path::PathBuf;

use clap::Args;
use tidegate_workbench::results::LinkSummary;
use tidegate_workbench::{
    self as workbench, Datagrams, Override, SwitchEntrance, SwitchOptions, SwitchPath, SwitchReport,
};

use crate::format::{bytes, digits, micros, percent, shown};
use crate::interrupt::interrupt_flag;
use crate::output::pretty;
use crate::{Result, print_stderr, table};

/// Options of `tidegate switch`.
#[derive(Debug, Args)]
pub(crate) struct Switch {
    /// Ports, hosts and functions of the switch (TOML); see docs/switch.md
    #[arg(value_name = "FILE")]
    path: PathBuf,
    /// Stop after this time, e.g. `10s` (default: at Ctrl-C)
    #[arg(long, value_name = "TIME")]
    duration: Option<String>,
    /// Override a key of the file, e.g. `switch.buffer=100KB`; repeatable
    #[arg(long, value_name = "KEY=VALUE")]
    set: Vec<String>,
    /// Print JSON instead of tables
    #[arg(long)]
    json: bool,
    /// Print neither addresses nor the line per second
    #[arg(short, long)]
    quiet: bool,
}

impl Switch {
    /// Forwards until the duration ends or the process is interrupted.
    pub(crate) fn run(&self) -> Result<String> {
        let set = self.set.iter().map(|argument| workbench::set(argument));
        let duration = self.duration.iter();
        let duration = duration.map(|time| Ok(Override::option("--duration", "duration", time)));
        let overrides = set.chain(duration).collect::<Result<Vec<_>>>()?;
        let plan = workbench::load_switch(&self.path, &overrides)?;
        let before = RefCell::new(None);
        let second = |report: &SwitchReport| {
            let before = before.replace(Some(report.clone()));
            let known = before.as_ref().map_or(&[][..], |before| &before.warnings);
            let new = report.warnings.iter().filter(|warning| !known.contains(warning));
            new.for_each(|warning| print_stderr(&format!("warning: {warning}")));
            print_stderr(&pulse(report, before.as_ref()));
        };
        let report = workbench::run_switch(
            &plan,
            SwitchOptions {
                listening: &|entrance| {
                    if !self.quiet {
                        listening(entrance).iter().for_each(|line| print_stderr(line));
                    }
                },
                second: if self.quiet { None } else { Some(&second) },
                interrupted: interrupt_flag(),
            },
        )?;
        Ok(if self.json { pretty(&report) } else { page(&report) })
    }
}

/// Where each host sends its datagrams for the others, one line per host; or the interfaces.
fn listening(entrance: &SwitchEntrance) -> Vec<String> {
    let paths = match entrance {
        SwitchEntrance::Paths(paths) => paths,
        SwitchEntrance::Interfaces(names) => {
            return vec![format!("forwarding between {}", names.join(", "))];
        }
    };
    let of_one = |paths: &[SwitchPath]| {
        let to = paths.iter().map(|path| format!("{} for {}", path.at, path.to));
        let from = paths.first().map_or(String::new(), |path| path.from.to_string());
        format!("{from} sends to {}", to.collect::<Vec<_>>().join(", "))
    };
    paths.chunk_by(|a, b| a.from == b.from).map(of_one).collect()
}

/// The line of a second: counts since the previous report.
fn pulse(report: &SwitchReport, before: Option<&SwitchReport>) -> String {
    let since = report.seconds - before.map_or(0.0, |before| before.seconds);
    let sent = report.datagrams.sent - before.map_or(0, |before| before.datagrams.sent);
    let since_before = |of: fn(&LinkSummary) -> u64| {
        let sum = |report: &SwitchReport| report.links.iter().map(of).sum::<u64>();
        sum(report) - before.map_or(0, sum)
    };
    let drops = since_before(|link| link.drops);
    let marks = since_before(|link| link.ecn_marks);
    let trims = since_before(|link| link.trims.unwrap_or(0));
    let is_trimming = report.links.iter().any(|link| link.trims.is_some());
    let trimmed = if is_trimming { format!("{trims} trimmed, ") } else { String::new() };
    // Busy time: the utilisation since the start, times the time since the start.
    let busy = |report: &SwitchReport, port: usize| {
        report.links[port].utilization.unwrap_or(0.0) * report.seconds
    };
    let used = |port: usize| {
        (busy(report, port) - before.map_or(0.0, |before| busy(before, port))) / since
    };
    let busiest = (0..report.links.len()).max_by(|&a, &b| used(a).total_cmp(&used(b)));
    let busiest = busiest.map(|port| {
        let used = percent(Some(used(port).clamp(0.0, 1.0)));
        let (from, to) = (&report.links[port].from, &report.links[port].to);
        format!("{}->{} {used} used, ", shown(from), shown(to))
    });
    format!(
        "{:.0} s: {} datagrams/s, {}{drops} dropped, {trimmed}{marks} marked, {} late (p99)",
        report.seconds,
        digits(sent as f64 / since),
        busiest.unwrap_or_default(),
        micros(report.late_us.p99)
    )
}

/// The final report.
fn page(report: &SwitchReport) -> String {
    let Datagrams { received, sent, filtered, unfinished, too_long, unsent, overrun } =
        report.datagrams;
    let mut text = format!(
        "{}: {} s, {received} datagrams in, {sent} out\n",
        shown(&report.name),
        digits(report.seconds)
    );
    for (number, what) in [
        (filtered, "dropped: source not in the file, or no other port leads to the destination"),
        (unfinished, "dropped: unfinished checksum or segmentation"),
        (too_long, "dropped: too long"),
        (unsent, "refused by the kernel when sent"),
        (overrun, "lost in the socket buffer: the switch was too slow"),
    ] {
        if number > 0 {
            text.push_str(&format!("{number} {what}\n"));
        }
    }
    for warning in &report.warnings {
        text.push_str(&format!("Warning: {warning}\n"));
    }
    let late = &report.late_us;
    text.push_str(&format!(
        "Lateness of departures: {} on average, p99 {}, at most {}\n",
        micros(late.mean),
        micros(late.p99),
        micros(late.max)
    ));
    for switch in &report.switches {
        text.push_str(&format!(
            "Buffer of {}: {} on average, at most {}\n",
            shown(&switch.name),
            bytes(switch.buffer_bytes.mean),
            bytes(switch.buffer_bytes.max)
        ));
    }
    text.push_str("\nPorts\n");
    text.push_str(&table::link_table(&report.links.iter().collect::<Vec<_>>()));
    text
}
