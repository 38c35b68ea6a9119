//! Sessions: the state that two endpoints share after each has proved possession of the key.

pub mod header;
pub(crate) mod keys;
mod numbers;

pub use keys::Key;

use keys::{Sealer, Secret, TAG_BYTES};
use numbers::Seen;

/// Bytes that a session adds to a packet: a header and an authentication tag.
pub const OVERHEAD_BYTES: usize = header::Data::BYTES + TAG_BYTES;

/// Both directions of a session.
pub(crate) struct Session {
    sends: Sealer,
    opens: Sealer,
    /// Number of the next packet.
    next: u64,
    seen: Seen,
}

/// The result of decrypting a packet.
#[derive(Debug, PartialEq)]
pub(crate) enum Opened<'a> {
    /// Authentic and not seen before; the flag is true if no higher number was seen.
    Fresh(&'a mut [u8], bool),
    /// Replayed, or too old to check.
    Old,
    /// Not authentic.
    Forged,
}

impl Session {
    /// Creates a session from the secrets of both directions.
    pub(crate) fn new(sends: Secret, opens: Secret) -> Session {
        Session {
            sends: Sealer::new(sends),
            opens: Sealer::new(opens),
            next: 0,
            seen: Seen::default(),
        }
    }

    /// Takes the number of the next packet.
    pub(crate) fn number(&mut self) -> u64 {
        let number = self.next;
        self.next += 1;
        number
    }

    /// Encrypts the text in place. The buffer ends with room for the tag.
    pub(crate) fn seal(&mut self, number: u64, bound: &[u8], text_and_room: &mut [u8]) {
        let Some(at) = text_and_room.len().checked_sub(TAG_BYTES) else { return };
        let (text, room) = text_and_room.split_at_mut(at);
        if let Some(tag) = self.sends.seal(number, bound, text) {
            room.copy_from_slice(&tag);
        }
    }

    /// Decrypts a packet.
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
