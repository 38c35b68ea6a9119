//! The fields of an Ethernet frame that a switch reads and writes.
//!
//! | field | use |
//! | --- | --- |
//! | IPv4, IPv6 | DSCP and ECN, as in [datagrams](crate::datagram) |
//! | UDP | the payload may begin with telemetry, which may grow |
//! | TCP | options of telemetry, in place |
//! | lengths and checksums | updated |
//! | addresses, protocol, ports | identify connections |
//!
//! Other and invalid frames are best effort and leave unchanged. Checksums are updated
//! incrementally (RFC 1624) and not recomputed: a wrong checksum stays wrong, so the receiver
//! detects it.

use tidegate_core::mix64;
use tidegate_core::wire::telemetry;

use crate::content::Content;

/// A MAC address.
pub(crate) type Address = [u8; 6];

/// Further bytes of a frame on the wire: 4 checksum, 20 preamble and gap.
pub(crate) const FRAME_OVERHEAD_BYTES: usize = 4 + 20;
/// Length of the header of an untagged frame.
pub(crate) const HEADER_BYTES: usize = 14;
/// Length of a VLAN tag.
pub(crate) const TAG_BYTES: usize = 4;
/// Length of both addresses.
const ADDRESSES_BYTES: usize = 12;
/// EtherTypes of tags: IEEE 802.1Q and 802.1ad.
const TAGS: [u16; 2] = [0x8100, 0x88a8];
const TCP: u8 = 6;
const UDP: u8 = 17;
const UDP_BYTES: usize = 8;
/// Protocols that begin with two ports: TCP, UDP, DCCP, SCTP.
const WITH_PORTS: [u8; 4] = [TCP, UDP, 33, 132];

/// Destination and source of a frame; `None` if it is too short.
pub(crate) fn addresses(frame: &[u8]) -> Option<[Address; 2]> {
    let header: &[u8; HEADER_BYTES] = frame.first_chunk()?;
    let [to, from] = [&header[..6], &header[6..12]].map(|bytes| bytes.try_into().ok());
    Some([to?, from?])
}

/// Inserts the tag that the kernel has removed from a frame.
pub(crate) fn tagged(frame: &[u8], [kind, content]: [u16; 2], out: &mut Vec<u8>) {
    let (addresses, rest) = frame.split_at(ADDRESSES_BYTES.min(frame.len()));
    out.clear();
    out.extend_from_slice(addresses);
    out.extend_from_slice(&kind.to_be_bytes());
    out.extend_from_slice(&content.to_be_bytes());
    out.extend_from_slice(rest);
}

/// Reads a frame: its content, and a hash of its connection, which is equal in both directions.
pub(crate) fn content(frame: &[u8]) -> (Content<'_>, u64) {
    let beside = FRAME_OVERHEAD_BYTES;
    let Some(ip) = Ip::of(frame) else {
        let payload = frame;
        let (head, tos, readable, is_segment) = (&[][..], 0, 0, false);
        return (Content { head, tos, payload, readable, is_segment, beside }, 0);
    };
    let readable = ip.udp_payload(frame);
    let end = if readable.is_some() { ip.end + UDP_BYTES } else { ip.end };
    let (head, payload) = frame.split_at(end);
    let readable = readable.unwrap_or(0);
    let (tos, is_segment) = (ip.tos(frame), ip.protocol(frame) == Some(TCP));
    (Content { head, tos, payload, readable, is_segment, beside }, ip.flow(frame))
}

/// Updates the headers for a new type of service, and for `new`, in two pieces, in place of `old`
/// at the beginning of the UDP payload. All have an even length, so that 16-bit words stay aligned,
/// unless they are the end of the payload.
pub(crate) fn rewrite(head: &mut [u8], tos: u8, old: &[u8], new: [&[u8]; 2]) {
    let Some(ip) = Ip::of(head) else { return };
    let [first, second] = new;
    let longer = ((first.len() + second.len()) as u16).wrapping_sub(old.len() as u16);
    ip.rewrite(head, tos, longer);
    if second.is_empty() && old == first {
        return;
    }
    let udp = head.len() - UDP_BYTES;
    let before = word(head, udp + 4);
    let after = before.wrapping_add(longer);
    put(head, udp + 4, after);
    let checksum = word(head, udp + 6);
    // Zero means no checksum. The length counts twice because the pseudo-header contains it, too.
    if checksum != 0 {
        let [before, after] = [before, after].map(|length| 2 * u64::from(length));
        let mended = follow(checksum, sum(old) + before, sum(first) + sum(second) + after);
        put(head, udp + 6, if mended == 0 { u16::MAX } else { mended });
    }
}

/// An IP header.
#[derive(Clone, Copy)]
pub(crate) struct Ip {
    /// Offset of its first byte.
    pub(crate) at: usize,
    /// Offset of the first byte after it.
    pub(crate) end: usize,
    pub(crate) is_six: bool,
}

