//! Headers of windowed transports and their layout in memory.

use tidegate_core::wire::Carried;
use tidegate_core::{Body, Span, Time, frame_flag, headers};

use crate::kit::words::{flag, pair};

headers! {
    /// Windowed transports: connections of numbered packets around any congestion control.
    pub enum Header = "windowed", version 2, port 52700;
    /// A packet of a connection, with payload.
    Data = 0 {
        flags {
            /// The last packet of its message.
            end_of_message,
            /// Retransmission.
            retransmission,
            /// Probe of a path: no payload, and the number of a packet that was acknowledged.
            probe,
        }
        fields {
            /// The sender's number of the connection; the receiver returns it in acknowledgements.
            connection: u32,
            /// The connection's number among those of this sender to this receiver.
            lane: u32,
            /// The sender's number of the message.
            message: u32,
            /// Number of the packet in its connection.
            seq: u64,
            /// Byte offset of the payload in the message.
            offset: u64,
            /// Departure time by the sender's clock; the receiver returns it in the
            /// acknowledgement.
            sent_at: Time,
        }
    }
    /// Acknowledges packets of a connection.
    Ack = 1 {
        flags {
            /// The acknowledged packet was marked.
            marked,
            /// The acknowledged packet arrived too early and was dropped: all packets from
            /// `cumulative` on must be sent again. Under `recovery = "trimmed"`: it arrived without
            /// its payload and must be sent again.
            refused,
            /// The packet lost its payload at the port to the receiver.
            last_hop,
            /// The packet was a probe.
            probe,
        }
        fields {
            /// As in the acknowledged packet.
            connection: u32,
            /// As in the acknowledged packet.
            lane: u32,
            /// As in the acknowledged packet.
            message: u32,
            /// Number of the acknowledged packet.
            seq: u64,
            /// Every packet below this number has arrived.
            cumulative: u64,
            /// Whether packets `cumulative + 1` and following have arrived, one bit each, lowest
            /// bit first.
            sack: u64 as Bits,
            /// As in the acknowledged packet, plus the time that the receiver held the
            /// acknowledgement.
            sent_at: Time,
            /// Largest queueing delay of a hop in the acknowledged packet.
            peak_hop_delay: Span,
        }
    }
}

/// The lowest bit of a tag distinguishes acknowledgements from data; the other bits are flags of
/// either. The echoed frame flag uses the frame's bit.
const ACK: u8 = 1;
const END_OF_MESSAGE: u8 = 2;
pub(super) const MARKED: u8 = frame_flag::CONGESTION_EXPERIENCED;
const REFUSED: u8 = 4;
const LAST_HOP: u8 = 8;
/// In data and in acknowledgements.
const PROBE: u8 = 32;

impl Data {
    /// Reads the header of a body that holds data.
    #[inline(always)]
    pub(super) fn read(body: &Body) -> Data {
        let [name, seq, offset, ..] = body.words;
        Data {
            end_of_message: body.tag & END_OF_MESSAGE != 0,
            retransmission: body.is_retransmission,
            probe: body.tag & PROBE != 0,
            connection: name as u32,
            lane: (name >> 32) as u32,
            message: body.message,
            seq,
            offset,
            sent_at: body.sent_at,
        }
    }
}

impl Ack {
    /// Reads the header of a body that holds an acknowledgement.
    #[inline(always)]
    pub(super) fn read(body: &Body) -> Ack {
        let [name, seq, cumulative, sack, peak] = body.words;
        Ack {
            marked: body.tag & MARKED != 0,
            refused: body.tag & REFUSED != 0,
            last_hop: body.tag & LAST_HOP != 0,
            probe: body.tag & PROBE != 0,
            connection: name as u32,
            lane: (name >> 32) as u32,
            message: body.message,
            seq,
            cumulative,
            sack,
            sent_at: body.sent_at,
            peak_hop_delay: Span::ps(peak),
        }
    }

    /// Turns the data in `body`, which arrived with these frame flags, into its acknowledgement.
    /// Repeated fields keep their place.
    #[inline(always)]
    pub(super) fn acknowledge(
        body: &mut Body,
        frame_flags: u8,
        cumulative: u64,
        sack: u64,
        peak_hop_delay: Span,
    ) {
        body.payload_bytes = 0;
        body.is_retransmission = false;
        body.tag = ACK | frame_flags & MARKED | body.tag & PROBE;
        let [_, _, third, fourth, fifth] = &mut body.words;
        (*third, *fourth, *fifth) = (cumulative, sack, peak_hop_delay.as_ps());
    }

