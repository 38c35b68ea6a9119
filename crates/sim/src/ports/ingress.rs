//! Ingress accounting of switches that use PFC: buffered bytes by ingress port and class.
//!
//! For each ingress port and class, a switch counts the bytes that it buffers, and how many of them
//! are in headroom. For the whole switch, it counts the used bytes of the shared pool: those that
//! ingress ports hold above their reserves and outside of headroom, and all bytes of classes that
//! cannot be paused. Because ports are committed lazily, the counts may be too high. If a packet
//! fits and causes no pause by these counts, the same holds for the exact ones. In every other case
//! the caller commits the ports up to now and checks again.

use tidegate_core::Frame;
use tidegate_core::fabric::{Buffer, Fabric, Node, Pausing, Switch};

use crate::fabric::routing::NO_PORT;

/// Ingress counts of the switches of a partition.
pub(crate) struct Ingress {
    /// Shared pool by switch; `None` if it does not use PFC.
    pools: Vec<Option<Pool>>,
    /// By ingress port.
    ports: Vec<Port>,
    /// Ingress port by packet.
    of_packet: Vec<u32>,
}

/// Buffer that the ingress ports of a switch share.
struct Pool {
    pausing: Pausing,
    size: u64,
    used: u64,
    /// Number of ingress ports and classes whose sender is paused.
    paused: u32,
}

struct Port {
    held: [Held; 8],
    /// Capacity of the headroom, in bytes per class.
    headroom: u64,
    /// Classes whose sender is paused; one bit each.
    paused: u8,
}

/// Bytes of one class that an ingress holds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Held {
    pub(crate) bytes: u64,
    /// Bytes in headroom, included in `bytes`.
    pub(crate) headroom: u64,
}

/// Room that a packet finds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Room {
    /// In the reserve of its ingress, or in the pool.
    Usual,
    Headroom,
    Nowhere,
}

/// Bytes of the shared pool, by switch.
pub(crate) fn pool_bytes(fabric: &Fabric) -> Vec<u64> {
    let kept = fabric.kept_bytes();
    let size = |(switch, kept): (&Switch, &u64)| match switch.buffer {
        Buffer::Unlimited => u64::MAX,
        Buffer::Shared { bytes, .. } => bytes.saturating_sub(*kept),
    };
    fabric.switches.iter().zip(&kept).map(size).collect()
}

/// # Errors
/// If a switch with PFC could never pause its neighbours, if reserves and headroom take its whole
/// buffer, or if any switch has a queue for credits: ingress accounting does not count credits.
pub(crate) fn check(fabric: &Fabric) -> Result<(), String> {
    let credits = fabric.switches.iter().find(|switch| switch.credit_queue.is_some());
    for (switch, kept) in fabric.switches.iter().zip(fabric.kept_bytes()) {
        let Some(pausing) = switch.pausing else { continue };
        let name = &switch.name;
        let Buffer::Shared { bytes, .. } = switch.buffer else {
            return Err(format!(
                "switch {name}: PFC needs a limited buffer, and this one is unlimited"
            ));
        };
        if pausing.classes == 0 || pausing.alpha.is_nan() || pausing.alpha <= 0.0 {
            let Pausing { classes, alpha, .. } = pausing;
            return Err(format!(
                "switch {name}: PFC with classes {classes:#b} and alpha {alpha}; at least one \
                 class and a positive alpha are needed"
            ));
        }
        if kept >= bytes {
            return Err(format!(
                "switch {name}: PFC reserves and headroom take {kept} B, and the buffer has \
                 {bytes} B"
            ));
        }
        if let Some(Switch { name: other, .. }) = credits {
            return Err(format!(
                "switch {other} has a credit queue and switch {name} uses PFC: these cannot be \
                 combined"
            ));
        }
    }
    Ok(())
}

/// Buffer that limits the queues at the ports of a switch. With PFC there is none: the counts by
/// ingress port limit them.
pub(crate) fn egress_buffer(switch: &Switch) -> Buffer {
    if switch.pausing.is_some() { Buffer::Unlimited } else { switch.buffer }
}

/// Returns whether a paused sender can resume, with `held` buffered by its ingress and `free` bytes
/// of the pool unused.
pub(crate) fn resumes(pausing: &Pausing, held: Held, free: u64) -> bool {
    let shared = held.shared(pausing);
    let resumed = shared + pausing.resume_offset_bytes as u64;
    held.headroom == 0 && (shared == 0 || resumed as f64 <= pausing.alpha * free as f64)
}

