//! Datagrams over 127.0.0.1 through a switch in its own thread. Bounds of times allow for a busy
//! machine.
#![cfg(target_os = "linux")]
#![allow(missing_docs)]

use std::time::Duration;

use crate::common::{
    Arrived, Host, Network, WIRE_BYTES, config, fabric, over, payload, request, switch, through,
};
use nix::time::{ClockId, clock_gettime};
use tidegate_core::fabric::{Buffer, CreditQueue, Ecn, Link, MarkAt, Node};
use tidegate_core::wire::telemetry;
use tidegate_core::{Dilation, Frame, HopTrace, Rate, Span, frame_flag};
use tidegate_switch::datagram::MOST_BYTES;
use tidegate_switch::{Places, Report, SoftwareSwitch};

/// A low rate, so that a burst ends before much of it has left, even if its sender is preempted: a
/// datagram leaves in 8.5 ms.
const RATE: Rate = Rate::mbps(1);
/// ECN-capable.
const ECT: u8 = 0b10;
const CE: u8 = 0b11;

#[test]
fn flood_leaves_at_port_rate() {
    let rate = Rate::mbps(2);
    let mut switch = switch();
    switch.buffer = Buffer::Shared { bytes: 100_000, alpha: f64::INFINITY };
    let (arrived, report) = through(config(switch, 2, rate), |hosts, paths| {
        // A burst of twice the buffer: its remainder keeps the port busy for 400 ms, even if the
        // sender is late.
        let number = 2 * 100_000 / WIRE_BYTES;
        (0..number).for_each(|_| hosts[0].send(paths[0], 0, &payload(0)));
        hosts[1].all(Duration::from_millis(300))
    });
    let [first, .., last] = &arrived[..] else { panic!("{} arrived", arrived.len()) };
    let bps = (arrived.len() - 1) as f64 * WIRE_BYTES as f64 * 8.0 / (last.at - first.at);
    let share = bps / rate.as_bps() as f64;
    assert!((0.95..=1.05).contains(&share), "{share} of the port's rate");
    let port = &report.ports[1];
    assert_eq!(port.packets, arrived.len() as u64);
    assert_eq!(port.drops + port.packets, report.counts.received);
    assert!(port.drops > port.packets / 2, "{} refused", port.drops);
    assert!(port.queue_bytes.max > 98_000.0 && port.queue_bytes.max <= 100_000.0);
    assert_eq!(report.counts.overrun, 0);
}

/// Sends a burst and returns the received datagrams.
fn burst(change: impl FnOnce(&mut tidegate_core::fabric::Switch), number: usize) -> Vec<Arrived> {
    let mut switch = switch();
    change(&mut switch);
    let (arrived, _) = through(config(switch, 2, RATE), |hosts, paths| {
        (0..number).for_each(|i| hosts[0].send(paths[0], ECT, &payload(i as u32)));
        hosts[1].all(Duration::from_millis(300))
    });
    assert!(arrived.is_sorted_by_key(|datagram| datagram.number()), "in order");
    arrived
}

#[test]
fn marking_threshold() {
    let ecn = Ecn {
        min_bytes: 20e3,
        max_bytes: 20e3,
        max_probability: 1.0,
        at: MarkAt::Enqueue,
        core_only: false,
        per: None,
    };
    let arrived = burst(|switch| switch.ecn = Some(ecn), 60);
    assert_eq!(arrived.len(), 60);
    let first = arrived.iter().position(|datagram| datagram.tos == CE).expect("a mark");
    // At 20 KB, one datagram is in service and nineteen wait; some may have left meanwhile.
    assert!((20..26).contains(&first), "the first mark is on datagram {first}");
    assert!(arrived[first..].iter().all(|datagram| datagram.tos == CE));
    assert!(arrived[..first].iter().all(|datagram| datagram.tos == ECT));
}

#[test]
fn buffer_capacity() {
    let bytes = 30 * WIRE_BYTES as u64;
    let arrived = burst(|switch| switch.buffer = Buffer::Shared { bytes, alpha: 1e9 }, 60);
    assert!((31..37).contains(&arrived.len()), "{} were accepted", arrived.len());
    // By the dynamic threshold, one port may use half of the buffer.
    let arrived = burst(|switch| switch.buffer = Buffer::Shared { bytes, alpha: 1.0 }, 60);
    assert!((16..22).contains(&arrived.len()), "{} were accepted", arrived.len());
}

