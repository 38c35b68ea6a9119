//! Stamps in packets: the option that is found, its value and the checksum. The packets pass
//! through `BPF_PROG_TEST_RUN`.

#![allow(clippy::disallowed_types, reason = "a test compares the clock of records")]

use std::thread::sleep;
use std::time::{Duration, Instant};

use libbpf_rs::{MapCore, MapFlags, Object, ObjectBuilder, ProgramInput};
use tidegate_kernel::{PROBE_PROGRAM, Ring, Step};

const ETHERNET: usize = 14;
/// Identifiers of the experiments in bpf/option.h.
const DELAY: u16 = 0x7464;
const FORWARD: u16 = 0x7466;

const PACKET: u64 = 1_500;

/// `waiting` packets join a queue after each packet that leaves; returns the bytes behind those
/// that leave. `order` changes the place of a packet in the queue. A third of the packets after
/// number 3,000 are dropped and count as queued.
fn behind(waiting: u64, order: fn(u64) -> u64) -> Vec<u64> {
    let mut ring = Ring::default();
    let mut behind = Vec::new();
    let time = |packet: u64| 1_000 + 10 * packet;
    for packet in 0..10_000 {
        ring.join(time(packet), PACKET);
        let Some(leaves) = packet.checked_sub(waiting).map(order) else { continue };
        if leaves < 3_000 || leaves % 3 > 0 {
            behind.push(ring.behind(time(leaves), PACKET));
        }
    }
    behind
}

#[test]
fn bytes_behind_a_packet_are_those_that_joined_later() {
    assert!(behind(100, |packet| packet).iter().all(|bytes| *bytes == 100 * PACKET));
    // Neighbours leave in the other order.
    let swapped = behind(200, |packet| packet ^ 1);
    assert!(swapped.iter().all(|bytes| bytes.abs_diff(200 * PACKET) <= 2 * PACKET), "{swapped:?}");
}

#[test]
fn bytes_behind_a_packet_include_the_ring() {
    assert!(behind(5_000, |packet| packet).iter().all(|bytes| *bytes >= 4_095 * PACKET));
}

#[test]
fn bytes_behind_a_packet_are_a_bound_after_drops() {
    let mut ring = Ring::default();
    for packet in 1..=2_000 {
        ring.join(packet, PACKET);
    }
    // The first 1,000 were dropped.
    let behind: Vec<u64> = (1_001..=1_010).map(|packet| ring.behind(packet, PACKET)).collect();
    let most = |n: u64| if n < 3 { 2_000 - 256 * (n + 1) } else { 999 - n };
    assert!((0..).zip(&behind).all(|(n, bytes)| *bytes == most(n) * PACKET), "{behind:?}");
}

#[test]
fn departed_segments_are_not_behind_their_packet() {
    let mut ring = Ring::default();
    // The queue segments the second of three packets into four.
    for (time, packets) in [(1, 1), (2, 4), (3, 1)] {
        ring.join(time, packets * PACKET);
    }
    let leaves = [1, 2, 2, 2, 2, 3];
    let behind = leaves.map(|time| ring.behind(time, PACKET) / PACKET);
    assert_eq!(behind, [5, 4, 3, 2, 1, 0]);
}

/// The programs, or `None` where the kernel refuses them.
fn object() -> Option<Object> {
    match ObjectBuilder::default().open_memory(PROBE_PROGRAM).and_then(|open| open.load()) {
        Ok(object) => {
            let port = object.maps().find(|map| map.name() == "port").unwrap();
            let mut config = vec![0; port.value_size() as usize];
            // 200 Mbit/s: 2^17 kbit/s times 195 / 128.
            config[..8].copy_from_slice(&200_000_000u64.to_ne_bytes());
            config[8..16].copy_from_slice(&(17u64 << 7 | 67).to_ne_bytes());
            port.update(&[0; 4], &config, MapFlags::ANY).unwrap();
            Some(object)
        }
        Err(error) if std::env::var_os("TIDEGATE_KERNEL").is_none() => {
            eprintln!("SKIPPED: the kernel refuses the stamping programs: {error}");
            None
        }
        Err(error) => panic!("{error}"),
    }
}

/// Sum of 16-bit words with end-around carry.
fn sum(bytes: &[u8]) -> u32 {
    let words = bytes.chunks(2).map(|pair| match pair {
        [high, low] => u32::from(*high) << 8 | u32::from(*low),
        rest => u32::from(rest[0]) << 8,
    });
    words.fold(0, |sum, word| (sum + word) % 0xffff)
}

