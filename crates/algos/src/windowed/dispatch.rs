//! Departures: the order of connections, their pace, and the packets that leave.

use super::Windowed;
use super::header::{Data, Header};
use super::sender::Schedule;
use crate::kit::departure::Departure;
use tidegate_core::{CongestionControl, PacketMut, Time, frame_flag};

impl<C: CongestionControl> Windowed<C> {
    /// Queries the control's limit and stores it in the connection.
    #[inline]
    pub(super) fn apply_limit(&mut self, connection: u32) {
        let sender = &mut self.senders[connection as usize];
        let limit = sender.cc.limit(&self.params.control);
        sender.set_limit(&limit);
        self.timers.arm(sender.due(), connection, &mut sender.timer_armed_at);
    }

    /// Moves the connection to the place for its state: ready, the paced heap, or idle.
    #[inline]
    pub(super) fn reschedule(&mut self, now: Time, connection: u32) {
        let sender = &mut self.senders[connection as usize];
        if sender.schedule == Schedule::Ready || !sender.wants_to_send() {
            return;
        }
        if !sender.window_open() {
            sender.note_limit();
            return;
        }
        // The connection was blocked or without data until now: the pacing schedule restarts.
        if sender.schedule == Schedule::Idle && sender.next_send < now {
            sender.next_send = now;
        }
        self.enqueue(now, connection);
    }

    /// The same directly after a packet left: the pacing schedule continues.
    #[inline]
    fn reschedule_after_send(&mut self, now: Time, connection: u32) {
        let sender = &mut self.senders[connection as usize];
        if !sender.wants_to_send() {
            return;
        }
        if !sender.window_open() {
            sender.note_limit();
            return;
        }
        self.enqueue(now, connection);
    }

    #[inline]
    fn enqueue(&mut self, now: Time, connection: u32) {
        let sender = &mut self.senders[connection as usize];
        let at = sender.send_time();
        if at <= now {
            sender.schedule = Schedule::Ready;
            self.ready.push(connection, &mut self.senders, &self.outgoing, self.host.mtu);
        } else {
            // A pace that the NIC could not exceed does not count as limited by the control.
            if at > now + sender.nic_gap {
                sender.note_limit();
            }
            if sender.schedule != Schedule::Paced(at) {
                sender.schedule = Schedule::Paced(at);
                self.paced.push(at, connection);
            }
        }
    }

    /// Moves connections that pacing has released to the ring, and due acknowledgements to their
    /// queue. Called first wherever connections may become ready, so that their order is that of
    /// time, independent of the driver's calls.
    #[inline]
    pub(super) fn promote_paced(&mut self, now: Time) {
        self.receivers.promote(now);
        while let Some((at, connection)) = self.paced.pop_due_entry(now) {
            if self.senders[connection as usize].schedule == Schedule::Paced(at) {
                let sender = &mut self.senders[connection as usize];
                sender.schedule = Schedule::Idle;
                if sender.wants_to_send() {
                    if sender.window_open() {
                        self.enqueue(now, connection)
                    } else {
                        sender.note_limit()
                    }
                }
            }
        }
    }

    /// Writes the connection's next packet into `packet`.
    #[inline]
    pub(super) fn emit(&mut self, now: Time, connection: u32, packet: PacketMut<'_>) {
        let sender = &mut self.senders[connection as usize];
        if let Some(paths) = &mut sender.multipath
            && sender.una > 0
            && let Some(entropy) = paths.probe(now, self.params.connection.probe_interval)
        {
            return self.emit_probe(now, connection, entropy, packet);
        }
        let (seq, slot, resent) =
            match sender.recovery.as_mut().and_then(|recovery| recovery.take_lost(now)) {
                Some(seq) => (seq, self.outgoing.holding(sender.queue.head, seq), true),
                None => (sender.next, sender.queue.sending, false),
            };
        let message = &self.outgoing[slot];
        let last = seq + 1 == message.end;
        let payload = if last { message.last_payload } else { self.host.mtu };
        let wire = sender.counts.wire.of(payload);
        let header = Header::Data(Data {
            end_of_message: last,
            retransmission: resent,
            probe: false,
            connection,
            lane: sender.lane,
            message: message.id,
            seq,
            offset: (seq - message.first) * self.host.mtu as u64,
            sent_at: now,
        });
        let entropy = match &mut sender.multipath {
            Some(paths) => paths.next(now),
            None => sender.entropy,
        };
        let departure = Departure {
            dst: sender.dst,
            entropy,
            wire_bytes: wire,
            payload_bytes: payload,
            priority: self.host.data_priority(),
            flags: self.data_flags,
        };
        departure.write(self.host.host, &header, packet);

        if !resent {
            sender.next += 1;
            if message.end != u64::MAX {
                self.backlog_bytes -= payload as u64;
            }
            if last {
                sender.queue.sending = message.next;
            }
        }
        // The timeout runs from the first packet in flight, not from a packet that pacing delays.
        let mut starts = sender.in_flight == 0;
        if let Some(departures) = &mut sender.departures {
            if sender.multipath.as_ref().is_some_and(|paths| paths.learns_from_losses()) {
                departures.record_entropy(seq, entropy);
            }
            departures.record(seq, now);
            starts |= sender.rto_at == Time::NEVER;
        }
        if starts {
            sender.rto_at = now.after(sender.rto(&self.params.connection));
            self.timers.arm(sender.due(), connection, &mut sender.timer_armed_at);
        }
        sender.in_flight += sender.counts.window.of(payload) as u64;
        sender.last_activity = now;
        sender.advance_pacing(now, sender.counts.pace.of(payload));
        if sender.cc.on_sent(&self.params.control, now, wire) {
            self.apply_limit(connection);
        }
        self.reschedule_after_send(now, connection);
    }

    /// Writes a probe of a path into `packet`: the headers of the last acknowledged packet, whose
    /// acknowledgement its receiver repeats.
    #[cold]
    #[inline(never)]
    fn emit_probe(&mut self, now: Time, connection: u32, entropy: u32, packet: PacketMut<'_>) {
        let sender = &self.senders[connection as usize];
        let header = Header::Data(Data {
            end_of_message: false,
            retransmission: false,
            probe: true,
            connection,
            lane: sender.lane,
            message: 0,
            seq: sender.una - 1,
            offset: 0,
            sent_at: now,
        });
        let departure = Departure {
            dst: sender.dst,
            entropy,
            wire_bytes: self.params.connection.control_bytes as u32,
            payload_bytes: 0,
            priority: self.host.data_priority(),
            flags: self.data_flags & frame_flag::ECN_CAPABLE,
        };
        departure.write(self.host.host, &header, packet);
        self.reschedule_after_send(now, connection);
    }
}
