//! Toy credit: the smallest receiver-driven transport.
//!
//! A sender announces a message; the receiver responds with credits at the pace of its own link,
//! round-robin over its messages; every credit allows one packet. No packet leaves without a
//! credit, so a receiver's link is overbooked at most by the packets already in flight. The toy
//! demonstrates that receiver-driven transports fit [`Transport`]; read it before the full ones.
//!
//! It is not a published protocol; the idea of credits at line rate is from I. Cho, K. Jang, D.
//! Han, "Credit-Scheduled Delay-Bounded Congestion Control for Datacenters", SIGCOMM 2017.
//!
//! # Equations
//!
//! * credits leave a receiver at least `8 · (MTU + 80) / NIC rate` apart
//! * a message has at most `window` bytes of outstanding credit, so that a busy sender does not
//!   accumulate credits
//!
//! # Network requirements
//!
//! A lossless fabric: there is no loss recovery, and one lost packet of any kind leaves its message
//! incomplete. Packets may be delayed, reordered and duplicated: a duplicate changes nothing.
//! Request, credit and acknowledgement take 84 bytes on the wire, data its payload plus 80.
//!
//! # Differences from the paper
//!
//! * No credit shaping in switches, no feedback, no request or stop exchange beyond the first
//!   packet.

pub mod header;
#[cfg(test)]
mod tests;

use alloc::collections::{BTreeMap, VecDeque};

use tidegate_core::{
    Application, Dash, Domain, Endpoint, Extent, FabricProperties, FabricRequirements, Handle,
    HostContext, Limits, Marker, Message, MessageId, PacketMut, PacketSizes, PathOracle,
    ProtocolInfo, Reply, Rng, Span, TelemetryBytes, Time, Transmit, Transport, params,
    wire::Carried,
};

use crate::kit::departure::Departure;
use crate::kit::ring::{Link, Linked, Ring};
use crate::kit::segments::Segments;
use crate::kit::slab::{Key, Slab};
use crate::kit::window::Window;
use header::{Ack, Credit, Data, Header, Request};

params! {
    /// Parameters of the toy.
    pub struct ToyCreditParams {
        /// Outstanding credit of one message, in bytes.
        window: Extent = Extent::Bdp(1.5), within Extent::Bdp(0.0) => Extent::Bdp(1000.0),
            "our choice: one round trip and some queueing";
    }
}

/// A message that is being sent.
#[derive(Default)]
struct Outgoing {
    id: u32,
    dst: u32,
    entropy: u32,
    /// The receiver's slot, known from the first credit.
    lane: u32,
    size: u64,
    sent: u64,
    credited: u64,
    /// Place in the ring of messages with credit.
    link: Link,
}

/// A message that is being received.
#[derive(Default)]
struct Incoming {
    id: u32,
    src: u32,
    entropy: u32,
    /// The sender's slot.
    connection: u32,
    size: u64,
    received: u64,
    /// Its packets that have arrived.
    arrived: Window,
    credited: u64,
    /// Place in the ring of messages to credit.
    link: Link,
}

impl Linked for Outgoing {
    fn link(&mut self) -> &mut Link {
        &mut self.link
    }
}
impl Linked for Incoming {
    fn link(&mut self) -> &mut Link {
        &mut self.link
    }
}

/// The toy transport of one host.
pub struct ToyCredit {
    host: HostContext,
    segments: Segments,
    window: u64,
    /// Time between two credits.
    gap: Span,
    rng: Rng,
    next_credit_at: Time,
    outgoing: Slab<Outgoing>,
    incoming: Slab<Incoming>,
    /// The youngest message from each slot of each sender: a request for this one or an older one
    /// is a duplicate.
    youngest: BTreeMap<(u32, u32), u32>,
    /// Messages to announce.
    requests: VecDeque<Key>,
    /// Messages with credit, round-robin.
    sendable: Ring,
    /// Messages to credit, round-robin.
    creditable: Ring,
    backlog_bytes: u64,
}

/// Largest number of messages that are received at a time.
const MAX_INCOMING: usize = 1 << 20;

