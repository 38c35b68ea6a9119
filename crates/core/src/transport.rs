//! Transports: "which packet next?"

use crate::params::Params;
use crate::wire::Carried;
use crate::workload::SizeMix;
use crate::{
    FabricProperties, FabricRequirements, HEADER_BYTES, OperatingPoint, PacketMut, Path,
    ProtocolInfo, Rate, Span, Time,
};
use alloc::string::String;

/// A message the application hands over, whole. Its size may be unlimited ([`Message::UNLIMITED`]).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Message {
    /// The application's number, unique among the messages alive of the submitting host.
    pub id: u32,
    /// Destination host; never the submitting one.
    pub dst: u32,
    /// Payload bytes, at least 1.
    pub bytes: u64,
    /// Wants a connection of its own whatever the policy says (an explicit flow).
    pub dedicated: bool,
    /// What it counts among others where protocols tell tenants apart: 1 to
    /// [`Message::MOST_WEIGHT`].
    pub weight: u8,
    /// Whether it asks for another message, or is one that was asked for.
    pub role: Role,
}

/// What a message is among requests and their replies.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Role {
    /// Nobody answers it.
    #[default]
    Alone,
    /// Its destination answers it with a message.
    Request,
    /// The answer to its destination's message of that number ([`Message::id`]).
    Reply {
        /// The number.
        request: u32,
    },
}

impl Message {
    /// Size of a flow that never ends by itself.
    pub const UNLIMITED: u64 = u64::MAX;
    /// Largest weight.
    pub const MOST_WEIGHT: u8 = 31;
}

/// Which message of a fabric.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct MessageId {
    /// The host that submitted it.
    pub src: u32,
    /// That host's number of it: [`Message::id`].
    pub id: u32,
}

/// What a sender has learnt of the path of one of its packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Feedback {
    /// The message that the packet belongs to.
    pub message: MessageId,
    /// From the packet's departure at the NIC to the arrival of its echo there; `None` where the
    /// protocol does not tell.
    pub rtt: Option<Span>,
    /// The largest queueing delay of a hop that the packet met; zero where the protocol has it not
    /// stamped.
    pub peak_hop_delay: Span,
}

/// Where a transport keeps a submitted message; valid until the message is acknowledged, or its
/// destination forgotten.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Handle(pub u64);

/// How messages share connections.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ConnectionPolicy {
    /// All messages of an ordered host pair in one byte stream.
    PerPair,
    /// One connection a message.
    PerMessage,
    /// At most so many connections an ordered host pair; a message takes an idle one, else the
    /// least loaded.
    Pool(u32),
    /// One connection a message, and of those that may send, the one with the fewest bytes left
    /// goes first, where otherwise they take turns by packet.
    ShortestFirst,
}

/// What a host tells its transports when they are made.
#[derive(Clone, Copy, Debug)]
pub struct HostContext {
    /// This host.
    pub host: u32,
    /// Hosts there are: a packet from a higher number is nobody's.
    pub hosts: u32,
    /// The run's seed.
    pub seed: u64,
    /// Payload of a full packet.
    pub mtu: u32,
    /// Rate of this host's NIC.
    pub nic_rate: Rate,
    /// The largest base RTT of any pair in the fabric.
    pub fabric_base_rtt: Span,
    /// The same of smallest packets both ways: what a question and its answer take.
    pub fabric_control_rtt: Span,
    /// Bandwidth-delay product in bytes.
    pub bdp_bytes: f64,
    /// How messages share connections.
    pub connections: ConnectionPolicy,
    /// Every packet takes a path of its own, so packets of a connection overtake each other.
    pub spraying: bool,
    /// Strict priorities the fabric has.
    pub priorities: u8,
    /// Longest time that the driver holds a received packet. It takes that out of RTTs: whoever
    /// hands a packet over late moves `sent_at` on by as much, so an echo is late by up to twice
    /// this.
    pub most_held: Span,
}

impl HostContext {
    /// The priority of data, whatever the protocol: the lowest. What overtakes data goes above it.
    #[inline]
    pub const fn data_priority(&self) -> u8 {
        self.priorities.saturating_sub(1)
    }

    /// The fabric as this host knows it, as if it were its own link: enough for what packets ask of
    /// switches.
    pub fn properties(&self) -> FabricProperties {
        FabricProperties {
            bdp_bytes: self.bdp_bytes,
            base_rtt: self.fabric_base_rtt,
            host_rate: self.nic_rate,
            slowest: self.nic_rate,
            fastest: self.nic_rate,
            mtu: self.mtu,
            hops: 1,
        }
    }
}

/// Answers what a path looks like; asked when a connection is made, never per packet.
pub trait PathOracle {
    /// The path from `src` to `dst`. Telemetry is not part of `full_wire_bytes` yet.
    fn path(&self, src: u32, dst: u32) -> Path;
}

/// Hears what a transport has done, and so learns all there is to measure: nobody else reads a
/// transport's headers.
pub trait Application {
    /// `bytes` more payload of `message` have arrived at its receiver, which go to `offset` in it:
    /// all that the packet in hand carries. Told when a byte first arrives, once for each, whatever
    /// it still waits for, so that a receiver that hands payload on in order tells at the rate of
    /// its link and not in bursts.
    fn delivered(&mut self, now: Time, message: MessageId, offset: u64, bytes: u32);
    /// The receiving application has the last byte of `message`, and all before it.
    fn completed(&mut self, now: Time, message: MessageId);
    /// The sender knows that all of `message` has arrived; its handle is no longer valid.
    fn acked(&mut self, now: Time, message: MessageId);
    /// The sender has heard of a packet.
    #[inline]
    fn feedback(&mut self, _now: Time, _feedback: &Feedback) {}
}

