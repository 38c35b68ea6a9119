//! Titles of runs, which distinguish them.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use tidegate_results::RealSummary;

use super::configurations::without_seed;
use super::differences::{LACKING, differences, follows_protocol};
use super::read::Run;

/// Extends titles until they are unique. This applies to runs with equal titles, and to all runs if
/// their scenarios differ; if some are simulated and others not, all titles say it. The added parts
/// are, in order: the scenario's name, simulated or live, the differing keys, the seed, the folder.
/// If some scenarios lack keys that others have, the folder replaces the differing keys.
pub(crate) fn name_apart(runs: &mut [Run]) {
    let settings: Vec<_> =
        differences(runs).0.into_iter().filter(|(key, _)| !follows_protocol(key)).collect();
    let of = |i: usize, values: &[(String, Vec<usize>)]| {
        values.iter().find(|(_, having)| having.contains(&i)).map(|(value, _)| value.clone())
    };
    let all = 0..runs.len();
    let settings_of: Vec<Vec<_>> =
        all.clone().map(|i| settings.iter().map(|(_, values)| of(i, values)).collect()).collect();
    let are_mixed = settings.iter().any(|(_, values)| values.iter().any(|(it, _)| it == LACKING));
    let folders = folders(runs);
    let mut additions: Vec<Vec<String>> =
        vec![runs.iter().map(|run| run.summary.name.clone()).collect()];
    let packets = |run: &Run| match &run.summary.real {
        None => "simulated".to_owned(),
        Some(RealSummary { tcp: None, .. }) => "live UDP".to_owned(),
        Some(RealSummary { tcp: Some(control), .. }) => format!("TCP under {control}"),
    };
    let packets_at = additions.len();
    let packets: Vec<String> = runs.iter().map(packets).collect();
    additions.push(packets.clone());
    if are_mixed {
        additions.push(without_seeds(runs, &packets, &folders));
    } else {
        additions.extend(settings.iter().map(|(key, values)| {
            let addition =
                |i| of(i, values).map(|value| format!("{key} {value}")).unwrap_or_default();
            all.clone().map(addition).collect()
        }));
    }
    let from_settings = additions.len();
    let mut kinds = Vec::new();
    additions.push(runs.iter().map(|run| format!("seed {}", run.summary.seed)).collect());
    additions.push(folders);
    let titles: Vec<String> = runs.iter().map(|run| run.title.clone()).collect();
    let mut suffixes = vec![String::new(); runs.len()];
    for (number, addition) in additions.iter().enumerate() {
        if number == from_settings {
            kinds.clone_from(&suffixes);
        }
        let apart = |i: usize, j: usize| {
            let differ =
                number == packets_at || number < from_settings && settings_of[i] != settings_of[j];
            (titles[i] == titles[j] || differ)
                && suffixes[i] == suffixes[j]
                && addition[i] != addition[j]
        };
        let named: Vec<usize> = all.clone().filter(|&i| all.clone().any(|j| apart(i, j))).collect();
        for i in named.into_iter().filter(|&i| !addition[i].is_empty()) {
            suffixes[i].push_str(&format!(", {}", addition[i]));
        }
    }
    for ((run, suffix), kind) in runs.iter_mut().zip(suffixes).zip(kinds) {
        run.kind.push_str(&kind);
        run.title.push_str(&suffix);
    }
}

/// The folders without the parts that differ between the seeds of one configuration, so that these
/// runs do not become several configurations.
fn without_seeds(runs: &[Run], packets: &[String], folders: &[String]) -> Vec<String> {
    let keys: Vec<_> = runs.iter().zip(packets).map(|at| (without_seed(at.0), at.1)).collect();
    let shared = |i: usize| {
        let alike: Vec<usize> = (0..runs.len()).filter(|&j| keys[j] == keys[i]).collect();
        let seeds: BTreeSet<u64> = alike.iter().map(|&j| runs[j].summary.seed).collect();
        if keys[i].0.is_none() || seeds.len() < alike.len() {
            return folders[i].clone();
        }
        let first = &folders[alike[0]];
        let is_shared = |part: &&OsStr| {
            alike.iter().all(|&j| Path::new(&folders[j]).iter().any(|other| other == *part))
        };
        let parts: PathBuf = Path::new(first).iter().filter(is_shared).collect();
        // The title already begins with the protocol, after which folders of comparisons are named.
        let own: PathBuf = parts.iter().filter(|part| **part != *runs[i].title).collect();
        if parts.as_os_str().is_empty() { first.clone() } else { own.display().to_string() }
    };
    (0..runs.len()).map(shared).collect()
}

