//! The sending half of a connection.

mod losses;

use alloc::boxed::Box;
use alloc::vec::Vec;

use super::counts::{Counts, counted};
use super::header::Ack;
use super::messages::{Messages, Queue};
use super::plb::Plb;
use super::recovery::Recovery;
use super::{ConnectionParams, NONE};
use crate::kit::backoff::Backoff;
use crate::kit::departures::Departures;
use crate::kit::ring::{Link, Linked};
use crate::multipath::Multipath;
use tidegate_core::{CongestionControl, Limit, Path, PendingRule, Span, Time, WindowRule};

/// Queue of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Schedule {
    /// None: it has nothing to send or its window is closed.
    Idle,
    /// The connections that may send.
    Ready,
    /// The paced heap, with this time; entries with other times are stale.
    Paced(Time),
}

/// The sending half of a connection. Hot fields first; `cold` is accessed when a message starts.
pub(super) struct Sender<C> {
    /// Every packet below is acknowledged.
    pub(super) una: u64,
    /// The next new packet.
    pub(super) next: u64,
    /// Bytes sent, as the window counts them, that are neither acknowledged nor counted as lost.
    pub(super) in_flight: u64,
    window: f64,
    /// Zero: not paced.
    pace_ps_per_byte: f64,
    /// The pacing schedule: time of the next packet.
    pub(super) next_send: Time,
    /// Departure of the last packet since the control was started; `NEVER`: none.
    last_send: Time,
    pub(super) last_rtt: Span,
    pub(super) srtt: Span,
    rttvar: Span,
    pub(super) rto_at: Time,
    pub(super) wake_at: Time,
    /// Earliest entry of this connection in the timer heap.
    pub(super) timer_armed_at: Time,
    /// The next new packet when the control, not the NIC or the application, last limited sending.
    limited_next: u64,
    /// Time of the last packet sent or acknowledgement received; `NEVER`: none.
    pub(super) last_activity: Time,
    pub(super) schedule: Schedule,
    pub(super) recovery: Option<Box<Recovery>>,
    pub(super) dst: u32,
    pub(super) lane: u32,
    pub(super) entropy: u32,
    pub(super) counts: Counts,
    /// A full packet, as the window counts it.
    full: u32,
    /// Bytes of the last packet sent, as the pace counts them; 0: none.
    last_paced: u32,
    /// Bytes of the window that must be left for a packet to start.
    room: u32,
    /// Time of a full packet on the NIC's link.
    pub(super) nic_gap: Span,
    pub(super) ring_link: Link,
    pub(super) queue: Queue,
    /// Number of times that the connection's control was started.
    pub(super) uses: u32,
    pub(super) backoff: Backoff,
    /// Returns to the peer's idle list when its message is done.
    pub(super) single_use: bool,
    /// Whether a new pace moves the pending packet.
    shifts: bool,
    /// Path state, if connections leave congested paths.
    pub(super) plb: Option<Box<Plb>>,
    /// Paths of its packets, if they take many.
    pub(super) multipath: Option<Box<Multipath>>,
    /// Departures of its packets, if each has a timeout of its own.
    pub(super) departures: Option<Box<Departures>>,
    pub(super) cc: C,
    pub(super) cold: Box<Cold>,
}

/// Rarely used part of a connection.
pub(super) struct Cold {
    pub(super) path: Path,
}

/// Amount that an acknowledgement newly acknowledged.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Progress {
    pub(super) packets: u32,
    pub(super) bytes: u64,
}

impl<C> Linked for Sender<C> {
    #[inline]
    fn link(&mut self) -> &mut Link {
        &mut self.ring_link
    }
}

impl<C: CongestionControl> Sender<C> {
    pub(super) fn new(
        cc: C,
        dst: u32,
        lane: u32,
        seed: u64,
        single_use: bool,
        path: Path,
        params: &ConnectionParams,
    ) -> Self {
        let counts = Counts::new(params, &path);
        let nic_gap = path.nic_rate.serialise(path.full_wire_bytes as u64);
        let path = counted(params, &path);
        Sender {
            una: 0,
            next: 0,
            in_flight: 0,
            window: 0.0,
            pace_ps_per_byte: 0.0,
            next_send: Time::ZERO,
            last_send: Time::NEVER,
            last_rtt: path.base_rtt,
            srtt: Span::ZERO,
            rttvar: Span::ZERO,
            rto_at: Time::NEVER,
            wake_at: Time::NEVER,
            timer_armed_at: Time::NEVER,
            limited_next: 0,
            last_activity: Time::NEVER,
            schedule: Schedule::Idle,
            recovery: None,
            dst,
            lane,
            entropy: (seed >> 32) as u32,
            counts,
            full: path.full_wire_bytes,
            last_paced: 0,
            room: match params.window_rule {
                WindowRule::Fits => path.full_wire_bytes,
                WindowRule::Below => 1,
            },
            nic_gap,
            ring_link: Link::default(),
            queue: Queue::default(),
            uses: 1,
            backoff: Backoff::default(),
            single_use,
            shifts: params.pending_packet == PendingRule::Shift,
            plb: None,
            multipath: None,
            departures: None,
            cc,
            cold: Box::new(Cold { path }),
        }
    }

