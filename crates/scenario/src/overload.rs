//! Warnings of generated traffic that exceeds the capacity of links even without headers: of hosts,
//! of racks, and of groups of switches below the top of the fabric.

use std::collections::VecDeque;

use tidegate_core::Time;
use tidegate_core::fabric::{Fabric, Node, PortEnds, Switch};
use tidegate_core::workload::{Pattern, Traffic};

use crate::load::offered_bps;
use crate::plan::Plan;
use crate::read::table::Table;

/// Groups of switches are formed at this number of tiers at most, from the racks up.
const MOST_TIERS: u32 = 4;
/// A larger share of the capacity is an overload, and a larger ratio of shares a difference: sums
/// are rounded.
const FULL: f64 = 1.0 + 1e-9;

/// Warns of loads that exceed the capacity of links: of every key `load` above 1, or else of the
/// most loaded place.
pub(crate) fn warn(
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
    if warnings.len() == before {
        warnings.extend(most_loaded(traffic, fabric).map(|most| most.warning()));
    }
}

/// The links with the largest overload by traffic with a rate, as in `1.20 times the capacity of
/// the link of h0`; `None` if all loads fit.
pub fn overload(plan: &Plan) -> Option<String> {
    let most = most_loaded(&plan.workload.traffic, &plan.fabric)?;
    Some(format!("{:.2} times the capacity of {}", most.share, most.links))
}

/// The most loaded links.
struct Overload {
    /// Offered load over the capacity.
    share: f64,
    /// The links: `the link of h0`.
    links: String,
    /// How a warning names the load and its limit.
    words: [String; 2],
    /// More of the warning.
    remedy: String,
}

impl Overload {
    fn warning(&self) -> String {
        let Overload { share, words: [load, capacity], remedy, .. } = self;
        format!(
            "{load} is up to {share:.2} times {capacity}: queues grow for as long as this \
             lasts{remedy}"
        )
    }
}

/// The most loaded links over all times, if they are overloaded.
fn most_loaded(traffic: &[Traffic], fabric: &Fabric) -> Option<Overload> {
    let offers: Vec<(&Traffic, Vec<Offer>)> =
        traffic.iter().map(|block| (block, offers(block, fabric))).collect();
    let mut most: Option<Overload> = None;
    for groups in groups(fabric) {
        let loads: Vec<_> = offers
            .iter()
            .map(|(block, offers)| (block.start, block.stop, groups.loads(offers)))
            .collect();
        // The load is highest at the start of some block.
        for &(at, ..) in &loads {
            let found = groups.overload(&loads, at, fabric);
            let share = most.as_ref().map_or(FULL, |most| most.share);
            most = found.filter(|found| found.share > share).or(most);
        }
    }
    most
}

/// Rates in bit/s of messages on links: from each host in `from` to each other host in `to`, the
/// product of their weights.
#[derive(Default)]
struct Offer {
    from: Vec<(u32, f64)>,
    to: Vec<(u32, f64)>,
}

/// The offers of a block; none if it has no rate.
fn offers(block: &Traffic, fabric: &Fabric) -> Vec<Offer> {
    let mean_bytes = block.sizes.mean_bytes();
    let (pattern, replies) = match &block.pattern {
        Pattern::Answered { of, replies, .. } => (&**of, Some(replies.mean_bytes())),
        pattern => (pattern, None),
    };
    let Some(bps) = offered_bps(pattern, mean_bytes) else { return Vec::new() };
    let mut offers = of_pattern(pattern, bps, fabric.hosts.len() as u32);
    exclude_servers(&mut offers, fabric);
    if let Some(reply_bytes) = replies {
        let ratio = reply_bytes / mean_bytes;
        let reply = |offer: &Offer| Offer {
            from: offer.to.iter().map(|&(host, weight)| (host, weight * ratio)).collect(),
            to: offer.from.clone(),
        };
        let all: Vec<Offer> = offers.iter().map(reply).collect();
        offers.extend(all);
    }
    offers
}

