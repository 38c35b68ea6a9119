//! The peers of a node.

use std::collections::{BTreeMap, VecDeque};
use std::net::{IpAddr, SocketAddr};

use tidegate_core::{Path, Span, Time};

use super::messages::Incoming;
use super::{CloseReason, PeerId, SELF};
use crate::session::Session;

/// A peer.
pub(super) struct Peer {
    pub(super) address: SocketAddr,
    /// Session id of packets to this host.
    pub(super) id: u64,
    pub(super) state: State,
    /// Messages that wait to be submitted to the transport.
    pub(super) waiting: VecDeque<u32>,
    /// The minimum RTT, of a full datagram and a short answer.
    pub(super) rtt: Span,
    /// Path properties that were set explicitly.
    pub(super) path: Option<Path>,
    pub(super) received_at: Time,
    /// Its next deadline.
    pub(super) due: Time,
    /// Set when the session ends as soon as all sent messages have arrived; no further ones are
    /// accepted.
    pub(super) closing: bool,
    generation: u32,
}

/// The state of a session.
pub(super) enum State {
    /// This node has sent a `Hello`.
    Connecting(Connecting),
    /// The session is established or half-open.
    Open(Box<Open>),
}

/// A session that this node has requested.
pub(super) struct Connecting {
    pub(super) nonce: [u8; 32],
    pub(super) cookie: [u8; 32],
    pub(super) tries: u32,
    /// The reason of an unauthenticated answer; reported if no other answer arrives.
    pub(super) unproven_reason: Option<CloseReason>,
}

/// A session.
pub(super) struct Open {
    pub(super) session: Session,
    /// Session id of packets to the peer.
    pub(super) theirs: u64,
    /// The nonce of the `Hello`, which identifies repeated ones.
    pub(super) hello_nonce: [u8; 32],
    /// The `Accept`, for repeated `Hello`s.
    pub(super) accept: Option<Vec<u8>>,
    /// Payload submitted to the transport, and its limit.
    pub(super) sent: u64,
    pub(super) send_limit: u64,
    /// Messages that are submitted and not acknowledged.
    pub(super) in_flight: u32,
    /// Received payload up to the highest byte of each message, payload that the application has
    /// consumed, and the limit that was granted.
    pub(super) received: u64,
    pub(super) consumed: u64,
    pub(super) limit: u64,
    /// Partly received messages, by the sender's number.
    pub(super) incoming: BTreeMap<u32, Incoming>,
    /// Whether the path carries full datagrams, and the number of probes: zero while the session is
    /// [half-open](Open::is_established).
    pub(super) carries_full: bool,
    pub(super) probes: u32,
    /// Number of measured RTTs, when the measurement ends at the latest, and whether it has ended.
    pub(super) samples: u32,
    pub(super) measure_until: Time,
    pub(super) is_measured: bool,
    /// A possible new address of the peer, with the token and the time of the ping to it.
    pub(super) new_address: Option<(SocketAddr, u64, Time)>,
    pub(super) end_requests: u32,
    /// Token and time of the pending ping.
    pub(super) pinged: Option<(u64, Time)>,
    /// Number of pings since a `Reset` claimed that the peer no longer knows the session.
    pub(super) reset_pings: u32,
}

/// Peers by number. Numbers are reused.
pub(super) struct Peers {
    /// Generation and peer of each number, beginning after this host's.
    all: Vec<(u32, Option<Peer>)>,
    free: VecDeque<u32>,
    most: u32,
}

/// Maximum number of half-open sessions per network.
pub(super) const HALF_OPEN: usize = 64;

/// The network of an address: all addresses that one host can use, an IPv4 address or an IPv6
/// prefix of 64 bits.
fn network(address: IpAddr) -> u64 {
    match address.to_canonical() {
        IpAddr::V4(address) => address.to_bits().into(),
        IpAddr::V6(address) => (address.to_bits() >> 64) as u64,
    }
}

/// Bits of a session id that contain the peer's number; the others are random.
const NUMBER_BITS: u32 = 20;

impl Peers {
    pub(super) fn new(most: u32) -> Peers {
        Peers { all: Vec::new(), free: VecDeque::new(), most }
    }

    /// The half-open session to evict before a session with a peer at `address` begins: the oldest
    /// of its network if that has reached [its maximum](HALF_OPEN), or the oldest of all if there
    /// is no room.
    pub(super) fn to_evict(&self, address: IpAddr) -> Option<u32> {
        let network = network(address);
        let half_open = || {
            let all = self.iter().filter(|(_, peer)| match &peer.state {
                State::Open(open) => !open.is_established(),
                State::Connecting(_) => false,
            });
            all.map(|(number, peer)| (peer.received_at, number, peer.address.ip()))
        };
        let of_network = || half_open().filter(|&(_, _, ip)| self::network(ip) == network);
        let oldest = if of_network().count() >= HALF_OPEN {
            of_network().min()
        } else if self.is_full() {
            half_open().min()
        } else {
            None
        };
        oldest.map(|(_, number, _)| number)
    }

