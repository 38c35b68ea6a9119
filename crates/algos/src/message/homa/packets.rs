//! Wire sizes of packets, as in the authors' simulator: 66 bytes of Ethernet, IP, UDP and gap, plus
//! Homa's header, which is longer in packets that describe their message completely.

use core::ops::Range;

use tidegate_core::PacketSizes;

use crate::kit::segments::Segments;

/// Bytes of an unscheduled packet's header beyond `header_bytes`: 30 bytes are Homa's, 14 counted.
pub(super) const MORE_UNSCHEDULED: u32 = 16;
/// The same of a granted packet: 16 bytes are Homa's.
const MORE_SCHEDULED: u32 = 2;
/// Bytes of a grant beyond `control_bytes`: 20 bytes are Homa's.
const MORE_GRANT: u32 = 2;
/// Acknowledged messages that fit into the smallest packet; each further one adds `ACK_BYTES`.
const ACKS_IN_SMALLEST: u32 = 2;
const ACK_BYTES: u32 = 8;

/// Packets of a message, with at most `mtu` bytes of payload each.
#[derive(Clone, Copy, Debug)]
pub(super) struct Packets {
    pub(super) mtu: u64,
    pub(super) sizes: PacketSizes,
    /// Number of unscheduled packets at the start of a message.
    pub(super) unscheduled: u64,
}

impl Packets {
    /// Division of a message into packets.
    #[inline]
    pub(super) fn segments(self) -> Segments {
        Segments { mtu: self.mtu, sizes: self.sizes }
    }

    /// Number of packets of a message.
    #[inline]
    pub(super) fn of(self, size: u64) -> u64 {
        size.div_ceil(self.mtu)
    }

    /// Number of unscheduled packets of a message.
    pub(super) fn unscheduled_of(self, size: u64) -> u64 {
        self.of(size).min(self.unscheduled)
    }

    /// Payload of a packet.
    #[inline]
    pub(super) fn payload(self, size: u64, packet: u64) -> u64 {
        self.left(size, packet).min(self.mtu)
    }

    /// Payload of a packet and of all packets behind it.
    #[inline]
    pub(super) fn left(self, size: u64, packet: u64) -> u64 {
        size.saturating_sub(packet * self.mtu)
    }

    /// Wire bytes of a full granted packet.
    pub(super) fn full(self) -> u64 {
        self.wire(self.mtu, true)
    }

    /// Wire bytes of a message if all packets are unscheduled, and if all are granted.
    pub(super) fn message_wire(self, size: u64) -> (u64, u64) {
        let (packets, unscheduled) = (self.of(size), self.unscheduled_of(size));
        let granted = self.wire_of(size, unscheduled..packets, true);
        (self.wire_of(size, 0..unscheduled, false), granted)
    }

    /// Wire bytes of some packets of a message.
    pub(super) fn wire_of(self, size: u64, packets: Range<u64>, scheduled: bool) -> u64 {
        if packets.is_empty() {
            return 0;
        }
        // All but the last packet of a message are full.
        let (full, last) = (packets.end - 1 - packets.start, packets.end - 1);
        full * self.wire(self.mtu, scheduled) + self.wire(self.payload(size, last), scheduled)
    }

    /// Wire bytes of a packet with this payload.
    #[inline]
    pub(super) fn wire(self, payload: u64, scheduled: bool) -> u64 {
        let more = if scheduled { MORE_SCHEDULED } else { MORE_UNSCHEDULED };
        self.sizes.data(payload as u32 + more) as u64
    }

    /// Wire bytes of a grant.
    pub(super) fn grant_wire(self) -> u32 {
        self.sizes.control_bytes + MORE_GRANT
    }

    /// Wire bytes of an acknowledgement of this many messages.
    pub(super) fn ack_wire(self, messages: u32) -> u32 {
        self.sizes.control_bytes + ACK_BYTES * messages.saturating_sub(ACKS_IN_SMALLEST)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_is_the_sum_of_its_packets() {
        let packets = Packets { mtu: 1442, sizes: PacketSizes::STANDARD, unscheduled: 3 };
        for size in [1, 1442, 1443, 3 * 1442, 3 * 1442 + 1, 9_000, 14_420] {
            let scheduled = |packet| packet >= packets.unscheduled_of(size);
            let all = |which| {
                let of = (0..packets.of(size)).filter(|&packet| scheduled(packet) == which);
                of.map(|packet| packets.wire(packets.payload(size, packet), which)).sum::<u64>()
            };
            assert_eq!(packets.message_wire(size), (all(false), all(true)), "{size} B");
            let payload = (0..packets.of(size)).map(|packet| packets.payload(size, packet));
            assert_eq!(payload.sum::<u64>(), size);
        }
        // The authors' sizes: 1,538 B hold 1,442 B of payload in an unscheduled packet, or 1,456 B
        // in a granted one.
        let wire = |payload, scheduled| packets.wire(payload, scheduled);
        assert_eq!((wire(1442, false), wire(1456, true), wire(1, true)), (1538, 1538, 84));
        assert_eq!([1, 2, 3, 5].map(|messages| packets.ack_wire(messages)), [84, 84, 92, 108]);
        assert_eq!(packets.grant_wire(), 86);
        let small = Packets { sizes: PacketSizes::new(40, 40), ..packets };
        assert_eq!([small.wire(1000, false), small.wire(1000, true)], [1056, 1042]);
        assert_eq!([small.grant_wire(), small.ack_wire(3)], [42, 48]);
    }
}
