//! Arbitrary datagrams from an attacker without the key, before, during and after a handshake: they
//! have no effect, are answered with no more bytes than they have, and the honest peer is served.
//! Also: session headers survive the round trip through bytes.

use std::collections::VecDeque;
use std::net::SocketAddr;

use bytes::Bytes;
use proptest::prelude::*;
use proptest::sample::Index;
use tidegate_core::wire::{Header as _, Kind, START_BYTES};
use tidegate_core::{Span, Time};
use tidegate_endpoint::node::{Arrival, CloseReason, Event, Node, Terms};
use tidegate_endpoint::session::header::Header;

use crate::common::{address, node};

/// Kind number of control datagrams.
const CONTROL: u8 = 37;

/// A session header whose fields are filled with repeated bytes.
fn header(kind: &Kind, bytes: &[u8]) -> Vec<u8> {
    let fields: usize = kind.fields.iter().map(|field| field.bytes).sum();
    let mut header = vec![1, kind.number, 0, ((START_BYTES + fields) / 4) as u8];
    header.extend(bytes.iter().chain([&0]).cycle().take(fields));
    header
}

/// The next action of the attacker.
#[derive(Clone, Debug)]
enum Action {
    Bytes(Vec<u8>),
    Header(Index, Vec<u8>),
    /// A replayed datagram of the peer, optionally with one byte changed.
    Again(Index, Option<(Index, u8)>),
}

fn action() -> impl Strategy<Value = Action> {
    let bytes = || prop::collection::vec(any::<u8>(), 0..200);
    let changed = prop::option::of((any::<Index>(), 1..=u8::MAX));
    prop_oneof![
        bytes().prop_map(Action::Bytes),
        (any::<Index>(), bytes()).prop_map(|(kind, bytes)| Action::Header(kind, bytes)),
        (any::<Index>(), changed).prop_map(|(which, changed)| Action::Again(which, changed)),
    ]
}

/// A serving node (1), an honest peer (0), and an attacker (2) that sees datagrams of the peer.
struct Scene {
    now: Time,
    nodes: [Node; 2],
    wires: [VecDeque<Vec<u8>>; 2],
    captured: Vec<Vec<u8>>,
    from_attacker: usize,
    to_attacker: usize,
    /// Destination of the last datagram of each node.
    last_to: [Option<SocketAddr>; 2],
}

impl Scene {
    fn new() -> Scene {
        Scene {
            now: Time::us(1),
            nodes: [1, 2].map(|seed| node(seed, b"not theirs")),
            wires: [VecDeque::new(), VecDeque::new()],
            captured: Vec::new(),
            from_attacker: 0,
            to_attacker: 0,
            last_to: [None; 2],
        }
    }

    fn transmit(&mut self) {
        let mut out = vec![0; 2_048];
        for from in 0..2 {
            while let Some(departure) = self.nodes[from].transmit(self.now, &mut out) {
                self.last_to[from] = Some(departure.to);
                match departure.to {
                    to if to == address(2) => self.to_attacker += departure.bytes,
                    _ => self.wires[1 - from].push_back(out[..departure.bytes].to_vec()),
                }
            }
        }
        assert!(self.to_attacker <= self.from_attacker, "answers exceed the received bytes");
    }

    fn receive(&mut self, to: usize, from: u8, mut bytes: Vec<u8>) {
        let arrival = Arrival { from: address(from), tos: 0, held: Span::ZERO, bytes: &mut bytes };
        self.nodes[to].receive(self.now, arrival);
        self.transmit();
    }

    /// Delivers one datagram of each side to the other.
    fn step(&mut self) {
        self.now += Span::us(10);
        for to in 0..2 {
            let Some(bytes) = self.wires[to].pop_front() else { continue };
            if to == 1 {
                self.captured.push(bytes.clone());
            }
            self.receive(to, 1 - to as u8, bytes);
        }
        for node in &mut self.nodes {
            if node.deadline() <= self.now {
                node.on_deadline(self.now);
            }
        }
        self.transmit();
    }

    /// The peer requests a session; returns the `Retry` with the cookie.
    fn retry_of_hello(&mut self) -> Vec<u8> {
        self.nodes[0].connect(self.now, address(1)).unwrap();
        self.transmit();
        let hello = self.wires[1].pop_front().unwrap();
        self.receive(1, 0, hello);
        self.wires[0].pop_front().unwrap()
    }

    fn attack(&mut self, action: &Action) {
        let bytes = match action {
            Action::Bytes(bytes) => bytes.clone(),
            Action::Header(kind, bytes) => header(kind.get(Header::FORMAT.kinds), bytes),
            Action::Again(..) if self.captured.is_empty() => return,
            Action::Again(which, changed) => {
                let mut bytes = which.get(&self.captured).clone();
                if let Some((at, by)) = changed {
                    let at = at.index(bytes.len());
                    bytes[at] ^= by;
                }
                bytes
            }
        };
        self.from_attacker += bytes.len();
        self.receive(1, 2, bytes);
    }
}

