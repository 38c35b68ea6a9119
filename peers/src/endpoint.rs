//! The endpoint, by its interface for programs: a message is a request.

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

/// The same over links of 100 Mbit/s, where a full packet takes an eighth of a millisecond: what is
/// meant for links a thousand times as fast is some hundred times as long.
const SLOW: [(&str, Value); 7] = [
    ("base_target", Value::Span(Span::ms(2))),
    ("fs_range", Value::Span(Span::ms(2))),
    ("target", Value::Choice("constant")),
    ("constant_target", Value::Span(Span::ms(4))),
    ("initial_rto", Value::Span(Span::ms(20))),
    ("min_rto", Value::Span(Span::ms(20))),
    ("resend_timeout", Value::Span(Span::ms(20))),
];

/// And a round trip of such a network at rest: full packets over four links, and the time in which
/// the threads of two hosts wake up where there are as many as here.
const SLOW_RTT: Span = Span::ms(1);

/// A host under a protocol of the catalog.
pub(crate) struct Endpoint {
    stack: Stack,
    datagram: u16,
    rate: Rate,
    /// Unless it is measured.
    base_rtt: Option<Span>,
    /// What switches have that the protocol may need.
    switches: Vec<Need>,
    priorities: u8,
    options: SocketOptions,
}

impl Endpoint {
    /// Under that protocol; looks at its socket before it sleeps where `busy`.
    pub(crate) fn new(protocol: Protocol, datagram: u16, busy: bool) -> Result<Endpoint> {
        let stack = with(protocol.stack(), &PARAMETERS)?;
        let busy_poll = if busy { BUSY_POLL } else { Default::default() };
        let options = SocketOptions { busy_poll, ..SocketOptions::default() };
        let (rate, base_rtt, switches, priorities) = (RATE, None, Vec::new(), 1);
        Ok(Endpoint { stack, datagram, rate, base_rtt, switches, priorities, options })
    }

    /// The same behind switches that have these and so many priorities, over slow links.
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

/// A protocol with those parameters of `values` that it has.
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
