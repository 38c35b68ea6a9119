//! Endpoints on a small network in memory that loses, repeats and reorders packets.

extern crate std;

use alloc::collections::BTreeMap;
use alloc::vec::Vec;

use tidegate_core::{Body, ConnectionPolicy, Frame, HopTrace, Path, Rate};

use super::header::{Credit, Data};
use super::*;

mod choice;
mod delay;
mod delivery;
mod eligible;
mod patience;
mod sizes;

const RATE: Rate = Rate::gbps(100);
const MTU: u32 = 1458;

fn context(host: u32) -> HostContext {
    HostContext {
        host,
        hosts: 8,
        seed: 1,
        mtu: MTU,
        nic_rate: RATE,
        fabric_base_rtt: Span::us(8),
        fabric_control_rtt: Span::us(8),
        bdp_bytes: 100_000.0,
        connections: ConnectionPolicy::PerMessage,
        spraying: true,
        priorities: 2,
        most_held: Span::ZERO,
    }
}

/// At 100 Gbit/s, with a BDP of 100 KB.
pub(super) fn settings() -> Settings {
    Settings::new(&SirdParams::default(), &context(0))
}

struct NoPaths;
impl PathOracle for NoPaths {
    fn path(&self, _src: u32, _dst: u32) -> Path {
        unreachable!("SIRD asks for no path")
    }
}

/// What the application has heard of a message.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Heard {
    src: u32,
    dst: u32,
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
    fn delivered(&mut self, _now: Time, message: MessageId, _offset: u64, bytes: u32) {
        let message = message.id;
        if message >= FORGED {
            return;
        }
        let heard = &mut self.messages[message as usize];
        heard.delivered += bytes as u64;
        assert!(
            heard.completed.is_none() && heard.delivered <= heard.size,
            "delivered twice: {heard:?}"
        );
    }
    fn completed(&mut self, now: Time, message: MessageId) {
        let message = message.id;
        if message >= FORGED {
            return;
        }
        let heard = &mut self.messages[message as usize];
        assert!(heard.completed.is_none(), "completed twice: {heard:?}");
        assert!(
            heard.size == Message::UNLIMITED || heard.delivered == heard.size,
            "too early: {heard:?}"
        );
        heard.completed = Some(now);
    }
    fn acked(&mut self, now: Time, message: MessageId) {
        let heard = &mut self.messages[message.id as usize];
        assert!(
            heard.completed.is_some() && heard.acked.is_none(),
            "acknowledged wrongly: {heard:?}"
        );
        heard.acked = Some(now);
        self.acked.push(message.id);
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
        Some(Header::Request(_)) => 1,
        Some(Header::Credit(_)) => 2,
        Some(Header::Ack(_)) => 3,
        Some(Header::Resend(_)) => 4,
        Some(Header::Busy(_)) => 5,
        None => panic!("{body:?}"),
    }
}
const DATA: u32 = 1;
const KINDS: u32 = 6;

struct Net {
    hosts: Vec<Sird>,
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
}

impl Net {
    fn new(hosts: u32, params: &SirdParams, faults: Faults, seed: u64) -> Net {
        Net {
            hosts: (0..hosts).map(|host| Sird::new(params, &context(host))).collect(),
            now: Time::ZERO,
            uplink_free: alloc::vec![Time::ZERO; hosts as usize],
            wires: BTreeMap::new(),
            sent: 0,
            lost: 0,
            faults,
            rng: Rng::stream(seed, Domain::Faults, 0),
            app: Checking::default(),
            resent_bytes: 0,
        }
    }

    /// Submits under the number of an acknowledged message, if there is one.
    fn submit(&mut self, src: u32, dst: u32, size: u64) -> (u32, Handle) {
        self.submit_weighed(src, dst, size, 1)
    }

    fn submit_weighed(&mut self, src: u32, dst: u32, size: u64, weight: u8) -> (u32, Handle) {
        let heard = Heard { src, dst, size, ..Heard::default() };
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
        let message = Message { id, dst, bytes: size, dedicated: false, weight };
        (id, self.hosts[src as usize].submit(self.now, message, &NoPaths))
    }

    fn send(&mut self, at: Time, frame: Frame, body: Body) -> Time {
        let wire = frame.wire_bytes as u32;
        let payload = body.payload_bytes;
        let expected = if payload > 0 { (payload + 80).max(84) } else { 84 };
        assert_eq!(wire, expected, "{body:?}");
        if body.is_retransmission {
            self.resent_bytes += body.payload_bytes as u64;
        }
        let left = at + RATE.serialise(wire as u64);
        let copies = 1 + (self.rng.unit() < self.faults.duplication) as u32;
        for _ in 0..copies {
            let dead = self
                .faults
                .dead
                .is_some_and(|(h, from, to)| h == body.src && (from..to).contains(&at));
            let first = self.faults.first_of & bit(&body) != 0;
            self.faults.first_of &= !bit(&body);
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

    /// Runs until nothing is left to happen, or to `until`.
    fn run(&mut self, until: Time) {
        self.run_among(until, self.hosts.len() as u32);
    }

    /// The same; what is sent to hosts from `hosts` on disappears.
    fn run_among(&mut self, until: Time, hosts: u32) {
        let mut hops = HopTrace::default();
        loop {
            while let Some(entry) =
                self.wires.first_entry().filter(|entry| entry.key().0 <= self.now)
            {
                let (frame, body) = entry.remove();
                if frame.dst < hosts {
                    self.receive(frame, body);
                }
            }
            let mut next = self.wires.keys().next().map_or(Time::NEVER, |key| key.0);
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
                    next = next.min(self.wires.keys().next().map_or(Time::NEVER, |key| key.0));
                }
                let free = self.uplink_free[host];
                next = next
                    .min(if free > self.now { free } else { Time::NEVER })
                    .min(self.hosts[host].deadline());
            }
            if next > until {
                self.now = until;
                return;
            }
            self.now = next.max(self.now + Span::ps(1));
        }
    }

    fn assert_quiet(&self, case: &str) {
        for host in &self.hosts {
            assert!(host.inbox.is_quiet(), "{case}: a receiver has not all its credit back");
            assert!(host.outbox.is_quiet(), "{case}: a sender is left with a message");
            for source in &host.inbox.sources {
                let sender = &self.hosts[source.host as usize].outbox;
                let left = sender.in_hand(host.host.host, source.granted_bytes);
                assert_eq!(left, 0, "{case}: host {} is left with credit", source.host);
            }
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

/// What a host does next; a request for credit aside.
fn next_data(host: &mut Sird, now: Time) -> Option<Data> {
    let (mut frame, mut body, mut hops) = (Frame::default(), Body::default(), HopTrace::default());
    while host.transmit(now, PacketMut { frame: &mut frame, body: &mut body, hops: &mut hops })
        == Transmit::Sent
    {
        if let Some(Header::Data(data)) = Header::read(&body) {
            return Some(data);
        }
    }
    None
}

/// Credit for any message.
fn credit(granted: u64) -> Header {
    Header::Credit(Credit { granted, ..Credit::default() })
}

/// Host `src` sends something, and the host answers, perhaps.
fn tell(host: &mut Sird, now: Time, src: u32, header: &Header) -> Option<Header> {
    let (mut frame, mut hops) = (Frame::default(), HopTrace::default());
    let mut body = Body { src, ..Body::default() };
    header.write(&mut body);
    let packet = PacketMut { frame: &mut frame, body: &mut body, hops: &mut hops };
    let reply = host.receive(now, packet, &mut Checking::default());
    (reply != Reply::None).then(|| Header::read(&body).unwrap())
}
