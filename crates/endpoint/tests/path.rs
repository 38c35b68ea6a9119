//! Measurements of the path: the base RTT of a full datagram and a short answer, and whether the
//! path is within the design range of the protocol.

use std::collections::BTreeMap;

use bytes::Bytes;
use tidegate_algos::Protocol;
use tidegate_core::{Rate, Span, Time};
use tidegate_endpoint::Packet;
use tidegate_endpoint::node::{Arrival, Config, Event, Node, Terms};
use tidegate_endpoint::session::Key;

use crate::common::{address, entropy};

const DELAY: Span = Span::us(2);
/// IP, UDP, Ethernet, gap and preamble.
const BELOW_BYTES: usize = 66;
/// Length of a `Pong`: session header, message, and tag.
const PONG_BYTES: usize = 20 + 12 + 16;
/// Length of an `Accept`.
const ACCEPT_BYTES: usize = 84;

/// One-way delay.
fn takes(rate: Rate, bytes: usize) -> Span {
    rate.serialise((bytes + BELOW_BYTES) as u64) + DELAY
}

/// Two nodes open a session over a link, and process datagrams with a delay `held`. Returns the RTT
/// and warning of each, when the session opens and at the end.
fn learned(rate: Rate, held: Span) -> [[(Span, Option<String>); 2]; 2] {
    let config = Config::new(Protocol::named("swift").unwrap().stack(), Key::new(b"key"), rate);
    let mut nodes = [1, 2].map(|seed| Node::new(config.clone(), entropy(seed, 0)).unwrap());
    let (mut now, mut out, mut order) = (Time::ms(1), vec![0; 2_048], 0);
    let mut wires = BTreeMap::new();
    let peer = nodes[0].connect(now, address(1)).unwrap();
    assert_eq!(nodes[0].domain_warning(peer), None, "no RTT is known yet");
    let known = |node: &Node, peer| (node.base_rtt(peer).unwrap(), node.domain_warning(peer));
    let mut peers = [None, None];
    let mut first = [None, None];
    while now < Time::ms(20) {
        for (from, node) in nodes.iter_mut().enumerate() {
            if node.deadline() <= now {
                node.on_deadline(now);
            }
            while let Some(departure) = node.transmit(now, &mut out) {
                order += 1;
                let lands = now + takes(rate, departure.bytes) + held;
                wires.insert((lands, order), (1 - from, out[..departure.bytes].to_vec()));
            }
            while let Some(event) = node.event() {
                let Event::Opened(peer) = event else { panic!("{event:?}") };
                (peers[from], first[from]) = (Some(peer), Some(known(node, peer)));
            }
        }
        let deadlines = nodes.iter().map(Node::deadline).min().unwrap();
        let landing = wires.first_key_value().map_or(Time::NEVER, |((at, _), _)| *at);
        now = landing.min(deadlines.max(now + Span::ns(1)));
        if landing <= now {
            let (_, (to, mut bytes)) = wires.pop_first().unwrap();
            let from = address(1 - to as u8);
            nodes[to].receive(now, Arrival { from, tos: 0, held, bytes: &mut bytes });
        }
    }
    let last = [0, 1].map(|at: usize| known(&nodes[at], peers[at].unwrap()));
    [first.map(Option::unwrap), last]
}

#[test]
fn base_rtt_of_full_datagrams() {
    for (rate, warns) in [(Rate::mbps(100), true), (Rate::gbps(1), false)] {
        let full = takes(rate, 1_472);
        let least = full + takes(rate, PONG_BYTES);
        let [opened, ended] = learned(rate, Span::ZERO);
        for (rtt, warning) in opened {
            assert!(least <= rtt && rtt <= full + takes(rate, ACCEPT_BYTES), "{rate}: {rtt}");
            assert_eq!(warning.is_some(), warns, "{rate}: {warning:?}");
        }
        for (rtt, warning) in ended {
            assert_eq!((rtt, warning.is_some()), (least, warns), "{rate}: {warning:?}");
        }
    }
}

