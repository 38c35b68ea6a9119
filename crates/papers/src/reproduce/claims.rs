//! Claims and their results.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::judge::{self, Judgement, Measured, Varied, judge};
use super::registry::{Claim, Figure, Paper, Singles, Verdict};
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
    /// Values that reproduce the claim, with the unit; empty if the claim was read from a file.
    #[serde(skip)]
    pub accepted: String,
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

/// The values of a claim's single runs as a sentence; empty if it has only one.
pub(crate) fn singles(chosen: &Measured, Singles { counted, all, range }: Singles) -> String {
    match range {
        Some((least, most)) if all > 1 && chosen.value.is_some() => {
            let whole = if counted == all { String::new() } else { format!(" of {all}") };
            format!("Of {counted}{whole}: {} to {}.", digits(least), digits(most))
        }
        _ => String::new(),
    }
}

impl ClaimResult {
    /// The result of a claim that was measured with `seeds` different seeds. `singles` states the
    /// values of its single runs.
    pub(crate) fn of(
        paper: &Paper,
        figure: &Figure,
        claim: &Claim,
        chosen: &Measured,
        varied: &[Varied],
        seeds: u64,
        singles: &str,
    ) -> ClaimResult {
        let Judgement { verdict, short, reasons } = judge(claim, chosen, varied, seeds);
        let no_value = if chosen.value.is_none() { "A run gave no value." } else { "" };
        let tolerance = format!("Tolerance: {}.", claim.tolerance);
        let sentences = [&tolerance, no_value, singles, &reasons, &claim.note];
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
            accepted: claim.accepted_text(),
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

    /// Whether a file would hold another result.
    pub(crate) fn differs(&self, other: &ClaimResult) -> bool {
        serde_json::json!(self) != serde_json::json!(other)
    }

    /// States in the reasons that one seed was run, and, if the claim `is_recorded`, that other
    /// seeds and, unless `is_varied`, alternatives are those of the record.
    pub(crate) fn of_one_seed(mut self, is_varied: bool, is_recorded: bool) -> ClaimResult {
        let run = if is_varied { "n = 1 seed" } else { "n = 1 seed, no alternative tested" };
        let others = if is_varied { "seeds" } else { "seeds and alternatives" };
        let recorded = match is_recorded {
            true => format!("{run}; other {others} as recorded"),
            false => run.to_owned(),
        };
        self.short = match self.verdict {
            Verdict::Reproduced => recorded.clone(),
            _ => format!("{}; {recorded}", self.short).trim_start_matches("; ").to_owned(),
        };
        self.why = format!("{} {recorded}.", self.why).trim_start().to_owned();
        self
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

/// Kind of a sentence, by which it is counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Kind {
    /// A number of a paper.
    Number,
    /// A statement of a paper without a number.
    Other,
    /// A comparison that is no statement of a paper.
    Own,
}

/// Identity of a sentence. Its numbers and its orderings count apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct SentenceId<'a> {
    kind: Kind,
    paper: &'a str,
    sentence: &'a str,
    is_part: bool,
}

impl ClaimResult {
    fn sentence_id(&self) -> SentenceId<'_> {
        let kind = match self.paper_value {
            _ if self.own => Kind::Own,
            Some(_) if !self.derived => Kind::Number,
            _ => Kind::Other,
        };
        let (paper, sentence) = (&self.paper, &self.sentence);
        SentenceId { kind, paper, sentence, is_part: self.is_part }
    }
}

/// The sentences that `claims` check, each with its readings or parts.
fn sentences(claims: &[ClaimResult]) -> BTreeMap<SentenceId<'_>, Vec<&ClaimResult>> {
    let mut sentences: BTreeMap<_, Vec<&ClaimResult>> = BTreeMap::new();
    claims.iter().for_each(|claim| sentences.entry(claim.sentence_id()).or_default().push(claim));
    sentences
}

/// The readings or parts of the sentence of `claim` among `claims`.
pub(super) fn sentence_of<'a>(
    claim: &ClaimResult,
    claims: &[&'a ClaimResult],
) -> Vec<&'a ClaimResult> {
    let is_its = |other: &&ClaimResult| other.sentence_id() == claim.sentence_id();
    claims.iter().copied().filter(is_its).collect()
}

/// The verdict on a sentence from those on its readings or parts.
pub(super) fn verdict_on(sentence: &[&ClaimResult]) -> Verdict {
    let verdicts: Vec<Verdict> = sentence.iter().map(|claim| claim.verdict).collect();
    let is_part = sentence.first().is_some_and(|claim| claim.is_part);
    if is_part { judge::of_parts(&verdicts) } else { judge::of_readings(&verdicts) }
}

/// How totals count several claims about one sentence; empty if there are none.
pub(crate) fn counting(claims: &[ClaimResult]) -> String {
    let sentences = sentences(claims);
    let several = |are_parts: bool| {
        sentences.iter().any(|(id, claims)| id.is_part == are_parts && claims.len() > 1)
    };
    let mut text = match sentences.len() {
        all if all == claims.len() => String::new(),
        1 => format!("{} claims check this sentence.", claims.len()),
        all => format!("{} claims check these {all} sentences.", claims.len()),
    };
    if several(false) {
        text.push_str(
            " Several readings of a sentence count once: as reproduced if each of them is, as \
             conditional if at least one is reproduced or conditional, as in direction if each of \
             them is, and otherwise as deviating.",
        );
    }
    if several(true) {
        text.push_str(" Several parts of a sentence count once, by the worst part.");
    }
    text
}

/// Totals of the verdicts on sentences.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Counts {
    /// Sentences of papers with a number.
    pub(crate) numbers: Count,
    /// Sentences of papers without a number.
    pub(crate) others: Count,
    /// Comparisons that are no statements of papers.
    pub(crate) own: Count,
}

impl Counts {
    /// Totals of claims. Several readings or parts of one sentence count once.
    pub(crate) fn of(claims: &[ClaimResult]) -> Counts {
        let mut counts = Counts::default();
        for (id, sentence) in sentences(claims) {
            let count = match id.kind {
                Kind::Number => &mut counts.numbers,
                Kind::Other => &mut counts.others,
                Kind::Own => &mut counts.own,
            };
            count.add(verdict_on(&sentence));
        }
        counts
    }

    /// The totals in sentences. `source` states the numbers.
    pub(crate) fn named(&self, source: &str) -> String {
        let Counts { numbers, others, own } = self;
        let sentences = [
            (
                numbers,
                match numbers.all {
                    1 => format!("1 number that the {source}s print"),
                    all => format!("the {all} numbers that the {source}s print"),
                },
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

/// Numbers of sentences by verdict.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Count {
    /// All sentences.
    pub(crate) all: usize,
    /// Reproduced for every seed and every alternative.
    pub(crate) reproduced: usize,
    /// Reproduced for some of these only.
    pub(crate) conditional: usize,
    /// In the paper's direction.
    pub(crate) direction: usize,
    /// None of these.
    pub(crate) deviates: usize,
}

impl Count {
    /// The number with its noun: `1 number`, `24 numbers`.
    pub(super) fn named(&self, one: &str, several: &str) -> String {
        format!("{} {}", self.all, if self.all == 1 { one } else { several })
    }

    fn add(&mut self, verdict: Verdict) {
        self.all += 1;
        match verdict {
            Verdict::Reproduced => self.reproduced += 1,
            Verdict::Conditional => self.conditional += 1,
            Verdict::Direction => self.direction += 1,
            Verdict::Deviates => self.deviates += 1,
        }
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
