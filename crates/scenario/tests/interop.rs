//! Files of other simulators: exported files import again, and errors name their place.
#![allow(missing_docs)]

use std::fs;
use std::path::Path;

use crate::common::mutated;
use tidegate_core::fabric::{Fabric, Node};
use tidegate_core::workload::{Arrival, Flow, Pattern};
use tidegate_core::{Domain, Message, Rng, Span, Time};
use tidegate_scenario::interop::{Files, Format, Input, export, import};
use tidegate_scenario::{Plan, load, load_file};

const TOPOLOGY: &str = "4 2 3\n2 3\n0 2 100Gbps 1us 0.001\n2 3 400Gbps 500ns 0.001\n3 1 100Gb/s \
    0.002ms 0.001\nsrc dst rate delay error_rate\n";
const FLOW: &str = "2\n0 1 3 100 1000 2\n1 0 3 101 200000 2.000000000001\n";
const TOPO: &str = "# Two pods.\nNodes 8\nTiers 3\nPodsize 4\n\nTier 0\nDownlink_speed_Gbps \
    200\nRadix_Down 2\nRadix_Up 2\nDownlink_Latency_ns 1000\n\nTier 1\nDownlink_speed_Gbps \
    200\nRadix_Down 2\nRadix_Up 4\nDownlink_Latency_ns 500\nSwitch_Latency_ns 7\n\nTier 2\n\
    Downlink_speed_Gbps 100\nRadix_Down 4\nDownlink_Latency_ns 1000\nBundle 2\nQueue_Down 9\n";
const CM: &str = "Nodes 3\nConnections 3\n# A comment.\n0->2 id 1 start 5000001 size 2000000\n\
    1->2 start 0 size 0\n2->0 id 3 start 0.000000 size 7 prio 1\n";
const EDGES: &str = "# A rack of two and one of one.\nhosts: a b # in this order\nb tor1\na tor1 \
    25Gbps\ntor1 tor2 400Gbps 2us\n\ntor2 c\n";
const FLOWS: &str = "start_us,src,dst,size_bytes\n0.5,a,c,1000\n0,c,b,5\n";

fn inputs(texts: &[(&str, &str)]) -> Vec<Input> {
    texts.iter().map(|(name, text)| Input::new(name, text)).collect()
}

/// Returns a scenario on this fabric.
fn on(fabric: &str) -> String {
    format!(
        "duration = '10ms'\nfabric = {fabric}\nswitch = {{ buffer = '3MB' }}\ntransport = {{ \
         protocol = 'swift' }}\nflows = [{{ src = 'h0', dst = 'h1' }}]"
    )
}

/// Writes imported files, and returns the plan of the scenario.
fn plan(made: &Files) -> Plan {
    let folder = tempfile::tempdir().unwrap();
    for (name, content) in &made.files {
        fs::write(folder.path().join(name), content).unwrap();
    }
    load_file(&folder.path().join("scenario.toml"), &[]).unwrap_or_else(|error| {
        panic!("{error}\n{}", made.files.last().unwrap().1);
    })
}

fn arrivals(plan: &Plan) -> Vec<Arrival> {
    match &plan.workload.traffic[..] {
        [block] => match &block.pattern {
            Pattern::Trace(arrivals) => arrivals.clone(),
            other => panic!("{other:?}"),
        },
        others => panic!("{} blocks of traffic", others.len()),
    }
}

fn flow(arrival: &Arrival) -> Flow {
    let Arrival { at: start, src, dst, bytes } = *arrival;
    Flow { src, dst, bytes, start, stop: Time::NEVER, stack: 0, label: 0, dedicated: false }
}

fn names(fabric: &Fabric) -> Vec<&str> {
    let switches = fabric.switches.iter().map(|switch| switch.name.as_str());
    fabric.hosts.iter().map(String::as_str).chain(switches).collect()
}

