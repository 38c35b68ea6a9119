//! SIRD keeps links full, alone and with other SIRD flows, for all rates, paths and parameters. It
//! also shares links with other protocols.

use crate::common::observers::{Observer, ObserverAccess, TestProbe};
use crate::common::*;
use tidegate_algos::message::sird::header::Header;
use tidegate_algos::{Protocol, Stack};
use tidegate_core::fabric::{Ecn, Fabric, MarkAt, Node, Routing};
use tidegate_core::params::{Bounds, Kind, Value};
use tidegate_core::wire::Carried;
use tidegate_core::workload::{Flow, Pattern, Sizes, Traffic};
use tidegate_core::{Body, Extent, Frame, Message, Rate, Span, Time};
use tidegate_sim::{Engine, Outcome, Setup};

const MTU: u32 = 1458;

fn sird(set: &[(&str, Value)]) -> Stack {
    let mut stack = stack("sird");
    set.iter().for_each(|&(name, value)| stack.set(name, value).unwrap());
    stack
}

fn bdp(factor: f64) -> Value {
    Value::Extent(Extent::Bdp(factor))
}

/// A star whose links to hosts 0, 1, … have these rates in Gbit/s, with a round trip of `rtt` for a
/// packet.
fn star_of(gbps: &[u64], rtt: Span, mtu: u32) -> Fabric {
    let mut fabric = star(gbps.len() as u32, Rate::gbps(100), Span::ps(rtt.as_ps() / 4), mtu);
    for (link, &gbps) in fabric.links.iter_mut().zip(gbps) {
        link.rate = Rate::gbps(gbps);
    }
    fabric
}

/// Utilisation of the link to `host` after warm-up.
fn used(setup: &Setup, outcome: &Outcome, host: u32) -> f64 {
    let link = outcome.links.iter().find(|link| link.to == Node::Host(host)).unwrap();
    let rate = setup.fabric.links.iter().find(|link| link.a == Node::Host(host)).unwrap().rate;
    link.wire_bytes as f64 / rate.bytes_in(setup.duration - setup.warmup) as f64
}

fn run_use(setup: Setup, host: u32) -> f64 {
    let (_, outcome) = run(setup.clone());
    used(&setup, &outcome, host)
}

/// Long flows between these hosts, from about the start on; measured after 100 round trips.
fn long(fabric: Fabric, stack: Stack, pairs: &[(u32, u32)]) -> Setup {
    let flows =
        pairs.iter().zip(0..).map(|(&(a, b), i)| flow(a, b, 1 << 40, Time::ns(37 * i))).collect();
    let mut setup = setup(fabric, stack, flows, Time::ms(8));
    setup.warmup = Time::ms(4);
    setup
}

#[test]
fn lone_flow_fills_any_link() {
    for gbps in [10, 25, 100, 400] {
        for mtu in [1_000, 4_096] {
            for rtt in [4, 40] {
                let setup = long(star_of(&[gbps, gbps], Span::us(rtt), mtu), sird(&[]), &[(1, 0)]);
                let used = run_use(setup, 0);
                println!("{gbps} Gbit/s, {mtu} B, {rtt} us: {used:.4}");
                assert!(
                    used > 0.99,
                    "{gbps} Gbit/s, {mtu} B, {rtt} us: {used:.4} of the link used"
                );
            }
        }
    }
}

#[test]
fn senders_of_any_number_and_rate_fill_a_link() {
    let cases = [(2, 100), (5, 100), (20, 100), (60, 100), (4, 25), (5, 25), (11, 10), (1, 25)];
    let cases = cases.map(|(senders, gbps)| (senders, gbps, 100));
    for (senders, gbps, receiver) in
        cases.into_iter().chain([(1, 100, 10), (3, 100, 10), (3, 400, 25)])
    {
        let rates: Vec<u64> =
            std::iter::once(receiver).chain(std::iter::repeat_n(gbps, senders)).collect();
        let pairs: Vec<_> = (1..=senders as u32).map(|host| (host, 0)).collect();
        let share = (senders as f64 * gbps as f64 / receiver as f64).min(1.0);
        for threshold in [0.5, 1e9] {
            let set = [("sender_threshold", bdp(threshold))];
            let used = run_use(long(star_of(&rates, Span::us(4), MTU), sird(&set), &pairs), 0);
            println!(
                "{senders} of {gbps} to {receiver} Gbit/s, SThr {threshold} BDP: {used:.4} of \
                 {share}"
            );
            // Two slow senders that do not report this hold the whole budget, 1.5 BDP.
            let share = if threshold > 1.0 {
                share.min(2.0 * gbps as f64 / receiver as f64)
            } else {
                share
            };
            assert!(
                used > 0.985 * share && used < 1.001 * share,
                "{used:.4} where {share} is expected"
            );
        }
    }
}

