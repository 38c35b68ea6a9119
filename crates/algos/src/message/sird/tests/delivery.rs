//! Every message arrives exactly once, under any network behaviour.

use super::*;
use crate::kit::lanes::MAX_LANES;
use crate::kit::window::MAX_AHEAD;

/// Non-default parameters for some seeds; all signals and policies for each.
fn varied(seed: u64) -> SirdParams {
    let mut params = SirdParams {
        credit_pacing: seed % 5 != 1,
        network_signal: SIGNALS[seed as usize % 3],
        receiver_policy: POLICIES[seed as usize / 3 % 4],
        sender_policy: POLICIES[seed as usize / 12 % 4],
        ..SirdParams::default()
    };
    if seed % 11 == 5 {
        params.rules = Rules::PublishedCode;
    }
    // An unscheduled prefix and the rest with credit; credit for a packet or two at a time.
    if seed % 4 == 2 {
        params.unscheduled_threshold = Extent::Bdp(4.0);
    }
    if seed % 7 == 3 {
        params.budget = Extent::Bytes(0.0);
    }
    if seed % 7 == 4 {
        params.unscheduled_threshold = Extent::Bytes(0.0);
    }
    params
}

#[test]
fn every_message_arrives_once_under_faults() {
    let trial = trials::RandomTrial { most_bytes: 150_000, most_ns: 30_000, until: Time::s(20) };
    let faults = [(0.0, 0.0, 100), (0.01, 0.0, 600), (0.05, 0.02, 600), (0.3, 0.1, 50)];
    let lost = trial.survive::<Sird>(faults, |seed| trials::Variation {
        params: varied(seed),
        // Delays beyond 6 us are congestion if delay is the signal.
        jitter: Span::us(1 + seed % 12),
        congestion: [0.0, 0.1, 0.6][seed as usize / 3 % 3],
        patient: true,
    });
    assert!(lost > 10_000, "only {lost} packets were lost");
}

#[test]
fn hosts_come_and_go_amid_messages() {
    let trial = trials::RandomTrial { most_bytes: 150_000, most_ns: 30_000, until: Time::s(20) };
    let faults = [(0.0, 0.0, 60), (0.01, 0.0, 60), (0.05, 0.02, 60), (0.3, 0.1, 20)];
    trial.survive_session_restarts::<Sird>(&faults, |seed| trials::Variation {
        params: varied(seed),
        jitter: Span::us(1 + seed % 12),
        congestion: [0.0, 0.1, 0.6][seed as usize / 3 % 3],
        patient: true,
    });
}

#[test]
fn credit_of_a_forgotten_sender_passes_to_others() {
    let params = SirdParams::default();
    trials::forgotten_senders_hold_nothing::<Sird>(&params, 600_000, Span::us(70));
}

#[test]
fn messages_waiting_for_a_lane_are_forgotten_too() {
    trials::messages_waiting_for_a_lane_are_forgotten_too::<Sird>();
}

#[test]
fn first_packets_of_any_kind_may_be_lost() {
    // A timeout for each loss, longer from the second consecutive one.
    let bound = |lost: u64| Time::ms((1 << lost) - 1) + Span::us(200);
    let lost = trials::first_packets_of_any_kind_may_be_lost::<Sird>(NO_FAULTS.jitter, bound);
    assert!(lost > 500, "{lost}");
}

#[test]
fn only_what_was_lost_is_sent_again() {
    let faults = Faults { first_of: kinds::<Header>(&["Data"]), ..NO_FAULTS };
    let mut net = Net::new(3, &SirdParams::default(), faults, 1);
    net.submit(0, 1, 150_000);
    net.run(Time::s(1));
    let done = net.app.messages[0].completed.unwrap();
    assert!(done > Time::ms(1) && done < Time::us(1_100), "{done}");
    assert_eq!(net.resent_bytes, MTU as u64);
}

#[test]
fn silent_sender_loses_and_regains_its_credit() {
    let faults = Faults { egress_outage: Some((0, Time::us(60), Time::ms(40))), ..NO_FAULTS };
    let mut net = Net::new(3, &SirdParams::default(), faults, 1);
    net.submit(0, 2, 3_000_000);
    net.run(Time::us(70));
    let stuck = |net: &Net| net.hosts[2].inbox.outstanding;
    assert!(stuck(&net) > 50_000, "{} B of credit", stuck(&net));
    net.run(Time::ms(20));
    assert_eq!(stuck(&net), 0, "credit of a silent sender counts");
    net.submit(1, 2, 20_000_000);
    net.run(Time::ms(22));
    assert!(net.app.messages[1].completed.is_some(), "half of the budget does not suffice");
    net.run(Time::s(1));
    net.assert_all_delivered("after the silence");
}

#[test]
fn forgotten_silent_sender_returns_no_credit() {
    let faults = Faults { egress_outage: Some((0, Time::us(60), Time::NEVER)), ..NO_FAULTS };
    let mut net = Net::new(3, &SirdParams::default(), faults, 1);
    net.submit(0, 2, 3_000_000);
    net.run(Time::ms(20));
    assert!(net.hosts[2].inbox.sources[0].silent);
    net.end_session([0, 2]);
    assert_eq!(net.hosts[2].inbox.outstanding, 0);
}

#[test]
fn endless_message_survives_loss_in_bounded_memory() {
    trials::endless_message_survives_loss::<Sird>(
        &SirdParams::default(),
        Span::us(3),
        Span::ms(16),
        |host| host.inbox.most_ahead() < MAX_AHEAD,
    );
}

#[test]
fn a_lost_packet_stops_no_message() {
    let params = SirdParams { resend_timeout: Span::ms(20), ..SirdParams::default() };
    trials::lost_packet_stops_no_message::<Sird>(&params);
}

#[test]
fn credit_stops_at_the_window_of_a_lost_packet() {
    let params = SirdParams { resend_timeout: Span::ms(200), ..SirdParams::default() };
    let ahead = |host: &Sird| host.inbox.most_ahead();
    trials::window_of_a_lost_packet_ends(&params, MAX_AHEAD, ahead);
}

#[test]
fn more_messages_than_lanes_wait_for_one() {
    let mut net = Net::new(2, &SirdParams::default(), NO_FAULTS, 1);
    (0..2 * MAX_LANES as u64).for_each(|_| {
        net.submit(0, 1, 1);
    });
    net.run(Time::s(1));
    net.assert_all_delivered("many");
}

#[test]
fn forged_packets_harm_only_their_senders() {
    let params = |_| SirdParams::default();
    trials::forged_packets_harm_only_their_senders::<Sird>(params, 60_000, Time::s(1), |_| None);
}

#[test]
fn handle_is_invalid_after_the_acknowledgement() {
    let [acked_in, going, least] = [50, 150, 100].map(Span::us);
    trials::handle_is_invalid_once_acknowledged::<Sird>(acked_in, going, least);
}
