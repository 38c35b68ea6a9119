//! Degraded links: `faults.degraded`.
//!
//! A link that is degraded for the whole run gets another rate in the fabric if both directions
//! are, and else a rate of the port. A start or an end in the run is a change of the rate.

use std::collections::BTreeMap;

use tidegate_core::fabric::{Fabric, Node, PortRate, RateChange};
use tidegate_core::{Rate, Time};

use super::RunSettings;
use super::glob::Glob;
use super::topology::MOST_LINKS;
use crate::error::{Error, nearest};
use crate::read::keys::{Default, Key, LINK_RATE, Optional, Required, SPAN, Shape, key};
use crate::read::table::{Table, Word};

/// Keys of the section `faults`.
pub(crate) static KEYS: &[Key] = &[key(
    "degraded",
    Shape::Tables(&[DEGRADED]),
    Optional,
    "Links that run at a fraction of their rate, for example 100 of 400 Gbit/s. Routing continues \
     to use them, with the same weight.",
)];

/// Least rate of a link.
const LEAST: Rate = Rate::mbps(1);

static DEGRADED: &[Key] = &[
    key(
        "links",
        Shape::Globs,
        Required,
        "Links by their ends, either one first, with wildcards: \"agg0-core*\", \"tor[0-3]-*\".",
    ),
    key(
        "count",
        Shape::Count { min: 1, max: MOST_LINKS },
        Optional,
        "Number of these links that are degraded, in the order of the fabric. Default: all.",
    ),
    key(
        "rate",
        LINK_RATE,
        Optional,
        "Their rate, at most that of the intact link. Either rate or share must be set.",
    ),
    key(
        "share",
        Shape::Number { min: 0.001, max: 1.0 },
        Optional,
        "Their rate as a share of that of the intact link.",
    ),
    key(
        "direction",
        Shape::Word(&["both", "forward"]),
        Default("both"),
        "Degraded directions: both, or forward, from the first end that the pattern names to the \
         second. Links of hosts can only be degraded in both directions.",
    ),
    key(
        "from",
        SPAN,
        Optional,
        "Start. Default: the start of the run. Base RTTs, ideal completion times and \
         bandwidth-delay products refer to the degraded rate if the link is degraded for the whole \
         run, and else to the intact one.",
    ),
    key("until", SPAN, Optional, "End. Default: never."),
];

/// Degrades the links that the section names.
pub(crate) fn degrade(
    section: Option<&Table>,
    fabric: &mut Fabric,
    run: RunSettings,
) -> Result<(), Error> {
    let tables = section.map_or(&[][..], |section| section.tables("degraded"));
    if let (Some(table), Some(_)) = (tables.first(), &fabric.circuits) {
        let expected = "a fabric without circuits: degraded links are not supported with circuits";
        return Err(table.error("links", expected));
    }
    let mut slower: BTreeMap<u32, Rate> = BTreeMap::new();
    let mut degraded_by: BTreeMap<u32, usize> = BTreeMap::new();
    for (number, table) in tables.iter().enumerate() {
        let (from, until) = run.interval(table, ["from", "until"])?;
        for port in ports(table, fabric)? {
            if let Some(other) = degraded_by.insert(port, number) {
                let found = format!("{}, which degraded[{other}] degrades too", name(fabric, port));
                return Err(table.error_found(
                    "links",
                    found,
                    "each direction of a link in one table only",
                ));
            }
            let (intact, rate) = (fabric.rate(port), rate(table, fabric, port)?);
            if from == Time::ZERO && until == Time::NEVER {
                slower.insert(port, rate);
                continue;
            }
            fabric.rate_changes.push(RateChange { port, at: from, rate });
            if until < Time::NEVER {
                fabric.rate_changes.push(RateChange { port, at: until, rate: intact });
            }
        }
    }
    fabric.rate_changes.sort_by_key(|change| change.at);
    for (&port, &rate) in &slower {
        let other = slower.get(&(port ^ 1));
        if other == Some(&rate) {
            fabric.links[port as usize / 2].rate = rate;
        } else {
            fabric.port_rates.push(PortRate { port, rate });
        }
    }
    Ok(())
}

