//! Batched and single calls give the same packets; waiting replies are bounded.

use tidegate_algos::Protocol;
use tidegate_core::{
    Application, ConnectionPolicy, HostContext, Message, MessageId, PacketSizes, Path, PathOracle,
    Rate, Role, Span, Time,
};
use tidegate_endpoint::{Endpoint, Packet};

struct OnePath;

impl PathOracle for OnePath {
    fn path(&self, _src: u32, _dst: u32) -> Path {
        Path {
            base_rtt: Span::us(6),
            fabric_base_rtt: Span::us(8),
            nic_rate: Rate::gbps(100),
            bottleneck_rate: Rate::gbps(100),
            bdp_bytes: 100_000.0,
            mtu: 1_000,
            full_wire_bytes: 1_080,
            hops: 3,
        }
    }
}

struct NullApplication;

impl Application for NullApplication {
    fn delivered(&mut self, _now: Time, _message: MessageId, _offset: u64, _bytes: u32) {}
    fn completed(&mut self, _now: Time, _message: MessageId) {}
    fn acked(&mut self, _now: Time, _message: MessageId) {}
}

fn endpoint(protocol: Protocol, host: u32) -> Endpoint {
    let context = HostContext {
        host,
        hosts: 2,
        seed: 1,
        mtu: 1_000,
        nic_rate: Rate::gbps(100),
        fabric_base_rtt: Span::us(8),
        fabric_control_rtt: Span::us(8),
        sizes: PacketSizes::STANDARD,
        bdp_bytes: 100_000.0,
        connections: ConnectionPolicy::PerMessage,
        spraying: false,
        priorities: 2,
        most_held: Span::ZERO,
    };
    Endpoint::new(&protocol.stack(), &context)
}

/// All packets of two hosts with messages for each other, fetched in batches of `at_once`, or one
/// by one.
fn sent(protocol: Protocol, at_once: Option<usize>) -> Vec<Vec<Packet>> {
    let mut hosts = [endpoint(protocol, 0), endpoint(protocol, 1)];
    for id in 0..6 {
        let (src, bytes) = (id % 2, 1 + 9_000 * id as u64);
        let message = Message {
            id: id / 2,
            dst: 1 - src,
            bytes,
            dedicated: false,
            weight: 1,
            role: Role::Alone,
        };
        hosts[src as usize].submit(Time::ZERO, message, &OnePath);
    }
    let mut steps = Vec::new();
    for step in 0..400 {
        let (now, from) = (Time::us(step), step as usize % 2);
        let mut packets = Vec::new();
        match at_once {
            None => packets.extend(std::iter::from_fn(|| hosts[from].transmit(now))),
            Some(places) => {
                let mut batch = vec![Packet::default(); places];
                loop {
                    let count = hosts[from].transmit_batch(now, &mut batch);
                    packets.extend_from_slice(&batch[..count]);
                    if count < places {
                        break;
                    }
                }
            }
        }
        packets
            .iter()
            .for_each(|packet| hosts[1 - from].receive(now, *packet, &mut NullApplication));
        steps.push(packets);
    }
    steps
}

#[test]
fn transmit_batch_equals_single_calls() {
    for &protocol in Protocol::ALL {
        let single = sent(protocol, None);
        let packets = single.iter().map(Vec::len).sum::<usize>();
        let payload: u32 = single.iter().flatten().map(|packet| packet.body.payload_bytes).sum();
        assert!(packets > 130 && payload == 135_006, "{packets} packets, {payload} B");
        for places in [1, 2, 7, 64] {
            assert!(sent(protocol, Some(places)) == single, "{}", protocol.info().name);
        }
    }
}

/// Repeats a data packet to a host whose uplink is blocked.
#[test]
fn waiting_replies_are_bounded() {
    let mut waited = 0;
    for &protocol in Protocol::ALL {
        let [mut from, mut to] = [endpoint(protocol, 0), endpoint(protocol, 1)];
        let message =
            Message { id: 0, dst: 1, bytes: 100, dedicated: false, weight: 1, role: Role::Alone };
        from.submit(Time::ZERO, message, &OnePath);
        let Some(packet) = from.transmit(Time::us(1)) else { continue };
        (0..100_000).for_each(|_| to.receive(Time::us(2), packet, &mut NullApplication));
        let replies = (0..100_000).take_while(|_| to.transmit(Time::us(2)).is_some()).count();
        assert!(replies <= 66_000, "{}: {replies} replies", protocol.info().name);
        waited += u32::from(replies > 65_000);
    }
    assert!(waited > 5, "a full queue in {waited} protocols");
}
