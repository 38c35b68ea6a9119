//! What a switch that pauses counts of what it holds, by where it came in.
//!
//! Of every port that leads in and every class: bytes, and how many of them are in headroom. Of a
//! switch: how much of its pool is in use, which is what its ingresses hold above their reserves
//! and what is held of classes that cannot be paused. Where ports are committed late the counts are
//! too high: a packet that fits and makes nobody pause by them does so by the true ones too. For
//! anything else the caller brings the ports up to now first.

use tidegate_core::Frame;
use tidegate_core::fabric::{Buffer, Fabric, Node, Pausing, Switch};

use crate::routing::NO_PORT;

/// What the switches of a partition count.
pub(crate) struct Ingress {
    /// By switch: its pool, if it pauses.
    pools: Vec<Option<Pool>>,
    /// By port that leads in.
    ports: Vec<Port>,
    /// By packet: the port that it came in by.
    of_packet: Vec<u32>,
}

/// What the ingresses of a switch share.
struct Pool {
    pausing: Pausing,
    size: u64,
    used: u64,
    /// Ingress ports and classes whose senders are told to pause.
    told: u32,
}

struct Port {
    held: [Held; 8],
    /// Most bytes in headroom, by class.
    headroom: u64,
    /// Classes whose sender is told to pause, a bit each.
    told: u8,
}

/// Of one class, by an ingress.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Held {
    pub(crate) bytes: u64,
    /// Of those: in headroom.
    pub(crate) headroom: u64,
}

/// Where a packet finds room.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Room {
    /// In the reserve of its ingress, or in the pool.
    Usual,
    Headroom,
    Nowhere,
}

/// By switch: what of its buffer is shared.
pub(crate) fn pool_bytes(fabric: &Fabric) -> Vec<u64> {
    let kept = fabric.kept_bytes();
    let size = |(switch, kept): (&Switch, &u64)| match switch.buffer {
        Buffer::Unlimited => u64::MAX,
        Buffer::Shared { bytes, .. } => bytes.saturating_sub(*kept),
    };
    fabric.switches.iter().zip(&kept).map(size).collect()
}

/// Whether a sender that is told to pause can go on where so much is held of what came in by it,
/// and so much of the pool is free.
pub(crate) fn resumes(pausing: &Pausing, held: Held, free: u64) -> bool {
    let shared = held.shared(pausing);
    let resumed = shared + pausing.resume_offset_bytes as u64;
    held.headroom == 0 && (shared == 0 || resumed as f64 <= pausing.alpha * free as f64)
}

impl Held {
    /// What it has of the pool.
    pub(crate) fn shared(self, pausing: &Pausing) -> u64 {
        (self.bytes - self.headroom).saturating_sub(pausing.reserved_bytes as u64)
    }
}

impl Pool {
    fn free(&self) -> u64 {
        self.size - self.used
    }

    /// From so much of the pool on an ingress is one too many.
    fn threshold(&self) -> f64 {
        self.pausing.alpha * self.free() as f64
    }

    fn can_pause(&self, class: u8) -> bool {
        self.pausing.classes & 1 << class != 0
    }
}

impl Ingress {
    /// For a partition that has `ports`, of which it calls the places their numbers; `None` where
    /// no switch pauses.
    pub(crate) fn new(fabric: &Fabric, ports: &[u32]) -> Option<Ingress> {
        if fabric.switches.iter().all(|switch| switch.pausing.is_none()) {
            return None;
        }
        let pools = fabric.switches.iter().zip(pool_bytes(fabric)).map(|(switch, size)| {
            switch.pausing.map(|pausing| Pool { pausing, size, used: 0, told: 0 })
        });
        let port = |&name: &u32| Port {
            held: [Held::default(); 8],
            headroom: match fabric.port_ends(name).to {
                Node::Switch(_) => fabric.headroom(name),
                Node::Host(_) => 0,
            },
            told: 0,
        };
        Some(Ingress {
            pools: pools.collect(),
            ports: ports.iter().map(port).collect(),
            of_packet: Vec::new(),
        })
    }

    /// What is held of a class that came in by `port`, and whether its sender is told to pause.
    pub(crate) fn held(&self, port: u32, class: u8) -> (Held, bool) {
        let port = &self.ports[port as usize];
        (port.held[class as usize], port.told & 1 << class != 0)
    }

    /// Whether the switch pauses anybody at all.
    pub(crate) fn pauses(&self, switch: u32) -> bool {
        self.pools[switch as usize].is_some()
    }

    /// Whether a sender is told to pause by the switch.
    pub(crate) fn has_told(&self, switch: u32) -> bool {
        self.pools[switch as usize].as_ref().is_some_and(|pool| pool.told > 0)
    }

