//! Headers as bytes: packets of transports survive the round trip, and other bytes are refused.

use proptest::prelude::*;
use tidegate_algos::Protocol;
use tidegate_core::wire::{HeaderError, Kind, MAX_HEADER_BYTES, telemetry};
use tidegate_core::{Hop, Rate, Span, Time, frame_flag};
use tidegate_endpoint::{Packet, datagram};

/// Writes the headers of a packet, followed by payload.
fn bytes(protocol: Protocol, packet: &Packet) -> Vec<u8> {
    let mut bytes = vec![0xaa; 2 * MAX_HEADER_BYTES];
    let headers = protocol.emit(&packet.frame, &packet.body, &packet.hops, &mut bytes).unwrap();
    bytes.resize(headers + packet.body.payload_bytes as usize, 0);
    bytes
}

fn parsed(protocol: Protocol, bytes: &[u8]) -> Result<Packet, HeaderError> {
    let mut packet = Packet::default();
    protocol.parse(bytes, packet.as_mut()).map(|_| packet)
}

/// A packet reduced to the fields that its headers contain.
fn in_headers(packet: &Packet) -> Packet {
    let stamps = frame_flag::STAMP_PEAK | frame_flag::STAMP_HOPS;
    let mut seen = Packet { body: packet.body, hops: packet.hops, ..Packet::default() };
    (seen.body.src, seen.body.transport) = (0, 0);
    seen.frame.flags = packet.frame.flags & stamps;
    seen.frame.peak_hop_delay = packet.frame.peak_hop_delay;
    seen
}

/// An endless sequence of mostly small numbers.
struct Numbers<'a>(std::iter::Cycle<std::slice::Iter<'a, u64>>);

impl Numbers<'_> {
    fn next(&mut self) -> u64 {
        self.0.next().copied().unwrap_or(0)
    }
}

/// A packet of any kind, filled with numbers.
fn packet(protocol: Protocol, numbers: &[u64]) -> Packet {
    let mut numbers = Numbers(numbers.iter().cycle());
    let mut any = || numbers.next();
    let mut packet = Packet::default();
    packet.body.tag = any() as u8;
    packet.body.is_retransmission = any() % 2 == 1;
    packet.body.message = any() as u32;
    packet.body.payload_bytes = any() as u32 % 9_000;
    packet.body.sent_at = Time::ps(any());
    packet.body.words = std::array::from_fn(|_| any() ^ any() << 32);
    if any() % 2 == 1 {
        packet.frame.flags |= frame_flag::STAMP_PEAK;
        packet.frame.peak_hop_delay = Span::ps(any());
    }
    if any() % 2 == 1 {
        packet.frame.flags |= frame_flag::STAMP_HOPS;
    }
    for _ in 0..any() % 10 {
        packet.hops.push(Hop {
            at: Time::ps(any()),
            tx_bytes: any(),
            rate: Rate::bps(any()),
            queue_bytes: any() as u32,
            port: any() as u32,
        });
    }
    let mut room = [0; 3 * MAX_HEADER_BYTES];
    if protocol.emit(&packet.frame, &packet.body, &packet.hops, &mut room).is_err() {
        packet.body.tag = 0;
    }
    packet
}

/// Numbers near zero, near the maximum, and others.
fn numbers() -> impl Strategy<Value = Vec<u64>> {
    let number = prop_oneof![0..8u64, 0..100_000u64, u64::MAX - 3..=u64::MAX, any::<u64>()];
    prop::collection::vec(number, 40)
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 5_000,
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    #[test]
    fn packet_round_trip(protocol in 0..Protocol::ALL.len(), numbers in numbers()) {
        let protocol = Protocol::ALL[protocol];
        let first = packet(protocol, &numbers);
        // A kind uses only some of the words; only those are restored.
        let once = parsed(protocol, &bytes(protocol, &first)).unwrap();
        let twice = parsed(protocol, &bytes(protocol, &once)).unwrap();
        prop_assert_eq!(once, twice);
        prop_assert_eq!(bytes(protocol, &first), bytes(protocol, &once));
        prop_assert_eq!((once.frame, once.hops), (in_headers(&first).frame, first.hops));
        prop_assert_eq!(once.body.message, first.body.message);
        datagram(protocol, &bytes(protocol, &first));
    }

    #[test]
    fn any_bytes(
        protocol in 0..Protocol::ALL.len(),
        bytes in prop::collection::vec(any::<u8>(), 0..80)
    ) {
        datagram(Protocol::ALL[protocol], &bytes);
    }

    #[test]
    fn packet_with_one_changed_byte(
        protocol in 0..Protocol::ALL.len(),
        numbers in numbers(),
        place in any::<prop::sample::Index>(),
        other in any::<u8>()
    ) {
        let protocol = Protocol::ALL[protocol];
        let mut bytes = bytes(protocol, &packet(protocol, &numbers));
        let place = place.index(bytes.len().min(MAX_HEADER_BYTES));
        bytes[place] = other;
        datagram(protocol, &bytes);
    }
}

