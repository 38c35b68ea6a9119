//! Endpoints on a small network in memory that loses, repeats and reorders packets.

extern crate std;

use alloc::collections::BTreeMap;
use alloc::vec::Vec;

use tidegate_core::{Body, ConnectionPolicy, Frame, HopTrace, Rate};

use super::header::{Credit, Data, Done, Nack, Request, Stop};
use super::*;

mod credits;
mod delivery;
mod silence;

const RATE: Rate = Rate::gbps(100);
const MTU: u32 = 1458;

fn context_at(host: u32, nic_rate: Rate) -> HostContext {
    HostContext {
        host,
        hosts: 8,
        seed: 1,
        mtu: MTU,
        nic_rate,
        fabric_base_rtt: Span::us(8),
        fabric_control_rtt: Span::us(8),
        bdp_bytes: 100_000.0,
        connections: ConnectionPolicy::PerMessage,
        spraying: false,
        priorities: 8,
        most_held: Span::ZERO,
    }
}

/// Credits of 84 bytes, all of them.
pub(super) fn params() -> ExpressPassParams {
    ExpressPassParams { largest_credit: 84, ..ExpressPassParams::default() }
}

pub(super) fn settings_of(params: &ExpressPassParams) -> Settings {
    settings_at(params, RATE)
}

pub(super) fn settings_at(params: &ExpressPassParams, rate: Rate) -> Settings {
    Settings::new(params, &context_at(0, rate))
}

fn host(number: u32, params: &ExpressPassParams) -> ExpressPass {
    ExpressPass::new(params, &context_at(number, RATE))
}

struct NoPaths;
impl PathOracle for NoPaths {
    fn path(&self, _src: u32, _dst: u32) -> Path {
        unreachable!("ExpressPass asks for no path")
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
}

impl Application for Checking {
    fn delivered(&mut self, _now: Time, message: MessageId, offset: u64, bytes: u32) {
        if message.id >= FORGED {
            return;
        }
        let heard = &mut self.messages[message.id as usize];
        assert_eq!(heard.delivered, offset, "in order and once");
        heard.delivered += bytes as u64;
        assert!(heard.completed.is_none() && heard.delivered <= heard.size, "{heard:?}");
    }
    fn completed(&mut self, now: Time, message: MessageId) {
        if message.id >= FORGED {
            return;
        }
        let heard = &mut self.messages[message.id as usize];
        assert!(heard.completed.is_none(), "completed twice: {heard:?}");
        let all = heard.size == Message::UNLIMITED || heard.delivered == heard.size;
        assert!(all, "too early: {heard:?}");
        heard.completed = Some(now);
    }
    fn acked(&mut self, now: Time, message: MessageId) {
        let heard = &mut self.messages[message.id as usize];
        let wrong = heard.completed.is_none() || heard.acked.is_some();
        assert!(!wrong, "acknowledged wrongly: {heard:?}");
        heard.acked = Some(now);
    }
}

/// What the network does to packets.
#[derive(Clone, Copy)]
struct Faults {
    loss: f64,
    duplication: f64,
    /// Each packet takes up to so much longer than 1 µs.
    jitter: Span,
    /// Loses the first packet of each kind whose bit is set.
    first_of: u32,
    /// Loses all from this host between the two times.
    dead: Option<(u32, Time, Time)>,
}

const NO_FAULTS: Faults =
    Faults { loss: 0.0, duplication: 0.0, jitter: Span::ZERO, first_of: 0, dead: None };

const KINDS: usize = 6;

fn kind(body: &Body) -> usize {
    match Header::read(body) {
        Some(Header::Data(_)) => 0,
        Some(Header::Request(_)) => 1,
        Some(Header::Stop(_)) => 2,
        Some(Header::Credit(_)) => 3,
        Some(Header::Nack(_)) => 4,
        Some(Header::Done(_)) => 5,
        None => panic!("{body:?}"),
    }
}
const DATA: usize = 0;
const REQUEST: usize = 1;
const STOP: usize = 2;
const CREDIT: usize = 3;

struct Net {
    hosts: Vec<ExpressPass>,
    now: Time,
    uplink_free: Vec<Time>,
    /// By arrival, then order of sending.
    wires: BTreeMap<(Time, u64), (Frame, Body)>,
    order: u64,
    sent: [u64; KINDS],
    lost: u64,
    faults: Faults,
    rng: Rng,
    app: Checking,
    resent_bytes: u64,
}

impl Net {
    fn new(hosts: u32, params: &ExpressPassParams, faults: Faults, seed: u64) -> Net {
        Net {
            hosts: (0..hosts).map(|number| host(number, params)).collect(),
            now: Time::ZERO,
            uplink_free: alloc::vec![Time::ZERO; hosts as usize],
            wires: BTreeMap::new(),
            order: 0,
            sent: [0; KINDS],
            lost: 0,
            faults,
            rng: Rng::stream(seed, Domain::Faults, 0),
            app: Checking::default(),
            resent_bytes: 0,
        }
    }

