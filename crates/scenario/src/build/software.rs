//! The file of switches in software: ports or a fabric, who is there, and what switches do.

use std::collections::BTreeSet;
use std::net::{Ipv4Addr, SocketAddrV4};

use tidegate_core::fabric::{Buffer, Fabric, Link, Node, Routing, Switch};
use tidegate_core::{Rate, Span};

use super::fabric::{self, Topology};
use super::switch;
use crate::error::Error;
use crate::read::keys::{Default, FLIGHT, Key, LINK_RATE, Optional, Required, Shape, key};
use crate::read::table::Table;

/// Most hosts: each takes a socket, and a process has 1,024 files unless it asks for more.
const MOST_HOSTS: usize = 250;
/// Payload of a full packet where no fabric says one; nothing real depends on it.
const MTU: u32 = 1_500;

/// Switches in software, as their file says it.
#[derive(Clone, Debug, PartialEq)]
pub struct SoftwareSwitch {
    /// What they are called together.
    pub name: String,
    /// All chance in marks and paths comes from here.
    pub seed: u64,
    /// How long they are there; `None`: until somebody ends them.
    pub duration: Option<Span>,
    /// What is for host j goes to the port j above this one.
    pub listen: SocketAddrV4,
    /// Switches and links; each port, or each host of the fabric, is a host of it.
    pub fabric: Fabric,
    /// How datagrams choose among equal paths.
    pub routing: Routing,
    /// By host of the fabric: where those receive that are there.
    pub hosts: Vec<Vec<SocketAddrV4>>,
}

/// Keys of the file.
pub(crate) const ROOT: &[&[Key]] = &[SECTIONS];

static SECTIONS: &[Key] = &[
    key("name", Shape::Text, Optional, "What the switch is called; the file's name unless set."),
    key("seed", Shape::Count { min: 0, max: u64::MAX }, Default("1"), "Chance in marks and paths."),
    key(
        "duration",
        Shape::Span { min: Span::ms(1), max: Span::FOREVER },
        Default("'inf'"),
        "How long the switch is there.",
    ),
    key(
        "listen",
        Shape::Text,
        Default("'127.0.0.1:20000'"),
        "First of the addresses that hosts send to.",
    ),
    key("switch", Shape::Table(switch::KEYS), Default("{ buffer = '1MB' }"), "What switches do."),
    key("port", Shape::Tables(&[PORT]), Optional, "Ports of one switch."),
    key(
        "fabric",
        Shape::Kinds(fabric::COMMON, fabric::KINDS),
        Optional,
        "Hosts, switches and links, in place of ports.",
    ),
    key(
        "hosts",
        Shape::Addresses,
        Optional,
        "Beside a fabric: where its hosts receive, in their order.",
    ),
];

static PORT: &[Key] = &[
    key("name", Shape::Text, Required, "Unique among the ports."),
    key("rate", LINK_RATE, Required, "What the port sends at."),
    key("delay", FLIGHT, Default("0us"), "From the port to the other end of its link."),
    key("hosts", Shape::Addresses, Required, "Where the hosts behind it receive."),
];

/// The switches of a checked file that is called `stem`.
pub(crate) fn software_switch(root: &Table, stem: &str) -> Result<SoftwareSwitch, Error> {
    let name = root.find::<&str>("name").unwrap_or(stem).to_owned();
    let (topology, hosts, mtu) = match root.find::<&Table>("fabric") {
        None => ports(root, &name)?,
        Some(fabric) => around(root, fabric)?,
    };
    let listen = address(root, "listen", root.get("listen"))?;
    apart(root, listen, &hosts)?;
    let table: &Table = root.get("switch");
    let duration = root.get::<Span>("duration");
    Ok(SoftwareSwitch {
        name,
        seed: root.get("seed"),
        duration: (duration < Span::FOREVER).then_some(duration),
        listen,
        fabric: switch::equip(table, topology, mtu)?.real(table)?,
        routing: switch::routing(table),
        hosts,
    })
}

/// What is there, by host of the fabric, and the payload of a full packet.
type Made = (Topology, Vec<Vec<SocketAddrV4>>, u32);

