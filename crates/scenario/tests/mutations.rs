//! Mutated files: loading any file gives a plan or an error, and never panics.
#![allow(missing_docs)]

use crate::common::{GRAPH, RACKS, beside, mutated, pick};
use tidegate_core::{Domain, Rng};
use tidegate_scenario::{Override, load};

#[test]
fn broken_files_never_panic() {
    let mut rng = Rng::stream(1, Domain::Faults, 0);
    let (mut good, mut bad) = (0, 0);
    for round in 0..20_000 {
        let text = mutated(&mut rng, if round % 2 == 0 { GRAPH } else { RACKS });
        match load(&text, &beside("x.toml"), &[]) {
            Ok(_) => good += 1,
            Err(error) => {
                bad += 1;
                let shown = error.to_string();
                assert!(!error.expected.is_empty() && !error.found.is_empty(), "{shown}\n{text}");
                assert!(
                    !shown.starts_with("default") && !shown.contains("preset poseidon-clos:"),
                    "{shown}\n{text}"
                );
                assert!(shown.lines().count() == 1, "{shown}\n{text}");
            }
        }
    }
    assert!(good > 100 && bad > 1000, "{good} {bad}");
}

#[test]
fn broken_options_never_panic() {
    let mut rng = Rng::stream(2, Domain::Faults, 0);
    let options = [
        "transport.params.m=0.5",
        "flows.0.size=1MB",
        "fabric.links[2].rate=10Gbps",
        "switch.ecn={ kmin = \"30KB\" }",
    ];
    for _ in 0..3_000 {
        let option = pick(&mut rng, &options);
        let option = mutated(&mut rng, option);
        if let Err(error) =
            Override::set(&option).and_then(|change| load(GRAPH, "x.toml", &[change]))
        {
            assert!(!error.to_string().is_empty());
        }
    }
}
