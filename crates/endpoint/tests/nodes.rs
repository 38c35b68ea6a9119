//! Nodes send the same packets as the simulator: their datagrams pass through the simulator's
//! switch in memory, and are compared with a run of the same messages.
//!
//! Every packet is written, encrypted, stamped and marked by the switch, decrypted and parsed. Each
//! departure of a host must have the time of the simulator's to the picosecond, with the same
//! headers, telemetry, class, ECN codepoint and payload length. Each message must arrive unaltered.
//!
//! Three differences from the simulator are translated:
//!
//! * A packet takes the same time on a link as the simulated one, whose wire size is known from the
//!   run. The datagram is longer, because of its session header and tag. The node's own pacing
//!   needs no translation, because it counts the bytes of the simulator, too.
//! * A node is host 0 to itself and numbers its peers in the order of sessions. Random numbers of
//!   receivers of ExpressPass depend on the number of their host, so all its messages go to host 0.
//!   dcPIM uses the number among several peers, and is compared with a single peer.
//! * A node reuses the numbers of finished messages; the simulator does not.
//!
//! Session datagrams take no time on links. Sessions open before the first message, with the base
//! RTT of the simulated paths, so nodes measure that.
#![cfg(target_os = "linux")]

use std::collections::{BTreeMap, VecDeque};
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use bytes::Bytes;
use tidegate_algos::{Protocol, Stack};
use tidegate_core::fabric::{
    Buffer, Fabric, Link as FabricLink, Node as FabricNode, Routing, Stamping, Switch,
    TelemetryResolution, Trimming,
};
use tidegate_core::params::Value;
use tidegate_core::routes::Routes;
use tidegate_core::wire::{Header as _, MAX_HEADER_BYTES};
use tidegate_core::workload::{Flow, Workload};
use tidegate_core::{
    ConnectionPolicy, Domain, Extent, FabricProperties, FabricRequirements, HEADER_BYTES, Marking,
    Need, Rate, Rng, Span, Time, TrimmingRule, frame_flag,
};
use tidegate_endpoint::Packet;
use tidegate_endpoint::node::{Arrival, Config, Event, Node, PeerId, Terms};
use tidegate_endpoint::session::header::{Data, Header, Multipath, Trimmable};
use tidegate_endpoint::session::{Key, OVERHEAD_BYTES};
use tidegate_sim::simulation::observed;
use tidegate_sim::{Departure, Observer, OpenFabric, Setup};
use tidegate_switch::datagram::{Content, Datagram, Reader, is_trimmed, tos};

use crate::common::entropy;

const MTU: u32 = 1_000;
const DELAY: Span = Span::ns(600);
const PRIORITIES: u8 = 8;
/// Start of messages; sessions are established long before.
const START: Time = Time::us(1_000);
const END: Time = Time::us(6_000);
/// Size of trimmed datagrams, which is not that of simulated packets.
const TRIMMED_BYTES: u16 = 192;
const TAG_BYTES: usize = OVERHEAD_BYTES - Data::BYTES;
/// IP, UDP, Ethernet, gap and preamble.
const BELOW_BYTES: u64 = 66;

fn rate() -> Rate {
    Rate::gbps(100)
}

/// A message with its time, source and destination.
struct Submission {
    at: Time,
    src: usize,
    dst: usize,
    bytes: Vec<u8>,
}

/// Whether random numbers of a receiver depend on the number of its host.
fn draws_by_number(protocol: Protocol) -> bool {
    ["expresspass", "rccc"].contains(&protocol.info().name)
}

/// Messages among all hosts, of one byte to many packets.
fn submissions(protocol: Protocol, hosts: u64, seed: u64) -> Vec<Submission> {
    let mut rng = Rng::stream(seed, Domain::Traffic, 5);
    let mut all: Vec<_> = (0..100)
        .map(|_| {
            let src = rng.below(hosts);
            let dst = (src + 1 + rng.below(hosts - 1)) % hosts;
            // Host 0 and node 0 draw the same random numbers.
            let (src, dst) = if draws_by_number(protocol) { (1, 0) } else { (src, dst) };
            let most = [100, 5_000, 200_000][rng.below(3) as usize];
            let length = 1 + rng.below(most);
            let at = START + Span::ps(1 + rng.below(Span::us(150).as_ps()));
            let bytes = (0..length).map(|_| rng.below(256) as u8).collect();
            Submission { at, src: src as usize, dst: dst as usize, bytes }
        })
        .collect();
    all.sort_by_key(|submission| submission.at);
    all
}