impl Held {
    /// Bytes of the shared pool that it uses.
    pub(crate) fn shared(self, pausing: &Pausing) -> u64 {
        (self.bytes - self.headroom).saturating_sub(pausing.reserved_bytes as u64)
    }
}

impl Pool {
    fn free(&self) -> u64 {
        self.size - self.used
    }

    /// Pool usage of one ingress from which its sender is paused.
    fn threshold(&self) -> f64 {
        self.pausing.alpha * self.free() as f64
    }

    fn can_pause(&self, class: u8) -> bool {
        self.pausing.classes & 1 << class != 0
    }
}

impl Ingress {
    /// For a partition that has `ports`, in the order of its local indices; `None` if no switch
    /// uses PFC.
    pub(crate) fn new(fabric: &Fabric, ports: &[u32]) -> Option<Ingress> {
        if fabric.switches.iter().all(|switch| switch.pausing.is_none()) {
            return None;
        }
        let pools = fabric.switches.iter().zip(pool_bytes(fabric)).map(|(switch, size)| {
            switch.pausing.map(|pausing| Pool { pausing, size, used: 0, paused: 0 })
        });
        let port = |&name: &u32| Port {
            held: [Held::default(); 8],
            headroom: match fabric.port_ends(name).to {
                Node::Switch(_) => fabric.headroom(name),
                Node::Host(_) => 0,
            },
            paused: 0,
        };
        Some(Ingress {
            pools: pools.collect(),
            ports: ports.iter().map(port).collect(),
            of_packet: Vec::new(),
        })
    }

    /// Bytes held of a class that arrived by `port`, and whether its sender is paused.
    pub(crate) fn held(&self, port: u32, class: u8) -> (Held, bool) {
        let port = &self.ports[port as usize];
        (port.held[class as usize], port.paused & 1 << class != 0)
    }

    /// Returns whether the switch uses PFC.
    pub(crate) fn pauses(&self, switch: u32) -> bool {
        self.pools[switch as usize].is_some()
    }

    /// Classes that the switch can pause; one bit each.
    pub(crate) fn classes(&self, switch: u32) -> u8 {
        self.pools[switch as usize].as_ref().map_or(0, |pool| pool.pausing.classes)
    }

    /// Returns whether the switch has paused any sender.
    pub(crate) fn has_paused(&self, switch: u32) -> bool {
        self.pools[switch as usize].as_ref().is_some_and(|pool| pool.paused > 0)
    }

    /// Records that `packet` has arrived by `port`.
    pub(crate) fn record_ingress(&mut self, packet: u32, port: u32) {
        if self.of_packet.len() <= packet as usize {
            self.of_packet.resize((packet as usize + 1).next_power_of_two(), NO_PORT);
        }
        self.of_packet[packet as usize] = port;
    }

    /// The port that `packet` arrived by.
    pub(crate) fn of(&self, packet: u32) -> u32 {
        self.of_packet[packet as usize]
    }

    /// Returns the room for a packet that has arrived by `port`.
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

    /// Counts a packet that has arrived by `port` and takes `room`.
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

    /// Uncounts a packet that has arrived by `port` and now leaves. Headroom is freed first.
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

    /// Returns whether the sender behind `port` must be paused.
    pub(crate) fn is_over(&self, switch: u32, port: u32, class: u8) -> bool {
        let Some(pool) = &self.pools[switch as usize] else { return false };
        let port = &self.ports[port as usize];
        let held = port.held[class as usize];
        let shared = held.shared(&pool.pausing);
        pool.can_pause(class)
            && port.paused & 1 << class == 0
            && (held.headroom > 0 || shared > 0 && shared as f64 >= pool.threshold())
    }

    /// Returns whether the sender behind `port` is paused and can resume.
    pub(crate) fn is_under(&self, switch: u32, port: u32, class: u8) -> bool {
        let Some(pool) = &self.pools[switch as usize] else { return false };
        let port = &self.ports[port as usize];
        let held = port.held[class as usize];
        port.paused & 1 << class != 0 && resumes(&pool.pausing, held, pool.free())
    }

    /// Records that the sender behind `port` is paused (`on`) or resumed.
    pub(crate) fn set_paused(&mut self, switch: u32, port: u32, class: u8, on: bool) {
        let Some(pool) = &mut self.pools[switch as usize] else { return };
        let paused = &mut self.ports[port as usize].paused;
        if on {
            *paused |= 1 << class;
            pool.paused += 1;
        } else {
            *paused &= !(1 << class);
            pool.paused -= 1;
        }
    }