impl Ip {
    pub(crate) fn of(frame: &[u8]) -> Option<Ip> {
        let mut at = ADDRESSES_BYTES;
        while TAGS.contains(&checked(frame, at)?) {
            at += TAG_BYTES;
        }
        let kind = checked(frame, at)?;
        at += 2;
        let first = *frame.get(at)?;
        let (bytes, is_six) = match (kind, first >> 4) {
            (0x0800, 4) => (4 * usize::from(first & 0xf), false),
            (0x86dd, 6) => (40, true),
            _ => return None,
        };
        let is_whole = bytes >= 20 && frame.len() >= at + bytes;
        is_whole.then_some(Ip { at, end: at + bytes, is_six })
    }

    fn tos(self, frame: &[u8]) -> u8 {
        let Ip { at, is_six, .. } = self;
        if is_six { frame[at] << 4 | frame[at + 1] >> 4 } else { frame[at + 1] }
    }

    /// The protocol of the payload; `None` for fragments.
    fn protocol(self, frame: &[u8]) -> Option<u8> {
        let Ip { at, is_six, .. } = self;
        if is_six {
            // Fragments have an extension header with its own number.
            return Some(frame[at + 6]);
        }
        // All bits of flags and offset except "don't fragment".
        (word(frame, at + 6) & 0xbfff == 0).then(|| frame[at + 9])
    }

    /// The length of the UDP payload, if it is complete and has room for more telemetry.
    fn udp_payload(self, frame: &[u8]) -> Option<usize> {
        let Ip { at, end, is_six } = self;
        if self.protocol(frame) != Some(UDP) {
            return None;
        }
        let whole = match is_six {
            true => end + usize::from(word(frame, at + 4)),
            false => at + usize::from(word(frame, at + 2)),
        };
        let length = usize::from(checked(frame, end + 4)?);
        let fits = length >= UDP_BYTES
            && end + length == whole
            && whole <= frame.len()
            && whole - at + telemetry::MOST_BYTES <= usize::from(u16::MAX);
        fits.then(|| length - UDP_BYTES)
    }

    /// Hash of the connection, equal in both directions.
    fn flow(self, frame: &[u8]) -> u64 {
        let Ip { at, end, is_six } = self;
        let (first, bytes) = if is_six { (at + 8, 16) } else { (at + 12, 4) };
        let protocol = self.protocol(frame);
        let has_ports = protocol.is_some_and(|protocol| WITH_PORTS.contains(&protocol));
        let ports = frame.get(end..end + 4).filter(|_| has_ports).unwrap_or(&[]);
        let start = u64::from(protocol.unwrap_or(0));
        let side = |number: usize| {
            let address = &frame[first + number * bytes..][..bytes];
            let port = ports.get(2 * number..2 * number + 2).unwrap_or(&[]);
            let mix = |hash: u64, byte: &u8| mix64(hash ^ u64::from(*byte));
            address.iter().chain(port).fold(mix64(start), mix)
        };
        side(0).wrapping_add(side(1))
    }

    fn rewrite(self, head: &mut [u8], tos: u8, longer: u16) {
        let Ip { at, is_six, .. } = self;
        let length = if is_six { at + 4 } else { at + 2 };
        let before = sum(&head[at..at + 4]);
        put(head, length, word(head, length).wrapping_add(longer));
        if is_six {
            head[at] = head[at] & 0xf0 | tos >> 4;
            head[at + 1] = head[at + 1] & 0x0f | tos << 4;
        } else {
            head[at + 1] = tos;
            let checksum = follow(word(head, at + 10), before, sum(&head[at..at + 4]));
            put(head, at + 10, checksum);
        }
    }
}

/// Updates a checksum for words whose sum changes from `before` to `after` (RFC 1624, eq. 3).
pub(crate) fn follow(checksum: u16, before: u64, after: u64) -> u16 {
    !fold(u64::from(!checksum) + u64::from(!fold(before)) + after)
}

/// Sum of 16-bit words.
pub(crate) fn sum(bytes: &[u8]) -> u64 {
    let (words, rest) = bytes.as_chunks();
    let words = words.iter().map(|&word| u64::from(u16::from_be_bytes(word)));
    words.sum::<u64>() + rest.first().map_or(0, |&last| u64::from(last) << 8)
}

/// Folds a sum to 16 bits in ones' complement.
pub(crate) fn fold(mut sum: u64) -> u16 {
    while sum > u64::from(u16::MAX) {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    sum as u16
}

fn checked(bytes: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_be_bytes(*bytes.get(at..)?.first_chunk()?))
}

pub(crate) fn word(bytes: &[u8], at: usize) -> u16 {
    u16::from_be_bytes([bytes[at], bytes[at + 1]])
}

