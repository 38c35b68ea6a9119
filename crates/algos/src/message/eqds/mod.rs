//! EQDS: receivers pull data, after a first window that senders send without credit.
//!
//! A message begins with a window of credit, so its first packets leave at once. Every data packet
//! states the sum of credit that its sender requests (pull target). A receiver serves the messages
//! whose requests exceed their credit round-robin. It sends pulls at nearly the rate of its link,
//! and each grants `pull_packets` packets (EQDS 1, RCCC 4). If no message requests more, the
//! receiver grants the others up to a window in advance. Switches trim packets that do not fit;
//! receivers request these again, and senders resend them on the next credit.
//!
//! The transport is shared with RCCC (`rccc.rs`), which adapts the rate of pulls to congestion
//! between switches, with NDP (`ndp.rs`), whose arriving packets request credit themselves, and
//! with NSCC+RCCC (`nscc_rccc.rs`), whose messages have a window beside their credit.
//!
//! V. Olteanu et al., "An edge-queued datagram service for all datacenter traffic", NSDI 2022.
//! Details follow the authors' simulator (Broadcom/csg-htsim, `eqds.cpp`, commit 841d9e7) and its
//! successor (ultraethernet/uet-htsim, `uec.cpp`, commit 40ccb05, `-receiver_cc_only`).
//!
//! # Rules
//!
//! With `W` the window (`max_window`), `c` the unused credit, `P` the sum of credit received:
//!
//! * start: `c = W`. The first response voids what is left of it (`c = min(c, 0)`).
//! * a packet leaves while `c > 0`, lost packets first, and reduces `c` by its bytes
//! * pull target: `P + (min(unsent + lost, W) − c) / n` for a host with `n` messages that wait for
//!   the uplink; at least one packet more than `P` before the first response
//! * a trimmed packet raises the largest target that its receiver knows by its own bytes: all of a
//!   short message may be in the first window, so that no later packet requests credit for it
//! * pull: `c = min(c + grant, W)`; the receiver grants `pull_packets` at a time, up to the target,
//!   and then waits for `grant / (pull_rate · link rate)`
//! * a packet that a switch returned is lost; its receiver does not know of it
//! * a packet without response for `min_rto` is lost; a sender without credit then requests some
//!   (RTS), at most once a round trip
//!
//! # Network requirements
//!
//! Packet trimming, with strict priorities for trimmed packets and control: the sources send
//! 100,000 of these for each packet of data that waits (NDP: ten). Marks between switches, which
//! choices of paths and RCCC read. Packets of a message take many paths (`multipath`), and each
//! pull takes another one: a slow link on a single path would delay all pulls of a message.
//!
//! # Domain
//!
//! EQDS and NDP expect a core that is never full. There headers of trimmed packets precede data,
//! and each that arrives requests another packet, so that headers fill a link: forty pairs over one
//! of 100 Gbit/s (1,000 B) deliver 2 KB in 10 ms under EQDS, and resend 2.2 GB. RCCC's rate of
//! pulls adapts: it has 74 Gbit/s there.
//!
//! # Differences from the sources
//!
//! * Credit is counted in bytes, not in units of 256 or 512. In csg-htsim a pull grants 4,096 B of
//!   packets of 4,150 B, and the next one follows after 0.99 times 4,198 B: 98.6 % of the link.
//!   `pull_rate = 0.986` gives that rate here; the default is 0.99.
//! * Every packet is acknowledged by itself. The sources acknowledge every 16 KB, marked packets
//!   and requested ones. With data in both directions, acknowledgements and pulls take 3 % of a
//!   link here and 2 % in csg-htsim.
//! * Pulls for trimmed packets take their turn, as in uet-htsim. In csg-htsim they precede others.
//!   In uet-htsim such a pull grants only what the sender has requested: a message of one packet
//!   that is trimmed waits for its timeout while others request credit. Here, as in csg-htsim, the
//!   packet requests credit itself.
//! * A timeout also voids the rest of the first window, and the sender requests credit.
//!   In the sources it sends the first lost packet on that credit.
//! * csg-htsim always skips a path once after a mark or a trimmed packet. Here `multipath` selects.
//! * A request (RTS) states the present pull target, has no sequence number, and is repeated after
//!   a timeout that doubles. In the sources it states the target of the last data packet.
//! * A message that has arrived gets no more pulls. In the sources it gets credit up to a window.
//! * Control packets precede data at hosts. In the sources they share the link with data, ten to
//!   one.
//! * Congestion windows of EQDS's senders (`-cwnd`) are not implemented: credit alone limits them,
//!   as by default in the sources.
//! * Senders recover packets that switches return (`ndp.rs`), by credit or a timeout; csg-htsim's
//!   abort.
//! * A sender ignores a returned packet, or a request for a trimmed one, if the packet has left
//!   again since. In the sources, which compare no times of departure, it leaves once more.
//! * A sender has packets in flight up to 2²⁰ beyond the first that has not arrived, so that the
//!   receiver's record of a message takes 128 KiB at most.
//! * Acknowledgements and pulls of a host may overtake each other on different paths. Each pull
//!   takes another path, as in uet-htsim. In csg-htsim all control packets of a message take one,
//!   because `EqdsSink::pull` passes the entropy to `EqdsPullPacket::newpkt` as `rnr`.
//! * The packet in transmission does not count for the capacity of a queue. In the sources, as in
//!   NDP's and RCCC's, it does until its end: of nine packets that arrive at once at a queue of
//!   eight, one is trimmed there, and none here.

