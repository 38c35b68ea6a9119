//! Errors, and the exit status of each.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

use tidegate_sim::RankFailure;

use crate::results::Results;

/// An error of a run, a scenario, or a caller.
#[derive(Debug)]
pub enum Error {
    /// An option of the caller is invalid.
    Usage {
        /// The option's name on the command line.
        option: &'static str,
        /// The fault, and what is allowed.
        message: String,
    },
    /// A scenario, or a change to it, is invalid.
    Scenario(String),
    /// An error with advice, which has a line of its own.
    Advised {
        /// The error.
        why: Box<Error>,
        /// The remedy.
        advice: String,
    },
    /// The folder for results already holds results.
    Occupied(PathBuf),
    /// Another process writes results to the folder.
    Busy(PathBuf),
    /// Results cannot be written.
    Output {
        /// The folder.
        path: PathBuf,
        /// The cause.
        source: io::Error,
    },
    /// A capture cannot be written.
    Capture {
        /// The file.
        path: PathBuf,
        /// The cause.
        source: io::Error,
    },
    /// All runs are complete, but not all results can be written.
    Unwritten {
        /// Results of the runs.
        results: Box<Results>,
        /// The error of writing them.
        why: Box<Error>,
    },
    /// The run failed.
    Run(String),
    /// The operation is not possible in several processes, or not in this build.
    Alone(String),
    /// A process of the run failed.
    RankFailure(RankFailure),
    /// The run was interrupted.
    Interrupted,
}

impl From<tidegate_scenario::Error> for Error {
    fn from(error: tidegate_scenario::Error) -> Error {
        Error::scenario(error)
    }
}

impl Error {
    /// All was run, and results cannot be written.
    pub fn unwritten(results: Results, why: Error) -> Error {
        Error::Unwritten { results: Box::new(results), why: Box::new(why) }
    }

    /// A scenario, or a change to it, is invalid.
    pub fn scenario(error: tidegate_scenario::Error) -> Error {
        Error::Scenario(error.to_string())
    }

    /// Results cannot be written to `path`.
    pub fn output(path: &Path) -> impl FnOnce(io::Error) -> Error {
        let path = path.to_owned();
        move |source| match source.kind() {
            io::ErrorKind::ResourceBusy => Error::Busy(path),
            _ => Error::Output { path, source },
        }
    }

    /// `path` cannot be opened for results; the caller has to choose another one.
    pub fn cannot_open(path: &Path) -> impl FnOnce(io::Error) -> Error {
        let path = path.to_owned();
        move |source| match source.kind() {
            io::ErrorKind::ResourceBusy => Error::Busy(path),
            _ => Error::Usage { option: "--out", message: format!("{}: {source}", path.display()) },
        }
    }

    /// Exit status of a process that ends with this error: 1 if the run failed, 2 if the command
    /// line or a file is invalid, 130 if interrupted.
    pub fn exit_code(&self) -> u8 {
        match self {
            Error::Usage { .. }
            | Error::Scenario(_)
            | Error::Occupied(_)
            | Error::Busy(_)
            | Error::Alone(_) => 2,
            Error::Output { .. }
            | Error::Capture { .. }
            | Error::Run(_)
            | Error::RankFailure(_) => 1,
            Error::Unwritten { why, .. } | Error::Advised { why, .. } => why.exit_code(),
            Error::Interrupted => 130,
        }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::Usage { option, message } => write!(f, "{option}: {message}"),
            Error::Scenario(message) | Error::Run(message) | Error::Alone(message) => {
                f.write_str(message)
            }
            Error::Advised { why, advice } => write!(f, "{why}\n{advice}"),
            Error::Occupied(path) => write!(
                f,
                "--out {}: this folder holds results; choose another one, or replace them with \
                 --force",
                path.display()
            ),
            Error::Busy(path) => write!(
                f,
                "--out {}: another run is writing its results to this folder; wait for it, or \
                 choose another one",
                path.display()
            ),
            Error::Output { path, source } => write!(f, "--out {}: {source}", path.display()),
            Error::Capture { path, source } => write!(f, "--pcap {}: {source}", path.display()),
            Error::Unwritten { why, .. } => why.fmt(f),
            Error::RankFailure(lost) => lost.fmt(f),
            Error::Interrupted => f.write_str("interrupted"),
        }
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Error::Output { source, .. } | Error::Capture { source, .. } => Some(source),
            Error::Unwritten { why, .. } => why.source(),
            _ => None,
        }
    }
}
