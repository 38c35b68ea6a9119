//! Emulates a scenario with the TCP of this machine's kernel under a named congestion control.
//!
//! Each host is a network namespace with an interface at the rate of the host's link. The switches
//! are [one software switch](tidegate_switch) between the interfaces; it writes telemetry into TCP
//! options. Each message has a connection of its own. Time is not dilated, because the kernel's
//! clock cannot be: scenarios have links of at most some 200 Mbit/s, and base RTTs of milliseconds.
//!
//! One thread has the switch, and one has the sockets of all hosts: a socket stays in the namespace
//! in which it was opened.

mod hosts;
mod namespaces;
mod sockets;

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use hdrhistogram::Histogram;
use tidegate_core::{Dilation, Rate, Span, Time};
use tidegate_results::{Fixed, RealSummary, TcpAcks};
use tidegate_runs::Error;
use tidegate_scenario::Plan;
use tidegate_switch::{Config, Places, Report, SoftwareSwitch};

use super::phases::Phases;
use super::{
    MOST_HOSTS, NOTICE, Recorded, Task, base_rtt, lateness_of, lost_in, monotonic, participants,
    spread_of,
};
use crate::{ControlLoader, KernelNetwork};
use hosts::{Flags, Hosts};
use namespaces::Network;

pub(super) fn emulate(
    task: &Task<'_>,
    congestion: &str,
    loader: Option<&dyn ControlLoader>,
) -> Result<Recorded, Error> {
    let Task { plan, control, there, .. } = *task;
    refuse_over_tcp(plan)?;
    let loaded = Loaded::new(task, congestion, loader)?;
    let failed = |why: std::io::Error| Error::Run(format!("{}: {why}", plan.name));
    let network = Network::build(plan, there).map_err(failed)?;
    if (control.is_interrupted)() {
        return Err(Error::Interrupted);
    }
    let clock = Dilation::none(monotonic());
    let config = Config {
        fabric: plan.fabric.clone(),
        routing: plan.routing,
        places: Places::Interfaces(network.interfaces()),
        uplinks: true,
        sized: false,
        clock: Some(clock),
        seed: plan.seed,
    };
    let _in_switch = network.enter_switch().map_err(failed)?;
    let mut switch = SoftwareSwitch::open(&config)
        .map_err(|why| Error::Run(format!("cannot emulate the fabric: {why}")))?;
    let hosts = Hosts::open(plan, &network, congestion, clock).map_err(failed)?;
    let _preferred = Preferred::new();
    let start = switch.now().after(clock.span(NOTICE));
    let phases = Phases { plan, start, progress: control.progress };
    let mut recorded = record(&phases, &mut switch, hosts, task, congestion)?;
    recorded.real.tcp_acks = loaded.acks();
    loaded.check_kept(plan)?;
    Ok(recorded)
}

/// Runs the switch on this thread, and the hosts on another.
fn record(
    phases: &Phases<'_>,
    switch: &mut SoftwareSwitch,
    hosts: Hosts<'_>,
    task: &Task<'_>,
    congestion: &str,
) -> Result<Recorded, Error> {
    let (start, flags) = (phases.start, Flags::default());
    let failed = |why: std::io::Error| Error::Run(format!("{}: {why}", phases.plan.name));
    std::thread::scope(|scope| {
        let flags = &flags;
        let finish = Finish(&flags.finish);
        let hosts = scope.spawn(move || {
            let _preferred = Preferred::new();
            hosts.run(start, flags)
        });
        let poll = || match (task.control.is_interrupted)() {
            true => Err(Error::Interrupted),
            // Hosts end early only with an error, which is returned below.
            false if hosts.is_finished() => Err(Error::Interrupted),
            false => Ok(()),
        };
        let ran = phases.measure(switch, task.samples, poll).and_then(|measured| {
            let is_done = || poll().map(|()| flags.done.load(Ordering::Relaxed));
            Ok((measured, phases.drain(switch, is_done)?))
        });
        drop(finish);
        let records = hosts.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        let (records, late_ns) = records.map_err(failed)?;
        let ((report, queues), drained) = ran?;
        let base_rtt = base_rtt(task.there, task.paths);
        let hosts = task.there.len();
        let real = real(congestion, hosts, base_rtt, &switch.report(), &late_ns);
        Ok(Recorded { report, queues, drained, records, real })
    })
}

/// # Errors
/// When the plan needs a feature that the kernel's TCP does not have.
fn refuse_over_tcp(plan: &Plan) -> Result<(), Error> {
    let trims = plan.fabric.switches.iter().any(|switch| switch.trimming.is_some());
    let refused = [
        (trims, "switches that trim packets (switch.trimming)"),
        (plan.weights.iter().any(|&weight| weight != 1), "weights of messages (traffic.weight)"),
        (plan.fabric.hosts.len() > MOST_HOSTS, "more than 250 hosts (fabric)"),
    ];
    match refused.iter().find(|(is_so, _)| *is_so) {
        Some((_, what)) => Err(Error::Scenario(format!(
            "{}: found {what}, which is not supported over the kernel's TCP",
            plan.name
        ))),
        None => Ok(()),
    }
}

/// Largest rate of a port that two cores carry in real time.
const USUAL_RATE: Rate = Rate::mbps(200);

