//! Shortest paths of a fabric, found and stored by its structure.
//!
//! Paths lead to **leaves**, the switches that have hosts. Leaves whose links to other switches are
//! equal (same neighbours, rates, delays) are **twins**. All switches use the same next hops to
//! each of them, except for their neighbours, which have links of their own to each twin. So one
//! search per class of twins suffices. A switch stores one entry per class, and the neighbours one
//! per twin. The racks of a pod form one class, and so do those of a leaf-spine. So a table grows
//! with the links of a Clos network and not with the square of its racks. In an irregular fabric,
//! every leaf is a class.

use alloc::boxed::Box;
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::format;
use alloc::string::String;
use alloc::vec;
use alloc::vec::Vec;

mod reach;
mod search;

use crate::fabric::{Fabric, Node};
use crate::{PacketSizes, Rate, Span};

pub use reach::Reach;
use reach::{Slowest, Trip};
use search::{Search, UNREACHABLE};

/// No port: there is no path.
pub const NO_PORT: u32 = u32::MAX;
/// No switch (a host whose link leads directly to another host).
const NO_SWITCH: u32 = u32::MAX;
/// Maximum number of table entries (switch and class) in a fabric: 1 GiB in memory.
const MOST_ENTRIES: usize = 1 << 27;

/// One direction of a link. Port 2i leads from a to b of link i, port 2i + 1 from b to a.
#[derive(Clone, Copy, Debug)]
pub struct Edge {
    /// Node that it leads to.
    pub to: Node,
    /// Its rate.
    pub rate: Rate,
    /// Propagation and the latency of the switch it leads to.
    pub delay: Span,
}

/// Attributes of a destination that a switch needs.
#[derive(Clone, Copy, Debug)]
struct Target {
    switch: u32,
    /// Port of the switch that leads to the host.
    down_port: u32,
    /// Class of twins that the switch belongs to, and its index among them.
    class: u32,
    place: u32,
}

/// Equal-cost next hops of one switch towards one class or twin.
#[derive(Clone, Copy, Debug, Default)]
struct Hops {
    /// With one way: its port. With several ways: index of the first in `members`. With [`EACH`]:
    /// index of the first twin in `twins`.
    first: u32,
    ways: u32,
}

/// Value of [`Hops::ways`] at a neighbour of twins: every twin has an entry of its own.
const EACH: u32 = u32::MAX;

/// Ports of equal-cost paths; at least two.
#[derive(Clone, Copy, Debug)]
pub struct Ways<'a> {
    members: &'a [u32],
    first: u32,
    number: u32,
}

impl<'a> Ways<'a> {
    /// Number of ports.
    #[inline]
    pub fn number(self) -> u32 {
        self.number
    }
    /// The port with this index, which must be below [`number`](Self::number).
    #[inline]
    pub fn port(self, number: u32) -> u32 {
        self.members[(self.first + number) as usize]
    }
    /// All ports, in the order of links.
    pub fn ports(self) -> impl Iterator<Item = u32> + 'a {
        (0..self.number).map(move |number| self.port(number))
    }
}

/// A port to another switch, as a search uses it. A search visits all of them once per class of
/// leaves, and reads no other data of a link.
#[derive(Clone, Copy)]
struct Exit {
    port: u32,
    /// Switch that it leads to.
    to: u32,
    /// Index of its round trip among the different ones. There are few, because most links are
    /// equal.
    trip: u32,
}

impl Exit {
    fn to(self) -> usize {
        self.to as usize
    }
}

/// Node behind a link, and rates and delays of both directions.
type LinkKind = (Node, [Rate; 2], [Span; 2]);

/// Next hops of every switch.
#[derive(Clone, Debug, Default)]
struct Tables {
    /// By host.
    targets: Vec<Target>,
    classes: usize,
    /// By switch, then class.
    hops: Vec<Hops>,
    twins: Vec<Hops>,
    members: Vec<u32>,
}

impl Tables {
    #[inline]
    fn hops(&self, switch: u32, target: &Target) -> Hops {
        let hops = self.hops[switch as usize * self.classes + target.class as usize];
        if hops.ways == EACH { self.twins[(hops.first + target.place) as usize] } else { hops }
    }

    fn ports(&self, hops: &Hops) -> Vec<u32> {
        match hops.ways {
            0 => Vec::new(),
            1 => vec![hops.first],
            _ => self.several(hops).to_vec(),
        }
    }

