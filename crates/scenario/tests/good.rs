//! Valid scenarios and their plans.
#![allow(missing_docs)]

use crate::common::{GRAPH, RACKS, beside, document, patched};
use tidegate_algos::{Protocol, Stack};
use tidegate_core::collective::{Collective, Op, Stragglers};
use tidegate_core::fabric::{
    Buffer, Ecn, Headroom, Link, MarkAt, Node, Pausing, Routing, Stamping,
};
use tidegate_core::params::Value;
use tidegate_core::workload::{Arrival, Pattern, Sampling, Sizes};
use tidegate_core::{ConnectionPolicy, Extent, Message, Rate, Span, Time};
use tidegate_scenario::{Error, Override, Plan, content_hash, load, load_file, resolved};

fn plan(text: &str) -> Plan {
    load(text, &beside("x.toml"), &[]).unwrap_or_else(|error| panic!("{error}\n{text}"))
}

fn value(stack: &Stack, name: &str) -> Value {
    stack.values().into_iter().find(|(known, _)| *known == name).unwrap().1
}

/// Returns the plan of one flow on this fabric.
fn fabric(lines: &str) -> Plan {
    plan(&format!(
        "duration = '1ms'\n[fabric]\n{lines}\n[transport]\nprotocol = 'swift'\n[[flows]]\nsrc = \
         'h0'\ndst = 'h1'\n"
    ))
}

#[test]
fn graph_is_compiled() {
    let plan = plan(GRAPH);
    assert_eq!((plan.name.as_str(), plan.seed), ("multi-hop", 1));
    assert_eq!((plan.duration, plan.warmup, plan.drain), (Time::ms(20), Time::ms(5), Span::ZERO));
    assert_eq!(plan.fabric.hosts, ["h0", "h1", "h2"]);
    assert_eq!(plan.fabric.mtu, 4096);
    let link = |a, b| Link { a, b, rate: Rate::gbps(100), delay: Span::us(1) };
    assert_eq!(
        plan.fabric.links,
        [
            link(Node::Host(0), Node::Switch(0)),
            link(Node::Host(1), Node::Switch(0)),
            link(Node::Switch(0), Node::Switch(1)),
            link(Node::Switch(1), Node::Host(2)),
        ]
    );
    let [s0, s1] = &plan.fabric.switches[..] else { panic!() };
    assert_eq!((s0.name.as_str(), s0.telemetry, s0.priorities), ("s0", Stamping::All, 8));
    assert_eq!((s1.name.as_str(), s1.telemetry), ("s1", Stamping::Off));
    assert_eq!((s0.buffer, s0.ecn, s0.latency), (Buffer::Unlimited, None, Span::ZERO));
    assert_eq!(plan.routing, Routing::Ecmp);
    assert_eq!(plan.connections, ConnectionPolicy::PerPair);
    assert_eq!(plan.bdp_bytes, None);
    assert_eq!(plan.stacks, [Protocol::Poseidon.stack()]);
    assert_eq!(plan.labels, ["", "victim"]);
    let [flow] = plan.workload.flows[..] else { panic!() };
    assert_eq!((flow.src, flow.dst, flow.bytes), (0, 2, Message::UNLIMITED));
    assert_eq!((flow.start, flow.stop), (Time::ZERO, Time::ms(20)));
    assert_eq!((flow.stack, flow.label, flow.dedicated), (0, 1, true));
    let [traffic] = &plan.workload.traffic[..] else { panic!() };
    assert_eq!((traffic.start, traffic.stop, traffic.label), (Time::ZERO, Time::ms(20), 0));
    let Sizes::Drawn(sizes) = &traffic.sizes else { panic!() };
    assert_eq!(sizes.sampling, Sampling::Linear);
    assert!((sizes.mean_bytes - 1_711_250.0).abs() < 1.0);
    let Pattern::Poisson { mean_gap_ps, senders, receivers } = &traffic.pattern else { panic!() };
    assert_eq!((&senders[..], &receivers[..]), (&[0, 1, 2][..], &[0, 1, 2][..]));
    let offered = sizes.mean_bytes * 8e12 / mean_gap_ps;
    assert!((offered / 60e9 - 1.0).abs() < 1e-9, "{offered}");
}

#[test]
fn racks_are_compiled() {
    let plan = plan(RACKS);
    assert_eq!(plan.name, "x");
    let first = &plan.fabric.switches[0];
    assert_eq!(first.buffer, Buffer::Shared { bytes: 4_000_000, alpha: 0.5 });
    let ecn = Ecn {
        min_bytes: 30e3,
        max_bytes: 90e3,
        max_probability: 0.2,
        at: MarkAt::Dequeue,
        core_only: false,
        per: None,
    };
    assert_eq!(first.ecn, Some(ecn));
    assert_eq!(plan.bdp_bytes, Some(100e3));

    // Three flows of one table, with jitter and a separate stack.
    let flows = &plan.workload.flows;
    assert_eq!(flows.len(), 3);
    assert!(flows.iter().all(|flow| flow.start < Time::us(10) && flow.stop == Time::NEVER));
    assert!(flows[0].start != flows[1].start && flows[1].start != flows[2].start);
    assert_eq!(plan.stacks.len(), 2);
    assert_eq!(value(&plan.stacks[usize::from(flows[0].stack)], "beta"), Value::Number(0.5));
    assert_eq!(plan.stacks[1], Protocol::Swift.stack());

    let traffic = &plan.workload.traffic;
    assert_eq!(traffic[0].sizes, Sizes::Fixed(20_000));
    let incast = Pattern::Incast {
        fan_in: 5,
        dst: None,
        interval: Span::ms(1),
        poisson: false,
        jitter: Span::ZERO,
    };
    assert_eq!(traffic[0].pattern, incast);
    let gap_ps = 128_000.0 * 8e12 / 0.5e9;
    assert_eq!(
        traffic[1].pattern,
        Pattern::RotatingIncast {
            senders: vec![0, 1, 2, 3],
            receivers: (0..plan.fabric.hosts.len() as u32).collect(),
            gap_ps,
            jitter: Span::ZERO
        }
    );
    assert_eq!((&traffic[2].pattern, traffic[2].start), (&Pattern::Permutation, Time::ms(1)));
    assert_eq!(traffic[2].sizes, Sizes::Fixed(Message::UNLIMITED));
    assert_eq!((&traffic[3].pattern, traffic[3].stop), (&Pattern::AllToAll, Time::ms(5)));
    let arrival = |at, src, dst, bytes| Arrival { at, src, dst, bytes };
    let arrivals = vec![
        arrival(Time::ZERO, 3, 4, 2000),
        arrival(Time::ps(1), 7, 0, 1),
        arrival(Time::ns(2_500), 0, 1, 1000),
    ];
    assert_eq!(traffic[4].pattern, Pattern::Trace(arrivals));
    assert_eq!(plan.labels[usize::from(traffic[4].label)], "replayed");
}