    /// The link of `port` has gone down or come back: clears its pauses.
    pub(crate) fn forget(&mut self, switch: u32, port: u32) {
        let paused = std::mem::take(&mut self.ports[port as usize].paused);
        if let Some(pool) = &mut self.pools[switch as usize] {
            pool.paused -= paused.count_ones();
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
    use tidegate_core::fabric::{Headroom, Link, Stamping, TelemetryResolution};
    use tidegate_core::{Rate, Span};

    const SWITCH: u32 = 0;

    /// Counts of a switch with three hosts and a pool of 2,000 B.
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
            telemetry: Stamping::Off,
            telemetry_resolution: TelemetryResolution::EXACT,
            buffer: Buffer::Shared { bytes: 2_000 + 3 * 1_100, alpha: 1.0 },
            ecn: None,
            priorities: 1,
            pausing: Some(pausing),
            credit_queue: None,
            trimming: None,
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
            mtu: 1000,
            ..Fabric::default()
        };
        assert_eq!(pool_bytes(&fabric), [2_000]);
        Ingress::new(&fabric, &[0, 1, 2, 3, 4, 5]).unwrap()
    }

    fn of(wire_bytes: u16) -> Frame {
        Frame { wire_bytes, ..Frame::default() }
    }

    /// Takes a packet if there is room for it, and returns the room.
    fn take(ingress: &mut Ingress, port: u32, wire_bytes: u16) -> Room {
        let room = ingress.room(SWITCH, port, &of(wire_bytes));
        if room != Room::Nowhere {
            ingress.take(SWITCH, port, &of(wire_bytes), room);
        }
        room
    }

    #[test]
    fn sender_pauses_at_the_threshold() {
        let mut ingress = ingress(1.0);
        // 999 B above the reserve; 1,001 B are free.
        assert_eq!(take(&mut ingress, 0, 1_099), Room::Usual);
        assert!(!ingress.is_over(SWITCH, 0, 0));
        assert_eq!(take(&mut ingress, 0, 1), Room::Usual);
        assert!(ingress.is_over(SWITCH, 0, 0));
        assert!(!ingress.is_over(SWITCH, 2, 0), "no bytes from that ingress");
        ingress.set_paused(SWITCH, 0, 0, true);
        assert!(!ingress.is_over(SWITCH, 0, 0), "already paused");
    }

    #[test]
    fn sender_pauses_until_headroom_is_empty() {
        let mut ingress = ingress(0.5);
        assert_eq!(take(&mut ingress, 0, 700), Room::Usual);
        // 800 B of the pool would exceed half of the 1,400 B that are free.
        assert_eq!(take(&mut ingress, 0, 200), Room::Headroom);
        assert_eq!(ingress.held(0, 0), (Held { bytes: 900, headroom: 200 }, false));
        assert!(ingress.is_over(SWITCH, 0, 0), "600 B are less than half of 1,400");
        ingress.set_paused(SWITCH, 0, 0, true);
        assert!(!ingress.is_under(SWITCH, 0, 0));
        ingress.release(SWITCH, 0, &of(150));
        assert!(!ingress.is_under(SWITCH, 0, 0));
        ingress.release(SWITCH, 0, &of(50));
        assert!(ingress.is_under(SWITCH, 0, 0), "with 50 B less than half of 1,400");
    }

    #[test]
    fn ingresses_never_exceed_the_pool() {
        let mut ingress = ingress(8.0);
        assert_eq!(take(&mut ingress, 0, 1_600), Room::Usual);
        assert_eq!(take(&mut ingress, 2, 601), Room::Headroom, "500 B are free");
        assert_eq!(take(&mut ingress, 4, 600), Room::Usual);
        assert_eq!(take(&mut ingress, 4, 1_001), Room::Nowhere);
    }

    #[test]
    fn forgotten_pauses_are_not_counted() {
        let mut ingress = ingress(0.5);
        ingress.set_paused(SWITCH, 0, 0, true);
        ingress.set_paused(SWITCH, 2, 0, true);
        ingress.forget(SWITCH, 0);
        assert!(ingress.has_paused(SWITCH));
        ingress.set_paused(SWITCH, 2, 0, false);
        assert!(!ingress.has_paused(SWITCH));
    }
}
