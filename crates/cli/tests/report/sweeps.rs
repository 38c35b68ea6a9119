//! Reports of sweeps and of runs under several seeds.

use std::fs;
use std::path::Path;

use serde_json::{Value, json};

use super::{OPENED, inspect, pages, start};
use crate::common::{Place, answer, files};

const SWEEPS: &str = include_str!("sweeps.js");

/// Random messages and a flow between two racks.
const SCENARIO: &str = "name = 'two racks'\nduration = '200us'\nwarmup = '20us'\ndrain = '1ms'\n\
    fabric = { kind = 'leaf-spine', racks = 2, hosts_per_rack = 2, spines = 1 }\n\
    transport = { protocol = 'swift' }\n\
    flows = [{ src = 'h0', dst = 'h3', label = 'long' }]\n\
    [[traffic]]\nkind = 'poisson'\nlabel = 'short'\nsizes = '20KB'\nload = 0.3\n";

/// Three loads, two protocols, and two numbers of spines.
pub(super) const VARY: [&str; 6] = [
    "--vary",
    "traffic.short.load=0.2..0.4:0.1",
    "--vary",
    "fabric.spines=1,2",
    "--vary",
    "protocol=swift,dctcp",
];

pub(super) fn place() -> Place {
    let place = Place::usual();
    fs::write(place.path("scenario.toml"), SCENARIO).unwrap();
    place
}

/// Creates results with a subcommand in a folder.
pub(super) fn made(place: &Place, name: &str, subcommand: &str, args: &[&str]) -> String {
    let out = place.arg(name);
    place.call(subcommand, &[args, &["--out", &out]].concat()).ok();
    out
}

fn read(folder: &str, name: &str) -> Value {
    serde_json::from_str(&fs::read_to_string(Path::new(folder).join(name)).unwrap()).unwrap()
}

fn texts(value: &Value) -> Vec<&str> {
    value.as_array().unwrap().iter().map(|text| text.as_str().unwrap()).collect()
}

fn numbers(value: &Value) -> Vec<f64> {
    value.as_array().unwrap().iter().map(|number| number.as_f64().unwrap()).collect()
}

