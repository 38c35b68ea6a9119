//! Compares the time series of a run with the results of the same run.

use std::collections::BTreeMap;
use std::path::Path;

use parquet::file::reader::{FileReader, SerializedFileReader};
use parquet::record::Field;
use tidegate_results::Summary;
use tidegate_runs::{ProtocolEntry, RunOptions, load, protocols, run, set};

/// (quantity, flow or link) to samples in order of time.
type Series = BTreeMap<(String, String), Vec<(f64, f64)>>;

fn run_and_read(protocol: &str, changes: &[&str]) -> (Summary, Series) {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("scenario.toml");
    let text = r#"
duration = "1ms"
warmup = "100us"
[fabric]
kind = "star"
hosts = 4
mtu = "1500B"
host_link = { rate = "100Gbps", delay = "1us" }
[transport]
protocol = "PROTOCOL"
[[flows]]
src = "h0"
dst = "h3"
[[flows]]
src = "h1"
dst = "h3"
start = "200us"
size = "2MB"
[[flows]]
src = "h2"
dst = "h3"
start = "333us"
size = "3KB"
count = 20
[output]
timeseries = "10us"
"#;
    std::fs::write(&path, text.replace("PROTOCOL", protocol)).unwrap();
    let changes: Vec<_> = changes.iter().map(|change| set(change).unwrap()).collect();
    let plan = load(&path, &changes).unwrap();
    let out = dir.path().join("out");
    let summary = run(&plan, &RunOptions { out: Some(&out), ..RunOptions::default() }).unwrap();
    (summary, read(&out.join("timeseries.parquet")))
}

fn read(path: &Path) -> Series {
    let bytes = bytes::Bytes::from(std::fs::read(path).unwrap());
    let mut series = Series::new();
    for row in
        SerializedFileReader::new(bytes).unwrap().get_row_iter(None).unwrap().map(Result::unwrap)
    {
        let cell = |name: &str| {
            row.get_column_iter().find(|(column, _)| *column == name).unwrap().1.clone()
        };
        let number = |name: &str| match cell(name) {
            Field::Double(x) => x,
            other => panic!("{name} is {other}"),
        };
        let text = |name: &str| match cell(name) {
            Field::Str(text) => text,
            Field::Long(id) => id.to_string(),
            _ => String::new(),
        };
        let of = text("flow") + &text("from") + ">" + &text("to");
        series
            .entry((text("quantity"), of))
            .or_default()
            .push((number("time_us"), number("value")));
    }
    series.values_mut().for_each(|samples| samples.sort_by(|a, b| a.0.total_cmp(&b.0)));
    series
}

/// Protocols that run on any fabric; the others need circuits.
fn anywhere() -> impl Iterator<Item = ProtocolEntry> {
    protocols().into_iter().filter(|info| !info.needs.contains(&"circuit announcements"))
}

#[test]
fn series_cover_every_flow_and_port() {
    let mut with_windows = 0;
    for protocol in anywhere() {
        let name = protocol.name;
        let (summary, series) = run_and_read(name, &[]);
        let of =
            |quantity: &str, entity: &str| series.get(&(quantity.to_owned(), entity.to_owned()));
        let mut at_times: BTreeMap<u64, f64> = BTreeMap::new();
        for flow in summary.flows.as_ref().unwrap() {
            let goodput =
                of("goodput_gbps", &format!("{}>", flow.id)).expect("every flow has a goodput");
            // The bytes of all intervals add up to the flow's, and each interval has one row.
            let bytes: f64 = goodput.iter().map(|(_, gbps)| gbps * 1e3 * 10.0 / 8.0).sum();
            assert!(
                (bytes - flow.delivered_bytes as f64).abs() < 1.0,
                "{name}: {bytes} of {flow:?}"
            );
            assert!(
                goodput.windows(2).all(|two| (two[1].0 - two[0].0 - 10.0).abs() < 1e-6),
                "{name}: {goodput:?}"
            );
            let delivered = of("delivered_bytes", &format!("{}>", flow.id)).unwrap();
            assert!(delivered.windows(2).all(|two| two[0].1 <= two[1].1));
            assert_eq!(
                delivered.last().unwrap().1,
                flow.delivered_bytes as f64,
                "{name}: {flow:?}"
            );
            for (at, gbps) in goodput {
                *at_times.entry((at * 1e6) as u64).or_default() += gbps;
            }
        }
        // One link of 100 Gbit/s leads to the receiver. A burst of one packet may fall on either
        // side of a sample.
        let most = at_times.values().copied().fold(0.0, f64::max);
        assert!(most <= 100.0 + 2.0 * 1500.0 * 8e-3 / 10.0, "{name}: {most} Gbit/s");
        assert!(most > 20.0, "{name}: {most} Gbit/s");
        let link = summary.links.iter().find(|link| link.to == "h3").unwrap();
        let queue =
            of("queue_bytes", &format!("{}>h3", link.from)).expect("every switch port has a queue");
        assert_eq!(queue.len(), 100);
        let most =
            queue.iter().filter(|(at, _)| *at > 100.0).map(|(_, bytes)| *bytes).fold(0.0, f64::max);
        assert!(most <= link.queue_bytes.max.unwrap(), "{name}: {most}");
        if let Some(window) = of("window_bytes", "0>") {
            with_windows += 1;
            assert_eq!(window.len(), 100, "{name}");
            // The receiver's grant may be used up at the time of a sample.
            assert!(window.iter().all(|(_, bytes)| *bytes >= 0.0), "{name}");
        }
    }
    assert!(with_windows >= 4, "{with_windows}");
}

