//! `tidegate reproduce` and `tidegate report`.

#[cfg(target_os = "linux")]
use crate::common::terminal;
use crate::common::{Place, answer, files};

/// The figure with claims that has the fewest runs, as `paper/figure`.
pub(crate) fn small() -> String {
    let list = answer(&["reproduce", "--list", "--json"]).json();
    // Tables of other simulators' numbers have no plots.
    let claims = |figure: &&serde_json::Value| {
        !figure["claims"].as_array().unwrap().is_empty() && figure["paper"] != "authors"
    };
    let figures = list.as_array().unwrap().iter().filter(claims);
    let figure = figures.min_by_key(|figure| figure["runs"].as_u64()).unwrap();
    format!("{}/{}", figure["paper"].as_str().unwrap(), figure["figure"].as_str().unwrap())
}

#[test]
fn reproduce_lists_figures_and_refuses_others() {
    let figure = small();
    let list = answer(&["reproduce", "--list"]).ok();
    assert!(list.contains(&figure) && list.contains(" runs per seed "), "{list}");
    answer(&["reproduce", "no-such-paper"])
        .refused(2, &["reproduce", "no-such-paper", "expected one of"]);
    answer(&["reproduce", "poseidn/14", "--list"])
        .refused(2, &["`poseidn`", "did you mean `poseidon`?"]);
    let (paper, _) = figure.split_once('/').unwrap();
    answer(&["reproduce", &format!("{paper}/999"), "--list"])
        .refused(2, &["999", "expected one of"]);
}

#[test]
fn reproduce_prints_claims_and_writes_figures() {
    let (place, figure) = (Place::usual(), small());
    let (out, cache) = (place.arg("out"), place.arg("cache"));
    let call = |more: &[&str]| {
        answer(&[&["reproduce", &figure, "--quick", "--cache", &cache], more].concat())
    };
    let answered = call(&["--json", "--out", &out]);
    // Without a terminal: only the forecast, and no progress within a minute.
    let lines: Vec<&str> = answered.stderr.lines().filter(|line| line.contains(" runs")).collect();
    assert!(lines.len() == 1 && lines[0].contains("; less than a minute on"), "{lines:?}");
    let claims = answered.json();
    for claim in claims.as_array().unwrap() {
        for key in ["paper", "figure", "claim", "paper_value", "measured", "unit", "verdict", "why"]
        {
            assert!(claim.get(key).is_some(), "no {key} in {claim}");
        }
        let verdict = claim["verdict"].as_str().unwrap();
        assert!(["reproduced", "direction", "deviates"].contains(&verdict), "{verdict}");
        for key in ["short", "why"] {
            let reason = claim[key].as_str().unwrap();
            assert!(reason.contains("n = 1 seed, no alternative tested; other"), "{reason}");
        }
    }
    let written = files(std::path::Path::new(&out));
    for name in ["reproduction.json", "reproduction.md", "plots.json", "report.html"] {
        assert!(written.iter().any(|file| file.ends_with(name)), "{name} is not among {written:?}");
    }
    assert!(written.iter().all(|file| !file.ends_with(".partial")));
    let plots = std::fs::read(std::path::Path::new(&out).join("plots.json")).unwrap();
    let plots: serde_json::Value = serde_json::from_slice(&plots).unwrap();
    assert!(!plots[0][1]["lines"][0]["points"].as_array().unwrap().is_empty(), "{plots}");
    call(&["--out", &out]).refused(2, &["--out", "--force"]);
    call(&["--out", &out, "--force", "--no-cache"]).refused(2, &["--cache"]);

    let plain = call(&[]).ok();
    assert!(plain.contains("\nn is the number of seeds with different runs."), "{plain}");
    assert!(plain.contains("\nclaim ") && !plain.contains('\u{1b}'), "{plain}");
    #[cfg(target_os = "linux")]
    if let Some(text) =
        terminal("80", &format!("tidegate reproduce {figure} --quick -q --cache {cache}"))
    {
        let is_coloured = |word: &str| text.contains(&format!("m{word}\u{1b}[0m"));
        assert!(["reproduced", "direction", "deviates"].into_iter().any(is_coloured), "{text:?}");
        let mut visible = text.lines().filter(|line| !line.contains('\u{1b}'));
        assert!(visible.all(|line| line.chars().count() <= 80), "{text}");
    }

    let deviates = claims.as_array().unwrap().iter().any(|claim| claim["verdict"] == "deviates");
    assert_eq!(call(&["--check"]).code, Some(i32::from(deviates)));
    assert!(answer(&["report", &out]).ok().contains("report.html"));
}

#[test]
fn report_is_made_of_a_run() {
    let place = Place::usual();
    let out = place.arg("out");
    place.call("run", &["--out", &out]).ok();
    let page = place.arg("page.html");
    answer(&["report", &out, "--out", &page]).ok();
    let text = std::fs::read_to_string(&page).unwrap();
    assert!(text.contains("<figure class=\"plot\"") && text.contains("Slowdown of messages"));
    let words = ["report", "nothing-here", "name a folder of results"];
    answer(&["report", &place.arg("nothing-here")]).refused(2, &words);
}
