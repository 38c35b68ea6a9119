//! Who works for a host.
//!
//! One thread at a time does, who leads: the host's own, or one of the application's that is alone
//! in waiting for an outcome and so need not be woken for it. That takes the lead from the host's
//! thread, which is woken once for it, and leaves with the outcome. Nobody leads then until it
//! waits again; orders are seen to by whoever gives them. The host's thread meanwhile looks now and
//! then whether nobody has led since it last looked, and leads if so; and it is called at once
//! where something is due, or others wait, too.
//!
//! So a thread that asks and waits sends and receives by itself, as it would with a bare socket,
//! and where several wait, or tasks, or nobody, all is done behind their backs.

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

/// How often the host's thread looks whether somebody leads: twice that is less than what a packet
/// waits for a thread as a rule ([`most_held`](crate::node::Config::most_held)).
const LOOK: Duration = Duration::from_micros(400);
/// What is due sooner does not wait for that.
const SOON: Span = Span::us(100);

/// Starts the host's thread, which leads.
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

/// What the host's thread does until the host is over.
fn attend(shared: &Arc<Shared>) {
    loop {
        let mut lead = Lead::with(shared, lock(&shared.engine), true);
        lock(&shared.orders).calls = false;
        while !lock(&shared.orders).wanted {
            if !lead.work(None) {
                return;
            }
        }
        drop(lead);
        stand_by(shared);
    }
}

/// Returns when the host's thread has to lead: it is called, or nobody has led for a while.
fn stand_by(shared: &Shared) {
    let mut seen = None;
    loop {
        let mut orders = lock(&shared.orders);
        let is_same = seen.replace(orders.leads) == Some(orders.leads);
        if std::mem::take(&mut orders.calls) || is_same && !orders.led {
            return;
        }
        // Who has led for so long wakes this thread when it leaves.
        orders.rests = is_same;
        drop(orders);
        match is_same {
            true => thread::park(),
            false => thread::park_timeout(LOOK),
        }
    }
}

/// Whoever has it works for the host.
pub(super) struct Lead<'a> {
    shared: &'a Arc<Shared>,
    /// Always there but while it is dropped.
    engine: Option<MutexGuard<'a, Option<Box<Engine>>>>,
    /// Of the host's thread.
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

    /// Unless somebody has it.
    pub(super) fn try_take(shared: &'a Arc<Shared>) -> Option<Lead<'a>> {
        let engine = match shared.engine.try_lock() {
            Ok(engine) => engine,
            Err(TryLockError::Poisoned(engine)) => engine.into_inner(),
            Err(TryLockError::WouldBlock) => return None,
        };
        Some(Lead::with(shared, engine, false))
    }

    /// From whoever has it, as soon as that has done what it is at.
    pub(super) fn demand(shared: &'a Arc<Shared>) -> Lead<'a> {
        Lead::try_take(shared).unwrap_or_else(|| {
            shared.want();
            let lead = Lead::with(shared, lock(&shared.engine), false);
            lock(&shared.orders).wanted = false;
            lead
        })
    }

    /// A turn, and a sleep no longer than that if there is nothing to do; false once the host is
    /// over.
    pub(super) fn work(&mut self, most: Option<Duration>) -> bool {
        self.step(|engine, shared| match engine.poll() {
            Next::Sleep if shared.falls_asleep() => engine.sleep(most),
            next => next,
        })
    }

    /// A turn.
    pub(super) fn poll(&mut self) {
        self.step(|engine, _| engine.poll());
    }

    fn step(&mut self, step: impl FnOnce(&mut Engine, &Shared) -> Next) -> bool {
        let Some(place) = self.engine.as_deref_mut() else { return false };
        // Where this panics the engine goes with it, and whoever waits hears that it has failed.
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
        // Who gave an order while nobody led, and found that it was not free yet, relies on this.
        let calls = is_due || others || orders.is_urgent;
        orders.calls |= calls;
        let wakes = std::mem::take(&mut orders.rests) || calls;
        drop(orders);
        if wakes {
            self.shared.wake();
        }
    }
}

/// Somebody waits for an outcome.
pub(super) struct Waits(Arc<Shared>);

impl Waits {
    /// One more does.
    pub(super) fn new(shared: &Arc<Shared>) -> Waits {
        shared.waiting.fetch_add(1, Ordering::Relaxed);
        Waits(shared.clone())
    }

    /// Nobody else does.
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
    fn a_thread_that_waits_alone_leads_and_none_of_several_has_to() {
        let (server, client, peer) = pair();
        thread::scope(|scope| {
            scope.spawn(|| serve(&server));
            let before = leads(&client);
            for _ in 0..50 {
                assert_eq!(peer.request("alone").wait().unwrap(), "reply");
            }
            assert!(leads(&client) >= before + 50, "{before} to {}", leads(&client));
            // One that waits for ever is in nobody's way.
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
    fn where_nobody_waits_the_hosts_own_thread_leads() {
        let (server, _client, peer) = pair();
        thread::scope(|scope| {
            scope.spawn(|| serve(&server));
            for _ in 0..20 {
                let mut asked = peer.request("later");
                thread::sleep(Duration::from_millis(20));
                // No time is left to do anything for it now.
                if asked.wait_for(Duration::ZERO).is_err() {
                    // A busy machine.
                    assert_eq!(asked.wait().unwrap(), "reply");
                    continue;
                }
                return drop(server.close());
            }
            server.close();
            panic!("in 20 ms nothing came, 20 times");
        });
    }

    #[test]
    fn what_panics_while_it_leads_ends_the_host_and_no_more() {
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

    /// It unwinds, and drops what it has taken: that is not the host's doing.
    #[test]
    fn an_application_that_panics_ends_no_host() {
        let (server, _client, peer) = pair();
        let asked = peer.request("anybody?");
        let fails = || {
            let _taken = server.receive().wait();
            panic!("as it should");
        };
        assert!(catch_unwind(AssertUnwindSafe(fails)).is_err());
        assert_eq!(asked.wait(), Err(Error::Unanswered));
        thread::scope(|scope| {
            scope.spawn(|| serve(&server));
            assert_eq!(peer.request("still there?").wait().unwrap(), "reply");
            server.close();
        });
    }
}