/// The directions of links that a table degrades, in the order of the fabric.
fn ports(table: &Table, fabric: &Fabric) -> Result<Vec<u32>, Error> {
    let both = table.get::<Word>("direction").0 == "both";
    let names: Vec<String> =
        (0..2 * fabric.links.len() as u32).map(|port| name(fabric, port)).collect();
    // By link: which of its directions a pattern names.
    let mut named = vec![[false; 2]; fabric.links.len()];
    for pattern in table.get::<&[String]>("links") {
        let glob = Glob::new(pattern);
        let matching: Vec<usize> =
            (0..names.len()).filter(|&port| glob.matches(&names[port])).collect();
        if matching.is_empty() {
            let found = format!("{pattern:?}, which matches no link");
            let example = names.first().map_or("", String::as_str);
            let expected = glob.expected(format!("a link by its ends, such as {example:?}"));
            let names = names.iter().map(String::as_str);
            return Err(table
                .error_found("links", found, expected)
                .suggest(nearest(pattern, names)));
        }
        if let Some(link) = glob.beyond(&names) {
            let found = format!("{pattern:?}, but there is no link {link:?}");
            return Err(table.error_found("links", found, "ranges within the fabric"));
        }
        for port in matching {
            named[port / 2][port % 2] = true;
        }
    }
    let links = named.iter().filter(|link| link.contains(&true)).count();
    let count = table.find::<u64>("count").unwrap_or(links as u64);
    if count > links as u64 {
        return Err(table.error("count", format!("at most {links}, the number of these links")));
    }
    let mut ports = Vec::new();
    let chosen = (0u32..).zip(named).filter(|(_, link)| link.contains(&true));
    for (link, named) in chosen.take(count as usize) {
        let ends = [fabric.links[link as usize].a, fabric.links[link as usize].b];
        if !both && ends.iter().any(|end| matches!(end, Node::Host(_))) {
            let found = format!("\"forward\" for the link {} of a host", name(fabric, 2 * link));
            let expected = "\"both\", or links between switches";
            return Err(table.error_found("direction", found, expected));
        }
        ports.extend((0..2).filter(|&way| both || named[way as usize]).map(|way| 2 * link + way));
    }
    Ok(ports)
}

/// Rate of a degraded port.
fn rate(table: &Table, fabric: &Fabric, port: u32) -> Result<Rate, Error> {
    let intact = fabric.rate(port);
    match (table.find::<Rate>("rate"), table.find::<f64>("share")) {
        (Some(rate), None) if rate > intact => {
            let link = name(fabric, port);
            Err(table.error("rate", format!("at most {intact}, the rate of the link {link}")))
        }
        (Some(rate), None) => Ok(rate),
        (None, Some(share)) => {
            let rate = Rate::bps((intact.as_bps() as f64 * share) as u64);
            if rate < LEAST {
                let expected = format!("a share that leaves at least {LEAST} of {intact}");
                return Err(table.error("share", expected));
            }
            Ok(rate)
        }
        (Some(_), Some(_)) => Err(table.error("share", "either rate or share: remove one of them")),
        (None, None) => Err(table.error_found(
            "links",
            "neither rate nor share",
            "either of them: set rate, or share as a number of at most 1",
        )),
    }
}