#[test]
fn slow_senders_and_slow_cores_are_filled() {
    // One sender with a slow NIC and several receivers: the uplink is the bottleneck.
    for receivers in [1, 2, 5] {
        let mut rates = vec![100; receivers];
        rates.insert(0, 25);
        let pairs: Vec<_> = (1..=receivers as u32).map(|host| (0, host)).collect();
        let (_, outcome) = run(long(star_of(&rates, Span::us(4), MTU), sird(&[]), &pairs));
        let up = outcome.links.iter().find(|link| link.from == Node::Host(0)).unwrap();
        let used = up.wire_bytes as f64 / Rate::gbps(25).bytes_in(Span::ms(4)) as f64;
        println!("{receivers} receivers: {used:.4} of the sender's link");
        assert!(used > 0.985, "{receivers} receivers: {used:.4} of the sender's link");
    }
    // Pairs across a core that is slower than one of them.
    for pairs in [1, 4] {
        let gbps = |rate| Rate::gbps(rate);
        let mut fabric = leaf_spine(2, 4, 1, gbps(100), gbps(40), Span::us(1), MTU);
        for switch in &mut fabric.switches {
            let at = 125e3;
            switch.ecn = Some(Ecn {
                min_bytes: at,
                max_bytes: at,
                max_probability: 1.0,
                at: MarkAt::Enqueue,
                core_only: true,
                per: None,
            });
        }
        let pairs: Vec<_> = (0..pairs).map(|host| (host, 4 + host)).collect();
        let (_, outcome) = run(long(fabric, sird(&[]), &pairs));
        let core = (Node::Switch(0), Node::Switch(2));
        let core = outcome.links.iter().find(|link| (link.from, link.to) == core).unwrap();
        let used = core.wire_bytes as f64 / Rate::gbps(40).bytes_in(Span::ms(4)) as f64;
        println!("{} pairs: {used:.4} of the core", pairs.len());
        assert!(used > 0.985, "{} pairs: {used:.4} of the core", pairs.len());
    }
}

/// One sender has a message for each of the receivers, which have another sender each. The BDP has
/// few packets, so that the congested sender holds more credit than half a BDP.
#[test]
fn receivers_of_a_congested_sender_fill_short_paths() {
    for (gbps, mtu, rtt_us, receivers) in
        [(10, 4_096, 2, 8), (10, 8_900, 4, 4), (25, 4_096, 4, 8), (10, 4_096, 2, 4)]
    {
        let rates = vec![gbps; 1 + 2 * receivers as usize];
        let pairs: Vec<_> =
            (1..=receivers).flat_map(|host| [(0, host), (receivers + host, host)]).collect();
        let setup = long(star_of(&rates, Span::us(rtt_us), mtu), sird(&[]), &pairs);
        let (_, outcome) = run(setup.clone());
        let mean = (1..=receivers).map(|host| used(&setup, &outcome, host)).sum::<f64>()
            / f64::from(receivers);
        let case = format!("{receivers} of {gbps} Gbit/s, {mtu} B, {rtt_us} us: {mean:.4}");
        println!("{case}");
        assert!(mean > 0.95, "{case}");
    }
}

