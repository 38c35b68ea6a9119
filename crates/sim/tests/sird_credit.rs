//! SIRD's bound on what waits at a downlink, held against every packet that joins it.
//!
//! Let `D` be the least time from a credit's departure to its packet's joining a downlink's queue.
//! What waits there at a time, and what has begun to leave since `D` and a packet's way to the host
//! before, was all out `D` before, so it is no more than the budget `B`. A busy link carries a
//! round trip's worth in that time, so no more than `B - BDP` waits. Where the link was idle in
//! between, all that waits has joined since, and paced credit called for no more than the link
//! carries, but for what was late: the most that a loop takes longer than the least is what senders
//! and the core delay.

use std::collections::BTreeMap;

use crate::common::observers::{Ears, Observer, WindowState};
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

/// A packet of data that has been in the queue of a downlink.
struct Waited {
    joined: Time,
    left: Time,
    wire: u64,
    /// From its credit's departure to its joining; none where it left without credit.
    looped: Option<Span>,
}

/// What happens at hosts' links, where link `i` is host `i`'s.
struct Watch {
    hosts: u32,
    /// By receiver and sender: when which sum of credit left.
    credits: BTreeMap<(u32, u32), Vec<(Time, u64)>>,
    /// By receiver and sender: bytes of data sent on credit.
    spent: BTreeMap<(u32, u32), u64>,
    /// By sender, message and offset: when the credit that a packet left on had left.
    released: BTreeMap<(u32, u32, u64), Time>,
    /// By receiver, in the order of their departures.
    scheduled: Vec<Vec<Waited>>,
    /// Bytes of other packets to each.
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

    /// Data leaves its sender on credit: the first that made the sum what it is now.
    fn spend(&mut self, d: &Departure<'_>, data: &Data) {
        let pair = (d.frame.dst, d.body.src);
        let spent = self.spent.entry(pair).or_default();
        *spent += d.frame.wire_bytes as u64;
        let credits = &self.credits[&pair];
        let first = credits.partition_point(|&(_, granted)| granted < *spent);
        // Lent, if there is none.
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
        let scheduled = match Header::read(d.body).expect("a packet of SIRD") {
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

/// What was found at a downlink.
#[derive(Clone, Copy, Debug, Default)]
struct Found {
    packets: usize,
    /// The most that was out by what waited and had just left.
    out: u64,
    /// The most that waited when a packet joined.
    queue: u64,
    /// What loops took longer than the shortest, in bytes on the link.
    late: u64,
}

/// Holds every packet that joined a downlink of that length against its bounds, for a budget of so
/// many bytes.
fn check(watch: &Watch, host: u32, budget: u64, delay: Span, what: &str) -> Found {
    let queue = &watch.scheduled[host as usize];
    let loops = || queue.iter().filter_map(|packet| packet.looped);
    let (Some(least), Some(most)) = (loops().min(), loops().max()) else { return Found::default() };
    let loop_time = least + RATE.serialise(FULL) + delay;
    let late = RATE.bytes_in(most - least);
    // A credit's slack, a packet on the link, and what others take of it.
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
        // What had arrived by then was not out any more.
        let came = |other: &Waited| other.left + RATE.serialise(other.wire) + delay;
        while let Some(back) = arriving.next_if(|other| came(other) + least <= now) {
            out -= back.wire;
        }
        assert!(out <= budget, "{what}: {out} B of {budget} B out for host {host} at {now}");
        assert!(waiting <= longest, "{what}: {waiting} B wait for host {host} at {now}, {longest}");
        found = Found { out: found.out.max(out), queue: found.queue.max(waiting), ..found };
    }
    found
}

/// A run, whose downlinks of some hosts are then held against their bound.
fn held(setup: Setup, receivers: u32, budget: u64, what: &str) -> Vec<Found> {
    let (duration, hosts) = (setup.duration, setup.fabric.hosts.len() as u32);
    let delay = setup.fabric.links[0].delay;
    let mut engine = Engine::new(setup, Ears::of(Watch::new(hosts))).expect("a valid setup");
    engine.advance(duration);
    let found: Vec<Found> = (0..receivers)
        .map(|host| check(engine.probe().heard(), host, budget, delay, what))
        .collect();
    println!("{what}: {found:?}");
    found
}

/// A budget of so many packets, and no packet without credit.
fn of_packets(packets: u64, more: &[(&str, Value)]) -> Stack {
    let bytes = |bytes: u64| Value::Extent(Extent::Bytes(bytes as f64));
    let mut stack = sird(&[("budget", bytes(packets * FULL)), ("unscheduled_threshold", bytes(0))]);
    more.iter().for_each(|&(name, value)| stack.set(name, value).unwrap());
    stack
}

/// Packets that a round trip holds in what follows, on the link of a host.
const BDP: u64 = 65;

/// A star on which a full packet and the least one back take as long as 65 packets on a link.
fn around(hosts: u32, stack: Stack, flows: Vec<Flow>, duration: Time) -> Setup {
    let packets = RATE.serialise(FULL).times(2) + RATE.serialise(84).times(2);
    let delay = (RATE.serialise(BDP * FULL) - packets).as_ps() / 4;
    let mut setup = setup(star(hosts, RATE, Span::ps(delay), MTU), stack, flows, duration);
    setup.bdp_bytes = Some((BDP * FULL) as f64);
    setup
}

#[test]
fn next_to_nothing_waits_where_nobody_delays_anything() {
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
fn a_downlinks_queue_is_longer_by_what_senders_hold_but_within_the_budget() {
    // Six senders with three messages each to each of three receivers, of many sizes and weights,
    // so that credit waits at senders for its turn.
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
    // Of 48: the bounds are no looser than they need be.
    assert!(full >= 8 && long >= 16, "{full} at the budget, {long} as long as they may be");
}

/// Eight senders in one rack to two receivers in another, over two spines, whose links are as busy
/// as those of the receivers.
fn over_spines(stack: Stack) -> Setup {
    let fabric = leaf_spine(2, 8, 2, RATE, RATE, Span::ns(600), MTU);
    let flows = (0..8).map(|h| flow(8 + h, h % 2, 1 << 40, Time::ns(137 * u64::from(h))));
    let mut setup = setup(fabric, stack, flows.collect(), Time::us(800));
    setup.bdp_bytes = Some((BDP * FULL) as f64);
    equipped(setup, 1.25 * (BDP * FULL) as f64)
}

#[test]
fn a_downlinks_queue_is_longer_only_by_what_the_core_delays() {
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
fn no_more_than_the_budget_waits_whatever_is_lost() {
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
