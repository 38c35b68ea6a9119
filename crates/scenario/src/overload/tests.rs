//! Warnings of overloads, and their remedies.

use super::*;
use crate::load;

fn on(fabric: &str, traffic: &str) -> Plan {
    let text = format!(
        "duration = '10ms'\nfabric = {{ {fabric} }}\ntransport = {{ protocol = 'swift' \
         }}\ntraffic = [{traffic}]"
    );
    load(&text, "x.toml", &[]).unwrap()
}

fn plan(traffic: &str) -> Plan {
    on("kind = 'star', hosts = 5", traffic)
}

fn poisson(more: &str) -> String {
    format!("{{ kind = 'poisson', sizes = '100KB', {more} }}")
}

#[test]
fn overload_is_warned_of() {
    let incast = "{ kind = 'incast', sizes = '125KB', fan_in = 4, interval = '20us'";
    let cases = [
        (poisson("load = 0.97"), ""),
        (
            poisson("load = 1.0"),
            "the traffic sent by h0 and 4 more is up to 1.02 times the capacity of their \
             links, headers included: queues grow for as long as this lasts; set \
             traffic[0].load to at most 0.96, which leaves room for control packets",
        ),
        (
            poisson("load = 1.2"),
            "is up to 1.22 times the capacity of their links, headers included: queues grow \
             for as long as this lasts; set traffic[0].load to at most 0.96, which",
        ),
        (
            format!("{}, {}", poisson("load = 0.6"), poisson("load = 0.6")),
            "the traffic sent by h0 and 4 more is up to 1.22 times the capacity of their \
             links, headers included: queues grow for as long as this lasts; reduce it to 80 \
             % or less",
        ),
        // Blocks that do not overlap.
        (
            format!(
                "{}, {}",
                poisson("load = 0.6, stop = '5ms'"),
                poisson("load = 0.6, start = '5ms'")
            ),
            "",
        ),
        // 200 Gbit/s, spread over all hosts or to one of them.
        (format!("{incast} }}"), ""),
        (
            format!("{incast}, dst = 'h2' }}"),
            "received by h2 is up to 2.04 times the capacity of its link",
        ),
        (
            poisson("rate = '60Gbps', receivers = 'h[0-1]'"),
            "received by h0 and 1 more is up to 1.53 times",
        ),
    ];
    for (traffic, expected) in cases {
        let warnings = plan(&traffic).warnings;
        match expected {
            "" => assert_eq!(warnings, Vec::<String>::new(), "{traffic}"),
            _ => assert!(warnings.len() == 1 && warnings[0].contains(expected), "{warnings:?}"),
        }
    }
}

/// Racks of 8 hosts with 200 Gbit/s of uplinks, in two pods of 200 Gbit/s.
const CLOS: &str = "kind = 'clos', pods = 2, racks_per_pod = 2, cores_per_plane = 1";

#[test]
fn overloaded_switches_are_warned_of() {
    // Of 31 other hosts, 24 are in other racks and 16 in the other pod.
    let cases = [
        (CLOS, "load = 0.23", ""),
        (
            CLOS,
            "load = 0.25",
            "the load of the uplinks of agg0 and agg1 is up to 1.05 times their capacity \
             (210.6 Gbit/s on 200.0 Gbit/s), headers included: queues grow for as long as this \
             lasts; set traffic[0].load to at most 0.23, which leaves room for control packets",
        ),
        // Within the pods.
        (CLOS, "load = 0.5, senders = 'h[0-7]', receivers = 'h[8-15]'", "uplinks of tor0 is"),
        (CLOS, "load = 0.24, senders = 'h[0-7]', receivers = 'h[8-15]'", ""),
        (CLOS, "rate = '20Gbps', receivers = 'h[0-7]'", "the downlinks to tor0"),
        (
            "kind = 'leaf-spine', racks = 3, hosts_per_rack = 8, spines = 3, fabric_link = { \
             rate = '100Gbps', delay = '1us' }",
            "load = 0.8",
            "uplinks of tor0 is up to 1.51 times their capacity (454.1 Gbit/s on 300.0",
        ),
        (
            "kind = 'dumbbell', pairs = 4",
            "load = 0.9",
            "the load of the links from tor0 to other switches is up to 2.10 times",
        ),
        // Racks of both planes have the same hosts.
        (
            "kind = 'leaf-spine', racks = 2, hosts_per_rack = 4, spines = 1, planes = 2, \
             fabric_link = { rate = '200Gbps', delay = '1us' }",
            "load = 0.9",
            "the load of the uplinks of plane0.tor0 and plane1.tor0 is up to 1.05",
        ),
    ];
    for (fabric, traffic, expected) in cases {
        let plan = on(fabric, &poisson(traffic));
        let found: Vec<_> =
            plan.warnings.iter().filter(|text| text.contains("queues grow")).collect();
        match expected {
            "" => assert!(found.is_empty(), "{traffic}: {found:?}"),
            _ => assert!(found.len() == 1 && found[0].contains(expected), "{found:?}"),
        }
        assert_eq!(overload(&plan).is_some(), !expected.is_empty(), "{traffic}");
    }
}

