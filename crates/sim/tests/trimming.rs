//! Packet trimming: headers arrive, messages arrive once, and the engine's ways agree.

use tidegate_core::fabric::{Fabric, TrimVictim, Trimming};
use tidegate_core::faults::Faults;
use tidegate_core::params::Value;
use tidegate_core::{Rate, Span, Time, frame_flag};
use tidegate_sim::{Departure, Engine, Setup};

use crate::common::busy::busy;
use crate::common::observers::{Explicit, Observer, ObserverAccess, TestProbe};
use crate::common::*;
use crate::explicit_engine::recorded;

/// Ports with room for `packets` full packets.
fn trimming(fabric: &Fabric, packets: u32, victim: TrimVictim) -> Trimming {
    let data_bytes = packets * (fabric.mtu + 80);
    Trimming {
        data_bytes,
        header_queue_bytes: 2 * data_bytes,
        trimmed_bytes: 84,
        victim,
        per: None,
        return_to_sender: false,
        header_weight: None,
    }
}

fn trimmed(mut setup: Setup, packets: u32, victim: TrimVictim) -> Setup {
    let trimming = trimming(&setup.fabric, packets, victim);
    setup.fabric.switches.iter_mut().for_each(|switch| switch.trimming = Some(trimming));
    setup
}

const VICTIMS: [TrimVictim; 2] = [TrimVictim::Arriving, TrimVictim::Random];

/// Sixteen hosts of four racks send 100 KB each to one.
fn incast(protocol: &str, seed: u64, victim: TrimVictim) -> Setup {
    let fabric = leaf_spine(4, 5, 2, Rate::gbps(100), Rate::gbps(100), Span::ns(500), 4_000);
    let flows = (1..17).map(|src| flow(src, 0, 100_000, Time::ns(100 * u64::from(src)))).collect();
    let mut setup = trimmed(setup(fabric, stack(protocol), flows, Time::ms(20)), 10, victim);
    setup.seed = seed;
    setup.until_done = true;
    setup
}

/// Data packets that left switches: full ones, and trimmed ones by priority.
#[derive(Default)]
struct Counts {
    full: u64,
    trimmed: [u64; 8],
}

impl Observer for Counts {
    fn departed(&mut self, d: &Departure<'_>) {
        let is_data = d.body.tag & 1 == 0;
        if is_data && d.body.payload_bytes == 0 {
            assert_eq!(d.frame.wire_bytes, 84);
            assert_eq!(d.frame.flags & frame_flag::ECN_CAPABLE, 0, "headers cannot be marked");
            self.trimmed[d.frame.priority as usize] += 1;
        } else if is_data {
            assert_eq!(d.frame.priority, 7);
            self.full += 1;
        } else {
            assert_eq!(d.frame.priority, 0, "acknowledgements have a class of their own");
        }
    }
}

#[test]
fn incast_loses_payloads_and_no_packet() {
    for victim in VICTIMS {
        let (finished, outcome) = run(incast("nscc", 1, victim));
        assert_eq!((finished.len(), outcome.unfinished.len()), (16, 0));
        let trims: u64 = outcome.links.iter().map(|link| link.trims).sum();
        assert!(trims > 100, "{trims}");
        assert_eq!(dropped(&outcome), 0, "{victim:?}");
        // The link to the receiver is never idle for long: 1.6 MB take 131 us.
        let last = finished.iter().map(|row| row.completed.unwrap()).max().unwrap();
        assert!(last < Time::us(160), "{last} {victim:?}");
    }
}

#[test]
fn trimmed_packets_report_their_place() {
    let mut engine =
        Engine::new(incast("nscc", 1, TrimVictim::Random), TestProbe::of(Counts::default()))
            .unwrap();
    engine.advance(Time::ms(20));
    let counts = engine.probe().inner::<Counts>();
    let [core, last_hop, rest @ ..] = counts.trimmed;
    assert!(core > 0 && last_hop > 0, "{:?}", counts.trimmed);
    assert_eq!(rest, [0; 6]);
    // 400 packets over up to four hops, and again after being trimmed.
    assert!((400..4_000).contains(&counts.full), "{}", counts.full);
}

#[test]
fn full_header_queue_drops() {
    let mut setup = incast("nscc", 1, TrimVictim::Random);
    for switch in &mut setup.fabric.switches {
        switch.trimming.as_mut().unwrap().header_queue_bytes = 840;
    }
    let (finished, outcome) = run(setup);
    assert!(dropped(&outcome) > 0);
    assert_eq!(finished.len(), 16, "timeouts recover");
}

/// A lost packet is sent again after its own timeout, while others arrive.
#[test]
fn lost_packets_time_out_one_by_one() {
    for (loss, least_gbps) in [(1e-4, 90.0), (1e-3, 80.0)] {
        let fabric = leaf_spine(2, 1, 4, Rate::gbps(100), Rate::gbps(100), Span::us(1), 4_000);
        let flows = vec![flow(0, 1, 20_000_000, Time::ZERO)];
        let mut setup =
            trimmed(setup(fabric, stack("nscc"), flows, Time::ms(20)), 40, TrimVictim::Random);
        setup.faults = Faults { loss, ..Faults::default() };
        setup.until_done = true;
        let (finished, _) = run(setup);
        let took = finished[0].completed.unwrap().as_ps() as f64;
        let gbps = 20e6 * 8e3 / took;
        assert!(gbps > least_gbps, "{gbps} Gbit/s at a loss of {loss}");
    }
}

