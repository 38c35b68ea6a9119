//! Priorities of packets: the upper levels for unscheduled packets, with size cut-offs that split
//! their bytes evenly, and the lowest levels for granted packets (section 3.4).

use alloc::vec::Vec;

use tidegate_core::workload::SizeMix;

use super::packets::Packets;

/// Largest number of levels.
pub(super) const MOST_LEVELS: usize = 8;

/// Points of a curve for the head and for the tail of a message. If the head or tail has more
/// packets, a point represents several of them, so that a cut-off is too low by at most a
/// thousandth of them.
const MOST_POINTS: u64 = 1024;

/// Unscheduled bytes of a mix of messages, by the bytes left of the message when they are sent.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Curve {
    /// Bytes left, ascending, and the share of unscheduled bytes that are sent with at most that
    /// many bytes left. Grants count as packets with no bytes left.
    pub(super) points: Vec<(u64, f64)>,
    /// Unscheduled bytes as a share of all data bytes on the wire.
    pub(super) unscheduled_share: f64,
}

impl Packets {
    /// Number of unscheduled packets that begin within the first `bytes` on the wire.
    fn head(self, size: u64, bytes: u64) -> u64 {
        self.unscheduled_of(size).min(bytes.div_ceil(self.wire(self.mtu, false)))
    }

    /// First granted packet that amounts, with all packets behind it, to less than `bytes` on the
    /// wire; the end of the message if there is none.
    fn tail(self, size: u64, bytes: u64) -> u64 {
        let (first, end) = (self.unscheduled_of(size), self.of(size));
        if first == end {
            return end;
        }
        let last = self.wire_of(size, end - 1..end, true);
        let more = bytes.checked_sub(last + 1).map_or(0, |rest| 1 + rest / self.full());
        end - more.min(end - first)
    }
}

impl Curve {
    /// Curve of a mix of sizes, or `None` if the mix is empty. It counts the unscheduled packets in
    /// the first `head` bytes of a message on the wire, and the granted packets in its last `tail`
    /// bytes.
    pub(super) fn of(sizes: &SizeMix, packets: Packets, head: u64, tail: u64) -> Option<Curve> {
        let mut points: Vec<(u64, f64)> = Vec::new();
        let (mut grants, mut unscheduled_bytes, mut all_bytes) = (0.0, 0.0, 0.0);
        for &(size, rate) in &sizes.points {
            let (unscheduled, scheduled) = packets.message_wire(size);
            unscheduled_bytes += rate * unscheduled as f64;
            all_bytes += rate * (unscheduled + scheduled) as f64;
            let (first, last) = (packets.unscheduled_of(size), packets.of(size));
            grants += rate * (last - first) as f64 * packets.grant_wire() as f64;
            let parts =
                [(0..packets.head(size, head), false), (packets.tail(size, tail)..last, true)];
            for (part, scheduled) in parts {
                let step = (part.end - part.start).div_ceil(MOST_POINTS).max(1);
                for from in part.clone().step_by(step as usize) {
                    let to = (from + step).min(part.end);
                    let bytes = packets.wire_of(size, from..to, scheduled);
                    points.push((packets.left(size, from), rate * bytes as f64));
                }
            }
        }
        points.push((0, grants));
        points.sort_by_key(|&(left, _)| left);
        points.dedup_by(|next, last| {
            let same = next.0 == last.0;
            last.1 += if same { next.1 } else { 0.0 };
            same
        });
        let mut sum = 0.0;
        for (_, bytes) in &mut points {
            sum += *bytes;
            *bytes = sum;
        }
        points.iter_mut().for_each(|(_, bytes)| *bytes /= sum);
        let unscheduled_share = unscheduled_bytes / all_bytes;
        (all_bytes > 0.0).then_some(Curve { points, unscheduled_share })
    }

