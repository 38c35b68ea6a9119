//! Queues by destination rack (virtual output queues) of a rack's switch. Circuits and the uplink
//! to the packet network serve them.
//!
//! While a circuit is up, it alone serves its rack's queue. A packet whose transmission would not
//! end before the day ends does not start, nor do those behind it. The uplink serves all other
//! non-empty queues round-robin, one packet each. The state changes in steps: a day begins or ends,
//! a packet starts on the circuit, a packet starts on the uplink. The next step depends only on the
//! packets that have arrived by then.

use std::sync::Arc;

use tidegate_core::circuits::Circuits;
use tidegate_core::fabric::{Fabric, Node};
use tidegate_core::{Frame, Span, Time};

use crate::ports::fifo::Fifo;
use crate::ports::port::Port;

/// Queue for racks without a circuit. The uplink serves it.
pub(crate) const REST: usize = 0;

/// The queues of one switch.
pub(crate) struct Voqs {
    /// Port to the packet network.
    pub(crate) uplink: u32,
    queues: Vec<Voq>,
    /// Rack by host.
    rack_of: Arc<[u16]>,
    /// Queue by rack.
    of_rack: Vec<u16>,
    schedule: Schedule,
    /// By slot of a week: the queue whose circuit is up; [`REST`] if none is.
    up_in: Vec<u16>,
    /// The queue whose circuit is up now; [`REST`] if none is.
    up: usize,
    /// Time at which that changes.
    reconfigures_at: Time,
    /// Time of the last step or arrival. Nothing starts before it.
    moment: Time,
    /// Bit q is set if queue q is not empty.
    filled: Vec<u64>,
    /// The queue that the uplink served last.
    served: usize,
    /// Number of packets held.
    packets: u32,
    /// Time of the switch's own event; [`Time::NEVER`] if it has none.
    pub(crate) wakes_at: Time,
}

/// The queue for one rack.
struct Voq {
    fifo: Fifo,
    bytes: u32,
    /// Port of its circuit, or the uplink. The measures of the queue are kept there.
    port: u32,
    /// Wire bytes that have left the queue.
    sent_bytes: u64,
    /// Packets that have left it, and how many of them before warm-up.
    left: u64,
    left_before: u64,
    /// Slots of a week in which its circuit is up.
    days: Vec<u32>,
    /// Interval in which the switch announces the next or present day.
    announced: (Time, Time),
}

/// Days of the circuits, and queue limits.
#[derive(Clone, Copy)]
struct Schedule {
    day: Span,
    slot: Span,
    slots: u64,
    ahead: Span,
    most_bytes: u32,
    enlarged_bytes: u32,
}

/// The next step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// A day begins or ends.
    Reconfigure,
    /// A packet of a queue starts on a port.
    Start { queue: usize, port: u32 },
}

impl Voqs {
    /// Queues of every rack of `fabric` for which `is_here` holds; none without circuits.
    /// `index_of` maps global port IDs to local indices.
    pub(crate) fn of_racks(
        fabric: &Fabric,
        index_of: impl Fn(u32) -> u32,
        is_here: impl Fn(u32) -> bool,
    ) -> Vec<Voqs> {
        let Some(circuits) = &fabric.circuits else { return Vec::new() };
        let mut rack_of = vec![0; fabric.hosts.len()];
        for link in &fabric.links {
            if let (Node::Host(h), Node::Switch(s)) | (Node::Switch(s), Node::Host(h)) =
                (link.a, link.b)
            {
                rack_of[h as usize] = s as u16;
            }
        }
        let (rack_of, ports): (Arc<[u16]>, _) = (rack_of.into(), circuits.ports(fabric));
        let of_rack = |rack: u32| {
            let own = ports.iter().filter(|&&(_, from, _)| from == rack);
            let own: Vec<(u32, u32)> = own.map(|&(port, _, to)| (index_of(port), to)).collect();
            let link = circuits.uplink(&fabric.links, rack)?;
            let port = 2 * link + (fabric.links[link as usize].a != Node::Switch(rack)) as u32;
            Some(Voqs::new(circuits, rack, index_of(port), &own, rack_of.clone()))
        };
        (0..circuits.racks() as u32).filter(|&rack| is_here(rack)).filter_map(of_rack).collect()
    }

