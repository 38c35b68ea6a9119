//! ExpressPass: every data packet needs a credit, and switches shape the credits.
//!
//! Receivers send credits, one for each data packet. Credits take the reverse path of the data.
//! Every port on it passes only as many credits as the resulting data fills the link in the
//! opposite direction, and drops the others. Credits are lost instead of data, no data packet is
//! wasted, and queues stay short for any number of senders. The share of a message's credits that
//! return as data determines the receiver's credit rate.
//!
//! I. Cho, K. Jang, D. Han, "Credit-Scheduled Delay-Bounded Congestion Control for Datacenters",
//! SIGCOMM 2017. Points that the paper leaves open follow the authors' simulator
//! (github.com/kaist-ina/ns2-xpass, `xpass/xpass.cc`, `queue/xpass-drop-tail.cc`).
//!
//! # Equations
//!
//! With `full` a full packet on the wire, `credit` the mean size of a credit, `C` a link's rate:
//!
//! * share of a link for credits: `credit / (credit + full)`, which is 5.4 % by default, and 5.2 %
//!   for the authors' mean of 84 bytes; `c_max` is that of the receiver's link
//! * first rate: `c = α c_max · min(1, n / 40)` for a sender with `n` packets left
//! * once a round trip, before a credit leaves, and if data has arrived: `loss` is the share of
//!   credits that are missing in the numbers returned with data, `target = s (1 − c / c_max)`
//! * `loss > target`: `c = min(c, (1 + target) · credits returned · credit / elapsed)`,
//!   `w = max(w / 2, w_min)`
//! * otherwise, from the second good round on: `w = (w + w_max) / 2`, or `min(w + 0.05, w_max)` in
//!   the code; then `c = w c_max + (1 − w) c`
//! * `c` stays between one credit in a round trip and `c_max`; credits are `credit / c` apart, with
//!   a random deviation of up to a tenth, and their size is random between 84 and 92 bytes
//!   (`smallest_credit`, `largest_credit`), so that the credits of many messages do not synchronise
//! * round trips: moving average with gain 1/5, from the creation of a credit to its data
//!
//! # Packets
//!
//! Defined in `header.rs`. A sender requests credits when a message starts, and stops them when its
//! last packet is sent, or earlier if the last round trip brought as many credits as packets are
//! left. A data packet takes its payload plus 80 bytes on the wire (`header_bytes`), at least 84;
//! all other packets take 84 (`control_bytes`), except credits as above. Messages are identified as
//! in SIRD, and all packets of a message take the same path in both directions.
//!
//! # Network requirements
//!
//! Credit queues at all switch ports: shaped to the share above (token bucket of two credits),
//! eight credits long, served before data; and symmetric paths. A host's own link has such a queue,
//! too, which is part of this implementation (`nic.rs`). Without credit queues, credits are packets
//! like others and data queues build up.
//!
//! # Differences from the paper
//!
//! * Credits have at least 84 bytes by default, the smallest packet; the authors' large-scale
//!   script draws from 76 to 92, with a mean of 84 (`smallest_credit = 76`). Shares use the mean
//!   size, so that as many credits pass as packets fit.
//! * The paper's text was not available; the defaults (preset `paper`) are the authors'
//!   `ns-default.tcl`: α and the first `w` are both 1/2 (SIRD's authors use 1/16 as the paper's
//!   choice), the target falls with the rate, and short messages start slower. Only the increase of
//!   `w` follows the paper.
//! * Control other than credits shares the priority of data; at hosts, requests and stops wait with
//!   data in FIFO order, while responses (NACK, DONE, a stop for credits of an unknown message)
//!   leave immediately.
//! * By default, 80 bytes of header and gap per packet, as for all protocols here: 1,458 B of
//!   payload in a full packet, where the authors have 78 and 1,460 (`header_bytes = 78`).
//! * Times and rates are not rounded to whole bytes and bytes per second.
//!
//! Differences that are our choice:
//!
//! * The receiver acknowledges whole messages. A sender repeats CREDIT_STOP until the
//!   acknowledgement arrives, and forgets the message when no credit has arrived for a round trip
//!   after that.
//! * CREDIT_STOP states the number of sent bytes, so that the loss of the last packet is detected
//!   immediately.
//! * A receiver stops credits if nothing has arrived from the sender for eight timeouts and 256
//!   credits are unanswered. A request without credits for a timeout is repeated; from then on a
//!   sender repeats it after eight timeouts without credits, or after eight times the usual
//!   interval of credits, if that is longer: if thousands of messages share a link, each gets a
//!   credit only once in many round trips, and requests are data that no credit pays for. Timeouts
//!   are at least two base round trips of the fabric, and double without a response. A missing
//!   packet is requested again after a timeout.