#[test]
fn replayed_datagrams_are_old() {
    let mut scene = Scene::new();
    let peer = scene.nodes[0].connect(scene.now, address(1)).unwrap();
    let body = Bytes::from_static(&[7; 50_000]);
    scene.nodes[0].send(scene.now, peer, &[], body, Terms::default()).unwrap();
    scene.transmit();
    (0..200).for_each(|_| scene.step());
    let before = scene.nodes[1].counters();
    let captured = scene.captured.clone();
    let hello = Header::FORMAT.kinds[0].number;
    let sealed = captured.iter().filter(|bytes| bytes[1] != hello).count() as u64;
    assert!(sealed > 30, "{sealed} datagrams");
    for bytes in captured {
        scene.from_attacker += bytes.len();
        scene.receive(1, 2, bytes);
    }
    let after = scene.nodes[1].counters();
    assert_eq!((after.accepted, after.old), (before.accepted, before.old + sealed));
}

#[test]
fn cookie_lifetime() {
    for (seconds, opens) in [(9, true), (11, false)] {
        let mut scene = Scene::new();
        let retry = scene.retry_of_hello();
        scene.receive(0, 1, retry);
        let with_cookie = scene.wires[1].pop_front().unwrap();
        scene.now += Span::s(seconds);
        scene.receive(1, 0, with_cookie);
        let opened = matches!(scene.nodes[1].event(), Some(Event::Opened(_)));
        assert_eq!(opened, opens, "after {seconds} s");
    }
}

#[test]
fn replayed_retry_causes_no_hello() {
    let mut scene = Scene::new();
    let retry = scene.retry_of_hello();
    (0..5).for_each(|_| scene.receive(0, 1, retry.clone()));
    assert_eq!(scene.wires[1].len(), 1);
}

#[test]
fn address_change_after_ping() {
    let mut scene = Scene::new();
    let peer = scene.nodes[0].connect(scene.now, address(1)).unwrap();
    scene.transmit();
    (0..50).for_each(|_| scene.step());
    let Some(Event::Opened(seen)) = scene.nodes[1].event() else { panic!("no session") };
    assert!(scene.wires.iter().all(VecDeque::is_empty), "quiet");
    // A data packet, which answers no ping.
    let body = Bytes::from_static(&[7; 100]);
    scene.nodes[0].send(scene.now, peer, &[], body, Terms::default()).unwrap();
    scene.transmit();
    let data = scene.wires[1].pop_front().unwrap();
    scene.now += Span::us(10);
    scene.receive(1, 3, data);
    assert!(matches!(scene.nodes[1].event(), Some(Event::Arrived(..))));
    assert_eq!(
        scene.nodes[1].address(seen),
        Some(address(0)),
        "the new address is not verified yet"
    );
    let requests: Vec<_> = std::mem::take(&mut scene.wires[0]).into();
    for bytes in requests {
        scene.receive(0, 1, bytes);
    }
    let answers: Vec<_> = std::mem::take(&mut scene.wires[1]).into();
    assert!(!answers.is_empty(), "the new address was pinged");
    for bytes in answers {
        scene.receive(1, 3, bytes);
    }
    assert_eq!(scene.nodes[1].address(seen), Some(address(3)));
    scene.nodes[1].send(scene.now, seen, &[], Bytes::from_static(b"x"), Terms::default()).unwrap();
    scene.now += Span::us(10);
    scene.transmit();
    assert_eq!(scene.last_to[1], Some(address(3)));
}

/// A `Pong` verifies a new address only if it arrives from that address. From another address it
/// has no effect, and neither address is used.
#[test]
fn pong_from_wrong_address() {
    let mut scene = Scene::new();
    let peer = scene.nodes[0].connect(scene.now, address(1)).unwrap();
    scene.transmit();
    (0..50).for_each(|_| scene.step());
    let Some(Event::Opened(seen)) = scene.nodes[1].event() else { panic!("no session") };
    let body = Bytes::from_static(&[7; 100]);
    scene.nodes[0].send(scene.now, peer, &[], body, Terms::default()).unwrap();
    scene.transmit();
    let data = scene.wires[1].pop_front().unwrap();
    scene.now += Span::us(10);
    scene.receive(1, 3, data);
    for bytes in std::mem::take(&mut scene.wires[0]) {
        scene.receive(0, 1, bytes);
    }
    let answers: Vec<_> = std::mem::take(&mut scene.wires[1]).into();
    assert!(!answers.is_empty(), "address 3 was pinged");
    for bytes in answers {
        scene.receive(1, 4, bytes);
    }
    assert_eq!(scene.nodes[1].address(seen), Some(address(0)));
}

