//! Emulates a scenario over live UDP. Its switches are [one software switch](tidegate_switch),
//! which also emulates all links. Its hosts are processes with UDP sockets that run the transports,
//! or network namespaces with the kernel's TCP.
//!
//! With UDP, the scenario is unchanged; only the clock differs. Time passes more slowly by one
//! factor for all processes, so that they keep up: rates, delays and parameters keep their meaning,
//! and the wake-up time of a process is short compared with a round trip. The events are replayed
//! to the same measures as in a simulated run.

mod host;
mod hosts;
mod messages;
mod phases;
mod tcp;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};
use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4};
use std::path::Path;
use std::time::Duration;

use hdrhistogram::{CreationError, Histogram};
use nix::time::{ClockId, clock_gettime};
use tidegate_core::fabric::Switch;
use tidegate_core::faults::Faults;
use tidegate_core::{Dilation, HEADER_BYTES, PacketSizes, PathOracle, Span, Time};
use tidegate_endpoint::node::entropy;
use tidegate_results::{Fixed, MOST_DILATION, QueueDelay, RealSummary, Summary};
use tidegate_scenario::Plan;
use tidegate_sim::OpenRows;
use tidegate_switch::{Config, Counts, Places, Report, SoftwareSwitch};

use tidegate_runs::machine::Stopwatch;
use tidegate_runs::observe::{LiveRun, Measure, Progress, Replay, RunOutput};
use tidegate_runs::{Destination, Error, Results, RunOptions, interrupt};
use tidegate_runs::{publish, recorded};

use crate::ControlLoader;
pub use host::testbed_host;
use hosts::{HostReport, Hosts};
use messages::{FromHost, Role, ToHost};
use phases::{Phases, Queues, forward, outcome};
pub use tcp::{adapt, check_control, usual_time as tcp_time};

/// The single argument that makes a process a host.
pub const HOST_COMMAND: &str = "testbed-host";
/// Datagrams per second that the processes and a switch on two cores can send.
const DATAGRAMS: f64 = 20_000.0;
/// Minimum real time of a base RTT: a process wakes up in a few hundredths of it.
const BASE_RTT: Duration = Duration::from_millis(5);
/// Each host needs a process, and a socket of the switch.
const MOST_HOSTS: usize = 250;
/// Shorter datagrams cannot hold a session's handshake.
const LEAST_MTU: u32 = 512;
/// Time limit for hosts to become ready.
const TIMEOUT: Duration = Duration::from_secs(60);
/// Upper bound of base RTTs, in dilated time, that a session takes to open. A host opens one after
/// the other.
const SESSION_RTTS: u64 = 6;
/// Time between the announcement of the start and the start.
const NOTICE: Duration = Duration::from_millis(50);
/// Interval of polling the hosts when there is nothing else to do.
const POLL_INTERVAL: Duration = Duration::from_millis(20);

/// Carrier of the packets.
#[derive(Clone, Copy)]
pub enum Carrier<'a> {
    /// Live UDP.
    Udp {
        /// Program that becomes a host with [`HOST_COMMAND`].
        program: &'a Path,
        /// Factor by which time passes more slowly.
        dilation: u32,
    },
    /// The kernel's TCP.
    Tcp {
        /// Name of the congestion control in the kernel.
        congestion: &'a str,
        /// Loads congestion controls that the kernel lacks.
        loader: Option<&'a dyn ControlLoader>,
    },
}

/// Control of a run.
pub struct Control<'a> {
    /// Carrier of the packets.
    pub carrier: Carrier<'a>,
    /// Returns whether an interrupt was requested.
    pub is_interrupted: interrupt::InterruptCheck<'a>,
    /// Receives the progress of the run.
    pub progress: &'a dyn Fn(&Progress),
}