mod feedback;
pub mod header;
mod nic;
mod receiver;
mod sender;
#[cfg(test)]
mod tests;

use alloc::collections::VecDeque;
use alloc::format;
use alloc::string::String;

use crate::kit::departure::Departure;
use crate::kit::name::Name;
use crate::kit::segments::Segments;
use crate::kit::slab::Key;
use crate::kit::step::{self, Control};
use header::Header;
use nic::{Leaving, Nic};
use receiver::Inbox;
use sender::Outbox;
use tidegate_core::fabric::{CreditQueue, Routing};
use tidegate_core::{
    Application, Dash, Domain, Endpoint, FabricProperties, FabricRequirements, Handle, HostContext,
    Limits, Marker, Message, MessageId, OperatingPoint, PacketMut, PacketSizes, Path, PathOracle,
    ProtocolInfo, Reply, Rng, Span, TelemetryBytes, Time, Transmit, Transport, choice, frame_flag,
    mix64, params, wire::Carried,
};

/// Largest number of times that a timeout doubles.
const MAX_BACKOFF: u8 = 6;
/// Number of timeouts of silence after which the peer may have dropped the message.
const PATIENCE: u64 = 8;

/// Context of every step of this transport.
type Step<'a> = step::Step<'a, Settings, Header>;

choice! {
    /// Increase of the weight of the full rate from the second good round on.
    pub enum Rise { Halfway = "halfway", Step = "step" }
}
params! {
    /// Parameters of ExpressPass.
    pub struct ExpressPassParams {
        /// First credit rate of a message, as a share of the full rate (alpha).
        initial_rate: f64 = 0.5, in 0.001..=1.0, "authors' simulator, ns-default.tcl";
        /// Number of packets left below which a message starts proportionally slower; 0 disables
        /// this.
        full_start: u64 = 40, in 0..=100000, "authors' simulator, xpass.cc";
        /// First weight of the full rate when a rate rises (w_init).
        initial_weight: f64 = 0.5, in 0.0001..=0.5, "authors' simulator, ns-default.tcl";
        /// Smallest weight (w_min).
        least_weight: f64 = 0.01, in 0.0001..=0.5, "authors' simulator, ns-default.tcl";
        /// Increase of the weight: halfway to one half, as in the paper, or by 0.05, as in the
        /// authors' code.
        rise: Rise = Rise::Halfway, "paper, algorithm 1";
        /// Target loss of credits at low rates; proportionally less at higher rates, none at the
        /// full rate (s).
        loss_scaling: f64 = 0.125, in 0.0..=1.0, "authors' simulator, ns-default.tcl";
        /// Largest random deviation of the gap between credits, as a share of the gap.
        jitter: f64 = 0.1, in 0.0..=0.99, "authors' simulator, ns-default.tcl";
        /// Largest size of a credit in bytes; sizes are random from `smallest_credit` on.
        largest_credit: u64 = 92, in 20..=1000, "authors' simulator, large-scale script";
        /// Smallest size of a credit in bytes.
        smallest_credit: u64 = 84, later = true, in 20..=1000, "our choice; 76 in the authors' \
            large-scale script";
        /// Bytes of credits in the queue of a port, and of a host's own link.
        credit_queue: u64 = 672, in 84..=1000000, "authors' simulator, large-scale script: eight";
        /// Bytes of credits that leave back to back after a pause (depth of the token bucket).
        credit_burst: u64 = 168, in 84..=1000000, "authors' simulator, large-scale script: two";
        /// Time without a response after which a request or a packet counts as lost; at least two
        /// base round trips.
        retransmit_timeout: Span = Span::us(100), within Span::us(1) => Span::s(1), "authors' \
            simulator, large-scale script";
        /// Headers and gap of a data packet in bytes.
        header_bytes: u64 = 80, later = true, in 20..=1000, "our choice; 78 in the authors' \
            simulator";
        /// Size of a packet without payload, except credits, on the wire in bytes. If it is below
        /// 84, data packets are padded to this size only.
        control_bytes: u64 = 84, later = true, in 20..=1000, "authors' simulator";
    }
    conflict = room_for_credits;
}

