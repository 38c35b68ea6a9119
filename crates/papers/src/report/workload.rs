//! Pages about a user's own traffic: how closely synthetic traffic resembles it, and how closely
//! simulated completion times resemble measured ones.

use tidegate_algos::Protocol;
use tidegate_results::is_maximum;
use tidegate_runs::numbers::{digits, with_unit};
use tidegate_runs::{CompletedClass, Completions, MeasuredWorkload, Percentiles};
use tidegate_scenario::workload::{DistanceKind, Profile, percentile};

use super::charts::{axis, larger};
use super::data::Data;
use super::html::{Row, alone, figures, note, section, table, warnings};
use super::markup::{NONE, escaped};
use super::page::{MAXIMUM, MAXIMUM_NOTE};
use crate::plot::{Distribution, Line, MARKERS, PALETTE, Plot, Points};

/// Number of points of a distribution, about half.
const STEPS: usize = 300;
/// Maximum number of warnings shown.
const WARNINGS_MAX: usize = 20;

/// A page about a workload.
pub fn workload_page(of: &MeasuredWorkload) -> String {
    let mut data = Data::default();
    let trace = &of.workload.trace;
    let warned = of.workload.warnings.iter().map(|text| alone(text));
    let mut body = warnings(warned, WARNINGS_MAX, "more warnings, in workload.json.");
    body += &section("Traffic", &(traffic(of) + &note(&about(of))));
    body += &section("Distances", &distances(of));
    let plots = plots(&of.workload.profile, &of.synthetic);
    let drawn = figures(&mut data, plots.into_iter().map(|plot| (None, plot)));
    body += &section("Measured and synthetic traffic", &drawn);
    body += &section("Left out and noted", &noted(of));
    super::page(&format!("Traffic of {}", trace.file), &body, data)
}

