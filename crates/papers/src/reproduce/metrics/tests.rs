//! Metrics of two flows with known values in every interval.

use std::collections::BTreeSet;

use tidegate_core::Span;
use tidegate_scenario::Plan;

use super::*;
use crate::samples::{self, anywhere};
use tidegate_runs::observe::{Control, adapt, drive, measures};

/// Parses the metric that a registry table names.
fn parse(text: &str) -> Result<AnyMetric, String> {
    let mut table: toml::Table = toml::from_str(text).unwrap();
    let Some(toml::Value::String(name)) = table.remove("metric") else { panic!("{text}") };
    AnyMetric::new(&name, table)
}

/// Observations of a run of `plan`.
fn observed(plan: &Plan, parts: &[Measurement], interval: Span) -> Observations {
    let control = Control {
        threads: 1,
        partitions: None,
        ranks: None,
        is_interrupted: &|| false,
        progress: &|_| {},
        chunk: &adapt,
    };
    drive(plan, measures(plan, parts.iter().copied(), interval), &control).unwrap().seen
}

/// Needs of all metrics with values together.
fn everything() -> Vec<Measurement> {
    let needs = WITH_VALUES.iter().flat_map(|text| parse(text).unwrap().needs().to_vec());
    needs.collect::<BTreeSet<_>>().into_iter().collect()
}

fn seen() -> Observations {
    let flow = |label: &str, first: usize, goodput_gbps: &[f32]| FlowTrace {
        label: label.to_owned(),
        start_us: first as f64 * 100.0,
        first,
        goodput_gbps: goodput_gbps.to_vec(),
        rtt_us: vec![Some(10.0); goodput_gbps.len()],
        ..FlowTrace::default()
    };
    Observations {
        duration_us: 400.0,
        interval_us: 100.0,
        traces: vec![flow("a", 0, &[10.0, 30.0, 10.0, 30.0]), flow("b", 1, &[5.0, 10.0, 20.0])],
        ..Observations::default()
    }
}

#[track_caller]
fn check(text: &str, expected: f64) {
    let value = parse(text).unwrap().mean_value(&[&seen()]).unwrap();
    assert!((value - expected).abs() < 1e-6, "{text}: {value}");
}

#[test]
fn metrics_select_flows_and_times() {
    check("metric = 'goodput'\nlabel = 'a'", 20.0);
    check("metric = 'goodput'\nlabel = 'a'\nfrom_ms = 0.1\nto_ms = 0.2", 30.0);
    check("metric = 'goodput'\nlabel = 'b'", 35.0 / 4.0);
    check("metric = 'carried'\nof_gbps = 57.5", 50.0);
    check("metric = 'carried'\nof_gbps = 40.0\nlabel = 'a'\nfrom_ms = 0.1\nto_ms = 0.2", 75.0);
    check("metric = 'deviation'\nlabel = 'a'", 10.0);
    check("metric = 'deviation'\nlabel = 'a'\nbin_us = 200.0", 0.0);
    check("metric = 'convergence'\nlabel = 'b'\ngbps = 9.0", 200.0);
    check("metric = 'convergence-rtts'\nlabel = 'b'\ngbps = 9.0", 20.0);
    check("metric = 'settling'\nlabel = 'b'\ngbps = 20.0", 300.0);
    check("metric = 'settling'\nlabel = 'b'\ngbps = 14.0\nbin_us = 200.0", 300.0);
    check("metric = 'jain'", (0.5 + 1225.0 / 1850.0 + 1.0 + 2500.0 / 2600.0) / 4.0);
    check("metric = 'worst'\nlabel = 'a'\nphases = [[0.0, 0.2, 20.0], [0.2, 0.3, 20.0]]", 0.5);
    check("metric = 'jain'\nfrom_ms = 0.2\nto_ms = 0.3", 1.0);
    check("metric = 'rtt'\nlabel = 'b'", 10.0);
    check("metric = 'dip'", 10.0);
    check("metric = 'dip'\nfrom_ms = 0.2\nbin_us = 200.0", 35.0);
}

