//! The event loop of a host, which any thread may run.

use std::collections::BTreeMap;
use std::io::{self, Read as _};
use std::net::SocketAddr;
use std::os::fd::AsFd as _;
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use tidegate_core::wire::Header as _;
use tidegate_core::{Span, Time};

use super::Error;
use super::promise::Promise;
use super::shared::{
    Arrived, Command, Connected, PeerPath, PeerState, PooledMemory, Purpose, Shared,
};
use crate::driver::Driver;
use crate::message::{self, Head, Plain, Reply, Request, Unanswered};
use crate::node::{CloseReason, Event, Node, PeerId, SendError, Ticket};

/// A session as the engine knows it.
struct SessionEntry {
    state: Arc<PeerState>,
    is_open: bool,
    /// Promises of `connect`, until the session is open.
    connecting: Vec<Connected>,
}

/// A message that was sent and is not acknowledged.
struct Sent {
    to: Arc<PeerState>,
    bytes: u64,
    /// Resolved on delivery; none if a reply is awaited instead.
    promise: Option<Promise<()>>,
}

/// The driver of a host, with the state of the application's operations.
pub(super) struct Engine {
    driver: Driver,
    shared: Arc<Shared>,
    woken: UnixStream,
    /// Buffer for the commands of one iteration, kept for its memory.
    commands: Vec<Command>,
    peers: BTreeMap<PeerId, SessionEntry>,
    sent: BTreeMap<Ticket, Sent>,
    /// Promises of replies that have not arrived.
    replies: BTreeMap<(PeerId, u64), Promise<Bytes>>,
    /// Number of requests so far; the next request has this number.
    requests: u64,
    /// While the host is closing: when a message was last delivered.
    closing: Option<Time>,
    /// Dropped after the driver, so that the address is free when the end is reported.
    end: Ending,
}

/// The action after an iteration.
pub(super) enum Next {
    /// Iterate again.
    Poll,
    /// Sleep until a datagram arrives or a deadline expires.
    Sleep,
    /// Stop: the host ends when this engine is dropped.
    End,
}

/// Reports the end of the host when it is dropped.
struct Ending {
    shared: Arc<Shared>,
    why: Error,
}

impl Engine {
    /// Creates the engine; a byte in `woken` wakes it.
    pub(super) fn new(driver: Driver, shared: Arc<Shared>, woken: UnixStream) -> Engine {
        Engine {
            driver,
            end: Ending { shared: shared.clone(), why: Error::Failed },
            shared,
            woken,
            commands: Vec::new(),
            peers: BTreeMap::new(),
            sent: BTreeMap::new(),
            replies: BTreeMap::new(),
            requests: 0,
            closing: None,
        }
    }

    /// Runs one iteration: commands, arrivals, deadlines and events for the application.
    pub(super) fn poll(&mut self) -> Next {
        match self.try_poll() {
            Ok(next) => next,
            Err(why) => self.on_socket_error(why),
        }
    }

    fn try_poll(&mut self) -> io::Result<Next> {
        let mut commands = std::mem::take(&mut self.commands);
        self.shared.take_commands(&mut commands);
        commands.drain(..).for_each(|command| self.execute(command));
        self.commands = commands;
        let may_sleep = self.driver.work()?;
        while let Some(event) = self.driver.node.event() {
            self.handle(event);
        }
        let give_up = self.close_deadline();
        if give_up.is_some_and(|at| self.peers.is_empty() || self.driver.now() >= at) {
            // Sends the last packets of the sessions.
            self.driver.work()?;
            self.end.why = Error::Closed;
            return Ok(Next::End);
        }
        Ok(if may_sleep { Next::Sleep } else { Next::Poll })
    }

    /// Sleeps until a datagram arrives, a command is given or a deadline expires, at most for
    /// `most`.
    pub(super) fn sleep(&mut self, most: Option<Duration>) -> Next {
        let until = self.close_deadline().unwrap_or(Time::NEVER);
        let until = until.min(most.map_or(Time::NEVER, |most| self.driver.after(most)));
        match self.driver.sleep(until, Some(self.woken.as_fd())) {
            Ok(is_woken) => {
                if is_woken {
                    let _ = self.woken.read(&mut [0; 8]);
                }
                Next::Poll
            }
            Err(why) => self.on_socket_error(why),
        }
    }

