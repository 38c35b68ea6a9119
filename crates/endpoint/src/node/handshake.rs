//! The handshake of sessions.
//!
//! The initiator sends a [`Hello`]. The responder keeps no state for the first one: it answers with
//! a cookie. Only if the initiator returns the cookie from the same address within seconds does it
//! become a peer. All headers prove possession of the key. A `Hello` is longer than any answer to
//! it, so the handshake cannot be used for amplification.

use std::collections::{BTreeSet, VecDeque};
use std::net::SocketAddr;

use ring::digest;
use tidegate_algos::Stack;
use tidegate_core::wire::Header as _;
use tidegate_core::{Span, Time};

use super::peers::{Connecting, Open, Peer, State};
use super::timers::HALF_OPEN_TIMEOUT;
use super::{CloseReason, Event, Node, PeerId};
use crate::session::header::{Accept, Header, Hello, Refuse, Reset, Retry};
use crate::session::keys::Key;
use crate::session::{PacketFormat, Session};

/// A `Hello` is repeated after this time, then after twice that time, and so on.
const HELLO_INTERVAL: Span = Span::ms(50);
/// Maximum interval of repeated `Hello`s.
const HELLO_INTERVAL_MAX: Span = Span::s(2);
/// Lifetime of a cookie.
const COOKIE_AGE: Span = Span::s(10);
/// Maximum number of remembered `Hello`s; beyond it, the oldest is forgotten early.
const MOST_OPENED: usize = 1 << 16;
/// Kind number of a [`Hello`], equal in all versions.
const HELLO: u8 = 32;
/// Length of the MAC at the end of each header.
const PROOF_BYTES: usize = 16;

/// Reasons of a `Refuse`, as numbers on the wire.
mod reason {
    pub(super) const PROTOCOL: u32 = 1;
    pub(super) const PARAMETERS: u32 = 2;
    pub(super) const PAYLOAD: u32 = 3;
    pub(super) const FULL: u32 = 4;
    pub(super) const VERSION: u32 = 5;
}

/// `Hello`s that opened a session, while their cookies are valid. Each opens only one session, so
/// that an eavesdropper cannot open another by replaying it.
#[derive(Default)]
pub(super) struct Answered {
    nonces: BTreeSet<[u8; 32]>,
    /// Time of each answer, oldest first.
    order: VecDeque<(Time, [u8; 32])>,
}

impl Answered {
    /// Whether the `Hello` with this nonce was answered.
    fn contains(&mut self, now: Time, nonce: &[u8; 32]) -> bool {
        while let Some((_, old)) = self.order.pop_front_if(|(at, _)| now.since(*at) > COOKIE_AGE) {
            self.nonces.remove(&old);
        }
        self.nonces.contains(nonce)
    }

    /// Records an answered `Hello`. If a forgotten one is replayed, the result is one more
    /// half-open session, which is of no use to the sender.
    fn insert(&mut self, now: Time, nonce: [u8; 32]) {
        if self.order.len() == MOST_OPENED
            && let Some((_, old)) = self.order.pop_front()
        {
            self.nonces.remove(&old);
        }
        self.order.push_back((now, nonce));
        self.nonces.insert(nonce);
    }
}

/// Settings that both sides must have in common.
#[derive(Clone, Copy, PartialEq)]
pub(super) struct Identity {
    protocol: [u8; 16],
    parameters: u64,
    payload: u32,
}

impl Identity {
    /// `format` counts as a parameter, but a [plain](PacketFormat::Plain) one leaves the digest
    /// as it was before there were others.
    pub(super) fn of(stack: &Stack, payload: u32, format: PacketFormat) -> Identity {
        let name = stack.protocol().info().name.as_bytes();
        let mut protocol = [0; 16];
        let length = name.len().min(16);
        protocol[..length].copy_from_slice(&name[..length]);
        let mut values: Vec<_> =
            stack.values().iter().map(|(name, value)| format!("{name}={value:?}\n")).collect();
        if format != PacketFormat::Plain {
            values.push(format!("{format:?}\n"));
        }
        let digest = digest::digest(&digest::SHA256, values.concat().as_bytes());
        let first = digest.as_ref().first_chunk().copied().unwrap_or_default();
        Identity { protocol, parameters: u64::from_be_bytes(first), payload }
    }

