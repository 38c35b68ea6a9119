//! Warnings of generated traffic that exceeds the capacity of links: of hosts, of racks, and of
//! groups of switches below the top of the fabric. Data packets count with their headers. Control
//! packets do not count, because their number depends on the protocol, and packets have the
//! telemetry of the shortest path: the offered load is a lower bound. Remedies leave room for one
//! control packet per data packet, and for the telemetry of the longest path.

use std::collections::VecDeque;

use tidegate_algos::Stack;
use tidegate_core::Time;
use tidegate_core::fabric::{Fabric, Node, PortEnds, Switch};
use tidegate_core::workload::{Pattern, Traffic};

use crate::load::offered_bps;
use crate::plan::Plan;
use crate::read::table::Table;
use crate::wire::Wire;

/// Groups of switches are formed at this number of tiers at most, from the racks up.
const MOST_TIERS: u32 = 4;
/// A larger share of the capacity is an overload, and a larger ratio of shares a difference: sums
/// are rounded.
const FULL: f64 = 1.0 + 1e-9;

/// Warns of loads that exceed the capacity of links, at the most loaded place.
pub(crate) fn warn<'a>(
    tables: &[Table],
    traffic: &[Traffic],
    fabric: &Fabric,
    stack: impl Fn(u16) -> &'a Stack + Copy,
    warnings: &mut Vec<String>,
) {
    warnings.extend(most_loaded(traffic, fabric, stack).map(|most| most.warning(tables)));
}

/// The links with the largest overload by traffic with a rate, as in `1.20 times the capacity of
/// the link of h0`; `None` if all loads fit.
pub fn overload(plan: &Plan) -> Option<String> {
    let stack = |number: u16| &plan.stacks[usize::from(number)];
    let most = most_loaded(&plan.workload.traffic, &plan.fabric, stack)?;
    Some(format!("{:.2} times the capacity of {}", most.place.shown(), most.place.links))
}

/// A limit with two significant digits, or two decimals, rounded down.
fn rounded_down(limit: f64) -> f64 {
    let digits = (1.0 - limit.log10().floor()).clamp(2.0, 12.0) as i32;
    let scale = 10f64.powi(digits);
    // A limit that is a round number stays one.
    (limit * scale + 1e-6).floor() / scale
}

/// The most loaded links, if they are overloaded.
struct Overload {
    place: Place,
    /// Numbers of the blocks that load it.
    causes: Vec<usize>,
    /// The largest share of these loads that fits, with control packets; 0 if what else loads their
    /// links does not fit by itself.
    fitting: f64,
}

/// Overloaded links.
struct Place {
    /// Offered load over the capacity.
    share: f64,
    /// The group and the direction.
    at: (usize, usize),
    /// The links: `the link of h0`.
    links: String,
    /// How a warning names the load and its limit.
    words: [String; 2],
}

impl Place {
    /// The share, such that an overload is never shown as 1.00.
    fn shown(&self) -> f64 {
        self.share.max(1.006)
    }
}

impl Overload {
    fn warning(&self, tables: &[Table]) -> String {
        let (share, [load, capacity]) = (self.place.shown(), &self.place.words);
        let of_table = |table: &Table| Some((table.path("load"), table.find::<f64>("load")?));
        let only = match self.causes[..] {
            [one] => tables.get(one).and_then(of_table),
            _ => None,
        };
        let remedy = match only {
            Some((key, load)) if self.fitting > 0.0 => {
                format!("set {key} to at most {}", rounded_down(load * self.fitting))
            }
            _ if self.fitting > 0.0 => {
                let percent = rounded_down(100.0 * self.fitting);
                let percent = if percent >= 10.0 { percent.floor() } else { percent };
                format!("reduce it to {percent} % or less")
            }
            _ => "other traffic needs all of the capacity".into(),
        };
        format!(
            "{load} is up to {share:.2} times {capacity}, headers included: queues grow for as \
             long as this lasts; {remedy}, which leaves room for control packets"
        )
    }
}

