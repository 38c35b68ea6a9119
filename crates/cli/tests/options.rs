//! Options that mean the same for several subcommands.

mod common;

use common::{Place, answer};

/// Two flows without end, which no seed changes: that is warned of.
fn alike() -> Place {
    Place::new("[[flows]]\nsrc = \"h0\"\ndst = \"h2\"\n[[flows]]\nsrc = \"h1\"\ndst = \"h2\"\n")
}

#[test]
fn who_wants_it_quiet_hears_of_errors_alone() {
    let place = alike();
    let args = ["--seeds", "2", "--set", "transport.protocol=swift"];
    let told = place.run(&args);
    assert!(told.stderr.contains("warning: "), "{}", told.stderr);
    let quiet = place.run(&[&args[..], &["-q"]].concat());
    assert_eq!((quiet.stderr.as_str(), quiet.code), ("", Some(0)));
    let [told, quiet] = [told, quiet].map(|answer| answer.stdout);
    let table = |text: &str| text.split("Switches").next().unwrap().to_owned();
    assert_eq!(table(&told), table(&quiet));
    place.run(&["-q", "--set", "fabric.mtu=1"]).refused(2, &["fabric.mtu"]);
    place.run(&["-q", "-v"]).refused(2, &["--quiet", "--verbose"]);
    for call in [&["reproduce", "--list", "-q"][..], &["reproduce", "--list", "-v"]] {
        assert_eq!(answer(call).code, Some(0));
    }
}

#[test]
fn what_a_scenario_comes_to_is_told_before_it_runs() {
    let place = Place::usual();
    let set = ["--set", "transport.protocol=swift", "--set", "transport.params.beta=0.5"];
    let told = place.run(&[&set[..], &["-v", "--json"]].concat());
    let plain = place.run(&[&set[..], &["--json"]].concat());
    for line in [
        "three hosts: seed 1, duration 300us, warmup 50us",
        "fabric: 3 hosts, 1 switch, 3 links; ",
        "routing ecmp",
        "swift: beta = 0.5 (default 0.8)",
        "connections: per-message",
        "to send: 7 flows, 2 of them without end; with generated messages some 0.100 MB in 0.3 ms",
    ] {
        assert!(told.stderr.contains(line), "{line}: {}", told.stderr);
        assert!(!plain.stderr.contains(line), "{}", plain.stderr);
    }
    let [told, plain] = [told, plain].map(|answer| common::steady(answer.json()));
    assert_eq!(told, plain);
    // Of several, what they share once.
    let several = place.call("compare", &["-v", "--protocols", "swift,dctcp", "--seeds", "2"]);
    assert_eq!(several.stderr.matches("fabric: ").count(), 1, "{}", several.stderr);
    assert!(several.stderr.contains("dctcp: dctcp: all parameters"), "{}", several.stderr);
    let swept = ["-v", "--vary", "duration=100us,120us", "--no-cache"];
    assert!(place.call("sweep", &swept).stderr.contains("duration 100us"));
}
