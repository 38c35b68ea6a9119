//! Verdicts of published results, computed again from recorded values. The bounds of a claim do not
//! affect what is measured, so a change of them needs no run.

use super::SEEDS;
use super::claims::ClaimResult;
use super::judge::{Measured, Varied};
use super::record::{self, Record};
use super::registry::{Choice, Claim, Figure, Paper, Verdict};
use tidegate_runs::Error;

/// The alternatives that change a run of the claim or of its control, each with the claim under it.
/// `measured` returns its value by alternative and key.
pub(super) fn varied(
    (paper, figure, claim): (&Paper, &Figure, &Claim),
    chosen: &Measured,
    mut measured: impl FnMut(Choice, String) -> Option<Measured>,
) -> Result<Vec<Varied>, Error> {
    let plans = record::plans(paper, figure)?;
    let varied = paper.choices().filter_map(|choice| {
        // An alternative that changes none of the claim's runs does not count.
        let key = record::key(paper, figure, claim, Some(choice), plans, 1)?;
        let changes = paper.changes(figure, claim, choice);
        let value = measured(choice, key);
        let value = value.map(|other| if changes { other } else { chosen.with_control_of(&other) });
        Some((paper.choice_name(choice), value))
    });
    Ok(varied.collect())
}

/// The number of different seeds that a verdict counts. A model has one solution for all seeds. A
/// comparison has one run of another simulator, and our run may also be free of chance.
pub(super) fn seeds(figure: &Figure, claim: &Claim, measured: u64) -> u64 {
    if figure.has_chance(claim) && claim.control.is_some() { measured } else { SEEDS }
}

/// A published result with the verdict by the claim's present bounds; `None` if the record lacks
/// the value of the control or an alternative, or belongs to another value.
pub(crate) fn rejudged(
    (paper, figure, claim): (&Paper, &Figure, &Claim),
    result: &ClaimResult,
    record: &Record,
) -> Result<Option<ClaimResult>, Error> {
    let key = record::key(paper, figure, claim, None, record::plans(paper, figure)?, SEEDS);
    let known = key.as_ref().and_then(|key| record.get(key));
    let chosen = published(result, known.and_then(|known| known.control));
    let varied = varied((paper, figure, claim), &chosen, |_, key| record.get(&key))?;
    let is_complete = if known.is_some() {
        record.is_current(key, chosen.value) && varied.iter().all(|(_, other)| other.is_some())
    } else {
        // The control of a claim that deviates anyway does not count.
        let deviates = claim.verdict(chosen.value) == Verdict::Deviates;
        varied.is_empty() && (claim.control.is_none() || deviates)
    };
    if !is_complete {
        return Ok(None);
    }
    let seeds = seeds(figure, claim, chosen.seeds);
    let singles = singles_of(&result.why);
    Ok(Some(ClaimResult::of(paper, figure, claim, &chosen, &varied, seeds, singles)))
}

/// The measured value of a published result.
fn published(result: &ClaimResult, control: Option<f64>) -> Measured {
    let range = result.seeds.least.zip(result.seeds.most);
    Measured { value: result.measured, range, seeds: result.seeds.count, control }
}

/// Whether a published verdict follows from the claim's present bounds, as far as that is known
/// without alternatives and the control.
#[cfg(test)]
pub(crate) fn is_consistent(figure: &Figure, claim: &Claim, result: &ClaimResult) -> bool {
    let seeds = seeds(figure, claim, result.seeds.count);
    let verdict = super::judge::judge(claim, &published(result, None), &[], seeds).verdict;
    verdict == result.verdict || result.short.starts_with("inconclusive")
}

/// The sentence about the values of single runs, `Of 9: 1.2 to 3.4.`, in the reasons for a verdict;
/// empty if there is none.
fn singles_of(why: &str) -> &str {
    let is_start = |rest: &str| rest.starts_with(|letter: char| letter.is_ascii_digit());
    let starts = why.match_indices(" Of ").filter(|(at, of)| is_start(&why[at + of.len()..]));
    starts.map(|(at, _)| &why[at + 1..]).next().map_or("", |text| {
        let end = text.find(". ").unwrap_or(text.len() - 1);
        &text[..=end]
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_of_single_runs_are_kept() {
        for (why, expected) in [
            ("Tolerance: a tenth.", ""),
            ("Tolerance: a tenth. Of 9: 1.2 to 3.4.", "Of 9: 1.2 to 3.4."),
            ("Tolerance: x. Of 7 of 9: 1 to 3.4. Not for every seed.", "Of 7 of 9: 1 to 3.4."),
            ("Tolerance: x. Of the 9 it has: none.", ""),
        ] {
            assert_eq!(singles_of(why), expected, "{why}");
        }
    }
}
