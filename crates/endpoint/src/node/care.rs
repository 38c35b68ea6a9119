//! What peers want with time: questions asked again, room, signs of life, an end.

use super::*;
use crate::session::header::control::Close;

/// A path is asked whether it carries full datagrams so often, so long apart.
const PROBES: u32 = 12;
const PROBE_AGAIN: Span = Span::ms(100);
/// Who was given a session and says nothing for so long is not there.
pub(super) const UNHEARD: Span = PROBE_AGAIN.times(PROBES as u64);
/// A peer that is said to have forgotten us is asked so often whether that is so.
const DOUBTS: u32 = 4;
const DOUBT_AGAIN: Span = Span::ms(25);
/// Who has no room asks for it after so long.
const ROOM_AGAIN: Span = Span::ms(20);
/// An end is announced so often, so long apart.
const ENDS: u32 = 5;
const END_AGAIN: Span = Span::ms(50);
/// An address that a peer may have moved to is asked at most so often.
const MOVE_AGAIN: Span = Span::ms(50);

impl Node {
    /// Makes the transport.
    fn begin(&mut self, rtt: Span) {
        if self.config.base_rtt.is_none() {
            self.config.tell_rtt(&mut self.context, rtt);
        }
        self.endpoint = Some(Endpoint::new(&self.config.stack, &self.context));
    }

    /// Gives the transport what waits for that peer, as far as there is room.
    pub(super) fn submit_to(&mut self, now: Time, number: u32) {
        while let Some(peer) = self.peers.at_mut(number)
            && let State::Open(open) = &mut peer.state
            && open.is_heard()
            && let Some(endpoint) = &mut self.endpoint
            && let Some(&id) = peer.waiting.front()
        {
            let Some(message) = self.outbox.get(id) else {
                peer.waiting.pop_front();
                continue;
            };
            let Terms { role, weight, dedicated, endless } = message.terms;
            let mut bytes = message.bytes();
            if endless {
                bytes = Message::UNLIMITED;
            } else if open.sent + bytes > open.may_send {
                peer.due = peer.due.min(now.after(ROOM_AGAIN));
                self.timer = self.timer.min(peer.due);
                return;
            } else {
                open.sent += bytes;
                open.under_way += 1;
            }
            peer.waiting.pop_front();
            let message = Message { id, dst: number, bytes, dedicated, weight, role };
            let paths =
                Paths { peers: &self.peers, context: &self.context, hops: self.config.hops };
            let handle = endpoint.submit(now, message, &paths);
            self.outbox.submitted(id, handle);
            self.unasked = true;
        }
    }

    /// How long something took that began at `since`, less what it was held here; unknown where the
    /// clock has leapt meanwhile.
    pub(super) fn round_trip(&self, since: Time, now: Time, held: Span) -> Option<Span> {
        (since >= self.leapt_at).then_some(now.since(since).beyond(held).max(Span::ps(1)))
    }

    /// A round trip was seen. The first tells the transport what to expect of the network.
    pub(super) fn saw_rtt(&mut self, now: Time, number: u32, rtt: Span) {
        if let Some(peer) = self.peers.at_mut(number) {
            peer.rtt = peer.rtt.min(rtt);
        }
        if self.endpoint.is_none() {
            self.begin(rtt);
            // Others may have waited for it, too.
            let all: Vec<u32> = self.peers.iter().map(|(number, _)| number).collect();
            all.into_iter().for_each(|number| self.submit_to(now, number));
        }
    }

    /// A packet came from an address that is not the peer's: it is asked there.
    pub(super) fn moved(&mut self, now: Time, number: u32, to: SocketAddr) {
        let token = self.token();
        let Some(Peer { state: State::Open(open), .. }) = self.peers.at_mut(number) else { return };
        let recent = open.moved.is_some_and(|(_, _, at)| now.since(at) < MOVE_AGAIN);
        if !recent {
            open.moved = Some((to, token, now));
            self.tell_at(now, number, to, ControlMessage::Ping(Ping { token }), 0);
        }
    }