impl Endpoint for ToyCredit {
    const INFO: ProtocolInfo = ProtocolInfo {
        name: "toy-credit",
        title: "Toy credit",
        revision: 0,
        citation: "an example; credits at line rate are from Cho et al., SIGCOMM 2017",
        summary: "Receivers issue one credit per packet at the pace of their own link.",
        color: "#a6761d",
        marker: Marker::Cross,
        dash: Dash::Dashed,
        telemetry_bytes: TelemetryBytes::NONE,
        echo_bytes: TelemetryBytes::NONE,
    };
    type Params = ToyCreditParams;
    type Header = Header;

    fn new(params: &ToyCreditParams, host: &HostContext) -> ToyCredit {
        let segments = Segments { mtu: host.mtu as u64, sizes: PacketSizes::STANDARD };
        ToyCredit {
            host: *host,
            segments,
            window: params.window.bytes(host.bdp_bytes) as u64,
            gap: host.nic_rate.serialise(segments.full()),
            rng: Rng::stream(host.seed, Domain::Entropy, host.host as u64),
            next_credit_at: Time::ZERO,
            outgoing: Slab::default(),
            incoming: Slab::default(),
            youngest: BTreeMap::new(),
            requests: VecDeque::new(),
            sendable: Ring::default(),
            creditable: Ring::default(),
            backlog_bytes: 0,
        }
    }

    fn requirements(_params: &ToyCreditParams, _fabric: &FabricProperties) -> FabricRequirements {
        FabricRequirements { classes: 1, ..FabricRequirements::NONE }
    }
}

impl Transport for ToyCredit {
    fn submit(&mut self, _now: Time, message: Message, _paths: &dyn PathOracle) -> Handle {
        let entropy = self.rng.bits() as u32;
        let Message { id, dst, bytes: size, .. } = message;
        let new = Outgoing { id, dst, entropy, size, ..Outgoing::default() };
        let slot = self.outgoing.insert(|_| new);
        let key = self.outgoing.key(slot);
        if size != Message::UNLIMITED {
            self.backlog_bytes += size;
        }
        self.requests.push_back(key);
        Handle(key.bits())
    }

    fn stop(&mut self, _now: Time, handle: Handle) {
        // The receiver is not notified: few credits are unused, because `window` bounds them.
        let Some(slot) = self.outgoing.slot(Key::of_bits(handle.0)) else { return };
        let message = &mut self.outgoing[slot];
        if message.size == Message::UNLIMITED {
            message.size = message.sent;
        }
    }

    fn forget(&mut self, _now: Time, peer: u32) {
        self.sendable.retain(self.outgoing.all_mut(), |message| message.dst != peer);
        for slot in self.outgoing.slots(|message| message.dst == peer) {
            let message = &self.outgoing[slot];
            if message.size != Message::UNLIMITED {
                self.backlog_bytes -= message.size - message.sent;
            }
            self.outgoing.remove(slot);
        }
        self.creditable.retain(self.incoming.all_mut(), |message| message.src != peer);
        for slot in self.incoming.slots(|message| message.src == peer) {
            self.incoming.remove(slot);
        }
        // Message numbers may restart.
        self.youngest.retain(|&(src, _), _| src != peer);
    }

    fn receive<A: Application>(&mut self, now: Time, packet: PacketMut<'_>, app: &mut A) -> Reply {
        let src = packet.body.src;
        match Header::read(packet.body) {
            Some(Header::Request(request)) => {
                self.on_request(src, packet.frame.entropy, &request);
                Reply::None
            }
            Some(Header::Credit(credit)) => {
                self.on_credit(src, &credit);
                Reply::None
            }
            Some(Header::Data(data)) => {
                if !self.on_data(now, src, &data, packet.body.payload_bytes, app) {
                    return Reply::None;
                }
                packet.frame.dst = src;
                packet.frame.wire_bytes = self.segments.sizes.control_bytes as u16;
                packet.body.src = self.host.host;
                packet.body.payload_bytes = 0;
                let Data { connection, lane, message, .. } = data;
                Header::Ack(Ack { connection, lane, message }).write(packet.body);
                Reply::Send
            }
            Some(Header::Ack(ack)) => {
                // A message that waits for its turn has not been sent to its end.
                let sent = |m: &&Outgoing| {
                    (m.id, m.dst, m.sent) == (ack.message, src, m.size) && !m.link.waits()
                };
                if self.outgoing.get(ack.connection).filter(sent).is_some() {
                    self.outgoing.remove(ack.connection);
                    app.acked(now, MessageId { src: self.host.host, id: ack.message });
                }
                Reply::None
            }
            None => Reply::None,
        }
    }

