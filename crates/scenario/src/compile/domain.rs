//! Warnings of protocols that a scenario uses outside their design range.

use std::collections::BTreeMap;

use tidegate_core::fabric::{Ecn, Fabric, MarkAt, Node, PortEnds};
use tidegate_core::routes::Reach;
use tidegate_core::workload::{Flow, Workload};
use tidegate_core::{FabricProperties, Message, Path, Rate, Time};

use super::transport::Stacks;

/// Warns of protocols outside their design range on the longest path or on `shortest`, at the
/// share that unlimited flows leave each other. If warnings of both paths differ in numbers only,
/// that for the longest is reported: it needs the larger change.
pub(crate) fn outside(
    stacks: &Stacks<'_>,
    workload: &Workload,
    properties: &FabricProperties,
    shortest: Option<Path>,
    warnings: &mut Vec<String>,
) {
    for (number, stack) in stacks.iter().enumerate() {
        let share = properties.host_rate.as_bps() as f64 / fan_in(workload, number as u16) as f64;
        let point = |path| stack.operating_point(&path, share);
        let longest = point(properties.path()).domain_warnings;
        let found = match shortest {
            Some(shortest) => of_both(&longest, &point(shortest).domain_warnings),
            None => longest,
        };
        if !found.is_empty() {
            let name = stack.protocol().info().name;
            warnings.push(format!("{name}: {}", found.join("; ")));
        }
    }
}

/// Warns of paths with a much larger base RTT than the fastest one of the same pair.
pub(crate) fn warn_of_unequal_paths(reach: Reach, warnings: &mut Vec<String>) {
    let Reach { base_rtt, spread, .. } = reach;
    if spread > base_rtt.scale(0.25) {
        warnings.push(format!(
            "paths of a pair of hosts with the same number of switches differ by up to {:.2} us in \
             their base RTTs; base RTTs, of at most {:.2} us, and BDPs are those of the fastest, \
             so a protocol that limits bytes in flight to a BDP does not fill the others: set \
             transport.bdp to the BDP of the slowest",
            spread.as_us_f64(),
            base_rtt.as_us_f64()
        ));
    }
}

/// Warns of ports that are much slower than hosts and mark from the same queue, which a protocol
/// requires for the rate of hosts.
pub(crate) fn warn_of_slow_marking_ports(
    stacks: &Stacks<'_>,
    properties: &FabricProperties,
    fabric: &Fabric,
    warnings: &mut Vec<String>,
) {
    let bdp_bytes = properties.port_bdp_bytes();
    let required = |stack: &tidegate_algos::Stack| {
        stack.requirements(properties).ecn.map(|marking| marking.resolved(bdp_bytes))
    };
    let required: Vec<Ecn> = stacks.iter().filter_map(required).collect();
    let marking = |port: u32| {
        let PortEnds { from, to } = fabric.port_ends(port);
        let Node::Switch(switch) = from else { return None };
        let ecn = fabric.switches[switch as usize].ecn?;
        let marks = !(ecn.core_only && fabric.host_at(to).is_some());
        let is_unscaled = ecn.per.is_none() && required.contains(&ecn);
        (marks && is_unscaled).then_some((fabric.rate(port), ecn))
    };
    let ports = 0..2 * fabric.links.len() as u32;
    let slowest = ports.filter_map(marking).min_by_key(|&(rate, _)| rate);
    let Some((slowest, ecn)) = slowest else { return };
    let ports_per_host = u64::from(properties.ports.max(1));
    let hosts = Rate::bps(properties.host_rate.as_bps() / ports_per_host);
    if 2 * slowest.as_bps() <= hosts.as_bps() {
        let Ecn { min_bytes, max_bytes, max_probability, .. } = ecn;
        let mut keys = vec![format!("kmin = \"{min_bytes}B\"")];
        if min_bytes != max_bytes {
            keys.push(format!("kmax = \"{max_bytes}B\", pmax = {max_probability}"));
        }
        if ecn.at == MarkAt::Dequeue {
            keys.push("at = \"dequeue\"".into());
        }
        if ecn.core_only {
            keys.push("ports = \"core\"".into());
        }
        keys.push(format!("per = \"{hosts}\""));
        warnings.push(format!(
            "ports of {slowest} mark queues of {:.1} KB, {:.1} us, as ports of {hosts} do: set \
             switch.ecn = {{ {} }} to scale the threshold by the rate of each port",
            min_bytes / 1e3,
            min_bytes * 8e6 / slowest.as_bps() as f64,
            keys.join(", "),
        ));
    }
}

