//! A host on a real network, without sockets and clocks.
//!
//! The caller passes datagrams in with their source address, type of service and time since
//! arrival, and fetches datagrams to send while the uplink is free. Reports to the application are
//! queued as [`Event`]s. The caller provides the time. If it goes back, the node keeps its last
//! time; a leap ahead does not count as silence of peers.

mod config;
mod event;
mod handshake;
#[cfg(feature = "testing")]
mod hostile;
mod messages;
mod peers;
mod timers;
mod traffic;
#[cfg(feature = "testing")]
mod versions;

use std::collections::VecDeque;
use std::io;
use std::net::SocketAddr;

use bytes::Bytes;
use ring::rand::{SecureRandom, SystemRandom};
use tidegate_algos::Protocol;
use tidegate_core::wire::{Header as _, HeaderError, START_BYTES};
use tidegate_core::{
    Application, HEADER_BYTES, Hop, HostContext, Message, MessageId, Path, PathOracle, Span, Time,
    frame_flag,
};

use crate::endpoint::{Endpoint, Packet};
use crate::session::header::control::{Blocked, ControlMessage, Limit, Ping, Pong};
use crate::session::header::{Control, Data, Header, Multipath, PacketHeader, Trimmable};
use crate::session::keys::{Cookies, TAG_BYTES};
use crate::session::{Opened, PacketFormat};

pub use config::{Config, ConfigError, Delivery, Limits, Setting, Sizes};
pub use event::{CloseReason, Event, PeerId, Piece, SendError, Terms, Ticket};
#[cfg(feature = "testing")]
pub use hostile::hostile;
use messages::{Outbox, Spare};
use peers::{Peer, Peers, State};
#[cfg(feature = "testing")]
pub use versions::versions;

/// Number of this host in its transport; peers have the numbers after it.
const SELF: u32 = 0;
/// Header kinds of datagrams without a transport header.
const OF_SESSIONS: std::ops::Range<u8> = 32..64;
/// Maximum number of queued session datagrams. Further ones are dropped, which sessions treat as
/// loss in the network.
const MOST_WAITING: usize = 4_096;
/// Bytes on the wire beside the UDP payload: IP, UDP, and Ethernet with gap and preamble.
const BELOW_BYTES: u32 = 20 + 8 + 18 + 20;

/// A received datagram.
#[derive(Debug)]
pub struct Arrival<'a> {
    /// Source address.
    pub from: SocketAddr,
    /// Type of service of the IP header: DSCP in the upper six bits, ECN in the lower two.
    pub tos: u8,
    /// Time since its arrival.
    pub held: Span,
    /// Its payload, which is decrypted in place.
    pub bytes: &'a mut [u8],
}

/// A datagram to send.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Departure {
    /// Destination address.
    pub to: SocketAddr,
    /// Type of service.
    pub tos: u8,
    /// Length in bytes.
    pub bytes: usize,
}

/// Counters of received datagrams.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Accepted.
    pub accepted: u64,
    /// Without valid headers.
    pub malformed: u64,
    /// For no session of this node.
    pub unknown_session: u64,
    /// With an invalid authentication tag or MAC.
    pub forged: u64,
    /// Replayed, or too old to check for replay.
    pub old: u64,
    /// With an ECN mark.
    pub marked: u64,
    /// Without payload, which a switch has removed.
    pub trimmed: u64,
}

/// Fills a buffer with random bytes.
pub type Entropy = Box<dyn FnMut(&mut [u8]) + Send>;

/// The system's random numbers.
///
/// # Errors If the system provides none.
pub fn entropy() -> io::Result<Entropy> {
    let random = SystemRandom::new();
    random.fill(&mut [0]).map_err(|_| io::Error::other("the system has no random numbers"))?;
    Ok(Box::new(move |bytes| {
        // They were available before. Without them, no session would be secure.
        assert!(random.fill(bytes).is_ok(), "the system has no random numbers");
    }))
}

