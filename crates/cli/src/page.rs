//! The catalog as pages for people.

use tidegate_workbench::{ParameterInfo, ProtocolEntry, TelemetryBytes};

use crate::grid::{drawn, new, prose};

/// All protocols, a line each.
pub(crate) fn list(protocols: &[ProtocolEntry]) -> String {
    let mut table = new(&["protocol", "family", "needs of switches", "what it does"], 4);
    for protocol in protocols {
        let ProtocolEntry { name, family, summary, .. } = protocol;
        table.add_row([
            (*name).to_owned(),
            (*family).to_owned(),
            needs(protocol),
            (*summary).to_owned(),
        ]);
    }
    format!("{}\nMore about one: tidegate protocols NAME\n", drawn(&table))
}

/// One protocol.
pub(crate) fn protocol(protocol: &ProtocolEntry) -> String {
    let mut text = format!("{} ({})\n\n{}\n\n", protocol.title, protocol.name, protocol.summary);
    text.push_str(&format!("Family              {}\n", protocol.family));
    text.push_str(&format!("Published in        {}\n", protocol.citation));
    text.push_str(&format!("Needs of switches   {}\n", needs(protocol)));
    if let Some(marking) = &protocol.marking {
        text.push_str(&format!("Marks unless set    {marking}\n"));
    }
    text.push_str(&format!("Telemetry in data   {}\n", telemetry(protocol.telemetry_bytes)));
    text.push_str(&format!("Echoed in acks      {}\n", telemetry(protocol.echo_bytes)));
    let ProtocolEntry { color, marker, dash, .. } = protocol;
    text.push_str(&format!("In plots            {color}, {marker}, {dash}\n"));
    if protocol.parameters.is_empty() {
        text.push_str("\nIt has no parameters.\n");
    } else {
        text.push_str("\nParameters, as in `transport.params`\n");
        let titles = ["name", "default", "meaning; allowed values; source of the default"];
        let mut table = new(&titles, titles.len());
        for parameter in &protocol.parameters {
            let ParameterInfo { meaning, source, .. } = parameter;
            let text = format!("{meaning} [{}; {source}]", allowed(parameter));
            table.add_row([parameter.name.to_owned(), plain(&parameter.default), text]);
        }
        text.push_str(&drawn(&table));
    }
    if !protocol.outside_domain.is_empty() {
        text.push_str("\nOutside the range it was designed for, with these defaults:\n");
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
        (0, per_hop) => format!("{per_hop} B a switch"),
        (fixed, per_hop) => format!("{fixed} B and {per_hop} B a switch"),
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

/// JSON without quotes around text.
fn plain(value: &serde_json::Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}
