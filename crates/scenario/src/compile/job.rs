//! `[[traffic]]` of the kind `job`: operations from GOAL schedules or Chakra traces; and ranks that
//! take longer to compute.

use std::collections::BTreeSet;
use std::io::ErrorKind;
use std::sync::Arc;

use tidegate_core::collective::{MOST_ITERATIONS, Stragglers};
use tidegate_core::job::{Job, Program};
use tidegate_core::workload::{Pattern, Traffic};
use tidegate_core::{Domain, Rng};

use super::context::Context;
use crate::error::Error;
use crate::job::{self, AllReduce, Dependencies, Source, Terms};
use crate::read::keys::{Default, Key, Optional, Required, Shape, key};
use crate::read::table::{Table, Word};

/// Ranks that take longer.
pub(crate) const STRAGGLERS: Key = key(
    "stragglers",
    Shape::Number { min: 0.0, max: 1.0 },
    Optional,
    "Share of the ranks whose computing times are longer by straggler_factor. The seed selects \
     them. Default: 0.",
);
pub(crate) const STRAGGLER_FACTOR: Key = key(
    "straggler_factor",
    Shape::Number { min: 1.0, max: 1000.0 },
    Optional,
    "Computing time of a straggler over that of other ranks. Default: 2.",
);
/// Marks streams of random numbers of jobs. Generated traffic uses blocks and hosts, and flows
/// another bit.
const STREAM: u64 = 1 << 62;
/// Selects the hosts of a job; else its stragglers.
const PLACEMENT: u64 = 1 << 61;

/// Keys of the kind.
pub(crate) const KEYS: &[Key] = &[
    key(
        "file",
        Shape::Text,
        Required,
        "Path of a GOAL schedule (.goal), or of Chakra traces (.et) with * for the rank, such as \
         \"llama.*.et\" for llama.0.et, llama.1.et and so on. Relative to the scenario's folder.",
    ),
    key(
        "hosts",
        Shape::Globs,
        Optional,
        "Hosts for the ranks, by name or wildcard. Hosts that a wildcard matches are in order of \
         number. Default: all hosts on which no earlier job has a rank.",
    ),
    key(
        "placement",
        Shape::Word(&["packed", "strided", "random"]),
        Default("packed"),
        "How ranks are placed on the hosts: on the first ones in order, at equal distances in \
         order, or on random ones.",
    ),
    key(
        "iterations",
        Shape::Count { min: 1, max: MOST_ITERATIONS },
        Default("1"),
        "Number of times that each rank runs its operations. A rank begins the next iteration when \
         all its operations are complete.",
    ),
    key(
        "compute_scale",
        Shape::Number { min: 0.0, max: 1000.0 },
        Optional,
        "Factor of all computing times of the file. Default: 1.",
    ),
    STRAGGLERS,
    STRAGGLER_FACTOR,
    key(
        "all_reduce",
        Shape::Word(&["ring", "tree"]),
        Optional,
        "For Chakra traces: algorithm of all-reduces. Default: \"ring\".",
    ),
    key(
        "groups",
        Shape::Text,
        Optional,
        "For Chakra traces with process groups: path of a JSON file with the ranks of each group, \
         such as {\"0\": [0, 1], \"1\": [2, 3]}. Collectives without pg_name are among all ranks.",
    ),
    key(
        "dependencies",
        Shape::Word(&["all", "data"]),
        Optional,
        "For Chakra traces: dependencies that a node waits for, data_deps and ctrl_deps as in \
         ASTRA-sim (all, the default), or data_deps only, as in Chakra's own feeder (data). Traces \
         of PyTorch may need \"data\": their ctrl_deps name callers, which can form cycles.",
    ),
];