#[test]
fn exported_files_import_again() {
    let mut rng = Rng::stream(1, Domain::Traffic, 0);
    for fabric in [
        "{ kind = 'star', hosts = 5 }",
        "{ kind = 'dumbbell', bottleneck = { rate = '12345678bps', delay = '1234567ps' } }",
        "{ kind = 'leaf-spine', racks = 3, hosts_per_rack = 2, spines = 2, links_per_spine = 3 }",
        "{ kind = 'fat-tree', k = 4, oversubscription = 2 }",
        "{ kind = 'clos', pods = 2, racks_per_pod = 3, hosts_per_rack = 1 }",
        "{ kind = 'graph', hosts = ['h0', 'h1'], switches = ['s0', 's1', 's2'], links = [{ a = \
         's2', b = 's1', rate = '1Tbps', delay = '0us' }, { a = 'h1', b = 's1', rate = '10Gbps', \
         delay = '1s' }, { a = 's1', b = 's0', rate = '1Mbps', delay = '1ms' }, { a = 's1', b = \
         'h0', rate = '40Gbps', delay = '3ns' }] }",
    ] {
        let text = on(fabric) + "\nfaults = { loss = 1e-5 }";
        let original = load(&text, "x.toml", &[]).unwrap();
        let hosts = original.fabric.hosts.len() as u64;
        let mut random = || {
            let src = rng.below(hosts);
            let dst = (src + 1 + rng.below(hosts - 1)) % hosts;
            let (at, bytes) = (Time::ps(rng.below(5_000_000_000)), 1 + rng.below(1 << 40));
            Arrival { at, src: src as u32, dst: dst as u32, bytes }
        };
        let mut sent: Vec<_> = (0..50).map(|_| random()).collect();
        sent.sort_by_key(|arrival| arrival.at);
        for format in Format::ALL {
            let out = export(format, &original, "x.toml", sent.iter().map(flow)).unwrap();
            let read = |(name, text): &(String, String)| Input::new(name, text);
            let files: Vec<_> = out.files.iter().map(read).collect();
            let base = (format == Format::Htsim).then(|| Input::new("x.toml", &text));
            let made = import(format, &files, base.as_ref()).unwrap();
            let back = plan(&made);
            let case = format!("{fabric} as {}: {}", format.name(), made.files.last().unwrap().1);
            assert_eq!(arrivals(&back), sent, "{case}");
            assert_eq!(back.fabric.links, original.fabric.links, "{case}");
            if format == Format::Ns3 {
                assert_eq!(back.fabric.hosts, original.fabric.hosts, "{case}");
                assert_eq!(back.fabric.switches.len(), original.fabric.switches.len(), "{case}");
                assert_eq!((back.fabric.mtu, back.faults.loss), (1000, 1e-5), "{case}");
            } else {
                assert_eq!(names(&back.fabric), names(&original.fabric), "{case}");
            }
            assert_eq!(back.warmup, sent[0].at, "{case}");
            assert!(back.duration > sent[49].at, "{case}");
            // A second export and import changes nothing.
            let out = export(format, &back, "x.toml", sent.iter().map(flow)).unwrap();
            let again: Vec<_> = out.files.iter().map(read).collect();
            let twice = import(format, &again, base.as_ref()).unwrap();
            assert_eq!((&twice.files, &twice.warnings), (&made.files, &made.warnings), "{case}");
        }
    }
}

#[test]
fn ns3_files_are_read() {
    let files = inputs(&[("a/topology.txt", TOPOLOGY), ("a/flow.txt", FLOW)]);
    let made = import(Format::Ns3, &files, None).unwrap();
    assert_eq!(made.warnings.len(), 1, "{:?}", made.warnings);
    let plan = plan(&made);
    assert_eq!((plan.name.as_str(), plan.fabric.mtu, plan.faults.loss), ("flow", 1000, 0.001));
    assert_eq!(names(&plan.fabric), ["h0", "h1", "s0", "s1"]);
    let links: Vec<_> = plan.fabric.links.iter().map(|link| (link.a, link.b, link.delay)).collect();
    let (host, switch) = (Node::Host, Node::Switch);
    assert_eq!(
        links,
        [
            (host(0), switch(0), Span::us(1)),
            (switch(0), switch(1), Span::ns(500)),
            (switch(1), host(1), Span::us(2)),
        ]
    );
    let at = Time::s(2);
    let later = Time::ps(2_000_000_000_001);
    assert_eq!(
        arrivals(&plan),
        [
            Arrival { at, src: 0, dst: 1, bytes: 1000 },
            Arrival { at: later, src: 1, dst: 0, bytes: 200_000 }
        ]
    );
    assert_eq!(plan.warmup, at);
    // A topology alone gives a scenario with example traffic. A switch may have any number.
    let star = "3 1 2 0 0 1 1Gbps 1us 0 0 2 1Gbps 1us 0";
    let alone = import(Format::Ns3, &inputs(&[("topology.txt", star)]), None).unwrap();
    assert_eq!(alone.files.len(), 1);
    let flows = inputs(&[("t", star), ("f", "1 1 2 3 100 9 0.5\n2 1 3 100 9 0.5")]);
    let made = import(Format::Ns3, &flows, None).unwrap();
    assert!(made.warnings[1].contains("f:2: text after the 1 flows"), "{:?}", made.warnings);
    assert_eq!(arrivals(&self::plan(&made))[0].src, 0, "node 1 is h0");
}