    fn token(&mut self) -> u64 {
        let mut bytes = [0; 8];
        (self.entropy)(&mut bytes);
        u64::from_be_bytes(bytes)
    }

    /// Asks the peer whether it is there.
    pub(super) fn ping(&mut self, now: Time, number: u32) {
        self.ask_whether(now, number, false);
    }

    /// A sealed packet has come from the peer at that address.
    pub(super) fn heard(&mut self, now: Time, number: u32, from: SocketAddr, is_newest: bool) {
        self.counters.taken += 1;
        let Some(peer) = self.peers.at_mut(number) else { return };
        let State::Open(open) = &mut peer.state else { return };
        let is_first = !open.is_heard();
        peer.heard_at = now;
        open.doubts = 0;
        open.accept = None;
        let address = peer.address;
        if is_first {
            self.probe(now, number);
            self.submit_to(now, number);
            // A host that begins a session may have forgotten those before: it is pinged in each.
            let others = self.peers.iter_mut().filter(|(_, peer)| peer.address == address);
            let others = others.filter_map(|(other, peer)| peer.heard().map(|_| other));
            let others: Vec<u32> = others.filter(|&other| other != number).collect();
            others.into_iter().for_each(|other| self.ping(now, other));
        }
        if is_newest && address != from {
            self.moved(now, number, from);
        }
    }

    /// Asks the peer with a full datagram: whether the path carries it, and how long that takes, if
    /// nothing else has told.
    pub(super) fn probe(&mut self, now: Time, number: u32) {
        if let Some(Peer { state: State::Open(open), due, .. }) = self.peers.at_mut(number) {
            open.probes += 1;
            *due = now.after(PROBE_AGAIN);
            self.timer = self.timer.min(*due);
            self.ask_whether(now, number, true);
        }
    }

    fn ask_whether(&mut self, now: Time, number: u32, full: bool) {
        let token = self.token();
        let Some(Peer { state: State::Open(open), .. }) = self.peers.at_mut(number) else { return };
        // The lowest bit tells a full one from others.
        let token = token >> 1 << 1 | u64::from(full);
        open.pinged = Some((token, now));
        let told = ControlMessage::Ping(Ping { token });
        let padding = if full { self.padding(&told) } else { 0 };
        self.tell(now, number, told, padding);
    }

    /// Somebody says that the peer has forgotten us.
    pub(super) fn doubt(&mut self, now: Time, number: u32) {
        if let Some(peer) = self.peers.at_mut(number) {
            peer.due = now.after(DOUBT_AGAIN);
            self.timer = self.timer.min(peer.due);
            self.ping(now, number);
        }
    }

    /// What a peer has told.
    pub(super) fn on_told(
        &mut self,
        now: Time,
        held: Span,
        number: u32,
        from: SocketAddr,
        told: ControlMessage,
    ) {
        let Some(peer) = self.peers.at_mut(number) else { return };
        let State::Open(open) = &mut peer.state else { return };
        match told {
            ControlMessage::Limit(Limit { bytes }) => {
                open.may_send = open.may_send.max(bytes);
                self.submit_to(now, number);
            }
            ControlMessage::Blocked(_) => {
                // Room is told only when it is worth a packet, unless somebody waits for it.
                open.limit = open.limit.max(open.taken + self.config.limits.unread_bytes);
                let bytes = open.limit;
                self.tell(now, number, ControlMessage::Limit(Limit { bytes }), 0);
            }
            ControlMessage::Ping(Ping { token }) => {
                self.tell_at(now, number, from, ControlMessage::Pong(Pong { token }), 0);
            }
            ControlMessage::Pong(Pong { token }) => {
                if let Some((at, asked, _)) = open.moved
                    && token == asked
                    && at == from
                {
                    peer.address = from;
                    open.moved = None;
                }
                if let Some((asked, at)) = open.pinged
                    && asked == token
                {
                    open.pinged = None;
                    let is_full = token & 1 == 1;
                    open.carries |= is_full;
                    // Others are back sooner than a packet can be.
                    if is_full && let Some(rtt) = self.round_trip(at, now, held) {
                        self.saw_rtt(now, number, rtt);
                    }
                }
            }
            ControlMessage::Close(Close { answer: false, .. }) => {
                self.tell(now, number, ControlMessage::Close(Close { answer: true, reason: 0 }), 0);
                self.part(number, Gone::ClosedByPeer);
            }
            ControlMessage::Close(Close { answer: true, .. }) => {
                if open.asked_to_end > 0 {
                    self.part(number, Gone::Closed);
                }
            }
        }
    }

