//! Warnings about valid scenarios.

use super::{fabric, plan};
use crate::common::{GRAPH, beside, document, patched};
use tidegate_scenario::{content_hash, load, resolved};

#[test]
fn protocols_outside_their_domain_are_warned_of() {
    let star = |delay| {
        fabric(&format!("kind = 'star'\nhost_link = {{ rate = '10Gbps', delay = '{delay}' }}"))
    };
    assert_eq!(star("1us").warnings, Vec::<String>::new());
    let far = star("50us").warnings;
    assert!(far.len() == 1 && far[0].starts_with("swift: "), "{far:?}");
    let text = patched(GRAPH, "delay = \"1us\"", "delay = \"1ms\"");
    let plan = load(&text, "x.toml", &[]).unwrap();
    assert_eq!(plan.warnings.len(), 1);
    assert!(plan.warnings[0].starts_with("poseidon: "), "{:?}", plan.warnings);
}

/// A warning about only the shortest path is reported. A warning about both paths is reported once.
#[test]
fn the_shortest_path_can_be_outside_a_domain() {
    let warnings = |protocol: &str, racks: u32, params: &str| {
        let text = format!(
            "duration = '1ms'\nflows = [{{ src = 'h0', dst = 'h1' }}]\nfabric = {{ kind = \
             'leaf-spine', racks = {racks}, hosts_per_rack = 2, mtu = '1000B' }}\ntransport = {{ \
             protocol = '{protocol}', params = {{ {params} }} }}"
        );
        plan(&text).warnings
    };
    let long = warnings("theta-powertcp", 2, "beta = '5KB'");
    let start = "theta-powertcp: on the shortest path, tau is ";
    assert!(long.len() == 1 && long[0].starts_with(start), "{long:?}");
    assert_eq!(warnings("theta-powertcp", 2, "beta = '5KB', tau = 'path'"), Vec::<String>::new());
    let both = warnings("theta-powertcp", 2, "beta = '0BDP'");
    assert!(both.len() == 1 && both[0].matches("beta is").count() == 1, "{both:?}");
    assert!(both[0].contains("tau is"), "{both:?}");
    // TIMELY warns of both paths with their base RTTs: only the longest is reported.
    let far = warnings("timely", 2, "t_low = '1us', t_high = '2us'");
    assert!(far.len() == 1 && far[0].matches("the base RTT of").count() == 1, "{far:?}");
    assert!(far[0].starts_with("timely: on the longest path, the base RTT of "), "{far:?}");
}

#[test]
fn partitions_are_reported_with_their_time_span() {
    let warned = |faults: &str| {
        plan(&format!(
            "duration = '1ms'\nfabric = {{ kind = 'star', hosts = 3 }}\n\
             transport = {{ protocol = 'swift' }}\nflows = [{{ src = 'h0', dst = 'h1' }}]\n\
             faults = {{ {faults} }}"
        ))
        .warnings
    };
    let warnings = |up: &str| warned(&format!("failure = 'h2-tor0', failure_down = '200us'{up}"));
    let span = |text: &str| {
        vec![format!("the failure partitions the network: from 200us {text} of hosts have no path")]
    };
    assert_eq!(warnings(", failure_up = '300us'"), span("to 300us, 4 of 6 ordered pairs"));
    let mut forever = span("on, 4 of 6 ordered pairs");
    forever[0] += "; messages between them then stay unfinished";
    assert_eq!(warnings(""), forever);
    // Without a failure, its times have no effect; with "none", as in sweeps, that is intended.
    for (faults, number) in
        [("failure_up", 1), ("failure_down", 1), ("failure = 'none', failure_up", 0)]
    {
        assert_eq!(warned(&format!("{faults} = '300us'")).len(), number, "{faults}");
    }
}

/// Returns the warnings of the loader for swift between two hosts at 100 Gbit/s, MTU 1,000 B, links
/// of `delay`.
fn warned(delay: &str, rest: &str) -> Vec<String> {
    let text = format!(
        "duration = '1ms'\nfabric = {{ kind = 'star', mtu = '1000B', host_link = {{ delay = \
         '{delay}' }} }}\n\
         flows = [{{ src = 'h0', dst = 'h1' }}]\n{rest}"
    );
    plan(&text).warnings
}

