//! Congestion control: "how much may this flow send?"

use crate::params::Params;
use crate::{
    ConnectionDefaults, FabricProperties, FabricRequirements, Hop, OperatingPoint, ProtocolInfo,
    Rate, Span, Time, choice,
};

/// What a congestion control knows of its path when the connection starts.
#[derive(Clone, Copy, Debug)]
pub struct Path {
    /// Propagation, switch latency, serialisation of one full packet forward and of one minimum
    /// frame back; contention apart.
    pub base_rtt: Span,
    /// The largest base RTT of any pair in the fabric.
    pub fabric_base_rtt: Span,
    /// Rate of the sender's NIC.
    pub nic_rate: Rate,
    /// Slowest link on the path.
    pub bottleneck_rate: Rate,
    /// Bandwidth-delay product in bytes: NIC rate times the fabric's base RTT unless the scenario
    /// sets it.
    pub bdp_bytes: f64,
    /// Payload of a full packet.
    pub mtu: u32,
    /// A full packet on the wire, telemetry included.
    pub full_wire_bytes: u32,
    /// Switches on the path.
    pub hops: u32,
}

impl Path {
    /// The base RTT that the bandwidth-delay product stands for, in picoseconds: the fabric's
    /// largest unless the scenario sets the product.
    pub fn bdp_time_ps(&self) -> f64 {
        (self.bdp_bytes * 8e12 / self.nic_rate.as_bps() as f64).max(1.0)
    }
}

/// One acknowledgement.
#[derive(Clone, Copy, Debug)]
pub struct Ack<'a> {
    /// When it arrived at the sender's NIC.
    pub now: Time,
    /// From the data packet leaving the NIC to this acknowledgement arriving there.
    pub rtt: Span,
    /// Packets newly acknowledged; 0 for a duplicate.
    pub acked_packets: u32,
    /// Wire bytes newly acknowledged.
    pub acked_bytes: u64,
    /// Wire bytes still in flight after this acknowledgement.
    pub in_flight_bytes: u64,
    /// Number of the packet that caused this acknowledgement.
    pub seq: u64,
    /// Number of the next new packet: an ack with `seq` at or above a remembered `next_seq` is a
    /// round trip later.
    pub next_seq: u64,
    /// The packet arrived with a congestion mark.
    pub marked: bool,
    /// A circuit led to the receiver when the packet left its rack, or was soon to.
    pub circuit: bool,
    /// The control, by its window or its pace, limited sending at some time since the last
    /// acknowledgement; not the NIC, not the application.
    pub window_limited: bool,
    /// Largest queueing delay on the forward path, where stamped.
    pub peak_hop_delay: Span,
    /// Largest queueing delay on the reverse path, where stamped.
    pub reverse_peak_hop_delay: Span,
    /// Per-hop records of the forward path, where stamped.
    pub hops: &'a [Hop],
}

/// What kind of loss was found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LossKind {
    /// Later packets arrived: the path still works. Told once for each episode.
    Recovery,
    /// Nothing arrived for a retransmission timeout.
    Timeout,
}

/// A loss.
#[derive(Clone, Copy, Debug)]
pub struct Loss {
    /// When it was found.
    pub now: Time,
    /// How.
    pub kind: LossKind,
    /// Latest round-trip time.
    pub rtt: Span,
    /// Number of the next new packet, as in [`Ack::next_seq`].
    pub next_seq: u64,
}

choice! {
    /// When a packet may start under a window.
    pub enum WindowRule {
        /// Where a full packet still fits: RFC 5681, section 2, calls the window what may be in
        /// flight.
        Fits = "fits",
        /// Where anything of the window is left, so that up to a packet more is in flight: the
        /// simulators that descend from HPCC's.
        Below = "below",
    }
}

choice! {
    /// What becomes of packets that arrive behind a missing one.
    pub enum RecoveryRule {
        /// They are kept, and only what is missing is sent again.
        Selective = "selective",
        /// They are dropped, and everything from the missing one on is sent again: NICs without
        /// memory for them.
        GoBackN = "go-back-n",
    }
}

choice! {
    /// What a new pace changes for the packet whose time to leave is already set.
    pub enum PendingRule {
        /// Nothing: it leaves when the old pace let it.
        Keep = "keep",
        /// Its time moves by the difference between the two gaps that the packet before it takes at
        /// the new and at the old pace, even if that time has passed.
        Shift = "shift",
    }
}

/// A congestion control's answer.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Limit {
    /// Wire bytes that may be in flight, by the connection's [`WindowRule`]. Below one full packet
    /// the transport sends one packet every `rtt · full packet / window`. Infinite: no window.
    pub window_bytes: f64,
    /// Pace at this rate in bit/s; infinite: no pacing.
    pub pace_bps: f64,
    /// When it wants [`CongestionControl::on_timer`], or [`Time::NEVER`].
    pub wake_at: Time,
}

impl Limit {
    /// A window alone.
    pub const fn window(window_bytes: f64) -> Limit {
        Limit { window_bytes, pace_bps: f64::INFINITY, wake_at: Time::NEVER }
    }
}

/// "How much may this flow send?" One value per connection; parameters are shared between
/// connections and handed in.
///
/// Implementations are pure: no clock, no I/O, and no allocation while packets move. Only
/// [`start`](Self::start), [`on_ack`](Self::on_ack) and [`limit`](Self::limit) have to be written.
pub trait CongestionControl: Sized + Clone + core::fmt::Debug + Send {
    /// Who it is.
    const INFO: ProtocolInfo;
    /// Its parameters.
    type Params: Params;
    /// What its connections do unless the scenario says otherwise.
    const CONNECTION_DEFAULTS: ConnectionDefaults = ConnectionDefaults::DEFAULT;

    /// What it wants of the fabric. Telemetry, and whether anything is marked, depend on parameters
    /// alone: packets ask for them. Default: nothing.
    fn requirements(_params: &Self::Params, _fabric: &FabricProperties) -> FabricRequirements {
        FabricRequirements::NONE
    }
    /// What it aims at where a flow sends `rate_bps` on this path, and whether it is at home there.
    fn operating_point(_params: &Self::Params, _path: &Path, _rate_bps: f64) -> OperatingPoint {
        OperatingPoint::DEFAULT
    }

    /// State of a new connection.
    fn start(params: &Self::Params, path: &Path, now: Time, seed: u64) -> Self;
    /// One acknowledgement arrived.
    fn on_ack(&mut self, params: &Self::Params, ack: &Ack<'_>);
    /// A loss was found.
    fn on_loss(&mut self, _params: &Self::Params, _loss: &Loss) {}
    /// The time asked for in [`Limit::wake_at`] has come.
    fn on_timer(&mut self, _params: &Self::Params, _now: Time) {}
    /// A packet left. Returns whether that may have changed the [`limit`](Self::limit): true only
    /// for controls that count packets or keep time by them (DCQCN, open-loop Poisson).
    fn on_sent(&mut self, _params: &Self::Params, _now: Time, _wire_bytes: u32) -> bool {
        false
    }
    /// The connection has been idle, and has a message again; only controls that keep time without
    /// timers care.
    fn on_resume(&mut self, _params: &Self::Params, _now: Time) {}
    /// How much may be sent now. Asked after every call above.
    fn limit(&self, params: &Self::Params) -> Limit;
    /// Whether this acknowledgement told of congestion on the path. Asked after
    /// [`on_ack`](Self::on_ack), where connections leave a path that has been congested for some
    /// round trips (PLB). Default: by its mark.
    fn is_congested(&self, _params: &Self::Params, ack: &Ack<'_>) -> bool {
        ack.marked
    }
}
