//! Passes a hash of the sources that decide the results of a run to the crate, and the compiler's
//! version.

mod sources;

use std::process::Command;

/// Sources that determine a run's results and observations: from scenarios to the engine and its
/// records.
const DECISIVE: [&str; 11] = [
    "../../Cargo.lock",
    "../core/src",
    "../algos/src",
    "../sim/src",
    "../scenario/src",
    "../scenario/presets",
    "../scenario/workloads",
    "../results/src",
    "src/fair_share.rs",
    "src/convert.rs",
    "src/observe",
];

fn main() {
    println!("cargo:rustc-env=TIDEGATE_SOURCES={:016x}", sources::hash(&DECISIVE));
    println!("cargo:rustc-env=TIDEGATE_COMPILER={}", compiler());
}

/// `rustc 1.95.0 (…)`
fn compiler() -> String {
    let rustc = std::env::var_os("RUSTC").expect("cargo sets it");
    let version = Command::new(rustc).arg("--version").output();
    version.map_or_else(
        |_| "unknown".to_owned(),
        |output| String::from_utf8_lossy(&output.stdout).trim().to_owned(),
    )
}
