//! Jobs: operations of ranks that depend on each other.
//!
//! An operation needs a number of things to happen: completions of other operations of its rank,
//! and arrivals of messages. When all have happened it computes, then it sends its messages, then
//! it is complete. An iteration of a rank ends when all its operations are complete, and the next
//! one begins. So the progress of a rank depends only on what has arrived at its host.

use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::fmt;
use core::ops::Range;

use crate::Span;
use crate::collective::{Collective, Position};

/// Operations of the ranks of a job.
pub trait Schedule {
    /// Host of each rank: all different.
    fn hosts(&self) -> &[u32];
    /// Number of iterations.
    fn iterations(&self) -> u32;
    /// Computing time of a rank between two iterations.
    fn computing_time(&self, rank: u32) -> Span;
    /// Number of operations of a rank. They are numbered from 0.
    fn operations(&self, rank: u32) -> u32;
    /// Number of completions, starts and arrivals that an operation waits for.
    fn needs(&self, rank: u32, operation: u32) -> u32;
    /// Computation of an operation, if it has one.
    fn computation(&self, rank: u32, operation: u32) -> Option<Computation>;
    /// Calls `each` for the messages that an operation sends.
    fn messages(&self, rank: u32, operation: u32, each: &mut dyn FnMut(Sent));
    /// Calls `each` for the operations of the rank that wait for this one.
    fn dependents(&self, rank: u32, operation: u32, each: &mut dyn FnMut(Dependent));
    /// Receiving rank and operation of the message with a number; `None` if there is none.
    fn landing_of(&self, number: u32) -> Option<(u32, u32)>;
    /// Upper bound of the message numbers of an iteration.
    fn numbers(&self) -> u64;
    /// Number of compute streams of a rank.
    fn streams(&self) -> u32;
    /// Whether a rank may compute.
    fn computes(&self) -> bool;
    /// Whether a rank may compute after all messages have arrived, so that its end counts, too.
    fn ends_late(&self) -> bool;
}

/// Computation of an operation. A stream computes one operation at a time, in the order in which
/// their needs are satisfied.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Computation {
    /// Duration; may be zero.
    pub span: Span,
    /// Compute stream of the rank.
    pub stream: u32,
}

/// A message that an operation sends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sent {
    /// Number in the iteration.
    pub number: u32,
    /// Receiving rank.
    pub to: u32,
    /// Payload.
    pub bytes: u64,
}

/// An operation that waits for another one of its rank.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Dependent {
    /// The operation.
    pub operation: u32,
    /// It waits for the start of the other one, rather than for its completion.
    pub on_start: bool,
}

/// A job whose operations come from a file.
#[derive(Clone, Debug, PartialEq)]
pub struct Job {
    /// Operations.
    pub program: Arc<Program>,
    /// Host of each rank: all different.
    pub hosts: Vec<u32>,
    /// Number of iterations.
    pub iterations: u32,
}

/// Operations of all ranks. Message numbers are indices of the operations that send them.
#[derive(Clone, PartialEq)]
pub struct Program {
    /// By rank: index of its first operation; at the end the number of all operations.
    pub first: Vec<u32>,
    /// Operations by rank.
    pub operations: Vec<Operation>,
    /// Operations that wait for others, by the operation that they wait for: indices, with
    /// [`Program::ON_START`] if they wait for its start.
    pub dependents: Vec<u32>,
    /// Number of compute streams of a rank.
    pub streams: u32,
    /// Hash of all other fields in hexadecimal.
    pub hash: String,
}

/// An operation of a [`Program`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Operation {
    /// As in [`Schedule::needs`].
    pub needs: u32,
    /// Index of its first dependent. The dependents end where those of the next operation begin.
    pub dependents: u32,
    /// Index of the operation that its message arrives at, if it sends one.
    pub landing: u32,
    /// Compute stream, or [`Operation::NO_STREAM`].
    pub stream: u32,
    /// Duration of its computation.
    pub span: Span,
    /// Size of its message; 0 if it sends none.
    pub bytes: u64,
}

