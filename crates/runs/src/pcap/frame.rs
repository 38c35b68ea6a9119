//! Encodes a simulated packet for Ethernet: our headers in UDP over IPv4, or a PFC pause frame.

use tidegate_algos::Protocol;
use tidegate_core::wire::{HeaderError, MAX_HEADER_BYTES};
use tidegate_core::{Body, Frame, HopTrace, frame_flag};

const ETHERNET_BYTES: usize = 14;
const IP_BYTES: usize = 20;
const UDP_BYTES: usize = 8;
const OUTER_BYTES: usize = ETHERNET_BYTES + IP_BYTES + UDP_BYTES;

/// Source ports encode the ECMP choice of a packet. They start at this port, above those of our
/// transports.
const FIRST_SOURCE_PORT: u16 = 49_152;
const SOURCE_PORTS: u32 = 2_048;

const MOST_HOPS: u8 = 64;
const DO_NOT_FRAGMENT: u16 = 0x4000;
const UDP: u8 = 17;
const NOT_ECN: u8 = 0;
const ECN_CAPABLE: u8 = 2;
const CONGESTION_EXPERIENCED: u8 = 3;

/// MAC address 02:00 with the number of the host: locally administered.
fn mac(host: u32) -> [u8; 6] {
    let [a, b, c, d] = host.to_be_bytes();
    [2, 0, a, b, c, d]
}

/// IP address 10.x.y.z with the number of the host.
fn address(host: u32) -> [u8; 4] {
    let [_, x, y, z] = host.to_be_bytes();
    [10, x, y, z]
}

/// Class selector 7 for the highest priority, descending.
fn traffic_class(frame: &Frame) -> u8 {
    let class = 7 - frame.priority.min(7);
    let ecn = match frame.flags {
        flags if flags & frame_flag::CONGESTION_EXPERIENCED != 0 => CONGESTION_EXPERIENCED,
        flags if flags & frame_flag::ECN_CAPABLE != 0 => ECN_CAPABLE,
        _ => NOT_ECN,
    };
    class << 5 | ecn
}

fn checksum(header: &[u8]) -> u16 {
    let words = header.chunks_exact(2).map(|word| u16::from_be_bytes([word[0], word[1]]) as u32);
    let carry = |sum: u32| (sum & 0xffff) + (sum >> 16);
    !carry(carry(words.sum())) as u16
}

/// Length of the shortest frame, without its checksum.
const LEAST_BYTES: usize = 60;
const MAC_CONTROL: u16 = 0x8808;
const PRIORITY_PAUSE: u16 = 0x0101;
/// Multicast address of the node at the other end of the link.
const NEIGHBOUR: [u8; 6] = [0x01, 0x80, 0xc2, 0, 0, 1];

/// Writes a pause frame for one priority (IEEE 802.1Qbb), with the longest time or with zero.
fn write_pause(priority: u8, on: bool, out: &mut Vec<u8>) -> u32 {
    // As above, the highest priority is class 7.
    let class = 7 - (priority & 7);
    out.extend_from_slice(&NEIGHBOUR);
    out.extend_from_slice(&[2, 1, 0, 0, 0, 0]);
    for word in [MAC_CONTROL, PRIORITY_PAUSE, 1 << class] {
        out.extend_from_slice(&word.to_be_bytes());
    }
    for other in 0..8 {
        let quanta = if on && other == class { u16::MAX } else { 0 };
        out.extend_from_slice(&quanta.to_be_bytes());
    }
    out.resize(LEAST_BYTES, 0);
    LEAST_BYTES as u32
}

