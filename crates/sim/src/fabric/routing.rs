//! Routing of packets, and the ideal completion time of messages.

use std::collections::BTreeMap;
use std::sync::Arc;

use tidegate_core::fabric::{Fabric, HashSeeds, Node, Routing as Choice};
use tidegate_core::routes::{Routes, Ways};
use tidegate_core::workload::Flow;
use tidegate_core::{Domain, HEADER_BYTES, PacketSizes, Path, PathOracle, Rate, Rng, Span};

pub(crate) use tidegate_core::routes::NO_PORT;

use crate::fabric::symmetric::{Symmetric, Tiers, mixed};
use crate::setup::Setup;

/// Links of one tier of a sprayed message. Each packet crosses one of them.
#[derive(Clone, Copy, Debug)]
struct Layer {
    fastest: Rate,
    /// Least delay of any link.
    delay: Span,
    /// All links together.
    bytes_per_ps: f64,
    links: usize,
}

/// Shortest paths, choices among equal paths, and completion times in an empty network.
pub(crate) struct Routing {
    /// Shared by all partitions until links fail.
    routes: Arc<Routes>,
    /// Hash salts by switch that is no NIC. Empty if choices are symmetric, so that other modes
    /// need only one lookup.
    salts: Vec<u32>,
    /// Set if both directions of a connection take the same links.
    symmetric: Option<Symmetric>,
    /// Tiers between the switches of a pair, by kind of pair. Used if packets are sprayed.
    layers: BTreeMap<(u32, u32), Box<[Layer]>>,
    /// By kind of pair: paths with different links. Empty if all paths are alike.
    ways: BTreeMap<(u32, u32), Box<[Way]>>,
    /// Rate and propagation delay of circuits, by the racks that they lead from and to.
    circuits: BTreeMap<(u32, u32), (Rate, Span)>,
    /// First of the switches that are NICs; `u32::MAX` without.
    first_nic: u32,
    /// Ports of the NICs into the network, NIC by NIC, and their number at each.
    nic_ports: Vec<u32>,
    ports_per_nic: usize,
    mtu: u32,
    bdp_bytes: Option<f64>,
}

impl Routing {
    pub(crate) fn new(setup: &Setup, routes: Arc<Routes>) -> Routing {
        let mut rng = Rng::stream(setup.seed, Domain::Routing, 0);
        let is_symmetric = setup.routing == Choice::SymmetricEcmp;
        let salts = if is_symmetric { Vec::new() } else { salts(&setup.fabric, &mut rng) };
        Routing {
            salts,
            symmetric: is_symmetric.then(|| Symmetric::new(&setup.fabric, rng.bits() as u32)),
            layers: BTreeMap::new(),
            ways: BTreeMap::new(),
            circuits: circuits(&setup.fabric, &routes),
            routes,
            first_nic: setup.fabric.first_nic.unwrap_or(u32::MAX),
            nic_ports: nic_ports(&setup.fabric),
            ports_per_nic: setup.fabric.ports_per_host() as usize,
            mtu: setup.fabric.mtu,
            bdp_bytes: setup.bdp_bytes,
        }
    }

    /// Routes around links that are down. Base RTTs and ideal times stay those of the intact
    /// fabric.
    pub(crate) fn reroute(&mut self, is_up: impl Fn(u32) -> bool) {
        Arc::make_mut(&mut self.routes).reroute(is_up);
    }

    /// The egress port of `switch` for a packet to `dst` with this `entropy`; [`NO_PORT`] if no
    /// path is left. Switches hash the entropy.
    #[inline]
    pub(crate) fn egress(&self, switch: u32, dst: u32, entropy: u32) -> u32 {
        self.routes.egress(switch, dst, |ways| match self.salts.get(switch as usize) {
            Some(salt) => {
                let hash = mixed(entropy ^ salt);
                ways.port(((hash as u64 * ways.number() as u64) >> 32) as u32)
            }
            None => self.without_salt(switch, dst, entropy),
        })
    }

