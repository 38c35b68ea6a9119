//! Tests of Tide's control loop of shared links. Everything else is SIRD's.

use super::super::target::{Delays, TargetLaw};
use super::*;
use crate::message::tide::{Signal, Tide, TideParams, Update};

impl Subject for Tide {
    fn context(host: u32) -> HostContext {
        context(host)
    }

    fn check_packet(frame: &Frame, _header: &Header, payload_bytes: u32) {
        let expected = if payload_bytes > 0 { (payload_bytes + 82).max(84) } else { 84 };
        assert_eq!(frame.wire_bytes as u32, expected, "{payload_bytes} B of payload");
    }

    fn check_quiet(&self, hosts: &[Tide], case: &str) {
        assert_quiet(self, hosts, case);
    }
}

const PACKET: f64 = 1_540.0;
const BASE_RTT: Span = Span::us(8);

fn law(params: &TideParams) -> TargetLaw {
    TargetLaw::new(&params.target(), BASE_RTT)
}

/// A limit of `start` bytes after as many round trips, in each of which its packets return with
/// this delay.
fn after(law: &TargetLaw, start: f64, round_trips: usize, delay: Span) -> f64 {
    let (mut bytes, mut delays, mut now) = (start, Delays::default(), Time::us(100));
    for _ in 0..round_trips {
        let packets = (bytes / PACKET).max(1.0) as u64;
        for _ in 0..packets {
            now += Span::ps((BASE_RTT + delay).as_ps() / packets);
            delays.issued(bytes as i64, now.before(BASE_RTT + delay));
            delays.returned(bytes as i64, now);
            bytes = law.next(&mut delays, bytes, PACKET, delay, now);
        }
    }
    bytes
}

/// Rate in Gbit/s of a limit of `bytes`.
fn gbps(bytes: f64, delay: Span) -> f64 {
    bytes * 8e3 / (BASE_RTT + delay).as_ps() as f64
}

#[test]
fn constant_delay_leads_to_the_rate_whose_target_it_is() {
    // T(x) = 9 us · ln(400 / x) / ln(400) + 1 us.
    for update in [Update::EveryPacket, Update::RoundTrip] {
        let law = law(&TideParams { update, ..TideParams::default() });
        for rate in [10.0, 25.0, 100.0] {
            let target = 9_000.0 * f64::ln(400.0 / rate) / f64::ln(400.0) + 1_000.0;
            let delay = Span::ns(target as u64);
            for start in [20e3, 400e3] {
                let reached = gbps(after(&law, start, 200, delay), delay);
                assert!((reached / rate - 1.0).abs() < 0.02, "{update:?}: {reached} for {rate}");
            }
        }
    }
}

#[test]
fn ratio_of_limits_shrinks_by_m_in_a_round_trip() {
    for m in [0.05, 0.1, 0.25] {
        let law = law(&TideParams { m, ..TideParams::default() });
        let delay = Span::us(5);
        let ratio = |round_trips| {
            let [one, other] =
                [60e3, 180e3].map(|start| after(&law, start, round_trips, delay));
            (other / one).ln()
        };
        let rate = (ratio(4) / ratio(12)).ln() / 8.0;
        assert!((rate / m - 1.0).abs() < 0.1, "{rate} for {m}");
    }
}

#[test]
fn one_round_trip_changes_a_limit_within_the_bounds() {
    let law = law(&TideParams { m: 2.0, ..TideParams::default() });
    let down = after(&law, 100.0 * PACKET, 1, Span::us(90)) / (100.0 * PACKET);
    let up = after(&law, 10.0 * PACKET, 1, Span::ZERO) / (10.0 * PACKET);
    assert!((0.3..0.55).contains(&down), "{down}");
    assert!((1.5..2.5).contains(&up), "{up}");
}

/// The delay grows by a tenth of the time that passes: in a round trip, it is longer by a tenth of
/// the round trip.
#[test]
fn power_is_the_delay_in_one_round_trip() {
    let params = TideParams { signal: Signal::Power, ..TideParams::default() };
    let (power, delay) = (law(&params), law(&TideParams::default()));
    let (mut grown, mut expected) = (100e3, 100e3);
    let mut delays = Delays::default();
    for packet in 0..1_000 {
        let now = Time::us(100) + Span::ns(100 * packet);
        let waited = 1e6 + 1e4 * packet as f64;
        let before = grown;
        grown = power.next(&mut delays, before, PACKET, Span::from_ps_f64(waited), now);
        if packet > 900 {
            // (D + τ) · 1.1 − τ, smoothed over τ, in which it grows by 0.11 τ.
            let tau = BASE_RTT.as_ps() as f64;
            let predicted = Span::from_ps_f64(waited + 0.1 * (waited + tau) - 0.11 * tau);
            expected = delay.next(&mut Delays::default(), before, PACKET, predicted, now);
            assert!((grown - expected).abs() < 0.5, "{grown} for {expected}");
        }
    }
    assert!(expected < 100e3, "{expected}");
}

#[test]
fn round_trip_is_measured_from_a_credit_to_its_data() {
    let law = law(&TideParams::default());
    let mut delays = Delays::default();
    let step = |delays: &mut Delays| law.next(delays, 100e3, PACKET, Span::us(2), Time::us(200));
    let at_base_rtt = step(&mut delays);
    // Three packets are outstanding; the second credit is not measured.
    delays.issued(3 * 1_540, Time::us(100));
    delays.issued(4 * 1_540, Time::us(101));
    (0..2).for_each(|_| delays.returned(1_540, Time::us(110)));
    assert_eq!(step(&mut delays), at_base_rtt);
    delays.returned(1_540, Time::us(132));
    // Four base RTTs: the rate is a quarter, so the target is higher.
    let slower = step(&mut delays);
    let slope = 9e6 / f64::ln(400.0);
    let more = 0.1 / slope * slope * f64::ln(4.0) * PACKET;
    assert!((slower - at_base_rtt - more).abs() < 1e-6, "{slower} {at_base_rtt} {more}");
}

#[test]
fn every_message_arrives_once_under_faults() {
    let chaos = trials::Chaos { most_bytes: 150_000, most_ns: 30_000, until: Time::s(20) };
    let faults = [(0.0, 0.0, 100), (0.01, 0.0, 300), (0.05, 0.02, 300), (0.3, 0.1, 50)];
    let lost = chaos.survive::<Tide>(faults, |seed| trials::Variation {
        params: TideParams {
            signal: [Signal::PeakHopDelay, Signal::Power][seed as usize % 2],
            update: [Update::EveryPacket, Update::RoundTrip][seed as usize / 2 % 2],
            m: [0.001, 0.1, 2.0][seed as usize / 4 % 3],
            ..TideParams::default()
        },
        jitter: Span::us(1 + seed % 12),
        congestion: [0.0, 0.1, 0.6][seed as usize / 3 % 3],
        patient: true,
    });
    assert!(lost > 5_000, "only {lost} packets were lost");
}

#[test]
fn hosts_come_and_go_amid_messages() {
    let chaos = trials::Chaos { most_bytes: 150_000, most_ns: 30_000, until: Time::s(20) };
    let faults = [(0.0, 0.0, 30), (0.01, 0.0, 30), (0.05, 0.02, 30), (0.3, 0.1, 10)];
    chaos.survive_coming_and_going::<Tide>(&faults, |seed| trials::Variation {
        params: TideParams::default(),
        jitter: Span::us(1 + seed % 12),
        congestion: [0.0, 0.1, 0.6][seed as usize / 3 % 3],
        patient: true,
    });
}