#[test]
fn telemetry_of_queues() {
    const NUMBER: u32 = 40;
    let ((sent, arrived), _) = through(config(switch(), 2, RATE), |hosts, paths| {
        let send = |number| {
            let at = hosts[0].clock().as_secs_f64();
            hosts[0].send(paths[0], 0, &request(number));
            at
        };
        let sent: Vec<f64> = (0..NUMBER).map(send).collect();
        (sent, hosts[1].all(Duration::from_millis(300)))
    });
    assert_eq!(arrived.len(), NUMBER as usize);
    let mut errors = Vec::new();
    let mut before = None;
    for (number, datagram) in arrived.iter().enumerate() {
        let (mut frame, mut hops) = (Frame::default(), HopTrace::default());
        let rest = telemetry::parse(&datagram.bytes, &mut frame, &mut hops).unwrap();
        assert_eq!(rest, payload(number as u32));
        let [hop] = hops.as_slice() else { panic!("{hops:?}") };
        let wire = request(0).len() as u64 + tidegate_switch::datagram::WIRE_OVERHEAD_BYTES as u64;
        assert_eq!((hop.rate, hop.tx_bytes), (RATE, wire * number as u64));
        // Back to back: each starts when the previous one has left.
        if let Some(before) = before.replace(hop.at)
            && frame.peak_hop_delay > Span::ZERO
        {
            assert_eq!(hop.at, before + RATE.serialise(wire));
        }
        // After the burst, no datagram joins: the queue shrinks by one per departure.
        let behind = (NUMBER as usize - 1 - number) as u32 * wire as u32;
        assert!(hop.queue_bytes <= behind);
        assert!(number < 20 || hop.queue_bytes == behind, "{} B behind", hop.queue_bytes);
        let waited = frame.peak_hop_delay.as_s_f64() + RATE.serialise(wire).as_s_f64();
        errors.push(datagram.at - sent[number] - waited);
    }
    let last = arrived.last().unwrap().at - sent[NUMBER as usize - 1];
    assert!(last > 0.01, "the last waited for {last} s");
    errors.sort_by(f64::total_cmp);
    let (least, median) = (errors[0], errors[errors.len() / 2]);
    assert!(least > -50e-6, "{least} s: earlier than stamped");
    assert!(median < 2e-3, "{median} s: median lateness");
}

#[test]
fn strict_priority() {
    let (arrived, report) = through(config(switch(), 2, RATE), |hosts, paths| {
        (0..40).for_each(|i| hosts[0].send(paths[0], 0, &payload(i)));
        (40..45).for_each(|i| hosts[0].send(paths[0], 56 << 2 | ECT, &payload(i)));
        hosts[1].all(Duration::from_millis(300))
    });
    assert_eq!((arrived.len(), report.ports[1].drops), (45, 0));
    let high: Vec<usize> = (0..45).filter(|&i| arrived[i].number() >= 40).collect();
    let tos: Vec<u8> = high.iter().map(|&i| arrived[i].tos).collect();
    assert_eq!(tos, [56 << 2 | ECT; 5]);
    assert_eq!(high[4] - high[0], 4, "consecutive");
    assert!(high[4] < 15, "the last of them is datagram {}", high[4]);
}

#[test]
fn credit_queue() {
    let mut switch = switch();
    switch.credit_queue = Some(CreditQueue { share: 0.05, bytes: 840, burst_bytes: 168 });
    let credit = 56 << 2 | 0b11 << 2;
    let (arrived, report) = through(config(switch, 2, RATE), |hosts, paths| {
        (0..30).for_each(|i| hosts[0].send(paths[0], credit, &i32::to_be_bytes(i)));
        hosts[1].all(Duration::from_millis(300))
    });
    // One is sent at once and ten wait; more may be accepted while others are still being sent.
    assert!((11..16).contains(&arrived.len()), "{} credits left", arrived.len());
    assert_eq!(report.ports[1].credit_drops, 30 - arrived.len() as u64);
    // 84 B at a twentieth of 1 Mbit/s: 13,440 us each.
    let most = report.ports[1].queue_delay_us.max;
    assert!(
        (8.0 * 13_440.0..10.0 * 13_440.0 + 1.0).contains(&most),
        "the last waited for {most} us"
    );
}

#[test]
fn arbitrary_payload_is_unchanged() {
    let mut all: Vec<Vec<u8>> = (0..200u32)
        .map(|i| {
            let mut bytes = request(i);
            bytes[(i as usize * 7) % 16] ^= 1 << (i % 8);
            bytes.truncate(1 + (i as usize * 13) % 40);
            bytes
        })
        .filter(|bytes| {
            let (mut frame, mut hops) = (Frame::default(), HopTrace::default());
            let is_sound = telemetry::parse(bytes, &mut frame, &mut hops).is_ok();
            !is_sound || frame.flags & (frame_flag::STAMP_PEAK | frame_flag::STAMP_HOPS) == 0
        })
        .collect();
    assert!(all.len() > 100, "{} without requests", all.len());
    all.push(Vec::new());
    let (arrived, report) = through(config(switch(), 2, Rate::gbps(1)), |hosts, paths| {
        all.iter().for_each(|bytes| hosts[0].send(paths[0], 0, bytes));
        hosts[0].send(paths[0], 0, &vec![0; MOST_BYTES + 1]);
        Host::new().send(paths[0], 0, b"from elsewhere");
        hosts[1].all(Duration::from_millis(300))
    });
    assert_eq!(arrived.into_iter().map(|of| of.bytes).collect::<Vec<_>>(), all);
    let counts = report.counts;
    assert_eq!((counts.too_long, counts.filtered), (1, 1));
    assert_eq!((counts.sent, counts.unsent), (all.len() as u64, 0));
}

