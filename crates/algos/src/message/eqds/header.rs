//! Headers of EQDS, RCCC, NDP, and NSCC+RCCC, and their layout in memory.
//!
//! The pair of hosts, the lane and the lane's generation identify a message.

use tidegate_core::wire::Carried;
use tidegate_core::{Body, Time, headers};

use crate::kit::name::{Name, named};
use crate::kit::words::{pair, unpair};

headers! {
    /// EQDS, RCCC, NDP, and NSCC+RCCC: receivers pull data after an unsolicited window.
    pub enum Header = "eqds", version 1, port 52707;
    /// A packet with payload; without it, if a switch has trimmed it.
    Data = 0 {
        flags {
            /// Sent on the credit that a message begins with.
            speculative,
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
            /// Bytes of the message; all ones: unknown end.
            size: u64,
            /// Byte offset of the payload in the message.
            offset: u64,
            /// Sum of credit that the sender requests (pull target).
            target: u64,
            /// Departure time; returned in the acknowledgement.
            sent_at: Time,
        }
    }
    /// Requests credit without data (RTS).
    Request = 1 {
        flags {}
        fields {
            /// As in data.
            connection: u32,
            /// As in data.
            lane: u32,
            /// As in data.
            generation: u32,
            /// As in data.
            message: u32,
            /// As in data.
            size: u64,
            /// As in data.
            target: u64,
        }
    }
    /// Acknowledges a packet, and has its path entropy.
    Ack = 2 {
        flags {
            /// The packet was marked.
            marked,
            /// The message has arrived completely.
            complete,
        }
        fields {
            /// As in the packet.
            connection: u32,
            /// As in the packet.
            lane: u32,
            /// As in the packet.
            generation: u32,
            /// As in the packet.
            message: u32,
            /// Number of the first packet that has not arrived.
            cumulative: u64,
            /// Number of the packet.
            packet: u64,
            /// As in the packet.
            sent_at: Time,
        }
    }
    /// Requests a trimmed packet again, and has its path entropy.
    Nack = 3 {
        flags {
            /// It was trimmed at the port to the receiver.
            last_hop,
        }
        fields {
            /// As in the packet.
            connection: u32,
            /// As in the packet.
            lane: u32,
            /// As in the packet.
            generation: u32,
            /// As in the packet.
            message: u32,
            /// Number of the packet.
            packet: u64,
            /// As in the packet.
            sent_at: Time,
        }
    }
    /// Grants credit.
    Pull = 4 {
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
            /// Sum of credit so far (pull number).
            pull: u64,
        }
    }
}

named!(Header: Data, Request, Ack, Nack, Pull);

/// Packet kind, in the low bits of a tag.
const KIND: u8 = 0b111;
const DATA: u8 = 0;
const REQUEST: u8 = 1;
const ACK: u8 = 2;
const NACK: u8 = 3;
const PULL: u8 = 4;
/// Flag of the kind, in the bits above: speculative, marked or trimmed at the last hop.
const FLAG: u8 = KIND + 1;
const COMPLETE: u8 = FLAG << 1;

impl Carried for Header {
    #[inline(always)]
    fn read(body: &Body) -> Option<Header> {
        let ((connection, lane), message) = (unpair(body.words[0]), body.message);
        let [_, which, third, fourth, fifth] = body.words;
        let (generation, _) = unpair(which);
        let (flag, sent_at) = (body.tag & FLAG != 0, body.sent_at);
        Some(match body.tag & KIND {
            DATA => Header::Data(Data {
                speculative: flag,
                retransmission: body.is_retransmission,
                connection,
                lane,
                generation,
                message,
                size: third,
                offset: fourth,
                target: fifth,
                sent_at,
            }),
            REQUEST => Header::Request(Request {
                connection,
                lane,
                generation,
                message,
                size: third,
                target: fifth,
            }),
            ACK => Header::Ack(Ack {
                marked: flag,
                complete: body.tag & COMPLETE != 0,
                connection,
                lane,
                generation,
                message,
                cumulative: third,
                packet: fourth,
                sent_at,
            }),
            NACK => Header::Nack(Nack {
                last_hop: flag,
                connection,
                lane,
                generation,
                message,
                packet: fourth,
                sent_at,
            }),
            PULL => Header::Pull(Pull { connection, lane, generation, message, pull: fifth }),
            _ => return None,
        })
    }

    #[inline(always)]
    fn write(&self, body: &mut Body) {
        body.is_retransmission = false;
        body.sent_at = Time::ZERO;
        let (kind, flag, words) = match *self {
            Header::Data(header) => {
                body.is_retransmission = header.retransmission;
                body.sent_at = header.sent_at;
                (DATA, header.speculative, [header.size, header.offset, header.target])
            }
            Header::Request(header) => (REQUEST, false, [header.size, 0, header.target]),
            Header::Ack(header) => {
                body.sent_at = header.sent_at;
                let kind = if header.complete { ACK | COMPLETE } else { ACK };
                (kind, header.marked, [header.cumulative, header.packet, 0])
            }
            Header::Nack(header) => {
                body.sent_at = header.sent_at;
                (NACK, header.last_hop, [0, header.packet, 0])
            }
            Header::Pull(header) => (PULL, false, [0, 0, header.pull]),
        };
        let Name { connection, lane, generation, message } = self.name();
        body.message = message;
        body.tag = if flag { kind | FLAG } else { kind };
        let [third, fourth, fifth] = words;
        body.words = [pair(connection, lane), pair(generation, 0), third, fourth, fifth];
    }

    fn offset(&self) -> Option<u64> {
        match self {
            Header::Data(data) => Some(data.offset),
            _ => None,
        }
    }
}