/// The offers of a pattern with this rate in total.
fn of_pattern(pattern: &Pattern, bps: f64, hosts: u32) -> Vec<Offer> {
    let each = |of: &[u32], weight: f64| of.iter().map(|&host| (host, weight)).collect();
    let all = |weight: f64| (0..hosts).map(|host| (host, weight)).collect();
    match pattern {
        Pattern::Poisson { senders, receivers, .. } => {
            let bps = bps / senders.len() as f64;
            let others =
                |host: &u32| receivers.len() - usize::from(receivers.binary_search(host).is_ok());
            let from = senders.iter().map(|host| (*host, bps / others(host) as f64)).collect();
            vec![Offer { from, to: each(receivers, 1.0) }]
        }
        Pattern::RotatingIncast { senders, receivers, .. } => {
            let bps = bps / senders.len() as f64 / receivers.len() as f64;
            // A sender sends to the next receiver in place of itself.
            let next = |host: &u32| {
                let own = receivers.binary_search(host).ok()?;
                let to = vec![(receivers[(own + 1) % receivers.len()], 1.0)];
                Some(Offer { from: vec![(*host, bps)], to })
            };
            let rounds = Offer { from: each(senders, bps), to: each(receivers, 1.0) };
            senders.iter().filter_map(next).chain([rounds]).collect()
        }
        Pattern::Incast { dst: Some(dst), .. } => {
            let from = all(bps / f64::from(hosts - 1));
            vec![Offer { from, to: vec![(*dst, 1.0)] }]
        }
        Pattern::Requests { askers, racks, .. } => {
            let bps = bps / askers.len() as f64 / (racks.len() - 1) as f64;
            let of_rack = |rack: &Vec<u32>| each(rack, bps / rack.len() as f64);
            let from = racks.iter().flat_map(|rack| -> Vec<_> { of_rack(rack) }).collect();
            // No host of an asker's own rack replies.
            let within = |rack: &Vec<u32>| {
                let own = rack.iter().filter(|host| askers.binary_search(host).is_ok());
                let to: Vec<_> = own.map(|&host| (host, -1.0)).collect();
                (!to.is_empty()).then(|| Offer { from: of_rack(rack), to })
            };
            let others = Offer { from, to: each(askers, 1.0) };
            racks.iter().filter_map(within).chain([others]).collect()
        }
        _ => {
            let pairs = f64::from(hosts) * f64::from(hosts - 1);
            vec![Offer { from: all(bps / pairs), to: all(1.0) }]
        }
    }
}

/// Subtracts the messages within servers, which use no links of the network.
fn exclude_servers(offers: &mut Vec<Offer>, fabric: &Fabric) {
    let Some(servers) = fabric.servers else { return };
    let mut within = Vec::new();
    let mut weight_to = vec![0.0; fabric.hosts.len()];
    for offer in &*offers {
        offer.to.iter().for_each(|&(host, weight)| weight_to[host as usize] += weight);
        for &(host, weight) in &offer.from {
            let first = host / servers.hosts * servers.hosts;
            let others = (first..first + servers.hosts).filter(|&other| other != host);
            let to = others.map(|other| (other, -weight_to[other as usize]));
            let to: Vec<_> = to.filter(|&(_, weight)| weight != 0.0).collect();
            if !to.is_empty() {
                within.push(Offer { from: vec![(host, weight)], to });
            }
        }
        offer.to.iter().for_each(|&(host, _)| weight_to[host as usize] = 0.0);
    }
    offers.extend(within);
}

/// Groups of hosts, each with the links that join it to the rest of the fabric.
struct Groups {
    of_host: Vec<u32>,
    /// Rates in bit/s that leave and enter each group.
    capacity: Vec<[f64; 2]>,
    /// By group: the switches at its end of these links. Empty if each host is a group.
    switches: Vec<Vec<u32>>,
    /// Whether all these links lead to a higher tier.
    is_upward: Vec<bool>,
}