#[test]
fn source_addresses() {
    let (seen, _) = through(config(switch(), 3, Rate::mbps(100)), |hosts, paths| {
        // By sender, then receiver: 01 02 10 12 20 21.
        hosts[2].send(paths[4], 0, b"from 2 to 0");
        hosts[1].send(paths[2], 0, b"from 1 to 0");
        hosts[0]
            .all(Duration::from_millis(300))
            .into_iter()
            .map(|of| (of.bytes, paths.iter().position(|path| *path == of.from)))
            .collect::<Vec<_>>()
    });
    let mut seen = seen;
    seen.sort();
    let expected = [(b"from 1 to 0".to_vec(), Some(0)), (b"from 2 to 0".to_vec(), Some(1))];
    assert_eq!(seen, expected);
}

#[test]
fn two_hops() {
    let link = |a, b, mbps| Link { a, b, rate: Rate::mbps(mbps), delay: Span::ZERO };
    let links = vec![
        link(Node::Host(0), Node::Switch(0), 20),
        link(Node::Host(1), Node::Switch(1), 1),
        link(Node::Switch(0), Node::Switch(1), 2),
    ];
    let mut second = switch();
    second.name = "s1".into();
    let fabric = fabric(vec![switch(), second], links, 2);
    let hosts = vec![Host::new(), Host::new()];
    let (arrived, _) = through(over(fabric, hosts), |hosts, paths| {
        (0..30).for_each(|i| hosts[0].send(paths[0], 0, &request(i)));
        hosts[1].all(Duration::from_millis(300))
    });
    assert_eq!(arrived.len(), 30);
    for (number, datagram) in arrived.iter().enumerate() {
        let (mut frame, mut hops) = (Frame::default(), HopTrace::default());
        telemetry::parse(&datagram.bytes, &mut frame, &mut hops).unwrap();
        let [first, last] = hops.as_slice() else { panic!("{hops:?}") };
        assert_eq!([first.rate, last.rate], [Rate::mbps(2), RATE]);
        let wire = request(0).len() as u64 + tidegate_switch::datagram::WIRE_OVERHEAD_BYTES as u64;
        let landed = first.at + first.rate.serialise(wire);
        assert!(landed <= last.at, "it arrives over the first link before it leaves on the second");
        // From the third packet on, the second queue is longer.
        let waited = last.at - landed;
        assert!(number < 2 || frame.peak_hop_delay >= waited);
        assert!(number < 20 || waited > Span::ms(25), "{waited}");
    }
}

/// Sends a burst of forty; returns the received datagrams and the report of the switch.
fn forty(network: Network) -> (Vec<Arrived>, Report) {
    through(network, |hosts, paths| {
        (0..40).for_each(|i| hosts[0].send(paths[0], 0, &payload(i)));
        hosts[1].all(Duration::from_millis(300))
    })
}

/// Seconds from the first to the last arrival.
fn lasted(arrived: &[Arrived]) -> f64 {
    assert_eq!(arrived.len(), 40);
    arrived[39].at - arrived[0].at
}

#[test]
fn emulated_uplinks() {
    let mut network = config(switch(), 2, RATE);
    network.config.uplinks = true;
    let (arrived, report) = forty(network);
    let packet = RATE.serialise(WIRE_BYTES as u64).as_s_f64();
    assert!((lasted(&arrived) / (39.0 * packet) - 1.0).abs() < 0.1, "{}", lasted(&arrived));
    // They waited before the switch, whose port is as fast as their link.
    assert_eq!(report.ports[1].queue_bytes.max, 0.0);
    let [uplink, other] = &report.uplinks[..] else { panic!("{:?}", report.uplinks) };
    assert_eq!((uplink.from, uplink.to), (Node::Host(0), Node::Switch(0)));
    assert_eq!((uplink.packets, uplink.wire_bytes), (40, 40 * WIRE_BYTES as u64));
    let used = 40.0 * packet / report.seconds;
    assert!((uplink.utilisation / used - 1.0).abs() < 0.05, "{} of {used}", uplink.utilisation);
    assert_eq!((other.packets, other.utilisation), (0, 0.0));
    let (_, report) = forty(config(switch(), 2, RATE));
    assert!(report.ports[1].queue_bytes.max > 30.0 * WIRE_BYTES as f64);
    assert!(report.uplinks.is_empty());
}

