//! Claims of a paper, and their measurement.

use serde::Deserialize;

use super::query::{Pick, Query};
use tidegate_runs::numbers::{digits, with_unit};

/// A claim of the paper.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Claim {
    pub(crate) name: String,
    pub(crate) text: String,
    /// The sentence of the paper of which this is one of several readings.
    pub(crate) reading_of: Option<String>,
    /// The sentence of the paper of which this is one of several parts.
    pub(crate) part_of: Option<String>,
    /// The paper's value; `None` if it gives no number.
    pub(crate) paper: Option<f64>,
    /// The number is not printed in the paper but follows from its words (fair, full, the target of
    /// a rate).
    #[serde(default)]
    pub(crate) derived: bool,
    /// The claim is a comparison of this project and no statement of the paper.
    #[serde(default)]
    pub(crate) own: bool,
    pub(crate) unit: String,
    #[serde(default)]
    form: Form,
    /// How the values of several runs are combined.
    #[serde(default)]
    several: Several,
    /// Normalises each value by the best of these runs. Normalised values are combined as
    /// `several` states, then compared.
    among: Option<Among>,
    measure: Query,
    /// The value that it is compared with.
    over: Option<Query>,
    /// The base of a gain.
    base: Option<Query>,
    /// Measured values that reproduce the claim, limits included; `None` if the paper measured
    /// something else than what is simulated.
    pub(crate) reproduced: Option<(f64, f64)>,
    /// Measured values in the paper's direction; by default from [`Claim::direction`].
    direction: Option<(f64, f64)>,
    /// The control, under which the claim must fail; `None` for comparisons with numbers
    /// of another simulator, and for few other claims, which a test lists.
    pub(crate) control: Option<Control>,
    /// The reason for these bounds.
    pub(crate) tolerance: String,
    /// Further remarks.
    #[serde(default)]
    pub(crate) note: String,
    /// The claim is one of those for which the paper is known: its page begins with them.
    #[serde(default)]
    pub(crate) headline: bool,
}

/// Another protocol or parameter under which the claim has to fail: a check that passes there too
/// is inconclusive. Queries that are not replaced are those of the claim.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Control {
    /// Name of the difference.
    pub(crate) of: String,
    measure: Option<Query>,
    over: Option<Query>,
    base: Option<Query>,
}

/// How two measurements give the claim's value.
#[derive(Clone, Copy, Debug, Default, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Form {
    /// The first value alone.
    #[default]
    Value,
    /// The first over the second.
    Ratio,
    /// The first minus the second.
    Difference,
    /// Percentage by which the first is below the second.
    ReductionPercent,
    /// Percentage of the way from the base to the second that the first has covered.
    GainPercent,
}

/// Normalisation by the best of several runs with equal replacements of `{}`.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Among {
    best: Pick,
    of: Query,
}

/// How several values are combined.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Several {
    /// Their mean.
    #[default]
    Mean,
    /// Their geometric mean, for claims about the order of a factor.
    GeometricMean,
    /// The largest, for claims with "up to".
    Most,
    /// The smallest.
    Least,
}

impl Several {
    /// The combined value; `None` without values.
    fn of(self, values: &[f64]) -> Option<f64> {
        let mean = |of: fn(f64) -> f64| {
            values.iter().map(|&value| of(value)).sum::<f64>() / values.len() as f64
        };
        let value = match self {
            Several::Mean => mean(|value| value),
            Several::GeometricMean => mean(f64::ln).exp(),
            Several::Most => values.iter().copied().reduce(f64::max)?,
            Several::Least => values.iter().copied().reduce(f64::min)?,
        };
        Some(value).filter(|value| value.is_finite())
    }
}

/// Values of the single runs of a claim.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Singles {
    /// Number of runs with a value.
    pub(crate) counted: usize,
    /// Number of runs.
    pub(crate) all: usize,
    /// The smallest and the largest value; `None` without values.
    pub(crate) range: Option<(f64, f64)>,
}

