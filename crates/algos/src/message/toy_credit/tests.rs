//! Hosts of the toy around one switch.

use super::*;
use alloc::collections::BTreeMap;
use alloc::vec::Vec;
use tidegate_core::{Body, Frame, HopTrace, Path, Rate};

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
    fn delivered(&mut self, _now: Time, message: MessageId, _offset: u64, bytes: u32) {
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
    largest_queue: Span,
    /// Every packet arrives so much later once more.
    echo: Option<Span>,
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
            fabric_base_rtt: Span::us(5),
            fabric_control_rtt: Span::us(5),
            bdp_bytes: 62_500.0,
            connections: tidegate_core::ConnectionPolicy::PerMessage,
            spraying: false,
            priorities: 1,
            most_held: Span::ZERO,
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
            largest_queue: Span::ZERO,
            echo: None,
            heard: Heard::default(),
        }
    }

    fn submit(&mut self, src: usize, id: u32, dst: u32, bytes: u64) -> Handle {
        self.hosts[src].submit(
            self.now,
            Message { id, dst, bytes, dedicated: false, weight: 1 },
            &NoPaths,
        )
    }

    /// Puts a packet on its way; returns when its uplink is free again.
    fn send(&mut self, at: Time, frame: Frame, body: Body) -> Time {
        assert!(frame.wire_bytes as u32 >= MIN_WIRE_BYTES);
        let on_wire = RATE.serialise(frame.wire_bytes as u64);
        let at_switch = at + on_wire + Span::us(1);
        let free = &mut self.downlink_free[frame.dst as usize];
        let start = at_switch.max(*free);
        self.largest_queue = self.largest_queue.max(start - at_switch);
        *free = start + on_wire;
        let arrives = start + on_wire + Span::us(1);
        for at in [Some(arrives), self.echo.map(|later| arrives + later)].into_iter().flatten() {
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
                if self.hosts[host].receive(self.now, packet, &mut self.heard) != Reply::None {
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
                next = next.min(if free > self.now { free } else { self.hosts[host].deadline() });
            }
            if next == Time::NEVER {
                return;
            }
            self.now = next.max(self.now + Span::ps(1));
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
        star.hosts.iter().all(|host| host.backlog_bytes() == 0 && host.deadline() == Time::NEVER)
    );
    let ideal = RATE.serialise(8 * (1_000_000 + 245 * HEADER_BYTES as u64));
    let last = star.heard.completed.iter().map(|&(_, at)| at).max().unwrap();
    assert!(last < Time::ZERO + ideal.scale(1.03), "{last} against {ideal}");
    assert!(star.largest_queue < Span::us(1), "{}", star.largest_queue);
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
    for echo in [1, 9, 40, 300].map(Span::us) {
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
        assert!(star.hosts.iter().all(|host| host.incoming.len() == 0 && host.outgoing.len() == 0));
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
    assert!((a + b) as f64 > 0.93 * RATE.bytes_in(Span::us(500)) as f64);
    let now = star.now;
    star.hosts[1].stop(now, handles[0]);
    star.run(Time::us(600));
    let after = star.heard.delivered[&1];
    star.run(Time::us(1000));
    assert_eq!(star.heard.delivered[&1], after);
    assert!(star.heard.delivered[&2] - b > RATE.bytes_in(Span::us(400)) * 9 / 10);
    assert!(star.heard.completed.is_empty() && star.hosts[1].backlog_bytes() == 0);
}

#[test]
fn a_handle_is_worth_nothing_once_its_message_is_acknowledged() {
    let mut star = Star::new(2);
    let old = star.submit(1, 1, 0, 1_000);
    star.run(Time::us(50));
    assert_eq!(star.heard.acked, [1]);
    // In the same place, and without end.
    let new = star.submit(1, 2, 0, Message::UNLIMITED);
    assert_ne!(old, new);
    let now = star.now;
    star.hosts[1].stop(now, old);
    star.run(Time::us(300));
    let delivered = star.heard.delivered[&2];
    assert!(delivered > RATE.bytes_in(Span::us(200)), "{delivered} B");
    let now = star.now;
    star.hosts[1].stop(now, new);
    star.run(Time::us(400));
    let stopped_at = star.heard.delivered[&2];
    star.run(Time::us(800));
    assert_eq!(star.heard.delivered[&2], stopped_at);
}
