//! The conditions besides the protocol that determine a run's results, as a line of text.

use tidegate_results::{MarkedAt, Summary, SwitchSettings};

use tidegate_runs::numbers::with_unit;

/// TCP, routing, circuits, priorities, buffers, marking, telemetry, drain and fixed rates of named
/// runs. The names are included where the runs differ.
pub fn conditions(runs: &[(&str, &Summary)]) -> String {
    let all = [tcp, routing, circuits, priorities, buffers, marks, telemetry, drain, fixed_rates];
    let texts = all.map(|of| together(runs, of));
    let is_shown = |text: &String| !text.is_empty() && text != EXACT_TELEMETRY;
    texts.into_iter().filter(is_shown).collect::<Vec<_>>().join("; ")
}

/// The default, which is named only beside other resolutions.
const EXACT_TELEMETRY: &str = "exact telemetry";

/// Limit on listed names; the rest are counted.
const NAMES_MAX: usize = 12;

/// Each distinct value once, with the names of its runs if the runs differ.
fn together(runs: &[(&str, &Summary)], of: fn(&Summary) -> Option<String>) -> String {
    let mut all: Vec<(String, Vec<&str>)> = Vec::new();
    for (name, summary) in runs {
        let Some(text) = of(summary) else { continue };
        match all.iter_mut().find(|(other, _)| *other == text) {
            Some((_, names)) => names.push(name),
            None => all.push((text, vec![name])),
        }
    }
    // Names may contain commas.
    let between = if runs.iter().any(|(name, _)| name.contains(',')) { "; " } else { ", " };
    let named = |(text, names): &(String, Vec<&str>)| {
        let more = match names.len().saturating_sub(NAMES_MAX) {
            0 => String::new(),
            more => format!("{between}and {more} more"),
        };
        format!("{text} ({}{more})", names[..names.len().min(NAMES_MAX)].join(between))
    };
    match &all[..] {
        [(text, _)] => text.clone(),
        _ => all.iter().map(named).collect::<Vec<_>>().join(", "),
    }
}

/// Each distinct value of the switches once; `None` if the results do not contain any.
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

fn tcp(summary: &Summary) -> Option<String> {
    let control = summary.real.as_ref()?.tcp.as_ref()?;
    Some(format!("the kernel's TCP under {control}"))
}

fn routing(summary: &Summary) -> Option<String> {
    (!summary.routing.is_empty()).then(|| format!("routing {}", summary.routing))
}

fn priorities(summary: &Summary) -> Option<String> {
    let count = |settings: SwitchSettings| match settings.priorities {
        None => String::new(),
        Some(1) => "1 priority".to_owned(),
        Some(count) => format!("{count} priorities"),
    };
    of_switches(summary, count).filter(|text| !text.is_empty())
}

/// Rates of protocols that send at a configured rate.
fn fixed_rates(summary: &Summary) -> Option<String> {
    let rates = |rates: &Vec<f64>| {
        let rates = rates.iter().map(|gbps| with_unit(Some(*gbps), "Gbps"));
        rates.collect::<Vec<_>>().join(" or ")
    };
    let all = summary.fixed_rates_gbps.iter();
    let parts: Vec<String> =
        all.map(|(name, all)| format!("each {name} connection sends {}", rates(all))).collect();
    (!parts.is_empty()).then(|| parts.join(", "))
}

fn buffers(summary: &Summary) -> Option<String> {
    let buffer = |settings: SwitchSettings| {
        let size = settings.buffer_size_bytes;
        let size = size.map_or("unlimited".to_owned(), |size| bytes(size as f64));
        match (settings.pfc_alpha, settings.credit_share) {
            (Some(alpha), _) => format!("{size} with pauses at {alpha} of the free buffer"),
            (None, Some(share)) => {
                let percent = share * 100.0;
                format!("{size} with credit queues at {percent:.2} % of the link rate")
            }
            (None, None) => size,
        }
    };
    of_switches(summary, buffer).map(|text| format!("switch buffer {text}"))
}

fn marks(summary: &Summary) -> Option<String> {
    let marks = |settings: SwitchSettings| {
        let Some(from) = settings.mark_from_bytes else { return "no marks".to_owned() };
        let (core, dequeue) = match settings.mark_at {
            None | Some(MarkedAt::Enqueue) => ("", ""),
            Some(MarkedAt::Dequeue) => ("", " at dequeue"),
            Some(MarkedAt::CoreEnqueue) => (" between switches", ""),
            Some(MarkedAt::CoreDequeue) => (" between switches", " at dequeue"),
        };
        let ramp = settings.mark_all_bytes.filter(|all| *all != from).map(|all| {
            let most = settings.mark_max_probability;
            let most = most.map_or_else(String::new, |most| format!(" by up to {most}"));
            format!(" to {}{most}", bytes(all))
        });
        let per = settings.mark_per_gbps.map(|gbps| with_unit(Some(gbps), "Gbps"));
        let per = per.map_or_else(String::new, |per| format!(" per {per}"));
        format!("marks{core} from {}{}{per}{dequeue}", bytes(from), ramp.unwrap_or_default())
    };
    of_switches(summary, marks)
}

fn telemetry(summary: &Summary) -> Option<String> {
    let resolution = |settings: SwitchSettings| {
        let us = |name: &str, us: Option<f64>| {
            Some(format!("telemetry {name} {}", with_unit(Some(us?), "us")))
        };
        let quantum = us("quantum", settings.telemetry_quantum_us);
        let period = us("period", settings.telemetry_period_us);
        let set: Vec<String> = quantum.into_iter().chain(period).collect();
        if set.is_empty() { EXACT_TELEMETRY.to_owned() } else { set.join(" and ") }
    };
    of_switches(summary, resolution)
}

fn circuits(summary: &Summary) -> Option<String> {
    let circuits = summary.circuits?;
    let us = |us: f64| with_unit(Some(us), "us");
    let size = |size: Option<u64>| match size {
        Some(size) => bytes(size as f64),
        None => "unlimited".to_owned(),
    };
    let (voq, enlarged) = (size(circuits.voq_bytes), size(circuits.enlarged_voq_bytes));
    let enlarged = if voq == enlarged { String::new() } else { format!(", enlarged {enlarged}") };
    Some(format!(
        "circuits with days of {}, nights of {}, weeks of {}; voq {voq}{enlarged}, prebuffer {}",
        us(circuits.day_us),
        us(circuits.night_us),
        us(circuits.week_us),
        us(circuits.prebuffer_us)
    ))
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
