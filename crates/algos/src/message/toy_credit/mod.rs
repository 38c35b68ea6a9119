//! Toy credit: the smallest receiver-driven transport.
//!
//! A sender announces a message, the receiver answers with credits at the pace of its own link,
//! taking turns between its messages, and every credit lets one packet go. No packet leaves without
//! a credit, so a receiver's link is never overbooked by more than what is already under way. It
//! exists to show that receiver-driven transports fit [`Transport`], and to be read before the real
//! ones.
//!
//! It is nobody's protocol; the idea of credits at line rate is in I. Cho, K. Jang, D. Han,
//! "Credit-Scheduled Delay-Bounded Congestion Control for Datacenters", SIGCOMM 2017.
//!
//! # Equations
//!
//! * credits leave a receiver at least `8 · (MTU + 80) / NIC rate` apart
//! * a message has at most `window` bytes credited and not arrived, so that a busy sender does not
//!   pile up credits
//!
//! # What it needs of the network
//!
//! Nothing of switches but to lose nothing: there is no loss recovery, and one lost packet of any
//! kind leaves its message unfinished. Packets may come late, out of order and more than once: a
//! repeated one changes nothing. Request, credit and acknowledgement take 84 bytes on the wire,
//! data its payload and 80.
//!
//! # Differences from the paper
//!
//! * No credit shaping in switches, no feedback, no request or stop exchange beyond the first
//!   packet.

pub mod header;
#[cfg(test)]
mod tests;

use alloc::collections::{BTreeMap, VecDeque};
use alloc::vec::Vec;

use tidegate_core::{
    Application, Card, Domain, Endpoint, Equipment, Extent, Facts, HEADER_BYTES, Handle,
    HostContext, Limits, MIN_WIRE_BYTES, Marker, Message, MessageId, PacketMut, PathOracle, Reply,
    Rng, Span, TelemetryBytes, Time, Transmit, Transport, params, wire::Carried,
};

use crate::window::Window;
use header::{Ack, Credit, Data, Header, Request};

params! {
    /// Parameters of the toy.
    pub struct ToyCreditParams {
        /// Bytes of one message that may be credited and not arrived.
        window: Extent = Extent::Bdp(1.5), within Extent::Bdp(0.0) => Extent::Bdp(1000.0),
            "our choice: one round trip and some queueing";
    }
}

/// A message being sent.
struct Outgoing {
    id: u32,
    dst: u32,
    entropy: u32,
    /// The receiver's slot, once a credit has named it.
    lane: u32,
    size: u64,
    sent: u64,
    credited: u64,
}

/// A message being received.
struct Incoming {
    id: u32,
    src: u32,
    entropy: u32,
    /// The sender's slot.
    connection: u32,
    size: u64,
    received: u64,
    /// Which of its packets that are.
    arrived: Window,
    credited: u64,
    /// In the ring of those to credit.
    queued: bool,
}

/// The toy transport of one host.
pub struct ToyCredit {
    host: HostContext,
    window: u64,
    /// Time between two credits.
    gap: Span,
    rng: Rng,
    next_credit_at: Time,
    outgoing: Slots<Outgoing>,
    incoming: Slots<Incoming>,
    /// The youngest message from each slot of each sender: a request of that one or an older one
    /// has been heard.
    youngest: BTreeMap<(u32, u32), u32>,
    /// Requests to send: slots of `outgoing`.
    requests: VecDeque<u32>,
    /// Messages with credit, in turn: slots of `outgoing`.
    sendable: VecDeque<u32>,
    /// Messages to credit, in turn: slots of `incoming`.
    creditable: VecDeque<u32>,
    backlog_bytes: u64,
}

/// More messages being received at once than this are not believed.
const MAX_INCOMING: usize = 1 << 20;

impl Endpoint for ToyCredit {
    const CARD: Card = Card {
        name: "toy-credit",
        title: "Toy credit",
        citation: "an example; credits at line rate are from Cho et al., SIGCOMM 2017",
        summary: "Receivers hand out one credit a packet at the pace of their own link.",
        color: "#a6761d",
        marker: Marker::Cross,
        telemetry_bytes: TelemetryBytes::NONE,
        echo_bytes: TelemetryBytes::NONE,
    };
    type Params = ToyCreditParams;
    type Header = Header;

