//! Nodes on a network in memory with fake clocks, under faults and attacks: loss, reordering,
//! duplication, corruption, address changes, restarts, clock leaps, forged and replayed datagrams.
//! Every message is delivered once and unaltered, or reported as failed.
//!
//! `TIDEGATE_SEEDS=1000000 cargo test --release -p tidegate-endpoint --test main world` runs more
//! seeds, `TIDEGATE_SEED=12` one of them.

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::ops::Range;
use std::panic::RefUnwindSafe;

use bytes::Bytes;
use tidegate_algos::Protocol;
use tidegate_core::wire::forwarding;
use tidegate_core::{Domain, FabricProperties, FabricRequirements, Need, Rate, Rng, Span, Time};
use tidegate_endpoint::node::{
    Arrival, CloseReason, Config, Delivery, Event, Limits, Node, PeerId, Piece, Terms, Ticket,
};
use tidegate_endpoint::session::Key;

use crate::common::entropy;

/// Probabilities of faults of datagrams and nodes.
#[derive(Clone, Copy, Debug, Default)]
struct Faults {
    loss: f64,
    duplication: f64,
    damage: f64,
    replays: f64,
    forgeries: f64,
    marks: f64,
    /// Of datagrams that may be trimmed; the nodes declare trimming if it is not zero.
    trims: f64,
    /// Maximum jitter of datagrams.
    jitter: Span,
    moves: bool,
    restarts: bool,
    leaps: bool,
}

struct Host {
    node: Node,
    address: SocketAddr,
    /// Offset of its clock to the world's, in picoseconds.
    ahead: i64,
    /// Number of restarts.
    life: u32,
    peers: BTreeMap<SocketAddr, PeerId>,
    /// Keys of messages sent since the last restart, by ticket.
    sent: BTreeMap<Ticket, u64>,
    /// Pieces of arriving messages, by offset.
    pieces: BTreeMap<(PeerId, u32), BTreeMap<u64, Vec<u8>>>,
}

/// Source, destination, type of service, bytes.
type OnTheWire = (SocketAddr, SocketAddr, u8, Vec<u8>);

struct World {
    rng: Rng,
    now: Time,
    hosts: Vec<Host>,
    faults: Faults,
    /// Datagrams in flight, by arrival time and order of departure.
    wires: BTreeMap<(Time, u64), OnTheWire>,
    order: u64,
    /// Datagrams that an attacker has captured.
    captured: Vec<(SocketAddr, SocketAddr, Vec<u8>)>,
    /// Destination of each message, by key.
    messages: BTreeMap<u64, usize>,
    arrived: BTreeSet<u64>,
    delivered: BTreeSet<u64>,
    failed: BTreeMap<u64, CloseReason>,
    config: Config,
}

fn address(host: usize, life: u32) -> SocketAddr {
    SocketAddr::from(([10, 0, host as u8, 1], 4_000 + life as u16))
}

/// The bytes of a message: its key, and bytes derived from it.
fn bytes_of(key: u64, length: usize) -> Vec<u8> {
    let mut rng = Rng::stream(key, Domain::Traffic, 9);
    let mut bytes = key.to_be_bytes().to_vec();
    bytes.extend_from_slice(&(length as u64).to_be_bytes());
    bytes.resize_with(16.max(length), || rng.below(256) as u8);
    bytes
}

/// Requirements of a protocol in this world.
fn requirements(protocol: Protocol) -> FabricRequirements {
    let properties = FabricProperties {
        bdp_bytes: 1e5,
        base_rtt: RTT,
        host_rate: Rate::gbps(1),
        slowest: Rate::gbps(1),
        fastest: Rate::gbps(1),
        mtu: 1_000,
        hops: 1,
        ports: 1,
    };
    protocol.stack().requirements(&properties)
}

/// Whether a protocol requires synchronised hosts.
fn keeps_time(protocol: Protocol) -> bool {
    requirements(protocol).same_clock
}

