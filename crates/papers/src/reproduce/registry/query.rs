//! Queries of the registry: a metric, and the runs that it is applied to.

use serde::de::Error as _;
use serde::{Deserialize, Deserializer};

use crate::reproduce::metrics::AnyMetric;
use tidegate_runs::observe::{Measurement, Observations};

/// A query, written as one table: `metric`, `run` or `runs`, and the parameters of the metric.
#[derive(Clone, Debug)]
pub(crate) struct Query {
    pub(crate) metric: AnyMetric,
    /// Names of the runs. Charts name none, because they use all of their runs. A name with `*`
    /// selects several runs, each of which gives a value of its own unless `pick` is set. A name
    /// with `{}` expands to several names.
    pub(crate) runs: Vec<String>,
    /// The replacement of `{}` in each name; empty if no name has `{}`.
    pub(super) stands_for: Vec<String>,
    /// Which value counts if a name selects several runs.
    pub(crate) pick: Option<Pick>,
    /// Runs have no value if a smaller share of the offered load arrived.
    sustained: Option<f64>,
    /// The whole query as JSON with sorted keys. Parameters that a metric gains later do not
    /// change the text of queries without them.
    pub(crate) text: String,
}

/// The choice of one of several values.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Pick {
    /// The largest.
    Most,
    /// The smallest.
    Least,
}

impl Pick {
    /// The chosen value; `None` without values.
    pub(crate) fn of(self, values: impl Iterator<Item = f64>) -> Option<f64> {
        values.reduce(match self {
            Pick::Most => f64::max,
            Pick::Least => f64::min,
        })
    }
}

/// Whether a name of the registry, in which `*` stands for anything, selects a run.
pub(crate) fn means(name: &str, run: &str) -> bool {
    let Some((start, rest)) = name.split_once('*') else { return name == run };
    let Some(mut run) = run.strip_prefix(start) else { return false };
    let mut parts: Vec<&str> = rest.split('*').collect();
    let end = parts.pop().unwrap_or_default();
    for part in parts {
        let Some((_, after)) = run.split_once(part) else { return false };
        run = after;
    }
    run.ends_with(end)
}

/// Expands a name with `{}`: every name and its replacement of `{}`, in the order of the runs that
/// are selected.
pub(crate) fn each(name: &str, runs: &[String]) -> Vec<(String, String)> {
    let Some((start, rest)) = name.split_once("{}") else {
        return vec![(String::new(), name.to_owned())];
    };
    let after = rest.split('*').next().unwrap_or_default();
    let mut all: Vec<(String, String)> = Vec::new();
    for run in runs.iter().filter(|run| means(&format!("{start}*{rest}"), run)) {
        let from = run.strip_prefix(start).unwrap_or(run);
        let end = if after.is_empty() { None } else { from.find(after) };
        let value = &from[..end.unwrap_or(from.len())];
        if all.iter().all(|(other, _)| other != value) {
            all.push((value.to_owned(), format!("{start}{value}{rest}")));
        }
    }
    all
}

impl Query {
    /// Whether runs without a value are allowed.
    pub(crate) fn chooses(&self) -> bool {
        self.pick.is_some() || self.sustained.is_some()
    }

    /// Whether it selects that run.
    pub(crate) fn is_for(&self, run: &str) -> bool {
        self.runs.iter().any(|name| means(name, run))
    }

    /// Whether it equals another query, apart from the runs.
    pub(crate) fn is_like(&self, other: &Query) -> bool {
        let parameters = |query: &Query| -> serde_json::Map<String, serde_json::Value> {
            let mut parameters: serde_json::Map<_, _> =
                serde_json::from_str(&query.text).unwrap_or_default();
            parameters.retain(|key, _| key != "run" && key != "runs");
            parameters
        };
        parameters(self) == parameters(other)
    }

    /// Measurements that the selected runs need.
    pub(crate) fn needs(&self) -> impl Iterator<Item = Measurement> {
        let offered = self.sustained.map(|_| Measurement::Delivered);
        self.metric.needs().iter().copied().chain(offered)
    }

