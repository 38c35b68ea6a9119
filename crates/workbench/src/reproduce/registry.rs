//! What the papers claim and how it is measured, as data: one file a paper, one entry a figure.

use serde::Deserialize;
use tidegate_core::Time;
use tidegate_scenario::{Override, Plan};

use super::metrics::{self, Ask};
use crate::Error;

include!(concat!(env!("OUT_DIR"), "/embedded.rs"));

/// A paper.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Paper {
    /// As the command line names it, and the folder of its scenarios.
    pub(crate) name: String,
    /// As people write it.
    pub(crate) title: String,
    /// What a reader of the claims has to know.
    pub(crate) about: String,
    #[serde(default, rename = "open")]
    pub(crate) opens: Vec<Open>,
    #[serde(rename = "figure")]
    pub(crate) figures: Vec<Figure>,
}

/// Something that the paper does not tell, what is taken for it in every figure, and what else it
/// could be.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Open {
    pub(crate) name: String,
    /// What is taken for it, in words.
    pub(crate) chosen: String,
    pub(crate) why: String,
    /// `key=value`; nothing where the default is what is chosen.
    #[serde(default)]
    set: Vec<String>,
    /// Only under these protocols; under all unless set.
    #[serde(default)]
    protocols: Vec<String>,
    /// Only in these figures; in all unless set.
    #[serde(default)]
    figures: Vec<String>,
    pub(crate) instead: Vec<Instead>,
}

/// An alternative.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Instead {
    pub(crate) name: String,
    set: Vec<String>,
}

/// An alternative among those of a paper: the number of what is open, and its own.
pub(crate) type Choice = (usize, usize);

/// A figure: what is run, what is drawn, what is claimed.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Figure {
    /// The paper's number.
    pub(crate) name: String,
    pub(crate) title: String,
    /// What a reader of its claims has to know.
    #[serde(default)]
    pub(crate) about: String,
    /// File in the paper's folder of scenarios, without `.toml`.
    scenario: String,
    /// Interval at which flows are recorded, in microseconds; nothing is unless set.
    #[serde(default)]
    trace_us: Option<f64>,
    /// Windows are recorded too.
    #[serde(default)]
    windows: bool,
    /// The queues of switches are, too.
    #[serde(default)]
    queues: bool,
    /// `key=value` for all runs.
    #[serde(default)]
    set: Vec<String>,
    #[serde(rename = "run")]
    pub(crate) runs: Vec<Run>,
    #[serde(default, rename = "chart")]
    pub(crate) charts: Vec<Chart>,
    #[serde(default, rename = "claim")]
    pub(crate) claims: Vec<Claim>,
    #[serde(default, rename = "fact")]
    pub(crate) facts: Vec<Fact>,
}

/// Something measured that the paper gives no value for.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Fact {
    pub(crate) text: String,
    pub(crate) unit: String,
    /// Its `runs` are asked one by one.
    pub(crate) measure: Ask,
}

/// Every figure is run with so many seeds, from 1 on. `--quick` takes one, and so do alternatives.
pub(crate) const SEEDS: u64 = 3;

/// One variant of a figure's scenario.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Run {
    pub(crate) name: String,
    /// Takes the place of the transport's protocol.
    pub(crate) protocol: Option<String>,
    /// Another scenario than the figure's.
    scenario: Option<String>,
    #[serde(default)]
    set: Vec<String>,
    /// Another interval of its trace than the figure's.
    #[serde(default)]
    trace_us: Option<f64>,
    /// Where it stands on the x axis of a sweep.
    pub(crate) x: Option<f64>,
    /// Which line of a sweep it belongs to; its protocol unless set.
    pub(crate) line: Option<String>,
    /// False: only controls ask it, and it is in no plot that does not name it.
    #[serde(default = "yes")]
    pub(crate) drawn: bool,
}

const fn yes() -> bool {
    true
}

