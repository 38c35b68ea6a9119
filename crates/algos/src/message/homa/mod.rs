//! Homa: receivers grant packets to the few senders with the least left to send, and choose the
//! switch priorities of these packets.
//!
//! The first packets of a message, one round trip of them, leave immediately. For the others the
//! receiver grants packet by packet to the senders of its shortest messages (SRPT). It grants to
//! several senders at a time, so that its link stays busy if one of them does not respond
//! (controlled overcommitment), and gives each its own priority, so that packets of the shortest
//! message overtake others in the switches. Unscheduled packets have the priorities above, with
//! size cut-offs that split their bytes evenly.
//!
//! B. Montazeri, Y. Li, M. Alizadeh, J. Ousterhout, "Homa: A Receiver-Driven Low-Latency Transport
//! Protocol Using Network Priorities", SIGCOMM 2018.
//!
//! # Rules
//!
//! * unscheduled: the first `RTTbytes` of a message leave immediately
//! * sender: sends from the message with the fewest unsent bytes of which a packet may leave
//! * receiver: grants a packet to a sender when one arrives from it, a packet time after the last
//!   grant, or immediately if the new grant has a better priority; in each case only if the sender
//!   is among the first `n` by the bytes left to grant of its shortest message, and less than
//!   `RTTbytes` of that message are in flight
//! * scheduled priority: with `k ≤ n` active senders, the `k` lowest; the best sender has the
//!   highest of them
//! * unscheduled priority: by the bytes left of the message when the packet leaves, with cut-offs
//!   that give each level the same number of bytes on the wire; grants count for the highest level
//! * the number of levels for unscheduled packets is proportional to their bytes; `n` is the number
//!   of the other levels
//!
//! # Packets
//!
//! Defined in `header.rs`. A data packet takes its payload plus 96 bytes on the wire if it is
//! unscheduled, plus 82 bytes if granted, and at least 84; a grant takes 86 (`packets.rs`). The
//! pair of hosts, the lane and the lane's generation identify a message.
//!
//! # Network requirements
//!
//! At least two strict priorities, preferably eight, and per-packet spraying. The distribution of
//! message sizes is known beforehand, as in the paper's simulations; if it is unknown, the cut-offs
//! are evenly spaced.
//!
//! # Differences from the paper
//!
//! The authors' simulator decides points that the paper leaves open
//! (github.com/PlatformLab/HomaSimulation):
//!
//! * A sender's place is updated with every packet from it and every grant to it; other senders get
//!   their new levels with their own next grants.
//! * Cut-offs count packets within the first `RTTbytes` of a message on the wire.
//! * The priority of an unscheduled packet follows from the bytes left of its message, and grants
//!   count for the highest level. In the paper's text and in HomaModule, all unscheduled packets of
//!   a message have the level of its size; so cut-offs of HomaModule are compared with bytes left
//!   here, not with sizes.
//! * Bytes in flight are bytes on the wire, of full packets.
//!
//! The priorities of its comparison (one scheduled for W1, 3, 4, 7 and 7 for W2 to W5) are not in
//! proportion to bytes, as the paper requires: W2 would have two, W3 five or six (2.53 of eight are
//! for unscheduled bytes in whole packets, 2.48 for its 9,328 B). `scheduled_priorities` sets them.
//!
//! The simulator differs from this implementation:
//!
//! * Among messages with equal bytes left to grant, the simulator prefers the smaller, then the
//!   older one; here the one that arrived first is preferred.
//! * When an active sender other than the first leaves, the others keep their levels in the
//!   simulator; here they move down to the lowest levels with their next grants, as in the paper.
//!   The simulator then always evaluates the last place; here it is evaluated only if a new sender
//!   gets it.
//!
//! Differences that are our choice:
//!
//! * Messages are one-way, and only closed loops mark replies; so receivers acknowledge messages:
//!   long ones immediately, short ones in data of the opposite direction, as in HomaModule, or in a
//!   packet of their own if there are many or after a delay.
//! * Incast control (`incast.rs`) is off unless `incast_requests` sets its limit: the paper gives
//!   no number, and the simulator does not implement it. A brief reply starts with one packet, in
//!   place of the paper's few hundred bytes.
//! * Unscheduled bytes are rounded up to whole packets, and all packets carry the same payload; an
//!   unscheduled packet counts as a granted one among those in flight.
//! * Packets carry more information than their wire size accounts for: the simulator has 16 bytes
//!   of header for a granted packet, which here also identifies its message, its size and, at
//!   times, another message that has arrived (`packets.rs`, `header.rs`).
//! * Loss recovery is that of HomaModule (`recovery.rs`), with timeouts that double, no limit on
//!   retries, and one more rule: packets that are missing below later ones are requested, too.
//! * A receiver accepts packets, and grants, up to 2²⁰ packets beyond the first missing one. Its
//!   record of a message takes 128 KiB at most. The paper has no such limit.
//! * A message of unknown size ranks behind all others; several of them are served round-robin,
//!   with a round of one packet more than `RTTbytes` at the receiver and of one packet at the
//!   sender.

