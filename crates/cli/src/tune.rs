//! `tidegate tune`: the Python package searches, because Optuna is a Python library.

use std::ffi::OsString;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use clap::Args as Group;
use tidegate_workbench::{Error, SEMANTICS};

use crate::options::{CacheArgs, THREADS_MAX, Verbosity, folder, name, whole};
use crate::{REVISION, Result};

/// Options of `tidegate tune`.
#[derive(Debug, Group)]
pub(crate) struct Tune {
    /// Scenario file (TOML)
    #[arg(value_name = "SCENARIO")]
    path: PathBuf,
    /// Protocols, separated by commas, or `all` for every protocol that can run the scenario; each
    /// gets the same share of the budget
    #[arg(
        long, value_name = "A,B,…", value_delimiter = ',', required = true,
        value_parser = name
    )]
    protocols: Vec<String>,
    /// `min METRIC` or `max METRIC`, e.g. `min slowdown_p99`, with ` of LABEL` for one label;
    /// repeatable (several objectives give a Pareto front)
    #[arg(long, value_name = "OBJECTIVE", required = true)]
    objective: Vec<String>,
    /// A bound on a metric: a number (`drops <= 0`), or a factor of the best value among candidates
    /// (`goodput >= 0.95 best`); repeatable
    #[arg(long, value_name = "BOUND")]
    subject_to: Vec<String>,
    /// Number of candidates of all protocols together
    #[arg(long, value_name = "N", default_value = "100")]
    #[arg(value_parser = whole::<1, 1_000_000, u64>, allow_negative_numbers = true)]
    budget: u64,
    /// Search these parameters only, e.g. `poseidon.p,sird.budget` (default: the numeric ones that
    /// only few protocols have)
    #[arg(long, value_name = "A,B,…", value_delimiter = ',')]
    params: Vec<String>,
    /// Range of a parameter, e.g. `poseidon.p=10us..80us`; repeatable (default: an eighth to eight
    /// times its default)
    #[arg(long, value_name = "KEY=LOW..HIGH")]
    range: Vec<String>,
    /// Run every candidate under each of these values of a key, e.g. `traffic.0.load=0.5,0.8`, and
    /// use the mean; repeatable (all combinations are run)
    #[arg(long, value_name = "KEY=VALUES")]
    over: Vec<String>,
    /// Override a key of the scenario; repeatable
    #[arg(long, value_name = "KEY=VALUE")]
    set: Vec<String>,
    /// Number of seeds of each candidate
    #[arg(long, value_name = "N", default_value = "2")]
    #[arg(value_parser = whole::<1, 1_000, u64>, allow_negative_numbers = true)]
    seeds: u64,
    /// First run each candidate for an Nth of the measured time, and end it if it is worse than the
    /// median there (default: full runs only)
    #[arg(long, value_name = "N")]
    #[arg(value_parser = whole::<2, 1_000, u64>, allow_negative_numbers = true)]
    short_runs: Option<u64>,
    /// Number of other seeds that choose among the finalists, and of further ones for the result
    #[arg(long, value_name = "N", default_value = "5")]
    #[arg(value_parser = whole::<2, 1_000, u64>, allow_negative_numbers = true)]
    final_seeds: u64,
    /// Seed of the search
    #[arg(long, value_name = "N", default_value = "1")]
    #[arg(value_parser = whole::<0, 4_294_967_295, u64>, allow_negative_numbers = true)]
    search_seed: u64,
    /// Maximum number of threads (default: one per core)
    #[arg(long, value_name = "N")]
    #[arg(value_parser = whole::<1, THREADS_MAX, u16>, allow_negative_numbers = true)]
    threads: Option<u16>,
    /// Write results, scenarios with the parameters found, and a page to this folder; an
    /// interrupted search continues there
    #[arg(long, value_name = "DIR", value_parser = folder())]
    out: Option<PathBuf>,
    /// Replace existing results in the folder
    #[arg(long, requires = "out")]
    force: bool,
    /// Print JSON instead of a table
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    kept: CacheArgs,
    /// Print no progress and no warnings
    #[arg(short, long)]
    quiet: bool,
}

/// Starts a search. Until it handles Ctrl-C, the signal ends the interpreter.
const START: &str = "\
import signal, sys
signal.signal(signal.SIGINT, signal.SIG_DFL)
from tidegate._tune.command import main
sys.exit(main(sys.argv[1]))";

