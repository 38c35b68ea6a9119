//! The contract of catalog entries. `catalog!` makes a test module of each congestion control from
//! `congestion_control!`, as below for the example of the documents; transports are tested in the
//! harness and by their drivers.

use alloc::string::String;
use alloc::vec::Vec;

use tidegate_core::params::{Bounds, Kind, Params, SetError, Sizes, Value};

use crate::windowed::ConnectionParams;
use tidegate_core::{
    Ack, CongestionControl, Domain, Extent, FabricProperties, Hop, Limit, Loss, LossKind, MAX_HOPS,
    Path, ProtocolInfo, Rate, Rng, Span, Telemetry, Time, Trim,
};

use crate::Protocol;
use crate::documented::gentle::Gentle;

/// The contract tests of one congestion control.
macro_rules! congestion_control {
    ($type:ty) => {
        #[test]
        fn state_is_small() {
            const { assert!(core::mem::size_of::<$type>() <= $crate::contract::STATE_BYTES) }
        }
        #[test]
        fn starts_with_a_usable_limit() {
            $crate::contract::starts_with_a_usable_limit::<$type>();
        }
        #[test]
        fn limit_stays_usable_whatever_happens() {
            $crate::contract::limit_stays_usable_whatever_happens::<$type>();
        }
        #[test]
        fn does_not_grow_unless_it_limited_sending() {
            $crate::contract::does_not_grow_unless_it_limited_sending::<$type>();
        }
        #[test]
        fn same_events_give_same_limits() {
            $crate::contract::same_events_give_same_limits::<$type>();
        }
        #[test]
        fn extremes_of_every_parameter_are_usable() {
            $crate::contract::extremes_of_every_parameter_are_usable::<$type>();
        }
    };
}
pub(crate) use congestion_control;

mod of_the_documented_example {
    super::congestion_control!(crate::documented::gentle::Gentle);
}

/// Two cache lines: every acknowledgement accesses the state of a connection.
pub(crate) const STATE_BYTES: usize = 128;

/// Three switches, 100 Gbit/s, 4,096-byte packets.
pub(crate) fn path() -> Path {
    Path {
        base_rtt: Span::us(6),
        fabric_base_rtt: Span::us(8),
        nic_rate: Rate::gbps(100),
        bottleneck_rate: Rate::gbps(100),
        bdp_bytes: 100_000.0,
        mtu: 4096,
        full_wire_bytes: 4200,
        hops: 3,
    }
}

/// A slow fabric of one switch.
pub(crate) fn properties() -> FabricProperties {
    FabricProperties {
        bdp_bytes: 10_000.0,
        base_rtt: Span::us(8),
        host_rate: Rate::gbps(10),
        slowest: Rate::gbps(10),
        fastest: Rate::gbps(40),
        mtu: 1000,
        hops: 1,
        ports: 1,
    }
}

/// An acknowledgement of one full packet on that path, without congestion, for a flow that has more
/// to send.
pub(crate) fn ack(now: Time) -> Ack<'static> {
    Ack {
        now,
        rtt: Span::us(6),
        acked_packets: 1,
        acked_bytes: 4200,
        in_flight_bytes: 100_000,
        seq: 0,
        next_seq: 24,
        marked: false,
        circuit: false,
        window_limited: true,
        peak_hop_delay: Span::ZERO,
        reverse_peak_hop_delay: Span::ZERO,
        hops: &[],
    }
}