    /// As `egress`, at NICs and with symmetric choices. A separate function, so that others pay
    /// nothing.
    #[cold]
    #[inline(never)]
    fn without_salt(&self, switch: u32, dst: u32, entropy: u32) -> u32 {
        self.routes.egress(switch, dst, |ways| match &self.symmetric {
            _ if self.is_nic(switch) => self.port_of_nic(switch, entropy, ways),
            Some(symmetric) => symmetric.choose(entropy, ways),
            None => NO_PORT,
        })
    }

    /// The port of a NIC: that of the entropy modulo the number of ports, so that consecutive
    /// entropies use all of them equally. If it has no path, the others share its packets, and
    /// theirs stay.
    fn port_of_nic(&self, nic: u32, entropy: u32, ways: Ways<'_>) -> u32 {
        let number = self.ports_per_nic;
        let ports = &self.nic_ports[(nic - self.first_nic) as usize * number..][..number];
        let port = ports[entropy as usize % number];
        if ways.ports().any(|way| way == port) {
            return port;
        }
        ways.port(((mixed(entropy) as u64 * ways.number() as u64) >> 32) as u32)
    }

    /// Whether a switch is the NIC of a host.
    pub(crate) fn is_nic(&self, switch: u32) -> bool {
        switch >= self.first_nic
    }

    pub(crate) fn uplink(&self, host: u32) -> u32 {
        self.routes.uplink(host)
    }

    /// The largest base RTT of any pair.
    pub(crate) fn fabric_base_rtt(&self) -> Span {
        self.routes.reach().base_rtt
    }

    /// The largest round trip of minimum-size packets.
    pub(crate) fn fabric_control_rtt(&self) -> Span {
        self.routes.reach().control_rtt
    }

    pub(crate) fn nic_rate(&self, host: u32) -> Rate {
        self.routes.edge(self.routes.uplink(host)).rate
    }

    pub(crate) fn bdp_bytes(&self, host: u32) -> f64 {
        self.bdp_bytes
            .unwrap_or_else(|| self.nic_rate(host).bytes_in(self.fabric_base_rtt()) as f64)
    }

    /// Ideal completion time of `bytes` of payload: store and forward, full packets of the fabric's
    /// MTU with the headers of `sizes` each. It refers to the path that is best for this message
    /// and is exact to the picosecond. For packets over many paths it is a lower bound: what all
    /// paths together need.
    pub(crate) fn ideal(&mut self, setup: &Setup, flow: &Flow) -> Span {
        let Flow { src, dst, bytes, stack, .. } = *flow;
        let message = Packets::of(bytes, self.mtu, &setup.sizes(stack));
        if setup.takes_many_paths(stack)
            && let Some(kind) = self.routes.kind_of_pair(src, dst)
        {
            let routes = &self.routes;
            let between = self.layers.entry(kind).or_insert_with(|| {
                routes.layers(src, dst).iter().map(|ports| Layer::of(routes, ports)).collect()
            });
            if between.iter().any(|layer| layer.links > 1) {
                let end = |port| Layer::of(routes, &[port]);
                let (up, down) = (end(routes.uplink(src)), end(routes.uplink(dst) ^ 1));
                return message.over_layers(|| {
                    std::iter::once(&up).chain(between.iter()).chain(std::iter::once(&down))
                });
            }
        }
        let ports = self.routes.path(src, dst);
        let link = |&port: &u32| {
            let edge = self.routes.edge(port);
            (edge.rate, edge.delay)
        };
        let ends = [src, dst].map(|host| self.routes.edge(self.routes.uplink(host)).to);
        if let [Node::Switch(from), Node::Switch(to)] = ends
            && let Some(&circuit) = self.circuits.get(&(from, to))
            && let [up, between @ .., down] = &ports[..]
        {
            let best = bounding_link(circuit, between.iter().map(link));
            return message.over_path([link(up), best, link(down)].into_iter());
        }
        if let Some(kind) = self.routes.kind_of_pair(src, dst)
            && let [up, .., down] = &ports[..]
        {
            let routes = &self.routes;
            let ways = self.ways.entry(kind).or_insert_with(|| {
                let ways = routes.ways(src, dst, MOST_WAYS);
                if ways.len() > 1 {
                    ways.into_iter().map(Way::from).collect()
                } else {
                    Box::new([])
                }
            });
            let over = |way: &Way| {
                message.over_path([link(up)].into_iter().chain(way.to_vec()).chain([link(down)]))
            };
            if let Some(least) = ways.iter().map(over).min() {
                return least;
            }
        }
        message.over_path(ports.iter().map(link))
    }
}

