//! Handles of peers, and the messages that peers send.

use std::fmt;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use bytes::Bytes;
use event_listener::Event;

use super::completion::Completion;
use super::handle::Handle;
use super::promise::Source;
use super::shared::{Command, PeerPath, PeerState, Purpose};
use super::{CloseReason, Error};
use crate::node::PeerId;

/// A handle of a session. Clones refer to the same session. Dropping the last one does not end the
/// session.
#[derive(Clone)]
pub struct Peer {
    pub(super) state: Arc<PeerState>,
    pub(super) host: Handle,
}

impl Peer {
    /// The identifier, unique among the sessions of this host.
    pub fn id(&self) -> PeerId {
        self.state.id
    }

    /// The address of the peer when the session began.
    pub fn address(&self) -> SocketAddr {
        self.state.address
    }

    /// Sends a message, which may be empty. Completes when the peer host has all of it, even if its
    /// application has not received it yet. Messages may arrive in a different order.
    ///
    /// The message is kept in memory until then, without a limit: see [`room`](Self::room).
    pub fn send(&self, body: impl Into<Bytes>) -> Completion<()> {
        let (promise, completion) = Completion::promised(&self.host);
        self.put(body.into(), Purpose::Plain(promise));
        completion
    }

    /// Sends a request; completes with the reply. Replies need no room in the inbox, but arrive
    /// behind messages that do. An application that serves requests and sends its own must receive
    /// messages in another thread or task.
    pub fn request(&self, body: impl Into<Bytes>) -> Completion<Bytes> {
        let (promise, completion) = Completion::promised(&self.host);
        self.put(body.into(), Purpose::Request(promise));
        completion
    }

    fn put(&self, body: Bytes, of: Purpose) {
        self.state.in_flight.fetch_add(body.len() as u64, Ordering::Relaxed);
        self.host.submit(Command::Send { to: self.state.clone(), body, of });
    }

    /// Completes when fewer than `most` sent bytes to this peer are in flight. An application that
    /// waits for it before each message keeps at most `most` bytes plus one message in memory.
    pub fn room(&self, most: u64) -> Completion<()> {
        let source = Room { of: self.state.clone(), most };
        Completion::new(Arc::new(source), self.host.clone())
    }

    /// Returns what the host has measured of the path to the peer.
    pub fn path(&self) -> Completion<PeerPath> {
        let (promise, completion) = Completion::promised(&self.host);
        self.host.submit(Command::Path(self.state.clone(), promise));
        completion
    }

    /// Completes when the session ends, with the reason.
    pub fn closed(&self) -> Completion<CloseReason> {
        Completion::new(Arc::new(End(self.state.clone())), self.host.clone())
    }

    /// Accepts no further messages, and ends the session when all sent messages have arrived.
    /// Completes with the reason of the end. Requests without a reply fail then.
    pub fn close(&self) -> Completion<CloseReason> {
        self.host.submit(Command::End(self.state.id));
        self.closed()
    }
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

/// Waits until fewer bytes are in flight.
struct Room {
    of: Arc<PeerState>,
    most: u64,
}

impl Source<()> for Room {
    fn take(&self) -> Option<Result<(), Error>> {
        match self.of.close_error() {
            Some(why) => Some(Err(why)),
            None => (self.of.in_flight.load(Ordering::Relaxed) < self.most).then_some(Ok(())),
        }
    }

    fn changed(&self) -> &Event {
        &self.of.drained
    }
}

/// Waits for the end of a session.
struct End(Arc<PeerState>);

impl Source<CloseReason> for End {
    fn take(&self) -> Option<Result<CloseReason, Error>> {
        self.0.end.get().copied()
    }

    fn changed(&self) -> &Event {
        &self.0.over
    }
}

/// A received message.
#[derive(Debug)]
pub enum Message {
    /// A message without a reply.
    Plain(Bytes),
    /// A request.
    Request(Request),
}

/// A received request. If it is dropped without a reply, it fails at its sender with
/// [`Error::Unanswered`].
pub struct Request {
    pub(super) from: Peer,
    pub(super) number: u64,
    pub(super) body: Bytes,
    pub(super) is_answered: bool,
}

impl Request {
    /// The body of the request.
    pub fn body(&self) -> &Bytes {
        &self.body
    }

    /// Sends the reply, which may be empty. Completes when the peer host has all of it.
    pub fn reply(mut self, body: impl Into<Bytes>) -> Completion<()> {
        self.is_answered = true;
        let (promise, completion) = Completion::promised(&self.from.host);
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