#[test]
fn recovery_is_that_of_the_slowest_flow() {
    let mut seen = seen();
    // From 200 us on: 10 and 30 for flow a, 30 and 30 for flow b.
    seen.traces[1].goodput_gbps = vec![10.0, 30.0, 30.0];
    let value_of = |text: &str| {
        let text = format!("metric = 'recovery'\nfrom_ms = 0.2\n{text}");
        parse(&text).unwrap().mean_value(&[&seen])
    };
    assert_eq!(value_of("gbps = 29.0\nlabel = 'b'"), Some(100.0));
    assert_eq!(value_of("gbps = 29.0"), Some(200.0));
    assert_eq!(value_of("gbps = 29.0\nbin_us = 200.0"), None, "20 is not within a tenth");
    assert_eq!(value_of("gbps = 40.0"), None);
}

#[test]
fn ports_are_added_up_on_the_wire() {
    let plan = samples::plan(tidegate_runs::protocols()[0].name);
    let seen = observed(&plan, &[Measurement::Links], Span::us(10));
    let value_of = |text: &str| parse(text).unwrap().mean_value(&[&seen]).unwrap();
    // Links have 100 Gbit/s.
    let used =
        ["h1", "h3"].map(|host| value_of(&format!("metric = 'utilization'\nlink = 'tor0>{host}'")));
    let together = value_of("metric = 'port-rates'\nlinks = ['tor0>h1', 'tor0>h3']");
    assert!(used.iter().all(|used| *used > 1.0), "{used:?}");
    assert!((together - used[0] - used[1]).abs() < 1e-9, "{together}, {used:?}");
}

#[test]
fn groups_with_a_label_are_one() {
    let plan = samples::plan(tidegate_runs::protocols()[0].name);
    let mut seen = observed(&plan, &[Measurement::Summary], Span::us(10));
    let groups = &mut seen.summary.as_mut().unwrap().groups;
    let mut other = groups.iter().find(|of| of.label == "long").unwrap().clone();
    let first = groups.iter_mut().find(|of| of.label == "long").unwrap();
    (first.flows, first.delivered_bytes, first.retransmitted_bytes) = (1, 600, 150);
    (first.goodput_gbps.mean, first.goodput_gbps.min) = (Some(40.0), Some(30.0));
    (other.flows, other.delivered_bytes, other.retransmitted_bytes) = (3, 400, 100);
    (other.goodput_gbps.mean, other.goodput_gbps.min) = (Some(20.0), Some(10.0));
    groups.push(other);
    for (metric, expected) in [("slowest", 10.0), ("mean-goodput", 25.0), ("resent", 0.25)] {
        let of = |label| parse(&format!("metric = '{metric}'\nlabel = '{label}'")).unwrap();
        assert_eq!(of("long").mean_value(&[&seen]), Some(expected), "{metric}");
        assert_eq!(of("none").mean_value(&[&seen]), None, "{metric}");
    }
}

#[test]
fn missing_data_give_no_value() {
    for text in [
        "metric = 'goodput'\nlabel = 'c'",
        "metric = 'carried'\nlabel = 'c'\nof_gbps = 1.0",
        "metric = 'peak'",
        "metric = 'message'\nshare = 0.5",
        "metric = 'exchange'\nshare = 0.5",
        "metric = 'port-rates'\nlinks = ['tor0>h0', 'tor0>h9']",
        "metric = 'utilization'\nlink = 'a>b'",
        "metric = 'rtt-of-all'",
        "metric = 'convergence'\nlabel = 'b'\ngbps = 90.0",
        "metric = 'settling'\nlabel = 'b'\ngbps = 50.0",
    ] {
        assert_eq!(parse(text).unwrap().mean_value(&[&seen()]), None, "{text}");
    }
}