/// Emulates a plan under these measures.
///
/// # Errors
/// When the plan needs a feature that is only simulated, a process fails, the machine lacks a
/// congestion control, a tool or a permission, or an interrupt is requested.
pub fn emulate(
    plan: &Plan,
    measures: Vec<Box<dyn Measure>>,
    control: &Control<'_>,
) -> Result<RunOutput, Error> {
    let watch = Stopwatch::start();
    refuse(plan)?;
    let mut rows = OpenRows::new(plan.setup.clone()).map_err(Error::Run)?;
    let replay = Replay::new(plan, rows.paths(), measures)?;
    let (there, samples) = (participants(plan), replay.sample_times());
    let task = Task { plan, control, there: &there, paths: rows.paths(), samples: &samples };
    let Recorded { report, queues, drained, records, real } = match control.carrier {
        Carrier::Udp { program, dilation } => emulate_udp(&task, program, dilation)?,
        Carrier::Tcp { congestion, loader } => tcp::emulate(&task, congestion, loader)?,
    };
    if !records.iter().all(|records| rows.add(records)) {
        return Err(Error::Run("the recording of a host is invalid".to_owned()));
    }
    let (outcome, deliveries) = outcome(plan, report, rows.finish(plan.duration.after(drained)));
    replay.run(LiveRun { outcome, deliveries, queues, drained, real, watch: &watch })
}

/// A plan to be emulated.
struct Task<'a> {
    plan: &'a Plan,
    control: &'a Control<'a>,
    /// Hosts that take part.
    there: &'a BTreeSet<u32>,
    paths: &'a dyn PathOracle,
    /// Times at which queues are sampled.
    samples: &'a BTreeSet<Time>,
}

/// Records of a run.
struct Recorded {
    report: Report,
    queues: Queues,
    drained: Span,
    /// Records of each host.
    records: Vec<Vec<u8>>,
    real: RealSummary,
}

fn emulate_udp(task: &Task<'_>, program: &Path, dilation: u32) -> Result<Recorded, Error> {
    let Task { plan, control, there, paths, samples } = *task;
    let (mut emulation, mut switch) = Emulation::build(plan, there, control, program, dilation)?;
    let base_rtt = base_rtt(there, paths);
    let sessions = base_rtt.times(SESSION_RTTS * there.len() as u64);
    let patience = emulation.dilation.real(sessions);
    emulation.open(&mut switch, patience)?;
    let phases = emulation.phases();
    let (report, queues) = phases.measure(&mut switch, samples, || emulation.poll_hosts())?;
    let drained = phases.drain(&mut switch, || {
        emulation.poll_hosts()?;
        Ok(emulation.done == emulation.hosts.count())
    })?;
    let (records, hosts) = emulation.collect()?;
    let real = emulation.real(base_rtt, &switch.report(), &hosts);
    Ok(Recorded { report, queues, drained, records, real })
}

/// Emulates a plan and writes its results, if a folder is set, as [`run`](tidegate_runs::run())
/// does.
///
/// # Errors
/// As [`emulate`], and when the folder for results is occupied or cannot be written. In these cases
/// no file is left under its final name.
pub fn testbed(
    plan: &Plan,
    options: &RunOptions<'_>,
    carrier: Carrier<'_>,
) -> Result<Summary, Error> {
    tidegate_runs::guarded::guarded(|| {
        refuse(plan)?;
        let out = options.out.map(|out| Destination::open(out, options.force)).transpose()?;
        options.report_resolved(&[(&plan.name, plan)]);
        if let Some(warn) = options.warn {
            plan.warnings.iter().for_each(|warning| warn(warning));
        }
        let is_interrupted = || options.is_interrupted();
        let progress = |progress: &Progress| {
            if let Some(listener) = options.progress {
                listener(0, progress);
            }
        };
        let control = Control { carrier, is_interrupted: &is_interrupted, progress: &progress };
        let happen = |measures| emulate(plan, measures, &control);
        let (summary, kept) = recorded(plan, options, (0, out), Vec::new(), happen)?;
        match publish(kept) {
            Ok(()) => Ok(summary),
            Err(why) => Err(Error::unwritten(Results::Run(summary), why)),
        }
    })
}

/// Factor by which the time of a plan has to pass more slowly on two cores.
///
/// # Errors
/// When the plan needs a feature that is only simulated.
pub fn usual_dilation(plan: &Plan) -> Result<u32, Error> {
    refuse(plan)?;
    let rows = OpenRows::new(plan.setup.clone()).map_err(Error::Run)?;
    Ok(dilation(plan, &participants(plan), rows.paths()))
}