pub(super) mod congestion;
pub mod header;
mod outgoing;
pub(super) mod params;
mod receiver;
mod sender;
#[cfg(test)]
mod tests;
mod window;

use alloc::collections::VecDeque;
use core::marker::PhantomData;

use crate::cc::nscc::NsccParams;
use crate::kit::departure::Departure;
use crate::kit::paths::Paths;
use crate::kit::segments::Segments;
use crate::kit::slab::Key;
use crate::kit::step::{self, Control};
use crate::multipath::PathRule;
use congestion::{Adaptation, Arrival, CreditRate};
use header::Header;
use params::{PullParams, pull_params};
use receiver::{Inbox, Passage};
use sender::{Departing, Outbox};
use tidegate_core::{
    Application, Dash, Domain, Endpoint, Extent, FabricProperties, FabricRequirements, Feedback,
    Handle, HostContext, Limits, Marker, Message, MessageId, MultipathRule, OperatingPoint,
    PacketMut, PacketSizes, Path, PathOracle, ProtocolInfo, Reply, Rng, Span, TelemetryBytes, Time,
    Transmit, Transport, frame_flag, mix64, wire::Carried,
};

/// Largest number of times that a timeout doubles.
const MAX_BACKOFF: u8 = 6;
/// First sum of credit: a pull target may be below it by a window.
const FIRST_PULL: u64 = 1 << 40;
/// Priority of a packet that was trimmed at the port to its receiver.
const TRIMMED_AT_LAST_HOP: u8 = 1;

/// Context of every step of this transport.
type Step<'a> = step::Step<'a, Settings, Header>;

/// Rule by which a receiver learns how much credit a sender needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Demand {
    /// Senders state it in every packet.
    Announced,
    /// Every arriving packet, trimmed or not, requests another one.
    Arrivals,
}

pull_params! {
    /// Parameters of EQDS.
    pub struct EqdsParams {
        max_window = Extent::Bdp(1.5), "uet-htsim, uec.cpp: initRccc; 50 packets in csg-htsim";
        pull_packets = 1, "csg-htsim, eqds.cpp: _credit_per_pull";
        pull_rate = 0.99, "csg-htsim, main_eqds.cpp";
        min_rto = Span::us(150), "csg-htsim, main_eqds.cpp, for an empty queue";
        multipath = MultipathRule::Oblivious, "our choice: csg-htsim has no default";
        queue = Extent::Bdp(1.0), "uet-htsim, main_uec.cpp: DEFAULT_TRIMMING_QUEUESIZE_FACTOR";
    }
}

/// Differences of the protocols on this transport beside their parameters.
pub(super) struct Rules {
    pub(super) demand: Demand,
    /// Adaptation of the rate of pulls.
    pub(super) adaptation: Option<Adaptation>,
    /// Law of a congestion window beside credit.
    pub(super) law: Option<NsccParams>,
}

impl Rules {
    /// Credit by this demand, at a constant rate, alone.
    pub(super) const fn credit(demand: Demand) -> Rules {
        Rules { demand, adaptation: None, law: None }
    }
}

/// Parameters in bytes, and other values that both halves use.
struct Settings {
    hosts: u32,
    segments: Segments,
    /// A full packet on the wire.
    full: u64,
    max_window: u64,
    pull_bytes: u64,
    /// Picoseconds of the time that a byte of credit takes at the rate of pulls.
    ps_per_byte: f64,
    timeout: Span,
    base_rtt: Span,
    demand: Demand,
    /// Law of the window of a message, if messages have one.
    law: Option<NsccParams>,
    /// A receiver grants credit beyond requests if nobody requests any.
    slow_pulls: bool,
    multipath: PathRule,
    /// Seed of the choices of paths.
    seed: u64,
    /// Delay beyond which a due action is late because the driver has paused.
    latest: Span,
}