#[test]
fn unknown_parameters_are_refused() {
    for (text, expected) in [
        ("metric = 'godput'", "unknown metric `godput`; expected one of goodput, carried, worst,"),
        ("metric = 'goodput'\nlable = 'a'", "metric goodput: unknown field `lable`, expected"),
        ("metric = 'goodput'\ngbps = 9.0", "unknown field `gbps`"),
        ("metric = 'convergence'\nlabel = 'b'", "metric convergence: missing field `gbps`"),
        ("metric = 'rtt-of-all'\nlabel = 'b'", "unknown field `label`"),
        (
            "metric = 'utilization'\nlink = 'tor0'",
            "`tor0` is not a port; expected a form such as `tor0>h0`",
        ),
        ("metric = 'message'\nshare = 'most'", "metric message: invalid type"),
    ] {
        let error = parse(text).unwrap_err();
        assert!(error.contains(expected), "{text}: {error}");
    }
}

#[test]
fn seeds_are_averaged_if_all_have_values() {
    let metric = parse("metric = 'goodput'").unwrap();
    let (some, none) = (seen(), Observations::default());
    let one = metric.mean_value(&[&some]);
    assert!(one.is_some() && metric.mean_value(&[&some, &some]) == one);
    assert_eq!(metric.mean_value(&[&some, &none]), None);
    assert_eq!(metric.mean_value(&[]), None);
}

/// A table for every metric that has a value for the flows of the measures' tests.
const WITH_VALUES: [&str; 57] = [
    "metric = 'goodput'\nlabel = 'short'",
    "metric = 'worst'\nlabel = 'long'\nphases = [[0.1, 0.4, 50.0]]",
    "metric = 'carried'\nof_gbps = 50.0",
    "metric = 'jain'",
    "metric = 'deviation'",
    "metric = 'convergence'\nlabel = 'long'\ngbps = 1.0",
    "metric = 'convergence-rtts'\nlabel = 'long'\ngbps = 1.0",
    "metric = 'settling'\nlabel = 'long'\ngbps = 85.0\nbin_us = 300.0",
    "metric = 'recovery'\nlabel = 'long'\ngbps = 85.0\nfrom_ms = 0.1\nbin_us = 300.0",
    "metric = 'rtt'",
    "metric = 'peak'",
    "metric = 'target'\nlabel = 'long'",
    "metric = 'window'",
    "metric = 'rtt-of-all'",
    "metric = 'rtt-of-all-p99'",
    "metric = 'message'\nlabel = 'short'\nshare = 0.9",
    "metric = 'exchange'\nlabel = 'ask'\nshare = 0.9",
    "metric = 'port-rates'\nlinks = ['tor0>h1', 'tor0>h3']",
    "metric = 'utilization'\nlink = 'tor0>h3'",
    "metric = 'queue-delay'\nlink = 'tor0>h3'",
    "metric = 'queue-delay-p99'\nlink = 'tor0>h3'",
    "metric = 'core-delay-p99'",
    "metric = 'queue-over-time'\nlink = 'tor0>h3'",
    "metric = 'peak-queue'\nlink = 'tor0>h3'",
    "metric = 'queue-p99'\nlink = 'tor0>h3'",
    "metric = 'buffer'\nshare = 0.99",
    "metric = 'mean-buffer'",
    "metric = 'downlink'\nshare = 0.99",
    "metric = 'dip'\nbin_us = 100.0",
    "metric = 'slowdown'\nlabel = 'short'\nbelow_bytes = 10000\nshare = 0.9",
    "metric = 'bare-slowdown'\nlabel = 'short'\nshare = 0.9",
    "metric = 'arrived'",
    "metric = 'completed'",
    "metric = 'day-use'\nlink = 'tor0>tor1'",
    "metric = 'rest-queue'\nlink = 'tor0>h3'\nrest_us = 100.0",
    "metric = 'rest-window'\nlink = 'tor0>h3'\nrest_us = 100.0",
    "metric = 'rest-spread'\nlink = 'tor0>h3'\nrest_us = 100.0",
    "metric = 'decay'\nlink = 'tor0>h3'\nrest_us = 300.0\npart = 0.1",
    "metric = 'queue-at'\nlink = 'tor0>h3'\nat_us = 250.0",
    "metric = 'averaged-queue'\nlink = 'tor0>h3'\nfrom_us = 100.0\nto_us = 400.0",
    "metric = 'peak-at'\nlink = 'tor0>h3'\nfrom_us = 100.0",
    "metric = 'emptied'\nlink = 'tor0>h3'\nfrom_us = 0.0\nkb = 10000.0",
    "metric = 'port-rate'\nlink = 'tor0>h3'\nfrom_us = 100.0\nfor_us = 200.0",
    "metric = 'mean-queue'\nlink = 'tor0>h3'",
    "metric = 'averaged-buffer'",
    "metric = 'averaged-downlink'",
    "metric = 'mean-message'\nlabels = ['short']",
    "metric = 'acked-slowdown'\nlabel = 'short'\nshare = 0.9",
    "metric = 'offered'",
    "metric = 'slowest'\nlabel = 'long'",
    "metric = 'mean-goodput'\nlabel = 'long'",
    "metric = 'resent'\nlabel = 'long'",
    "metric = 'downlinks'\nhosts = 4.0",
    "metric = 'averaged-core'",
    "metric = 'core-buffer'\nof = 'spine'\nshare = 1.0",
    "metric = 'far-slowdown'\nlabel = 'far'\nshare = 1.0",
    "metric = 'pauses'",
];

