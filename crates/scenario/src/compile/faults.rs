//! `[faults]`: faults that the run injects.

use tidegate_core::Span;
use tidegate_core::fabric::{Fabric, Node};
use tidegate_core::faults::{Failing, Faults, Flaps, Outage};

use super::RunSettings;
use super::failure;
use super::hosts::Hosts;
use crate::error::{Error, nearest};
use crate::read::keys::{Default, INTERVAL, Key, Optional, Required, SPAN, Shape, key};
use crate::read::table::Table;

const CHANCE: Shape = Shape::Number { min: 0.0, max: 1.0 };

/// Keys of the section.
pub(crate) static KEYS: &[Key] = &[
    key("loss", CHANCE, Default("0"), "Probability that a link loses a packet."),
    key(
        "corruption",
        CHANCE,
        Default("0"),
        "Probability that a link damages a packet; the receiving host drops it.",
    ),
    key("duplication", CHANCE, Default("0"), "Probability that a link delivers a packet twice."),
    key(
        "reordering",
        CHANCE,
        Default("0"),
        "Probability that a packet is held back at the end of a link.",
    ),
    key(
        "reorder_delay",
        INTERVAL,
        Default("10us"),
        "Longest time that such a packet is held back; the time is uniformly random.",
    ),
    key("flaps", Shape::Table(&[FLAPS]), Optional, "Random failures of links between switches."),
    key(
        "convergence",
        SPAN,
        Default("0us"),
        "Time from the failure or the repair of a link until routing uses the remaining shortest \
         paths. Until then, packets that routing sends to a failed link are lost. Routing does not \
         notice a failure that ends within this time.",
    ),
    key(
        "link",
        Shape::Tables(&[&[A, B], OUTAGE]),
        Optional,
        "Links that fail at given times. Packets on the link and in its queue are lost.",
    ),
    key(
        "host",
        Shape::Tables(&[&[HOST], OUTAGE]),
        Optional,
        "Hosts that stop at given times. Meanwhile the link is down and the transport is \
         suspended; afterwards both resume.",
    ),
    key(
        "storm",
        Shape::Tables(&[STORM]),
        Optional,
        "Hosts whose NICs pause their switch at given times (pause storm), in all classes with \
         PFC.",
    ),
];

static FLAPS: &[Key] = &[
    key("mean_up", INTERVAL, Required, "Mean time that a link is up; exponentially distributed."),
    key("mean_down", INTERVAL, Required, "Mean time that it is down; exponentially distributed."),
];
const A: Key = key("a", Shape::Text, Required, "One end of the link.");
const B: Key =
    key("b", Shape::Text, Required, "The other end. All parallel links between the two fail.");
const HOST: Key = key("host", Shape::Text, Required, "Name of the host.");
static STORM: &[Key] = &[
    HOST,
    key("from", SPAN, Required, "Start."),
    key("until", SPAN, Optional, "End. Default: never."),
];
static OUTAGE: &[Key] =
    &[key("down", SPAN, Required, "Start."), key("up", SPAN, Optional, "End. Default: never.")];