/// The time that a peer holds a ping is not known.
#[test]
fn base_rtt_excludes_hold_time() {
    let (rate, held) = (Rate::gbps(1), Span::us(5));
    let least = takes(rate, 1_472) + takes(rate, PONG_BYTES);
    let [opened, ended] = learned(rate, held);
    for (rtt, _) in opened {
        assert!(rtt < least + held + takes(rate, ACCEPT_BYTES), "{rtt}");
    }
    for (rtt, _) in ended {
        assert_eq!(rtt, least + held);
    }
}

/// An acknowledgement contains the departure time, corrected by the time that the packet was held.
#[test]
fn packet_rtt_excludes_hold_time() {
    let protocol = Protocol::named("swift").unwrap();
    let config = Config::new(protocol.stack(), Key::new(b"key"), Rate::gbps(10));
    let mut nodes = [1, 2].map(|seed| Node::new(config.clone(), entropy(seed, 0)).unwrap());
    let (mut now, mut out, held) = (Time::ms(1), vec![0; 2_048], Span::us(7));
    let peer = nodes[0].connect(now, address(1)).unwrap();
    nodes[0].send(now, peer, &[], Bytes::from_static(b"one packet"), Terms::default()).unwrap();
    let mut sent_at = [Time::ZERO; 2];
    for _ in 0..20 {
        for from in [0, 1] {
            let mut landed = Vec::new();
            while let Some(departure) = nodes[from].transmit(now, &mut out) {
                let bytes = out[..departure.bytes].to_vec();
                let mut packet = Packet::default();
                if protocol.parse(&bytes, packet.as_mut()).is_ok() {
                    assert_eq!(sent_at[from], Time::ZERO, "one packet, and one answer");
                    sent_at[from] = packet.body.sent_at;
                }
                landed.push(bytes);
            }
            now += Span::us(10);
            for mut bytes in landed {
                let arrival =
                    Arrival { from: address(from as u8), tos: 0, held, bytes: &mut bytes };
                nodes[1 - from].receive(now, arrival);
            }
        }
    }
    assert!(sent_at[0] > Time::ZERO);
    assert_eq!(sent_at[1], sent_at[0] + held);
}

/// A node with an established session and messages to send.
fn busy(config: Config, messages: usize, bytes: usize) -> ([Node; 2], Time) {
    let mut nodes = [1, 2].map(|seed| Node::new(config.clone(), entropy(seed, 0)).unwrap());
    let mut now = Time::ms(1);
    let peer = nodes[0].connect(now, address(1)).unwrap();
    (0..30).for_each(|_| now = exchange(&mut nodes, now));
    for _ in 0..messages {
        let body = Bytes::from(vec![7; bytes]);
        nodes[0].send(now, peer, &[], body, Terms::default()).unwrap();
    }
    (nodes, now)
}

/// Delivers all datagrams that both send now, ten microseconds later.
fn exchange(nodes: &mut [Node; 2], now: Time) -> Time {
    let mut out = vec![0; 2_048];
    let mut landed = Vec::new();
    for (from, node) in nodes.iter_mut().enumerate() {
        if node.deadline() <= now {
            node.on_deadline(now);
        }
        while let Some(departure) = node.transmit(now, &mut out) {
            landed.push((from, out[..departure.bytes].to_vec()));
        }
    }
    let now = now + Span::us(10);
    for (from, mut bytes) in landed {
        let (from, held) = (address(from as u8), Span::ZERO);
        let arrival = Arrival { from, tos: 0, held, bytes: &mut bytes };
        nodes[usize::from(from == address(0))].receive(now, arrival);
    }
    now
}

#[test]
fn burst_length() {
    let stack = Protocol::named("reno").unwrap().stack();
    let (rate, burst) = (Rate::gbps(1), Span::us(50));
    let config = Config { burst, ..Config::new(stack, Key::new(b"key"), rate) };
    let ([mut node, _], now) = busy(config, 1, 1_000_000);
    let mut out = vec![0; 2_048];
    let mut most =
        |at: Time| (0..100).take_while(|_| node.transmit(at, &mut out).is_some()).count();
    // A packet takes 12.3 us; the last packet of a burst is sent completely.
    assert_eq!(most(now), 5);
    assert_eq!(most(now + Span::us(5)), 0);
    assert_eq!(most(now + Span::us(25)), 2);
}