    /// The ports if there are several.
    fn several(&self, hops: &Hops) -> &[u32] {
        &self.members[hops.first as usize..][..hops.ways as usize]
    }

    fn add(&mut self, ports: &[u32]) -> Hops {
        if let [only] = ports {
            return Hops { first: *only, ways: 1 };
        }
        let first = self.members.len() as u32;
        self.members.extend_from_slice(ports);
        Hops { first, ways: ports.len() as u32 }
    }
}

/// The shortest paths of a fabric.
#[derive(Clone, Debug)]
pub struct Routes {
    edges: Vec<Edge>,
    /// Uplink by host.
    uplinks: Vec<u32>,
    /// By host: index of its switch among the leaves.
    leaf_of: Vec<u32>,
    /// Switch by leaf.
    leaves: Vec<u32>,
    /// By switch: ports to other switches.
    out: Vec<Vec<u32>>,
    current: Tables,
    /// Tables of the intact fabric, after links have failed.
    intact: Option<Box<Tables>>,
    /// By switch and class of the intact fabric: next hop of the quickest path.
    best: Vec<u32>,
    reach: Reach,
    /// First of the switches that are NICs, if hosts have several ports.
    first_nic: Option<u32>,
    /// Bytes of a full packet and of a minimum frame in round trips.
    full: u32,
    control: u32,
}

impl Routes {
    /// Finds all paths, for packets of standard sizes.
    ///
    /// # Errors
    /// As [`of_sizes`](Self::of_sizes).
    pub fn new(fabric: &Fabric) -> Result<Routes, String> {
        Routes::of_sizes(fabric, PacketSizes::STANDARD)
    }

    /// Finds all paths, for packets of these sizes.
    ///
    /// # Errors
    /// If a host does not have exactly one link or cannot reach another host, or if the fabric is
    /// large and so irregular that its tables do not fit.
    pub fn of_sizes(fabric: &Fabric, sizes: PacketSizes) -> Result<Routes, String> {
        let name = |host: usize| &fabric.hosts[host];
        let mut edges = Vec::with_capacity(fabric.links.len() * 2);
        let mut out: Vec<Vec<u32>> = vec![Vec::new(); fabric.switches.len()];
        let mut uplinks = vec![NO_PORT; fabric.hosts.len()];
        let packet_ports = 2 * fabric.packet_links().len() as u32;
        for link in &fabric.links {
            for (from, to) in [(link.a, link.b), (link.b, link.a)] {
                let port = edges.len() as u32;
                let latency = match to {
                    Node::Switch(s) => fabric.switches[s as usize].latency,
                    Node::Host(_) => Span::ZERO,
                };
                edges.push(Edge { to, rate: fabric.rate(port), delay: link.delay + latency });
                match (from, to) {
                    // Circuits are not always up, so no route uses them.
                    _ if port >= packet_ports => {}
                    (Node::Switch(s), Node::Switch(_)) => out[s as usize].push(port),
                    (Node::Switch(_), Node::Host(_)) => {}
                    (Node::Host(h), _) if uplinks[h as usize] != NO_PORT => {
                        return Err(format!("host {} has more than one link", name(h as usize)));
                    }
                    (Node::Host(h), _) => uplinks[h as usize] = port,
                }
            }
        }
        let mut routes = Routes {
            edges,
            leaf_of: vec![0; uplinks.len()],
            uplinks,
            leaves: Vec::new(),
            out,
            current: Tables::default(),
            intact: None,
            best: Vec::new(),
            reach: Reach::default(),
            first_nic: fabric.first_nic,
            full: sizes.data(fabric.mtu),
            control: sizes.control_bytes,
        };
        let mut numbers = vec![NO_SWITCH; fabric.switches.len()];
        for host in 0..fabric.hosts.len() {
            let Some(edge) = routes.edges.get(routes.uplinks[host] as usize) else {
                return Err(format!("host {} has no link", name(host)));
            };
            match edge.to {
                Node::Switch(switch) => {
                    let number = &mut numbers[switch as usize];
                    if *number == NO_SWITCH {
                        *number = routes.leaves.len() as u32;
                        routes.leaves.push(switch);
                    }
                    routes.leaf_of[host] = *number;
                }
                Node::Host(_) if fabric.hosts.len() > 2 => {
                    return Err(format!("host {} cannot reach every other host", name(host)));
                }
                Node::Host(_) => routes.reach.widen(routes.round_trip(routes.uplinks[host]), 0),
            }
        }
        let classes = routes.classes(&|_| true);
        if classes.len() * fabric.switches.len() > MOST_ENTRIES {
            return Err(format!(
                "routing tables of {} switches for {} different kinds of racks are too large: \
                 give racks equal links",
                fabric.switches.len(),
                classes.len()
            ));
        }
        let slowest: Vec<Slowest> = routes.slowest(&classes);
        let (mut best, mut reach) =
            (vec![NO_PORT; classes.len() * fabric.switches.len()], routes.reach);
        let mut apart = None;
        let number = classes.len();
        let nics = routes.nics();
        routes.current = Search::new(&routes, &classes, &|_| true).run(|class, found| {
            for (switch, &port) in found.best.iter().enumerate() {
                best[switch * number + class] = port;
            }
            // Base RTTs are sums over access links and core, so the slowest hosts of each class
            // suffice.
            let here = &slowest[class];
            reach.widen(here.one_leaf, 1);
            for (other, there) in slowest.iter().enumerate() {
                let (rtt, from) = match (other == class, classes[class].get(1)) {
                    (true, None) => continue,
                    (true, Some(&twin)) => (here.two_leaves, twin),
                    (false, _) => (here.first.plus(there.first), classes[other][0]),
                };
                let from = routes.leaves[from as usize] as usize;
                if found.distance[from] == UNREACHABLE {
                    apart = apart.or(Some((class, other)));
                } else {
                    reach.widen(rtt.plus(found.cost[from]), found.distance[from] + 1 - nics);
                    let spread = found.slowest[from].beyond(found.cost[from].base);
                    reach.spread = reach.spread.max(spread);
                }
            }
        });
        (routes.best, routes.reach) = (best, reach);
        if let Some((a, b)) = apart {
            let host = |leaf: u32| routes.leaf_of.iter().position(|&l| l == leaf).unwrap_or(0);
            let (a, b) = (host(classes[a][0]), host(classes[b][(a == b) as usize]));
            return Err(format!("host {} cannot reach host {}", name(a.min(b)), name(a.max(b))));
        }
        Ok(routes)
    }

