//! A transport around any congestion control: connections, reliability, pacing and fairness between
//! the flows of a host.
//!
//! * A **connection** carries packets 0, 1, 2, … to one peer; each belongs to one message and never
//!   changes size. Messages follow each other on it; [`ConnectionPolicy`] selects the connection of
//!   a message. There is no handshake.
//! * Every data packet is acknowledged immediately, by number, with a cumulative number and a
//!   bitmap; with `ack_every` above one, an acknowledgement covers several packets in order that
//!   have the same mark, and echoes the last.
//! * By the control's default (`recovery`) a receiver keeps packets that arrive before a missing
//!   one, or drops them and requests the missing one (**go-back-N**): immediately if it differs
//!   from the last requested one, otherwise every `nack_interval` when another packet arrives in
//!   its place. With a window of a BDP no such packet arrives, and if the request or the
//!   retransmission is lost as well, only the timeout detects it. The sender then retransmits
//!   everything from the missing packet on, and infers nothing from the order. A duplicate is
//!   acknowledged, which NICs whose acknowledgements are never lost need not do; timeouts stay,
//!   which those NICs do not have.
//! * **Packets on many paths**: with `multipath` every packet has an entropy of its own, and with
//!   `recovery = "trimmed"` a packet that arrives without its payload is requested again at once. A
//!   packet that a switch returns without payload is lost, too. Each packet then has a timeout of
//!   its own; nothing else counts as a loss.
//! * **Loss** is otherwise detected by three later arrivals on a path that keeps order, by time
//!   under spraying, and by a timeout (RFC 6298: smoothed RTT + 4 deviations, at least `min_rto`,
//!   `initial_rto` before the first sample; doubled each time up to `max_rto`, and reset when new
//!   data is acknowledged).
//! * A **window** limits the bytes in flight, all bytes on the wire or the payload
//!   (`window_counts`): by the control's [`WindowRule`](tidegate_core::WindowRule) a packet starts
//!   if it fits into the window, or if any of the window is left. A window below one packet means
//!   one packet every `rtt · packet / window` or, if the control declares it, one packet in flight.
//!   Pacing follows a schedule: a packet that left late does not delay the next, up to one gap
//!   (without limit for a control that has no window). When the pace changes, the pending packet
//!   keeps its time, or by the control's default (`pending_packet`) moves with the length of its
//!   gap.
//! * After **idling** for longer than `restart_after`, a connection's control restarts on the same
//!   path.
//! * Connections that may send are served round-robin by packet from a ring, or by bytes left from
//!   a heap if the shortest message goes first (not from a paper; for comparison with protocols
//!   that order messages). Paced connections are in a heap by time; retransmission timers are in a
//!   second heap with one lazily updated entry per connection. Connections of a pool are in a heap
//!   by messages in flight. No operation scans all connections.
//!
//! Cost of a data packet and its acknowledgement: one connection record at each end, no allocation,
//! no hash.
#![allow(
    clippy::vec_box,
    reason = "boxes move between connections and their pool without moving their contents"
)]

mod counts;
#[cfg(test)]
mod forgetting_tests;
#[cfg(test)]
mod go_back_tests;
pub mod header;
mod params;
mod plb;
mod receiver;
mod recovery;
#[cfg(test)]
mod return_tests;
mod schedule;
mod sender;
#[cfg(test)]
mod tests;

use alloc::boxed::Box;
use alloc::vec::Vec;

use crate::kit::by_host::ByHost;
use crate::kit::departure::Departure;
use crate::kit::departures::Departures;
use crate::kit::heap::{Pile, Places};
use crate::kit::slab::Key;
use crate::multipath::{Multipath, PathFeedback, PathRule};
use counts::counted;
use header::{Data, Header};
pub use params::{ConnectionParams, CountRule, PlbRule, WindowedParams};
use plb::Plb;
use receiver::Receivers;
use recovery::Recovery;
use schedule::{Due, Ready};
use sender::{NONE, Schedule, Sender};
use tidegate_core::{
    Ack, Application, CongestionControl, ConnectionPolicy, Domain, Endpoint, FabricProperties,
    FabricRequirements, Feedback, Frame, Handle, HostContext, Limit, Limits, Loss, LossKind,
    Message, MessageId, MultipathRule, OperatingPoint, PacketMut, PacketSizes, Path, PathOracle,
    ProtocolInfo, RecoveryRule, Reply, Rng, Time, Transmit, Transport, Trim, frame_flag,
    wire::Carried,
};