/// # Errors
/// When the plan needs a feature that is only simulated.
fn refuse(plan: &Plan) -> Result<(), Error> {
    let fabric = &plan.fabric;
    let pauses = fabric.switches.iter().any(|switch| switch.pausing.is_some());
    let sizes = plan.stacks.iter().any(|stack| stack.sizes() != PacketSizes::STANDARD);
    let returns = fabric.switches.iter().any(Switch::returns_to_sender);
    let refused = [
        (plan.until_done, "an end as soon as all is done (until)"),
        (plan.faults != Faults::default(), "faults (faults)"),
        (plan.stacks.len() > 1, "several protocols side by side"),
        (sizes, "packet sizes of a protocol (header_bytes, control_bytes, smallest_credit)"),
        (pauses, "switches with PFC (switch.pfc)"),
        (returns, "switches that return packets (switch.trimming.return_to_sender)"),
        (fabric.circuits.is_some(), "circuits (fabric)"),
        (fabric.servers.is_some(), "links inside of servers (hosts.server)"),
        (fabric.first_nic.is_some(), "hosts with several ports (fabric.planes)"),
        (!fabric.rate_changes.is_empty(), "links whose rate changes (fabric)"),
        (participants(plan).len() > MOST_HOSTS, "more than 250 hosts"),
        (plan.fabric.mtu < LEAST_MTU, "an MTU below 512 B (fabric.mtu)"),
        (plan.stack_time != Default::default(), "processing delays of hosts (hosts.stack_delay)"),
    ];
    match refused.iter().find(|(is_so, _)| *is_so) {
        Some((_, what)) => Err(Error::Scenario(format!(
            "{}: found {what}, which a testbed does not support; use `tidegate run` to simulate it",
            plan.name
        ))),
        None => Ok(()),
    }
}

/// The hosts that take part: those of the listed flows, or all if there is generated traffic.
fn participants(plan: &Plan) -> BTreeSet<u32> {
    if plan.workload.traffic.is_empty() {
        plan.workload.flows.iter().flat_map(|flow| [flow.src, flow.dst]).collect()
    } else {
        (0..plan.fabric.hosts.len() as u32).collect()
    }
}

/// The dilation that the machine's speed and the round-trip times require.
fn dilation(plan: &Plan, there: &BTreeSet<u32>, paths: &dyn PathOracle) -> u32 {
    let packet_bits = 8.0 * f64::from(plan.fabric.mtu + HEADER_BYTES);
    let of = |hosts: &BTreeSet<u32>| -> f64 {
        let rate = |host: &u32| {
            let other = there.iter().find(|other| *other != host).unwrap_or(host);
            paths.path(*host, *other).nic_rate.as_bps() as f64
        };
        hosts.iter().map(rate).sum()
    };
    let flows = &plan.workload.flows;
    let (from, to) = match plan.workload.traffic.is_empty() {
        true => (
            flows.iter().map(|flow| flow.src).collect(),
            flows.iter().map(|flow| flow.dst).collect(),
        ),
        false => (there.clone(), there.clone()),
    };
    // Data packets, and one acknowledgement for each.
    let packets = 2.0 * of(&from).min(of(&to)) / packet_bits;
    let slowest = BASE_RTT.as_secs_f64() / base_rtt(there, paths).as_s_f64();
    (packets / DATAGRAMS).max(slowest).clamp(1.0, f64::from(MOST_DILATION)).ceil() as u32
}

/// The largest base RTT of the fabric.
fn base_rtt(there: &BTreeSet<u32>, paths: &dyn PathOracle) -> Span {
    let mut ends = there.iter();
    match (ends.next(), ends.next_back()) {
        (Some(&a), Some(&b)) => paths.path(a, b).fabric_base_rtt,
        _ => Span::us(1),
    }
}

/// Histogram of waiting times, in nanoseconds of the run, up to one second.
fn lateness() -> Result<Histogram<u64>, CreationError> {
    Histogram::new_with_max(1_000_000_000, 2)
}

