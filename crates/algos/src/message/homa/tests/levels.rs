//! Cut-offs and levels: values of the reference, and their purpose.

use alloc::collections::BTreeMap;

use super::super::cutoffs::{Curve, Levels};
use super::super::packets::Packets;
use super::*;

/// A workload of Homa's simulator: only the listed sizes occur.
fn workload(text: &str) -> SizeMix {
    let rows = text.lines().filter(|line| line.starts_with(|c: char| c.is_ascii_digit()));
    let mut below = 0.0;
    let points = rows.map(|row| {
        let (size, cdf) = row.split_once(',').unwrap();
        let (size, cdf): (u64, f64) = (size.parse().unwrap(), cdf.parse().unwrap());
        let share = cdf - below;
        below = cdf;
        (size, share)
    });
    SizeMix { points: points.filter(|&(_, share)| share > 0.0).collect() }
}

macro_rules! workload {
    ($file:literal) => {
        workload(include_str!(concat!("../../../../../scenario/workloads/", $file, ".csv")))
    };
}

fn curve(sizes: &SizeMix, rtt_bytes: u64) -> Curve {
    let mtu = MTU as u64;
    Curve::of(
        sizes,
        Packets { mtu, sizes: PacketSizes::STANDARD, unscheduled: rtt_bytes.div_ceil(mtu) },
        rtt_bytes,
        0,
    )
    .unwrap()
}

fn levels(sizes: &SizeMix, scheduled: u32) -> Levels {
    Levels::new(8, 8, scheduled, Some(&curve(sizes, 100_000)), 100_000)
}

#[test]
fn cut_offs_are_those_of_the_authors_simulator() {
    // There a granted packet carries 14 B more, so there are slightly fewer grants.
    let w3 = workload!("homa-w3");
    for (scheduled, expected) in [(5, &[2_644, 26_554][..]), (4, &[1_349, 7_696, 50_259][..])] {
        let levels = levels(&w3, scheduled);
        assert_eq!(levels.cuts().len(), expected.len());
        for (&cut, &expected) in levels.cuts().iter().zip(expected) {
            let error = cut as f64 / expected as f64 - 1.0;
            assert!(error.abs() < 0.003, "{cut}, expected {expected}");
        }
    }
}

#[test]
fn shares_without_a_grant_are_those_of_the_reference() {
    let mixes = [
        (workload!("homa-w1"), 1.00, 1.00),
        (workload!("homa-w2"), 0.93, 0.805),
        (workload!("homa-w3"), 0.57, 0.31),
        (workload!("homa-w4"), 0.17, 0.03),
        (workload!("homa-w5"), 0.025, 0.004),
    ];
    let scheduled = mixes.map(|(sizes, long, short)| {
        for (rtt_bytes, expected) in [(100_000, long), (9_328, short)] {
            let share = curve(&sizes, rtt_bytes).unscheduled_share;
            // Here in whole packets.
            assert!((share - expected).abs() < 0.008, "{share}, expected {expected}");
        }
        Levels::new(8, 8, 0, Some(&curve(&sizes, 9_328)), 10_000).scheduled
    });
    // In proportion; in the paper's figure 4, W2 has two of eight for granted packets.
    assert_eq!(scheduled, [1, 2, 5, 7, 7]);
}

#[test]
fn every_level_carries_as_many_bytes() {
    let w2 = workload!("homa-w2");
    let (levels, mtu) = (levels(&w2, 2), MTU as u64);
    let (mut bytes, mut by_left) = ([0.0; 6], BTreeMap::new());
    for &(size, rate) in &w2.points {
        let mut sent = 0;
        for packet in (0..size.div_ceil(mtu)).take_while(|packet| packet * mtu < 100_000) {
            let left = size - packet * mtu;
            let wire = left.min(mtu) + 96;
            if sent < 100_000 {
                bytes[levels.unscheduled(left) as usize] += rate * wire as f64;
                *by_left.entry(left).or_insert(0.0) += rate * wire as f64;
            }
            sent += wire;
        }
    }
    let all: f64 = bytes.iter().sum();
    // Equal bytes left have one level, so cut-offs deviate by at most the largest such group.
    let grain = by_left.values().fold(0.0, |most: f64, &bytes| most.max(bytes)) / all;
    assert!(grain < 0.06, "{grain}");
    let mut sum = 0.0;
    for (level, bytes) in bytes.iter().enumerate() {
        sum += bytes / all;
        let error = sum - (level + 1) as f64 / 6.0;
        // Grants count for the first level, which therefore carries slightly less.
        assert!((-0.003..grain).contains(&error), "{error} up to level {level}");
    }
}

