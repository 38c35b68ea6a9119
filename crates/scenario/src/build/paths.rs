//! What protocols are told of a fabric, and what relative sizes are relative to.

use std::collections::BTreeSet;

use tidegate_core::Facts;
use tidegate_core::fabric::{Fabric, Node};
use tidegate_core::routes::Routes;

/// The facts of a fabric whose hosts are known to be connected; `bdp_bytes` where the scenario sets
/// it.
///
/// # Errors
/// Where the tables of its paths would not fit in memory.
pub(crate) fn facts(fabric: &Fabric, bdp_bytes: Option<f64>) -> Result<Facts, String> {
    Ok(Facts::of(fabric, Routes::new(fabric)?.reach(), bdp_bytes))
}

/// Whether any packet can choose: some switch has several ways to some host while all links work.
pub(crate) fn differ(fabric: &Fabric) -> bool {
    let Ok(routes) = Routes::new(fabric) else { return true };
    // Hosts of one switch are reached alike, so the first of each stands for all.
    let mut seen = BTreeSet::new();
    let leaf = |a, b| match (a, b) {
        (Node::Host(host), Node::Switch(leaf)) | (Node::Switch(leaf), Node::Host(host)) => {
            Some((host, leaf))
        }
        _ => None,
    };
    let ends = fabric.links.iter().filter_map(|link| leaf(link.a, link.b));
    let hosts: Vec<u32> =
        ends.filter(|(_, leaf)| seen.insert(*leaf)).map(|(host, _)| host).collect();
    let switches = 0..fabric.switches.len() as u32;
    switches.into_iter().any(|switch| {
        hosts.iter().any(|&host| {
            let mut several = false;
            routes.egress(switch, host, |ways| {
                several = true;
                ways.port(0)
            });
            several
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::load;
    use tidegate_core::{Rate, Span};

    fn fabric(fabric: &str) -> Fabric {
        let text = format!(
            "duration = '1ms'\nfabric = {fabric}\ntransport = {{ protocol = 'swift' }}\nflows = \
             [{{ src = 'h0', dst = 'h1' }}]"
        );
        load(&text, "x.toml", &[]).unwrap().fabric
    }

    fn of(text: &str) -> Facts {
        facts(&fabric(text), None).unwrap()
    }

    #[test]
    fn base_rtt_is_arithmetic() {
        // One switch: two links there and back, 4,176 B and 84 B at 80 ps a byte.
        let star = of("{ kind = 'star' }");
        assert_eq!(star.base_rtt, Span::us(4) + Span::ps(2 * 80 * (4176 + 84)));
        assert_eq!((star.hops, star.host_rate), (1, Rate::gbps(100)));
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

    #[test]
    fn paths_differ_where_a_switch_has_several_ways() {
        for one in [
            "{ kind = 'star' }",
            "{ kind = 'dumbbell' }",
            "{ kind = 'parking-lot', switches = 4 }",
            "{ kind = 'leaf-spine', racks = 3, hosts_per_rack = 2, spines = 1 }",
        ] {
            assert!(!differ(&fabric(one)), "{one}");
        }
        for several in [
            "{ kind = 'leaf-spine', racks = 3, hosts_per_rack = 2, spines = 2 }",
            "{ kind = 'leaf-spine', racks = 3, spines = 1, links_per_spine = 2 }",
            "{ kind = 'fat-tree', k = 4 }",
        ] {
            assert!(differ(&fabric(several)), "{several}");
        }
    }

    #[test]
    fn longest_is_over_fewest_switches() {
        // The detour over s2 would be quicker, but has a switch more.
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