    /// The reason to refuse a `Hello` with other settings, with this side's value.
    fn refuses(&self, hello: &Hello) -> Option<(u32, u64)> {
        if hello.protocol != self.protocol {
            Some((reason::PROTOCOL, 0))
        } else if hello.parameters != self.parameters {
            Some((reason::PARAMETERS, self.parameters))
        } else if hello.payload != self.payload {
            Some((reason::PAYLOAD, self.payload.into()))
        } else {
            None
        }
    }
}

/// Writes a header with its MAC at the end, over all bytes before it and `also`.
pub(super) fn proved(key: &Key, header: impl Into<Header>, also: &[u8]) -> Vec<u8> {
    let header = header.into();
    let mut bytes = vec![0; header.bytes()];
    // The buffer has the exact length.
    let _ = header.emit(&mut bytes);
    let (text, proof) = bytes.split_at_mut(header.bytes() - PROOF_BYTES);
    proof.copy_from_slice(&key.proof("header", &[text, also]));
    bytes
}

/// Whether the MAC of a header is valid.
fn proves(key: &Key, bytes: &[u8], also: &[u8]) -> bool {
    let Some((text, proof)) = bytes.split_last_chunk::<PROOF_BYTES>() else { return false };
    key.proves(proof, "header", &[text, also])
}

/// The data that identify an initiator in a cookie.
fn cookie_holder(from: SocketAddr, hello: &Hello) -> [Vec<u8>; 3] {
    [from.to_string().into_bytes(), hello.id.to_be_bytes().into(), hello.nonce.into()]
}

impl Node {
    /// Requests a session with the peer at an address. A session that exists or is being opened is
    /// reused.
    ///
    /// # Errors If the maximum number of peers is reached.
    pub fn connect(&mut self, now: Time, to: SocketAddr) -> Result<PeerId, CloseReason> {
        let now = self.clock(now);
        let there = self.peers.iter().find(|(_, peer)| peer.address == to && !peer.closing);
        if let Some(name) = there.and_then(|(number, _)| self.peers.name(number)) {
            return Ok(name);
        }
        let mut nonce = [0; 32];
        (self.entropy)(&mut nonce);
        let connecting = Connecting { nonce, cookie: [0; 32], tries: 0, unproven_reason: None };
        let random = self.random();
        let name =
            self.add(now, to, random, State::Connecting(connecting)).ok_or(CloseReason::Full)?;
        self.send_hello(now, name.number);
        Ok(name)
    }

    /// Adds a peer. If there is no room, it replaces a half-open session.
    fn add(&mut self, now: Time, at: SocketAddr, random: u64, state: State) -> Option<PeerId> {
        if let Some(number) = self.peers.to_evict(at.ip()) {
            self.remove_peer(number, CloseReason::Silent);
        }
        self.peers.add(now, at, random, state)
    }

    fn random(&mut self) -> u64 {
        let mut bytes = [0; 8];
        (self.entropy)(&mut bytes);
        u64::from_be_bytes(bytes)
    }

    /// Sends a `Hello`.
    pub(super) fn send_hello(&mut self, now: Time, number: u32) {
        let Some(peer) = self.peers.at_mut(number) else { return };
        let State::Connecting(connecting) = &mut peer.state else { return };
        let hello = Hello {
            id: peer.id,
            nonce: connecting.nonce,
            protocol: self.identity.protocol,
            parameters: self.identity.parameters,
            payload: self.identity.payload,
            limit: self.config.limits.unread_bytes,
            cookie: connecting.cookie,
            sent_at: now,
            mac: [0; 16],
        };
        let pause = HELLO_INTERVAL.times(1 << connecting.tries.min(16)).min(HELLO_INTERVAL_MAX);
        // The round trip of a full `Hello` measures the RTT of a full packet. If the path does not
        // carry it, the probes of the session detect that.
        let is_full = connecting.cookie != [0; 32] && connecting.tries == 0;
        connecting.tries += 1;
        peer.due = now.after(pause).min(peer.received_at.after(self.config.limits.silence));
        self.timer = self.timer.min(peer.due);
        let mut datagram = proved(&self.config.key, hello, &[]);
        if is_full {
            datagram.resize(self.config.datagram, 0);
        }
        let to = peer.address;
        self.post(to, datagram);
    }

