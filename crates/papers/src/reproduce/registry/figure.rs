//! A figure of a paper.

#[cfg(test)]
use std::collections::BTreeSet;
use std::sync::OnceLock;

use serde::Deserialize;
use tidegate_algos::Protocol;
use tidegate_core::Span;
use tidegate_scenario::{Override, Plan};

use super::super::planned::Planned;
use super::comparison::Comparison;
use super::grid::Grid;
use super::query::means;
use super::{Chart, ChartKind, Choice, Claim, Paper, Query, Run, SCENARIOS, Table};
use tidegate_live::Medium;
use tidegate_runs::Error;
use tidegate_runs::cache::Recording;
use tidegate_runs::estimate::Estimate;
use tidegate_runs::observe::Observations;

/// A figure: its runs, charts and claims.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Figure {
    /// Number in the paper, from the file's name: `7a` of `figure-07a`.
    #[serde(skip)]
    pub(crate) name: String,
    /// Name of the file, and of its scenario.
    #[serde(skip)]
    pub(super) file: String,
    pub(crate) title: String,
    /// Introduction to its claims.
    #[serde(default)]
    pub(crate) about: String,
    /// Its result in a sentence, if it has no claims.
    #[serde(default)]
    pub(crate) result: String,
    /// Sampling interval of flows and queues, in microseconds.
    trace_us: Option<f64>,
    /// `key=value` overrides for all runs.
    #[serde(default)]
    set: Vec<String>,
    /// Another figure whose runs this one also uses.
    pub(super) runs_of: Option<String>,
    #[serde(default, rename = "run")]
    pub(crate) runs: Vec<Run>,
    /// Grids of runs, after the single runs.
    #[serde(default, rename = "grid")]
    grids: Vec<Grid>,
    #[serde(default, rename = "chart")]
    pub(crate) charts: Vec<Chart>,
    #[serde(default, rename = "claim")]
    pub(crate) claims: Vec<Claim>,
    /// Tables of another simulator's numbers; each number becomes a claim after the others.
    #[serde(default, rename = "comparison")]
    comparisons: Vec<Comparison>,
    /// Negative controls of comparisons.
    #[serde(default, rename = "wrong")]
    #[cfg_attr(not(test), expect(dead_code, reason = "a test makes these runs"))]
    pub(crate) wrong: Vec<Wrong>,
    #[serde(default, rename = "fact")]
    pub(crate) facts: Vec<Fact>,
    #[serde(default, rename = "table")]
    pub(crate) tables: Vec<Table>,
    /// Properties of its plans, once they are known.
    #[serde(skip)]
    pub(crate) planned: OnceLock<Planned>,
}

/// A measured value for which the paper gives no number.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Fact {
    pub(crate) text: String,
    pub(crate) unit: String,
    /// Each of its `runs` is measured by itself.
    pub(crate) measure: Query,
}

/// A run with a wrong parameter. Comparisons with numbers of another simulator have no control in
/// their figure; if they do not notice this parameter, they show nothing.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
#[cfg_attr(not(test), expect(dead_code, reason = "a test makes these runs"))]
pub(crate) struct Wrong {
    pub(crate) run: String,
    /// The wrong parameter.
    set: String,
    /// Claims that hold in the run, and deviate with the wrong parameter.
    pub(crate) claims: Vec<String>,
}

#[cfg(test)]
impl Wrong {
    /// The run with the wrong parameter.
    pub(crate) fn run(&self, figure: &Figure) -> Run {
        let mut run = figure.runs[figure.run(&self.run).expect(&self.run)].clone();
        run.set.push(self.set.clone());
        run
    }
}

/// Everything that a plan follows from: a scenario of the registry and its overrides.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct PlanSource<'a> {
    /// The scenario, as folder/name.
    scenario: String,
    protocol: Option<&'a str>,
    /// `key=value` overrides, in order.
    set: Vec<&'a String>,
    seed: u64,
}

