//! Homa: receivers grant packets to the few senders with the least left to send, and say at which
//! of the switches' priorities they come.
//!
//! A message's first packets, a round trip of them, leave at once; for the others the receiver
//! grants, packet by packet, to the senders of its shortest messages (SRPT). It grants to several
//! at a time, so that its link is busy when one of them does not answer (controlled
//! overcommitment), and lets each use a priority of its own, so that the shortest overtakes in the
//! switches. What goes without a grant has the priorities above, by sizes that split its bytes
//! evenly.
//!
//! B. Montazeri, Y. Li, M. Alizadeh, J. Ousterhout, "Homa: A Receiver-Driven Low-Latency Transport
//! Protocol Using Network Priorities", SIGCOMM 2018.
//!
//! # Rules
//!
//! * unscheduled: the first `RTTbytes` of a message leave at once
//! * sender: the message with the fewest unsent bytes of which a packet may leave
//! * receiver: grants a packet to a sender when one arrives from it, or a packet time after the
//!   last grant, or at once where that has a better priority; if the sender is among the first `n`
//!   by the bytes that its shortest message has left to grant, and less than `RTTbytes` of that
//!   message are under way
//! * scheduled priority: with `k ≤ n` senders being granted to, the `k` lowest, the best sender's
//!   the highest of them
//! * unscheduled priority: by what is left of the message when the packet leaves, by sizes that
//!   give each level as many bytes on the wire; grants count for the highest
//! * levels for unscheduled packets in proportion to their bytes; `n` is the number of the others
//!
//! # Packets
//!
//! In `header.rs`. Data takes its payload and 96 bytes on the wire without a grant, 82 with one, at
//! least 84; a grant 86 (`packets.rs`). A message is known by the pair of hosts, its lane and the
//! lane's generation.
//!
//! # What it needs of the network
//!
//! Two strict priorities, better eight, and a path of its own for every packet. What messages are
//! large is known beforehand, as in the paper's simulations; where nobody says, levels are cut
//! evenly.
//!
//! # Differences from the paper
//!
//! The authors' simulator settles what the paper leaves open
//! (github.com/PlatformLab/HomaSimulation):
//!
//! * A sender's place follows every packet from it, and every grant; others hear of theirs when it
//!   is their turn.
//! * Cut-offs count packets within the first `RTTbytes` of a message on the wire.
//!
//! * Bytes under way are those on the wire, of full packets.
//!
//! The priorities of its comparison (one scheduled for W1, 3, 4, 7 and 7 for W2 to W5) are not in
//! proportion to bytes as the paper has it: W2 would have two, W3 five or six (2.53 of eight go
//! without a grant in whole packets, 2.48 of its 9,328 B). `scheduled_priorities` sets them.
//!
//! It does otherwise:
//!
//! * Among messages with as many bytes to grant the smaller goes first there, then the older; here
//!   the one that came first.
//! * When a sender with grants leaves that was not the first, the others keep their levels there;
//!   here they move down to the lowest, as the paper has it, with their next grants. The last place
//!   is then looked at in any case there, here if somebody comes in for it.
//!
//! Our own:
//!
//! * Messages go one way, and only closed loops say which is a reply; so a receiver acknowledges:
//!   long messages at once, short ones in data that goes the other way, as Linux' Homa does, in a
//!   packet when there are many, or after a while.
//! * Incast control (`incast.rs`) is off unless `incast_requests` says from how many requests on:
//!   the paper gives no number, and that simulator has none of it. A reply then begins with one
//!   packet, for the paper's few hundred bytes.
//! * Unscheduled bytes are rounded up to whole packets, and all packets hold as much; a packet
//!   without a grant counts as one with among those under way.
//! * Packets say more than they are charged for: 16 bytes of header are what the simulator has for
//!   a granted one, which here also names its message, its size and, at times, another that has
//!   arrived (`packets.rs`, `header.rs`).
//! * Loss recovery is that of Linux' Homa (`recovery.rs`), with waits that double, no end of
//!   patience, and one more rule: what is missing below younger packets is asked for too.
//! * A message without end counts as longer than any other; several take turns, of a packet more
//!   than `RTTbytes` at the receiver, of a packet at the sender.

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
use cutoffs::{Curve, Levels};
use header::{Header, announces};
use packets::{GRANT_WIRE_BYTES, Packets, UNSCHEDULED_HEADER_BYTES, ack_wire, wire};
use receiver::{Inbox, MAX_AHEAD};
use sender::{Leaving, Outbox};
use tidegate_core::fabric::Routing;
use tidegate_core::params::{Params, Sizes, Table, Value};
use tidegate_core::workload::SizeMix;
use tidegate_core::{
    Application, Dash, Endpoint, Extent, FabricProperties, FabricRequirements, Handle, HostContext,
    Limits, MIN_WIRE_BYTES, Marker, Message, MessageId, PacketMut, PathOracle, ProtocolInfo, Reply,
    Span, TelemetryBytes, Time, Transmit, Transport, params, wire::Carried,
};

