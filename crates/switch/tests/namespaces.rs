//! Hosts and a switch in separate network namespaces, connected by veth. Needs root.
#![cfg(target_os = "linux")]
#![allow(missing_docs)]

use std::net::SocketAddrV4;
use std::time::Duration;

use crate::common::namespaces::Namespaces;
use crate::common::{Host, around, forwarding, payload, request, switch, within};
use tidegate_core::wire::telemetry;
use tidegate_core::{Frame, HopTrace, Rate, frame_flag};
use tidegate_switch::{Places, SoftwareSwitch};

#[test]
fn switch_between_namespaces() {
    let namespaces = match Namespaces::new(&["a", "b"]) {
        Ok(namespaces) => namespaces,
        Err(why) => return eprintln!("SKIPPED: {why}"),
    };
    for (end, net) in [("a", 1), ("b", 2)] {
        namespaces.ip("s", &format!("addr add 10.0.{net}.1/24 dev to-{end}")).unwrap();
        namespaces.ip(end, &format!("addr add 10.0.{net}.2/24 dev uplink")).unwrap();
    }
    let address = |text: &str| text.parse::<SocketAddrV4>().unwrap();
    let host = |end, at: &str| within(&namespaces, end, || Host::at(address(at)));
    let hosts = vec![host("a", "10.0.1.2:9000"), host("b", "10.0.2.2:9000")];
    let mut network = around(switch(), hosts, Rate::mbps(5));
    let Places::Addresses { listen, .. } = &mut network.config.places else { unreachable!() };
    *listen = address("0.0.0.0:20000");
    let switch = within(&namespaces, "s", || SoftwareSwitch::open(&network.config).unwrap());
    let (arrived, report) = forwarding(switch, &network.hosts, |hosts, _| {
        let tos = 40 << 2 | 0b10;
        (0..20).for_each(|i| hosts[0].send(address("10.0.1.1:20001"), tos, &request(i)));
        hosts[1].all(Duration::from_millis(300))
    });
    assert_eq!((arrived.len(), report.counts.sent), (20, 20));
    for (number, datagram) in (0..).zip(&arrived) {
        // B replies to the source address of the datagram.
        assert_eq!((datagram.from, datagram.tos), (address("10.0.2.1:20000"), 40 << 2 | 0b10));
        let (mut frame, mut hops) = (Frame::default(), HopTrace::default());
        let rest = telemetry::parse(&datagram.bytes, &mut frame, &mut hops).unwrap();
        assert_eq!((rest, hops.as_slice().len()), (&payload(number)[..], 1));
        assert!(frame.flags & frame_flag::STAMP_PEAK != 0);
    }
    let last = arrived.last().unwrap().at - arrived[0].at;
    assert!(last > 0.02, "twenty packets of 1.6 ms in {last} s");
}
