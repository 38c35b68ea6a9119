//! Traffic of valid scenarios: flows, generators, collectives and sizes.

use super::plan;
use crate::common::{GRAPH, RACKS, beside, document, patched};
use tidegate_core::collective::{Collective, Op, Stragglers};
use tidegate_core::workload::{Pattern, Sampling, Sizes};
use tidegate_core::{Span, Time};
use tidegate_scenario::{Plan, content_hash, load, resolved};

#[test]
fn loads_refer_to_their_base() {
    let text = |lines: &str| {
        format!(
            "duration = '1ms'\n[fabric]\npreset = 'powertcp-fat-tree'\n[transport]\nprotocol = \
             'swift'\n\
             [[traffic]]\nsizes = 'powertcp-websearch'\n{lines}"
        )
    };
    let gap = |lines: &str| match &plan(&text(lines)).workload.traffic[0].pattern {
        Pattern::Poisson { mean_gap_ps, .. } => *mean_gap_ps,
        Pattern::Incast { interval, .. } => interval.as_ps() as f64,
        other => panic!("{other:?}"),
    };
    let mean_bits = 1_711_222.0 * 8e12;
    let near = |ours: f64, expected: f64| {
        assert!((ours / expected - 1.0).abs() < 1e-6, "{ours} {expected}")
    };
    near(gap("kind = 'poisson'\nload = 0.5"), mean_bits / 12.5e9);
    near(gap("kind = 'poisson'\nload = '50%'"), mean_bits / 12.5e9);
    // 200 Gbit/s of uplinks for 32 hosts.
    near(
        gap("kind = 'poisson'\nload = 0.5\nload_base = 'rack-uplinks'"),
        mean_bits / (0.5 * 6.25e9),
    );
    near(gap("kind = 'poisson'\nrate = '2Gbps'\nsenders = 'h[0-9]'"), mean_bits / 2e9);
    near(gap("kind = 'poisson'\nload = 0.5\nmean = '1MB'"), 8e18 / 12.5e9);
    near(
        gap("kind = 'incast'\nfan_in = 10\nload = 0.07"),
        10.0 * mean_bits / (0.07 * 256.0 * 25e9),
    );
}

#[test]
fn flows_repeat_for_consecutive_pairs() {
    let text = |more: &str| {
        format!(
            "duration = '1ms'\n[fabric]\nkind = 'leaf-spine'\nracks = 2\nhosts_per_rack = 3\n\
             [transport]\nprotocol = 'swift'\n\
             [[flows]]\nsrc = 'h0'\ndst = 'h3'\ncount = 2\n{more}\n\
             [[flows]]\nsrc = 'h5'\ndst = 'h0'\nprotocol = 'dctcp'\n"
        )
    };
    let plan = plan(&text("pairs = 3"));
    let ends: Vec<_> = plan.workload.flows.iter().map(|flow| (flow.src, flow.dst)).collect();
    assert_eq!(ends, [(0, 3), (0, 3), (1, 4), (1, 4), (2, 5), (2, 5), (5, 0)]);
    // The parameters of a later flow are its own.
    assert_eq!(plan.resolved["flows"][1]["params"]["g"], 0.0625);
    let error = load(&text("pairs = 4"), "x.toml", &[]).unwrap_err().to_string();
    assert!(
        error.contains("pairs: found 4, expected at most 3, because the fabric has 6"),
        "{error}"
    );
}

