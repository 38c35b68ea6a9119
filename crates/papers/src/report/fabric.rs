//! The fabric as a picture: nodes in layers, and the load of links.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use serde::Serialize;
use tidegate_results::Summary;

use super::series::Series;
use crate::plot::{Points, short};

/// Larger fabrics are drawn without hosts.
const HOSTS_MAX: usize = 300;

/// Nodes and links.
#[derive(Debug, PartialEq, Serialize)]
pub(crate) struct Fabric {
    pub(crate) nodes: Vec<Node>,
    /// Each direction of each link, by the numbers of its end nodes.
    pub(crate) links: Vec<(usize, usize)>,
    /// Rates in Gbit/s.
    pub(crate) rates: Vec<f64>,
    /// Layers of switches, without the hosts.
    pub(crate) layers: usize,
    /// Number of hosts that are omitted.
    pub(crate) hidden_hosts: usize,
    /// Number of links that the results omit.
    pub(crate) hidden_links: u64,
}

/// A host or a switch.
#[derive(Debug, PartialEq, Serialize)]
pub(crate) struct Node {
    pub(crate) name: String,
    /// Horizontal position, from 0 to 1.
    pub(crate) x: f64,
    /// Distance from the nearest host: 0 for hosts, 1 for ToR switches.
    pub(crate) layer: usize,
}

/// Load of a fabric's links in a run, in the order of links.
#[derive(Debug, Serialize)]
pub(crate) struct Carried {
    /// Utilisation.
    used: Vec<Option<f64>>,
    /// Queue in KB.
    queue_mean: Vec<Option<f64>>,
    queue_max: Vec<Option<f64>>,
    /// Sampling times of queues, in ms.
    times: Vec<f64>,
    /// Queues in KB at these times, for links with any non-zero sample.
    queues: BTreeMap<usize, Vec<f64>>,
}

/// Sort key of a name that compares numbers by value: `tor2` before `tor10`.
fn natural(name: &str) -> Vec<(String, u64)> {
    let mut parts: Vec<(String, String)> = vec![Default::default()];
    for c in name.chars() {
        let (text, digits) = parts.last_mut().expect("there is one");
        if c.is_ascii_digit() {
            digits.push(c);
        } else if digits.is_empty() {
            text.push(c);
        } else {
            parts.push((c.to_string(), String::new()));
        }
    }
    let number = |digits: String| digits.parse().unwrap_or(0);
    parts.into_iter().map(|(text, digits)| (text, number(digits))).collect()
}

impl Fabric {
    /// The fabric of a run, derived from the summary's links.
    pub(crate) fn of(summary: &Summary) -> Fabric {
        let is_switch = |name: &str| summary.switches.iter().any(|switch| switch.name == name);
        let ends = || summary.links.iter().flat_map(|link| [&link.from, &link.to]);
        let all: BTreeSet<&str> = ends().map(String::as_str).collect();
        // A NIC stands for its host.
        let has_nic = |name: &str| all.contains(&*format!("{name}.nic"));
        let names: BTreeMap<&str, bool> = all
            .iter()
            .filter(|name| !has_nic(name))
            .map(|&name| (name, !is_switch(name)))
            .collect();
        let hosts = names.values().filter(|is_host| **is_host).count();
        let hidden_hosts = if hosts > HOSTS_MAX { hosts } else { 0 };
        let mut order: Vec<&str> = names.keys().copied().collect();
        order.sort_by_cached_key(|name| natural(name));
        let layers = layers(&order, &names, summary);
        let is_drawn = |name: &&str| hidden_hosts == 0 || !names[name];
        let drawn: Vec<&str> = order.iter().copied().filter(is_drawn).collect();
        let number: BTreeMap<&str, usize> =
            drawn.iter().enumerate().map(|(i, name)| (*name, i)).collect();
        let ends = |link: &tidegate_results::LinkSummary| {
            Some((*number.get(link.from.as_str())?, *number.get(link.to.as_str())?))
        };
        let links: Vec<(usize, usize)> = summary.links.iter().filter_map(ends).collect();
        let rates =
            summary.links.iter().filter(|link| ends(link).is_some()).map(|link| link.rate_gbps);
        let layer: Vec<usize> = drawn.iter().map(|name| layers[name]).collect();
        let places = places(&layer, &links);
        let node = |(i, name): (usize, &&str)| Node {
            name: (*name).to_owned(),
            x: short(places[i]),
            layer: layer[i],
        };
        Fabric {
            rates: rates.collect(),
            layers: layer.iter().copied().max().unwrap_or(0),
            nodes: drawn.iter().enumerate().map(node).collect(),
            links,
            hidden_hosts,
            hidden_links: summary.links_omitted,
        }
    }

