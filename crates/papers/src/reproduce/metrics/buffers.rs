//! Metrics of buffers and queues.

use serde::Deserialize;

use super::delays::At;
use super::{Metric, Place};
use tidegate_runs::observe::{BufferTrace, EVERY, Measurement, Observations};

/// The longest queue of a port in KB, after warm-up.
#[derive(Clone, Debug, Deserialize)]
#[serde(transparent)]
pub(crate) struct PeakQueue(At);

impl Metric for PeakQueue {
    const NAME: &'static str = "peak-queue";
    const NEEDS: &'static [Measurement] = &[Measurement::Links];

    fn value(&self, seen: &Observations) -> Option<f64> {
        Some(self.0.find(seen)?.queue_bytes.max? / 1e3)
    }
}

/// The 99th percentile over time of a port's queue in KB, after warm-up.
#[derive(Clone, Debug, Deserialize)]
#[serde(transparent)]
pub(crate) struct QueueP99(At);

impl Metric for QueueP99 {
    const NAME: &'static str = "queue-p99";
    const NEEDS: &'static [Measurement] = &[Measurement::Links];

    fn value(&self, seen: &Observations) -> Option<f64> {
        Some(self.0.find(seen)?.queue_bytes.p99? / 1e3)
    }
}

/// Quantile of ToR buffers in KB, over time and over all ToR switches.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Buffer {
    share: f64,
    /// Takes the quantile of maxima within consecutive spans of this many microseconds instead.
    maxima_us: Option<f64>,
}

impl Metric for Buffer {
    const NAME: &'static str = "buffer";
    const NEEDS: &'static [Measurement] = &[Measurement::Buffers];

    fn value(&self, seen: &Observations) -> Option<f64> {
        let width = self.maxima_us.map_or(1.0, |us| (us / EVERY.as_us_f64()).round().max(1.0));
        let held = sorted(&seen.buffers, width as usize);
        nearest_rank(&held, self.share)
    }

    fn place(&self) -> Option<Place<'_>> {
        let place = Place::Quantile { label: "", share: self.share };
        self.maxima_us.is_none().then_some(place)
    }
}

/// Quantile of buffers of switches without hosts in KB, over time and over all switches whose
/// names begin with `of`.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct CoreBuffer {
    of: String,
    share: f64,
}

impl Metric for CoreBuffer {
    const NAME: &'static str = "core-buffer";
    const NEEDS: &'static [Measurement] = &[Measurement::CoreBuffers];

    fn value(&self, seen: &Observations) -> Option<f64> {
        let named = |buffer: &&BufferTrace| buffer.switch.starts_with(&self.of);
        let buffers: Vec<BufferTrace> = seen.core_buffers.iter().filter(named).cloned().collect();
        nearest_rank(&sorted(&buffers, 1), self.share)
    }
}

/// The value of ascending ones that a share does not exceed.
fn nearest_rank(sorted: &[f64], share: f64) -> Option<f64> {
    let rank = (share * sorted.len() as f64 - 1e-9).ceil().max(1.0) as usize;
    sorted.get(rank - 1).copied()
}

/// Mean of ToR buffers in KB.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct MeanBuffer {
    /// Counts only the fullest switch at each time.
    #[serde(default)]
    fullest: bool,
}

impl Metric for MeanBuffer {
    const NAME: &'static str = "mean-buffer";
    const NEEDS: &'static [Measurement] = &[Measurement::Buffers];

    fn value(&self, seen: &Observations) -> Option<f64> {
        let mean = |held: &[f32]| {
            let sum: f64 = held.iter().map(|&kb| f64::from(kb)).sum();
            (!held.is_empty()).then(|| sum / held.len() as f64)
        };
        let all = || seen.buffers.iter().map(|buffer| buffer.held_kb.as_slice());
        if !self.fullest {
            return mean(&all().flatten().copied().collect::<Vec<_>>());
        }
        let samples = all().map(<[f32]>::len).min()?;
        let most = |at: usize| all().map(|held| held[at]).fold(0.0, f32::max);
        mean(&(0..samples).map(most).collect::<Vec<_>>())
    }
}

/// Quantile of the queues towards a host in KB, over time and over all hosts.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Downlink {
    share: f64,
}

impl Metric for Downlink {
    const NAME: &'static str = "downlink";
    const NEEDS: &'static [Measurement] = &[Measurement::Downlinks];

