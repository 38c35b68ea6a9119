//! Headers of dcPIM and their layout in memory.
//!
//! The pair of hosts, the lane and the lane's generation identify a message. Matching packets
//! belong to no message but to an epoch and a round, which identify late packets.

use tidegate_core::wire::Carried;
use tidegate_core::{Body, Time, headers};

use crate::kit::words::{pair, unpair};

headers! {
    /// dcPIM: hosts are matched, then receivers send tokens.
    pub enum Header = "dcpim", version 1, port 52704;
    /// A packet with payload.
    Data = 0 {
        flags {
            /// The last packet of its message.
            end_of_message,
            /// Retransmission.
            retransmission,
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
            /// Number of the token that it uses; without a token, the packet's own number.
            token: u32,
            /// Bytes of the message; all ones: unknown end.
            size: u64,
            /// Byte offset of the payload in the message.
            offset: u64,
        }
    }
    /// Announces a message.
    Notification = 1 {
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
            /// Bytes of the message; all ones: unknown end.
            size: u64,
        }
    }
    /// A receiver requests channels from a sender.
    Request = 2 {
        flags {}
        fields {
            /// The sender's number of its shortest message.
            message: u32,
            /// Number of the epoch.
            epoch: u64,
            /// Round of the epoch, from 1.
            round: u32,
            /// Requested channels.
            channels: u32,
            /// Requested channels that could be used immediately.
            prompt: u32,
            /// Missing packets of the shortest message from this sender; all ones: more than fits
            /// the field.
            remaining: u32,
        }
    }
    /// A sender offers a receiver channels.
    Grant = 3 {
        flags {}
        fields {
            /// As in the request.
            message: u32,
            /// As in the request.
            epoch: u64,
            /// As in the request.
            round: u32,
            /// Offered channels.
            channels: u32,
            /// Offered channels that can be used immediately.
            prompt: u32,
            /// As in the request.
            remaining: u32,
        }
    }
    /// A receiver accepts channels.
    Accept = 4 {
        flags {}
        fields {
            /// As in the grant.
            message: u32,
            /// As in the grant.
            epoch: u64,
            /// As in the grant.
            round: u32,
            /// Accepted channels.
            channels: u32,
            /// Accepted channels that are used immediately.
            prompt: u32,
        }
    }
    /// A sender rejects channels that are no longer free.
    Reject = 5 {
        flags {}
        fields {
            /// As in the acceptance.
            message: u32,
            /// As in the acceptance.
            epoch: u64,
            /// As in the acceptance.
            round: u32,
            /// Rejected channels.
            channels: u32,
            /// Rejected channels that were to be used immediately.
            prompt: u32,
        }
    }
    /// Allows the sender of a message to send a packet.
    Token = 6 {
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
            /// Number of earlier tokens for this message.
            token: u32,
            /// Place of the match among those of the receiver: lower ones have priority.
            label: u32,
            /// Missing packets of the message; all ones: more than fits the field.
            remaining: u32,
            /// Number of the packet in the message.
            packet: u64,
            /// Time on the hosts' common clock after which the token is invalid.
            expires: Time,
        }
    }
    /// The message has arrived completely.
    Ack = 7 {
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
    pub(super) size: u64,
}

impl Data {
    #[inline]
    pub(super) fn announced(&self) -> Announced {
        let Data { connection, lane, generation, message, size, .. } = *self;
        Announced { connection, lane, generation, message, size }
    }
}

impl Notification {
    pub(super) fn announced(&self) -> Announced {
        let Notification { connection, lane, generation, message, size, .. } = *self;
        Announced { connection, lane, generation, message, size }
    }
}

impl Header {
    /// Lane of the message; none for packets without a message.
    #[inline]
    pub(super) fn lane(&self) -> u32 {
        match self {
            Header::Data(Data { lane, .. })
            | Header::Notification(Notification { lane, .. })
            | Header::Token(Token { lane, .. })
            | Header::Ack(Ack { lane, .. }) => *lane,
            _ => 0,
        }
    }
}

