//! `tidegate bundle` and `tidegate verify`: all kinds of results, and errors.

use std::fs::{self, File};
use std::io::{Read, Write};

use serde_json::Value;
use zip::write::SimpleFileOptions;
use zip::{ZipArchive, ZipWriter};

use crate::common::{Place, answer, files, tidegate};

/// A small scenario with random messages.
fn place() -> Place {
    let place = Place::usual();
    let text = "duration = '200us'\nwarmup = '20us'\ndrain = '1ms'\n\
        fabric = { kind = 'leaf-spine', racks = 2, hosts_per_rack = 2, spines = 1 }\n\
        transport = { protocol = 'swift' }\n\
        [[traffic]]\nkind = 'poisson'\nlabel = 'short'\nsizes = '20KB'\nload = 0.3\n";
    fs::write(place.path("scenario.toml"), text).unwrap();
    place
}

/// Makes results, removes the scenario, and returns the lines of `verify`.
fn verified(command: &[&str]) -> Vec<String> {
    let place = place();
    let (out, zip) = (place.arg("out"), place.arg("study.zip"));
    place.call(command[0], &[&command[1..], &["--out", &out]].concat()).ok();
    answer(&["bundle", &out, "--out", &zip]).ok();
    fs::remove_dir_all(place.path("out")).unwrap();
    fs::remove_file(place.path("scenario.toml")).unwrap();
    compared(&answer(&["verify", &zip]).ok())
}

/// The lines of `verify` about single files, all of which are the same, as its last line states.
fn compared(text: &str) -> Vec<String> {
    let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
    let count = lines.len() - 1;
    assert_eq!(lines.pop(), Some(format!("All {count} files are the same.")), "{text}");
    lines
}

/// The folder `one` of a place, with a scenario that names a distribution and a trace.
fn named_files() -> Place {
    let place = Place::usual();
    for folder in ["one", "one/traces", "two"] {
        fs::create_dir(place.path(folder)).unwrap();
    }
    let text = "duration = '200us'\nwarmup = '20us'\ndrain = '1ms'\n\
        fabric = { kind = 'leaf-spine', racks = 2, hosts_per_rack = 2, spines = 1 }\n\
        transport = { protocol = 'swift' }\n\
        [[traffic]]\nkind = 'poisson'\nlabel = 'short'\nsizes = 'short.csv'\nload = 0.3\n\
        [[traffic]]\nkind = 'trace'\nlabel = 'listed'\nfile = 'traces/short.csv'\n";
    fs::write(place.path("one/mine.toml"), text).unwrap();
    fs::write(place.path("one/short.csv"), "1000,0.5\n20000,1\n").unwrap();
    fs::write(place.path("one/long.csv"), "1000,0.5\n40000,1\n").unwrap();
    // The last message starts after the end, which causes a warning.
    let trace = "10,h0,h2,30000\n50,h3,h1,30000\n500,h3,h1,30000\n";
    fs::write(place.path("one/traces/short.csv"), trace).unwrap();
    place
}

#[test]
fn bundle_contains_named_files() {
    let sweep = ["--vary", "traffic.short.sizes=short.csv,long.csv", "--no-cache"];
    for (command, more, files) in [
        ("run", &[][..], 2),
        ("run", &["--set", "output.timeseries=10us", "--seeds", "2"], 2),
        ("compare", &["--protocols", "swift,dctcp", "--seeds", "2"], 2),
        ("sweep", &sweep, 3),
    ] {
        let place = named_files();
        let (out, zip) = (place.arg("one/out"), place.arg("two/study.zip"));
        let scenario = place.arg("one/mine.toml");
        answer(&[&[command, &scenario], more, &["--out", &out]].concat()).ok();
        let text = answer(&["bundle", &out, "--out", &zip]).ok();
        assert!(text.contains(&format!("{files} files that scenarios name,")), "{text}");
        fs::remove_dir_all(place.path("one")).unwrap();
        let verify = tidegate(&["verify", "study.zip"]).current_dir(place.path("two")).output();
        let text = String::from_utf8(verify.unwrap().stdout).unwrap();
        let lines = compared(&text);
        assert!(lines.len() > 2, "{command}: {text}");
        assert!(lines.iter().all(|line| line.ends_with(": same")), "{command}: {text}");
        let mut archive = ZipArchive::new(File::open(&zip).unwrap()).unwrap();
        for i in 0..archive.len() {
            let (mut entry, mut bytes) = (archive.by_index(i).unwrap(), Vec::new());
            entry.read_to_end(&mut bytes).unwrap();
            let is_found = String::from_utf8_lossy(&bytes).contains(&place.arg("one"));
            assert!(!is_found, "{command}: a path of this machine in file {i}");
        }
    }
}