    fn value(&self, seen: &Observations) -> Option<f64> {
        let steps = seen.downlinks_kb.len().checked_sub(1)?;
        let step = (self.share * steps as f64 - 1e-9).ceil().max(0.0) as usize;
        seen.downlinks_kb.get(step).copied().map(f64::from)
    }

    fn place(&self) -> Option<Place<'_>> {
        Some(Place::Quantile { label: "", share: self.share })
    }
}

/// Quantile of ToR buffers in KB, as means over ten microseconds, over all ToR switches; without a
/// share, their mean.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct AveragedBuffer {
    share: Option<f64>,
}

impl Metric for AveragedBuffer {
    const NAME: &'static str = "averaged-buffer";
    const NEEDS: &'static [Measurement] = &[Measurement::MeanBuffers];

    fn value(&self, seen: &Observations) -> Option<f64> {
        let held = sorted(&seen.mean_buffers, 1);
        match self.share {
            None => (!held.is_empty()).then(|| held.iter().sum::<f64>() / held.len() as f64),
            Some(share) => nearest_rank(&held, share),
        }
    }
}

/// Quantile of the averaged queues towards a host, over all hosts.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct AveragedDownlink {
    share: Option<f64>,
}

impl Metric for AveragedDownlink {
    const NAME: &'static str = "averaged-downlink";
    const NEEDS: &'static [Measurement] = &[Measurement::MeanDownlinks];

    fn value(&self, seen: &Observations) -> Option<f64> {
        let (mean, parts) = seen.mean_downlinks_kb.split_last()?;
        let steps = parts.len().checked_sub(1)?;
        let step = |share: f64| (share * steps as f64 - 1e-9).ceil().max(0.0) as usize;
        let value = match self.share {
            None => Some(mean),
            Some(share) => parts.get(step(share)),
        };
        value.copied().map(f64::from)
    }
}

/// The mean over time of a port's queue in KB, after warm-up.
#[derive(Clone, Debug, Deserialize)]
#[serde(transparent)]
pub(crate) struct MeanQueue(At);

impl Metric for MeanQueue {
    const NAME: &'static str = "mean-queue";
    const NEEDS: &'static [Measurement] = &[Measurement::Links];

    fn value(&self, seen: &Observations) -> Option<f64> {
        Some(self.0.find(seen)?.queue_bytes.mean? / 1e3)
    }
}

/// Maxima of `width` consecutive samples each, of all buffers in KB, in ascending order.
pub(crate) fn sorted(buffers: &[BufferTrace], width: usize) -> Vec<f64> {
    let maxima = buffers.iter().flat_map(|buffer| buffer.held_kb.chunks_exact(width));
    let mut maxima: Vec<f64> =
        maxima.map(|held| held.iter().fold(0.0, |most, &kb| f64::from(kb).max(most))).collect();
    maxima.sort_by(f64::total_cmp);
    maxima
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_are_of_all_racks_and_maxima_of_spans() {
        let trace = |held: &[f32]| BufferTrace { held_kb: held.to_vec(), ..Default::default() };
        let buffers = vec![trace(&[1.0, 5.0, 2.0, 0.0, 9.0]), trace(&[3.0, 3.0, 4.0, 7.0, 0.0])];
        let seen = Observations { buffers, ..Observations::default() };
        let buffer = |share, maxima_us| Buffer { share, maxima_us }.value(&seen);
        assert_eq!([buffer(0.5, None), buffer(0.9, None)], [Some(3.0), Some(7.0)]);
        // Samples after the last whole span are ignored.
        assert_eq!(sorted(&seen.buffers, 2), [2.0, 3.0, 5.0, 7.0]);
        assert_eq!(buffer(0.5, Some(20.0)), Some(3.0));
        assert_eq!(MeanBuffer { fullest: false }.value(&seen), Some(3.4));
        assert_eq!(Buffer { share: 0.5, maxima_us: None }.value(&Observations::default()), None);
        // 3, 5, 4, 7 and 9.
        assert_eq!(MeanBuffer { fullest: true }.value(&seen), Some(5.6));
        for fullest in [false, true] {
            assert_eq!(MeanBuffer { fullest }.value(&Observations::default()), None);
        }
        let seen = Observations { downlinks_kb: vec![0.0, 1.0, 7.0], ..Observations::default() };
        let downlink = |share| Downlink { share }.value(&seen);
        assert_eq!([downlink(0.0), downlink(0.5), downlink(0.6)], [0.0, 1.0, 7.0].map(Some));
        assert_eq!(Downlink { share: 1.0 }.value(&Observations::default()), None);
    }
}
