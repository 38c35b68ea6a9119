//! NSCC and RCCC together: credit takes care of the links to receivers, and the window of those
//! between switches.

use crate::common::*;
use tidegate_core::params::Value;
use tidegate_core::{Rate, Span, Time};

/// Packets that were sent again, and the last completion, if the hosts of the first of two racks
/// send 2 MB each to `receivers` hosts of the second. The racks have eight hosts each and
/// `uplinks` links to each other, all of one rate.
fn resent(protocol: &str, uplinks: u32, receivers: u32) -> (f64, Time) {
    const MTU: u32 = 4_000;
    let rate = Rate::gbps(100);
    let fabric = leaf_spine(2, 8, uplinks, rate, rate, Span::us(1), MTU);
    let flows = (0..8).map(|h| flow(h, 8 + h % receivers, 2_000_000, Time::ns(u64::from(h))));
    let mut setup = setup(fabric, stack(protocol), flows.collect(), Time::ms(20));
    setup.until_done = true;
    if protocol == "rccc" {
        // As beside a window.
        setup.stacks[0].set("adapts", Value::Flag(false)).unwrap();
    }
    let requirements = requirements_of(&setup);
    let path = unobserved(setup.clone(), 1).unwrap().paths().path(0, 8);
    for switch in &mut setup.fabric.switches {
        switch.ecn = requirements.ecn.map(|marking| marking.resolved(path.bdp_bytes));
        switch.trimming = requirements.trimming.map(|rule| rule.resolved(path.bdp_bytes));
    }
    let (finished, outcome) = run(setup);
    assert_eq!((finished.len(), dropped(&outcome)), (8, 0), "{protocol}");
    let bytes: u64 = finished.iter().map(|row| row.retransmitted_bytes).sum();
    let last = finished.iter().map(|row| row.completed.unwrap()).max().unwrap();
    (bytes as f64 / f64::from(MTU), last)
}

/// The window is never full while credit limits, so both do what RCCC does alone: only packets of
/// the first windows are trimmed. The probing of NSCC costs more.
#[test]
fn credit_schedules_links_to_receivers() {
    let [nscc, rccc, both] = ["nscc", "rccc", "nscc-rccc"].map(|name| resent(name, 8, 1));
    assert_eq!(both, rccc);
    assert!(both.0 > 50.0 && nscc.0 > 1.2 * both.0, "{nscc:?} {both:?}");
}

/// Receivers pull four times what two uplinks carry.
#[test]
fn windows_spare_links_between_switches() {
    let [nscc, rccc, both] = ["nscc", "rccc", "nscc-rccc"].map(|name| resent(name, 2, 8));
    assert!(both.0 < 0.1 * rccc.0 && both.0 < 1.2 * nscc.0, "{nscc:?} {rccc:?} {both:?}");
    // 4,000 packets of 4,080 B over 200 Gbit/s.
    let least = Span::ns(652_800);
    let took = both.1.since(Time::ZERO);
    assert!(took > least && took < least.scale(1.1), "{took}");
}
