//! The function of the fuzz target on random scripts, for stable toolchains.

use proptest::prelude::*;
use tidegate_algos::Protocol;
use tidegate_endpoint::torment;

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 20_000,
        failure_persistence: None,
        ..ProptestConfig::default()
    })]
    #[test]
    fn torment_scripts(
        protocol in 0..Protocol::ALL.len(),
        script in prop::collection::vec(any::<u8>(), 0..600)
    ) {
        torment(Protocol::ALL[protocol], &script);
    }
}
