//! Any bytes as a header of a session, as what one seals, and as the head of a message.
#![no_main]
libfuzzer_sys::fuzz_target!(|bytes: &[u8]| tidegate_endpoint::header(bytes));