/// Hosts one by one, racks, and groups of switches below the top of the fabric.
fn groups(fabric: &Fabric) -> Vec<Groups> {
    let mut all = vec![of_hosts(fabric)];
    // The capacity of circuits depends on the pair of racks.
    if fabric.circuits.is_some() {
        return all;
    }
    let tiers = tiers(fabric);
    let top = tiers.iter().copied().filter(|&tier| tier != u32::MAX).max().unwrap_or(0);
    all.extend((0..top.clamp(1, MOST_TIERS)).map(|tier| up_to(fabric, &tiers, tier)));
    all
}

fn of_hosts(fabric: &Fabric) -> Groups {
    let hosts = fabric.hosts.len();
    let mut capacity = vec![[0.0; 2]; hosts];
    for port in 0..2 * fabric.links.len() as u32 {
        let PortEnds { from, to } = fabric.port_ends(port);
        for (end, direction) in [(from, 0), (to, 1)] {
            if let Node::Host(host) = end {
                capacity[host as usize][direction] = fabric.rate(port).as_bps() as f64;
            }
        }
    }
    let of_host = (0..hosts as u32).collect();
    Groups { of_host, capacity, switches: Vec::new(), is_upward: Vec::new() }
}

/// Distance of each switch from the switches with hosts; the maximum for NICs.
fn tiers(fabric: &Fabric) -> Vec<u32> {
    let mut tiers = vec![u32::MAX; fabric.switches.len()];
    let mut neighbours = vec![Vec::new(); fabric.switches.len()];
    let mut pending = VecDeque::new();
    for link in fabric.packet_links() {
        if let Some((_, switch)) = fabric.access(link) {
            if tiers[switch as usize] != 0 {
                tiers[switch as usize] = 0;
                pending.push_back(switch);
            }
        } else if let (Node::Switch(a), Node::Switch(b)) = (link.a, link.b)
            && fabric.joins_switches(link)
        {
            neighbours[a as usize].push(b);
            neighbours[b as usize].push(a);
        }
    }
    while let Some(switch) = pending.pop_front() {
        for &other in &neighbours[switch as usize] {
            if tiers[other as usize] == u32::MAX {
                tiers[other as usize] = tiers[switch as usize] + 1;
                pending.push_back(other);
            }
        }
    }
    tiers
}

/// Groups of switches of these tiers that links join, or only switches with common hosts in the
/// lowest tier.
fn up_to(fabric: &Fabric, tiers: &[u32], tier: u32) -> Groups {
    let mut sets = Sets((0..fabric.switches.len() as u32).collect());
    let mut rack_of: Vec<Option<u32>> = vec![None; fabric.hosts.len()];
    for link in fabric.packet_links() {
        if let Some((host, rack)) = fabric.access(link) {
            // Racks of different planes have common hosts.
            let first = *rack_of[host as usize].get_or_insert(rack);
            sets.join(first, rack);
        } else if let (Node::Switch(a), Node::Switch(b)) = (link.a, link.b)
            && tier > 0
            && [a, b].iter().all(|&end| tiers[end as usize] <= tier)
        {
            sets.join(a, b);
        }
    }
    let number = fabric.switches.len();
    let mut capacity = vec![[0.0; 2]; number];
    let mut switches = vec![Vec::new(); number];
    let mut is_upward = vec![true; number];
    for (at, link) in (0..).zip(fabric.packet_links()) {
        let (Node::Switch(a), Node::Switch(b)) = (link.a, link.b) else { continue };
        let ends = [a, b].map(|end| sets.of(end) as usize);
        if ends[0] == ends[1] || !fabric.joins_switches(link) {
            continue;
        }
        let rates = [2 * at, 2 * at + 1].map(|port| fabric.rate(port).as_bps() as f64);
        let sides = [(ends[0], a, b, rates), (ends[1], b, a, [rates[1], rates[0]])];
        for (group, own, other, [leaving, entering]) in sides {
            capacity[group][0] += leaving;
            capacity[group][1] += entering;
            is_upward[group] &= tiers[other as usize] > tiers[own as usize];
            switches[group].push(own);
        }
    }
    for switches in &mut switches {
        switches.sort_unstable();
        switches.dedup();
    }
    let of_host = rack_of.into_iter().map(|rack| rack.map_or(0, |rack| sets.of(rack))).collect();
    Groups { of_host, capacity, switches, is_upward }
}

