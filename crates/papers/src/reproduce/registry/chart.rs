//! Charts of a figure's runs.

use std::fmt;

use serde::Deserialize;

use super::Query;
use super::query::each;
use crate::reproduce::metrics::Port;
use tidegate_runs::observe::{Measurement, Traced};

/// One plot.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Chart {
    pub(crate) title: String,
    pub(crate) kind: ChartKind,
    /// Names of the runs, in which `*` stands for anything; by default all. With `{}`, there is a
    /// plot for each replacement, which also applies to the title.
    #[serde(default)]
    pub(crate) runs: Vec<String>,
    /// Quantity of a series.
    pub(crate) quantity: Option<Traced>,
    /// The metric of a sweep.
    pub(crate) of: Option<Query>,
    /// Metric on the x axis of a sweep, in place of the runs' `x`. Runs are joined in the order of
    /// `x`.
    pub(crate) along: Option<Query>,
    /// Sizes in bytes that divide the messages of a chart of sizes; by default powers of ten and
    /// their halves.
    #[serde(default)]
    pub(crate) ends: Vec<u64>,
    /// A chart of sizes shows slowdowns relative to propagation and payload only.
    #[serde(default)]
    pub(crate) bare: bool,
    /// A second metric of the same runs, drawn for comparison in a sweep.
    pub(crate) against: Option<Against>,
    /// Label of a distribution's messages; by default messages without a label.
    #[serde(default)]
    pub(crate) label: String,
    /// Share of the messages of a size that lie below the line.
    pub(crate) share: Option<f64>,
    /// Lines of a series.
    #[serde(default)]
    pub(crate) labels: Vec<Curve>,
    /// Port of the queue in a phase plot of packets.
    pub(crate) port: Option<Port>,
    /// States of a chart of reactions: position on the x axis, queue in BDPs, and its growth as a
    /// share of the link's rate.
    #[serde(default)]
    pub(crate) states: Vec<(f64, f64, f64)>,
    /// Groups of points of a chart of points.
    #[serde(default)]
    pub(crate) points: Vec<PaperPoints>,
    /// Draws a line for each flow instead.
    #[serde(default)]
    pub(crate) each: bool,
    /// Lines of labels are sums of their flows instead of means.
    #[serde(default)]
    pub(crate) sum: bool,
    /// Circuit whose days are shaded.
    pub(crate) days_of: Option<Port>,
    pub(crate) x: String,
    pub(crate) y: String,
    #[serde(default)]
    pub(crate) log_x: bool,
    #[serde(default)]
    pub(crate) log_y: bool,
    /// Start of the time axis, in milliseconds.
    pub(crate) from_ms: Option<f64>,
    pub(crate) to_ms: Option<f64>,
    /// Width over which time series are averaged, in microseconds.
    #[serde(default)]
    pub(crate) smooth_us: f64,
}

/// Points that a paper states.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct PaperPoints {
    pub(crate) name: String,
    pub(crate) points: Vec<(f64, f64)>,
}

/// A metric with the name of its line.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Against {
    pub(crate) name: String,
    pub(crate) of: Query,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum ChartKind {
    /// A quantity over time.
    Series,
    /// Completion times, cumulative.
    Cdf,
    /// Times of exchanges in closed loops, cumulative, by label of their requests.
    Exchanges,
    /// Completion times, as the share that took longer.
    Tail,
    /// Quantile of slowdowns, by message size.
    Sizes,
    /// ToR buffers in KB, cumulative over time.
    BufferCdf,
    /// Queues towards hosts in KB, cumulative over hosts and time.
    DownlinkCdf,
    /// A metric over the x of the runs.
    Sweep,
    /// The total window over the queue. Models are drawn from each start, with the direction field
    /// of the first model that has one; packets are drawn over these.
    Phase,
    /// The divisor of models' windows.
    Reaction,
    /// Points that no run measures.
    Points,
}

/// A line of a series.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(try_from = "String")]
pub(crate) enum Curve {
    /// The mean of a label's flows, `victim`; with a quantity of its own, `victim:target`.
    Flows(String, Option<Traced>),
    /// The goodput of all flows together, `*`.
    Together,
    /// The queue of a port: as queueing delay, `tor0>h0`, or in KB, `tor0>h0:kb`.
    Queue(Port, Waiting),
}

/// Unit of a queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Waiting {
    Delay,
    Kilobytes,
}

impl TryFrom<String> for Curve {
    type Error = String;