mod cutoffs;
mod grants;
pub mod header;
mod incast;
mod packets;
mod receiver;
mod recovery;
mod schedule;
mod sender;
#[cfg(test)]
mod tests;

use alloc::collections::VecDeque;
use alloc::format;
use alloc::string::String;
use alloc::sync::Arc;

use crate::kit::by_host::ByHost;
use crate::kit::departure::Departure;
use crate::kit::paths::Paths;
use crate::kit::slab::Key;
use crate::kit::step::{self, Control};
use crate::kit::window::{MAX_AHEAD, shorter_than_bdp};
use cutoffs::{Curve, Levels};
use header::{Header, announces};
use packets::{MORE_UNSCHEDULED, Packets};
use receiver::Inbox;
use sender::{Leaving, Outbox};
use tidegate_core::fabric::Routing;
use tidegate_core::params::{Params, Sizes, Table, Value};
use tidegate_core::workload::SizeMix;
use tidegate_core::{
    Application, Dash, Endpoint, Extent, FabricProperties, FabricRequirements, Handle, HostContext,
    Limits, Marker, Message, MessageId, OperatingPoint, PacketMut, PacketSizes, Path, PathOracle,
    ProtocolInfo, Reply, Span, TelemetryBytes, Time, Transmit, Transport, params, wire::Carried,
};

/// Largest number of times that a timeout doubles.
const MAX_BACKOFF: u8 = 6;
/// Bytes left of a message of unknown size: more than any other.
const LONG: u64 = 1 << 62;
/// Time for which the acknowledgement of a short message waits for data of the opposite direction:
/// a tick of HomaModule.
const ACK_DELAY: Span = Span::ms(1);

/// Context of every step of this transport.
type Step<'a> = step::Step<'a, Settings, Header>;

params! {
    /// Parameters of Homa.
    pub struct HomaParams {
        /// Bytes of a message that may be in flight, on the wire (RTTbytes).
        rtt_bytes: Extent = Extent::Bdp(1.0), within Extent::Bdp(0.0) => Extent::Bdp(1e6), "paper, \
            section 3.1";
        /// First bytes of a message that leave immediately, rounded up to at least one whole
        /// packet.
        unscheduled_bytes: Extent = Extent::Bdp(1.0),
            within Extent::Bdp(0.0) => Extent::Bdp(1e6), "paper, section 3.2";
        /// Number of priorities used, if the fabric has that many.
        priorities: u64 = 8, in 1..=8, "paper, section 5";
        /// Number of the lowest priorities, for granted packets; 0: in proportion to their bytes,
        /// at least one for either kind.
        scheduled_priorities: u64 = 0, in 0..=7, "paper, section 3.4";
        /// Number of senders that a receiver grants to at a time; 0: the number of scheduled
        /// priorities.
        overcommitment: u64 = 0, in 0..=64, "paper, section 3.5";
        /// Last bytes of a message, if granted, that have the priorities of unscheduled packets; 0
        /// disables this.
        tail_boost: Extent = Extent::Bytes(0.0),
            within Extent::Bdp(0.0) => Extent::Bdp(1e6), "SIRD's simulator";
        /// Idle time of a receiver's link, in bytes, after which it grants to one more waiting
        /// sender until the next message with grants is complete; 0 disables this.
        bubble_bytes: Extent = Extent::Bytes(0.0),
            within Extent::Bdp(0.0) => Extent::Bdp(1e6), "authors' simulator, \
            homaTransportConfig.ini";
        /// Time without a response after which packets count as lost.
        resend_timeout: Span = Span::ms(5), within Span::us(10) => Span::s(10), "HomaModule, \
            homa_timer.c";
        /// Upper bounds of the bytes left of a message for the highest priority of unscheduled
        /// packets, the next one, and so on. They increase, and are one fewer than the unscheduled
        /// priorities, which are those that `scheduled_priorities` leaves of `priorities`. With
        /// `scheduled_priorities = 0` the list decides their number. A fabric with fewer priorities
        /// uses only the first. Empty: derived from the sizes of the generated messages.
        cutoffs: Sizes = Sizes::NONE, later = true, "paper, section 3.4: from the sizes; Linux' \
            Homa lists them";
        /// Number of outstanding requests of a host above which only the first packet of a reply is
        /// unscheduled (incast control); 0 disables this.
        incast_requests: u64 = 0, in 0..=1_000_000_000, "paper, section 3.6";
        /// Headers and gap of a data packet in bytes, with 14 bytes for the transport: unscheduled
        /// packets have 16 bytes more, granted packets 2.
        header_bytes: u64 = 80, later = true, in 20..=1000, "authors' simulator: 30 and 16 bytes \
            are Homa's";
        /// Size of a packet without payload on the wire in bytes; a grant has 2 bytes more. If it
        /// is below 84, data packets are padded to this size only.
        control_bytes: u64 = 84, later = true, in 20..=1000, "Ethernet's smallest frame, with \
            preamble and gap";
    }
    conflict = cutoffs_fit;
}

