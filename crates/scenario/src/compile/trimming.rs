//! `switch.trimming`: packet trimming at the ports of all switches.

use serde_json::{Value as Json, json};
use tidegate_core::fabric::{Fabric, TrimVictim, Trimming};
use tidegate_core::math::round;
use tidegate_core::{Extent, TrimmingRule};

use crate::error::Error;
use crate::read::keys::{Key, LINK_RATE, Optional, Shape, key};
use crate::read::table::{Or, Table, Word};

/// Keys of the table.
pub(crate) static KEYS: &[Key] = &[
    key(
        "data",
        Shape::Extent,
        Optional,
        "Capacity of the queue for data of a port, in bytes on the wire: from one full packet to \
         4294967295B. Default: the capacity that the running protocols require, or else 1 BDP. \
         Live switches have no default.",
    ),
    key(
        HEADERS,
        Shape::Extent,
        Optional,
        "Capacity of the queue for trimmed packets and control packets of a port: from one trimmed \
         packet to 4294967295B. Packets that do not fit are dropped, or returned \
         (return_to_sender). Default: the multiple of data that the running protocols require, \
         or else twice data.",
    ),
    key(
        "trimmed",
        Shape::Bytes { min: 20, max: 1000 },
        Optional,
        "Bytes on the wire of a trimmed packet. Default: the size that the running protocols \
         require, or else 84B; 192B on live switches, which need at least 160B.",
    ),
    key(
        "victim",
        Shape::Word(&["random", "arriving"]),
        Optional,
        "Packet that is trimmed when the queue for data is full: the arriving one, or with equal \
         probability the arriving one or the last in the queue (random). Default: random.",
    ),
    key(
        "per",
        LINK_RATE,
        Optional,
        "Port rate for which data and headers hold. At other ports, they are scaled in proportion \
         to the rate. Default: the same at all ports.",
    ),
    key(
        RETURN_TO_SENDER,
        Shape::Flag,
        Optional,
        "Whether a trimmed packet that does not fit into the queue for headers, or into the shared \
         buffer, is sent back to its sender. It is dropped if it does not fit on its way back \
         either. Default: what the running protocols require, or else false. Live switches and \
         testbeds do not return packets.",
    ),
    key(
        HEADER_WEIGHT,
        Shape::Or(&["strict"], &Shape::Count { min: 1, max: 1_000 }),
        Optional,
        "Packets of the queue for headers that a port sends for each packet of data while both \
         queues hold packets. With strict, the queue for headers precedes data. The queue for \
         headers holds all packets above the lowest priority, also data. Default: what the running \
         protocols require, or else strict; strict on live switches.",
    ),
];

pub(super) const HEADERS: &str = "headers";
const RETURN_TO_SENDER: &str = "return_to_sender";
pub(super) const HEADER_WEIGHT: &str = "header_weight";

/// Resolves the trimming of all ports: the setting of the scenario, or else what the running
/// protocols require. A fabric that cannot trim does not; that is an error if the scenario sets
/// trimming. `Requirements::check_needs` reports protocols that need it.
pub(crate) fn resolve(
    table: &Table,
    fabric: &mut Fabric,
    required: Option<TrimmingRule>,
    bdp_bytes: f64,
    full_packet: u32,
) -> Result<(), Error> {
    let resolved = |rule: TrimmingRule| {
        let trimming = rule.resolved(bdp_bytes);
        Trimming { data_bytes: trimming.data_bytes.max(full_packet), ..trimming }
    };
    let exclusion = exclusion(fabric);
    let trimming = match table.find::<Or<&Table>>("trimming") {
        Some(Or::Word(_)) => None,
        Some(Or::Value(set)) => {
            if let Some(exclusion) = exclusion {
                let expected = format!("\"off\": trimming is not supported {exclusion}");
                return Err(table.error("trimming", expected));
            }
            let rule = required.unwrap_or(DEFAULT);
            let trimming = read(set, resolved(rule), rule.header_queues, bdp_bytes)?;
            if trimming.data_bytes < full_packet {
                let expected = format!("at least {full_packet}B, a full packet on the wire");
                return Err(set.error("data", expected));
            }
            let ports = 0..2 * fabric.links.len() as u32;
            let slowest = ports.map(|port| fabric.slowest(port)).min().unwrap_or_default();
            if trimming.at_rate(trimming.data_bytes, slowest) < full_packet {
                let expected = format!(
                    "a rate at which ports of {slowest} queue a full packet of {full_packet}B on \
                     the wire: a lower one, or a larger value of data"
                );
                return Err(set.error("per", expected));
            }
            if trimming.header_queue_bytes < trimming.trimmed_bytes.into() {
                let expected = format!("at least {}B, a trimmed packet", trimming.trimmed_bytes);
                return Err(set.error(HEADERS, expected));
            }
            Some(trimming)
        }
        None => required.filter(|_| exclusion.is_none()).map(resolved),
    };
    fabric.network_switches_mut().iter_mut().for_each(|switch| switch.trimming = trimming);
    Ok(())
}

