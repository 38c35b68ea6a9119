//! Message identifiers that both ends always recognise, with one small record per lane.
//!
//! The pair of hosts, its lane and the lane's generation identify a message. A sender reuses a
//! lane, with the next generation, once it knows that the previous message has arrived; so the
//! receiver can distinguish a new message from a late or duplicate packet. SIRD identifies messages
//! in this way; Homa, dcPIM and ExpressPass must make the same distinction, and none of them can
//! keep every message.

use alloc::collections::VecDeque;
use alloc::vec::Vec;

/// Largest number of messages in flight from one host to another; more wait at the sender.
pub(crate) const MAX_LANES: usize = 4096;

/// The sender's end: lanes to one receiver.
#[derive(Default)]
pub(crate) struct Lanes {
    /// Generation of the message in each lane.
    generations: Vec<u32>,
    free: Vec<u32>,
    /// Slots of messages that wait for a lane.
    waiting: VecDeque<u32>,
}

impl Lanes {
    /// Takes a lane for the message in `slot`. Returns the lane's number and generation. If all are
    /// in use, the message waits for one.
    pub(crate) fn open(&mut self, slot: u32) -> Option<(u32, u32)> {
        let lane = self.free.pop().or_else(|| {
            let lane = self.generations.len();
            (lane < MAX_LANES).then(|| {
                self.generations.push(0);
                lane as u32
            })
        });
        let Some(lane) = lane else {
            self.waiting.push_back(slot);
            return None;
        };
        Some((lane, self.generations[lane as usize]))
    }

    /// Frees a lane whose message has arrived. Returns the slot of the message that has waited
    /// longest; the caller opens a lane for it.
    #[must_use]
    pub(crate) fn close(&mut self, lane: u32) -> Option<u32> {
        let generation = &mut self.generations[lane as usize];
        *generation = generation.wrapping_add(1);
        self.free.push(lane);
        self.waiting.pop_front()
    }
}

/// State of a lane's last message.
#[derive(Clone, Copy)]
enum Last<D> {
    /// There was none.
    Unused,
    /// Being received, in this slot.
    Slot(u32),
    Done(D),
}

#[derive(Clone, Copy)]
struct Lane<D> {
    generation: u32,
    last: Last<D>,
}

/// State of a message at its receiver.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Known<D> {
    /// It is being received, in this slot.
    Slot(u32),
    /// It has arrived; this value was kept.
    Done(D),
    /// It is new.
    New,
    /// It is over, or is not valid.
    Never,
}

/// The receiver's end: lanes from one sender, with a value `D` kept of the last message in each.
pub(crate) struct IncomingLanes<D>(Vec<Lane<D>>);

impl<D> Default for IncomingLanes<D> {
    fn default() -> Self {
        IncomingLanes(Vec::new())
    }
}

impl<D: Copy> IncomingLanes<D> {
    /// Lanes of an unknown sender.
    pub(crate) const NONE: IncomingLanes<D> = IncomingLanes(Vec::new());

    #[inline]
    pub(crate) fn find(&self, lane: u32, generation: u32) -> Known<D> {
        match self.0.get(lane as usize) {
            Some(&Lane { generation: same, last }) if same == generation => match last {
                Last::Slot(slot) => Known::Slot(slot),
                Last::Done(kept) => Known::Done(kept),
                Last::Unused => Known::New,
            },
            Some(&Lane { last: Last::Unused, .. }) => Known::New,
            // A sender reuses a lane when it knows that the previous message has arrived.
            Some(&Lane { generation: before, last: Last::Done(_) })
                if (generation.wrapping_sub(before) as i32) > 0 =>
            {
                Known::New
            }
            None if (lane as usize) < MAX_LANES => Known::New,
            _ => Known::Never,
        }
    }

    /// Registers a new message in `slot`; it must be [`New`](Known::New). Returns the value kept of
    /// the previous message, whose sender knows that it has arrived.
    pub(crate) fn open(&mut self, lane: u32, generation: u32, slot: u32) -> Option<D> {
        if self.0.len() <= lane as usize {
            self.0.resize(lane as usize + 1, Lane { generation: 0, last: Last::Unused });
        }
        let fresh = Lane { generation, last: Last::Slot(slot) };
        match core::mem::replace(&mut self.0[lane as usize], fresh).last {
            Last::Done(kept) => Some(kept),
            Last::Unused | Last::Slot(_) => None,
        }
    }

