//! A run that solves differential equations instead of simulating packets.

use serde::de::Error as _;
use serde::{Deserialize, Deserializer};
use tidegate_fluid::{Bottleneck, Feedback, Law, NoSolution, Windows};

use tidegate_runs::observe::{Followed, Observations};

/// Points of a trajectory per base RTT: enough for a plot of fifty base RTTs.
const POINTS: f64 = 16.0;

/// A model, its starting points, and its duration.
#[derive(Clone, Debug)]
pub(crate) struct Model {
    windows: Windows,
    /// Initial queues and windows in KB.
    starts: Vec<(f64, f64)>,
    /// Length of the trajectories.
    pub(crate) until_us: f64,
    /// Everything that determines its trajectories, as JSON with sorted keys.
    pub(crate) source: String,
}

/// The model in the registry.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ModelTable {
    law: LawName,
    gbps: f64,
    base_rtt_us: f64,
    gamma: f64,
    /// Time between two updates.
    update_us: f64,
    /// Total increase of all flows in an update.
    increase_kb: f64,
    /// Delay from senders to the bottleneck. If it is set, feedback has the delays of appendix A.
    forward_us: Option<f64>,
    starts: Vec<(f64, f64)>,
    until_us: f64,
}

#[derive(Deserialize)]
#[serde(rename_all = "kebab-case")]
enum LawName {
    QueueLength,
    Delay,
    Gradient,
    Power,
}

impl ModelTable {
    /// Message about a value outside its range, if any.
    fn fault(&self) -> Option<&'static str> {
        let above_zero = [self.gbps, self.base_rtt_us, self.update_us, self.until_us];
        let from_zero = self.starts.iter().flat_map(|start| [start.0, start.1]);
        let is = |value: f64, least: f64| value.is_finite() && value >= least;
        if !above_zero.iter().all(|value| is(*value, f64::MIN_POSITIVE)) {
            Some("`gbps`, `base_rtt_us`, `update_us` and `until_us` must be above zero")
        } else if !(is(self.gamma, f64::MIN_POSITIVE) && self.gamma <= 1.0) {
            Some("`gamma` must be above zero and at most 1")
        } else if !is(self.increase_kb, 0.0) || !from_zero.into_iter().all(|kb| is(kb, 0.0)) {
            Some("`increase_kb` and `starts` must not be negative")
        } else if self.starts.is_empty() {
            Some("`starts` must not be empty")
        } else if self.forward_us.is_some_and(|us| !(us > 0.0 && us < self.base_rtt_us)) {
            Some("`forward_us` must be above zero and below `base_rtt_us`")
        } else {
            None
        }
    }
}

impl<'de> Deserialize<'de> for Model {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Model, D::Error> {
        let table = toml::Table::deserialize(deserializer)?;
        let text = serde_json::to_string(&table).map_err(D::Error::custom)?;
        let source: ModelTable = table.try_into().map_err(|error: toml::de::Error| {
            D::Error::custom(format!("model: {}", error.message()))
        })?;
        if let Some(fault) = source.fault() {
            return Err(D::Error::custom(format!("model: {fault}")));
        }
        let ModelTable { gbps, base_rtt_us, gamma, update_us, increase_kb, forward_us, .. } =
            source;
        let law = match source.law {
            LawName::QueueLength => Law::QueueLength,
            LawName::Delay => Law::Delay,
            LawName::Gradient => Law::Gradient,
            LawName::Power => Law::Power,
        };
        let delayed = |forward_us| Feedback::Delayed { forward_us };
        let feedback = forward_us.map_or(Feedback::Instant, delayed);
        let link = Bottleneck { gbps, base_rtt_us };
        let windows = Windows { link, law, gamma, update_us, increase_kb, feedback };
        Ok(Model { windows, starts: source.starts, until_us: source.until_us, source: text })
    }
}

impl Model {
    /// Solves the model.
    ///
    /// # Errors
    /// When its equations have no solution for the whole duration.
    pub(crate) fn follow(&self) -> Result<Observations, NoSolution> {
        let every_us = self.windows.link.base_rtt_us / POINTS;
        let followed = Followed::new(self.windows, &self.starts, self.until_us, every_us)?;
        Ok(Observations {
            digest: self.source.clone(),
            duration_us: self.until_us,
            model: Some(followed),
            ..Observations::default()
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "law = 'power'\ngbps = 100.0\nbase_rtt_us = 20.0\ngamma = 0.9\n\
                        update_us = 20.0\nincrease_kb = 12.5\nuntil_us = 40.0\n\
                        starts = [[0.0, 50.0], [100.0, 300.0]]\n";

    #[test]
    fn a_model_is_solved_from_each_start() {
        let model: Model = toml::from_str(TEXT).unwrap();
        let seen = model.follow().unwrap();
        let trajectories = seen.trajectories(None);
        assert_eq!(trajectories.len(), 2);
        assert_eq!((trajectories[1].points.len(), trajectories[1].points[0]), (33, (100.0, 300.0)));
        let delayed: Model = toml::from_str(&format!("{TEXT}forward_us = 5.0")).unwrap();
        assert_eq!(delayed.windows.feedback, Feedback::Delayed { forward_us: 5.0 });
        assert!(delayed.source != model.source && delayed.follow().is_ok());
    }

    #[test]
    fn a_wrong_model_is_refused() {
        for (from, to, source) in [
            ("'power'", "'force'", "unknown variant `force`"),
            ("gamma = 0.9", "gamma = 1.5", "`gamma` must be above zero and at most 1"),
            ("gamma", "gama", "unknown field `gama`"),
            ("update_us = 20.0", "update_us = 0.0", "must be above zero"),
            ("[0.0, 50.0]", "[0.0, -1.0]", "must not be negative"),
            ("[[0.0, 50.0], [100.0, 300.0]]", "[]", "`starts` must not be empty"),
            ("gamma", "forward_us = 20.0\ngamma", "below `base_rtt_us`"),
            ("gbps = 100.0", "gbps = nan", "must be above zero"),
        ] {
            assert!(TEXT.contains(from), "{from}");
            let error = toml::from_str::<Model>(&TEXT.replacen(from, to, 1)).unwrap_err();
            assert!(error.to_string().contains(source), "{to}: {error}");
        }
    }
}