    /// Routes around links that are down. Paths, base RTTs and everything else that is computed
    /// from [`path`](Self::path) and [`layers`](Self::layers) keep the values of the intact fabric.
    pub fn reroute(&mut self, is_up: impl Fn(u32) -> bool) {
        let up = |port: u32| is_up(port / 2);
        let tables = Search::new(self, &self.classes(&up), &up).run(|_, _| ());
        let before = core::mem::replace(&mut self.current, tables);
        self.intact.get_or_insert_with(|| Box::new(before));
    }

    /// Groups the leaves into classes of twins.
    fn classes(&self, is_up: &dyn Fn(u32) -> bool) -> Vec<Vec<u32>> {
        let mut alike: BTreeMap<Vec<LinkKind>, usize> = BTreeMap::new();
        let mut classes: Vec<Vec<u32>> = Vec::new();
        for (leaf, &switch) in self.leaves.iter().enumerate() {
            let ports = self.out[switch as usize].iter().filter(|&&port| is_up(port));
            let mut links: Vec<LinkKind> = ports.map(|&port| self.link_kind(port)).collect();
            links.sort_unstable();
            let class = *alike.entry(links).or_insert(classes.len());
            if class == classes.len() {
                classes.push(Vec::new());
            }
            classes[class].push(leaf as u32);
        }
        classes
    }

    fn link_kind(&self, port: u32) -> LinkKind {
        let (there, back) = (&self.edges[port as usize], &self.edges[port as usize ^ 1]);
        (there.to, [there.rate, back.rate], [there.delay, back.delay])
    }

    /// Whether a switch forwards packets of others: NICs do not.
    fn forwards(&self, switch: usize) -> bool {
        self.first_nic.is_none_or(|first| switch < first as usize)
    }

    /// Number of switches on a path of these ports, without NICs.
    pub fn switches_on(&self, ports: &[u32]) -> u32 {
        (ports.len() as u32).saturating_sub(1 + self.nics())
    }

    /// Number of NICs on every path.
    fn nics(&self) -> u32 {
        if self.first_nic.is_some() { 2 } else { 0 }
    }

