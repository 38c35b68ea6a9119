//! `tidegate kernel`: congestion controls in the Linux kernel.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use clap::{Args as Group, Subcommand};
use serde_json::{Map, Value, json};
use tidegate_kernel::{self as kernel, Check, Control, ControlStatus, Fabric, Loaded, PINS, Port};
use tidegate_kernel::{Params, PortStatus};
use tidegate_workbench::{ControlLoader, KernelNetwork, Plan, options};

use crate::format::digits;
use crate::grid::prose;
use crate::output::pretty;
use crate::{Error, Result, emit, print_stderr};

/// Place of what is loaded.
#[derive(Debug, Group)]
pub(crate) struct Place {
    /// Folder for pins, in a BPF file system
    #[arg(long, value_name = "DIR", default_value = PINS, hide = true)]
    pins: PathBuf,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Kernel {
    /// Load a congestion control; repeat it to change parameters
    Load {
        /// The protocol
        name: String,
        /// A parameter of the protocol, e.g. `min_cwnd=0.01`; repeatable
        #[arg(long = "param", value_name = "NAME=VALUE")]
        params: Vec<String>,
        /// Rate of the network card, or of the slowest port if that is less; sizes in BDP use it
        #[arg(long, value_name = "RATE", default_value = "10Gbps")]
        rate: String,
        /// Largest RTT between hosts, without queueing
        #[arg(long, value_name = "TIME", default_value = "50us")]
        base_rtt: String,
        /// Number of switches on a path, for Swift and θ-PowerTCP (default: 1)
        #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=64))]
        hops: Option<u32>,
        #[command(flatten)]
        place: Place,
    },
    /// Unload a control, or everything; connections continue under the default control
    Unload {
        /// The protocol (default: all, and stamping)
        name: Option<String>,
        #[command(flatten)]
        place: Place,
    },
    /// Show requirements, loaded controls, stamped queues and counters
    Status {
        /// Print JSON
        #[arg(long)]
        json: bool,
        #[command(flatten)]
        place: Place,
    },
    /// Stamp the delays of a queue of this machine into packets, as switches do
    Stamp {
        /// The interface of the queue: one end of a veth pair inside the machine
        interface: String,
        /// The other end (default: as the kernel reports it)
        #[arg(long, value_name = "INTERFACE")]
        peer: Option<String>,
        /// Network namespace of both, by its name in `ip netns`
        #[arg(long, value_name = "NAME")]
        netns: Option<String>,
        /// Rate of the queue, for hop records (default: that of its queueing discipline tbf)
        #[arg(long, value_name = "RATE")]
        rate: Option<String>,
        #[command(flatten)]
        place: Place,
    },
}

fn failed(error: kernel::Error) -> Error {
    match error.is_usage() {
        true => Error::Alone(error.to_string()),
        false => Error::Run(error.to_string()),
    }
}

fn usage(option: &'static str, message: impl Into<String>) -> Error {
    Error::Usage { option, message: message.into() }
}

/// Divides `name=value`.
fn assignment(param: &str) -> Result<(&str, &str)> {
    let (name, value) = param
        .split_once('=')
        .ok_or_else(|| usage("--param", format!("found {param:?}, expected name=value")))?;
    Ok((name.trim(), value.trim()))
}

fn control(name: &str) -> Result<Control> {
    const fn name_of(at: usize) -> &'static str {
        Control::ALL[at].protocol.info().name
    }
    const NAMES: &[&str] = &[name_of(0), name_of(1), name_of(2), name_of(3)];
    let name = options::word("NAME", name, NAMES)?;
    Ok(Control::named(name).expect("it is one of the names"))
}