/// Reads the section. Without the section, the run has no faults.
pub(crate) fn faults(
    section: Option<&Table>,
    fabric: &Fabric,
    hosts: &Hosts<'_>,
    run: RunSettings,
    warnings: &mut Vec<String>,
) -> Result<Faults, Error> {
    let Some(table) = section else { return Ok(Faults::default()) };
    let mut faults = Faults {
        loss: table.get("loss"),
        corruption: table.get("corruption"),
        reordering: table.get("reordering"),
        reorder_delay: table.get("reorder_delay"),
        duplication: table.get("duplication"),
        outages: failure::outages(table, fabric, run, warnings)?,
        flaps: table.find::<&Table>("flaps").map(|flaps| Flaps {
            mean_up: flaps.get("mean_up"),
            mean_down: flaps.get("mean_down"),
        }),
    };
    let sum = faults.loss + faults.corruption + faults.duplication + faults.reordering;
    if sum > 1.0 {
        let found = format!("a sum of probabilities of {sum}");
        // The error is reported at the largest one, which the scenario sets.
        let names = ["reordering", "duplication", "corruption", "loss"];
        let chance = |name: &&str| table.get::<f64>(name);
        let most = names.into_iter().max_by(|a, b| chance(a).total_cmp(&chance(b)));
        return Err(table.error_found(
            most.unwrap_or("loss"),
            found,
            "a sum of at most 1 for loss, corruption, duplication and reordering",
        ));
    }
    if fabric.circuits.is_some() && table.item("flaps").is_some() {
        return Err(
            table.error("flaps", "no flaps: they are not supported in a fabric with circuits")
        );
    }
    for link in table.tables("link") {
        let (a, b) = (node(link, "a", fabric)?, node(link, "b", fabric)?);
        let (down, up) = run.interval(link, ["down", "up"])?;
        let joins = |l: &tidegate_core::fabric::Link| (l.a, l.b) == (a, b) || (l.a, l.b) == (b, a);
        let before = faults.outages.len();
        let failing = fabric.links.iter().enumerate().filter(|(_, l)| joins(l));
        faults.outages.extend(failing.map(|(i, _)| Outage {
            of: Failing::Link(i as u32),
            down,
            up,
        }));
        if faults.outages.len() == before {
            return Err(link.error(
                "b",
                format!("a neighbour of {:?}: no link joins the two", link.get::<&str>("a")),
            ));
        }
        if let (Node::Switch(_), Node::Switch(_), Some(_)) = (a, b, &fabric.circuits) {
            return Err(link.error(
                "b",
                "a host: in a fabric with circuits, links between switches cannot fail",
            ));
        }
    }
    for host in table.tables("host") {
        if fabric.servers.is_some() {
            let expected = "no host that stops: not supported together with hosts.server";
            return Err(host.error("host", expected));
        }
        let (down, up) = run.interval(host, ["down", "up"])?;
        faults.outages.push(Outage { of: Failing::Host(hosts.one(host, "host")?), down, up });
    }
    for storm in table.tables("storm") {
        let (from, until) = run.interval(storm, ["from", "until"])?;
        let of = Failing::Nic(hosts.one(storm, "host")?);
        faults.outages.push(Outage { of, down: from, up: until });
    }
    Ok(faults)
}

/// Time from a change of a link until routing follows.
pub(crate) fn convergence(
    section: Option<&Table>,
    faults: &Faults,
    warnings: &mut Vec<String>,
) -> Span {
    let Some(table) = section else { return Span::ZERO };
    let time: Span = table.get("convergence");
    // A sweep over failures also has `failure = "none"`.
    let fails = !faults.outages.is_empty()
        || faults.flaps.is_some()
        || table.find::<&str>("failure").is_some();
    if time > Span::ZERO && !fails {
        warnings.push(format!(
            "faults.convergence = \"{time}\" has no effect: no link fails; set faults.link, \
             failure or flaps"
        ));
    }
    time
}

/// Refuses pause storms at switches without PFC.
pub(crate) fn check_storms(
    section: Option<&Table>,
    faults: &Faults,
    fabric: &Fabric,
) -> Result<(), Error> {
    let Some(table) = section else { return Ok(()) };
    let nics = faults.outages.iter().filter_map(|outage| match outage.of {
        Failing::Nic(host) => Some(Node::Host(host)),
        Failing::Link(_) | Failing::Host(_) => None,
    });
    for (number, host) in nics.enumerate() {
        if fabric.first_nic.is_some() {
            let expected = "no storm: they are not supported for hosts with several ports";
            return Err(table.tables("storm")[number].error("host", expected));
        }
        let switch = fabric.links.iter().find_map(|link| match (link.a, link.b) {
            (Node::Switch(switch), end) | (end, Node::Switch(switch)) if end == host => {
                Some(&fabric.switches[switch as usize])
            }
            _ => None,
        });
        if switch.is_some_and(|switch| switch.pausing.is_none()) {
            let expected =
                "a host whose switch has PFC: set switch.pfc and a limited switch.buffer";
            return Err(table.tables("storm")[number].error("host", expected));
        }
    }
    Ok(())
}

fn node(table: &Table, key: &str, fabric: &Fabric) -> Result<Node, Error> {
    let name: &str = table.get(key);
    let switches = || fabric.switches.iter().map(|switch| switch.name.as_str());
    let hosts = || fabric.hosts.iter().map(String::as_str);
    let switch = switches().position(|known| known == name).map(|i| Node::Switch(i as u32));
    let host = || hosts().position(|known| known == name).map(|i| Node::Host(i as u32));
    switch.or_else(host).ok_or_else(|| {
        table
            .error(key, "a host or a switch of the fabric")
            .suggest(nearest(name, switches().chain(hosts())))
    })
}

#[cfg(test)]
mod tests {
    use tidegate_core::Time;

    use super::*;

    fn load(faults: &str) -> Result<Faults, String> {
        plan(faults).map(|plan| plan.setup.faults)
    }

    fn plan(faults: &str) -> Result<crate::Plan, String> {
        let text = format!(
            "duration = '10ms'\nfabric = {{ kind = 'leaf-spine', racks = 2, hosts_per_rack = 2, \
             spines = 2 }}\n\
             transport = {{ protocol = 'swift' }}\nflows = [{{ src = 'h0', dst = 'h3' \
             }}]\n[faults]\n{faults}"
        );
        crate::load(&text, "x.toml", &[]).map_err(|error| error.to_string())
    }