    /// Registers that the message in a lane has arrived.
    pub(crate) fn close(&mut self, lane: u32, kept: D) {
        self.0[lane as usize].last = Last::Done(kept);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tidegate_core::{Domain, Rng};

    #[test]
    fn lanes_are_used_again_in_another_generation() {
        let mut lanes = Lanes::default();
        assert_eq!((lanes.open(9), lanes.open(9)), (Some((0, 0)), Some((1, 0))));
        assert_eq!(lanes.close(0), None);
        assert_eq!((lanes.open(9), lanes.open(9)), (Some((0, 1)), Some((2, 0))));
        (3..MAX_LANES as u32).for_each(|lane| assert_eq!(lanes.open(9), Some((lane, 0))));
        assert_eq!((lanes.open(10), lanes.open(11)), (None, None));
        assert_eq!(lanes.close(7), Some(10));
        assert_eq!((lanes.open(10), lanes.open(12)), (Some((7, 1)), None));
        assert_eq!([8, 9, 10].map(|lane| lanes.close(lane)), [Some(11), Some(12), None]);
    }

    #[test]
    fn receiver_distinguishes_new_and_old_messages() {
        let mut rng = Rng::stream(1, Domain::Transport, 0);
        let (mut lanes, mut incoming) = (Lanes::default(), IncomingLanes::<u64>::default());
        // All messages so far: lane, generation, and whether it has arrived.
        let mut messages: Vec<(u32, u32, bool)> = Vec::new();
        let mut active = Vec::new();
        for number in 0..2_000u32 {
            if rng.below(2) == 0 || active.is_empty() {
                let (lane, generation) = lanes.open(number).unwrap();
                assert_eq!(incoming.find(lane, generation), Known::New);
                incoming.open(lane, generation, number);
                active.push(messages.len());
                messages.push((lane, generation, false));
                assert_eq!(incoming.find(lane, generation), Known::Slot(number));
            } else {
                let which = active.swap_remove(rng.below(active.len() as u64) as usize);
                let (lane, generation, arrived) = &mut messages[which];
                incoming.close(*lane, number as u64);
                assert_eq!(incoming.find(*lane, *generation), Known::Done(number as u64));
                *arrived = true;
                assert_eq!(lanes.close(*lane), None);
            }
            // An old packet never counts as the first of a new message.
            let &(lane, generation, arrived) = &messages[rng.below(messages.len() as u64) as usize];
            let known = incoming.find(lane, generation);
            assert!(known != Known::New && arrived != matches!(known, Known::Slot(_)), "{known:?}");
        }
    }

    #[test]
    fn invalid_lanes_are_rejected() {
        let mut incoming = IncomingLanes::<u64>::default();
        assert_eq!(incoming.find(MAX_LANES as u32 - 1, 5), Known::New);
        assert_eq!(incoming.find(MAX_LANES as u32, 0), Known::Never);
        incoming.open(1, 5, 0);
        // A lane is not reused before its message has arrived.
        assert_eq!((incoming.find(1, 4), incoming.find(1, 6)), (Known::Never, Known::Never));
        assert_eq!(incoming.find(0, 7), Known::New, "skipped");
        incoming.close(1, 9);
        assert_eq!((incoming.find(1, 4), incoming.find(1, 6)), (Known::Never, Known::New));
        assert_eq!(incoming.find(1, 5), Known::Done(9));
        assert_eq!((incoming.open(1, 6, 3), incoming.open(2, 0, 4)), (Some(9), None));
    }

    #[test]
    fn generations_begin_again_after_the_last() {
        let mut incoming = IncomingLanes::<u64>::default();
        incoming.open(0, u32::MAX, 0);
        incoming.close(0, 1);
        assert_eq!(
            (incoming.find(0, 0), incoming.find(0, u32::MAX - 1)),
            (Known::New, Known::Never)
        );
    }
}
