//! Metrics of two flows that are known to the last interval.

use tidegate_core::Span;

use super::*;
use crate::observe::tests as measures;

/// The metric that a table of the registry names.
fn question(text: &str) -> Result<Question, String> {
    let mut table: toml::Table = toml::from_str(text).unwrap();
    let Some(toml::Value::String(name)) = table.remove("metric") else { panic!("{text}") };
    Question::new(&name, table)
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
    let value = question(text).unwrap().answer(&[&seen()]).unwrap();
    assert!((value - expected).abs() < 1e-6, "{text}: {value}");
}

#[test]
fn metrics_look_at_their_flows_and_times() {
    check("metric = 'goodput'\nlabel = 'a'", 20.0);
    check("metric = 'goodput'\nlabel = 'a'\nfrom_ms = 0.1\nto_ms = 0.2", 30.0);
    check("metric = 'goodput'\nlabel = 'b'", 35.0 / 4.0);
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
fn what_is_not_there_has_no_answer() {
    for text in [
        "metric = 'goodput'\nlabel = 'c'",
        "metric = 'peak'",
        "metric = 'message'\nshare = 0.5",
        "metric = 'utilization'\nlink = 'a>b'",
        "metric = 'rtt-of-all'",
        "metric = 'convergence'\nlabel = 'b'\ngbps = 90.0",
        "metric = 'settling'\nlabel = 'b'\ngbps = 50.0",
    ] {
        assert_eq!(question(text).unwrap().answer(&[&seen()]), None, "{text}");
    }
}

#[test]
fn parameters_that_a_metric_does_not_have_are_refused() {
    for (text, said) in [
        ("metric = 'godput'", "there is no metric `godput`; there are goodput, worst,"),
        ("metric = 'goodput'\nlable = 'a'", "metric goodput: unknown field `lable`, expected"),
        ("metric = 'goodput'\ngbps = 9.0", "unknown field `gbps`"),
        ("metric = 'convergence'\nlabel = 'b'", "metric convergence: missing field `gbps`"),
        ("metric = 'rtt-of-all'\nlabel = 'b'", "unknown field `label`"),
        ("metric = 'utilization'\nlink = 'tor0'", "`tor0` is no port; one is `tor0>h0`"),
        ("metric = 'message'\nshare = 'most'", "metric message: invalid type"),
    ] {
        let error = question(text).unwrap_err();
        assert!(error.contains(said), "{text}: {error}");
    }
}

#[test]
fn seeds_are_averaged_and_one_without_an_answer_leaves_none() {
    let question = question("metric = 'goodput'").unwrap();
    let (some, none) = (seen(), Observations::default());
    let one = question.answer(&[&some]);
    assert!(one.is_some() && question.answer(&[&some, &some]) == one);
    assert_eq!(question.answer(&[&some, &none]), None);
    assert_eq!(question.answer(&[]), None);
}

/// A table of every metric that has an answer for the flows of the measures' tests.
const ANSWERED: [&str; 22] = [
    "metric = 'goodput'\nlabel = 'short'",
    "metric = 'worst'\nlabel = 'long'\nphases = [[0.1, 0.4, 50.0]]",
    "metric = 'jain'",
    "metric = 'deviation'",
    "metric = 'convergence'\nlabel = 'long'\ngbps = 1.0",
    "metric = 'convergence-rtts'\nlabel = 'long'\ngbps = 1.0",
    "metric = 'settling'\nlabel = 'long'\ngbps = 85.0\nbin_us = 300.0",
    "metric = 'rtt'",
    "metric = 'peak'",
    "metric = 'target'\nlabel = 'long'",
    "metric = 'window'",
    "metric = 'rtt-of-all'",
    "metric = 'rtt-of-all-p99'",
    "metric = 'message'\nlabel = 'short'\nshare = 0.9",
    "metric = 'utilization'\nlink = 'tor0>h3'",
    "metric = 'queue-delay'\nlink = 'tor0>h3'",
    "metric = 'queue-delay-p99'\nlink = 'tor0>h3'",
    "metric = 'queue-over-time'\nlink = 'tor0>h3'",
    "metric = 'peak-queue'\nlink = 'tor0>h3'",
    "metric = 'buffer'\nshare = 0.99",
    "metric = 'dip'\nbin_us = 100.0",
    "metric = 'slowdown'\nlabel = 'short'\nbelow_bytes = 10000\nshare = 0.9",
];

#[test]
fn what_a_metric_needs_is_enough_for_it() {
    let all = crate::protocols();
    // One that aims at a delay, so that there is a target.
    let aims = |name: &str| {
        let seen = measures::seen(&measures::plan(name), &measures::ALL, Span::us(10));
        let target = question("metric = 'target'").unwrap();
        target.answer(&[&seen]).map(|_| (measures::plan(name), seen))
    };
    let (plan, whole) = all.iter().find_map(|protocol| aims(protocol.name)).unwrap();
    let mut asked = Vec::new();
    for text in ANSWERED {
        let question = question(text).unwrap();
        let own = measures::seen(&plan, question.needs(), Span::us(10));
        let (own, whole) = (question.answer(&[&own]), question.answer(&[&whole]));
        assert!(own == whole && own.is_some(), "{text}: {own:?} {whole:?}");
        asked.push(text.split('\'').nth(1).unwrap());
    }
    asked.sort_unstable();
    let mut names = Question::NAMES.to_vec();
    names.sort_unstable();
    assert_eq!(asked, names, "every metric is asked");
}
