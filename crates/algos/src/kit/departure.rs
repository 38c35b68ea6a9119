//! A packet as it leaves: the same fields to fill in SIRD, the toy and windowed.

use tidegate_core::wire::Carried;
use tidegate_core::{PacketMut, Span};

/// What the fabric is told of a packet.
pub(crate) struct Departure {
    pub(crate) dst: u32,
    pub(crate) entropy: u32,
    /// At least [`MIN_WIRE_BYTES`](tidegate_core::MIN_WIRE_BYTES).
    pub(crate) wire_bytes: u32,
    pub(crate) payload_bytes: u32,
    pub(crate) priority: u8,
    pub(crate) flags: u8,
}

impl Departure {
    /// Writes the packet that host `src` sends. What the driver keeps in the frame stays.
    #[inline(always)]
    pub(crate) fn write<H: Carried>(self, src: u32, header: &H, packet: PacketMut<'_>) {
        let frame = packet.frame;
        frame.peak_hop_delay = Span::ZERO;
        frame.dst = self.dst;
        frame.entropy = self.entropy;
        frame.wire_bytes = self.wire_bytes as u16;
        frame.priority = self.priority;
        frame.flags = self.flags;
        packet.body.src = src;
        packet.body.payload_bytes = self.payload_bytes;
        header.write(packet.body);
        packet.hops.clear();
    }
}