#[test]
fn generators_make_the_fabrics_they_name() {
    // Kind, hosts, switches, links.
    for (lines, hosts, switches, links) in [
        ("kind = 'star'\nhosts = 5", 5, 1, 5),
        ("kind = 'dumbbell'\npairs = 3", 6, 2, 7),
        ("kind = 'parking-lot'\nswitches = 4\nhosts_per_switch = 2", 8, 4, 11),
        ("kind = 'leaf-spine'", 144, 13, 144 + 36),
        ("kind = 'leaf-spine'\nlinks_per_spine = 2", 144, 13, 144 + 72),
        ("kind = 'fat-tree'\nk = 4", 16, 20, 48),
        ("kind = 'fat-tree'\nk = 4\noversubscription = 4", 64, 20, 96),
        ("kind = 'fat-tree'\nk = 16", 1024, 320, 3072),
        ("kind = 'clos'", 64, 4 * 2 + 4 * 2 + 4, 64 + 16 + 16),
        ("kind = 'reconfigurable'", 32, 9, 32 + 8 + 28),
        ("preset = 'poseidon-clos'", 1536, 64 + 64 + 64, 1536 + 512 + 512),
        ("preset = 'poseidon-ns3'", 320, 21, 340),
        ("preset = 'powertcp-fat-tree'", 256, 20, 256 + 16 + 16),
        ("preset = 'sird-leaf-spine'", 144, 13, 180),
        ("preset = 'sird-leaf-spine-core'", 144, 13, 180),
        ("preset = 'hpcc-fat-tree'", 320, 56, 320 + 80 + 80),
        ("preset = 'dcpim-leaf-spine'", 144, 13, 180),
        ("preset = 'homa-leaf-spine'", 144, 13, 180),
        ("kind = 'fat-tree'\nk = 4\nrails = 2", 16, 20, 48),
    ] {
        let fabric = fabric(lines).setup.fabric;
        assert_eq!(
            (fabric.hosts.len(), fabric.switches.len(), fabric.links.len()),
            (hosts, switches, links),
            "{lines}"
        );
        // Hosts come first, rack by rack.
        for (i, link) in fabric.links.iter().take(hosts).enumerate() {
            assert_eq!(link.a, Node::Host(i as u32), "{lines}");
        }
        // Uplinks of a switch lead to different switches unless the scenario has parallel links.
        let mut ends: Vec<_> = fabric.links.iter().map(|link| (link.a, link.b)).collect();
        ends.sort();
        ends.dedup();
        assert_eq!(ends.len() == links, !lines.contains("links_per_spine"), "{lines}");
    }
}

#[test]
fn cores_of_a_fat_tree_may_be_faster() {
    let links = |lines: &str, gbps: u64| {
        let fabric = fabric(&format!("kind = 'fat-tree'\n{lines}")).setup.fabric;
        let links = fabric.links.iter().filter(|link| link.rate == Rate::gbps(gbps));
        let name = |node| match node {
            Node::Host(_) => "host",
            Node::Switch(s) => fabric.switches[s as usize].name.trim_end_matches(char::is_numeric),
        };
        let mut ends: Vec<_> = links.map(|link| [name(link.a), name(link.b)]).collect();
        ends.sort_unstable();
        let number = ends.len();
        ends.dedup();
        (number, ends.into_iter().map(|ends| ends.join(" to ")).collect::<Vec<_>>().join(", "))
    };
    let both = "agg to core, tor to agg".to_owned();
    assert_eq!(links("fabric_link.rate = '40Gbps'", 40), (32, both));
    let core = "core_link = { rate = '400Gbps', delay = '2us' }";
    assert_eq!(links(core, 400), (16, "agg to core".to_owned()));
}

#[test]
fn presets_can_be_changed() {
    let plan = fabric(
        "preset = 'poseidon-clos'\nhosts_per_rack = 2\nagg_link = { delay = '1us' \
         }\n[switch]\nbuffer = 'unlimited'",
    );
    assert_eq!(plan.fabric.hosts.len(), 128);
    assert_eq!(plan.fabric.switches[0].buffer, Buffer::Unlimited);
    assert_eq!(plan.fabric.switches[0].latency, Span::ns(600));
    let agg = plan.fabric.links.iter().find(|link| link.delay == Span::us(1)).unwrap();
    assert_eq!(agg.rate, Rate::gbps(200));
    assert_eq!(fabric("preset = 'sird-leaf-spine'").bdp_bytes, Some(100e3));
}

#[test]
fn connections_default_to_per_message() {
    let connections = |lines| fabric(lines).connections;
    assert_eq!(connections("kind = 'star'\nhosts = 2"), ConnectionPolicy::PerMessage);
    assert_eq!(connections("preset = 'hpcc-fat-tree'"), ConnectionPolicy::PerMessage);
    assert_eq!(connections("preset = 'sird-leaf-spine'"), ConnectionPolicy::Pool(40));
    assert_eq!(connections("preset = 'sird-leaf-spine-core'"), ConnectionPolicy::Pool(40));
}

#[test]
fn switches_match_by_name_and_the_last_wins() {
    let plan = fabric(
        "kind = 'leaf-spine'\n[switch]\nbuffer = '1MB'\n\
         [[switch.override]]\nmatch = ['tor*', 'spine[0-1]']\nlatency = '1us'\necn = { kmin = \
         '1BDP', ports = 'core' }\n\
         [[switch.override]]\nmatch = 'tor?'\nlatency = '2us'\nbuffer = '2MB'\nsharing = \
         'complete'",
    );
    let switch =
        |name: &str| plan.fabric.switches.iter().find(|switch| switch.name == name).unwrap();
    assert_eq!(switch("tor3").latency, Span::us(2));
    assert_eq!(switch("tor3").buffer, Buffer::Shared { bytes: 2_000_000, alpha: f64::INFINITY });
    assert_eq!(switch("spine1").latency, Span::us(1));
    assert_eq!(switch("spine1").buffer, Buffer::Shared { bytes: 1_000_000, alpha: 1.0 });
    assert_eq!(switch("spine2").latency, Span::ZERO);
    assert_eq!(switch("spine2").ecn, None);
    assert!(switch("spine1").ecn.is_some_and(|ecn| ecn.core_only
        && ecn.min_bytes == ecn.max_bytes
        && ecn.min_bytes > 50e3));
}

#[test]
fn required_marking_is_applied() {
    let plan = plan(&patched(
        GRAPH,
        "protocol = \"poseidon\"\npreset = \"paper\"\nparams = { m = 0.25 }",
        "protocol = \"dctcp\"\nbdp = \"100KB\"",
    ));
    let step = Ecn {
        min_bytes: 125e3,
        max_bytes: 125e3,
        max_probability: 1.0,
        at: MarkAt::Enqueue,
        core_only: false,
        per: None,
    };
    assert!(plan.fabric.switches.iter().all(|switch| switch.ecn == Some(step)));
    assert_eq!(plan.stacks.len(), 2);
}

#[test]
fn marking_in_proportion_to_rates_is_read_and_written() {
    let ecn = "[switch]\necn = { kmin = '100KB', kmax = '400KB', pmax = 0.2, per = '25Gbps' }\n";
    let plan = plan(&format!(
        "duration = '1ms'\nfabric = {{ kind = 'star', hosts = 2 }}\n\
         transport = {{ protocol = 'swift' }}\n{ecn}[[flows]]\nsrc = 'h0'\ndst = 'h1'"
    ));
    let ecn = plan.fabric.switches[0].ecn.unwrap();
    assert_eq!((ecn.min_bytes, ecn.max_bytes, ecn.per), (100e3, 400e3, Some(Rate::gbps(25))));
    let fast = ecn.at_rate(Rate::gbps(100));
    assert_eq!((fast.min_bytes, fast.max_bytes, fast.max_probability), (400e3, 1.6e6, 0.2));
    assert_eq!(resolved(&plan)["switch"]["ecn"]["per"], "25Gbps");
    assert_eq!(load(&document(&resolved(&plan)), &beside("x.toml"), &[]).unwrap(), plan);
}

