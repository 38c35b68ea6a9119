//! Means over several seeds, with confidence intervals.

use serde::{Deserialize, Serialize};

use crate::numbers::digits;

/// A mean over seeds, with its confidence interval.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Estimate {
    /// Mean of one value per seed.
    pub mean: f64,
    /// Half of the 95 % confidence interval by Student's t; `None` for a single seed.
    pub half: Option<f64>,
}

/// A confidence interval for display.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Spread {
    /// The seeds agree in all digits that are shown, or there is only one.
    None,
    /// Half of an interval within the limits of the quantity.
    Half(f64),
    /// The ends of an interval that is cut at the limits.
    Ends(f64, f64),
}

/// The two-sided 95 % quantile of Student's t, by degrees of freedom; `None` for zero. Rounded to
/// nine decimals: last bits may differ between platforms, and results must not.
fn t_95(freedom: usize) -> Option<f64> {
    if freedom == 0 {
        return None;
    }
    let (mut low, mut high) = (0.0, 13.0);
    while high - low > 1e-12 {
        let middle = (low + high) / 2.0;
        if within(middle, freedom) < 0.95 { low = middle } else { high = middle }
    }
    Some((high * 1e9_f64).round() / 1e9)
}

/// The probability that Student's t with `freedom` degrees of freedom lies between -t and t: a
/// finite sum, because `freedom` is an integer (Abramowitz and Stegun, Handbook of Mathematical
/// Functions, 26.7.3 and 26.7.4).
fn within(t: f64, freedom: usize) -> f64 {
    let angle = (t / (freedom as f64).sqrt()).atan();
    let (sine, cosine) = angle.sin_cos();
    let is_odd = freedom % 2 == 1;
    let mut term = if is_odd { cosine } else { 1.0 };
    let mut sum = if freedom == 1 { 0.0 } else { term };
    // Each term follows from the last by the power of the cosine.
    for power in (if is_odd { 3 } else { 2 }..freedom.saturating_sub(1)).step_by(2) {
        term *= cosine * cosine * (power - 1) as f64 / power as f64;
        sum += term;
    }
    if is_odd { std::f64::consts::FRAC_2_PI * (angle + sine * sum) } else { sine * sum }
}

/// The `p` of the two-sided t-test: the probability that a mean is at least `half_intervals` half
/// intervals from zero, if the interval has `freedom` degrees of freedom. Rounded to nine decimals,
/// like [`t_95`].
pub(crate) fn p_value(half_intervals: f64, freedom: usize) -> f64 {
    let t = t_95(freedom).map_or(0.0, |t| (half_intervals * t).abs());
    ((1.0 - within(t, freedom)) * 1e9).round() / 1e9
}

impl Estimate {
    /// Estimate from one value per seed; `None` without values.
    pub fn of(values: &[f64]) -> Option<Estimate> {
        let (count, freedom) = (values.len() as f64, values.len().checked_sub(1)?);
        let mean = values.iter().sum::<f64>() / count;
        let half = t_95(freedom).map(|t| {
            let squares: f64 = values.iter().map(|value| (value - mean).powi(2)).sum();
            t * (squares / freedom as f64 / count).sqrt()
        });
        Some(Estimate { mean, half })
    }

    /// The confidence interval, lower and upper end; `None` for a single seed.
    pub fn interval(&self) -> Option<(f64, f64)> {
        self.half.map(|half| (self.mean - half, self.mean + half))
    }

    /// The interval for display, of a quantity with a lower limit and maybe an upper one.
    pub fn spread(&self, (least, most): (f64, Option<f64>)) -> Spread {
        let Some(half) = self.shown_half() else { return Spread::None };
        let (low, high) = (self.mean - half, self.mean + half);
        if low >= least && most.is_none_or(|most| high <= most) {
            return Spread::Half(half);
        }
        // A mean beyond a limit by a rounding error stays in its interval.
        let high = most.map_or(high, |most| high.min(most)).max(self.mean);
        Spread::Ends(low.max(least).min(self.mean), high)
    }

    /// Formats `56 ± 1.2`, or `56 [1, 112]`.
    pub fn within(&self, limits: (f64, Option<f64>)) -> String {
        match self.spread(limits) {
            Spread::Ends(low, high) => {
                format!("{} [{}, {}]", digits(self.mean), digits(low), digits(high))
            }
            Spread::None | Spread::Half(_) => self.to_string(),
        }
    }

    /// Half of the interval for display; `None` if the seeds agree in all three digits that are
    /// shown.
    pub fn shown_half(&self) -> Option<f64> {
        self.half.filter(|half| half.is_finite() && *half > 5e-4 * self.mean.abs())
    }
}

impl std::fmt::Display for Estimate {
    /// `56 ± 1.2`; the mean alone if the seeds agree in all digits that are shown.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&digits(self.mean))?;
        self.shown_half().map_or(Ok(()), |half| write!(f, " ± {}", digits(half)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn three_seeds_have_an_interval() {
        // By hand: deviation 1, divided by √3, times t of two degrees of freedom.
        let three = Estimate::of(&[9.0, 10.0, 11.0]).unwrap();
        assert!((three.half.unwrap() - 4.302_652_730 / 3f64.sqrt()).abs() < 1e-12);
        assert_eq!(three.to_string(), "10 ± 2.48");
        let two = Estimate::of(&[9.0, 11.0]).unwrap().half.unwrap();
        assert!((two - 12.706_204_736).abs() < 1e-12);
        assert_eq!(Estimate::of(&[7.0]).unwrap().to_string(), "7");
        assert_eq!(Estimate::of(&[1e3, 1e3, 1e3 + 0.1]).unwrap().to_string(), "1000");
        assert_eq!(Estimate::of(&[]), None);
    }

    #[test]
    fn intervals_end_at_the_limits() {
        let of = |mean, half| Estimate { mean, half: Some(half) };
        let share = (0.0, Some(1.0));
        assert_eq!(of(0.5, 0.4).spread(share), Spread::Half(0.4));
        assert_eq!(of(0.86, 1.74).spread(share), Spread::Ends(0.0, 1.0));
        assert_eq!(of(0.86, 1.74).spread((0.0, None)), Spread::Ends(0.0, 2.6));
        assert_eq!(Estimate { mean: 2.0, half: None }.spread(share), Spread::None);
        assert_eq!(of(3.0, 4.0).within((1.0, None)), "3 [1, 7]");
        assert_eq!(of(3.0, 2.0).within((1.0, None)), "3 ± 2");
    }

    #[test]
    fn student_s_t_matches_printed_tables() {
        // NIST/SEMATECH e-Handbook of Statistical Methods, 1.3.6.7.2, column 0.975.
        let printed = [(1, 12.706), (2, 4.303), (4, 2.776), (9, 2.262), (30, 2.042), (100, 1.984)];
        for (freedom, t) in printed {
            let ours = t_95(freedom).unwrap();
            assert_eq!((ours * 1e3).round() / 1e3, t, "{freedom} degrees of freedom");
        }
        // √(2 · 0.95² / (1 - 0.95²)), the closed form for two degrees of freedom.
        assert!((t_95(2).unwrap() - (1.805_f64 / 0.0975).sqrt()).abs() < 1e-9);
        assert_eq!(t_95(0), None);
        let ten = Estimate::of(&[1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0, 9.0, 10.0, 11.0]).unwrap();
        // Deviation √11, divided by √11, times t of 10 degrees of freedom.
        assert!((ten.half.unwrap() - 2.228_138_852).abs() < 1e-12);
        assert_eq!(ten.interval(), Some((6.0 - ten.half.unwrap(), 6.0 + ten.half.unwrap())));
    }
}
