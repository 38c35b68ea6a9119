//! Drives the transport of one host.

use std::collections::VecDeque;

use tidegate_algos::{AnyTransport, Stack};
use tidegate_core::{
    Application, Body, Frame, Handle, HopTrace, HostContext, Message, PacketMut, PathOracle, Reply,
    Time, Transmit, Transport,
};

/// Maximum number of replies that wait for the uplink; further replies are dropped, which
/// transports treat as loss in the network. A peer that respects its limits has far fewer packets
/// in flight; the bound protects memory against others while the uplink is blocked.
const MOST_REPLIES: usize = 1 << 16;

/// A packet that owns its memory.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Packet {
    /// The fields that the fabric reads.
    pub frame: Frame,
    /// The transport header.
    pub body: Body,
    /// Telemetry.
    pub hops: HopTrace,
}

impl Packet {
    /// The references that transports take.
    pub fn as_mut(&mut self) -> PacketMut<'_> {
        PacketMut { frame: &mut self.frame, body: &mut self.body, hops: &mut self.hops }
    }
}

/// A transport with its queued replies. `now` must not decrease from call to call.
pub struct Endpoint {
    transport: AnyTransport,
    replies: VecDeque<Packet>,
    blank: Packet,
}

impl Endpoint {
    /// Creates the endpoint of one host.
    pub fn new(stack: &Stack, host: &HostContext) -> Endpoint {
        Endpoint {
            transport: stack.transport(host),
            replies: VecDeque::new(),
            blank: Packet::default(),
        }
    }

    /// Submits a message to the transport.
    pub fn submit(&mut self, now: Time, message: Message, paths: &dyn PathOracle) -> Handle {
        self.transport.submit(now, message, paths)
    }

    /// Ends an unlimited message: no new bytes of it are sent.
    pub fn stop(&mut self, now: Time, handle: Handle) {
        self.transport.stop(now, handle);
    }

    /// Processes a packet from the network.
    pub fn receive(&mut self, now: Time, mut packet: Packet, app: &mut impl Application) {
        let reply = self.transport.receive(now, packet.as_mut(), app);
        if reply != Reply::None && self.replies.len() < MOST_REPLIES {
            self.replies.push_back(packet);
        }
    }

    /// Returns the packet to send now, if any; call it while the uplink is free. Replies precede
    /// data.
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

    /// Fills `packets` with packets to send now, replies first, and returns their number.
    pub fn transmit_batch(&mut self, now: Time, packets: &mut [Packet]) -> usize {
        let replies = self.replies.len().min(packets.len());
        let (first, rest) = packets.split_at_mut(replies);
        first.iter_mut().zip(self.replies.drain(..replies)).for_each(|(to, reply)| *to = reply);
        let sent = self.transport.transmit_batch(now, rest.iter_mut().map(Packet::as_mut));
        rest[..sent].iter_mut().for_each(|packet| packet.body.transport = 0);
        replies + sent
    }

    /// Removes a peer: drops its queued replies and its state in the transport.
    pub fn forget(&mut self, now: Time, peer: u32) {
        self.replies.retain(|reply| reply.frame.dst != peer);
        self.transport.forget(now, peer);
    }

    /// When [`on_deadline`](Self::on_deadline) is due or, while the uplink is free,
    /// [`transmit`](Self::transmit) should be tried again.
    pub fn deadline(&self) -> Time {
        self.transport.deadline()
    }

    /// Handles the expired deadline.
    pub fn on_deadline(&mut self, now: Time, app: &mut impl Application) {
        self.transport.on_deadline(now, app);
    }
}
