//! The state of a page in its address, and saved plots.

use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use super::browser::Browser;
use super::sweeps::{VARY, made, place as sweep_place};
use super::{FLOWS, comparison_of, report, small_figure, start};
use crate::common::{Place, answer};

/// Changes the state of a page, opens the resulting address in a new document, and returns the
/// states of both.
fn reopened(browser: &mut Browser, page: &Path, change: &str, state: &str) -> [Value; 2] {
    browser.open(page, "screen", "light");
    let before = browser.ask(state, "");
    browser.ask(change, "");
    let changed = browser.ask(state, "");
    assert_ne!(before, changed, "the state does not change");
    let url = browser.ask("() => location.href", "");
    browser.navigate("about:blank");
    browser.navigate(url.as_str().unwrap());
    let again = browser.ask(state, "");
    assert!(browser.complaints().is_empty(), "{:?}", browser.complaints());
    [changed, again]
}

/// Hides a protocol, selects a label and a size, and goes to a section.
const FILTER: &str = r##"() => {
  document.querySelector("#filters input").click();
  for (const name of ["label", "size"]) {
    const select = document.querySelector(`#filters select[name=${name}]`);
    select.selectedIndex = select.length - 1;
    select.dispatchEvent(new Event("change"));
  }
  document.querySelector("#contents a:nth-child(3)").click();
}"##;
const FILTERS: &str = r##"() => ({
  filters: [...document.querySelectorAll("#filters input, #filters select")]
    .map((input) => (input.type === "checkbox" ? input.checked : input.value)),
  rows: [...document.querySelectorAll("main tr[data-protocol]")].map((row) => row.hidden),
  plots: [...document.querySelectorAll("figure.plot")].map((figure) => figure.hidden),
  isScrolled: scrollY > 100,
})"##;

#[test]
fn address_keeps_filters() {
    let Some(mut browser) = start() else { return };
    let place = Place::new(FLOWS);
    let page = comparison_of(&place, "swift,dctcp");
    let [changed, again] = reopened(&mut browser, &page, FILTER, FILTERS);
    assert_eq!(changed, again);
    let filters = again["filters"].as_array().unwrap();
    assert!(filters[0] == false && filters[1] == true && filters[2] == "big", "{again}");
    assert!(again["rows"].as_array().unwrap().contains(&json!(true)), "{again}");
    assert_eq!(again["isScrolled"], true);
}

/// Selects another metric, roles, a value and a scale of a sweep.
const CHOOSE: &str = r##"() => {
  const choose = (name, text) => {
    const select = document.querySelector(`.sweep select[name="${name}"]`);
    // Options show words; their titles are names of columns.
    select.selectedIndex = [...select.options]
      .findIndex((option) => (option.title || option.text) === text);
    select.dispatchEvent(new Event("change"));
  };
  choose("metric", "fct_p99_us");
  choose("x", "fabric.spines");
  choose("lines", "transport.protocol");
  choose("panels", "–");
  choose("traffic.short.load", "0.3");
  document.querySelector('.sweep input[name="log y"]').click();
}"##;
const CHOSEN: &str = r##"() => [...document.querySelectorAll(".sweep .controls select")]
    .map((select) => [select.name, select.selectedOptions[0]])
    .map(([name, option]) => [name, option.title || option.text])
    .concat([["log y", document.querySelector('.sweep input[name="log y"]').checked]])"##;

#[test]
fn address_keeps_the_selection_of_a_sweep() {
    let Some(mut browser) = start() else { return };
    let place = sweep_place();
    let out = made(&place, "sweep", "sweep", &[&VARY[..], &["--no-cache"]].concat());
    answer(&["report", &out]).ok();
    let page = Path::new(&out).join("report.html");
    let [changed, again] = reopened(&mut browser, &page, CHOOSE, CHOSEN);
    assert_eq!(changed, again);
    for chosen in [["metric", "fct_p99_us"], ["x", "fabric.spines"], ["traffic.short.load", "0.3"]]
    {
        assert!(again.as_array().unwrap().contains(&json!(chosen)), "{chosen:?}: {again}");
    }
}

