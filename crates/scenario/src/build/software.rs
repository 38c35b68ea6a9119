//! The file of a switch in software: its ports, who is behind them, and what it does.

use std::collections::BTreeSet;
use std::net::{Ipv4Addr, SocketAddrV4};

use tidegate_core::fabric::Switch;
use tidegate_core::{Rate, Span};

use super::switch;
use crate::error::Error;
use crate::read::keys::{Default, FLIGHT, Key, LINK_RATE, Optional, Required, Shape, key};
use crate::read::table::Table;

/// Most hosts: each pair takes two sockets, and a process has 1,024 files unless it asks for more.
const MOST_HOSTS: usize = 30;

/// A switch in software, as its file says it.
#[derive(Clone, Debug, PartialEq)]
pub struct SoftwareSwitch {
    /// What it is called.
    pub name: String,
    /// All chance in marks comes from here.
    pub seed: u64,
    /// How long it is there; `None`: until somebody ends it.
    pub duration: Option<Span>,
    /// What host i of n sends to host j goes to the port `i · n + j` above this one.
    pub listen: SocketAddrV4,
    /// What it does.
    pub switch: Switch,
    /// Its ports.
    pub ports: Vec<SoftwarePort>,
}

/// A port of a switch in software.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SoftwarePort {
    /// Unique.
    pub name: String,
    /// What it sends at.
    pub rate: Rate,
    /// From the port to the other end of its link.
    pub delay: Span,
    /// Where the hosts behind it receive.
    pub hosts: Vec<SocketAddrV4>,
}

/// Keys of the file.
pub(crate) const ROOT: &[&[Key]] = &[SECTIONS];

static SECTIONS: &[Key] = &[
    key("name", Shape::Text, Optional, "What the switch is called; the file's name unless set."),
    key("seed", Shape::Count { min: 0, max: u64::MAX }, Default("1"), "Chance in marks."),
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
    key("switch", Shape::Table(switch::ALONE), Default("{}"), "What the switch does."),
    key("port", Shape::Tables(&[PORT]), Required, "Its ports."),
];

static PORT: &[Key] = &[
    key("name", Shape::Text, Required, "Unique among the ports."),
    key("rate", LINK_RATE, Required, "What the port sends at."),
    key("delay", FLIGHT, Default("0us"), "From the port to the other end of its link."),
    key("hosts", Shape::Globs, Required, "Where the hosts behind it receive."),
];

/// The switch of a checked file that is called `stem`.
pub(crate) fn software_switch(root: &Table, stem: &str) -> Result<SoftwareSwitch, Error> {
    let name = root.find::<&str>("name").unwrap_or(stem).to_owned();
    let listen = address(root, "listen", root.get("listen"))?;
    let tables = root.tables("port");
    if tables.len() < 2 {
        return Err(root.error("port", "at least two ports"));
    }
    let mut ports = Vec::new();
    let (mut names, mut hosts) = (BTreeSet::new(), BTreeSet::new());
    for table in tables {
        let port = SoftwarePort {
            name: table.get::<&str>("name").to_owned(),
            rate: table.get("rate"),
            delay: table.get("delay"),
            hosts: table
                .get::<&[String]>("hosts")
                .iter()
                .map(|text| address(table, "hosts", text))
                .collect::<Result<_, Error>>()?,
        };
        if !names.insert(port.name.clone()) {
            return Err(table.error("name", "a name that no port before has"));
        }
        if let Some(twice) = port.hosts.iter().find(|host| !hosts.insert(**host)) {
            let found = format!("{twice} again");
            return Err(table.error_found("hosts", found, "addresses of other hosts than before"));
        }
        if hosts.len() > MOST_HOSTS {
            let found = format!("host {}", hosts.len());
            return Err(table.error_found("hosts", found, format!("{MOST_HOSTS} hosts in all")));
        }
        ports.push(port);
    }
    let last = listen.port() as usize + hosts.len() * hosts.len() - 1;
    if last > u16::MAX as usize {
        let expected = format!(
            "a port of at most {}, for {} hosts are sent to at {} ports from there on",
            u16::MAX as usize + 1 - hosts.len() * hosts.len(),
            hosts.len(),
            hosts.len() * hosts.len()
        );
        return Err(root.error("listen", expected));
    }
    let own = |host: &&SocketAddrV4| {
        let is_here = [*listen.ip(), Ipv4Addr::UNSPECIFIED].contains(host.ip());
        is_here && (listen.port() as usize..=last).contains(&(host.port() as usize))
    };
    if let Some(host) = hosts.iter().find(own) {
        let found = format!("{listen}, and a host at {host}");
        let expected =
            format!("{} ports in a row that are no host's", last + 1 - listen.port() as usize);
        return Err(root.error_found("listen", found, expected));
    }
    let duration = root.get::<Span>("duration");
    Ok(SoftwareSwitch {
        switch: switch::alone(root.get("switch"), &name)?,
        name,
        seed: root.get("seed"),
        duration: (duration < Span::FOREVER).then_some(duration),
        listen,
        ports,
    })
}

fn address(table: &Table, key: &str, text: &str) -> Result<SocketAddrV4, Error> {
    let address = text.parse().ok().filter(|address: &SocketAddrV4| address.port() > 0);
    address.ok_or_else(|| {
        let expected = "an IPv4 address with a UDP port, such as \"127.0.0.1:9000\"";
        table.error_found(key, format!("{text:?}"), expected)
    })
}
