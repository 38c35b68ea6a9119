//! Return to sender: trimmed packets that find no room travel back, once.

use std::collections::BTreeSet;

use tidegate_algos::Protocol;
use tidegate_core::fabric::{Buffer, Node, TrimVictim, Trimming};
use tidegate_core::params::Value;
use tidegate_core::workload::Flow;
use tidegate_core::{Body, Extent, Frame, Rate, Span, Time, frame_flag};
use tidegate_sim::{Departure, Engine, Outcome, Setup};

use crate::common::busy::busy;
use crate::common::observers::{Explicit, Observer, ObserverAccess, TestProbe};
use crate::common::*;
use crate::explicit_engine::recorded;

const HOSTS: u32 = 40;
/// Headers that a port holds.
const HEADERS: u32 = 5;

/// Trims at ten full packets and a few headers.
fn trimming(setup: &mut Setup, return_to_sender: bool) {
    let trimming = Trimming {
        data_bytes: 10 * (setup.fabric.mtu + 80),
        header_queue_bytes: HEADERS * 84,
        trimmed_bytes: 84,
        victim: TrimVictim::Random,
        per: None,
        return_to_sender,
        header_weight: None,
    };
    setup.fabric.switches.iter_mut().for_each(|switch| switch.trimming = Some(trimming));
}

/// Flows between hosts of one switch.
fn within_a_rack(protocol: &str, flows: Vec<Flow>) -> Setup {
    let fabric = leaf_spine(1, HOSTS, 1, Rate::gbps(100), Rate::gbps(100), Span::ns(500), 4_000);
    let mut setup = setup(fabric, stack(protocol), flows, Time::ms(100));
    trimming(&mut setup, true);
    setup.until_done = true;
    setup
}

/// All other hosts send 60 KB each to host 0 at once.
fn incast(protocol: &str) -> Setup {
    let flows = (1..HOSTS).map(|src| flow(src, 0, 60_000, Time::ZERO)).collect();
    within_a_rack(protocol, flows)
}

/// Data packets on their way back.
#[derive(Clone, Default)]
struct Returned {
    /// Those that switches sent back, if the protocol's packets state when they left.
    sent_back: u64,
    /// Those that left, on every link.
    left: u64,
    arrived: u64,
    dropped: u64,
    seen: BTreeSet<(u32, [u64; 5], Time)>,
    protocol: Option<Protocol>,
}

impl Returned {
    fn is_data(&self, body: &Body) -> bool {
        self.protocol.unwrap().offset(body).is_some()
    }
}

impl Observer for Returned {
    fn departed(&mut self, d: &Departure<'_>) {
        if d.frame.dst == d.body.src {
            self.left += 1;
            self.sent_back +=
                u64::from(self.seen.insert((d.body.src, d.body.words, d.body.sent_at)));
            assert!(self.is_data(d.body), "control packets do not return");
            assert_eq!((d.body.payload_bytes, d.frame.wire_bytes), (0, 84));
            assert!(d.frame.priority < 2, "headers precede data");
            let stamps = frame_flag::STAMP_PEAK | frame_flag::STAMP_HOPS;
            assert_eq!(d.frame.flags & (stamps | frame_flag::ECN_CAPABLE), 0);
        }
    }
    fn arrived(&mut self, _now: Time, host: u32, frame: &Frame, body: &Body) {
        self.arrived += u64::from(frame.dst == body.src);
        assert!(frame.dst == host);
    }
    fn dropped(&mut self, body: &Body) {
        self.dropped += u64::from(self.is_data(body));
    }
}

fn observed(setup: Setup) -> (Outcome, Returned) {
    let protocol = Some(setup.stacks[0].protocol());
    let probe = TestProbe::of(Returned { protocol, ..Returned::default() });
    let mut engine = Engine::new(setup, probe).unwrap();
    engine.advance(Time::NEVER);
    let seen = engine.probe().inner::<Returned>().clone();
    (engine.finish().unwrap(), seen)
}

fn returned(outcome: &Outcome) -> u64 {
    outcome.links.iter().map(|link| link.returned).sum()
}

