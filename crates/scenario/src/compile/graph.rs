//! `kind = "graph"`: a fabric given as lists of nodes and links.

use std::collections::{BTreeMap, BTreeSet};

use tidegate_core::Rate;
use tidegate_core::fabric::{Link, Node};

use super::topology::{MOST_NODES, Topology};
use crate::error::{Error, nearest, one_of};
use crate::read::keys::{FLIGHT, Key, LINK_RATE, Required, Shape, key};
use crate::read::table::Table;

/// Keys of this kind.
pub(crate) static KEYS: &[Key] = &[
    key("hosts", Shape::Names, Required, "Names of the hosts."),
    key("switches", Shape::Names, Required, "Names of the switches."),
    key(
        "links",
        Shape::Tables(&[LINK]),
        Required,
        "Full-duplex links. Each host has one, to a switch; or all have the same number, of one \
         rate. Hosts with several distribute packets by entropy over those on a shortest path.",
    ),
];

static LINK: &[Key] = &[
    key("a", Shape::Text, Required, "One end."),
    key("b", Shape::Text, Required, "The other end."),
    key("rate", LINK_RATE, Required, "Rate in each direction."),
    key("delay", FLIGHT, Required, "One-way propagation delay."),
];

/// Builds the topology.
pub(crate) fn topology(table: &Table) -> Result<Topology, Error> {
    let mut made =
        Topology { hosts: table.get::<&[String]>("hosts").to_vec(), ..Topology::default() };
    let switches: &[String] = table.get("switches");
    for (key, names, least) in [("hosts", &made.hosts[..], 2), ("switches", switches, 1)] {
        if names.len() < least || names.len() as u64 > MOST_NODES {
            return Err(table.error(key, format!("{least} to {MOST_NODES} names")));
        }
    }
    for name in switches {
        made.add_switch(name.clone());
    }
    let nodes = nodes(table, &made)?;
    let mut links_of_host: Vec<Vec<Rate>> = vec![Vec::new(); made.hosts.len()];
    for link in table.tables("links") {
        let ends = [end(link, "a", &nodes)?, end(link, "b", &nodes)?];
        if ends[0] == ends[1] {
            return Err(link.error("b", "a node other than a: a link has two ends"));
        }
        if let [Node::Host(_), Node::Host(_)] = ends {
            return Err(
                link.error("b", format!("a switch, because a is a host: {}", some(switches)))
            );
        }
        if let [Node::Host(host), _] | [_, Node::Host(host)] = ends {
            links_of_host[host as usize].push(link.get("rate"));
        }
        made.links.push(Link {
            a: ends[0],
            b: ends[1],
            rate: link.get("rate"),
            delay: link.get("delay"),
        });
    }
    let ports = ports(table, &made.hosts, &links_of_host)?;
    connected(table, &made)?;
    if ports > 1 {
        reachable(table, &made)?;
        let taken = |host: &String| switches.iter().any(|name| *name == format!("{host}.nic"));
        if let Some(host) = made.hosts.iter().find(|host| taken(host)) {
            let found = format!("the name \"{host}.nic\", which the NIC of {host:?} has");
            return Err(table.error_found("switches", found, "another name"));
        }
        made.add_nics();
    }
    Ok(made)
}

/// Number of links of every host, from the rates of the links of each.
fn ports(table: &Table, hosts: &[String], links: &[Vec<Rate>]) -> Result<usize, Error> {
    let number = links[0].len();
    for (host, of_host) in hosts.iter().zip(links) {
        let expected = "for every host one link, or for all the same number of links";
        let found = match of_host.len() {
            0 => format!("host {host:?} without a link"),
            other if other != number => {
                format!("{number} links of host {:?} and {other} of host {host:?}", hosts[0])
            }
            _ => match of_host.iter().find(|rate| **rate != of_host[0]) {
                None => continue,
                Some(rate) => {
                    let found = format!("links of {} and {rate} of host {host:?}", of_host[0]);
                    return Err(table.error_found("links", found, "links of one rate per host"));
                }
            },
        };
        return Err(table.error_found("links", found, expected));
    }
    Ok(number)
}

fn some(names: &[String]) -> String {
    const SHOWN: usize = 8;
    let shown = one_of(names.iter().take(SHOWN).map(String::as_str));
    if names.len() > SHOWN { format!("{shown} or {} others", names.len() - SHOWN) } else { shown }
}

/// Whether a text is a valid name: names appear in globs, columns and file names, so only letters,
/// digits and `_-.:` are allowed.
pub(crate) fn is_name(text: &str) -> bool {
    (1..=64).contains(&text.len())
        && text.bytes().all(|b| b.is_ascii_alphanumeric() || b"_-.:".contains(&b))
}

