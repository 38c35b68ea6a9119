//! Warnings of the terminal appear in reports, too.

use std::fs;

use crate::common::{Place, answer, protocols, protocols_without};

/// The report of a folder.
fn page(place: &Place, folder: &str) -> String {
    let out = place.arg("page.html");
    answer(&["report", &place.arg(folder), "--out", &out]).ok();
    fs::read_to_string(out).unwrap()
}

/// Flows from two racks to one host, through switches with small buffers.
fn incast() -> Place {
    let place = Place::usual();
    let mut text = "duration = '300us'\nwarmup = '20us'\n\
        fabric = { kind = 'leaf-spine', racks = 2, hosts_per_rack = 4, spines = 1 }\n\
        transport = { protocol = 'swift' }\n[switch]\nbuffer = '300KB'\n"
        .to_owned();
    for host in 1..7 {
        text += &format!("[[flows]]\nsrc = 'h{host}'\ndst = 'h0'\nlabel = 'in'\n");
    }
    fs::write(place.path("scenario.toml"), text).unwrap();
    place
}

#[test]
fn report_has_all_warnings() {
    let place = incast();
    let drops = protocols_without("pauses (PFC)");
    let pauses = protocols().into_iter().find(|name| !drops.contains(name)).unwrap();
    let both = format!("{pauses},{}", drops[0]);
    for seeds in [&["--seed", "1"][..], &["--seeds", "2"]] {
        let args = [&["--protocols", &both], seeds, &["--out", &place.arg("out"), "--force"]];
        let answer = place.call("compare", &args.concat());
        let warned: Vec<&str> =
            answer.stderr.lines().filter_map(|line| line.strip_prefix("warning: ")).collect();
        assert!(warned.iter().any(|text| text.starts_with("switches pause under")), "{warned:?}");
        let page = page(&place, "out");
        for text in warned {
            // The page has its own names of runs and seeds.
            let own = text.rsplit_once(": ").map_or(text, |(_, rest)| rest);
            let own = own.replace('>', "&gt;").replace('<', "&lt;");
            assert!(page.contains(&own), "`{own}` is not on the page");
        }
        let count = page.matches("switches pause under").count();
        assert_eq!(count, 1, "once, under {seeds:?}");
    }
}

#[test]
fn report_section_of_pauses() {
    let place = incast();
    let args = ["--set", "switch.pfc={}", "--out", &place.arg("out"), "--json"];
    let summary = place.run(&args).json();
    let pauses = &summary["pauses"];
    assert!(pauses["pauses"].as_u64().unwrap() > 0, "{summary}");
    let page = page(&place, "out");
    let (_, section) = page.split_once("<h2>Pauses</h2>").expect("that section");
    let count = format!("<td class=\"n\">{}</td>", pauses["pauses"]);
    assert!(section.contains(&count) && section.contains("Most paused ports"), "{section}");
    let [from, to] = [0, 1].map(|i| pauses["longest"][i].as_str().unwrap());
    assert!(section.contains(&format!("<td>{from}</td><td>{to}</td>")), "{section}");
    // Without PFC, the page has no section of pauses.
    place.run(&["--out", &place.arg("out"), "--force"]).ok();
    assert!(!self::page(&place, "out").contains("<h2>Pauses</h2>"));
}
