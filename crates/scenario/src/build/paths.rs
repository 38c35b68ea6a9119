//! Base round-trip times: what the bandwidth-delay product, relative thresholds and warnings are
//! computed from.

use tidegate_core::fabric::{Fabric, Link, Node};
use tidegate_core::routes::Routes;
use tidegate_core::{HEADER_BYTES, Path, Rate, Time};

/// The pair of hosts with the largest base RTT, over paths with the fewest switches (the quickest
/// of those).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Longest {
    /// Base RTT of the pair: a full packet there and a minimum frame back through empty links and
    /// switches.
    pub(crate) base_rtt: Time,
    /// Most switches on the path of any pair.
    pub(crate) most_hops: u32,
    /// Fastest host link.
    pub(crate) host_rate: Rate,
    /// Slowest link of the fabric.
    pub(crate) slowest: Rate,
}

/// Finds all paths of a fabric whose hosts are known to be connected.
///
/// # Errors
/// Where their tables would not fit in memory.
pub(crate) fn longest(fabric: &Fabric) -> Result<Longest, String> {
    let span = Routes::new(fabric)?.span();
    let rates = || fabric.links.iter().map(|link| link.rate);
    let leads_to_host =
        |link: &&Link| [link.a, link.b].iter().any(|node| matches!(node, Node::Host(_)));
    let host_rates = fabric.links.iter().filter(leads_to_host).map(|link| link.rate);
    Ok(Longest {
        base_rtt: span.base_rtt,
        most_hops: span.most_switches,
        host_rate: host_rates.max().unwrap_or_default(),
        slowest: rates().min().unwrap_or_default(),
    })
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
            "duration = '1ms'\nfabric = {fabric}\ntransport = {{ protocol = 'swift' }}\nflows = \
             [{{ src = 'h0', dst = 'h1' }}]"
        );
        longest(&load(&text, "x.toml", &[]).unwrap().fabric).unwrap()
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
        let mixed =
            of("{ kind = 'graph', hosts = ['h0', 'h1'], switches = ['s0', 's1', 's2'], links = [
              { a = 'h0', b = 's0', rate = '10Gbps', delay = '1us' },
              { a = 's1', b = 'h1', rate = '40Gbps', delay = '1us' },
              { a = 's0', b = 's1', rate = '10Gbps', delay = '9us' },
              { a = 's0', b = 's1', rate = '10Gbps', delay = '8us' },
              { a = 's0', b = 's2', rate = '10Gbps', delay = '1us' },
              { a = 's2', b = 's1', rate = '5Gbps', delay = '1us' } ] }");
        assert_eq!(mixed.base_rtt, Time::us(20) + Time::ps((2 * 800 + 200) * (4176 + 84)));
        assert_eq!(
            (mixed.most_hops, mixed.host_rate, mixed.slowest),
            (2, Rate::gbps(40), Rate::gbps(5))
        );
    }
}
