//! Groups runs that differ only in their seed, which are drawn as one line, and groups those whose
//! lines belong in one plot.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Value};
use tidegate_scenario::magnitude;

use super::read::Run;

/// Runs that differ only in their seed.
#[derive(Clone)]
pub(crate) struct Configuration<'a> {
    /// Distinguishes it from the others.
    pub(crate) title: &'a str,
    /// Its protocol, if there is only one.
    pub(crate) protocol: Option<&'a str>,
    /// Number of its first run. Values that are not averaged are drawn from this run.
    pub(crate) first: usize,
    /// One run per seed; at least one.
    pub(crate) runs: Vec<&'a Run>,
}

impl Configuration<'_> {
    /// The run from which values that are not averaged are drawn.
    pub(crate) fn run(&self) -> &Run {
        self.runs[0]
    }
}

/// Run numbers of each configuration, in the order of the first ones. Runs with equal scenarios and
/// equal seeds belong to different configurations: they differ in something that scenarios do not
/// contain.
pub(crate) fn grouped(runs: &[Run]) -> Vec<Vec<usize>> {
    let mut groups: BTreeMap<(&str, String), Vec<usize>> = BTreeMap::new();
    for (i, run) in runs.iter().enumerate() {
        // A run without a manifest is a configuration of its own.
        let key = without_seed(run).unwrap_or_else(|| i.to_string());
        groups.entry((&run.kind, key)).or_default().push(i);
    }
    let seeds = |group: &[usize]| -> BTreeSet<u64> {
        group.iter().map(|&i| runs[i].summary.seed).collect()
    };
    let mut all: Vec<Vec<usize>> = Vec::new();
    for group in groups.into_values() {
        if seeds(&group).len() == group.len() {
            all.push(group);
        } else {
            all.extend(group.into_iter().map(|i| vec![i]));
        }
    }
    all.sort();
    all
}

/// The scenario of a run without its seed, if the run has a manifest.
pub(crate) fn without_seed(run: &Run) -> Option<String> {
    let mut scenario = run.scenario.clone()?;
    scenario.as_object_mut()?.remove("seed");
    Some(scenario.to_string())
}

/// Configurations whose lines belong in one plot, each group with a name: their fabrics and their
/// traffic differ in nothing but numbers. Groups are in the order of their first configurations.
pub(crate) fn comparable<'a>(all: &[Configuration<'a>]) -> Vec<(String, Vec<Configuration<'a>>)> {
    let mut groups: Vec<(String, Vec<Configuration<'a>>)> = Vec::new();
    for one in all {
        let key = shape_of(one.run());
        match groups.iter_mut().find(|(known, _)| *known == key) {
            Some((_, group)) => group.push(one.clone()),
            None => groups.push((key, vec![one.clone()])),
        }
    }
    let mut times: BTreeMap<String, usize> = BTreeMap::new();
    let name = |(_, group): (String, Vec<Configuration<'a>>)| {
        let own: BTreeSet<&str> = group.iter().map(|one| one.run().summary.name.as_str()).collect();
        let own = own.into_iter().collect::<Vec<_>>().join(", ");
        let number = times.entry(own.clone()).or_default();
        *number += 1;
        (if *number == 1 { own } else { format!("{own} ({number})") }, group)
    };
    groups.into_iter().map(name).collect()
}

/// The fabric and the traffic of a run without numbers, and without protocols and their parameters.
fn shape_of(run: &Run) -> String {
    let part = |key: &str| run.scenario.as_ref().map(|scenario| without_numbers(&scenario[key]));
    format!("{:?}", ["fabric", "flows", "traffic"].map(part))
}

fn without_numbers(value: &Value) -> Value {
    match value {
        Value::Object(entries) => {
            let is_kept =
                |key: &String| !matches!(key.as_str(), "protocol" | "preset" | "params" | "seed");
            let kept = entries.iter().filter(|(key, _)| is_kept(key));
            kept.map(|(key, value)| (key.clone(), without_numbers(value)))
                .collect::<Map<_, _>>()
                .into()
        }
        Value::Array(items) => items.iter().map(without_numbers).collect(),
        Value::Number(_) => Value::Null,
        Value::String(text) if magnitude(text).is_some() => Value::Null,
        other => other.clone(),
    }
}

/// The configurations of groups of runs.
pub(crate) fn configurations<'a>(runs: &'a [Run], groups: &[Vec<usize>]) -> Vec<Configuration<'a>> {
    let configuration = |group: &Vec<usize>| {
        let first = &runs[group[0]];
        Configuration {
            title: if group.len() > 1 { &first.kind } else { &first.title },
            protocol: first.protocol.as_deref(),
            first: group[0],
            runs: group.iter().map(|&i| &runs[i]).collect(),
        }
    };
    groups.iter().map(configuration).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use tidegate_results::Summary;

    use super::*;
    use crate::report::read::tests::of_summary;
    use crate::samples::summary;

    /// The names of the groups of runs with these names and scenarios, and the number of their
    /// configurations.
    fn groups_of(scenarios: &[(&str, Value)]) -> Vec<(String, usize)> {
        let run = |(name, scenario): &(&str, Value)| {
            let summary = Summary { name: (*name).to_owned(), ..summary(1) };
            Run { scenario: Some(scenario.clone()), ..of_summary(summary) }
        };
        let runs: Vec<Run> = scenarios.iter().map(run).collect();
        let alone: Vec<Vec<usize>> = (0..runs.len()).map(|i| vec![i]).collect();
        let all = configurations(&runs, &alone);
        comparable(&all).into_iter().map(|(name, group)| (name, group.len())).collect()
    }

    #[test]
    fn fabrics_and_traffic_separate_plots() {
        let scenario = |kind: &str, hosts: u32, sizes: &str, load: f64| {
            let block = json!({ "kind": "poisson", "sizes": sizes, "load": load });
            json!({ "fabric": { "kind": kind, "hosts": hosts }, "traffic": [block] })
        };
        let star = ("a", scenario("star", 8, "wka", 0.5));
        let numbers = ("a", scenario("star", 16, "wka", 0.8));
        let one = |name: &str, count| (name.to_owned(), count);
        assert_eq!(groups_of(&[star.clone(), numbers]), [one("a", 2)]);
        let tree = ("b", scenario("leaf-spine", 8, "wka", 0.5));
        let sizes = ("a", scenario("star", 8, "1KB", 0.5));
        let all = [star.clone(), tree.clone(), star.clone(), sizes];
        assert_eq!(groups_of(&all), [one("a", 2), one("b", 1), one("a (2)", 1)]);
        // Protocols and their parameters do not separate runs.
        let flows = |protocol: &str| {
            let flow = json!({ "src": "h0", "protocol": protocol, "params": { "x": "y" } });
            ("c", json!({ "flows": [flow], "transport": { "protocol": protocol } }))
        };
        assert_eq!(groups_of(&[flows("one"), flows("two")]), [one("c", 2)]);
    }
}
