//! Why something did not come about.

use std::{fmt, io};

use crate::node::{ConfigError, Gone};

/// Why an outcome is none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Error {
    /// The session is over, or never was one. Whether the peer has a message that was under way,
    /// nobody knows.
    Gone(Gone),
    /// There are as many peers here as there may be.
    Full,
    /// The message is longer than messages may be.
    TooLong {
        /// How long they may be, in bytes.
        most: u64,
    },
    /// Whoever took the request at the other side has dropped it.
    Unanswered,
    /// This host was closed.
    Closed,
    /// This host's socket failed: the system's number of the error.
    Socket(i32),
    /// This host's thread has failed, which is a fault of its own.
    Failed,
    /// It is not there yet. It may still come, and can be waited for again.
    TimedOut,
    /// It was given to somebody before.
    Given,
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::Gone(why) => why.fmt(f),
            Error::Full => f.write_str("this host has as many peers as it takes"),
            Error::TooLong { most } => write!(f, "a message has no more than {most} bytes"),
            Error::Unanswered => f.write_str("the peer has taken the request and not answered it"),
            Error::Closed => f.write_str("this host was closed"),
            Error::Socket(number) => {
                write!(f, "the socket failed: {}", io::Error::from_raw_os_error(*number))
            }
            Error::Failed => f.write_str("this host's thread has failed, a fault of its own"),
            Error::TimedOut => f.write_str("it is not there yet"),
            Error::Given => f.write_str("it was given to somebody before"),
        }
    }
}

impl std::error::Error for Error {}

/// Why there is no host.
#[derive(Debug)]
pub enum BindError {
    /// The configuration makes no sense.
    Config(ConfigError),
    /// The system refuses the address, or has no random numbers, or no thread.
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
