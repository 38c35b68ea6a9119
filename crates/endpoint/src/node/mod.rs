//! A host on a real network, without socket and clock.
//!
//! Datagrams come in with the address they are from, their type of service and how long ago they
//! arrived; others are asked for while the uplink is free. What the application is told waits as
//! [`Event`]s. Times are those of a clock that the caller has; one that goes back is held, and a
//! leap ahead is nobody's silence.

mod care;
mod config;
mod event;
mod handshake;
#[cfg(feature = "testing")]
mod hostile;
mod messages;
mod peers;
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
use crate::session::Opened;
use crate::session::header::control::{Blocked, ControlMessage, Limit, Ping, Pong};
use crate::session::header::{Control, Data, Header};
use crate::session::keys::{Cookies, TAG_BYTES};

pub use config::{Config, ConfigError, Delivery, Limits, Sizes};
pub use event::{Event, Gone, PeerId, Piece, SendError, Terms, Ticket};
#[cfg(feature = "testing")]
pub use hostile::hostile;
use messages::{Outbox, Spare};
use peers::{Peer, Peers, State};
#[cfg(feature = "testing")]
pub use versions::versions;

/// This host, as its transport numbers hosts; peers come after.
const SELF: u32 = 0;
/// Kinds of headers that a datagram without a transport's begins with.
const OF_SESSIONS: std::ops::Range<u8> = 32..64;
/// Datagrams of sessions that wait to leave, at most: what is more is lost, as it may be anywhere.
const MOST_WAITING: usize = 4_096;
/// Behind the header of a message's bytes on the wire: IP, UDP, Ethernet, its gap and preamble.
const BELOW_BYTES: u32 = 20 + 8 + 18 + 20;

/// A datagram that has come.
#[derive(Debug)]
pub struct Arrival<'a> {
    /// Where from.
    pub from: SocketAddr,
    /// Its IP header's type of service: a class in the upper six bits, marks in the lower two.
    pub tos: u8,
    /// How long ago it arrived.
    pub held: Span,
    /// Its payload. Opened in place.
    pub bytes: &'a mut [u8],
}

/// A datagram to send.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Departure {
    /// Where to.
    pub to: SocketAddr,
    /// Type of service.
    pub tos: u8,
    /// Its length.
    pub bytes: usize,
}

/// What became of datagrams that were of no use.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Taken.
    pub taken: u64,
    /// No headers that anybody here knows.
    pub malformed: u64,
    /// Of no session.
    pub strangers: u64,
    /// Not sealed or proved with the key.
    pub forged: u64,
    /// Came before, or too late to tell.
    pub old: u64,
    /// Marked on the way.
    pub marked: u64,
}

/// Fills bytes at random.
pub type Entropy = Box<dyn FnMut(&mut [u8]) + Send>;

/// The system's random numbers.
///
/// # Errors
/// Where it has none.
pub fn entropy() -> io::Result<Entropy> {
    let random = SystemRandom::new();
    random.fill(&mut [0]).map_err(|_| io::Error::other("the system has no random numbers"))?;
    Ok(Box::new(move |bytes| {
        // They were there a moment ago; where they are gone, nothing that follows is safe.
        assert!(random.fill(bytes).is_ok(), "the system has no random numbers");
    }))
}

/// A host: its transport, peers and messages.
pub struct Node {
    config: Config,
    protocol: Protocol,
    /// Name and parameters, as a handshake has them.
    identity: handshake::Identity,
    entropy: Entropy,
    cookies: Cookies,
    answered: handshake::Answered,
    /// Made with the first session, which tells how long a round trip takes.
    endpoint: Option<Endpoint>,
    context: HostContext,
    peers: Peers,
    outbox: Outbox,
    spare: Spare,
    /// Datagrams of sessions that wait to leave.
    waiting: VecDeque<(SocketAddr, Vec<u8>)>,
    events: VecDeque<Event>,
    counters: Counters,
    now: Time,
    /// When the clock last leapt: what was timed across that is not known.
    leapt_at: Time,
    /// The uplink is busy until then.
    free_at: Time,
    /// The transport may have something to send that it was not asked for.
    unasked: bool,
    /// When peers want something at the earliest.
    timer: Time,
    /// What is beside sealed bytes.
    bound: Vec<u8>,
}

impl Node {
    /// A host as configured. `entropy` has to be unpredictable, but in tests.
    ///
    /// # Errors
    /// Where the configuration makes no sense.
    pub fn new(config: Config, mut entropy: Entropy) -> Result<Node, ConfigError> {
        let (mut secret, mut seed) = ([0; 32], [0; 8]);
        entropy(&mut secret);
        entropy(&mut seed);
        let context = config.context(config.seed.unwrap_or(u64::from_be_bytes(seed)))?;
        Ok(Node {
            protocol: config.stack.protocol(),
            identity: handshake::Identity::of(&config.stack, context.mtu),
            cookies: Cookies::new(&secret),
            answered: handshake::Answered::default(),
            endpoint: None,
            peers: Peers::new(config.limits.peers),
            outbox: Outbox::default(),
            spare: Spare::default(),
            waiting: VecDeque::new(),
            events: VecDeque::new(),
            counters: Counters::default(),
            now: Time::ZERO,
            leapt_at: Time::ZERO,
            free_at: Time::ZERO,
            unasked: false,
            timer: Time::NEVER,
            bound: Vec::new(),
            config,
            context,
            entropy,
        })
    }