#[test]
fn unpacked_bundle_runs_and_is_verified() {
    let place = named_files();
    let (out, zip) = (place.arg("one/out"), place.arg("two/study.zip"));
    answer(&["run", &place.arg("one/mine.toml"), "--out", &out]).ok();
    // The manifest records the folder of the files.
    let digest = |manifest: &str| {
        let summary = answer(&["run", &place.arg(manifest), "--json"]).json();
        summary["engine"]["digest"].clone()
    };
    let first = digest("one/out/manifest.json");
    answer(&["bundle", &out, "--out", &zip]).ok();
    fs::remove_dir_all(place.path("one")).unwrap();
    let mut archive = ZipArchive::new(File::open(&zip).unwrap()).unwrap();
    archive.extract(place.path("two")).unwrap();
    assert_eq!(digest("two/results/manifest.json"), first);
    fs::remove_file(&zip).unwrap();
    let packed = ["flows.parquet", "manifest.json", "summary.json", "report.html", "README.txt"];
    let packed = packed.map(|name| format!("{name}: same"));
    for (folder, count) in [("two", 5), ("two/results", 3)] {
        let lines = compared(&answer(&["verify", &place.arg(folder)]).ok());
        assert_eq!(lines, packed[..count], "{folder}");
    }
}

#[test]
fn bundle_refuses_changed_files() {
    let place = named_files();
    let (out, zip) = (place.arg("one/out"), place.arg("two/study.zip"));
    answer(&["run", &place.arg("one/mine.toml"), "--out", &out, "--seeds", "2"]).ok();
    fs::write(place.path("one/short.csv"), "1000,0.6\n20000,1\n").unwrap();
    let bundle = || answer(&["bundle", &out, "--out", &zip]);
    let changed = format!("{} (it has changed)", place.arg("one/short.csv"));
    bundle().refused(2, &["bundle", &changed, "make the results again"]);
    answer(&["verify", &out]).refused(2, &["verify", &changed]);
    fs::remove_file(place.path("one/traces/short.csv")).unwrap();
    let missing = place.arg("one/traces/short.csv");
    bundle().refused(2, &[&changed, &missing, "No such file"]);
    assert!(!place.path("two/study.zip").exists());
    // Results of an earlier version.
    for seed in ["seed-1", "seed-2"] {
        let path = place.path("one/out").join(seed).join("manifest.json");
        let mut manifest: Value = serde_json::from_slice(&fs::read(&path).unwrap()).unwrap();
        manifest.as_object_mut().unwrap().remove("files");
        fs::write(&path, manifest.to_string()).unwrap();
    }
    bundle().refused(2, &["short.csv", "no hash of this file", "make the results again"]);
}

/// Rewrites a file of an archive.
fn changed(place: &Place, from: &str, to: &str, edit: impl Fn(&str, &mut String) -> String) {
    rewritten(place, from, to, |name, bytes| {
        let mut text = String::from_utf8(bytes.clone()).unwrap_or_default();
        let name = edit(name, &mut text);
        if !text.is_empty() {
            *bytes = text.into_bytes();
        }
        name
    });
}

/// Overwrites the second half of a file of an archive, whose checksum is right.
fn damaged(place: &Place, from: &str, to: &str, file: &str) {
    rewritten(place, from, to, |name, bytes| {
        if name == file {
            let half = bytes.len() / 2;
            bytes[half..].fill(b'x');
        }
        name.to_owned()
    });
}

