//! Robustness of nodes against arbitrary datagrams, from unknown sources and from a malicious peer
//! that has the key.

mod intruder;

use std::collections::VecDeque;
use std::net::SocketAddr;

use bytes::Bytes;
use tidegate_algos::Protocol;
use tidegate_core::wire::{Header as _, START_BYTES};
use tidegate_core::{Domain, Hop, HopTrace, Need, Rate, Rng, Span, Time};

use super::handshake::proved;
use super::{Arrival, Config, Event, Limits, Node, PeerId, Terms};
use crate::endpoint::Packet;
use crate::script::Script;
use crate::session::Key;
use crate::session::header::Header;
use crate::stress::{echoed, mutated};
use intruder::Intruder;

/// Last bytes of addresses: of the node, of an honest peer, and of attackers.
const NODE: u8 = 0;
const HONEST: u8 = 1;
const INTRUDER: u8 = 2;
const UNKNOWN: u8 = 3;

const RTT: Span = Span::us(60);
const SILENCE: Span = Span::ms(400);
/// Number of datagrams that are remembered for replay.
const REMEMBERED: usize = 16;
/// The message of the honest peer.
const MESSAGE: &[u8] = &[7; 3_000];
/// Maximum number of deadlines at one time; more count as an endless loop.
const MOST_DEADLINES: usize = 64;
/// Maximum number of events until the honest peer is served.
const MOST_EVENTS: usize = 100_000;

pub(super) fn address(last: u8) -> SocketAddr {
    SocketAddr::from(([10, 0, 0, last], 5_270))
}

fn key() -> Key {
    Key::new(b"known to the intruder")
}

pub(super) fn node(protocol: Protocol, seed: u64) -> Node {
    let mut rng = Rng::stream(seed, Domain::Stack, 0);
    let entropy =
        move |bytes: &mut [u8]| bytes.iter_mut().for_each(|byte| *byte = rng.below(256) as u8);
    let config = Config {
        base_rtt: Some(RTT),
        hops: 2,
        switches: Need::ALL.into(),
        priorities: 8,
        limits: Limits { peers: 4, message_bytes: 60_000, unread_bytes: 100_000, silence: SILENCE },
        ..Config::new(protocol.stack(), key(), Rate::gbps(10))
    };
    match Node::new(config, Box::new(entropy)) {
        Ok(node) => node,
        Err(why) => panic!("{}: {why}", protocol.info().name),
    }
}

/// Runs a node under a script: forged, replayed and damaged datagrams of unknown sources; and, from
/// a peer that has the key, invalid handshakes, packets of its transport as in
/// [`stress`](crate::stress()), and control messages, all encrypted.
///
/// # Panics If the node panics, does not become idle, answers unknown sources with more bytes than
/// they sent, keeps state of the silent peer, or does not serve another peer afterwards.
pub fn hostile(protocol: Protocol, script: &[u8]) {
    let mut script = Script::new(script);
    let choice = script.u8();
    let mut scene = Scene::new(protocol);
    let is_honest_early = choice & 1 == 1;
    if is_honest_early {
        scene.send_honest();
    }
    if choice & 6 != 0 {
        scene.open_session();
    }
    while !script.is_over() {
        scene.step(&mut script);
    }
    scene.end_silent();
    // This is slow, so only some scripts do it.
    if is_honest_early || choice & 24 == 24 {
        scene.serve(is_honest_early);
    }
}

struct Scene {
    protocol: Protocol,
    now: Time,
    node: Node,
    honest: Node,
    intruder: Intruder,
    /// Datagrams in flight from the node to the honest peer, and back.
    wires: [VecDeque<Vec<u8>>; 2],
    /// Peers of the node other than the honest one.
    others: Vec<PeerId>,
    from_unknown: usize,
    to_unknown: usize,
    /// How often the honest peer's message arrived, and was acknowledged.
    arrived: u32,
    delivered: u32,
    out: Vec<u8>,
}

impl Scene {
    fn new(protocol: Protocol) -> Scene {
        let mut scene = Scene {
            protocol,
            now: Time::ms(1),
            node: node(protocol, 1),
            honest: node(protocol, 2),
            intruder: Intruder::new(protocol),
            wires: [VecDeque::new(), VecDeque::new()],
            others: Vec::new(),
            from_unknown: 0,
            to_unknown: 0,
            arrived: 0,
            delivered: 0,
            out: vec![0; 2_048],
        };
        scene.deliver_all();
        scene
    }