/// Types of service of datagrams that were trimmed in the core and at the last hop.
const TRIMMED: [u8; 2] = [0xfc, 0xdc];

/// One-way delay without jitter.
const RTT: Span = Span::us(60);

fn config(protocol: Protocol, trims: bool) -> Config {
    let trims = trims || requirements(protocol).trimming.is_some();
    let has = |need: &Need| trims || *need != Need::Trimming;
    Config {
        datagram: 1_200,
        base_rtt: keeps_time(protocol).then_some(RTT),
        priorities: 8,
        hops: 2,
        switches: Need::ALL.into_iter().filter(has).collect(),
        limits: Limits {
            peers: 16,
            message_bytes: 60_000,
            unread_bytes: 100_000,
            silence: Span::s(2),
        },
        ..Config::new(protocol.stack(), Key::new(b"of the world"), Rate::gbps(1))
    }
}

/// Every second host receives messages as pieces.
fn node(config: &Config, host: usize, seed: u64) -> Node {
    let delivery = if host % 2 == 1 { Delivery::Pieces } else { Delivery::Whole };
    Node::new(Config { delivery, ..config.clone() }, entropy(seed, 3)).unwrap()
}

impl World {
    fn new(protocol: Protocol, hosts: usize, seed: u64, faults: Faults) -> World {
        let config = config(protocol, faults.trims > 0.0);
        let apart = if keeps_time(protocol) { 0 } else { 1_000_000_000 };
        let host = |i| Host {
            node: node(&config, i, seed * 64 + i as u64),
            address: address(i, 0),
            ahead: apart * i as i64,
            life: 0,
            peers: BTreeMap::new(),
            sent: BTreeMap::new(),
            pieces: BTreeMap::new(),
        };
        World {
            rng: Rng::stream(seed, Domain::Faults, 1),
            now: Time::ms(1),
            hosts: (0..hosts).map(host).collect(),
            faults,
            wires: BTreeMap::new(),
            order: 0,
            captured: Vec::new(),
            messages: BTreeMap::new(),
            arrived: BTreeSet::new(),
            delivered: BTreeSet::new(),
            failed: BTreeMap::new(),
            config,
        }
    }

    fn chance(&mut self, share: f64) -> bool {
        share > 0.0 && (self.rng.below(1 << 20) as f64) < share * f64::from(1 << 20)
    }

    fn local(&self, host: usize) -> Time {
        Time::ps((self.now.as_ps() as i64 + self.hosts[host].ahead) as u64)
    }

    fn send(&mut self, from: usize, to: usize, length: usize) {
        let key = self.messages.len() as u64;
        self.messages.insert(key, to);
        let (now, there) = (self.local(from), self.hosts[to].address);
        let host = &mut self.hosts[from];
        let known = host.peers.get(&there).copied();
        let peer = known.unwrap_or_else(|| host.node.connect(now, there).unwrap());
        host.peers.insert(there, peer);
        let body = Bytes::from(bytes_of(key, length));
        match host.node.send(now, peer, &[], body, Terms::default()) {
            Ok(ticket) => {
                host.sent.insert(ticket, key);
            }
            Err(_) => {
                host.peers.remove(&there);
                self.failed.insert(key, CloseReason::Closed);
            }
        }
    }

    fn put(&mut self, from: SocketAddr, to: SocketAddr, tos: u8, bytes: Vec<u8>) {
        let late = Span::ps(self.rng.below(self.faults.jitter.as_ps() + 1));
        self.order += 1;
        self.wires.insert((self.now + Span::us(20) + late, self.order), (from, to, tos, bytes));
    }