fn room_for_credits(params: &ExpressPassParams) -> Option<String> {
    let ExpressPassParams { smallest_credit: least, largest_credit: most, .. } = params;
    if least > most {
        return Some(format!("smallest_credit = {least} must be at most largest_credit = {most}"));
    }
    let short = params.credit_queue.min(params.credit_burst) < params.largest_credit;
    short.then(|| "credit_queue and credit_burst must be at least largest_credit".into())
}

impl ExpressPassParams {
    fn sizes(&self) -> PacketSizes {
        PacketSizes::new(self.header_bytes, self.control_bytes)
    }
}

/// The credit queue that a port needs for full packets with `mtu` bytes of payload.
fn queue(params: &ExpressPassParams, mtu: u32) -> CreditQueue {
    let (credit, full) = (credit_bytes(params), f64::from(params.sizes().data(mtu)));
    CreditQueue {
        share: credit / (credit + full),
        bytes: params.credit_queue as u32,
        burst_bytes: params.credit_burst as u32,
    }
}

/// Mean size of a credit.
fn credit_bytes(params: &ExpressPassParams) -> f64 {
    (params.smallest_credit + params.largest_credit) as f64 / 2.0
}

/// Parameters in bytes, and other values that both halves use.
struct Settings {
    hosts: u32,
    segments: Segments,
    /// Mean size of a credit, and bytes per second of all credits that fill the link.
    credit_bytes: f64,
    full_rate: f64,
    smallest_credit: u32,
    largest_credit: u32,
    initial_rate: f64,
    full_start: u64,
    initial_weight: f64,
    least_weight: f64,
    rise: Rise,
    loss_scaling: f64,
    jitter: f64,
    timeout: Span,
    /// Initial round-trip time between hosts without a sample.
    base_rtt: Span,
    /// Software delay of a packet and its response, which round-trip times exclude.
    held: Span,
    /// Delay beyond which a due action is late because the driver has paused.
    latest: Span,
}

impl Settings {
    fn new(params: &ExpressPassParams, host: &HostContext) -> Settings {
        let share = queue(params, host.mtu).share;
        let held = host.most_held.times(2);
        let base_rtt = host.fabric_base_rtt + held;
        let two_rounds = base_rtt.times(2);
        Settings {
            hosts: host.hosts,
            segments: Segments { mtu: host.mtu as u64, sizes: params.sizes() },
            credit_bytes: credit_bytes(params),
            full_rate: host.nic_rate.as_bps() as f64 / 8.0 * share,
            smallest_credit: params.smallest_credit as u32,
            largest_credit: params.largest_credit as u32,
            initial_rate: params.initial_rate,
            full_start: params.full_start,
            initial_weight: params.initial_weight,
            least_weight: params.least_weight,
            rise: params.rise,
            loss_scaling: params.loss_scaling,
            jitter: params.jitter,
            timeout: params.retransmit_timeout.max(two_rounds),
            base_rtt,
            held,
            latest: Span::ms(1).max(two_rounds),
        }
    }

    fn is_past(&self, due: Time, now: Time) -> bool {
        now.since(due) > self.latest
    }
}