/// Racks with circuits, from night to night: every measured day is complete.
fn racks() -> Plan {
    let protocol = anywhere().next().unwrap().name;
    let text = format!(
        "duration = '1195us'\nwarmup = '115us'\ntransport = {{ protocol = '{protocol}' }}\n\
         flows = [{{ src = 'h0', dst = 'h2', count = 4 }}]\n[fabric]\n\
         kind = 'reconfigurable'\nracks = 3\nhosts_per_rack = 2\nday = '100us'\n\
         night = '20us'\n"
    );
    tidegate_scenario::load(&text, "racks.toml", &[]).unwrap()
}

#[test]
fn day_use_averages_to_the_utilisation() {
    let seen = observed(&racks(), &[Measurement::Circuits, Measurement::Links], Span::us(10));
    let value_of = |text: &str| parse(text).unwrap().mean_value(&[&seen]);
    let used = |part: &str| value_of(&format!("metric = 'day-use'\nlink = 'tor0>tor1'\n{part}"));
    let whole = value_of("metric = 'utilization'\nlink = 'tor0>tor1'").unwrap();
    assert!((used("").unwrap() - whole).abs() < 1e-9 && whole > 10.0, "{whole}");
    let parts = [used("to_us = 40").unwrap(), used("from_us = 40").unwrap()];
    assert!((0.4 * parts[0] + 0.6 * parts[1] - whole).abs() < 1e-9, "{parts:?}");
    assert_eq!([used("from_us = 100"), used("to_us = 101")], [None, None]);
    // Days start at equal intervals, beginning before warm-up.
    let circuit = seen.circuits.iter().find(|circuit| circuit.to == "tor1").unwrap();
    let begins: Vec<f64> = (0..5).map(|day| 240.0 * f64::from(day)).collect();
    assert_eq!((&circuit.begins_us, circuit.used.len()), (&begins, 100));
}

/// Two hosts of a rack send to one of another, whose downlink has the longest queue, and one host
/// to another in its own rack.
fn core() -> Plan {
    let protocol = anywhere().next().unwrap().name;
    let text = format!(
        "duration = '400us'\nwarmup = '20us'\ntransport = {{ protocol = '{protocol}' }}\n\
         [fabric]\nkind = 'leaf-spine'\nracks = 2\nhosts_per_rack = 3\nspines = 1\n\
         host_link = {{ rate = '100Gbps', delay = '1us' }}\n\
         fabric_link = {{ rate = '195Gbps', delay = '1us' }}\n\
         [switch]\nbuffer = '400KB'\npfc = {{ headroom = '20KB' }}\n\
         [[flows]]\nsrc = 'h0'\ndst = 'h3'\nlabel = 'far'\nsize = '1MB'\n\
         [[flows]]\nsrc = 'h1'\ndst = 'h3'\nlabel = 'far'\nsize = '1MB'\n\
         [[flows]]\nsrc = 'h4'\ndst = 'h5'\nlabel = 'near'\nsize = '200KB'\n"
    );
    tidegate_scenario::load(&text, "core.toml", &[]).unwrap()
}

