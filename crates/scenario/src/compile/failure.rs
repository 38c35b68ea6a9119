//! Failures by name: `faults.failure`, and the sets of failures that a sweep runs.
//!
//! A failure is a link, by its two ends (`tor0-spine1`), a switch with all its links (`spine1`), or
//! several of them (`tor0-spine0+tor1-spine1`).

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;
use tidegate_core::Time;
use tidegate_core::fabric::{Fabric, Node};
use tidegate_core::faults::{Failing, Outage};

use super::RunSettings;
use crate::error::{Error, one_of};
use crate::plan::Plan;
use crate::read::keys::{Key, Optional, SPAN, Shape, key};
use crate::read::table::Table;

/// Name of a run without a failure.
pub(crate) const NONE: &str = "none";
/// Joins several failures.
const AND: char = '+';
/// Joins the ends of a link.
const TO: char = '-';

/// Keys of the section `faults`.
pub(crate) static KEYS: &[Key] = &[
    key(
        "failure",
        Shape::Text,
        Optional,
        "Failure from `failure_down` on: a link by its ends (tor0-spine1), with all parallel links \
         between the two; a switch with all its links (spine1); several of them \
         (tor0-spine0+spine1); or none. Routing uses the remaining shortest paths after \
         `convergence`; packets without a path are lost. Sweeps vary this key. Default: none.",
    ),
    key("failure_down", SPAN, Optional, "Start of this failure. Default: 0us."),
    key("failure_up", SPAN, Optional, "End of this failure. Default: never."),
];

/// A set of failures: each of its members fails in a run of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Each {
    Link,
    HostLink,
    Switch,
    PairOfLinks,
}

impl Each {
    const ALL: [(&str, Each); 4] = [
        ("each-link", Each::Link),
        ("each-host-link", Each::HostLink),
        ("each-switch", Each::Switch),
        ("each-pair-of-links", Each::PairOfLinks),
    ];

    /// Names of all sets.
    pub(crate) fn names() -> impl Iterator<Item = &'static str> {
        Each::ALL.iter().map(|(name, _)| *name)
    }

    /// The set of this name.
    pub(crate) fn of(name: &str) -> Option<Each> {
        Each::ALL.iter().find(|(known, _)| *known == name).map(|(_, each)| *each)
    }

    /// Names of the failures in a fabric. Parallel links fail together and count once. Switches
    /// with all links of a host do not count, because their hosts could not send.
    pub(crate) fn failures(self, fabric: &Fabric) -> Vec<String> {
        match self {
            Each::Link => joined(fabric, false),
            Each::HostLink => joined(fabric, true),
            Each::Switch => {
                let hosts = only_switches(fabric);
                let switches = (0..).zip(fabric.network_switches());
                let switches = switches.filter(|(number, _)| !hosts.contains(number));
                switches.map(|(_, switch)| switch.name.clone()).collect()
            }
            Each::PairOfLinks => {
                let links = joined(fabric, false);
                let pairs = links
                    .iter()
                    .enumerate()
                    .flat_map(|(i, a)| links[i + 1..].iter().map(move |b| format!("{a}{AND}{b}")));
                pairs.collect()
            }
        }
    }
}

type Link = tidegate_core::fabric::Link;

/// Switches with all links of some host.
fn only_switches(fabric: &Fabric) -> BTreeSet<u32> {
    let mut of_host: BTreeMap<u32, BTreeSet<u32>> = BTreeMap::new();
    for (host, switch) in fabric.links.iter().filter_map(|link| fabric.access(link)) {
        of_host.entry(host).or_default().insert(switch);
    }
    of_host.into_values().filter(|all| all.len() == 1).flatten().collect()
}

/// Names of links to hosts, or of those between switches, each once.
fn joined(fabric: &Fabric, to_hosts: bool) -> Vec<String> {
    let mut known = BTreeSet::new();
    let links = fabric.links.iter().filter(|link| {
        let is_wanted = match to_hosts {
            true => fabric.access(link).is_some(),
            false => fabric.joins_switches(link),
        };
        is_wanted && known.insert((link.a.min(link.b), link.a.max(link.b)))
    });
    links.map(|link| format!("{}{TO}{}", name(fabric, link.a), name(fabric, link.b))).collect()
}

