//! Credit limits: the amount of credit that a receiver may issue to one sender, and its pace.

use tidegate_core::{Rate, Span, Time, mix64};

use super::Settings;
use super::header::Data;
use super::target::{Arrival, Delays, LEAST_LIMIT, Rounding, TargetLaw};

/// Wire bytes by which the credit pacer may be ahead: one and a half times what a link drains
/// between two polls of the authors' simulator (3 ns at 1 Tbit/s, proportionally longer on slower
/// links).
const PACER_SLACK_BYTES: u64 = 562;

/// Limit, in BDPs, of the total credit that a receiver books as taken by the sender itself. A
/// conforming sender takes one BDP at a time; losses of such packets are detected late.
const MOST_TAKEN_BDPS: i64 = 16;

/// Spaces credits by the transmission time of their data on this host's link.
pub(super) struct Pacer {
    rate: Rate,
    slack: Span,
    /// Time at which the backlog is empty.
    empty_at: Time,
    on: bool,
}

impl Pacer {
    pub(super) fn new(rate: Rate, on: bool) -> Pacer {
        Pacer { rate, slack: rate.serialise(PACER_SLACK_BYTES), empty_at: Time::ZERO, on }
    }

    /// Time at which the backlog is small enough for the next credit.
    #[inline]
    pub(super) fn opens_at(&self) -> Time {
        if self.on { self.empty_at.before(self.slack) } else { Time::ZERO }
    }

    /// Registers that a credit for `bytes` of data leaves at `at`.
    pub(super) fn spend(&mut self, at: Time, bytes: u64) {
        self.empty_at = self.empty_at.max(at) + self.rate.serialise(bytes);
    }
}

/// One of the two control loops: DCTCP's rule, applied to the size of a bucket instead of a window.
#[derive(Clone, Debug)]
struct Loop {
    /// Bucket size in bytes.
    bytes: f64,
    floor: f64,
    /// Moving average of the share of marked packets.
    alpha: f64,
    /// Marked packets since the average was updated.
    marked: u32,
    /// Packets since the last decrease, and the number required before the next.
    since_cut: u32,
    cut_after: u32,
}

impl Loop {
    fn new(settings: &Settings, floor: f64) -> Loop {
        let bytes = settings.bdp as f64;
        let cut_after = (bytes / settings.full as f64) as u32;
        Loop { bytes, floor: floor * bytes, alpha: 0.0, marked: 0, since_cut: 0, cut_after }
    }

    /// Registers a packet. `bucket` is the smaller bucket of the two loops, and `rise` the increase
    /// per packet; `seen` is the number of packets of the marked share if the average is to be
    /// updated.
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
        // Increases by about one packet per bucket of packets, whether marked or not.
        let mut bytes = self.bytes + rise;
        if marked && self.since_cut >= self.cut_after {
            bytes -= self.bytes * self.alpha / 2.0;
            self.since_cut = 0;
            self.cut_after = (1.5 * bucket / settings.full as f64) as u32;
        }
        let most = settings.law.as_ref().map_or(settings.bdp as f64, |law| law.most);
        self.bytes = bytes.clamp(self.floor, most);
    }
}

/// Credit limit of one sender (`senderBkt` and `netBkt` of algorithm 1).
pub(super) struct Bucket {
    /// Credit that was issued, or taken by the sender itself, for data that has not arrived: wire
    /// bytes. Negative if data has arrived whose credit is still to be issued.
    pub(super) outstanding: i64,
    /// Time at which scheduled data last returned credit. Unscheduled data returns credit that the
    /// sender took itself, which does not delay the next credit.
    pub(super) returned_at: Time,
    sender: Loop,
    network: Loop,
    pub(super) delays: Delays,
    /// Part of the outstanding bytes that waits at links between switches, which the law of a
    /// target delay bounds.
    pub(super) waiting: i64,
    /// Packets since the last update of the averages, and the number required for the next.
    seen: u32,
    update_after: u32,
    /// Distinguishes this pair's random waits from those of others.
    entropy: u64,
}

impl Bucket {
    /// The limit of the sender at `host`.
    pub(super) fn new(settings: &Settings, host: u32) -> Bucket {
        let mut network = Loop::new(settings, settings.network_floor);
        if settings.law.is_some() {
            network.floor = network.floor.max(LEAST_LIMIT);
        }
        Bucket {
            outstanding: 0,
            returned_at: Time::ZERO,
            sender: Loop::new(settings, settings.sender_floor),
            network,
            delays: Delays::default(),
            waiting: 0,
            seen: 0,
            update_after: 1,
            entropy: mix64(settings.entropy ^ u64::from(host)),
        }
    }

