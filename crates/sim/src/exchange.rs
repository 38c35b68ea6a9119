//! Parts of a fabric on threads beside each other, in one process.
//!
//! All parts run to the end of a window, hand each other what has crossed a border, meet, take it
//! in, and find out by themselves, each from the same figures, where the next window ends. A window
//! begins with the first thing that happens anywhere and is as long as no packet can cross a border
//! within. There is one meeting a window: what is handed over and told lies in one of two places in
//! turn, and whoever writes to a place again has met everybody who read it.

use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering::*};
use std::sync::{Mutex, MutexGuard};

use tidegate_core::Time;

use crate::part::Mail;
use crate::ranks::Place;

/// Rounds of a meeting that are waited through without giving way to other threads, where each part
/// has a core.
const SPINS: u32 = 4_000;

/// What a part tells all others at the end of a window. A cache line of its own.
#[repr(align(128))]
#[derive(Default)]
struct Told {
    /// When something happens next at the part, or what it handed over lands.
    next: AtomicU64,
    /// Work done since the start.
    work: AtomicU64,
    /// Messages that have not finished.
    open: AtomicU64,
    /// Flows that begin until then have been handed out; only the first part tells.
    known: AtomicU64,
}

/// What all parts have told.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Heard {
    /// When something happens next, anywhere.
    pub(crate) next: Time,
    /// Work done by all.
    pub(crate) work: u64,
    /// Messages that have not finished, anywhere.
    pub(crate) open: u64,
    /// Flows that begin until then have been handed out.
    pub(crate) known: Time,
}

impl Heard {
    /// What others have told too.
    pub(crate) fn with(&self, others: &Heard) -> Heard {
        Heard {
            next: self.next.min(others.next),
            work: self.work + others.work,
            open: self.open + others.open,
            known: self.known.min(others.known),
        }
    }
}

/// Where parts meet.
pub(crate) struct Exchange {
    parts: usize,
    /// Those of other processes too.
    all: usize,
    /// By turn, receiver among all parts, and sender.
    mail: Vec<Mutex<Mail>>,
    /// By turn and part.
    told: Vec<Told>,
    arrived: AtomicUsize,
    meetings: AtomicUsize,
    /// Rounds without giving way. With more parts than cores there are none: whoever is waited for
    /// may need this core.
    spins: u32,
    /// A part has panicked: nobody waits for it.
    broken: AtomicBool,
}

impl Exchange {
    /// For the parts of this process.
    pub(crate) fn new(place: Place) -> Exchange {
        let (parts, all) = (place.parts, place.parts * place.ranks);
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        Exchange {
            parts,
            all,
            mail: (0..2 * all * parts).map(|_| Mutex::default()).collect(),
            told: (0..2 * parts).map(|_| Told::default()).collect(),
            arrived: AtomicUsize::new(0),
            meetings: AtomicUsize::new(0),
            spins: if parts <= cores { SPINS } else { 0 },
            broken: AtomicBool::new(false),
        }
    }

    /// Parts that meet.
    pub(crate) fn parts(&self) -> usize {
        self.parts
    }

    /// What `from` hands to `to`, which is its number among all parts.
    pub(crate) fn mail(&self, turn: usize, from: usize, to: usize) -> MutexGuard<'_, Mail> {
        let place = (turn * self.all + to) * self.parts + from;
        // Whoever panicked with it in hand ends the run.
        self.mail[place].lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    /// Part `part` tells the others.
    pub(crate) fn tell(&self, turn: usize, part: usize, own: Heard) {
        let told = &self.told[turn * self.parts + part];
        told.next.store(own.next.as_ps(), Relaxed);
        told.work.store(own.work, Relaxed);
        told.open.store(own.open, Relaxed);
        told.known.store(own.known.as_ps(), Relaxed);
    }

    /// Waits for all others. What they wrote before is there afterwards.
    ///
    /// # Panics
    /// Where another part has panicked.
    pub(crate) fn meet(&self) {
        let meeting = self.meetings.load(Acquire);
        if self.arrived.fetch_add(1, AcqRel) + 1 == self.parts {
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
    pub(crate) fn hear(&self, turn: usize) -> Heard {
        let all = &self.told[turn * self.parts..][..self.parts];
        let sum = |of: fn(&Told) -> &AtomicU64| all.iter().map(|told| of(told).load(Relaxed)).sum();
        let least = |of: fn(&Told) -> &AtomicU64| {
            Time::ps(all.iter().map(|told| of(told).load(Relaxed)).min().unwrap_or(u64::MAX))
        };
        Heard {
            next: least(|told| &told.next),
            work: sum(|told| &told.work),
            open: sum(|told| &told.open),
            known: least(|told| &told.known),
        }
    }
}

/// Lets no other part wait for one that has panicked.
pub(crate) struct Present<'a>(pub(crate) &'a Exchange);

impl Drop for Present<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.0.broken.store(true, Relaxed);
        }
    }
}