#[test]
fn requests_and_closed_loops_are_compiled() {
    let text = "duration = '1ms'\n[fabric]\nkind = 'leaf-spine'\nracks = 2\nhosts_per_rack = 3\n\
                [transport]\nprotocol = 'swift'\n\
                [[traffic]]\nkind = 'requests'\nsizes = '2MB'\nfan_in = 3\nper_second = 4\n\
                askers = 'h[1-2]'\n\
                [[traffic]]\nkind = 'closed-loop'\nrequest = '200B'\nreply = 'websearch'\n\
                label = 'ask'\nreply_label = 'reply'\nclients = 'h[0-1]'\nper_host = 2\n\
                servers = 'h[3-5]'\nthink = '5us'\nthink_times = 'exponential'\n\
                [[traffic]]\nkind = 'closed-loop'\nrequest = '1KB'\nreply = '1KB'\nlabel = 'ask'";
    let plan = plan(text);
    let [requests, closed, plain] = &plan.workload.traffic[..] else { panic!("three blocks") };
    let racks = vec![vec![0, 1, 2], vec![3, 4, 5]];
    let expected = Pattern::Requests { mean_gap_ps: 250e9, askers: vec![1, 2], racks, fan_in: 3 };
    assert_eq!((&requests.pattern, &requests.sizes), (&expected, &Sizes::Fixed(2_000_000)));
    let Pattern::ClosedLoop { clients, servers, replies, reply_label, think, exponential } =
        &closed.pattern
    else {
        panic!("{closed:?}")
    };
    assert_eq!((&clients[..], &servers[..]), (&[0, 0, 1, 1][..], &[3, 4, 5][..]));
    assert!(matches!(replies, Sizes::Drawn(_)) && closed.sizes == Sizes::Fixed(200));
    let label = |number: u16| plan.labels[usize::from(number)].as_str();
    assert_eq!([label(closed.label), label(*reply_label)], ["ask", "reply"]);
    assert_eq!((*think, *exponential), (Span::us(5), true));
    let Pattern::ClosedLoop { clients, servers, reply_label, think, exponential, .. } =
        &plain.pattern
    else {
        panic!("{plain:?}")
    };
    assert_eq!((clients.len(), servers.len(), label(*reply_label)), (6, 6, "ask"));
    assert_eq!((*think, *exponential), (Span::ZERO, false));
}

#[test]
fn other_generators_and_replies_are_compiled() {
    let head = "duration = '1ms'\n[fabric]\nkind = 'star'\nhosts = 12\n\
                [transport]\nprotocol = 'swift'\n";
    let block = "[[traffic]]\nkind = 'poisson'\nsizes = 'wkc'\nload = 0.5\nreply = '4B'\n";
    let plan = plan(&format!(
        "{head}{block}{block}reply_label = 'back'\ngenerator = 'sird-simulator'\nstart = '200us'\n"
    ));
    let [own, theirs] = &plan.workload.traffic[..] else { panic!("two blocks") };
    let label = |number: u16| plan.labels[usize::from(number)].as_str();
    for (block, name) in [(own, "reply"), (theirs, "back")] {
        let Pattern::Answered { of, replies, reply_label } = &block.pattern else {
            panic!("{block:?}")
        };
        assert_eq!((replies, label(*reply_label)), (&Sizes::Fixed(4), name));
        match &**of {
            Pattern::Poisson { senders, .. } => assert_eq!(senders.len(), 12),
            Pattern::Trace(list) => {
                let first = list.first().unwrap().at;
                assert!((Time::us(200)..Time::us(300)).contains(&first), "{first}");
            }
            other => panic!("{other:?}"),
        }
    }
}

#[test]
fn collectives_are_compiled() {
    let text = "duration = '1ms'\n[fabric]\nkind = 'star'\nhosts = 12\n\
                [transport]\nprotocol = 'swift'\n\
                [[traffic]]\nkind = 'collective'\nop = 'ring-all-reduce'\nsize = '1MB'\n\
                hosts = ['h5', 'h1*', 'h5', 'h0']\nranks = 4\nchunks = 3\niterations = 7\n\
                compute = '20us'\nlabel = 'train'\nstart = '5us'\n\
                [[traffic]]\nkind = 'collective'\nop = 'moe'\nsize = '12MB'\nskew = 1\n\
                hosts = 'h[0-1]'\n\
                [[traffic]]\nkind = 'collective'\nop = 'all-to-all'\nsize = '12MB'\n\
                [[traffic]]\nkind = 'collective'\nop = 'chain'\nsize = '100B'\nreply = '5KB'";
    let plan = plan(text);
    let of = |number: usize| match &plan.workload.traffic[number].pattern {
        Pattern::Collective(of) => of.clone(),
        other => panic!("{other:?}"),
    };
    let ring = Collective {
        op: Op::RingAllReduce,
        // In order of the list, without duplicates.
        hosts: vec![5, 1, 10, 11],
        bytes: 1_000_000,
        chunks: 3,
        iterations: 7,
        compute: Span::us(20),
        stragglers: Stragglers::default(),
    };
    assert_eq!(of(0), ring);
    assert_eq!(plan.workload.traffic[0].start, Time::us(5));
    let moe = of(1);
    // 1 and 1/2 of 3/2.
    assert_eq!(moe.op, Op::Experts { loads: vec![8_000_000, 4_000_000], combine: true });
    assert_eq!((moe.hosts, moe.chunks, moe.iterations), (vec![0, 1], 1, 1));
    assert_eq!((of(2).op, of(2).hosts.len()), (Op::AllToAll, 12));
    assert_eq!(of(3).op, Op::Chain { reply: 5_000 });
    assert_eq!(load(&document(&resolved(&plan)), &beside("x.toml"), &[]).unwrap(), plan);
}

