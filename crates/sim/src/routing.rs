//! Where packets go: equal-cost next hops by destination switch, and what the best path costs.

use std::collections::VecDeque;

use tidegate_core::fabric::{Fabric, Node};
use tidegate_core::{Domain, HEADER_BYTES, MIN_WIRE_BYTES, Path, PathOracle, Rate, Rng, Time};

/// No switch (a host whose link leads straight to another host).
const NO_SWITCH: u32 = u32::MAX;
/// No way to go.
pub(crate) const NO_PORT: u32 = u32::MAX;
const UNREACHABLE: u32 = u32::MAX;

/// One direction of a link, as routing sees it. Port 2i leads from a to b of link i, port 2i + 1 back.
#[derive(Clone, Copy)]
struct Edge {
    to: Node,
    rate: Rate,
    /// Propagation and the latency of the switch it leads to.
    delay: Time,
}

/// Where a host hangs.
#[derive(Clone, Copy)]
pub(crate) struct Attachment {
    /// Its switch.
    switch: u32,
    /// The switch's port that leads to it.
    pub(crate) down_port: u32,
    /// Its own port.
    pub(crate) up_port: u32,
    /// Its switch's number among switches that have hosts.
    leaf: u32,
}

/// Equal-cost next hops of one switch towards one leaf.
#[derive(Clone, Copy, Default)]
struct Group {
    offset: u32,
    len: u32,
}

/// Routing tables, and the arithmetic of an empty network.
pub(crate) struct Routing {
    edges: Vec<Edge>,
    hosts: Vec<Attachment>,
    /// Switch of each leaf.
    leaves: Vec<u32>,
    /// By switch, then leaf.
    groups: Vec<Group>,
    members: Vec<u32>,
    /// By switch, then leaf: the next hop of the path that is fastest for a full packet and a minimum frame back.
    best: Vec<u32>,
    /// Ports of each switch.
    out: Vec<Vec<u32>>,
    salts: Vec<u32>,
    mtu: u32,
    fabric_base_rtt: Time,
    bdp_bytes: Option<f64>,
}

impl Routing {
    /// # Errors
    /// When a host has not exactly one link, or cannot reach another.
    pub(crate) fn new(fabric: &Fabric, seed: u64, bdp_bytes: Option<f64>) -> Result<Routing, String> {
        let mut edges = Vec::with_capacity(fabric.links.len() * 2);
        let mut out: Vec<Vec<u32>> = vec![Vec::new(); fabric.switches.len()];
        let mut up = vec![NO_SWITCH; fabric.hosts.len()];
        let mut down = vec![NO_SWITCH; fabric.hosts.len()];
        for link in &fabric.links {
            for (from, to) in [(link.a, link.b), (link.b, link.a)] {
                let port = edges.len() as u32;
                let latency = match to {
                    Node::Switch(s) => fabric.switches[s as usize].latency,
                    Node::Host(_) => Time::ZERO,
                };
                edges.push(Edge { to, rate: link.rate, delay: link.delay + latency });
                match from {
                    Node::Switch(s) => out[s as usize].push(port),
                    Node::Host(h) if up[h as usize] != NO_SWITCH => {
                        return Err(format!("host {} has more than one link", fabric.hosts[h as usize]));
                    }
                    Node::Host(h) => up[h as usize] = port,
                }
                if let Node::Host(h) = to {
                    down[h as usize] = port;
                }
            }
        }
        let mut leaf_of = vec![NO_SWITCH; fabric.switches.len()];
        let mut leaves = Vec::new();
        let mut hosts = Vec::new();
        for (h, name) in fabric.hosts.iter().enumerate() {
            if up[h] == NO_SWITCH {
                return Err(format!("host {name} has no link"));
            }
            let mut attachment =
                Attachment { switch: NO_SWITCH, down_port: down[h], up_port: up[h], leaf: 0 };
            if let Node::Switch(s) = edges[up[h] as usize].to {
                if leaf_of[s as usize] == NO_SWITCH {
                    leaf_of[s as usize] = leaves.len() as u32;
                    leaves.push(s);
                }
                attachment.switch = s;
                attachment.leaf = leaf_of[s as usize];
            }
            hosts.push(attachment);
        }
        let mut rng = Rng::stream(seed, Domain::Routing, 0);
        let salts = (0..fabric.switches.len()).map(|_| rng.bits() as u32).collect();
        let size = leaves.len() * fabric.switches.len();
        let mut routing = Routing {
            edges,
            hosts,
            leaves,
            groups: vec![Group::default(); size],
            members: Vec::new(),
            best: vec![NO_SWITCH; size],
            out,
            salts,
            mtu: fabric.mtu,
            fabric_base_rtt: Time::ZERO,
            bdp_bytes,
        };
        routing.best = routing.fill(|_| true);
        routing.check_and_measure(fabric)?;
        Ok(routing)
    }