    fn send_honest(&mut self) {
        let Ok(peer) = self.honest.connect(self.now, address(NODE)) else { return };
        let body = Bytes::from_static(MESSAGE);
        let sent = self.honest.send(self.now, peer, &[], body, Terms::default());
        assert!(sent.is_ok(), "{sent:?}");
        self.deliver_all();
    }

    /// Opens a session with a correct handshake.
    fn open_session(&mut self) {
        for _ in 0..2 {
            let hello = self.intruder.hello;
            self.deliver(INTRUDER, 0, proved(&key(), hello, &[]));
        }
        assert!(self.intruder.session.is_some(), "a peer with the key opens a session");
    }

    /// Executes the next step of the script.
    fn step(&mut self, script: &mut Script<'_>) {
        let what = script.u8();
        match what % 14 {
            0 => {
                let bytes = script.bytes(usize::from(what)).to_vec();
                self.send_from_unknown(bytes);
            }
            1 => {
                let bytes = shaped(script);
                self.send_from_unknown(bytes);
            }
            2 => {
                if let Some(bytes) = self.intruder.again(script) {
                    self.send_from_unknown(bytes);
                }
            }
            3 => {
                let bytes = self.intruder.handshake(script);
                self.deliver(INTRUDER, 0, bytes);
            }
            4..=7 => {
                let last = self.intruder.last;
                let mut packet = match what % 14 {
                    4 => mutated(last, script),
                    5 => mutated(Packet::default(), script),
                    _ => echoed(last, script),
                };
                if what.is_multiple_of(3) {
                    packet.hops = records(script);
                }
                let tos = script.u8();
                if let Some(bytes) = self.intruder.packet(packet, script) {
                    self.deliver(INTRUDER, tos, bytes);
                }
            }
            8 => {
                if let Some(bytes) = self.intruder.scripted(script) {
                    self.deliver(INTRUDER, 0, bytes);
                }
            }
            9 => self.pass(Span::ps(script.number() % Span::ms(1).as_ps())),
            10 => self.pass(SILENCE.scale(0.1)),
            11 => {
                // An action of the application.
                let which = usize::from(script.u8());
                let Some(&peer) = self.others.get(which % self.others.len().max(1)) else { return };
                match script.u8() % 4 {
                    0 => self.node.close(self.now, peer),
                    1 => drop(self.node.connect(self.now, address(INTRUDER))),
                    _ => {
                        let body = Bytes::from(vec![9; 1 + usize::from(script.u8()) * 200]);
                        let _ = self.node.send(self.now, peer, &[1], body, Terms::default());
                    }
                }
                self.deliver_all();
            }
            _ => self.pass(RTT.scale(0.5)),
        }
    }

    /// Passes a datagram from an unknown source to the node.
    fn send_from_unknown(&mut self, bytes: Vec<u8>) {
        self.from_unknown += bytes.len();
        self.deliver(UNKNOWN, 0, bytes);
    }

    /// Passes a datagram to the node.
    fn deliver(&mut self, from: u8, tos: u8, mut bytes: Vec<u8>) {
        self.intruder.remember(&bytes);
        let bytes = &mut bytes[..];
        let arrival = Arrival { from: address(from), tos, held: Span::ZERO, bytes };
        self.node.receive(self.now, arrival);
        self.deliver_all();
    }

    /// Advances the time and delivers datagrams between node and honest peer.
    fn pass(&mut self, span: Span) {
        self.now += span;
        for mut bytes in std::mem::take(&mut self.wires[1]) {
            self.intruder.remember(&bytes);
            let bytes = &mut bytes[..];
            let arrival = Arrival { from: address(HONEST), tos: 0, held: Span::ZERO, bytes };
            self.node.receive(self.now, arrival);
        }
        for mut bytes in std::mem::take(&mut self.wires[0]) {
            let bytes = &mut bytes[..];
            let arrival = Arrival { from: address(NODE), tos: 0, held: Span::ZERO, bytes };
            self.honest.receive(self.now, arrival);
        }
        self.deliver_all();
    }