impl Operation {
    /// The operation uses no compute stream.
    pub const NO_STREAM: u32 = u32::MAX;
}

impl Program {
    /// Maximum number of operations.
    pub const MOST_OPERATIONS: u64 = crate::collective::MOST_MESSAGES;
    /// A dependent waits for the start of an operation.
    pub const ON_START: u32 = 1 << 31;

    /// Number of ranks.
    pub fn ranks(&self) -> u32 {
        self.first.len() as u32 - 1
    }

    /// Sizes of the messages of an iteration.
    pub fn sizes(&self) -> impl Iterator<Item = u64> {
        self.operations.iter().map(|operation| operation.bytes).filter(|&bytes| bytes > 0)
    }

    /// Operations that wait for the operation at `index`, as in
    /// [`dependents`](Self::dependents).
    pub fn dependents_of(&self, index: usize) -> &[u32] {
        let end = self.operations.get(index + 1).map(|next| next.dependents as usize);
        let from = self.operations[index].dependents as usize;
        &self.dependents[from..end.unwrap_or(self.dependents.len())]
    }

    fn range(&self, rank: u32) -> Range<u32> {
        self.first[rank as usize]..self.first[rank as usize + 1]
    }

    fn index(&self, rank: u32, operation: u32) -> usize {
        (self.first[rank as usize] + operation) as usize
    }

    /// Rank and number of the operation at `index`.
    pub fn position(&self, index: u32) -> (u32, u32) {
        let rank = self.first.partition_point(|&first| first <= index) as u32 - 1;
        (rank, index - self.first[rank as usize])
    }
}

/// A program may have millions of operations, so only their number and their hash are written.
impl fmt::Debug for Program {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut out = f.debug_struct("Program");
        out.field("ranks", &self.ranks()).field("operations", &self.operations.len());
        out.field("hash", &self.hash).finish()
    }
}

impl Schedule for Job {
    fn hosts(&self) -> &[u32] {
        &self.hosts
    }

    fn iterations(&self) -> u32 {
        self.iterations
    }

    fn computing_time(&self, _: u32) -> Span {
        Span::ZERO
    }

    fn operations(&self, rank: u32) -> u32 {
        self.program.range(rank).len() as u32
    }

    fn needs(&self, rank: u32, operation: u32) -> u32 {
        self.program.operations[self.program.index(rank, operation)].needs
    }

    fn computation(&self, rank: u32, operation: u32) -> Option<Computation> {
        let of = &self.program.operations[self.program.index(rank, operation)];
        let Operation { span, stream, .. } = *of;
        (stream != Operation::NO_STREAM).then_some(Computation { span, stream })
    }

    fn messages(&self, rank: u32, operation: u32, each: &mut dyn FnMut(Sent)) {
        let index = self.program.index(rank, operation);
        let of = &self.program.operations[index];
        if of.bytes > 0 {
            let (to, _) = self.program.position(of.landing);
            each(Sent { number: index as u32, to, bytes: of.bytes });
        }
    }

    fn dependents(&self, rank: u32, operation: u32, each: &mut dyn FnMut(Dependent)) {
        let first = self.program.first[rank as usize];
        for dependent in self.program.dependents_of(self.program.index(rank, operation)) {
            let on_start = dependent & Program::ON_START != 0;
            let operation = (dependent & !Program::ON_START) - first;
            each(Dependent { operation, on_start });
        }
    }

    fn landing_of(&self, number: u32) -> Option<(u32, u32)> {
        let sender = self.program.operations.get(number as usize)?;
        (sender.bytes > 0).then(|| self.program.position(sender.landing))
    }

    fn numbers(&self) -> u64 {
        self.program.operations.len() as u64
    }

    fn streams(&self) -> u32 {
        self.program.streams
    }

    fn computes(&self) -> bool {
        true
    }

    fn ends_late(&self) -> bool {
        true
    }
}

