//! Hosts of the toy around one switch.

use super::*;
use crate::harness::{self, Faults, NO_FAULTS, RATE, Subject, trials};

type Net = harness::Net<ToyCredit>;

impl Subject for ToyCredit {
    const COMPLETES_STOPPED: bool = false;
    /// It uses message numbers as an order.
    const REUSES_NUMBERS: bool = false;

    fn context(host: u32) -> HostContext {
        HostContext {
            hosts: 9,
            mtu: 4096,
            fabric_base_rtt: Span::us(5),
            fabric_control_rtt: Span::us(5),
            bdp_bytes: 62_500.0,
            spraying: false,
            priorities: 1,
            ..harness::context(host)
        }
    }

    fn check_quiet(&self, _hosts: &[ToyCredit], case: &str) {
        assert_eq!((self.incoming.len(), self.outgoing.len()), (0, 0), "{case}");
    }
}

/// Hosts on one switch, where every packet may be duplicated after this time.
fn star(hosts: u32, echo: Option<Span>) -> Net {
    let faults = Faults { jitter: Span::ZERO, echo, ..NO_FAULTS };
    Net::new(hosts, &ToyCreditParams::default(), faults, 1).through_a_switch()
}

#[test]
fn incast_fills_the_link_and_hardly_any_queue() {
    let mut star = star(9, None);
    for src in 1..9 {
        star.submit(src, 0, 1_000_000);
        assert_eq!(star.hosts[src as usize].backlog_bytes(), 1_000_000);
    }
    star.run(Time::ms(2));
    star.assert_all_delivered("incast");
    let ideal = RATE.serialise(8 * (1_000_000 + 245 * 80));
    let last = star.app.messages.iter().map(|message| message.completed.unwrap()).max().unwrap();
    assert!(last < Time::ZERO + ideal.scale(1.03), "{last} against {ideal}");
    assert!(star.longest_wait < Span::us(1), "{}", star.longest_wait);
}

/// Size of the message of that number, among many.
fn size(number: u32) -> u64 {
    [1, 4096, 4097, 70_000][number as usize % 4]
}

#[test]
fn one_byte_and_many_messages_in_both_directions() {
    let mut star = star(3, None);
    for number in 0..600 {
        star.submit(number % 3, (number + 1 + number / 300) % 3, size(number));
    }
    star.run(Time::ms(5));
    star.assert_all_delivered("many");
}

#[test]
fn duplicates_change_nothing() {
    for echo in [1, 9, 40, 300].map(Span::us) {
        let mut star = star(3, Some(echo));
        for number in 0..600 {
            star.submit(number % 3, (number + 1) % 3, size(number));
            star.run(Time::us(10 * number as u64));
        }
        star.run(Time::ms(20));
        star.assert_all_delivered("echoes");
    }
}

#[test]
fn hosts_come_and_go_amid_messages() {
    let trial = trials::RandomTrial { most_bytes: 150_000, most_ns: 30_000, until: Time::ms(20) };
    trial.survive_session_restarts::<ToyCredit>(&[(0.0, 0.0, 60), (0.0, 0.1, 60)], |seed| {
        let params = ToyCreditParams { window: Extent::Bdp((1 + seed % 3) as f64 / 2.0) };
        let jitter = Span::us(seed % 5);
        trials::Variation { params, jitter, congestion: 0.0, patient: true }
    });
}

#[test]
fn a_peer_that_is_forgotten_leaves_nothing() {
    for host in trials::forgetting_leaves_nothing::<ToyCredit>(&ToyCreditParams::default()) {
        assert!(host.youngest.is_empty() && host.creditable.is_empty());
    }
}

#[test]
fn unlimited_messages_share_a_receiver_and_stop() {
    let mut star = star(3, None);
    let [(_, first), _] = [1, 2].map(|src| star.submit(src, 0, Message::UNLIMITED));
    let delivered = |star: &Net| [0, 1].map(|number: usize| star.app.messages[number].delivered);
    star.run(Time::us(500));
    let [a, b] = delivered(&star);
    assert!(a.abs_diff(b) <= 2 * 4096, "{a} and {b}");
    assert!((a + b) as f64 > 0.93 * RATE.bytes_in(Span::us(500)) as f64);
    star.stop(1, first);
    star.run(Time::us(600));
    let [stopped, _] = delivered(&star);
    star.run(Time::us(1000));
    let [still, other] = delivered(&star);
    assert_eq!(still, stopped);
    assert!(other - b > RATE.bytes_in(Span::us(400)) * 9 / 10);
    let none_completed = star.app.messages.iter().all(|message| message.completed.is_none());
    assert!(none_completed && star.hosts[1].backlog_bytes() == 0);
}

#[test]
fn handle_is_invalid_after_the_acknowledgement() {
    let mut star = star(2, None);
    let (_, old) = star.submit(1, 0, 1_000);
    star.run(Time::us(50));
    assert!(star.app.messages[0].acked.is_some());
    // In the same slot, and of unknown size.
    let (id, new) = star.submit(1, 0, Message::UNLIMITED);
    assert_ne!(old, new);
    let delivered = |star: &Net| star.app.messages[id as usize].delivered;
    star.stop(1, old);
    star.run(Time::us(300));
    assert!(delivered(&star) > RATE.bytes_in(Span::us(200)), "{} B", delivered(&star));
    star.stop(1, new);
    star.run(Time::us(400));
    let stopped_at = delivered(&star);
    star.run(Time::us(800));
    assert_eq!(delivered(&star), stopped_at);
}