/// Ports of the NICs into the network, NIC by NIC, in the order of links; none without NICs.
fn nic_ports(fabric: &Fabric) -> Vec<u32> {
    if fabric.first_nic.is_none() {
        return Vec::new();
    }
    let mut of_nic = vec![Vec::new(); fabric.hosts.len()];
    for (link, port) in fabric.links.iter().zip((0..).step_by(2)) {
        if let Some((host, _)) = fabric.access(link) {
            let leads_away = fabric.host_at(link.b).is_none();
            of_nic[host as usize].push(if leads_away { port } else { port + 1 });
        }
    }
    of_nic.concat()
}

/// Hash salts by switch that is no NIC.
fn salts(fabric: &Fabric, rng: &mut Rng) -> Vec<u32> {
    let each: Vec<u32> = fabric.network_switches().iter().map(|_| rng.bits() as u32).collect();
    let of = |tier: u32| each[tier as usize];
    match fabric.hash_seeds {
        HashSeeds::PerSwitch => each,
        HashSeeds::PerTier => Tiers::of(fabric).tier.into_iter().take(each.len()).map(of).collect(),
        HashSeeds::Same => each.iter().map(|_| of(0)).collect(),
    }
}

/// Rate and delay of the links between two switches, in order.
type Way = Box<[(Rate, Span)]>;

/// Maximum number of different paths between two switches.
const MOST_WAYS: usize = 1000;

/// Circuits that are up at any time, by the racks that they lead from and to.
fn circuits(fabric: &Fabric, routes: &Routes) -> BTreeMap<(u32, u32), (Rate, Span)> {
    let Some(circuits) = &fabric.circuits else { return BTreeMap::new() };
    let ports = circuits.ports(fabric).into_iter();
    let ever = ports.filter(|&(_, from, to)| !circuits.days(from, to).is_empty());
    let edge = |port| (routes.edge(port).rate, routes.edge(port).delay);
    ever.map(|(port, from, to)| ((from, to), edge(port))).collect()
}

/// A link that is at least as fast as a circuit and as the packet network between the same racks,
/// so that it bounds every message, whichever way its packets take.
fn bounding_link(
    circuit: (Rate, Span),
    between: impl Iterator<Item = (Rate, Span)>,
) -> (Rate, Span) {
    let none = (Rate::default(), Span::ZERO);
    let (rate, delay) = between.fold(none, |all, link| (all.0.max(link.0), all.1 + link.1));
    (circuit.0.max(rate), circuit.1.min(delay))
}

impl Layer {
    fn of(routes: &Routes, ports: &[u32]) -> Layer {
        let edges = || ports.iter().map(|&port| routes.edge(port));
        Layer {
            fastest: edges().map(|edge| edge.rate).max().unwrap_or_default(),
            delay: edges().map(|edge| edge.delay).min().unwrap_or_default(),
            bytes_per_ps: edges()
                .map(|edge| (1u64 << 20) as f64 / edge.rate.ps_per_byte_q20() as f64)
                .sum(),
            links: ports.len(),
        }
    }

    /// The least time in which its links carry `fulls` packets of `full` bytes and then, possibly,
    /// one of `last` bytes.
    fn carries(&self, fulls: u64, full: u64, last: Option<u64>) -> Span {
        let (one, rest) =
            (self.fastest.serialise(full), last.map(|last| self.fastest.serialise(last)));
        if self.links == 1 {
            return one.times(fulls) + rest.unwrap_or(Span::ZERO);
        }
        // The time of each packet is rounded down to a picosecond.
        let packets = fulls + last.is_some() as u64;
        let bytes = (fulls * full + last.unwrap_or(0)) as f64;
        let together = Span::from_ps_f64(bytes / self.bytes_per_ps).beyond(Span::ps(packets + 1));
        together.max(if fulls > 0 { one } else { Span::ZERO }).max(rest.unwrap_or(Span::ZERO))
    }
}