fn last(outcome: &Outcome) -> Time {
    outcome.finished.iter().map(|row| row.completed.unwrap()).max().unwrap()
}

#[test]
fn incast_drops_no_header_and_times_out_never() {
    let mut without = incast("ndp");
    trimming(&mut without, false);
    let (outcome, seen) = observed(without);
    assert_eq!((returned(&outcome), seen.left), (0, 0));
    assert!(dropped(&outcome) > 100, "{}", dropped(&outcome));
    assert!(last(&outcome) > Time::ms(1), "headers are lost until a timeout of 1 ms");

    let (outcome, seen) = observed(incast("ndp"));
    assert_eq!((outcome.finished.len(), dropped(&outcome)), (HOSTS as usize - 1, 0));
    assert!(seen.arrived > 100, "{}", seen.arrived);
    // Every packet that returns reaches its sender over one link.
    assert_eq!([seen.left, returned(&outcome), seen.dropped], [seen.arrived, seen.arrived, 0]);
    // They find no room at the port to the receiver.
    let elsewhere = outcome.links.iter().filter(|link| link.to != Node::Host(0));
    assert_eq!(elsewhere.map(|link| link.returned).sum::<u64>(), 0);
    // 2.34 MB and their headers take 191 us.
    assert!(last(&outcome) < Time::us(230), "{}", last(&outcome));
}

/// All of a dozen hosts send to all others, and ports hold one header, so that ways back are full.
#[test]
fn returned_packet_without_room_is_dropped() {
    let flows: Vec<Flow> = (0..12)
        .flat_map(|dst| (0..12).filter(move |&src| src != dst).map(move |src| (src, dst)))
        .map(|(src, dst)| flow(src, dst, 60_000, Time::ZERO))
        .collect();
    let messages = flows.len();
    let mut setup = within_a_rack("ndp", flows);
    for switch in &mut setup.fabric.switches {
        switch.trimming.as_mut().unwrap().header_queue_bytes = 84;
    }
    let (outcome, seen) = observed(setup);
    assert_eq!(outcome.finished.len(), messages, "timeouts recover");
    assert!(seen.dropped > 0 && seen.arrived > 0, "{} of {}", seen.dropped, returned(&outcome));
    // They are dropped where they would be sent back, so that they do not count as returned.
    assert_eq!([returned(&outcome), seen.sent_back], [seen.arrived; 2]);
    assert!(dropped(&outcome) >= seen.dropped);
}

/// A full shared buffer returns packets, too.
#[test]
fn full_buffer_returns_headers() {
    let mut setup = incast("ndp");
    for switch in &mut setup.fabric.switches {
        switch.buffer = Buffer::Shared { bytes: 50_000, alpha: f64::INFINITY };
        let trimming = switch.trimming.as_mut().unwrap();
        trimming.data_bytes = 1_000_000;
        trimming.header_queue_bytes = 1_000_000;
    }
    let (outcome, seen) = observed(setup);
    assert_eq!(outcome.finished.len(), HOSTS as usize - 1);
    assert!(seen.arrived > 0 && returned(&outcome) == seen.arrived);
}

#[test]
fn counts_begin_after_the_warm_up() {
    let mut setup = incast("ndp");
    (setup.until_done, setup.warmup, setup.duration) = (false, Time::ms(2), Time::ms(3));
    let (outcome, seen) = observed(setup);
    assert!(seen.arrived > 100);
    assert_eq!(returned(&outcome), 0);
}

