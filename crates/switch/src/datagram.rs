//! The fields of a datagram or frame that a switch reads and writes.
//!
//! | field | content |
//! | --- | --- |
//! | DSCP | a class selector: 8 · (7 − priority); lowest three bits 011: a credit, 111: trimmed |
//! | ECN | ECN-capable, and congestion experienced |
//! | telemetry | [headers](tidegate_core::wire::telemetry) before the UDP payload; TCP options |
//! | path entropy, place to cut | [in the header of a session](tidegate_core::wire::forwarding) |
//!
//! A datagram without valid telemetry is forwarded unchanged, and one without a place to cut is
//! never trimmed. DSCPs that end in two ones are for local use (RFC 2474, section 6).
//!
//! A trimmed datagram keeps its first bytes, as many as the size of a trimmed packet allows. If the
//! size is stated at its end, it keeps its headers and the statement.

use tidegate_core::wire::{forwarding, telemetry};
use tidegate_core::{Frame, HopTrace, MIN_WIRE_BYTES, frame_flag, mix64};
use tidegate_sim::Packet;

pub use crate::content::Content;
use crate::ethernet;
use crate::tcp::TcpTelemetry;

/// Bytes of a datagram on the wire in addition to the UDP payload: 8 UDP, 20 IP, 18 Ethernet, 20
/// preamble and gap.
pub const WIRE_OVERHEAD_BYTES: usize = 8 + 20 + 18 + 20;
/// Maximum UDP payload of a packet.
pub const MOST_BYTES: usize = u16::MAX as usize - WIRE_OVERHEAD_BYTES;

const ECN: u8 = 0b11;
/// The bits below the class selector of a DSCP.
const BELOW_CLASS: u8 = 0b111;
/// These bits in credits: local use.
const CREDIT: u8 = 0b011;
/// These bits in trimmed datagrams: local use.
const TRIMMED: u8 = 0b111;
/// Bytes at the end of a datagram that states its size and its path entropy.
const TRAILER_BYTES: usize = 2 + 4;

/// The type of service of a packet: DSCP and ECN.
pub fn tos(frame: &Frame) -> u8 {
    let is = |flag: u8| frame.flags & flag != 0;
    let class = 8 * (7 - frame.priority.min(7));
    let credit = if is(frame_flag::CREDIT) { CREDIT } else { 0 };
    let ecn = match (is(frame_flag::CONGESTION_EXPERIENCED), is(frame_flag::ECN_CAPABLE)) {
        (true, _) => ECN,
        (false, true) => 0b10,
        (false, false) => 0,
    };
    (class | credit) << 2 | ecn
}

/// The type of service of a trimmed packet.
pub fn trimmed_tos(frame: &Frame) -> u8 {
    tos(frame) | TRIMMED << 2
}

/// Whether a datagram with this type of service was trimmed.
pub fn is_trimmed(tos: u8) -> bool {
    tos >> 2 & BELOW_CLASS == TRIMMED
}

/// How a switch reads datagrams.
#[derive(Clone, Copy, Debug)]
pub struct Reader {
    /// Number of priorities; lower classes share the lowest.
    pub priorities: u8,
    /// Whether the switch writes telemetry.
    pub stamps: bool,
    /// Whether each datagram ends with the size that counts on links (two bytes) and the path
    /// entropy (four bytes).
    pub sized: bool,
    /// Whether each datagram takes its own path, regardless of its entropy.
    pub sprays: bool,
    /// Bytes on the wire of a trimmed datagram, if the switches trim. A datagram is never trimmed
    /// if its headers are longer.
    pub trimmed_bytes: Option<u16>,
}

impl<'a> Content<'a> {
    /// A UDP payload with its type of service.
    pub fn datagram(tos: u8, payload: &'a [u8]) -> Content<'a> {
        let (readable, beside) = (payload.len(), WIRE_OVERHEAD_BYTES);
        Content { head: &[], tos, payload, readable, is_segment: false, beside }
    }
}

/// A datagram or frame in the switch.
#[derive(Clone, Debug, Default)]
pub struct Datagram {
    head: Vec<u8>,
    tos: u8,
    bytes: Vec<u8>,
    /// Number of bytes that may contain telemetry.
    readable: usize,
    /// Further bytes on the wire.
    beside: usize,
    /// Whether the bytes are a TCP segment, and its request for telemetry.
    is_segment: bool,
    tcp: Option<TcpTelemetry>,
    /// Telemetry that replaces the first bytes on departure.
    telemetry: Vec<u8>,
    /// Number of replaced bytes.
    replaced: usize,
    /// Number of bytes that it keeps if it is trimmed; 0 if it must not be trimmed.
    kept: usize,
    /// Whether it ends with its size and its path entropy.
    is_sized: bool,
}

impl Datagram {
    /// Sets the content, reusing the memory.
    pub fn fill(&mut self, content: Content<'_>) {
        let Content { head, tos, payload, readable, is_segment, beside } = content;
        (self.tos, self.readable, self.beside) = (tos, readable, beside);
        (self.is_segment, self.tcp) = (is_segment, None);
        self.head.clear();
        self.head.extend_from_slice(head);
        self.bytes.clear();
        self.bytes.extend_from_slice(payload);
        self.telemetry.clear();
        (self.replaced, self.kept) = (0, 0);
    }

