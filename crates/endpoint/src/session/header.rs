//! Headers of sessions.
//!
//! A datagram either begins with one of these headers, or has [`Data`] after the headers of its
//! transport.

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