/// A host: its transport, peers and messages.
pub struct Node {
    config: Config,
    protocol: Protocol,
    /// Session header of the transport's packets.
    format: PacketFormat,
    /// Protocol, parameters and payload, as in handshakes.
    identity: handshake::Identity,
    entropy: Entropy,
    cookies: Cookies,
    answered: handshake::Answered,
    /// Created with the first session, which measures the RTT.
    endpoint: Option<Endpoint>,
    /// Whether the transport has had a message or a packet.
    is_used: bool,
    context: HostContext,
    peers: Peers,
    outbox: Outbox,
    spare: Spare,
    /// Queued session datagrams with their destinations.
    waiting: VecDeque<(SocketAddr, Vec<u8>)>,
    events: VecDeque<Event>,
    counters: Counters,
    now: Time,
    /// Time of the clock's last leap. A span across it is unknown.
    leapt_at: Time,
    /// End of the uplink's busy period.
    free_at: Time,
    /// The last burst is full, and less than [`Config::batch`] of it has left.
    is_full: bool,
    /// Whether the transport may have packets that were not fetched yet.
    may_transmit: bool,
    /// The earliest deadline of a peer.
    timer: Time,
    /// Buffer for the associated data of the AEAD.
    aad: Vec<u8>,
}

impl Node {
    /// Creates a node. Except in tests, `entropy` must be unpredictable.
    ///
    /// # Errors If the configuration is invalid.
    pub fn new(config: Config, mut entropy: Entropy) -> Result<Node, ConfigError> {
        let (mut secret, mut seed) = ([0; 32], [0; 8]);
        entropy(&mut secret);
        entropy(&mut seed);
        let context = config.context(config.seed.unwrap_or(u64::from_be_bytes(seed)))?;
        Ok(Node {
            protocol: config.stack.protocol(),
            format: config.packet_format(),
            identity: handshake::Identity::of(&config.stack, context.mtu, config.packet_format()),
            cookies: Cookies::new(&secret),
            answered: handshake::Answered::default(),
            endpoint: None,
            is_used: false,
            peers: Peers::new(config.limits.peers),
            outbox: Outbox::default(),
            spare: Spare::default(),
            waiting: VecDeque::new(),
            events: VecDeque::new(),
            counters: Counters::default(),
            now: Time::ZERO,
            leapt_at: Time::ZERO,
            free_at: Time::ZERO,
            is_full: false,
            may_transmit: false,
            timer: Time::NEVER,
            aad: Vec::new(),
            config,
            context,
            entropy,
        })
    }

    /// The context of the transport. It contains the RTT once there is a session.
    pub fn context(&self) -> &HostContext {
        &self.context
    }

    /// The limits for peers.
    pub fn limits(&self) -> Limits {
        self.config.limits
    }

    /// Counters of received datagrams.
    pub fn counters(&self) -> Counters {
        self.counters
    }

    /// Takes the next event.
    pub fn event(&mut self) -> Option<Event> {
        self.events.pop_front()
    }

    /// Whether there is an event.
    pub fn has_event(&self) -> bool {
        !self.events.is_empty()
    }

    /// The current address of a peer.
    pub fn address(&self, peer: PeerId) -> Option<SocketAddr> {
        self.peers.get(peer).map(|peer| peer.address)
    }

    /// The minimum RTT to a peer, of a full datagram and a short answer.
    pub fn base_rtt(&self, peer: PeerId) -> Option<Span> {
        self.peers.get(peer).map(|peer| peer.rtt).filter(|&rtt| rtt < Span::FOREVER)
    }

    /// The base RTT that the transport uses: the configured one, or the minimum that the first
    /// session measured; `None` before.
    pub fn used_base_rtt(&self) -> Option<Span> {
        self.endpoint.as_ref().map(|_| self.context.fabric_base_rtt)
    }

