//! The command line of tidegate: it parses arguments and prints tables or JSON. The workbench does
//! everything else.
//!
//! It is a library because two programs use it: the binary, and the command of the Python package.

mod aggregate;
mod args;
mod bundle;
mod commands;
mod engine;
mod follow;
mod format;
mod grid;
mod interrupt;
mod jobs;
#[cfg(all(feature = "kernel", target_os = "linux"))]
mod kernel;
mod man;
#[cfg(target_os = "linux")]
mod net;
mod options;
mod output;
mod page;
mod progress;
mod reproduce;
mod style;
mod sweep;
mod switch;
mod table;
#[cfg(target_os = "linux")]
mod testbed;
mod tune;
mod workload;
mod worst;

use std::ffi::OsString;
use std::io::{self, Write};
#[cfg(unix)]
use std::sync::Arc;
use std::time::Duration;

#[cfg(unix)]
use signal_hook::{consts::SIGXFSZ, flag::register};
use tidegate_workbench::{Error, Ranks};

/// Delay before a failed rank exits, so that the first rank can print the error.
const EXIT_DELAY: Duration = Duration::from_millis(500);

/// The git revision that the program is built from.
pub const REVISION: &str = env!("TIDEGATE_GIT_REVISION");

/// Runs the command that the arguments name and returns the exit status. The first argument is the
/// name of the program.
pub fn main(args: impl IntoIterator<Item = OsString>) -> u8 {
    tidegate_workbench::set_revision(REVISION);
    survive_full_files();
    let args = match args::Args::parsed(args::rejoined(args.into_iter()), grid::width()) {
        Ok(args) => args,
        Err(error) => {
            // clap returns help and version as errors, too. A closed pipe is not an error.
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
                print_error(&error);
            } else {
                // The launcher (mpirun) ends all processes as soon as one fails.
                std::thread::sleep(EXIT_DELAY);
            }
            error.exit_code()
        }
    }
}

/// The processes that this one was launched with; `None` if it runs alone.
fn join_others() -> Result<Option<Ranks>> {
    #[cfg(feature = "mpi")]
    return Ok(
        tidegate_mpi::join(interrupt::interrupt_flag).map(|group| Ranks::new(Box::new(group)))
    );
    #[cfg(not(feature = "mpi"))]
    Ranks::refuse_group().map(|()| None)
}

/// Handles SIGXFSZ, so that a write beyond the file size limit (`ulimit -f`) fails like a write to
/// a full disk: the run ends with an error and leaves no partial file. Without a handler, the
/// signal kills the process.
fn survive_full_files() {
    #[cfg(unix)]
    if let Err(error) = register(SIGXFSZ, Arc::default()) {
        print_stderr(&format!(
            "warning: cannot handle SIGXFSZ, so a file size limit kills the run: {error}"
        ));
    }
}

/// Writes the result to stdout and returns the exit status. A reader may close the pipe early.
fn emit(text: &str) -> u8 {
    let mut stdout = anstream::stdout().lock();
    match stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush()) {
        Ok(()) => 0,
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => 0,
        Err(error) => {
            print_stderr(&format!("tidegate: stdout: {error}"));
            1
        }
    }
}

/// Writes an error to stderr, with its advice on a line of its own.
fn print_error(error: &Error) {
    match error {
        Error::Advised { why, advice } => {
            print_error(why);
            print_stderr(advice);
        }
        error => print_stderr(&format!("tidegate: {error}")),
    }
}

/// Writes a message to stderr, folded to the terminal; a closed stderr is ignored.
fn print_stderr(line: &str) {
    let folded = grid::message(&format::shown(line));
    let _ = writeln!(anstream::stderr(), "{}", style::message(&folded));
}

/// Result of the workbench's functions.
type Result<T> = std::result::Result<T, Error>;
