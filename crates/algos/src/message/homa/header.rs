//! Headers of Homa and their layout in memory.
//!
//! The pair of hosts, the lane and the lane's generation identify a message. Data packets and
//! requests for an acknowledgement carry everything a receiver must know about it ([`Announced`]).

use tidegate_core::wire::Carried;
use tidegate_core::{Body, Time, headers};

use super::incast::IncastRole;
use crate::kit::words::{flag, pair, unpair};

headers! {
    /// Homa: receivers grant packets and assign their priorities.
    pub enum Header = "homa", version 1, port 52710;
    /// A packet with payload.
    Data = 0 {
        flags {
            /// The last packet of its message.
            end_of_message,
            /// Retransmission.
            retransmission,
            /// Granted, or requested again.
            scheduled,
            /// Acknowledges another message.
            acknowledges,
            /// Requests that only the first packet of the reply to this message is unscheduled.
            wants_brief,
            /// The message is a reply.
            replies,
        }
        fields {
            /// Number of the message slot between this sender and this receiver.
            lane: u32,
            /// Number of earlier uses of the lane.
            generation: u32,
            /// The sender's number of the message.
            message: u32,
            /// Number of unscheduled packets at the start of the message.
            unscheduled: u32,
            /// Bytes of the message; all ones: unknown end.
            size: u64,
            /// Byte offset of the payload in the message.
            offset: u64,
            /// A message of the opposite direction that has arrived: lane in the low word,
            /// generation in the high word.
            acked: u64,
        }
    }
    /// Allows the sender of a message to send up to an offset.
    Grant = 1 {
        flags {}
        fields {
            /// As in the message's packets.
            lane: u32,
            /// As in the message's packets.
            generation: u32,
            /// As in the message's packets.
            message: u32,
            /// Level of the newly granted packets; 0 is the highest.
            level: u32,
            /// Bytes of the message that may be sent in total.
            granted: u64,
        }
    }
    /// Acknowledges up to five messages, each with its lane in the low word and its generation in
    /// the high word; all ones: none.
    Ack = 2 {
        flags {}
        fields {
            /// The sender's number of the first message if its receiver still knows it, otherwise
            /// zero.
            message: u32,
            /// First message.
            first: u64,
            /// Second message.
            second: u64,
            /// Third message.
            third: u64,
            /// Fourth message.
            fourth: u64,
            /// Fifth message.
            fifth: u64,
        }
    }
    /// Describes a message completely and requests its acknowledgement.
    NeedAck = 3 {
        flags {
            /// Everything allowed has been sent, without a response for a timeout.
            repeated,
            /// As in the message's packets.
            wants_brief,
            /// As in the message's packets.
            replies,
        }
        fields {
            /// As in the message's packets.
            lane: u32,
            /// As in the message's packets.
            generation: u32,
            /// As in the message's packets.
            message: u32,
            /// As in the message's packets.
            unscheduled: u32,
            /// As in the message's packets.
            size: u64,
            /// Byte offset of the first unsent byte.
            sent: u64,
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
    /// Answers a request for packets that are queued at the sender.
    Busy = 5 {
        flags {}
        fields {
            /// As in the message's packets.
            lane: u32,
            /// As in the message's packets.
            generation: u32,
            /// As in the message's packets.
            message: u32,
        }
    }
}

/// Properties of a message as its sender announces them.
#[derive(Clone, Copy, Debug)]
pub(super) struct Announced {
    pub(super) lane: u32,
    pub(super) generation: u32,
    pub(super) message: u32,
    pub(super) unscheduled: u32,
    pub(super) size: u64,
    pub(super) role: IncastRole,
}

impl Data {
    #[inline]
    pub(super) fn announced(&self) -> Announced {
        let Data { lane, generation, message, unscheduled, size, .. } = *self;
        let role = IncastRole { wants_brief: self.wants_brief, replies: self.replies };
        Announced { lane, generation, message, unscheduled, size, role }
    }
}

impl NeedAck {
    pub(super) fn announced(&self) -> Announced {
        let NeedAck { lane, generation, message, unscheduled, size, .. } = *self;
        let role = IncastRole { wants_brief: self.wants_brief, replies: self.replies };
        Announced { lane, generation, message, unscheduled, size, role }
    }
}

/// Placeholder for no message, if an acknowledgement names fewer than five.
pub(super) const NO_MESSAGE: u64 = u64::MAX;

impl Ack {
    pub(super) fn of(message: u32, names: [u64; 5]) -> Ack {
        let [first, second, third, fourth, fifth] = names;
        Ack { message, first, second, third, fourth, fifth }
    }

    /// Returns the messages that it names.
    pub(super) fn messages(&self) -> impl Iterator<Item = u64> {
        let Ack { first, second, third, fourth, fifth, .. } = *self;
        [first, second, third, fourth, fifth].into_iter().filter(|&message| message != NO_MESSAGE)
    }
}

impl Header {
    /// Lane of the message, or of the first of several.
    #[inline]
    pub(super) fn lane(&self) -> u32 {
        match self {
            Header::Data(Data { lane, .. })
            | Header::Grant(Grant { lane, .. })
            | Header::NeedAck(NeedAck { lane, .. })
            | Header::Resend(Resend { lane, .. })
            | Header::Busy(Busy { lane, .. }) => *lane,
            Header::Ack(ack) => ack.first as u32,
        }
    }
}

/// Packet kind, in the low bits of a tag.
const KIND: u8 = 0b111;
const DATA: u8 = 0;
const GRANT: u8 = 1;
const ACK: u8 = 2;
const NEED_ACK: u8 = 3;
const RESEND: u8 = 4;
const BUSY: u8 = 5;
/// Flags, in the bits above the kind.
const END_OF_MESSAGE: u8 = KIND + 1;
const SCHEDULED: u8 = END_OF_MESSAGE << 1;
const ACKNOWLEDGES: u8 = SCHEDULED << 1;
const WANTS_BRIEF: u8 = ACKNOWLEDGES << 1;
const REPLIES: u8 = WANTS_BRIEF << 1;
const STALLED: u8 = END_OF_MESSAGE;

/// Whether a body holds a packet that describes a message completely.
#[inline(always)]
pub(super) fn announces(body: &Body) -> bool {
    matches!(body.tag & KIND, DATA | NEED_ACK)
}

impl Carried for Header {
    #[inline(always)]
    fn read(body: &Body) -> Option<Header> {
        let message = body.message;
        let [which, second, third, fourth, fifth] = body.words;
        let ((lane, generation), (low, _)) = (unpair(which), unpair(second));
        let is = |flag| body.tag & flag != 0;
        Some(match body.tag & KIND {
            DATA => Header::Data(Data {
                end_of_message: is(END_OF_MESSAGE),
                retransmission: body.is_retransmission,
                scheduled: is(SCHEDULED),
                acknowledges: is(ACKNOWLEDGES),
                wants_brief: is(WANTS_BRIEF),
                replies: is(REPLIES),
                lane,
                generation,
                message,
                unscheduled: low,
                size: third,
                offset: fourth,
                acked: fifth,
            }),
            GRANT => Header::Grant(Grant { lane, generation, message, level: low, granted: third }),
            ACK => Header::Ack(Ack::of(message, body.words)),
            NEED_ACK => Header::NeedAck(NeedAck {
                repeated: body.is_retransmission,
                wants_brief: is(WANTS_BRIEF),
                replies: is(REPLIES),
                lane,
                generation,
                message,
                unscheduled: low,
                size: third,
                sent: fourth,
            }),
            RESEND => Header::Resend(Resend {
                stalled: is(STALLED),
                lane,
                generation,
                message,
                offset: third,
                missing: fourth,
            }),
            BUSY => Header::Busy(Busy { lane, generation, message }),
            _ => return None,
        })
    }

    #[inline(always)]
    fn write(&self, body: &mut Body) {
        body.is_retransmission = false;
        body.message = 0;
        let which = |lane, generation, message, body: &mut Body| {
            body.message = message;
            pair(lane, generation)
        };
        (body.tag, body.words) = match *self {
            Header::Data(h) => {
                body.is_retransmission = h.retransmission;
                let tag = DATA
                    | flag(h.end_of_message, END_OF_MESSAGE)
                    | flag(h.scheduled, SCHEDULED)
                    | flag(h.acknowledges, ACKNOWLEDGES)
                    | flag(h.wants_brief, WANTS_BRIEF)
                    | flag(h.replies, REPLIES);
                let first = which(h.lane, h.generation, h.message, body);
                (tag, [first, pair(h.unscheduled, 0), h.size, h.offset, h.acked])
            }
            Header::Grant(h) => {
                let first = which(h.lane, h.generation, h.message, body);
                (GRANT, [first, pair(h.level, 0), h.granted, 0, 0])
            }
            Header::Ack(h) => {
                body.message = h.message;
                (ACK, [h.first, h.second, h.third, h.fourth, h.fifth])
            }
            Header::NeedAck(h) => {
                body.is_retransmission = h.repeated;
                let first = which(h.lane, h.generation, h.message, body);
                let tag = NEED_ACK | flag(h.wants_brief, WANTS_BRIEF) | flag(h.replies, REPLIES);
                (tag, [first, pair(h.unscheduled, 0), h.size, h.sent, 0])
            }
            Header::Resend(h) => {
                let first = which(h.lane, h.generation, h.message, body);
                (RESEND | flag(h.stalled, STALLED), [first, 0, h.offset, h.missing, 0])
            }
            Header::Busy(h) => {
                let first = which(h.lane, h.generation, h.message, body);
                (BUSY, [first, 0, 0, 0, 0])
            }
        };
        body.sent_at = Time::ZERO;
    }

    fn offset(&self) -> Option<u64> {
        match self {
            Header::Data(data) => Some(data.offset),
            _ => None,
        }
    }
}
