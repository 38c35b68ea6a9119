//! Test harness of transports: one host with hand-made packets, or several on a small
//! [network](net) in memory that loses, duplicates and reorders packets, with an
//! [application](application) that checks every call; and the [trials](trials) that all transports
//! must pass.
//!
//! It contains no protocol. The tests of a protocol provide its properties as a [`Subject`].

mod application;
mod net;
pub(crate) mod trials;

use alloc::vec::Vec;

use tidegate_core::wire::{Carried, Header};
use tidegate_core::{
    Application, Body, ConnectionPolicy, Endpoint, Frame, HopTrace, HostContext, Message,
    PacketMut, PacketSizes, Path, PathOracle, Rate, Reply, Role, Span, Time, Transmit, Transport,
};

pub(crate) use application::{Checking, FORGED};
pub(crate) use net::{Faults, NO_FAULTS, Net};

/// Rate of every host's link.
pub(crate) const RATE: Rate = Rate::gbps(100);

/// A transport under test.
pub(crate) trait Subject: Endpoint {
    /// Whether payload is delivered in order.
    const IN_ORDER: bool = false;
    /// Whether a stopped message is completed and acknowledged as a message of the sent size.
    const COMPLETES_STOPPED: bool = true;
    /// Whether numbers of acknowledged messages may be reused.
    const REUSES_NUMBERS: bool = true;

    /// Context of host number `host`, mostly [`context`].
    fn context(host: u32) -> HostContext;

    /// Paths, if the transport needs any.
    fn paths() -> &'static dyn PathOracle {
        &NoPaths
    }

    /// Checks a departing packet: in particular its size on the wire, which is the payload plus 80
    /// B, and at least 84 B, unless the transport overrides this.
    fn check_packet(frame: &Frame, _header: &Self::Header, payload_bytes: u32) {
        let expected = if payload_bytes > 0 { (payload_bytes + 80).max(84) } else { 84 };
        assert_eq!(frame.wire_bytes as u32, expected, "{payload_bytes} B of payload");
    }

    /// Checks that this one of `hosts` has no remaining work or state after all messages between
    /// them are acknowledged.
    fn check_quiet(&self, hosts: &[Self], case: &str);
}

/// A host at 100 Gbit/s with a BDP of 100 KB, in a fabric of eight hosts that sprays packets.
pub(crate) fn context(host: u32) -> HostContext {
    HostContext {
        host,
        hosts: 8,
        seed: 1,
        mtu: 1458,
        nic_rate: RATE,
        fabric_base_rtt: Span::us(8),
        fabric_control_rtt: Span::us(8),
        sizes: PacketSizes::STANDARD,
        bdp_bytes: 100_000.0,
        connections: ConnectionPolicy::PerMessage,
        spraying: true,
        priorities: 8,
        most_held: Span::ZERO,
    }
}

/// For transports that query no path.
pub(crate) struct NoPaths;

impl PathOracle for NoPaths {
    fn path(&self, _src: u32, _dst: u32) -> Path {
        unreachable!("no path is queried")
    }
}

/// Message with the application's number `id`, without weight.
pub(crate) fn message(id: u32, dst: u32, bytes: u64) -> Message {
    Message { id, dst, bytes, dedicated: false, weight: 1, role: Role::Alone }
}

/// The next packet of a host at `now`, if it may send one.
pub(crate) fn transmit<T: Transport>(host: &mut T, now: Time) -> Option<(Frame, Body)> {
    let (mut frame, mut body, mut hops) = (Frame::default(), Body::default(), HopTrace::default());
    let packet = PacketMut { frame: &mut frame, body: &mut body, hops: &mut hops };
    (host.transmit(now, packet) == Transmit::Sent).then_some((frame, body))
}

/// All packets that a host sends at `now`.
pub(crate) fn all_sent<T: Endpoint>(host: &mut T, now: Time) -> Vec<(Frame, T::Header)> {
    core::iter::from_fn(|| transmit(host, now))
        .map(|(frame, body)| (frame, T::Header::read(&body).unwrap()))
        .collect()
}

/// Passes a packet to a host, which may turn it into its reply.
pub(crate) fn receive<T: Transport>(
    host: &mut T,
    now: Time,
    frame: &mut Frame,
    body: &mut Body,
    app: &mut impl Application,
) -> Reply {
    host.receive(now, PacketMut { frame, body, hops: &mut HopTrace::default() }, app)
}

/// Passes a packet from host `src` with this payload to the host, and returns the response, if any.
pub(crate) fn receive_payload<T: Endpoint>(
    host: &mut T,
    now: Time,
    src: u32,
    header: &T::Header,
    payload_bytes: u32,
    app: &mut Checking,
) -> Option<T::Header> {
    let mut body = Body { src, payload_bytes, ..Body::default() };
    header.write(&mut body);
    let reply = receive(host, now, &mut Frame::default(), &mut body, app);
    (reply != Reply::None).then(|| T::Header::read(&body).unwrap())
}

/// The same without payload, for forged messages.
pub(crate) fn receive_header<T: Endpoint>(
    host: &mut T,
    now: Time,
    src: u32,
    header: &T::Header,
) -> Option<T::Header> {
    receive_payload(host, now, src, header, 0, &mut Checking::default())
}

/// Index of a header's kind in the table of its transport's headers.
fn kind_of<H: Header>(header: &H) -> usize {
    let mut bytes = [0; 256];
    header.emit(&mut bytes).unwrap();
    let [_version, number, ..] = bytes;
    H::FORMAT.kinds.iter().position(|kind| kind.number == number).unwrap()
}

/// Index of the kind with that name.
fn kind_named<H: Header>(name: &str) -> usize {
    H::FORMAT.kinds.iter().position(|kind| kind.name == name).unwrap()
}

/// A bit for each of these kinds of packets, for [`Faults::first_of`].
pub(crate) fn kinds<H: Header>(names: &[&str]) -> u32 {
    names.iter().fold(0, |bits, name| bits | 1 << kind_named::<H>(name))
}