    /// `packet` has come in by `port`.
    pub(crate) fn came_in(&mut self, packet: u32, port: u32) {
        if self.of_packet.len() <= packet as usize {
            self.of_packet.resize((packet as usize + 1).next_power_of_two(), NO_PORT);
        }
        self.of_packet[packet as usize] = port;
    }

    /// The port that `packet` came in by.
    pub(crate) fn of(&self, packet: u32) -> u32 {
        self.of_packet[packet as usize]
    }

    /// Where there is room for a packet that has come in by `port`.
    pub(crate) fn room(&self, switch: u32, port: u32, frame: &Frame) -> Room {
        let Some(pool) = &self.pools[switch as usize] else { return Room::Usual };
        let (class, wire) = (frame.priority & 7, frame.wire_bytes as u64);
        if !pool.can_pause(class) {
            return if wire <= pool.free() { Room::Usual } else { Room::Nowhere };
        }
        let port = &self.ports[port as usize];
        let held = port.held[class as usize];
        let (before, after) = (held.shared(&pool.pausing), held.with(wire).shared(&pool.pausing));
        if after == 0 || after as f64 <= pool.threshold() && after - before <= pool.free() {
            Room::Usual
        } else if held.headroom + wire <= port.headroom {
            Room::Headroom
        } else {
            Room::Nowhere
        }
    }

    /// A packet that has come in by `port` is held, where there is room for it.
    pub(crate) fn take(&mut self, switch: u32, port: u32, frame: &Frame, room: Room) {
        let Some(pool) = &mut self.pools[switch as usize] else { return };
        let (class, wire) = (frame.priority & 7, frame.wire_bytes as u64);
        if !pool.can_pause(class) {
            pool.used += wire;
            return;
        }
        let held = &mut self.ports[port as usize].held[class as usize];
        let before = held.shared(&pool.pausing);
        *held = held.with(wire);
        held.headroom += if room == Room::Headroom { wire } else { 0 };
        pool.used += held.shared(&pool.pausing) - before;
    }

    /// A packet that has come in by `port` leaves; what is in headroom goes first.
    pub(crate) fn release(&mut self, switch: u32, port: u32, frame: &Frame) {
        let Some(pool) = &mut self.pools[switch as usize] else { return };
        let (class, wire) = (frame.priority & 7, frame.wire_bytes as u64);
        if !pool.can_pause(class) {
            pool.used -= wire;
            return;
        }
        let held = &mut self.ports[port as usize].held[class as usize];
        let before = held.shared(&pool.pausing);
        *held = held.without(wire);
        pool.used -= before - held.shared(&pool.pausing);
    }

    /// Whether the sender by `port` has to be told to pause.
    pub(crate) fn is_over(&self, switch: u32, port: u32, class: u8) -> bool {
        let Some(pool) = &self.pools[switch as usize] else { return false };
        let port = &self.ports[port as usize];
        let held = port.held[class as usize];
        let shared = held.shared(&pool.pausing);
        pool.can_pause(class)
            && port.told & 1 << class == 0
            && (held.headroom > 0 || shared > 0 && shared as f64 >= pool.threshold())
    }

    /// Whether the sender by `port` is told to pause, and can go on.
    pub(crate) fn is_under(&self, switch: u32, port: u32, class: u8) -> bool {
        let Some(pool) = &self.pools[switch as usize] else { return false };
        let port = &self.ports[port as usize];
        let held = port.held[class as usize];
        port.told & 1 << class != 0 && resumes(&pool.pausing, held, pool.free())
    }

    /// The sender by `port` is told to pause, or to go on.
    pub(crate) fn tell(&mut self, switch: u32, port: u32, class: u8, on: bool) {
        let Some(pool) = &mut self.pools[switch as usize] else { return };
        let told = &mut self.ports[port as usize].told;
        if on {
            *told |= 1 << class;
            pool.told += 1;
        } else {
            *told &= !(1 << class);
            pool.told -= 1;
        }
    }

    /// The link of `port` has gone down or come back: nobody is told anything over it.
    pub(crate) fn forget(&mut self, switch: u32, port: u32) {
        let told = std::mem::take(&mut self.ports[port as usize].told);
        if let Some(pool) = &mut self.pools[switch as usize] {
            pool.told -= told.count_ones();
        }
    }
}

impl Held {
    fn with(self, wire: u64) -> Held {
        Held { bytes: self.bytes + wire, ..self }
    }