/// The measures of both, side by side.
fn traffic(of: &MeasuredWorkload) -> String {
    let link = of.workload.host_link.rate.as_bps() as f64;
    let load = |bps: f64| format!("{}, {} % of a link", gbps(bps), digits(100.0 * bps / link));
    type Cell<'a> = &'a dyn Fn(&Profile) -> String;
    let at = |of: &Profile, share: f64| bytes(percentile(&of.sizes, share).map(|of| of as f64));
    let mean = |of: &Profile| of.bytes as f64 / of.sizes.len().max(1) as f64;
    let rows: [(&str, Cell<'_>); 11] = [
        ("flows", &|of| of.sizes.len().to_string()),
        ("bytes", &|of| bytes(Some(of.bytes as f64))),
        ("mean load", &|of| gbps(of.mean_bps())),
        ("peak load, over a hundredth of the time", &|of| gbps(of.peak_bps())),
        ("mean load of a host", &|of| load(of.mean_host_bps())),
        ("load of the busiest host", &|of| load(of.busiest_bps())),
        ("mean size", &|of| bytes(Some(mean(of)))),
        ("median size", &|of| at(of, 0.5)),
        ("99th percentile of sizes", &|of| at(of, 0.99)),
        ("largest size", &|of| at(of, 1.0)),
        ("host pairs with traffic", &|of| of.pair_bytes.len().to_string()),
    ];
    let (measured, synthetic) = (&of.workload.profile, &of.synthetic);
    let rows = rows.map(|(name, cell)| vec![name.to_owned(), cell(measured), cell(synthetic)]);
    let titles = [("", false), ("measured", true), ("synthetic", true)];
    table(&titles, rows.into_iter().map(Row::from))
}

/// Conditions of the numbers.
fn about(of: &MeasuredWorkload) -> String {
    let workload = &of.workload;
    let trace = &workload.trace;
    let kind = if trace.is_capture { "packet capture" } else { "list of flows" };
    let incast = match &workload.incast {
        None => "No incast was found.".to_owned(),
        Some(found) => format!(
            "{} incasts were found, with {} sources on average ({} to {}), {} each, towards {} \
             destinations.",
            found.bursts,
            found.fan_in,
            found.fan_in_range.0,
            found.fan_in_range.1,
            bytes(Some(found.bytes as f64 / found.flows.max(1) as f64)),
            found.destinations
        ),
    };
    format!(
        "A {kind} of {} hosts over {}. Times are multiples of {}. The synthetic traffic is drawn \
         once, with seed 1. Links of hosts have {}. {incast} An incast has at least {} sources \
         that start within {}.",
        trace.hosts.len(),
        with_unit(Some(trace.duration.as_s_f64() * 1e3), "ms"),
        trace.resolution,
        workload.host_link.rate,
        workload.rule.sources,
        workload.rule.window
    )
}

fn distances(of: &MeasuredWorkload) -> String {
    let measure = |kind| match kind {
        DistanceKind::Distribution => "largest difference of the distributions (KS)",
        DistanceKind::Shares => "largest difference of cumulative shares of bytes",
        DistanceKind::Ratio => "synthetic over measured",
    };
    let number = |value: Option<f64>| value.map_or_else(|| NONE.to_owned(), digits);
    let row = |of: &tidegate_scenario::workload::Distance| {
        vec![escaped(of.text), measure(of.kind).to_owned(), number(of.value), number(of.by_chance)]
    };
    let titles = [("quantity", false), ("measure", false), ("distance", true), ("by chance", true)];
    let text = "By chance: the value that two samples of these numbers from one distribution \
                exceed with a probability of 5 %. Equal traffic has a difference of 0 and a ratio \
                of 1.";
    table(&titles, of.distances.iter().map(|of| row(of).into())) + &note(text)
}

fn noted(of: &MeasuredWorkload) -> String {
    let found = of.workload.trace.noted.iter().filter(|noted| noted.count > 0);
    let rows: Vec<Row> =
        found.map(|of| vec![escaped(of.text), of.count.to_string()].into()).collect();
    if rows.is_empty() {
        return note("Nothing.");
    }
    table(&[("", false), ("number", true)], rows.into_iter())
}

fn plots(measured: &Profile, synthetic: &Profile) -> Vec<Plot> {
    type Values<'a> = &'a dyn Fn(&Profile) -> Vec<f64>;
    let both = |points: &dyn Fn(&Profile) -> Points| {
        vec![line(0, "measured", points(measured)), line(1, "synthetic", points(synthetic))]
    };
    let distribution = |title: &str, x: &str, y: &str, log: bool, values: Values<'_>| Plot {
        title: title.to_owned(),
        x: axis(x, log),
        y: crate::plot::Axis { to: Some(1.0), ..axis(y, false) },
        lines: both(&|of| larger(&values(of), STEPS)),
        distribution: Some(Distribution::Cumulative),
        note: format!(
            "n: {} measured, {} synthetic",
            values(measured).len(),
            values(synthetic).len()
        ),
        ..Plot::default()
    };
    let floats = |values: &[u64]| values.iter().map(|value| *value as f64).collect();
    let ms = |of: &Profile| of.duration.as_s_f64() * 1e3 / of.loads_bps.len().max(1) as f64;
    let load = |of: &Profile| {
        let width = ms(of);
        let point = |(i, bps): (usize, &f64)| ((i as f64 + 0.5) * width, bps / 1e9);
        Points(of.loads_bps.iter().enumerate().map(point).collect())
    };
    let shares = |of: &Profile| {
        let all = of.pair_shares();
        let point = |(i, share): (usize, &f64)| ((i + 1) as f64, *share);
        let step = all.len().div_ceil(2 * STEPS).max(1);
        let keeps = |i: usize| i < STEPS || i.is_multiple_of(step) || i + 1 == all.len();
        Points(all.iter().enumerate().filter(|(i, _)| keeps(*i)).map(point).collect())
    };
    let positive = |values: &[f64]| values.iter().map(|us| us.max(1e-3)).collect::<Vec<f64>>();
    vec![
        distribution("Flow sizes", "size (bytes)", "share of flows", true, &|of| floats(&of.sizes)),
        distribution(
            "Times between starts",
            "time since the previous start (µs; at least 0.001)",
            "share of flows",
            true,
            &|of| positive(&of.gaps_us),
        ),
        distribution(
            "Times between starts of a sender",
            "time since the sender's previous start (µs; at least 0.001)",
            "share of flows",
            true,
            &|of| positive(&of.sender_gaps_us),
        ),
        Plot {
            title: "Offered load over time".to_owned(),
            x: axis("time (ms)", false),
            y: axis("offered load (Gbps)", false),
            lines: both(&load),
            note: format!("means over {} ms", digits(ms(measured))),
            ..Plot::default()
        },
        Plot {
            title: "Bytes of the busiest host pairs".to_owned(),
            x: axis("number of busiest pairs", true),
            y: crate::plot::Axis { to: Some(1.0), ..axis("share of bytes", false) },
            lines: both(&shares),
            ..Plot::default()
        },
        distribution(
            "Fan-in",
            "sources that start towards the same host within the window",
            "share of flows",
            false,
            &|of| of.fan_ins.iter().map(|n| f64::from(*n)).collect(),
        ),
    ]
}

fn line(number: usize, name: &str, points: Points) -> Line {
    Line {
        name: name.to_owned(),
        color: PALETTE[number].to_owned(),
        dash: number,
        points,
        ..Line::default()
    }
}

