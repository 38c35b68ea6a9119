//! Sensitivity of the claims to a paper's open values, one at a time.

use std::fmt::Write;

use tidegate_runs::numbers::digits;

use super::document::paper_value;
use super::judge::Measured;
use super::registry::{Choice, Claim, Open, Paper};
use super::{ClaimResult, Reproduction, Verdict};

/// An open value, and the claims under each alternative.
#[derive(Clone, Debug)]
pub struct Sensitivity {
    /// Name of the open value.
    pub name: String,
    /// The choice.
    pub chosen: String,
    /// Reason for the choice.
    pub why: String,
    /// The alternatives.
    pub instead: Vec<String>,
    /// Every claim, as chosen and under each alternative.
    pub claims: Vec<(ClaimResult, Vec<Alternative>)>,
}

/// A claim under an alternative.
#[derive(Clone, Copy, Debug)]
pub struct Alternative {
    /// Its value; `None` if a run gave no value.
    pub value: Option<f64>,
    /// Minimum and maximum over seeds.
    pub range: Option<(f64, f64)>,
    /// The verdict on this value alone.
    pub verdict: Verdict,
}

/// All open values of a paper, without claims.
pub(super) fn of(paper: &Paper) -> Vec<Sensitivity> {
    let sensitivity = |open: &Open| Sensitivity {
        name: open.name.clone(),
        chosen: open.chosen.clone(),
        why: open.why.trim().to_owned(),
        instead: open.instead.iter().map(|other| other.name.clone()).collect(),
        claims: Vec::new(),
    };
    paper.opens.iter().map(sensitivity).collect()
}

/// Adds a claim under every alternative.
pub(super) fn take(
    opens: &mut [Sensitivity],
    chosen: &ClaimResult,
    claim: &Claim,
    measured: impl Fn(Choice) -> Option<Measured>,
) {
    for (i, open) in opens.iter_mut().enumerate() {
        let under = |j: usize| {
            let measured = measured((i, j)).unwrap_or_default();
            let (value, range) = (measured.value, measured.range);
            Alternative { value, range, verdict: measured.verdict(claim) }
        };
        open.claims.push((chosen.clone(), (0..open.instead.len()).map(under).collect()));
    }
}

/// Claims that every alternative moves by at most this share are not listed.
const STILL: f64 = 0.05;

/// Whether a claim moves by more than that, and by more than its seeds differ.
fn moves(chosen: &ClaimResult, varied: &Alternative) -> bool {
    let (Some(a), Some(b)) = (chosen.measured, varied.value) else {
        return chosen.measured.is_some() != varied.value.is_some();
    };
    let ours = (chosen.seeds.least.unwrap_or(a), chosen.seeds.most.unwrap_or(a));
    let theirs = varied.range.unwrap_or((b, b));
    let apart = ours.1 < theirs.0 || theirs.1 < ours.0;
    apart && (chosen.as_chosen != varied.verdict || (a - b).abs() > STILL * a.abs().max(b.abs()))
}

fn cell(value: Option<f64>, verdict: Verdict) -> String {
    let mark = match verdict {
        Verdict::Reproduced => "●",
        Verdict::Conditional | Verdict::Direction => "◐",
        Verdict::Deviates => "○",
    };
    value.map_or_else(|| "none".to_owned(), |value| format!("{} {mark}", digits(value)))
}

/// Markdown with a table for each open value.
pub(super) fn markdown(result: &Reproduction) -> String {
    let quick = if result.quick { " --quick" } else { "" };
    let mut text = format!(
        "# Sensitivity\n\nWritten by `tidegate reproduce --sensitivity{quick} --out DIR`. Papers \
         leave values open. The choice for each holds in every figure; here the choices are \
         varied, one at a time. The tables list the claims that move by more than {:.0} %, or to \
         another verdict, and by more than single seeds differ{}: ● reproduced, ◐ in the paper's \
         direction, ○ deviates.\n",
        100.0 * STILL,
        if result.quick { " (with one seed, part of this is chance)" } else { "" }
    );
    for (paper, opens) in &result.sensitivity {
        let _ = write!(text, "\n## {paper}\n");
        for open in opens {
            let _ =
                write!(text, "\n### {}\n\nChosen: {}. {}\n\n", open.name, open.chosen, open.why);
            let moving: Vec<_> = open
                .claims
                .iter()
                .filter(|(chosen, varied)| varied.iter().any(|varied| moves(chosen, varied)))
                .collect();
            if !moving.is_empty() {
                let heads = open.instead.join(" | ");
                let rule = "--:|".repeat(open.instead.len());
                let _ = writeln!(
                    text,
                    "| claim | | paper | {} | {heads} |\n|---|---|--:|--:|{rule}",
                    open.chosen
                );
            }
            for (chosen, varied) in &moving {
                let cells: Vec<String> =
                    varied.iter().map(|other| cell(other.value, other.verdict)).collect();
                let (name, what) = (&chosen.claim, &chosen.text);
                let _ = writeln!(
                    text,
                    "| {name} | {what} | {} | {} | {} |",
                    paper_value(chosen),
                    cell(chosen.measured, chosen.as_chosen),
                    cells.join(" | ")
                );
            }
            let still = open.claims.len() - moving.len();
            let others = if moving.is_empty() { "" } else { "other " };
            let _ = write!(text, "\n{still} {others}claims do not move.\n");
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::super::Seeds;
    use super::*;

    fn claim(value: f64, range: (f64, f64), verdict: Verdict) -> ClaimResult {
        ClaimResult {
            paper: String::new(),
            figure: String::new(),
            claim: String::new(),
            sentence: String::new(),
            is_part: false,
            text: String::new(),
            paper_value: None,
            derived: false,
            measured: Some(value),
            unit: String::new(),
            verdict,
            as_chosen: verdict,
            short: String::new(),
            why: String::new(),
            is_headline: false,
            seeds: Seeds { count: 3, least: Some(range.0), most: Some(range.1) },
        }
    }

    #[test]
    fn a_claim_moves_by_more_than_its_seeds_do() {
        let chosen = claim(10.0, (9.0, 11.0), Verdict::Reproduced);
        let under = |value: f64, range, verdict| Alternative {
            value: Some(value),
            range: Some(range),
            verdict,
        };
        let to = |value, range, verdict| moves(&chosen, &under(value, range, verdict));
        assert!(!to(12.0, (10.5, 13.0), Verdict::Direction), "the ranges of seeds overlap");
        assert!(to(12.0, (11.5, 13.0), Verdict::Reproduced));
        let exact = claim(10.0, (10.0, 10.0), Verdict::Reproduced);
        let near = |verdict| moves(&exact, &under(10.3, (10.3, 10.3), verdict));
        assert!(
            !near(Verdict::Reproduced) && near(Verdict::Direction),
            "little, but to another verdict"
        );
        for (value, expected) in [(10.4, false), (10.6, true), (9.6, false), (9.4, true)] {
            let alternative = under(value, (value, value), Verdict::Reproduced);
            assert_eq!(moves(&exact, &alternative), expected, "{value}");
        }
        let none = Alternative { value: None, range: None, verdict: Verdict::Deviates };
        let silent = ClaimResult { measured: None, ..chosen.clone() };
        assert!(moves(&silent, &under(10.0, (10.0, 10.0), Verdict::Reproduced)), "a value appears");
        assert!(!moves(&silent, &none), "none before and after");
        assert!(moves(&chosen, &none), "no answer any more");
    }
}
