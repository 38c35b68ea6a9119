//! What an application's message begins with, so that requests and their replies are told apart
//! from others. It is sealed as the rest of the message is.

use bytes::Bytes;
use tidegate_core::wire::Header as _;
use tidegate_core::{Time, headers};

use crate::node::{Node, PeerId, SendError, Terms, Ticket};

headers! {
    /// Messages of applications: what each of them is.
    pub enum Head = "message", version 1, port 52796;
    /// Nobody answers it.
    Plain = 0 {
        flags {}
        fields {}
    }
    /// To be answered.
    Request = 1 {
        flags {}
        fields {
            /// Its sender's number of it: no two of a session have one.
            number: u64,
        }
    }
    /// Answers a request.
    Reply = 2 {
        flags {}
        fields {
            /// The request's.
            number: u64,
        }
    }
    /// Nobody will answer a request.
    Unanswered = 3 {
        flags {}
        fields {
            /// The request's.
            number: u64,
        }
    }
}

/// The longest head.
const MOST_BYTES: usize = Request::BYTES;

/// Gives a message to the node: its head and its body, which may be empty.
///
/// # Errors
/// Where the peer is gone, or the body too long; then with how long it may be.
pub fn send(
    node: &mut Node,
    now: Time,
    peer: PeerId,
    head: impl Into<Head>,
    body: Bytes,
) -> Result<Ticket, SendError> {
    let (head, mut bytes) = (head.into(), [0; MOST_BYTES]);
    // There is room: none is longer.
    let length = head.emit(&mut bytes).unwrap_or(0);
    let sent = node.send(now, peer, &bytes[..length], body, Terms::default());
    sent.map_err(|why| match why {
        SendError::TooLong { most } => {
            SendError::TooLong { most: most.saturating_sub(length as u64) }
        }
        why => why,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_is_read_as_it_was_written() {
        let (plain, number) = (Plain {}, 1 << 40);
        for (head, bytes) in [
            (Head::Plain(plain), 4),
            (Head::Request(Request { number }), 12),
            (Head::Reply(Reply { number }), 12),
            (Head::Unanswered(Unanswered { number }), 12),
        ] {
            let mut message = vec![0; bytes];
            assert_eq!(head.emit(&mut message), Ok(bytes));
            message.extend_from_slice(b"body");
            assert_eq!(Head::parse(&message), Ok((head, &b"body"[..])));
            assert!(Head::parse(&message[..bytes - 1]).is_err());
        }
    }
}