/// The ExpressPass transport of one host.
pub struct ExpressPass {
    settings: Settings,
    host: HostContext,
    outbox: Outbox,
    inbox: Inbox,
    /// Data, and control other than credits, in order of departure.
    leaving: VecDeque<Control<Header>>,
    /// The latest time that the driver has passed in.
    clock: Time,
}

impl Endpoint for ExpressPass {
    const INFO: ProtocolInfo = ProtocolInfo {
        name: "expresspass",
        title: "ExpressPass",
        revision: 0,
        citation: "Cho et al., SIGCOMM 2017",
        summary: "Receivers send a credit for each packet, and switches drop credits whose data \
            would not fit on the reverse path.",
        color: "#661100",
        marker: Marker::TriangleDown,
        dash: Dash::Dashed,
        telemetry_bytes: TelemetryBytes::NONE,
        echo_bytes: TelemetryBytes::NONE,
    };
    type Params = ExpressPassParams;
    type Header = Header;

    fn new(params: &ExpressPassParams, host: &HostContext) -> ExpressPass {
        let nic = Nic::new(host.nic_rate, &queue(params, host.mtu));
        let rng = Rng::stream(host.seed, Domain::Transport, host.host as u64);
        ExpressPass {
            settings: Settings::new(params, host),
            host: *host,
            outbox: Outbox::default(),
            inbox: Inbox::new(nic, rng),
            leaving: VecDeque::new(),
            clock: Time::ZERO,
        }
    }

    fn sizes(params: &ExpressPassParams) -> PacketSizes {
        let sizes = params.sizes();
        let least_bytes = sizes.least_bytes.min(params.smallest_credit as u32);
        PacketSizes { least_bytes, ..sizes }
    }

    fn requirements(params: &ExpressPassParams, fabric: &FabricProperties) -> FabricRequirements {
        FabricRequirements {
            credit_queue: Some(queue(params, fabric.mtu)),
            largest_credit: params.largest_credit as u32,
            routing: Routing::SymmetricEcmp,
            ..FabricRequirements::NONE
        }
    }

    fn operating_point(params: &ExpressPassParams, path: &Path, _rate_bps: f64) -> OperatingPoint {
        OperatingPoint {
            utilisation_goal: 1.0 - queue(params, path.mtu).share,
            ..OperatingPoint::DEFAULT
        }
    }
}

impl Transport for ExpressPass {
    fn submit(&mut self, now: Time, message: Message, _paths: &dyn PathOracle) -> Handle {
        self.advance(now);
        let ExpressPass { settings, outbox, leaving, .. } = self;
        Handle(outbox.submit(&mut Step { settings, now, control: leaving }, &message).bits())
    }

    fn stop(&mut self, now: Time, handle: Handle) {
        self.advance(now);
        let ExpressPass { settings, outbox, leaving, .. } = self;
        outbox.stop(&mut Step { settings, now, control: leaving }, Key::of_bits(handle.0));
    }

    fn forget(&mut self, now: Time, peer: u32) {
        self.advance(now);
        let ExpressPass { settings, inbox, outbox, leaving, .. } = self;
        inbox.forget(peer);
        outbox.forget(settings, peer);
        Step { settings, now, control: leaving }.drop_to(peer);
    }

    #[inline]
    fn receive<A: Application>(&mut self, now: Time, packet: PacketMut<'_>, app: &mut A) -> Reply {
        self.advance(now);
        let ExpressPass { settings, inbox, outbox, leaving, .. } = self;
        let step = &mut Step { settings, now, control: leaving };
        let src = packet.body.src;
        let Some(header) = Header::read(packet.body) else { return Reply::None };
        let answer = match header {
            Header::Data(data) => inbox.on_data(step, src, &data, packet.body.payload_bytes, app),
            Header::Credit(credit) => outbox.on_credit(step, src, &credit),
            Header::Request(request) => inbox.on_request(step, src, &request, app),
            Header::Stop(stop) => inbox.on_stop(step, src, &stop, app),
            Header::Nack(nack) => {
                outbox.on_nack(step, src, &nack);
                None
            }
            Header::Done(done) => {
                if let Some(id) = outbox.on_done(step, src, &done) {
                    app.acked(now, MessageId { src: self.host.host, id });
                }
                None
            }
        };
        match answer {
            None => Reply::None,
            Some(reply) => {
                self.write(src, &reply, packet);
                Reply::Send
            }
        }
    }