/// Disjoint sets: each member leads to another one, the representative to itself.
struct Sets(Vec<u32>);

impl Sets {
    fn of(&mut self, mut member: u32) -> u32 {
        while self.0[member as usize] != member {
            let next = self.0[member as usize];
            self.0[member as usize] = self.0[next as usize];
            member = next;
        }
        member
    }

    fn join(&mut self, a: u32, b: u32) {
        let (a, b) = (self.of(a), self.of(b));
        self.0[a.max(b) as usize] = a.min(b);
    }
}

impl Groups {
    /// Loads in bit/s that leave and enter each group.
    fn loads(&self, offers: &[Offer]) -> Vec<[f64; 2]> {
        let group = |host: u32| self.of_host[host as usize] as usize;
        let mut loads = vec![[0.0; 2]; self.capacity.len()];
        let (mut from, mut to) = (vec![0.0; loads.len()], vec![0.0; loads.len()]);
        for offer in offers {
            let (mut all_from, mut all_to) = (0.0, 0.0);
            for &(host, weight) in &offer.from {
                from[group(host)] += weight;
                all_from += weight;
            }
            for &(host, weight) in &offer.to {
                to[group(host)] += weight;
                all_to += weight;
            }
            for &(host, weight) in &offer.from {
                loads[group(host)][0] += weight * (all_to - to[group(host)]);
            }
            for &(host, weight) in &offer.to {
                loads[group(host)][1] += weight * (all_from - from[group(host)]);
            }
            offer.from.iter().for_each(|&(host, _)| from[group(host)] = 0.0);
            offer.to.iter().for_each(|&(host, _)| to[group(host)] = 0.0);
        }
        loads
    }

    /// The largest share of a capacity that the blocks with these starts, stops and loads offer at
    /// time `at`, if it is an overload. Of equal shares, the first; traffic that leaves counts
    /// first.
    fn overload(
        &self,
        blocks: &[(Time, Time, Vec<[f64; 2]>)],
        at: Time,
        fabric: &Fabric,
    ) -> Option<Overload> {
        let active: Vec<_> =
            blocks.iter().filter(|(start, stop, _)| *start <= at && at < *stop).collect();
        let (mut most, mut place, mut overloaded) = (1.0, None, [0; 2]);
        for direction in [0, 1] {
            for (group, capacity) in self.capacity.iter().enumerate() {
                let load: f64 = active.iter().map(|(.., loads)| loads[group][direction]).sum();
                let (capacity, share) = (capacity[direction], load / capacity[direction]);
                if capacity > 0.0 && share > FULL {
                    overloaded[direction] += 1;
                    if share > most * FULL {
                        (most, place) = (share, Some((group, direction, [load, capacity])));
                    }
                }
            }
        }
        let (group, direction, cut) = place?;
        Some(match self.switches.get(group) {
            None => {
                let host = &fabric.hosts[group];
                let (hosts, links, capacity) = match overloaded[direction] {
                    1 => (host.clone(), "link", "the capacity of its link"),
                    number => {
                        let hosts = format!("{host} and {} more", number - 1);
                        (hosts, "links", "the capacity of their links")
                    }
                };
                let verb = ["sent", "received"][direction];
                Overload {
                    share: most,
                    links: format!("the {links} of {hosts}"),
                    words: [format!("the traffic {verb} by {hosts}"), capacity.to_owned()],
                    remedy: String::new(),
                }
            }
            Some(switches) => {
                let names = named(switches, &fabric.switches);
                let links = match (self.is_upward[group], direction) {
                    (true, 0) => format!("the uplinks of {names}"),
                    (true, _) => format!("the downlinks to {names}"),
                    (false, 0) => format!("the links from {names} to other switches"),
                    (false, _) => format!("the links from other switches to {names}"),
                };
                let [load, capacity] = cut.map(|bps| bps / 1e9);
                let capacity = format!("their capacity ({load:.1} Gbit/s on {capacity:.1} Gbit/s)");
                let fitting = (100.0 / most).floor();
                Overload {
                    share: most,
                    words: [format!("the load of {links}"), capacity],
                    links,
                    remedy: format!("; reduce it below {fitting} %, because headers add to it"),
                }
            }
        })
    }
}

