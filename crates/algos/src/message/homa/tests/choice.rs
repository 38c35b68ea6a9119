//! Choice of the packet at a sender, and of the granted sender and level at a receiver.

use super::*;

const START: Time = Time::us(1);

/// Time of a full granted packet on the link.
fn packet_time() -> Span {
    RATE.serialise(1524)
}

fn submit(host: &mut Homa, id: u32, dst: u32, packets: u64) {
    host.submit(Time::ZERO, message(id, dst, packets * MTU as u64), &NoPaths);
}

fn grant(lane: u32, packets: u64, level: u32) -> Header {
    Header::Grant(Grant { lane, level, granted: packets * MTU as u64, ..Grant::default() })
}

#[test]
fn a_sender_serves_the_message_with_the_least_left() {
    let mut sender = host(&HomaParams::default());
    for (dst, packets) in [(1, 3), (2, 1), (3, 2), (4, 2)] {
        submit(&mut sender, dst, dst, packets);
    }
    let order: Vec<_> = data(&mut sender, START).iter().map(|&(dst, _, at)| (dst, at)).collect();
    assert_eq!(order, [(2, 0), (3, 0), (3, 1), (4, 0), (4, 1), (1, 0), (1, 1), (1, 2)]);

    // A message with two packets left overtakes one with three, although it is longer in total.
    submit(&mut sender, 5, 5, 72);
    assert_eq!(data(&mut sender, START).len(), 70, "a BDP of 100 KB leaves immediately");
    submit(&mut sender, 6, 6, 3);
    receive_header(&mut sender, START, 5, &grant(0, 72, 7));
    let order: Vec<_> = data(&mut sender, START).iter().map(|&(dst, ..)| dst).collect();
    assert_eq!(order, [5, 5, 6, 6, 6]);
}

#[test]
fn a_packet_has_the_level_of_its_grant() {
    let params = HomaParams { unscheduled_bytes: Extent::Bytes(2_000.0), ..two_at_a_time() };
    let mut sender = host(&params);
    submit(&mut sender, 0, 1, 100);
    // By the bytes left, above the levels of granted packets.
    assert_eq!(data(&mut sender, START), [(1, 3, 0), (1, 3, 1)]);
    for (packets, level) in [(3, 7), (4, 7), (5, 4), (4, 6)] {
        receive_header(&mut sender, START, 1, &grant(0, packets, level));
    }
    assert_eq!(data(&mut sender, START), [(1, 7, 2), (1, 7, 3), (1, 4, 4)]);
    // The sender clamps a grant to existing priorities and to a few round trips.
    receive_header(&mut sender, START, 1, &grant(0, u64::MAX / MTU as u64, u32::MAX));
    let rest = data(&mut sender, START);
    assert_eq!((rest.len(), rest[0]), (95, (1, 7, 5)));
}

#[test]
fn unscheduled_packets_climb_as_the_message_shrinks() {
    let mut sender = host(&two_at_a_time());
    // Even cut-offs at a quarter, half and three quarters of 70 packets.
    submit(&mut sender, 0, 1, 70);
    let levels: Vec<_> = data(&mut sender, START).iter().map(|&(_, level, _)| level).collect();
    let expected = (0..70u64).map(|packet| match (70 - packet) * MTU as u64 {
        0..=25_235 => 0,
        25_236..=50_470 => 1,
        50_471..=75_705 => 2,
        _ => 3,
    });
    assert_eq!(levels, expected.collect::<Vec<u8>>());
}

#[test]
fn a_receiver_grants_to_the_few_with_the_least_left() {
    let mut receiver = host(&two_at_a_time());
    let mut granted = Vec::new();
    for (src, packets) in [(1, 100), (2, 80), (3, 60), (4, 90)] {
        receive(&mut receiver, START, src, packets, 0);
        granted.push(grants(&mut receiver, START));
    }
    // Each grant leaves when its packet arrives, at the lower of two levels if the sender is alone
    // or not the best; the third of three senders gets none.
    let expected: [&[_]; 4] = [&[(1, 7, 2)], &[(2, 6, 2)], &[(3, 6, 2)], &[]];
    assert_eq!(granted, expected);
    // Later grants leave at the rate of the link, each at its level.
    let next = grants(&mut receiver, START + packet_time());
    assert_eq!(next, [(2, 7, 3), (3, 6, 3)]);
    assert_eq!(grants(&mut receiver, START + packet_time()), []);
    // The best sender's message ends: the sender that waited longest becomes active.
    let third = START + packet_time().times(100);
    (1..60).for_each(|packet| _ = receive(&mut receiver, third, 3, 60, packet));
    let after = grants(&mut receiver, third);
    assert!(after.contains(&(4, 7, 2)), "{after:?}");
    assert!(!after.iter().any(|&(dst, ..)| dst == 1), "{after:?}");
}