#[test]
fn address_keeps_verdicts() {
    let Some(mut browser) = start() else { return };
    let place = Place::new(FLOWS);
    let page = report(&place, "out", &["reproduce", &small_figure(), "--quick", "--no-cache"]);
    let hide = "() => {
        const { className } = document.querySelector('.claims tbody td b');
        document.querySelector(`button[data-verdict=${className}]`).click();
    }";
    let rows = "() => [...document.querySelectorAll('.claims tbody tr')].map((row) => row.hidden)";
    let [changed, again] = reopened(&mut browser, &page, hide, rows);
    assert_eq!(changed, again);
}

/// Presses a button that saves the first plot, and returns the name and the content of the file;
/// PNG as its size.
const SAVE: &str = r##"async (format) => {
  dispatchEvent(new Event("beforeprint"));
  const { click } = HTMLAnchorElement.prototype;
  const saved = new Promise((then) => {
    HTMLAnchorElement.prototype.click = function () { then([this.download, this.href]); };
  });
  const buttons = document.querySelectorAll("figure.plot [data-act=save] button");
  [...buttons].find((it) => it.textContent === format).click();
  const [name, url] = await saved;
  HTMLAnchorElement.prototype.click = click;
  const blob = await (await fetch(url)).blob();
  if (format !== "PNG") return [name, await blob.text()];
  const { width, height } = await createImageBitmap(blob);
  return [name, [width, height]];
}"##;

/// Presses a button that copies the first plot, and returns the report of the page, and the content
/// of the clipboard; PNG as its size.
const COPY: &str = r##"async (format) => {
  const tools = document.querySelector("figure.plot .tools");
  const report = tools.querySelector("output");
  report.replaceChildren();
  const buttons = tools.querySelectorAll("[data-act=copy] button");
  [...buttons].find((it) => it.textContent === format).click();
  for (let i = 0; i < 500 && !report.textContent; i++) {
    await new Promise((then) => setTimeout(then, 20));
  }
  if (!navigator.clipboard) return [report.textContent, report.querySelector("button").textContent];
  const [item] = await navigator.clipboard.read();
  const type = format === "PNG" ? "image/png" : "text/plain";
  const blob = await item.getType(type);
  if (format !== "PNG") return [report.textContent, await blob.text()];
  const { width, height } = await createImageBitmap(blob);
  return [report.textContent, [width, height]];
}"##;

#[test]
fn plots_are_saved_and_copied() {
    let Some(mut browser) = start() else { return };
    let place = Place::new(FLOWS);
    browser.permit_clipboard();
    browser.open(&comparison_of(&place, "swift,dctcp"), "screen", "light");
    let plot = "Slowdown of messages: short";
    let saved = ["CSV", "SVG", "PNG"].map(|format| {
        let saved = browser.ask(SAVE, format);
        assert_eq!(saved[0], format!("{plot}.{}", format.to_lowercase()));
        let copied = browser.ask(COPY, format);
        assert_eq!(copied[0], format!("{format} copied"));
        if format == "SVG" {
            // The two have different names of clipping paths.
            for svg in [&copied[1], &saved[1]].map(|svg| svg.as_str().unwrap()) {
                assert!(svg.starts_with("<svg") && svg.contains("width=\"540\""), "{svg}");
            }
        } else {
            assert_eq!(copied[1], saved[1], "{format}");
        }
        copied[1].clone()
    });
    let [csv, _, png] = &saved;
    let lines: Vec<&str> = csv.as_str().unwrap().lines().collect();
    assert!(lines[0].starts_with("line,slowdown"), "{}", lines[0]);
    for protocol in ["swift", "dctcp"] {
        let own: Vec<_> = lines.iter().filter(|line| line.starts_with(protocol)).collect();
        let number = |cell: &str| cell.parse::<f64>().is_ok();
        assert!(own.len() > 2 && own.iter().all(|line| line.split(',').skip(1).all(number)));
    }
    assert_eq!(png[0], 1080, "twice the width");
    // Without a clipboard, the page offers to save.
    let none = "() => { Object.defineProperty(navigator, 'clipboard', { value: undefined }); }";
    browser.ask(none, "");
    for format in ["CSV", "SVG", "PNG"] {
        let refused = browser.ask(COPY, format);
        assert!(refused[0].as_str().unwrap().contains("does not let this page copy"), "{refused}");
        assert_eq!(refused[1], format!("Save {format}"));
    }
}