    /// Routes around links that are down. Base RTTs and ideal times stay those of the whole fabric.
    pub(crate) fn reroute(&mut self, is_up: impl Fn(u32) -> bool) {
        self.groups.fill(Group::default());
        self.members.clear();
        self.fill(is_up);
    }

    /// Shortest paths by hops to every leaf, breadth first from it, over links that are up. Returns the next hops of the
    /// fastest ones.
    fn fill(&mut self, is_up: impl Fn(u32) -> bool) -> Vec<u32> {
        let leaves = self.leaves.len();
        let mut best = vec![NO_SWITCH; self.groups.len()];
        let up = |ports: &Vec<u32>| ports.iter().copied().filter(|port| is_up(port / 2)).collect::<Vec<_>>();
        let out: Vec<Vec<u32>> = self.out.iter().map(up).collect();
        for leaf in 0..leaves {
            let mut distance = vec![UNREACHABLE; out.len()];
            let mut cost = vec![Time::NEVER; out.len()];
            let root = self.leaves[leaf] as usize;
            (distance[root], cost[root]) = (0, Time::ZERO);
            let mut queue = VecDeque::from([root]);
            while let Some(near) = queue.pop_front() {
                if near != root {
                    let closer = |port: &u32| match self.edges[*port as usize].to {
                        Node::Switch(s) => distance[s as usize] == distance[near] - 1,
                        Node::Host(_) => false,
                    };
                    let members: Vec<u32> = out[near].iter().copied().filter(closer).collect();
                    let priced = members.iter().map(|&port| {
                        let Node::Switch(next) = self.edges[port as usize].to else {
                            return (Time::NEVER, port);
                        };
                        (cost[next as usize].after(self.round_trip(port)), port)
                    });
                    if let Some((least, port)) = priced.min() {
                        cost[near] = least;
                        best[near * leaves + leaf] = port;
                    }
                    self.groups[near * leaves + leaf] =
                        Group { offset: self.members.len() as u32, len: members.len() as u32 };
                    self.members.extend(members);
                }
                // Links are full duplex: who is next to us can reach us.
                for &port in &out[near] {
                    if let Node::Switch(s) = self.edges[port as usize].to
                        && distance[s as usize] == UNREACHABLE
                    {
                        distance[s as usize] = distance[near] + 1;
                        queue.push_back(s as usize);
                    }
                }
            }
        }
        best
    }

    /// A full packet over `port` and a minimum frame back.
    fn round_trip(&self, port: u32) -> Time {
        let (there, back) = (&self.edges[port as usize], &self.edges[port as usize ^ 1]);
        let full = (self.mtu + HEADER_BYTES).max(MIN_WIRE_BYTES);
        there.delay
            + there.rate.serialise(full as u64)
            + back.delay
            + back.rate.serialise(MIN_WIRE_BYTES as u64)
    }

    /// Checks that all hosts reach each other, and finds the fabric's largest base RTT.
    fn check_and_measure(&mut self, fabric: &Fabric) -> Result<(), String> {
        // Base RTTs add up over access links and core, so the two slowest hosts of each leaf suffice.
        let mut slowest: Vec<Vec<u32>> = vec![Vec::new(); self.leaves.len()];
        for (h, attachment) in self.hosts.iter().enumerate() {
            if attachment.switch == NO_SWITCH {
                let Node::Host(peer) = self.edges[attachment.up_port as usize].to else {
                    unreachable!("no switch, so a host")
                };
                if fabric.hosts.len() > 2 {
                    return Err(format!("host {} cannot reach every other host", fabric.hosts[h]));
                }
                self.fabric_base_rtt = self.base_rtt(h as u32, peer);
                return Ok(());
            }
            let hosts = &mut slowest[attachment.leaf as usize];
            hosts.push(h as u32);
            hosts.sort_by_key(|&h| std::cmp::Reverse(self.round_trip(self.hosts[h as usize].up_port)));
            hosts.truncate(2);
        }
        for a in &slowest {
            for b in &slowest {
                let pair = (a[0], *b.iter().find(|&&h| h != a[0]).unwrap_or(&a[0]));
                if pair.0 == pair.1 {
                    continue;
                }
                if self.ports(pair.0, pair.1).is_none() {
                    let name = |h: u32| &fabric.hosts[h as usize];
                    return Err(format!("host {} cannot reach host {}", name(pair.0), name(pair.1)));
                }
                self.fabric_base_rtt = self.fabric_base_rtt.max(self.base_rtt(pair.0, pair.1));
            }
        }
        Ok(())
    }

