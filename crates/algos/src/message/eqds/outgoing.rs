//! A message that is being sent: its packets, its credit and, under some protocols, its window.

use alloc::boxed::Box;

use tidegate_core::{Message, Time};

use super::header::Ack;
use super::window::{Progress, Window};
use super::{Demand, FIRST_PULL, Settings};
use crate::cc::nscc::NsccParams;
use crate::kit::backoff::Backoff;
use crate::kit::bits::Bits;
use crate::kit::departures::Departures;
use crate::kit::name::Name;
use crate::kit::window::MAX_AHEAD;
use crate::multipath::Multipath;

/// A message that is being sent.
#[derive(Default)]
pub(super) struct Outgoing {
    /// It has a lane.
    pub(super) has_begun: bool,
    pub(super) id: u32,
    pub(super) destination: u32,
    pub(super) lane: u32,
    pub(super) generation: u32,
    pub(super) size: u64,
    pub(super) packets: u64,
    /// The next packet to send for the first time.
    pub(super) next: u64,
    /// Packets that have arrived; the base is the first that has not.
    pub(super) arrived: Bits,
    /// Packets that must be sent again, and their bytes on the wire.
    pub(super) lost: Bits,
    pub(super) lost_bytes: u64,
    pub(super) departures: Departures,
    /// Bytes that may be sent; a packet leaves if it is positive.
    pub(super) credit: i64,
    /// Sum of credit so far.
    pub(super) pull: u64,
    /// Only the first credit has been used, and there was no response.
    pub(super) speculates: bool,
    /// It waits for the uplink.
    pub(super) is_ready: bool,
    pub(super) multipath: Option<Box<Multipath>>,
    pub(super) window: Option<Box<Window>>,
    pub(super) requested_at: Time,
    pub(super) backoff: Backoff,
    /// Packets that its receiver has requested again because they were trimmed.
    pub(super) nacks: u64,
    pub(super) recent: Recent,
}

/// Outcomes of the last twelve packets that took many paths, two bits each.
#[derive(Clone, Copy, Default)]
pub(super) struct Recent(u32);

impl Recent {
    const ARRIVED: u32 = 0x555_555;

    pub(super) fn add(&mut self, arrived: bool) {
        self.0 = (self.0 << 2 | if arrived { 1 } else { 2 }) & 0xfff_fff;
    }

    /// Whether more than a quarter of them arrived, so that the network is not congested as a
    /// whole.
    pub(super) fn is_good(self) -> bool {
        let [arrived, others] =
            [Recent::ARRIVED, Recent::ARRIVED << 1].map(|mask| (self.0 & mask).count_ones());
        3 * arrived > others
    }
}

impl Outgoing {
    pub(super) fn name(&self, slot: u32) -> Name {
        let Outgoing { lane, generation, id, .. } = *self;
        Name { connection: slot, lane, generation, message: id }
    }

    /// The first packet that has not arrived.
    pub(super) fn first(&self) -> u64 {
        self.arrived.base()
    }

    /// The first packet to send again.
    pub(super) fn first_lost(&self) -> Option<u64> {
        (self.lost_bytes > 0).then(|| self.lost.first_from(self.first())).flatten()
    }

    /// Unsent payload, if the size is known.
    pub(super) fn unsent(&self, settings: &Settings) -> u64 {
        match self.size {
            Message::UNLIMITED => 0,
            size => size.saturating_sub(self.next.saturating_mul(settings.segments.mtu)),
        }
    }

    pub(super) fn may_send(&self, settings: &Settings) -> bool {
        let has_new = self.next < self.packets.min(self.first() + MAX_AHEAD);
        let may = self.has_begun && self.credit > 0 && (self.lost_bytes > 0 || has_new);
        may && self.window.as_ref().is_none_or(|window| {
            let packet = self.first_lost().unwrap_or(self.next);
            window.fits(settings.segments.wire(self.size, packet))
        })
    }

    /// The sum of credit that it requests (pull target).
    pub(super) fn target(&self, settings: &Settings, ready: usize) -> u64 {
        let Settings { segments, max_window, full, .. } = *settings;
        let unsent = segments
            .message_wire(self.size)
            .saturating_sub(segments.wire_below(self.size, self.next));
        let usable = match &self.window {
            Some(window) => max_window.min(window.limit() as u64 + full),
            None => max_window,
        };
        let left = unsent.saturating_add(self.lost_bytes).min(usable) as i64;
        let mut more = left - self.credit;
        if self.speculates && unsent > 0 {
            more = more.max(full as i64);
        }
        more /= ready.max(1) as i64;
        self.pull.saturating_add_signed(more)
    }

