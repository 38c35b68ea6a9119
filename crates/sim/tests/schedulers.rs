//! Ports with pauses, credit queues or rates that change: each has its specified effect, equals
//! explicit dequeues record by record, and does not depend on partitions.

use crate::common::busy::{Record, Recorder, busy};
use crate::common::observers::{Explicit, ObserverAccess, TestProbe};
use crate::common::{
    goodputs, lossless, open_loop, over_one_link, run, setup, stack, star, unlimited, unobserved,
};
use tidegate_algos::Protocol;
use tidegate_core::fabric::{Buffer, CreditQueue, PortRate, RateChange};
use tidegate_core::faults::{Failing, Outage};
use tidegate_core::{Rate, Span, Time, frame_flag};
use tidegate_sim::{Engine, FlowRecord, Probe, Setup};

/// A change of a plain fabric.
type Change = fn(&mut Setup);

const CHANGES: [(&str, Change); 8] = [
    ("credits apart", credits_apart),
    ("credit queues with outages", credits_with_outages),
    ("pausing", pausing),
    ("pausing by other traffic", pausing_for_others),
    ("changing rates", changing_rates),
    ("changing rates of hosts", changing_rates_of_hosts),
    ("slow in one direction", slow_in_one_direction),
    ("pausing with outages", pausing_with_outages),
];

/// Less than protocols need, so credits wait and are dropped.
fn credits_apart(setup: &mut Setup) {
    for switch in &mut setup.fabric.switches {
        switch.credit_queue = Some(CreditQueue { share: 0.03, bytes: 400, burst_bytes: 168 });
    }
}

fn credits_with_outages(setup: &mut Setup) {
    credits_apart(setup);
    changing_rates(setup);
    outages(setup);
}

fn pausing(setup: &mut Setup) {
    lossless(setup, 200_000);
}

/// Hosts are paused because of other traffic, and send only packets above data.
fn pausing_for_others(setup: &mut Setup) {
    pausing(setup);
    setup.stacks.push(open_loop(100));
    setup.workload.traffic[0].stack = 1;
}

fn changing_rates(setup: &mut Setup) {
    let links = setup.fabric.links.len() as u32;
    let hosts = setup.fabric.hosts.len() as u32;
    for (step, gbps) in [(1, 25), (2, 1), (3, 400), (4, 100)] {
        setup.fabric.rate_changes.extend((hosts..links).flat_map(|link| {
            let at = Time::us(40 * step) + Span::ns(130 * link as u64);
            [2 * link, 2 * link + 1].map(|port| RateChange { port, at, rate: Rate::gbps(gbps) })
        }));
    }
    setup.fabric.rate_changes.sort_by_key(|change| change.at);
}

fn changing_rates_of_hosts(setup: &mut Setup) {
    let ports = 0..2 * setup.fabric.hosts.len() as u32;
    let change = |port| {
        let at = Time::us(50) + Span::ns(130 * u64::from(port));
        RateChange { port, at, rate: Rate::gbps(40) }
    };
    setup.fabric.rate_changes = ports.map(change).collect();
}

fn slow_in_one_direction(setup: &mut Setup) {
    let links = setup.fabric.hosts.len() as u32..setup.fabric.links.len() as u32;
    let port = |link| PortRate { port: 2 * link + link % 2, rate: Rate::gbps(10) };
    setup.fabric.port_rates = links.map(port).collect();
}

fn pausing_with_outages(setup: &mut Setup) {
    pausing_for_others(setup);
    changing_rates(setup);
    // Headroom is for the highest rate.
    for switch in &mut setup.fabric.switches {
        switch.buffer = Buffer::Shared { bytes: 400_000, alpha: 1.0 };
    }
    outages(setup);
}

fn outages(setup: &mut Setup) {
    let outage = |of, down, up| Outage { of, down, up };
    setup.faults.outages = vec![
        outage(Failing::Link(12), Time::us(40), Time::us(90)),
        outage(Failing::Link(15), Time::us(60), Time::us(160)),
        outage(Failing::Host(2), Time::us(100), Time::us(130)),
    ];
}