    /// Queues of a rack whose circuits leave by the ports `own`, each with the rack that it leads
    /// to.
    fn new(
        circuits: &Circuits,
        rack: u32,
        uplink: u32,
        own: &[(u32, u32)],
        rack_of: Arc<[u16]>,
    ) -> Voqs {
        let mut queues = vec![Voq::new(uplink, Vec::new())];
        let mut of_rack = vec![REST as u16; circuits.racks()];
        let mut up_in = vec![REST as u16; circuits.matchings.len()];
        for &(port, to) in own {
            let days = circuits.days(rack, to);
            if !days.is_empty() {
                let number = queues.len() as u16;
                of_rack[to as usize] = number;
                days.iter().for_each(|&slot| up_in[slot as usize] = number);
                queues.push(Voq::new(port, days));
            }
        }
        let mut voqs = Voqs {
            uplink,
            filled: vec![0; queues.len().div_ceil(64)],
            queues,
            rack_of,
            of_rack,
            schedule: Schedule {
                day: circuits.day,
                slot: circuits.slot(),
                slots: circuits.matchings.len() as u64,
                ahead: circuits.ahead,
                most_bytes: circuits.queue_bytes,
                enlarged_bytes: circuits.enlarged_bytes,
            },
            up_in,
            up: REST,
            reconfigures_at: Time::ZERO,
            moment: Time::ZERO,
            served: 0,
            packets: 0,
            wakes_at: Time::NEVER,
        };
        voqs.reconfigure(Time::ZERO);
        voqs
    }

    /// Ports that serve its queues, the uplink first.
    pub(crate) fn ports(&self) -> impl Iterator<Item = u32> {
        self.queues.iter().map(|queue| queue.port)
    }

    /// The queue for a host of another rack.
    pub(crate) fn queue_for(&self, host: u32) -> usize {
        let rack = self.rack_of.get(host as usize).map_or(0, |&rack| rack as usize);
        self.of_rack.get(rack).map_or(REST, |&queue| queue as usize)
    }

    /// The port that keeps the measures of a queue.
    pub(crate) fn port(&self, queue: usize) -> u32 {
        self.queues[queue].port
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.packets == 0
    }

    /// Wire bytes in a queue, and all that have left it.
    pub(crate) fn bytes(&self, queue: usize) -> (u32, u64) {
        (self.queues[queue].bytes, self.queues[queue].sent_bytes)
    }

    /// Returns whether a queue has no room for `wire_bytes` more at `now`.
    pub(crate) fn refuses(&mut self, queue: usize, wire_bytes: u16, now: Time) -> bool {
        let Schedule { most_bytes, enlarged_bytes, .. } = self.schedule;
        let most = match enlarged_bytes > most_bytes && self.announces(queue, now) {
            true => enlarged_bytes,
            false => most_bytes,
        };
        self.queues[queue].bytes as u64 + wire_bytes as u64 > most as u64
    }

    /// Returns whether the switch announces the circuit of a queue at `now`: from some time before
    /// a day until it ends. Times must not decrease.
    pub(crate) fn announces(&mut self, queue: usize, now: Time) -> bool {
        let voq = &mut self.queues[queue];
        if voq.announced.1 <= now {
            voq.announced = self.schedule.announced(&voq.days, now);
        }
        voq.announced.0 <= now
    }

    /// Appends `packet` to a queue.
    pub(crate) fn push(&mut self, queue: usize, packet: u32, now: Time, frames: &mut [Frame]) {
        if self.packets == 0 && self.reconfigures_at <= now {
            self.reconfigure(now);
        }
        self.moment = now;
        let voq = &mut self.queues[queue];
        voq.bytes += frames[packet as usize].wire_bytes as u32;
        voq.fifo.push(packet, frames);
        self.filled[queue / 64] |= 1 << (queue % 64);
        self.packets += 1;
    }

    /// The next step and its time if nothing else arrives. At equal times, days precede starts.
    pub(crate) fn next(&self, ports: &[Port], frames: &[Frame]) -> (Time, Step) {
        let (circuit, uplink) = (self.circuit_start(ports, frames), self.uplink_start(ports));
        if self.reconfigures_at <= circuit.min(uplink) {
            return (self.reconfigures_at, Step::Reconfigure);
        }
        if circuit <= uplink {
            return (circuit, Step::Start { queue: self.up, port: self.queues[self.up].port });
        }
        (uplink, Step::Start { queue: self.next_in_round().unwrap_or(REST), port: self.uplink })
    }

