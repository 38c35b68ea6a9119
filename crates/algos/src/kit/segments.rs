//! Division of a message into packets. SIRD and others divide messages alike, and protocols that
//! pace or count bytes on the wire (SIRD's and ExpressPass's credit, Homa's grants) compute wire
//! sizes here. All of them check arriving packets and message sizes against it.

use tidegate_core::{Message, PacketSizes};

/// Largest valid message size, except for messages of unknown size.
const MAX_SIZE: u64 = 1 << 56;

/// Whether a message may have this size.
pub(crate) fn is_size(size: u64) -> bool {
    size <= MAX_SIZE || size == Message::UNLIMITED
}

/// Packets with at most `mtu` bytes of payload, and their sizes on the wire.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Segments {
    pub(crate) mtu: u64,
    pub(crate) sizes: PacketSizes,
}

impl Segments {
    /// Bytes on the wire of a full packet.
    pub(crate) fn full(self) -> u64 {
        self.sizes.data(self.mtu as u32) as u64
    }
    /// Number of packets of a message.
    pub(crate) fn packets(self, size: u64) -> u64 {
        size.div_ceil(self.mtu)
    }
    /// Payload of one of its packets.
    #[inline]
    pub(crate) fn payload(self, size: u64, packet: u64) -> u64 {
        (size - packet * self.mtu).min(self.mtu)
    }
    /// Number of the packet with this payload at `offset`, if there is such a packet. Only the size
    /// is trusted.
    #[inline]
    pub(crate) fn packet_at(self, size: u64, offset: u64, payload_bytes: u32) -> Option<u64> {
        let packet = offset / self.mtu;
        let exists = packet * self.mtu == offset
            && offset < size
            && payload_bytes as u64 == self.payload(size, packet);
        exists.then_some(packet)
    }
    /// Number of packets of a message of unknown size that turns out to have `size` bytes and ends
    /// with a full packet; `None` if that is invalid, because it is too large or shorter than the
    /// `seen` packets.
    pub(crate) fn of_ended(self, size: u64, seen: u64) -> Option<u64> {
        let packets = self.packets(size);
        let is_so = size <= MAX_SIZE && size.is_multiple_of(self.mtu) && packets >= seen;
        is_so.then_some(packets)
    }
    /// Bytes on the wire of one of its packets.
    #[inline]
    pub(crate) fn wire(self, size: u64, packet: u64) -> u64 {
        self.sizes.data(self.payload(size, packet) as u32) as u64
    }
    /// Bytes on the wire of its first packets.
    pub(crate) fn wire_below(self, size: u64, packets: u64) -> u64 {
        let Some(last) = packets.checked_sub(1) else { return 0 };
        last.saturating_mul(self.full()).saturating_add(self.wire(size, last))
    }
    /// Bytes on the wire of all its packets.
    pub(crate) fn message_wire(self, size: u64) -> u64 {
        self.wire_below(size, self.packets(size))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packets_add_up_to_the_message() {
        let segments = Segments { mtu: 1458, sizes: PacketSizes::STANDARD };
        for size in [1, 3, 4, 5, 1457, 1458, 1459, 2 * 1458, 2 * 1458 + 1, 100_000] {
            let packets = segments.packets(size);
            let sum = |of: &dyn Fn(u64) -> u64, below| (0..below).map(of).sum::<u64>();
            assert_eq!(sum(&|packet| segments.payload(size, packet), packets), size);
            for below in 0..=packets {
                let wire = sum(&|packet| segments.wire(size, packet), below);
                assert_eq!(segments.wire_below(size, below), wire, "{below} packets of {size}");
            }
            assert_eq!(segments.message_wire(size), segments.wire_below(size, packets));
        }
        assert_eq!(segments.wire(1, 0), 84);
        assert_eq!((segments.message_wire(0), segments.packets(0)), (0, 0));
        assert_eq!(segments.message_wire(Message::UNLIMITED), u64::MAX, "saturates");
    }

    #[test]
    fn packet_has_its_offset_and_length() {
        let segments = Segments { mtu: 1000, sizes: PacketSizes::STANDARD };
        let cases = [
            (2_500, 0, 1000, Some(0)),
            (2_500, 2_000, 500, Some(2)),
            (2_500, 2_000, 1000, None),
            (2_500, 1_000, 500, None),
            (2_500, 1_500, 1000, None),
            (2_500, 3_000, 0, None),
            (2_500, u64::MAX, 1000, None),
            (0, 0, 0, None),
            (Message::UNLIMITED, 5_000, 1000, Some(5)),
            (Message::UNLIMITED, 5_000, 999, None),
        ];
        for (size, offset, payload, packet) in cases {
            let found = segments.packet_at(size, offset, payload);
            assert_eq!(found, packet, "{payload} B at {offset} of {size}");
        }
    }

    #[test]
    fn stopped_message_ends_behind_seen_full_packets() {
        let segments = Segments { mtu: 1000, sizes: PacketSizes::STANDARD };
        let ends = |size, seen| segments.of_ended(size, seen);
        assert_eq!([ends(3_000, 3), ends(3_000, 0), ends(0, 0)], [Some(3), Some(3), Some(0)]);
        assert_eq!([ends(3_000, 4), ends(2_500, 0)], [None; 2]);
        let largest = MAX_SIZE / 1000 * 1000;
        assert_eq!([ends(largest, 9), ends(largest + 1000, 9)], [Some(largest / 1000), None]);
        assert_eq!([MAX_SIZE, MAX_SIZE + 1, u64::MAX].map(is_size), [true, false, true]);
    }
}
