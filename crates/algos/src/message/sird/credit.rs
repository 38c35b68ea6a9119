//! Credit: how much a receiver may hand out to one sender, and how fast.

use tidegate_core::{Rate, Span, Time};

use super::Settings;

/// Wire bytes that the pacer of credit may be ahead by: one and a half times what a link drains
/// between two polls of the authors' simulator (3 ns at 1 Tbit/s, and longer in proportion on
/// slower links).
const PACER_SLACK_BYTES: u64 = 562;

/// So many BDPs of credit a sender is believed to have taken itself, in all. One that keeps to the
/// rules takes one at a time; what of that is lost is noticed late.
const MOST_TAKEN_BDPS: i64 = 16;

/// Spaces credits by the time that the data they call for takes on this host's link.
pub(super) struct Pacer {
    rate: Rate,
    slack: Span,
    /// When the backlog is gone.
    empty_at: Time,
    on: bool,
}

impl Pacer {
    pub(super) fn new(rate: Rate, on: bool) -> Pacer {
        Pacer { rate, slack: rate.serialise(PACER_SLACK_BYTES), empty_at: Time::ZERO, on }
    }

    /// When the backlog is small enough for the next credit.
    #[inline]
    pub(super) fn opens_at(&self) -> Time {
        if self.on { self.empty_at.before(self.slack) } else { Time::ZERO }
    }

    /// A credit for `bytes` of data leaves at `at`.
    pub(super) fn spend(&mut self, at: Time, bytes: u64) {
        self.empty_at = self.empty_at.max(at) + self.rate.serialise(bytes);
    }
}

/// One of the two control loops: DCTCP's rule on the size of a bucket instead of a window.
#[derive(Clone, Debug)]
struct Loop {
    /// Size of the bucket in bytes.
    bytes: f64,
    floor: f64,
    /// Moving average of the share of marked packets.
    alpha: f64,
    /// Marked packets since the average was updated.
    marked: u32,
    /// Packets since the last decrease, and how many there must be before the next.
    since_cut: u32,
    cut_after: u32,
}

impl Loop {
    fn new(settings: &Settings, floor: f64) -> Loop {
        let bytes = settings.bdp as f64;
        let cut_after = (bytes / settings.full as f64) as u32;
        Loop { bytes, floor: floor * bytes, alpha: 0.0, marked: 0, since_cut: 0, cut_after }
    }

    /// One packet arrived. `bucket` is the smaller of the two loops' buckets, of which `rise` is a
    /// packet's share; `seen` is how many packets the share of marked ones is to be taken over,
    /// where it is time to.
    #[inline]
    fn observe(
        &mut self,
        settings: &Settings,
        marked: bool,
        (bucket, rise): (f64, f64),
        seen: Option<u32>,
    ) {
        self.marked += marked as u32;
        self.since_cut = self.since_cut.saturating_add(1);
        if let Some(seen) = seen {
            let share = self.marked as f64 / seen as f64;
            self.alpha += settings.gain * (share - self.alpha);
            self.marked = 0;
        }
        // About one packet for each bucket's worth of packets, whether marked or not.
        let mut bytes = self.bytes + rise;
        if marked && self.since_cut >= self.cut_after {
            bytes -= self.bytes * self.alpha / 2.0;
            self.since_cut = 0;
            self.cut_after = (1.5 * bucket / settings.full as f64) as u32;
        }
        self.bytes = bytes.clamp(self.floor, settings.bdp as f64);
    }
}

/// What one sender may be credited (`senderBkt` and `netBkt` of algorithm 1).
pub(super) struct Bucket {
    /// Credit handed out, or taken by the sender itself, for data that has not arrived: wire bytes.
    /// Below zero while data has come for which credit is still to be handed out.
    pub(super) outstanding: i64,
    sender: Loop,
    network: Loop,
    /// Packets since the averages were updated, and how many there must be for the next update.
    seen: u32,
    update_after: u32,
}

impl Bucket {
    pub(super) fn new(settings: &Settings) -> Bucket {
        Bucket {
            outstanding: 0,
            sender: Loop::new(settings, settings.sender_floor),
            network: Loop::new(settings, settings.network_floor),
            seen: 0,
            update_after: 1,
        }
    }

