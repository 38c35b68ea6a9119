//! Trimmed datagrams: their headers reach the transport, messages arrive once, and hostile ones do
//! no harm.

use std::collections::VecDeque;
use std::net::SocketAddr;

use bytes::Bytes;
use tidegate_algos::Protocol;
use tidegate_core::params::Value;
use tidegate_core::wire::forwarding;
use tidegate_core::{Need, Rate, Span, Time};
use tidegate_endpoint::node::{Arrival, CloseReason, Config, Event, Node, Terms};
use tidegate_endpoint::session::Key;

use crate::common::entropy;

/// Types of service of datagrams that were trimmed in the core and at the last hop.
const CORE: u8 = 0xfc;
const LAST_HOP: u8 = 0xdc;
const ONE_WAY: Span = Span::us(20);
const LENGTH: usize = 200_000;

fn config(protocol: &str) -> Config {
    Config {
        datagram: 1_200,
        priorities: 8,
        switches: Need::ALL.into(),
        ..Config::new(Protocol::named(protocol).unwrap().stack(), Key::new(b"key"), Rate::gbps(1))
    }
}

fn address(host: usize) -> SocketAddr {
    SocketAddr::from(([10, 0, 0, host as u8], 1))
}

/// A datagram with its type of service.
type Sent = (u8, Vec<u8>);

/// Two nodes and the datagrams in flight: arrival time, destination, datagram.
struct Pair {
    nodes: [Node; 2],
    now: Time,
    wires: VecDeque<(Time, usize, Sent)>,
    arrived: Vec<Vec<u8>>,
    delivered: u32,
    closed: Vec<CloseReason>,
}

/// The bytes of the only message.
fn message() -> Vec<u8> {
    (0..LENGTH).map(|byte| (byte / 7) as u8).collect()
}

/// The bytes that a trimmed datagram keeps at least; `None` if it must not be trimmed.
fn kept(datagram: &[u8]) -> Option<usize> {
    forwarding::read(datagram)?.kept_bytes
}

fn trimmed((_, mut bytes): Sent, tos: u8) -> Sent {
    bytes.truncate(kept(&bytes).unwrap());
    (tos, bytes)
}

impl Pair {
    fn new(configs: [Config; 2]) -> Pair {
        let [one, other] = configs;
        let nodes =
            [Node::new(one, entropy(1, 1)).unwrap(), Node::new(other, entropy(2, 1)).unwrap()];
        let mut pair = Pair {
            nodes,
            now: Time::ms(1),
            wires: VecDeque::new(),
            arrived: Vec::new(),
            delivered: 0,
            closed: Vec::new(),
        };
        let peer = pair.nodes[0].connect(pair.now, address(1)).unwrap();
        let body = Bytes::from(message());
        pair.nodes[0].send(pair.now, peer, &[], body, Terms::default()).unwrap();
        pair
    }

    /// Runs until the message is acknowledged, or a session ends. `network` returns what arrives
    /// of a datagram of host 0.
    fn run(&mut self, mut network: impl FnMut(Sent) -> Vec<Sent>) {
        let mut out = vec![0; 2_048];
        let end = self.now + Span::s(20);
        while self.now < end {
            for from in 0..2 {
                while let Some(departure) = self.nodes[from].transmit(self.now, &mut out) {
                    let sent = (departure.tos, out[..departure.bytes].to_vec());
                    let sent = if from == 0 { network(sent) } else { vec![sent] };
                    let arrival = |sent| (self.now + ONE_WAY, 1 - from, sent);
                    self.wires.extend(sent.into_iter().map(arrival));
                }
                while let Some(event) = self.nodes[from].event() {
                    match event {
                        Event::Arrived(_, bytes) => self.arrived.push(bytes),
                        Event::Delivered(_) => self.delivered += 1,
                        Event::Closed(_, why) => self.closed.push(why),
                        _ => {}
                    }
                }
            }
            if self.delivered > 0 || !self.closed.is_empty() {
                break;
            }
            let next = self.nodes.iter().map(Node::deadline).min().unwrap();
            let next = self.wires.front().map_or(next, |wire| wire.0.min(next));
            self.now = next.max(self.now + Span::ps(1)).min(end);
            while let Some((_, to, (tos, mut bytes))) =
                self.wires.pop_front_if(|wire| wire.0 <= self.now)
            {
                let from = address(1 - to);
                let arrival = Arrival { from, tos, held: Span::ZERO, bytes: &mut bytes };
                self.nodes[to].receive(self.now, arrival);
            }
            self.nodes.iter_mut().for_each(|node| node.on_deadline(self.now));
        }
        assert_eq!((self.arrived.len(), self.delivered), (1, 1), "{:?}", self.closed);
        assert!(self.arrived[0] == message());
    }
}