/// Largest number of times that the timeout doubles: enough from any minimum to any maximum.
const MAX_BACKOFF: u8 = 32;

/// The windowed transport of one host.
pub struct Windowed<C: CongestionControl> {
    params: WindowedParams<C>,
    host: HostContext,
    /// Flags of every data frame.
    data_flags: u8,
    /// Flags of every acknowledgement.
    ack_flags: u8,
    senders: Vec<Sender<C>>,
    /// Connections of forgotten hosts, for reuse.
    closed: Vec<u32>,
    outgoing: sender::Messages,
    /// Connections that may send now.
    ready: Ready,
    paced: Due,
    timers: Due,
    receivers: Receivers,
    /// Outgoing connections of each destination host.
    peers: ByHost<Peer>,
    /// Places of connections in the pools of their peers.
    places: Places,
    /// Unused recovery records.
    spare: Vec<Box<Recovery>>,
    backlog_bytes: u64,
}

/// Connections to one destination.
#[derive(Default)]
struct Peer {
    /// Number of connections.
    lanes: u32,
    /// Idle connections that carry one message at a time.
    idle: Vec<u32>,
    /// Other connections, by their messages in flight.
    pool: Pile<u32>,
}

impl<C: CongestionControl> Endpoint for Windowed<C> {
    const INFO: ProtocolInfo = C::INFO;
    type Params = WindowedParams<C>;
    type Header = Header;

    fn new(params: &WindowedParams<C>, host: &HostContext) -> Self {
        let FabricRequirements { ecn, telemetry, classes, .. } =
            C::requirements(&params.control, &host.properties());
        let flag = |wanted, flag| if wanted { flag } else { 0 };
        Windowed {
            params: params.clone(),
            host: *host,
            data_flags: flag(ecn.is_some(), frame_flag::ECN_CAPABLE)
                | flag(telemetry.hop_records, frame_flag::STAMP_HOPS)
                | flag(telemetry.peak_on_data, frame_flag::STAMP_PEAK),
            ack_flags: flag(telemetry.peak_on_acks, frame_flag::STAMP_PEAK),
            senders: Vec::new(),
            closed: Vec::new(),
            outgoing: sender::Messages::default(),
            ready: Ready::new(host.connections),
            paced: Due::default(),
            timers: Due::default(),
            receivers: Receivers::new(&params.connection, (classes > 0).then_some(0)),
            peers: ByHost::default(),
            places: Places::default(),
            spare: Vec::new(),
            backlog_bytes: 0,
        }
    }

    fn sizes(params: &WindowedParams<C>) -> PacketSizes {
        params.connection.sizes()
    }

    fn takes_many_paths(params: &WindowedParams<C>) -> bool {
        params.connection.multipath != MultipathRule::Off
    }

    fn requirements(params: &WindowedParams<C>, fabric: &FabricProperties) -> FabricRequirements {
        C::requirements(&params.control, fabric)
    }

    fn operating_point(params: &WindowedParams<C>, path: &Path, rate_bps: f64) -> OperatingPoint {
        let wire = Self::on_wire(params, *path);
        let path = counted(&params.connection, &wire);
        let counts = f64::from(path.full_wire_bytes) / f64::from(wire.full_wire_bytes);
        let rate_bps = rate_bps * counts;
        let mut point = C::operating_point(&params.control, &path, rate_bps);
        let of_connection = [
            params.connection.thin_acks(&path, params.largest_window(path.bdp_bytes)),
            params.connection.early_timeouts(&path),
        ];
        point.domain_warnings.extend(of_connection.into_iter().flatten());
        point
    }
}