impl Settings {
    fn new(
        params: &PullParams,
        demand: Demand,
        law: Option<NsccParams>,
        host: &HostContext,
    ) -> Settings {
        let segments = Segments { mtu: host.mtu as u64, sizes: params.sizes };
        let full = segments.full();
        let base_rtt = host.fabric_base_rtt + host.most_held.times(2);
        let window = params.max_window.bytes(host.bdp_bytes).min(1e15) as u64;
        Settings {
            hosts: host.hosts,
            segments,
            full,
            max_window: window.max(full),
            pull_bytes: params.pull_packets * full,
            ps_per_byte: 8e12 / (host.nic_rate.as_bps() as f64 * params.pull_rate),
            timeout: params.min_rto.max(base_rtt.times(2)),
            base_rtt,
            demand,
            law,
            slow_pulls: demand == Demand::Announced,
            multipath: params.multipath,
            seed: mix64(host.seed ^ mix64(host.host as u64)),
            latest: Span::ms(1).max(base_rtt.times(2)),
        }
    }

    fn is_past(&self, due: Time, now: Time) -> bool {
        now.since(due) > self.latest
    }
}

/// The transport of one host under the protocol `P`.
pub struct PullTransport<P> {
    protocol: PhantomData<P>,
    settings: Settings,
    host: HostContext,
    outbox: Outbox,
    inbox: Inbox,
    /// Control packets; they leave before data.
    control: VecDeque<Control<Header>>,
    paths: Paths,
}

impl<P> PullTransport<P> {
    /// The transport of a host.
    pub(super) fn with(params: &PullParams, rules: Rules, host: &HostContext) -> PullTransport<P> {
        let Rules { demand, adaptation, law } = rules;
        let rng = || Rng::stream(host.seed, Domain::Transport, host.host as u64);
        let spraying = host.spraying || params.multipath.rule != MultipathRule::Off;
        PullTransport {
            protocol: PhantomData,
            settings: Settings::new(params, demand, law, host),
            host: *host,
            outbox: Outbox::default(),
            inbox: Inbox::new(adaptation.map(|adaptation| CreditRate::new(adaptation, rng()))),
            control: VecDeque::new(),
            paths: Paths::new(&HostContext { spraying, ..*host }),
        }
    }
}

/// EQDS.
#[derive(Debug)]
pub enum Announced {}

/// The EQDS transport of one host.
pub type Eqds = PullTransport<Announced>;

impl Endpoint for Eqds {
    const INFO: ProtocolInfo = ProtocolInfo {
        name: "eqds",
        title: "EQDS",
        revision: 1,
        citation: "Olteanu et al., NSDI 2022",
        summary: "Receivers pull data at the rate of their link after a window without credit, and \
            switches trim.",
        color: "#6a3d9a",
        marker: Marker::Diamond,
        dash: Dash::Dotted,
        telemetry_bytes: TelemetryBytes::NONE,
        echo_bytes: TelemetryBytes::NONE,
    };
    type Params = EqdsParams;
    type Header = Header;

    fn new(params: &EqdsParams, host: &HostContext) -> Eqds {
        PullTransport::with(&params.pulls(), Rules::credit(Demand::Announced), host)
    }

    fn sizes(params: &EqdsParams) -> PacketSizes {
        params.pulls().sizes
    }

    fn takes_many_paths(params: &EqdsParams) -> bool {
        params.multipath != MultipathRule::Off
    }

    fn requirements(params: &EqdsParams, _fabric: &FabricProperties) -> FabricRequirements {
        params.pulls().requirements()
    }

    fn operating_point(params: &EqdsParams, path: &Path, _rate_bps: f64) -> OperatingPoint {
        params.pulls().operating_point(path)
    }
}

impl<P> Transport for PullTransport<P> {
    fn submit(&mut self, now: Time, message: Message, paths: &dyn PathOracle) -> Handle {
        self.advance(now);
        let PullTransport { settings, host, outbox, control, .. } = self;
        let path = settings.law.is_some().then(|| Path {
            full_wire_bytes: settings.full as u32,
            ..paths.path(host.host, message.dst)
        });
        let step = &mut Step { settings, now, control };
        Handle(outbox.submit(step, &message, path.as_ref()).bits())
    }

    fn stop(&mut self, now: Time, handle: Handle) {
        self.advance(now);
        let PullTransport { settings, outbox, control, .. } = self;
        outbox.stop(&mut Step { settings, now, control }, Key::of_bits(handle.0));
    }

    fn forget(&mut self, now: Time, peer: u32) {
        self.advance(now);
        let PullTransport { settings, inbox, outbox, control, .. } = self;
        inbox.forget(peer);
        outbox.forget(settings, peer);
        Step { settings, now, control }.drop_to(peer);
    }