    /// Whether a deadline expires within `span`.
    pub(super) fn is_due_within(&self, span: Span) -> bool {
        self.driver.node.deadline() < self.driver.now().after(span)
    }

    fn on_socket_error(&mut self, why: io::Error) -> Next {
        self.end.why = why.raw_os_error().map_or(Error::Failed, Error::Socket);
        Next::End
    }

    /// While closing: when the host stops waiting for deliveries.
    fn close_deadline(&self) -> Option<Time> {
        self.closing.map(|since| since.after(self.driver.node.limits().silence))
    }

    fn execute(&mut self, command: Command) {
        let now = self.driver.now();
        match command {
            Command::Connect(to, connected) => self.connect(now, to, connected),
            Command::Send { to, body, of } => self.send(now, to, body, of),
            Command::Path(of, promise) => promise.resolve(self.path(&of)),
            Command::Consumed(peer, bytes) => self.driver.node.consumed(now, peer, bytes),
            Command::Reuse(memory) => self.driver.node.reuse(memory),
            Command::End(peer) => self.driver.node.close(now, peer),
            Command::Close => {
                self.closing.get_or_insert(now);
                self.peers.keys().for_each(|&peer| self.driver.node.close(now, peer));
            }
        }
    }

    fn connect(&mut self, now: Time, to: SocketAddr, connected: Connected) {
        if self.closing.is_some() {
            return connected(Err(Error::Closed));
        }
        // The only failure is a limit of this host.
        let Ok(id) = self.driver.node.connect(now, to) else {
            return connected(Err(Error::Full));
        };
        let known = self.peers.entry(id).or_insert_with(|| SessionEntry::new(id, to));
        match known.is_open {
            true => connected(Ok(known.state.clone())),
            false => known.connecting.push(connected),
        }
    }

    fn path(&self, of: &PeerState) -> Result<PeerPath, Error> {
        let node = &self.driver.node;
        let path = || PeerPath {
            base_rtt: node.base_rtt(of.id),
            domain_warning: node.domain_warning(of.id),
        };
        of.close_error().map_or_else(|| Ok(path()), Err)
    }

    fn send(&mut self, now: Time, to: Arc<PeerState>, body: Bytes, of: Purpose) {
        let bytes = body.len() as u64;
        let head = match &of {
            Purpose::Plain(_) => Head::from(Plain {}),
            Purpose::Request(_) => Request { number: self.requests }.into(),
            Purpose::Reply(number, _) => Reply { number: *number }.into(),
            Purpose::Unanswered(number) => Unanswered { number: *number }.into(),
        };
        let ticket = match message::send(&mut self.driver.node, now, to.id, head, body) {
            Ok(ticket) => ticket,
            Err(why) => {
                of.fail(match why {
                    SendError::TooLong { most } => Error::TooLong { most },
                    _ => to.close_error().unwrap_or(Error::SessionClosed(CloseReason::Closed)),
                });
                if let Head::Reply(Reply { number }) = head
                    && matches!(why, SendError::TooLong { .. })
                {
                    self.send(now, to.clone(), Bytes::new(), Purpose::Unanswered(number));
                }
                return to.done(bytes);
            }
        };
        let promise = match of {
            Purpose::Plain(promise) | Purpose::Reply(_, promise) => Some(promise),
            Purpose::Request(promise) => {
                self.replies.insert((to.id, self.requests), promise);
                self.requests += 1;
                None
            }
            Purpose::Unanswered(_) => None,
        };
        self.sent.insert(ticket, Sent { to, bytes, promise });
    }

    fn handle(&mut self, event: Event) {
        let now = self.driver.now();
        match event {
            Event::Opened(peer) => self.opened(now, peer),
            Event::Arrived(peer, message) => self.arrived(now, peer, message),
            Event::Delivered(ticket) => self.sent(now, ticket, Ok(())),
            Event::Failed(ticket, why) => self.sent(now, ticket, Err(Error::SessionClosed(why))),
            Event::Closed(peer, why) => self.closed(peer, Ok(why)),
            Event::Piece(peer, piece) => {
                // Hosts deliver whole messages. If the node is configured otherwise, pieces are
                // discarded.
                self.driver.node.consumed(now, peer, piece.bytes.len() as u64);
            }
            Event::Ended(..) | Event::Resent(..) => {}
        }
    }