#[test]
fn htsim_files_are_read() {
    let made = import(Format::Htsim, &inputs(&[("a.topo", TOPO), ("b.cm", CM)]), None).unwrap();
    assert_eq!(made.warnings.len(), 2, "{:?}", made.warnings);
    let between = CM.replace("start 5000001 ", "start 5000001.5 ");
    let texts = [("a.topo", TOPO), ("b.cm", between.as_str())];
    let rounded = import(Format::Htsim, &inputs(&texts), None).unwrap().warnings;
    assert_eq!(rounded.last().unwrap(), "b.cm: 1 start time is rounded to a picosecond");
    let plan = plan(&made);
    assert_eq!(
        names(&plan.fabric)[8..],
        [
            "tor0", "tor1", "tor2", "tor3", "agg0", "agg1", "agg2", "agg3", "core0", "core1",
            "core2", "core3"
        ]
    );
    assert_eq!(plan.fabric.links.len(), 8 + 4 * 2 + 4 * 2 * 2);
    let leads = |from: u32| {
        let of = plan.fabric.links.iter().filter(|link| link.a == Node::Switch(from));
        of.map(|link| link.b).collect::<Vec<_>>()
    };
    assert_eq!(leads(1), [4, 5].map(Node::Switch));
    assert_eq!(leads(2), [6, 7].map(Node::Switch));
    assert_eq!(leads(7), [9, 9, 11, 11].map(Node::Switch));
    let latencies: Vec<_> = plan.fabric.switches.iter().map(|switch| switch.latency).collect();
    assert_eq!(latencies[3..9], [0, 7, 7, 7, 7, 0].map(Span::ns));
    assert_eq!(
        arrivals(&plan),
        [
            Arrival { at: Time::ZERO, src: 2, dst: 0, bytes: 7 },
            Arrival { at: Time::ps(5_000_001), src: 0, dst: 2, bytes: 2_000_000 }
        ]
    );
    let [endless] = plan.workload.flows[..] else { panic!("{:?}", plan.workload.flows) };
    assert_eq!((endless.src, endless.dst, endless.bytes), (1, 2, Message::UNLIMITED));
}

#[test]
fn import_keeps_the_rest_of_the_base() {
    let text = "seed = 9\nduration = '1ms'\nwarmup = '10us'\n[fabric]\npreset = \
        \"sird-leaf-spine\"\n[switch]\nbuffer = '3MB'\noverride = [{ match = 'tor*', alpha = 2 }]\n\
        [transport]\nprotocol = 'swift'\nparams = { beta = 0.5 }\n[[flows]]\nsrc = 'h0'\ndst = \
        'h1'\n[output]\ntimeseries = '1us'\n";
    let base = Input::new("x.toml", text);
    let back = plan(&import(Format::Htsim, &inputs(&[("b.cm", CM)]), Some(&base)).unwrap());
    let original = load(text, "x.toml", &[]).unwrap();
    assert_eq!((back.seed, &back.fabric, &back.stacks), (9, &original.fabric, &original.stacks));
    assert_eq!(back.output, original.output);
    assert_eq!(arrivals(&back).len(), 2);
    // The base may be the name of a template.
    let named = Input::fabric("fat-tree").unwrap();
    let back = plan(&import(Format::Htsim, &inputs(&[("b.cm", CM)]), Some(&named)).unwrap());
    assert_eq!(back.fabric.hosts.len(), 16);
    assert!(
        Input::fabric("fat-tre").unwrap_err().to_string().contains("did you mean \"fat-tree\"")
    );
}

