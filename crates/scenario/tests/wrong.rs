//! Invalid scenarios and their errors: see `wrong.txt`.
#![allow(missing_docs)]

use crate::common::{GRAPH, RACKS, beside, patched};
use tidegate_algos::Protocol;
use tidegate_scenario::{Override, load, load_file};

/// Returns the error about a scenario with `out` replaced by `into`; in the last section, with
/// `--set into`.
fn message(section: &str, out: &str, into: &str) -> String {
    let case = format!("{section}: {out:?} replaced by {into:?}");
    let result = match section {
        "## The scenario of three hosts" => {
            load(&patched(GRAPH, out, into), &beside("x.toml"), &[])
        }
        "## The scenario of racks" => load(&patched(RACKS, out, into), &beside("x.toml"), &[]),
        _ => Override::set(into).and_then(|change| load(GRAPH, &beside("x.toml"), &[change])),
    };
    general(result.expect_err(&case).to_string().replace(&beside(""), ""))
}

/// Replaces the lists that grow with the catalog by placeholders.
fn general(mut message: String) -> String {
    let one_of = |names: Vec<&str>| format!("{:?}", names).trim_matches(['[', ']']).to_string();
    let mut lists =
        vec![("<protocols>".to_string(), Protocol::ALL.iter().map(|p| p.info().name).collect())];
    for protocol in Protocol::ALL {
        let names: Vec<&str> = protocol.table().iter().map(|info| info.name).collect();
        lists.push((format!("<parameters of {}>", protocol.info().name), names));
    }
    for (name, names) in lists.into_iter().filter(|(_, names)| names.len() > 1) {
        let list = one_of(names);
        let (most, last) = list.rsplit_once(", ").unwrap();
        message = message.replace(&format!("{most} or {last}"), &name);
    }
    message
}

#[test]
fn invalid_scenarios_give_recorded_errors() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/wrong.txt");
    let text = std::fs::read_to_string(path).unwrap();
    let (mut section, mut out, mut into) = ("", Vec::new(), Vec::new());
    let (mut now, mut cases) = (String::new(), 0);
    for line in text.lines() {
        match line.split_at_checked(2) {
            Some(("- ", rest)) => out.push(rest),
            Some(("+ ", rest)) => into.push(rest),
            Some(("= ", _)) => {
                now += &format!("= {}\n", message(section, &out.join("\n"), &into.join("\n")));
                (out, into) = (Vec::new(), Vec::new());
                cases += 1;
                continue;
            }
            Some(("##", _)) => section = line,
            _ => {}
        }
        now += line;
        now += "\n";
    }
    if std::env::var_os("UPDATE").is_some() {
        std::fs::write(path, &now).unwrap();
    }
    for (ours, expected) in now.lines().zip(text.lines()) {
        assert_eq!(ours, expected);
    }
    assert!(cases > 150, "{cases}");
}

#[test]
fn unreadable_files_give_errors() {
    let shown = |name: &str| load_file(beside(name).as_ref(), &[]).expect_err(name).to_string();
    assert_eq!(
        shown("latin.toml"),
        format!(
            "{}:1: found bytes that are not UTF-8, expected text in UTF-8",
            beside("latin.toml")
        )
    );
    assert!(shown("nowhere.toml").contains("nowhere.toml: found no such file"));
    assert!(shown("").contains("expected a scenario file"));
}