/// Loads in bit/s that leave and enter each group, on the wire.
struct Loads {
    data: Vec<[f64; 2]>,
    /// With the telemetry of the longest path, and one control packet for each data packet.
    all: Vec<[f64; 2]>,
}

/// The most loaded links over all times, if they are overloaded.
fn most_loaded<'a>(
    traffic: &[Traffic],
    fabric: &Fabric,
    stack: impl Fn(u16) -> &'a Stack,
) -> Option<Overload> {
    let offers: Vec<_> = traffic.iter().map(|block| offers(block, fabric)).collect();
    let all: Vec<(Groups, Vec<Loads>)> = groups(fabric)
        .into_iter()
        .map(|groups| {
            let blocks = traffic.iter().zip(&offers);
            let on_wire = |(block, offers): (&Traffic, &Offers)| {
                groups.on_wire(block, offers, stack(block.stack), fabric.mtu)
            };
            let loads = blocks.map(on_wire).collect();
            (groups, loads)
        })
        .collect();
    let active = |at: Time| {
        let blocks = traffic.iter().enumerate();
        blocks.filter(move |(_, block)| block.start <= at && at < block.stop).map(|(i, _)| i)
    };
    let mut most: Option<(Place, Time, usize)> = None;
    for (number, (groups, loads)) in all.iter().enumerate() {
        // The load is highest at the start of some block.
        for (block, offers) in traffic.iter().zip(&offers) {
            if offers.is_empty() {
                continue;
            }
            let share = most.as_ref().map_or(FULL, |(most, ..)| most.share);
            let own: Vec<_> = active(block.start).map(|i| &loads[i]).collect();
            let found = groups.overload(&own, fabric).filter(|found| found.share > share);
            most = found.map(|found| (found, block.start, number)).or(most);
        }
    }
    let (place, at, number) = most?;
    let (group, direction) = place.at;
    let loads = &all[number].1;
    let causes: Vec<usize> =
        active(at).filter(|&i| loads[i].data[group][direction] > 0.0).collect();
    let fits = |(groups, loads): &(Groups, Vec<Loads>)| {
        let (own, others): (Vec<_>, Vec<_>) = active(at).partition(|i| causes.contains(i));
        let of = |blocks: Vec<usize>| blocks.into_iter().map(|i| &loads[i]).collect::<Vec<_>>();
        groups.fitting(&of(own), &of(others))
    };
    let fitting = all.iter().map(fits).fold(1.0, f64::min);
    Some(Overload { place, causes, fitting })
}

/// Rates in bit/s of messages on links: from each host in `from` to each other host in `to`, the
/// product of their weights.
#[derive(Default)]
struct Offer {
    from: Vec<(u32, f64)>,
    to: Vec<(u32, f64)>,
}

/// The offers of a block: of its messages, and of their replies.
#[derive(Default)]
struct Offers {
    messages: Vec<Offer>,
    replies: Vec<Offer>,
}

impl Offers {
    fn is_empty(&self) -> bool {
        self.messages.is_empty()
    }
}

/// The offers of a block, in bit/s of payload; none if it has no rate.
fn offers(block: &Traffic, fabric: &Fabric) -> Offers {
    let mean_bytes = block.sizes.mean_bytes();
    let (pattern, replies) = match &block.pattern {
        Pattern::Answered { of, replies, .. } => (&**of, Some(replies.mean_bytes())),
        pattern => (pattern, None),
    };
    let Some(bps) = offered_bps(pattern, mean_bytes) else { return Offers::default() };
    let mut messages = of_pattern(pattern, bps, fabric.hosts.len() as u32);
    exclude_servers(&mut messages, fabric);
    let replies = replies.map(|reply_bytes| {
        let ratio = reply_bytes / mean_bytes;
        let reply = |offer: &Offer| Offer {
            from: offer.to.iter().map(|&(host, weight)| (host, weight * ratio)).collect(),
            to: offer.from.clone(),
        };
        messages.iter().map(reply).collect()
    });
    Offers { messages, replies: replies.unwrap_or_default() }
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
    /// Fewest and most switches on a path over these links.
    hops: [u32; 2],
}