/// Four racks: packets return over several links, and from the core.
#[test]
fn every_transport_survives_returned_packets() {
    for &protocol in Protocol::ALL {
        let name = protocol.info().name;
        let fabric = leaf_spine(4, 8, 2, Rate::gbps(100), Rate::gbps(100), Span::ns(500), 4_000);
        let flows: Vec<Flow> = (0..3)
            .flat_map(|dst| (8..32).map(move |src| flow(src, dst, 50_000, Time::ZERO)))
            .collect();
        let messages = flows.len();
        let mut setup = setup(fabric, stack(name), flows, Time::s(2));
        setup.until_done = true;
        trimming(&mut setup, true);
        let expects_trimming = requirements_of(&setup).trimming.is_some();
        let (outcome, seen) = observed(setup);
        assert_eq!(outcome.finished.len(), messages, "{name}");
        assert!(outcome.finished.iter().all(|row| row.delivered_bytes == row.bytes), "{name}");
        if expects_trimming {
            assert!(seen.arrived > 20 && seen.left > seen.arrived, "{name}: {}", seen.arrived);
            assert_eq!(returned(&outcome), seen.sent_back, "{name}");
        }
        let may_be = seen.arrived..=seen.arrived + seen.dropped;
        assert!(may_be.contains(&returned(&outcome)), "{name}: {}", returned(&outcome));
    }
}

#[test]
fn lazy_commits_equal_explicit_dequeues() {
    for protocol in ["nscc", "smartt", "eqds", "rccc", "ndp"] {
        let mut setup = busy(stack(protocol), 1);
        trimming(&mut setup, true);
        let (lazy, explicit) = (recorded::<TestProbe>(setup.clone()), recorded::<Explicit>(setup));
        assert!(lazy == explicit, "{protocol}");
        let returned = lazy.3.iter().map(|link| link.returned).sum::<u64>();
        assert!(returned > 20, "{protocol}: {returned}");
    }
}

/// NDP's senders wait for pulls instead of repeating the incast.
#[test]
fn returned_packets_wait_for_pulls() {
    let resent = |multipath| {
        let mut setup = incast("ndp");
        setup.stacks[0].set("multipath", Value::Choice(multipath)).unwrap();
        let (outcome, seen) = observed(setup);
        (seen.arrived, last(&outcome))
    };
    for multipath in ["oblivious", "off", "bitmap", "reps"] {
        let (arrived, last) = resent(multipath);
        // 39 messages of 15 packets: none returns twice on average.
        assert!((100..600).contains(&arrived), "{multipath}: {arrived}");
        assert!(last < Time::us(230), "{multipath}: {last}");
    }
}

/// An incast at one switch, as in NDP's simulator (`docs/ultra-ethernet.md`): 87 messages of 400 KB
/// in first windows of 50 packets, and queues of 8,172 B for data and twice that for headers.
#[test]
fn incast_takes_as_long_as_in_csg_htsim() {
    let mut fabric = star(88, Rate::gbps(100), Span::us(1), 4_086);
    for switch in &mut fabric.switches {
        switch.trimming = Some(Trimming {
            data_bytes: 8_172,
            header_queue_bytes: 16_344,
            trimmed_bytes: 64,
            victim: TrimVictim::Random,
            per: None,
            return_to_sender: true,
            header_weight: None,
        });
    }
    let flows = (1..88).map(|src| flow(src, 0, 400_000, Time::ZERO)).collect();
    let mut setup = setup(fabric, stack("ndp"), flows, Time::ms(400));
    setup.until_done = true;
    for (name, value) in [
        ("max_window", Value::Extent(Extent::Bytes(207_500.0))),
        ("min_rto", Value::Span(Span::ms(50))),
        ("header_bytes", Value::Integer(64)),
        ("control_bytes", Value::Integer(64)),
    ] {
        setup.stacks[0].set(name, value).unwrap();
    }
    let (finished, outcome) = run(setup);
    assert_eq!((finished.len(), dropped(&outcome)), (87, 0));
    // There, a message ends with its last acknowledgement, 2 us and a packet of 64 B later.
    let mut ends: Vec<f64> =
        finished.iter().map(|row| row.completed.unwrap().as_us_f64() + 2.0).collect();
    ends.sort_by(f64::total_cmp);
    let (median, last) = (ends[43], ends[86]);
    assert!((median / 2_866.9 - 1.0).abs() < 0.003, "{median}");
    assert!((last / 2_881.3 - 1.0).abs() < 0.003, "{last}");
    // 981 there.
    assert!((960..1_000).contains(&returned(&outcome)), "{}", returned(&outcome));
}