/// Timeouts double at most so often.
const MAX_BACKOFF: u8 = 6;
/// Bytes left of a message without end: more than of any other.
const LONG: u64 = 1 << 62;
/// How long a short message that has arrived waits for data the other way: a tick of Linux' Homa.
const ACK_DELAY: Span = Span::ms(1);

/// What every step of this transport is handed.
type Step<'a> = step::Step<'a, Settings, Header>;

params! {
    /// Parameters of Homa.
    pub struct HomaParams {
        /// Bytes of a message that may be under way, on the wire (RTTbytes).
        rtt_bytes: Extent = Extent::Bdp(1.0), within Extent::Bdp(0.0) => Extent::Bdp(1e6), "paper, \
            section 3.1";
        /// First bytes of a message that leave at once, in whole packets, one at least.
        unscheduled_bytes: Extent = Extent::Bdp(1.0),
            within Extent::Bdp(0.0) => Extent::Bdp(1e6), "paper, section 3.2";
        /// Priorities that it uses, where there are so many.
        priorities: u64 = 8, in 1..=8, "paper, section 5";
        /// The lowest of them, for what was granted; 0: in proportion to its bytes, one at least
        /// for either kind.
        scheduled_priorities: u64 = 0, in 0..=7, "paper, section 3.4";
        /// Senders that a receiver grants to at a time; 0: as many as there are scheduled
        /// priorities.
        overcommitment: u64 = 0, in 0..=64, "paper, section 3.5";
        /// The last bytes of a message that are granted come at the priorities of unscheduled ones;
        /// 0: they do not.
        tail_boost: Extent = Extent::Bytes(0.0),
            within Extent::Bdp(0.0) => Extent::Bdp(1e6), "SIRD's simulator";
        /// A receiver whose link was idle for the time of so many bytes, while others wait, grants
        /// to one more until the next message with grants is complete; 0: it does not.
        bubble_bytes: Extent = Extent::Bytes(0.0),
            within Extent::Bdp(0.0) => Extent::Bdp(1e6), "authors' simulator, \
            homaTransportConfig.ini";
        /// Without news for so long, packets are lost.
        resend_timeout: Span = Span::ms(5), within Span::us(10) => Span::s(10), "HomaModule, \
            homa_timer.c";
        /// Bytes left of a message up to which packets without a grant have the highest priority,
        /// the next one, and so on: increasing, one fewer than there are priorities for such
        /// packets, which are those that `scheduled_priorities` leaves of `priorities`. Where that
        /// is 0, the list decides how many there are. A fabric with fewer priorities uses the first
        /// of them alone. Empty: from the sizes of what is generated.
        cutoffs: Sizes = Sizes::NONE, later = true, "paper, section 3.4: from the sizes; Linux' \
            Homa lists them";
        /// Requests of a host beyond so many have replies of which only the first packet goes
        /// without a grant (incast control); 0: none.
        incast_requests: u64 = 0, in 0..=1_000_000_000, "paper, section 3.6";
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

/// Parameters, and what sizes they were fitted to.
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
    /// Packets where a BDP has so many bytes.
    fn packets(&self, mtu: u32, bdp_bytes: f64) -> Packets {
        let unscheduled = self.unscheduled_bytes.bytes(bdp_bytes) as u64;
        let mtu = mtu as u64;
        Packets { mtu, unscheduled: unscheduled.div_ceil(mtu).clamp(1, MAX_AHEAD) }
    }
}

/// Parameters in bytes, and what else both halves need.
struct Settings {
    hosts: u32,
    packets: Packets,
    rtt_bytes: u64,
    levels: Levels,
    overcommitment: usize,
    tail_boost: u64,
    bubble: Option<Span>,
    /// A full packet on this host's link.
    packet_time: Span,
    /// `rtt_bytes` on it.
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
            told => told as usize,
        };
        // Else nothing is ever granted.
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
            // Before the sender asks.
            ack_delay: ACK_DELAY.min(timeout.scale(0.25)),
            incast_requests: params.incast_requests,
        }
    }

    /// The level of the packet of a message that is granted next, where it belongs to a tail that
    /// goes before what else is granted.
    #[inline]
    fn boosted(&self, size: u64, packet: u64) -> Option<u32> {
        if self.tail_boost == 0 || size == Message::UNLIMITED {
            return None;
        }
        let left = self.packets.left(size, packet);
        let packets = self.packets.of(size) - packet;
        let headers = wire(self.packets.mtu, true) - self.packets.mtu;
        (left + packets * headers < self.tail_boost).then(|| self.levels.unscheduled(left))
    }
}