/// Rewrites the names and the bytes of an archive.
fn rewritten(place: &Place, from: &str, to: &str, edit: impl Fn(&str, &mut Vec<u8>) -> String) {
    let mut old = ZipArchive::new(File::open(place.path(from)).unwrap()).unwrap();
    let mut new = ZipWriter::new(File::create(place.path(to)).unwrap());
    for i in 0..old.len() {
        let mut entry = old.by_index(i).unwrap();
        let (mut bytes, name) = (Vec::new(), entry.name().unwrap().into_owned());
        entry.read_to_end(&mut bytes).unwrap();
        let name = edit(&name, &mut bytes);
        new.start_file(name, SimpleFileOptions::default()).unwrap();
        new.write_all(&bytes).unwrap();
    }
    new.finish().unwrap();
}

#[test]
fn verify_run() {
    let lines = verified(&["run", "--set", "output.timeseries=10us"]);
    let names = ["flows.parquet", "manifest.json", "summary.json", "timeseries.parquet"];
    let names = names.into_iter().chain(["report.html", "README.txt"]);
    assert_eq!(lines, names.map(|name| format!("{name}: same")).collect::<Vec<_>>());
}

#[test]
fn verify_comparison_of_seeds() {
    let lines = verified(&["compare", "--protocols", "swift,dctcp", "--seeds", "2"]);
    assert!(lines.iter().all(|line| line.ends_with(": same")), "{lines:?}");
    for name in ["aggregate.json", "seed-2/comparison.json", "seed-1/dctcp/flows.parquet"] {
        assert!(lines.contains(&format!("{name}: same")), "{name}: {lines:?}");
    }
    assert_eq!(lines.len(), 1 + 2 * (1 + 2 * 3) + 2);
}

#[test]
fn verify_sweep() {
    let vary = ["--vary", "traffic.short.load=0.2,0.4", "--vary", "protocol=swift,dctcp"];
    let more = ["--seeds", "2", "--baseline", "dctcp", "--no-cache"];
    let lines = verified(&[&["sweep"], &vary[..], &more[..]].concat());
    let results = ["manifest.json", "sweep.csv", "sweep.json", "sweep.parquet"];
    let names = results.into_iter().chain(["report.html", "README.txt"]);
    assert_eq!(lines, names.map(|name| format!("{name}: same")).collect::<Vec<_>>());
}

#[test]
fn verify_reproduction() {
    let place = Place::usual();
    let (out, zip) = (place.arg("out"), place.arg("study.zip"));
    let figure = crate::reproduce::small();
    answer(&["reproduce", &figure, "--quick", "--no-cache", "--out", &out]).ok();
    let bundled = answer(&["bundle", &out, "--out", &zip]).ok();
    let text = answer(&["verify", &zip]).ok();
    assert!(text.contains("reproduction.json: same\n") && text.contains("plots.json: same\n"));
    let scenario = format!("scenarios/{figure}/");
    let is_same = |line: &&str| line.starts_with(&scenario) && line.ends_with(".json: same");
    let scenarios = text.lines().filter(is_same).count();
    let noun = if scenarios == 1 { "scenario" } else { "scenarios" };
    assert!(scenarios > 0 && bundled.contains(&format!(", {scenarios} {noun}, ")), "{bundled}");

    let mut archive = ZipArchive::new(File::open(&zip).unwrap()).unwrap();
    let mut readme = String::new();
    archive.by_name("README.txt").unwrap().read_to_string(&mut readme).unwrap();
    let command = format!("Command: tidegate reproduce {figure} --quick\n");
    let page = fs::read_to_string(place.path("out/reproduction.md")).unwrap();
    assert!(page.contains(&format!("`tidegate reproduce {figure} --quick --out DIR`")), "{page}");
    let repository = concat!(env!("CARGO_PKG_REPOSITORY"), "\n");
    for words in [command.as_str(), "Seeds: 1\n", "scenarios/ ", repository] {
        assert!(readme.contains(words), "{words} is missing in {readme}");
    }
    assert!(!readme.contains("manifest.json"), "its manifest holds no scenario: {readme}");
}

