//! Timers of peers: repeated requests, requests for room, keep-alive, the end of sessions.

use super::*;
use crate::session::header::control::Close;

/// Number and interval of probes that test whether the path carries full datagrams.
const PROBES: u32 = 12;
const PROBE_INTERVAL: Span = Span::ms(100);
/// Number of RTTs of which the minimum is the base RTT, and the maximum duration of this
/// measurement. Each RTT contains the time until both processes get a core, which is milliseconds
/// on a busy machine; the minimum excludes most of it.
const RTT_SAMPLES: u32 = 8;
const MEASURE_AT_MOST: Span = PROBE_INTERVAL;
/// A half-open session ends if nothing arrives from the peer for this time.
pub(super) const HALF_OPEN_TIMEOUT: Span = PROBE_INTERVAL.times(PROBES as u64);
/// Number and interval of pings to a peer that, by a `Reset`, no longer knows the session.
const RESET_PINGS: u32 = 4;
const RESET_PING_INTERVAL: Span = Span::ms(25);
/// Interval at which a blocked node requests room.
const BLOCKED_INTERVAL: Span = Span::ms(20);
/// Number and interval of `Close` messages.
const CLOSE_REQUESTS: u32 = 5;
const CLOSE_INTERVAL: Span = Span::ms(50);
/// Minimum interval of pings to a new address of a peer.
const ADDRESS_PING_INTERVAL: Span = Span::ms(50);

impl Node {
    /// Creates the transport.
    fn begin(&mut self, rtt: Span) {
        if self.config.base_rtt.is_none() {
            self.config.set_rtt(&mut self.context, rtt);
        }
        self.endpoint = Some(Endpoint::new(&self.config.stack, &self.context));
    }

    /// Whether the RTT to a peer is configured, or was measured as often as is planned. Messages to
    /// the peer wait until then.
    pub fn has_measured(&self, peer: PeerId) -> bool {
        self.peers.get(peer).is_some() && self.is_measured(peer.number)
    }

    fn is_measured(&self, number: u32) -> bool {
        let measured = |peer: &Peer| matches!(&peer.state, State::Open(open) if open.is_measured);
        self.config.base_rtt.is_some() || self.peers.at(number).is_some_and(measured)
    }

    /// Measures the RTT to a peer again, or ends the measurement.
    fn measure(&mut self, now: Time, number: u32) {
        let Some(Peer { state: State::Open(open), due, .. }) = self.peers.at_mut(number) else {
            return;
        };
        open.samples += 1;
        if open.samples < RTT_SAMPLES && now < open.measure_until && self.config.base_rtt.is_none()
        {
            *due = open.measure_until;
            self.timer = self.timer.min(*due);
            self.send_ping(now, number, true);
        } else {
            self.end_measurement(now, number);
        }
    }

    fn end_measurement(&mut self, now: Time, number: u32) {
        if let Some(Peer { state: State::Open(open), .. }) = self.peers.at_mut(number) {
            open.is_measured = true;
            self.submit_to(now, number);
        }
    }

