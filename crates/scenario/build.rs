//! Generates the list of preset files, so that a new preset needs only a new file.

use std::fmt::Write;
use std::path::Path;

fn main() {
    let root = std::env::var("CARGO_MANIFEST_DIR").expect("cargo sets it");
    let mut code = String::new();
    for (list, folder, doc) in [
        ("FABRICS", "presets/fabrics", "Name and text of every fabric."),
        (
            "PROTOCOLS",
            "presets/protocols",
            "Name of a protocol and text of its presets, a table each.",
        ),
    ] {
        println!("cargo::rerun-if-changed={folder}");
        let files = std::fs::read_dir(Path::new(&root).join(folder))
            .expect("the folder is part of the crate");
        let mut files: Vec<_> = files.flatten().map(|entry| entry.path()).collect();
        files.sort();
        writeln!(code, "/// {doc}\npub(crate) static {list}: &[(&str, &str)] = &[")
            .expect("memory");
        for file in files
            .iter()
            .filter(|file| file.extension().is_some_and(|extension| extension == "toml"))
        {
            let stem = file.file_stem().expect("a file's name").to_string_lossy();
            writeln!(code, "    ({stem:?}, include_str!({file:?})),").expect("memory");
        }
        code += "];\n";
    }
    let out = std::env::var("OUT_DIR").expect("cargo sets it");
    std::fs::write(Path::new(&out).join("presets.rs"), code)
        .expect("the build folder can be written");
}
