//! Fabrics of valid scenarios: nodes, links, switches and routing.

use super::{fabric, plan, value};
use crate::common::{GRAPH, RACKS, beside, document, patched};
use tidegate_algos::Protocol;
use tidegate_core::fabric::{
    Buffer, Ecn, Headroom, Link, MarkAt, Node, Pausing, Routing, Stamping, TelemetryResolution,
};
use tidegate_core::params::Value;
use tidegate_core::workload::{Arrival, Pattern, Sampling, Sizes};
use tidegate_core::{ConnectionPolicy, Message, Rate, Span, Time};
use tidegate_scenario::{load, resolved};

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
fn large_fabrics_are_planned_quickly() {
    let plan = fabric("kind = 'fat-tree'\nk = 64");
    assert_eq!(plan.fabric.hosts.len(), 65_536);
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
fn telemetry_resolutions_are_compiled() {
    let text =
        patched(GRAPH, "latency = \"0ns\"", "telemetry_quantum = '64ns'\ntelemetry_period = '2us'");
    let text = patched(&text, "telemetry = false", "telemetry_period = '0us'");
    let plan = plan(&text);
    let [s0, s1] = &plan.fabric.switches[..] else { panic!() };
    let resolution = |period| TelemetryResolution { quantum: Span::ns(64), period };
    assert_eq!(s0.telemetry_resolution, resolution(Span::us(2)));
    assert_eq!(s1.telemetry_resolution, resolution(Span::ZERO));
}
