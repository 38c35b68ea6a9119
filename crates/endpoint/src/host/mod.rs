//! A host as applications have it: a [`Driver`], a thread for it, and handles that any thread uses.
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
//! let config = Config::real(Protocol::USUAL.stack(), key, Rate::gbps(10));
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
//! Each [`Completion`] blocks ([`wait`](Completion::wait)) or is awaited, whatever the executor. A
//! thread that alone waits does the host's work meanwhile, and need not be woken for its outcome;
//! else the host's own thread does.
//! `Host`, [`Peer`], [`Request`] and `Completion` are handles: while there is one, the host goes
//! on. When the last is dropped the host closes as [`Host::close`] does, and nobody waits for it: a
//! process that ends then may take with it what has not arrived.

mod completion;
mod engine;
mod error;
mod peer;
mod shared;
mod thread;

use std::fmt;
use std::net::SocketAddr;
use std::os::unix::net::UnixStream;
use std::sync::Arc;

use event_listener::Event;

pub use completion::Completion;
pub use error::{BindError, Error};
pub use peer::{Message, Peer, PeerPath, Request};

use crate::driver::Driver;
use crate::node::{Config, Delivery, Gone, Node, entropy};
use crate::socket::{Socket, SocketOptions};
use completion::{Promise, Source};
use shared::{Handle, Order, Shared};

/// A host: who binds it has the first of its handles.
#[derive(Clone)]
pub struct Host(Handle);

impl Host {
    /// A host at that address; where its port is 0, at one that is free.
    ///
    /// # Errors
    /// Where the configuration makes no sense, or the system refuses the address.
    pub fn bind(address: SocketAddr, config: Config) -> Result<Host, BindError> {
        let config = Config { delivery: Delivery::Whole, ..config };
        let node = Node::new(config, entropy()?)?;
        let socket = Socket::bind(address, SocketOptions::default())?;
        Ok(Host::start(Driver::new(node, socket))?)
    }

    /// A host that goes on with a driver, which has told nothing yet.
    ///
    /// # Errors
    /// Where the system has no thread.
    pub fn start(driver: Driver) -> std::io::Result<Host> {
        let (woken, waker) = UnixStream::pair()?;
        woken.set_nonblocking(true)?;
        let unread_bytes = driver.node.limits().unread_bytes;
        let shared = Arc::new(Shared::new(driver.address()?, waker, unread_bytes));
        thread::spawn(driver, &shared, woken)?;
        Ok(Host(Handle::new(shared)))
    }

    /// Where it is.
    pub fn address(&self) -> SocketAddr {
        self.0.shared().address
    }

    /// Asks for a session with whoever is at that address; one that there is already is the same.
    pub fn connect(&self, to: SocketAddr) -> Completion<Peer> {
        let (promise, completion) = Promise::new(&self.0);
        self.0.shared().order(Order::Connect(to, promise, self.0.clone()));
        completion
    }

    /// The next message, of any peer, in the order in which they arrived. Who asks for none lets
    /// its peers send no more than [`unread_bytes`](crate::node::Limits::unread_bytes) each, and
    /// loses what is more than that of all whose sessions are over. Once the host is closed and
    /// what had arrived is taken, it fails.
    pub fn receive(&self) -> Completion<(Peer, Message)> {
        Completion::new(Arc::new(Inbox(self.0.clone())), self.0.clone())
    }

    /// Ends all sessions when what was sent has arrived, and the host; the outcome is that it has
    /// ended. Where no message is delivered for [`silence`](crate::node::Limits::silence), those
    /// that are left fail.
    pub fn close(&self) -> Completion<()> {
        self.0.shared().order(Order::Close);
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
        // In this order: nothing arrives after the end.
        let end = shared.end.get();
        let Some(message) = shared.next() else { return end.map(|&why| Err(why)) };
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