#[test]
fn routing_follows_setting_or_protocols() {
    let routed_on = |fabric: &str, protocol: &str, switch: &str| {
        let plan = plan(&format!(
            "duration = '1ms'\nfabric = {{ {fabric} }}\nswitch = {{ {switch} }}\n\
             transport = {{ protocol = '{protocol}' }}\n[[flows]]\nsrc = 'h0'\ndst = 'h1'"
        ));
        let spraying = plan.warnings.iter().any(|text| {
            text.contains(
                "expects switch.routing = \
                                                                      \"spray\"",
            )
        });
        assert_eq!(load(&document(&resolved(&plan)), &beside("x.toml"), &[]).unwrap(), plan);
        (plan.routing, spraying)
    };
    let routed = |protocol: &str, switch: &str| routed_on("kind = 'leaf-spine'", protocol, switch);
    assert_eq!(routed("swift", ""), (Routing::Ecmp, false));
    assert_eq!(routed("sird", ""), (Routing::Spray, false));
    let symmetric = "routing = 'symmetric-ecmp'";
    assert_eq!(routed("swift", symmetric), (Routing::SymmetricEcmp, false));
    assert_eq!(routed("sird", symmetric), (Routing::SymmetricEcmp, true));
    // No warning if packets have no choice of paths.
    let on_a_star = routed_on("kind = 'star'", "sird", symmetric);
    assert_eq!(on_a_star, (Routing::SymmetricEcmp, false));
}

#[test]
fn ports_to_hosts_stamp_if_a_protocol_needs_that() {
    let stamping = |protocols: &[&str], switch: &str| {
        let flows = protocols
            .iter()
            .map(|protocol| format!("{{ src = 'h0', dst = 'h9', protocol = '{protocol}' }}"));
        let flows = flows.collect::<Vec<_>>().join(", ");
        let plan = plan(&format!(
            "duration = '1ms'\nflows = [{flows}]\n[fabric]\nkind = 'leaf-spine'\n\
             [transport]\nprotocol = '{}'\n[switch]\nrouting = 'ecmp'\n{switch}",
            protocols[0]
        ));
        plan.fabric.switches.iter().map(|switch| switch.telemetry).collect::<Vec<_>>()
    };
    let all = |stamping: &[Stamping]| stamping.iter().all(|&other| other == stamping[0]);
    for (protocols, expected) in [
        (&["tide"][..], Stamping::Core),
        (&["tide", "dctcp"], Stamping::Core),
        (&["tide", "poseidon"], Stamping::All),
        (&["tide", "hpcc"], Stamping::All),
        (&["swift"], Stamping::All),
    ] {
        let found = stamping(protocols, "");
        assert!(all(&found) && found[0] == expected, "{protocols:?}: {found:?}");
    }
    let partly = stamping(&["tide"], "override = [{ match = 'spine*', telemetry = false }]");
    assert_eq!((partly[0], *partly.last().unwrap()), (Stamping::Core, Stamping::Off));
}

#[test]
fn single_paths_suit_spraying_and_ecmp() {
    let text = |fabric: &str| {
        format!(
            "duration = '1ms'\nfabric = {{ {fabric} }}\ntransport = {{ protocol = 'sird' }}\n\
             [[flows]]\nsrc = 'h0'\ndst = 'h1'\n\
             [[flows]]\nsrc = 'h2'\ndst = 'h1'\nprotocol = 'swift'"
        )
    };
    assert_eq!(plan(&text("kind = 'star'")).routing, Routing::Ecmp);
    let refused = load(&text("kind = 'leaf-spine'"), "x.toml", &[]).unwrap_err().to_string();
    assert_eq!(
        refused,
        "x.toml:1: switch.routing: found nothing, expected \"ecmp\", \"spray\" or \
         \"symmetric-ecmp\": set one, because sird (transport.protocol) requires spraying and \
         swift (flows[1].protocol) does not"
    );
}

#[test]
fn stacks_combine_defaults_presets_and_params() {
    let text =
        patched(RACKS, "protocol = \"swift\"", "protocol = \"swift\"\nparams = { ai = 2.0 }");
    let plan = plan(&format!(
        "{}\n[protocols.dctcp]\npreset = 'sird'\nparams = {{ initial_window = '2BDP' }}\n\
         [[flows]]\nsrc = 'h1'\ndst = 'h2'\nprotocol = 'dctcp'\nparams = {{ max_window = '50BDP' \
         }}\n\
         [[flows]]\nsrc = 'h1'\ndst = 'h2'\npreset = 'sird'\n\
         [[flows]]\nsrc = 'h1'\ndst = 'h2'\nprotocol = 'swift'\n",
        patched(&text, "protocol = \"swift\"", "protocol = \"swift\"")
    ));
    let stack = |flow: usize| &plan.stacks[usize::from(plan.workload.flows[flow].stack)];
    // The flow's parameters override the transport's.
    assert_eq!(
        (value(stack(0), "ai"), value(stack(0), "beta")),
        (Value::Number(2.0), Value::Number(0.5))
    );
    // [protocols.dctcp], then the flow's parameters.
    assert_eq!(value(stack(3), "g"), Value::Number(0.08));
    assert_eq!(value(stack(3), "initial_window"), Value::Extent(Extent::Bdp(2.0)));
    assert_eq!(value(stack(3), "max_window"), Value::Extent(Extent::Bdp(50.0)));
    // A preset replaces earlier parameters.
    assert_eq!(
        (value(stack(4), "ai"), value(stack(4), "fs_range")),
        (Value::Number(1.0), Value::Span(Span::us(75)))
    );
    // Naming the transport's protocol changes nothing.
    assert_eq!(value(stack(5), "ai"), Value::Number(2.0));
    assert_eq!(plan.stacks.len(), 4);
}

#[test]
fn loads_refer_to_their_base() {
    let text = |lines: &str| {
        format!(
            "duration = '1ms'\n[fabric]\npreset = 'powertcp-fat-tree'\n[transport]\nprotocol = \
             'swift'\n\
             [[traffic]]\nsizes = 'powertcp-websearch'\n{lines}"
        )
    };
    let gap = |lines: &str| match &plan(&text(lines)).workload.traffic[0].pattern {
        Pattern::Poisson { mean_gap_ps, .. } => *mean_gap_ps,
        Pattern::Incast { interval, .. } => interval.as_ps() as f64,
        other => panic!("{other:?}"),
    };
    let mean_bits = 1_711_222.0 * 8e12;
    let near = |ours: f64, expected: f64| {
        assert!((ours / expected - 1.0).abs() < 1e-6, "{ours} {expected}")
    };
    near(gap("kind = 'poisson'\nload = 0.5"), mean_bits / 12.5e9);
    near(gap("kind = 'poisson'\nload = '50%'"), mean_bits / 12.5e9);
    // 200 Gbit/s of uplinks for 32 hosts.
    near(
        gap("kind = 'poisson'\nload = 0.5\nload_base = 'rack-uplinks'"),
        mean_bits / (0.5 * 6.25e9),
    );
    near(gap("kind = 'poisson'\nrate = '2Gbps'\nsenders = 'h[0-9]'"), mean_bits / 2e9);
    near(gap("kind = 'poisson'\nload = 0.5\nmean = '1MB'"), 8e18 / 12.5e9);
    near(
        gap("kind = 'incast'\nfan_in = 10\nload = 0.07"),
        10.0 * mean_bits / (0.07 * 256.0 * 25e9),
    );
}

