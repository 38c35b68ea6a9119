//! `tidegate protocols`, `schema` and `completions`: commands without a scenario.

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
            for key in
                ["name", "kind", "unit", "default", "min", "max", "choices", "meaning", "source"]
            {
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
    for name in names.lines().filter_map(|line| line.split(' ').next()) {
        let path = folder.path().join("a.toml");
        std::fs::write(&path, answer(&["new", name]).ok()).unwrap();
        // Without a drain, messages may be cut off, which causes a warning.
        let short =
            ["--set", "duration=200us", "--set", "warmup=20us", "--set", "drain=100ms", "--json"];
        let run = answer(&[&["run", path.to_str().unwrap()][..], &short].concat());
        assert_eq!(run.stderr, "", "{name}: a warning");
        let summary = run.json();
        assert!(summary["engine"]["packet_hops"].as_u64() > Some(100), "{name}: {summary}");
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

/// `script` runs a program in a terminal; without `script`, the test passes.
#[test]
#[cfg(target_os = "linux")]
fn tables_fit_the_terminal() {
    let program = env!("CARGO_BIN_EXE_tidegate");
    let shown = |columns: &str| {
        let command = format!("{program} protocols; {program} protocols sird");
        let mut script = std::process::Command::new("script");
        script.args(["-qc", &command, "/dev/null"]).env("COLUMNS", columns);
        let output = script.stdin(std::process::Stdio::null()).output().ok()?;
        Some(String::from_utf8_lossy(&output.stdout).replace('\r', ""))
    };
    let Some(text) = shown("80") else { return };
    let is_wide = |line: &&str| line.chars().count() > 80;
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
