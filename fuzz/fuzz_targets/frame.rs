//! Passes arbitrary frames through the frame code of a software switch.
#![no_main]
libfuzzer_sys::fuzz_target!(|script: &[u8]| tidegate_switch::any_frame(script));