#[test]
fn requests_and_closed_loops_are_compiled() {
    let text = "duration = '1ms'\n[fabric]\nkind = 'leaf-spine'\nracks = 2\nhosts_per_rack = 3\n\
                [transport]\nprotocol = 'swift'\n\
                [[traffic]]\nkind = 'requests'\nsizes = '2MB'\nfan_in = 3\nper_second = 4\n\
                askers = 'h[1-2]'\n\
                [[traffic]]\nkind = 'closed-loop'\nrequest = '200B'\nreply = 'websearch'\n\
                label = 'ask'\nreply_label = 'tell'\nclients = 'h[0-1]'\nper_host = 2\n\
                servers = 'h[3-5]'\nthink = '5us'\nthink_times = 'exponential'\n\
                [[traffic]]\nkind = 'closed-loop'\nrequest = '1KB'\nreply = '1KB'\nlabel = 'ask'";
    let plan = plan(text);
    let [requests, closed, plain] = &plan.workload.traffic[..] else { panic!("three blocks") };
    let racks = vec![vec![0, 1, 2], vec![3, 4, 5]];
    let expected = Pattern::Requests { mean_gap_ps: 250e9, askers: vec![1, 2], racks, fan_in: 3 };
    assert_eq!((&requests.pattern, &requests.sizes), (&expected, &Sizes::Fixed(2_000_000)));
    let Pattern::ClosedLoop { clients, servers, replies, reply_label, think, exponential } =
        &closed.pattern
    else {
        panic!("{closed:?}")
    };
    assert_eq!((&clients[..], &servers[..]), (&[0, 0, 1, 1][..], &[3, 4, 5][..]));
    assert!(matches!(replies, Sizes::Drawn(_)) && closed.sizes == Sizes::Fixed(200));
    let label = |number: u16| plan.labels[usize::from(number)].as_str();
    assert_eq!([label(closed.label), label(*reply_label)], ["ask", "tell"]);
    assert_eq!((*think, *exponential), (Span::us(5), true));
    let Pattern::ClosedLoop { clients, servers, reply_label, think, exponential, .. } =
        &plain.pattern
    else {
        panic!("{plain:?}")
    };
    assert_eq!((clients.len(), servers.len(), label(*reply_label)), (6, 6, "ask"));
    assert_eq!((*think, *exponential), (Span::ZERO, false));
}

#[test]
fn other_generators_and_replies_are_compiled() {
    let head = "duration = '1ms'\n[fabric]\nkind = 'star'\nhosts = 12\n\
                [transport]\nprotocol = 'swift'\n";
    let block = "[[traffic]]\nkind = 'poisson'\nsizes = 'wkc'\nload = 0.5\nreply = '4B'\n";
    let plan = plan(&format!(
        "{head}{block}{block}reply_label = 'back'\ngenerator = 'sird-simulator'\nstart = '200us'\n"
    ));
    let [own, theirs] = &plan.workload.traffic[..] else { panic!("two blocks") };
    let label = |number: u16| plan.labels[usize::from(number)].as_str();
    for (block, name) in [(own, "reply"), (theirs, "back")] {
        let Pattern::Answered { of, replies, reply_label } = &block.pattern else {
            panic!("{block:?}")
        };
        assert_eq!((replies, label(*reply_label)), (&Sizes::Fixed(4), name));
        match &**of {
            Pattern::Poisson { senders, .. } => assert_eq!(senders.len(), 12),
            Pattern::Trace(list) => {
                let first = list.first().unwrap().at;
                assert!((Time::us(200)..Time::us(300)).contains(&first), "{first}");
            }
            other => panic!("{other:?}"),
        }
    }
}

#[test]
fn time_series_are_selected() {
    let text = |output: &str| {
        format!(
            "duration = '1ms'\n[fabric]\nkind = 'star'\nhosts = 3\n[transport]\n\
             protocol = 'swift'\n[[flows]]\nsrc = 'h0'\ndst = 'h1'\n[output]\n{output}\n"
        )
    };
    let defaults = plan(&text("timeseries = '1us'")).output;
    let names = ["delivered_bytes", "goodput_gbps", "window_bytes", "queue_bytes", "paused_us"];
    assert_eq!((defaults.quantities, defaults.ports), (names.to_vec(), None));
    let chosen = plan(&text(
        "quantities = ['sent_gbps', 'mean_queue_bytes']\nports = ['tor0>h[1-2]', 'h0>*']",
    ));
    assert_eq!(chosen.output.quantities, ["mean_queue_bytes", "sent_gbps"]);
    let ports = chosen.output.ports.clone().unwrap();
    let ends = |port: u32| {
        let link = &chosen.fabric.links[port as usize / 2];
        if port.is_multiple_of(2) { (link.a, link.b) } else { (link.b, link.a) }
    };
    let tor = Node::Switch(0);
    let expected = [(Node::Host(0), tor), (tor, Node::Host(1)), (tor, Node::Host(2))];
    assert_eq!(ports.into_iter().map(ends).collect::<Vec<_>>(), expected);
}

#[test]
fn collectives_are_compiled() {
    let text = "duration = '1ms'\n[fabric]\nkind = 'star'\nhosts = 12\n\
                [transport]\nprotocol = 'swift'\n\
                [[traffic]]\nkind = 'collective'\nop = 'ring-all-reduce'\nsize = '1MB'\n\
                hosts = ['h5', 'h1*', 'h5', 'h0']\nranks = 4\nchunks = 3\niterations = 7\n\
                compute = '20us'\nlabel = 'train'\nstart = '5us'\n\
                [[traffic]]\nkind = 'collective'\nop = 'moe'\nsize = '12MB'\nskew = 1\n\
                hosts = 'h[0-1]'\n\
                [[traffic]]\nkind = 'collective'\nop = 'all-to-all'\nsize = '12MB'\n\
                [[traffic]]\nkind = 'collective'\nop = 'chain'\nsize = '100B'\nreply = '5KB'";
    let plan = plan(text);
    let of = |number: usize| match &plan.workload.traffic[number].pattern {
        Pattern::Collective(of) => of.clone(),
        other => panic!("{other:?}"),
    };
    let ring = Collective {
        op: Op::RingAllReduce,
        // In order of the list, without duplicates.
        hosts: vec![5, 1, 10, 11],
        bytes: 1_000_000,
        chunks: 3,
        iterations: 7,
        compute: Span::us(20),
        stragglers: Stragglers::default(),
    };
    assert_eq!(of(0), ring);
    assert_eq!(plan.workload.traffic[0].start, Time::us(5));
    let moe = of(1);
    // 1 and 1/2 of 3/2.
    assert_eq!(moe.op, Op::Experts { loads: vec![8_000_000, 4_000_000], combine: true });
    assert_eq!((moe.hosts, moe.chunks, moe.iterations), (vec![0, 1], 1, 1));
    assert_eq!((of(2).op, of(2).hosts.len()), (Op::AllToAll, 12));
    assert_eq!(of(3).op, Op::Chain { reply: 5_000 });
    assert_eq!(load(&document(&resolved(&plan)), &beside("x.toml"), &[]).unwrap(), plan);
}