    fn transmit(&mut self, now: Time, packet: PacketMut<'_>) -> Transmit {
        if let Some((dst, entropy, header)) = self.control(now) {
            self.write((dst, entropy, header), 0, packet);
        } else if let Some((dst, entropy, data, bytes)) = self.data() {
            self.write((dst, entropy, Header::Data(data)), bytes, packet);
        } else {
            return Transmit::Idle;
        }
        Transmit::Sent
    }

    fn transmit_above(&mut self, priority: u8, now: Time, packet: PacketMut<'_>) -> Transmit {
        match if priority > 0 { self.control(now) } else { None } {
            Some(control) => self.write(control, 0, packet),
            None => return Transmit::Idle,
        }
        Transmit::Sent
    }

    fn on_deadline<A: Application>(&mut self, _now: Time, _app: &mut A) {}

    fn deadline(&self) -> Time {
        if self.creditable.is_empty() { Time::NEVER } else { self.next_credit_at }
    }

    fn backlog_bytes(&self) -> u64 {
        self.backlog_bytes
    }

    fn limits(&self, _handle: Handle) -> Option<Limits> {
        None
    }
}

impl ToyCredit {
    fn on_request(&mut self, src: u32, entropy: u32, request: &Request) {
        let known = self.incoming.len().max(self.youngest.len());
        if known >= MAX_INCOMING || request.size == 0 || src >= self.host.hosts {
            return;
        }
        // Messages are numbered in the order of their submission, and those of a slot follow each
        // other.
        let slot = (src, request.connection);
        let is_later = |&id: &u32| (request.message.wrapping_sub(id) as i32) > 0;
        if !self.youngest.get(&slot).is_none_or(is_later) {
            return;
        }
        self.youngest.insert(slot, request.message);
        let slot = self.incoming.insert(|last| Incoming {
            id: request.message,
            src,
            entropy,
            connection: request.connection,
            size: request.size,
            arrived: last.arrived.cleared(),
            ..Incoming::default()
        });
        self.queue_credit(slot);
    }

    fn on_credit(&mut self, src: u32, credit: &Credit) {
        // A stopped message's slot may have been reused. Credits that overtake each other are a few
        // round trips apart; a larger sum is forged, and would release a whole message at once.
        let most = (4.0 * self.host.bdp_bytes) as u64 + self.host.mtu as u64;
        let fresh = |message: &&Outgoing| {
            (message.id, message.dst) == (credit.message, src)
                && credit.granted > message.credited
                && credit.granted - message.credited <= most
        };
        let slot = credit.connection;
        if self.outgoing.get(slot).filter(fresh).is_none() {
            return;
        }
        let message = &mut self.outgoing[slot];
        message.lane = credit.lane;
        message.credited = credit.granted;
        if message.size > message.sent && !message.link.waits() {
            self.sendable.push(slot, self.outgoing.all_mut());
        }
    }

    /// Handles a data packet. Returns whether the message is complete.
    fn on_data<A: Application>(
        &mut self,
        now: Time,
        src: u32,
        data: &Data,
        payload: u32,
        app: &mut A,
    ) -> bool {
        // Only credited packets arrive, and only the last packet of a message is not full.
        let owed =
            |m: &&mut Incoming| (m.src, m.id) == (src, data.message) && data.offset < m.credited;
        let Some(message) = self.incoming.get_mut(data.lane).filter(owed) else { return false };
        let packet = self.segments.packet_at(message.size, data.offset, payload);
        if !packet.is_some_and(|packet| message.arrived.insert(packet)) {
            return false;
        }
        message.received += payload as u64;
        let id = MessageId { src, id: data.message };
        app.delivered(now, id, data.offset, payload);
        if message.received < message.size {
            self.queue_credit(data.lane);
            return false;
        }
        self.incoming.remove(data.lane);
        app.completed(now, id);
        true
    }

