//! Reads arbitrary text as a scenario: the result is a plan or an error, never a panic.
#![no_main]
libfuzzer_sys::fuzz_target!(|text: &str| {
    let _ = tidegate_scenario::load(text, "fuzz.toml", &[]);
});