    /// Cut-offs of the first `levels - 1` levels, strictly ascending, such that all levels carry
    /// the same number of bytes.
    fn cuts(&self, levels: usize) -> impl Iterator<Item = u64> + '_ {
        let mut from = 0;
        (1..levels).map(move |level| {
            let share = level as f64 / levels as f64;
            let at = self.points.partition_point(|&(_, sum)| sum < share).max(from);
            from = at + 1;
            self.points.get(at).map_or(u64::MAX, |&(left, _)| left)
        })
    }
}

/// Division of the priority levels.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Levels {
    /// Number of levels; 0 is the highest.
    pub(super) all: u32,
    /// Number of the lowest levels, for granted packets.
    pub(super) scheduled: u32,
    /// The fabric's priority for the highest level.
    base: u8,
    /// Cut-offs: bytes left of a message up to which its packets have a level.
    cuts: [u64; MOST_LEVELS - 1],
}

impl Levels {
    /// Uses at most the `requested` lowest of the fabric's `priorities`. `scheduled` of them are
    /// for granted packets; 0 derives the number from the share of granted bytes. Without a curve,
    /// both kinds get half of the levels, and the cut-offs divide `unscheduled_bytes` evenly.
    pub(super) fn new(
        priorities: u8,
        requested: u32,
        scheduled: u32,
        curve: Option<&Curve>,
        unscheduled_bytes: u64,
    ) -> Levels {
        let all = requested.clamp(1, MOST_LEVELS as u32).min(priorities.max(1) as u32);
        let share = curve.map_or(0.5, |curve| curve.unscheduled_share);
        let scheduled = match scheduled {
            0 => all - (share * all as f64 + 0.5) as u32,
            count => count,
        };
        // At least one level for each kind, if there are two levels.
        let scheduled = scheduled.clamp(1, (all - 1).max(1));
        let unscheduled = (all - scheduled).max(1) as usize;
        let mut cuts = [u64::MAX; MOST_LEVELS - 1];
        match curve {
            Some(curve) => cuts.iter_mut().zip(curve.cuts(unscheduled)).for_each(|(cut, at)| {
                *cut = at;
            }),
            None => (1..unscheduled).for_each(|level| {
                cuts[level - 1] = unscheduled_bytes * level as u64 / unscheduled as u64;
            }),
        }
        Levels { all, scheduled, base: priorities.max(1) - all as u8, cuts }
    }

    /// Levels with listed cut-offs: one more level for unscheduled packets than there are `cuts`,
    /// and the others for scheduled packets. A fabric with fewer priorities uses the first
    /// cut-offs.
    pub(super) fn listed(priorities: u8, wanted: u32, cuts: &[u32]) -> Levels {
        let all = wanted.clamp(1, MOST_LEVELS as u32).min(priorities.max(1) as u32);
        let scheduled = all.saturating_sub(cuts.len() as u32 + 1).max(1);
        let mut levels = Levels::new(priorities, wanted, scheduled, None, 0);
        levels.cuts = [u64::MAX; MOST_LEVELS - 1];
        let unscheduled = (all - scheduled).max(1) as usize;
        let used = levels.cuts.iter_mut().zip(cuts).take(unscheduled - 1);
        used.for_each(|(cut, at)| *cut = u64::from(*at));
        levels
    }

    /// Level of an unscheduled packet, by the bytes left of its message.
    #[inline]
    pub(super) fn unscheduled(&self, left: u64) -> u32 {
        self.cuts.iter().take_while(|&&cut| cut < left).count() as u32
    }

    /// Level of grants to the sender at this place, from 0, among `senders`.
    #[inline]
    pub(super) fn scheduled(&self, place: usize, senders: usize) -> u32 {
        let used = self.scheduled.min(senders as u32).max(1);
        self.all - used + (place as u32).min(used - 1)
    }

    /// The fabric's priority of a level; packets can carry any level.
    #[inline]
    pub(super) fn priority(&self, level: u32) -> u8 {
        self.base + level.min(self.all - 1) as u8
    }

    #[cfg(test)]
    pub(super) fn cuts(&self) -> &[u64] {
        let unscheduled = (self.all - self.scheduled).max(1) as usize;
        &self.cuts[..unscheduled - 1]
    }
}