    /// Sends all datagrams that may leave now.
    fn transmit(&mut self) {
        let mut out = vec![0; 2_048];
        for i in 0..self.hosts.len() {
            let now = self.local(i);
            while let Some(departure) = self.hosts[i].node.transmit(now, &mut out) {
                assert!(departure.bytes <= self.config.datagram, "{departure:?}");
                let (from, bytes) = (self.hosts[i].address, &out[..departure.bytes]);
                let mut bytes = bytes.to_vec();
                if self.chance(self.faults.replays) {
                    self.captured.push((from, departure.to, bytes.clone()));
                }
                if self.chance(self.faults.loss) {
                    continue;
                }
                if self.chance(self.faults.duplication) {
                    self.put(from, departure.to, departure.tos, bytes.clone());
                }
                if self.chance(self.faults.damage) {
                    self.damage(&mut bytes);
                }
                let marked = departure.tos & 2 == 2 && self.chance(self.faults.marks);
                let mut tos = departure.tos | u8::from(marked);
                let kept = forwarding::read(&bytes).and_then(|fields| fields.kept_bytes);
                if let Some(kept) = kept.filter(|_| self.chance(self.faults.trims)) {
                    let more = self.rng.below((bytes.len() - kept) as u64) as usize;
                    bytes.truncate(kept + more);
                    tos = TRIMMED[self.rng.below(2) as usize];
                }
                self.put(from, departure.to, tos, bytes);
            }
        }
    }

    fn damage(&mut self, bytes: &mut Vec<u8>) {
        match self.rng.below(4) {
            0 => bytes.truncate(self.rng.below(bytes.len() as u64) as usize),
            1 => bytes.push(7),
            _ => {
                for _ in 0..=self.rng.below(3) {
                    let at = self.rng.below(bytes.len() as u64) as usize;
                    bytes[at] ^= 1 << self.rng.below(8);
                }
            }
        }
    }

    /// Performs a random attack or fault.
    fn inject_fault(&mut self) {
        let host = self.rng.below(self.hosts.len() as u64) as usize;
        if self.chance(self.faults.forgeries) {
            let length = self.rng.below(300) as usize;
            let mut bytes = vec![0; length];
            bytes.iter_mut().for_each(|byte| *byte = self.rng.below(256) as u8);
            if let Some(kind) = bytes.get_mut(1) {
                *kind %= 70;
            }
            if let Some(version) = bytes.get_mut(0) {
                *version = 1;
            }
            let to = self.hosts[host].address;
            let from = self.hosts[(host + 1) % self.hosts.len()].address;
            self.put(from, to, 0, bytes);
        }
        if self.chance(self.faults.replays) && !self.captured.is_empty() {
            let which = self.rng.below(self.captured.len() as u64) as usize;
            let (mut from, to, bytes) = self.captured[which].clone();
            if self.rng.below(2) == 0 {
                from = SocketAddr::from(([10, 9, 9, 9], 9));
            }
            let tos = [0, TRIMMED[0]][self.rng.below(2) as usize];
            self.put(from, to, tos, bytes);
        }
        if self.faults.moves && self.chance(0.01) {
            self.hosts[host].life += 1;
            self.hosts[host].address = address(host, self.hosts[host].life);
        }
        if self.faults.restarts && self.chance(0.005) {
            let seed = self.rng.below(1 << 40);
            let config = self.config.clone();
            let number = host;
            let host = &mut self.hosts[number];
            host.node = node(&config, number, seed);
            host.peers.clear();
            host.pieces.clear();
            // A restarted host does not know its earlier messages.
            for (_, key) in std::mem::take(&mut host.sent) {
                self.failed.insert(key, CloseReason::Restarted);
            }
        }
        if self.faults.leaps && self.chance(0.02) {
            let leap = self.rng.below(10_000) as i64 * 1_000_000_000;
            let back = self.rng.below(3) == 0;
            self.hosts[host].ahead += if back { -leap.min(1_000_000) } else { leap };
        }
    }

