//! Sweeps through the facade: the number of cached runs.

use std::path::Path;

use tidegate_runs::{Axis, Design, Mode, Source, SweepOptions, missing_runs, protocols, sweep};

const SCENARIO: &str = r#"
duration = "100us"
warmup = "0us"
[fabric]
kind = "star"
hosts = 2
[transport]
protocol = "PROTOCOL"
[[traffic]]
kind = "poisson"
sizes = "10KB"
load = 0.3
"#;

fn design(loads: &str) -> Design {
    let text = SCENARIO.replace("PROTOCOL", protocols()[0].name);
    let axis = Axis::vary(&format!("traffic.0.load={loads}")).unwrap();
    Design::new(Source::Text(text), Vec::new(), (&[axis], Mode::Grid), None).unwrap()
}

/// Cached runs, all runs, and the numbers of the runs that were missing.
fn kept(loads: &str, cache: Option<&Path>) -> (usize, usize, Vec<usize>) {
    let (design, options) = (design(loads), SweepOptions { cache, ..SweepOptions::default() });
    let missing = missing_runs(&design, &options).unwrap();
    let swept = sweep(&design, &options).unwrap();
    assert!(swept.failed.is_empty());
    (swept.kept, swept.count(), missing)
}

#[test]
fn a_sweep_counts_cached_runs() {
    let cache = tempfile::tempdir().unwrap();
    let folder = Some(cache.path());
    assert_eq!(kept("0.2,0.3", folder), (0, 2, vec![0, 1]));
    assert_eq!(kept("0.2,0.3", folder), (2, 2, vec![]));
    assert_eq!(kept("0.1,0.2,0.3,0.4,0.5", folder), (2, 5, vec![0, 3, 4]));
    assert_eq!(kept("0.2,0.3", None), (0, 2, vec![0, 1]));
}
