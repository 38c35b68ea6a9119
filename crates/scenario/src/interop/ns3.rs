//! `topology.txt` and `flow.txt` of HPCC's ns-3 simulator.
//!
//! Both contain numbers separated by blanks; line breaks have no meaning. Text after the declared
//! number of links or flows is a comment. Nodes are numbered from 0. The file lists the switches;
//! all other nodes are hosts. An error rate is the probability that an end of a link loses a packet
//! that it receives.

use std::fmt::Write;

use tidegate_core::fabric::Node;
use tidegate_core::workload::Arrival;
use tidegate_core::{Rate, Span, Time};

use super::joins::{End, Joins};
use super::words::{Words, words};
use super::{Input, LATEST, MOST_FLOW, Network, decimal};
use crate::compile::topology::{MOST_LINKS, MOST_NODES, Topology};
use crate::error::Error;
use crate::plan::Plan;
use crate::read::cell::Cell;

/// Payload of a packet, `PACKET_PAYLOAD_SIZE` of the configurations that come with the simulator.
const PAYLOAD: u64 = 1_000;

/// Reads a topology. Hosts become h0, h1, … and switches s0, s1, … in order of their numbers.
pub(super) fn fabric(input: &Input, warnings: &mut Vec<String>) -> Result<Network, Error> {
    let mut words = words(input);
    let nodes = words.next("number of nodes")?.whole(3, 2 * MOST_NODES)?;
    let switches = words.next("number of switches")?.whole(1, MOST_NODES.min(nodes - 2))?;
    let cell = words.next("number of links")?;
    let links = cell.whole(2, u64::MAX)?;
    // Three numbers, the switches, and five words a link.
    let follow = (input.text.split_whitespace().count() as u64).saturating_sub(3 + switches) / 5;
    if links > follow {
        return Err(cell.error_found(
            format!("{links} links, of which {follow} follow"),
            format!("as many as follow: write {follow} here, or add the lines that are missing"),
        ));
    }
    if links > MOST_LINKS {
        let expected = format!("at most {MOST_LINKS} links: import a smaller topology");
        return Err(cell.error(expected));
    }
    let mut is_switch = vec![false; nodes as usize];
    for _ in 0..switches {
        let cell = words.next("number of a switch")?;
        let seen = &mut is_switch[cell.whole(0, nodes - 1)? as usize];
        if std::mem::replace(seen, true) {
            return Err(cell.error("a switch that is not yet in the list"));
        }
    }
    let mut topology = Topology::default();
    let number = |is_switch: &bool| match is_switch {
        true => topology.add_switch(format!("s{}", topology.switches.len())),
        false => {
            topology.hosts.push(format!("h{}", topology.hosts.len()));
            Node::Host(topology.hosts.len() as u32 - 1)
        }
    };
    let numbers: Vec<Node> = is_switch.iter().map(number).collect();
    let mut joins = Joins::new(input, topology)?;
    let mut loss = None;
    for _ in 0..links {
        let ends = [node(&mut words, "src", &numbers)?, node(&mut words, "dst", &numbers)?];
        let rate = words.next("rate")?.rate(Rate::mbps(1), Rate::gbps(10_000))?;
        let delay = words.next("delay")?.span(Span::ZERO, Span::s(1))?;
        let cell = words.next("error_rate")?;
        let own = cell.number(0.0, 1.0)?;
        if *loss.get_or_insert(own) != own {
            let expected = format!(
                "{}, the rate of the earlier links: all links must have the same",
                loss.unwrap_or(0.0)
            );
            return Err(cell.error(expected));
        }
        joins.join(ends, rate, delay)?;
    }
    let named = |node| {
        let at = numbers.iter().position(|known| *known == node);
        at.map_or(String::new(), |number| format!("node {number}"))
    };
    let topology = joins.done(input, named, warnings)?;
    let comment = "Hosts h0, h1, … and switches s0, s1, … are in order of node numbers. The MTU is \
                   the payload of the simulator's own configurations.";
    let loss = loss.unwrap_or(0.0);
    Ok(Network { topology, numbers, mtu: Some(PAYLOAD), loss, comment: comment.into() })
}