#[test]
fn reordering_under_go_back_n_is_warned_of() {
    let warnings = |spines: u32, switch: &str, params: &str| {
        let text = format!(
            "duration = '1ms'\nflows = [{{ src = 'h0', dst = 'h3' }}]\nfabric = {{ kind = \
             'leaf-spine', racks = 2, hosts_per_rack = 2, spines = {spines} }}\n\
             switch = {{ {switch} }}\n\
             transport = {{ protocol = 'dctcp', params = {{ {params} }} }}"
        );
        plan(&text).warnings
    };
    let (spray, back) = ("routing = 'spray'", "recovery = 'go-back-n'");
    let reported = warnings(2, spray, back);
    assert!(
        reported.len() == 1 && reported[0].contains("dctcp interprets reordering as loss"),
        "{reported:?}"
    );
    for (spines, switch, params) in [(1, spray, back), (2, "", back), (2, spray, "")] {
        assert_eq!(warnings(spines, switch, params), Vec::<String>::new(), "{spines} {switch}");
    }
}

#[test]
fn connections_outside_their_domain_are_warned_of() {
    let tuned = |delay, params: &str| {
        let rest = format!("transport = {{ protocol = 'dctcp', params = {{ {params} }} }}");
        warned(delay, &rest).join(" | ")
    };
    // 4.19 us: 48.5 packets of 1,080 B.
    assert_eq!(tuned("1us", "ack_every = 12"), "");
    let thin = tuned("1us", "ack_every = 13");
    assert!(thin.contains("ack_every = 13") && thin.contains("48.5 packets"), "{thin}");
    // One acknowledgement per packet is enough on any path.
    assert_eq!(tuned("0us", "ack_every = 1"), "");
    assert_eq!(tuned("1us", "initial_rto = '5us'"), "");
    let early = tuned("1us", "initial_rto = '4us'");
    assert!(early.contains("base RTT of 4.19 us reaches initial_rto = 4.00 us"), "{early}");
    let both = tuned("1us", "initial_rto = '4us', ack_every = 100");
    assert!(both.contains("ack_every") && both.contains("initial_rto"), "{both}");
    assert_eq!(tuned("240us", ""), "");
    assert!(tuned("260us", "").contains("1040.19 us reaches initial_rto = 1000.00 us"));
}

#[test]
fn uncovered_stack_delay_is_warned_of() {
    let held = |delay: &str, jitter: &str, bdp: &str| {
        let rest = format!(
            "transport = {{ protocol = 'dctcp'{bdp} }}\n\
             hosts = {{ stack_delay = '{delay}', stack_jitter = '{jitter}' }}"
        );
        warned("1us", &rest)
    };
    // Of 4.19 us a tenth, there and back.
    assert_eq!(held("100ns", "200ns", ""), Vec::<String>::new());
    let long = held("100ns", "300ns", "");
    assert!(
        long.len() == 1 && long[0].contains("0.50 us") && long[0].contains("transport.bdp"),
        "{long:?}"
    );
    assert_eq!(held("100ns", "300ns", ", bdp = '60KB'"), Vec::<String>::new());
    assert_eq!(held("50us", "49us", ", bdp = '2MB'"), Vec::<String>::new());
    let timeout = held("50us", "50us", ", bdp = '2MB'");
    assert!(
        timeout.len() == 1 && timeout[0].starts_with("dctcp: ") && timeout[0].contains("min_rto"),
        "{timeout:?}"
    );
}

#[test]
fn warnings_know_flows_and_shares() {
    let warned = |transport: &str, fabric: &str, pairs: &[(u32, u32)]| {
        let flow = |(a, b): &(u32, u32)| format!("{{ src = 'h{a}', dst = 'h{b}' }}");
        let flows: Vec<String> = pairs.iter().map(flow).collect();
        let flows = flows.join(", ");
        let text = format!(
            "duration = '1ms'\nfabric = {{ {fabric} }}\ntransport = {{ {transport} }}\nflows = \
             [{flows}]"
        );
        plan(&text).warnings
    };
    // No flow uses the near pairs of this fabric, so tau is not too long.
    let theta = "protocol = 'theta-powertcp', params = { beta = '30KB' }";
    assert_eq!(warned(theta, "kind = 'fat-tree', k = 4", &[(0, 8)]), Vec::<String>::new());
    let near = warned(theta, "kind = 'fat-tree', k = 4", &[(0, 8), (0, 1)]);
    assert!(near.len() == 1 && near[0].contains("tau is"), "{near:?}");
    // The share of each of many flows is a small window.
    let poseidon = "protocol = 'poseidon', preset = '10g'";
    let star = "kind = 'star', hosts = 201, host_link = { rate = '10Gbps', delay = '1us' }";
    let many: Vec<(u32, u32)> = (0..200).map(|src| (src, 200)).collect();
    assert_eq!(warned(poseidon, star, &many[..20]), Vec::<String>::new());
    let small = warned(poseidon, star, &many);
    assert!(small.len() == 1 && small[0].contains("set min_cwnd = "), "{small:?}");
    // Windows of a BDP, 48 packets, wait for acknowledgements.
    let thin = |protocol: &str, every: u32| {
        let params = format!("additive = '54B', ack_every = {every}");
        let params = if protocol == "hpcc" { params } else { format!("ack_every = {every}") };
        let transport = format!("protocol = '{protocol}', params = {{ {params} }}");
        warned(&transport, "kind = 'star', mtu = '1000B'", &[(0, 1)])
    };
    let idle = thin("hpcc", 12);
    assert!(idle.len() == 1 && idle[0].contains("23 per cent of a link idle"), "{idle:?}");
    assert!(idle[0].ends_with("set ack_every to at most 3"), "{idle:?}");
    assert_eq!((thin("hpcc", 3), thin("dctcp", 12)), (Vec::new(), Vec::new()));
}

