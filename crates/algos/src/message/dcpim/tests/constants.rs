//! Constants derived from the path, compared with the authors' settings.

use super::super::calendar::{Calendar, FabricProperties, Stage};
use super::*;

/// At 100 and 400 Gbit/s, with packets of 1,500 B and control packets of 40 B, over four links of
/// 0.65 us.
fn authors() -> FabricProperties {
    let (host, core) = (Rate::gbps(100), Rate::gbps(400));
    let round_trip = |bytes: u64| {
        let links = host.serialise(bytes).times(2) + core.serialise(bytes).times(2);
        (Span::ns(650).times(4) + links).times(2)
    };
    let data_rtt = round_trip(1500);
    assert_eq!(data_rtt, Span::ns(5_800));
    FabricProperties {
        control_rtt: round_trip(40),
        blocked: Span::ns(300),
        packet: host.serialise(1500),
        request: host.serialise(40),
        bdp_packets: host.bytes_in(data_rtt).div_ceil(1500),
    }
}

#[test]
fn constants_are_those_of_the_authors_setting() {
    let properties = authors();
    assert_eq!(properties.bdp_packets, 49);
    assert_eq!(properties.control_rtt, Span::ps(5_216_000));
    let calendar = Calendar::new(&DcpimParams::default(), &properties);
    assert_eq!(calendar.iteration, Span::ps(6_780_800));
    assert_eq!(calendar.phase, Span::ps(27_123_200));
    // 56.5 packets of 120 ns per channel, rounded down as in the simulator.
    let exact = calendar.phase.as_ps() as f64 / 120e3 / 4.0;
    assert!((exact - 56.5).abs() < 0.01, "{exact}");
    assert_eq!(calendar.quota, 56);
    assert_eq!(calendar.bdp_time, Span::ns(5_880));
    let near = |time: Span, us: f64| assert!((time.as_us_f64() - us).abs() < 0.005, "{time}");
    near(calendar.bdp_time.scale(1.1), 6.47);
    near(calendar.grace, 5.216 / 2.0 + 4.0 * 0.12);
    // 3.39 us at 3.2 ns each.
    assert_eq!(calendar.requests, 1059);
    // With the packet sizes used here: windows and short messages of 49 packets.
    let settings = settings();
    assert_eq!((settings.short, settings.window, settings.calendar.packet), (49, 49, PACKET));
}

#[test]
fn declared_sizes_give_the_authors_schedule() {
    let params = DcpimParams { header_bytes: 40, control_bytes: 40, ..DcpimParams::default() };
    let settings = Settings::new(&params, &context(0));
    let Calendar { iteration, phase, packet, quota, requests, .. } = settings.calendar;
    let theirs = Calendar::new(&DcpimParams::default(), &authors());
    assert_eq!((iteration, phase, packet), (theirs.iteration, theirs.phase, theirs.packet));
    assert_eq!((quota, requests), (theirs.quota, theirs.requests));
    // The usual sizes change nothing, and longer control packets take longer.
    let with = |control_bytes| {
        let params = DcpimParams { control_bytes, ..DcpimParams::default() };
        control_rtt(&context(0), params.control_bytes)
    };
    assert_eq!(with(84), context(0).fabric_control_rtt);
    assert_eq!(with(184) - with(84), Span::ps(2 * 100 * (2 * 80 + 2 * 20)));
}

#[test]
fn a_round_has_room_for_packets_in_the_way() {
    let packet = Rate::gbps(10).serialise(4176);
    let properties = FabricProperties {
        control_rtt: Span::us(4),
        blocked: packet.times(2),
        packet,
        request: Rate::gbps(10).serialise(84),
        bdp_packets: 4,
    };
    let calendar = Calendar::new(&DcpimParams::default(), &properties);
    assert_eq!(calendar.iteration, Span::us(4) + packet.times(4));
    assert!(calendar.quota >= 1);
}

