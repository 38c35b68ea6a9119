//! Base round-trip times: what the bandwidth-delay product, relative thresholds and warnings are computed from.

use tidegate_core::fabric::{Fabric, Node};
use tidegate_core::{HEADER_BYTES, MIN_WIRE_BYTES, Path, Rate, Time};

/// The pair of hosts with the largest base RTT, over paths with the fewest switches (the quickest of those).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Longest {
    /// Base RTT of the pair: a full packet there and a minimum frame back through empty links and switches.
    pub(crate) base_rtt: Time,
    /// Most switches on the path of any pair.
    pub(crate) most_hops: u32,
    /// Fastest host link.
    pub(crate) host_rate: Rate,
    /// Slowest link of the fabric.
    pub(crate) slowest: Rate,
}

/// One direction of a link between switches, as a search sees it.
struct Edge {
    to: usize,
    time: u64,
}

/// Searches from every switch that has hosts.
pub(crate) fn longest(fabric: &Fabric) -> Longest {
    let (full, least) = (u64::from(fabric.mtu + HEADER_BYTES), u64::from(MIN_WIRE_BYTES));
    let crossing =
        |rate: Rate, delay: Time| (delay.times(2) + rate.serialise(full) + rate.serialise(least)).as_ps();
    let latency = |switch: usize| fabric.switches[switch].latency.as_ps() * 2;
    let mut edges: Vec<Vec<Edge>> = fabric.switches.iter().map(|_| Vec::new()).collect();
    // The two slowest host links of each switch: a path starts and ends with one.
    let mut slowest_hosts: Vec<[Option<u64>; 2]> = vec![[None; 2]; fabric.switches.len()];
    let mut host_rate = Rate::default();
    let mut slowest = fabric.links.first().map_or(Rate::default(), |link| link.rate);
    for link in &fabric.links {
        slowest = slowest.min(link.rate);
        let time = crossing(link.rate, link.delay);
        match (link.a, link.b) {
            (Node::Switch(a), Node::Switch(b)) => {
                edges[a as usize].push(Edge { to: b as usize, time });
                edges[b as usize].push(Edge { to: a as usize, time });
            }
            (Node::Host(_), Node::Switch(switch)) | (Node::Switch(switch), Node::Host(_)) => {
                host_rate = host_rate.max(link.rate);
                let [first, second] = &mut slowest_hosts[switch as usize];
                if Some(time) > *first {
                    *second = *first;
                    *first = Some(time);
                } else if Some(time) > *second {
                    *second = Some(time);
                }
            }
            (Node::Host(_), Node::Host(_)) => {}
        }
    }
    let (mut rtt, mut most_hops) = (0, 0);
    for from in 0..fabric.switches.len() {
        let [Some(first), second] = slowest_hosts[from] else { continue };
        if let Some(second) = second {
            rtt = rtt.max(first + latency(from) + second);
            most_hops = most_hops.max(1);
        }
        for (to, hops, time) in distances(&edges, from, &latency) {
            if let [Some(last), _] = slowest_hosts[to] {
                rtt = rtt.max(first + time + last);
                most_hops = most_hops.max(hops);
            }
        }
    }
    Longest { base_rtt: Time::ps(rtt), most_hops, host_rate, slowest }
}

/// Switches beyond `from`: number, switches on the way (both ends counted), and the time they and the links between them take.
fn distances(edges: &[Vec<Edge>], from: usize, latency: &impl Fn(usize) -> u64) -> Vec<(usize, u32, u64)> {
    let mut best: Vec<Option<(u32, u64)>> = vec![None; edges.len()];
    best[from] = Some((1, latency(from)));
    let mut found = Vec::new();
    let mut layer = vec![from];
    let mut hops = 1;
    while !layer.is_empty() {
        hops += 1;
        let mut next = Vec::new();
        for &here in &layer {
            let (_, time) = best[here].expect("reached");
            for edge in &edges[here] {
                let time = time + edge.time + latency(edge.to);
                match &mut best[edge.to] {
                    Some((other, least)) if *other == hops => *least = time.min(*least),
                    Some(_) => {}
                    unreached => {
                        *unreached = Some((hops, time));
                        next.push(edge.to);
                    }
                }
            }
        }
        found.extend(next.iter().map(|&to| (to, best[to].expect("reached").0)));
        layer = next;
    }
    found.into_iter().map(|(to, hops)| (to, hops, best[to].expect("reached").1)).collect()
}

