//! Packets in memory: the part that the fabric reads ([`Frame`]), the transport header ([`Body`])
//! and the per-hop telemetry ([`HopTrace`]). [`wire`](crate::wire) defines their format in bytes.
//!
//! The three records are separate because they are accessed at different rates: a switch reads 32
//! bytes per hop, a host reads 96 bytes at each end, and hop records exist only if a protocol needs
//! them.

use crate::{Rate, Span, Time};

/// Headers and gap of every windowed data packet: 18 Ethernet, 20 IP, 8 UDP, 14 transport, 20
/// preamble and gap.
pub const HEADER_BYTES: u32 = 80;
/// Smallest packet on the wire, preamble and gap included, unless a protocol declares smaller ones
/// ([`PacketSizes`]).
pub const MIN_WIRE_BYTES: u32 = 84;
/// Maximum number of switches in a hop trace. Scenarios with a longer path are refused.
pub const MAX_HOPS: usize = 8;

/// Sizes on the wire of a protocol's packets, preamble and gap included, telemetry excluded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PacketSizes {
    /// Headers and gap of a data packet.
    pub header_bytes: u32,
    /// A packet without payload, such as an acknowledgement.
    pub control_bytes: u32,
    /// The smallest packet. Shorter data packets are padded to this size.
    pub least_bytes: u32,
}

impl PacketSizes {
    /// The sizes that every protocol has by default.
    pub const STANDARD: PacketSizes = PacketSizes {
        header_bytes: HEADER_BYTES,
        control_bytes: MIN_WIRE_BYTES,
        least_bytes: MIN_WIRE_BYTES,
    };

    /// Sizes from parameters. If control packets are smaller than Ethernet's smallest frame, data
    /// packets may be as small, too.
    pub fn new(header_bytes: u64, control_bytes: u64) -> PacketSizes {
        let (header_bytes, control_bytes) = (header_bytes as u32, control_bytes as u32);
        PacketSizes { header_bytes, control_bytes, least_bytes: control_bytes.min(MIN_WIRE_BYTES) }
    }

    /// The largest of each size; the standard sizes if there are none.
    pub fn largest(all: impl Iterator<Item = PacketSizes>) -> PacketSizes {
        let larger = |a: PacketSizes, b: PacketSizes| PacketSizes {
            header_bytes: a.header_bytes.max(b.header_bytes),
            control_bytes: a.control_bytes.max(b.control_bytes),
            least_bytes: a.least_bytes.max(b.least_bytes),
        };
        all.reduce(larger).unwrap_or(PacketSizes::STANDARD)
    }

    /// A data packet with this payload.
    #[inline]
    pub const fn data(&self, payload_bytes: u32) -> u32 {
        let wire_bytes = payload_bytes + self.header_bytes;
        if wire_bytes > self.least_bytes { wire_bytes } else { self.least_bytes }
    }
}

/// The part of a packet that links and switches read and write. 32 bytes: two per cache line.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct Frame {
    /// Used by the driver: the time at which the next packet on the same link lands, or the time at
    /// which this packet entered its queue.
    pub at: Time,
    /// Largest queueing delay at any stamping switch so far.
    pub peak_hop_delay: Span,
    /// Destination host.
    pub dst: u32,
    /// Input of the ECMP hash: constant for a connection, or new for each packet under spraying.
    pub entropy: u32,
    /// Used by the driver: next packet in the same queue.
    pub next: u32,
    /// Bytes on the wire, preamble and gap included; at least [`MIN_WIRE_BYTES`], or the smallest
    /// packet that the protocol declares.
    pub wire_bytes: u16,
    /// Strict priority; 0 is the highest.
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
    /// The destination's rack announces that its circuit to the rack of the packet's source is up,
    /// or soon will be.
    pub const CIRCUIT: u8 = 16;
    /// Corrupted on the way: the receiving host's checksum fails.
    pub const CORRUPT: u8 = 32;
    /// Pause or resume frame from a switch to its neighbour. No transport receives it.
    pub const PAUSE: u8 = 64;
    /// A credit. It has a queue of its own at switches with credit queues.
    pub const CREDIT: u8 = 128;
}

/// The transport header in memory, 64 bytes. The protocol declares its size on the wire in
/// `wire_bytes`, and its [`Header`](crate::wire::Header) defines the format.
///
/// Drivers read only the named fields. The transport's header file defines the meaning of `tag` and
/// `words` ([`Carried`](crate::wire::Carried)); no other code interprets them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct Body {
    /// Sending host.
    pub src: u32,
    /// Number that the application assigned to the message.
    pub message: u32,
    /// Payload bytes of the packet; 0 except in data packets.
    pub payload_bytes: u32,
    /// Index of the host's transport that it belongs to. Set by the driver.
    pub transport: u16,
    /// The payload is a retransmission.
    pub is_retransmission: bool,
    /// Kind and flags, defined by the transport.
    pub tag: u8,
    /// Departure time of the data packet at its NIC, plus the time that drivers have held it or its
    /// reply since arrival. So `now - sent_at` is a round trip from NIC to NIC. Replies echo the
    /// field. Zero if the transport measures no round trips.
    pub sent_at: Time,
    /// Contents defined by the transport.
    pub words: [u64; 5],
}

crate::record! {
    /// Record of one switch about one packet, taken when the packet starts to leave it.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    #[repr(C)]
    pub struct Hop {
        /// Time at which the packet started to leave.
        at: Time,
        /// Wire bytes that the port had sent before this packet.
        tx_bytes: u64,
        /// Rate of the port.
        rate: Rate,
        /// Wire bytes queued behind this packet.
        queue_bytes: u32,
        /// Index of the port. It changes when the path changes.
        port: u32,
    }
}

/// Hop records of one packet, in the order of the path.
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
    /// Removes all records.
    #[inline]
    pub fn clear(&mut self) {
        self.len = 0;
    }
    /// Appends a record. Records beyond [`MAX_HOPS`] are dropped.
    #[inline]
    pub fn push(&mut self, hop: Hop) {
        if let Some(slot) = self.hops.get_mut(self.len as usize) {
            *slot = hop;
            self.len += 1;
        }
    }
    /// Replaces the records. Records beyond [`MAX_HOPS`] are dropped.
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

/// One packet, in memory that the driver owns.
#[derive(Debug)]
pub struct PacketMut<'a> {
    /// The part that the fabric reads.
    pub frame: &'a mut Frame,
    /// The transport header.
    pub body: &'a mut Body,
    /// Telemetry; empty if no protocol needs it. A reply keeps what the data packet collected.
    pub hops: &'a mut HopTrace,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn data_is_padded_to_the_smallest_packet() {
        let wire = |sizes: PacketSizes| [1, 4, 5, 1_000].map(|payload| sizes.data(payload));
        assert_eq!(wire(PacketSizes::STANDARD), [84, 84, 85, 1_080]);
        assert_eq!(PacketSizes::new(80, 84), PacketSizes::STANDARD);
        assert_eq!(wire(PacketSizes::new(40, 40)), [41, 44, 45, 1_040]);
        assert_eq!(wire(PacketSizes::new(40, 60)), [60, 60, 60, 1_040]);
        assert_eq!(wire(PacketSizes::new(40, 200)), [84, 84, 84, 1_040]);
    }

    #[test]
    fn records_keep_their_size() {
        assert_eq!(core::mem::size_of::<Frame>(), 32);
        assert_eq!(core::mem::size_of::<Body>(), 64);
        assert_eq!(core::mem::size_of::<Hop>(), 32);
    }
}