/// One plot.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Chart {
    pub(crate) title: String,
    pub(crate) kind: ChartKind,
    /// Of runs with these names; all unless set.
    #[serde(default)]
    pub(crate) runs: Vec<String>,
    /// What is drawn over time, or the metric of a sweep.
    #[serde(default)]
    pub(crate) of: Option<Ask>,
    /// What a sweep is held against: a second metric of the same runs.
    #[serde(default)]
    pub(crate) against: Option<Against>,
    /// Lines of a time series; each is the mean of a label's flows.
    #[serde(default)]
    pub(crate) labels: Vec<String>,
    /// A line for each flow instead.
    #[serde(default)]
    pub(crate) each: bool,
    pub(crate) x: String,
    pub(crate) y: String,
    #[serde(default)]
    pub(crate) log_x: bool,
    #[serde(default)]
    pub(crate) log_y: bool,
    /// Of time, in milliseconds.
    #[serde(default)]
    pub(crate) from_ms: Option<f64>,
    #[serde(default)]
    pub(crate) to_ms: Option<f64>,
    /// Time series are averaged over so many microseconds.
    #[serde(default)]
    pub(crate) smooth_us: f64,
}

/// A metric and the name of its line.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Against {
    pub(crate) name: String,
    pub(crate) of: Ask,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum ChartKind {
    /// A quantity over time.
    Series,
    /// Completion times, cumulative.
    Cdf,
    /// The same, as the share that took longer.
    Tail,
    /// A metric over the x of the runs.
    Sweep,
}

/// A claim of the paper.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Claim {
    pub(crate) name: String,
    pub(crate) text: String,
    /// The sentence of the paper that this is one way to read, where there are several.
    pub(crate) reading_of: Option<String>,
    /// The paper's value; none where it gives no number.
    pub(crate) paper: Option<f64>,
    /// The paper does not print that number: it is what its words come to (fair, full, the target
    /// of a rate).
    #[serde(default)]
    pub(crate) derived: bool,
    pub(crate) unit: String,
    #[serde(default)]
    form: Form,
    measure: Ask,
    /// What it is compared with.
    over: Option<Ask>,
    /// Where a gain begins.
    base: Option<Ask>,
    /// Measured values that reproduce the claim, ends included; none where the paper measured
    /// something else than what is simulated.
    reproduced: Option<(f64, f64)>,
    /// Measured values that at least point the same way; by [`Claim::direction`] unless set.
    direction: Option<(f64, f64)>,
    /// Where the claim should not hold.
    pub(crate) control: Control,
    /// Why these bounds.
    pub(crate) tolerance: String,
    /// What else is known of it.
    #[serde(default)]
    pub(crate) note: String,
}

/// Another protocol or parameter, under which the claim has to fail: a check that passes there too
/// shows nothing. What is not asked anew is asked as in the claim.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Control {
    /// What is different.
    pub(crate) of: String,
    measure: Option<Ask>,
    over: Option<Ask>,
    base: Option<Ask>,
}

/// How two measurements become the claim's value.
#[derive(Clone, Copy, Debug, Default, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Form {
    /// The first alone.
    #[default]
    Value,
    /// First over second.
    Ratio,
    /// By how many per cent the first is below the second.
    ReductionPercent,
    /// How many per cent of the way from the base to the second the first has come.
    GainPercent,
}

/// How a claim fared.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Verdict {
    /// Within the tolerance, for every seed and every alternative to what the paper leaves open.
    Reproduced,
    /// Within the tolerance for some of them only.
    Conditional,
    /// Outside, but on the paper's side for all of them.
    Direction,
    /// Neither.
    Deviates,
}

impl Claim {
    /// The claim's value, each measurement taken from the run it names by `value_of`.
    pub(crate) fn value(&self, value_of: impl Fn(&Ask) -> Option<f64>) -> Option<f64> {
        self.value_with([Some(&self.measure), self.over.as_ref(), self.base.as_ref()], value_of)
    }

    /// The same where it should not hold.
    pub(crate) fn control_value(&self, value_of: impl Fn(&Ask) -> Option<f64>) -> Option<f64> {
        let Control { measure, over, base, .. } = &self.control;
        let asks = [
            measure.as_ref().or(Some(&self.measure)),
            over.as_ref().or(self.over.as_ref()),
            base.as_ref().or(self.base.as_ref()),
        ];
        self.value_with(asks, value_of)
    }

