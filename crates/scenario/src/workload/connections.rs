//! Flows from packets: the payload of a connection in one direction, until it is idle.

use std::collections::BTreeMap;

use super::address::Address;
use super::packet::{Segment, Tuple};
use super::trace::{Gathered, LeftOut, Noted, Raw};
use tidegate_core::Span;

/// Largest jump of sequence numbers that counts as payload which the capture lacks.
const MOST_JUMP: i32 = 1 << 24;
/// Number of packets between two searches for idle flows.
const SEARCH_EVERY: u64 = 1 << 20;

/// A flow that may go on.
#[derive(Clone, Copy, Debug)]
struct Open {
    start: i64,
    last: i64,
    bytes: u64,
    /// Sequence number that follows the payload so far.
    next: u32,
    interface: u32,
}

/// Collects flows from packets.
pub(super) struct Connections {
    idle: i64,
    open: BTreeMap<Tuple, Open>,
    pub(super) gathered: Gathered,
    left_out: LeftOut,
    latest: i64,
    packets: u64,
    disordered: u64,
    repeated: u64,
    elsewhere: u64,
}

impl Connections {
    /// `idle` is the gap that ends a flow.
    pub(super) fn new(file: &str, idle: Span) -> Connections {
        let gathered = Gathered { file: file.to_owned(), is_capture: true, ..Gathered::default() };
        Connections {
            idle: i64::try_from(idle.as_ps()).unwrap_or(i64::MAX),
            open: BTreeMap::new(),
            gathered,
            left_out: LeftOut::default(),
            latest: i64::MIN,
            packets: 0,
            disordered: 0,
            repeated: 0,
            elsewhere: 0,
        }
    }

    /// Adds a packet that `interface` captured at `at`.
    pub(super) fn add(&mut self, at: i64, interface: u32, segment: &Segment) {
        self.packets += 1;
        self.disordered += u64::from(at < self.latest);
        self.latest = self.latest.max(at);
        if self.packets.is_multiple_of(SEARCH_EVERY) {
            self.close_idle();
        }
        let Segment { tuple, bytes, sequence, opens } = *segment;
        let before = self.open.get(&tuple).copied();
        // Packets of a capture can be out of order.
        let goes_on = |open: &Open| {
            at.saturating_sub(open.last) <= self.idle && open.start.saturating_sub(at) <= self.idle
        };
        if let Some(open) = before.filter(goes_on)
            && open.interface != interface
        {
            self.elsewhere += 1;
            return;
        }
        let ended = |open: &Open| opens || !goes_on(open);
        if let Some(open) = before.filter(ended) {
            self.open.remove(&tuple);
            self.close(tuple, open);
        }
        if bytes == 0 {
            return;
        }
        let next = sequence.map_or(0, |first| first.wrapping_add(bytes as u32));
        let fresh = Open { start: at, last: at, bytes: 0, next: sequence.unwrap_or(0), interface };
        let open = self.open.entry(tuple).or_insert(fresh);
        let new = match sequence {
            None => bytes,
            Some(_) => match next.wrapping_sub(open.next) as i32 {
                ..=0 => 0,
                ahead @ ..=MOST_JUMP => ahead as u64,
                _ => bytes,
            },
        };
        self.repeated += u64::from(new == 0);
        open.start = open.start.min(at);
        open.last = open.last.max(at);
        open.bytes += new;
        if new > 0 {
            open.next = next;
        }
    }

    fn close_idle(&mut self) {
        let (idle, latest) = (self.idle, self.latest);
        let is_idle = |_: &Tuple, open: &mut Open| latest.saturating_sub(open.last) > idle;
        let ended: Vec<_> = self.open.extract_if(.., is_idle).collect();
        ended.into_iter().for_each(|(tuple, open)| self.close(tuple, open));
    }

    fn close(&mut self, tuple: Tuple, open: Open) {
        let (src, dst) = (Address::of(tuple.src), Address::of(tuple.dst));
        if self.left_out.keeps(&src, &dst, open.bytes) {
            let addresses = &mut self.gathered.addresses;
            let (src, dst) = (addresses.number(src), addresses.number(dst));
            let lasted = Some(open.last.abs_diff(open.start));
            let flow = Raw { at: open.start, src, dst, bytes: open.bytes, lasted };
            self.gathered.flows.push(flow);
        }
    }

    /// Ends all flows.
    pub(super) fn finish(mut self) -> Gathered {
        let rest = std::mem::take(&mut self.open);
        rest.into_iter().for_each(|(tuple, open)| self.close(tuple, open));
        let noted = |name, text, count| Noted { name, text, count };
        self.gathered.noted.extend(self.left_out.noted());
        self.gathered.noted.extend([
            noted(
                "out_of_order_packets",
                "packets with an earlier time than the previous one",
                self.disordered,
            ),
            noted("repeated_packets", "TCP packets without new payload", self.repeated),
            noted(
                "repeated_on_interface_packets",
                "packets of a flow on another interface than its first packet",
                self.elsewhere,
            ),
        ]);
        self.gathered
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workload::packet::tests::frame;
    use crate::workload::packet::{Content, TCP, UDP, content};

    const MS: i64 = 1_000_000_000;

    fn segment(protocol: u8, sequence: u32, payload: u16) -> Segment {
        match content(1, &frame(protocol, [1, 2], sequence, payload), 1500) {
            Content::Segment(segment) => segment,
            other => panic!("{other:?}"),
        }
    }

    fn flows(connections: Connections) -> Vec<(i64, u64)> {
        connections.finish().flows.iter().map(|flow| (flow.at, flow.bytes)).collect()
    }

    #[test]
    fn idle_gaps_divide_flows() {
        let mut connections = Connections::new("x", Span::ms(10));
        for (at, bytes) in [(0, 100), (5, 200), (15, 300), (26, 400)] {
            connections.add(at * MS, 0, &segment(UDP, 0, bytes));
        }
        assert_eq!(flows(connections), [(0, 600), (26 * MS, 400)]);
    }

    #[test]
    fn flows_cover_packets_out_of_order() {
        let mut connections = Connections::new("x", Span::ms(10));
        for (at, bytes) in [(25, 100), (20, 200), (28, 300), (5, 400)] {
            connections.add(at * MS, 0, &segment(UDP, 0, bytes));
        }
        let found = connections.finish().flows;
        let found: Vec<_> = found.iter().map(|of| (of.at / MS, of.bytes, of.lasted)).collect();
        assert_eq!(found, [(20, 600, Some(8 * MS as u64)), (5, 400, Some(0))]);
    }

    #[test]
    fn tcp_counts_each_byte_once() {
        let mut connections = Connections::new("x", Span::ms(10));
        // In order, repeated, reordered across a wrap, and partly repeated.
        let start = u32::MAX - 150;
        for (at, ahead, bytes) in
            [(0, 0, 100), (1, 0, 100), (2, 200, 100), (3, 100, 100), (4, 250, 150)]
        {
            connections.add(at, 0, &segment(TCP, start.wrapping_add(ahead), bytes));
        }
        assert_eq!(connections.repeated, 2);
        // A second capture point.
        connections.add(5, 1, &segment(TCP, start, 100));
        assert_eq!(connections.elsewhere, 1);
        let mut opens = segment(TCP, 5, 0);
        opens.opens = true;
        connections.add(6, 0, &opens);
        connections.add(7, 0, &segment(TCP, 6, 50));
        assert_eq!(flows(connections), [(0, 400), (7, 50)]);
    }
}
