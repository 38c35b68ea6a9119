//! Sessions: the state that two endpoints share after each has proved possession of the key.

pub mod header;
pub(crate) mod keys;
mod numbers;

pub use keys::Key;

use keys::{Sealer, Secret, TAG_BYTES};
use numbers::Seen;

/// Bytes that a session adds to a packet: a header and an authentication tag.
pub const OVERHEAD_BYTES: usize = header::Data::BYTES + TAG_BYTES;

/// Header of the packets of a transport. Both sides of a session use the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PacketFormat {
    /// [`Data`](header::Data).
    Plain,
    /// [`Multipath`](header::Multipath): packets select their paths.
    Multipath,
    /// [`Trimmable`](header::Trimmable) in packets with payload, [`Multipath`](header::Multipath)
    /// in others: the network trims.
    Trimmable,
}

impl PacketFormat {
    /// Bytes that a session adds to a full packet.
    pub const fn overhead_bytes(self) -> usize {
        TAG_BYTES
            + match self {
                PacketFormat::Plain => header::Data::BYTES,
                PacketFormat::Multipath => header::Multipath::BYTES,
                PacketFormat::Trimmable => header::Trimmable::BYTES,
            }
    }
}

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
    pub(crate) fn seal(&mut self, number: u64, aad: &[u8], text_and_room: &mut [u8]) {
        let Some(at) = text_and_room.len().checked_sub(TAG_BYTES) else { return };
        let (text, room) = text_and_room.split_at_mut(at);
        if let Some(tag) = self.sends.seal(number, aad, text) {
            room.copy_from_slice(&tag);
        }
    }

    /// The MAC of a packet's headers, for the case that its payload is missing.
    pub(crate) fn mac(&mut self, number: u64, aad: &[u8]) -> [u8; TAG_BYTES] {
        self.sends.mac(number, aad).unwrap_or_default()
    }

    /// Checks a packet without its payload.
    pub(crate) fn open_trimmed(
        &mut self,
        number: u64,
        aad: &[u8],
        mac: [u8; TAG_BYTES],
    ) -> Opened<'static> {
        if self.seen.before(number) {
            return Opened::Old;
        }
        match self.opens.has_mac(number, aad, mac) {
            true => Opened::Fresh(&mut [], self.seen.note(number)),
            false => Opened::Forged,
        }
    }

    /// Decrypts a packet.
    pub(crate) fn open<'a>(&mut self, number: u64, aad: &[u8], sealed: &'a mut [u8]) -> Opened<'a> {
        if self.seen.before(number) {
            return Opened::Old;
        }
        match self.opens.open(number, aad, sealed) {
            Some(text) => Opened::Fresh(text, self.seen.note(number)),
            None => Opened::Forged,
        }
    }
}
