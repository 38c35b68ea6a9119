//! Identity of a message in the headers of ExpressPass and of the pull transports (EQDS, RCCC,
//! NDP).

/// Identity of a message: its numbers at both ends.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Name {
    /// The sender's slot.
    pub(crate) connection: u32,
    pub(crate) lane: u32,
    pub(crate) generation: u32,
    /// The application's number.
    pub(crate) message: u32,
}

/// Implements access to the identity for a header, all of whose kinds have it.
macro_rules! named {
    ($Header:ident: $($Kind:ident),*) => {
        $(impl $Kind {
            #[inline]
            pub(super) fn name(&self) -> Name {
                let $Kind { connection, lane, generation, message, .. } = *self;
                Name { connection, lane, generation, message }
            }
        })*

        impl $Header {
            /// Identity of the message that it refers to.
            #[inline]
            pub(super) fn name(&self) -> Name {
                match self { $($Header::$Kind(header) => header.name(),)* }
            }
        }
    };
}
pub(crate) use named;
