//! The modules of a folder must not use each other in a cycle.
//!
//! The test reads paths that begin with `crate::` or `super::` and lead to a module of the folder,
//! also through a name that the folder's own module imports from it. It does not follow
//!
//! * names that a module further up re-exports,
//! * names that globs import or re-export, also by `super::*`,
//! * names that the folder's own module imports by way of another name of its own,
//! * paths whose prefix is split by a brace, such as `crate::{a::b}` for the folder `a`,
//! * macros.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use crate::sources::{crates, unquoted};

/// For each module, the modules of its folder that it uses.
type Uses = BTreeMap<String, BTreeSet<String>>;

/// Adds to `found` what the sources at `path` name after `prefix`, and after `supers` times
/// `super::`.
fn read(path: &Path, prefix: &str, supers: usize, found: &mut BTreeSet<String>) {
    let name = path.file_name().unwrap_or_default();
    if path.is_dir() {
        let entries = fs::read_dir(path).unwrap().flatten();
        for entry in entries.filter(|entry| entry.file_name() != "tests") {
            // The module of a folder is in the folder or beside it.
            let is_own = entry.file_name() == "mod.rs";
            read(&entry.path(), prefix, supers + usize::from(!is_own), found);
        }
    } else if name != "tests.rs" && path.extension().is_some_and(|ending| ending == "rs") {
        let code = unquoted(&fs::read_to_string(path).unwrap());
        found.extend(used(&code, prefix));
        found.extend(used(&code, &"super::".repeat(supers)));
    }
}

fn word(text: &str) -> &str {
    let is_of_word = |c: char| c.is_alphanumeric() || c == '_';
    &text[..text.find(|c| !is_of_word(c)).unwrap_or(text.len())]
}

/// First names of the paths in `code` that begin with `prefix`, including those in braces.
fn used(code: &str, prefix: &str) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    for (at, _) in code.match_indices(prefix) {
        if code[..at].ends_with("::") {
            continue;
        }
        let after = &code[at + prefix.len()..];
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

/// Splits `text` at the commas that are outside braces.
fn branches(text: &str) -> Vec<&str> {
    let mut depth = 0;
    let is_comma = |c: char| {
        depth += i32::from(c == '{') - i32::from(c == '}');
        c == ',' && depth == 0
    };
    text.split(is_comma).map(str::trim).filter(|branch| !branch.is_empty()).collect()
}

/// Imported names, each with the modules that it leads to.
type Imports = BTreeMap<String, BTreeSet<String>>;

/// The first name of a path that leads into the folder at `prefix`. The path is without names for
/// the folder or starts with `self`, or it starts with `prefix`.
fn first<'a>(path: &'a str, prefix: &str) -> &'a str {
    let inside = match path.strip_prefix("self::") {
        Some(inside) => inside,
        None if path.starts_with("crate::") => path.strip_prefix(prefix).unwrap_or_default(),
        None => path,
    };
    word(inside)
}

/// Adds the names that the tree of a `use` declaration imports; `before` is the path before it.
fn add_imports(tree: &str, before: &str, prefix: &str, found: &mut Imports) {
    let tree = tree.trim();
    if let Some(group) = tree.strip_prefix('{') {
        for branch in branches(group.trim_end().strip_suffix('}').unwrap_or(group)) {
            add_imports(branch, before, prefix, found);
        }
    } else if let Some((name, rest)) = tree.split_once("::") {
        add_imports(rest, &format!("{before}{name}::"), prefix, found);
    } else {
        let (end, renamed) = match tree.split_once(" as ") {
            Some((end, name)) => (end.trim(), Some(name.trim())),
            None => (tree, None),
        };
        let path = match end {
            "self" => before.trim_end_matches(':').to_owned(),
            end => format!("{before}{end}"),
        };
        let name = renamed.or(path.rsplit("::").next()).unwrap_or_default();
        let leads_to = first(&path, prefix).to_owned();
        found.entry(name.to_owned()).or_default().insert(leads_to);
    }
}

/// Names that the module of the folder at `prefix` imports.
fn imports(code: &str, prefix: &str) -> Imports {
    let mut found = Imports::new();
    for statement in code.split(';') {
        let begins = |&(at, _): &(usize, &str)| {
            let line = statement[..at].rsplit('\n').next().unwrap_or_default().trim_start();
            line.is_empty() || line.starts_with("pub") && line.ends_with([' ', ')'])
        };
        if let Some((at, start)) = statement.match_indices("use ").find(begins) {
            add_imports(&statement[at + start.len()..], "", prefix, &mut found);
        }
    }
    found
}

/// Code of the own module of `folder`: in it or beside it.
fn own_module(folder: &Path) -> String {
    let inside = ["lib.rs", "main.rs", "mod.rs"].map(|name| folder.join(name));
    let own = inside.into_iter().chain([folder.with_extension("rs")]).find(|path| path.is_file());
    own.map(|path| unquoted(&fs::read_to_string(path).unwrap())).unwrap_or_default()
}