impl Kernel {
    /// Executes the command and returns its output.
    pub(crate) fn run(self) -> Result<String> {
        match self {
            Kernel::Load { name, params, rate, base_rtt, hops, place } => {
                let control = control(&name)?;
                let rate = options::rate("--rate", &rate)?;
                let base_rtt = options::span("--base-rtt", &base_rtt, kernel::BASE_RTTS)?;
                let fabric = Fabric { base_rtt, rate, hops: hops.unwrap_or(1) };
                let (words, notes) = law(control, &params, &fabric, hops.is_some())?;
                let loaded = kernel::load(control, &words, &place.pins).map_err(failed)?;
                notes.iter().for_each(|note| print_stderr(note));
                let done = match loaded {
                    Loaded::New => "loaded",
                    Loaded::Updated => "was loaded; its parameters are replaced",
                };
                Ok(format!(
                    "{} {done}, for {} and a base RTT of {}\n",
                    control.name, fabric.rate, fabric.base_rtt
                ))
            }
            Kernel::Unload { name: Some(name), place } => {
                let control = control(&name)?;
                let was_loaded = kernel::unload(control, &place.pins).map_err(failed)?;
                let done = if was_loaded { "unloaded" } else { "is not loaded" };
                Ok(format!("{} {done}\n", control.name))
            }
            Kernel::Unload { name: None, place } => unload_all(&place),
            Kernel::Status { json, place } => status(json, &place),
            Kernel::Stamp { interface, peer, netns, rate, place } => {
                let rate = rate.map(|rate| options::rate("--rate", &rate)).transpose()?;
                kernel::require_stamping(&place.pins).map_err(failed)?;
                let peer = peer.map_or_else(|| kernel::peer(&interface, netns.as_deref()), Ok);
                let port = Port { interface, peer: peer.map_err(failed)?, netns };
                let rate = kernel::stamp(&port, rate, &place.pins).map_err(failed)?;
                let records = match rate {
                    Some(rate) => format!("with hop records for {rate}"),
                    None => "without hop records, which need --rate".into(),
                };
                Ok(format!("{} is stamped, {records}\n", place_of(&port)))
            }
        }
    }
}

/// The law's parameters for options of the command line, and notes about them: the queues that they
/// cause, and reasons why they are outside their design range.
fn law(
    control: Control,
    params: &[String],
    fabric: &Fabric,
    has_hops: bool,
) -> Result<(Params, Vec<String>)> {
    let mut stack = control.protocol.stack();
    let values: Vec<_> = params.iter().map(|param| assignment(param)).collect::<Result<_>>()?;
    let names: Vec<_> = values.iter().map(|(name, _)| *name).collect();
    let is_repeated = |(at, name): (usize, &&str)| names[..at].contains(name);
    if let Some(at) = names.iter().enumerate().position(is_repeated) {
        return Err(usage("--param", format!("{}: given twice; give it once", names[at])));
    }
    options::parameters("--param", &mut stack, values)?;
    let words = Control::params(&stack, fabric).map_err(|message| {
        // The defaults are refused because of the network.
        let remedy = params.is_empty().then(|| format!("; {}", remedy(control, fabric)));
        usage("--param", message + &remedy.unwrap_or_default())
    })?;
    if let Some(name) = Control::ineffective(&stack, fabric, names).first() {
        let law = control.protocol.info().name;
        let why = format!("{name}: this value does not change the law of {law}; leave it out");
        return Err(usage("--param", why));
    }
    if has_hops && !Control::depends_on_hops(&stack, fabric) {
        let why = format!("the law of {} does not use it; leave it out", control.name);
        return Err(usage("--hops", why));
    }
    let warnings = Control::warnings(&stack, fabric).map_err(|message| usage("NAME", message))?;
    let mut notes = Vec::new();
    if let Some([one, ten, most]) = Control::queues(&stack, fabric) {
        notes.push(format!(
            "a port of {} keeps a queue of {} with one flow and of {} with ten; it needs a buffer \
             for {}",
            fabric.rate, one, ten, most
        ));
    }
    if !warnings.is_empty() {
        let (reasons, remedy) = (warnings.join("; "), remedy(control, fabric));
        notes.push(format!("warning: {reasons}; {remedy}"));
    }
    Ok((words, notes))
}

/// All options that suit the network.
fn remedy(control: Control, fabric: &Fabric) -> String {
    let (rate, base_rtt) = (fabric.rate, fabric.base_rtt);
    let of = |(name, value)| format!(" --param {name}={value}");
    match control.advice(fabric) {
        Some(advice) => {
            let params: String = advice.into_iter().map(of).collect();
            format!("for --rate {rate} and --base-rtt {base_rtt} use:{params}")
        }
        None => {
            format!("no parameters in their ranges suit --rate {rate} and --base-rtt {base_rtt}")
        }
    }
}

/// Loads controls for the length of a run, in the usual place, so that `unload` finds one that a
/// killed run has left.
pub(crate) struct Loader;

impl Loader {
    fn words(plan: &Plan, network: &KernelNetwork) -> Result<Params> {
        let KernelNetwork { base_rtt, rate, hops } = *network;
        let words = Control::params(&plan.stacks[0], &Fabric { base_rtt, rate, hops });
        words.map_err(|why| Error::Scenario(format!("{}: transport.params.{why}", plan.name)))
    }

    fn status(name: &str) -> Option<ControlStatus> {
        let loaded = kernel::controls(Path::new(PINS)).ok()?;
        loaded.into_iter().flatten().find(|status| status.control.name == name)
    }

    fn control(name: &str) -> Result<Control> {
        let control = Control::ALL.into_iter().find(|control| control.name == name);
        control.ok_or_else(|| Error::Run(format!("{name}: no such congestion control")))
    }
}