    /// Load of the links in a run on this fabric, with at most `most` samples.
    pub(crate) fn carried(
        &self,
        summary: &Summary,
        series: Option<&Series>,
        samples: usize,
    ) -> Carried {
        let number: BTreeMap<(&str, &str), usize> = self
            .links
            .iter()
            .enumerate()
            .map(|(i, &(a, b))| ((self.nodes[a].name.as_str(), self.nodes[b].name.as_str()), i))
            .collect();
        let there =
            || summary.links.iter().filter(|link| number.contains_key(&(&link.from, &link.to)));
        let kb = |bytes: Option<f64>| bytes.map(|bytes| short(bytes * 1e-3));
        let queues: Vec<(usize, &Points)> = series.map_or_else(Vec::new, |series| {
            let drawn = series.queues.iter().filter_map(|((from, to), points)| {
                Some((*number.get(&(from.as_str(), to.as_str()))?, points))
            });
            drawn.filter(|(_, points)| points.iter().any(|point| point.1 > 0.0)).collect()
        });
        let most = (samples / queues.len().max(1)).clamp(10, 200);
        let thin: Vec<(usize, Points)> =
            queues.into_iter().map(|(link, points)| (link, points.thinned(most))).collect();
        let times = thin.first().map_or_else(Vec::new, |(_, points)| {
            points.iter().map(|point| short(point.0)).collect()
        });
        let values = |points: &Points| points.iter().map(|point| short(point.1)).collect();
        Carried {
            used: there().map(|link| link.utilization.map(short)).collect(),
            queue_mean: there().map(|link| kb(link.queue_bytes.mean)).collect(),
            queue_max: there().map(|link| kb(link.queue_bytes.max)).collect(),
            times,
            queues: thin.iter().map(|(link, points)| (*link, values(points))).collect(),
        }
    }
}

/// Distance of every node from its nearest host.
fn layers<'a>(
    order: &[&'a str],
    names: &BTreeMap<&'a str, bool>,
    summary: &'a Summary,
) -> BTreeMap<&'a str, usize> {
    let mut next: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for link in &summary.links {
        next.entry(&link.from).or_default().push(&link.to);
        next.entry(&link.to).or_default().push(&link.from);
    }
    let mut layers: BTreeMap<&str, usize> = BTreeMap::new();
    let mut queue: VecDeque<&str> = VecDeque::new();
    for name in order.iter().filter(|name| names[*name]) {
        layers.insert(name, 0);
        queue.push_back(name);
    }
    while let Some(name) = queue.pop_front() {
        let layer = layers[name] + 1;
        for &other in next.get(name).into_iter().flatten() {
            if !layers.contains_key(other) {
                layers.insert(other, layer);
                queue.push_back(other);
            }
        }
    }
    // Nodes that no known link connects to a host.
    order.iter().for_each(|name| {
        layers.entry(name).or_insert(1);
    });
    layers
}

/// Horizontal positions: switches evenly in their order, ToR switches above their hosts, hosts
/// below their switch.
fn places(layer: &[usize], links: &[(usize, usize)]) -> Vec<f64> {
    let mut above: Vec<Option<usize>> = vec![None; layer.len()];
    for &(a, b) in links {
        if layer[a] == 0 && layer[b] == 1 && above[a].is_none() {
            above[a] = Some(b);
        }
    }
    let even = |count: usize| move |i: usize| (i as f64 + 0.5) / count as f64;
    let of_layer = |at: usize| (0..layer.len()).filter(move |&i| layer[i] == at);
    let mut x = vec![0.5; layer.len()];
    for at in 1..=layer.iter().copied().max().unwrap_or(0) {
        let place = even(of_layer(at).count());
        of_layer(at).enumerate().for_each(|(i, node)| x[node] = place(i));
    }
    let mut hosts: Vec<usize> = of_layer(0).collect();
    let switch_of = |host: usize| above[host].map_or(0.5, |switch| x[switch]);
    hosts.sort_by(|&a, &b| switch_of(a).total_cmp(&switch_of(b)).then(a.cmp(&b)));
    let place = even(hosts.len());
    hosts.iter().enumerate().for_each(|(i, &host)| x[host] = place(i));
    // ToR switches stand above their hosts if each has some.
    let mut own: BTreeMap<usize, (f64, f64)> = BTreeMap::new();
    for &host in &hosts {
        let Some(switch) = above[host] else { continue };
        let sum = own.entry(switch).or_default();
        *sum = (sum.0 + x[host], sum.1 + 1.0);
    }
    if of_layer(1).all(|switch| own.contains_key(&switch)) {
        own.iter().for_each(|(&switch, (sum, count))| x[switch] = sum / count);
    }
    x
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_sort_by_number() {
        let mut names = ["tor10", "tor2", "h1", "a3-sink", "a3", "a10"];
        names.sort_by_cached_key(|name| natural(name));
        assert_eq!(names, ["a3", "a3-sink", "a10", "h1", "tor2", "tor10"]);
    }

    #[test]
    fn hosts_stand_beneath_their_switch() {
        // Hosts 0 to 3, two racks 4 and 5 of two hosts each, one spine. The first two hosts are in
        // the second rack.
        let layer = [0, 0, 0, 0, 1, 1, 2];
        let links = [(0, 5), (1, 5), (2, 4), (3, 4), (4, 6), (5, 6), (6, 4), (6, 5)];
        let x = places(&layer, &links);
        assert_eq!(x[..4], [0.625, 0.875, 0.125, 0.375]);
        assert_eq!(x[4..], [0.25, 0.75, 0.5]);
    }
}