#[test]
fn pings_to_new_addresses_are_limited() {
    let mut scene = Scene::new();
    let peer = scene.nodes[0].connect(scene.now, address(1)).unwrap();
    scene.transmit();
    (0..50).for_each(|_| scene.step());
    let mut pings = 0;
    for _ in 0..100 {
        let body = Bytes::from_static(&[7; 100]);
        scene.nodes[0].send(scene.now, peer, &[], body, Terms::default()).unwrap();
        scene.transmit();
        scene.now += Span::ms(1);
        for data in std::mem::take(&mut scene.wires[1]) {
            scene.receive(1, 3, data);
        }
        // Acknowledgements go to the last verified address, which is not pinged.
        for bytes in std::mem::take(&mut scene.wires[0]) {
            pings += usize::from(bytes[1] == CONTROL);
            if bytes[1] != CONTROL {
                scene.receive(0, 1, bytes);
            }
        }
    }
    assert!((2..=3).contains(&pings), "{pings} pings in 100 ms");
}

#[test]
fn accept_is_not_repeated_when_established() {
    let mut scene = Scene::new();
    scene.nodes[0].connect(scene.now, address(1)).unwrap();
    scene.transmit();
    (0..50).for_each(|_| scene.step());
    let hello = Header::FORMAT.kinds[0].number;
    let repeated = scene.captured.iter().rfind(|bytes| bytes[1] == hello).unwrap().clone();
    assert!(scene.wires[0].is_empty());
    scene.receive(1, 0, repeated);
    assert!(scene.wires[0].is_empty());
}

#[test]
fn reused_peer_number() {
    let mut scene = Scene::new();
    scene.nodes[0].connect(scene.now, address(1)).unwrap();
    scene.transmit();
    (0..50).for_each(|_| scene.step());
    let sealed = scene.captured.iter().rfind(|bytes| bytes[1] == CONTROL).unwrap().clone();
    let before = scene.nodes[1].counters();
    // Another session with the same peer number: ids end in that number.
    let mut other = sealed;
    other[4] ^= 1;
    scene.from_attacker += other.len();
    scene.receive(1, 2, other);
    let after = scene.nodes[1].counters();
    assert_eq!((after.unknown_session, after.forged), (before.unknown_session + 1, before.forged));
    assert!(scene.to_attacker > 0, "a Reset reports the unknown session");
}

/// Bytes of all answers to a `Hello` with a cookie.
fn bytes_back(scene: &mut Scene, question: &[u8]) -> usize {
    assert!(scene.wires[0].is_empty());
    scene.receive(1, 0, question.to_vec());
    for _ in 0..300 {
        scene.now += Span::ms(10);
        if scene.nodes[1].deadline() <= scene.now {
            scene.nodes[1].on_deadline(scene.now);
        }
        scene.transmit();
    }
    std::mem::take(&mut scene.wires[0]).iter().map(Vec::len).sum()
}

#[test]
fn hello_opens_one_session() {
    let mut scene = Scene::new();
    let retry = scene.retry_of_hello();
    scene.receive(0, 1, retry);
    let mut question = scene.wires[1].pop_front().unwrap();
    // The padding is not authenticated.
    question.truncate(136);
    // The session stays half-open, and answers do not exceed the received bytes.
    let back = bytes_back(&mut scene, &question);
    assert!(0 < back && back <= question.len(), "{back} bytes");
    let events: Vec<_> = std::iter::from_fn(|| scene.nodes[1].event()).collect();
    assert!(
        matches!(events[..], [Event::Opened(_), Event::Closed(_, CloseReason::Silent)]),
        "{events:?}"
    );
    // A replay opens no other session while its cookie is valid.
    for _ in 0..3 {
        assert_eq!(bytes_back(&mut scene, &question), 0);
    }
    let back = bytes_back(&mut scene, &question);
    assert!(0 < back && back <= question.len(), "{back} bytes: a Retry");
    assert_eq!(scene.nodes[1].event(), None);
}

/// A host that relays an `Accept` does not become the peer.
#[test]
fn relayed_accept_keeps_address() {
    let mut scene = Scene::new();
    let retry = scene.retry_of_hello();
    scene.receive(0, 1, retry);
    let question = scene.wires[1].pop_front().unwrap();
    scene.receive(1, 0, question);
    let accept = scene.wires[0].pop_front().unwrap();
    scene.receive(0, 3, accept);
    let Some(Event::Opened(peer)) = scene.nodes[0].event() else { panic!("no session") };
    assert_eq!(scene.nodes[0].address(peer), Some(address(1)));
    assert_eq!(scene.last_to[0], Some(address(1)));
}