fn nodes<'a>(table: &'a Table, made: &Topology) -> Result<BTreeMap<&'a str, Node>, Error> {
    let mut nodes = BTreeMap::new();
    let hosts: &[String] = table.get("hosts");
    let switches: &[String] = table.get("switches");
    let named = hosts.iter().enumerate().map(|(i, name)| ("hosts", name, Node::Host(i as u32)));
    let named = named.chain(
        switches.iter().enumerate().map(|(i, name)| ("switches", name, Node::Switch(i as u32))),
    );
    for (key, name, node) in named {
        if !is_name(name) {
            let expected = "names of 1 to 64 characters, each a letter, a digit or one of _ - . :";
            return Err(table.error_found(key, format!("the name {name:?}"), expected));
        }
        if nodes.insert(name.as_str(), node).is_some() {
            return Err(table.error_found(
                key,
                format!("the name {name:?} twice"),
                "unique names of hosts and switches",
            ));
        }
    }
    debug_assert_eq!(nodes.len(), made.hosts.len() + made.switches.len());
    Ok(nodes)
}

fn end(link: &Table, key: &str, nodes: &BTreeMap<&str, Node>) -> Result<Node, Error> {
    let name: &str = link.get(key);
    nodes.get(name).copied().ok_or_else(|| {
        link.error(key, "the name of a host or switch")
            .suggest(nearest(name, nodes.keys().copied()))
    })
}

/// Refuses a topology in which some node cannot reach another.
fn connected(table: &Table, made: &Topology) -> Result<(), Error> {
    let name = |node| match node {
        Node::Host(host) => &made.hosts[host as usize],
        Node::Switch(switch) => &made.switches[switch as usize].name,
    };
    match apart(made) {
        None => Ok(()),
        Some((one, other)) => {
            let found = format!("no path between {:?} and {:?}", name(one), name(other));
            Err(table.error_found("links", found, "links that connect all hosts and switches"))
        }
    }
}

/// Refuses hosts with several links that only the NIC of another host connects.
fn reachable(table: &Table, made: &Topology) -> Result<(), Error> {
    let between_switches =
        |link: &&Link| matches!((link.a, link.b), (Node::Switch(_), Node::Switch(_)));
    let group = groups(made, made.links.iter().filter(between_switches));
    let mut groups_of_host: Vec<BTreeSet<usize>> = vec![BTreeSet::new(); made.hosts.len()];
    for link in &made.links {
        if let (Node::Host(host), switch) | (switch, Node::Host(host)) = (link.a, link.b) {
            groups_of_host[host as usize].insert(group[number(made, switch)]);
        }
    }
    // Usually all hosts share a group.
    let mut shared = groups_of_host[0].clone();
    groups_of_host.iter().for_each(|groups| shared.retain(|group| groups.contains(group)));
    if !shared.is_empty() {
        return Ok(());
    }
    // The first host of each kind: hosts of a kind have links to the same groups of switches.
    let mut kinds: BTreeMap<&BTreeSet<usize>, usize> = BTreeMap::new();
    for (host, groups) in groups_of_host.iter().enumerate() {
        if kinds.contains_key(groups) {
            continue;
        }
        let separate = kinds.iter().filter(|(other, _)| groups.is_disjoint(other));
        if let Some(other) = separate.map(|(_, &other)| other).min() {
            let [a, b] = [other, host].map(|host| &made.hosts[host]);
            let found = format!("no path between {a:?} and {b:?} except through other hosts");
            let expected = "links between switches that connect all hosts: the NIC of a host with \
                            several links does not forward packets of other hosts";
            return Err(table.error_found("links", found, expected));
        }
        kinds.insert(groups, host);
    }
    Ok(())
}

/// Number of a node: hosts come first.
fn number(made: &Topology, node: Node) -> usize {
    match node {
        Node::Host(i) => i as usize,
        Node::Switch(i) => made.hosts.len() + i as usize,
    }
}

/// By number of a node: the least number among the nodes that these links connect with it.
fn groups<'a>(made: &Topology, links: impl Iterator<Item = &'a Link>) -> Vec<usize> {
    let mut group: Vec<usize> = (0..made.hosts.len() + made.switches.len()).collect();
    fn root(group: &mut [usize], mut i: usize) -> usize {
        while group[i] != i {
            group[i] = group[group[i]];
            i = group[i];
        }
        i
    }
    for link in links {
        let [a, b] = [link.a, link.b].map(|end| root(&mut group, number(made, end)));
        group[a.max(b)] = a.min(b);
    }
    (0..group.len()).map(|i| root(&mut group, i)).collect()
}

/// Two nodes without a path between them, if there are any.
pub(crate) fn apart(made: &Topology) -> Option<(Node, Node)> {
    let other = groups(made, made.links.iter()).iter().position(|&group| group != 0)?;
    let hosts = made.hosts.len();
    let node = |number: usize| match number.checked_sub(hosts) {
        None => Node::Host(number as u32),
        Some(switch) => Node::Switch(switch as u32),
    };
    Some((node(0), node(other)))
}
