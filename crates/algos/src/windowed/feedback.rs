//! Acknowledgements, returned packets and timers: inputs of the control of a connection.

use super::{NONE, Windowed, header};
use crate::multipath::PathFeedback;
use tidegate_core::{
    Ack, Application, CongestionControl, Feedback, Frame, Loss, LossKind, MessageId, PacketMut,
    RecoveryRule, Reply, Time, Trim, frame_flag,
};

impl<C: CongestionControl> Windowed<C> {
    pub(super) fn on_ack<A: Application>(&mut self, now: Time, packet: PacketMut<'_>, app: &mut A) {
        let echo = header::Ack::read(packet.body);
        let Some(sender) = self.senders.get_mut(echo.connection as usize) else { return };
        if sender.dst != packet.body.src
            || sender.lane != echo.lane
            || echo.cumulative > sender.next
            || echo.seq >= sender.next
        {
            return; // not an acknowledgement of anything this connection sent
        }
        if echo.probe {
            // Not of a packet: the round trip of a probe is shorter.
            if let Some(paths) = &mut sender.multipath {
                let feedback = if echo.marked { PathFeedback::Marked } else { PathFeedback::Good };
                paths.feedback(now, packet.frame.entropy, feedback);
            }
            return;
        }
        let rtt = now.since(echo.sent_at);
        sender.sample_rtt(rtt);
        let of = |id| MessageId { src: self.host.host, id };
        app.feedback(
            now,
            &Feedback {
                message: of(echo.message),
                rtt: Some(rtt),
                peak_hop_delay: echo.peak_hop_delay,
            },
        );
        let acked = |id| app.acked(now, of(id));
        let queued = sender.queue.len;
        let recovery = self.params.connection.recovery;
        let goes_back = recovery == RecoveryRule::GoBackN;
        let went_back = echo.refused && goes_back && sender.go_back(&echo, &mut self.spare);
        let in_flight_bytes = sender.in_flight;
        let progress =
            sender.acknowledge(&echo, &mut self.outgoing, &mut self.spare, self.host.mtu, acked);
        let lost = match recovery {
            RecoveryRule::Trimmed => {
                let trimmed = echo.refused.then(|| {
                    let place = (now, self.host.mtu);
                    sender.lose_trimmed(echo.seq, &self.outgoing, &mut self.spare, place)
                });
                if let Some((bytes, _)) = trimmed.flatten() {
                    let rtt = Some(rtt);
                    let trim = Trim { now, rtt, bytes, in_flight_bytes, at_scheduled_link: false };
                    sender.cc.on_trim(&self.params.control, &trim);
                }
                trimmed.flatten().is_some_and(|(_, is_new)| is_new)
            }
            _ if sender.recovery.is_none() => false,
            RecoveryRule::GoBackN => went_back,
            RecoveryRule::Selective => {
                let unordered = self.host.spraying
                    || sender.multipath.is_some()
                    || sender.plb.as_ref().is_some_and(|plb| plb.is_unordered(now));
                // Lower bound of the departure time of the data packet, however long it and its
                // reply were held.
                let held = self.host.most_held.times(2).plus(self.params.connection.ack_hold());
                let left = echo.sent_at.before(held);
                sender.detect_loss(now, left, unordered, &self.outgoing, self.host.mtu)
            }
        };
        if progress.packets > 0 {
            sender.backoff.end();
            sender.rto_at = sender.next_timeout(now, &self.params.connection);
        }
        let ack = Ack {
            now,
            rtt,
            acked_packets: progress.packets,
            acked_bytes: progress.bytes,
            in_flight_bytes: sender.in_flight,
            seq: echo.seq,
            next_seq: sender.next,
            marked: echo.marked,
            circuit: packet.frame.flags & frame_flag::CIRCUIT != 0,
            window_limited: sender.limited_since(echo.seq),
            peak_hop_delay: echo.peak_hop_delay,
            reverse_peak_hop_delay: packet.frame.peak_hop_delay,
            hops: packet.hops.as_slice(),
        };
        // A request for a trimmed packet acknowledges nothing by itself.
        let is_request = echo.refused && recovery == RecoveryRule::Trimmed;
        if !is_request || progress.packets > 0 {
            sender.cc.on_ack(&self.params.control, &ack);
        }
        if let Some(paths) = &mut sender.multipath {
            let feedback = match (echo.refused && !echo.last_hop, echo.marked) {
                (true, _) => PathFeedback::Trimmed,
                (false, true) => PathFeedback::Marked,
                (false, false) => PathFeedback::Good,
            };
            paths.feedback(now, packet.frame.entropy, feedback);
        }
        if let Some(plb) = &mut sender.plb
            && let Some(entropy) = plb.sample(
                &self.params.connection,
                &ack,
                sender.srtt,
                sender.cc.is_congested(&self.params.control, &ack),
            )
        {
            sender.entropy = entropy;
        }
        if lost {
            sender.cc.on_loss(
                &self.params.control,
                &Loss { now, kind: LossKind::Recovery, rtt, next_seq: sender.next },
            );
        }
        sender.last_activity = now;
        let finished = sender.is_idle()
            && sender.single_use
            && sender.queue.head == NONE
            && progress.packets > 0;
        let dst = sender.dst;
        if sender.queue.len != queued {
            self.update_load(echo.connection);
        }
        self.apply_limit(echo.connection);
        self.reschedule(now, echo.connection);
        if finished {
            self.peers.entry(dst).idle.push(echo.connection);
        }
    }