/// Hosts one by one, racks, and groups of switches below the top of the fabric.
fn groups(fabric: &Fabric) -> Vec<Groups> {
    let tiers = tiers(fabric);
    let top = tiers.iter().copied().filter(|&tier| tier != u32::MAX).max().unwrap_or(0);
    let most = 2 * top + 1;
    let mut all = vec![of_hosts(fabric, most)];
    // The capacity of circuits depends on the pair of racks.
    if fabric.circuits.is_none() {
        all.extend((0..top.clamp(1, MOST_TIERS)).map(|tier| up_to(fabric, &tiers, (tier, most))));
    }
    all
}

fn of_hosts(fabric: &Fabric, most_hops: u32) -> Groups {
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
    let (switches, is_upward) = (Vec::new(), Vec::new());
    Groups { of_host, capacity, switches, is_upward, hops: [1, most_hops] }
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
fn up_to(fabric: &Fabric, tiers: &[u32], (tier, most_hops): (u32, u32)) -> Groups {
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
    Groups { of_host, capacity, switches, is_upward, hops: [2, most_hops.max(2)] }
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
    /// Loads of a block on the wire.
    fn on_wire(&self, block: &Traffic, offers: &Offers, stack: &Stack, mtu: u32) -> Loads {
        let number = self.capacity.len();
        let mut on_wire = Loads { data: vec![[0.0; 2]; number], all: vec![[0.0; 2]; number] };
        let (fan_in, replies) = match &block.pattern {
            Pattern::Requests { fan_in, .. } => (u64::from(*fan_in), None),
            Pattern::Answered { replies, .. } => (1, Some(replies)),
            _ => (1, None),
        };
        let messages = (&offers.messages, fan_in, Some(&block.sizes));
        for (offers, fan_in, sizes) in [messages, (&offers.replies, 1, replies)] {
            let Some(sizes) = sizes.filter(|_| !offers.is_empty()) else { continue };
            let [least, most] = Wire::on_paths(sizes, fan_in, stack, mtu, self.hops);
            for (group, load) in self.loads(offers).into_iter().enumerate() {
                for direction in [0, 1] {
                    on_wire.data[group][direction] += least.data * load[direction];
                    on_wire.all[group][direction] += most.data * load[direction];
                    on_wire.all[group][1 - direction] += most.control * load[direction];
                }
            }
        }
        on_wire
    }

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

    /// The largest share of the own loads that fits beside the others, at least 0.
    fn fitting(&self, own: &[&Loads], others: &[&Loads]) -> f64 {
        let mut least = f64::INFINITY;
        for (group, capacity) in self.capacity.iter().enumerate() {
            for direction in [0, 1] {
                let sum = |of: &[&Loads]| of.iter().map(|of| of.all[group][direction]).sum::<f64>();
                let (own, left) = (sum(own), capacity[direction] - sum(others));
                if own > 0.0 && capacity[direction] > 0.0 {
                    least = least.min(left.max(0.0) / own);
                }
            }
        }
        least
    }

    /// The largest share of a capacity that these loads offer, if it is an overload. Of equal
    /// shares, the first; traffic that leaves counts first.
    fn overload(&self, loads: &[&Loads], fabric: &Fabric) -> Option<Place> {
        let (mut most, mut place, mut overloaded) = (1.0, None, [0; 2]);
        for direction in [0, 1] {
            for (group, capacity) in self.capacity.iter().enumerate() {
                let load: f64 = loads.iter().map(|of| of.data[group][direction]).sum();
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
                Place {
                    share: most,
                    at: (group, direction),
                    links: format!("the {links} of {hosts}"),
                    words: [format!("the traffic {verb} by {hosts}"), capacity.to_owned()],
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
                Place {
                    share: most,
                    at: (group, direction),
                    words: [format!("the load of {links}"), capacity],
                    links,
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
mod tests;
