//! Racks joined by a packet network and circuits.

use tidegate_core::circuits::Circuits;
use tidegate_core::fabric::{Fabric, Node};
use tidegate_core::{Rate, Span, Time};

use super::{link, switch};

/// Parameters of a fabric of racks; links have `delay`, circuits twice that.
#[derive(Clone, Copy)]
pub struct Racks {
    pub racks: u32,
    pub hosts: u32,
    pub host_rate: Rate,
    pub packet_rate: Rate,
    pub circuit_rate: Rate,
    pub delay: Span,
    pub day: Span,
    pub night: Span,
}

impl Racks {
    /// In slot s, rack i sends to rack i + 1 + s.
    pub fn fabric(self) -> Fabric {
        let Racks { racks, hosts, delay, .. } = self;
        let mut links = Vec::new();
        for host in 0..racks * hosts {
            let rack = Node::Switch(host / hosts);
            links.push(link(Node::Host(host), rack, self.host_rate, delay));
        }
        for rack in 0..racks {
            links.push(link(Node::Switch(rack), Node::Switch(racks), self.packet_rate, delay));
        }
        let first_link = links.len() as u32;
        for b in 0..racks {
            for a in 0..b {
                let [a, b] = [a, b].map(Node::Switch);
                links.push(link(a, b, self.circuit_rate, delay + delay));
            }
        }
        let matching = |slot: u32| (0..racks).map(|i| ((i + 1 + slot) % racks) as u16).collect();
        let mut switches: Vec<_> = (0..racks).map(|rack| switch(&format!("tor{rack}"))).collect();
        switches.push(switch("core0"));
        Fabric {
            hosts: (0..racks * hosts).map(|host| format!("h{host}")).collect(),
            switches,
            links,
            mtu: 1000,
            circuits: Some(Circuits {
                first_link,
                day: self.day,
                night: self.night,
                matchings: (0..racks - 1).map(matching).collect(),
                queue_bytes: u32::MAX,
                enlarged_bytes: u32::MAX,
                ahead: Span::ZERO,
            }),
            ..Fabric::default()
        }
    }

    /// The port of the circuit from one rack to another.
    pub fn port(fabric: &Fabric, from: u32, to: u32) -> u32 {
        let circuits = fabric.circuits.as_ref().unwrap().ports(fabric);
        circuits.iter().find(|&&(_, a, b)| (a, b) == (from, to)).unwrap().0
    }

    /// The port of a rack to the packet network.
    pub fn uplink(self, rack: u32) -> u32 {
        2 * (self.racks * self.hosts + rack)
    }

    /// The current day, or the day whose night it is: its matching, start and end.
    pub fn day_at(self, at: Time) -> (u32, Time, Time) {
        let slot = self.day + self.night;
        let number = at.as_ps() / slot.as_ps();
        let begins = Time::ZERO + slot.times(number);
        ((number % (self.racks as u64 - 1)) as u32, begins, begins + self.day)
    }

    /// The rack that `rack` sends to in a matching.
    pub fn peer(self, rack: u32, matching: u32) -> u32 {
        (rack + 1 + matching) % self.racks
    }
}
