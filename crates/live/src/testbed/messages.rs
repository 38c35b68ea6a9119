//! Messages between the testbed and its hosts: lines of JSON, and at the end the bytes of a host's
//! recording.

use std::io::{self, BufRead, Write};
use std::net::SocketAddr;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

/// A message to a host.
#[derive(Debug, Serialize, Deserialize)]
pub(super) enum ToHost {
    /// The host's role.
    Be(Role),
    /// Addresses to send to, by host; `None` for hosts that do not take part.
    Peers(Vec<Option<SocketAddr>>),
    /// The run starts at this time of the clock.
    Start {
        /// Picoseconds.
        at_ps: u64,
    },
    /// The run is over: send the recording.
    Finish,
}

/// Role of a host.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Role {
    /// The complete scenario, with the folder of its files.
    pub(super) scenario: String,
    /// Number of the host in the scenario.
    pub(super) host: u32,
    /// Zero of the clock, by the system's monotonic clock.
    pub(super) origin_ns: u64,
    /// Factor by which the clock is slower.
    pub(super) dilation: u32,
    /// Key of this run.
    pub(super) key: [u8; 32],
}

/// A message from a host.
#[derive(Debug, Serialize, Deserialize)]
pub(super) enum FromHost {
    /// The address at which it receives.
    Bound(SocketAddr),
    /// It has a session with every other host.
    Ready,
    /// The run's duration is over, and all of its messages have arrived.
    Done,
    /// Its recording follows.
    Seen {
        /// Number of bytes.
        bytes: usize,
        /// How long datagrams waited for the host in the run, in nanoseconds of the common clock,
        /// and how often.
        late: Vec<(u64, u64)>,
        /// Datagrams that were lost at its socket in the run.
        lost: u32,
    },
    /// It cannot continue.
    Failed(String),
}

/// Writes a message.
pub(super) fn write_message(to: &mut impl Write, what: &impl Serialize) -> io::Result<()> {
    serde_json::to_writer(&mut *to, what)?;
    to.write_all(b"\n")?;
    to.flush()
}

/// Reads the next message; `None` at the end.
pub(super) fn read_message<T: DeserializeOwned>(from: &mut impl BufRead) -> io::Result<Option<T>> {
    let mut line = String::new();
    if from.read_line(&mut line)? == 0 {
        return Ok(None);
    }
    Ok(Some(serde_json::from_str(&line)?))
}
