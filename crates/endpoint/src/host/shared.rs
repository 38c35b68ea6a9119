//! State that handles share with the thread that runs the event loop.

use std::collections::VecDeque;
use std::io::Write as _;
use std::net::SocketAddr;
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock, Weak};

use bytes::Bytes;
use event_listener::{Event, IntoNotification as _};
use tidegate_core::Span;

use super::Error;
use super::lock::lock;
use super::promise::Promise;
use crate::node::{CloseReason, PeerId};

/// A command of the application.
pub(super) enum Command {
    /// Request a session.
    Connect(SocketAddr, Connected),
    /// Send a message.
    Send { to: Arc<PeerState>, body: Bytes, of: Purpose },
    /// Report the measurements of the path to a peer.
    Path(Arc<PeerState>, Promise<PeerPath>),
    /// The application has received this number of bytes of the peer's messages.
    Consumed(PeerId, u64),
    /// Reuse the memory of a message.
    Reuse(Vec<u8>),
    /// End a session when all sent messages have arrived.
    End(PeerId),
    /// End all sessions and the host.
    Close,
}

/// Resolves the promise for a session. If it is dropped instead, the promise fails.
pub(super) type Connected = Box<dyn FnOnce(Result<Arc<PeerState>, Error>) + Send>;

/// The kind of a message, with the promise for its outcome.
pub(super) enum Purpose {
    Plain(Promise<()>),
    Request(Promise<Bytes>),
    Reply(u64, Promise<()>),
    Unanswered(u64),
}

impl Command {
    /// Resolves its promise with an error.
    fn fail(self, why: Error) {
        match self {
            Command::Connect(_, connected) => connected(Err(why)),
            Command::Send { of, .. } => of.fail(why),
            Command::Path(_, promise) => promise.resolve(Err(why)),
            Command::Consumed(..) | Command::Reuse(_) | Command::End(_) | Command::Close => {}
        }
    }
}

impl Purpose {
    /// Resolves its promise with an error.
    pub(super) fn fail(self, why: Error) {
        match self {
            Purpose::Plain(promise) | Purpose::Reply(_, promise) => promise.resolve(Err(why)),
            Purpose::Request(promise) => promise.resolve(Err(why)),
            Purpose::Unanswered(_) => {}
        }
    }
}

/// State of a session that its handles share.
pub(super) struct PeerState {
    pub(super) id: PeerId,
    pub(super) address: SocketAddr,
    /// Bytes in flight: sent, and neither delivered nor failed.
    pub(super) in_flight: AtomicU64,
    /// The reason of its end.
    pub(super) end: OnceLock<Result<CloseReason, Error>>,
    /// Notified when fewer bytes are in flight, and when the session ends.
    pub(super) drained: Event,
    /// Notified when the session ends.
    pub(super) over: Event,
}

impl PeerState {
    pub(super) fn new(id: PeerId, address: SocketAddr) -> PeerState {
        PeerState {
            id,
            address,
            in_flight: AtomicU64::new(0),
            end: OnceLock::new(),
            drained: Event::new(),
            over: Event::new(),
        }
    }

    /// Sets the reason of its end.
    pub(super) fn ended(&self, how: Result<CloseReason, Error>) {
        let _ = self.end.set(how);
        self.over.notify(usize::MAX);
        self.drained.notify(usize::MAX);
    }

    /// Bytes were delivered or have failed.
    pub(super) fn done(&self, bytes: u64) {
        self.in_flight.fetch_sub(bytes, Ordering::Relaxed);
        self.drained.notify(usize::MAX);
    }

    /// Why the session has ended, if it has.
    pub(super) fn close_error(&self) -> Option<Error> {
        self.end.get().map(|end| end.map_or_else(|error| error, Error::SessionClosed))
    }
}

/// Measurements of the path to a peer.
#[derive(Clone, Debug, PartialEq)]
pub struct PeerPath {
    /// The minimum RTT so far, of a full datagram and a short answer; `None` before the first
    /// measurement.
    pub base_rtt: Option<Span>,
    /// Why the path is outside the design range of the protocol with its parameters, if it is.
    pub domain_warning: Option<String>,
}

/// The memory of a received message, which returns to its host when the application drops it.
pub(super) struct PooledMemory {
    memory: Vec<u8>,
    by: Weak<Shared>,
}

impl PooledMemory {
    /// Wraps memory of a host in `Bytes`.
    pub(super) fn bytes(memory: Vec<u8>, by: &Arc<Shared>) -> Bytes {
        Bytes::from_owner(PooledMemory { memory, by: Arc::downgrade(by) })
    }
}

impl AsRef<[u8]> for PooledMemory {
    fn as_ref(&self) -> &[u8] {
        &self.memory
    }
}

impl Drop for PooledMemory {
    fn drop(&mut self) {
        if let Some(host) = self.by.upgrade() {
            // It is not urgent, so this thread need not execute it.
            host.add(Command::Reuse(std::mem::take(&mut self.memory)));
        }
    }
}

/// A received message in the inbox.
pub(super) struct Arrived {
    pub(super) from: Arc<PeerState>,
    pub(super) body: Bytes,
    /// Its length with its head, which counts against the limit of the peer.
    pub(super) bytes: u64,
    /// Its number, if it is a request.
    pub(super) request: Option<u64>,
}

