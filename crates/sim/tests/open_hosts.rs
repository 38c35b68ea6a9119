//! Hosts outside the simulator compared with simulated ones: they take the same actions, and if
//! messages take the same time as in a run of the engine, their rows equal that run's.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};

use crate::common::{leaf_spine, run, setup, stack};
use tidegate_core::collective::{Collective, Op, Stragglers};
use tidegate_core::workload::{Flow, Pattern, Sizes, Traffic};
use tidegate_core::{Message, Rate, Span, Time};
use tidegate_sim::{FlowRecord, HostAction, MessageStart, NAME_BYTES, OpenHost, OpenRows, Setup};

const HOSTS: u32 = 8;
/// Stop of one of the unlimited flows.
const STOP: Time = Time::us(400);

/// Explicit flows, generated ones, a closed loop and a collective.
fn mixed() -> Setup {
    let fabric = leaf_spine(2, 4, 2, Rate::gbps(100), Rate::gbps(400), Span::us(1), 1000);
    let long = Flow {
        src: 0,
        dst: 7,
        bytes: Message::UNLIMITED,
        start: Time::us(3),
        stop: Time::NEVER,
        stack: 0,
        label: 1,
        dedicated: true,
    };
    let stops = Flow { src: 2, stop: STOP, ..long };
    let flows = vec![long, stops, Flow { src: 1, bytes: 1, start: Time::us(5), ..long }];
    let mut setup = setup(fabric, stack("swift"), flows, Time::ms(1));
    setup.drain = Span::us(200);
    setup.warmup = Time::us(300);
    let all: Vec<u32> = (0..HOSTS).collect();
    let poisson =
        Pattern::Poisson { senders: all.clone(), receivers: all.clone(), mean_gap_ps: 2e7 };
    let closed_loop = Pattern::ClosedLoop {
        clients: vec![0, 1, 1],
        servers: vec![5, 6],
        replies: Sizes::Fixed(40_000),
        reply_label: 3,
        think: Span::us(7),
        exponential: true,
    };
    let ring = Pattern::Collective(Collective {
        op: Op::RingAllReduce,
        hosts: vec![0, 2, 4, 6],
        bytes: 400_000,
        chunks: 2,
        iterations: 3,
        compute: Span::us(5),
        stragglers: Stragglers::default(),
    });
    let block = |pattern, label| Traffic {
        pattern,
        sizes: Sizes::Fixed(8_000),
        stack: 0,
        label,
        start: Time::us(10),
        stop: Time::ms(1),
    };
    setup.workload.traffic = vec![block(poisson, 4), block(closed_loop, 2), block(ring, 5)];
    setup
}

