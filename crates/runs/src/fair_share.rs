//! The max-min fair rate of each flow, computed independently of the engine.
//!
//! Water filling: the rates of all flows rise together. When a link is full, the rates of its flows
//! are final, and the others continue to rise. A flow loads the links of its path with its data,
//! and those of the way back with its acknowledgements.

use std::collections::{BTreeMap, VecDeque};
use tidegate_core::fabric::{Fabric, Node};
use tidegate_core::workload::Flow;
use tidegate_core::{Message, PathOracle, Span, Time};
use tidegate_scenario::Plan;
use tidegate_sim::LinkRecord;

/// Max-min fair rates of flows, in the unit of `capacity`.
///
/// `loads[f]` lists the links that flow `f` loads: number, and load per unit of the flow's rate (1
/// for data). A flow without loads is unlimited: its rate is infinite.
pub fn max_min(capacity: &[f64], loads: &[Vec<(usize, f64)>]) -> Vec<f64> {
    let mut rates = vec![f64::INFINITY; loads.len()];
    let mut rising: Vec<usize> = (0..loads.len()).collect();
    let mut free = capacity.to_vec();
    let mut level = 0.0;
    // Each round fills a link, so there are at most as many rounds as links.
    while !rising.is_empty() {
        let mut slope = vec![0.0; capacity.len()];
        for &f in &rising {
            loads[f].iter().for_each(|&(link, load)| slope[link] += load);
        }
        let rises =
            (0..capacity.len()).filter(|&l| slope[l] > 0.0).map(|l| (free[l] / slope[l], l));
        let Some((rise, full)) = rises.min_by(|a, b| a.0.total_cmp(&b.0)) else { break };
        level += rise;
        (0..capacity.len()).for_each(|l| free[l] = (free[l] - rise * slope[l]).max(0.0));
        rising.retain(|&f| {
            let stays = !loads[f].iter().any(|&(link, load)| link == full && load > 0.0);
            if !stays {
                rates[f] = level;
            }
            stays
        });
    }
    rates
}

/// The fair shares of a plan's flows, as goodput.
#[derive(Clone, Debug, Default)]
pub struct FairShares {
    /// Shares by sender, receiver and stack. Flows that agree in these have the same share.
    shares: BTreeMap<(u32, u32, u16), Share>,
}

/// One flow's share.
#[derive(Clone, Debug)]
struct Share {
    goodput_gbps: f64,
    wire_gbps: f64,
    /// The queueing delay that its protocol aims at there.
    target: Option<Span>,
    /// The link directions on the path of its data.
    path: Vec<usize>,
}

/// Measured and targeted queues on the paths of a group of flows.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct QueueAim {
    /// The longest mean wait at any hop of the path; mean over the flows.
    pub hop_delay_us: f64,
    /// Delay that the protocol aims at if every flow has its fair share; `None` if it has no
    /// target.
    pub target_us: Option<f64>,
}

impl FairShares {
    /// Fair share of a flow from `src` to `dst` under `stack`, in Gbit/s of payload; `None` where
    /// it is not defined.
    pub fn get(&self, src: u32, dst: u32, stack: u16) -> Option<f64> {
        self.shares.get(&(src, dst, stack)).map(|share| share.goodput_gbps)
    }

    /// The shares of `plan`. They are defined only if every flow is unlimited, is present for all
    /// of the measured window, and has a single shortest path in each direction, and if the fabric
    /// has neither circuits nor rate changes.
    pub fn of(plan: &Plan) -> FairShares {
        Self::find(plan).unwrap_or_default()
    }