/// Effects of the machine on hosts.
struct Lateness {
    /// How long datagrams waited at hosts, in nanoseconds of the run.
    late_ns: Histogram<u64>,
    /// Datagrams lost at hosts' sockets.
    lost: u64,
}

/// The hosts of a run, and its control.
struct Emulation<'a> {
    plan: &'a Plan,
    control: &'a Control<'a>,
    hosts: Hosts,
    dilation: Dilation,
    /// Start of the run, once it is announced.
    start: Time,
    /// Number of hosts that have sessions with all others.
    ready: usize,
    /// Number of hosts whose messages have all arrived.
    done: usize,
}

impl<'a> Emulation<'a> {
    /// Starts the hosts and the switch. After this, hosts open sessions with each other.
    fn build(
        plan: &'a Plan,
        there: &BTreeSet<u32>,
        control: &'a Control<'a>,
        program: &Path,
        dilation: u32,
    ) -> Result<(Emulation<'a>, SoftwareSwitch), Error> {
        let dilation = Dilation { origin: monotonic(), factor: dilation };
        let mut key = [0; 32];
        entropy().map_err(|why| Error::Run(why.to_string()))?(&mut key);
        // As in a manifest, with the folder of the files that the scenario names.
        let folder = plan.files.folder.as_ref().map(|folder| folder.display().to_string());
        let scenario = serde_json::json!({ "folder": folder, "scenario": plan.resolved });
        let scenario = scenario.to_string();
        let role = |&host: &u32| {
            let role = Role {
                scenario: scenario.clone(),
                host,
                origin_ns: dilation.origin.as_nanos() as u64,
                dilation: dilation.factor,
                key,
            };
            (plan.fabric.hosts[host as usize].clone(), role)
        };
        let mut hosts = Hosts::start(program, there.iter().map(role))?;
        let bound = bound(&mut hosts, control)?;
        let mut receive = vec![Vec::new(); plan.fabric.hosts.len()];
        for (host, address) in there.iter().zip(&bound) {
            receive[*host as usize].push(*address);
        }
        let config = Config {
            fabric: plan.fabric.clone(),
            routing: plan.routing,
            places: Places::Addresses {
                hosts: receive,
                listen: SocketAddrV4::new(Ipv4Addr::LOCALHOST, 0),
            },
            uplinks: true,
            sized: true,
            clock: Some(dilation),
            seed: plan.seed,
        };
        let switch = SoftwareSwitch::open(&config)
            .map_err(|why| Error::Run(format!("cannot emulate the fabric: {why}")))?;
        let paths = switch.paths();
        let at: BTreeMap<_, _> = paths.iter().map(|path| (path.to, path.at)).collect();
        let mut peers = vec![None; plan.fabric.hosts.len()];
        for (host, address) in there.iter().zip(&bound) {
            peers[*host as usize] = at.get(address).map(|&at| SocketAddr::V4(at));
        }
        hosts.send_all(&ToHost::Peers(peers))?;
        let (start, ready, done) = (Time::NEVER, 0, 0);
        Ok((Emulation { plan, control, hosts, dilation, start, ready, done }, switch))
    }

    /// Waits until all hosts have sessions, and announces the start of the run.
    fn open(&mut self, switch: &mut SoftwareSwitch, patience: Duration) -> Result<(), Error> {
        let watch = Stopwatch::start();
        let most = TIMEOUT.max(patience);
        forward(switch, |_| {
            self.poll_hosts()?;
            check_timeout(&watch, most, self.control)?;
            Ok(self.ready < self.hosts.count())
        })?;
        self.start = switch.now().after(self.dilation.span(NOTICE));
        self.hosts.send_all(&ToHost::Start { at_ps: self.start.as_ps() })
    }

