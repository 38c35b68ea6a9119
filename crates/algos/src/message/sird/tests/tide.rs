//! Tests of Tide's control loop of shared links. Everything else is SIRD's.

use super::super::target::{Arrival, Delays, TargetLaw};
use super::*;
use crate::contract::path;
use crate::message::tide::{Rounding, Signal, Tide, TideParams, Update};

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
    TargetLaw::new(&params.target(), 100e3, Rate::gbps(100))
}

/// The next limit, after a packet that was the last outstanding one.
fn next(law: &TargetLaw, delays: &mut Delays, bytes: f64, delay: Span, now: Time) -> f64 {
    law.next(delays, bytes, Arrival { wire: PACKET, delay, outstanding: 0, now }).0
}

/// A limit of `start` bytes after as many round trips, in each of which its packets return with
/// this delay.
fn after(law: &TargetLaw, start: f64, round_trips: usize, delay: Span) -> f64 {
    let (mut bytes, mut delays, mut now) = (start, Delays::default(), Time::us(100));
    for _ in 0..round_trips {
        let packets = (bytes / PACKET).max(1.0) as u64;
        for _ in 0..packets {
            now += Span::ps((BASE_RTT + delay).as_ps() / packets);
            delays.issued(1, 1, now.before(BASE_RTT + delay));
            bytes = next(law, &mut delays, bytes, delay, now);
        }
    }
    bytes
}

/// Rate in Gbit/s of a limit of `bytes`.
fn gbps(bytes: f64, delay: Span) -> f64 {
    bytes * 8e3 / (BASE_RTT + delay).as_ps() as f64
}

