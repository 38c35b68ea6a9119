//! Plots as SVG: complete in themselves, light or dark as the reader has it, without a script.

use std::borrow::Cow;
use std::fmt::Write;

/// Colours that colour-blind readers can tell apart, for lines that have none of their own: those
/// of Okabe and Ito, with purple for their yellow, which is faint on white.
pub(crate) const PALETTE: [&str; 7] =
    ["#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#8c6bb1"];

/// Shapes that tell lines apart without colour.
const DASHES: [&str; 4] = ["", "7 3", "2 3", "8 3 2 3"];
/// A line has at most so many points.
const MOST_POINTS: usize = 900;
/// A line of more points than that has about `SPARSE_MARKS` markers.
const MOST_MARKS: usize = 24;
const SPARSE_MARKS: usize = 8;

const WIDTH: f64 = 680.0;
const HEIGHT: f64 = 380.0;
const LEFT: f64 = 66.0;
const RIGHT: f64 = 18.0;
const BOTTOM: f64 = 50.0;
/// Above the frame, but for the legend.
const TOP: f64 = 40.0;
/// Where the title begins.
const TITLE: f64 = 16.0;
/// Width of a letter of a legend, at most as a rule: an SVG cannot measure its text.
const LETTER: f64 = 7.0;

/// A plot.
#[derive(Clone, Debug, Default)]
pub(crate) struct Plot {
    pub(crate) title: String,
    pub(crate) x: Axis,
    pub(crate) y: Axis,
    pub(crate) lines: Vec<Line>,
    /// Parts of x that are shaded.
    pub(crate) bands: Vec<(f64, f64)>,
}

/// Width and height of what the axes enclose.
pub(crate) const AREA: (f64, f64) = (WIDTH - LEFT - RIGHT, HEIGHT - BOTTOM - TOP);

/// An axis.
#[derive(Clone, Debug, Default)]
pub(crate) struct Axis {
    /// With its unit.
    pub(crate) label: String,
    pub(crate) log: bool,
    /// Starts here; at zero or the least value unless set.
    pub(crate) from: Option<f64>,
    /// Ends here; at the largest value unless set.
    pub(crate) to: Option<f64>,
}

/// A line.
#[derive(Clone, Debug, Default)]
pub(crate) struct Line {
    /// In the legend; a line without a name is not there.
    pub(crate) name: String,
    pub(crate) color: String,
    /// Which of the dashes.
    pub(crate) dash: usize,
    /// Name of a marker, as cards have them: at every point, or at some of many.
    pub(crate) marker: Option<&'static str>,
    pub(crate) points: Vec<(f64, f64)>,
    /// Points are things apart: markers alone, without a line through them.
    pub(crate) apart: bool,
}

/// An axis with its ends, in the units of the plot.
struct Scale {
    log: bool,
    from: f64,
    to: f64,
    /// Where the ends lie on the paper.
    paper: (f64, f64),
}

impl Scale {
    fn new(axis: &Axis, values: impl Iterator<Item = f64> + Clone, paper: (f64, f64)) -> Scale {
        let usable = values.filter(|value| value.is_finite() && (!axis.log || *value > 0.0));
        let most = usable.clone().fold(f64::NEG_INFINITY, f64::max);
        let least = usable.fold(f64::INFINITY, f64::min);
        let (mut from, mut to) = if most < least { (0.0, 1.0) } else { (least, most) };
        if axis.log {
            (from, to) = (from.max(1e-12), to.max(1e-12));
            if from == to {
                (from, to) = (from / 2.0, to * 2.0);
            }
            // Markers at the ends stay inside the frame.
            let margin = (to / from).powf(0.02);
            (from, to) = (from / margin, to * margin);
        } else {
            from = from.min(0.0);
            to = if to <= from { from + 1.0 } else { to * 1.04 };
        }
        let (from, mut to) = (axis.from.unwrap_or(from), axis.to.unwrap_or(to));
        if to <= from {
            to = if axis.log { from * 10.0 } else { from + 1.0 };
        }
        Scale { log: axis.log, from, to, paper }
    }

