//! dcPIM: receivers and senders match themselves as the ports of a switch do, then receivers send
//! tokens to those that they are matched with.
//!
//! Parallel iterative matching finds, in a few rounds of requests, grants and acceptances, pairs of
//! inputs and outputs that can send at the same time. dcPIM does it among hosts: each has `k`
//! channels, an epoch has `r` rounds, and while the pairs of one epoch send, the next is matched.
//! Matched receivers call for data packet by packet, so downlinks and uplinks are shared without
//! overcommitment. Messages of up to a bandwidth-delay product (BDP) are not worth the wait: they
//! leave at once, above the others.
//!
//! Q. Cai, M. Tahmasbi Arashloo, R. Agarwal, "dcPIM: Near-Optimal Proactive Datacenter Transport",
//! SIGCOMM 2022.
//!
//! # Rules
//!
//! * iteration `= β · cRTT`, cRTT what a question and its answer take; data phase
//!   `= α · r · iteration`; epoch `e` begins at `e` data phases, its own follows `r` iterations
//!   later
//! * request: to every sender with messages that tokens may be sent for, by its shortest:
//!   `min(⌈remaining / quota⌉ − matched, free)` channels, of which each carries `quota` packets in
//!   a phase; prompt ones of them can be used at once, because this phase leaves them idle
//! * grant, half an iteration later: `min(wanted, free)`, to the shortest messages in the first
//!   rounds, at random later; accept, at the next round: the same rule; what a sender does not have
//!   any more it rejects
//! * tokens: one every `packet time · k / channels` and matched sender, for its shortest message;
//!   no more than `window · channels / k` unanswered, but for two each `window_timeout`; after the
//!   last missing packet of a message nothing for `resend_timeout`, then what is missing again
//! * sender: tokens by their match's place, then messages by what is missing; none that has expired
//! * a message of up to `short_limit` needs no tokens until `packets · packet time +
//!   resend_timeout` after it was announced; it competes like others then
//!
//! # Packets
//!
//! In `header.rs`. Data takes its payload and 80 bytes on the wire, at least 84, everything else
//! 84. A message is known by the pair of hosts, its lane and the lane's generation, as SIRD's are.
//!
//! # What it needs of the network
//!
//! Priorities: control above all data, and data of shorter messages above that of longer ones; with
//! fewer priorities the lower ones are one. Spraying: a path of its own for every packet. Hosts
//! whose clocks agree to a fraction of a round trip, which simulated ones do.
//!
//! # Differences from the paper
//!
//! The rules are those of its authors' simulator (github.com/Terabit-Ethernet/dcPIM,
//! `simulator/ext/pimhost.cpp`), and so are labels, prompt channels, quotas rounded down and when
//! tokens are skipped (`hold`). It has seven priorities, SIRD's comparison three.
//!
//! Its measures are not ours: there every packet of data has 1,500 B, the last of a message too,
//! and a message ends with its acknowledgement, which its ideal time includes.
//!
//! Our own:
//!
//! * Each packet takes any path; there a switch deals them out in turn.
//! * Packets of control have 84 B, 40 there: some 115 requests leave in time to be heard in their
//!   round, on the authors' fabric, where there are 240. Requests begin with any sender, so that
//!   others are heard in other rounds, no more leave than fit in half a round, and a late one hears
//!   now and then that its sender lives.
//! * Messages of one size are served in any order, there by when they began; a sender's packets by
//!   label, what is missing and age, where its order of tokens is not strict.
//! * The iteration is longer where a packet of control that finds a full packet begun at every hop
//!   would miss its half of a round: on short or slow paths. In the paper's setting it is not.
//! * Loss recovery of control, which the authors' simulator has none of: senders repeat
//!   notifications, with exponential backoff, and keep a message until its acknowledgement;
//!   whatever of a round is lost is asked for again in the next. A sender that cannot grant says so
//!   now and then, and one that says nothing at all is asked less often.
//! * A short message's notification leaves with its first packet, not before: the receiver's timer
//!   starts with it.
//! * A turn without a token (`hold`) is by time, not by count: a count would stay from one burst to
//!   the next.
//! * Rejected channels are free again; a pair that stays matched keeps the pace of its tokens from
//!   one phase to the next; grants for which no round waits are dropped, whatever their senders
//!   booked.
//! * What a token says of a message holds for all of its tokens in hand, which go in the order in
//!   which they came.
//! * A message without end counts as longer than any other; several take turns.

