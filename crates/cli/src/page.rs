//! Formats the protocol catalog.

use tidegate_workbench::{ParameterInfo, PresetInfo, ProtocolEntry, TelemetryBytes};

use crate::grid::{drawn, new, prose};

/// Lists all protocols, one per line.
pub(crate) fn list(protocols: &[ProtocolEntry]) -> String {
    let mut table = new(&["protocol", "family", "switch requirements", "description"], 4);
    for protocol in protocols {
        let ProtocolEntry { name, family, summary, .. } = protocol;
        table.add_row([
            (*name).to_owned(),
            (*family).to_owned(),
            needs(protocol),
            (*summary).to_owned(),
        ]);
    }
    format!("{}\nDetails of a protocol: tidegate protocols NAME\n", drawn(&table))
}

/// Describes one protocol.
pub(crate) fn protocol(protocol: &ProtocolEntry) -> String {
    let mut text = format!("{} ({})\n\n{}\n\n", protocol.title, protocol.name, protocol.summary);
    text.push_str(&format!("Family              {}\n", protocol.family));
    text.push_str(&format!("Published in        {}\n", protocol.citation));
    text.push_str(&format!("Switch requirements {}\n", needs(protocol)));
    if let Some(marking) = &protocol.marking {
        text.push_str(&format!("Default marking     {marking}\n"));
    }
    text.push_str(&format!("Telemetry in data   {}\n", telemetry(protocol.telemetry_bytes)));
    text.push_str(&format!("Echoed in acks      {}\n", telemetry(protocol.echo_bytes)));
    let ProtocolEntry { color, marker, dash, .. } = protocol;
    text.push_str(&format!("In plots            {color}, {marker}, {dash}\n"));
    if protocol.parameters.is_empty() {
        text.push_str("\nThe protocol has no parameters.\n");
    } else {
        text.push_str("\nParameters (`transport.params`)\n");
        let titles = ["name", "default", "meaning; allowed values; source of the default"];
        let mut table = new(&titles, titles.len());
        for parameter in &protocol.parameters {
            let ParameterInfo { meaning, source, needs, .. } = parameter;
            let only = match needs.as_slice() {
                [] => String::new(),
                needs => format!(" Only with {}.", needs.join(" and ")),
            };
            let text = format!("{meaning}{only} [{}; {source}]", allowed(parameter));
            table.add_row([parameter.name.to_owned(), plain(&parameter.default), text]);
        }
        text.push_str(&drawn(&table));
        text.push_str("\nPresets (`transport.preset`)\n");
        let mut table = new(&["name", "parameters; source"], 2);
        for PresetInfo { name, source, parameters } in &protocol.presets {
            let set = parameters.iter().map(|(name, value)| format!("{name} = {value}"));
            let text = match set.collect::<Vec<_>>().join(", ") {
                set if set.is_empty() => "the defaults".to_owned(),
                set => format!("{set} [{source}]"),
            };
            table.add_row([name.clone(), text]);
        }
        text.push_str(&drawn(&table));
    }
    if !protocol.outside_domain.is_empty() {
        text.push_str("\nOutside the design range with these defaults:\n");
        protocol.outside_domain.iter().for_each(|line| text.push_str(&format!("  {line}\n")));
    }
    prose(&text)
}

fn needs(protocol: &ProtocolEntry) -> String {
    if protocol.needs.is_empty() { "nothing".to_owned() } else { protocol.needs.join(", ") }
}

fn telemetry(bytes: TelemetryBytes) -> String {
    match (bytes.fixed, bytes.per_hop) {
        (0, 0) => "none".to_owned(),
        (fixed, 0) => format!("{fixed} B"),
        (0, per_hop) => format!("{per_hop} B per switch"),
        (fixed, per_hop) => format!("{fixed} B and {per_hop} B per switch"),
    }
}

fn allowed(parameter: &ParameterInfo) -> String {
    match (&parameter.min, &parameter.max) {
        (Some(min), Some(max)) => format!("{} to {}", plain(min), plain(max)),
        _ if !parameter.choices.is_empty() => parameter.choices.join(", "),
        _ if parameter.kind == "flag" => "true, false".to_owned(),
        _ => format!("any {}", parameter.kind),
    }
}

/// Formats a JSON value; strings without quotes.
fn plain(value: &serde_json::Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}
