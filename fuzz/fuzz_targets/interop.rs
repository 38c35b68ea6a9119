//! Reads arbitrary text as a fabric and as flows of another simulator: the result is a scenario or
//! an error, never a panic.
#![no_main]
use tidegate_scenario::interop::{Format, Input, import};

const BASE: &str = "duration = '1ms'\nfabric = { kind = 'star', hosts = 4 }\n\
    transport = { protocol = 'swift' }\nflows = [{ src = 'h0', dst = 'h1' }]";

libfuzzer_sys::fuzz_target!(|text: &str| {
    let input = Input::new("fuzz", text);
    let base = Input::new("base.toml", BASE);
    for format in Format::ALL {
        let _ = import(format, std::slice::from_ref(&input), None);
        let _ = import(format, std::slice::from_ref(&input), Some(&base));
    }
});