#[test]
fn core_metrics_exclude_hosts() {
    let seen = observed(&core(), &everything(), Span::us(10));
    let value_of = |text: &str| parse(text).unwrap().mean_value(&[&seen]);
    let delay = |to: &str| {
        let ports = seen.links.iter().filter(|link| link.to.starts_with(to));
        ports.map(|link| link.queue_delay_us.p99.unwrap().as_f64()).fold(0.0, f64::max)
    };
    let core = delay("spine").max(delay("tor"));
    assert!(0.0 < core && core < delay("h"), "{core} {}", delay("h"));
    assert_eq!(value_of("metric = 'core-delay-p99'"), Some(core));
    let queue = |to: &str| {
        let ports = seen.ports.iter().filter(|port| port.to.starts_with(to));
        ports.flat_map(|port| &port.mean_queue_kb[2..]).fold(0.0, |most: f32, &kb| most.max(kb))
    };
    let core = queue("spine").max(queue("tor"));
    assert!(0.0 < core && core < queue("h"), "{core} {}", queue("h"));
    assert_eq!(value_of("metric = 'averaged-core'"), Some(f64::from(core)));
    // The switches between the racks, without the racks' switches.
    assert_eq!(seen.core_buffers.len(), 1);
    assert_eq!(seen.buffers.len(), 2);
    assert_eq!(value_of("metric = 'core-buffer'\nof = 'tor'\nshare = 1.0"), None);
    // Of the messages over the longest paths only.
    let far = value_of("metric = 'far-slowdown'\nlabel = 'far'\nshare = 1.0");
    assert!(
        far.is_some() && far == value_of("metric = 'acked-slowdown'\nlabel = 'far'\nshare = 1.0")
    );
    assert_eq!(value_of("metric = 'far-slowdown'\nlabel = 'near'\nshare = 1.0"), None);
    assert!(value_of("metric = 'acked-slowdown'\nlabel = 'near'\nshare = 1.0").is_some());
}

/// Metrics equal the run's summary, converted to their units.
#[test]
fn link_metrics_equal_the_summary() {
    let protocol = anywhere().next().unwrap().name;
    let parts =
        [Measurement::Links, Measurement::Queues, Measurement::Slowdowns, Measurement::Downlinks];
    let seen = observed(&samples::plan(protocol), &parts, Span::us(10));
    let link = seen.links.iter().find(|link| link.from == "tor0" && link.to == "h3").unwrap();
    let value_of = |metric: &str| {
        let text = format!("metric = '{metric}'\nlink = 'tor0>h3'");
        parse(&text).unwrap().mean_value(&[&seen]).unwrap()
    };
    let max = link.queue_bytes.max.unwrap();
    assert!(max > 1_000.0 && value_of("peak-queue") == max / 1e3, "{max}");
    assert_eq!(value_of("queue-p99"), link.queue_bytes.p99.unwrap() / 1e3);
    assert_eq!(value_of("utilization"), 100.0 * link.utilization.unwrap());
    assert_eq!(value_of("queue-delay"), link.queue_delay_us.mean.unwrap().as_f64());
    assert_eq!(value_of("queue-delay-p99"), link.queue_delay_us.p99.unwrap().as_f64());
    // This port carries a single flow, so it never has a queue.
    assert!(seen.queues.iter().all(|queue| queue.to != "h0"));
    let quiet = parse("metric = 'queue-over-time'\nlink = 'tor0>h0'").unwrap();
    assert_eq!(quiet.mean_value(&[&seen]), Some(0.0));
    // Only one of four ports has queues, so at most a quarter of the samples are not zero.
    let waits = |share: f64| {
        let text = format!("metric = 'downlink'\nshare = {share}");
        parse(&text).unwrap().mean_value(&[&seen]).unwrap()
    };
    assert_eq!(waits(0.74), 0.0);
    assert!(waits(1.0) > 1.0 && waits(1.0) <= max / 1e3, "{}", waits(1.0));
    // Messages of 3 KB and 300 KB.
    let slowest = |bounds: &str| {
        let text = format!("metric = 'slowdown'\nlabel = 'short'\nshare = 1.0\n{bounds}");
        parse(&text).unwrap().mean_value(&[&seen])
    };
    let [small, large] = ["below_bytes = 10000", "min_bytes = 10000"].map(slowest);
    assert!(small != large, "{small:?} {large:?}");
    assert_eq!(slowest("min_bytes = 300001"), None);
}