/// Returns the trimming of live switches, which know no protocol and no BDP: the file must set the
/// capacity of the queue for data.
pub(crate) fn alone(table: &Table, fabric: &Fabric) -> Result<Option<Trimming>, Error> {
    let Some(Or::Value(set)) = table.find::<Or<&Table>>("trimming") else { return Ok(None) };
    if let Some(exclusion) = exclusion(fabric) {
        let expected = format!("\"off\": trimming is not supported {exclusion}");
        return Err(table.error("trimming", expected));
    }
    let in_bdp = |key: &&str| matches!(set.find::<Extent>(key), Some(Extent::Bdp(_)));
    if let Some(key) = ["data", HEADERS].into_iter().find(in_bdp) {
        let expected = "a size in bytes: a live switch does not know the base RTT";
        return Err(set.error(key, expected));
    }
    if set.find(RETURN_TO_SENDER) == Some(true) {
        let expected = "false: live switches do not return packets to their senders";
        return Err(set.error(RETURN_TO_SENDER, expected));
    }
    let unset = Trimming { trimmed_bytes: LIVE_TRIMMED_BYTES, ..DEFAULT.resolved(0.0) };
    let trimming = read(set, unset, DEFAULT.header_queues, 0.0)?;
    if trimming.data_bytes < FULL_FRAME_BYTES {
        let expected = format!("a size of at least {FULL_FRAME_BYTES}B, a full Ethernet frame");
        return Err(set.error("data", expected));
    }
    if trimming.trimmed_bytes < LIVE_HEADERS_BYTES {
        let expected = format!("at least {LIVE_HEADERS_BYTES}B, the headers of a live packet");
        return Err(set.error("trimmed", expected));
    }
    if trimming.header_queue_bytes < trimming.trimmed_bytes.into() {
        let expected = format!("at least {}B, a trimmed packet", trimming.trimmed_bytes);
        return Err(set.error(HEADERS, expected));
    }
    Ok(Some(trimming))
}

/// Size of a trimmed packet on live switches: room for the headers of every transport with the
/// largest hop delay, of a session, and below.
const LIVE_TRIMMED_BYTES: u16 = 192;
/// The headers of the shortest data packets with the largest hop delay: 66 up to UDP, 12 telemetry,
/// 40 transport, 40 session, rounded up.
const LIVE_HEADERS_BYTES: u16 = 160;
/// A frame with 1,500 bytes on the wire.
const FULL_FRAME_BYTES: u32 = 1_538;

/// Trimming without requirements.
const DEFAULT: TrimmingRule = TrimmingRule::new(Extent::Bdp(1.0), 84);

/// Setting of the fabric that excludes trimming, for messages.
pub(crate) fn exclusion(fabric: &Fabric) -> Option<&'static str> {
    if fabric.circuits.is_some() {
        return Some("in a fabric with circuits");
    }
    if fabric.switches.iter().any(|switch| switch.pausing.is_some()) {
        return Some("together with PFC (switch.pfc)");
    }
    if fabric.switches.iter().any(|switch| switch.credit_queue.is_some()) {
        return Some("together with credit queues (switch.credit_queue)");
    }
    let few = fabric.switches.iter().any(|switch| switch.priorities < 3);
    few.then_some("at a switch with fewer than three priorities (switch.priorities)")
}

