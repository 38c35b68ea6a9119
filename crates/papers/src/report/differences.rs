//! Differences between the scenarios of several runs.

use std::collections::BTreeMap;

use serde_json::Value;

use super::read::Run;

/// Maximum number of keys shown.
const KEYS_MAX: usize = 40;
/// Maximum number of characters of a value shown.
const VALUE_MAX: usize = 60;

/// Shown in place of a value if a scenario lacks the key.
pub(crate) const LACKING: &str = "–";

/// A key, and its values with the runs that have each value.
pub(crate) type Difference = (String, Vec<(String, Vec<usize>)>);

/// Keys of the resolved scenarios that differ, and the number of further ones that are not shown.
/// Omits the protocol, which runs are named by, and its parameters if only the protocols differ.
pub(crate) fn differences(runs: &[Run]) -> (Vec<Difference>, usize) {
    let flat: Vec<Option<BTreeMap<String, String>>> =
        runs.iter().map(|run| run.scenario.as_ref().map(flat)).collect();
    let mut keys: Vec<&String> =
        flat.iter().flatten().flat_map(|scenario| scenario.keys()).collect();
    keys.sort();
    keys.dedup();
    let mut found = Vec::new();
    for key in keys.into_iter().filter(|key| *key != "transport.protocol") {
        let mut values: Vec<(String, Vec<usize>)> = Vec::new();
        for (i, scenario) in flat.iter().enumerate() {
            let Some(scenario) = scenario else { continue };
            let value = scenario.get(key).cloned().unwrap_or_else(|| LACKING.to_owned());
            match values.iter_mut().find(|(other, _)| *other == value) {
                Some((_, having)) => having.push(i),
                None => values.push((value, vec![i])),
            }
        }
        let protocols =
            |having: &[usize]| having.iter().map(|i| runs[*i].protocol.clone()).collect::<Vec<_>>();
        let shared = |(at, (_, having)): (usize, &(String, Vec<usize>))| {
            let own = protocols(having);
            values[at + 1..]
                .iter()
                .any(|(_, others)| protocols(others).iter().any(|other| own.contains(other)))
        };
        let is_tuning = key.contains("params.");
        if values.len() > 1 && (!is_tuning || values.iter().enumerate().any(shared)) {
            found.push((key.clone(), values));
        }
    }
    let more = found.len().saturating_sub(KEYS_MAX);
    found.truncate(KEYS_MAX);
    (found, more)
}

/// Whether a key can follow from the protocol: a fabric requirement, or a parameter of its own.
pub(crate) fn follows_protocol(key: &str) -> bool {
    let sections = [
        "switch.credit_queue",
        "switch.ecn",
        "switch.pfc",
        "switch.routing",
        "transport.params",
        "protocols.",
    ];
    key == "name" || key == "seed" || sections.iter().any(|section| key.starts_with(section))
}

/// The values of a scenario by path.
fn flat(scenario: &Value) -> BTreeMap<String, String> {
    let mut all = BTreeMap::new();
    gather(String::new(), scenario, &mut all);
    all
}

fn gather(path: String, value: &Value, all: &mut BTreeMap<String, String>) {
    match value {
        Value::Object(entries) => entries.iter().for_each(|(key, value)| {
            gather(if path.is_empty() { key.clone() } else { format!("{path}.{key}") }, value, all);
        }),
        Value::Array(items) if items.iter().any(Value::is_object) => {
            items
                .iter()
                .enumerate()
                .for_each(|(i, item)| gather(format!("{path}[{i}]"), item, all));
        }
        _ => {
            let text = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
            let mut shown: String = text.chars().take(VALUE_MAX).collect();
            if shown.len() < text.len() {
                shown.push('…');
            }
            all.insert(path, shown);
        }
    }
}