impl PlanSource<'_> {
    pub(crate) fn plan(&self) -> Result<Plan, Error> {
        let name = &self.scenario;
        let text = SCENARIOS.iter().find(|(known, _)| known == name).map(|(_, text)| *text);
        let text = text.ok_or_else(|| Error::Run(format!("unknown scenario {name}")))?;
        let mut overrides = Vec::new();
        if let Some(protocol) = self.protocol {
            overrides.push(Override::protocol("reproduce", protocol));
        }
        for set in &self.set {
            overrides.push(tidegate_runs::set(set)?);
        }
        overrides.push(Override::option("reproduce", "seed", &self.seed.to_string()));
        let origin = format!("scenarios/{name}.toml");
        tidegate_scenario::load(text, &origin, &overrides).map_err(Error::scenario)
    }
}

impl Figure {
    /// Parses a figure from the text of a file, with all of its runs or those of `--quick`. Runs of
    /// other figures and names are resolved later, in [`resolved`](Figure::resolved).
    pub(crate) fn read(file: &str, text: &str, quick: bool) -> Result<Figure, String> {
        let number = file.strip_prefix("figure-").map(|number| number.trim_start_matches('0'));
        let number = number.filter(|number| !number.is_empty());
        let name = number.ok_or("expected a file name such as `figure-07a.toml`")?.to_owned();
        let figure: Figure = toml::from_str(text).map_err(|error| error.to_string())?;
        let mut figure = Figure { name, file: file.to_owned(), ..figure };
        for grid in &figure.grids {
            figure.runs.extend(grid.runs(quick)?);
        }
        for comparison in &figure.comparisons {
            figure.claims.extend(comparison.claims()?);
        }
        Ok(figure)
    }

    /// Adds the runs of another figure, and expands all names.
    pub(crate) fn resolved(mut self, others: &[Run]) -> Result<Figure, String> {
        self.runs.extend_from_slice(others);
        let names: Vec<String> = self.runs.iter().map(|run| run.name.clone()).collect();
        self.tables.iter_mut().for_each(Table::spell_out);
        let each = |chart: &Chart| {
            let each = chart.each(&names);
            each.map_err(|fault| format!("chart {:?}: {fault}", chart.title))
        };
        let charts: Vec<Vec<Chart>> = self.charts.iter().map(each).collect::<Result<_, _>>()?;
        self.charts = charts.into_iter().flatten().collect();
        let facts = self.facts.iter_mut().map(|fact| &mut fact.measure);
        let queries = self.claims.iter_mut().flat_map(Claim::all_queries_mut).chain(facts);
        queries.for_each(|query| query.spell_out(&names));
        self.fault().map_or(Ok(self), Err)
    }

    /// Whether a number or a name selects this figure: `14` selects 14, 14b and so on, and `live`
    /// only that figure.
    pub(crate) fn is_meant(&self, name: &str) -> bool {
        let is_digit = |c: char| c.is_ascii_digit();
        match self.name.strip_prefix(name) {
            Some(rest) if name.ends_with(is_digit) => !rest.starts_with(is_digit),
            Some(rest) => rest.is_empty(),
            None => false,
        }
    }

    /// Whether any of its runs is live. Such figures run only when named, because they
    /// need the whole machine.
    pub(crate) fn is_real(&self) -> bool {
        self.runs.iter().any(|run| run.medium() != Medium::Simulated)
    }

    /// Whether a claim's value can depend on the seed. Values of models cannot.
    pub(crate) fn has_chance(&self, claim: &Claim) -> bool {
        let mut runs = claim.queries().flat_map(|query| self.runs_of(query));
        runs.any(|run| self.runs[run].model.is_none())
    }

    /// Index of the run of that name.
    pub(crate) fn run(&self, name: &str) -> Option<usize> {
        self.runs.iter().position(|run| run.name == name)
    }

