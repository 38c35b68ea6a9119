//! A malicious peer that has the key.

use std::collections::VecDeque;

use tidegate_algos::Protocol;
use tidegate_core::Time;
use tidegate_core::wire::Header as _;

use super::super::handshake::proved;
use super::super::traffic::write_aad;
use super::{NODE, REMEMBERED, address, key, node};
use crate::endpoint::Packet;
use crate::script::Script;
use crate::session::header::control::{Blocked, Close, ControlMessage, Limit, Ping, Pong};
use crate::session::header::{
    Accept, Control, Data, Header, Hello, Multipath, Refuse, Reset, Retry, Trimmable,
};
use crate::session::keys::TAG_BYTES;
use crate::session::{Opened, Session};

/// The malicious peer.
pub(super) struct Intruder {
    protocol: Protocol,
    /// Its own `Hello`.
    pub(super) hello: Hello,
    /// The last `Hello` of the node.
    node_hello: Hello,
    pub(super) session: Option<(Session, u64)>,
    /// The node's last packet.
    pub(super) last: Packet,
    /// The token of the last ping.
    token: u64,
    remembered: VecDeque<Vec<u8>>,
}

impl Intruder {
    pub(super) fn new(protocol: Protocol) -> Intruder {
        let (mut initiator, mut out) = (node(protocol, 3), vec![0; 2_048]);
        let connected = initiator.connect(Time::ms(1), address(NODE));
        let bytes =
            initiator.transmit(Time::ms(1), &mut out).map_or(0, |departure| departure.bytes);
        let Ok((Header::Hello(hello), _)) = Header::parse(&out[..bytes]) else {
            panic!("{connected:?} begins with another header")
        };
        Intruder {
            protocol,
            hello,
            node_hello: hello,
            session: None,
            last: Packet::default(),
            token: 0,
            remembered: VecDeque::new(),
        }
    }

    pub(super) fn remember(&mut self, bytes: &[u8]) {
        self.remembered.push_back(bytes.to_vec());
        if self.remembered.len() > REMEMBERED {
            self.remembered.pop_front();
        }
    }

    /// A replayed datagram, possibly modified.
    pub(super) fn again(&self, script: &mut Script<'_>) -> Option<Vec<u8>> {
        let which = usize::from(script.u8()) % self.remembered.len().max(1);
        let mut bytes = self.remembered.get(which)?.clone();
        let (at, change) = (script.number() as usize, script.u8());
        if !bytes.is_empty() {
            let at = at % bytes.len();
            bytes[at] ^= change;
        }
        Some(bytes)
    }

    /// Evaluates a datagram of the node.
    pub(super) fn observe(&mut self, bytes: &[u8]) {
        self.remember(bytes);
        let mut bytes = bytes.to_vec();
        match Header::parse(&bytes) {
            Ok((Header::Hello(hello), _)) => self.node_hello = hello,
            Ok((Header::Retry(retry), _)) => self.hello.cookie = retry.cookie,
            Ok((Header::Accept(accept), _)) => {
                let [ours, theirs] = key().session(&self.hello.nonce, &accept.nonce);
                self.session = Some((Session::new(ours, theirs), accept.id));
            }
            Ok((Header::Control(control), _)) => {
                let Some((session, _)) = &mut self.session else { return };
                let (header, sealed) = bytes.split_at_mut(Control::BYTES);
                if let Opened::Fresh(text, _) = session.open(control.number, header, sealed)
                    && let Ok((ControlMessage::Ping(Ping { token }), _)) =
                        ControlMessage::parse(text)
                {
                    self.token = token;
                }
            }
            Ok(_) => {}
            Err(_) => {
                let mut packet = Packet::default();
                if self.protocol.parse(&bytes, packet.as_mut()).is_ok() {
                    self.last = packet;
                }
            }
        }
    }

