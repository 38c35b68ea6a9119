//! The headers of captured packets: Ethernet, IP, TCP and UDP.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use tidegate_algos::Protocol;
use tidegate_core::{Body, Frame, HopTrace, PacketMut};

pub(super) const TCP: u8 = 6;
pub(super) const UDP: u8 = 17;

const IPV4: u16 = 0x0800;
const IPV6: u16 = 0x86dd;
/// EtherTypes of VLAN tags.
const TAGS: [u16; 3] = [0x8100, 0x88a8, 0x9100];
/// Extension headers of IPv6 with a length in units of 8 bytes.
const EXTENSIONS: [u8; 4] = [0, 43, 60, 135];
const FRAGMENT: u8 = 44;

/// Link types whose packets are read.
pub(super) const LINKS: [(u32, &str); 6] = [
    (0, "BSD loopback"),
    (1, "Ethernet"),
    (101, "raw IP"),
    (113, "Linux cooked"),
    (228, "raw IPv4"),
    (276, "Linux cooked v2"),
];

/// The identity of a packet's connection in one direction.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Tuple {
    pub(super) src: IpAddr,
    pub(super) dst: IpAddr,
    pub(super) ports: [u16; 2],
    pub(super) protocol: u8,
}

/// A TCP or UDP packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Segment {
    pub(super) tuple: Tuple,
    /// Payload bytes.
    pub(super) bytes: u64,
    /// Sequence number of the first payload byte, with TCP.
    pub(super) sequence: Option<u32>,
    /// The packet opens a connection.
    pub(super) opens: bool,
}

/// Content of a captured packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Content {
    Segment(Segment),
    /// ARP, LLDP, pause frames and others.
    NotIp,
    /// Neither TCP nor UDP.
    OtherTransport,
    /// A fragment other than the first.
    Fragment,
    /// The stored part ends within the headers.
    Truncated,
}

fn word(bytes: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_be_bytes(*bytes.get(at..)?.first_chunk()?))
}

/// Reads a packet of `length` bytes, of which `bytes` are stored.
pub(super) fn content(link: u32, bytes: &[u8], length: u32) -> Content {
    read(link, bytes, u64::from(length)).unwrap_or(Content::Truncated)
}

/// `None` if the stored part ends within the headers.
fn read(link: u32, bytes: &[u8], length: u64) -> Option<Content> {
    let (kind, start) = match link {
        0 => (None, 4),
        1 => {
            let (mut kind, mut start) = (word(bytes, 12)?, 14);
            while TAGS.contains(&kind) {
                (kind, start) = (word(bytes, start + 2)?, start + 4);
            }
            (Some(kind), start)
        }
        113 => (Some(word(bytes, 14)?), 16),
        276 => (Some(word(bytes, 0)?), 20),
        _ => (None, 0),
    };
    if kind.is_some_and(|kind| kind != IPV4 && kind != IPV6) {
        return Some(Content::NotIp);
    }
    let ip = bytes.get(start..)?;
    let length = length.saturating_sub(start as u64);
    match ip.first()? >> 4 {
        4 => v4(ip, length),
        6 => v6(ip, length),
        _ => Some(Content::NotIp),
    }
}

fn v4(ip: &[u8], length: u64) -> Option<Content> {
    let head: &[u8; 20] = ip.first_chunk()?;
    let header = usize::from(head[0] & 15) * 4;
    if header < 20 {
        return Some(Content::NotIp);
    }
    // Offloading hardware leaves the field 0, and packets above 64 KiB do not fit.
    let total = match word(head, 2)? {
        0 | u16::MAX => length,
        total => total.into(),
    };
    if word(head, 6)? & 0x1fff != 0 {
        return Some(Content::Fragment);
    }
    let address = |at: usize| -> Option<IpAddr> {
        Some(Ipv4Addr::from(*head[at..].first_chunk::<4>()?).into())
    };
    let (src, dst) = (address(12)?, address(16)?);
    transport(head[9], ip.get(header..)?, total.saturating_sub(header as u64), src, dst)
}

fn v6(ip: &[u8], length: u64) -> Option<Content> {
    let head: &[u8; 40] = ip.first_chunk()?;
    let mut left = match word(head, 4)? {
        0 | u16::MAX => length.saturating_sub(40),
        left => left.into(),
    };
    let address = |at: usize| -> Option<IpAddr> {
        Some(Ipv6Addr::from(*head[at..].first_chunk::<16>()?).into())
    };
    let (src, dst) = (address(8)?, address(24)?);
    let (mut next, mut rest) = (head[6], &ip[40..]);
    while EXTENSIONS.contains(&next) || next == FRAGMENT {
        let header: &[u8; 8] = rest.first_chunk()?;
        let bytes = if next == FRAGMENT { 8 } else { 8 + 8 * usize::from(header[1]) };
        if next == FRAGMENT && word(header, 2)? & 0xfff8 != 0 {
            return Some(Content::Fragment);
        }
        (next, rest, left) = (header[0], rest.get(bytes..)?, left.saturating_sub(bytes as u64));
    }
    transport(next, rest, left, src, dst)
}

