//! Headers of SIRD and their layout in memory.
//!
//! The pair of hosts, the lane and the lane's generation identify a message. Every announcement by
//! a sender ([`Announced`]) contains everything that its receiver must know.

use tidegate_core::wire::Carried;
use tidegate_core::{Body, Time, headers};

use crate::kit::words::{flag, pair, unpair};

headers! {
    /// SIRD: receivers issue credit.
    pub enum Header = "sird", version 1, port 52701;
    /// A packet with payload.
    Data = 0 {
        flags {
            /// The last packet of its message.
            end_of_message,
            /// Retransmission.
            retransmission,
            /// The sender holds more credit than its threshold (`sird.csn`).
            sender_congested,
        }
        fields {
            /// The sender's slot of the message; the receiver returns it.
            connection: u32,
            /// Number of the message slot between this sender and this receiver.
            lane: u32,
            /// Number of earlier uses of the lane.
            generation: u32,
            /// The sender's number of the message.
            message: u32,
            /// Number of unscheduled packets at the start of the message.
            unscheduled: u32,
            /// Weight of the message among those of other tenants.
            weight: u32,
            /// Bytes of the message; all ones: unknown end.
            size: u64,
            /// Byte offset of the payload in the message.
            offset: u64,
            /// Departure time by the sender's clock; zero if the receiver does not measure delays.
            sent_at: Time,
        }
    }
    /// Announces a message and requests credit (CREDITREQ).
    Request = 1 {
        flags {
            /// Repeated, because there was no response.
            repeated,
        }
        fields {
            /// The sender's slot of the message.
            connection: u32,
            /// Number of the message slot between this sender and this receiver.
            lane: u32,
            /// Number of earlier uses of the lane.
            generation: u32,
            /// The sender's number of the message.
            message: u32,
            /// Number of unscheduled packets at the start of the message.
            unscheduled: u32,
            /// Weight of the message among those of other tenants.
            weight: u32,
            /// Bytes of the message; all ones: unknown end.
            size: u64,
            /// If repeated: byte offset of the first unsent byte.
            sent: u64,
        }
    }
    /// Allows a sender to send a packet of any message to this receiver.
    Credit = 2 {
        flags {}
        fields {
            /// The sender's slot of the message that the credit was issued for.
            connection: u32,
            /// Lane of that message.
            lane: u32,
            /// The sender's number of that message.
            message: u32,
            /// Payload of the packet that the credit was issued for; zero: only the sum is
            /// repeated.
            payload_bytes: u32,
            /// Byte offset of that packet in the message.
            offset: u64,
            /// Total credit issued to this sender, in bytes on the wire; it compensates for lost
            /// credits.
            granted: u64,
        }
    }
    /// The message has arrived completely.
    Ack = 3 {
        flags {}
        fields {
            /// As in the message's packets.
            connection: u32,
            /// As in the message's packets.
            lane: u32,
            /// As in the message's packets.
            generation: u32,
            /// As in the message's packets.
            message: u32,
            /// Total credit issued to this sender, in bytes on the wire; zero if none is to be
            /// discarded.
            granted: u64,
            /// Credit to discard, for packets that the message turned out not to have.
            excess: u64,
        }
    }
    /// Requests lost packets.
    Resend = 4 {
        flags {
            /// No packet of the message has arrived for a timeout; otherwise packets are missing
            /// between others.
            stalled,
        }
        fields {
            /// As in the message's packets.
            connection: u32,
            /// As in the message's packets.
            lane: u32,
            /// As in the message's packets.
            generation: u32,
            /// As in the message's packets.
            message: u32,
            /// Byte offset of the first missing byte.
            offset: u64,
            /// Missing packets from that offset on, one bit each, lowest bit first.
            missing: u64 as Bits,
        }
    }
    /// Answers a request for packets that have not been sent yet.
    Busy = 5 {
        flags {}
        fields {
            /// The sender's slot of the message.
            connection: u32,
            /// Number of the message slot between this sender and this receiver.
            lane: u32,
            /// Number of earlier uses of the lane.
            generation: u32,
            /// The sender's number of the message.
            message: u32,
            /// Number of unscheduled packets at the start of the message.
            unscheduled: u32,
            /// Weight of the message among those of other tenants.
            weight: u32,
            /// Bytes of the message; all ones: unknown end.
            size: u64,
        }
    }
}

/// Properties of a message as its sender announces them.
#[derive(Clone, Copy, Debug)]
pub(super) struct Announced {
    pub(super) connection: u32,
    pub(super) lane: u32,
    pub(super) generation: u32,
    pub(super) message: u32,
    pub(super) unscheduled: u32,
    pub(super) weight: u32,
    pub(super) size: u64,
}

impl Data {
    /// Whether it is one of the packets at the start of the message that need no credit.
    #[inline]
    pub(super) fn is_unscheduled(&self, mtu: u64) -> bool {
        self.offset < self.unscheduled as u64 * mtu
    }

    #[inline]
    pub(super) fn announced(&self) -> Announced {
        let Data { connection, lane, generation, message, unscheduled, weight, size, .. } = *self;
        Announced { connection, lane, generation, message, unscheduled, weight, size }
    }
}

impl Request {
    pub(super) fn announced(&self) -> Announced {
        let Request { connection, lane, generation, message, unscheduled, weight, size, .. } =
            *self;
        Announced { connection, lane, generation, message, unscheduled, weight, size }
    }
}