#[test]
fn too_many_collective_messages_are_refused() {
    let error = |block: &str, blocks: usize| {
        let head = "duration = '1ms'\n[fabric]\nkind = 'star'\nhosts = 1000\n\
                    [transport]\nprotocol = 'swift'\n";
        let block = format!("[[traffic]]\nkind = 'collective'\nsize = '1GB'\n{block}\n");
        load(&(head.to_owned() + &block.repeat(blocks)), "x.toml", &[]).unwrap_err().to_string()
    };
    let ring = error("op = 'ring-all-reduce'\nchunks = 9", 1);
    let expected = "traffic[0].op: found 17982000 messages per iteration in all collectives and \
                    jobs up to this one, expected at most 16777216: use fewer ranks or chunks";
    assert!(ring.ends_with(expected), "{ring}");
    // 999,000 messages each.
    assert!(error("op = 'all-to-all'", 17).contains("traffic[16].op"));
    let many = error("op = 'tree-all-reduce'\nranks = 2", 1025);
    assert!(
        many.ends_with(
            "traffic[1024].kind: found collective or job number 1025, expected at most \
             1024 collectives and jobs"
        ),
        "{many}"
    );
}

#[test]
fn sizes_come_from_files_and_by_any_spelling() {
    let drawn = |sizes: &str| match &plan(&patched(
        GRAPH,
        "sizes = \"websearch\"",
        &format!("sizes = {sizes}"),
    ))
    .workload
    .traffic[0]
        .sizes
    {
        Sizes::Drawn(distribution) => distribution.clone(),
        other => panic!("{other:?}"),
    };
    let file = drawn("\"sizes.csv\"");
    assert_eq!(file.points, [(1000.0, 0.0), (3000.0, 0.5), (5000.0, 1.0)]);
    assert!((file.mean_bytes - 3000.0).abs() < 1e-9);
    assert_eq!(drawn("\"sizes.csv\"\nsampling = \"step\"").mean_bytes, 4000.0);
    let wka = drawn("\"WKa\"");
    assert_eq!((wka.sampling, wka.mean_bytes), (Sampling::Logarithmic, 2927.354));
    assert_eq!(drawn("\"wka_google_all_rpc\""), wka);
    assert!((drawn("\"wka\"\nsampling = \"linear\"").mean_bytes - 2890.0).abs() < 1.0);
    // SIRD's section 5.3: 99 % of WKa's messages, and 40 % of its bytes, are below a BDP.
    let drawn: Vec<f64> =
        (0..200_000).map(|i| wka.quantile((i as f64 + 0.5) / 200_000.0)).collect();
    let below = || drawn.iter().filter(|&&bytes| bytes < 100_000.0);
    let messages = below().count() as f64 / drawn.len() as f64;
    let bytes = below().sum::<f64>() / drawn.iter().sum::<f64>();
    assert!((messages - 0.99).abs() < 0.01 && (bytes - 0.4).abs() < 0.05, "{messages}, {bytes}");
}

#[test]
fn weights_belong_to_labels() {
    let weights = |flows: &str| {
        let plan = plan(&format!("{RACKS}\n{flows}"));
        (plan.labels, plan.setup.weights)
    };
    let flow = |rest: &str| format!("[[flows]]\nsrc = 'h1'\ndst = 'h6'\n{rest}\n");
    let without = weights(&flow("label = 'a'")).1;
    assert!(without.is_empty());
    let (labels, found) = weights(&format!(
        "{}{}{}{}",
        flow("label = 'a'"),
        flow("label = 'b'\nweight = 31"),
        flow("label = 'a'\nweight = 4"),
        flow("label = 'a'")
    ));
    let of = |name: &str| found[labels.iter().position(|label| label == name).unwrap()];
    assert_eq!([of(""), of("a"), of("b")], [1, 4, 31]);
}

#[test]
fn options_change_values() {
    let set = |argument: &str| Override::set(argument).unwrap();
    let load = |changes: &[Override]| load(GRAPH, "x.toml", changes);
    let plan = load(&[
        set("transport.params.m=0.5"),
        set("flows.0.size=1MB"),
        set("flows[0].count = 2"),
        set("switch.ecn={ kmin = \"30KB\" }"),
        set("fabric.links.2.rate=10Gbps"),
        set("output.timeseries=10us"),
        Override::option("--seed 7", "seed", "7"),
    ])
    .unwrap();
    assert_eq!(value(&plan.stacks[0], "m"), Value::Number(0.5));
    assert_eq!(plan.workload.flows.len(), 2);
    assert_eq!(plan.workload.flows[0].bytes, 1_000_000);
    assert_eq!(plan.fabric.links[2].rate, Rate::gbps(10));
    assert_eq!(plan.output.timeseries, Some(Span::us(10)));
    assert_eq!(plan.seed, 7);
    assert!(load(&[set("flows.0.size=inf")]).is_ok());
    let plan = load(&[set("flows[0].count=1"), set("fabric.links[*].rate=10Gbps")]).unwrap();
    assert!(plan.fabric.links.iter().all(|link| link.rate == Rate::gbps(10)));
    let wrong = load(&[set("faults.outages[*].from=1us")]).unwrap_err().to_string();
    assert!(wrong.contains("position * of a list that the scenario does not have"), "{wrong}");
    let wrong = load(&[Override::option("--seed x", "seed", "x")]).unwrap_err();
    assert_eq!(wrong.to_string(), "--seed x: seed: found x, expected a whole number of at least 0");
    assert_eq!((&*wrong.key, wrong.line), ("seed", 0));
}

#[test]
fn options_select_by_label() {
    let flow = |label: &str| format!("\n[[flows]]\nsrc = 'h1'\ndst = 'h2'\n{label}\n");
    let text = format!("{GRAPH}{}{}{}", flow("label = 'b'"), flow(""), flow("label = 'victim'"));
    let sizes = |argument: &str| {
        let plan = load(&text, "x.toml", &[Override::set(argument).unwrap()]).unwrap();
        plan.workload.flows.iter().map(|flow| flow.bytes).collect::<Vec<_>>()
    };
    let (inf, mega) = (u64::MAX, 1_000_000);
    assert_eq!(sizes("flows.victim.size=1MB"), [mega, inf, inf, mega]);
    assert_eq!(sizes("flows[b].size=1MB"), [inf, mega, inf, inf]);
    assert_eq!(sizes("flows[2].size=1MB"), [inf, inf, mega, inf]);
}

