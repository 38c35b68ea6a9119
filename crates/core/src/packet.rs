//! What travels: the part of a packet that the fabric reads ([`Frame`]), the transport header
//! ([`Body`]) and the per-hop telemetry ([`HopTrace`]). [`wire`](crate::wire) says what they are as
//! bytes.
//!
//! The three are separate records because they are touched at different rates: a switch reads 32
//! bytes a hop, a host reads 96 bytes at each end, and hop records exist only where a protocol asks
//! for them.

use crate::{Rate, Span, Time};

/// Headers and gap of every windowed data packet: 18 Ethernet, 20 IP, 8 UDP, 14 transport, 20
/// preamble and gap.
pub const HEADER_BYTES: u32 = 80;
/// Smallest packet on the wire, preamble and gap included.
pub const MIN_WIRE_BYTES: u32 = 84;
/// Most switches a hop trace can record; a longer path is refused when the scenario is planned.
pub const MAX_HOPS: usize = 8;

/// The part of a packet that links and switches read and write. 32 bytes: two a cache line.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct Frame {
    /// The driver's: when the packet behind it on the same link reaches the next node, or when it
    /// entered the queue it is in.
    pub at: Time,
    /// Largest queueing delay that a stamping switch has seen on the way so far.
    pub peak_hop_delay: Span,
    /// Destination host.
    pub dst: u32,
    /// What ECMP hashes: constant over a connection, or fresh for each packet under spraying.
    pub entropy: u32,
    /// The driver's: next packet in the same queue.
    pub next: u32,
    /// Bytes on the wire, preamble and gap included; at least [`MIN_WIRE_BYTES`].
    pub wire_bytes: u16,
    /// Strict priority, 0 the highest.
    pub priority: u8,
    /// See [`frame_flag`].
    pub flags: u8,
}

/// Bits of [`Frame::flags`].
pub mod frame_flag {
    /// Switches may mark this packet.
    pub const ECN_CAPABLE: u8 = 1;
    /// A switch has marked this packet.
    pub const CONGESTION_EXPERIENCED: u8 = 2;
    /// Switches keep the maximum of their queueing delay in `peak_hop_delay`.
    pub const STAMP_PEAK: u8 = 4;
    /// Switches append a [`Hop`](crate::Hop) record.
    pub const STAMP_HOPS: u8 = 8;
    /// A switch says that a circuit leads to the packet's destination, or soon will.
    pub const CIRCUIT: u8 = 16;
    /// Damaged on the way: the receiving host's checksum fails.
    pub const CORRUPT: u8 = 32;
    /// From a switch to whoever sends to it: pause a priority, or go on. No host's transport sees
    /// it.
    pub const PAUSE: u8 = 64;
    /// A credit: waits apart from data where switches have queues for credits.
    pub const CREDIT: u8 = 128;
}

/// The transport header in memory, 64 bytes. What it costs on the wire is the protocol's to declare
/// in `wire_bytes`; what it is on a wire, its [`Header`](crate::wire::Header) says.
///
/// Drivers read the fields that have names. `tag` and `words` mean what the transport's header file
/// says ([`Carried`](crate::wire::Carried)), and nothing to anybody else.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct Body {
    /// Sending host.
    pub src: u32,
    /// The application's number of the message.
    pub message: u32,
    /// Payload bytes that the packet carries; 0 in all but data.
    pub payload_bytes: u32,
    /// Which of the host's transports this belongs to; the driver's to fill in.
    pub transport: u16,
    /// Sent before.
    pub is_retransmission: bool,
    /// The transport's own: kind and flags.
    pub tag: u8,
    /// When the data packet began to leave its NIC, and how long drivers have held it or its reply
    /// since it arrived, so that now less this is a round trip from NIC to NIC; replies echo it.
    /// Zero where the transport takes no round trips.
    pub sent_at: Time,
    /// The transport's own.
    pub words: [u64; 5],
}

crate::record! {
    /// What one switch said about one packet, sampled when the packet began to leave it.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    #[repr(C)]
    pub struct Hop {
        /// When.
        at: Time,
        /// Wire bytes that the port had sent before this packet.
        tx_bytes: u64,
        /// The port's rate.
        rate: Rate,
        /// Wire bytes queued behind this packet.
        queue_bytes: u32,
        /// Which port: changes when the path does.
        port: u32,
    }
}

/// The hop records of one packet, in the order of the path.
#[derive(Clone, Copy, Default)]
#[repr(C)]
pub struct HopTrace {
    len: u32,
    hops: [Hop; MAX_HOPS],
}

impl PartialEq for HopTrace {
    fn eq(&self, other: &HopTrace) -> bool {
        self.as_slice() == other.as_slice()
    }
}

impl core::fmt::Debug for HopTrace {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        self.as_slice().fmt(f)
    }
}

impl HopTrace {
    /// Forgets every record.
    #[inline]
    pub fn clear(&mut self) {
        self.len = 0;
    }
    /// Appends a record; beyond [`MAX_HOPS`] it is dropped.
    #[inline]
    pub fn push(&mut self, hop: Hop) {
        if let Some(slot) = self.hops.get_mut(self.len as usize) {
            *slot = hop;
            self.len += 1;
        }
    }
    /// These records instead; beyond [`MAX_HOPS`] they are dropped.
    #[inline]
    pub fn set(&mut self, hops: &[Hop]) {
        let len = hops.len().min(MAX_HOPS);
        self.hops[..len].copy_from_slice(&hops[..len]);
        self.len = len as u32;
    }
    /// The records so far.
    #[inline]
    pub fn as_slice(&self) -> &[Hop] {
        &self.hops[..self.len as usize]
    }
}

/// One packet, in memory that belongs to the driver.
#[derive(Debug)]
pub struct PacketMut<'a> {
    /// What the fabric reads.
    pub frame: &'a mut Frame,
    /// The transport header.
    pub body: &'a mut Body,
    /// Telemetry; empty where nobody asked for it. A reply keeps what the data packet collected.
    pub hops: &'a mut HopTrace,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_keep_their_size() {
        assert_eq!(core::mem::size_of::<Frame>(), 32);
        assert_eq!(core::mem::size_of::<Body>(), 64);
        assert_eq!(core::mem::size_of::<Hop>(), 32);
    }
}
