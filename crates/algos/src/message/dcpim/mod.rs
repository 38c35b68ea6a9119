//! dcPIM: receivers and senders are matched like the ports of a switch, then receivers send tokens
//! to their matched senders.
//!
//! Parallel iterative matching finds, in a few rounds of requests, grants and acceptances, pairs of
//! inputs and outputs that can send at the same time. dcPIM matches hosts in this way: each has `k`
//! channels, an epoch has `r` rounds, and while the pairs of one epoch send, the next epoch is
//! matched. Matched receivers request data packet by packet, so downlinks and uplinks are shared
//! without overcommitment. For messages of up to a bandwidth-delay product (BDP) the matching would
//! take too long: they leave immediately, at a higher priority.
//!
//! Q. Cai, M. Tahmasbi Arashloo, R. Agarwal, "dcPIM: Near-Optimal Proactive Datacenter Transport",
//! SIGCOMM 2022.
//!
//! # Rules
//!
//! * iteration `= β · cRTT`, with cRTT the round-trip time of control packets; data phase `= α · r
//!   · iteration`; epoch `e` starts at `e` data phases, and its own data phase follows `r`
//!   iterations later
//! * request: to every sender with messages that need tokens, for its shortest message:
//!   `min(⌈remaining / quota⌉ − matched, free)` channels, each of which carries `quota` packets in
//!   a phase; prompt channels among them can be used immediately, because they are idle in this
//!   phase
//! * grant, half an iteration later: `min(wanted, free)`, to the shortest messages in the first
//!   rounds, at random later; accept, at the next round, by the same rule; the sender rejects
//!   channels that are no longer free
//! * tokens: one every `packet time · k / channels` per matched sender, for its shortest message;
//!   at most `window · channels / k` of a message outstanding, except for two per `window_timeout`;
//!   after the last missing packet of a message none for `resend_timeout`, then the missing packets
//!   again
//! * sender: tokens by the place of their match, then messages by missing packets; expired tokens
//!   are not used
//! * a message of up to `short_limit` needs no tokens until `packets · packet time +
//!   resend_timeout` after its announcement; then it competes like others
//!
//! # Packets
//!
//! Defined in `header.rs`. A data packet takes its payload plus 80 bytes on the wire
//! (`header_bytes`), at least 84; all other packets take 84 (`control_bytes`). The pair of hosts,
//! the lane and the lane's generation identify a message, as in SIRD.
//!
//! # Network requirements
//!
//! Priorities: control above all data, and data of shorter messages above that of longer ones; with
//! fewer priorities the lower ones are merged. Per-packet spraying. Host clocks that are
//! synchronised to a fraction of a round trip, as simulated clocks are.
//!
//! # Differences from the paper
//!
//! The rules are those of the authors' simulator (github.com/Terabit-Ethernet/dcPIM,
//! `simulator/ext/pimhost.cpp`), including labels, prompt channels, rounded-down quotas and skipped
//! tokens (`hold`). It has seven priorities, SIRD's comparison three.
//!
//! Its measures differ from ours: there every data packet has 1,500 B, also the last of a message,
//! and a message ends with its acknowledgement, which its ideal time includes.
//!
//! Differences that are our choice:
//!
//! * Packets are sprayed at random; there a switch distributes them round-robin.
//! * Control packets have 84 B by default, 40 there (`control_bytes = 40`): about 115 requests
//!   arrive in time for their round on the authors' fabric, and 240 there. Requests start with a
//!   random sender, so that different senders are served in different rounds; only as many leave as
//!   fit into half a round; and a late request gets, at a limited rate, a response that its sender
//!   is alive.
//! * Messages of the same size are served in any order, there by age; a sender orders packets by
//!   label, missing packets and age, where the simulator's order of tokens is not strict.
//! * The iteration is longer if a control packet that waits for a full packet at every hop would
//!   miss its half of a round: on short or slow paths. In the paper's setting it is not.
//! * Control packets have loss recovery, which the authors' simulator lacks: senders repeat
//!   notifications with exponential backoff, and keep a message until its acknowledgement; lost
//!   matching packets of a round are replaced by those of the next. A sender that cannot grant
//!   responds with an empty grant at a limited rate, and one that does not respond at all gets
//!   fewer requests.
//! * The notification of a short message leaves with its first packet, not before: the receiver's
//!   timer starts with it.
//! * A skipped token (`hold`) is decided by time, not by count: a count would carry over from one
//!   burst to the next.
//! * Rejected channels become free again; a pair that stays matched keeps the pace of its tokens
//!   across phases; grants for a round that has ended are dropped, even if their senders have
//!   booked channels.
//! * The message state in a token applies to all unused tokens of the message, which are used in
//!   order of arrival.
//! * A message of unknown size ranks behind all others; several of them are served round-robin.

