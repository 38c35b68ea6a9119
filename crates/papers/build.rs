//! Embeds every file of the scenarios and of the registry of papers in a release build. A
//! development build reads them when it runs.

use std::fmt::Write;
use std::fs;
use std::path::Path;

#[path = "src/reproduce/registry/folders.rs"]
mod folders;

fn main() {
    println!("cargo::rustc-check-cfg=cfg(embedded)");
    println!("cargo::rerun-if-changed=build.rs");
    if std::env::var("PROFILE").is_ok_and(|profile| profile == "release") {
        println!("cargo::rustc-cfg=embedded");
        // Cargo looks for changes in all files of these folders.
        println!("cargo::rerun-if-changed=../../scenarios");
        println!("cargo::rerun-if-changed=src/reproduce");
        embed();
    }
}

fn embed() {
    let root = Path::new(".");
    let text =
        table("SCENARIOS", "Every scenario as folder/name, and its text", folders::scenarios(root))
            + &table(
                "REGISTRY",
                "Every file of the registry as paper/name, and its text",
                folders::registry(root),
            )
            + &table(
                "RECORDS",
                "Recorded values of claims under every alternative: a paper's name, and JSON",
                folders::records(root),
            );
    let out = std::env::var("OUT_DIR").expect("cargo sets it");
    fs::write(Path::new(&out).join("embedded.rs"), text).expect("OUT_DIR can be written");
}

fn table(name: &str, doc: &str, files: folders::Listed) -> String {
    let mut text = format!("/// {doc}.\npub(crate) static {name}: &[(&str, &str)] = &[\n");
    for (name, path) in files {
        let path = fs::canonicalize(path).expect("it was listed just now");
        writeln!(text, "    ({name:?}, include_str!({:?})),", path.display().to_string())
            .expect("memory");
    }
    text + "];\n"
}
