//! Tests the registry of papers and the report through the public interface.

use std::path::Path;
use std::sync::Mutex;

use tidegate_papers::{
    ReproduceOptions, Sensitivity, Step, Verdict, figures, report, reproduce, reproduction_files,
};
use tidegate_runs::{Destination, RunOptions, compare, set};

/// A figure that takes a fraction of a second.
fn small() -> String {
    let all = figures(None).unwrap();
    let figure = all
        .iter()
        // Tables of other simulators' numbers, with claims such as `N21.1`, need no open choices.
        .filter(|figure| !figure.claims.is_empty())
        .filter(|figure| figure.claims.iter().all(|claim| !claim.contains('.')))
        .min_by_key(|figure| figure.runs)
        .unwrap();
    format!("{}/{}", figure.paper, figure.figure)
}

#[test]
fn figures_are_found_by_paper_and_number() {
    let all = figures(None).unwrap();
    let paper = all[0].paper.clone();
    assert_eq!(
        figures(Some(&paper)).unwrap().len(),
        all.iter().filter(|figure| figure.paper == paper).count()
    );
    let one = figures(Some(&small())).unwrap();
    assert!(!one.is_empty() && one.iter().all(|figure| !figure.title.is_empty()));
    // A number selects all its parts, and a name one figure.
    let names = |selection| {
        let found = figures(Some(selection)).unwrap();
        found.into_iter().map(|figure| figure.figure).collect::<Vec<_>>()
    };
    assert_eq!(names("powertcp/4"), ["4-bottom", "4-top"]);
    assert_eq!(names("tide/websearch"), ["websearch"]);
    for wrong in ["no-such-paper".to_owned(), format!("{paper}/999")] {
        let error = figures(Some(&wrong)).unwrap_err();
        assert_eq!(error.exit_code(), 2, "{error}");
    }
}

#[test]
fn a_figure_is_reproduced_cached_and_reported() {
    let dir = tempfile::tempdir().unwrap();
    let cache = dir.path().join("cache");
    let what = small();
    let steps = Mutex::new(Vec::new());
    let on_step = |step: &Step<'_>| {
        steps.lock().unwrap().push((step.done, step.all, step.name.to_owned(), step.share))
    };
    let options = ReproduceOptions {
        quick: true,
        cache: Some(&cache),
        progress: Some(&on_step),
        ..ReproduceOptions::default()
    };
    let first = reproduce(Some(&what), &options).unwrap();
    let runs = steps.lock().unwrap().len();
    let share = |(_, _, _, share): &(usize, usize, String, f64)| (share - 1.0).abs() < 1e-9;
    assert!(steps.lock().unwrap().last().is_some_and(share));
    assert!(runs > 0 && std::fs::read_dir(&cache).unwrap().count() == runs);
    assert!(first.claims.iter().all(|claim| claim.measured.is_some() && !claim.why.is_empty()));
    assert_eq!(first.holds(), first.claims.iter().all(|claim| claim.verdict != Verdict::Deviates));

    // Repeats it from the cache, and without a cache.
    let again = reproduce(Some(&what), &options).unwrap();
    let fresh =
        reproduce(Some(&what), &ReproduceOptions { cache: None, threads: Some(1), ..options })
            .unwrap();
    let values = |result: &tidegate_papers::Reproduction| {
        result.claims.iter().map(|claim| (claim.claim.clone(), claim.measured)).collect::<Vec<_>>()
    };
    assert_eq!(values(&first), values(&again));
    assert_eq!(values(&first), values(&fresh));

    let out = dir.path().join("out");
    Destination::open(&out, false).unwrap().write(&reproduction_files(&first)).unwrap();
    assert!(Destination::open(&out, false).is_err() && Destination::open(&out, true).is_ok());
    let page = report(std::slice::from_ref(&out), &|_| ()).unwrap();
    assert!(is_self_contained(&page));
    let documents = first.documents();
    assert_eq!(documents.len(), 1, "the sensitivity document is written only on request");
    for claim in &first.claims {
        assert!(page.contains(claim.verdict.name()) && documents[0].1.contains(&claim.claim));
    }
    let pictures = first.pictures.iter().map(|picture| &picture.name);
    for name in pictures {
        assert!(page.contains(&format!("data-name=\"{name}\"")), "{name}");
    }
    assert!(!first.pictures.is_empty() && out.join("reproduction.json").exists());
}