    /// Size of the smaller of the two buckets.
    #[inline]
    pub(super) fn bytes(&self) -> f64 {
        self.sender.bytes.min(self.network.bytes)
    }

    /// Registers a scheduled data packet, under the law of a target delay. Returns the change of
    /// the bytes that wait between switches.
    #[inline]
    pub(super) fn steer(&mut self, law: &TargetLaw, wire: u32, delay: Span, now: Time) -> i64 {
        let arrival = Arrival { wire: wire as f64, delay, outstanding: self.outstanding, now };
        let network = &mut self.network;
        let (bytes, waited) = law.next(&mut self.delays, network.bytes, arrival);
        network.bytes = bytes.clamp(network.floor, law.most);
        self.set_waiting((self.outstanding.max(0) as f64 * waited) as i64)
    }

    /// Sets the bytes that wait between switches, of those that are outstanding. Returns the
    /// change.
    #[inline]
    pub(super) fn set_waiting(&mut self, bytes: i64) -> i64 {
        bytes - core::mem::replace(&mut self.waiting, bytes)
    }

    /// Registers that credit for `wire` bytes has been issued.
    #[inline]
    pub(super) fn issued(&mut self, settings: &Settings, wire: u64, now: Time) {
        if settings.law.is_some() {
            self.delays.issued(wire as i64, self.outstanding, now);
        }
    }

    /// Registers that a data packet returns credit.
    #[inline]
    pub(super) fn returned(&mut self, settings: &Settings, data: &Data, now: Time) {
        if settings.law.is_none() {
            return;
        }
        if data.retransmission {
            // The time since its credit includes the timeout.
            self.delays.cancel();
        }
        if !data.is_unscheduled(settings.segments.mtu) {
            self.returned_at = now;
        }
    }

