//! Congestion controls of RDMA NICs when they start from a very low rate or have lost many packets.

use crate::common::*;
use tidegate_core::fabric::Buffer;
use tidegate_core::params::Value;
use tidegate_core::{Rate, Span, Time};

/// Flows from hosts 0 to `n` − 1 to host `n`, all at once.
fn incast(n: u32, stack: tidegate_algos::Stack, rate: Rate, delay: Span) -> tidegate_sim::Setup {
    let flows = (0..n).map(|host| unlimited(host, n, Time::ZERO)).collect();
    setup(star(n + 1, rate, delay, 1000), stack, flows, Time::ms(5))
}

/// Four flows that fill a buffer lose hundreds of packets each. Retransmissions have old numbers,
/// but rates must still follow round trips: if round trips were counted by numbers, none would end
/// before all data is through.
#[test]
fn timely_counts_round_trips_in_recovery() {
    let mut timely = stack("timely");
    timely.set("recovery", Value::Choice("selective")).unwrap();
    let mut setup = incast(4, timely, Rate::gbps(25), Span::us(2));
    setup.warmup = Time::ms(1);
    setup.fabric.switches[0].buffer = Buffer::Shared { bytes: 400_000, alpha: 1.0 };
    let (finished, outcome) = run(setup);
    let all = finished.iter().chain(&outcome.unfinished);
    assert!(all.map(|record| record.retransmitted_bytes).sum::<u64>() > 300_000);
    let total: f64 = goodputs(&finished, &outcome).iter().sum();
    assert!(total > 0.7 * 25e9, "{total:.3e}");
}

/// 40 of 41 flows stop. The last flow's pace is a few Mbit/s, a packet every few milliseconds. Its
/// timer raises the pace, and the waiting packet must not keep the time of the old pace.
#[test]
fn dcqcn_rises_from_a_very_low_pace() {
    let mut dcqcn = stack("dcqcn");
    dcqcn.set("min_rate", Value::Rate(Rate::mbps(1))).unwrap();
    let mut setup = incast(41, dcqcn, Rate::gbps(100), Span::us(1));
    for flow in &mut setup.workload.flows[1..] {
        flow.stop = Time::ms(30);
    }
    (setup.warmup, setup.duration) = (Time::ms(30), Time::ms(32));
    let ecn = requirements_of(&setup).ecn.map(|marking| marking.resolved(52_000.0));
    setup.fabric.switches[0].ecn = ecn;
    let (finished, outcome) = run(setup);
    let last = finished.iter().chain(&outcome.unfinished).find(|record| record.src == 0);
    let goodput = last.and_then(|record| record.goodput_bps()).unwrap();
    assert!(goodput > 1e9, "{goodput:.3e}");
}
