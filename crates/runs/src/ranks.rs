//! A run in several processes, all of which run the same program on the same scenario.
//!
//! Rank 0 does what a single process does: it loads, runs, writes and prints. The other ranks hold
//! their partitions of the fabric and follow rank 0. Before the run, all ranks check that they are
//! of one build and have one scenario. After it, or when one fails, each rank receives the outcome.

use tidegate_core::fabric::Fabric;
use tidegate_scenario::Plan;
use tidegate_sim::{
    Communicator, ProcessGroup, RankFailure, packet_hops_at_full_rate, partitions_worth,
};

use crate::{Error, machine};

/// The processes of a run, as one of them sees them.
pub struct Ranks {
    group: Box<dyn ProcessGroup>,
    rank: usize,
}

/// Requested numbers of threads and partitions of one process; `None`: chosen automatically.
#[derive(Clone, Copy)]
pub(crate) struct Parallelism {
    pub(crate) threads: Option<usize>,
    pub(crate) partitions: Option<usize>,
}

/// Build, scenario and threads of a process. It sends them to rank 0 before a run.
struct ProcessDescription {
    build: String,
    scenario: String,
    threads: usize,
}

impl Ranks {
    /// The processes of `group`, as this one sees them.
    pub fn new(group: Box<dyn ProcessGroup>) -> Ranks {
        let rank = group.communicator().rank();
        Ranks { group, rank }
    }

    /// Refuses to run as one of several processes: for builds that cannot join them.
    ///
    /// # Errors
    /// If a launcher has started this process together with others.
    pub fn refuse_group() -> Result<(), Error> {
        let size = |name: &str| std::env::var(name).ok()?.parse::<usize>().ok();
        match STARTED.iter().find(|name| size(name).is_some_and(|size| size > 1)) {
            None => Ok(()),
            Some(name) => Err(Error::Alone(format!(
                "started as one of several processes ({name}), but this build has no MPI: build \
                 it with `--features mpi`, or clear {name} to run one process"
            ))),
        }
    }

    /// Whether this is rank 0, which runs, writes and prints; the others serve it.
    pub fn is_first(&self) -> bool {
        self.rank == 0
    }

    /// Leaves the other processes after success, or reports the failure to them. Returns the common
    /// outcome.
    ///
    /// # Errors
    /// The error of `result`, or that of another process.
    pub fn end<T>(self, result: Result<T, Error>) -> Result<T, Error> {
        let result = result
            .and_then(|value| self.synchronise_end().map(|()| value).map_err(Error::RankFailure));
        match &result {
            Ok(_) => self.group.leave(),
            Err(Error::RankFailure(lost)) => self.group.abort(lost),
            Err(error) => {
                self.group.abort(&RankFailure { rank: self.rank, why: error.to_string() });
            }
        }
        result
    }

    /// Waits until rank 0 has written all files.
    fn synchronise_end(&self) -> Result<(), RankFailure> {
        let mut communicator = self.group.communicator();
        if self.rank > 0 {
            return communicator.receive(0, &mut Vec::new());
        }
        (1..communicator.count()).try_for_each(|rank| communicator.send(rank, &mut Vec::new()))
    }

    /// The communicator to the other processes, for the engine.
    pub(crate) fn communicator(&self) -> Box<dyn Communicator> {
        self.group.communicator()
    }

    /// Checks that all processes have the same build and scenario, and returns the number of
    /// partitions per process: as rank 0 requests, or as many as are useful for the threads.
    ///
    /// # Errors
    /// When a process has another build or another scenario.
    pub(crate) fn agree(&self, plan: &Plan, requested: Parallelism) -> Result<usize, Error> {
        let Parallelism { threads, partitions } = requested;
        let cores = || machine::cores().unwrap_or(1) / self.group.on_this_machine();
        let own = ProcessDescription {
            build: format!("{}-{}", env!("CARGO_PKG_VERSION"), env!("TIDEGATE_SOURCES")),
            scenario: tidegate_scenario::content_hash(plan),
            threads: threads.unwrap_or_else(cores).max(1),
        };
        let communicator = &mut *self.group.communicator();
        agree(communicator, &own, &plan.fabric, partitions).map_err(Error::RankFailure)
    }
}

/// Environment variables in which launchers pass the number of processes.
const STARTED: [&str; 3] = ["OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "MV2_COMM_WORLD_SIZE"];

/// Compares the descriptions of all processes at rank 0, which then sends the number of partitions
/// per process: `forced`, or as many as are useful.
fn agree(
    communicator: &mut dyn Communicator,
    own: &ProcessDescription,
    fabric: &Fabric,
    forced: Option<usize>,
) -> Result<usize, RankFailure> {
    let unread = |rank| RankFailure { rank, why: "its description cannot be read".to_owned() };
    let mut bytes = Vec::new();
    if communicator.rank() > 0 {
        own.write(&mut bytes);
        communicator.send(0, &mut bytes)?;
        communicator.receive(0, &mut bytes)?;
        return read_number(&bytes).ok_or(unread(0));
    }
    let mut threads = own.threads;
    for rank in 1..communicator.count() {
        communicator.receive(rank, &mut bytes)?;
        let other = ProcessDescription::read(&bytes).ok_or(unread(rank))?;
        own.check(&other).map_err(|why| RankFailure { rank, why })?;
        threads = threads.min(other.threads);
    }
    let ranks = communicator.count();
    let full = packet_hops_at_full_rate(fabric);
    let worth = || (partitions_worth(fabric, ranks * threads, full) / ranks).max(1);
    let partitions = forced.unwrap_or_else(worth);
    for rank in 1..communicator.count() {
        bytes.clear();
        bytes.extend(partitions.to_string().bytes());
        communicator.send(rank, &mut bytes)?;
    }
    Ok(partitions)
}

fn read_number(bytes: &[u8]) -> Option<usize> {
    std::str::from_utf8(bytes).ok()?.parse().ok()
}

/// Plain text, so that builds of different versions can detect that they differ.
impl ProcessDescription {
    fn write(&self, to: &mut Vec<u8>) {
        let ProcessDescription { build, scenario, threads } = self;
        to.extend(format!("tidegate\n{build}\n{scenario}\n{threads}").bytes());
    }

    fn read(bytes: &[u8]) -> Option<ProcessDescription> {
        let mut lines = std::str::from_utf8(bytes).ok()?.lines();
        lines.next().filter(|first| *first == "tidegate")?;
        let (build, scenario) = (lines.next()?.to_owned(), lines.next()?.to_owned());
        Some(ProcessDescription { build, scenario, threads: lines.next()?.parse().ok()? })
    }

    /// Describes how another process differs from this one.
    fn check(&self, other: &ProcessDescription) -> Result<(), String> {
        if self.build != other.build {
            return Err(format!(
                "its build is {}, but rank 0 has {}: install one build on all machines",
                other.build, self.build
            ));
        }
        if self.scenario != other.scenario {
            return Err("its scenario is another one: give all processes the same file and \
                        options"
                .to_owned());
        }
        Ok(())
    }
}