impl<C: CongestionControl> Transport for Windowed<C> {
    fn submit(&mut self, now: Time, message: Message, paths: &dyn PathOracle) -> Handle {
        self.promote_paced(now);
        let connection = self.connection_for(now, &message, paths);
        let sender = &mut self.senders[connection as usize];
        if sender.is_idle() {
            if sender.idled(now) > self.params.connection.restart_after {
                self.restart(now, connection);
            } else {
                sender.cc.on_resume(&self.params.control, now);
            }
        }
        let sender = &mut self.senders[connection as usize];
        let handle = self.outgoing.append(sender, connection, &message, self.host.mtu);
        if message.bytes != Message::UNLIMITED {
            self.backlog_bytes += message.bytes;
        }
        self.update_load(connection);
        self.apply_limit(connection);
        self.reschedule(now, connection);
        Handle(handle.bits())
    }

    fn stop(&mut self, _now: Time, handle: Handle) {
        let Some(slot) = self.outgoing.slot(Key::of_bits(handle.0)) else { return };
        let connection = self.outgoing[slot].connection;
        self.outgoing.stop(&mut self.senders[connection as usize], slot);
        self.update_load(connection);
    }

    fn forget(&mut self, _now: Time, peer: u32) {
        // Closed connections have no peer.
        if peer == NONE {
            return;
        }
        self.receivers.forget(peer);
        self.ready.forget(peer, &mut self.senders);
        let mut pool = self.peers.take(peer).pool;
        for (connection, sender) in (0..).zip(&mut self.senders) {
            if sender.dst == peer {
                pool.remove(&mut self.places, connection);
                self.backlog_bytes -= self.outgoing.forget(sender, self.host.mtu);
                self.spare.extend(sender.recovery.take());
                sender.close();
                self.closed.push(connection);
            }
        }
        let senders = &self.senders;
        let is_open = |connection: u32| senders[connection as usize].dst != NONE;
        self.paced.retain(is_open);
        self.timers.retain(is_open);
    }

    #[inline]
    fn receive<A: Application>(&mut self, now: Time, packet: PacketMut<'_>, app: &mut A) -> Reply {
        match Header::read(packet.body) {
            Some(Header::Data(data)) if packet.body.payload_bytes == 0 => {
                self.on_trimmed(now, &data, packet)
            }
            Some(Header::Data(_)) if packet.body.src < self.host.hosts => {
                self.receivers.receive(now, packet, self.ack_flags, &C::INFO, app)
            }
            Some(Header::Ack(_)) => {
                self.promote_paced(now);
                self.on_ack(now, packet, app);
                Reply::None
            }
            _ => Reply::None,
        }
    }

    #[inline]
    fn transmit(&mut self, now: Time, packet: PacketMut<'_>) -> Transmit {
        self.promote_paced(now);
        if let Some(receiver) = self.receivers.take_due() {
            self.receivers.transmit(now, receiver, packet);
            return Transmit::Sent;
        }
        while let Some(connection) = self.ready.pop(&mut self.senders) {
            let sender = &mut self.senders[connection as usize];
            sender.schedule = Schedule::Idle;
            if sender.wants_to_send() && sender.window_open() {
                self.emit(now, connection, packet);
                return Transmit::Sent;
            }
            self.reschedule(now, connection);
        }
        Transmit::Idle
    }

    fn on_deadline<A: Application>(&mut self, now: Time, _app: &mut A) {
        self.promote_paced(now);
        while let Some(connection) = self.timers.pop_due(now) {
            self.on_timer(now, connection);
        }
    }

    #[inline]
    fn deadline(&self) -> Time {
        self.paced.next().min(self.timers.next()).min(self.receivers.next_due())
    }

    #[inline]
    fn timer(&self) -> Time {
        self.timers.next()
    }

    fn backlog_bytes(&self) -> u64 {
        self.backlog_bytes
    }

    fn limits(&self, handle: Handle) -> Option<Limits> {
        let slot = self.outgoing.slot(Key::of_bits(handle.0))?;
        let sender = &self.senders[self.outgoing[slot].connection as usize];
        let Limit { window_bytes, pace_bps, .. } = sender.cc.limit(&self.params.control);
        Some(Limits { window_bytes, pace_bps })
    }
}

