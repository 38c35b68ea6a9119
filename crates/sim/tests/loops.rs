//! Closed loops: dependencies between messages, and their times.

use std::collections::BTreeMap;

use crate::common::{leaf_spine, run, setup, stack};
use tidegate_core::workload::{Arrival, Pattern, Sizes, Traffic};
use tidegate_core::{Rate, Span, Time};
use tidegate_sim::{FlowRecord, Setup};

/// `clients` by host send requests to the hosts of the other rack, in a fabric of two racks of
/// eight.
fn closed_loop(clients: Vec<u32>, think: Span, exponential: bool) -> Setup {
    let fabric = leaf_spine(2, 8, 4, Rate::gbps(100), Rate::gbps(400), Span::us(1), 1000);
    let mut setup = setup(fabric, stack("swift"), Vec::new(), Time::ms(4));
    let pattern = Pattern::ClosedLoop {
        clients,
        servers: (8..16).collect(),
        replies: Sizes::Fixed(4_000),
        reply_label: 2,
        think,
        exponential,
    };
    setup.workload.traffic = vec![Traffic {
        pattern,
        sizes: Sizes::Fixed(200),
        stack: 0,
        label: 1,
        start: Time::us(10),
        stop: setup.duration,
    }];
    setup
}

/// All rows, by ID.
fn rows(setup: Setup) -> Vec<FlowRecord> {
    let (mut rows, outcome) = run(setup);
    rows.extend(outcome.unfinished);
    rows.sort_by_key(|row| row.id);
    rows
}

#[test]
fn every_client_has_one_exchange_at_a_time() {
    let clients = vec![0, 0, 1, 2, 3, 3, 3];
    let think = Span::us(2);
    let rows = rows(closed_loop(clients.clone(), think, false));
    let (requests, replies): (Vec<&FlowRecord>, Vec<&FlowRecord>) =
        rows.iter().partition(|row| row.label == 1);
    assert!(requests.len() > 1_000, "{}", requests.len());
    // A client's exchanges: its index is the order of IDs within a round.
    let mut by_client: BTreeMap<usize, Vec<(&FlowRecord, Option<&FlowRecord>)>> = BTreeMap::new();
    for request in requests {
        let reply = replies.iter().find(|reply| reply.id == request.id + 1).copied();
        let place = (request.id - (1 << 40)) / 2;
        by_client.entry(place as usize % clients.len()).or_default().push((request, reply));
    }
    assert_eq!(by_client.len(), clients.len());
    for (client, exchanges) in by_client {
        for pair in exchanges.windows(2) {
            let [(request, Some(reply)), (next, _)] = *pair else { panic!("no reply: {pair:?}") };
            assert_eq!((request.src, request.bytes, reply.bytes), (clients[client], 200, 4_000));
            assert_eq!((reply.src, reply.dst), (request.dst, request.src));
            assert!((8..16).contains(&reply.src));
            assert_eq!(Some(reply.start), request.completed, "the server replies at once");
            assert_eq!(next.start, reply.completed.unwrap().after(think));
            let exchange = reply.exchange.unwrap();
            assert_eq!((exchange.requested, exchange.label), (request.start, 1));
            assert!(exchange.is_reply && !request.exchange.unwrap().is_reply);
        }
        assert_eq!(exchanges[0].0.start, Time::us(10));
    }
}

/// Little's law: the number of exchanges in progress equals the number of clients. With so few
/// clients nothing has to wait, so an exchange takes its ideal time.
#[test]
fn exchange_rate_follows_littles_law() {
    for (think, exponential) in [(Span::ZERO, false), (Span::us(40), false), (Span::us(40), true)] {
        let clients: Vec<u32> = (0..8).collect();
        let rows = rows(closed_loop(clients, think, exponential));
        let requests: Vec<_> = rows.iter().filter(|row| row.label == 1).collect();
        let reply = rows.iter().find(|row| row.label == 2).unwrap();
        let alone = requests[0].ideal.plus(reply.ideal);
        let span = Time::ms(4).since(Time::us(10));
        let expected = 8.0 * span.as_us_f64() / alone.plus(think).as_us_f64();
        let ours = requests.len() as f64;
        // If thinking times are random, about 700 rounds differ by at most three deviations of 4 %.
        // Eight clients that select among eight servers coincide occasionally.
        let tolerance = if exponential { 0.12 } else { 0.03 };
        let off = ours / expected - 1.0;
        assert!(off.abs() < tolerance, "{think} {exponential}: {ours} and not {expected}");
    }
}

#[test]
fn no_requests_after_the_stop_or_in_a_drain() {
    let mut stopped = closed_loop(vec![0, 1], Span::ZERO, false);
    stopped.workload.traffic[0].stop = Time::us(500);
    stopped.drain = Span::ms(1);
    let stopped = rows(stopped);
    assert!(stopped.iter().all(|row| row.completed.is_some()));
    let last = |label| stopped.iter().filter(|row| row.label == label).map(|row| row.start).max();
    assert!(last(1).unwrap() < Time::us(500) && last(2).unwrap() > Time::us(490));
    let mut drained = closed_loop(vec![0, 1], Span::ZERO, false);
    drained.drain = Span::ms(1);
    let drained = rows(drained);
    assert!(drained.iter().all(|row| row.start <= Time::ms(4) && row.completed.is_some()));
}