#[test]
fn at_most_a_round_trip_of_a_message_in_flight() {
    let rtt_bytes = Extent::Bytes(10.0 * MTU as f64);
    let mut receiver = host(&HomaParams { rtt_bytes, ..two_at_a_time() });
    receive(&mut receiver, START, 1, 100, 0);
    let long = START + packet_time().times(50);
    let up_to: Vec<_> = grants(&mut receiver, long).iter().map(|&(_, _, up_to)| up_to).collect();
    assert_eq!(up_to, (2..=11).collect::<Vec<_>>(), "the first has arrived");
    assert_eq!(grants(&mut receiver, long + Span::us(50)), []);
    receive(&mut receiver, long, 1, 100, 5);
    assert_eq!(grants(&mut receiver, long), [(1, 7, 12)], "each arrival allows one more packet");
    // A duplicate does not.
    receive(&mut receiver, long, 1, 100, 5);
    assert_eq!(grants(&mut receiver, long), []);
}

#[test]
fn a_better_level_does_not_wait_for_the_timer() {
    let mut receiver = host(&two_at_a_time());
    receive(&mut receiver, START, 1, 100, 0);
    receive(&mut receiver, START, 2, 50, 0);
    assert_eq!(grants(&mut receiver, START), [(1, 7, 2), (2, 6, 2)]);
    // Less than a packet time later, with no better level.
    let soon = START + Span::ns(10);
    receive(&mut receiver, soon, 1, 100, 1);
    assert_eq!(grants(&mut receiver, soon), []);
    // A short message of the same sender makes that sender the best.
    let short = Data { lane: 1, unscheduled: 1, size: 5 * MTU as u64, ..Data::default() };
    let short = Header::Data(Data { message: FORGED, ..short });
    hand(&mut receiver, soon, 1, &short, MTU);
    assert_eq!(grants(&mut receiver, soon), [(1, 6, 2)]);
    hand(&mut receiver, soon, 1, &short, MTU);
    assert_eq!(grants(&mut receiver, soon), [], "the level does not improve again");
}

#[test]
fn the_tail_of_a_message_is_granted_above() {
    let tail_boost = Extent::Bytes(3.0 * 1524.0 + 1.0);
    let mut receiver = host(&HomaParams { tail_boost, ..two_at_a_time() });
    receive(&mut receiver, START, 1, 8, 0);
    let later = START + packet_time().times(20);
    let levels: Vec<_> = grants(&mut receiver, later).iter().map(|&(_, level, _)| level).collect();
    assert_eq!(levels, [7, 7, 7, 7, 0, 0, 0]);
}

#[test]
fn boosted_tail_is_the_last_bytes_on_the_wire() {
    let mtu = MTU as u64;
    for size in [2, 8, 50, 65].into_iter().flat_map(|n| [n * mtu, n * mtu + 1, n * mtu - 700]) {
        for tail in [1, 84, 85, 3 * 1524, 3 * 1524 + 1, 40 * 1524, 1_000_000] {
            let tail_boost = Extent::Bytes(tail as f64);
            let mut receiver = host(&HomaParams { tail_boost, ..two_at_a_time() });
            let header = Data { message: FORGED, unscheduled: 1, size, ..Data::default() };
            hand(&mut receiver, START, 1, &Header::Data(header), MTU);
            let later = START + packet_time().times(100);
            let levels: Vec<_> =
                grants(&mut receiver, later).iter().map(|&(_, level, _)| level).collect();
            // From the last packet backwards: the upper level while the packets from there on have
            // fewer bytes than the tail (without padding of the minimum frame), otherwise the level
            // of the bytes left, by even parts of 70 packets.
            let mut wire = 0;
            let mut expected = Vec::new();
            for packet in (1..size.div_ceil(mtu)).rev() {
                let left = size - packet * mtu;
                wire += left.min(mtu) + 82;
                let part = (4 * left).div_ceil(70 * mtu).saturating_sub(1) as u32;
                expected.insert(0, if wire < tail { part } else { 7 });
            }
            assert_eq!(levels, expected, "{size} B with a tail of {tail} B");
        }
    }
}

#[test]
fn idle_link_grants_to_one_more_sender() {
    let bubble_bytes = Extent::Bytes(1_600.0);
    let one = HomaParams { overcommitment: 1, bubble_bytes, ..two_at_a_time() };
    for (params, expected) in
        [(HomaParams { bubble_bytes: Extent::Bytes(0.0), ..one.clone() }, 0), (one, 1)]
    {
        let mut receiver = host(&params);
        receive(&mut receiver, START, 1, 50, 0);
        receive(&mut receiver, START, 2, 60, 0);
        let to_second = |granted: Vec<(u32, u32, u64)>| {
            granted.into_iter().filter(|&(dst, ..)| dst == 2).take(1).count()
        };
        let idle = START + RATE.serialise(1_600);
        assert_eq!(to_second(grants(&mut receiver, idle.before(Span::ps(1)))), 0);
        assert_eq!(to_second(grants(&mut receiver, idle)), expected);
        // Until a message that had grants is complete.
        (1..50).for_each(|packet| _ = receive(&mut receiver, idle, 1, 50, packet));
        assert_eq!(receiver.inbox.schedule.room(), 1);
    }
}