    /// The usable exits by switch, and the different round trips among them.
    fn exits(&self, is_up: &dyn Fn(u32) -> bool) -> (Vec<Vec<Exit>>, Vec<Trip>) {
        let (mut numbers, mut trips) = (BTreeMap::new(), Vec::new());
        let mut exit = |port: u32| {
            let (Node::Switch(to) | Node::Host(to)) = self.edges[port as usize].to;
            let trip = self.round_trip(port);
            let number = *numbers.entry(trip).or_insert(trips.len() as u32);
            if number as usize == trips.len() {
                trips.push(trip);
            }
            Exit { port, to, trip: number }
        };
        let mut up = |ports: &Vec<u32>| {
            ports.iter().copied().filter(|&port| is_up(port)).map(&mut exit).collect()
        };
        let out = self.out.iter().map(&mut up).collect();
        (out, trips)
    }

    fn targets(&self, twin_of: &[(u32, u32)]) -> Vec<Target> {
        let target = |&uplink: &u32| match self.edges[uplink as usize].to {
            Node::Switch(switch) => {
                let (class, place) = twin_of[switch as usize];
                Target { switch, down_port: uplink ^ 1, class, place }
            }
            Node::Host(_) => {
                Target { switch: NO_SWITCH, down_port: uplink ^ 1, class: 0, place: 0 }
            }
        };
        self.uplinks.iter().map(target).collect()
    }

    /// Round trips of the slowest hosts of each class.
    fn slowest(&self, classes: &[Vec<u32>]) -> Vec<Slowest> {
        let mut by_leaf = vec![[Trip::default(); 2]; self.leaves.len()];
        for (host, &uplink) in self.uplinks.iter().enumerate() {
            if let (Some(two), Node::Switch(_)) =
                (by_leaf.get_mut(self.leaf_of[host] as usize), self.edges[uplink as usize].to)
            {
                two[1] = two[1].max(self.round_trip(uplink));
                two.sort_by_key(|&trip| core::cmp::Reverse(trip));
            }
        }
        let of_class = |leaves: &Vec<u32>| {
            let mut slowest = Slowest::default();
            for &leaf in leaves {
                let [first, second] = by_leaf[leaf as usize];
                if second.base > Span::ZERO {
                    slowest.one_leaf = slowest.one_leaf.max(first.plus(second));
                }
                slowest.two_leaves = slowest.two_leaves.max(slowest.first.plus(first));
                slowest.first = slowest.first.max(first);
            }
            slowest
        };
        classes.iter().map(of_class).collect()
    }

    /// Round trip over `port`.
    fn round_trip(&self, port: u32) -> Trip {
        let (there, back) = (&self.edges[port as usize], &self.edges[port as usize ^ 1]);
        let back = back.delay + back.rate.serialise(self.control as u64);
        let with = |bytes: u32| there.delay + there.rate.serialise(bytes as u64) + back;
        Trip { base: with(self.full), control: with(self.control) }
    }

