//! The file of live switches: ports or a fabric, the places of the hosts, and the settings of the
//! switches.

use std::collections::BTreeSet;
use std::net::{Ipv4Addr, SocketAddrV4};

use tidegate_core::fabric::{
    Buffer, Fabric, Link, Node, Routing, Stamping, Switch, TelemetryResolution,
};
use tidegate_core::{Rate, Span};

use super::fabric;
use super::switch;
use super::topology::Topology;
use crate::error::Error;
use crate::read::keys::{Default, FLIGHT, Key, LINK_RATE, Optional, Required, SEED, Shape, key};
use crate::read::table::Table;

/// Largest number of hosts. Each needs a socket, and the default limit of open files of a process
/// is 1,024.
const MOST_HOSTS: usize = 250;
/// Payload of a full packet if the file has no fabric. It does not affect live packets.
const MTU: u32 = 1_500;

/// Live switches, as their file describes them.
#[derive(Clone, Debug, PartialEq)]
pub struct SoftwareSwitch {
    /// Name of the switches in reports.
    pub name: String,
    /// Seed of the random choices of marks and paths.
    pub seed: u64,
    /// Time after which they stop; `None`: they run until stopped.
    pub duration: Option<Span>,
    /// Switches and links. Each port of the file, or each host of its fabric, is a host here.
    pub fabric: Fabric,
    /// Routing of datagrams among equal paths.
    pub routing: Routing,
    /// Places of the hosts.
    pub places: Places,
}

/// Places of the hosts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Places {
    /// Hosts send UDP datagrams.
    Addresses {
        /// Addresses of the live hosts, by host of the fabric.
        hosts: Vec<Vec<SocketAddrV4>>,
        /// First address that the switch listens at. Datagrams for live host j, counted over all,
        /// are sent to this port plus j.
        listen: SocketAddrV4,
    },
    /// Hosts send Ethernet frames. Network interfaces of the hosts, by host of the fabric.
    Interfaces(Vec<String>),
}

/// Keys of the file.
pub(crate) const ROOT: &[&[Key]] = &[SECTIONS];

static SECTIONS: &[Key] = &[
    key(
        "name",
        Shape::Text,
        Optional,
        "Name of the switch in reports. Default: the name of the file.",
    ),
    key("seed", SEED, Default("1"), "Seed of the random choices of marks and paths."),
    key(
        "duration",
        Shape::Span { min: Span::ms(1), max: Span::FOREVER },
        Default("'inf'"),
        "Time after which the switch stops.",
    ),
    key(
        "listen",
        Shape::Text,
        Default("'127.0.0.1:20000'"),
        "First of the addresses that the switch listens at: one port per host, consecutive from \
         this one.",
    ),
    key(
        "switch",
        Shape::Table(switch::KEYS),
        Default("{ buffer = '1MB' }"),
        "Behaviour of the switches.",
    ),
    key("port", Shape::Tables(&[PORT]), Optional, "Ports of a single switch."),
    key(
        "fabric",
        Shape::Kinds(fabric::COMMON, fabric::KINDS),
        Optional,
        "Hosts, switches and links, instead of ports.",
    ),
    key(
        "hosts",
        Shape::Addresses,
        Optional,
        "With fabric: addresses of its hosts, in their order.",
    ),
    key(
        "interfaces",
        Shape::Names,
        Optional,
        "Instead of hosts: network interfaces that lead to the hosts, in their order.",
    ),
];

static PORT: &[Key] = &[
    key("name", Shape::Text, Required, "Name of the port; must be unique."),
    key("rate", LINK_RATE, Required, "Sending rate of the port."),
    key(
        "delay",
        FLIGHT,
        Default("0us"),
        "Propagation delay from the port to the other end of its link.",
    ),
    key("hosts", Shape::Addresses, Optional, "Addresses of the hosts behind the port."),
    key(
        "interface",
        Shape::Text,
        Optional,
        "Instead of hosts: network interface that leads to the hosts.",
    ),
];

/// Builds the switches of a checked file. `stem` is the name of the file without extension.
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
        fabric: switch::configure(table, topology, mtu)?.real(table)?,
        routing: switch::routing(table),
        places,
    })
}

/// Topology, places of the hosts, and payload of a full packet.
type PortTopology = (Topology, Places, u32);

/// Builds one switch with ports.
fn ports(root: &Table, name: &str) -> Result<PortTopology, Error> {
    if let Some(key) = ["hosts", "interfaces"].into_iter().find(|key| root.item(key).is_some()) {
        let expected =
            format!("no {key} without [fabric]: set hosts or interface in each [[port]]");
        return Err(root.error(key, expected));
    }
    let tables = root.tables("port");
    if !(2..=MOST_HOSTS).contains(&tables.len()) {
        return Err(root.error("port", format!("2 to {MOST_HOSTS} [[port]] tables, or a [fabric]")));
    }
    let mut topology = Topology { switches: vec![plain(name)], ..Topology::default() };
    for (number, table) in (0..).zip(tables) {
        let name = table.get::<&str>("name").to_owned();
        if topology.hosts.contains(&name) {
            return Err(table.error("name", "a unique name: an earlier port has this one"));
        }
        topology.hosts.push(name);
        let (rate, delay): (Rate, Span) = (table.get("rate"), table.get("delay"));
        topology.links.push(Link { a: Node::Host(number), b: Node::Switch(0), rate, delay });
    }
    Ok((topology, places(root, tables)?, MTU))
}