    fn value_with(
        &self,
        [measure, over, base]: [Option<&Ask>; 3],
        value_of: impl Fn(&Ask) -> Option<f64>,
    ) -> Option<f64> {
        let measure = measure?;
        let one = |i: usize| {
            let first = value_of(&measure.of_run(i))?;
            let over = || value_of(&over?.of_run(i));
            Some(match self.form {
                Form::Value => first,
                Form::Ratio => first / over()?,
                Form::ReductionPercent => 100.0 * (1.0 - first / over()?),
                Form::GainPercent => {
                    let base = value_of(&base?.of_run(i))?;
                    100.0 * (base - first) / (base - over()?)
                }
            })
        };
        let values = (0..measure.runs.len().max(1)).map(one).collect::<Option<Vec<f64>>>()?;
        let value = values.iter().sum::<f64>() / values.len() as f64;
        value.is_finite().then_some(value)
    }

    /// What to say of a measured value by itself.
    pub(crate) fn verdict(&self, value: Option<f64>) -> Verdict {
        let within =
            |bounds: (f64, f64)| value.is_some_and(|value| bounds.0 <= value && value <= bounds.1);
        if self.reproduced.is_some_and(within) {
            Verdict::Reproduced
        } else if self.direction().is_some_and(within) {
            Verdict::Direction
        } else {
            Verdict::Deviates
        }
    }

    /// Values that point the paper's way: at least a quarter of its effect, in the logarithm where
    /// that is a factor.
    fn direction(&self) -> Option<(f64, f64)> {
        let by_rule = || match (self.form, self.paper?) {
            (Form::Ratio, paper) if paper > 1.5 => Some((paper.powf(0.25), f64::INFINITY)),
            (Form::ReductionPercent, paper) => Some((paper / 4.0, 100.0)),
            _ => None,
        };
        self.direction.or_else(by_rule)
    }

    /// All that is asked for the claim itself.
    pub(crate) fn asks(&self) -> impl Iterator<Item = &Ask> {
        std::iter::once(&self.measure).chain(&self.over).chain(&self.base)
    }

    /// All that decides its value but for the runs.
    pub(crate) fn question(&self) -> String {
        let Control { of: _, measure, over, base } = &self.control;
        format!("{:?}", ((self.form, &self.measure, &self.over, &self.base), (measure, over, base)))
    }

    /// The same and what is asked for its control.
    pub(crate) fn all_asks(&self) -> impl Iterator<Item = &Ask> {
        let Control { measure, over, base, .. } = &self.control;
        self.asks().chain(measure).chain(over).chain(base)
    }
}

/// What is recorded of a run.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Recording {
    /// Interval of the trace; none unless set.
    pub(crate) trace: Option<Time>,
    /// Windows are part of it.
    pub(crate) windows: bool,
    /// The queues of switches are.
    pub(crate) queues: bool,
}

impl Paper {
    /// Every alternative to what is taken for something open.
    pub(crate) fn choices(&self) -> impl Iterator<Item = Choice> {
        self.opens
            .iter()
            .enumerate()
            .flat_map(|(i, open)| (0..open.instead.len()).map(move |j| (i, j)))
    }

    /// What an alternative sets in a run; nothing where it does not concern it.
    pub(crate) fn varied(&self, figure: &Figure, run: &Run, choice: Choice) -> &[String] {
        let open = &self.opens[choice.0];
        if open.concerns(figure, run) { &open.instead[choice.1].set } else { &[] }
    }

    /// An alternative in words.
    pub(crate) fn choice_name(&self, choice: Choice) -> String {
        let open = &self.opens[choice.0];
        format!("{}: {}", open.name, open.instead[choice.1].name)
    }

    /// What a run has to set for all that is open.
    fn chosen(
        &self,
        figure: &Figure,
        run: &Run,
        choice: Option<Choice>,
    ) -> impl Iterator<Item = &String> {
        let opens =
            self.opens.iter().enumerate().filter(move |(_, open)| open.concerns(figure, run));
        opens.flat_map(move |(i, open)| match choice {
            Some((varied, number)) if varied == i => &open.instead[number].set,
            _ => &open.set,
        })
    }
}

