//! Headers of Homa, and how they lie in memory.
//!
//! A message is known by the pair of hosts, its lane and the lane's generation. A packet of data
//! and a question for an acknowledgement say all that a receiver must know of it ([`Announced`]).

use tidegate_core::wire::Carried;
use tidegate_core::{Body, Time, headers};

use super::incast::Part;

headers! {
    /// Homa: receivers grant packets, and say at which priority they come.
    pub enum Header = "homa", version 1, port 52710;
    /// A packet with payload.
    Data = 0 {
        flags {
            /// The last packet of its message.
            end_of_message,
            /// Sent before.
            retransmission,
            /// It was granted, or asked for again.
            scheduled,
            /// It acknowledges another message.
            acknowledges,
            /// Of a reply to this message, only the first packet may go without a grant.
            wants_brief,
            /// The message is a reply.
            replies,
        }
        fields {
            /// Place of the message among those of this sender to this receiver.
            lane: u32,
            /// How often the lane was used before.
            generation: u32,
            /// The sender's number of the message.
            message: u32,
            /// First packets of the message that go without a grant.
            unscheduled: u32,
            /// Bytes of the message; all ones: no end is known.
            size: u64,
            /// Where in the message the payload begins, in bytes.
            offset: u64,
            /// A message the other way that has arrived: lane below, generation above.
            acked: u64,
        }
    }
    /// Allows its receiver to send a message up to some byte.
    Grant = 1 {
        flags {}
        fields {
            /// As in the message's packets.
            lane: u32,
            /// As in the message's packets.
            generation: u32,
            /// As in the message's packets.
            message: u32,
            /// Level of what is granted anew; 0 the highest.
            level: u32,
            /// So many bytes of the message may be sent.
            granted: u64,
        }
    }
    /// Up to five messages have arrived. Each with its lane below and its generation above; all
    /// ones: none.
    Ack = 2 {
        flags {}
        fields {
            /// The sender's number of the first, where its receiver still knows it; else zero.
            message: u32,
            /// A message.
            first: u64,
            /// Another.
            second: u64,
            /// Another.
            third: u64,
            /// Another.
            fourth: u64,
            /// Another.
            fifth: u64,
        }
    }
    /// Says all about a message, and asks whether it has arrived.
    NeedAck = 3 {
        flags {
            /// All that may be sent has been, and nothing came of it for a while.
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
            /// Where in the message the first byte is that was not sent yet.
            sent: u64,
        }
    }
    /// Asks for lost packets.
    Resend = 4 {
        flags {
            /// Nothing of the message has arrived for a timeout; else something is missing between
            /// others.
            stalled,
        }
        fields {
            /// As in the message's packets.
            lane: u32,
            /// As in the message's packets.
            generation: u32,
            /// As in the message's packets.
            message: u32,
            /// Where in the message the first missing byte is.
            offset: u64,
            /// From the lowest bit: packets that are missing, from there on.
            missing: u64 as Bits,
        }
    }
    /// Answers a request for packets that wait for others at the sender.
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

/// What a sender says of a message.
#[derive(Clone, Copy, Debug)]
pub(super) struct Announced {
    pub(super) lane: u32,
    pub(super) generation: u32,
    pub(super) message: u32,
    pub(super) unscheduled: u32,
    pub(super) size: u64,
    pub(super) part: Part,
}

impl Data {
    #[inline]
    pub(super) fn announced(&self) -> Announced {
        let Data { lane, generation, message, unscheduled, size, .. } = *self;
        let part = Part { wants_brief: self.wants_brief, replies: self.replies };
        Announced { lane, generation, message, unscheduled, size, part }
    }
}

impl NeedAck {
    pub(super) fn announced(&self) -> Announced {
        let NeedAck { lane, generation, message, unscheduled, size, .. } = *self;
        let part = Part { wants_brief: self.wants_brief, replies: self.replies };
        Announced { lane, generation, message, unscheduled, size, part }
    }
}

/// No message, where an acknowledgement names fewer than it has room for.
pub(super) const NOBODY: u64 = u64::MAX;

impl Ack {
    pub(super) fn of(message: u32, names: [u64; 5]) -> Ack {
        let [first, second, third, fourth, fifth] = names;
        Ack { message, first, second, third, fourth, fifth }
    }

    /// The messages it names.
    pub(super) fn messages(&self) -> impl Iterator<Item = u64> {
        let Ack { first, second, third, fourth, fifth, .. } = *self;
        [first, second, third, fourth, fifth].into_iter().filter(|&message| message != NOBODY)
    }
}

impl Header {
    /// The message's lane; that of the first where there are several.
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

/// Kinds, in the low bits of a tag.
const KIND: u8 = 0b111;
const DATA: u8 = 0;
const GRANT: u8 = 1;
const ACK: u8 = 2;
const NEED_ACK: u8 = 3;
const RESEND: u8 = 4;
const BUSY: u8 = 5;
/// Flags, in the bits above.
const END_OF_MESSAGE: u8 = KIND + 1;
const SCHEDULED: u8 = END_OF_MESSAGE << 1;
const ACKNOWLEDGES: u8 = SCHEDULED << 1;
const WANTS_BRIEF: u8 = ACKNOWLEDGES << 1;
const REPLIES: u8 = WANTS_BRIEF << 1;
const STALLED: u8 = END_OF_MESSAGE;

/// Whether a body holds a packet that says all about a message.
#[inline(always)]
pub(super) fn announces(body: &Body) -> bool {
    matches!(body.tag & KIND, DATA | NEED_ACK)
}

/// Two numbers in a word: a message by lane and generation, for one.
#[inline(always)]
pub(super) fn pair(low: u32, high: u32) -> u64 {
    (high as u64) << 32 | low as u64
}

#[inline(always)]
pub(super) fn unpair(word: u64) -> (u32, u32) {
    (word as u32, (word >> 32) as u32)
}

#[inline(always)]
fn flag(set: bool, flag: u8) -> u8 {
    if set { flag } else { 0 }
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
