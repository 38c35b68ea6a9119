//! Incast control (section 3.6): a host with many outstanding requests requests brief replies.
//!
//! A client counts its outstanding requests. Above a limit, a new request carries a flag, and only
//! the first packet of its reply is unscheduled, so that the simultaneous first packets of many
//! servers fit into a buffer. The rest of the reply is granted like any other message.

use alloc::collections::BTreeSet;

use tidegate_core::{Message, Role};

use crate::kit::by_host::ByHost;

/// Largest number of remembered requests for brief replies; replies to further ones start as usual.
/// Bounds the memory if an application never replies.
const MOST_BRIEF: usize = 1 << 16;

/// Role of a message in incast control, as its packets state it.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct IncastRole {
    /// Whether it is a request for a brief reply.
    pub(super) wants_brief: bool,
    /// Whether it is a reply.
    pub(super) replies: bool,
}

/// Requests and replies of one host.
#[derive(Default)]
pub(super) struct Exchanges {
    /// Outstanding requests of this host, in total and by server.
    out: u64,
    out_to: ByHost<u64>,
    /// Requests of other hosts for brief replies: the client, and its number of the request.
    brief: BTreeSet<(u32, u32)>,
}

impl Exchanges {
    /// Registers a submitted message. `limit` is the number of requests that may be outstanding
    /// without incast control; 0 disables it. Returns the role to state in its packets, and whether
    /// the message is to start brief.
    pub(super) fn submit(&mut self, limit: u64, message: &Message) -> (IncastRole, bool) {
        match message.role {
            Role::Alone => (IncastRole::default(), false),
            Role::Request => {
                self.out += 1;
                *self.out_to.entry(message.dst) += 1;
                let wants_brief = limit > 0 && self.out > limit;
                (IncastRole { wants_brief, replies: false }, false)
            }
            Role::Reply { request } => {
                let is_brief = self.brief.remove(&(message.dst, request));
                (IncastRole { wants_brief: false, replies: true }, is_brief)
            }
        }
    }

    /// Registers that a message of `src` with this number has arrived.
    pub(super) fn arrived(&mut self, src: u32, id: u32, role: IncastRole) {
        if role.replies {
            // A packet can claim to be a reply without a request.
            let waiting = self.out_to.entry(src);
            if *waiting > 0 {
                *waiting -= 1;
                self.out -= 1;
            }
        }
        if role.wants_brief && self.brief.len() < MOST_BRIEF {
            self.brief.insert((src, id));
        }
    }

    /// Forgets a host: it expects no replies and sends none.
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
