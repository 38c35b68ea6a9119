//! Passes the git revision to a release build: `TIDEGATE_GIT_REVISION` if set, else the revision of
//! the checkout, else `unknown`. A development build has none, so a commit rebuilds nothing.

use std::path::Path;
use std::process::Command;

fn main() {
    println!("cargo:rerun-if-env-changed=TIDEGATE_GIT_REVISION");
    println!("cargo:rerun-if-changed=build.rs");
    let set = std::env::var("TIDEGATE_GIT_REVISION").ok();
    let is_release = std::env::var("PROFILE").is_ok_and(|profile| profile == "release");
    let revision = set.or_else(|| is_release.then(from_git).flatten());
    println!("cargo:rustc-env=TIDEGATE_GIT_REVISION={}", revision.as_deref().unwrap_or("unknown"));
}

fn from_git() -> Option<String> {
    // The log of HEAD changes with every commit and checkout. Cargo would rebuild each time for a
    // path that does not exist.
    let log = "../../.git/logs/HEAD";
    if Path::new(log).exists() {
        println!("cargo:rerun-if-changed={log}");
    }
    let output = Command::new("git").args(["rev-parse", "--short=12", "HEAD"]).output().ok()?;
    let revision = String::from_utf8(output.stdout).ok()?.trim().to_owned();
    (output.status.success() && !revision.is_empty()).then_some(revision)
}