    /// Handles an unencrypted session header.
    pub(super) fn on_header(
        &mut self,
        now: Time,
        held: Span,
        from: SocketAddr,
        header: Header,
        bytes: &[u8],
    ) {
        match header {
            Header::Hello(hello) => self.on_hello(now, held, from, &hello, bytes),
            Header::Retry(retry) => self.on_retry(now, &retry, bytes),
            Header::Accept(accept) => self.on_accept(now, held, &accept, bytes),
            Header::Refuse(refuse) => self.on_refuse(from, &refuse, bytes),
            Header::Reset(reset) => self.on_reset(now, from, &reset, bytes),
            Header::Data(_) | Header::Multipath(_) | Header::Trimmable(_) | Header::Control(_) => {
                self.counters.malformed += 1
            }
        }
    }

    /// Handles a datagram of another version. A `Hello` is answered with the version of this node,
    /// without proof. Nothing else is answered: else two nodes of different versions would refuse
    /// each other's refusals for ever.
    pub(super) fn on_other_version(&mut self, from: SocketAddr, theirs: u8, bytes: &[u8]) {
        self.counters.malformed += 1;
        self.note_version(from, theirs);
        if bytes.get(1) == Some(&HELLO) && bytes.len() >= Refuse::BYTES {
            let instead = Header::FORMAT.version.into();
            let refuse = Refuse { to: 0, reason: reason::VERSION, instead, mac: [0; 16] };
            self.post(from, proved(&self.config.key, refuse, &[]));
        }
    }

    /// Notes that a peer that was sent a `Hello` uses another version. This is not authenticated:
    /// it becomes the reported reason only if no session opens.
    fn note_version(&mut self, from: SocketAddr, theirs: u8) {
        let known = self.peers.iter_mut().find(|(_, peer)| peer.address == from);
        if let Some((_, Peer { state: State::Connecting(connecting), .. })) = known {
            connecting.unproven_reason = Some(CloseReason::OtherVersion { theirs: theirs.into() });
        }
    }