#[test]
fn extra_place_ends_with_the_forgotten_message() {
    let bubble_bytes = Extent::Bytes(1_600.0);
    let mut receiver = host(&HomaParams { overcommitment: 1, bubble_bytes, ..two_at_a_time() });
    receive(&mut receiver, START, 1, 50, 0);
    receive(&mut receiver, START, 2, 60, 0);
    let idle = START + RATE.serialise(1_600);
    grants(&mut receiver, idle);
    assert_eq!((receiver.inbox.schedule.room(), receiver.inbox.schedule.active()), (2, 2));
    receiver.forget(idle, 1);
    assert_eq!((receiver.inbox.schedule.room(), receiver.inbox.schedule.active()), (1, 1));
    assert!(receiver.inbox.bubble_at < Time::NEVER);
    receiver.forget(idle, 2);
    assert_eq!(receiver.deadline(), Time::NEVER);
}

#[test]
fn endless_messages_share_in_rounds() {
    let rtt_bytes = Extent::Bytes(4.0 * MTU as f64);
    let mut receiver = host(&HomaParams { rtt_bytes, overcommitment: 1, ..two_at_a_time() });
    let endless = |packet: u64| {
        let offset = packet * MTU as u64;
        let header = Data { message: FORGED, size: Message::UNLIMITED, offset, ..Data::default() };
        Header::Data(Data { unscheduled: 1, ..header })
    };
    let (mut now, mut order) = (START, Vec::new());
    for src in [1, 2] {
        hand(&mut receiver, now, src, &endless(0), MTU);
    }
    for _ in 0..20 {
        for (dst, _, up_to) in grants(&mut receiver, now) {
            order.push(dst);
            hand(&mut receiver, now, dst, &endless(up_to - 1), MTU);
        }
        now += packet_time();
    }
    let runs: Vec<_> = order.chunk_by(|a, b| a == b).map(|run| (run[0], run.len())).collect();
    assert!(runs.len() > 3 && runs[..3] == [(1, 5), (2, 5), (1, 5)], "{runs:?}");
}

#[test]
fn bytes_in_flight_count_wire_bytes() {
    // 66 packets of 1,524 B on the wire are the first to reach 100 KB; by payload it would be 70.
    let mut receiver = host(&two_at_a_time());
    receive(&mut receiver, START, 1, 500, 0);
    let later = START + packet_time().times(200);
    assert_eq!(grants(&mut receiver, later).last(), Some(&(1, 7, 67)), "one has arrived");
}

#[test]
fn a_grant_is_kept_however_far_ahead_it_is() {
    // 100 KB are a round trip of this host; a faster one may allow much more in flight.
    let mut sender = host(&two_at_a_time());
    submit(&mut sender, 0, 1, 10_000);
    data(&mut sender, START);
    receive_header(&mut sender, START, 1, &grant(0, 10_000, 6));
    assert_eq!(data(&mut sender, START).len(), 10_000 - 70);
    // An invalid grant counts for at most what a receiver ever grants.
    let endless = message(1, 2, Message::UNLIMITED);
    let handle = sender.submit(START, endless, &NoPaths);
    let sum = Grant { lane: 0, level: 6, granted: u64::MAX, ..Grant::default() };
    receive_header(&mut sender, START, 2, &Header::Grant(sum));
    let window = sender.limits(handle).unwrap().window_bytes;
    assert_eq!(window, (MAX_AHEAD * MTU as u64) as f64);
}

#[test]
fn idle_link_adds_a_sender_per_round_trip() {
    let bubble_bytes = Extent::Bytes(1_600.0);
    let mut receiver = host(&HomaParams { overcommitment: 1, bubble_bytes, ..two_at_a_time() });
    for (src, packets) in [(1, 500), (2, 600), (3, 700)] {
        receive(&mut receiver, START, src, packets, 0);
    }
    let first = START + RATE.serialise(1_600);
    let second = first + RATE.serialise(100_000);
    let to = |granted: &[(u32, u32, u64)], host| granted.iter().any(|&(dst, ..)| dst == host);
    let granted = grants(&mut receiver, second.before(Span::ps(1)));
    assert!(to(&granted, 2) && !to(&granted, 3), "{granted:?}");
    let granted = grants(&mut receiver, second);
    assert!(to(&granted, 3), "{granted:?}");
    // Each complete message with grants removes one of the two places.
    for (src, packets, room) in [(1, 500, 2), (2, 600, 1), (3, 700, 1)] {
        assert_eq!(receiver.inbox.schedule.room(), room + (src < 3) as usize);
        (1..packets).for_each(|packet| _ = receive(&mut receiver, second, src, packets, packet));
        assert_eq!(receiver.inbox.schedule.room(), room, "after host {src}'s");
    }
}
