//! Descriptions of all protocols.

use serde::Serialize;
use serde_json::{Map, Value as Json};
use tidegate_algos::Protocol;
use tidegate_core::params::{Info, Kind, Value};
use tidegate_core::{FabricProperties, Need, Rate, Span};
use tidegate_scenario::Preset;

/// A protocol.
#[derive(Clone, Debug, Serialize)]
pub struct ProtocolEntry {
    /// Name in scenarios.
    pub name: &'static str,
    /// Name in papers.
    pub title: &'static str,
    /// Kind of protocol: a congestion control or a receiver-driven transport.
    pub family: &'static str,
    /// Its mechanism, in one sentence.
    pub summary: &'static str,
    /// Version of its rules under this version of the engine's semantics.
    pub revision: u32,
    /// Its publication.
    pub citation: &'static str,
    /// Colour in plots.
    pub color: &'static str,
    /// Marker in plots.
    pub marker: &'static str,
    /// Line style in plots.
    pub dash: &'static str,
    /// Fabric requirements.
    pub needs: Vec<&'static str>,
    /// The marking that it needs from switches, as text; null if it needs none.
    pub marking: Option<String>,
    /// Telemetry bytes in a data packet.
    pub telemetry_bytes: TelemetryBytes,
    /// Telemetry bytes that an acknowledgement echoes.
    pub echo_bytes: TelemetryBytes,
    /// Its parameters.
    pub parameters: Vec<ParameterInfo>,
    /// Its presets: the defaults first.
    pub presets: Vec<PresetInfo>,
    /// Common paths on which its defaults are outside its design range.
    pub outside_domain: Vec<String>,
}

/// Bytes of telemetry on the wire.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct TelemetryBytes {
    /// Bytes in every packet.
    pub fixed: u16,
    /// Bytes for every switch on the path.
    pub per_hop: u16,
}

/// A named set of parameters.
#[derive(Clone, Debug, Serialize)]
pub struct PresetInfo {
    /// Name in scenarios.
    pub name: String,
    /// Its source; empty for the defaults.
    pub source: String,
    /// The parameters that it sets, as written in a scenario. Others have their defaults.
    pub parameters: Map<String, Json>,
}

/// A parameter of a protocol.
#[derive(Clone, Debug, Serialize)]
pub struct ParameterInfo {
    /// Key in scenarios.
    pub name: &'static str,
    /// Type of its value: number, integer, time, rate, size, flag or choice.
    pub kind: &'static str,
    /// Unit of its value; null if it has none.
    pub unit: Option<&'static str>,
    /// Default, as written in a scenario.
    pub default: Json,
    /// Smallest allowed value, if any.
    pub min: Option<Json>,
    /// Largest allowed value, if any.
    pub max: Option<Json>,
    /// Allowed values of a choice.
    pub choices: Vec<&'static str>,
    /// Conditions, such as `plb = "rounds"`. If one does not hold, it has no effect.
    pub needs: Vec<String>,
    /// Its meaning.
    pub meaning: String,
    /// Source of the default.
    pub source: &'static str,
}

/// All protocols, in the order of the catalog.
pub fn protocols() -> Vec<ProtocolEntry> {
    Protocol::ALL.iter().copied().map(describe).collect()
}

/// Returns the protocol of that name.
///
/// # Errors
/// When there is none. The message suggests the nearest name and lists all.
pub fn protocol(name: &str) -> Result<ProtocolEntry, crate::Error> {
    let usage = |message| crate::Error::Usage { option: "protocols", message };
    find(name).map(describe).map_err(usage)
}

/// Returns the protocol of that name, or an error message.
pub(crate) fn find(name: &str) -> Result<Protocol, String> {
    Protocol::named(name).ok_or_else(|| {
        let names = || Protocol::ALL.iter().map(|protocol| protocol.info().name);
        if name == "all" {
            let all = names().collect::<Vec<_>>().join(",");
            return format!("`all` is not a protocol; the protocols are {all}");
        }
        let hint = nearest(name, names());
        let known = names().collect::<Vec<_>>().join(", ");
        format!("unknown protocol `{name}`{hint}; expected one of {known}")
    })
}

/// ` (did you mean …?)` with the nearest known name, if one is similar.
pub fn nearest<'a>(name: &str, known: impl Iterator<Item = &'a str>) -> String {
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
        revision: info.revision,
        citation: info.citation,
        color: info.color,
        marker: info.marker.name(),
        dash: info.dash.name(),
        needs: requirements.needs().map(Need::name).collect(),
        marking: requirements.ecn.map(|marking| marking.to_string()),
        telemetry_bytes: bytes(info.telemetry_bytes),
        echo_bytes: bytes(info.echo_bytes),
        parameters: protocol.table().into_iter().map(parameter).collect(),
        presets: tidegate_scenario::presets(protocol).into_iter().map(preset).collect(),
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
        needs: info.needs.iter().map(ToString::to_string).collect(),
        meaning: info.meaning(),
        source: info.source,
    }
}

fn preset(preset: Preset) -> PresetInfo {
    let Preset { name, source, parameters } = preset;
    let parameters = parameters.into_iter().map(|(name, value)| (name.to_owned(), json(value)));
    PresetInfo { name, source, parameters: parameters.collect() }
}

/// A value as written in a scenario.
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
        ports: 1,
    }
}

/// Warnings of the protocol about its default parameters on such paths, at usual rates.
fn outside_domain(protocol: Protocol) -> Vec<String> {
    let warning = |gbps: u64| {
        let rate = Rate::gbps(gbps);
        let path = usual(rate).path();
        let warning =
            protocol.stack().operating_point(&path, rate.as_bps() as f64).domain_warning()?;
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
    fn an_unknown_name_suggests_the_nearest() {
        let known = Protocol::ALL[0].info().name;
        let message = find(&format!("{known}x")).unwrap_err();
        assert!(message.contains(&format!("did you mean `{known}`?")), "{message}");
        let message = find(&known.to_uppercase()).unwrap_err();
        assert!(message.contains(&format!("did you mean `{known}`?")), "{message}");
        assert!(!find("nothing like it at all").unwrap_err().contains("did you mean"));
    }
}
