//! An attacker without the key reflects all datagrams of a host. The host does not accept itself as
//! its peer.

use std::net::SocketAddr;

use bytes::Bytes;
use tidegate_algos::Protocol;
use tidegate_core::{Domain, Rate, Rng, Span, Time};
use tidegate_endpoint::node::{Arrival, CloseReason, Config, Event, Node, Terms};
use tidegate_endpoint::session::Key;

#[test]
fn reflected_hellos_open_no_session() {
    let mut rng = Rng::stream(1, Domain::Stack, 0);
    let entropy = Box::new(move |bytes: &mut [u8]| {
        bytes.iter_mut().for_each(|byte| *byte = rng.below(256) as u8);
    });
    let config = Config::new(Protocol::DEFAULT.stack(), Key::new(b"a secret"), Rate::gbps(1));
    let silence = config.limits.silence;
    let mut node = Node::new(config, entropy).unwrap();
    let mirror = SocketAddr::from(([10, 0, 0, 2], 1));
    let (mut now, mut sent) = (Time::ms(1), 0);
    let peer = node.connect(now, mirror).unwrap();
    let body = Bytes::from_static(b"for another host");
    let ticket = node.send(now, peer, &[], body, Terms::default()).unwrap();
    let mut out = vec![0; 2_048];
    while now < Time::ms(1).after(silence.times(2)) {
        now += Span::us(100);
        while let Some(departure) = node.transmit(now, &mut out) {
            sent += 1;
            let bytes = &mut out[..departure.bytes];
            let arrival = Arrival { from: mirror, tos: departure.tos, held: Span::ZERO, bytes };
            node.receive(now + Span::us(10), arrival);
        }
        now = now.max(node.deadline().min(now + Span::ms(100)));
        node.on_deadline(now);
    }
    let events: Vec<Event> = std::iter::from_fn(|| node.event()).collect();
    assert_eq!(
        events,
        [Event::Failed(ticket, CloseReason::Silent), Event::Closed(peer, CloseReason::Silent)]
    );
    assert!(sent > 5, "{sent} Hellos");
}