/// Hosts at a switch that meets the requirements of the protocol and marks from the first queued
/// byte on.
fn fabric(protocol: Protocol, hosts: usize) -> (Fabric, Routing) {
    let mut fabric = Fabric {
        hosts: (0..hosts).map(|host| format!("h{host}")).collect(),
        switches: vec![Switch {
            name: "s0".into(),
            latency: Span::ZERO,
            telemetry: Stamping::All,
            telemetry_resolution: TelemetryResolution::EXACT,
            buffer: Buffer::Unlimited,
            ecn: None,
            priorities: PRIORITIES,
            pausing: None,
            credit_queue: None,
            trimming: None,
        }],
        links: (0..hosts as u32)
            .map(|host| FabricLink {
                a: FabricNode::Host(host),
                b: FabricNode::Switch(0),
                rate: rate(),
                delay: DELAY,
            })
            .collect(),
        mtu: MTU,
        ..Fabric::default()
    };
    let reach = Routes::new(&fabric).unwrap().reach();
    let FabricRequirements { ecn, credit_queue, routing, trimming, .. } =
        protocol.stack().requirements(&FabricProperties::of(&fabric, reach, None));
    let switch = &mut fabric.switches[0];
    switch.credit_queue = credit_queue;
    // Queues of ten packets, so that two senders to one host suffice.
    let data_bytes = 10 * (MTU + HEADER_BYTES);
    let trimmed = |rule: TrimmingRule| Trimming { data_bytes, ..rule.resolved(0.0) };
    switch.trimming = trimming
        .map(trimmed)
        .map(|trimming| Trimming { header_queue_bytes: 2 * data_bytes, ..trimming });
    switch.ecn = ecn.map(|_| Marking::step(Extent::Bytes(1.0)).resolved(0.0));
    (fabric, routing)
}

type Departures = VecDeque<(Time, Packet)>;

/// The departures of each host, in order.
#[derive(Clone)]
struct Recorder(Arc<Mutex<Vec<Departures>>>);

impl Observer for Recorder {
    fn departed(&mut self, d: &Departure<'_>) {
        // Links lead from hosts to the switch.
        if d.port.is_multiple_of(2) {
            let packet = Packet { frame: *d.frame, body: *d.body, hops: *d.hops };
            self.0.lock().unwrap()[d.port as usize / 2].push_back((d.at, packet));
        }
    }
}

/// A host, with the translation of the simulator's numbers.
struct Host {
    node: Node,
    /// Peer of each host; none for itself.
    peers: Vec<Option<PeerId>>,
    /// Numbers of its messages on the wire, by the simulator's numbers.
    numbers: Vec<u32>,
    /// Numbers of finished messages.
    free: VecDeque<u32>,
    /// Remaining departures of the simulator's host.
    expected: VecDeque<(Time, Packet)>,
}

/// A session datagram with destination and source.
type SessionDatagram = (usize, usize, Vec<u8>);

struct World {
    protocol: Protocol,
    name: String,
    /// Whether datagrams have a path entropy.
    has_entropy: bool,
    now: Time,
    hosts: Vec<Host>,
    fabric: OpenFabric,
    /// Datagrams in flight to the switch, with their source.
    uplinks: BTreeMap<(Time, u32), (u32, tidegate_sim::Packet)>,
    /// Datagrams at the switch or in flight, by number.
    datagrams: BTreeMap<u32, (usize, Datagram)>,
    sent: u32,
    /// Datagrams in flight from the switch.
    downlinks: BTreeMap<(Time, u32), tidegate_sim::Packet>,
    session_datagrams: BTreeMap<(Time, u32), SessionDatagram>,
    /// One-way delay of session datagrams.
    half_rtt: Span,
    /// Messages that have not arrived, with source and destination.
    missing: Vec<(usize, usize, Vec<u8>)>,
    delivered: usize,
    seen: Seen,
}

