//! Cryptography with the shared key: MACs, cookies, and the keys of sessions.

use std::fmt;

use ring::{aead, hkdf, hmac};

/// Length of an authentication tag.
pub(crate) const TAG_BYTES: usize = 16;
/// Packets per key, as a power of two: far below the limit of AES-GCM. The number of a packet
/// determines its key.
const EPOCH_BITS: u32 = 24;

/// The key that all endpoints of a fabric share. Every holder may open sessions.
#[derive(Clone)]
pub struct Key {
    prk: hkdf::Prk,
    mac: hmac::Key,
}

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Key")
    }
}

/// An output length for `ring`.
struct Bytes(usize);

impl hkdf::KeyType for Bytes {
    fn len(&self) -> usize {
        self.0
    }
}

/// Derives `N` bytes.
fn expand<const N: usize>(prk: &hkdf::Prk, info: &[&[u8]]) -> [u8; N] {
    let mut out = [0; N];
    let filled = prk.expand(info, Bytes(N)).and_then(|okm| okm.fill(&mut out));
    debug_assert!(filled.is_ok(), "{N} bytes are no more than 255 blocks");
    out
}

impl Key {
    /// Derives a key from a secret, which should have at least 16 random bytes.
    pub fn new(secret: &[u8]) -> Key {
        let prk = hkdf::Salt::new(hkdf::HKDF_SHA256, b"tidegate 1").extract(secret);
        let mac = hmac::Key::new(hmac::HMAC_SHA256, &expand::<32>(&prk, &[b"proof"]));
        Key { prk, mac }
    }

    /// Computes a MAC over `parts`, which proves possession of the key.
    pub(crate) fn proof(&self, label: &str, parts: &[&[u8]]) -> [u8; 16] {
        shortened(tag(&self.mac, label, parts))
    }

    /// Whether `proof` is the [MAC](Self::proof) of `parts`, in constant time.
    pub(crate) fn proves(&self, proof: &[u8; 16], label: &str, parts: &[&[u8]]) -> bool {
        constant_time_eq(proof, &self.proof(label, parts))
    }

    /// Derives the keys of a session from the nonces of initiator and responder: one for packets of
    /// the initiator, one for packets of the responder.
    pub(crate) fn session(&self, initiator: &[u8; 32], responder: &[u8; 32]) -> [Secret; 2] {
        ["asked", "answered"].map(|from| {
            let info = [from.as_bytes(), initiator, responder];
            Secret(hkdf::Prk::new_less_safe(hkdf::HKDF_SHA256, &expand::<32>(&self.prk, &info)))
        })
    }
}

fn tag(key: &hmac::Key, label: &str, parts: &[&[u8]]) -> hmac::Tag {
    let mut context = hmac::Context::with_key(key);
    context.update(&[label.len() as u8]);
    context.update(label.as_bytes());
    for part in parts {
        context.update(&(part.len() as u64).to_be_bytes());
        context.update(part);
    }
    context.sign()
}

fn shortened<const N: usize>(tag: hmac::Tag) -> [u8; N] {
    let mut short = [0; N];
    short.copy_from_slice(&tag.as_ref()[..N]);
    short
}

/// Compares in constant time.
fn constant_time_eq(a: &[u8], b: &[u8]) -> bool {
    a.len() == b.len() && a.iter().zip(b).fold(0, |differ, (x, y)| differ | (x ^ y)) == 0
}

/// Creates and checks cookies. A cookie proves that its holder was reachable at its address shortly
/// before, so the node keeps no state.
pub(crate) struct Cookies(hmac::Key);

impl Cookies {
    /// Uses a secret of this process.
    pub(crate) fn new(secret: &[u8; 32]) -> Cookies {
        Cookies(hmac::Key::new(hmac::HMAC_SHA256, secret))
    }

    /// Creates a cookie at a time, in picoseconds. `holder` identifies its holder.
    pub(crate) fn create(&self, at: u64, holder: &[&[u8]]) -> [u8; 32] {
        let mut cookie = [0; 32];
        cookie[..8].copy_from_slice(&at.to_be_bytes());
        cookie[8..].copy_from_slice(&shortened::<24>(self.tag(at, holder)));
        cookie
    }

    /// The creation time of a cookie, if it was created here for this holder.
    pub(crate) fn created_at(&self, cookie: &[u8; 32], holder: &[&[u8]]) -> Option<u64> {
        let (at, proof) = cookie.split_first_chunk::<8>()?;
        let at = u64::from_be_bytes(*at);
        constant_time_eq(proof, &shortened::<24>(self.tag(at, holder))).then_some(at)
    }

    fn tag(&self, at: u64, holder: &[&[u8]]) -> hmac::Tag {
        let at = at.to_be_bytes();
        let mut parts = vec![&at[..]];
        parts.extend(holder);
        tag(&self.0, "cookie", &parts)
    }
}

/// The secret of one direction of a session, from which the keys of its packets are derived.
pub(crate) struct Secret(hkdf::Prk);

/// Use of a nonce.
#[derive(Clone, Copy)]
enum Purpose {
    /// Encrypts the payload and authenticates the whole packet.
    Packet = 0,
    /// Authenticates the headers of a packet whose payload may be missing.
    Headers = 1,
}