    /// Creates packet `number` to a host of the fabric, with path entropy `entropy`; `None` if it
    /// is too long.
    pub fn packet(
        &mut self,
        reader: Reader,
        number: u32,
        host: u32,
        entropy: u32,
    ) -> Option<Packet> {
        let whole = u16::try_from(self.head.len() + self.bytes.len() + self.beside).ok()?;
        let mut wire_bytes = whole;
        let mut own_entropy = None;
        let mut trailer = 0;
        self.is_sized = reader.sized;
        if reader.sized
            && let Some(&[a, b, c, d, e, f]) = self.bytes.last_chunk::<TRAILER_BYTES>()
        {
            wire_bytes = u16::from_be_bytes([a, b]);
            own_entropy = Some(u32::from_be_bytes([c, d, e, f]));
            trailer = TRAILER_BYTES;
        }
        let payload_bytes =
            match forwarding::read(&self.bytes[..self.readable.saturating_sub(trailer)]) {
                None => 0,
                Some(fields) => {
                    // Connections of different hosts may have equal entropies.
                    let both = u64::from(entropy) << 32 | u64::from(fields.entropy);
                    own_entropy = own_entropy.or(Some(mix64(both) as u32));
                    let headers = fields.kept_bytes.unwrap_or(0);
                    self.kept = self.kept_bytes(reader, headers);
                    if self.kept > 0 { (self.readable - trailer - headers) as u32 } else { 0 }
                }
            };
        let entropy = own_entropy.filter(|_| !reader.sprays).unwrap_or(entropy);
        let mut frame = Frame::default();
        let mut hops = HopTrace::default();
        if reader.stamps && self.is_segment {
            self.tcp = TcpTelemetry::find(&self.bytes);
            self.tcp.iter().for_each(|tcp| tcp.request(&self.bytes, &mut frame));
        } else if reader.stamps {
            match telemetry::parse(&self.bytes[..self.readable], &mut frame, &mut hops) {
                Ok(rest) => self.replaced = self.readable - rest.len(),
                Err(_) => (frame, hops) = Default::default(),
            }
        }
        let ecn = self.tos & ECN;
        let set = |on: bool, flag: u8| if on { flag } else { 0 };
        frame.flags |= set(ecn != 0, frame_flag::ECN_CAPABLE)
            | set(ecn == ECN, frame_flag::CONGESTION_EXPERIENCED)
            | set(self.tos >> 2 & BELOW_CLASS == CREDIT, frame_flag::CREDIT);
        (frame.dst, frame.entropy) = (host, entropy);
        frame.wire_bytes = wire_bytes.max(MIN_WIRE_BYTES as u16);
        frame.priority = (7 - (self.tos >> 5)).min(reader.priorities.saturating_sub(1));
        Some(Packet { number, frame, payload_bytes, hops })
    }

    /// Number of bytes that a trimmed datagram with these headers keeps; 0 if it must not be
    /// trimmed.
    fn kept_bytes(&self, reader: Reader, headers: usize) -> usize {
        let Some(trimmed_bytes) = reader.trimmed_bytes.filter(|_| !is_trimmed(self.tos)) else {
            return 0;
        };
        if reader.sized {
            return headers;
        }
        let room = usize::from(trimmed_bytes).saturating_sub(self.head.len() + self.beside);
        if headers > room || headers == 0 { 0 } else { room.min(self.readable) }
    }

