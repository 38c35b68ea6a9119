//! The functions of the fuzz targets on random input, for stable toolchains.

use proptest::prelude::*;
use tidegate_algos::Protocol;
use tidegate_endpoint::{header, hostile, versions};

/// A `Refuse` of another version with a spoofed address is not answered: else two nodes would
/// answer each other for ever.
#[test]
fn forged_version_refusal_is_not_answered() {
    // To node 0: a header of kind 3, `Refuse`, of version 2.
    let script = [&[8, 3][..], &[0; 36], &[2]].concat();
    versions(Protocol::ALL[0], &script);
}

/// A node that requests a session of a node of another version reports that version.
#[test]
fn other_version_is_reported() {
    versions(Protocol::ALL[0], &[0]);
    versions(Protocol::ALL[0], &[0, 1, 0]);
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 4_000,
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    #[test]
    fn hostile_scripts(
        protocol in 0..Protocol::ALL.len(),
        script in prop::collection::vec(any::<u8>(), 0..400)
    ) {
        hostile(Protocol::ALL[protocol], &script);
    }

    #[test]
    fn versions_scripts(
        protocol in 0..Protocol::ALL.len(),
        script in prop::collection::vec(any::<u8>(), 0..100)
    ) {
        versions(Protocol::ALL[protocol], &script);
    }

    #[test]
    fn header_bytes(
        start in (0..3u8, 0..40u8, 0..3u8, 0..40u8),
        bytes in prop::collection::vec(any::<u8>(), 0..160)
    ) {
        let (version, kind, flags, words) = start;
        header(&bytes);
        header(&[&[version, kind, flags, words], &bytes[..]].concat());
    }
}
