//! Operations of training jobs, from files: GOAL schedules, and Chakra execution traces.
//!
//! Both readers fill a [`Draft`](draft::Draft), which matches sends with receives, refuses
//! deadlocks and becomes a program of the engine.

pub mod chakra;
mod draft;
mod et;
mod expand;
mod goal;
mod groups;

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
    /// Maximum number of operations.
    pub(crate) operations: u64,
    /// Factor of all computing times.
    pub(crate) scale: f64,
    /// Number of ranks to their stragglers.
    pub(crate) stragglers: Box<dyn Fn(u32) -> Stragglers>,
    /// Algorithm of all-reduces of Chakra traces.
    pub(crate) all_reduce: AllReduce,
    /// Process groups of Chakra traces.
    pub(crate) groups: chakra::Groups,
    /// Dependencies of Chakra traces that nodes wait for.
    pub(crate) dependencies: Dependencies,
}

/// Dependencies of Chakra nodes that a job obeys.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Dependencies {
    /// `data_deps` and `ctrl_deps`, as in ASTRA-sim.
    All,
    /// `data_deps` only, as in Chakra's own feeder.
    Data,
}

/// Reads a GOAL schedule.
pub(crate) fn goal(source: &Source, terms: &Terms) -> Result<Program, Error> {
    goal::read(source, terms)
}

/// Reads Chakra execution traces, one per rank.
pub(crate) fn chakra(sources: &[Source], terms: &Terms) -> Result<Program, Error> {
    et::read(sources, terms)
}

/// Reads the process groups of Chakra traces of this many ranks.
pub(crate) fn groups(source: &Source, ranks: usize) -> Result<chakra::Groups, Error> {
    groups::read(source, ranks)
}

/// The ranks that are allowed.
fn ranks_of(traces: usize) -> String {
    match traces {
        1 => "rank 0, because there is one trace".into(),
        _ => format!("a rank from 0 to {}, because there are {traces} traces", traces - 1),
    }
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
        Some(self.stragglers.computing_time(rank, span)).filter(|span| *span <= LONGEST)
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

#[cfg(test)]
mod tests {
    use prost::Message;

    use super::chakra::{Attribute, Kind, Metadata, Node, Value};
    use super::*;

    fn terms(operations: u64) -> Terms {
        Terms {
            hosts: 2,
            operations,
            scale: 1.0,
            stragglers: Box::new(|_| Stragglers::default()),
            all_reduce: AllReduce::Ring,
            groups: chakra::Groups::new(),
            dependencies: Dependencies::All,
        }
    }

    #[test]
    fn operations_are_limited() {
        let text = "num_ranks 1\nrank 0 {\ncalc 1\ncalc 1\n}\n";
        let source = Source { name: "x.goal".into(), bytes: text.into() };
        assert_eq!(goal(&source, &terms(2)).unwrap().operations.len(), 2);
        assert_eq!(
            goal(&source, &terms(1)).unwrap_err().to_string(),
            "x.goal:4: found a further operation, expected at most 1 operations"
        );
        // An all-reduce of two ranks has three rounds.
        let attribute =
            |name: &str, value| Attribute { name: name.into(), value: Some(Value::Int64(value)) };
        let reduce = Node {
            id: 4,
            name: "r".into(),
            kind: Kind::Collective.into(),
            attr: vec![attribute("comm_type", 0), attribute("comm_size", 9)],
            ..Node::default()
        };
        let compute =
            Node { id: 5, name: "c".into(), kind: Kind::Compute.into(), ..reduce.clone() };
        let mut bytes = Metadata::default().encode_length_delimited_to_vec();
        [reduce, compute].iter().for_each(|node| node.encode_length_delimited(&mut bytes).unwrap());
        let traces =
            ["x.0.et", "x.1.et"].map(|name| Source { name: name.into(), bytes: bytes.clone() });
        assert_eq!(chakra(&traces, &terms(8)).unwrap().operations.len(), 8);
        for (most, at) in [(7, "x.1.et"), (3, "x.0.et"), (2, "x.0.et")] {
            let error = chakra(&traces, &terms(most)).unwrap_err().to_string();
            let node = if most == 2 { "4 (r)" } else { "5 (c)" };
            let found = format!("{at}: found more than {most} operations in node {node}, expected");
            assert!(error.starts_with(&found), "{error}");
        }
    }
}