#[test]
fn stages_follow_from_the_time_alone() {
    for alpha in [1.0, 1.3, 2.5] {
        let params = DcpimParams { alpha, ..DcpimParams::default() };
        let calendar = Calendar::new(&params, &authors());
        let (mut at, mut opened, mut begun) = (Time::ZERO, Vec::new(), Vec::new());
        while begun.len() < 5 {
            let Stage { begins, opens } = calendar.stage(at);
            begun.extend(begins.map(|epoch| (epoch, at)));
            opened.extend(opens);
            let next = calendar.next_stage(at);
            // Also from any time in between.
            assert_eq!(calendar.next_stage(at + Span::ps(1)), next);
            assert_eq!(calendar.next_stage(next - Span::ps(1)), next);
            at = next;
        }
        for (number, &(epoch, at)) in begun.iter().enumerate() {
            assert_eq!(epoch, number as u64, "alpha {alpha}");
            let matched = Time::ZERO + calendar.phase.times(epoch) + calendar.iteration.times(4);
            assert_eq!(at, matched, "alpha {alpha}");
            assert_eq!(calendar.phase_end(at - Span::ps(1)), at);
            assert_eq!(calendar.phase_end(at), at + calendar.phase);
        }
        for (number, &(epoch, round)) in opened.iter().enumerate() {
            assert_eq!((epoch, round as usize), (number as u64 / 4, 1 + number % 4), "{alpha}");
        }
    }
}

#[test]
fn data_priority_follows_the_message_size() {
    let with = |priorities, number| {
        let params = DcpimParams { priorities, ..DcpimParams::default() };
        let host = HostContext { priorities: number, ..context(0) };
        let settings = Settings::new(&params, &host);
        [1, 7, 8, 49, 50, 343, 344, 2401, 2402, 16807, 16808].map(|n| settings.priority(n))
    };
    assert_eq!(with(Priorities::Three, 8), [1, 1, 1, 1, 7, 7, 7, 7, 7, 7, 7]);
    assert_eq!(with(Priorities::Three, 2), [1; 11]);
    assert_eq!(with(Priorities::Seven, 8), [1, 1, 2, 2, 3, 3, 4, 4, 5, 5, 7]);
    assert_eq!(with(Priorities::Seven, 7), [1, 1, 2, 2, 3, 3, 4, 4, 5, 5, 6]);
    assert_eq!(with(Priorities::Seven, 4), [1, 1, 2, 2, 3, 3, 3, 3, 3, 3, 3]);
    assert_eq!(with(Priorities::Seven, 1), [0; 11]);
}

#[test]
fn the_context_is_that_of_the_fabric_preset() {
    let (host, core) = (Rate::gbps(100), Rate::gbps(400));
    let way = |bytes: u64| {
        let links = host.serialise(bytes).times(2) + core.serialise(bytes).times(2);
        Span::ns(650).times(4) + links
    };
    let context = context(0);
    assert_eq!(context.fabric_base_rtt, way(1_540) + way(84));
    assert_eq!(context.fabric_control_rtt, way(84).times(2));
    // The authors' 49 packets: half a microsecond more than data and its token take, so that a
    // queue of four packets does not count as a loss.
    assert_eq!(context.bdp_bytes, 49.0 * 1_540.0);
    assert!(settings().resend_timeout > context.fabric_base_rtt + PACKET.times(4));
}

#[test]
fn short_messages_fit_the_receive_window() {
    let params = DcpimParams { short_limit: Extent::Bdp(1e3), ..DcpimParams::default() };
    let of = |bdp_bytes| Settings::new(&params, &HostContext { bdp_bytes, ..context(0) }).short;
    let bdp_bytes = context(0).bdp_bytes;
    assert_eq!(of(bdp_bytes), receiver::AHEAD);
    // For paths a hundred to 100,000 times as long.
    assert_eq!(of(100.0 * bdp_bytes), 2 * 4_900);
    assert_eq!(of(1e3 * bdp_bytes), 2 * 49_000);
    assert_eq!(of(1e5 * bdp_bytes), MAX_AHEAD);
}