/// Cut-offs that do not increase, or are not as many as the priorities need.
fn cutoffs_fit(params: &HomaParams) -> Option<String> {
    let HomaParams { priorities, scheduled_priorities: scheduled, cutoffs, .. } = params;
    let (cuts, count) = (cutoffs.as_slice(), cutoffs.as_slice().len() as u64);
    if cuts.is_empty() {
        return None;
    }
    if let Some(pair) = cuts.windows(2).find(|pair| pair[0] >= pair[1]) {
        return Some(format!("cutoffs increase, but {}B stands before {}B", pair[0], pair[1]));
    }
    // One at least for what was granted.
    let unscheduled = priorities.saturating_sub((*scheduled).max(1));
    let (most, wrong) = match scheduled {
        0 => ("at most ", count + 1 > unscheduled),
        _ => ("", count + 1 != unscheduled),
    };
    wrong.then(|| {
        format!(
            "cutoffs has {count} sizes where priorities = {priorities} and scheduled_priorities = \
             {scheduled} leave {unscheduled} priorities for packets without a grant: give \
             {most}{} sizes",
            unscheduled.saturating_sub(1)
        )
    })
}

/// Parameters, and the size curve that they were fitted to.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Fitted {
    /// As users set them.
    pub params: HomaParams,
    curve: Option<Arc<Curve>>,
}

impl Params for Fitted {
    fn table() -> Table {
        HomaParams::table()
    }
    fn get(&self, name: &str) -> Option<Value> {
        self.params.get(name)
    }
    fn store(&mut self, name: &str, value: Value) -> bool {
        self.params.store(name, value)
    }
    fn conflict(&self) -> Option<String> {
        self.params.conflict()
    }
}

impl HomaParams {
    /// Packet sizes for a given BDP.
    fn packets(&self, mtu: u32, bdp_bytes: f64) -> Packets {
        let unscheduled = self.unscheduled_bytes.bytes(bdp_bytes) as u64;
        let mtu = mtu as u64;
        let unscheduled = unscheduled.div_ceil(mtu).clamp(1, MAX_AHEAD);
        Packets { mtu, sizes: self.sizes(), unscheduled }
    }

    fn sizes(&self) -> PacketSizes {
        PacketSizes::new(self.header_bytes, self.control_bytes)
    }
}

/// Parameters in bytes, and other values that both halves use.
struct Settings {
    hosts: u32,
    packets: Packets,
    rtt_bytes: u64,
    levels: Levels,
    overcommitment: usize,
    tail_boost: u64,
    bubble: Option<Span>,
    /// Time of a full packet on this host's link.
    packet_time: Span,
    /// Time of `rtt_bytes` on this host's link.
    round_trip: Span,
    timeout: Span,
    ack_delay: Span,
    incast_requests: u64,
}