    fn is_full(&self) -> bool {
        self.free.is_empty() && self.all.len() as u32 >= self.most
    }

    /// Adds a peer, unless the maximum is reached. Its session id is derived from `random`.
    pub(super) fn add(
        &mut self,
        now: Time,
        address: SocketAddr,
        random: u64,
        state: State,
    ) -> Option<PeerId> {
        if self.is_full() {
            return None;
        }
        let number = self.free.pop_front().unwrap_or_else(|| {
            self.all.push((0, None));
            SELF + self.all.len() as u32
        });
        let (generation, place) = self.place(number)?;
        *generation += 1;
        let generation = *generation;
        *place = Some(Peer {
            address,
            id: random << NUMBER_BITS | u64::from(number),
            state,
            waiting: VecDeque::new(),
            rtt: Span::FOREVER,
            path: None,
            received_at: now,
            due: now,
            closing: false,
            generation,
        });
        Some(PeerId { number, generation })
    }

    fn place(&mut self, number: u32) -> Option<(&mut u32, &mut Option<Peer>)> {
        let place = number.checked_sub(SELF + 1)?;
        self.all.get_mut(place as usize).map(|(generation, peer)| (generation, peer))
    }

    pub(super) fn remove(&mut self, number: u32) -> Option<Peer> {
        let peer = self.place(number)?.1.take()?;
        self.free.push_back(number);
        Some(peer)
    }

    /// Finds a peer by number.
    pub(super) fn at(&self, number: u32) -> Option<&Peer> {
        self.all.get(number.checked_sub(SELF + 1)? as usize)?.1.as_ref()
    }

    pub(super) fn at_mut(&mut self, number: u32) -> Option<&mut Peer> {
        self.place(number)?.1.as_mut()
    }

    /// Finds a peer by identifier; `None` if its number was reused.
    pub(super) fn get(&self, peer: PeerId) -> Option<&Peer> {
        self.at(peer.number).filter(|found| found.generation == peer.generation)
    }

    pub(super) fn get_mut(&mut self, peer: PeerId) -> Option<&mut Peer> {
        self.at_mut(peer.number).filter(|found| found.generation == peer.generation)
    }

    /// Finds a peer by the session id of a packet.
    pub(super) fn by_session(&mut self, id: u64) -> Option<(u32, &mut Peer)> {
        let number = (id & ((1 << NUMBER_BITS) - 1)) as u32;
        self.at_mut(number).filter(|peer| peer.id == id).map(|peer| (number, peer))
    }

    /// The identifier of the peer with a number.
    pub(super) fn name(&self, number: u32) -> Option<PeerId> {
        let generation = self.at(number)?.generation;
        Some(PeerId { number, generation })
    }

    pub(super) fn iter_mut(&mut self) -> impl Iterator<Item = (u32, &mut Peer)> {
        let all = (SELF + 1..).zip(&mut self.all);
        all.filter_map(|(number, (_, peer))| Some((number, peer.as_mut()?)))
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (u32, &Peer)> {
        let all = (SELF + 1..).zip(&self.all);
        all.filter_map(|(number, (_, peer))| Some((number, peer.as_ref()?)))
    }
}

impl Peer {
    /// Its session, unless that is half-open or only requested.
    pub(super) fn established(&mut self) -> Option<&mut Open> {
        match &mut self.state {
            State::Open(open) if open.is_established() => Some(open),
            _ => None,
        }
    }
}

impl Open {
    /// Whether the peer has proved that it has this session. Until then the session is half-open:
    /// the node sends only answers to the peer's `Hello`s.
    pub(super) fn is_established(&self) -> bool {
        self.probes > 0
    }

    /// Creates a session.
    pub(super) fn new(
        session: Session,
        theirs: u64,
        hello_nonce: [u8; 32],
        send_limit: u64,
        limit: u64,
    ) -> Open {
        Open {
            session,
            theirs,
            hello_nonce,
            accept: None,
            sent: 0,
            send_limit,
            in_flight: 0,
            received: 0,
            consumed: 0,
            limit,
            incoming: BTreeMap::new(),
            carries_full: false,
            probes: 0,
            samples: 0,
            measure_until: Time::ZERO,
            is_measured: false,
            new_address: None,
            end_requests: 0,
            pinged: None,
            reset_pings: 0,
        }
    }
}
