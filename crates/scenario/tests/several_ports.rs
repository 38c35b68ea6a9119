//! Hosts with several ports, rails and servers in scenarios.

use tidegate_core::fabric::{Buffer, Fabric, Node};
use tidegate_core::{Rate, Span};
use tidegate_scenario::{Error, Plan, load, unreachable_pairs};

fn file(lines: &str, ends: [&str; 2]) -> Result<Plan, Error> {
    let [src, dst] = ends;
    let text = format!(
        "duration = '1ms'\ntransport = {{ protocol = 'swift' }}\nflows = [{{ src = '{src}', dst = \
         '{dst}' }}]\n[fabric]\n{lines}"
    );
    load(&text, "x.toml", &[])
}

fn fabric(lines: &str) -> Plan {
    file(lines, ["h0", "h1"]).unwrap_or_else(|error| panic!("{error}\n{lines}"))
}

/// Racks of the hosts, in order.
fn racks(plan: &Plan) -> Vec<&str> {
    let fabric = &plan.fabric;
    let access = fabric.links.iter().filter_map(|link| fabric.access(link));
    access.map(|(_, switch)| &fabric.switches[switch as usize].name[..]).collect()
}

#[test]
fn rails_distribute_consecutive_hosts_over_racks() {
    let of = |lines: &str| fabric(&format!("kind = 'leaf-spine'\nracks = 4\n{lines}"));
    let plan = of("hosts_per_rack = 2\nrails = 2");
    assert_eq!(racks(&plan)[..4], ["tor0", "tor1", "tor0", "tor1"]);
    assert_eq!(racks(&plan)[4..], ["tor2", "tor3", "tor2", "tor3"]);
    let plan = of("hosts_per_rack = 1\nrails = 4");
    assert_eq!(racks(&plan), ["tor0", "tor1", "tor2", "tor3"]);
    let same = fabric("kind = 'fat-tree'\nrails = 1");
    assert!(same.fabric == fabric("kind = 'fat-tree'").fabric);
    let Fabric { hosts, switches, links, servers, .. } =
        file("preset = 'rail-optimised'", ["h0", "h8"]).unwrap().setup.fabric;
    assert_eq!((hosts.len(), switches.len(), links.len()), (256, 24, 256 + 128));
    assert_eq!(servers.map(|servers| (servers.hosts, servers.rate)), Some((8, Rate::gbps(3_600))));
    // Rails join the racks of a pod.
    let plan = fabric("kind = 'fat-tree'\nk = 4\nrails = 2");
    assert_eq!(racks(&plan)[..6], ["tor0", "tor1", "tor0", "tor1", "tor2", "tor3"]);
}

#[test]
fn planes_are_copies_that_only_hosts_join() {
    let planes = "kind = 'leaf-spine'\nracks = 2\nhosts_per_rack = 3\nspines = 2\nplanes = 4";
    let plan = fabric(planes);
    let Fabric { hosts, switches, links, first_nic, .. } = &plan.fabric;
    assert_eq!((hosts.len(), *first_nic), (6, Some(16)));
    // In each plane two racks, two spines, and links of six hosts and four between switches.
    assert_eq!((switches.len(), links.len()), (16 + 6, 4 * (6 + 4) + 6));
    assert_eq!([&switches[0].name[..], &switches[15].name], ["plane0.tor0", "plane3.spine1"]);
    assert_eq!(switches[16].name, "h0.nic");
    // Plane by plane, every host in order.
    let rack = |plane: usize, host: usize| format!("plane{plane}.tor{}", host / 3);
    let expected: Vec<String> =
        (0..4).flat_map(|plane| (0..6).map(move |host| rack(plane, host))).collect();
    assert_eq!(racks(&plan), expected);
    let inner = links.last().unwrap();
    assert_eq!((inner.a, inner.b), (Node::Host(5), Node::Switch(21)));
    // The delay of a link of a host, 1 us, is divided.
    assert_eq!((inner.rate, inner.delay), (Rate::gbps(400), Span::ns(500)));
    assert_eq!((links[0].rate, links[0].delay), (Rate::gbps(100), Span::ns(500)));
    // Settings of switches do not concern NICs, and their BDP is that of a port.
    let ecn = fabric(&format!("{planes}\n[switch]\nbuffer = '1MB'\necn = {{ kmin = '1BDP' }}"));
    let (nic, tor) = (&ecn.fabric.switches[16], &ecn.fabric.switches[0]);
    assert_eq!((nic.ecn, nic.buffer), (None, Buffer::Unlimited));
    let one = fabric(&planes.replace("planes = 4", "[switch]\necn = { kmin = '1BDP' }"));
    let [of_port, of_host] = [tor, &one.fabric.switches[0]].map(|s| s.ecn.unwrap().min_bytes);
    // Base RTTs differ by the time on the links of two NICs, at 20 ps a byte: 170 of 6,850 ns.
    assert!((1.02..1.03).contains(&(of_port / of_host)), "{of_port} and {of_host}");
    // One plane is no plane.
    let plain = planes.replace("planes = 4", "planes = 1");
    assert!(fabric(&plain).fabric == fabric(&planes.replace("planes = 4", "")).fabric);
}

