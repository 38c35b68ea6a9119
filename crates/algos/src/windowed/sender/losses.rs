//! Lost packets of a connection: how arrivals, requests and timeouts reveal them.

use alloc::boxed::Box;
use alloc::vec::Vec;

use super::{Progress, Sender};
use crate::windowed::header::Ack;
use crate::windowed::messages::Messages;
use crate::windowed::recovery::Recovery;
use crate::windowed::{ConnectionParams, MAX_BACKOFF};
use tidegate_core::{CongestionControl, Span, Time};

impl<C: CongestionControl> Sender<C> {
    #[cold]
    #[inline(never)]
    pub(super) fn acknowledge_out_of_order(
        &mut self,
        ack: &Ack,
        messages: &mut Messages,
        spare: &mut Vec<Box<Recovery>>,
        mtu: u32,
        acked: impl FnMut(u32),
    ) -> Progress {
        let Ack { seq, cumulative, sack, refused, .. } = *ack;
        let mut recovery = match self.recovery.take() {
            Some(recovery) => recovery,
            None => {
                let mut recovery = spare.pop().unwrap_or_default();
                recovery.begin(self.una);
                recovery
            }
        };
        let mut progress = Progress::default();
        // Single packets first: `advance` frees the messages that store their sizes.
        let mut arrived = |seq: u64, messages: &Messages, in_flight: &mut u64| {
            // Acknowledgements can overtake each other: this one may be older than the state.
            if seq < cumulative.max(self.una) || seq >= self.next || recovery.is_sacked(seq) {
                return;
            }
            let bytes = messages.counted(self.queue.head, seq, mtu, self.counts.window);
            if !recovery.sack(seq) {
                *in_flight -= bytes;
            }
            progress.packets += 1;
            progress.bytes += bytes;
        };
        let mut in_flight = self.in_flight;
        if !refused {
            arrived(seq, messages, &mut in_flight);
        }
        let mut bits = sack;
        while bits != 0 {
            arrived(cumulative + 1 + bits.trailing_zeros() as u64, messages, &mut in_flight);
            bits &= bits - 1;
        }
        for seq in self.una..cumulative {
            if !recovery.is_sacked(seq) {
                let bytes = messages.counted(self.queue.head, seq, mtu, self.counts.window);
                progress.packets += 1;
                progress.bytes += bytes;
                if !recovery.is_lost(seq) {
                    in_flight -= bytes;
                }
            }
        }
        self.in_flight = in_flight;
        if cumulative > self.una {
            self.advance(cumulative, messages, mtu, acked);
            recovery.advance(self.una);
        }
        if recovery.is_over(self.una) {
            spare.push(recovery);
        } else {
            self.recovery = Some(recovery);
        }
        progress
    }

    /// Detects lost packets from arrivals: by order, or by time if the path is `unordered`. Returns
    /// whether a new loss episode started.
    #[cold]
    #[inline(never)]
    pub(in crate::windowed) fn detect_loss(
        &mut self,
        now: Time,
        echo: Time,
        unordered: bool,
        messages: &Messages,
        mtu: u32,
    ) -> bool {
        let window = self.reorder_window();
        let Some(recovery) = self.recovery.as_mut() else { return false };
        let (head, count) = (self.queue.head, self.counts.window);
        let mut gone = 0;
        let mut lose = |seq| gone += messages.counted(head, seq, mtu, count);
        if unordered {
            recovery.arm_reorder(now, window);
            recovery.lose_resent_before(now.before(window.times(2)), &mut lose);
        } else {
            recovery.lose_overtaken(self.una, &mut lose);
            recovery.lose_resent_before(echo.before(Span::ps(window.as_ps() / 4)), &mut lose);
        }
        self.in_flight -= gone;
        gone > 0 && recovery.begins_episode(self.una, self.next)
    }

    /// Marks a packet that was trimmed as lost. Returns its bytes, and whether a new loss episode
    /// started. `None` if it needs no retransmission.
    #[cold]
    #[inline(never)]
    pub(in crate::windowed) fn lose_trimmed(
        &mut self,
        seq: u64,
        messages: &Messages,
        spare: &mut Vec<Box<Recovery>>,
        (now, mtu): (Time, u32),
    ) -> Option<(u64, bool)> {
        if seq < self.una || !self.recovery_or_new(spare).lose_one(seq) {
            return None;
        }
        let bytes = messages.counted(self.queue.head, seq, mtu, self.counts.window);
        self.in_flight -= bytes;
        let (una, next, length) = (self.una, self.next, self.reorder_window());
        let recovery = self.recovery_or_new(spare);
        Some((bytes, recovery.begins_trimmed_episode(una, next, now, length)))
    }