    /// The smaller of the two buckets.
    #[inline]
    pub(super) fn bytes(&self) -> f64 {
        self.sender.bytes.min(self.network.bytes)
    }

    /// A packet of any kind came from that sender.
    #[inline]
    pub(super) fn observe(
        &mut self,
        settings: &Settings,
        sender_congested: bool,
        network_congested: bool,
    ) {
        let (bucket, full) = (self.bytes(), settings.full as f64);
        let bucket = (bucket, full * full / bucket);
        self.seen += 1;
        let seen = (self.seen >= self.update_after).then_some(self.seen);
        self.sender.observe(settings, sender_congested, bucket, seen);
        self.network.observe(settings, network_congested, bucket, seen);
        if seen.is_some() {
            self.seen = 0;
            self.update_after = (self.bytes() / settings.full as f64) as u32;
        }
    }

    /// Whether `wire` more bytes may be handed out. The buckets are compared before they are added,
    /// so what is outstanding can be one packet above, but not above the most that a sender may
    /// have.
    #[inline]
    pub(super) fn admits(&self, settings: &Settings, wire: i64) -> bool {
        self.outstanding + wire <= settings.most && self.outstanding as f64 <= self.bytes()
    }

    /// For so many of a new message's packets the sender is believed to have taken credit itself,
    /// where it says that of `unscheduled`: for a BDP at most, or a packet where that is less.
    pub(super) fn believed(&self, settings: &Settings, size: u64, unscheduled: u64) -> u64 {
        let full = settings.full as i64;
        let left = MOST_TAKEN_BDPS * settings.bdp - self.outstanding;
        let room = left.min(settings.bdp.max(full)).max(0);
        match settings.segments.wire_below(size, unscheduled) as i64 <= room {
            true => unscheduled,
            false => (room / full) as u64,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::settings;
    use super::*;

    #[test]
    fn bucket_grows_by_one_packet_in_a_bucket_of_packets() {
        let settings = settings();
        let mut bucket = Bucket::new(&settings);
        bucket.network.bytes = 20_000.0;
        let packets = 20_000 / settings.full as u32;
        (0..packets).for_each(|_| bucket.observe(&settings, false, false));
        assert!((bucket.network.bytes - 21_538.0).abs() < 120.0, "{}", bucket.network.bytes);
        assert_eq!(bucket.sender.bytes, settings.bdp as f64);
    }

    #[test]
    fn steady_marks_reach_the_floors_and_each_loop_has_its_own() {
        let settings = settings();
        for (csn, ce, floor) in [(true, false, 0.1), (false, true, 0.03), (true, true, 0.03)] {
            let mut bucket = Bucket::new(&settings);
            (0..5_000).for_each(|_| bucket.observe(&settings, csn, ce));
            // Around the floor: one increase may follow the last cut.
            let bytes = bucket.bytes() / settings.bdp as f64;
            assert!(bytes >= floor && bytes < floor + 0.08, "{csn} {ce}: {bytes} BDP");
        }
    }

    #[test]
    fn cuts_are_a_window_and_a_half_apart_and_the_first_waits_for_one() {
        let settings = settings();
        let mut bucket = Bucket::new(&settings);
        let first = (settings.bdp as u64 / settings.full) as usize;
        let mut cuts = alloc::vec::Vec::new();
        for packet in 1..400 {
            let before = bucket.sender.since_cut;
            bucket.observe(&settings, true, false);
            if bucket.sender.since_cut <= before {
                cuts.push(packet);
            }
        }
        assert_eq!(cuts[0], first);
        assert_eq!(cuts[1] - cuts[0], first * 3 / 2);
    }

    #[test]
    fn pacer_lets_one_credit_go_for_each_packet_time() {
        let settings = settings();
        let rate = Rate::gbps(100);
        let mut pacer = Pacer::new(rate, true);
        let (mut now, mut sent) = (Time::us(1), 0);
        while now < Time::us(101) {
            pacer.spend(now, settings.full);
            now = pacer.opens_at();
            sent += 1;
        }
        // One more for the start, one for the slack.
        let fitting = rate.bytes_in(Span::us(100)) / settings.full;
        assert!(
            sent >= fitting && sent <= fitting + 2,
            "{sent} credits where {fitting} packets fit"
        );
    }
}
