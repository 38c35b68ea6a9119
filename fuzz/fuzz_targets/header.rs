//! Parses arbitrary bytes as a session header, a control message and the head of a message.
#![no_main]
libfuzzer_sys::fuzz_target!(|bytes: &[u8]| tidegate_endpoint::header(bytes));