#[test]
fn protocol_override_replaces_the_transport() {
    let text = format!(
        "{GRAPH}\n[protocols.swift]\nparams = {{ ai = 2.0 }}\n\
         [[flows]]\nsrc = 'h0'\ndst = 'h1'\nparams = {{ k = '3us' }}\n[[flows]]\nsrc = 'h0'\ndst \
         = 'h1'\nprotocol = 'open-loop'\n"
    );
    let text = patched(&text, "m = 0.25", "m = 0.5");
    let stacks = |name| {
        load(&text, "x.toml", &[Override::protocol("--protocols", name)]).unwrap().setup.stacks
    };
    assert_eq!(value(&stacks("poseidon")[0], "m"), Value::Number(0.5));
    assert_eq!(value(&stacks("swift")[0], "ai"), Value::Number(2.0));
    assert_eq!(stacks("poseidon").len(), 3);
    assert_eq!(stacks("dctcp"), [Protocol::Dctcp.stack(), Protocol::OpenLoop.stack()]);
    let plain =
        load(&text, "x.toml", &[Override::set("transport.protocol=swift").unwrap()]).unwrap_err();
    assert!(plain.to_string().contains("an unknown parameter of swift"), "{plain}");
}

#[test]
fn errors_have_parts() {
    let text = patched(GRAPH, "rate = \"100Gbps\"", "rate = \"10Gbsp\"");
    let error: Error = load(&text, "file.toml", &[]).unwrap_err();
    assert_eq!((&*error.origin, error.line, error.column), ("file.toml", 12, 32));
    assert_eq!((&*error.key, &*error.found), ("fabric.links[0].rate", "\"10Gbsp\""));
    assert_eq!(error.suggestion.as_deref(), Some("10Gbps"));
}

#[test]
fn pfc_settings_are_compiled() {
    let of = |lines: &str| {
        let text = format!("buffer = \"1MB\"\n{lines}");
        plan(&patched(GRAPH, "buffer = \"unlimited\"\nlatency = \"0ns\"", &text)).setup.fabric
    };
    let defaults = Pausing {
        classes: 1 << 7,
        alpha: 0.125,
        reserved_bytes: 4_096,
        // Size of a Poseidon packet with telemetry.
        headroom: Headroom::RoundTrip { packet_bytes: 4096 + 80 + 2 },
        headroom_on_top: false,
        resume_offset_bytes: 3_072,
    };
    let pausing = |lines: &str| of(lines).switches[0].pausing;
    assert_eq!(pausing(""), None);
    assert_eq!(pausing("pfc = 'off'"), None);
    assert_eq!(pausing("pfc = {}"), Some(defaults));
    let all = "pfc = { alpha = 2, reserved = '1KB', headroom = '9KB', resume_offset = '0B', \
               classes = 2 }";
    let expected = Pausing {
        classes: 0b11 << 6,
        alpha: 2.0,
        reserved_bytes: 1_000,
        headroom: Headroom::Bytes(9_000),
        headroom_on_top: false,
        resume_offset_bytes: 0,
    };
    assert_eq!(pausing(all), Some(expected));
    let pausing = of("pfc.headroom = 'three-delays'").switches[1].pausing.unwrap();
    assert_eq!(pausing.headroom, Headroom::ThreeDelays);
    let on_top = |place: &str| {
        let fabric = of(&format!("pfc = {{ headroom = '9KB', headroom_place = '{place}' }}"));
        (fabric.switches[0].pausing.unwrap().headroom_on_top, fabric.kept_bytes()[0])
    };
    // Three links lead to s0, each with a reserve of 4,096 B.
    assert_eq!(on_top("within-buffer"), (false, 3 * (9_000 + 4_096)));
    assert_eq!(on_top("on-top"), (true, 3 * 4_096));

    // The authors' fat trees use alpha = 1/8 by default.
    for preset in ["powertcp-fat-tree", "hpcc-fat-tree"] {
        let pausing =
            |more: &str| fabric(&format!("preset = '{preset}'\n{more}")).fabric.switches[9].pausing;
        let Some(Pausing { alpha, headroom, .. }) = pausing("") else { panic!("{preset}") };
        assert_eq!((alpha, headroom), (0.125, Headroom::ThreeDelays));
        assert_eq!(pausing("[switch]\npfc = 'off'"), None);
        assert_eq!(pausing("[switch]\nbuffer = 'unlimited'"), None);
    }
}

#[test]
fn resolved_scenarios_load_to_the_same_plan() {
    let dctcp = patched(
        GRAPH,
        "protocol = \"poseidon\"\npreset = \"paper\"\nparams = { m = 0.25 }",
        "protocol = \"dctcp\"",
    );
    let preset = "duration = '1ms'\n[fabric]\npreset = 'powertcp-fat-tree'\n[transport]\nprotocol \
        = 'swift'\npreset = 'sird'\n\
                  [protocols.powertcp]\npreset = 'as-published-code'\n[[traffic]]\nkind = \
                  'permutation'\nprotocol = 'powertcp'";
    let racks = format!("{RACKS}\n[[switch.override]]\nmatch = 'tor*'\necn = 'off'\n");
    let pauses =
        patched(GRAPH, "buffer = \"unlimited\"", "buffer = \"1MB\"\npfc = { classes = 3 }");
    for text in [GRAPH, RACKS, &dctcp, &racks, &pauses, preset] {
        let plan = plan(text);
        let again = load(&document(&resolved(&plan)), &beside("x.toml"), &[]).unwrap();
        assert_eq!(plan, again);
        assert_eq!(content_hash(&plan), content_hash(&again));
        let every = resolved(&plan)["transport"]["params"].as_object().unwrap().len();
        let protocol =
            Protocol::named(resolved(&plan)["transport"]["protocol"].as_str().unwrap()).unwrap();
        let usual = protocol.table().iter().filter(|info| !info.later).count();
        assert_eq!(every, usual);
    }
}

#[test]
fn content_hash_covers_content() {
    let base = content_hash(&plan(GRAPH));
    assert_eq!(base.len(), 64);
    assert_eq!(
        base,
        content_hash(&plan(&patched(GRAPH, "delay = \"1us\"", "delay  = \"1000ns\"")))
    );
    for (from, to) in [
        ("seed = 1", "seed = 2"),
        ("m = 0.25", "m = 0.26"),
        ("delay = \"1us\"", "delay = \"1001ns\""),
        ("websearch", "hadoop"),
        ("victim", "other"),
        ("seed = 1", "seed = 1\ndrain = \"1ms\""),
    ] {
        assert_ne!(base, content_hash(&plan(&patched(GRAPH, from, to))), "{to}");
    }
}

#[test]
fn protocols_outside_their_domain_are_warned_of() {
    let star = |delay| {
        fabric(&format!("kind = 'star'\nhost_link = {{ rate = '10Gbps', delay = '{delay}' }}"))
    };
    assert_eq!(star("1us").warnings, Vec::<String>::new());
    let far = star("50us").warnings;
    assert!(far.len() == 1 && far[0].starts_with("swift: "), "{far:?}");
    let text = patched(GRAPH, "delay = \"1us\"", "delay = \"1ms\"");
    let plan = load(&text, "x.toml", &[]).unwrap();
    assert_eq!(plan.warnings.len(), 1);
    assert!(plan.warnings[0].starts_with("poseidon: "), "{:?}", plan.warnings);
}

