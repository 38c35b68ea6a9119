//! Endpoints on a small network in memory that loses, repeats and reorders packets.

extern crate std;

use alloc::collections::BTreeMap;
use alloc::vec::Vec;
use std::println;

use tidegate_core::{ConnectionPolicy, Frame, HopTrace, Path, Rate, body_flag};

use super::*;

const RATE: Rate = Rate::gbps(100);
const MTU: u32 = 1458;

fn context(host: u32) -> HostContext {
    HostContext {
        host,
        hosts: 8,
        seed: 1,
        mtu: MTU,
        nic_rate: RATE,
        fabric_base_rtt: Time::us(8),
        bdp_bytes: 100_000.0,
        connections: ConnectionPolicy::PerMessage,
        spraying: true,
        priorities: 2,
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

/// Checks every call at once.
#[derive(Default)]
struct Checking {
    /// By the application's number.
    messages: Vec<Heard>,
    acked: Vec<u32>,
}

impl Application for Checking {
    fn delivered(&mut self, message: u32, bytes: u32) {
        let heard = &mut self.messages[message as usize];
        heard.delivered += bytes as u64;
        assert!(heard.completed.is_none() && heard.delivered <= heard.size, "delivered twice: {heard:?}");
    }
    fn completed(&mut self, now: Time, message: u32) {
        let heard = &mut self.messages[message as usize];
        assert!(heard.completed.is_none(), "completed twice: {heard:?}");
        assert!(heard.size == Message::UNLIMITED || heard.delivered == heard.size, "too early: {heard:?}");
        heard.completed = Some(now);
    }
    fn acked(&mut self, now: Time, message: u32) {
        let heard = &mut self.messages[message as usize];
        assert!(heard.completed.is_some() && heard.acked.is_none(), "acknowledged wrongly: {heard:?}");
        heard.acked = Some(now);
        self.acked.push(message);
    }
}

/// What the network does to packets.
#[derive(Clone, Copy)]
struct Faults {
    loss: f64,
    duplication: f64,
    /// Each packet takes up to so much longer than 1 µs.
    jitter: Time,
    /// Loses everything from this host from then on.
    dead: Option<(u32, Time)>,
}

const NO_FAULTS: Faults = Faults { loss: 0.0, duplication: 0.0, jitter: Time::us(1), dead: None };

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
        let message = Message { id, dst, bytes: size, dedicated: false };
        (id, self.hosts[src as usize].submit(self.now, message, &NoPaths))
    }

    fn send(&mut self, at: Time, frame: Frame, body: Body) -> Time {
        let wire = frame.wire_bytes as u32;
        let expected = if body.kind == kind::DATA { (body.payload_bytes + 80).max(84) } else { 84 };
        assert_eq!(wire, expected, "{body:?}");
        if body.flags & body_flag::RETRANSMISSION != 0 {
            self.resent_bytes += body.payload_bytes as u64;
        }
        let left = at + RATE.serialise(wire as u64);
        let copies = 1 + (self.rng.unit() < self.faults.duplication) as u32;
        for _ in 0..copies {
            let dead = self.faults.dead.is_some_and(|(host, since)| host == body.src && at >= since);
            if self.rng.unit() < self.faults.loss || dead {
                self.lost += 1;
                continue;
            }
            self.sent += 1;
            let delay = Time::us(1) + Time::ps(self.rng.below(self.faults.jitter.as_ps() + 1));
            self.wires.insert((left + delay, self.sent), (frame, body));
        }
        left
    }

    fn receive(&mut self, mut frame: Frame, mut body: Body) {
        let mut hops = HopTrace::default();
        let host = frame.dst as usize;
        let packet = PacketMut { frame: &mut frame, body: &mut body, hops: &mut hops };
        if self.hosts[host].receive(self.now, packet, &mut self.app) == Reply::Send {
            let at = self.uplink_free[host].max(self.now);
            self.uplink_free[host] = self.send(at, frame, body);
        }
    }

    /// Runs until nothing is left to happen, or to `until`.
    fn run(&mut self, until: Time) {
        let mut hops = HopTrace::default();
        loop {
            while let Some(entry) = self.wires.first_entry().filter(|entry| entry.key().0 <= self.now) {
                let (frame, body) = entry.remove();
                self.receive(frame, body);
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
                next = next.min(if free > self.now { free } else { Time::NEVER }).min(self.hosts[host].deadline());
            }
            if next > until {
                self.now = until;
                return;
            }
            self.now = next.max(self.now + Time::ps(1));
        }
    }

    fn assert_quiet(&self, case: &str) {
        for host in &self.hosts {
            assert!(host.inbox.is_quiet(), "{case}: a receiver has not all its credit back");
            assert!(host.outbox.is_quiet(), "{case}: a sender is left with a message or credit");
            assert_eq!((host.backlog_bytes(), host.deadline()), (0, Time::NEVER), "{case}");
            assert!(host.control.is_empty(), "{case}");
        }
        assert!(self.wires.is_empty(), "{case}");
    }
}

/// A few dozen messages of many sizes among four hosts, some of them stopped.
fn chaos(seed: u64, params: &SirdParams, faults: Faults) -> Net {
    let mut net = Net::new(4, params, faults, seed);
    let mut rng = Rng::stream(seed, Domain::Traffic, 0);
    for _ in 0..24 {
        let src = rng.below(4) as u32;
        let dst = (src + 1 + rng.below(3) as u32) % 4;
        let size = match rng.below(8) {
            0 => 1,
            1 => MTU as u64 * (1 + rng.below(4)),
            2..5 => 1 + rng.below(10_000),
            5..7 => 1 + rng.below(150_000),
            _ => Message::UNLIMITED,
        };
        let (_, handle) = net.submit(src, dst, size);
        let until = net.now + Time::ns(rng.below(20_000));
        net.run(until);
        if size == Message::UNLIMITED {
            net.run(until + Time::ns(rng.below(30_000)));
            net.hosts[src as usize].stop(net.now, handle);
        }
    }
    net.run(Time::s(20));
    net
}

fn assert_all_delivered(net: &Net, case: &str) {
    for heard in &net.app.messages {
        assert!(heard.acked.is_some(), "{case}: {heard:?}");
    }
    net.assert_quiet(case);
}

#[test]
fn every_message_arrives_exactly_once_whatever_the_network_does() {
    let mut lost = 0;
    for (loss, duplication, seeds) in [(0.0, 0.0, 100), (0.01, 0.0, 600), (0.05, 0.02, 600), (0.3, 0.1, 50)] {
        for seed in 0..seeds {
            let case = alloc::format!("loss {loss}, seed {seed}");
            let jitter = Time::us(1 + seed % 12);
            let mut params = SirdParams::default();
            if seed % 3 == 1 {
                params.receiver_policy = Policy::RoundRobin;
            }
            params.credit_pacing = seed % 5 != 1;
            println!("{case}"); // the last one shown is the one that failed
            let net = chaos(seed, &params, Faults { loss, duplication, jitter, dead: None });
            assert_all_delivered(&net, &case);
            if loss == 0.0 && duplication == 0.0 {
                assert_eq!(net.resent_bytes, 0, "{case}: nothing was lost");
            }
            lost += net.lost;
        }
    }
    assert!(lost > 10_000, "only {lost} packets were lost");
}
