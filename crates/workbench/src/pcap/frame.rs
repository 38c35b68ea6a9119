//! A simulated packet as Ethernet carries it: our headers in UDP in IPv4.

use tidegate_algos::Protocol;
use tidegate_core::wire::{HeaderError, MAX_HEADER_BYTES};
use tidegate_core::{Body, Frame, HopTrace, frame_flag};

const ETHERNET_BYTES: usize = 14;
const IP_BYTES: usize = 20;
const UDP_BYTES: usize = 8;
const OUTER_BYTES: usize = ETHERNET_BYTES + IP_BYTES + UDP_BYTES;

/// Source ports say which way ECMP sends a packet, below the ports of our transports.
const FIRST_SOURCE_PORT: u16 = 49_152;
const SOURCE_PORTS: u32 = 2_048;

const MOST_HOPS: u8 = 64;
const DO_NOT_FRAGMENT: u16 = 0x4000;
const UDP: u8 = 17;
const NOT_ECN: u8 = 0;
const ECN_CAPABLE: u8 = 2;
const CONGESTION_EXPERIENCED: u8 = 3;

/// 02:00 and the number of the host: locally administered.
fn mac(host: u32) -> [u8; 6] {
    let [a, b, c, d] = host.to_be_bytes();
    [2, 0, a, b, c, d]
}

/// 10.x.y.z with the number of the host.
fn address(host: u32) -> [u8; 4] {
    let [_, x, y, z] = host.to_be_bytes();
    [10, x, y, z]
}

/// Class selector 7 for the highest priority, and down.
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
    let sum: u32 = words.sum();
    !((sum & 0xffff) + (sum >> 16)) as u16
}

/// Writes all headers of a packet to `out`, which is emptied first; how long the frame is with its
/// payload, without the checksum behind it.
///
/// # Errors
/// When the packet is none of that protocol.
pub(super) fn write(
    protocol: Protocol,
    frame: &Frame,
    body: &Body,
    hops: &HopTrace,
    out: &mut Vec<u8>,
) -> Result<u32, HeaderError> {
    out.clear();
    // Two headers of telemetry and one of the transport.
    out.resize(OUTER_BYTES + 3 * MAX_HEADER_BYTES, 0);
    let headers = protocol.emit(frame, body, hops, &mut out[OUTER_BYTES..])?;
    out.truncate(OUTER_BYTES + headers);
    let udp_bytes = (UDP_BYTES + headers) as u32 + body.payload_bytes;
    // The largest packets are longer than IP can say once real headers are around them.
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

    // No checksum: there is no payload that it could be of.
    let from = FIRST_SOURCE_PORT + (frame.entropy % SOURCE_PORTS) as u16;
    rest[..2].copy_from_slice(&from.to_be_bytes());
    rest[2..4].copy_from_slice(&protocol.headers().port.to_be_bytes());
    rest[4..6].copy_from_slice(&length(udp_bytes));
    Ok((ETHERNET_BYTES + IP_BYTES) as u32 + udp_bytes)
}