fn recorded<P: Probe + ObserverAccess>(
    setup: Setup,
    partitions: usize,
) -> (Vec<Vec<Record>>, Vec<FlowRecord>, u64) {
    let probes = (0..partitions).map(|_| P::of(Recorder::default())).collect();
    let mut engine = Engine::in_partitions(setup, probes).unwrap();
    engine.advance(Time::NEVER);
    assert_eq!(engine.partitions(), partitions);
    let mut ports: Vec<Vec<Record>> = Vec::new();
    for probe in engine.probes() {
        let own = probe.inner::<Recorder>().take_ports();
        ports.resize(ports.len().max(own.len()), Vec::new());
        ports.iter_mut().zip(own).for_each(|(port, mut records)| port.append(&mut records));
    }
    let mut outcome = engine.finish().unwrap();
    let finished = std::mem::take(&mut outcome.finished);
    (ports, finished, outcome.digest)
}

#[test]
fn lazy_commits_equal_dequeues_and_partitions() {
    for (i, (name, change)) in CHANGES.into_iter().enumerate() {
        // Each protocol has every second change, and each change half of the protocols.
        for &protocol in Protocol::ALL.iter().skip(i % 2).step_by(2) {
            let setup = || {
                let mut setup = busy(protocol.stack(), 3);
                // PFC acts on queued packets, so queues must build up.
                setup.workload.traffic[0].stack = 0;
                change(&mut setup);
                setup
            };
            let lazy = recorded::<TestProbe>(setup(), 1);
            let records: usize = lazy.0.iter().map(Vec::len).sum();
            assert!(records > 3_000, "{name}: {records} records are too few to mean anything");
            let is_pause = |record: &&Record| record.frame.3 & frame_flag::PAUSE != 0;
            let pauses = lazy.0.iter().flatten().filter(is_pause).count();
            assert!(
                name != "pausing by other traffic" || pauses > 20,
                "{}: {pauses}",
                protocol.info().name
            );
            let others = [
                ("explicit", recorded::<Explicit>(setup(), 1)),
                ("parts", recorded::<TestProbe>(setup(), 3)),
            ];
            for (how, other) in others {
                let what = format!("{name}, {}, {how}", protocol.info().name);
                for (port, (a, b)) in lazy.0.iter().zip(&other.0).enumerate() {
                    let first = a.iter().zip(b).position(|(a, b)| a != b);
                    let at = first.unwrap_or(a.len().min(b.len()));
                    assert_eq!(a.get(at), b.get(at), "{what}: packet {at} of port {port}");
                }
                assert!(lazy == other, "{what}: same records, different outcome");
            }
        }
    }
}

/// Two senders and one receiver, distinguished by priority or by receiver.
fn two_flows(change: impl FnOnce(&mut Setup)) -> Vec<f64> {
    let fabric = star(4, Rate::gbps(100), Span::us(1), 1000);
    let flows = vec![unlimited(0, 2, Time::ZERO), unlimited(1, 3, Time::ZERO)];
    let mut setup = setup(fabric, open_loop(100), flows, Time::ms(2));
    setup.warmup = Time::us(200);
    change(&mut setup);
    let (finished, outcome) = run(setup);
    goodputs(&finished, &outcome)
}

#[test]
fn rate_changes_scale_the_throughput() {
    // Rate of host 2's downlink: full for a quarter, half for a half, a tenth for the last quarter.
    let payload = 1000.0 / 1080.0;
    let rates = two_flows(|setup| {
        let change = |at, gbps| RateChange { port: 5, at, rate: Rate::gbps(gbps) };
        setup.fabric.rate_changes = vec![change(Time::us(650), 50), change(Time::us(1_550), 10)];
    });
    let expected = 100e9 * payload * (450.0 + 450.0 + 45.0) / 1800.0;
    assert!((rates[0] / expected - 1.0).abs() < 0.02, "{rates:?} for {expected}");
    assert!((rates[1] / (100e9 * payload) - 1.0).abs() < 0.01, "{rates:?}");
}

