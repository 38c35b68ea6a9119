//! The command line of tidegate: arguments in, tables or JSON out. Everything else is the
//! workbench's.
//!
//! A library, so that more than one program can be this command: the binary, and what Python
//! installs.

mod aggregate;
mod args;
mod commands;
mod engine;
mod format;
mod grid;
mod jobs;
mod man;
#[cfg(target_os = "linux")]
mod net;
mod page;
mod progress;
mod reproduce;
mod sweep;
mod switch;
mod table;
#[cfg(target_os = "linux")]
mod testbed;

use std::ffi::OsString;
use std::io::{self, Write};
#[cfg(unix)]
use std::sync::Arc;
use std::time::Duration;

use clap::Parser;
#[cfg(unix)]
use signal_hook::{consts::SIGXFSZ, flag::register};
use tidegate_workbench::{Error, Ranks};

/// One of several processes that has failed ends so long after the one that says why.
const LAST_WORD: Duration = Duration::from_millis(500);

/// The git revision that the program is built from.
pub const REVISION: &str = env!("TIDEGATE_GIT_REVISION");

/// Does what the arguments ask for, the first of which is the program's name; the exit status.
pub fn main(args: impl IntoIterator<Item = OsString>) -> u8 {
    tidegate_workbench::set_revision(REVISION);
    survive_full_files();
    let args = match args::Args::try_parse_from(args::rejoined(args.into_iter())) {
        Ok(args) => args,
        Err(error) => {
            // Help and the version come this way too. A closed pipe is no reason to complain.
            let _ = error.print();
            return if error.use_stderr() { 2 } else { 0 };
        }
    };
    let (answers, result) = match join_others() {
        Ok(None) => (true, commands::run(args.command)),
        Ok(Some(ranks)) => commands::run_among(args.command, ranks),
        Err(error) => (true, Err(error)),
    };
    match result {
        Ok(text) => emit(&text),
        Err(error) => {
            if answers {
                complain(&format!("tidegate: {error}"));
            } else {
                // Who starts processes ends all as soon as one fails.
                std::thread::sleep(LAST_WORD);
            }
            error.exit_code()
        }
    }
}

/// The processes that this one was launched with; `None` if it runs alone.
fn join_others() -> Result<Option<Ranks>> {
    #[cfg(feature = "mpi")]
    return Ok(
        tidegate_mpi::join(commands::interrupt_flag).map(|group| Ranks::new(Box::new(group)))
    );
    #[cfg(not(feature = "mpi"))]
    Ranks::refuse_others().map(|()| None)
}

/// A write beyond the limit on the size of files (`ulimit -f`) is to fail like any other that finds
/// no room, so that the run ends with a message and leaves nothing half-written. Unless somebody
/// takes the signal, it ends the process where it is.
fn survive_full_files() {
    #[cfg(unix)]
    if let Err(error) = register(SIGXFSZ, Arc::default()) {
        complain(&format!(
            "warning: a limit on the size of files will end the run at once: {error}"
        ));
    }
}

/// Writes the answer to stdout, and returns the exit status. Whoever reads it may stop early.
fn emit(text: &str) -> u8 {
    let mut stdout = io::stdout().lock();
    match stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush()) {
        Ok(()) => 0,
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => 0,
        Err(error) => {
            complain(&format!("tidegate: stdout: {error}"));
            1
        }
    }
}

/// Writes a line to stderr, if there is anybody there.
fn complain(line: &str) {
    let _ = writeln!(io::stderr(), "{}", format::shown(line));
}

/// What the facade returns.
type Result<T> = std::result::Result<T, Error>;
