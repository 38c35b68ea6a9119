//! What decides a run's numbers beside its protocol, in words for the line above them.

use tidegate_results::{Summary, SwitchSettings};

use crate::reproduce::with_unit;

/// Routing, priorities, buffers, marks, drain and fixed rates of runs, each under a name; the names
/// stand where not all have the same.
pub fn conditions(runs: &[(&str, &Summary)]) -> String {
    let all = [routing, priorities, buffers, marks, drain, fixed_rates];
    let said = all.map(|of| together(runs, of));
    said.into_iter().filter(|text| !text.is_empty()).collect::<Vec<_>>().join("; ")
}

/// What each run has, once, with the names of those that have it where they differ.
fn together(runs: &[(&str, &Summary)], of: fn(&Summary) -> Option<String>) -> String {
    let mut all: Vec<(String, Vec<&str>)> = Vec::new();
    for (name, summary) in runs {
        let Some(text) = of(summary) else { continue };
        match all.iter_mut().find(|(other, _)| *other == text) {
            Some((_, names)) => names.push(name),
            None => all.push((text, vec![name])),
        }
    }
    let named = |(text, names): &(String, Vec<&str>)| format!("{text} ({})", names.join(", "));
    match &all[..] {
        [(text, _)] => text.clone(),
        _ => all.iter().map(named).collect::<Vec<_>>().join(", "),
    }
}

/// What the switches have, each kind once; `None` where results do not say.
fn of_switches(summary: &Summary, of: fn(SwitchSettings) -> String) -> Option<String> {
    let mut kinds: Vec<String> = Vec::new();
    for settings in summary.switches.iter().filter_map(|switch| switch.settings) {
        let text = of(settings);
        if !kinds.contains(&text) {
            kinds.push(text);
        }
    }
    (!kinds.is_empty()).then(|| kinds.join(" or "))
}

fn routing(summary: &Summary) -> Option<String> {
    (!summary.routing.is_empty()).then(|| format!("routing {}", summary.routing))
}

fn priorities(summary: &Summary) -> Option<String> {
    let said = |settings: SwitchSettings| match settings.priorities {
        None => String::new(),
        Some(1) => "1 priority".to_owned(),
        Some(count) => format!("{count} priorities"),
    };
    of_switches(summary, said).filter(|text| !text.is_empty())
}

/// Of protocols that do not ask the network.
fn fixed_rates(summary: &Summary) -> Option<String> {
    let rates = |rates: &Vec<f64>| {
        let rates = rates.iter().map(|gbps| with_unit(Some(*gbps), "Gbps"));
        rates.collect::<Vec<_>>().join(" or ")
    };
    let all = summary.fixed_rates_gbps.iter();
    let said: Vec<String> =
        all.map(|(name, all)| format!("each {name} connection sends {}", rates(all))).collect();
    (!said.is_empty()).then(|| said.join(", "))
}

fn buffers(summary: &Summary) -> Option<String> {
    let buffer = |settings: SwitchSettings| {
        let size = settings.buffer_size_bytes;
        let size = size.map_or("unlimited".to_owned(), |size| bytes(size as f64));
        match settings.pfc_alpha {
            Some(alpha) => format!("{size} with pauses at {alpha} of what is free"),
            None => size,
        }
    };
    of_switches(summary, buffer).map(|text| format!("switch buffer {text}"))
}

fn marks(summary: &Summary) -> Option<String> {
    let marks = |settings: SwitchSettings| {
        let text = match (settings.mark_from_bytes, settings.mark_all_bytes) {
            (Some(from), Some(all)) if from != all => {
                format!("marks from {} to {}", bytes(from), bytes(all))
            }
            (Some(from), _) => format!("marks from {}", bytes(from)),
            (None, _) => "no marks".to_owned(),
        };
        let per = settings.mark_per_gbps.map(|gbps| with_unit(Some(gbps), "Gbps"));
        per.map_or(text.clone(), |per| format!("{text} per {per}"))
    };
    of_switches(summary, marks)
}

fn drain(summary: &Summary) -> Option<String> {
    Some(match summary.drain_max_seconds {
        0.0 => "no drain".to_owned(),
        s => format!("drain up to {}", with_unit(Some(s * 1e3), "ms")),
    })
}

fn bytes(bytes: f64) -> String {
    let units = [(1e9, "GB"), (1e6, "MB"), (1e3, "KB")];
    let (scale, unit) = units.into_iter().find(|(scale, _)| bytes >= *scale).unwrap_or((1.0, "B"));
    with_unit(Some(bytes / scale), unit)
}