impl Open {
    fn concerns(&self, figure: &Figure, run: &Run) -> bool {
        let protocol = run.protocol.as_ref();
        (self.figures.is_empty() || self.figures.contains(&figure.name))
            && (self.protocols.is_empty()
                || protocol.is_some_and(|name| self.protocols.contains(name)))
    }
}

impl Figure {
    /// The run of that name.
    pub(crate) fn run(&self, name: &str) -> Option<usize> {
        self.runs.iter().position(|run| run.name == name)
    }

    /// Whether a claim, or its control, asks about that run.
    pub(crate) fn is_claimed(&self, run: &Run) -> bool {
        let asks = || self.claims.iter().flat_map(Claim::all_asks);
        asks().any(|ask| ask.run == run.name || ask.runs.contains(&run.name))
    }

    /// The numbers of the runs that a question goes to.
    pub(crate) fn asked(&self, ask: &Ask) -> impl Iterator<Item = usize> {
        let one = (ask.runs.is_empty()).then_some(&ask.run);
        one.into_iter().chain(&ask.runs).filter_map(|name| self.run(name))
    }

    /// What is recorded of a run.
    pub(crate) fn recording(&self, run: &Run) -> Recording {
        Recording {
            trace: run.trace_us.or(self.trace_us).map(Time::from_us_f64),
            windows: self.windows,
            queues: self.queues,
        }
    }

    /// The plan of one run.
    pub(crate) fn plan(
        &self,
        paper: &Paper,
        run: &Run,
        seed: u64,
        choice: Option<Choice>,
    ) -> Result<Plan, Error> {
        let scenario = run.scenario.as_ref().unwrap_or(&self.scenario);
        let name = format!("{}/{scenario}", paper.name);
        let text = SCENARIOS.iter().find(|(known, _)| *known == name).map(|(_, text)| *text);
        let text = text.ok_or_else(|| Error::Run(format!("there is no scenario {name}")))?;
        let mut overrides = Vec::new();
        if let Some(protocol) = &run.protocol {
            overrides.push(Override::protocol("reproduce", protocol));
        }
        for set in paper.chosen(self, run, choice).chain(&self.set).chain(&run.set) {
            overrides.push(crate::set(set)?);
        }
        overrides.push(Override::option("reproduce", "seed", &seed.to_string()));
        let origin = format!("scenarios/{name}.toml");
        tidegate_scenario::load(text, &origin, &overrides).map_err(crate::scenario)
    }

    /// Why the entry cannot be used, if so: names that nothing has.
    fn fault(&self) -> Option<String> {
        if let Some(fact) = self.facts.iter().find(|fact| fact.measure.runs.is_empty()) {
            return Some(format!("no runs are asked for \"{}\"", fact.text));
        }
        let asks = self
            .claims
            .iter()
            .flat_map(Claim::all_asks)
            .chain(self.facts.iter().map(|fact| &fact.measure));
        let drawn = self.charts.iter();
        let drawn = drawn
            .flat_map(|chart| chart.of.iter().chain(chart.against.iter().map(|other| &other.of)));
        for ask in asks.chain(drawn) {
            let named = std::iter::once(&ask.run).filter(|name| !name.is_empty()).chain(&ask.runs);
            if let Some(missing) = named.into_iter().find(|name| self.run(name).is_none()) {
                return Some(format!("no run {missing}"));
            }
            if metrics::named(&ask.metric).is_none() {
                return Some(format!("no metric {}", ask.metric));
            }
        }
        let named = self.charts.iter().flat_map(|chart| &chart.runs);
        named.filter(|name| self.run(name).is_none()).map(|name| format!("no run {name}")).next()
    }
}