/// A protocol may fit itself to the sizes of generated traffic. Without any, it warns.
#[test]
fn protocols_fit_generated_sizes() {
    let warnings = |more: &str| {
        let text = format!(
            "duration = '1ms'\nfabric = {{ kind = 'star' }}\ntransport = {{ protocol = 'homa' }}\n\
             {more}"
        );
        plan(&text).warnings
    };
    let flow = "flows = [{ src = 'h0', dst = 'h1', size = '1MB' }]\n";
    let blind = warnings(flow);
    assert!(blind.len() == 1 && blind[0].starts_with("homa: no generator has"), "{blind:?}");
    let traffic = "[[traffic]]\nkind = 'poisson'\nsizes = 'homa-w3'\nload = 0.5\n";
    assert_eq!(warnings(&format!("{flow}{traffic}")), Vec::<String>::new());
    assert_eq!(warnings(traffic), Vec::<String>::new());
}

/// A warning about only the shortest path is reported. A warning about both paths is reported once.
#[test]
fn the_shortest_path_can_be_outside_a_domain() {
    let warnings = |protocol: &str, racks: u32, params: &str| {
        let text = format!(
            "duration = '1ms'\nflows = [{{ src = 'h0', dst = 'h1' }}]\nfabric = {{ kind = \
             'leaf-spine', racks = {racks}, hosts_per_rack = 2, mtu = '1000B' }}\ntransport = {{ \
             protocol = '{protocol}', params = {{ {params} }} }}"
        );
        plan(&text).warnings
    };
    let long = warnings("theta-powertcp", 2, "beta = '5KB'");
    assert!(long.len() == 1 && long[0].starts_with("theta-powertcp: tau is "), "{long:?}");
    assert_eq!(warnings("theta-powertcp", 2, "beta = '5KB', tau = 'path'"), Vec::<String>::new());
    let both = warnings("theta-powertcp", 2, "beta = '0BDP'");
    assert!(both.len() == 1 && both[0].matches("beta is").count() == 1, "{both:?}");
    assert!(both[0].contains("tau is"), "{both:?}");
    // TIMELY warns of both paths with their base RTTs: only the longest is reported.
    let far = warnings("timely", 2, "t_low = '1us'");
    assert!(far.len() == 1 && far[0].matches("the base RTT of").count() == 1, "{far:?}");
}

/// Returns the warnings of the loader for swift between two hosts at 100 Gbit/s, MTU 1,000 B, links
/// of `delay`.
fn warned(delay: &str, rest: &str) -> Vec<String> {
    let text = format!(
        "duration = '1ms'\nfabric = {{ kind = 'star', mtu = '1000B', host_link = {{ delay = \
         '{delay}' }} }}\n\
         flows = [{{ src = 'h0', dst = 'h1' }}]\n{rest}"
    );
    plan(&text).warnings
}

#[test]
fn reordering_under_go_back_n_is_warned_of() {
    let warnings = |spines: u32, switch: &str, params: &str| {
        let text = format!(
            "duration = '1ms'\nflows = [{{ src = 'h0', dst = 'h3' }}]\nfabric = {{ kind = \
             'leaf-spine', racks = 2, hosts_per_rack = 2, spines = {spines} }}\n\
             switch = {{ {switch} }}\n\
             transport = {{ protocol = 'dctcp', params = {{ {params} }} }}"
        );
        plan(&text).warnings
    };
    let (spray, back) = ("routing = 'spray'", "recovery = 'go-back-n'");
    let reported = warnings(2, spray, back);
    assert!(
        reported.len() == 1 && reported[0].contains("dctcp interprets reordering as loss"),
        "{reported:?}"
    );
    for (spines, switch, params) in [(1, spray, back), (2, "", back), (2, spray, "")] {
        assert_eq!(warnings(spines, switch, params), Vec::<String>::new(), "{spines} {switch}");
    }
}

#[test]
fn connections_outside_their_domain_are_warned_of() {
    let tuned = |delay, params: &str| {
        let rest = format!("transport = {{ protocol = 'dctcp', params = {{ {params} }} }}");
        warned(delay, &rest).join(" | ")
    };
    // 4.19 us: 48.5 packets of 1,080 B.
    assert_eq!(tuned("1us", "ack_every = 12"), "");
    let thin = tuned("1us", "ack_every = 13");
    assert!(thin.contains("ack_every = 13") && thin.contains("48.5 packets"), "{thin}");
    // One acknowledgement per packet is enough on any path.
    assert_eq!(tuned("0us", "ack_every = 1"), "");
    assert_eq!(tuned("1us", "initial_rto = '5us'"), "");
    let early = tuned("1us", "initial_rto = '4us'");
    assert!(early.contains("base RTT of 4.19 us reaches initial_rto = 4.00 us"), "{early}");
    let both = tuned("1us", "initial_rto = '4us', ack_every = 100");
    assert!(both.contains("ack_every") && both.contains("initial_rto"), "{both}");
    assert_eq!(tuned("240us", ""), "");
    assert!(tuned("260us", "").contains("1040.19 us reaches initial_rto = 1000.00 us"));
}

#[test]
fn uncovered_stack_delay_is_warned_of() {
    let held = |delay: &str, jitter: &str, bdp: &str| {
        let rest = format!(
            "transport = {{ protocol = 'dctcp'{bdp} }}\n\
             hosts = {{ stack_delay = '{delay}', stack_jitter = '{jitter}' }}"
        );
        warned("1us", &rest)
    };
    // Of 4.19 us a tenth, there and back.
    assert_eq!(held("100ns", "200ns", ""), Vec::<String>::new());
    let long = held("100ns", "300ns", "");
    assert!(
        long.len() == 1 && long[0].contains("0.50 us") && long[0].contains("transport.bdp"),
        "{long:?}"
    );
    assert_eq!(held("100ns", "300ns", ", bdp = '60KB'"), Vec::<String>::new());
    assert_eq!(held("50us", "49us", ", bdp = '2MB'"), Vec::<String>::new());
    let timeout = held("50us", "50us", ", bdp = '2MB'");
    assert!(
        timeout.len() == 1 && timeout[0].starts_with("dctcp: ") && timeout[0].contains("min_rto"),
        "{timeout:?}"
    );
}

#[test]
fn warnings_know_flows_and_shares() {
    let warned = |transport: &str, fabric: &str, pairs: &[(u32, u32)]| {
        let flow = |(a, b): &(u32, u32)| format!("{{ src = 'h{a}', dst = 'h{b}' }}");
        let flows: Vec<String> = pairs.iter().map(flow).collect();
        let flows = flows.join(", ");
        let text = format!(
            "duration = '1ms'\nfabric = {{ {fabric} }}\ntransport = {{ {transport} }}\nflows = \
             [{flows}]"
        );
        plan(&text).warnings
    };
    // No flow uses the near pairs of this fabric, so tau is not too long.
    let theta = "protocol = 'theta-powertcp', params = { beta = '30KB' }";
    assert_eq!(warned(theta, "kind = 'fat-tree', k = 4", &[(0, 8)]), Vec::<String>::new());
    let near = warned(theta, "kind = 'fat-tree', k = 4", &[(0, 8), (0, 1)]);
    assert!(near.len() == 1 && near[0].contains("tau is"), "{near:?}");
    // The share of each of many flows is a small window.
    let poseidon = "protocol = 'poseidon', preset = '10g'";
    let star = "kind = 'star', hosts = 201, host_link = { rate = '10Gbps', delay = '1us' }";
    let many: Vec<(u32, u32)> = (0..200).map(|src| (src, 200)).collect();
    assert_eq!(warned(poseidon, star, &many[..20]), Vec::<String>::new());
    let small = warned(poseidon, star, &many);
    assert!(small.len() == 1 && small[0].contains("set min_cwnd = "), "{small:?}");
    // Windows of a BDP, 48 packets, wait for acknowledgements.
    let thin = |protocol: &str, every: u32| {
        let params = format!("additive = '54B', ack_every = {every}");
        let params = if protocol == "hpcc" { params } else { format!("ack_every = {every}") };
        let transport = format!("protocol = '{protocol}', params = {{ {params} }}");
        warned(&transport, "kind = 'star', mtu = '1000B'", &[(0, 1)])
    };
    let idle = thin("hpcc", 12);
    assert!(idle.len() == 1 && idle[0].contains("23 per cent of a link idle"), "{idle:?}");
    assert!(idle[0].ends_with("set ack_every to at most 3"), "{idle:?}");
    assert_eq!((thin("hpcc", 3), thin("dctcp", 12)), (Vec::new(), Vec::new()));
}