#[test]
fn too_many_collective_messages_are_refused() {
    let error = |block: &str, blocks: usize| {
        let head = "duration = '1ms'\n[fabric]\nkind = 'star'\nhosts = 1000\n\
                    [transport]\nprotocol = 'swift'\n";
        let block = format!("[[traffic]]\nkind = 'collective'\nsize = '1GB'\n{block}\n");
        load(&(head.to_owned() + &block.repeat(blocks)), "x.toml", &[]).unwrap_err().to_string()
    };
    let ring = error("op = 'ring-all-reduce'\nchunks = 9", 1);
    let expected = "traffic[0].op: found 17982000 messages per iteration in all collectives and \
                    jobs up to this one, expected at most 16777216: use fewer ranks or chunks";
    assert!(ring.ends_with(expected), "{ring}");
    // 999,000 messages each.
    assert!(error("op = 'all-to-all'", 17).contains("traffic[16].op"));
    let many = error("op = 'tree-all-reduce'\nranks = 2", 1025);
    assert!(
        many.ends_with(
            "traffic[1024].kind: found collective or job number 1025, expected at most \
             1024 collectives and jobs"
        ),
        "{many}"
    );
}

#[test]
fn sizes_come_from_files_and_by_any_spelling() {
    let drawn = |sizes: &str| match &plan(&patched(
        GRAPH,
        "sizes = \"websearch\"",
        &format!("sizes = {sizes}"),
    ))
    .workload
    .traffic[0]
        .sizes
    {
        Sizes::Drawn(distribution) => distribution.clone(),
        other => panic!("{other:?}"),
    };
    let file = drawn("\"sizes.csv\"");
    assert_eq!(file.points, [(1000.0, 0.0), (3000.0, 0.5), (5000.0, 1.0)]);
    assert!((file.mean_bytes - 3000.0).abs() < 1e-9);
    assert_eq!(drawn("\"sizes.csv\"\nsampling = \"step\"").mean_bytes, 4000.0);
    let wka = drawn("\"WKa\"");
    assert_eq!((wka.sampling, wka.mean_bytes), (Sampling::Logarithmic, 2927.354));
    assert_eq!(drawn("\"wka_google_all_rpc\""), wka);
    assert!((drawn("\"wka\"\nsampling = \"linear\"").mean_bytes - 2890.0).abs() < 1.0);
    // SIRD's section 5.3: 99 % of WKa's messages, and 40 % of its bytes, are below a BDP.
    let drawn: Vec<f64> =
        (0..200_000).map(|i| wka.quantile((i as f64 + 0.5) / 200_000.0)).collect();
    let below = || drawn.iter().filter(|&&bytes| bytes < 100_000.0);
    let messages = below().count() as f64 / drawn.len() as f64;
    let bytes = below().sum::<f64>() / drawn.iter().sum::<f64>();
    assert!((messages - 0.99).abs() < 0.01 && (bytes - 0.4).abs() < 0.05, "{messages}, {bytes}");
}

#[test]
fn weights_belong_to_labels() {
    let weights = |flows: &str| {
        let plan = plan(&format!("{RACKS}\n{flows}"));
        (plan.labels, plan.setup.weights)
    };
    let flow = |rest: &str| format!("[[flows]]\nsrc = 'h1'\ndst = 'h6'\n{rest}\n");
    let without = weights(&flow("label = 'a'")).1;
    assert!(without.is_empty());
    let (labels, found) = weights(&format!(
        "{}{}{}{}",
        flow("label = 'a'"),
        flow("label = 'b'\nweight = 31"),
        flow("label = 'a'\nweight = 4"),
        flow("label = 'a'")
    ));
    let of = |name: &str| found[labels.iter().position(|label| label == name).unwrap()];
    assert_eq!([of(""), of("a"), of("b")], [1, 4, 31]);
}

