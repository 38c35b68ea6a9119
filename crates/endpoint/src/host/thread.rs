//! Which thread runs the event loop of a host.
//!
//! One thread at a time runs it: the leader. That is the host's own thread, or the only application
//! thread that waits for an outcome, which then need not be woken for it. Such a thread takes the
//! lead from the host's thread, which is woken once for that, and gives it up with its outcome.
//! Until it waits again there is no leader; a thread that gives an order executes it. Meanwhile the
//! host's thread checks periodically whether there was a leader since its last check, and leads if
//! not. It is called at once if a deadline is near or if other threads wait, too.
//!
//! So a single thread that sends a request and waits does the I/O itself, as with a bare socket. If
//! several threads, tasks or none wait, the host's thread does it.

use std::io;
use std::os::unix::net::UnixStream;
use std::sync::atomic::Ordering;
use std::sync::{Arc, MutexGuard, TryLockError};
use std::thread::{self, Builder};
use std::time::Duration;

use tidegate_core::Span;

use super::engine::{Engine, Next};
use super::shared::{Shared, lock};
use crate::driver::Driver;

/// Interval at which the host's thread checks for a leader. Twice this is less than the usual
/// maximum wait of a packet for a thread ([`most_held`](crate::node::Config::most_held)).
const LOOK: Duration = Duration::from_micros(400);
/// A deadline nearer than this does not wait for the next check.
const SOON: Span = Span::us(100);

/// Starts the host's thread as leader.
pub(super) fn spawn(driver: Driver, shared: &Arc<Shared>, woken: UnixStream) -> io::Result<()> {
    *lock(&shared.engine) = Some(Box::new(Engine::new(driver, shared.clone(), woken)));
    let host = shared.clone();
    match Builder::new().name("tidegate-host".into()).spawn(move || attend(&host)) {
        Ok(thread) => {
            let _ = shared.thread.set(thread.thread().clone());
            Ok(())
        }
        Err(why) => {
            drop(lock(&shared.engine).take());
            Err(why)
        }
    }
}

/// The main loop of the host's thread, until the host ends.
fn attend(shared: &Arc<Shared>) {
    loop {
        let mut lead = Lead::with(shared, lock(&shared.engine), true);
        lock(&shared.orders).calls = false;
        while !lock(&shared.orders).is_requested {
            if !lead.work(None) {
                return;
            }
        }
        drop(lead);
        stand_by(shared);
    }
}

/// Returns when the host's thread must lead: it was called, or there was no leader for a while.
fn stand_by(shared: &Shared) {
    let mut seen = None;
    loop {
        let mut orders = lock(&shared.orders);
        let is_same = seen.replace(orders.leads) == Some(orders.leads);
        if std::mem::take(&mut orders.calls) || is_same && !orders.led {
            return;
        }
        // A leader of that long wakes this thread when it stops.
        orders.rests = is_same;
        drop(orders);
        match is_same {
            true => thread::park(),
            false => thread::park_timeout(LOOK),
        }
    }
}

/// The right to run the event loop.
pub(super) struct Lead<'a> {
    shared: &'a Arc<Shared>,
    /// Always `Some` except during drop.
    engine: Option<MutexGuard<'a, Option<Box<Engine>>>>,
    /// Whether the host's thread has it.
    is_own: bool,
}

impl<'a> Lead<'a> {
    fn with(
        shared: &'a Arc<Shared>,
        engine: MutexGuard<'a, Option<Box<Engine>>>,
        is_own: bool,
    ) -> Lead<'a> {
        let mut orders = lock(&shared.orders);
        orders.led = true;
        orders.leads = orders.leads.wrapping_add(1);
        drop(orders);
        Lead { shared, engine: Some(engine), is_own }
    }

    /// Takes the lead, unless another thread has it.
    pub(super) fn try_take(shared: &'a Arc<Shared>) -> Option<Lead<'a>> {
        let engine = match shared.engine.try_lock() {
            Ok(engine) => engine,
            Err(TryLockError::Poisoned(engine)) => engine.into_inner(),
            Err(TryLockError::WouldBlock) => return None,
        };
        Some(Lead::with(shared, engine, false))
    }

    /// Takes the lead from the current leader, after its current iteration.
    pub(super) fn demand(shared: &'a Arc<Shared>) -> Lead<'a> {
        Lead::try_take(shared).unwrap_or_else(|| {
            shared.request_lead();
            let lead = Lead::with(shared, lock(&shared.engine), false);
            lock(&shared.orders).is_requested = false;
            lead
        })
    }

    /// Runs one iteration, and sleeps at most for `most` if there is nothing to do. Returns false
    /// once the host has ended.
    pub(super) fn work(&mut self, most: Option<Duration>) -> bool {
        self.step(|engine, shared| match engine.poll() {
            Next::Sleep if shared.falls_asleep() => engine.sleep(most),
            next => next,
        })
    }

    /// Runs one iteration.
    pub(super) fn poll(&mut self) {
        self.step(|engine, _| engine.poll());
    }

    fn step(&mut self, step: impl FnOnce(&mut Engine, &Shared) -> Next) -> bool {
        let Some(place) = self.engine.as_deref_mut() else { return false };
        // If this panics, the engine is dropped, and all waiters receive `Error::Failed`.
        let Some(mut engine) = place.take() else { return false };
        match step(&mut engine, self.shared) {
            Next::Poll | Next::Sleep => *place = Some(engine),
            Next::End => return false,
        }
        true
    }
}

impl Drop for Lead<'_> {
    fn drop(&mut self) {
        let Some(place) = self.engine.take() else { return };
        let is_due = place.as_ref().is_none_or(|engine| engine.is_due_within(SOON));
        lock(&self.shared.orders).led = false;
        drop(place);
        if self.is_own {
            return;
        }
        let others = self.shared.waiting.load(Ordering::Relaxed) > 1;
        let mut orders = lock(&self.shared.orders);
        // A thread that gave an urgent order while this lead was being released relies on this.
        let calls = is_due || others || orders.is_urgent;
        orders.calls |= calls;
        let wakes = std::mem::take(&mut orders.rests) || calls;
        drop(orders);
        if wakes {
            self.shared.wake();
        }
    }
}

/// Counts a waiter for an outcome.
pub(super) struct Waits(Arc<Shared>);

impl Waits {
    /// Adds a waiter.
    pub(super) fn new(shared: &Arc<Shared>) -> Waits {
        shared.waiting.fetch_add(1, Ordering::Relaxed);
        Waits(shared.clone())
    }

    /// Whether there is no other waiter.
    pub(super) fn is_alone(&self) -> bool {
        self.0.waiting.load(Ordering::Relaxed) == 1
    }
}

impl Drop for Waits {
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
        let config = Config::real(Protocol::USUAL.stack(), Key::new(b"leads"), Rate::gbps(10));
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

    fn leads(host: &Host) -> u64 {
        lock(&host.0.shared().orders).leads
    }

    #[test]
    fn single_waiter_leads() {
        let (server, client, peer) = pair();
        thread::scope(|scope| {
            scope.spawn(|| serve(&server));
            let before = leads(&client);
            for _ in 0..50 {
                assert_eq!(peer.request("alone").wait().unwrap(), "reply");
            }
            assert!(leads(&client) >= before + 50, "{before} to {}", leads(&client));
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
            let mut lead = Lead::demand(client.0.shared());
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
