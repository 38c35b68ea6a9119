//! A run in several processes, which all run the same program on the same scenario.
//!
//! Rank 0 does what a process alone does: it loads, runs, writes and prints. The others hold their
//! parts of the fabric and do what it tells them. Before the run all make sure that they are of one
//! build and have one scenario; after it, or where one fails, each hears how it ended.

use tidegate_core::fabric::Fabric;
use tidegate_scenario::Plan;
use tidegate_sim::{Communicator, ProcessGroup, RankFailure, partitions_worth};

use crate::{Error, RunOptions, machine};

/// The processes that a run is done in, as one of them sees them.
pub struct Ranks {
    group: Box<dyn ProcessGroup>,
    rank: usize,
}

/// What a process says of itself before a run.
struct Greeting {
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
    pub fn refuse_others() -> Result<(), Error> {
        let size = |name: &str| std::env::var(name).ok()?.parse::<usize>().ok();
        match STARTED.iter().find(|name| size(name).is_some_and(|size| size > 1)) {
            None => Ok(()),
            Some(name) => Err(Error::Alone(format!(
                "started as one of several processes ({name}), but this build has no MPI: build \
                 it with `--features mpi`, or clear {name} to run one process"
            ))),
        }
    }

    /// Whether this is the process that runs, writes and prints, and not one that serves it.
    pub fn is_first(&self) -> bool {
        self.rank == 0
    }

    /// Takes leave of the other processes, or tells them that this one has failed; what all have
    /// come to.
    ///
    /// # Errors
    /// That of `result`, or of another process.
    pub fn end<T>(self, result: Result<T, Error>) -> Result<T, Error> {
        let result =
            result.and_then(|value| self.take_leave().map(|()| value).map_err(Error::RankFailure));
        match &result {
            Ok(_) => self.group.leave(),
            Err(Error::RankFailure(lost)) => self.group.give_up(lost),
            Err(error) => {
                self.group.give_up(&RankFailure { rank: self.rank, why: error.to_string() });
            }
        }
        result
    }

    /// Nobody leaves before rank 0 has written all.
    fn take_leave(&self) -> Result<(), RankFailure> {
        let mut communicator = self.group.communicator();
        if self.rank > 0 {
            return communicator.receive(0, &mut Vec::new());
        }
        (1..communicator.count()).try_for_each(|rank| communicator.send(rank, &mut Vec::new()))
    }

    /// The other processes, to the engine.
    pub(crate) fn communicator(&self) -> Box<dyn Communicator> {
        self.group.communicator()
    }

    /// Makes sure that all processes are about to do the same; how many parts each has.
    ///
    /// # Errors
    /// Where one is of another build, or has another scenario.
    pub(crate) fn greet(&self, plan: &Plan, options: &RunOptions<'_>) -> Result<usize, Error> {
        let cores = || machine::cores().unwrap_or(1) / self.group.on_this_machine();
        let own = Greeting {
            build: format!("{}-{}", env!("CARGO_PKG_VERSION"), env!("TIDEGATE_SOURCES")),
            scenario: tidegate_scenario::content_hash(plan),
            threads: options.threads.unwrap_or_else(cores).max(1),
        };
        let communicator = &mut *self.group.communicator();
        agree(communicator, &own, &plan.fabric, options.partitions).map_err(Error::RankFailure)
    }
}

/// Environment variables in which launchers pass the number of processes.
const STARTED: [&str; 3] = ["OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "MV2_COMM_WORLD_SIZE"];

/// Compares what all say at rank 0, which tells the others how many parts each has: `forced`, or as
/// many as are worth it.
fn agree(
    communicator: &mut dyn Communicator,
    own: &Greeting,
    fabric: &Fabric,
    forced: Option<usize>,
) -> Result<usize, RankFailure> {
    let unread = |rank| RankFailure { rank, why: "its greeting cannot be read".to_owned() };
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
        let other = Greeting::read(&bytes).ok_or(unread(rank))?;
        own.check(&other).map_err(|why| RankFailure { rank, why })?;
        threads = threads.min(other.threads);
    }
    let ranks = communicator.count();
    let worth = || (partitions_worth(fabric, ranks * threads) / ranks).max(1);
    let parts = forced.unwrap_or_else(worth);
    for rank in 1..communicator.count() {
        bytes.clear();
        bytes.extend(parts.to_string().bytes());
        communicator.send(rank, &mut bytes)?;
    }
    Ok(parts)
}

fn read_number(bytes: &[u8]) -> Option<usize> {
    std::str::from_utf8(bytes).ok()?.parse().ok()
}

/// Text, so that builds of any age understand enough of each other to part.
impl Greeting {
    fn write(&self, to: &mut Vec<u8>) {
        let Greeting { build, scenario, threads } = self;
        to.extend(format!("tidegate\n{build}\n{scenario}\n{threads}").bytes());
    }

    fn read(bytes: &[u8]) -> Option<Greeting> {
        let mut lines = std::str::from_utf8(bytes).ok()?.lines();
        lines.next().filter(|first| *first == "tidegate")?;
        let (build, scenario) = (lines.next()?.to_owned(), lines.next()?.to_owned());
        Some(Greeting { build, scenario, threads: lines.next()?.parse().ok()? })
    }

    /// What is wrong with another process.
    fn check(&self, other: &Greeting) -> Result<(), String> {
        if self.build != other.build {
            return Err(format!(
                "it is build {}, and this is {}: install one build on all machines",
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