/// Largest number of unlimited flows of a stack that a host receives at a time; at least 1.
fn fan_in(workload: &Workload, stack: u16) -> usize {
    let mut received: BTreeMap<u32, usize> = BTreeMap::new();
    let unlimited = |flow: &&Flow| flow.stack == stack && flow.bytes == Message::UNLIMITED;
    for flow in workload.flows.iter().filter(unlimited).filter(|flow| flow.stop == Time::NEVER) {
        *received.entry(flow.dst).or_default() += 1;
    }
    received.into_values().max().unwrap_or(1)
}

/// The warnings for the longest path, and those for the shortest with a part that differs from all
/// parts of these in more than numbers. A warning names its path unless both have it.
fn of_both(longest: &[String], shortest: &[String]) -> Vec<String> {
    let kind = |text: &str| text.replace(|c: char| c.is_ascii_digit() || c == '.', "");
    let kinds = |text: &String| text.split("; ").map(kind).collect::<Vec<_>>();
    let known: Vec<String> = longest.iter().flat_map(kinds).collect();
    let is_other = |text: &&String| kinds(text).iter().any(|kind| !known.contains(kind));
    let of_longest = longest.iter().map(|text| match shortest.contains(text) {
        true => text.clone(),
        false => format!("on the longest path, {text}"),
    });
    let others = shortest.iter().filter(is_other);
    of_longest.chain(others.map(|text| format!("on the shortest path, {text}"))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::load;

    #[test]
    fn warnings_of_two_paths_name_their_path() {
        let texts = |list: &[&str]| list.iter().map(ToString::to_string).collect::<Vec<_>>();
        let longest = texts(&["target 25.5us is low; RTT is long; set 60us", "window is small"]);
        let shortest = texts(&["target 4us is low; set 47us", "target is high", "window is small"]);
        let expected = [
            "on the longest path, target 25.5us is low; RTT is long; set 60us",
            "window is small",
            "on the shortest path, target is high",
        ];
        assert_eq!(of_both(&longest, &shortest), expected);
    }

    #[test]
    fn suggested_values_have_no_warning() {
        let warnings = |params: &str| {
            let text = format!(
                "duration = '1ms'\n\
                 transport = {{ protocol = 'poseidon', params = {{ {params} }} }}\n\
                 fabric = {{ kind = 'clos', mtu = '1500B', pods = 2, racks_per_pod = 2, \
                 hosts_per_rack = 2, aggs_per_pod = 2, cores_per_plane = 1, \
                 host_link = {{ rate = '25Gbps', delay = '500ns' }}, \
                 agg_link = {{ rate = '40Gbps', delay = '1us' }}, \
                 core_link = {{ rate = '40Gbps', delay = '2us' }} }}\n\
                 traffic = [{{ kind = 'poisson', sizes = 'websearch', load = 0.3 }}]"
            );
            load(&text, "x.toml", &[]).unwrap().warnings
        };
        let found = warnings("");
        let text = found.iter().find(|text| text.starts_with("poseidon: ")).unwrap();
        assert_eq!(text.matches("set p = ").count(), 1, "{text}");
        assert!(text.starts_with("poseidon: on the longest path, a full packet"), "{text}");
        let (_, values) = text.split_once("; set ").unwrap();
        let found = warnings(&values.replace(" and ", ", "));
        assert!(!found.iter().any(|text| text.starts_with("poseidon")), "{found:?}");
    }

    #[test]
    fn slow_ports_with_unscaled_marking_are_reported() {
        // Two fast hosts and a slow one at two switches, whose link is slow, too.
        let plan = |rate: &str, protocol: &str, switch: &str| {
            let links = [("a", "s", "100Gbps"), ("b", "t", "100Gbps"), ("slow", "t", rate)]
                .into_iter()
                .chain([("s", "t", rate)])
                .map(|(a, b, rate)| {
                    format!("{{ a = '{a}', b = '{b}', rate = '{rate}', delay = '1us' }}")
                });
            let text = format!(
                "duration = '1ms'\ntransport = {{ protocol = '{protocol}' }}\n{switch}\n\
                 [fabric]\nkind = 'graph'\nhosts = ['a', 'b', 'slow']\nswitches = ['s', 't']\n\
                 links = [{}]\n[[flows]]\nsrc = 'a'\ndst = 'slow'\n",
                links.collect::<Vec<_>>().join(", ")
            );
            load(&text, "x.toml", &[]).unwrap()
        };
        let warning = |plan: &crate::Plan| {
            let mut all = plan.warnings.iter().filter(|text| text.starts_with("ports of "));
            let found = all.next().cloned();
            assert!(all.next().is_none(), "{:?}", plan.warnings);
            found
        };
        for protocol in ["dctcp", "sird", "nscc"] {
            let slow = plan("10Gbps", protocol, "");
            let text = warning(&slow).unwrap();
            assert!(text.starts_with("ports of 10Gbps mark queues of "), "{text}");
            let again = load(&slow.resolved.to_string(), "x.json", &[]).unwrap();
            assert_eq!(again.warnings, slow.warnings, "{protocol}");
            // The suggested setting changes nothing but the scale, and has no warning.
            let (_, setting) = text.split_once("set switch.ecn = ").unwrap();
            let (setting, _) = setting.split_once(" to scale").unwrap();
            let scaled = plan("10Gbps", protocol, &format!("switch = {{ ecn = {setting} }}"));
            assert_eq!(warning(&scaled), None, "{protocol}");
            let of = |plan: &crate::Plan| plan.fabric.switches[0].ecn.unwrap();
            let per = Some(Rate::gbps(100));
            assert_eq!(of(&scaled), Ecn { per, ..of(&slow) }, "{protocol}");
        }
        // Without marking, with a chosen threshold, and at similar rates.
        let others = [
            plan("10Gbps", "swift", ""),
            plan("10Gbps", "dctcp", "switch = { ecn = { kmin = '30KB' } }"),
            plan("75Gbps", "dctcp", ""),
        ];
        assert!(others.iter().all(|plan| warning(plan).is_none()));
    }

    #[test]
    fn paths_of_different_length_are_reported() {
        let warnings = |delay: &str, more: &str| -> Vec<String> {
            let links = [("h0", "t0", "1us"), ("h1", "t1", "1us"), ("t0", "s0", "1us")]
                .into_iter()
                .chain([("s0", "t1", "1us"), ("t0", "s1", delay), ("s1", "t1", "1us")])
                .map(|(a, b, delay)| {
                    format!("{{ a = '{a}', b = '{b}', rate = '100Gbps', delay = '{delay}' }}")
                });
            let text = format!(
                "duration = '1ms'\nflows = [{{ src = 'h0', dst = 'h1' }}]\n\
                 fabric = {{ kind = 'graph', hosts = ['h0', 'h1'], \
                 switches = ['t0', 't1', 's0', 's1'], links = [{}] }}\n\
                 transport = {{ protocol = 'swift'{more} }}",
                links.collect::<Vec<_>>().join(", ")
            );
            let warnings = load(&text, "x.toml", &[]).unwrap().warnings;
            warnings.into_iter().filter(|text| text.contains("number of switches")).collect()
        };
        // Four links of a microsecond each way, and four times 4,260 B at 80 ps.
        let base_us = 8.0 + 4.0 * 4260.0 * 80e-6;
        let none: [String; 0] = [];
        assert_eq!(warnings("1us", ""), none);
        assert_eq!(warnings(&format!("{}ns", 1000.0 + base_us * 124.0), ""), none);
        let found = warnings(&format!("{}ns", 1000.0 + base_us * 126.0), "");
        assert!(found[0].contains("up to 2.36 us") && found[0].contains("9.36 us"), "{found:?}");
        assert_eq!(warnings("9us", ", bdp = '400KB'"), none);
    }
}