#[test]
fn lists_of_links_are_read() {
    let files = inputs(&[("edges.txt", EDGES), ("flows.csv", FLOWS)]);
    let made = import(Format::Edges, &files, None).unwrap();
    assert_eq!(made.warnings, Vec::<String>::new());
    let scenario = &made.files.last().unwrap().1;
    for part in ["2 links without rate have 100Gbps", "3 links without delay have 1us"] {
        assert!(scenario.replace("\n# ", " ").contains(part), "{scenario}");
    }
    let plan = plan(&made);
    assert_eq!(names(&plan.fabric), ["a", "b", "c", "tor1", "tor2"]);
    let rates: Vec<_> = plan.fabric.links.iter().map(|link| link.rate.as_gbps_f64()).collect();
    assert_eq!(rates, [100.0, 25.0, 400.0, 100.0]);
    assert_eq!(arrivals(&plan)[0], Arrival { at: Time::ZERO, src: 2, dst: 1, bytes: 5 });
    let twice = format!("{EDGES}tor2 tor1\n");
    let made = import(Format::Edges, &inputs(&[("e", &twice)]), None).unwrap();
    assert!(made.warnings[0].contains("lines 5 and 8 both link \"tor1\" and \"tor2\""), "{made:?}");
    assert!(made.warnings[0].ends_with("1 link is parallel to another; all are kept"));
}

/// Returns the error about files in which `out` is replaced by `into`.
fn message(format: Format, texts: [(&str, &str); 2], out: &str, into: &str) -> String {
    assert!(texts.iter().any(|(_, text)| text.contains(out)), "{out:?} is in neither");
    let changed = texts.map(|(name, text)| Input::new(name, &text.replacen(out, into, 1)));
    import(format, &changed, None).expect_err(&format!("{out} to {into}")).to_string()
}

