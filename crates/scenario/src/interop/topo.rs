//! htsim's `.topo`: parameters of a fat tree of two or three tiers.
//!
//! The header has `Nodes`, `Tiers` and `Podsize` (hosts in a pod). Each tier follows, from the
//! bottom: speed and latency of its downlinks, numbers of downlinks and uplinks of a switch, and
//! number of parallel links (`Bundle`). A top-of-rack switch has links to every aggregation switch
//! of its pod. In a pod with a aggregation switches, switch i has links to the cores i, i + a, i +
//! 2a and so on.

use tidegate_core::fabric::Node;
use tidegate_core::{Rate, Span};

use super::joins::{End, Joins};
use super::words::rows;
use super::{Input, Network};
use crate::compile::topology::{MOST_NODES, Topology};
use crate::error::{Error, nearest, one_of};
use crate::read::cell::Cell;

/// Keywords at the start of a line, in lower case. Those from the fourth on belong to a tier.
const WORDS: [&str; 13] = [
    "nodes",
    "tiers",
    "podsize",
    "tier",
    "downlink_speed_gbps",
    "downlink_latency_ns",
    "switch_latency_ns",
    "radix_down",
    "radix_up",
    "bundle",
    "oversubscribed",
    "queue_down",
    "queue_up",
];
/// Names of a tier's switches.
const TIERS: [&str; 3] = ["tor", "agg", "core"];

/// Declarations of a file: section (0 for the header, or the tier plus 1), keyword, place and
/// value.
#[derive(Default)]
struct Declared<'a>(Vec<(usize, &'static str, Cell<'a>, u64)>);

impl<'a> Declared<'a> {
    fn find(&self, place: usize, word: &str) -> Option<(Cell<'a>, u64)> {
        let found = self.0.iter().find(|declared| (declared.0, declared.1) == (place, word))?;
        Some((found.2, found.3))
    }

    /// Returns a declaration of a tier, from 0, or of the header.
    fn get(
        &self,
        input: &Input,
        tier: Option<usize>,
        word: &str,
    ) -> Result<(Cell<'a>, u64), Error> {
        let place = tier.map_or(0, |tier| tier + 1);
        let whose = tier.map_or("the header".into(), |tier| format!("tier {tier}"));
        self.find(place, word).ok_or_else(|| {
            Error::whole(
                &input.name,
                format!("{whose} without {word:?}"),
                "a line with this keyword",
            )
        })
    }
}