/// The folders of runs, without their common prefix.
fn folders(runs: &[Run]) -> Vec<String> {
    let at = |run: &Run, depth: usize| run.folder.iter().nth(depth).map(|name| name.to_owned());
    let depth = runs.first().map_or(0, |first| {
        let shared = |depth: &usize| runs.iter().all(|run| at(run, *depth) == at(first, *depth));
        (0..first.folder.iter().count()).take_while(shared).count()
    });
    let own = |run: &Run| {
        let own: PathBuf = run.folder.iter().skip(depth).collect();
        if own.as_os_str().is_empty() { &run.folder } else { &own }.display().to_string()
    };
    runs.iter().map(own).collect()
}

#[cfg(test)]
mod tests {
    use tidegate_results::Summary;

    use super::*;
    use crate::report::read::tests::of_summary;
    use crate::samples::summary;

    #[test]
    fn titles_distinguish_real_and_simulated_runs() {
        let run = |name: &str, tcp: Option<&str>| {
            let real = tcp.map(|control| {
                let late = serde_json::json!({ "mean": 0.1, "p99": 0.2, "max": 0.3 });
                serde_json::from_value(serde_json::json!({
                    "dilation": 1, "hosts": 2, "datagrams": 9, "lost": 0, "late_us": late,
                    "hosts_late_us": null, "base_rtt_us": 10.0, "tcp": control, "tcp_acks": null,
                }))
                .unwrap()
            });
            let title = name.to_owned();
            Run { title, ..of_summary(Summary { real, ..summary(1) }) }
        };
        let titles = |mut runs: Vec<Run>| -> Vec<String> {
            name_apart(&mut runs);
            runs.into_iter().map(|run| run.title).collect()
        };
        assert_eq!(
            titles(vec![run("swift", None), run("cubic", Some("cubic"))]),
            ["swift, simulated", "cubic, TCP under cubic"]
        );
        assert_eq!(titles(vec![run("swift", None), run("dctcp", None)]), ["swift", "dctcp"]);
    }

    #[test]
    fn seeds_beside_another_scenario_are_grouped() {
        let run = |folder: &str, seed: u64, fabric: serde_json::Value| Run {
            kind: "swift".to_owned(),
            title: "swift".to_owned(),
            scenario: Some(serde_json::json!({ "seed": seed, "fabric": fabric })),
            folder: PathBuf::from(folder),
            ..of_summary(summary(seed))
        };
        let (star, racks) = (serde_json::json!({ "hosts": 4 }), serde_json::json!({ "racks": 2 }));
        let named = |others: [&str; 2], seeds: [u64; 2]| {
            let mut runs = vec![
                run("at/r1", 1, star.clone()),
                run(others[0], seeds[0], racks.clone()),
                run(others[1], seeds[1], racks.clone()),
            ];
            name_apart(&mut runs);
            let groups = crate::report::configurations::grouped(&runs);
            (groups, runs.into_iter().map(|run| run.title).collect::<Vec<_>>())
        };
        let (groups, titles) = named(["at/cmp/seed-1/swift", "at/cmp/seed-2/swift"], [1, 2]);
        assert_eq!(groups, [vec![0], vec![1, 2]]);
        assert_eq!(titles, ["swift, r1", "swift, cmp, seed 1", "swift, cmp, seed 2"]);
        let (groups, titles) = named(["at/r2", "at/r3"], [1, 2]);
        assert_eq!(groups, [vec![0], vec![1, 2]]);
        assert_eq!(titles, ["swift, r1", "swift, r2, seed 1", "swift, r2, seed 2"]);
        // Equal seeds: the runs differ in something that scenarios do not contain.
        let (groups, titles) = named(["at/old", "at/new"], [1, 1]);
        assert_eq!(groups, [vec![0], vec![1], vec![2]]);
        assert_eq!(titles, ["swift, r1", "swift, old", "swift, new"]);
    }
}