    fn events(&mut self) {
        for i in 0..self.hosts.len() {
            while let Some(event) = self.hosts[i].node.event() {
                let now = self.local(i);
                match event {
                    Event::Opened(_) => {}
                    Event::Closed(peer, _) => {
                        self.hosts[i].peers.retain(|_, &mut other| other != peer);
                        self.hosts[i].pieces.retain(|(other, _), _| *other != peer);
                    }
                    Event::Piece(peer, Piece { message, offset, bytes }) => {
                        self.hosts[i].node.consumed(now, peer, bytes.len() as u64);
                        let all = self.hosts[i].pieces.entry((peer, message)).or_default();
                        assert!(all.insert(offset, bytes).is_none(), "a duplicate piece");
                    }
                    Event::Ended(peer, message) => {
                        let all = self.hosts[i].pieces.remove(&(peer, message)).unwrap();
                        let mut whole = Vec::new();
                        for (offset, piece) in all {
                            assert_eq!(offset, whole.len() as u64, "a gap or an overlap");
                            whole.extend(piece);
                        }
                        self.arrived(i, &whole);
                    }
                    Event::Arrived(peer, bytes) => {
                        self.hosts[i].node.consumed(now, peer, bytes.len() as u64);
                        self.arrived(i, &bytes);
                    }
                    Event::Resent(..) => {}
                    Event::Delivered(ticket) => {
                        let key = self.hosts[i].sent.remove(&ticket).expect("one outcome");
                        assert!(
                            self.arrived.contains(&key),
                            "message {key} was reported as delivered, but did not arrive"
                        );
                        assert!(self.delivered.insert(key));
                    }
                    Event::Failed(ticket, why) => {
                        let key = self.hosts[i].sent.remove(&ticket).expect("one outcome");
                        self.failed.insert(key, why);
                    }
                }
            }
        }
    }

    /// Checks a completely received message.
    fn arrived(&mut self, host: usize, bytes: &[u8]) {
        let key = u64::from_be_bytes(*bytes.first_chunk().unwrap());
        let length = u64::from_be_bytes(*bytes[8..].first_chunk().unwrap());
        assert!(bytes == bytes_of(key, length as usize), "message {key} altered");
        assert_eq!(self.messages[&key], host, "message {key} arrived at another host");
        assert!(self.arrived.insert(key), "message {key} arrived twice");
    }

    fn state(&self) -> String {
        let host = |i: usize| {
            let Host { node, sent, .. } = &self.hosts[i];
            let rtt = node.context().fabric_base_rtt;
            format!("at {} until {}, {rtt}: {sent:?}", self.local(i), node.deadline())
        };
        (0..self.hosts.len()).map(host).collect::<Vec<_>>().join("; ")
    }

    /// Runs until the outcome of every message is reported, or `end`.
    fn run(&mut self, end: Time, with_faults: bool) {
        let mut next_fault = self.now;
        let mut steps = 0;
        while self.now < end {
            steps += 1;
            assert!(steps < 1_000_000, "too many steps: {}", self.state());
            self.transmit();
            self.events();
            if with_faults && next_fault <= self.now {
                self.inject_fault();
                next_fault = self.now + Span::us(200);
            }
            let mut next = end.min(if with_faults { next_fault } else { end });
            if let Some((&(at, _), _)) = self.wires.first_key_value() {
                next = next.min(at);
            }
            for (i, host) in self.hosts.iter().enumerate() {
                let deadline = host.node.deadline();
                if deadline != Time::NEVER {
                    let wait = deadline.since(self.local(i)).max(Span::ns(1));
                    next = next.min(self.now + wait);
                }
            }
            self.now = next.max(self.now + Span::ps(1));
            while let Some(entry) = self.wires.first_entry().filter(|e| e.key().0 <= self.now) {
                let (from, to, tos, mut bytes) = entry.remove();
                if let Some(i) = self.hosts.iter().position(|host| host.address == to) {
                    let now = self.local(i);
                    let arrival = Arrival { from, tos, held: Span::ZERO, bytes: &mut bytes };
                    self.hosts[i].node.receive(now, arrival);
                }
            }
            for i in 0..self.hosts.len() {
                let now = self.local(i);
                if self.hosts[i].node.deadline() <= now {
                    self.hosts[i].node.on_deadline(now);
                }
            }
            if !with_faults && self.hosts.iter().all(|host| host.sent.is_empty()) {
                break;
            }
        }
        self.events();
    }
}

