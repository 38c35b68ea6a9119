//! `tidegate testbed`: a scenario over UDP, or over the kernel's TCP.

use std::path::PathBuf;

use clap::Args as Group;
use tidegate_workbench::testbed::{self, Carrier};
use tidegate_workbench::{self as workbench, ControlLoader, Error, Progress, RunOptions};

use crate::engine::Threads;
use crate::interrupt::interrupt_flag;
use crate::options::{Scenario, Verbosity, dilation, folder};
use crate::output::{done, ended, json, one_run};
use crate::progress::Bars;
use crate::{Result, print_stderr, table};

/// Options of `tidegate testbed`.
#[derive(Debug, Group)]
pub(crate) struct Testbed {
    #[command(flatten)]
    scenario: Scenario,
    /// Time dilation: emulated time runs slower than the clock by this factor (default: chosen
    /// for this machine)
    #[arg(long, value_name = "N", value_parser = dilation())]
    dilation: Option<u32>,
    /// Use the kernel's TCP under this congestion control, in place of UDP and the scenario's
    /// protocol; needs root, and rates of at most some 200 Mbit/s
    #[arg(long, value_name = "CONTROL", conflicts_with = "dilation")]
    tcp: Option<String>,
    /// Write results to this folder; it is created
    #[arg(long, value_name = "DIR", value_parser = folder())]
    out: Option<PathBuf>,
    /// Replace existing results
    #[arg(long)]
    force: bool,
    /// Print JSON instead of tables
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    verbosity: Verbosity,
}

/// The path of this program, which is started for each host. The command that Python installs
/// cannot be used.
pub(crate) fn program() -> Result<PathBuf> {
    let program = std::env::current_exe().map_err(|why| Error::Run(why.to_string()))?;
    if program.file_stem().is_some_and(|stem| stem == "tidegate") {
        return Ok(program);
    }
    Err(Error::Run(format!(
        "a testbed starts the binary `tidegate` for each host, but this program is {}: rename it \
         to tidegate if it is a copy of that binary, or run `cargo build --release -p \
         tidegate-cli`",
        program.display()
    )))
}

/// The congestion controls of this build for the kernel.
pub(crate) fn controls() -> Option<&'static dyn ControlLoader> {
    #[cfg(feature = "kernel")]
    return Some(&crate::kernel::Loader);
    #[cfg(not(feature = "kernel"))]
    None
}

/// Runs a scenario on a testbed and returns the output for stdout.
pub(crate) fn testbed(args: &Testbed) -> Result<String> {
    let Testbed { scenario, dilation, tcp, out, force, json: as_json, verbosity } = args;
    if *force && out.is_none() {
        let message = "replaces results, but this run writes none: name a folder with --out";
        return Err(Error::Usage { option: "--force", message: message.to_owned() });
    }
    let mut plan = workbench::load(&scenario.path, &scenario.overrides()?)?;
    if let Some(congestion) = tcp {
        testbed::adapt(&mut plan, congestion, controls());
    }
    let program = if tcp.is_some() { PathBuf::new() } else { program()? };
    let carrier = match (tcp, dilation) {
        (Some(congestion), _) => Carrier::Tcp { congestion, loader: controls() },
        (None, Some(dilation)) => Carrier::Udp { program: &program, dilation: *dilation },
        (None, None) => {
            Carrier::Udp { program: &program, dilation: testbed::usual_dilation(&plan)? }
        }
    };
    if let Carrier::Udp { dilation, .. } = carrier
        && !verbosity.quiet
    {
        let seconds = plan.duration.as_s_f64() * f64::from(dilation);
        print_stderr(&format!(
            "{} take at least {seconds:.0} s: time is dilated by a factor of {dilation}",
            plan.duration
        ));
    }
    let bars = Bars::new(std::slice::from_ref(&plan.name), *verbosity);
    let update = |number: usize, progress: &Progress| bars.update(number, progress);
    let warn = |warning: &str| verbosity.warn(warning);
    let options = RunOptions {
        out: out.as_deref(),
        force: *force,
        resolved: verbosity.notice(),
        progress: Some(&update),
        warn: Some(&warn),
        interrupted: Some(interrupt_flag()),
        ..RunOptions::default()
    };
    let result = testbed::testbed(&plan, &options, carrier);
    bars.clear();
    let (summary, unwritten) = done(result, one_run)?;
    summary.warnings[plan.warnings.len()..].iter().for_each(|warning| warn(warning));
    let text = match as_json {
        true => json(|to| summary.write(to)),
        false => table::run(&summary, Threads::Unknown),
    };
    ended(text, unwritten, out.as_deref().filter(|_| !as_json))
}
