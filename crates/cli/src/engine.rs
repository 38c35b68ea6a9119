//! The last line of a run: its cost.

use tidegate_workbench::results::Engine;

use crate::format::bytes;

/// How many threads were available to a run, and why it may use fewer.
#[derive(Clone, Copy)]
pub(crate) enum Threads {
    Of(usize, &'static str),
    /// Other runs or processes shared them.
    Unknown,
}

/// The cost of a run. Processor time is shown if the run used several threads and no other run
/// shared the process.
pub(crate) fn engine_line(engine: &Engine, threads: Threads) -> String {
    let took = match (engine.threads, threads) {
        (1, Threads::Of(1, _) | Threads::Unknown) => String::new(),
        (some, Threads::Of(all, why)) if some < all => {
            let thread = if some == 1 { "thread" } else { "threads" };
            format!(", {some} {thread} of {all}: {why}")
        }
        (some, _) => format!(", {some} threads"),
    };
    let cpu = match (engine.threads, threads) {
        (2.., Threads::Of(..)) => format!(", {:.2} CPU s", engine.cpu_seconds),
        _ => String::new(),
    };
    format!(
        "{:.3} M packet-hops in {:.2} s ({:.1} M/s){cpu}{took}, {} of memory, digest {}\n",
        engine.packet_hops as f64 / 1e6,
        engine.wall_seconds,
        engine.packet_hops_per_second.unwrap_or(0.0) / 1e6,
        bytes(engine.peak_rss_bytes.map(|bytes| bytes as f64)),
        engine.digest,
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn engine_line_threads_and_processor_time() {
        let line = |worked: usize, threads: Threads| {
            let engine = Engine {
                digest: "0".repeat(16),
                packet_hops: 3_000_000,
                wall_seconds: 2.0,
                cpu_seconds: 3.5,
                events: 0,
                packet_hops_per_second: Some(1.5e6),
                threads: worked,
                peak_rss_bytes: None,
            };
            engine_line(&engine, threads)
        };
        let small = |all| Threads::Of(all, "more would hardly be faster");
        for (worked, threads, expected) in [
            (1, small(1), "(1.5 M/s), - of memory"),
            (2, small(2), "(1.5 M/s), 3.50 CPU s, 2 threads, - of memory"),
            (1, small(2), "1 thread of 2: more would hardly be faster, - of memory"),
            (2, small(4), "3.50 CPU s, 2 threads of 4: more would hardly be faster, -"),
            // The processor time of the process includes that of other runs.
            (2, Threads::Unknown, "(1.5 M/s), 2 threads, - of memory"),
            (1, Threads::Unknown, "(1.5 M/s), - of memory"),
        ] {
            assert!(line(worked, threads).contains(expected), "{}", line(worked, threads));
        }
    }
}
