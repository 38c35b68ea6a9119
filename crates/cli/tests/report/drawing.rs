//! Colours, units, legends and axes of plots, from the functions that draw them.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;

use serde_json::{Value, json};

use super::browser::Browser;
use super::start;
use crate::common::{Place, answer};

/// The scripts that draw plots.
const SCRIPTS: [&str; 3] = [
    include_str!("../../../papers/src/report/page/data.js"),
    include_str!("../../../papers/src/report/page/axes.js"),
    include_str!("../../../papers/src/report/page/plots.js"),
];
/// Colours of lines, to which the scripts of reports and the Python package both agree: by the
/// colour in the catalog or the palette, those on white, on a dark page, and in exported figures
/// for a dark background. Each is that of a first, second and third line of its protocol.
const COLORS: &str = include_str!("colors.json");
const WHITE: &str = "#ffffff";
const NIGHT: &str = "#16181c";

type Drawn = BTreeMap<String, [[String; 3]; 3]>;

fn drawn() -> Drawn {
    serde_json::from_str(COLORS).unwrap()
}

/// Colour, dash and marker of each protocol.
fn catalog() -> Vec<[String; 3]> {
    let all = answer(&["protocols", "--json"]).json();
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    let look = |of: &Value| ["color", "dash", "marker"].map(|key| text(&of[key]));
    all.as_array().unwrap().iter().map(look).collect()
}

/// All colours of protocols and of lines without one.
fn colors() -> BTreeSet<String> {
    let catalog = catalog().into_iter().map(|[color, ..]| color);
    catalog.chain(tidegate_workbench::PALETTE.map(str::to_owned)).collect()
}

/// Contrast by WCAG 2.
fn contrast(one: &str, other: &str) -> f64 {
    let luminance = |color: &str| {
        let linear = |at: usize| {
            let share = f64::from(u8::from_str_radix(&color[at..at + 2], 16).unwrap()) / 255.0;
            if share <= 0.04045 { share / 12.92 } else { ((share + 0.055) / 1.055).powf(2.4) }
        };
        0.2126 * linear(1) + 0.7152 * linear(3) + 0.0722 * linear(5)
    };
    let (one, other) = (luminance(one), luminance(other));
    (one.max(other) + 0.05) / (one.min(other) + 0.05)
}

/// Evaluates `body` with the functions of the scripts.
fn evaluate(browser: &mut Browser, scheme: &str, body: &str, argument: &Value) -> Value {
    let place = Place::usual();
    let page = place.path("blank.html");
    fs::write(&page, "<script type=\"application/json\" id=\"data\">{}</script>").unwrap();
    browser.open(&page, "screen", scheme);
    let script = format!("(argument) => {{\n{}\n{body}\n}}", SCRIPTS.concat());
    browser.ask(&script, &argument.to_string())
}

/// Lines need a contrast of 3 (WCAG 2, graphics). Lines of protocols differ as drawn, too.
#[test]
fn lines_have_contrast_in_light_and_dark() {
    let all = drawn();
    assert_eq!(all.keys().cloned().collect::<BTreeSet<_>>(), colors(), "UPDATE=1 adds colours");
    for (color, [white, dark, exported]) in &all {
        let on = [(white, WHITE), (dark, NIGHT), (exported, NIGHT)];
        for (line, ground) in on.iter().flat_map(|(lines, of)| lines.iter().map(move |l| (l, of))) {
            let found = contrast(line, ground);
            assert!(found >= 3.0, "{color}: {line} has a contrast of {found:.2} on {ground}");
        }
    }
    let catalog = catalog();
    for ground in [0, 1] {
        let drawn =
            catalog.iter().map(|[color, dash, marker]| (&all[color][ground][0], dash, marker));
        assert_eq!(drawn.collect::<BTreeSet<_>>().len(), catalog.len());
    }
}

/// `UPDATE=1` writes the colours.
#[test]
fn reports_draw_lines_in_the_listed_colors() {
    let Some(mut browser) = start() else { return };
    let body = "
      const hex = (color) => `#${color.match(/\\d+/g).map((c) =>
        Number(c).toString(16).padStart(2, '0')).join('')}`;
      return JSON.parse(argument).map((color) => [0, 1, 2].map((nth) => hex(tinted(color, nth))))
        .map((lines) => [lines, lines.map(onDark)]);";
    let colors: Vec<String> = colors().into_iter().collect();
    let mut of = |scheme| evaluate(&mut browser, scheme, body, &json!(colors));
    let (light, dark) = (of("light"), of("dark"));
    let lines = |value: &Value| serde_json::from_value::<[String; 3]>(value.clone()).unwrap();
    let found: Drawn = colors
        .iter()
        .enumerate()
        .map(|(i, color)| {
            let [white, exported] = [&light[i][0], &light[i][1]].map(lines);
            (color.clone(), [white, lines(&dark[i][0]), exported])
        })
        .collect();
    if std::env::var_os("UPDATE").is_some() {
        let line = |(color, lines): (&String, &_)| format!("{}: {}", json!(color), json!(lines));
        let text = found.iter().map(line).collect::<Vec<_>>().join(",\n");
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/report/colors.json");
        fs::write(path, format!("{{\n{text}\n}}\n")).unwrap();
        return;
    }
    assert_eq!(found, drawn());
}