    /// Handles a packet without payload: one from another host, or one of this host's that a switch
    /// returned.
    #[cold]
    #[inline(never)]
    pub(super) fn on_trimmed(
        &mut self,
        now: Time,
        data: &header::Data,
        packet: PacketMut<'_>,
    ) -> Reply {
        let src = packet.body.src;
        if src == self.host.host {
            self.on_return(now, data, packet.frame);
        } else if src < self.host.hosts {
            return self.receivers.trimmed(data, packet, self.ack_flags, &C::INFO);
        }
        Reply::None
    }

    /// A switch returned a packet that it had trimmed: lost, as if its receiver requested it again.
    /// Ignored unless packets may be trimmed.
    fn on_return(&mut self, now: Time, data: &header::Data, frame: &Frame) {
        let Some(sender) = self.senders.get_mut(data.connection as usize) else { return };
        let is_trimmed = self.params.connection.recovery == RecoveryRule::Trimmed;
        if !is_trimmed || sender.lane != data.lane || data.seq >= sender.next {
            return;
        }
        let in_flight_bytes = sender.in_flight;
        let place = (now, self.host.mtu);
        let lost = sender.lose_trimmed(data.seq, &self.outgoing, &mut self.spare, place);
        let Some((bytes, is_new)) = lost else { return };
        let trim = Trim { now, rtt: None, bytes, in_flight_bytes, at_scheduled_link: false };
        sender.cc.on_trim(&self.params.control, &trim);
        if let Some(paths) = &mut sender.multipath {
            // The path is not to blame for the receiver's link.
            let is_last_hop = frame.priority > 0;
            let feedback = if is_last_hop { PathFeedback::Good } else { PathFeedback::Returned };
            paths.feedback(now, frame.entropy, feedback);
        }
        if is_new {
            // The time to the switch and back is none of the path.
            let (kind, rtt) = (LossKind::Recovery, sender.last_rtt);
            let loss = Loss { now, kind, rtt, next_seq: sender.next };
            sender.cc.on_loss(&self.params.control, &loss);
        }
        sender.last_activity = now;
        self.apply_limit(data.connection);
        self.reschedule(now, data.connection);
    }

    pub(super) fn on_timer(&mut self, now: Time, connection: u32) {
        let sender = &mut self.senders[connection as usize];
        sender.timer_armed_at = Time::NEVER;
        let (rtt, next_seq) = (sender.last_rtt, sender.next);
        if sender.wake_at <= now {
            sender.wake_at = Time::NEVER;
            sender.cc.on_timer(&self.params.control, now);
        }
        if sender.reorder_expired(now, &self.outgoing, self.host.mtu) {
            sender.cc.on_loss(
                &self.params.control,
                &Loss { now, kind: LossKind::Recovery, rtt, next_seq },
            );
        }
        if sender.rto_at <= now && sender.in_flight == 0 {
            sender.rto_at = Time::NEVER;
        } else if sender.rto_at <= now && sender.departures.is_some() {
            let params = &self.params;
            let (outgoing, spare) = (&self.outgoing, &mut self.spare);
            let expired = sender.expire(now, &params.connection, outgoing, spare, self.host.mtu);
            if let Some((bytes, is_new)) = expired {
                sender.cc.on_packet_timeout(&params.control, bytes);
                if let Some(paths) = &mut sender.multipath {
                    paths.time_out(now);
                }
                if is_new {
                    let loss = Loss { now, kind: LossKind::Recovery, rtt, next_seq };
                    sender.cc.on_loss(&params.control, &loss);
                }
            }
        } else if sender.rto_at <= now {
            sender.on_timeout(now, &self.params.connection, &mut self.spare);
            if let Some(plb) = &mut sender.plb {
                sender.entropy = plb.time_out(&self.params.connection, now, rtt);
            }
            if let Some(paths) = &mut sender.multipath {
                paths.time_out(now);
            }
            sender.cc.on_loss(
                &self.params.control,
                &Loss { now, kind: LossKind::Timeout, rtt, next_seq },
            );
        }
        self.apply_limit(connection);
        self.reschedule(now, connection);
    }
}
