//! Plots as data. The page's script draws them.

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::units::readable;

/// Colours for lines without a protocol. They are muted, unlike those of protocols, and their
/// lightness differs enough to distinguish neighbours without colour.
pub const PALETTE: [&str; 7] =
    ["#3b4a5a", "#b08d57", "#7a6a99", "#9dbfa8", "#5b3a4a", "#8fb0c9", "#c4a5a0"];

/// Markers for lines without a protocol. No protocol has one of these.
pub(crate) const MARKERS: [&str; 7] = [
    "pentagon",
    "triangle-left",
    "hourglass",
    "triangle-right",
    "bowtie",
    "hexagon2",
    "star-diamond",
];

/// Width and height of the area inside the axes, in pixels. The page uses the same.
pub(crate) const AREA: (f64, f64) = (450.0, 270.0);

/// Significant digits of plotted values: more are not visible.
const DIGITS: usize = 5;

/// The source of most values.
pub(crate) fn paper_source() -> String {
    "paper".to_owned()
}

/// Whether this is the source of most values.
pub(crate) fn is_paper(source: &String) -> bool {
    *source == paper_source()
}

/// A plot.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Plot {
    /// Title.
    pub title: String,
    /// Horizontal axis.
    pub x: Axis,
    /// Vertical axis.
    pub y: Axis,
    /// The lines, in the order of the legend.
    pub lines: Vec<Line>,
    /// Ranges of x in which a circuit is up. They are shaded.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub bands: Vec<(f64, f64)>,
    /// Initial display of a distribution. The y of its points is always the share of values that
    /// exceed x; for shares close to one this keeps the tail exact.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub distribution: Option<Distribution>,
    /// Values of a matrix, row by row, in place of lines. The axes have names.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub cells: Vec<Vec<Option<f64>>>,
    /// Ranges of y that claims accept, each at an x: (x, minimum, maximum).
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub accepted: Vec<(f64, f64, f64)>,
    /// Values of the paper, drawn beside the measured ones. Results from before December 2026 have
    /// the former key.
    #[serde(alias = "said", skip_serializing_if = "Vec::is_empty")]
    pub paper_marks: Vec<PaperMark>,
    /// Number of values and meaning of bands; exported figures show it below the title of the x
    /// axis.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub note: String,
}

/// Display of a distribution.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Distribution {
    /// The share of values up to x.
    Cumulative,
    /// The share of values above x, on a log axis.
    Tail,
}

/// An axis.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Axis {
    /// Label with the unit.
    pub label: String,
    /// Whether the axis is logarithmic.
    pub log: bool,
    /// Start of a linear axis; `None`: at zero, or at the smallest negative value.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub from: Option<f64>,
    /// End of a linear axis; `None`: slightly beyond the largest value.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub to: Option<f64>,
    /// Names of 0, 1, …, if the values are names.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub names: Vec<String>,
}

/// Property in the names of simulated runs beside runs outside the simulator.
const SIMULATED: &str = "simulated";

impl Plot {
    /// Dashes the lines of simulated runs beside runs outside the simulator: the lines of a pair
    /// often coincide.
    pub(crate) fn dash_simulated(&mut self) {
        let is_simulated =
            |name: &str| name.split(", ").skip(1).any(|property| property == SIMULATED);
        let solid = self.lines.iter_mut().filter(|line| line.dash == 0 && is_simulated(&line.name));
        solid.enumerate().for_each(|(nth, line)| line.dash = nth + 1);
    }

    /// Writes the units in its texts for readers.
    pub(crate) fn make_readable(&mut self) {
        let Plot { title, x, y, lines, note, .. } = self;
        let axes =
            [x, y].into_iter().flat_map(|axis| axis.names.iter_mut().chain([&mut axis.label]));
        let texts = axes.chain(lines.iter_mut().map(|line| &mut line.name)).chain([title, note]);
        texts.for_each(|text| *text = readable(text).into_owned());
    }
}

