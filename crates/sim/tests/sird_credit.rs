//! SIRD's bound on the queue of a downlink, checked for every packet that joins it.
//!
//! Let `D` be the least time from a credit's departure to the time at which its packet joins a
//! downlink's queue. The bytes that wait there, and those that have started to leave since `D` plus
//! a packet's way to the host earlier, were all outstanding `D` earlier, so they are at most the
//! budget `B`. A busy link carries a round trip's worth in that time, so at most `B - BDP` waits.
//! If the link was idle in between, all waiting bytes have joined since then, and paced credit
//! requested at most what the link carries, except for late packets. Their amount is bounded by the
//! longest loop less the shortest: the delay of senders and of the core.

use std::collections::BTreeMap;

use crate::common::observers::{Observer, ObserverAccess, TestProbe};
use crate::common::*;
use tidegate_algos::Stack;
use tidegate_algos::message::sird::header::{Data, Header};
use tidegate_core::params::Value;
use tidegate_core::wire::Carried;
use tidegate_core::workload::Flow;
use tidegate_core::{Extent, Rate, Span, Time};
use tidegate_sim::{Departure, Engine, Setup};

const MTU: u32 = 1458;
const FULL: u64 = 1538;
const RATE: Rate = Rate::gbps(100);
const POLICIES: [&str; 4] = ["srpt", "round-robin", "weighted", "strict"];

fn sird(set: &[(&str, Value)]) -> Stack {
    let mut stack = stack("sird");
    set.iter().for_each(|&(name, value)| stack.set(name, value).unwrap());
    stack
}

/// A data packet that has been in the queue of a downlink.
struct Waited {
    joined: Time,
    left: Time,
    wire: u64,
    /// Time from its credit's departure to its joining; `None` if it left without credit.
    looped: Option<Span>,
}

/// Events at hosts' links; link `i` belongs to host `i`.
struct Watch {
    hosts: u32,
    /// By receiver and sender: departure times of credit, with the sum so far.
    credits: BTreeMap<(u32, u32), Vec<(Time, u64)>>,
    /// By receiver and sender: bytes of data sent on credit.
    spent: BTreeMap<(u32, u32), u64>,
    /// By sender, message and offset: departure time of the credit that a packet used.
    released: BTreeMap<(u32, u32, u64), Time>,
    /// By receiver, in the order of their departures.
    scheduled: Vec<Vec<Waited>>,
    /// Bytes of other packets, by receiver.
    others: Vec<u64>,
}

impl Watch {
    fn new(hosts: u32) -> Watch {
        Watch {
            hosts,
            credits: BTreeMap::new(),
            spent: BTreeMap::new(),
            released: BTreeMap::new(),
            scheduled: (0..hosts).map(|_| Vec::new()).collect(),
            others: vec![0; hosts as usize],
        }
    }

    /// Data leaves its sender on credit: the first credit that made the sum what it is now.
    fn spend(&mut self, d: &Departure<'_>, data: &Data) {
        let pair = (d.frame.dst, d.body.src);
        let spent = self.spent.entry(pair).or_default();
        *spent += d.frame.wire_bytes as u64;
        let credits = &self.credits[&pair];
        let first = credits.partition_point(|&(_, granted)| granted < *spent);
        // On loan, if there is none.
        if let Some(&(at, _)) = credits.get(first) {
            self.released.insert((d.body.src, data.message, data.offset), at);
        }
    }
}

impl Observer for Watch {
    fn departed(&mut self, d: &Departure<'_>) {
        let (host, is_downlink) = (d.port / 2, d.port % 2 == 1);
        if host >= self.hosts {
            return;
        }
        let wire = d.frame.wire_bytes as u64;
        let scheduled = match Header::read(d.body).expect("a SIRD packet") {
            Header::Data(data) if data.offset >= data.unscheduled as u64 * MTU as u64 => Some(data),
            Header::Credit(credit) if !is_downlink => {
                let credits = self.credits.entry((host, d.frame.dst)).or_default();
                return credits.push((d.at, credit.granted));
            }
            _ => None,
        };
        match (scheduled, is_downlink) {
            (Some(data), false) if !data.retransmission => self.spend(d, &data),
            (Some(data), true) => {
                let joined = d.at.before(d.waited);
                let released = self.released.get(&(d.body.src, data.message, data.offset));
                let looped = released.map(|&at| joined - at);
                self.scheduled[host as usize].push(Waited { joined, left: d.at, wire, looped });
            }
            (None, true) => self.others[host as usize] += wire,
            _ => {}
        }
    }
}