    /// Start of the next packet on the circuit that is up; [`Time::NEVER`] if it would not end
    /// within the day.
    pub(crate) fn circuit_start(&self, ports: &[Port], frames: &[Frame]) -> Time {
        let voq = &self.queues[self.up];
        if self.up == REST || voq.fifo.is_empty() {
            return Time::NEVER;
        }
        let port = &ports[voq.port as usize];
        let start = port.free_at.max(self.moment);
        let end = start.after(port.serialise(frames[voq.fifo.head() as usize].wire_bytes));
        if end <= self.reconfigures_at { start } else { Time::NEVER }
    }

    /// Start of the next packet on the uplink. A day may begin or end before it.
    pub(crate) fn uplink_start(&self, ports: &[Port]) -> Time {
        self.next_in_round()
            .map_or(Time::NEVER, |_| ports[self.uplink as usize].free_at.max(self.moment))
    }

    /// Earliest start of a packet on `port`, in the present state.
    pub(crate) fn start_of(&self, port: u32, ports: &[Port], frames: &[Frame]) -> Time {
        if port == self.uplink {
            self.uplink_start(ports)
        } else if port == self.queues[self.up].port {
            self.circuit_start(ports, frames)
        } else {
            Time::NEVER
        }
    }

    /// Port of the circuit that is up, if any.
    pub(crate) fn up(&self) -> Option<u32> {
        (self.up != REST).then(|| self.queues[self.up].port)
    }

    /// Time at which a day begins or ends.
    pub(crate) fn reconfigures_at(&self) -> Time {
        self.reconfigures_at
    }

    /// The queue that the uplink serves next.
    fn next_in_round(&self) -> Option<usize> {
        let words = self.filled.len();
        let (from, bit) = ((self.served + 1) / 64, (self.served + 1) % 64);
        // The first word is visited again at the end, for the queues before the one served last.
        (0..=words).find_map(|step| {
            let at = (from + step) % words;
            let mut word = self.filled[at];
            if self.up != REST && self.up / 64 == at {
                word &= !(1 << (self.up % 64));
            }
            if step == 0 && from < words {
                word &= u64::MAX << bit;
            }
            (word != 0).then(|| 64 * at + word.trailing_zeros() as usize)
        })
    }

    /// Determines which circuit is up at `now`, and until when.
    pub(crate) fn reconfigure(&mut self, now: Time) {
        let Schedule { day, slot, slots, .. } = self.schedule;
        let number = now.as_ps() / slot.as_ps();
        let begin = Time::ZERO.after(slot.times(number));
        self.moment = now;
        (self.up, self.reconfigures_at) = match now < begin.after(day) {
            true => (self.up_in[(number % slots) as usize] as usize, begin.after(day)),
            false => (REST, begin.after(slot)),
        };
    }

    /// Takes the packet that starts on `port`.
    pub(crate) fn pop(&mut self, queue: usize, port: u32, frames: &[Frame]) -> u32 {
        if port == self.uplink {
            self.served = queue;
        }
        let voq = &mut self.queues[queue];
        let packet = voq.fifo.pop(frames);
        let wire = frames[packet as usize].wire_bytes as u32;
        voq.bytes -= wire;
        voq.sent_bytes += wire as u64;
        voq.left += 1;
        if voq.fifo.is_empty() {
            self.filled[queue / 64] &= !(1 << (queue % 64));
        }
        self.packets -= 1;
        packet
    }

    fn at(&self, port: u32) -> Option<&Voq> {
        self.queues.iter().find(|queue| queue.port == port)
    }

    /// Packets of the queue whose measures `port` keeps.
    pub(crate) fn queued<'a>(
        &'a self,
        port: u32,
        frames: &'a [Frame],
    ) -> impl Iterator<Item = &'a Frame> {
        self.at(port)
            .into_iter()
            .flat_map(|queue| queue.fifo.iter(frames))
            .map(|packet| &frames[packet as usize])
    }

    /// Packets that have left this queue since warm-up.
    pub(crate) fn left(&self, port: u32) -> u64 {
        self.at(port).map_or(0, |queue| queue.left - queue.left_before)
    }

    /// Counts the packets that leave from now on.
    pub(crate) fn warm_up(&mut self) {
        self.queues.iter_mut().for_each(|queue| queue.left_before = queue.left);
    }
}

