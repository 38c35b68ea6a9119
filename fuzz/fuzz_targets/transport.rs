//! Delivers arbitrary packets to every transport, in any order, at any time.
#![no_main]
use tidegate_algos::Protocol;

libfuzzer_sys::fuzz_target!(|script: &[u8]| {
    if let Some((&first, script)) = script.split_first() {
        tidegate_endpoint::stress(Protocol::ALL[first as usize % Protocol::ALL.len()], script);
    }
});