    /// Adds a message to the ring of those to credit, if it needs credit and may get it.
    fn queue_credit(&mut self, slot: u32) {
        let message = &self.incoming[slot];
        // At least one packet, however small the window.
        let may = message.credited - message.received < self.window
            || message.credited == message.received;
        if message.credited < message.size && may && !message.link.waits() {
            self.creditable.push(slot, self.incoming.all_mut());
        }
    }

    /// The next announcement, with its destination and entropy.
    fn request(&mut self) -> Option<(u32, u32, Request)> {
        let messages = &self.outgoing;
        let mut waiting = core::iter::from_fn(|| self.requests.pop_front());
        let slot = waiting.find_map(|key| messages.slot(key))?;
        let message = &self.outgoing[slot];
        let request = Request { connection: slot, message: message.id, size: message.size };
        Some((message.dst, message.entropy, request))
    }

    /// The next packet other than data, if any, with its destination, entropy and header.
    fn control(&mut self, now: Time) -> Option<(u32, u32, Header)> {
        if let Some((dst, entropy, request)) = self.request() {
            return Some((dst, entropy, Header::Request(request)));
        }
        let (dst, entropy, credit) = self.credit(now)?;
        Some((dst, entropy, Header::Credit(credit)))
    }

    /// Writes a packet with this payload.
    fn write(
        &mut self,
        (dst, entropy, header): (u32, u32, Header),
        payload_bytes: u32,
        packet: PacketMut<'_>,
    ) {
        let entropy = if self.host.spraying { self.rng.bits() as u32 } else { entropy };
        let (sizes, priority) = (&self.segments.sizes, self.host.data_priority());
        let departure = match header {
            Header::Data(_) => Departure::data(sizes, dst, entropy, payload_bytes, priority),
            _ => Departure::control(sizes, dst, entropy, 0),
        };
        departure.write(self.host.host, &header, packet);
    }

    /// The next credit, if it is due.
    fn credit(&mut self, now: Time) -> Option<(u32, u32, Credit)> {
        if now < self.next_credit_at {
            return None;
        }
        let slot = self.creditable.pop(self.incoming.all_mut())?;
        self.next_credit_at = now + self.gap;
        let message = &mut self.incoming[slot];
        message.credited += (message.size - message.credited).min(self.segments.mtu);
        // The sum of all credit, so that a duplicate or late credit adds nothing.
        let header = Credit {
            connection: message.connection,
            lane: slot,
            message: message.id,
            granted: message.credited,
        };
        let credit = (message.src, message.entropy, header);
        self.queue_credit(slot);
        Some(credit)
    }

    /// The next data packet, with its destination, entropy, header and payload.
    fn data(&mut self) -> Option<(u32, u32, Data, u32)> {
        loop {
            let slot = self.sendable.pop(self.outgoing.all_mut())?;
            let message = &mut self.outgoing[slot];
            // A stopped message is skipped once.
            if message.sent >= message.size {
                continue;
            }
            let payload =
                (message.credited.min(message.size) - message.sent).min(self.segments.mtu);
            let offset = message.sent;
            message.sent += payload;
            if message.size != Message::UNLIMITED {
                self.backlog_bytes -= payload;
            }
            let header = Data {
                end_of_message: message.sent == message.size,
                connection: slot,
                lane: message.lane,
                message: message.id,
                offset,
            };
            let departs = (message.dst, message.entropy, header, payload as u32);
            if message.credited > message.sent && message.size > message.sent {
                self.sendable.push(slot, self.outgoing.all_mut());
            }
            return Some(departs);
        }
    }
}
