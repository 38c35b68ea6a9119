//! Data for the script about means over seeds, with which a reader selects the metric, the x axis,
//! the lines and the panels.

use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;
use tidegate_algos::Protocol;

use super::flows::size_range;
use super::markup::NONE;
use super::means::{Entry, Means, PROTOCOL, Point, text};
use crate::plot::{MARKERS, PALETTE, short};
use tidegate_runs::readings::{Better, METRICS, key_words, limits, words};

/// Maximum number of points of a sweep in a page.
pub(super) const POINTS_MAX: usize = 5_000;

/// The data from which a reader selects.
#[derive(Debug, Serialize)]
pub(crate) struct Choice {
    /// The keys that vary, then the label, then the size range.
    dimensions: Vec<Dimension>,
    metrics: Vec<Metric>,
    /// The protocol that others are compared with, if any are compared.
    baseline: Option<String>,
}

/// A dimension of the means.
#[derive(Debug, Serialize)]
struct Dimension {
    name: String,
    /// Title in words.
    title: String,
    /// Values as text; quantities are in ascending order.
    values: Vec<String>,
    /// The values as numbers in `unit`; empty if some are not numbers.
    numbers: Vec<f64>,
    unit: &'static str,
    /// Whether the numbers suit a log axis.
    log: bool,
    /// Colour of the line of each value.
    colors: Vec<String>,
    markers: Vec<&'static str>,
    dashes: Vec<usize>,
    /// Whether the values are protocols.
    protocols: bool,
    /// Whether it is a key of the scenario.
    key: bool,
}

#[derive(Debug, Serialize)]
struct Metric {
    name: String,
    /// Title in words, without the unit.
    title: String,
    /// Unit on axes.
    unit: String,
    /// `less` or `more`; empty if neither is better.
    better: &'static str,
    /// Lower limit of values, and upper limit if there is one.
    least: f64,
    most: Option<f64>,
    cells: Vec<Cell>,
}

/// A mean: index of its value in each dimension, mean, half of the interval, number of seeds,
/// minimum and maximum over seeds, whether it is a lower bound or the best, the difference from the
/// baseline, and whether it is a percentile of few values, their maximum.
#[derive(Debug, Serialize)]
struct Cell(Vec<usize>, f64, Option<f64>, usize, f64, f64, Mark, Option<Away>, bool);

/// A paired difference: mean, half of the interval, number of seeds, corrected `p`, and whether it
/// is significant.
#[derive(Debug, Serialize)]
struct Away(f64, Option<f64>, usize, Option<f64>, bool);

#[derive(Clone, Copy, Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
enum Mark {
    None,
    Bound,
    Best,
}

