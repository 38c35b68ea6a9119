//! The shortest path of a workload.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use tidegate_core::fabric::Fabric;
use tidegate_core::routes::Routes;
use tidegate_core::workload::Workload;
use tidegate_core::{FabricProperties, Path};

/// Returns the path with the smallest base RTT between two hosts that exchange flows, if the
/// workload lists all flows, and otherwise between two hosts of one switch; `None` if no switch has
/// two hosts.
pub(crate) fn shortest(
    fabric: &Fabric,
    routes: &Routes,
    workload: &Workload,
    properties: &FabricProperties,
) -> Option<Path> {
    let pairs = match workload.traffic.as_slice() {
        [] => workload.flows.iter().map(|flow| (flow.src, flow.dst)).collect(),
        _ => neighbours(fabric, routes),
    };
    let (a, b) = pairs.into_iter().min_by_key(|&(a, b)| routes.base_rtt(a, b))?;
    let ports = routes.path(a, b);
    let rates = ports.iter().map(|port| routes.edge(*port).rate);
    Some(Path {
        base_rtt: routes.base_rtt(a, b),
        bottleneck_rate: rates.min().unwrap_or(properties.slowest),
        hops: routes.switches_on(&ports),
        ..properties.path()
    })
}

/// The two hosts of each rack that are closest to each other.
fn neighbours(fabric: &Fabric, routes: &Routes) -> Vec<(u32, u32)> {
    let mut racks: BTreeMap<u32, BTreeSet<u32>> = BTreeMap::new();
    for (host, switch) in fabric.links.iter().filter_map(|link| fabric.access(link)) {
        racks.entry(switch).or_default().insert(host);
    }
    let mut racks: BTreeMap<u32, Vec<u32>> =
        racks.into_iter().map(|(rack, hosts)| (rack, hosts.into_iter().collect())).collect();
    // In each rack, the two hosts with the fastest links are closest to each other.
    let link = |host: &u32| {
        let edge = routes.edge(routes.uplink(*host));
        (edge.delay, Reverse(edge.rate))
    };
    racks.values_mut().for_each(|hosts| hosts.sort_by_key(link));
    racks.values().filter_map(|hosts| Some((*hosts.first()?, *hosts.get(1)?))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::load;
    use tidegate_core::{PacketSizes, Rate, Span};

    fn fabric(fabric: &str) -> Fabric {
        let text = format!(
            "duration = '1ms'\nfabric = {fabric}\ntransport = {{ protocol = 'swift' }}\nflows = \
             [{{ src = 'h0', dst = 'h1' }}]"
        );
        load(&text, "x.toml", &[]).unwrap().setup.fabric
    }

    fn of_sizes(text: &str, sizes: PacketSizes) -> FabricProperties {
        let fabric = fabric(text);
        FabricProperties::of(&fabric, Routes::of_sizes(&fabric, sizes).unwrap().reach(), None)
    }

    fn of(text: &str) -> FabricProperties {
        of_sizes(text, PacketSizes::STANDARD)
    }

    #[test]
    fn base_rtt_is_arithmetic() {
        // One switch: two links there and back, 4,176 B and 84 B at 80 ps a byte.
        let star = of("{ kind = 'star' }");
        assert_eq!(star.base_rtt, Span::us(4) + Span::ps(2 * 80 * (4176 + 84)));
        assert_eq!((star.hops, star.host_rate), (1, Rate::gbps(100)));
        let sizes = PacketSizes::new(1000, 500);
        let longer = of_sizes("{ kind = 'star' }", sizes);
        assert_eq!(longer.base_rtt, Span::us(4) + Span::ps(2 * 80 * (5096 + 500)));
        // Six links of 245 ns and five switches of 600 ns, both ways; 40 ps a byte.
        let clos = of("{ preset = 'poseidon-clos' }");
        assert_eq!(clos.base_rtt, Span::ns(12 * 245 + 10 * 600) + Span::ps(6 * 40 * (4176 + 84)));
        assert_eq!(clos.hops, 5);
        // 28 us of propagation; 1,080 B and 84 B twice at 320 and four times at 80 ps a byte.
        let powertcp = of("{ preset = 'powertcp-fat-tree' }");
        assert_eq!(powertcp.base_rtt, Span::us(28) + Span::ps((2 * 320 + 4 * 80) * (1080 + 84)));
        assert_eq!(
            (powertcp.hops, powertcp.host_rate, powertcp.slowest),
            (5, Rate::gbps(25), Rate::gbps(25))
        );
        let bdp = powertcp.base_rtt.as_s_f64() * 25e9 / 8.0;
        assert!((powertcp.bdp_bytes - bdp).abs() < 1.0);
    }

    /// The shortest path if flows are generated, and if there are only flows of these pairs.
    fn shortest_of(text: &str, pairs: &[(&str, &str)]) -> Option<Path> {
        let traffic = "traffic = [{ kind = 'poisson', sizes = 'homa-w3', load = 0.5 }]";
        let flows: Vec<String> =
            pairs.iter().map(|(src, dst)| format!("{{ src = '{src}', dst = '{dst}' }}")).collect();
        let workload = match pairs {
            [] => traffic.to_string(),
            _ => format!("flows = [{}]", flows.join(", ")),
        };
        let transport = "transport = { protocol = 'swift' }";
        let text = format!("duration = '1ms'\nfabric = {text}\n{transport}\n{workload}");
        let plan = load(&text, "x.toml", &[]).unwrap();
        let routes = Routes::new(&plan.fabric).unwrap();
        let properties = FabricProperties::of(&plan.fabric, routes.reach(), None);
        shortest(&plan.fabric, &routes, &plan.workload, &properties)
    }

    #[test]
    fn shortest_is_within_a_rack_over_fastest_links() {
        let shortest = |text: &str| shortest_of(text, &[]);
        let racks = "kind = 'leaf-spine', racks = 3, spines = 1";
        let near = shortest(&format!("{{ {racks}, hosts_per_rack = 2 }}")).unwrap();
        assert_eq!((near.base_rtt, near.hops), (of("{ kind = 'star' }").base_rtt, 1));
        assert!(near.fabric_base_rtt > near.base_rtt);
        assert!(shortest(&format!("{{ {racks}, hosts_per_rack = 1 }}")).is_none());
        let mixed = shortest(
            "{ kind = 'graph', hosts = ['h0', 'h1', 'h2'], switches = ['s0'], links = [
              { a = 'h0', b = 's0', rate = '10Gbps', delay = '9us' },
              { a = 'h1', b = 's0', rate = '40Gbps', delay = '1us' },
              { a = 'h2', b = 's0', rate = '10Gbps', delay = '2us' } ] }",
        );
        let mixed = mixed.unwrap();
        assert_eq!(mixed.base_rtt, Span::us(6) + Span::ps((800 + 200) * (4176 + 84)));
        assert_eq!(mixed.bottleneck_rate, Rate::gbps(10));
    }

    #[test]
    fn shortest_is_between_hosts_with_flows() {
        let star = of("{ kind = 'star' }").base_rtt;
        let racks = "{ kind = 'leaf-spine', racks = 3, spines = 1, hosts_per_rack = 2 }";
        let far = shortest_of(racks, &[("h0", "h2"), ("h5", "h0")]).unwrap();
        assert_eq!((far.base_rtt, far.hops), (far.fabric_base_rtt, 3));
        let near = shortest_of(racks, &[("h0", "h2"), ("h1", "h0")]).unwrap();
        assert_eq!((near.base_rtt, near.hops), (star, 1));
    }

    #[test]
    fn paths_differ_where_a_switch_has_several_ways() {
        let differ = |text: &str| Routes::new(&fabric(text)).unwrap().have_choices();
        for one in [
            "{ kind = 'star' }",
            "{ kind = 'dumbbell' }",
            "{ kind = 'parking-lot', switches = 4 }",
            "{ kind = 'leaf-spine', racks = 3, hosts_per_rack = 2, spines = 1 }",
        ] {
            assert!(!differ(one), "{one}");
        }
        for several in [
            "{ kind = 'leaf-spine', racks = 3, hosts_per_rack = 2, spines = 2 }",
            "{ kind = 'leaf-spine', racks = 3, spines = 1, links_per_spine = 2 }",
            "{ kind = 'fat-tree', k = 4 }",
            "{ kind = 'star', planes = 2 }",
        ] {
            assert!(differ(several), "{several}");
        }
    }

    #[test]
    fn longest_is_over_fewest_switches() {
        // The detour over s2 is faster, but has one more switch.
        let mixed =
            of("{ kind = 'graph', hosts = ['h0', 'h1'], switches = ['s0', 's1', 's2'], links = [
              { a = 'h0', b = 's0', rate = '10Gbps', delay = '1us' },
              { a = 's1', b = 'h1', rate = '40Gbps', delay = '1us' },
              { a = 's0', b = 's1', rate = '10Gbps', delay = '9us' },
              { a = 's0', b = 's1', rate = '10Gbps', delay = '8us' },
              { a = 's0', b = 's2', rate = '10Gbps', delay = '1us' },
              { a = 's2', b = 's1', rate = '5Gbps', delay = '1us' } ] }");
        assert_eq!(mixed.base_rtt, Span::us(20) + Span::ps((2 * 800 + 200) * (4176 + 84)));
        assert_eq!(
            (mixed.hops, mixed.host_rate, mixed.slowest),
            (2, Rate::gbps(40), Rate::gbps(5))
        );
    }
}
