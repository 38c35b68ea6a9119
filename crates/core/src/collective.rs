//! Collective operations, as messages that depend on each other.
//!
//! Every rank passes the same rounds in order. In a round it waits for the messages that arrive in
//! it, and sends its own when all of them have been delivered. So the start of a message depends
//! only on what has arrived at its sender. A block of data may be divided into chunks, which pass
//! the rounds independently.

use alloc::vec::Vec;
use core::fmt;

use crate::Span;

/// A collective operation among some hosts, with a number of iterations.
#[derive(Clone, PartialEq)]
pub struct Collective {
    /// Operation.
    pub op: Op,
    /// Host of each rank: at least two, all different.
    pub hosts: Vec<u32>,
    /// Bytes of a rank's data, as counted by nccl-tests: the size of the larger of its two buffers.
    pub bytes: u64,
    /// Number of chunks per block.
    pub chunks: u32,
    /// Number of iterations.
    pub iterations: u32,
    /// Computing time of a rank between two iterations.
    pub compute: Span,
    /// Ranks that take longer to compute.
    pub stragglers: Stragglers,
}

/// Ranks that take longer to compute than others.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Stragglers {
    /// These ranks, rising.
    pub ranks: Vec<u32>,
    /// Their computing time over that of the others.
    pub factor: f64,
}

impl Stragglers {
    /// Computing time of a rank, if others need `span`.
    pub fn computing_time(&self, rank: u32, span: Span) -> Span {
        match self.ranks.binary_search(&rank) {
            Ok(_) => span.scale(self.factor),
            Err(_) => span,
        }
    }
}

/// Stragglers are written only if there are any, so that the hashes of plans without them stay the
/// same.
impl fmt::Debug for Collective {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Collective { op, hosts, bytes, chunks, iterations, compute, stragglers } = self;
        let mut out = f.debug_struct("Collective");
        out.field("op", op).field("hosts", hosts).field("bytes", bytes).field("chunks", chunks);
        out.field("iterations", iterations).field("compute", compute);
        if !stragglers.ranks.is_empty() {
            out.field("stragglers", stragglers);
        }
        out.finish()
    }
}

/// Operation and algorithm.
#[derive(Clone, Debug, PartialEq)]
pub enum Op {
    /// All-reduce as reduce-scatter and all-gather around a ring (Patarasuk and Yuan, "Bandwidth
    /// optimal all-reduce algorithms for clusters of workstations", JPDC 2009).
    RingAllReduce,
    /// All-reduce up a binary tree to rank 0 and down again; the parent of rank r is (r - 1) / 2.
    TreeAllReduce,
    /// Reduce-scatter around a ring.
    ReduceScatter,
    /// All-gather around a ring.
    AllGather,
    /// Every rank sends a block to every other rank.
    AllToAll,
    /// One layer of a mixture of experts.
    Experts {
        /// By rank: bytes that every rank has for the experts of that rank.
        loads: Vec<u64>,
        /// Results return on the same way.
        combine: bool,
    },
    /// A request along a chain of ranks. Each host sends a request to the next one before it
    /// replies to the previous one.
    Chain {
        /// Size of a reply in bytes.
        reply: u64,
    },
}

/// Names of the operations in scenario files and results.
pub const OPS: [&str; 8] = [
    "ring-all-reduce",
    "tree-all-reduce",
    "reduce-scatter",
    "all-gather",
    "all-to-all",
    "moe-dispatch",
    "moe",
    "chain",
];

/// Maximum number of messages of one iteration of all collectives of a run, counted by
/// [`Collective::numbers`].
pub const MOST_MESSAGES: u64 = 1 << 24;
/// Maximum number of iterations of a collective.
pub const MOST_ITERATIONS: u64 = 1 << 18;
/// Maximum number of collectives in a run.
pub const MOST_JOBS: u64 = 1 << 10;

/// Number of message numbers that a host has for collectives and jobs.
pub const NUMBERS: u64 = 1 << 30;

