//! Routes by structure equal those of a search from every switch: the same ports, in the same
//! order, with every link up and with some down.
use tidegate_core::fabric::{Buffer, Fabric, Link, Node, Stamping, Switch, TelemetryResolution};
use tidegate_core::routes::{NO_PORT, Routes};
use tidegate_core::{Domain, HEADER_BYTES, MIN_WIRE_BYTES, Rate, Rng, Span};

fn fabric(hosts_of: &[u32], links: Vec<(u32, u32, u64, u64)>) -> Fabric {
    let switch = |s: usize| Switch {
        name: format!("s{s}"),
        latency: Span::ns(100 * (s as u64 % 3)),
        telemetry: Stamping::All,
        telemetry_resolution: TelemetryResolution::EXACT,
        buffer: Buffer::Unlimited,
        ecn: None,
        priorities: 8,
        pausing: None,
        credit_queue: None,
        trimming: None,
    };
    let between = links.into_iter().map(|(a, b, gbps, ns)| Link {
        a: Node::Switch(a),
        b: Node::Switch(b),
        rate: Rate::gbps(gbps),
        delay: Span::ns(ns),
    });
    let mut fabric = Fabric {
        hosts: Vec::new(),
        switches: (0..hosts_of.len()).map(switch).collect(),
        links: between.collect(),
        mtu: 1000,
        ..Fabric::default()
    };
    for (s, &number) in hosts_of.iter().enumerate() {
        for i in 0..number {
            let host = fabric.hosts.len() as u32;
            fabric.hosts.push(format!("h{host}"));
            let (rate, delay) =
                (Rate::gbps(10 * (1 + host as u64 % 3)), Span::ns(50 * (i as u64 + 1)));
            fabric.links.push(Link { a: Node::Host(host), b: Node::Switch(s as u32), rate, delay });
        }
    }
    fabric
}

/// Makes all switches equal.
fn even(mut fabric: Fabric) -> Fabric {
    fabric.switches.iter_mut().for_each(|switch| switch.latency = Span::ns(300));
    fabric
}

/// Racks, then spines; every `odd`th link is slower, so not all racks are equal.
fn leaf_spine(racks: u32, spines: u32, parallel: u32, hosts: u32, odd: u32) -> Fabric {
    let mut links = Vec::new();
    for i in 0..racks * spines * parallel {
        let (rack, spine) = (i / (spines * parallel), i / parallel % spines);
        let slow = odd > 0 && i % odd == 0;
        links.push((
            rack,
            racks + spine,
            if slow { 40 } else { 100 },
            if slow { 900 } else { 500 },
        ));
    }
    fabric(&[vec![hosts; racks as usize], vec![0; spines as usize]].concat(), links)
}

/// Racks, aggregation switches, cores.
fn fat_tree(k: u32) -> Fabric {
    let half = k / 2;
    let (racks, mut links) = (k * half, Vec::new());
    for pod in 0..k {
        for agg in 0..half {
            let agg_switch = racks + pod * half + agg;
            (0..half).for_each(|rack| links.push((pod * half + rack, agg_switch, 100, 500)));
            (0..half)
                .for_each(|core| links.push((agg_switch, 2 * racks + agg * half + core, 100, 700)));
        }
    }
    let cores = (half * half) as usize;
    fabric(&[vec![half; racks as usize], vec![0; racks as usize + cores]].concat(), links)
}

/// A tree with some additional links; some switches have no hosts.
fn random(seed: u64) -> Fabric {
    let mut rng = Rng::stream(seed, Domain::Routing, 99);
    let switches = 3 + rng.below(9) as u32;
    let mut links: Vec<_> =
        (1..switches).map(|s| (rng.below(s as u64) as u32, s, 100, 500)).collect();
    for _ in 0..rng.below(2 * switches as u64) {
        let (a, b) = (rng.below(switches as u64) as u32, rng.below(switches as u64) as u32);
        if a != b {
            links.push((a, b, [40, 100][rng.below(2) as usize], [500, 800][rng.below(2) as usize]));
        }
    }
    let mut hosts: Vec<u32> = (0..switches).map(|_| rng.below(3) as u32).collect();
    hosts[0] += 2;
    fabric(&hosts, links)
}