pub(crate) fn put(bytes: &mut [u8], at: usize, word: u16) {
    bytes[at..at + 2].copy_from_slice(&word.to_be_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;

    /// UDP from 10.0.1.2:4660 to 10.0.1.3:5270; its payload is `tide`.
    const FRAME: [u8; 46] = [
        0x02, 0, 0, 0, 0, 0x0b, 0x02, 0, 0, 0, 0, 0x0a, 0x08, 0x00, //
        0x45, 0x02, 0x00, 0x20, 0x12, 0x34, 0x40, 0x00, 0x40, 0x11, 0x12, 0x93, //
        10, 0, 1, 2, 10, 0, 1, 3, //
        0x12, 0x34, 0x14, 0x96, 0x00, 0x0c, 0xea, 0x38, b't', b'i', b'd', b'e',
    ];

    /// A segment of TCP between two addresses and ports of IPv6, without data.
    fn six(from: (u8, u16), to: (u8, u16)) -> Vec<u8> {
        let mut frame = vec![0; 14 + 40 + 20];
        frame[12..15].copy_from_slice(&[0x86, 0xdd, 0x60]);
        frame[19] = 20;
        frame[20] = 6;
        (frame[37], frame[53]) = (from.0, to.0);
        put(&mut frame, 54, from.1);
        put(&mut frame, 56, to.1);
        frame
    }

    fn flow(frame: &[u8]) -> u64 {
        content(frame).1
    }

    #[test]
    fn content_and_addresses() {
        let (content, _) = content(&FRAME);
        assert_eq!((content.head, content.payload), FRAME.split_at(42));
        assert_eq!((content.tos, content.readable), (0b10, 4));
        assert_eq!(addresses(&FRAME), Some([[2, 0, 0, 0, 0, 0xb], [2, 0, 0, 0, 0, 0xa]]));
        assert_eq!((addresses(&FRAME[..13]), flow(&FRAME[..30])), (None, 0));
        let mut out = Vec::new();
        tagged(&FRAME, [0x8100, 7], &mut out);
        let (tagged, _) = super::content(&out);
        assert_eq!((tagged.head.len(), tagged.readable), (46, 4));
        assert_eq!(tagged.head[..16], [&FRAME[..12], &[0x81, 0, 0, 7]].concat());
    }

    #[test]
    fn rewrite_tos_and_checksum() {
        let mut head = FRAME[..42].to_vec();
        rewrite(&mut head, 0b11, b"", [b"", b""]);
        // The first word grows by one, the checksum shrinks by one.
        assert_eq!((head[15], &head[24..26]), (0b11, &[0x12, 0x92][..]));
        assert_eq!(head[26..], FRAME[26..42]);
        let mut head = six((1, 9), (2, 9));
        head[15] = 0x2f;
        rewrite(&mut head, 0b11, b"", [b"", b""]);
        assert_eq!(head[14..16], [0x60, 0x3f], "the flow label is unchanged");
    }

    #[test]
    fn rewrite_telemetry_lengths_and_checksums() {
        let mut head = FRAME[..42].to_vec();
        rewrite(&mut head, 0b10, b"ti", [b"tidetide", b""]);
        assert_eq!((word(&head, 16), word(&head, 38)), (0x26, 0x12));
        assert_eq!(word(&head, 24), 0x1293 - 6);
        let all = [&FRAME[26..34], &[0, 17, 0, 0x12], &head[34..], b"tidetidede"].concat();
        assert_eq!(fold(sum(&all)), u16::MAX);
        let mut silent = FRAME[..42].to_vec();
        put(&mut silent, 40, 0);
        rewrite(&mut silent, 0b10, b"ti", [b"tidetide", b""]);
        assert_eq!(word(&silent, 40), 0, "no checksum before");
    }

    /// All four bytes are replaced by two and one.
    #[test]
    fn rewrite_a_shorter_payload() {
        let mut head = FRAME[..42].to_vec();
        rewrite(&mut head, 0b10, b"tide", [b"ti", b"d"]);
        assert_eq!((word(&head, 16), word(&head, 38)), (0x1f, 0xb));
        assert_eq!(word(&head, 24), 0x1293 + 1);
        let all = [&FRAME[26..34], &[0, 17, 0, 0xb], &head[34..], b"tid"].concat();
        assert_eq!(fold(sum(&all)), u16::MAX);
    }

    #[test]
    fn flow_identifies_connections() {
        let one = flow(&six((1, 1_000), (2, 80)));
        assert_eq!(one, flow(&six((2, 80), (1, 1_000))));
        for other in [six((1, 1_001), (2, 80)), six((1, 80), (2, 1_000)), six((3, 1_000), (2, 80))]
        {
            assert_ne!(one, flow(&other));
        }
        // Only the first fragment has ports.
        let mut first = FRAME;
        first[20] = 0x20;
        let mut second = first;
        second[34..38].fill(9);
        assert_eq!(flow(&first), flow(&second));
        assert_eq!(content(&first).0.readable, 0);
    }
}
