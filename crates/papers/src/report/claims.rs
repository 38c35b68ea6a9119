//! The page of a reproduction.

use std::fmt::Write;

use super::data::Data;
use super::html::{Row, figures, section, table};
use super::markup::{NONE, escaped, marked_up, marked_up_line};
use crate::reproduce::{
    ClaimResult, Counts, DERIVED, PaperText, Picture, VERDICTS, beside_name, beside_paper,
    counting, has_values, measured, paper_value, papers as registered, source_of, values, worded,
};
use crate::units::readable;

/// A reproduction: totals, then every figure with its claims.
pub(crate) fn reproduction(
    claims: &[ClaimResult],
    papers: &[PaperText],
    pictures: &[Picture],
    data: &mut Data,
) -> String {
    let mut html = totals(claims, source_of(papers));
    // The accepted ranges are those of the present registry, like the marks of plots.
    let registry = registered(false).unwrap_or_default();
    for paper in papers {
        let known = registry.iter().find(|known| known.name == paper.paper);
        let opening = marked_up(&readable(&paper.opening()));
        let of_paper: Vec<&ClaimResult> =
            claims.iter().filter(|claim| claim.paper == paper.paper).collect();
        html.push_str(&section(&paper.title, &format!("<div class=\"text\">{opening}</div>\n")));
        for figure in &paper.figures {
            let mut inner = String::new();
            let about = std::iter::once(&figure.about).filter(|about| !about.is_empty());
            for paragraph in about.chain(&figure.values) {
                let _ = writeln!(
                    inner,
                    "<div class=\"text\">{}</div>",
                    marked_up(&readable(paragraph))
                );
            }
            let is_its =
                |claim: &&ClaimResult| claim.paper == paper.paper && claim.figure == figure.figure;
            let own: Vec<&ClaimResult> = claims.iter().filter(is_its).collect();
            let named = |name: &String| pictures.iter().find(|picture| picture.name == *name);
            let drawn = figure.pictures.iter().filter_map(named);
            let drawn = drawn.map(|picture| (Some(picture.name.clone()), picture.plot.clone()));
            let known = known
                .and_then(|known| known.figures.iter().find(|other| other.name == figure.figure));
            let held = beside_paper(&own, &paper.source, known)
                .map(|plot| (Some(beside_name(&paper.paper, &figure.figure)), plot));
            inner.push_str(&figures(data, drawn.chain(held)));
            if !own.is_empty() {
                inner.push_str(&claim_table(paper, has_values(&of_paper), &own));
            }
            html.push_str(&section(&format!("Figure {}: {}", figure.figure, figure.title), &inner));
        }
    }
    html
}

/// Totals of the verdicts at the head of the page. Each is a button that shows and hides its
/// claims.
fn totals(claims: &[ClaimResult], source: &str) -> String {
    if claims.is_empty() {
        return String::new();
    }
    let mut html = String::from("<p class=\"totals\">");
    for (verdict, ..) in VERDICTS {
        let name = verdict.name();
        let count = claims.iter().filter(|claim| claim.verdict == verdict).count();
        let _ = write!(
            html,
            "<button type=\"button\" data-verdict=\"{name}\" aria-pressed=\"true\"><b \
             class=\"{name}\">{count}</b> {name}</button> "
        );
    }
    // A claim on which the seed has no effect counts one seed.
    let seeds = claims.iter().map(|claim| claim.seeds.count).max().unwrap_or_default();
    let derived = if claims.iter().any(|claim| claim.derived) { DERIVED } else { "" };
    let _ = writeln!(
        html,
        "of {} claims</p>\n<p>{} {} {} {derived}</p>",
        claims.len(),
        Counts::of(claims).named(source),
        counting(claims),
        values(seeds),
    );
    html
}

fn claim_table(paper: &PaperText, has_values: bool, claims: &[&ClaimResult]) -> String {
    let titles = [
        ("claim", false),
        ("what", false),
        (paper.source.as_str(), true),
        ("measured", true),
        ("verdict", false),
        ("why", false),
    ];
    let text = |value: &str| escaped(&readable(value));
    let rows = claims.iter().map(|claim| {
        let verdict = claim.verdict.name();
        Row::from(vec![
            escaped(&claim.claim),
            marked_up_line(&readable(&claim.text)),
            if has_values { text(&paper_value(claim)) } else { NONE.to_owned() },
            text(&measured(claim)),
            format!("<b class=\"{verdict}\">{verdict}</b>"),
            marked_up_line(&readable(&worded(&claim.why, &paper.source))),
        ])
    });
    format!("<div class=\"claims stacked\">{}</div>", table(&titles, rows))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::reproduce::{Seeds, Verdict};

    #[test]
    fn totals_show_seeds_and_derived_values() {
        let claim = |count, derived| ClaimResult {
            paper: "p".to_owned(),
            figure: "1".to_owned(),
            claim: "c".to_owned(),
            sentence: "c".to_owned(),
            is_part: false,
            text: "it is so".to_owned(),
            paper_value: Some(1.0),
            accepted: String::new(),
            derived,
            own: false,
            measured: Some(2.0),
            unit: String::new(),
            verdict: Verdict::Direction,
            as_chosen: Verdict::Direction,
            short: String::new(),
            why: String::new(),
            is_headline: false,
            seeds: Seeds { count, least: None, most: None },
        };
        let quick = totals(&[claim(1, false), claim(1, false)], "paper");
        assert!(quick.contains("from one seed") && !quick.contains(DERIVED), "{quick}");
        let whole = totals(&[claim(1, true), claim(3, false)], "paper");
        assert!(whole.contains("means over 3 seeds") && whole.contains(DERIVED), "{whole}");
    }
}