/// The operations of a rank are its rounds, for one chunk after the other.
impl Schedule for Collective {
    fn hosts(&self) -> &[u32] {
        &self.hosts
    }

    fn iterations(&self) -> u32 {
        self.iterations
    }

    fn computing_time(&self, rank: u32) -> Span {
        self.stragglers.computing_time(rank, self.compute)
    }

    fn operations(&self, _: u32) -> u32 {
        self.chunks * self.rounds()
    }

    fn needs(&self, rank: u32, operation: u32) -> u32 {
        let round = operation % self.rounds();
        self.waits(rank, round) + u32::from(round > 0)
    }

    fn computation(&self, _: u32, _: u32) -> Option<Computation> {
        None
    }

    fn messages(&self, rank: u32, operation: u32, each: &mut dyn FnMut(Sent)) {
        let (chunk, round) = (operation / self.rounds(), operation % self.rounds());
        for nth in 0..self.fan_out() {
            let position = Position { rank, round, nth, chunk };
            if let Some((to, bytes)) = self.message(position) {
                each(Sent { number: self.number(position), to, bytes });
            }
        }
    }

    fn dependents(&self, _: u32, operation: u32, each: &mut dyn FnMut(Dependent)) {
        if operation % self.rounds() + 1 < self.rounds() {
            each(Dependent { operation: operation + 1, on_start: false });
        }
    }

    fn landing_of(&self, number: u32) -> Option<(u32, u32)> {
        let position = self.position(number);
        let (rank, round) = self.landing(position)?;
        Some((rank, position.chunk * self.rounds() + round))
    }

    fn numbers(&self) -> u64 {
        Collective::numbers(self)
    }

    fn streams(&self) -> u32 {
        0
    }

    fn computes(&self) -> bool {
        self.compute > Span::ZERO
    }

    fn ends_late(&self) -> bool {
        false
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec;

    /// Rank 0 computes and then sends to rank 2; rank 1 is empty.
    fn program() -> Program {
        let none = Operation {
            needs: 0,
            dependents: 0,
            landing: 0,
            stream: Operation::NO_STREAM,
            span: Span::ZERO,
            bytes: 0,
        };
        Program {
            first: vec![0, 2, 2, 3],
            operations: vec![
                Operation { stream: 0, span: Span::us(3), ..none },
                Operation { needs: 1, dependents: 1, landing: 2, bytes: 7, ..none },
                Operation { needs: 1, dependents: 1, ..none },
            ],
            dependents: vec![1 | Program::ON_START],
            streams: 1,
            hash: "abc".into(),
        }
    }

    #[test]
    fn operations_belong_to_their_ranks() {
        let job = Job { program: Arc::new(program()), hosts: vec![4, 5, 6], iterations: 2 };
        assert_eq!([0, 1, 2].map(|rank| job.operations(rank)), [2, 0, 1]);
        assert_eq!([0, 1, 2].map(|index| job.program.position(index)), [(0, 0), (0, 1), (2, 0)]);
        assert_eq!(job.landing_of(1), Some((2, 0)));
        assert_eq!([0, 2, 3].map(|number| job.landing_of(number)), [None; 3]);
        let mut sent = Vec::new();
        (0..2).for_each(|operation| job.messages(0, operation, &mut |of| sent.push(of)));
        assert_eq!(sent, [Sent { number: 1, to: 2, bytes: 7 }]);
        let mut waiting = Vec::new();
        (0..2).for_each(|operation| job.dependents(0, operation, &mut |of| waiting.push(of)));
        assert_eq!(waiting, [Dependent { operation: 1, on_start: true }]);
        assert_eq!(job.needs(2, 0), 1);
        assert_eq!(job.computation(0, 0), Some(Computation { span: Span::us(3), stream: 0 }));
        assert_eq!(job.computation(2, 0), None);
    }

    #[test]
    fn debug_output_identifies_a_program_briefly() {
        let text = alloc::format!("{:?}", program());
        assert_eq!(text, "Program { ranks: 3, operations: 3, hash: \"abc\" }");
    }
}
