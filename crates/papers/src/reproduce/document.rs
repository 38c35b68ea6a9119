//! The reproduction document.

use std::fmt::Write;

use tidegate_runs::numbers::{digits, with_unit};

use super::registry::SEEDS;
use super::{ClaimResult, Counts, Reproduction, Seeds, Verdict};

/// The verdicts on all claims in Markdown, figure by figure.
pub(crate) fn markdown(result: &Reproduction) -> String {
    let quick = if result.quick { " --quick" } else { "" };
    let vary = if result.sensitivity.is_empty() { "" } else { " --sensitivity" };
    let values = values(if result.quick { 1 } else { SEEDS });
    let mut text = format!(
        "# Reproduction\n\nWritten by `tidegate reproduce{vary}{quick} --out DIR`. {values}\n"
    );
    if !result.claims.is_empty() {
        text.push_str(&legend(result.counts()));
    }
    if !result.quick {
        let _ = write!(
            text,
            "\n± is half of a 95 % confidence interval over the seeds, by Student's t.\n"
        );
    }
    for paper in &result.papers {
        let _ = write!(text, "\n## {}\n\n{}\n", paper.title, paper.opening());
        for figure in &paper.figures {
            let is_its =
                |claim: &&ClaimResult| claim.paper == paper.paper && claim.figure == figure.figure;
            let claims: Vec<&ClaimResult> = result.claims.iter().filter(is_its).collect();
            if claims.is_empty() && figure.said.is_empty() {
                continue;
            }
            let _ = write!(text, "\n### Figure {}: {}\n\n", figure.figure, figure.title);
            for paragraph in &figure.said {
                let _ = write!(text, "{paragraph}\n\n");
            }
            if !claims.is_empty() {
                text.push_str(
                    "| claim | | paper | measured | verdict | why |\n|---|---|--:|--:|---|---|\n",
                );
            }
            for claim in claims {
                let _ = writeln!(
                    text,
                    "| {} | {} | {} | {} | {} | {} |",
                    claim.claim,
                    claim.text,
                    paper_value(claim),
                    measured(claim),
                    claim.verdict.name(),
                    claim.why.replace('|', "\\|")
                );
            }
        }
    }
    text
}

/// Explanation of values that were measured with `seeds` seeds.
pub(crate) fn values(seeds: u64) -> String {
    if seeds <= 1 {
        return "Values are from one seed.".to_owned();
    }
    format!(
        "Values are means over {seeds} seeds, and ratios are those of two means. Square brackets, \
         as in [9.24 to 9.66], hold the minimum and maximum of single seeds."
    )
}

/// Explanation of the paper's values in parentheses.
pub const DERIVED: &str = "Values in parentheses are not printed in the paper. They follow \
                                  from its words, such as a fair share, and count as orderings.";

/// Totals of the verdicts, and the meaning of each verdict.
fn legend(Counts { numbers, others }: Counts) -> String {
    format!(
        "\nOf the {} that the papers print, {numbers}. Of {} without a number, {others}. \
         Several readings of a sentence count once, and so do its parts, by the worst.\n\n\
         * *Reproduced*: within the tolerance for every seed and, with one seed, for every \
         alternative to what the paper leaves open.\n\
         * *Conditional*: within the tolerance for some of these only; the others are named.\n\
         * *Direction*: in the paper's direction for all of these, by at least a quarter of its \
         effect (in the logarithm for factors), or by the margin that the tolerance names.\n\
         * *Deviates*: none of these, or the control passes the same check, which it must fail.\n\n\
         {DERIVED}\n",
        numbers.named("number", "numbers"),
        others.named("ordering or trend", "orderings and trends"),
    )
}

impl Verdict {
    /// Name in texts.
    pub fn name(self) -> &'static str {
        match self {
            Verdict::Reproduced => "reproduced",
            Verdict::Conditional => "conditional",
            Verdict::Direction => "direction",
            Verdict::Deviates => "deviates",
        }
    }
}

/// A claim's measured value as text.
pub(crate) fn measured(claim: &ClaimResult) -> String {
    let value = with_unit(claim.measured, &claim.unit);
    match claim.seeds {
        Seeds { count: 2.., least: Some(least), most: Some(most) } => {
            format!("{value} [{} to {}]", digits(least), digits(most))
        }
        _ => value,
    }
}

/// A claim's value in the paper as text.
pub(crate) fn paper_value(claim: &ClaimResult) -> String {
    if claim.paper_value.is_none() {
        "no number".to_owned()
    } else {
        let value = with_unit(claim.paper_value, &claim.unit);
        if claim.derived { format!("({value})") } else { value }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{FigureText, PaperText};

    #[test]
    fn counts_have_singular_and_plural() {
        let count = |all| super::super::Count { all, ..Default::default() };
        let named = [0, 1, 24].map(|all| count(all).named("number", "numbers"));
        assert_eq!(named, ["0 numbers", "1 number", "24 numbers"]);
    }

    #[test]
    fn a_single_figure_omits_the_history() {
        let figure = |name: &str| FigureText {
            figure: name.to_owned(),
            title: "what it shows".to_owned(),
            said: vec!["Said of it.".to_owned()],
            pictures: Vec::new(),
        };
        let text = |figures: Vec<FigureText>| {
            let paper = PaperText {
                paper: "paper".to_owned(),
                title: "Paper".to_owned(),
                about: "About all.".to_owned(),
                history: "P1 was otherwise.".to_owned(),
                figures,
            };
            let result = Reproduction { papers: vec![paper], ..Reproduction::default() };
            (markdown(&result), crate::reproduction_files(&result))
        };
        let page = |files: &[(String, Vec<u8>)]| {
            let page = files.iter().find(|(name, _)| name == "report.html").unwrap();
            String::from_utf8(page.1.clone()).unwrap()
        };
        let (one, files) = text(vec![figure("1")]);
        assert!(one.contains("\n\nAbout all.\n\n### Figure 1: what it shows"), "{one}");
        assert!(page(&files).contains("About all.") && !page(&files).contains("P1 was"));
        let (two, files) = text(vec![figure("1"), figure("2")]);
        assert!(two.contains("\n\nAbout all.\n\nP1 was otherwise.\n\n### Figure 1"), "{two}");
        assert!(page(&files).contains("<p>About all.</p>\n<p>P1 was otherwise.</p>"));
    }
}
