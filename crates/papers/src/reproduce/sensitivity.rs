//! Sensitivity of the claims to a paper's open values, one at a time.

use std::fmt::Write;

use tidegate_runs::numbers::digits;

use super::document::folded;
use super::judge::Measured;
use super::registry::{Choice, Claim, Open, Paper};
use super::value_column::paper_value;
use super::{ClaimResult, Verdict};

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
    /// Claims that depend on the choice, as chosen and under each alternative; `None` if that has
    /// not been measured with this version.
    pub claims: Vec<(ClaimResult, Vec<Option<Alternative>>)>,
    /// Number of claims that do not depend on it.
    pub independent: usize,
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

impl Alternative {
    pub(super) fn of(measured: &Measured, claim: &Claim) -> Alternative {
        let (value, range) = (measured.value, measured.range);
        Alternative { value, range, verdict: measured.verdict(claim) }
    }
}

/// All open values of a paper, without claims.
pub(super) fn of(paper: &Paper) -> Vec<Sensitivity> {
    let sensitivity = |open: &Open| Sensitivity {
        name: open.name.clone(),
        chosen: open.chosen.clone(),
        why: open.why.trim().to_owned(),
        instead: open.instead.iter().map(|other| other.name.clone()).collect(),
        claims: Vec::new(),
        independent: 0,
    };
    paper.opens.iter().map(sensitivity).collect()
}

/// Adds a claim under every alternative of the choices that change one of its runs.
pub(super) fn take(
    opens: &mut [Sensitivity],
    chosen: &ClaimResult,
    changes: impl Fn(Choice) -> bool,
    under: impl Fn(Choice) -> Option<Alternative>,
) {
    for (i, open) in opens.iter_mut().enumerate() {
        let choices = (0..open.instead.len()).map(|j| (i, j));
        if choices.clone().any(&changes) {
            open.claims.push((chosen.clone(), choices.map(&under).collect()));
        } else {
            open.independent += 1;
        }
    }
}

/// The sensitivity of these claims by the recorded values, for the documents in the repository.
#[cfg(test)]
pub(crate) fn recorded(
    paper: &Paper,
    claims: &[ClaimResult],
) -> Result<Vec<Sensitivity>, tidegate_runs::Error> {
    use super::Seeds;
    use super::record::{self, Record};
    let record = Record::of(&paper.name)?;
    let mut opens = of(paper);
    for figure in &paper.figures {
        let plans = record::plans(paper, figure)?;
        for claim in &figure.claims {
            let Some(mut chosen) = claims.iter().find(|of| of.claim == claim.name).cloned() else {
                continue;
            };
            // Recorded values are rounded.
            let Seeds { least, most, .. } = &mut chosen.seeds;
            for value in [&mut chosen.measured, least, most] {
                *value = value.map(record::short);
            }
            // An alternative that changes none of the claim's runs.
            let same = Alternative {
                value: chosen.measured,
                range: chosen.seeds.least.zip(chosen.seeds.most),
                verdict: chosen.as_chosen,
            };
            let key = |choice, seeds| record::key(paper, figure, claim, choice, plans, seeds);
            let is_current = record.is_current(key(None, super::SEEDS), chosen.measured);
            let changes = |choice| key(Some(choice), 1).is_some();
            take(&mut opens, &chosen, changes, |choice| match key(Some(choice), 1) {
                None => Some(same),
                Some(key) => {
                    let measured = record.get(&key).filter(|_| is_current);
                    measured.map(|measured| Alternative::of(&measured, claim))
                }
            });
        }
    }
    Ok(opens)
}

/// Most rows of a table that is open at first.
const OPEN_MAX: usize = 8;

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

/// The cell of an alternative that has not been measured.
const UNKNOWN: &str = "–";

fn cell(value: Option<f64>, verdict: Verdict) -> String {
    let mark = match verdict {
        Verdict::Reproduced => "●",
        Verdict::Conditional | Verdict::Direction => "◐",
        Verdict::Deviates => "○",
    };
    value.map_or_else(|| "none".to_owned(), |value| format!("{} {mark}", digits(value)))
}