#[test]
fn a_paper_s_facts_are_drawn_without_runs() {
    let drawn = reproduce(Some("sird/1"), &ReproduceOptions::default()).unwrap();
    assert_eq!(drawn.pictures.len(), 1);
    let names: Vec<&str> = drawn.pictures[0].plot.lines.iter().map(|line| &*line.name).collect();
    assert!(names.iter().any(|name| name.contains("nVidia")), "{names:?}");
    assert!(drawn.claims.is_empty());
    let (_, page) = &drawn.documents()[0];
    assert!(page.contains("### Figure 1: buffers of switch chips"), "{page}");
}

#[test]
fn claims_are_measured_under_all_alternatives() {
    let options =
        ReproduceOptions { quick: true, sensitivity: true, ..ReproduceOptions::default() };
    let result = reproduce(Some(&small()), &options).unwrap();
    let (_, opens) = &result.sensitivity[0];
    assert!(!opens.is_empty());
    for open in opens {
        // A claim that does not depend on the choice only counts.
        assert_eq!(open.claims.len() + open.independent, result.claims.len(), "{}", open.name);
        for (chosen, varied) in &open.claims {
            assert_eq!(varied.len(), open.instead.len(), "{}", open.name);
            assert!(
                varied.iter().all(|other| other.is_some_and(|of| of.value.is_some())),
                "{}",
                chosen.claim
            );
        }
    }
    let moved = |open: &Sensitivity| {
        open.claims.iter().any(|(chosen, varied)| {
            varied.iter().any(|other| other.is_some_and(|of| of.value != chosen.measured))
        })
    };
    assert!(opens.iter().any(moved), "an alternative changes nothing: it is not set");
    let (name, text) = &result.documents()[1];
    assert_eq!(*name, "sensitivity.md");
    // Pages have the sign of micro.
    let text = text.replace("µs", "us");
    for open in opens {
        assert!(text.contains(&format!("### {}", open.name)) && text.contains(&open.chosen));
    }
}

#[test]
fn a_plain_run_repeats_a_full_run_s_verdicts() {
    let verdicts = |sensitivity| {
        let options = ReproduceOptions { sensitivity, ..ReproduceOptions::default() };
        let result = reproduce(Some(&small()), &options).unwrap();
        let verdict = |claim: tidegate_papers::ClaimResult| (claim.claim, claim.verdict, claim.why);
        result.claims.into_iter().map(verdict).collect::<Vec<_>>()
    };
    assert_eq!(verdicts(false), verdicts(true));
}

#[test]
fn a_comparison_is_reported() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("incast.toml");
    let text = r#"
duration = "2ms"
warmup = "200us"
[fabric]
kind = "star"
hosts = 8
[transport]
protocol = "PROTOCOL"
[[flows]]
src = "h1"
dst = "h0"
label = "a < b"
[[traffic]]
kind = "poisson"
sizes = "20KB"
load = 0.3
[output]
timeseries = "50us"
"#;
    let names: Vec<String> =
        tidegate_runs::protocols().iter().take(2).map(|p| p.name.to_owned()).collect();
    std::fs::write(&path, text.replace("PROTOCOL", &names[0])).unwrap();
    let out = dir.path().join("out");
    let options = RunOptions { out: Some(Path::new(&out)), ..RunOptions::default() };
    compare(&path, &[set("seed=3").unwrap()], &names, &options).unwrap();
    let page = report(&[out], &|_| ()).unwrap();
    assert!(is_self_contained(&page));
    for needed in ["Slowdown of messages", "Queues at switch ports", "Goodput", "a &lt; b"] {
        assert!(page.contains(needed), "no {needed}");
    }
}

#[test]
fn a_folder_without_results_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let error = report(&[dir.path().to_owned()], &|_| ()).unwrap_err();
    assert_eq!(error.exit_code(), 2, "{error}");
}

/// The page loads nothing: its only addresses are names of namespaces.
fn is_self_contained(page: &str) -> bool {
    // The library contains web addresses, but does not load them. The command line's tests check
    // this with a browser.
    let (before, rest) = page.split_once("<script>/**\n* plotly.js").unwrap();
    let (_, after) = rest.split_once("</script>").unwrap();
    let count = |of: &str| before.matches(of).count() + after.matches(of).count();
    let namespaces = count("http://www.w3.org/2000/svg");
    count("://") == namespaces && ["src=", "@import", "import(", "fetch("].map(count) == [0; 4]
}
