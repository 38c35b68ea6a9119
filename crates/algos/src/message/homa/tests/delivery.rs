//! Every message arrives, once, whatever the network does.

use std::println;

use super::super::receiver;
use super::*;
use crate::kit::lanes::MAX_LANES;

/// A few dozen messages of many sizes among four hosts, some of them stopped.
fn chaos(seed: u64, params: &HomaParams, faults: Faults) -> Net {
    let mut net = Net::new(4, params, faults, seed);
    let mut rng = Rng::stream(seed, Domain::Traffic, 0);
    for _ in 0..24 {
        let src = rng.below(4) as u32;
        let dst = (src + 1 + rng.below(3) as u32) % 4;
        let size = match rng.below(8) {
            0 => 1,
            1 => MTU as u64 * (1 + rng.below(4)),
            2..5 => 1 + rng.below(10_000),
            5..7 => 1 + rng.below(250_000),
            _ => Message::UNLIMITED,
        };
        let (_, handle) = net.submit(src, dst, size);
        let until = net.now + Span::ns(rng.below(20_000));
        net.run(until);
        if size == Message::UNLIMITED {
            net.run(until + Span::ns(rng.below(30_000)));
            net.hosts[src as usize].stop(net.now, handle);
        }
    }
    net.run(Time::s(60));
    net
}

/// Parameters that are not the usual ones, for some seeds.
fn varied(seed: u64) -> HomaParams {
    let mut params = HomaParams::default();
    match seed % 7 {
        1 => params.overcommitment = 1,
        2 => params.unscheduled_bytes = Extent::Bytes(0.0),
        3 => params.rtt_bytes = Extent::Bytes(3_000.0),
        4 => params.priorities = 1,
        5 => params.tail_boost = Extent::Bdp(1.0),
        6 => params.bubble_bytes = Extent::Bytes(1_600.0),
        _ => {}
    }
    if seed.is_multiple_of(3) {
        params.resend_timeout = Span::us(200);
    }
    params
}

/// `TIDEGATE_SEEDS=20000` runs so many of each.
#[test]
fn every_message_arrives_exactly_once_whatever_the_network_does() {
    let more = std::env::var("TIDEGATE_SEEDS").ok().and_then(|seeds| seeds.parse().ok());
    let mut lost = 0;
    for (loss, duplication, seeds) in
        [(0.0, 0.0, 100), (0.01, 0.0, 600), (0.05, 0.02, 600), (0.3, 0.1, 50)]
    {
        for seed in 0..more.unwrap_or(seeds) {
            let case = alloc::format!("loss {loss}, seed {seed}");
            println!("{case}"); // the last one shown is the one that failed
            let (params, jitter) = (varied(seed), Span::us(1 + seed % 12));
            let usual = params.resend_timeout == TIMEOUT;
            let net = chaos(seed, &params, Faults { loss, duplication, jitter, ..NO_FAULTS });
            assert_all_delivered(&net, &case);
            if loss == 0.0 && duplication == 0.0 && usual {
                assert_eq!(net.resent_bytes, 0, "{case}: nothing was lost");
            }
            lost += net.lost;
        }
    }
    assert!(lost > 10_000, "only {lost} packets were lost");
}

#[test]
fn the_first_packet_of_any_kinds_may_be_lost() {
    let mut lost = 0;
    for first_of in 0..1u32 << KINDS {
        for size in [1, 20_000, 99_000, 400_000, Message::UNLIMITED] {
            let faults = Faults { first_of, ..NO_FAULTS };
            let mut net = Net::new(2, &HomaParams::default(), faults, 1);
            let (id, handle) = net.submit(0, 1, size);
            net.run(Time::us(100));
            net.hosts[0].stop(net.now, handle);
            net.run(Time::s(1));
            let case = alloc::format!("kinds {first_of:b}, {size} B");
            assert_all_delivered(&net, &case);
            // A timeout for each loss, longer from the second in a row; and one for the news.
            let acked = net.app.messages[id as usize].acked.unwrap();
            let bound = Time::ms(5 * ((2 << net.lost) - 1));
            assert!(acked < bound, "{case}: {} lost, done at {acked}", net.lost);
            lost += net.lost;
        }
    }
    assert!(lost > 400, "{lost}");
}

#[test]
fn only_what_was_lost_is_sent_again() {
    for (first_of, resent) in [(DATA, MTU as u64), (GRANT, 0)] {
        let mut net = Net::new(3, &HomaParams::default(), Faults { first_of, ..NO_FAULTS }, 1);
        net.submit(0, 1, 150_000);
        net.run(Time::s(1));
        let done = net.app.messages[0].completed.unwrap();
        assert_eq!(net.resent_bytes, resent);
        // A later grant makes up for a lost one.
        let expected = if first_of == DATA { Time::ms(5) } else { Time::ZERO };
        assert!(done > expected && done < expected + Span::us(100), "{done}");
    }
}

#[test]
fn a_silent_sender_gives_its_place_to_others_and_gets_it_back() {
    let faults = Faults { dead: Some((0, Time::us(60), Time::ms(90))), ..NO_FAULTS };
    let one = HomaParams { overcommitment: 1, ..HomaParams::default() };
    let mut net = Net::new(3, &one, faults, 1);
    net.submit(0, 2, 3_000_000);
    net.run(Time::us(70));
    net.submit(1, 2, 20_000_000);
    net.run(Time::ms(30));
    let waits = net.app.messages[1].delivered;
    assert!(waits < 200_000, "{waits} B while the other one has the only place");
    net.run(Time::ms(60));
    assert!(net.app.messages[1].completed.is_some() && net.app.messages[0].completed.is_none());
    net.run(Time::s(1));
    assert_all_delivered(&net, "after the silence");
}

