//! Any text as a scenario: a plan or an error, never a panic.
#![no_main]
libfuzzer_sys::fuzz_target!(|text: &str| {
    let _ = tidegate_scenario::load(text, "fuzz.toml", &[]);
});
