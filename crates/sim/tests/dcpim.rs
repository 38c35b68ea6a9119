//! dcPIM on small fabrics, compared with computed values.

use crate::common::*;
use tidegate_core::fabric::Node;
use tidegate_core::{Rate, Span, Time};
use tidegate_sim::{LinkRecord, Outcome, Setup};

const MTU: u32 = 1460;
const RATE: Rate = Rate::gbps(100);
/// The round trip of data and its token equals that of the authors' fabric.
const DELAY: Span = Span::ns(1_300);

fn downlink(outcome: &Outcome, host: u32) -> &LinkRecord {
    outcome.links.iter().find(|link| link.to == Node::Host(host)).unwrap()
}

fn around(hosts: u32, flows: Vec<tidegate_core::workload::Flow>, duration: Time) -> Setup {
    let mut setup = setup(star(hosts, RATE, DELAY, MTU), stack("dcpim"), flows, duration);
    setup.bdp_bytes = Some(75_460.0);
    setup
}

/// One message of `bytes` bytes to host 0 from each of `senders` hosts.
fn incast(senders: u32, bytes: u64, duration: Time) -> Setup {
    // All start within an epoch of 27 us.
    let begins = |host: u32| Time::us(1) + Span::ns(u64::from(host) * 37);
    let flows = (1..=senders).map(|host| flow(host, 0, bytes, begins(host))).collect();
    around(senders + 1, flows, duration)
}

#[test]
fn matched_downlinks_are_full_with_short_queues() {
    // A permutation: every host sends to the next and receives from the previous one.
    let flows = (0..16).map(|host| unlimited(host, (host + 1) % 16, Time::ZERO)).collect();
    let mut setup = around(16, flows, Time::ms(2));
    setup.warmup = Time::us(200);
    let (_, outcome) = run(setup);
    for host in 0..16 {
        let link = downlink(&outcome, host);
        // Only expired tokens of a phase leave it idle; tokens have a margin of 5 %.
        assert!(link.utilisation > 0.95, "{} of the link to {host}", link.utilisation);
        let most = link.queue_bytes.max;
        assert!(most < 10.0 * 1_540.0, "{most} B wait for host {host}");
    }
}

#[test]
fn duplicated_packets_cause_no_retransmissions() {
    let mut setup = around(2, vec![flow(1, 0, 2_000_000, Time::ZERO)], Time::ms(2));
    setup.faults.duplication = 0.5;
    let (finished, outcome) = run(setup);
    assert!(outcome.faults.duplicated > 1_000, "{}", outcome.faults.duplicated);
    assert_eq!(finished[0].retransmitted_bytes, 0);
}

#[test]
fn incast_takes_the_time_of_its_packets() {
    // The receiver matches one sender after another, or four at a time: none is starved, and the
    // link stays busy. A message of 400 KB takes a phase of all channels and a few packets, which
    // then have a channel of a phase that others do not fill. 22 % more than ideal were measured. A
    // message of 120 KB has 83 packets, and two channels carry 110 per phase: a third more than
    // ideal. 37 % were measured.
    for (senders, bytes, most) in
        [(2, 8_000_000, 1.15), (4, 4_000_000, 1.15), (40, 400_000, 1.3), (200, 120_000, 1.45)]
    {
        let all = u64::from(senders) * bytes;
        let ideal = RATE.serialise(all * 1_540 / u64::from(MTU));
        let (finished, outcome) = run(incast(senders, bytes, Time::ms(10)));
        assert!(outcome.unfinished.is_empty(), "{} left", outcome.unfinished.len());
        let last = finished.iter().map(|row| row.completed.unwrap()).max().unwrap();
        let took = last.as_us_f64() / ideal.as_us_f64();
        let queue = downlink(&outcome, 0).queue_bytes.max;
        println!("{senders} senders: {took} times the ideal, {queue} B");
        assert!(took < most, "{senders} senders: {took} times the ideal");
        // Packets of matches that end and of matches that start coincide.
        assert!(queue < 75_460.0, "{senders} senders: {queue} B wait");
    }
}

#[test]
fn many_long_messages_fill_their_link() {
    // Half a round suffices for about 65 requests at 10 Gbit/s. If all 300 requests were sent every
    // round, obsolete ones would always precede those of the next round.
    for (senders, rate) in [(300, Rate::gbps(10)), (1_000, Rate::gbps(100))] {
        let flows = (1..=senders).map(|host| unlimited(host, 0, Time::ZERO)).collect();
        let fabric = star(senders + 1, rate, Span::us(1), 1_000);
        let mut setup = setup(fabric, stack("dcpim"), flows, Time::ms(12));
        setup.warmup = Time::ms(4);
        let (_, outcome) = run(setup);
        let goodput: u64 = outcome.unfinished.iter().map(|row| row.delivered_bytes).sum();
        println!("{senders} at {rate}: {}", downlink(&outcome, 0).utilisation);
        assert!(goodput > 0 && downlink(&outcome, 0).utilisation > 0.9, "{senders} at {rate}");
    }
}

#[test]
fn long_path_is_full_too() {
    // 400 Gbit/s and about 100 us: 4,600 packets.
    let fabric = star(2, Rate::gbps(400), Span::us(25), 1_000);
    let flows = vec![unlimited(0, 1, Time::ZERO)];
    let mut setup = setup(fabric, stack("dcpim"), flows, Time::ms(6));
    setup.warmup = Time::ms(3);
    let (_, outcome) = run(setup);
    let used = downlink(&outcome, 1).utilisation;
    assert!(used > 0.95, "{used} of the link");
}

#[test]
fn long_messages_share_a_downlink_by_chance() {
    // In every epoch one random sender has all channels: a share of the epochs with binomial
    // distribution.
    for (senders, ms) in [(2, 40), (4, 40), (40, 40), (200, 60)] {
        let duration = Time::ms(ms);
        let setup = incast(senders, tidegate_core::Message::UNLIMITED, duration);
        let (finished, outcome) = run(setup);
        assert!(finished.is_empty());
        let total: u64 = outcome.unfinished.iter().map(|row| row.delivered_bytes).sum();
        let epochs = duration.as_ps() as f64 / 27.2e6;
        let share = 1.0 / f64::from(senders);
        let deviation = (share * (1.0 - share) / epochs).sqrt();
        for row in &outcome.unfinished {
            let of_all = row.delivered_bytes as f64 / total as f64;
            let off = (of_all - share) / deviation;
            assert!(off.abs() < 4.0, "{senders} senders: {of_all} of all, {off} deviations off");
        }
        let rate = total as f64 * 8.0 / duration.as_s_f64();
        assert!(rate > 0.9 * 100e9 * f64::from(MTU) / 1_540.0, "{senders} senders: {rate} bit/s");
    }
}
