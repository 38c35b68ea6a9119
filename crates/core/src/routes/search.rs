//! The search of the shortest paths to one leaf of every class.
//!
//! A search from every class of NICs would visit all NICs and switches once per rack. NICs forward
//! nothing, so two racks that have equal links to the tier above can change places without any
//! effect on other switches: only the racks themselves and the tier above have other next hops. So
//! one whole search suffices for the racks of a pod, and the next hops to each other rack are
//! **transferred** from the one before it.

use alloc::collections::{BTreeMap, VecDeque};
use alloc::vec;
use alloc::vec::Vec;

use super::{EACH, Exit, Hops, LinkKind, NO_PORT, NO_SWITCH, Routes, Tables, Trip};
use crate::{Rate, Span};

/// Distance of a switch from which no path leads to the root.
pub(super) const UNREACHABLE: u32 = u32::MAX;

/// Result of a search, by switch.
pub(super) struct Found {
    /// Number of links to the root.
    pub(super) distance: Vec<u32>,
    /// Round trip to the root.
    pub(super) cost: Vec<Trip>,
    /// Base RTT to the root on the slowest path with as few links.
    pub(super) slowest: Vec<Span>,
    /// First port of the quickest path. The root's own port leads to its twins.
    pub(super) best: Vec<u32>,
}

impl Found {
    fn new(switches: usize, root: usize) -> Found {
        let mut found = Found {
            distance: vec![UNREACHABLE; switches],
            cost: vec![Trip::FOREVER; switches],
            slowest: vec![Span::ZERO; switches],
            best: vec![NO_PORT; switches],
        };
        found.begin(root);
        found
    }

    fn begin(&mut self, root: usize) {
        (self.distance[root], self.cost[root]) = (0, Trip::default());
        (self.slowest[root], self.best[root]) = (Span::ZERO, NO_PORT);
    }

    fn forget(&mut self, switch: usize) {
        (self.distance[switch], self.cost[switch]) = (UNREACHABLE, Trip::FOREVER);
        self.best[switch] = NO_PORT;
    }
}

/// Links of the switches beside a leaf, by switch, sorted.
type Surroundings = Vec<NearLinks>;

/// Links of a switch beside a leaf.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct NearLinks {
    /// Rates and delays of those to the leaf.
    inner: Vec<([Rate; 2], [Span; 2])>,
    /// Those to switches that are no leaves.
    outer: Vec<LinkKind>,
}

/// A search in all classes of leaves.
pub(super) struct Search<'a> {
    routes: &'a Routes,
    classes: &'a [Vec<u32>],
    /// By switch: usable ports to other switches.
    out: Vec<Vec<Exit>>,
    trips: Vec<Trip>,
    /// By switch: class of a leaf, and its index among its twins.
    twin_of: Vec<(u32, u32)>,
    tables: Tables,
    /// By switch: the last entry with several ports. A switch uses the same ones for most classes.
    last: Vec<Hops>,
    nearer: Vec<Exit>,
    ports: Vec<u32>,
}

