//! Valid scenarios and their plans.
#![allow(missing_docs)]

mod fabrics;
mod traffic;
mod transports;
mod warnings;

use crate::common::{GRAPH, RACKS, beside, document, patched};
use tidegate_algos::{Protocol, Stack};
use tidegate_core::fabric::Node;
use tidegate_core::params::Value;
use tidegate_scenario::{Error, Plan, content_hash, load, load_file, resolved};

fn plan(text: &str) -> Plan {
    load(text, &beside("x.toml"), &[]).unwrap_or_else(|error| panic!("{error}\n{text}"))
}

fn value(stack: &Stack, name: &str) -> Value {
    stack.values().into_iter().find(|(known, _)| *known == name).unwrap().1
}

/// Returns the plan of one flow on this fabric.
fn fabric(lines: &str) -> Plan {
    plan(&format!(
        "duration = '1ms'\n[fabric]\n{lines}\n[transport]\nprotocol = 'swift'\n[[flows]]\nsrc = \
         'h0'\ndst = 'h1'\n"
    ))
}

#[test]
fn time_series_are_selected() {
    let text = |output: &str| {
        format!(
            "duration = '1ms'\n[fabric]\nkind = 'star'\nhosts = 3\n[transport]\n\
             protocol = 'swift'\n[[flows]]\nsrc = 'h0'\ndst = 'h1'\n[output]\n{output}\n"
        )
    };
    let defaults = plan(&text("timeseries = '1us'")).output;
    let names = ["delivered_bytes", "goodput_gbps", "window_bytes", "queue_bytes", "paused_us"];
    assert_eq!((defaults.quantities, defaults.ports), (names.to_vec(), None));
    let chosen = plan(&text(
        "quantities = ['sent_gbps', 'mean_queue_bytes']\nports = ['tor0>h[1-2]', 'h0>*']",
    ));
    assert_eq!(chosen.output.quantities, ["mean_queue_bytes", "sent_gbps"]);
    let ports = chosen.output.ports.clone().unwrap();
    let ends = |port: u32| {
        let link = &chosen.fabric.links[port as usize / 2];
        if port.is_multiple_of(2) { (link.a, link.b) } else { (link.b, link.a) }
    };
    let tor = Node::Switch(0);
    let expected = [(Node::Host(0), tor), (tor, Node::Host(1)), (tor, Node::Host(2))];
    assert_eq!(ports.into_iter().map(ends).collect::<Vec<_>>(), expected);
}

#[test]
fn errors_have_parts() {
    let text = patched(GRAPH, "rate = \"100Gbps\"", "rate = \"10Gbsp\"");
    let error: Error = load(&text, "file.toml", &[]).unwrap_err();
    assert_eq!((&*error.origin, error.line, error.column), ("file.toml", 12, 32));
    assert_eq!((&*error.key, &*error.found), ("fabric.links[0].rate", "\"10Gbsp\""));
    assert_eq!(error.suggestion.as_deref(), Some("10Gbps"));
}

#[test]
fn resolved_scenarios_load_to_the_same_plan() {
    let dctcp = patched(
        GRAPH,
        "protocol = \"poseidon\"\npreset = \"paper\"\nparams = { m = 0.25 }",
        "protocol = \"dctcp\"",
    );
    let preset = "duration = '1ms'\n[fabric]\npreset = 'powertcp-fat-tree'\n[transport]\nprotocol \
        = 'swift'\npreset = 'sird'\n\
                  [protocols.powertcp]\npreset = 'as-published-code'\n[[traffic]]\nkind = \
                  'permutation'\nprotocol = 'powertcp'";
    let racks = format!("{RACKS}\n[[switch.override]]\nmatch = 'tor*'\necn = 'off'\n");
    let pauses =
        patched(GRAPH, "buffer = \"unlimited\"", "buffer = \"1MB\"\npfc = { classes = 3 }");
    for text in [GRAPH, RACKS, &dctcp, &racks, &pauses, preset] {
        let plan = plan(text);
        let again = load(&document(&resolved(&plan)), &beside("x.toml"), &[]).unwrap();
        assert_eq!(plan, again);
        assert_eq!(content_hash(&plan), content_hash(&again));
        let every = resolved(&plan)["transport"]["params"].as_object().unwrap().len();
        let protocol =
            Protocol::named(resolved(&plan)["transport"]["protocol"].as_str().unwrap()).unwrap();
        let usual = protocol.table().iter().filter(|info| !info.later).count();
        assert_eq!(every, usual);
    }
}

#[test]
fn content_hash_covers_content() {
    let base = content_hash(&plan(GRAPH));
    assert_eq!(base.len(), 64);
    assert_eq!(
        base,
        content_hash(&plan(&patched(GRAPH, "delay = \"1us\"", "delay  = \"1000ns\"")))
    );
    for (from, to) in [
        ("seed = 1", "seed = 2"),
        ("m = 0.25", "m = 0.26"),
        ("delay = \"1us\"", "delay = \"1001ns\""),
        ("websearch", "hadoop"),
        ("victim", "other"),
        ("seed = 1", "seed = 1\ndrain = \"1ms\""),
    ] {
        assert_ne!(base, content_hash(&plan(&patched(GRAPH, from, to))), "{to}");
    }
}

#[test]
fn files_are_read_from_their_folder() {
    let plan = load_file(beside("racks.toml").as_ref(), &[]).unwrap();
    assert_eq!(plan.name, "racks");
}
