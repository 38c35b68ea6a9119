//! `kind = "reconfigurable"`: racks joined by a packet network and by circuits.
//!
//! Each rack has one link to the packet network, which is the switch `core0`, and one circuit to
//! each rack that it is matched with on some day. The circuit is a link between the two racks'
//! switches.

use std::collections::BTreeSet;

use tidegate_core::circuits::Circuits;
use tidegate_core::fabric::{Link, Node};
use tidegate_core::{HEADER_BYTES, Rate, Span};

use super::topology::{FAST, HOST_LINK, LINK_SHAPE, Topology, bounded, cable, count};
use crate::error::Error;
use crate::read::keys::{Default, INTERVAL, Key, Optional, SPAN, Shape, key};
use crate::read::quantity::rounded_up;
use crate::read::table::{Or, Row, Table};

/// Largest number of racks. Circuits grow with the number of pairs, matchings with the number of
/// racks.
const MOST_RACKS: u64 = 256;

/// Size of the queue for another rack.
const VOQ: Shape = Shape::Bytes { min: 1_000, max: 4_000_000_000 };

/// Keys of this kind.
pub(crate) static KEYS: &[Key] = &[
    key(
        "racks",
        Shape::Count { min: 2, max: MOST_RACKS },
        Default("8"),
        "Number of racks, each with one switch: tor0, tor1, …",
    ),
    key("hosts_per_rack", count(1), Default("4"), "Number of hosts in a rack."),
    key("host_link", LINK_SHAPE, FAST, HOST_LINK),
    key(
        "packet_link",
        LINK_SHAPE,
        Default(r#"{ rate = "25Gbps", delay = "1us" }"#),
        "Link between each rack and the packet network, which is the switch core0.",
    ),
    key(
        "circuit_link",
        LINK_SHAPE,
        Default(r#"{ rate = "100Gbps", delay = "2us" }"#),
        "Rate of a circuit, and propagation delay from rack to rack.",
    ),
    key(
        "day",
        INTERVAL,
        Default("225us"),
        "Duration of a matching. A packet whose transmission would not finish by the end of the \
         day does not start.",
    ),
    key("night", SPAN, Default("20us"), "Time between two days, in which circuits carry nothing."),
    key(
        "matchings",
        Shape::Or(&["rotation"], &Shape::Rows),
        Default("rotation"),
        "Schedule of the circuits: one list per day, repeated after the last. Entry i is the rack \
         that rack i sends to; each rack occurs once, and a rack's own number means no circuit. \
         rotation: on day s, rack i sends to rack i + 1 + s, modulo the number of racks, so that \
         each rack reaches every other once a week.",
    ),
    key(
        "voq",
        Shape::Or(&["unlimited"], &VOQ),
        Default("unlimited"),
        "Capacity in wire bytes of a rack's queue for another rack. Packets that do not fit are \
         dropped.",
    ),
    key(
        "enlarged_voq",
        VOQ,
        Optional,
        "Capacity of that queue from prebuffer before a day of its circuit until the end of that \
         day. Default: voq.",
    ),
    key(
        "prebuffer",
        SPAN,
        Default("0us"),
        "Time before a day of a circuit from which its rack announces it, as in that day: packets \
         for the circuit use enlarged_voq, and packets that arrive from its other rack are marked. \
         With a week minus a day or more, this is always so.",
    ),
];

/// Builds the topology.
pub(crate) fn topology(table: &Table) -> Result<Topology, Error> {
    let (racks, hosts): (u64, u64) = (table.get("racks"), table.get("hosts_per_rack"));
    let links = racks.saturating_mul(hosts).saturating_add(racks * racks);
    bounded(table, "hosts_per_rack", [racks, hosts, 1, 1], racks + 1, links)?;
    let matchings = matchings(table, racks as u16)?;
    let mut made = Topology::default();
    let tors = made.tier("tor", racks);
    let core = made.tier("core", 1)[0];
    for &tor in &tors {
        made.add_hosts(tor, hosts, cable(table, "host_link"));
    }
    for &tor in &tors {
        made.connect(tor, core, cable(table, "packet_link"));
    }
    let first_link = made.links.len() as u32;
    let link: &Table = table.get("circuit_link");
    let pairs = matchings.iter().flat_map(|matching| (0u16..).zip(matching));
    let pairs = pairs.filter(|&(from, &to)| from != to);
    let pairs: BTreeSet<_> = pairs.map(|(from, &to)| (from.min(to), from.max(to))).collect();
    made.links.extend(pairs.into_iter().map(|(a, b)| Link {
        a: Node::Switch(a as u32),
        b: Node::Switch(b as u32),
        rate: link.get("rate"),
        delay: link.get("delay"),
    }));
    let day: Span = table.get("day");
    let packet = link.get::<Rate>("rate").serialise(table.get::<u64>("mtu") + HEADER_BYTES as u64);
    if day < packet {
        let least = rounded_up(packet);
        let expected = format!(
            "at least {least}, the time of a full packet on a circuit: set fabric.day, or change \
             fabric.circuit_link or fabric.mtu"
        );
        return Err(table.error("day", expected));
    }
    let mut circuits = Circuits {
        first_link,
        day,
        night: table.get("night"),
        matchings,
        queue_bytes: u32::MAX,
        enlarged_bytes: u32::MAX,
        ahead: table.get("prebuffer"),
    };
    (circuits.queue_bytes, circuits.enlarged_bytes) = limits(table, &circuits)?;
    made.circuits = Some(circuits);
    Ok(made)
}

fn matchings(table: &Table, racks: u16) -> Result<Vec<Vec<u16>>, Error> {
    let rows = match table.get::<Or<&[Row]>>("matchings") {
        Or::Word(_) => {
            let day = |day: u16| (0..racks).map(|rack| (rack + 1 + day) % racks).collect();
            return Ok((0..racks - 1).map(day).collect());
        }
        Or::Value(rows) => rows,
    };
    let matching = |(day, row): (usize, &Row)| {
        let error = |found: String| {
            let expected = format!("a list of every rack from 0 to {}, each once", racks - 1);
            row.at.error(format!("{}[{day}]", table.path("matchings")), found, expected)
        };
        if row.numbers.len() != racks as usize {
            return Err(error(format!("{} racks", row.numbers.len())));
        }
        if let Some(other) = row.numbers.iter().find(|&&to| to >= racks as u64) {
            return Err(error(format!("the number {other}")));
        }
        let matching: Vec<u16> = row.numbers.iter().map(|&to| to as u16).collect();
        match Circuits::conflict(&matching) {
            Some((a, b)) => {
                Err(error(format!("racks {a} and {b}, which both send to {}", matching[a])))
            }
            None => Ok(matching),
        }
    };
    let all: Vec<_> = rows.iter().enumerate().map(matching).collect::<Result<_, _>>()?;
    let sends = |matching: &Vec<u16>| (0u16..).zip(matching).any(|(from, &to)| from != to);
    if !all.iter().any(sends) {
        return Err(table.error("matchings", "at least one rack that sends to another"));
    }
    Ok(all)
}

/// Returns the capacity of a queue, and its enlarged capacity before and during a day.
fn limits(table: &Table, circuits: &Circuits) -> Result<(u32, u32), Error> {
    let packet = table.get::<u64>("mtu") + HEADER_BYTES as u64;
    let holds_one = |key, bytes: u64| match bytes < packet {
        true => Err(table.error(key, format!("at least {packet}B, the size of a full packet"))),
        false => Ok(bytes as u32),
    };
    let capacity = match table.get::<Or<u64>>("voq") {
        Or::Word(_) => None,
        Or::Value(bytes) => Some(holds_one("voq", bytes)?),
    };
    let Some(enlarged) = table.find::<u64>("enlarged_voq") else {
        let capacity = capacity.unwrap_or(u32::MAX);
        return Ok((capacity, capacity));
    };
    let enlarged = holds_one("enlarged_voq", enlarged)?;
    match capacity {
        None => Err(table.error(
            "enlarged_voq",
            "no enlarged_voq with an unlimited voq: remove enlarged_voq, or limit voq",
        )),
        Some(capacity) if enlarged < capacity => {
            Err(table.error("enlarged_voq", format!("at least {capacity}B, the size of voq")))
        }
        Some(_) if circuits.ahead == Span::ZERO => Err(table.error(
            "enlarged_voq",
            "no enlarged_voq without prebuffer: remove enlarged_voq, or set prebuffer",
        )),
        Some(capacity) => Ok((capacity, enlarged)),
    }
}