    /// A handshake header with its MAC.
    pub(super) fn handshake(&mut self, script: &mut Script<'_>) -> Vec<u8> {
        let (key, nonce) = (key(), self.node_hello.nonce);
        let to = if script.u8().is_multiple_of(4) { script.number() } else { self.node_hello.id };
        match script.u8() % 6 {
            0 => proved(&key, self.hello, &[]),
            1 => {
                let (id, limit) = (self.hello.id.wrapping_add(script.number()), script.number());
                let sent_at = Time::ps(script.number());
                proved(&key, Hello { id, limit, sent_at, ..self.hello }, &[])
            }
            2 => {
                let cookie = [script.u8(); 32];
                proved(&key, Retry { to, cookie, mac: [0; 16] }, &nonce)
            }
            3 => {
                let [theirs, ours] = key.session(&nonce, &self.hello.nonce);
                let (limit, sent_at) = (script.number(), Time::ps(script.number()));
                let id = script.number();
                self.session = Some((Session::new(ours, theirs), to));
                let nonce_of_ours = self.hello.nonce;
                let accept = Accept { to, id, nonce: nonce_of_ours, limit, sent_at, mac: [0; 16] };
                proved(&key, accept, &nonce)
            }
            4 => {
                let (reason, instead) = (script.number() as u32, script.number());
                proved(&key, Refuse { to, reason, instead, mac: [0; 16] }, &nonce)
            }
            _ => {
                let of =
                    if script.u8().is_multiple_of(2) { self.hello.id } else { script.number() };
                proved(&key, Reset { of, token: [0; 16] }, &[])
            }
        }
    }

    /// An encrypted packet of the transport, with some payload.
    pub(super) fn packet(&mut self, packet: Packet, script: &mut Script<'_>) -> Option<Vec<u8>> {
        let payload = [0, 1, 1_000, 1_400][usize::from(script.u8() % 4)];
        let number = self.number(script)?;
        let (session, theirs) = self.session.as_mut()?;
        let Packet { frame, body, hops } = &packet;
        let mut out = vec![0; 4_096];
        let transport = self.protocol.emit(frame, body, hops, &mut out).ok()?;
        let (to, entropy) = (*theirs, frame.entropy);
        let kind = script.u8() % 3;
        let header = match kind {
            0 => Data { to, number }.into(),
            1 => Multipath { to, number, entropy }.into(),
            _ => Header::from(Trimmable { to, number, entropy, mac: [0; TAG_BYTES] }),
        };
        let headers = transport + header.emit(&mut out[transport..]).ok()?;
        out.resize(headers + payload + TAG_BYTES, 0);
        let (headers, text) = out.split_at_mut(headers);
        let mut aad = Vec::new();
        if kind == 2
            && let Some((alone, mac)) = headers.split_last_chunk_mut()
        {
            write_aad(&mut aad, &packet, alone);
            *mac = session.mac(number, &aad);
        }
        write_aad(&mut aad, &packet, headers);
        session.seal(number, &aad, text);
        Some(out)
    }

    /// An encrypted control message, or arbitrary bytes in its place.
    pub(super) fn scripted(&mut self, script: &mut Script<'_>) -> Option<Vec<u8>> {
        let text = match script.u8() % 8 {
            0 => ControlMessage::Limit(Limit { bytes: script.number() }),
            1 => ControlMessage::Blocked(Blocked { bytes: script.number() }),
            2 => ControlMessage::Ping(Ping { token: script.number() }),
            3 | 4 => ControlMessage::Pong(Pong { token: self.token }),
            5 => ControlMessage::Pong(Pong { token: script.number() }),
            6 => {
                let answer = script.u8().is_multiple_of(2);
                ControlMessage::Close(Close { answer, reason: script.number() as u32 })
            }
            _ => return self.control(script.bytes(40).to_vec(), script),
        };
        let mut bytes = vec![0; text.bytes()];
        text.emit(&mut bytes).ok()?;
        self.control(bytes, script)
    }

    fn control(&mut self, mut text: Vec<u8>, script: &mut Script<'_>) -> Option<Vec<u8>> {
        let number = self.number(script)?;
        let (session, theirs) = self.session.as_mut()?;
        let mut out = vec![0; Control::BYTES];
        Header::Control(Control { to: *theirs, number }).emit(&mut out).ok()?;
        text.resize(text.len() + TAG_BYTES, 0);
        session.seal(number, &out, &mut text);
        out.extend(text);
        Some(out)
    }

    /// The next packet number, or an arbitrary one.
    fn number(&mut self, script: &mut Script<'_>) -> Option<u64> {
        let next = self.session.as_mut()?.0.number();
        let is_any = script.u8() == u8::MAX;
        Some(if is_any { script.number() } else { next })
    }
}
