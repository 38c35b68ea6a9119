//! Sends arbitrary datagrams to a node, from unknown sources and from a peer that has the key.
#![no_main]
use tidegate_algos::Protocol;

libfuzzer_sys::fuzz_target!(|script: &[u8]| {
    if let Some((&first, script)) = script.split_first() {
        tidegate_endpoint::hostile(Protocol::ALL[first as usize % Protocol::ALL.len()], script);
    }
});
