//! How a message is cut into packets. SIRD and the toy cut messages alike, and what is paced or
//! counted in bytes on the wire (SIRD's and ExpressPass's credit, Homa's grants) asks what they
//! cost there.

use tidegate_core::{HEADER_BYTES, MIN_WIRE_BYTES};

/// Packets of at most so much payload.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Segments {
    pub(crate) mtu: u64,
}

impl Segments {
    /// Bytes on the wire of a full packet.
    pub(crate) fn full(self) -> u64 {
        self.mtu + HEADER_BYTES as u64
    }
    /// Packets of a message.
    pub(crate) fn packets(self, size: u64) -> u64 {
        size.div_ceil(self.mtu)
    }
    /// Payload of one of its packets.
    #[inline]
    pub(crate) fn payload(self, size: u64, packet: u64) -> u64 {
        (size - packet * self.mtu).min(self.mtu)
    }
    /// Bytes on the wire of one of its packets.
    #[inline]
    pub(crate) fn wire(self, size: u64, packet: u64) -> u64 {
        (self.payload(size, packet) + HEADER_BYTES as u64).max(MIN_WIRE_BYTES as u64)
    }
    /// Bytes on the wire of its first packets.
    pub(crate) fn wire_below(self, size: u64, packets: u64) -> u64 {
        let Some(last) = packets.checked_sub(1) else { return 0 };
        last.saturating_mul(self.full()).saturating_add(self.wire(size, last))
    }
    /// Bytes on the wire of all of them.
    pub(crate) fn message_wire(self, size: u64) -> u64 {
        self.wire_below(size, self.packets(size))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tidegate_core::Message;

    #[test]
    fn packets_make_up_the_message_and_its_bytes_on_the_wire() {
        let segments = Segments { mtu: 1458 };
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
}