/// What became of a received packet's slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reply {
    /// Nothing to send: the slot is free.
    None,
    /// The slot now holds a reply; send it before data.
    Send,
    /// As [`Send`](Self::Send), and the packet has changed nothing else: neither what may be
    /// transmitted nor a deadline. A driver need not ask.
    Echo,
}

/// The answer to "which packet next?".
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Transmit {
    /// The slot holds a packet.
    Sent,
    /// Nothing may be sent now; the slot is untouched. See [`Transport::deadline`].
    Idle,
}

/// How much a connection may send.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Limits {
    /// Wire bytes that may be in flight; infinite: no window.
    pub window_bytes: f64,
    /// In bit/s; infinite: no pacing.
    pub pace_bps: f64,
}

/// "Which packet next?" One value per host, for all its peers and messages. Drivers (the simulator,
/// endpoints outside it) know nothing else.
///
/// `now` never decreases from call to call. Nothing is pushed: packets leave only through
/// [`transmit`](Self::transmit), [`Reply::Send`] and [`Reply::Echo`].
pub trait Transport {
    /// Takes a message.
    fn submit(&mut self, now: Time, message: Message, paths: &dyn PathOracle) -> Handle;
    /// Ends an unlimited message: nothing new is sent of it.
    fn stop(&mut self, now: Time, handle: Handle);
    /// Forgets all that is kept of host `peer`, which is gone or has lost all it knew. Messages to
    /// it are over, and so are those from it that have not wholly arrived: nothing more is sent or
    /// told of them. What it was granted, others can have. Messages of other hosts go on.
    ///
    /// From now on that number is that of a host never heard of, and may be another one's. The
    /// driver keeps away what is still under way between the two, and sees to it that the other
    /// side forgets this one, too: two of which one remembers do not understand each other.
    fn forget(&mut self, now: Time, peer: u32);
    /// Takes a packet from the wire, and may turn its slot into the reply.
    fn receive<A: Application>(&mut self, now: Time, packet: PacketMut<'_>, app: &mut A) -> Reply;
    /// The uplink is free: fills `packet`, whose content is stale, with the next packet. The driver
    /// sets `body.transport`.
    fn transmit(&mut self, now: Time, packet: PacketMut<'_>) -> Transmit;
    /// As [`transmit`](Self::transmit), while the uplink lets nothing of `priority` and below (its
    /// number and above) go: the next packet above it. Default: there is none.
    fn transmit_above(&mut self, _priority: u8, _now: Time, _packet: PacketMut<'_>) -> Transmit {
        Transmit::Idle
    }
    /// Fills packets as [`transmit`](Self::transmit) does, in order, until there are no more or
    /// nothing may be sent; how many. For a driver that hands over many at once.
    fn transmit_batch<'a>(
        &mut self,
        now: Time,
        packets: impl Iterator<Item = PacketMut<'a>>,
    ) -> usize {
        packets
            .map_while(|packet| (self.transmit(now, packet) == Transmit::Sent).then_some(()))
            .count()
    }
    /// The time that [`deadline`](Self::deadline) named has come.
    fn on_deadline<A: Application>(&mut self, now: Time, app: &mut A);
    /// When this transport next wants [`on_deadline`](Self::on_deadline) or, being idle, may have
    /// something to transmit; [`Time::NEVER`] where only a packet or a message can change anything.
    fn deadline(&self) -> Time;
    /// The part of [`deadline`](Self::deadline) that is more than a wish to transmit:
    /// [`on_deadline`](Self::on_deadline) has to be called at that time. What is only wished for
    /// may be asked for later, as long as [`transmit`](Self::transmit) is told the time of the
    /// wish. Default: all of it.
    fn timer(&self) -> Time {
        self.deadline()
    }
    /// Payload bytes submitted and not yet sent for the first time.
    fn backlog_bytes(&self) -> u64;
    /// Those of the message's connection, for the curious.
    fn limits(&self, handle: Handle) -> Option<Limits>;
}

/// A transport that the catalog can make: a [`Transport`] with a card and parameters.
pub trait Endpoint: Transport + Sized {
    /// Who it is.
    const INFO: ProtocolInfo;
    /// Its parameters.
    type Params: Params;
    /// Its headers.
    type Header: Carried;

    /// Headers and gap of its largest data packet on the wire, telemetry aside, in bytes.
    const HEADER_BYTES: u32 = HEADER_BYTES;

    /// The transport of one host.
    fn new(params: &Self::Params, host: &HostContext) -> Self;
    /// Fits the parameters to the sizes of what hosts will send: called once, before any transport
    /// is made, and not at all by a driver that knows no sizes. Says what users should know of it.
    /// Default: nothing depends on that.
    fn fit(
        _params: &mut Self::Params,
        _fabric: &FabricProperties,
        _sizes: &SizeMix,
    ) -> Option<String> {
        None
    }
    /// What it wants of the fabric. Default: nothing.
    fn requirements(_params: &Self::Params, _fabric: &FabricProperties) -> FabricRequirements {
        FabricRequirements::NONE
    }
    /// What it aims at where a flow sends `rate_bps` on this path, and whether it is at home there.
    fn operating_point(_params: &Self::Params, _path: &Path, _rate_bps: f64) -> OperatingPoint {
        OperatingPoint::DEFAULT
    }
}