/// All kinds of headers, with their protocols.
fn kinds() -> Vec<(Protocol, &'static Kind)> {
    let of = |protocol: &Protocol| {
        let kinds = protocol.headers().kinds.iter().chain(telemetry::FORMAT.kinds);
        let protocol = *protocol;
        kinds.map(move |kind| (protocol, kind)).collect::<Vec<_>>()
    };
    Protocol::ALL.iter().flat_map(of).collect()
}

#[test]
fn header_errors() {
    for (protocol, kind) in kinds() {
        let words =
            |kind: &Kind| 1 + kind.fields.iter().map(|field| field.bytes).sum::<usize>() / 4;
        let first = &protocol.headers().kinds[0];
        let own = protocol.headers().version;
        let is_telemetry = kind.number >= telemetry::FIRST_KIND;
        // The headers of telemetry have a version of their own.
        let version = if is_telemetry { 1 } else { own };
        let mut bytes = vec![0; 4 * words(kind)];
        bytes[..4].copy_from_slice(&[version, kind.number, 0, words(kind) as u8]);
        if is_telemetry {
            let start = bytes.len();
            bytes.resize(start + 4 * words(first), 0);
            bytes[start..start + 4].copy_from_slice(&[own, first.number, 0, words(first) as u8]);
        }
        let name = protocol.info().name;
        assert!(parsed(protocol, &bytes).is_ok(), "{name}, {}", kind.name);
        let with = |place: usize, value: u8| {
            let mut bytes = bytes.clone();
            bytes[place] = value;
            parsed(protocol, &bytes).unwrap_err()
        };
        let number = kind.number;
        let found = version + 1;
        assert_eq!(with(0, found), HeaderError::Version { found, known: version });
        // A kind selects the version to compare with.
        let kind_or_version = |kind: u8, known: u8| match version == known {
            true => HeaderError::Kind(kind),
            false => HeaderError::Version { found: version, known },
        };
        assert_eq!(with(1, 0x3f), kind_or_version(0x3f, own));
        assert_eq!(with(1, 0x7f), kind_or_version(0x7f, 1));
        let unknown = 1 << kind.flags.len();
        assert_eq!(with(2, unknown), HeaderError::Flags { kind: number, unknown });
        assert_eq!(with(3, 0), HeaderError::Length { kind: number, found: 0 });
        assert!(
            matches!(with(3, 255), HeaderError::Short { needed: 1020, .. }),
            "{name}, {}",
            kind.name
        );
        bytes.resize(2_000, 0);
        let longer = words(kind) as u8 + 1;
        let mut bytes = bytes.clone();
        bytes[3] = longer;
        let found = 4 * longer as usize;
        assert_eq!(
            parsed(protocol, &bytes).unwrap_err(),
            HeaderError::Length { kind: number, found }
        );
    }
}

#[test]
fn invalid_telemetry_is_refused() {
    let protocol = Protocol::ALL[0];
    let peak = [1, telemetry::FIRST_KIND, 0, 3, 0, 0, 0, 0, 0, 0, 0, 7];
    let twice = [peak, peak].concat();
    assert_eq!(parsed(protocol, &twice).unwrap_err(), HeaderError::Order(telemetry::FIRST_KIND));
    let kind = telemetry::FIRST_KIND + 1;
    let behind = [&[1, kind, 0, 1][..], &peak].concat();
    assert_eq!(parsed(protocol, &behind).unwrap_err(), HeaderError::Order(telemetry::FIRST_KIND));
    let nothing = HeaderError::Length { kind, found: 4 };
    assert_eq!(parsed(protocol, &[1, kind, 1, 1]).unwrap_err(), nothing);
    let nine = [vec![1, kind, 0, 73], vec![0; 288]].concat();
    let wrong = HeaderError::Length { kind, found: 292 };
    assert_eq!(parsed(protocol, &nine).unwrap_err(), wrong);
}