    /// On paths without order: marks packets as lost that have been missing for a reordering
    /// window. Returns whether a new episode started.
    pub(in crate::windowed) fn reorder_expired(
        &mut self,
        now: Time,
        messages: &Messages,
        mtu: u32,
    ) -> bool {
        let window = self.reorder_window();
        let Some(recovery) = self.recovery.as_mut().filter(|recovery| recovery.reorder_at <= now)
        else {
            return false;
        };
        let (head, count) = (self.queue.head, self.counts.window);
        let mut gone = 0;
        recovery.lose_marked(self.una, now, window, &mut |seq| {
            gone += messages.counted(head, seq, mtu, count)
        });
        self.in_flight -= gone;
        gone > 0 && recovery.begins_episode(self.una, self.next)
    }

    /// The receiver drops packets beyond `cumulative` of `ack`: retransmits everything from there
    /// on. Returns false if nothing is retransmitted, because the acknowledgement is older than the
    /// state.
    #[cold]
    #[inline(never)]
    pub(in crate::windowed) fn go_back(
        &mut self,
        ack: &Ack,
        spare: &mut Vec<Box<Recovery>>,
    ) -> bool {
        let goes = (self.una..self.next).contains(&ack.cumulative);
        if goes {
            self.lose_all(spare);
        }
        goes
    }

    /// Marks everything unacknowledged as lost.
    fn lose_all(&mut self, spare: &mut Vec<Box<Recovery>>) {
        let (una, next) = (self.una, self.next);
        self.recovery_or_new(spare).lose_all(una, next);
        self.in_flight = 0;
    }

    /// The record of single packets.
    fn recovery_or_new(&mut self, spare: &mut Vec<Box<Recovery>>) -> &mut Recovery {
        let una = self.una;
        self.recovery.get_or_insert_with(|| {
            let mut recovery = spare.pop().unwrap_or_default();
            recovery.begin(una);
            recovery
        })
    }

    /// Time of the next timeout, after an acknowledgement of new data.
    #[inline]
    pub(in crate::windowed) fn next_timeout(
        &mut self,
        now: Time,
        params: &ConnectionParams,
    ) -> Time {
        if self.departures.is_some() {
            // The timeout may have become so short that it has expired. A deadline at this moment
            // would depend on the driver's order of events.
            let (first, least) = (self.first_in_flight(), now + Span::ps(1));
            return first.map_or(Time::NEVER, |(_, at)| self.expires(at, params).max(least));
        }
        if self.outstanding() { now.after(self.rto(params)) } else { Time::NEVER }
    }

    /// The packet in flight that left first, and its departure, if each has a timeout of its own.
    fn first_in_flight(&mut self) -> Option<(u64, Time)> {
        let departures = self.departures.as_mut()?;
        departures.advance(self.una);
        let recovery = self.recovery.as_deref();
        departures.first(|seq| recovery.is_some_and(|of| of.is_sacked(seq) || of.is_lost(seq)))
    }

    /// Marks all packets as lost whose timeout has expired. Returns their bytes, and whether a new
    /// loss episode started; `None` if there are none.
    #[cold]
    #[inline(never)]
    pub(in crate::windowed) fn expire(
        &mut self,
        now: Time,
        params: &ConnectionParams,
        messages: &Messages,
        spare: &mut Vec<Box<Recovery>>,
        mtu: u32,
    ) -> Option<(u64, bool)> {
        let doubled_at = self.departures.as_ref().map_or(Time::NEVER, |of| of.doubled_at);
        let (mut bytes, mut doubles) = (0, false);
        self.rto_at = loop {
            match self.first_in_flight() {
                Some((seq, at)) if self.expires(at, params) <= now => {
                    doubles |= at >= doubled_at;
                    if let Some(paths) = &mut self.multipath
                        && let Some(entropy) =
                            self.departures.as_ref().and_then(|of| of.entropy(seq))
                    {
                        paths.lost(now, entropy);
                    }
                    self.recovery_or_new(spare).lose_one(seq);
                    bytes += messages.counted(self.queue.head, seq, mtu, self.counts.window);
                }
                Some((_, at)) => break self.expires(at, params),
                None => break Time::NEVER,
            }
        };
        if bytes == 0 {
            return None;
        }
        self.in_flight -= bytes;
        if let Some(departures) = self.departures.as_mut().filter(|_| doubles) {
            departures.doubled_at = now;
            self.backoff.double(MAX_BACKOFF);
        }
        let (una, next, length) = (self.una, self.next, self.reorder_window());
        let recovery = self.recovery_or_new(spare);
        Some((bytes, recovery.begins_trimmed_episode(una, next, now, length)))
    }

    /// Handles a timeout without any acknowledgement.
    pub(in crate::windowed) fn on_timeout(
        &mut self,
        now: Time,
        params: &ConnectionParams,
        spare: &mut Vec<Box<Recovery>>,
    ) {
        self.lose_all(spare);
        self.backoff.double(MAX_BACKOFF);
        self.rto_at = now.after(self.rto(params));
    }
}
