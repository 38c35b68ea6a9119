//! Every message arrives once and in order, under any network behaviour.

use super::*;
use crate::kit::lanes::MAX_LANES;

fn varied(seed: u64) -> trials::Variation<ExpressPassParams> {
    let jitter = Span::us(seed % 4 * 3);
    let mut params = ExpressPassParams::default();
    if seed % 3 == 1 {
        (params.initial_rate, params.rise) = (1.0 / 16.0, Rise::Step);
    }
    trials::Variation { params, jitter, congestion: 0.0, patient: jitter == Span::ZERO }
}

#[test]
fn every_message_arrives_once_under_faults() {
    let trial = trials::RandomTrial { most_bytes: 150_000, most_ns: 30_000, until: Time::s(20) };
    let faults = [(0.0, 0.0, 60), (0.01, 0.0, 200), (0.05, 0.02, 200), (0.3, 0.1, 20)];
    let lost = trial.survive::<ExpressPass>(faults, varied);
    assert!(lost > 5_000, "only {lost} packets were lost");
}

#[test]
fn hosts_come_and_go_amid_messages() {
    let trial = trials::RandomTrial { most_bytes: 150_000, most_ns: 30_000, until: Time::s(20) };
    let faults = [(0.0, 0.0, 60), (0.01, 0.0, 60), (0.05, 0.02, 60), (0.3, 0.1, 20)];
    trial.survive_session_restarts::<ExpressPass>(&faults, varied);
}

#[test]
fn messages_waiting_for_a_lane_are_forgotten_too() {
    trials::messages_waiting_for_a_lane_are_forgotten_too::<ExpressPass>();
}

#[test]
fn first_packets_of_any_kind_may_be_lost() {
    // A timeout for each loss, longer from the second consecutive one.
    let bound = |lost: u64| Time::us(100 * ((1 << lost) - 1) + 300);
    let jitter = NO_FAULTS.jitter;
    let lost = trials::first_packets_of_any_kind_may_be_lost::<ExpressPass>(jitter, bound);
    assert!(lost > 500, "{lost}");
}

#[test]
fn all_packets_from_the_lost_one_are_retransmitted() {
    let faults = Faults { first_of: kinds::<Header>(&["Data"]), ..NO_FAULTS };
    let mut net = Net::new(3, &params(), faults, 1);
    net.submit(0, 1, 150_000);
    net.run(Time::s(1));
    net.assert_all_delivered("one lost");
    // Packets that left in a round trip of about 2.2 us after the lost one, at half the rate and
    // rising.
    let resent = net.resent_bytes / MTU as u64;
    assert!((1..20).contains(&resent), "{resent}");
}

#[test]
fn loss_of_the_last_packet_is_detected_at_once() {
    let faults = Faults { first_of: kinds::<Header>(&["Data"]), ..NO_FAULTS };
    let mut net = Net::new(2, &params(), faults, 1);
    net.submit(0, 1, 1_000);
    net.run(Time::s(1));
    let done = net.app.messages[0].completed.unwrap();
    // Two and a half round trips more, without the timeout of 100 us.
    assert!(done < Time::us(20), "{done}");
    assert_eq!(net.resent_bytes, 1_000);
}

#[test]
fn a_silent_sender_gets_no_credits_until_it_is_back() {
    let egress_outage = Some((0, Time::us(50), Time::ms(20)));
    let mut net = Net::new(2, &params(), Faults { egress_outage, ..NO_FAULTS }, 1);
    net.submit(0, 1, 4_000_000);
    net.run(Time::us(900));
    let before = net.sent("Credit");
    net.run(Time::ms(19));
    let wasted = net.sent("Credit") - before;
    assert!(wasted < 20, "{wasted} credits without use");
    net.run(Time::s(1));
    net.assert_all_delivered("back");
}

#[test]
fn receiver_without_stop_forgets_the_message() {
    // The sender is unreachable permanently once everything has arrived.
    let egress_outage = Some((0, Time::ns(2_050), Time::NEVER));
    let mut net = Net::new(2, &params(), Faults { egress_outage, ..NO_FAULTS }, 1);
    net.submit(0, 1, 1_000);
    net.run(Time::ms(50));
    assert!(net.app.messages[0].completed.is_some());
    assert!(net.hosts[1].inbox.is_quiet());
    assert!(net.hosts[0].outbox.is_quiet(), "it received the acknowledgement");
}

#[test]
fn more_messages_than_lanes_wait_for_one() {
    let mut net = Net::new(2, &params(), NO_FAULTS, 1);
    for _ in 0..MAX_LANES + 40 {
        net.submit(0, 1, 100);
    }
    net.run(Time::s(2));
    net.assert_all_delivered("many");
    assert_eq!(net.resent_bytes, 0);
}

#[test]
fn lost_stop_is_repeated_and_credits_end() {
    for lost in [&["Stop"][..], &["Stop", "Request"]] {
        let first_of = kinds::<Header>(lost);
        let mut net = Net::new(2, &params(), Faults { first_of, ..NO_FAULTS }, 1);
        net.submit(0, 1, 100_000);
        net.run(Time::ms(50));
        net.assert_all_delivered("stop lost");
        assert!(net.sent("Stop") >= 2, "{lost:?}");
        // For 69 packets, and the round trips until the second stop.
        assert!(net.sent("Credit") < 69 + 150, "{lost:?}");
    }
}

#[test]
fn forged_packets_have_no_effect() {
    let params = |_| ExpressPassParams::default();
    trials::forged_packets_harm_only_their_senders::<ExpressPass>(
        params,
        40_000,
        Time::ms(20),
        |_| None,
    );
}
