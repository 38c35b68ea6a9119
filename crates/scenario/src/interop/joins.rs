//! Links that are added and checked one by one, so that errors name their lines.

use tidegate_core::fabric::{Link, Node};
use tidegate_core::{Rate, Span};

use super::Input;
use crate::compile::graph;
use crate::compile::topology::{MOST_LINKS, MOST_NODES, Topology};
use crate::error::Error;
use crate::read::cell::Cell;

/// One end of a link: its place in the file, and the node.
#[derive(Clone, Copy)]
pub(super) struct End<'a> {
    pub(super) cell: Cell<'a>,
    pub(super) node: Node,
}

/// A topology under construction.
pub(super) struct Joins {
    topology: Topology,
    /// Line of each host's link, 0 for none.
    linked: Vec<usize>,
    /// Ends, the smaller first, and line of each link between switches.
    pairs: Vec<([Node; 2], usize)>,
}

impl Joins {
    /// Starts with nodes without links.
    ///
    /// # Errors
    /// If there are too few or too many nodes.
    pub(super) fn new(input: &Input, topology: Topology) -> Result<Joins, Error> {
        let (hosts, switches) = (topology.hosts.len() as u64, topology.switches.len() as u64);
        for (number, least, what) in [(hosts, 2, "hosts"), (switches, 1, "switches")] {
            if !(least..=MOST_NODES).contains(&number) {
                let expected = format!("{least} to {MOST_NODES} {what}");
                return Err(Error::whole(&input.name, format!("{number} {what}"), expected));
            }
        }
        let linked = vec![0; topology.hosts.len()];
        Ok(Joins { topology, linked, pairs: Vec::new() })
    }

    /// Adds a link.
    pub(super) fn join(
        &mut self,
        [a, b]: [End<'_>; 2],
        rate: Rate,
        delay: Span,
    ) -> Result<(), Error> {
        if a.node == b.node {
            return Err(b.cell.error("a node other than the first: a link has two ends"));
        }
        if self.topology.links.len() as u64 == MOST_LINKS {
            return Err(a.cell.error_found("one more link", format!("at most {MOST_LINKS} links")));
        }
        if let [Node::Host(_), Node::Host(_)] = [a.node, b.node] {
            let found = format!("a link between hosts {:?} and {:?}", a.cell.text, b.cell.text);
            return Err(b
                .cell
                .error_found(found, "a switch at one end or both ends of every link"));
        }
        for end in [a, b] {
            let Node::Host(host) = end.node else { continue };
            let linked = &mut self.linked[host as usize];
            if *linked > 0 {
                let found = format!(
                    "a second link of host {:?} (the first is in line {linked})",
                    end.cell.text
                );
                return Err(end.cell.error_found(found, "exactly one link per host"));
            }
            *linked = end.cell.line;
        }
        if let [Node::Switch(_), Node::Switch(_)] = [a.node, b.node] {
            self.pairs.push(([a.node.min(b.node), a.node.max(b.node)], a.cell.line));
        }
        self.topology.links.push(Link { a: a.node, b: b.node, rate, delay });
        Ok(())
    }

    /// Returns the topology, and refuses one that is not connected.
    ///
    /// `named` returns the name of a node in the file. Parallel links between switches cause a
    /// warning.
    pub(super) fn done(
        mut self,
        input: &Input,
        named: impl Fn(Node) -> String,
        warnings: &mut Vec<String>,
    ) -> Result<Topology, Error> {
        let wrong = |found: String, expected: &str| Err(Error::whole(&input.name, found, expected));
        if let Some(host) = self.linked.iter().position(|line| *line == 0) {
            let found = format!("host {:?} without a link", named(Node::Host(host as u32)));
            return wrong(found, "exactly one link per host");
        }
        if let Some((one, other)) = graph::apart(&self.topology) {
            let found = format!("no path between {:?} and {:?}", named(one), named(other));
            return wrong(found, "links that connect all hosts and switches");
        }
        self.pairs.sort_unstable();
        let twice = || self.pairs.windows(2).filter(|two| two[0].0 == two[1].0);
        if let Some([(ends, first), (_, second)]) = twice().next() {
            let [a, b] = ends.map(named);
            warnings.push(format!(
                "{}: lines {first} and {second} both link {a:?} and {b:?}; {} to another; all are \
                 kept",
                input.name,
                match twice().count() {
                    1 => "1 link is parallel".to_owned(),
                    count => format!("{count} links are parallel"),
                }
            ));
        }
        Ok(self.topology)
    }
}