#[test]
fn errors_name_file_and_line() {
    let ns3 = [("t", TOPOLOGY), ("f", FLOW)];
    let htsim = [("t", TOPO), ("f", CM)];
    let edges = [("t", EDGES), ("f", FLOWS)];
    for (format, texts, out, into, expected) in [
        (Format::Ns3, ns3, "4 2 3", "4 2 x", "t:1: number of links: found \"x\", expected a whole"),
        (
            Format::Ns3,
            ns3,
            "4 2 3",
            "4 2 9",
            "t:1: number of links: found 9 links, of which 4 follow",
        ),
        (
            Format::Ns3,
            ns3,
            "2 3\n0",
            "2 2\n0",
            "t:2: number of a switch: found \"2\", expected a sw",
        ),
        (Format::Ns3, ns3, "0 2 100", "0 1 100", "t:3: dst: found a link between hosts \"0\" and"),
        (
            Format::Ns3,
            ns3,
            "3 1 100",
            "3 0 100",
            "t:5: dst: found a second link of host \"0\" (the first is in line 3",
        ),
        (Format::Ns3, ns3, "0 2 100", "2 2 100", "t:3: dst: found \"2\", expected a node other"),
        (
            Format::Ns3,
            ns3,
            "0 2 100",
            "0 4 100",
            "t:3: dst: found \"4\", expected a whole number from 0 to 3",
        ),
        (Format::Ns3, ns3, "2 3 400", "2 2 400", "t:4: dst: found \"2\", expected a node other"),
        (Format::Ns3, ns3, "100Gbps 1us", "100 1us", "t:3: rate: found \"100\", expected a rate"),
        (
            Format::Ns3,
            ns3,
            "100Gbps 1us",
            "0Gbps 1us",
            "t:3: rate: found \"0Gbps\", expected a value from 1Mbps",
        ),
        (Format::Ns3, ns3, "1us 0.001", "1 0.001", "t:3: delay: found \"1\", expected a duration"),
        (
            Format::Ns3,
            ns3,
            "500ns 0.001",
            "500ns 0.01",
            "t:4: error_rate: found \"0.01\", expected 0.001",
        ),
        (
            Format::Ns3,
            ns3,
            "2\n0 1 3 100 1000 2",
            "3\n0 1 3 100 1000 2",
            "f:3: src: found the end of the file",
        ),
        (
            Format::Ns3,
            ns3,
            "0 1 3 100",
            "0 2 3 100",
            "f:2: dst: found \"2\", expected the number of a host",
        ),
        (
            Format::Ns3,
            ns3,
            "0 1 3 100",
            "0 0 3 100",
            "f:2: dst: found \"0\", expected a host other",
        ),
        (Format::Ns3, ns3, "1000 2\n", "0 2\n", "f:2: size: found \"0\""),
        (Format::Ns3, ns3, "1000 2\n", "1000 2s\n", "f:2: start_time: found \"2s\""),
        (
            Format::Ns3,
            ns3,
            "1000 2\n",
            "1000 3\n",
            "f:3: start_time: found \"2.000000000001\", expected flows in",
        ),
        (
            Format::Htsim,
            htsim,
            "0->2",
            "0->8",
            "f:4: dst: found \"8\", expected a whole number from 0 to 7",
        ),
        (Format::Htsim, htsim, "0->2", "2->2", "f:4: dst: found \"2\", expected a node other"),
        (Format::Htsim, htsim, "0->2", "0-2", "f:4: found \"0-2\", expected \"Nodes\", "),
        (
            Format::Htsim,
            htsim,
            "Connections 3",
            "Connections 4",
            "f:2: Connections: found 3 flows in the file, expected 4",
        ),
        (Format::Htsim, htsim, "Connections 3\n", "", "f: found no line Connections"),
        (
            Format::Htsim,
            htsim,
            "start 0 size 0",
            "trigger 1 size 0",
            "f:5: found \"trigger\", expected no triggers",
        ),
        (
            Format::Htsim,
            htsim,
            "size 0",
            "size 0 send_done_trigger 4",
            "f:5: found \"send_done_trigger\", expected no",
        ),
        (
            Format::Htsim,
            htsim,
            "Nodes 3",
            "Nodes 3\nTriggers 2",
            "f:2: found \"Triggers\", expected no triggers",
        ),
        (
            Format::Htsim,
            htsim,
            "Nodes 3",
            "failure switch_type TOR",
            "f:1: found \"failure\", expected no failures",
        ),
        (Format::Htsim, htsim, "Nodes 3", "Nodes 9", "f:1: found 9 nodes, expected at most 8"),
        (
            Format::Htsim,
            htsim,
            "start 5000001",
            "strat 5000001",
            "f:4: found \"strat\", expected \"id\", \"start\"",
        ),
        (
            Format::Htsim,
            htsim,
            "size 2000000",
            "",
            "f:4: found \"0->2\", expected a flow with a size",
        ),
        (Format::Htsim, htsim, "size 2000000", "size", "f:4: found \"size\", expected a value"),
        (
            Format::Htsim,
            htsim,
            "Radix_Up 4",
            "Radix_Up 3",
            "t:15: Radix_Up: found \"3\", expected a multiple of 2, the Bundle of tier 2",
        ),
        (
            Format::Htsim,
            htsim,
            "Podsize 4",
            "Podsize 3",
            "t:2: Nodes: found \"8\", expected a multiple of 3, the Podsize",
        ),
        (Format::Htsim, htsim, "Bundle 2\n", "", "t:21: Radix_Down: found \"4\", expected 2, the"),
        (
            Format::Htsim,
            htsim,
            "Radix_Down 4",
            "Radix_Down 5",
            "t:21: Radix_Down: found \"5\", expected 4, the number",
        ),
        (
            Format::Htsim,
            htsim,
            "Tier 1",
            "Tier 0",
            "t:12: found \"Tier\", expected a keyword that does not occur",
        ),
        (
            Format::Htsim,
            htsim,
            "Tiers 3",
            "Tiers 4",
            "t:3: Tiers: found \"4\", expected a whole number from 2 to 3",
        ),
        (Format::Htsim, htsim, "Radix_Up", "Radixup", "did you mean \"radix_up\""),
        (Format::Edges, edges, "b tor1", "b b", "t:3: b: found \"b\", expected a node other"),
        (
            Format::Edges,
            edges,
            "b tor1",
            "b a",
            "t:3: b: found a link between hosts \"b\" and \"a\"",
        ),
        (
            Format::Edges,
            edges,
            "b tor1",
            "b",
            "t:3: found \"b\", expected the name of a second node",
        ),
        (Format::Edges, edges, "25Gbps", "25", "t:4: rate: found \"25\""),
        (
            Format::Edges,
            edges,
            "400Gbps 2us",
            "400Gbps 2us x",
            "t:5: found \"x\", expected the end of the line",
        ),
        (
            Format::Edges,
            edges,
            "tor2 c",
            "tor3 c\ntor3 d",
            "t: found no path between \"a\" and \"c\"",
        ),
        (
            Format::Edges,
            edges,
            "hosts: a b",
            "hosts: a a",
            "t:2: hosts: found \"a\", expected a node that no",
        ),
        (Format::Edges, edges, "hosts: a b", "hosts: a z", "t: found host \"z\" without a link"),
        (Format::Edges, edges, "tor2 c", "tor2 c/d", "t:7: b: found \"c/d\", expected a name"),
        (
            Format::Edges,
            edges,
            "a,c",
            "a,tor1",
            "f:2: dst: found \"tor1\", expected the name or number of a host",
        ),
    ] {
        let error = message(format, texts, out, into);
        assert!(error.contains(expected), "{out} to {into}: {error}");
    }
    let none = import(Format::Ns3, &[], None).unwrap_err().to_string();
    assert_eq!(
        none,
        "FILES: found 0 files, expected a fabric file, or a fabric file and a flow \
                      file"
    );
    let wrong = Input::new("x.toml", "duration = 1");
    let base = import(Format::Ns3, &inputs(&[("f", FLOW)]), Some(&wrong)).unwrap_err();
    assert!(base.to_string().starts_with("x.toml:1: duration"), "{base}");
}

