//! Metrics of a port over time: its queue and its throughput.

use serde::Deserialize;

use super::{Metric, between, switches};
use tidegate_runs::observe::{Measurement, Observations, PortTrace};

/// A switch port, by the nodes at the ends of its link, `tor0>h0`.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(try_from = "String")]
pub(crate) struct Port {
    pub(crate) from: String,
    pub(crate) to: String,
}

impl Port {
    /// Both names.
    pub(crate) fn ends(&self) -> (&str, &str) {
        (&self.from, &self.to)
    }
}

impl TryFrom<String> for Port {
    type Error = String;

    fn try_from(text: String) -> Result<Port, String> {
        let ends = text.split_once('>').filter(|(from, to)| !from.is_empty() && !to.is_empty());
        let (from, to) = ends
            .ok_or_else(|| format!("`{text}` is not a port; expected a form such as `tor0>h0`"))?;
        Ok(Port { from: from.to_owned(), to: to.to_owned() })
    }
}

fn find<'a>(seen: &'a Observations, link: &Port) -> Option<&'a PortTrace> {
    seen.ports.iter().find(|port| (port.from.as_str(), port.to.as_str()) == link.ends())
}

fn mean(values: &[f32]) -> Option<f64> {
    let sum: f64 = values.iter().map(|&value| f64::from(value)).sum();
    (!values.is_empty()).then(|| sum / values.len() as f64)
}

/// The queue of a port in KB at a time.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct QueueAt {
    link: Port,
    at_us: f64,
}

impl Metric for QueueAt {
    const NAME: &'static str = "queue-at";
    const NEEDS: &'static [Measurement] = &[Measurement::Ports];

    fn value(&self, seen: &Observations) -> Option<f64> {
        // The first sample is at the end of the first interval.
        let sample = (self.at_us / seen.interval_us).round() as usize;
        find(seen, &self.link)?.queue_kb.get(sample.checked_sub(1)?).copied().map(f64::from)
    }
}

/// Quantile of a port's queue in KB, as means over each interval, in a part of the time; without a
/// share, the mean.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct AveragedQueue {
    link: Port,
    from_us: f64,
    to_us: f64,
    share: Option<f64>,
}

impl Metric for AveragedQueue {
    const NAME: &'static str = "averaged-queue";
    const NEEDS: &'static [Measurement] = &[Measurement::Ports];

    fn value(&self, seen: &Observations) -> Option<f64> {
        let bins = between(seen, self.from_us, self.to_us);
        let means = find(seen, &self.link)?.mean_queue_kb.get(bins)?;
        let Some(share) = self.share else { return mean(means) };
        let mut means = means.to_vec();
        means.sort_by(f32::total_cmp);
        // Nearest rank.
        let rank = (share * means.len() as f64 - 1e-9).ceil().max(1.0) as usize;
        means.get(rank - 1).copied().map(f64::from)
    }
}

/// The longest queue of a port between switches in KB, as means over each interval after warm-up.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct AveragedCore {}

impl Metric for AveragedCore {
    const NAME: &'static str = "averaged-core";
    const NEEDS: &'static [Measurement] = &[Measurement::Ports];

    fn value(&self, seen: &Observations) -> Option<f64> {
        let bins = between(seen, seen.warmup_us, seen.duration_us);
        let switches = switches(seen.ports.iter().map(|port| &port.from));
        let core = seen.ports.iter().filter(|port| switches.contains(port.to.as_str()));
        let means = core.filter_map(|port| port.mean_queue_kb.get(bins.clone())).flatten();
        means.copied().reduce(f32::max).map(f64::from)
    }
}

/// Number of PFC pauses of all links after warm-up, hosts included.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Pauses {}

impl Metric for Pauses {
    const NAME: &'static str = "pauses";
    const NEEDS: &'static [Measurement] = &[Measurement::Summary];

    fn value(&self, seen: &Observations) -> Option<f64> {
        Some(seen.summary.as_ref()?.pauses.as_ref()?.pauses as f64)
    }
}

/// A port's queue after an event.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Since {
    link: Port,
    from_us: f64,
}

impl Since {
    /// The samples after the event (the first at the end of the first interval), and the index of
    /// the largest.
    fn queue<'a>(&self, seen: &'a Observations) -> Option<(&'a [f32], usize)> {
        let bins = between(seen, self.from_us, seen.duration_us);
        let queue = find(seen, &self.link)?.queue_kb.get(bins)?;
        let largest = |best: usize, at: usize| if queue[at] > queue[best] { at } else { best };
        Some((queue, (1..queue.len()).fold(0, largest))).filter(|(queue, _)| !queue.is_empty())
    }

    /// Number of intervals until less than `kb` is queued, after the peak.
    fn emptied(&self, seen: &Observations, kb: f64) -> Option<usize> {
        let (queue, peak) = self.queue(seen)?;
        let after = queue[peak..].iter().position(|&queued| f64::from(queued) < kb)?;
        Some(peak + after + 1)
    }

    /// Number of intervals until less than `kb` is queued for the rest of the run.
    fn emptied_for_good(&self, seen: &Observations, kb: f64) -> Option<usize> {
        let (queue, _) = self.queue(seen)?;
        let above = queue.iter().rposition(|&queued| f64::from(queued) >= kb);
        let emptied = above.map_or(0, |last| last + 1);
        (emptied < queue.len()).then_some(emptied + 1)
    }
}

