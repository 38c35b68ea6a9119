//! Recorded values of claims under every alternative. To measure them takes half an hour on two
//! cores, which a plain run should not repeat.
//!
//! The key of an entry is a hash of everything that it depends on (plans, alternative, seeds,
//! query, version of the engine's semantics). Therefore an outdated entry is not found, and the
//! verdict reports it as missing.

use std::collections::BTreeMap;

use sha2::{Digest, Sha256};
use tidegate_core::Span;
use tidegate_sim::SEMANTICS;

use super::judge::Measured;
use super::planned::{Planned, RunLength};
use super::registry::{Choice, Claim, Figure, Paper, RECORDS, SEEDS, definition};
use tidegate_runs::Error;
use tidegate_runs::observe::VERSION;

/// Measured values by key.
#[derive(Clone, Debug, Default)]
pub(crate) struct Record(BTreeMap<String, Measured>);

/// Value, minimum and maximum over seeds, number of different seeds, value of the control.
type Line = (Option<f64>, Option<(f64, f64)>, u64, Option<f64>);

impl Record {
    /// The record of a paper; empty if there is none.
    pub(crate) fn of(paper: &str) -> Result<Record, Error> {
        let Some((_, text)) = RECORDS.iter().find(|(name, _)| *name == paper) else {
            return Ok(Record::default());
        };
        let lines: BTreeMap<String, Line> = serde_json::from_str(text)
            .map_err(|error| Error::Run(format!("record of {paper}: {error}")))?;
        let measured = |(key, (value, range, seeds, control))| {
            (key, Measured { value, range, seeds, control })
        };
        Ok(Record(lines.into_iter().map(measured).collect()))
    }

    pub(crate) fn get(&self, key: &str) -> Option<Measured> {
        self.0.get(key).copied()
    }

    /// Whether the value as chosen, under `key`, is this one. If it is not, its alternatives are
    /// outdated: they were measured beside another value.
    pub(crate) fn is_current(&self, key: Option<String>, chosen: Option<f64>) -> bool {
        let recorded = key.and_then(|key| self.get(&key));
        recorded.is_some_and(|recorded| recorded.value.map(short) == chosen.map(short))
    }

    pub(crate) fn put(&mut self, key: String, measured: Measured) {
        self.0.insert(key, measured);
    }

    /// Copies the entries of a figure from `other`.
    pub(crate) fn take(
        &mut self,
        other: &Record,
        paper: &Paper,
        figure: &Figure,
    ) -> Result<(), Error> {
        for key in keys_of(paper, figure)? {
            if let Some(measured) = other.get(&key) {
                self.put(key, measured);
            }
        }
        Ok(())
    }

    /// One line per entry.
    pub(crate) fn json(&self) -> String {
        let line = |(key, measured): (&String, &Measured)| {
            let Measured { value, range, seeds, control } = *measured;
            let range = range.map(|(low, high)| (short(low), short(high)));
            let line: Line = (value.map(short), range, seeds, control.map(short));
            format!("{}:{}", serde_json::json!(key), serde_json::json!(line))
        };
        let lines: Vec<String> = self.0.iter().map(line).collect();
        format!("{{\n{}\n}}\n", lines.join(",\n"))
    }
}

/// Six significant digits: more than a verdict needs.
pub(crate) fn short(value: f64) -> f64 {
    format!("{value:.5e}").parse().unwrap_or(value)
}

fn planned<'a>(paper: &Paper, figure: &'a Figure) -> Result<&'a Planned, Error> {
    if let Some(known) = figure.planned.get() {
        return Ok(known);
    }
    let mut planned = Planned::default();
    for run in &figure.runs {
        let (hash, duration_us, warmup_us) = match &run.model {
            Some(model) => (model.source.clone(), model.until_us, 0.0),
            None => {
                let plan = figure.plan(paper, run, 1, None)?;
                let interval = figure.recording(run).interval.map_or(0, Span::as_ps);
                let hash = format!("{} {interval}", tidegate_scenario::content_hash(&plan));
                (hash, plan.duration.as_us_f64(), plan.warmup.as_us_f64())
            }
        };
        planned.hashes.push(hash);
        let is_same =
            |of: &&mut RunLength| (of.duration_us, of.warmup_us) == (duration_us, warmup_us);
        match planned.lengths.iter_mut().find(is_same) {
            Some(length) => length.runs.push(run.name.clone()),
            None => {
                let runs = vec![run.name.clone()];
                planned.lengths.push(RunLength { duration_us, warmup_us, runs });
            }
        }
    }
    Ok(figure.planned.get_or_init(|| planned))
}

/// Hashes of the plans of a figure's runs and their sampling intervals; for models, their whole
/// source.
pub(crate) fn plans<'a>(paper: &Paper, figure: &'a Figure) -> Result<&'a [String], Error> {
    Ok(&planned(paper, figure)?.hashes)
}

/// Lengths of a figure's runs.
pub(crate) fn lengths(paper: &Paper, figure: &Figure) -> Result<Vec<RunLength>, Error> {
    Ok(planned(paper, figure)?.lengths.clone())
}

/// Hash of everything that a figure's results depend on.
pub(crate) fn figure_key(paper: &Paper, figure: &Figure) -> Result<String, Error> {
    let (plans, definition) = (plans(paper, figure)?, definition(paper, figure)?);
    Ok(short_hash(&format!("{SEMANTICS} {VERSION} {SEEDS} {plans:?} {definition}")))
}