impl Form {
    fn of(
        self,
        first: f64,
        over: impl Fn() -> Option<f64>,
        base: impl Fn() -> Option<f64>,
    ) -> Option<f64> {
        Some(match self {
            Form::Value => first,
            Form::Ratio => first / over()?,
            Form::Difference => first - over()?,
            Form::ReductionPercent => 100.0 * (1.0 - first / over()?),
            Form::GainPercent => {
                let base = base()?;
                100.0 * (base - first) / (base - over()?)
            }
        })
    }
}

/// The verdict on a claim.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Verdict {
    /// Within the tolerance, for every seed and every alternative to what the paper leaves open.
    Reproduced,
    /// Within the tolerance in the mean over the seeds or for some alternative, but not for all.
    Conditional,
    /// Outside the tolerance, but in the paper's direction for every seed and alternative.
    Direction,
    /// None of these.
    Deviates,
}

impl Claim {
    /// The claim's value. `value_of` returns the value of a query for a run.
    pub(crate) fn value(&self, value_of: impl Fn(&Query, &str) -> Option<f64>) -> Option<f64> {
        self.value_with(self.own(), value_of)
    }

    /// The value of the control.
    pub(crate) fn control_value(
        &self,
        value_of: impl Fn(&Query, &str) -> Option<f64>,
    ) -> Option<f64> {
        self.control.as_ref()?;
        self.value_with(self.of_control(), value_of)
    }

    /// The queries of measure, comparison and base.
    fn own(&self) -> [Option<&Query>; 3] {
        [Some(&self.measure), self.over.as_ref(), self.base.as_ref()]
    }

    /// The queries of its control.
    fn of_control(&self) -> [Option<&Query>; 3] {
        let [own_measure, own_over, own_base] = self.own();
        let [measure, over, base] = self.queries_of_control();
        [measure.or(own_measure), over.or(own_over), base.or(own_base)]
    }

    /// The queries that the control replaces.
    fn queries_of_control(&self) -> [Option<&Query>; 3] {
        let Some(Control { measure, over, base, .. }) = &self.control else { return [None; 3] };
        [measure, over, base].map(Option::as_ref)
    }

    /// The values of its runs one by one.
    pub(crate) fn singles(&self, value_of: impl Fn(&Query, &str) -> Option<f64>) -> Singles {
        let values = self.values(self.own(), value_of);
        let counted: Vec<f64> = values.iter().flatten().copied().collect();
        let range = Several::Least.of(&counted).zip(Several::Most.of(&counted));
        Singles { counted: counted.len(), all: values.len(), range }
    }

    /// If the query may exclude runs, runs without a value are omitted.
    fn value_with(
        &self,
        queries: [Option<&Query>; 3],
        value_of: impl Fn(&Query, &str) -> Option<f64>,
    ) -> Option<f64> {
        if let Some(among) = &self.among {
            return self.of_normalised(queries, among, value_of);
        }
        let chooses = queries.iter().flatten().any(|query| query.chooses());
        let values = self.values(queries, value_of).into_iter();
        let values = values.filter(|value| value.is_some() || !chooses);
        let values = values.collect::<Option<Vec<f64>>>()?;
        self.several.of(&values)
    }

    /// The value of each run.
    fn values(
        &self,
        [measure, over, base]: [Option<&Query>; 3],
        value_of: impl Fn(&Query, &str) -> Option<f64>,
    ) -> Vec<Option<f64>> {
        let one = |i: usize| {
            let value = |query: Option<&Query>| {
                let query = query?;
                value_of(query, query.run(i)?)
            };
            self.form.of(value(measure)?, || value(over), || value(base))
        };
        (0..measure.map_or(0, |query| query.runs.len())).map(one).collect()
    }

