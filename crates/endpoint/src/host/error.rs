//! Errors of hosts.

use std::{fmt, io};

use crate::node::{CloseReason, ConfigError};

/// Why an operation failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Error {
    /// The session has ended or could not be established. A message in flight may or may not have
    /// arrived.
    SessionClosed(CloseReason),
    /// This host has its maximum number of peers.
    Full,
    /// The message exceeds the maximum length.
    TooLong {
        /// The maximum length in bytes.
        most: u64,
    },
    /// The application of the peer dropped the request without a reply.
    Unanswered,
    /// This host was closed.
    Closed,
    /// The socket of this host failed, with this OS error number.
    Socket(i32),
    /// The event loop of this host panicked, which is a bug.
    Failed,
    /// The outcome was not available in time. It may still arrive: wait again.
    TimedOut,
    /// The outcome was taken before.
    Given,
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::SessionClosed(why) => why.fmt(f),
            Error::Full => f.write_str("this host has its maximum number of peers"),
            Error::TooLong { most } => {
                write!(f, "the message is too long: at most {most} bytes are allowed")
            }
            Error::Unanswered => f.write_str("the peer dropped the request without a reply"),
            Error::Closed => f.write_str("this host was closed"),
            Error::Socket(number) => {
                write!(f, "the socket failed: {}", io::Error::from_raw_os_error(*number))
            }
            Error::Failed => {
                f.write_str("the event loop of this host panicked; please report this bug")
            }
            Error::TimedOut => f.write_str("the outcome is not available yet"),
            Error::Given => f.write_str("the outcome was taken before"),
        }
    }
}

impl std::error::Error for Error {}

/// Why a host could not be created.
#[derive(Debug)]
pub enum BindError {
    /// The configuration is invalid.
    Config(ConfigError),
    /// The system refused the address, or provided no random numbers or no thread.
    System(io::Error),
}

impl fmt::Display for BindError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            BindError::Config(why) => why.fmt(f),
            BindError::System(why) => why.fmt(f),
        }
    }
}

impl std::error::Error for BindError {}

impl From<ConfigError> for BindError {
    fn from(why: ConfigError) -> BindError {
        BindError::Config(why)
    }
}

impl From<io::Error> for BindError {
    fn from(why: io::Error) -> BindError {
        BindError::System(why)
    }
}