    #[inline]
    fn receive<A: Application>(&mut self, now: Time, packet: PacketMut<'_>, app: &mut A) -> Reply {
        self.advance(now);
        let PullTransport { settings, inbox, outbox, control, .. } = self;
        let step = &mut Step { settings, now, control };
        let (src, entropy) = (packet.body.src, packet.frame.entropy);
        let Some(header) = Header::read(packet.body) else { return Reply::None };
        let answer = match header {
            Header::Data(data) => {
                let passage = passage(&packet);
                match passage.arrival {
                    Arrival::Trimmed { last_hop } if src == self.host.host => {
                        outbox.on_return(step, &data, (entropy, last_hop));
                        None
                    }
                    _ => inbox.on_data(step, src, &data, passage, app),
                }
            }
            Header::Request(request) => inbox.on_request(step, src, &request, app),
            Header::Ack(ack) => {
                let message = MessageId { src: self.host.host, id: ack.message };
                if ack.sent_at > Time::ZERO {
                    let rtt = Some(now.since(ack.sent_at));
                    app.feedback(now, &Feedback { message, rtt, peak_hop_delay: Span::ZERO });
                }
                if let Some(id) = outbox.on_ack(step, src, &ack, entropy) {
                    app.acked(now, MessageId { id, ..message });
                }
                None
            }
            Header::Nack(nack) => {
                outbox.on_nack(step, src, &nack, entropy);
                None
            }
            Header::Pull(pull) => {
                outbox.on_pull(step, src, &pull);
                None
            }
        };
        match answer {
            None => Reply::None,
            Some(reply) => {
                self.write_control((src, entropy), &reply, packet);
                Reply::Send
            }
        }
    }

    #[inline]
    fn transmit(&mut self, now: Time, packet: PacketMut<'_>) -> Transmit {
        self.advance(now);
        if let Some(Control { dst, header }) = self.control.pop_front() {
            let entropy = self.paths.entropy(dst, header.name().lane);
            self.write_control((dst, entropy), &header, packet);
            return Transmit::Sent;
        }
        let Some(departing) = self.outbox.transmit(&self.settings, now) else {
            return Transmit::Idle;
        };
        let Departing { dst, entropy, payload_bytes, header } = departing;
        let entropy = entropy.unwrap_or_else(|| self.paths.entropy(dst, header.name().lane));
        let (sizes, priority) = (&self.settings.segments.sizes, self.host.data_priority());
        let data = Departure::data(sizes, dst, entropy, payload_bytes, priority);
        let departure = Departure { flags: frame_flag::ECN_CAPABLE, ..data };
        departure.write(self.host.host, &header, packet);
        Transmit::Sent
    }

    fn on_deadline<A: Application>(&mut self, now: Time, _app: &mut A) {
        self.advance(now);
    }

    #[inline]
    fn deadline(&self) -> Time {
        self.inbox.deadline().min(self.outbox.deadline())
    }

    fn backlog_bytes(&self) -> u64 {
        self.outbox.backlog_bytes()
    }

    fn limits(&self, handle: Handle) -> Option<Limits> {
        self.outbox.limits(Key::of_bits(handle.0))
    }
}

/// Payload and outcome of a data packet.
#[inline]
fn passage(packet: &PacketMut<'_>) -> Passage {
    let payload_bytes = packet.body.payload_bytes;
    let arrival = if payload_bytes == 0 {
        Arrival::Trimmed { last_hop: packet.frame.priority == TRIMMED_AT_LAST_HOP }
    } else {
        Arrival::Whole { marked: packet.frame.flags & frame_flag::CONGESTION_EXPERIENCED != 0 }
    };
    Passage { payload_bytes, arrival }
}

impl<P> PullTransport<P> {
    /// Handles everything that was due by `now`, each at its own time, so that results do not
    /// depend on when the driver calls.
    #[inline]
    fn advance(&mut self, now: Time) {
        if self.deadline() <= now {
            self.catch_up(now);
        }
    }

    fn catch_up(&mut self, now: Time) {
        let PullTransport { settings, inbox, outbox, control, .. } = self;
        loop {
            let (pull, timer) = (inbox.deadline(), outbox.deadline());
            let due = pull.min(timer);
            if due > now {
                return;
            }
            // Pulls that were missed in a long pause of the driver are not made up for.
            let at = if settings.is_past(due, now) { now } else { due };
            let step = &mut Step { settings, now: at, control };
            if pull <= timer {
                inbox.on_pull(step);
            } else {
                outbox.on_timer(step);
            }
        }
    }

    #[inline]
    fn write_control(&self, to: (u32, u32), header: &Header, packet: PacketMut<'_>) {
        let (dst, entropy) = to;
        let sizes = &self.settings.segments.sizes;
        Departure::control(sizes, dst, entropy, 0).write(self.host.host, header, packet);
    }
}