#[test]
fn headers_of_short_messages_overload_links() {
    let text = |load: &str, sizes: &str| {
        format!("{{ kind = 'poisson', sizes = '{sizes}', load = {load} }}")
    };
    let racks = "kind = 'leaf-spine', racks = 2, hosts_per_rack = 4, spines = 1, mtu = \
                 '1500B', host_link = { rate = '10Gbps', delay = '1us' }, fabric_link = { rate \
                 = '10Gbps', delay = '1us' }";
    // Of seven other hosts, four are in the other rack: payload alone would fit up to 0.4375.
    let found = on(racks, &text("0.43", "10KB")).warnings;
    let expected = "the load of the uplinks of tor0 is up to 1.04 times their capacity (10.4 \
                    Gbit/s on 10.0 Gbit/s), headers included: queues grow for as long as this \
                    lasts; set traffic[0].load to at most 0.39, which";
    assert!(found.len() == 1 && found[0].starts_with(expected), "{found:?}");
    assert_eq!(on(racks, &text("0.39", "10KB")).warnings, Vec::<String>::new());
    let found = plan(&text("0.7", "100B")).warnings;
    let expected = "links, headers included: queues grow for as long as this lasts; set \
                    traffic[0].load to at most 0.37, which";
    assert!(found.len() == 1 && found[0].contains("1.26 times"), "{found:?}");
    assert!(found[0].contains(expected), "{found:?}");
}

#[test]
fn limits_of_loads_are_rounded_down() {
    let cases = [(0.392, 0.39), (0.4, 0.4), (0.0437, 0.043), (1.129, 1.12), (31.62, 31.62)];
    for (limit, expected) in cases {
        assert_eq!(rounded_down(limit), expected);
    }
}

/// The largest load that the warning permits.
fn permitted(plan: &Plan, key: &str) -> f64 {
    let start = format!("; set {key} to at most ");
    let all: Vec<_> = plan.warnings.iter().filter(|text| text.contains("queues grow")).collect();
    assert_eq!(all.len(), 1, "{:?}", plan.warnings);
    let (_, rest) = all[0].split_once(&start).unwrap_or_else(|| panic!("{}", all[0]));
    rest.split_once(", which").unwrap().0.parse().unwrap()
}

#[test]
fn remedies_count_what_shares_the_links() {
    let of = |load: f64, senders: &str, receivers: &str, sizes: &str| {
        format!(
            "{{ kind = 'poisson', sizes = '{sizes}', load = {load}, senders = '{senders}', \
             receivers = '{receivers}' }}"
        )
    };
    let hosts = |blocks: &[String]| on("kind = 'star', hosts = 8", &blocks.join(", "));
    // Small messages of other hosts do not matter.
    let first = of(1.0, "h[0-1]", "h[2-3]", "100KB");
    let alone = permitted(&hosts(std::slice::from_ref(&first)), "traffic[0].load");
    let others = of(0.3, "h[4-5]", "h[6-7]", "100B");
    assert_eq!(permitted(&hosts(&[first.clone(), others]), "traffic[0].load"), alone);
    // Traffic in the other direction, whose control packets share the links, does.
    let reverse = of(0.9, "h[2-3]", "h[0-1]", "100KB");
    let both = hosts(&[first.clone(), reverse.clone()]);
    let less = permitted(&both, "traffic[0].load");
    assert!(less < alone, "{less} and {alone}");
    // The load that the warning permits has no warning.
    let fits = |plan: Plan| overload(&plan).is_none();
    let first = first.replace("load = 1", &format!("load = {less}"));
    assert!(fits(hosts(&[first, reverse])));
}

#[test]
fn loads_above_one_may_fit_their_links() {
    let fabric = "kind = 'leaf-spine', racks = 2, hosts_per_rack = 16, spines = 1, fabric_link \
                  = { rate = '100Gbps', delay = '1us' }";
    // About half of the traffic stays within a rack.
    let of = |load: f64| poisson(&format!("load = {load}, load_base = 'rack-uplinks'"));
    assert!(overload(&on(fabric, &of(1.3))).is_none());
    assert!(overload(&on(fabric, &of(2.1))).is_some());
}