/// Reads the header of a transport, with `length` bytes of IP payload.
fn transport(protocol: u8, bytes: &[u8], length: u64, src: IpAddr, dst: IpAddr) -> Option<Content> {
    if protocol != TCP && protocol != UDP {
        return Some(Content::OtherTransport);
    }
    let ports = [word(bytes, 0)?, word(bytes, 2)?];
    let tuple = Tuple { src, dst, ports, protocol };
    if protocol == UDP {
        let (bytes, message) = udp(bytes.get(8..)?, length.saturating_sub(8), ports[1]);
        // Packets of a message may have different source ports.
        let ports = message.map_or(ports, |number| [number as u16, (number >> 16) as u16]);
        let tuple = Tuple { ports, ..tuple };
        return Some(Content::Segment(Segment { tuple, bytes, sequence: None, opens: false }));
    }
    let sequence = u32::from_be_bytes(*bytes.get(4..)?.first_chunk()?);
    let (offset, flags) = (bytes.get(12)? >> 4, bytes.get(13)?);
    let opens = flags & 2 != 0;
    Some(Content::Segment(Segment {
        tuple,
        bytes: length.saturating_sub(4 * u64::from(offset)),
        // A SYN takes a number.
        sequence: Some(sequence.wrapping_add(u32::from(opens))),
        opens,
    }))
}

/// The payload of a UDP packet. In captures of this project, it is the payload behind the headers
/// of the transport, with the number of its message: acknowledgements and grants have none, and
/// retransmissions do not count.
fn udp(stored: &[u8], bytes: u64, port: u16) -> (u64, Option<u32>) {
    let ours = Protocol::ALL.iter().find(|protocol| protocol.headers().port == port);
    let (mut frame, mut body, mut hops) = (Frame::default(), Body::default(), HopTrace::default());
    let packet = PacketMut { frame: &mut frame, body: &mut body, hops: &mut hops };
    match ours.map(|protocol| protocol.parse(stored, packet)) {
        Some(Ok(_)) if body.is_retransmission => (0, Some(body.message)),
        Some(Ok(headers)) => (bytes.saturating_sub(headers as u64), Some(body.message)),
        _ => (bytes, None),
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// An Ethernet frame with a TCP or UDP packet of `payload` bytes, without the payload.
    pub(in crate::workload) fn frame(
        protocol: u8,
        hosts: [u8; 2],
        sequence: u32,
        payload: u16,
    ) -> Vec<u8> {
        let header: u16 = if protocol == TCP { 20 } else { 8 };
        let mut frame = vec![0; 12];
        frame.extend_from_slice(&IPV4.to_be_bytes());
        let total = (20 + header + payload).to_be_bytes();
        frame.extend_from_slice(&[0x45, 0, total[0], total[1], 0, 0, 0, 0, 64, protocol, 0, 0]);
        frame.extend_from_slice(&[10, 0, 0, hosts[0], 10, 0, 0, hosts[1]]);
        frame.extend_from_slice(&[0x1f, 0x90, 0x1f, 0x91]);
        if protocol == TCP {
            frame.extend_from_slice(&sequence.to_be_bytes());
            frame.extend_from_slice(&[0, 0, 0, 0, 0x50, 0x10, 0, 0, 0, 0, 0, 0]);
        } else {
            frame.extend_from_slice(&[0, 0, 0, 0]);
        }
        frame
    }

    fn payload(frame: &[u8], link: u32) -> Option<(u64, Option<u32>)> {
        match content(link, frame, 1500) {
            Content::Segment(segment) => Some((segment.bytes, segment.sequence)),
            _ => None,
        }
    }

    #[test]
    fn payloads_exclude_headers() {
        let tcp = frame(TCP, [1, 2], 7, 1000);
        assert_eq!(payload(&tcp, 1), Some((1000, Some(7))));
        assert_eq!(payload(&frame(UDP, [1, 2], 0, 99), 1), Some((99, None)));
        assert_eq!(payload(&tcp[14..], 101), Some((1000, Some(7))), "raw IP");
        let mut tagged = tcp.clone();
        tagged.splice(12..12, [0x81, 0, 0, 5]);
        assert_eq!(payload(&tagged, 1), Some((1000, Some(7))));
        let mut v6 = vec![0x60, 0, 0, 0, 0, 28, 0, 64];
        v6.extend_from_slice(&[1; 32]);
        v6.extend_from_slice(&[17, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0, 2, 0, 20, 0, 0]);
        assert_eq!(payload(&v6, 101), Some((12, None)), "an extension header");
    }

    #[test]
    fn other_packets_are_distinguished() {
        let mut arp = frame(TCP, [1, 2], 0, 1);
        arp[12..14].copy_from_slice(&[8, 6]);
        assert_eq!(content(1, &arp, 60), Content::NotIp);
        let mut icmp = frame(TCP, [1, 2], 0, 1);
        icmp[23] = 1;
        assert_eq!(content(1, &icmp, 60), Content::OtherTransport);
        let mut fragment = frame(TCP, [1, 2], 0, 1);
        fragment[21] = 9;
        assert_eq!(content(1, &fragment, 60), Content::Fragment);
        let whole = frame(TCP, [1, 2], 0, 1);
        for length in 0..48 {
            assert_eq!(content(1, &whole[..length], 60), Content::Truncated, "{length}");
        }
    }
}
