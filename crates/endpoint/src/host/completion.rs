//! Pending outcomes.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use event_listener::{EventListener, Listener};

use super::Error;
use super::handle::Handle;
use super::promise::{Promise, Source};
use super::thread::{Lead, Waiter};
use crate::driver::{Clock, span};

/// A pending outcome. Threads wait for it; tasks of any executor await it. The operation continues
/// even if it is dropped.
pub struct Completion<T> {
    source: Arc<dyn Source<T>>,
    listener: Option<EventListener>,
    /// Set while a task waits for it.
    waits: Option<Waiter>,
    /// Keeps the host running.
    host: Handle,
}

impl<T: Send + 'static> Completion<T> {
    /// Creates the completion of a promise.
    pub(super) fn promised(host: &Handle) -> (Promise<T>, Completion<T>) {
        let (promise, source) = Promise::new();
        (promise, Completion::new(source, host.clone()))
    }
}

impl<T> Completion<T> {
    pub(super) fn new(source: Arc<dyn Source<T>>, host: Handle) -> Completion<T> {
        Completion { source, listener: None, waits: None, host }
    }

    /// Waits for the outcome. If no other thread waits, this thread runs the event loop of the host
    /// meanwhile.
    ///
    /// # Errors The reason for which the operation failed.
    pub fn wait(mut self) -> Result<T, Error> {
        self.outcome(|| None)
    }

    /// Waits for the outcome, but at most for `most`. After a timeout, it can be waited for again.
    ///
    /// # Errors [`Error::TimedOut`] if there is no outcome yet, else the reason for which the
    /// operation failed.
    pub fn wait_for(&mut self, most: Duration) -> Result<T, Error> {
        let clock = Clock::new();
        let (begun, most) = (clock.now(), span(most));
        self.outcome(|| {
            let left = most.beyond(clock.now().since(begun));
            Some(Duration::from_nanos(left.as_ps().div_ceil(1_000)))
        })
    }

    /// Waits while `left` returns a time other than zero; `None` has no limit.
    fn outcome(&mut self, left: impl Fn() -> Option<Duration>) -> Result<T, Error> {
        let event_loop = self.host.event_loop().clone();
        let waits = Waiter::new(&event_loop);
        let mut lead: Option<Lead<'_>> = None;
        loop {
            if let Some(outcome) = self.source.take() {
                // Drop the listener, so that a notification goes to another waiter.
                self.listener = None;
                return outcome;
            }
            let left = left();
            if left == Some(Duration::ZERO) {
                self.listener = None;
                return Err(Error::TimedOut);
            }
            let looks_again = match &mut lead {
                Some(lead) => lead.work(left),
                None if waits.is_alone() => {
                    lead = Some(Lead::acquire(&event_loop));
                    true
                }
                None => false,
            };
            if looks_again {
                continue;
            }
            // After registering, check again: the outcome may have arrived in between.
            match (self.listener.take(), left) {
                (None, _) => self.listener = Some(self.source.changed().listen()),
                (Some(listener), None) => listener.wait(),
                (Some(listener), Some(left)) => {
                    listener.wait_timeout(left);
                }
            }
        }
    }
}

impl<T> fmt::Debug for Completion<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Completion")
    }
}

impl<T> Future for Completion<T> {
    type Output = Result<T, Error>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        loop {
            if let Some(outcome) = self.source.take() {
                (self.listener, self.waits) = (None, None);
                return Poll::Ready(outcome);
            }
            match &mut self.listener {
                Some(listener) => match Pin::new(listener).poll(context) {
                    Poll::Ready(()) => self.listener = None,
                    Poll::Pending => {
                        if self.waits.is_none() {
                            self.waits = Some(Waiter::new(self.host.event_loop()));
                            self.host.event_loop().call_host_thread();
                        }
                        return Poll::Pending;
                    }
                },
                None => self.listener = Some(self.source.changed().listen()),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::net::{Ipv4Addr, SocketAddr};
    use std::os::unix::net::UnixStream;

    use super::*;
    use crate::host::shared::Shared;
    use crate::host::thread::EventLoop;

    fn promise() -> (Promise<u8>, Completion<u8>) {
        let (_, waker) = UnixStream::pair().unwrap();
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
        let shared = Arc::new(Shared::new(address, waker, 1));
        Completion::promised(&Handle::new(Arc::new(EventLoop::new(shared, None))))
    }

    #[test]
    fn dropped_promise_resolves_to_closed() {
        let (promise, mut completion) = promise();
        assert_eq!(completion.wait_for(Duration::ZERO), Err(Error::TimedOut));
        drop(promise);
        assert_eq!(completion.wait_for(Duration::ZERO), Err(Error::Closed));
    }

    #[test]
    fn outcome_taken_once() {
        let (promise, mut completion) = promise();
        promise.resolve(Ok(7));
        assert_eq!(completion.wait_for(Duration::MAX), Ok(7));
        assert_eq!(completion.wait(), Err(Error::Given));
    }
}