/// Counts of telemetry and marks that arrived at hosts.
#[derive(Clone, Copy, Debug, Default)]
struct Seen {
    packets: u64,
    trims: u64,
    marks: u64,
    records: u64,
    peaks: u64,
    classes: u8,
}

fn address(host: usize) -> SocketAddr {
    SocketAddr::from(([10, 0, 0, host as u8], 5_270))
}

fn host_at(address: SocketAddr) -> usize {
    match address.ip() {
        std::net::IpAddr::V4(ip) => usize::from(ip.octets()[3]),
        std::net::IpAddr::V6(_) => unreachable!(),
    }
}

/// The stack of a protocol, without random waits: they depend on the numbers of both hosts in the
/// fabric, which nodes do not know.
fn stack(protocol: Protocol) -> Stack {
    let mut stack = protocol.stack();
    if stack.values().iter().any(|(name, _)| *name == "jitter") {
        stack.set("jitter", Value::Number(0.0)).unwrap();
    }
    stack
}

/// The configuration of the simulator's hosts. The link rate is scaled with the datagram length.
fn config(protocol: Protocol, hosts: usize, seed: u64, base_rtt: Span, bdp_bytes: f64) -> Config {
    let seed = Some(seed);
    // Trimming changes the header of sessions.
    let trims = fabric(protocol, hosts).0.switches[0].trimming.is_some();
    let has = |need: &Need| trims || *need != Need::Trimming;
    let mut config = Config {
        base_rtt: Some(base_rtt),
        bdp_bytes: Some(bdp_bytes),
        priorities: PRIORITIES,
        connections: ConnectionPolicy::Pool(2),
        switches: Need::ALL.into_iter().filter(has).collect(),
        seed,
        ..Config::new(stack(protocol), Key::new(b"of these"), rate())
    };
    config.limits.peers = hosts as u32 - 1;
    let headers = config.datagram as u32 - node(&config, 0).context().mtu;
    config.datagram = (MTU + headers) as usize;
    let (carried, counted) = (config.datagram as u64 + BELOW_BYTES, u64::from(MTU + HEADER_BYTES));
    config.rate = Rate::bps((rate().as_bps() * carried).div_ceil(counted));
    config
}

fn node(config: &Config, host: usize) -> Node {
    Node::new(config.clone(), entropy(config.seed.unwrap(), host as u64)).unwrap()
}

impl World {
    /// Compares a departure with the next one of the simulator.
    fn compare_departure(&mut self, from: usize, to: usize, sent_tos: u8, bytes: &[u8]) {
        let (protocol, now, name) = (self.protocol, self.now, self.name.clone());
        let expected = self.hosts[from].expected.pop_front();
        let (at, theirs) = expected.unwrap_or_else(|| panic!("{name}: {from} sends more at {now}"));
        let frame = theirs.frame;
        assert_eq!((now, to), (at, frame.dst as usize), "{name}: host {from}, {theirs:?}");
        assert_eq!(sent_tos, tos(&frame), "{name}: {theirs:?}");

        let mut ours = Packet::default();
        let headers = protocol.parse(bytes, ours.as_mut()).unwrap();
        // Data and requests name a message of their sender, answers one of the receiver.
        let number = |owner: usize| self.hosts[owner].numbers.get(theirs.body.message as usize);
        let owner = [from, to].into_iter().find(|&owner| number(owner) == Some(&ours.body.message));
        let is_named = owner.is_some() || ours.body.message == theirs.body.message;
        assert!(is_named, "{name} at {now}: message {}, {theirs:?}", ours.body.message);
        let mut body = theirs.body;
        body.message = ours.body.message;
        let mut written = vec![0; 3 * MAX_HEADER_BYTES];
        let length = protocol.emit(&frame, &body, &theirs.hops, &mut written).unwrap();
        assert_eq!(&bytes[..headers], &written[..length], "{name} at {now}: {theirs:?}");
        let expected = theirs.body.payload_bytes as usize;
        let (session, entropy) = match Header::parse(&bytes[headers..]).unwrap().0 {
            header @ Header::Data(_) => (header.bytes(), None),
            Header::Multipath(header) => (Multipath::BYTES, Some(header.entropy)),
            Header::Trimmable(header) if expected > 0 => (Trimmable::BYTES, Some(header.entropy)),
            other => panic!("{name}: {other:?}"),
        };
        assert_eq!(entropy.is_some(), self.has_entropy, "{name}");
        let payload = bytes.len() - headers - session - TAG_BYTES;
        assert_eq!(payload, expected, "{name} at {now}");

        self.sent += 1;
        let mut datagram = Datagram::default();
        datagram.fill(Content::datagram(sent_tos, bytes));
        let reader = Reader {
            priorities: PRIORITIES,
            stamps: true,
            sized: false,
            sprays: false,
            trimmed_bytes: Some(TRIMMED_BYTES),
        };
        let mut packet = datagram.packet(reader, self.sent, to as u32, 0).unwrap();
        packet.frame.wire_bytes = frame.wire_bytes;
        let lands = now + rate().serialise(frame.wire_bytes.into()) + DELAY;
        self.datagrams.insert(self.sent, (from, datagram));
        self.uplinks.insert((lands, self.sent), (from as u32, packet));
    }