/// A direction of a link by its ends.
fn name(fabric: &Fabric, port: u32) -> String {
    let ends = fabric.port_ends(port);
    let [from, to] = [ends.from, ends.to].map(|end| match end {
        Node::Host(number) => &fabric.hosts[number as usize],
        Node::Switch(number) => &fabric.switches[number as usize].name,
    });
    format!("{from}-{to}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use tidegate_core::Span;

    /// The fabric of two racks and two spines with links of 400 Gbit/s: links 4 and 5 lead from
    /// tor0 to the spines, links 6 and 7 from tor1.
    fn load(tables: &str) -> Fabric {
        let text = format!(
            "duration = '10ms'\nfabric = {{ kind = 'leaf-spine', racks = 2, hosts_per_rack = 2, \
             spines = 2 }}\ntransport = {{ protocol = 'swift' }}\n\
             flows = [{{ src = 'h0', dst = 'h3' }}]\nfaults = {{ degraded = [{tables}] }}"
        );
        crate::load(&text, "x.toml", &[]).unwrap().setup.fabric
    }

    fn rates(fabric: &Fabric) -> Vec<u64> {
        (8..16).map(|port| fabric.rate(port).as_bps() / 1_000_000_000).collect()
    }

    #[test]
    fn both_directions_are_a_rate_of_the_link() {
        let fabric = load("{ links = 'spine1-tor*', rate = '100Gbps' }");
        assert_eq!(rates(&fabric), [400, 400, 100, 100, 400, 400, 100, 100]);
        assert!(fabric.port_rates.is_empty() && fabric.rate_changes.is_empty());
        assert_eq!(fabric.links[5].rate, Rate::gbps(100));
        // A share of 1 changes nothing.
        let whole = load("{ links = 'tor0-spine1', rate = '400Gbps' }");
        assert_eq!(rates(&whole), [400; 8]);
        let hosts = load("{ links = 'h[1-2]-*', share = 0.5 }");
        let rates = hosts.links[..4].iter().map(|link| link.rate);
        assert!(rates.eq([100, 50, 50, 100].map(Rate::gbps)));
    }

    #[test]
    fn forward_is_the_direction_that_the_pattern_names() {
        let fabric =
            load("{ links = 'spine*-tor*', count = 3, share = 0.25, direction = 'forward' }");
        assert_eq!(rates(&fabric), [400, 100, 400, 100, 400, 100, 400, 400]);
        let fabric = load("{ links = 'tor0-spine0', share = 0.25, direction = 'forward' }");
        assert_eq!(rates(&fabric), [100, 400, 400, 400, 400, 400, 400, 400]);
        // A pattern that names both directions degrades both.
        let fabric = load("{ links = '*spine1*', share = 0.25, direction = 'forward' }");
        assert_eq!(rates(&fabric), [400, 400, 100, 100, 400, 400, 100, 100]);
        assert!(fabric.port_rates.is_empty());
    }

    #[test]
    fn starts_and_ends_in_a_run_are_rate_changes() {
        let fabric = load(
            "{ links = 'tor0-spine0', share = 0.25, from = '1ms', until = '3ms' }, \
             { links = 'tor1-spine1', rate = '40Gbps', direction = 'forward', until = '2ms' }",
        );
        assert_eq!(rates(&fabric), [400; 8]);
        let change = |port, ms, gbps| RateChange {
            port,
            at: Time::ZERO + Span::ms(ms),
            rate: Rate::gbps(gbps),
        };
        assert_eq!(
            fabric.rate_changes,
            [
                change(14, 0, 40),
                change(8, 1, 100),
                change(9, 1, 100),
                change(14, 2, 400),
                change(8, 3, 400),
                change(9, 3, 400)
            ]
        );
        assert_eq!((fabric.slowest(8), fabric.fastest(14)), (Rate::gbps(100), Rate::gbps(400)));
    }

    #[test]
    fn links_keep_a_least_rate() {
        let text = "duration = '10ms'\nfabric = { kind = 'star', host_link = { rate = '10Mbps', \
                    delay = '1us' } }\ntransport = { protocol = 'swift' }\n\
                    flows = [{ src = 'h0', dst = 'h3' }]\nfaults = { degraded = [{ links = \
                    'h0-*', share = 0.09 }] }";
        assert_eq!(
            crate::load(text, "x.toml", &[]).unwrap_err().to_string(),
            "x.toml:5: faults.degraded[0].share: found 0.09, expected a share that leaves at least \
             1Mbps of 10Mbps"
        );
    }

    #[test]
    fn load_refers_to_intact_links() {
        let gap = |more: &str| {
            let text = format!(
                "duration = '10ms'\nfabric = {{ kind = 'star' }}\n\
                 transport = {{ protocol = 'swift' }}\n\
                 traffic = [{{ kind = 'poisson', sizes = 'websearch', load = 0.5 }}]\n{more}"
            );
            let plan = crate::load(&text, "x.toml", &[]).unwrap();
            (plan.setup.workload, plan.warnings)
        };
        let (intact, none) = gap("");
        let (degraded, warnings) =
            gap("faults = { degraded = [{ links = 'h0-tor0', share = 0.1 }] }");
        assert_eq!(intact, degraded);
        assert!(none.is_empty() && warnings.len() == 1, "{warnings:?}");
        assert!(warnings[0].contains("h0"), "{warnings:?}");
    }
}
