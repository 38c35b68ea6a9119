//! The traffic of the synthetic scenario: Poisson arrivals, and incasts.

use std::fmt::Write;

use tidegate_core::Span;

use super::distribution::is_alike;
use super::time::rounded;
use super::{FoundIncast, Workload, percentile};

/// Largest number of groups of senders on a side.
const GROUPS: usize = 4;
/// Line width of a file.
const WIDTH: usize = 100;

/// Senders with similar rates of flows.
#[derive(Clone, Debug, Default)]
struct Group {
    senders: Vec<bool>,
    receivers: Vec<bool>,
    flows: usize,
}

/// The blocks of traffic, for the sizes outside incasts and inside, in order.
pub(super) fn traffic(of: &Workload, background: &[u64], burst: &[u64]) -> String {
    let bytes: u64 = background.iter().sum();
    let mean = bytes as f64 / background.len().max(1) as f64;
    let groups = groups(of);
    let mut text = String::new();
    for group in &groups {
        text += &poisson(of, group, mean);
    }
    if let Some(incast) = &of.incast {
        text += &bursts(incast, burst);
    }
    text
}

/// Groups the senders of flows outside incasts, on each side of the traffic: the first group has at
/// least half as many flows as the busiest sender of the side, the second at least a quarter, and
/// so on.
fn groups(of: &Workload) -> Vec<Group> {
    let hosts = of.trace.hosts.len();
    let flows = || of.trace.flows.iter().zip(&of.is_incast).filter(|(_, is)| !**is);
    let mut counts = vec![0usize; hosts];
    flows().for_each(|(flow, _)| counts[flow.src as usize] += 1);
    let sides = sides(hosts, flows().map(|(flow, _)| (flow.src as usize, flow.dst as usize)));
    let mut most = [0; 2];
    for (count, side) in counts.iter().zip(&sides) {
        most[*side] = most[*side].max(*count);
    }
    let number = |host: usize| {
        let ratio = most[sides[host]] / counts[host].max(1);
        sides[host] * GROUPS + (ratio.max(1).ilog2() as usize).min(GROUPS - 1)
    };
    let empty = Group { senders: vec![false; hosts], receivers: vec![false; hosts], flows: 0 };
    let mut groups = vec![empty; 2 * GROUPS];
    for (flow, _) in flows() {
        let group = &mut groups[number(flow.src as usize)];
        group.senders[flow.src as usize] = true;
        group.receivers[flow.dst as usize] = true;
        group.flows += 1;
    }
    groups.retain(|group| group.flows > 0);
    groups
}

/// The side of each host, 0 or 1, if all flows are between hosts of different sides, as between
/// clients and servers. Otherwise all hosts are on side 0.
fn sides(hosts: usize, pairs: impl Iterator<Item = (usize, usize)>) -> Vec<usize> {
    let mut others = vec![Vec::new(); hosts];
    for (src, dst) in pairs {
        others[src].push(dst);
        others[dst].push(src);
    }
    let mut sides = vec![None; hosts];
    for first in 0..hosts {
        let mut open = if sides[first].is_none() { vec![(first, 0)] } else { Vec::new() };
        while let Some((host, side)) = open.pop() {
            match sides[host] {
                Some(known) if known != side => return vec![0; hosts],
                Some(_) => {}
                None => {
                    sides[host] = Some(side);
                    open.extend(others[host].iter().map(|other| (*other, 1 - side)));
                }
            }
        }
    }
    sides.into_iter().map(|side| side.unwrap_or(0)).collect()
}

/// A block of Poisson arrivals with sizes of this mean.
fn poisson(of: &Workload, group: &Group, mean: f64) -> String {
    let mut text = "\n[[traffic]]\nkind = \"poisson\"\nlabel = \"background\"\n\
        sizes = \"sizes.csv\"\nsampling = \"step\"\n"
        .to_owned();
    let (senders, flows) = (group.senders.iter().filter(|is| **is).count(), group.flows as f64);
    let capacity = senders as f64 * of.host_link.rate.as_bps() as f64;
    let load = flows * mean * 8.0 / of.trace.duration.as_s_f64() / capacity;
    if load >= 1e-5 {
        // Six significant digits.
        let load: f64 = format!("{load:.5e}").parse().unwrap_or(load);
        let _ = writeln!(text, "load = {load}");
    } else {
        let gap = rounded(of.trace.duration.scale(senders as f64 / flows));
        let _ = writeln!(text, "gap = \"{gap}\"");
    }
    for (key, is) in [("senders", &group.senders), ("receivers", &group.receivers)] {
        if is.contains(&false) {
            text += &ranges(key, is);
        }
    }
    text
}

fn bursts(incast: &FoundIncast, sizes: &[u64]) -> String {
    let mut text = "\n[[traffic]]\nkind = \"incast\"\nlabel = \"incast\"\n".to_owned();
    let _ = writeln!(text, "fan_in = {}", incast.fan_in);
    if is_alike(sizes) {
        let _ = writeln!(text, "sizes = \"{}B\"", percentile(sizes, 0.5).unwrap_or(1));
    } else {
        text += "sizes = \"incast-sizes.csv\"\nsampling = \"step\"\n";
    }
    if let Some(dst) = incast.dst {
        let _ = writeln!(text, "dst = \"h{dst}\"");
    }
    if let Some(interval) = incast.interval {
        let _ = writeln!(text, "interval = \"{}\"", rounded(interval));
    }
    if incast.is_random {
        text += "poisson = true\n";
    } else {
        let _ = writeln!(text, "start = \"{}\"", incast.first);
    }
    if incast.spread > Span::ZERO {
        let _ = writeln!(text, "jitter = \"{}\"", rounded(incast.spread));
    }
    text
}

/// A list of hosts as ranges: `key = ["h[0-3]", "h7"]`.
fn ranges(key: &str, is: &[bool]) -> String {
    let mut text = format!("{key} = [");
    let mut column = WIDTH;
    let numbers: Vec<usize> = (0..is.len()).filter(|i| is[*i]).collect();
    for run in numbers.chunk_by(|a, b| a + 1 == *b) {
        let word = match run {
            [only] => format!("\"h{only}\","),
            _ => format!("\"h[{}-{}]\",", run[0], run[run.len() - 1]),
        };
        if column + 1 + word.len() > WIDTH {
            text.push_str("\n ");
            column = 1;
        }
        text.push(' ');
        text += &word;
        column += 1 + word.len();
    }
    text + "\n]\n"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clients_and_servers_are_on_different_sides() {
        let of = |pairs: &[(usize, usize)]| sides(5, pairs.iter().copied());
        assert_eq!(of(&[(0, 3), (3, 1), (1, 4), (4, 0)]), [0, 0, 0, 1, 1]);
        assert_eq!(of(&[(0, 3), (3, 1), (1, 0)]), [0; 5], "a triangle");
        assert_eq!(of(&[]), [0; 5]);
    }

    #[test]
    fn times_are_rounded_up() {
        let rounds = |ps| rounded(Span::ps(ps)).as_ps();
        assert_eq!(rounds(249_905_223_001), 249_906_000_000);
        assert_eq!(rounds(24_060_416), 24_061_000);
        assert_eq!([rounds(7), rounds(123_456), rounds(0)], [7, 123_456, 0]);
    }

    #[test]
    fn hosts_are_listed_as_ranges() {
        let is = [true, true, false, true, false, true, true, true];
        assert_eq!(ranges("senders", &is), "senders = [\n  \"h[0-1]\", \"h3\", \"h[5-7]\",\n]\n");
    }
}