/// Prepares a plan for the kernel's TCP. Unless the control is one of the loader's, results have
/// its name in place of the scenario's protocol, and that protocol's warnings are removed. Adds a
/// warning if the machine will probably be too slow.
pub fn adapt(plan: &mut Plan, congestion: &str, loader: Option<&dyn ControlLoader>) {
    if !loader.is_some_and(|loader| loader.has(congestion)) {
        let of_protocols = |warning: &str| {
            let mut names = plan.setup.stacks.iter().map(|stack| stack.protocol().info().name);
            names.any(|name| warning.starts_with(&format!("{name}: ")))
        };
        plan.warnings = plan.warnings.iter().filter(|text| !of_protocols(text)).cloned().collect();
        plan.output.carried_by = Some(congestion.to_owned());
    }
    let fastest = plan.setup.fabric.links.iter().map(|link| link.rate).max();
    if let Some(rate) = fastest.filter(|rate| *rate > USUAL_RATE) {
        plan.warnings.push(format!(
            "found links of {rate}; two cores carry some {USUAL_RATE} a port in real time: use \
             lower rates, or see in `real` whether the machine kept up"
        ));
    }
}

/// Wall-clock time of a run, with the time to set up and remove the network.
pub fn usual_time(plan: &Plan) -> Duration {
    let scenario = plan.duration.since(Time::ZERO).as_s_f64();
    Duration::from_secs_f64(scenario + 0.1 * participants(plan).len() as f64)
}

/// Checks that runs can have a congestion control.
///
/// # Errors
/// If the kernel lacks it and the loader cannot load it, or this user may not select it.
pub fn check_control(name: &str, loader: Option<&dyn ControlLoader>) -> Result<(), Error> {
    match loader.filter(|loader| loader.has(name)) {
        Some(loader) => loader.check(name),
        None => sockets::check(name, loader.map(ControlLoader::names)),
    }
}

/// A congestion control that is unloaded at the end of the run.
struct Loaded<'a>(Option<(&'a dyn ControlLoader, &'a str, KernelNetwork)>);

impl<'a> Loaded<'a> {
    fn new(
        task: &Task<'_>,
        name: &'a str,
        loader: Option<&'a dyn ControlLoader>,
    ) -> Result<Loaded<'a>, Error> {
        let Task { plan, there, paths, .. } = *task;
        let Some(loader) = loader.filter(|loader| loader.has(name)) else {
            return check_control(name, loader).map(|()| Loaded(None));
        };
        let (Some(&a), Some(&b)) = (there.first(), there.last()) else { return Ok(Loaded(None)) };
        let others = there.iter().filter(|&&host| host != a);
        let hops = others.map(|&host| paths.path(a, host).hops).max();
        let path = paths.path(a, b);
        if there
            .iter()
            .any(|&host| paths.path(host, if host == a { b } else { a }).nic_rate != path.nic_rate)
        {
            return Err(Error::Scenario(format!(
                "{}: found hosts with links of different rates, but {name} is loaded for one rate; \
                 use equal rates (fabric.host_link)",
                plan.name
            )));
        }
        let (base_rtt, rate) = (path.fabric_base_rtt, path.nic_rate);
        let network = KernelNetwork { base_rtt, rate, hops: hops.unwrap_or(1) };
        loader.load(name, plan, &network)?;
        Ok(Loaded(Some((loader, name, network))))
    }

    fn check_kept(&self, plan: &Plan) -> Result<(), Error> {
        self.0
            .as_ref()
            .map_or(Ok(()), |(loader, name, network)| loader.check_kept(name, plan, network))
    }

    fn acks(&self) -> Option<TcpAcks> {
        let (loader, name, _) = self.0?;
        let [with_telemetry, without_telemetry] = loader.telemetry(name)?;
        Some(TcpAcks { with_telemetry, without_telemetry })
    }
}

impl Drop for Loaded<'_> {
    fn drop(&mut self) {
        if let Some((loader, name, _)) = self.0 {
            loader.unload(name);
        }
    }
}

/// Ends the hosts, also after a panic: their thread would run for ever.
struct Finish<'a>(&'a AtomicBool);

impl Drop for Finish<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Gives this thread the highest priority until it is dropped: other programs on the machine must
/// not delay packets. Without the permission they do, and the lateness shows it.
struct Preferred(Option<i32>);

impl Preferred {
    fn new() -> Preferred {
        let before = rustix::process::getpriority_process(None).ok();
        let _ = rustix::process::setpriority_process(None, -20);
        Preferred(before)
    }
}

impl Drop for Preferred {
    fn drop(&mut self) {
        if let Some(before) = self.0 {
            let _ = rustix::process::setpriority_process(None, before);
        }
    }
}

/// Quality of the emulation.
fn real(
    congestion: &str,
    hosts: usize,
    base_rtt: Span,
    report: &Report,
    late_ns: &Histogram<u64>,
) -> RealSummary {
    let counts = &report.counts;
    RealSummary {
        dilation: 1,
        hosts: hosts as u32,
        datagrams: counts.received,
        lost: lost_in(counts) + counts.unfinished + counts.too_long,
        late_us: lateness_of(report),
        hosts_late_us: Some(spread_of(late_ns)),
        base_rtt_us: Fixed::nearest(base_rtt.as_us_f64()),
        tcp: Some(congestion.to_owned()),
        tcp_acks: None,
    }
}
