//! Datagrams as packets of the switches, from arrival to departure, without sockets and clocks.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::io;

use tidegate_core::fabric::{Routing, Stamping};
use tidegate_core::{Time, mix64};
use tidegate_sim::{Leaving, OpenFabric};

use crate::datagram::{Content, Reader};
use crate::slots::{Route, Slot, Slots};
use crate::uplinks::Uplinks;
use crate::{Config, Counts};

pub(crate) struct Pipeline {
    pub(crate) fabric: OpenFabric,
    reader: Reader,
    /// Whether each datagram takes its own path.
    sprays: bool,
    slots: Slots,
    /// Arrival times and numbers of datagrams since the last step.
    inbox: Vec<(Time, u32)>,
    pub(crate) uplinks: Uplinks,
    leaving: Vec<Leaving>,
    dropped: Vec<u32>,
    /// Datagrams to send: time, order of equal times, and number.
    due: BinaryHeap<Reverse<(Time, u64, u32)>>,
    order: u64,
    /// Number of datagrams that entered the switches.
    taken: u64,
    pub(crate) counts: Counts,
}

impl Pipeline {
    /// # Errors If the configuration is not supported.
    pub(crate) fn new(config: &Config) -> io::Result<Pipeline> {
        let Config { fabric, routing, seed, .. } = config;
        let priorities = fabric.switches.iter().map(|switch| switch.priorities).min();
        let stamps = fabric.switches.iter().any(|switch| switch.telemetry != Stamping::Off);
        let trimming = fabric.switches.iter().filter_map(|switch| switch.trimming);
        let trimmed_bytes = trimming.map(|trimming| trimming.trimmed_bytes).max();
        let uplinks = Uplinks::new(fabric, config.uplinks);
        let fabric = OpenFabric::new(fabric.clone(), *routing, *seed)
            .map_err(|why| io::Error::new(io::ErrorKind::InvalidInput, why))?;
        Ok(Pipeline {
            fabric,
            reader: Reader {
                priorities: priorities.unwrap_or(1),
                stamps,
                sized: config.sized,
                sprays: config.routing == Routing::Spray,
                trimmed_bytes,
            },
            sprays: *routing == Routing::Spray,
            slots: Slots::default(),
            inbox: Vec::new(),
            uplinks,
            leaving: Vec::new(),
            dropped: Vec::new(),
            due: BinaryHeap::new(),
            order: 0,
            taken: 0,
            counts: Counts::default(),
        })
    }

    /// Adds a datagram that arrived at `at`; it waits for the next step.
    pub(crate) fn take(&mut self, at: Time, route: Route, content: Content<'_>) {
        let number = self.slots.take();
        let slot = self.slots.get(number);
        slot.route = route;
        slot.datagram.fill(content);
        self.inbox.push((at, number));
    }

    /// Number of datagrams that wait for the next step.
    pub(crate) fn waiting(&self) -> usize {
        self.inbox.len()
    }

    /// Passes arrived datagrams to the switches in the order of arrival, and runs the switches
    /// until now.
    pub(crate) fn advance(&mut self, now: Time) {
        // The sort is stable: datagrams of one socket with equal time stamps keep their order.
        self.inbox.sort_by_key(|&(at, _)| at);
        let mut inbox = std::mem::take(&mut self.inbox);
        inbox.drain(..).for_each(|(at, number)| self.enter(at, number));
        self.inbox = inbox;
        while let Some((at, number)) = self.uplinks.arrived(now) {
            let slot = self.slots.get(number);
            if !self.fabric.arrive(at, slot.route.from, &slot.packet) {
                self.slots.free(number);
            }
        }
        self.fabric.advance(now, &mut self.leaving, &mut self.dropped);
        self.dropped.drain(..).for_each(|number| self.slots.free(number));
        for leaving in self.leaving.drain(..) {
            let number = leaving.packet.number;
            self.slots.get(number).datagram.stamp(&leaving.packet);
            self.order += 1;
            self.due.push(Reverse((leaving.landing, self.order, number)));
        }
    }