mod calendar;
mod granting;
pub mod header;
mod inbox;
mod matching;
mod receiver;
mod sender;
#[cfg(test)]
mod tests;
mod tokens;

use alloc::collections::VecDeque;

use crate::kit::departure::Departure;
use crate::kit::paths::Paths;
use crate::kit::segments::Segments;
use crate::kit::slab::Key;
use crate::kit::step::{self, Control};
use crate::kit::window::{MAX_AHEAD, shorter_than_bdp};
use calendar::Calendar;
use header::{Data, Header};
use inbox::Inbox;
use receiver::AHEAD;
use sender::{Next, Outbox};
use tidegate_core::fabric::Routing;
use tidegate_core::{
    Application, Dash, Domain, Endpoint, Extent, FabricProperties, FabricRequirements, Handle,
    HostContext, Limits, Marker, Message, MessageId, OperatingPoint, PacketMut, PacketSizes, Path,
    PathOracle, ProtocolInfo, Reply, Rng, Span, TelemetryBytes, Time, Transmit, Transport, choice,
    params, wire::Carried,
};

/// Largest number of times that a timeout doubles.
const MAX_BACKOFF: u8 = 6;
/// Packets left of a message of unknown size: more than any other.
const LONG: u64 = 1 << 62;
/// Number of phases without any message after which a host has no matches.
const LAPSE: u64 = 4;

/// Context of every step of this transport.
type Step<'a> = step::Step<'a, Settings, Header>;

choice! {
    /// Data priorities below that of control: two (short, long), or by size in powers of seven.
    pub enum Priorities { Three = "three", Seven = "seven" }
}
params! {
    /// Parameters of dcPIM.
    pub struct DcpimParams {
        /// Rounds of matching in an epoch (r).
        rounds: u64 = 4, in 1..=16, "authors' simulator, load.py";
        /// Channels of a host (k): it sends to and receives from at most this number of others,
        /// each with its share of the link.
        channels: u64 = 4, in 1..=64, "authors' simulator, load.py";
        /// Length of a round, in round-trip times of control packets.
        beta: f64 = 1.3, in 1.0..=100.0, "authors' simulator, load.py";
        /// Length of a data phase, as a multiple of the matching time.
        alpha: f64 = 1.0, in 1.0..=100.0, "authors' simulator, load.py";
        /// Number of rounds in which shorter messages are matched first; later rounds choose at
        /// random.
        select_min_rounds: u64 = 1, in 0..=16, "authors' simulator, load.py";
        /// Largest message that leaves immediately, without tokens (in whole packets, at most 4,096
        /// or two BDP).
        short_limit: Extent = Extent::Bdp(1.0), within Extent::Bdp(0.0) => Extent::Bdp(1e3),
            "authors' simulator, load.py";
        /// Outstanding tokens of a message whose sender has all channels (in whole packets); in
        /// proportion with fewer. Each message has a window of its own.
        token_window: Extent = Extent::Bdp(1.0), within Extent::Bdp(0.0) => Extent::Bdp(1e3),
            "authors' simulator, load.py";
        /// Time after which a full window is ignored, in times of a BDP on the link.
        window_timeout: f64 = 1.1, in 0.1..=1000.0, "authors' simulator, load.py";
        /// Time after the last token of a message after which missing packets count as lost, in
        /// times of a BDP on the link.
        resend_timeout: f64 = 1.0, in 0.1..=1000.0, "authors' simulator, load.py";
        /// Whether a short message suppresses tokens for the time of its packets.
        hold: bool = true, "authors' simulator, params.h";
        /// Priorities of data.
        priorities: Priorities = Priorities::Three, "SIRD (NSDI'25), section 5.1";
        /// Time without a response after which a sender repeats its notification.
        notify_timeout: Span = Span::ms(1), within Span::us(10) => Span::s(1), "our choice: far \
            above an epoch";
        /// Headers and gap of a data packet in bytes.
        header_bytes: u64 = 80, later = true, in 20..=1000, "our choice; 40 in the authors' \
            simulator";
        /// Size of a token, and of any other packet without payload, on the wire in bytes. If it is
        /// below 84, data packets are padded to this size only.
        control_bytes: u64 = 84, later = true, in 20..=1000, "Ethernet's smallest frame, with \
            preamble and gap; 40 in the authors' simulator";
    }
}