/// Texts of the legend and of the axis' names of the first plot.
const TEXTS: &str = r##"() => {
  dispatchEvent(new Event("beforeprint"));
  const textsOf = (path) => [...document.querySelectorAll(`figure.plot ${path}`)]
    .map((text) => [...text.childNodes].map((part) => part.textContent));
  const rotated = [...document.querySelectorAll("figure.plot .xtick text")]
    .filter((text) => /rotate\(-(35|90)/.test(text.getAttribute("transform")));
  return {
    legend: textsOf(".legendtext").flat(), names: textsOf(".xtick text"), rotated: rotated.length,
  };
}"##;

/// The page of a reproduction with these plots.
fn page_of(place: &Place, plots: &[Value]) -> PathBuf {
    let names: Vec<String> = (1..=plots.len()).map(|i| format!("p-figure-{i}")).collect();
    let figure = json!({ "figure": "1", "title": "T", "pictures": names });
    let paper = json!({ "paper": "p", "title": "P", "about": "", "figures": [figure] });
    let folder = place.path("made");
    std::fs::create_dir(&folder).unwrap();
    let plots: Vec<(&String, &Value)> = names.iter().zip(plots).collect();
    for (name, content) in [
        ("reproduction.json", json!([])),
        ("figures.json", json!([paper])),
        ("plots.json", json!(plots)),
    ] {
        std::fs::write(folder.join(name), content.to_string()).unwrap();
    }
    answer(&["report", &place.arg("made")]).ok();
    folder.join("report.html")
}

/// Returns ends of axes, the number of names beside each plot, titles of x axes, captions, arrows,
/// and the pixels between the title and the legend.
const DRAWN: &str = r##"() => {
  dispatchEvent(new Event("beforeprint"));
  const gapOf = (plot) => {
    const [legend, title] = [".legend", ".xtitle"].map((name) => plot.querySelector(name));
    return legend && title
      ? legend.getBoundingClientRect().top - title.getBoundingClientRect().bottom : null;
  };
  return [...document.querySelectorAll(".js-plotly-plot")].map((plot) => [plot, gapOf(plot)])
    .map(([{ data, _fullLayout }, gap]) => ({
      gap, caption: _fullLayout.annotations[0]?.text, x: _fullLayout.xaxis.range,
      y: _fullLayout.yaxis.range, beside: _fullLayout.yaxis.ticktext?.length ?? 0,
      title: _fullLayout.xaxis.title.text,
      arrows: data.filter((trace) => /^triangle/.test(trace.marker?.symbol))
        .map((trace) => trace.x),
    }));
}"##;