    /// Restarts the control and its pacing.
    pub(super) fn restart(&mut self, cc: C) {
        self.uses += 1;
        self.cc = cc;
        self.next_send = Time::ZERO;
        self.last_send = Time::NEVER;
        self.last_paced = 0;
    }

    /// Reuses an idle connection for a new message after its control has been restarted: with a new
    /// path without state, and the same packet numbers.
    pub(super) fn reuse(&mut self, seed: u64) {
        self.entropy = (seed >> 32) as u32;
        self.last_rtt = self.cold.path.base_rtt;
        (self.srtt, self.rttvar) = (Span::ZERO, Span::ZERO);
        debug_assert!(self.backoff == Backoff::default(), "the previous message ended by progress");
        self.limited_next = 0;
        self.last_activity = Time::NEVER;
    }

    /// Closes the connection after its peer was forgotten: from now on it has no peer and no sent
    /// packet that could be acknowledged.
    pub(super) fn close(&mut self) {
        self.dst = NONE;
        (self.una, self.next) = (0, 0);
    }

    /// Whether there is nothing to send and nothing unacknowledged.
    pub(super) fn is_idle(&self) -> bool {
        self.queue.sending == NONE && self.una == self.next
    }

    /// Time since the last transmission or acknowledgement; zero if there was none.
    pub(super) fn idled(&self, now: Time) -> Span {
        now.since(self.last_activity)
    }

    /// Whether a sent packet is unacknowledged.
    #[inline]
    pub(super) fn outstanding(&self) -> bool {
        self.una != self.next
    }

    #[inline]
    pub(super) fn wants_to_send(&self) -> bool {
        self.queue.sending != NONE
            || self.recovery.as_ref().is_some_and(|recovery| recovery.has_lost())
    }

    #[inline]
    pub(super) fn window_open(&self) -> bool {
        (self.in_flight + self.room as u64) as f64 <= self.window || self.in_flight == 0
    }

    /// Records that the control limits sending now.
    #[inline]
    pub(super) fn note_limit(&mut self) {
        self.limited_next = self.next;
    }

    /// Whether the control limited sending since this packet left. All packets in flight left
    /// before a closed window blocked the next one, so each of their acknowledgements counts.
    #[inline]
    pub(super) fn limited_since(&self, seq: u64) -> bool {
        seq < self.limited_next
    }

    /// Departure time of the next packet if the window is open.
    #[inline]
    pub(super) fn send_time(&self) -> Time {
        if self.pace_ps_per_byte != 0.0 {
            return self.next_send;
        }
        if self.window < self.full as f64 && self.last_send != Time::NEVER {
            let gap = self.last_rtt.scale(self.full as f64 / self.window.max(1e-3));
            return self.last_send.after(gap);
        }
        Time::ZERO
    }

    #[inline]
    pub(super) fn advance_pacing(&mut self, now: Time, bytes: u32) {
        self.last_send = now;
        self.last_paced = bytes;
        if self.pace_ps_per_byte != 0.0 {
            let gap = Span::from_ps_f64(self.pace_ps_per_byte * bytes as f64);
            // A control with a window forgets all but one gap of lateness; one without a window
            // keeps its schedule.
            let earliest = if self.window.is_finite() { now.before(gap) } else { Time::ZERO };
            self.next_send = self.next_send.max(earliest).after(gap);
        }
    }

    #[inline]
    pub(super) fn set_limit(&mut self, limit: &Limit) {
        self.window = limit.window_bytes;
        let before = self.pace_ps_per_byte;
        self.pace_ps_per_byte =
            if limit.pace_bps.is_finite() { 8e12 / limit.pace_bps } else { 0.0 };
        if self.shifts && self.pace_ps_per_byte != before {
            self.shift_pending(before);
        }
        self.wake_at = limit.wake_at;
    }

