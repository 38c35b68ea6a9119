//! Incast control (section 3.6): a host with many requests out has the replies begin small.
//!
//! A client counts its requests that wait for replies. Beyond some number a new one says so, and of
//! its reply only the first packet leaves without a grant, so that what a crowd of servers sends at
//! once fits into a buffer. The rest is granted like any other.

use alloc::collections::BTreeSet;

use tidegate_core::{Message, Role};

use crate::kit::by_host::ByHost;

/// Requests whose replies should begin small, at most; replies to more begin as usual. An
/// application that answers never has so many.
const MOST_BRIEF: usize = 1 << 16;

/// What a message is to incast control, as its packets say.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Part {
    /// It is a request whose reply should begin small.
    pub(super) wants_brief: bool,
    /// It is a reply.
    pub(super) replies: bool,
}

/// Requests and replies of one host.
#[derive(Default)]
pub(super) struct Exchanges {
    /// Its own requests that wait for replies, in all and by server.
    out: u64,
    out_to: ByHost<u64>,
    /// Those of others whose replies should begin small: the client, and its number of it.
    brief: BTreeSet<(u32, u32)>,
}

impl Exchanges {
    /// The application submits a message, where `limit` requests may be out without incast control
    /// and 0 switches it off. What its packets say, and whether it should begin small.
    pub(super) fn submit(&mut self, limit: u64, message: &Message) -> (Part, bool) {
        match message.role {
            Role::Alone => (Part::default(), false),
            Role::Request => {
                self.out += 1;
                *self.out_to.entry(message.dst) += 1;
                let wants_brief = limit > 0 && self.out > limit;
                (Part { wants_brief, replies: false }, false)
            }
            Role::Reply { request } => {
                let is_brief = self.brief.remove(&(message.dst, request));
                (Part { wants_brief: false, replies: true }, is_brief)
            }
        }
    }

    /// A message of `src` with that number has arrived.
    pub(super) fn arrived(&mut self, src: u32, id: u32, part: Part) {
        if part.replies {
            // A packet may say so of what nobody asked for.
            let waiting = self.out_to.entry(src);
            if *waiting > 0 {
                *waiting -= 1;
                self.out -= 1;
            }
        }
        if part.wants_brief && self.brief.len() < MOST_BRIEF {
            self.brief.insert((src, id));
        }
    }

    /// Nobody there waits for a reply, and none comes from there.
    pub(super) fn forget(&mut self, host: u32) {
        self.out -= self.out_to.take(host);
        self.brief.retain(|&(client, _)| client != host);
    }

    #[cfg(test)]
    pub(super) fn brief(&self) -> usize {
        self.brief.len()
    }

    #[cfg(test)]
    pub(super) fn is_quiet(&self) -> bool {
        self.out == 0 && self.brief.is_empty()
    }
}
