//! Hash of everything that a run depends on.

use core::fmt::Write;

use sha2::{Digest, Sha256};
use tidegate_algos::Setup;
use tidegate_core::Span;

use crate::plan::Plan;

/// Number of bytes that are hashed at once.
const BLOCK: usize = 1 << 16;

/// Hashes in large blocks, because `Debug` writes a few bytes at a time.
#[derive(Default)]
struct Hasher {
    hash: Sha256,
    block: Vec<u8>,
}

impl Hasher {
    fn update(&mut self, bytes: &[u8]) {
        self.block.extend_from_slice(bytes);
        if self.block.len() >= BLOCK {
            self.hash.update(&self.block);
            self.block.clear();
        }
    }

    fn hexadecimal(mut self) -> String {
        self.hash.update(&self.block);
        self.hash.finalize().iter().map(|byte| format!("{byte:02x}")).collect()
    }
}

impl Write for Hasher {
    fn write_str(&mut self, text: &str) -> core::fmt::Result {
        self.update(text.as_bytes());
        Ok(())
    }
}

/// Returns the SHA-256, in hexadecimal, of a plan with every link, parameter and point of a
/// distribution, and the revisions of its protocols. Two plans with the same hash give the same
/// results under the same version of the engine.
pub fn content_hash(plan: &Plan) -> String {
    let mut hasher = Hasher::default();
    // Destructured, so that the compiler reports a new field. Warnings do not change a run, the
    // resolved file and `histograms` are derived from the other fields, and the content of files
    // is in the workload.
    let Plan { name, setup, labels, output, warnings: _, ineffective: _, resolved: _, files: _ } =
        plan;
    let Setup {
        fabric,
        routing,
        stacks,
        connections,
        bdp_bytes,
        workload,
        seed,
        duration,
        until_done,
        warmup,
        drain,
        weights,
        faults,
        convergence,
        stack_time,
        histograms: _,
    } = setup;
    let written = write!(
        hasher,
        "{:?}",
        (
            (name, seed, duration, warmup, drain, fabric, routing),
            (stacks, labels, connections, bdp_bytes, workload, faults, stack_time, output)
        )
    );
    debug_assert!(written.is_ok());
    // Hashed only if present, so that the hashes of plans without weights stay the same.
    if !weights.is_empty() {
        hasher.update(weights);
    }
    if *convergence > Span::ZERO {
        _ = write!(hasher, "{convergence:?}");
    }
    if *until_done {
        hasher.update(b"until done");
    }
    for info in stacks.iter().map(|stack| stack.protocol().info()).filter(|info| info.revision > 0)
    {
        _ = write!(hasher, "{} revision {}", info.name, info.revision);
    }
    hasher.hexadecimal()
}
