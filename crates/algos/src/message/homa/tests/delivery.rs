//! Every message arrives exactly once, under any network behaviour.

use super::*;
use crate::kit::lanes::MAX_LANES;
use crate::kit::window::MAX_AHEAD;

/// Non-default parameters for some seeds.
fn varied(seed: u64) -> HomaParams {
    let mut params = HomaParams::default();
    match seed % 7 {
        1 => params.overcommitment = 1,
        2 => params.unscheduled_bytes = Extent::Bytes(0.0),
        3 => params.rtt_bytes = Extent::Bytes(3_000.0),
        4 => params.priorities = 1,
        5 => params.tail_boost = Extent::Bdp(1.0),
        6 => params.bubble_bytes = Extent::Bytes(1_600.0),
        _ => {}
    }
    if seed.is_multiple_of(3) {
        params.resend_timeout = Span::us(200);
    }
    params
}

#[test]
fn every_message_arrives_once_under_faults() {
    let trial = trials::RandomTrial { most_bytes: 250_000, most_ns: 30_000, until: Time::s(60) };
    let faults = [(0.0, 0.0, 100), (0.01, 0.0, 600), (0.05, 0.02, 600), (0.3, 0.1, 50)];
    let lost = trial.survive::<Homa>(faults, |seed| {
        let (params, jitter) = (varied(seed), Span::us(1 + seed % 12));
        let patient = params.resend_timeout == TIMEOUT;
        trials::Variation { params: fitted(params), jitter, congestion: 0.0, patient }
    });
    assert!(lost > 10_000, "only {lost} packets were lost");
}

#[test]
fn hosts_come_and_go_amid_messages() {
    let trial = trials::RandomTrial { most_bytes: 250_000, most_ns: 30_000, until: Time::s(60) };
    let faults = [(0.0, 0.0, 60), (0.01, 0.0, 60), (0.05, 0.02, 60), (0.3, 0.1, 20)];
    trial.survive_session_restarts::<Homa>(&faults, |seed| {
        let (params, jitter) = (fitted(varied(seed)), Span::us(1 + seed % 12));
        trials::Variation { params, jitter, congestion: 0.0, patient: false }
    });
}

#[test]
fn grants_of_a_forgotten_sender_pass_to_others() {
    let params = fitted(two_at_a_time());
    // Longer than the rest of the others, so that it ranks behind them.
    trials::forgotten_senders_hold_nothing::<Homa>(&params, 6_000_000, Span::us(700));
}

#[test]
fn messages_waiting_for_a_lane_are_forgotten_too() {
    trials::messages_waiting_for_a_lane_are_forgotten_too::<Homa>();
}

#[test]
fn first_packets_of_any_kind_may_be_lost() {
    // A timeout for each loss, longer from the second consecutive one; and one for the
    // notification.
    let bound = |lost: u64| Time::ms(5 * ((2 << lost) - 1));
    let lost = trials::first_packets_of_any_kind_may_be_lost::<Homa>(NO_FAULTS.jitter, bound);
    assert!(lost > 400, "{lost}");
}

#[test]
fn only_what_was_lost_is_sent_again() {
    for (lost, resent) in [("Data", MTU as u64), ("Grant", 0)] {
        let first_of = kinds::<Header>(&[lost]);
        let mut net = Net::new(3, &Fitted::default(), Faults { first_of, ..NO_FAULTS }, 1);
        net.submit(0, 1, 150_000);
        net.run(Time::s(1));
        let done = net.app.messages[0].completed.unwrap();
        assert_eq!(net.resent_bytes, resent);
        // A later grant compensates for a lost one.
        let expected = if lost == "Data" { Time::ms(5) } else { Time::ZERO };
        assert!(done > expected && done < expected + Span::us(100), "{done}");
    }
}

#[test]
fn silent_sender_loses_and_regains_its_place() {
    let faults = Faults { egress_outage: Some((0, Time::us(60), Time::ms(90))), ..NO_FAULTS };
    let one = HomaParams { overcommitment: 1, ..HomaParams::default() };
    let mut net = Net::new(3, &fitted(one), faults, 1);
    net.submit(0, 2, 3_000_000);
    net.run(Time::us(70));
    net.submit(1, 2, 20_000_000);
    net.run(Time::ms(30));
    let waits = net.app.messages[1].delivered;
    assert!(waits < 200_000, "{waits} B while the other one has the only place");
    net.run(Time::ms(60));
    assert!(net.app.messages[1].completed.is_some() && net.app.messages[0].completed.is_none());
    net.run(Time::s(1));
    net.assert_all_delivered("after the silence");
}

#[test]
fn endless_message_survives_loss_in_bounded_memory() {
    let params = HomaParams { resend_timeout: Span::ms(1), ..HomaParams::default() };
    trials::endless_message_survives_loss::<Homa>(
        &fitted(params),
        Span::us(3),
        Span::ms(14),
        |host| host.inbox.most_ahead() < MAX_AHEAD,
    );
}

#[test]
fn a_lost_packet_stops_no_message() {
    let params = HomaParams { resend_timeout: Span::ms(20), ..HomaParams::default() };
    trials::lost_packet_stops_no_message::<Homa>(&fitted(params));
}

#[test]
fn grants_stop_where_the_window_of_a_lost_packet_ends() {
    let params = HomaParams { resend_timeout: Span::ms(200), ..HomaParams::default() };
    let ahead = |host: &Homa| host.inbox.most_ahead();
    trials::window_of_a_lost_packet_ends(&fitted(params), MAX_AHEAD, ahead);
}

#[test]
fn messages_beyond_the_lanes_wait_with_few_acks() {
    let mut net = Net::new(2, &Fitted::default(), NO_FAULTS, 1);
    let messages = 2 * MAX_LANES as u64;
    (0..messages).for_each(|_| {
        net.submit(0, 1, 1);
    });
    // One message is stopped while it waits.
    let (_, stopped) = net.submit(0, 1, Message::UNLIMITED);
    net.stop(0, stopped);
    net.run(Time::s(1));
    net.assert_all_delivered("many");
    assert!(net.control() < messages / 4, "{} packets of control", net.control());
}

#[test]
fn short_messages_both_ways_need_no_ack_packets() {
    let mut net = Net::new(2, &Fitted::default(), NO_FAULTS, 1);
    for _ in 0..500 {
        for src in [0, 1] {
            net.submit(src, 1 - src, 100);
        }
        net.run(net.now + Span::us(1));
    }
    net.run(Time::s(1));
    net.assert_all_delivered("both ways");
    assert!(net.control() < 10, "{} packets of control", net.control());
}

#[test]
fn forged_packets_harm_only_their_senders() {
    let params = |seed| fitted(varied(seed));
    trials::forged_packets_harm_only_their_senders::<Homa>(params, 160_000, Time::s(2), |_| None);
}

#[test]
fn handle_is_invalid_after_the_acknowledgement() {
    let [acked_in, going, least] = [2_000, 150, 100].map(Span::us);
    trials::handle_is_invalid_once_acknowledged::<Homa>(acked_in, going, least);
}