/// Time of a port's longest queue, in microseconds after an event.
#[derive(Clone, Debug, Deserialize)]
#[serde(transparent)]
pub(crate) struct PeakAt(Since);

impl Metric for PeakAt {
    const NAME: &'static str = "peak-at";
    const NEEDS: &'static [Measurement] = &[Measurement::Ports];

    fn value(&self, seen: &Observations) -> Option<f64> {
        Some((self.0.queue(seen)?.1 + 1) as f64 * seen.interval_us)
    }
}

/// Time at which a port's queue first falls below a size after its peak, in microseconds after an
/// event.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Emptied {
    link: Port,
    from_us: f64,
    kb: f64,
    /// Takes the last such time, after which the queue stays below the size; no value if there is
    /// none.
    #[serde(default)]
    for_good: bool,
}

impl Metric for Emptied {
    const NAME: &'static str = "emptied";
    const NEEDS: &'static [Measurement] = &[Measurement::Ports];

    fn value(&self, seen: &Observations) -> Option<f64> {
        let since = Since { link: self.link.clone(), from_us: self.from_us };
        let intervals = match self.for_good {
            false => since.emptied(seen, self.kb)?,
            true => since.emptied_for_good(seen, self.kb)?,
        };
        Some(intervals as f64 * seen.interval_us)
    }
}

/// Rate of a port on the wire in Gbit/s.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct PortRate {
    link: Port,
    from_us: f64,
    for_us: f64,
    /// Starts when the queue first falls below this size after its peak since `from_us`.
    emptied_kb: Option<f64>,
    /// Takes the lowest rate of consecutive parts of this width.
    least_of_us: Option<f64>,
}

impl Metric for PortRate {
    const NAME: &'static str = "port-rate";
    const NEEDS: &'static [Measurement] = &[Measurement::Ports];

    fn value(&self, seen: &Observations) -> Option<f64> {
        let since = Since { link: self.link.clone(), from_us: self.from_us };
        let waited = match self.emptied_kb {
            None => 0.0,
            Some(kb) => since.emptied(seen, kb)? as f64 * seen.interval_us,
        };
        let from_us = self.from_us + waited;
        let bins = between(seen, from_us, from_us + self.for_us);
        let sent = find(seen, &self.link)?.sent_gbps.get(bins)?;
        let Some(width_us) = self.least_of_us else { return mean(sent) };
        let width = (width_us / seen.interval_us).round().max(1.0) as usize;
        sent.chunks_exact(width).filter_map(mean).min_by(f64::total_cmp)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_queue_rises_falls_and_leaves_its_port_idle() {
        let port = PortTrace {
            from: "tor0".to_owned(),
            to: "h0".to_owned(),
            queue_kb: vec![1.0, 9.0, 40.0, 30.0, 8.0, 0.0, 0.0, 0.0],
            mean_queue_kb: vec![0.5, 5.0, 20.0, 35.0, 20.0, 4.0, 0.0, 0.0],
            sent_gbps: vec![25.0, 25.0, 25.0, 25.0, 25.0, 20.0, 0.0, 10.0],
        };
        let seen = Observations {
            ports: vec![port],
            interval_us: 2.0,
            duration_us: 16.0,
            ..Observations::default()
        };
        let value_of = |metric: &str| {
            let mut table: toml::Table = toml::from_str(metric).unwrap();
            table.insert("link".to_owned(), "tor0>h0".into());
            let toml::Value::String(name) = table.remove("metric").unwrap() else { panic!() };
            super::super::AnyMetric::new(&name, table).unwrap().mean_value(&[&seen])
        };
        for (metric, expected) in [
            ("metric = 'queue-at'\nat_us = 6", Some(40.0)),
            ("metric = 'queue-at'\nat_us = 0", None),
            ("metric = 'averaged-queue'\nfrom_us = 4\nto_us = 10", Some(25.0)),
            ("metric = 'averaged-queue'\nfrom_us = 4\nto_us = 10\nshare = 1.0", Some(35.0)),
            ("metric = 'peak-at'\nfrom_us = 2", Some(4.0)),
            ("metric = 'emptied'\nfrom_us = 2\nkb = 10.0", Some(8.0)),
            ("metric = 'emptied'\nfrom_us = 12\nkb = 0.0", None),
            ("metric = 'emptied'\nfrom_us = 0\nkb = 35.0\nfor_good = true", Some(8.0)),
            ("metric = 'emptied'\nfrom_us = 12\nkb = 1.0\nfor_good = true", Some(2.0)),
            ("metric = 'emptied'\nfrom_us = 0\nkb = 0.0\nfor_good = true", None),
            ("metric = 'port-rate'\nfrom_us = 8\nfor_us = 4", Some(22.5)),
            ("metric = 'port-rate'\nfrom_us = 2\nfor_us = 6\nemptied_kb = 10.0", Some(10.0)),
            (
                "metric = 'port-rate'\nfrom_us = 2\nfor_us = 6\nemptied_kb = 10.0\n\
                 least_of_us = 2.0",
                Some(0.0),
            ),
        ] {
            assert_eq!(value_of(metric), expected, "{metric}");
        }
    }
}