    fn on_hello(&mut self, now: Time, held: Span, from: SocketAddr, hello: &Hello, bytes: &[u8]) {
        let key = &self.config.key;
        // A reflected `Hello` of this host proves nothing: its MAC is this host's own.
        let is_ours = self.peers.by_session(hello.id).is_some_and(|(_, peer)| match &peer.state {
            State::Connecting(connecting) => connecting.nonce == hello.nonce,
            State::Open(open) => open.hello_nonce == hello.nonce,
        });
        if is_ours || !proves(key, bytes, &[]) {
            self.counters.forged += 1;
            return;
        }
        let holder = cookie_holder(from, hello);
        let holder: Vec<&[u8]> = holder.iter().map(Vec::as_slice).collect();
        let shown = self.cookies.created_at(&hello.cookie, &holder).map(Time::ps);
        let Some(created_at) = shown.filter(|&at| now.since(at) <= COOKIE_AGE) else {
            let cookie = self.cookies.create(now.as_ps(), &holder);
            let retry = Retry { to: hello.id, cookie, mac: [0; 16] };
            let datagram = proved(key, retry, &hello.nonce);
            self.post(from, datagram);
            return;
        };
        self.counters.accepted += 1;
        if let Some((reason, instead)) = self.identity.refuses(hello) {
            self.refuse(from, hello, reason, instead);
            return;
        }
        // A repeated `Hello` gets the same answer.
        let repeated = self.peers.iter().find_map(|(_, peer)| match &peer.state {
            State::Open(open) if open.theirs == hello.id && open.hello_nonce == hello.nonce => {
                Some(open.accept.clone())
            }
            _ => None,
        });
        if let Some(accept) = repeated {
            if let Some(accept) = accept {
                self.post(from, accept);
            }
            return;
        }
        if self.answered.contains(now, &hello.nonce) {
            self.counters.old += 1;
            return;
        }
        let mut nonce = [0; 32];
        (self.entropy)(&mut nonce);
        let random = self.random();
        let [theirs, ours] = self.config.key.session(&hello.nonce, &nonce);
        let session = Session::new(ours, theirs);
        let open = Open::new(session, hello.id, hello.nonce, hello.limit, self.room());
        let state = State::Open(Box::new(open));
        let Some(name) = self.add(now, from, random, state) else {
            self.refuse(from, hello, reason::FULL, 0);
            return;
        };
        self.answered.insert(now, hello.nonce);
        let Some(peer) = self.peers.at_mut(name.number) else { return };
        let accept = Accept {
            to: hello.id,
            id: peer.id,
            nonce,
            limit: self.config.limits.unread_bytes,
            sent_at: hello.sent_at,
            mac: [0; 16],
        };
        let accept = proved(&self.config.key, accept, &hello.nonce);
        if let State::Open(open) = &mut peer.state {
            open.accept = Some(accept.clone());
        }
        peer.due = now.after(HALF_OPEN_TIMEOUT);
        self.timer = self.timer.min(peer.due);
        self.post(from, accept);
        self.opened(now, name, self.round_trip(created_at, now, held));
    }

    fn refuse(&mut self, from: SocketAddr, hello: &Hello, reason: u32, instead: u64) {
        let refuse = Refuse { to: hello.id, reason, instead, mac: [0; 16] };
        let datagram = proved(&self.config.key, refuse, &hello.nonce);
        self.post(from, datagram);
    }

    /// Finds the `Hello` that a header answers and returns its peer and nonce; counts invalid
    /// answers.
    fn answered_hello(&mut self, to: u64, bytes: &[u8]) -> Option<(u32, [u8; 32])> {
        let found = self.peers.by_session(to);
        let Some((number, Peer { state: State::Connecting(connecting), .. })) = found else {
            self.counters.unknown_session += 1;
            return None;
        };
        let nonce = connecting.nonce;
        if !proves(&self.config.key, bytes, &nonce) {
            self.counters.forged += 1;
            return None;
        }
        self.counters.accepted += 1;
        Some((number, nonce))
    }

    fn on_retry(&mut self, now: Time, retry: &Retry, bytes: &[u8]) {
        let Some((number, _)) = self.answered_hello(retry.to, bytes) else { return };
        let Some(Peer { state: State::Connecting(connecting), .. }) = self.peers.at_mut(number)
        else {
            return;
        };
        // A later cookie is used in the next regular `Hello`, so replayed `Retry`s do not cause
        // extra ones.
        let is_first = connecting.cookie == [0; 32];
        connecting.cookie = retry.cookie;
        if is_first {
            connecting.tries = 0;
            self.send_hello(now, number);
        }
    }

    fn on_accept(&mut self, now: Time, held: Span, accept: &Accept, bytes: &[u8]) {
        let Some((number, nonce)) = self.answered_hello(accept.to, bytes) else { return };
        let [ours, theirs] = self.config.key.session(&nonce, &accept.nonce);
        let session = Session::new(ours, theirs);
        let open = Open::new(session, accept.id, nonce, accept.limit, self.room());
        let Some(peer) = self.peers.at_mut(number) else { return };
        // The peer keeps the address of the `Hello`: only encrypted packets can change it.
        peer.state = State::Open(Box::new(open));
        peer.received_at = now;
        // The `Accept` proves that the peer has this session: messages may follow the probe.
        self.probe(now, number);
        if let Some(name) = self.peers.name(number) {
            self.opened(now, name, self.round_trip(accept.sent_at, now, held));
        }
    }

