//! Data of the page's script, as JSON.

use serde::Serialize;
use serde_json::Value;
use tidegate_algos::Protocol;
use tidegate_results::{Fixed, FlowSummary};

use super::choice::Choice;
use super::configurations::Configuration;
use super::fabric::{Carried, Fabric};
use super::flows::size_names;
use super::markup::isolated;
use crate::plot::{PALETTE, Plot, Points, short, thin};

/// Total points over time on a page. Lines are thinned to this, but not below `LEAST` points.
const POINTS_MAX: usize = 150_000;
const LEAST: usize = 12;
/// Total samples of queues for the replay of fabrics.
const SAMPLES_MAX: usize = 150_000;
/// Number of runs whose fabric is drawn.
const FABRICS_MAX: usize = 16;

/// All data of a page.
#[derive(Default, Serialize)]
pub(crate) struct Data {
    /// Plots, indexed by the number in a figure of the page.
    pub(crate) plots: Vec<Plot>,
    /// The runs that are drawn; others appear only in tables.
    pub(crate) runs: Vec<Shown>,
    pub(crate) fabrics: Vec<Fabric>,
    /// Names of the size classes.
    sizes: Vec<String>,
    /// Sweeps, indexed by the number in an element of the page.
    pub(crate) sweeps: Vec<Choice>,
    /// Whether lines over time were thinned.
    pub(crate) thinned: bool,
}

/// A run that is drawn.
#[derive(Serialize)]
pub(crate) struct Shown {
    /// Number of the run; lines refer to it.
    run: usize,
    title: String,
    protocol: Option<String>,
    color: String,
    /// Number of its fabric.
    fabric: Option<usize>,
    carried: Option<Carried>,
    flows: Vec<Flow>,
}

/// A flow with details of its own.
#[derive(Serialize)]
struct Flow {
    id: u64,
    label: String,
    src: String,
    dst: String,
    protocol: String,
    start_us: f64,
    size_bytes: Option<u64>,
    delivered_bytes: u64,
    fct_us: Option<f64>,
    slowdown: Option<f64>,
    goodput_gbps: Option<f64>,
    retransmitted_bytes: u64,
    /// Pairs of ms and Gbit/s.
    #[serde(skip_serializing_if = "Points::is_empty")]
    goodput: Points,
    /// Pairs of ms and KB.
    #[serde(skip_serializing_if = "Points::is_empty")]
    window: Points,
}

impl Shown {
    /// Whether its fabric is drawn.
    pub(crate) fn has_fabric(&self) -> bool {
        self.fabric.is_some()
    }
}

impl Data {
    /// Data of the drawn configurations; plots are added later.
    pub(crate) fn of(all: &[Configuration<'_>]) -> Data {
        let mut data = Data { sizes: size_names(), ..Data::default() };
        let samples = SAMPLES_MAX / all.len().clamp(1, FABRICS_MAX);
        for (i, one) in all.iter().enumerate() {
            let (run, series) = (one.run(), one.run().series.as_ref());
            let mut shown = Shown {
                run: one.first,
                title: one.title.to_owned(),
                protocol: one.protocol.map(str::to_owned),
                color: color(one, i),
                fabric: None,
                carried: None,
                flows: Vec::new(),
            };
            if i < FABRICS_MAX && !run.summary.links.is_empty() {
                let fabric = Fabric::of(&run.summary);
                shown.carried = Some(fabric.carried(&run.summary, series, samples));
                let known = data.fabrics.iter().position(|other| *other == fabric);
                shown.fabric = Some(known.unwrap_or(data.fabrics.len()));
                data.fabrics.extend(known.is_none().then_some(fabric));
            }
            let traces = |id: u64| {
                let goodput = series.and_then(|series| Some(&series.goodput.get(&id)?.1));
                let window = series.and_then(|series| series.windows.get(&id));
                (goodput.cloned().unwrap_or_default(), window.cloned().unwrap_or_default())
            };
            shown.flows =
                run.flows.shown.iter().map(|flow| Flow::new(flow, traces(flow.id))).collect();
            data.runs.push(shown);
        }
        data
    }

    /// Adds a plot and returns its number.
    pub(crate) fn plot(&mut self, plot: Plot) -> usize {
        self.plots.push(plot);
        self.plots.len() - 1
    }

    /// Thins lines over time so that the page stays small.
    pub(crate) fn thin(&mut self) {
        let lines = self.plots.iter_mut().filter(|plot| plot.distribution.is_none());
        let lines = lines.flat_map(|plot| &mut plot.lines);
        // Lines with flows or ranges are not thinned, because those belong to single points.
        let lines = lines.filter(|line| !line.apart && line.range.is_empty());
        let traces = self.runs.iter_mut().flat_map(|run| &mut run.flows);
        let traces = traces.flat_map(|flow| [&mut flow.goodput, &mut flow.window]);
        let all = lines.map(|line| &mut line.points).chain(traces);
        self.thinned = thin(all, POINTS_MAX, LEAST);
    }

    /// JSON that is safe inside a script element. Texts are isolated in their writing direction.
    pub(crate) fn json(&self) -> String {
        let mut value = serde_json::to_value(self).expect("every key is a string");
        isolate(&mut value);
        value.to_string().replace('<', "\\u003c")
    }
}

impl Flow {
    fn new(flow: &FlowSummary, (goodput, window): (Points, Points)) -> Flow {
        Flow {
            id: flow.id,
            label: flow.label.clone(),
            src: flow.src.clone(),
            dst: flow.dst.clone(),
            protocol: flow.protocol.clone(),
            start_us: flow.start_us.as_f64(),
            size_bytes: flow.size_bytes,
            delivered_bytes: flow.delivered_bytes,
            fct_us: flow.fct_us.map(Fixed::as_f64),
            slowdown: flow.slowdown.map(Fixed::as_f64),
            goodput_gbps: flow.goodput_gbps.map(short),
            retransmitted_bytes: flow.retransmitted_bytes,
            goodput,
            window,
        }
    }
}

fn color(one: &Configuration<'_>, place: usize) -> String {
    let info = one.protocol.and_then(Protocol::named).map(Protocol::info);
    info.map_or(PALETTE[place % PALETTE.len()], |info| info.color).to_owned()
}

fn isolate(value: &mut Value) {
    match value {
        Value::String(text) => *text = isolated(text).into_owned(),
        Value::Array(items) => items.iter_mut().for_each(isolate),
        // Keys are constant strings of this crate.
        Value::Object(entries) => entries.values_mut().for_each(isolate),
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn data_cannot_end_the_script_or_reverse_text() {
        let mut data = Data::default();
        data.plot(Plot { title: "</script><!-- \u{202e}".to_owned(), ..Plot::default() });
        let json = data.json();
        assert!(!json.contains('<') && !json.contains('\u{202e}'), "{json}");
        let back: Value = serde_json::from_str(&json).unwrap();
        assert_eq!(back["plots"][0]["title"], "\u{2068}</script><!-- \u{fffd}\u{2069}");
    }
}
