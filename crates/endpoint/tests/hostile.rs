//! The fuzz targets' functions on random input, so that a stable toolchain runs them too.

use proptest::prelude::*;
use tidegate_algos::Protocol;
use tidegate_endpoint::{header, hostile};

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 4_000,
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    #[test]
    fn any_datagrams_of_strangers_and_of_who_has_the_key(
        protocol in 0..Protocol::ALL.len(),
        script in prop::collection::vec(any::<u8>(), 0..400)
    ) {
        hostile(Protocol::ALL[protocol], &script);
    }

    #[test]
    fn any_bytes_as_a_header_of_a_session(
        start in (0..3u8, 0..40u8, 0..3u8, 0..40u8),
        bytes in prop::collection::vec(any::<u8>(), 0..160)
    ) {
        let (version, kind, flags, words) = start;
        header(&bytes);
        header(&[&[version, kind, flags, words], &bytes[..]].concat());
    }
}
