//! `tidegate protocols`, `schema` and `completions`: commands without a scenario.

#[cfg(target_os = "linux")]
use crate::common::terminal;
use crate::common::{Place, answer, protocols};

#[test]
fn protocols_list_and_pages() {
    let list = answer(&["protocols"]).ok();
    for name in protocols() {
        assert!(list.contains(&name), "{name} is missing in:\n{list}");
        let info = answer(&["protocols", &name, "--json"]).json();
        let page = answer(&["protocols", &name]).ok();
        assert!(page.starts_with(info["title"].as_str().unwrap()), "{page}");
        for parameter in info["parameters"].as_array().unwrap() {
            for key in [
                "name", "kind", "unit", "default", "min", "max", "choices", "needs", "meaning",
                "source",
            ] {
                assert!(parameter.get(key).is_some(), "{key} is missing in {parameter}");
            }
            let parameter = parameter["name"].as_str().unwrap();
            assert!(
                page.lines().any(|line| line.split_whitespace().next() == Some(parameter)),
                "{parameter}: {page}"
            );
        }
    }
}

#[test]
fn protocol_pages_list_presets_and_conditions() {
    let page = answer(&["protocols", "timely"]).ok();
    let (_, presets) = page.split_once("\nPresets (`transport.preset`)\n").expect("presets");
    let line = |name: &str| {
        let named = |line: &&str| line.split_whitespace().next() == Some(name);
        presets.lines().find(named).unwrap_or_else(|| panic!("{name}: {presets}"))
    };
    assert!(line("paper").contains("the defaults"), "{presets}");
    let patched = line("patched");
    assert!(patched.contains("variant = \"patched\" [The fix from \"ECN or Delay\""), "{patched}");
    let info = answer(&["protocols", "timely", "--json"]).json();
    let window = info["presets"].as_array().unwrap().iter().find(|one| one["name"] == "window");
    assert_eq!(window.unwrap()["parameters"]["max_window"], "1BDP");
    let hyper = page.split_once("\nhyper").expect("a parameter").1;
    assert!(hyper.split_once('[').unwrap().0.contains("Only with variant = \"gradient\"."));
}

#[test]
fn unknown_protocol_suggestion() {
    let name = format!("{}x", protocols()[0]);
    answer(&["protocols", &name]).refused(2, &["did you mean", &name]);
    let place = Place::usual();
    let name = protocols()[0].to_uppercase();
    let meant = format!("did you mean `{}`", protocols()[0]);
    place.call("compare", &["--protocols", &name]).refused(2, &[&meant]);
    let set = format!("transport.protocol={name}");
    place.run(&["--set", &set]).refused(2, &["did you mean", &protocols()[0]]);
}

#[test]
fn templates_run() {
    let names = answer(&["new"]).ok();
    let folder = tempfile::tempdir().unwrap();
    for name in ["sird-leaf-spine", "star", "fat-tree", "reconfigurable"] {
        let line = names.lines().find(|line| line.split(' ').next() == Some(name)).expect(name);
        // A sentence says what it is.
        assert!(line.len() > name.len() + 20 && line.ends_with('.'), "{names}");
    }
    // These run as they are; the larger fabrics of papers for a shorter time.
    let whole = ["star", "dumbbell", "parking-lot", "leaf-spine", "fat-tree", "clos"];
    for name in names.lines().filter_map(|line| line.split(' ').next()) {
        let path = folder.path().join("a.toml");
        std::fs::write(&path, answer(&["new", name]).ok()).unwrap();
        let short = ["--set", "duration=200us", "--set", "warmup=20us"];
        let changes = if whole.contains(&name) { &[][..] } else { &short };
        let run = answer(&[&["run", path.to_str().unwrap(), "--json"][..], changes].concat());
        assert_eq!(run.stderr, "", "{name}: a warning");
        let summary = run.json();
        assert!(summary["engine"]["packet_hops"].as_u64() > Some(100), "{name}: {summary}");
        let all = &summary["fct"]["all"];
        assert_eq!(all["unfinished"], 0, "{name}: {all}");
        // The percentile is not the maximum.
        assert!(!whole.contains(&name) || all["count"].as_u64() >= Some(100), "{name}: {all}");
    }
    answer(&["new", "sird-leaf-spin"]).refused(2, &["did you mean", "sird-leaf-spine"]);
}