    fn find(plan: &Plan) -> Option<FairShares> {
        let workload = &plan.workload;
        let lasts = |flow: &Flow| {
            flow.bytes == Message::UNLIMITED
                && flow.start <= plan.warmup
                && flow.stop >= plan.duration
        };
        if workload.flows.is_empty()
            || !workload.traffic.is_empty()
            || !workload.flows.iter().all(lasts)
        {
            return None;
        }
        let mut only_paths = OnlyPaths::of(&plan.fabric)?;
        let mut loads = Vec::with_capacity(workload.flows.len());
        let mut payload_shares = Vec::with_capacity(workload.flows.len());
        let mut paths = Vec::with_capacity(workload.flows.len());
        for flow in &workload.flows {
            let there = only_paths.path(flow.src, flow.dst)?;
            let back = only_paths.path(flow.dst, flow.src)?;
            let stack = plan.stacks.get(usize::from(flow.stack))?;
            let (data, ack) = stack.full_packet(plan.fabric.mtu, there.len() as u32 - 1);
            let (data, ack) = (f64::from(data), f64::from(ack));
            paths.push(there.clone());
            let acks = back.into_iter().map(|port| (port, ack / data));
            loads.push(there.into_iter().map(|port| (port, 1.0)).chain(acks).collect());
            payload_shares.push(f64::from(plan.fabric.mtu) / data);
        }
        let rates = max_min(&capacity(&plan.fabric), &loads);
        let keys = workload.flows.iter().map(|flow| (flow.src, flow.dst, flow.stack));
        let shares =
            rates.into_iter().zip(payload_shares).zip(paths).map(|((wire_gbps, payload), path)| {
                Share { goodput_gbps: wire_gbps * payload, wire_gbps, target: None, path }
            });
        Some(FairShares {
            shares: keys.zip(shares).filter(|(_, share)| share.wire_gbps.is_finite()).collect(),
        })
    }

    /// Computes the queueing delay that each flow's protocol aims at with its share.
    pub fn with_targets(mut self, plan: &Plan, paths: &dyn PathOracle) -> FairShares {
        for (&(src, dst, stack), share) in &mut self.shares {
            share.target = plan.stacks[usize::from(stack)]
                .operating_point(&paths.path(src, dst), share.wire_gbps * 1e9)
                .queue_target;
        }
        self
    }

    /// The queues on the paths of the flows with this label and protocol; `None` where shares are
    /// not defined.
    pub fn queue_aim(
        &self,
        plan: &Plan,
        label: &str,
        protocol: &str,
        links: &[LinkRecord],
    ) -> Option<QueueAim> {
        let of_group = |flow: &&Flow| {
            plan.labels[usize::from(flow.label)] == label
                && plan.protocol_name(flow.stack) == protocol
        };
        let (mut flows, mut delays, mut targets) = (0.0, 0.0, Some(0.0));
        for flow in plan.workload.flows.iter().filter(of_group) {
            let share = self.shares.get(&(flow.src, flow.dst, flow.stack))?;
            let waits = share.path.iter().map(|&port| links[port].queue_delay_us.mean);
            delays += waits.fold(0.0, f64::max);
            let target = share.target.filter(|_| plan.output.carried_by.is_none());
            targets = targets.zip(target).map(|(sum, target)| sum + target.as_us_f64());
            flows += 1.0;
        }
        (flows > 0.0).then(|| QueueAim {
            hop_delay_us: delays / flows,
            target_us: targets.map(|sum| sum / flows),
        })
    }
}

/// Capacity of every link direction in Gbit/s.
fn capacity(fabric: &Fabric) -> Vec<f64> {
    (0..2 * fabric.links.len() as u32).map(|port| fabric.rate(port).as_gbps_f64()).collect()
}

/// Limit of flows times intervals times links in [`unlimited`].
const WORK_MAX: usize = 10_000_000;

/// The intervals between starts and stops of a plan's unlimited flows, without generated traffic,
/// each with the sum of their max-min fair rates in Gbit/s. `None` where a flow has several
/// shortest paths, links change, or the number of flows is too large.
pub(crate) fn unlimited(plan: &Plan) -> Option<Vec<(Time, Time, f64)>> {
    let flows = plan.workload.flows.iter().filter(|flow| flow.bytes == Message::UNLIMITED);
    let flows: Vec<&Flow> = flows.collect();
    let mut times: Vec<Time> =
        flows.iter().flat_map(|flow| [flow.start, flow.stop.min(plan.duration)]).collect();
    times.sort_unstable();
    times.dedup();
    if flows.len() * times.len() * plan.fabric.links.len() > WORK_MAX {
        return None;
    }
    let mut only_paths = OnlyPaths::of(&plan.fabric)?;
    let path = |flow: &&Flow| {
        Some(only_paths.path(flow.src, flow.dst)?.into_iter().map(|port| (port, 1.0)).collect())
    };
    let paths: Vec<Vec<(usize, f64)>> = flows.iter().map(path).collect::<Option<_>>()?;
    let capacity = capacity(&plan.fabric);
    let sum = |ends: &[Time]| {
        let sends = |flow: &Flow| flow.start <= ends[0] && flow.stop >= ends[1];
        let sending = flows.iter().zip(&paths).filter(|(flow, _)| sends(flow));
        let loads: Vec<_> = sending.map(|(_, path)| path.clone()).collect();
        (ends[0], ends[1], max_min(&capacity, &loads).iter().sum())
    };
    Some(times.windows(2).map(sum).collect())
}