#[test]
fn hosts_of_a_graph_may_have_several_links() {
    let link = |host: &str, switch: &str| {
        format!("{{ a = '{host}', b = '{switch}', rate = '100Gbps', delay = '1us' }}")
    };
    let all = [("a", "s"), ("b", "s"), ("a", "t"), ("b", "t")].map(|(a, b)| link(a, b));
    let graph = |links: &[String]| {
        let links = links.join(", ");
        format!("kind = 'graph'\nhosts = ['a', 'b']\nswitches = ['s', 't']\nlinks = [{links}]")
    };
    let load = |lines: &str| file(lines, ["a", "b"]);
    let fabric = load(&graph(&all)).unwrap().setup.fabric;
    assert_eq!((fabric.first_nic, fabric.links.len()), (Some(2), 6));
    assert_eq!(fabric.switches[3].name, "b.nic");
    assert_eq!(fabric.links[5].rate, Rate::gbps(200));
    let error = |lines: &str| load(lines).unwrap_err().to_string();
    let uneven = error(&graph(&all[..3]));
    assert!(uneven.contains("found 2 links of host \"a\" and 1 of host \"b\""), "{uneven}");
    let slower = all[3].replace("100Gbps", "25Gbps");
    let unequal = error(&graph(&[&all[..3], &[slower]].concat()));
    assert!(unequal.contains("found links of 100Gbps and 25Gbps of host \"b\""), "{unequal}");
    let taken = error(&graph(&all).replace("'t'", "'a.nic'"));
    assert!(taken.contains("\"a.nic\", which the NIC of \"a\" has"), "{taken}");
}

/// The NIC of b is the only connection between the switches of a and those of c.
#[test]
fn hosts_that_only_a_nic_connects_are_refused() {
    let graph = |more: &str| {
        let ends = [("a", "s"), ("a", "t"), ("b", "t"), ("b", "u"), ("c", "u"), ("c", "v")];
        let link = |(a, b): (&str, &str)| {
            format!("{{ a = '{a}', b = '{b}', rate = '100Gbps', delay = '1us' }}")
        };
        let links: Vec<String> = ends.into_iter().map(link).collect();
        let lines = format!(
            "kind = 'graph'\nhosts = ['a', 'b', 'c']\nswitches = ['s', 't', 'u', 'v']\nlinks = \
             [{}{more}]",
            links.join(", ")
        );
        file(&lines, ["a", "b"])
    };
    let error = graph("").map(drop).unwrap_err().to_string();
    assert_eq!(
        error,
        "x.toml:8: fabric.links: found no path between \"a\" and \"c\" except through other hosts, \
         expected links between switches that connect all hosts: the NIC of a host with several \
         links does not forward packets of other hosts"
    );
    assert!(graph(", { a = 's', b = 'v', rate = '100Gbps', delay = '1us' }").is_ok());
}

