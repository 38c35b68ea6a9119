//! Figures as SVG and PDF files.

use std::fs;

use super::{FLOWS, LIGHT, comparison_of, inspect_as, pages, start};
use crate::common::{Place, answer, files, tidegate};

/// The distinct page sizes of a PDF, in points.
fn sheets(pdf: &[u8]) -> Vec<String> {
    let text = String::from_utf8_lossy(pdf).into_owned();
    let boxes = text.split("/MediaBox [").skip(1);
    let mut all: Vec<String> =
        boxes.filter_map(|rest| Some(rest.split_once(']')?.0.to_owned())).collect();
    all.sort();
    all.dedup();
    all
}

#[test]
fn figure_files() {
    let Some(mut browser) = start() else { return };
    let place = Place::new(FLOWS);
    let page = comparison_of(&place, "swift,sird,expresspass");
    let (faults, titles) = inspect_as(&mut browser, &page, LIGHT);
    assert!(faults.is_empty() && titles.len() > 5, "{faults:#?}");
    let (compare, svg, pdf) = (place.arg("compare"), place.arg("svg"), place.arg("all.pdf"));
    let text = answer(&["report", &compare, "--svg", &svg, "--pdf", &pdf]).ok();
    assert!(text.contains(&format!("{} figures are in ", titles.len())), "{text}");
    let names = files(&place.path("svg"));
    assert_eq!(names.len(), titles.len(), "{names:?}");
    assert!(names.contains(&"slowdown-of-messages-short.svg".to_owned()), "{names:?}");
    for name in &names {
        let picture = fs::read_to_string(place.path("svg").join(name)).unwrap();
        assert!(picture.starts_with("<svg") && picture.contains("width=\"3.33in\""), "{name}");
        // Axes and legends are text, and lines are drawn.
        assert!(picture.matches("<text").count() > 5 && picture.contains("<path"), "{name}");
        assert!(!picture.contains("<image"), "{name} has pixels");
        // Only content that is visible, black on white.
        assert!(["<g/>", "data-", "class=", "<style"].iter().all(|no| !picture.contains(no)));
    }
    let printed = fs::read(&pdf).unwrap();
    assert_eq!(pages(&printed), titles.len());
    // 3.33 inches are 240 points.
    let narrow = sheets(&printed);
    assert!(
        narrow.iter().all(|sheet| sheet.starts_with("0 0 239") || sheet.starts_with("0 0 240")),
        "{narrow:?}"
    );
    let fonts = String::from_utf8_lossy(&printed).matches("/FontDescriptor").count();
    assert!(fonts > 0, "text has fonts");
    // The same figures in the reader's colours: the background has two.
    answer(&["report", &compare, "--svg", &svg, "--scheme", "auto"]).ok();
    for name in &names {
        let picture = fs::read_to_string(place.path("svg").join(name)).unwrap();
        let (_, dark) = picture.split_once("(prefers-color-scheme:dark){").expect(name);
        assert!(dark.contains("[fill=\"#ffffff\"]{fill:#16181c}"), "{name}: {dark:.300}");
    }
    // A second call replaces them, with the width of a page.
    answer(&["report", &compare, "--pdf", &pdf, "--width", "page"]).ok();
    let wide = sheets(&fs::read(&pdf).unwrap());
    assert!(wide.iter().all(|sheet| sheet.starts_with("0 0 504")), "{wide:?}");
    let page = place.arg("compare/report.html");
    answer(&["report", &compare, "--pdf", &page]).refused(2, &["--pdf", "is not a PDF"]);
}

#[test]
fn figures_need_a_browser() {
    let place = Place::usual();
    let out = place.arg("run");
    place.run(&["--out", &out]).ok();
    let before = files(&place.path("run"));
    for option in [["--svg", "svg"], ["--pdf", "all.pdf"]] {
        let to = place.arg(option[1]);
        let output = tidegate(&["report", &out, option[0], &to]).env("PATH", "").output().unwrap();
        let stderr = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(2), "{stderr}");
        assert!(stderr.contains(option[0]) && stderr.contains("chromium"), "{stderr}");
        assert_eq!(stderr.lines().count(), 1, "{stderr}");
    }
    assert_eq!(files(&place.path("run")), before);
    assert_eq!(files(&place.path("")), ["run", "scenario.toml"]);
    answer(&["report", &out, "--width", "huge"]).refused(2, &["--width", "column", "page"]);
    answer(&["report", &out, "--width", "page"]).refused(2, &["--width", "--svg", "--pdf"]);
    answer(&["report", &out, "--scheme", "auto"]).refused(2, &["--svg"]);
}
