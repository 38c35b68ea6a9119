//! Fields of the TCP options of telemetry that a Linux box and a software switch write.
//! `crates/kernel/bpf/option.h` has their format.

use crate::Rate;

/// The 12 bits of a rate in a hop record, rounded down: 5 bits of exponent `e` and 7 of mantissa
/// `m`, for `(128 + m) * 2^e / 128` kbit/s. The largest value stands for 4.28 Tbit/s and more.
pub fn rate_code(rate: Rate) -> u64 {
    let kbps = (rate.as_bps() / 1_000).max(1);
    let exponent = kbps.ilog2().min(31);
    let mantissa = ((kbps * 128) >> exponent).min(255) - 128;
    u64::from(exponent) << 7 | mantissa
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_of_rates_are_at_most_a_128th_too_small() {
        for kbps in [2u64, 100, 1_000, 200_000, 1_000_000, 100_000_000, 400_000_000, 1 << 31] {
            let code = rate_code(Rate::bps(kbps * 1000));
            let shown = ((128 + (code & 127)) << (code >> 7)) >> 7;
            let error = shown as f64 / kbps as f64 - 1.0;
            assert!((-1.0 / 128.0..=0.0).contains(&error) && code < 1 << 12, "{kbps}: {shown}");
        }
        let largest = rate_code(Rate::bps(u64::MAX));
        assert_eq!((largest, rate_code(Rate::bps(0))), (0xfff, 0));
        assert_eq!(rate_code(Rate::gbps(4_290)), largest);
    }
}
