//! Tests of measures against each other, and against the rows of the same run.

use std::sync::{Arc, Mutex};

use tidegate_results::{FlowRow, LinkSummary};

use super::*;
use crate::samples::{anywhere, closed_loop, plan};

const ALL: [Measurement; 19] = [
    Measurement::Traces,
    Measurement::Windows,
    Measurement::Messages,
    Measurement::Exchanges,
    Measurement::RoundTrips,
    Measurement::Links,
    Measurement::Queues,
    Measurement::Slowdowns,
    Measurement::BareSlowdowns,
    Measurement::Delivered,
    Measurement::Circuits,
    Measurement::Buffers,
    Measurement::Downlinks,
    Measurement::AckedSlowdowns,
    Measurement::MeanBuffers,
    Measurement::MeanDownlinks,
    Measurement::Ports,
    Measurement::CoreBuffers,
    Measurement::FarSlowdowns,
];

pub(super) fn run_with(plan: &Plan, measures: Vec<Box<dyn Measure>>) -> RunOutput {
    let control = Control {
        threads: 1,
        partitions: None,
        ranks: None,
        is_interrupted: &|| false,
        progress: &|_| {},
        chunk: &adapt,
    };
    drive(plan, measures, &control).unwrap()
}

fn seen(plan: &Plan, parts: &[Measurement], interval: Span) -> Observations {
    run_with(plan, measures(plan, parts.iter().copied(), interval)).seen
}

/// Records every row, and the times of samples.
struct RecordingMeasure {
    interval: Option<Span>,
    rows: Arc<Mutex<Vec<FlowRow>>>,
    times: Arc<Mutex<Vec<Time>>>,
}

impl Measure for RecordingMeasure {
    fn samples_every(&self) -> Option<Span> {
        self.interval
    }
    fn sampled(&mut self, _plan: &Plan, at: Time, samples: &[Sample]) -> Result<(), Error> {
        assert!(samples.iter().all(|sample| sample.at == at));
        self.times.lock().unwrap().push(at);
        Ok(())
    }
    fn flow(&mut self, plan: &Plan, record: &FlowRecord) -> Result<(), Error> {
        self.rows.lock().unwrap().push(crate::convert::flow(plan, record, None));
        Ok(())
    }
    fn finish(self: Box<Self>, _end: &End<'_>, _output: &mut RunOutput) -> Result<(), Error> {
        Ok(())
    }
}

#[test]
fn traces_of_all_flows_add_up_to_their_rows() {
    let mut with_windows = 0;
    for protocol in anywhere() {
        let (plan, name) = (plan(protocol.name), protocol.name);
        let rows = Arc::default();
        let recorder =
            RecordingMeasure { interval: None, rows: Arc::clone(&rows), times: Arc::default() };
        // 400 us are no multiple of 30 us: the last interval is 10 us long.
        let interval = Span::us(30);
        let mut measures = measures(&plan, ALL, interval);
        measures.push(Box::new(recorder));
        let seen = run_with(&plan, measures).seen;
        let mut rows = rows.lock().unwrap().clone();
        rows.sort_by_key(|row| row.id);
        assert_eq!((rows.len(), seen.traces.len(), seen.interval_us), (8, 8, 30.0), "{name}");
        for (row, trace) in rows.iter().zip(&seen.traces) {
            assert_eq!((row.id, row.start.as_us_f64()), (trace.id, trace.start_us), "{name}");
            assert_eq!(plan.labels[usize::from(row.label)], trace.label);
            let span = |bin: usize| if bin == 13 { 10.0 } else { 30.0 };
            let goodputs = trace.goodput_gbps.iter().enumerate();
            let bytes: f64 =
                goodputs.map(|(i, gbps)| f64::from(*gbps) * span(trace.first + i) * 125.0).sum();
            let delivered = row.delivered_bytes as f64;
            assert!((bytes / delivered - 1.0).abs() < 1e-3, "{name}: {bytes}, {row:?}");
            let bin = |at: Time| (at.as_ps() / interval.as_ps()) as usize;
            assert_eq!(trace.first, bin(row.start), "{name}: {trace:?}");
            // Feedback after completion belongs to the flow, too.
            let [last, acked] = [row.completed, row.acked].map(|at| at.map_or(13, bin));
            let acked = acked.max(last);
            let intervals = last + 1 - trace.first..=acked + 1 - trace.first;
            assert!(intervals.contains(&trace.goodput_gbps.len()), "{name}: {trace:?}");
            let stop = row.completed.or((trace.label == "stopped").then_some(Time::us(300)));
            assert_eq!(trace.stop_us, stop.map(Time::as_us_f64), "{name}");
            assert_eq!(trace.at(Traced::Goodput, acked + 1), None);
            let rtts = trace.rtt_us.iter().flatten();
            assert!(rtts.clone().all(|us| (1.0..400.0).contains(us)), "{name}: {trace:?}");
        }
        let windows = seen.traces.iter().filter(|trace| !trace.window_kb.is_empty()).count();
        let has_rtt = seen.traces.iter().any(|trace| !trace.rtt_us.is_empty());
        assert_eq!(has_rtt, seen.rtt_us.mean > 0.0, "{name}");
        with_windows += usize::from(windows >= 3);
    }
    assert!(with_windows >= 4, "{with_windows}");
}