#[test]
fn a_scaled_trace_starts_earlier() {
    let scaled = |scale: &str| {
        let text =
            patched(RACKS, "file = \"trace.csv\"", &format!("file = \"trace.csv\"\n{scale}"));
        plan(&text)
    };
    let starts = |plan: &Plan| match &plan.workload.traffic[4].pattern {
        Pattern::Trace(arrivals) => arrivals.iter().map(|of| of.at.as_ps()).collect::<Vec<_>>(),
        other => panic!("{other:?}"),
    };
    let [once, twice, same] = ["", "scale = 2", "scale = 1.0"].map(scaled);
    assert_eq!(starts(&once), [0, 1, 2_500_000]);
    assert_eq!(starts(&twice), [0, 1, 1_250_000], "rounded to a picosecond");
    // Without the key, hashes are those of before; 1 is the default.
    let hashes = [&once, &twice, &same].map(content_hash);
    assert!(hashes[0] == hashes[2] && hashes[0] != hashes[1]);
}

/// A scale that the length of the run does not follow is reported, with the remedies.
#[test]
fn a_scaled_trace_needs_a_scaled_run() {
    let warnings = |scale: &str, run: &str| {
        plan(&format!(
            "{run}\nfabric = {{ kind = 'star', hosts = 8 }}\ntransport = {{ protocol = 'swift' }}\n\
             [[traffic]]\nkind = 'trace'\nfile = 'trace.csv'\n{scale}"
        ))
        .warnings
    };
    // The last message starts at 2.5us.
    let [short, exact] = ["duration = \"2600ns\"", "duration = \"1300ns\""];
    assert_eq!(warnings("", short), Vec::<String>::new());
    let twice = warnings("scale = 2", short);
    for words in ["at 1.25us instead of 2.5us", "`duration` and `warmup`", "until = \"done\""] {
        assert!(twice.len() == 1 && twice[0].contains(words), "{words}: {twice:?}");
    }
    let done = format!("{short}\nuntil = \"done\"");
    for (scale, run) in [("scale = 2", exact), ("scale = 2", &done), ("scale = 1", short)] {
        assert_eq!(warnings(scale, run), Vec::<String>::new(), "{scale}, {run}");
    }
    let half = warnings("scale = 0.5", short);
    let late = "trace.csv: 1 of 3 messages start after the end of the run at 2.6us and are not \
                sent: set `duration` to more than 5us";
    assert!(half.len() == 1 && half[0].starts_with(late), "{half:?}");
}

/// The times of a list count from `start`, and `stop` ends it.
#[test]
fn start_shifts_and_stop_ends_a_trace() {
    let found = |file: &str, start: &str, stop: &str| {
        let plan = plan(&format!(
            "duration = '2600ns'\nfabric = {{ kind = 'star', hosts = 8 }}\n\
             transport = {{ protocol = 'swift' }}\n[[traffic]]\nkind = 'trace'\n\
             file = '{file}'\nscale = 2\nstart = '{start}'\nstop = '{stop}'"
        ));
        let Pattern::Trace(arrivals) = &plan.workload.traffic[0].pattern else { panic!() };
        let starts = arrivals.iter().map(|arrival| arrival.at.as_ps()).collect();
        (starts, plan.warnings)
    };
    // The third message would start at 2.25us. A list that `stop` cuts has no length that the run
    // could be too long for.
    let none = Vec::<String>::new();
    assert_eq!(found("trace.csv", "1us", "2us"), (vec![1_000_000, 1_000_001], none.clone()));
    assert_eq!(found("trace.csv", "1us", "1000001ps"), (vec![1_000_000], none.clone()));
    assert_eq!(found("trace.csv", "0us", "1us"), (vec![0, 1], none));
    let cut = vec!["late.csv: all 2 messages start after `stop`, and none is sent".to_owned()];
    assert_eq!(found("late.csv", "0us", "2us"), (vec![], cut));
}