/// A line.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Line {
    /// Name in the legend; an unnamed line is not listed there and belongs to the named line before
    /// it.
    pub name: String,
    /// Colour, `#rrggbb`.
    pub color: String,
    /// Number of the dash style. Lines of one colour also differ in lightness.
    pub dash: usize,
    /// Name of a marker, as in `ProtocolInfo`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub marker: Option<String>,
    /// Points in order.
    pub points: Points,
    /// Minimum and maximum y at each point, over seeds; empty for a single seed.
    #[serde(skip_serializing_if = "Points::is_empty")]
    pub range: Points,
    /// Whether each point is only a lower bound; empty if none is.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub bounds: Vec<bool>,
    /// Points are independent: drawn as markers without a line.
    #[serde(skip_serializing_if = "is_false")]
    pub apart: bool,
    /// Name of its protocol, if there is one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub protocol: Option<String>,
    /// Label of its flows, if there is only one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub label: Option<String>,
    /// The line for subsets of the messages.
    #[serde(rename = "parts", skip_serializing_if = "Vec::is_empty")]
    pub subsets: Vec<LineSubset>,
    /// Flows that the points, or the whole line, represent, within a run of the page.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub flows: Option<LineFlows>,
}

fn is_false(flag: &bool) -> bool {
    !flag
}

/// Points of a line for a subset of the messages.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LineSubset {
    /// Size class.
    pub size: usize,
    /// Points in order.
    pub points: Points,
}

/// The flows that a line shows.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LineFlows {
    /// Number of the run on the page.
    pub run: usize,
    /// One for each point, or one for all of them.
    pub ids: Vec<u64>,
}

/// A value of a paper, or of another simulator, in a plot.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PaperMark {
    /// Name of the claim.
    pub name: String,
    /// Position on the x axis.
    pub x: f64,
    /// The paper's value; in a distribution, the share of larger values.
    pub y: f64,
    /// End of a level on the x axis; absent for a single point.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub to: Option<f64>,
    /// Colour of the corresponding line.
    pub color: String,
    /// Name of its source.
    #[serde(default = "paper_source", skip_serializing_if = "is_paper")]
    pub source: String,
    /// Whether the value is that of another simulator, and not printed in the paper.
    #[serde(default, skip_serializing_if = "is_false")]
    pub is_simulated: bool,
}

/// Points (x, y). In JSON, numbers have only the digits that a plot needs, and non-finite points
/// are omitted.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Points(pub Vec<(f64, f64)>);

impl Points {
    /// Whether there are no points.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// At most `most` points: means of neighbours.
    pub(crate) fn thinned(&self, most: usize) -> Points {
        let width = self.0.len().div_ceil(most).max(1);
        let mean = |chunk: &[(f64, f64)]| {
            let n = chunk.len() as f64;
            let (x, y) =
                chunk.iter().fold((0.0, 0.0), |sum, point| (sum.0 + point.0, sum.1 + point.1));
            (x / n, y / n)
        };
        Points(self.0.chunks(width).map(mean).collect())
    }
}

impl From<Vec<(f64, f64)>> for Points {
    fn from(points: Vec<(f64, f64)>) -> Points {
        Points(points)
    }
}

impl std::ops::Deref for Points {
    type Target = Vec<(f64, f64)>;

    fn deref(&self) -> &Vec<(f64, f64)> {
        &self.0
    }
}

impl std::ops::DerefMut for Points {
    fn deref_mut(&mut self) -> &mut Vec<(f64, f64)> {
        &mut self.0
    }
}

impl Serialize for Points {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let finite = self.0.iter().filter(|(x, y)| x.is_finite() && y.is_finite());
        serializer.collect_seq(finite.map(|&(x, y)| (short(x), short(y))))
    }
}

impl<'de> Deserialize<'de> for Points {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Points, D::Error> {
        Vec::deserialize(deserializer).map(Points)
    }
}

/// A number rounded to the visible digits.
pub(crate) fn short(value: f64) -> f64 {
    format!("{value:.*e}", DIGITS - 1).parse().unwrap_or(value)
}

