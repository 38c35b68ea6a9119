//! The endpoint, by its interface for programs: a message is a request.

use std::net::SocketAddr;
use std::thread;
use std::time::Instant;

use anyhow::{Result, anyhow};
use bytes::Bytes;
use tidegate_algos::{Protocol, Stack};
use tidegate_core::params::Value;
use tidegate_core::{Rate, Span};
use tidegate_endpoint::driver::Driver;
use tidegate_endpoint::host::{Host, Message, Peer};
use tidegate_endpoint::node::{Config, Delivery, Node, entropy};
use tidegate_endpoint::session::Key;
use tidegate_endpoint::socket::{Socket, SocketOptions};

use crate::system::{ANSWER, BUSY_POLL, Done, Load, System};

/// Links in memory have no rate: it is more than they carry, so that the protocol finds out.
const RATE: Rate = Rate::gbps(25);
/// Nobody else is in these namespaces; it is there so that everything is sealed.
const KEY: &[u8] = b"shared by the two ends of a measurement";

/// Parameters that differ from a protocol's, of those that have them, for two processes on a
/// machine that does other things, too: they wake each other up in more than the delays that
/// fabrics aim at, and for milliseconds may not be woken at all. An acknowledgement stands for
/// several packets, as those of TCP and QUIC do.
const PARAMETERS: [(&str, Value); 6] = [
    ("base_target", Value::Span(Span::us(500))),
    ("fs_range", Value::Span(Span::us(500))),
    ("ack_every", Value::Integer(16)),
    ("ack_delay", Value::Span(Span::us(100))),
    ("min_rto", Value::Span(Span::ms(10))),
    ("initial_rto", Value::Span(Span::ms(10))),
];

/// A host under a protocol of the catalog.
pub(crate) struct Endpoint {
    stack: Stack,
    datagram: u16,
    options: SocketOptions,
}

impl Endpoint {
    /// Under that protocol; looks at its socket before it sleeps where `busy`.
    pub(crate) fn new(protocol: Protocol, datagram: u16, busy: bool) -> Result<Endpoint> {
        let mut stack = protocol.stack();
        let has: Vec<&str> = stack.values().into_iter().map(|(name, _)| name).collect();
        for (name, value) in PARAMETERS.into_iter().filter(|(name, _)| has.contains(name)) {
            stack.set(name, value).map_err(|why| anyhow!("{name}: {why:?}"))?;
        }
        let busy_poll = if busy { BUSY_POLL } else { Default::default() };
        let options = SocketOptions { busy_poll, ..SocketOptions::default() };
        Ok(Endpoint { stack, datagram, options })
    }

    fn host(&self, at: SocketAddr) -> Result<Host> {
        let config = Config {
            datagram: self.datagram.into(),
            delivery: Delivery::Whole,
            ..Config::real(self.stack.clone(), Key::new(KEY), RATE)
        };
        let node = Node::new(config, entropy()?)?;
        Ok(Host::start(Driver::new(node, Socket::bind(at, self.options)?))?)
    }
}

impl System for Endpoint {
    fn serve(&self, at: SocketAddr, ready: &mut dyn FnMut(&str)) -> Result<()> {
        let host = self.host(at)?;
        ready("");
        loop {
            if let (_, Message::Request(request)) = host.receive().wait()? {
                drop(request.reply(&ANSWER[..]));
            }
        }
    }

    fn send(&self, to: SocketAddr, _word: &str, load: Load, done: &Done<'_>) -> Result<()> {
        let host = self.host(SocketAddr::from(([0, 0, 0, 0], 0)))?;
        let peer = host.connect(to).wait()?;
        let body = Bytes::from(vec![7; load.bytes]);
        if load.ahead == 1 {
            return messages(&peer, &body, done);
        }
        thread::scope(|scope| {
            let lane = || scope.spawn(|| messages(&peer, &body, done));
            let lanes: Vec<_> = (0..load.ahead).map(|_| lane()).collect();
            let panicked = |_| anyhow!("a thread has panicked");
            lanes.into_iter().try_for_each(|lane| lane.join().map_err(panicked)?)
        })
    }
}

/// Sends one message after the other.
fn messages(peer: &Peer, body: &Bytes, done: &Done<'_>) -> Result<()> {
    loop {
        let since = Instant::now();
        peer.request(body.clone()).wait()?;
        if !done(since.elapsed()) {
            return Ok(());
        }
    }
}