impl Settings {
    fn new(fitted: &Fitted, host: &HostContext) -> Settings {
        let Fitted { params, curve } = fitted;
        let bytes = |extent: Extent| extent.bytes(host.bdp_bytes) as u64;
        let packets = params.packets(host.mtu, host.bdp_bytes);
        let (wanted, scheduled) = (params.priorities as u32, params.scheduled_priorities as u32);
        let levels = match params.cutoffs.as_slice() {
            [] => Levels::new(
                host.priorities,
                wanted,
                scheduled,
                curve.as_deref(),
                packets.unscheduled * packets.mtu,
            ),
            cuts => Levels::listed(host.priorities, wanted, cuts),
        };
        let overcommitment = match params.overcommitment {
            0 => levels.scheduled as usize,
            count => count as usize,
        };
        // At least one byte, otherwise nothing would ever be granted.
        let rtt_bytes = bytes(params.rtt_bytes).max(1);
        let bubble_bytes = bytes(params.bubble_bytes);
        let timeout = params.resend_timeout;
        Settings {
            hosts: host.hosts,
            packets,
            rtt_bytes,
            levels,
            overcommitment,
            tail_boost: bytes(params.tail_boost),
            bubble: (bubble_bytes > 0).then(|| host.nic_rate.serialise(bubble_bytes)),
            packet_time: host.nic_rate.serialise(packets.full()),
            round_trip: host.nic_rate.serialise(rtt_bytes),
            timeout,
            // Before the sender requests an acknowledgement.
            ack_delay: ACK_DELAY.min(timeout.scale(0.25)),
            incast_requests: params.incast_requests,
        }
    }

    /// Level of the next packet to grant of a message, if it belongs to a tail that has priority
    /// over other grants.
    #[inline]
    fn boosted(&self, size: u64, packet: u64) -> Option<u32> {
        if self.tail_boost == 0 || size == Message::UNLIMITED {
            return None;
        }
        let left = self.packets.left(size, packet);
        let packets = self.packets.of(size) - packet;
        let headers = self.packets.full() - self.packets.mtu;
        (left + packets * headers < self.tail_boost).then(|| self.levels.unscheduled(left))
    }
}

/// The Homa transport of one host.
pub struct Homa {
    settings: Settings,
    host: HostContext,
    /// Known hosts, with the number by which both halves identify them.
    peers: ByHost<Peer>,
    /// Number of known hosts.
    known_hosts: u32,
    outbox: Outbox,
    inbox: Inbox,
    /// Control packets; they leave before data.
    control: VecDeque<Control<Header>>,
    paths: Paths,
}

/// Number of a host among the known ones; none at first.
struct Peer(u32);

impl Default for Peer {
    fn default() -> Peer {
        Peer(u32::MAX)
    }
}

impl Endpoint for Homa {
    const INFO: ProtocolInfo = ProtocolInfo {
        name: "homa",
        title: "Homa",
        revision: 0,
        citation: "Montazeri et al., SIGCOMM 2018",
        summary: "Receivers grant to the shortest messages of a few senders at a time, and choose \
            their priorities in switches.",
        color: "#332288",
        marker: Marker::TriangleUp,
        dash: Dash::Dotted,
        telemetry_bytes: TelemetryBytes::NONE,
        echo_bytes: TelemetryBytes::NONE,
    };
    type Params = Fitted;
    type Header = Header;
    const MORE_HEADER_BYTES: u32 = MORE_UNSCHEDULED;

    fn new(fitted: &Fitted, host: &HostContext) -> Homa {
        let settings = Settings::new(fitted, host);
        Homa {
            inbox: Inbox::new(&settings),
            settings,
            host: *host,
            peers: ByHost::default(),
            known_hosts: 0,
            outbox: Outbox::default(),
            control: VecDeque::new(),
            paths: Paths::new(host),
        }
    }

    fn sizes(fitted: &Fitted) -> PacketSizes {
        fitted.params.sizes()
    }

