//! Heads of application messages, which distinguish requests and replies from plain messages. The
//! head is encrypted like the rest of the message.

use bytes::Bytes;
use tidegate_core::wire::Header as _;
use tidegate_core::{Time, headers};

use crate::node::{Node, PeerId, SendError, Terms, Ticket};

headers! {
    /// Heads of application messages.
    pub enum Head = "message", version 1, port 52796;
    /// A message without a reply.
    Plain = 0 {
        flags {}
        fields {}
    }
    /// A request, which expects a reply.
    Request = 1 {
        flags {}
        fields {
            /// The request's number, unique within the session.
            number: u64,
        }
    }
    /// The reply to a request.
    Reply = 2 {
        flags {}
        fields {
            /// The request's number.
            number: u64,
        }
    }
    /// Reports that a request will not be answered.
    Unanswered = 3 {
        flags {}
        fields {
            /// The request's number.
            number: u64,
        }
    }
}

/// Length of the longest head.
const MOST_BYTES: usize = Request::BYTES;

/// Sends a message with its head and body; the body may be empty.
///
/// # Errors If the session has ended, or the body is longer than the reported maximum.
pub fn send(
    node: &mut Node,
    now: Time,
    peer: PeerId,
    head: impl Into<Head>,
    body: Bytes,
) -> Result<Ticket, SendError> {
    let (head, mut bytes) = (head.into(), [0; MOST_BYTES]);
    // The buffer holds the longest head.
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
    fn head_round_trip() {
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