/// The hosts of a fabric with a NIC each, and the other switches in several planes. Every `odd`th
/// link of a NIC is slower.
fn planes(one: &Fabric, planes: u32, odd: usize) -> Fabric {
    let (switches, hosts) = (one.switches.len() as u32, one.hosts.len() as u32);
    let nic = |host: u32| Node::Switch(planes * switches + host);
    let mut all = Fabric { first_nic: Some(planes * switches), ..one.clone() };
    for plane in 1..planes {
        all.switches.extend(one.switches.clone());
        all.links.extend(one.links.iter().map(|link| {
            let moved = |node| match node {
                Node::Switch(s) => Node::Switch(plane * switches + s),
                host => host,
            };
            Link { a: moved(link.a), b: moved(link.b), ..*link }
        }));
    }
    for (number, link) in all.links.iter_mut().enumerate() {
        if let Node::Host(host) = link.a {
            let slow = odd > 0 && number % odd == 0;
            let rate = Rate::gbps(if slow { 40 } else { 100 });
            *link = Link { a: nic(host), rate, delay: Span::ns(200), ..*link };
        }
    }
    all.switches
        .extend((0..hosts).map(|_| Switch { latency: Span::ZERO, ..one.switches[0].clone() }));
    let inner = |host| Link {
        a: Node::Host(host),
        b: nic(host),
        rate: Rate::gbps(400),
        delay: Span::ns(10 + u64::from(host) % 3),
    };
    all.links.extend((0..hosts).map(inner));
    all
}

/// Whether a switch forwards packets that are not for its host.
fn forwards(fabric: &Fabric, switch: u32) -> bool {
    !fabric.is_nic(Node::Switch(switch))
}

/// Distances in links from every switch to `root`.
fn distances(fabric: &Fabric, root: u32, up: &[bool]) -> Vec<usize> {
    let mut distance = vec![usize::MAX; fabric.switches.len()];
    distance[root as usize] = 0;
    // Every round makes one more layer final.
    for round in 0..fabric.switches.len() {
        for (link, _) in fabric.links.iter().zip(up).filter(|(_, up)| **up) {
            if let (Node::Switch(a), Node::Switch(b)) = (link.a, link.b) {
                for (a, b) in [(a as usize, b as usize), (b as usize, a as usize)] {
                    let passes = round == 0 || forwards(fabric, a as u32);
                    if distance[a] == round && passes && distance[b] == usize::MAX {
                        distance[b] = round + 1;
                    }
                }
            }
        }
    }
    distance
}

/// Ports of `switch` that lead one step closer.
fn nearer(fabric: &Fabric, switch: u32, distance: &[usize], up: &[bool]) -> Vec<u32> {
    let mut ports = Vec::new();
    for (i, link) in fabric.links.iter().enumerate().filter(|&(i, _)| up[i]) {
        for (from, to, port) in [(link.a, link.b, 2 * i as u32), (link.b, link.a, 2 * i as u32 + 1)]
        {
            if let (true, Node::Switch(to)) = (from == Node::Switch(switch), to)
                && distance[switch as usize] != usize::MAX
                && distance[to as usize].saturating_add(1) == distance[switch as usize]
                && (distance[to as usize] == 0 || forwards(fabric, to))
            {
                ports.push(port);
            }
        }
    }
    ports
}

fn switch_of(fabric: &Fabric, host: u32) -> (u32, u32) {
    let at = |link: &Link| link.a == Node::Host(host);
    let link = fabric.links.iter().position(at).unwrap();
    let Node::Switch(switch) = fabric.links[link].b else {
        unreachable!("hosts are linked to switches")
    };
    (switch, 2 * link as u32 + 1)
}

fn check_ports(fabric: &Fabric, routes: &Routes, up: &[bool]) {
    for dst in 0..fabric.hosts.len() as u32 {
        let (root, down) = switch_of(fabric, dst);
        let distance = distances(fabric, root, up);
        for switch in 0..fabric.switches.len() as u32 {
            let expected = match switch == root {
                true => vec![down],
                false => nearer(fabric, switch, &distance, up),
            };
            let mut ways = 1;
            let first = routes.egress(switch, dst, |several| {
                ways = several.number();
                several.port(0)
            });
            let mut found = vec![first];
            found.extend((1..ways).map(|i| routes.egress(switch, dst, |ways| ways.port(i))));
            found.retain(|&port| port != NO_PORT);
            assert_eq!(found, expected, "from s{switch} to h{dst}");
        }
    }
}