/// Divides a value by `part`; `what` names `part` in messages.
fn parts((cell, whole): (Cell<'_>, u64), part: u64, what: &str) -> Result<u64, Error> {
    match whole.is_multiple_of(part) {
        true => Ok(whole / part),
        false => Err(cell.error(format!("a multiple of {part}, {what}"))),
    }
}

/// Reads a fat tree.
pub(super) fn fabric(input: &Input, warnings: &mut Vec<String>) -> Result<Network, Error> {
    let declared = declared(input)?;
    let head = |word| declared.get(input, None, word);
    let of = |tier, word| declared.get(input, Some(tier), word);
    let bundle = |tier: usize| declared.find(tier + 1, "bundle").map_or(1, |(_, number)| number);
    if let Some((cell, _)) = declared.find(1, "bundle").filter(|(_, number)| *number > 1) {
        return Err(cell.error("1 in tier 0: exactly one link per host"));
    }
    let (tiers, nodes) = (head("tiers")?.1 as usize, head("nodes")?.1);
    let pods = parts(head("nodes")?, head("podsize")?.1, "the Podsize")?;
    if tiers == 2 && pods != 1 {
        let (cell, _) = head("podsize")?;
        return Err(
            cell.error(format!("{nodes}, the number of nodes: with two tiers, nothing links pods"))
        );
    }
    let rack = of(0, "radix_down")?.1;
    let racks = parts(head("podsize")?, rack, "the Radix_Down of tier 0")?;
    let aggs = parts(of(0, "radix_up")?, bundle(1), "the Bundle of tier 1")?;
    let down = |tier: usize, links: u64| match of(tier, "radix_down")? {
        (_, radix) if radix == links => Ok(()),
        (cell, _) => Err(cell.error(format!(
            "{links}, the number of links that follows from the tier below and Bundle"
        ))),
    };
    down(1, racks * bundle(1))?;
    let mut cores = 0;
    if tiers == 3 {
        cores = parts(of(1, "radix_up")?, bundle(2), "the Bundle of tier 2")?;
        down(2, pods * bundle(2))?;
    }
    let latency = |tier: usize| {
        Span::ns(declared.find(tier + 1, "switch_latency_ns").map_or(0, |(_, number)| number))
    };
    let mut topology = Topology::default();
    topology.hosts.extend((0..nodes).map(|number| format!("h{number}")));
    let numbers = [pods * racks, pods * aggs, cores * aggs];
    if numbers.iter().any(|number| *number > MOST_NODES) {
        let found = format!("{numbers:?} switches of the tiers");
        return Err(Error::whole(&input.name, found, format!("at most {MOST_NODES}")));
    }
    let mut switches = Vec::new();
    for tier in 0..tiers {
        let tier_of = (0..numbers[tier]).map(|number| {
            let node = topology.add_switch(format!("{}{number}", TIERS[tier]));
            if let Some(switch) = topology.switches.last_mut() {
                switch.latency = latency(tier);
            }
            node
        });
        switches.push(tier_of.collect::<Vec<Node>>());
    }
    let mut joins = Joins::new(input, topology)?;
    let mut link = |tier: usize, a: Node, b: Node| {
        let (cell, speed) = of(tier, "downlink_speed_gbps")?;
        let (_, delay) = of(tier, "downlink_latency_ns")?;
        let ends = [a, b].map(|node| End { cell, node });
        (0..bundle(tier)).try_for_each(|_| joins.join(ends, Rate::gbps(speed), Span::ns(delay)))
    };
    for host in 0..nodes {
        link(0, Node::Host(host as u32), switches[0][(host / rack) as usize])?;
    }
    for tor in 0..numbers[0] {
        for agg in 0..aggs {
            let above = tor / racks * aggs + agg;
            link(1, switches[0][tor as usize], switches[1][above as usize])?;
        }
    }
    for agg in 0..if tiers == 3 { numbers[1] } else { 0 } {
        for plane in 0..cores {
            let above = agg % aggs + aggs * plane;
            link(2, switches[1][agg as usize], switches[2][above as usize])?;
        }
    }
    let topology = joins.done(input, |node| format!("{node:?}"), &mut Vec::new())?;
    if declared.0.iter().any(|declared| declared.1.starts_with("queue")) {
        warnings.push(format!("{}: queue sizes are omitted: set switch.buffer", input.name));
    }
    let numbers = (0..nodes as u32).map(Node::Host).collect();
    let comment =
        "Node i is host hi. The switches of the tiers are tor0…, agg0… and core0….".into();
    Ok(Network { topology, numbers, mtu: None, loss: 0.0, comment })
}

fn declared(input: &Input) -> Result<Declared<'_>, Error> {
    let mut declared = Declared::default();
    let mut place = 0;
    for mut words in rows(input) {
        let Some(first) = words.next().filter(|word| !word.text.starts_with('#')) else { continue };
        let lower = first.text.to_lowercase();
        let Some(at) = WORDS.iter().position(|word| *word == lower) else {
            return Err(first.error(one_of(WORDS)).suggest(nearest(&lower, WORDS)));
        };
        let word = WORDS[at];
        let value = words.next().ok_or_else(|| first.error("a number after this keyword"))?;
        let value = value.named(first.text);
        if (at < 3) != (place == 0) && word != "tier" {
            let expected =
                if at < 3 { "a keyword of a tier" } else { "a line \"Tier\" before this keyword" };
            return Err(first.error(expected));
        }
        let number = match word {
            "tiers" => value.whole(2, 3),
            "tier" => value.whole(0, 2),
            "nodes" => value.whole(2, MOST_NODES),
            "downlink_speed_gbps" => value.whole(1, 10_000),
            "downlink_latency_ns" | "switch_latency_ns" => value.whole(0, 1_000_000_000),
            "queue_down" | "queue_up" => value.whole(0, u64::MAX),
            _ => value.whole(1, MOST_NODES),
        }?;
        if word == "tier" {
            place = number as usize + 1;
        }
        if declared.find(place, word).is_some() {
            return Err(first.error("a keyword that does not occur twice in its section"));
        }
        declared.0.push((place, word, value, number));
    }
    Ok(declared)
}