    fn transmit(&mut self) {
        let mut out = vec![0; 4_096];
        for from in 0..self.hosts.len() {
            while let Some(departure) = self.hosts[from].node.transmit(self.now, &mut out) {
                let (to, bytes) = (host_at(departure.to), &out[..departure.bytes]);
                if Header::FORMAT.kinds.iter().any(|kind| kind.number == bytes[1]) {
                    self.sent += 1;
                    let at = (self.now + self.half_rtt, self.sent);
                    self.session_datagrams.insert(at, (to, from, bytes.to_vec()));
                } else {
                    self.compare_departure(from, to, departure.tos, bytes);
                }
            }
        }
    }

    fn receive(&mut self, to: usize, from: usize, tos: u8, bytes: &mut [u8]) {
        let arrival = Arrival { from: address(from), tos, held: Span::ZERO, bytes };
        self.hosts[to].node.receive(self.now, arrival);
    }

    /// Processes arrivals at the switch and at hosts until now.
    fn handle_arrivals(&mut self) {
        while let Some(entry) = self.uplinks.first_entry().filter(|e| e.key().0 <= self.now) {
            let (from, packet) = entry.remove();
            assert!(self.fabric.arrive(self.now, from, &packet));
        }
        let (mut leaving, mut dropped) = (Vec::new(), Vec::new());
        self.fabric.advance(self.now, &mut leaving, &mut dropped);
        dropped.iter().for_each(|number| _ = self.datagrams.remove(number));
        for leaving in leaving {
            self.downlinks.insert((leaving.landing, leaving.packet.number), leaving.packet);
        }
        while let Some(entry) = self.downlinks.first_entry().filter(|e| e.key().0 <= self.now) {
            let packet = entry.remove();
            let (from, mut datagram) = self.datagrams.remove(&packet.number).unwrap();
            datagram.stamp(&packet);
            let mut bytes = datagram.payload().concat();
            self.receive(packet.frame.dst as usize, from, datagram.tos(), &mut bytes);
            let is = |flag: u8| packet.frame.flags & flag != 0;
            self.seen.packets += 1;
            self.seen.trims += u64::from(is_trimmed(datagram.tos()));
            self.seen.marks += u64::from(is(frame_flag::CONGESTION_EXPERIENCED));
            self.seen.peaks += u64::from(packet.frame.peak_hop_delay > Span::ZERO);
            self.seen.records +=
                u64::from(is(frame_flag::STAMP_HOPS) && !packet.hops.as_slice().is_empty());
            self.seen.classes |= 1 << packet.frame.priority;
        }
        while let Some(entry) =
            self.session_datagrams.first_entry().filter(|e| e.key().0 <= self.now)
        {
            let (to, from, mut bytes) = entry.remove();
            self.receive(to, from, 0, &mut bytes);
        }
    }

