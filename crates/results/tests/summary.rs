//! Keys and number formats that scripts use.

use serde_json::Value;
use std::collections::BTreeMap;
use tidegate_core::{Span, Time};
use tidegate_results::{
    Engine, Fixed, FlowRow, LINKS_MAX, LinkSummary, Names, QueueBytes, QueueDelay, Recorder,
    Summary, SwitchSummary, busiest,
};

fn link(utilization: f64) -> LinkSummary {
    LinkSummary {
        from: "s0".into(),
        to: "h0".into(),
        rate_gbps: 100.0,
        utilization: Some(utilization),
        queue_bytes: QueueBytes { mean: Some(1.5), p99: None, max: Some(4176.0) },
        queue_delay_us: QueueDelay {
            mean: Fixed::nearest(0.5),
            p99: None,
            max: Fixed::nearest(1.25),
        },
        packets: 9,
        drops: 0,
        credit_drops: None,
        trims: None,
        returned: None,
        ecn_marks: 0,
        pfc_pauses: 0,
        paused_us: Fixed::nearest(0.0),
        from_host: false,
    }
}

fn summary() -> Summary {
    let names = Names {
        hosts: vec!["h0".into()],
        labels: vec![String::new()],
        protocols: vec!["alpha".into()],
        ..Names::default()
    };
    let mut recorder = Recorder::new(names, Time::ZERO, Time::ms(1));
    recorder.add(&FlowRow {
        id: 0,
        label: 0,
        stack: 0,
        src: 0,
        dst: 0,
        start: Time::ps(1),
        size_bytes: Some(5_000),
        delivered_bytes: 5_000,
        window_bytes: 5_000,
        lifetime: Some(Span::us(3)),
        completed: Some(Time::ps(3_000_002)),
        acked: None,
        retransmitted_bytes: 0,
        ideal: Span::us(2),
        fair_share_gbps: None,
        measured: true,
        exchange: None,
        step: None,
    });
    let recorded = recorder.finish();
    Summary {
        schema: Summary::SCHEMA,
        name: "test".into(),
        seed: 1,
        protocols: vec!["alpha".into()],
        connections: "per-message".into(),
        routing: "ecmp".into(),
        fixed_rates_gbps: Default::default(),
        sim_seconds: 0.001,
        drain_seconds: 0.0,
        drain_max_seconds: 0.0,
        warmup_seconds: 0.0,
        truncated: false,
        warnings: vec![],
        engine: Engine {
            digest: "00000000000000ff".into(),
            packet_hops: 10,
            wall_seconds: 0.5,
            cpu_seconds: 0.4,
            events: 11,
            packet_hops_per_second: Some(20.0),
            threads: 1,
            peak_rss_bytes: None,
        },
        real: None,
        flows: recorded.flows,
        flows_in: None,
        groups: recorded.groups,
        fct: recorded.fct,
        exchanges: recorded.exchanges,
        jobs: recorded.jobs,
        links: vec![link(0.5)],
        links_omitted: 0,
        switches: vec![SwitchSummary {
            name: "s0".into(),
            hosts: 2,
            buffer_bytes: QueueBytes::default(),
            samples: 0,
            drops: 0,
            settings: None,
        }],
        circuits: None,
        faults: None,
        pause_storms: vec![],
        pauses: None,
    }
}

fn text(summary: &Summary) -> String {
    let mut bytes = Vec::new();
    summary.write(&mut bytes).unwrap();
    String::from_utf8(bytes).unwrap()
}

/// Whether `value` has every key of `keys`.
fn assert_keys(value: &Value, keys: &str) {
    for key in keys.split_whitespace() {
        assert!(value.get(key).is_some(), "{key} is missing in {value}");
    }
}

#[test]
fn documented_keys_exist() {
    let json: Value = serde_json::from_str(&text(&summary())).unwrap();
    assert_keys(
        &json,
        "schema name seed protocols sim_seconds truncated engine flows fct links switches",
    );
    assert_keys(
        &json["engine"],
        "digest packet_hops wall_seconds cpu_seconds events packet_hops_per_second threads \
         peak_rss_bytes",
    );
    assert_keys(
        &json["flows"][0],
        "id label src dst protocol start_us size_bytes delivered_bytes goodput_gbps fct_us \
         acked_us slowdown
         retransmitted_bytes",
    );
    assert_keys(
        &json["fct"]["all"],
        "count unfinished mean_us p50_us p99_us p999_us slowdown by_size",
    );
    assert_keys(&json["fct"]["all"]["slowdown"], "p50 p99 p999");
    assert_keys(
        &json["fct"]["all"]["by_size"][0],
        "min_bytes below_bytes count unfinished mean_us p50_us p99_us p999_us slowdown",
    );
    assert_keys(
        &json["links"][0],
        "from to rate_gbps utilization queue_bytes queue_delay_us drops ecn_marks pfc_pauses \
         paused_us",
    );
    assert_keys(&json["links"][0]["queue_delay_us"], "mean p99 max");
    assert_keys(&json["switches"][0], "name buffer_bytes drops");
}

#[test]
fn microseconds_have_six_decimals_or_null() {
    let text = text(&summary());
    assert!(text.contains("\"start_us\": 0.000001"), "{text}");
    assert!(text.contains("\"fct_us\": 3.000001"), "{text}");
    assert!(text.contains("\"acked_us\": null"), "{text}");
    assert!(text.contains("\"slowdown\": 1.500001"), "{text}");
    assert!(text.contains("\"p99\": null"), "{text}");
    assert!(text.ends_with("}\n"));
}

#[test]
fn summary_reads_back() {
    let summary = summary();
    assert_eq!(serde_json::from_str::<Summary>(&text(&summary)).unwrap(), summary);
}

#[test]
fn flows_and_flows_in_are_exclusive() {
    let mut summary = summary();
    summary.flows = None;
    summary.flows_in = Some("flows.parquet".into());
    let json: BTreeMap<String, Value> = serde_json::from_str(&text(&summary)).unwrap();
    assert!(!json.contains_key("flows"));
    assert_eq!(json["flows_in"], "flows.parquet");
}

#[test]
fn busiest_links_keep_their_order() {
    let idle = |i: usize| i % 200 == 3; // 3, 203, … 1003: one more than have to go
    let loads: Vec<_> =
        (0..LINKS_MAX + 5).map(|i| if idle(i) { 0.0 } else { 1.0 + i as f64 }).collect();
    let (kept, omitted) = busiest(&loads, |&load| load);
    let kept: Vec<_> = kept.into_iter().copied().collect();
    let left = (0..LINKS_MAX + 5).filter(|&i| i == 3 || !idle(i));
    let expected: Vec<_> = left.map(|i| if i == 3 { 0.0 } else { 1.0 + i as f64 }).collect();
    assert_eq!((kept, omitted), (expected, 5));
}