/// Checksum over the pseudo-header and the segment: 0 modulo 0xffff if it is right.
fn residue(packet: &[u8], ip: usize, addresses: std::ops::Range<usize>) -> u32 {
    let segment = &packet[ETHERNET + ip..];
    (sum(&packet[addresses]) + 6 + segment.len() as u32 + sum(segment)) % 0xffff
}

/// A TCP packet with options and a payload, over IPv4 or IPv6.
fn packet(options: &[u8], v6: bool) -> Vec<u8> {
    let mut options = options.to_vec();
    options.resize(options.len().next_multiple_of(4), 0);
    let length = 20 + options.len() + 100;
    let mut packet = vec![0; 12];
    if v6 {
        packet.extend([0x86, 0xdd, 0x60, 0, 0, 0]);
        packet.extend((length as u16).to_be_bytes());
        packet.extend([6, 64]);
        packet.extend([7; 32]);
    } else {
        packet.extend([8, 0, 0x45, 0]);
        packet.extend((20 + length as u16).to_be_bytes());
        packet.extend([0, 1, 0, 0, 64, 6, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2]);
    }
    let tcp = packet.len();
    packet.extend([0x12, 0x34, 0x14, 0x51, 0, 0, 0, 1, 0, 0, 0, 2]);
    packet.extend([((20 + options.len()) as u8 / 4) << 4, 0x10, 1, 0, 0, 0, 0, 0]);
    packet.extend(&options);
    packet.extend((0..100u8).map(|x| x.wrapping_mul(7)));
    let ip = tcp - ETHERNET;
    let check = 0xffff - residue(&packet, ip, place_of_addresses(v6));
    packet[tcp + 16..tcp + 18].copy_from_slice(&(check as u16).to_be_bytes());
    packet
}

fn place_of_addresses(v6: bool) -> std::ops::Range<usize> {
    if v6 { ETHERNET + 8..ETHERNET + 40 } else { ETHERNET + 12..ETHERNET + 20 }
}

/// Stamps a packet with these options and returns them. The checksum must be right afterwards.
fn stamped(object: &Object, options: &[u8], v6: bool, delay_ns: u32, queue: u32) -> Vec<u8> {
    stamped_segments(object, options, v6, delay_ns, queue, 0)
}

/// The packet stands for several segments, with offloads.
fn stamped_segments(
    object: &Object,
    options: &[u8],
    v6: bool,
    delay_ns: u32,
    queue: u32,
    segments: u32,
) -> Vec<u8> {
    let before = packet(options, v6);
    let mut after = vec![0; before.len()];
    // `mark`, `priority`, `gso_segs` and `gso_size` of `struct __sk_buff`.
    let mut context = vec![0; 192];
    context[8..12].copy_from_slice(&delay_ns.to_ne_bytes());
    context[32..36].copy_from_slice(&queue.to_ne_bytes());
    context[164..168].copy_from_slice(&segments.to_ne_bytes());
    context[176..180].copy_from_slice(&(100 / segments.max(1)).to_ne_bytes());
    let probe = object.progs_mut().find(|program| program.name() == "probe").unwrap();
    let input = ProgramInput {
        data_in: Some(&before),
        data_out: Some(&mut after),
        context_in: Some(&mut context),
        repeat: 1,
        ..ProgramInput::default()
    };
    probe.test_run(input).unwrap();
    let ip = if v6 { 40 } else { 20 };
    assert_eq!(residue(&after, ip, place_of_addresses(v6)), 0, "checksum");
    let tcp = ETHERNET + ip;
    let options = tcp + 20..tcp + 20 + options.len();
    // Nothing else has changed.
    let same = |at: &usize| options.contains(at) || (tcp + 16..tcp + 18).contains(at);
    assert!((0..after.len()).filter(|at| !same(at)).all(|at| before[at] == after[at]));
    after[options].to_vec()
}

fn delay(value: u16) -> Vec<u8> {
    let [high, low] = value.to_be_bytes();
    vec![253, 8, (DELAY >> 8) as u8, DELAY as u8, high, low, 0xab, 0xcd]
}

/// Two bytes of padding and a timestamp.
fn timestamp() -> Vec<u8> {
    vec![1, 1, 8, 10, 9, 8, 7, 6, 5, 4, 3, 2]
}