#[test]
fn a_message_without_end_survives_loss_in_bounded_memory() {
    let faults = Faults { loss: 0.001, jitter: Span::us(3), ..NO_FAULTS };
    let params = HomaParams { resend_timeout: Span::ms(1), ..HomaParams::default() };
    let mut net = Net::new(2, &params, faults, 1);
    let (_, handle) = net.submit(0, 1, Message::UNLIMITED);
    net.run(Time::ms(20));
    let delivered = net.app.messages[0].delivered;
    assert!(delivered > RATE.bytes_in(Span::ms(14)), "{delivered} B");
    assert!(net.hosts[1].inbox.most_ahead() < receiver::MAX_AHEAD);
    net.hosts[0].stop(net.now, handle);
    net.run(Time::s(1));
    let heard = net.app.messages[0];
    assert!(heard.completed.is_some() && heard.delivered - delivered < 1_000_000, "{heard:?}");
    assert_all_delivered(&net, "stopped");
}

#[test]
fn grants_stop_where_the_window_of_a_lost_packet_ends() {
    let params = HomaParams { resend_timeout: Span::ms(20), ..HomaParams::default() };
    let mut net = Net::new(2, &params, Faults { first_of: DATA, ..NO_FAULTS }, 1);
    let bytes = (receiver::MAX_AHEAD + 5_000) * MTU as u64;
    net.submit(0, 1, bytes);
    net.run(Time::ms(15));
    assert_eq!(net.hosts[1].inbox.most_ahead(), receiver::MAX_AHEAD);
    net.run(Time::s(1));
    assert_all_delivered(&net, "the window moved on");
    assert_eq!(net.resent_bytes, MTU as u64);
}

#[test]
fn more_messages_than_lanes_wait_for_one_and_cost_few_acknowledgements() {
    let mut net = Net::new(2, &HomaParams::default(), NO_FAULTS, 1);
    let messages = 2 * MAX_LANES as u64;
    (0..messages).for_each(|_| {
        net.submit(0, 1, 1);
    });
    // One that is stopped while it waits.
    let (_, stopped) = net.submit(0, 1, Message::UNLIMITED);
    net.hosts[0].stop(net.now, stopped);
    net.run(Time::s(1));
    assert_all_delivered(&net, "many");
    assert!(net.control < messages / 4, "{} packets of control", net.control);
}

#[test]
fn both_ways_short_messages_cost_nothing_to_acknowledge() {
    let mut net = Net::new(2, &HomaParams::default(), NO_FAULTS, 1);
    for _ in 0..500 {
        for src in [0, 1] {
            net.submit(src, 1 - src, 100);
        }
        net.run(net.now + Span::us(1));
    }
    net.run(Time::s(1));
    assert_all_delivered(&net, "both ways");
    assert!(net.control < 10, "{} packets of control", net.control);
}

#[test]
fn forged_packets_harm_only_their_senders() {
    for seed in 0..40 {
        println!("seed {seed}");
        let mut net = Net::new(3, &varied(seed), NO_FAULTS, seed);
        let mut rng = Rng::stream(seed, Domain::Faults, 7);
        for _ in 0..30 {
            let src = rng.below(3) as u32;
            net.submit(src, (src + 1) % 3, 1 + rng.below(160_000));
            for _ in 0..200 {
                let mut any = || match rng.below(4) {
                    0 => rng.below(4),
                    1 => rng.below(200_000),
                    2 => u64::MAX - rng.below(4),
                    _ => rng.bits(),
                };
                // A number, or two.
                let mut word = || if any() % 2 == 0 { any() } else { any() << 32 | any() >> 32 };
                let words = core::array::from_fn(|_| word());
                let mut body = Body {
                    src: 3 + any() as u32 % 12,
                    message: any() as u32 | FORGED,
                    payload_bytes: any() as u32,
                    transport: 0,
                    is_retransmission: any() % 2 == 0,
                    tag: any() as u8,
                    sent_at: Time::ps(any()),
                    words,
                };
                let mut frame =
                    Frame { dst: any() as u32 % 3, flags: any() as u8, ..Frame::default() };
                let mut hops = HopTrace::default();
                let packet = PacketMut { frame: &mut frame, body: &mut body, hops: &mut hops };
                // Its reply is for nobody here.
                net.hosts[packet.frame.dst as usize].receive(net.now, packet, &mut net.app);
            }
            let until = net.now + Span::us(2);
            net.run_among(until, 3);
        }
        net.run_among(Time::s(2), 3);
        assert!(net.app.messages.iter().all(|heard| heard.acked.is_some()), "seed {seed}");
    }
}

#[test]
fn a_handle_is_worth_nothing_once_its_message_is_acknowledged() {
    let mut net = Net::new(2, &HomaParams::default(), NO_FAULTS, 1);
    let (_, old) = net.submit(0, 1, 1_000);
    net.run(Time::ms(2));
    assert!(net.app.messages[0].acked.is_some());
    // In the same place, and without end.
    let (id, new) = net.submit(0, 1, Message::UNLIMITED);
    assert_ne!(old, new);
    net.hosts[0].stop(net.now, old);
    assert_eq!(net.hosts[0].limits(old), None);
    net.run(net.now + Span::us(150));
    assert!(net.hosts[0].limits(new).is_some());
    let delivered = net.app.messages[id as usize].delivered;
    assert!(delivered > RATE.bytes_in(Span::us(100)), "{delivered} B");
    net.hosts[0].stop(net.now, new);
    net.run(Time::s(1));
    assert_all_delivered(&net, "stopped by its own");
}
