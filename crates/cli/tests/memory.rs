//! Memory does not grow with the number of messages: rows are streamed to files.

use std::fs;

use crate::common::{Place, protocols};

#[cfg(target_os = "linux")]
#[test]
fn memory_is_independent_of_messages() {
    let place = Place::new("");
    let protocol = &protocols()[0];
    let text = format!(
        "duration = '2ms'\nfabric = {{ kind = 'star', hosts = 8, mtu = '1500B' }}\n\
         transport = {{ protocol = '{protocol}' }}\noutput = {{ timeseries = '100us' }}\n\
         traffic = [{{ kind = 'poisson', sizes = '500B', rate = '20Gbps' }}]\n"
    );
    fs::write(place.path("scenario.toml"), text).unwrap();
    let run = |duration: &str| {
        let duration = format!("duration={duration}");
        let summary =
            place.run(&["--set", &duration, "--out", &place.arg(&duration), "--json"]).json();
        let messages = summary["fct"]["all"]["count"].as_u64().unwrap();
        (messages, summary["engine"]["peak_rss_bytes"].as_u64().unwrap())
    };
    // The first run fills every buffer once: a row group is 65,536 rows.
    let (few, small) = run("2ms");
    let (many, large) = run("10ms");
    println!("{few} messages in {small} B, {many} in {large} B");
    assert!(few > 70_000 && many > 4 * few, "{few}, {many}");
    assert!(large < small + (4 << 20), "{few} messages take {small} B, {many} take {large} B");
}

/// 65,536 hosts, 131,072 links between switches, some thousands of messages. A table by pairs of
/// hosts, or by host in every host, would take gigabytes.
#[cfg(target_os = "linux")]
#[test]
fn memory_of_a_large_fabric() {
    let place = Place::new("");
    let protocol = &protocols()[0];
    let text = format!(
        "duration = '2us'\nfabric = {{ kind = 'leaf-spine', racks = 2048, hosts_per_rack = 32, \
         spines = 64 }}\n\
         transport = {{ protocol = '{protocol}' }}\n\
         traffic = [{{ kind = 'poisson', sizes = '64KB', load = 0.2 }}]\n"
    );
    fs::write(place.path("scenario.toml"), text).unwrap();
    let summary = place.run(&["--json"]).json();
    let messages = summary["fct"]["all"]["count"].as_u64().unwrap();
    let bytes = summary["engine"]["peak_rss_bytes"].as_u64().unwrap();
    println!("{messages} messages on 65,536 hosts in {bytes} B");
    assert!(messages > 3_000, "{messages}");
    assert!(bytes < 512 << 20, "{messages} messages take {bytes} B");
}
