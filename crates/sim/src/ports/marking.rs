//! ECN configurations of ports.

use std::collections::BTreeMap;

use tidegate_core::Rate;
use tidegate_core::fabric::{Ecn, Fabric, MarkAt, Node, PortEnds};

/// A port that does not mark.
const NONE: u16 = u16::MAX;

/// ECN configurations of a fabric's ports, each stored once.
#[derive(Debug)]
pub(crate) struct Markings {
    configurations: Vec<Ecn>,
    /// Configuration by port.
    of_port: Vec<u16>,
    /// Configuration of the port from each rate change on.
    of_change: Vec<u16>,
}

impl Markings {
    /// # Errors
    /// If there are more configurations than a port can refer to.
    pub(crate) fn of(fabric: &Fabric) -> Result<Markings, String> {
        let mut known = BTreeMap::new();
        let mut configurations = Vec::new();
        let mut index_of = |port: u32, rate: Rate| {
            let Some(ecn) = marking(fabric, port, rate) else { return Ok(NONE) };
            let numbers = [ecn.min_bytes, ecn.max_bytes, ecn.max_probability].map(f64::to_bits);
            let index = *known.entry((numbers, ecn.at == MarkAt::Enqueue)).or_insert_with(|| {
                configurations.push(ecn);
                configurations.len() - 1
            });
            u16::try_from(index).ok().filter(|&index| index != NONE).ok_or_else(|| {
                format!(
                    "ports have more than {NONE} different ECN configurations: use fewer \
                     thresholds or link rates"
                )
            })
        };
        let ports = 0..2 * fabric.links.len() as u32;
        let of_port =
            ports.map(|port| index_of(port, fabric.rate(port))).collect::<Result<_, _>>()?;
        let changes = fabric.rate_changes.iter();
        let of_change =
            changes.map(|change| index_of(change.port, change.rate)).collect::<Result<_, _>>()?;
        Ok(Markings { configurations, of_port, of_change })
    }

    /// All configurations.
    pub(crate) fn configurations(&self) -> &[Ecn] {
        &self.configurations
    }

    /// Returns whether a configuration marks also packets that find the port free. A port may
    /// change to it when its rate changes.
    pub(crate) fn any_marks_all(&self) -> bool {
        self.configurations.iter().any(|ecn| ecn.min_bytes <= 0.0)
    }

    /// Index of the configuration of a port from a rate change on, by the index of the change.
    pub(crate) fn configuration_from(&self, change: usize) -> Option<u16> {
        Some(self.of_change[change]).filter(|&index| index != NONE)
    }

    /// Index of a port's configuration.
    pub(crate) fn configuration(&self, port: u32) -> Option<u16> {
        Some(self.of_port[port as usize]).filter(|&index| index != NONE)
    }
}

/// ECN configuration of a port at a rate.
fn marking(fabric: &Fabric, port: u32, rate: Rate) -> Option<Ecn> {
    let PortEnds { from: Node::Switch(from), to } = fabric.port_ends(port) else { return None };
    let ecn = fabric.switches[from as usize].ecn?;
    let marks = !ecn.core_only || fabric.host_at(to).is_none();
    marks.then(|| ecn.at_rate(rate))
}