#[test]
fn delays_are_raised_and_never_lowered() {
    let Some(object) = object() else { return };
    for v6 in [false, true] {
        for (before, ns, after) in [
            (0, 4_190_000, 16_367),
            (0, 4_239_000, 16_471),
            (16_000, 4_239_000, 16_471),
            (17_000, 4_239_000, 17_000),
            (17_000, 40_000_000, 42_533),
            // A switch without a queue has stamped, too.
            (0, 0, 1),
            (0, u32::MAX, 0xffff),
        ] {
            let options = [timestamp(), delay(before)].concat();
            let result = stamped(&object, &options, v6, ns, 0);
            assert_eq!(result, [timestamp(), delay(after)].concat(), "{before} {ns}");
        }
    }
}

#[test]
fn option_at_odd_offset_keeps_the_checksum_right() {
    let Some(object) = object() else { return };
    let options = [vec![1], delay(3), vec![1; 3]].concat();
    let result = stamped(&object, &options, false, 1_000_000, 0);
    assert_eq!(result, [vec![1], delay(3906), vec![1; 3]].concat());
}

#[test]
fn missing_foreign_and_truncated_options_are_left() {
    let Some(object) = object() else { return };
    let foreign = vec![253, 8, 0x12, 0x34, 0, 0, 0, 0];
    let mut long = delay(0);
    (long[1], long) = (12, [long.clone(), vec![0; 4]].concat());
    long[1] = 12;
    let mut beyond = delay(0);
    beyond[1] = 40;
    for options in [
        vec![],
        timestamp(),
        foreign,
        long,
        beyond,
        // The list ends before the option.
        [vec![0], delay(0)].concat(),
        vec![253, 4, (DELAY >> 8) as u8, DELAY as u8],
        // An option without length, and one of length 0.
        vec![1, 1, 1, 253],
        vec![8, 0, 1, 1],
    ] {
        assert_eq!(stamped(&object, &options, false, 1_000_000, 0), options);
    }
}

fn records(words: &[u64]) -> Vec<u8> {
    let head = vec![253, 4 + 8 * words.len() as u8, (FORWARD >> 8) as u8, FORWARD as u8];
    [head, words.iter().flat_map(|word| word.to_be_bytes()).collect()].concat()
}

fn words(options: &[u8]) -> Vec<u64> {
    options[4..].as_chunks().0.iter().map(|word| u64::from_be_bytes(*word)).collect()
}

#[test]
fn bytes_of_udp_count_the_headers_of_all_segments() {
    let Some(object) = object() else { return };
    let probe = object.progs_mut().find(|program| program.name() == "probe").unwrap();
    // Segments of other protocols (47: GRE) have headers of unknown size, which do not count.
    for (v6, protocol, headers) in
        [(false, 17, ETHERNET + 28), (true, 17, ETHERNET + 48), (false, 47, 0)]
    {
        // A segment of TCP without options becomes a datagram by the number of its protocol.
        let mut datagram = packet(&[], v6);
        datagram[ETHERNET + if v6 { 6 } else { 9 }] = protocol;
        let mut context = vec![0; 192];
        context[164..168].copy_from_slice(&5u32.to_ne_bytes());
        context[176..180].copy_from_slice(&20u32.to_ne_bytes());
        let input = ProgramInput {
            data_in: Some(&datagram),
            context_in: Some(&mut context),
            repeat: 1,
            ..ProgramInput::default()
        };
        let before = counter(&object, 2);
        probe.test_run(input).unwrap();
        let expected = datagram.len() + 4 * headers;
        assert_eq!(counter(&object, 2) - before, expected as u64, "{protocol}");
    }
}

/// One of the counters of the port.
fn counter(object: &Object, at: usize) -> u64 {
    let counters = object.maps().find(|map| map.name() == "counters").unwrap();
    let value = counters.lookup(&[0; 4], MapFlags::ANY).unwrap().unwrap();
    u64::from_ne_bytes(value[at * 8..at * 8 + 8].try_into().unwrap())
}

/// Bytes of a packet over IPv4 with three records, whose headers have 82 of them.
const PROBE: u64 = 182;

#[test]
fn records_count_the_headers_of_all_segments() {
    let Some(object) = object() else { return };
    for (v6, network) in [(false, 0), (true, 20)] {
        let mut bytes = Vec::new();
        for segments in [0, 1, 2, 10, 50] {
            let options = stamped_segments(&object, &records(&[0; 3]), v6, 0, 0, segments);
            bytes.push(words(&options)[0] >> 16 & 0xffff);
        }
        let expected = [0, 0, 1, 9, 49].map(|more| (PROBE + network + more * (82 + network)) / 64);
        assert_eq!(bytes, expected);
    }
}