impl Longest {
    /// Bandwidth-delay product in bytes: the fastest host's rate times the largest base RTT.
    pub(crate) fn bdp_bytes(&self) -> f64 {
        self.host_rate.bytes_in(self.base_rtt) as f64
    }

    /// As a path, for a protocol to judge.
    pub(crate) fn path(&self, mtu: u32, bdp_bytes: f64, telemetry_bytes: u32) -> Path {
        Path {
            base_rtt: self.base_rtt,
            fabric_base_rtt: self.base_rtt,
            nic_rate: self.host_rate,
            bottleneck_rate: self.slowest,
            bdp_bytes,
            mtu,
            full_wire_bytes: mtu + HEADER_BYTES + telemetry_bytes,
            hops: self.most_hops,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::load;

    fn of(fabric: &str) -> Longest {
        let text = format!(
            "duration = '1ms'\nfabric = {fabric}\ntransport = {{ protocol = 'swift' }}\nflows = [{{ src = 'h0', dst = 'h1' }}]"
        );
        longest(&load(&text, "x.toml", &[]).unwrap().fabric)
    }

    #[test]
    fn base_rtt_is_arithmetic() {
        // One switch: two links there and back, 4,176 B and 84 B at 80 ps a byte.
        let star = of("{ kind = 'star' }");
        assert_eq!(star.base_rtt, Time::us(4) + Time::ps(2 * 80 * (4176 + 84)));
        assert_eq!((star.most_hops, star.host_rate), (1, Rate::gbps(100)));
        // Six links of 245 ns and five switches of 600 ns, both ways; 40 ps a byte.
        let clos = of("{ preset = 'poseidon-clos' }");
        assert_eq!(clos.base_rtt, Time::ns(12 * 245 + 10 * 600) + Time::ps(6 * 40 * (4176 + 84)));
        assert_eq!(clos.most_hops, 5);
        // 28 us of propagation; 1,080 B and 84 B twice at 320 and four times at 80 ps a byte.
        let powertcp = of("{ preset = 'powertcp-fat-tree' }");
        assert_eq!(powertcp.base_rtt, Time::us(28) + Time::ps((2 * 320 + 4 * 80) * (1080 + 84)));
        assert_eq!(
            (powertcp.most_hops, powertcp.host_rate, powertcp.slowest),
            (5, Rate::gbps(25), Rate::gbps(25))
        );
        let bdp = powertcp.base_rtt.as_s_f64() * 25e9 / 8.0;
        assert!((powertcp.bdp_bytes() - bdp).abs() < 1.0);
    }

    #[test]
    fn longest_is_over_fewest_switches() {
        // The detour over s2 would be quicker, but has a switch more.
        let mixed = of(
            "{ kind = 'graph', hosts = ['h0', 'h1'], switches = ['s0', 's1', 's2'], links = [
              { a = 'h0', b = 's0', rate = '10Gbps', delay = '1us' }, { a = 's1', b = 'h1', rate = '40Gbps', delay = '1us' },
              { a = 's0', b = 's1', rate = '10Gbps', delay = '9us' }, { a = 's0', b = 's1', rate = '10Gbps', delay = '8us' },
              { a = 's0', b = 's2', rate = '10Gbps', delay = '1us' }, { a = 's2', b = 's1', rate = '5Gbps', delay = '1us' } ] }",
        );
        assert_eq!(mixed.base_rtt, Time::us(20) + Time::ps((2 * 800 + 200) * (4176 + 84)));
        assert_eq!((mixed.most_hops, mixed.host_rate, mixed.slowest), (2, Rate::gbps(40), Rate::gbps(5)));
    }
}