#[test]
fn bundle_has_the_same_bytes_twice() {
    let place = place();
    let (out, zip) = (place.arg("out"), place.arg("study.zip"));
    place.run(&["--out", &out, "--seed", "7"]).ok();
    fs::write(place.path("out/notes.txt"), "mine").unwrap();
    let warned = answer(&["bundle", &out, "--out", &zip]);
    assert!(warned.stderr.contains("notes.txt"), "{}", warned.stderr);
    let first = fs::read(&zip).unwrap();
    answer(&["bundle", &out, "--out", &zip]).refused(2, &["--out", "study.zip", "--force"]);
    answer(&["bundle", &out, "--out", &zip, "--force"]).ok();
    assert!(fs::read(&zip).unwrap() == first);

    let mut archive = ZipArchive::new(File::open(&zip).unwrap()).unwrap();
    let names: Vec<String> = archive.file_names().map(|name| name.unwrap().into_owned()).collect();
    let results = ["flows.parquet", "manifest.json", "summary.json"];
    let results = results.map(|name| format!("results/{name}"));
    let expected = ["README.txt", "report.html"].map(str::to_owned).into_iter().chain(results);
    assert_eq!(names, expected.collect::<Vec<_>>());
    let mut readme = String::new();
    archive.by_name("README.txt").unwrap().read_to_string(&mut readme).unwrap();
    for words in ["tidegate verify study.zip", "Seeds: 7", "semantics", "rustc ", "Scenario: "] {
        assert!(readme.contains(words), "{words} is missing in {readme}");
    }
}

#[test]
fn verify_reports_differences() {
    let place = place();
    let (out, zip) = (place.arg("out"), place.arg("study.zip"));
    place.run(&["--out", &out]).ok();
    answer(&["bundle", &out, "--out", &zip]).ok();
    let edited = |name: &str, edit: &dyn Fn(&mut Value)| {
        changed(&place, "study.zip", "other.zip", |file, text| {
            if file == name {
                let mut json = serde_json::from_str(text).unwrap();
                edit(&mut json);
                *text = json.to_string();
            }
            file.to_owned()
        });
        answer(&["verify", &place.arg("other.zip")])
    };
    let wrong = edited("results/summary.json", &|json| json["engine"]["packet_hops"] = 1.into());
    assert_eq!(wrong.code, Some(1));
    assert!(wrong.stdout.contains("summary.json: differs: engine.packet_hops: 1, repeated "));
    assert!(wrong.stdout.contains("flows.parquet: same\n"), "{}", wrong.stdout);
    assert!(wrong.stderr.contains("1 of 5 files differ"), "{}", wrong.stderr);
    // Wall times are no difference.
    edited("results/summary.json", &|json| json["engine"]["wall_seconds"] = 1.into()).ok();
    edited("results/manifest.json", &|json| json["semantics"] = 1.into())
        .refused(1, &["semantics", "version 1", "verify them with tidegate"]);
    // The page and the README are those of the results, and nothing is added.
    for (file, text, why) in [
        ("report.html", "<p>", "report.html: differs: line 1\n"),
        ("README.txt", "forged", "README.txt: differs: line 1\n"),
    ] {
        changed(&place, "study.zip", "other.zip", |name, old| {
            if name == file {
                *old = text.to_owned();
            }
            name.to_owned()
        });
        let wrong = answer(&["verify", &place.arg("other.zip")]);
        assert!(wrong.code == Some(1) && wrong.stdout.contains(why), "{}", wrong.stdout);
    }
    // The name of the archive may change, but its place holds no other command.
    for (command, verdict) in [("new_2.zip", "same"), ("x; rm y", "differs: line ")] {
        changed(&place, "study.zip", "other.zip", |name, old| {
            if name == "README.txt" {
                *old = old.replace("study.zip", command);
            }
            name.to_owned()
        });
        let found = answer(&["verify", &place.arg("other.zip")]).stdout;
        assert!(found.contains(&format!("README.txt: {verdict}")), "{found}");
    }
    changed(&place, "study.zip", "other.zip", |name, _| match name {
        "README.txt" => "results/more.txt".to_owned(),
        _ => name.to_owned(),
    });
    let wrong = answer(&["verify", &place.arg("other.zip")]);
    assert!(wrong.stdout.contains("results/more.txt: differs: a bundle of these results has no"));
    assert!(wrong.stdout.contains("README.txt: differs: the bundle lacks it\n"));
    // A damaged table is named as in the archive, also if no page can be made of it.
    damaged(&place, "study.zip", "other.zip", "results/flows.parquet");
    let wrong = answer(&["verify", &place.arg("other.zip")]);
    let inside = format!("not compared: {}: results/flows.parquet: ", place.arg("other.zip"));
    assert!(wrong.stdout.contains("flows.parquet: differs: byte "), "{}", wrong.stdout);
    assert!(wrong.stdout.contains(&inside) && wrong.code == Some(1), "{}", wrong.stdout);
    // A folder of results needs no bundle.
    assert!(answer(&["verify", &out]).ok().contains("summary.json: same"));
}