#[test]
fn constant_delay_leads_to_the_rate_of_that_target() {
    // T(x) = 12.5 us · ln(400 / x) / ln(4,000) + 1 us.
    for update in [Update::EveryPacket, Update::RoundTrip] {
        let law = law(&TideParams { update, ..TideParams::default() });
        for rate in [10.0, 25.0, 100.0] {
            let target = 12_500.0 * f64::ln(400.0 / rate) / f64::ln(4_000.0) + 1_000.0;
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
            let [one, other] = [60e3, 180e3].map(|start| after(&law, start, round_trips, delay));
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
    // Each of the packets of a round trip changes the limit by ln U of its bytes.
    assert!((down - 1.0 - f64::ln(0.5)).abs() < 1e-9, "{down}");
    assert!((up - 1.0 - f64::ln(2.5)).abs() < 1e-9, "{up}");
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
        grown = next(&power, &mut delays, before, Span::from_ps_f64(waited), now);
        if packet > 900 {
            // (D + τ) · 1.1 − τ, smoothed over τ, in which it grows by 0.11 τ.
            let tau = BASE_RTT.as_ps() as f64;
            let predicted = Span::from_ps_f64(waited + 0.1 * (waited + tau) - 0.11 * tau);
            expected = next(&delay, &mut Delays::default(), before, predicted, now);
            assert!((grown - expected).abs() < 0.5, "{grown} for {expected}");
        }
    }
    assert!(expected < 100e3, "{expected}");
}

/// After a silence of a round trip or more, the growth since the packet before it is no growth.
#[test]
fn power_after_a_silence_is_the_delay() {
    let params = TideParams { signal: Signal::Power, ..TideParams::default() };
    let (power, delay) = (law(&params), law(&TideParams::default()));
    let mut delays = Delays::default();
    next(&power, &mut delays, 100e3, Span::ZERO, Time::us(100));
    let of = |law, delays| next(law, delays, 100e3, Span::us(10), Time::us(200));
    assert_eq!(of(&power, &mut delays), of(&delay, &mut Delays::default()));
}

/// Limit after a packet at `us` that leaves `outstanding` bytes, from 100 KB.
fn limit_at(law: &TargetLaw, delays: &mut Delays, outstanding: i64, us: u64) -> f64 {
    let (delay, now) = (Span::us(2), Time::us(us));
    law.next(delays, 100e3, Arrival { wire: PACKET, delay, outstanding, now }).0
}

#[test]
fn round_trip_is_measured_from_a_credit_to_its_data() {
    let law = law(&TideParams::default());
    let mut delays = Delays::default();
    let at_base_rtt = limit_at(&law, &mut delays, 0, 90);
    // Two packets were outstanding, a third is measured; the fourth is a later one.
    delays.issued(1_540, 3 * 1_540, Time::us(100));
    delays.issued(1_540, 4 * 1_540, Time::us(101));
    for left in [3, 2] {
        assert_eq!(limit_at(&law, &mut delays, left * 1_540, 110), at_base_rtt);
    }
    // Four base RTTs: the rate is a quarter, so the target is higher by p/A · ln 4.
    let slower = limit_at(&law, &mut delays, 1_540, 132);
    let more = 0.1 * f64::ln(4.0) * PACKET;
    assert!((slower - at_base_rtt - more).abs() < 1e-6, "{slower} {at_base_rtt} {more}");
}

#[test]
fn cancelled_credit_measures_no_round_trip() {
    let law = law(&TideParams::default());
    for is_silent in [true, false] {
        let mut delays = Delays::default();
        let at_base_rtt = limit_at(&law, &mut delays, 0, 90);
        delays.issued(1_540, 3 * 1_540, Time::us(100));
        if is_silent {
            delays.cancel();
        }
        // Nothing is left of the old credit when the next is issued after a pause.
        delays.issued(1_540, 1_540, Time::ms(50));
        let after = limit_at(&law, &mut delays, 0, 50_008);
        assert!((after - at_base_rtt).abs() < 1e-6, "{after} {at_base_rtt}");
    }
}

/// With `p` multiplied by the advised factor, a path has no warnings.
#[test]
fn advice_of_a_warning_removes_it() {
    let mut advised = 0;
    for (rate, base_us) in [(10, 5), (10, 100), (25, 34), (100, 8), (100, 40), (400, 30)] {
        let nic_rate = Rate::gbps(rate);
        let base_rtt = Span::us(base_us);
        let bdp_bytes = nic_rate.bytes_in(base_rtt) as f64;
        let path = Path { base_rtt, nic_rate, bottleneck_rate: nic_rate, bdp_bytes, ..path() };
        let warnings = |params: &TideParams| {
            Tide::operating_point(params, &path, nic_rate.as_bps() as f64).domain_warnings
        };
        let factor = |text: &alloc::string::String| {
            let [_, factor] = text.split("multiply p by ").collect::<Vec<_>>()[..] else {
                panic!("{text}")
            };
            factor.parse::<f64>().expect(text)
        };
        let mut params = TideParams::default();
        let before = warnings(&params);
        assert!(before.len() < 2, "{before:?}");
        params.p = params.p.scale(before.first().map_or(1.0, factor));
        assert_eq!(warnings(&params), [""; 0], "{rate} Gbit/s, {base_us} us: {before:?}");
        advised += before.len();
    }
    assert!(advised >= 4, "{advised}");
    let fast = TideParams { m: 2.0, ..TideParams::default() };
    let path = Path { base_rtt: Span::us(50), bdp_bytes: 625_000.0, ..path() };
    let warnings = Tide::operating_point(&fast, &path, 1e8).domain_warnings;
    assert!(warnings[0].ends_with("; multiply p by 2.3; reduce m"), "{warnings:?}");
}

/// Delivers a full packet of message 0 from host 1, which has recorded `delay`.
fn deliver(host: &mut Tide, now: Time, data: Data, delay: Span) {
    let mut body = Body { src: 1, payload_bytes: MTU, ..Body::default() };
    let size = Message::UNLIMITED;
    Header::Data(Data { message: FORGED, size, ..data }).write(&mut body);
    let wire_bytes = MTU as u16 + 82;
    let mut frame = Frame { wire_bytes, peak_hop_delay: delay, ..Frame::default() };
    receive(host, now, &mut frame, &mut body, &mut Checking::default());
}

/// Packets 0 and 1 need no credit.
#[test]
fn only_returned_scheduled_data_delays_credit() {
    let mut host = Tide::new(&TideParams::default(), &context(0));
    let arrivals = [(1, 2, 1), (2, 2, 1), (3, 0, 1), (4, 3, 4), (5, 3, 4), (6, 1, 4)];
    for (us, packet, restarted_us) in arrivals {
        let data = Data { unscheduled: 2, offset: packet * MTU as u64, ..Data::default() };
        deliver(&mut host, Time::us(us), data, Span::ZERO);
        let returned_at = host.inbox.sources[0].bucket.returned_at;
        assert_eq!(returned_at, Time::us(restarted_us), "packet {packet} at {us} us");
    }
}

#[test]
fn retransmission_or_silence_measures_no_round_trip() {
    let round_trip_us = |(retransmission, is_silent)| {
        let mut host = Tide::new(&TideParams::default(), &context(0));
        deliver(&mut host, Time::us(1), Data::default(), Span::ZERO);
        if is_silent {
            host.inbox.silence(&host.settings, 0);
        }
        let data = Data { offset: MTU as u64, retransmission, ..Data::default() };
        deliver(&mut host, Time::us(1_100), data, Span::ZERO);
        let law = host.settings.law.as_ref().unwrap();
        law.round_trip(&host.inbox.sources[0].bucket.delays) / 1e6
    };
    let [original, retransmission, silence] =
        [(false, false), (true, false), (false, true)].map(round_trip_us);
    assert!((original - 1_099.0).abs() < 1.0, "{original} us");
    for invalid in [retransmission, silence] {
        assert!((invalid - 8.0).abs() < 0.1, "{invalid} us, not the base RTT");
    }
}

/// The end of a message of unknown size cancels the credit of packets that it does not have.
#[test]
fn end_of_a_message_measures_no_round_trip() {
    let mut host = Tide::new(&TideParams::default(), &context(0));
    deliver(&mut host, Time::us(1), Data::default(), Span::ZERO);
    let mut body = Body { src: 1, payload_bytes: MTU, ..Body::default() };
    let (size, offset) = (2 * MTU as u64, MTU as u64);
    Header::Data(Data { message: FORGED, size, offset, ..Data::default() }).write(&mut body);
    let mut frame = Frame { wire_bytes: MTU as u16 + 82, ..Frame::default() };
    receive(&mut host, Time::us(1_100), &mut frame, &mut body, &mut Checking::default());
    let bucket = &host.inbox.sources[0].bucket;
    assert_eq!(bucket.outstanding, 0);
    let law = host.settings.law.as_ref().unwrap();
    assert!((law.round_trip(&bucket.delays) / 1e6 - 8.0).abs() < 0.1, "{:?}", bucket.delays);
}

/// Every limit has room between its ends, also if the BDP is less than a packet.
#[test]
fn small_bdp_leaves_a_limit_of_a_packet() {
    for bdp_bytes in [64.0, 800.0] {
        let host = HostContext { bdp_bytes, nic_rate: Rate::mbps(100), ..context(0) };
        let (p, k) = (Span::ns(100), Span::ns(1));
        let params =
            TideParams { p, k, sender_floor: 1.0, network_floor: 1.0, ..TideParams::default() };
        let mut host = Tide::new(&params, &host);
        for packet in 0..3 {
            let data = Data { offset: packet * MTU as u64, ..Data::default() };
            deliver(&mut host, Time::us(packet), data, Span::us(5 * packet));
        }
        assert_eq!(host.inbox.sources[0].bucket.bytes(), host.settings.full as f64);
    }
}

/// An empty path, and the longest queues of two hops.
#[test]
fn limit_has_room_for_the_queues_of_two_hops() {
    let mut host = Tide::new(&TideParams::default(), &context(0));
    for packet in 0..50_000 {
        let data = Data { offset: packet * MTU as u64, ..Data::default() };
        deliver(&mut host, Time::us(packet), data, Span::ZERO);
    }
    let queues = 2.0 * 13.5e-6 * 100e9 / 8.0;
    assert_eq!(host.inbox.sources[0].bucket.bytes(), host.host.bdp_bytes + queues);
}

/// A limit at its lower end grows again, with parameters at their extremes.
#[test]
fn limit_recovers_from_its_lower_end() {
    let (min_md, network_floor) = (0.01, 0.0);
    let params = TideParams { min_md, network_floor, ..TideParams::default() };
    let mut host = Tide::new(&params, &context(0));
    let mut after = |delay: Span, packets: u64| {
        for packet in 0..packets {
            let offset = (packet + host.inbox.order) * MTU as u64;
            let data = Data { offset, ..Data::default() };
            deliver(&mut host, Time::us(packet), data, delay);
        }
        host.inbox.sources[0].bucket.bytes()
    };
    let low = after(Span::ms(1), 100);
    let high = after(Span::ZERO, 1_000);
    assert!(low < 200.0 && high > 100e3, "{low} {high}");
}

#[test]
fn every_message_arrives_once_under_faults() {
    let trial = trials::RandomTrial { most_bytes: 150_000, most_ns: 30_000, until: Time::s(20) };
    let faults = [(0.0, 0.0, 100), (0.01, 0.0, 300), (0.05, 0.02, 300), (0.3, 0.1, 50)];
    let lost = trial.survive::<Tide>(faults, |seed| trials::Variation {
        params: TideParams {
            signal: [Signal::PeakHopDelay, Signal::Power][seed as usize % 2],
            update: [Update::EveryPacket, Update::RoundTrip][seed as usize / 2 % 2],
            rounding: [Rounding::Nearest, Rounding::TimeAverage][seed as usize / 12 % 2],
            jitter: [0.0, 0.25, 1.0][seed as usize % 3],
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
fn forged_packets_harm_only_their_senders() {
    let params = |_| TideParams::default();
    trials::forged_packets_harm_only_their_senders::<Tide>(params, 60_000, Time::s(1), |_| None);
}

#[test]
fn hosts_come_and_go_amid_messages() {
    let trial = trials::RandomTrial { most_bytes: 150_000, most_ns: 30_000, until: Time::s(20) };
    let faults = [(0.0, 0.0, 30), (0.01, 0.0, 30), (0.05, 0.02, 30), (0.3, 0.1, 10)];
    trial.survive_session_restarts::<Tide>(&faults, |seed| trials::Variation {
        params: TideParams {
            rounding: [Rounding::Nearest, Rounding::TimeAverage][seed as usize % 2],
            ..TideParams::default()
        },
        jitter: Span::us(1 + seed % 12),
        congestion: [0.0, 0.1, 0.6][seed as usize / 3 % 3],
        patient: true,
    });
}