    /// Submits the waiting messages of a peer to the transport, as far as the peer has room.
    pub(super) fn submit_to(&mut self, now: Time, number: u32) {
        if !self.is_measured(number) {
            return;
        }
        while let Some(peer) = self.peers.at_mut(number)
            && let State::Open(open) = &mut peer.state
            && open.is_established()
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
            } else if open.sent + bytes > open.send_limit {
                peer.due = peer.due.min(now.after(BLOCKED_INTERVAL));
                self.timer = self.timer.min(peer.due);
                return;
            } else {
                open.sent += bytes;
                open.in_flight += 1;
            }
            peer.waiting.pop_front();
            let message = Message { id, dst: number, bytes, dedicated, weight, role };
            let paths =
                Paths { peers: &self.peers, context: &self.context, hops: self.config.hops };
            let handle = endpoint.submit(now, message, &paths);
            self.is_used = true;
            self.outbox.submitted(id, handle);
            self.may_transmit = true;
        }
    }

    /// The time since `since`, less the time that the datagram was held here; `None` if the clock
    /// has leapt meanwhile.
    pub(super) fn round_trip(&self, since: Time, now: Time, held: Span) -> Option<Span> {
        (since >= self.leapt_at).then_some(now.since(since).beyond(held).max(Span::ps(1)))
    }

    /// Handles a measured RTT. The first one creates the transport; a shorter one creates it again
    /// until it is used.
    pub(super) fn on_rtt(&mut self, now: Time, number: u32, rtt: Span) {
        if let Some(peer) = self.peers.at_mut(number) {
            peer.rtt = peer.rtt.min(rtt);
        }
        let is_shorter = self.config.base_rtt.is_none() && rtt < self.context.fabric_base_rtt;
        if self.endpoint.is_none() {
            self.begin(rtt);
            // Messages to all peers may have waited for the transport.
            let all: Vec<u32> = self.peers.iter().map(|(number, _)| number).collect();
            all.into_iter().for_each(|number| self.submit_to(now, number));
        } else if is_shorter && !self.is_used {
            self.begin(rtt);
        }
    }

    /// Handles a packet from a new address of a peer: the node pings that address.
    pub(super) fn on_new_address(&mut self, now: Time, number: u32, to: SocketAddr) {
        let token = self.token();
        let Some(Peer { state: State::Open(open), .. }) = self.peers.at_mut(number) else { return };
        let recent =
            open.new_address.is_some_and(|(_, _, at)| now.since(at) < ADDRESS_PING_INTERVAL);
        if !recent {
            open.new_address = Some((to, token, now));
            self.send_control_to(now, number, to, ControlMessage::Ping(Ping { token }), 0);
        }
    }

    fn token(&mut self) -> u64 {
        let mut bytes = [0; 8];
        (self.entropy)(&mut bytes);
        u64::from_be_bytes(bytes)
    }

    /// Pings a peer.
    pub(super) fn ping(&mut self, now: Time, number: u32) {
        self.send_ping(now, number, false);
    }

    /// Handles an authenticated packet of a peer from an address.
    pub(super) fn on_authentic(
        &mut self,
        now: Time,
        number: u32,
        from: SocketAddr,
        is_newest: bool,
    ) {
        self.counters.accepted += 1;
        let Some(peer) = self.peers.at_mut(number) else { return };
        let State::Open(open) = &mut peer.state else { return };
        let is_first = !open.is_established();
        peer.received_at = now;
        open.reset_pings = 0;
        open.accept = None;
        let address = peer.address;
        if is_first {
            self.probe(now, number);
            self.submit_to(now, number);
            // A host that opens a session may have been restarted: ping it in its other sessions.
            let others = self.peers.iter_mut().filter(|(_, peer)| peer.address == address);
            let others = others.filter_map(|(other, peer)| peer.established().map(|_| other));
            let others: Vec<u32> = others.filter(|&other| other != number).collect();
            others.into_iter().for_each(|other| self.ping(now, other));
        }
        if is_newest && address != from {
            self.on_new_address(now, number, from);
        }
    }

    /// Pings a peer with a full datagram, to test whether the path carries it and to measure the
    /// RTT.
    pub(super) fn probe(&mut self, now: Time, number: u32) {
        if let Some(Peer { state: State::Open(open), due, .. }) = self.peers.at_mut(number) {
            if open.probes == 0 {
                open.measure_until = now.after(MEASURE_AT_MOST);
            }
            open.probes += 1;
            *due = now.after(PROBE_INTERVAL);
            self.timer = self.timer.min(*due);
            self.send_ping(now, number, true);
        }
    }

    fn send_ping(&mut self, now: Time, number: u32, full: bool) {
        let token = self.token();
        let Some(Peer { state: State::Open(open), .. }) = self.peers.at_mut(number) else { return };
        // The lowest bit marks a full ping.
        let token = token >> 1 << 1 | u64::from(full);
        open.pinged = Some((token, now));
        let ping = ControlMessage::Ping(Ping { token });
        let padding = if full { self.padding(&ping) } else { 0 };
        self.send_control(now, number, ping, padding);
    }

    /// Pings a peer that, by a `Reset`, no longer knows the session.
    pub(super) fn ping_after_reset(&mut self, now: Time, number: u32) {
        if let Some(peer) = self.peers.at_mut(number) {
            peer.due = now.after(RESET_PING_INTERVAL);
            self.timer = self.timer.min(peer.due);
            self.ping(now, number);
        }
    }

    /// Handles a control message of a peer.
    pub(super) fn on_message(
        &mut self,
        now: Time,
        held: Span,
        number: u32,
        from: SocketAddr,
        message: ControlMessage,
    ) {
        let Some(peer) = self.peers.at_mut(number) else { return };
        let State::Open(open) = &mut peer.state else { return };
        match message {
            ControlMessage::Limit(Limit { bytes }) => {
                open.send_limit = open.send_limit.max(bytes);
                self.submit_to(now, number);
            }
            ControlMessage::Blocked(_) => {
                // Without a request, the limit is sent only when it has grown enough.
                open.limit = open.limit.max(open.consumed + self.config.limits.unread_bytes);
                let bytes = open.limit;
                self.send_control(now, number, ControlMessage::Limit(Limit { bytes }), 0);
            }
            ControlMessage::Ping(Ping { token }) => {
                self.send_control_to(now, number, from, ControlMessage::Pong(Pong { token }), 0);
            }
            ControlMessage::Pong(Pong { token }) => {
                if let Some((at, pinged, _)) = open.new_address
                    && token == pinged
                    && at == from
                {
                    peer.address = from;
                    open.new_address = None;
                }
                if let Some((pinged, at)) = open.pinged
                    && pinged == token
                {
                    open.pinged = None;
                    let is_full = token & 1 == 1;
                    open.carries_full |= is_full;
                    // A short ping returns faster than a full packet.
                    if is_full {
                        let rtt = self.round_trip(at, now, held);
                        rtt.into_iter().for_each(|rtt| self.on_rtt(now, number, rtt));
                        if !self.is_measured(number) {
                            self.measure(now, number);
                        }
                    }
                }
            }
            ControlMessage::Close(Close { answer: false, .. }) => {
                self.send_control(
                    now,
                    number,
                    ControlMessage::Close(Close { answer: true, reason: 0 }),
                    0,
                );
                self.remove_peer(number, CloseReason::ClosedByPeer);
            }
            ControlMessage::Close(Close { answer: true, .. }) => {
                if open.end_requests > 0 {
                    self.remove_peer(number, CloseReason::Closed);
                }
            }
        }
    }

    /// Handles the expired deadlines of peers, and sets the next one.
    pub(super) fn handle_timers(&mut self, now: Time) {
        self.timer = Time::NEVER;
        let due: Vec<u32> =
            self.peers.iter().filter(|(_, peer)| peer.due <= now).map(|(n, _)| n).collect();
        for number in due {
            self.handle_timer(now, number);
        }
        let dues = self.peers.iter().map(|(_, peer)| peer.due);
        self.timer = dues.fold(self.timer, Time::min);
    }

    fn handle_timer(&mut self, now: Time, number: u32) {
        let silence = self.config.limits.silence;
        let Some(peer) = self.peers.at_mut(number) else { return };
        let silent = now.since(peer.received_at);
        let open = match &mut peer.state {
            State::Connecting(connecting) if silent >= silence => {
                let why = connecting.unproven_reason.unwrap_or(CloseReason::Silent);
                return self.remove_peer(number, why);
            }
            State::Connecting(_) if peer.closing => {
                return self.remove_peer(number, CloseReason::Closed);
            }
            State::Connecting(_) => return self.send_hello(now, number),
            State::Open(open) => open,
        };
        if silent >= silence {
            return self.remove_peer(number, CloseReason::Silent);
        }
        peer.due = peer.received_at.after(silence).min(now.after(silence.scale(0.25)));
        if open.reset_pings > 0 {
            if open.reset_pings >= RESET_PINGS {
                let ends = peer.closing && peer.waiting.is_empty() && open.in_flight == 0;
                return self.remove_peer(
                    number,
                    if ends { CloseReason::Closed } else { CloseReason::Restarted },
                );
            }
            open.reset_pings += 1;
            return self.ping_after_reset(now, number);
        }
        if !open.carries_full {
            if !open.is_established() {
                if silent >= HALF_OPEN_TIMEOUT {
                    return self.remove_peer(number, CloseReason::Silent);
                }
                peer.due = peer.received_at.after(HALF_OPEN_TIMEOUT);
                return;
            }
            // The peer answers, but full datagrams do not return.
            if open.probes >= PROBES {
                let datagram = self.config.datagram;
                return self.remove_peer(number, CloseReason::TooLong { datagram });
            }
            return self.probe(now, number);
        }
        if !open.is_measured {
            self.end_measurement(now, number);
        }
        let Some(peer) = self.peers.at_mut(number) else { return };
        let State::Open(open) = &mut peer.state else { return };
        if peer.closing && peer.waiting.is_empty() && open.in_flight == 0 {
            if open.end_requests >= CLOSE_REQUESTS {
                return self.remove_peer(number, CloseReason::Closed);
            }
            open.end_requests += 1;
            peer.due = now.after(CLOSE_INTERVAL);
            return self.send_control(
                now,
                number,
                ControlMessage::Close(Close { answer: false, reason: 0 }),
                0,
            );
        }
        let blocked = peer.waiting.front().and_then(|&id| self.outbox.get(id));
        if blocked.is_some_and(|message| open.sent + message.bytes() > open.send_limit) {
            peer.due = now.after(BLOCKED_INTERVAL);
            let bytes = open.send_limit;
            return self.send_control(now, number, ControlMessage::Blocked(Blocked { bytes }), 0);
        }
        if silent >= silence.scale(0.25) {
            self.send_ping(now, number, true);
        }
    }

    /// Removes a peer: the transport forgets it, and its messages are reported as failed.
    pub(super) fn remove_peer(&mut self, number: u32, why: CloseReason) {
        let Some(name) = self.peers.name(number) else { return };
        if self.peers.remove(number).is_none() {
            return;
        }
        if let Some(endpoint) = &mut self.endpoint {
            endpoint.forget(self.now, number);
            self.may_transmit = true;
        }
        for id in self.outbox.to(number) {
            if let Some(message) = self.outbox.remove(id) {
                self.events.push_back(Event::Failed(message.ticket, why));
            }
        }
        self.events.push_back(Event::Closed(name, why));
    }
}