/// Writes all headers of a packet to `out`, which is cleared first. Returns the length of the frame
/// with its payload, without the checksum.
///
/// # Errors
/// When the packet does not belong to that protocol.
pub(super) fn write(
    protocol: Protocol,
    frame: &Frame,
    body: &Body,
    hops: &HopTrace,
    out: &mut Vec<u8>,
) -> Result<u32, HeaderError> {
    out.clear();
    if frame.flags & frame_flag::PAUSE != 0 {
        // The engine stores the priority in the low byte, and whether to pause in the next.
        return Ok(write_pause(frame.entropy as u8, frame.entropy >> 8 != 0, out));
    }
    // Up to two telemetry headers and one transport header.
    let mut bytes = [0; OUTER_BYTES + 3 * MAX_HEADER_BYTES];
    let headers = protocol.emit(frame, body, hops, &mut bytes[OUTER_BYTES..])?;
    out.extend_from_slice(&bytes[..OUTER_BYTES + headers]);
    let udp_bytes = (UDP_BYTES + headers) as u32 + body.payload_bytes;
    // With real headers, the largest packets exceed the length field of IP.
    let length = |bytes: u32| (bytes.min(u16::MAX as u32) as u16).to_be_bytes();

    let (ethernet, rest) = out.split_at_mut(ETHERNET_BYTES);
    ethernet[..6].copy_from_slice(&mac(frame.dst));
    ethernet[6..12].copy_from_slice(&mac(body.src));
    ethernet[12..].copy_from_slice(&0x0800u16.to_be_bytes());

    let (ip, rest) = rest.split_at_mut(IP_BYTES);
    (ip[0], ip[1]) = (0x45, traffic_class(frame));
    ip[2..4].copy_from_slice(&length(IP_BYTES as u32 + udp_bytes));
    ip[6..8].copy_from_slice(&DO_NOT_FRAGMENT.to_be_bytes());
    (ip[8], ip[9]) = (MOST_HOPS, UDP);
    ip[12..16].copy_from_slice(&address(body.src));
    ip[16..20].copy_from_slice(&address(frame.dst));
    let sum = checksum(ip).to_be_bytes();
    ip[10..12].copy_from_slice(&sum);

    // No UDP checksum: the payload does not exist.
    let from = FIRST_SOURCE_PORT + (frame.entropy % SOURCE_PORTS) as u16;
    rest[..2].copy_from_slice(&from.to_be_bytes());
    rest[2..4].copy_from_slice(&protocol.headers().port.to_be_bytes());
    rest[4..6].copy_from_slice(&length(udp_bytes));
    Ok((ETHERNET_BYTES + IP_BYTES) as u32 + udp_bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn checksums_carry_repeated_overflow() {
        // RFC 1071, section 3.
        let example = [0x00, 0x01, 0xf2, 0x03, 0xf4, 0xf5, 0xf6, 0xf7];
        assert_eq!(checksum(&example), !0xddf2);
        assert_eq!(checksum(&[0xff, 0xff, 0xff, 0xff, 0x00, 0x01]), !0x0001);
        assert_eq!(checksum(&[0xff, 0xfe, 0xff, 0xff, 0x00, 0x02]), !0x0001);
    }

    #[test]
    fn pause_frames_follow_the_standard() {
        let mut out = Vec::new();
        for (entropy, quanta) in [(1 << 8 | 5, u16::MAX), (5, 0)] {
            let frame = Frame { flags: frame_flag::PAUSE, entropy, ..Frame::default() };
            let (body, hops) = (Body::default(), HopTrace::default());
            assert_eq!(write(Protocol::ALL[0], &frame, &body, &hops, &mut out), Ok(60));
            assert_eq!(out[..6], NEIGHBOUR);
            // Priority 5 from the top is class 2; its time is the third of eight.
            assert_eq!(out[12..18], [0x88, 0x08, 0x01, 0x01, 0, 0b100]);
            let times: Vec<u16> =
                out[18..34].chunks(2).map(|time| u16::from_be_bytes([time[0], time[1]])).collect();
            assert_eq!(times, [0, 0, quanta, 0, 0, 0, 0, 0]);
            assert!(out.len() == 60 && out[34..].iter().all(|&byte| byte == 0));
        }
    }
}
