//! Runs two nodes with different versions of session headers, and forged datagrams between them.
#![no_main]
use tidegate_algos::Protocol;

libfuzzer_sys::fuzz_target!(|script: &[u8]| {
    if let Some((&first, script)) = script.split_first() {
        tidegate_endpoint::versions(Protocol::ALL[first as usize % Protocol::ALL.len()], script);
    }
});