#[test]
fn bundle_and_verify_refuse() {
    let place = place();
    let (out, zip) = (place.arg("out"), place.arg("study.zip"));
    fs::create_dir(place.path("empty")).unwrap();
    answer(&["bundle", &place.arg("empty"), "--out", &zip]).refused(2, &["empty", "no results"]);
    let none = answer(&["bundle", &place.arg("none"), "--out", &zip]);
    none.refused(2, &["none: No such file", "name a folder of results"]);
    let empty = answer(&["verify", &place.arg("empty")]);
    empty.refused(2, &["empty: no results", "name a folder of results"]);
    assert!(!place.path("study.zip").exists());
    place.run(&["--out", &out]).ok();
    let nowhere = place.arg("nowhere/study.zip");
    answer(&["bundle", &out, "--out", &nowhere]).refused(2, &["--out", "nowhere"]);
    answer(&["bundle", &out, "--out", &zip]).ok();

    // Another suffix is refused before anything is read, and the messages name no part of a format.
    for name in ["b.tar", "b"] {
        let words = [&format!("--out: {}", place.arg(name)), "ZIP archive", "ends in .zip"];
        let other = answer(&["bundle", &place.arg("none"), "--out", &place.arg(name)]);
        other.refused(2, &words.map(|word| word as &str));
        assert!(!place.path(name).exists());
    }
    let scenario = place.arg("scenario.toml");
    let words = [&format!("{scenario}: this file is not an archive of a study: name"), "folder of"];
    answer(&["verify", &scenario]).refused(2, &words);
    let words = ["study.zip is an archive", "unzip ", "and name FOLDER/results"];
    answer(&["report", &zip]).refused(2, &words);

    let whole = fs::read(&zip).unwrap();
    fs::write(place.path("short.zip"), &whole[..whole.len() / 2]).unwrap();
    let short = ["short.zip: the archive is damaged or incomplete: name", "tidegate bundle"];
    answer(&["verify", &place.arg("short.zip")]).refused(2, &short);
    let mut damaged = whole;
    let at = damaged.len() / 2;
    damaged[at..at + 64].fill(0);
    fs::write(place.path("damaged.zip"), damaged).unwrap();
    answer(&["verify", &place.arg("damaged.zip")]).refused(2, &["damaged.zip"]);
    changed(&place, "study.zip", "escapes.zip", |name, _| format!("../../{name}"));
    answer(&["verify", &place.arg("escapes.zip")]).refused(2, &["escapes.zip", "leads out of"]);
    assert!(!files(place.path("..").as_path()).contains(&"README.txt".to_owned()));
    answer(&["verify", &place.arg("none.zip")]).refused(2, &["none.zip"]);

    // An archive is named as the user knows it, with the missing member.
    let moved = |member: &'static str| {
        changed(&place, "study.zip", "lacks.zip", |name, _| name.replace(member, "other.json"));
        answer(&["verify", &place.arg("lacks.zip")])
    };
    let (lacks, inside) = (place.arg("lacks.zip"), "results/manifest.json");
    moved(inside).refused(2, &[&format!("{lacks}: {inside}: No such file"), "make them again"]);
    let words = [&format!("{lacks}: results: no results: "), "summary.json", "tidegate bundle"];
    moved("results/summary.json").refused(2, &words);

    fs::remove_file(place.path("out/manifest.json")).unwrap();
    let again = place.arg("again.zip");
    answer(&["bundle", &out, "--out", &again]).refused(2, &["manifest.json", "make them again"]);
    assert!(!place.path("again.zip").exists());
}