/// One switch with ports.
fn ports(root: &Table, name: &str) -> Result<Made, Error> {
    if root.item("hosts").is_some() {
        return Err(
            root.error("hosts", "no such key but beside [fabric]: each [[port]] has its own")
        );
    }
    let tables = root.tables("port");
    if !(2..=MOST_HOSTS).contains(&tables.len()) {
        return Err(root.error("port", format!("2 to {MOST_HOSTS} ports, or a [fabric]")));
    }
    let mut topology = Topology { switches: vec![plain(name)], ..Topology::default() };
    let mut hosts = Vec::new();
    for (number, table) in (0..).zip(tables) {
        let name = table.get::<&str>("name").to_owned();
        if topology.hosts.contains(&name) {
            return Err(table.error("name", "a name that no port before has"));
        }
        topology.hosts.push(name);
        let (rate, delay): (Rate, Span) = (table.get("rate"), table.get("delay"));
        topology.links.push(Link { a: Node::Host(number), b: Node::Switch(0), rate, delay });
        hosts.push(addresses(table)?);
    }
    unique(root, tables, &hosts)?;
    Ok((topology, hosts, MTU))
}

/// A switch of which nothing is said yet.
fn plain(name: &str) -> Switch {
    Switch {
        name: name.to_owned(),
        latency: Span::ZERO,
        telemetry: true,
        buffer: Buffer::Unlimited,
        ecn: None,
        priorities: 8,
        discipline: None,
        pausing: None,
        credit_queue: None,
    }
}

/// A fabric with one real host for each of its own.
fn around(root: &Table, table: &Table) -> Result<Made, Error> {
    if root.item("port").is_some() {
        return Err(root.error("port", "either ports or a [fabric]"));
    }
    if table.item("preset").is_some() {
        let expected = "no such key here: papers' rates are not for software";
        return Err(table.error("preset", expected));
    }
    let topology = fabric::topology(table)?;
    if topology.circuits.is_some() {
        return Err(table.error("kind", "a fabric without circuits"));
    }
    let number = topology.hosts.len();
    if number > MOST_HOSTS {
        let found = format!("{number} hosts");
        return Err(table.error_found("kind", found, format!("{MOST_HOSTS} hosts at most")));
    }
    let all = match root.item("hosts") {
        Some(_) => addresses(root)?,
        None => Vec::new(),
    };
    if all.len() != number {
        let found = format!("{} addresses", all.len());
        return Err(root.error_found("hosts", found, format!("{number}, one for each host")));
    }
    let hosts: Vec<Vec<_>> = all.into_iter().map(|host| vec![host]).collect();
    unique(root, &[], &hosts)?;
    let mtu = table.get::<u64>("mtu") as u32;
    Ok((topology, hosts, mtu))
}

/// Refuses an address that is there twice, and too many; those of a host of the fabric may stand
/// in a table of their own.
fn unique(root: &Table, tables: &[Table], hosts: &[Vec<SocketAddrV4>]) -> Result<(), Error> {
    let mut seen = BTreeSet::new();
    for (number, own) in hosts.iter().enumerate() {
        let table = tables.get(number).unwrap_or(root);
        if let Some(twice) = own.iter().find(|host| !seen.insert(**host)) {
            let found = format!("{twice} again");
            return Err(table.error_found("hosts", found, "addresses of other hosts than before"));
        }
        if seen.len() > MOST_HOSTS {
            let found = format!("host {}", seen.len());
            return Err(table.error_found("hosts", found, format!("{MOST_HOSTS} hosts in all")));
        }
    }
    Ok(())
}

/// Refuses to listen where there are no ports, or at ports of hosts.
fn apart(root: &Table, listen: SocketAddrV4, hosts: &[Vec<SocketAddrV4>]) -> Result<(), Error> {
    let number = hosts.iter().flatten().count();
    let last = listen.port() as usize + number - 1;
    if last > u16::MAX as usize {
        let most = u16::MAX as usize + 1 - number;
        let expected = format!(
            "a port of at most {most}, for {number} hosts are sent to at as many ports from it on"
        );
        return Err(root.error("listen", expected));
    }
    let own = |host: &&SocketAddrV4| {
        let is_here = [*listen.ip(), Ipv4Addr::UNSPECIFIED].contains(host.ip());
        is_here && (listen.port() as usize..=last).contains(&(host.port() as usize))
    };
    match hosts.iter().flatten().find(own) {
        None => Ok(()),
        Some(host) => {
            let found = format!("{listen}, and a host at {host}");
            let expected = format!("{number} ports in a row that are no host's");
            Err(root.error_found("listen", found, expected))
        }
    }
}

fn addresses(table: &Table) -> Result<Vec<SocketAddrV4>, Error> {
    let texts = table.get::<&[String]>("hosts").iter();
    texts.map(|text| address(table, "hosts", text)).collect()
}

fn address(table: &Table, key: &str, text: &str) -> Result<SocketAddrV4, Error> {
    let address = text.parse().ok().filter(|address: &SocketAddrV4| address.port() > 0);
    address.ok_or_else(|| {
        let expected = "an IPv4 address with a UDP port, such as \"127.0.0.1:9000\"";
        table.error_found(key, format!("{text:?}"), expected)
    })
}