    /// Sees to all peers that want something by now, and finds out when the next does.
    pub(super) fn care(&mut self, now: Time) {
        self.timer = Time::NEVER;
        let due: Vec<u32> =
            self.peers.iter().filter(|(_, peer)| peer.due <= now).map(|(n, _)| n).collect();
        for number in due {
            self.see_to(now, number);
        }
        let dues = self.peers.iter().map(|(_, peer)| peer.due);
        self.timer = dues.fold(self.timer, Time::min);
    }

    fn see_to(&mut self, now: Time, number: u32) {
        let silence = self.config.limits.silence;
        let Some(peer) = self.peers.at_mut(number) else { return };
        let silent = now.since(peer.heard_at);
        let open = match &mut peer.state {
            State::Asking(asking) if silent >= silence => {
                let why = asking.rumour.unwrap_or(Gone::Silent);
                return self.part(number, why);
            }
            State::Asking(_) if peer.closing => return self.part(number, Gone::Closed),
            State::Asking(_) => return self.ask(now, number),
            State::Open(open) => open,
        };
        if silent >= silence {
            return self.part(number, Gone::Silent);
        }
        peer.due = peer.heard_at.after(silence).min(now.after(silence.scale(0.25)));
        if open.doubts > 0 {
            if open.doubts >= DOUBTS {
                let ends = peer.closing && peer.waiting.is_empty() && open.under_way == 0;
                return self.part(number, if ends { Gone::Closed } else { Gone::Restarted });
            }
            open.doubts += 1;
            return self.doubt(now, number);
        }
        if !open.carries {
            if !open.is_heard() {
                if silent >= UNHEARD {
                    return self.part(number, Gone::Silent);
                }
                peer.due = peer.heard_at.after(UNHEARD);
                return;
            }
            // Only where the peer is there, but full datagrams do not come back.
            if open.probes >= PROBES {
                let datagram = self.config.datagram;
                return self.part(number, Gone::TooLong { datagram });
            }
            return self.probe(now, number);
        }
        if peer.closing && peer.waiting.is_empty() && open.under_way == 0 {
            if open.asked_to_end >= ENDS {
                return self.part(number, Gone::Closed);
            }
            open.asked_to_end += 1;
            peer.due = now.after(END_AGAIN);
            return self.tell(
                now,
                number,
                ControlMessage::Close(Close { answer: false, reason: 0 }),
                0,
            );
        }
        let blocked = peer.waiting.front().and_then(|&id| self.outbox.get(id));
        if blocked.is_some_and(|message| open.sent + message.bytes() > open.may_send) {
            peer.due = now.after(ROOM_AGAIN);
            let bytes = open.may_send;
            return self.tell(now, number, ControlMessage::Blocked(Blocked { bytes }), 0);
        }
        if silent >= silence.scale(0.25) {
            self.ask_whether(now, number, true);
        }
    }

    /// A peer is gone: the transport forgets it, and who has sent to it is told.
    pub(super) fn part(&mut self, number: u32, why: Gone) {
        let Some(name) = self.peers.name(number) else { return };
        if self.peers.remove(number).is_none() {
            return;
        }
        if let Some(endpoint) = &mut self.endpoint {
            endpoint.forget(self.now, number);
            self.unasked = true;
        }
        for id in self.outbox.to(number) {
            if let Some(message) = self.outbox.remove(id) {
                self.events.push_back(Event::Failed(message.ticket, why));
            }
        }
        self.events.push_back(Event::Gone(name, why));
    }
}
