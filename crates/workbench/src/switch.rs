//! Switches in software: their file, the switches at work, and what they have done.

use std::net::SocketAddrV4;
use std::path::Path;
use std::sync::atomic::AtomicBool;

use serde::Serialize;
use tidegate_results::{LinkSummary, QueueDelay, SwitchSummary};
use tidegate_scenario::{Override, SoftwareSwitch};

use crate::Error;

/// What switches in software have done.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct SwitchReport {
    /// Version of these keys.
    pub schema: u32,
    /// What it is called.
    pub name: String,
    /// How long it was there.
    pub seconds: f64,
    /// The ports of switches.
    pub links: Vec<LinkSummary>,
    /// The switches; no percentiles of buffers.
    pub switches: Vec<SwitchSummary>,
    /// What became of datagrams and frames.
    pub datagrams: Datagrams,
    /// How much later than they should datagrams were handed to the kernel.
    pub late_us: QueueDelay,
    /// What is wrong around it.
    pub warnings: Vec<String>,
}

/// Datagrams or frames, but for what the ports refused.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Datagrams {
    /// Came in, whatever became of them then.
    pub received: u64,
    /// Left.
    pub sent: u64,
    /// From no host, or for one behind the same port; frames that links keep for themselves, too.
    pub strangers: u64,
    /// Frames that are to be cut into pieces, or lack a checksum.
    pub unfinished: u64,
    /// Longer than packets can be.
    pub too_long: u64,
    /// The kernel did not take them.
    pub unsent: u64,
    /// Came faster than the switch took them in, and were lost before it.
    pub overrun: u64,
}

/// Where one host sends what is for another.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SwitchPath {
    /// Who sends.
    pub from: SocketAddrV4,
    /// For whom.
    pub to: SocketAddrV4,
    /// Where to.
    pub at: SocketAddrV4,
}

/// How hosts reach a switch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SwitchEntrance {
    /// By addresses that they send to.
    Paths(Vec<SwitchPath>),
    /// By these interfaces, one a host of its fabric.
    Interfaces(Vec<String>),
}

/// Who follows a switch at work.
#[derive(Clone, Copy)]
pub struct SwitchOptions<'a> {
    /// Hears how hosts reach it, as soon as they can.
    pub listening: &'a dyn Fn(&SwitchEntrance),
    /// Hears every second what has been done so far.
    pub second: Option<&'a dyn Fn(&SwitchReport)>,
    /// Once it is set, the switch ends.
    pub interrupted: &'a AtomicBool,
}

/// Reads the file of a switch in software and applies `overrides` to it.
///
/// # Errors
/// As [`load`](crate::load).
pub fn load_switch(path: &Path, overrides: &[Override]) -> Result<SoftwareSwitch, Error> {
    tidegate_scenario::software_switch(path, overrides).map_err(crate::scenario)
}

/// Forwards until the time of the switch is over, or somebody ends it.
///
/// # Errors
/// Where an address cannot be listened at, an interface cannot be used or goes away, or the kernel
/// refuses what is needed.
pub fn run_switch(
    plan: &SoftwareSwitch,
    options: SwitchOptions<'_>,
) -> Result<SwitchReport, Error> {
    crate::guarded(|| at_work::run(plan, options))
}

#[cfg(not(target_os = "linux"))]
mod at_work {
    use super::*;

    pub(super) fn run(_: &SoftwareSwitch, _: SwitchOptions<'_>) -> Result<SwitchReport, Error> {
        let message = "a switch in software needs Linux, whose sockets tell when datagrams came";
        Err(Error::Run(message.to_owned()))
    }
}

#[cfg(target_os = "linux")]
mod at_work {
    use std::sync::atomic::Ordering;

    use tidegate_core::{Span, Time};
    use tidegate_results::Fixed;
    use tidegate_scenario::Places;
    use tidegate_switch::{self as switch, Config, Counts, Path, Report, SoftwareSwitch as AtWork};

    use super::*;
    use crate::convert;

    const SCHEMA: u32 = 1;

    pub(super) fn run(
        plan: &SoftwareSwitch,
        options: SwitchOptions<'_>,
    ) -> Result<SwitchReport, Error> {
        let failed = |why: std::io::Error| Error::Run(format!("switch {}: {why}", plan.name));
        let mut switch = AtWork::open(&config(plan)).map_err(failed)?;
        let path = |Path { from, to, at }| SwitchPath { from, to, at };
        (options.listening)(&match &plan.places {
            Places::Addresses { .. } => {
                SwitchEntrance::Paths(switch.paths().into_iter().map(path).collect())
            }
            Places::Interfaces(names) => SwitchEntrance::Interfaces(names.clone()),
        });
        let end = plan.duration.map_or(Time::NEVER, |duration| Time::ZERO + duration);
        let mut told = Time::ZERO;
        let goes_on = |switch: &mut AtWork| {
            let now = switch.now();
            if let Some(second) = options.second
                && now >= told + Span::s(1)
            {
                told = now;
                second(&report(plan, &switch.report()));
            }
            now < end && !options.interrupted.load(Ordering::Relaxed)
        };
        switch.run(goes_on).map_err(failed)?;
        Ok(report(plan, &switch.report()))
    }

    fn config(plan: &SoftwareSwitch) -> Config {
        Config {
            fabric: plan.fabric.clone(),
            routing: plan.routing,
            places: match plan.places.clone() {
                Places::Addresses { hosts, listen } => switch::Places::Addresses { hosts, listen },
                Places::Interfaces(names) => switch::Places::Interfaces(names),
            },
            uplinks: false,
            sized: false,
            clock: None,
            seed: plan.seed,
        }
    }

    fn report(plan: &SoftwareSwitch, report: &Report) -> SwitchReport {
        let Report { seconds, ports, switches, counts, unfinished, late_us, .. } = report;
        let link = |record| convert::link_of(&plan.fabric, record, *seconds > 0.0);
        let Counts { received, sent, strangers, .. } = *counts;
        let micros = |us: f64| Fixed::nearest(us).filter(|_| sent > 0);
        SwitchReport {
            schema: SCHEMA,
            name: plan.name.clone(),
            seconds: *seconds,
            links: ports.iter().map(link).collect(),
            switches: convert::switches(&plan.fabric, switches),
            datagrams: Datagrams {
                received,
                sent,
                strangers,
                unfinished: counts.unfinished,
                too_long: counts.too_long,
                unsent: counts.unsent,
                overrun: counts.overrun,
            },
            late_us: QueueDelay {
                mean: micros(late_us.mean),
                p99: late_us.p99.and_then(micros),
                max: micros(late_us.max),
            },
            warnings: unfinished.iter().map(|name| offloads(name)).collect(),
        }
    }

    /// Whose frames are not as they would be on a wire, and what changes that.
    fn offloads(name: &str) -> String {
        format!(
            "interface {name}: frames that hardware should have cut into pieces or given a \
             checksum are dropped; `ethtool -K DEVICE tso off gso off tx off` at the other end \
             makes them whole, and `ethtool -K {name} gro off lro off` here leaves them so"
        )
    }
}
