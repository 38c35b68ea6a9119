//! Which thread runs the event loop of a host.
//!
//! One thread at a time runs it: the leader. That is the host's own thread, or the only application
//! thread that waits for an outcome, which then need not be woken for it. Such a thread takes the
//! lead from the host's thread, which is woken once for that, and gives it up with its outcome.
//! Until it waits again there is no leader; a thread that gives a command executes it. Meanwhile
//! the host's thread checks periodically whether there was a leader since its last check, and leads
//! if not. It is called at once if a deadline is near or if other threads wait, too.
//!
//! So a single thread that sends a request and waits does the I/O itself, as with a bare socket. If
//! several threads, tasks or none wait, the host's thread does it.

use std::io;
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, TryLockError};
use std::thread::{self, Builder, Thread};
use std::time::Duration;

use tidegate_core::Span;

use super::engine::{Engine, Next};
use super::lock::lock;
use super::shared::{Command, Shared};
use crate::driver::Driver;

/// Interval at which the host's thread checks for a leader. Twice this is less than the usual
/// maximum wait of a packet for a thread ([`most_held`](crate::node::Config::most_held)).
const CHECK_INTERVAL: Duration = Duration::from_micros(400);
/// A deadline nearer than this does not wait for the next check.
const NEAR_DEADLINE: Span = Span::us(100);

/// The event loop of a host, and the threads that may run it.
pub(super) struct EventLoop {
    pub(super) shared: Arc<Shared>,
    /// The engine, until the host ends. The thread that holds the lock is the leader.
    engine: Mutex<Option<Box<Engine>>>,
    /// Number of waiters for outcomes.
    waiting: AtomicUsize,
    /// The host's own thread.
    thread: OnceLock<Thread>,
}

impl EventLoop {
    pub(super) fn new(shared: Arc<Shared>, engine: Option<Box<Engine>>) -> EventLoop {
        let (waiting, thread) = (AtomicUsize::new(0), OnceLock::new());
        EventLoop { shared, engine: Mutex::new(engine), waiting, thread }
    }

    /// Gives a command to the leader. If there is no leader, this thread executes it. If the host
    /// has ended, the command fails.
    pub(super) fn submit(&self, command: Command) {
        if self.shared.add(command)
            && let Some(mut lead) = Lead::try_acquire(self)
        {
            lead.poll();
        }
    }

    /// Makes the host's thread the leader if there is none.
    pub(super) fn call_host_thread(&self) {
        let mut commands = lock(&self.shared.commands);
        let calls = !commands.has_leader;
        commands.is_called |= calls;
        drop(commands);
        if calls {
            self.wake();
        }
    }

    /// Wakes the host's thread, which is parked.
    fn wake(&self) {
        if let Some(thread) = self.thread.get() {
            thread.unpark();
        }
    }
}

/// Starts an event loop with the host's thread as leader.
pub(super) fn spawn(
    driver: Driver,
    shared: Arc<Shared>,
    woken: UnixStream,
) -> io::Result<Arc<EventLoop>> {
    let engine = Engine::new(driver, shared.clone(), woken);
    let event_loop = Arc::new(EventLoop::new(shared, Some(Box::new(engine))));
    let host = event_loop.clone();
    let thread =
        Builder::new().name("tidegate-host".into()).spawn(move || run_host_thread(&host))?;
    let _ = event_loop.thread.set(thread.thread().clone());
    Ok(event_loop)
}

/// The main loop of the host's thread, until the host ends.
fn run_host_thread(event_loop: &EventLoop) {
    let shared = &event_loop.shared;
    loop {
        let mut lead = Lead::with(event_loop, lock(&event_loop.engine), true);
        lock(&shared.commands).is_called = false;
        while !lock(&shared.commands).is_requested {
            if !lead.work(None) {
                return;
            }
        }
        drop(lead);
        wait_for_lead(shared);
    }
}