/// Results at a downlink.
#[derive(Clone, Copy, Debug, Default)]
struct Found {
    packets: usize,
    /// Maximum outstanding bytes, in the queue or just sent.
    out: u64,
    /// Maximum queue when a packet joined.
    queue: u64,
    /// Longest loop less the shortest, in bytes on the link.
    late: u64,
}

/// Checks every packet that joined the downlink of `host` against its bounds, for a budget of
/// `budget` bytes.
fn check(watch: &Watch, host: u32, budget: u64, delay: Span, what: &str) -> Found {
    let queue = &watch.scheduled[host as usize];
    let loops = || queue.iter().filter_map(|packet| packet.looped);
    let (Some(least), Some(most)) = (loops().min(), loops().max()) else { return Found::default() };
    let loop_time = least + RATE.serialise(FULL) + delay;
    let late = RATE.bytes_in(most - least);
    // Slack: a credit, a packet on the link, and other packets on it.
    let slack = 2 * FULL + watch.others[host as usize];
    let longest = budget.saturating_sub(RATE.bytes_in(loop_time)) + late + slack;
    let mut found = Found { packets: queue.len(), late, ..Found::default() };
    let (mut out, mut waiting) = (0, 0);
    let (mut leaving, mut arriving) = (queue.iter().peekable(), queue.iter().peekable());
    for packet in queue {
        (out, waiting) = (out + packet.wire, waiting + packet.wire);
        let now = packet.joined;
        while let Some(left) = leaving.next_if(|other| other.left <= now) {
            waiting -= left.wire;
        }
        // Bytes that had arrived by then were no longer outstanding.
        let came = |other: &Waited| other.left + RATE.serialise(other.wire) + delay;
        while let Some(back) = arriving.next_if(|other| came(other) + least <= now) {
            out -= back.wire;
        }
        assert!(
            out <= budget,
            "{what}: {out} B of {budget} B outstanding for host {host} at {now}"
        );
        assert!(waiting <= longest, "{what}: {waiting} B wait for host {host} at {now}, {longest}");
        found = Found { out: found.out.max(out), queue: found.queue.max(waiting), ..found };
    }
    found
}

/// Runs a setup and checks the downlinks of the receivers against their bounds.
fn held(setup: Setup, receivers: u32, budget: u64, what: &str) -> Vec<Found> {
    let (duration, hosts) = (setup.duration, setup.fabric.hosts.len() as u32);
    let delay = setup.fabric.links[0].delay;
    let mut engine = Engine::new(setup, TestProbe::of(Watch::new(hosts))).expect("a valid setup");
    engine.advance(duration);
    let found: Vec<Found> = (0..receivers)
        .map(|host| check(engine.probe().inner(), host, budget, delay, what))
        .collect();
    println!("{what}: {found:?}");
    found
}

/// A budget of `packets` packets, and no unscheduled packets.
fn of_packets(packets: u64, more: &[(&str, Value)]) -> Stack {
    let bytes = |bytes: u64| Value::Extent(Extent::Bytes(bytes as f64));
    let mut stack = sird(&[("budget", bytes(packets * FULL)), ("unscheduled_threshold", bytes(0))]);
    more.iter().for_each(|&(name, value)| stack.set(name, value).unwrap());
    stack
}

/// Packets in a round trip on a host's link in these tests.
const BDP: u64 = 65;

/// A star in which a full packet and a minimum frame back take as long as 65 packets on a link.
fn around(hosts: u32, stack: Stack, flows: Vec<Flow>, duration: Time) -> Setup {
    let packets = RATE.serialise(FULL).times(2) + RATE.serialise(84).times(2);
    let delay = (RATE.serialise(BDP * FULL) - packets).as_ps() / 4;
    let mut setup = setup(star(hosts, RATE, Span::ps(delay), MTU), stack, flows, duration);
    setup.bdp_bytes = Some((BDP * FULL) as f64);
    setup
}

