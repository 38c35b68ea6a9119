//! Topology of a fabric in construction: its hosts, switches and links, and the keys and limits
//! that all kinds of fabrics share.

use tidegate_core::circuits::Circuits;
use tidegate_core::fabric::{Buffer, Link, Node, Stamping, Switch, TelemetryResolution};
use tidegate_core::{Rate, Span};

use crate::error::Error;
use crate::read::keys::{Default, FLIGHT, Key, LINK_RATE, Presence, Required, Shape, key};
use crate::read::table::Table;

/// Largest number of hosts, and of switches, in a fabric.
pub(crate) const MOST_NODES: u64 = 100_000;
/// Largest number of links in a fabric.
pub(crate) const MOST_LINKS: u64 = 1_000_000;

pub(super) const fn count(min: u64) -> Shape {
    Shape::Count { min, max: MOST_NODES }
}

/// Keys of a link whose ends the generator chooses.
static LINK: &[Key] = &[
    key("rate", LINK_RATE, Required, "Rate in each direction."),
    key("delay", FLIGHT, Required, "One-way propagation delay."),
];
pub(super) const LINK_SHAPE: Shape = Shape::Table(&[LINK]);
pub(super) const HOST_LINK: &str = "Links between hosts and their switches.";
pub(super) const FAST: Presence = Default(r#"{ rate = "100Gbps", delay = "1us" }"#);

/// Names and links, before `switch::configure` configures the switches.
#[derive(Debug, std::default::Default)]
pub(crate) struct Topology {
    pub(crate) hosts: Vec<String>,
    pub(crate) switches: Vec<Switch>,
    pub(crate) links: Vec<Link>,
    pub(crate) circuits: Option<Circuits>,
    /// First of the switches that are NICs, if hosts have several ports.
    pub(crate) first_nic: Option<u32>,
    /// Prefix of the names of switches.
    pub(super) prefix: String,
    /// Hosts that the plane in construction has connected.
    pub(super) connected: u32,
}

/// A link without its ends.
#[derive(Clone, Copy, std::default::Default)]
pub(super) struct Cable {
    rate: Rate,
    delay: Span,
}

impl Cable {
    /// The cable that a table of [`LINK_SHAPE`] describes.
    pub(super) fn of(link: &Table) -> Cable {
        Cable { rate: link.get("rate"), delay: link.get("delay") }
    }
}

/// The cable that a key of `table` describes.
pub(super) fn cable(table: &Table, key: &str) -> Cable {
    Cable::of(table.get(key))
}

impl Topology {
    pub(crate) fn add_switch(&mut self, name: String) -> Node {
        self.switches.push(Switch {
            name,
            latency: Span::ZERO,
            telemetry: Stamping::All,
            telemetry_resolution: TelemetryResolution::EXACT,
            buffer: Buffer::Unlimited,
            ecn: None,
            priorities: 8,
            pausing: None,
            credit_queue: None,
            trimming: None,
        });
        Node::Switch(self.switches.len() as u32 - 1)
    }

    pub(super) fn tier(&mut self, name: &str, number: u64) -> Vec<Node> {
        (0..number).map(|i| self.add_switch(format!("{}{name}{i}", self.prefix))).collect()
    }

    /// Connects the next hosts to `switch`. The first plane creates them.
    pub(super) fn add_hosts(&mut self, switch: Node, number: u64, cable: Cable) {
        for _ in 0..number {
            let host = self.connected;
            self.connected += 1;
            if host as usize == self.hosts.len() {
                self.hosts.push(format!("h{host}"));
            }
            self.connect(Node::Host(host), switch, cable);
        }
    }

    /// Connects the next `number` hosts of each of the switches, which are racks in groups of
    /// `rails`. Consecutive hosts are in consecutive racks of a group.
    pub(super) fn add_racks(&mut self, tors: &[Node], number: u64, cable: Cable, rails: usize) {
        for group in tors.chunks(rails) {
            for _ in 0..number {
                group.iter().for_each(|&tor| self.add_hosts(tor, 1, cable));
            }
        }
    }

    /// Gives every host a NIC, which ends its links. Half of their least delay is between NIC and
    /// host, so that the delays of paths stay the same.
    pub(super) fn add_nics(&mut self) {
        let first_nic = self.switches.len() as u32;
        let none = Cable { rate: Rate::default(), delay: Span::FOREVER };
        let mut inner = vec![none; self.hosts.len()];
        let host_of = |link: &Link| match (link.a, link.b) {
            (Node::Host(host), _) | (_, Node::Host(host)) => Some(host),
            _ => None,
        };
        for link in &self.links {
            let Some(host) = host_of(link) else { continue };
            let Cable { rate, delay } = &mut inner[host as usize];
            *rate = Rate::bps(rate.as_bps() + link.rate.as_bps());
            *delay = (*delay).min(Span::ps(link.delay.as_ps() / 2));
        }
        for link in &mut self.links {
            let Some(host) = host_of(link) else { continue };
            link.delay -= inner[host as usize].delay;
            let end = if link.a == Node::Host(host) { &mut link.a } else { &mut link.b };
            *end = Node::Switch(first_nic + host);
        }
        for (host, cable) in (0..).zip(inner) {
            let nic = self.add_switch(format!("{}.nic", self.hosts[host as usize]));
            self.connect(Node::Host(host), nic, cable);
        }
        let nics = &mut self.switches[first_nic as usize..];
        nics.iter_mut().for_each(|nic| nic.telemetry = Stamping::Off);
        self.first_nic = Some(first_nic);
    }

    pub(super) fn connect(&mut self, a: Node, b: Node, Cable { rate, delay }: Cable) {
        self.links.push(Link { a, b, rate, delay });
    }
}

/// The value of a key that counts something and is 1 unless set; some kinds do not have it.
pub(super) fn count_of(table: &Table, key: &str) -> u64 {
    table.find(key).unwrap_or(1)
}

/// Refuses fabrics that would not fit in memory, before they are built. The number of hosts is the
/// product of `hosts`.
pub(super) fn bounded(
    table: &Table,
    key: &str,
    hosts: [u64; 4],
    switches: u64,
    links: u64,
) -> Result<(), Error> {
    let hosts: u64 = hosts.iter().fold(1, |product: u64, factor| product.saturating_mul(*factor));
    let planes = count_of(table, "planes");
    // With several planes, every host has a NIC and a link to it.
    let nics = if planes > 1 { hosts } else { 0 };
    let switches = switches.saturating_mul(planes).saturating_add(nics);
    let links = links.saturating_mul(planes).saturating_add(nics);
    if hosts < 2 {
        return Err(table.error_found(
            key,
            format!("{hosts} host in total"),
            "at least 2 hosts in total",
        ));
    }
    for (number, most, what) in [
        (hosts, MOST_NODES, "hosts"),
        (switches, MOST_NODES, "switches"),
        (links, MOST_LINKS, "links"),
    ] {
        if number > most {
            let found = format!("{number} {what} in total");
            return Err(table.error_found(key, found, format!("at most {most} {what} in total")));
        }
    }
    Ok(())
}
