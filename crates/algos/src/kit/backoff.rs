//! Timeouts that double for as long as nothing comes of them. SIRD at both ends and windowed
//! connections wait like this.

use tidegate_core::Span;

/// How often in a row nothing came of waiting.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Backoff(u8);

impl Backoff {
    /// How long to wait where the first time takes `timeout`.
    #[inline]
    pub(crate) fn wait(self, timeout: Span) -> Span {
        timeout.times(1 << self.0)
    }

    /// Nothing came; the wait doubles at most `most` times, which is below 64.
    pub(crate) fn double(&mut self, most: u8) {
        self.0 = (self.0 + 1).min(most);
    }

    /// How often it has doubled.
    pub(crate) fn doubled(self) -> u8 {
        self.0
    }

    /// There is news; whether none had come before.
    #[inline]
    pub(crate) fn end(&mut self) -> bool {
        core::mem::take(&mut self.0) > 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_wait_doubles_up_to_a_bound_until_there_is_news() {
        let mut backoff = Backoff::default();
        assert!(!backoff.end());
        let waits = [1, 2, 4, 8, 8, 8].map(|_| {
            let wait = backoff.wait(Span::ms(1));
            backoff.double(3);
            wait
        });
        assert_eq!(waits, [1, 2, 4, 8, 8, 8].map(Span::ms));
        assert_eq!(backoff.doubled(), 3);
        assert!(backoff.end() && !backoff.end());
        assert_eq!(backoff.wait(Span::ms(1)), Span::ms(1));
        (0..100).for_each(|_| backoff.double(63));
        assert_eq!(backoff.wait(Span::ms(1)), Span::FOREVER, "saturates");
    }
}
