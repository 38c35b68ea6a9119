//! `switch.pfc`: switches that pause their neighbours (priority flow control).

use serde_json::{Value as Json, json};
use tidegate_core::fabric::{Buffer, Fabric, Headroom, Pausing, Switch};

use crate::error::Error;
use crate::read::check;
use crate::read::keys::{Default, Key, Optional, Shape, key};
use crate::read::table::{Or, Table, Word};
use crate::read::tree::Node;

const BYTES: Shape = Shape::Bytes { min: 0, max: 4_000_000_000 };

/// Keys of the table.
pub(crate) static KEYS: &[Key] = &[
    key(
        "alpha",
        Shape::Number { min: 0.001, max: 1_000.0 },
        Default("0.125"),
        "Pause threshold: the switch pauses a class of a neighbour when that class holds, beyond \
         its reserve at the ingress port, alpha times the free shared buffer.",
    ),
    key(
        "reserved",
        BYTES,
        Default("4096B"),
        "Buffer reserved for each class at each ingress port.",
    ),
    key(
        "headroom",
        Shape::Or(&["round-trip", "three-delays"], &BYTES),
        Default("round-trip"),
        "Buffer reserved for each class at each ingress port for packets that arrive after a pause \
         frame is sent. round-trip: the bytes that the link carries in a round trip, plus three of \
         the largest packets and the pause frames. three-delays: the bytes that the link carries \
         in three times its delay, as in simulators of RDMA. Or a size.",
    ),
    key(
        "headroom_place",
        Shape::Word(&["within-buffer", "on-top"]),
        Optional,
        "Where the headroom is: a part of the switch's buffer, so that the shared pool is what \
         headroom and reserve leave of it (within-buffer, unless set), or memory beside it, so \
         that only the reserve is taken from the buffer (on-top).",
    ),
    key(
        "resume_offset",
        BYTES,
        Default("3072B"),
        "Distance below the threshold at which the neighbour resumes: its bytes above the reserve \
         plus this are at most the threshold, or none are above the reserve. Its headroom must be \
         empty in either case.",
    ),
    key(
        "classes",
        Shape::Count { min: 1, max: 8 },
        Default("1"),
        "Number of priorities that pause, from the lowest: 1 is data only. Packets of higher \
         priorities use the shared buffer and are dropped if it is full.",
    ),
];

/// PFC setting of a switch.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum PfcSetting {
    Unset,
    Off,
    /// The number of the override that sets it; `None`: `[switch]`.
    On(Option<usize>),
}

/// Reads the table. The largest packet has `packet_bytes` on the wire.
fn pausing(table: &Table, packet_bytes: u32) -> Pausing {
    Pausing {
        classes: ((1u16 << table.get::<u64>("classes")) - 1) as u8,
        alpha: table.get("alpha"),
        reserved_bytes: table.get::<u64>("reserved") as u32,
        headroom: match table.get::<Or<u64>>("headroom") {
            Or::Word("three-delays") => Headroom::ThreeDelays,
            Or::Word(_) => Headroom::RoundTrip { packet_bytes },
            Or::Value(bytes) => Headroom::Bytes(bytes as u32),
        },
        headroom_on_top: table.find::<Word>("headroom_place") == Some(Word("on-top")),
        resume_offset_bytes: table.get::<u64>("resume_offset") as u32,
    }
}

