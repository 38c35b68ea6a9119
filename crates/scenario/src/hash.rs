//! One number for everything that a run depends on.

use core::fmt::Write;

use sha2::{Digest, Sha256};

use crate::plan::Plan;

struct Hasher(Sha256);

impl Write for Hasher {
    fn write_str(&mut self, text: &str) -> core::fmt::Result {
        self.0.update(text.as_bytes());
        Ok(())
    }
}

/// SHA-256, in hexadecimal, of everything that a plan says, down to each link, parameter and point
/// of a distribution: two plans with the same hash give the same results under the same version of
/// the engine.
pub fn content_hash(plan: &Plan) -> String {
    let mut hasher = Hasher(Sha256::new());
    // Field by field, so that a new one cannot be forgotten. Warnings do not change a run, and the
    // resolved file says the same in other words.
    let Plan {
        name,
        seed,
        duration,
        until_done,
        warmup,
        drain,
        fabric,
        routing,
        stacks,
        labels,
        weights,
        connections,
        bdp_bytes,
        workload,
        faults,
        stack_time,
        output,
        warnings: _,
        resolved: _,
    } = plan;
    let written = write!(
        hasher,
        "{:?}",
        (
            (name, seed, duration, warmup, drain, fabric, routing),
            (stacks, labels, connections, bdp_bytes, workload, faults, stack_time, output)
        )
    );
    debug_assert!(written.is_ok());
    // What few plans have leaves the hash of others as it was.
    if !weights.is_empty() {
        hasher.0.update(weights);
    }
    if *until_done {
        hasher.0.update("until done");
    }
    hasher.0.finalize().iter().map(|byte| format!("{byte:02x}")).collect()
}
