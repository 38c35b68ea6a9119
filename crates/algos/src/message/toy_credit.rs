//! Toy credit: the smallest receiver-driven transport.
//!
//! A sender announces a message, the receiver answers with credits at the pace of its own link,
//! taking turns between its messages, and every credit lets one packet go. No packet leaves without
//! a credit, so a receiver's link is never overbooked by more than what is already under way. It
//! exists to show that receiver-driven transports fit [`Transport`], and to be read before the real
//! ones.
//!
//! It is nobody's protocol; the idea of credits at line rate is in I. Cho, K. Jang, D. Han,
//! "Credit-Scheduled Delay-Bounded Congestion Control for Datacenters", SIGCOMM 2017.
//!
//! # Equations
//!
//! * credits leave a receiver at least `8 · (MTU + 80) / NIC rate` apart
//! * a message has at most `window` bytes credited and not arrived, so that a busy sender does not
//!   pile up credits
//!
//! # What it needs of the network
//!
//! Nothing of switches but to lose nothing: there is no loss recovery, and one lost packet of any
//! kind leaves its message unfinished. Packets may come late, out of order and more than once: a
//! repeated one changes nothing. Request, credit and acknowledgement take 84 bytes on the wire,
//! data its payload and 80.
//!
//! # Differences from the paper
//!
//! * No credit shaping in switches, no feedback, no request or stop exchange beyond the first
//!   packet.

use alloc::collections::{BTreeMap, VecDeque};
use alloc::vec::Vec;

use tidegate_core::{
    Application, Body, Card, Domain, Endpoint, Equipment, Extent, Facts, HEADER_BYTES, Handle,
    HostContext, MIN_WIRE_BYTES, Marker, Message, MessageId, PacketMut, PathOracle, Reply, Rng,
    Time, Transmit, Transport, body_flag, kind, params,
};

use crate::window::Window;

params! {
    /// Parameters of the toy.
    pub struct ToyCreditParams {
        /// Bytes of one message that may be credited and not arrived.
        window: Extent = Extent::Bdp(1.5), within Extent::Bdp(0.0) => Extent::Bdp(1000.0),
            "our choice: one round trip and some queueing";
    }
}

/// A message being sent.
struct Outgoing {
    id: u32,
    dst: u32,
    entropy: u32,
    /// The receiver's slot, once a credit has named it.
    lane: u32,
    size: u64,
    sent: u64,
    credited: u64,
}

/// A message being received.
struct Incoming {
    id: u32,
    src: u32,
    entropy: u32,
    /// The sender's slot.
    connection: u32,
    size: u64,
    received: u64,
    /// Which of its packets that are.
    arrived: Window,
    credited: u64,
    /// In the ring of those to credit.
    queued: bool,
}

/// The toy transport of one host.
pub struct ToyCredit {
    host: HostContext,
    window: u64,
    /// Time between two credits.
    gap: Time,
    rng: Rng,
    next_credit_at: Time,
    outgoing: Slots<Outgoing>,
    incoming: Slots<Incoming>,
    /// The youngest message from each slot of each sender: a request of that one or an older one
    /// has been heard.
    youngest: BTreeMap<(u32, u32), u32>,
    /// Requests to send: slots of `outgoing`.
    requests: VecDeque<u32>,
    /// Messages with credit, in turn: slots of `outgoing`.
    sendable: VecDeque<u32>,
    /// Messages to credit, in turn: slots of `incoming`.
    creditable: VecDeque<u32>,
    backlog_bytes: u64,
}

/// More messages being received at once than this are not believed.
const MAX_INCOMING: usize = 1 << 20;

impl Endpoint for ToyCredit {
    const CARD: Card = Card {
        name: "toy-credit",
        title: "Toy credit",
        citation: "an example; credits at line rate are from Cho et al., SIGCOMM 2017",
        summary: "Receivers hand out one credit a packet at the pace of their own link.",
        color: "#a6761d",
        marker: Marker::Cross,
        telemetry_bytes: (0, 0),
        echo_bytes: (0, 0),
    };
    type Params = ToyCreditParams;

    fn new(params: &ToyCreditParams, host: &HostContext) -> ToyCredit {
        ToyCredit {
            host: *host,
            window: params.window.bytes(host.bdp_bytes) as u64,
            gap: host.nic_rate.serialise((host.mtu + HEADER_BYTES) as u64),
            rng: Rng::stream(host.seed, Domain::Entropy, host.host as u64),
            next_credit_at: Time::ZERO,
            outgoing: Slots::new(),
            incoming: Slots::new(),
            youngest: BTreeMap::new(),
            requests: VecDeque::new(),
            sendable: VecDeque::new(),
            creditable: VecDeque::new(),
            backlog_bytes: 0,
        }
    }