    /// Expands names with `{}`, and names with `*` unless `pick` is set. A name that selects
    /// nothing stays.
    pub(super) fn spell_out(&mut self, runs: &[String]) {
        let known = |name: &String| -> Vec<(String, String)> {
            let spelt = each(name, runs).into_iter().flat_map(|(value, name)| match self.pick {
                None if name.contains('*') => {
                    let meant = runs.iter().filter(|run| means(&name, run));
                    meant.map(|run| (value.clone(), run.clone())).collect()
                }
                _ => vec![(value, name)],
            });
            let spelt: Vec<(String, String)> = spelt.collect();
            if spelt.is_empty() { vec![(String::new(), name.clone())] } else { spelt }
        };
        let has_each = self.runs.iter().any(|name| name.contains("{}"));
        let (values, names) = self.runs.iter().flat_map(known).unzip();
        self.runs = names;
        self.stands_for = if has_each { values } else { Vec::new() };
    }

    /// Whether its runs pair with those of another query: one for all, or the same number. If
    /// both use `{}`, the replacements must be equal and in the same order.
    pub(super) fn pairs_with(&self, other: &Query) -> bool {
        let is_either = |is: fn(&Query) -> bool| is(self) || is(other);
        is_either(|query| query.runs.len() == 1)
            || self.runs.len() == other.runs.len()
                && (is_either(|query| query.stands_for.is_empty())
                    || self.stands_for == other.stands_for)
    }

    /// Whether enough of the offered load arrived in a run with these seeds.
    pub(crate) fn takes(&self, seeds: &[&Observations]) -> bool {
        self.sustained.is_none_or(|share| {
            let mut delivered = seeds.iter().filter_map(|seen| seen.delivered);
            delivered.all(|of| of.arrived_gbps >= share * of.offered_gbps)
        })
    }

    /// The run with index `i`; with a single run, always that.
    pub(crate) fn run(&self, i: usize) -> Option<&str> {
        let only = self.runs.first().filter(|_| self.runs.len() == 1);
        self.runs.get(i).or(only).map(String::as_str)
    }
}

impl<'de> Deserialize<'de> for Query {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Query, D::Error> {
        let mut table = toml::Table::deserialize(deserializer)?;
        let text = serde_json::to_string(&table).map_err(D::Error::custom)?;
        let mut take = |key| table.remove(key);
        let (metric, run, runs) = (take("metric"), take("run"), take("runs"));
        let Some(toml::Value::String(metric)) = metric else {
            return Err(D::Error::custom("`metric` is missing"));
        };
        let runs = match (run, runs) {
            (None, None) => Ok(Vec::new()),
            (Some(run), None) => run.try_into().map(|run| vec![run]),
            (None, Some(runs)) => runs.try_into(),
            (Some(_), Some(_)) => {
                return Err(D::Error::custom("set either `run` or `runs`, not both"));
            }
        };
        let runs = runs.map_err(|error| D::Error::custom(format!("run: {}", error.message())))?;
        let wrong = |key| {
            move |error: toml::de::Error| D::Error::custom(format!("{key}: {}", error.message()))
        };
        let pick =
            table.remove("pick").map(Pick::deserialize).transpose().map_err(wrong("pick"))?;
        let sustained = table.remove("sustained").map(f64::deserialize).transpose();
        let sustained = sustained.map_err(wrong("sustained"))?;
        let metric = AnyMetric::new(&metric, table).map_err(D::Error::custom)?;
        Ok(Query { metric, runs, stands_for: Vec::new(), pick, sustained, text })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn single_runs_pair_with_all_others() {
        let query = |text: &str| toml::from_str::<Query>(text).unwrap();
        let one = query("metric = 'goodput'\nrun = 'a'");
        assert_eq!([one.run(0), one.run(1)], [Some("a"), Some("a")]);
        let two = query("runs = ['a', 'b']\nmetric = 'goodput'");
        assert_eq!([two.run(0), two.run(1), two.run(2)], [Some("a"), Some("b"), None]);
        assert_eq!(query("metric = 'goodput'").run(0), None);
    }

