//! The table at the head of a page: the claims for which a paper is known, with the verdicts on
//! their sentences.

use std::fmt::Write;

use tidegate_runs::numbers::with_unit;

use super::claims::{ClaimResult, sentence_of, verdict_on};
use super::value_column::{has_values, measured, values_cell, values_head, worded};

/// Maximum number of other readings or parts that a reason names.
const OTHERS_MAX: usize = 2;

/// The headlines among `claims`, which are all of a paper; empty if there are none.
pub(super) fn table(claims: &[&ClaimResult], source: &str) -> String {
    let headlines: Vec<&&ClaimResult> = claims.iter().filter(|claim| claim.is_headline).collect();
    if headlines.is_empty() {
        return String::new();
    }
    let has_values = has_values(claims);
    let [head, rule] = values_head(source, has_values);
    let mut text = format!(
        "| claim |{head} accepted | measured | verdict | reason |\n\
         |---|{rule}--:|--:|---|---|\n"
    );
    for claim in headlines {
        let sentence = sentence_of(claim, claims);
        let verdict = verdict_on(&sentence);
        let reason = match verdict == claim.verdict {
            true => worded(&claim.short, source),
            false => others(claim, &sentence),
        };
        let _ = writeln!(
            text,
            "| {} ({}, figure {}) |{} {} | {} | **{}** | {reason} |",
            claim.text,
            claim.claim,
            claim.figure,
            values_cell(claim, has_values),
            claim.accepted,
            measured(claim),
            verdict.name(),
        );
    }
    text + "\n"
}

/// The readings or parts whose verdicts differ from that of `claim`, so that the sentence has
/// another verdict.
fn others(claim: &ClaimResult, sentence: &[&ClaimResult]) -> String {
    let what = if claim.is_part { "part" } else { "reading" };
    let others: Vec<String> = sentence
        .iter()
        .filter(|other| other.verdict != claim.verdict)
        .map(|other| {
            let value = with_unit(other.measured, &other.unit);
            format!("{} ({}, {value})", other.verdict.name(), other.claim)
        })
        .collect();
    let (named, rest) = others.split_at(others.len().min(OTHERS_MAX));
    let more = if rest.is_empty() { String::new() } else { format!(" and {} more", rest.len()) };
    let which = match &others[..] {
        [_] => format!("another {what}"),
        _ => format!("other {what}s"),
    };
    format!("this {what}: {}; {which}: {}{more}", claim.verdict.name(), named.join(", "))
}

#[cfg(test)]
mod tests {
    use super::super::Verdict;
    use super::super::document::tests::claim;
    use super::*;

    #[test]
    fn headlines_have_the_verdicts_on_their_sentences() {
        let of_a = |name: &str, verdict, is_part| ClaimResult {
            sentence: "A".to_owned(),
            accepted: "1 to 4 us".to_owned(),
            is_part,
            ..claim(name, verdict, "")
        };
        let row = |others: &[(&str, Verdict)], is_part| {
            let own = of_a("A", Verdict::Reproduced, is_part);
            let others = others.iter().map(|(name, verdict)| of_a(name, *verdict, is_part));
            let all: Vec<ClaimResult> = std::iter::once(own).chain(others).collect();
            table(&all.iter().collect::<Vec<_>>(), "paper").lines().nth(2).unwrap().to_owned()
        };
        let start = "| it is so (A, figure 1) | 2 us | 1 to 4 us | 3 us | ";
        let same = row(&[("B", Verdict::Reproduced)], false);
        assert_eq!(same, format!("{start}**reproduced** | depends on beta |"));
        let reading = row(&[("B", Verdict::Direction), ("C", Verdict::Reproduced)], false);
        let expected =
            "**conditional** | this reading: reproduced; another reading: direction (B, 3 us) |";
        assert_eq!(reading, format!("{start}{expected}"));
        let parts = [("B", Verdict::Direction), ("C", Verdict::Deviates), ("D", Verdict::Deviates)];
        let expected = "**deviates** | this part: reproduced; other parts: direction (B, 3 us), \
                        deviates (C, 3 us) and 1 more |";
        assert_eq!(row(&parts, true), format!("{start}{expected}"));
    }
}
