//! Whom a node speaks with.

use std::collections::{BTreeMap, VecDeque};
use std::net::{IpAddr, SocketAddr};

use tidegate_core::{Path, Span, Time};

use super::messages::Incoming;
use super::{Gone, PeerId, SELF};
use crate::session::Session;

/// A peer.
pub(super) struct Peer {
    pub(super) address: SocketAddr,
    /// What is sent here bears this.
    pub(super) id: u64,
    pub(super) state: State,
    /// Messages that the transport has not got yet.
    pub(super) waiting: VecDeque<u32>,
    /// The shortest round trip that was seen: of a full datagram and a short answer.
    pub(super) rtt: Span,
    /// What was told of the path.
    pub(super) path: Option<Path>,
    pub(super) heard_at: Time,
    /// When it is looked at next.
    pub(super) due: Time,
    /// No more messages are taken, and the session ends when those that were have arrived.
    pub(super) closing: bool,
    generation: u32,
}

/// How far a session is.
pub(super) enum State {
    /// It was asked for.
    Asking(Asking),
    /// There is one.
    Open(Box<Open>),
}

/// A session that was asked for.
pub(super) struct Asking {
    pub(super) nonce: [u8; 32],
    pub(super) cookie: [u8; 32],
    pub(super) tries: u32,
    /// What came in answer without proof, which is believed if nothing else comes.
    pub(super) rumour: Option<Gone>,
}

/// A session.
pub(super) struct Open {
    pub(super) session: Session,
    /// What is sent there bears this.
    pub(super) theirs: u64,
    /// The nonce of who asked: tells the same question from another.
    pub(super) asked: [u8; 32],
    /// Their answer to the same question, to send it again.
    pub(super) accept: Option<Vec<u8>>,
    /// Payload given to the transport, and how much may be.
    pub(super) sent: u64,
    pub(super) may_send: u64,
    /// Messages given to the transport and not acknowledged.
    pub(super) under_way: u32,
    /// Payload of which something has come, taken by the application, and promised room.
    pub(super) come: u64,
    pub(super) taken: u64,
    pub(super) limit: u64,
    /// By the sender's number.
    pub(super) incoming: BTreeMap<u32, Incoming>,
    /// Whether the path is known to carry full datagrams, and how often it was probed: never while
    /// the session is [half-open](Open::is_heard).
    pub(super) carries: bool,
    pub(super) probes: u32,
    /// An address that the peer may have moved to, what it was asked there, and when.
    pub(super) moved: Option<(SocketAddr, u64, Time)>,
    pub(super) asked_to_end: u32,
    /// A ping under way, and since when.
    pub(super) pinged: Option<(u64, Time)>,
    /// How often the peer was asked whether it is there since somebody said that it is not.
    pub(super) doubts: u32,
}

/// Peers by number. The number of a peer that is gone is given to another.
pub(super) struct Peers {
    /// From the first number after this host's.
    all: Vec<(u32, Option<Peer>)>,
    free: VecDeque<u32>,
    most: u32,
}

/// Half-open sessions of a network, at most.
pub(super) const HALF_OPEN: usize = 64;

/// Addresses that one host can have: an IPv4 address, or an IPv6 prefix of 64 bits.
fn network(address: IpAddr) -> u64 {
    match address.to_canonical() {
        IpAddr::V4(address) => address.to_bits().into(),
        IpAddr::V6(address) => (address.to_bits() >> 64) as u64,
    }
}

/// Bits of a session's id that say which peer it is of; the others are random.
const NUMBER_BITS: u32 = 20;

impl Peers {
    pub(super) fn new(most: u32) -> Peers {
        Peers { all: Vec::new(), free: VecDeque::new(), most }
    }

    /// The half-open session that has to end before one with a peer at that address begins: the
    /// oldest of the address's network if that has [its share](HALF_OPEN), or the oldest of all if
    /// there is no room.
    pub(super) fn to_evict(&self, address: IpAddr) -> Option<u32> {
        let network = network(address);
        let half_open = || {
            let all = self.iter().filter(|(_, peer)| match &peer.state {
                State::Open(open) => !open.is_heard(),
                State::Asking(_) => false,
            });
            all.map(|(number, peer)| (peer.heard_at, number, peer.address.ip()))
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

    /// A new peer, unless there are too many. Its session's id is made of `random`.
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
            heard_at: now,
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

    /// By number.
    pub(super) fn at(&self, number: u32) -> Option<&Peer> {
        self.all.get(number.checked_sub(SELF + 1)? as usize)?.1.as_ref()
    }

    pub(super) fn at_mut(&mut self, number: u32) -> Option<&mut Peer> {
        self.place(number)?.1.as_mut()
    }

    /// By name: none where the number is another's now.
    pub(super) fn get(&self, peer: PeerId) -> Option<&Peer> {
        self.at(peer.number).filter(|found| found.generation == peer.generation)
    }

    pub(super) fn get_mut(&mut self, peer: PeerId) -> Option<&mut Peer> {
        self.at_mut(peer.number).filter(|found| found.generation == peer.generation)
    }

    /// By the id that a packet bears.
    pub(super) fn by_session(&mut self, id: u64) -> Option<(u32, &mut Peer)> {
        let number = (id & ((1 << NUMBER_BITS) - 1)) as u32;
        self.at_mut(number).filter(|peer| peer.id == id).map(|peer| (number, peer))
    }

    /// Its name.
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
    /// Its session, unless that is half-open or was not answered.
    pub(super) fn heard(&mut self) -> Option<&mut Open> {
        match &mut self.state {
            State::Open(open) if open.is_heard() => Some(open),
            _ => None,
        }
    }
}

impl Open {
    /// Whether the peer has proved that it has this session. Until then the session is half-open:
    /// the peer is sent the answer to its `Hello` and nothing else.
    pub(super) fn is_heard(&self) -> bool {
        self.probes > 0
    }

    /// A session that has just begun.
    pub(super) fn new(
        session: Session,
        theirs: u64,
        asked: [u8; 32],
        may_send: u64,
        limit: u64,
    ) -> Open {
        Open {
            session,
            theirs,
            asked,
            accept: None,
            sent: 0,
            may_send,
            under_way: 0,
            come: 0,
            taken: 0,
            limit,
            incoming: BTreeMap::new(),
            carries: false,
            probes: 0,
            moved: None,
            asked_to_end: 0,
            pinged: None,
            doubts: 0,
        }
    }
}
