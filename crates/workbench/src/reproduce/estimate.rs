//! What several seeds come to.

use super::document::digits;

/// A mean over seeds, and how far from it that of all seeds may be.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Estimate {
    pub(crate) mean: f64,
    /// Half of the 95 % confidence interval by Student's t; none of a single seed.
    pub(crate) half: Option<f64>,
}

/// Student's t that 95 % do not exceed on either side, by degrees of freedom, from one on.
const T_95: [f64; 9] = [12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262];

impl Estimate {
    /// Of one value a seed; nothing of none.
    pub(crate) fn of(values: &[f64]) -> Option<Estimate> {
        let (count, freedom) = (values.len() as f64, values.len().checked_sub(1)?);
        let mean = values.iter().sum::<f64>() / count;
        let half = freedom.checked_sub(1).and_then(|i| T_95.get(i)).map(|t| {
            let squares: f64 = values.iter().map(|value| (value - mean).powi(2)).sum();
            t * (squares / freedom as f64 / count).sqrt()
        });
        Some(Estimate { mean, half })
    }
}

impl std::fmt::Display for Estimate {
    /// `56 ± 1.2`; the mean alone where seeds agree in all digits that are shown.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&digits(self.mean))?;
        match self.half {
            Some(half) if half.is_finite() && half > 5e-4 * self.mean.abs() => {
                write!(f, " ± {}", digits(half))
            }
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn three_seeds_have_an_interval() {
        // By hand: deviation 1, over the root of three, times 4.303.
        let three = Estimate::of(&[9.0, 10.0, 11.0]).unwrap();
        assert!((three.half.unwrap() - 4.303 / 3f64.sqrt()).abs() < 1e-12);
        assert_eq!(three.to_string(), "10 ± 2.48");
        assert_eq!(Estimate::of(&[9.0, 11.0]).unwrap().half, Some(12.706));
        assert_eq!(Estimate::of(&[7.0]).unwrap().to_string(), "7");
        assert_eq!(Estimate::of(&[1e3, 1e3, 1e3 + 0.1]).unwrap().to_string(), "1000");
        assert_eq!(Estimate::of(&[]), None);
    }
}
