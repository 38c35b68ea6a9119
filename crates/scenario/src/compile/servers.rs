//! Servers of several hosts (`hosts.server`), and traffic that their links do not carry.

use tidegate_core::Message;
use tidegate_core::fabric::{Fabric, Servers};
use tidegate_core::workload::{Flow, Sizes, Traffic, Workload};

use crate::error::Error;
use crate::read::table::Table;

/// Reads the servers of a fabric.
pub(crate) fn servers(hosts: &Table, fabric: &Fabric) -> Result<Option<Servers>, Error> {
    let Some(table) = hosts.find::<&Table>("server") else { return Ok(None) };
    let (number, all) = (table.get::<u64>("hosts"), fabric.hosts.len());
    if !(all as u64).is_multiple_of(number) {
        return Err(table.error("hosts", format!("a divisor of {all}, the number of hosts")));
    }
    let (rate, delay) = (table.get("rate"), table.get("delay"));
    Ok(Some(Servers { hosts: number as u32, rate, delay }))
}

/// Refuses unlimited flows within a server.
pub(crate) fn check_within(
    root: &Table,
    fabric: &Fabric,
    workload: &Workload,
) -> Result<(), Error> {
    let Some(servers) = fabric.servers else { return Ok(()) };
    let ends = |flow: &&Flow| flow.bytes == Message::UNLIMITED && servers.joins(flow.src, flow.dst);
    let listed = workload.flows.iter().find(ends).map(|flow| {
        let [src, dst] = [flow.src, flow.dst].map(|host| &fabric.hosts[host as usize]);
        ("flows", format!("an unlimited flow from {src} to {dst}, which are in one server"))
    });
    let is_unlimited = |traffic: &&Traffic| traffic.sizes == Sizes::Fixed(Message::UNLIMITED);
    let drawn = || {
        let found = "unlimited traffic, which can be between hosts of one server";
        workload.traffic.iter().find(is_unlimited).map(|_| ("traffic", found.to_owned()))
    };
    match listed.or_else(drawn) {
        None => Ok(()),
        Some((key, found)) => {
            let expected = "finite messages: links inside of a server (hosts.server) carry whole \
                            messages";
            Err(root.error_found(key, found, expected))
        }
    }
}

/// The share of messages that use links of the network.
///
/// # Errors
/// If it is 0: a load of the network refers to none of them.
pub(crate) fn known(table: &Table, share: f64) -> Result<f64, Error> {
    if share > 0.0 {
        return Ok(share);
    }
    let expected = "no load if all messages are between hosts of one server (hosts.server): they \
                    use no link of the network. Set rate, gap or interval instead";
    Err(table.error("load", expected))
}