    fn equipment(_params: &ToyCreditParams, _fabric: &Facts) -> Equipment {
        Equipment { classes: 1, ..Equipment::NONE }
    }
}

impl Transport for ToyCredit {
    fn submit(&mut self, _now: Time, message: Message, _paths: &dyn PathOracle) -> Handle {
        let entropy = self.rng.bits() as u32;
        let Message { id, dst, bytes: size, .. } = message;
        let slot = self.outgoing.insert(Outgoing {
            id,
            dst,
            entropy,
            lane: 0,
            size,
            sent: 0,
            credited: 0,
        });
        if size != Message::UNLIMITED {
            self.backlog_bytes += size;
        }
        self.requests.push_back(slot);
        Handle(slot as u64)
    }

    fn stop(&mut self, _now: Time, handle: Handle) {
        // The receiver is not told: credits for what is never sent are few, because `window` bounds
        // them.
        if let Some(message) =
            self.outgoing.get(handle.0 as u32).filter(|message| message.size == Message::UNLIMITED)
        {
            message.size = message.sent;
        }
    }

    fn receive<A: Application>(&mut self, now: Time, packet: PacketMut<'_>, app: &mut A) -> Reply {
        let body = *packet.body;
        match body.kind {
            kind::REQUEST => {
                let known = self.incoming.len().max(self.youngest.len());
                if known >= MAX_INCOMING || body.ack == 0 || body.src >= self.host.hosts {
                    return Reply::None;
                }
                // Messages are numbered in the order of their submission, and those of a slot
                // follow each other.
                let slot = (body.src, body.connection);
                let is_later = |&id: &u32| (body.message.wrapping_sub(id) as i32) > 0;
                if !self.youngest.get(&slot).is_none_or(is_later) {
                    return Reply::None;
                }
                self.youngest.insert(slot, body.message);
                let slot = self.incoming.insert(Incoming {
                    id: body.message,
                    src: body.src,
                    entropy: packet.frame.entropy,
                    connection: body.connection,
                    size: body.ack,
                    received: 0,
                    arrived: Window::default(),
                    credited: 0,
                    queued: false,
                });
                self.queue_credit(slot);
                Reply::None
            }
            kind::CREDIT => {
                // A stopped message's slot may have another owner by now. Credits that overtake
                // each other are a few round trips apart; a sum beyond that is forged, and would
                // set a whole message free at once.
                let most = (4.0 * self.host.bdp_bytes) as u64 + self.host.mtu as u64;
                let fresh = |message: &&mut Outgoing| {
                    (message.id, message.dst) == (body.message, body.src)
                        && body.sack > message.credited
                        && body.sack - message.credited <= most
                };
                let Some(message) = self.outgoing.get(body.connection).filter(fresh) else {
                    return Reply::None;
                };
                if message.credited == message.sent && message.size > message.sent {
                    self.sendable.push_back(body.connection);
                }
                message.lane = body.lane;
                message.credited = body.sack;
                Reply::None
            }
            kind::DATA => {
                // Nothing arrives that was not credited, and only the last packet of a message is
                // not full.
                let (mtu, payload) = (self.host.mtu as u64, body.payload_bytes as u64);
                let owed = |m: &&mut Incoming| {
                    (m.src, m.id) == (body.src, body.message)
                        && body.seq.is_multiple_of(mtu)
                        && body.seq < m.credited
                        && payload == (m.credited - body.seq).min(mtu)
                };
                let Some(message) = self.incoming.get(body.lane).filter(owed) else {
                    return Reply::None;
                };
                if !message.arrived.insert(body.seq / mtu) {
                    return Reply::None;
                }
                message.received += payload;
                let id = MessageId { src: body.src, id: body.message };
                app.delivered(now, id, body.payload_bytes);
                if message.received < message.size {
                    self.queue_credit(body.lane);
                    return Reply::None;
                }
                self.incoming.remove(body.lane);
                app.completed(now, id);
                packet.frame.dst = body.src;
                packet.frame.wire_bytes = MIN_WIRE_BYTES as u16;
                *packet.body =
                    Body { kind: kind::ACK, src: self.host.host, payload_bytes: 0, ..body };
                Reply::Send
            }
            kind::ACK => {
                let sent = |m: &&mut Outgoing| {
                    m.id == body.message && m.dst == body.src && m.sent == m.size
                };
                if self.outgoing.get(body.connection).filter(sent).is_some() {
                    self.outgoing.remove(body.connection);
                    app.acked(now, MessageId { src: self.host.host, id: body.message });
                }
                Reply::None
            }
            _ => Reply::None,
        }
    }

