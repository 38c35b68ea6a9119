//! Order of packets at a sender, order of credit at a receiver, and the congestion of a sender.

use super::super::sender;
use super::*;

/// Packets for each destination out of 4,000 from a sender with credit for all of them.
fn shares(fair_share: f64, receivers: u32) -> Vec<u32> {
    let mut host = Sird::new(&SirdParams { fair_share, ..SirdParams::default() }, &context(0));
    for dst in 1..=receivers {
        // The shortest is for host 1.
        let message = message(dst, dst, 100_000_000 + dst as u64 * 10_000_000);
        host.submit(Time::ZERO, message, &NoPaths);
    }
    let mut sent = alloc::vec![0; receivers as usize];
    let mut data = 0;
    while data < 4_000 {
        for src in 1..=receivers {
            let credit = credit((data + 100) * 1538);
            receive_header(&mut host, Time::ZERO, src, &credit);
        }
        let (frame, body) = transmit(&mut host, Time::ZERO).unwrap();
        if let Some(Header::Data(header)) = Header::read(&body) {
            data += 1;
            sent[frame.dst as usize - 1] += 1;
            assert!(header.sender_congested || receivers == 1, "unused credit is not reported");
        }
    }
    sent
}

#[test]
fn sender_splits_link_by_fair_share_and_shortest() {
    assert_eq!(shares(0.5, 1), [4_000]);
    for (fair_share, receivers) in [(0.5, 2), (0.5, 4), (1.0, 3), (0.0, 3), (0.25, 7)] {
        let sent = shares(fair_share, receivers);
        for (dst, &packets) in sent.iter().enumerate() {
            let extra = if dst == 0 { 1.0 - fair_share } else { 0.0 };
            let expected = 4_000.0 * (fair_share / receivers as f64 + extra);
            assert!(
                (packets as f64 - expected).abs() < 8.0,
                "{fair_share} of {receivers}: {sent:?}"
            );
        }
    }
}

#[test]
fn receiver_credits_shortest_first_or_round_robin() {
    let completed = |policy| {
        let params = SirdParams { receiver_policy: policy, ..SirdParams::default() };
        let mut net = Net::new(5, &params, NO_FAULTS, 1);
        (0..4).for_each(|i| {
            net.submit(1 + i, 0, 4_000_000 - 900_000 * i as u64);
        });
        net.run(Time::s(1));
        net.assert_quiet("done");
        net.app
            .messages
            .iter()
            .map(|message| message.completed.unwrap().as_us_f64())
            .collect::<Vec<_>>()
    };
    let srpt = completed(Policy::Srpt);
    let schedule = completed(Policy::RoundRobin);
    // Bytes before the last of each message under either rule.
    for (times, megabytes) in [(srpt, [10.6, 6.6, 3.5, 1.3]), (schedule, [10.6, 9.7, 7.9, 5.2])] {
        for (took, megabytes) in times.iter().zip(megabytes) {
            let expected = megabytes * 80.0 * 1538.0 / 1458.0;
            assert!((took / expected - 1.0).abs() < 0.08, "{times:?}, expected {expected} us");
        }
    }
}

/// Whether each of the first packets reports a congested sender, for a host with unused credit for
/// `credited` packets and long messages to `receivers` receivers.
fn csn(rules: Rules, credited: u64, receivers: u32) -> Vec<bool> {
    let mut host = Sird::new(&SirdParams { rules, ..SirdParams::default() }, &context(0));
    for dst in 1..=receivers {
        host.submit(Time::ZERO, message(dst, dst, 10_000_000), &NoPaths);
    }
    receive_header(&mut host, Time::ZERO, 1, &credit(credited * 1538));
    let mut announced = Vec::new();
    while let Some(data) = next_data(&mut host, Time::ZERO) {
        announced.push(data.sender_congested);
    }
    assert_eq!(announced.len() as u64, credited);
    announced
}

#[test]
fn sender_is_congested_by_the_credit_it_holds() {
    // Half a BDP is 32.5 packets. The paper includes the packet that leaves, its authors' simulator
    // only the remaining credit.
    for receivers in [1, 2] {
        let announced = csn(Rules::Paper, 35, receivers);
        assert_eq!(announced.iter().filter(|&&announced| announced).count(), 3, "{announced:?}");
        assert!(announced[..3].iter().all(|&announced| announced));
    }
    assert!(
        csn(Rules::PublishedCode, 35, 1).iter().all(|&announced| !announced),
        "a single message never reports congestion"
    );
    let announced = csn(Rules::PublishedCode, 35, 2);
    assert_eq!(announced.iter().filter(|&&announced| announced).count(), 2, "{announced:?}");
}

#[test]
fn exactly_the_threshold_is_congestion() {
    let params =
        SirdParams { sender_threshold: Extent::Bytes(4.0 * 1538.0), ..SirdParams::default() };
    let settings = Settings::new(&params, &context(0));
    assert!(sender::congestion(&settings, 4 * 1538, 0, 1538, 1));
    assert!(!sender::congestion(&settings, 4 * 1538 - 1, 0, 1538, 1));
    // Credit that the sender took itself does not count.
    assert!(!sender::congestion(&settings, 4 * 1538, 1, 1538, 1));
}

