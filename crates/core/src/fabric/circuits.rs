//! Circuits between racks: links that are up by schedule.
//!
//! An optical switch joins racks in a **matching**: each rack sends to one other rack, or to none.
//! A matching lasts for a **day**. In the following **night** the switch changes to the next
//! matching, and nothing is sent. A day and its night form a slot. The slots of all matchings form
//! a week, which repeats. The first day begins with the run. See Mukerjee et al., "Adapting TCP for
//! Reconfigurable Datacenter Networks", NSDI 2020.

use alloc::collections::BTreeSet;
use alloc::format;
use alloc::string::String;
use alloc::vec;
use alloc::vec::Vec;

use crate::fabric::{Fabric, Link, Node};
use crate::{Span, Time};

/// Circuits of a fabric. Its first switches are the racks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Circuits {
    /// First link that is a circuit. There is at most one circuit per pair of racks, and the
    /// schedule determines when each direction is up. Links with lower indices form the packet
    /// network.
    pub first_link: u32,
    /// Duration of a matching.
    pub day: Span,
    /// Time between two days.
    pub night: Span,
    /// By slot of a week and rack: the rack that it sends to. Its own index if it sends to none.
    pub matchings: Vec<Vec<u16>>,
    /// Capacity in wire bytes of the queue for a rack. Packets that do not fit are dropped.
    pub queue_bytes: u32,
    /// The same from `ahead` before a day of the rack's circuit until the end of that day.
    pub enlarged_bytes: u32,
    /// Time before a day from which a rack announces its circuit (prebuffering).
    pub ahead: Span,
}

impl Circuits {
    /// Number of racks.
    pub fn racks(&self) -> usize {
        self.matchings.first().map_or(0, Vec::len)
    }

    /// Duration of a day and its night.
    pub fn slot(&self) -> Span {
        self.day + self.night
    }

    /// Duration of all slots.
    pub fn week(&self) -> Span {
        self.slot().times(self.matchings.len() as u64)
    }

    /// Slots of a week in which a circuit leads from one rack to another.
    pub fn days(&self, from: u32, to: u32) -> Vec<u32> {
        let leads = |matching: &Vec<u16>| {
            from != to && matching.get(from as usize).is_some_and(|&peer| peer as u32 == to)
        };
        (0..).zip(&self.matchings).filter(|(_, m)| leads(m)).map(|(slot, _)| slot).collect()
    }

    /// Time that a circuit with these `days` has been up since the start of the run.
    pub fn up_until(&self, days: &[u32], until: Time) -> Span {
        let (slot, week) = (self.slot().as_ps(), self.week().as_ps().max(1));
        let (weeks, rest) = (until.as_ps() / week, until.as_ps() % week);
        let of_week = |day: &u32| rest.saturating_sub(*day as u64 * slot).min(self.day.as_ps());
        let whole = weeks * days.len() as u64 * self.day.as_ps();
        Span::ps(whole + days.iter().map(of_week).sum::<u64>())
    }

    /// Two racks that send to the same rack in a matching, if any.
    pub fn conflict(matching: &[u16]) -> Option<(usize, usize)> {
        let mut first = vec![None; matching.len()];
        for (rack, &to) in matching.iter().enumerate() {
            if let Some(taken) = first.get_mut(to as usize)
                && let Some(other) = taken.replace(rack)
            {
                return Some((other, rack));
            }
        }
        None
    }

    /// The link of a rack to another switch in the packet network; `None` if there is not exactly
    /// one.
    pub fn uplink(&self, links: &[Link], rack: u32) -> Option<u32> {
        let own = |link: &Link| match (link.a, link.b) {
            (Node::Switch(a), Node::Switch(b)) => a == rack || b == rack,
            _ => false,
        };
        let packet = links.iter().take(self.first_link as usize);
        let mut own = (0..).zip(packet).filter(|(_, link)| own(link)).map(|(number, _)| number);
        own.next().filter(|_| own.next().is_none())
    }