/// Of four messages one ends before warm-up, one begins before it and ends after, one does both
/// after it, and one is too long for the rest of the run: 200 packets of 1,580 B need 25.28 us of a
/// link of 100 Gbit/s.
#[test]
fn messages_count_by_submission_or_completion() {
    let of = |more: &str| {
        let text = format!(
            r#"
duration = "400us"
warmup = "100us"
{more}
transport = {{ protocol = "{}" }}
fabric = {{ kind = "star", hosts = 4, mtu = "1500B", host_link = {{ rate = "100Gbps" }} }}
flows = [
  {{ src = "h0", dst = "h1", label = "before", start = "10us", size = "3KB" }},
  {{ src = "h0", dst = "h1", label = "across", start = "90us", size = "300KB" }},
  {{ src = "h0", dst = "h1", label = "within", start = "250us", size = "3KB" }},
  {{ src = "h0", dst = "h1", label = "beyond", start = "390us", size = "300KB" }},
]
"#,
            crate::protocols()[0].name
        );
        let plan = tidegate_scenario::load(&text, "test.toml", &[]).unwrap();
        let summary =
            run_with(&plan, measures(&plan, [Measurement::Summary], Span::us(10))).seen.summary;
        summary.unwrap()
    };
    let counts = |summary: &tidegate_results::Summary| {
        ["before", "across", "within", "beyond", "all"].map(|label| {
            let fct = &summary.fct[label];
            (fct.count, fct.unfinished)
        })
    };
    let submitted = of("");
    assert_eq!(counts(&submitted), [(0, 0), (0, 0), (1, 0), (1, 1), (2, 1)]);
    assert_eq!(counts(&of("output.messages = 'submitted'")), counts(&submitted));
    let completed = of("output.messages = 'completed'");
    assert_eq!(counts(&completed), [(0, 0), (1, 0), (1, 0), (0, 0), (2, 0)]);
    let took = completed.fct["across"].mean_us.unwrap().as_f64();
    assert!((25.28..300.0).contains(&took), "{took}");
    // The offered load is the same; a warning counts the omitted messages.
    let offered = |of: &tidegate_results::Summary| {
        of.groups.iter().map(|group| group.offered_gbps).collect::<Vec<_>>()
    };
    assert_eq!(offered(&completed), offered(&submitted));
    let warned = |of: &tidegate_results::Summary| {
        of.warnings.iter().filter(|warning| warning.contains("omit 1 message that")).count()
    };
    assert_eq!((warned(&completed), warned(&submitted)), (1, 0));
}