    fn fit(fitted: &mut Fitted, fabric: &FabricProperties, sizes: &SizeMix) -> Option<String> {
        let bytes = |extent: Extent| extent.bytes(fabric.bdp_bytes) as u64;
        let Fitted { params, curve } = fitted;
        let packets = params.packets(fabric.mtu, fabric.bdp_bytes);
        // Listed cut-offs need no sizes, and so no curve.
        if params.cutoffs != Sizes::NONE {
            return None;
        }
        let (head, tail) = (bytes(params.rtt_bytes), bytes(params.tail_boost));
        *curve = Curve::of(sizes, packets, head, tail).map(Arc::new);
        curve.is_none().then(|| {
            alloc::format!(
                "no generator has a size distribution, so priorities cannot follow sizes: half of \
                 them are for unscheduled packets, with cut-offs evenly spaced up to {} B",
                packets.unscheduled * packets.mtu
            )
        })
    }

    fn operating_point(_fitted: &Fitted, path: &Path, _rate_bps: f64) -> OperatingPoint {
        OperatingPoint {
            domain_warnings: shorter_than_bdp(path).into_iter().collect(),
            ..OperatingPoint::DEFAULT
        }
    }

    fn requirements(fitted: &Fitted, _fabric: &FabricProperties) -> FabricRequirements {
        let above = fitted.params.priorities.saturating_sub(1) as u8;
        FabricRequirements {
            classes: above,
            needs_class: above > 0,
            routing: Routing::Spray,
            ..FabricRequirements::NONE
        }
    }
}

impl Transport for Homa {
    fn submit(&mut self, now: Time, message: Message, _paths: &dyn PathOracle) -> Handle {
        self.advance(now);
        let peer = self.peer_number(message.dst);
        let Homa { settings, inbox, outbox, control, .. } = self;
        let exchange = inbox.exchanges.submit(settings.incast_requests, &message);
        let step = &mut Step { settings, now, control };
        Handle(outbox.submit(step, peer, &message, exchange).bits())
    }

    fn stop(&mut self, now: Time, handle: Handle) {
        self.advance(now);
        let Homa { settings, outbox, control, .. } = self;
        outbox.stop(&mut Step { settings, now, control }, Key::of_bits(handle.0));
    }

    fn forget(&mut self, now: Time, peer: u32) {
        self.advance(now);
        let Some(&Peer(number)) = self.peers.get(peer) else { return };
        let Homa { settings, inbox, outbox, control, .. } = self;
        let step = &mut Step { settings, now, control };
        inbox.forget(step, number);
        outbox.forget(settings, number);
        step.drop_to(peer);
    }

    #[inline]
    fn receive<A: Application>(&mut self, now: Time, packet: PacketMut<'_>, app: &mut A) -> Reply {
        self.advance(now);
        let src = packet.body.src;
        let known = self.peers.get(src).map(|peer| peer.0);
        let is_other = src < self.settings.hosts && src != self.host.host;
        let may_be_new = is_other && announces(packet.body);
        let Some(peer) = known.or_else(|| may_be_new.then(|| self.peer_number(src))) else {
            return Reply::None;
        };
        let Some(header) = Header::read(packet.body) else { return Reply::None };
        let Homa { settings, inbox, outbox, control, .. } = self;
        let step = &mut Step { settings, now, control };
        let ours = |id| MessageId { src: self.host.host, id };
        inbox.on_packet(step, peer);
        let answer = match header {
            Header::Data(data) => {
                if data.acknowledges
                    && let Some(id) = outbox.on_acked(step, peer, data.acked)
                {
                    app.acked(now, ours(id));
                }
                let answer = inbox.on_data(step, peer, &data, packet.body.payload_bytes, app);
                inbox.watch(step);
                answer
            }
            Header::Grant(grant) => {
                outbox.on_grant(settings, peer, &grant);
                None
            }
            Header::Ack(ack) => {
                let gone = ack.messages().filter_map(|name| outbox.on_acked(step, peer, name));
                gone.for_each(|id| app.acked(now, ours(id)));
                None
            }
            Header::NeedAck(need_ack) => inbox.on_need_ack(step, peer, &need_ack, app),
            Header::Resend(resend) => outbox.on_resend(step, peer, &resend),
            Header::Busy(busy) => {
                inbox.on_busy(step, peer, &busy);
                None
            }
        };
        match answer {
            None => Reply::None,
            Some(reply) => {
                self.write_control(src, &reply, packet);
                Reply::Send
            }
        }
    }

    #[inline]
    fn transmit(&mut self, now: Time, packet: PacketMut<'_>) -> Transmit {
        self.advance(now);
        if let Some(Control { dst, header }) = self.control.pop_front() {
            self.write_control(dst, &header, packet);
        } else if let Some(leaving) = self.outbox.data(&self.settings, now) {
            self.write_data(leaving, packet);
        } else {
            return Transmit::Idle;
        }
        Transmit::Sent
    }

