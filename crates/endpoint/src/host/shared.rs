//! What handles and whoever works for the host share.

use std::collections::VecDeque;
use std::io::Write as _;
use std::net::SocketAddr;
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, Weak};
use std::thread::Thread;

use bytes::Bytes;
use event_listener::{Event, IntoNotification as _};

use super::completion::Promise;
use super::engine::Engine;
use super::thread::Lead;
use super::{Error, Peer, PeerPath};
use crate::node::{Gone, PeerId};

/// Locks; who has panicked meanwhile has left nothing half-done.
pub(super) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// What a host is told to do.
pub(super) enum Order {
    /// Ask for a session. Whoever asks waits for a handle, so the host has one to give.
    Connect(SocketAddr, Promise<Peer>, Handle),
    /// Send a message.
    Send { to: Arc<PeerState>, body: Bytes, of: Purpose },
    /// Say what is known of the path to a peer.
    Path(Arc<PeerState>, Promise<PeerPath>),
    /// The application has taken so many bytes of that peer's messages.
    Taken(PeerId, u64),
    /// Use the memory of a message for others.
    Reuse(Vec<u8>),
    /// End a session when what was sent has arrived.
    End(PeerId),
    /// End all.
    Close,
}

/// What a message is for, and whom its outcome is told.
pub(super) enum Purpose {
    Plain(Promise<()>),
    Request(Promise<Bytes>),
    Reply(u64, Promise<()>),
    Unanswered(u64),
}

impl Order {
    /// It will not be done.
    fn fail(self, why: Error) {
        match self {
            Order::Connect(_, promise, _) => promise.resolve(Err(why)),
            Order::Send { of, .. } => of.fail(why),
            Order::Path(_, promise) => promise.resolve(Err(why)),
            Order::Taken(..) | Order::Reuse(_) | Order::End(_) | Order::Close => {}
        }
    }
}

impl Purpose {
    /// It will not be sent.
    pub(super) fn fail(self, why: Error) {
        match self {
            Purpose::Plain(promise) | Purpose::Reply(_, promise) => promise.resolve(Err(why)),
            Purpose::Request(promise) => promise.resolve(Err(why)),
            Purpose::Unanswered(_) => {}
        }
    }
}

/// A session as its handles see it.
pub(super) struct PeerState {
    pub(super) id: PeerId,
    pub(super) address: SocketAddr,
    /// Bytes that were sent and are neither delivered nor failed.
    pub(super) under_way: AtomicU64,
    /// How it ended.
    pub(super) end: OnceLock<Result<Gone, Error>>,
    /// Notified when there are fewer bytes under way, or never will be any.
    pub(super) drained: Event,
    /// Notified when it has ended.
    pub(super) over: Event,
}

impl PeerState {
    pub(super) fn new(id: PeerId, address: SocketAddr) -> PeerState {
        PeerState {
            id,
            address,
            under_way: AtomicU64::new(0),
            end: OnceLock::new(),
            drained: Event::new(),
            over: Event::new(),
        }
    }

    /// It is over.
    pub(super) fn ended(&self, how: Result<Gone, Error>) {
        let _ = self.end.set(how);
        self.over.notify(usize::MAX);
        self.drained.notify(usize::MAX);
    }

    /// Bytes have arrived, or never will.
    pub(super) fn done(&self, bytes: u64) {
        self.under_way.fetch_sub(bytes, Ordering::Relaxed);
        self.drained.notify(usize::MAX);
    }

    /// Why nothing can be sent any more, once that is so.
    pub(super) fn why_over(&self) -> Option<Error> {
        self.end.get().map(|end| end.map_or_else(|error| error, Error::Gone))
    }
}

/// The memory of a message, which its host has again once nobody looks at it.
pub(super) struct Lent {
    memory: Vec<u8>,
    by: Weak<Shared>,
}

impl Lent {
    /// Such of that host as bytes.
    pub(super) fn bytes(memory: Vec<u8>, by: &Arc<Shared>) -> Bytes {
        Bytes::from_owner(Lent { memory, by: Arc::downgrade(by) })
    }
}

impl AsRef<[u8]> for Lent {
    fn as_ref(&self) -> &[u8] {
        &self.memory
    }
}

impl Drop for Lent {
    fn drop(&mut self) {
        if let Some(host) = self.by.upgrade() {
            host.order(Order::Reuse(std::mem::take(&mut self.memory)));
        }
    }
}

/// A message that nobody has taken yet.
pub(super) struct Arrived {
    pub(super) from: Arc<PeerState>,
    pub(super) body: Bytes,
    /// Its length with its head, which is what takes room.
    pub(super) bytes: u64,
    /// The number of a request.
    pub(super) request: Option<u64>,
}

/// Shared by all handles, and who works.
pub(super) struct Shared {
    pub(super) address: SocketAddr,
    pub(super) orders: Mutex<Orders>,
    /// What works, until the host is over: whoever has it leads.
    pub(super) engine: Mutex<Option<Box<Engine>>>,
    /// How many wait for outcomes.
    pub(super) waiting: AtomicUsize,
    /// The host's own.
    pub(super) thread: OnceLock<Thread>,
    inbox: Mutex<VecDeque<Arrived>>,
    /// A message has arrived, or none will any more.
    pub(super) arrived: Event,
    /// How it ended.
    pub(super) end: OnceLock<Error>,
    /// Notified when it has.
    pub(super) over: Event,
    waker: UnixStream,
    /// What a peer may send before the application has taken anything.
    unread_bytes: u64,
}