#[test]
fn mixed_use_of_priorities_is_warned_of() {
    let text = |second: &str, priorities: u32| {
        format!(
            "duration = '1ms'\nfabric = {{ kind = 'star', hosts = 3 }}\nswitch = {{ routing = \
             'ecmp', priorities = {priorities} }}\n\
             transport = {{ protocol = 'sird' }}\n[[flows]]\nsrc = 'h1'\ndst = \
             'h0'\n[[flows]]\nsrc = 'h2'\ndst = 'h0'\n{second}"
        )
    };
    let warns = |second: &str, priorities| {
        let warnings = plan(&text(second, priorities)).warnings;
        warnings.iter().any(|warning| {
            warning.contains("sird sends some packets above") && warning.contains("swift")
        })
    };
    assert!(warns("protocol = 'swift'", 2));
    assert!(!warns("protocol = 'swift'", 1));
    assert!(!warns("", 2));
    assert!(!warns("protocol = 'swift'\n[protocols.sird]\nparams = { priorities = 'none' }", 2));
}

#[test]
fn coarse_telemetry_is_warned_of() {
    let warnings = |transport: &str, switch: &str| {
        let text = format!(
            "duration = '1ms'\nflows = [{{ src = 'h0', dst = 'h1' }}]\n\
             fabric = {{ kind = 'star', mtu = '1000B', host_link = {{ rate = '200Gbps', delay = \
             '1us' }} }}\nswitch = {{ {switch} }}\ntransport = {{ protocol = {transport} }}"
        );
        plan(&text).warnings
    };
    // A flow at 200 Gbit/s has the target k = 2 us; the base RTT is 4.1 us.
    let quantum = |transport: &str, us: f64| {
        warnings(transport, &format!("telemetry_quantum = '{}ns'", us * 1e3))
    };
    assert_eq!(quantum("'poseidon'", 2.0), Vec::<String>::new());
    let above = "poseidon: the telemetry quantum of 2.5 us exceeds the smallest delay target of 2 \
                 us: the protocol cannot observe queueing delays below the quantum; use a smaller \
                 `switch.telemetry_quantum`";
    assert_eq!(quantum("'poseidon'", 2.5), [above]);
    assert_eq!(quantum("'poseidon', params = { k = '3us' }", 2.5), Vec::<String>::new());
    // Other signals do not use telemetry, and HPCC has no delay target.
    assert_eq!(quantum("'poseidon', params = { signal = 'rtt' }", 3.0), Vec::<String>::new());
    assert_eq!(quantum("'swift'", 50.0), Vec::<String>::new());
    let has = |found: Vec<String>, words: &[&str]| {
        assert!(found.len() == 1 && words.iter().all(|word| found[0].contains(word)), "{found:?}");
    };
    let hpcc = "'hpcc', params = { additive = '54B' }";
    assert_eq!(quantum(hpcc, 4.0), Vec::<String>::new());
    has(quantum(hpcc, 4.5), &["hpcc: the telemetry quantum of 4.5 us", "base RTT of 4.0"]);
    for transport in ["'tide'", "'sird', params = { network_signal = 'peak-hop-delay' }"] {
        has(quantum(transport, 20.0), &["quantum of 20 us", "smallest delay target of "]);
    }
    let old = |us: u32| warnings("'poseidon'", &format!("telemetry_period = '{us}us'"));
    assert_eq!(old(4), Vec::<String>::new());
    let words =
        ["telemetry period of 5 us", "base RTT of 4.0", "smaller `switch.telemetry_period`"];
    has(old(5), &words);
}