    /// Turns an arrived datagram into a packet on the link of its host.
    fn enter(&mut self, at: Time, number: u32) {
        let slot = self.slots.get(number);
        let Route { from, to, flow, .. } = slot.route;
        self.taken += 1;
        // Equal in both directions of a connection; with spraying, different for each datagram.
        let connection = flow ^ (u64::from(from.min(to)) << 32 | u64::from(from.max(to)));
        let entropy = mix64(if self.sprays { self.taken } else { connection });
        let Some(packet) = slot.datagram.packet(self.reader, number, to, entropy as u32) else {
            self.counts.too_long += 1;
            return self.slots.free(number);
        };
        let wire_bytes = packet.frame.wire_bytes.into();
        slot.packet = packet;
        if !self.uplinks.enter(at, from, wire_bytes, number) {
            self.counts.too_fast += 1;
            self.slots.free(number);
        }
    }

    /// Time of the next event.
    pub(crate) fn next(&self) -> Time {
        let due = self.due.peek().map_or(Time::NEVER, |Reverse((at, ..))| *at);
        due.min(self.fabric.next()).min(self.uplinks.next())
    }

    /// Takes the next datagram that is due, with its time. The caller must [free](Self::free) it.
    pub(crate) fn due(&mut self, now: Time) -> Option<(Time, u32)> {
        let &Reverse((at, _, number)) = self.due.peek().filter(|next| next.0.0 <= now)?;
        self.due.pop();
        Some((at, number))
    }

    pub(crate) fn slot(&mut self, number: u32) -> &Slot {
        self.slots.get(number)
    }

    pub(crate) fn free(&mut self, number: u32) {
        self.slots.free(number);
    }

    /// Number of datagrams in the switches.
    #[cfg(feature = "testing")]
    pub(crate) fn held(&self) -> usize {
        self.slots.used()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::any_traffic::config;
    use tidegate_core::fabric::Node;

    /// Numbers of the paths, in the order in which their datagrams leave until `now`.
    fn leaving(pipeline: &mut Pipeline, now: Time) -> Vec<u32> {
        pipeline.advance(now);
        let mut paths = Vec::new();
        while let Some((_, number)) = pipeline.due(now) {
            paths.push(pipeline.slot(number).route.path);
            pipeline.free(number);
        }
        paths
    }

    #[test]
    fn arrival_time_decides_the_order() {
        let mut pipeline = Pipeline::new(&Config { uplinks: true, ..config(0) }).unwrap();
        // The datagrams share the link of their host.
        for (path, to, at) in [(7, 2, 30), (8, 3, 10), (9, 2, 20)] {
            let route = Route { path, from: 0, to, flow: 0 };
            pipeline.take(Time::us(at), route, Content::datagram(0, &[0; 900]));
        }
        assert_eq!(leaving(&mut pipeline, Time::ms(10)), [8, 9, 7]);
    }

    #[test]
    fn symmetric_ecmp_same_spine_both_ways() {
        let spine = |from, to, flow| {
            let config = Config { routing: Routing::SymmetricEcmp, ..config(0) };
            let mut pipeline = Pipeline::new(&config).unwrap();
            let route = Route { path: 0, from, to, flow };
            pipeline.take(Time::us(1), route, Content::datagram(0, &[0; 900]));
            assert_eq!(leaving(&mut pipeline, Time::ms(10)), [0]);
            let (ports, _) = pipeline.fabric.records();
            let up = |node: Node| matches!(node, Node::Switch(2..));
            let used = ports.iter().filter(|port| port.packets > 0 && up(port.to));
            used.map(|port| port.to).collect::<Vec<_>>()
        };
        let mut spines = Vec::new();
        for (a, b) in [(0, 2), (0, 3), (1, 2), (1, 3)] {
            let [there, back] = [spine(a, b, 0), spine(b, a, 0)];
            assert_eq!((&there, there.len()), (&back, 1), "{a} and {b}");
            spines.extend(there);
        }
        assert!(spines.contains(&Node::Switch(2)) && spines.contains(&Node::Switch(3)));
        // Several connections of one pair use both spines.
        let spines: Vec<_> = (0..20).flat_map(|flow| spine(0, 2, flow)).collect();
        assert!(spines.contains(&Node::Switch(2)) && spines.contains(&Node::Switch(3)));
    }
}