/// Packet kind, in the low bits of a tag.
const KIND: u8 = 0b111;
const DATA: u8 = 0;
const NOTIFICATION: u8 = 1;
const REQUEST: u8 = 2;
const GRANT: u8 = 3;
const ACCEPT: u8 = 4;
const REJECT: u8 = 5;
const TOKEN: u8 = 6;
const ACK: u8 = 7;
/// Flag, in the bit above the kind.
const END_OF_MESSAGE: u8 = KIND + 1;

/// Whether a body holds a packet that announces a message.
#[inline(always)]
pub(super) fn announces(body: &Body) -> bool {
    body.tag & KIND <= NOTIFICATION
}

impl Carried for Header {
    #[inline(always)]
    fn read(body: &Body) -> Option<Header> {
        let [first, second, third, fourth, fifth] = body.words;
        let ((connection, lane), message) = (unpair(first), body.message);
        let (generation, token) = unpair(second);
        let ((round, channels), (prompt, remaining), epoch) =
            (unpair(first), unpair(second), third);
        Some(match body.tag & KIND {
            DATA => Header::Data(Data {
                end_of_message: body.tag & END_OF_MESSAGE != 0,
                retransmission: body.is_retransmission,
                connection,
                lane,
                generation,
                message,
                token,
                size: third,
                offset: fourth,
            }),
            TOKEN => {
                let (label, remaining) = unpair(fifth);
                Header::Token(Token {
                    connection,
                    lane,
                    generation,
                    message,
                    token,
                    label,
                    remaining,
                    packet: third,
                    expires: Time::ps(fourth),
                })
            }
            NOTIFICATION => Header::Notification(Notification {
                repeated: body.is_retransmission,
                connection,
                lane,
                generation,
                message,
                size: third,
            }),
            REQUEST => {
                Header::Request(Request { message, epoch, round, channels, prompt, remaining })
            }
            GRANT => Header::Grant(Grant { message, epoch, round, channels, prompt, remaining }),
            ACCEPT => Header::Accept(Accept { message, epoch, round, channels, prompt }),
            REJECT => Header::Reject(Reject { message, epoch, round, channels, prompt }),
            _ => Header::Ack(Ack { connection, lane, generation, message }),
        })
    }

    #[inline(always)]
    fn write(&self, body: &mut Body) {
        body.is_retransmission = false;
        let (tag, message, words) = match *self {
            Header::Data(h) => {
                body.is_retransmission = h.retransmission;
                let tag = DATA | if h.end_of_message { END_OF_MESSAGE } else { 0 };
                let place = pair(h.connection, h.lane);
                (tag, h.message, [place, pair(h.generation, h.token), h.size, h.offset, 0])
            }
            Header::Token(h) => {
                let (place, which) = (pair(h.connection, h.lane), pair(h.generation, h.token));
                let order = pair(h.label, h.remaining);
                (TOKEN, h.message, [place, which, h.packet, h.expires.as_ps(), order])
            }
            Header::Notification(h) => {
                body.is_retransmission = h.repeated;
                let place = pair(h.connection, h.lane);
                (NOTIFICATION, h.message, [place, pair(h.generation, 0), h.size, 0, 0])
            }
            Header::Request(h) => {
                let words = [pair(h.round, h.channels), pair(h.prompt, h.remaining), h.epoch, 0, 0];
                (REQUEST, h.message, words)
            }
            Header::Grant(h) => {
                let words = [pair(h.round, h.channels), pair(h.prompt, h.remaining), h.epoch, 0, 0];
                (GRANT, h.message, words)
            }
            Header::Accept(h) => {
                (ACCEPT, h.message, [pair(h.round, h.channels), pair(h.prompt, 0), h.epoch, 0, 0])
            }
            Header::Reject(h) => {
                (REJECT, h.message, [pair(h.round, h.channels), pair(h.prompt, 0), h.epoch, 0, 0])
            }
            Header::Ack(h) => {
                let place = pair(h.connection, h.lane);
                (ACK, h.message, [place, pair(h.generation, 0), 0, 0, 0])
            }
        };
        body.message = message;
        body.tag = tag;
        body.sent_at = Time::ZERO;
        body.words = words;
    }

    fn offset(&self) -> Option<u64> {
        match self {
            Header::Data(data) => Some(data.offset),
            _ => None,
        }
    }
}
