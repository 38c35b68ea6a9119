//! What the process of a testbed and those of its hosts say to each other: lines of JSON, and at
//! the end the bytes of what a host has seen.

use std::io::{self, BufRead, Write};
use std::net::SocketAddr;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

/// What a host is told.
#[derive(Debug, Serialize, Deserialize)]
pub(super) enum ToHost {
    /// Who it is.
    Be(Role),
    /// By host: where to send what is for it, of those that are there.
    Peers(Vec<Option<SocketAddr>>),
    /// The run begins at that time of the clock.
    Start {
        /// In picoseconds.
        at_ps: u64,
    },
    /// The run is over: say what was seen.
    Finish,
}

/// Who a host is.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Role {
    /// The scenario, whole.
    pub(super) scenario: String,
    /// Its number there.
    pub(super) host: u32,
    /// Zero of the clock, by the system's that nobody sets.
    pub(super) origin_ns: u64,
    /// How much slower it goes.
    pub(super) dilation: u32,
    /// Of this run.
    pub(super) key: [u8; 32],
}

/// What a host says.
#[derive(Debug, Serialize, Deserialize)]
pub(super) enum FromHost {
    /// It receives there.
    Bound(SocketAddr),
    /// It has a session with every other.
    Ready,
    /// The time of the run is over, and all that it sent has arrived.
    Done,
    /// What it has seen follows.
    Seen {
        /// So many bytes.
        bytes: usize,
        /// How long datagrams waited for it in the run, in nanoseconds of the clock of all, and how
        /// often.
        late: Vec<(u64, u64)>,
        /// Datagrams that came to its socket and were lost there in the run.
        lost: u32,
    },
    /// It cannot go on.
    Failed(String),
}

/// Says something.
pub(super) fn say(to: &mut impl Write, what: &impl Serialize) -> io::Result<()> {
    serde_json::to_writer(&mut *to, what)?;
    to.write_all(b"\n")?;
    to.flush()
}

/// The next that is said; none at the end.
pub(super) fn hear<T: DeserializeOwned>(from: &mut impl BufRead) -> io::Result<Option<T>> {
    let mut line = String::new();
    if from.read_line(&mut line)? == 0 {
        return Ok(None);
    }
    Ok(Some(serde_json::from_str(&line)?))
}