#[test]
fn uplink_backlog_is_bounded() {
    let mut network = config(switch(), 2, Rate::mbps(1));
    network.config.uplinks = true;
    let (_, report) = through(network, |hosts, paths| {
        let big = vec![0; 60_000];
        for _ in 0..150 {
            hosts[0].send(paths[0], 0, &big);
            std::thread::sleep(Duration::from_millis(1));
        }
    });
    // 4 MiB are 69 datagrams.
    let taken = report.uplinks[0].packets;
    assert!((70..=72).contains(&taken), "{taken} of {:?}", report.counts);
    assert_eq!(report.counts.too_fast + taken, report.counts.received);
}

#[test]
fn dilated_clock() {
    let mut network = config(switch(), 2, Rate::mbps(100));
    let origin = clock_gettime(ClockId::CLOCK_MONOTONIC).unwrap().into();
    network.config.clock = Some(Dilation { origin, factor: 100 });
    let (arrived, report) = forty(network);
    let packet = RATE.serialise(WIRE_BYTES as u64).as_s_f64();
    assert!((lasted(&arrived) / (39.0 * packet) - 1.0).abs() < 0.1, "{}", lasted(&arrived));
    // 0.3 s plus the silence, divided by 100.
    assert!((0.003..0.03).contains(&report.seconds), "{}", report.seconds);
    // The wait for 38 others at 100 Mbit/s, in the time of the switch.
    let most = 39.0 * 80.0;
    let waited = report.ports[1].queue_delay_us.max;
    assert!(waited > 0.7 * most && waited <= most, "{waited} us");
}

#[test]
fn measurements_can_be_reset() {
    let mut network = config(switch(), 2, RATE);
    network.config.uplinks = true;
    let mut switch = SoftwareSwitch::open(&network.config).unwrap();
    let to = switch.paths()[0].at;
    network.hosts[0].send(to, 0, &payload(0));
    let start = network.hosts[0].clock();
    let until = |after: u64| start + Duration::from_millis(after);
    switch.run(|_| network.hosts[0].clock() < until(100)).unwrap();
    let before = switch.report();
    assert_eq!((before.ports[1].packets, before.counts.sent), (1, 1));
    assert!(before.uplinks[0].packets == 1 && before.late_us.max > 0.0);
    switch.measure_anew();
    switch.run(|_| network.hosts[0].clock() < until(150)).unwrap();
    let after = switch.report();
    assert_eq!((after.ports[1].packets, after.ports[1].utilisation), (0, 0.0));
    assert_eq!((after.uplinks[0].packets, after.late_us.max), (0, 0.0));
    assert!(after.seconds > 0.03 && after.seconds < before.seconds, "{}", after.seconds);
}

#[test]
fn overrun_is_counted() {
    let network = config(switch(), 2, Rate::gbps(10));
    let mut switch = SoftwareSwitch::open(&network.config).unwrap();
    let to = switch.paths()[0].at;
    let forward = |switch: &mut SoftwareSwitch| {
        let until = network.hosts[0].clock() + Duration::from_millis(100);
        switch.run(|_| network.hosts[0].clock() < until).unwrap();
    };
    // More than its socket holds while the switch is idle; the kernel reports it with the next
    // datagram.
    let big = vec![0; 60_000];
    (0..300).for_each(|_| network.hosts[0].send(to, 0, &big));
    forward(&mut switch);
    network.hosts[0].send(to, 0, &payload(0));
    forward(&mut switch);
    let counts = switch.report().counts;
    assert!(counts.received < 301, "the small buffer held all datagrams");
    assert_eq!(counts.overrun, 301 - counts.received);
}

#[test]
fn hosts_of_one_place() {
    let mut network = config(switch(), 3, RATE);
    // The first two hosts are at one port, the third at another.
    let Places::Addresses { hosts, .. } = &mut network.config.places else { unreachable!() };
    let [first, second, third] = [0, 1, 2].map(|host: usize| hosts[host][0]);
    *hosts = vec![vec![first, second], vec![third], Vec::new()];
    let (arrived, report) = through(network, |hosts, paths| {
        // The first host sends to the address at which the third reaches the second.
        hosts[0].send(paths[3], 0, b"neighbour");
        hosts[2].send(paths[3], 0, b"from afar");
        hosts[1].all(Duration::from_millis(300))
    });
    let [only] = &arrived[..] else { panic!("{} arrived", arrived.len()) };
    assert_eq!(only.bytes, b"from afar");
    assert_eq!(report.counts.filtered, 1);
}
