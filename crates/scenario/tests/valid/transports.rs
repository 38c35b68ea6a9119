//! Transports of valid scenarios: presets, parameters and options.

use super::{fabric, plan, value};
use crate::common::{GRAPH, RACKS, patched};
use tidegate_algos::Protocol;
use tidegate_core::params::Value;
use tidegate_core::{ConnectionPolicy, Extent, Rate, Span};
use tidegate_scenario::{Override, load};

#[test]
fn connections_default_to_per_message() {
    let connections = |lines| fabric(lines).connections;
    assert_eq!(connections("kind = 'star'\nhosts = 2"), ConnectionPolicy::PerMessage);
    assert_eq!(connections("preset = 'hpcc-fat-tree'"), ConnectionPolicy::PerMessage);
    assert_eq!(connections("preset = 'sird-leaf-spine'"), ConnectionPolicy::Pool(40));
    assert_eq!(connections("preset = 'sird-leaf-spine-core'"), ConnectionPolicy::Pool(40));
}

#[test]
fn stacks_combine_defaults_presets_and_params() {
    let text =
        patched(RACKS, "protocol = \"swift\"", "protocol = \"swift\"\nparams = { ai = 2.0 }");
    let plan = plan(&format!(
        "{}\n[protocols.dctcp]\npreset = 'sird'\nparams = {{ initial_window = '2BDP' }}\n\
         [[flows]]\nsrc = 'h1'\ndst = 'h2'\nprotocol = 'dctcp'\nparams = {{ max_window = '50BDP' \
         }}\n\
         [[flows]]\nsrc = 'h1'\ndst = 'h2'\npreset = 'sird'\n\
         [[flows]]\nsrc = 'h1'\ndst = 'h2'\nprotocol = 'swift'\n",
        patched(&text, "protocol = \"swift\"", "protocol = \"swift\"")
    ));
    let stack = |flow: usize| &plan.stacks[usize::from(plan.workload.flows[flow].stack)];
    // The flow's parameters override the transport's.
    assert_eq!(
        (value(stack(0), "ai"), value(stack(0), "beta")),
        (Value::Number(2.0), Value::Number(0.5))
    );
    // [protocols.dctcp], then the flow's parameters.
    assert_eq!(value(stack(3), "g"), Value::Number(0.08));
    assert_eq!(value(stack(3), "initial_window"), Value::Extent(Extent::Bdp(2.0)));
    assert_eq!(value(stack(3), "max_window"), Value::Extent(Extent::Bdp(50.0)));
    // A preset replaces earlier parameters.
    assert_eq!(
        (value(stack(4), "ai"), value(stack(4), "fs_range")),
        (Value::Number(1.0), Value::Span(Span::us(75)))
    );
    // Naming the transport's protocol changes nothing.
    assert_eq!(value(stack(5), "ai"), Value::Number(2.0));
    assert_eq!(plan.stacks.len(), 4);
}

#[test]
fn options_change_values() {
    let set = |argument: &str| Override::set(argument).unwrap();
    let load = |changes: &[Override]| load(GRAPH, "x.toml", changes);
    let plan = load(&[
        set("transport.params.m=0.5"),
        set("flows.0.size=1MB"),
        set("flows[0].count = 2"),
        set("switch.ecn={ kmin = \"30KB\" }"),
        set("fabric.links.2.rate=10Gbps"),
        set("output.timeseries=10us"),
        Override::option("--seed 7", "seed", "7"),
    ])
    .unwrap();
    assert_eq!(value(&plan.stacks[0], "m"), Value::Number(0.5));
    assert_eq!(plan.workload.flows.len(), 2);
    assert_eq!(plan.workload.flows[0].bytes, 1_000_000);
    assert_eq!(plan.fabric.links[2].rate, Rate::gbps(10));
    assert_eq!(plan.output.timeseries, Some(Span::us(10)));
    assert_eq!(plan.seed, 7);
    assert!(load(&[set("flows.0.size=inf")]).is_ok());
    let plan = load(&[set("flows[0].count=1"), set("fabric.links[*].rate=10Gbps")]).unwrap();
    assert!(plan.fabric.links.iter().all(|link| link.rate == Rate::gbps(10)));
    let wrong = load(&[set("faults.outages[*].from=1us")]).unwrap_err().to_string();
    assert!(wrong.contains("position * of a list that the scenario does not have"), "{wrong}");
    let wrong = load(&[Override::option("--seed x", "seed", "x")]).unwrap_err();
    assert_eq!(
        wrong.to_string(),
        "--seed x: seed: found x, expected a whole number from 0 to 9223372036854775807"
    );
    assert_eq!((&*wrong.key, wrong.line), ("seed", 0));
}