fn read(
    table: &Table,
    unset: Trimming,
    header_queues: u32,
    bdp_bytes: f64,
) -> Result<Trimming, Error> {
    let extent = |key| match table.find::<Extent>(key).map(|set| round(set.bytes(bdp_bytes))) {
        Some(bytes) if bytes > f64::from(u32::MAX) => {
            Err(table.error(key, format!("a size of at most {}B", u32::MAX)))
        }
        set => Ok(set.map(|bytes| bytes as u32)),
    };
    let data_bytes = extent("data")?.unwrap_or(unset.data_bytes);
    Ok(Trimming {
        data_bytes,
        header_queue_bytes: extent(HEADERS)?.unwrap_or(data_bytes.saturating_mul(header_queues)),
        trimmed_bytes: table.find::<u64>("trimmed").map_or(unset.trimmed_bytes, |set| set as u16),
        victim: match table.find::<Word>("victim") {
            Some(Word("arriving")) => TrimVictim::Arriving,
            Some(_) => TrimVictim::Random,
            None => unset.victim,
        },
        per: table.find("per"),
        return_to_sender: table.find(RETURN_TO_SENDER).unwrap_or(unset.return_to_sender),
        header_weight: match table.find::<Or<u64>>(HEADER_WEIGHT) {
            Some(Or::Word(_)) => None,
            Some(Or::Value(weight)) => Some(weight as u16),
            None => unset.header_weight,
        },
    })
}

/// Trimming as a table of a scenario.
pub(crate) fn json(trimming: Trimming) -> Json {
    let mut json = json!({
        "data": format!("{}B", trimming.data_bytes),
        "headers": format!("{}B", trimming.header_queue_bytes),
        "trimmed": format!("{}B", trimming.trimmed_bytes),
        "victim": match trimming.victim {
            TrimVictim::Random => "random",
            TrimVictim::Arriving => "arriving",
        },
    });
    if let Some(rate) = trimming.per {
        json["per"] = json!(rate.to_string());
    }
    // Without these keys the protocols would decide, not the scenario.
    json[RETURN_TO_SENDER] = json!(trimming.return_to_sender);
    json[HEADER_WEIGHT] = trimming.header_weight.map_or_else(|| json!("strict"), |it| json!(it));
    json
}

#[cfg(test)]
mod tests {
    use super::*;
    use tidegate_core::Rate;

    fn load(switch: &str) -> Result<Option<Trimming>, String> {
        let text = format!(
            "duration = '1ms'\nfabric = {{ kind = 'parking-lot', switches = 2 }}\n\
             flows = [{{ src = 'h0', dst = 'h1' }}]\n\
             transport = {{ protocol = 'swift' }}\n[switch]\n{switch}"
        );
        let plan = crate::load(&text, "x.toml", &[]).map_err(|error| error.to_string())?;
        let mut all = plan.fabric.switches.iter().map(|switch| switch.trimming);
        let first = all.next().expect("a switch");
        assert!(all.all(|other| other == first), "all switches trim alike");
        Ok(first)
    }

    #[test]
    fn trimming_follows_the_scenario() {
        assert_eq!(load(""), Ok(None));
        assert_eq!(load("trimming = 'off'"), Ok(None));
        let keys = "priorities = 3\ntrimming = { data = '100KB', trimmed = '64B' }";
        let expected = Trimming {
            data_bytes: 100_000,
            header_queue_bytes: 200_000,
            trimmed_bytes: 64,
            victim: TrimVictim::Random,
            per: None,
            return_to_sender: false,
            header_weight: None,
        };
        assert_eq!(load(keys), Ok(Some(expected)));
        let keys = "priorities = 3\ntrimming = { data = '9KB', headers = '5KB', victim = \
                    'arriving', per = '40Gbps', return_to_sender = true }";
        let expected = Trimming {
            data_bytes: 9_000,
            header_queue_bytes: 5_000,
            trimmed_bytes: 84,
            victim: TrimVictim::Arriving,
            per: Some(Rate::gbps(40)),
            return_to_sender: true,
            header_weight: None,
        };
        assert_eq!(load(keys), Ok(Some(expected)));
    }

