//! Crates list their test programs, because each takes seconds to link. Every file of tests is a
//! module of one of them, so none is left out.

use std::fs;
use std::path::Path;

#[test]
fn every_file_of_tests_is_in_a_program() {
    let crates = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/.."));
    for folder in fs::read_dir(crates).unwrap().flatten().map(|entry| entry.path()) {
        let manifest = fs::read_to_string(folder.join("Cargo.toml")).unwrap();
        let Ok(entries) = fs::read_dir(folder.join("tests")) else { continue };
        if !manifest.contains("autotests = false") {
            continue;
        }
        let listed = manifest.split("[[test]]\nname = \"").skip(1);
        let programs: Vec<&str> = listed.filter_map(|rest| rest.split('"').next()).collect();
        let text = |name: &&str| {
            let path = folder.join("tests").join(name).with_extension("rs");
            fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
        };
        let texts: Vec<String> = programs.iter().map(text).collect();
        for path in entries.flatten().map(|entry| entry.path()) {
            // A folder without tests has helpers, of tests or of the crate.
            let folder = fs::read_to_string(path.join("mod.rs")).unwrap_or_default();
            let has_tests = folder.contains("#[test]") || path.extension() == Some("rs".as_ref());
            let name = path.file_stem().unwrap().to_str().unwrap();
            let declared = texts.iter().any(|text| text.contains(&format!("mod {name};\n")));
            assert!(
                !has_tests || programs.contains(&name) || declared,
                "{}: add `mod {name};` to a test program of the crate",
                path.display()
            );
        }
    }
}