/// The Homa transport of one host.
pub struct Homa {
    settings: Settings,
    host: HostContext,
    /// Hosts that were met, by the number that both halves know them by.
    peers: ByHost<Peer>,
    met: u32,
    outbox: Outbox,
    inbox: Inbox,
    /// Goes before data.
    control: VecDeque<Control<Header>>,
    paths: Paths,
}

/// A host's number among those that were met; none at first.
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
    const HEADER_BYTES: u32 = UNSCHEDULED_HEADER_BYTES as u32;

    fn new(fitted: &Fitted, host: &HostContext) -> Homa {
        let settings = Settings::new(fitted, host);
        Homa {
            inbox: Inbox::new(&settings),
            settings,
            host: *host,
            peers: ByHost::default(),
            met: 0,
            outbox: Outbox::default(),
            control: VecDeque::new(),
            paths: Paths::new(host),
        }
    }

    fn fit(fitted: &mut Fitted, fabric: &FabricProperties, sizes: &SizeMix) -> Option<String> {
        let bytes = |extent: Extent| extent.bytes(fabric.bdp_bytes) as u64;
        let Fitted { params, curve } = fitted;
        let packets = params.packets(fabric.mtu, fabric.bdp_bytes);
        // What is listed needs no sizes, and so no curve.
        if params.cutoffs != Sizes::NONE {
            return None;
        }
        let (head, tail) = (bytes(params.rtt_bytes), bytes(params.tail_boost));
        *curve = Curve::of(sizes, packets, head, tail).map(Arc::new);
        curve.is_none().then(|| {
            alloc::format!(
                "nothing generated has a size, so priorities cannot follow sizes: half of them are \
                 for packets without a grant, cut evenly up to {} B",
                packets.unscheduled * packets.mtu
            )
        })
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
        let peer = self.meet(message.dst);
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
        let may_be_new = src < self.settings.hosts && announces(packet.body);
        let Some(peer) = known.or_else(|| may_be_new.then(|| self.meet(src))) else {
            return Reply::None;
        };
        let Some(header) = Header::read(packet.body) else { return Reply::None };
        let Homa { settings, inbox, outbox, control, .. } = self;
        let step = &mut Step { settings, now, control };
        let ours = |id| MessageId { src: self.host.host, id };
        inbox.hear(step, peer);
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
            Header::NeedAck(asked) => inbox.on_need_ack(step, peer, &asked, app),
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
    /// The number of a host.
    fn meet(&mut self, host: u32) -> u32 {
        let Peer(number) = self.peers.entry(host);
        if *number == u32::MAX {
            *number = self.met;
            self.met += 1;
            self.inbox.meet(host);
            self.outbox.meet(host);
        }
        *number
    }

    /// Does everything that was due by `now`, each at its own time, so that nothing depends on when
    /// the driver calls.
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

    /// Writes a data packet, with the news for who gets it that a message of theirs has arrived.
    fn write_data(&mut self, leaving: Leaving, packet: PacketMut<'_>) {
        let Leaving { peer, mut header, payload_bytes, level } = leaving;
        if let Some(name) = self.inbox.untold(peer) {
            (header.acknowledges, header.acked) = (true, name);
        }
        let dst = self.outbox.destinations[peer as usize].host;
        let departure = Departure {
            dst,
            entropy: self.paths.entropy(dst, header.lane),
            wire_bytes: wire(payload_bytes as u64, header.scheduled) as u32,
            payload_bytes,
            priority: self.settings.levels.priority(level),
            flags: 0,
        };
        departure.write(self.host.host, &Header::Data(header), packet);
    }

    /// Writes any other.
    fn write_control(&mut self, dst: u32, header: &Header, packet: PacketMut<'_>) {
        let wire_bytes = match header {
            Header::Grant(_) => GRANT_WIRE_BYTES,
            Header::Ack(ack) => ack_wire(ack.messages().count() as u32),
            _ => MIN_WIRE_BYTES,
        };
        let entropy = self.paths.entropy(dst, header.lane());
        let priority = self.settings.levels.priority(0);
        let departure = Departure { wire_bytes, ..Departure::control(dst, entropy, priority) };
        departure.write(self.host.host, header, packet);
    }
}