    /// Checks that the circuits fit the fabric.
    ///
    /// # Errors
    /// If the day has no duration; if matchings have different sizes, two racks send to the same
    /// rack, or a rack sends to one that does not exist; if a circuit has no link, or a link is not
    /// between two racks; or if a rack does not have exactly one link to a switch of the packet
    /// network.
    pub fn check(&self, fabric: &Fabric) -> Result<(), String> {
        let racks = self.racks();
        if self.day == Span::ZERO || racks < 2 || racks > fabric.switches.len() {
            return Err(format!(
                "circuits need at least two racks (switches) and a day above zero: found {racks} \
                 racks and days of {}",
                self.day
            ));
        }
        for (slot, matching) in self.matchings.iter().enumerate() {
            if matching.len() != racks || matching.iter().any(|&to| to as usize >= racks) {
                return Err(format!("matching {slot} does not list each of {racks} racks"));
            }
            if let Some((a, b)) = Circuits::conflict(matching) {
                return Err(format!(
                    "matching {slot}: racks {a} and {b} both send to rack {}",
                    matching[a]
                ));
            }
        }
        let ports = self.ports(fabric);
        let joined: BTreeSet<_> = ports.iter().map(|&(_, from, to)| (from, to)).collect();
        let pairs = self.matchings.iter().flat_map(|matching| (0u32..).zip(matching));
        for (from, to) in pairs.map(|(from, &to)| (from, to as u32)) {
            if from != to && !joined.contains(&(from, to)) {
                return Err(format!("the circuit from rack {from} to rack {to} has no link"));
            }
        }
        let circuits = fabric.links.len().saturating_sub(self.first_link as usize);
        if joined.len() != 2 * circuits {
            return Err("a circuit link does not join two racks, or duplicates another one".into());
        }
        match (0..racks as u32).find(|&rack| self.uplink(&fabric.links, rack).is_none()) {
            Some(rack) => Err(format!("rack {rack} needs exactly one link to the packet network")),
            None => Ok(()),
        }
    }

    /// Ports of circuits, each with the racks that it leads from and to.
    pub fn ports(&self, fabric: &Fabric) -> Vec<(u32, u32, u32)> {
        let racks = self.racks() as u32;
        let all = 2 * self.first_link..2 * fabric.links.len() as u32;
        let between = |port: u32| {
            let ends = fabric.port_ends(port);
            match (ends.from, ends.to) {
                (Node::Switch(a), Node::Switch(b)) if a < racks && b < racks && a != b => {
                    Some((port, a, b))
                }
                _ => None,
            }
        };
        all.filter_map(between).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn three() -> Circuits {
        Circuits {
            first_link: 0,
            day: Span::us(90),
            night: Span::us(10),
            matchings: vec![vec![1, 2, 0], vec![2, 0, 1], vec![1, 0, 2]],
            queue_bytes: u32::MAX,
            enlarged_bytes: u32::MAX,
            ahead: Span::ZERO,
        }
    }

    #[test]
    fn circuit_is_up_in_its_days_only() {
        let circuits = three();
        assert_eq!((circuits.days(0, 1), circuits.days(1, 0)), (vec![0, 2], vec![1, 2]));
        assert_eq!(circuits.days(2, 2), Vec::<u32>::new());
        let up = |us| circuits.up_until(&[0, 2], Time::us(us));
        let expected = [(0, 0), (45, 45), (95, 90), (200, 90), (250, 140), (299, 180), (310, 190)];
        for (at, us) in expected {
            assert_eq!(up(at), Span::us(us), "at {at} us");
        }
        assert_eq!(up(3_000_000_000), Span::us(180 * 10_000_000));
    }

    #[test]
    fn conflict_returns_both_racks() {
        assert_eq!(Circuits::conflict(&[1, 2, 0, 3]), None);
        assert_eq!(Circuits::conflict(&[1, 3, 0, 3]), Some((1, 3)));
    }
}
