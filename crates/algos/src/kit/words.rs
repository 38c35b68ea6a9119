//! Numbers and flags in the words and tags of packet bodies. All transports write their headers
//! with these.

/// Packs two numbers into a word, for example lane and generation of a message.
#[inline(always)]
pub(crate) fn pair(low: u32, high: u32) -> u64 {
    (high as u64) << 32 | low as u64
}

/// The two numbers of such a word.
#[inline(always)]
pub(crate) fn unpair(word: u64) -> (u32, u32) {
    (word as u32, (word >> 32) as u32)
}

/// The bits of a flag in a tag.
#[inline(always)]
pub(crate) fn flag(set: bool, flag: u8) -> u8 {
    if set { flag } else { 0 }
}