impl ControlLoader for Loader {
    fn names(&self) -> Vec<&'static str> {
        Control::ALL.iter().map(|control| control.name).collect()
    }

    fn check(&self, name: &str) -> Result<()> {
        let control = Loader::control(name)?;
        kernel::require(Path::new(PINS)).map_err(failed)?;
        // Another run, or the user, may depend on the parameters of a loaded control.
        if control.is_registered() {
            return Err(Error::Run(format!(
                "{name} is loaded already, by another run or by `tidegate kernel load`; unload it \
                 with `tidegate kernel unload {}`",
                control.protocol.info().name
            )));
        }
        Ok(())
    }

    fn load(&self, name: &str, plan: &Plan, network: &KernelNetwork) -> Result<()> {
        let control = Loader::control(name)?;
        let protocol = control.protocol.info().name;
        if plan.stacks[0].protocol() != control.protocol {
            return Err(Error::Scenario(format!(
                "{}: transport.protocol: found {:?}, but {name} takes the parameters of \
                 {protocol}; add --set transport.protocol={protocol}",
                plan.name,
                plan.stacks[0].protocol().info().name
            )));
        }
        let words = Loader::words(plan, network)?;
        self.check(name)?;
        kernel::load(control, &words, Path::new(PINS)).map(drop).map_err(failed)
    }

    fn check_kept(&self, name: &str, plan: &Plan, network: &KernelNetwork) -> Result<()> {
        let words = Loader::words(plan, network)?;
        match Loader::status(name).is_some_and(|status| status.params == words) {
            true => Ok(()),
            false => Err(Error::Run(format!(
                "{}: the parameters of {name} were replaced during the run; repeat it without \
                 `tidegate kernel` beside it",
                plan.name
            ))),
        }
    }

    fn telemetry(&self, name: &str) -> Option<[u64; 2]> {
        let status = Loader::status(name)?;
        let counter = |name: &str| status.counters.iter().find(|(is, _)| *is == name);
        let acks =
            ["stamped", "unstamped"].map(|name| counter(name).map_or(0, |(_, count)| *count));
        acks.iter().any(|count| *count > 0).then_some(acks)
    }

    fn unload(&self, name: &str) {
        // A failure leaves it loaded, which the next run reports.
        if let Ok(control) = Loader::control(name) {
            let _ = kernel::unload(control, Path::new(PINS));
        }
    }
}

fn place_of(port: &Port) -> String {
    match &port.netns {
        Some(netns) => format!("{} in {netns}", port.interface),
        None => port.interface.clone(),
    }
}

/// Unloads everything that can be unloaded. A set that is not of this program, and a control that
/// was loaded elsewhere, are errors afterwards.
fn unload_all(place: &Place) -> Result<String> {
    let pins = &place.pins;
    let has_abandoned = kernel::remove_abandoned(pins).map_err(failed)?;
    let mut done = Vec::new();
    let mut errors = Vec::new();
    for port in kernel::unstamp(pins).map_err(failed)? {
        match port {
            Ok(port) => done.push(format!("{} is no longer stamped\n", place_of(&port))),
            Err(error) => errors.push(error.to_string()),
        }
    }
    for control in Control::ALL.into_iter().filter(|control| pins.join(control.name).exists()) {
        match kernel::unload(control, pins) {
            Ok(_) => done.push(format!("{} unloaded\n", control.name)),
            Err(error) => errors.push(error.to_string()),
        }
    }
    if has_abandoned {
        done.push("removed what an interrupted command has left\n".into());
    }
    match kernel::foreign(pins) {
        Ok(others) => errors.extend(others.iter().map(ToString::to_string)),
        Err(error) => errors.push(error.to_string()),
    }
    if !errors.is_empty() {
        emit(&done.concat());
        return Err(Error::Run(errors.join("; ")));
    }
    Ok(if done.is_empty() { "nothing is loaded\n".to_owned() } else { done.concat() })
}

/// State of what is loaded.
struct State {
    controls: Vec<std::result::Result<ControlStatus, kernel::Error>>,
    foreign: Vec<kernel::Error>,
    ports: Vec<std::result::Result<PortStatus, kernel::Error>>,
}

impl State {
    /// Folders and controls of other programs.
    fn errors(&self) -> Vec<String> {
        let controls = self.controls.iter().filter_map(|status| status.as_ref().err());
        let ports = self.ports.iter().filter_map(|status| status.as_ref().err());
        controls.chain(ports).chain(&self.foreign).map(ToString::to_string).collect()
    }

