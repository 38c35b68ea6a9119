//! SMaRTT at rest, compared with the fixed point of its four cases.

use crate::common::*;
use tidegate_core::{Rate, Span, Time};

/// Queue in BDPs at which `flows` equal windows rest in the mean, with a BDP of `bdp` packets: the
/// increases of the unmarked packets are the decreases of the marked ones. Below the target, where
/// the queue is for few flows, these are `fi + mi · (t − r)/r` over the window `w` and `fd · w`
/// over the BDP, in packets. A packet is marked with a probability that rises from 0 to 1 between
/// 0.2 and 0.8 BDP.
fn resting_queue(flows: f64, bdp: f64) -> f64 {
    let (mut least, mut most) = (0.2, 0.8);
    for _ in 0..50 {
        let queue: f64 = (least + most) / 2.0;
        let marked = (queue - 0.2) / 0.6;
        let window = (1.0 + queue) * bdp / flows;
        let increase = (2.0 + 2.5 * (1.51 / (1.0 + queue) - 1.0)) / window;
        let decrease = 0.8 * window / bdp;
        if (1.0 - marked) * increase > marked * decrease { least = queue } else { most = queue }
    }
    most
}

/// Mean queue of the link to the receiver in BDPs, its utilisation, Jain's index of the flows'
/// shares, and a BDP in packets.
fn at_rest(flows: u32, delay: Span) -> (f64, f64, f64, f64) {
    let fabric = star(flows + 1, Rate::gbps(100), delay, 4096);
    let port = 2 * fabric.links.len() - 1;
    let starts = (0..flows).map(|h| unlimited(h, flows, Time::us(7 * u64::from(h)))).collect();
    let mut setup = setup(fabric, stack("smartt"), starts, Time::ms(12));
    setup.warmup = Time::ms(2);
    let requirements = requirements_of(&setup);
    let path = unobserved(setup.clone(), 1).unwrap().paths().path(0, flows);
    for switch in &mut setup.fabric.switches {
        switch.ecn = requirements.ecn.map(|marking| marking.resolved(path.bdp_bytes));
        switch.trimming = requirements.trimming.map(|rule| rule.resolved(path.bdp_bytes));
    }
    let (finished, outcome) = run(setup);
    let link = &outcome.links[port];
    let bdp = path.bdp_bytes / f64::from(path.full_wire_bytes);
    let queue = link.queue_bytes.mean / path.bdp_bytes;
    (queue, link.utilisation, jain(&goodputs(&finished, &outcome)), bdp)
}

#[test]
fn flows_rest_where_increases_equal_decreases() {
    for flows in [3, 4, 5] {
        let (queue, utilisation, fairness, bdp) = at_rest(flows, Span::us(6));
        let expected = resting_queue(f64::from(flows), bdp);
        let case = format!(
            "{flows} flows: {queue:.3} BDP, expected {expected:.3}; utilisation {utilisation:.4}, \
             fairness {fairness:.4}"
        );
        println!("{case}");
        assert!((queue / expected - 1.0).abs() < 0.05, "{case}");
        assert!(utilisation > 0.999 && fairness > 0.99, "{case}");
    }
}

/// The decreases of two large windows leave the link without a queue for so long that fast increase
/// begins; it ends only after marks, so that the windows swing.
#[test]
fn two_flows_swing_by_fast_increase() {
    let (queue, utilisation, fairness, bdp) = at_rest(2, Span::us(3));
    let case = format!("{queue:.3} BDP, utilisation {utilisation:.4}, fairness {fairness:.4}");
    println!("{case}");
    assert!(queue > 1.05 * resting_queue(2.0, bdp), "{case}");
    assert!((0.90..0.96).contains(&utilisation) && fairness > 0.99, "{case}");
}