    fn transmit_above(&mut self, priority: u8, now: Time, packet: PacketMut<'_>) -> Transmit {
        if self.settings.levels.priority(0) >= priority {
            return Transmit::Idle;
        }
        self.advance(now);
        let Some(Control { dst, header }) = self.control.pop_front() else {
            return Transmit::Idle;
        };
        self.write_control(dst, &header, packet);
        Transmit::Sent
    }

    fn on_deadline<A: Application>(&mut self, now: Time, _app: &mut A) {
        self.advance(now);
    }

    #[inline]
    fn deadline(&self) -> Time {
        self.inbox.deadline().min(self.outbox.deadline())
    }

    #[inline]
    fn timer(&self) -> Time {
        self.inbox.timer().min(self.outbox.deadline())
    }

    fn backlog_bytes(&self) -> u64 {
        self.outbox.backlog_bytes()
    }

    fn limits(&self, handle: Handle) -> Option<Limits> {
        let allowed = self.outbox.allowed(&self.settings, Key::of_bits(handle.0))?;
        let pace_bps = self.host.nic_rate.as_bps() as f64;
        Some(Limits { window_bytes: allowed as f64, pace_bps })
    }
}

impl Homa {
    /// Number of a host; assigns one to a new host.
    fn peer_number(&mut self, host: u32) -> u32 {
        let Peer(number) = self.peers.entry(host);
        if *number == u32::MAX {
            *number = self.known_hosts;
            self.known_hosts += 1;
            self.inbox.add_host(host);
            self.outbox.add_host(host);
        }
        *number
    }

    /// Handles everything that was due by `now`, each at its own time, so that results do not
    /// depend on when the driver calls.
    #[inline]
    fn advance(&mut self, now: Time) {
        if self.deadline() <= now {
            self.catch_up(now);
        }
    }

    fn catch_up(&mut self, now: Time) {
        let Homa { settings, inbox, outbox, control, .. } = self;
        let step = &mut Step { settings, now, control };
        loop {
            let dues =
                [inbox.grants.next(), inbox.acks.next(), inbox.timers.next(), inbox.bubble_at];
            let at = dues.into_iter().fold(outbox.deadline(), Time::min);
            if at > now {
                return;
            }
            let [grant, ack, timer, bubble] = dues.map(|due| due == at);
            match () {
                () if grant => inbox.on_grant_timer(&mut step.at(at)),
                () if ack => inbox.on_ack_timer(&mut step.at(at)),
                () if timer => inbox.on_timer(step),
                () if bubble => inbox.on_bubble(&mut step.at(at)),
                () => outbox.on_timer(step),
            }
        }
    }

    /// Writes a data packet, with the acknowledgement of one message of its receiver, if any.
    fn write_data(&mut self, leaving: Leaving, packet: PacketMut<'_>) {
        let Leaving { peer, mut header, payload_bytes, level } = leaving;
        if let Some(name) = self.inbox.unacked(peer) {
            (header.acknowledges, header.acked) = (true, name);
        }
        let dst = self.outbox.destinations[peer as usize].host;
        let packets = self.settings.packets;
        let departure = Departure {
            dst,
            entropy: self.paths.entropy(dst, header.lane),
            wire_bytes: packets.wire(payload_bytes as u64, header.scheduled) as u32,
            payload_bytes,
            priority: self.settings.levels.priority(level),
            flags: 0,
        };
        departure.write(self.host.host, &Header::Data(header), packet);
    }

    /// Writes a control packet.
    fn write_control(&mut self, dst: u32, header: &Header, packet: PacketMut<'_>) {
        let packets = self.settings.packets;
        let wire_bytes = match header {
            Header::Grant(_) => packets.grant_wire(),
            Header::Ack(ack) => packets.ack_wire(ack.messages().count() as u32),
            _ => packets.sizes.control_bytes,
        };
        let entropy = self.paths.entropy(dst, header.lane());
        let priority = self.settings.levels.priority(0);
        let control = Departure::control(&packets.sizes, dst, entropy, priority);
        let departure = Departure { wire_bytes, ..control };
        departure.write(self.host.host, header, packet);
    }
}
