//! Every message arrives exactly once, under any network behaviour.

use super::super::receiver::AHEAD;
use super::*;
use crate::kit::lanes::MAX_LANES;

/// Non-default parameters for some seeds.
fn varied(seed: u64) -> DcpimParams {
    let mut params = DcpimParams {
        rounds: 1 + seed % 5,
        channels: [4, 1, 2, 8][seed as usize % 4],
        ..DcpimParams::default()
    };
    if seed % 7 == 3 {
        params.short_limit = Extent::Bytes(0.0);
    }
    if seed % 7 == 4 {
        params.token_window = Extent::Bytes(0.0);
    }
    if seed % 11 == 5 {
        params.alpha = 2.3;
    }
    params
}

#[test]
fn every_message_arrives_once_under_faults() {
    let trial = trials::RandomTrial { most_bytes: 300_000, most_ns: 60_000, until: Time::s(20) };
    let faults = [(0.0, 0.0, 100), (0.01, 0.0, 300), (0.05, 0.02, 300), (0.3, 0.1, 50)];
    let lost = trial.survive::<Dcpim>(faults, |seed| trials::Variation {
        params: varied(seed),
        jitter: Span::us(1 + seed % 4),
        congestion: 0.0,
        patient: false,
    });
    assert!(lost > 10_000, "only {lost} packets were lost");
}

#[test]
fn hosts_come_and_go_amid_messages() {
    let trial = trials::RandomTrial { most_bytes: 300_000, most_ns: 60_000, until: Time::s(20) };
    let faults = [(0.0, 0.0, 60), (0.01, 0.0, 60), (0.05, 0.02, 60), (0.3, 0.1, 20)];
    trial.survive_session_restarts::<Dcpim>(&faults, |seed| trials::Variation {
        params: varied(seed),
        jitter: Span::us(1 + seed % 4),
        congestion: 0.0,
        patient: false,
    });
}

#[test]
fn messages_waiting_for_a_lane_are_forgotten_too() {
    trials::messages_waiting_for_a_lane_are_forgotten_too::<Dcpim>();
}

#[test]
fn first_packets_of_any_kind_may_be_lost() {
    // A lost notification or acknowledgement costs a timeout of the sender, longer from the second
    // consecutive one; any other loss costs at most an epoch.
    let bound = |lost| Time::ms(3) + Span::us(300) + Span::us(30).times(lost);
    let lost = trials::first_packets_of_any_kind_may_be_lost::<Dcpim>(NO_FAULTS.jitter, bound);
    assert!(lost > 500, "{lost}");
}

#[test]
fn no_retransmission_without_loss() {
    for size in [1, 71_540, 71_541, 1_000_000, 20_000_000] {
        let mut net = Net::new(2, &DcpimParams::default(), NO_FAULTS, 1);
        let (id, _) = net.submit(0, 1, size);
        net.run(Time::ms(100));
        net.assert_all_delivered("alone");
        assert_eq!(net.resent_bytes, 0, "{size} B");
        // A long message waits for two rounds, and the first channel takes a phase for its quota;
        // then the message has the whole link.
        let took = net.app.messages[id as usize].completed.unwrap() - Time::ZERO;
        let wire = PACKET.times(size.div_ceil(MTU as u64));
        let phase = settings().calendar.phase;
        let least = if size > 71_540 { wire } else { Span::ZERO };
        assert!(took > least && took < wire + phase + Span::us(20), "{size} B took {took}");
    }
}

#[test]
fn silent_host_gets_fewer_requests_and_recovers() {
    let outage = Some((0, Time::us(40), Time::ms(900)));
    let faults = Faults { egress_outage: outage, ingress_outage: outage, ..NO_FAULTS };
    let mut net = Net::new(3, &DcpimParams::default(), faults, 1);
    net.submit(0, 1, 3_000_000);
    net.run(Time::ms(10));
    let requested = net.sent("Request");
    net.run(Time::ms(900));
    // About 60 timeouts, each ended by a few rounds, instead of 33,000 epochs.
    assert!(net.sent("Request") - requested < 600, "{} requests", net.sent("Request") - requested);
    // Another sender uses the link meanwhile.
    net.submit(2, 1, 3_000_000);
    net.run(Time::ms(901));
    assert!(net.app.messages[1].completed.is_some());
    net.run(Time::s(2));
    net.assert_all_delivered("after the silence");
}

#[test]
fn a_busy_sender_is_not_taken_for_a_silent_one() {
    // One channel per host: the longer message waits for milliseconds.
    let params = DcpimParams { channels: 1, ..DcpimParams::default() };
    let mut net = Net::new(3, &params, NO_FAULTS, 1);
    net.submit(0, 2, Message::UNLIMITED);
    net.submit(0, 1, Message::UNLIMITED);
    net.run(Time::ms(40));
    assert_eq!(net.hosts[1].inbox.pauses.next(), Time::NEVER);
    assert_eq!(net.hosts[2].inbox.pauses.next(), Time::NEVER);
}

#[test]
fn endless_message_survives_loss_in_bounded_memory() {
    trials::endless_message_survives_loss::<Dcpim>(
        &DcpimParams::default(),
        Span::us(1),
        Span::ms(16),
        |host| host.inbox.most_ahead() <= AHEAD,
    );
}

#[test]
fn endless_messages_of_a_pair_share_equally() {
    let mut net = Net::new(2, &DcpimParams::default(), NO_FAULTS, 1);
    net.submit(0, 1, Message::UNLIMITED);
    net.submit(0, 1, Message::UNLIMITED);
    net.run(Time::ms(1));
    let [a, b] = [0, 1].map(|id: usize| net.app.messages[id].delivered);
    // Apart from differences in path delay of a microsecond.
    assert!(a.abs_diff(b) <= full_packets(16) && a > 4_000_000, "{a} and {b} B");
}

#[test]
fn more_messages_than_lanes_wait_for_one() {
    let mut net = Net::new(2, &DcpimParams::default(), NO_FAULTS, 1);
    (0..2 * MAX_LANES as u64).for_each(|_| {
        net.submit(0, 1, 1);
    });
    net.run(Time::s(1));
    net.assert_all_delivered("many");
    assert_eq!(net.resent_bytes, 0);
}

#[test]
fn forged_packets_harm_only_their_senders() {
    let params = |_| DcpimParams::default();
    // Also valid at that time.
    let epoch = |net: &Net| Some(net.hosts[0].settings.calendar.epoch(net.now));
    trials::forged_packets_harm_only_their_senders(params, 200_000, Time::s(1), epoch);
}

#[test]
fn handle_is_invalid_after_the_acknowledgement() {
    let [acked_in, going, least] = [50, 250, 150].map(Span::us);
    trials::handle_is_invalid_once_acknowledged::<Dcpim>(acked_in, going, least);
}

#[test]
fn host_without_events_for_long_restarts() {
    let mut net = Net::new(2, &DcpimParams::default(), NO_FAULTS, 1);
    net.submit(0, 1, 3_000_000);
    net.run(Time::us(60));
    // An hour later no old match counts, and the missed rounds are not replayed.
    net.lose_all();
    net.now = Time::s(3600);
    net.run(Time::s(3601));
    net.assert_all_delivered("an hour later");
}