/// Receivers ask for trimmed packets again: no timeout passes.
#[test]
fn trimmed_packets_are_sent_again_at_once() {
    for protocol in ["nscc", "rccc", "nscc-rccc", "eqds", "ndp"] {
        for tos in [CORE, LAST_HOP] {
            let mut pair = Pair::new([config(protocol), config(protocol)]);
            let (mut number, mut trims) = (0, 0);
            pair.run(|sent| {
                let Some(kept) = kept(&sent.1) else { return vec![sent] };
                number += 1;
                if number % 3 != 0 {
                    return vec![sent];
                }
                trims += 1;
                // A switch may leave bytes behind the headers.
                let mut left = trimmed(sent.clone(), tos);
                left.1.extend_from_slice(&sent.1[kept..kept + number % 20]);
                vec![left]
            });
            let counters = pair.nodes[1].counters();
            assert!(trims > 50 && counters.trimmed == trims, "{protocol}: {counters:?}");
            let refused = [counters.malformed, counters.forged, counters.old];
            assert_eq!(refused, [0; 3], "{protocol}");
            // 200 KB take 1.9 ms at 1 Gbit/s, a half more with these losses. RCCC reduces its rate
            // if packets are trimmed in the core.
            let took = pair.now.since(Time::ms(1));
            assert!(tos == CORE || took < Span::ms(15), "{protocol}: {took}");
        }
    }
}

/// Other protocols treat trimmed packets as lost.
#[test]
fn trimmed_packets_of_all_protocols_are_losses() {
    for protocol in Protocol::ALL {
        let name = protocol.info().name;
        let mut config = config(name);
        config.base_rtt = Some(Span::us(50));
        let mut pair = Pair::new([config.clone(), config]);
        let mut number = 0;
        pair.run(|sent| {
            number += u32::from(kept(&sent.1).is_some());
            let is_trimmed = number.is_multiple_of(10) && kept(&sent.1).is_some();
            vec![if is_trimmed { trimmed(sent, LAST_HOP) } else { sent }]
        });
        assert!(pair.nodes[1].counters().trimmed > 10, "{name}");
    }
}

#[test]
fn forged_and_cut_headers_are_refused() {
    let mut pair = Pair::new([config("nscc"), config("nscc")]);
    let mut hostile: u64 = 0;
    pair.run(|sent| {
        let Some(kept) = kept(&sent.1) else { return vec![sent] };
        let (_, headers) = trimmed(sent.clone(), LAST_HOP);
        let mut all = Vec::new();
        // Every byte of the headers, and every shorter length, in turn.
        let at = hostile as usize / 2 % kept;
        let mut other = headers.clone();
        other[at] ^= 1 << (hostile % 8);
        // Another kind of datagram is not what this test is about.
        if at != 1 {
            all.push((LAST_HOP, other));
        } else {
            all.push((LAST_HOP, headers[..1].to_vec()));
        }
        all.push((LAST_HOP, headers[..at].to_vec()));
        // Without the code point, headers alone are no packet.
        all.push((0, headers));
        hostile += 2;
        all.push(sent);
        all
    });
    let counters = pair.nodes[1].counters();
    assert!(hostile > 250, "{hostile}");
    assert_eq!(counters.trimmed, 0, "{counters:?}");
    // Another packet number may be too old.
    let refused = counters.malformed + counters.forged + counters.unknown_session + counters.old;
    assert_eq!(refused, hostile / 2 * 3, "{counters:?}");
}

/// A datagram and its headers are one packet: whichever comes second is a replay.
#[test]
fn replays_of_trimmed_packets_are_refused() {
    let mut pair = Pair::new([config("nscc"), config("nscc")]);
    let (mut number, mut first) = (0, 0);
    pair.run(|sent| {
        if kept(&sent.1).is_none() {
            return vec![sent];
        }
        number += 1;
        let headers = trimmed(sent.clone(), LAST_HOP);
        if number % 4 == 0 {
            first += 1;
            vec![headers.clone(), headers, sent]
        } else {
            vec![sent, headers.clone(), headers]
        }
    });
    let counters = pair.nodes[1].counters();
    assert_eq!((counters.trimmed, counters.old), (first, 2 * number), "{counters:?}");
    assert!(first > 40);
}

#[test]
fn both_sides_declare_trimming() {
    let mut without = config("swift");
    without.switches.retain(|need| *need != Need::Trimming);
    without.datagram -= 20;
    let mut pair = Pair::new([config("swift"), without]);
    let failed =
        std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| pair.run(|sent| vec![sent])));
    assert!(failed.is_err());
    assert_eq!(pair.closed, [CloseReason::OtherParameters]);
}

/// Packets of one connection have many entropies. Acknowledgements return them: only then does
/// REPS use few of them again and again.
#[test]
fn entropies_are_on_the_wire() {
    let mut config = config("swift");
    config.switches.retain(|need| *need != Need::Trimming);
    for (multipath, expected) in [("oblivious", 32..256), ("reps", 2..32), ("off", 0..1)] {
        config.stack.set("multipath", Value::Choice(multipath)).unwrap();
        let mut pair = Pair::new([config.clone(), config.clone()]);
        let mut seen = std::collections::BTreeSet::new();
        let mut packets = 0;
        pair.run(|sent| {
            if let Some(fields) = forwarding::read(&sent.1) {
                assert_eq!(fields.kept_bytes, None, "nothing declares trimming");
                seen.insert(fields.entropy);
                packets += 1;
            }
            vec![sent]
        });
        assert!(expected.contains(&seen.len()), "{multipath}: {} of {packets}", seen.len());
    }
}
