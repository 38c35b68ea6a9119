//! Endpoints on a small network in memory that loses, repeats and reorders packets.

extern crate std;

use alloc::collections::BTreeMap;
use alloc::vec::Vec;

use tidegate_core::{Body, ConnectionPolicy, Frame, HopTrace, Path, Rate};

use super::header::{Ack, Data, Grant, Resend, pair};
use super::*;

mod choice;
mod delivery;
mod levels;
mod patience;

const RATE: Rate = Rate::gbps(100);
const MTU: u32 = 1442;
const TIMEOUT: Span = Span::ms(5);

fn context(host: u32) -> HostContext {
    HostContext {
        host,
        hosts: 12,
        seed: 1,
        mtu: MTU,
        nic_rate: RATE,
        fabric_base_rtt: Span::us(8),
        fabric_control_rtt: Span::us(8),
        bdp_bytes: 100_000.0,
        connections: ConnectionPolicy::PerMessage,
        spraying: true,
        priorities: 8,
        most_held: Span::ZERO,
    }
}

fn fitted(params: HomaParams) -> Fitted {
    Fitted { params, curve: None }
}

/// With two senders at a time, on four levels of eight.
fn two_at_a_time() -> HomaParams {
    HomaParams { overcommitment: 2, scheduled_priorities: 4, ..HomaParams::default() }
}

fn host(params: &HomaParams) -> Homa {
    Homa::new(&fitted(params.clone()), &context(0))
}

struct NoPaths;
impl PathOracle for NoPaths {
    fn path(&self, _src: u32, _dst: u32) -> Path {
        unreachable!("Homa asks for no path")
    }
}

/// What the application has heard of a message.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Heard {
    size: u64,
    delivered: u64,
    completed: Option<Time>,
    acked: Option<Time>,
}

/// Numbers from here on are made up.
const FORGED: u32 = 1 << 31;

/// Checks every call at once.
#[derive(Default)]
struct Checking {
    /// By the application's number.
    messages: Vec<Heard>,
    acked: Vec<u32>,
}

impl Application for Checking {
    fn delivered(&mut self, _now: Time, MessageId { id, .. }: MessageId, _at: u64, bytes: u32) {
        if id >= FORGED {
            return;
        }
        let heard = &mut self.messages[id as usize];
        heard.delivered += bytes as u64;
        let fits = heard.completed.is_none() && heard.delivered <= heard.size;
        assert!(fits, "delivered twice: {heard:?}");
    }
    fn completed(&mut self, now: Time, MessageId { id, .. }: MessageId) {
        if id >= FORGED {
            return;
        }
        let heard = &mut self.messages[id as usize];
        let all = heard.size == Message::UNLIMITED || heard.delivered == heard.size;
        assert!(all && heard.completed.is_none(), "too early, or twice: {heard:?}");
        heard.completed = Some(now);
    }
    fn acked(&mut self, now: Time, MessageId { id, .. }: MessageId) {
        let heard = &mut self.messages[id as usize];
        let rightly = heard.completed.is_some() && heard.acked.is_none();
        assert!(rightly, "acknowledged wrongly: {heard:?}");
        heard.acked = Some(now);
        self.acked.push(id);
    }
}

/// What the network does to packets.
#[derive(Clone, Copy)]
struct Faults {
    loss: f64,
    duplication: f64,
    /// Each packet takes up to so much longer than 1 µs.
    jitter: Span,
    /// Loses everything from this host between the two times.
    dead: Option<(u32, Time, Time)>,
    /// Loses the first packet of each kind whose bit is set.
    first_of: u32,
}

const NO_FAULTS: Faults =
    Faults { loss: 0.0, duplication: 0.0, jitter: Span::us(1), dead: None, first_of: 0 };

/// Of [`Faults::first_of`].
fn bit(body: &Body) -> u32 {
    1 << match Header::read(body) {
        Some(Header::Data(_)) => 0,
        Some(Header::Grant(_)) => 1,
        Some(Header::Ack(_)) => 2,
        Some(Header::NeedAck(_)) => 3,
        Some(Header::Resend(_)) => 4,
        Some(Header::Busy(_)) => 5,
        None => panic!("{body:?}"),
    }
}
const DATA: u32 = 1;
const GRANT: u32 = 2;
const KINDS: u32 = 6;