/// Runs nodes with random messages under faults, then without faults until all outcomes are
/// reported.
fn live(protocol: Protocol, seed: u64, faults: Faults) -> World {
    let faults = Faults { leaps: faults.leaps && !keeps_time(protocol), ..faults };
    let hosts = 2 + (seed % 3) as usize;
    let mut world = World::new(protocol, hosts, seed, faults);
    for _ in 0..4 {
        for _ in 0..1 + world.rng.below(5) {
            let from = world.rng.below(hosts as u64) as usize;
            let to = (from + 1 + world.rng.below(hosts as u64 - 1) as usize) % hosts;
            let most = [20, 3_000, 50_000][world.rng.below(3) as usize];
            let length = 16 + world.rng.below(most) as usize;
            world.send(from, to, length);
        }
        let end = world.now + Span::us(100 + world.rng.below(5_000));
        world.run(end, true);
    }
    world.faults = Faults::default();
    world.run(world.now + Span::s(600), false);
    let reported = world.hosts.iter().all(|host| host.sent.is_empty());
    assert!(reported, "missing outcomes: {}", world.state());
    world
}

fn seeds() -> Range<u64> {
    let number = |name| std::env::var(name).ok().and_then(|text: String| text.parse().ok());
    match number("TIDEGATE_SEED") {
        Some(seed) => seed..seed + 1,
        None => 0..number("TIDEGATE_SEEDS").unwrap_or(200),
    }
}

/// Runs all protocols.
fn all(faults: impl Fn(u64) -> Faults, check: impl Fn(&World) + RefUnwindSafe) {
    for seed in seeds() {
        let protocol = Protocol::ALL[seed as usize % Protocol::ALL.len()];
        let faults = faults(seed);
        let lived = std::panic::catch_unwind(|| check(&live(protocol, seed, faults)));
        if lived.is_err() {
            panic!("seed {seed}, {}, {faults:?}", protocol.info().name);
        }
    }
}

/// Faults of a poor network.
fn faults(seed: u64) -> Faults {
    let share = |bit: u64, share| if seed >> bit & 1 == 1 { share } else { 0.0 };
    Faults {
        loss: share(0, 0.05),
        duplication: share(1, 0.05),
        damage: share(2, 0.02),
        marks: share(3, 0.3),
        trims: if seed.is_multiple_of(3) { 0.1 } else { 0.0 },
        jitter: Span::us(if seed >> 4 & 1 == 1 { 100 } else { 0 }),
        ..Faults::default()
    }
}

#[test]
fn poor_network() {
    all(faults, |world| {
        assert_eq!(world.failed.len(), 0, "{:?}", world.failed);
        assert_eq!(world.delivered.len(), world.messages.len());
    });
}

#[test]
fn forged_and_replayed_datagrams() {
    let faults = |seed| Faults { replays: 0.1, forgeries: 0.5, ..faults(seed) };
    all(faults, |world| assert_eq!(world.failed, BTreeMap::new()));
}

#[test]
fn moves_restarts_and_clock_leaps() {
    let faults = |seed: u64| Faults {
        moves: seed >> 5 & 1 == 1,
        restarts: seed >> 6 & 1 == 1,
        leaps: seed >> 7 & 1 == 1,
        replays: 0.05,
        forgeries: 0.2,
        ..faults(seed)
    };
    all(faults, |world| {
        let reported = world.delivered.len() + world.failed.len();
        assert_eq!(reported, world.messages.len(), "one outcome per message");
    });
}
