//! A list of links: one line `a b [rate [delay]]` per link, with any names.
//!
//! `#` begins a comment. Nodes with one link are hosts, others are switches. A line `hosts: NAMES`
//! or `switches: NAMES` sets the type of its nodes, and the order of their numbers.

use std::collections::BTreeMap;
use std::fmt::Write;

use tidegate_core::fabric::Node;
use tidegate_core::workload::Arrival;
use tidegate_core::{Rate, Span};

use super::joins::{End, Joins};
use super::words::rows;
use super::{Input, Network, decimal};
use crate::compile::csv;
use crate::compile::graph::is_name;
use crate::compile::topology::Topology;
use crate::error::Error;
use crate::plan::Plan;
use crate::read::cell::Cell;

/// Default rate of a link.
const RATE: Rate = Rate::gbps(100);
const DELAY: Span = Span::us(1);
/// Line width of a file.
const WIDTH: usize = 100;

/// A node whose lines are being read.
#[derive(Clone, Copy)]
struct Named<'a> {
    first: Cell<'a>,
    links: u32,
    is_host: Option<bool>,
}

/// Nodes by name, numbered in order of occurrence.
#[derive(Default)]
struct Nodes<'a> {
    numbers: BTreeMap<&'a str, usize>,
    all: Vec<Named<'a>>,
}

impl<'a> Nodes<'a> {
    fn number(&mut self, cell: Cell<'a>) -> Result<usize, Error> {
        if !is_name(cell.text) {
            return Err(cell
                .error("a name of 1 to 64 characters, each a letter, a digit or one of _ - . :"));
        }
        let next = self.all.len();
        let number = *self.numbers.entry(cell.text).or_insert(next);
        if number == next {
            self.all.push(Named { first: cell, links: 0, is_host: None });
        }
        Ok(number)
    }
}

/// Reads a list of links.
pub(super) fn fabric(input: &Input, warnings: &mut Vec<String>) -> Result<Network, Error> {
    let mut nodes = Nodes::default();
    let mut links = Vec::new();
    let mut defaults = [0; 2];
    for words in rows(input) {
        let mut words = words.take_while(|word| !word.text.starts_with('#'));
        let Some(first) = words.next() else { continue };
        if ["hosts:", "switches:"].contains(&first.text) {
            for name in words {
                let name = name.named(first.text.trim_end_matches(':'));
                let number = nodes.number(name)?;
                let earlier = nodes.all[number].is_host.replace(first.text == "hosts:");
                if earlier.is_some() {
                    return Err(name.error("a node that no earlier hosts: or switches: line names"));
                }
            }
            continue;
        }
        let second =
            words.next().ok_or_else(|| first.error("the name of a second node after it"))?;
        let ends = [first.named("a"), second.named("b")];
        let [rate, delay] = [words.next(), words.next()];
        if let Some(more) = words.next() {
            return Err(more.error("the end of the line: a link is `a b [rate [delay]]`"));
        }
        defaults[0] += usize::from(rate.is_none());
        defaults[1] += usize::from(delay.is_none());
        let rate = rate.map(|cell| cell.named("rate").rate(Rate::mbps(1), Rate::gbps(10_000)));
        let delay = delay.map(|cell| cell.named("delay").span(Span::ZERO, Span::s(1)));
        let (rate, delay) =
            (rate.transpose()?.unwrap_or(RATE), delay.transpose()?.unwrap_or(DELAY));
        let numbers = [nodes.number(ends[0])?, nodes.number(ends[1])?];
        for number in numbers {
            nodes.all[number].links += 1;
        }
        links.push((ends, numbers, rate, delay));
    }
    let mut topology = Topology::default();
    let as_node = |named: &Named<'_>| {
        let name = named.first.text.to_owned();
        if named.is_host.unwrap_or(named.links == 1) {
            topology.hosts.push(name);
            Node::Host(topology.hosts.len() as u32 - 1)
        } else {
            topology.add_switch(name)
        }
    };
    let as_nodes: Vec<Node> = nodes.all.iter().map(as_node).collect();
    let mut joins = Joins::new(input, topology)?;
    for (cells, numbers, rate, delay) in links {
        let end = |i: usize| End { cell: cells[i], node: as_nodes[numbers[i]] };
        joins.join([end(0), end(1)], rate, delay)?;
    }
    let named = |node| {
        let at = as_nodes.iter().position(|known| *known == node);
        at.map_or(String::new(), |number| nodes.all[number].first.text.to_owned())
    };
    let topology = joins.done(input, named, warnings)?;
    let numbers = (0..topology.hosts.len() as u32).map(Node::Host).collect();
    let mut comment =
        "Nodes with one link are hosts, unless the file declares their type.".to_owned();
    for (count, what, value) in
        [(defaults[0], "rate", RATE.to_string()), (defaults[1], "delay", DELAY.to_string())]
    {
        if count > 0 {
            let _ = write!(comment, " {count} links without {what} have {value}.");
        }
    }
    Ok(Network { topology, numbers, mtu: None, loss: 0.0, comment })
}

/// Returns the files of a plan.
pub(super) fn write(plan: &Plan, arrivals: &[Arrival]) -> Vec<(String, String)> {
    let fabric = &plan.fabric;
    let mut text = "# a b rate delay\n".to_owned();
    names(&mut text, "hosts:", fabric.hosts.iter());
    names(&mut text, "switches:", fabric.switches.iter().map(|switch| &switch.name));
    let name = |node| match node {
        Node::Host(host) => &fabric.hosts[host as usize],
        Node::Switch(switch) => &fabric.switches[switch as usize].name,
    };
    for link in &fabric.links {
        let _ = writeln!(text, "{} {} {} {}", name(link.a), name(link.b), link.rate, link.delay);
    }
    let mut trace = csv::TRACE.join(",") + "\n";
    for Arrival { at, src, dst, bytes } in arrivals {
        let [src, dst] = [src, dst].map(|host| &fabric.hosts[*host as usize]);
        let _ = writeln!(trace, "{},{src},{dst},{bytes}", decimal(*at, Span::us(1)));
    }
    vec![("edges.txt".into(), text), ("flows.csv".into(), trace)]
}

/// Appends names over several lines.
fn names<'a>(text: &mut String, word: &str, names: impl Iterator<Item = &'a String>) {
    let mut column = WIDTH;
    for name in names {
        if column + 1 + name.len() > WIDTH {
            if column < WIDTH || !text.ends_with('\n') {
                text.push('\n');
            }
            text.push_str(word);
            column = word.len();
        }
        text.push(' ');
        text.push_str(name);
        column += 1 + name.len();
    }
    text.push('\n');
}
