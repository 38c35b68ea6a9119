//! Endpoints on a small network in memory that loses, repeats and reorders packets.

extern crate std;

use alloc::collections::BTreeMap;
use alloc::vec::Vec;
use std::println;

use tidegate_core::{Body, ConnectionPolicy, Frame, HopTrace, Path, Rate};

use super::header::{Credit, Data, Request, Resend};
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
        fabric_base_rtt: Span::us(8),
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
        if self.hosts[host].receive(self.now, packet, &mut self.app) == Reply::Send {
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
        let until = net.now + Span::ns(rng.below(20_000));
        net.run(until);
        if size == Message::UNLIMITED {
            net.run(until + Span::ns(rng.below(30_000)));
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

/// `TIDEGATE_SEEDS=20000` runs so many of each.
#[test]
fn every_message_arrives_exactly_once_whatever_the_network_does() {
    let more = std::env::var("TIDEGATE_SEEDS").ok().and_then(|seeds| seeds.parse().ok());
    let mut lost = 0;
    for (loss, duplication, seeds) in
        [(0.0, 0.0, 100), (0.01, 0.0, 600), (0.05, 0.02, 600), (0.3, 0.1, 50)]
    {
        for seed in 0..more.unwrap_or(seeds) {
            let case = alloc::format!("loss {loss}, seed {seed}");
            let jitter = Span::us(1 + seed % 12);
            let mut params = SirdParams::default();
            if seed % 3 == 1 {
                params.receiver_policy = Policy::RoundRobin;
            }
            params.credit_pacing = seed % 5 != 1;
            if seed % 11 == 5 {
                params.rules = Rules::PublishedCode;
            }
            // A prefix without credit and the rest with it; credit for a packet or two at a time.
            if seed % 4 == 2 {
                params.unscheduled_threshold = Extent::Bdp(4.0);
            }
            if seed % 7 == 3 {
                params.budget = Extent::Bytes(0.0);
            }
            if seed % 7 == 4 {
                params.unscheduled_threshold = Extent::Bytes(0.0);
            }
            println!("{case}"); // the last one shown is the one that failed
            let net = chaos(seed, &params, Faults { loss, duplication, jitter, ..NO_FAULTS });
            assert_all_delivered(&net, &case);
            if loss == 0.0 && duplication == 0.0 {
                assert_eq!(net.resent_bytes, 0, "{case}: nothing was lost");
            }
            lost += net.lost;
        }
    }
    assert!(lost > 10_000, "only {lost} packets were lost");
}

#[test]
fn the_first_packet_of_any_kinds_may_be_lost() {
    let mut lost = 0;
    for first_of in 0..1u32 << KINDS {
        for size in [1, 20_000, 99_000, 400_000, Message::UNLIMITED] {
            let mut net = Net::new(2, &SirdParams::default(), Faults { first_of, ..NO_FAULTS }, 1);
            let (id, handle) = net.submit(0, 1, size);
            net.run(Time::us(100));
            net.hosts[0].stop(net.now, handle);
            net.run(Time::s(1));
            let case = alloc::format!("kinds {first_of:b}, {size} B");
            assert_all_delivered(&net, &case);
            // A timeout for each loss, longer from the second in a row.
            let acked = net.app.messages[id as usize].acked.unwrap();
            let bound = Time::ms((1 << net.lost) - 1) + Span::us(200);
            assert!(acked < bound, "{case}: {} lost, done at {acked}", net.lost);
            lost += net.lost;
        }
    }
    assert!(lost > 500, "{lost}");
}

#[test]
fn only_what_was_lost_is_sent_again() {
    let faults = Faults { first_of: DATA, ..NO_FAULTS };
    let mut net = Net::new(3, &SirdParams::default(), faults, 1);
    net.submit(0, 1, 150_000);
    net.run(Time::s(1));
    let done = net.app.messages[0].completed.unwrap();
    assert!(done > Time::ms(1) && done < Time::us(1_100), "{done}");
    assert_eq!(net.resent_bytes, MTU as u64);
}

#[test]
fn a_silent_sender_gives_its_credit_to_others_and_gets_it_back() {
    let faults = Faults { dead: Some((0, Time::us(60), Time::ms(40))), ..NO_FAULTS };
    let mut net = Net::new(3, &SirdParams::default(), faults, 1);
    net.submit(0, 2, 3_000_000);
    net.run(Time::us(70));
    let stuck = |net: &Net| net.hosts[2].inbox.outstanding;
    assert!(stuck(&net) > 50_000, "{} B of credit", stuck(&net));
    net.run(Time::ms(20));
    assert_eq!(stuck(&net), 0, "its credit counts while nobody hears of it");
    net.submit(1, 2, 20_000_000);
    net.run(Time::ms(22));
    assert!(net.app.messages[1].completed.is_some(), "half of the budget is not enough for that");
    net.run(Time::s(1));
    assert_all_delivered(&net, "after the silence");
}

#[test]
fn a_message_without_end_survives_loss_in_bounded_memory() {
    let faults = Faults { loss: 0.001, jitter: Span::us(3), ..NO_FAULTS };
    let mut net = Net::new(2, &SirdParams::default(), faults, 1);
    let (_, handle) = net.submit(0, 1, Message::UNLIMITED);
    net.run(Time::ms(20));
    let delivered = net.app.messages[0].delivered;
    assert!(delivered > RATE.bytes_in(Span::ms(16)), "{delivered} B");
    assert!(net.hosts[1].inbox.most_ahead() < receiver::MAX_AHEAD);
    net.hosts[0].stop(net.now, handle);
    net.run(Time::s(1));
    let heard = net.app.messages[0];
    assert!(heard.completed.is_some() && heard.delivered - delivered < 1_000_000, "{heard:?}");
    assert_all_delivered(&net, "stopped");
}

#[test]
fn credit_stops_where_the_window_of_a_lost_packet_ends() {
    let params = SirdParams { resend_timeout: Span::ms(20), ..SirdParams::default() };
    let mut net = Net::new(2, &params, Faults { first_of: DATA, ..NO_FAULTS }, 1);
    let bytes = (receiver::MAX_AHEAD + 5_000) * MTU as u64;
    net.submit(0, 1, bytes);
    net.run(Time::ms(15));
    assert_eq!(net.hosts[1].inbox.most_ahead(), receiver::MAX_AHEAD);
    net.run(Time::s(1));
    assert_all_delivered(&net, "the window moved on");
    assert_eq!(net.resent_bytes, MTU as u64);
}

#[test]
fn more_messages_than_lanes_wait_for_one() {
    let mut net = Net::new(2, &SirdParams::default(), NO_FAULTS, 1);
    (0..2 * sender::MAX_LANES).for_each(|_| {
        net.submit(0, 1, 1);
    });
    net.run(Time::s(1));
    assert_all_delivered(&net, "many");
}

#[test]
fn forged_packets_harm_only_their_senders() {
    for seed in 0..40 {
        println!("seed {seed}");
        let mut net = Net::new(3, &SirdParams::default(), NO_FAULTS, seed);
        let mut rng = Rng::stream(seed, Domain::Faults, 7);
        for _ in 0..30 {
            let src = rng.below(3) as u32;
            net.submit(src, (src + 1) % 3, 1 + rng.below(60_000));
            for _ in 0..200 {
                let mut any = || match rng.below(4) {
                    0 => rng.below(4),
                    1 => rng.below(200_000),
                    2 => u64::MAX - rng.below(4),
                    _ => rng.bits(),
                };
                // A number, or two.
                let mut word = || if any() % 2 == 0 { any() } else { any() << 32 | any() >> 32 };
                let words = core::array::from_fn(|_| word());
                let body = Body {
                    src: 3 + any() as u32 % 6,
                    message: any() as u32 | FORGED,
                    payload_bytes: any() as u32,
                    transport: 0,
                    is_retransmission: any() % 2 == 0,
                    tag: any() as u8,
                    sent_at: Time::ps(any()),
                    words,
                };
                let frame = Frame { dst: any() as u32 % 3, flags: any() as u8, ..Frame::default() };
                let (mut frame, mut body) = (frame, body);
                let mut hops = HopTrace::default();
                let packet = PacketMut { frame: &mut frame, body: &mut body, hops: &mut hops };
                // Its reply is for nobody here.
                net.hosts[packet.frame.dst as usize].receive(net.now, packet, &mut net.app);
            }
            let until = net.now + Span::us(2);
            net.run_among(until, 3);
        }
        net.run_among(Time::s(1), 3);
        assert!(net.app.messages.iter().all(|heard| heard.acked.is_some()), "seed {seed}");
    }
}

/// Packets for each destination out of 4,000 from a sender with credit for all of them.
fn shares(fair_share: f64, receivers: u32) -> Vec<u32> {
    let mut host = Sird::new(&SirdParams { fair_share, ..SirdParams::default() }, &context(0));
    for dst in 1..=receivers {
        // The shortest is for host 1.
        let message = Message {
            id: dst,
            dst,
            bytes: 100_000_000 + dst as u64 * 10_000_000,
            dedicated: false,
        };
        host.submit(Time::ZERO, message, &NoPaths);
    }
    let mut sent = alloc::vec![0; receivers as usize];
    let (mut frame, mut body, mut hops) = (Frame::default(), Body::default(), HopTrace::default());
    let mut data = 0;
    while data < 4_000 {
        for src in 1..=receivers {
            let credit = credit((data + 100) * 1538);
            tell(&mut host, Time::ZERO, src, &credit);
        }
        let packet = PacketMut { frame: &mut frame, body: &mut body, hops: &mut hops };
        assert_eq!(host.transmit(Time::ZERO, packet), Transmit::Sent);
        if let Some(Header::Data(header)) = Header::read(&body) {
            data += 1;
            sent[frame.dst as usize - 1] += 1;
            assert!(header.sender_congested || receivers == 1, "all that credit and no word of it");
        }
    }
    sent
}

#[test]
fn sender_splits_its_link_between_turns_and_the_shortest_message() {
    assert_eq!(shares(0.5, 1), [4_000]);
    for (fair_share, receivers) in [(0.5, 2), (0.5, 4), (1.0, 3), (0.0, 3), (0.25, 7)] {
        let sent = shares(fair_share, receivers);
        for (dst, &packets) in sent.iter().enumerate() {
            let extra = if dst == 0 { 1.0 - fair_share } else { 0.0 };
            let expected = 4_000.0 * (fair_share / receivers as f64 + extra);
            assert!(
                (packets as f64 - expected).abs() < 8.0,
                "{fair_share} of {receivers}: {sent:?}"
            );
        }
    }
}

#[test]
fn receiver_credits_the_shortest_message_first_or_all_in_turns() {
    let completed = |policy| {
        let params = SirdParams { receiver_policy: policy, ..SirdParams::default() };
        let mut net = Net::new(5, &params, NO_FAULTS, 1);
        (0..4).for_each(|i| {
            net.submit(1 + i, 0, 4_000_000 - 900_000 * i as u64);
        });
        net.run(Time::s(1));
        net.assert_quiet("done");
        net.app
            .messages
            .iter()
            .map(|heard| heard.completed.unwrap().as_us_f64())
            .collect::<Vec<_>>()
    };
    let srpt = completed(Policy::Srpt);
    let turns = completed(Policy::RoundRobin);
    // Bytes before the last of each message under either rule.
    for (times, megabytes) in [(srpt, [10.6, 6.6, 3.5, 1.3]), (turns, [10.6, 9.7, 7.9, 5.2])] {
        for (took, megabytes) in times.iter().zip(megabytes) {
            let expected = megabytes * 80.0 * 1538.0 / 1458.0;
            assert!(
                (took / expected - 1.0).abs() < 0.08,
                "{times:?} where {expected} us are expected"
            );
        }
    }
}

/// Whether each of the first packets says that its sender is congested, of a host with credit for
/// `credited` packets in hand and long messages to so many receivers.
fn csn(rules: Rules, credited: u64, receivers: u32) -> Vec<bool> {
    let mut host = Sird::new(&SirdParams { rules, ..SirdParams::default() }, &context(0));
    for dst in 1..=receivers {
        let message = Message { id: dst, dst, bytes: 10_000_000, dedicated: false };
        host.submit(Time::ZERO, message, &NoPaths);
    }
    tell(&mut host, Time::ZERO, 1, &credit(credited * 1538));
    let mut said = Vec::new();
    while let Some(data) = next_data(&mut host, Time::ZERO) {
        said.push(data.sender_congested);
    }
    assert_eq!(said.len() as u64, credited);
    said
}

#[test]
fn sender_is_congested_by_the_credit_it_holds() {
    // Half a BDP is 32.5 packets. The paper counts the packet that leaves, its authors' simulator
    // what remains.
    for receivers in [1, 2] {
        let said = csn(Rules::Paper, 35, receivers);
        assert_eq!(said.iter().filter(|&&said| said).count(), 3, "{said:?}");
        assert!(said[..3].iter().all(|&said| said));
    }
    assert!(
        csn(Rules::PublishedCode, 35, 1).iter().all(|&said| !said),
        "a single message never says so"
    );
    let said = csn(Rules::PublishedCode, 35, 2);
    assert_eq!(said.iter().filter(|&&said| said).count(), 2, "{said:?}");
}

#[test]
fn exactly_the_threshold_is_congestion() {
    let params =
        SirdParams { sender_threshold: Extent::Bytes(4.0 * 1538.0), ..SirdParams::default() };
    let settings = Settings::new(&params, &context(0));
    assert!(sender::congestion(&settings, 4 * 1538, 0, 1538, 1));
    assert!(!sender::congestion(&settings, 4 * 1538 - 1, 0, 1538, 1));
    // What the sender took itself is not credit.
    assert!(!sender::congestion(&settings, 4 * 1538, 1, 1538, 1));
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
    (reply == Reply::Send).then(|| Header::read(&body).unwrap())
}

/// A host with a long message to host 1.
fn sending() -> Sird {
    let mut host = Sird::new(&SirdParams::default(), &context(0));
    host.submit(
        Time::ZERO,
        Message { id: 0, dst: 1, bytes: 10_000_000, dedicated: false },
        &NoPaths,
    );
    host
}

/// Host 1 has lost patience with the first packets of that message.
const STALLED: Header = Header::Resend(Resend {
    stalled: true,
    connection: 0,
    lane: 0,
    generation: 0,
    message: 0,
    offset: 0,
    missing: 0b11111,
});

#[test]
fn what_a_sender_sent_within_half_a_timeout_is_not_asked_of_it() {
    let timeout = settings().timeout;
    let half = Span::ps(timeout.as_ps() / 2);
    for (later, is_on_its_way) in [(Span::us(1), true), (half - Span::ps(1), true), (half, false)] {
        let (mut host, sent) = (sending(), Time::us(5));
        tell(&mut host, sent, 1, &credit(5 * 1538));
        (0..5).for_each(|packet| {
            assert_eq!(next_data(&mut host, sent).unwrap().offset, packet * MTU as u64)
        });
        assert_eq!(next_data(&mut host, sent), None);
        let reply = tell(&mut host, sent + later, 1, &STALLED);
        let is_busy = matches!(reply, Some(Header::Busy(_)));
        assert_eq!((is_busy, reply.is_some()), (is_on_its_way, is_on_its_way), "after {later}");
        let again =
            next_data(&mut host, sent + later).map(|data| (data.offset, data.retransmission));
        assert_eq!(again, (!is_on_its_way).then_some((0, true)), "{later} after it left");
    }
}

#[test]
fn a_receiver_without_patience_lends_credit_for_one_packet() {
    let mut host = sending();
    tell(&mut host, Time::ZERO, 1, &credit(100));
    assert_eq!(next_data(&mut host, Time::ZERO), None);
    let later = Time::ms(2);
    assert!(matches!(tell(&mut host, later, 1, &STALLED), Some(Header::Busy(_))));
    assert!(next_data(&mut host, later).is_some());
    // The next packet waits for all of its own credit again.
    for (sum, goes) in [(1538 + 1537, false), (2 * 1538, true), (2 * 1538 + 1537, false)] {
        tell(&mut host, later, 1, &credit(sum));
        assert_eq!(next_data(&mut host, later).is_some(), goes, "with {sum} B of credit in all");
    }
}

/// Maps of the packets that are asked for.
fn asked_for(control: &VecDeque<Control>) -> Vec<u64> {
    let missing = |control: &Control| match control.header {
        Header::Resend(resend) => Some(resend.missing),
        _ => None,
    };
    control.iter().filter_map(missing).collect()
}

#[test]
fn a_sender_that_asks_again_is_not_asked_twice_within_a_timeout() {
    let settings = settings();
    let mut inbox = Inbox::new(Pacer::new(RATE, true));
    let (mut control, mut app) = (VecDeque::new(), Checking::default());
    let size = 100 * MTU as u64;
    let request = Request { message: FORGED, size, ..Request::default() };
    let source = inbox.source(&settings, 1, true).unwrap();
    inbox.on_request(&settings, Time::ZERO, source, &request, &mut app, &mut control);
    let repeated = Request { repeated: true, sent: 10 * MTU as u64, ..request };
    let first = Time::ms(2);
    for (at, asked) in [
        (first, 1),
        (first + Span::us(1), 0),
        (first + settings.timeout - Span::ps(1), 0),
        (first + settings.timeout, 1),
    ] {
        control.clear();
        inbox.on_request(&settings, at, source, &repeated, &mut app, &mut control);
        assert_eq!(asked_for(&control).len(), asked, "at {at}");
    }
}

#[test]
fn credit_waits_for_packets_that_come_again_not_for_requests_of_them() {
    let settings = settings();
    let mut inbox = Inbox::new(Pacer::new(RATE, true));
    let (mut control, mut app) = (VecDeque::new(), Checking::default());
    let size = 100 * MTU as u64;
    let request = Request { message: FORGED, size, ..Request::default() };
    let source = inbox.source(&settings, 1, true).unwrap();
    inbox.on_request(&settings, Time::ZERO, source, &request, &mut app, &mut control);
    // The sender has sent ten packets, it says, and none has arrived.
    let repeated = Request { repeated: true, sent: 10 * MTU as u64, ..request };
    inbox.on_request(&settings, Time::ms(2), source, &repeated, &mut app, &mut control);
    assert_eq!(asked_for(&control), [(1 << 10) - 1]);
    assert!(inbox.pacer.opens_at() < Time::ms(1), "nothing has come again yet");
    for packet in 0..10 {
        let offset = packet * MTU as u64;
        let data = Data { retransmission: true, message: FORGED, size, offset, ..Data::default() };
        inbox.on_data(&settings, Time::ms(3), source, &data, MTU, &mut app);
    }
    let paid = inbox.pacer.opens_at() - Time::ms(3);
    assert_eq!(paid, RATE.serialise(1538).times(10) - RATE.serialise(562));
}