#[test]
fn impossible_planes_rails_and_servers_are_refused() {
    let error = |lines: &str| file(lines, ["h0", "h1"]).map(drop).unwrap_err().to_string();
    for (lines, expected) in [
        (
            "kind = 'leaf-spine'\nrails = 4",
            "fabric.rails: found 4, expected a divisor of 9, the number of racks",
        ),
        (
            "kind = 'clos'\nrails = 8",
            "fabric.rails: found 8, expected a divisor of 2, the number of racks in a pod",
        ),
        ("kind = 'star'\nplanes = 65", "fabric.planes: found 65, expected"),
        (
            "kind = 'leaf-spine'\nracks = 100\nhosts_per_rack = 100\nspines = 100\nplanes = 64",
            "found 1290000 links in total, expected at most 1000000 links in total",
        ),
        (
            "kind = 'star'\n[hosts]\nserver = { hosts = 3, rate = '1Tbps', delay = '1us' }",
            "hosts.server.hosts: found 3, expected a divisor of 8, the number of hosts",
        ),
        (
            "kind = 'star'\n[hosts]\nserver = { hosts = 4, rate = '1Tbps', delay = '1us' }",
            "flows: found an unlimited flow from h0 to h1, which are in one server",
        ),
        (
            "kind = 'leaf-spine'\nplanes = 2\n[[switch.override]]\nmatch = 'h0.nic'\nlatency = \
             '1us'",
            "which matches no switch",
        ),
    ] {
        let found = error(lines);
        assert!(found.contains(expected), "{lines}: {found}");
    }
}

#[test]
fn connections_with_one_port_are_named() {
    let planes = "kind = 'leaf-spine'\nplanes = 2";
    let [warning] = &fabric(planes).warnings[..] else { panic!() };
    let expected = "a connection of swift uses one of the 2 ports of its host: set multipath in \
                    its params";
    assert_eq!(warning, expected);
    let spread = format!("{planes}\n[protocols.swift]\nparams = {{ multipath = 'mixed' }}");
    assert_eq!(fabric(&spread).warnings, Vec::<String>::new());
    let sprayed = format!("{planes}\n[switch]\nrouting = 'spray'");
    assert_eq!(fabric(&sprayed).warnings, Vec::<String>::new());
}

#[test]
fn meaningless_faults_of_several_ports_are_refused() {
    for (lines, expected) in [
        (
            "kind = 'leaf-spine'\nplanes = 2\n[faults]\nstorm = [{ host = 'h0', from = '1us' }]",
            "expected no storm: they are not supported for hosts with several ports",
        ),
        (
            "kind = 'star'\n[hosts]\nserver = { hosts = 2, rate = '1Tbps', delay = '1us' \
             }\n[faults]\nhost = [{ host = 'h0', down = '1us' }]",
            "expected no host that stops: not supported together with hosts.server",
        ),
    ] {
        let found = file(lines, ["h0", "h2"]).map(drop).unwrap_err().to_string();
        assert!(found.contains(expected), "{lines}: {found}");
    }
}

/// NICs forward no packets of others, so ports of different planes do not join two hosts.
#[test]
fn hosts_without_a_common_plane_are_apart() {
    let apart = |failure: &str| {
        let planes = "kind = 'star'\nhosts = 4\nplanes = 2";
        unreachable_pairs(&fabric(&format!("{planes}\n[faults]\nfailure = '{failure}'")))
    };
    assert_eq!(apart("plane0.tor0"), 0);
    assert_eq!(apart("h0.nic-plane0.tor0+h1.nic-plane1.tor0"), 2);
    assert_eq!(apart("h0.nic-plane0.tor0+h0.nic-plane1.tor0"), 6);
    assert_eq!(apart("h0.nic"), 6);
    assert_eq!(apart("plane0.tor0+plane1.tor0"), 12);
}
