//! The state of the receiving half: messages, their senders, and which of these get tokens and
//! requests.

use alloc::vec::Vec;

use tidegate_core::{Message, Time};

use super::{LONG, Step};
use crate::kit::backoff::Backoff;
use crate::kit::by_host::ByHost;
use crate::kit::heap::{Pile, Positions, shortest_first};
use crate::kit::lanes::IncomingLanes;
use crate::kit::slab::Slab;
use crate::kit::timers::Timers;
use crate::kit::window::Window;

/// Index of an absent entry.
const NOWHERE: u32 = u32::MAX;

/// Match of a receiver and a sender in an epoch.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Match {
    pub(super) channels: u32,
    /// Channels that are already in use while the epoch is matched.
    pub(super) prompt: u32,
    /// Missing packets of the sender's shortest message at that time.
    pub(super) shortest: u32,
    /// Label of its tokens, the place among the receiver's matches; zero: no match.
    pub(super) label: u32,
}

/// Time of the tokens to a sender.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Clock {
    /// Earliest time of the next tick.
    pub(super) next_at: Time,
    /// Whether it waits for data; otherwise for its next tick.
    pub(super) waits: bool,
}

/// A message that is being received.
#[derive(Default)]
pub(super) struct Incoming {
    pub(super) id: u32,
    pub(super) source: u32,
    pub(super) lane: u32,
    pub(super) generation: u32,
    /// The sender's slot.
    pub(super) connection: u32,
    pub(super) size: u64,
    pub(super) packets: u64,
    pub(super) received: u64,
    pub(super) window: Window,
    /// The packet of the last token, plus one.
    pub(super) cursor: u64,
    /// Number of tokens so far; a short message counts one for each packet. Wraps.
    pub(super) tokens: u32,
    /// The highest token that data has used, plus one.
    pub(super) used_tokens: u32,
    pub(super) token_at: Time,
    pub(super) order: u64,
}

impl Incoming {
    /// Missing packets; all ones if that number is larger.
    #[inline]
    pub(super) fn remaining(&self) -> u32 {
        (self.packets - self.received).min(u32::MAX as u64) as u32
    }

    #[inline]
    fn key(&self) -> u128 {
        let left = match self.size {
            Message::UNLIMITED => LONG,
            _ => self.packets - self.received,
        };
        shortest_first(left, self.order)
    }
}

/// A sender, as the receiver sees it.
pub(super) struct Source {
    pub(super) host: u32,
    /// Messages that may get tokens.
    pub(super) messages: Pile<u128>,
    pub(super) lanes: IncomingLanes<()>,
    /// Match in the data phase, and in the epoch that is matched.
    pub(super) sending: Match,
    pub(super) next: Match,
    /// Clocks of these two matches.
    pub(super) clocks: [Clock; 2],
    /// Index among the sources that get requests, or [`NOWHERE`].
    pub(super) place: u32,
    /// Epoch and round of its last grant and of its last rejection.
    pub(super) granted: (u64, u32),
    pub(super) rejected: (u64, u32),
    /// Time of the first request since its last packet; never: no request.
    pub(super) requested_at: Time,
    /// Number of consecutive pauses for lack of a response.
    pub(super) silence: Backoff,
}

impl Source {
    /// A new source.
    pub(super) fn new(host: u32) -> Source {
        Source {
            host,
            messages: Pile::default(),
            lanes: IncomingLanes::default(),
            sending: Match::default(),
            next: Match::default(),
            clocks: [Clock::default(); 2],
            place: NOWHERE,
            granted: (0, 0),
            rejected: (0, 0),
            requested_at: Time::NEVER,
            silence: Backoff::default(),
        }
    }
}

/// A grant of this round.
#[derive(Clone, Copy, Debug)]
pub(super) struct Offer {
    /// Order of acceptance: the smallest first.
    pub(super) key: (u32, u64),
    pub(super) source: u32,
    pub(super) message: u32,
    pub(super) channels: u32,
    pub(super) prompt: u32,
    pub(super) remaining: u32,
}

