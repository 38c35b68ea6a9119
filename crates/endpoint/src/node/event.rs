//! Events for the application.

use std::fmt;

use tidegate_core::Role;

/// Identifies a peer until its session ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct PeerId {
    pub(crate) number: u32,
    pub(crate) generation: u32,
}

/// Identifies a sent message until its outcome is reported.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Ticket(pub u64);

/// Why a session ended or could not be established.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CloseReason {
    /// This host closed it.
    Closed,
    /// The peer closed it.
    ClosedByPeer,
    /// The peer no longer knows it, because it was restarted.
    Restarted,
    /// Nothing arrived from the peer for too long.
    Silent,
    /// The path does not carry full datagrams.
    TooLong {
        /// Length of their UDP payload in bytes.
        datagram: usize,
    },
    /// The peer runs another protocol.
    OtherProtocol,
    /// The peer runs the same protocol with different parameters.
    OtherParameters,
    /// The peer has a different payload of full packets.
    OtherPayload {
        /// The peer's payload in bytes.
        theirs: u64,
    },
    /// The peer has reached its maximum number of peers.
    Full,
    /// The peer uses a different version of session headers.
    OtherVersion {
        /// The peer's version.
        theirs: u64,
    },
    /// The peer exceeded its limits.
    Violation,
}

impl fmt::Display for CloseReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            CloseReason::Closed => "the session was closed",
            CloseReason::ClosedByPeer => "the peer closed the session",
            CloseReason::Restarted => "the peer was restarted and no longer knows the session",
            CloseReason::Silent => {
                "the peer does not answer: check that it runs and has the same key"
            }
            CloseReason::TooLong { datagram } => {
                return write!(f, "the path does not carry datagrams of {datagram} bytes");
            }
            CloseReason::OtherProtocol => "the peer runs another protocol",
            CloseReason::OtherParameters => {
                "the peer runs the same protocol with different parameters, or only one side \
                 declares that the network trims packets"
            }
            CloseReason::OtherPayload { theirs } => {
                return write!(f, "the peer has full packets of {theirs} bytes of payload");
            }
            CloseReason::Full => "the peer has reached its maximum number of peers",
            CloseReason::OtherVersion { theirs } => {
                return write!(f, "the peer uses version {theirs} of sessions, not 1");
            }
            CloseReason::Violation => "the peer exceeded the limits that this host has set",
        })
    }
}

/// A report to the application.
#[derive(Debug, PartialEq)]
pub enum Event {
    /// A session was established, by either side.
    Opened(PeerId),
    /// A session ended or could not be established. Failures of its messages are reported before.
    Closed(PeerId, CloseReason),
    /// A whole message has arrived. [`Node::consumed`](super::Node::consumed) makes room for
    /// others.
    Arrived(PeerId, Vec<u8>),
    /// The peer has all of a message.
    Delivered(Ticket),
    /// A message failed: it may or may not have arrived.
    Failed(Ticket, CloseReason),
    /// A new piece of a message has arrived. Only with [`Delivery::Pieces`](super::Delivery).
    Piece(PeerId, Piece),
    /// All pieces of the message with this number have arrived; the number may be reused. Only with
    /// [`Delivery::Pieces`](super::Delivery).
    Ended(PeerId, u32),
    /// This number of bytes of a message was retransmitted. Only with
    /// [`Delivery::Pieces`](super::Delivery).
    Resent(Ticket, u32),
}

/// A part of a message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Piece {
    /// The number of the message in its sender's transport, unique while the message lasts.
    pub message: u32,
    /// Offset of the piece in the message.
    pub offset: u64,
    /// The bytes of the piece.
    pub bytes: Vec<u8>,
}

/// Properties of a message for the transport.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Terms {
    /// Whether it is a request, a reply or neither.
    pub role: Role,
    /// Its weight in protocols that distinguish tenants: 1 to
    /// [`Message::MOST_WEIGHT`](tidegate_core::Message::MOST_WEIGHT).
    pub weight: u8,
    /// Whether it has its own connection, even if messages share connections.
    pub dedicated: bool,
    /// Whether it continues with zeros after its bytes until it is [stopped](super::Node::stop);
    /// for measurements. It does not wait for room, so the peer must have room for all of it
    /// ([`Limits::unread_bytes`](super::Limits::unread_bytes)). The end of the session does not
    /// wait for it.
    pub endless: bool,
}

impl Default for Terms {
    fn default() -> Terms {
        Terms { role: Role::Alone, weight: 1, dedicated: false, endless: false }
    }
}

/// Why a message was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SendError {
    /// The session has ended.
    Closed,
    /// The message is empty.
    Empty,
    /// The message exceeds the maximum length.
    TooLong {
        /// The maximum length in bytes.
        most: u64,
    },
}