/// What a packet must cost on the wire.
fn wire_of(body: &Body) -> u32 {
    let payload = body.payload_bytes;
    match Header::read(body) {
        Some(Header::Data(data)) if data.scheduled => (payload + 82).max(84),
        Some(Header::Data(_)) => payload + 96,
        Some(Header::Grant(_)) => 86,
        Some(Header::Ack(ack)) => 84 + 8 * (ack.messages().count() as u32).saturating_sub(2),
        _ => 84,
    }
}

struct Net {
    hosts: Vec<Homa>,
    now: Time,
    uplink_free: Vec<Time>,
    /// By arrival, then order of sending.
    wires: BTreeMap<(Time, u64), (Frame, Body)>,
    sent: u64,
    lost: u64,
    faults: Faults,
    rng: Rng,
    app: Checking,
    resent_bytes: u64,
    control: u64,
}

impl Net {
    fn new(hosts: u32, params: &HomaParams, faults: Faults, seed: u64) -> Net {
        let fitted = fitted(params.clone());
        Net {
            hosts: (0..hosts).map(|host| Homa::new(&fitted, &context(host))).collect(),
            now: Time::ZERO,
            uplink_free: alloc::vec![Time::ZERO; hosts as usize],
            wires: BTreeMap::new(),
            sent: 0,
            lost: 0,
            faults,
            rng: Rng::stream(seed, Domain::Faults, 0),
            app: Checking::default(),
            resent_bytes: 0,
            control: 0,
        }
    }

    /// Submits under the number of an acknowledged message, if there is one.
    fn submit(&mut self, src: u32, dst: u32, size: u64) -> (u32, Handle) {
        let heard = Heard { size, ..Heard::default() };
        let id = match self.app.acked.pop() {
            Some(id) => {
                self.app.messages[id as usize] = heard;
                id
            }
            None => {
                self.app.messages.push(heard);
                self.app.messages.len() as u32 - 1
            }
        };
        let message = Message { id, dst, bytes: size, dedicated: false, weight: 1 };
        (id, self.hosts[src as usize].submit(self.now, message, &NoPaths))
    }

    fn send(&mut self, at: Time, frame: Frame, body: Body) -> Time {
        assert_eq!(frame.wire_bytes as u32, wire_of(&body), "{body:?}");
        assert!(frame.priority < 8);
        self.control += (body.payload_bytes == 0) as u64;
        if body.is_retransmission {
            self.resent_bytes += body.payload_bytes as u64;
        }
        let left = at + RATE.serialise(frame.wire_bytes as u64);
        let copies = 1 + (self.rng.unit() < self.faults.duplication) as u32;
        for _ in 0..copies {
            let dead = |(host, from, to)| host == body.src && (from..to).contains(&at);
            let first = self.faults.first_of & bit(&body) != 0;
            self.faults.first_of &= !bit(&body);
            if self.rng.unit() < self.faults.loss || self.faults.dead.is_some_and(dead) || first {
                self.lost += 1;
                continue;
            }
            self.sent += 1;
            let delay = Span::us(1) + Span::ps(self.rng.below(self.faults.jitter.as_ps() + 1));
            self.wires.insert((left + delay, self.sent), (frame, body));
        }
        left
    }

    fn receive(&mut self, mut frame: Frame, mut body: Body) {
        let mut hops = HopTrace::default();
        let host = frame.dst as usize;
        let packet = PacketMut { frame: &mut frame, body: &mut body, hops: &mut hops };
        if self.hosts[host].receive(self.now, packet, &mut self.app) != Reply::None {
            let at = self.uplink_free[host].max(self.now);
            self.uplink_free[host] = self.send(at, frame, body);
        }
    }

    /// Runs until nothing is left to happen, or to `until`.
    fn run(&mut self, until: Time) {
        self.run_among(until, self.hosts.len() as u32);
    }

