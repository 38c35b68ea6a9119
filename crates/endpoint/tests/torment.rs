//! The fuzz target's function on random scripts, so that a stable toolchain runs it too.

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
    fn any_packet_in_any_order_at_any_time(
        protocol in 0..Protocol::ALL.len(),
        script in prop::collection::vec(any::<u8>(), 0..600)
    ) {
        torment(Protocol::ALL[protocol], &script);
    }
}
