//! Claims, and how they fared.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::{Verdict, judge};
/// A claim and how it fared.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct ClaimResult {
    /// The paper's name.
    pub paper: String,
    /// The figure's.
    pub figure: String,
    /// The claim's.
    pub claim: String,
    /// The paper's sentence that this is one way to read, or a part of; the claim's own name where
    /// there is no other.
    pub sentence: String,
    /// Whether it is a part of it.
    #[serde(default)]
    pub is_part: bool,
    /// What is claimed.
    pub text: String,
    /// The paper's value; none where it gives no number.
    pub paper_value: Option<f64>,
    /// Whether the paper does not print it: it is what its words come to.
    #[serde(default)]
    pub derived: bool,
    /// Ours; none where a run gave no answer.
    pub measured: Option<f64>,
    /// Of both.
    pub unit: String,
    /// How it fared.
    pub verdict: Verdict,
    /// How it would have fared with nothing varied.
    pub as_chosen: Verdict,
    /// Why it is judged so, and what it hangs on.
    pub why: String,
    /// What single seeds gave; a list in files.
    pub seeds: Seeds,
}

/// Values of single seeds.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(from = "(u64, Option<f64>, Option<f64>)", into = "(u64, Option<f64>, Option<f64>)")]
pub struct Seeds {
    /// So many that led to different runs.
    pub count: u64,
    /// The smallest value of one of them; none where a run gave no answer.
    pub least: Option<f64>,
    /// The largest.
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

/// How the sentences of papers came out.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Numbers that papers print.
    pub numbers: Count,
    /// What they say without one.
    pub others: Count,
}

impl Counts {
    /// Those of claims. Several readings or parts of one sentence count once.
    pub(crate) fn of(claims: &[ClaimResult]) -> Counts {
        let (numbers, others): (Vec<&ClaimResult>, Vec<&ClaimResult>) =
            claims.iter().partition(|claim| claim.paper_value.is_some() && !claim.derived);
        Counts { numbers: Count::of(&numbers), others: Count::of(&others) }
    }
}

/// How many sentences of papers came out how.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Count {
    /// All.
    pub all: usize,
    /// For every seed and every alternative.
    pub reproduced: usize,
    /// For some only.
    pub conditional: usize,
    /// In the paper's direction.
    pub direction: usize,
    /// Not.
    pub deviates: usize,
}

impl Count {
    /// How many, with what they are: `1 number`, `24 numbers`.
    pub fn named(&self, one: &str, several: &str) -> String {
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
