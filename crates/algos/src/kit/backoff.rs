//! Timeouts that double while there is no response. Used by SIRD at both ends and by windowed
//! connections.

use tidegate_core::Span;

/// Number of consecutive timeouts without a response.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Backoff(u8);

impl Backoff {
    /// Time to wait if the first wait is `timeout`.
    #[inline]
    pub(crate) fn wait(self, timeout: Span) -> Span {
        timeout.times(1 << self.0)
    }

    /// One doubling less; none if there is none.
    pub(crate) fn before(self) -> Backoff {
        Backoff(self.0.saturating_sub(1))
    }

    /// Registers a wait without a response; the wait doubles at most `most` times, which is below
    /// 64.
    pub(crate) fn double(&mut self, most: u8) {
        self.0 = (self.0 + 1).min(most);
    }

    /// Number of doublings.
    pub(crate) fn doubled(self) -> u8 {
        self.0
    }

    /// Resets after a response. Returns whether there had been none.
    #[inline]
    pub(crate) fn end(&mut self) -> bool {
        core::mem::take(&mut self.0) > 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wait_doubles_up_to_a_bound_until_a_response() {
        let mut backoff = Backoff::default();
        assert!(!backoff.end());
        let waits = [1, 2, 4, 8, 8, 8].map(|_| {
            let wait = backoff.wait(Span::ms(1));
            backoff.double(3);
            wait
        });
        assert_eq!(waits, [1, 2, 4, 8, 8, 8].map(Span::ms));
        assert_eq!((backoff.doubled(), backoff.before().doubled()), (3, 2));
        assert!(backoff.end() && !backoff.end());
        assert_eq!((backoff.wait(Span::ms(1)), backoff.before()), (Span::ms(1), backoff));
        (0..100).for_each(|_| backoff.double(63));
        assert_eq!(backoff.wait(Span::ms(1)), Span::FOREVER, "saturates");
    }
}