/// An event of a connection.
#[derive(Clone, Debug)]
enum Event {
    Ack(Ack<'static>, Vec<Hop>),
    Loss(Loss),
    Trim(Trim),
    Timer(Time),
    Sent(Time, u32),
    Restart(Time),
    Resume(Time),
}

/// Plausible, implausible and absurd events in random order; some at equal times.
fn events(seed: u64, count: usize) -> Vec<Event> {
    let mut rng = Rng::stream(seed, Domain::Faults, 1);
    let (mut now, mut seq, mut tx_bytes) = (Time::ZERO, 0, 0);
    let span = |rng: &mut Rng| match rng.below(8) {
        0 => Span::ZERO,
        1 => Span::s(100),
        2 => Span::ps(1),
        _ => Span::ns(rng.below(100_000)),
    };
    (0..count)
        .map(|_| {
            now += [Span::ZERO, Span::ps(1), Span::ns(84), Span::us(7), Span::ms(3)]
                [rng.below(5) as usize];
            let rtt = span(&mut rng);
            match rng.below(20) {
                0 => Event::Loss(Loss { now, kind: LossKind::Recovery, rtt, next_seq: seq }),
                1 => Event::Loss(Loss { now, kind: LossKind::Timeout, rtt, next_seq: seq }),
                2 => Event::Timer(now),
                3 => Event::Sent(now, 84 + rng.below(9000) as u32),
                4 => Event::Restart(now),
                5 => Event::Resume(now),
                6 => Event::Trim(Trim {
                    now,
                    rtt: (rng.below(4) > 0).then_some(rtt),
                    bytes: rng.below(10_000),
                    in_flight_bytes: rng.below(1_000_000),
                    at_scheduled_link: rng.below(2) == 0,
                }),
                _ => {
                    let acked = [0, 1, 1, 1, 2, 300][rng.below(6) as usize];
                    seq += acked;
                    let next_seq = seq + rng.below(30);
                    tx_bytes += rng.below(10_000);
                    let hops = (0..rng.below(MAX_HOPS as u64 + 1))
                        .map(|port| Hop {
                            // Sometimes out of order, as after a path change.
                            at: now.before(Span::ns(rng.below(3))),
                            tx_bytes,
                            rate: [Rate::gbps(100), Rate::gbps(25)][rng.below(2) as usize],
                            queue_bytes: [0, 0, 4200, 1_000_000, u32::MAX][rng.below(5) as usize],
                            port: port as u32 + rng.below(2) as u32,
                        })
                        .collect();
                    let ack = Ack {
                        rtt,
                        acked_packets: acked as u32,
                        acked_bytes: acked * 4200,
                        in_flight_bytes: rng.below(1_000_000),
                        seq,
                        next_seq,
                        marked: rng.below(3) == 0,
                        circuit: rng.below(4) == 0,
                        window_limited: rng.below(4) != 0,
                        peak_hop_delay: span(&mut rng),
                        reverse_peak_hop_delay: span(&mut rng),
                        ..ack(now)
                    };
                    Event::Ack(ack, hops)
                }
            }
        })
        .collect()
}

fn apply<C: CongestionControl>(cc: &mut C, params: &C::Params, event: &Event) -> Limit {
    match event {
        Event::Ack(ack, hops) => cc.on_ack(params, &Ack { hops, ..*ack }),
        Event::Loss(loss) => cc.on_loss(params, loss),
        Event::Trim(trim) => cc.on_trim(params, trim),
        Event::Timer(now) => cc.on_timer(params, *now),
        Event::Sent(now, wire_bytes) => {
            cc.on_sent(params, *now, *wire_bytes);
        }
        Event::Resume(now) => cc.on_resume(params, *now),
        Event::Restart(now) => *cc = C::start(params, &path(), *now, 3),
    }
    cc.limit(params)
}

/// Infinity means no limit; everything else must be a number above zero.
fn is_usable(limit: &Limit) -> bool {
    limit.window_bytes > 0.0 && limit.pace_bps > 0.0
}

// ---- for the tests of single controls

/// Bytes that the 100 Gbit/s link sends in the fabric's base RTT of 8 µs.
pub(crate) const PIPE: f64 = 100_000.0;

pub(crate) fn hop(at_ns: u64, tx_bytes: u64, queue_bytes: u32) -> Hop {
    Hop { at: Time::ns(at_ns), tx_bytes, rate: Rate::gbps(100), queue_bytes, port: 7 }
}

/// An acknowledgement 20 packets before the next new one, which leaves at its arrival.
pub(crate) fn ack_of(seq: u64) -> Ack<'static> {
    let now = Time::us(10).after(Span::ns(300 * seq));
    Ack { seq, next_seq: seq + 20, ..ack(now) }
}

/// The same with these records.
pub(crate) fn on_hops<C: CongestionControl>(
    flow: &mut C,
    params: &C::Params,
    seq: u64,
    hops: &[Hop],
) {
    flow.on_ack(params, &Ack { hops, ..ack_of(seq) });
}

#[track_caller]
pub(crate) fn assert_near(ours: f64, expected: f64, tolerance: f64) {
    assert!((ours - expected).abs() <= tolerance, "{ours} is not {expected}");
}

// ---- for all controls

pub(crate) fn starts_with_a_usable_limit<C: CongestionControl>() {
    let params = C::Params::default();
    let limit = C::start(&params, &path(), Time::us(3), 1).limit(&params);
    assert!(is_usable(&limit), "{limit:?}");
    assert!(
        limit.window_bytes.is_finite() || limit.pace_bps.is_finite(),
        "a new connection would send without limit"
    );
}

