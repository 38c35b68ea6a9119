//! Passes a hash of the sources that decide the results of a live run to the crate.

#[path = "../runs/sources.rs"]
mod sources;

/// Sources that determine these results, besides those of a simulated run.
const DECISIVE: [&str; 5] =
    ["../endpoint/src", "../switch/src", "src", "../kernel/src", "../kernel/bpf"];

fn main() {
    println!("cargo:rustc-env=TIDEGATE_LIVE_SOURCES={:016x}", sources::hash(&DECISIVE));
}