    fn share(&self, value: f64) -> f64 {
        if self.log {
            (value / self.from).ln() / (self.to / self.from).ln()
        } else {
            (value - self.from) / (self.to - self.from)
        }
    }

    fn at(&self, value: f64) -> f64 {
        self.paper.0 + self.share(value) * (self.paper.1 - self.paper.0)
    }

    fn ticks(&self) -> Vec<f64> {
        if !self.log {
            return linear_ticks(self.from, self.to);
        }
        let decades = (self.to / self.from).log10();
        if decades < 0.7 {
            return linear_ticks(self.from, self.to);
        }
        let steps: &[f64] = if decades > 4.0 {
            &[1.0]
        } else if decades > 1.5 {
            &[1.0, 3.0]
        } else {
            &[1.0, 2.0, 3.0, 5.0, 7.0]
        };
        let (low, high) = (self.from.log10().floor() as i32, self.to.log10().ceil() as i32);
        let all =
            (low..=high).flat_map(|power| steps.iter().map(move |step| step * 10f64.powi(power)));
        all.filter(|tick| *tick >= self.from * 0.999 && *tick <= self.to * 1.001).collect()
    }
}

fn linear_ticks(from: f64, to: f64) -> Vec<f64> {
    let rough = (to - from) / 5.0;
    let power = 10f64.powf(rough.log10().floor());
    let step = [1.0, 2.0, 2.5, 5.0, 10.0]
        .into_iter()
        .map(|step| step * power)
        .find(|step| *step >= rough * 0.999);
    let step = step.unwrap_or(rough);
    let first = (from / step).ceil() as i64;
    let last = (to / step + 1e-9).floor() as i64;
    (first..=last).map(|i| i as f64 * step).collect()
}

/// A number on an axis.
fn tick_text(value: f64) -> String {
    match value.abs() {
        x if x >= 1e6 => format!("{}M", trimmed(value / 1e6)),
        x if x >= 1e4 => format!("{}k", trimmed(value / 1e3)),
        _ => trimmed(value),
    }
}

fn trimmed(value: f64) -> String {
    let text = format!("{value:.4}");
    let text = text.trim_end_matches('0').trim_end_matches('.');
    if text == "-0" { "0".to_owned() } else { text.to_owned() }
}

/// Text that is safe between tags.
pub(crate) fn escaped(text: &str) -> String {
    let text = isolated(text);
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

/// A text that runs from right to left, or turns the direction of what follows, between marks that
/// keep that to itself. They work in pages, pictures and titles alike.
pub(crate) fn isolated(text: &str) -> Cow<'_, str> {
    let marks = |c: char| {
        matches!(c, '\u{61c}' | '\u{200e}'..='\u{200f}' | '\u{202a}'..='\u{202e}')
            || matches!(c, '\u{2066}'..='\u{2069}')
    };
    let runs_left = |c: char| {
        matches!(c, '\u{590}'..='\u{8ff}' | '\u{fb1d}'..='\u{fdff}' | '\u{fe70}'..='\u{feff}'
            | '\u{10800}'..='\u{10fff}' | '\u{1e800}'..='\u{1efff}')
    };
    if !text.contains(|c| marks(c) || runs_left(c)) {
        return Cow::Borrowed(text);
    }
    // Its own marks could end the isolation.
    Cow::Owned(format!("\u{2068}{}\u{2069}", text.replace(marks, "\u{fffd}")))
}

const STYLE: &str = "<style>.ink{fill:#222}.quiet{fill:#666}.grid{stroke:#8884;stroke-width:1}\
.frame{stroke:#888;fill:none}.paper{fill:#fff}.band{fill:#8883}\
@media screen and \
(prefers-color-scheme:dark){.ink{fill:#ddd}.quiet{fill:#aaa}.paper{fill:#16181c}}</style>";

