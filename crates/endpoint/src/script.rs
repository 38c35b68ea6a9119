//! Bytes as a script of actions, for randomised tests.

/// Reads numbers from bytes; returns zeros when the bytes are used up.
pub(crate) struct Script<'a>(&'a [u8]);

impl<'a> Script<'a> {
    pub(crate) fn new(bytes: &'a [u8]) -> Script<'a> {
        Script(bytes)
    }

    pub(crate) fn is_over(&self) -> bool {
        self.0.is_empty()
    }

    pub(crate) fn u8(&mut self) -> u8 {
        let Some((&first, rest)) = self.0.split_first() else { return 0 };
        self.0 = rest;
        first
    }

    /// Mostly small numbers, sometimes any number.
    pub(crate) fn number(&mut self) -> u64 {
        let kind = self.u8();
        match kind % 8 {
            0..=3 => (kind / 8) as u64 % 4,
            4 => self.u8() as u64,
            5 => self.u8() as u64 * 1_000,
            6 => u64::MAX - self.u8() as u64,
            _ => (0..8).fold(0, |sum, _| sum << 8 | self.u8() as u64),
        }
    }

    /// Takes up to `most` bytes.
    pub(crate) fn bytes(&mut self, most: usize) -> &'a [u8] {
        let (bytes, rest) = self.0.split_at(most.min(self.0.len()));
        self.0 = rest;
        bytes
    }
}
