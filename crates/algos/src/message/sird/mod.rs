//! SIRD: receivers issue credit for their own link, and senders and switches report congestion of
//! shared links.
//!
//! A receiver owns its downlink, so it schedules the traffic on it: one credit allows one packet,
//! credits leave at the pace of the link, and at most `B` bytes of credit are outstanding, of which
//! a network without congestion needs one bandwidth-delay product (BDP). Uplinks and links between
//! switches are shared and therefore controlled by feedback: a sender that holds much unused credit
//! flags this in its data, a switch marks ECN, and either reduces the credit limit of that sender
//! by DCTCP's rule, which leaves the credit to senders that can use it. Messages of up to a BDP are
//! sent immediately, without credit.
//!
//! K. Prasopoulos, E. Bugnion, M. Kogias, "SIRD: A Sender-Informed, Receiver-Driven Datacenter
//! Transport Protocol", NSDI 2025.
//!
//! # Rules
//!
//! * algorithm 1, receiver: the next credit goes to the message with the fewest bytes left whose
//!   sender's bucket admits it, while `b + credit ≤ B`; it is returned when the packet arrives
//! * algorithm 2, sender: `csn ← Σ unused credit ≥ SThr`, in every data packet, before the packet's
//!   own credit is spent
//! * both loops, per packet: `bucket += full² / bucket`, with `full` a full packet on the wire; per
//!   bucket of packets: `α ← (1 − g) α + g F`; on a marked packet, once in 1.5 buckets of packets:
//!   `bucket −= bucket · α / 2`
//! * sender, between receivers: `fair_share` of the link round-robin, the rest to the shortest
//!   message
//!
//! Credit is counted in bytes on the wire, including headers and gap. It belongs to the pair of
//! hosts, not to a message: the sender spends it on its shortest message to that receiver, and the
//! receiver continues until it has issued credit for every packet of every message once.
//!
//! # Packets
//!
//! Defined in `header.rs`. A data packet takes its payload plus 80 bytes on the wire
//! (`header_bytes`), at least 84; all other packets take 84 (`control_bytes`). The pair of hosts,
//! the lane and the lane's generation identify a message; a lane is reused, with the next
//! generation, once the receiver has acknowledged the previous message. Both ends therefore always
//! recognise old packets, with one small record per lane.
//!
//! # Network requirements
//!
//! ECN at ports between switches, on the instantaneous queue (`NThr`, 1.25 BDP), and per-packet
//! spraying. Two priorities are used if available, but not required.
//!
//! # Differences from the paper
//!
//! The authors' simulator decides points that the paper leaves open
//! (github.com/epfl-dcsl/SIRD-Simulator, `r2p2-cc-hybrid.cc`):
//!
//! * Unscheduled packets count: the first packet of a message takes their credit out of the
//!   buckets, below zero if necessary, and no credit is issued until they recover. A sender takes
//!   at most a BDP for one receiver, including unused credit, but always at least a packet; it
//!   takes whole packets, so that a message's credit is the sum of its packets.
//! * Every packet from a sender raises its buckets and counts in `F`, also marked ones, requests
//!   and replies, where Algorithm 1 names data. Both loops divide by the smaller bucket, and their
//!   floors are 0.1 and 0.03 BDP. The simulator also decides that one and a half buckets lie
//!   between two decreases, and that `α` begins at 0.
//! * A request for credit is part of the first data packet. The paper's is a packet of its own if
//!   only a part of the message waits for credit (`UnschT` above a BDP).
//! * A bucket is compared before a packet's credit is added, so it can be exceeded by one packet.
//! * Credits are spaced by the wire time of their data, with a slack of 562 bytes, instead of every
//!   30 ns.
//!
//! `rules = "published-code"` adopts three more rules of the simulator, for comparison with its
//! results: a sender is congested if it holds more than `SThr` after the packet's own credit is
//! spent, including credit that it took itself; it reports this only while two of its messages have
//! unsent bytes; and the credit limit of a sender is the BDP in bytes, rounded down to whole
//! packets. The second rule lets a slow sender with one message keep a BDP of credit that others
//! could use.
//!
//! Differences that are our choice:
//!
//! * The credit limit of a sender is a BDP rounded up to whole packets, and `SThr` is at least two
//!   packets; unless `B` is set below a BDP, it is larger by both differences and, if `SThr` is
//!   raised, by one packet more. Otherwise a path that holds few packets is not filled: without the
//!   latter, 8 receivers of one congested sender each receive 0.65 of their link instead of 0.98
//!   (10 Gbit/s, 4,096 B, links of 500 ns).
//! * The credit of a sender that has been silent for long returns to the budget. If the sender then
//!   spends it after all, `b` exceeds `B` by it for a while, which Algorithm 1 excludes.
//! * A message that has not been announced precedes announced ones at its sender.
//! * Loss recovery, which the paper takes from Homa without detail: receivers request packets that
//!   timeouts show to be lost, senders repeat announcements, both with exponential backoff, and the
//!   receiver acknowledges whole messages. Credits carry a running sum, so a later one replaces a
//!   lost one. See `recovery.rs` and `unanswered.rs`.
//! * A sender needs credit for all of its next packet (the paper: for any part of it), with one
//!   exception after a request by its receiver for missing packets.
//! * With `network_signal`, the network is congested for a receiver if a packet has a delay of at
//!   least `delay_threshold`, in place of marks. The delay is either the largest of one hop, for
//!   which switches write two bytes that are not counted on the wire, or that of the whole path
//!   minus the minimum of a full packet from that sender, so that clocks need not be synchronised.
//!   The minimum never ages: after clock drift, or if all routes have become longer, every packet
//!   counts as delayed. A flow that starts while there is a queue takes it for part of the path,
//!   and gets more than its share (measured: four pairs over one link, 100 us apart, have a Jain's
//!   index of 0.55, and 1.00 by hops). Both delays include queues of downlinks, which do not mark;
//!   the threshold is therefore above the queue that the budget leaves there.
//! * A receiver accepts packets, and gives credit, up to 2²⁰ packets beyond the first missing one,
//!   so that its record of a message takes 128 KiB at most.
//! * A message of unknown size ranks behind all others; several of them are served round-robin.
//! * Only the shortest message of each sender is considered, and among all senders only the first
//!   when the budget is short: a shorter last packet of another message does not overtake when
//!   little credit is left.

