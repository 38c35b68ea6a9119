//! The endpoint through its application interface: a message is a request.

use std::net::SocketAddr;
use std::thread;
use std::time::Instant;

use anyhow::{Result, anyhow};
use bytes::Bytes;
use tidegate_algos::{Protocol, Stack};
use tidegate_core::params::Value;
use tidegate_core::{Need, Rate, Span};
use tidegate_endpoint::driver::Driver;
use tidegate_endpoint::host::{Host, Message, Peer};
use tidegate_endpoint::node::{Config, Delivery, Node, entropy};
use tidegate_endpoint::session::Key;
use tidegate_endpoint::socket::{Socket, SocketOptions};

use crate::system::{ANSWER, BUSY_POLL, Done, Load, System};

/// Virtual links have no rate. This is more than they carry, so that the protocol finds their rate.
const RATE: Rate = Rate::gbps(25);
/// The key. The namespaces are private; the key is needed so that all packets are encrypted.
const KEY: &[u8] = b"shared by the two ends of a measurement";

/// Parameters that differ from the defaults, in protocols that have them, for two processes on a
/// shared machine: a wake-up takes longer than the target delays of fabrics, and a process may not
/// be scheduled for milliseconds. An acknowledgement covers several packets, as in TCP and QUIC.
const PARAMETERS: [(&str, Value); 6] = [
    ("base_target", Value::Span(Span::us(500))),
    ("fs_range", Value::Span(Span::us(500))),
    ("ack_every", Value::Integer(16)),
    ("ack_delay", Value::Span(Span::us(100))),
    ("min_rto", Value::Span(Span::ms(10))),
    ("initial_rto", Value::Span(Span::ms(10))),
];

/// The same for links of 100 Mbit/s, where a full packet takes an eighth of a millisecond: times
/// that are designed for links a thousand times as fast are about a hundred times as long.
const SLOW: [(&str, Value); 7] = [
    ("base_target", Value::Span(Span::ms(2))),
    ("fs_range", Value::Span(Span::ms(2))),
    ("target", Value::Choice("constant")),
    ("constant_target", Value::Span(Span::ms(4))),
    ("initial_rto", Value::Span(Span::ms(20))),
    ("min_rto", Value::Span(Span::ms(20))),
    ("resend_timeout", Value::Span(Span::ms(20))),
];

/// Base RTT of such a network: full packets over four links, and the wake-up time of the threads of
/// two hosts among many.
const SLOW_RTT: Span = Span::ms(1);

/// A host under a protocol of the catalog.
pub(crate) struct Endpoint {
    stack: Stack,
    datagram: u16,
    rate: Rate,
    /// The base RTT; `None`: measured.
    base_rtt: Option<Span>,
    /// Functions of the switches that the protocol may need.
    switches: Vec<Need>,
    priorities: u8,
    options: SocketOptions,
}

impl Endpoint {
    /// Creates a host under a protocol; with `busy`, it polls its socket before it sleeps.
    pub(crate) fn new(protocol: Protocol, datagram: u16, busy: bool) -> Result<Endpoint> {
        let stack = with(protocol.stack(), &PARAMETERS)?;
        let busy_poll = if busy { BUSY_POLL } else { Default::default() };
        let options = SocketOptions { busy_poll, ..SocketOptions::default() };
        let (rate, base_rtt, switches, priorities) = (RATE, None, Vec::new(), 1);
        Ok(Endpoint { stack, datagram, rate, base_rtt, switches, priorities, options })
    }

    /// The same over slow links, behind switches with these functions and priorities.
    pub(crate) fn behind(
        protocol: Protocol,
        datagram: u16,
        rate: Rate,
        switches: &[Need],
        priorities: u8,
    ) -> Result<Endpoint> {
        let (stack, switches) = (with(protocol.stack(), &SLOW)?, switches.to_vec());
        let (base_rtt, options) = (Some(SLOW_RTT), SocketOptions::default());
        Ok(Endpoint { stack, datagram, rate, base_rtt, switches, priorities, options })
    }

    fn host(&self, at: SocketAddr) -> Result<Host> {
        let config = Config {
            datagram: self.datagram.into(),
            base_rtt: self.base_rtt,
            delivery: Delivery::Whole,
            switches: self.switches.clone(),
            priorities: self.priorities,
            ..Config::real(self.stack.clone(), Key::new(KEY), self.rate)
        };
        let node = Node::new(config, entropy()?)?;
        Ok(Host::start(Driver::new(node, Socket::bind(at, self.options)?))?)
    }
}

/// A protocol with the parameters of `values` that it has.
fn with(mut stack: Stack, values: &[(&'static str, Value)]) -> Result<Stack> {
    let has: Vec<&str> = stack.values().into_iter().map(|(name, _)| name).collect();
    for &(name, value) in values.iter().filter(|(name, _)| has.contains(name)) {
        stack.set(name, value).map_err(|why| anyhow!("{name}: {why:?}"))?;
    }
    Ok(stack)
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
            let spawn = || scope.spawn(|| messages(&peer, &body, done));
            let threads: Vec<_> = (0..load.ahead).map(|_| spawn()).collect();
            let panicked = |_| anyhow!("a thread has panicked");
            threads.into_iter().try_for_each(|thread| thread.join().map_err(panicked)?)
        })
    }
}

/// Sends messages one after the other.
fn messages(peer: &Peer, body: &Bytes, done: &Done<'_>) -> Result<()> {
    loop {
        let since = Instant::now();
        peer.request(body.clone()).wait()?;
        if !done(since.elapsed()) {
            return Ok(());
        }
    }
}