    /// The phases of the run after its start.
    fn phases(&self) -> Phases<'a> {
        Phases { plan: self.plan, start: self.start, progress: self.control.progress }
    }

    /// Collects the recordings of all hosts.
    fn collect(&mut self) -> Result<(Vec<Vec<u8>>, Lateness), Error> {
        self.hosts.send_all(&ToHost::Finish)?;
        let watch = Stopwatch::start();
        let mut records = Vec::new();
        let mut late_ns = lateness().map_err(|why| Error::Run(why.to_string()))?;
        let mut all_lost = 0;
        while records.len() < self.hosts.count() {
            check_timeout(&watch, TIMEOUT, self.control)?;
            if let Some((_, HostReport::Seen { bytes, late, lost })) =
                self.hosts.receive(POLL_INTERVAL)?
            {
                records.push(bytes);
                all_lost += u64::from(lost);
                late.iter().for_each(|&(ns, times)| late_ns.saturating_record_n(ns, times));
            }
        }
        Ok((records, Lateness { late_ns, lost: all_lost }))
    }

    /// Quality of the emulation.
    fn real(&self, base_rtt: Span, report: &Report, hosts: &Lateness) -> RealSummary {
        RealSummary {
            dilation: self.dilation.factor,
            hosts: self.hosts.count() as u32,
            datagrams: report.counts.received,
            lost: lost(&report.counts, hosts),
            late_us: lateness_of(report),
            hosts_late_us: Some(spread_of(&hosts.late_ns)),
            base_rtt_us: Fixed::nearest(base_rtt.as_us_f64()),
            tcp: None,
            tcp_acks: None,
        }
    }

    fn poll_hosts(&mut self) -> Result<(), Error> {
        if (self.control.is_interrupted)() {
            return Err(Error::Interrupted);
        }
        while let Some((_, report)) = self.hosts.receive(Duration::ZERO)? {
            match report {
                HostReport::Message(FromHost::Ready) => self.ready += 1,
                HostReport::Message(FromHost::Done) => self.done += 1,
                _ => {}
            }
        }
        Ok(())
    }
}

/// Mean, 99th percentile and maximum in microseconds.
fn spread_of(ns: &Histogram<u64>) -> QueueDelay {
    let us = |ns: u64| Fixed::nearest(ns as f64 / 1e3);
    QueueDelay {
        mean: Fixed::nearest(ns.mean() / 1e3),
        p99: us(ns.value_at_quantile(0.99)),
        max: us(ns.max()),
    }
}

/// Delay between the computed and the actual departure of packets from the switches.
fn lateness_of(report: &Report) -> QueueDelay {
    let late = &report.late_us;
    QueueDelay {
        mean: Fixed::nearest(late.mean),
        p99: late.p99.and_then(Fixed::nearest),
        max: Fixed::nearest(late.max),
    }
}

/// Datagrams lost by the machine, as opposed to the emulated network.
fn lost(switches: &Counts, hosts: &Lateness) -> u64 {
    lost_in(switches) + hosts.lost
}

/// Packets that the emulation of the switches lost because the machine was too slow.
fn lost_in(switches: &Counts) -> u64 {
    switches.too_fast + switches.unsent + switches.overrun
}

/// Receiving addresses of the hosts, in order, once all have reported theirs.
fn bound(hosts: &mut Hosts, control: &Control<'_>) -> Result<Vec<SocketAddrV4>, Error> {
    let watch = Stopwatch::start();
    let mut bound = BTreeMap::new();
    while bound.len() < hosts.count() {
        check_timeout(&watch, TIMEOUT, control)?;
        if let Some((host, HostReport::Message(FromHost::Bound(SocketAddr::V4(address))))) =
            hosts.receive(POLL_INTERVAL)?
        {
            bound.insert(host, address);
        }
    }
    Ok(bound.into_values().collect())
}

/// # Errors After an interrupt or a timeout.
fn check_timeout(since: &Stopwatch, most: Duration, control: &Control<'_>) -> Result<(), Error> {
    if (control.is_interrupted)() {
        return Err(Error::Interrupted);
    }
    if since.wall() > most {
        let message = "timeout: hosts of the testbed did not connect or did not answer";
        return Err(Error::Run(message.to_owned()));
    }
    Ok(())
}

fn monotonic() -> Duration {
    // Every Linux has this clock.
    clock_gettime(ClockId::CLOCK_MONOTONIC).map_or(Duration::ZERO, Duration::from)
}