    /// From the combined normalised values. Runs without a value are omitted.
    fn of_normalised(
        &self,
        [measure, over, base]: [Option<&Query>; 3],
        among: &Among,
        value_of: impl Fn(&Query, &str) -> Option<f64>,
    ) -> Option<f64> {
        let best = |place: &String| {
            let all = among.of.runs.iter().zip(&among.of.stands_for);
            let there = all.filter(|(_, other)| *other == place);
            among.best.of(there.filter_map(|(run, _)| value_of(&among.of, run)))
        };
        let combined = |query: Option<&Query>| {
            let query = query?;
            let all = query.runs.iter().zip(&query.stands_for);
            let all = all.filter_map(|(run, place)| Some(value_of(query, run)? / best(place)?));
            self.several.of(&all.collect::<Vec<_>>())
        };
        self.form.of(combined(measure)?, || combined(over), || combined(base))
    }

    /// Its query to a single run, if that alone is its value.
    pub(crate) fn of_one_run(&self) -> Option<&Query> {
        let is_value = matches!(self.form, Form::Value) && self.among.is_none();
        Some(&self.measure).filter(|query| is_value && query.runs.len() == 1)
    }

    /// Whether the runs of its queries, or of its control's, do not pair.
    pub(super) fn is_unpaired(&self) -> bool {
        let queries = || self.own().into_iter().chain(self.of_control()).flatten();
        if self.among.is_some() && queries().any(|query| query.stands_for.is_empty()) {
            return true;
        }
        [self.own(), self.of_control()].into_iter().any(|queries| {
            let mut queries = queries.into_iter().flatten();
            queries.next().is_some_and(|first| !queries.all(|query| first.pairs_with(query)))
        })
    }

    /// Whether the control fails for any effect: it exchanges the claim's two queries, or
    /// compares one query with itself.
    #[cfg(test)]
    pub(super) fn has_tautological_control(&self) -> bool {
        let is_same = |one: Option<&Query>, other: Option<&Query>| {
            one.zip(other).is_some_and(|(one, other)| one.runs == other.runs && one.is_like(other))
        };
        let ([measure, over, _], [first, second, _]) = (self.own(), self.of_control());
        is_same(first, second) || is_same(first, over) && is_same(second, measure)
    }

