//! Transports answer the question "which packet next?"

use crate::params::Params;
use crate::wire::Carried;
use crate::workload::SizeMix;
use crate::{
    FabricProperties, FabricRequirements, Message, MessageId, OperatingPoint, PacketMut,
    PacketSizes, Path, ProtocolInfo, Rate, Span, Time,
};
use alloc::string::String;

/// Information that a packet has revealed to its sender about the path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Feedback {
    /// The message that the packet belongs to.
    pub message: MessageId,
    /// Time from the packet's departure at the NIC to the arrival of its echo there; `None` if the
    /// protocol does not report it.
    pub rtt: Option<Span>,
    /// Largest queueing delay of the packet at any hop; zero if the protocol does not have it
    /// stamped.
    pub peak_hop_delay: Span,
}

/// Reference to a submitted message. Valid until the message is acknowledged, or its destination is
/// forgotten.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Handle(pub u64);

/// Policy by which messages share connections.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ConnectionPolicy {
    /// All messages of an ordered host pair share one byte stream.
    PerPair,
    /// One connection per message.
    PerMessage,
    /// At most this many connections per ordered host pair. A message takes an idle connection, or
    /// else the least loaded one.
    Pool(u32),
    /// One connection per message. Among the connections that may send, the one with the fewest
    /// bytes left goes first; the other policies use round-robin by packet.
    ShortestFirst,
}

/// Properties of a host that its transports receive when they are created.
#[derive(Clone, Copy, Debug)]
pub struct HostContext {
    /// This host.
    pub host: u32,
    /// Number of hosts. A packet with a higher source index is invalid.
    pub hosts: u32,
    /// Seed of the run.
    pub seed: u64,
    /// Payload of a full packet.
    pub mtu: u32,
    /// Rate of this host's NIC.
    pub nic_rate: Rate,
    /// The largest base RTT of any pair in the fabric.
    pub fabric_base_rtt: Span,
    /// Largest round trip of minimum-size packets in the fabric: the time of a control exchange.
    pub fabric_control_rtt: Span,
    /// Sizes of the packets of these round trips: the largest of all protocols of the run.
    pub sizes: PacketSizes,
    /// Bandwidth-delay product in bytes.
    pub bdp_bytes: f64,
    /// Policy by which messages share connections.
    pub connections: ConnectionPolicy,
    /// Every packet takes a path of its own, so packets of a connection can overtake each other.
    pub spraying: bool,
    /// Number of strict priorities in the fabric.
    pub priorities: u8,
    /// Longest time that the driver holds a received packet. RTTs exclude this time: the driver
    /// adds the delay to `sent_at` before it delivers the packet. An echo is late by up to twice
    /// this time.
    pub most_held: Span,
}

impl HostContext {
    /// Priority of data in all protocols: the lowest. Packets that overtake data have a higher one.
    #[inline]
    pub const fn data_priority(&self) -> u8 {
        self.priorities.saturating_sub(1)
    }

    /// Properties of the fabric as this host knows it, with its own link for all links. This
    /// suffices for the requests that packets make to switches.
    pub fn properties(&self) -> FabricProperties {
        FabricProperties {
            bdp_bytes: self.bdp_bytes,
            base_rtt: self.fabric_base_rtt,
            host_rate: self.nic_rate,
            slowest: self.nic_rate,
            fastest: self.nic_rate,
            mtu: self.mtu,
            hops: 1,
            ports: 1,
        }
    }
}

/// Answers queries about paths. Transports query it when they create a connection, never per
/// packet.
pub trait PathOracle {
    /// The path from `src` to `dst`. `full_wire_bytes` does not include telemetry yet.
    fn path(&self, src: u32, dst: u32) -> Path;
}

/// Receives the reports of a transport. Everything that is measured comes from them, because no
/// other code reads a transport's headers.
pub trait Application {
    /// `bytes` of new payload of `message` have arrived at its receiver, to be stored at `offset`:
    /// all payload of the current packet. Reported once for each byte, when it first arrives, even
    /// if earlier bytes are missing. So a receiver that delivers in order reports at the rate of
    /// its link and not in bursts.
    fn delivered(&mut self, now: Time, message: MessageId, offset: u64, bytes: u32);
    /// The receiving application has all bytes of `message`.
    fn completed(&mut self, now: Time, message: MessageId);
    /// The sender knows that `message` has arrived completely. Its handle is no longer valid.
    fn acked(&mut self, now: Time, message: MessageId);
    /// The sender has received feedback on a packet.
    #[inline]
    fn feedback(&mut self, _now: Time, _feedback: &Feedback) {}
}

/// State of a received packet's slot after processing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reply {
    /// Nothing to send; the slot is free.
    None,
    /// The slot now holds a reply, which must be sent before data.
    Send,
    /// As [`Send`](Self::Send), and the packet has changed neither what may be transmitted nor a
    /// deadline, so the driver need not poll.
    Echo,
}

/// Decision of a transport.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Transmit {
    /// The slot holds a packet.
    Sent,
    /// Nothing may be sent now, and the slot is untouched. See [`Transport::deadline`].
    Idle,
}

/// Current limits of a connection.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Limits {
    /// Bytes that may be in flight, by default on the wire; infinite without a window.
    pub window_bytes: f64,
    /// Pace in bit/s; infinite without pacing.
    pub pace_bps: f64,
}

