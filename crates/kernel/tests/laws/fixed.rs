//! Functions in fixed point against floating point.

use tidegate_kernel::{Step, native_table};

use super::random::Random;

fn call(op: u64, a: u64, b: u64, by: u64) -> u64 {
    let mut step = Step { op, a, b, by, ..Step::default() };
    step.run();
    step.out
}

/// Numbers of every magnitude.
fn numbers(random: &mut Random) -> u64 {
    random.next() >> random.below(64)
}

#[test]
fn table_entries_are_rounded_values() {
    for at in 0..=256 {
        let x = f64::from(at) / 256.0;
        assert_eq!(native_table(0, at), ((1.0 + x).log2() * 2f64.powi(31)).round() as u32);
        assert_eq!(native_table(1, at), (x.exp2() * 2f64.powi(30)).round() as u32);
    }
}

#[test]
fn logarithm_and_exponential_errors_are_bounded() {
    let random = &mut Random(1);
    let (mut worst_log, mut worst_exp) = (0f64, 0f64);
    for _ in 0..200_000 {
        let x = numbers(random).max(1);
        let log = call(Step::LOG2, x, 0, 0) as f64 / 2f64.powi(31);
        worst_log = worst_log.max((log - (x as f64).log2()).abs());
        let y = (random.unit() - 0.5) * 40.0;
        let exp = call(Step::EXP2, (y * 2f64.powi(31)) as i64 as u64, 0, 0) as f64;
        let exact = y.exp2() * 2f64.powi(30);
        worst_exp = worst_exp.max(((exp - exact).abs() - 1.0) / exact);
    }
    assert!(worst_log < 3e-6 && worst_exp < 2e-6, "{worst_log:e} {worst_exp:e}");
}

#[test]
fn powers_of_two_are_exact() {
    for bit in 0..64 {
        assert_eq!(call(Step::LOG2, 1 << bit, 0, 0), bit << 31);
    }
    for power in -30i64..=32 {
        let exact = if power < 0 { 1u64 << (30 + power) } else { 1 << 30 << power };
        assert_eq!(call(Step::EXP2, (power << 31) as u64, 0, 0), exact);
    }
}

#[test]
fn extremes_saturate() {
    assert_eq!(call(Step::LOG2, 0, 0, 0), 0);
    assert_eq!(call(Step::EXP2, 33 << 31, 0, 0), u64::MAX);
    assert_eq!(call(Step::EXP2, i64::MIN as u64, 0, 0), 0);
    assert_eq!(call(Step::EXP2, i64::MAX as u64, 0, 0), u64::MAX);
    assert_eq!(call(Step::MUL_SHIFT, u64::MAX, u64::MAX, 30), u64::MAX);
    assert_eq!(call(Step::DIV_SHIFT, 1, 0, 30), u64::MAX);
    assert_eq!(call(Step::DIV_SHIFT, 0, 0, 30), 0);
    assert_eq!(call(Step::DIV_SHIFT, u64::MAX, 1, 1), u64::MAX);
}

#[test]
fn delay_codes_cover_the_targets_of_all_parameters() {
    for code in 0..=0xffff {
        let delay = call(Step::DELAY_NS, code, 0, 0);
        assert_eq!(call(Step::DELAY_CODE, delay, 0, 0), code);
        assert_eq!(call(Step::DELAY_CODE, delay + 255, 0, 0), code);
    }
    // The same values are in crates/switch/src/tcp.rs. 25.2 ms is the largest target of
    // scenarios/kernel/figure-p13.toml, 110 ms that of the largest p and k.
    for (ns, code, read_ns) in [
        (255, 0, 0),
        (4_194_303, 16_383, 4_194_048),
        (4_194_304, 16_384, 4_194_304),
        (25_200_000, 36_880, 25_198_592),
        (110_000_000, 54_387, 109_993_984),
        (u32::MAX.into(), 0xffff, 268_419_072),
        (u64::MAX, 0xffff, 268_419_072),
    ] {
        assert_eq!(call(Step::DELAY_CODE, ns, 0, 0), code, "{ns}");
        assert_eq!(call(Step::DELAY_NS, code, 0, 0), read_ns, "{ns}");
    }
}

#[test]
fn order_of_sequence_numbers_survives_their_wrap() {
    let pairs = [(5, 4, 1), (4, 5, 0), (4, 4, 0), (3, u32::MAX - 3, 1), (u32::MAX - 3, 3, 0)];
    for (sequence, other, later) in pairs {
        let found = call(Step::IS_LATER, sequence.into(), other.into(), 0);
        assert_eq!(found, later, "{sequence} after {other}");
    }
}

/// States of the kernel: open, disorder, reduction (CWR), recovery, loss (timeout).
#[test]
fn a_loss_counts_once() {
    let counts = |before, state, marks| call(Step::IS_LOSS, before, state, marks) == 1;
    let undoable = 2;
    for before in 0..5 {
        for marks in 0..2 {
            assert!(!counts(before, 0, marks) && !counts(before, 1, marks));
            assert!(counts(before, 4, marks | undoable), "each timeout");
            assert_eq!(counts(before, 4, marks), before > 1, "packets too long for the path");
        }
        assert!(counts(before, 2, 0), "a loss that a tail loss probe repaired");
        assert!(!counts(before, 2, 1), "a mark");
        assert_eq!(counts(before, 3, 0), before != 2, "recovery after such a reduction");
        assert!(counts(before, 3, 1), "recovery after a mark");
    }
}

#[test]
fn products_are_exact() {
    let random = &mut Random(2);
    for _ in 0..100_000 {
        let (a, b, by) = (numbers(random), numbers(random), random.below(64));
        let half = if by == 0 { 0 } else { 1u128 << (by - 1) };
        let exact = (u128::from(a) * u128::from(b) + half) >> by;
        let exact = u64::try_from(exact).unwrap_or(u64::MAX);
        assert_eq!(call(Step::MUL_SHIFT, a, b, by), exact, "{a} {b} {by}");
    }
}

#[test]
fn quotient_error_is_bounded() {
    let random = &mut Random(3);
    for _ in 0..100_000 {
        let (a, b, by) = (numbers(random), numbers(random).max(1), random.below(65));
        let exact = (u128::from(a) << by) / u128::from(b);
        let exact = u64::try_from(exact).unwrap_or(u64::MAX);
        let error = call(Step::DIV_SHIFT, a, b, by).abs_diff(exact) as f64;
        assert!(error <= exact as f64 * 2f64.powi(-30) + 1.0, "{a} << {by} / {b}: {error}");
    }
}