#[test]
fn credit_drops_are_counted_separately() {
    // Hosts 0 and 1 send to 2 and 3, so credits return over one link, which they exceed.
    let run_at = |share: f64| {
        let (rates, outcome) = over_one_link(|setup| {
            setup.stacks[0] = stack("expresspass");
            for switch in &mut setup.fabric.switches {
                let (bytes, burst_bytes) = (672, 168);
                switch.credit_queue = Some(CreditQueue { share, bytes, burst_bytes });
            }
        });
        let back = &outcome.links[9];
        assert_eq!(outcome.links.iter().map(|link| link.drops).sum::<u64>(), 0);
        assert_eq!(outcome.switches.iter().map(|switch| switch.drops).sum::<u64>(), 0);
        assert!(back.credit_drops > 100 && back.queue_bytes.max <= 672.0, "{back:?}");
        // Only credits use this direction.
        (rates.iter().sum::<f64>(), back.wire_bytes as f64 * 8.0 / 1.8e-3)
    };
    for share in [0.02, 0.04] {
        let (goodput, credits) = run_at(share);
        // At most the share and a burst; less if the receivers request less.
        let used = credits / (share * 100e9);
        assert!(used > 0.97 && used < 1.001, "{used}");
        // 88 bytes of credit request 1,000 bytes.
        assert!((goodput / (credits * 1_000.0 / 88.0) - 1.0).abs() < 0.01, "{goodput}");
    }
}

#[test]
fn invalid_ports_are_refused() {
    let error = |change: &dyn Fn(&mut Setup)| {
        let mut setup = busy(stack("swift"), 1);
        change(&mut setup);
        unobserved(setup, 1).err().expect("refused")
    };
    let cases = [
        (
            error(&|setup| {
                pausing(setup);
                setup.fabric.switches[1].buffer = Buffer::Unlimited;
            }),
            "switch tor1: PFC needs a limited buffer",
        ),
        (
            error(&|setup| {
                pausing(setup);
                setup.fabric.switches[1].buffer = Buffer::Shared { bytes: 100_000, alpha: 1.0 };
            }),
            "switch tor1: PFC reserves and headroom take 123204 B, and the buffer has 100000 B",
        ),
        (
            error(&|setup| {
                pausing(setup);
                setup.fabric.switches[1].buffer = Buffer::Shared { bytes: 123_204, alpha: 1.0 };
            }),
            "switch tor1: PFC reserves and headroom take 123204 B, and the buffer has 123204 B",
        ),
        (
            error(&|setup| {
                pausing(setup);
                setup.fabric.switches[0].pausing.as_mut().unwrap().alpha = 0.0;
            }),
            "switch tor0: PFC with classes 0b10000000 and alpha 0;",
        ),
        (
            error(&|setup| {
                let (at, rate) = (Time::ZERO, Rate::default());
                setup.fabric.rate_changes = vec![RateChange { port: 0, at, rate }];
            }),
            "port 0 with rate 0bps: a rate above zero",
        ),
        (
            error(&|setup| {
                // Without wake-ups of ports, the fabric would have few enough sources.
                setup.fabric = star(300_000, Rate::gbps(100), Span::us(1), 1_000);
                credits_apart(setup);
            }),
            "the fabric needs 1500003 event sources",
        ),
        (
            error(&|setup| {
                setup.fabric.port_rates = vec![PortRate { port: 1, rate: Rate::gbps(1) }];
            }),
            "port 1 has a rate of its own: only links between switches",
        ),
        (
            error(&|setup| {
                credits_apart(setup);
                setup.fabric.switches[1].credit_queue.as_mut().unwrap().bytes = 83;
            }),
            "switch tor1: credit queue with share 0.03, 83 B and bursts of 168 B",
        ),
        (
            error(&|setup| {
                credits_apart(setup);
                setup.fabric.switches[0].credit_queue.as_mut().unwrap().share = 0.0;
            }),
            "switch tor0: credit queue with share 0,",
        ),
        (
            error(&|setup| {
                credits_apart(setup);
                pausing(setup);
            }),
            "switch tor0 has a credit queue and switch tor0 uses PFC",
        ),
        (
            error(&|setup| {
                changing_rates(setup);
                setup.fabric.rate_changes.reverse();
            }),
            "not in order of time",
        ),
    ];
    for (error, expected) in cases {
        assert!(error.contains(expected), "{error:?} for {expected:?}");
    }
}