/// What is to be done, and by whom.
#[derive(Default)]
pub(super) struct Orders {
    list: Vec<Order>,
    /// One of them cannot wait.
    pub(super) is_urgent: bool,
    /// Who leads has to be woken.
    asleep: bool,
    /// Bytes taken that nobody was woken for.
    untold: u64,
    /// Somebody leads.
    pub(super) led: bool,
    /// How often somebody began to.
    pub(super) leads: u64,
    /// A thread that waits wants to lead.
    pub(super) wanted: bool,
    /// The host's thread is to lead.
    pub(super) calls: bool,
    /// The host's thread does not look by itself whether somebody leads.
    pub(super) rests: bool,
    /// Why nobody takes orders any more.
    over: Option<Error>,
}

impl Shared {
    /// Of a host at that address, woken by what can be read at the other end of `waker`.
    pub(super) fn new(address: SocketAddr, waker: UnixStream, unread_bytes: u64) -> Shared {
        Shared {
            address,
            orders: Mutex::default(),
            engine: Mutex::default(),
            waiting: AtomicUsize::new(0),
            thread: OnceLock::new(),
            inbox: Mutex::default(),
            arrived: Event::new(),
            end: OnceLock::new(),
            over: Event::new(),
            waker,
            unread_bytes,
        }
    }

    /// Gives an order to whoever leads, or sees to it where nobody does; where the host is over, it
    /// fails.
    pub(super) fn order(self: &Arc<Self>, order: Order) {
        let mut orders = lock(&self.orders);
        if let Some(why) = orders.over {
            drop(orders);
            return order.fail(why);
        }
        let is_urgent = match order {
            // It is heard of before the next packet is, and that of a peer without room is soon.
            Order::Taken(_, bytes) => {
                orders.untold += bytes;
                orders.untold >= self.unread_bytes / 8
            }
            Order::Reuse(_) => false,
            _ => true,
        };
        orders.list.push(order);
        orders.is_urgent |= is_urgent;
        let is_led = orders.led;
        let wakes = is_urgent && std::mem::take(&mut orders.asleep);
        drop(orders);
        if wakes {
            self.disturb();
        } else if is_urgent
            && !is_led
            && let Some(mut lead) = Lead::try_take(self)
        {
            lead.poll();
        }
    }

    /// Somebody wants to lead.
    pub(super) fn want(&self) {
        let mut orders = lock(&self.orders);
        orders.wanted = true;
        let wakes = std::mem::take(&mut orders.asleep);
        drop(orders);
        if wakes {
            self.disturb();
        }
    }

    /// Has the host's thread lead, if nobody does.
    pub(super) fn call(&self) {
        let mut orders = lock(&self.orders);
        let calls = !orders.led;
        orders.calls |= calls;
        drop(orders);
        if calls {
            self.wake();
        }
    }

    /// Wakes the host's thread, which stands by.
    pub(super) fn wake(&self) {
        if let Some(thread) = self.thread.get() {
            thread.unpark();
        }
    }

    /// Wakes who leads. There is room: it is written to only once for each sleep.
    fn disturb(&self) {
        let _ = (&self.waker).write(&[1]);
    }

    /// Takes all orders.
    pub(super) fn orders(&self, into: &mut Vec<Order>) {
        let mut orders = lock(&self.orders);
        (orders.asleep, orders.is_urgent) = (false, false);
        orders.untold = 0;
        std::mem::swap(&mut orders.list, into);
    }

    /// Who leads sleeps from now on, unless there are orders, or another wants to lead; whether it
    /// does.
    pub(super) fn falls_asleep(&self) -> bool {
        let mut orders = lock(&self.orders);
        orders.asleep = orders.list.is_empty() && !orders.wanted;
        orders.asleep
    }

    /// A message has arrived.
    pub(super) fn put(&self, message: Arrived) {
        lock(&self.inbox).push_back(message);
        self.arrived.notify(1.additional());
    }

    /// A session is over. Of what such have left, no more is kept than one may send, and that came
    /// last: who begins one after the other would fill all memory.
    pub(super) fn forget_left(&self) {
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

    /// The message that arrived first.
    pub(super) fn next(self: &Arc<Self>) -> Option<Arrived> {
        let message = lock(&self.inbox).pop_front()?;
        self.order(Order::Taken(message.from.id, message.bytes));
        Some(message)
    }

    /// The host is over.
    pub(super) fn ended(&self, how: Error) {
        let mut orders = lock(&self.orders);
        orders.over = Some(how);
        let left = std::mem::take(&mut orders.list);
        drop(orders);
        left.into_iter().for_each(|order| order.fail(how));
        let _ = self.end.set(how);
        self.over.notify(usize::MAX);
        self.arrived.notify(usize::MAX);
    }
}

/// As long as there is one, the host goes on.
#[derive(Clone)]
pub(super) struct Handle(Arc<Lease>);

struct Lease(Arc<Shared>);

impl Handle {
    pub(super) fn new(shared: Arc<Shared>) -> Handle {
        Handle(Arc::new(Lease(shared)))
    }

    pub(super) fn shared(&self) -> &Arc<Shared> {
        &self.0.0
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        self.0.order(Order::Close);
    }
}
