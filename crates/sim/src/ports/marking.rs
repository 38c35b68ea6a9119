//! ECN configurations of ports.

use std::collections::BTreeMap;

use tidegate_core::fabric::{Ecn, Fabric, MarkAt, Node, PortEnds};

/// A port that does not mark.
const NONE: u16 = u16::MAX;

/// ECN configurations of a fabric's ports, each stored once.
#[derive(Debug)]
pub(crate) struct Markings {
    ways: Vec<Ecn>,
    /// Configuration by port.
    of_port: Vec<u16>,
}

impl Markings {
    /// # Errors
    /// If there are more configurations than a port can refer to.
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
                _ => {
                    return Err(format!(
                        "ports have more than {NONE} different ECN configurations: use fewer \
                         thresholds or link rates"
                    ));
                }
            }
        }
        Ok(markings)
    }

    /// All configurations.
    pub(crate) fn ways(&self) -> &[Ecn] {
        &self.ways
    }

    /// Index of a port's configuration.
    pub(crate) fn way(&self, port: u32) -> Option<u16> {
        Some(self.of_port[port as usize]).filter(|&way| way != NONE)
    }
}

/// ECN configuration of a port.
fn marking(fabric: &Fabric, port: u32) -> Option<Ecn> {
    let PortEnds { from: Node::Switch(from), to } = fabric.port_ends(port) else { return None };
    let ecn = fabric.switches[from as usize].ecn?;
    let marks = !ecn.core_only || matches!(to, Node::Switch(_));
    marks.then(|| ecn.at_rate(fabric.links[port as usize / 2].rate))
}
