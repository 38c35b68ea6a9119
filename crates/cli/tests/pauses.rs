//! PFC in the output of the program: a victim, a deadlock, a pause storm.

use std::fs;

use crate::common::{Answer, answer, circle, protocols_without};
use serde_json::Value;

/// Runs a scenario under the first protocol without PFC. The marking threshold is too high to keep
/// queues short.
fn run(text: &str, more: &[&str]) -> Answer {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("scenario.toml");
    let protocol = &protocols_without("pauses (PFC)")[0];
    let transport = format!("[transport]\nprotocol = \"{protocol}\"\n");
    fs::write(&path, format!("{text}\n{transport}")).unwrap();
    answer(&[&["run", path.to_str().unwrap()], more].concat())
}

/// A victim flow from h3 to h5, and optionally an incast to h4 over the same link.
fn victim(switch: &str, incast: bool) -> String {
    let mut text =
        "duration = '3ms'\nwarmup = '1ms'\nflows = [\n  { src = 'h3', dst = 'h5', label \
                    = 'victim' },\n"
            .to_owned();
    for src in (0..3).filter(|_| incast) {
        text += &format!("  {{ src = 'h{src}', dst = 'h4', label = 'incast' }},\n");
    }
    text += "]\n[fabric]\nkind = 'graph'\nhosts = ['h0', 'h1', 'h2', 'h3', 'h4', 'h5']\n\
             switches = ['s0', 's1']\nlinks = [\n";
    let mut link = |a: &str, b: &str, rate| {
        text += &format!("  {{ a = '{a}', b = '{b}', rate = '{rate}Gbps', delay = '1us' }},\n");
    };
    for (host, switch) in [("h0", "s0"), ("h1", "s0"), ("h2", "s0"), ("h3", "s0")] {
        link(host, switch, 100);
    }
    link("h4", "s1", 100);
    link("h5", "s1", 100);
    link("s0", "s1", 400);
    text + &format!("]\n[switch]\nbuffer = '2MB'\necn = {{ kmin = '1GB' }}\n{switch}")
}

fn goodput(summary: &Value, label: &str) -> f64 {
    let flows = summary["flows"].as_array().unwrap();
    let of = flows.iter().find(|flow| flow["label"] == label).expect("a flow with that label");
    of["goodput_gbps"].as_f64().unwrap()
}

#[test]
fn pfc_victim_of_an_incast() {
    let alone = run(&victim("pfc = {}", false), &["--json"]).json();
    assert!(goodput(&alone, "victim") > 95.0, "{}", goodput(&alone, "victim"));
    let beside = run(&victim("pfc = {}", true), &["--json"]).json();
    assert!(goodput(&beside, "victim") < 60.0, "{}", goodput(&beside, "victim"));
    let between = |summary: &Value| {
        let links = summary["links"].as_array().unwrap();
        links.iter().find(|link| link["from"] == "s0" && link["to"] == "s1").unwrap().clone()
    };
    let (before, link) = (between(&alone), between(&beside));
    assert_eq!((&before["pfc_pauses"], before["paused_us"].as_f64()), (&0.into(), Some(0.0)));
    assert!(link["pfc_pauses"].as_u64().unwrap() > 10, "{link}");
    let paused = link["paused_us"].as_f64().unwrap();
    assert!(paused > 500.0 && paused <= 2_000.0, "{link}");
    let switches = beside["switches"].as_array().unwrap();
    assert!(switches.iter().all(|switch| switch["drops"] == 0), "{switches:?}");

    let table = run(&victim("pfc = {}", true), &[]).ok();
    for word in ["pauses", "paused", "with pauses at 0.125 of the free buffer"] {
        assert!(table.contains(word), "`{word}` is missing in:\n{table}");
    }
    assert!(!run(&victim("", true), &[]).ok().contains("pauses"));
}

#[test]
fn pauses_in_summary_and_tables() {
    let beside = run(&victim("pfc = {}", true), &["--json"]).json();
    let links = beside["links"].as_array().unwrap();
    let paused = |link: &Value| link["paused_us"].as_f64().unwrap();
    let count: u64 = links.iter().map(|link| link["pfc_pauses"].as_u64().unwrap()).sum();
    let some: Vec<&Value> = links.iter().filter(|link| link["pfc_pauses"] != 0).collect();
    let longest = some.iter().max_by(|a, b| paused(a).total_cmp(&paused(b))).unwrap();
    let pauses = &beside["pauses"];
    assert_eq!(pauses["pauses"], count);
    assert_eq!((&pauses["links"], &pauses["paused_links"]), (&14.into(), &some.len().into()));
    assert_eq!(pauses["longest"], serde_json::json!([longest["from"], longest["to"]]));
    // The measured window is two milliseconds.
    let near = |key: &str, us: f64| {
        let share = pauses[key].as_f64().unwrap();
        assert!((share - us / 2_000.0).abs() < 1e-9, "{key}: {pauses}");
    };
    near("share_max", paused(longest));
    near("share_mean", links.iter().map(paused).sum::<f64>() / 14.0);

    let table = run(&victim("pfc = {}", true), &[]).ok();
    let (_, ports) = table.split_once("Most paused ports").expect("that table");
    let first = ports.lines().nth(2).unwrap().split_whitespace().collect::<Vec<_>>();
    assert_eq!(first[..2], [&longest["from"], &longest["to"]].map(|name| name.as_str().unwrap()));
    let share = format!("{:.1} %", paused(longest) / 20.0);
    assert!(ports.contains(&share) && table.contains(&format!("{} of 14", some.len())), "{table}");
    // Over seeds, too.
    let over = run(&victim("pfc = {}", true), &["--seeds", "2"]).ok();
    assert!(over.contains("links paused") && over.contains(&share), "{over}");
    // A PFC fabric without pauses reports zero; a fabric without PFC reports nothing.
    let alone = run(&victim("pfc = {}", false), &["--json"]).json();
    assert_eq!(
        (&alone["pauses"]["pauses"], &alone["pauses"]["longest"]),
        (&0.into(), &Value::Null)
    );
    assert!(run(&victim("", true), &["--json"]).json().get("pauses").is_none());
}

#[test]
fn drops_in_spite_of_pauses_are_warned_of() {
    let warned = |pfc: &str| {
        let summary = run(&victim(pfc, true), &["--json"]).json();
        summary["warnings"].to_string().contains("packets were dropped despite PFC")
    };
    assert!(warned("pfc = { headroom = '0B' }"));
    assert!(!warned("pfc = {}"));
}

#[test]
fn a_deadlock_ends_the_run_and_names_the_ports() {
    let words = ["deadlock detected at", "pause each other in a cycle", "s0", "s1", "s2", "s3"];
    run(&circle(), &["--json"]).refused(1, &words);
}

#[test]
fn a_storm_is_warned_of_and_in_the_summary() {
    let text = format!(
        "{}\n[faults]\nstorm = [{{ host = 'h5', from = '1200us', until = '2ms' }}]\n",
        victim("pfc = {}", false)
    );
    let answer = run(&text, &["--json"]);
    let warned = "warning: h5 paused the switch for at least 100us, first at 1200us";
    assert!(answer.stderr.contains(warned), "{}", answer.stderr);
    let summary = answer.json();
    let [storm] = &summary["pause_storms"].as_array().unwrap()[..] else { panic!("{summary}") };
    assert_eq!((&storm["host"], storm["since_us"].as_f64()), (&"h5".into(), Some(1200.0)));
}
