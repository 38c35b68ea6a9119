//! `switch.pfc`: switches that pause who sends to them.

use serde_json::{Value as Json, json};
use tidegate_core::fabric::{Buffer, Fabric, Headroom, Pausing, Switch};

use crate::error::Error;
use crate::read::keys::{Default, Key, Optional, Shape, key};
use crate::read::table::{Or, Table, Word};

const BYTES: Shape = Shape::Bytes { min: 0, max: 4_000_000_000 };

/// Keys of the table.
pub(crate) static KEYS: &[Key] = &[
    key(
        "alpha",
        Shape::Number { min: 0.001, max: 1_000.0 },
        Default("0.125"),
        "A sender pauses when the switch holds of what came in by its port, of a class and beyond \
         the reserve, this times what is free of the shared buffer.",
    ),
    key(
        "reserved",
        BYTES,
        Default("4096B"),
        "What every port that leads in may have held, of a class, whatever others do.",
    ),
    key(
        "headroom",
        Shape::Or(&["round-trip", "three-delays"], &BYTES),
        Default("round-trip"),
        "Kept at every port that leads in, for each class, for what still comes after a pause is \
         sent: what a link carries in a round trip, with three of the largest packets and the \
         pauses; or in three times its delay, as simulators of RDMA have it; or so much.",
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
        "The sender goes on when so much below the threshold is held.",
    ),
    key(
        "classes",
        Shape::Count { min: 1, max: 8 },
        Default("1"),
        "So many of the lowest priorities pause: 1 is data alone. What is above takes from the \
         shared buffer, and is dropped where that is full.",
    ),
];

/// What a scenario says of a switch's pauses.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum PfcSetting {
    Nothing,
    Off,
    /// The number of the override that says so, if one does.
    On(Pausing, Option<usize>),
}

/// Before priorities and packets of the fabric are known: classes from the lowest priority on, and
/// packets of no size.
const UNSETTLED: Headroom = Headroom::RoundTrip { packet_bytes: 0 };

/// Where the scenario says nothing and a protocol wants it.
const USUAL: Pausing = Pausing {
    classes: 1,
    alpha: 0.125,
    reserved_bytes: 4_096,
    headroom: UNSETTLED,
    headroom_on_top: false,
    resume_offset_bytes: 3_072,
};

/// Reads the table.
pub(crate) fn pausing(table: &Table) -> Pausing {
    Pausing {
        classes: ((1u16 << table.get::<u64>("classes")) - 1) as u8,
        alpha: table.get("alpha"),
        reserved_bytes: table.get::<u64>("reserved") as u32,
        headroom: match table.get::<Or<u64>>("headroom") {
            Or::Word("three-delays") => Headroom::ThreeDelays,
            Or::Word(_) => UNSETTLED,
            Or::Value(bytes) => Headroom::Bytes(bytes as u32),
        },
        headroom_on_top: table.find::<Word>("headroom_place") == Some(Word("on-top")),
        resume_offset_bytes: table.get::<u64>("resume_offset") as u32,
    }
}

/// Settles who pauses: as the scenario says, or where it says nothing and `wanting` names a
/// protocol, every switch with a limited buffer. The largest packet has `packet_bytes` on the wire.
pub(crate) fn resolve(
    table: &Table,
    fabric: &mut Fabric,
    setting: &[PfcSetting],
    wanting: Option<&str>,
    packet_bytes: u32,
    warnings: &mut Vec<String>,
) -> Result<(), Error> {
    refuse_beside_circuits(table, fabric, setting, wanting)?;
    let levels = fabric.switches.iter().map(|switch| switch.priorities).min().unwrap_or(1);
    let limited = |switch: &Switch| switch.buffer != Buffer::Unlimited;
    let mut warned = false;
    for (switch, setting) in fabric.switches.iter_mut().zip(setting) {
        let pausing = match (setting, wanting) {
            _ if !limited(switch) => continue,
            (PfcSetting::Off, Some(name)) => {
                if !std::mem::replace(&mut warned, true) {
                    warnings.push(format!(
                        "{name} is meant for a fabric that drops nothing, but switch.pfc is \
                         \"off\""
                    ));
                }
                continue;
            }
            (PfcSetting::Off, None) | (PfcSetting::Nothing, None) => continue,
            (PfcSetting::Nothing, Some(_)) => USUAL,
            (&PfcSetting::On(pausing, _), _) => pausing,
        };
        let classes = pausing.classes.count_ones();
        if classes > levels as u32 {
            let found = format!("{classes} classes that pause");
            let expected = format!("at most the priorities of every switch, {levels}");
            return Err(of(table, setting).error_found("pfc", found, expected));
        }
        switch.pausing = Some(Pausing {
            classes: pausing.classes << (levels as u32 - classes),
            headroom: match pausing.headroom {
                Headroom::RoundTrip { .. } => Headroom::RoundTrip { packet_bytes },
                other => other,
            },
            ..pausing
        });
    }
    for ((switch, setting), kept) in fabric.switches.iter().zip(setting).zip(fabric.kept_bytes()) {
        let Buffer::Shared { bytes, .. } = switch.buffer else { continue };
        let Some(pausing) = switch.pausing else { continue };
        if kept >= bytes {
            let what = if pausing.headroom_on_top { "reserve" } else { "headroom and reserve" };
            let found = format!("{kept}B of {what} at {}", switch.name);
            let who = match (setting, wanting) {
                (PfcSetting::Nothing, Some(name)) => format!(" ({name} needs pauses)"),
                _ => String::new(),
            };
            let expected = format!("less than its buffer of {bytes}B{who}");
            return Err(of(table, setting).error_found("pfc", found, expected));
        }
        let Headroom::Bytes(headroom) = pausing.headroom else { continue };
        let pool = (pausing.alpha * (bytes - kept) as f64) as u64;
        let room = pool.max(headroom.max(pausing.reserved_bytes) as u64);
        if room < packet_bytes as u64 {
            let found = format!("reserve, share of the pool and headroom below {}B each", room + 1);
            let expected = format!("one of them for a full packet, {packet_bytes}B");
            return Err(of(table, setting).error_found("pfc", found, expected));
        }
    }
    Ok(())
}

