//! Reports in a real browser: that they say nothing on the console, load nothing, and can be read,
//! in light, in dark and on paper.

#[path = "../common/mod.rs"]
mod common;

mod browser;

use std::io::Write;
use std::path::{Path, PathBuf};

use browser::Browser;
use common::{Place, answer, anywhere};
use serde_json::Value;

const CHECKS: &str = include_str!("checks.js");

/// Flows that never end, and messages of three sizes.
const FLOWS: &str = r#"
[[flows]]
src = "h0"
dst = "h2"
label = "long"
[[flows]]
src = "h1"
dst = "h2"
label = "long"
[[flows]]
src = "h1"
dst = "h2"
size = "2KB"
start = "60us"
count = 5
[[flows]]
src = "h0"
dst = "h2"
size = "20KB"
start = "80us"
count = 5
[[flows]]
src = "h1"
dst = "h2"
size = "200KB"
start = "100us"
count = 2
"#;

/// The browser; none, and a line that says so, where there is none and none is demanded.
fn start() -> Option<Browser> {
    if let Some(program) = browser::find() {
        return Some(Browser::start(&program));
    }
    let demanded = std::env::var("TIDEGATE_BROWSER").is_ok_and(|value| value == "required");
    assert!(!demanded, "TIDEGATE_BROWSER=required, but there is no Chromium in PATH");
    // Past the capture of tests that pass.
    let _ =
        writeln!(std::io::stderr(), "skipped: there is no Chromium in PATH to open reports with");
    None
}

/// The figure of the fewest runs that claims something, as `paper/figure`.
fn small_figure() -> String {
    let list = answer(&["reproduce", "--list", "--json"]).json();
    let claims = |figure: &&Value| !figure["claims"].as_array().unwrap().is_empty();
    let figure =
        list.as_array().unwrap().iter().filter(claims).min_by_key(|figure| figure["runs"].as_u64());
    format!(
        "{}/{}",
        figure.unwrap()["paper"].as_str().unwrap(),
        figure.unwrap()["figure"].as_str().unwrap()
    )
}

/// Makes results by `args`, and a report of them.
fn report(place: &Place, name: &str, args: &[&str]) -> PathBuf {
    let out = place.arg(name);
    answer(&[args, &["--out", &out]].concat()).ok();
    answer(&["report", &out]).ok();
    place.path(name).join("report.html")
}

fn comparison(place: &Place) -> PathBuf {
    let (scenario, all) = (place.arg("scenario.toml"), anywhere().join(","));
    report(
        place,
        "compare",
        &["compare", &scenario, "--protocols", &all, "--set", "output.timeseries=5us"],
    )
}

/// Opens a page in light, in dark and as print: what is wrong, and the titles of the plots.
fn inspect(browser: &mut Browser, page: &Path) -> (Vec<String>, Vec<String>) {
    let (mut faults, mut titles) = (Vec::new(), Vec::new());
    for (media, scheme) in [("screen", "light"), ("screen", "dark"), ("print", "dark")] {
        browser.open(page, media, scheme);
        let found = browser.ask(CHECKS, media);
        let strings = |key: &str| -> Vec<String> {
            found[key]
                .as_array()
                .unwrap()
                .iter()
                .map(|text| text.as_str().unwrap().to_owned())
                .collect()
        };
        let mut wrong = browser.complaints();
        wrong.extend(strings("faults"));
        let is_dark = (media, scheme) == ("screen", "dark");
        for brightness in found["brightness"].as_array().unwrap() {
            if (brightness.as_f64().unwrap() < 0.5) != is_dark {
                wrong.push(format!("the brightness of the background is {brightness}"));
            }
        }
        faults.extend(wrong.into_iter().map(|fault| format!("{media}, {scheme}: {fault}")));
        titles = strings("titles");
    }
    (faults, titles)
}

/// Pages of a PDF as Chromium writes it.
fn pages(pdf: &[u8]) -> usize {
    assert!(pdf.starts_with(b"%PDF"));
    String::from_utf8_lossy(pdf).matches("/Type /Page\n").count()
}