/// The packets of a message: full ones, and the last one.
struct Packets {
    fulls: u64,
    full: u64,
    last: u64,
}

impl Packets {
    fn of(bytes: u64, mtu: u32, sizes: &PacketSizes) -> Packets {
        let fulls = bytes.div_ceil(mtu as u64) - 1;
        let wire = |payload: u32| sizes.data(payload) as u64;
        Packets { fulls, full: wire(mtu), last: wire((bytes - fulls * mtu as u64) as u32) }
    }

    /// Time over one path, one packet after another.
    fn over_path(&self, links: impl Iterator<Item = (Rate, Span)>) -> Span {
        // The last packet leaves each link after it has arrived there and all full packets before
        // it have left.
        let mut full_first = Span::ZERO;
        let mut slowest = Span::ZERO;
        let mut last_left = Span::ZERO;
        for (rate, delay) in links {
            let serialise = rate.serialise(self.full);
            slowest = slowest.max(serialise);
            full_first += serialise;
            let fulls_left = match self.fulls {
                0 => Span::ZERO,
                fulls => full_first.plus(slowest.times(fulls - 1)),
            };
            last_left = last_left.max(fulls_left) + rate.serialise(self.last);
            full_first += delay;
            last_left += delay;
        }
        last_left
    }

    /// Lower bound if each packet takes a link of its own in every layer, in any order. No byte
    /// reaches a layer earlier than the quickest packet; all bytes pass the layer; and the last of
    /// them still has to travel the rest of the way. The same holds for the full packets alone.
    fn over_layers<'a, I: Iterator<Item = &'a Layer>>(&self, layers: impl Fn() -> I) -> Span {
        let bound = |fulls: u64, last: Option<u64>| {
            let quickest = last.unwrap_or(self.full);
            let crossing = |layer: &Layer| layer.fastest.serialise(quickest) + layer.delay;
            let whole = layers().fold(Span::ZERO, |sum, layer| sum + crossing(layer));
            let through = |layer: &Layer| {
                whole - layer.fastest.serialise(quickest) + layer.carries(fulls, self.full, last)
            };
            layers().map(through).max().unwrap_or_default()
        };
        let fulls = if self.fulls > 0 { bound(self.fulls, None) } else { Span::ZERO };
        fulls.max(bound(self.fulls, Some(self.last)))
    }
}

impl PathOracle for Routing {
    fn path(&self, src: u32, dst: u32) -> Path {
        let ports = self.routes.path(src, dst);
        let rates = ports.iter().map(|&port| self.routes.edge(port).rate);
        Path {
            base_rtt: self.routes.base_rtt(src, dst),
            fabric_base_rtt: self.fabric_base_rtt(),
            nic_rate: self.nic_rate(src),
            bottleneck_rate: rates.min().unwrap_or(self.nic_rate(src)),
            bdp_bytes: self.bdp_bytes(src),
            mtu: self.mtu,
            full_wire_bytes: self.mtu + HEADER_BYTES,
            hops: self.routes.switches_on(&ports),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The time of each packet is rounded down on its own link, so a sequence of packets is
    /// slightly faster than their bytes.
    #[test]
    fn parallel_links_bound_is_below_single_links() {
        for mbps in [33_333, 10_007, 100_000] {
            let rate = Rate::mbps(mbps);
            for links in [2, 3, 8] {
                let bytes_per_ps =
                    links as f64 * (1u64 << 20) as f64 / rate.ps_per_byte_q20() as f64;
                let layer = Layer { fastest: rate, delay: Span::ZERO, bytes_per_ps, links };
                for each in [1, 2, 7, 1_000] {
                    let bound = layer.carries(each * links as u64, 1080, None);
                    let shared = rate.serialise(1080).times(each);
                    let slack = Span::ps(each * links as u64 + 2);
                    assert!(
                        bound <= shared && shared - bound <= slack,
                        "{bound} and {shared} of {each}"
                    );
                }
            }
        }
    }
}
