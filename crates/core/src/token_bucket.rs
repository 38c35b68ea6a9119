//! A token bucket: a burst, and a rate.

use crate::{Pace, Rate, Span, Time};

/// A token bucket. Its state is the time at which the bytes that have left are paid for; tokens are
/// the time since then.
#[derive(Clone, Copy, Debug)]
pub struct TokenBucket {
    pace: Pace,
    burst: Span,
    /// Time at which the bytes that have left are paid for.
    paid: Time,
}

impl TokenBucket {
    /// A full bucket with a rate above zero and a depth in bytes.
    pub const fn new(rate: Rate, burst_bytes: u32) -> TokenBucket {
        let pace = rate.pace();
        TokenBucket { pace, burst: pace.serialise(burst_bytes as u64), paid: Time::ZERO }
    }

    /// The bucket with another rate from now on. The cost of earlier bytes does not change.
    pub const fn at_rate(self, rate: Rate, burst_bytes: u32) -> TokenBucket {
        TokenBucket { paid: self.paid, ..TokenBucket::new(rate, burst_bytes) }
    }

    /// Earliest time at which `bytes` may leave: when all earlier bytes and these, except for a
    /// burst, are paid for. More bytes than a burst may leave when all earlier bytes are paid for.
    #[inline]
    pub fn opens_for(&self, bytes: u64) -> Time {
        let own = self.pace.serialise(bytes);
        self.paid.after(own).before(self.burst.max(own))
    }

    /// Charges `bytes` that start to leave at `start`.
    #[inline]
    pub fn charge(&mut self, start: Time, bytes: u64) {
        self.paid = self.paid.max(start).after(self.pace.serialise(bytes));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn burst_leaves_at_once_and_the_rest_at_the_rate() {
        // 1 ns per byte, and a depth of 200 bytes.
        let mut bucket = TokenBucket::new(Rate::gbps(8), 200);
        let mut left = |at: Time| {
            let opens = bucket.opens_for(100).max(at);
            bucket.charge(opens, 100);
            opens
        };
        let ns = |ns| Time::ZERO + Span::ns(ns);
        assert_eq!([0, 0, 0, 0].map(|at| left(ns(at))), [ns(0), ns(0), ns(100), ns(200)]);
    }
}