/// Many long names stand beside a plot, from the top; the axis of values does not follow an
/// interval that is wider than its value; and the axis extends beyond a value below zero.
#[test]
fn many_names_and_wide_intervals_fit_a_plot() {
    let Some(mut browser) = start() else { return };
    let place = Place::usual();
    let plot = |names: &[String], points: Value, range: Value| {
        let ends = (-0.5, names.len() as f64 - 0.5);
        json!({
            "title": "Figure 1: T", "y": { "label": "T (us)", "log": false },
            "x": { "label": "", "log": false, "names": names, "from": ends.0, "to": ends.1 },
            "lines": [{ "name": "Tide", "color": "#3b4a5a", "dash": 0, "apart": true,
                "points": points, "range": range }],
        })
    };
    let names: Vec<String> = (0..17).map(|i| format!("a long name of run {i}")).collect();
    let points: Vec<(u32, u32)> = (0..17).map(|i| (i, 4 + i)).collect();
    let range: Vec<(u32, u32)> =
        points.iter().map(|&(_, y)| if y == 4 { (0, 90) } else { (y - 1, y + 5) }).collect();
    let mut many = plot(&names, json!(points), json!(range));
    // With the names, the legend has room for one column.
    for i in 0..5 {
        let line = json!({ "name": format!("another line {i}"), "color": "#0072b2", "dash": 0,
            "apart": true, "points": [[i, 5]] });
        many["lines"].as_array_mut().unwrap().push(line);
    }
    let few =
        plot(&["a".into(), "b".into()], json!([[0, 1.0], [1, -1.0]]), json!([[0, 2], [-2, 0]]));
    browser.open(&page_of(&place, &[many, few]), "screen", "light");
    let drawn = browser.ask(DRAWN, "");
    let end = |plot: usize, axis: &str, i: usize| drawn[plot][axis][i].as_f64().unwrap();
    assert_eq!((drawn[0]["beside"].as_u64(), drawn[1]["beside"].as_u64()), (Some(17), Some(0)));
    assert_eq!((end(0, "y", 0), end(0, "y", 1)), (16.5, -0.5), "the first is at the top");
    assert!((end(0, "x", 1) - 1.04 * 25.0).abs() < 1e-9, "{drawn}");
    assert_eq!(drawn[0]["arrows"][0][0].as_f64(), Some(end(0, "x", 1)));
    let text = |key: &str| drawn[0][key].as_str().unwrap().replace("<br>", " ");
    assert_eq!(text("title"), "T (µs)");
    assert_eq!(text("caption"), "Cut intervals (arrows): a long name of run 0 to 90");
    assert!(drawn[0]["gap"].as_f64().unwrap() >= 0.0, "{drawn}");
    assert_eq!(drawn[1]["arrows"], json!([]));
    assert!(
        (end(1, "y", 0) + 2.16).abs() < 1e-9 && (end(1, "y", 1) - 2.16).abs() < 1e-9,
        "{drawn}"
    );
    assert!(browser.complaints().is_empty(), "{:?}", browser.complaints());
}

/// A line without a value remains in the legend, marks are named in CSV, and names on an axis break
/// after hyphens.
#[test]
fn plots_show_lines_without_values_and_name_marks() {
    let Some(mut browser) = start() else { return };
    let place = Place::usual();
    let line = |name: &str, points: Value| {
        let color = "#3b4a5a";
        json!({ "name": name, "color": color, "dash": 0, "points": points, "apart": true })
    };
    let plot = json!({
        "title": "Figure 1: T", "y": { "label": "T (us)", "log": false },
        "x": { "label": "", "log": false, "names": ["above: control-and-unscheduled", "b, 5 us"] },
        "lines": [line("Tide", json!([[0.0, 1.0], [1.0, 2.0]])), line("SIRD", json!([]))],
        "paper_marks": [
            { "name": "C1", "x": 1.0, "y": 3.0, "color": "#3b4a5a", "source": "source" },
        ],
    });
    browser.open(&page_of(&place, &[plot]), "screen", "light");
    let texts = browser.ask(TEXTS, "");
    assert_eq!(texts["legend"], json!(["Tide", "SIRD: no value", "source (C1)"]));
    // The widths of the installed fonts decide after which hyphen.
    let breaks = [["above: control-", "and-unscheduled"], ["above: control-and-", "unscheduled"]];
    let shown = breaks.map(|lines| json!([lines, ["b, 5 µs"]]));
    assert!(shown.contains(&texts["names"]), "{}", texts["names"]);
    assert_eq!(texts["rotated"], 0, "two names fit");
    assert!(browser.complaints().is_empty(), "{:?}", browser.complaints());
    let saved = browser.ask(SAVE, "CSV");
    let expected = "line,,T (µs)\nTide,above: control-and-unscheduled,1\nTide,\"b, 5 µs\",2\n\
                    SIRD,,\nsource (C1),\"b, 5 µs\",3\n";
    assert_eq!(saved[1], expected);
}

/// The swatches of protocols have their colours, also if lines have those of labels.
#[test]
fn filters_have_the_colours_of_protocols() {
    let Some(mut browser) = start() else { return };
    let place = Place::new(FLOWS);
    browser.open(&comparison_of(&place, "swift,dctcp,sird"), "screen", "light");
    let colours = browser.ask(
        "() => [...document.querySelectorAll('#filters .swatch')].map((it) => it.style.background)",
        "",
    );
    let mut distinct: Vec<&str> =
        colours.as_array().unwrap().iter().map(|of| of.as_str().unwrap()).collect();
    distinct.sort_unstable();
    distinct.dedup();
    assert_eq!(distinct.len(), 3, "{colours}");
}
