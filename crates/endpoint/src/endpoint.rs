//! One host's driver.

use std::collections::VecDeque;

use tidegate_algos::{AnyTransport, Stack};
use tidegate_core::{
    Application, Body, Frame, Handle, HopTrace, HostContext, Message, PacketMut, PathOracle, Reply,
    Time, Transmit, Transport,
};

/// Replies that wait for the uplink, at most: what is more is lost, as it may be anywhere. Peers
/// that keep to what they are told have far fewer packets under way, and a peer that does not could
/// else fill the memory while the uplink stands still.
const MOST_REPLIES: usize = 1 << 16;

/// A packet in memory of its own.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Packet {
    /// What the fabric reads.
    pub frame: Frame,
    /// The transport header.
    pub body: Body,
    /// Telemetry.
    pub hops: HopTrace,
}

impl Packet {
    /// As transports take it.
    pub fn as_mut(&mut self) -> PacketMut<'_> {
        PacketMut { frame: &mut self.frame, body: &mut self.body, hops: &mut self.hops }
    }
}

/// A transport and what a driver keeps for it. `now` never decreases from call to call.
pub struct Endpoint {
    transport: AnyTransport,
    replies: VecDeque<Packet>,
    blank: Packet,
}

impl Endpoint {
    /// The endpoint of one host.
    pub fn new(stack: &Stack, host: &HostContext) -> Endpoint {
        Endpoint {
            transport: stack.transport(host),
            replies: VecDeque::new(),
            blank: Packet::default(),
        }
    }

    /// Takes a message.
    pub fn submit(&mut self, now: Time, message: Message, paths: &dyn PathOracle) -> Handle {
        self.transport.submit(now, message, paths)
    }

    /// Ends an unlimited message: nothing new is sent of it.
    pub fn stop(&mut self, now: Time, handle: Handle) {
        self.transport.stop(now, handle);
    }

    /// Takes a packet from the wire.
    pub fn receive(&mut self, now: Time, mut packet: Packet, app: &mut impl Application) {
        let reply = self.transport.receive(now, packet.as_mut(), app);
        if reply != Reply::None && self.replies.len() < MOST_REPLIES {
            self.replies.push_back(packet);
        }
    }

    /// The uplink is free: the packet to send now, if there is one. Replies first.
    pub fn transmit(&mut self, now: Time) -> Option<Packet> {
        if let Some(reply) = self.replies.pop_front() {
            return Some(reply);
        }
        match self.transport.transmit(now, self.blank.as_mut()) {
            Transmit::Sent => {
                self.blank.body.transport = 0;
                Some(self.blank)
            }
            Transmit::Idle => None,
        }
    }

    /// The uplink takes as many packets as `packets` has places: fills the first of them, replies
    /// first; how many.
    pub fn transmit_batch(&mut self, now: Time, packets: &mut [Packet]) -> usize {
        let replies = self.replies.len().min(packets.len());
        let (first, rest) = packets.split_at_mut(replies);
        first.iter_mut().zip(self.replies.drain(..replies)).for_each(|(to, reply)| *to = reply);
        let sent = self.transport.transmit_batch(now, rest.iter_mut().map(Packet::as_mut));
        rest[..sent].iter_mut().for_each(|packet| packet.body.transport = 0);
        replies + sent
    }

    /// The peer is gone: drops what waits for it, and has the transport forget it.
    pub fn forget(&mut self, now: Time, peer: u32) {
        self.replies.retain(|reply| reply.frame.dst != peer);
        self.transport.forget(now, peer);
    }

    /// When [`on_deadline`](Self::on_deadline) is due or, while the uplink is free,
    /// [`transmit`](Self::transmit) should be tried again.
    pub fn deadline(&self) -> Time {
        self.transport.deadline()
    }

    /// The deadline has come.
    pub fn on_deadline(&mut self, now: Time, app: &mut impl Application) {
        self.transport.on_deadline(now, app);
    }
}