    /// The first response has arrived, or there was none in time: unused first credit is void.
    pub(super) fn end_speculation(&mut self, demand: Demand) {
        if core::mem::take(&mut self.speculates) && demand == Demand::Announced {
            self.credit = self.credit.min(0);
        }
    }

    /// A packet leaves, for the first time or again.
    pub(super) fn leave(&mut self, settings: &Settings, packet: u64, now: Time) {
        let wire = settings.segments.wire(self.size, packet);
        self.credit -= wire as i64;
        self.departures.record(packet, now);
        if let Some(window) = &mut self.window {
            window.add(wire);
        }
    }

    /// Packets that `ack` reports as arrived for the first time, which leave the window. Messages
    /// without a window do not count them.
    pub(super) fn progress(&mut self, settings: &Settings, ack: &Ack) -> Progress {
        let mut progress = Progress::default();
        let Some(window) = &mut self.window else { return progress };
        let below = self.arrived.base()..ack.cumulative;
        let is_beyond = ack.packet >= below.start.max(below.end) && ack.packet < self.next;
        for packet in below.chain(is_beyond.then_some(ack.packet)) {
            if !self.arrived.get(packet) {
                let wire = settings.segments.wire(self.size, packet);
                progress.packets += 1;
                progress.bytes += wire;
                if !self.lost.get(packet) {
                    window.remove(wire);
                }
            }
        }
        progress
    }

    /// Marks a packet as lost. Returns its bytes on the wire if it was not.
    pub(super) fn lose(&mut self, settings: &Settings, packet: u64) -> Option<u64> {
        let is_new = packet >= self.first()
            && packet < self.next
            && !self.arrived.get(packet)
            && self.lost.set(packet);
        let wire = is_new.then(|| settings.segments.wire(self.size, packet))?;
        self.lost_bytes += wire;
        if let Some(window) = &mut self.window {
            window.remove(wire);
        }
        Some(wire)
    }

    /// Marks a packet as lost that left at `sent_at`, unless it has left again since: then a link
    /// duplicated or delayed this response. Returns its bytes on the wire if it was not lost.
    pub(super) fn lose_sent(
        &mut self,
        settings: &Settings,
        packet: u64,
        sent_at: Time,
    ) -> Option<u64> {
        let is_late = self.departures.has_left_since(packet, sent_at);
        if is_late { None } else { self.lose(settings, packet) }
    }

    /// A packet got no response in time. No pull comes for it if arrivals request pulls, so that
    /// its credit is used again.
    pub(super) fn expire(&mut self, settings: &Settings, packet: u64) {
        let Some(wire) = self.lose(settings, packet) else { return };
        if settings.demand == Demand::Arrivals {
            self.restore_credit(settings, packet);
        }
        if let Some((window, law)) = self.window_and_law(settings) {
            window.on_timeout(law, wire);
        }
    }

    /// The credit of a lost packet may be used again.
    pub(super) fn restore_credit(&mut self, settings: &Settings, packet: u64) {
        let wire = settings.segments.wire(self.size, packet) as i64;
        self.credit = (self.credit + wire).min(settings.max_window as i64);
    }

    /// Whether pulls will come if arrivals request them: for packets in flight, or for those that
    /// are known to have arrived, whole or trimmed.
    pub(super) fn expects_pulls(&mut self, settings: &Settings) -> bool {
        let Outgoing { departures, arrived, lost, .. } = self;
        if departures.first(|packet| arrived.get(packet) || lost.get(packet)).is_some() {
            return true;
        }
        // All that were sent have arrived or are lost; only the last may be shorter than others.
        let lost = self.lost_bytes.div_ceil(settings.full);
        let requested = (self.next - lost + self.nacks) * settings.full;
        requested > self.pull - FIRST_PULL
    }

    /// A lost packet leaves again, or has arrived after all.
    pub(super) fn recover(&mut self, settings: &Settings, packet: u64) {
        self.lost.clear(packet);
        self.lost_bytes -= settings.segments.wire(self.size, packet);
    }

    /// The window and the parameters of its law.
    pub(super) fn window_and_law<'a>(
        &'a mut self,
        settings: &'a Settings,
    ) -> Option<(&'a mut Window, &'a NsccParams)> {
        self.window.as_deref_mut().zip(settings.law.as_ref())
    }

    /// Whether the window counts exactly the packets that are in flight.
    pub(super) fn is_consistent(&self, settings: &Settings) -> bool {
        let is_flying = |packet: &u64| !self.arrived.get(*packet) && !self.lost.get(*packet);
        let bytes = |packet| settings.segments.wire(self.size, packet);
        self.window.as_ref().is_none_or(|window| {
            let flying = (self.first()..self.next).filter(is_flying);
            window.in_flight() == flying.map(bytes).sum()
        })
    }
}
