//! Peers, and what comes from them.

use std::fmt;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use bytes::Bytes;
use event_listener::Event;
use tidegate_core::Span;

use super::completion::{Completion, Promise, Source};
use super::shared::{Handle, Order, PeerState, Purpose};
use super::{Error, Gone};
use crate::node::PeerId;

/// A handle of a session. Clones are of the same; that the last is dropped ends nothing.
#[derive(Clone)]
pub struct Peer {
    pub(super) state: Arc<PeerState>,
    pub(super) host: Handle,
}

impl Peer {
    /// What tells it from all other sessions of this host.
    pub fn id(&self) -> PeerId {
        self.state.id
    }

    /// Where the peer was when the session began.
    pub fn address(&self) -> SocketAddr {
        self.state.address
    }

    /// Sends a message, which may be empty; the outcome is that the peer has all of it, whether or
    /// not its application has taken it. Messages may arrive in another order than this.
    ///
    /// What is sent is kept until then, however much it is: see [`room`](Self::room).
    pub fn send(&self, body: impl Into<Bytes>) -> Completion<()> {
        let (promise, completion) = Promise::new(&self.host);
        self.put(body.into(), Purpose::Plain(promise));
        completion
    }

    /// Sends a request; the outcome is the reply. Replies need no room, but wait behind messages
    /// that do: who serves and asks takes what arrives in another thread or task.
    pub fn request(&self, body: impl Into<Bytes>) -> Completion<Bytes> {
        let (promise, completion) = Promise::new(&self.host);
        self.put(body.into(), Purpose::Request(promise));
        completion
    }

    fn put(&self, body: Bytes, of: Purpose) {
        self.state.under_way.fetch_add(body.len() as u64, Ordering::Relaxed);
        self.host.shared().order(Order::Send { to: self.state.clone(), body, of });
    }

    /// Comes about once fewer than `most` bytes of what was sent to this peer are still under way.
    /// Who waits for that before each message keeps no more of them than that and one message.
    pub fn room(&self, most: u64) -> Completion<()> {
        let source = Room { of: self.state.clone(), most };
        Completion::new(Arc::new(source), self.host.clone())
    }

    /// What the host has learned of the path to the peer until now.
    pub fn path(&self) -> Completion<PeerPath> {
        let (promise, completion) = Promise::new(&self.host);
        self.host.shared().order(Order::Path(self.state.clone(), promise));
        completion
    }

    /// Comes about when the session is over: how it ended.
    pub fn closed(&self) -> Completion<Gone> {
        Completion::new(Arc::new(End(self.state.clone())), self.host.clone())
    }

    /// Takes no more messages, and ends the session when those that were sent have arrived. The
    /// outcome is how it ended. Requests without a reply by then fail.
    pub fn close(&self) -> Completion<Gone> {
        self.host.shared().order(Order::End(self.state.id));
        self.closed()
    }
}

/// What a host has learned of the path to a peer.
#[derive(Clone, Debug, PartialEq)]
pub struct PeerPath {
    /// The shortest round trip so far, of a full datagram and a short answer; none where nothing
    /// has come back yet.
    pub base_rtt: Option<Span>,
    /// Why the protocol, as it is configured, is not at home there, if it is not.
    pub domain_warning: Option<String>,
}

impl PartialEq for Peer {
    fn eq(&self, other: &Peer) -> bool {
        Arc::ptr_eq(&self.state, &other.state)
    }
}

impl Eq for Peer {}

impl fmt::Debug for Peer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Peer({})", self.state.address)
    }
}

/// Waits for fewer bytes under way.
struct Room {
    of: Arc<PeerState>,
    most: u64,
}

impl Source<()> for Room {
    fn take(&self) -> Option<Result<(), Error>> {
        match self.of.why_over() {
            Some(why) => Some(Err(why)),
            None => (self.of.under_way.load(Ordering::Relaxed) < self.most).then_some(Ok(())),
        }
    }

    fn changed(&self) -> &Event {
        &self.of.drained
    }
}

/// Waits for the end of a session.
struct End(Arc<PeerState>);

impl Source<Gone> for End {
    fn take(&self) -> Option<Result<Gone, Error>> {
        self.0.end.get().copied()
    }

    fn changed(&self) -> &Event {
        &self.0.over
    }
}

/// What has arrived.
#[derive(Debug)]
pub enum Message {
    /// A message that wants no answer.
    Plain(Bytes),
    /// A request.
    Request(Request),
}

/// A request that has arrived. One that is dropped fails at whoever asked, as
/// [`Error::Unanswered`].
pub struct Request {
    pub(super) from: Peer,
    pub(super) number: u64,
    pub(super) body: Bytes,
    pub(super) is_answered: bool,
}

impl Request {
    /// What was asked.
    pub fn body(&self) -> &Bytes {
        &self.body
    }

    /// Answers it, perhaps with nothing; the outcome is that the peer has all of the reply.
    pub fn reply(mut self, body: impl Into<Bytes>) -> Completion<()> {
        self.is_answered = true;
        let (promise, completion) = Promise::new(&self.from.host);
        self.from.put(body.into(), Purpose::Reply(self.number, promise));
        completion
    }
}

impl Drop for Request {
    fn drop(&mut self) {
        if !self.is_answered {
            self.from.put(Bytes::new(), Purpose::Unanswered(self.number));
        }
    }
}

impl fmt::Debug for Request {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Request({} B from {})", self.body.len(), self.from.address())
    }
}