/// Parameters in packets and times, and other values that both halves use.
struct Settings {
    host: u32,
    hosts: u32,
    segments: Segments,
    calendar: Calendar,
    channels: u32,
    select_min_rounds: u32,
    /// Packets of the longest short message.
    short: u64,
    /// Largest number of outstanding tokens.
    window: u64,
    /// Number of packets beyond the first missing one that are accepted.
    ahead: u64,
    window_timeout: Span,
    resend_timeout: Span,
    notify_timeout: Span,
    hold: bool,
    levels: Priorities,
    /// The lowest priority.
    lowest: u8,
}

impl Settings {
    fn new(params: &DcpimParams, host: &HostContext) -> Settings {
        let segments = Segments { mtu: host.mtu as u64, sizes: Dcpim::sizes(params) };
        let (full, control) = (segments.full(), segments.sizes.control_bytes as u64);
        let packets = |bytes: f64| (bytes as u64).div_ceil(full).max(1);
        // Host software delay is part of every round trip.
        let held = host.most_held.times(2);
        let properties = calendar::FabricProperties {
            control_rtt: control_rtt(host, control) + held,
            blocked: links_time(host, full.saturating_sub(control)),
            packet: host.nic_rate.serialise(full),
            request: host.nic_rate.serialise(control),
            bdp_packets: packets(host.bdp_bytes),
        };
        let calendar = Calendar::new(params, &properties);
        let ahead = (2 * properties.bdp_packets).clamp(AHEAD, MAX_AHEAD);
        let of_bdp = |share| calendar.bdp_time.scale(share) + held;
        let short = params.short_limit.bytes(host.bdp_bytes);
        Settings {
            host: host.host,
            hosts: host.hosts,
            segments,
            channels: params.channels as u32,
            select_min_rounds: params.select_min_rounds as u32,
            // The receiver must have room for all packets behind the first lost one.
            short: if short > 0.0 { packets(short).min(ahead) } else { 0 },
            ahead,
            window: packets(params.token_window.bytes(host.bdp_bytes)),
            window_timeout: of_bdp(params.window_timeout),
            resend_timeout: of_bdp(params.resend_timeout),
            notify_timeout: params.notify_timeout,
            hold: params.hold,
            levels: params.priorities,
            lowest: host.data_priority(),
            calendar,
        }
    }

    /// Priority of the data of a message with this number of packets: for short messages at least
    /// one above the lowest, if there are that many.
    fn priority(&self, packets: u64) -> u8 {
        let level = match self.levels {
            Priorities::Three if packets <= self.short => 1,
            Priorities::Three => return self.lowest,
            Priorities::Seven => (1..6).find(|&n| packets <= 7u64.pow(n)).unwrap_or(0) as u8,
        };
        if level == 0 { self.lowest } else { level.min(self.lowest) }
    }
}

/// Time of this number of bytes on all links of the longest path, derived from the two round trips
/// of the fabric: they differ by a full packet in place of a minimum frame.
fn links_time(host: &HostContext, bytes: u64) -> Span {
    let sizes = host.sizes;
    let between = u64::from(sizes.data(host.mtu).saturating_sub(sizes.control_bytes)).max(1);
    let apart = host.fabric_base_rtt.beyond(host.fabric_control_rtt);
    Span::ps((u128::from(apart.as_ps()) * u128::from(bytes) / u128::from(between)) as u64)
}