mod calendar;
mod granting;
pub mod header;
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
use calendar::Calendar;
use header::{Data, Header};
use receiver::{AHEAD, Inbox, MAX_AHEAD};
use sender::{Next, Outbox};
use tidegate_core::fabric::Routing;
use tidegate_core::{
    Application, Dash, Domain, Endpoint, Extent, FabricProperties, FabricRequirements, Handle,
    HostContext, Limits, MIN_WIRE_BYTES, Marker, Message, MessageId, PacketMut, PathOracle,
    ProtocolInfo, Reply, Rng, Span, TelemetryBytes, Time, Transmit, Transport, choice, params,
    wire::Carried,
};

/// Timeouts double at most so often.
const MAX_BACKOFF: u8 = 6;
/// Packets left of a message without end: more than of any other.
const LONG: u64 = 1 << 62;
/// A host that nobody has asked for so many phases has no matches any more.
const LAPSE: u64 = 4;

/// What every step of this transport is handed.
type Step<'a> = step::Step<'a, Settings, Header>;

choice! {
    /// Priorities of data below that of control: two (short, long), or by size in powers of seven.
    pub enum Priorities { Three = "three", Seven = "seven" }
}
params! {
    /// Parameters of dcPIM.
    pub struct DcpimParams {
        /// Rounds of matching in an epoch (r).
        rounds: u64 = 4, in 1..=16, "authors' simulator, load.py";
        /// Channels of a host (k): it sends to and receives from so many others at most, each with
        /// its share of the link.
        channels: u64 = 4, in 1..=64, "authors' simulator, load.py";
        /// Length of a round, in round trips of control packets.
        beta: f64 = 1.3, in 1.0..=100.0, "authors' simulator, load.py";
        /// Length of a phase of data, in lengths of the matching.
        alpha: f64 = 1.0, in 1.0..=100.0, "authors' simulator, load.py";
        /// In so many rounds shorter messages are matched first, in later ones whichever.
        select_min_rounds: u64 = 1, in 0..=16, "authors' simulator, load.py";
        /// Messages of up to so much leave at once, without tokens (whole packets of it, up to
        /// 4,096 or those of two BDP).
        short_limit: Extent = Extent::Bdp(1.0), within Extent::Bdp(0.0) => Extent::Bdp(1e3),
            "authors' simulator, load.py";
        /// Tokens without answer, over all channels (whole packets of it).
        token_window: Extent = Extent::Bdp(1.0), within Extent::Bdp(0.0) => Extent::Bdp(1e3),
            "authors' simulator, load.py";
        /// After so long, in times of a BDP on the link, a full window is passed by.
        window_timeout: f64 = 1.1, in 0.1..=1000.0, "authors' simulator, load.py";
        /// So long after the last token of a message, in times of a BDP on the link, what is
        /// missing is lost.
        resend_timeout: f64 = 1.0, in 0.1..=1000.0, "authors' simulator, load.py";
        /// A short message takes the turns of tokens in its packets' time.
        hold: bool = true, "authors' simulator, params.h";
        /// Priorities of data.
        priorities: Priorities = Priorities::Three, "SIRD (NSDI'25), section 5.1";
        /// Without news for so long, a sender tells its receiver again.
        notify_timeout: Span = Span::ms(1), within Span::us(10) => Span::s(1), "our choice: far \
            above an epoch";
    }
}