#[test]
fn exchanges_run_from_the_request_to_its_reply() {
    let plan = closed_loop(crate::protocols()[0].name);
    let rows: Arc<Mutex<Vec<FlowRow>>> = Arc::default();
    let recorder =
        RecordingMeasure { interval: None, rows: Arc::clone(&rows), times: Arc::default() };
    let mut all = measures(&plan, [Measurement::Exchanges], Span::us(10));
    all.push(Box::new(recorder));
    let seen = run_with(&plan, all).seen;
    let rows = rows.lock().unwrap();
    let since_warmup: Vec<_> = rows
        .iter()
        .filter_map(|row| Some((row, row.exchange?)))
        .filter(|(_, exchange)| exchange.requested >= plan.warmup)
        .collect();
    let requests = since_warmup.iter().filter(|(_, exchange)| !exchange.is_reply).count() as u64;
    let mut took: Vec<f64> =
        since_warmup.iter().filter_map(|(row, _)| Some(row.exchange()?.as_us_f64())).collect();
    took.sort_by(f64::total_cmp);
    let labels: Vec<&str> = seen.exchanges.keys().map(String::as_str).collect();
    assert_eq!(labels, ["ask"]);
    let ask = &seen.exchanges["ask"];
    assert_eq!((ask.count, ask.unfinished), (requests, requests - took.len() as u64));
    assert!(ask.unfinished > 0 && took.len() > 20, "{} of {requests}", took.len());
    assert_eq!(ask.quantile(1.0), took.last().copied());
    // A request with its reply takes longer than either of them.
    let slowest_reply = rows.iter().filter(|row| row.exchange.is_some()).filter_map(FlowRow::fct);
    let slowest_reply = slowest_reply.max().unwrap().as_us_f64();
    assert!(took[took.len() - 1] > slowest_reply, "{took:?}, {slowest_reply}");
}

#[test]
fn measures_receive_samples_at_their_own_times() {
    let plan = plan(crate::protocols()[0].name);
    let intervals = [Some(Span::us(100)), Some(Span::us(150)), None, Some(Span::s(1))];
    let times: [Arc<Mutex<Vec<Time>>>; 4] = Default::default();
    let recorder = |(i, interval): (usize, &Option<Span>)| {
        let times = Arc::clone(&times[i]);
        Box::new(RecordingMeasure { interval: *interval, rows: Arc::default(), times })
            as Box<dyn Measure>
    };
    run_with(&plan, intervals.iter().enumerate().map(recorder).collect());
    let expected: [&[u64]; 4] = [&[100, 200, 300, 400], &[150, 300, 400], &[], &[400]];
    for (times, expected) in times.iter().zip(expected) {
        let expected: Vec<Time> = expected.iter().map(|us| Time::us(*us)).collect();
        assert_eq!(*times.lock().unwrap(), expected);
    }
}

#[test]
fn measures_are_independent_of_each_other() {
    for protocol in anywhere() {
        let plan = plan(protocol.name);
        let json = |seen: &Observations| serde_json::to_value(seen).unwrap();
        let (none, all) = (seen(&plan, &[], Span::us(10)), seen(&plan, &ALL, Span::us(10)));
        assert_eq!(none.digest, all.digest, "{}", protocol.name);
        let keys: [&str; ALL.len()] = [
            "traces",
            "traces",
            "messages",
            "exchanges",
            "rtt_us",
            "links",
            "queues",
            "slowdowns",
            "bare_slowdowns",
            "delivered",
            "circuits",
            "buffers",
            "downlinks_kb",
            "acked_slowdowns",
            "mean_buffers",
            "mean_downlinks_kb",
            "ports",
            "core_buffers",
            "far_slowdowns",
        ];
        for (part, key) in ALL.into_iter().zip(keys) {
            let mut alone = seen(&plan, &[part], Span::us(10));
            assert_eq!(alone.digest, all.digest, "{part:?}");
            if part == Measurement::Traces {
                let windows = all.traces.iter().map(|trace| trace.window_kb.clone());
                alone.traces.iter_mut().zip(windows).for_each(|(own, kb)| own.window_kb = kb);
            }
            let is_same = json(&alone)[key] == json(&all)[key];
            assert!(is_same, "{part:?} of {}", protocol.name);
        }
        let messages = &all.messages["short"];
        assert_eq!((messages.count, messages.unfinished), (6, 0), "{}", protocol.name);
        let is_used = |link: &&LinkSummary| link.to == "h3";
        assert!(all.links.iter().find(is_used).unwrap().utilization.unwrap() > 0.1);
        assert!(all.links.iter().all(|link| !link.from_host));
    }
}