/// A full packet forward and a minimum frame back.
fn round_trip(fabric: &Fabric, port: u32) -> Span {
    let link = &fabric.links[port as usize / 2];
    let latency = |node| match node {
        Node::Switch(s) => fabric.switches[s as usize].latency,
        Node::Host(_) => Span::ZERO,
    };
    let wire = link.rate.serialise((fabric.mtu + HEADER_BYTES) as u64)
        + link.rate.serialise(MIN_WIRE_BYTES as u64);
    link.delay.times(2) + latency(link.a) + latency(link.b) + wire
}

/// Checks base RTTs and layers of every pair by brute force, and their maximum.
fn check_paths(fabric: &Fabric, routes: &Routes) {
    let up = vec![true; fabric.links.len()];
    let (mut most, mut longest) = (0, Span::ZERO);
    for dst in 0..fabric.hosts.len() as u32 {
        let (root, down) = switch_of(fabric, dst);
        let distance = distances(fabric, root, &up);
        for src in (0..fabric.hosts.len() as u32).filter(|&src| src != dst) {
            let (from, back) = switch_of(fabric, src);
            let (mut layers, mut at) = (Vec::new(), vec![(from, round_trip(fabric, back))]);
            while at[0].0 != root {
                let mut next: Vec<(u32, Span)> = Vec::new();
                let mut layer = Vec::new();
                for &(switch, cost) in &at {
                    for port in nearer(fabric, switch, &distance, &up) {
                        layer.push(port);
                        let Node::Switch(to) = routes.edge(port).to else { unreachable!() };
                        let cost = cost + round_trip(fabric, port);
                        match next.iter_mut().find(|(switch, _)| *switch == to) {
                            Some((_, least)) => *least = cost.min(*least),
                            None => next.push((to, cost)),
                        }
                    }
                }
                layer.sort_unstable();
                layers.push(layer);
                at = next;
            }
            let base_rtt = at[0].1 + round_trip(fabric, down);
            let path = routes.path(src, dst);
            assert_eq!((path[0], *path.last().unwrap()), (back ^ 1, down));
            assert_eq!(routes.base_rtt(src, dst), base_rtt, "h{src} to h{dst}");
            let found = routes.layers(src, dst).into_iter().map(|mut layer| {
                layer.sort_unstable();
                layer
            });
            assert!(found.eq(layers.iter().cloned()), "h{src} to h{dst}");
            let nics = if fabric.first_nic.is_some() { 2 } else { 0 };
            most = most.max(distance[from as usize] as u32 + 1 - nics);
            longest = longest.max(base_rtt);
        }
    }
    assert_eq!((routes.reach().base_rtt, routes.reach().most_switches), (longest, most));
}

fn check(fabric: &Fabric, seed: u64) {
    let mut routes = Routes::new(fabric).unwrap();
    let mut up = vec![true; fabric.links.len()];
    check_ports(fabric, &routes, &up);
    check_paths(fabric, &routes);
    let mut rng = Rng::stream(seed, Domain::Faults, 0);
    for _ in 0..4 {
        for (link, up) in fabric.links.iter().zip(&mut up) {
            *up =
                !matches!((link.a, link.b), (Node::Switch(_), Node::Switch(_))) || rng.below(5) > 0;
        }
        routes.reroute(|link| up[link as usize]);
        check_ports(fabric, &routes, &up);
        check_paths(fabric, &routes);
    }
    routes.reroute(|_| true);
    check_ports(fabric, &routes, &vec![true; fabric.links.len()]);
}

#[test]
fn fabrics_with_structure_agree_with_brute_force() {
    let fabrics = [
        leaf_spine(4, 3, 1, 2, 0),
        leaf_spine(3, 2, 3, 2, 0),
        leaf_spine(4, 3, 2, 1, 5),
        leaf_spine(1, 2, 1, 3, 0),
        fat_tree(4),
        fat_tree(6),
    ];
    for (seed, fabric) in fabrics.into_iter().enumerate() {
        check(&fabric, seed as u64);
        check(&even(fabric), seed as u64);
    }
}

/// NICs are the switches of hosts, and forward nothing.
#[test]
fn planes_agree_with_brute_force() {
    let fabrics = [
        leaf_spine(3, 2, 1, 2, 0),
        leaf_spine(4, 1, 1, 2, 3),
        leaf_spine(2, 2, 2, 2, 5),
        fat_tree(4),
    ];
    for (seed, fabric) in (100..).zip(fabrics) {
        for odd in [0, 3] {
            check(&planes(&fabric, 2, odd), seed);
            check(&even(planes(&fabric, 3, odd)), seed);
        }
    }
}

