//! Congestion controls answer the question "how much may this flow send?"

use crate::params::Params;
use crate::{
    ConnectionDefaults, FabricProperties, FabricRequirements, Hop, OperatingPoint, Path,
    ProtocolInfo, Span, Time,
};

/// One acknowledgement.
#[derive(Clone, Copy, Debug)]
pub struct Ack<'a> {
    /// Time of arrival at the sender's NIC.
    pub now: Time,
    /// Time from the departure of the data packet at the NIC to the arrival of this acknowledgement
    /// there.
    pub rtt: Span,
    /// Packets newly acknowledged; 0 for a duplicate.
    pub acked_packets: u32,
    /// Bytes newly acknowledged, as the window counts them: by default on the wire.
    pub acked_bytes: u64,
    /// Bytes still in flight after this acknowledgement, counted in the same way.
    pub in_flight_bytes: u64,
    /// Number of the packet that caused this acknowledgement.
    pub seq: u64,
    /// Number of the next new packet. An ack with `seq` at or above a remembered `next_seq` is one
    /// round trip later.
    pub next_seq: u64,
    /// The data packet arrived with a congestion mark.
    pub marked: bool,
    /// When this acknowledgement reached the sender's rack, a circuit from there to the receiver's
    /// rack was up or would soon be.
    pub circuit: bool,
    /// The control, by its window or pace, limited sending at some time since the first departure
    /// of the data packet, so within the last round trip; the limit was not the NIC or the
    /// application.
    pub window_limited: bool,
    /// Largest queueing delay on the forward path, if stamped.
    pub peak_hop_delay: Span,
    /// Largest queueing delay on the reverse path, if stamped.
    pub reverse_peak_hop_delay: Span,
    /// Per-hop records of the forward path, if stamped.
    pub hops: &'a [Hop],
}

/// Kind of a detected loss.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LossKind {
    /// Later packets have arrived, so the path still works. Reported once per episode.
    Recovery,
    /// Nothing has arrived for a retransmission timeout.
    Timeout,
}

/// A detected loss.
#[derive(Clone, Copy, Debug)]
pub struct Loss {
    /// Time of detection.
    pub now: Time,
    /// Kind of loss.
    pub kind: LossKind,
    /// Latest round-trip time.
    pub rtt: Span,
    /// Number of the next new packet, as in [`Ack::next_seq`].
    pub next_seq: u64,
}

/// A packet whose payload a switch has dropped. Its headers have arrived, or a switch has returned
/// them.
#[derive(Clone, Copy, Debug)]
pub struct Trim {
    /// Time at which the sender knows.
    pub now: Time,
    /// Time from the departure of the packet at the NIC to the arrival of the notification there;
    /// `None` if a switch returned the packet, which did not take the whole path.
    pub rtt: Option<Span>,
    /// Bytes of the packet, as the window counts them.
    pub bytes: u64,
    /// Bytes in flight before this packet was lost, counted in the same way.
    pub in_flight_bytes: u64,
    /// It was trimmed at a link that another part of the transport schedules: that to a receiver
    /// which grants credit.
    pub at_scheduled_link: bool,
}

/// Decision of a congestion control.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Limit {
    /// Bytes that may be in flight, subject to the connection's [`WindowRule`] and counted as it
    /// does: by default on the wire. Below one full packet, one packet is in flight, sent at the
    /// pace, or without one every `rtt · full packet / window`. Infinite without a window.
    pub window_bytes: f64,
    /// Pace in bit/s of the bytes that the connection's pace counts, by default on the wire;
    /// infinite without pacing.
    pub pace_bps: f64,
    /// Time of the next [`CongestionControl::on_timer`], or [`Time::NEVER`].
    pub wake_at: Time,
}

impl Limit {
    /// A limit by window only.
    pub const fn window(window_bytes: f64) -> Limit {
        Limit { window_bytes, pace_bps: f64::INFINITY, wake_at: Time::NEVER }
    }
}

/// A congestion control answers "how much may this flow send?". There is one value per connection.
/// Parameters are shared between connections and passed to each call.
///
/// Implementations are pure: no clock, no I/O, and no allocation while packets move. Only
/// [`start`](Self::start), [`on_ack`](Self::on_ack) and [`limit`](Self::limit) are mandatory.
pub trait CongestionControl: Sized + Clone + core::fmt::Debug + Send {
    /// Protocol information.
    const INFO: ProtocolInfo;
    /// Its parameters.
    type Params: Params;
    /// Defaults of its connections, which a scenario can override.
    const CONNECTION_DEFAULTS: ConnectionDefaults = ConnectionDefaults::DEFAULT;

    /// Requirements that it has on the fabric. Telemetry, and whether switches mark at all, must
    /// depend only on parameters, because packets carry these requests. By default none.
    fn requirements(_params: &Self::Params, _fabric: &FabricProperties) -> FabricRequirements {
        FabricRequirements::NONE
    }
    /// Operating point of a flow that sends `rate_bps` on this path.
    fn operating_point(_params: &Self::Params, _path: &Path, _rate_bps: f64) -> OperatingPoint {
        OperatingPoint::DEFAULT
    }

    /// Creates the state of a new connection.
    fn start(params: &Self::Params, path: &Path, now: Time, seed: u64) -> Self;
    /// Processes an acknowledgement.
    fn on_ack(&mut self, params: &Self::Params, ack: &Ack<'_>);
    /// Processes a loss.
    fn on_loss(&mut self, _params: &Self::Params, _loss: &Loss) {}
    /// Processes a trimmed packet, after which [`on_loss`](Self::on_loss) reports a loss if it
    /// begins an episode.
    fn on_trim(&mut self, _params: &Self::Params, _trim: &Trim) {}
    /// Processes the timeouts of single packets with this number of bytes, which packets on many
    /// paths have; [`on_loss`](Self::on_loss) is called as for a trimmed packet.
    fn on_packet_timeout(&mut self, _params: &Self::Params, _bytes: u64) {}
    /// Called at the time that [`Limit::wake_at`] requested.
    fn on_timer(&mut self, _params: &Self::Params, _now: Time) {}
    /// Called when a packet has left. Returns whether that may have changed the
    /// [`limit`](Self::limit): true only for controls that count packets or keep time by them
    /// (DCQCN, open-loop Poisson).
    fn on_sent(&mut self, _params: &Self::Params, _now: Time, _wire_bytes: u32) -> bool {
        false
    }
    /// Called when an idle connection has a message again. Only controls that keep time without
    /// timers need it.
    fn on_resume(&mut self, _params: &Self::Params, _now: Time) {}
    /// Returns the current limit. Called after each of the calls above.
    fn limit(&self, params: &Self::Params) -> Limit;
    /// Returns whether this acknowledgement indicates congestion on the path. Called after
    /// [`on_ack`](Self::on_ack) if connections leave paths that have been congested for some round
    /// trips (PLB). Default: whether it is marked.
    fn is_congested(&self, _params: &Self::Params, ack: &Ack<'_>) -> bool {
        ack.marked
    }
}