#[test]
fn changing_cookies_cause_no_hellos() {
    let mut scene = Scene::new();
    scene.nodes[0].connect(scene.now, address(1)).unwrap();
    scene.transmit();
    let question = scene.wires[1].pop_front().unwrap();
    let cookies = [1, 2].map(|_| {
        scene.now += Span::ms(1);
        scene.receive(1, 0, question.clone());
        scene.wires[0].pop_front().unwrap()
    });
    assert_ne!(cookies[0], cookies[1]);
    for cookie in cookies.iter().cycle().take(100) {
        scene.receive(0, 1, cookie.clone());
    }
    assert_eq!(scene.wires[1].len(), 1);
    // The last cookie is used in the next regular `Hello`.
    scene.wires[1].clear();
    scene.now += Span::ms(100);
    (0..50).for_each(|_| scene.step());
    assert!(matches!(scene.nodes[1].event(), Some(Event::Opened(_))));
}

/// `Close` is repeated, because datagrams may be lost.
#[test]
fn close_despite_loss() {
    for lost in [0, 1, 4] {
        let mut scene = Scene::new();
        let peer = scene.nodes[0].connect(scene.now, address(1)).unwrap();
        scene.transmit();
        (0..50).for_each(|_| scene.step());
        let Some(Event::Opened(seen)) = scene.nodes[1].event() else { panic!("no session") };
        scene.nodes[0].close(scene.now, peer);
        let mut words = 0;
        // Half a second, which is far less than the silence timeout.
        for _ in 0..50_000 {
            scene.transmit();
            let action = scene.wires[1].len();
            words += action;
            if words <= lost {
                scene.wires[1].clear();
            }
            scene.step();
        }
        assert!(words > lost, "{words} datagrams, {lost} lost");
        let closed = std::iter::from_fn(|| scene.nodes[1].event());
        assert_eq!(
            closed.collect::<Vec<_>>(),
            [Event::Closed(seen, CloseReason::ClosedByPeer)],
            "{lost} lost"
        );
    }
}

#[test]
fn clock_leap_is_not_an_rtt() {
    let mut scene = Scene::new();
    let peer = scene.nodes[0].connect(scene.now, address(1)).unwrap();
    scene.transmit();
    for to in [1, 0, 1] {
        let bytes = scene.wires[to].pop_front().unwrap();
        scene.receive(to, 1 - to as u8, bytes);
    }
    scene.now += Span::s(1_000);
    (0..50).for_each(|_| scene.step());
    assert_eq!(scene.nodes[0].event(), Some(Event::Opened(peer)));
    let rtt = scene.nodes[0].base_rtt(peer).expect("a later RTT was measured");
    let used = scene.nodes[0].context().fabric_base_rtt;
    assert!(rtt < Span::ms(1) && used < Span::ms(1), "{rtt:?}, the transport uses {used:?}");
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 3_000,
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    #[test]
    fn unknown_sources_have_no_effect(
        script in prop::collection::vec((action(), any::<bool>()), 0..60)
    ) {
        let mut scene = Scene::new();
        let peer = scene.nodes[0].connect(scene.now, address(1)).unwrap();
        let body = Bytes::from_static(&[7; 5_000]);
        let ticket = scene.nodes[0].send(scene.now, peer, &[], body, Terms::default()).unwrap();
        scene.transmit();
        for (action, steps) in &script {
            scene.attack(action);
            if *steps {
                scene.step();
            }
        }
        (0..200).for_each(|_| scene.step());
        let [client, server] = &mut scene.nodes;
        prop_assert_eq!(client.event(), Some(Event::Opened(peer)));
        prop_assert_eq!(client.event(), Some(Event::Delivered(ticket)));
        prop_assert_eq!(client.event(), None);
        let opened = server.event();
        let Some(Event::Opened(peer)) = opened else { panic!("{opened:?}") };
        prop_assert_eq!(server.event(), Some(Event::Arrived(peer, vec![7; 5_000])));
        prop_assert_eq!(server.event(), None);
        prop_assert_eq!(server.address(peer), Some(address(0)));
    }

    #[test]
    fn session_header_round_trip(
        kind in any::<Index>(),
        bytes in prop::collection::vec(any::<u8>(), 1..120),
        place in any::<Index>(),
        other in any::<u8>()
    ) {
        let mut bytes = header(kind.get(Header::FORMAT.kinds), &bytes);
        prop_assert!(Header::parse(&bytes).is_ok());
        let place = place.index(bytes.len());
        bytes[place] = other;
        if let Ok((read, rest)) = Header::parse(&bytes) {
            let mut again = vec![0; bytes.len()];
            let written = read.emit(&mut again);
            prop_assert_eq!((written, rest.len()), (Ok(bytes.len()), 0));
            prop_assert_eq!(&again, &bytes);
        }
        for cut in 0..bytes.len() {
            prop_assert!(Header::parse(&bytes[..cut]).is_err());
        }
    }
}
