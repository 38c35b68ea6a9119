//! Histogram of the round-trip times of all packets.

use tidegate_core::{Feedback, Time};

use super::{End, Measure, RunOutput, Spread, Start, Subscriptions};
use crate::Error;

/// Width of a class in nanoseconds.
const CLASS_NS: u64 = 100;
/// Number of classes; the last includes all longer times.
const CLASSES: usize = 100_000;

/// Counts round trips between warm-up and the end.
#[derive(Default)]
pub(super) struct RoundTrips {
    from: Time,
    to: Time,
    classes: Vec<u32>,
}

impl Measure for RoundTrips {
    fn subscriptions(&self) -> Subscriptions {
        Subscriptions { feedback: true, ..Subscriptions::default() }
    }

    fn begin(&mut self, start: &Start<'_>) -> Result<(), Error> {
        (self.from, self.to) = (start.plan.warmup, start.plan.duration);
        self.classes = vec![0; CLASSES];
        Ok(())
    }

    fn feedback(&mut self, now: Time, _flow: u64, feedback: &Feedback) {
        if let Some(rtt) = feedback.rtt
            && (self.from..=self.to).contains(&now)
        {
            let class = (rtt.as_ps() / (CLASS_NS * 1_000)) as usize;
            self.classes[class.min(CLASSES - 1)] += 1;
        }
    }

    fn finish(self: Box<Self>, _end: &End<'_>, output: &mut RunOutput) -> Result<(), Error> {
        output.seen.rtt_us = spread(&self.classes);
        Ok(())
    }
}

/// Mean, percentile and maximum of a histogram.
fn spread(classes: &[u32]) -> Spread {
    let count: u64 = classes.iter().map(|&n| u64::from(n)).sum();
    if count == 0 {
        return Spread::default();
    }
    let middle = |class: usize| (class as f64 + 0.5) * CLASS_NS as f64 * 1e-3;
    let sum: f64 = classes.iter().enumerate().map(|(class, &n)| middle(class) * f64::from(n)).sum();
    let mut seen = 0;
    let below = |&n: &u32| {
        seen += u64::from(n);
        seen * 100 >= count * 99
    };
    let p99 = classes.iter().position(below).map(middle);
    let max = classes.iter().rposition(|&n| n > 0).map_or(0.0, middle);
    Spread { mean: sum / count as f64, p99, max }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_histogram_gives_mean_percentile_maximum() {
        let mut classes = vec![0; 50];
        assert_eq!(spread(&classes).p99, None);
        (classes[10], classes[40]) = (99, 1);
        let Spread { mean, p99, max } = spread(&classes);
        assert!((mean - (99.0 * 1.05 + 4.05) / 100.0).abs() < 1e-9, "{mean}");
        assert!((p99.unwrap() - 1.05).abs() < 1e-9 && (max - 4.05).abs() < 1e-9);
    }
}
