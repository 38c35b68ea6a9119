//! `switch.credit_queue`: queues for credits at the ports of all switches.

use serde_json::{Value as Json, json};
use tidegate_core::fabric::{CreditQueue, Fabric};
use tidegate_core::{HEADER_BYTES, MIN_WIRE_BYTES};

use crate::error::Error;
use crate::read::keys::{Key, Optional, Shape, key};
use crate::read::table::{Or, Table};

/// At least a credit.
const BYTES: Shape = Shape::Bytes { min: MIN_WIRE_BYTES as u64, max: 1_000_000 };

/// Keys of the table.
pub(crate) static KEYS: &[Key] = &[
    key(
        "share",
        Shape::Number { min: 0.001, max: 0.5 },
        Optional,
        "Of the link's rate, what credits may take. Unset: as the running protocols ask, or what a \
         credit of 84 bytes takes beside the full packet that it calls for.",
    ),
    key(
        "bytes",
        BYTES,
        Optional,
        "Credits that may wait at a port; more are dropped. At least the longest credit of the \
         running protocols. Unset: as they ask, or 672B.",
    ),
    key(
        "burst",
        BYTES,
        Optional,
        "What may leave at once after the queue has been idle (the token bucket's depth). At least \
         the longest credit of the running protocols. Unset: as they ask, or 168B.",
    ),
];

/// Gives the ports of all switches queues for credits: as the scenario says, or else as `asked` by
/// the running protocols. Fabrics that cannot have any go without, unless the scenario insists; who
/// needs them is told then.
pub(crate) fn resolve(
    table: &Table,
    fabric: &mut Fabric,
    asked: Option<CreditQueue>,
) -> Result<(), Error> {
    let hindrance = hindrance(fabric);
    let queue = match table.find::<Or<&Table>>("credit_queue") {
        Some(Or::Word(_)) => None,
        Some(Or::Value(said)) => {
            if let Some(hindrance) = hindrance {
                return Err(table.error("credit_queue", format!("\"off\" {hindrance}")));
            }
            Some(read(said, asked.unwrap_or_else(|| usual(fabric.mtu))))
        }
        None => asked.filter(|_| hindrance.is_none()),
    };
    fabric.switches.iter_mut().for_each(|switch| switch.credit_queue = queue);
    Ok(())
}

/// For real packets: what share of a link credits take follows from no protocol.
pub(crate) fn alone(table: &Table) -> Result<Option<CreditQueue>, Error> {
    match table.find::<Or<&Table>>("credit_queue") {
        Some(Or::Value(said)) if said.item("share").is_none() => {
            Err(said.error("share", "of a link's rate, what credits may take: 0.001 to 0.5"))
        }
        // The size of a full packet decides of nothing but the share.
        Some(Or::Value(said)) => Ok(Some(read(said, usual(0)))),
        Some(Or::Word(_)) | None => Ok(None),
    }
}

/// A credit that is longer than the queue is never let through, nor one that the bucket does not
/// hold. `largest` is the longest of the running protocols, and who sends it.
pub(crate) fn check_room(table: &Table, largest: Option<(u32, String)>) -> Result<(), Error> {
    let said = table.find::<Or<&Table>>("credit_queue");
    let (Some(Or::Value(said)), Some((bytes, who))) = (said, largest) else { return Ok(()) };
    let too_small = |key: &&str| said.find::<u64>(key).is_some_and(|set| set < u64::from(bytes));
    match ["bytes", "burst"].into_iter().find(too_small) {
        Some(key) => {
            Err(said.error(key, format!("at least {bytes}B, the longest credit of {who}")))
        }
        None => Ok(()),
    }
}

/// Whether the scenario leaves nothing of them to protocols.
pub(crate) fn is_whole(switch: &Table) -> bool {
    match switch.find::<Or<&Table>>("credit_queue") {
        Some(Or::Word(_)) => true,
        Some(Or::Value(said)) => KEYS.iter().all(|key| said.item(key.name).is_some()),
        None => false,
    }
}

/// Beside what no queues for credits can be.
fn hindrance(fabric: &Fabric) -> Option<&'static str> {
    if fabric.circuits.is_some() {
        return Some("beside circuits");
    }
    let pauses = fabric.switches.iter().any(|switch| switch.pausing.is_some());
    pauses.then_some("beside switches that pause (switch.pfc)")
}

