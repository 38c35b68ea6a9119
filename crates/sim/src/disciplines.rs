//! What a fabric says of its ports' queues, checked: nothing of it is left out silently.

use tidegate_core::fabric::{
    Buffer, CreditQueue, Discipline, Fabric, Node, Pausing, Queues, ServiceOrder, Switch,
};
use tidegate_core::faults::{Failing, Outage};
use tidegate_core::{MIN_WIRE_BYTES, Rate};

use crate::setup::Setup;

/// # Errors
/// A queue that is not there, weights for another number of queues, a shaped queue that cannot send
/// a byte, destinations that are not the fabric's hosts, pauses that would never come, for which
/// the buffer is too small, or that queues by destination could not tell apart, queues for credits
/// that let none through or stand beside pauses, rates of ports that are no switch's or not in
/// order of time.
pub(crate) fn check(fabric: &Fabric) -> Result<(), String> {
    for switch in &fabric.switches {
        if let Some(discipline) = &switch.discipline {
            check_queues(discipline, fabric.hosts.len())
                .map_err(|why| format!("queues of switch {}: {why}", switch.name))?;
        }
    }
    check_pauses(fabric)?;
    check_credit_queues(fabric)?;
    let by_destination = |switch: &&Switch| {
        let queues = switch.discipline.as_ref().map(|discipline| &discipline.queues);
        matches!(queues, Some(Queues::ByDestination(_)))
    };
    let pauses = fabric.switches.iter().find(|switch| switch.pausing.is_some());
    if let (Some(pauses), Some(other)) = (pauses, fabric.switches.iter().find(by_destination)) {
        return Err(format!(
            "switch {} pauses priorities, and switch {} has queues by destination",
            pauses.name, other.name
        ));
    }
    if !fabric.rate_changes.is_sorted_by_key(|change| change.at) {
        return Err("rates change in no order of time".to_owned());
    }
    let is_switch = |port: u32| {
        port < 2 * fabric.links.len() as u32
            && matches!(fabric.port_ends(port).from, Node::Switch(_))
    };
    match fabric.rate_changes.iter().find(|change| !is_switch(change.port)) {
        Some(change) => Err(format!("port {}, whose rate changes, is no switch's", change.port)),
        None => Ok(()),
    }
}

/// # Errors
/// A switch that would never pause, or whose buffer is all kept for what comes after.
fn check_pauses(fabric: &Fabric) -> Result<(), String> {
    for (switch, kept) in fabric.switches.iter().zip(fabric.kept_bytes()) {
        let Some(pausing) = switch.pausing else { continue };
        let name = &switch.name;
        let Buffer::Shared { bytes, .. } = switch.buffer else {
            return Err(format!("switch {name} pauses, and its buffer has no end"));
        };
        if pausing.classes == 0 || pausing.alpha.is_nan() || pausing.alpha <= 0.0 {
            let Pausing { classes, alpha, .. } = pausing;
            return Err(format!("switch {name} pauses classes {classes:#b} at {alpha} times"));
        }
        if kept >= bytes {
            return Err(format!(
                "switch {name} keeps {kept} B for what comes in when it pauses, of {bytes} B"
            ));
        }
    }
    Ok(())
}

/// # Errors
/// A queue for credits that never lets one through, or beside switches that pause: what came in is
/// not counted for credits.
fn check_credit_queues(fabric: &Fabric) -> Result<(), String> {
    let pauses = fabric.switches.iter().find(|switch| switch.pausing.is_some());
    for switch in &fabric.switches {
        let Some(CreditQueue { share, bytes, burst_bytes }) = switch.credit_queue else { continue };
        let name = &switch.name;
        let least = MIN_WIRE_BYTES;
        if share.is_nan() || share <= 0.0 || share >= 1.0 || bytes < least || burst_bytes < least {
            return Err(format!(
                "credits at switch {name} have {share} of a link, {bytes} B of queue and bursts of \
                 {burst_bytes} B"
            ));
        }
        if let Some(pauses) = pauses {
            let pauses = &pauses.name;
            return Err(format!(
                "switch {name} has queues for credits, and switch {pauses} pauses"
            ));
        }
    }
    Ok(())
}

/// # Errors
/// Circuits that do not fit their fabric, or beside what ports of racks cannot do with them: queues
/// and pauses of their own, rates that change, links that fail.
pub(crate) fn check_circuits(setup: &Setup) -> Result<(), String> {
    let fabric = &setup.fabric;
    let Some(circuits) = &fabric.circuits else { return Ok(()) };
    circuits.check(fabric)?;
    let queues = |switch: &Switch| {
        let Switch { discipline, pausing, credit_queue, .. } = switch;
        discipline.is_some() || pausing.is_some() || credit_queue.is_some()
    };
    if let Some(switch) = fabric.switches.iter().find(|switch| queues(switch)) {
        return Err(format!("switch {} has queues of its own, beside circuits", switch.name));
    }
    let between = |link: u32| {
        let link = &fabric.links[link as usize];
        matches!((link.a, link.b), (Node::Switch(_), Node::Switch(_)))
    };
    let fails = |outage: &Outage| matches!(outage.of, Failing::Link(link) if between(link));
    if setup.faults.flaps.is_some() || setup.faults.outages.iter().any(fails) {
        return Err("links between switches that fail, beside circuits".into());
    }
    match fabric.rate_changes.first() {
        Some(change) => Err(format!("port {} changes its rate, beside circuits", change.port)),
        None => Ok(()),
    }
}

fn check_queues(discipline: &Discipline, hosts: usize) -> Result<(), String> {
    let queues = match &discipline.queues {
        Queues::ByPriority => 8,
        Queues::ByDestination(of) if of.len() != hosts => {
            return Err(format!("{} destinations for {hosts} hosts", of.len()));
        }
        Queues::ByDestination(of) => of.iter().max().map_or(0, |&most| most as usize + 1),
    };
    if let ServiceOrder::Weighted(weights) = &discipline.service
        && weights.len() != queues
    {
        return Err(format!("{} weights for {queues} queues", weights.len()));
    }
    for limit in &discipline.limits {
        if limit.queue as usize >= queues {
            return Err(format!("a limit for queue {} of {queues}", limit.queue));
        }
        if limit.rate == Rate::default() {
            return Err(format!("queue {} may send nothing", limit.queue));
        }
    }
    Ok(())
}