impl Plot {
    /// The picture.
    pub(crate) fn svg(&self) -> String {
        let legend = self.legend();
        let top = TOP + 20.0 * legend.1;
        let height = HEIGHT + 20.0 * legend.1;
        let points = || self.lines.iter().flat_map(|line| line.points.iter());
        let x = Scale::new(&self.x, points().map(|p| p.0), (LEFT, WIDTH - RIGHT));
        let visible = points().filter(|p| (-1e-9..=1.0 + 1e-9).contains(&x.share(p.0)));
        let y = Scale::new(&self.y, visible.map(|p| p.1), (height - BOTTOM, top));
        let mut svg = format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {height}\" \
             width=\"{WIDTH}\" \
             height=\"{height}\" role=\"img\" font-family=\"system-ui,sans-serif\" \
             font-size=\"12\">\
             <title>{title}</title>{STYLE}<rect class=\"paper\" width=\"{WIDTH}\" \
             height=\"{height}\"/>\
             <text class=\"ink\" x=\"{TITLE}\" y=\"22\" font-size=\"13\" \
             font-weight=\"600\">{title}</text>",
            title = escaped(&shortened(&self.title, WIDTH - 2.0 * TITLE, 1.2 * LETTER))
        );
        let _ = write!(svg, "<g class=\"legend\">{}</g>", legend.0);
        self.axes(&mut svg, &x, &y, top, height);
        svg.push_str("<g class=\"marks\">");
        for line in &self.lines {
            line.draw(&mut svg, &x, &y);
        }
        svg.push_str("</g></svg>\n");
        svg
    }

    /// Names of the lines, and how many rows they take.
    fn legend(&self) -> (String, f64) {
        let mut svg = String::new();
        let (mut at, mut row) = (LEFT, 0.0);
        for line in self.lines.iter().filter(|line| !line.name.is_empty()) {
            let name = shortened(&line.name, WIDTH - RIGHT - LEFT - 34.0, LETTER);
            let width = 34.0 + LETTER * name.chars().count() as f64;
            if at + width > WIDTH - RIGHT && at > LEFT {
                (at, row) = (LEFT, row + 1.0);
            }
            let y = 40.0 + 20.0 * row;
            let stroke = if line.apart { "none" } else { &line.color };
            let _ = write!(
                svg,
                "<line x1=\"{at}\" x2=\"{}\" y1=\"{y}\" y2=\"{y}\" stroke=\"{}\" \
                 stroke-width=\"2\" \
                 stroke-dasharray=\"{}\"/>",
                at + 22.0,
                stroke,
                DASHES[line.dash % DASHES.len()]
            );
            if let Some(marker) = line.marker {
                svg.push_str(&shape(marker, at + 11.0, y, &line.color));
            }
            let _ = write!(
                svg,
                "<text class=\"ink\" x=\"{}\" y=\"{}\">{}</text>",
                at + 27.0,
                y + 4.0,
                escaped(&name)
            );
            at += width + 8.0;
        }
        (svg, row + 1.0)
    }

    fn axes(&self, svg: &mut String, x: &Scale, y: &Scale, top: f64, height: f64) {
        let (right, bottom) = (WIDTH - RIGHT, height - BOTTOM);
        for (from, to) in &self.bands {
            let [from, to] = [from, to].map(|&end| x.at(end).clamp(LEFT, right));
            if to > from {
                let _ = write!(
                    svg,
                    "<rect class=\"band\" x=\"{from:.1}\" y=\"{top}\" width=\"{:.1}\" \
                     height=\"{}\"/>",
                    to - from,
                    bottom - top
                );
            }
        }
        for tick in x.ticks() {
            let at = x.at(tick);
            let _ = write!(
                svg,
                "<line class=\"grid\" x1=\"{at:.1}\" x2=\"{at:.1}\" y1=\"{top}\" y2=\"{bottom}\"/>\
                 <text class=\"quiet\" x=\"{at:.1}\" y=\"{}\" text-anchor=\"middle\">{}</text>",
                bottom + 17.0,
                tick_text(tick)
            );
        }
        for tick in y.ticks() {
            let at = y.at(tick);
            let _ = write!(
                svg,
                "<line class=\"grid\" x1=\"{LEFT}\" x2=\"{right}\" y1=\"{at:.1}\" y2=\"{at:.1}\"/>\
                 <text class=\"quiet\" x=\"{}\" y=\"{:.1}\" text-anchor=\"end\">{}</text>",
                LEFT - 7.0,
                at + 4.0,
                tick_text(tick)
            );
        }
        let middle = (top + bottom) / 2.0;
        let _ = write!(
            svg,
            "<rect class=\"frame\" x=\"{LEFT}\" y=\"{top}\" width=\"{}\" height=\"{}\"/>\
             <text class=\"ink\" x=\"{}\" y=\"{}\" text-anchor=\"middle\">{}</text>\
             <text class=\"ink\" transform=\"translate(16 {middle}) rotate(-90)\" \
             text-anchor=\"middle\">{}</text>",
            right - LEFT,
            bottom - top,
            (LEFT + right) / 2.0,
            height - 12.0,
            escaped(&self.x.label),
            escaped(&self.y.label)
        );
    }
}