    /// Moves the pending packet by the change of the last packet's gap.
    #[inline]
    fn shift_pending(&mut self, before_ps_per_byte: f64) {
        let gap = |ps_per_byte: f64| Span::from_ps_f64(ps_per_byte * self.last_paced as f64);
        let (old, new) = (gap(before_ps_per_byte), gap(self.pace_ps_per_byte));
        self.next_send = self.next_send.after(new).before(old);
    }

    /// The earliest of the connection's timers.
    #[inline]
    pub(super) fn due(&self) -> Time {
        let reorder = self.recovery.as_ref().map_or(Time::NEVER, |recovery| recovery.reorder_at);
        self.rto_at.min(self.wake_at).min(reorder)
    }

    #[inline]
    pub(super) fn sample_rtt(&mut self, rtt: Span) {
        self.last_rtt = rtt;
        if self.srtt == Span::ZERO {
            self.srtt = rtt;
            self.rttvar = Span::ps(rtt.as_ps() / 2);
            return;
        }
        // RFC 6298 with its gains of 1/8 and 1/4.
        let (srtt, rttvar, rtt) = (self.srtt.as_ps(), self.rttvar.as_ps(), rtt.as_ps());
        self.rttvar = Span::ps(rttvar - rttvar / 4 + srtt.abs_diff(rtt) / 4);
        self.srtt = Span::ps(srtt - srtt / 8 + rtt / 8);
    }

    #[inline]
    pub(super) fn rto(&self, params: &ConnectionParams) -> Span {
        self.rto_after(self.backoff, params)
    }

    #[inline]
    fn rto_after(&self, backoff: Backoff, params: &ConnectionParams) -> Span {
        let base = if self.srtt == Span::ZERO {
            params.initial_rto
        } else {
            self.srtt.plus(self.rttvar.times(4))
        };
        let base = base.max(params.min_rto);
        backoff.wait(base).min(params.max_rto.max(base))
    }

    /// Time at which a packet that left at `at` is lost, if each has a timeout of its own. A packet
    /// that left before the last doubling keeps its timeout. Otherwise each lost packet of a window
    /// would double the timeout of the next one.
    #[inline]
    fn expires(&self, at: Time, params: &ConnectionParams) -> Time {
        let is_earlier = self.departures.as_ref().is_some_and(|of| at < of.doubled_at);
        let backoff = if is_earlier { self.backoff.before() } else { self.backoff };
        at.after(self.rto_after(backoff, params))
    }

    /// Delay beyond later packets after which a packet counts as lost, on paths that do not keep
    /// order.
    fn reorder_window(&self) -> Span {
        self.srtt.max(self.cold.path.base_rtt)
    }

    /// Registers the packets that `ack` reports as arrived.
    #[inline(always)]
    pub(super) fn acknowledge(
        &mut self,
        ack: &Ack,
        messages: &mut Messages,
        spare: &mut Vec<Box<Recovery>>,
        mtu: u32,
        acked: impl FnMut(u32),
    ) -> Progress {
        let mut progress = Progress::default();
        if self.recovery.is_none() && ack.seq < ack.cumulative {
            // In order, the common case: no record of single packets exists.
            if ack.cumulative > self.una {
                progress = self.advance(ack.cumulative, messages, mtu, acked);
                self.in_flight -= progress.bytes;
            }
            return progress;
        }
        self.acknowledge_out_of_order(ack, messages, spare, mtu, acked)
    }

    /// Moves `una` up to `cumulative`; packets below it count as progress, and their messages as
    /// acknowledged.
    #[inline(always)]
    fn advance(
        &mut self,
        cumulative: u64,
        messages: &mut Messages,
        mtu: u32,
        mut acked: impl FnMut(u32),
    ) -> Progress {
        let packets = cumulative - self.una;
        let mut bytes = packets * self.full as u64;
        self.una = cumulative;
        while self.queue.head != NONE && messages[self.queue.head].end <= cumulative {
            let message = &messages[self.queue.head];
            bytes -= self.full as u64 - self.counts.window.of(message.last_payload) as u64;
            acked(message.id);
            let next = message.next;
            messages.remove(self.queue.head);
            self.queue.head = next;
            self.queue.len -= 1;
        }
        if self.queue.head == NONE {
            self.queue.tail = NONE;
        }
        debug_assert!(self.counts.window.of(mtu) == self.full);
        Progress { packets: packets as u32, bytes }
    }
}