fn name(fabric: &Fabric, node: Node) -> &str {
    match node {
        Node::Host(number) => &fabric.hosts[number as usize],
        Node::Switch(number) => &fabric.switches[number as usize].name,
    }
}

/// Reads the failure of a scenario.
pub(crate) fn outages(
    table: &Table,
    fabric: &Fabric,
    run: RunSettings,
    warnings: &mut Vec<String>,
) -> Result<Vec<Outage>, Error> {
    let text = table.find::<&str>("failure");
    let (down, up) = run.interval(table, ["failure_down", "failure_up"])?;
    if text.is_none() && (down, up) != (Time::ZERO, Time::NEVER) {
        warnings.push("failure_down and failure_up have no effect without failure".into());
    }
    let text = text.unwrap_or(NONE);
    if text == NONE {
        return Ok(Vec::new());
    }
    let links = links(text, fabric).ok_or_else(|| table.error("failure", expected(fabric)))?;
    let is_inner = |&link: &u32| fabric.access(&fabric.links[link as usize]).is_none();
    if fabric.circuits.is_some() && links.iter().any(is_inner) {
        let expected = "the link of a host: in a fabric with circuits, links between switches \
                        cannot fail";
        return Err(table.error("failure", expected));
    }
    let apart = apart(fabric, &links);
    if apart > 0 {
        let hosts = fabric.hosts.len() as u64;
        let (until, then) = match up {
            Time::NEVER => ("on".into(), "; messages between them then stay unfinished"),
            _ => (format!("to {up}"), ""),
        };
        warnings.push(format!(
            "the failure partitions the network: from {down} {until}, {apart} of {} ordered pairs \
             of hosts have no path{then}",
            hosts * (hosts - 1)
        ));
    }
    let outage = |link| Outage { of: Failing::Link(link), down, up };
    Ok(links.into_iter().map(outage).collect())
}

/// The links that fail, in order; `None` if the text names no failure of the fabric.
fn links(text: &str, fabric: &Fabric) -> Option<BTreeSet<u32>> {
    let mut all = BTreeSet::new();
    for one in text.split(AND) {
        let is_it = |link: &Link| {
            let [a, b] = [link.a, link.b].map(|end| name(fabric, end));
            let is_switch = |end: Node| matches!(end, Node::Switch(_));
            let joins = |a: &str, b: &str| {
                one.strip_prefix(a).and_then(|rest| rest.strip_prefix(TO)) == Some(b)
            };
            is_switch(link.a) && a == one
                || is_switch(link.b) && b == one
                || joins(a, b)
                || joins(b, a)
        };
        let mut found = (0..).zip(&fabric.links).filter(|(_, link)| is_it(link)).peekable();
        found.peek()?;
        all.extend(found.map(|(i, _)| i));
    }
    Some(all)
}

fn expected(fabric: &Fabric) -> String {
    let links = joined(fabric, false).into_iter().chain(joined(fabric, true));
    let switches = fabric.switches.iter().map(|switch| switch.name.clone());
    let examples = links.take(1).chain(switches.take(1)).chain([NONE.to_owned()]);
    format!(
        "a link by its ends, a switch, or several of them joined by {AND}: such as {}; to vary it \
         in a sweep, also {}",
        one_of(examples.collect::<Vec<_>>().iter().map(String::as_str)),
        one_of(Each::names())
    )
}

/// Returns the number of ordered pairs of hosts that have no path during the failure that a
/// scenario names (`faults.failure`). Other faults do not count.
pub fn unreachable_pairs(plan: &Plan) -> u64 {
    let failure = plan.resolved.pointer("/faults/failure").and_then(Value::as_str);
    failure.and_then(|text| links(text, &plan.fabric)).map_or(0, |down| apart(&plan.fabric, &down))
}