fn short_hash(text: &str) -> String {
    Sha256::digest(text).iter().take(8).map(|byte| format!("{byte:02x}")).collect()
}

/// The keys of all values of a figure's claims: as chosen, and under every alternative.
fn keys_of(paper: &Paper, figure: &Figure) -> Result<Vec<String>, Error> {
    let plans = plans(paper, figure)?;
    let choices = || std::iter::once(None).chain(paper.choices().map(Some));
    let keys = figure.claims.iter().flat_map(|claim| {
        choices().filter_map(move |choice| {
            let seeds = choice.map_or(SEEDS, |_| 1);
            key(paper, figure, claim, choice, plans, seeds)
        })
    });
    Ok(keys.collect())
}

/// The key of a claim's value; `None` if the alternative changes none of the claim's runs.
pub(crate) fn key(
    paper: &Paper,
    figure: &Figure,
    claim: &Claim,
    choice: Option<Choice>,
    plans: &[String],
    seeds: u64,
) -> Option<String> {
    let mut runs: Vec<usize> =
        claim.all_queries().flat_map(|query| figure.runs_of(query)).collect();
    runs.sort_unstable();
    runs.dedup();
    let varied = |&run: &usize| {
        let set: &[String] =
            choice.map_or(&[], |choice| paper.varied(figure, &figure.runs[run], choice));
        (plans[run].as_str(), set)
    };
    let depends: Vec<(&str, &[String])> = runs.iter().map(varied).collect();
    if choice.is_some() && depends.iter().all(|(_, set)| set.is_empty()) {
        return None;
    }
    let all = format!("{SEMANTICS} {VERSION} {seeds} {} {depends:?}", claim.definition());
    Some(format!("{} {}", claim.name, short_hash(&all)))
}

#[cfg(test)]
mod tests {
    use super::super::registry::shared_papers;
    use super::*;

    /// A new or changed claim has no entries; its verdict and its page report that. `UPDATE=1`
    /// removes entries that belong to no claim.
    #[test]
    fn every_claim_is_recorded_for_all_alternatives() {
        for paper in shared_papers() {
            let record = Record::of(&paper.name).unwrap();
            let mut known = Record::default();
            for figure in &paper.figures {
                let wanted = keys_of(paper, figure).unwrap();
                let claim_of =
                    |key: &String| key.rsplit_once(' ').map(|(claim, _)| claim.to_owned());
                for keys in wanted.chunk_by(|a, b| claim_of(a) == claim_of(b)) {
                    let (kept, missing): (Vec<&String>, Vec<&String>) =
                        keys.iter().partition(|key| record.get(key).is_some());
                    assert!(
                        kept.is_empty() || missing.is_empty(),
                        "{}/{}: {missing:?} have not been measured: make reproduction",
                        paper.name,
                        figure.name
                    );
                    kept.iter().for_each(|key| known.put((*key).clone(), record.0[*key]));
                }
            }
            if std::env::var_os("UPDATE").is_some() && known.0.len() < record.0.len() {
                let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/src/reproduce/records");
                std::fs::write(format!("{folder}/{}.json", paper.name), known.json()).unwrap();
                continue;
            }
            assert_eq!(record.0.len(), known.0.len(), "{}: entries without a claim", paper.name);
        }
    }

    #[test]
    fn lengths_are_those_of_all_runs() {
        let papers = shared_papers();
        let paper = papers.iter().find(|paper| paper.name == "authors").unwrap();
        let figure = |name: &str| paper.figures.iter().find(|figure| figure.name == name).unwrap();
        let found = lengths(paper, figure("powertcp-incast")).unwrap();
        let times: Vec<_> = found.iter().map(|of| (of.duration_us, of.warmup_us)).collect();
        assert_eq!(times, [(26_000.0, 19_900.0), (50_000.0, 40_000.0), (69_000.0, 40_000.0)]);
        assert!(found[2].runs.iter().any(|run| run == "DCTCP, at rest"), "{:?}", found[2].runs);
        for figure in &paper.figures {
            let found = lengths(paper, figure).unwrap();
            let count: usize = found.iter().map(|length| length.runs.len()).sum();
            assert_eq!(count, figure.runs.len(), "{}", figure.name);
        }
    }

    #[test]
    fn records_round_trip() {
        let mut record = Record::default();
        let some =
            Measured { value: Some(1.25), range: Some((1.0, 1.5)), seeds: 3, control: Some(0.5) };
        let none = Measured { seeds: 1, ..Measured::default() };
        let long = Measured { value: Some(1_234_567.0), range: Some((1.0, 1.234_564)), ..some };
        record.put("c".into(), long);
        record.put("a".into(), some);
        record.put("b".into(), none);
        let lines: BTreeMap<String, Line> = serde_json::from_str(&record.json()).unwrap();
        assert_eq!(lines["a"], (Some(1.25), Some((1.0, 1.5)), 3, Some(0.5)));
        assert_eq!(lines["c"], (Some(1_234_570.0), Some((1.0, 1.23456)), 3, Some(0.5)));
        assert_eq!(lines["b"], (None, None, 1, None));
    }
}