impl Line {
    fn draw(&self, svg: &mut String, x: &Scale, y: &Scale) {
        let mut path = String::new();
        let mut drawing = false;
        let mut marks = String::new();
        let points = thinned(&self.points);
        let every = if points.len() > MOST_MARKS { points.len() / SPARSE_MARKS } else { 1 };
        for (i, (px, py)) in points.into_iter().enumerate() {
            let (sx, sy) = (x.share(px), y.share(py));
            if !(sx.is_finite() && sy.is_finite() && (-1e-9..=1.0 + 1e-9).contains(&sx)) {
                drawing = false;
                continue;
            }
            let (at_x, at_y) = (x.at(px), y.paper.0 + sy.clamp(0.0, 1.0) * (y.paper.1 - y.paper.0));
            let _ = write!(path, "{}{at_x:.1} {at_y:.1}", if drawing { "L" } else { "M" });
            drawing = true;
            if let Some(marker) = self.marker.filter(|_| i % every == every / 2) {
                marks.push_str(&shape(marker, at_x, at_y, &self.color));
            }
        }
        if self.apart {
            svg.push_str(&marks);
            return;
        }
        let _ = write!(
            svg,
            "<path d=\"{path}\" fill=\"none\" stroke=\"{}\" stroke-width=\"1.6\" \
             stroke-linejoin=\"round\" \
             stroke-dasharray=\"{}\"/>{marks}",
            self.color,
            DASHES[self.dash % DASHES.len()]
        );
    }
}

/// A name that fits: of a long one the ends, which tell it from others.
fn shortened(name: &str, width: f64, letter: f64) -> String {
    let (most, letters) = ((width / letter) as usize, name.chars().count());
    if letters <= most {
        return name.to_owned();
    }
    let half = (most - 1) / 2;
    name.chars().take(half).chain(['…']).chain(name.chars().skip(letters - half)).collect()
}

/// At most so many points as can be seen: means of neighbours.
fn thinned(points: &[(f64, f64)]) -> Vec<(f64, f64)> {
    let width = points.len().div_ceil(MOST_POINTS).max(1);
    let mean = |chunk: &[(f64, f64)]| {
        let n = chunk.len() as f64;
        (chunk.iter().map(|p| p.0).sum::<f64>() / n, chunk.iter().map(|p| p.1).sum::<f64>() / n)
    };
    points.chunks(width).map(mean).collect()
}

