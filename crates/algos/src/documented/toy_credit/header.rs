//! Headers of the toy and their layout in memory.

use tidegate_core::wire::Carried;
use tidegate_core::{Body, Time, headers};

headers! {
    /// Toy credit: a credit for every packet.
    pub enum Header = "toy_credit", version 1, port 52702;
    /// A packet with payload.
    Data = 0 {
        flags {
            /// The last packet of its message.
            end_of_message,
        }
        fields {
            /// The sender's slot of the message.
            connection: u32,
            /// The receiver's slot of the message.
            lane: u32,
            /// The sender's number of the message.
            message: u32,
            /// Byte offset of the payload in the message.
            offset: u64,
        }
    }
    /// The message has arrived completely.
    Ack = 1 {
        flags {}
        fields {
            /// The sender's slot of the message.
            connection: u32,
            /// The receiver's slot of the message.
            lane: u32,
            /// The sender's number of the message.
            message: u32,
        }
    }
    /// Allows the sender of a message to send.
    Credit = 2 {
        flags {}
        fields {
            /// The sender's slot of the message.
            connection: u32,
            /// The receiver's slot of the message.
            lane: u32,
            /// The sender's number of the message.
            message: u32,
            /// Bytes of the message that may be sent in total.
            granted: u64,
        }
    }
    /// Announces a message.
    Request = 3 {
        flags {}
        fields {
            /// The sender's slot of the message.
            connection: u32,
            /// The sender's number of the message.
            message: u32,
            /// Bytes of the message; all ones: unknown end.
            size: u64,
        }
    }
}

/// Packet kind, in the low bits of a tag.
const KIND: u8 = 0b111;
const DATA: u8 = 0;
const ACK: u8 = 1;
const CREDIT: u8 = 2;
const REQUEST: u8 = 3;
/// Flag of data, in the bit above the kind.
const END_OF_MESSAGE: u8 = KIND + 1;

impl Carried for Header {
    fn read(body: &Body) -> Option<Header> {
        let [slots, bytes, ..] = body.words;
        let (connection, lane, message) = (slots as u32, (slots >> 32) as u32, body.message);
        Some(match body.tag & KIND {
            DATA => {
                let end_of_message = body.tag & END_OF_MESSAGE != 0;
                Header::Data(Data { end_of_message, connection, lane, message, offset: bytes })
            }
            ACK => Header::Ack(Ack { connection, lane, message }),
            CREDIT => Header::Credit(Credit { connection, lane, message, granted: bytes }),
            REQUEST => Header::Request(Request { connection, message, size: bytes }),
            _ => return None,
        })
    }

    fn write(&self, body: &mut Body) {
        let (tag, connection, lane, message, bytes) = match *self {
            Header::Data(Data { end_of_message, connection, lane, message, offset }) => {
                let end = if end_of_message { END_OF_MESSAGE } else { 0 };
                (DATA | end, connection, lane, message, offset)
            }
            Header::Ack(Ack { connection, lane, message }) => (ACK, connection, lane, message, 0),
            Header::Credit(Credit { connection, lane, message, granted }) => {
                (CREDIT, connection, lane, message, granted)
            }
            Header::Request(Request { connection, message, size }) => {
                (REQUEST, connection, 0, message, size)
            }
        };
        body.message = message;
        body.is_retransmission = false;
        body.tag = tag;
        body.sent_at = Time::ZERO;
        body.words = [(lane as u64) << 32 | connection as u64, bytes, 0, 0, 0];
    }

    fn offset(&self) -> Option<u64> {
        match self {
            Header::Data(data) => Some(data.offset),
            _ => None,
        }
    }
}