#[test]
fn messages_arrive_once_under_loss_and_reordering() {
    for seed in 0..60 {
        let victim = VICTIMS[seed as usize % 2];
        let protocols = ["nscc", "eqds", "smartt", "rccc", "nscc-rccc", "ndp"];
        let protocol = protocols[seed as usize / 2 % 6];
        let mut setup = incast(protocol, seed, victim);
        setup.faults = Faults {
            loss: [0.0, 1e-3, 2e-2][seed as usize % 3],
            reordering: 0.05,
            reorder_delay: Span::us(20),
            duplication: [0.0, 1e-2][seed as usize / 3 % 2],
            ..Faults::default()
        };
        let (rule, rest) = (["mixed", "reps", "bitmap", "oblivious"], ["off"]);
        let rule = rule.iter().chain(&rest).nth(seed as usize % 5).unwrap();
        setup.stacks[0].set("multipath", Value::Choice(rule)).unwrap();
        setup.drain = Span::s(1);
        let (finished, outcome) = run(setup);
        assert_eq!((finished.len(), outcome.unfinished.len()), (16, 0), "{seed}");
        for row in &finished {
            assert_eq!(row.delivered_bytes, row.bytes, "{seed}");
        }
    }
}

/// Twenty hosts send messages of one packet each to host 0, all at the start. Nothing waits for
/// credit, so that headers of trimmed packets arrive at more than the rate of the receiver's link.
fn tiny_incast(weight: Option<u16>) -> Setup {
    let fabric = star(21, Rate::gbps(100), Span::ns(500), 1_000);
    let flows = (0..60_000).map(|number| flow(1 + number % 20, 0, 1_000, Time::ZERO)).collect();
    let mut setup =
        trimmed(setup(fabric, stack("ndp"), flows, Time::us(200)), 8, TrimVictim::Random);
    for switch in &mut setup.fabric.switches {
        switch.trimming.as_mut().unwrap().header_weight = weight;
    }
    setup
}

/// Departures at the port to host 0 from 20 us on: the payload of a packet, or 0 of headers.
#[derive(Default)]
struct Order(Vec<u32>);

impl Observer for Order {
    fn departed(&mut self, d: &Departure<'_>) {
        if d.frame.dst == 0 && d.port == 1 && d.at > Time::us(20) {
            self.0.push(d.body.payload_bytes);
        }
    }
}

fn order(weight: Option<u16>) -> Vec<u32> {
    let mut engine = Engine::new(tiny_incast(weight), TestProbe::of(Order::default())).unwrap();
    engine.advance(Time::us(200));
    let order = engine.probe().inner::<Order>().0.clone();
    assert!(order.len() > 3_000, "{}", order.len());
    order
}

#[test]
fn strict_headers_starve_data() {
    assert_eq!(order(None).iter().filter(|&&payload| payload > 0).count(), 0);
}

#[test]
fn weighted_queues_share_exactly() {
    for weight in [1, 10, 25] {
        let order = order(Some(weight));
        let runs: Vec<_> = order.split(|&payload| payload > 0).map(<[u32]>::len).collect();
        let (_, rest) = runs.split_first().unwrap();
        let (last, whole) = rest.split_last().unwrap();
        assert!(whole.len() > 100 && whole.iter().all(|&run| run == weight.into()), "{whole:?}");
        assert!(*last <= weight.into());
    }
}

#[test]
fn weighted_queues_use_the_link_alone() {
    // Two senders, whose first windows are trimmed: headers and data wait together, and then data
    // alone. The last data arrives when all bytes have passed, whatever the weight.
    let of = |weight| {
        let fabric = star(3, Rate::gbps(100), Span::ns(500), 1_000);
        let flows = [1, 2].map(|src| flow(src, 0, 100_000, Time::ZERO)).to_vec();
        let mut setup =
            trimmed(setup(fabric, stack("ndp"), flows, Time::ms(1)), 8, TrimVictim::Random);
        for switch in &mut setup.fabric.switches {
            switch.trimming.as_mut().unwrap().header_weight = weight;
        }
        let (finished, outcome) = run(setup);
        assert!(outcome.links[1].packets > 200 && dropped(&outcome) == 0);
        assert!(outcome.links.iter().map(|link| link.trims).sum::<u64>() > 10, "headers");
        finished.iter().map(|row| row.completed.unwrap()).max().unwrap() - Time::ZERO
    };
    // 200 packets of 1,080 B, headers and control packets.
    let least = Rate::gbps(100).serialise(1_080).times(200);
    for weight in [None, Some(1), Some(25)] {
        let last = of(weight);
        assert!(last > least && last < least.scale(1.15), "{weight:?}: {last} of {least}");
    }
}

#[test]
fn lazy_commits_equal_explicit_dequeues() {
    let protocols = [
        ("nscc", None),
        ("smartt", Some(10)),
        ("eqds", None),
        ("rccc", None),
        ("nscc-rccc", Some(1)),
        ("ndp", Some(10)),
    ];
    for ((protocol, weight), victim) in
        protocols.into_iter().flat_map(|of| VICTIMS.map(|victim| (of, victim)))
    {
        let mut setup = trimmed(busy(stack(protocol), 1), 8, victim);
        for switch in &mut setup.fabric.switches {
            switch.trimming.as_mut().unwrap().header_weight = weight;
        }
        let (lazy, explicit) = (recorded::<TestProbe>(setup.clone()), recorded::<Explicit>(setup));
        assert!(lazy == explicit, "{protocol}, {victim:?}");
        let trims = lazy.3.iter().map(|link| link.trims).sum::<u64>();
        assert!(trims > 100, "{protocol}, {victim:?}: {trims}");
    }
}