    fn try_from(text: String) -> Result<Curve, String> {
        if text == "*" {
            return Ok(Curve::Together);
        }
        if text.contains('>') {
            let (port, waiting) = match text.strip_suffix(":kb") {
                Some(port) => (port.to_owned(), Waiting::Kilobytes),
                None => (text, Waiting::Delay),
            };
            return Port::try_from(port).map(|port| Curve::Queue(port, waiting));
        }
        let Some((label, quantity)) = text.split_once(':') else {
            return Ok(Curve::Flows(text, None));
        };
        let quantity = Traced::deserialize(toml::Value::from(quantity));
        let quantity = quantity.map_err(|error| format!("`{text}`: {}", error.message()))?;
        Ok(Curve::Flows(label.to_owned(), Some(quantity)))
    }
}

/// Name in the legend.
impl fmt::Display for Curve {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Curve::Together => f.write_str("all flows together"),
            Curve::Flows(label, None) => f.write_str(label),
            Curve::Flows(label, Some(quantity)) => write!(f, "{label} {}", quantity.name()),
            Curve::Queue(Port { from, to }, _) => write!(f, "{from} to {to}"),
        }
    }
}

impl Chart {
    /// Measurements that the drawn runs need.
    pub(crate) fn needs(&self) -> Vec<Measurement> {
        let traced = |quantity| match quantity {
            Traced::Window => Measurement::Windows,
            _ => Measurement::Traces,
        };
        match self.kind {
            ChartKind::Series => {
                let line = |curve: &Curve| match curve {
                    Curve::Flows(_, quantity) => quantity.or(self.quantity).map(traced),
                    Curve::Together => Some(Measurement::Traces),
                    Curve::Queue(..) => Some(Measurement::Queues),
                };
                let each = self.quantity.filter(|_| self.each).map(traced);
                let days = self.days_of.as_ref().map(|_| Measurement::Circuits);
                self.labels.iter().filter_map(line).chain(each).chain(days).collect()
            }
            ChartKind::Cdf | ChartKind::Tail => vec![Measurement::Messages],
            ChartKind::Exchanges => vec![Measurement::Exchanges],
            ChartKind::Sizes if self.bare => vec![Measurement::BareSlowdowns],
            ChartKind::Sizes => vec![Measurement::Slowdowns],
            ChartKind::BufferCdf => vec![Measurement::Buffers],
            ChartKind::DownlinkCdf => vec![Measurement::Downlinks],
            ChartKind::Points => Vec::new(),
            ChartKind::Sweep => self.queries().flat_map(Query::needs).collect(),
            ChartKind::Phase => vec![Measurement::Windows, Measurement::Queues],
            ChartKind::Reaction => Vec::new(),
        }
    }

    /// The plots of the chart, with expanded names.
    pub(super) fn each(&self, runs: &[String]) -> Result<Vec<Chart>, String> {
        let Some(name) = self.runs.iter().find(|name| name.contains("{}")) else {
            return Ok(vec![self.clone()]);
        };
        if self.runs.len() > 1 {
            return Err("a chart with `{}` must have a single name in `runs`".to_owned());
        }
        let named = |(value, name): (String, String)| Chart {
            title: self.title.replace("{}", &value),
            runs: vec![name],
            ..self.clone()
        };
        let all: Vec<Chart> = each(name, runs).into_iter().map(named).collect();
        if all.is_empty() { Err(format!("no run matches `{name}`")) } else { Ok(all) }
    }

