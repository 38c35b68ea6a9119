//! Claims and their results.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::judge::{self, Judgement, Measured, Varied, judge};
use super::registry::{Claim, Figure, Paper, Singles, Verdict};
use crate::plot::paper_source;
use tidegate_runs::numbers::digits;

/// A claim and its result.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct ClaimResult {
    /// Name of the paper.
    pub paper: String,
    /// Name of the figure.
    pub figure: String,
    /// Name of the claim.
    pub claim: String,
    /// The sentence of the paper of which this claim is a reading or a part; the claim's own name
    /// if it has the sentence for itself.
    pub sentence: String,
    /// Whether the claim is a part of the sentence.
    #[serde(default)]
    pub is_part: bool,
    /// Text of the claim.
    pub text: String,
    /// The paper's value; null if it gives no number.
    pub paper_value: Option<f64>,
    /// Whether the value is not printed in the paper but follows from its words.
    #[serde(default)]
    pub derived: bool,
    /// Whether the claim is a comparison of this project and no statement of a paper; absent in
    /// files if it is not.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub own: bool,
    /// The measured value; null if a run gave no value.
    pub measured: Option<f64>,
    /// Unit of both values.
    pub unit: String,
    /// The verdict.
    pub verdict: Verdict,
    /// The verdict without alternatives.
    pub as_chosen: Verdict,
    /// The decisive reason for the verdict in a few words.
    #[serde(default)]
    pub short: String,
    /// All reasons for the verdict, and its conditions.
    pub why: String,
    /// Whether the claim is one of those for which the paper is known.
    #[serde(default)]
    pub is_headline: bool,
    /// Results of single seeds; a list in files.
    pub seeds: Seeds,
}

impl ClaimResult {
    /// The result of a claim that was measured with `seeds` different seeds.
    pub(crate) fn of(
        paper: &Paper,
        figure: &Figure,
        claim: &Claim,
        chosen: &Measured,
        varied: &[Varied],
        seeds: u64,
        Singles { counted, all, range }: Singles,
    ) -> ClaimResult {
        let Judgement { verdict, short, reasons } = judge(claim, chosen, varied, seeds);
        let no_answer = if chosen.value.is_none() { "A run gave no value." } else { "" };
        let some = match range {
            Some((least, most)) if all > 1 && chosen.value.is_some() => {
                let whole = if counted == all { String::new() } else { format!(" of {all}") };
                format!("Of {counted}{whole}: {} to {}.", digits(least), digits(most))
            }
            _ => String::new(),
        };
        let tolerance = format!("Tolerance: {}.", claim.tolerance);
        let sentences = [&tolerance, no_answer, &some, &reasons, &claim.note];
        let sentences: Vec<&str> =
            sentences.into_iter().map(str::trim).filter(|text| !text.is_empty()).collect();
        let (least, most) = chosen.range.unzip();
        let sentence = claim.reading_of.as_ref().or(claim.part_of.as_ref());
        ClaimResult {
            paper: paper.name.clone(),
            figure: figure.name.clone(),
            claim: claim.name.clone(),
            sentence: sentence.unwrap_or(&claim.name).clone(),
            is_part: claim.part_of.is_some(),
            text: claim.text.clone(),
            paper_value: claim.paper,
            derived: claim.derived,
            own: claim.own,
            measured: chosen.value,
            unit: claim.unit.clone(),
            verdict,
            as_chosen: chosen.verdict(claim),
            short,
            why: sentences.join(" "),
            is_headline: claim.headline,
            seeds: Seeds { count: chosen.seeds, least, most },
        }
    }
}

/// Results of single seeds.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(from = "(u64, Option<f64>, Option<f64>)", into = "(u64, Option<f64>, Option<f64>)")]
pub struct Seeds {
    /// Number of seeds that led to different runs.
    pub count: u64,
    /// The smallest value of a seed; null if a run gave no value.
    pub least: Option<f64>,
    /// The largest value of a seed.
    pub most: Option<f64>,
}

impl From<(u64, Option<f64>, Option<f64>)> for Seeds {
    fn from((count, least, most): (u64, Option<f64>, Option<f64>)) -> Seeds {
        Seeds { count, least, most }
    }
}

impl From<Seeds> for (u64, Option<f64>, Option<f64>) {
    fn from(seeds: Seeds) -> Self {
        (seeds.count, seeds.least, seeds.most)
    }
}

/// Totals of the verdicts on sentences.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Sentences of papers with a number.
    pub numbers: Count,
    /// Sentences of papers without a number.
    pub others: Count,
    /// Comparisons that are no statements of papers.
    pub own: Count,
}

impl Counts {
    /// Totals of claims. Several readings or parts of one sentence count once.
    pub(crate) fn of(claims: &[ClaimResult]) -> Counts {
        let (own, papers): (Vec<_>, Vec<_>) = claims.iter().partition(|claim| claim.own);
        let (numbers, others): (Vec<_>, Vec<_>) =
            papers.into_iter().partition(|claim| claim.paper_value.is_some() && !claim.derived);
        let [numbers, others, own] = [numbers, others, own].map(|claims| Count::of(&claims));
        Counts { numbers, others, own }
    }

    /// The totals in sentences. `source` states the numbers.
    pub(crate) fn named(&self, source: &str) -> String {
        let Counts { numbers, others, own } = self;
        let sentences = [
            (
                numbers,
                format!("the {} that the {source}s print", numbers.named("number", "numbers")),
            ),
            (
                others,
                others.named("ordering or trend", "orderings and trends") + " without a number",
            ),
            (
                own,
                own.named("comparison", "comparisons")
                    + " that are ours and no statements of a paper",
            ),
        ];
        let some = sentences.iter().filter(|(count, _)| count.all > 0);
        some.map(|(count, of)| format!("Of {of}, {count}.")).collect::<Vec<_>>().join(" ")
    }
}

impl std::fmt::Display for Counts {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.named(&paper_source()))
    }
}

/// Numbers of sentences by verdict.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Count {
    /// All sentences.
    pub all: usize,
    /// Reproduced for every seed and every alternative.
    pub reproduced: usize,
    /// Reproduced for some of these only.
    pub conditional: usize,
    /// In the paper's direction.
    pub direction: usize,
    /// None of these.
    pub deviates: usize,
}

impl Count {
    /// The number with its noun: `1 number`, `24 numbers`.
    pub(super) fn named(&self, one: &str, several: &str) -> String {
        format!("{} {}", self.all, if self.all == 1 { one } else { several })
    }

    fn of(claims: &[&ClaimResult]) -> Count {
        let mut sentences: BTreeMap<_, Vec<Verdict>> = BTreeMap::new();
        for claim in claims {
            let sentence = (&claim.paper, &claim.sentence, claim.is_part);
            sentences.entry(sentence).or_default().push(claim.verdict);
        }
        let mut count = Count { all: sentences.len(), ..Count::default() };
        for ((.., is_part), verdicts) in &sentences {
            let judged = if *is_part { judge::of_parts } else { judge::of_readings };
            match judged(verdicts) {
                Verdict::Reproduced => count.reproduced += 1,
                Verdict::Conditional => count.conditional += 1,
                Verdict::Direction => count.direction += 1,
                Verdict::Deviates => count.deviates += 1,
            }
        }
        count
    }
}

impl std::fmt::Display for Count {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Count { reproduced, conditional, direction, deviates, .. } = self;
        write!(
            f,
            "{reproduced} reproduced, {conditional} conditional, {direction} in direction, \
             {deviates} deviate"
        )
    }
}
