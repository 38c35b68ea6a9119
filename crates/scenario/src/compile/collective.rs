//! `[[traffic]]` of the kind `collective`: messages that depend on each other.

use tidegate_core::Span;
use tidegate_core::collective::{
    Collective, MOST_ITERATIONS, MOST_JOBS, MOST_MESSAGES, NUMBERS, OPS, Op, expert_loads,
};
use tidegate_core::workload::{Pattern, Traffic};

use super::context::Context;
use super::job;
use crate::error::Error;
use crate::read::keys::{Default, Key, MESSAGE, Optional, Required, SPAN, Shape, key};
use crate::read::table::{Table, Word};

/// Keys of the kind.
pub(crate) const KEYS: &[Key] = &[
    key("op", Shape::Word(&OPS), Required, "Collective operation."),
    key(
        "size",
        MESSAGE,
        Required,
        "Data of a rank, as nccl-tests counts it: all data that the operation reduces, gathers, \
         scatters or exchanges, including the rank's own part. For chain: the size of a request.",
    ),
    key(
        "hosts",
        Shape::Globs,
        Optional,
        "Ranks in this order, by name or wildcard. Hosts that a wildcard matches are in order of \
         number. Default: all hosts.",
    ),
    key(
        "ranks",
        Shape::Count { min: 2, max: 1_000_000 },
        Optional,
        "Number of ranks: only the first of hosts take part. Default: all.",
    ),
    key(
        "chunks",
        Shape::Count { min: 1, max: 4096 },
        Optional,
        "For rings and trees: number of parts of a block. A rank forwards each part as soon as it \
         has arrived. Default: 1.",
    ),
    key(
        "iterations",
        Shape::Count { min: 1, max: MOST_ITERATIONS },
        Default("1"),
        "Number of iterations.",
    ),
    key("compute", SPAN, Default("0us"), "Computing time of a rank between two iterations."),
    job::STRAGGLERS,
    job::STRAGGLER_FACTOR,
    key(
        "reply",
        MESSAGE,
        Optional,
        "For chain: size of the reply of each host to the previous one. Default: size.",
    ),
    key(
        "skew",
        Shape::Number { min: 0.0, max: 10.0 },
        Optional,
        "For moe and moe-dispatch: the popularity of the experts of rank r, counted from 0, is \
         proportional to (r + 1) to the power of -skew. Default: 0, which is uniform.",
    ),
];

/// Builds the pattern of one block. `number` is that of the block.
pub(crate) fn pattern(table: &Table, context: &Context<'_>, number: u64) -> Result<Pattern, Error> {
    let Word(word) = table.get("op");
    let mut hosts = context.hosts.listed(table, "hosts", 2)?;
    if let Some(ranks) = table.find::<u64>("ranks") {
        if ranks > hosts.len() as u64 {
            return Err(
                table.error("ranks", format!("at most {}, the number of hosts", hosts.len()))
            );
        }
        hosts.truncate(ranks as usize);
    }
    if hosts.len() < 2 {
        return Err(table.error_found("hosts", "1 host", "at least 2 hosts"));
    }
    let (bytes, ranks): (u64, u64) = (table.get("size"), hosts.len() as u64);
    let (is_moe, is_chain) = (word.starts_with("moe"), word == "chain");
    only(table, "chunks", word, !["all-to-all", "chain"].contains(&word) && !is_moe)?;
    only(table, "skew", word, is_moe)?;
    only(table, "reply", word, is_chain)?;
    let chunks = table.find::<u64>("chunks").unwrap_or(1);
    let parts = if is_chain || word == "tree-all-reduce" { chunks } else { ranks * chunks };
    if bytes < parts {
        let why = if chunks > 1 { ", one byte per chunk" } else { ", one byte per rank" };
        return Err(table.error("size", format!("at least {parts}B{why}")));
    }
    let loads = || expert_loads(bytes, ranks as u32, table.find("skew").unwrap_or(0.0));
    let op = match word {
        "ring-all-reduce" => Op::RingAllReduce,
        "tree-all-reduce" => Op::TreeAllReduce,
        "reduce-scatter" => Op::ReduceScatter,
        "all-gather" => Op::AllGather,
        "all-to-all" => Op::AllToAll,
        "chain" => Op::Chain { reply: table.find("reply").unwrap_or(bytes) },
        _ => Op::Experts { loads: loads(), combine: word == "moe" },
    };
    let compute: Span = table.get("compute");
    let stragglers = job::choice(table, context, number)?(ranks as u32);
    if compute == Span::ZERO && !stragglers.ranks.is_empty() {
        let expected = "compute to be set too: stragglers take longer to compute";
        return Err(table.error("stragglers", expected));
    }
    Ok(Pattern::Collective(Collective {
        op,
        hosts,
        bytes,
        chunks: chunks as u32,
        iterations: table.get::<u64>("iterations") as u32,
        compute,
        stragglers,
    }))
}

/// Refuses a key that the operation does not use.
fn only(table: &Table, key: &str, op: &str, has: bool) -> Result<(), Error> {
    match table.item(key) {
        Some(_) if !has => {
            Err(table.error(key, format!("no {key} with op = {op:?}: remove {key}")))
        }
        _ => Ok(()),
    }
}

/// Refuses collectives and jobs whose messages need more numbers than there are.
pub(crate) fn fit(tables: &[Table], traffic: &[Traffic]) -> Result<(), Error> {
    let (mut jobs, mut messages) = (0, 0);
    for (table, block) in tables.iter().zip(traffic) {
        let Some(of) = block.pattern.schedule() else { continue };
        (jobs, messages) = (jobs + 1, messages + of.numbers());
        if jobs > MOST_JOBS {
            return Err(table.error_found(
                "kind",
                format!("collective or job number {jobs}"),
                format!("at most {MOST_JOBS} collectives and jobs"),
            ));
        }
        if messages > MOST_MESSAGES {
            let found = format!(
                "{messages} messages per iteration in all collectives and jobs up to this one"
            );
            let expected = format!("at most {MOST_MESSAGES}: use fewer ranks or chunks");
            let key = if table.item("op").is_some() { "op" } else { "file" };
            return Err(table.error_found(key, found, expected));
        }
    }
    // A rank that waits for no other may be many iterations ahead, so its numbers must not recur.
    let most = NUMBERS / messages.max(1);
    for (table, block) in tables.iter().zip(traffic) {
        if let Pattern::Job(of) = &block.pattern
            && u64::from(of.iterations) > most
        {
            let expected = format!(
                "at most {most}, because the collectives and jobs of the run have {messages} \
                 operations per iteration"
            );
            return Err(table.error("iterations", expected));
        }
    }
    Ok(())
}
