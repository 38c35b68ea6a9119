//! Operations of training jobs, from files: GOAL schedules, and Chakra execution traces.
//!
//! Both readers fill a [`Draft`](draft::Draft), which matches sends with receives, refuses
//! deadlocks and becomes a program of the engine.

pub mod chakra;
mod draft;
mod et;
mod expand;
mod goal;

use tidegate_core::Span;
use tidegate_core::collective::Stragglers;
use tidegate_core::job::Program;

use crate::error::Error;
use crate::read::keys::LONGEST;
pub(crate) use expand::AllReduce;

/// Largest size of a message, in bytes.
const MOST_BYTES: u64 = 1_000_000_000_000_000;

/// A file's name in messages, and its content.
pub(crate) struct Source {
    pub(crate) name: String,
    pub(crate) bytes: Vec<u8>,
}

/// Inputs other than the files.
pub(crate) struct Terms {
    /// Number of hosts: a job has at most as many ranks.
    pub(crate) hosts: usize,
    /// Factor of all computing times.
    pub(crate) scale: f64,
    /// Number of ranks to their stragglers.
    pub(crate) stragglers: Box<dyn Fn(u32) -> Stragglers>,
    /// Algorithm of all-reduces of Chakra traces.
    pub(crate) all_reduce: AllReduce,
    /// Process groups of Chakra traces.
    pub(crate) groups: chakra::Groups,
}

/// Reads a GOAL schedule.
pub(crate) fn goal(source: &Source, terms: &Terms) -> Result<Program, Error> {
    goal::read(source, terms)
}

/// Reads Chakra execution traces, one per rank.
pub(crate) fn chakra(sources: &[Source], terms: &Terms) -> Result<Program, Error> {
    et::read(sources, terms)
}

/// Computing times of the ranks of a job.
struct Computing {
    scale: f64,
    stragglers: Stragglers,
}

impl Computing {
    fn new(terms: &Terms, ranks: u32) -> Computing {
        Computing { scale: terms.scale, stragglers: (terms.stragglers)(ranks) }
    }

    /// Computing time of an operation that takes `count` times `unit`; `None` if it is too long.
    fn span(&self, rank: u32, count: u64, unit: Span) -> Option<Span> {
        let ps = count.checked_mul(unit.as_ps()).filter(|&ps| ps <= LONGEST.as_ps())?;
        let span = if self.scale == 1.0 { Span::ps(ps) } else { Span::ps(ps).scale(self.scale) };
        Some(self.stragglers.stretch(rank, span)).filter(|span| *span <= LONGEST)
    }
}

/// Refuses a job with more ranks than hosts.
fn fits(name: &str, ranks: u64, terms: &Terms) -> Result<(), Error> {
    if ranks <= terms.hosts as u64 {
        return Ok(());
    }
    let (hosts, s) = (terms.hosts, if terms.hosts == 1 { "" } else { "s" });
    let expected = format!(
        "at most {hosts} rank{s}, one per host: use a larger fabric, or a job \
                            of fewer ranks"
    );
    Err(Error::whole(name, format!("{ranks} ranks"), expected))
}