/// Warnings of keys without effect, for a star of four hosts.
fn no_effect(text: &str) -> Vec<String> {
    let text = format!("duration = '1ms'\nfabric = {{ kind = 'star', hosts = 4 }}\n{text}");
    let mut warnings = plan(&text).warnings;
    warnings.retain(|warning| warning.contains(" no effect "));
    warnings
}

#[test]
fn parameters_without_effect_are_named() {
    let found = |params: &str| {
        no_effect(&format!(
            "transport = {{ protocol = 'poseidon', params = {{ {params} }} }}\n\
             flows = [{{ src = 'h0', dst = 'h1' }}]"
        ))
    };
    let plb = "poseidon.plb_rounds, poseidon.plb_suspend have no effect without \
               plb = \"rounds\"";
    assert_eq!(found("plb_rounds = 7, plb_suspend = '1ms'"), [plb]);
    assert_eq!(found("plb_rounds = 7, plb = 'rounds'"), [""; 0]);
    let power = "poseidon.q has no effect without target = \"power-rate\" or \
                 \"power-cwnd\"";
    assert_eq!(found("q = -0.25"), [power]);
    assert_eq!(found("q = -0.25, target = 'power-cwnd'"), [""; 0]);
    // A default, which a resolved scenario lists, is no intention.
    assert_eq!(found("q = -0.5, plb_rounds = 12"), [""; 0]);
    let paths = "poseidon.paths has no effect without multipath other than \"off\"";
    assert_eq!(found("paths = 8"), [paths]);
}

#[test]
fn overruled_parameters_are_named() {
    let found = |switch: &str, transport: &str| {
        no_effect(&format!(
            "switch = {{ buffer = '8MB', {switch} }}\ntransport = {{ {transport} }}\n\
             protocols = {{ dcqcn = {{ params = {{ kmin = '5KB' }} }}, \
             dctcp = {{ params = {{ g = 0.5 }} }} }}\nflows = [{{ src = 'h0', dst = 'h1' }}]"
        ))
    };
    let dcqcn = "protocol = 'dcqcn', params = { pmax = 0.5, timer = '1ms' }";
    let expected = "dcqcn.kmin, dcqcn.pmax have no effect because \
                    switch.ecn is set";
    assert_eq!(found("ecn = { kmin = '100KB' }", dcqcn), [expected]);
    assert_eq!(found("routing = 'ecmp'", dcqcn), [""; 0]);
    let ndp = "protocol = 'ndp', params = { queue = '90KB', pull_rate = 0.9 }";
    let expected = "ndp.queue has no effect because switch.trimming.data is set";
    assert_eq!(found("trimming = { data = '50KB' }", ndp), [expected]);
    assert_eq!(found("trimming = { victim = 'arriving' }", ndp), [""; 0]);
    // The choice of a signal is more than the marking that one of the signals needs.
    let sird = "protocol = 'sird', params = { network_signal = 'delay' }";
    assert_eq!(found("ecn = { kmin = '100KB' }", sird), [""; 0]);
    let set = "override = [{ match = 'tor0', ecn = { kmin = '9KB' } }]";
    let expected = "dcqcn.kmin, dcqcn.pmax have no effect because \
                    switch.override[].ecn is set";
    assert_eq!(found(set, dcqcn), [expected]);
}

#[test]
fn a_parameter_that_some_traffic_uses_has_effect() {
    let found = |rows: &str| {
        no_effect(&format!(
            "transport = {{ protocol = 'poseidon', params = {{ plb_rounds = 5 }} }}\n\
             traffic = [{rows}]"
        ))
    };
    let plain = "{ kind = 'permutation', sizes = '1KB' }";
    let plb = "{ kind = 'permutation', sizes = '1KB', params = { plb = 'rounds' } }";
    assert_eq!(found(&format!("{plain}, {plb}")), [""; 0]);
    assert_eq!(found(&format!("{plb}, {plain}")), [""; 0]);
    assert_eq!(found(plain).len(), 1);
}