/// Shortest paths between hosts, if they are unique.
struct OnlyPaths<'a> {
    graph: Graph<'a>,
    /// Distances of all nodes to a host, by host.
    towards: BTreeMap<u32, Vec<Option<u32>>>,
}

impl<'a> OnlyPaths<'a> {
    /// `None` if links change, or hosts have several.
    fn of(fabric: &'a Fabric) -> Option<OnlyPaths<'a>> {
        let is_fixed = fabric.circuits.is_none()
            && fabric.first_nic.is_none()
            && fabric.rate_changes.is_empty();
        is_fixed.then(|| OnlyPaths { graph: Graph::of(fabric), towards: BTreeMap::new() })
    }

    fn path(&mut self, src: u32, dst: u32) -> Option<Vec<usize>> {
        let OnlyPaths { graph, towards } = self;
        let towards = towards.entry(dst).or_insert_with(|| graph.distances(Node::Host(dst)));
        graph.only_path(Node::Host(src), Node::Host(dst), towards)
    }
}

/// Link directions by the node that they leave. Direction 2i leads from a to b of link i, 2i + 1
/// back.
struct Graph<'a> {
    fabric: &'a Fabric,
    out: Vec<Vec<usize>>,
}

impl<'a> Graph<'a> {
    fn of(fabric: &'a Fabric) -> Graph<'a> {
        let mut graph =
            Graph { fabric, out: vec![Vec::new(); fabric.hosts.len() + fabric.switches.len()] };
        for (i, link) in fabric.links.iter().enumerate() {
            let (a, b) = (graph.index(link.a), graph.index(link.b));
            graph.out[a].push(2 * i);
            graph.out[b].push(2 * i + 1);
        }
        graph
    }

    fn index(&self, node: Node) -> usize {
        match node {
            Node::Host(i) => i as usize,
            Node::Switch(i) => self.fabric.hosts.len() + i as usize,
        }
    }

    /// The node that a direction leads to.
    fn end(&self, port: usize) -> Node {
        let link = &self.fabric.links[port / 2];
        if port.is_multiple_of(2) { link.b } else { link.a }
    }

    /// Number of links between each node and `root`. Hosts forward nothing.
    fn distances(&self, root: Node) -> Vec<Option<u32>> {
        let mut distances = vec![None; self.out.len()];
        distances[self.index(root)] = Some(0);
        let mut queue = VecDeque::from([(root, 0)]);
        while let Some((near, distance)) = queue.pop_front() {
            if near != root && matches!(near, Node::Host(_)) {
                continue;
            }
            for &port in &self.out[self.index(near)] {
                let far = self.end(port);
                let slot = &mut distances[self.index(far)];
                if slot.is_none() {
                    *slot = Some(distance + 1);
                    queue.push_back((far, distance + 1));
                }
            }
        }
        distances
    }

    /// The shortest path by number of links, if it is unique. `distances` are those to `to`.
    fn only_path(&self, from: Node, to: Node, distances: &[Option<u32>]) -> Option<Vec<usize>> {
        let mut path = Vec::new();
        let mut at = from;
        while at != to {
            let left = distances[self.index(at)]?;
            let forwards = |node| node == to || matches!(node, Node::Switch(_));
            let mut next = self.out[self.index(at)].iter().copied().filter(|&port| {
                let end = self.end(port);
                forwards(end)
                    && distances[self.index(end)].is_some_and(|distance| distance + 1 == left)
            });
            let port = next.next()?;
            if next.next().is_some() {
                return None;
            }
            path.push(port);
            at = self.end(port);
        }
        Some(path)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tidegate_core::Rate;
    use tidegate_core::fabric::{Buffer, Link, Stamping, Switch, TelemetryResolution};

    fn data(links: &[usize]) -> Vec<(usize, f64)> {
        links.iter().map(|&link| (link, 1.0)).collect()
    }

    fn close(ours: &[f64], exact: &[f64]) {
        assert_eq!(ours.len(), exact.len());
        for (a, b) in ours.iter().zip(exact) {
            assert!((a - b).abs() < 1e-9, "{ours:?} against {exact:?}");
        }
    }

    #[test]
    fn max_min_shares_one_link_equally() {
        close(&max_min(&[100.0], &[data(&[0]), data(&[0]), data(&[0]), data(&[0])]), &[25.0; 4]);
    }

    #[test]
    fn max_min_solves_the_parking_lot() {
        // One flow over two links, two others on the first and nine on the second.
        let mut flows = vec![data(&[0, 1])];
        flows.extend((0..2).map(|_| data(&[0])));
        flows.extend((0..9).map(|_| data(&[1])));
        let rates = max_min(&[200.0, 200.0], &flows);
        close(&rates[..3], &[20.0, 90.0, 90.0]);
        close(&rates[3..], &[20.0; 9]);
    }

    #[test]
    fn max_min_assigns_the_remaining_capacity() {
        // Example in the style of Bertsekas and Gallager: flow 0 on links 0 and 1, flow 1 on link
        // 0, flow 2 on links 1 and 2, flow 3 on link 2. The last link is wide.
        let rates =
            max_min(&[10.0, 4.0, 20.0], &[data(&[0, 1]), data(&[0]), data(&[1, 2]), data(&[2])]);
        close(&rates, &[2.0, 8.0, 2.0, 18.0]);
    }

    #[test]
    fn max_min_counts_acknowledgements() {
        // Two flows in opposite directions, each with a tenth of its rate coming back.
        let flows = [vec![(0, 1.0), (1, 0.1)], vec![(1, 1.0), (0, 0.1)]];
        close(&max_min(&[11.0, 11.0], &flows), &[10.0, 10.0]);
    }

    #[test]
    fn flows_without_loads_are_unlimited() {
        assert_eq!(max_min(&[1.0], &[vec![]]), [f64::INFINITY]);
        assert_eq!(max_min(&[], &[]), [0.0; 0]);
    }

    fn fabric(links: &[(Node, Node)]) -> Fabric {
        let switch = |i| Switch {
            name: format!("s{i}"),
            latency: Span::ZERO,
            telemetry: Stamping::All,
            telemetry_resolution: TelemetryResolution::EXACT,
            buffer: Buffer::Unlimited,
            ecn: None,
            priorities: 1,
            pausing: None,
            credit_queue: None,
            trimming: None,
        };
        let link =
            |&(a, b): &(Node, Node)| Link { a, b, rate: Rate::gbps(100), delay: Span::us(1) };
        Fabric {
            hosts: (0..3).map(|i| format!("h{i}")).collect(),
            switches: (0..4).map(switch).collect(),
            links: links.iter().map(link).collect(),
            mtu: 4096,
            ..Fabric::default()
        }
    }

    #[test]
    fn only_path_requires_uniqueness() {
        let (h, s) = (Node::Host, Node::Switch);
        let chain = [(h(0), s(0)), (s(0), s(1)), (s(1), h(1)), (s(1), h(2))];
        let mut diamond = chain.to_vec();
        diamond[1] = (s(0), s(2));
        diamond.extend([(s(2), s(1)), (s(0), s(3)), (s(3), s(1))]);
        for (links, path) in [(chain.to_vec(), Some(vec![0, 2, 4])), (diamond, None)] {
            let fabric = fabric(&links);
            let graph = Graph::of(&fabric);
            assert_eq!(graph.only_path(h(0), h(1), &graph.distances(h(1))), path);
            assert_eq!(graph.only_path(h(1), h(2), &graph.distances(h(2))), Some(vec![5, 6]));
        }
    }
}
