//! The picture of a figure's claims: measured values relative to those of the source.

use super::claims::ClaimResult;
use super::registry::{Figure, Verdict};
use crate::plot::{Axis, Line, Plot, Points};

/// All verdicts, the best first, with their colours in plots.
pub(crate) const VERDICTS: [(Verdict, &str, &str); 4] = [
    (Verdict::Reproduced, "#009e73", "circle"),
    (Verdict::Conditional, "#3388ff", "diamond"),
    (Verdict::Direction, "#e69f00", "triangle-up"),
    (Verdict::Deviates, "#d55e00", "cross"),
];

/// Maximum number of claims whose names fit on an axis.
const NAMED_MAX: usize = 30;

/// Name of the picture of [`beside_paper`].
pub(crate) fn beside_name(paper: &str, figure: &str) -> String {
    format!("{paper}-figure-{figure}-claims")
}

/// Factor by which the ends of accepted ranges may exceed all measured values of a plot.
const BEYOND: f64 = 2.0;

/// The ranges of a figure's claims, as ratios, between the limits of the plot.
fn accepted(
    figure: &Figure,
    shown: &[(&ClaimResult, f64)],
    (low, high): (f64, f64),
) -> Vec<(f64, f64, f64)> {
    let range = |(i, (result, _)): (usize, &(&ClaimResult, f64))| {
        let claim = figure.claims.iter().find(|claim| claim.name == result.claim)?;
        let ((least, most), value) = claim.accepted().zip(result.paper_value)?;
        let (one, other) = (least / value, most / value);
        let (least, most) = (one.min(other).max(low), one.max(other).min(high));
        (least <= most).then_some((i as f64, least, most))
    };
    shown.iter().enumerate().filter_map(range).collect()
}

/// Plot of measured values divided by those of the source, logarithmic if all are positive. Behind
/// them are the ranges that the figure's claims accept, as far as the plot shows them.
pub(crate) fn beside_paper(
    claims: &[&ClaimResult],
    source: &str,
    figure: Option<&Figure>,
) -> Option<Plot> {
    let over = |claim: &ClaimResult, value: Option<f64>| {
        Some(value? / claim.paper_value?).filter(|ratio| ratio.is_finite())
    };
    let shown: Vec<(&ClaimResult, f64)> =
        claims.iter().filter_map(|claim| Some((*claim, over(claim, claim.measured)?))).collect();
    if shown.is_empty() {
        return None;
    }
    let line = |(verdict, color, marker): (Verdict, &str, &str)| {
        let own =
            || shown.iter().enumerate().filter(move |(_, (claim, _))| claim.verdict == verdict);
        let range = |(_, (claim, ratio)): (usize, &(&ClaimResult, f64))| {
            let end = |value| over(claim, value).unwrap_or(*ratio);
            (end(claim.seeds.least), end(claim.seeds.most))
        };
        Line {
            name: verdict.name().to_owned(),
            color: color.to_owned(),
            marker: Some(marker.to_owned()),
            points: Points(own().map(|(i, (_, ratio))| (i as f64, *ratio)).collect()),
            range: Points(own().map(range).collect()),
            apart: true,
            ..Line::default()
        }
    };
    let ends = (-0.5, shown.len() as f64 - 0.5);
    let is_named = shown.len() <= NAMED_MAX;
    let named = shown.iter().filter(|_| is_named);
    let paper = Line {
        name: format!("the {source}"),
        color: "#808080".to_owned(),
        dash: 1,
        points: Points(vec![(ends.0, 1.0), (ends.1, 1.0)]),
        ..Line::default()
    };
    let lines = VERDICTS.map(line).into_iter().filter(|line| !line.points.is_empty());
    let lines: Vec<Line> = std::iter::once(paper).chain(lines).collect();
    // Ranges include the measured values.
    let log = lines.iter().all(|line| line.range.iter().all(|(least, _)| *least > 0.0));
    let values = lines.iter().flat_map(|line| line.points.iter().map(|point| point.1));
    let values =
        values.chain(lines.iter().flat_map(|line| &*line.range).flat_map(|of| [of.0, of.1]));
    let (least, most) = values
        .fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), end| (low.min(end), high.max(end)));
    let limits = match log {
        true => (least / BEYOND, most * BEYOND),
        false => (least.min(0.0) * BEYOND, most.max(0.0) * BEYOND),
    };
    let accepted = figure.map_or_else(Vec::new, |figure| accepted(figure, &shown, limits));
    Some(Plot {
        title: format!("Measured values relative to the {source}'s"),
        x: Axis {
            from: Some(ends.0),
            to: Some(ends.1),
            label: if is_named { "" } else { "claims in the order of the table" }.to_owned(),
            names: named.map(|(claim, _)| claim.claim.clone()).collect(),
            ..Axis::default()
        },
        y: Axis { label: format!("measured / {source}"), log, ..Axis::default() },
        lines,
        accepted,
        ..Plot::default()
    })
}

#[cfg(test)]
mod tests {
    use super::super::claims::Seeds;
    use super::*;

    fn result(claim: &str, paper: f64, measured: f64) -> ClaimResult {
        let seeds = Seeds { count: 1, least: None, most: None };
        let result = serde_json::json!({
            "paper": "p", "figure": "1", "claim": claim, "sentence": claim, "text": "",
            "paper_value": paper, "measured": measured, "unit": "", "verdict": "reproduced",
            "as_chosen": "reproduced", "why": "", "seeds": seeds,
        });
        serde_json::from_value(result).unwrap()
    }

    #[test]
    fn claims_have_their_accepted_ranges() {
        let claim = |name: &str, reproduced: &str| {
            format!(
                "[[claim]]\nname = '{name}'\ntext = 'x'\nunit = ''\ntolerance = 'x'\n{reproduced}\n\
                 measure = {{ metric = 'goodput', run = 'a' }}\n"
            )
        };
        let text = "title = 'x'\ntrace_us = 1.0\n[[run]]\nname = 'a'\n".to_owned()
            + &claim("A", "reproduced = [4.0, 6.0]")
            + &claim("B", "")
            + &claim("C", "reproduced = [1.0, inf]");
        let figure = Figure::read("figure-1", &text, false).unwrap().resolved(&[]).unwrap();
        let results = [result("A", 5.0, 5.5), result("B", 1.0, 1.0), result("C", 2.0, 3.0)];
        let results: Vec<&ClaimResult> = results.iter().collect();
        let plot = beside_paper(&results, "paper", Some(&figure)).unwrap();
        // The values are 1.1, 1 and 1.5 times the paper's; an open range ends beyond all of them.
        assert_eq!(plot.accepted, [(0.0, 0.8, 1.2), (2.0, 0.5, 3.0)]);
        assert!(beside_paper(&results, "paper", None).unwrap().accepted.is_empty());
    }
}
