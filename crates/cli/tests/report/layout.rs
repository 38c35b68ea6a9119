//! The layout of a page: the order of its sections, and the columns of plots by width.

use serde_json::{Value, json};

use super::{CHECKS, FLOWS, comparison_of, report, start};
use crate::common::Place;

/// Returns the number of columns of plots.
const COLUMNS: &str = r##"() => new Set([...document.querySelectorAll(".plots > figure")]
    .filter((figure) => !figure.hidden)
    .map((figure) => Math.round(figure.getBoundingClientRect().left))).size"##;

/// Returns whether there are long texts, how many of them are out of view, and the position and
/// legibility of the names of runs.
const NARROW: &str = r##"() => {
  const texts = [...document.querySelectorAll(".stacked td:last-child")];
  const hidden = texts.filter((cell) => cell.getBoundingClientRect().right > innerWidth);
  const name = document.querySelector("section > .wide td:first-child");
  const isLegible = name.clientWidth > 50;
  return [texts.length > 0, hidden.length, getComputedStyle(name).position, isLegible];
}"##;

#[test]
fn results_come_before_settings() {
    let place = Place::new(FLOWS);
    let run = ["run", &place.arg("scenario.toml"), "--set", "output.timeseries=5us"];
    let page = std::fs::read_to_string(report(&place, "run", &run)).unwrap();
    let sections: Vec<&str> =
        page.split("<h2>").skip(1).map(|part| part.split('<').next().unwrap()).collect();
    let expected = [
        "Summary",
        "Messages",
        "Goodput over time",
        "Windows over time",
        "Queues",
        "Switch buffers",
        "Busiest switch ports",
        "Scenario",
        "Fabric",
    ];
    assert_eq!(sections, expected);
}

#[test]
fn plots_fit_all_widths() {
    let Some(mut browser) = start() else { return };
    let place = Place::new(FLOWS);
    let page = comparison_of(&place, "swift,dctcp,sird");
    for (width, columns) in [(360, 1), (800, 1), (1200, 2), (1800, 2)] {
        browser.open_at(&page, "screen", "light", width);
        let faults = browser.ask(CHECKS, "screen")["faults"].clone();
        assert_eq!(faults, Value::Array(Vec::new()), "{width} pixels");
        assert_eq!(browser.ask(COLUMNS, ""), columns, "{width} pixels");
        if width == 360 {
            assert_eq!(browser.ask(NARROW, ""), json!([true, 0, "sticky", true]));
        }
    }
}
