//! Errors.

use std::fmt;
use std::path::PathBuf;

/// Reason why a command failed.
#[derive(Debug)]
pub enum Error {
    /// The kernel or the machine lacks something: each text names it and the remedy.
    Missing(Vec<String>),
    /// Another program owns the name or the path.
    Foreign(String),
    /// An argument is wrong: what, and what is allowed.
    Usage(String),
    /// The kernel refused an operation.
    Kernel {
        /// The operation.
        what: String,
        /// The kernel's answer, and the last lines of its log.
        why: String,
    },
    /// A file of the kernel cannot be used.
    File(PathBuf, std::io::Error),
}

impl Error {
    /// The kernel refused `what`.
    pub(crate) fn kernel<E: fmt::Display>(what: impl Into<String>) -> impl FnOnce(E) -> Error {
        let what = what.into();
        move |error| {
            let log = crate::log::last();
            let why = if log.is_empty() { error.to_string() } else { format!("{error}: {log}") };
            Error::Kernel { what, why }
        }
    }

    /// Whether the caller can correct it by other arguments or another machine.
    pub fn is_usage(&self) -> bool {
        matches!(self, Error::Missing(_) | Error::Usage(_))
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::Missing(what) => {
                write!(f, "this machine lacks what the command needs: {}", what.join("; "))
            }
            Error::Foreign(message) | Error::Usage(message) => f.write_str(message),
            Error::Kernel { what, why } => write!(f, "the kernel refuses to {what}: {why}"),
            Error::File(path, error) => write!(f, "{}: {error}", path.display()),
        }
    }
}

impl std::error::Error for Error {}