    /// The same; what is sent to hosts from `hosts` on disappears.
    fn run_among(&mut self, until: Time, hosts: u32) {
        let mut hops = HopTrace::default();
        loop {
            let arrived = |net: &mut Net| {
                let entry = net.wires.first_entry()?;
                (entry.key().0 <= net.now).then(|| entry.remove())
            };
            while let Some((frame, body)) = arrived(self) {
                if frame.dst < hosts {
                    self.receive(frame, body);
                }
            }
            let mut next = Time::NEVER;
            for host in 0..self.hosts.len() {
                if self.hosts[host].deadline() <= self.now {
                    self.hosts[host].on_deadline(self.now, &mut self.app);
                }
                let (mut frame, mut body) = (Frame::default(), Body::default());
                let packet = PacketMut { frame: &mut frame, body: &mut body, hops: &mut hops };
                if self.uplink_free[host] <= self.now
                    && self.hosts[host].transmit(self.now, packet) == Transmit::Sent
                {
                    self.uplink_free[host] = self.send(self.now, frame, body);
                }
                let free = self.uplink_free[host];
                let free = if free > self.now { free } else { Time::NEVER };
                next = next.min(free).min(self.hosts[host].deadline());
            }
            next = self.wires.keys().next().map_or(next, |key| next.min(key.0));
            if next > until {
                self.now = until;
                return;
            }
            self.now = next.max(self.now + Span::ps(1));
        }
    }

    fn assert_quiet(&self, case: &str) {
        for host in &self.hosts {
            assert!(host.inbox.is_quiet(), "{case}: a receiver is left with something");
            assert!(host.outbox.is_quiet(), "{case}: a sender is left with a message");
            assert_eq!((host.backlog_bytes(), host.deadline()), (0, Time::NEVER), "{case}");
            assert!(host.control.is_empty(), "{case}");
        }
        assert!(self.wires.is_empty(), "{case}");
    }
}

fn assert_all_delivered(net: &Net, case: &str) {
    for heard in &net.app.messages {
        assert!(heard.acked.is_some(), "{case}: {heard:?}");
    }
    net.assert_quiet(case);
}

/// Everything that a host sends now: where to, at which priority, and what it says.
fn all_sent(host: &mut Homa, now: Time) -> Vec<(u32, u8, Header)> {
    let (mut frame, mut body, mut hops) = (Frame::default(), Body::default(), HopTrace::default());
    let mut sent = Vec::new();
    while host.transmit(now, PacketMut { frame: &mut frame, body: &mut body, hops: &mut hops })
        == Transmit::Sent
    {
        sent.push((frame.dst, frame.priority, Header::read(&body).unwrap()));
    }
    sent
}

/// Grants that a host sends now: to whom, the level, and up to which packet.
fn grants(host: &mut Homa, now: Time) -> Vec<(u32, u32, u64)> {
    let grant = |(dst, priority, header): (u32, u8, Header)| match header {
        Header::Grant(grant) => {
            assert_eq!(priority, 0, "control goes first");
            Some((dst, grant.level, grant.granted.div_ceil(MTU as u64)))
        }
        _ => None,
    };
    all_sent(host, now).into_iter().filter_map(grant).collect()
}

/// Data that a host sends now: where to, at which priority, and which packet.
fn data(host: &mut Homa, now: Time) -> Vec<(u32, u8, u64)> {
    let data = |(dst, priority, header): (u32, u8, Header)| match header {
        Header::Data(data) => Some((dst, priority, data.offset / MTU as u64)),
        _ => None,
    };
    all_sent(host, now).into_iter().filter_map(data).collect()
}

/// Host `src` sends something with so much payload, and the host answers, perhaps.
fn hand(host: &mut Homa, now: Time, src: u32, header: &Header, payload: u64) -> Option<Header> {
    let (mut frame, mut hops) = (Frame::default(), HopTrace::default());
    let mut body = Body { src, payload_bytes: payload as u32, ..Body::default() };
    header.write(&mut body);
    let packet = PacketMut { frame: &mut frame, body: &mut body, hops: &mut hops };
    let reply = host.receive(now, packet, &mut Checking::default());
    (reply != Reply::None).then(|| Header::read(&body).unwrap())
}

/// The same without payload.
fn tell(host: &mut Homa, now: Time, src: u32, header: &Header) -> Option<Header> {
    hand(host, now, src, header, 0)
}

/// A packet of a message of `packets` full ones, made up, which is host `src`'s only one.
fn packet_of(packets: u64, packet: u64) -> Header {
    let size = packets * MTU as u64;
    Header::Data(Data {
        message: FORGED,
        unscheduled: 1,
        size,
        offset: packet * MTU as u64,
        ..Data::default()
    })
}

/// Hands over a packet of the message of `packets` packets of host `src`.
fn receive(host: &mut Homa, now: Time, src: u32, packets: u64, packet: u64) -> Option<Header> {
    hand(host, now, src, &packet_of(packets, packet), MTU as u64)
}
