//! A transport around any congestion control: connections, reliability, pacing and fairness between
//! the flows of a host.
//!
//! * A **connection** carries packets 0, 1, 2, … to one peer; each belongs to one message and never
//!   changes size. Messages follow each other on it;
//!   [`ConnectionPolicy`](tidegate_core::ConnectionPolicy) selects the connection of a message.
//!   There is no handshake.
//! * Every data packet is acknowledged immediately, by number, with a cumulative number and a
//!   bitmap; with `ack_every` above one, an acknowledgement covers several packets in order that
//!   have the same mark, and echoes the last.
//! * By the control's default (`recovery`) a receiver keeps packets that arrive before a missing
//!   one, or drops them and requests the missing one (**go-back-N**): immediately if it differs
//!   from the last requested one, otherwise every `nack_interval` when another packet arrives in
//!   its place. If the window is one BDP, the sender stops before another packet arrives, so only
//!   the timeout detects a lost request or a lost retransmission. After a request the sender
//!   retransmits everything from the missing packet on, and infers nothing from the order. Unlike
//!   NICs whose acknowledgements are never lost, the receiver acknowledges duplicates, and the
//!   sender keeps a timeout.
//! * **Packets on many paths**: with `multipath` every packet has an entropy of its own, and with
//!   `recovery = "trimmed"` a packet that arrives without its payload is requested again at once. A
//!   packet that a switch returns without payload is lost, too. Each packet then has a timeout of
//!   its own; nothing else counts as a loss.
//! * **Loss** is otherwise detected by order, by time and by a timeout. On a path that keeps order,
//!   a packet is lost when a packet three numbers higher has arrived (RFC 9002, section 6.1.1,
//!   packet threshold). On paths without order, a packet is lost if it is still missing a smoothed
//!   RTT after a later packet has arrived. Such paths occur under spraying, under `multipath`, and
//!   for two RTTs after a change of path (`plb`). Losses of retransmissions are detected by time on
//!   every path. A timeout detects all other losses (RFC 6298: smoothed RTT + 4 deviations, at
//!   least `min_rto`, `initial_rto` before the first sample; doubled each time up to `max_rto`, and
//!   reset when new data is acknowledged).
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
//!   by messages in flight. No operation per packet or message scans all connections.
//!
//! Cost of a data packet and its acknowledgement: one connection record at each end, no allocation,
//! no hash.
#![allow(
    clippy::vec_box,
    reason = "boxes move between connections and their pool without moving their contents"
)]

mod connect;
mod counts;
mod dispatch;
mod feedback;
pub mod header;
mod messages;
mod params;
mod plb;
mod receiver;
mod recovery;
mod schedule;
mod sender;
#[cfg(test)]
mod tests;

use alloc::boxed::Box;
use alloc::vec::Vec;

use crate::kit::by_host::ByHost;
use crate::kit::heap::{Pile, Positions};
use crate::kit::slab::Key;
use counts::counted;
use header::Header;
use messages::Messages;
pub use params::{ConnectionParams, CountRule, PlbRule, WindowedParams};
use receiver::Receivers;
use recovery::Recovery;
use schedule::{Due, Ready};
use sender::{Schedule, Sender};
use tidegate_core::{
    Application, CongestionControl, Endpoint, FabricProperties, FabricRequirements, Handle,
    HostContext, Limit, Limits, Message, MultipathRule, OperatingPoint, PacketMut, PacketSizes,
    Path, PathOracle, ProtocolInfo, Reply, Time, Transmit, Transport, frame_flag, wire::Carried,
};

/// No message, host or receiver.
const NONE: u32 = u32::MAX;
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
    outgoing: Messages,
    /// Connections that may send now.
    ready: Ready,
    paced: Due,
    timers: Due,
    receivers: Receivers,
    /// Outgoing connections of each destination host.
    peers: ByHost<Peer>,
    /// Positions of connections in the pools of their peers.
    positions: Positions,
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
            outgoing: Messages::default(),
            ready: Ready::new(host.connections),
            paced: Due::default(),
            timers: Due::default(),
            receivers: Receivers::new(&params.connection, (classes > 0).then_some(0)),
            peers: ByHost::default(),
            positions: Positions::default(),
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
        let (queue, mtu) = (&mut sender.queue, self.host.mtu);
        let handle = self.outgoing.append(queue, sender.next, connection, &message, mtu);
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
        let sender = &mut self.senders[connection as usize];
        self.outgoing.stop(&mut sender.queue, sender.una..sender.next, slot);
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
                pool.remove(&mut self.positions, connection);
                self.backlog_bytes -=
                    self.outgoing.forget(&sender.queue, sender.next, self.host.mtu);
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
