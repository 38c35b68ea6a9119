//! Converts packets of the transport to datagrams, and back.

use super::*;
use crate::session::OVERHEAD_BYTES;

/// ECN codepoint in the lower two bits of the type of service: ECN-capable (ECT(0)).
const CAPABLE: u8 = 0b10;
/// ECN codepoint: congestion experienced (CE).
const MARKED: u8 = 0b11;
/// The three bits of the DSCP below the class selector, in trimmed datagrams.
const TRIMMED: u8 = 0b111;
/// Length of the trailer with simulated size and path entropy.
const TRAILER_BYTES: usize = 2 + 4;

/// Lengths of the peak field and of the hop records at the beginning of a datagram.
fn telemetry_bytes(packet: &Packet) -> (usize, usize) {
    let peak = packet.frame.flags & frame_flag::STAMP_PEAK != 0;
    let stamps = packet.frame.flags & frame_flag::STAMP_HOPS != 0;
    let records = packet.hops.as_slice().len();
    let hops = START_BYTES + records * Hop::FIELD_BYTES;
    (if peak { START_BYTES + 8 } else { 0 }, if stamps || records > 0 { hops } else { 0 })
}

/// Sets the associated data of the AEAD: all headers except telemetry, which switches write. Of the
/// telemetry only its presence is authenticated.
pub(super) fn write_aad(aad: &mut Vec<u8>, packet: &Packet, headers: &[u8]) {
    let (peak, hops) = telemetry_bytes(packet);
    let stamps = packet.frame.flags & frame_flag::STAMP_HOPS != 0;
    let from = if stamps { peak + hops } else { peak };
    aad.clear();
    aad.push(u8::from(peak > 0) | u8::from(stamps) << 1);
    aad.extend_from_slice(headers.get(from..).unwrap_or_default());
}

impl Node {
    /// Processes a datagram from the network.
    pub fn receive(&mut self, now: Time, arrival: Arrival<'_>) {
        let now = self.clock(now);
        let Arrival { from, tos, held, bytes } = arrival;
        let mut bytes = bytes;
        let mut entropy = 0;
        if self.config.sizes == Sizes::Simulated {
            let Some((rest, &mut [_, _, ref of_path @ ..])) =
                bytes.split_last_chunk_mut::<TRAILER_BYTES>()
            else {
                self.counters.malformed += 1;
                return;
            };
            (bytes, entropy) = (rest, u32::from_be_bytes(*of_path));
        }
        match bytes.get(1) {
            Some(kind) if OF_SESSIONS.contains(kind) => match Header::parse(bytes) {
                Ok((Header::Control(control), _)) => {
                    self.on_control(now, held, from, control, bytes)
                }
                // The padding of a `Hello` is ignored.
                Ok((header, rest)) if rest.is_empty() || matches!(header, Header::Hello(_)) => {
                    self.on_header(now, held, from, header, &bytes[..header.bytes()]);
                }
                Err(HeaderError::Version { found, .. }) => {
                    self.on_other_version(from, found, bytes);
                }
                _ => self.counters.malformed += 1,
            },
            Some(_) => {
                let arrival = Arrival { from, tos, held, bytes };
                self.on_packet(now, entropy, arrival);
            }
            None => self.counters.malformed += 1,
        }
    }