/// NICs with two ports at any switches, so racks share some of them.
#[test]
fn nics_between_racks_agree_with_brute_force() {
    for seed in 0..300 {
        let mut fabric = random(seed);
        let mut rng = Rng::stream(seed, Domain::Routing, 98);
        let (switches, hosts) = (fabric.switches.len() as u32, 3 + rng.below(5) as u32);
        fabric.links.retain(|link| matches!(link.a, Node::Switch(_)));
        fabric.hosts = (0..hosts).map(|host| format!("h{host}")).collect();
        fabric.switches.extend(vec![fabric.switches[0].clone(); hosts as usize]);
        fabric.first_nic = Some(switches);
        let link = |a, b| Link { a, b, rate: Rate::gbps(100), delay: Span::ns(200) };
        for host in 0..hosts {
            let nic = Node::Switch(switches + host);
            let first = rng.below(u64::from(switches)) as u32;
            let second = (first + 1 + rng.below(u64::from(switches) - 1) as u32) % switches;
            fabric.links.push(link(Node::Host(host), nic));
            fabric.links.extend([first, second].map(|switch| link(nic, Node::Switch(switch))));
        }
        check(&even(fabric), seed);
    }
}

/// Base RTTs are equal over both of two parallel links, and full packets say nothing about minimum
/// frames.
#[test]
fn shorter_control_rtt_breaks_ties_of_base_rtts() {
    let (slow, fast) = (Rate::gbps(40), Rate::gbps(100));
    let wire = (1_000 + HEADER_BYTES + MIN_WIRE_BYTES) as u64;
    let delay = Span::ns(500);
    let longer = delay + Span::ps((slow.serialise(wire) - fast.serialise(wire)).as_ps() / 2);
    let with = |one: &Fabric, is_fast: &dyn Fn(usize) -> bool| {
        let mut fabric = even(one.clone());
        let nics = fabric.first_nic.unwrap_or(u32::MAX);
        let between = |link: &&mut Link| matches!(link.a, Node::Switch(s) if s < nics);
        for (number, link) in fabric.links.iter_mut().filter(between).enumerate() {
            let (rate, delay) = if is_fast(number) { (fast, longer) } else { (slow, delay) };
            *link = Link { rate, delay, ..*link };
        }
        fabric
    };
    let one = leaf_spine(4, 3, 2, 2, 0);
    for fabric in [planes(&one, 2, 0), one] {
        let of =
            |is_fast: &dyn Fn(usize) -> bool| Routes::new(&with(&fabric, is_fast)).unwrap().reach();
        let [slow, fast, first, second] =
            [of(&|_| false), of(&|_| true), of(&|n| n % 2 == 0), of(&|n| n % 2 == 1)];
        assert_eq!(slow.base_rtt, fast.base_rtt);
        assert!(slow.control_rtt < fast.control_rtt);
        assert_eq!((first, second), (slow, slow));
    }
}

#[test]
fn random_graphs_agree_with_brute_force() {
    (0..200).for_each(|seed| check(&random(seed), seed));
}

#[test]
fn tables_grow_linearly_with_clos_links() {
    // 4,096 hosts: 128 racks of 32 under 32 spines, and a fat tree of k = 24 (3,456 hosts).
    for (fabric, most) in [(leaf_spine(128, 32, 1, 32, 0), 40), (fat_tree(24), 96)] {
        let bytes = Routes::new(&even(fabric.clone())).unwrap().table_bytes();
        let each = bytes / fabric.hosts.len();
        assert!(each <= most, "{each} bytes a host for {} hosts", fabric.hosts.len());
    }
    // Sixteen times the racks have sixteen times the links, so the memory per host is no larger.
    let table =
        |racks| Routes::new(&even(leaf_spine(racks, 16, 1, 8, 0))).unwrap().table_bytes() as f64;
    let growth = table(1_024) / table(64);
    assert!(growth < 16.1, "{growth} times the bytes for 16 times the racks");
}

#[test]
fn unreachable_hosts_are_refused() {
    let apart = fabric(&[1, 1], Vec::new());
    assert_eq!(Routes::new(&apart).unwrap_err(), "host h0 cannot reach host h1");
    let apart = fabric(&[1, 1, 2, 1], vec![(0, 1, 100, 1), (2, 3, 100, 1)]);
    assert_eq!(Routes::new(&apart).unwrap_err(), "host h0 cannot reach host h2");
}
