//! Reads arbitrary bytes as a GOAL schedule and as a Chakra trace.
#![no_main]
libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let folder = std::env::temp_dir().join(format!("tidegate-fuzz-jobs-{}", std::process::id()));
    let _ = std::fs::create_dir_all(&folder);
    for (file, name) in [("x.goal", "x.goal"), ("x.*.et", "x.0.et")] {
        let _ = std::fs::write(folder.join(name), bytes);
        let text = format!(
            "duration = '1ms'\nfabric = {{ kind = 'star', hosts = 4 }}\ntransport = {{ protocol = \
             'swift' }}\n[[traffic]]\nkind = 'job'\nfile = '{file}'"
        );
        let scenario = folder.join("x.toml");
        let _ = std::fs::write(&scenario, text);
        let _ = tidegate_scenario::load_file(&scenario, &[]);
    }
});