    fn opened(&mut self, now: Time, peer: PeerId) {
        let Some(address) = self.driver.node.address(peer) else { return };
        let known = self.peers.entry(peer).or_insert_with(|| SessionEntry::new(peer, address));
        known.is_open = true;
        for connected in known.connecting.drain(..) {
            connected(Ok(known.state.clone()));
        }
        if self.closing.is_some() {
            self.driver.node.close(now, peer);
        }
    }

    fn arrived(&mut self, now: Time, peer: PeerId, message: Vec<u8>) {
        let bytes = message.len() as u64;
        let message = match Node::is_worth_reuse(message.capacity()) {
            true => PooledMemory::bytes(message, &self.shared),
            false => Bytes::from(message),
        };
        let parsed = Head::parse(&message).ok();
        let Some((head, body)) = parsed.map(|(head, body)| (head, message.slice_ref(body))) else {
            // Not a valid message: discard it.
            return self.driver.node.consumed(now, peer, bytes);
        };
        let request = match head {
            Head::Plain(Plain {}) => None,
            Head::Request(Request { number }) => Some(number),
            Head::Reply(Reply { number }) => {
                return self.replied(now, peer, number, bytes, Ok(body));
            }
            Head::Unanswered(Unanswered { number }) => {
                return self.replied(now, peer, number, bytes, Err(Error::Unanswered));
            }
        };
        if let Some(known) = self.peers.get(&peer) {
            self.shared.put(Arrived { from: known.state.clone(), body, bytes, request });
        }
    }

    /// Handles a reply, or the report that there will be none, in a message of `bytes` bytes.
    /// Replies need no room in the inbox.
    fn replied(
        &mut self,
        now: Time,
        peer: PeerId,
        number: u64,
        bytes: u64,
        outcome: Result<Bytes, Error>,
    ) {
        self.driver.node.consumed(now, peer, bytes);
        if let Some(promise) = self.replies.remove(&(peer, number)) {
            promise.resolve(outcome);
        }
    }

    /// Handles the delivery or the failure of a sent message.
    fn sent(&mut self, now: Time, ticket: Ticket, outcome: Result<(), Error>) {
        if outcome.is_ok() {
            self.closing = self.closing.map(|_| now);
        }
        let Some(Sent { to, bytes, promise }) = self.sent.remove(&ticket) else { return };
        if let Some(promise) = promise {
            promise.resolve(outcome);
        }
        to.done(bytes);
    }

    /// Handles the end of a session.
    fn closed(&mut self, peer: PeerId, how: Result<CloseReason, Error>) {
        let why = how.map_or_else(|error| error, Error::SessionClosed);
        let Some(SessionEntry { state, connecting, .. }) = self.peers.remove(&peer) else { return };
        state.ended(how);
        if self.closing.is_none() {
            self.shared.drop_unread();
        }
        connecting.into_iter().for_each(|connected| connected(Err(why)));
        let theirs = self.replies.extract_if((peer, 0)..=(peer, u64::MAX), |_, _| true);
        theirs.for_each(|(_, promise)| promise.resolve(Err(why)));
    }
}

impl Drop for Engine {
    /// Resolves all pending outcomes.
    fn drop(&mut self) {
        let (now, end) = (self.driver.now(), self.end.why);
        let tickets: Vec<Ticket> = self.sent.keys().copied().collect();
        tickets.into_iter().for_each(|ticket| self.sent(now, ticket, Err(end)));
        let peers: Vec<PeerId> = self.peers.keys().copied().collect();
        peers.into_iter().for_each(|peer| self.closed(peer, Err(end)));
    }
}

impl Drop for Ending {
    fn drop(&mut self) {
        self.shared.ended(self.why);
    }
}

impl SessionEntry {
    fn new(id: PeerId, address: SocketAddr) -> SessionEntry {
        let state = Arc::new(PeerState::new(id, address));
        SessionEntry { state, is_open: false, connecting: Vec::new() }
    }
}