    #[test]
    fn everything_is_read() {
        let faults = load(
            "loss = 0.01\nduplication = 0.02\nreordering = 0.03\nflaps = { mean_up = '5ms', \
             mean_down = '1ms' }\n\
             link = [{ a = 'spine1', b = 'tor0', down = '1ms', up = '2ms' }]\nhost = [{ host = \
             'h2', down = '3ms' }]",
        )
        .unwrap();
        assert_eq!(
            (faults.loss, faults.duplication, faults.reorder_delay),
            (0.01, 0.02, Span::us(10))
        );
        assert_eq!(faults.flaps, Some(Flaps { mean_up: Span::ms(5), mean_down: Span::ms(1) }));
        let [link, host] = faults.outages[..] else { panic!("{:?}", faults.outages) };
        assert!(matches!(link.of, Failing::Link(_)));
        assert_eq!(host, Outage { of: Failing::Host(2), down: Time::ms(3), up: Time::NEVER });
    }

    #[test]
    fn parallel_links_fail_together_from_either_end() {
        let text = "duration = '10ms'\ntransport = { protocol = 'swift' }\nflows = [{ src = 'h0', \
            dst = 'h3' }]\n\
             fabric = { kind = 'leaf-spine', racks = 2, hosts_per_rack = 2, spines = 2, \
             links_per_spine = 3 }\n\
             faults = { link = [{ a = 'spine1', b = 'tor0', down = '1ms', up = '2ms' },\n\
             { a = 'tor0', b = 'spine1', down = '3ms' }] }";
        let plan = crate::load(text, "x.toml", &[]).unwrap();
        let switch = |name| {
            let found = plan.fabric.switches.iter().position(|switch| switch.name == name);
            Node::Switch(found.unwrap() as u32)
        };
        let ends = (switch("tor0"), switch("spine1"));
        let joins = |link: &tidegate_core::fabric::Link| (link.a, link.b) == ends;
        let parallel =
            || (0u32..).zip(&plan.fabric.links).filter(|(_, link)| joins(link)).map(|(i, _)| i);
        let outage = |link, down, up| Outage { of: Failing::Link(link), down, up };
        let expected: Vec<_> = parallel()
            .map(|link| outage(link, Time::ms(1), Time::ms(2)))
            .chain(parallel().map(|link| outage(link, Time::ms(3), Time::NEVER)))
            .collect();
        assert_eq!((plan.faults.outages.len(), &plan.faults.outages), (6, &expected));
    }

    #[test]
    fn convergence_without_failures_is_reported() {
        let warned = |text: &str| {
            let warnings = plan(text).unwrap().warnings;
            warnings.iter().any(|warning| warning.contains("faults.convergence = \"1ms\" has no"))
        };
        assert!(warned("convergence = '1ms'"));
        assert!(!warned("loss = 0.1"));
        assert!(!warned("convergence = '1ms'\nfailure = 'none'"));
        assert!(!warned("convergence = '1ms'\nflaps = { mean_up = '1ms', mean_down = '1ms' }"));
        assert!(!warned(
            "convergence = '1ms'\nlink = [{ a = 'tor0', b = 'spine0', down = '1ms' }]"
        ));
    }

    #[test]
    fn mistakes_are_named() {
        for (text, parts) in [
            ("loss = 1.5", vec!["x.toml:6", "faults.loss", "1.5"]),
            ("los = 0.1", vec!["faults.los", "loss"]),
            ("loss = 0.6\nreordering = 0.6", vec!["faults.loss", "1.2", "a sum of at most 1"]),
            (
                "corruption = 0.7\nreordering = 0.6",
                vec!["x.toml:6", "faults.corruption", "a sum of at most 1"],
            ),
            (
                "link = [{ a = 'tor0', b = 'spin1', down = '1ms' }]",
                vec!["faults.link[0].b", "spin1", "spine1"],
            ),
            (
                "link = [{ a = 'tor0', b = 'tor1', down = '1ms' }]",
                vec!["faults.link[0].b", "neighbour of \"tor0\""],
            ),
            (
                "host = [{ host = 'h2', down = '3ms', up = '2ms' }]",
                vec!["faults.host[0].up", "after down"],
            ),
            (
                "host = [{ host = 'h2', down = '30ms' }]",
                vec!["faults.host[0].down", "before the end"],
            ),
        ] {
            let error = load(text).unwrap_err();
            assert!(parts.iter().all(|part| error.contains(part)), "{text}: {error}");
        }
    }
}
