//! `tidegate testbed`: a scenario with real packets.

use std::path::PathBuf;

use clap::Args as Group;
use tidegate_workbench::testbed::{self, MOST_DILATION};
use tidegate_workbench::{self as workbench, Error, Progress, RunOptions};

use crate::args::{Scenario, Voice, folder};
use crate::commands::{done, ended, interrupt_flag, json, one_run};
use crate::engine::Threads;
use crate::progress::Bars;
use crate::{Result, complain, table};

/// Which scenario, and how its hosts and switches act it out.
#[derive(Debug, Group)]
pub(crate) struct Testbed {
    #[command(flatten)]
    scenario: Scenario,
    /// Let time pass so many times more slowly than clocks (default: as slow as this machine
    /// needs it)
    #[arg(
        long, value_name = "N",
        value_parser = clap::value_parser!(u32).range(1..=i64::from(MOST_DILATION))
    )]
    dilation: Option<u32>,
    /// Write results to this folder, which is created
    #[arg(long, value_name = "DIR", value_parser = folder())]
    out: Option<PathBuf>,
    /// Replace what is already where results go
    #[arg(long)]
    force: bool,
    /// Print JSON instead of tables
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    voice: Voice,
}

/// This program, to start it again as a host: not the command that Python installs.
pub(crate) fn program() -> Result<PathBuf> {
    let program = std::env::current_exe().ok();
    let is_ours = |path: &PathBuf| path.file_stem().is_some_and(|stem| stem == "tidegate");
    program.filter(is_ours).ok_or_else(|| {
        let why = "a testbed starts this program again for each host, which has to be the binary \
                   `tidegate`: cargo build --release -p tidegate-cli";
        Error::Run(why.to_owned())
    })
}

/// Acts it out, and returns what goes to stdout.
pub(crate) fn testbed(args: &Testbed) -> Result<String> {
    let Testbed { scenario, dilation, out, force, json: as_json, voice } = args;
    if scenario.several_seeds().is_some() {
        let message = "a testbed acts out one seed; start it again for others".to_owned();
        return Err(Error::Usage { option: "--seeds", message });
    }
    if *force && out.is_none() {
        let message = "replaces results, and none are written; name a folder with --out";
        return Err(Error::Usage { option: "--force", message: message.to_owned() });
    }
    let plan = workbench::load(&scenario.path, &scenario.overrides()?)?;
    let program = program()?;
    let dilation = match dilation {
        Some(dilation) => *dilation,
        None => testbed::usual_dilation(&plan)?,
    };
    if !voice.quiet {
        let seconds = plan.duration.as_s_f64() * f64::from(dilation);
        complain(&format!(
            "{} pass in {seconds:.0} s and more: time goes {dilation} times slower than clocks",
            plan.duration
        ));
    }
    let bars = Bars::new(std::slice::from_ref(&plan.name), *voice);
    let tell = |number: usize, progress: &Progress| bars.tell(number, progress);
    let warn = |warning: &str| voice.warn(warning);
    let options = RunOptions {
        out: out.as_deref(),
        force: *force,
        resolved: voice.teller(),
        progress: Some(&tell),
        warn: Some(&warn),
        interrupted: Some(interrupt_flag()),
        ..RunOptions::default()
    };
    let result = testbed::testbed(&plan, &options, &program, dilation);
    bars.clear();
    let (summary, unwritten) = done(result, one_run)?;
    summary.warnings[plan.warnings.len()..].iter().for_each(|warning| warn(warning));
    let text = match as_json {
        true => json(|to| summary.write(to)),
        false => table::run(&summary, Threads::Unsaid),
    };
    ended(text, unwritten, out.as_deref().filter(|_| !as_json))
}
