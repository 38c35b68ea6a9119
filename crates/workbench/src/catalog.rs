//! Every protocol, described for people and programs.

use serde::Serialize;
use serde_json::Value as Json;
use tidegate_algos::Protocol;
use tidegate_core::params::{Info, Kind, Value};
use tidegate_core::{FabricProperties, Need, Rate, Span};

/// A protocol.
#[derive(Clone, Debug, Serialize)]
pub struct ProtocolEntry {
    /// As scenarios name it.
    pub name: &'static str,
    /// As papers write it.
    pub title: &'static str,
    /// What kind of protocol: a congestion control or a receiver-driven transport.
    pub family: &'static str,
    /// What it does, in one sentence.
    pub summary: &'static str,
    /// Where it was published.
    pub citation: &'static str,
    /// Colour in plots.
    pub color: &'static str,
    /// Marker in plots.
    pub marker: &'static str,
    /// Dash of its lines in plots.
    pub dash: &'static str,
    /// What it needs of the fabric.
    pub needs: Vec<&'static str>,
    /// How it asks switches to mark, in words; null where it asks for no marks.
    pub marking: Option<String>,
    /// Telemetry in a data packet.
    pub telemetry_bytes: TelemetryBytes,
    /// Telemetry that an acknowledgement echoes.
    pub echo_bytes: TelemetryBytes,
    /// Its parameters.
    pub parameters: Vec<ParameterInfo>,
    /// Where on common paths it is, by default, outside the range it was designed for.
    pub outside_domain: Vec<String>,
}

/// What telemetry costs on the wire.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct TelemetryBytes {
    /// In every packet.
    pub fixed: u16,
    /// For every switch on the path.
    pub per_hop: u16,
}

/// A parameter of a protocol.
#[derive(Clone, Debug, Serialize)]
pub struct ParameterInfo {
    /// Key in scenarios.
    pub name: &'static str,
    /// What its text looks like: number, integer, time, rate, size, flag or choice.
    pub kind: &'static str,
    /// Units that its text carries; null where it carries none.
    pub unit: Option<&'static str>,
    /// Default, as a scenario would write it.
    pub default: Json,
    /// Smallest allowed value, where there is one.
    pub min: Option<Json>,
    /// Largest allowed value, where there is one.
    pub max: Option<Json>,
    /// Allowed values of a choice.
    pub choices: Vec<&'static str>,
    /// What it is.
    pub meaning: String,
    /// Where the default comes from.
    pub source: &'static str,
}

/// Every protocol, in the order of the catalog.
pub fn protocols() -> Vec<ProtocolEntry> {
    Protocol::ALL.iter().copied().map(describe).collect()
}

/// Those that run on any fabric: they do not need circuits, which no other can stand for.
#[cfg(test)]
pub(crate) fn anywhere() -> impl Iterator<Item = ProtocolEntry> {
    protocols().into_iter().filter(|info| !info.needs.contains(&Need::Circuits.name()))
}

/// The protocol of that name.
///
/// # Errors
/// When there is none: a message that names the nearest, and all of them.
pub fn protocol(name: &str) -> Result<ProtocolEntry, crate::Error> {
    let usage = |message| crate::Error::Usage { option: "protocols", message };
    find(name).map(describe).map_err(usage)
}

/// The protocol of that name, or why there is none.
pub(crate) fn find(name: &str) -> Result<Protocol, String> {
    Protocol::named(name).ok_or_else(|| {
        let names = || Protocol::ALL.iter().map(|protocol| protocol.info().name);
        if name == "all" {
            let all = names().collect::<Vec<_>>().join(",");
            return format!("`all` is no protocol; all of them are {all}");
        }
        let hint = nearest(name, names());
        let known = names().collect::<Vec<_>>().join(", ");
        format!("there is no protocol `{name}`{hint}; there are {known}")
    })
}

/// ` (did you mean …?)`, where a known name is near to one that is not.
pub(crate) fn nearest<'a>(name: &str, known: impl Iterator<Item = &'a str>) -> String {
    let name = name.to_lowercase();
    let near = known.map(|known| (strsim::osa_distance(&name, known), known)).min();
    let near = near.filter(|(distance, _)| *distance <= 2);
    near.map(|(_, known)| format!(" (did you mean `{known}`?)")).unwrap_or_default()
}