impl<C: CongestionControl> Windowed<C> {
    /// The path with this protocol's headers and telemetry in a full packet.
    fn on_wire(params: &WindowedParams<C>, mut path: Path) -> Path {
        let payload = path.mtu + C::INFO.telemetry(path.hops);
        path.full_wire_bytes = params.connection.sizes().data(payload);
        path
    }

    /// Returns the connection for `message` by the policy; opens one if there is none.
    fn connection_for(&mut self, now: Time, message: &Message, paths: &dyn PathOracle) -> u32 {
        let policy =
            if message.dedicated { ConnectionPolicy::PerMessage } else { self.host.connections };
        let peer = self.peers.entry(message.dst);
        let size = match policy {
            ConnectionPolicy::PerMessage | ConnectionPolicy::ShortestFirst => {
                let Some(connection) = peer.idle.pop() else {
                    return self.connect(now, message.dst, true, paths);
                };
                let seed = self.restart(now, connection);
                let (plb, multipath) = (self.path_memory(seed), self.multipath(seed));
                let sender = &mut self.senders[connection as usize];
                sender.reuse(seed);
                (sender.plb, sender.multipath) = (plb, multipath);
                return connection;
            }
            ConnectionPolicy::PerPair => 1,
            ConnectionPolicy::Pool(size) => size as usize,
        };
        // An idle connection, otherwise a new one, otherwise the least loaded; among equals the
        // oldest.
        match peer.pool.first() {
            Some((messages, connection)) if messages == 0 || peer.pool.len() >= size => connection,
            _ => self.connect(now, message.dst, false, paths),
        }
    }

    /// Updates the number of messages in flight of a connection in its pool.
    fn update_load(&mut self, connection: u32) {
        let sender = &self.senders[connection as usize];
        if !sender.single_use {
            let pool = &mut self.peers.entry(sender.dst).pool;
            pool.set(&mut self.places, connection, sender.queued_messages);
        }
    }

    fn path_memory(&self, seed: u64) -> Option<Box<Plb>> {
        (self.params.connection.plb != PlbRule::Off).then(|| Box::new(Plb::new(seed)))
    }

    fn multipath(&self, seed: u64) -> Option<Box<Multipath>> {
        let ConnectionParams { multipath, paths, flowlet_gap, .. } = self.params.connection;
        // Sprayed packets do not keep their entropies.
        let rule = if self.host.spraying { MultipathRule::Off } else { multipath };
        let rule = PathRule { rule, paths: paths as u32, flowlet_gap };
        Multipath::new(rule, seed).map(Box::new)
    }

    /// Restarts a connection's control and returns its seed.
    fn restart(&mut self, now: Time, connection: u32) -> u64 {
        let sender = &mut self.senders[connection as usize];
        let seed = next_seed(&self.host, sender.dst, sender.lane, sender.uses);
        sender.restart(C::start(&self.params.control, &sender.cold.path, now, seed));
        seed
    }

    fn connect(&mut self, now: Time, dst: u32, single_use: bool, paths: &dyn PathOracle) -> u32 {
        let path = Self::on_wire(&self.params, paths.path(self.host.host, dst));
        let peer = self.peers.entry(dst);
        let lane = peer.lanes;
        peer.lanes += 1;
        let seed = next_seed(&self.host, dst, lane, 0);
        let params = &self.params.connection;
        let cc = C::start(&self.params.control, &counted(params, &path), now, seed);
        let mut sender = Sender::new(cc, dst, lane, seed, single_use, path, params);
        sender.small_windows_gap = !C::paces_small_windows(&self.params.control);
        sender.plb = self.path_memory(seed);
        sender.multipath = self.multipath(seed);
        sender.departures =
            (params.recovery == RecoveryRule::Trimmed).then(|| Box::new(Departures::default()));
        if let Some(connection) = self.closed.pop() {
            self.senders[connection as usize] = sender;
            return connection;
        }
        self.senders.push(sender);
        self.senders.len() as u32 - 1
    }