#[test]
fn options_select_by_label() {
    let flow = |label: &str| format!("\n[[flows]]\nsrc = 'h1'\ndst = 'h2'\n{label}\n");
    let text = format!("{GRAPH}{}{}{}", flow("label = 'b'"), flow(""), flow("label = 'victim'"));
    let sizes = |argument: &str| {
        let plan = load(&text, "x.toml", &[Override::set(argument).unwrap()]).unwrap();
        plan.workload.flows.iter().map(|flow| flow.bytes).collect::<Vec<_>>()
    };
    let (inf, mega) = (u64::MAX, 1_000_000);
    assert_eq!(sizes("flows.victim.size=1MB"), [mega, inf, inf, mega]);
    assert_eq!(sizes("flows[b].size=1MB"), [inf, mega, inf, inf]);
    assert_eq!(sizes("flows[2].size=1MB"), [inf, inf, mega, inf]);
}

#[test]
fn protocol_override_replaces_the_transport() {
    let text = format!(
        "{GRAPH}\n[protocols.swift]\nparams = {{ ai = 2.0 }}\n\
         [[flows]]\nsrc = 'h0'\ndst = 'h1'\nparams = {{ k = '3us' }}\n[[flows]]\nsrc = 'h0'\ndst \
         = 'h1'\nprotocol = 'open-loop'\n"
    );
    let text = patched(&text, "m = 0.25", "m = 0.5");
    let stacks = |name| {
        load(&text, "x.toml", &[Override::protocol("--protocols", name)]).unwrap().setup.stacks
    };
    assert_eq!(value(&stacks("poseidon")[0], "m"), Value::Number(0.5));
    assert_eq!(value(&stacks("swift")[0], "ai"), Value::Number(2.0));
    assert_eq!(stacks("poseidon").len(), 3);
    assert_eq!(stacks("dctcp"), [Protocol::Dctcp.stack(), Protocol::OpenLoop.stack()]);
    let plain =
        load(&text, "x.toml", &[Override::set("transport.protocol=swift").unwrap()]).unwrap_err();
    assert!(plain.to_string().contains("an unknown parameter of swift"), "{plain}");
}

/// A protocol may fit itself to the sizes of generated traffic. Without any, it warns.
#[test]
fn protocols_fit_generated_sizes() {
    let warnings = |more: &str| {
        let text = format!(
            "duration = '1ms'\nfabric = {{ kind = 'star' }}\ntransport = {{ protocol = 'homa' }}\n\
             {more}"
        );
        plan(&text).warnings
    };
    let flow = "flows = [{ src = 'h0', dst = 'h1', size = '1MB' }]\n";
    let blind = warnings(flow);
    assert!(blind.len() == 1 && blind[0].starts_with("homa: no generator has"), "{blind:?}");
    let traffic = "[[traffic]]\nkind = 'poisson'\nsizes = 'homa-w3'\nload = 0.5\n";
    assert_eq!(warnings(&format!("{flow}{traffic}")), Vec::<String>::new());
    assert_eq!(warnings(traffic), Vec::<String>::new());
}

#[test]
fn sird_published_code_differs_in_rules_and_sthr() {
    let text = |preset: &str| {
        format!(
            "duration = '1ms'\nfabric = {{ kind = 'star', hosts = 2 }}\n\
             transport = {{ protocol = 'sird', preset = '{preset}' }}\n[[flows]]\nsrc = 'h1'\ndst \
             = 'h0'"
        )
    };
    let [paper, mut published] =
        ["paper", "as-published-code"].map(|preset| plan(&text(preset)).stacks.swap_remove(0));
    assert_eq!(value(&published, "rules"), Value::Choice("published-code"));
    published.set("rules", Value::Choice("paper")).unwrap();
    let half = value(&paper, "sender_threshold");
    assert_ne!(value(&published, "sender_threshold"), half, "33 packets of 1,458 B");
    published.set("sender_threshold", half).unwrap();
    assert_eq!(published, paper);
}