/// Credit limit of a sender in BDP after 2,000 of its packets, each with this mark, this peak delay
/// of a hop, and this delay beyond that of the first packet.
fn bucket_after(signal: NetworkSignal, marked: bool, peak: Span, late: Span) -> f64 {
    let params = SirdParams { network_signal: signal, ..SirdParams::default() };
    let mut host = Sird::new(&params, &context(0));
    for packet in 0..2_000 {
        // The sender's clock is 40 us ahead.
        let sent_at = Time::us(100 + packet);
        let took = if packet == 0 { Span::ZERO } else { late };
        let data = Data {
            message: FORGED,
            size: Message::UNLIMITED,
            offset: packet * 1458,
            sent_at,
            ..Data::default()
        };
        let mut body = Body { src: 1, payload_bytes: 1458, ..Body::default() };
        Header::Data(data).write(&mut body);
        let flags = if marked { frame_flag::CONGESTION_EXPERIENCED } else { 0 };
        let mut frame = Frame { flags, peak_hop_delay: peak, ..Frame::default() };
        let now = sent_at.before(Span::us(40)) + took;
        receive(&mut host, now, &mut frame, &mut body, &mut Checking::default());
    }
    host.inbox.sources[0].bucket.bytes() / settings().bdp as f64
}

#[test]
fn receiver_reacts_to_the_configured_signal() {
    // 0.75 BDP of 100 KB take 6 us at 100 Gbit/s.
    let (short, long) = (Span::ns(5_999), Span::us(6));
    for (chosen, signal) in SIGNALS.into_iter().enumerate() {
        assert_eq!(bucket_after(signal, false, short, short), 1.0, "{signal:?}: below");
        let announced = [(true, short, short), (false, short, long), (false, long, short)];
        for (number, (marked, peak, late)) in announced.into_iter().enumerate() {
            let bucket = bucket_after(signal, marked, peak, late);
            match number == chosen {
                true => assert!(bucket < 0.2, "{signal:?}: {bucket} BDP"),
                false => assert_eq!(bucket, 1.0, "{signal:?} reacts to another signal: {number}"),
            }
        }
    }
}

/// Completion times in microseconds of messages of 4 MB with these weights, each from a host of its
/// own, or all from one.
fn completed_by_weight(params: &SirdParams, from_one: bool, weights: &[u8]) -> Vec<f64> {
    let mut net = Net::new(5, params, NO_FAULTS, 1);
    for (i, &weight) in (0..).zip(weights) {
        let (src, dst) = if from_one { (0, 1 + i) } else { (1 + i, 0) };
        net.submit_weighed(src, dst, 4_000_000, weight);
    }
    net.run(Time::s(1));
    net.assert_quiet("done");
    let messages = net.app.messages.iter();
    messages.map(|message| message.completed.unwrap().as_us_f64()).collect()
}

#[test]
fn downlink_shares_follow_weights_or_priority() {
    let completed = |policy, weights: &[u8]| {
        let params = SirdParams { receiver_policy: policy, ..SirdParams::default() };
        completed_by_weight(&params, false, weights)
    };
    // Megabytes of all before the last of each: at weights 3, 1 the first has three of four.
    let cases: [(Policy, &[u8], &[f64]); 3] = [
        (Policy::Weighted, &[3, 1], &[4.0 * 4.0 / 3.0, 8.0]),
        (Policy::Weighted, &[1, 1, 2], &[12.0, 12.0, 8.0]),
        (Policy::Strict, &[1, 31, 7], &[12.0, 4.0, 8.0]),
    ];
    for (policy, weights, megabytes) in cases {
        let times = completed(policy, weights);
        for (took, megabytes) in times.iter().zip(megabytes) {
            let expected = megabytes * 80.0 * 1538.0 / 1458.0;
            assert!((took / expected - 1.0).abs() < 0.08, "{policy:?}: {times:?}, {expected} us");
        }
    }
}

#[test]
fn sender_policy_applies_beyond_the_fair_share() {
    let completed = |policy, weights: &[u8]| {
        // Credit suffices for each of them.
        let sender_threshold = Extent::Bdp(1e6);
        let params = SirdParams {
            sender_policy: policy,
            fair_share: 0.0,
            sender_threshold,
            ..SirdParams::default()
        };
        completed_by_weight(&params, true, weights)
    };
    let strict = completed(Policy::Strict, &[1, 31, 7]);
    assert!(strict[1] < strict[2] && strict[2] < strict[0], "{strict:?}");
    let weighted = completed(Policy::Weighted, &[3, 1]);
    let expected = 4.0 * 4.0 / 3.0 * 80.0 * 1538.0 / 1458.0;
    assert!((weighted[0] / expected - 1.0).abs() < 0.08, "{weighted:?}, expected {expected} us");
}
