//! The site builds, contains every document, and has no broken links.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..").canonicalize().unwrap()
}

/// All files below a folder whose names end in `ending`.
fn files(folder: &Path, ending: &str) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            found.extend(files(&path, ending));
        } else if path.to_string_lossy().ends_with(ending) {
            found.push(path);
        }
    }
    found
}

/// The values of an attribute in a page.
fn values<'a>(page: &'a str, attribute: &str) -> Vec<&'a str> {
    let start = format!(" {attribute}=\"");
    page.split(&start).skip(1).map(|rest| rest.split('"').next().unwrap()).collect()
}

#[test]
fn links_are_not_broken() {
    let out = tempfile::tempdir().unwrap();
    tidegate_book::build(&root(), out.path()).unwrap();
    // The error page is served at any path, so its links begin at the site's root.
    let pages: BTreeMap<PathBuf, String> = files(out.path(), ".html")
        .into_iter()
        .filter(|path| !path.ends_with("404.html"))
        .map(|path| (path.canonicalize().unwrap(), fs::read_to_string(path).unwrap()))
        .collect();
    let anchors: BTreeMap<&PathBuf, BTreeSet<&str>> =
        pages.iter().map(|(path, page)| (path, values(page, "id").into_iter().collect())).collect();
    let mut checked = 0;
    let mut broken = Vec::new();
    for (path, page) in &pages {
        for link in [values(page, "href"), values(page, "src")].concat() {
            if link.contains(':') {
                continue;
            }
            let (file, anchor) = link.split_once('#').unwrap_or((link, ""));
            let target = if file.is_empty() { path } else { &path.parent().unwrap().join(file) };
            let found = target.canonicalize().is_ok_and(|target| {
                anchor.is_empty() || anchors.get(&target).is_some_and(|all| all.contains(anchor))
            });
            checked += 1;
            if !found {
                broken.push(format!("{}: {link}", path.display()));
            }
        }
    }
    assert!(broken.is_empty(), "{}", broken.join("\n"));
    assert!(pages.len() > 30 && checked > 1000, "{} pages, {checked} links", pages.len());
    // Each figure of the gallery leads to the text of its scenarios.
    let place = |name: &str| out.path().join(name).canonicalize().unwrap();
    let scenarios: Vec<&str> = values(&pages[&place("papers/gallery.html")], "href")
        .into_iter()
        .filter(|link| link.starts_with("../files/scenarios/"))
        .collect();
    assert!(scenarios.len() > 50, "{scenarios:?}");
    for link in scenarios {
        let page = &pages[&place(&link.replace("../", ""))];
        assert!(page.contains("[transport]"), "{link} shows no scenario");
    }
}

/// The test of links checks that the files exist.
#[test]
fn pictures_are_used_small_and_follow_the_scheme() {
    let docs = root().join("docs");
    let start = fs::read_to_string(root().join("README.md")).unwrap();
    let pages = files(&docs, ".md").into_iter().map(|path| fs::read_to_string(path).unwrap());
    let text: String = pages.chain([start]).collect();
    let pictures = files(&docs.join("pictures"), ".svg");
    assert!(pictures.len() > 2, "{pictures:?}");
    for path in pictures {
        let name = path.strip_prefix(&docs).unwrap().to_string_lossy();
        assert!(text.contains(&format!("{name})")), "no page shows docs/{name}");
        let picture = fs::read_to_string(&path).unwrap();
        assert!(picture.len() < 60_000, "docs/{name} is too large");
        assert!(picture.contains("prefers-color-scheme:dark"), "docs/{name} is only light");
    }
}

/// On narrow screens, the style of the site selects pictures that are as wide as the page by parts
/// of their names.
#[test]
fn pictures_without_a_size_are_legible_on_phones() {
    let docs = root().join("docs");
    let style = fs::read_to_string(docs.join("book.css")).unwrap();
    let parts = ["pictures/", "-figure-"];
    assert!(parts.iter().all(|part| style.contains(&format!("[src*=\"{part}\"]"))), "{style}");
    for path in files(&docs, ".svg") {
        let picture = fs::read_to_string(&path).unwrap();
        let has_size = picture.split('>').next().unwrap().contains(" width=");
        let name = path.to_string_lossy();
        assert!(has_size || parts.iter().any(|part| name.contains(part)), "{name} has no size");
    }
}

#[test]
fn documents_are_in_the_summary() {
    let docs = root().join("docs");
    let summary = fs::read_to_string(docs.join("SUMMARY.md")).unwrap();
    for path in files(&docs, ".md") {
        let name = path.strip_prefix(&docs).unwrap().to_string_lossy();
        let is_listed = name == "SUMMARY.md" || summary.contains(&format!("]({name})"));
        assert!(is_listed, "docs/SUMMARY.md does not list {name}");
    }
}
