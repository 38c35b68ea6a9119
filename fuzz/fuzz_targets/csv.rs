//! Reads arbitrary bytes as a size distribution and as a trace.
#![no_main]
libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let folder = std::env::temp_dir().join(format!("tidegate-fuzz-{}", std::process::id()));
    let _ = std::fs::create_dir_all(&folder);
    let _ = std::fs::write(folder.join("x.csv"), bytes);
    for traffic in [
        "kind = 'poisson'\nsizes = 'x.csv'\nload = 0.5",
        "kind = 'trace'\nfile = \
        'x.csv'",
    ] {
        let text = format!(
            "duration = '1ms'\nfabric = {{ kind = 'star', hosts = 4 }}\ntransport = {{ protocol = \
             'swift' }}\n[[traffic]]\n{traffic}"
        );
        let scenario = folder.join("x.toml");
        let _ = std::fs::write(&scenario, text);
        let _ = tidegate_scenario::load_file(&scenario, &[]);
    }
});
