//! Metadata for people who do not know the project: manifests inherit it, published crates use only
//! published crates, and all files have the same version and address (`docs/releasing.md`).

use std::fs;
use std::path::{Path, PathBuf};

/// Crates for other programs. All others are parts of the program.
const PUBLISHED: [&str; 5] = ["core", "algos", "sim", "switch", "endpoint"];

/// Keys of `[workspace.package]` that every crate inherits.
const INHERITED: [&str; 8] = [
    "version",
    "edition",
    "rust-version",
    "license",
    "authors",
    "repository",
    "keywords",
    "categories",
];

/// The crate with programs for the Linux kernel contains code under the GPL.
const KERNEL_LICENSE: &str = r#"license = "(MIT OR Apache-2.0) AND GPL-2.0-only""#;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn text(name: &str) -> String {
    fs::read_to_string(root().join(name)).unwrap_or_else(|error| panic!("{name}: {error}"))
}

/// Names and manifests of all crates.
fn manifests() -> Vec<(String, String)> {
    let folders = fs::read_dir(root().join("crates")).unwrap();
    let names = folders.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    names.map(|name| (name.clone(), text(&format!("crates/{name}/Cargo.toml")))).collect()
}

/// Lines of a section of a TOML file.
fn section<'a>(text: &'a str, name: &str) -> impl Iterator<Item = &'a str> {
    let start = format!("[{name}]");
    let lines = text.lines().skip_while(move |line| *line != start).skip(1);
    lines.take_while(|line| !line.starts_with('['))
}

/// The value of a key whose line is `key = "value"` or `key: "value"`.
fn value<'a>(mut lines: impl Iterator<Item = &'a str>, key: &str) -> &'a str {
    let is_key = |line: &&str| line.starts_with(key) && line[key.len()..].starts_with([' ', ':']);
    let line = lines.find(is_key).unwrap_or_else(|| panic!("no key {key}"));
    line[key.len()..].trim_start_matches([' ', '=', ':']).trim_matches('"')
}

/// Archives of crates contain only files of their folders: links to the licences of the project.
#[test]
fn published_crates_have_the_licences() {
    for (name, licence) in PUBLISHED
        .iter()
        .flat_map(|name| ["LICENSE-APACHE", "LICENSE-MIT"].map(|licence| (name, licence)))
    {
        assert!(text(&format!("crates/{name}/{licence}")) == text(licence), "{name}: {licence}");
    }
}

/// The registry shows this file. Documentation tests compile its example.
#[test]
fn published_crates_have_a_readme() {
    let shared = text("Cargo.toml");
    let address = value(section(&shared, "workspace.package"), "repository");
    for name in PUBLISHED {
        let readme = text(&format!("crates/{name}/README.md"));
        assert!(readme.starts_with(&format!("# tidegate-{name}\n")), "{name}");
        assert!(readme.contains(&format!("[tidegate]({address})")), "{name}: {address}");
        let include = "#[doc = include_str!(\"../README.md\")]\nstruct Readme;";
        assert!(readme.contains("```rust"), "{name}");
        assert!(text(&format!("crates/{name}/src/lib.rs")).contains(include), "{name}");
    }
}

#[test]
fn crates_inherit_their_metadata() {
    let shared = text("Cargo.toml");
    for key in INHERITED {
        assert!(!value(section(&shared, "workspace.package"), key).is_empty(), "{key}");
    }
    for (name, manifest) in manifests() {
        let package: Vec<&str> = section(&manifest, "package").collect();
        for key in INHERITED {
            let line = match (name.as_str(), key) {
                ("kernel", "license") => KERNEL_LICENSE.to_owned(),
                _ => format!("{key}.workspace = true"),
            };
            assert!(package.contains(&line.as_str()), "{name}: {line} is missing");
        }
        assert!(value(package.into_iter(), "description").len() > 20, "{name}");
    }
}