    /// Why the path to a peer is outside the design range of the protocol, by the properties that
    /// the transport uses; `None` if it is within, or before the session has measured the RTT.
    pub fn domain_warning(&self, peer: PeerId) -> Option<String> {
        self.endpoint.as_ref()?;
        self.peers.get(peer)?;
        let paths = Paths { peers: &self.peers, context: &self.context, hops: self.config.hops };
        let path = paths.path(SELF, peer.number);
        let rate_bps = path.nic_rate.as_bps() as f64;
        self.config.stack.operating_point(&path, rate_bps).domain_warning()
    }

    /// Sets the properties of the path to a peer, in place of the measured and configured ones.
    pub fn know_path(&mut self, peer: PeerId, path: Path) {
        if let Some(peer) = self.peers.get_mut(peer) {
            peer.path = Some(path);
        }
    }

    /// Submits a message that consists of `head` and `body`, or keeps it until the session is open
    /// and the peer has room.
    ///
    /// # Errors If the session has ended, or the message is too long or empty.
    pub fn send(
        &mut self,
        now: Time,
        peer: PeerId,
        head: &[u8],
        body: Bytes,
        terms: Terms,
    ) -> Result<Ticket, SendError> {
        let now = self.clock(now);
        let bytes = (head.len() + body.len()) as u64;
        let most = self.config.limits.message_bytes;
        match bytes {
            0 => return Err(SendError::Empty),
            _ if bytes > most => return Err(SendError::TooLong { most }),
            _ => {}
        }
        let to = self.peers.get_mut(peer).filter(|peer| !peer.closing).ok_or(SendError::Closed)?;
        let (id, ticket) = self.outbox.add(peer.number, head, body, terms);
        to.waiting.push_back(id);
        self.submit_to(now, peer.number);
        Ok(ticket)
    }

    /// Ends an [endless](Terms::endless) message after its sent bytes; other messages are not
    /// affected.
    pub fn stop(&mut self, now: Time, ticket: Ticket) {
        let now = self.clock(now);
        let Some(id) = self.outbox.number(ticket) else { return };
        let Some(message) = self.outbox.get(id).filter(|message| message.terms.endless) else {
            return;
        };
        match (message.handle, &mut self.endpoint) {
            (Some(handle), Some(endpoint)) => endpoint.stop(now, handle),
            // It has not begun, and never does.
            _ => drop(self.outbox.remove(id)),
        }
        self.may_transmit = true;
    }

    /// Reports that the application has consumed `bytes` bytes of the peer's messages.
    pub fn consumed(&mut self, now: Time, peer: PeerId, bytes: u64) {
        let now = self.clock(now);
        let room = self.config.limits.unread_bytes;
        let Some(Peer { state: State::Open(open), .. }) = self.peers.get_mut(peer) else { return };
        open.consumed += bytes;
        // Sent only when a quarter of the room is free. A blocked peer requests more.
        if open.consumed + room - open.limit >= room / 4 {
            open.limit = open.consumed + room;
            let limit = ControlMessage::Limit(Limit { bytes: open.limit });
            self.send_control(now, peer.number, limit, 0);
        }
    }

    /// Returns the memory of a message for reuse.
    pub fn reuse(&mut self, memory: Vec<u8>) {
        self.spare.put(memory);
    }

    /// Whether memory of this size is worth reusing.
    pub(crate) fn is_worth_reuse(bytes: usize) -> bool {
        bytes >= Spare::LEAST
    }

    /// Ends a session once all its sent messages have arrived.
    pub fn close(&mut self, now: Time, peer: PeerId) {
        let now = self.clock(now);
        if let Some(peer) = self.peers.get_mut(peer) {
            peer.closing = true;
            peer.due = now;
            self.timer = self.timer.min(now);
        }
    }

    /// When to call [`on_deadline`](Self::on_deadline) and to fetch datagrams again.
    pub fn deadline(&self) -> Time {
        if !self.waiting.is_empty() {
            return self.now;
        }
        let free_at = self.free_at.before(self.ahead());
        let due = self.endpoint.as_ref().map_or(Time::NEVER, Endpoint::deadline);
        // An expired deadline of the transport waits for the uplink.
        let due = if due <= self.now { free_at.max(self.now) } else { due };
        due.min(if self.may_transmit { free_at } else { Time::NEVER }).min(self.timer)
    }

