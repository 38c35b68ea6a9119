//! `tidegate compare`, and that every protocol of the catalog runs.

use std::fs;

use crate::common::{Place, answer, anywhere, files, on_racks, protocols, steady};
use serde_json::Value;

#[test]
fn compare_all_protocols() {
    let place = Place::racks();
    let names = on_racks();
    let json = place
        .call("compare", &["--protocols", &names.join(","), "--json", "--out", &place.arg("out")])
        .json();
    let runs = json["runs"].as_array().unwrap();
    assert_eq!(runs.len(), names.len());
    for (run, name) in runs.iter().zip(&names) {
        assert_eq!(run["protocol"], name.as_str());
        assert_eq!(run["summary"]["protocols"], serde_json::json!([name]));
        let fct = &run["summary"]["fct"]["all"];
        assert_eq!(fct["count"], 5, "{name}");
        let delivered: u64 = run["summary"]["flows"]
            .as_array()
            .unwrap()
            .iter()
            .map(|f| f["delivered_bytes"].as_u64().unwrap())
            .sum();
        assert!(delivered > 0, "{name} delivers nothing");
        let folder = place.path("out").join(name);
        assert_eq!(files(&folder), ["flows.parquet", "manifest.json", "summary.json"]);
        let summary: Value =
            serde_json::from_str(&fs::read_to_string(folder.join("summary.json")).unwrap())
                .unwrap();
        assert_eq!(summary, run["summary"]);
    }
    let text = fs::read_to_string(place.path("out/comparison.json")).unwrap();
    assert_eq!(serde_json::from_str::<Value>(&text).unwrap(), json);
}

#[test]
fn compare_any_number_of_threads() {
    let place =
        Place::usual().on("kind = \"leaf-spine\"\nracks = 3\nhosts_per_rack = 1\nspines = 2\n");
    let names = anywhere().join(",");
    let compare = |threads: &str, partitions: u64| {
        let forced = partitions.to_string();
        let how = ["--threads", threads, "--partitions", &forced];
        let args = [&["--protocols", &names, "--json"][..], &how].concat();
        let mut json = place.call("compare", &args).json();
        let runs = json["runs"].as_array_mut().unwrap().iter_mut();
        runs.map(|run| {
            assert_eq!(run["summary"]["engine"]["threads"], partitions, "{}", run["protocol"]);
            steady(run["summary"].take())
        })
        .collect::<Vec<_>>()
    };
    let whole = compare("1", 1);
    assert_eq!(whole, compare("3", 1));
    assert_eq!(whole, compare("1", 2));
    assert_eq!(whole, compare("3", 3));
}

#[test]
fn compare_fair_share() {
    let place = Place::new(
        "[[flows]]\nsrc = \"h0\"\ndst = \"h2\"\n[[flows]]\nsrc = \"h1\"\ndst = \"h2\"\n",
    );
    let names = on_racks();
    let json = place.call("compare", &["--protocols", &names[0], "--json"]).json();
    for flow in json["runs"][0]["summary"]["flows"].as_array().unwrap() {
        // Half of 100 Gbit/s, less headers.
        let share = flow["fair_share_gbps"].as_f64().unwrap();
        assert!((48.0..50.0).contains(&share), "{share}");
    }
    let text = place.call("compare", &["--protocols", &names[0]]).ok();
    assert!(text.contains("fair share") && text.contains('%'), "{text}");
}

#[test]
fn blanks_in_quoted_list() {
    let names = protocols();
    let list = format!("{}, {}", names[0], names[1]);
    let json = Place::usual().call("compare", &["--protocols", &list, "--json"]).json();
    assert_eq!(
        [&json["runs"][0]["protocol"], &json["runs"][1]["protocol"]],
        [&names[0], &names[1]]
    );
}