    /// What the transport was told of this host: with its round trip once there is a session.
    pub fn context(&self) -> &HostContext {
        &self.context
    }

    /// What it takes of others.
    pub fn limits(&self) -> Limits {
        self.config.limits
    }

    /// What has come so far.
    pub fn counters(&self) -> Counters {
        self.counters
    }

    /// The next thing to tell the application.
    pub fn event(&mut self) -> Option<Event> {
        self.events.pop_front()
    }

    /// Whether there is something to tell the application.
    pub fn has_event(&self) -> bool {
        !self.events.is_empty()
    }

    /// Where the peer is, as far as is known.
    pub fn address(&self, peer: PeerId) -> Option<SocketAddr> {
        self.peers.get(peer).map(|peer| peer.address)
    }

    /// The shortest round trip to the peer that was seen: of a full datagram and a short answer.
    pub fn base_rtt(&self, peer: PeerId) -> Option<Span> {
        self.peers.get(peer).map(|peer| peer.rtt).filter(|&rtt| rtt < Span::FOREVER)
    }

    /// Why the protocol is outside the range it was designed for on the path to the peer, by what
    /// its transport is told of that; none before the session tells how long a round trip takes.
    pub fn domain_warning(&self, peer: PeerId) -> Option<String> {
        self.endpoint.as_ref()?;
        self.peers.get(peer)?;
        let paths = Paths { peers: &self.peers, context: &self.context, hops: self.config.hops };
        let path = paths.path(SELF, peer.number);
        let rate_bps = path.nic_rate.as_bps() as f64;
        self.config.stack.operating_point(&path, rate_bps).domain_warning
    }

    /// What is known of the path to the peer, in place of what was seen and configured.
    pub fn know_path(&mut self, peer: PeerId, path: Path) {
        if let Some(peer) = self.peers.get_mut(peer) {
            peer.path = Some(path);
        }
    }

    /// Gives a message to the transport, or keeps it until the peer is there and has room: `head`
    /// and `body` in one.
    ///
    /// # Errors
    /// Where the peer is gone, or the message too long or empty.
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
        let to = self.peers.get_mut(peer).filter(|peer| !peer.closing).ok_or(SendError::Gone)?;
        let (id, ticket) = self.outbox.add(peer.number, head, body, terms);
        to.waiting.push_back(id);
        self.submit_to(now, peer.number);
        Ok(ticket)
    }

    /// An [endless](Terms::endless) message ends after what of it has left; others go on.
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
        self.unasked = true;
    }

    /// The application has taken so many bytes of messages of that peer.
    pub fn taken(&mut self, now: Time, peer: PeerId, bytes: u64) {
        let now = self.clock(now);
        let room = self.config.limits.unread_bytes;
        let Some(Peer { state: State::Open(open), .. }) = self.peers.get_mut(peer) else { return };
        open.taken += bytes;
        // Told when it is worth a packet; who is blocked asks.
        if open.taken + room - open.limit >= room / 4 {
            open.limit = open.taken + room;
            let told = ControlMessage::Limit(Limit { bytes: open.limit });
            self.tell(now, peer.number, told, 0);
        }
    }

    /// Memory of a message that the application has done with, for others.
    pub fn reuse(&mut self, memory: Vec<u8>) {
        self.spare.put(memory);
    }

    /// Memory of messages of so many bytes is worth being used again.
    pub(crate) fn is_worth_reuse(bytes: usize) -> bool {
        bytes >= Spare::LEAST
    }

    /// Ends the session once all that was to be sent has arrived.
    pub fn close(&mut self, now: Time, peer: PeerId) {
        let now = self.clock(now);
        if let Some(peer) = self.peers.get_mut(peer) {
            peer.closing = true;
            peer.due = now;
            self.timer = self.timer.min(now);
        }
    }

    /// When to call [`on_deadline`](Self::on_deadline), and to ask for datagrams again.
    pub fn deadline(&self) -> Time {
        if !self.waiting.is_empty() {
            return self.now;
        }
        let free_at = self.free_at.before(self.config.burst);
        let wish = self.endpoint.as_ref().map_or(Time::NEVER, Endpoint::deadline);
        // What is still wished for now waits for the uplink.
        let wish = if wish <= self.now { free_at.max(self.now) } else { wish };
        wish.min(if self.unasked { free_at } else { Time::NEVER }).min(self.timer)
    }

    /// The deadline has come.
    pub fn on_deadline(&mut self, now: Time) {
        let now = self.clock(now);
        if self.timer <= now {
            self.care(now);
        }
        if let Some(endpoint) = self.endpoint.as_mut().filter(|e| e.deadline() <= now) {
            let mut hearing = Hearing {
                peers: &mut self.peers,
                outbox: &mut self.outbox,
                spare: &mut self.spare,
                events: &mut self.events,
                payload: &[],
                delivery: self.config.delivery,
                violation: None,
            };
            endpoint.on_deadline(now, &mut hearing);
            self.unasked = true;
        }
    }

    /// A time never goes back here; and where it leaps over what is due, so does what waits for
    /// silence: nobody could have been heard.
    fn clock(&mut self, now: Time) -> Time {
        let leap = now.since(self.timer.max(self.now));
        if leap > self.config.limits.silence.scale(0.5) {
            self.peers.iter_mut().for_each(|(_, peer)| peer.heard_at = peer.heard_at.after(leap));
            self.leapt_at = now;
        }
        self.now = self.now.max(now);
        self.now
    }
}