/// A transport answers "which packet next?". There is one per host, for all its peers and messages.
/// Drivers (the simulator and endpoints) know only this interface.
///
/// `now` never decreases from call to call. A transport never pushes packets: they leave only
/// through [`transmit`](Self::transmit), [`Reply::Send`] and [`Reply::Echo`].
pub trait Transport {
    /// Submits a message.
    fn submit(&mut self, now: Time, message: Message, paths: &dyn PathOracle) -> Handle;
    /// Stops an unlimited message: no new data of it is sent.
    fn stop(&mut self, now: Time, handle: Handle);
    /// Discards all state about host `peer`, which is gone or has lost its own state. Messages to
    /// it end, and so do messages from it that have not arrived completely: nothing more is sent or
    /// reported of them. Credit granted to it becomes available to others. Messages of other hosts
    /// continue.
    ///
    /// From now on `peer` is an unknown host, and the number may be reassigned. The driver must
    /// discard packets in flight between the two hosts, and must make the other side forget this
    /// host, too: if only one side remembers the other, they cannot communicate.
    fn forget(&mut self, now: Time, peer: u32);
    /// Processes a packet from the wire, and may turn its slot into a reply.
    fn receive<A: Application>(&mut self, now: Time, packet: PacketMut<'_>, app: &mut A) -> Reply;
    /// Called when the uplink is free: fills `packet`, whose content is stale, with the next
    /// packet. The driver sets `body.transport`.
    fn transmit(&mut self, now: Time, packet: PacketMut<'_>) -> Transmit;
    /// As [`transmit`](Self::transmit), while `priority` and all lower priorities (higher numbers)
    /// are paused: fills in the next packet above them. By default there is none.
    fn transmit_above(&mut self, _priority: u8, _now: Time, _packet: PacketMut<'_>) -> Transmit {
        Transmit::Idle
    }
    /// Fills packets in order, as [`transmit`](Self::transmit) does, until the slots are used or
    /// nothing may be sent. Returns the number of packets. For drivers that send batches.
    fn transmit_batch<'a>(
        &mut self,
        now: Time,
        packets: impl Iterator<Item = PacketMut<'a>>,
    ) -> usize {
        packets
            .map_while(|packet| (self.transmit(now, packet) == Transmit::Sent).then_some(()))
            .count()
    }
    /// Called when the time that [`deadline`](Self::deadline) returned has come.
    fn on_deadline<A: Application>(&mut self, now: Time, app: &mut A);
    /// Time of the next call of [`on_deadline`](Self::on_deadline), or at which an idle transport
    /// may have a packet to transmit; [`Time::NEVER`] if only a packet or a message can change the
    /// state.
    fn deadline(&self) -> Time;
    /// Time of the next call of [`on_deadline`](Self::on_deadline), ignoring deadlines that only
    /// concern transmission. The driver may poll such a transmission later, if it passes the time
    /// of the deadline to [`transmit`](Self::transmit). By default all deadlines are timers.
    fn timer(&self) -> Time {
        self.deadline()
    }
    /// Payload bytes submitted and not yet sent for the first time.
    fn backlog_bytes(&self) -> u64;
    /// Limits of the message's connection, for observation.
    fn limits(&self, handle: Handle) -> Option<Limits>;
}

/// A transport of the catalog: a [`Transport`] with protocol information and parameters.
pub trait Endpoint: Transport + Sized {
    /// Protocol information.
    const INFO: ProtocolInfo;
    /// Its parameters.
    type Params: Params;
    /// Its headers.
    type Header: Carried;

    /// Header bytes of its largest data packet beyond [`PacketSizes::header_bytes`].
    const MORE_HEADER_BYTES: u32 = 0;

    /// Creates the transport of one host.
    fn new(params: &Self::Params, host: &HostContext) -> Self;
    /// Sizes of its packets on the wire.
    fn sizes(_params: &Self::Params) -> PacketSizes {
        PacketSizes::STANDARD
    }
    /// Whether the packets of a message take several paths by the protocol's own choice.
    fn takes_many_paths(_params: &Self::Params) -> bool {
        false
    }
    /// Why the weights of messages have no effect under these parameters, if they have none.
    fn ignores_weights(_params: &Self::Params) -> Option<&'static str> {
        Some("the protocol has no weights")
    }
    /// Adapts the parameters to the sizes of the messages that hosts will send. Called once, before
    /// any transport is created; not called by drivers that do not know the sizes. Returns a
    /// message for users if they should know of the adaptation. By default nothing depends on
    /// sizes.
    fn fit(
        _params: &mut Self::Params,
        _fabric: &FabricProperties,
        _sizes: &SizeMix,
    ) -> Option<String> {
        None
    }
    /// Requirements that it has on the fabric. By default none.
    fn requirements(_params: &Self::Params, _fabric: &FabricProperties) -> FabricRequirements {
        FabricRequirements::NONE
    }
    /// Operating point of a flow that sends `rate_bps` on this path.
    fn operating_point(_params: &Self::Params, _path: &Path, _rate_bps: f64) -> OperatingPoint {
        OperatingPoint::DEFAULT
    }
}
