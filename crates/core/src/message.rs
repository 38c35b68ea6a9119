//! Messages of applications.

/// A message that the application submits as a whole. Its size may be unlimited
/// ([`Message::UNLIMITED`]).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Message {
    /// Number that the application assigns; unique among the live messages of the submitting host.
    pub id: u32,
    /// Destination host; never the submitting host.
    pub dst: u32,
    /// Payload bytes, at least 1.
    pub bytes: u64,
    /// The message needs a connection of its own, whatever the policy (an explicit flow).
    pub dedicated: bool,
    /// Weight among the messages of other tenants, in protocols that distinguish tenants: 1 to
    /// [`Message::MOST_WEIGHT`].
    pub weight: u8,
    /// Role in a request and its reply.
    pub role: Role,
}

/// Role of a message in a request and its reply.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Role {
    /// The message has no reply.
    #[default]
    Alone,
    /// The destination replies with a message.
    Request,
    /// Reply to the destination's message with this number ([`Message::id`]).
    Reply {
        /// Number of the request.
        request: u32,
    },
}

impl Message {
    /// Size of an unlimited message, which ends only when it is stopped.
    pub const UNLIMITED: u64 = u64::MAX;
    /// Largest weight.
    pub const MOST_WEIGHT: u8 = 31;
}

/// Identifier of a message in a fabric.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct MessageId {
    /// The host that submitted it.
    pub src: u32,
    /// Number at that host: [`Message::id`].
    pub id: u32,
}
