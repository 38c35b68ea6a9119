//! Boundary exchange of the partitions of one process, on one or more threads.
//!
//! Each thread runs its partitions to the end of a window, puts the packets that have started on
//! links to other partitions into mailboxes, and publishes its state. After a barrier, it takes the
//! packets for its own partitions, and computes the end of the next window from the state of all
//! threads. That window starts at the earliest pending event of all partitions, and is so short
//! that no packet that starts in it can land in another partition before its end. There is one
//! barrier per window (two in a run of several processes). Mailboxes and published state are
//! double-buffered by
//! *phase*. Between two writes to the same buffer there is a barrier that a thread reaches only
//! after it has read the buffer.

use std::sync::atomic::{AtomicU64, Ordering::*};
use std::sync::{Mutex, MutexGuard};

use tidegate_core::Time;

use crate::measures::probe::Probe;
use crate::naming::Naming;
use crate::parallel::barrier::Barrier;
use crate::parallel::process_partitions::ProcessPartitions;
use crate::partition::{Mailbox, Partition};

/// State that a thread publishes to all others at the end of a window. Has a cache line of its own.
#[repr(align(128))]
#[derive(Default)]
struct SharedState {
    /// Next event of its partitions, or first landing among the packets that they sent to others.
    next: AtomicU64,
    /// Work done since the start of the run interval.
    work: AtomicU64,
    /// Messages that have not completed.
    open: AtomicU64,
    /// Listed messages that have completed.
    listed_done: AtomicU64,
    /// The feed has distributed all flows that start up to this time. Only the first thread sets
    /// it.
    known: AtomicU64,
}

/// Combined state of all partitions.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct WindowState {
    /// Next event anywhere.
    pub(crate) next: Time,
    /// Work done by all partitions.
    pub(crate) work: u64,
    /// Messages that have not completed, anywhere.
    pub(crate) open: u64,
    /// Listed messages that have completed, in all partitions.
    pub(crate) listed_done: u64,
    /// The feed has distributed all flows that start up to this time.
    pub(crate) known: Time,
}

impl WindowState {
    /// The state of a partition, without its work.
    pub(crate) fn of<P: Probe, N: Naming>(partition: &Partition<P, N>, known: Time) -> WindowState {
        let (open, listed_done) = (partition.flows.open(), partition.listed_done());
        WindowState { next: partition.next_at(), work: 0, open, listed_done, known }
    }

    /// The state of no partition.
    pub(crate) fn none() -> WindowState {
        WindowState { next: Time::NEVER, known: Time::NEVER, ..WindowState::default() }
    }

    /// Combines the states of two sets of partitions.
    pub(crate) fn with(&self, others: &WindowState) -> WindowState {
        WindowState {
            next: self.next.min(others.next),
            work: self.work + others.work,
            open: self.open + others.open,
            listed_done: self.listed_done + others.listed_done,
            known: self.known.min(others.known),
        }
    }
}

/// Mailboxes, published state and barrier of the partitions of one process.
pub(crate) struct BoundaryExchange {
    partitions: usize,
    /// Number of partitions in all processes.
    all: usize,
    /// By phase, receiver among all partitions, and sender.
    mail: Vec<Mutex<Mailbox>>,
    /// By phase and thread.
    shared: Vec<SharedState>,
    pub(crate) barrier: Barrier,
}

impl BoundaryExchange {
    /// For the partitions of this process.
    pub(crate) fn new(process: ProcessPartitions) -> BoundaryExchange {
        let (partitions, all) = (process.partitions, process.partitions * process.ranks);
        BoundaryExchange {
            partitions,
            all,
            mail: (0..2 * all * partitions).map(|_| Mutex::default()).collect(),
            shared: (0..2 * partitions).map(|_| SharedState::default()).collect(),
            barrier: Barrier::default(),
        }
    }

    /// Number of partitions in this process.
    pub(crate) fn partitions(&self) -> usize {
        self.partitions
    }

    /// Mailbox from partition `from` of this process to partition `to`, numbered among all
    /// processes.
    pub(crate) fn mail(&self, phase: usize, from: usize, to: usize) -> MutexGuard<'_, Mailbox> {
        let index = (phase * self.all + to) * self.partitions + from;
        // A thread that panicked while it held the lock ends the run anyway.
        self.mail[index].lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    /// Publishes the combined state of a thread's partitions.
    pub(crate) fn publish(&self, phase: usize, thread: usize, own: WindowState) {
        let shared = &self.shared[phase * self.partitions + thread];
        shared.next.store(own.next.as_ps(), Relaxed);
        shared.work.store(own.work, Relaxed);
        shared.open.store(own.open, Relaxed);
        shared.listed_done.store(own.listed_done, Relaxed);
        shared.known.store(own.known.as_ps(), Relaxed);
    }

    /// Combined state of all partitions in this process, which run on `threads`.
    pub(crate) fn collect(&self, phase: usize, threads: usize) -> WindowState {
        let all = &self.shared[phase * self.partitions..][..threads];
        let sum = |of: fn(&SharedState) -> &AtomicU64| {
            all.iter().map(|shared| of(shared).load(Relaxed)).sum()
        };
        let least = |of: fn(&SharedState) -> &AtomicU64| {
            Time::ps(all.iter().map(|shared| of(shared).load(Relaxed)).min().unwrap_or(u64::MAX))
        };
        WindowState {
            next: least(|shared| &shared.next),
            work: sum(|shared| &shared.work),
            open: sum(|shared| &shared.open),
            listed_done: sum(|shared| &shared.listed_done),
            known: least(|shared| &shared.known),
        }
    }
}