#[test]
fn interval_pauses_add_up_to_the_summary() {
    // Windows of several BDPs, and a smaller buffer.
    let changes = [
        "switch.buffer=200KB",
        "switch.pfc={ alpha = 0.125 }",
        "transport.params.base_target=100us",
        "transport.params.initial_window=10BDP",
    ];
    let (summary, series) = run_and_read("swift", &changes);
    let paused =
        |from: &str, to: &str| series.get(&("paused_us".to_owned(), format!("{from}>{to}")));
    let mut some = 0;
    for link in &summary.links {
        let Some(rows) = paused(&link.from, &link.to) else {
            assert_eq!(link.pfc_pauses, 0, "{link:?}");
            continue;
        };
        assert!(rows.iter().all(|(_, us)| (0.0..=10.0 + 1e-9).contains(us)), "{rows:?}");
        assert_eq!(rows.last().unwrap().0, 1000.0, "a row an interval to the end");
        // Pauses in the interval that ends with warm-up are not measured.
        let sum: f64 = rows.iter().filter(|(at, _)| *at > 100.0 + 1e-9).map(|(_, us)| us).sum();
        assert!((sum - link.paused_us.unwrap().as_f64()).abs() < 1e-5, "{sum}: {link:?}");
        some += (sum > 20.0) as usize;
    }
    assert!(some > 1, "{some} ports were paused");
    let (_, plain) = run_and_read("swift", &changes[2..]);
    assert!(plain.keys().all(|(quantity, _)| quantity != "paused_us"));
}

/// The rest of the run after the last whole interval has rows of its own length.
#[test]
fn rows_add_up_to_the_delivered_bytes() {
    let (mut runs, mut finishing) = (0, 0);
    for protocol in anywhere() {
        // 391 is 17 times 23. With 300 us, messages start and end in the last interval.
        for (interval, samples) in [("10us", 40), ("23us", 17), ("300us", 2), ("1s", 1)] {
            let changes = ["duration=391us", &format!("output.timeseries={interval}")];
            let (summary, series) = run_and_read(protocol.name, &changes);
            let of = format!("{}, {interval}", protocol.name);
            let queue =
                series.iter().find(|((quantity, _), _)| quantity == "queue_bytes").unwrap().1;
            let times: Vec<f64> = queue.iter().map(|(at, _)| *at).collect();
            assert_eq!((times.len(), times[samples - 1]), (samples, 391.0), "{of}");
            let span = |at: f64| {
                let nth = times.iter().position(|time| *time == at).expect("a time of the others");
                at - if nth > 0 { times[nth - 1] } else { 0.0 }
            };
            let flows = summary.flows.unwrap();
            runs += 1;
            finishing += flows.iter().any(|flow| flow.fct_us.is_some()) as usize;
            for flow in flows {
                let rows = &series[&("goodput_gbps".to_owned(), format!("{}>", flow.id))];
                let bytes: f64 = rows.iter().map(|(at, gbps)| gbps * 1e3 / 8.0 * span(*at)).sum();
                assert!(
                    (bytes - flow.delivered_bytes as f64).abs() < 1.0,
                    "{of}: {bytes} of {flow:?}"
                );
            }
        }
    }
    assert!(2 * finishing > runs, "messages end in {finishing} of {runs}");
}

#[test]
fn without_a_folder_nothing_is_sampled() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("scenario.toml");
    let protocol = protocols()[0].name;
    let text = format!(
        "duration = '100us'\nfabric = {{ kind = 'star', hosts = 2 }}\ntransport = {{ protocol = \
         '{protocol}' }}\n\
         flows = [{{ src = 'h0', dst = 'h1' }}]\noutput = {{ timeseries = '1us' }}\n"
    );
    std::fs::write(&path, text).unwrap();
    let plan = load(&path, &[set("seed=2").unwrap()]).unwrap();
    run(&plan, &RunOptions::default()).unwrap();
    assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 1);
}
