//! Collectives in reports.

use super::{inspect, report, start};
use crate::common::Place;

/// A ring, and a chain with one iteration.
const JOBS: &str = r#"
[[traffic]]
kind = "collective"
op = "ring-all-reduce"
size = "30KB"
label = "train"
start = "60us"
iterations = 4
[[traffic]]
kind = "collective"
op = "chain"
size = "1KB"
reply = "9KB"
hosts = ["h2", "h0"]
"#;

#[test]
fn report_section_of_collectives() {
    let place = Place::new(JOBS);
    let scenario = place.arg("scenario.toml");
    let page = report(&place, "compare", &["compare", &scenario, "--protocols", "swift,sird"]);
    let text = std::fs::read_to_string(&page).unwrap();
    let (_, section) = text.split_once("<h2>Collectives</h2>").unwrap();
    let (section, _) = section.split_once("</section>").unwrap();
    // A heading, and two collectives of two protocols.
    assert_eq!(section.matches("<tr").count(), 5, "{section}");
    for words in ["<td>train</td><td>ring-all-reduce</td>", "algbw Gbit/s", "completion"] {
        assert!(section.contains(words), "`{words}` is missing in {section}");
    }
    let summary = std::fs::read(place.path("compare/swift/summary.json")).unwrap();
    let summary: serde_json::Value = serde_json::from_slice(&summary).unwrap();
    let (_, data) = text.split_once("id=\"data\">").unwrap();
    let data = serde_json::Deserializer::from_str(data).into_iter::<serde_json::Value>().next();
    let plots = data.unwrap().unwrap()["plots"].take();
    let drawn: Vec<_> = plots
        .as_array()
        .unwrap()
        .iter()
        .filter(|plot| plot["title"].as_str().unwrap().starts_with("Time of iterations"))
        .collect();
    assert_eq!(drawn.len(), 1, "a single iteration has no line");
    assert_eq!(drawn[0]["title"], "Time of iterations, train (ring-all-reduce)");
    let lines = drawn[0]["lines"].as_array().unwrap();
    assert_eq!((lines.len(), &lines[0]["protocol"]), (2, &"swift".into()));
    let times = summary["jobs"][0]["iterations_us"].as_array().unwrap();
    let points = lines[0]["points"].as_array().unwrap();
    assert_eq!((times.len(), points.len()), (4, 4));
    for (number, (point, time)) in points.iter().zip(times).enumerate() {
        assert_eq!(point[0].as_f64().unwrap(), number as f64 + 1.0);
        let (drawn, listed) = (point[1].as_f64().unwrap(), time.as_f64().unwrap());
        assert!((drawn / listed - 1.0).abs() < 1e-3, "{drawn} for {listed}");
    }

    // Without collectives, there is no section.
    let usual = Place::usual();
    let page = report(&usual, "run", &["run", &usual.arg("scenario.toml")]);
    assert!(!std::fs::read_to_string(page).unwrap().contains("<h2>Collectives</h2>"));

    let Some(mut browser) = start() else { return };
    let (faults, titles) = inspect(&mut browser, &place.path("compare/report.html"));
    assert!(faults.is_empty(), "{faults:#?}");
    assert!(titles.iter().any(|title| title.starts_with("Time of iterations")), "{titles:?}");
}