/// Round trip of control packets of this size.
fn control_rtt(host: &HostContext, bytes: u64) -> Span {
    let usual = u64::from(host.sizes.control_bytes);
    let more = links_time(host, bytes.saturating_sub(usual)).times(2);
    let less = links_time(host, usual.saturating_sub(bytes)).times(2);
    host.fabric_control_rtt.plus(more).beyond(less)
}

/// The dcPIM transport of one host.
pub struct Dcpim {
    settings: Settings,
    host: HostContext,
    outbox: Outbox,
    inbox: Inbox,
    /// Control packets; they leave before data.
    control: VecDeque<Control<Header>>,
    /// Random choices among equals.
    draws: Rng,
    paths: Paths,
}

impl Endpoint for Dcpim {
    const INFO: ProtocolInfo = ProtocolInfo {
        name: "dcpim",
        title: "dcPIM",
        revision: 0,
        citation: "Cai, Tahmasbi Arashloo and Agarwal, SIGCOMM 2022",
        summary: "Hosts are matched in rounds of requests and grants, then receivers send \
            tokens to their matched senders.",
        color: "#999933",
        marker: Marker::X,
        dash: Dash::Dashed,
        telemetry_bytes: TelemetryBytes::NONE,
        echo_bytes: TelemetryBytes::NONE,
    };
    type Params = DcpimParams;
    type Header = Header;

    fn new(params: &DcpimParams, host: &HostContext) -> Dcpim {
        Dcpim {
            settings: Settings::new(params, host),
            host: *host,
            outbox: Outbox::default(),
            inbox: Inbox::default(),
            control: VecDeque::new(),
            draws: Rng::stream(host.seed, Domain::Transport, host.host as u64),
            paths: Paths::new(host),
        }
    }

    fn sizes(params: &DcpimParams) -> PacketSizes {
        PacketSizes::new(params.header_bytes, params.control_bytes)
    }

    fn operating_point(_params: &DcpimParams, path: &Path, _rate_bps: f64) -> OperatingPoint {
        OperatingPoint {
            domain_warnings: shorter_than_bdp(path).into_iter().collect(),
            ..OperatingPoint::DEFAULT
        }
    }

    fn requirements(params: &DcpimParams, _fabric: &FabricProperties) -> FabricRequirements {
        let classes = match params.priorities {
            Priorities::Three => 2,
            Priorities::Seven => 6,
        };
        // Control packets that wait behind data would miss their round.
        let routing = Routing::Spray;
        FabricRequirements {
            classes,
            needs_class: true,
            routing,
            same_clock: true,
            ..FabricRequirements::NONE
        }
    }
}

impl Transport for Dcpim {
    fn submit(&mut self, now: Time, message: Message, _paths: &dyn PathOracle) -> Handle {
        self.advance(now);
        let Dcpim { settings, outbox, control, .. } = self;
        Handle(outbox.submit(&mut Step { settings, now, control }, &message).bits())
    }

    fn stop(&mut self, now: Time, handle: Handle) {
        self.advance(now);
        let Dcpim { settings, outbox, control, .. } = self;
        outbox.stop(&mut Step { settings, now, control }, Key::of_bits(handle.0));
    }

    fn forget(&mut self, now: Time, peer: u32) {
        self.advance(now);
        let Dcpim { settings, inbox, outbox, control, .. } = self;
        let step = &mut Step { settings, now, control };
        inbox.forget(step, peer);
        outbox.forget(peer);
        step.drop_to(peer);
    }