    /// Writes the changes that switches have made to its packet into the datagram: marks,
    /// telemetry, and the missing payload.
    pub fn stamp(&mut self, packet: &Packet) {
        let Packet { frame, hops, payload_bytes, .. } = packet;
        let is_trimmed_here = self.kept > 0 && *payload_bytes == 0;
        if is_trimmed_here {
            self.tos = trimmed_tos(frame);
        } else if frame.flags & frame_flag::CONGESTION_EXPERIENCED != 0 {
            self.tos |= ECN;
        }
        let requested = frame.flags & (frame_flag::STAMP_PEAK | frame_flag::STAMP_HOPS);
        if let Some(tcp) = &self.tcp {
            tcp.write(&mut self.bytes, frame.peak_hop_delay, hops.as_slice());
        }
        self.telemetry.resize(telemetry::MOST_BYTES, 0);
        let written = match requested {
            0 => None,
            _ if self.tcp.is_some() => None,
            _ => telemetry::emit(frame, hops, &mut self.telemetry).ok(),
        };
        self.telemetry.truncate(written.unwrap_or(0));
        if written.is_none() {
            self.replaced = 0;
        }
        let (changed, kept) = match is_trimmed_here {
            true => (self.readable, &self.bytes[self.replaced..self.kept]),
            false => (self.replaced, &[][..]),
        };
        let now = [&self.telemetry[..], kept];
        ethernet::rewrite(&mut self.head, self.tos, &self.bytes[..changed], now);
        if is_trimmed_here {
            self.cut(frame.wire_bytes);
        }
    }

    /// Removes the payload. If the datagram states its size, it states the new one.
    fn cut(&mut self, wire_bytes: u16) {
        let trailer = self.bytes.last_chunk::<TRAILER_BYTES>().copied();
        self.bytes.truncate(self.kept);
        if let Some([_, _, entropy @ ..]) = trailer.filter(|_| self.is_sized) {
            self.bytes.extend_from_slice(&wire_bytes.to_be_bytes());
            self.bytes.extend_from_slice(&entropy);
        }
        self.kept = 0;
    }

    /// The headers on departure.
    pub fn head(&self) -> &[u8] {
        &self.head
    }

    /// The type of service on departure.
    pub fn tos(&self) -> u8 {
        self.tos
    }