/// The key of consecutive packets.
struct EpochKey {
    epoch: u64,
    key: aead::LessSafeKey,
    iv: [u8; 12],
}

impl EpochKey {
    fn new(secret: &Secret, epoch: u64) -> Option<EpochKey> {
        let number = epoch.to_be_bytes();
        let key = expand::<16>(&secret.0, &[b"key", &number]);
        let key = aead::UnboundKey::new(&aead::AES_128_GCM, &key).ok()?;
        Some(EpochKey {
            epoch,
            key: aead::LessSafeKey::new(key),
            iv: expand::<12>(&secret.0, &[b"iv", &number]),
        })
    }

    /// The nonce of a packet: `purpose` distinguishes the whole packet from its headers alone, so
    /// that no nonce occurs twice.
    fn nonce(&self, number: u64, purpose: Purpose) -> aead::Nonce {
        let mut nonce = self.iv;
        nonce[0] ^= purpose as u8;
        for (byte, of_number) in nonce[4..].iter_mut().zip(number.to_be_bytes()) {
            *byte ^= of_number;
        }
        aead::Nonce::assume_unique_for_key(nonce)
    }
}

/// Encrypts or decrypts the packets of one direction.
pub(crate) struct Sealer {
    secret: Secret,
    /// The key of the last packet, and the key used before: packets may be reordered.
    keys: [Option<EpochKey>; 2],
}

impl Sealer {
    pub(crate) fn new(secret: Secret) -> Sealer {
        Sealer { secret, keys: [None, None] }
    }

    fn key(&mut self, number: u64) -> Option<&EpochKey> {
        let epoch = number >> EPOCH_BITS;
        let is_it = |key: &Option<EpochKey>| key.as_ref().is_some_and(|key| key.epoch == epoch);
        if !is_it(&self.keys[0]) {
            if !is_it(&self.keys[1]) {
                self.keys[1] = EpochKey::new(&self.secret, epoch);
            }
            self.keys.swap(0, 1);
        }
        self.keys[0].as_ref()
    }

    /// Encrypts `text` in place and returns its tag. `aad` is the associated data.
    pub(crate) fn seal(
        &mut self,
        number: u64,
        aad: &[u8],
        text: &mut [u8],
    ) -> Option<[u8; TAG_BYTES]> {
        let key = self.key(number)?;
        let aad = aead::Aad::from(aad);
        let nonce = key.nonce(number, Purpose::Packet);
        let tag = key.key.seal_in_place_separate_tag(nonce, aad, text).ok()?;
        tag.as_ref().try_into().ok()
    }

    /// The MAC of headers, `aad`, without their payload.
    pub(crate) fn mac(&mut self, number: u64, aad: &[u8]) -> Option<[u8; TAG_BYTES]> {
        let key = self.key(number)?;
        let (nonce, aad) = (key.nonce(number, Purpose::Headers), aead::Aad::from(aad));
        let tag = key.key.seal_in_place_separate_tag(nonce, aad, &mut []).ok()?;
        tag.as_ref().try_into().ok()
    }

    /// Whether `mac` is the [MAC](Self::mac) of the headers, in constant time.
    pub(crate) fn has_mac(&mut self, number: u64, aad: &[u8], mac: [u8; TAG_BYTES]) -> bool {
        let Some(key) = self.key(number) else { return false };
        let (nonce, aad) = (key.nonce(number, Purpose::Headers), aead::Aad::from(aad));
        key.key.open_in_place(nonce, aad, &mut { mac }).is_ok()
    }

