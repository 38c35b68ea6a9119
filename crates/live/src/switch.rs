//! Software switches: their file, their operation, and their counters.

use std::net::SocketAddrV4;
use std::path::Path;
use std::sync::atomic::AtomicBool;

use serde::Serialize;
use tidegate_results::{LinkSummary, QueueDelay, SwitchSummary};
use tidegate_scenario::{Override, SoftwareSwitch};

use tidegate_runs::Error;

/// Counters of a software switch.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct SwitchReport {
    /// Version of these keys.
    pub schema: u32,
    /// Its name.
    pub name: String,
    /// How long it ran.
    pub seconds: f64,
    /// The ports of switches.
    pub links: Vec<LinkSummary>,
    /// The switches, without percentiles of buffers.
    pub switches: Vec<SwitchSummary>,
    /// Datagrams and frames by outcome.
    pub datagrams: Datagrams,
    /// Delay between a datagram's computed departure and its handover to the kernel.
    pub late_us: QueueDelay,
    /// Problems in its environment.
    pub warnings: Vec<String>,
}

/// Datagrams or frames by outcome, except for drops at ports.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Datagrams {
    /// Received, with any outcome.
    pub received: u64,
    /// Sent.
    pub sent: u64,
    /// From unknown sources, for a host behind the same port, or link-local control frames.
    pub filtered: u64,
    /// Frames without segmentation or checksum.
    pub unfinished: u64,
    /// Longer than the largest packet.
    pub too_long: u64,
    /// Not accepted by the kernel.
    pub unsent: u64,
    /// Lost before the switch because it did not read fast enough.
    pub overrun: u64,
}

/// The address that one host uses to send to another.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SwitchPath {
    /// Sender.
    pub from: SocketAddrV4,
    /// Receiver.
    pub to: SocketAddrV4,
    /// Address of the switch to send to.
    pub at: SocketAddrV4,
}

/// The way that hosts reach a switch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SwitchEntrance {
    /// Addresses of the switch, per path.
    Paths(Vec<SwitchPath>),
    /// Network interfaces, one per host of the fabric.
    Interfaces(Vec<String>),
}

/// Callbacks and flags of a running switch.
#[derive(Clone, Copy)]
pub struct SwitchOptions<'a> {
    /// Receives the way that hosts reach the switch, once they can.
    pub listening: &'a dyn Fn(&SwitchEntrance),
    /// Receives the counters so far every second.
    pub second: Option<&'a dyn Fn(&SwitchReport)>,
    /// A flag that ends the switch when it is set.
    pub interrupted: &'a AtomicBool,
}

/// Reads a software switch's file and applies `overrides` to it.
///
/// # Errors
/// As [`load`](tidegate_runs::load).
pub fn load_switch(path: &Path, overrides: &[Override]) -> Result<SoftwareSwitch, Error> {
    tidegate_scenario::software_switch(path, overrides).map_err(Error::scenario)
}

/// Forwards until the configured duration is over or `interrupted` is set.
///
/// # Errors
/// When an address cannot be bound, an interface cannot be used or disappears, or the kernel
/// refuses a required feature.
pub fn run_switch(
    plan: &SoftwareSwitch,
    options: SwitchOptions<'_>,
) -> Result<SwitchReport, Error> {
    tidegate_runs::guarded::guarded(|| platform::run(plan, options))
}

#[cfg(not(target_os = "linux"))]
mod platform {
    use super::*;

    pub(super) fn run(_: &SoftwareSwitch, _: SwitchOptions<'_>) -> Result<SwitchReport, Error> {
        let message = "a software switch requires Linux for receive timestamps";
        Err(Error::Run(message.to_owned()))
    }
}

#[cfg(target_os = "linux")]
mod platform {
    use std::sync::atomic::Ordering;

    use tidegate_core::{Span, Time};
    use tidegate_results::Fixed;
    use tidegate_scenario::Places;
    use tidegate_switch::{self as switch, Config, Counts, Path, Report, SoftwareSwitch as AtWork};

    use super::*;
    use tidegate_runs::convert;

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
        let mut reported = Time::ZERO;
        let goes_on = |switch: &mut AtWork| {
            let now = switch.now();
            if let Some(second) = options.second
                && now >= reported + Span::s(1)
            {
                reported = now;
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
        let Counts { received, sent, filtered, .. } = *counts;
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
                filtered,
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

    /// Warning about frames that offloads changed, and the commands that prevent it.
    fn offloads(name: &str) -> String {
        format!(
            "interface {name}: frames without segmentation or checksum are dropped; turn off the \
             offloads: `ethtool -K DEVICE tso off gso off tx off` at the other end, and \
             `ethtool -K {name} gro off lro off` here"
        )
    }
}