#[test]
fn telemetry_of_long_paths_counts_in_remedies() {
    let of = |protocol: &str| {
        let text = format!(
            "duration = '1ms'\nfabric = {{ kind = 'fat-tree', k = 4, mtu = '1000B' }}\n\
             transport = {{ protocol = '{protocol}' }}\ntraffic = [{}]",
            poisson("load = 1.0")
        );
        permitted(&load(&text, "x.toml", &[]).unwrap(), "traffic[0].load")
    };
    // 42 bytes of telemetry in data and in acknowledgements at five switches.
    let (without, with) = (1.0 / (1.0 + 0.080 + 0.084), 1.0 / (1.0 + 0.122 + 0.126));
    assert!((of("swift") - without).abs() < 0.011, "{}", of("swift"));
    assert!((of("hpcc") - with).abs() < 0.011, "{}", of("hpcc"));
}

/// A load is that of messages with the mean that the scenario sets.
#[test]
fn a_mean_of_its_own_scales_the_load() {
    let of = |mean: &str| {
        let text = format!("{{ kind = 'poisson', sizes = 'websearch', load = 0.6{mean} }}");
        overload(&plan(&text))
    };
    assert_eq!(of(""), None);
    let found = of(", mean = '100KB'").unwrap();
    let times: f64 = found.split(' ').next().unwrap().parse().unwrap();
    assert!((9.0..12.0).contains(&times), "{found}");
}

/// Loads of groups counted pair by pair.
#[test]
fn loads_of_groups_are_sums_of_pairs() {
    let fabric = "kind = 'leaf-spine', racks = 4, hosts_per_rack = 3";
    let servers = "}\nhosts = { server = { hosts = 4, rate = '1Tbps', delay = '1us' }";
    let requests = "{ kind = 'requests', sizes = '1KB', fan_in = 2, per_second = 1000, askers \
                    = ['h0', 'h4', 'h5'] }";
    let chosen = poisson("rate = '1Gbps', senders = ['h0', 'h4'], receivers = 'h[1-5]'");
    let rounds = chosen.replace("poisson", "rotating-incast");
    let same_rack = |a: u32, b: u32| a / 3 == b / 3;
    // Rates are those of one sender or asker, in bit/s.
    let uniform = |a: u32, b: u32| {
        let others = if (1..6).contains(&a) { 4.0 } else { 5.0 };
        let is_sent = [0, 4].contains(&a) && (1..6).contains(&b) && a != b;
        if is_sent { 1e9 / others } else { 0.0 }
    };
    let rotating = |a: u32, b: u32| {
        let once = [0, 4].contains(&a) && (1..6).contains(&b) && a != b;
        if once { 2e8 * if (a, b) == (4, 5) { 2.0 } else { 1.0 } } else { 0.0 }
    };
    let replies = |a: u32, b: u32| {
        let is_sent = [0, 4, 5].contains(&b) && !same_rack(a, b);
        if is_sent { 8e6 / 9.0 } else { 0.0 }
    };
    let rates: [&dyn Fn(u32, u32) -> f64; 3] = [&uniform, &rotating, &replies];
    let traffic = [&chosen[..], &rounds, requests];
    let cases = traffic.into_iter().zip(rates).flat_map(|of| [(of, false), (of, true)]);
    for ((traffic, rate), joined) in cases {
        let plan = on(&format!("{fabric}{}", if joined { servers } else { "" }), traffic);
        let offers = offers(&plan.workload.traffic[0], &plan.fabric).messages;
        for groups in groups(&plan.fabric) {
            let loads = groups.loads(&offers);
            let mut expected = vec![[0.0; 2]; loads.len()];
            let pairs = (0..12).flat_map(|a| (0..12).map(move |b| (a, b)));
            for (a, b) in pairs.filter(|(a, b)| !joined || a / 4 != b / 4) {
                let [from, to] = [a, b].map(|host| groups.of_host[host as usize] as usize);
                if from != to {
                    expected[from][0] += rate(a, b);
                    expected[to][1] += rate(a, b);
                }
            }
            let both = loads.iter().flatten().zip(expected.iter().flatten());
            let is_near = both.clone().all(|(a, b)| (a - b).abs() < 1.0);
            assert!(is_near, "{traffic}: {loads:?} and {expected:?}");
        }
    }
}

#[test]
fn replies_load_the_reverse_direction() {
    let traffic = poisson("rate = '10Gbps', receivers = 'h0', reply = '1MB'");
    let senders = traffic.replace("rate", "senders = 'h[1-4]', rate");
    let warnings = plan(&senders).warnings;
    let expected = "the traffic sent by h0 is up to 4.08 times the capacity of its link";
    assert!(warnings.iter().any(|text| text.contains(expected)), "{warnings:?}");
}