    /// Decrypts `sealed`, which ends with its tag, in place. Returns the text; `None` if the
    /// authentication fails.
    pub(crate) fn open<'a>(
        &mut self,
        number: u64,
        aad: &[u8],
        sealed: &'a mut [u8],
    ) -> Option<&'a mut [u8]> {
        let key = self.key(number)?;
        let nonce = key.nonce(number, Purpose::Packet);
        key.key.open_in_place(nonce, aead::Aad::from(aad), sealed).ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pair() -> (Sealer, Sealer) {
        let [one, _] = Key::new(b"key").session(&[1; 32], &[2; 32]);
        let [again, _] = Key::new(b"key").session(&[1; 32], &[2; 32]);
        (Sealer::new(one), Sealer::new(again))
    }

    fn sealed(sealer: &mut Sealer, number: u64) -> Vec<u8> {
        let mut text = b"some text".to_vec();
        let tag = sealer.seal(number, b"beside", &mut text).unwrap();
        assert_ne!(&text[..], b"some text");
        text.extend(tag);
        text
    }

    #[test]
    fn open_refuses_modified_packets() {
        let (mut sealer, mut opener) = pair();
        let text = sealed(&mut sealer, 7);
        let opened = |opener: &mut Sealer, number, aad: &[u8], sealed: &[u8]| {
            opener.open(number, aad, &mut sealed.to_vec()).map(|text| text.to_vec())
        };
        assert_eq!(opened(&mut opener, 7, b"beside", &text).unwrap(), b"some text");
        assert_eq!(opened(&mut opener, 8, b"beside", &text), None);
        assert_eq!(opened(&mut opener, 7 + (1 << EPOCH_BITS), b"beside", &text), None);
        assert_eq!(opened(&mut opener, 7, b"other", &text), None);
        for byte in 0..text.len() {
            let mut other = text.clone();
            other[byte] ^= 1;
            assert_eq!(opened(&mut opener, 7, b"beside", &other), None);
        }
        assert_eq!(opened(&mut opener, 7, b"beside", &text[..TAG_BYTES - 1]), None);
        let [_, other] = Key::new(b"key").session(&[1; 32], &[2; 32]);
        assert_eq!(opened(&mut Sealer::new(other), 7, b"beside", &text), None);
    }

    #[test]
    fn mac_is_bound_to_headers_and_number() {
        let (mut sealer, mut opener) = pair();
        let mac = sealer.mac(7, b"headers").unwrap();
        assert!(opener.has_mac(7, b"headers", mac));
        assert!(!opener.has_mac(8, b"headers", mac) && !opener.has_mac(7, b"header", mac));
        for byte in 0..mac.len() {
            let mut other = mac;
            other[byte] ^= 1;
            assert!(!opener.has_mac(7, b"headers", other));
        }
        // It does not authenticate an empty packet, and the tag of one is no MAC.
        assert_eq!(opener.open(7, b"headers", &mut { mac }), None);
        let tag = sealer.seal(7, b"headers", &mut []).unwrap();
        assert!(!opener.has_mac(7, b"headers", tag));
    }

    /// Vectors of another implementation: HKDF-SHA256 from Python's `hmac`, AES-128-GCM from its
    /// package `cryptography`. In order: the first packet, one in the middle, one 65,536 packets
    /// later, the last under the first key, one under the next, one whose number fills all bytes.
    #[test]
    fn seal_matches_another_implementation() {
        let vectors = [
            (0, "8abdb4adee89573d5f5873ab0082cb8d8bca4e597287cc353d"),
            (7, "a1a506510e9f71600552dfabc426e46d14619e09d975bc0570"),
            (65_536 + 7, "cbbd00cd2f9f0d5360e8dc5239a51b25f343baeda868a30d2a"),
            ((1 << EPOCH_BITS) - 1, "f9001e81832535ee1ad3ed8de4e1ee9af53a39e0a9543538db"),
            ((1 << EPOCH_BITS) + 7, "e0bd6935d0789d3d6782bd5e2d8558c2498189daf0f5d8adbb"),
            (0x0102_0304_0506_0708, "074fc1cbdb913fe8226b02616e3ca3b06e7ea8ff54efd126a9"),
        ];
        for (number, expected) in vectors {
            let sealed = sealed(&mut pair().0, number);
            let hex: String = sealed.iter().map(|byte| format!("{byte:02x}")).collect();
            assert_eq!(hex, expected, "packet {number}");
        }
    }

    /// A repeated nonce under one key would reveal the key stream, the text and the authentication
    /// key.
    #[test]
    fn nonces_are_unique_per_key() {
        let (mut sealer, _) = pair();
        let mut streams = std::collections::BTreeSet::new();
        // All numbers around each power of two that a narrower counter would wrap at.
        for bit in 0..EPOCH_BITS {
            let first = (1u64 << bit) - 1;
            for number in first..(first + 3).min(1 << EPOCH_BITS) {
                streams.insert((number, sealed(&mut sealer, number)));
            }
        }
        let numbers: std::collections::BTreeSet<_> = streams.iter().map(|(n, _)| n).collect();
        let texts: std::collections::BTreeSet<_> = streams.iter().map(|(_, s)| &s[..9]).collect();
        assert_eq!(numbers.len(), texts.len());
    }

    #[test]
    fn key_change_with_reordered_packets() {
        let (mut sealer, mut opener) = pair();
        let change = 1 << EPOCH_BITS;
        let all: Vec<_> = (change - 2..change + 2).map(|n| (n, sealed(&mut sealer, n))).collect();
        for i in [2, 0, 3, 1] {
            let (number, text) = &all[i];
            assert!(opener.open(*number, b"beside", &mut text.clone()).is_some());
        }
        for sealer in [sealer, opener] {
            let [last, before] = sealer.keys.map(Option::unwrap);
            assert_eq!(last.epoch + before.epoch, 1);
            assert_ne!(last.iv, before.iv);
        }
    }

    #[test]
    fn cookie_is_bound_to_its_holder() {
        let cookies = Cookies::new(&[1; 32]);
        let cookie = cookies.create(5, &[b"one", b"two"]);
        assert_eq!(cookies.created_at(&cookie, &[b"one", b"two"]), Some(5));
        assert_eq!(cookies.created_at(&cookie, &[b"onet", b"wo"]), None);
        assert_eq!(Cookies::new(&[2; 32]).created_at(&cookie, &[b"one", b"two"]), None);
        for byte in 0..cookie.len() {
            let mut other = cookie;
            other[byte] ^= 1;
            assert_eq!(cookies.created_at(&other, &[b"one", b"two"]), None);
        }
    }
}
