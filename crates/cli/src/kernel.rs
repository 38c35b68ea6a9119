//! `tidegate kernel`: congestion controls in the Linux kernel.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use clap::{Args as Group, Subcommand};
use serde_json::{Map, Value, json};
use tidegate_kernel::{self as kernel, Control, Fabric, Loaded, PINS, Port};
use tidegate_workbench::{ControlLoader, KernelNetwork, Plan, options};

use crate::format::digits;
use crate::output::pretty;
use crate::{Error, Result};

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
        /// Rate of the network card; sizes in BDP use it
        #[arg(long, value_name = "RATE", default_value = "10Gbps")]
        rate: String,
        /// Largest RTT between hosts, without queueing
        #[arg(long, value_name = "TIME", default_value = "50us")]
        base_rtt: String,
        /// Number of switches on a path
        #[arg(long, value_name = "N", default_value_t = 1)]
        hops: u32,
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
        /// The other end (default: as the kernel reports it, without --netns)
        #[arg(long, value_name = "INTERFACE")]
        peer: Option<String>,
        /// Network namespace of both, by its name in `ip netns`
        #[arg(long, value_name = "NAME", requires = "peer")]
        netns: Option<String>,
        /// Rate of the queue, for hop records
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
    Control::named(name).ok_or_else(|| {
        let names = Control::ALL.map(|control| control.protocol.info().name);
        usage("NAME", format!("found {name:?}, expected one of {}", names.join(", ")))
    })
}

impl Kernel {
    /// Executes the command and returns its output.
    pub(crate) fn run(self) -> Result<String> {
        match self {
            Kernel::Load { name, params, rate, base_rtt, hops, place } => {
                let control = control(&name)?;
                let mut stack = control.protocol.stack();
                let values = params.iter().map(|param| assignment(param));
                let values: Vec<_> = values.collect::<Result<_>>()?;
                options::parameters("--param", &mut stack, values)?;
                let rate = options::rate("--rate", &rate)?;
                let base_rtt = options::interval("--base-rtt", &base_rtt)?;
                let fabric = Fabric { base_rtt, rate, hops };
                let words = Control::params(&stack, &fabric)
                    .map_err(|message| usage("--param", message))?;
                let loaded = kernel::load(control, &words, &place.pins).map_err(failed)?;
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
                kernel::unload(control, &place.pins).map_err(failed)?;
                Ok(format!("{} unloaded\n", control.name))
            }
            Kernel::Unload { name: None, place } => unload_all(&place),
            Kernel::Status { json: true, place } => Ok(pretty(&status(&place)?)),
            Kernel::Status { json: false, place } => shown(&place),
            Kernel::Stamp { interface, peer, netns, rate, place } => {
                let rate = rate.map(|rate| options::rate("--rate", &rate));
                let peer = peer.map_or_else(|| kernel::peer(&interface), Ok).map_err(failed)?;
                let port = Port { interface, peer, netns };
                kernel::stamp(&port, rate.transpose()?, &place.pins).map_err(failed)?;
                Ok(format!("{} is stamped\n", place_of(&port)))
            }
        }
    }
}

/// Loads controls for the length of a run, in the usual place, so that `unload` finds one that a
/// killed run has left.
pub(crate) struct Loader;

impl Loader {
    fn control(name: &str) -> Option<Control> {
        Control::ALL.into_iter().find(|control| control.name == name)
    }
}

impl ControlLoader for Loader {
    fn has(&self, name: &str) -> bool {
        Loader::control(name).is_some()
    }

    fn load(&self, name: &str, plan: &Plan, network: &KernelNetwork) -> Result<()> {
        let unknown = || Error::Run(format!("{name}: no such congestion control"));
        let control = Loader::control(name).ok_or_else(unknown)?;
        let protocol = control.protocol.info().name;
        if plan.stacks[0].protocol() != control.protocol {
            return Err(Error::Scenario(format!(
                "{}: transport.protocol: found {:?}, but {name} takes the parameters of \
                 {protocol}; add --set transport.protocol={protocol}",
                plan.name,
                plan.stacks[0].protocol().info().name
            )));
        }
        let KernelNetwork { base_rtt, rate, hops } = *network;
        let words = Control::params(&plan.stacks[0], &Fabric { base_rtt, rate, hops });
        let words = words.map_err(|why| Error::Run(format!("{name}: {why}")))?;
        // Another run, or the user, may depend on the parameters of a loaded control.
        let loaded = kernel::controls(Path::new(PINS)).map_err(failed)?;
        if loaded.iter().any(|status| status.control == control) {
            return Err(Error::Run(format!(
                "{name} is loaded already, by another run or by `tidegate kernel load`; unload it \
                 with `tidegate kernel unload {protocol}`"
            )));
        }
        kernel::load(control, &words, Path::new(PINS)).map(drop).map_err(failed)
    }