/// Counts the packets that leave each port, and compares the counts with the engine's.
struct Departures(Vec<u64>);

impl Measure for Departures {
    fn subscriptions(&self) -> Subscriptions {
        Subscriptions { departed: true, ..Subscriptions::default() }
    }
    fn departed(&mut self, departure: &Departure<'_>) {
        self.0[departure.port as usize] += 1;
    }
    fn delivered(&mut self, _now: Time, _flow: u64, _bytes: u32) {
        panic!("not subscribed");
    }
    fn finish(self: Box<Self>, end: &End<'_>, _output: &mut RunOutput) -> Result<(), Error> {
        let counted: Vec<u64> = end.outcome.links.iter().map(|link| link.packets).collect();
        assert!(counted == self.0 && counted.iter().sum::<u64>() > 1000, "{counted:?}");
        Ok(())
    }
}

#[test]
fn a_measure_receives_every_departure() {
    let mut plan = plan(crate::protocols()[0].name);
    plan.warmup = Time::ZERO;
    let ports = 2 * plan.fabric.links.len();
    let mut measures = measures(&plan, ALL, Span::us(10));
    measures.push(Box::new(Departures(vec![0; ports])));
    run_with(&plan, measures);
}

/// Two messages that end before and within the measured window, and one that starts in it and does
/// not end.
#[test]
fn bare_slowdowns_cover_messages_that_end_in_time() {
    let text = r#"
duration = "400us"
warmup = "100us"
fabric = { kind = "star", hosts = 3, mtu = "1500B", host_link = { rate = "10Gbps", delay = "1us" } }
transport = { protocol = "PROTOCOL" }
flows = [
  { src = "h0", dst = "h2", size = "3KB", label = "early" },
  { src = "h0", dst = "h2", size = "150KB", start = "90us", label = "across" },
  { src = "h1", dst = "h0", size = "30MB", start = "200us", label = "late" },
]
"#;
    let text = text.replace("PROTOCOL", crate::protocols()[0].name);
    let plan = tidegate_scenario::load(&text, "test.toml", &[]).unwrap();
    let rows = Arc::default();
    let recorder =
        RecordingMeasure { interval: None, rows: Arc::clone(&rows), times: Arc::default() };
    let parts = [Measurement::Slowdowns, Measurement::BareSlowdowns, Measurement::Delivered];
    let mut measures = measures(&plan, parts, Span::us(10));
    measures.push(Box::new(recorder));
    let seen = run_with(&plan, measures).seen;
    let mut rows = rows.lock().unwrap().clone();
    rows.sort_by_key(|row| row.id);

    // Our slowdowns cover messages that start in the window, the bare ones those that end in it.
    assert_eq!(seen.slowdowns.keys().collect::<Vec<_>>(), ["late"]);
    assert_eq!(seen.slowdowns["late"], [Slowdown { bytes: 30_000_000, times: None }]);
    assert_eq!(seen.bare_slowdowns.keys().collect::<Vec<_>>(), ["across"]);
    let took = rows[1].completed.unwrap().since(rows[1].start).as_us_f64();
    // 2 us of propagation and 120 us for 150 KB at 10 Gbit/s.
    let expected = Slowdown { bytes: 150_000, times: Some(round(took / 122.0)) };
    assert_eq!(seen.bare_slowdowns["across"], [expected]);

    let gbps = |bytes: u64| bytes as f64 * 8.0 / 300e3 / 3.0;
    let delivered = seen.delivered.unwrap();
    assert_eq!(delivered.offered_gbps, gbps(30_000_000));
    assert_eq!(delivered.completed_gbps, gbps(150_000));
    let arrived: u64 = rows.iter().map(|row| row.window_bytes).sum();
    assert!(arrived > rows[2].window_bytes && rows[2].window_bytes > 0);
    assert_eq!(delivered.arrived_gbps, gbps(arrived));
}