/// Every paper.
pub(crate) fn papers() -> Result<Vec<Paper>, Error> {
    let paper = |(name, text): &(&str, &str)| {
        let wrong = |message: String| Error::Run(format!("registry of {name}: {message}"));
        let paper: Paper = toml::from_str(text).map_err(|error| wrong(error.to_string()))?;
        match paper.figures.iter().find_map(|figure| Some((figure, figure.fault()?))) {
            Some((figure, fault)) => Err(wrong(format!("figure {}: {fault}", figure.name))),
            None => Ok(paper),
        }
    };
    PAPERS.iter().map(paper).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_run_of_every_figure_has_a_plan() {
        for paper in papers().unwrap() {
            for figure in &paper.figures {
                for run in &figure.runs {
                    for choice in std::iter::once(None).chain(paper.choices().map(Some)) {
                        let plan = figure.plan(&paper, run, 1, choice);
                        plan.unwrap_or_else(|error| {
                            panic!(
                                "{}/{}/{} {choice:?}: {error}",
                                paper.name, figure.name, run.name
                            )
                        });
                    }
                }
            }
        }
    }

    #[test]
    fn labels_are_those_of_the_scenario() {
        for paper in papers().unwrap() {
            for figure in &paper.figures {
                let plans =
                    figure.runs.iter().map(|run| figure.plan(&paper, run, 1, None).unwrap());
                let known: Vec<String> = plans.flat_map(|plan| plan.labels).collect();
                let asks = figure.claims.iter().flat_map(Claim::all_asks);
                let asks = asks.chain(figure.facts.iter().map(|fact| &fact.measure));
                let drawn = figure.charts.iter().flat_map(|chart| &chart.labels);
                let drawn = drawn.filter(|label| !label.contains('>'));
                let drawn = drawn
                    .map(|label| label.split_once(':').map_or(label.as_str(), |(label, _)| label));
                for label in asks.filter_map(Ask::label).chain(drawn) {
                    assert!(
                        known.iter().any(|other| other == label),
                        "figure {}: {label}",
                        figure.name
                    );
                }
            }
        }
    }

    #[test]
    fn names_are_unique_and_tolerances_are_stated() {
        for paper in papers().unwrap() {
            let mut names = Vec::new();
            for figure in &paper.figures {
                names.push(format!("figure {}", figure.name));
                let runs =
                    figure.runs.iter().map(|run| format!("run {} of {}", run.name, figure.name));
                names.extend(runs);
                for claim in &figure.claims {
                    names.push(format!("claim {}", claim.name));
                    let bounds = [claim.reproduced, claim.direction()];
                    assert!(
                        bounds.iter().flatten().all(|(low, high)| low <= high),
                        "{}",
                        claim.name
                    );
                    assert!(
                        bounds.iter().any(Option::is_some) && !claim.tolerance.is_empty(),
                        "{}",
                        claim.name
                    );
                    if let [Some(inner), Some(outer)] = bounds {
                        assert!(outer.0 <= inner.0 && inner.1 <= outer.1, "{}", claim.name);
                    }
                }
            }
            let count = names.len();
            names.sort();
            names.dedup();
            assert_eq!(names.len(), count, "{}: a name stands there twice", paper.name);
        }
    }

    #[test]
    fn verdicts_follow_the_bounds() {
        let claim = |form: &str| -> Claim {
            let text = format!(
                "name = 'x'\ntext = 'x'\npaper = 16.0\nunit = 'times'\nform = '{form}'\nreproduced \
                 = [8.0, 18.0]\n\
                 tolerance = 'x'\nmeasure = {{ metric = 'goodput', run = 'a' }}\n\
                 over = {{ metric = 'goodput', run = 'b' }}\n\
                 control = {{ of = 'a alone', measure = {{ metric = 'goodput', run = 'b' }} }}"
            );
            toml::from_str(&text).unwrap()
        };
        let value_of = |ask: &Ask| Some(if ask.run == "a" { 30.0 } else { 2.0 });
        assert_eq!(claim("ratio").value(value_of), Some(15.0));
        assert_eq!(claim("reduction-percent").value(value_of), Some(-1400.0));
        assert_eq!(claim("ratio").control_value(value_of), Some(1.0));
        let verdicts =
            [Some(15.0), Some(2.0), Some(1.9), None].map(|value| claim("ratio").verdict(value));
        assert_eq!(
            verdicts,
            [Verdict::Reproduced, Verdict::Direction, Verdict::Deviates, Verdict::Deviates]
        );
    }
}
