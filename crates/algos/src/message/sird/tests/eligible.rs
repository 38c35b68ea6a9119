//! Weighted order of messages some of which could not send for a while.

use super::*;

/// Payload that has arrived of two long messages of equal weight between two times, after the
/// sender of the first was unreachable for three milliseconds.
fn after_an_absence(policy: Policy) -> [u64; 2] {
    let params = SirdParams { receiver_policy: policy, ..SirdParams::default() };
    let away = Some((1, Time::us(500), Time::us(3_500)));
    let faults = Faults { egress_outage: away, ingress_outage: away, ..NO_FAULTS };
    let mut net = Net::new(3, &params, faults, 1);
    net.submit(1, 0, 200_000_000);
    net.submit(2, 0, 200_000_000);
    // By then the sender has responded again, and has not caught up with the 18 MB that it missed.
    net.run(Time::us(4_500));
    let before: Vec<u64> = net.app.messages.iter().map(|message| message.delivered).collect();
    net.run(Time::us(5_500));
    [0, 1].map(|i| net.app.messages[i].delivered - before[i])
}

#[test]
fn returning_sender_does_not_starve_others() {
    for policy in [Policy::RoundRobin, Policy::Weighted] {
        let arrived = after_an_absence(policy);
        let all = arrived.iter().sum::<u64>() as f64;
        assert!(all > 11e6, "{policy:?}: {arrived:?} in a millisecond at 100 Gbit/s");
        let share = arrived[0] as f64 / all;
        assert!((share - 0.5).abs() < 0.1, "{policy:?}: {arrived:?}");
    }
}

/// Of 200 packets, those to each of two receivers, the first of which issued no credit while 1,000
/// went to the other. Its two messages have these weights.
fn after_no_credit(fair_share: f64, weights: [u8; 2]) -> [u32; 3] {
    let sender_policy = Policy::Weighted;
    let params = SirdParams { sender_policy, fair_share, ..SirdParams::default() };
    let mut host = Sird::new(&params, &context(0));
    for (id, (dst, weight)) in [(1, weights[0]), (1, weights[1]), (2, 1)].into_iter().enumerate() {
        let bytes = 100_000_000;
        let message = Message { weight, ..message(id as u32, dst, bytes) };
        host.submit(Time::ZERO, message, &NoPaths);
    }
    let mut credited = 0;
    let mut send = |host: &mut Sird, to_first: u64| {
        credited += 1;
        receive_header(host, Time::ZERO, 2, &credit((credited + 20) * 1538));
        if to_first > 0 {
            receive_header(host, Time::ZERO, 1, &credit((to_first + 20) * 1538));
        }
        next_data(host, Time::ZERO).unwrap().message as usize
    };
    (0..1_000).for_each(|_| assert_eq!(send(&mut host, 0), 2));
    let mut sent = [0; 3];
    (1..=200).for_each(|number| sent[send(&mut host, number)] += 1);
    sent
}

#[test]
fn returning_receiver_is_not_served_alone() {
    // Three messages share, by rounds, the whole link or half of it; the other half is divided
    // equally between the receivers.
    for (fair_share, weights, expected) in
        [(0.0, [1, 1], [67, 67, 66]), (0.0, [3, 1], [120, 40, 40]), (1.0, [3, 1], [75, 25, 100])]
    {
        let sent = after_no_credit(fair_share, weights);
        for (sent, expected) in sent.iter().zip(expected) {
            assert!(sent.abs_diff(expected) <= 6, "{fair_share}: {sent} of {expected}");
        }
    }
}
