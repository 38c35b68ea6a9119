//! Endpoints on a small network in memory that loses, repeats and reorders packets.

extern crate std;

use alloc::collections::BTreeMap;
use alloc::vec::Vec;

use tidegate_core::{Body, ConnectionPolicy, Frame, HopTrace, Path, Rate};

use super::*;

mod constants;
mod crowd;
mod delivery;
mod matching;
mod tokens;

const RATE: Rate = Rate::gbps(100);
const MTU: u32 = 1460;
/// A full packet on the wire of this project: 1,540 B.
const PACKET: Span = Span::ps(123_200);

/// dcPIM's own setting, with packets as they are here: 49 of them are a BDP.
fn context(host: u32) -> HostContext {
    HostContext {
        host,
        hosts: 16,
        seed: 1,
        mtu: MTU,
        nic_rate: RATE,
        fabric_base_rtt: Span::ps(5_524_800),
        fabric_control_rtt: Span::ps(5_233_600),
        bdp_bytes: 75_460.0,
        connections: ConnectionPolicy::PerMessage,
        spraying: true,
        priorities: 8,
        most_held: Span::ZERO,
    }
}

fn settings() -> Settings {
    Settings::new(&DcpimParams::default(), &context(0))
}

/// When the round of that number, from 1, of an epoch begins.
fn round(epoch: u64, round: u64) -> Time {
    let calendar = settings().calendar;
    Time::ZERO + calendar.phase.times(epoch) + calendar.iteration.times(round - 1)
}

fn full_packets(packets: u64) -> u64 {
    packets * MTU as u64
}

struct NoPaths;
impl PathOracle for NoPaths {
    fn path(&self, _src: u32, _dst: u32) -> Path {
        unreachable!("dcPIM asks for no path")
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
    free: Vec<u32>,
}

impl Application for Checking {
    fn delivered(&mut self, _now: Time, message: MessageId, _offset: u64, bytes: u32) {
        if message.id >= FORGED {
            return;
        }
        let heard = &mut self.messages[message.id as usize];
        heard.delivered += bytes as u64;
        let fits = heard.completed.is_none() && heard.delivered <= heard.size;
        assert!(fits, "delivered twice: {heard:?}");
    }
    fn completed(&mut self, now: Time, message: MessageId) {
        if message.id >= FORGED {
            return;
        }
        let heard = &mut self.messages[message.id as usize];
        assert!(heard.completed.is_none(), "completed twice: {heard:?}");
        let whole = heard.size == Message::UNLIMITED || heard.delivered == heard.size;
        assert!(whole, "too early: {heard:?}");
        heard.completed = Some(now);
    }
    fn acked(&mut self, now: Time, message: MessageId) {
        let heard = &mut self.messages[message.id as usize];
        let right = heard.completed.is_some() && heard.acked.is_none();
        assert!(right, "acknowledged wrongly: {heard:?}");
        heard.acked = Some(now);
        self.free.push(message.id);
    }
}

/// What the network does to packets.
#[derive(Clone, Copy)]
struct Faults {
    loss: f64,
    duplication: f64,
    /// Each packet takes up to so much longer than 1 µs.
    jitter: Span,
    /// Loses everything from and to this host between the two times.
    dead: Option<(u32, Time, Time)>,
    /// Loses the first packet of each kind whose bit is set.
    first_of: u32,
}

const NO_FAULTS: Faults =
    Faults { loss: 0.0, duplication: 0.0, jitter: Span::us(1), dead: None, first_of: 0 };
/// Number of a packet's kind, in the order of the table of headers.
fn kind(body: &Body) -> usize {
    match Header::read(body).unwrap() {
        Header::Data(_) => 0,
        Header::Notification(_) => 1,
        Header::Request(_) => 2,
        Header::Grant(_) => 3,
        Header::Accept(_) => 4,
        Header::Reject(_) => 5,
        Header::Token(_) => 6,
        Header::Ack(_) => 7,
    }
}

/// Bits of [`Faults::first_of`] are by kind, in the order of the table of headers.
const KINDS: u32 = 8;

struct Net {
    hosts: Vec<Dcpim>,
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
    /// By kind.
    packets: [u64; KINDS as usize],
}

impl Net {
    fn new(hosts: u32, params: &DcpimParams, faults: Faults, seed: u64) -> Net {
        Net {
            hosts: (0..hosts).map(|host| Dcpim::new(params, &context(host))).collect(),
            now: Time::ZERO,
            uplink_free: alloc::vec![Time::ZERO; hosts as usize],
            wires: BTreeMap::new(),
            sent: 0,
            lost: 0,
            faults,
            rng: Rng::stream(seed, Domain::Faults, 0),
            app: Checking::default(),
            resent_bytes: 0,
            packets: [0; KINDS as usize],
        }
    }