    fn read(place: &Place) -> Result<State> {
        Ok(State {
            controls: kernel::controls(&place.pins).map_err(failed)?,
            foreign: kernel::foreign(&place.pins).map_err(failed)?,
            ports: kernel::ports(&place.pins).map_err(failed)?,
        })
    }
}

/// Requirements, then what is loaded. Without the permission to read it, the requirements are
/// printed before the error.
fn status(json: bool, place: &Place) -> Result<String> {
    let checks = kernel::preflight(&place.pins);
    let state = State::read(place);
    let text = match json {
        true => pretty(&as_json(&checks, state.as_ref().ok())),
        false => {
            prose(&(shown_checks(&checks) + &state.as_ref().map_or_else(|_| String::new(), shown)))
        }
    };
    match state {
        Ok(_) => Ok(text),
        Err(error) => {
            emit(&text);
            Err(error)
        }
    }
}

fn counters(counters: &[(&str, u64)]) -> Map<String, Value> {
    counters.iter().map(|(name, value)| ((*name).to_owned(), json!(value))).collect()
}

/// The status as JSON; without `state`, what is loaded is null.
fn as_json(checks: &[Check], state: Option<&State>) -> Value {
    let check = |Check { name, met, found, remedy }: &Check| {
        let remedy = (*met == Some(false)).then_some(remedy);
        json!({ "name": name, "met": met, "found": found, "remedy": remedy })
    };
    let control = |status: &ControlStatus| {
        let parameters = status.control.readable(&status.params).into_iter();
        let parameters: Map<String, Value> = parameters
            .map(|(name, value, unit)| (name.into(), json!({ "value": value, "unit": unit })))
            .collect();
        json!({
            "name": status.control.name,
            "protocol": status.control.protocol.info().name,
            "parameters": parameters,
            "counters": counters(&status.counters),
        })
    };
    let port = |status: &PortStatus| {
        let Port { interface, peer, netns } = &status.port;
        json!({
            "interface": interface,
            "peer": peer,
            "netns": netns,
            "rate_bps": status.rate.map(|rate| rate.as_bps()),
            "queue_rate_bps": status.queue_rate.map(|rate| rate.as_bps()),
            "attached": status.is_attached,
            "counters": counters(&status.counters),
        })
    };
    let controls = |state: &State| state.controls.iter().flatten().map(control).collect::<Vec<_>>();
    json!({
        "requirements": checks.iter().map(check).collect::<Vec<_>>(),
        "controls": state.map(controls),
        "queues": state.map(|state| state.ports.iter().flatten().map(port).collect::<Vec<_>>()),
        "errors": state.map(State::errors),
    })
}

fn shown_checks(checks: &[Check]) -> String {
    let mut out = String::new();
    for check in checks {
        let (mark, remedy) = match check.met {
            Some(true) => ("yes", String::new()),
            Some(false) => ("NO", format!("; {}", check.remedy)),
            None => ("?", String::new()),
        };
        let _ = writeln!(out, "{:20} {mark:4} {}{remedy}", check.name, check.found);
    }
    out
}

/// Controls and queues, for people.
fn shown(state: &State) -> String {
    let mut out = String::new();
    let line = |out: &mut String, name: &str, value: &str, unit: &str| {
        let _ = writeln!(out, "  {}", format!("{name:16} {value} {unit}").trim_end());
    };
    let counters = |out: &mut String, counters: &[(&str, u64)]| {
        counters.iter().for_each(|(name, value)| line(out, name, &value.to_string(), ""));
    };
    for status in state.controls.iter().flatten() {
        let _ = writeln!(out, "{}", status.control.name);
        for (name, value, unit) in status.control.readable(&status.params) {
            // Gains are small.
            let value =
                if value > 0.0 && value < 1e-3 { format!("{value:.3e}") } else { digits(value) };
            line(&mut out, name, &value, unit);
        }
        counters(&mut out, &status.counters);
    }
    for status in state.ports.iter().flatten() {
        let detached = match status.is_attached {
            true => "",
            false => ": detached: an interface or a link was deleted; repeat `stamp`",
        };
        let _ = writeln!(out, "{}{detached}", place_of(&status.port));
        line(&mut out, "peer", &status.port.peer, "");
        let rate = status.rate.map_or("none: no hop records".into(), |rate| rate.to_string());
        let changed = status.queue_rate.filter(|now| status.rate.is_some_and(|rate| rate != *now));
        let changed = changed.map(|now| format!("; the queue now has {now}: repeat `stamp`"));
        line(&mut out, "rate", &(rate + &changed.unwrap_or_default()), "");
        counters(&mut out, &status.counters);
    }
    for error in state.errors() {
        let _ = writeln!(out, "{error}");
    }
    out
}