/// Every parameter at all choices and at both ends of its range.
#[test]
fn parameter_extremes_keep_links_full() {
    let mut tried = 0;
    for info in Protocol::named("sird").unwrap().table() {
        let values = match (info.kind, info.range) {
            (_, Some(Bounds { min, max })) => vec![min, max],
            (Kind::Flag, _) => vec![Value::Flag(false), Value::Flag(true)],
            (Kind::Choice(names), _) => names.iter().map(|&name| Value::Choice(name)).collect(),
            _ => Vec::new(),
        };
        for value in values {
            for senders in [1, 3] {
                let pairs: Vec<_> = (1..=senders).map(|host| (host, 0)).collect();
                let fabric = star_of(&vec![100; senders as usize + 1], Span::us(4), MTU);
                let mut setup = long(fabric, sird(&[(info.name, value)]), &pairs);
                (setup.warmup, setup.duration) = (Time::ms(1), Time::ms(3));
                let used = run_use(setup, 0);
                // Exceptions by design: one packet per round trip, and that share.
                let expected = match (info.name, value) {
                    ("budget", Value::Extent(Extent::Bdp(0.0))) => 0.02,
                    ("credit_rate", Value::Number(share)) => share * 0.99,
                    // Whole packets that fit into 4 us and the time of two packets: 38.
                    ("rules", Value::Choice("published-code")) => 0.98,
                    _ => 0.985,
                };
                println!("{} = {value}, {senders} senders: {used:.4}", info.name);
                assert!(used > expected, "{} = {value}, {senders} senders: {used:.4}", info.name);
                tried += 1;
            }
        }
    }
    assert!(tried > 40, "{tried}");
    for budget in [1.0, 1.2, 3.0] {
        let fabric = star_of(&[100, 100], Span::us(4), MTU);
        let used = run_use(long(fabric, sird(&[("budget", bdp(budget))]), &[(1, 0)]), 0);
        assert!(used > 0.985, "budget of {budget} BDP: {used:.4}");
    }
}

/// Counts requests for retransmission.
#[derive(Default)]
struct ResendRequests(u64);

impl Observer for ResendRequests {
    fn arrived(&mut self, _now: Time, _host: u32, _frame: &Frame, body: &Body) {
        self.0 += matches!(Header::read(body), Some(Header::Resend(_))) as u64;
    }
}

#[test]
fn waiting_messages_cause_no_resend_requests() {
    for policy in ["srpt", "round-robin"] {
        for (rules, endless) in [("paper", false), ("paper", true), ("published-code", false)] {
            for messages in 1..=8 {
                let policy = ("receiver_policy", Value::Choice(policy));
                let stack = sird(&[policy, ("rules", Value::Choice(rules))]);
                // All sizes differ, so the sender prefers some messages.
                let finite = |i| 200_000_000 + 1_000_000 * i as u64;
                let bytes = |i| if endless { Message::UNLIMITED } else { finite(i) };
                let flows =
                    (0..messages).map(|i| flow(1, 0, bytes(i), Time::us(i as u64))).collect();
                let mut setup =
                    setup(star(2, Rate::gbps(100), Span::us(1), MTU), stack, flows, Time::ms(12));
                setup.warmup = Time::ms(4);
                let mut engine =
                    Engine::new(setup.clone(), TestProbe::of(ResendRequests::default())).unwrap();
                engine.advance(setup.duration);
                let requests = engine.probe().inner::<ResendRequests>().0;
                let used = used(&setup, &engine.finish().unwrap(), 0);
                println!(
                    "{messages} messages, {policy:?}, {rules}, {endless}: {used:.4} used, \
                     {requests} resends requested"
                );
                assert_eq!(requests, 0, "{messages} messages, {policy:?}: nothing was lost");
                assert!(used > 0.97, "{messages} messages, {policy:?}: {used:.4} of the link used");
            }
        }
    }
}

#[test]
fn busy_fabric_without_loss_has_no_resend_requests() {
    let fabric = leaf_spine(3, 4, 2, Rate::gbps(100), Rate::gbps(200), Span::ns(600), MTU);
    let mut setup = setup(fabric, sird(&[]), Vec::new(), Time::ms(20));
    setup.routing = Routing::Spray;
    let traffic = |pattern, bytes| Traffic {
        pattern,
        sizes: Sizes::Fixed(bytes),
        stack: 0,
        label: 0,
        start: Time::ZERO,
        stop: Time::ms(20),
    };
    // Seven tenths of the load, and bursts of eight.
    let hosts: Vec<u32> = (0..12).collect();
    let poisson = Pattern::Poisson { mean_gap_ps: 1e7, senders: hosts.clone(), receivers: hosts };
    let incast = Pattern::Incast {
        fan_in: 8,
        dst: None,
        interval: Span::us(500),
        poisson: true,
        jitter: Span::ZERO,
    };
    setup.workload.traffic = vec![traffic(poisson, 1_000_000), traffic(incast, 300_000)];
    let mut engine = Engine::new(setup.clone(), TestProbe::of(ResendRequests::default())).unwrap();
    engine.advance(setup.duration);
    let requests = engine.probe().inner::<ResendRequests>().0;
    let finished = engine.finish().unwrap().finished;
    println!("{} messages, {requests} resend requests", finished.len());
    assert!(finished.len() > 1_500, "{} messages", finished.len());
    assert_eq!(requests, 0, "nothing was lost");
}