/// Returns whether a message from one host to another can never finish, because links or hosts that
/// are not repaired within the run leave no path.
pub fn disconnected(plan: &Plan) -> impl Fn(u32, u32) -> bool {
    let fabric = &plan.fabric;
    let end = plan.duration.after(plan.drain);
    let forever = plan.faults.outages.iter().filter(|outage| outage.up >= end);
    let (mut links, mut hosts) = (BTreeSet::new(), BTreeSet::new());
    for outage in forever {
        match outage.of {
            Failing::Link(link) => _ = links.insert(link),
            Failing::Host(host) => _ = hosts.insert(host),
            Failing::Nic(_) => {}
        }
    }
    let reached = (!links.is_empty()).then(|| reached(fabric, &links));
    let servers = fabric.servers;
    move |a, b| {
        let is_apart = |reached: &Vec<BTreeSet<usize>>| {
            let is_joined = servers.is_some_and(|servers| servers.joins(a, b));
            !is_joined && reached[a as usize].is_disjoint(&reached[b as usize])
        };
        hosts.contains(&a) || hosts.contains(&b) || reached.as_ref().is_some_and(is_apart)
    }
}

/// For each host, the parts of the network that it reaches while these links are down.
fn reached(fabric: &Fabric, down: &BTreeSet<u32>) -> Vec<BTreeSet<usize>> {
    let hosts = fabric.hosts.len();
    let number = |node| match node {
        Node::Host(host) => host as usize,
        Node::Switch(switch) => hosts + switch as usize,
    };
    let mut of: Vec<usize> = (0..hosts + fabric.switches.len()).collect();
    let root = |of: &mut Vec<usize>, mut node: usize| {
        while of[node] != node {
            of[node] = of[of[node]];
            node = of[node];
        }
        node
    };
    // NICs do not forward packets of others, so they join nothing.
    let ends_at_nic = |link: &Link| fabric.is_nic(link.a) || fabric.is_nic(link.b);
    let with = |is_down: bool| {
        let numbered = (0..).zip(&fabric.links);
        numbered.filter(move |(i, _)| down.contains(i) == is_down).map(|(_, link)| link)
    };
    for link in with(false).filter(|link| !ends_at_nic(link)) {
        let [a, b] = [link.a, link.b].map(|end| root(&mut of, number(end)));
        of[a] = b;
    }
    let mut reached: Vec<BTreeSet<usize>> = (0..hosts).map(|_| BTreeSet::new()).collect();
    if fabric.first_nic.is_none() {
        (0..hosts).for_each(|host| _ = reached[host].insert(root(&mut of, host)));
    }
    for link in with(false).filter(|link| ends_at_nic(link)) {
        if let Some((host, switch)) = fabric.access(link) {
            reached[host as usize].insert(root(&mut of, number(Node::Switch(switch))));
        }
    }
    // A host whose link to its NIC is down reaches nobody.
    for link in with(true).filter(|link| ends_at_nic(link)) {
        if let [Node::Host(host), _] | [_, Node::Host(host)] = [link.a, link.b] {
            reached[host as usize].clear();
        }
    }
    reached
}

/// Number of ordered pairs of hosts without a path while these links are down.
fn apart(fabric: &Fabric, down: &BTreeSet<u32>) -> u64 {
    let hosts = fabric.hosts.len();
    let mut groups: BTreeMap<BTreeSet<usize>, u64> = BTreeMap::new();
    reached(fabric, down).into_iter().for_each(|parts| *groups.entry(parts).or_default() += 1);
    let mut pairs = 0;
    for (parts, number) in &groups {
        let overlaps = |(others, _): &(&BTreeSet<usize>, &u64)| !parts.is_disjoint(others);
        let reachable: u64 = groups.iter().filter(overlaps).map(|(_, others)| *others).sum();
        // A host reaches itself in any case.
        pairs += number * reachable.max(1);
    }
    (hosts * hosts) as u64 - pairs
}
