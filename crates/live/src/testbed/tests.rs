//! Tests that need no processes.

use super::*;
use crate::net::DEFAULT_PROTOCOL;
use tidegate_core::fabric::{RateChange, Trimming};
use tidegate_core::{Extent, Rate, TrimmingRule};
use tidegate_scenario::load;

/// `hosts` hosts at 10 Gbit/s, packets of 1,000 B without headers.
fn plan(hosts: u32, traffic: &str) -> Plan {
    let text = format!(
        "duration = '2ms'\n[transport]\nprotocol = '{DEFAULT_PROTOCOL}'\n[fabric]\nkind = 'star'\n\
         hosts = {hosts}\nmtu = '1000B'\nhost_link = {{ rate = '10Gbps', delay = '2us' }}\n\
         {traffic}"
    );
    load(&text, "test", &[]).unwrap()
}

const FLOW: &str = "[[flows]]\nsrc = 'h1'\ndst = 'h0'\n";
const PERMUTATION: &str = "[[traffic]]\nkind = 'permutation'\n";

#[test]
fn simulation_only_features_are_refused() {
    let refused = |change: &dyn Fn(&mut Plan)| {
        let mut plan = plan(4, FLOW);
        assert!(refuse(&plan).is_ok());
        change(&mut plan);
        refuse(&plan).unwrap_err().to_string()
    };
    for (words, message) in [
        ("faults", refused(&|plan| plan.faults.loss = 0.1)),
        ("several protocols", refused(&|plan| plan.stacks.extend_from_within(..))),
        (
            "whose rate changes",
            refused(&|plan| {
                let (port, at, rate) = (0, Time::ZERO, Rate::gbps(1));
                plan.fabric.rate_changes.push(RateChange { port, at, rate });
            }),
        ),
        (
            "return_to_sender",
            refused(&|plan| {
                let rule = TrimmingRule::new(Extent::Bytes(9e3), 84).resolved(0.0);
                let trimming = Trimming { return_to_sender: true, ..rule };
                plan.fabric.switches[0].trimming = Some(trimming);
            }),
        ),
        (
            "header_bytes",
            refused(&|plan| {
                let header = tidegate_core::params::Value::Integer(40);
                plan.stacks[0].set("header_bytes", header).unwrap();
            }),
        ),
        ("512 B", refused(&|plan| plan.fabric.mtu = 511)),
        ("stack_delay", refused(&|plan| plan.stack_time.delay = Span::us(1))),
    ] {
        assert!(message.contains(words), "{message}");
    }
    let circuits = format!(
        "duration = '2ms'\n[transport]\nprotocol = '{DEFAULT_PROTOCOL}'\n[fabric]\n\
         kind = 'reconfigurable'\n[[flows]]\nsrc = 'h0'\ndst = 'h4'\n"
    );
    let message = refuse(&load(&circuits, "test", &[]).unwrap()).unwrap_err().to_string();
    assert!(message.contains("circuits"), "{message}");
    // Only hosts that take part count.
    assert!(refuse(&plan(250, PERMUTATION)).is_ok() && refuse(&plan(251, FLOW)).is_ok());
    let message = refuse(&plan(251, PERMUTATION)).unwrap_err().to_string();
    assert!(message.contains("more than 250 hosts"), "{message}");
}

#[test]
fn dilation_follows_the_machine() {
    // Two directions over two links of 2 us; a packet of 1,080 B and an acknowledgement of 84 B on
    // each.
    let rtt_s = 8e-6 + 2.0 * (1_080.0 + 84.0) * 0.8e-9;
    let by_rtt = usual_dilation(&plan(4, FLOW)).unwrap();
    assert!((f64::from(by_rtt) / (5e-3 / rtt_s) - 1.0).abs() < 0.01, "{by_rtt}");
    // The receiver's single link limits any number of senders.
    let two = format!("{FLOW}[[flows]]\nsrc = 'h2'\ndst = 'h0'\n");
    assert_eq!(usual_dilation(&plan(4, &two)).unwrap(), by_rtt);
    // Full links of forty hosts are limited to 20,000 packets and acknowledgements a second.
    let by_packets = usual_dilation(&plan(40, PERMUTATION)).unwrap();
    let packets = 2.0 * 40.0 * 10e9 / (8.0 * 1_080.0);
    assert!((f64::from(by_packets) / (packets / 20e3) - 1.0).abs() < 0.01, "{by_packets}");
}

#[test]
fn all_losses_of_the_machine_count() {
    let counts = Counts { too_fast: 1, unsent: 20, overrun: 300, sent: 7, ..Counts::default() };
    let hosts = Lateness { late_ns: lateness().unwrap(), lost: 4_000 };
    assert_eq!(lost(&counts, &hosts), 4_321);
}
