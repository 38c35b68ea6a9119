//! Sessions: what two endpoints share once each knows that the other has the key.

pub mod header;
pub(crate) mod keys;
mod numbers;

pub use keys::Key;

use keys::{Sealer, Secret, TAG_BYTES};
use numbers::Seen;

/// Bytes that a session adds to a packet: a header, and what proves that nothing was changed.
pub const OVERHEAD_BYTES: usize = header::Data::BYTES + TAG_BYTES;

/// Both directions of a session.
pub(crate) struct Session {
    sends: Sealer,
    opens: Sealer,
    /// Number of the next packet.
    next: u64,
    seen: Seen,
}

/// What a packet turned out to be.
#[derive(Debug, PartialEq)]
pub(crate) enum Opened<'a> {
    /// Sealed by the peer, and none that came before; whether none with a higher number did.
    Fresh(&'a mut [u8], bool),
    /// It came before, or so long ago that nobody can tell.
    Old,
    /// Not what the peer sealed.
    Forged,
}

impl Session {
    /// With the secrets of what is sent and of what comes.
    pub(crate) fn new(sends: Secret, opens: Secret) -> Session {
        Session {
            sends: Sealer::new(sends),
            opens: Sealer::new(opens),
            next: 0,
            seen: Seen::default(),
        }
    }

    /// The number of the next packet, which is used up.
    pub(crate) fn number(&mut self) -> u64 {
        let number = self.next;
        self.next += 1;
        number
    }

    /// Seals the text in `packet`, which is followed by room for a tag at the packet's end.
    pub(crate) fn seal(&mut self, number: u64, bound: &[u8], text_and_room: &mut [u8]) {
        let Some(at) = text_and_room.len().checked_sub(TAG_BYTES) else { return };
        let (text, room) = text_and_room.split_at_mut(at);
        if let Some(tag) = self.sends.seal(number, bound, text) {
            room.copy_from_slice(&tag);
        }
    }

    /// Opens a packet.
    pub(crate) fn open<'a>(
        &mut self,
        number: u64,
        bound: &[u8],
        sealed: &'a mut [u8],
    ) -> Opened<'a> {
        if self.seen.before(number) {
            return Opened::Old;
        }
        match self.opens.open(number, bound, sealed) {
            Some(text) => Opened::Fresh(text, self.seen.note(number)),
            None => Opened::Forged,
        }
    }
}