#[test]
fn inexpressible_content_is_refused_or_reported() {
    let exported = |text: &str, format| {
        let plan = load(text, "x.toml", &[]).unwrap();
        let flows = plan.workload.flows.clone().into_iter();
        match export(format, &plan, "x.toml", flows) {
            Ok(out) => out.warnings.join("\n"),
            Err(error) => error.to_string(),
        }
    };
    let star = on("{ kind = 'star', hosts = 5 }");
    assert!(exported(&star, Format::Ns3).contains("x.toml: found an unlimited flow from h0 to h1"));
    assert!(exported(&star, Format::Htsim).contains("the fabric is omitted"));
    let more = format!("{star}\nfaults = {{ duplication = 0.1 }}");
    for format in [Format::Htsim, Format::Edges] {
        let finite = more.replace("dst = 'h1'", "dst = 'h1', size = '3MB'");
        assert!(exported(&finite, format).contains("\nfaults are omitted"), "{format:?}");
    }
    let lossy = star.replace("dst = 'h1'", "dst = 'h1', size = '3MB'") + "\nfaults = { loss = 0.1";
    for format in [Format::Htsim, Format::Edges] {
        let output = exported(&format!("{lossy} }}"), format);
        assert!(output.contains("\nloss is omitted"), "{output}");
    }
    assert!(
        !exported(&format!("{lossy} }}"), Format::Ns3).contains("loss"),
        "it has a column for it"
    );
    let both = format!("{lossy}, duplication = 0.1 }}");
    assert!(exported(&both, Format::Ns3).contains("faults other than loss are omitted"));
    let job = "\ntraffic = [{ kind = 'collective', op = 'all-to-all', size = '1MB', label = 'x' }]";
    let wait = "found dependent messages in the traffic \"x\"";
    assert!(exported(&(star.clone() + job), Format::Ns3).contains(wait));
    let large = star.replace("dst = 'h1'", "dst = 'h1', size = '3GB'");
    assert!(exported(&large, Format::Htsim).contains("1 flows are larger than 2147483647 bytes"));
    assert!(!exported(&large, Format::Ns3).contains("larger"));
    let circuits = on("{ kind = 'reconfigurable' }");
    assert!(exported(&circuits, Format::Edges).contains("found a fabric with circuits"));
}

#[test]
fn broken_files_never_panic() {
    let mut rng = Rng::stream(3, Domain::Faults, 0);
    let pairs = [
        (Format::Ns3, [TOPOLOGY, FLOW]),
        (Format::Htsim, [TOPO, CM]),
        (Format::Edges, [EDGES, FLOWS]),
    ];
    let (mut good, mut bad) = (0, 0);
    for round in 0..6_000 {
        let (format, mut texts) = pairs[round % 3];
        let broken = mutated(&mut rng, texts[round % 2]);
        texts[round % 2] = &broken;
        let files = [Input::new("one", texts[0]), Input::new("two", texts[1])];
        match import(format, &files, None) {
            Ok(_) => good += 1,
            Err(error) => {
                bad += 1;
                let shown = error.to_string();
                let named = shown.starts_with("one") || shown.starts_with("two");
                assert!(named && shown.lines().count() == 1, "{shown}\n{texts:?}");
            }
        }
    }
    assert!(good > 100 && bad > 1000, "{good} {bad}");
}

#[test]
fn unreadable_files_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("x");
    for (bytes, expected) in [
        (&b"1 2 \xff"[..], "a byte that is not UTF-8 at offset 4"),
        (
            b"",
            "the \
                                                                                             end \
                                                                                             of \
                                                                                             the \
                                                                                             file",
        ),
    ] {
        fs::write(&path, bytes).unwrap();
        let error = Input::read(&path).and_then(|input| import(Format::Ns3, &[input], None));
        assert!(error.unwrap_err().to_string().contains(expected), "{expected}");
    }
    assert!(Input::read(folder.path()).unwrap_err().to_string().contains("it is a folder"));
    assert!(Input::read(Path::new("/nowhere")).is_err());
}