    /// Processes a packet of a transport.
    fn on_packet(&mut self, now: Time, entropy: u32, arrival: Arrival<'_>) {
        let Arrival { from, tos, held, bytes } = arrival;
        let mut packet = Packet::default();
        let parsed = self.protocol.parse(bytes, packet.as_mut());
        let session = parsed.ok().and_then(|at| Some((at, PacketHeader::parse(&bytes[at..])?)));
        let Some((at, header)) = session else {
            self.counters.malformed += 1;
            return;
        };
        let Some((number, peer)) = self.peers.by_session(header.to) else {
            self.reset(from, header.to, bytes.len());
            return;
        };
        let State::Open(open) = &mut peer.state else {
            self.counters.unknown_session += 1;
            return;
        };
        let (headers, sealed) = bytes.split_at_mut(at + header.bytes);
        let trimmed = header.mac.filter(|_| tos >> 2 & TRIMMED == TRIMMED);
        let opened = match trimmed {
            // Bytes that the switch has left of the payload are ignored.
            Some(mac) => {
                write_aad(&mut self.aad, &packet, &headers[..headers.len() - TAG_BYTES]);
                open.session.open_trimmed(header.number, &self.aad, mac)
            }
            None => {
                write_aad(&mut self.aad, &packet, headers);
                open.session.open(header.number, &self.aad, sealed)
            }
        };
        let payload = match opened {
            Opened::Fresh(payload, is_newest) => {
                self.on_authentic(now, number, from, is_newest);
                &*payload
            }
            Opened::Old => return self.counters.old += 1,
            Opened::Forged => return self.counters.forged += 1,
        };
        self.counters.trimmed += u64::from(trimmed.is_some());
        if tos & MARKED == MARKED {
            self.counters.marked += 1;
            packet.frame.flags |= frame_flag::CONGESTION_EXPERIENCED;
        }
        if tos & MARKED != 0 {
            packet.frame.flags |= frame_flag::ECN_CAPABLE;
        }
        packet.frame.dst = SELF;
        packet.frame.entropy = header.entropy.unwrap_or(entropy);
        packet.frame.priority = self.priority(tos);
        packet.body.src = number;
        packet.body.payload_bytes = payload.len() as u32;
        // The RTT excludes the time that packets are held between kernel and node, on both hosts.
        if packet.body.sent_at != Time::ZERO {
            packet.body.sent_at = packet.body.sent_at.after(held);
        }
        let Some(endpoint) = &mut self.endpoint else { return };
        self.is_used = true;
        let mut reports = Reports {
            peers: &mut self.peers,
            outbox: &mut self.outbox,
            spare: &mut self.spare,
            events: &mut self.events,
            payload,
            delivery: self.config.delivery,
            violation: None,
        };
        endpoint.receive(now, packet, &mut reports);
        self.may_transmit = true;
        if let Some(number) = reports.violation {
            self.remove_peer(number, CloseReason::Violation);
        }
        if let Some(peer) = self.peers.at(number) {
            self.timer = self.timer.min(peer.due);
        }
    }

    /// Writes the next datagram to `out`, if the uplink is free and there is one. `out` must have
    /// room for the longest.
    pub fn transmit(&mut self, now: Time, out: &mut [u8]) -> Option<Departure> {
        let now = self.clock(now);
        if let Some((to, bytes)) = self.waiting.pop_front() {
            let room = out.get_mut(..bytes.len())?;
            room.copy_from_slice(&bytes);
            let top = self.tos(0, 0);
            let departure = Departure { to, tos: top, bytes: bytes.len() };
            let wire_bytes = (bytes.len() as u32 + BELOW_BYTES).min(u16::MAX.into());
            return self.append_size(departure, wire_bytes as u16, 0, out);
        }
        loop {
            self.is_full = self.free_at > now.after(self.ahead());
            if self.is_full {
                return None;
            }
            let Some(mut packet) = self.endpoint.as_mut()?.transmit(now) else {
                self.may_transmit = false;
                return None;
            };
            self.may_transmit = true;
            // A packet of a burst leaves when the link is free.
            if packet.body.sent_at == now {
                packet.body.sent_at = self.free_at.max(now);
            }
            let wire = self.context.nic_rate.serialise(packet.frame.wire_bytes.into());
            self.free_at = self.free_at.max(now).after(wire);
            if let Some(departure) = self.emit(&packet, out) {
                if packet.body.is_retransmission && self.config.delivery == Delivery::Pieces {
                    self.note_resent(&packet);
                }
                let (wire_bytes, entropy) = (packet.frame.wire_bytes, packet.frame.entropy);
                return self.append_size(departure, wire_bytes, entropy, out);
            }
        }
    }

    /// Reports a retransmitted part of a message.
    fn note_resent(&mut self, packet: &Packet) {
        if let Some(message) = self.outbox.get(packet.body.message) {
            let resent = Event::Resent(message.ticket, packet.body.payload_bytes);
            self.events.push_back(resent);
        }
    }

    /// Appends the simulated size and the path entropy to a datagram, with [`Sizes::Simulated`].
    fn append_size(
        &self,
        of: Departure,
        wire_bytes: u16,
        entropy: u32,
        out: &mut [u8],
    ) -> Option<Departure> {
        if self.config.sizes == Sizes::Real {
            return Some(of);
        }
        let (size, rest) = out.get_mut(of.bytes..)?.split_first_chunk_mut()?;
        *size = wire_bytes.to_be_bytes();
        *rest.first_chunk_mut()? = entropy.to_be_bytes();
        Some(Departure { bytes: of.bytes + TRAILER_BYTES, ..of })
    }