/// Emulates the actions of hosts: messages arrive and are acknowledged at the times in `rows`.
fn emulated(setup: &Setup, rows: &BTreeMap<u64, FlowRecord>) -> Vec<FlowRecord> {
    let mut hosts: Vec<_> =
        (0..HOSTS).map(|host| OpenHost::new(setup.clone(), host).unwrap()).collect();
    // Time and message: its bytes arrive, or its sender receives the acknowledgement.
    let mut coming: BinaryHeap<Reverse<(Time, u64, bool)>> = BinaryHeap::new();
    let mut started: BTreeMap<u64, (u32, MessageStart)> = BTreeMap::new();
    let mut closed = false;
    let mut stopped: Vec<(u32, u32)> = Vec::new();
    loop {
        let due = coming.peek().map_or(Time::NEVER, |Reverse((at, ..))| *at);
        let next = hosts.iter().map(OpenHost::next_at).min().unwrap();
        let now = due.min(next);
        if now > setup.duration && !closed {
            closed = true;
            for (host, open) in (0..).zip(&mut hosts) {
                stopped.extend(open.close().map(|number| (host, number)));
            }
            continue;
        }
        if now == Time::NEVER {
            break;
        }
        for host in 0..HOSTS {
            while let Some(action) = hosts[host as usize].next(now) {
                let message = match action {
                    HostAction::Send(message) => message,
                    HostAction::Stop(number) => {
                        assert_eq!(now, STOP, "a flow stops at its stop time");
                        stopped.push((host, number));
                        continue;
                    }
                };
                let id = u64::from_le_bytes(*message.name.first_chunk().unwrap());
                let row = &rows[&id];
                assert_eq!((row.src, row.dst), (host, message.to));
                assert_eq!(message.bytes, row.bytes.max(NAME_BYTES as u64));
                assert_eq!(message.dedicated, row.label == 1);
                coming.extend(row.completed.map(|at| Reverse((at, id, false))));
                coming.extend(row.acked.map(|at| Reverse((at, id, true))));
                assert!(started.insert(id, (host, message)).is_none(), "{id} starts twice");
            }
        }
        while let Some(&Reverse((at, id, acked))) = coming.peek().filter(|next| next.0.0 <= now) {
            coming.pop();
            let (src, message) = &started[&id];
            if acked {
                hosts[*src as usize].acked(at, message.number);
                continue;
            }
            // Its second half overtakes the first.
            let (to, number) = (&mut hosts[message.to as usize], message.number);
            let mut bytes = message.name.to_vec();
            bytes.resize(message.bytes as usize, 0);
            let half = bytes.len().div_ceil(2).max(NAME_BYTES);
            if half < bytes.len() {
                assert!(to.delivered(at, *src, number, half as u64, &bytes[half..]));
            }
            assert!(to.delivered(at, *src, number, 0, &bytes[..half]));
            to.completed(at, *src, number);
        }
    }
    assert_eq!(hosts.iter().map(OpenHost::open).sum::<u64>(), 0);
    let endless = started.values().filter(|(_, message)| message.bytes == Message::UNLIMITED);
    let mut endless: Vec<_> = endless.map(|(src, message)| (*src, message.number)).collect();
    endless.sort_unstable();
    stopped.sort_unstable();
    assert_eq!(stopped, endless, "each unlimited flow stops once");
    let mut open = OpenRows::new(setup.clone()).unwrap();
    for host in hosts {
        assert!(open.add(&host.leave()));
    }
    assert!(!open.add(b"nonsense"));
    let results = open.finish(setup.duration.after(setup.drain));
    let of_finished: u64 = results.finished.iter().map(|row| row.bytes).sum();
    let delivered: u64 = results.deliveries.iter().map(|of| u64::from(of.bytes)).sum();
    assert_eq!(delivered, of_finished, "each byte is reported once");
    assert!(results.deliveries.is_sorted_by_key(|of| of.at));
    results.finished.into_iter().chain(results.unfinished).collect()
}

#[test]
fn open_hosts_match_simulated_hosts() {
    let setup = mixed();
    let (mut rows, outcome) = run(setup.clone());
    rows.extend(outcome.unfinished);
    let by_id: BTreeMap<u64, FlowRecord> = rows.iter().map(|row| (row.id, *row)).collect();
    for label in 1..=5 {
        assert!(rows.iter().any(|row| row.label == label), "nothing of label {label}");
    }
    let emulated = emulated(&setup, &by_id);
    assert_eq!(emulated.len(), rows.len());
    for (emulated, row) in emulated.iter().zip(&rows) {
        // Arrival times of pieces depend on the network; the unlimited flow has received nothing
        // here. Hosts do not know which messages are listed.
        let of_network = FlowRecord {
            window_bytes: row.window_bytes,
            measured: row.measured,
            delivered_bytes: row.delivered_bytes,
            retransmitted_bytes: row.retransmitted_bytes,
            listed: row.listed,
            ..*emulated
        };
        assert_eq!(of_network, *row);
        let arrived = if row.completed.is_some() { row.bytes } else { 0 };
        assert_eq!(emulated.delivered_bytes, arrived);
    }
}

#[test]
fn several_protocols_are_refused() {
    let mut setup = mixed();
    setup.stacks.push(stack("dctcp"));
    let refused = OpenHost::new(setup, 0).err().unwrap();
    assert!(refused.contains("one protocol per run"), "{refused}");
}