/// Position of a message in an iteration.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Position {
    /// Sending rank.
    pub rank: u32,
    /// Round in which it is sent.
    pub round: u32,
    /// Index among the messages of that round.
    pub nth: u32,
    /// Chunk.
    pub chunk: u32,
}

impl Collective {
    /// Number of ranks.
    pub fn ranks(&self) -> u32 {
        self.hosts.len() as u32
    }

    /// One of [`OPS`].
    pub fn name(&self) -> &'static str {
        OPS[match self.op {
            Op::RingAllReduce => 0,
            Op::TreeAllReduce => 1,
            Op::ReduceScatter => 2,
            Op::AllGather => 3,
            Op::AllToAll => 4,
            Op::Experts { combine: false, .. } => 5,
            Op::Experts { combine: true, .. } => 6,
            Op::Chain { .. } => 7,
        }]
    }

    /// Number of rounds in which a rank waits or sends.
    pub fn rounds(&self) -> u32 {
        self.sending_rounds() + self.lag()
    }

    /// Number of rounds in which a rank sends; these are the first ones.
    fn sending_rounds(&self) -> u32 {
        let others = self.ranks() - 1;
        match self.op {
            Op::RingAllReduce => 2 * others,
            Op::ReduceScatter | Op::AllGather => others,
            Op::AllToAll | Op::Experts { combine: false, .. } => 1,
            // Up and down; to the experts and back; requests and replies.
            Op::TreeAllReduce | Op::Experts { combine: true, .. } | Op::Chain { .. } => 2,
        }
    }

    /// Rounds between sending and arrival of a message. In a tree or chain, a message arrives in
    /// the round in which it is sent.
    fn lag(&self) -> u32 {
        u32::from(!matches!(self.op, Op::TreeAllReduce | Op::Chain { .. }))
    }

    /// Maximum number of messages of a chunk that a rank sends in a round.
    pub fn fan_out(&self) -> u32 {
        match self.op {
            Op::RingAllReduce | Op::ReduceScatter | Op::AllGather | Op::Chain { .. } => 1,
            Op::TreeAllReduce => 2,
            Op::AllToAll | Op::Experts { .. } => self.ranks() - 1,
        }
    }

    /// Number of messages of a chunk that `rank` waits for in `round`.
    pub fn waits(&self, rank: u32, round: u32) -> u32 {
        match self.op {
            Op::TreeAllReduce if round == 0 => {
                children(rank).filter(|c| *c < self.ranks()).count() as u32
            }
            Op::TreeAllReduce => u32::from(rank > 0),
            Op::Chain { .. } if round == 0 => u32::from(rank > 0),
            Op::Chain { .. } => u32::from(rank + 1 < self.ranks()),
            _ if round == 0 => 0,
            Op::RingAllReduce | Op::ReduceScatter | Op::AllGather => 1,
            Op::AllToAll | Op::Experts { .. } => self.ranks() - 1,
        }
    }

    /// The message at `position`: receiving rank and bytes; `None` if there is none.
    pub fn message(&self, position: Position) -> Option<(u32, u64)> {
        let Position { rank, round, nth, chunk } = position;
        if round >= self.sending_rounds() || nth >= self.fan_out() {
            return None;
        }
        let ranks = self.ranks();
        let block = |number| share(self.bytes, ranks, number);
        // Each rank starts with its neighbour, so no receiver is the first target of all.
        let other = (rank + 1 + nth) % ranks;
        let (to, bytes) = match &self.op {
            // A block starts at its own rank and is forwarded.
            Op::RingAllReduce | Op::ReduceScatter | Op::AllGather => {
                (other, block((rank + ranks - round % ranks) % ranks))
            }
            Op::TreeAllReduce if round == 0 => {
                ((nth == 0 && rank > 0).then(|| (rank - 1) / 2)?, self.bytes)
            }
            Op::TreeAllReduce => {
                (children(rank).nth(nth as usize).filter(|c| *c < ranks)?, self.bytes)
            }
            Op::AllToAll => (other, block(other)),
            Op::Chain { .. } if round == 0 => ((rank + 1 < ranks).then_some(other)?, self.bytes),
            Op::Chain { reply } => (rank.checked_sub(1)?, *reply),
            Op::Experts { loads, .. } => {
                let expert = if round == 0 { other } else { rank };
                (other, loads[expert as usize])
            }
        };
        Some((to, share(bytes, self.chunks, chunk)))
    }

    /// Receiving rank and round of the message at `position`.
    pub fn landing(&self, position: Position) -> Option<(u32, u32)> {
        self.message(position).map(|(to, _)| (to, position.round + self.lag()))
    }

    /// Upper bound of the message numbers of an iteration.
    pub fn numbers(&self) -> u64 {
        let in_round = u64::from(self.fan_out()) * u64::from(self.chunks);
        u64::from(self.ranks()) * u64::from(self.sending_rounds()) * in_round
    }

    /// Number of the message at `position`. The numbers of a rank are consecutive.
    pub fn number(&self, position: Position) -> u32 {
        let Position { rank, round, nth, chunk } = position;
        let round = rank * self.sending_rounds() + round;
        (round * self.fan_out() + nth) * self.chunks + chunk
    }

    /// Position of the message with this number.
    pub fn position(&self, number: u32) -> Position {
        let (rest, chunk) = (number / self.chunks, number % self.chunks);
        let (rest, nth) = (rest / self.fan_out(), rest % self.fan_out());
        let rounds = self.sending_rounds();
        Position { rank: rest / rounds, round: rest % rounds, nth, chunk }
    }

    /// Number of messages in an iteration.
    pub fn messages(&self) -> u64 {
        self.sizes().iter().map(|(_, count)| count).sum()
    }

    /// Sizes of the messages of an iteration, accurate to a byte or two, each with the number of
    /// messages.
    pub fn sizes(&self) -> Vec<(u64, u64)> {
        let (ranks, others) = (u64::from(self.ranks()), u64::from(self.ranks() - 1));
        let (rounds, chunks) = (u64::from(self.sending_rounds()), u64::from(self.chunks));
        let sizes = |bytes: &[u64], each: u64| {
            bytes.iter().map(|bytes| ((bytes / chunks).max(1), each * chunks)).collect()
        };
        match &self.op {
            Op::RingAllReduce | Op::ReduceScatter | Op::AllGather => {
                sizes(&[self.bytes / ranks], ranks * rounds)
            }
            Op::TreeAllReduce => sizes(&[self.bytes], others * rounds),
            Op::AllToAll => sizes(&[self.bytes / ranks], ranks * others),
            Op::Experts { loads, .. } => sizes(loads, others * rounds),
            Op::Chain { reply } => sizes(&[self.bytes, *reply], others),
        }
    }

    /// Bus bandwidth over algorithm bandwidth: the least part of a rank's data that its link
    /// carries in one direction. As defined by nccl-tests (`doc/PERFORMANCE.md` there). For a
    /// mixture of experts the value is that of the equivalent all-to-alls, which is exact if the
    /// experts have equal loads. A chain has none.
    pub fn bus_factor(&self) -> Option<f64> {
        let others = f64::from(self.ranks() - 1) / f64::from(self.ranks());
        match self.op {
            Op::RingAllReduce | Op::TreeAllReduce | Op::Experts { combine: true, .. } => {
                Some(2.0 * others)
            }
            Op::ReduceScatter | Op::AllGather | Op::AllToAll | Op::Experts { .. } => Some(others),
            Op::Chain { .. } => None,
        }
    }
}