#[test]
fn the_tail_of_a_message_counts_where_it_is_boosted() {
    let mtu = MTU as u64;
    let sizes = SizeMix { points: alloc::vec![(10 * mtu, 1.0)] };
    let packets = Packets { mtu, sizes: PacketSizes::STANDARD, unscheduled: 2 };
    let of = |tail| Curve::of(&sizes, packets, 2 * 1538, tail).unwrap();
    let levels = |tail| Levels::new(8, 8, 1, Some(&of(tail)), 0);
    // Unscheduled packets with bytes for grants: 10 or 9 packets left. With a tail of three
    // packets, those too.
    assert_eq!(&levels(0).cuts()[..4], [0, 9 * mtu, 10 * mtu, u64::MAX]);
    assert_eq!(&levels(3 * 1524 + 1).cuts()[..4], [mtu, 2 * mtu, 3 * mtu, 9 * mtu]);
    assert_eq!(Curve::of(&SizeMix::default(), packets, 1, 0), None);
}

#[test]
fn senders_get_lowest_levels_in_order() {
    let levels = Levels::new(8, 8, 4, None, 80_000);
    let of = |senders: usize| -> Vec<u32> {
        (0..senders).map(|place| levels.scheduled(place, senders)).collect()
    };
    assert_eq!([of(1), of(2)].concat(), [7, 6, 7]);
    assert_eq!([of(4), of(6)].concat(), [4, 5, 6, 7, 4, 5, 6, 7, 7, 7]);
    // Without known sizes: even parts.
    assert_eq!(levels.cuts(), [20_000, 40_000, 60_000]);
    let bounds = [(1, 0), (20_000, 0), (20_001, 1), (60_000, 2), (60_001, 3), (u64::MAX, 3)];
    for (left, level) in bounds {
        assert_eq!(levels.unscheduled(left), level, "{left} B left");
    }
}

/// By hand: three cut-offs make four levels, of which the last has no bound; the other four are for
/// what was granted.
#[test]
fn listed_cut_offs_are_those_of_packets() {
    let listed = |sizes: &[u64], scheduled_priorities| {
        let cutoffs = Sizes::of(sizes).unwrap();
        let params = HomaParams { cutoffs, scheduled_priorities, ..HomaParams::default() };
        let mut fitted = Fitted { params, curve: None };
        // No sizes are needed, and those that there are change nothing.
        let properties = context(0).properties();
        assert_eq!(Homa::fit(&mut fitted, &properties, &SizeMix::default()), None);
        assert_eq!(Homa::fit(&mut fitted, &properties, &workload!("homa-w3")), None);
        (fitted.conflict(), Settings::new(&fitted, &context(0)).levels)
    };
    for scheduled in [0, 4] {
        let (conflict, levels) = listed(&[200, 2_800, 15_000], scheduled);
        assert_eq!((conflict, levels.all, levels.scheduled), (None, 8, 4));
        let bounds =
            [(200, 0), (201, 1), (2_800, 1), (2_801, 2), (15_000, 2), (15_001, 3), (LONG, 3)];
        for (left, level) in bounds {
            assert_eq!(levels.unscheduled(left), level, "{left} B left");
        }
    }
    let refused = |sizes: &[u64], scheduled| listed(sizes, scheduled).0.unwrap_or_default();
    assert!(refused(&[200, 200], 5).contains("200B stands before 200B"));
    assert!(refused(&[200], 5).contains("leave 3 priorities"), "{}", refused(&[200], 5));
    assert!(refused(&[200], 5).ends_with("give 2 sizes"));
    assert!(refused(&[1, 2, 3, 4, 5, 6, 7], 0).ends_with("give at most 6 sizes"));
    assert_eq!(refused(&[1, 2, 3, 4, 5, 6], 0), "");
    // A fabric of three priorities: one for what was granted, one cut-off for the others.
    let few = Levels::listed(3, 8, &[200, 2_800, 15_000]);
    assert_eq!((few.all, few.scheduled, few.cuts()), (3, 1, &[200][..]));
}

#[test]
fn what_the_fabric_has_is_used_from_the_lowest_up() {
    let at = |priorities, wanted, scheduled| {
        let levels = Levels::new(priorities, wanted, scheduled, None, 1);
        (levels.all, levels.scheduled, levels.priority(0), levels.priority(u32::MAX))
    };
    assert_eq!(at(8, 8, 7), (8, 7, 0, 7));
    assert_eq!(at(8, 4, 0), (4, 2, 4, 7));
    assert_eq!(at(3, 8, 7), (3, 2, 0, 2));
    assert_eq!(at(2, 8, 0), (2, 1, 0, 1));
    // Too few levels: all packets are alike.
    assert_eq!((at(1, 8, 7), at(0, 8, 0)), ((1, 1, 0, 0), (1, 1, 0, 0)));
    let one = Levels::new(1, 8, 3, None, 1);
    assert_eq!((one.unscheduled(u64::MAX), one.scheduled(3, 5)), (0, 0));
}