    /// The payload on departure, in two pieces.
    pub fn payload(&self) -> [&[u8]; 2] {
        [&self.telemetry, &self.bytes[self.replaced..]]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tidegate_core::{Hop, Rate, Span, Time};

    const READER: Reader =
        Reader { priorities: 8, stamps: true, sized: false, sprays: false, trimmed_bytes: None };

    fn datagram(tos: u8, payload: &[u8]) -> Datagram {
        let mut datagram = Datagram::default();
        datagram.fill(Content::datagram(tos, payload));
        datagram
    }

    /// Telemetry that requests both stamps and contains one hop record, followed by payload.
    fn request() -> Vec<u8> {
        let flags = frame_flag::STAMP_PEAK | frame_flag::STAMP_HOPS;
        let frame = Frame { flags, peak_hop_delay: Span::us(3), ..Frame::default() };
        let mut hops = HopTrace::default();
        hops.push(Hop { port: 7, ..Hop::default() });
        let mut bytes = vec![0; telemetry::MOST_BYTES];
        let length = telemetry::emit(&frame, &hops, &mut bytes).unwrap();
        bytes.truncate(length);
        bytes.extend_from_slice(&[1, 2, 3, 4, 5, 6, 7]);
        bytes
    }

    #[test]
    fn tos_round_trip() {
        for priority in 0..8 {
            for flags in [
                0,
                frame_flag::ECN_CAPABLE,
                frame_flag::ECN_CAPABLE | frame_flag::CONGESTION_EXPERIENCED,
                frame_flag::CREDIT,
            ] {
                let frame = Frame { priority, flags, ..Frame::default() };
                let packet = datagram(tos(&frame), b"x").packet(READER, 4, 2, 0).unwrap();
                let Frame { priority: back, flags: read, dst, wire_bytes, .. } = packet.frame;
                assert_eq!((back, read, dst, wire_bytes), (priority, flags, 2, 84));
            }
        }
        // Best effort is the lowest, and network control the highest.
        assert_eq!(tos(&Frame { priority: 7, ..Frame::default() }), 0);
        assert_eq!(tos(&Frame { priority: 0, ..Frame::default() }) >> 2, 56);
        let few = Reader { priorities: 2, ..READER };
        let priority =
            |dscp: u8| datagram(dscp << 2, b"").packet(few, 0, 0, 0).unwrap().frame.priority;
        assert_eq!([56, 48, 40, 0].map(priority), [0, 1, 1, 1]);
    }

    #[test]
    fn stamp_requested_telemetry() {
        let mut datagram = datagram(0b10, &request());
        let mut packet = datagram.packet(READER, 0, 0, 0).unwrap();
        assert_eq!(packet.frame.wire_bytes as usize, request().len() + WIRE_OVERHEAD_BYTES);
        packet.frame.peak_hop_delay = packet.frame.peak_hop_delay.max(Span::us(5));
        let hop = Hop { at: Time::us(9), rate: Rate::mbps(100), port: 3, ..Hop::default() };
        packet.hops.push(hop);
        packet.frame.flags |= frame_flag::CONGESTION_EXPERIENCED;
        datagram.stamp(&packet);
        let left = datagram.payload().concat();
        assert_eq!((left.len(), datagram.tos()), (request().len() + 32, 0b11));
        let (mut frame, mut hops) = (Frame::default(), HopTrace::default());
        let rest = telemetry::parse(&left, &mut frame, &mut hops).unwrap();
        assert_eq!((rest, frame.peak_hop_delay), (&[1, 2, 3, 4, 5, 6, 7][..], Span::us(5)));
        assert_eq!(hops.as_slice(), packet.hops.as_slice());
    }

    #[test]
    fn stamp_keeps_other_payloads() {
        let echo = {
            let mut hops = HopTrace::default();
            hops.push(Hop::default());
            let mut bytes = vec![9; 60];
            telemetry::emit(&Frame::default(), &hops, &mut bytes).unwrap();
            bytes
        };
        // Empty, no header, other versions, incomplete headers, unknown kinds, echoes.
        let mut all = vec![vec![], vec![1], b"hello".to_vec(), vec![0xff; 40], echo];
        all.extend((1..request().len() - 7).map(|cut| request()[..cut].to_vec()));
        let mut unknown = request();
        unknown[1] = 0x7f;
        all.push(unknown);
        for payload in all {
            let mut datagram = datagram(0, &payload);
            let mut packet = datagram.packet(READER, 0, 0, 0).unwrap();
            let requested = frame_flag::STAMP_PEAK | frame_flag::STAMP_HOPS;
            let is_whole = packet.frame.flags & requested != 0;
            packet.frame.peak_hop_delay = Span::ZERO.max(packet.frame.peak_hop_delay);
            datagram.stamp(&packet);
            assert_eq!(datagram.payload().concat(), payload, "{is_whole}");
        }
        let mut silent = datagram(0, &request());
        let packet = silent.packet(Reader { stamps: false, ..READER }, 0, 0, 0).unwrap();
        silent.stamp(&packet);
        assert_eq!(silent.payload().concat(), request());
    }

    #[test]
    fn packet_size_from_trailer() {
        let sized = Reader { sized: true, ..READER };
        let wire_bytes = |reader: Reader, payload: &[u8]| {
            datagram(0, payload).packet(reader, 0, 0, 0).unwrap().frame.wire_bytes
        };
        let mut long = vec![7; 300];
        assert_eq!(wire_bytes(READER, &long), 300 + WIRE_OVERHEAD_BYTES as u16);
        long[294..296].copy_from_slice(&1_080_u16.to_be_bytes());
        assert_eq!(wire_bytes(sized, &long), 1_080);
        // The trailer cannot make a packet shorter than the minimum.
        assert_eq!(
            [&[0, 1, 2, 3, 4, 5][..], &[9], &[]].map(|payload| wire_bytes(sized, payload)),
            [84; 3]
        );
    }

    /// Telemetry with requests by `flags`, a transport header of 40 bytes, the header of a session,
    /// and 500 bytes.
    fn of_session(kind: u8, flags: u8, entropy: u32) -> Vec<u8> {
        let mut bytes = vec![0; telemetry::MOST_BYTES];
        let frame = Frame { flags, ..Frame::default() };
        let length = telemetry::emit(&frame, &HopTrace::default(), &mut bytes).unwrap();
        bytes.truncate(length);
        let session = match kind {
            forwarding::TRIMMABLE => forwarding::TRIMMABLE_BYTES,
            _ => forwarding::MULTIPATH_BYTES,
        };
        for (kind, length) in [(0, 40), (kind, session)] {
            bytes.extend([1, kind, 0, (length / 4) as u8]);
            bytes.resize(bytes.len() + length - 4, kind);
        }
        let at = bytes.len() - session + 20;
        bytes[at..at + 4].copy_from_slice(&entropy.to_be_bytes());
        bytes.extend((0..500).map(|byte| byte as u8));
        bytes
    }

    /// The datagram that leaves after a switch has trimmed it at the port to its receiver.
    fn trimmed(reader: Reader, tos: u8, payload: &[u8]) -> Option<(u8, Vec<u8>)> {
        let mut datagram = datagram(tos, payload);
        let mut packet = datagram.packet(reader, 0, 0, 0).unwrap();
        if packet.payload_bytes == 0 {
            return None;
        }
        packet.payload_bytes = 0;
        packet.frame.priority = 1;
        packet.frame.wire_bytes = reader.trimmed_bytes.unwrap();
        packet.frame.flags &= !frame_flag::ECN_CAPABLE;
        packet.frame.peak_hop_delay = Span::us(5);
        datagram.stamp(&packet);
        Some((datagram.tos(), datagram.payload().concat()))
    }

    #[test]
    fn trimmed_datagram_keeps_its_first_bytes() {
        let reader = Reader { trimmed_bytes: Some(192), ..READER };
        let whole = of_session(forwarding::TRIMMABLE, 0, 9);
        let (tos, left) = trimmed(reader, 0b10, &whole).unwrap();
        assert_eq!(left, whole[..192 - WIRE_OVERHEAD_BYTES]);
        assert_eq!((tos >> 5, tos & ECN, is_trimmed(tos)), (6, 0, true));
        // It is not trimmed again, and keeps its priority.
        assert_eq!(trimmed(reader, tos, &left), None);
        let again = datagram(tos, &left).packet(reader, 0, 0, 0).unwrap().frame;
        assert_eq!((again.priority, again.flags & frame_flag::CREDIT), (1, 0));
        let (marked, _) = trimmed(reader, 0b11, &whole).unwrap();
        assert_eq!(marked & ECN, ECN, "an earlier mark stays");
        let whole = of_session(forwarding::TRIMMABLE, frame_flag::STAMP_PEAK, 9);
        let (_, left) = trimmed(reader, 0, &whole).unwrap();
        let (mut frame, mut hops) = (Frame::default(), HopTrace::default());
        let rest = telemetry::parse(&left, &mut frame, &mut hops).unwrap();
        assert_eq!(
            (rest, frame.peak_hop_delay),
            (&whole[12..192 - WIRE_OVERHEAD_BYTES], Span::us(5))
        );
    }

    #[test]
    fn trimmed_datagram_states_its_size() {
        let reader = Reader { sized: true, trimmed_bytes: Some(84), ..READER };
        let headers = 40 + forwarding::TRIMMABLE_BYTES;
        let mut whole = of_session(forwarding::TRIMMABLE, 0, 9);
        whole.extend([4, 0, 1, 2, 3, 4]);
        let (_, left) = trimmed(reader, 0, &whole).unwrap();
        assert_eq!(left, [&whole[..headers], &[0, 84, 1, 2, 3, 4]].concat());
    }

    #[test]
    fn untrimmable_datagrams_stay_whole() {
        let reader = Reader { trimmed_bytes: Some(192), ..READER };
        let whole = of_session(forwarding::TRIMMABLE, 0, 9);
        let hops = of_session(forwarding::TRIMMABLE, frame_flag::STAMP_HOPS, 9);
        let headers = WIRE_OVERHEAD_BYTES + 4 + 40 + forwarding::TRIMMABLE_BYTES;
        let short = Reader { trimmed_bytes: Some(headers as u16 - 1), ..READER };
        assert!(
            trimmed(Reader { trimmed_bytes: Some(headers as u16), ..READER }, 0, &hops).is_some()
        );
        assert_eq!(trimmed(short, 0, &hops), None, "longer headers");
        assert_eq!(trimmed(READER, 0, &whole), None, "no trimming");
        for other in [request(), vec![], of_session(forwarding::MULTIPATH, 0, 9), vec![1; 400]] {
            assert_eq!(trimmed(reader, 0, &other), None);
        }
    }

    #[test]
    fn entropy_selects_the_path() {
        let entropy = |reader: Reader, own: u32, connection: u32| {
            let whole = of_session(forwarding::MULTIPATH, 0, own);
            datagram(0, &whole).packet(reader, 0, 0, connection).unwrap().frame.entropy
        };
        assert_eq!(entropy(READER, 1, 2), entropy(READER, 1, 2));
        assert_ne!(entropy(READER, 1, 2), entropy(READER, 3, 2));
        assert_ne!(entropy(READER, 1, 2), entropy(READER, 1, 4));
        let sprays = Reader { sprays: true, ..READER };
        assert_eq!([entropy(sprays, 1, 2), entropy(sprays, 3, 2)], [2; 2]);
        let plain = datagram(0, &request()).packet(READER, 0, 0, 2).unwrap();
        assert_eq!(plain.frame.entropy, 2);
    }

    #[test]
    fn packet_maximum_length() {
        assert!(datagram(0, &vec![0; MOST_BYTES]).packet(READER, 0, 0, 0).is_some());
        assert!(datagram(0, &vec![0; MOST_BYTES + 1]).packet(READER, 0, 0, 0).is_none());
    }
}