#[test]
fn reports_can_be_read_in_a_browser() {
    let Some(mut browser) = start() else { return };
    let place = Place::new(FLOWS);
    let scenario = place.arg("scenario.toml");
    let run = report(&place, "run", &["run", &scenario, "--set", "output.timeseries=5us"]);
    let unsampled = report(&place, "unsampled", &["run", &scenario]);
    let reproduction =
        report(&place, "reproduction", &["reproduce", &small_figure(), "--quick", "--no-cache"]);
    let of_messages = ["Slowdown of messages", "Slowdown by size", "Completion time by size"];
    let of_time = ["Goodput, ", "Queue from s0 to h2"];
    let of_runs = [&of_messages[..], &["Queues at switch ports"], &of_time].concat();
    let expected = [
        (run, &of_runs[..]),
        (unsampled, &of_runs[..4]),
        (comparison(&place), &of_runs),
        (reproduction, &["Figure "]),
    ];
    for (page, plots) in expected {
        let (faults, titles) = inspect(&mut browser, &page);
        assert!(faults.is_empty(), "{}: {faults:#?}", page.display());
        for plot in plots {
            let there = titles.iter().any(|title| title.starts_with(plot));
            assert!(there, "{}: no \"{plot}\" among {titles:?}", page.display());
        }
        assert!(pages(&browser.pdf()) > 0, "{} prints nothing", page.display());
    }
}

/// `TIDEGATE_REPORT=results/reproduction/report.html cargo test -p tidegate-cli --test report`
/// opens a page that takes too long to make in a test.
#[test]
fn a_report_named_from_outside_can_be_read() {
    let Some(page) = std::env::var_os("TIDEGATE_REPORT") else { return };
    let Some(mut browser) = start() else { return };
    let (faults, titles) = inspect(&mut browser, &std::fs::canonicalize(page).unwrap());
    assert!(faults.is_empty() && !titles.is_empty(), "{faults:#?}");
}

/// Every check can fail.
#[test]
fn what_is_wrong_with_a_report_is_noticed() {
    let Some(mut browser) = start() else { return };
    let place = Place::new(FLOWS);
    let page = std::fs::read_to_string(comparison(&place)).unwrap();
    let broken = [
        ("</body>", "<script>console.warn('oh')</script></body>", &["oh", "a script"][..]),
        ("</body>", "<script>no()</script></body>", &["no is not defined"]),
        (
            "</body>",
            "<img src=\"http://127.0.0.1:9/x.png\"></body>",
            &["127.0.0.1:9", "loadingFailed"],
        ),
        ("</body>", "<img src=\"nothing.png\"></body>", &["nothing.png"]),
        ("class=\"marks\"", "display=\"none\" class=\"marks\"", &["no marks"]),
        ("<path d=", "<path x=", &["fewer lines"]),
        (
            "class=\"marks\"",
            "transform=\"translate(500)\" class=\"marks\"",
            &["a mark lies outside"],
        ),
        (
            "class=\"legend\"",
            "transform=\"translate(0 60)\" class=\"legend\"",
            &["the legend covers data"],
        ),
        (
            "class=\"legend\"",
            "transform=\"translate(0 -15)\" class=\"legend\"",
            &["covers \"Goodput"],
        ),
        ("y=\"22\"", "y=\"-22\"", &["lies outside the picture"]),
        (
            ".quiet{fill:#666}",
            ".quiet{fill:#888}",
            &["screen, light: Slowdown of messages: contrast"],
        ),
        (
            ".quiet{fill:#aaa}",
            ".quiet{fill:#666}",
            &["screen, dark: Slowdown of messages: contrast"],
        ),
        ("--quiet:#aaa", "--quiet:#666", &["screen, dark: page: contrast"]),
        ("prefers-color-scheme:dark", "prefers-color-scheme:none", &["brightness"]),
        ("@media screen and (prefers", "@media (prefers", &["print, dark: the brightness"]),
        ("data:image/svg+xml,", "data:image/svg+xml,%3Cg", &["cannot be saved"]),
        ("figure,tr{break-inside:avoid}", "", &["may be cut between pages"]),
        ("table{font-size:7.5pt}", "table{width:900px}", &["wider than the paper"]),
    ];
    for (from, to, words) in broken {
        assert!(page.contains(from), "{from}");
        let path = place.path("broken.html");
        std::fs::write(&path, page.replace(from, to)).unwrap();
        let (faults, _) = inspect(&mut browser, &path);
        for word in words {
            let noticed = faults.iter().any(|fault| fault.contains(word));
            assert!(noticed, "`{word}` is not noticed with {to}: {faults:#?}");
        }
    }
}
