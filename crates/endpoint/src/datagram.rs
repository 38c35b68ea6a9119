//! Checks the parsers on arbitrary bytes.

use tidegate_algos::Protocol;
use tidegate_core::wire::{self, HeaderError};

use crate::endpoint::Packet;
use crate::message::Head;
use crate::session::header::{Header, control::ControlMessage};

/// Parses a datagram of a protocol. Returns the packet, without the fields of the IP header, and
/// the length of its headers.
fn parsed(protocol: Protocol, datagram: &[u8]) -> Result<(Packet, usize), HeaderError> {
    let mut packet = Packet::default();
    let headers = protocol.parse(datagram, packet.as_mut())?;
    Ok((packet, headers))
}

/// Parses arbitrary bytes as a datagram; if they are a packet, writes it again.
///
/// # Panics If the parser panics, accepts bytes that it would not write, or accepts incomplete
/// headers.
pub fn datagram(protocol: Protocol, bytes: &[u8]) {
    let Ok((packet, headers)) = parsed(protocol, bytes) else { return };
    assert_eq!(packet.body.payload_bytes as usize, bytes.len() - headers);
    let mut again = vec![0; headers];
    let written = protocol.emit(&packet.frame, &packet.body, &packet.hops, &mut again);
    assert_eq!((written, &again[..]), (Ok(headers), &bytes[..headers]));
    for cut in 0..headers {
        assert!(parsed(protocol, &bytes[..cut]).is_err(), "{cut} bytes of {headers}");
        let emitted = protocol.emit(&packet.frame, &packet.body, &packet.hops, &mut again[..cut]);
        assert!(emitted.is_err(), "{headers} bytes in {cut}");
    }
}

/// Parses arbitrary bytes as a session header, as a control message and as the head of a message,
/// and writes again what it accepted.
///
/// # Panics If a parser panics, accepts bytes that it would not write, or accepts an incomplete
/// header.
pub fn header(bytes: &[u8]) {
    same::<Header>(bytes);
    same::<ControlMessage>(bytes);
    same::<Head>(bytes);
}

fn same<H: wire::Header>(bytes: &[u8]) {
    let Ok((header, rest)) = H::parse(bytes) else { return };
    let length = bytes.len() - rest.len();
    let mut again = vec![0; length];
    assert_eq!((header.emit(&mut again), &again[..]), (Ok(length), &bytes[..length]));
    for cut in 0..length {
        assert!(H::parse(&bytes[..cut]).is_err(), "{cut} bytes of {length}");
        assert!(header.emit(&mut again[..cut]).is_err(), "{length} bytes in {cut}");
    }
}