    fn new(params: &ToyCreditParams, host: &HostContext) -> ToyCredit {
        ToyCredit {
            host: *host,
            window: params.window.bytes(host.bdp_bytes) as u64,
            gap: host.nic_rate.serialise((host.mtu + HEADER_BYTES) as u64),
            rng: Rng::stream(host.seed, Domain::Entropy, host.host as u64),
            next_credit_at: Time::ZERO,
            outgoing: Slots::new(),
            incoming: Slots::new(),
            youngest: BTreeMap::new(),
            requests: VecDeque::new(),
            sendable: VecDeque::new(),
            creditable: VecDeque::new(),
            backlog_bytes: 0,
        }
    }

    fn equipment(_params: &ToyCreditParams, _fabric: &Facts) -> Equipment {
        Equipment { classes: 1, ..Equipment::NONE }
    }
}

impl Transport for ToyCredit {
    fn submit(&mut self, _now: Time, message: Message, _paths: &dyn PathOracle) -> Handle {
        let entropy = self.rng.bits() as u32;
        let Message { id, dst, bytes: size, .. } = message;
        let slot = self.outgoing.insert(Outgoing {
            id,
            dst,
            entropy,
            lane: 0,
            size,
            sent: 0,
            credited: 0,
        });
        if size != Message::UNLIMITED {
            self.backlog_bytes += size;
        }
        self.requests.push_back(slot);
        Handle(slot as u64)
    }

    fn stop(&mut self, _now: Time, handle: Handle) {
        // The receiver is not told: credits for what is never sent are few, because `window` bounds
        // them.
        if let Some(message) =
            self.outgoing.get(handle.0 as u32).filter(|message| message.size == Message::UNLIMITED)
        {
            message.size = message.sent;
        }
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
                packet.frame.wire_bytes = MIN_WIRE_BYTES as u16;
                packet.body.src = self.host.host;
                packet.body.payload_bytes = 0;
                let Data { connection, lane, message, .. } = data;
                Header::Ack(Ack { connection, lane, message }).write(packet.body);
                Reply::Send
            }
            Some(Header::Ack(ack)) => {
                let sent =
                    |m: &&mut Outgoing| m.id == ack.message && m.dst == src && m.sent == m.size;
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
        let mut payload = 0;
        let (dst, entropy, header) = if let Some(slot) = self.requests.pop_front() {
            let Some(message) = self.outgoing.get(slot) else { return Transmit::Idle };
            let request = Request { connection: slot, message: message.id, size: message.size };
            (message.dst, message.entropy, Header::Request(request))
        } else if let Some((dst, entropy, credit)) = self.credit(now) {
            (dst, entropy, Header::Credit(credit))
        } else if let Some((dst, entropy, data, bytes)) = self.data() {
            payload = bytes;
            (dst, entropy, Header::Data(data))
        } else {
            return Transmit::Idle;
        };
        let (on_wire, priority) = match header {
            Header::Data(_) => (payload + HEADER_BYTES, self.host.data_priority()),
            _ => (0, 0),
        };
        packet.body.src = self.host.host;
        packet.body.payload_bytes = payload;
        header.write(packet.body);
        packet.hops.clear();
        packet.frame.dst = dst;
        packet.frame.entropy = if self.host.spraying { self.rng.bits() as u32 } else { entropy };
        packet.frame.wire_bytes = on_wire.max(MIN_WIRE_BYTES) as u16;
        packet.frame.peak_hop_delay = Span::ZERO;
        packet.frame.priority = priority;
        packet.frame.flags = 0;
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
        let slot = self.incoming.insert(Incoming {
            id: request.message,
            src,
            entropy,
            connection: request.connection,
            size: request.size,
            received: 0,
            arrived: Window::default(),
            credited: 0,
            queued: false,
        });
        self.queue_credit(slot);
    }

