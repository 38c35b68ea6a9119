//! Fields that a switch reads in the datagrams of live sessions: the path entropy, and where it may
//! cut. The session defines the headers; their values of byte 1 and the positions are fixed here,
//! because switches know no sessions.
//!
//! A switch finds the session header by the lengths of the headers before it: telemetry, then that
//! of the transport. Datagrams of any other form have neither entropy nor a place to cut.

use super::telemetry::FIRST_KIND;
use super::{START_BYTES, Start};

/// Version of both headers.
const VERSION: u8 = 1;
/// Kind of the session header of packets that have an entropy.
pub const MULTIPATH: u8 = 39;
/// Kind of the session header of packets that have an entropy and may be trimmed: it authenticates
/// the headers without the payload.
pub const TRIMMABLE: u8 = 40;
/// Length of a [`TRIMMABLE`] header.
pub const TRIMMABLE_BYTES: usize = MULTIPATH_BYTES + 16;
/// Length of a [`MULTIPATH`] header.
pub const MULTIPATH_BYTES: usize = ENTROPY_AT + 4;
/// Position of the entropy in both: after the session id and the packet number.
const ENTROPY_AT: usize = START_BYTES + 8 + 8;
/// Kinds of transports are below those of sessions.
const FIRST_OF_SESSIONS: u8 = 0x20;
/// Kinds of telemetry.
const MOST_TELEMETRY: usize = 2;

/// The fields of a datagram.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Forwarding {
    /// The sender's path entropy.
    pub entropy: u32,
    /// Length of all headers if the datagram may be trimmed: a trimmed datagram keeps at least
    /// these.
    pub kept_bytes: Option<usize>,
}

/// Reads the fields; `None` if the datagram has another form.
pub fn read(datagram: &[u8]) -> Option<Forwarding> {
    let mut rest = datagram;
    let mut left = MOST_TELEMETRY;
    while left > 0 && rest.get(1).is_some_and(|&kind| kind >= FIRST_KIND) {
        rest = after(rest)?;
        left -= 1;
    }
    if *rest.get(1)? >= FIRST_OF_SESSIONS {
        return None;
    }
    let session = Start::parse(after(rest)?, VERSION).ok()?;
    let bytes = match session.kind {
        MULTIPATH => MULTIPATH_BYTES,
        TRIMMABLE => TRIMMABLE_BYTES,
        _ => return None,
    };
    let (_, fields) = session.checked(0, bytes).ok()?;
    let entropy = fields.get(ENTROPY_AT - START_BYTES..)?.first_chunk()?;
    let headers = datagram.len() - session.rest.len();
    let is_trimmable = session.kind == TRIMMABLE && !session.rest.is_empty();
    let kept_bytes = is_trimmable.then_some(headers);
    Some(Forwarding { entropy: u32::from_be_bytes(*entropy), kept_bytes })
}

/// The bytes after a header of any version.
fn after(bytes: &[u8]) -> Option<&[u8]> {
    let length = 4 * usize::from(*bytes.get(3)?);
    bytes.get(length..).filter(|_| length >= START_BYTES)
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec::Vec;

    /// Telemetry of 12 bytes, a transport header of 8 bytes, and a session header.
    fn datagram(kind: u8, session_bytes: usize, payload: usize) -> Vec<u8> {
        let mut bytes = [[1, 0x40, 0, 3], [9; 4], [9; 4], [7, 2, 0, 2], [9; 4]].concat();
        let at = bytes.len();
        bytes.extend([1, kind, 0, (session_bytes / 4) as u8]);
        bytes.resize(at + session_bytes, 0);
        bytes[at + 20..at + 24].copy_from_slice(&[1, 2, 3, 4]);
        bytes.resize(at + session_bytes + payload, 5);
        bytes
    }

    #[test]
    fn entropy_and_place_to_cut() {
        let entropy = 0x0102_0304;
        let found = |kept_bytes| Some(Forwarding { entropy, kept_bytes });
        assert_eq!(read(&datagram(TRIMMABLE, 40, 100)), found(Some(60)));
        assert_eq!(read(&datagram(TRIMMABLE, 40, 100)[12..]), found(Some(48)), "no telemetry");
        assert_eq!(read(&datagram(TRIMMABLE, 40, 0)), found(None), "trimmed before");
        assert_eq!(read(&datagram(MULTIPATH, 24, 100)), found(None));
    }

    #[test]
    fn other_forms_have_neither() {
        for (kind, bytes) in [(36, 40), (TRIMMABLE, 36), (TRIMMABLE, 24), (MULTIPATH, 40)] {
            assert_eq!(read(&datagram(kind, bytes, 100)), None, "{kind}, {bytes}");
        }
        let whole = datagram(TRIMMABLE, 40, 0);
        for cut in 0..whole.len() {
            assert_eq!(read(&whole[..cut]), None, "{cut}");
        }
        // A session header first, a length of zero, a flag, another version, three telemetries.
        assert_eq!(read(&whole[20..]), None);
        for (at, byte) in [(15, 0), (3, 0), (22, 1), (20, 2)] {
            let mut other = whole.clone();
            other[at] = byte;
            assert_eq!(read(&other), None, "{at}");
        }
        let thrice = [&whole[..12], &whole[..12], &whole[..]].concat();
        assert_eq!(read(&thrice), None);
    }
}