    /// Writes a packet as a datagram; `None` if its session has ended.
    fn emit(&mut self, packet: &Packet, out: &mut [u8]) -> Option<Departure> {
        let peer = self.peers.at_mut(packet.frame.dst)?;
        let State::Open(open) = &mut peer.state else { return None };
        let Packet { frame, body, hops } = packet;
        let transport = self.protocol.emit(frame, body, hops, out).ok()?;
        let (to, number, entropy) = (open.theirs, open.session.number(), frame.entropy);
        let payload = body.payload_bytes as usize;
        let is_trimmable = self.format == PacketFormat::Trimmable && payload > 0;
        let header = match self.format {
            PacketFormat::Plain => Data { to, number }.into(),
            _ if is_trimmable => Trimmable { to, number, entropy, mac: [0; TAG_BYTES] }.into(),
            _ => Header::from(Multipath { to, number, entropy }),
        };
        let headers = transport + header.emit(out.get_mut(transport..)?).ok()?;
        let bytes = headers + payload + TAG_BYTES;
        let (headers, rest) = out.get_mut(..bytes)?.split_at_mut(headers);
        if payload > 0 {
            let offset = self.protocol.offset(body)?;
            let message = self.outbox.get(body.message)?;
            if !message.copy(offset, &mut rest[..payload]) {
                return None;
            }
        }
        if is_trimmable && let Some((alone, mac)) = headers.split_last_chunk_mut() {
            write_aad(&mut self.aad, packet, alone);
            *mac = open.session.mac(number, &self.aad);
        }
        write_aad(&mut self.aad, packet, headers);
        open.session.seal(number, &self.aad, rest);
        let to = peer.address;
        Some(Departure { to, tos: self.tos(frame.priority, frame.flags), bytes })
    }

    /// Type of service of a packet. The lowest priority is class selector 0 (best effort), the
    /// highest is 7, the others follow downwards. Credits set the two bits below the class
    /// selector.
    fn tos(&self, priority: u8, flags: u8) -> u8 {
        let is_lowest = priority + 1 >= self.config.priorities;
        let class = if is_lowest { 0 } else { 7 - priority.min(7) };
        let credit = if flags & frame_flag::CREDIT != 0 { 0b11 } else { 0 };
        let capable = if flags & frame_flag::ECN_CAPABLE != 0 { CAPABLE } else { 0 };
        class << 5 | credit << 2 | capable
    }

    fn priority(&self, tos: u8) -> u8 {
        let lowest = self.config.priorities.saturating_sub(1);
        match tos >> 5 {
            0 => lowest,
            class => (7 - class).min(lowest),
        }
    }

    /// Processes an encrypted control message.
    fn on_control(
        &mut self,
        now: Time,
        held: Span,
        from: SocketAddr,
        control: Control,
        bytes: &mut [u8],
    ) {
        let Some((number, peer)) = self.peers.by_session(control.to) else {
            self.reset(from, control.to, bytes.len());
            return;
        };
        let State::Open(open) = &mut peer.state else {
            self.counters.unknown_session += 1;
            return;
        };
        let (header, sealed) = bytes.split_at_mut(Control::BYTES);
        let (text, is_newest) = match open.session.open(control.number, header, sealed) {
            Opened::Fresh(text, is_newest) => (text, is_newest),
            Opened::Old => return self.counters.old += 1,
            Opened::Forged => return self.counters.forged += 1,
        };
        self.on_authentic(now, number, from, is_newest);
        match ControlMessage::parse(text) {
            Ok((message, _)) => self.on_message(now, held, number, from, message),
            Err(_) => self.counters.malformed += 1,
        }
    }

    /// Encrypts a control message, followed by `padding` zeros, and sends it to the peer, unless
    /// the session is half-open.
    pub(super) fn send_control(
        &mut self,
        now: Time,
        number: u32,
        message: ControlMessage,
        padding: usize,
    ) {
        let Some(peer) = self.peers.at(number) else { return };
        self.send_control_to(now, number, peer.address, message, padding);
    }

    pub(super) fn send_control_to(
        &mut self,
        _now: Time,
        number: u32,
        to: SocketAddr,
        message: ControlMessage,
        padding: usize,
    ) {
        let Some(open) = self.peers.at_mut(number).and_then(Peer::established) else { return };
        let text = message.bytes() + padding;
        let mut datagram = vec![0; Control::BYTES + text + TAG_BYTES];
        let packet = open.session.number();
        let header = Header::Control(Control { to: open.theirs, number: packet });
        let (head, rest) = datagram.split_at_mut(Control::BYTES);
        // Both buffers have the exact lengths.
        let _ = header.emit(head).and(message.emit(rest));
        open.session.seal(packet, head, rest);
        self.post(to, datagram);
    }

    /// Queues a session datagram.
    pub(super) fn post(&mut self, to: SocketAddr, datagram: Vec<u8>) {
        if self.waiting.len() < MOST_WAITING {
            self.waiting.push_back((to, datagram));
        }
    }

    /// The padding that makes a control message a full datagram.
    pub(super) fn padding(&self, message: &ControlMessage) -> usize {
        self.config.datagram.saturating_sub(message.bytes() + OVERHEAD_BYTES)
    }
}
