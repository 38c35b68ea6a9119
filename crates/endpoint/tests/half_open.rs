//! Half-open sessions: the peer was sent an `Accept` and has not proved possession of the session.

use std::collections::VecDeque;
use std::net::SocketAddr;

use bytes::Bytes;
use tidegate_core::{Span, Time};
use tidegate_endpoint::node::{Arrival, Event, Node, PeerId, Terms};

use crate::common::node;

/// Maximum number of half-open sessions of one address.
const SHARE: u16 = 64;

fn server_address() -> SocketAddr {
    SocketAddr::from(([10, 255, 0, 1], 5_270))
}

/// A host that requests a session, with its address.
struct Client {
    node: Node,
    address: SocketAddr,
    peer: PeerId,
    /// Datagrams in flight to the server.
    wire: VecDeque<Vec<u8>>,
}

/// A server, with its datagrams queued by destination.
struct Scene {
    now: Time,
    server: Node,
    sent: Vec<(SocketAddr, Vec<u8>)>,
    /// Number of clients so far, which is the seed of the next.
    clients: u64,
}

impl Scene {
    fn new() -> Scene {
        Scene { now: Time::us(1), server: node(0, b"known"), sent: Vec::new(), clients: 0 }
    }

    /// A host at an address, with a message to send.
    fn client(&mut self, address: SocketAddr) -> Client {
        self.clients += 1;
        let mut node = node(self.clients, b"known");
        let peer = node.connect(self.now, server_address()).unwrap();
        node.send(self.now, peer, &[], Bytes::from_static(&[7; 100]), Terms::default()).unwrap();
        Client { node, address, peer, wire: VecDeque::new() }
    }

    fn serve(&mut self, client: &Client, mut bytes: Vec<u8>) {
        let (from, bytes) = (client.address, &mut bytes[..]);
        self.server.receive(self.now, Arrival { from, tos: 0, held: Span::ZERO, bytes });
        self.collect();
    }

    fn collect(&mut self) {
        let mut out = vec![0; 2_048];
        while let Some(departure) = self.server.transmit(self.now, &mut out) {
            self.sent.push((departure.to, out[..departure.bytes].to_vec()));
        }
    }

    /// One round trip of a client; returns the bytes to the server and the bytes back.
    fn round(&mut self, client: &mut Client) -> (usize, usize) {
        self.now += Span::us(50);
        let mut out = vec![0; 2_048];
        if client.node.deadline() <= self.now {
            client.node.on_deadline(self.now);
        }
        while let Some(departure) = client.node.transmit(self.now, &mut out) {
            client.wire.push_back(out[..departure.bytes].to_vec());
        }
        if self.server.deadline() <= self.now {
            self.server.on_deadline(self.now);
        }
        self.collect();
        let (mut there, mut back) = (0, 0);
        for bytes in std::mem::take(&mut client.wire) {
            there += bytes.len();
            self.serve(client, bytes);
        }
        for (to, mut bytes) in std::mem::take(&mut self.sent) {
            if to == client.address {
                back += bytes.len();
                let (from, bytes) = (server_address(), &mut bytes[..]);
                client.node.receive(self.now, Arrival { from, tos: 0, held: Span::ZERO, bytes });
            }
        }
        (there, back)
    }

    /// Creates a half-open session: the client returns the cookie and drops the `Accept`.
    fn half_open(&mut self, address: SocketAddr) -> (usize, usize) {
        let mut client = self.client(address);
        self.round(&mut client);
        self.round(&mut client)
    }

    fn events(&mut self) -> Vec<Event> {
        std::iter::from_fn(|| self.server.event()).collect()
    }

    /// Whether the client's message arrives.
    fn is_served(&mut self, client: &mut Client) -> bool {
        (0..20).for_each(|_| _ = self.round(client));
        self.events().iter().any(|event| matches!(event, Event::Arrived(..)))
    }
}

fn host(number: u16) -> SocketAddr {
    let [high, low] = number.to_be_bytes();
    SocketAddr::from(([10, 0, high, low], 5_270))
}

#[test]
fn half_open_session_gets_only_its_accept() {
    let mut scene = Scene::new();
    let (mut there, mut back) = (0, 0);
    for _ in 0..10 {
        let (received, sent) = scene.half_open(host(1));
        (there, back) = (there + received, back + sent);
        // The application sends a message to each session immediately, and closes some.
        for event in scene.events() {
            let Event::Opened(peer) = event else { panic!("{event:?}") };
            let body = Bytes::from_static(&[7; 50_000]);
            scene.server.send(scene.now, peer, &[], body, Terms::default()).unwrap();
            scene.server.close(scene.now, peer);
        }
        scene.collect();
    }
    // Run until all sessions have ended.
    for _ in 0..2_000 {
        scene.now += Span::ms(1);
        scene.server.on_deadline(scene.now);
        scene.collect();
    }
    let later: usize = scene.sent.iter().map(|(_, bytes)| bytes.len()).sum();
    assert_eq!(later, 0, "bytes to half-open sessions");
    let each = back / 10;
    assert!(each * 10 == back && each < 100 && there > 1_000, "{back} bytes for {there}");
}

#[test]
fn messages_wait_for_an_established_session() {
    let mut scene = Scene::new();
    let mut client = scene.client(host(1));
    for _ in 0..50 {
        scene.round(&mut client);
        for event in scene.events() {
            if let Event::Opened(peer) = event {
                let body = Bytes::from_static(&[8; 5_000]);
                scene.server.send(scene.now, peer, &[], body, Terms::default()).unwrap();
            }
        }
    }
    let events: Vec<_> = std::iter::from_fn(|| client.node.event()).collect();
    assert!(events.contains(&Event::Arrived(client.peer, vec![8; 5_000])), "{events:?}");
}

#[test]
fn half_open_sessions_do_not_block_peers() {
    let mut scene = Scene::new();
    let places = scene.server.limits().peers as u16;
    let mut resident = scene.client(host(9_999));
    assert!(scene.is_served(&mut resident));
    for number in 0..places + 10 {
        scene.half_open(host(number));
    }
    // The newest sessions have evicted the oldest.
    let closed = scene.events().iter().filter(|event| matches!(event, Event::Closed(..))).count();
    assert_eq!(closed, 11);
    let mut client = scene.client(host(10_000));
    assert!(scene.is_served(&mut client), "not served because of half-open sessions");
    // An established session is not evicted.
    let body = Bytes::from_static(&[7; 100]);
    let peer = resident.peer;
    resident.node.send(scene.now, peer, &[], body, Terms::default()).unwrap();
    assert!(scene.is_served(&mut resident), "the established session was evicted");
}

#[test]
fn half_open_sessions_per_address() {
    let mut scene = Scene::new();
    // An honest peer's `Accept` is in flight while another host creates half-open sessions.
    let mut client = scene.client(host(1));
    scene.round(&mut client);
    scene.round(&mut client);
    for port in 0..2 * SHARE {
        scene.half_open(SocketAddr::new(host(2).ip(), 6_000 + port));
    }
    let events = scene.events();
    let opened = events.iter().filter(|event| matches!(event, Event::Opened(_))).count();
    let closed = events.iter().filter(|event| matches!(event, Event::Closed(..))).count();
    assert_eq!((opened, closed), (1 + 2 * usize::from(SHARE), usize::from(SHARE)));
    assert!(scene.is_served(&mut client));
}