    /// Handles the deadlines of both.
    fn deliver_all(&mut self) {
        let rests = (0..MOST_DEADLINES).any(|_| {
            if self.node.deadline() <= self.now {
                self.node.on_deadline(self.now);
            }
            while let Some(departure) = self.node.transmit(self.now, &mut self.out) {
                assert!(departure.bytes <= self.node.config.datagram, "{departure:?}");
                self.route(departure.to, departure.bytes);
            }
            self.handle_events();
            self.node.deadline() > self.now
        });
        assert!(rests, "{}: does not come to rest", self.protocol.info().name);
        assert!(self.to_unknown <= self.from_unknown, "answers exceed the received bytes");
        if self.honest.deadline() <= self.now {
            self.honest.on_deadline(self.now);
        }
        while let Some(departure) = self.honest.transmit(self.now, &mut self.out) {
            self.wires[1].push_back(self.out[..departure.bytes].to_vec());
        }
        while let Some(event) = self.honest.event() {
            match event {
                Event::Delivered(_) => self.delivered += 1,
                Event::Opened(_) => {}
                other => {
                    panic!("{}: event at the honest peer: {other:?}", self.protocol.info().name)
                }
            }
        }
    }

    /// Handles a datagram of the node.
    fn route(&mut self, to: SocketAddr, bytes: usize) {
        let bytes = &self.out[..bytes];
        if to == address(HONEST) {
            self.wires[0].push_back(bytes.to_vec());
        } else if to == address(INTRUDER) {
            self.intruder.observe(bytes);
        } else {
            self.to_unknown += bytes.len();
        }
    }

    /// Handles events of the node.
    fn handle_events(&mut self) {
        while let Some(event) = self.node.event() {
            match event {
                Event::Opened(peer) if self.node.address(peer) != Some(address(HONEST)) => {
                    self.others.push(peer);
                }
                Event::Arrived(peer, bytes) => {
                    self.arrived += u32::from(bytes == MESSAGE && !self.others.contains(&peer));
                    self.node.consumed(self.now, peer, bytes.len() as u64);
                }
                Event::Closed(peer, _) => self.others.retain(|&other| other != peer),
                _ => {}
            }
        }
    }

    /// The malicious peer falls silent.
    fn end_silent(&mut self) {
        for _ in 0..8 {
            self.pass(SILENCE.scale(0.4));
            // Long enough for answers to pings.
            (0..4).for_each(|_| self.pass(RTT.scale(0.5)));
        }
        let left: Vec<_> = self.node.peers.iter().map(|(_, peer)| peer.address).collect();
        assert!(left.iter().all(|&left| left == address(HONEST)), "{left:?}");
    }

    /// Asserts that the honest peer's message arrives once.
    fn serve(&mut self, is_sent: bool) {
        if !is_sent {
            self.send_honest();
        }
        for _ in 0..MOST_EVENTS {
            if self.delivered == 1 {
                break;
            }
            let next = self.node.deadline().min(self.honest.deadline());
            let wires_are_empty = self.wires.iter().all(VecDeque::is_empty);
            let rest = if wires_are_empty { next.since(self.now) } else { RTT.scale(0.5) };
            self.pass(rest.max(Span::ns(1)));
        }
        let name = self.protocol.info().name;
        assert_eq!((self.arrived, self.delivered), (1, 1), "{name}: the honest peer is not served");
    }
}

/// A session header with arbitrary fields.
pub(super) fn shaped(script: &mut Script<'_>) -> Vec<u8> {
    let kinds = Header::FORMAT.kinds;
    let kind = &kinds[usize::from(script.u8()) % kinds.len()];
    let fields: usize = kind.fields.iter().map(|field| field.bytes).sum();
    let mut bytes =
        vec![Header::FORMAT.version, kind.number, 0, ((START_BYTES + fields) / 4) as u8];
    bytes.extend_from_slice(script.bytes(fields));
    bytes.resize(START_BYTES + fields, 0);
    bytes
}

/// Telemetry that no switch writes.
fn records(script: &mut Script<'_>) -> HopTrace {
    let mut hops = HopTrace::default();
    for _ in 0..script.u8() % 4 {
        hops.push(Hop {
            at: Time::ps(script.number()),
            tx_bytes: script.number(),
            rate: Rate::bps(script.number()),
            queue_bytes: script.number() as u32,
            port: script.number() as u32,
        });
    }
    hops
}