/// Resolves PFC of all switches. A switch with a limited buffer uses the setting of the scenario,
/// or, if there is none and `requiring` names a protocol, the default. The largest packet has
/// `packet_bytes` on the wire.
pub(crate) fn resolve(
    table: &Table,
    fabric: &mut Fabric,
    setting: &[PfcSetting],
    requiring: Option<&str>,
    packet_bytes: u32,
    warnings: &mut Vec<String>,
) -> Result<(), Error> {
    refuse_beside_circuits(table, fabric, setting, requiring)?;
    let levels = fabric.switches.iter().map(|switch| switch.priorities).min().unwrap_or(1);
    let limited = |switch: &Switch| switch.buffer != Buffer::Unlimited;
    // A protocol requires PFC of a scenario without the key.
    let defaults = check::table(Node::default("{}"), const { &[KEYS] }, "switch.pfc")?;
    let mut warned = false;
    for (switch, setting) in fabric.switches.iter_mut().zip(setting) {
        let pausing = match (setting, requiring) {
            _ if !limited(switch) => continue,
            (PfcSetting::Off, Some(name)) => {
                if !std::mem::replace(&mut warned, true) {
                    warnings.push(format!(
                        "{name} expects a lossless fabric, but switch.pfc is \"off\""
                    ));
                }
                continue;
            }
            (PfcSetting::Off, None) | (PfcSetting::Unset, None) => continue,
            (PfcSetting::Unset, Some(_)) => pausing(&defaults, packet_bytes),
            (PfcSetting::On(_), _) => match of(table, setting).get("pfc") {
                Or::Value(set) => pausing(set, packet_bytes),
                Or::Word(_) => continue,
            },
        };
        let classes = pausing.classes.count_ones();
        if classes > levels as u32 {
            let found = format!("{classes} classes with PFC");
            let expected =
                format!("at most {levels}, the smallest number of priorities at a switch");
            return Err(of(table, setting).error_found("pfc", found, expected));
        }
        switch.pausing =
            Some(Pausing { classes: pausing.classes << (levels as u32 - classes), ..pausing });
    }
    for ((switch, setting), kept) in fabric.switches.iter().zip(setting).zip(fabric.kept_bytes()) {
        let Buffer::Shared { bytes, .. } = switch.buffer else { continue };
        let Some(pausing) = switch.pausing else { continue };
        if kept >= bytes {
            let what = if pausing.headroom_on_top { "reserve" } else { "headroom and reserve" };
            let found = format!("{kept}B of PFC {what} at {}", switch.name);
            let advice = match (setting, requiring) {
                (PfcSetting::Unset, Some(name)) => {
                    format!(" ({name} requires PFC): increase switch.buffer")
                }
                _ => ": increase buffer, or reduce headroom and reserved".to_owned(),
            };
            let expected = format!("less than its buffer of {bytes}B{advice}");
            return Err(of(table, setting).error_found("pfc", found, expected));
        }
        let Headroom::Bytes(headroom) = pausing.headroom else { continue };
        let pool = (pausing.alpha * (bytes - kept) as f64) as u64;
        let room = pool.max(headroom.max(pausing.reserved_bytes) as u64);
        if room < packet_bytes as u64 {
            let found = format!("reserve, share of the pool and headroom each below {}B", room + 1);
            let expected =
                format!("one of them to be at least {packet_bytes}B, the size of a full packet");
            return Err(of(table, setting).error_found("pfc", found, expected));
        }
    }
    Ok(())
}

/// # Errors
/// Refuses PFC in a fabric with circuits: the queues for other racks do not support pauses.
fn refuse_beside_circuits(
    table: &Table,
    fabric: &Fabric,
    setting: &[PfcSetting],
    requiring: Option<&str>,
) -> Result<(), Error> {
    let pauses = |(switch, setting): (&Switch, &PfcSetting)| match (setting, requiring) {
        _ if switch.buffer == Buffer::Unlimited => None,
        (PfcSetting::On(..), _) => Some(
            of(table, setting)
                .error("pfc", "\"off\": PFC is not supported in a fabric with circuits"),
        ),
        (PfcSetting::Unset, Some(name)) => Some(table.error_found(
            "buffer",
            format!("limited buffers, with which {name} requires PFC"),
            "\"unlimited\", or switch.pfc = \"off\": PFC is not supported in a fabric with \
             circuits",
        )),
        _ => None,
    };
    let mut refused = fabric.switches.iter().zip(setting).filter_map(pauses);
    match fabric.circuits.as_ref().and_then(|_| refused.next()) {
        Some(error) => Err(error),
        None => Ok(()),
    }
}

/// Returns the table that contains the setting.
fn of<'a>(table: &'a Table, setting: &PfcSetting) -> &'a Table {
    match setting {
        &PfcSetting::On(Some(change)) => &table.tables("override")[change],
        _ => table,
    }
}