/// For each module of a folder, the others that it uses. `prefix` is the path of the folder.
fn uses(folder: &Path, prefix: &str) -> Uses {
    let imported = imports(&own_module(folder), prefix);
    let mut uses = Uses::new();
    for entry in fs::read_dir(folder).unwrap().flatten() {
        let path = entry.path();
        let name = path.file_stem().unwrap().to_string_lossy().into_owned();
        let is_module = path.is_dir() || path.extension().is_some_and(|ending| ending == "rs");
        if is_module && !["lib", "main", "mod", "tests"].contains(&name.as_str()) {
            read(&path, prefix, 1, uses.entry(name).or_default());
        }
    }
    let known: BTreeSet<String> = uses.keys().cloned().collect();
    for (name, others) in &mut uses {
        let through: Vec<_> =
            others.iter().filter_map(|other| imported.get(other)).flatten().collect();
        others.extend(through.into_iter().cloned().collect::<Vec<_>>());
        others.retain(|other| other != name && known.contains(other));
    }
    uses
}

/// Adds the cycles of `folder` and the folders in it, each with its folder.
fn all_cycles(folder: &Path, name: &str, prefix: &str, found: &mut Vec<(String, Vec<String>)>) {
    let groups = cycles(&uses(folder, prefix)).into_iter();
    found.extend(groups.map(|group| (name.to_owned(), group)));
    for entry in fs::read_dir(folder).unwrap().flatten().filter(|entry| entry.path().is_dir()) {
        let inner = entry.file_name().into_string().unwrap();
        let (name, prefix) = (format!("{name}/{inner}"), format!("{prefix}{inner}::"));
        all_cycles(&entry.path(), &name, &prefix, found);
    }
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
    let mut found = Vec::new();
    for entry in fs::read_dir(crates()).unwrap().flatten() {
        let source = entry.path().join("src");
        if source.is_dir() {
            all_cycles(&source, &entry.file_name().into_string().unwrap(), "crate::", &mut found);
        }
    }
    assert!(found.is_empty(), "modules use each other in a cycle: {found:?}");
}

#[test]
fn imports_lead_to_modules_of_the_folder() {
    let of = |text: &str, prefix: &str| -> Vec<(String, String)> {
        let found = imports(&unquoted(text), prefix).into_iter();
        found.flat_map(|(name, to)| to.into_iter().map(move |to| (name.clone(), to))).collect()
    };
    let pairs = |all: &[(&str, &str)]| -> Vec<(String, String)> {
        all.iter().map(|&(name, to)| (name.to_owned(), to.to_owned())).collect()
    };
    let text = "pub use a::{B, c::{self, D as E},\n f::*};\nuse self::g::H;\nuse std::io;\nlet i;";
    let expected = [("*", "a"), ("B", "a"), ("E", "a"), ("H", "g"), ("c", "a"), ("io", "std")];
    assert_eq!(of(text, "crate::"), pairs(&expected));
    // The folder's own path, and a module of the same name elsewhere.
    let text = "use crate::a::b::X;\npub(crate) use crate::a::{c::Y, Z};\nuse crate::b::W;\n";
    let expected = [("W", ""), ("X", "b"), ("Y", "c"), ("Z", "Z")];
    assert_eq!(of(text, "crate::a::"), pairs(&expected));
    let expected = [("W", "b"), ("X", "a"), ("Y", "a"), ("Z", "a")];
    assert_eq!(of(text, "crate::"), pairs(&expected));
    // A name that ends with "use", two names under `cfg`, and a module under another name.
    let text = "use a::{\n x_use as y};\n#[cfg(b)]\nuse b::I;\n#[cfg(not(b))]\nuse c::I;\nlet d;
        use self::e as f;";
    let expected = [("I", "b"), ("I", "c"), ("f", "e"), ("y", "a")];
    assert_eq!(of(text, "crate::"), pairs(&expected));
}

#[test]
fn cycles_are_found_in_all_forms_of_use() {
    let text =
        "use crate::a;\nuse crate::{b::{c, d}, e as f,\n g};\n// crate::h\nlet i = crate::j::k();
        \n#[cfg(test)]\nuse crate::l;\n#[cfg(test)]\npub(crate) mod tests {\n use crate::m;\n}\n";
    let names: Vec<String> = used(&unquoted(text), "crate::").into_iter().collect();
    assert_eq!(names, ["a", "b", "e", "g", "j", "l"]);
    let text = "use super::a;\nuse super::super::{b, c::d};\nuse crate::e::{f, g};\n";
    let of = |prefix| used(text, prefix).into_iter().collect::<Vec<_>>();
    assert_eq!(of("super::"), ["a", "super"]);
    assert_eq!(of("super::super::"), ["b", "c"]);
    assert_eq!(of("crate::e::"), ["f", "g"]);
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
