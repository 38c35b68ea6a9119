//! Validation of credit queues, rates and circuits of a fabric. Nothing that the engine cannot
//! simulate is ignored silently.

use tidegate_core::fabric::{CreditQueue, Fabric, Node, PortEnds};
use tidegate_core::faults::{Failing, Outage};
use tidegate_core::{MIN_WIRE_BYTES, Rate};

use crate::ports::ingress;
use crate::ports::scheduler::needs_scheduler;
use crate::setup::Setup;

/// # Errors
/// If PFC could never pause or has too small a buffer; if credit queues let nothing through or are
/// combined with PFC; if rate changes are not in order of time; or if a port has no rate, or the
/// directions of a host's link have different rates.
pub(crate) fn check_fabric(fabric: &Fabric) -> Result<(), String> {
    ingress::check(fabric)?;
    check_credit_queues(fabric)?;
    if !fabric.rate_changes.is_sorted_by_key(|change| change.at) {
        return Err("rate changes are not in order of time: sort them".to_owned());
    }
    check_rates(fabric)
}

/// # Errors
/// If a port has no rate at some time, or if the two directions of a host's link differ: base RTTs
/// assume that they are equal.
fn check_rates(fabric: &Fabric) -> Result<(), String> {
    if !fabric.port_rates.is_sorted_by(|a, b| a.port < b.port) {
        return Err("rates of ports are not in ascending order of ports: sort them".to_owned());
    }
    let ports = 2 * fabric.links.len() as u32;
    let changes = fabric.rate_changes.iter().map(|change| (change.port, change.rate));
    let rates = fabric.port_rates.iter().map(|own| (own.port, own.rate));
    for (port, rate) in rates.chain(changes) {
        if port >= ports || rate == Rate::default() {
            return Err(format!(
                "port {port} with rate {rate}: a rate above zero, and a port below {ports} are \
                 needed"
            ));
        }
    }
    let is_switch = |node| matches!(node, Node::Switch(_));
    let own = fabric.port_rates.iter().map(|own| own.port).find(|&port| {
        let PortEnds { from, to } = fabric.port_ends(port);
        !is_switch(from) || !is_switch(to)
    });
    match own {
        Some(port) => Err(format!(
            "port {port} has a rate of its own: only links between switches can have different \
             rates in their two directions"
        )),
        None => Ok(()),
    }
}

/// # Errors
/// If a credit queue never lets a credit through.
fn check_credit_queues(fabric: &Fabric) -> Result<(), String> {
    for switch in &fabric.switches {
        let Some(CreditQueue { share, bytes, burst_bytes }) = switch.credit_queue else { continue };
        let name = &switch.name;
        let least = MIN_WIRE_BYTES;
        if share.is_nan() || share <= 0.0 || share >= 1.0 || bytes < least || burst_bytes < least {
            return Err(format!(
                "switch {name}: credit queue with share {share}, {bytes} B and bursts of \
                 {burst_bytes} B; the share must be in (0, 1), sizes at least {least} B"
            ));
        }
    }
    Ok(())
}

/// # Errors
/// If circuits do not fit their fabric, or are combined with PFC, credit queues, rate changes or
/// failing links between switches.
pub(crate) fn check_circuits(setup: &Setup) -> Result<(), String> {
    let fabric = &setup.fabric;
    let Some(circuits) = &fabric.circuits else { return Ok(()) };
    circuits.check(fabric)?;
    if let Some(switch) = fabric.switches.iter().find(|switch| needs_scheduler(switch)) {
        return Err(format!(
            "switch {} has PFC or a credit queue: not supported with circuits",
            switch.name
        ));
    }
    let between = |link: u32| {
        let link = &fabric.links[link as usize];
        matches!((link.a, link.b), (Node::Switch(_), Node::Switch(_)))
    };
    let fails = |outage: &Outage| matches!(outage.of, Failing::Link(link) if between(link));
    if setup.faults.flaps.is_some() || setup.faults.outages.iter().any(fails) {
        return Err("failures of links between switches are not supported with circuits".into());
    }
    match fabric.rate_changes.first() {
        Some(change) => {
            Err(format!("rate change of port {}: not supported with circuits", change.port))
        }
        None => Ok(()),
    }
}