impl Choice {
    /// The data of `means`, with at most `most` means in total, and the number of metrics that this
    /// omits. Metrics of single size ranges are omitted first.
    pub(super) fn of(means: &Means, most: usize) -> (Choice, usize) {
        let points = &means.points[..means.points.len().min(POINTS_MAX)];
        let mut dimensions: Vec<Dimension> = means
            .keys
            .iter()
            .enumerate()
            .map(|(i, key)| {
                Dimension::of_key(key, points.iter().map(|point| text(&point.values[i])))
            })
            .collect();
        let namer = Namer::of(means);
        let entries = || {
            points.iter().flat_map(|point| point.metrics.iter().map(move |entry| (point, entry)))
        };
        let labels = entries().map(|(point, entry)| namer.label(point, entry));
        dimensions.push(Dimension::of("label", distinct(labels)));
        let ranges: BTreeSet<Option<(u64, Option<u64>)>> =
            entries().map(|(_, entry)| sizes(entry)).collect();
        let named = |range: &Option<(u64, Option<u64>)>| {
            range.map_or("all".to_owned(), |(from, below)| size_range(from, below))
        };
        dimensions.push(Dimension::of("size", ranges.iter().map(named).collect()));
        let places: Vec<BTreeMap<String, usize>> =
            dimensions.iter().map(Dimension::places).collect();
        let place = |point: &Point, entry: &Entry| -> Vec<usize> {
            let keys = point.values.iter().map(text);
            let own = [namer.label(point, entry), named(&sizes(entry))];
            keys.chain(own).zip(&places).map(|(value, places)| places[&value]).collect()
        };
        let mut metrics: Vec<Metric> = Vec::new();
        let mut numbers: BTreeMap<&str, usize> = BTreeMap::new();
        for (point, entry) in entries() {
            let number = *numbers.entry(&entry.metric).or_insert_with(|| {
                metrics.push(Metric::named(&entry.metric, &entry.unit));
                metrics.len() - 1
            });
            metrics[number].cells.push(Cell::of(place(point, entry), entry));
        }
        let count = metrics.len();
        metrics.sort_by_key(|metric| metric.name.starts_with("size_"));
        let mut left = most;
        metrics.retain(|metric| {
            let fits = metric.cells.len() <= left;
            left -= if fits { metric.cells.len() } else { 0 };
            fits
        });
        metrics.sort_by_key(|metric| {
            METRICS.iter().position(|(name, ..)| *name == metric.name).unwrap_or(METRICS.len())
        });
        let left_out = count - metrics.len();
        let baseline = means.baseline.clone();
        (Choice { dimensions, metrics, baseline }, left_out)
    }

    #[cfg(test)]
    fn dimension(&self, name: &str) -> &Dimension {
        self.dimensions.iter().find(|one| one.name == name).unwrap()
    }
}

impl Metric {
    fn named(name: &str, unit: &str) -> Metric {
        let known = METRICS.iter().find(|(known, ..)| *known == name);
        let better = match known.map_or(Better::Neither, |(_, _, better, _)| *better) {
            Better::Less => "less",
            Better::More => "more",
            Better::Neither => "",
        };
        let unit = match unit {
            "Gbps" => "Gbit/s",
            "us" => "µs",
            unit => unit,
        };
        let (title, name, unit) = (words(name), name.to_owned(), unit.to_owned());
        let (least, most) = limits(&name);
        Metric { name, title, unit, better, least, most, cells: Vec::new() }
    }
}

impl Cell {
    fn of(place: Vec<usize>, entry: &Entry) -> Cell {
        let mark = match (entry.is_lower_bound, entry.is_best) {
            (true, _) => Mark::Bound,
            (false, true) => Mark::Best,
            (false, false) => Mark::None,
        };
        let half = entry.half_width.map(short);
        let [mean, least, most] = [entry.mean, entry.min, entry.max].map(short);
        let away = entry.difference.as_ref().map(|of| {
            Away(short(of.mean), of.half_width.map(short), of.n, of.p_holm, of.is_significant)
        });
        let is_maximum = entry.is_maximum && !entry.is_lower_bound;
        Cell(place, mean, half, entry.n, least, most, mark, away, is_maximum)
    }
}

fn sizes(entry: &Entry) -> Option<(u64, Option<u64>)> {
    entry.min_bytes.map(|min| (min, entry.below_bytes))
}

/// Distinct values, in the order of their first appearance.
fn distinct(values: impl Iterator<Item = String>) -> Vec<String> {
    let mut seen = BTreeSet::new();
    values.filter(|value| seen.insert(value.clone())).collect()
}

impl Dimension {
    /// Values in this order, each with a distinct line style.
    fn of(name: &str, values: Vec<String>) -> Dimension {
        let nth = |i: usize| PALETTE[i % PALETTE.len()].to_owned();
        Dimension {
            name: name.to_owned(),
            title: key_words(name),
            numbers: Vec::new(),
            unit: "",
            log: false,
            colors: (0..values.len()).map(nth).collect(),
            markers: (0..values.len()).map(|i| MARKERS[i % MARKERS.len()]).collect(),
            dashes: (0..values.len()).map(|i| i / PALETTE.len()).collect(),
            protocols: false,
            key: false,
            values,
        }
    }