#[test]
fn resolved_scenarios_repeat_trimming_and_warnings() {
    for (protocol, params, switch) in [
        ("ndp", "", ""),
        ("ndp", "", "trimming = { header_weight = 'strict' }"),
        ("smartt", "", "trimming = { header_weight = 'strict', data = '90KB' }"),
        ("nscc", "", "trimming = { header_weight = 3 }"),
        ("ndp", "return_to_sender = true", "trimming = { return_to_sender = false }"),
        ("eqds", "queue = '1KB'", ""),
    ] {
        let text = format!(
            "duration = '1ms'\nfabric = {{ kind = 'star', hosts = 4 }}\nswitch = {{ {switch} }}\n\
             transport = {{ protocol = '{protocol}', params = {{ {params} }} }}\n\
             flows = [{{ src = 'h0', dst = 'h1' }}]"
        );
        let first = plan(&text);
        let again = load(&document(&resolved(&first)), &beside("x.toml"), &[]).unwrap();
        assert_eq!(again, first, "{text}");
        assert_eq!(content_hash(&again), content_hash(&first), "{text}");
    }
}

#[test]
fn plans_list_parameters_without_effect() {
    let text = |switch: &str| {
        format!(
            "duration = '1ms'\nfabric = {{ kind = 'star' }}\nswitch = {{ {switch} }}\n\
             transport = {{ protocol = 'dcqcn' }}\nflows = [{{ src = 'h0', dst = 'h1' }}]"
        )
    };
    let names = |switch: &str| -> Vec<&'static str> {
        plan(&text(switch)).ineffective.iter().map(|of| of.parameter).collect()
    };
    let (plain, set) = (names("buffer = '8MB'"), names("buffer = '8MB', ecn = { kmin = '9KB' }"));
    assert!(plain.contains(&"decrease_interval") && !plain.contains(&"kmin"), "{plain:?}");
    assert!(["kmin", "kmax", "pmax"].iter().all(|name| set.contains(name)), "{set:?}");
}

#[test]
fn parameters_of_an_unused_protocol_are_named() {
    let found = |transport: &str| {
        no_effect(&format!(
            "transport = {{ protocol = 'dctcp', {transport} }}\n\
             flows = [{{ src = 'h0', dst = 'h1', protocol = 'swift' }}]"
        ))
    };
    let expected = "dctcp.g has no effect because no flow uses dctcp";
    assert_eq!(found("params = { g = 0.5 }"), [expected]);
    assert_eq!(found("preset = 'sird'"), [""; 0]);
    assert_eq!(found("connections = 'per-pair'"), [""; 0]);
}

#[test]
fn ignored_weights_are_named() {
    let found = |transport: &str| {
        no_effect(&format!(
            "transport = {{ {transport} }}\nflows = [{{ src = 'h0', dst = 'h1', label = 'a', \
             weight = 4 }}]\ntraffic = [{{ kind = 'permutation', sizes = '1KB', weight = 1 }}]"
        ))
    };
    assert_eq!(
        found("protocol = 'dctcp'"),
        ["flows[0].weight has no effect under dctcp: the protocol has no weights"]
    );
    let policies = found("protocol = 'sird'");
    assert!(policies.len() == 1 && policies[0].contains("set one to \"weighted\""), "{policies:?}");
    assert_eq!(found("protocol = 'sird', params = { sender_policy = 'weighted' }"), [""; 0]);
}

#[test]
fn keys_that_need_another_key_are_named() {
    let found = |more: &str| {
        no_effect(&format!(
            "transport = {{ protocol = 'dctcp' }}\nflows = [{{ src = 'h0', dst = 'h1' }}]\n{more}"
        ))
    };
    for (text, expected) in [
        ("output = { ports = 'tor0>h1' }", "output.ports has no effect without output.timeseries"),
        (
            "output = { timeseries = '2ms' }",
            "output.timeseries has no effect beyond a sample at the end, because the run ends",
        ),
        (
            "switch = { ecn = { kmin = '9KB', pmax = 0.5 } }",
            "switch.ecn.pmax has no effect without a kmax above kmin",
        ),
        (
            "faults = { reorder_delay = '5us' }",
            "faults.reorder_delay has no effect without faults.reordering",
        ),
        (
            "traffic = [{ kind = 'closed-loop', request = '1KB', reply = '1KB', think_times = \
             'exponential' }]",
            "traffic[0].think_times has no effect without think",
        ),
    ] {
        let warnings = found(text);
        assert!(warnings.len() == 1 && warnings[0].starts_with(expected), "{text}: {warnings:?}");
    }
    for text in [
        "output = { timeseries = '1ms', ports = 'tor0>h1' }",
        "switch = { ecn = { kmin = '9KB', kmax = '99KB', pmax = 0.5 } }",
        "switch = { ecn = { kmin = '9KB', pmax = 1.0 } }",
        "faults = { reorder_delay = '10us' }",
        "faults = { reorder_delay = '5us', reordering = 0.1 }",
    ] {
        assert_eq!(found(text), [""; 0], "{text}");
    }
}