/// Goodput in Gbit/s of one SIRD flow and one flow of `other` to one host at 100 Gbit/s. The second
/// of them starts later.
fn beside(other: &str, sird_first: bool) -> (f64, f64) {
    let mut fabric = star(3, Rate::gbps(100), Span::us(1), MTU);
    if other == "dctcp" {
        let at = 62.5e3;
        let ecn = Ecn {
            min_bytes: at,
            max_bytes: at,
            max_probability: 1.0,
            at: MarkAt::Enqueue,
            core_only: false,
            per: None,
        };
        fabric.switches[0].ecn = Some(ecn);
    }
    let [first, second] = if sird_first { [0, 1] } else { [1, 0] };
    let flows = vec![
        Flow { stack: first, ..unlimited(1, 0, Time::ZERO) },
        Flow { stack: second, ..unlimited(2, 0, Time::ms(1)) },
    ];
    let mut setup = setup(fabric, sird(&[]), flows, Time::ms(20));
    setup.stacks.push(stack(other));
    setup.warmup = Time::ms(10);
    let (finished, outcome) = run(setup);
    let rates = goodputs(&finished, &outcome);
    let [ours, theirs] = if sird_first { [0, 1] } else { [1, 0] };
    (rates[ours] / 1e9, rates[theirs] / 1e9)
}

#[test]
fn sird_and_windows_share_a_downlink() {
    for other in ["swift", "poseidon", "dctcp", "powertcp", "hpcc"] {
        for sird_first in [true, false] {
            let (sird, theirs) = beside(other, sird_first);
            println!("sird {sird:.2}, {other} {theirs:.2} Gbit/s, sird first: {sird_first}");
            let all = (sird + theirs) * 1538.0 / 1458.0;
            assert!(all > 98.0, "sird {sird:.2} and {other} {theirs:.2} leave much of the link");
            // Telemetry shows the last two that credit fills the link, and they give way.
            if !matches!(other, "powertcp" | "hpcc") {
                assert!(sird > 10.0 && theirs > 10.0, "sird {sird:.2}, {other} {theirs:.2} Gbit/s");
            }
        }
    }
}

#[test]
fn queue_longer_than_the_timeout_does_not_grow() {
    // The bytes that 100 pairs may have in flight, 15 MB, wait 12 ms for a core of 10 Gbit/s. If
    // all of them were retransmitted after 5 ms, the queue would grow by the same amount every
    // time.
    for gbps in [10, 25] {
        let fabric = leaf_spine(2, 100, 1, Rate::gbps(100), Rate::gbps(gbps), Span::us(1), MTU);
        let flows = (0..100).map(|host| unlimited(host, 100 + host, Time::ZERO)).collect();
        let mut setup = setup(fabric, sird(&[]), flows, Time::ms(60));
        setup.warmup = Time::ms(30);
        let (_, outcome) = run(equipped(setup, 1.25 * 90e3));
        let sum = |of: fn(&tidegate_sim::FlowRecord) -> u64| {
            outcome.unfinished.iter().map(of).sum::<u64>() as f64
        };
        let (delivered, again) =
            (sum(|row| row.delivered_bytes), sum(|row| row.retransmitted_bytes));
        let core = outcome.links.iter().map(|link| link.queue_bytes.max).fold(0.0, f64::max);
        println!("{gbps} Gbit/s: {delivered} B, {again} B retransmitted, {core} B queued");
        // The last of 64 packets each, until the first ones arrive.
        assert!(again < 0.1 * delivered, "{again} of {delivered} B were retransmitted");
        // 60 ms at that rate, without headers.
        let all = Rate::gbps(gbps).bytes_in(Span::ms(60)) as f64 * f64::from(MTU) / 1_538.0;
        assert!(delivered > 0.95 * all, "{delivered} of {all} B");
    }
}