/// PFC settings as a table of a scenario.
pub(crate) fn json(pausing: Pausing) -> Json {
    let mut json = json!({
        "alpha": pausing.alpha,
        "reserved": format!("{}B", pausing.reserved_bytes),
        "headroom": match pausing.headroom {
            Headroom::RoundTrip { .. } => "round-trip".to_owned(),
            Headroom::ThreeDelays => "three-delays".to_owned(),
            Headroom::Bytes(bytes) => format!("{bytes}B"),
        },
        "resume_offset": format!("{}B", pausing.resume_offset_bytes),
        "classes": pausing.classes.count_ones(),
    });
    if pausing.headroom_on_top {
        json["headroom_place"] = json!("on-top");
    }
    json
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::read::tree::Source;

    /// Whether each switch has PFC, and the number of warnings, under a protocol that may require
    /// PFC.
    fn resolved(switch: &str, requiring: Option<&str>) -> Result<(Vec<bool>, usize), String> {
        let text = format!(
            "duration = '1ms'\nfabric = {{ kind = 'parking-lot', switches = 2 }}\nswitch = {{ \
             {switch} }}\ntransport = {{ protocol = 'swift' }}\nflows = [{{ src = 'h0', dst = 'h1' \
             }}]"
        );
        let document = Node::document(&Source::file("x.toml", &text)).unwrap();
        let root = check::table(document, crate::compile::scenario::ROOT, "").unwrap();
        let (table, fabric): (&Table, &Table) = (root.get("switch"), root.get("fabric"));
        let topology = crate::compile::fabric::topology(fabric).unwrap();
        let mut configured = crate::compile::switch::configure(table, topology, 1000).unwrap();
        let mut warnings = Vec::new();
        let setting = &configured.pfc;
        resolve(table, &mut configured.fabric, setting, requiring, 1080, &mut warnings)
            .map_err(|error| error.to_string())?;
        let pauses = configured.fabric.switches.iter().map(|switch| switch.pausing.is_some());
        Ok((pauses.collect(), warnings.len()))
    }

    #[test]
    fn protocols_get_pfc_unless_the_scenario_disables_it() {
        let some = |switch: &str| resolved(switch, Some("one"));
        assert_eq!(resolved("buffer = '1MB'", None), Ok((vec![false; 2], 0)));
        assert_eq!(some("buffer = '1MB'"), Ok((vec![true; 2], 0)));
        // Switches with unlimited buffers drop nothing.
        assert_eq!(some(""), Ok((vec![false; 2], 0)));
        assert_eq!(some("buffer = '1MB', pfc = 'off'"), Ok((vec![false; 2], 1)));
        let partly = "buffer = '1MB', override = [{ match = 'tor1', pfc = 'off' }]";
        assert_eq!(some(partly), Ok((vec![true, false], 1)));
        let message = some("buffer = '90KB'").unwrap_err();
        let text = "switch.pfc: found 97260B of PFC headroom and reserve at tor0, expected less \
                    than its buffer of 90000B (one requires PFC)";
        assert!(message.contains(text), "{message}");
    }

    #[test]
    fn pfc_with_circuits_is_refused() {
        let load = |protocol: &str, switch: &str| {
            let text = format!(
                "duration = '1ms'\nfabric = {{ kind = 'reconfigurable', racks = 2 }}\nflows = [{{ \
                 src = 'h0', dst = 'h4' }}]\ntransport = {{ protocol = '{protocol}' }}\n\
                 [switch]\n{switch}"
            );
            let plan = crate::load(&text, "x.toml", &[]);
            let pauses = |warning: &&String| warning.contains("pfc");
            plan.map(|plan| plan.warnings.iter().filter(pauses).count())
                .map_err(|error| error.to_string())
        };
        let small = "buffer = '4MB'";
        // A protocol that requires PFC runs without it if nothing is dropped, or if the scenario
        // disables it.
        assert_eq!(load("swift", small), Ok(0));
        assert_eq!(load("timely", "telemetry = true"), Ok(0));
        assert_eq!(load("timely", &format!("{small}\npfc = 'off'")), Ok(1));
        let over = "override = [{ match = 'core0', buffer = '4MB', pfc = {} }]";
        for (protocol, switch, setting) in [
            (
                "swift",
                "buffer = '4MB'\npfc = {}",
                "x.toml:7: switch.pfc: found a table, expected \"off\"",
            ),
            ("swift", over, "x.toml:6: switch.override[0].pfc: found a table, expected \"off\""),
            ("timely", small, "x.toml:6: switch.buffer: found limited buffers, with which timely"),
        ] {
            let message = load(protocol, switch).unwrap_err();
            assert!(message.starts_with(setting), "{message}");
        }
    }
}