/// State shared by all handles and the leader.
pub(super) struct Shared {
    pub(super) address: SocketAddr,
    pub(super) commands: Mutex<Commands>,
    inbox: Mutex<VecDeque<Arrived>>,
    /// Notified when a message arrives, and when the host ends.
    pub(super) arrived: Event,
    /// The reason of the host's end.
    pub(super) end: OnceLock<Error>,
    /// Notified when the host ends.
    pub(super) over: Event,
    waker: UnixStream,
    /// Bytes that a peer may send before the application consumes any.
    unread_bytes: u64,
}

/// Pending commands and the state of the leader.
#[derive(Default)]
pub(super) struct Commands {
    list: Vec<Command>,
    /// Whether one of the commands is urgent.
    pub(super) is_urgent: bool,
    /// Whether the leader sleeps and must be woken.
    is_asleep: bool,
    /// Bytes that the application took since the leader last ran.
    consumed_bytes: u64,
    /// Whether there is a leader.
    pub(super) has_leader: bool,
    /// How often a thread took the lead.
    pub(super) lead_count: u64,
    /// Whether a waiting thread requests the lead.
    pub(super) is_requested: bool,
    /// Whether the host's thread is called to lead.
    pub(super) is_called: bool,
    /// Whether the host's thread is parked without periodic checks.
    pub(super) is_parked: bool,
    /// The reason of the host's end, after which commands fail.
    over: Option<Error>,
}

impl Shared {
    /// Creates the state of a host at `address`. A byte written to `waker` wakes the leader.
    pub(super) fn new(address: SocketAddr, waker: UnixStream, unread_bytes: u64) -> Shared {
        Shared {
            address,
            commands: Mutex::default(),
            inbox: Mutex::default(),
            arrived: Event::new(),
            end: OnceLock::new(),
            over: Event::new(),
            waker,
            unread_bytes,
        }
    }

    /// Adds a command for the leader. Returns whether this thread must execute it: it is urgent,
    /// and there is no leader. If the host has ended, the command fails.
    pub(super) fn add(&self, command: Command) -> bool {
        let mut commands = lock(&self.commands);
        if let Some(why) = commands.over {
            drop(commands);
            command.fail(why);
            return false;
        }
        let is_urgent = match command {
            // The leader handles it before the next packet anyway, and a blocked peer requests it.
            Command::Consumed(_, bytes) => {
                commands.consumed_bytes += bytes;
                commands.consumed_bytes >= self.unread_bytes / 8
            }
            Command::Reuse(_) => false,
            _ => true,
        };
        commands.list.push(command);
        commands.is_urgent |= is_urgent;
        let has_leader = commands.has_leader;
        let wakes = is_urgent && std::mem::take(&mut commands.is_asleep);
        drop(commands);
        if wakes {
            self.wake_leader();
        }
        is_urgent && !has_leader && !wakes
    }

    /// Requests the lead from the leader.
    pub(super) fn request_lead(&self) {
        let mut commands = lock(&self.commands);
        commands.is_requested = true;
        let wakes = std::mem::take(&mut commands.is_asleep);
        drop(commands);
        if wakes {
            self.wake_leader();
        }
    }

    /// Wakes the leader. The pipe never fills up: it is written at most once per sleep.
    fn wake_leader(&self) {
        let _ = (&self.waker).write(&[1]);
    }

    /// Takes all commands.
    pub(super) fn take_commands(&self, into: &mut Vec<Command>) {
        let mut commands = lock(&self.commands);
        (commands.is_asleep, commands.is_urgent) = (false, false);
        commands.consumed_bytes = 0;
        std::mem::swap(&mut commands.list, into);
    }

    /// Marks the leader as asleep, unless there are commands or another thread wants to lead.
    /// Returns whether it may sleep.
    pub(super) fn prepare_sleep(&self) -> bool {
        let mut commands = lock(&self.commands);
        commands.is_asleep = commands.list.is_empty() && !commands.is_requested;
        commands.is_asleep
    }

    /// Adds a received message.
    pub(super) fn put(&self, message: Arrived) {
        lock(&self.inbox).push_back(message);
        self.arrived.notify(1.additional());
    }

    /// Drops the oldest unread messages of ended sessions beyond the limit of one session. Else a
    /// peer that opens session after session would fill the memory.
    pub(super) fn drop_unread(&self) {
        let mut inbox = lock(&self.inbox);
        let is_left = |message: &Arrived| message.from.end.get().is_some();
        let left = inbox.iter().filter(|message| is_left(message));
        let mut bytes: u64 = left.map(|message| message.bytes).sum();
        inbox.retain(|message| {
            let is_kept = bytes <= self.unread_bytes || !is_left(message);
            if !is_kept {
                bytes -= message.bytes;
            }
            is_kept
        });
    }

    /// Takes the oldest message.
    pub(super) fn next(&self) -> Option<Arrived> {
        lock(&self.inbox).pop_front()
    }

    /// Marks the host as ended and fails the remaining commands.
    pub(super) fn ended(&self, how: Error) {
        let mut commands = lock(&self.commands);
        commands.over = Some(how);
        let left = std::mem::take(&mut commands.list);
        drop(commands);
        left.into_iter().for_each(|command| command.fail(how));
        let _ = self.end.set(how);
        self.over.notify(usize::MAX);
        self.arrived.notify(usize::MAX);
    }
}