#[test]
fn sweep_explorer() {
    let Some(mut browser) = start() else { return };
    let place = place();
    let out =
        made(&place, "sweep", "sweep", &[&VARY[..], &["--seeds", "3", "--no-cache"]].concat());
    answer(&["report", &out]).ok();
    let page = place.path("sweep/report.html");
    let (faults, titles) = inspect(&mut browser, &page);
    assert!(faults.is_empty(), "{faults:#?}");
    // Other varied keys than the x axis and protocols form panels.
    let over = "slowdown, 99th percentile over load of short, spines";
    assert_eq!(titles, [format!("{over} 1"), format!("{over} 2")]);
    assert!(pages(&browser.pdf()) > 0);

    browser.open(&page, "screen", "light");
    let observed = browser.ask(SWEEPS, "");
    assert!(browser.complaints().is_empty(), "{:?}", browser.complaints());

    // Every point is the mean in the file, and the band is its interval.
    let points = read(&out, "sweep.json")["points"].take();
    let of = |protocol: &str, spines: u64| -> Vec<(f64, f64, f64)> {
        let is_meant =
            |point: &&Value| point["values"][1] == spines && point["values"][2] == protocol;
        let meant = points.as_array().unwrap().iter().filter(is_meant);
        let value = |point: &Value| {
            let its = |one: &&Value| one["metric"] == "slowdown_p99";
            let one = point["metrics"].as_array().unwrap().iter().find(its).unwrap();
            let load = point["values"][0].as_f64().unwrap();
            (load, one["mean"].as_f64().unwrap(), one["half_width"].as_f64().unwrap())
        };
        meant.map(value).collect()
    };
    let near = |found: f64, meant: f64| {
        assert!((found - meant).abs() <= 2e-4 * meant.abs(), "{found}, not {meant}: {observed}");
    };
    let line = &observed["first"]["lines"]["swift"];
    let expected = of("swift", 1);
    assert_eq!(expected.len(), 3);
    for (i, (load, mean, half)) in expected.into_iter().enumerate() {
        near(numbers(&line["x"])[i], load);
        near(numbers(&line["y"])[i], mean);
        let ends = numbers(&line["band"][i]);
        // No slowdown is below 1.
        near(ends[0], (mean - half).max(1.0));
        near(ends[1], mean + half);
    }
    let protocols: Vec<&str> =
        observed["first"]["lines"].as_object().unwrap().keys().map(String::as_str).collect();
    assert_eq!(protocols, ["dctcp", "swift"]);

    // The table has all points and is sorted by unrounded values.
    assert_eq!(observed["rows"], 12);
    let sorted = numbers(&observed["sorted"]);
    assert!(sorted.windows(2).all(|pair| pair[0] <= pair[1]), "{sorted:?}");

    // Selectors and heads have the words of axes; titles are the columns.
    assert_eq!(observed["words"]["metric"], "slowdown, 99th percentile");
    let heads = [
        ["load of short", "traffic.short.load"],
        ["spines", "fabric.spines"],
        ["protocol", "transport.protocol"],
    ];
    assert_eq!(observed["words"]["heads"], json!(heads));

    // Another metric has two labels: one is selected, the other can be.
    assert_eq!(
        observed["goodput"]["title"],
        "goodput, mean over load of short, label long, spines 1"
    );
    assert_eq!(observed["goodput"]["unit"], "goodput, mean (Gbit/s); more is better");
    assert_eq!(texts(&observed["goodput"]["labels"]), ["all", "long", "short"]);
    assert_eq!(observed["goodput"]["rows"], 24);
    assert!(observed["short"].as_str().unwrap().contains("label short"), "{observed}");
    // Names on the x axis, with bars; labels as lines; all in one panel.
    let names = &observed["names"];
    assert_eq!(texts(&names["ticks"]), ["swift", "dctcp"]);
    assert_eq!(names["lines"], json!(["long", "short"]));
    assert_eq!(names["bars"], json!([2, 2]));
    assert_eq!(names["panels"], 1);
    // Logarithmic axes for positive values.
    assert_eq!(observed["log"], json!(["linear", "log"]));
    assert_eq!(observed["hidden"], json!([12, 6]), "without one protocol, half of the rows remain");
    // An exported picture has text and lines.
    let svg = observed["svg"].as_str().unwrap();
    assert!(svg.contains("<svg") && svg.contains("<text") && svg.contains("Gbit/s"), "{svg:.300}");
}

#[test]
fn report_of_several_seeds() {
    let place = place();
    let seeds = ["--seeds", "1..3"];
    let compared = [&["--protocols", "swift,dctcp"], &seeds[..]].concat();
    let compared = made(&place, "compared", "compare", &compared);
    let alone = made(&place, "alone", "run", &seeds);
    let swept = ["--vary", "traffic.short.load=0.2,0.4", "--no-cache"];
    let swept = made(&place, "swept", "sweep", &swept);
    let single = made(&place, "single", "run", &[]);
    let out = place.arg("page.html");
    answer(&["report", &swept, &compared, &alone, &single, "--out", &out]).ok();
    let page = fs::read_to_string(&out).unwrap();
    for words in [
        "<h2>Sweep: two racks</h2>\n<p>2 points under 1 seed, n = 1: there are no intervals",
        "<h2>Over seeds: two racks</h2>\n<p>2 runs under 3 seeds each.",
        "<p>1 run under 3 seeds.",
        "<h2>Summary</h2>",
        "differ only in their seed",
    ] {
        assert!(page.contains(words), "{words}");
    }
    // The table agrees with the file.
    let runs = read(&compared, "aggregate.json")["runs"].take();
    let metrics = runs[1]["metrics"].as_array().unwrap();
    let its = |one: &&Value| one["label"] == "short" && one["metric"] == "slowdown_p50";
    let one = metrics.iter().find(its).unwrap();
    assert_eq!(one["n"], 3);
    let mean = format!("{:.2}", one["mean"].as_f64().unwrap());
    let row = page.lines().find(|line| line.contains("<td>dctcp</td><td>short</td>")).unwrap();
    assert!(row.contains("<td class=\"n\">3</td>") && row.contains(&mean), "{mean}: {row}");
    assert!(row.contains(" ± "), "{row}");
    // The differences from the first protocol by seed follow.
    assert!(page.contains("Differences are from swift, seed by seed (n = 3"));
    let (_, away) = page.split_once("<h3>Difference from swift by seed</h3>").unwrap();
    let row = away.lines().find(|line| line.contains("<td>dctcp</td><td>short</td>")).unwrap();
    let sign = if one["difference"]["mean"].as_f64().unwrap() > 0.0 { "+" } else { "-" };
    assert!(row.contains(&format!("{sign}0.")), "{row}");
    let Some(mut browser) = start() else { return };
    let (faults, titles) = inspect(&mut browser, Path::new(&out));
    assert!(faults.is_empty(), "{faults:#?}");
    let over = |of: &str| titles.iter().filter(|title| title.starts_with(of)).count();
    assert_eq!(over("slowdown, 99th percentile over load of short"), 1, "{titles:?}");
    assert_eq!(over("slowdown, 99th percentile over protocol"), 1, "{titles:?}");
    assert_eq!(over("Slowdown of messages"), 1, "the seeds' own runs: {titles:?}");
}