/// `tor0`, `agg0 and agg1`, or `agg0 and 7 more`.
fn named(switches: &[u32], all: &[Switch]) -> String {
    let name = |&switch: &u32| all[switch as usize].name.as_str();
    match switches {
        [] => String::new(),
        [one] => name(one).to_owned(),
        [a, b] => format!("{} and {}", name(a), name(b)),
        [first, rest @ ..] => format!("{} and {} more", name(first), rest.len()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::load;

    fn on(fabric: &str, traffic: &str) -> Plan {
        let text = format!(
            "duration = '10ms'\nfabric = {{ {fabric} }}\ntransport = {{ protocol = 'swift' \
             }}\ntraffic = [{traffic}]"
        );
        load(&text, "x.toml", &[]).unwrap()
    }

    fn plan(traffic: &str) -> Plan {
        on("kind = 'star', hosts = 5", traffic)
    }

    fn poisson(more: &str) -> String {
        format!("{{ kind = 'poisson', sizes = '100KB', {more} }}")
    }

    #[test]
    fn overload_is_warned_of() {
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

    /// Racks of 8 hosts with 200 Gbit/s of uplinks, in two pods of 200 Gbit/s.
    const CLOS: &str = "kind = 'clos', pods = 2, racks_per_pod = 2, cores_per_plane = 1";

    #[test]
    fn overloaded_switches_are_warned_of() {
        // Of 31 other hosts, 24 are in other racks and 16 in the other pod.
        let cases = [
            (CLOS, "load = 0.24", ""),
            (
                CLOS,
                "load = 0.25",
                "the load of the uplinks of agg0 and agg1 is up to 1.03 times their capacity \
                 (206.5 Gbit/s on 200.0 Gbit/s): queues grow for as long as this lasts; reduce it \
                 below 96 %, because headers add to it",
            ),
            // Within the pods.
            (CLOS, "load = 0.5, senders = 'h[0-7]', receivers = 'h[8-15]'", "uplinks of tor0 is"),
            (CLOS, "load = 0.24, senders = 'h[0-7]', receivers = 'h[8-15]'", ""),
            (CLOS, "rate = '20Gbps', receivers = 'h[0-7]'", "the downlinks to tor0"),
            (
                "kind = 'leaf-spine', racks = 3, hosts_per_rack = 8, spines = 3, fabric_link = { \
                 rate = '100Gbps', delay = '1us' }",
                "load = 0.8",
                "uplinks of tor0 is up to 1.48 times their capacity (445.2 Gbit/s on 300.0",
            ),
            (
                "kind = 'dumbbell', pairs = 4",
                "load = 0.9",
                "the load of the links from tor0 to other switches is up to 2.06 times",
            ),
            // Racks of both planes have the same hosts.
            (
                "kind = 'leaf-spine', racks = 2, hosts_per_rack = 4, spines = 1, planes = 2, \
                 fabric_link = { rate = '200Gbps', delay = '1us' }",
                "load = 0.9",
                "the load of the uplinks of plane0.tor0 and plane1.tor0 is up to 1.03",
            ),
        ];
        for (fabric, traffic, expected) in cases {
            let plan = on(fabric, &poisson(traffic));
            let found: Vec<_> =
                plan.warnings.iter().filter(|text| text.contains("queues grow")).collect();
            match expected {
                "" => assert!(found.is_empty(), "{traffic}: {found:?}"),
                _ => assert!(found.len() == 1 && found[0].contains(expected), "{found:?}"),
            }
            assert_eq!(overload(&plan).is_some(), !expected.is_empty(), "{traffic}");
        }
    }

    /// Loads of groups counted pair by pair.
    #[test]
    fn loads_of_groups_are_sums_of_pairs() {
        let fabric = "kind = 'leaf-spine', racks = 4, hosts_per_rack = 3";
        let servers = "}\nhosts = { server = { hosts = 4, rate = '1Tbps', delay = '1us' }";
        let requests = "{ kind = 'requests', sizes = '1KB', fan_in = 2, per_second = 1000, askers \
                        = ['h0', 'h4', 'h5'] }";
        let chosen = poisson("rate = '1Gbps', senders = ['h0', 'h4'], receivers = 'h[1-5]'");
        let rounds = chosen.replace("poisson", "rotating-incast");
        let same_rack = |a: u32, b: u32| a / 3 == b / 3;
        // Rates are those of one sender or asker, in bit/s.
        let uniform = |a: u32, b: u32| {
            let others = if (1..6).contains(&a) { 4.0 } else { 5.0 };
            let is_sent = [0, 4].contains(&a) && (1..6).contains(&b) && a != b;
            if is_sent { 1e9 / others } else { 0.0 }
        };
        let rotating = |a: u32, b: u32| {
            let once = [0, 4].contains(&a) && (1..6).contains(&b) && a != b;
            if once { 2e8 * if (a, b) == (4, 5) { 2.0 } else { 1.0 } } else { 0.0 }
        };
        let replies = |a: u32, b: u32| {
            let is_sent = [0, 4, 5].contains(&b) && !same_rack(a, b);
            if is_sent { 8e6 / 9.0 } else { 0.0 }
        };
        let rates: [&dyn Fn(u32, u32) -> f64; 3] = [&uniform, &rotating, &replies];
        let traffic = [&chosen[..], &rounds, requests];
        let cases = traffic.into_iter().zip(rates).flat_map(|of| [(of, false), (of, true)]);
        for ((traffic, rate), joined) in cases {
            let plan = on(&format!("{fabric}{}", if joined { servers } else { "" }), traffic);
            let offers = offers(&plan.workload.traffic[0], &plan.fabric);
            for groups in groups(&plan.fabric) {
                let loads = groups.loads(&offers);
                let mut expected = vec![[0.0; 2]; loads.len()];
                let pairs = (0..12).flat_map(|a| (0..12).map(move |b| (a, b)));
                for (a, b) in pairs.filter(|(a, b)| !joined || a / 4 != b / 4) {
                    let [from, to] = [a, b].map(|host| groups.of_host[host as usize] as usize);
                    if from != to {
                        expected[from][0] += rate(a, b);
                        expected[to][1] += rate(a, b);
                    }
                }
                let both = loads.iter().flatten().zip(expected.iter().flatten());
                let is_near = both.clone().all(|(a, b)| (a - b).abs() < 1.0);
                assert!(is_near, "{traffic}: {loads:?} and {expected:?}");
            }
        }
    }

    #[test]
    fn replies_load_the_reverse_direction() {
        let traffic = poisson("rate = '10Gbps', receivers = 'h0', reply = '1MB'");
        let senders = traffic.replace("rate", "senders = 'h[1-4]', rate");
        let warnings = plan(&senders).warnings;
        let expected = "the traffic sent by h0 is up to 4.00 times the capacity of its link";
        assert!(warnings.iter().any(|text| text.contains(expected)), "{warnings:?}");
    }
}
