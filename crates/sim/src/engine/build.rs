//! The network of a run, from its description.

use super::*;

pub(super) fn ports(setup: &Setup) -> Vec<Port> {
    let fabric = &setup.fabric;
    let code = |node| match node {
        Node::Host(h) => h | HOST,
        Node::Switch(s) => s,
    };
    let mut ports = Vec::with_capacity(fabric.links.len() * 2);
    for link in &fabric.links {
        for (from, to) in [(link.a, link.b), (link.b, link.a)] {
            let latency = match to {
                Node::Switch(s) => fabric.switches[s as usize].latency,
                Node::Host(_) => Time::ZERO,
            };
            let mut flags = 0;
            if let Node::Switch(s) = from {
                let switch = &fabric.switches[s as usize];
                let set = |on: bool, flag: u8| if on { flag } else { 0 };
                flags = set(switch.telemetry, flag::STAMPS)
                    | set(
                        switch
                            .ecn
                            .is_some_and(|ecn| !ecn.core_only || matches!(to, Node::Switch(_))),
                        flag::ECN,
                    )
                    | set(switch.ecn.is_some_and(|ecn| ecn.min_bytes <= 0.0), flag::ECN_AT_ZERO)
                    | set(switch.buffer != Buffer::Unlimited, flag::SHARED)
                    | set(setup.histograms, flag::HISTOGRAMS);
            }
            ports.push(Port::new(link.rate, link.delay + latency, code(from), code(to), flags));
        }
    }
    ports
}

pub(super) fn switches(fabric: &Fabric, ports: &[Port]) -> (Vec<Switch>, Vec<u32>) {
    let mut of: Vec<Vec<u32>> = vec![Vec::new(); fabric.switches.len()];
    for (index, port) in ports.iter().enumerate().filter(|(_, port)| port.owner & HOST == 0) {
        of[port.owner as usize].push(index as u32);
    }
    let mut all = Vec::new();
    let mut switches = Vec::new();
    for (switch, ports) in fabric.switches.iter().zip(of) {
        let first_port = all.len() as u32;
        all.extend(ports);
        let (capacity, alpha) = match switch.buffer {
            Buffer::Unlimited => (u64::MAX, f64::INFINITY),
            Buffer::Shared { bytes, alpha } => (bytes, alpha),
        };
        switches.push(Switch {
            first_port,
            last_port: all.len() as u32,
            used: 0,
            capacity,
            alpha,
            ecn: switch.ecn,
            drops: 0,
            occupancy: Histogram::default(),
            max_used: 0,
        });
    }
    (switches, all)
}
