//! What generated traffic asks for, and whether links can carry that.

use tidegate_core::fabric::{Fabric, Node};
use tidegate_core::workload::{Pattern, Sizes, Traffic};
use tidegate_core::{Span, Time};

use crate::read::table::Table;

/// Payload that a block of traffic asks for while it lasts, in bit/s; `None` where it has no rate.
pub fn asked_bps(traffic: &Traffic) -> Option<f64> {
    let mean_bytes = match &traffic.sizes {
        Sizes::Fixed(bytes) => *bytes as f64,
        Sizes::Drawn(distribution) => distribution.mean_bytes,
    };
    let (messages, every_ps) = match &traffic.pattern {
        Pattern::Poisson { senders, mean_gap_ps, .. } => (senders.len(), *mean_gap_ps),
        Pattern::RotatingIncast { senders, gap_ps, .. } => (senders.len(), *gap_ps),
        Pattern::Incast { fan_in, interval, .. } if *interval != Span::FOREVER => {
            (*fan_in as usize, interval.as_ps() as f64)
        }
        // The answers to a request come to one size.
        Pattern::Requests { askers, mean_gap_ps, .. } => (askers.len(), *mean_gap_ps),
        _ => return None,
    };
    Some(messages as f64 * mean_bytes * 8e12 / every_ps)
}

/// Warns of loads that links cannot carry, even without headers: of those that say so themselves,
/// or else of the host that is asked for most.
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
                "{} is {load}: more than the links that it is a share of carry; what waits grows \
                 as long as that lasts",
                table.path("load")
            ));
        }
    }
    if warnings.len() > before {
        return;
    }
    // Where several blocks last together, the last of them has just begun.
    let begins = traffic.iter().map(|block| block.start);
    let most = begins.flat_map(|at| busy(traffic, fabric, at)).reduce(more);
    if let Some(Busy { share, hosts, first, does }) = most.filter(|most| most.share > 1.0) {
        let first = &fabric.hosts[first];
        let (who, its) = match hosts {
            1 => (format!("{first} is"), "its link carries"),
            _ => (format!("{first} and {} more are", hosts - 1), "their links carry"),
        };
        warnings.push(format!(
            "{who} to {does} up to {share:.2} times what {its}; what waits grows as long as that \
             lasts"
        ));
    }
}

/// What is asked of hosts in one direction.
struct Busy {
    /// The most of any, as a share of its link.
    share: f64,
    /// Of so many it is more than their links carry.
    hosts: usize,
    /// The first that has most.
    first: usize,
    does: &'static str,
}

/// The one of which more is asked; the first where that is equal.
fn more(a: Busy, b: Busy) -> Busy {
    if b.share > a.share { b } else { a }
}

/// What is asked of hosts at `at`, on average.
fn busy(traffic: &[Traffic], fabric: &Fabric, at: Time) -> [Busy; 2] {
    let hosts = fabric.hosts.len();
    let all: Vec<u32> = (0..hosts as u32).collect();
    let (mut sent, mut received) = (vec![0.0; hosts], vec![0.0; hosts]);
    for block in traffic.iter().filter(|block| block.start <= at && at < block.stop) {
        let Some(asked) = asked_bps(block) else { continue };
        let (from, to) = match &block.pattern {
            Pattern::Poisson { senders, receivers, .. }
            | Pattern::RotatingIncast { senders, receivers, .. } => (&senders[..], &receivers[..]),
            Pattern::Incast { dst: Some(dst), .. } => (&all[..], core::slice::from_ref(dst)),
            Pattern::Requests { askers, .. } => (&all[..], &askers[..]),
            _ => (&all[..], &all[..]),
        };
        let share = |sums: &mut [f64], of: &[u32]| {
            of.iter().for_each(|host| sums[*host as usize] += asked / of.len() as f64);
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
    let busy = |does, sums: Vec<f64>| {
        let shares: Vec<f64> = sums.into_iter().zip(&rates).map(|(sum, rate)| sum / rate).collect();
        let share = shares.iter().copied().fold(0.0, f64::max);
        let first = shares.iter().position(|other| *other == share).unwrap_or(0);
        let hosts = shares.iter().filter(|share| **share > 1.0).count();
        Busy { share, hosts, first, does }
    };
    [busy("send", sent), busy("receive", received)]
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
    fn loads_above_what_links_carry_are_warned_of() {
        let poisson = |more: &str| format!("{{ kind = 'poisson', sizes = '100KB', {more} }}");
        let incast = "{ kind = 'incast', sizes = '125KB', fan_in = 4, interval = '20us'";
        let cases = [
            (poisson("load = 1.0"), ""),
            (poisson("load = 1.2"), "traffic[0].load is 1.2: more than the links"),
            (
                format!("{}, {}", poisson("load = 0.6"), poisson("load = 0.6")),
                "h0 and 4 more are to send up to 1.20 times what their links",
            ),
            // One after the other.
            (
                format!(
                    "{}, {}",
                    poisson("load = 0.6, stop = '5ms'"),
                    poisson("load = 0.6, start = '5ms'")
                ),
                "",
            ),
            // 200 Gbit/s, at all hosts in turn or at one.
            (format!("{incast} }}"), ""),
            (format!("{incast}, dst = 'h2' }}"), "h2 is to receive up to 2.00 times what its link"),
            (
                poisson("rate = '60Gbps', receivers = 'h[0-1]'"),
                "h0 and 1 more are to receive up to 1.50 times",
            ),
        ];
        for (traffic, said) in cases {
            let warnings = plan(&traffic).warnings;
            match said {
                "" => assert_eq!(warnings, Vec::<String>::new(), "{traffic}"),
                _ => assert!(warnings.len() == 1 && warnings[0].contains(said), "{warnings:?}"),
            }
        }
    }

    #[test]
    fn what_is_asked_is_what_a_load_says() {
        let asked = |traffic: &str| asked_bps(&plan(traffic).workload.traffic[0]);
        let near = |asked: Option<f64>, gbps: f64| (asked.unwrap() / 1e9 - gbps).abs() < 1e-3;
        assert!(near(asked("{ kind = 'poisson', sizes = 'websearch', load = 0.3 }"), 150.0));
        let incast = "kind = 'incast', sizes = '10KB', fan_in = 3";
        assert!(near(asked(&format!("{{ {incast}, load = 0.1 }}")), 50.0));
        assert_eq!(asked(&format!("{{ {incast} }}")), None);
        assert_eq!(asked("{ kind = 'permutation' }"), None);
    }
}