mod credit;
mod destinations;
pub mod header;
mod receiver;
mod recovery;
mod schedule;
mod sender;
pub(super) mod target;
#[cfg(test)]
mod tests;
mod unanswered;

use alloc::collections::VecDeque;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use core::marker::PhantomData;

use crate::kit::departure::Departure;
use crate::kit::heap::shortest_first;
use crate::kit::paths::Paths;
use crate::kit::segments::Segments;
use crate::kit::slab::Key;
use crate::kit::step::{self, Control};
use crate::kit::window::shorter_than_bdp;
use credit::Pacer;
use header::{Data, Header, Preview};
use receiver::Inbox;
use sender::Outbox;
use target::TargetLaw;
use tidegate_core::fabric::Routing;
use tidegate_core::{
    Application, Dash, Endpoint, Extent, FabricProperties, FabricRequirements, Handle, HostContext,
    Limits, Marker, Marking, Message, MessageId, OperatingPoint, PacketMut, PacketSizes, Path,
    PathOracle, ProtocolInfo, Rate, Reply, Span, Telemetry, TelemetryBytes, Time, Transmit,
    Transport, choice, frame_flag, mix64, wire::Carried,
};

/// Queue length at ports between switches from which packets are marked (NThr; paper, table 2).
const NETWORK_THRESHOLD: Extent = Extent::Bdp(1.25);
/// Largest number of times that a timeout doubles.
const MAX_BACKOFF: u8 = 6;
/// Upper bound of configured sizes, some exabytes: sums of a few of them do not overflow.
const MOST_BYTES: f64 = (1u64 << 60) as f64;
/// Bytes left of a message of unknown size: more than any other.
const LONG: u64 = 1 << 57;
/// Bits of a message's rank below its weight, which has five bits; one bit is left above.
const BELOW_WEIGHT: u32 = 64 + 58;
/// Fractions of a byte in which the order of weighted messages is counted.
const WEIGHED: u64 = 1 << 10;

/// Context of every step of this transport.
type Step<'a> = step::Step<'a, Settings, Header>;

