//! Groups runs that differ only in their seed. Such a group is drawn as one line.

use std::collections::{BTreeMap, BTreeSet};

use super::read::Run;

/// Runs that differ only in their seed.
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
