//! The function of the fuzz target on random scripts, for stable toolchains.

use proptest::prelude::*;
use tidegate_algos::Protocol;
use tidegate_endpoint::stress;

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 20_000,
        failure_persistence: None,
        ..ProptestConfig::default()
    })]
    #[test]
    fn stress_scripts(
        protocol in 0..Protocol::ALL.len(),
        script in prop::collection::vec(any::<u8>(), 0..600)
    ) {
        stress(Protocol::ALL[protocol], &script);
    }
}

/// Scripts that once failed.
#[test]
fn scripts_that_failed_pass() {
    let dcpim: &[u8] = &[
        11, 0, 1, 16, 145, 24, 1, 0, 31, 14, 0, 0, 0, 0, 19, 8, 132, 62, 16, 0, 0, 8, 65, 20, 0, 0,
        244, 56, 51, 125, 16, 87, 0, 0, 0, 0, 0, 0, 0, 0, 0, 47, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0,
        12, 0, 0, 231, 0, 0, 0, 0, 0, 0, 0, 0, 0, 92, 0, 45, 156, 0, 0, 0, 0, 68, 0, 0, 0, 0, 27,
        144, 0, 0, 0, 200, 0, 56, 1, 68, 2, 0, 0, 0, 47, 0, 151, 4, 2, 50, 26, 168, 77, 135, 91,
        22, 0, 1, 15, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 4, 33, 0, 0, 0, 0, 0, 0, 0,
    ];
    stress(Protocol::named("dcpim").unwrap(), dcpim);
}