pub(crate) fn limit_stays_usable_whatever_happens<C: CongestionControl>() {
    let params = C::Params::default();
    for seed in 0..4 {
        let mut cc = C::start(&params, &path(), Time::ZERO, seed);
        let windowed = cc.limit(&params).window_bytes.is_finite();
        for event in events(seed, 10_000) {
            let limit = apply(&mut cc, &params, &event);
            assert!(is_usable(&limit), "{limit:?} after {event:?}, seed {seed}: {cc:?}");
            assert_eq!(
                limit.window_bytes.is_finite(),
                windowed,
                "after {event:?}, seed {seed}: {cc:?}"
            );
        }
    }
}

pub(crate) fn does_not_grow_unless_it_limited_sending<C: CongestionControl>() {
    let params = C::Params::default();
    let mut cc = C::start(&params, &path(), Time::ZERO, 1);
    let before = cc.limit(&params).window_bytes;
    if before.is_infinite() {
        return;
    }
    for i in 0..1000 {
        let at = Time::us(6) + Span::ns(336 * i);
        let hop = Hop { at, tx_bytes: 1000 * i, rate: Rate::gbps(100), queue_bytes: 0, port: 1 };
        let seq = i;
        cc.on_ack(
            &params,
            &Ack { seq, next_seq: seq + 18, window_limited: false, hops: &[hop], ..ack(at) },
        );
        let after = cc.limit(&params).window_bytes;
        assert!(after <= before, "grew from {before} to {after} at ack {i}");
    }
}

pub(crate) fn same_events_give_same_limits<C: CongestionControl>() {
    let params = C::Params::default();
    let mut cc = C::start(&params, &path(), Time::ZERO, 9);
    let events = events(9, 2000);
    let (first, second) = events.split_at(1000);
    for event in first {
        apply(&mut cc, &params, event);
    }
    let mut copy = cc.clone();
    for event in second {
        assert_eq!(
            apply(&mut cc, &params, event),
            apply(&mut copy, &params, event),
            "after {event:?}"
        );
    }
    let mut again = C::start(&params, &path(), Time::ZERO, 9);
    let replayed = events.iter().map(|event| apply(&mut again, &params, event)).last();
    assert_eq!(replayed, Some(cc.limit(&params)));
}

/// Signals that packets request from switches are fixed when a host is created, without knowledge
/// of the fabric; and fields that switches write take room in the packet.
#[test]
fn packet_signals_are_the_same_in_every_fabric() {
    let slow = properties();
    let fast =
        FabricProperties { bdp_bytes: 1e6, fastest: Rate::gbps(800), mtu: 4096, hops: 5, ..slow };
    for protocol in Protocol::ALL {
        let [a, b] = [slow, fast].map(|properties| protocol.stack().requirements(&properties));
        assert_eq!((a.ecn.is_some(), a.telemetry), (b.ecn.is_some(), b.telemetry), "{protocol:?}");
        for ecn in [(a, slow), (b, fast)].map(|(wants, properties)| Some((wants.ecn?, properties)))
        {
            let Some((marking, properties)) = ecn else { continue };
            let ecn = marking.resolved(properties.bdp_bytes);
            assert!(ecn.min_bytes <= ecn.max_bytes && ecn.max_bytes.is_finite(), "{protocol:?}");
            assert!((0.0..=1.0).contains(&marking.pmax), "{protocol:?}");
        }
        assert_eq!(
            a.telemetry != Telemetry::NONE,
            protocol.info().telemetry(1) > 0,
            "{protocol:?}"
        );
    }
}

pub(crate) fn extremes_of_every_parameter_are_usable<C: CongestionControl>() {
    let shared = ConnectionParams::table();
    for info in C::Params::table() {
        assert!(
            shared.iter().all(|other| other.name != info.name),
            "{} is a parameter of connections",
            info.name
        );
        for value in settings(&info.kind, info.range) {
            let mut params = C::Params::default();
            params
                .set(info.name, value)
                .unwrap_or_else(|error| panic!("{} = {value}: {error:?}", info.name));
            let mut cc = C::start(&params, &path(), Time::ZERO, 5);
            for event in events(5, 1000) {
                let limit = apply(&mut cc, &params, &event);
                assert!(
                    is_usable(&limit),
                    "{} = {value}: {limit:?} after {event:?}: {cc:?}",
                    info.name
                );
            }
            let operating_point = C::operating_point(&params, &path(), 1e9);
            for warning in operating_point.domain_warnings {
                assert!(!warning.is_empty() && !warning.contains("NaN"), "{warning:?}");
            }
        }
    }
}

/// The ends of a range, or all values.
fn settings(kind: &Kind, range: Option<Bounds>) -> Vec<Value> {
    match (kind, range) {
        (_, Some(Bounds { min, max })) => [min, max].into(),
        (Kind::Flag, _) => [Value::Flag(false), Value::Flag(true)].into(),
        (Kind::Choice(names), _) => names.iter().map(|name| Value::Choice(name)).collect(),
        (Kind::Sizes, _) => Sizes::of(&[1, 2_000]).map(Value::Sizes).into_iter().collect(),
        _ => Vec::new(),
    }
}