    fn submit(&mut self, Submission { src, dst, bytes, .. }: &Submission) {
        self.events();
        let Host { node, peers, numbers, free, .. } = &mut self.hosts[*src];
        let unused = numbers.iter().max().map_or(0, |most| most + 1);
        numbers.push(free.pop_front().unwrap_or(unused));
        let body = Bytes::from(bytes.clone());
        let ticket =
            node.send(self.now, peers[*dst].unwrap(), &[], body, Terms::default()).unwrap();
        assert_eq!(ticket.0 as usize, numbers.len() - 1);
        self.missing.push((*src, *dst, bytes.clone()));
    }

    fn events(&mut self) {
        for to in 0..self.hosts.len() {
            while let Some(event) = self.hosts[to].node.event() {
                match event {
                    Event::Opened(peer) => {
                        let from = host_at(self.hosts[to].node.address(peer).unwrap());
                        self.hosts[to].peers[from] = Some(peer);
                    }
                    Event::Arrived(peer, bytes) => {
                        let Host { node, peers, .. } = &mut self.hosts[to];
                        let from = peers.iter().position(|&other| other == Some(peer)).unwrap();
                        node.consumed(self.now, peer, bytes.len() as u64);
                        let whole = (from, to, bytes);
                        let found = self.missing.iter().position(|missing| *missing == whole);
                        self.missing.swap_remove(found.expect("a message as it was sent"));
                    }
                    Event::Delivered(ticket) => {
                        let Host { numbers, free, .. } = &mut self.hosts[to];
                        free.push_back(numbers[ticket.0 as usize]);
                        self.delivered += 1;
                    }
                    other => panic!("{}: {other:?}", self.name),
                }
            }
        }
    }

    fn deadlines(&mut self) {
        for host in &mut self.hosts {
            if host.node.deadline() <= self.now {
                host.node.on_deadline(self.now);
            }
        }
    }

    /// Runs in the simulator's order: at equal times, packets leave first, then packets arrive,
    /// then messages are submitted, then deadlines expire.
    fn run(&mut self, submissions: &[Submission], end: Time) {
        let mut submissions = submissions.iter().peekable();
        loop {
            self.transmit();
            self.handle_arrivals();
            while let Some(submission) = submissions.next_if(|next| next.at <= self.now) {
                self.submit(submission);
            }
            self.deadlines();
            self.transmit();
            self.events();
            let first = |at: Option<Time>| at.unwrap_or(Time::NEVER);
            let ways = first(self.uplinks.keys().next().map(|key| key.0))
                .min(first(self.downlinks.keys().next().map(|key| key.0)))
                .min(first(self.session_datagrams.keys().next().map(|key| key.0)));
            let nodes = self.hosts.iter().map(|host| host.node.deadline()).min();
            let next = ways.min(self.fabric.next()).min(first(nodes));
            let next = next.min(first(submissions.peek().map(|next| next.at)));
            if next > end {
                return;
            }
            self.now = next.max(self.now + Span::ps(1));
        }
    }
}

