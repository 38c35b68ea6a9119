//! A departing packet: the fields that SIRD and windowed fill in alike.

use tidegate_core::wire::Carried;
use tidegate_core::{PacketMut, PacketSizes, Span};

/// Frame fields of a packet that the fabric reads.
pub(crate) struct Departure {
    pub(crate) dst: u32,
    pub(crate) entropy: u32,
    pub(crate) wire_bytes: u32,
    pub(crate) payload_bytes: u32,
    pub(crate) priority: u8,
    pub(crate) flags: u8,
}

impl Departure {
    /// A data packet with this payload.
    #[inline(always)]
    pub(crate) fn data(
        sizes: &PacketSizes,
        dst: u32,
        entropy: u32,
        payload_bytes: u32,
        priority: u8,
    ) -> Departure {
        let wire_bytes = sizes.data(payload_bytes);
        Departure { dst, entropy, wire_bytes, payload_bytes, priority, flags: 0 }
    }

    /// A packet without payload.
    #[inline(always)]
    pub(crate) fn control(sizes: &PacketSizes, dst: u32, entropy: u32, priority: u8) -> Departure {
        let wire_bytes = sizes.control_bytes;
        Departure { dst, entropy, wire_bytes, payload_bytes: 0, priority, flags: 0 }
    }

    /// Writes the packet that host `src` sends. Frame fields of the driver keep their values.
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

#[cfg(test)]
mod tests {
    use super::*;
    use tidegate_core::{Body, Frame, Hop, HopTrace, Time, headers};

    headers! {
        /// One packet.
        pub enum Header = "test", version 1, port 1;
        /// The only kind.
        Data = 0 { flags {} fields {} }
    }

    impl Carried for Header {
        fn read(_body: &Body) -> Option<Header> {
            Some(Header::Data(Data {}))
        }
        fn write(&self, _body: &mut Body) {}
        fn offset(&self) -> Option<u64> {
            Some(0)
        }
    }

    #[test]
    fn no_field_of_the_previous_packet_remains() {
        let mut frame = Frame {
            peak_hop_delay: Span::us(3),
            entropy: 4,
            priority: 5,
            flags: 6,
            at: Time::us(7),
            next: 8,
            ..Frame::default()
        };
        let (mut body, mut hops) = (Body { src: 9, ..Body::default() }, HopTrace::default());
        hops.push(Hop { at: Time::us(1), ..Hop::default() });
        let packet = PacketMut { frame: &mut frame, body: &mut body, hops: &mut hops };
        let departure = Departure {
            dst: 1,
            entropy: 2,
            wire_bytes: 100,
            payload_bytes: 22,
            priority: 0,
            flags: 1,
        };
        departure.write(3, &Header::Data(Data {}), packet);
        let written = Frame {
            peak_hop_delay: Span::ZERO,
            dst: 1,
            entropy: 2,
            wire_bytes: 100,
            priority: 0,
            flags: 1,
            // Set by the driver.
            at: Time::us(7),
            next: 8,
        };
        assert_eq!((frame, body.src, body.payload_bytes), (written, 3, 22));
        assert!(hops.as_slice().is_empty());
    }
}
