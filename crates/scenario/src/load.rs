//! Offered load of generated traffic: warnings if it exceeds the capacity of links, and the share
//! of messages that use links of the network.

use tidegate_core::fabric::{Fabric, Node, Servers};
use tidegate_core::workload::{Pattern, Traffic};
use tidegate_core::{Span, Time};

use crate::read::table::Table;

/// Payload that a block of traffic offers between its start and stop, in bit/s; `None` if it has no
/// rate.
pub fn configured_bps(traffic: &Traffic) -> Option<f64> {
    let mean_bytes = traffic.sizes.mean_bytes();
    let (messages, every_ps) = match &traffic.pattern {
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

/// Warns of loads that exceed the capacity of links even without headers: of every key `load` above
/// 1, or else of the most loaded host.
pub(crate) fn overloads(
    tables: &[Table],
    traffic: &[Traffic],
    fabric: &Fabric,
    warnings: &mut Vec<String>,
) {
    let before = warnings.len();
    for table in tables {
        if let Some(load) = table.find::<f64>("load").filter(|load| *load > 1.0) {
            warnings.push(format!(
                "{} is {load}, above the capacity of the links: queues grow for as long as this \
                 traffic lasts; set a load of at most 1",
                table.path("load")
            ));
        }
    }
    if warnings.len() > before {
        return;
    }
    // The load is highest at the start of some block.
    let begins = traffic.iter().map(|block| block.start);
    let most = begins.flat_map(|at| host_loads(traffic, fabric, at)).reduce(larger);
    if let Some(HostLoad { share, hosts, first, direction }) = most.filter(|most| most.share > 1.0)
    {
        let first = &fabric.hosts[first];
        let (which, capacity) = match hosts {
            1 => (first.clone(), "the capacity of its link"),
            _ => (format!("{first} and {} more", hosts - 1), "the capacity of their links"),
        };
        warnings.push(format!(
            "the traffic {direction} {which} is up to {share:.2} times {capacity}: queues grow for \
             as long as this lasts"
        ));
    }
}

/// Load of hosts in one direction.
struct HostLoad {
    /// Largest load of a host, as a share of its link rate.
    share: f64,
    /// Number of hosts whose load exceeds their link rate.
    hosts: usize,
    /// First host with the largest load.
    first: usize,
    /// `sent by` or `received by`.
    direction: &'static str,
}

/// Returns the direction with the larger load; the first if they are equal.
fn larger(a: HostLoad, b: HostLoad) -> HostLoad {
    if b.share > a.share { b } else { a }
}

/// Returns the mean load of hosts at time `at`, in both directions.
fn host_loads(traffic: &[Traffic], fabric: &Fabric, at: Time) -> [HostLoad; 2] {
    let hosts = fabric.hosts.len();
    let all: Vec<u32> = (0..hosts as u32).collect();
    let (mut sent, mut received) = (vec![0.0; hosts], vec![0.0; hosts]);
    for block in traffic.iter().filter(|block| block.start <= at && at < block.stop) {
        let Some(configured) = configured_bps(block) else { continue };
        let offered = configured * share_on_links(fabric, &block.pattern);
        let (from, to) = match &block.pattern {
            Pattern::Poisson { senders, receivers, .. }
            | Pattern::RotatingIncast { senders, receivers, .. } => (&senders[..], &receivers[..]),
            Pattern::Incast { dst: Some(dst), .. } => (&all[..], core::slice::from_ref(dst)),
            Pattern::Requests { askers, .. } => (&all[..], &askers[..]),
            _ => (&all[..], &all[..]),
        };
        let share = |sums: &mut [f64], of: &[u32]| {
            of.iter().for_each(|host| sums[*host as usize] += offered / of.len() as f64);
        };
        share(&mut sent, from);
        share(&mut received, to);
    }
    let mut rates = vec![f64::INFINITY; hosts];
    for link in &fabric.links {
        for end in [link.a, link.b] {
            if let Node::Host(host) = end {
                rates[host as usize] = link.rate.as_bps() as f64;
            }
        }
    }
    let load = |direction, sums: Vec<f64>| {
        let shares: Vec<f64> = sums.into_iter().zip(&rates).map(|(sum, rate)| sum / rate).collect();
        let share = shares.iter().copied().fold(0.0, f64::max);
        let first = shares.iter().position(|other| *other == share).unwrap_or(0);
        let hosts = shares.iter().filter(|share| **share > 1.0).count();
        HostLoad { share, hosts, first, direction }
    };
    [load("sent by", sent), load("received by", received)]
}

/// Share of the messages of a pattern with a rate that are between servers, and so use links of
/// the network; 1 without servers.
pub(crate) fn share_on_links(fabric: &Fabric, pattern: &Pattern) -> f64 {
    match pattern {
        Pattern::Poisson { senders, receivers, .. } => at_random(fabric, senders, receivers),
        Pattern::RotatingIncast { senders, receivers, .. } => rotating(fabric, senders, receivers),
        Pattern::Requests { askers, racks, .. } => from_other_racks(fabric, askers, racks),
        _ => any_to_any(fabric),
    }
}

/// That share if both hosts are random.
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

/// That share if hosts of a random other rack answer `askers`.
fn from_other_racks(fabric: &Fabric, askers: &[u32], racks: &[Vec<u32>]) -> f64 {
    let mut rack_of = vec![0; fabric.hosts.len()];
    for (number, rack) in racks.iter().enumerate() {
        rack.iter().for_each(|&host| rack_of[host as usize] = number);
    }
    mean_share(fabric, askers, |servers, asker| {
        let first = asker / servers.hosts * servers.hosts;
        let racks_of_server = (first..first + servers.hosts).map(|host| rack_of[host as usize]);
        let others = racks_of_server.filter(|&rack| rack != rack_of[asker as usize]);
        others.map(|rack| 1.0 / racks[rack].len() as f64).sum::<f64>() / (racks.len() - 1) as f64
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
    fn overload_is_warned_of() {
        let poisson = |more: &str| format!("{{ kind = 'poisson', sizes = '100KB', {more} }}");
        let incast = "{ kind = 'incast', sizes = '125KB', fan_in = 4, interval = '20us'";
        let cases = [
            (poisson("load = 1.0"), ""),
            (poisson("load = 1.2"), "traffic[0].load is 1.2, above the capacity of the links"),
            (
                format!("{}, {}", poisson("load = 0.6"), poisson("load = 0.6")),
                "the traffic sent by h0 and 4 more is up to 1.20 times the capacity of their links",
            ),
            // Blocks that do not overlap.
            (
                format!(
                    "{}, {}",
                    poisson("load = 0.6, stop = '5ms'"),
                    poisson("load = 0.6, start = '5ms'")
                ),
                "",
            ),
            // 200 Gbit/s, spread over all hosts or to one of them.
            (format!("{incast} }}"), ""),
            (
                format!("{incast}, dst = 'h2' }}"),
                "received by h2 is up to 2.00 times the capacity of its link",
            ),
            (
                poisson("rate = '60Gbps', receivers = 'h[0-1]'"),
                "received by h0 and 1 more is up to 1.50 times",
            ),
        ];
        for (traffic, expected) in cases {
            let warnings = plan(&traffic).warnings;
            match expected {
                "" => assert_eq!(warnings, Vec::<String>::new(), "{traffic}"),
                _ => assert!(warnings.len() == 1 && warnings[0].contains(expected), "{warnings:?}"),
            }
        }
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
        // Hosts 0 to 2 share a rack, and a server with host 3 of the next of three other racks.
        let racks: Vec<Vec<u32>> = all.chunks(3).map(<[u32]>::to_vec).collect();
        near(from_other_racks(&fabric, &[0], &racks), 1.0 - 1.0 / 3.0 / 3.0);
        near(from_other_racks(&fabric, &[3], &racks), 1.0 - 1.0 / 3.0);
        let plain = Fabric { servers: None, ..fabric };
        assert_eq!([any_to_any(&plain), rotating(&plain, &senders, &receivers)], [1.0, 1.0]);
    }
}
