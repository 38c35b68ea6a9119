//! Which priority a packet has: levels for what goes without a grant by sizes that split its bytes
//! evenly, the lowest ones for what is granted (section 3.4).

use alloc::vec::Vec;

use tidegate_core::workload::SizeMix;

use super::packets::{GRANT_WIRE_BYTES, Packets, wire};

/// Most levels there are.
pub(super) const MOST_LEVELS: usize = 8;

/// Points of a curve for either end of a message. Where that is of more packets, a point is of
/// several, so that a cut is too low by a thousandth of them at most.
const MOST_POINTS: u64 = 1024;

/// Bytes of a mix of messages that go without a grant, by what was left of the message when they
/// did.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Curve {
    /// Bytes left, rising, and the share of bytes that go with so much left, or less. Grants count
    /// as packets with nothing left.
    pub(super) points: Vec<(u64, f64)>,
    /// Bytes that go without a grant, of all bytes of data on the wire.
    pub(super) unscheduled_share: f64,
}

impl Packets {
    /// How many of the packets that go without a grant begin within the first `bytes` on the wire.
    fn head(self, size: u64, bytes: u64) -> u64 {
        self.unscheduled_of(size).min(bytes.div_ceil(wire(self.mtu, false)))
    }

    /// The first of the granted packets that are, with all behind them, less than `bytes` on the
    /// wire; none where there are none.
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
    /// The curve of a mix of sizes, unless that is empty. Of a message count packets without a
    /// grant, of the first `head` bytes on the wire, and the last `tail` bytes that were granted.
    pub(super) fn of(sizes: &SizeMix, packets: Packets, head: u64, tail: u64) -> Option<Curve> {
        let mut points: Vec<(u64, f64)> = Vec::new();
        let (mut grants, mut unscheduled_bytes, mut all_bytes) = (0.0, 0.0, 0.0);
        for &(size, rate) in &sizes.points {
            let (unscheduled, scheduled) = packets.message_wire(size);
            unscheduled_bytes += rate * unscheduled as f64;
            all_bytes += rate * (unscheduled + scheduled) as f64;
            let (first, last) = (packets.unscheduled_of(size), packets.of(size));
            grants += rate * (last - first) as f64 * GRANT_WIRE_BYTES as f64;
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

    /// Sizes up to which packets have each of so many levels but the last, each larger than the one
    /// before, such that all levels carry as many bytes.
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

/// How levels of priority are shared out.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Levels {
    /// All of them; 0 is the highest.
    pub(super) all: u32,
    /// The lowest ones, of packets that were granted.
    pub(super) scheduled: u32,
    /// The fabric's priority of the highest.
    base: u8,
    /// Bytes left of a message up to which its packets have a level.
    cuts: [u64; MOST_LEVELS - 1],
}

impl Levels {
    /// Of `priorities` in the fabric at most `wanted` lowest ones are used. `scheduled` of them are
    /// for packets that were granted; where it does not matter (0), all but the share of
    /// unscheduled bytes. Without a curve both get half, and bytes up to `unscheduled_bytes` are
    /// cut evenly.
    pub(super) fn new(
        priorities: u8,
        wanted: u32,
        scheduled: u32,
        curve: Option<&Curve>,
        unscheduled_bytes: u64,
    ) -> Levels {
        let all = wanted.clamp(1, MOST_LEVELS as u32).min(priorities.max(1) as u32);
        let share = curve.map_or(0.5, |curve| curve.unscheduled_share);
        let scheduled = match scheduled {
            0 => all - (share * all as f64 + 0.5) as u32,
            told => told,
        };
        // One at least for each, where there are two.
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

    /// Those with listed cut-offs: one more for packets without a grant than there are `cuts`, all
    /// others for what was granted; in a fabric with fewer priorities the lower cut-offs alone.
    pub(super) fn listed(priorities: u8, wanted: u32, cuts: &[u32]) -> Levels {
        let all = wanted.clamp(1, MOST_LEVELS as u32).min(priorities.max(1) as u32);
        let scheduled = all.saturating_sub(cuts.len() as u32 + 1).max(1);
        let mut levels = Levels::new(priorities, wanted, scheduled, None, 0);
        levels.cuts = [u64::MAX; MOST_LEVELS - 1];
        let unscheduled = (all - scheduled).max(1) as usize;
        levels
            .cuts
            .iter_mut()
            .zip(cuts)
            .take(unscheduled - 1)
            .for_each(|(cut, at)| *cut = u64::from(*at));
        levels
    }

    /// The level of a packet without a grant, with so many bytes of its message left.
    #[inline]
    pub(super) fn unscheduled(&self, left: u64) -> u32 {
        self.cuts.iter().take_while(|&&cut| cut < left).count() as u32
    }

    /// The level of what is granted to the sender in that place, from 0, of so many.
    #[inline]
    pub(super) fn scheduled(&self, place: usize, senders: usize) -> u32 {
        let used = self.scheduled.min(senders as u32).max(1);
        self.all - used + (place as u32).min(used - 1)
    }

    /// The fabric's priority of a level; what a packet says may be anything.
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