impl<'a> Search<'a> {
    /// A search over links that are up.
    pub(super) fn new(
        routes: &'a Routes,
        classes: &'a [Vec<u32>],
        is_up: &dyn Fn(u32) -> bool,
    ) -> Search<'a> {
        let switches = routes.out.len();
        let mut twin_of = vec![(NO_SWITCH, 0); switches];
        for (class, leaves) in classes.iter().enumerate() {
            for (place, &leaf) in leaves.iter().enumerate() {
                twin_of[routes.leaves[leaf as usize] as usize] = (class as u32, place as u32);
            }
        }
        let (out, trips) = routes.exits(is_up);
        let tables = Tables {
            targets: routes.targets(&twin_of),
            classes: classes.len(),
            hops: vec![Hops::default(); switches * classes.len()],
            ..Tables::default()
        };
        let last = vec![Hops::default(); switches];
        let (nearer, ports) = (Vec::new(), Vec::new());
        Search { routes, classes, out, trips, twin_of, tables, last, nearer, ports }
    }

    /// The tables. Passes the result for each class to `show`.
    pub(super) fn run(mut self, mut show: impl FnMut(usize, &Found)) -> Tables {
        for group in self.groups() {
            let mut found = self.explore(group[0]);
            show(group[0], &found);
            for pair in group.windows(2) {
                self.transfer(pair[0], pair[1], &mut found);
                show(pair[1], &found);
            }
        }
        self.tables
    }

    /// Classes whose racks can change places, in order of their first one.
    fn groups(&self) -> Vec<Vec<usize>> {
        let mut alike: BTreeMap<Surroundings, usize> = BTreeMap::new();
        let mut groups: Vec<Vec<usize>> = Vec::new();
        for class in 0..self.classes.len() {
            let known =
                self.surroundings(class).map(|key| *alike.entry(key).or_insert(groups.len()));
            match known.and_then(|group| groups.get_mut(group)) {
                Some(group) => group.push(class),
                None => groups.push(vec![class]),
            }
        }
        groups
    }

    /// The links that decide whether a class can change places with another one; `None` if it has
    /// leaves that forward packets, or shares a switch with another class.
    fn surroundings(&self, class: usize) -> Option<Surroundings> {
        self.routes.first_nic?;
        let root = self.root(class);
        let mut beside = Vec::new();
        for near in self.neighbours(root) {
            let (mut inner, mut outer) = (Vec::new(), Vec::new());
            for exit in &self.out[near] {
                let (to, rates, delays) = self.routes.link_kind(exit.port);
                match self.twin_of[exit.to()].0 {
                    NO_SWITCH => outer.push((to, rates, delays)),
                    of if of != class as u32 => return None,
                    _ if exit.to() == root => inner.push((rates, delays)),
                    _ => {}
                }
            }
            inner.sort_unstable();
            outer.sort_unstable();
            beside.push(NearLinks { inner, outer });
        }
        beside.sort_unstable();
        Some(beside)
    }

    /// The leaf of a class from which it is searched.
    fn root(&self, class: usize) -> usize {
        self.switch_of(self.classes[class][0])
    }

    fn switch_of(&self, leaf: u32) -> usize {
        self.routes.leaves[leaf as usize] as usize
    }

    /// The switches next to a switch, in order.
    fn neighbours(&self, switch: usize) -> Vec<usize> {
        let mut all: Vec<usize> = self.out[switch].iter().map(|exit| exit.to()).collect();
        all.sort_unstable();
        all.dedup();
        all
    }

    /// Searches breadth-first from the root of a class.
    fn explore(&mut self, class: usize) -> Found {
        let root = self.root(class);
        let mut found = Found::new(self.out.len(), root);
        let mut queue = VecDeque::from([root]);
        while let Some(near) = queue.pop_front() {
            if near != root {
                self.visit(class, near, &mut found);
                if !self.routes.forwards(near) {
                    continue;
                }
            }
            // Links are full duplex, so a neighbour can reach this switch.
            for exit in &self.out[near] {
                if found.distance[exit.to()] == UNREACHABLE {
                    found.distance[exit.to()] = found.distance[near] + 1;
                    queue.push_back(exit.to());
                }
            }
        }
        self.leave_root(class, &mut found);
        found
    }

    /// Turns the result for class `from` into that for class `to`, which can change places with it.
    fn transfer(&mut self, from: usize, to: usize, found: &mut Found) {
        for row in self.tables.hops.chunks_exact_mut(self.classes.len()) {
            row[to] = row[from];
        }
        let root = self.root(to);
        let [far, near] = [from, to].map(|class| self.neighbours(self.root(class)));
        let is_leaf = |switch: &usize| self.twin_of[*switch].0 != NO_SWITCH;
        let mut above: Vec<usize> = near.iter().flat_map(|&s| self.neighbours(s)).collect();
        above.retain(|switch| !is_leaf(switch));
        above.sort_unstable();
        above.dedup();
        let leaves = |class: usize| self.classes[class].iter().map(|&leaf| self.switch_of(leaf));
        let (leaves_far, leaves_near): (Vec<_>, Vec<_>) =
            (leaves(from).collect(), leaves(to).filter(|&leaf| leaf != root).collect());
        for switch in [&far, &near, &leaves_far, &leaves_near].into_iter().flatten() {
            found.forget(*switch);
        }
        found.begin(root);
        self.tables.hops[root * self.classes.len() + to] = Hops::default();
        // Each tier is next to the one before it.
        for tier in [near, above, leaves_near, far, leaves_far] {
            for switch in tier {
                let forwarding =
                    |exit: &&Exit| exit.to() == root || self.routes.forwards(exit.to());
                let next = self.out[switch].iter().filter(forwarding);
                let least = next.map(|exit| found.distance[exit.to()]).min();
                match least.filter(|&least| least != UNREACHABLE) {
                    Some(least) => {
                        found.distance[switch] = least + 1;
                        self.visit(to, switch, found);
                    }
                    None => self.tables.hops[switch * self.classes.len() + to] = Hops::default(),
                }
            }
        }
        self.leave_root(to, found);
    }

    /// Enters the next hops of a switch that is not the root. Its distance is known, and so is
    /// everything about the switches that are nearer.
    fn visit(&mut self, class: usize, at: usize, found: &mut Found) {
        let (root, distance) = (self.root(class), found.distance[at]);
        let (twin_of, out) = (&self.twin_of, &self.out[at]);
        self.nearer.clear();
        if distance == 1 && self.classes[class].len() > 1 {
            let hops = Hops { first: self.tables.twins.len() as u32, ways: EACH };
            self.tables.hops[at * self.classes.len() + class] = hops;
            let is_twin = |exit: &&Exit| twin_of[exit.to()].0 == class as u32;
            self.nearer.extend(out.iter().filter(is_twin));
            self.nearer.sort_by_key(|exit| twin_of[exit.to()].1);
            for each in self.nearer.chunk_by(|a, b| a.to == b.to) {
                replace(&mut self.ports, each);
                let hops = self.tables.add(&self.ports);
                self.tables.twins.push(hops);
            }
            self.nearer.retain(|exit| exit.to() == root);
        } else {
            let is_nearer = |exit: &&Exit| {
                found.distance[exit.to()] == distance - 1
                    && (exit.to() == root || self.routes.forwards(exit.to()))
            };
            self.nearer.extend(out.iter().filter(is_nearer));
            replace(&mut self.ports, &self.nearer);
            self.enter(class, at);
        }
        let priced =
            |exit: &Exit| (found.cost[exit.to()].plus(self.trips[exit.trip as usize]), exit.port);
        if let Some(quickest) = self.nearer.iter().map(priced).min() {
            (found.cost[at], found.best[at]) = quickest;
            let slow =
                |exit: &Exit| found.slowest[exit.to()].plus(self.trips[exit.trip as usize].base);
            found.slowest[at] = self.nearer.iter().map(slow).max().unwrap_or_default();
        }
    }

    /// Enters the next hops of the root to its twins.
    fn leave_root(&mut self, class: usize, found: &mut Found) {
        if self.classes[class].len() == 1 {
            return;
        }
        // Every neighbour of a leaf is also one of its twins' neighbours.
        let root = self.root(class);
        replace(&mut self.ports, &self.out[root]);
        self.enter(class, root);
        let priced =
            |exit: &Exit| (found.cost[exit.to()].plus(self.trips[exit.trip as usize]), exit.port);
        let quickest = self.out[root].iter().map(priced).min();
        found.best[root] = quickest.map_or(NO_PORT, |(_, port)| port);
    }

    /// Enters `ports` as the next hops of a switch.
    fn enter(&mut self, class: usize, switch: usize) {
        let Search { tables, last, ports, .. } = self;
        let last = &mut last[switch];
        let hops = match ports.len() {
            0 | 1 => tables.add(ports),
            _ if tables.several(last) == ports => *last,
            _ => {
                *last = tables.add(ports);
                *last
            }
        };
        tables.hops[switch * self.classes.len() + class] = hops;
    }
}

/// Replaces the contents of `ports` by the ports of `exits`.
fn replace(ports: &mut Vec<u32>, exits: &[Exit]) {
    ports.clear();
    ports.extend(exits.iter().map(|exit| exit.port));
}