    #[inline]
    fn receive<A: Application>(&mut self, now: Time, packet: PacketMut<'_>, app: &mut A) -> Reply {
        self.advance(now);
        let Dcpim { settings, inbox, outbox, control, draws, .. } = self;
        let step = &mut Step { settings, now, control };
        let src = packet.body.src;
        let Some(header) = Header::read(packet.body) else { return Reply::None };
        let source = inbox.source(settings, src, header::announces(packet.body));
        if let Some(source) = source {
            inbox.on_packet(step, source);
        }
        let answer = match (header, source) {
            (Header::Data(data), Some(source)) => {
                inbox.on_data(step, source, &data, packet.body.payload_bytes, app)
            }
            (Header::Notification(notification), Some(source)) => {
                inbox.on_notification(step, source, &notification, app)
            }
            (Header::Token(token), _) => {
                outbox.on_token(step, src, &token);
                None
            }
            (Header::Request(request), _) => {
                outbox.granting.on_request(step, src, &request, draws);
                None
            }
            (Header::Grant(grant), Some(source)) => {
                inbox.on_grant(step, source, &grant, draws);
                None
            }
            (Header::Accept(accept), _) => {
                outbox.granting.on_accept(step, src, &accept);
                None
            }
            (Header::Reject(reject), Some(source)) => {
                inbox.on_reject(source, &reject);
                None
            }
            (Header::Ack(ack), _) => {
                if let Some(id) = outbox.on_ack(step, src, &ack) {
                    app.acked(now, MessageId { src: self.host.host, id });
                }
                None
            }
            // Not from a sender to this host.
            _ => None,
        };
        // Data may have restarted a clock.
        self.advance(now);
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
            return Transmit::Sent;
        }
        match self.outbox.next(&self.settings, now) {
            Some(Next::Data(dst, data, payload, priority)) => {
                self.write_data(dst, data, payload, priority, packet);
            }
            Some(Next::Control(dst, header)) => self.write_control(dst, &header, packet),
            None => return Transmit::Idle,
        }
        Transmit::Sent
    }

    fn transmit_above(&mut self, priority: u8, now: Time, packet: PacketMut<'_>) -> Transmit {
        if priority == 0 {
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
        let Settings { window, segments, .. } = self.settings;
        let pace_bps = self.host.nic_rate.as_bps() as f64;
        let window_bytes = (window * segments.full()) as f64;
        let known = self.outbox.contains(Key::of_bits(handle.0));
        known.then_some(Limits { window_bytes, pace_bps })
    }
}

impl Dcpim {
    /// Handles everything that was due by `now`, each at its own time, so that results do not
    /// depend on when the driver calls.
    #[inline]
    fn advance(&mut self, now: Time) {
        if self.deadline() <= now {
            self.catch_up(now);
        }
    }

    fn catch_up(&mut self, now: Time) {
        let lapse = self.settings.calendar.phase.times(LAPSE);
        let Dcpim { settings, inbox, outbox, control, draws, .. } = self;
        let step = &mut Step { settings, now, control };
        if now.since(inbox.matching.stage_at.min(outbox.granting.stage_at)) > lapse {
            inbox.expire(step);
            outbox.granting.expire();
        }
        loop {
            let at = inbox.deadline().min(outbox.deadline());
            if at > now {
                return;
            }
            // Order at equal times: rounds, then tokens that depend on them, then timeouts.
            let step = &mut step.at(at);
            if inbox.matching.stage_at == at {
                inbox.on_stage(step, draws);
            } else if outbox.granting.stage_at == at {
                outbox.granting.grant(step);
            } else if inbox.clocks.next() == at {
                inbox.on_clock(step);
            } else if inbox.timers.next() == at {
                inbox.on_timer(step);
            } else if inbox.pauses.next() == at {
                inbox.end_pause(step);
            } else {
                outbox.on_timer(step);
            }
        }
    }

    /// Writes a data packet with this payload.
    fn write_data(
        &mut self,
        dst: u32,
        data: Data,
        payload_bytes: u32,
        priority: u8,
        packet: PacketMut<'_>,
    ) {
        let entropy = self.paths.entropy(dst, data.lane);
        let departure =
            Departure::data(&self.settings.segments.sizes, dst, entropy, payload_bytes, priority);
        departure.write(self.host.host, &Header::Data(data), packet);
    }

    /// Writes a control packet.
    fn write_control(&mut self, dst: u32, header: &Header, packet: PacketMut<'_>) {
        let entropy = self.paths.entropy(dst, header.lane());
        let departure = Departure::control(&self.settings.segments.sizes, dst, entropy, 0);
        departure.write(self.host.host, header, packet);
    }
}
