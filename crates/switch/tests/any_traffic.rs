//! The functions of the fuzz targets on random scripts, for stable toolchains.
#![cfg(target_os = "linux")]

use proptest::prelude::*;

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 4_000,
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    #[test]
    fn any_datagrams_at_any_times(script in prop::collection::vec(any::<u8>(), 0..600)) {
        tidegate_switch::any_traffic(&script);
    }
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 20_000,
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    #[test]
    fn any_frames(script in prop::collection::vec(any::<u8>(), 0..300)) {
        tidegate_switch::any_frame(&script);
    }
}