/// What the transport says, on its way to the application.
struct Hearing<'a> {
    peers: &'a mut Peers,
    outbox: &'a mut Outbox,
    spare: &'a mut Spare,
    events: &'a mut VecDeque<Event>,
    /// Of the packet in hand.
    payload: &'a [u8],
    delivery: Delivery,
    /// A peer that has sent more than it was let.
    violation: Option<u32>,
}

impl Application for Hearing<'_> {
    fn delivered(&mut self, _now: Time, message: MessageId, offset: u64, bytes: u32) {
        let Some(name) = self.peers.name(message.src) else { return };
        let Some(Peer { state: State::Open(open), .. }) = self.peers.at_mut(message.src) else {
            return;
        };
        // A message of which nothing has come takes no room, so there could be any number of them.
        let payload = self.payload.get(..bytes as usize).filter(|payload| !payload.is_empty());
        let Some(payload) = payload else { return };
        let end = offset.checked_add(payload.len() as u64);
        if self.delivery == Delivery::Pieces {
            let room = open.limit.saturating_sub(open.come);
            if end.is_none() || payload.len() as u64 > room {
                self.violation = Some(message.src);
                return;
            }
            open.come += payload.len() as u64;
            let piece = Piece { message: message.id, offset, bytes: payload.to_vec() };
            return self.events.push_back(Event::Piece(name, piece));
        }
        let incoming = open.incoming.entry(message.id).or_default();
        let longer = end.map(|end| end.saturating_sub(incoming.bytes.len() as u64));
        match longer.filter(|&longer| longer <= open.limit - open.come.min(open.limit)) {
            Some(_) => open.come += incoming.put(offset, payload, self.spare),
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
            open.under_way -= u32::from(!sent.terms.endless);
            if *closing {
                *due = Time::ZERO;
            }
        }
    }
}

/// What is known of paths.
struct Paths<'a> {
    peers: &'a Peers,
    context: &'a HostContext,
    hops: u32,
}

impl PathOracle for Paths<'_> {
    fn path(&self, _src: u32, dst: u32) -> Path {
        let fabric = self.context.fabric_base_rtt;
        let peer = self.peers.at(dst);
        if let Some(told) = peer.and_then(|peer| peer.path) {
            return told;
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

    /// What a peer with room for so many bytes is let do: the payloads, each of a message of its
    /// own at that offset; how many messages are kept, and whether it was too much.
    fn let_in(room: u64, payloads: &[(u64, usize)]) -> (usize, bool) {
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
            let mut hearing = Hearing {
                peers: &mut peers,
                outbox: &mut outbox,
                spare: &mut spare,
                events: &mut events,
                payload: &payload,
                delivery: Delivery::Whole,
                violation: None,
            };
            let message = MessageId { src: name.number, id };
            hearing.delivered(Time::ZERO, message, offset, bytes as u32);
            violation = violation.or(hearing.violation);
        }
        assert!(violation.is_none_or(|number| number == name.number));
        let Some(Peer { state: State::Open(open), .. }) = peers.get(name) else { panic!() };
        let bytes: usize = open.incoming.values().map(|incoming| incoming.bytes.len()).sum();
        assert!(bytes as u64 == open.come && open.come <= room);
        (open.incoming.len(), violation.is_some())
    }

    #[test]
    fn a_peer_keeps_to_the_room_that_it_was_promised() {
        assert_eq!(let_in(1_000, &[(0, 600), (0, 400)]), (2, false));
        // The one that was too much goes with the peer.
        assert_eq!(let_in(1_000, &[(0, 600), (0, 401)]), (2, true));
        // What stands before it is kept free for what comes later.
        assert_eq!(let_in(1_000, &[(999, 1)]), (1, false));
        assert_eq!(let_in(1_000, &[(1_000, 1)]), (1, true));
        assert_eq!(let_in(1_000, &[(u64::MAX, 1)]), (1, true));
    }

    #[test]
    fn messages_of_which_nothing_comes_are_not_kept() {
        assert_eq!(let_in(1_000, &[(0, 0); 100]), (0, false));
    }
}
