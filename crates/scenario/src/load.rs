//! Offered load of generated traffic, and the share of messages that use links of the network.

use tidegate_core::Span;
use tidegate_core::fabric::{Fabric, Servers};
use tidegate_core::workload::{Pattern, Traffic};

/// Payload that a block of traffic offers between its start and stop, in bit/s; `None` if it has no
/// rate.
pub fn configured_bps(traffic: &Traffic) -> Option<f64> {
    offered_bps(&traffic.pattern, traffic.sizes.mean_bytes())
}

/// The same of messages of a pattern with this mean size.
pub(crate) fn offered_bps(pattern: &Pattern, mean_bytes: f64) -> Option<f64> {
    let (messages, every_ps) = match pattern {
        Pattern::Poisson { senders, mean_gap_ps, .. } => (senders.len(), *mean_gap_ps),
        Pattern::RotatingIncast { senders, gap_ps, .. } => (senders.len(), *gap_ps),
        Pattern::Incast { fan_in, interval, .. } if *interval != Span::FOREVER => {
            (*fan_in as usize, interval.as_ps() as f64)
        }
        // The size is that of all replies to a request together.
        Pattern::Requests { askers, mean_gap_ps, .. } => (askers.len(), *mean_gap_ps),
        _ => return None,
    };
    Some(messages as f64 * mean_bytes * 8e12 / every_ps)
}

/// Share of the messages between two random hosts that are between servers, and so use links of the
/// network; 1 without servers.
pub(crate) fn any_to_any(fabric: &Fabric) -> f64 {
    let Some(servers) = fabric.servers else { return 1.0 };
    let hosts = fabric.hosts.len() as u32;
    f64::from(hosts - servers.hosts) / f64::from(hosts - 1)
}

/// That share if `senders` select random `receivers` other than themselves.
pub(crate) fn at_random(fabric: &Fabric, senders: &[u32], receivers: &[u32]) -> f64 {
    mean_share(fabric, senders, |servers, sender| {
        let own = of_server(servers, sender, receivers);
        let itself = usize::from(own.contains(&sender));
        (own.len() - itself) as f64 / (receivers.len() - itself) as f64
    })
}

/// That share if `senders` send to one receiver after the other. If a sender is the receiver, it
/// sends to the next one.
pub(crate) fn rotating(fabric: &Fabric, senders: &[u32], receivers: &[u32]) -> f64 {
    mean_share(fabric, senders, |servers, sender| {
        let own = of_server(servers, sender, receivers).len();
        let itself = receivers.iter().position(|&receiver| receiver == sender);
        let leaves = |at: usize| !servers.joins(sender, receivers[(at + 1) % receivers.len()]);
        (own - usize::from(itself.is_some_and(leaves))) as f64 / receivers.len() as f64
    })
}

/// 1 without servers; otherwise 1 minus the mean over `hosts` of the share within their server.
fn mean_share(fabric: &Fabric, hosts: &[u32], within: impl Fn(&Servers, u32) -> f64) -> f64 {
    let Some(servers) = fabric.servers else { return 1.0 };
    let sum: f64 = hosts.iter().map(|&host| within(&servers, host)).sum();
    1.0 - sum / hosts.len() as f64
}

/// Hosts of the server of `host` among `all`, which are sorted.
fn of_server<'a>(servers: &Servers, host: u32, all: &'a [u32]) -> &'a [u32] {
    let first = host / servers.hosts * servers.hosts;
    let from = all.partition_point(|&other| other < first);
    let until = all.partition_point(|&other| other < first + servers.hosts);
    &all[from..until]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::load;

    fn plan(traffic: &str) -> crate::Plan {
        let text = format!(
            "duration = '10ms'\nfabric = {{ kind = 'star', hosts = 5 }}\ntransport = {{ protocol = \
             'swift' }}\ntraffic = [{traffic}]"
        );
        load(&text, "x.toml", &[]).unwrap()
    }

    #[test]
    fn configured_bps_matches_load() {
        let offered = |traffic: &str| configured_bps(&plan(traffic).workload.traffic[0]);
        let near = |offered: Option<f64>, gbps: f64| (offered.unwrap() / 1e9 - gbps).abs() < 1e-3;
        assert!(near(offered("{ kind = 'poisson', sizes = 'websearch', load = 0.3 }"), 150.0));
        let incast = "kind = 'incast', sizes = '10KB', fan_in = 3";
        assert!(near(offered(&format!("{{ {incast}, load = 0.1 }}")), 50.0));
        assert_eq!(offered(&format!("{{ {incast} }}")), None);
        assert_eq!(offered("{ kind = 'permutation' }"), None);
    }

    /// Twelve hosts in four racks of three, which are three servers of four in any racks.
    fn fabric() -> Fabric {
        let text = "duration = '1ms'\nfabric = { kind = 'leaf-spine', racks = 4, hosts_per_rack = \
                    3 }\nhosts = { server = { hosts = 4, rate = '1Tbps', delay = '1us' } \
                    }\ntransport = { protocol = 'swift' }\nflows = [{ src = 'h0', dst = 'h5' }]";
        load(text, "x.toml", &[]).unwrap().setup.fabric
    }

    fn near(found: f64, expected: f64) {
        assert!((found - expected).abs() < 1e-12, "{found} and {expected}");
    }

    /// Shares counted pair by pair.
    #[test]
    fn shares_are_those_of_all_pairs() {
        let fabric = fabric();
        let servers = fabric.servers.unwrap();
        let all: Vec<u32> = (0..12).collect();
        let counted = |pairs: &[(u32, u32)]| {
            let on_links = pairs.iter().filter(|&&(a, b)| !servers.joins(a, b)).count();
            on_links as f64 / pairs.len() as f64
        };
        let pairs = |from: &[u32], to: &[u32]| -> Vec<(u32, u32)> {
            let to_others = |&a: &u32| to.iter().filter(move |b| **b != a).map(move |b| (a, *b));
            from.iter().flat_map(to_others).collect()
        };
        near(any_to_any(&fabric), 8.0 / 11.0);
        near(at_random(&fabric, &all, &all), counted(&pairs(&all, &all)));
        // Each of the senders weighs the same.
        let (senders, receivers) = ([0, 4, 5], [1, 2, 4, 9]);
        let each = senders.map(|sender| counted(&pairs(&[sender], &receivers)));
        near(at_random(&fabric, &senders, &receivers), each.iter().sum::<f64>() / 3.0);
        // In turn: 0 sends to 1, 2, 4, 9; 4 sends to 1, 2, 9 and once more to 9; 5 as 0.
        let rounds = [(0, [1, 2, 4, 9]), (4, [1, 2, 9, 9]), (5, [1, 2, 4, 9])];
        let rounds: Vec<_> =
            rounds.into_iter().flat_map(|(from, to)| to.map(|to| (from, to))).collect();
        near(rotating(&fabric, &senders, &receivers), counted(&rounds));
        let plain = Fabric { servers: None, ..fabric };
        assert_eq!([any_to_any(&plain), rotating(&plain, &senders, &receivers)], [1.0, 1.0]);
    }
}