    /// Name of a run in the legend: the part of its name that matches `*`.
    pub(crate) fn calls<'a>(&self, run: &'a str) -> &'a str {
        let [name] = &self.runs[..] else { return run };
        let part = name.split_once('*').and_then(|(start, end)| {
            run.strip_prefix(start)?.strip_suffix(end).filter(|part| !part.is_empty())
        });
        part.unwrap_or(run)
    }

    /// Whether each run has a plot of its own, with a line for each label or flow.
    pub(crate) fn has_panels(&self) -> bool {
        self.kind == ChartKind::Series && (self.each || self.labels.len() != 1)
    }

    /// All queries of the chart.
    pub(super) fn queries(&self) -> impl Iterator<Item = &Query> {
        self.of.iter().chain(&self.along).chain(self.against.iter().map(|other| &other.of))
    }

    /// The first fault of the chart, if any.
    pub(super) fn fault(&self) -> Option<&'static str> {
        match self.kind {
            ChartKind::Series if self.quantity.is_none() => Some("a series needs a `quantity`"),
            ChartKind::Series if self.labels.is_empty() && !self.each => {
                Some("a series needs `labels` or `each = true`")
            }
            ChartKind::Series => None,
            _ if self.days_of.is_some() => Some("`days_of` requires `kind = 'series'`"),
            ChartKind::Points if self.points.is_empty() => Some("a chart of points needs `points`"),
            ChartKind::Sizes if self.share.is_none() => Some("a chart of sizes needs a `share`"),
            ChartKind::Sweep if self.of.is_none() => Some("a sweep needs `of`, a metric"),
            ChartKind::Reaction if self.states.is_empty() => Some("a reaction needs `states`"),
            _ if self.queries().any(|query| !query.runs.is_empty()) => {
                Some("queries of a chart must not name runs")
            }
            _ if self.queries().any(|query| query.pick.is_some()) => {
                Some("`pick` is not allowed in a chart")
            }
            _ => None,
        }
    }
}

impl Chart {
    /// The fault of drawing this number of models among this number of runs, if any.
    pub(super) fn mixed(&self, models: usize, runs: usize) -> Option<&'static str> {
        match self.kind {
            ChartKind::Phase if models < runs && self.port.is_none() => {
                Some("a phase plot of packets needs a `port`")
            }
            ChartKind::Reaction if models < runs => Some("only models have a reaction"),
            ChartKind::Phase | ChartKind::Reaction | ChartKind::Sweep | ChartKind::Points => None,
            _ if models > 0 => Some("a model needs a `phase`, `reaction` or `sweep` chart"),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn legends_show_the_differing_part() {
        let calls = |runs: &str, run: &str| {
            let text = format!("title = '{{}}'\nkind = 'cdf'\nx = ''\ny = ''\nruns = {runs}");
            toml::from_str::<Chart>(&text).unwrap().calls(run).to_owned()
        };
        assert_eq!(calls("['a, *, 50 %']", "a, b, 50 %"), "b");
        assert_eq!(calls("['a, *']", "a, b, 50 %"), "b, 50 %");
        for runs in ["['a, b']", "['a, *', 'c']", "[]", "['a, b*']", "['a, * and *']"] {
            assert_eq!(calls(runs, "a, b"), "a, b", "{runs}");
        }
    }

    #[test]
    fn each_expanded_chart_has_its_title() {
        let text = "title = 'of {}'\nkind = 'cdf'\nx = ''\ny = ''\nruns = ['{}, *']";
        let chart: Chart = toml::from_str(text).unwrap();
        let runs = ["a, 1", "a, 2", "b, 1"].map(str::to_owned);
        let each = chart.each(&runs).unwrap().into_iter().map(|chart| (chart.title, chart.runs));
        let expected = [("of a", "a, *"), ("of b", "b, *")];
        assert!(each.eq(expected.map(|(title, run)| (title.to_owned(), vec![run.to_owned()]))));
        let refused = |names: &[&str]| {
            let names = names.iter().map(|&name| name.to_owned()).collect();
            Chart { runs: names, ..chart.clone() }.each(&runs).unwrap_err()
        };
        assert!(refused(&["c {}, *"]).contains("no run matches `c {}, *`"));
        assert!(refused(&["{}, *", "a, 1"]).contains("single name in `runs`"));
    }

    #[test]
    fn lines_are_flows_or_ports() {
        let curve = |text: &str| Curve::try_from(text.to_owned());
        assert_eq!(curve("victim"), Ok(Curve::Flows("victim".to_owned(), None)));
        let target = curve("victim:target").unwrap();
        assert_eq!(target, Curve::Flows("victim".to_owned(), Some(Traced::Target)));
        assert_eq!(target.to_string(), "victim target");
        assert_eq!(curve("tor0>h0").unwrap().to_string(), "tor0 to h0");
        assert!(matches!(curve("tor0>h0"), Ok(Curve::Queue(_, Waiting::Delay))));
        assert!(matches!(curve("tor0>h0:kb"), Ok(Curve::Queue(port, Waiting::Kilobytes))
            if port.to == "h0"));
        assert_eq!(curve("*"), Ok(Curve::Together));
        assert!(curve("victim:aim").unwrap_err().contains("unknown variant `aim`, expected"));
        assert!(curve(">h0").unwrap_err().contains("is not a port"));
    }
}
