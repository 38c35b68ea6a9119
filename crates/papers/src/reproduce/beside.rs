//! The picture of a figure's claims: measured values relative to those of the source.

use super::claims::ClaimResult;
use super::registry::Verdict;
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

/// Plot of measured values divided by those of the source, logarithmic if all are positive.
pub(crate) fn beside_paper(claims: &[&ClaimResult], source: &str) -> Option<Plot> {
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
        ..Plot::default()
    })
}
