//! The interface for applications: a [`Driver`] in its own thread, and handles that any thread may
//! use.
//!
//! ```
//! # use tidegate_algos::Protocol;
//! # use tidegate_core::Rate;
//! use tidegate_endpoint::host::{Error, Host, Message};
//! use tidegate_endpoint::node::Config;
//! use tidegate_endpoint::session::Key;
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let key = Key::new(b"sixteen bytes or more, at random");
//! let config = Config::real(Protocol::DEFAULT.stack(), key, Rate::gbps(10));
//! let server = Host::bind("127.0.0.1:0".parse()?, config.clone())?;
//! let address = server.address();
//! std::thread::spawn(move || {
//!     while let Ok((_, message)) = server.receive().wait() {
//!         if let Message::Request(request) = message {
//!             let echo = request.body().clone();
//!             request.reply(echo);
//!         }
//!     }
//! });
//! let client = Host::bind("127.0.0.1:0".parse()?, config)?;
//! let peer = client.connect(address).wait()?;
//! assert_eq!(peer.request("hello").wait()?, "hello");
//! client.close().wait()?;
//! # Ok(())
//! # }
//! ```
//!
//! A [`Completion`] is waited for ([`wait`](Completion::wait)) or awaited in any executor. If a
//! single thread waits, that thread runs the event loop of the host and need not be woken for its
//! outcome; else the host's own thread runs it. `Host`, [`Peer`], [`Request`] and `Completion` are
//! handles: the host runs while one of them exists. When the last is dropped, the host closes as by
//! [`Host::close`], but without waiting: if the process ends then, messages in flight may be lost.

// A module uses only those before it: `promise` keeps an outcome until it is taken, `shared` has
// the commands and the inbox, `engine` executes commands, `thread` selects the thread that runs the
// engine, `handle` keeps the host running, and `completion` and `peer` are for the application.
mod completion;
mod engine;
mod error;
mod handle;
mod lock;
mod peer;
mod promise;
mod shared;
mod thread;

use std::fmt;
use std::net::SocketAddr;
use std::os::unix::net::UnixStream;
use std::sync::Arc;

use event_listener::Event;

pub use completion::Completion;
pub use error::{BindError, Error};
pub use peer::{Message, Peer, Request};
pub use shared::PeerPath;

use crate::driver::Driver;
use crate::node::{CloseReason, Config, Delivery, Node, entropy};
use crate::socket::{Socket, SocketOptions};
use handle::Handle;
use promise::Source;
use shared::{Command, Shared};

/// A handle of a host. Clones refer to the same host.
#[derive(Clone)]
pub struct Host(Handle);

impl Host {
    /// Creates a host at an address. Port 0 selects a free port.
    ///
    /// # Errors If the configuration is invalid, or the system refuses the address.
    pub fn bind(address: SocketAddr, config: Config) -> Result<Host, BindError> {
        let config = Config { delivery: Delivery::Whole, ..config };
        let node = Node::new(config, entropy()?)?;
        let socket = Socket::bind(address, SocketOptions::default())?;
        Ok(Host::start(Driver::new(node, socket))?)
    }

    /// Starts a host on a driver that has not reported any event yet.
    ///
    /// # Errors If the system cannot start a thread.
    pub fn start(driver: Driver) -> std::io::Result<Host> {
        let (woken, waker) = UnixStream::pair()?;
        woken.set_nonblocking(true)?;
        let unread_bytes = driver.node.limits().unread_bytes;
        let shared = Arc::new(Shared::new(driver.address()?, waker, unread_bytes));
        Ok(Host(Handle::new(thread::spawn(driver, shared, woken)?)))
    }

    /// The local address.
    pub fn address(&self) -> SocketAddr {
        self.0.shared().address
    }

    /// Requests a session with the peer at an address. If one exists already, it is reused.
    pub fn connect(&self, to: SocketAddr) -> Completion<Peer> {
        let (promise, completion) = Completion::promised(&self.0);
        let host = self.0.clone();
        let connected =
            |session: Result<_, _>| promise.resolve(session.map(|state| Peer { state, host }));
        self.0.submit(Command::Connect(to, Box::new(connected)));
        completion
    }

    /// Receives the next message of any peer, in the order of arrival. Each peer may have at most
    /// [`unread_bytes`](crate::node::Limits::unread_bytes) unread bytes here. Unread messages of
    /// ended sessions are kept up to the same bound, for all of them together. Fails once the host
    /// is closed and no message is left.
    pub fn receive(&self) -> Completion<(Peer, Message)> {
        Completion::new(Arc::new(Inbox(self.0.clone())), self.0.clone())
    }

    /// Closes all sessions once their sent messages have arrived, then the host; completes when the
    /// host has ended. If no message is delivered for [`silence`](crate::node::Limits::silence),
    /// the remaining ones fail.
    pub fn close(&self) -> Completion<()> {
        self.0.submit(Command::Close);
        Completion::new(Arc::new(End(self.0.shared().clone())), self.0.clone())
    }
}

impl fmt::Debug for Host {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Host({})", self.address())
    }
}

/// Waits for messages.
struct Inbox(Handle);

impl Source<(Peer, Message)> for Inbox {
    fn take(&self) -> Option<Result<(Peer, Message), Error>> {
        let shared = self.0.shared();
        // Read the end first: no message arrives after it.
        let end = shared.end.get();
        let Some(message) = shared.next() else { return end.map(|&why| Err(why)) };
        self.0.submit(Command::Consumed(message.from.id, message.bytes));
        let from = Peer { state: message.from, host: self.0.clone() };
        let body = message.body;
        let message = match message.request {
            None => Message::Plain(body),
            Some(number) => {
                Message::Request(Request { from: from.clone(), number, body, is_answered: false })
            }
        };
        Some(Ok((from, message)))
    }

    fn changed(&self) -> &Event {
        &self.0.shared().arrived
    }
}

/// Waits for the end of the host.
struct End(Arc<Shared>);

impl Source<()> for End {
    fn take(&self) -> Option<Result<(), Error>> {
        self.0.end.get().map(|&why| if why == Error::Closed { Ok(()) } else { Err(why) })
    }

    fn changed(&self) -> &Event {
        &self.0.over
    }
}