    fn transmit(&mut self, now: Time, packet: PacketMut<'_>) -> Transmit {
        let (dst, entropy, body) = if let Some(slot) = self.requests.pop_front() {
            let Some(message) = self.outgoing.get(slot) else { return Transmit::Idle };
            let body = Body {
                kind: kind::REQUEST,
                connection: slot,
                message: message.id,
                ack: message.size,
                ..Body::default()
            };
            (message.dst, message.entropy, body)
        } else if let Some(credit) = self.credit(now) {
            credit
        } else if let Some(data) = self.data() {
            data
        } else {
            return Transmit::Idle;
        };
        let on_wire = if body.kind == kind::DATA { body.payload_bytes + HEADER_BYTES } else { 0 };
        *packet.body = Body { src: self.host.host, sent_at: now, ..body };
        packet.hops.clear();
        packet.frame.dst = dst;
        packet.frame.entropy = if self.host.spraying { self.rng.bits() as u32 } else { entropy };
        packet.frame.wire_bytes = on_wire.max(MIN_WIRE_BYTES) as u16;
        packet.frame.peak_hop_delay = Time::ZERO;
        packet.frame.priority = if body.kind == kind::DATA { self.host.data_priority() } else { 0 };
        packet.frame.flags = 0;
        Transmit::Sent
    }

    fn on_deadline<A: Application>(&mut self, _now: Time, _app: &mut A) {}

    fn deadline(&self) -> Time {
        if self.creditable.is_empty() { Time::NEVER } else { self.next_credit_at }
    }

    fn backlog_bytes(&self) -> u64 {
        self.backlog_bytes
    }

    fn limits(&self, _handle: Handle) -> Option<(f64, f64)> {
        None
    }
}

impl ToyCredit {
    /// Puts a message into the ring of those to credit, if it wants credit and may have it.
    fn queue_credit(&mut self, slot: u32) {
        if let Some(message) = self.incoming.get(slot)
            && !message.queued
            && message.credited < message.size
            // At least one packet, however small the window.
            && (message.credited - message.received < self.window
                || message.credited == message.received)
        {
            message.queued = true;
            self.creditable.push_back(slot);
        }
    }

    /// The next credit, if its time has come.
    fn credit(&mut self, now: Time) -> Option<(u32, u32, Body)> {
        if now < self.next_credit_at {
            return None;
        }
        let slot = self.creditable.pop_front()?;
        self.next_credit_at = now + self.gap;
        let message = self.incoming.get(slot)?;
        message.credited += (message.size - message.credited).min(self.host.mtu as u64);
        message.queued = false;
        let (connection, id, lane) = (message.connection, message.id, slot);
        // The sum of all credit, so that one that comes again or late adds nothing.
        let sack = message.credited;
        let header =
            Body { kind: kind::CREDIT, connection, lane, message: id, sack, ..Body::default() };
        let credit = (message.src, message.entropy, header);
        self.queue_credit(slot);
        Some(credit)
    }

    /// The next data packet.
    fn data(&mut self) -> Option<(u32, u32, Body)> {
        loop {
            let slot = self.sendable.pop_front()?;
            // One that was stopped is skipped, once.
            let Some(message) =
                self.outgoing.get(slot).filter(|message| message.sent < message.size)
            else {
                continue;
            };
            let payload_bytes = (message.credited.min(message.size) - message.sent)
                .min(self.host.mtu as u64) as u32;
            let seq = message.sent;
            message.sent += payload_bytes as u64;
            if message.credited > message.sent && message.size > message.sent {
                self.sendable.push_back(slot);
            }
            if message.size != Message::UNLIMITED {
                self.backlog_bytes -= payload_bytes as u64;
            }
            let flags = if message.sent == message.size { body_flag::END_OF_MESSAGE } else { 0 };
            let (connection, lane) = (slot, message.lane);
            let (message, size, dst, entropy) =
                (message.id, message.size, message.dst, message.entropy);
            let body = Body {
                kind: kind::DATA,
                flags,
                connection,
                lane,
                payload_bytes,
                message,
                seq,
                ack: size,
                ..Body::default()
            };
            return Some((dst, entropy, body));
        }
    }
}

/// A table whose places are used again.
struct Slots<T> {
    entries: Vec<Option<T>>,
    free: Vec<u32>,
}

