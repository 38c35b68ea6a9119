//! Every message arrives, once and in order, whatever the network does.

use std::println;

use super::*;
use crate::kit::lanes::MAX_LANES;

/// A few dozen messages of many sizes among four hosts, some of them stopped.
fn chaos(seed: u64, params: &ExpressPassParams, faults: Faults) -> Net {
    let mut net = Net::new(4, params, faults, seed);
    let mut rng = Rng::stream(seed, Domain::Traffic, 0);
    for _ in 0..24 {
        let src = rng.below(4) as u32;
        let dst = (src + 1 + rng.below(3) as u32) % 4;
        let size = match rng.below(8) {
            0 => 1,
            1 => MTU as u64 * (1 + rng.below(4)),
            2..5 => 1 + rng.below(10_000),
            5..7 => 1 + rng.below(150_000),
            _ => Message::UNLIMITED,
        };
        let handle = net.submit(src, dst, size);
        let until = net.now + Span::ns(rng.below(20_000));
        net.run(until);
        if size == Message::UNLIMITED {
            net.run(until + Span::ns(rng.below(30_000)));
            let now = net.now;
            net.hosts[src as usize].stop(now, handle);
        }
    }
    net.run(Time::s(20));
    net
}

/// `TIDEGATE_SEEDS=20000` runs so many of each.
#[test]
fn every_message_arrives_exactly_once_whatever_the_network_does() {
    let more = std::env::var("TIDEGATE_SEEDS").ok().and_then(|seeds| seeds.parse().ok());
    let mut lost = 0;
    for (loss, duplication, seeds) in
        [(0.0, 0.0, 60), (0.01, 0.0, 200), (0.05, 0.02, 200), (0.3, 0.1, 20)]
    {
        for seed in 0..more.unwrap_or(seeds) {
            let case = alloc::format!("loss {loss}, seed {seed}");
            let jitter = Span::us(seed % 4 * 3);
            let mut params = ExpressPassParams::default();
            if seed % 3 == 1 {
                (params.initial_rate, params.rise) = (1.0 / 16.0, Rise::Step);
            }
            println!("{case}"); // the last one shown is the one that failed
            let net = chaos(seed, &params, Faults { loss, duplication, jitter, ..NO_FAULTS });
            assert_all_delivered(&net, &case);
            if loss == 0.0 && jitter == Span::ZERO {
                assert_eq!(net.resent_bytes, 0, "{case}: nothing was lost");
            }
            lost += net.lost;
        }
    }
    assert!(lost > 5_000, "only {lost} packets were lost");
}

#[test]
fn the_first_packet_of_any_kinds_may_be_lost() {
    let mut lost = 0;
    for first_of in 0..1u32 << KINDS {
        for size in [1, 20_000, 99_000, 400_000, Message::UNLIMITED] {
            let faults = Faults { first_of, ..NO_FAULTS };
            let mut net = Net::new(2, &ExpressPassParams::default(), faults, 1);
            let handle = net.submit(0, 1, size);
            net.run(Time::us(100));
            let now = net.now;
            net.hosts[0].stop(now, handle);
            net.run(Time::s(1));
            let case = alloc::format!("kinds {first_of:b}, {size} B");
            assert_all_delivered(&net, &case);
            // A timeout for each loss, longer from the second in a row.
            let acked = net.app.messages[0].acked.unwrap();
            let bound = Time::us(100 * ((1 << net.lost) - 1) + 300);
            assert!(acked < bound, "{case}: {} lost, done at {acked}", net.lost);
            lost += net.lost;
        }
    }
    assert!(lost > 500, "{lost}");
}

#[test]
fn all_from_a_lost_packet_on_is_sent_again_and_no_more() {
    let faults = Faults { first_of: 1 << DATA, ..NO_FAULTS };
    let mut net = Net::new(3, &params(), faults, 1);
    net.submit(0, 1, 150_000);
    net.run(Time::s(1));
    assert_all_delivered(&net, "one lost");
    // What left in a round trip of some 2.2 us after the lost one, at half the rate and rising.
    let resent = net.resent_bytes / MTU as u64;
    assert!((1..20).contains(&resent), "{resent}");
}

