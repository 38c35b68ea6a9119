//! What is drawn, as data: the page's script draws it.

use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// Colours for lines that are of no protocol: muted, as none of a protocol is, and so far apart in
/// lightness that neighbours differ without colour.
pub const PALETTE: [&str; 7] =
    ["#3b4a5a", "#b08d57", "#7a6a99", "#9dbfa8", "#5b3a4a", "#8fb0c9", "#c4a5a0"];

/// Markers for the same, which no protocol has either.
pub(crate) const MARKERS: [&str; 7] = [
    "pentagon",
    "triangle-left",
    "hourglass",
    "triangle-right",
    "bowtie",
    "hexagon2",
    "star-diamond",
];

/// Width and height of what the axes enclose, in pixels. The page keeps to it.
pub(crate) const AREA: (f64, f64) = (450.0, 270.0);

/// Significant digits of what is drawn: more cannot be seen.
const DIGITS: usize = 5;

/// A plot.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Plot {
    /// What it shows.
    pub title: String,
    /// Across.
    pub x: Axis,
    /// Up.
    pub y: Axis,
    /// In the order of the legend.
    pub lines: Vec<Line>,
    /// Parts of x that are shaded.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub bands: Vec<(f64, f64)>,
    /// How a distribution is shown at first. The y of its points is the share of values that are
    /// larger than x, whichever way; where shares are close to one, this keeps the tail exact.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub distribution: Option<Distribution>,
    /// What a paper says, beside what is measured.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub said: Vec<PaperMark>,
}

/// A way to show a distribution.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Distribution {
    /// The share that is not larger.
    Cumulative,
    /// The share that is larger, on a log axis.
    Tail,
}

/// An axis.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Axis {
    /// With its unit.
    pub label: String,
    /// Logarithmic.
    pub log: bool,
    /// Starts here; where the data do, or at zero, unless set.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub from: Option<f64>,
    /// Ends here; where the data do unless set.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub to: Option<f64>,
    /// What 0, 1, … stand for, where they are names.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub names: Vec<String>,
}

/// A line.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Line {
    /// In the legend; a line without a name is not there, and goes with the named one before it.
    pub name: String,
    /// `#rrggbb`.
    pub color: String,
    /// Which of the dashes. Lines of one colour differ in lightness too.
    pub dash: usize,
    /// Name of a marker, as cards have them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub marker: Option<String>,
    /// In order.
    pub points: Points,
    /// Least and greatest y at each of the points, over seeds; nothing where there is one.
    #[serde(skip_serializing_if = "Points::is_empty")]
    pub range: Points,
    /// Points are things apart: markers alone, without a line through them.
    #[serde(skip_serializing_if = "is_false")]
    pub apart: bool,
    /// Name of its protocol, where it is of one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub protocol: Option<String>,
    /// The label of its flows, where it is of one label alone.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub label: Option<String>,
    /// The same of some of the messages only.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub parts: Vec<LinePart>,
    /// Numbers of the flows that its points are, or its one flow, within a run of the page.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub flows: Option<LineFlows>,
}

fn is_false(flag: &bool) -> bool {
    !flag
}

/// A line's points for some of the messages.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LinePart {
    /// Of this class of sizes.
    pub size: usize,
    /// In order.
    pub points: Points,
}

/// Whose flows a line shows.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LineFlows {
    /// Number of the run on the page.
    pub run: usize,
    /// One for each point, or one for all of them.
    pub ids: Vec<u64>,
}

/// What a paper says at a place of a plot.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PaperMark {
    /// Name of the claim.
    pub name: String,
    /// Where.
    pub x: f64,
    /// The paper's value.
    pub y: f64,
    /// As the line whose value it is.
    pub color: String,
}

/// Points (x, y). As JSON their numbers are as short as a plot needs, and what is not finite is
/// left out.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Points(pub Vec<(f64, f64)>);

impl Points {
    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// At most so many: means of neighbours.
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

/// A number with as many digits as can be seen.
pub(crate) fn short(value: f64) -> f64 {
    format!("{value:.*e}", DIGITS - 1).parse().unwrap_or(value)
}

/// What an axis says: words, with the unit in parentheses where there is one.
pub(crate) fn with_unit(words: String, unit: &str) -> String {
    match unit {
        "" => words,
        "us" => format!("{words} (µs)"),
        "B" => format!("{words} (bytes)"),
        unit => format!("{words} ({unit})"),
    }
}

/// Gives plots that stand beside each other one y axis.
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

/// Thins the lines of plots so that all of them together have about `most` points, but a line no
/// fewer than `least`; `false` where nothing had to go.
pub(crate) fn thin<'a>(
    plots: impl Iterator<Item = &'a mut Points>,
    most: usize,
    least: usize,
) -> bool {
    let mut lines: Vec<&mut Points> = plots.collect();
    lines.sort_by_key(|points| points.len());
    let (mut left, mut thinned) = (most, false);
    let count = lines.len();
    // The shortest first: what they leave is for the others.
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
    fn what_is_no_protocol_looks_like_none() {
        for info in Protocol::ALL.iter().map(|protocol| protocol.info()) {
            assert!(!PALETTE.contains(&info.color), "{}", info.name);
            assert!(!MARKERS.contains(&info.marker.name()), "{}", info.name);
        }
    }

    #[test]
    fn numbers_are_short_and_come_back() {
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
    fn what_short_lines_leave_is_for_long_ones() {
        let line = |n: usize| Points((0..n).map(|i| (i as f64, 0.0)).collect());
        let mut lines = [line(1000), line(10), line(1000)];
        assert!(thin(lines.iter_mut(), 210, 5));
        assert_eq!(lines.each_ref().map(|line| line.len()), [100, 10, 100]);
        assert!(!thin(lines.iter_mut(), 210, 5), "nothing more has to go");
        assert!(thin(lines.iter_mut(), 10, 50) && lines[0].len() == 50, "no fewer than that");
    }
}