    /// Submits under the number of an acknowledged message, if there is one.
    fn submit(&mut self, src: u32, dst: u32, size: u64) -> (u32, Handle) {
        let heard = Heard { size, ..Heard::default() };
        let id = self.app.free.pop().unwrap_or_else(|| {
            self.app.messages.push(heard);
            self.app.messages.len() as u32 - 1
        });
        self.app.messages[id as usize] = heard;
        let message = Message { id, dst, bytes: size, dedicated: false, weight: 1 };
        (id, self.hosts[src as usize].submit(self.now, message, &NoPaths))
    }

    fn send(&mut self, at: Time, frame: Frame, body: Body) -> Time {
        let (wire, payload) = (frame.wire_bytes as u32, body.payload_bytes);
        assert_eq!(wire, if payload > 0 { (payload + 80).max(84) } else { 84 }, "{body:?}");
        if body.is_retransmission {
            self.resent_bytes += payload as u64;
        }
        self.packets[kind(&body)] += 1;
        let left = at + RATE.serialise(wire as u64);
        let copies = 1 + (self.rng.unit() < self.faults.duplication) as u32;
        for _ in 0..copies {
            let ends = [body.src, frame.dst];
            let dead = self.faults.dead;
            let dead = dead.is_some_and(|(h, from, to)| ends.contains(&h) && at >= from && at < to);
            let bit = 1 << kind(&body);
            let first = self.faults.first_of & bit != 0;
            self.faults.first_of &= !bit;
            if self.rng.unit() < self.faults.loss || dead || first {
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

    /// Runs until nothing is left to happen, or to `until`; what is sent to hosts that are not
    /// there disappears.
    fn run(&mut self, until: Time) {
        let mut hops = HopTrace::default();
        loop {
            while let Some(entry) =
                self.wires.first_entry().filter(|entry| entry.key().0 <= self.now)
            {
                let (frame, body) = entry.remove();
                if (frame.dst as usize) < self.hosts.len() {
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
                next = next
                    .min(if free > self.now { free } else { Time::NEVER })
                    .min(self.hosts[host].deadline());
            }
            next = next.min(self.wires.keys().next().map_or(Time::NEVER, |key| key.0));
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

/// One host whose packets are made by hand.
struct Bench {
    host: Dcpim,
    app: Checking,
}

impl Bench {
    /// Host 0, with other parameters than the default ones.
    fn with(params: &DcpimParams) -> Bench {
        Bench { host: Dcpim::new(params, &context(0)), app: Checking::default() }
    }

    fn new() -> Bench {
        Bench::with(&DcpimParams::default())
    }

    /// Submits a message to host `dst`.
    fn submit(&mut self, now: Time, dst: u32, bytes: u64) -> Handle {
        self.app.messages.push(Heard { size: bytes, ..Heard::default() });
        let id = self.app.messages.len() as u32 - 1;
        self.host.submit(now, Message { id, dst, bytes, dedicated: false, weight: 1 }, &NoPaths)
    }

    /// Host `src` sends something; the answer, if there is one.
    fn tell(&mut self, now: Time, src: u32, header: Header) -> Option<Header> {
        self.tell_with(now, src, header, 0)
    }

    /// The same, with so much payload.
    fn tell_with(&mut self, now: Time, src: u32, header: Header, payload: u32) -> Option<Header> {
        let (mut frame, mut hops) = (Frame::default(), HopTrace::default());
        let mut body = Body { src, payload_bytes: payload, ..Body::default() };
        header.write(&mut body);
        body.message |= FORGED;
        let packet = PacketMut { frame: &mut frame, body: &mut body, hops: &mut hops };
        let reply = self.host.receive(now, packet, &mut self.app);
        (reply != Reply::None).then(|| Header::read(&body).unwrap())
    }

    /// All that leaves until then: when, where to, what and its priority.
    fn sent_until(&mut self, from: Time, until: Time) -> Vec<(Time, u32, Header, u8)> {
        let (mut now, mut all) = (from, Vec::new());
        loop {
            let (mut frame, mut body) = (Frame::default(), Body::default());
            let mut hops = HopTrace::default();
            let packet = PacketMut { frame: &mut frame, body: &mut body, hops: &mut hops };
            if self.host.transmit(now, packet) == Transmit::Sent {
                all.push((now, frame.dst, Header::read(&body).unwrap(), frame.priority));
                continue;
            }
            if self.host.deadline() > until {
                return all;
            }
            now = now.max(self.host.deadline());
        }
    }

    /// The same at one time, without times and priorities.
    fn sent(&mut self, now: Time) -> Vec<(u32, Header)> {
        let all = self.sent_until(now, now);
        all.into_iter().map(|(_, dst, header, _)| (dst, header)).collect()
    }
}