#[test]
fn a_lost_last_packet_is_missed_at_once() {
    let faults = Faults { first_of: 1 << DATA, ..NO_FAULTS };
    let mut net = Net::new(2, &params(), faults, 1);
    net.submit(0, 1, 1_000);
    net.run(Time::s(1));
    let done = net.app.messages[0].completed.unwrap();
    // Two and a half round trips more, and no timeout of 100 us.
    assert!(done < Time::us(20), "{done}");
    assert_eq!(net.resent_bytes, 1_000);
}

#[test]
fn a_silent_sender_gets_no_credits_until_it_is_back() {
    let dead = Some((0, Time::us(50), Time::ms(20)));
    let mut net = Net::new(2, &params(), Faults { dead, ..NO_FAULTS }, 1);
    net.submit(0, 1, 4_000_000);
    net.run(Time::us(900));
    let before = net.sent[CREDIT];
    net.run(Time::ms(19));
    let wasted = net.sent[CREDIT] - before;
    assert!(wasted < 20, "{wasted} credits for nobody");
    net.run(Time::s(1));
    assert_all_delivered(&net, "back");
}

#[test]
fn a_receiver_that_hears_of_no_end_forgets_the_message() {
    // The sender is gone for good once all has arrived.
    let dead = Some((0, Time::ns(2_050), Time::NEVER));
    let mut net = Net::new(2, &params(), Faults { dead, ..NO_FAULTS }, 1);
    net.submit(0, 1, 1_000);
    net.run(Time::ms(50));
    assert!(net.app.messages[0].completed.is_some());
    assert!(net.hosts[1].inbox.is_quiet());
    assert!(net.hosts[0].outbox.is_quiet(), "and it heard that all has arrived");
}

#[test]
fn more_messages_than_lanes_wait_for_one() {
    let mut net = Net::new(2, &params(), NO_FAULTS, 1);
    for _ in 0..MAX_LANES + 40 {
        net.submit(0, 1, 100);
    }
    net.run(Time::s(2));
    assert_all_delivered(&net, "many");
    assert_eq!(net.resent_bytes, 0);
}

#[test]
fn a_lost_stop_is_said_again_and_credits_end() {
    for first_of in [1 << STOP, 1 << STOP | 1 << REQUEST] {
        let mut net = Net::new(2, &params(), Faults { first_of, ..NO_FAULTS }, 1);
        net.submit(0, 1, 100_000);
        net.run(Time::ms(50));
        assert_all_delivered(&net, "stop lost");
        assert!(net.sent[STOP] >= 2, "{:?}", net.sent);
        // For 69 packets, and the round trips until the second one.
        assert!(net.sent[CREDIT] < 69 + 150, "{:?}", net.sent);
    }
}

/// Bytes from anywhere, as packets to hosts that are at work.
#[test]
fn packets_that_nobody_sent_do_no_harm() {
    for seed in 0..300 {
        let mut rng = Rng::stream(seed, Domain::Faults, 7);
        let mut net = Net::new(3, &ExpressPassParams::default(), NO_FAULTS, seed);
        for i in 0..6 {
            net.submit(i % 3, (i + 1) % 3, 1 + rng.below(40_000));
        }
        for _ in 0..60 {
            let until = net.now + Span::ns(rng.below(2_000));
            net.run(until);
            let number = |rng: &mut Rng| match rng.below(4) {
                0 => rng.below(4),
                1 => rng.bits(),
                2 => u64::MAX - rng.below(3),
                _ => rng.below(60_000),
            };
            let mut body = Body {
                // Of the hosts that talk none is forged: a message's end is its sender's word.
                src: 3 + rng.below(9) as u32,
                message: FORGED + rng.below(100) as u32,
                payload_bytes: number(&mut rng) as u32,
                transport: 0,
                is_retransmission: rng.below(2) == 0,
                tag: rng.bits() as u8,
                sent_at: Time::ps(number(&mut rng)),
                words: core::array::from_fn(|_| number(&mut rng)),
            };
            let dst = rng.below(3) as u32;
            let (mut frame, mut hops) = (Frame { dst, ..Frame::default() }, HopTrace::default());
            let packet = PacketMut { frame: &mut frame, body: &mut body, hops: &mut hops };
            net.hosts[dst as usize].receive(net.now, packet, &mut net.app);
        }
        net.run(Time::ms(20));
        for heard in &net.app.messages {
            assert!(heard.acked.is_some(), "seed {seed}: {heard:?}");
        }
    }
}