/// The Python interpreter; the command of the Python package sets it.
const PYTHON: &str = "TIDEGATE_PYTHON";

/// Runs `tidegate tune`. The interpreter takes the place of this process, which ends with its exit
/// status.
pub(crate) fn tune(args: &Tune) -> Result<String> {
    let python = std::env::var_os(PYTHON).unwrap_or_else(|| OsString::from("python3"));
    let verbosity = Verbosity { quiet: args.quiet, verbose: false };
    check(&python, verbosity)?;
    let cache = args.kept.folder(verbosity)?;
    let options = serde_json::json!({
        "scenario": args.path,
        "protocols": args.protocols,
        "objective": args.objective,
        "subject_to": args.subject_to,
        "budget": args.budget,
        "params": (!args.params.is_empty()).then_some(&args.params),
        "ranges": args.range,
        "over": args.over,
        "set": args.set,
        "seeds": args.seeds,
        "short_runs": args.short_runs,
        "final_seeds": args.final_seeds,
        "search_seed": args.search_seed,
        "threads": args.threads,
        "out": args.out,
        "force": args.force,
        "json": args.json,
        "quiet": args.quiet,
        "cache": cache.map_or(serde_json::Value::Bool(false), |cache| {
            cache.display().to_string().into()
        }),
    });
    let mut search = Command::new(&python);
    search.args(["-c", START, &options.to_string()]);
    let error = replaced(&mut search);
    Err(Error::Run(format!("{}: {error}", python.display())))
}

/// Returns only if the command cannot be started.
fn replaced(command: &mut Command) -> std::io::Error {
    #[cfg(unix)]
    return std::os::unix::process::CommandExt::exec(command);
    #[cfg(not(unix))]
    match command.status() {
        Ok(status) => std::process::exit(status.code().unwrap_or(1)),
        Err(error) => error,
    }
}

/// Prints the version, the revision and the semantics of the Python package, or `null` if it is too
/// old to have them. The package needs the search's libraries.
const VERSIONS: &str = "\
import json, tidegate._tune.run, optuna, scipy
print(json.dumps(getattr(tidegate._native, 'versions', lambda: None)()))";

/// Checks that the interpreter has the Python package, in a state like this program's, and the
/// search's libraries.
fn check(python: &OsString, verbosity: Verbosity) -> Result<()> {
    let found = Command::new(python).args(["-c", VERSIONS]).stdin(Stdio::null()).output();
    let why = match found {
        Ok(output) if output.status.success() => {
            return match serde_json::from_slice(&output.stdout) {
                Ok(package) => check_versions(python, package, verbosity),
                Err(why) => Err(Error::Run(format!("tune: {}: {why}", python.display()))),
            };
        }
        Ok(output) => {
            let text = String::from_utf8_lossy(&output.stderr).into_owned();
            text.lines().last().unwrap_or("it failed").to_owned()
        }
        Err(error) => error.to_string(),
    };
    Err(Error::Run(format!(
        "tune: {} cannot search ({why}): install the Python package with its extra `tune` (`pip \
         install '.[tune]'` in the repository), and set {PYTHON} if another interpreter has it",
        python.display()
    )))
}

/// Refuses a package whose runs have other outcomes than those of this program. A warning names one
/// of another revision.
fn check_versions(
    python: &OsString,
    package: Option<(String, String, u32)>,
    verbosity: Verbosity,
) -> Result<()> {
    let own = (env!("CARGO_PKG_VERSION"), REVISION, SEMANTICS);
    let python = python.display();
    let install = "install the Python package of this program (`pip install '.[tune]'` in its \
                   repository)";
    let Some((version, revision, semantics)) = package else {
        return Err(Error::Run(format!(
            "tune: the Python package of {python} is older than this program; {install}, or set \
             {PYTHON} to an interpreter that has it"
        )));
    };
    if semantics != own.2 {
        return Err(Error::Run(format!(
            "tune: the Python package of {python} has semantics {semantics}, and this program has \
             {}: their runs differ; {install}, or set {PYTHON} to an interpreter that has it",
            own.2
        )));
    }
    // Development builds have no revision.
    let is_known = ![&*revision, own.1].contains(&"unknown");
    if version != own.0 || is_known && revision != own.1 {
        verbosity.warn(&format!(
            "tune: the Python package of {python} has version {version}, revision {revision}, and \
             this program has {}, {}; {install}",
            own.0, own.1
        ));
    }
    Ok(())
}
