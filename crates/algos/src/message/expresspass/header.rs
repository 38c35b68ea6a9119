//! Headers of ExpressPass and their layout in memory.
//!
//! The pair of hosts, the lane and the lane's generation identify a message. Every announcement by
//! its sender ([`Announced`]) contains everything that its receiver must know.

use tidegate_core::wire::Carried;
use tidegate_core::{Body, Time, headers};

use crate::kit::name::{Name, named};
use crate::kit::words::{pair, unpair};

headers! {
    /// ExpressPass: data leaves on credits that switches shape.
    pub enum Header = "expresspass", version 1, port 52705;
    /// A packet with payload. It uses one credit.
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
            /// Number of the credit that it uses.
            credit: u32,
            /// Bytes of the message; all ones: unknown end.
            size: u64,
            /// Byte offset of the payload in the message.
            offset: u64,
            /// As in the credit that it uses, plus the time that the sender held the credit.
            sent_at: Time,
        }
    }
    /// Requests credits (CREDIT_REQUEST).
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
            /// Unsent packets; all ones if there are more.
            packets: u32,
            /// Bytes of the message; all ones: unknown end.
            size: u64,
        }
    }
    /// Stops the credits (CREDIT_STOP).
    Stop = 2 {
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
            /// Bytes of the message; all ones: unknown end.
            size: u64,
            /// Byte offset of the first unsent byte.
            sent: u64,
        }
    }
    /// Allows one packet of a message.
    Credit = 3 {
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
            /// Number of the credit among those for the message.
            credit: u32,
            /// Creation time by the receiver's clock; returned in data.
            sent_at: Time,
        }
    }
    /// A packet arrived too early and was dropped: requests retransmission of all packets from the
    /// missing one on.
    Nack = 4 {
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
            /// Byte offset of the first missing byte.
            offset: u64,
        }
    }
    /// The message has arrived completely.
    Done = 5 {
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
    pub(super) name: Name,
    pub(super) size: u64,
}

named!(Header: Data, Request, Stop, Credit, Nack, Done);

impl Header {
    /// Whether the message's sender sends it.
    #[inline]
    pub(super) fn is_of_sender(&self) -> bool {
        matches!(self, Header::Data(_) | Header::Request(_) | Header::Stop(_))
    }
}

/// Packet kind, in the low bits of a tag.
const KIND: u8 = 0b111;
const DATA: u8 = 0;
const REQUEST: u8 = 1;
const STOP: u8 = 2;
const CREDIT: u8 = 3;
const NACK: u8 = 4;
const DONE: u8 = 5;
/// Flag, in the bits above the kind.
const END_OF_MESSAGE: u8 = KIND + 1;

impl Carried for Header {
    #[inline(always)]
    fn read(body: &Body) -> Option<Header> {
        let ((connection, lane), message) = (unpair(body.words[0]), body.message);
        let [_, which, third, fourth, _] = body.words;
        let (generation, number) = unpair(which);
        let sent_at = body.sent_at;
        Some(match body.tag & KIND {
            DATA => Header::Data(Data {
                end_of_message: body.tag & END_OF_MESSAGE != 0,
                retransmission: body.is_retransmission,
                connection,
                lane,
                generation,
                message,
                credit: number,
                size: third,
                offset: fourth,
                sent_at,
            }),
            CREDIT => Header::Credit(Credit {
                connection,
                lane,
                generation,
                message,
                credit: number,
                sent_at,
            }),
            REQUEST => Header::Request(Request {
                repeated: body.is_retransmission,
                connection,
                lane,
                generation,
                message,
                packets: number,
                size: third,
            }),
            STOP => Header::Stop(Stop {
                connection,
                lane,
                generation,
                message,
                size: third,
                sent: fourth,
            }),
            NACK => Header::Nack(Nack { connection, lane, generation, message, offset: fourth }),
            DONE => Header::Done(Done { connection, lane, generation, message }),
            _ => return None,
        })
    }

    #[inline(always)]
    fn write(&self, body: &mut Body) {
        body.is_retransmission = false;
        body.sent_at = Time::ZERO;
        let (tag, number, third, fourth) = match *self {
            Header::Data(header) => {
                body.is_retransmission = header.retransmission;
                body.sent_at = header.sent_at;
                let last = if header.end_of_message { END_OF_MESSAGE } else { 0 };
                (DATA | last, header.credit, header.size, header.offset)
            }
            Header::Credit(header) => {
                body.sent_at = header.sent_at;
                (CREDIT, header.credit, 0, 0)
            }
            Header::Request(header) => {
                body.is_retransmission = header.repeated;
                (REQUEST, header.packets, header.size, 0)
            }
            Header::Stop(header) => (STOP, 0, header.size, header.sent),
            Header::Nack(header) => (NACK, 0, 0, header.offset),
            Header::Done(_) => (DONE, 0, 0, 0),
        };
        let Name { connection, lane, generation, message } = self.name();
        body.message = message;
        body.tag = tag;
        body.words = [pair(connection, lane), pair(generation, number), third, fourth, 0];
    }

    fn offset(&self) -> Option<u64> {
        match self {
            Header::Data(data) => Some(data.offset),
            _ => None,
        }
    }
}