impl<T> Slots<T> {
    fn new() -> Slots<T> {
        Slots { entries: Vec::new(), free: Vec::new() }
    }
    fn insert(&mut self, value: T) -> u32 {
        let slot = self.free.pop().unwrap_or_else(|| {
            self.entries.push(None);
            self.entries.len() as u32 - 1
        });
        self.entries[slot as usize] = Some(value);
        slot
    }
    fn len(&self) -> usize {
        self.entries.len() - self.free.len()
    }
    fn get(&mut self, slot: u32) -> Option<&mut T> {
        self.entries.get_mut(slot as usize)?.as_mut()
    }
    fn remove(&mut self, slot: u32) {
        if self.entries.get_mut(slot as usize).and_then(Option::take).is_some() {
            self.free.push(slot);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::collections::BTreeMap;
    use tidegate_core::{Frame, HopTrace, Path, Rate};

    const RATE: Rate = Rate::gbps(100);

    struct NoPaths;
    impl PathOracle for NoPaths {
        fn path(&self, _src: u32, _dst: u32) -> Path {
            unreachable!("the toy asks for no path")
        }
    }

    #[derive(Default)]
    struct Heard {
        delivered: BTreeMap<u32, u64>,
        completed: Vec<(u32, Time)>,
        acked: Vec<u32>,
    }
    impl Application for Heard {
        fn delivered(&mut self, _now: Time, message: MessageId, bytes: u32) {
            *self.delivered.entry(message.id).or_default() += bytes as u64;
        }
        fn completed(&mut self, now: Time, message: MessageId) {
            self.completed.push((message.id, now));
        }
        fn acked(&mut self, _now: Time, message: MessageId) {
            self.acked.push(message.id);
        }
    }

    /// Hosts on one switch without loss or latency but 1 µs a link.
    struct Star {
        hosts: Vec<ToyCredit>,
        now: Time,
        uplink_free: Vec<Time>,
        downlink_free: Vec<Time>,
        /// By arrival at the host, then order of sending.
        wires: BTreeMap<(Time, u64), (Frame, Body)>,
        sent: u64,
        largest_queue: Time,
        /// Every packet arrives so much later once more.
        echo: Option<Time>,
        heard: Heard,
    }

    impl Star {
        fn new(hosts: u32) -> Star {
            let context = |host| HostContext {
                host,
                hosts,
                seed: 1,
                mtu: 4096,
                nic_rate: RATE,
                fabric_base_rtt: Time::us(5),
                bdp_bytes: 62_500.0,
                connections: tidegate_core::ConnectionPolicy::PerMessage,
                spraying: false,
                priorities: 1,
                most_held: Time::ZERO,
            };
            Star {
                hosts: (0..hosts)
                    .map(|host| ToyCredit::new(&ToyCreditParams::default(), &context(host)))
                    .collect(),
                now: Time::ZERO,
                uplink_free: alloc::vec![Time::ZERO; hosts as usize],
                downlink_free: alloc::vec![Time::ZERO; hosts as usize],
                wires: BTreeMap::new(),
                sent: 0,
                largest_queue: Time::ZERO,
                echo: None,
                heard: Heard::default(),
            }
        }

        fn submit(&mut self, src: usize, id: u32, dst: u32, bytes: u64) -> Handle {
            self.hosts[src].submit(self.now, Message { id, dst, bytes, dedicated: false }, &NoPaths)
        }

        /// Puts a packet on its way; returns when its uplink is free again.
        fn send(&mut self, at: Time, frame: Frame, body: Body) -> Time {
            assert!(frame.wire_bytes as u32 >= MIN_WIRE_BYTES);
            let on_wire = RATE.serialise(frame.wire_bytes as u64);
            let at_switch = at + on_wire + Time::us(1);
            let free = &mut self.downlink_free[frame.dst as usize];
            let start = at_switch.max(*free);
            self.largest_queue = self.largest_queue.max(start - at_switch);
            *free = start + on_wire;
            let arrives = start + on_wire + Time::us(1);
            for at in [Some(arrives), self.echo.map(|later| arrives + later)].into_iter().flatten()
            {
                self.sent += 1;
                self.wires.insert((at, self.sent), (frame, body));
            }
            at + on_wire
        }

        fn run(&mut self, until: Time) {
            let mut hops = HopTrace::default();
            while self.now <= until {
                while let Some(entry) =
                    self.wires.first_entry().filter(|entry| entry.key().0 <= self.now)
                {
                    let (mut frame, mut body) = entry.remove();
                    let host = frame.dst as usize;
                    let packet = PacketMut { frame: &mut frame, body: &mut body, hops: &mut hops };
                    if self.hosts[host].receive(self.now, packet, &mut self.heard) == Reply::Send {
                        let at = self.uplink_free[host].max(self.now);
                        self.uplink_free[host] = self.send(at, frame, body);
                    }
                }
                let mut next = self.wires.keys().next().map_or(Time::NEVER, |key| key.0);
                for host in 0..self.hosts.len() {
                    let (mut frame, mut body) = (Frame::default(), Body::default());
                    let packet = PacketMut { frame: &mut frame, body: &mut body, hops: &mut hops };
                    if self.uplink_free[host] <= self.now
                        && self.hosts[host].transmit(self.now, packet) == Transmit::Sent
                    {
                        self.uplink_free[host] = self.send(self.now, frame, body);
                    }
                    let free = self.uplink_free[host];
                    next =
                        next.min(if free > self.now { free } else { self.hosts[host].deadline() });
                }
                if next == Time::NEVER {
                    return;
                }
                self.now = next.max(self.now + Time::ps(1));
            }
        }
    }

    #[test]
    fn incast_fills_the_link_and_hardly_any_queue() {
        let mut star = Star::new(9);
        for src in 1..9 {
            star.submit(src, src as u32, 0, 1_000_000);
            assert_eq!(star.hosts[src].backlog_bytes(), 1_000_000);
        }
        star.run(Time::ms(2));
        assert_eq!(star.heard.delivered.values().copied().collect::<Vec<_>>(), [1_000_000; 8]);
        assert_eq!((star.heard.completed.len(), star.heard.acked.len()), (8, 8));
        assert!(
            star.hosts
                .iter()
                .all(|host| host.backlog_bytes() == 0 && host.deadline() == Time::NEVER)
        );
        let ideal = RATE.serialise(8 * (1_000_000 + 245 * HEADER_BYTES as u64));
        let last = star.heard.completed.iter().map(|&(_, at)| at).max().unwrap();
        assert!(last < ideal.scale(1.03), "{last} against {ideal}");
        assert!(star.largest_queue < Time::us(1), "{}", star.largest_queue);
    }

    #[test]
    fn one_byte_and_many_messages_in_both_directions() {
        let mut star = Star::new(3);
        for id in 0..600 {
            star.submit(
                id as usize % 3,
                id,
                (id + 1 + id / 300) % 3,
                [1, 4096, 4097, 70_000][id as usize % 4],
            );
        }
        star.run(Time::ms(5));
        assert_eq!((star.heard.completed.len(), star.heard.acked.len()), (600, 600));
        let expected = |id: u32| [1, 4096, 4097, 70_000][id as usize % 4];
        assert!(star.heard.delivered.iter().all(|(&id, &bytes)| bytes == expected(id)));
    }

    #[test]
    fn packets_that_come_again_change_nothing() {
        for echo in [1, 9, 40, 300].map(Time::us) {
            let mut star = Star::new(3);
            star.echo = Some(echo);
            for id in 0..600 {
                star.submit(
                    id as usize % 3,
                    id,
                    (id + 1) % 3,
                    [1, 4096, 4097, 70_000][id as usize % 4],
                );
                star.run(Time::us(10 * id as u64));
            }
            star.run(Time::ms(20));
            assert_eq!((star.heard.completed.len(), star.heard.acked.len()), (600, 600));
            let expected = |id: u32| [1, 4096, 4097, 70_000][id as usize % 4];
            assert!(star.heard.delivered.iter().all(|(&id, &bytes)| bytes == expected(id)));
            assert!(
                star.hosts.iter().all(|host| host.incoming.len() == 0 && host.outgoing.len() == 0)
            );
        }
    }

    #[test]
    fn unlimited_messages_share_a_receiver_and_stop() {
        let mut star = Star::new(3);
        let handles =
            [star.submit(1, 1, 0, Message::UNLIMITED), star.submit(2, 2, 0, Message::UNLIMITED)];
        star.run(Time::us(500));
        let [a, b] = [1, 2].map(|id| star.heard.delivered[&id]);
        assert!(a.abs_diff(b) <= 2 * 4096, "{a} and {b}");
        assert!((a + b) as f64 > 0.93 * RATE.bytes_in(Time::us(500)) as f64);
        let now = star.now;
        star.hosts[1].stop(now, handles[0]);
        star.run(Time::us(600));
        let after = star.heard.delivered[&1];
        star.run(Time::us(1000));
        assert_eq!(star.heard.delivered[&1], after);
        assert!(star.heard.delivered[&2] - b > RATE.bytes_in(Time::us(400)) * 9 / 10);
        assert!(star.heard.completed.is_empty() && star.hosts[1].backlog_bytes() == 0);
    }
}
