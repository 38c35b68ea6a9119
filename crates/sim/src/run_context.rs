//! State that all partitions of a run share.

use std::sync::Arc;

use tidegate_algos::Stack;
use tidegate_core::fabric::Node;
use tidegate_core::routes::Routes;
use tidegate_core::{FabricProperties, Span};

use crate::events::{FAR, MAX_SOURCES};
use crate::host::MAX_STACKS;
use crate::ports::checks;
use crate::ports::marking::Markings;
use crate::ports::port::longest_flight;
use crate::ports::scheduler::needs_scheduler;
use crate::setup::Setup;

/// State that all partitions of a run share.
pub(crate) struct RunContext {
    pub(crate) setup: Arc<Setup>,
    pub(crate) routes: Arc<Routes>,
    pub(crate) markings: Markings,
    /// Packets have room for hop records, because some protocol needs them.
    pub(crate) keeps_records: bool,
}

impl RunContext {
    /// # Errors
    /// If the fabric cannot carry the workload.
    pub(crate) fn of(setup: Setup) -> Result<RunContext, String> {
        let fabric = &setup.fabric;
        // Ports with a scheduler have wake-ups of their own.
        let wakes = fabric.circuits.is_some()
            || !fabric.rate_changes.is_empty()
            || fabric.switches.iter().any(needs_scheduler);
        let each = if wakes { 4 } else { 2 };
        let sources = fabric.links.len() * each + fabric.hosts.len() + 3;
        if sources > MAX_SOURCES {
            return Err(format!(
                "the fabric needs {sources} event sources for its links and hosts; at most \
                 {MAX_SOURCES} are supported"
            ));
        }
        if setup.stacks.len() > MAX_STACKS {
            let stacks = setup.stacks.len();
            return Err(format!(
                "the run has {stacks} protocols; at most {MAX_STACKS} are supported"
            ));
        }
        checks::check_fabric(fabric)?;
        refuse_slow_links(&setup)?;
        checks::check_circuits(&setup)?;
        let routes = Arc::new(Routes::of_sizes(fabric, setup.largest_sizes())?);
        let markings = Markings::of(fabric)?;
        let properties = FabricProperties::of(fabric, routes.reach(), setup.bdp_bytes);
        let keeps = |stack: &Stack| stack.requirements(&properties).telemetry.hop_records;
        let keeps_records = setup.stacks.iter().any(keeps);
        Ok(RunContext { setup: Arc::new(setup), routes, markings, keeps_records })
    }
}

/// # Errors
/// If a link carries a packet for longer than the horizon of the event list.
fn refuse_slow_links(setup: &Setup) -> Result<(), String> {
    let fabric = &setup.fabric;
    for port in 0..2 * fabric.links.len() as u32 {
        let link = &fabric.links[port as usize / 2];
        let latency = match fabric.port_ends(port).to {
            Node::Switch(s) => fabric.switches[s as usize].latency,
            Node::Host(_) => Span::ZERO,
        };
        let flight = longest_flight(fabric.slowest(port)).plus(link.delay).plus(latency);
        if flight > FAR {
            let name = |node| match node {
                Node::Host(h) => &fabric.hosts[h as usize],
                Node::Switch(s) => &fabric.switches[s as usize].name,
            };
            let (a, b) = (name(link.a), name(link.b));
            return Err(format!(
                "the link between {a} and {b} takes up to {flight} to carry a packet \
                 (serialisation, propagation and switch latency); at most {FAR} is allowed"
            ));
        }
    }
    Ok(())
}
