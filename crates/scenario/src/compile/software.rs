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
    /// Switches and links; each port, or each host of the fabric, is a host of it.
    pub fabric: Fabric,
    /// How datagrams choose among equal paths.
    pub routing: Routing,
    /// Where hosts are.
    pub places: Places,
}

/// Where hosts are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Places {
    /// They send UDP datagrams.
    Addresses {
        /// By host of the fabric: where those receive that are there.
        hosts: Vec<Vec<SocketAddrV4>>,
        /// What is for host j (counted over all) goes to the port j above this one.
        listen: SocketAddrV4,
    },
    /// They send Ethernet frames. By host of the fabric: the network interface it is behind.
    Interfaces(Vec<String>),
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
    key(
        "interfaces",
        Shape::Names,
        Optional,
        "In place of hosts: the network interfaces that they are behind, in their order.",
    ),
];

static PORT: &[Key] = &[
    key("name", Shape::Text, Required, "Unique among the ports."),
    key("rate", LINK_RATE, Required, "What the port sends at."),
    key("delay", FLIGHT, Default("0us"), "From the port to the other end of its link."),
    key("hosts", Shape::Addresses, Optional, "Where the hosts behind it receive."),
    key(
        "interface",
        Shape::Text,
        Optional,
        "In place of hosts: the network interface they are at.",
    ),
];

/// The switches of a checked file that is called `stem`.
pub(crate) fn software_switch(root: &Table, stem: &str) -> Result<SoftwareSwitch, Error> {
    let name = root.find::<&str>("name").unwrap_or(stem).to_owned();
    let (topology, places, mtu) = match root.find::<&Table>("fabric") {
        None => ports(root, &name)?,
        Some(fabric) => around(root, fabric)?,
    };
    let table: &Table = root.get("switch");
    let duration = root.get::<Span>("duration");
    Ok(SoftwareSwitch {
        name,
        seed: root.get("seed"),
        duration: (duration < Span::FOREVER).then_some(duration),
        fabric: switch::equip(table, topology, mtu)?.real(table)?,
        routing: switch::routing(table),
        places,
    })
}

/// What is there, who is where, and the payload of a full packet.
type Made = (Topology, Places, u32);

/// One switch with ports.
fn ports(root: &Table, name: &str) -> Result<Made, Error> {
    if let Some(key) = ["hosts", "interfaces"].into_iter().find(|key| root.item(key).is_some()) {
        let expected = "no such key but beside [fabric]: each [[port]] has its own";
        return Err(root.error(key, expected));
    }
    let tables = root.tables("port");
    if !(2..=MOST_HOSTS).contains(&tables.len()) {
        return Err(root.error("port", format!("2 to {MOST_HOSTS} ports, or a [fabric]")));
    }
    let mut topology = Topology { switches: vec![plain(name)], ..Topology::default() };
    for (number, table) in (0..).zip(tables) {
        let name = table.get::<&str>("name").to_owned();
        if topology.hosts.contains(&name) {
            return Err(table.error("name", "a name that no port before has"));
        }
        topology.hosts.push(name);
        let (rate, delay): (Rate, Span) = (table.get("rate"), table.get("delay"));
        topology.links.push(Link { a: Node::Host(number), b: Node::Switch(0), rate, delay });
    }
    Ok((topology, places(root, tables)?, MTU))
}

/// Who is behind ports.
fn places(root: &Table, tables: &[Table]) -> Result<Places, Error> {
    let has = |key: &str| tables.iter().find(|table| table.item(key).is_some());
    let Some(table) = has("interface") else {
        let hosts = tables.iter().map(addresses).collect::<Result<Vec<_>, _>>()?;
        unique(root, tables, &hosts)?;
        return listening(root, hosts);
    };
    if let Some(other) = has("hosts") {
        let expected = format!("either hosts or interfaces; {} is there", table.path("interface"));
        return Err(other.error("hosts", expected));
    }
    let mut names = Vec::new();
    for table in tables {
        let Some(name) = table.find::<&str>("interface") else {
            return Err(table.error("interface", "one for each port"));
        };
        if names.iter().any(|other| other == name) {
            let found = format!("{name:?} again");
            return Err(table.error_found("interface", found, "other interfaces than before"));
        }
        names.push(name.to_owned());
    }
    behind(root, names)
}

/// Hosts at these addresses.
fn listening(root: &Table, hosts: Vec<Vec<SocketAddrV4>>) -> Result<Places, Error> {
    let listen = address(root, "listen", root.get("listen"))?;
    apart(root, listen, &hosts)?;
    Ok(Places::Addresses { hosts, listen })
}

/// Hosts behind these interfaces.
fn behind(root: &Table, names: Vec<String>) -> Result<Places, Error> {
    match root.item("listen") {
        Some(listen) if !listen.at.is_builtin() => {
            Err(root.error("listen", "no such key beside interfaces, which nobody sends to"))
        }
        _ => Ok(Places::Interfaces(names)),
    }
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
    let enough = |key: &str, found: usize, what: &str| match found == number {
        true => Ok(()),
        false => {
            let expected = format!("{number}, one for each host");
            Err(root.error_found(key, format!("{found} {what}"), expected))
        }
    };
    let places = if let Some(names) = root.find::<&[String]>("interfaces") {
        if root.item("hosts").is_some() {
            return Err(root.error("hosts", "either hosts or interfaces"));
        }
        enough("interfaces", names.len(), "interfaces")?;
        let twice = (1..number).find(|&at| names[..at].contains(&names[at]));
        if let Some(at) = twice {
            let found = format!("{:?} again", names[at]);
            return Err(root.error_found("interfaces", found, "one for each host"));
        }
        behind(root, names.to_vec())?
    } else {
        let all = match root.item("hosts") {
            Some(_) => addresses(root)?,
            None => Vec::new(),
        };
        enough("hosts", all.len(), "addresses")?;
        let hosts: Vec<Vec<_>> = all.into_iter().map(|host| vec![host]).collect();
        unique(root, &[], &hosts)?;
        listening(root, hosts)?
    };
    Ok((topology, places, table.get::<u64>("mtu") as u32))
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
    if table.item("hosts").is_none() {
        return Err(table.error("hosts", "where hosts receive, or an interface"));
    }
    let texts = table.get::<&[String]>("hosts").iter();
    let one = |text: &String| {
        let host = address(table, "hosts", text)?;
        match host.ip().is_unspecified() {
            true => Err(table.error_found("hosts", format!("{text:?}"), "where one host receives")),
            false => Ok(host),
        }
    };
    texts.map(one).collect()
}

fn address(table: &Table, key: &str, text: &str) -> Result<SocketAddrV4, Error> {
    let is_one = |address: &SocketAddrV4| {
        address.port() > 0 && !address.ip().is_multicast() && !address.ip().is_broadcast()
    };
    let address = text.parse().ok().filter(is_one);
    address.ok_or_else(|| {
        let expected = "an IPv4 address of one host with a UDP port, such as \"127.0.0.1:9000\"";
        table.error_found(key, format!("{text:?}"), expected)
    })
}
