//! Headers of sessions.
//!
//! A datagram either begins with one of these headers, or has [`Data`], [`Multipath`] or
//! [`Trimmable`] after the headers of its transport. [Switches](tidegate_core::wire::forwarding)
//! read the latter two.

use tidegate_core::wire::Header as _;
use tidegate_core::{Time, headers};

headers! {
    /// Sessions between hosts over UDP: identification of the peers, and authenticated encryption.
    pub enum Header = "session", version 1, port 5270;
    /// Requests a session. May be padded with zeros to a full datagram, to measure its RTT.
    Hello = 32 {
        flags {}
        fields {
            /// The initiator's session id, which packets to it carry.
            id: u64,
            /// A random number of the initiator, from which keys are derived.
            nonce: [u8; 32],
            /// Name of the protocol, padded with zeros.
            protocol: [u8; 16],
            /// Digest of its parameters.
            parameters: u64,
            /// Payload of a full packet, in bytes.
            payload: u32,
            /// Payload in bytes that the initiator accepts before its application consumes any.
            limit: u64,
            /// The cookie of the `Retry`; zeros in the first `Hello`.
            cookie: [u8; 32],
            /// Time by the initiator's clock, which the `Accept` returns.
            sent_at: Time,
            /// MAC over all bytes before it.
            mac: [u8; 16],
        }
    }
    /// Requests another `Hello` with this cookie.
    Retry = 33 {
        flags {}
        fields {
            /// The session id of the `Hello` that it answers.
            to: u64,
            /// The cookie, which the next `Hello` must return unchanged.
            cookie: [u8; 32],
            /// MAC over all bytes before it and the nonce of the `Hello`.
            mac: [u8; 16],
        }
    }
    /// Accepts a session.
    Accept = 34 {
        flags {}
        fields {
            /// The session id of the `Hello` that it answers.
            to: u64,
            /// The responder's session id, which packets to it carry.
            id: u64,
            /// A random number of the responder, from which keys are derived.
            nonce: [u8; 32],
            /// Payload in bytes that the responder accepts before its application consumes any.
            limit: u64,
            /// As in the `Hello`.
            sent_at: Time,
            /// MAC over all bytes before it and the nonce of the `Hello`.
            mac: [u8; 16],
        }
    }
    /// Refuses a session.
    Refuse = 35 {
        flags {}
        fields {
            /// The session id of the `Hello` that it answers.
            to: u64,
            /// The number of the reason.
            reason: u32,
            /// The responder's value of the setting that differs, if it is a number.
            instead: u64,
            /// MAC over all bytes before it and the nonce of the `Hello`.
            mac: [u8; 16],
        }
    }
    /// Followed by the encrypted payload of a transport's packet.
    Data = 36 {
        flags {}
        fields {
            /// The receiver's session id.
            to: u64,
            /// The sender's packet number, unique within the session.
            number: u64,
        }
    }
    /// Followed by an encrypted control message.
    Control = 37 {
        flags {}
        fields {
            /// The receiver's session id.
            to: u64,
            /// The sender's packet number, unique within the session.
            number: u64,
        }
    }
    /// Reports that a session is unknown.
    Reset = 38 {
        flags {}
        fields {
            /// The unknown session id.
            of: u64,
            /// MAC over all bytes before it.
            token: [u8; 16],
        }
    }
    /// As `Data`, in networks that trim packets, or if each packet selects its path.
    Multipath = 39 {
        flags {}
        fields {
            /// The receiver's session id.
            to: u64,
            /// The sender's packet number, unique within the session.
            number: u64,
            /// The path entropy, by which switches select among equal paths.
            entropy: u32,
        }
    }
    /// As `Multipath`, with payload that a switch may cut off.
    Trimmable = 40 {
        flags {}
        fields {
            /// The receiver's session id.
            to: u64,
            /// The sender's packet number, unique within the session.
            number: u64,
            /// The path entropy, by which switches select among equal paths.
            entropy: u32,
            /// Authenticates all headers before it if the payload is missing.
            mac: [u8; 16],
        }
    }
}

/// The session header of a transport's packet, of any [format](super::PacketFormat).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PacketHeader {
    /// The receiver's session id.
    pub(crate) to: u64,
    pub(crate) number: u64,
    /// The path entropy, if it has one.
    pub(crate) entropy: Option<u32>,
    /// Authenticates the headers alone, if the packet may be trimmed.
    pub(crate) mac: Option<[u8; 16]>,
    /// Its length.
    pub(crate) bytes: usize,
}

impl PacketHeader {
    /// Parses the header at the start of `bytes`; `None` for other headers.
    pub(crate) fn parse(bytes: &[u8]) -> Option<PacketHeader> {
        let (header, _) = Header::parse(bytes).ok()?;
        let (to, number, entropy, mac) = match header {
            Header::Data(Data { to, number }) => (to, number, None, None),
            Header::Multipath(Multipath { to, number, entropy }) => {
                (to, number, Some(entropy), None)
            }
            Header::Trimmable(Trimmable { to, number, entropy, mac }) => {
                (to, number, Some(entropy), Some(mac))
            }
            _ => return None,
        };
        Some(PacketHeader { to, number, entropy, mac, bytes: header.bytes() })
    }
}

/// Messages that [`Control`] carries.
pub mod control {
    use tidegate_core::headers;

    headers! {
        /// Control messages of a session.
        pub enum ControlMessage = "control", version 1, port 52797;
        /// Grants room for payload, counted from the beginning of the session.
        Limit = 0 {
            flags {}
            fields {
                /// The limit in bytes.
                bytes: u64,
            }
        }
        /// Reports that the sender is blocked by the limit.
        Blocked = 1 {
            flags {}
            fields {
                /// The limit that the sender knows.
                bytes: u64,
            }
        }
        /// Requests a `Pong`. May be padded, to test whether the path carries full datagrams.
        Ping = 2 {
            flags {}
            fields {
                /// A random number, which the `Pong` returns.
                token: u64,
            }
        }
        /// Answers a `Ping`.
        Pong = 3 {
            flags {}
            fields {
                /// As in the `Ping`.
                token: u64,
            }
        }
        /// Ends the session.
        Close = 4 {
            flags {
                /// Confirms a `Close`; it is not answered.
                answer,
            }
            fields {
                /// The reason; always 0.
                reason: u32,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tidegate_core::wire::forwarding;

    /// Switches know these headers by their own constants.
    #[test]
    fn switches_find_entropy_and_headers() {
        let entropy = 0x0102_0304;
        let multipath = Multipath { to: 1, number: 2, entropy };
        let trimmable = Trimmable { to: 1, number: 2, entropy, mac: [9; 16] };
        let data = Data { to: 1, number: 2 };
        for (header, expected) in [
            (multipath.into(), Some((entropy, None))),
            (trimmable.into(), Some((entropy, Some(4 + Trimmable::BYTES)))),
            (Header::from(data), None),
        ] {
            let mut bytes = vec![1, 0, 0, 1];
            bytes.resize(4 + header.bytes(), 0);
            header.emit(&mut bytes[4..]).unwrap();
            bytes.push(7);
            let found = forwarding::read(&bytes).map(|read| (read.entropy, read.kept_bytes));
            assert_eq!(found, expected, "{header:?}");
        }
    }
}