/// Parameters in packets and times, and what else both halves need.
struct Settings {
    hosts: u32,
    segments: Segments,
    calendar: Calendar,
    channels: u32,
    select_min_rounds: u32,
    /// Packets of the longest short message.
    short: u64,
    /// Tokens without answer.
    window: u64,
    /// Packets beyond the first missing one that may come.
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
        let segments = Segments { mtu: host.mtu as u64 };
        let full = segments.full();
        let packets = |bytes: f64| (bytes as u64).div_ceil(full).max(1);
        // What software holds back is part of every round trip.
        let held = host.most_held.times(2);
        let properties = calendar::FabricProperties {
            control_rtt: host.fabric_control_rtt + held,
            blocked: host.fabric_base_rtt.beyond(host.fabric_control_rtt),
            packet: host.nic_rate.serialise(full),
            request: host.nic_rate.serialise(MIN_WIRE_BYTES as u64),
            bdp_packets: packets(host.bdp_bytes),
        };
        let calendar = Calendar::new(params, &properties);
        let ahead = (2 * properties.bdp_packets).clamp(AHEAD, MAX_AHEAD);
        let of_bdp = |share| calendar.bdp_time.scale(share) + held;
        let short = params.short_limit.bytes(host.bdp_bytes);
        Settings {
            hosts: host.hosts,
            segments,
            channels: params.channels as u32,
            select_min_rounds: params.select_min_rounds as u32,
            // What is beyond the first one lost must find room at the receiver.
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

    /// Of the data of a message of so many packets: one above the lowest at least for short ones,
    /// where there are so many.
    fn priority(&self, packets: u64) -> u8 {
        let level = match self.levels {
            Priorities::Three if packets <= self.short => 1,
            Priorities::Three => return self.lowest,
            Priorities::Seven => (1..6).find(|&n| packets <= 7u64.pow(n)).unwrap_or(0) as u8,
        };
        if level == 0 { self.lowest } else { level.min(self.lowest) }
    }
}

/// The dcPIM transport of one host.
pub struct Dcpim {
    settings: Settings,
    host: HostContext,
    outbox: Outbox,
    inbox: Inbox,
    /// Goes before data.
    control: VecDeque<Control<Header>>,
    /// Whose turn it is where it is anybody's.
    draws: Rng,
    paths: Paths,
}

impl Endpoint for Dcpim {
    const INFO: ProtocolInfo = ProtocolInfo {
        name: "dcpim",
        title: "dcPIM",
        citation: "Cai, Tahmasbi Arashloo and Agarwal, SIGCOMM 2022",
        summary: "Hosts match themselves in rounds of requests and grants, then receivers send \
            tokens to whom they are matched with.",
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

    fn requirements(params: &DcpimParams, _fabric: &FabricProperties) -> FabricRequirements {
        let classes = match params.priorities {
            Priorities::Three => 2,
            Priorities::Seven => 6,
        };
        // Control that waits behind data is late for its round.
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
            inbox.hear(step, source);
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
                outbox.on_request(step, src, &request, draws);
                None
            }
            (Header::Grant(grant), Some(source)) => {
                inbox.on_grant(step, source, &grant, draws);
                None
            }
            (Header::Accept(accept), _) => {
                outbox.on_accept(step, src, &accept);
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
            // Nobody that this host receives from.
            _ => None,
        };
        // Data may have let a clock go on.
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
    /// Does everything that was due by `now`, each at its own time, so that nothing depends on when
    /// the driver calls.
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
            inbox.oversleep(step);
            outbox.oversleep();
        }
        loop {
            let at = inbox.deadline().min(outbox.deadline());
            if at > now {
                return;
            }
            // At one time: rounds, then tokens by them, then what they have not answered.
            let step = &mut step.at(at);
            if inbox.matching.stage_at == at {
                inbox.on_stage(step, draws);
            } else if outbox.granting.stage_at == at {
                outbox.grant(step);
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

    /// Writes a data packet with so much payload.
    fn write_data(
        &mut self,
        dst: u32,
        data: Data,
        payload_bytes: u32,
        priority: u8,
        packet: PacketMut<'_>,
    ) {
        let entropy = self.paths.entropy(dst, data.lane);
        let departure = Departure::data(dst, entropy, payload_bytes, priority);
        departure.write(self.host.host, &Header::Data(data), packet);
    }

    /// Writes any other.
    fn write_control(&mut self, dst: u32, header: &Header, packet: PacketMut<'_>) {
        let departure = Departure::control(dst, self.paths.entropy(dst, header.lane()), 0);
        departure.write(self.host.host, header, packet);
    }
}