/// After a full burst, datagrams follow together, and never so late that the link is idle.
#[test]
fn full_burst_is_followed_by_a_batch() {
    let stack = Protocol::named("reno").unwrap().stack();
    let (rate, burst, batch) = (Rate::gbps(1), Span::us(50), Span::us(30));
    let config = Config { burst, batch, ..Config::new(stack, Key::new(b"key"), rate) };
    let ([mut node, _], now) = busy(config, 1, 1_000_000);
    let mut out = vec![0; 2_048];
    let mut most = |node: &mut Node, at| {
        (0..100).take_while(|_| node.transmit(at, &mut out).is_some()).count()
    };
    // Five packets of 12.3 us are sent 61.5 us ahead, and the next ones 20 us before that ends.
    assert_eq!(most(&mut node, now), 5);
    assert_eq!(most(&mut node, now + Span::us(40)), 0);
    let due = node.deadline();
    assert!((Span::us(41)..=Span::us(42)).contains(&due.since(now)), "{due:?}");
    assert_eq!(most(&mut node, due), 3);
    assert_eq!(most(&mut node, due + Span::us(20)), 0);
}

/// While the link still sends a full burst, a node reads acknowledgements at once, and sends its
/// own ones first in the next batch.
#[test]
fn acknowledgements_do_not_wait_for_a_later_burst() {
    let stack = Protocol::named("reno").unwrap().stack();
    let (rate, burst, batch) = (Rate::gbps(1), Span::us(50), Span::us(30));
    let config = Config { burst, batch, ..Config::new(stack, Key::new(b"key"), rate) };
    let mut out = vec![0; 2_048];
    let mut sent = |node: &mut Node, at| {
        let all = std::iter::from_fn(|| {
            let bytes = node.transmit(at, &mut out)?.bytes;
            Some(out[..bytes].to_vec())
        });
        all.take(100).collect::<Vec<_>>()
    };
    let receive = |node: &mut Node, from, at, datagrams: Vec<Vec<u8>>| {
        for mut bytes in datagrams {
            let from = address(from);
            node.receive(at, Arrival { from, tos: 0, held: Span::ZERO, bytes: &mut bytes });
        }
    };
    let events = |node: &mut Node| std::iter::from_fn(|| node.event()).collect::<Vec<_>>();
    let is_delivered = |all: &[Event]| all.iter().any(|one| matches!(one, Event::Delivered(_)));

    // A message is one full burst. Its acknowledgements arrive when the link has sent a sixth.
    let ([mut node, mut peer], now) = busy(config.clone(), 1, 6_500);
    let data = sent(&mut node, now);
    assert_eq!(data.len(), 5);
    let at = now + Span::us(10);
    receive(&mut peer, 0, at, data);
    let acks = sent(&mut peer, at);
    receive(&mut node, 1, at, acks);
    assert!(sent(&mut node, at).is_empty(), "the burst is full");
    assert!(is_delivered(&events(&mut node)), "read before the link is free");

    // The acknowledgement of the peer's message is behind a full burst of a long message.
    let ([mut node, mut peer], now) = busy(config, 1, 1_000_000);
    assert_eq!(sent(&mut node, now).len(), 5);
    let Some(Event::Opened(back)) = peer.event() else { panic!("no session") };
    let body = Bytes::from_static(b"one packet");
    peer.send(now, back, &[], body, Terms::default()).unwrap();
    let asked = sent(&mut peer, now);
    let at = now + Span::us(10);
    receive(&mut node, 1, at, asked);
    assert!(sent(&mut node, at).is_empty(), "the burst is full");
    // 61.5 us of the burst, less the 20 us that may still be sent ahead.
    let due = node.deadline();
    assert!(due <= now + Span::us(42), "{due:?}");
    let first = sent(&mut node, due).into_iter().take(1).collect();
    receive(&mut peer, 0, due, first);
    assert!(is_delivered(&events(&mut peer)), "the acknowledgement is the first of the batch");
}