choice! {
    /// Order of packets.
    pub enum Policy {
        Srpt = "srpt",
        RoundRobin = "round-robin",
        Weighted = "weighted",
        Strict = "strict",
    }
}
choice! {
    /// Rules where the paper and its authors' simulator differ.
    pub enum Rules { Paper = "paper", PublishedCode = "published-code" }
}
choice! {
    /// Signal from which a receiver infers network congestion.
    pub enum NetworkSignal { Ecn = "ecn", Delay = "delay", PeakHopDelay = "peak-hop-delay" }
}
choice! {
    /// Packets above the priority of data, if there are two priorities.
    pub enum Priorities {
        ControlAndUnscheduled = "control-and-unscheduled",
        Control = "control",
        None = "none",
    }
}
/// Why weights have no effect under these policies, if they have none.
pub(super) fn without_weights(policies: [Policy; 2]) -> Option<&'static str> {
    let weighs = |policy| matches!(policy, Policy::Weighted | Policy::Strict);
    (!policies.into_iter().any(weighs)).then_some(
        "receiver_policy and sender_policy ignore weights; set one to \"weighted\" or \"strict\"",
    )
}

/// Parameters of a protocol on this transport: `own` ones of its control of shared links among
/// those of the transport.
macro_rules! credit_params {
    ($(#[$doc:meta])* pub struct $name:ident { $($own:tt)* }) => {
        tidegate_core::params! {
            $(#[$doc])*
            pub struct $name {
                /// Credit that a receiver may have outstanding (B). Less than a BDP does not fill
                /// the link.
                budget: Extent = Extent::Bdp(1.5),
                    within Extent::Bdp(0.0) => Extent::Bdp(1e9), "paper, table 2";
                /// Largest message, in bytes on the wire, that starts without credit (UnschT).
                unscheduled_threshold: Extent = Extent::Bdp(1.0),
                    within Extent::Bdp(0.0) => Extent::Bdp(1e9), "paper, table 2";
                /// Unused credit from which a sender is congested (SThr); at least two packets,
                /// except under the rules of the published code. A very large value disables the
                /// signal, and slow senders then hold credit that others could use.
                sender_threshold: Extent = Extent::Bdp(0.5),
                    within Extent::Bdp(0.0) => Extent::Bdp(1e9), "paper, table 2";
                /// Weight of the latest share of marked packets in its moving average, in each loop
                /// that reacts to marks; 0 disables these loops.
                gain: f64 = 0.08, in 0.0..=1.0, "authors' simulator, large-scale-common.default";
                /// Smallest bucket of a congested sender, in BDP; 1: it never shrinks.
                sender_floor: f64 = 0.1, in 0.0..=1.0, if gain != 0.0,
                    "authors' simulator, large-scale-common.default";
                /// Smallest bucket of a sender behind a congested network, in BDP.
                network_floor: f64 = 0.03, in 0.0..=1.0,
                    "authors' simulator, large-scale-common.default";
                /// Share of a sender's link that its receivers get round-robin; the rest goes to
                /// the shortest message.
                fair_share: f64 = 0.5, in 0.0..=1.0, "paper, section 5.4";
                /// Order in which a receiver issues credit: shortest message first, round-robin, in
                /// proportion to weights, or largest weight first and then shortest.
                receiver_policy: Policy = Policy::Srpt, "paper, sections 4.5 and 5.1";
                /// Order in which a sender sends packets, except for the round-robin share of
                /// `fair_share`.
                sender_policy: Policy = Policy::Srpt, "paper, sections 4.5 and 5.1";
                /// Whether credits are spaced like the data that they allow.
                credit_pacing: bool = true, "paper, section 4.5";
                /// Share of the link that paced credits allow. At 1, nothing drains the queue of
                /// other packets (requests, unscheduled data) at a busy downlink, so it grows to
                /// the limit of the budget.
                credit_rate: f64 = 1.0, in 0.1..=1.0, if credit_pacing == true,
                    "authors' simulator, r2p2-cc-hybrid.cc";
                /// Packets above the priority of data, if there are two priorities.
                priorities: Priorities = Priorities::ControlAndUnscheduled, "paper, section 4.6";
                $($own)*
                /// Time without a response after which packets count as lost.
                resend_timeout: Span = Span::ms(1), within Span::us(10) => Span::s(1),
                    "our choice: far above any round trip";
                /// Headers and gap of a data packet in bytes.
                header_bytes: u64 = 80, later = true, in 20..=1000, "authors' simulator: \
                    60, and 20 of preamble and gap";
                /// Size of a packet without payload on the wire in bytes. If it is below 84, data
                /// packets are padded to this size only.
                control_bytes: u64 = 84, later = true, in 20..=1000,
                    "Ethernet's smallest frame, with preamble and gap";
            }
        }
    };
}
pub(super) use credit_params;

credit_params! {
    /// Parameters of SIRD.
    pub struct SirdParams {
        /// Signal from which a receiver infers network congestion: marks of switches, the queueing
        /// delay of the whole path, or the largest delay of a hop, which switches write into
        /// packets.
        network_signal: NetworkSignal = NetworkSignal::Ecn, "paper, section 4.3; the others are \
            ours";
        /// Queueing delay from which the network is congested, as the bytes that the host's link
        /// carries in that time. More than `budget` leaves at a downlink without congestion.
        delay_threshold: Extent = Extent::Bdp(0.75),
            within Extent::Bdp(0.0) => Extent::Bdp(1e9), if network_signal != NetworkSignal::Ecn,
            "our choice: above B less a BDP, below NThr at the host's rate";
        /// Rules where the paper and its authors' simulator differ: the test for a congested
        /// sender, and whether the credit limit of a sender is a BDP rounded up or down to whole
        /// packets.
        rules: Rules = Rules::Paper, "paper, algorithms 1 and 2";
    }
}

/// Parameters in bytes, and other values that both halves use.
struct Settings {
    host: u32,
    hosts: u32,
    /// Distinguishes this host's random numbers from those of others.
    entropy: u64,
    segments: Segments,
    /// A full packet on the wire.
    full: u64,
    bdp: i64,
    /// Credit limit of one sender.
    most: i64,
    budget: i64,
    unscheduled_threshold: u64,
    sender_threshold: i64,
    gain: f64,
    sender_floor: f64,
    network_floor: f64,
    /// In units of [`destinations::ONE`].
    fair_share: i64,
    receiver_policy: Policy,
    sender_policy: Policy,
    signal: NetworkSignal,
    delay_threshold: Span,
    rules: Rules,
    /// Control loop of shared links by a target delay; `None`: by marked packets.
    law: Option<TargetLaw>,
    timeout: Span,
}

/// Sizes of credit, in bytes.
struct Credits {
    bdp: i64,
    /// Limit of one sender.
    most: i64,
    budget: i64,
    threshold: i64,
}

impl Credits {
    fn new(params: &SirdParams, full: i64, bdp_bytes: f64) -> Credits {
        let bytes = |extent: Extent| extent.bytes(bdp_bytes).min(MOST_BYTES) as i64;
        // At least one packet, however short the path.
        let bdp = (bdp_bytes as i64).max(full);
        let budget = bytes(params.budget).max(full);
        let threshold = bytes(params.sender_threshold);
        match params.rules {
            Rules::PublishedCode => Credits { bdp, most: bdp, budget, threshold },
            Rules::Paper => {
                // Whole packets below a BDP do not fill the path. A packet's credit is spent
                // immediately, so the sender's threshold includes it. The budget keeps its excess
                // over one BDP, which is for other senders than congested ones, beside the credit
                // that these hold at a raised threshold, in whole packets.
                let most = (bdp as u64).next_multiple_of(full as u64) as i64;
                let raised = (2 * full - threshold).max(0);
                let held = if raised > 0 { raised + full } else { 0 };
                let more = if budget < bdp { 0 } else { most - bdp + held };
                Credits { bdp, most, budget: budget + more, threshold: threshold + raised }
            }
        }
    }
}

impl Settings {
    fn new(params: &SirdParams, host: &HostContext) -> Settings {
        let sizes = PacketSizes::new(params.header_bytes, params.control_bytes);
        let segments = Segments { mtu: host.mtu as u64, sizes };
        let full = segments.full();
        let bytes = |extent: Extent| extent.bytes(host.bdp_bytes).min(MOST_BYTES) as i64;
        let Credits { bdp, most, budget, threshold } =
            Credits::new(params, full as i64, host.bdp_bytes);
        Settings {
            host: host.host,
            hosts: host.hosts,
            entropy: mix64(host.seed ^ mix64(host.host.into())),
            segments,
            full,
            bdp,
            most,
            budget,
            unscheduled_threshold: bytes(params.unscheduled_threshold) as u64,
            sender_threshold: threshold,
            gain: params.gain,
            sender_floor: params.sender_floor,
            network_floor: params.network_floor,
            fair_share: (params.fair_share * destinations::ONE as f64) as i64,
            receiver_policy: params.receiver_policy,
            sender_policy: params.sender_policy,
            signal: params.network_signal,
            delay_threshold: delay_threshold(params, host.bdp_bytes, host.nic_rate),
            rules: params.rules,
            law: None,
            timeout: params.resend_timeout,
        }
    }
}

/// Reasons why this transport uses a path badly.
pub(super) fn warnings_of_credit(budget: Extent, path: &Path) -> Vec<String> {
    let full = f64::from(path.full_wire_bytes);
    let bytes = budget.bytes(path.bdp_bytes);
    // Below a BDP, credit is for whole packets, and for one at least.
    let outstanding = match bytes < path.bdp_bytes {
        true => ((bytes / full) as u64).max(1) as f64 * full,
        false => bytes.max(full),
    };
    let pipe = path.nic_rate.bytes_in(path.base_rtt);
    let share = outstanding / pipe as f64;
    let short = (share < 0.995).then(|| {
        format!(
            "budget = {budget} fills {share:.2} of a path with a base RTT of {:.2} us: a receiver \
             whose senders all wait for credit uses no more of its link; set budget = \"{}B\"",
            path.base_rtt.as_us_f64(),
            pipe.next_multiple_of(u64::from(path.full_wire_bytes))
        )
    });
    short.into_iter().chain(shorter_than_bdp(path)).collect()
}

/// Delay from which a packet indicates congestion.
fn delay_threshold(params: &SirdParams, bdp_bytes: f64, nic_rate: Rate) -> Span {
    let seconds = 8.0 * params.delay_threshold.bytes(bdp_bytes) / nic_rate.as_bps() as f64;
    Span::from_ps_f64(seconds * 1e12)
}

impl Policy {
    /// Rank of a message: the smallest goes first. A message of unknown size has [`LONG`] bytes
    /// left.
    #[inline]
    fn rank(self, bytes_left: u64, order: u64, weight: u8) -> u128 {
        match self {
            Policy::Srpt => shortest_first(bytes_left, order),
            Policy::RoundRobin | Policy::Weighted => shortest_first(0, order),
            Policy::Strict => {
                let after = (Message::MOST_WEIGHT - weight.min(Message::MOST_WEIGHT)) as u128;
                after << BELOW_WEIGHT | shortest_first(bytes_left, order)
            }
        }
    }

    /// Whether messages are ordered by rounds instead of bytes left.
    #[inline]
    fn is_by_order(self) -> bool {
        matches!(self, Policy::RoundRobin | Policy::Weighted)
    }

    /// First order of a message, where `latest` is the latest of all.
    #[inline]
    fn first_order(self, latest: &mut u64) -> u64 {
        *latest += (self != Policy::Weighted) as u64;
        *latest
    }

    /// Order after `order` when `wire` bytes of the message have been sent. Weighted orders advance
    /// by bytes over weight: start-time fair queueing (Goyal et al., SIGCOMM 1996), in which
    /// `order` is no earlier than the time at which the message could send again.
    #[inline]
    fn next_order(self, latest: &mut u64, order: u64, wire: u64, weight: u8) -> u64 {
        if self == Policy::Weighted {
            *latest = order.max(*latest);
            return order + wire * WEIGHED / weight.max(1) as u64;
        }
        *latest += 1;
        *latest
    }
}

/// SIRD as published.
#[derive(Debug)]
pub enum Published {}

/// The SIRD transport of one host.
pub type Sird = CreditTransport<Published>;

/// The transport of one host; `P` is the protocol that uses it.
pub struct CreditTransport<P> {
    protocol: PhantomData<P>,
    settings: Settings,
    host: HostContext,
    /// Priorities of control, unscheduled and scheduled packets.
    priorities: [u8; 3],
    outbox: Outbox,
    inbox: Inbox,
    /// Control packets; they leave before data.
    control: VecDeque<Control<Header>>,
    paths: Paths,
}

impl Endpoint for Sird {
    const INFO: ProtocolInfo = ProtocolInfo {
        name: "sird",
        title: "SIRD",
        revision: 0,
        citation: "Prasopoulos et al., NSDI 2025",
        summary: "Receivers schedule their own link by credit, and reduce the credit of senders \
            that cannot use it.",
        color: "#3388ff",
        marker: Marker::Star,
        dash: Dash::Solid,
        telemetry_bytes: TelemetryBytes::NONE,
        echo_bytes: TelemetryBytes::NONE,
    };
    type Params = SirdParams;
    type Header = Header;

    fn new(params: &SirdParams, host: &HostContext) -> Sird {
        CreditTransport::with(params, None, host)
    }

    fn sizes(params: &SirdParams) -> PacketSizes {
        PacketSizes::new(params.header_bytes, params.control_bytes)
    }

    fn ignores_weights(params: &SirdParams) -> Option<&'static str> {
        without_weights([params.receiver_policy, params.sender_policy])
    }

    fn requirements(params: &SirdParams, _fabric: &FabricProperties) -> FabricRequirements {
        let marking = Marking { core_only: true, ..Marking::step(NETWORK_THRESHOLD) };
        let signal = params.network_signal;
        FabricRequirements {
            ecn: (signal == NetworkSignal::Ecn).then_some(marking),
            telemetry: match signal {
                NetworkSignal::PeakHopDelay => Telemetry::PEAK,
                NetworkSignal::Ecn | NetworkSignal::Delay => Telemetry::NONE,
            },
            classes: (params.priorities != Priorities::None).into(),
            routing: Routing::Spray,
            ..FabricRequirements::NONE
        }
    }

    fn operating_point(params: &SirdParams, path: &Path, _rate_bps: f64) -> OperatingPoint {
        let threshold = delay_threshold(params, path.bdp_bytes, path.nic_rate);
        let is_compared = params.network_signal == NetworkSignal::PeakHopDelay;
        OperatingPoint {
            telemetry_target: is_compared.then_some(threshold),
            domain_warnings: warnings_of_credit(params.budget, path),
            ..OperatingPoint::DEFAULT
        }
    }
}

impl<P> Transport for CreditTransport<P> {
    fn submit(&mut self, now: Time, message: Message, _paths: &dyn PathOracle) -> Handle {
        self.advance(now);
        let CreditTransport { settings, outbox, control, .. } = self;
        Handle(outbox.submit(&mut Step { settings, now, control }, &message).bits())
    }

    fn stop(&mut self, now: Time, handle: Handle) {
        self.advance(now);
        let CreditTransport { settings, outbox, control, .. } = self;
        outbox.stop(&mut Step { settings, now, control }, Key::of_bits(handle.0));
    }

    fn forget(&mut self, now: Time, peer: u32) {
        self.advance(now);
        let CreditTransport { settings, inbox, outbox, control, .. } = self;
        let step = &mut Step { settings, now, control };
        inbox.changed(now);
        inbox.forget(settings, peer);
        outbox.forget(settings, peer);
        step.drop_to(peer);
        inbox.issue(step);
    }

    #[inline]
    fn receive<A: Application>(&mut self, now: Time, packet: PacketMut<'_>, app: &mut A) -> Reply {
        self.advance(now);
        let CreditTransport { settings, inbox, outbox, control, .. } = self;
        let step = &mut Step { settings, now, control };
        let src = packet.body.src;
        let Some(preview) = Preview::of(packet.body) else { return Reply::None };
        let source = inbox.source(settings, src, preview.announces);
        if let Some(source) = source {
            inbox.changed(now);
            let congested = match settings.signal {
                _ if settings.law.is_some() => false,
                NetworkSignal::Ecn => packet.frame.flags & frame_flag::CONGESTION_EXPERIENCED != 0,
                // In other packets the departure time is undefined.
                NetworkSignal::Delay if preview.is_data => {
                    let is_full = packet.body.payload_bytes as u64 == settings.segments.mtu;
                    let delay = inbox.delay(source, now, packet.body.sent_at, is_full);
                    delay >= settings.delay_threshold
                }
                NetworkSignal::Delay => false,
                NetworkSignal::PeakHopDelay => {
                    packet.frame.peak_hop_delay >= settings.delay_threshold
                }
            };
            inbox.on_packet(step, source, preview.sender_congested, congested);
        }
        let answer = match (Header::read(packet.body), source) {
            (Some(Header::Data(data)), Some(source)) => {
                let Segments { mtu, sizes } = settings.segments;
                let payload_bytes = packet.body.payload_bytes;
                let answer = inbox.on_data(step, source, &data, payload_bytes, app);
                // Unscheduled packets overtake others, so their delays are not those of a queue.
                if let Some(law) = &settings.law
                    && !data.is_unscheduled(mtu)
                    && u64::from(payload_bytes) <= mtu
                {
                    let wire = sizes.data(payload_bytes);
                    inbox.steer(now, law, source, (wire, packet.frame.peak_hop_delay));
                }
                answer
            }
            (Some(Header::Request(request)), Some(source)) => {
                inbox.on_request(step, source, &request, app)
            }
            (Some(Header::Credit(credit)), _) => {
                outbox.on_credit(settings, src, credit.granted);
                None
            }
            (Some(Header::Resend(resend)), _) => outbox.on_resend(step, src, &resend),
            (Some(Header::Ack(ack)), _) => {
                if let Some(id) = outbox.on_done(step, src, &ack) {
                    app.acked(now, MessageId { src: self.host.host, id });
                }
                None
            }
            _ => None,
        };
        // An unknown host has no credit to return.
        if let Some(source) = source {
            inbox.reschedule(settings, source, now);
            inbox.issue(step);
        }
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
        } else if let Some((dst, data, payload)) = self.outbox.data(&self.settings, now) {
            self.write_data(dst, data, payload, packet);
        } else {
            return Transmit::Idle;
        }
        Transmit::Sent
    }

    fn transmit_above(&mut self, priority: u8, now: Time, packet: PacketMut<'_>) -> Transmit {
        if self.priorities[0] >= priority {
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
        let available = self.outbox.available(Key::of_bits(handle.0))?;
        let pace_bps = self.host.nic_rate.as_bps() as f64;
        Some(Limits { window_bytes: available.max(0) as f64, pace_bps })
    }
}

impl<P> CreditTransport<P> {
    pub(super) fn with(
        params: &SirdParams,
        law: Option<TargetLaw>,
        host: &HostContext,
    ) -> CreditTransport<P> {
        let pace = match params.credit_rate {
            1.0 => host.nic_rate,
            share => Rate::bps((host.nic_rate.as_bps() as f64 * share) as u64),
        };
        let mut settings = Settings::new(params, host);
        // The lower ends of limits are shares of this BDP, which is at least a packet.
        let least = settings.bdp as f64;
        settings.law = law.map(|law| law.with_room(least));
        CreditTransport {
            protocol: PhantomData,
            settings,
            host: *host,
            priorities: match params.priorities {
                Priorities::ControlAndUnscheduled => [0, 0, host.data_priority()],
                Priorities::Control => [0, host.data_priority(), host.data_priority()],
                Priorities::None => [host.data_priority(); 3],
            },
            outbox: Outbox::default(),
            inbox: Inbox::new(Pacer::new(pace, params.credit_pacing)),
            control: VecDeque::new(),
            paths: Paths::new(host),
        }
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
        let CreditTransport { settings, inbox, outbox, control, .. } = self;
        let step = &mut Step { settings, now, control };
        loop {
            let (theirs, ours) = (inbox.timers.next(), outbox.deadline());
            let at = theirs.min(ours);
            inbox.issue(&mut step.at(at.min(now)));
            if at > now {
                return;
            }
            if theirs <= ours {
                inbox.changed(at);
                inbox.on_timer(step);
                inbox.issue(&mut step.at(at));
            } else {
                outbox.on_timer(step);
            }
        }
    }

    /// Writes a data packet with this payload.
    fn write_data(&mut self, dst: u32, data: Data, payload_bytes: u32, packet: PacketMut<'_>) {
        let [_, unscheduled, scheduled] = self.priorities;
        let is_unscheduled = data.is_unscheduled(self.settings.segments.mtu);
        let priority = if is_unscheduled { unscheduled } else { scheduled };
        let entropy = self.paths.entropy(dst, data.lane);
        let departure = Departure {
            flags: match self.settings.signal {
                NetworkSignal::Ecn => frame_flag::ECN_CAPABLE,
                NetworkSignal::Delay => 0,
                NetworkSignal::PeakHopDelay => frame_flag::STAMP_PEAK,
            },
            ..Departure::data(&self.settings.segments.sizes, dst, entropy, payload_bytes, priority)
        };
        departure.write(self.host.host, &Header::Data(data), packet);
    }

    /// Writes a control packet.
    fn write_control(&mut self, dst: u32, header: &Header, packet: PacketMut<'_>) {
        let entropy = self.paths.entropy(dst, header.lane());
        let sizes = &self.settings.segments.sizes;
        let departure = Departure::control(sizes, dst, entropy, self.priorities[0]);
        departure.write(self.host.host, header, packet);
    }
}
