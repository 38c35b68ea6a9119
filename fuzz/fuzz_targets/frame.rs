//! Any frame through the hands of a software switch.
#![no_main]
libfuzzer_sys::fuzz_target!(|script: &[u8]| tidegate_switch::any_frame(script));