/// Returns when the host's thread must lead: it was called, or there was no leader for a while.
fn wait_for_lead(shared: &Shared) {
    let mut seen = None;
    loop {
        let mut commands = lock(&shared.commands);
        let is_same = seen.replace(commands.lead_count) == Some(commands.lead_count);
        if std::mem::take(&mut commands.is_called) || is_same && !commands.has_leader {
            return;
        }
        // A leader of that long wakes this thread when it stops.
        commands.is_parked = is_same;
        drop(commands);
        match is_same {
            true => thread::park(),
            false => thread::park_timeout(CHECK_INTERVAL),
        }
    }
}

/// The right to run the event loop.
pub(super) struct Lead<'a> {
    event_loop: &'a EventLoop,
    /// Always `Some` except during drop.
    engine: Option<MutexGuard<'a, Option<Box<Engine>>>>,
    /// Whether the host's thread has it.
    is_own: bool,
}

impl<'a> Lead<'a> {
    fn with(
        event_loop: &'a EventLoop,
        engine: MutexGuard<'a, Option<Box<Engine>>>,
        is_own: bool,
    ) -> Lead<'a> {
        let mut commands = lock(&event_loop.shared.commands);
        commands.has_leader = true;
        commands.lead_count = commands.lead_count.wrapping_add(1);
        drop(commands);
        Lead { event_loop, engine: Some(engine), is_own }
    }

    /// Takes the lead, unless another thread has it.
    fn try_acquire(event_loop: &'a EventLoop) -> Option<Lead<'a>> {
        let engine = match event_loop.engine.try_lock() {
            Ok(engine) => engine,
            Err(TryLockError::Poisoned(engine)) => engine.into_inner(),
            Err(TryLockError::WouldBlock) => return None,
        };
        Some(Lead::with(event_loop, engine, false))
    }

    /// Takes the lead from the current leader, after its current iteration.
    pub(super) fn acquire(event_loop: &'a EventLoop) -> Lead<'a> {
        Lead::try_acquire(event_loop).unwrap_or_else(|| {
            event_loop.shared.request_lead();
            let lead = Lead::with(event_loop, lock(&event_loop.engine), false);
            lock(&event_loop.shared.commands).is_requested = false;
            lead
        })
    }

    /// Runs one iteration, and sleeps at most for `most` if there is nothing to do. Returns false
    /// once the host has ended.
    pub(super) fn work(&mut self, most: Option<Duration>) -> bool {
        self.step(|engine, shared| match engine.poll() {
            Next::Sleep if shared.prepare_sleep() => engine.sleep(most),
            next => next,
        })
    }

    /// Runs one iteration.
    fn poll(&mut self) {
        self.step(|engine, _| engine.poll());
    }

    fn step(&mut self, step: impl FnOnce(&mut Engine, &Shared) -> Next) -> bool {
        let Some(place) = self.engine.as_deref_mut() else { return false };
        // If this panics, the engine is dropped, and all waiters receive `Error::Failed`.
        let Some(mut engine) = place.take() else { return false };
        match step(&mut engine, &self.event_loop.shared) {
            Next::Poll | Next::Sleep => *place = Some(engine),
            Next::End => return false,
        }
        true
    }
}

impl Drop for Lead<'_> {
    fn drop(&mut self) {
        let Some(place) = self.engine.take() else { return };
        let is_due = place.as_ref().is_none_or(|engine| engine.is_due_within(NEAR_DEADLINE));
        let EventLoop { shared, waiting, .. } = self.event_loop;
        lock(&shared.commands).has_leader = false;
        drop(place);
        if self.is_own {
            return;
        }
        let others = waiting.load(Ordering::Relaxed) > 1;
        let mut commands = lock(&shared.commands);
        // A thread that gave an urgent command while this lead was being released relies on this.
        let calls = is_due || others || commands.is_urgent;
        commands.is_called |= calls;
        let wakes = std::mem::take(&mut commands.is_parked) || calls;
        drop(commands);
        if wakes {
            self.event_loop.wake();
        }
    }
}

/// Counts a waiter for an outcome.
pub(super) struct Waiter(Arc<EventLoop>);

impl Waiter {
    /// Adds a waiter.
    pub(super) fn new(event_loop: &Arc<EventLoop>) -> Waiter {
        event_loop.waiting.fetch_add(1, Ordering::Relaxed);
        Waiter(event_loop.clone())
    }