    /// The next datagram may be sent by this time before the uplink is free.
    fn ahead(&self) -> Span {
        let Config { burst, batch, .. } = self.config;
        if self.is_full { burst.beyond(batch) } else { burst }
    }

    /// Handles the expired deadline.
    pub fn on_deadline(&mut self, now: Time) {
        let now = self.clock(now);
        if self.timer <= now {
            self.handle_timers(now);
        }
        if let Some(endpoint) = self.endpoint.as_mut().filter(|e| e.deadline() <= now) {
            let mut reports = Reports {
                peers: &mut self.peers,
                outbox: &mut self.outbox,
                spare: &mut self.spare,
                events: &mut self.events,
                payload: &[],
                delivery: self.config.delivery,
                violation: None,
            };
            endpoint.on_deadline(now, &mut reports);
            self.may_transmit = true;
        }
    }

    /// Advances the clock, which never goes back. If it leaps ahead over a deadline, the silence
    /// timeouts of peers are shifted by the leap: the node could not receive meanwhile.
    fn clock(&mut self, now: Time) -> Time {
        let leap = now.since(self.timer.max(self.now));
        if leap > self.config.limits.silence.scale(0.5) {
            self.peers
                .iter_mut()
                .for_each(|(_, peer)| peer.received_at = peer.received_at.after(leap));
            self.leapt_at = now;
        }
        self.now = self.now.max(now);
        self.now
    }
}

/// Receives the reports of the transport and turns them into events.
struct Reports<'a> {
    peers: &'a mut Peers,
    outbox: &'a mut Outbox,
    spare: &'a mut Spare,
    events: &'a mut VecDeque<Event>,
    /// The payload of the current packet.
    payload: &'a [u8],
    delivery: Delivery,
    /// A peer that has exceeded its limit.
    violation: Option<u32>,
}

impl Application for Reports<'_> {
    fn delivered(&mut self, _now: Time, message: MessageId, offset: u64, bytes: u32) {
        let Some(name) = self.peers.name(message.src) else { return };
        let Some(Peer { state: State::Open(open), .. }) = self.peers.at_mut(message.src) else {
            return;
        };
        // A message without received payload counts against no limit, so its number is unbounded:
        // keep no state for it.
        let payload = self.payload.get(..bytes as usize).filter(|payload| !payload.is_empty());
        let Some(payload) = payload else { return };
        let end = offset.checked_add(payload.len() as u64);
        if self.delivery == Delivery::Pieces {
            let room = open.limit.saturating_sub(open.received);
            if end.is_none() || payload.len() as u64 > room {
                self.violation = Some(message.src);
                return;
            }
            open.received += payload.len() as u64;
            let piece = Piece { message: message.id, offset, bytes: payload.to_vec() };
            return self.events.push_back(Event::Piece(name, piece));
        }
        let incoming = open.incoming.entry(message.id).or_default();
        let longer = end.map(|end| end.saturating_sub(incoming.bytes.len() as u64));
        match longer.filter(|&longer| longer <= open.limit - open.received.min(open.limit)) {
            Some(_) => open.received += incoming.put(offset, payload, self.spare),
            None => self.violation = Some(message.src),
        }
    }

    fn completed(&mut self, _now: Time, message: MessageId) {
        let Some(name) = self.peers.name(message.src) else { return };
        let Some(Peer { state: State::Open(open), .. }) = self.peers.at_mut(message.src) else {
            return;
        };
        if self.delivery == Delivery::Pieces {
            return self.events.push_back(Event::Ended(name, message.id));
        }
        if let Some(whole) = open.incoming.remove(&message.id) {
            self.events.push_back(Event::Arrived(name, whole.bytes));
        }
    }

    fn acked(&mut self, _now: Time, message: MessageId) {
        let Some(sent) = self.outbox.remove(message.id) else { return };
        self.events.push_back(Event::Delivered(sent.ticket));
        if let Some(Peer { state: State::Open(open), due, closing, .. }) =
            self.peers.at_mut(sent.peer)
        {
            open.in_flight -= u32::from(!sent.terms.endless);
            if *closing {
                *due = Time::ZERO;
            }
        }
    }
}