    #[test]
    fn queues_hold_a_packet() {
        for (keys, expected) in [
            (
                "data = '4KB'",
                "x.toml:6: switch.trimming.data: found '4KB', expected at least 4176B, a full \
                 packet on the wire",
            ),
            (
                "data = '9KB', per = '400Gbps'",
                "x.toml:6: switch.trimming.per: found '400Gbps', expected a rate at which ports \
                 of 100Gbps queue a full packet of 4176B on the wire: a lower one, or a larger \
                 value of data",
            ),
            (
                "headers = '83B'",
                "x.toml:6: switch.trimming.headers: found '83B', expected at least 84B, a trimmed \
                 packet",
            ),
        ] {
            assert_eq!(load(&format!("trimming = {{ {keys} }}")), Err(expected.to_owned()));
        }
        // A BDP shorter than a packet.
        let slow = "trimming = {}\n[transport]\nbdp = '1KB'\nprotocol = 'swift'";
        let text = format!(
            "duration = '1ms'\nfabric = {{ kind = 'parking-lot', switches = 2 }}\n\
             flows = [{{ src = 'h0', dst = 'h1' }}]\n[switch]\n{slow}"
        );
        let plan = crate::load(&text, "x.toml", &[]).unwrap();
        assert_eq!(plan.fabric.switches[0].trimming.unwrap().data_bytes, 4_176);
    }

    fn load_with(protocol: &str, switch: &str) -> Result<Trimming, String> {
        let text = format!(
            "duration = '1ms'\nfabric = {{ kind = 'parking-lot', switches = 2 }}\n\
             flows = [{{ src = 'h0', dst = 'h1' }}]\n\
             transport = {{ protocol = '{protocol}' }}\n[switch]\n{switch}"
        );
        let plan = crate::load(&text, "x.toml", &[]).map_err(|error| error.to_string())?;
        Ok(plan.fabric.switches[0].trimming.expect("switches that trim"))
    }

    #[test]
    fn header_queue_is_that_of_the_key_or_the_protocol() {
        let bytes = |protocol, switch| load_with(protocol, switch).unwrap().header_queue_bytes;
        for (protocol, times) in [("ndp", 1), ("eqds", 2), ("smartt", 2), ("nscc", 2)] {
            let data_bytes = load_with(protocol, "").unwrap().data_bytes;
            assert_eq!(bytes(protocol, ""), times * data_bytes, "{protocol}");
            assert_eq!(bytes(protocol, "trimming = { data = '90KB' }"), times * 90_000);
            assert_eq!(bytes(protocol, "trimming = { headers = '50KB' }"), 50_000);
        }
    }

    #[test]
    fn header_weight_is_that_of_the_key_or_the_protocol() {
        let weight = |protocol: &str, switch: &str| {
            load_with(protocol, switch).map(|trimming| trimming.header_weight)
        };
        for protocol in ["ndp", "smartt"] {
            assert_eq!(weight(protocol, ""), Ok(Some(10)));
            assert_eq!(weight(protocol, "trimming = { data = '90KB' }"), Ok(Some(10)));
            assert_eq!(weight(protocol, "trimming = { header_weight = 'strict' }"), Ok(None));
            assert_eq!(weight(protocol, "trimming = { header_weight = 3 }"), Ok(Some(3)));
        }
        for protocol in ["eqds", "nscc", "rccc", "nscc-rccc"] {
            assert_eq!(weight(protocol, ""), Ok(None));
        }
        for (set, found) in [("0", "0"), ("1001", "1001"), ("'wrr'", "'wrr'")] {
            let message = weight("ndp", &format!("trimming = {{ header_weight = {set} }}"));
            let expected = format!(
                "x.toml:6: switch.trimming.header_weight: found {found}, expected \"strict\" or a \
                 whole number from 1 to 1000"
            );
            assert_eq!(message, Err(expected));
        }
    }

    #[test]
    fn conflicts_are_refused_with_their_place() {
        for (switch, exclusion) in [
            ("priorities = 2", "at a switch with fewer than three priorities (switch.priorities)"),
            ("buffer = '4MB'\npfc = {}", "together with PFC (switch.pfc)"),
            ("credit_queue = {}", "together with credit queues (switch.credit_queue)"),
        ] {
            let message = load(&format!("trimming = {{}}\n{switch}")).unwrap_err();
            let expected = format!(
                "x.toml:6: switch.trimming: found a table, expected \"off\": trimming is not \
                 supported {exclusion}"
            );
            assert_eq!(message, expected);
        }
    }
}
