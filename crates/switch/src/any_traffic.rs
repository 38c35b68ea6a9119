//! Robustness of switches against arbitrary datagrams at arbitrary times.

use std::net::{Ipv4Addr, SocketAddrV4};

use tidegate_core::fabric::{
    Buffer, CreditQueue, Fabric, Link, Node, Routing, Stamping, Switch, TelemetryResolution,
    TrimVictim, Trimming,
};
use tidegate_core::wire::{forwarding, telemetry};
use tidegate_core::{
    Extent, Frame, Hop, HopTrace, MIN_WIRE_BYTES, Marking, Rate, Span, Time, frame_flag,
};

use crate::datagram::{Content, MOST_BYTES, WIRE_OVERHEAD_BYTES, is_trimmed};
use crate::pipeline::Pipeline;
use crate::slots::Route;
use crate::{Config, Places};

const HOSTS: u32 = 4;
/// Length of a step of a script in bytes.
const STEP: usize = 8;
const ECN: u8 = 0b11;

const TRIMMING: Trimming = Trimming {
    data_bytes: 3_000,
    header_queue_bytes: 2_000,
    trimmed_bytes: 192,
    victim: TrimVictim::Random,
    per: None,
    return_to_sender: false,
    header_weight: None,
};

/// Two racks of two hosts with two spines; the bits of `choice` select functions of the switches.
pub(crate) fn config(choice: u8) -> Config {
    let is = |bit: u8| choice >> bit & 1 == 1;
    let credit_queue = CreditQueue { share: 0.05, bytes: 1_000, burst_bytes: 200 };
    let switch = |number: u32| Switch {
        name: format!("s{number}"),
        latency: Span::ns(300),
        telemetry: match (number, is(0)) {
            (0, _) => Stamping::All,
            (1, true) => Stamping::Core,
            (_, true) => Stamping::All,
            (_, false) => Stamping::Off,
        },
        telemetry_resolution: match number {
            0 => TelemetryResolution { quantum: Span::ns(500), period: Span::us(50) },
            _ => TelemetryResolution::EXACT,
        },
        buffer: match is(1) {
            true => Buffer::Shared { bytes: 20_000, alpha: 1.0 },
            false => Buffer::Unlimited,
        },
        ecn: is(2).then(|| Marking::step(Extent::Bytes(3_000.0)).resolved(0.0)),
        priorities: if is(3) { 8 } else { 2 },
        pausing: None,
        credit_queue: is(4).then_some(credit_queue),
        trimming: (is(3) && !is(4)).then_some(TRIMMING),
    };
    let link = |a, b| Link { a, b, rate: Rate::mbps(100), delay: Span::us(1) };
    let down = (0..HOSTS).map(|host| link(Node::Host(host), Node::Switch(host / 2)));
    let up = [0, 1]
        .into_iter()
        .flat_map(|rack| [2, 3].map(|spine| link(Node::Switch(rack), Node::Switch(spine))));
    let address = |host: u32| SocketAddrV4::new(Ipv4Addr::LOCALHOST, 9_000 + host as u16);
    Config {
        fabric: Fabric {
            hosts: (0..HOSTS).map(|host| format!("h{host}")).collect(),
            switches: (0..4).map(switch).collect(),
            links: down.chain(up).collect(),
            mtu: 1_000,
            ..Fabric::default()
        },
        routing: if is(5) { Routing::Spray } else { Routing::Ecmp },
        places: Places::Addresses {
            hosts: (0..HOSTS).map(|host| vec![address(host)]).collect(),
            listen: address(100),
        },
        uplinks: is(6),
        sized: is(7),
        clock: None,
        seed: 1,
    }
}

/// A datagram on arrival.
struct ArrivedDatagram {
    at: Time,
    route: Route,
    tos: u8,
    payload: Vec<u8>,
}

