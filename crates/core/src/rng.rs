//! Random numbers from our own small generator, so a seed gives the same run on every platform and
//! in every version.

/// Purpose of a stream of random numbers. Streams are derived from (seed, domain, entity) and never
/// shared, so a new consumer does not change existing streams.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u64)]
pub enum Domain {
    /// Arrivals and sizes of generated traffic; the entity is the traffic block and host.
    Traffic = 1,
    /// ECMP hashes of connections.
    Entropy = 2,
    /// Decisions inside a transport; the entity is the host.
    Transport = 3,
    /// Random early marking; the entity is the port.
    Marking = 4,
    /// Injected faults; the entity is the link or host.
    Faults = 5,
    /// Per-switch ECMP salts.
    Routing = 6,
    /// Paths of sprayed packets; the entity is the sending host.
    Spray = 7,
    /// Time that software holds packets; the entity is the host.
    Stack = 8,
    /// Rounds of the clients of closed loops; the entity is the client and the round.
    Loops = 9,
    /// Packets that lose their payload at a full queue; the entity is the port.
    Trimming = 10,
}

/// A bijective scramble of 64 bits (the finaliser of SplitMix64).
#[inline]
pub const fn mix64(mut x: u64) -> u64 {
    x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ (x >> 31)
}

/// xoshiro256++ seeded by SplitMix64. Version 1: changing its output changes the semantics.
#[derive(Clone, Debug)]
pub struct Rng {
    s: [u64; 4],
}

impl Rng {
    /// The stream of `entity` in `domain` under `seed`.
    pub fn stream(seed: u64, domain: Domain, entity: u64) -> Rng {
        let mut state = mix64(seed) ^ mix64((domain as u64) << 56 ^ entity ^ 0x7469_6465_6761_7465);
        let mut next = || {
            state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
            mix64(state)
        };
        Rng { s: [next(), next(), next(), next()] }
    }

    /// 64 uniform bits.
    #[inline]
    pub fn bits(&mut self) -> u64 {
        let s = &mut self.s;
        let out = s[0].wrapping_add(s[3]).rotate_left(23).wrapping_add(s[0]);
        let t = s[1] << 17;
        s[2] ^= s[0];
        s[3] ^= s[1];
        s[1] ^= s[2];
        s[0] ^= s[3];
        s[2] ^= t;
        s[3] = s[3].rotate_left(45);
        out
    }

    /// Uniform in [0, 1), a multiple of 2⁻⁵³.
    #[inline]
    pub fn unit(&mut self) -> f64 {
        (self.bits() >> 11) as f64 * (1.0 / (1u64 << 53) as f64)
    }

    /// Uniform in `0..n`; the bias is below n · 2⁻⁶⁴. `n` must not be zero.
    #[inline]
    pub fn below(&mut self, n: u64) -> u64 {
        ((self.bits() as u128 * n as u128) >> 64) as u64
    }

    /// Exponential with mean 1.
    #[inline]
    pub fn exponential(&mut self) -> f64 {
        -crate::math::ln(1.0 - self.unit())
    }

    /// Shuffles in place (Fisher and Yates).
    pub fn shuffle<T>(&mut self, items: &mut [T]) {
        for i in (1..items.len()).rev() {
            items.swap(i, self.below(i as u64 + 1) as usize);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stream_is_frozen() {
        let mut rng = Rng::stream(1, Domain::Traffic, 0);
        let first = [rng.bits(), rng.bits()];
        let mut other = Rng::stream(1, Domain::Traffic, 1);
        assert_ne!(first[0], other.bits());
        assert_eq!(first, FROZEN, "the generator changed: raise the version of the semantics");
    }
    const FROZEN: [u64; 2] = [18_267_976_575_981_534_850, 2_839_048_186_652_742_852];

    #[test]
    fn exponential_has_mean_and_variance_one() {
        let mut rng = Rng::stream(7, Domain::Traffic, 3);
        let n = 400_000;
        let (mut sum, mut squares) = (0.0, 0.0);
        for _ in 0..n {
            let x = rng.exponential();
            sum += x;
            squares += x * x;
        }
        let mean = sum / n as f64;
        assert!((mean - 1.0).abs() < 0.01, "{mean}");
        assert!((squares / n as f64 - mean * mean - 1.0).abs() < 0.02);
    }
}