    /// The egress port of `switch` for a packet to `dst`. If there are several, `choose` selects
    /// one. Returns [`NO_PORT`] if no path is left.
    #[inline(always)]
    pub fn egress(&self, switch: u32, dst: u32, choose: impl FnOnce(Ways<'_>) -> u32) -> u32 {
        let target = &self.current.targets[dst as usize];
        if target.switch == switch {
            return target.down_port;
        }
        let hops = self.current.hops(switch, target);
        match hops.ways {
            1 => hops.first,
            0 => NO_PORT,
            number => choose(Ways { members: &self.current.members, first: hops.first, number }),
        }
    }

    /// One direction of a link.
    pub fn edge(&self, port: u32) -> &Edge {
        &self.edges[port as usize]
    }

    /// Uplink of a host.
    pub fn uplink(&self, host: u32) -> u32 {
        self.uplinks[host as usize]
    }

    /// The largest base RTT, and the longest path.
    pub fn reach(&self) -> Reach {
        self.reach
    }

    /// Whether packets can choose among paths: some switch has several next hops to some host while
    /// all links are up.
    pub fn have_choices(&self) -> bool {
        let tables = self.intact();
        let is_choice = |hops: &Hops| hops.ways > 1 && hops.ways != EACH;
        tables.hops.iter().chain(&tables.twins).any(is_choice)
    }

    fn intact(&self) -> &Tables {
        self.intact.as_deref().unwrap_or(&self.current)
    }

    /// Ports of the quickest path for a full packet and a minimum frame back in the intact fabric;
    /// starts with the host's uplink.
    pub fn path(&self, src: u32, dst: u32) -> Vec<u32> {
        let tables = self.intact();
        let (mut at, to) = (tables.targets[src as usize].switch, &tables.targets[dst as usize]);
        let mut ports = vec![self.uplinks[src as usize]];
        while at != to.switch {
            let mut port = self.best[at as usize * tables.classes + to.class as usize];
            if tables.hops[at as usize * tables.classes + to.class as usize].ways == EACH {
                let links = tables.ports(&tables.hops(at, to));
                let quickest = links.into_iter().min_by_key(|&link| (self.round_trip(link), link));
                port = quickest.unwrap_or(port);
            }
            ports.push(port);
            let Node::Switch(next) = self.edges[port as usize].to else {
                unreachable!("a way to a switch")
            };
            at = next;
        }
        if at != NO_SWITCH {
            ports.push(to.down_port);
        }
        ports
    }

    /// Time of a full packet forward and a minimum frame back on [`path`](Self::path).
    pub fn base_rtt(&self, src: u32, dst: u32) -> Span {
        self.path(src, dst).iter().fold(Span::ZERO, |sum, &port| sum + self.round_trip(port).base)
    }

    /// Kind of a pair of hosts. Pairs of the same kind have equal [`layers`](Self::layers). `None`
    /// if the hosts share a switch or a link.
    pub fn kind_of_pair(&self, src: u32, dst: u32) -> Option<(u32, u32)> {
        let targets = &self.intact().targets;
        let (from, to) = (&targets[src as usize], &targets[dst as usize]);
        (from.switch != to.switch).then_some((from.class, to.class))
    }

    /// All ports on shortest paths between the switches of two hosts in the intact fabric, hop by
    /// hop.
    pub fn layers(&self, src: u32, dst: u32) -> Vec<Vec<u32>> {
        let tables = self.intact();
        let (from, to) = (tables.targets[src as usize].switch, &tables.targets[dst as usize]);
        let (mut at, mut layers) = (vec![from], Vec::new());
        while !at.contains(&to.switch) {
            let ports: Vec<u32> =
                at.iter().flat_map(|&switch| tables.ports(&tables.hops(switch, to))).collect();
            at = ports
                .iter()
                .map(|&port| match self.edges[port as usize].to {
                    Node::Switch(switch) | Node::Host(switch) => switch,
                })
                .collect();
            at.sort_unstable();
            at.dedup();
            layers.push(ports);
        }
        layers
    }

    /// Composition of the shortest paths between the switches of two hosts in the intact fabric:
    /// the list of rate and delay of each link, without duplicates. If more than `most` different
    /// lists lead to a switch, only the `most` smallest are kept.
    pub fn ways(&self, src: u32, dst: u32, most: usize) -> Vec<Vec<(Rate, Span)>> {
        let tables = self.intact();
        let (from, to) = (tables.targets[src as usize].switch, &tables.targets[dst as usize]);
        let mut at = BTreeMap::from([(from, BTreeSet::from([Vec::new()]))]);
        while !at.contains_key(&to.switch) {
            let mut next: BTreeMap<u32, BTreeSet<Vec<(Rate, Span)>>> = BTreeMap::new();
            for (switch, ways) in at {
                for port in tables.ports(&tables.hops(switch, to)) {
                    let edge = &self.edges[port as usize];
                    let Node::Switch(reached) = edge.to else { continue };
                    let longer = ways.iter().map(|way| {
                        let link = (edge.rate, edge.delay);
                        way.iter().copied().chain([link]).collect::<Vec<_>>()
                    });
                    let found = next.entry(reached).or_default();
                    found.extend(longer);
                    while found.len() > most {
                        found.pop_last();
                    }
                }
            }
            if next.is_empty() {
                return Vec::new();
            }
            at = next;
        }
        at.remove(&to.switch).into_iter().flatten().collect()
    }

    /// Size of the tables in memory, in bytes.
    pub fn table_bytes(&self) -> usize {
        let of = |tables: &Tables| {
            size_of_val(&tables.targets[..])
                + size_of_val(&tables.hops[..])
                + size_of_val(&tables.twins[..])
                + size_of_val(&tables.members[..])
        };
        of(&self.current) + self.intact.as_deref().map_or(0, of) + size_of_val(&self.best[..])
    }
}