/// Markdown with a table for each open value of papers by title. With `quick`, each claim has one
/// seed.
pub(crate) fn markdown(papers: &[(String, Vec<Sensitivity>)], quick: bool) -> String {
    let option = if quick { " --quick" } else { "" };
    let mut text = format!(
        "# Sensitivity\n\nMeasured by `tidegate reproduce --sensitivity{option}`. Papers leave \
         values open. The choice for each holds in every figure; here the choices are varied, one \
         at a time. The tables list the claims that move by more than {:.0} %, or to another \
         verdict, and by more than single seeds differ{}: ● reproduced, ◐ in the paper's \
         direction, ○ deviates or the control passes the same check, {UNKNOWN} not measured with \
         this version. With several seeds, the mark is that of the worst seed; the value is their \
         mean.\n",
        100.0 * STILL,
        if quick { " (with one seed, part of this is chance)" } else { "" }
    );
    for (paper, opens) in papers {
        let _ = write!(text, "\n## {paper}\n");
        for open in opens {
            let _ =
                write!(text, "\n### {}\n\nChosen: {}. {}\n\n", open.name, open.chosen, open.why);
            let moving: Vec<_> = open
                .claims
                .iter()
                .filter(|(chosen, varied)| varied.iter().flatten().any(|one| moves(chosen, one)))
                .collect();
            let heads = open.instead.join(" | ");
            let rule = "--:|".repeat(open.instead.len());
            let mut table = format!(
                "| claim | | paper | {} | {heads} |\n|---|---|--:|--:|{rule}\n",
                open.chosen
            );
            for (chosen, varied) in &moving {
                let cells: Vec<String> = varied
                    .iter()
                    .map(|other| {
                        other.map_or_else(|| UNKNOWN.to_owned(), |of| cell(of.value, of.verdict))
                    })
                    .collect();
                let (name, what) = (&chosen.claim, &chosen.text);
                let _ = writeln!(
                    table,
                    "| {name} | {what} | {} | {} | {} |",
                    paper_value(chosen),
                    cell(chosen.measured, chosen.as_chosen),
                    cells.join(" | ")
                );
            }
            match moving.len() {
                0 => {}
                1..=OPEN_MAX => text.push_str(&table),
                many => {
                    let title = format!("{many} claims that move");
                    let _ = writeln!(text, "{}", folded(&title, &table).trim_end());
                }
            }
            let claims = if moving.is_empty() { "Claims" } else { "Other claims" };
            let still: Vec<_> = open
                .claims
                .iter()
                .filter(|(chosen, varied)| !varied.iter().flatten().any(|one| moves(chosen, one)))
                .collect();
            let unknown =
                still.iter().filter(|(_, varied)| varied.iter().any(Option::is_none)).count();
            if open.claims.is_empty() {
                text.push_str("\nNo claim that was measured with this version depends on it.\n");
                continue;
            }
            let counts = [
                (still.len() - unknown, "unmoved"),
                (unknown, "not measured with this version"),
                (open.independent, "independent of it"),
            ];
            let counts = counts.iter().filter(|(count, _)| *count > 0);
            let counts: Vec<_> = counts.map(|(count, what)| format!("{count} {what}")).collect();
            if !counts.is_empty() {
                let _ = writeln!(text, "\n{claims}: {}.", counts.join(", "));
            }
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
            accepted: String::new(),
            derived: false,
            own: false,
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
        assert!(moves(&chosen, &none), "no value any more");
    }

    #[test]
    fn long_tables_are_closed_at_first() {
        let text = |count: usize| {
            let chosen = claim(10.0, (10.0, 10.0), Verdict::Reproduced);
            let other = Alternative { value: Some(20.0), range: None, verdict: Verdict::Deviates };
            let open = Sensitivity {
                name: "window".to_owned(),
                chosen: "one".to_owned(),
                why: "Why.".to_owned(),
                instead: vec!["two".to_owned()],
                claims: vec![(chosen, vec![Some(other)]); count],
                independent: 1,
            };
            markdown(&[("Paper".to_owned(), vec![open])], false)
        };
        let (short, long) = (text(8), text(9));
        assert!(short.contains("Why.\n\n| claim |") && !short.contains("<details>"), "{short}");
        let opens = "Why.\n\n<details><summary>9 claims that move</summary>\n\n| claim |";
        assert!(long.contains(opens), "{long}");
        assert!(
            long.ends_with("|\n\n</details>\n\nOther claims: 1 independent of it.\n"),
            "{long}"
        );
    }
}