/// Label of an axis: text, with the unit in parentheses if there is one.
pub(crate) fn with_unit(words: String, unit: &str) -> String {
    match unit {
        "" => words,
        "us" => format!("{words} (µs)"),
        "B" => format!("{words} (bytes)"),
        unit => format!("{words} ({unit})"),
    }
}

/// Gives adjacent plots one y axis.
pub(crate) fn equal_scales(plots: &mut [Plot]) {
    let values = plots
        .iter()
        .flat_map(|plot| &plot.lines)
        .flat_map(|line| line.points.iter())
        .map(|point| point.1);
    let most = values.fold(0.0, f64::max);
    for plot in plots.iter_mut().filter(|_| most > 0.0) {
        plot.y.to = Some(most * 1.04);
    }
}

/// Thins the lines of plots to about `most` points in total, but a line to no fewer than `least`.
/// Returns `false` if nothing was removed.
pub(crate) fn thin<'a>(
    plots: impl Iterator<Item = &'a mut Points>,
    most: usize,
    least: usize,
) -> bool {
    let mut lines: Vec<&mut Points> = plots.collect();
    lines.sort_by_key(|points| points.len());
    let (mut left, mut thinned) = (most, false);
    let count = lines.len();
    // The shortest lines first: their unused share is available to the others.
    for (i, points) in lines.into_iter().enumerate() {
        let share = (left / (count - i)).max(least);
        if points.len() > share {
            *points = points.thinned(share);
            thinned = true;
        }
        left = left.saturating_sub(points.len());
    }
    thinned
}

#[cfg(test)]
mod tests {
    use super::*;
    use tidegate_algos::Protocol;

    #[test]
    fn the_palette_differs_from_protocols() {
        for info in Protocol::ALL.iter().map(|protocol| protocol.info()) {
            assert!(!PALETTE.contains(&info.color), "{}", info.name);
            assert!(!MARKERS.contains(&info.marker.name()), "{}", info.name);
        }
    }

    #[test]
    fn simulated_lines_beside_live_ones_are_dashed() {
        let line =
            |(name, dash): (&str, usize)| Line { name: name.into(), dash, ..Line::default() };
        let lines = [
            ("Tide", 0),
            ("Tide, simulated", 0),
            ("Tide, simulated, SThr = inf", 0),
            ("Swift, simulated", 3),
            ("simulated", 0),
        ];
        let mut plot = Plot { lines: lines.map(line).into(), ..Plot::default() };
        for _ in 0..2 {
            plot.dash_simulated();
            let dashes: Vec<usize> = plot.lines.iter().map(|line| line.dash).collect();
            assert_eq!(dashes, [0, 1, 2, 3, 0]);
        }
    }

    #[test]
    fn numbers_are_short_and_parse_back() {
        let points = vec![(1.0 / 3.0, 2e6), (f64::NAN, 1.0), (1.0, f64::INFINITY), (0.0, -1e-9)];
        let line = Line { name: "<x>".into(), points: points.into(), ..Line::default() };
        let text = serde_json::to_string(&line).unwrap();
        assert!(text.contains("[[0.33333,2000000.0],[0.0,-1e-9]]"), "{text}");
        let back: Line = serde_json::from_str(&text).unwrap();
        assert_eq!(back.points[..], [(0.33333, 2e6), (0.0, -1e-9)]);
    }

    #[test]
    fn long_lines_are_thinned_to_their_means() {
        let points = Points((0..2700).map(|i| (f64::from(i), 1.0)).collect());
        let thin = points.thinned(900);
        assert_eq!((thin.len(), thin[0]), (900, (1.0, 1.0)));
    }

    #[test]
    fn long_lines_use_the_share_of_short_ones() {
        let line = |n: usize| Points((0..n).map(|i| (i as f64, 0.0)).collect());
        let mut lines = [line(1000), line(10), line(1000)];
        assert!(thin(lines.iter_mut(), 210, 5));
        assert_eq!(lines.each_ref().map(|line| line.len()), [100, 10, 100]);
        assert!(!thin(lines.iter_mut(), 210, 5), "no further thinning");
        assert!(thin(lines.iter_mut(), 10, 50) && lines[0].len() == 50, "no fewer than that");
    }
}
