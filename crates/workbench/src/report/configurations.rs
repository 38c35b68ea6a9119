//! Runs that differ in their seed alone, which are drawn as one.

use std::collections::{BTreeMap, BTreeSet};

use super::read::Run;

/// Runs that differ in their seed alone.
pub(crate) struct Configuration<'a> {
    /// What tells it from the others.
    pub(crate) title: &'a str,
    /// Its protocol, if it is only one.
    pub(crate) protocol: Option<&'a str>,
    /// The number of its first run. Of what is not averaged, that alone is drawn.
    pub(crate) first: usize,
    /// One for each seed; there is one.
    pub(crate) runs: Vec<&'a Run>,
}

impl Configuration<'_> {
    /// The run that stands for all where they are not averaged.
    pub(crate) fn run(&self) -> &Run {
        self.runs[0]
    }
}

/// The numbers of the runs of each configuration, in the order of their first. Runs of one seed are
/// several: they differ in something that scenarios do not say.
pub(crate) fn grouped(runs: &[Run]) -> Vec<Vec<usize>> {
    let mut groups: BTreeMap<(&str, String), Vec<usize>> = BTreeMap::new();
    for (i, run) in runs.iter().enumerate() {
        let mut scenario = run.scenario.clone().unwrap_or_default();
        // Where nothing tells what was run, it is like no other.
        let known = scenario.as_object_mut().map(|keys| keys.remove("seed"));
        let said = if known.is_some() { scenario.to_string() } else { i.to_string() };
        groups.entry((&run.kind, said)).or_default().push(i);
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