#[test]
fn batch_is_at_most_the_burst() {
    let stack = Protocol::named("reno").unwrap().stack();
    let (burst, batch) = (Span::us(50), Span::us(51));
    let config = Config { burst, batch, ..Config::new(stack, Key::new(b"key"), Rate::gbps(1)) };
    let error = Node::new(config.clone(), entropy(1, 0)).err().unwrap().to_string();
    assert_eq!(error, "batch: found 51us, expected at most 50us, the burst");
    assert!(Node::new(Config { batch: burst, ..config }, entropy(1, 0)).is_ok());
}

#[test]
fn limit_is_sent_without_request() {
    let stack = Protocol::named("reno").unwrap().stack();
    let mut config = Config::new(stack, Key::new(b"key"), Rate::gbps(10));
    (config.limits.message_bytes, config.limits.unread_bytes) = (10_000, 20_000);
    let (mut nodes, mut now) = busy(config, 20, 10_000);
    let (begun, mut arrived) = (now, 0);
    while arrived < 20 {
        now = exchange(&mut nodes, now);
        while let Some(event) = nodes[1].event() {
            if let Event::Arrived(peer, bytes) = event {
                nodes[1].consumed(now, peer, bytes.len() as u64);
                arrived += 1;
            }
        }
        // A blocked node asks every 20 ms.
        assert!(now < begun + Span::ms(15), "{arrived} messages");
    }
}

/// Two idle nodes whose clocks leap: neither session ends.
fn idle(leap: Span) {
    let stack = Protocol::named("reno").unwrap().stack();
    let mut config = Config::new(stack, Key::new(b"key"), Rate::gbps(1));
    config.limits.silence = Span::ms(100);
    let (mut nodes, begun) = busy(config, 0, 0);
    let mut now = begun + leap;
    while now < begun + leap + Span::s(1) {
        now = exchange(&mut nodes, now);
        let due = nodes.iter().map(Node::deadline).min().unwrap();
        now = now.max(due);
    }
    for node in &mut nodes {
        assert!(matches!(node.event(), Some(Event::Opened(_))));
        assert_eq!(node.event(), None);
    }
}

#[test]
fn idle_session_stays_open() {
    idle(Span::ZERO);
}

#[test]
fn clock_leap_is_not_silence() {
    idle(Span::s(10));
}

/// The base RTT is the minimum of several round trips: a delay of the handshake does not affect it,
/// nor does a delay of most pings. Messages wait for the measurement.
#[test]
fn base_rtt_is_a_minimum_of_round_trips() {
    let stack = Protocol::named("swift").unwrap().stack();
    let base = Config::new(stack, Key::new(b"key"), Rate::gbps(1));
    let base_rtts = |config: &Config, slow: &dyn Fn(usize) -> bool| {
        let mut nodes = [1, 2].map(|seed| Node::new(config.clone(), entropy(seed, 0)).unwrap());
        let mut now = Time::ms(1);
        let peer = nodes[0].connect(now, address(1)).unwrap();
        let body = Bytes::from_static(b"one packet");
        nodes[0].send(now, peer, &[], body, Terms::default()).unwrap();
        let (mut steps, mut measured) = (0, None);
        loop {
            now += if slow(steps) { Span::ms(5) } else { Span::ZERO };
            now = exchange(&mut nodes, now);
            measured = measured.or_else(|| nodes[0].has_measured(peer).then_some(steps));
            steps += 1;
            let mut events = std::iter::from_fn(|| nodes[1].event());
            if events.any(|event| matches!(event, Event::Arrived(..))) {
                let used = nodes.each_ref().map(|node| node.used_base_rtt().unwrap());
                return (used, measured.unwrap(), steps);
            }
            assert!(steps < 100, "no message arrived");
        }
    };
    let (quiet, measured, arrived) = base_rtts(&base, &|_| false);
    assert!(measured < arrived && quiet[0] < Span::us(100), "{quiet:?} {measured} {arrived}");
    // Only two of the round trips are quick.
    let (busy, ..) = base_rtts(&base, &|step| step < 10);
    assert_eq!(busy, quiet);
    let set = Config { base_rtt: Some(Span::us(70)), ..base };
    let (used, measured, arrived) = base_rtts(&set, &|_| true);
    assert_eq!(used, [Span::us(70); 2]);
    assert!(measured < 4 && arrived < 6, "no measurement: {measured}, {arrived}");
}