    /// Whether there is no other waiter.
    pub(super) fn is_alone(&self) -> bool {
        self.0.waiting.load(Ordering::Relaxed) == 1
    }
}

impl Drop for Waiter {
    fn drop(&mut self) {
        self.0.waiting.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use std::net::{Ipv4Addr, SocketAddr};
    use std::panic::{AssertUnwindSafe, catch_unwind};

    use tidegate_algos::Protocol;
    use tidegate_core::Rate;

    use crate::host::{Error, Host, Message, Peer};
    use crate::node::Config;
    use crate::session::Key;

    use super::*;

    fn pair() -> (Host, Host, Peer) {
        let config = Config::real(Protocol::DEFAULT.stack(), Key::new(b"leads"), Rate::gbps(10));
        let host =
            || Host::bind(SocketAddr::from((Ipv4Addr::LOCALHOST, 0)), config.clone()).unwrap();
        let (server, client) = (host(), host());
        let peer = client.connect(server.address()).wait_for(Duration::from_secs(60)).unwrap();
        (server, client, peer)
    }

    /// Answers requests until the host is closed.
    fn serve(server: &Host) {
        while let Ok((_, message)) = server.receive().wait() {
            if let Message::Request(request) = message {
                request.reply("reply");
            }
        }
    }

    fn lead_count(host: &Host) -> u64 {
        lock(&host.0.shared().commands).lead_count
    }

    #[test]
    fn single_waiter_leads() {
        let (server, client, peer) = pair();
        thread::scope(|scope| {
            scope.spawn(|| serve(&server));
            let before = lead_count(&client);
            for _ in 0..50 {
                assert_eq!(peer.request("alone").wait().unwrap(), "reply");
            }
            assert!(lead_count(&client) >= before + 50, "{before} to {}", lead_count(&client));
            // A thread that waits for ever does not block others.
            let forever = scope.spawn(|| client.receive().wait().map(drop));
            for _ in 0..50 {
                assert_eq!(peer.request("beside it").wait().unwrap(), "reply");
            }
            client.close();
            assert_eq!(forever.join().unwrap(), Err(Error::Closed));
            server.close();
        });
    }

    #[test]
    fn host_thread_leads_without_waiters() {
        let (server, _client, peer) = pair();
        thread::scope(|scope| {
            scope.spawn(|| serve(&server));
            for _ in 0..20 {
                let mut reply = peer.request("later");
                thread::sleep(Duration::from_millis(20));
                // A zero timeout leaves no time to run the event loop here.
                if reply.wait_for(Duration::ZERO).is_err() {
                    // A busy machine.
                    assert_eq!(reply.wait().unwrap(), "reply");
                    continue;
                }
                return drop(server.close());
            }
            server.close();
            panic!("no reply within 20 ms in 20 attempts");
        });
    }

    #[test]
    fn panic_in_event_loop_ends_host() {
        let (server, client, peer) = pair();
        let fails = || {
            let mut lead = Lead::acquire(client.0.event_loop());
            lead.step(|_, _| panic!("as it should"));
        };
        assert!(catch_unwind(AssertUnwindSafe(fails)).is_err());
        assert_eq!(peer.request("anybody?").wait(), Err(Error::Failed));
        assert_eq!(client.close().wait(), Err(Error::Failed));
        assert_eq!(server.close().wait_for(Duration::from_secs(60)), Ok(()));
    }

    /// The panic drops the request that the application took; the host keeps running.
    #[test]
    fn panic_in_application_keeps_host() {
        let (server, _client, peer) = pair();
        let reply = peer.request("anybody?");
        let fails = || {
            let _taken = server.receive().wait();
            panic!("as it should");
        };
        assert!(catch_unwind(AssertUnwindSafe(fails)).is_err());
        assert_eq!(reply.wait(), Err(Error::Unanswered));
        thread::scope(|scope| {
            scope.spawn(|| serve(&server));
            assert_eq!(peer.request("still there?").wait().unwrap(), "reply");
            server.close();
        });
    }
}