#[test]
fn stop_time_is_exclusive() {
    let starts = |stop| -> Vec<Time> {
        let mut setup = closed_loop(vec![0], Span::us(3), false);
        setup.workload.traffic[0].stop = stop;
        rows(setup).iter().filter(|row| row.label == 1).map(|row| row.start).collect()
    };
    let all = starts(Time::us(500));
    assert!(all.len() > 10);
    assert_eq!(starts(all[9]), all[..9]);
    assert_eq!(starts(all[9] + Span::ps(1)), all[..10]);
}

/// Requests in flight at the end arrive, and are not answered.
#[test]
fn request_that_arrives_in_a_drain_has_no_reply() {
    let mut setup = closed_loop((0..8).cycle().take(64).collect(), Span::ZERO, false);
    setup.drain = Span::ms(1);
    let rows = rows(setup);
    let late = |row: &&FlowRecord| row.label == 1 && row.completed.unwrap() > Time::ms(4);
    assert!(rows.iter().filter(late).count() > 5);
    assert!(rows.iter().all(|row| row.start <= Time::ms(4)));
}

#[test]
fn no_client_asks_its_own_host() {
    let mut setup = closed_loop(vec![8, 8, 11], Span::ZERO, false);
    // Of two servers, one is left for a client on the host of the other.
    if let Pattern::ClosedLoop { servers, .. } = &mut setup.workload.traffic[0].pattern {
        *servers = vec![8, 11];
    }
    let rows = rows(setup);
    assert!(rows.len() > 500 && rows.iter().all(|row| row.src + row.dst == 19), "{}", rows.len());
}

#[test]
fn clients_of_two_blocks_choose_independently() {
    let mut setup = closed_loop(vec![0, 1], Span::ZERO, false);
    let block = Traffic { label: 0, ..setup.workload.traffic[0].clone() };
    setup.workload.traffic.push(block);
    let rows = rows(setup);
    // Client 0 of the first block has index 0 of four, that of the second has index 2.
    let servers = |client: u64| -> Vec<u32> {
        let place = |id: u64| id - (1 << 40);
        let own = |row: &&FlowRecord| place(row.id) % 8 == 2 * client;
        rows.iter().filter(own).take(50).map(|row| row.dst).collect()
    };
    assert_eq!(servers(0).len(), 50);
    assert_ne!(servers(0), servers(2));
}

#[test]
fn other_traffic_changes_no_choice() {
    let servers = |setup| -> Vec<(u64, u32)> {
        let rows = rows(setup);
        rows.iter().filter(|row| row.label == 1).take(100).map(|row| (row.id, row.dst)).collect()
    };
    let alone = closed_loop(vec![0, 1], Span::ZERO, false);
    let mut beside = alone.clone();
    let pattern = Pattern::Poisson { mean_gap_ps: 1e7, senders: vec![2, 3], receivers: vec![9] };
    let block = Traffic { pattern, label: 0, ..beside.workload.traffic[0].clone() };
    beside.workload.traffic.push(block);
    assert_eq!(servers(alone.clone()), servers(beside));
    assert_ne!(servers(alone.clone()), servers(Setup { seed: 2, ..alone }));
}

/// The same messages as without replies, for every pattern, and exactly one reply to each from its
/// destination, as soon as it has arrived.
#[test]
fn open_messages_are_answered_once_on_arrival() {
    let poisson = Pattern::Poisson {
        mean_gap_ps: 5e6,
        senders: (0..8).collect(),
        receivers: (0..16).collect(),
    };
    let list = [(20, 3, 9, 70_000), (20, 9, 3, 1), (500, 3, 9, 5_000)];
    let list = list.map(|(us, src, dst, bytes)| Arrival { at: Time::us(us), src, dst, bytes });
    let incast = Pattern::Incast {
        fan_in: 5,
        dst: None,
        interval: Span::us(100),
        poisson: true,
        jitter: Span::us(3),
    };
    for pattern in [poisson, Pattern::Trace(list.to_vec()), incast] {
        let mut plain = closed_loop(vec![0], Span::ZERO, false);
        plain.workload.traffic[0].pattern = pattern.clone();
        plain.workload.traffic[0].stop = Time::ms(3);
        let mut answered = plain.clone();
        let (of, replies) = (Box::new(pattern), Sizes::Fixed(4));
        let reply_label = 2;
        answered.workload.traffic[0].pattern = Pattern::Answered { of, replies, reply_label };
        let (plain, answered) = (rows(plain), rows(answered));
        let (mut messages, replies): (Vec<FlowRecord>, Vec<FlowRecord>) =
            answered.into_iter().partition(|row| row.label == 1);
        assert_eq!((messages.len(), replies.len()), (plain.len(), plain.len()));
        assert!(!plain.is_empty());
        for (message, reply) in messages.iter().zip(&replies) {
            assert_eq!((reply.src, reply.dst, reply.bytes), (message.dst, message.src, 4));
            assert_eq!(Some(reply.start), message.completed);
            assert!(reply.completed.is_some() && reply.exchange.unwrap().is_reply);
        }
        messages.sort_by_key(|row| (row.start, row.src, row.dst));
        let key = |row: &FlowRecord| (row.start, row.src, row.dst, row.bytes);
        let mut expected: Vec<_> = plain.iter().map(key).collect();
        expected.sort_unstable();
        assert_eq!(messages.iter().map(key).collect::<Vec<_>>(), expected);
    }
}
