//! MT19937, the generator of C++'s standard library and of Python, and the distributions of both.
//!
//! Matsumoto and Nishimura, "Mersenne Twister", ACM TOMACS 1998; `init_genrand` and `init_by_array`
//! are those of the authors' mt19937ar.c.

const WORDS: usize = 624;
const SHIFT: usize = 397;

/// The state of a generator.
pub(super) struct Mersenne {
    words: [u32; WORDS],
    next: usize,
}

impl Mersenne {
    /// A generator seeded with one word, as by `std::mt19937(seed)`.
    pub(super) fn new(seed: u32) -> Mersenne {
        let mut words = [seed; WORDS];
        for i in 1..WORDS {
            let before = words[i - 1];
            words[i] = (before ^ before >> 30).wrapping_mul(1_812_433_253).wrapping_add(i as u32);
        }
        Mersenne { words, next: WORDS }
    }

    /// A generator seeded with an array: `random.Random(seed)` of Python uses the 32-bit digits of
    /// its seed.
    pub(super) fn of_python(seed: u64) -> Mersenne {
        let digits = [seed as u32, (seed >> 32) as u32];
        let digits = if digits[1] == 0 { &digits[..1] } else { &digits[..] };
        let mut words = Mersenne::new(19_650_218).words;
        let (mut i, mut digit) = (1, 0);
        let step = |words: &mut [u32; WORDS], i: &mut usize| {
            *i += 1;
            if *i == WORDS {
                words[0] = words[WORDS - 1];
                *i = 1;
            }
        };
        let mixed = |words: &[u32; WORDS], i: usize, factor: u32| {
            let before = words[i - 1];
            words[i] ^ (before ^ before >> 30).wrapping_mul(factor)
        };
        for _ in 0..WORDS {
            let added = digits[digit].wrapping_add(digit as u32);
            words[i] = mixed(&words, i, 1_664_525).wrapping_add(added);
            step(&mut words, &mut i);
            digit = (digit + 1) % digits.len();
        }
        for _ in 1..WORDS {
            words[i] = mixed(&words, i, 1_566_083_941).wrapping_sub(i as u32);
            step(&mut words, &mut i);
        }
        words[0] = 1 << 31;
        Mersenne { words, next: WORDS }
    }

    /// 32 uniform bits.
    fn bits(&mut self) -> u32 {
        if self.next == WORDS {
            self.twist();
        }
        let mut y = self.words[self.next];
        self.next += 1;
        y ^= y >> 11;
        y ^= y << 7 & 0x9d2c_5680;
        y ^= y << 15 & 0xefc6_0000;
        y ^ y >> 18
    }

    fn twist(&mut self) {
        for i in 0..WORDS {
            let y = self.words[i] & 1 << 31 | self.words[(i + 1) % WORDS] & !(1 << 31);
            let odd = if y & 1 == 1 { 0x9908_b0df } else { 0 };
            self.words[i] = self.words[(i + SHIFT) % WORDS] ^ y >> 1 ^ odd;
        }
        self.next = 0;
    }

    /// Uniform in [0, 1), as `std::generate_canonical<double, 53>` of libstdc++: 64 bits, the low
    /// word first.
    pub(super) fn canonical(&mut self) -> f64 {
        let low = f64::from(self.bits());
        let sum = low + f64::from(self.bits()) * 4_294_967_296.0;
        (sum / 18_446_744_073_709_551_616.0).min(1.0_f64.next_down())
    }

    /// Uniform in `0..n`, as `std::uniform_int_distribution` of libstdc++ 11 and later: Lemire's
    /// product, with rejection.
    pub(super) fn below(&mut self, n: u32) -> u32 {
        let mut product = u64::from(self.bits()) * u64::from(n);
        if (product as u32) < n {
            let threshold = n.wrapping_neg() % n;
            while (product as u32) < threshold {
                product = u64::from(self.bits()) * u64::from(n);
            }
        }
        (product >> 32) as u32
    }

    /// Uniform in [0, 1), as `random()` of Python: 53 bits.
    pub(super) fn random(&mut self) -> f64 {
        let high = f64::from(self.bits() >> 5);
        (high * 67_108_864.0 + f64::from(self.bits() >> 6)) / 9_007_199_254_740_992.0
    }

    /// Uniform in `0..n`, as `randrange(n)` of Python: as many bits as `n` has, drawn again if the
    /// result is `n` or more.
    pub(super) fn randrange(&mut self, n: u32) -> u32 {
        loop {
            let drawn = self.bits() >> n.leading_zeros();
            if drawn < n {
                return drawn;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn draws_match_the_standard_libraries() {
        // C++ [rand.predef]: the 10,000th draw of a default-seeded mt19937.
        let mut of_cpp = Mersenne::new(5489);
        assert_eq!((0..10_000).map(|_| of_cpp.bits()).last(), Some(4_123_659_995));
        // python3 -c "import random; r = random.Random(1); print(r.random(), r.randrange(255))"
        let mut of_python = Mersenne::of_python(1);
        assert_eq!(of_python.random(), 0.13436424411240122);
        assert_eq!([(); 3].map(|()| of_python.randrange(255)), [216, 205, 195]);
        // random.Random(2**40 + 3).random()
        assert_eq!(Mersenne::of_python((1 << 40) + 3).random(), 0.21978710637116716);
    }
}