impl Voq {
    fn new(port: u32, days: Vec<u32>) -> Voq {
        Voq {
            fifo: Fifo::EMPTY,
            bytes: 0,
            port,
            sent_bytes: 0,
            left: 0,
            left_before: 0,
            days,
            announced: (Time::ZERO, Time::ZERO),
        }
    }
}

impl Schedule {
    /// Interval in which the switch announces the first of these days that ends after `now`.
    fn announced(&self, days: &[u32], now: Time) -> (Time, Time) {
        let number = now.as_ps() / self.slot.as_ps();
        let week = number / self.slots * self.slots;
        let begins = [week, week + self.slots].into_iter().flat_map(|week| {
            days.iter().map(move |&day| Time::ZERO.after(self.slot.times(week + day as u64)))
        });
        let mut ends = begins.map(|begin| (begin.before(self.ahead), begin.after(self.day)));
        ends.find(|&(_, end)| end > now).unwrap_or((Time::NEVER, Time::NEVER))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ports::packets::NIL;
    use tidegate_core::Rate;

    /// Queues of rack 0 of three. A packet of 1,000 B takes 8 us on the uplink (port 0) and 1 us on
    /// the circuits to racks 1 and 2 (ports 1 and 2). Day 0 is rack 1's, day 1 rack 2's.
    fn voqs() -> (Voqs, Vec<Port>, Vec<Frame>) {
        let circuits = Circuits {
            first_link: 1,
            day: Span::us(100),
            night: Span::us(20),
            matchings: vec![vec![1, 2, 0], vec![2, 0, 1]],
            queue_bytes: 3_000,
            enlarged_bytes: 5_000,
            ahead: Span::us(30),
        };
        let port = |gbps| Port::new(Rate::gbps(gbps), Span::ZERO, 0, 0, 0);
        let voqs = Voqs::new(&circuits, 0, 0, &[(1, 1), (2, 2)], [0, 1, 2].into());
        let frame = Frame { wire_bytes: 1_000, next: NIL, ..Frame::default() };
        (voqs, vec![port(1), port(8), port(8)], vec![frame; 16])
    }

    /// Starts until the queues are empty, as (time in us, queue, port).
    fn starts(voqs: &mut Voqs, ports: &mut [Port], frames: &mut [Frame]) -> Vec<(u64, usize, u32)> {
        let mut all = Vec::new();
        while !voqs.is_empty() {
            match voqs.next(ports, frames) {
                (at, Step::Reconfigure) => voqs.reconfigure(at),
                (at, Step::Start { queue, port }) => {
                    let packet = voqs.pop(queue, port, frames);
                    ports[port as usize].launch(packet, at, frames);
                    all.push((at.as_ps() / 1_000_000, queue, port));
                }
            }
        }
        all
    }

    #[test]
    fn circuit_alone_serves_its_queue() {
        let (mut voqs, mut ports, mut frames) = voqs();
        for (packet, queue) in [(0, 1), (1, 1), (2, 2), (3, 2), (4, 0)] {
            voqs.push(queue, packet, Time::us(10), &mut frames);
        }
        let expected = [(10, 1, 1), (10, 2, 0), (11, 1, 1), (18, 0, 0), (26, 2, 0)];
        assert_eq!(starts(&mut voqs, &mut ports, &mut frames), expected);
    }

    #[test]
    fn packet_too_late_for_its_day_takes_the_uplink() {
        let (mut voqs, mut ports, mut frames) = voqs();
        (0..4).for_each(|packet| voqs.push(1, packet, Time::us(98), &mut frames));
        // Two packets fit. The uplink serves the rest in the night, and on day 1 too.
        let expected = [(98, 1, 1), (99, 1, 1), (100, 1, 0), (108, 1, 0)];
        assert_eq!(starts(&mut voqs, &mut ports, &mut frames), expected);
        // Half a microsecond later the second packet does not start.
        let (mut voqs, mut ports, mut frames) = super::tests::voqs();
        let late = Time::us(98) + Span::ns(500);
        (0..2).for_each(|packet| voqs.push(1, packet, late, &mut frames));
        assert_eq!(starts(&mut voqs, &mut ports, &mut frames), [(98, 1, 1), (100, 1, 0)]);
    }

    #[test]
    fn queues_share_the_uplink_until_their_day() {
        let (mut voqs, mut ports, mut frames) = voqs();
        for packet in 0..4 {
            voqs.push(2, packet, Time::us(104), &mut frames);
        }
        for packet in 4..7 {
            voqs.push(1, packet, Time::us(104), &mut frames);
        }
        let expected = [
            (104, 1, 0),
            (112, 2, 0),
            (120, 2, 2),
            (120, 1, 0),
            (121, 2, 2),
            (122, 2, 2),
            (128, 1, 0),
        ];
        assert_eq!(starts(&mut voqs, &mut ports, &mut frames), expected);
    }

    #[test]
    fn announced_days_enlarge_queues() {
        let (mut voqs, _, mut frames) = voqs();
        let announced = |voqs: &mut Voqs| -> Vec<u64> {
            (0..500).filter(|&us| voqs.announces(2, Time::us(us))).collect()
        };
        let expected: Vec<u64> = (90..220).chain(330..460).collect();
        assert_eq!(announced(&mut voqs), expected);
        voqs.queues[2].announced = (Time::ZERO, Time::ZERO);
        (0..3).for_each(|packet| voqs.push(2, packet, Time::us(1), &mut frames));
        let refuses = [1, 90, 219, 220].map(|us| voqs.refuses(2, 1_000, Time::us(us)));
        assert_eq!(refuses, [true, false, false, true]);
        assert!(!voqs.refuses(REST, 1_000, Time::us(220)), "a queue without a circuit");
    }

    #[test]
    fn queue_limit_is_exact_to_the_byte() {
        let (mut voqs, _, mut frames) = voqs();
        (0..2).for_each(|packet| voqs.push(2, packet, Time::us(1), &mut frames));
        assert_eq!([1_000, 1_001].map(|wire| voqs.refuses(2, wire, Time::us(1))), [false, true]);
    }

    #[test]
    fn departures_count_from_warm_up_on() {
        let (mut voqs, mut ports, mut frames) = voqs();
        (0..2).for_each(|packet| voqs.push(1, packet, Time::us(1), &mut frames));
        starts(&mut voqs, &mut ports, &mut frames);
        assert_eq!((voqs.left(1), voqs.left(2)), (2, 0));
        voqs.warm_up();
        voqs.push(1, 2, Time::us(5), &mut frames);
        starts(&mut voqs, &mut ports, &mut frames);
        assert_eq!(voqs.left(1), 1);
    }

    /// The schedule looks at two weeks, because the days of the first may be over. With a week of
    /// 240 us and days of 100 us, announcements leave no gap from 140 us ahead on.
    #[test]
    fn prebuffer_of_a_week_less_a_day_has_no_gap() {
        for (ahead_us, gaps) in [(139, true), (140, false), (200, false), (1_000, false)] {
            let (mut voqs, ..) = voqs();
            voqs.schedule.ahead = Span::us(ahead_us);
            let announced: Vec<bool> = (0..720).map(|us| voqs.announces(1, Time::us(us))).collect();
            assert_eq!(announced.contains(&false), gaps, "{ahead_us} us ahead");
        }
    }

    #[test]
    fn days_of_the_next_week_are_announced() {
        let (mut voqs, ..) = voqs();
        // Day 0 of the second week begins at 240 us.
        let announced = |voqs: &mut Voqs, us| voqs.announces(1, Time::us(us));
        assert_eq!(
            [99, 100, 209, 210, 339, 340].map(|us| announced(&mut voqs, us)),
            [true, false, false, true, true, false]
        );
    }

    #[test]
    fn round_robin_visits_many_queues() {
        let (mut voqs, ..) = voqs();
        voqs.filled = vec![1 << 3 | 1 << 63, 1, 1 << 7];
        voqs.up = 63;
        let mut seen = Vec::new();
        for _ in 0..4 {
            voqs.served = voqs.next_in_round().unwrap();
            seen.push(voqs.served);
        }
        assert_eq!(seen, [3, 64, 135, 3]);
        voqs.filled = vec![1 << 63, 0, 0];
        assert_eq!(voqs.next_in_round(), None);
        voqs.up = REST;
        (voqs.served, voqs.filled) = (63, vec![1 << 63, 0, 0]);
        assert_eq!(voqs.next_in_round(), Some(63));
    }
}
