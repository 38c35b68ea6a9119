//! Sends arbitrary datagrams through a software switch.
#![no_main]
libfuzzer_sys::fuzz_target!(|script: &[u8]| tidegate_switch::any_traffic(script));