    pub(crate) fn host(&self, host: u32) -> &Attachment {
        &self.hosts[host as usize]
    }

    /// The egress port of `switch` for a packet to `dst` with this `entropy`; [`NO_PORT`] where no path is left.
    #[inline]
    pub(crate) fn egress(&self, switch: u32, dst: u32, entropy: u32) -> u32 {
        let host = &self.hosts[dst as usize];
        if host.switch == switch {
            return host.down_port;
        }
        let group = self.groups[switch as usize * self.leaves.len() + host.leaf as usize];
        let choice = match group.len {
            1 => 0,
            0 => return NO_PORT,
            ways => self.choose(switch, entropy, ways),
        };
        self.members[(group.offset + choice) as usize]
    }

    #[inline]
    fn choose(&self, switch: u32, entropy: u32, ways: u32) -> u32 {
        // Two rounds of multiply and fold: one alone correlates the choices of successive tiers.
        let mut x = entropy ^ self.salts[switch as usize];
        x = (x ^ (x >> 16)).wrapping_mul(0x7feb_352d);
        x = (x ^ (x >> 15)).wrapping_mul(0x846c_a68b);
        x ^= x >> 16;
        ((x as u64 * ways as u64) >> 32) as u32
    }

    /// Ports of the best path, host's first. `None` where there is none.
    fn ports(&self, src: u32, dst: u32) -> Option<Vec<u32>> {
        let (from, to) = (&self.hosts[src as usize], &self.hosts[dst as usize]);
        let mut ports = vec![from.up_port];
        let mut at = from.switch;
        while at != NO_SWITCH && at != to.switch {
            let port = self.best[at as usize * self.leaves.len() + to.leaf as usize];
            if port == NO_SWITCH {
                return None;
            }
            ports.push(port);
            let Node::Switch(next) = self.edges[port as usize].to else { return None };
            at = next;
        }
        if at != NO_SWITCH {
            ports.push(to.down_port);
        }
        Some(ports)
    }

    fn base_rtt(&self, src: u32, dst: u32) -> Time {
        let ports = self.ports(src, dst).unwrap_or_default();
        ports.iter().fold(Time::ZERO, |sum, &port| sum + self.round_trip(port))
    }

    /// The largest base RTT of any pair.
    pub(crate) fn fabric_base_rtt(&self) -> Time {
        self.fabric_base_rtt
    }

    pub(crate) fn nic_rate(&self, host: u32) -> Rate {
        self.edges[self.hosts[host as usize].up_port as usize].rate
    }

    pub(crate) fn bdp_bytes(&self, host: u32) -> f64 {
        self.bdp_bytes.unwrap_or_else(|| self.nic_rate(host).bytes_in(self.fabric_base_rtt) as f64)
    }

    /// How long `bytes` of payload take with nothing else in the network: store and forward on the best path, full packets
    /// of the fabric's MTU, [`HEADER_BYTES`] each.
    pub(crate) fn ideal(&self, src: u32, dst: u32, bytes: u64) -> Time {
        let Some(ports) = self.ports(src, dst) else { return Time::ZERO };
        let packets = bytes.div_ceil(self.mtu as u64);
        let full = (self.mtu + HEADER_BYTES).max(MIN_WIRE_BYTES) as u64;
        let last = (bytes - (packets - 1) * self.mtu as u64 + HEADER_BYTES as u64).max(MIN_WIRE_BYTES as u64);
        // The last packet leaves each link after it has arrived there and the full packets before it have left.
        let mut full_first = Time::ZERO;
        let mut slowest = Time::ZERO;
        let mut last_left = Time::ZERO;
        for &port in &ports {
            let edge = &self.edges[port as usize];
            let serialise = edge.rate.serialise(full);
            slowest = slowest.max(serialise);
            full_first += serialise;
            let fulls_left =
                if packets > 1 { full_first.after(slowest.times(packets - 2)) } else { Time::ZERO };
            last_left = last_left.max(fulls_left) + edge.rate.serialise(last);
            full_first += edge.delay;
            last_left += edge.delay;
        }
        last_left
    }
}

impl PathOracle for Routing {
    fn path(&self, src: u32, dst: u32) -> Path {
        let ports = self.ports(src, dst).unwrap_or_default();
        let rates = ports.iter().map(|&port| self.edges[port as usize].rate);
        Path {
            base_rtt: self.base_rtt(src, dst),
            fabric_base_rtt: self.fabric_base_rtt,
            nic_rate: self.nic_rate(src),
            bottleneck_rate: rates.min().unwrap_or(self.nic_rate(src)),
            bdp_bytes: self.bdp_bytes(src),
            mtu: self.mtu,
            full_wire_bytes: self.mtu + HEADER_BYTES,
            hops: ports.len() as u32 - 1,
        }
    }
}
