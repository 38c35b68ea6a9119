//! How the claims move with what a paper leaves open, one thing at a time.

use std::fmt::Write;

use super::document::{digits, paper_value};
use super::registry::{Open, Paper};
use super::{ClaimResult, Reproduction, Verdict};

/// Something open, and the claims under each alternative to what is taken for it.
#[derive(Clone, Debug)]
pub struct Sensitivity {
    /// What is open.
    pub name: String,
    /// What is taken for it.
    pub chosen: String,
    /// Why that.
    pub why: String,
    /// What else it could be.
    pub instead: Vec<String>,
    /// Every claim, as chosen and under each alternative.
    pub claims: Vec<(ClaimResult, Vec<ClaimResult>)>,
}

/// All that a paper leaves open, without claims yet.
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

impl Sensitivity {
    /// Takes in a figure's claims under an alternative; alternatives come in order.
    pub(super) fn take(&mut self, alternative: usize, chosen: &[ClaimResult], varied: &[ClaimResult]) {
        if alternative == 0 {
            self.claims.extend(chosen.iter().map(|claim| (claim.clone(), Vec::new())));
        }
        let from = self.claims.len() - chosen.len();
        for ((_, all), claim) in self.claims[from..].iter_mut().zip(varied) {
            all.push(claim.clone());
        }
    }
}

/// A claim that no alternative moves by more than this part of it is not listed.
const STILL: f64 = 0.05;

/// Whether a claim moves by more than that and by more than its seeds do among themselves.
fn moves(chosen: &ClaimResult, varied: &ClaimResult) -> bool {
    let (Some(a), Some(b)) = (chosen.measured, varied.measured) else {
        return chosen.measured.is_some() != varied.measured.is_some();
    };
    let range =
        |claim: &ClaimResult, value: f64| (claim.seeds.1.unwrap_or(value), claim.seeds.2.unwrap_or(value));
    let (ours, theirs) = (range(chosen, a), range(varied, b));
    let apart = ours.1 < theirs.0 || theirs.1 < ours.0;
    apart && (chosen.verdict != varied.verdict || (a - b).abs() > STILL * a.abs().max(b.abs()))
}

fn cell(claim: &ClaimResult) -> String {
    let mark = match claim.verdict {
        Verdict::Reproduced => "●",
        Verdict::Direction => "◐",
        Verdict::Deviates => "○",
    };
    claim.measured.map_or_else(|| "none".to_owned(), |value| format!("{} {mark}", digits(value)))
}

/// In Markdown: a table for everything open.
pub(super) fn markdown(result: &Reproduction) -> String {
    let quick = if result.quick { " --quick" } else { "" };
    let mut text = format!(
        "# Sensitivity\n\nWritten by `tidegate reproduce --sensitivity{quick} --out DIR`. Papers leave things open. What is \
         taken for each holds in every figure; here it is varied, one thing at a time. Listed are the claims that move by more \
         than {:.0} %, or to another verdict, and by more than single seeds differ{}: ● reproduced, ◐ in the paper's \
         direction, ○ deviates.\n",
        100.0 * STILL,
        if result.quick { " (here there is one seed, so that some of it is chance)" } else { "" }
    );
    for (paper, opens) in &result.sensitivity {
        let _ = write!(text, "\n## {paper}\n");
        for open in opens {
            let _ = write!(text, "\n### {}\n\nTaken: {}. {}\n\n", open.name, open.chosen, open.why);
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
                let cells: Vec<String> = varied.iter().map(cell).collect();
                let (name, what) = (&chosen.claim, &chosen.text);
                let _ = writeln!(
                    text,
                    "| {name} | {what} | {} | {} | {} |",
                    paper_value(chosen),
                    cell(chosen),
                    cells.join(" | ")
                );
            }
            let still = open.claims.len() - moving.len();
            let others = if moving.is_empty() { "" } else { "other " };
            let _ = write!(text, "\n{still} {others}claims stay where they are.\n");
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn claim(measured: Option<f64>, range: (f64, f64), verdict: Verdict) -> ClaimResult {
        ClaimResult {
            paper: String::new(),
            figure: String::new(),
            claim: String::new(),
            text: String::new(),
            paper_value: None,
            measured,
            unit: String::new(),
            verdict,
            why: String::new(),
            seeds: (3, measured.map(|_| range.0), measured.map(|_| range.1)),
        }
    }

    #[test]
    fn a_claim_moves_by_more_than_its_seeds_do() {
        let chosen = claim(Some(10.0), (9.0, 11.0), Verdict::Reproduced);
        let to = |value, range, verdict| moves(&chosen, &claim(value, range, verdict));
        assert!(!to(Some(12.0), (10.5, 13.0), Verdict::Direction), "seeds of both meet");
        assert!(to(Some(12.0), (11.5, 13.0), Verdict::Reproduced));
        let exact = claim(Some(10.0), (10.0, 10.0), Verdict::Reproduced);
        let near = |verdict| moves(&exact, &claim(Some(10.3), (10.3, 10.3), verdict));
        assert!(!near(Verdict::Reproduced) && near(Verdict::Direction), "little, but to another verdict");
        assert!(to(None, (0.0, 0.0), Verdict::Deviates), "no answer any more");
    }
}
