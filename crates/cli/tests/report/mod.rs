//! Reports in a real browser: no console messages, no external requests, legible in light, dark and
//! print, and interactive.

mod browser;
mod drawing;
mod figures;
mod jobs;
mod layout;
mod state;
mod sweeps;
mod warnings;

use std::io::Write;
use std::path::{Path, PathBuf};

use crate::common::{Place, answer, anywhere};
use browser::Browser;
use serde_json::Value;

const CHECKS: &str = include_str!("checks.js");
const EXPLORE: &str = include_str!("explore.js");
const OPENED: &str = include_str!("opened.js");
const FLOW: &str = include_str!("flow.js");

/// Unbounded flows, and messages of three sizes.
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
label = "short"
[[flows]]
src = "h0"
dst = "h2"
size = "20KB"
start = "80us"
count = 5
label = "short"
[[flows]]
src = "h1"
dst = "h2"
size = "200KB"
start = "100us"
count = 2
label = "big"
"#;

/// Starts the browser; `None` with a note if there is none and none is required.
fn start() -> Option<Browser> {
    if let Some(program) = browser::find() {
        return Some(Browser::start(&program));
    }
    let demanded = std::env::var("TIDEGATE_BROWSER").is_ok_and(|value| value == "required");
    assert!(!demanded, "TIDEGATE_BROWSER=required, but there is no Chromium in PATH");
    // Written directly, so that it is visible for passing tests, too.
    let _ =
        writeln!(std::io::stderr(), "skipped: there is no Chromium in PATH to open reports with");
    None
}

/// The figure with claims that has the fewest runs, as `paper/figure`.
fn small_figure() -> String {
    let list = answer(&["reproduce", "--list", "--json"]).json();
    // Tables of other simulators' numbers have no plots.
    let claims = |figure: &&Value| {
        !figure["claims"].as_array().unwrap().is_empty() && figure["paper"] != "authors"
    };
    let figure =
        list.as_array().unwrap().iter().filter(claims).min_by_key(|figure| figure["runs"].as_u64());
    format!(
        "{}/{}",
        figure.unwrap()["paper"].as_str().unwrap(),
        figure.unwrap()["figure"].as_str().unwrap()
    )
}

/// Creates results with `args`, and their report.
fn report(place: &Place, name: &str, args: &[&str]) -> PathBuf {
    let out = place.arg(name);
    answer(&[args, &["--out", &out]].concat()).ok();
    answer(&["report", &out]).ok();
    place.path(name).join("report.html")
}

/// A report of all protocols.
fn comparison(place: &Place) -> PathBuf {
    comparison_of(place, &anywhere().join(","))
}

fn comparison_of(place: &Place, protocols: &str) -> PathBuf {
    let scenario = place.arg("scenario.toml");
    report(
        place,
        "compare",
        &["compare", &scenario, "--protocols", protocols, "--set", "output.timeseries=5us"],
    )
}

/// Media and colour schemes in which pages are opened.
const LIGHT: (&str, &str) = ("screen", "light");
const DARK: (&str, &str) = ("screen", "dark");
const PRINT: (&str, &str) = ("print", "dark");
const PRESENTATIONS: [(&str, &str); 3] = [LIGHT, DARK, PRINT];

/// Opens a page in all presentations; returns its faults and the titles of plots.
fn inspect(browser: &mut Browser, page: &Path) -> (Vec<String>, Vec<String>) {
    let (mut faults, mut titles) = (Vec::new(), Vec::new());
    for presentation in PRESENTATIONS {
        let (wrong, found) = inspect_as(browser, page, presentation);
        faults.extend(wrong);
        titles = found;
    }
    (faults, titles)
}