#[test]
fn large_fabrics_are_planned_quickly() {
    let plan = fabric("kind = 'fat-tree'\nk = 64");
    assert_eq!(plan.fabric.hosts.len(), 65_536);
}

#[test]
fn files_are_read_from_their_folder() {
    let plan = load_file(beside("racks.toml").as_ref(), &[]).unwrap();
    assert_eq!(plan.name, "racks");
}

#[test]
fn mixed_use_of_priorities_is_warned_of() {
    let text = |second: &str, priorities: u32| {
        format!(
            "duration = '1ms'\nfabric = {{ kind = 'star', hosts = 3 }}\nswitch = {{ routing = \
             'ecmp', priorities = {priorities} }}\n\
             transport = {{ protocol = 'sird' }}\n[[flows]]\nsrc = 'h1'\ndst = \
             'h0'\n[[flows]]\nsrc = 'h2'\ndst = 'h0'\n{second}"
        )
    };
    let warns = |second: &str, priorities| {
        let warnings = plan(&text(second, priorities)).warnings;
        warnings.iter().any(|warning| {
            warning.contains("sird sends some packets above") && warning.contains("swift")
        })
    };
    assert!(warns("protocol = 'swift'", 2));
    assert!(!warns("protocol = 'swift'", 1));
    assert!(!warns("", 2));
    assert!(!warns("protocol = 'swift'\n[protocols.sird]\nparams = { priorities = 'none' }", 2));
}

#[test]
fn sird_published_code_differs_in_rules_and_sthr() {
    let text = |preset: &str| {
        format!(
            "duration = '1ms'\nfabric = {{ kind = 'star', hosts = 2 }}\n\
             transport = {{ protocol = 'sird', preset = '{preset}' }}\n[[flows]]\nsrc = 'h1'\ndst \
             = 'h0'"
        )
    };
    let [paper, mut published] =
        ["paper", "as-published-code"].map(|preset| plan(&text(preset)).stacks.swap_remove(0));
    assert_eq!(value(&published, "rules"), Value::Choice("published-code"));
    published.set("rules", Value::Choice("paper")).unwrap();
    let half = value(&paper, "sender_threshold");
    assert_ne!(value(&published, "sender_threshold"), half, "33 packets of 1,458 B");
    published.set("sender_threshold", half).unwrap();
    assert_eq!(published, paper);
}

#[test]
fn circuits_follow_the_matchings() {
    let circuits = |more: &str| {
        let fabric =
            fabric(&format!("kind = 'reconfigurable'\nmtu = '1000B'\n{more}")).setup.fabric;
        let circuits = fabric.circuits.clone().unwrap();
        let ends = fabric.links[circuits.first_link as usize..].iter();
        (ends.map(|link| (link.a, link.b)).collect::<Vec<_>>(), circuits)
    };
    let tors = |pairs: &[(u32, u32)]| -> Vec<_> {
        pairs.iter().map(|&(a, b)| (Node::Switch(a), Node::Switch(b))).collect()
    };
    let (ends, rotation) = circuits("racks = 3\nvoq = '20KB'\nprebuffer = '150us'");
    assert_eq!(ends, tors(&[(0, 1), (0, 2), (1, 2)]));
    assert_eq!(rotation.matchings, [[1, 2, 0], [2, 0, 1]]);
    assert_eq!((rotation.day, rotation.night), (Span::us(225), Span::us(20)));
    assert_eq!((rotation.queue_bytes, rotation.enlarged_bytes), (20_000, 20_000));
    let (ends, listed) = circuits(
        "racks = 4\nmatchings = [[1, 0, 3, 2], [0, 3, 2, 1]]\nvoq = '20KB'\n\
         enlarged_voq = '50KB'\nprebuffer = '150us'",
    );
    assert_eq!(ends, tors(&[(0, 1), (1, 3), (2, 3)]));
    assert_eq!(listed.matchings, [[1, 0, 3, 2], [0, 3, 2, 1]]);
    assert_eq!((listed.queue_bytes, listed.enlarged_bytes), (20_000, 50_000));
    assert_eq!(listed.ahead, Span::us(150));
}

#[test]
fn presets_match_the_round_trips_of_papers() {
    let reach = |preset: &str| {
        let fabric = fabric(&format!("preset = '{preset}'")).setup.fabric;
        tidegate_core::routes::Routes::new(&fabric).unwrap().reach()
    };
    // Homa: "RTTbytes ... about 9.7 KB", section 5.2: hosts and the sender's NIC take 1.5 us each
    // way.
    let bytes = Rate::gbps(10).bytes_in(reach("homa-leaf-spine").base_rtt);
    assert!((9_600..10_000).contains(&bytes), "{bytes} B");
    // dcPIM: 5.80 us for full packets of 1,500 B both ways.
    let base = reach("dcpim-leaf-spine");
    let both = (base.base_rtt.times(2) - base.control_rtt).as_us_f64();
    assert!((5.80..5.83).contains(&both), "{both} us");
    let bdp = fabric("preset = 'dcpim-leaf-spine'").bdp_bytes;
    assert_eq!(bdp, Some(49.0 * 1_540.0));
}

#[test]
fn a_scaled_trace_starts_earlier() {
    let scaled = |scale: &str| {
        let text =
            patched(RACKS, "file = \"trace.csv\"", &format!("file = \"trace.csv\"\n{scale}"));
        plan(&text)
    };
    let starts = |plan: &Plan| match &plan.workload.traffic[4].pattern {
        Pattern::Trace(arrivals) => arrivals.iter().map(|of| of.at.as_ps()).collect::<Vec<_>>(),
        other => panic!("{other:?}"),
    };
    let [once, twice, same] = ["", "scale = 2", "scale = 1.0"].map(scaled);
    assert_eq!(starts(&once), [0, 1, 2_500_000]);
    assert_eq!(starts(&twice), [0, 1, 1_250_000], "rounded to a picosecond");
    // Without the key, hashes are those of before; 1 is the default.
    let hashes = [&once, &twice, &same].map(content_hash);
    assert!(hashes[0] == hashes[2] && hashes[0] != hashes[1]);
}