    fn of_key(key: &str, values: impl Iterator<Item = String>) -> Dimension {
        let values = distinct(values);
        let number = |value: &String| tidegate_scenario::magnitude(value);
        let numbers: Option<Vec<(f64, &'static str)>> = values.iter().map(number).collect();
        let alike = |numbers: &Vec<(f64, &'static str)>| {
            numbers.iter().all(|(number, unit)| *unit == numbers[0].1 && number.is_finite())
        };
        if let Some(numbers) = numbers.filter(alike) {
            let unit = numbers.first().map_or("", |(_, unit)| *unit);
            let mut both: Vec<(f64, String)> =
                numbers.into_iter().map(|(number, _)| short(number)).zip(values).collect();
            both.sort_by(|a, b| a.0.total_cmp(&b.0));
            let (numbers, values): (Vec<f64>, Vec<String>) = both.into_iter().unzip();
            let log = suits_log(&numbers);
            return Dimension { numbers, unit, log, key: true, ..Dimension::of(key, values) };
        }
        let protocols = key == PROTOCOL;
        let mut one = Dimension { protocols, key: true, ..Dimension::of(key, values) };
        for (i, value) in one.values.iter().enumerate().filter(|_| protocols) {
            if let Some(info) = Protocol::named(value).map(Protocol::info) {
                one.colors[i] = info.color.to_owned();
                one.markers[i] = info.marker.name();
                one.dashes[i] = info.dash.index();
            }
        }
        one
    }

    fn places(&self) -> BTreeMap<String, usize> {
        self.values.iter().cloned().zip(0..).collect()
    }
}

/// Whether numbers (from the least to the most) span nearly a decade or more, and are more even on
/// a log axis.
fn suits_log(numbers: &[f64]) -> bool {
    let widest = |of: fn(f64) -> f64| {
        let gaps = numbers.windows(2).map(|pair| of(pair[1]) - of(pair[0]));
        gaps.fold(0.0, f64::max) / (of(numbers[numbers.len() - 1]) - of(numbers[0]))
    };
    numbers.len() > 2
        && numbers[0] > 0.0
        && numbers[numbers.len() - 1] >= 8.0 * numbers[0]
        && widest(f64::ln) < widest(|x| x)
}

/// Names flows by label, and by protocol if the label is ambiguous.
struct Namer {
    /// Index of the key that contains a point's protocol.
    protocol: Option<usize>,
    /// Labels of flows that have several protocols at one point.
    shared: BTreeSet<String>,
}

impl Namer {
    fn of(means: &Means) -> Namer {
        let mut shared = BTreeSet::new();
        for point in &means.points {
            let mut own: BTreeMap<&str, &str> = BTreeMap::new();
            for entry in point.metrics.iter().filter(|entry| entry.metric == "retransmitted_bytes")
            {
                if *own.entry(&entry.label).or_insert(&entry.protocol) != entry.protocol {
                    shared.insert(entry.label.clone());
                }
            }
        }
        Namer { protocol: means.keys.iter().position(|key| key == PROTOCOL), shared }
    }

