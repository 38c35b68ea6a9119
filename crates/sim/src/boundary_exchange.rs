//! Parts of a fabric on threads beside each other, in one process.
//!
//! All parts run to the end of a window, hand each other what has crossed a boundary, meet, take it
//! in, and find out by themselves, each from the same figures, where the next window ends. A window
//! begins with the first thing that happens anywhere and is as long as no packet can cross a
//! boundary within. There is one meeting a window: what is handed over and told lies in one of two
//! places in turn, and whoever writes to a place again has met everybody who read it.

use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering::*};
use std::sync::{Mutex, MutexGuard};

use tidegate_core::Time;

use crate::naming::Naming;
use crate::partition::{Mailbox, Partition};
use crate::probe::Probe;
use crate::ranks::Place;

/// Rounds of a meeting that are waited through without giving way to other threads, where each
/// partition has a core.
const SPINS: u32 = 4_000;

/// What a partition tells all others at the end of a window. A cache line of its own.
#[repr(align(128))]
#[derive(Default)]
struct SharedState {
    /// When something happens next at the partition, or what it handed over lands.
    next: AtomicU64,
    /// Work done since the start.
    work: AtomicU64,
    /// Messages that have not finished.
    open: AtomicU64,
    /// Listed messages that have finished.
    listed_done: AtomicU64,
    /// Flows that begin until then have been handed out; only the first partition tells.
    known: AtomicU64,
}

/// What all partitions have told.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct WindowState {
    /// When something happens next, anywhere.
    pub(crate) next: Time,
    /// Work done by all.
    pub(crate) work: u64,
    /// Messages that have not finished, anywhere.
    pub(crate) open: u64,
    /// Listed messages that have finished, anywhere.
    pub(crate) listed_done: u64,
    /// Flows that begin until then have been handed out.
    pub(crate) known: Time,
}

impl WindowState {
    /// What a partition that is alone tells itself.
    pub(crate) fn of<P: Probe, N: Naming>(partition: &Partition<P, N>, known: Time) -> WindowState {
        let (open, listed_done) = (partition.flows.open(), partition.flows.listed_done());
        WindowState { next: partition.next_at(), work: 0, open, listed_done, known }
    }

    /// What others have told too.
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

/// Where parts meet.
pub(crate) struct BoundaryExchange {
    partitions: usize,
    /// Those of other processes too.
    all: usize,
    /// By turn, receiver among all partitions, and sender.
    mail: Vec<Mutex<Mailbox>>,
    /// By turn and part.
    shared: Vec<SharedState>,
    arrived: AtomicUsize,
    meetings: AtomicUsize,
    /// Rounds without giving way. With more partitions than cores there are none: whoever is waited
    /// for may need this core.
    spins: u32,
    /// A part has panicked: nobody waits for it.
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
            arrived: AtomicUsize::new(0),
            meetings: AtomicUsize::new(0),
            spins: if partitions <= cores { SPINS } else { 0 },
            broken: AtomicBool::new(false),
        }
    }

    /// Parts that meet.
    pub(crate) fn partitions(&self) -> usize {
        self.partitions
    }

    /// What `from` hands to `to`, which is its number among all partitions.
    pub(crate) fn mail(&self, phase: usize, from: usize, to: usize) -> MutexGuard<'_, Mailbox> {
        let place = (phase * self.all + to) * self.partitions + from;
        // Whoever panicked with it in hand ends the run.
        self.mail[place].lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    /// Partition `part` tells the others.
    pub(crate) fn publish(&self, phase: usize, partition: usize, own: WindowState) {
        let shared = &self.shared[phase * self.partitions + partition];
        shared.next.store(own.next.as_ps(), Relaxed);
        shared.work.store(own.work, Relaxed);
        shared.open.store(own.open, Relaxed);
        shared.listed_done.store(own.listed_done, Relaxed);
        shared.known.store(own.known.as_ps(), Relaxed);
    }

    /// Waits for all others. What they wrote before is there afterwards.
    ///
    /// # Panics
    /// Where another partition has panicked.
    pub(crate) fn meet(&self) {
        let meeting = self.meetings.load(Acquire);
        if self.arrived.fetch_add(1, AcqRel) + 1 == self.partitions {
            self.arrived.store(0, Relaxed);
            self.meetings.store(meeting.wrapping_add(1), Release);
            return;
        }
        let mut rounds = 0u32;
        while self.meetings.load(Acquire) == meeting {
            assert!(!self.broken.load(Relaxed), "another part of the run has failed");
            rounds = rounds.saturating_add(1);
            if rounds < self.spins { std::hint::spin_loop() } else { std::thread::yield_now() }
        }
    }

    /// What all in this process have told.
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

/// Lets no other partition wait for one that has panicked.
pub(crate) struct PanicGuard<'a>(pub(crate) &'a BoundaryExchange);

impl Drop for PanicGuard<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.0.broken.store(true, Relaxed);
        }
    }
}