fn describe(protocol: Protocol) -> ProtocolEntry {
    let info = protocol.info();
    let requirements = protocol.stack().requirements(&usual(Rate::gbps(100)));
    let bytes =
        |of: tidegate_core::TelemetryBytes| TelemetryBytes { fixed: of.fixed, per_hop: of.per_hop };
    ProtocolEntry {
        name: info.name,
        title: info.title,
        family: protocol.family(),
        summary: info.summary,
        citation: info.citation,
        color: info.color,
        marker: info.marker.name(),
        dash: info.dash.name(),
        needs: requirements.needs().map(Need::name).collect(),
        marking: requirements.ecn.map(|marking| marking.to_string()),
        telemetry_bytes: bytes(info.telemetry_bytes),
        echo_bytes: bytes(info.echo_bytes),
        parameters: protocol.table().into_iter().map(parameter).collect(),
        outside_domain: outside_domain(protocol),
    }
}

fn parameter(info: Info) -> ParameterInfo {
    let (kind, unit) = match info.kind {
        Kind::Number => ("number", None),
        Kind::Integer => ("integer", None),
        Kind::Span => ("time", Some("ps, ns, us, ms, s")),
        Kind::Rate => ("rate", Some("bps, kbps, Mbps, Gbps, Tbps")),
        Kind::Extent => ("size", Some("B, KB, MB, KiB, MiB, BDP")),
        Kind::Flag => ("flag", None),
        Kind::Choice(_) => ("choice", None),
        Kind::Sizes => ("list of sizes", Some("B, KB, MB, KiB, MiB")),
    };
    let (min, max) = info.range.map(|bounds| (json(bounds.min), json(bounds.max))).unzip();
    let choices = if let Kind::Choice(names) = info.kind { names.to_vec() } else { Vec::new() };
    ParameterInfo {
        name: info.name,
        kind,
        unit,
        default: json(info.default),
        min,
        max,
        choices,
        meaning: info.meaning,
        source: info.source,
    }
}

/// A value as a scenario would write it.
fn json(value: Value) -> Json {
    match value {
        Value::Number(x) => {
            serde_json::Number::from_f64(x).map_or_else(|| x.to_string().into(), Json::from)
        }
        Value::Integer(x) => x.into(),
        Value::Flag(x) => x.into(),
        Value::Sizes(x) => x.as_slice().iter().map(|bytes| format!("{bytes}B")).collect(),
        Value::Span(_) | Value::Rate(_) | Value::Extent(_) | Value::Choice(_) => {
            value.to_string().into()
        }
    }
}

/// A fabric of one rate, with paths of 10 µs over three switches.
fn usual(rate: Rate) -> FabricProperties {
    let base_rtt = Span::us(10);
    FabricProperties {
        bdp_bytes: rate.bytes_in(base_rtt) as f64,
        base_rtt,
        host_rate: rate,
        slowest: rate,
        fastest: rate,
        mtu: 4096,
        hops: 3,
    }
}

/// What the protocol says of its default parameters on such paths, at usual rates.
fn outside_domain(protocol: Protocol) -> Vec<String> {
    let warning = |gbps: u64| {
        let rate = Rate::gbps(gbps);
        let path = usual(rate).path();
        let warning =
            protocol.stack().operating_point(&path, rate.as_bps() as f64).domain_warning?;
        Some(format!("on a path of {} at {rate}: {warning}", path.base_rtt))
    };
    [10, 25, 100, 200, 400].into_iter().filter_map(warning).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_protocol_is_described_and_found_by_name() {
        for info in protocols() {
            assert_eq!(protocol(info.name).unwrap().title, info.title);
            assert!(!info.summary.is_empty() && !info.citation.is_empty(), "{}", info.name);
            for parameter in info.parameters {
                let full = !parameter.meaning.is_empty() && !parameter.source.is_empty();
                assert!(full, "{} of {} lacks a meaning or a source", parameter.name, info.name);
                assert_eq!(parameter.kind == "choice", !parameter.choices.is_empty());
            }
        }
    }

    #[test]
    fn an_unknown_name_is_answered_with_the_nearest() {
        let known = Protocol::ALL[0].info().name;
        let message = find(&format!("{known}x")).unwrap_err();
        assert!(message.contains(&format!("did you mean `{known}`?")), "{message}");
        let message = find(&known.to_uppercase()).unwrap_err();
        assert!(message.contains(&format!("did you mean `{known}`?")), "{message}");
        assert!(!find("nothing like it at all").unwrap_err().contains("did you mean"));
    }
}