/// Metrics that have values only for models.
const MODELLED: [&str; 2] =
    ["metric = 'idle-starts'", "metric = 'reaction'\nqueue_bdp = 1.0\ngrowth = -0.5"];

#[test]
fn models_have_the_metrics_of_packets() {
    let value_of = |law: &str, text: &str| {
        let model = format!(
            "law = '{law}'\ngbps = 100.0\nbase_rtt_us = 20.0\ngamma = 0.9\nupdate_us = 20.0\n\
             increase_kb = 15.0\nuntil_us = 1000.0\n\
             starts = [[0.0, 100.0], [0.0, 265.0], [0.0, 750.0], [500.0, 400.0]]"
        );
        let model: crate::reproduce::registry::Model = toml::from_str(&model).unwrap();
        parse(text).unwrap().mean_value(&[&model.follow().unwrap()])
    };
    let check = |law: &str, text: &str, expected: f64| {
        let value = value_of(law, text).unwrap();
        assert!((value - expected).abs() < 1e-2, "{law} {text}: {value}");
    };
    check("power", "metric = 'rest-queue'\nrest_us = 900.0", 15.0);
    check("power", "metric = 'rest-window'\nrest_us = 900.0", 265.0);
    check("power", "metric = 'rest-spread'\nrest_us = 900.0", 0.0);
    // The start at rest is omitted.
    let time_constant = 20.0 / 0.9;
    check("power", "metric = 'decay'\nrest_us = 900.0\npart = 0.6321206", time_constant);
    check("power", MODELLED[0], 0.0);
    check("power", MODELLED[1], 1.0);
    check("queue-length", MODELLED[1], 2.0);
    assert!(value_of("queue-length", MODELLED[0]).unwrap() >= 50.0);
    assert!(value_of("gradient", "metric = 'rest-spread'\nrest_us = 900.0").unwrap() > 100.0);
}

/// Names of metrics of switches between racks.
const OF_CORE: [&str; 4] = ["core-", "averaged-core", "far-slowdown", "pauses"];

#[test]
fn the_needs_of_a_metric_are_sufficient() {
    let all: Vec<_> = anywhere().collect();
    // A protocol that aims at a delay, so that there is a target.
    let aims = |name: &str| {
        let seen = observed(&samples::plan(name), &everything(), Span::us(10));
        let target = parse("metric = 'target'").unwrap();
        target.mean_value(&[&seen]).map(|_| (samples::plan(name), seen))
    };
    let (plan, whole) = all.iter().find_map(|protocol| aims(protocol.name)).unwrap();
    let all_of = |plan| observed(plan, &everything(), Span::us(10));
    let (racks, closed_loop) = (racks(), samples::closed_loop(all[0].name));
    let (of_racks, of_closed_loop) = (all_of(&racks), all_of(&closed_loop));
    let (core, of_core) = (core(), all_of(&core()));
    let mut tested = Vec::new();
    for text in WITH_VALUES {
        let metric = parse(text).unwrap();
        let (plan, whole) = match metric.needs() {
            [Measurement::Circuits] => (&racks, &of_racks),
            _ if OF_CORE.iter().any(|of| text.contains(of)) => (&core, &of_core),
            [Measurement::Exchanges] => (&closed_loop, &of_closed_loop),
            _ => (&plan, &whole),
        };
        let own = observed(plan, metric.needs(), Span::us(10));
        let (own, whole) = (metric.mean_value(&[&own]), metric.mean_value(&[whole]));
        assert!(own == whole && own.is_some(), "{text}: {own:?} {whole:?}");
        tested.push(text.split('\'').nth(1).unwrap());
    }
    tested.extend(MODELLED.map(|text| text.split('\'').nth(1).unwrap()));
    tested.sort_unstable();
    let mut names = AnyMetric::NAMES.to_vec();
    names.sort_unstable();
    assert_eq!(tested, names, "every metric has a test");
}
