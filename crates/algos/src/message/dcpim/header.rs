//! Headers of dcPIM, and how they lie in memory.
//!
//! A message is known by the pair of hosts, its lane and the lane's generation. What hosts say to
//! match themselves is of no message, but of an epoch and a round of it, by which what comes late
//! is known.

use tidegate_core::wire::Carried;
use tidegate_core::{Body, Time, headers};

headers! {
    /// dcPIM: hosts match themselves, then receivers send tokens.
    pub enum Header = "dcpim", version 1, port 52704;
    /// A packet with payload.
    Data = 0 {
        flags {
            /// The last packet of its message.
            end_of_message,
            /// Sent before.
            retransmission,
        }
        fields {
            /// The sender's slot of the message; comes back in what its receiver says of it.
            connection: u32,
            /// Place of the message among those of this sender to this receiver.
            lane: u32,
            /// How often the lane was used before.
            generation: u32,
            /// The sender's number of the message.
            message: u32,
            /// Number of the token that it answers; without one, the packet's own.
            token: u32,
            /// Bytes of the message; all ones: no end is known.
            size: u64,
            /// Where in the message the payload begins, in bytes.
            offset: u64,
        }
    }
    /// Announces a message.
    Notification = 1 {
        flags {
            /// It was said before, and nothing came of it.
            repeated,
        }
        fields {
            /// The sender's slot of the message.
            connection: u32,
            /// Place of the message among those of this sender to this receiver.
            lane: u32,
            /// How often the lane was used before.
            generation: u32,
            /// The sender's number of the message.
            message: u32,
            /// Bytes of the message; all ones: no end is known.
            size: u64,
        }
    }
    /// A receiver asks a sender for channels.
    Request = 2 {
        flags {}
        fields {
            /// The sender's number of the message that is the shortest.
            message: u32,
            /// Number of the epoch.
            epoch: u64,
            /// Round of it, from 1.
            round: u32,
            /// Channels that it wants.
            channels: u32,
            /// How many of them could be used at once.
            prompt: u32,
            /// Packets that are missing of its shortest message from this sender; all ones: more
            /// than that says.
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
            /// Channels that it offers.
            channels: u32,
            /// How many of them can be used at once.
            prompt: u32,
            /// As in the request.
            remaining: u32,
        }
    }
    /// A receiver takes channels.
    Accept = 4 {
        flags {}
        fields {
            /// As in the grant.
            message: u32,
            /// As in the grant.
            epoch: u64,
            /// As in the grant.
            round: u32,
            /// Channels that it takes.
            channels: u32,
            /// How many of them it uses at once.
            prompt: u32,
        }
    }
    /// A sender takes back channels that it does not have.
    Reject = 5 {
        flags {}
        fields {
            /// As in the acceptance.
            message: u32,
            /// As in the acceptance.
            epoch: u64,
            /// As in the acceptance.
            round: u32,
            /// Channels that are not there.
            channels: u32,
            /// How many of them were to be used at once.
            prompt: u32,
        }
    }
    /// Allows its receiver to send a packet.
    Token = 6 {
        flags {}
        fields {
            /// The sender's slot of the message.
            connection: u32,
            /// Place of the message among those of this sender to this receiver.
            lane: u32,
            /// How often the lane was used before.
            generation: u32,
            /// The sender's number of the message.
            message: u32,
            /// How many tokens there were for this message before.
            token: u32,
            /// Place of its match among those of the receiver: lower ones go first.
            label: u32,
            /// Packets that are missing of the message; all ones: more than that says.
            remaining: u32,
            /// Which packet of the message.
            packet: u64,
            /// Not to be used after this time of the hosts' common clock.
            expires: Time,
        }
    }
    /// All of a message has arrived.
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

/// What a sender says of a message.
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
    /// The message's lane; what is about none has none.
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

/// Kinds, in the low bits of a tag.
const KIND: u8 = 0b111;
const DATA: u8 = 0;
const NOTIFICATION: u8 = 1;
const REQUEST: u8 = 2;
const GRANT: u8 = 3;
const ACCEPT: u8 = 4;
const REJECT: u8 = 5;
const TOKEN: u8 = 6;
const ACK: u8 = 7;
/// A flag, in the bit above.
const END_OF_MESSAGE: u8 = KIND + 1;

/// Whether the packet announces a message, whatever else it is.
#[inline(always)]
pub(super) fn announces(body: &Body) -> bool {
    body.tag & KIND <= NOTIFICATION
}

/// Two numbers in a word.
#[inline(always)]
fn pair(low: u32, high: u32) -> u64 {
    (high as u64) << 32 | low as u64
}

#[inline(always)]
fn unpair(word: u64) -> (u32, u32) {
    (word as u32, (word >> 32) as u32)
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