#[test]
fn wrong_protocols() {
    let place = Place::usual();
    let known = &protocols()[0];
    let out = place.arg("out");
    let near = format!("{known}x");
    place
        .call("compare", &["--protocols", &near, "--out", &out])
        .refused(2, &["--protocols", &near, "did you mean", known]);
    let twice = format!("{known},{known}");
    place
        .call("compare", &["--protocols", &twice, "--out", &out])
        .refused(2, &["--protocols", "twice"]);
    let all = protocols().join(",");
    answer(&["protocols", "all"]).refused(2, &["`all` is not a protocol", &all]);
    let beside = format!("all,{known}");
    place
        .call("compare", &["--protocols", &beside, "--out", &out])
        .refused(2, &["--protocols", "`all` cannot be combined with other names"]);
    for blanks in [["--protocols", "a,", "b"], ["--protocols", "a", ",b"]] {
        place.call("compare", &blanks).refused(2, &["--protocols: unknown protocol `a`"]);
    }
    place.call("compare", &["--out", &out]).refused(2, &["--protocols"]);
    assert_eq!(files(&place.path("")), ["scenario.toml"]);
}

#[test]
fn circuits_required() {
    let (place, out) = (Place::usual(), Place::usual());
    let everywhere = anywhere();
    let others: Vec<String> =
        protocols().into_iter().filter(|name| !everywhere.contains(name)).collect();
    assert!(!others.is_empty());
    for name in &others {
        let words = ["found a fabric without circuits", "needs circuit announcements", name];
        let set = format!("transport.protocol={name}");
        let [one, two] = ["one", "two"].map(|to| out.arg(to));
        place.run(&["--set", &set, "--out", &one]).refused(2, &[&words[..], &["--set"]].concat());
        let both = format!("{},{name}", everywhere[0]);
        place
            .call("compare", &["--protocols", &both, "--out", &two])
            .refused(2, &[&words[..], &["--protocols"]].concat());
        assert_eq!(files(&out.path("")), ["scenario.toml"]);
    }
}

#[test]
fn compare_needs_force_to_overwrite() {
    let place = Place::usual();
    let known = &protocols()[0];
    let out = place.arg("out");
    place.call("compare", &["--protocols", known, "--out", &out]).ok();
    place.call("compare", &["--protocols", known, "--out", &out]).refused(2, &["--out", "--force"]);
    place.run(&["--out", &out]).refused(2, &["--out", "--force"]);
    place.call("compare", &["--protocols", known, "--out", &out, "--force"]).ok();
}

/// Two racks of two hosts, whose switches drop unless a protocol requires PFC.
fn racks(more: &str) -> Place {
    let place = Place::usual();
    let text = format!(
        "duration = '300us'\n[fabric]\nkind = 'leaf-spine'\nracks = 2\nhosts_per_rack = 2\n\
         spines = 2\n[transport]\nprotocol = 'swift'\n[[traffic]]\nkind = 'permutation'\n\
         sizes = '20KB'\n{more}"
    );
    fs::write(place.path("scenario.toml"), text).unwrap();
    place
}

#[test]
fn warning_pausing_and_dropping_switches() {
    let warned = |switch: &str, names: &str| {
        let place = racks(&format!("[switch]\n{switch}"));
        let answer = place.call("compare", &["--protocols", names, "--json"]);
        let is_printed =
            answer.stderr.contains("switches pause under timely and drop under swift, dctcp:");
        assert_eq!(answer.json()["warnings"].as_array().unwrap().len(), usize::from(is_printed));
        is_printed
    };
    assert!(warned("buffer = '4MB'", "swift,timely,dctcp"));
    assert!(!warned("buffer = '4MB'\npfc = {}", "swift,timely,dctcp"));
    assert!(!warned("buffer = '4MB'", "swift,dctcp"));
    assert!(!warned("", "swift,timely,dctcp"));
}

#[test]
fn an_unlisted_baseline_is_refused_first() {
    for more in [&[][..], &["--seeds", "2"], &["--dry-run"]] {
        let call = [&["--protocols", "swift,dctcp", "--baseline", "homa"], more].concat();
        let words = ["--baseline: `homa` is not among the protocols", "they are swift, dctcp"];
        Place::usual().call("compare", &call).refused(2, &words);
    }
}

#[test]
fn error_names_conflicting_protocols() {
    let place = racks("[[traffic]]\nkind = 'permutation'\nsizes = '20KB'\nprotocol = 'dctcp'\n");
    place.call("compare", &["--protocols", "swift,dcqcn"]).refused(
        2,
        &[
            "tidegate: under dcqcn: ",
            "switch.ecn: found nothing",
            "dctcp (traffic[1].protocol)",
            "\nto compare the others: tidegate compare ",
        ],
    );
}