    /// Registers a packet of any kind from that sender.
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
        if settings.law.is_none() {
            self.network.observe(settings, network_congested, bucket, seen);
        }
        if seen.is_some() {
            self.seen = 0;
            self.update_after = (self.bytes() / settings.full as f64) as u32;
        }
    }

    /// Time from which credit for `wire` more bytes may be issued; `NEVER` before data returns
    /// credit. The bucket is compared before the addition, so the outstanding credit can exceed it
    /// by one packet, but never the limit of a sender. Under the law of a target delay, whose
    /// limits are rates, the outstanding credit is the number of packets nearest to the bucket, and
    /// at least one, or it is the bucket on average.
    #[inline]
    pub(super) fn opens_at(&self, settings: &Settings, wire: i64) -> Time {
        let is_open = match &settings.law {
            None => {
                self.outstanding + wire <= settings.most && self.outstanding as f64 <= self.bytes()
            }
            Some(law) if law.rounding == Rounding::TimeAverage => {
                return self.opens_on_average_at(law, wire as f64);
            }
            Some(_) => {
                self.outstanding <= 0 || (self.outstanding + wire / 2) as f64 <= self.bytes()
            }
        };
        if is_open { Time::ZERO } else { Time::NEVER }
    }

    /// The time for an outstanding credit that is the bucket on average. If data returns evenly,
    /// one packet returns in each `wire / bucket` of a round trip. With room for a part of a
    /// packet, the packet is outstanding for that part of this time on average. Without the random
    /// part of the wait, the order of several pairs' packets can repeat.
    fn opens_on_average_at(&self, law: &TargetLaw, wire: f64) -> Time {
        let bytes = self.bytes();
        let room = (bytes - self.outstanding as f64) / wire;
        if room >= 1.0 {
            return Time::ZERO;
        }
        if room <= 0.0 {
            return Time::NEVER;
        }
        let interval = law.round_trip(&self.delays) * wire / bytes;
        let jitter = if bytes < wire { 1.0 } else { law.jitter };
        // Uniform in [−1, 1), and the same until the next return.
        let uniform =
            mix64(self.entropy ^ self.returned_at.as_ps()) as i64 as f64 / -(i64::MIN as f64);
        let wait = 1.0 - room + uniform * jitter * room.min(1.0 - room);
        self.returned_at.after(Span::from_ps_f64(wait * interval))
    }

    /// Number of a new message's packets for which the receiver books credit as taken by the
    /// sender, if it announces `unscheduled`: at most a BDP, and at least a packet.
    pub(super) fn bookable_packets(&self, settings: &Settings, size: u64, unscheduled: u64) -> u64 {
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
    use alloc::vec::Vec;

    use tidegate_core::HostContext;

    use super::super::SirdParams;
    use super::super::tests::{context, settings};
    use super::*;
    use crate::message::tide::TideParams;

    #[test]
    fn bucket_grows_by_one_packet_in_a_bucket_of_packets() {
        let settings = settings();
        let mut bucket = Bucket::new(&settings, 1);
        bucket.network.bytes = 20_000.0;
        let packets = 20_000 / settings.full as u32;
        (0..packets).for_each(|_| bucket.observe(&settings, false, false));
        assert!((bucket.network.bytes - 21_538.0).abs() < 120.0, "{}", bucket.network.bytes);
        assert_eq!(bucket.sender.bytes, settings.bdp as f64);
    }

    #[test]
    fn steady_marks_reach_the_floor_of_each_loop() {
        let settings = settings();
        for (csn, ce, floor) in [(true, false, 0.1), (false, true, 0.03), (true, true, 0.03)] {
            let mut bucket = Bucket::new(&settings, 1);
            (0..5_000).for_each(|_| bucket.observe(&settings, csn, ce));
            // Around the floor: one increase may follow the last cut.
            let bytes = bucket.bytes() / settings.bdp as f64;
            assert!(bytes >= floor && bytes < floor + 0.08, "{csn} {ce}: {bytes} BDP");
        }
    }

    #[test]
    fn cuts_are_one_and_a_half_windows_apart() {
        let settings = settings();
        let mut bucket = Bucket::new(&settings, 1);
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
            "{sent} credits, room for {fitting} packets"
        );
    }

    /// Pairs that receive data at the same time wait differently, and differently with each seed.
    #[test]
    fn random_waits_differ_by_host_and_seed() {
        let law = TargetLaw::new(&TideParams::default().target(), 100e3, Rate::gbps(100));
        let wait = |seed: u64, receiver: u32, sender: u32| {
            let host = HostContext { seed, ..context(receiver) };
            let settings =
                Settings { law: Some(law.clone()), ..Settings::new(&SirdParams::default(), &host) };
            let mut bucket = Bucket::new(&settings, sender);
            bucket.network.bytes = 7.4 * settings.full as f64;
            bucket.outstanding = 7 * settings.full as i64;
            bucket.opens_at(&settings, settings.full as i64)
        };
        let first = wait(1, 0, 1);
        assert_eq!(wait(1, 0, 1), first);
        for (seed, receiver, sender) in [(2, 0, 1), (1, 2, 1), (1, 0, 2), (1, 1, 0)] {
            assert_ne!(wait(seed, receiver, sender), first, "{seed} {receiver} {sender}");
        }
    }

    /// With a limit of 7.4 packets and seven outstanding, the eighth is on average outstanding for
    /// 0.4 of the time between two returns, which is a round trip over 7.4. The random part is
    /// uniform, up to `jitter` of the smaller of both parts, or all of it below a packet.
    #[test]
    fn mean_outstanding_credit_is_the_limit() {
        let params = TideParams::default();
        let law = TargetLaw::new(&params.target(), 100e3, Rate::gbps(100));
        let round_trip_ns = 8e3;
        let settings = Settings { law: Some(law), ..settings() };
        let opens_at = |limit: f64, outstanding: i64, returned_at: Time| {
            let mut bucket = Bucket::new(&settings, 1);
            bucket.network.bytes = limit * settings.full as f64;
            bucket.outstanding = outstanding * settings.full as i64;
            bucket.returned_at = returned_at;
            bucket.opens_at(&settings, settings.full as i64)
        };
        let others = [6, 8].map(|packets| opens_at(7.4, packets, Time::us(100)));
        assert_eq!(others, [Time::ZERO, Time::NEVER]);
        // Below one packet, a packet leaves in each 2.5 round trips, of which one is its own.
        for (limit, outstanding, mean, most) in
            [(7.4, 7, 0.6 / 7.4, 0.1 / 7.4), (7.8, 7, 0.2 / 7.8, 0.05 / 7.8), (0.4, 0, 1.5, 1.0)]
        {
            let waits: Vec<f64> = (1..=10_000)
                .map(|us| opens_at(limit, outstanding, Time::us(us)).since(Time::us(us)))
                .map(|wait| wait.as_ps() as f64 / 1e3 / round_trip_ns - mean)
                .collect();
            let average = waits.iter().sum::<f64>() / waits.len() as f64;
            assert!(average.abs() < 0.03 * most, "{limit}: {average}");
            let (low, high) = waits
                .iter()
                .fold((0.0, 0.0), |(low, high), &wait| (f64::min(low, wait), f64::max(high, wait)));
            let range = [-low / most, high / most];
            assert!(range.iter().all(|part| (0.99..=1.0001).contains(part)), "{limit}: {range:?}");
        }
    }
}
