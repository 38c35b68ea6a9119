//! Parses arbitrary bytes as a datagram of any protocol.
#![no_main]
use tidegate_algos::Protocol;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    if let Some((&first, bytes)) = bytes.split_first() {
        tidegate_endpoint::datagram(Protocol::ALL[first as usize % Protocol::ALL.len()], bytes);
    }
});