    pub(crate) fn without(self, wire: u64) -> Held {
        Held { bytes: self.bytes - wire, headroom: self.headroom.saturating_sub(wire) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tidegate_core::fabric::{Headroom, Link};
    use tidegate_core::{Rate, Span};

    const SWITCH: u32 = 0;

    /// Of a switch with three hosts, whose pool is of 2,000 B.
    fn ingress(alpha: f64) -> Ingress {
        let pausing = Pausing {
            classes: 1,
            alpha,
            reserved_bytes: 100,
            headroom: Headroom::Bytes(1_000),
            headroom_on_top: false,
            resume_offset_bytes: 50,
        };
        let switch = Switch {
            name: "s0".into(),
            latency: Span::ZERO,
            telemetry: false,
            buffer: Buffer::Shared { bytes: 2_000 + 3 * 1_100, alpha: 1.0 },
            ecn: None,
            priorities: 1,
            discipline: None,
            pausing: Some(pausing),
            credit_queue: None,
        };
        let link = |host| Link {
            a: Node::Host(host),
            b: Node::Switch(SWITCH),
            rate: Rate::gbps(1),
            delay: Span::us(1),
        };
        let fabric = Fabric {
            hosts: vec!["h0".into(), "h1".into(), "h2".into()],
            switches: vec![switch],
            links: (0..3).map(link).collect(),
            rate_changes: Vec::new(),
            circuits: None,
            mtu: 1000,
        };
        assert_eq!(pool_bytes(&fabric), [2_000]);
        Ingress::new(&fabric, &[0, 1, 2, 3, 4, 5]).unwrap()
    }

    fn of(wire_bytes: u16) -> Frame {
        Frame { wire_bytes, ..Frame::default() }
    }

    /// Takes a packet where there is room for it, and says where that is.
    fn take(ingress: &mut Ingress, port: u32, wire_bytes: u16) -> Room {
        let room = ingress.room(SWITCH, port, &of(wire_bytes));
        if room != Room::Nowhere {
            ingress.take(SWITCH, port, &of(wire_bytes), room);
        }
        room
    }

    #[test]
    fn a_sender_pauses_at_the_threshold() {
        let mut ingress = ingress(1.0);
        // Beyond the reserve 999 B, and 1,001 B are free.
        assert_eq!(take(&mut ingress, 0, 1_099), Room::Usual);
        assert!(!ingress.is_over(SWITCH, 0, 0));
        assert_eq!(take(&mut ingress, 0, 1), Room::Usual);
        assert!(ingress.is_over(SWITCH, 0, 0));
        assert!(!ingress.is_over(SWITCH, 2, 0), "nothing is held of what came in there");
        ingress.tell(SWITCH, 0, 0, true);
        assert!(!ingress.is_over(SWITCH, 0, 0), "it is told already");
    }

    #[test]
    fn a_sender_with_anything_in_headroom_pauses_until_that_is_gone() {
        let mut ingress = ingress(0.5);
        assert_eq!(take(&mut ingress, 0, 700), Room::Usual);
        // 800 B of the pool would be more than half of the 1,400 B that are free.
        assert_eq!(take(&mut ingress, 0, 200), Room::Headroom);
        assert_eq!(ingress.held(0, 0), (Held { bytes: 900, headroom: 200 }, false));
        assert!(ingress.is_over(SWITCH, 0, 0), "600 B are less than half of 1,400");
        ingress.tell(SWITCH, 0, 0, true);
        assert!(!ingress.is_under(SWITCH, 0, 0));
        ingress.release(SWITCH, 0, &of(150));
        assert!(!ingress.is_under(SWITCH, 0, 0));
        ingress.release(SWITCH, 0, &of(50));
        assert!(ingress.is_under(SWITCH, 0, 0), "with 50 B less than half of 1,400");
    }

    #[test]
    fn nobody_has_more_of_the_pool_than_there_is() {
        let mut ingress = ingress(8.0);
        assert_eq!(take(&mut ingress, 0, 1_600), Room::Usual);
        assert_eq!(take(&mut ingress, 2, 601), Room::Headroom, "500 B are free");
        assert_eq!(take(&mut ingress, 4, 600), Room::Usual);
        assert_eq!(take(&mut ingress, 4, 1_001), Room::Nowhere);
    }

    #[test]
    fn who_is_told_nothing_any_more_is_not_counted() {
        let mut ingress = ingress(0.5);
        ingress.tell(SWITCH, 0, 0, true);
        ingress.tell(SWITCH, 2, 0, true);
        ingress.forget(SWITCH, 0);
        assert!(ingress.has_told(SWITCH));
        ingress.tell(SWITCH, 2, 0, false);
        assert!(!ingress.has_told(SWITCH));
    }
}
