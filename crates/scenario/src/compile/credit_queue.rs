//! `switch.credit_queue`: queues for credits at the ports of all switches.

use serde_json::{Value as Json, json};
use tidegate_core::fabric::{CreditQueue, Fabric};
use tidegate_core::{HEADER_BYTES, MIN_WIRE_BYTES};

use crate::error::Error;
use crate::read::keys::{Key, Optional, Shape, key};
use crate::read::table::{Or, Table};

/// A size of at least one credit.
const BYTES: Shape = Shape::Bytes { min: MIN_WIRE_BYTES as u64, max: 1_000_000 };

/// Keys of the table.
pub(crate) static KEYS: &[Key] = &[
    key(
        "share",
        Shape::Number { min: 0.001, max: 0.5 },
        Optional,
        "Share of the link rate that credits may use. Default: the share that the running \
         protocols require, or else that of a credit of 84 bytes per full packet.",
    ),
    key(
        "bytes",
        BYTES,
        Optional,
        "Capacity of the credit queue of a port; further credits are dropped. Must hold the \
         longest credit of the running protocols. Default: the capacity that they require, or else \
         672B.",
    ),
    key(
        "burst",
        BYTES,
        Optional,
        "Depth of the token bucket: the burst of credits that may leave after an idle time. Must \
         hold the longest credit of the running protocols. Default: the depth that they require, \
         or else 168B.",
    ),
];

/// Resolves the credit queues of all ports: the setting of the scenario, or else the queues that
/// the running protocols require. A fabric that cannot have credit queues gets none; that is an
/// error if the scenario sets them. `Requirements::check_needs` reports protocols that need them.
pub(crate) fn resolve(
    table: &Table,
    fabric: &mut Fabric,
    required: Option<CreditQueue>,
) -> Result<(), Error> {
    let exclusion = exclusion(fabric);
    let queue = match table.find::<Or<&Table>>("credit_queue") {
        Some(Or::Word(_)) => None,
        Some(Or::Value(set)) => {
            if let Some(exclusion) = exclusion {
                return Err(table.error(
                    "credit_queue",
                    format!("\"off\": credit queues are not supported {exclusion}"),
                ));
            }
            Some(read(set, required.unwrap_or_else(|| default(fabric.mtu))))
        }
        None => required.filter(|_| exclusion.is_none()),
    };
    fabric.switches.iter_mut().for_each(|switch| switch.credit_queue = queue);
    Ok(())
}

/// Reads the credit queues of live switches, which know no protocol: the scenario must set the
/// share.
pub(crate) fn alone(table: &Table) -> Result<Option<CreditQueue>, Error> {
    match table.find::<Or<&Table>>("credit_queue") {
        Some(Or::Value(set)) if set.item("share").is_none() => Err(set
            .error("share", "the share of the link rate that credits may use, from 0.001 to 0.5")),
        // The MTU affects only the share, which is set.
        Some(Or::Value(set)) => Ok(Some(read(set, default(0)))),
        Some(Or::Word(_)) | None => Ok(None),
    }
}

/// Refuses a queue or a token bucket smaller than the longest credit, which could never pass.
/// `largest` is the size of the longest credit of the running protocols, and the protocol that
/// sends it.
pub(crate) fn check_room(table: &Table, largest: Option<(u32, String)>) -> Result<(), Error> {
    let set = table.find::<Or<&Table>>("credit_queue");
    let (Some(Or::Value(set)), Some((bytes, sender))) = (set, largest) else { return Ok(()) };
    let too_small = |key: &&str| set.find::<u64>(key).is_some_and(|size| size < u64::from(bytes));
    match ["bytes", "burst"].into_iter().find(too_small) {
        Some(key) => Err(set
            .error(key, format!("at least {bytes}B, the size of the longest credit of {sender}"))),
        None => Ok(()),
    }
}

/// Whether the scenario sets all keys of the credit queues.
pub(crate) fn is_whole(switch: &Table) -> bool {
    match switch.find::<Or<&Table>>("credit_queue") {
        Some(Or::Word(_)) => true,
        Some(Or::Value(set)) => KEYS.iter().all(|key| set.item(key.name).is_some()),
        None => false,
    }
}

/// Setting of the fabric that excludes credit queues, for messages.
fn exclusion(fabric: &Fabric) -> Option<&'static str> {
    if fabric.circuits.is_some() {
        return Some("in a fabric with circuits");
    }
    let pauses = fabric.switches.iter().any(|switch| switch.pausing.is_some());
    pauses.then_some("together with PFC (switch.pfc)")
}

/// Default without requirements: a queue of eight credits of the smallest size, and bursts of two.
fn default(mtu: u32) -> CreditQueue {
    let (credit, full) = (f64::from(MIN_WIRE_BYTES), f64::from(mtu + HEADER_BYTES));
    CreditQueue { share: credit / (credit + full), bytes: 672, burst_bytes: 168 }
}

fn read(table: &Table, unset: CreditQueue) -> CreditQueue {
    CreditQueue {
        share: table.find("share").unwrap_or(unset.share),
        bytes: table.find::<u64>("bytes").map_or(unset.bytes, |bytes| bytes as u32),
        burst_bytes: table.find::<u64>("burst").map_or(unset.burst_bytes, |bytes| bytes as u32),
    }
}