/// Matching state of a receiver.
pub(super) struct Matching {
    /// Time at which the next round starts or ends; never without anything to match.
    pub(super) stage_at: Time,
    /// The current round.
    pub(super) round: Option<(u64, u32)>,
    /// Epoch whose matches send, and time at which current tokens expire.
    pub(super) phase: u64,
    pub(super) expires: Time,
    /// Sources that are matched for the data phase, and for the epoch that is matched.
    pub(super) sending: Vec<u32>,
    pub(super) next: Vec<u32>,
    /// Channels that these take, and prompt channels of the latter.
    pub(super) busy: u32,
    pub(super) taken: u32,
    pub(super) prompt: u32,
    pub(super) offers: Vec<Offer>,
}

impl Default for Matching {
    fn default() -> Matching {
        Matching {
            stage_at: Time::NEVER,
            round: None,
            phase: 0,
            expires: Time::ZERO,
            sending: Vec::new(),
            next: Vec::new(),
            busy: 0,
            taken: 0,
            prompt: 0,
            offers: Vec::new(),
        }
    }
}

/// All receiving state of a host.
#[derive(Default)]
pub(super) struct Inbox {
    pub(super) by_host: ByHost<u32>,
    pub(super) sources: Vec<Source>,
    pub(super) messages: Slab<Incoming>,
    pub(super) positions: Positions,
    /// By message: time at which it competes (again) for tokens.
    pub(super) timers: Timers,
    /// By source: time at which a silent one gets requests again.
    pub(super) pauses: Timers,
    /// Two per source: time of its next token.
    pub(super) clocks: Timers,
    /// Sources that get requests.
    pub(super) wanting: Vec<u32>,
    pub(super) matching: Matching,
    /// End of the time for which short messages occupy the link.
    pub(super) held_until: Time,
    pub(super) order: u64,
}

impl Inbox {
    #[inline]
    pub(super) fn deadline(&self) -> Time {
        self.timer().min(self.clocks.next())
    }

    /// Earliest time of any action except sending a token.
    #[inline]
    pub(super) fn timer(&self) -> Time {
        self.matching.stage_at.min(self.timers.next()).min(self.pauses.next())
    }

    /// Moves a message to its place among those that may get tokens.
    #[inline]
    pub(super) fn rank(&mut self, slot: u32) {
        let message = &self.messages[slot];
        let source = &mut self.sources[message.source as usize];
        source.messages.set(&mut self.positions, slot, message.key());
    }

    /// Stops tokens for a message for now.
    pub(super) fn withdraw(&mut self, step: &Step<'_>, slot: u32) {
        let number = self.messages[slot].source;
        self.sources[number as usize].messages.remove(&mut self.positions, slot);
        self.reschedule(step, number);
    }

    /// Adds a source to those that get requests, or removes it. Called after every change of its
    /// messages.
    pub(super) fn reschedule(&mut self, step: &Step<'_>, number: u32) {
        let source = &mut self.sources[number as usize];
        let wants = source.messages.len() > 0 && !self.pauses.run(number);
        match (wants, source.place) {
            (true, NOWHERE) => {
                source.place = self.wanting.len() as u32;
                self.wanting.push(number);
                if self.matching.stage_at == Time::NEVER {
                    self.matching.stage_at = step.settings.calendar.next_stage(step.now);
                }
            }
            (false, place) if place != NOWHERE => {
                source.place = NOWHERE;
                self.wanting.swap_remove(place as usize);
                if let Some(&moved) = self.wanting.get(place as usize) {
                    self.sources[moved as usize].place = place;
                }
            }
            _ => {}
        }
    }
}

#[cfg(test)]
impl Inbox {
    pub(super) fn is_quiet(&self) -> bool {
        self.messages.len() == 0 && self.wanting.is_empty() && self.deadline() == Time::NEVER
    }

    pub(super) fn most_ahead(&self) -> u64 {
        let windows = self.messages.all().iter().map(|message| &message.window);
        windows.map(|w| w.high().saturating_sub(w.base())).max().unwrap_or(0)
    }
}