#[test]
fn schema_is_a_json_schema() {
    let schema = answer(&["schema"]).json();
    assert!(schema["$schema"].as_str().unwrap().contains("json-schema.org"), "{schema}");
}

#[test]
fn completions() {
    for shell in ["bash", "zsh", "fish"] {
        assert!(answer(&["completions", shell]).ok().contains("tidegate"));
    }
    answer(&["completions", "dos"]).refused(2, &["dos"]);
}

#[test]
fn help_and_version() {
    assert!(answer(&["--help"]).ok().contains("compare"));
    assert!(answer(&["--version"]).ok().contains(env!("CARGO_PKG_VERSION")));
    assert!(answer(&["run", "--help"]).ok().contains("--threads"));
}

#[cfg(target_os = "linux")]
fn is_wide(line: &&str) -> bool {
    line.chars().count() > 80
}

/// Without `script`, these tests pass.
#[test]
#[cfg(target_os = "linux")]
fn tables_fit_the_terminal() {
    let shown = |columns: &str| terminal(columns, "tidegate protocols; tidegate protocols sird");
    let Some(text) = shown("80") else { return };
    assert!(!text.lines().any(|line| is_wide(&line)), "{text}");
    for column in ["switch requirements", "description", "meaning; allowed values"] {
        assert!(text.contains(column), "{column}: {text}");
    }
    // Columns are not too narrow: words are not broken.
    let plain = answer(&["protocols"]).ok();
    for word in plain.split_whitespace() {
        assert!(text.split_whitespace().any(|other| other == word), "{word}: {text}");
    }
    assert!(plain.lines().any(|line| is_wide(&line)), "full width without a terminal");
    assert!(shown("200").unwrap().lines().any(|line| is_wide(&line)));
}

#[test]
#[cfg(target_os = "linux")]
fn results_fit_the_terminal() {
    let scenario = Place::usual();
    let path = scenario.arg("scenario.toml");
    let two = protocols()[..2].join(",");
    let lines = [
        format!("tidegate run {path} -q"),
        format!("tidegate compare {path} -q --protocols {two} --seeds 2"),
        format!(
            "tidegate sweep {path} -q --no-cache --vary protocol={two} --vary duration=1ms,2ms"
        ),
        "tidegate reproduce --list".to_owned(),
        format!("tidegate run {path} --dry-run"),
    ];
    for line in lines {
        let Some(text) = terminal("80", &line) else { return };
        let least = if line.ends_with("--dry-run") { 2 } else { 11 };
        assert!(text.lines().count() >= least, "{line}: {text}");
        assert!(!text.lines().any(|line| is_wide(&line)), "{line}: {text}");
        // The row of a figure with many claims: ranges of claims take few lines.
        let rows = text.lines().filter(|row| row.starts_with("authors/powertcp-incast")).count();
        assert!(!line.ends_with("--list") || (rows == 2 && text.contains("incast.1-40")), "{text}");
    }
}

/// Messages on stderr, also if stdout is not the terminal.
#[test]
#[cfg(target_os = "linux")]
fn messages_fit_the_terminal() {
    let place = Place::usual();
    let path = place.arg("scenario.toml");
    let lines = [
        format!("tidegate run {path} -v"),
        format!("tidegate run {path} -v > {}", place.arg("table.txt")),
        format!("tidegate run {path} --set fabric.no_such_key=1"),
        format!("tidegate verify {}", place.arg("no-such-bundle-of-results.zip")),
    ];
    for line in lines {
        let Some(text) = terminal("80", &format!("NO_COLOR=1 {line}")) else { return };
        // Bars are drawn several times on the same line.
        let text = text.replace("\u{1b}[2K", "\n");
        assert!(text.lines().count() > 1, "{line}: {text}");
        assert!(!text.lines().any(|line| is_wide(&line)), "{line}: {text}");
    }
}

#[test]
#[cfg(target_os = "linux")]
fn colours_only_in_terminals() {
    let line = "tidegate run no-such-file.toml";
    let red = "\u{1b}[1m\u{1b}[31mtidegate:\u{1b}[0m";
    let Some(text) = terminal("80", line) else { return };
    assert!(text.contains(red), "{text:?}");
    let plain = [
        terminal("80", &format!("NO_COLOR=1 {line}")).unwrap(),
        answer(&["run", "no-such-file.toml"]).stderr,
    ];
    for text in plain {
        assert!(text.contains("tidegate: ") && !text.contains('\u{1b}'), "{text:?}");
    }
}