    fn submit(&mut self, src: u32, dst: u32, bytes: u64) -> Handle {
        let id = self.app.messages.len() as u32;
        self.app.messages.push(Heard { size: bytes, ..Heard::default() });
        let message = Message { id, dst, bytes, dedicated: false, weight: 1 };
        self.hosts[src as usize].submit(self.now, message, &NoPaths)
    }

    fn send(&mut self, at: Time, frame: Frame, body: Body) -> Time {
        let (wire, kind) = (frame.wire_bytes as u32, kind(&body));
        let expected = match body.payload_bytes {
            0 if kind == CREDIT => 84..=92,
            payload => (payload + 80).max(84)..=(payload + 80).max(84),
        };
        assert!(expected.contains(&wire), "{body:?}");
        assert_eq!(frame.flags & frame_flag::CREDIT != 0, kind == CREDIT);
        if body.is_retransmission {
            self.resent_bytes += body.payload_bytes as u64;
        }
        self.sent[kind] += 1;
        let left = at + RATE.serialise(wire as u64);
        let copies = 1 + (self.rng.unit() < self.faults.duplication) as u32;
        for _ in 0..copies {
            let bit = 1 << kind;
            let dead = self.faults.dead;
            let dead = dead.is_some_and(|(h, from, to)| h == body.src && (from..to).contains(&at));
            let first = self.faults.first_of & bit != 0;
            self.faults.first_of &= !bit;
            if self.rng.unit() < self.faults.loss || dead || first {
                self.lost += 1;
                continue;
            }
            self.order += 1;
            let delay = Span::us(1) + Span::ps(self.rng.below(self.faults.jitter.as_ps() + 1));
            self.wires.insert((left + delay, self.order), (frame, body));
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

    /// Runs until nothing is left to happen, or to `until`. What goes to a host that is not there
    /// disappears.
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
            assert!(host.inbox.is_quiet(), "{case}: a receiver is left with a message");
            assert!(host.outbox.is_quiet(), "{case}: a sender is left with a message");
            assert_eq!((host.backlog_bytes(), host.deadline()), (0, Time::NEVER), "{case}");
            assert!(host.leaving.is_empty(), "{case}");
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

/// Host `src` sends something, and the host answers, perhaps.
fn tell(host: &mut ExpressPass, now: Time, src: u32, header: &Header) -> Option<Header> {
    tell_with(host, now, src, header, 0, &mut Checking::default())
}

fn tell_with(
    host: &mut ExpressPass,
    now: Time,
    src: u32,
    header: &Header,
    payload_bytes: u32,
    app: &mut Checking,
) -> Option<Header> {
    let (mut frame, mut hops) = (Frame::default(), HopTrace::default());
    let mut body = Body { src, payload_bytes, ..Body::default() };
    header.write(&mut body);
    let packet = PacketMut { frame: &mut frame, body: &mut body, hops: &mut hops };
    let reply = host.receive(now, packet, app);
    (reply != Reply::None).then(|| Header::read(&body).unwrap())
}

/// What a host sends next, if it may send anything at `now`.
fn next(host: &mut ExpressPass, now: Time) -> Option<Header> {
    let (mut frame, mut body, mut hops) = (Frame::default(), Body::default(), HopTrace::default());
    let packet = PacketMut { frame: &mut frame, body: &mut body, hops: &mut hops };
    (host.transmit(now, packet) == Transmit::Sent).then(|| Header::read(&body).unwrap())
}

/// All that it sends at `now`.
fn all(host: &mut ExpressPass, now: Time) -> Vec<Header> {
    core::iter::from_fn(|| next(host, now)).collect()
}
