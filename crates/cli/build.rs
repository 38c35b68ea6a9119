//! Passes the git revision to the crate: `TIDEGATE_GIT_REVISION` if set, else the revision of the
//! checkout, else `unknown`. Only this crate is compiled again after a commit.

use std::path::Path;
use std::process::Command;

fn main() {
    println!("cargo:rerun-if-env-changed=TIDEGATE_GIT_REVISION");
    // The log of HEAD changes with every commit and checkout. Cargo would rebuild each time for a
    // path that does not exist.
    let log = "../../.git/logs/HEAD";
    println!("cargo:rerun-if-changed={}", if Path::new(log).exists() { log } else { "build.rs" });
    let revision = std::env::var("TIDEGATE_GIT_REVISION").ok().or_else(from_git);
    println!("cargo:rustc-env=TIDEGATE_GIT_REVISION={}", revision.as_deref().unwrap_or("unknown"));
}

fn from_git() -> Option<String> {
    let output = Command::new("git").args(["rev-parse", "--short=12", "HEAD"]).output().ok()?;
    let revision = String::from_utf8(output.stdout).ok()?.trim().to_owned();
    (output.status.success() && !revision.is_empty()).then_some(revision)
}