    /// Bytes that a peer may send before the application consumes any.
    fn room(&self) -> u64 {
        self.config.limits.unread_bytes
    }

    fn on_refuse(&mut self, from: SocketAddr, refuse: &Refuse, bytes: &[u8]) {
        if refuse.reason == reason::VERSION {
            return self.note_version(from, refuse.instead as u8);
        }
        let Some((number, _)) = self.answered_hello(refuse.to, bytes) else { return };
        let why = match refuse.reason {
            reason::PROTOCOL => CloseReason::OtherProtocol,
            reason::PARAMETERS => CloseReason::OtherParameters,
            reason::PAYLOAD => CloseReason::OtherPayload { theirs: refuse.instead },
            reason::FULL => CloseReason::Full,
            _ => CloseReason::Violation,
        };
        self.remove_peer(number, why);
    }

    /// Handles an established session, with the RTT of its handshake, if known.
    fn opened(&mut self, now: Time, name: PeerId, rtt: Option<Span>) {
        self.events.push_back(Event::Opened(name));
        if let Some(rtt) = rtt {
            self.on_rtt(now, name.number, rtt);
        }
        self.submit_to(now, name.number);
    }

    /// Reports to a sender that its session is unknown here.
    pub(super) fn reset(&mut self, from: SocketAddr, of: u64, bytes: usize) {
        self.counters.unknown_session += 1;
        if bytes >= Reset::BYTES {
            let reset = Reset { of, token: [0; 16] };
            self.post(from, proved(&self.config.key, reset, &[]));
        }
    }

    /// Handles the report that a peer does not know a session. An attacker can provoke such reports
    /// from other hosts, so the peer is pinged; the session ends only if it does not answer.
    fn on_reset(&mut self, now: Time, from: SocketAddr, reset: &Reset, bytes: &[u8]) {
        if !proves(&self.config.key, bytes, &[]) {
            self.counters.forged += 1;
            return;
        }
        let suspect = self.peers.iter_mut().find_map(|(number, peer)| match &mut peer.state {
            State::Open(open)
                if open.theirs == reset.of && peer.address == from && open.is_established() =>
            {
                let is_first = open.reset_pings == 0;
                open.reset_pings = open.reset_pings.max(1);
                Some((number, is_first))
            }
            _ => None,
        });
        match suspect {
            Some((number, true)) => self.ping_after_reset(now, number),
            Some((_, false)) => {}
            None => self.counters.unknown_session += 1,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn nonce(number: usize) -> [u8; 32] {
        let mut nonce = [0; 32];
        nonce[..8].copy_from_slice(&number.to_be_bytes());
        nonce
    }

    #[test]
    fn answered_remembers_while_cookie_is_valid() {
        let mut answered = Answered::default();
        answered.insert(Time::s(1), nonce(1));
        answered.insert(Time::s(5), nonce(2));
        let end = Time::s(1) + COOKIE_AGE;
        assert!(answered.contains(end, &nonce(1)) && !answered.contains(end, &nonce(3)));
        // The first is forgotten and its memory is freed.
        assert!(!answered.contains(end + Span::ps(1), &nonce(1)));
        assert!(answered.contains(end + Span::ps(1), &nonce(2)));
        assert_eq!((answered.nonces.len(), answered.order.len()), (1, 1));
        assert!(!answered.contains(Time::s(60), &nonce(2)));
        assert_eq!((answered.nonces.len(), answered.order.len()), (0, 0));
    }

    #[test]
    fn answered_evicts_the_oldest() {
        let mut answered = Answered::default();
        (0..=MOST_OPENED).for_each(|number| answered.insert(Time::s(1), nonce(number)));
        assert_eq!((answered.nonces.len(), answered.order.len()), (MOST_OPENED, MOST_OPENED));
        assert!(!answered.contains(Time::s(1), &nonce(0)));
        assert!(answered.contains(Time::s(1), &nonce(1)));
        assert!(answered.contains(Time::s(1), &nonce(MOST_OPENED)));
    }
}
