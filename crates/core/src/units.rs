//! Rates in bits per second, and sizes relative to the bandwidth-delay product.

use core::fmt;

use crate::Span;

/// A link or sending rate in bits per second.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Rate(u64);

/// Fraction bits of [`Rate::ps_per_byte_q20`].
const Q: u32 = 20;

impl Rate {
    /// From bits per second.
    #[inline]
    pub const fn bps(bps: u64) -> Rate {
        Rate(bps)
    }
    /// From megabits (10⁶) per second.
    #[inline]
    pub const fn mbps(mbps: u64) -> Rate {
        Rate(mbps * 1_000_000)
    }
    /// From gigabits (10⁹) per second.
    #[inline]
    pub const fn gbps(gbps: u64) -> Rate {
        Rate(gbps * 1_000_000_000)
    }
    /// In bits per second.
    #[inline]
    pub const fn as_bps(self) -> u64 {
        self.0
    }
    /// In gigabits per second.
    #[inline]
    pub fn as_gbps_f64(self) -> f64 {
        self.0 as f64 * 1e-9
    }
    /// Picoseconds per byte with 20 fraction bits, rounded to nearest: exact at 1, 10, 25, 40, 50,
    /// 100, 200, 400, 800 and 1600 Gbit/s, otherwise with an error of at most 2⁻²¹ ps per byte.
    #[inline]
    pub const fn ps_per_byte_q20(self) -> u64 {
        let numerator = 8_000_000_000_000u128 << Q;
        ((numerator + self.0 as u128 / 2) / self.0 as u128) as u64
    }
    /// Serialisation time of `bytes`, rounded down to a picosecond. Rates from 1 Mbit/s and packets
    /// up to 1 MiB do not overflow; the product has 128 bits for whole messages.
    #[inline]
    pub const fn serialise(self, bytes: u64) -> Span {
        self.pace().serialise(bytes)
    }
    /// Precomputed pace for many packets. The rate must not be zero.
    #[inline]
    pub const fn pace(self) -> Pace {
        Pace { ps_per_byte_q20: self.ps_per_byte_q20() }
    }
    /// Bytes that fit in `span`, rounded down.
    #[inline]
    pub const fn bytes_in(self, span: Span) -> u64 {
        (self.0 as u128 * span.as_ps() as u128 / 8_000_000_000_000) as u64
    }
}

/// Serialisation time per byte at some rate, precomputed so that packets need no division.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Pace {
    ps_per_byte_q20: u64,
}

impl Pace {
    /// As [`Rate::serialise`].
    #[inline]
    pub const fn serialise(self, bytes: u64) -> Span {
        Span::ps(((bytes as u128 * self.ps_per_byte_q20 as u128) >> Q) as u64)
    }
}

impl fmt::Display for Rate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (scale, unit) in [
            (1_000_000_000_000, "Tbps"),
            (1_000_000_000, "Gbps"),
            (1_000_000, "Mbps"),
            (1_000, "kbps"),
        ] {
            if self.0 != 0 && self.0.is_multiple_of(scale) {
                return write!(f, "{}{unit}", self.0 / scale);
            }
        }
        write!(f, "{}bps", self.0)
    }
}

/// A size that is either absolute or relative to the bandwidth-delay product.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Extent {
    /// Number of bytes.
    Bytes(f64),
    /// Multiple of the bandwidth-delay product.
    Bdp(f64),
}

impl Extent {
    /// In bytes, given the bandwidth-delay product in bytes.
    #[inline]
    pub fn bytes(self, bdp: f64) -> f64 {
        match self {
            Extent::Bytes(bytes) => bytes,
            Extent::Bdp(factor) => factor * bdp,
        }
    }
}

impl fmt::Display for Extent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Extent::Bytes(bytes) => write!(f, "{bytes}B"),
            Extent::Bdp(factor) => write!(f, "{factor}BDP"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rate_is_exact_at_usual_ethernet_rates() {
        for (gbps, ps) in [
            (1, 8000),
            (10, 800),
            (25, 320),
            (40, 200),
            (50, 160),
            (100, 80),
            (200, 40),
            (400, 20),
            (800, 10),
            (1600, 5),
        ] {
            assert_eq!(Rate::gbps(gbps).ps_per_byte_q20(), ps << Q);
            assert_eq!(Rate::gbps(gbps).serialise(4176), Span::ps(4176 * ps));
        }
    }

    #[test]
    fn other_rates_err_by_less_than_a_picosecond() {
        for mbps in [1, 3, 7, 33, 123, 999, 12_345, 27_000] {
            let exact = 9_216.0 * 8e6 / mbps as f64;
            let ours = Rate::mbps(mbps).serialise(9_216).as_ps() as f64;
            assert!((exact - ours).abs() <= 1.01, "{mbps} Mbit/s: {exact} against {ours}");
        }
    }
}
