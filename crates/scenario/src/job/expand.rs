//! Collectives of Chakra traces, as operations of their ranks.
//!
//! The algorithms are those of the kind `collective`. A rank has an operation for each round, which
//! waits for the messages of the round and sends the only one of the next. If it sends several,
//! each has an operation of its own, which follows.

use std::ops::Range;

use tidegate_core::Span;
use tidegate_core::collective::{Collective, Op, Position, Stragglers};

use super::chakra::Operation;
use super::draft::Draft;

/// Algorithm of all-reduces.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum AllReduce {
    Ring,
    Tree,
}

/// A collective among the ranks of a group, counted from 0.
#[derive(PartialEq)]
pub(super) struct Expansion {
    of: Collective,
    rounds: Range<u32>,
    /// By rank of the group: its first operation, once it is known.
    bases: Vec<Option<u32>>,
}

impl Expansion {
    /// `bytes` are those that a rank contributes. `None` if the operation is not supported.
    pub(super) fn new(
        operation: Operation,
        bytes: u64,
        ranks: u32,
        all_reduce: AllReduce,
    ) -> Option<Expansion> {
        let tree = Op::TreeAllReduce;
        let ring = if all_reduce == AllReduce::Ring { Op::RingAllReduce } else { tree.clone() };
        let (op, bytes, rounds) = match operation {
            Operation::AllReduce => (ring, bytes, None),
            Operation::AllGather => (Op::AllGather, bytes.checked_mul(ranks.into())?, None),
            Operation::ReduceScatter | Operation::ReduceScatterBlock => {
                (Op::ReduceScatter, bytes, None)
            }
            Operation::AllToAll => (Op::AllToAll, bytes, None),
            // Down the tree, up the tree, and an all-reduce of nothing.
            Operation::Broadcast => (tree, bytes, Some(1..2)),
            Operation::Reduce => (tree, bytes, Some(0..1)),
            Operation::Barrier => (tree, 1, None),
            Operation::Gather | Operation::Scatter => return None,
        };
        let (hosts, stragglers) = ((0..ranks).collect(), Stragglers::default());
        let (chunks, iterations, compute) = (1, 1, Span::ZERO);
        let of = Collective { op, hosts, bytes, chunks, iterations, compute, stragglers };
        let rounds = rounds.unwrap_or(0..of.rounds());
        Some(Expansion { of, rounds, bases: vec![None; ranks as usize] })
    }

    /// Whether another rank's call is one of the same collective.
    pub(super) fn matches(&self, other: &Expansion) -> bool {
        (&self.of, &self.rounds) == (&other.of, &other.rounds)
    }

    /// The first rank of the group that has not called it.
    pub(super) fn missing(&self) -> Option<usize> {
        self.bases.iter().position(Option::is_none)
    }

    /// Number of operations of a rank.
    pub(super) fn operations(&self, rank: u32) -> u64 {
        self.rounds.clone().map(|round| 1 + self.extra(rank, round)).sum()
    }

    /// Adds the operations of a rank. Returns the first and the last one: the collective begins
    /// with one and is complete with the other.
    pub(super) fn add(&mut self, draft: &mut Draft, rank: u32, place: u64) -> (u32, u32) {
        let first = draft.len();
        self.bases[rank as usize] = Some(first);
        let mut last = first;
        for round in self.rounds.clone() {
            let operation = draft.wait(place);
            if operation > first {
                draft.follow(last, operation);
            }
            last = operation;
            for _ in 0..self.extra(rank, round) {
                let send = draft.wait(place);
                draft.follow(operation, send);
            }
        }
        (first, last)
    }

    /// Lets the operations of all ranks send their messages.
    pub(super) fn link(&self, draft: &mut Draft) {
        for rank in 0..self.of.ranks() {
            for round in self.rounds.clone() {
                let from = self.operation(rank, round);
                let extra = self.extra(rank, round);
                for (nth, (position, bytes)) in (0..).zip(self.sent(rank, round)) {
                    let sender = if extra == 0 { from } else { from + 1 + nth };
                    let Some((to, landing)) = self.of.landing(position) else { continue };
                    draft.link(sender, self.operation(to, landing), bytes);
                }
            }
        }
    }

    /// Messages that a rank sends in a round.
    fn sent(&self, rank: u32, round: u32) -> impl Iterator<Item = (Position, u64)> {
        let all = if self.of.ranks() > 1 { 0..self.of.fan_out() } else { 0..0 };
        all.filter_map(move |nth| {
            let position = Position { rank, round, nth, chunk: 0 };
            self.of.message(position).map(|(_, bytes)| (position, bytes))
        })
    }

    /// Number of operations of a rank and round that only send.
    fn extra(&self, rank: u32, round: u32) -> u64 {
        if self.of.ranks() < 2 || self.of.fan_out() == 1 {
            return 0;
        }
        match self.sent(rank, round).count() as u64 {
            1 => 0,
            several => several,
        }
    }

    /// The operation of a rank that waits for the messages of a round.
    fn operation(&self, rank: u32, round: u32) -> u32 {
        let base = self.bases[rank as usize].unwrap_or_default();
        if self.of.fan_out() == 1 {
            return base + round - self.rounds.start;
        }
        let before = (self.rounds.start..round).map(|round| 1 + self.extra(rank, round) as u32);
        base + before.sum::<u32>()
    }
}
