//! What an application is told.

use std::fmt;

use tidegate_core::Role;

/// A peer, as long as it is one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct PeerId {
    pub(crate) number: u32,
    pub(crate) generation: u32,
}

/// A message on its way out, until it is told of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Ticket(pub u64);

/// Why a session is over, or never was one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Gone {
    /// This side has ended it.
    Closed,
    /// The other side has ended it.
    ClosedByPeer,
    /// The other side knows nothing of it any more: it was restarted.
    Restarted,
    /// Nothing was heard for too long.
    Silent,
    /// The path does not carry datagrams as long as these.
    TooLong {
        /// Bytes of UDP payload.
        datagram: usize,
    },
    /// The other side runs another protocol.
    OtherProtocol,
    /// The other side runs the same with other parameters.
    OtherParameters,
    /// The other side sends other full packets.
    OtherPayload {
        /// Their payload, in bytes.
        theirs: u64,
    },
    /// The other side has as many peers as it takes.
    Full,
    /// The other side speaks another version of this.
    OtherVersion {
        /// Theirs.
        theirs: u64,
    },
    /// The other side does not keep to what it was told.
    Violation,
}

impl fmt::Display for Gone {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Gone::Closed => "the session was closed",
            Gone::ClosedByPeer => "the peer has ended the session",
            Gone::Restarted => "the peer was restarted and knows nothing of the session",
            Gone::Silent => "the peer does not answer; is it there, with the same key?",
            Gone::TooLong { datagram } => {
                return write!(f, "the path does not carry datagrams of {datagram} bytes");
            }
            Gone::OtherProtocol => "the peer runs another protocol",
            Gone::OtherParameters => "the peer runs the same protocol with other parameters",
            Gone::OtherPayload { theirs } => {
                return write!(f, "the peer sends full packets of {theirs} bytes of payload");
            }
            Gone::Full => "the peer has as many peers as it takes",
            Gone::OtherVersion { theirs } => {
                return write!(f, "the peer speaks version {theirs} of sessions, not 1");
            }
            Gone::Violation => "the peer does not keep to what it was told",
        })
    }
}

/// What the application is told.
#[derive(Debug, PartialEq)]
pub enum Event {
    /// A session has begun, here or there.
    Opened(PeerId),
    /// A session is over, or never was one. Its messages have failed before.
    Gone(PeerId, Gone),
    /// A message has arrived, whole. [`Node::taken`] makes room for others.
    Arrived(PeerId, Vec<u8>),
    /// The peer has all of a message.
    Delivered(Ticket),
    /// Whether the peer has the message, nobody knows.
    Failed(Ticket, Gone),
    /// A part of a message has arrived that had not before. Only with
    /// [`Delivery::Pieces`](super::Delivery).
    Piece(PeerId, Piece),
    /// All pieces of the message of that number have come; another may have the number next. Only
    /// with [`Delivery::Pieces`](super::Delivery).
    Ended(PeerId, u32),
    /// So many bytes of a message have left again. Only with [`Delivery::Pieces`](super::Delivery).
    Resent(Ticket, u32),
}

/// A part of a message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Piece {
    /// The message: what its sender's transport calls it while it lasts.
    pub message: u32,
    /// Where the piece begins in it.
    pub offset: u64,
    /// The piece.
    pub bytes: Vec<u8>,
}

/// What a message is to the transport.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Terms {
    /// Whether it asks for another, or was asked for.
    pub role: Role,
    /// What it counts among others where protocols tell tenants apart: 1 to
    /// [`Message::MOST_WEIGHT`](tidegate_core::Message::MOST_WEIGHT).
    pub weight: u8,
    /// Has a connection of its own, whatever messages share.
    pub dedicated: bool,
    /// Goes on with zeros behind its bytes until it is [stopped](super::Node::stop), for
    /// measurements. It waits for no room, so the peer must have some for all of it
    /// ([`Limits::unread_bytes`](super::Limits::unread_bytes)), and no end of the session waits
    /// for it.
    pub endless: bool,
}

impl Default for Terms {
    fn default() -> Terms {
        Terms { role: Role::Alone, weight: 1, dedicated: false, endless: false }
    }
}

/// Why a message was not taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SendError {
    /// There is no such peer any more.
    Gone,
    /// It has no bytes.
    Empty,
    /// It is longer than messages may be.
    TooLong {
        /// How long they may be.
        most: u64,
    },
}