    #[inline]
    fn transmit(&mut self, now: Time, packet: PacketMut<'_>) -> Transmit {
        self.advance(now);
        if let Some(credit) = self.inbox.nic.pop(now) {
            self.write_credit(&credit, packet);
        } else if let Some(Control { dst, header }) = self.leaving.pop_front() {
            self.write(dst, &header, packet);
        } else {
            return Transmit::Idle;
        }
        Transmit::Sent
    }

    fn on_deadline<A: Application>(&mut self, now: Time, _app: &mut A) {
        self.advance(now);
    }

    /// A credit that could already have left waits for the uplink, not for a time.
    #[inline]
    fn deadline(&self) -> Time {
        let opens_at = self.inbox.nic.opens_at();
        let opens_at = if opens_at > self.clock { opens_at } else { Time::NEVER };
        opens_at.min(self.inbox.credit_at()).min(self.timer())
    }

    #[inline]
    fn timer(&self) -> Time {
        self.inbox.timer().min(self.outbox.deadline())
    }

    fn backlog_bytes(&self) -> u64 {
        self.outbox.backlog_bytes()
    }

    /// Senders have no limit except arriving credits.
    fn limits(&self, _handle: Handle) -> Option<Limits> {
        None
    }
}

impl ExpressPass {
    /// Handles everything that was due by `now`, each at its own time, so that results do not
    /// depend on when the driver calls.
    #[inline]
    fn advance(&mut self, now: Time) {
        self.clock = now;
        if self.inbox.credit_at().min(self.timer()) <= now {
            self.catch_up(now);
        }
    }

    fn catch_up(&mut self, now: Time) {
        let ExpressPass { settings, inbox, outbox, leaving, .. } = self;
        let step = &mut Step { settings, now, control: leaving };
        loop {
            let (credit, theirs, ours) = (inbox.credit_at(), inbox.timer(), outbox.deadline());
            let at = credit.min(theirs).min(ours);
            if at > now {
                return;
            }
            if at == credit {
                inbox.on_pace(step);
            } else if at == theirs {
                inbox.on_timer(step);
            } else {
                outbox.on_timer(step);
            }
        }
    }

    /// Writes a packet that is not a credit.
    #[inline]
    fn write(&mut self, dst: u32, header: &Header, packet: PacketMut<'_>) {
        let (entropy, priority) = (self.entropy(dst, header), self.host.data_priority());
        let Segments { mtu, sizes } = &self.settings.segments;
        let departure = match header {
            Header::Data(data) => {
                let payload = (data.size - data.offset).min(*mtu);
                Departure::data(sizes, dst, entropy, payload as u32, priority)
            }
            _ => Departure::control(sizes, dst, entropy, priority),
        };
        departure.write(self.host.host, header, packet);
    }

    fn write_credit(&mut self, leaving: &Leaving, packet: PacketMut<'_>) {
        let header = Header::Credit(leaving.credit);
        let (dst, wire_bytes) = (leaving.dst, leaving.wire_bytes);
        let (entropy, priority) = (self.entropy(dst, &header), self.host.data_priority());
        let sizes = &self.settings.segments.sizes;
        let control = Departure::control(sizes, dst, entropy, priority);
        let departure = Departure { wire_bytes, flags: frame_flag::CREDIT, ..control };
        departure.write(self.host.host, &header, packet);
    }

    /// Path entropy: the same for all packets of a message, from both ends.
    #[inline]
    fn entropy(&self, dst: u32, header: &Header) -> u32 {
        let (sender, receiver) = match header.is_of_sender() {
            true => (self.host.host, dst),
            false => (dst, self.host.host),
        };
        let Name { lane, generation, .. } = header.name();
        let pair = mix64((sender as u64) << 32 | receiver as u64);
        mix64(pair ^ (generation as u64) << 32 ^ lane as u64) as u32
    }
}