fn node<'a>(
    words: &mut Words<'a, impl Iterator<Item = Cell<'a>>>,
    heading: &'a str,
    numbers: &[Node],
) -> Result<End<'a>, Error> {
    let cell = words.next(heading)?;
    let node = numbers[cell.whole(0, numbers.len() as u64 - 1)? as usize];
    Ok(End { cell, node })
}

/// Reads flows between the nodes of these numbers.
pub(super) fn flows(
    input: &Input,
    numbers: &[Node],
    warnings: &mut Vec<String>,
) -> Result<Vec<Arrival>, Error> {
    let mut words = words(input);
    let count = words.next("number of flows")?.whole(1, u32::MAX.into())?;
    let mut arrivals: Vec<Arrival> = Vec::new();
    for _ in 0..count {
        let [src, dst] = [node(&mut words, "src", numbers)?, node(&mut words, "dst", numbers)?];
        let host = |end: End<'_>| match end.node {
            Node::Host(host) => Ok(host),
            Node::Switch(_) => Err(end.cell.error("the number of a host: this node is a switch")),
        };
        let (from, to) = (host(src)?, host(dst)?);
        if from == to {
            return Err(dst.cell.error("a host other than src"));
        }
        // Priority group and port, which a scenario cannot express.
        words.next("priority group")?.whole(0, 7)?;
        words.next("destination port")?.whole(0, 65_535)?;
        let bytes = words.next("size")?.whole(1, MOST_FLOW)?;
        let cell = words.next("start_time")?;
        let at = Time::ZERO + cell.time("s", LATEST)?;
        if arrivals.last().is_some_and(|last| last.at > at) {
            return Err(cell.error("flows in order of start time: an earlier flow starts later"));
        }
        arrivals.push(Arrival { at, src: from, dst: to, bytes });
    }
    warnings.push(format!(
        "{}: priority groups and ports are omitted: the protocol of a flow sets its priority",
        input.name
    ));
    if let Some(more) = words.rest().filter(|word| word.text.parse::<u64>().is_ok()) {
        warnings.push(format!(
            "{}:{}: text after the {count} flows that the header declares is ignored",
            input.name, more.line
        ));
    }
    Ok(arrivals)
}

/// Returns the files of a plan. Hosts are numbered first, then switches.
pub(super) fn write(plan: &Plan, arrivals: &[Arrival]) -> Vec<(String, String)> {
    let (fabric, hosts) = (&plan.fabric, plan.fabric.hosts.len());
    let (switches, links) = (fabric.switches.len(), fabric.links.len());
    let mut topology = format!("{} {switches} {links}\n", hosts + switches);
    let numbers: Vec<String> = (hosts..hosts + switches).map(|number| number.to_string()).collect();
    topology += &numbers.join(" ");
    topology.push('\n');
    let number = |node| match node {
        Node::Host(host) => host as usize,
        Node::Switch(switch) => hosts + switch as usize,
    };
    for link in &fabric.links {
        let (a, b, loss) = (number(link.a), number(link.b), plan.faults.loss);
        let _ = writeln!(topology, "{a} {b} {} {} {loss}", rate(link.rate), link.delay);
    }
    let mut flows = format!("{}\n", arrivals.len());
    for Arrival { at, src, dst, bytes } in arrivals {
        let _ = writeln!(flows, "{src} {dst} 3 100 {bytes} {}", decimal(*at, Span::s(1)));
    }
    vec![("topology.txt".into(), topology), ("flow.txt".into(), flows)]
}

/// Formats a rate in units of ns-3.
fn rate(rate: Rate) -> String {
    match rate.as_bps() {
        bps if bps.is_multiple_of(1_000_000_000) => format!("{}Gbps", bps / 1_000_000_000),
        bps => format!("{bps}bps"),
    }
}