/// Returns the places of the hosts behind ports.
fn places(root: &Table, tables: &[Table]) -> Result<Places, Error> {
    let has = |key: &str| tables.iter().find(|table| table.item(key).is_some());
    let Some(table) = has("interface") else {
        let hosts = tables.iter().map(addresses).collect::<Result<Vec<_>, _>>()?;
        unique(root, tables, &hosts)?;
        return listening(root, hosts);
    };
    if let Some(other) = has("hosts") {
        let expected = format!(
            "either hosts or interfaces for all ports: {} is set too",
            table.path("interface")
        );
        return Err(other.error("hosts", expected));
    }
    let mut names = Vec::new();
    for table in tables {
        let Some(name) = table.find::<&str>("interface") else {
            return Err(table.error("interface", "a network interface for every port"));
        };
        if names.iter().any(|other| other == name) {
            let found = format!("{name:?} a second time");
            return Err(table.error_found(
                "interface",
                found,
                "a different interface for each port",
            ));
        }
        names.push(name.to_owned());
    }
    behind(root, names)
}

/// Returns hosts at these addresses.
fn listening(root: &Table, hosts: Vec<Vec<SocketAddrV4>>) -> Result<Places, Error> {
    let listen = address(root, "listen", root.get("listen"))?;
    apart(root, listen, &hosts)?;
    Ok(Places::Addresses { hosts, listen })
}

/// Returns hosts behind these interfaces.
fn behind(root: &Table, names: Vec<String>) -> Result<Places, Error> {
    match root.item("listen") {
        Some(listen) if !listen.at.is_builtin() => {
            Err(root.error("listen", "no listen with interfaces: remove listen"))
        }
        _ => Ok(Places::Interfaces(names)),
    }
}

/// A switch with default settings.
fn plain(name: &str) -> Switch {
    Switch {
        name: name.to_owned(),
        latency: Span::ZERO,
        telemetry: Stamping::All,
        telemetry_resolution: TelemetryResolution::EXACT,
        buffer: Buffer::Unlimited,
        ecn: None,
        priorities: 8,
        pausing: None,
        credit_queue: None,
        trimming: None,
    }
}

/// Builds a fabric with one live host for each of its hosts.
fn around(root: &Table, table: &Table) -> Result<PortTopology, Error> {
    if root.item("port").is_some() {
        return Err(root.error("port", "either [[port]] tables or a [fabric]"));
    }
    if table.item("preset").is_some() {
        let expected = "no preset: the rates of papers are too high for software switches";
        return Err(table.error("preset", expected));
    }
    let topology = fabric::topology(table)?;
    if topology.circuits.is_some() {
        return Err(
            table.error("kind", "a kind without circuits: live switches do not support them")
        );
    }
    let number = topology.hosts.len();
    if number > MOST_HOSTS {
        let found = format!("{number} hosts");
        return Err(table.error_found("kind", found, format!("at most {MOST_HOSTS} hosts")));
    }
    let enough = |key: &str, found: usize, what: &str| match found == number {
        true => Ok(()),
        false => {
            let expected = format!("{number}, one per host");
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
            let found = format!("{:?} a second time", names[at]);
            return Err(root.error_found(
                "interfaces",
                found,
                "a different interface for each host",
            ));
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

/// Refuses a duplicate address, and too many addresses. If the file has ports, `tables` are the
/// ports, and errors are reported there.
fn unique(root: &Table, tables: &[Table], hosts: &[Vec<SocketAddrV4>]) -> Result<(), Error> {
    let mut seen = BTreeSet::new();
    for (number, own) in hosts.iter().enumerate() {
        let table = tables.get(number).unwrap_or(root);
        if let Some(twice) = own.iter().find(|host| !seen.insert(**host)) {
            let found = format!("{twice} a second time");
            return Err(table.error_found("hosts", found, "a different address for each host"));
        }
        if seen.len() > MOST_HOSTS {
            let found = format!("host number {}", seen.len());
            return Err(table.error_found(
                "hosts",
                found,
                format!("at most {MOST_HOSTS} hosts in total"),
            ));
        }
    }
    Ok(())
}

/// Refuses a range of listening ports that exceeds 65535 or includes the port of a local host.
fn apart(root: &Table, listen: SocketAddrV4, hosts: &[Vec<SocketAddrV4>]) -> Result<(), Error> {
    let number = hosts.iter().flatten().count();
    let last = listen.port() as usize + number - 1;
    if last > u16::MAX as usize {
        let most = u16::MAX as usize + 1 - number;
        let expected = format!(
            "a port of at most {most}, because {number} hosts need as many consecutive ports"
        );
        return Err(root.error("listen", expected));
    }
    let own = |host: &&SocketAddrV4| {
        let is_local = [*listen.ip(), Ipv4Addr::UNSPECIFIED].contains(host.ip());
        is_local && (listen.port() as usize..=last).contains(&(host.port() as usize))
    };
    match hosts.iter().flatten().find(own) {
        None => Ok(()),
        Some(host) => {
            let found = format!("{listen}, whose range of ports includes the host {host}");
            let expected =
                format!("a range of {number} consecutive ports without the port of a host");
            Err(root.error_found("listen", found, expected))
        }
    }
}

fn addresses(table: &Table) -> Result<Vec<SocketAddrV4>, Error> {
    if table.item("hosts").is_none() {
        return Err(table.error("hosts", "addresses of hosts, or an interface"));
    }
    let texts = table.get::<&[String]>("hosts").iter();
    let one = |text: &String| {
        let host = address(table, "hosts", text)?;
        match host.ip().is_unspecified() {
            true => Err(table.error_found("hosts", format!("{text:?}"), "the address of one host")),
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
