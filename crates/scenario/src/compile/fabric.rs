//! `[fabric]`: hosts, switches and links, listed or generated.
//!
//! Generators number hosts `h0`, `h1`, … rack by rack, and switches within their tier: `tor0`,
//! `agg0`, `spine0`, `core0`.

use super::topology::{
    Cable, FAST, HOST_LINK, LINK_SHAPE, Topology, bounded, cable, count, count_of,
};
use super::{graph, reconfigurable};
use crate::error::Error;
use crate::read::keys::{Default, Key, Optional, Presence, Required, Shape, Variant, key};
use crate::read::table::Table;

const SPINE: Presence = Default(r#"{ rate = "400Gbps", delay = "500ns" }"#);
const PLANES: Key = key(
    "planes",
    Shape::Count { min: 1, max: 64 },
    Optional,
    "Number of planes: copies of all switches, which no link joins. Every host has a NIC, h0.nic, \
     with one port, a host_link, in each of them. Names of switches begin with their plane: \
     plane0.tor0. Default: 1; then hosts have no separate NIC, and names no prefix.",
);
const RAILS: Key = key(
    "rails",
    Shape::Count { min: 1, max: 1_000 },
    Optional,
    "Racks are grouped by this number, and consecutive hosts are connected to the racks of a group \
     in turn, so that host i of every server is in the same rack (rail-optimised). It must divide \
     the number of racks, or of those in a pod. Default: 1, so that consecutive hosts are in the \
     same rack.",
);

/// Keys of all kinds.
pub(crate) static COMMON: &[Key] = &[
    key("kind", Shape::Text, Required, "Topology of the fabric."),
    key(
        "preset",
        Shape::Text,
        Optional,
        "Fabric of a paper, or of a usual design. Other keys of the file override the preset.",
    ),
    key(
        "mtu",
        Shape::Bytes { min: 64, max: 60_000 },
        Default("4096B"),
        "Payload of a full packet, without headers.",
    ),
];

/// Every kind of fabric.
pub(crate) static KINDS: &[Variant] = &[
    Variant {
        kind: "graph",
        doc: "Hosts, switches and links listed one by one.",
        keys: graph::KEYS,
    },
    Variant {
        kind: "star",
        doc: "Hosts at one switch, tor0.",
        keys: &[
            key("hosts", count(2), Default("8"), "Number of hosts."),
            key("host_link", LINK_SHAPE, FAST, HOST_LINK),
            PLANES,
        ],
    },
    Variant {
        kind: "dumbbell",
        doc: "Two switches, tor0 and tor1, joined by one bottleneck, with hosts on both sides.",
        keys: &[
            key("pairs", count(1), Default("2"), "Number of hosts on each side."),
            key("host_link", LINK_SHAPE, FAST, HOST_LINK),
            key("bottleneck", LINK_SHAPE, FAST, "Link between the two switches."),
        ],
    },
    Variant {
        kind: "parking-lot",
        doc: "A chain of switches tor0, tor1, …, each with its own hosts.",
        keys: &[
            key("switches", count(2), Default("3"), "Number of switches."),
            key("hosts_per_switch", count(1), Default("2"), "Number of hosts at each switch."),
            key("host_link", LINK_SHAPE, FAST, HOST_LINK),
            key("bottleneck", LINK_SHAPE, FAST, "Links between switches."),
        ],
    },
    Variant {
        kind: "leaf-spine",
        doc: "Racks whose switches have links to all spines.",
        keys: &[
            key(
                "racks",
                count(1),
                Default("9"),
                "Number of racks, each with one switch: tor0, tor1, …",
            ),
            key("hosts_per_rack", count(1), Default("16"), "Number of hosts in a rack."),
            key("spines", count(1), Default("4"), "Number of spine switches: spine0, spine1, …"),
            key(
                "links_per_spine",
                count(1),
                Default("1"),
                "Number of parallel links between a rack and a spine.",
            ),
            key("host_link", LINK_SHAPE, FAST, HOST_LINK),
            key("fabric_link", LINK_SHAPE, SPINE, "Links between racks and spines."),
            PLANES,
            RAILS,
        ],
    },
    Variant {
        kind: "fat-tree",
        doc: "A k-ary fat tree: k pods, each of k/2 racks and k/2 aggregation switches, and (k/2)² \
              core switches.",
        keys: &[
            key(
                "k",
                Shape::Count { min: 2, max: 128 },
                Default("4"),
                "Number of ports of a switch; must be even.",
            ),
            key(
                "oversubscription",
                Shape::Count { min: 1, max: 64 },
                Default("1"),
                "Ratio of hosts to uplinks in a rack. A rack has k/2 uplinks and k/2 × \
                 oversubscription hosts.",
            ),
            key("host_link", LINK_SHAPE, FAST, HOST_LINK),
            key("fabric_link", LINK_SHAPE, FAST, "Links between switches."),
            key(
                "core_link",
                LINK_SHAPE,
                Optional,
                "Links between aggregation switches and cores. Default: fabric_link.",
            ),
            PLANES,
            RAILS,
        ],
    },
    Variant {
        kind: "clos",
        doc: "Three tiers: racks and aggregation switches in pods, cores in planes. Aggregation \
              switch i of every pod belongs to plane i and has links to all cores of that plane.",
        keys: &[
            key("pods", count(1), Default("4"), "Number of pods."),
            key(
                "racks_per_pod",
                count(1),
                Default("2"),
                "Number of racks in a pod. Each has links to all aggregation switches of the pod.",
            ),
            key("hosts_per_rack", count(1), Default("8"), "Number of hosts in a rack."),
            key(
                "aggs_per_pod",
                count(1),
                Default("2"),
                "Number of aggregation switches in a pod, and of planes.",
            ),
            key("cores_per_plane", count(1), Default("2"), "Number of core switches in a plane."),
            key("host_link", LINK_SHAPE, FAST, HOST_LINK),
            key("agg_link", LINK_SHAPE, FAST, "Links between racks and aggregation switches."),
            key("core_link", LINK_SHAPE, FAST, "Links between aggregation switches and cores."),
            PLANES,
            RAILS,
        ],
    },
    Variant {
        kind: "reconfigurable",
        doc: "Racks joined by a packet network and by circuits. An optical switch keeps one \
              matching of racks for a day, then changes to the next matching during a night. While \
              a circuit between two racks is up, it carries all their packets; otherwise the \
              packet network does.",
        keys: reconfigurable::KEYS,
    },
];

/// Builds the topology that the table describes.
pub(crate) fn topology(table: &Table) -> Result<Topology, Error> {
    let planes = match table.get::<&str>("kind") {
        "graph" => return graph::topology(table),
        "reconfigurable" => return reconfigurable::topology(table),
        _ => count_of(table, "planes"),
    };
    let mut made = Topology::default();
    for plane in 0..planes {
        if planes > 1 {
            made.prefix = format!("plane{plane}.");
        }
        made.connected = 0;
        add_plane(&mut made, table)?;
    }
    if planes > 1 {
        made.add_nics();
    }
    Ok(made)
}

/// Builds the switches of one plane, and connects all hosts to them.
fn add_plane(made: &mut Topology, table: &Table) -> Result<(), Error> {
    let host = || cable(table, "host_link");
    match table.get::<&str>("kind") {
        "star" => {
            let hosts: u64 = table.get("hosts");
            bounded(table, "hosts", [hosts, 1, 1, 1], 1, hosts)?;
            let tor = made.tier("tor", 1)[0];
            made.add_hosts(tor, hosts, host());
        }
        "dumbbell" => {
            let pairs: u64 = table.get("pairs");
            bounded(table, "pairs", [pairs, 2, 1, 1], 2, pairs * 2 + 1)?;
            chain(made, 2, pairs, host(), cable(table, "bottleneck"));
        }
        "parking-lot" => {
            let (switches, hosts): (u64, u64) =
                (table.get("switches"), table.get("hosts_per_switch"));
            bounded(
                table,
                "hosts_per_switch",
                [switches, hosts, 1, 1],
                switches,
                switches * (hosts + 1),
            )?;
            chain(made, switches, hosts, host(), cable(table, "bottleneck"));
        }
        "leaf-spine" => leaf_spine(made, table)?,
        "fat-tree" => {
            let (k, oversubscription): (u64, u64) = (table.get("k"), table.get("oversubscription"));
            if k % 2 != 0 {
                return Err(table.error("k", "an even number"));
            }
            let half = k / 2;
            let link = cable(table, "fabric_link");
            let core = table.find::<&Table>("core_link").map_or(link, Cable::of);
            let shape = Clos {
                pods: k,
                racks: half,
                hosts: half * oversubscription,
                aggs: half,
                cores: half,
            };
            clos(made, table, "k", shape, [host(), link, core])?;
        }
        _ => {
            let shape = Clos {
                pods: table.get("pods"),
                racks: table.get("racks_per_pod"),
                hosts: table.get("hosts_per_rack"),
                aggs: table.get("aggs_per_pod"),
                cores: table.get("cores_per_plane"),
            };
            let links = [host(), cable(table, "agg_link"), cable(table, "core_link")];
            clos(made, table, "hosts_per_rack", shape, links)?;
        }
    }
    Ok(())
}

/// Number of rails, which must divide the racks of a group.
fn rails(table: &Table, racks: u64, of: &str) -> Result<usize, Error> {
    let rails = count_of(table, "rails");
    if !racks.is_multiple_of(rails) {
        return Err(table.error("rails", format!("a divisor of {racks}, the number of racks{of}")));
    }
    Ok(rails as usize)
}

fn chain(made: &mut Topology, switches: u64, hosts: u64, host: Cable, bottleneck: Cable) {
    let tors = made.tier("tor", switches);
    for &tor in &tors {
        made.add_hosts(tor, hosts, host);
    }
    for pair in tors.windows(2) {
        made.connect(pair[0], pair[1], bottleneck);
    }
}

fn leaf_spine(made: &mut Topology, table: &Table) -> Result<(), Error> {
    let (racks, hosts): (u64, u64) = (table.get("racks"), table.get("hosts_per_rack"));
    let (spines, parallel): (u64, u64) = (table.get("spines"), table.get("links_per_spine"));
    let links = (racks * hosts).saturating_add((racks * spines).saturating_mul(parallel));
    bounded(table, "hosts_per_rack", [racks, hosts, 1, 1], racks + spines, links)?;
    let rails = rails(table, racks, "")?;
    let tors = made.tier("tor", racks);
    let spines = made.tier("spine", spines);
    made.add_racks(&tors, hosts, cable(table, "host_link"), rails);
    for &tor in &tors {
        for &spine in &spines {
            for _ in 0..parallel {
                made.connect(tor, spine, cable(table, "fabric_link"));
            }
        }
    }
    Ok(())
}

/// Sizes of a three-tier Clos.
#[derive(Clone, Copy)]
struct Clos {
    pods: u64,
    racks: u64,
    hosts: u64,
    aggs: u64,
    cores: u64,
}

fn clos(
    made: &mut Topology,
    table: &Table,
    key: &str,
    shape: Clos,
    [host, agg, core]: [Cable; 3],
) -> Result<(), Error> {
    let Clos { pods, racks, hosts, aggs, cores } = shape;
    let product = |factors: &[u64]| {
        factors.iter().fold(1u64, |product, factor| product.saturating_mul(*factor))
    };
    let switches = product(&[pods, racks])
        .saturating_add(product(&[pods, aggs]))
        .saturating_add(product(&[aggs, cores]));
    let links = product(&[pods, racks, hosts])
        .saturating_add(product(&[pods, racks, aggs]))
        .saturating_add(product(&[pods, aggs, cores]));
    bounded(table, key, [pods, racks, hosts, 1], switches, links)?;
    let rails = rails(table, racks, " in a pod")?;
    let tors = made.tier("tor", pods * racks);
    let agg_switches = made.tier("agg", pods * aggs);
    let core_switches = made.tier("core", aggs * cores);
    made.add_racks(&tors, hosts, host, rails);
    for pod in 0..pods as usize {
        let of_pod = &agg_switches[pod * aggs as usize..][..aggs as usize];
        for &tor in &tors[pod * racks as usize..][..racks as usize] {
            for &agg_switch in of_pod {
                made.connect(tor, agg_switch, agg);
            }
        }
        for (&agg_switch, plane) in of_pod.iter().zip(core_switches.chunks(cores as usize)) {
            for &core_switch in plane {
                made.connect(agg_switch, core_switch, core);
            }
        }
    }
    Ok(())
}