/// Bytes that each rank has for the experts of each of `ranks`, `bytes` in total. The popularity of
/// rank r is (r + 1) to the power of minus `skew`. At least one byte each, because an empty load
/// must be announced, too.
pub fn expert_loads(bytes: u64, ranks: u32, skew: f64) -> Vec<u64> {
    let weight = |rank: u32| crate::math::pow(f64::from(rank + 1), -skew);
    let all: f64 = (0..ranks).map(weight).sum();
    let load = |rank| crate::math::round(bytes as f64 * weight(rank) / all) as u64;
    (0..ranks).map(|rank| load(rank).max(1)).collect()
}

/// Children of `rank` in an unbounded binary tree.
fn children(rank: u32) -> impl Iterator<Item = u32> {
    2 * rank + 1..=2 * rank + 2
}

/// Size of part `number` if `whole` bytes are divided into `count` parts. Parts differ by at most
/// one byte, and have at least one.
pub fn share(whole: u64, count: u32, number: u32) -> u64 {
    let (each, rest) = (whole / count as u64, whole % count as u64);
    (each + u64::from((number as u64) < rest)).max(1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::{vec, vec::Vec};

    fn all(ranks: u32, bytes: u64, chunks: u32) -> Vec<Collective> {
        let loads = expert_loads(bytes, ranks, 1.0);
        let ops = [
            Op::RingAllReduce,
            Op::TreeAllReduce,
            Op::ReduceScatter,
            Op::AllGather,
            Op::AllToAll,
            Op::Experts { loads: loads.clone(), combine: false },
            Op::Experts { loads, combine: true },
            Op::Chain { reply: 500 },
        ];
        let of = |op| {
            let hosts = (0..ranks).collect();
            let (compute, stragglers) = (Span::ZERO, Stragglers::default());
            Collective { op, hosts, bytes, chunks, iterations: 1, compute, stragglers }
        };
        ops.into_iter().map(of).collect()
    }

    /// All messages, by number.
    fn messages(of: &Collective) -> Vec<(Position, u32, u64)> {
        (0..of.numbers() as u32)
            .filter_map(|number| {
                let position = of.position(number);
                assert_eq!(of.number(position), number);
                of.message(position).map(|(to, bytes)| (position, to, bytes))
            })
            .collect()
    }

    #[test]
    fn every_rank_waits_for_exactly_its_messages() {
        for ranks in [2, 3, 4, 7, 16] {
            for of in all(ranks, 10_007, 3) {
                let rounds = of.rounds() as usize;
                let mut landed = vec![0; ranks as usize * rounds * 3];
                let at = |rank: u32, round: u32, chunk: u32| {
                    (rank as usize * rounds + round as usize) * 3 + chunk as usize
                };
                let messages = messages(&of);
                assert_eq!(messages.len() as u64, of.messages(), "{:?}", of.op);
                for &(position, to, bytes) in &messages {
                    assert!(to != position.rank && bytes > 0);
                    let (rank, round) = of.landing(position).unwrap();
                    assert_eq!(rank, to);
                    landed[at(rank, round, position.chunk)] += 1;
                }
                for rank in 0..ranks {
                    for round in 0..of.rounds() {
                        let waits = of.waits(rank, round);
                        assert!((0..3).all(|chunk| landed[at(rank, round, chunk)] == waits));
                    }
                }
            }
        }
    }

    /// Plan hashes are computed from this text.
    #[test]
    fn debug_output_has_stragglers_only_if_any() {
        let mut of = all(2, 10, 1).swap_remove(0);
        let text = "Collective { op: RingAllReduce, hosts: [0, 1], bytes: 10, chunks: 1, \
                    iterations: 1, compute: Span(0)";
        assert_eq!(alloc::format!("{of:?}"), alloc::format!("{text} }}"));
        of.stragglers = Stragglers { ranks: vec![1], factor: 1.5 };
        let stragglers = "stragglers: Stragglers { ranks: [1], factor: 1.5 }";
        assert_eq!(alloc::format!("{of:?}"), alloc::format!("{text}, {stragglers} }}"));
        let times = [0, 1].map(|rank| of.stragglers.computing_time(rank, Span::us(2)));
        assert_eq!(times, [Span::us(2), Span::us(3)]);
    }

    #[test]
    fn bytes_match_the_textbooks() {
        // 7 ranks with 10,007 bytes each: total bytes sent, by operation.
        let sent = |of: &Collective| messages(of).iter().map(|(.., bytes)| bytes).sum::<u64>();
        let all = all(7, 10_007, 3);
        assert_eq!(sent(&all[0]), 2 * 6 * 10_007);
        assert_eq!(sent(&all[1]), 2 * 6 * 10_007);
        assert_eq!(sent(&all[2]), 6 * 10_007);
        assert_eq!(sent(&all[3]), 6 * 10_007);
        assert_eq!(sent(&all[4]), 6 * 10_007);
        let Op::Experts { loads, .. } = &all[5].op else { panic!() };
        assert_eq!(sent(&all[5]), 6 * loads.iter().sum::<u64>());
        assert_eq!(sent(&all[6]), 2 * sent(&all[5]));
        assert_eq!(sent(&all[7]), 6 * (10_007 + 500));
        for of in &all {
            let listed: u64 = of.sizes().iter().map(|(bytes, count)| bytes * count).sum();
            assert!(sent(of) - listed < 2 * of.messages(), "{:?}", of.op);
        }
    }

    /// After reduce-scatter and all-gather around a ring, every rank has every block, reduced over
    /// all ranks. The test tracks the set of ranks that have added to a block.
    #[test]
    fn ring_reduces_every_block_at_every_rank() {
        // Nine bytes form blocks of 2, 2, 2, 2 and 1.
        let (ranks, of) = (5u32, &all(5, 9, 1)[0]);
        let mut has = vec![vec![0u32; 5]; 5];
        (0..5).for_each(|rank| has[rank] = vec![1 << rank; 5]);
        for round in 0..2 * (ranks - 1) {
            let before = has.clone();
            for rank in 0..ranks {
                let block = ((rank + ranks - round % ranks) % ranks) as usize;
                let (to, bytes) = of.message(Position { rank, round, nth: 0, chunk: 0 }).unwrap();
                assert_eq!(bytes, [2, 2, 2, 2, 1][block]);
                has[to as usize][block] |= before[rank as usize][block];
            }
        }
        assert!(has.iter().flatten().all(|&adders| adders == 0b11111), "{has:?}");
    }

    #[test]
    fn expert_loads_follow_their_skew() {
        assert_eq!(expert_loads(100, 4, 0.0), [25; 4]);
        // 1, 1/2, 1/3, 1/4: 25/12 in total.
        assert_eq!(expert_loads(2_500, 4, 1.0), [1_200, 600, 400, 300]);
        assert_eq!(expert_loads(4, 4, 10.0), [4, 1, 1, 1], "at least one byte");
    }

    #[test]
    fn block_size_depends_on_the_receiver() {
        // Seven bytes form blocks of 2, 2, 2 and 1.
        let of = &all(4, 7, 1)[4];
        let to_last: Vec<u64> =
            messages(of).iter().filter(|(_, to, _)| *to == 3).map(|(.., bytes)| *bytes).collect();
        assert_eq!(to_last, [1; 3], "the block of the last rank is shorter");
        let of = &all(4, 2_500, 1)[6];
        for (Position { rank, round, .. }, to, bytes) in messages(of) {
            // The first round carries the input of the receiver's experts, the second their
            // results.
            let expert = if round == 0 { to } else { rank };
            assert_eq!(bytes, [1_200, 600, 400, 300][expert as usize]);
        }
    }

    #[test]
    fn bus_factor_matches_nccl_tests() {
        let factors: Vec<Option<f64>> = all(4, 100, 1).iter().map(Collective::bus_factor).collect();
        let (once, twice) = (Some(0.75), Some(1.5));
        assert_eq!(factors, [twice, twice, once, once, once, once, twice, None]);
    }
}