/// # Errors
/// Switches that would pause beside circuits: the queues of racks cannot stand still.
fn refuse_beside_circuits(
    table: &Table,
    fabric: &Fabric,
    setting: &[PfcSetting],
    wanting: Option<&str>,
) -> Result<(), Error> {
    let pauses = |(switch, setting): (&Switch, &PfcSetting)| match (setting, wanting) {
        _ if switch.buffer == Buffer::Unlimited => None,
        (PfcSetting::On(..), _) => Some(of(table, setting).error("pfc", "\"off\" beside circuits")),
        (PfcSetting::Nothing, Some(name)) => Some(table.error_found(
            "buffer",
            format!("limited buffers, for which {name} needs pauses"),
            "\"unlimited\" beside circuits, or switch.pfc = \"off\"",
        )),
        _ => None,
    };
    let mut refused = fabric.switches.iter().zip(setting).filter_map(pauses);
    match fabric.circuits.as_ref().and_then(|_| refused.next()) {
        Some(error) => Err(error),
        None => Ok(()),
    }
}

/// The table that says it.
fn of<'a>(table: &'a Table, setting: &PfcSetting) -> &'a Table {
    match setting {
        &PfcSetting::On(_, Some(change)) => &table.tables("override")[change],
        _ => table,
    }
}

/// As a scenario would say it.
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
    use crate::read::tree::{Node, Source};

    /// Who pauses, and what is warned of, where a protocol may want it.
    fn resolved(switch: &str, wanting: Option<&str>) -> Result<(Vec<bool>, usize), String> {
        let text = format!(
            "duration = '1ms'\nfabric = {{ kind = 'parking-lot', switches = 2 }}\nswitch = {{ \
             {switch} }}\ntransport = {{ protocol = 'swift' }}\nflows = [{{ src = 'h0', dst = 'h1' \
             }}]"
        );
        let document = Node::document(&Source::file("x.toml", &text)).unwrap();
        let root = crate::read::check::table(document, crate::compile::scenario::ROOT, "").unwrap();
        let (table, fabric): (&Table, &Table) = (root.get("switch"), root.get("fabric"));
        let topology = crate::compile::fabric::topology(fabric).unwrap();
        let mut equipped = crate::compile::switch::equip(table, topology, 1000).unwrap();
        let mut warnings = Vec::new();
        let setting = &equipped.pfc;
        resolve(table, &mut equipped.fabric, setting, wanting, 1080, &mut warnings)
            .map_err(|error| error.to_string())?;
        let pauses = equipped.fabric.switches.iter().map(|switch| switch.pausing.is_some());
        Ok((pauses.collect(), warnings.len()))
    }

    #[test]
    fn a_protocol_gets_what_it_wants_unless_the_scenario_says_no() {
        let some = |switch: &str| resolved(switch, Some("one"));
        assert_eq!(resolved("buffer = '1MB'", None), Ok((vec![false; 2], 0)));
        assert_eq!(some("buffer = '1MB'"), Ok((vec![true; 2], 0)));
        // Nothing is dropped there anyway.
        assert_eq!(some(""), Ok((vec![false; 2], 0)));
        assert_eq!(some("buffer = '1MB', pfc = 'off'"), Ok((vec![false; 2], 1)));
        let partly = "buffer = '1MB', override = [{ match = 'tor1', pfc = 'off' }]";
        assert_eq!(some(partly), Ok((vec![true, false], 1)));
        let message = some("buffer = '90KB'").unwrap_err();
        let text = "switch.pfc: found 97260B of headroom and reserve at tor0, expected less than \
                    its buffer of 90000B (one needs pauses)";
        assert!(message.contains(text), "{message}");
    }

    #[test]
    fn pauses_beside_circuits_are_refused_by_place() {
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
        // Who wants pauses does without where nothing is dropped, or the scenario says so.
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
            ("timely", small, "x.toml:6: switch.buffer: found limited buffers, for which timely"),
        ] {
            let message = load(protocol, switch).unwrap_err();
            assert!(message.starts_with(setting), "{message}");
        }
    }
}