    fn label(&self, point: &Point, entry: &Entry) -> String {
        let label = if entry.label.is_empty() { NONE } else { &entry.label };
        let under = self.protocol.map(|key| text(&point.values[key]));
        if !self.shared.contains(&entry.label) || under.as_ref() == Some(&entry.protocol) {
            return label.to_owned();
        }
        format!("{label}, {}", entry.protocol)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::report::means::tests::{entry, means};

    #[test]
    fn keys_become_axes_in_the_units_of_their_values() {
        let axis = |values: &[&str]| {
            let one = Dimension::of_key("k", values.iter().map(|value| (*value).to_owned()));
            (one.numbers, one.unit, one.log)
        };
        assert_eq!(axis(&["0.5", "0.3", "0.4"]), (vec![0.3, 0.4, 0.5], "", false));
        assert_eq!(axis(&["500KB", "8MB", "2MB"]), (vec![5e5, 2e6, 8e6], "B", true));
        assert_eq!(
            axis(&["10us", "1ms"]),
            (vec![10.0, 1000.0], "us", false),
            "two values are too few"
        );
        assert_eq!(axis(&["30%", "60%"]).0, [0.3, 0.6]);
        assert!(axis(&["1", "2", "4", "8", "16"]).2);
        assert!(!axis(&["10", "30", "50", "70", "90"]).2, "even as they are");
        assert!(!axis(&["0", "1", "10", "100"]).2, "zero has no logarithm");
        assert!(axis(&["10us", "1MB"]).0.is_empty(), "not of one kind");
        assert!(axis(&["websearch", "1KB"]).0.is_empty());
    }

    #[test]
    fn means_have_point_label_and_size() {
        let of = |label: &str, mean| entry(label, "swift", "fct_p99_us", mean);
        let mut small = entry("b", "swift", "size_slowdown_p99", 7.123_456_7);
        small["min_bytes"] = json!(1000);
        small["below_bytes"] = json!(10000);
        (small["is_lower_bound"], small["is_maximum"]) = (json!(true), json!(true));
        let mut few = of("b", 2.0);
        few["is_maximum"] = json!(true);
        let of_points = [
            (json!([0.6, "swift"]), vec![of("a", 1.0), few, small]),
            (json!([0.3, "swift"]), vec![of("a", 3.0)]),
        ];
        let (choice, left_out) = Choice::of(&means(&["load", PROTOCOL], &of_points), 4);
        assert_eq!(left_out, 0);
        let value = serde_json::to_value(&choice).unwrap();
        let cells = |metric: usize| value["metrics"][metric]["cells"].clone();
        assert_eq!(
            cells(0),
            json!([
                [[1, 0, 0, 0], 1.0, 1.5, 2, 0.0, 2.0, "none", null, false],
                [[1, 0, 1, 0], 2.0, 1.5, 2, 1.0, 3.0, "none", null, true],
                [[0, 0, 0, 0], 3.0, 1.5, 2, 2.0, 4.0, "none", null, false],
            ])
        );
        assert_eq!(
            cells(1),
            json!([[[1, 0, 1, 1], 7.1235, 1.5, 2, 6.1235, 8.1235, "bound", null, false]])
        );
        assert_eq!(choice.dimension("size").values, ["all", "1 KB to 10 KB"]);
        let protocols = choice.dimension(PROTOCOL);
        let info = Protocol::named("swift").unwrap().info();
        assert_eq!(protocols.colors, [info.color]);
        assert_eq!(value["metrics"][0]["unit"], "µs");
        assert_eq!(value["metrics"][0]["better"], "less");
        // With a lower limit, metrics of single sizes are omitted first.
        let (fewer, left_out) = Choice::of(&means(&["load", PROTOCOL], &of_points), 3);
        assert_eq!((fewer.metrics.len(), left_out), (1, 1));
        assert_eq!(fewer.metrics[0].name, "fct_p99_us");
    }

    #[test]
    fn shared_labels_include_the_protocol() {
        let both = |under: &str| {
            let of = |protocol| entry("a", protocol, "retransmitted_bytes", 0.0);
            (json!([under]), vec![of(under), of("dctcp"), entry("", "x + y", "drops", 0.0)])
        };
        let labels = |keys: &[&str], points: &[(Value, Vec<Value>)]| {
            Choice::of(&means(keys, points), 100).0.dimension("label").values.clone()
        };
        assert_eq!(labels(&[PROTOCOL], &[both("swift"), both("hpcc")]), ["a", "a, dctcp", NONE]);
        assert_eq!(labels(&["seed"], &[both("swift")]), ["a, swift", "a, dctcp", NONE]);
        let one = [(json!([1]), vec![entry("a", "swift", "retransmitted_bytes", 0.0)])];
        assert_eq!(labels(&["load"], &one), ["a"]);
    }
}
