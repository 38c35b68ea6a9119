//! Headers of sessions.
//!
//! A datagram either is one of these from its first byte on, or has [`Data`] behind the headers of
//! its transport.

use tidegate_core::{Time, headers};

headers! {
    /// Sessions of real endpoints: who speaks to whom, and under which key.
    pub enum Header = "session", version 1, port 5270;
    /// Asks for a session. Zeros behind it fill up a datagram, whose round trip is measured.
    Hello = 32 {
        flags {}
        fields {
            /// Of the session, chosen by who asks: what is sent to it bears this.
            id: u64,
            /// Chosen at random by who asks; keys depend on it.
            nonce: [u8; 32],
            /// Name of the protocol, filled up with zeros.
            protocol: [u8; 16],
            /// Digest of its parameters.
            parameters: u64,
            /// Payload of a full packet, in bytes.
            payload: u32,
            /// Payload that may be sent to it before its application has taken any.
            limit: u64,
            /// What the answer to a first question held; zeros in that.
            cookie: [u8; 32],
            /// By its sender's clock; comes back in the answer.
            sent_at: Time,
            /// Proves the key, over all before it.
            mac: [u8; 16],
        }
    }
    /// Asks to ask again, with this cookie.
    Retry = 33 {
        flags {}
        fields {
            /// Whom it answers.
            to: u64,
            /// To come back as it is.
            cookie: [u8; 32],
            /// Proves the key, over all before it and the nonce of the question.
            mac: [u8; 16],
        }
    }
    /// There is a session.
    Accept = 34 {
        flags {}
        fields {
            /// Whom it answers.
            to: u64,
            /// Of the session, chosen by who answers: what is sent to it bears this.
            id: u64,
            /// Chosen at random by who answers; keys depend on it.
            nonce: [u8; 32],
            /// Payload that may be sent to it before its application has taken any.
            limit: u64,
            /// As in the question.
            sent_at: Time,
            /// Proves the key, over all before it and the nonce of the question.
            mac: [u8; 16],
        }
    }
    /// There will be no session.
    Refuse = 35 {
        flags {}
        fields {
            /// Whom it answers.
            to: u64,
            /// Why.
            reason: u32,
            /// What the other side has in place of what was asked for, where that is a number.
            instead: u64,
            /// Proves the key, over all before it and the nonce of the question.
            mac: [u8; 16],
        }
    }
    /// Behind it is the payload of a transport's packet, sealed.
    Data = 36 {
        flags {}
        fields {
            /// The receiver's id of the session.
            to: u64,
            /// Of the packet, counted by its sender: no two have one.
            number: u64,
        }
    }
    /// Behind it is what one side of a session has to tell the other, sealed.
    Control = 37 {
        flags {}
        fields {
            /// The receiver's id of the session.
            to: u64,
            /// Of the packet, counted by its sender: no two have one.
            number: u64,
        }
    }
    /// Nobody here knows of that session.
    Reset = 38 {
        flags {}
        fields {
            /// Of the session, as it was asked for.
            of: u64,
            /// Proves the key.
            token: [u8; 16],
        }
    }
}

/// What [`Control`] seals.
pub mod control {
    use tidegate_core::headers;

    headers! {
        /// What one side of a session tells the other.
        pub enum ControlMessage = "control", version 1, port 52797;
        /// Payload may be sent up to here, counted from the beginning of the session.
        Limit = 0 {
            flags {}
            fields {
                /// In bytes.
                bytes: u64,
            }
        }
        /// Would send more if it was let.
        Blocked = 1 {
            flags {}
            fields {
                /// The limit that it knows.
                bytes: u64,
            }
        }
        /// Is there anybody? Often longer than it must be, to see what the path carries.
        Ping = 2 {
            flags {}
            fields {
                /// To come back.
                token: u64,
            }
        }
        /// There is.
        Pong = 3 {
            flags {}
            fields {
                /// As in the question.
                token: u64,
            }
        }
        /// The session ends.
        Close = 4 {
            flags {
                /// It has ended on this side, too: nothing answers this.
                answer,
            }
            fields {
                /// Why.
                reason: u32,
            }
        }
    }
}