#[test]
fn published_crates_need_only_published_ones() {
    let shared = text("Cargo.toml");
    let version = value(section(&shared, "workspace.package"), "version");
    for (name, manifest) in manifests() {
        let is_published = PUBLISHED.contains(&name.as_str());
        let is_private = section(&manifest, "package").any(|line| line == "publish = false");
        assert!(is_published != is_private, "{name}: either published, or `publish = false`");
        let path = format!("path = \"crates/{name}\"");
        let expected = if is_published {
            format!("tidegate-{name} = {{ {path}, version = \"{version}\" }}")
        } else {
            format!("tidegate-{name} = {{ {path} }}")
        };
        let line = section(&shared, "workspace.dependencies").find(|line| line.contains(&path));
        assert!(name == "python" || line == Some(&expected), "{name}: {line:?}");
        let used = section(&manifest, "dependencies")
            .filter_map(|line| line.strip_prefix("tidegate-")?.split('.').next());
        for used in used.filter(|_| is_published) {
            assert!(PUBLISHED.contains(&used), "{name} is published and uses {used}, which is not");
        }
        // Cargo omits a test's dependency without a version, so a crate may use itself in tests.
        let own = format!("tidegate-{name} = ");
        let mut tests = section(&manifest, "dev-dependencies");
        if let Some(line) = tests.find(|line| line.starts_with(&own)) {
            assert!(line.contains("path = \".\""), "{name} is published before itself: {line}");
        }
    }
}

#[test]
fn versions_and_addresses_are_the_same() {
    let (shared, python, citation) =
        (text("Cargo.toml"), text("pyproject.toml"), text("CITATION.cff"));
    let package = || section(&shared, "workspace.package");
    assert_eq!(value(citation.lines(), "version"), value(package(), "version"));
    assert!(python.contains("\ndynamic = [\"version\"]\n"), "maturin takes it from Cargo.toml");
    let address = value(package(), "repository");
    assert_eq!(value(citation.lines(), "repository-code"), address);
    for line in section(&python, "project.urls").filter(|line| line.contains('=')) {
        assert!(line.contains(address), "pyproject.toml: {line}");
    }
    if address == "https://example.org/tidegate" {
        assert!(text("docs/releasing.md").contains(address), "the placeholder is not documented");
    }
}

/// The date of a release is unknown before the release, and then the same in both files.
#[test]
fn changelog_and_citation_have_the_same_date() {
    let (changelog, citation) = (text("CHANGELOG.md"), text("CITATION.cff"));
    let heading = format!("\n## [{}] - ", value(citation.lines(), "version"));
    let (_, rest) = changelog.split_once(&heading).unwrap_or_else(|| panic!("no {heading}"));
    let date = rest.lines().next().unwrap();
    let released = citation.lines().find_map(|line| line.strip_prefix("date-released: "));
    assert_eq!(released.unwrap_or("unreleased").trim_matches('"'), date, "docs/releasing.md");
    let is_second = changelog.contains("\n## [Unreleased]\n");
    assert!(!is_second || date != "unreleased", "two sections of the changelog are unreleased");
}

/// The source distribution for Python contains the crates that the extension uses. These are needed
/// besides: without the scenarios `reproduce` has no figures, without the manifest cargo stops.
#[test]
fn source_distribution_is_complete() {
    let python = text("pyproject.toml");
    for path in ["scenarios/**/*", "crates/mpi/**/*"] {
        let line = format!("  {{ path = \"{path}\", format = \"sdist\" }},");
        assert!(python.lines().any(|other| other == line), "pyproject.toml does not have {line}");
    }
}

#[test]
fn workflows_call_the_same_commands_as_a_clone() {
    let oldest = text("Cargo.toml");
    let oldest = value(section(&oldest, "workspace.package"), "rust-version");
    for (workflow, command) in [("ci", ".ci/run"), ("release", "make dist")] {
        let workflow = text(&format!(".github/workflows/{workflow}.yml"));
        let run = format!("run: {command}");
        assert!(workflow.lines().any(|line| line.trim_start_matches([' ', '-']) == run), "{run}");
        assert!(workflow.contains(&format!("image: rust:{oldest}-")), "not compiler {oldest}");
    }
    // Between releases, the files of a release are built and tested every week.
    let release = text(".github/workflows/release.yml");
    assert!(release.contains("\n  schedule:\n    - cron: "));
    assert!(release.contains("run: python3 scripts/test_dist.py --twice\n"));
}