fn gbps(bps: f64) -> String {
    with_unit(Some(bps / 1e9), "Gbps")
}

fn bytes(value: Option<f64>) -> String {
    match value {
        None => NONE.to_owned(),
        Some(of) if of >= 999.5e9 => with_unit(Some(of / 1e12), "TB"),
        Some(of) if of >= 999.5e6 => with_unit(Some(of / 1e9), "GB"),
        Some(of) if of >= 999.5e3 => with_unit(Some(of / 1e6), "MB"),
        Some(of) if of >= 999.5 => with_unit(Some(of / 1e3), "KB"),
        of => with_unit(of, "B"),
    }
}

/// Reads one percentile.
type Quantity<'a> = &'a dyn Fn(&Percentiles) -> Option<f64>;

/// A page about measured and simulated completion times.
pub fn completions_page(of: &Completions) -> String {
    let mut data = Data::default();
    let quantities: [(&str, &str, Quantity<'_>); 4] = [
        ("Completion time by size, median", "completion time, median (µs)", &|of| of.p50_us),
        (
            "Completion time by size, 99th percentile",
            "completion time, 99th percentile (µs)",
            &|of| of.p99_us,
        ),
        ("Slowdown by size, median", "slowdown, median", &|of| of.slowdown_p50),
        ("Slowdown by size, 99th percentile", "slowdown, 99th percentile", &|of| of.slowdown_p99),
    ];
    let plots = quantities.map(|(title, y, quantity)| Plot {
        title: title.to_owned(),
        x: axis("flow size (bytes, middle of a decade)", true),
        y: axis(y, true),
        lines: (0..of.series.len()).map(|i| by_size(of, i, quantity)).collect(),
        ..Plot::default()
    });
    let drawn = figures(&mut data, plots.into_iter().map(|plot| (None, plot)));
    let mut body = section("Measured and simulated completion times", &drawn);
    body += &section("By size", &(classes(of) + &note(NOTE) + &note(MAXIMUM_NOTE)));
    super::page("Measured and simulated completion times", &body, data)
}

const NOTE: &str = "A measured slowdown is the measured completion time over the ideal one that \
    the simulator computes for the same size between the same hosts. A percentile that unfinished \
    flows hide is omitted; so are slowdowns of a size class in which the ideal time of a flow is \
    unknown.";

fn by_size(of: &Completions, series: usize, quantity: Quantity<'_>) -> Line {
    let middle = |class: &CompletedClass| match class.below_bytes {
        Some(below) => ((class.min_bytes.max(100) as f64) * below as f64).sqrt(),
        None => class.min_bytes as f64 * 2.0,
    };
    let point = |class: &CompletedClass| Some((middle(class), quantity(&class.series[series])?));
    let points = Points(of.classes.iter().filter_map(point).collect());
    let info = of.protocols[series].as_deref().and_then(Protocol::named).map(Protocol::info);
    Line {
        color: info.map_or(PALETTE[0], |info| info.color).to_owned(),
        dash: info.map_or(0, |info| info.dash.index()),
        marker: Some(info.map_or(MARKERS[0], |info| info.marker.name()).to_owned()),
        protocol: of.protocols[series].clone(),
        ..line(0, &of.series[series], points)
    }
}

/// A 99th percentile, marked if it is the maximum.
fn tail(of: &Percentiles, value: Option<f64>) -> String {
    let sign = if is_maximum(of.count, 10) { format!("{MAXIMUM} ") } else { String::new() };
    value.map_or_else(|| NONE.to_owned(), |value| sign + &digits(value))
}

fn classes(of: &Completions) -> String {
    let number = |value: Option<f64>| value.map_or_else(|| NONE.to_owned(), digits);
    let rows = of.classes.iter().flat_map(|class| {
        let size = match class.below_bytes {
            Some(below) => {
                format!("{} to {}", bytes(Some(class.min_bytes as f64)), bytes(Some(below as f64)))
            }
            None => format!("from {}", bytes(Some(class.min_bytes as f64))),
        };
        of.series.iter().zip(&class.series).filter(|(_, times)| times.count > 0).map(
            move |(name, times)| -> Row {
                vec![
                    size.clone(),
                    escaped(name),
                    times.count.to_string(),
                    times.unfinished.to_string(),
                    number(times.p50_us),
                    tail(times, times.p99_us),
                    number(times.slowdown_p50),
                    tail(times, times.slowdown_p99),
                ]
                .into()
            },
        )
    });
    let titles = [
        ("size", false),
        ("series", false),
        ("flows", true),
        ("unfinished", true),
        ("median, µs", true),
        ("99th percentile, µs", true),
        ("slowdown, median", true),
        ("slowdown, 99th percentile", true),
    ];
    table(&titles, rows)
}