    /// Marks the acknowledgement in `body` as a refusal of a dropped packet.
    pub(super) fn refuse(body: &mut Body) {
        body.tag |= REFUSED;
    }

    /// Marks the acknowledgement in `body` as that of a packet without payload.
    pub(super) fn request_again(body: &mut Body, is_last_hop: bool) {
        body.tag |= if is_last_hop { REFUSED | LAST_HOP } else { REFUSED };
    }
}

impl Carried for Header {
    #[inline(always)]
    fn read(body: &Body) -> Option<Header> {
        Some(match body.tag & ACK {
            0 => Header::Data(Data::read(body)),
            _ => Header::Ack(Ack::read(body)),
        })
    }

    #[inline(always)]
    fn write(&self, body: &mut Body) {
        match *self {
            Header::Data(data) => {
                body.message = data.message;
                body.is_retransmission = data.retransmission;
                body.tag = flag(data.end_of_message, END_OF_MESSAGE) | flag(data.probe, PROBE);
                body.sent_at = data.sent_at;
                body.words = [pair(data.connection, data.lane), data.seq, data.offset, 0, 0];
            }
            Header::Ack(ack) => {
                body.message = ack.message;
                body.is_retransmission = false;
                let marked = flag(ack.marked, MARKED);
                let refused = flag(ack.refused, REFUSED) | flag(ack.last_hop, LAST_HOP);
                body.tag = ACK | marked | refused | flag(ack.probe, PROBE);
                body.sent_at = ack.sent_at;
                let name = pair(ack.connection, ack.lane);
                let peak = ack.peak_hop_delay.as_ps();
                body.words = [name, ack.seq, ack.cumulative, ack.sack, peak];
            }
        }
    }

    fn offset(&self) -> Option<u64> {
        match self {
            Header::Data(data) => Some(data.offset),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn acknowledgement_repeats_the_packet_fields() {
        let data = Data {
            end_of_message: true,
            retransmission: true,
            probe: false,
            connection: 1,
            lane: 2,
            message: 3,
            seq: 4,
            offset: 5,
            sent_at: Time::ps(6),
        };
        let mut body = Body { payload_bytes: 7, ..Body::default() };
        Header::Data(data).write(&mut body);
        let flags = frame_flag::CONGESTION_EXPERIENCED | frame_flag::ECN_CAPABLE;
        Ack::acknowledge(&mut body, flags | frame_flag::CIRCUIT, 8, 9, Span::ps(10));
        let ack = Ack {
            marked: true,
            refused: false,
            last_hop: false,
            probe: false,
            connection: 1,
            lane: 2,
            message: 3,
            seq: 4,
            cumulative: 8,
            sack: 9,
            sent_at: Time::ps(6),
            peak_hop_delay: Span::ps(10),
        };
        let mut written = Body::default();
        Header::Ack(ack).write(&mut written);
        assert_eq!((body, Header::read(&body)), (written, Some(Header::Ack(ack))));
        let refused = Ack { refused: true, ..ack };
        Ack::refuse(&mut body);
        Header::Ack(refused).write(&mut written);
        assert_eq!((body, Header::read(&body)), (written, Some(Header::Ack(refused))));
        let trimmed = Ack { last_hop: true, ..refused };
        Ack::request_again(&mut body, true);
        Header::Ack(trimmed).write(&mut written);
        assert_eq!((body, Header::read(&body)), (written, Some(Header::Ack(trimmed))));
    }

    #[test]
    fn acknowledgement_of_a_probe_has_its_flag() {
        for probe in [false, true] {
            let mut body = Body::default();
            let data = Header::read(&body);
            let Some(Header::Data(data)) = data else { panic!("{data:?}") };
            Header::Data(Data { probe, end_of_message: !probe, ..data }).write(&mut body);
            Ack::acknowledge(&mut body, 0, 1, 0, Span::ZERO);
            assert!(matches!(Header::read(&body), Some(Header::Ack(ack)) if ack.probe == probe));
        }
    }
}
