//! The top-level modules of a crate must not use each other in a cycle.
//!
//! The test reads paths that begin with `crate::` and a module's name. It does not follow names
//! that a crate's root re-exports, or macros.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

/// Modules of each crate that form a cycle today. A cycle that is broken must be removed here.
const KNOWN: &[(&str, &[&[&str]])] = &[("algos", &[&["contract", "documented", "windowed"]])];

/// For each module, the modules that it uses.
type Uses = BTreeMap<String, BTreeSet<String>>;

/// Adds `path`'s content to `text`, without comments and test modules.
fn read(path: &Path, text: &mut String) {
    if path.is_dir() {
        for entry in fs::read_dir(path).unwrap().flatten() {
            read(&entry.path(), text);
        }
    } else if path.extension().is_some_and(|ending| ending == "rs")
        && path.file_name().is_none_or(|name| name != "tests.rs")
    {
        text.push_str(&code(&fs::read_to_string(path).unwrap()));
    }
}

/// Source text without comments and `#[cfg(test)]` modules with a body, which end the file.
fn code(text: &str) -> String {
    let before_tests = text.split("#[cfg(test)]\nmod tests {").next().unwrap_or_default();
    let lines = before_tests.lines().map(|line| line.split("//").next().unwrap_or_default());
    lines.collect::<Vec<_>>().join("\n")
}

fn word(text: &str) -> &str {
    let is_of_word = |c: char| c.is_alphanumeric() || c == '_';
    &text[..text.find(|c| !is_of_word(c)).unwrap_or(text.len())]
}

/// First names of the paths in `code` that begin with `crate::`, including those in braces.
fn used(code: &str) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    for after in code.split("crate::").skip(1) {
        let Some(group) = after.strip_prefix('{') else {
            found.insert(word(after).to_owned());
            continue;
        };
        let mut depth = 0;
        let mut starts = true;
        for (i, c) in group.char_indices() {
            match c {
                '{' => depth += 1,
                '}' if depth == 0 => break,
                '}' => depth -= 1,
                ',' if depth == 0 => starts = true,
                c if starts && !c.is_whitespace() => {
                    found.insert(word(&group[i..]).to_owned());
                    starts = false;
                }
                _ => {}
            }
        }
    }
    found
}

/// For each top-level module of a crate, the modules that it uses.
fn uses(source: &Path) -> Uses {
    let mut texts: BTreeMap<String, String> = BTreeMap::new();
    for entry in fs::read_dir(source).unwrap().flatten() {
        let path = entry.path();
        let name = path.file_stem().unwrap().to_string_lossy().into_owned();
        let is_module = path.is_dir() || path.extension().is_some_and(|ending| ending == "rs");
        if is_module && !["lib", "main", "tests"].contains(&name.as_str()) {
            read(&path, texts.entry(name).or_default());
        }
    }
    let known: BTreeSet<String> = texts.keys().cloned().collect();
    let of = |(name, text): (String, String)| {
        let others = used(&text).into_iter().filter(|other| known.contains(other));
        let others = others.filter(|other| *other != name).collect();
        (name, others)
    };
    texts.into_iter().map(of).collect()
}

/// Modules that `from` reaches.
fn reached<'a>(uses: &'a Uses, from: &str) -> BTreeSet<&'a str> {
    let mut found = BTreeSet::new();
    let mut open = vec![from];
    while let Some(name) = open.pop() {
        for next in uses.get(name).into_iter().flatten() {
            if found.insert(next.as_str()) {
                open.push(next);
            }
        }
    }
    found
}

/// Groups of modules that reach each other, each sorted.
fn cycles(uses: &Uses) -> Vec<Vec<String>> {
    let reach: BTreeMap<&str, _> =
        uses.keys().map(|name| (name.as_str(), reached(uses, name))).collect();
    let mut groups = BTreeSet::new();
    for (&name, others) in &reach {
        let back = others.iter().filter(|other| reach[**other].contains(name));
        let group: Vec<String> = back.map(|other| (*other).to_owned()).collect();
        if !group.is_empty() {
            groups.insert(group);
        }
    }
    groups.into_iter().collect()
}

#[test]
fn modules_do_not_use_each_other_in_cycles() {
    let crates = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/.."));
    let mut found = Vec::new();
    for entry in fs::read_dir(crates).unwrap().flatten() {
        let source = entry.path().join("src");
        if source.is_dir() {
            let name = entry.file_name().into_string().unwrap();
            found.extend(cycles(&uses(&source)).into_iter().map(|group| (name.clone(), group)));
        }
    }
    let owned = |group: &&[&str]| group.iter().map(|&name| name.to_owned()).collect();
    let known = KNOWN.iter().flat_map(|(name, groups)| {
        groups.iter().map(move |group| ((*name).to_owned(), owned(group)))
    });
    let (mut known, mut found): (Vec<(String, Vec<String>)>, _) = (known.collect(), found);
    known.sort();
    found.sort();
    let new: Vec<_> = found.iter().filter(|cycle| !known.contains(cycle)).collect();
    let broken: Vec<_> = known.iter().filter(|cycle| !found.contains(cycle)).collect();
    assert!(new.is_empty(), "modules use each other in a cycle: {new:?}");
    assert!(broken.is_empty(), "no cycles any more; remove them from KNOWN: {broken:?}");
}

#[test]
fn cycles_are_found_in_all_forms_of_use() {
    let text =
        "use crate::a;\nuse crate::{b::{c, d}, e as f,\n g};\n// crate::h\nlet i = crate::j::k();
        \n#[cfg(test)]\nmod tests {\n use crate::l;\n}\n";
    let names: Vec<String> = used(&code(text)).into_iter().collect();
    assert_eq!(names, ["a", "b", "e", "g", "j"]);
    let uses = |pairs: &[(&str, &str)]| {
        let mut uses = Uses::new();
        for (from, to) in pairs {
            uses.entry((*to).to_owned()).or_default();
            uses.entry((*from).to_owned()).or_default().insert((*to).to_owned());
        }
        uses
    };
    assert!(cycles(&uses(&[("a", "b"), ("b", "c"), ("a", "c")])).is_empty());
    let found = cycles(&uses(&[("a", "b"), ("b", "c"), ("c", "a"), ("d", "a")]));
    assert_eq!(found, [["a", "b", "c"]]);
}