/// Opens a page in one presentation; returns its faults and the titles of plots.
fn inspect_as(
    browser: &mut Browser,
    page: &Path,
    (media, scheme): (&str, &str),
) -> (Vec<String>, Vec<String>) {
    browser.open(page, media, scheme);
    let found = browser.ask(CHECKS, media);
    let strings = |key: &str| -> Vec<String> {
        let texts = found[key].as_array().unwrap().iter();
        texts.map(|text| text.as_str().unwrap().to_owned()).collect()
    };
    let mut wrong = browser.complaints();
    wrong.extend(strings("faults"));
    let is_dark = (media, scheme) == ("screen", "dark");
    for brightness in found["brightness"].as_array().unwrap() {
        if (brightness.as_f64().unwrap() < 0.5) != is_dark {
            wrong.push(format!("the brightness of the background is {brightness}"));
        }
    }
    let faults = wrong.into_iter().map(|fault| format!("{media}, {scheme}: {fault}")).collect();
    (faults, strings("titles"))
}

/// Number of pages of a PDF by Chromium.
fn pages(pdf: &[u8]) -> usize {
    assert!(pdf.starts_with(b"%PDF"));
    String::from_utf8_lossy(pdf).matches("/Type /Page\n").count()
}

#[test]
fn reports_in_a_browser() {
    let Some(mut browser) = start() else { return };
    let place = Place::new(FLOWS);
    let scenario = place.arg("scenario.toml");
    let run = report(&place, "run", &["run", &scenario, "--set", "output.timeseries=5us"]);
    let unsampled = report(&place, "unsampled", &["run", &scenario]);
    let reproduction =
        report(&place, "reproduction", &["reproduce", &small_figure(), "--quick", "--no-cache"]);
    let of_messages = ["Slowdown of messages", "Slowdown by size", "Completion time by size"];
    let of_time = ["Goodput, ", "Window, ", "Queue from s0 to h2"];
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

/// `TIDEGATE_REPORT=results/reproduction/report.html cargo test -p tidegate-cli --test main report`
/// opens a page that takes too long to make in a test.
#[test]
fn external_report_in_a_browser() {
    let Some(page) = std::env::var_os("TIDEGATE_REPORT") else { return };
    let Some(mut browser) = start() else { return };
    let (faults, titles) = inspect(&mut browser, &std::fs::canonicalize(page).unwrap());
    assert!(faults.is_empty() && !titles.is_empty(), "{faults:#?}");
}

/// A presentation, and a replacement in a page with words of the resulting faults.
type Broken<'a> = ((&'a str, &'a str), (&'a str, &'a str), &'a [&'a str]);

/// Adds a rule at the end of the style.
const fn style(rule: &str) -> (&str, &str) {
    ("</style>", rule)
}

/// Asserts that every check can fail. A page opens in the presentation in which it has its faults.
fn noticed(broken: &[Broken<'_>]) {
    let Some(mut browser) = start() else { return };
    let place = Place::new(FLOWS);
    // Without samples over time there are plots of all messages, each with several lines, and fewer
    // plots to draw for each fault.
    let compare = ["compare", &place.arg("scenario.toml"), "--protocols", "swift,dctcp,sird"];
    let page = report(&place, "compare", &compare);
    let (faults, titles) = inspect_as(&mut browser, &page, LIGHT);
    assert!(faults.is_empty() && titles.len() > 5, "{faults:#?}, {titles:?}");
    let page = std::fs::read_to_string(page).unwrap();
    for &(presentation, (from, to), words) in broken {
        assert!(page.contains(from), "{from}");
        let path = place.path("broken.html");
        std::fs::write(&path, page.replace(from, to)).unwrap();
        let (faults, _) = inspect_as(&mut browser, &path, presentation);
        for word in words {
            let is_noticed = faults.iter().any(|fault| fault.contains(word));
            assert!(is_noticed, "{word} is not noticed with {to}: {faults:#?}");
        }
    }
}

#[test]
fn checks_find_faults_of_pages_and_plots() {
    let external = ("</main>", "<script>console.warn('oh')</script></main>");
    let remote = ("</main>", "<img src=\"http://127.0.0.1:9/x.png\"></main>");
    let covering = style(".legend{transform:translate(70px,60px)!important}</style>");
    let outside = style(".scatterlayer{transform:translate(600px)}</style>");
    let invisible = style(".scatterlayer{display:none}</style>");
    noticed(&[
        (LIGHT, external, &["oh", "external script"]),
        (LIGHT, ("</main>", "<script>no()</script></main>"), &["no is not defined"]),
        (LIGHT, remote, &["127.0.0.1:9"]),
        (LIGHT, ("</main>", "<img src=\"nothing.png\"></main>"), &["nothing.png"]),
        (LIGHT, ("beginPlots();", ""), &["not drawn"]),
        (LIGHT, invisible, &["no marks", "fewer lines"]),
        (LIGHT, outside, &["a mark lies outside"]),
        (LIGHT, covering, &["covers data"]),
    ]);
}

#[test]
fn checks_find_faults_of_axes_and_print() {
    let covering = style(".xtick text{transform:translate(200px,-60px)}</style>");
    let outside = style(".ytick text{transform:translate(-90px)}</style>");
    let disordered =
        ("const inShort = (value) => {", "const inShort = (value) => { return String(value)[0];");
    let no_dark = ("prefers-color-scheme: dark", "prefers-color-scheme: none");
    let wide = ("table { font-size: 7.5pt; }", "table { width: 900px; }");
    noticed(&[
        (LIGHT, covering, &["\" covers data"]),
        (LIGHT, outside, &["lies outside the picture"]),
        (LIGHT, disordered, &["labels along an axis are"]),
        (LIGHT, ("--ink: #222", "--ink: #999"), &["light: Slowdown of messages: short: contrast"]),
        (DARK, ("--ink: #ddd", "--ink: #555"), &["dark: Slowdown of messages: short: contrast"]),
        (DARK, ("--quiet: #aaa", "--quiet: #444"), &["screen, dark: page: contrast"]),
        (DARK, no_dark, &["brightness"]),
        (LIGHT, ("break-inside: avoid; min-width", "min-width"), &["may be cut between pages"]),
        (PRINT, wide, &["wider than the paper"]),
    ]);
}

#[test]
fn report_interaction() {
    let Some(mut browser) = start() else { return };
    let place = Place::new(FLOWS);
    browser.open(&comparison(&place), "screen", "light");
    let observed = browser.ask(EXPLORE, "");
    let number = |value: &Value| value.as_u64().unwrap();
    let lines = number(&observed["legend"][0]);
    assert!(lines > 5, "{observed}");
    assert_eq!(observed["legend"], serde_json::json!([lines, lines - 1, lines]));
    let tail = &observed["tail"];
    assert!(tail[1].as_str().unwrap().contains("larger") && tail[2] == "true", "{tail}");
    assert_eq!(tail[0], tail[3]);
    let [all, own] = [0, 1].map(|i| number(&observed["rows"][i]));
    assert!(
        own > 0 && observed["protocol"] == serde_json::json!([all - own, lines - 1]),
        "{observed}"
    );
    // A plot out of view is drawn again before the page is printed.
    let far = serde_json::json!([true, lines, lines, lines - 1]);
    assert_eq!(observed["far"], far, "{observed}");
    assert_eq!([&observed["size"][1], &observed["size"][2]], [true, true], "{}", observed["size"]);
    // No plot mixes labels, and a selected label leaves only its own plots.
    let title = |label: &str| format!("Slowdown of messages: {label}");
    assert_eq!(observed["labels"], serde_json::json!([title("short"), title("big")]));
    let chosen = observed["label"][0].as_str().unwrap();
    assert_eq!(observed["label"][1], serde_json::json!([title(chosen)]));
    for (i, order) in ["ascending", "descending"].iter().enumerate() {
        assert_eq!(observed["sorted"][i][0], *order);
        let values: Vec<f64> =
            observed["sorted"][i][1].as_array().unwrap().iter().filter_map(Value::as_f64).collect();
        let is_ordered =
            |pair: &[f64]| if i == 0 { pair[0] <= pair[1] } else { pair[0] >= pair[1] };
        assert!(values.len() > 5 && values.windows(2).all(is_ordered), "{values:?}");
    }
    let fabric = &observed["fabric"];
    assert_eq!(fabric["nodes"], 4);
    let seen: Vec<&str> =
        fabric["seen"].as_array().unwrap().iter().map(|of| of.as_str().unwrap()).collect();
    assert!(seen[0] != seen[3] && seen[1] != seen[2], "{fabric}");
    assert!(fabric["time"].as_str().unwrap().contains("ms"), "{fabric}");
    let contents = observed["contents"].as_array().unwrap();
    for section in ["Summary", "Messages", "Goodput over time", "Queues", "Fabric"] {
        assert!(contents.iter().any(|title| title == section), "{section}: {contents:?}");
    }
    // From a point to its flow.
    let at = |i: usize| observed["point"][i].as_f64().unwrap();
    browser.click(at(0), at(1));
    let flow = browser.ask(FLOW, "");
    assert_eq!([&flow["shown"], &flow["closed"]], [true, true], "{flow}");
    assert!(flow["facts"]["from, to"].as_str().unwrap().contains("→ h2"), "{flow}");
    assert!(flow["facts"]["size"].as_str().unwrap().contains("KB"), "{flow}");
    assert!(number(&flow["plots"]) > 0, "its trace, and the queues on its path: {flow}");
    assert!(browser.complaints().is_empty(), "{:?}", browser.complaints());
}

/// A page of hundreds of runs is small, opens fast, and names what it omits.
#[test]
fn report_of_500_runs() {
    let place = Place::new(FLOWS);
    let one = place.path("one");
    let args = ["run", &place.arg("scenario.toml"), "--set", "output.timeseries=5us"];
    answer(&[&args[..], &["--out", one.to_str().unwrap()]].concat()).ok();
    let read = |name: &str| std::fs::read_to_string(one.join(name)).unwrap();
    let (summary, manifest) = (read("summary.json"), read("manifest.json"));
    let mut folders = Vec::new();
    for i in 0..500 {
        // A hundred configurations of five seeds.
        let folder = place.path(&format!("runs/{i}"));
        std::fs::create_dir_all(&folder).unwrap();
        for name in ["flows.parquet", "timeseries.parquet"] {
            std::fs::copy(one.join(name), folder.join(name)).unwrap();
        }
        let seed = format!("\"seed\": {}", i % 5 + 1);
        let mut own: Value = serde_json::from_str(&manifest).unwrap();
        own["scenario"]["seed"] = (i % 5 + 1).into();
        own["scenario"]["fabric"]["mtu"] = format!("{}B", 1000 + i / 5).into();
        std::fs::write(folder.join("manifest.json"), own.to_string()).unwrap();
        let changed = summary.replacen("\"seed\": 1", &seed, 1);
        std::fs::write(folder.join("summary.json"), changed).unwrap();
        folders.push(folder.to_str().unwrap().to_owned());
    }
    let out = place.arg("page.html");
    let args: Vec<&str> = std::iter::once("report").chain(folders.iter().map(|f| &**f)).collect();
    answer(&[&args[..], &["--out", &out]].concat()).ok();
    let page = std::fs::read_to_string(&out).unwrap();
    assert!(page.len() < 10_000_000, "{} bytes", page.len());
    assert!(page.contains("show the first 16 configurations.") && page.contains("; and 72 more."));
    assert!(page.contains("differ only in their seed"));
    let Some(mut browser) = start() else { return };
    browser.open(Path::new(&out), "screen", "light");
    let took_ms = browser.ask(OPENED, "").as_f64().unwrap();
    // Two seconds on an idle machine; tests share it.
    assert!(took_ms > 0.0 && took_ms < 60_000.0, "{took_ms} ms");
    assert!(browser.complaints().is_empty(), "{:?}", browser.complaints());
}
