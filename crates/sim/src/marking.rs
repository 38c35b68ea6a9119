//! The different ways in which ports mark.

use std::collections::BTreeMap;

use tidegate_core::fabric::{Ecn, Fabric, MarkAt, Node, PortEnds};

/// A port that does not mark.
const NONE: u16 = u16::MAX;

/// What a fabric's ports do, once for all that do the same.
#[derive(Debug)]
pub(crate) struct Markings {
    ways: Vec<Ecn>,
    /// By the name of the port.
    of_port: Vec<u16>,
}

impl Markings {
    /// # Errors
    /// When there are more ways than a port can name.
    pub(crate) fn of(fabric: &Fabric) -> Result<Markings, String> {
        let mut known = BTreeMap::new();
        let mut markings = Markings { ways: Vec::new(), of_port: Vec::new() };
        for port in 0..2 * fabric.links.len() as u32 {
            let Some(ecn) = marking(fabric, port) else {
                markings.of_port.push(NONE);
                continue;
            };
            let numbers = [ecn.min_bytes, ecn.max_bytes, ecn.max_probability].map(f64::to_bits);
            let way = *known.entry((numbers, ecn.at == MarkAt::Enqueue)).or_insert_with(|| {
                markings.ways.push(ecn);
                markings.ways.len() - 1
            });
            match u16::try_from(way) {
                Ok(way) if way != NONE => markings.of_port.push(way),
                _ => return Err(format!("ports that mark in more than {NONE} different ways")),
            }
        }
        Ok(markings)
    }

    /// All of them.
    pub(crate) fn ways(&self) -> &[Ecn] {
        &self.ways
    }

    /// That of a port, by number.
    pub(crate) fn way(&self, port: u32) -> Option<u16> {
        Some(self.of_port[port as usize]).filter(|&way| way != NONE)
    }
}

/// How a port marks.
fn marking(fabric: &Fabric, port: u32) -> Option<Ecn> {
    let PortEnds { from: Node::Switch(from), to } = fabric.port_ends(port) else { return None };
    let ecn = fabric.switches[from as usize].ecn?;
    let marks = !ecn.core_only || matches!(to, Node::Switch(_));
    marks.then(|| ecn.at_rate(fabric.links[port as usize / 2].rate))
}
