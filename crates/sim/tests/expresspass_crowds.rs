//! ExpressPass with many flows on a link, and with credits and data on the same link. Tolerances
//! were written down before the first run.

use crate::common::observers::{Observer, ObserverAccess, TestProbe};
use crate::common::*;
use tidegate_algos::Stack;
use tidegate_core::fabric::{Buffer, Node};
use tidegate_core::{Body, Frame, Rate, Span, Time};
use tidegate_sim::{Engine, Outcome, Setup};

const MTU: u32 = 1458;
const FULL: f64 = 1538.0;
/// Share of a link that data can use if credits are 84 to 92 bytes long, and the share of credits.
const GOAL: f64 = FULL / (FULL + 88.0);

/// Packets that arrived at host 0: data, and others.
#[derive(Default)]
struct Arrivals([u64; 2]);

impl Observer for Arrivals {
    fn arrived(&mut self, _now: Time, host: u32, _frame: &Frame, body: &Body) {
        if host == 0 {
            self.0[usize::from(body.payload_bytes == 0)] += 1;
        }
    }
}

fn expresspass() -> Stack {
    stack("expresspass")
}

/// `flows` hosts send to one over links of 10 Gbit/s and round trips of 100 us, as in the paper's
/// incasts, into a switch with a buffer of `buffer` bytes.
fn crowd(flows: u32, buffer: u64) -> Setup {
    let fabric = star(flows + 1, Rate::gbps(10), Span::us(24), MTU);
    let each = |h: u32| unlimited(h, 0, Time::ns(u64::from(h) * 37));
    let mut setup = setup(fabric, expresspass(), (1..=flows).map(each).collect(), Time::ms(100));
    setup.warmup = Time::ms(40);
    setup.fabric.switches[0].buffer = Buffer::Shared { bytes: buffer, alpha: f64::INFINITY };
    crediting(setup)
}

/// With 2,000 flows, each has one credit per 26 round trips. Their requests are not covered by
/// credits and take 5.4 % of the link.
///
/// Predicted before the first run: nothing is dropped in a buffer of twice the first requests;
/// after 40 ms at most three packets wait, one packet in a hundred is control, and the link is used
/// to 98 %.
#[test]
fn many_flows_request_once_and_wait() {
    for flows in [200, 1_000, 2_000] {
        let setup = crowd(flows, 2 * 84 * u64::from(flows));
        let mut engine = Engine::new(setup, TestProbe::of(Arrivals::default())).unwrap();
        engine.advance(Time::ms(40));
        let [_, first] = engine.probe().inner::<Arrivals>().0;
        let [data_before, control_before] = engine.probe().inner::<Arrivals>().0;
        engine.advance(Time::ms(100));
        let [data, control] = engine.probe().inner::<Arrivals>().0;
        let (data, control) = (data - data_before, control - control_before);
        let mut outcome = engine.finish().unwrap();
        let finished = std::mem::take(&mut outcome.finished);
        let link = outcome.links.iter().find(|link| link.to == Node::Host(0)).unwrap();
        let used = data as f64 * FULL * 8.0 / 60e-3 / 10e9 / GOAL;
        println!(
            "{flows} flows: {used:.4}, queue {}, {first} requests at first, then {control} for \
             {data} packets, Jain {:.3}",
            link.queue_bytes.max,
            jain(&goodputs(&finished, &outcome))
        );
        assert_eq!(dropped(&outcome), 0, "{flows} flows");
        assert!(link.queue_bytes.max <= 3.0 * FULL, "{flows} flows: {link:?}");
        assert!(control * 100 <= data, "{flows} flows: {control} for {data}");
        assert!(used > 0.98 && used < 1.005, "{flows} flows: {used}");
    }
}

/// Least and largest utilisation of any link, and the longest queue.
fn worst(outcome: &Outcome) -> (f64, f64, f64) {
    let used = outcome.links.iter().map(|link| link.utilisation);
    let queues = outcome.links.iter().map(|link| link.queue_bytes.max);
    (used.clone().fold(1.0, f64::min), used.fold(0.0, f64::max), queues.fold(0.0, f64::max))
}

/// Every link carries data and the credits for data in the other direction, which together use all
/// of it.
///
/// Predicted before the first run: 98 % of each link, and never more than half a per cent above its
/// rate. At most one packet waits for another, beside eight credits.
#[test]
fn data_and_credits_share_a_link_in_both_directions() {
    let (rate, delay) = (Rate::gbps(100), Span::us(1));
    let there_and_back = vec![unlimited(0, 1, Time::ZERO), unlimited(1, 0, Time::ns(70))];
    let ring = (0..8).map(|h| unlimited(h, (h + 3) % 8, Time::ns(u64::from(h) * 41))).collect();
    for (hosts, flows) in [(2, there_and_back), (8, ring)] {
        let mut setup = setup(star(hosts, rate, delay, MTU), expresspass(), flows, Time::ms(6));
        setup.warmup = Time::ms(1);
        let (finished, outcome) = run(crediting(setup));
        let (least, most, queue) = worst(&outcome);
        let rates = goodputs(&finished, &outcome);
        println!("{hosts} hosts: {least:.4} to {most:.4}, queue {queue}, {rates:?}");
        assert!(least > 0.98 && most < 1.005, "{hosts} hosts: {least} to {most}");
        assert!(queue <= FULL + 8.0 * 92.0, "{hosts} hosts: {queue}");
        assert_eq!(dropped(&outcome), 0);
        assert!(jain(&rates) > 0.95, "{hosts} hosts: {rates:?}");
    }
}

/// 65 hosts each receive from eight others: credits wait at every port, because receivers request
/// more than senders can use. The maximum buffer without counting credits suffices for data with
/// them.
#[test]
fn credits_take_no_room_from_data() {
    let hosts = 65;
    let fabric = star(hosts, Rate::gbps(100), Span::us(1), MTU);
    let pairs = (0..hosts).flat_map(|a| (1..9).map(move |i| (a, (a + 7 * i) % hosts)));
    let flows = pairs.map(|(a, b)| unlimited(a, b, Time::ns(u64::from(a * 13 + b)))).collect();
    let setup = crediting(setup(fabric, expresspass(), flows, Time::us(400)));
    let with_buffer = |buffer: Buffer| {
        let mut setup = setup.clone();
        setup.fabric.switches[0].buffer = buffer;
        run(setup).1
    };
    let all = with_buffer(Buffer::Unlimited);
    let waiting: f64 = all.links.iter().map(|link| link.queue_bytes.mean).sum();
    let buffer = &all.switches[0].buffer_bytes;
    println!("{waiting:.0} B at ports, {buffer:?}");
    // Packets queued at ports include credits, so they exceed the packets in the buffer.
    let credits = waiting - buffer.mean;
    assert!(credits > 5_000.0 && credits < f64::from(hosts) * 672.0, "{credits} B of credits");
    let bytes = buffer.max as u64;
    let few = with_buffer(Buffer::Shared { bytes, alpha: f64::INFINITY });
    assert_eq!((dropped(&all), dropped(&few)), (0, 0), "{bytes} B");
    assert_eq!(all.digest, few.digest, "the buffer is never full");
}
