//! Inputs of the functions that build patterns of traffic.

use tidegate_core::fabric::Fabric;

use super::RunSettings;
use super::hosts::Hosts;
use crate::inputs::Reader;

/// The parts of a scenario that patterns depend on.
pub(crate) struct Context<'a> {
    pub(crate) files: &'a Reader,
    pub(crate) fabric: &'a Fabric,
    pub(crate) hosts: &'a Hosts<'a>,
    pub(crate) run: RunSettings,
}

/// Returns the switch (of the first plane) and the rate in bit/s of each host, in order of host
/// number.
pub(super) fn host_links<'a>(context: &'a Context<'_>) -> impl Iterator<Item = (usize, f64)> + 'a {
    let mut links = vec![(usize::MAX, 0.0); context.hosts.len()];
    for link in &context.fabric.links {
        if let Some((host, switch)) = context.fabric.access(link) {
            let (first, rate) = &mut links[host as usize];
            *first = (*first).min(switch as usize);
            *rate += link.rate.as_bps() as f64;
        }
    }
    links.into_iter()
}