#[test]
fn queues_are_short_without_delays() {
    for rules in ["paper", "published-code"] {
        for policy in POLICIES {
            for packets in [65, 81, 97, 130, 195] {
                let more =
                    [("rules", Value::Choice(rules)), ("receiver_policy", Value::Choice(policy))];
                let flows = (1..=8).map(|h| flow(h, 0, 1 << 40, Time::ns(37 * u64::from(h))));
                let stack = of_packets(packets, &more);
                let setup = around(9, stack, flows.collect(), Time::us(600));
                let what = format!("{rules}, {policy}, {packets} packets");
                let [found] = held(setup, 1, packets * FULL, &what)[..] else { unreachable!() };
                assert!(found.packets > 4_700, "{what}: {found:?}");
                assert!(found.late < FULL && found.queue <= 2 * FULL, "{what}: {found:?}");
            }
        }
    }
}

#[test]
fn sender_delay_lengthens_queues_within_the_budget() {
    // Six senders with three messages each to each of three receivers, with many sizes and weights,
    // so credit waits at senders.
    let bytes = |h: u32, to: u32, n: u32| (1 + u64::from(h * 37 + to * 11 + n * 71) % 90) * 20_000;
    let (mut full, mut long) = (0, 0);
    for (number, receiver_policy) in POLICIES.into_iter().enumerate() {
        for (sender_policy, packets) in POLICIES.into_iter().zip([81, 97, 130, 97]) {
            let more = [
                ("receiver_policy", Value::Choice(receiver_policy)),
                ("sender_policy", Value::Choice(sender_policy)),
                ("rules", Value::Choice(["paper", "published-code"][number % 2])),
            ];
            let flows = (0..54).map(|i| {
                let (h, to, n) = (3 + i % 6, i / 6 % 3, i / 18);
                let label = (i % 2) as u16;
                Flow { label, ..flow(h, to, bytes(h, to, n), Time::us(u64::from(n) * 60)) }
            });
            let mut setup = around(9, of_packets(packets, &more), flows.collect(), Time::ms(1));
            setup.weights = vec![1, 4];
            let what = format!("{receiver_policy}, {sender_policy}, {packets} packets");
            for found in held(setup, 3, packets * FULL, &what) {
                assert!(found.packets > 5_000, "{what}: {found:?}");
                full += (found.out == packets * FULL) as u32;
                long += (found.queue + FULL > (packets - BDP) * FULL) as u32;
            }
        }
    }
    // 48 in total: the bounds are tight.
    assert!(full >= 8 && long >= 16, "{full} at the budget, {long} at the bound");
}

/// Eight senders in one rack to two receivers in another, over two spines whose links are as busy
/// as those of the receivers.
fn over_spines(stack: Stack) -> Setup {
    let fabric = leaf_spine(2, 8, 2, RATE, RATE, Span::ns(600), MTU);
    let flows = (0..8).map(|h| flow(8 + h, h % 2, 1 << 40, Time::ns(137 * u64::from(h))));
    let mut setup = setup(fabric, stack, flows.collect(), Time::us(800));
    setup.bdp_bytes = Some((BDP * FULL) as f64);
    equipped(setup, 1.25 * (BDP * FULL) as f64)
}

#[test]
fn core_delay_lengthens_queues_within_the_bound() {
    for signal in ["ecn", "delay", "peak-hop-delay"] {
        for packets in [81, 97, 130] {
            let more = [("network_signal", Value::Choice(signal))];
            let setup = over_spines(of_packets(packets, &more));
            let what = format!("{signal}, {packets} packets");
            let found = held(setup, 2, packets * FULL, &what);
            assert!(found.iter().all(|found| found.packets > 2_500), "{what}: {found:?}");
        }
    }
}

#[test]
fn queue_stays_within_the_budget_under_loss() {
    for seed in 0..4 {
        for (packets, policy) in [65, 81, 97, 195].into_iter().zip(POLICIES) {
            let more = [
                ("receiver_policy", Value::Choice(policy)),
                ("resend_timeout", Value::Span(Span::us(200))),
            ];
            let flows = (1..=8).map(|h| flow(h, 0, 2_000_000, Time::ns(37 * u64::from(h))));
            let mut setup = around(9, of_packets(packets, &more), flows.collect(), Time::ms(3));
            setup.faults.loss = [0.0001, 0.001, 0.01, 0.05][seed as usize];
            setup.seed = seed;
            let what = format!("seed {seed}, {policy}, {packets} packets");
            let [found] = held(setup, 1, packets * FULL, &what)[..] else { unreachable!() };
            assert!(found.packets > 2_000, "{what}: {found:?}");
        }
    }
}