/// A sweep of 84 points, 37 metrics each, four of them for each of six ranges of sizes.
fn large() -> Value {
    let mut points = Vec::new();
    for point in 0..84 {
        let metric = |i: usize, sizes: Option<u64>| {
            let mean = 1.0 + ((point * 37 + i) as f64 * 0.618).fract() * 1234.567;
            let name = match (sizes, i) {
                (Some(_), i) => format!("size_metric_{i}"),
                (None, 0) => "slowdown_p99".to_owned(),
                (None, i) => format!("metric_{i}_us"),
            };
            let mut one = json!({
                "label": "search", "protocol": "swift", "metric": name, "unit": "us", "n": 4,
                "mean": mean, "half_width": mean * 0.1234567, "min": mean * 0.9,
                "max": mean * 1.1, "is_lower_bound": i == 5, "is_best": false,
                "values": [mean, mean, mean, mean],
            });
            if let Some(from) = sizes {
                one["min_bytes"] = from.into();
                one["below_bytes"] = (from * 10).into();
            }
            one
        };
        let mut metrics: Vec<Value> = (0..33).map(|i| metric(i, None)).collect();
        for decade in 2..8 {
            metrics.extend((33..37).map(|i| metric(i, Some(10u64.pow(decade)))));
        }
        let protocol = ["swift", "dctcp", "sird", "homa"][point / 21];
        points.push(json!({ "values": [point % 21, protocol], "metrics": metrics }));
    }
    json!({
        "schema": 1, "name": "large", "keys": ["traffic.0.load", "transport.protocol"],
        "seeds": [1, 2, 3, 4], "points": points, "failed": [],
    })
}

#[test]
fn report_of_large_sweep() {
    let place = Place::usual();
    fs::create_dir(place.path("large")).unwrap();
    fs::write(place.path("large/sweep.json"), large().to_string()).unwrap();
    answer(&["report", &place.arg("large")]).ok();
    let page = place.path("large/report.html");
    let bytes = fs::metadata(&page).unwrap().len();
    assert!(bytes < 2_000_000, "{bytes} bytes");
    let Some(mut browser) = start() else { return };
    browser.open(&page, "screen", "light");
    let took_ms = browser.ask(OPENED, "").as_f64().unwrap();
    // Two seconds where nothing else runs; tests share the machine.
    assert!(took_ms > 0.0 && took_ms < 60_000.0, "{took_ms} ms");
    assert!(browser.complaints().is_empty(), "{:?}", browser.complaints());
}

#[test]
fn report_refuses_invalid_sweep() {
    let place = Place::usual();
    fs::create_dir(place.path("x")).unwrap();
    let broken = [
        ("sweep.json", "{\"schema\": 1,", "EOF"),
        ("sweep.json", "{\"schema\": 7}", "has version 7"),
        ("sweep.json", "{\"schema\": 1, \"keys\": []}", "missing field"),
    ];
    for (name, text, words) in broken {
        fs::write(place.path("x").join(name), text).unwrap();
        answer(&["report", &place.arg("x")]).refused(2, &["report: ", name, words]);
        assert_eq!(files(&place.path("x")), [name]);
    }
    fs::remove_file(place.path("x/sweep.json")).unwrap();
    answer(&["report", &place.arg("x")]).refused(2, &["no results", "sweep.json", "name a folder"]);
}
