//! Boundary exchange and barrier of the partitions of one process, each on its own thread.
//!
//! All partitions run to the end of a window, hand over the packets that have crossed a boundary,
//! wait at a barrier, take in what they received, and each compute the end of the next window from
//! the same published state. A window starts at the first event anywhere and is so short that no
//! packet can cross a boundary within it. There is one barrier per window (two in a run of several
//! processes). Mailboxes and published state are double-buffered by *phase*: a partition that
//! writes to a buffer again has passed a barrier after every other partition read it.

use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering::*};
use std::sync::{Mutex, MutexGuard};

use tidegate_core::Time;

use crate::measures::probe::Probe;
use crate::naming::Naming;
use crate::parallel::place::Place;
use crate::partition::{Mailbox, Partition};

/// Rounds of busy waiting at a barrier before the thread yields. Used if each partition has a core.
const SPINS: u32 = 4_000;

/// State that a partition publishes to all others at the end of a window. Has a cache line of its
/// own.
#[repr(align(128))]
#[derive(Default)]
struct SharedState {
    /// Next event of the partition, or first landing among the packets that it handed over.
    next: AtomicU64,
    /// Work done since the start of the run interval.
    work: AtomicU64,
    /// Messages that have not completed.
    open: AtomicU64,
    /// Listed messages that have completed.
    listed_done: AtomicU64,
    /// The feed has handed out all flows that start up to this time. Only the first partition sets
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
    /// The feed has handed out all flows that start up to this time.
    pub(crate) known: Time,
}

impl WindowState {
    /// The state of a partition that runs alone.
    pub(crate) fn of<P: Probe, N: Naming>(partition: &Partition<P, N>, known: Time) -> WindowState {
        let (open, listed_done) = (partition.flows.open(), partition.flows.listed_done());
        WindowState { next: partition.next_at(), work: 0, open, listed_done, known }
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
    /// By phase and partition.
    shared: Vec<SharedState>,
    waiting: AtomicUsize,
    barriers: AtomicUsize,
    /// Rounds of busy waiting. 0 if there are more partitions than cores: the partition that is
    /// waited for may need this core.
    spins: u32,
    /// A partition has panicked: the others must not wait for it.
    broken: AtomicBool,
}

impl BoundaryExchange {
    /// For the partitions of this process.
    pub(crate) fn new(place: Place) -> BoundaryExchange {
        let (partitions, all) = (place.partitions, place.partitions * place.ranks);
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        BoundaryExchange {
            partitions,
            all,
            mail: (0..2 * all * partitions).map(|_| Mutex::default()).collect(),
            shared: (0..2 * partitions).map(|_| SharedState::default()).collect(),
            waiting: AtomicUsize::new(0),
            barriers: AtomicUsize::new(0),
            spins: if partitions <= cores { SPINS } else { 0 },
            broken: AtomicBool::new(false),
        }
    }

    /// Number of partitions in this process.
    pub(crate) fn partitions(&self) -> usize {
        self.partitions
    }

    /// Mailbox from partition `from` of this process to partition `to`, numbered among all
    /// processes.
    pub(crate) fn mail(&self, phase: usize, from: usize, to: usize) -> MutexGuard<'_, Mailbox> {
        let place = (phase * self.all + to) * self.partitions + from;
        // A thread that panicked while it held the lock ends the run anyway.
        self.mail[place].lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    /// Publishes the state of a partition.
    pub(crate) fn publish(&self, phase: usize, partition: usize, own: WindowState) {
        let shared = &self.shared[phase * self.partitions + partition];
        shared.next.store(own.next.as_ps(), Relaxed);
        shared.work.store(own.work, Relaxed);
        shared.open.store(own.open, Relaxed);
        shared.listed_done.store(own.listed_done, Relaxed);
        shared.known.store(own.known.as_ps(), Relaxed);
    }

    /// Waits at the barrier for all other partitions of this process. Their earlier writes are
    /// visible afterwards.
    ///
    /// # Panics
    /// If another partition has panicked.
    pub(crate) fn wait(&self) {
        let barrier = self.barriers.load(Acquire);
        if self.waiting.fetch_add(1, AcqRel) + 1 == self.partitions {
            self.waiting.store(0, Relaxed);
            self.barriers.store(barrier.wrapping_add(1), Release);
            return;
        }
        let mut rounds = 0u32;
        while self.barriers.load(Acquire) == barrier {
            assert!(!self.broken.load(Relaxed), "another partition of the run has panicked");
            rounds = rounds.saturating_add(1);
            if rounds < self.spins { std::hint::spin_loop() } else { std::thread::yield_now() }
        }
    }

    /// Combined state of all partitions in this process.
    pub(crate) fn collect(&self, phase: usize) -> WindowState {
        let all = &self.shared[phase * self.partitions..][..self.partitions];
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

/// Ends the barrier waits of other partitions if this partition panics.
pub(crate) struct PanicGuard<'a>(pub(crate) &'a BoundaryExchange);

impl Drop for PanicGuard<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.0.broken.store(true, Relaxed);
        }
    }
}
