//! Robustness of transports against arbitrary packets in any order at any time.

use std::collections::BTreeMap;

use tidegate_algos::Protocol;
use tidegate_core::{
    Application, ConnectionPolicy, Frame, HostContext, MIN_WIRE_BYTES, Message, MessageId,
    PacketSizes, Path, PathOracle, Rate, Role, Span, Time,
};

use crate::endpoint::{Endpoint, Packet};
use crate::script::Script;

/// Maximum number of packets at one time, beyond those that the rate permits since the start; more
/// count as an endless loop. A forged grant may cover 2²⁰ packets of each of several messages.
const MOST_AT_ONCE: u64 = 1 << 24;

/// Counts the reports of the transport.
#[derive(Default)]
struct Reports {
    delivered: BTreeMap<MessageId, u64>,
    acked: BTreeMap<MessageId, u32>,
    /// Destinations of its messages by number; `None` for forgotten ones.
    to: Vec<Option<u32>>,
}

impl Application for Reports {
    fn delivered(&mut self, _now: Time, message: MessageId, _offset: u64, bytes: u32) {
        *self.delivered.entry(message).or_default() += bytes as u64;
    }
    fn completed(&mut self, _now: Time, _message: MessageId) {}
    fn acked(&mut self, _now: Time, message: MessageId) {
        *self.acked.entry(message).or_default() += 1;
        let is_over = self.to.get(message.id as usize) == Some(&None);
        assert!(!is_over, "acknowledged after it was forgotten: {message:?}");
    }
}

struct FixedPath;

impl PathOracle for FixedPath {
    fn path(&self, _src: u32, _dst: u32) -> Path {
        Path {
            base_rtt: Span::us(6),
            fabric_base_rtt: Span::us(8),
            nic_rate: Rate::gbps(100),
            bottleneck_rate: Rate::gbps(100),
            bdp_bytes: 100_000.0,
            mtu: 1_000,
            full_wire_bytes: 1_080,
            hops: 3,
        }
    }
}

/// Runs a transport under a script: submissions, echoed, modified and forged packets,
/// transmissions, deadlines, leaps of time, and removed peers.
///
/// # Panics
///
/// If the transport panics, sends an invalid packet, does not become idle, reports a message as
/// acknowledged twice or after it was forgotten, or still has work when it has forgotten all peers.
pub fn stress(protocol: Protocol, script: &[u8]) {
    let host = HostContext {
        host: 0,
        hosts: 4,
        seed: 1,
        mtu: 1_000,
        nic_rate: Rate::gbps(100),
        fabric_base_rtt: Span::us(8),
        fabric_control_rtt: Span::us(8),
        sizes: PacketSizes::STANDARD,
        bdp_bytes: 100_000.0,
        connections: [
            ConnectionPolicy::PerPair,
            ConnectionPolicy::PerMessage,
            ConnectionPolicy::Pool(2),
        ][script.len() % 3],
        spraying: script.len().is_multiple_of(2),
        priorities: 1 + (script.len() % 8) as u8,
        most_held: Span::ZERO,
    };
    let mut script = Script::new(script);
    let mut endpoint = Endpoint::new(&protocol.stack(), &host);
    let mut reports = Reports::default();
    let mut now = Time::us(1);
    let mut last = Packet::default();
    while !script.is_over() {
        match script.u8() % 9 {
            0 => {
                let bytes = script.number().clamp(1, 1 << 40);
                let dst = 1 + script.u8() as u32 % 3;
                let message = Message {
                    id: reports.to.len() as u32,
                    dst,
                    bytes,
                    dedicated: script.u8().is_multiple_of(2),
                    weight: script.u8() % 40,
                    role: Role::Alone,
                };
                reports.to.push(Some(dst));
                endpoint.submit(now, message, &FixedPath);
            }
            1 => now = now.after(Span::ps(script.number() % Span::ms(1).as_ps())),
            2 | 3 => {
                for _ in 0..=script.u8() {
                    let Some(packet) = endpoint.transmit(now) else { break };
                    assert!(packet.frame.wire_bytes as u32 >= MIN_WIRE_BYTES, "{:?}", packet.frame);
                    assert!(packet.frame.dst < host.hosts, "{:?}", packet.frame);
                    last = packet;
                    now = now.after(Span::ns(90));
                }
            }
            4 => endpoint.on_deadline(now, &mut reports),
            5 => endpoint.receive(now, echoed(last, &mut script), &mut reports),
            6 => endpoint.receive(now, mutated(last, &mut script), &mut reports),
            7 => forget(&mut endpoint, now, script.number() as u32, &mut reports),
            _ => endpoint.receive(now, mutated(Packet::default(), &mut script), &mut reports),
        }
        assert!(
            reports.acked.values().all(|&times| times == 1),
            "acknowledged twice: {:?}",
            reports.acked
        );
    }
    let most = MOST_AT_ONCE + host.nic_rate.bytes_in(now.since(Time::ZERO)) / MIN_WIRE_BYTES as u64;
    let rest = (0..most).find(|_| endpoint.transmit(now).is_none());
    assert!(rest.is_some(), "{}: more than {most} packets at one moment", protocol.info().name);
    (0..host.hosts).for_each(|peer| forget(&mut endpoint, now, peer, &mut reports));
    assert_eq!(endpoint.transmit(now), None, "{} has no peers", protocol.info().name);
    assert_eq!(endpoint.deadline(), Time::NEVER, "{} has no peers", protocol.info().name);
}

fn forget(endpoint: &mut Endpoint, now: Time, peer: u32, reports: &mut Reports) {
    endpoint.forget(now, peer);
    reports.to.iter_mut().filter(|to| **to == Some(peer)).for_each(|to| *to = None);
}

/// The packet as an echo to its own sender, as if the peer had the same host number.
pub(crate) fn echoed(packet: Packet, script: &mut Script<'_>) -> Packet {
    let mut echo = packet;
    echo.body.src = packet.frame.dst;
    echo.body.tag = script.u8() % 24;
    // One of its words, or a nearby number, replaces another word.
    let (from, to) = (script.u8() as usize, script.u8() as usize);
    let near = packet.body.words[from % 5].wrapping_add(script.u8() as u64 % 3);
    echo.body.words[to % 5] = near;
    echo.frame = Frame { dst: 0, ..packet.frame };
    echo
}

/// The packet with a few fields changed.
pub(crate) fn mutated(mut packet: Packet, script: &mut Script<'_>) -> Packet {
    packet.frame.dst = 0;
    for _ in 0..1 + script.u8() % 6 {
        let field = script.u8() % 18;
        let value = script.number();
        let body = &mut packet.body;
        match field {
            0 => body.tag = value as u8,
            1 => body.is_retransmission = value.is_multiple_of(2),
            2 => body.src = value as u32,
            3 => body.payload_bytes = value as u32,
            4 => body.message = value as u32,
            5 => body.sent_at = Time::ps(value),
            6..11 => body.words[field as usize - 6] = value,
            // Half of a word: many words hold two numbers.
            11..16 => {
                let (word, half) = (&mut body.words[field as usize - 11], u32::MAX as u64);
                *word = match script.u8() % 2 {
                    0 => value << 32 | *word & half,
                    _ => *word & !half | value & half,
                };
            }
            16 => packet.frame.flags = value as u8,
            _ => packet.frame.peak_hop_delay = Span::ps(value),
        }
    }
    packet
}