/// A marker.
fn shape(name: &str, x: f64, y: f64, color: &str) -> String {
    let polygon = |points: &[(f64, f64)]| {
        let list: Vec<String> = points
            .iter()
            .map(|(dx, dy)| format!("{:.1},{:.1}", x + dx * 4.2, y + dy * 4.2))
            .collect();
        format!("<polygon points=\"{}\" fill=\"{color}\"/>", list.join(" "))
    };
    match name {
        "square" => polygon(&[(-0.85, -0.85), (0.85, -0.85), (0.85, 0.85), (-0.85, 0.85)]),
        "diamond" => polygon(&[(0.0, -1.2), (1.2, 0.0), (0.0, 1.2), (-1.2, 0.0)]),
        "triangle-up" => polygon(&[(0.0, -1.1), (1.05, 0.85), (-1.05, 0.85)]),
        "triangle-down" => polygon(&[(0.0, 1.1), (1.05, -0.85), (-1.05, -0.85)]),
        "cross" => polygon(&[
            (-0.35, -1.1),
            (0.35, -1.1),
            (0.35, -0.35),
            (1.1, -0.35),
            (1.1, 0.35),
            (0.35, 0.35),
            (0.35, 1.1),
            (-0.35, 1.1),
            (-0.35, 0.35),
            (-1.1, 0.35),
            (-1.1, -0.35),
            (-0.35, -0.35),
        ]),
        "star" => {
            let point = |i: u32| {
                let (angle, radius) = (
                    f64::from(i) * std::f64::consts::PI / 5.0,
                    if i.is_multiple_of(2) { 1.25 } else { 0.55 },
                );
                (angle.sin() * radius, -angle.cos() * radius)
            };
            polygon(&(0..10).map(point).collect::<Vec<_>>())
        }
        _ => format!("<circle cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"3.6\" fill=\"{color}\"/>"),
    }
}

/// Gives plots that stand beside each other one y axis.
pub(crate) fn equal_scales(plots: &mut [Plot]) {
    let values = plots
        .iter()
        .flat_map(|plot| &plot.lines)
        .flat_map(|line| &line.points)
        .map(|point| point.1);
    let most = values.fold(0.0, f64::max);
    for plot in plots.iter_mut().filter(|_| most > 0.0) {
        plot.y.to = Some(most * 1.04);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_are_round_and_inside() {
        assert_eq!(linear_ticks(0.0, 200.0), [0.0, 50.0, 100.0, 150.0, 200.0]);
        assert_eq!(linear_ticks(0.0, 0.31), [0.0, 0.1, 0.2, 0.30000000000000004]);
        let axis = Axis { log: true, ..Axis::default() };
        let scale = Scale::new(&axis, [3.0, 800.0].into_iter(), (0.0, 1.0));
        assert_eq!(scale.ticks(), [3.0, 10.0, 30.0, 100.0, 300.0]);
        assert_eq!(
            [0.5, 20.0, 20_000.0, 2.5e6, 0.0].map(tick_text),
            ["0.5", "20", "20k", "2.5M", "0"]
        );
    }

    #[test]
    fn a_plot_is_well_formed_whatever_the_values() {
        let points =
            vec![(0.0, f64::NAN), (1.0, 2.0), (f64::INFINITY, 3.0), (2.0, -1.0), (3.0, 0.0)];
        for log in [false, true] {
            let axis = || Axis { label: "a < b & c".into(), log, ..Axis::default() };
            let line = Line {
                name: "<x>".into(),
                color: "#123456".into(),
                points: points.clone(),
                ..Line::default()
            };
            let empty = Line { name: "nothing".into(), marker: Some("star"), ..Line::default() };
            let svg = Plot {
                title: "t".into(),
                x: axis(),
                y: axis(),
                lines: vec![line, empty],
                ..Plot::default()
            }
            .svg();
            assert!(
                !svg.contains("NaN") && !svg.contains("inf\"") && svg.contains("a &lt; b &amp; c"),
                "{svg}"
            );
        }
    }

    #[test]
    fn points_apart_have_no_line() {
        let line = |apart| Line {
            name: "x".into(),
            color: "#123456".into(),
            marker: Some("circle"),
            points: vec![(1.0, 1.0), (2.0, 4.0)],
            apart,
            ..Line::default()
        };
        let svg = |apart| Plot { lines: vec![line(apart)], ..Plot::default() }.svg();
        // In the plot and in the legend.
        let strokes = |svg: &str| svg.matches("stroke=\"#123456\"").count();
        assert_eq!([strokes(&svg(false)), strokes(&svg(true))], [2, 0]);
        assert_eq!(svg(true).matches("<circle").count(), 3);
    }

    #[test]
    fn long_lines_are_thinned_to_their_means() {
        let points: Vec<_> = (0..2700).map(|i| (f64::from(i), 1.0)).collect();
        let thin = thinned(&points);
        assert_eq!((thin.len(), thin[0]), (900, (1.0, 1.0)));
    }
}