/// Credit queues as a table of a scenario.
pub(crate) fn json(queue: CreditQueue) -> Json {
    json!({
        "share": queue.share,
        "bytes": format!("{}B", queue.bytes),
        "burst": format!("{}B", queue.burst_bytes),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn load(fabric: &str, protocol: &str, switch: &str) -> Result<Option<CreditQueue>, String> {
        let text = format!(
            "duration = '1ms'\nfabric = {{ {fabric} }}\nflows = [{{ src = 'h0', dst = 'h1' }}]\n\
             transport = {{ protocol = '{protocol}' }}\n[switch]\n{switch}"
        );
        let plan = crate::load(&text, "x.toml", &[]).map_err(|error| error.to_string())?;
        let mut queues = plan.fabric.switches.iter().map(|switch| switch.credit_queue);
        let first = queues.next().expect("a switch");
        assert!(queues.all(|other| other == first), "all switches have the same queues");
        Ok(first)
    }

    const CHAIN: &str = "kind = 'parking-lot', switches = 2, mtu = '1458B'";
    const RACKS: &str = "kind = 'reconfigurable', racks = 2";

    #[test]
    fn queues_follow_the_scenario_or_the_protocol() {
        assert_eq!(load(CHAIN, "swift", ""), Ok(None));
        let defaults = CreditQueue { share: 84.0 / 1622.0, bytes: 672, burst_bytes: 168 };
        assert_eq!(load(CHAIN, "swift", "credit_queue = {}"), Ok(Some(defaults)));
        let own = "credit_queue = { share = 0.1, bytes = '1KB', burst = '92B' }";
        let queue = CreditQueue { share: 0.1, bytes: 1_000, burst_bytes: 92 };
        for protocol in ["swift", "expresspass"] {
            assert_eq!(load(CHAIN, protocol, own), Ok(Some(queue)));
        }
        // Credits of 84 to 92 bytes.
        let required = CreditQueue { share: 88.0 / 1626.0, ..defaults };
        assert_eq!(load(CHAIN, "expresspass", ""), Ok(Some(required)));
        // Keys that are not set keep the required values.
        let longer = "credit_queue = { bytes = '840B' }";
        let queue = CreditQueue { bytes: 840, ..required };
        assert_eq!(load(CHAIN, "expresspass", longer), Ok(Some(queue)));
        assert_eq!(load(CHAIN, "swift", longer), Ok(Some(CreditQueue { bytes: 840, ..defaults })));
        let off = "credit_queue = 'off'";
        assert_eq!(load(CHAIN, "swift", off), Ok(None));
    }

    #[test]
    fn no_queue_is_shorter_than_the_longest_credit() {
        for (key, other) in [("bytes", "burst"), ("burst", "bytes")] {
            let switch =
                |set: u32| format!("credit_queue = {{ {other} = '168B', {key} = '{set}B' }}");
            let message = load(CHAIN, "expresspass", &switch(91)).unwrap_err();
            let expected = format!(
                "x.toml:6: switch.credit_queue.{key}: found '91B', expected at least 92B, the size \
                 of the longest credit of expresspass (transport.protocol)"
            );
            assert_eq!(message, expected);
            assert!(load(CHAIN, "expresspass", &switch(92)).is_ok());
            // Swift sends no credits.
            assert!(load(CHAIN, "swift", &switch(84)).is_ok());
            let short = "expresspass', params = { largest_credit = 84 }, preset = 'paper";
            assert!(load(CHAIN, short, &switch(84)).is_ok());
        }
    }

    #[test]
    fn conflicts_are_refused_with_their_place() {
        let pauses = "buffer = '4MB'\npfc = {}";
        let both = format!("{pauses}\ncredit_queue = {{}}");
        for (fabric, protocol, switch, expected) in [
            (
                CHAIN,
                "expresspass",
                "credit_queue = 'off'",
                "x.toml:6: switch.credit_queue: found \"off\", expected a table, or no \
                 credit_queue: expresspass needs credit queues",
            ),
            (
                CHAIN,
                "expresspass",
                pauses,
                "x.toml:7: switch.pfc: found switches with PFC, expected \"off\": expresspass \
                 needs credit queues",
            ),
            (
                RACKS,
                "expresspass",
                "",
                "x.toml:4: transport.protocol: found a fabric with circuits, expected another \
                 protocol, because queues for other racks do not support credits: expresspass \
                 needs credit queues",
            ),
            (
                RACKS,
                "swift",
                "credit_queue = {}",
                "x.toml:6: switch.credit_queue: found a table, expected \"off\": credit queues are \
                 not supported in a fabric with circuits",
            ),
            (
                CHAIN,
                "swift",
                &both,
                "x.toml:8: switch.credit_queue: found a table, expected \"off\": credit queues are \
                 not supported together with PFC (switch.pfc)",
            ),
        ] {
            let message = load(fabric, protocol, switch).unwrap_err();
            assert!(message.starts_with(expected), "{message}\n{expected}");
        }
    }
}