/// Runs and compares both; returns the counts of the switch's work.
fn compare(protocol: Protocol, hosts: usize, seed: u64) -> Seen {
    let (fabric, routing) = fabric(protocol, hosts);
    let submissions = submissions(protocol, hosts as u64, seed);
    let flow = |s: &Submission| Flow {
        src: s.src as u32,
        dst: s.dst as u32,
        bytes: s.bytes.len() as u64,
        start: s.at,
        stop: Time::NEVER,
        stack: 0,
        label: 0,
        dedicated: false,
    };
    let setup = Setup {
        routing,
        stacks: vec![stack(protocol)],
        connections: ConnectionPolicy::Pool(2),
        workload: Workload { flows: submissions.iter().map(flow).collect(), traffic: Vec::new() },
        duration: END,
        ..Setup::new(fabric.clone(), seed)
    };
    let recorder = Recorder(Arc::new(Mutex::new(vec![VecDeque::new(); hosts])));
    let mut engine = observed(setup, Box::new(recorder.clone())).unwrap();
    let path = engine.paths().path(0, 1);
    while !engine.advance_some(END, u64::MAX).unwrap() {}
    let expected = recorder.0.lock().unwrap().clone();
    let sent: usize = expected.iter().map(VecDeque::len).sum();
    assert!(sent > 1_000, "only {sent} packets");

    let trims = fabric.switches[0].trimming.is_some();
    let config = config(protocol, hosts, seed, path.base_rtt, path.bdp_bytes);
    let host = |(number, expected)| Host {
        node: node(&config, number),
        peers: vec![None; hosts],
        numbers: Vec::new(),
        free: VecDeque::new(),
        expected,
    };
    let mut world = World {
        protocol,
        name: format!("{}, {hosts} hosts, seed {seed}", protocol.info().name),
        has_entropy: trims || protocol.stack().takes_many_paths(),
        now: Time::us(1),
        hosts: expected.into_iter().enumerate().map(host).collect(),
        fabric: OpenFabric::new(fabric, routing, seed).unwrap(),
        uplinks: BTreeMap::new(),
        datagrams: BTreeMap::new(),
        sent: 0,
        downlinks: BTreeMap::new(),
        session_datagrams: BTreeMap::new(),
        half_rtt: Span::ps(path.base_rtt.as_ps() / 2),
        missing: Vec::new(),
        delivered: 0,
        seen: Seen::default(),
    };
    assert_eq!(world.half_rtt.times(2), path.base_rtt);
    // Connect one after the other, so that peers are numbered in the order of hosts.
    for (from, to) in (0..hosts).flat_map(|from| (from + 1..hosts).map(move |to| (from, to))) {
        world.hosts[from].node.connect(world.now, address(to)).unwrap();
        let soon = world.now + path.base_rtt.times(4);
        world.run(&[], soon);
        world.now = soon;
    }
    for (number, host) in world.hosts.iter().enumerate() {
        let others = (0..hosts).filter(|&other| other != number);
        assert!(others.map(|other| host.peers[other]).all(|peer| peer.is_some()));
        assert_eq!((host.node.context().nic_rate, host.node.context().mtu), (rate(), MTU));
    }
    world.run(&submissions, END);
    let World { name, hosts, missing, delivered, seen, .. } = world;
    assert_eq!((missing.len(), delivered), (0, submissions.len()), "{name}");
    for (number, Host { expected, node, .. }) in hosts.iter().enumerate() {
        assert_eq!(expected.front(), None, "{name}: host {number} sent less");
        let counters = node.counters();
        let refused = [counters.malformed, counters.unknown_session, counters.forged, counters.old];
        assert_eq!(refused, [0; 4], "{name}");
        assert!(counters.accepted > 0);
    }
    seen
}

#[test]
fn nodes_match_the_simulator() {
    for &protocol in Protocol::ALL {
        let seen: Vec<_> = (1..=4).map(|seed| compare(protocol, 2, seed)).collect();
        assert!(seen.iter().all(|seen| seen.packets > 1_000), "{seen:?}");
    }
}

/// Two hosts that send to a third share a queue: marks, hop delays and records show it.
#[test]
fn three_nodes_match_the_simulator() {
    // dcPIM draws random numbers among several peers, so it is excluded.
    let draws = |protocol| draws_by_number(protocol) || protocol.info().name == "dcpim";
    let protocols = Protocol::ALL.iter().filter(|&&protocol| !draws(protocol));
    for &protocol in protocols {
        let seen: Vec<_> = (1..=4).map(|seed| compare(protocol, 3, seed)).collect();
        let sum = |of: fn(&Seen) -> u64| seen.iter().map(of).sum::<u64>();
        let name = protocol.info().name;
        let (fabric, _) = fabric(protocol, 3);
        let reach = Routes::new(&fabric).unwrap().reach();
        let asks = protocol.stack().requirements(&FabricProperties::of(&fabric, reach, None));
        assert_eq!(sum(|seen| seen.marks) > 100, asks.ecn.is_some(), "{name}: {seen:?}");
        assert_eq!(sum(|seen| seen.peaks) > 100, asks.telemetry.peak_on_data, "{name}: {seen:?}");
        assert_eq!(sum(|seen| seen.records) > 100, asks.telemetry.hop_records, "{name}: {seen:?}");
        assert_eq!(sum(|seen| seen.trims) > 100, asks.trimming.is_some(), "{name}: {seen:?}");
        let classes = seen.iter().fold(0, |all, seen| all | seen.classes);
        assert_eq!(classes.count_ones() > 1, asks.classes > 0, "{name}: {seen:?}");
    }
}