/// The drawing of a plot: Plotly's data and layout.
fn drawing(browser: &mut Browser, plot: &Value) -> Value {
    let body = "
      const plot = JSON.parse(argument);
      const found = drawingOf(plot, { width: 480, off: new Set(), tail: false }, plot.note);
      // Plotly fails for a marker without a value.
      const isWrong = (trace) => 'marker' in trace && !trace.marker;
      if (found.data.some(isWrong)) throw new Error('there is a marker without a value');
      return found;";
    evaluate(browser, "light", body, plot)
}

fn line(points: &Value) -> Value {
    json!({ "name": "line", "color": "#0072b2", "dash": 0, "marker": "circle", "points": points })
}

#[test]
fn axes_have_short_numbers_and_a_zero() {
    let Some(mut browser) = start() else { return };
    let titles = |drawing: &Value| {
        ["xaxis", "yaxis"]
            .map(|axis| drawing["layout"][axis]["title"]["text"].as_str().unwrap().to_owned())
    };
    let slow = json!({
        "x": { "label": "time (ms)" }, "y": { "label": "goodput (Gbit/s a host)" },
        "lines": [line(&json!([[0, 0.03], [12_000, 0.02]]))], "bands": [[1000, 2000]],
        "accepted": [[6000, 0.01, 0.02]], "note": "n: 1 seed",
        "paper_marks": [{ "name": "A", "x": 3000, "y": 0.04, "color": "#0072b2" }],
    });
    let found = drawing(&mut browser, &slow);
    assert_eq!(titles(&found), ["time (s)", "goodput (Mbit/s a host)"]);
    let traces = found["data"].as_array().unwrap();
    let named = |name: &str| {
        let it = traces.iter().find(|trace| trace["name"].as_str().unwrap().starts_with(name));
        it.unwrap_or_else(|| panic!("no {name}: {traces:#?}"))
    };
    assert_eq!([&named("line")["x"], &named("line")["y"]], [&json!([0, 12]), &json!([30, 20])]);
    assert_eq!([&named("paper")["x"], &named("paper")["y"]], [&json!([3]), &json!([40])]);
    assert_eq!(named("accepted by the claim")["y"][1], 20.0);
    // The legend explains shaded times. The note is no title of an axis.
    assert_eq!(named("the circuit is up")["showlegend"], true);
    assert_eq!(found["layout"]["shapes"][0]["x1"], 2.0);
    assert_eq!(found["layout"]["annotations"][0]["text"], "n: 1 seed");
    let mut ranged = line(&json!([[0, 3], [1, 30], [6000, 4000]]));
    ranged["range"] = json!([[2, 4], [20, 40], [3000, 5000]]);
    let usual = json!({
        "x": { "label": "period (µs), 0 for exact", "log": true }, "y": { "label": "queue (KB)" },
        "lines": [ranged],
    });
    let found = drawing(&mut browser, &usual);
    assert_eq!(titles(&found), ["period (µs), 0 for exact", "queue (KB)"]);
    // A mark left of the other values, which no line joins.
    let [band, rest, zero] = [0, 1, 2].map(|i| &found["data"][i]);
    assert_eq!(band["x"], json!([1, 6000, 6000, 1]));
    assert_eq!([&rest["x"], &zero["y"]], [&json!([1, 6000]), &json!([3])]);
    let place = zero["x"][0].as_f64().unwrap();
    assert!(place > 0.0 && place < 1.0 && zero["mode"] == "markers", "{zero}");
    let axis = &found["layout"]["xaxis"];
    assert_eq!([&axis["tickvals"][0], &axis["ticktext"][0]], [&json!(place), &json!("0")]);
    assert!(axis["tickvals"][1].as_f64().unwrap() > place, "{axis}");
    assert!(axis["range"][0].as_f64().unwrap() < place.log10(), "{axis}");
    let hover = zero["hovertemplate"].as_str().unwrap();
    assert!(hover.contains("exact: 0<"), "{hover}");
}
