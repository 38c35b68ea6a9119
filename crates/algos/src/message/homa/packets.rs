//! Wire sizes of packets, as in the authors' simulator: 66 bytes of Ethernet, IP, UDP and gap, plus
//! Homa's header, which is longer in packets that describe their message completely.

use core::ops::Range;

use tidegate_core::MIN_WIRE_BYTES;

use crate::kit::segments::Segments;

/// Headers and gap of an unscheduled packet: 30 bytes are Homa's.
pub(super) const UNSCHEDULED_HEADER_BYTES: u64 = 96;
/// Headers and gap of a granted packet: 16 bytes are Homa's.
const SCHEDULED_HEADER_BYTES: u64 = 82;
/// A grant on the wire: 20 bytes are Homa's.
pub(super) const GRANT_WIRE_BYTES: u32 = 86;
/// Acknowledged messages that fit into the smallest packet; each further one adds `ACK_BYTES`.
const ACKS_IN_SMALLEST: u32 = 2;
const ACK_BYTES: u32 = 8;

/// Packets of a message, with at most `mtu` bytes of payload each.
#[derive(Clone, Copy, Debug)]
pub(super) struct Packets {
    pub(super) mtu: u64,
    /// Number of unscheduled packets at the start of a message.
    pub(super) unscheduled: u64,
}

impl Packets {
    /// Division of a message into packets.
    #[inline]
    pub(super) fn segments(self) -> Segments {
        Segments { mtu: self.mtu }
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
        wire(self.mtu, true)
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
        full * wire(self.mtu, scheduled) + wire(self.payload(size, last), scheduled)
    }
}

/// Wire bytes of a packet with this payload.
#[inline]
pub(super) fn wire(payload: u64, scheduled: bool) -> u64 {
    let headers = if scheduled { SCHEDULED_HEADER_BYTES } else { UNSCHEDULED_HEADER_BYTES };
    (payload + headers).max(MIN_WIRE_BYTES as u64)
}

/// Wire bytes of an acknowledgement of this many messages.
pub(super) fn ack_wire(messages: u32) -> u32 {
    MIN_WIRE_BYTES + ACK_BYTES * messages.saturating_sub(ACKS_IN_SMALLEST)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_is_the_sum_of_its_packets() {
        let packets = Packets { mtu: 1442, unscheduled: 3 };
        for size in [1, 1442, 1443, 3 * 1442, 3 * 1442 + 1, 9_000, 14_420] {
            let scheduled = |packet| packet >= packets.unscheduled_of(size);
            let all = |which| {
                let of = (0..packets.of(size)).filter(|&packet| scheduled(packet) == which);
                of.map(|packet| wire(packets.payload(size, packet), which)).sum::<u64>()
            };
            assert_eq!(packets.message_wire(size), (all(false), all(true)), "{size} B");
            let payload = (0..packets.of(size)).map(|packet| packets.payload(size, packet));
            assert_eq!(payload.sum::<u64>(), size);
        }
        // The authors' sizes: 1,538 B hold 1,442 B of payload in an unscheduled packet, or 1,456 B
        // in a granted one.
        assert_eq!((wire(1442, false), wire(1456, true), wire(1, true)), (1538, 1538, 84));
        assert_eq!([1, 2, 3, 5].map(ack_wire), [84, 84, 92, 108]);
    }
}
