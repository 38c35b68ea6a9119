//! Emulated links from hosts: datagrams that arrive faster than the link rate wait.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use tidegate_core::fabric::{Fabric, Node};
use tidegate_core::{Rate, Span, Time};
use tidegate_sim::{LinkRecord, Spread};

/// Maximum backlog of a host's link.
const MOST_BYTES: u64 = 4 << 20;

/// An emulated link.
struct Link {
    from: Node,
    to: Node,
    rate: Rate,
    delay: Span,
    /// End of its busy period.
    free_at: Time,
    wire_bytes: u64,
    packets: u64,
    busy: Span,
}

/// The links of all hosts of a fabric, with the packets in flight.
pub(crate) struct Uplinks {
    links: Vec<Link>,
    /// Packets in flight: arrival time, order, and number.
    pending: BinaryHeap<Reverse<(Time, u64, u32)>>,
    order: u64,
    since: Time,
}

impl Uplinks {
    /// Creates the links of a fabric's hosts, or none.
    pub(crate) fn new(fabric: &Fabric, there: bool) -> Uplinks {
        let of_host = |host: u32| {
            let is_own = |end: &Node| *end == Node::Host(host);
            let link = fabric.links.iter().find(|link| is_own(&link.a) || is_own(&link.b))?;
            let (from, to) = if is_own(&link.a) { (link.a, link.b) } else { (link.b, link.a) };
            Some(Link {
                from,
                to,
                rate: link.rate,
                delay: link.delay,
                free_at: Time::ZERO,
                wire_bytes: 0,
                packets: 0,
                busy: Span::ZERO,
            })
        };
        let hosts = if there { fabric.hosts.len() as u32 } else { 0 };
        Uplinks {
            links: (0..hosts).filter_map(of_host).collect(),
            pending: BinaryHeap::new(),
            order: 0,
            since: Time::ZERO,
        }
    }

    /// Adds a packet of a host; false if the backlog of its link is full.
    pub(crate) fn enter(&mut self, at: Time, host: u32, wire_bytes: u64, number: u32) -> bool {
        let mut arrival = at;
        if let Some(link) = self.links.get_mut(host as usize) {
            let start = link.free_at.max(at);
            if start.since(at) > link.rate.serialise(MOST_BYTES) {
                return false;
            }
            let took = link.rate.serialise(wire_bytes);
            link.free_at = start.after(took);
            link.wire_bytes += wire_bytes;
            link.packets += 1;
            link.busy = link.busy.plus(took);
            arrival = link.free_at.after(link.delay);
        }
        self.order += 1;
        self.pending.push(Reverse((arrival, self.order, number)));
        true
    }

    /// Takes the next packet that arrives at its switch by `now`, with its time.
    pub(crate) fn arrived(&mut self, now: Time) -> Option<(Time, u32)> {
        let &Reverse((at, _, number)) = self.pending.peek().filter(|next| next.0.0 <= now)?;
        self.pending.pop();
        Some((at, number))
    }

    /// Arrival time of the next packet.
    pub(crate) fn next(&self) -> Time {
        self.pending.peek().map_or(Time::NEVER, |Reverse((at, ..))| *at)
    }

    /// Resets the measurements. A packet that is being sent still counts as busy time.
    pub(crate) fn measure_from(&mut self, now: Time) {
        self.since = now;
        for link in &mut self.links {
            (link.wire_bytes, link.packets, link.busy) = (0, 0, link.free_at.since(now));
        }
    }

    /// Measurements of the links until now. Queues are not measured: they are part of the hosts.
    pub(crate) fn records(&self, now: Time) -> Vec<LinkRecord> {
        let seconds = now.since(self.since).as_s_f64();
        let record = |link: &Link| {
            let unsent = link.free_at.since(now);
            let busy = link.busy.beyond(unsent).as_s_f64();
            LinkRecord {
                from: link.from,
                to: link.to,
                rate_bps: link.rate.as_bps(),
                wire_bytes: link.wire_bytes,
                utilisation: if seconds > 0.0 { (busy / seconds).min(1.0) } else { 0.0 },
                packets: link.packets,
                queue_bytes: Spread::default(),
                queue_delay_us: Spread::default(),
                drops: 0,
                credit_drops: 0,
                trims: 0,
                returned: 0,
                ecn_marks: 0,
                pfc_pauses: 0,
                paused: Span::ZERO,
            }
        };
        self.links.iter().map(record).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::any_traffic::config;

    #[test]
    fn utilisation_of_links() {
        let mut uplinks = Uplinks::new(&config(0).fabric, true);
        let rate = uplinks.links[0].rate;
        let after = |packets: u64| Time::ZERO.after(rate.serialise(packets * 1_000));
        let counts = |uplinks: &Uplinks, now| {
            let record = &uplinks.records(now)[0];
            (record.packets, record.wire_bytes, (1e6 * record.utilisation).round() / 1e6)
        };
        // Two packets arrive together, after the time of one transmission.
        assert!(uplinks.enter(after(1), 0, 1_000, 0) && uplinks.enter(after(1), 0, 1_000, 1));
        assert_eq!(counts(&uplinks, after(2)), (2, 2_000, 0.5));
        assert_eq!(counts(&uplinks, after(4)), (2, 2_000, 0.5));
        // The second is still being sent.
        uplinks.measure_from(after(2));
        assert_eq!(counts(&uplinks, after(4)), (0, 0, 0.5));
        assert_eq!(uplinks.records(after(4))[1].utilisation, 0.0);
    }
}