    /// Writes the connection's next packet into `packet`.
    #[inline]
    fn emit(&mut self, now: Time, connection: u32, packet: PacketMut<'_>) {
        let sender = &mut self.senders[connection as usize];
        if let Some(paths) = &mut sender.multipath
            && sender.una > 0
            && let Some(entropy) = paths.probe(now, self.params.connection.probe_interval)
        {
            return self.emit_probe(now, connection, entropy, packet);
        }
        let (seq, slot, resent) =
            match sender.recovery.as_mut().and_then(|recovery| recovery.take_lost(now)) {
                Some(seq) => (seq, self.outgoing.holding(sender.head, seq), true),
                None => (sender.next, sender.sending, false),
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
                sender.sending = message.next;
            }
        }
        // The timeout runs from the first packet in flight, not from a packet that pacing delays.
        let mut starts = sender.in_flight == 0;
        if let Some(departures) = &mut sender.departures {
            if sender.multipath.as_ref().is_some_and(|paths| paths.learns_from_losses()) {
                departures.took(seq, entropy);
            }
            departures.left(seq, now);
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

    fn on_ack<A: Application>(&mut self, now: Time, packet: PacketMut<'_>, app: &mut A) {
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
                let fate = if echo.marked { PathFeedback::Marked } else { PathFeedback::Good };
                paths.feedback(now, packet.frame.entropy, fate);
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
        let queued = sender.queued_messages;
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
                let left = echo.sent_at.before(self.host.most_held.times(2));
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
            circuit: echo.circuit,
            window_limited: core::mem::take(&mut sender.limited),
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
        let finished =
            sender.is_idle() && sender.single_use && sender.head == NONE && progress.packets > 0;
        let dst = sender.dst;
        if sender.queued_messages != queued {
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
    fn on_trimmed(&mut self, now: Time, data: &header::Data, packet: PacketMut<'_>) -> Reply {
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
            let fate = if is_last_hop { PathFeedback::Good } else { PathFeedback::Returned };
            paths.feedback(now, frame.entropy, fate);
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

    fn on_timer(&mut self, now: Time, connection: u32) {
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

    /// Queries the control's limit and stores it in the connection.
    #[inline]
    fn apply_limit(&mut self, connection: u32) {
        let sender = &mut self.senders[connection as usize];
        let limit = sender.cc.limit(&self.params.control);
        sender.set_limit(&limit);
        self.timers.arm(sender.due(), connection, &mut sender.timer_armed_at);
    }

    /// Moves the connection to the place for its state: ready, the paced heap, or idle.
    #[inline]
    fn reschedule(&mut self, now: Time, connection: u32) {
        let sender = &mut self.senders[connection as usize];
        if sender.schedule == Schedule::Ready || !sender.wants_to_send() {
            return;
        }
        if !sender.window_open() {
            sender.limited = true;
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
            sender.limited = true;
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
            sender.limited |= at > now + sender.nic_gap;
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
    fn promote_paced(&mut self, now: Time) {
        self.receivers.promote(now);
        while let Some((at, connection)) = self.paced.pop_due_entry(now) {
            if self.senders[connection as usize].schedule == Schedule::Paced(at) {
                let sender = &mut self.senders[connection as usize];
                sender.schedule = Schedule::Idle;
                if sender.wants_to_send() {
                    if sender.window_open() {
                        self.enqueue(now, connection)
                    } else {
                        sender.limited = true
                    }
                }
            }
        }
    }
}

/// Seed of a connection's control after this number of starts.
fn next_seed(host: &HostContext, dst: u32, lane: u32, uses: u32) -> u64 {
    let pair = (host.host as u64) << 32 | dst as u64;
    // The low 16 bits of the lane have fixed positions, the others are spread.
    let lane = (lane as u64) << 48 ^ (lane as u64 >> 16).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    Rng::stream(host.seed, Domain::Entropy, pair ^ lane ^ ((uses as u64) << 16)).bits()
}