#[test]
fn records_fill_in_order_and_the_rest_is_counted() {
    let Some(object) = object() else { return };
    let mut options = records(&[0; 3]);
    for hop in 0..3 {
        options = stamped(&object, &options, false, 0, 128 * (hop + 1) + 5);
        let words = words(&options);
        assert_eq!(words.iter().filter(|word| **word != 0).count(), hop as usize + 1);
        let word = words[hop as usize];
        assert_eq!(
            (word >> 52, word >> 16 & 0xffff, word & 0xffff),
            (17 << 7 | 67, PROBE / 64, hop as u64 + 1)
        );
    }
    let full = stamped(&object, &options, false, 0, 0);
    // The last record says that a hop is missing.
    let expected = [&words(&options)[..2], &[words(&options)[2] | 0x8000]].concat();
    assert_eq!((words(&full), counter(&object, 6)), (expected, 1));
    // The control reads what was written: time, bytes sent, queue and rate.
    let mut step = Step { op: Step::RECORD, a: words(&options)[1], ..Step::default() };
    step.run();
    let [at, tx, queue, rate] = *step.ack[6..].first_chunk().unwrap();
    assert_eq!(at >> 6, words(&options)[1] >> 32 & 0xfffff);
    assert_eq!((tx, queue, rate), (PROBE / 64 * 64, 256, 199_680_000));
    // A large queue saturates.
    let large = stamped(&object, &records(&[0]), false, 0, u32::MAX);
    assert_eq!(words(&large)[0] & 0xffff, 0x7fff);
}

/// At most 16 options are searched.
#[test]
fn options_behind_padding_are_found() {
    let Some(object) = object() else { return };
    for (padding, after) in [(15, 3906), (16, 3)] {
        let options = [vec![1; padding], delay(3)].concat();
        let result = stamped(&object, &options, false, 1_000_000, 0);
        assert_eq!(result[padding..], delay(after), "{padding}");
    }
}

/// A header of IPv4 with options of its own is longer.
#[test]
fn options_behind_options_of_ip_are_found() {
    let Some(object) = object() else { return };
    let probe = object.progs_mut().find(|program| program.name() == "probe").unwrap();
    let mut packet = packet(&delay(0), false);
    packet[ETHERNET] = 0x46;
    packet.splice(ETHERNET + 20..ETHERNET + 20, [1; 4]);
    let input = ProgramInput { data_in: Some(&packet), repeat: 1, ..Default::default() };
    assert_eq!(probe.test_run(input).unwrap().return_value, 1);
}

/// A queue of unknown rate only stamps delays.
#[test]
fn records_need_a_rate() {
    let Some(object) = object() else { return };
    let port = object.maps().find(|map| map.name() == "port").unwrap();
    port.update(&[0; 4], &vec![0; port.value_size() as usize], MapFlags::ANY).unwrap();
    assert_eq!(words(&stamped(&object, &records(&[0]), false, 0, 0)), [0]);
    assert_ne!(stamped(&object, &delay(0), false, 1_000_000, 0), delay(0));
}

/// Only the first fragment has the header of TCP; payload of others may look like one.
#[test]
fn later_fragments_are_left() {
    let Some(object) = object() else { return };
    let probe = object.progs_mut().find(|program| program.name() == "probe").unwrap();
    for (place, stamps) in [(0u16, 1), (0x2000, 1), (1, 0), (0x3000, 0)] {
        let mut fragment = packet(&delay(0), false);
        fragment[ETHERNET + 6..ETHERNET + 8].copy_from_slice(&place.to_be_bytes());
        let input = ProgramInput { data_in: Some(&fragment), repeat: 1, ..Default::default() };
        assert_eq!(probe.test_run(input).unwrap().return_value, stamps, "{place:#x}");
    }
}

#[test]
fn records_have_the_time_in_nanoseconds() {
    let Some(object) = object() else { return };
    let at = || (words(&stamped(&object, &records(&[0]), false, 0, 0))[0] >> 32 & 0xfffff) << 6;
    let (least, passed, most) = loop {
        let begin = Instant::now();
        let (first, between) = (at(), Instant::now());
        sleep(Duration::from_millis(10));
        let (least, last, most) = (between.elapsed(), at(), begin.elapsed());
        // The field wraps after 67 ms.
        if most < Duration::from_millis(60) {
            break (
                least.as_nanos() as u64,
                last.wrapping_sub(first) & 0x3ff_ffff,
                most.as_nanos() as u64,
            );
        }
    };
    assert!((least - 64..=most + 64).contains(&passed), "{least} {passed} {most}");
}