#[test]
fn fit_follows_generated_sizes_or_warns() {
    let properties = context(0).properties();
    let mut fitted = Fitted::default();
    let text = Homa::fit(&mut fitted, &properties, &SizeMix::default()).unwrap();
    assert!(text.contains("evenly spaced up to 100940 B"), "{text}");
    let before = Settings::new(&fitted, &context(0)).levels;
    assert_eq!(Homa::fit(&mut fitted, &properties, &workload!("homa-w1")), None);
    let after = Settings::new(&fitted, &context(0));
    assert_eq!((before.scheduled, after.levels.scheduled), (4, 1));
    assert_eq!(after.overcommitment, 1, "as many as scheduled levels");
}

/// A curve by its definition, packet by packet: bytes left, and bytes sent at that value.
fn packet_by_packet(size: u64, packets: Packets, head: u64, tail: u64) -> BTreeMap<u64, u64> {
    let (first, end) = (packets.unscheduled_of(size), packets.of(size));
    let (mut bytes, mut sum) = (BTreeMap::new(), 0);
    let mut add = |packet, scheduled| {
        let of = packets.wire(packets.payload(size, packet), scheduled);
        *bytes.entry(packets.left(size, packet)).or_insert(0) += of;
    };
    for packet in 0..first {
        if sum < head {
            add(packet, false);
        }
        sum += packets.wire(packets.payload(size, packet), false);
    }
    sum = 0;
    for packet in (first..end).rev() {
        sum += packets.wire(packets.payload(size, packet), true);
        if sum < tail {
            add(packet, true);
        }
    }
    *bytes.entry(0).or_insert(0) += (end - first) * 86;
    bytes
}

#[test]
fn a_curve_is_the_sum_of_its_packets() {
    let packets = Packets { mtu: MTU as u64, sizes: PacketSizes::STANDARD, unscheduled: 7 };
    for size in [1, 70, 1442, 1443, 10_000, 10_094, 10_095, 11_000, 30_000, 100_001, 300_000] {
        for head in [0, 1, 1538, 1539, 10_000, u64::MAX] {
            for tail in [0, 84, 85, 1524, 1525, 10_000, u64::MAX] {
                let sizes = SizeMix { points: alloc::vec![(size, 0.25)] };
                let curve = Curve::of(&sizes, packets, head, tail).unwrap();
                let bytes = packet_by_packet(size, packets, head, tail);
                let all: u64 = bytes.values().sum();
                if all == 0 {
                    continue;
                }
                let mut sum = 0;
                let expected = bytes.iter().map(|(&left, &bytes)| {
                    sum += bytes;
                    (left, sum as f64 / all as f64)
                });
                let expected: Vec<_> = expected.collect();
                let near = curve.points.iter().zip(&expected).all(|(ours, expected)| {
                    ours.0 == expected.0 && (ours.1 - expected.1).abs() < 1e-12
                });
                let case = alloc::format!("{size} B, {head} B, {tail} B");
                assert!(near && curve.points.len() == expected.len(), "{case}: {curve:?}");
            }
        }
    }
}

#[test]
fn a_curve_of_terabytes_has_few_points() {
    let sizes = SizeMix { points: alloc::vec![(1_000_000_000_000, 1.0), (100, 1.0)] };
    let packets = Packets { mtu: MTU as u64, sizes: PacketSizes::STANDARD, unscheduled: MAX_AHEAD };
    let curve = Curve::of(&sizes, packets, u64::MAX, u64::MAX).unwrap();
    assert!(curve.points.len() < 2_100, "{}", curve.points.len());
    // All bytes count, so cut-offs are even parts of the message.
    let levels = Levels::new(8, 8, 4, Some(&curve), 0);
    for (cut, part) in levels.cuts().iter().zip(1..) {
        let error = *cut as f64 / (part as f64 * 0.25e12) - 1.0;
        // Grants count for the first level, 5 % of all.
        assert!((-0.2..0.002).contains(&error), "{cut}");
    }
}

#[test]
fn cut_offs_of_the_authors_comparison_are_near_theirs() {
    // With the last 10 KB above, as in `original`. For their packets (1,456 B with a grant) and
    // 9,328 B without one, which are seven whole packets here, the cut-offs are 433, 2,299 and
    // 6,750 B.
    let packets = Packets { mtu: MTU as u64, sizes: PacketSizes::STANDARD, unscheduled: 7 };
    let curve = Curve::of(&workload!("homa-w3"), packets, 10_000, 10_000).unwrap();
    let levels = Levels::new(8, 8, 4, Some(&curve), 0);
    for (&cut, expected) in levels.cuts().iter().zip([433, 2_299, 6_750]) {
        let error = cut as f64 / expected as f64 - 1.0;
        assert!(error.abs() < 0.03, "{cut}, expected {expected}");
    }
    // Levels in proportion: in whole packets 2.53 of eight are for unscheduled packets; for 9,328 B
    // it would be 2.48, so W3 has five or six for granted packets.
    let unscheduled = 8.0 * curve.unscheduled_share;
    assert!((2.5..2.58).contains(&unscheduled), "{unscheduled}");
}