    fn unload(&self, name: &str) {
        // A failure leaves it loaded, which the next run reports.
        if let Some(control) = Loader::control(name) {
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

fn unload_all(place: &Place) -> Result<String> {
    let mut out = String::new();
    for status in kernel::controls(&place.pins).map_err(failed)? {
        kernel::unload(status.control, &place.pins).map_err(failed)?;
        let _ = writeln!(out, "{} unloaded", status.control.name);
    }
    for port in kernel::unstamp(&place.pins).map_err(failed)? {
        let _ = writeln!(out, "{} is no longer stamped", place_of(&port));
    }
    Ok(if out.is_empty() { "nothing is loaded\n".to_owned() } else { out })
}

/// The status as JSON.
fn status(place: &Place) -> Result<Value> {
    let map = |counters: &[(&str, u64)]| {
        counters.iter().map(|(name, value)| ((*name).to_owned(), json!(value))).collect()
    };
    let checks: Vec<_> = kernel::preflight(&place.pins)
        .into_iter()
        .map(|check| json!({ "name": check.name, "met": check.met, "found": check.found }))
        .collect();
    let controls = kernel::controls(&place.pins).map_err(failed)?;
    let controls: Vec<_> = controls
        .iter()
        .map(|status| {
            let counters: Map<String, Value> = map(&status.counters);
            let protocol = status.control.protocol.info().name;
            let parameters = status.control.readable(&status.params);
            let parameters: Map<String, Value> = parameters
                .into_iter()
                .map(|(name, value, unit)| (name.into(), json!({ "value": value, "unit": unit })))
                .collect();
            json!({
                "name": status.control.name,
                "protocol": protocol,
                "parameters": parameters,
                "counters": counters,
            })
        })
        .collect();
    let ports = kernel::ports(&place.pins).map_err(failed)?;
    let ports: Vec<_> = ports
        .iter()
        .map(|status| {
            let counters: Map<String, Value> = map(&status.counters);
            let Port { interface, peer, netns } = &status.port;
            json!({ "interface": interface, "peer": peer, "netns": netns, "counters": counters })
        })
        .collect();
    Ok(json!({ "requirements": checks, "controls": controls, "queues": ports }))
}

/// The status for people.
fn shown(place: &Place) -> Result<String> {
    let mut out = String::new();
    let counters = |out: &mut String, counters: &[(&str, u64)]| {
        for (name, value) in counters.iter().filter(|(_, value)| *value > 0) {
            let _ = writeln!(out, "  {name:16} {value}");
        }
    };
    for check in kernel::preflight(&place.pins) {
        let remedy = if check.met { String::new() } else { format!("; {}", check.remedy) };
        let mark = if check.met { "yes" } else { "NO" };
        let _ = writeln!(out, "{:20} {mark:4} {}{remedy}", check.name, check.found);
    }
    for status in kernel::controls(&place.pins).map_err(failed)? {
        let _ = writeln!(out, "{}", status.control.name);
        for (name, value, unit) in status.control.readable(&status.params) {
            // Gains are small.
            let value =
                if value > 0.0 && value < 1e-3 { format!("{value:.3e}") } else { digits(value) };
            let _ = writeln!(out, "  {}", format!("{name:16} {value} {unit}").trim_end());
        }
        counters(&mut out, &status.counters);
    }
    for status in kernel::ports(&place.pins).map_err(failed)? {
        let _ = writeln!(out, "{}", place_of(&status.port));
        counters(&mut out, &status.counters);
    }
    Ok(out)
}