    /// The sides of the source's number, "below" or "above", on which no possible value is outside
    /// the bounds. A number at the limit itself has only one side.
    #[cfg(test)]
    pub(super) fn open_sides(&self) -> Vec<&'static str> {
        let Some(((least, most), paper)) = self.reproduced.zip(self.paper) else {
            return Vec::new();
        };
        let limit = self.measure.metric.limit();
        let (low, high) = match self.form {
            Form::Value if paper < limit => (0.0, limit),
            Form::Value if self.unit == "%" => (limit, 100.0),
            Form::Value => (limit, f64::INFINITY),
            Form::Ratio => (0.0, f64::INFINITY),
            Form::ReductionPercent => (f64::NEG_INFINITY, 100.0),
            Form::Difference | Form::GainPercent => (f64::NEG_INFINITY, f64::INFINITY),
        };
        let below = (least <= low && low < paper).then_some("below");
        let above = (high <= most && paper < high).then_some("above");
        below.into_iter().chain(above).collect()
    }

    /// Measured values that reproduce the claim, limits included.
    pub(crate) fn accepted(&self) -> Option<(f64, f64)> {
        self.reproduced
    }

    /// The verdict on a single measured value.
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

    /// Values in the paper's direction: at least a quarter of its effect, in the logarithm for
    /// factors.
    pub(super) fn direction(&self) -> Option<(f64, f64)> {
        let by_rule = || match (self.form, self.paper?) {
            (Form::Ratio, paper) if paper > 1.5 => Some((paper.powf(0.25), f64::INFINITY)),
            (Form::ReductionPercent, paper) => Some((paper / 4.0, 100.0)),
            _ => None,
        };
        self.direction.or_else(by_rule)
    }

    /// Values that reproduce the claim, in words.
    pub(crate) fn accepted_text(&self) -> String {
        match self.reproduced {
            None => "none".to_owned(),
            Some((least, most)) if most.is_infinite() => {
                format!("at least {}", with_unit(Some(least), &self.unit))
            }
            Some((least, most)) if least == most => with_unit(Some(least), &self.unit),
            Some((least, most)) => {
                format!("{} to {}", digits(least), with_unit(Some(most), &self.unit))
            }
        }
    }

    /// All queries of the claim itself.
    pub(crate) fn queries(&self) -> impl Iterator<Item = &Query> {
        let among = self.among.as_ref().map(|among| &among.of);
        std::iter::once(&self.measure).chain(&self.over).chain(&self.base).chain(among)
    }

    /// All queries of the claim and its control, mutable.
    pub(super) fn all_queries_mut(&mut self) -> impl Iterator<Item = &mut Query> {
        let control =
            self.control.iter_mut().flat_map(|Control { measure, over, base, .. }| {
                measure.iter_mut().chain(over).chain(base)
            });
        let own = std::iter::once(&mut self.measure).chain(&mut self.over).chain(&mut self.base);
        let among = self.among.as_mut().map(|among| &mut among.of);
        own.chain(control).chain(among)
    }

    /// Everything but the runs that determines its value, as text. Part of the keys of records.
    pub(crate) fn definition(&self) -> String {
        let texts = [self.own(), self.queries_of_control()]
            .map(|queries| queries.map(|query| query.map(|query| query.text.as_str())));
        let definition = format!("{:?} {texts:?}", self.form);
        // The default is omitted, so that records from before this option remain valid.
        let definition = match self.several {
            Several::Mean => definition,
            several => format!("{several:?} {definition}"),
        };
        match &self.among {
            None => definition,
            Some(Among { best, of }) => format!("{definition} over {best:?} {}", of.text),
        }
    }

    /// All queries of the claim and its control.
    pub(crate) fn all_queries(&self) -> impl Iterator<Item = &Query> {
        self.queries().chain(self.queries_of_control().into_iter().flatten())
    }

    /// A claim that `measure` agrees with another simulator's number within `bounds`.
    pub(super) fn of_comparison(
        name: String,
        text: String,
        (paper, unit): (f64, String),
        measure: Query,
        bounds: (f64, f64),
        (tolerance, note): (String, String),
    ) -> Claim {
        Claim {
            name,
            text,
            reading_of: None,
            part_of: None,
            paper: Some(paper),
            derived: false,
            own: false,
            unit,
            form: Form::Value,
            several: Several::Mean,
            among: None,
            measure,
            over: None,
            base: None,
            reproduced: Some(bounds),
            direction: None,
            control: None,
            tolerance,
            note,
            headline: false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
        let value_of = |_: &Query, run: &str| Some(if run == "a" { 30.0 } else { 2.0 });
        assert_eq!(claim("ratio").value(value_of), Some(15.0));
        assert_eq!(claim("difference").value(value_of), Some(28.0));
        assert_eq!(claim("reduction-percent").value(value_of), Some(-1400.0));
        assert_eq!(claim("ratio").control_value(value_of), Some(1.0));
        let verdicts =
            [Some(15.0), Some(2.0), Some(1.9), None].map(|value| claim("ratio").verdict(value));
        assert_eq!(
            verdicts,
            [Verdict::Reproduced, Verdict::Direction, Verdict::Deviates, Verdict::Deviates]
        );
    }

    #[test]
    fn a_control_that_fails_for_any_effect_is_found() {
        let is_found = |control: &str| {
            let text = format!(
                "name = 'x'\ntext = 'x'\nunit = ''\nform = 'ratio'\ntolerance = 'x'\n\
                 measure = {{ metric = 'goodput', run = 'a' }}\n\
                 over = {{ metric = 'goodput', run = 'b' }}\ncontrol = {{ of = 'y'{control} }}"
            );
            toml::from_str::<Claim>(&text).unwrap().has_tautological_control()
        };
        let [a, b, c] =
            ["a", "b", "c"].map(|run| format!("{{ metric = 'goodput', run = '{run}' }}"));
        assert!(is_found(&format!(", measure = {b}, over = {a}")), "exchanged");
        assert!(is_found(&format!(", measure = {b}")), "one with itself");
        assert!(!is_found(&format!(", measure = {c}")), "a third run");
        let earlier = "{ metric = 'goodput', run = 'a', to_ms = 1.0 }";
        assert!(!is_found(&format!(", measure = {b}, over = {earlier}")), "another query");
    }

    #[test]
    fn excluded_runs_are_omitted() {
        let claim = |pick: &str| -> Claim {
            let text = format!(
                "name = 'x'\ntext = 'x'\nunit = ''\ntolerance = 'x'\nreproduced = [1.0, 2.0]\n\
                 measure = {{ metric = 'goodput', runs = ['a', 'b', 'c']{pick} }}\n\
                 control = {{ of = 'y' }}"
            );
            toml::from_str(&text).unwrap()
        };
        let value_of = |_: &Query, run: &str| match run {
            "a" => Some(1.0),
            "b" => None,
            _ => Some(2.0),
        };
        assert_eq!(claim("").value(value_of), None);
        assert_eq!(claim(", pick = 'most'").value(value_of), Some(1.5));
        assert_eq!(claim(", sustained = 0.9").value(value_of), Some(1.5));
        assert_eq!(claim(", pick = 'most'").value(|_, _| None), None);
        let singles = Singles { counted: 2, all: 3, range: Some((1.0, 2.0)) };
        assert_eq!(claim("").singles(value_of), singles);
        assert_eq!(claim("").singles(|_, _| None).range, None);
    }

    #[test]
    fn values_of_several_runs_are_combined() {
        let claim = |several: &str| -> Claim {
            let text = format!(
                "name = 'x'\ntext = 'x'\nunit = ''\ntolerance = 'x'\nreproduced = [1.0, 2.0]\n\
                 {several}\nmeasure = {{ metric = 'goodput', runs = ['a', 'b', 'c'] }}\n\
                 control = {{ of = 'y' }}"
            );
            toml::from_str(&text).unwrap()
        };
        let value_of = |_: &Query, run: &str| match run {
            "a" => Some(1.0),
            "b" => Some(4.0),
            _ => Some(16.0),
        };
        let options = ["", "several = 'geometric-mean'", "several = 'most'", "several = 'least'"];
        let values = options.map(|several| claim(several).value(value_of).unwrap());
        assert!((values[1] - 4.0).abs() < 1e-12, "{values:?}");
        assert_eq!([values[0], values[2], values[3]], [7.0, 16.0, 1.0]);
        let mut normalised = claim("");
        // With equal replacements of `{}`: 1 over 1, 4 over 4, 16 over 2.
        for query in normalised.all_queries_mut() {
            query.stands_for = ["x", "y", "z"].map(str::to_owned).into();
        }
        let own = normalised.measure.clone();
        let mut of = own.clone();
        of.runs.extend(["d".to_owned(), "e".to_owned()]);
        of.stands_for.extend(["z".to_owned(), "none".to_owned()]);
        normalised.among = Some(Among { best: Pick::Least, of });
        let value_of =
            |query: &Query, run: &str| if run == "d" { Some(2.0) } else { value_of(query, run) };
        assert_eq!(normalised.value(value_of), Some(10.0 / 3.0));
        normalised.several = Several::Most;
        assert_eq!(normalised.value(value_of), Some(8.0));
        normalised.several = Several::Mean;
        let without = |query: &Query, run: &str| value_of(query, run).filter(|_| run != "b");
        assert_eq!(normalised.value(without), Some(4.5));
        assert_ne!(normalised.definition(), claim("").definition());
        // The records of different combinations have different keys.
        let texts: std::collections::BTreeSet<String> =
            options.map(|several| claim(several).definition()).into();
        assert_eq!(texts.len(), 4);
    }
}