/// Where no protocol asks: eight credits of the smallest packet, two at once.
fn usual(mtu: u32) -> CreditQueue {
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

/// As a scenario would say it.
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
        assert!(queues.all(|other| other == first), "all switches alike");
        Ok(first)
    }

    const CHAIN: &str = "kind = 'parking-lot', switches = 2, mtu = '1458B'";
    const RACKS: &str = "kind = 'reconfigurable', racks = 2";

    #[test]
    fn queues_are_there_where_the_scenario_or_a_protocol_says_so() {
        assert_eq!(load(CHAIN, "swift", ""), Ok(None));
        let usual = CreditQueue { share: 84.0 / 1622.0, bytes: 672, burst_bytes: 168 };
        assert_eq!(load(CHAIN, "swift", "credit_queue = {}"), Ok(Some(usual)));
        let own = "credit_queue = { share = 0.1, bytes = '1KB', burst = '92B' }";
        let queue = CreditQueue { share: 0.1, bytes: 1_000, burst_bytes: 92 };
        for protocol in ["swift", "expresspass"] {
            assert_eq!(load(CHAIN, protocol, own), Ok(Some(queue)));
        }
        // Credits of 84 to 92 bytes.
        let asked = CreditQueue { share: 88.0 / 1626.0, ..usual };
        assert_eq!(load(CHAIN, "expresspass", ""), Ok(Some(asked)));
        // What is not said is as asked: more room changes no share.
        let longer = "credit_queue = { bytes = '840B' }";
        let queue = CreditQueue { bytes: 840, ..asked };
        assert_eq!(load(CHAIN, "expresspass", longer), Ok(Some(queue)));
        assert_eq!(load(CHAIN, "swift", longer), Ok(Some(CreditQueue { bytes: 840, ..usual })));
        let off = "credit_queue = 'off'";
        assert_eq!(load(CHAIN, "swift", off), Ok(None));
    }

    #[test]
    fn no_queue_is_shorter_than_the_longest_credit() {
        for (key, other) in [("bytes", "burst"), ("burst", "bytes")] {
            let switch =
                |set: u32| format!("credit_queue = {{ {other} = '168B', {key} = '{set}B' }}");
            let message = load(CHAIN, "expresspass", &switch(91)).unwrap_err();
            let said = format!(
                "x.toml:6: switch.credit_queue.{key}: found '91B', expected at least 92B, the \
                 longest credit of expresspass (transport.protocol)"
            );
            assert_eq!(message, said);
            assert!(load(CHAIN, "expresspass", &switch(92)).is_ok());
            // Nobody's credits are longer than the smallest packet here.
            assert!(load(CHAIN, "swift", &switch(84)).is_ok());
            let short = "expresspass', params = { largest_credit = 84 }, preset = 'paper";
            assert!(load(CHAIN, short, &switch(84)).is_ok());
        }
    }

    #[test]
    fn what_cannot_be_is_refused_by_place() {
        let pauses = "buffer = '4MB'\npfc = {}";
        let both = format!("{pauses}\ncredit_queue = {{}}");
        for (fabric, protocol, switch, said) in [
            (
                CHAIN,
                "expresspass",
                "credit_queue = 'off'",
                "x.toml:6: switch.credit_queue: found \"off\", expected a table, or no such key: \
                 expresspass needs credit queues",
            ),
            (
                CHAIN,
                "expresspass",
                pauses,
                "x.toml:7: switch.pfc: found switches that pause, expected \"off\": expresspass \
                 needs credit queues",
            ),
            (
                RACKS,
                "expresspass",
                "",
                "x.toml:4: transport.protocol: found a fabric with circuits, expected another \
                 protocol, as queues for other racks know no credits: expresspass needs credit \
                 queues",
            ),
            (
                RACKS,
                "swift",
                "credit_queue = {}",
                "x.toml:6: switch.credit_queue: found a table, expected \"off\" beside circuits",
            ),
            (
                CHAIN,
                "swift",
                &both,
                "x.toml:8: switch.credit_queue: found a table, expected \"off\" beside switches \
                 that pause (switch.pfc)",
            ),
        ] {
            let message = load(fabric, protocol, switch).unwrap_err();
            assert!(message.starts_with(said), "{message}\n{said}");
        }
    }
}