    /// Whether a claim, or its control, uses that run.
    pub(crate) fn is_claimed(&self, run: &Run) -> bool {
        let queries = || self.claims.iter().flat_map(Claim::all_queries);
        queries().any(|query| query.is_for(&run.name))
    }

    /// Indices of the runs that a query names.
    pub(crate) fn runs_of(&self, query: &Query) -> impl Iterator<Item = usize> {
        (0..self.runs.len()).filter(|&run| query.is_for(&self.runs[run].name))
    }

    /// The value of the runs that one name of a query selects, each with several seeds.
    pub(crate) fn value<'a>(
        &self,
        query: &Query,
        name: &str,
        seen: impl Fn(usize) -> &'a [&'a Observations],
    ) -> Option<f64> {
        let value = |run| {
            let seeds = seen(run);
            query.metric.mean_value(seeds).filter(|_| query.takes(seeds))
        };
        let Some(pick) = query.pick else { return value(self.run(name)?) };
        let runs = (0..self.runs.len()).filter(|&run| means(name, &self.runs[run].name));
        pick.of(runs.filter_map(value))
    }

    /// The value with its confidence interval.
    pub(crate) fn estimate<'a>(
        &self,
        query: &Query,
        name: &str,
        seen: impl Fn(usize) -> &'a [&'a Observations],
    ) -> Option<Estimate> {
        let mean = self.value(query, name, &seen)?;
        let seeds = seen(0).len();
        let one = |seed: usize| self.value(query, name, |run| &seen(run)[seed..=seed]);
        let each: Option<Vec<f64>> = (0..seeds).map(one).collect();
        let half = each.and_then(|each| Estimate::of(&each)?.half);
        Some(Estimate { mean, half })
    }

    /// Whether a chart draws that run.
    pub(crate) fn draws(&self, chart: &Chart, run: &Run) -> bool {
        if chart.runs.is_empty() {
            return run.drawn;
        }
        chart.runs.iter().any(|name| means(name, &run.name))
    }

    /// Title of a plot.
    pub(crate) fn plot_title(&self, what: &str) -> String {
        format!("Figure {}: {what}", self.name)
    }

    /// Name of a run's line in a chart.
    pub(crate) fn line_name(&self, chart: &Chart, run: usize) -> String {
        let run = &self.runs[run];
        if chart.kind != ChartKind::Sweep {
            return chart.calls(&run.name).to_owned();
        }
        let title = || Some(Protocol::named(run.protocol.as_ref()?)?.info().title.to_owned());
        run.line.clone().or_else(title).unwrap_or_default()
    }

    /// Measurements of a run that claims and charts need.
    pub(crate) fn recording(&self, run: &Run) -> Recording {
        let queries = self.claims.iter().flat_map(Claim::all_queries);
        let queries = queries.chain(self.facts.iter().map(|fact| &fact.measure));
        let queries = queries.chain(self.tables.iter().map(|table| &table.cells));
        let queries = queries.filter(|query| query.is_for(&run.name));
        let drawn = self.charts.iter().filter(|chart| self.draws(chart, run));
        let parts = queries.flat_map(Query::needs);
        Recording {
            interval: run.trace_us.or(self.trace_us).map(Span::from_us_f64),
            parts: parts.chain(drawn.flat_map(Chart::needs)).collect(),
            carrier: run.medium().key(),
        }
    }

    /// The scenario of a run, as folder/name.
    fn scenario(&self, paper: &Paper, run: &Run) -> String {
        let scenario = run.scenario.as_ref().unwrap_or(&self.file);
        match scenario.contains('/') {
            true => scenario.clone(),
            false => format!("{}/{scenario}", paper.name),
        }
    }

    /// The scenarios of all runs, as folder/name.
    #[cfg(test)]
    pub(crate) fn scenarios(&self, paper: &Paper) -> BTreeSet<String> {
        let packets = self.runs.iter().filter(|run| run.model.is_none());
        packets.map(|run| self.scenario(paper, run)).collect()
    }

    /// The source of a run's plan.
    pub(crate) fn source<'a>(
        &'a self,
        paper: &'a Paper,
        run: &'a Run,
        seed: u64,
        choice: Option<Choice>,
    ) -> PlanSource<'a> {
        PlanSource {
            scenario: self.scenario(paper, run),
            protocol: run.protocol.as_deref(),
            set: paper.chosen(self, run, choice).chain(&self.set).chain(&run.set).collect(),
            seed,
        }
    }

    /// The plan of a run.
    pub(crate) fn plan(
        &self,
        paper: &Paper,
        run: &Run,
        seed: u64,
        choice: Option<Choice>,
    ) -> Result<Plan, Error> {
        self.source(paper, run, seed, choice).plan()
    }

    /// The first fault of the figure: a name without runs, or a measurement that is needed but not
    /// recorded.
    pub(super) fn fault(&self) -> Option<String> {
        let claimed = self.claims.iter().flat_map(|claim| {
            claim.all_queries().map(move |query| (format!("claim {}", claim.name), query))
        });
        let facts = self.facts.iter().map(|fact| (format!("fact {:?}", fact.text), &fact.measure));
        let tables = self.tables.iter();
        let tables = tables.map(|table| (format!("table {:?}", table.title), &table.cells));
        for (of, query) in claimed.chain(facts).chain(tables) {
            if query.runs.is_empty() {
                return Some(format!("{of}: set `run` or `runs`"));
            }
            if let Some(missing) = query.runs.iter().find(|name| !self.knows(name)) {
                return Some(format!("{of}: {}", self.no_run(missing)));
            }
            if query.pick.is_none()
                && let Some(name) = query.runs.iter().find(|name| name.contains('*'))
            {
                return Some(format!("{of}: `{name}` selects several runs: set `pick`"));
            }
        }
        if let Some(claim) = self.claims.iter().find(|claim| claim.is_unpaired()) {
            let name = &claim.name;
            return Some(format!(
                "claim {name}: the runs of `measure`, `over` and `base` do not match"
            ));
        }
        for run in self.runs.iter().filter(|run| run.model.is_some()) {
            if run.protocol.is_some() || run.scenario.is_some() || !run.set.is_empty() {
                let name = &run.name;
                return Some(format!(
                    "run {name}: `protocol`, `scenario` and `set` are not allowed with `model`"
                ));
            }
        }
        if let Some(run) = self.runs.iter().find(|run| run.real && run.tcp.is_some()) {
            return Some(format!("run {}: set `real` or `tcp`, not both", run.name));
        }
        for chart in &self.charts {
            let missing = chart.runs.iter().find(|name| !self.knows(name));
            let missing = missing.map(|name| self.no_run(name));
            let drawn = self.runs.iter().filter(|run| self.draws(chart, run));
            let models = drawn.clone().filter(|run| run.model.is_some()).count();
            let mixed = chart.mixed(models, drawn.count()).map(str::to_owned);
            if let Some(fault) = chart.fault().map(str::to_owned).or(missing).or(mixed) {
                return Some(format!("chart {:?}: {fault}", chart.title));
            }
        }
        let packets = self.runs.iter().filter(|run| run.model.is_none());
        let mut runs = packets.map(|run| (run, self.recording(run)));
        let (run, recording) = runs.find(|(_, recording)| recording.lacks_interval())?;
        let parts = recording.parts;
        Some(format!("run {}: set `trace_us`, which {parts:?} need", run.name))
    }

    /// Whether a name selects any run.
    fn knows(&self, name: &str) -> bool {
        self.runs.iter().any(|run| means(name, &run.name))
    }

    fn no_run(&self, name: &str) -> String {
        let known: Vec<&str> = self.runs.iter().map(|run| run.name.as_str()).collect();
        format!("unknown run `{name}`; expected one of {}", known.join(", "))
    }
}