/// Provides path properties to the transport.
struct Paths<'a> {
    peers: &'a Peers,
    context: &'a HostContext,
    hops: u32,
}

impl PathOracle for Paths<'_> {
    fn path(&self, _src: u32, dst: u32) -> Path {
        let fabric = self.context.fabric_base_rtt;
        let peer = self.peers.at(dst);
        if let Some(known) = peer.and_then(|peer| peer.path) {
            return known;
        }
        let seen = peer.map_or(Span::FOREVER, |peer| peer.rtt);
        Path {
            base_rtt: if seen == Span::FOREVER { fabric } else { seen },
            fabric_base_rtt: fabric,
            nic_rate: self.context.nic_rate,
            bottleneck_rate: self.context.nic_rate,
            bdp_bytes: self.context.bdp_bytes,
            mtu: self.context.mtu,
            full_wire_bytes: self.context.mtu + HEADER_BYTES,
            hops: self.hops,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::session::{Key, Session};

    /// Delivers payloads, each at an offset of a message of its own, from a peer with `room` bytes
    /// of room. Returns the number of kept messages, and whether the peer exceeded its limit.
    fn accepted_pieces(room: u64, payloads: &[(u64, usize)]) -> (usize, bool) {
        let mut peers = Peers::new(1);
        let [ours, theirs] = Key::new(b"key").session(&[1; 32], &[2; 32]);
        let open = peers::Open::new(Session::new(ours, theirs), 0, [0; 32], 0, room);
        let address = SocketAddr::from(([10, 0, 0, 1], 1));
        let state = State::Open(Box::new(open));
        let name = peers.add(Time::ZERO, address, 0, state).unwrap();
        let (mut outbox, mut events) = (Outbox::default(), VecDeque::new());
        let mut spare = Spare::default();
        let mut violation = None;
        for (id, &(offset, bytes)) in (0..).zip(payloads) {
            let payload = vec![7; bytes];
            let mut reports = Reports {
                peers: &mut peers,
                outbox: &mut outbox,
                spare: &mut spare,
                events: &mut events,
                payload: &payload,
                delivery: Delivery::Whole,
                violation: None,
            };
            let message = MessageId { src: name.number, id };
            reports.delivered(Time::ZERO, message, offset, bytes as u32);
            violation = violation.or(reports.violation);
        }
        assert!(violation.is_none_or(|number| number == name.number));
        let Some(Peer { state: State::Open(open), .. }) = peers.get(name) else { panic!() };
        let bytes: usize = open.incoming.values().map(|incoming| incoming.bytes.len()).sum();
        assert!(bytes as u64 == open.received && open.received <= room);
        (open.incoming.len(), violation.is_some())
    }

    #[test]
    fn peer_limit_is_enforced() {
        assert_eq!(accepted_pieces(1_000, &[(0, 600), (0, 400)]), (2, false));
        // The violating message is kept; the peer is removed with it.
        assert_eq!(accepted_pieces(1_000, &[(0, 600), (0, 401)]), (2, true));
        // Bytes before the offset count, too.
        assert_eq!(accepted_pieces(1_000, &[(999, 1)]), (1, false));
        assert_eq!(accepted_pieces(1_000, &[(1_000, 1)]), (1, true));
        assert_eq!(accepted_pieces(1_000, &[(u64::MAX, 1)]), (1, true));
    }

    #[test]
    fn empty_messages_are_not_kept() {
        assert_eq!(accepted_pieces(1_000, &[(0, 0); 100]), (0, false));
    }
}