/// Sends datagrams through switches by a script: arbitrary bytes, all kinds of telemetry, complete,
/// damaged and truncated, with arbitrary lengths and times.
///
/// # Panics If the switches panic, lose a datagram without counting it, keep one, trim one that
/// must not be trimmed, or change anything else but marks and values of telemetry.
pub fn any_traffic(script: &[u8]) {
    let Some((&choice, script)) = script.split_first() else { return };
    let mut pipeline = match Pipeline::new(&config(choice)) {
        Ok(pipeline) => pipeline,
        Err(why) => panic!("{why}"),
    };
    let sized = config(choice).sized;
    let (mut now, mut arrivals, mut left) = (Time::ZERO, Vec::new(), 0);
    let (steps, _) = script.as_chunks::<STEP>();
    for step in steps {
        let &[gap, ago, hosts, tos, ..] = step;
        now += Span::us(u64::from(gap) * u64::from(gap));
        // Its time stamp may be earlier than those of processed datagrams.
        let at = Time::ZERO.max(now.before(Span::us(u64::from(ago) / 4)));
        let (from, to) = (u32::from(hosts) % HOSTS, u32::from(hosts >> 4) % HOSTS);
        let number = arrivals.len() as u32;
        if from != to {
            let payload = payload(number, step, script);
            // The path identifies the datagram on departure.
            let route = Route { path: number, from, to, flow: 0 };
            pipeline.take(at, route, Content::datagram(tos, &payload));
            arrivals.push(ArrivedDatagram { at, route, tos, payload });
        }
        if gap % 4 != 0 {
            pipeline.advance(now);
            left += check_departures(&mut pipeline, sized, now, &arrivals);
        }
    }
    // All queues are empty by then.
    now += Span::s(100);
    pipeline.advance(now);
    left += check_departures(&mut pipeline, sized, now, &arrivals);
    assert_eq!(pipeline.held(), 0, "a datagram was kept");
    let (ports, _) = pipeline.fabric.records();
    let dropped: u64 = ports.iter().map(|port| port.drops + port.credit_drops).sum();
    let refused = pipeline.counts.too_long + pipeline.counts.too_fast;
    assert_eq!(left + dropped + refused, arrivals.len() as u64, "{left}, {dropped}, {refused}");
}

/// The payload of a datagram.
fn payload(number: u32, step: &[u8; STEP], script: &[u8]) -> Vec<u8> {
    let &[_, _, _, _, what, records, at, by] = step;
    let mut bytes = match what % 4 {
        0 => script[usize::from(at).min(script.len())..].iter().take(80).copied().collect(),
        1 => vec![by; usize::from(at) * 300],
        _ => {
            let stamping = [frame_flag::STAMP_PEAK, frame_flag::STAMP_HOPS];
            let flags = stamping.into_iter().zip([4, 8]).filter(|(_, bit)| what & bit != 0);
            let flags = flags.fold(0, |all, (flag, _)| all | flag);
            let wide = u64::from(by) << (at % 57);
            let frame = Frame { flags, peak_hop_delay: Span::ps(wide), ..Frame::default() };
            let mut hops = HopTrace::default();
            let hop = Hop { at: Time::ps(wide), tx_bytes: !wide, port: number, ..Hop::default() };
            (0..records % 10).for_each(|_| hops.push(hop));
            let mut bytes = vec![0; telemetry::MOST_BYTES];
            let length = telemetry::emit(&frame, &hops, &mut bytes).unwrap_or(0);
            bytes.truncate(length);
            if what & 16 != 0 {
                bytes.extend(of_session(what, number));
            }
            bytes.extend([number as u8; 100]);
            bytes
        }
    };
    if what % 4 == 3 {
        let at = usize::from(at) % bytes.len();
        bytes[at] ^= by;
        bytes.truncate(usize::from(records) * 8);
    }
    bytes
}

/// Headers of a transport and of a session whose packets have an entropy, and more payload.
fn of_session(what: u8, number: u32) -> Vec<u8> {
    let (kind, length) = match what & 32 {
        0 => (forwarding::MULTIPATH, forwarding::MULTIPATH_BYTES),
        _ => (forwarding::TRIMMABLE, forwarding::TRIMMABLE_BYTES),
    };
    let mut bytes = vec![1, 0, 0, 2, 0, 0, 0, 0, 1, kind, 0, (length / 4) as u8];
    bytes.resize(8 + length, number as u8);
    bytes.resize(bytes.len() + usize::from(what >> 6) * 400, 7);
    bytes
}