    #[test]
    fn a_star_stands_for_anything() {
        for name in ["a *", "*, 5 %", "a *, 5 %", "*", "a b, 5 %", "*b*%", "*a*b*5*"] {
            assert!(means(name, "a b, 5 %"), "{name}");
        }
        for (name, run) in
            [("a", "ab"), ("ab*ba", "aba"), ("b*", "ab"), ("*b", "ba"), ("*b*a*", "ab")]
        {
            assert!(!means(name, run), "{name} {run}");
        }
        let runs = ["a, 1", "a, 2", "b, 1"].map(str::to_owned);
        let spelt = |text: &str| {
            let mut query: Query = toml::from_str(text).unwrap();
            query.spell_out(&runs);
            query.runs
        };
        assert_eq!(spelt("metric = 'goodput'\nruns = ['*, 1', 'c']"), ["a, 1", "b, 1", "c"]);
        assert_eq!(spelt("metric = 'goodput'\nrun = 'a, *'\npick = 'most'"), ["a, *"]);
        assert_eq!(spelt("metric = 'goodput'\nrun = 'c, *'"), ["c, *"]);
        // One name for each replacement.
        assert_eq!(spelt("metric = 'goodput'\nrun = '{}, *'\npick = 'most'"), ["a, *", "b, *"]);
        assert_eq!(spelt("metric = 'goodput'\nrun = '{}, 1'"), ["a, 1", "b, 1"]);
        assert_eq!(spelt("metric = 'goodput'\nrun = 'a, {}'"), ["a, 1", "a, 2"]);
        // Two queries with equal replacements.
        let pairs = |one: &str, other: &str| {
            let [one, other] = [one, other].map(|names| {
                let mut query: Query =
                    toml::from_str(&format!("metric = 'goodput'\nruns = {names}")).unwrap();
                query.spell_out(&runs);
                query
            });
            one.pairs_with(&other) && other.pairs_with(&one)
        };
        for (one, other) in [
            ("['a, {}']", "['b, 1']"),
            ("['{}, 1']", "['{}, 1']"),
            ("['a, {}']", "['a, 1', 'b, 1']"),
        ] {
            assert!(pairs(one, other), "{one} {other}");
        }
        for (one, other) in [("['{}, 1']", "['a, {}']"), ("['*, 1']", "['*']")] {
            assert!(!pairs(one, other), "{one} {other}");
        }
        assert_eq!(each("{}, 1", &runs)[1], ("b".to_owned(), "b, 1".to_owned()));
    }

    #[test]
    fn an_overloaded_run_is_not_picked() {
        let query = "metric = 'goodput'\nrun = 'a'\npick = 'least'\nsustained = 0.9";
        let query: Query = toml::from_str(query).unwrap();
        let seen = |arrived_gbps| Observations {
            delivered: Some(tidegate_runs::observe::Delivered {
                offered_gbps: 10.0,
                arrived_gbps,
                completed_gbps: 0.0,
            }),
            ..Observations::default()
        };
        let (kept, fell) = (seen(9.0), seen(8.9));
        assert!(query.takes(&[&kept]) && !query.takes(&[&kept, &fell]));
        assert!(query.needs().eq([Measurement::Traces, Measurement::Delivered]));
        assert_eq!(Pick::Least.of([2.0, 1.0].into_iter()), Some(1.0));
        assert_eq!(Pick::Most.of([2.0, 1.0].into_iter()), Some(2.0));
        assert_eq!(Pick::Most.of(std::iter::empty()), None);
    }

    #[test]
    fn the_order_of_keys_does_not_matter() {
        let text_of = |text: &str| toml::from_str::<Query>(text).unwrap().text;
        let one = text_of("run = 'a'\nmetric = 'goodput'\nfrom_ms = 2.0");
        assert_eq!(one, text_of("from_ms = 2.0\nmetric = 'goodput'\nrun = 'a'"));
        assert_eq!(one, r#"{"from_ms":2.0,"metric":"goodput","run":"a"}"#);
    }

    #[test]
    fn an_invalid_query_is_refused() {
        for (text, expected) in [
            ("run = 'a'", "`metric` is missing"),
            ("metric = 'goodput'\nrun = 'a'\nruns = ['b']", "not both"),
            ("metric = 'goodput'\nrun = ['a']", "run: invalid type"),
            ("metric = 'goodput'\nfor_ms = 1.0", "unknown field `for_ms`"),
            ("metric = 'goodput'\nrun = 'a'\npick = 'best'", "pick: unknown variant `best`"),
            ("metric = 'goodput'\nrun = 'a'\nsustained = '0.9'", "sustained: invalid type"),
        ] {
            let error = toml::from_str::<Query>(text).unwrap_err().to_string();
            assert!(error.contains(expected), "{error}");
        }
    }
}