    fn on_credit(&mut self, src: u32, credit: &Credit) {
        // A stopped message's slot may have another owner by now. Credits that overtake each other
        // are a few round trips apart; a sum beyond that is forged, and would set a whole message
        // free at once.
        let most = (4.0 * self.host.bdp_bytes) as u64 + self.host.mtu as u64;
        let fresh = |message: &&mut Outgoing| {
            (message.id, message.dst) == (credit.message, src)
                && credit.granted > message.credited
                && credit.granted - message.credited <= most
        };
        let Some(message) = self.outgoing.get(credit.connection).filter(fresh) else { return };
        if message.credited == message.sent && message.size > message.sent {
            self.sendable.push_back(credit.connection);
        }
        message.lane = credit.lane;
        message.credited = credit.granted;
    }

    /// Whether the message is complete with this packet.
    fn on_data<A: Application>(
        &mut self,
        now: Time,
        src: u32,
        data: &Data,
        payload: u32,
        app: &mut A,
    ) -> bool {
        // Nothing arrives that was not credited, and only the last packet of a message is not full.
        let mtu = self.host.mtu as u64;
        let owed = |m: &&mut Incoming| {
            (m.src, m.id) == (src, data.message)
                && data.offset.is_multiple_of(mtu)
                && data.offset < m.credited
                && payload as u64 == (m.credited - data.offset).min(mtu)
        };
        let Some(message) = self.incoming.get(data.lane).filter(owed) else { return false };
        if !message.arrived.insert(data.offset / mtu) {
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

    /// Puts a message into the ring of those to credit, if it wants credit and may have it.
    fn queue_credit(&mut self, slot: u32) {
        if let Some(message) = self.incoming.get(slot)
            && !message.queued
            && message.credited < message.size
            // At least one packet, however small the window.
            && (message.credited - message.received < self.window
                || message.credited == message.received)
        {
            message.queued = true;
            self.creditable.push_back(slot);
        }
    }

    /// The next credit, if its time has come.
    fn credit(&mut self, now: Time) -> Option<(u32, u32, Credit)> {
        if now < self.next_credit_at {
            return None;
        }
        let slot = self.creditable.pop_front()?;
        self.next_credit_at = now + self.gap;
        let message = self.incoming.get(slot)?;
        message.credited += (message.size - message.credited).min(self.host.mtu as u64);
        message.queued = false;
        // The sum of all credit, so that one that comes again or late adds nothing.
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

    /// The next data packet: where it goes, its entropy, header and payload.
    fn data(&mut self) -> Option<(u32, u32, Data, u32)> {
        loop {
            let slot = self.sendable.pop_front()?;
            // One that was stopped is skipped, once.
            let Some(message) =
                self.outgoing.get(slot).filter(|message| message.sent < message.size)
            else {
                continue;
            };
            let payload =
                (message.credited.min(message.size) - message.sent).min(self.host.mtu as u64);
            let offset = message.sent;
            message.sent += payload;
            if message.credited > message.sent && message.size > message.sent {
                self.sendable.push_back(slot);
            }
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
            return Some((message.dst, message.entropy, header, payload as u32));
        }
    }
}

/// A table whose places are used again.
struct Slots<T> {
    entries: Vec<Option<T>>,
    free: Vec<u32>,
}

impl<T> Slots<T> {
    fn new() -> Slots<T> {
        Slots { entries: Vec::new(), free: Vec::new() }
    }
    fn insert(&mut self, value: T) -> u32 {
        let slot = self.free.pop().unwrap_or_else(|| {
            self.entries.push(None);
            self.entries.len() as u32 - 1
        });
        self.entries[slot as usize] = Some(value);
        slot
    }
    fn len(&self) -> usize {
        self.entries.len() - self.free.len()
    }
    fn get(&mut self, slot: u32) -> Option<&mut T> {
        self.entries.get_mut(slot as usize)?.as_mut()
    }
    fn remove(&mut self, slot: u32) {
        if self.entries.get_mut(slot as usize).and_then(Option::take).is_some() {
            self.free.push(slot);
        }
    }
}