/// Takes departures until now and compares them with arrivals; returns their number.
fn check_departures(
    pipeline: &mut Pipeline,
    sized: bool,
    now: Time,
    arrivals: &[ArrivedDatagram],
) -> u64 {
    let (mut count, mut last) = (0, Time::ZERO);
    while let Some((at, number)) = pipeline.due(now) {
        let slot = pipeline.slot(number);
        let ArrivedDatagram { at: arrived_at, route, tos, payload } =
            &arrivals[slot.route.path as usize];
        assert_eq!(slot.route, *route);
        assert!(payload.len() <= MOST_BYTES, "{} bytes exceed a packet", payload.len());
        let carried = match payload.last_chunk() {
            Some(&[a, b, _, _, _, _]) if sized => u64::from(u16::from_be_bytes([a, b])),
            _ => (payload.len() + WIRE_OVERHEAD_BYTES) as u64,
        };
        let cut = is_trimmed(slot.datagram.tos()) && !is_trimmed(*tos);
        let carried = if cut { carried.min(TRIMMING.trimmed_bytes.into()) } else { carried };
        let takes = Rate::mbps(100).serialise(carried.max(u64::from(MIN_WIRE_BYTES)));
        assert!(last <= at && *arrived_at + takes < at, "{arrived_at}, {at}");
        let datagram = &slot.datagram;
        let after = datagram.payload().concat();
        if cut {
            trimmed(payload, &after, sized);
        } else {
            assert!(datagram.tos() == *tos || (tos & ECN != 0 && datagram.tos() == tos | ECN));
            altered(payload, &after);
        }
        pipeline.free(number);
        (count, last) = (count + 1, at);
    }
    count
}

/// Asserts that only the end is missing and values of telemetry differ, in permitted ways.
fn trimmed(before: &[u8], after: &[u8], sized: bool) {
    let trailer = if sized { 6 } else { 0 };
    let [whole, left] = [before, after].map(|bytes| &bytes[..bytes.len() - trailer]);
    let headers = forwarding::read(whole).and_then(|fields| fields.kept_bytes);
    let headers = headers.expect("a datagram without a place to cut stays whole");
    // Hop records may have been added.
    let added = forwarding_bytes(left) - headers;
    assert!(left.len() < whole.len() + added && left.len() >= headers + added);
    let end = &whole[left.len() - added..];
    altered(whole, &[left, end].concat());
    if sized {
        let ([.., _, _, a, b, c, d], [.., e, f, g, h, i, j]) = (before, after) else { panic!() };
        assert_eq!([a, b, c, d], [g, h, i, j], "the entropy");
        let stated = u16::from_be_bytes([*e, *f]);
        assert!(stated <= TRIMMING.trimmed_bytes, "{stated}");
    }
}

/// Length of the headers of a trimmed datagram, as if it had payload.
fn forwarding_bytes(left: &[u8]) -> usize {
    let whole = [left, &[0]].concat();
    forwarding::read(&whole).and_then(|fields| fields.kept_bytes).expect("whole headers")
}

/// Asserts that only values of telemetry differ, in permitted ways.
fn altered(before: &[u8], after: &[u8]) {
    let read = |bytes: &[u8]| {
        let (mut frame, mut hops) = (Frame::default(), HopTrace::default());
        let rest = telemetry::parse(bytes, &mut frame, &mut hops).ok()?.to_vec();
        Some((frame, hops, rest))
    };
    let stamping = frame_flag::STAMP_PEAK | frame_flag::STAMP_HOPS;
    match (read(before), read(after)) {
        (Some((old, old_hops, rest)), Some((new, hops, same))) if old.flags & stamping != 0 => {
            assert_eq!((rest, old.flags), (same, new.flags));
            assert!(new.peak_hop_delay >= old.peak_hop_delay);
            assert!(hops.as_slice().starts_with(old_hops.as_slice()));
            let stamps = old.flags & frame_flag::STAMP_HOPS != 0;
            assert!(stamps || hops.as_slice().len() == old_hops.as_slice().len());
        }
        _ => assert_eq!(before, after),
    }
}