/// Builds the pattern of one block. `earlier` are the blocks before it.
pub(crate) fn pattern(
    table: &Table,
    context: &Context<'_>,
    earlier: &[Traffic],
) -> Result<Pattern, Error> {
    let number = earlier.len() as u64;
    let mut hosts = context.hosts.listed(table, "hosts", 1)?;
    if table.item("hosts").is_none() {
        let taken: BTreeSet<u32> = earlier.iter().flat_map(taken).copied().collect();
        hosts.retain(|host| !taken.contains(host));
    }
    let name: &str = table.get("file");
    let is_goal = name.ends_with(".goal");
    let is_chakra = name.ends_with(".et") && name.matches('*').count() == 1;
    if !is_goal && !is_chakra {
        let expected = "a GOAL schedule (.goal), or Chakra traces (.et) with one * for the rank";
        return Err(table.error("file", expected));
    }
    for key in ["all_reduce", "groups", "dependencies"].into_iter().filter(|_| is_goal) {
        if table.item(key).is_some() {
            let expected = format!("no {key} with a GOAL schedule: remove {key}");
            return Err(table.error(key, expected));
        }
    }
    let chosen = choice(table, context, number)?;
    let mut terms = Terms {
        hosts: hosts.len(),
        operations: Program::MOST_OPERATIONS,
        scale: table.find("compute_scale").unwrap_or(1.0),
        stragglers: Box::new(chosen),
        all_reduce: match table.find("all_reduce") {
            Some(Word("tree")) => AllReduce::Tree,
            _ => AllReduce::Ring,
        },
        groups: job::chakra::Groups::new(),
        dependencies: match table.find("dependencies") {
            Some(Word("data")) => Dependencies::Data,
            _ => Dependencies::All,
        },
    };
    let program = match is_goal {
        true => job::goal(&source(table, "file", name, context)?, &terms)?,
        false => {
            let traces = sources(table, name, context)?;
            terms.groups = groups(table, context, traces.len())?;
            job::chakra(&traces, &terms)?
        }
    };
    let hosts = placed(table, hosts, program.ranks(), || {
        Rng::stream(context.run.seed, Domain::Traffic, STREAM | PLACEMENT | number)
    });
    let iterations = table.get::<u64>("iterations") as u32;
    Ok(Pattern::Job(Job { program: Arc::new(program), hosts, iterations }))
}

/// Hosts on which a job of a block has ranks.
fn taken(block: &Traffic) -> &[u32] {
    match &block.pattern {
        Pattern::Job(job) => &job.hosts,
        _ => &[],
    }
}

/// The stragglers that a table sets, by the number of ranks. `number` is that of the block.
pub(crate) fn choice(
    table: &Table,
    context: &Context<'_>,
    number: u64,
) -> Result<impl Fn(u32) -> Stragglers + 'static, Error> {
    let share = table.find::<f64>("stragglers").unwrap_or(0.0);
    let factor = table.find::<f64>("straggler_factor");
    if factor.is_some() && share == 0.0 {
        let expected = "stragglers to be set too: the factor is that of their computing times";
        return Err(table.error("straggler_factor", expected));
    }
    let seed = context.run.seed;
    Ok(move |count: u32| {
        let slow = (share * f64::from(count)).round() as usize;
        if slow == 0 {
            return Stragglers::default();
        }
        let mut ranks: Vec<u32> = (0..count).collect();
        Rng::stream(seed, Domain::Traffic, STREAM | number).shuffle(&mut ranks);
        ranks.truncate(slow);
        ranks.sort_unstable();
        Stragglers { ranks, factor: factor.unwrap_or(2.0) }
    })
}

/// The hosts of the ranks. There are at least as many hosts as ranks.
fn placed(table: &Table, mut hosts: Vec<u32>, ranks: u32, rng: impl FnOnce() -> Rng) -> Vec<u32> {
    let (all, ranks) = (hosts.len(), ranks as usize);
    match table.get::<Word>("placement").0 {
        "strided" => return (0..ranks).map(|rank| hosts[rank * all / ranks]).collect(),
        "random" => rng().shuffle(&mut hosts),
        _ => {}
    }
    hosts.truncate(ranks);
    hosts
}

fn unreadable(table: &Table, key: &str, name: &str, context: &Context<'_>, why: &str) -> Error {
    let path = context.files.path(name);
    table.error(key, format!("a readable file ({}: {why})", path.display()))
}

fn source(table: &Table, key: &str, name: &str, context: &Context<'_>) -> Result<Source, Error> {
    let bytes = context.files.read(name);
    let bytes = bytes.map_err(|why| unreadable(table, key, name, context, &why.to_string()))?;
    Ok(Source { name: context.files.path(name).display().to_string(), bytes })
}

/// The traces of ranks 0, 1 and so on, up to the first one that is missing.
fn sources(table: &Table, pattern: &str, context: &Context<'_>) -> Result<Vec<Source>, Error> {
    let mut all = Vec::new();
    loop {
        let name = pattern.replace('*', &all.len().to_string());
        let path = context.files.path(&name);
        match std::fs::metadata(&path) {
            Err(why) if why.kind() == ErrorKind::NotFound && !all.is_empty() => return Ok(all),
            // One more than there are hosts is enough to be refused.
            Ok(_) if all.len() > context.hosts.len() => return Ok(all),
            _ => all.push(source(table, "file", &name, context)?),
        }
    }
}

/// The process groups of Chakra traces.
fn groups(
    table: &Table,
    context: &Context<'_>,
    traces: usize,
) -> Result<job::chakra::Groups, Error> {
    let Some(name) = table.find::<&str>("groups") else { return Ok(job::chakra::Groups::new()) };
    job::groups(&source(table, "groups", name, context)?, traces)
}