impl Header {
    /// Lane of the message.
    #[inline]
    pub(super) fn lane(&self) -> u32 {
        match self {
            Header::Data(Data { lane, .. })
            | Header::Ack(Ack { lane, .. })
            | Header::Credit(Credit { lane, .. })
            | Header::Request(Request { lane, .. })
            | Header::Resend(Resend { lane, .. })
            | Header::Busy(Busy { lane, .. }) => *lane,
        }
    }
}

/// Packet kind, in the low bits of a tag; kinds that announce a message first.
const KIND: u8 = 0b111;
const DATA: u8 = 0;
const REQUEST: u8 = 1;
const CREDIT: u8 = 2;
const ACK: u8 = 3;
const RESEND: u8 = 4;
const BUSY: u8 = 5;
/// Flags, in the bits above the kind.
const END_OF_MESSAGE: u8 = KIND + 1;
const SENDER_CONGESTED: u8 = END_OF_MESSAGE << 1;
const STALLED: u8 = END_OF_MESSAGE;

/// Properties of a packet that a receiver needs before it parses the header.
pub(super) struct Preview {
    /// Whether it describes a message completely.
    pub(super) announces: bool,
    /// Whether it is data, and so carries its departure time if requested.
    pub(super) is_data: bool,
    /// Whether it is data of a congested sender.
    pub(super) sender_congested: bool,
}

impl Preview {
    /// Reads a body; `None` if it holds no SIRD packet.
    #[inline(always)]
    pub(super) fn of(body: &Body) -> Option<Preview> {
        let kind = body.tag & KIND;
        (kind <= BUSY).then_some(Preview {
            announces: kind <= REQUEST,
            is_data: kind == DATA,
            sender_congested: kind == DATA && body.tag & SENDER_CONGESTED != 0,
        })
    }
}

impl Carried for Header {
    #[inline(always)]
    fn read(body: &Body) -> Option<Header> {
        let ((connection, lane), message) = (unpair(body.words[0]), body.message);
        let [_, which, third, fourth, weight] = body.words;
        let weight = weight as u32;
        let (generation, unscheduled) = unpair(which);
        let is = |flag| body.tag & flag != 0;
        Some(match body.tag & KIND {
            DATA => Header::Data(Data {
                end_of_message: is(END_OF_MESSAGE),
                retransmission: body.is_retransmission,
                sender_congested: is(SENDER_CONGESTED),
                connection,
                lane,
                generation,
                message,
                unscheduled,
                weight,
                size: third,
                offset: fourth,
                sent_at: body.sent_at,
            }),
            ACK => Header::Ack(Ack {
                connection,
                lane,
                generation,
                message,
                granted: third,
                excess: fourth,
            }),
            CREDIT => Header::Credit(Credit {
                connection,
                lane,
                message,
                payload_bytes: generation,
                offset: third,
                granted: fourth,
            }),
            REQUEST => Header::Request(Request {
                repeated: body.is_retransmission,
                connection,
                lane,
                generation,
                message,
                unscheduled,
                weight,
                size: third,
                sent: fourth,
            }),
            RESEND => Header::Resend(Resend {
                stalled: is(STALLED),
                connection,
                lane,
                generation,
                message,
                offset: third,
                missing: fourth,
            }),
            BUSY => Header::Busy(Busy {
                connection,
                lane,
                generation,
                message,
                unscheduled,
                weight,
                size: third,
            }),
            _ => return None,
        })
    }

    #[inline(always)]
    fn write(&self, body: &mut Body) {
        body.is_retransmission = false;
        body.sent_at = Time::ZERO;
        let weight = match self {
            Header::Data(Data { weight, .. })
            | Header::Request(Request { weight, .. })
            | Header::Busy(Busy { weight, .. }) => *weight,
            Header::Credit(_) | Header::Ack(_) | Header::Resend(_) => 0,
        };
        let (tag, connection, lane, message, which, third, fourth) = match *self {
            Header::Data(h) => {
                body.is_retransmission = h.retransmission;
                body.sent_at = h.sent_at;
                let tag = DATA
                    | flag(h.end_of_message, END_OF_MESSAGE)
                    | flag(h.sender_congested, SENDER_CONGESTED);
                let which = pair(h.generation, h.unscheduled);
                (tag, h.connection, h.lane, h.message, which, h.size, h.offset)
            }
            Header::Ack(h) => {
                let which = pair(h.generation, 0);
                (ACK, h.connection, h.lane, h.message, which, h.granted, h.excess)
            }
            Header::Credit(h) => {
                let which = pair(h.payload_bytes, 0);
                (CREDIT, h.connection, h.lane, h.message, which, h.offset, h.granted)
            }
            Header::Request(h) => {
                body.is_retransmission = h.repeated;
                let which = pair(h.generation, h.unscheduled);
                (REQUEST, h.connection, h.lane, h.message, which, h.size, h.sent)
            }
            Header::Resend(h) => {
                let tag = RESEND | flag(h.stalled, STALLED);
                let which = pair(h.generation, 0);
                (tag, h.connection, h.lane, h.message, which, h.offset, h.missing)
            }
            Header::Busy(h) => {
                let which = pair(h.generation, h.unscheduled);
                (BUSY, h.connection, h.lane, h.message, which, h.size, 0)
            }
        };
        body.message = message;
        body.tag = tag;
        body.words = [pair(connection, lane), which, third, fourth, weight as u64];
    }

    fn offset(&self) -> Option<u64> {
        match self {
            Header::Data(data) => Some(data.offset),
            _ => None,
        }
    }
}