fn is_kebab_case(name: &str) -> bool {
    name.starts_with(|c: char| c.is_ascii_lowercase())
        && name.split('-').all(|word| {
            !word.is_empty() && word.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit())
        })
}

fn is_snake_case(name: &str) -> bool {
    name.starts_with(|c: char| c.is_ascii_lowercase())
        && name.chars().all(|c| c == '_' || c.is_ascii_lowercase() || c.is_ascii_digit())
}

/// Protocol information of the catalog, and of the example in the documents, which may join it.
fn infos() -> impl Iterator<Item = &'static ProtocolInfo> {
    let example = &<Gentle as CongestionControl>::INFO;
    Protocol::ALL.iter().map(|protocol| protocol.info()).chain([example])
}

#[test]
fn protocol_info_is_complete() {
    for protocol in Protocol::ALL {
        assert_eq!(Protocol::named(protocol.info().name), Some(*protocol));
    }
    for info in infos() {
        assert!(is_kebab_case(info.name), "{}", info.name);
        assert!(
            !info.title.is_empty() && info.citation.len() > 20 && info.summary.ends_with('.'),
            "{info:?}"
        );
        assert!(!info.summary.contains('\n'), "{info:?}");
        let digits = info.color.strip_prefix('#').unwrap_or_default();
        assert!(
            digits.len() == 6 && digits.chars().all(|c| matches!(c, '0'..='9' | 'a'..='f')),
            "{info:?}"
        );
        assert!(
            info.telemetry(MAX_HOPS as u32) < 256 && info.echo(MAX_HOPS as u32) < 256,
            "{info:?}"
        );
    }
}

#[test]
fn protocol_infos_are_distinct() {
    let infos: Vec<&ProtocolInfo> = infos().collect();
    for (i, a) in infos.iter().enumerate() {
        for b in &infos[..i] {
            assert!(
                a.name != b.name && a.title != b.title && a.color != b.color,
                "{} and {}",
                a.name,
                b.name
            );
            // Distinct in grey, too.
            assert!((a.marker, a.dash) != (b.marker, b.dash), "{} and {}", a.name, b.name);
        }
    }
}

#[test]
fn every_parameter_is_documented_and_in_range() {
    for protocol in Protocol::ALL {
        let mut names: Vec<&str> = Vec::new();
        for info in protocol.table() {
            let at = alloc::format!("{}.{}", protocol.info().name, info.name);
            assert!(is_snake_case(info.name) && !names.contains(&info.name), "{at}");
            names.push(info.name);
            assert!(info.meaning().ends_with('.') && !info.source.is_empty(), "{at}");
            let ordered = !matches!(info.kind, Kind::Flag | Kind::Choice(_) | Kind::Sizes);
            assert_eq!(info.range.is_some(), ordered, "{at}");
            let mut stack = protocol.stack();
            assert_eq!(
                stack.set(info.name, info.default),
                Ok(()),
                "{at}: the default is out of range"
            );
            assert_eq!(stack, protocol.stack(), "{at}");
        }
        let later = protocol.table().iter().filter(|info| info.later).count();
        assert_eq!(protocol.stack().values().len(), names.len() - later);
        assert_eq!(protocol.stack().conflict(), None);
    }
}

#[test]
fn every_parameter_can_be_set_and_read() {
    for protocol in Protocol::ALL {
        for info in protocol.table() {
            let at = alloc::format!("{}.{}", protocol.info().name, info.name);
            for value in settings(&info.kind, info.range) {
                let mut stack = protocol.stack();
                assert_eq!(stack.set(info.name, value), Ok(()), "{at} = {value}");
                let read = stack.values().into_iter().find(|(name, _)| *name == info.name);
                let omitted = info.later && value == info.default;
                assert_eq!(read, (!omitted).then_some((info.name, value)), "{at}");
            }
            let mut stack = protocol.stack();
            assert!(
                matches!(
                    stack.set(info.name, wrong_kind(&info.kind)),
                    Err(SetError::Kind(_) | SetError::Range(..))
                ),
                "{at}"
            );
        }
        let mut stack = protocol.stack();
        assert_eq!(
            stack.set(&String::from("no_such_parameter"), Value::Flag(true)),
            Err(SetError::Unknown)
        );
    }
}

fn wrong_kind(kind: &Kind) -> Value {
    match kind {
        Kind::Flag => Value::Extent(Extent::Bdp(1.0)),
        _ => Value::Flag(true),
    }
}
