//! Traffic of the kind `job`: Chakra traces, and errors in them.

use prost::Message;
use tidegate_core::Span;
use tidegate_core::job::{Computation, Job, Schedule};
use tidegate_scenario::chakra::{Attribute, Bools, Kind, Metadata, Node, Operation, Value};
use tidegate_scenario::{InputFiles, Portable, load_file, portable};

use crate::common::document;
use crate::jobs::{Place, job, needs, sent};

/// The job of these nodes by rank, or the error.
fn chakra(place: &Place, ranks: &[Vec<Node>], keys: &str) -> Result<Job, String> {
    for (rank, nodes) in ranks.iter().enumerate() {
        place.write(&format!("x.{rank}.et"), trace(nodes));
    }
    place.load(&format!("file = 'x.*.et'\n{keys}")).map(|plan| job(&plan, 0))
}

fn trace(nodes: &[Node]) -> Vec<u8> {
    let mut bytes = Metadata { version: "0.0.4".into() }.encode_length_delimited_to_vec();
    nodes.iter().for_each(|node| bytes.extend(node.encode_length_delimited_to_vec()));
    bytes
}

fn node(id: u64, kind: Kind, after: &[u64], attributes: &[(&str, Value)]) -> Node {
    let attribute = |(name, value): &(&str, Value)| Attribute {
        name: (*name).into(),
        value: Some(value.clone()),
    };
    Node {
        id,
        name: format!("n{id}"),
        kind: kind.into(),
        ctrl_deps: Vec::new(),
        data_deps: after.to_vec(),
        duration_micros: 0,
        attr: attributes.iter().map(attribute).collect(),
    }
}

fn collective(id: u64, operation: Operation, bytes: i64) -> Node {
    let operation = Value::Int64(operation as i64);
    node(id, Kind::Collective, &[], &[("comm_type", operation), ("comm_size", Value::Int64(bytes))])
}

fn compute(id: u64, micros: u64) -> Node {
    Node { duration_micros: micros, ..node(id, Kind::Compute, &[], &[]) }
}

/// Two ranks compute, reduce and pass a message on, in a file whose nodes are out of order.
#[test]
fn chakra_trace_is_compiled() {
    let place = Place::new();
    let own = |rank: i32| {
        let other = 1 - rank;
        let (kind, peer) =
            if rank == 0 { (Kind::Send, "comm_dst") } else { (Kind::Receive, "comm_src") };
        let size = ("comm_size", Value::Uint64(500));
        let message = [(peer, Value::Int32(other)), ("comm_tag", Value::Int32(3)), size];
        let mut reduce = collective(7, Operation::AllReduce, 1_001);
        reduce.data_deps = vec![5, 5];
        reduce.ctrl_deps = vec![5];
        let on_processor = ("is_cpu_op", Value::Bool(true));
        vec![
            reduce,
            compute(5, 20),
            node(9, kind, &[7], &message),
            Node { duration_micros: 3, ..node(11, Kind::MemoryLoad, &[], &[on_processor]) },
            node(12, Kind::Metadata, &[], &[]),
        ]
    };
    let job = chakra(&place, &[own(0), own(1)], "").unwrap();
    // Computation, three rounds of a ring of two ranks, message, memory, metadata.
    for rank in [0, 1] {
        assert_eq!(job.computation(rank, 0), Some(Computation { span: Span::us(20), stream: 0 }));
        assert_eq!(job.computation(rank, 5), Some(Computation { span: Span::us(3), stream: 1 }));
    }
    assert_eq!(needs(&job, 0), [0, 1, 2, 2, 1, 0, 0]);
    assert_eq!(needs(&job, 1), [0, 1, 2, 2, 2, 0, 0]);
    assert_eq!(sent(&job, 0), [(1, 1, 2, 501), (2, 1, 3, 500), (4, 1, 4, 500)]);
    assert_eq!(sent(&job, 1), [(1, 0, 2, 500), (2, 0, 3, 501)]);
}

/// Traces, and two files by relative and absolute names.
#[test]
fn a_portable_scenario_has_its_files_beside_it() {
    let place = Place::new();
    chakra(&place, &[vec![compute(1, 20)], vec![compute(1, 30)]], "").unwrap();
    let inner = place.path().join("inner");
    std::fs::create_dir(&inner).unwrap();
    for (name, bytes) in [("a.csv", 1_000), ("inner/a.csv", 2_000)] {
        place.write(name, format!("size_bytes,cdf\n{bytes},1\n"));
    }
    let absolute = inner.join("a.csv").display().to_string();
    let traffic = ["a.csv", &absolute, "./a.csv", "inner/a.csv"].map(|name| {
        format!("[[traffic]]\nkind = 'poisson'\nload = 0.1\nlabel = 'x'\nsizes = '{name}'\n")
    });
    let plan = place.load(&format!("file = 'x.*.et'\n{}", traffic.concat())).unwrap();
    let Portable { scenario, files } = portable(&plan, "files");
    let folder = tempfile::tempdir().unwrap();
    for (name, original) in files {
        let path = folder.path().join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::copy(original, path).unwrap();
    }
    std::fs::remove_file(place.path().join("a.csv")).unwrap();
    std::fs::remove_file(place.path().join("x.1.et")).unwrap();
    let path = folder.path().join("x.toml");
    std::fs::write(&path, document(&scenario)).unwrap();
    let again = load_file(&path, &[]).unwrap();
    assert_eq!(again.workload, plan.workload);
    // Two names of one file have one copy, and two files have two.
    let names: Vec<&str> = InputFiles::names(&scenario).collect();
    let expected = ["files/x.*.et", "files/a.csv", "files/1/a.csv", "files/a.csv", "files/1/a.csv"];
    assert_eq!(names, expected);
}

#[test]
fn chakra_collectives_send_what_they_must() {
    let place = Place::new();
    let total = |operation, keys: &str| {
        let ranks: Vec<_> = (0..4).map(|_| vec![collective(1, operation, 800)]).collect();
        let job = chakra(&place, &ranks, keys).unwrap();
        let all = (0..4).flat_map(|rank| sent(&job, rank));
        let sizes: Vec<u64> = all.map(|(.., bytes)| bytes).collect();
        (sizes.len(), sizes.iter().sum::<u64>())
    };
    assert_eq!(total(Operation::AllReduce, ""), (24, 4_800));
    assert_eq!(total(Operation::AllReduce, "all_reduce = 'tree'"), (6, 4_800));
    assert_eq!(total(Operation::ReduceScatter, ""), (12, 2_400));
    assert_eq!(total(Operation::ReduceScatterBlock, ""), (12, 2_400));
    // Each rank contributes 800 bytes.
    assert_eq!(total(Operation::AllGather, ""), (12, 9_600));
    assert_eq!(total(Operation::AllToAll, ""), (12, 2_400));
    assert_eq!(total(Operation::Broadcast, ""), (3, 2_400));
    assert_eq!(total(Operation::Reduce, ""), (3, 2_400));
    assert_eq!(total(Operation::Barrier, ""), (6, 6));
}

#[test]
fn process_groups_have_their_own_collectives() {
    let place = Place::new();
    place.write("groups.json", "{\"a\": [0, 3], \"b\": [2, 1]}");
    let in_group = |name: &str| {
        let mut node = collective(1, Operation::Broadcast, 10);
        node.attr.push(Attribute { name: "pg_name".into(), value: Some(Value::Text(name.into())) });
        vec![node]
    };
    let ranks: Vec<_> = ["a", "b", "b", "a"].map(in_group).into();
    let job = chakra(&place, &ranks, "groups = 'groups.json'").unwrap();
    assert_eq!((sent(&job, 0), sent(&job, 2)), (vec![(0, 3, 0, 10)], vec![(0, 1, 0, 10)]));
    assert_eq!((sent(&job, 1), sent(&job, 3)), (vec![], vec![]));
    assert_eq!(
        chakra(&place, &ranks, "").unwrap_err(),
        "x.0.et: found pg_name = \"a\" in node 1 (n1), expected the key groups with a JSON file \
         that lists the ranks of this group"
    );
    place.write("groups.json", "{\"a\": [0, 3], \"b\": [2, 4]}");
    assert_eq!(
        chakra(&place, &ranks, "groups = 'groups.json'").unwrap_err(),
        "groups.json: found rank 4 in the process group \"b\", expected a rank from 0 to 3, \
         because there are 4 traces"
    );
    place.write("groups.json", "{\"a\": [0, 3], \"b\": [3]}");
    assert_eq!(
        chakra(&place, &ranks, "groups = 'groups.json'").unwrap_err(),
        "x.1.et: found pg_name = \"b\" in node 1 (n1), expected a process group with rank 1, the \
         rank of the file"
    );
    place.write("groups.json", "{\"a\": [0, 3]}");
    assert_eq!(
        chakra(&place, &ranks, "groups = 'groups.json'").unwrap_err(),
        "x.1.et: found pg_name = \"b\" in node 1 (n1), expected a process group of the JSON file \
         that the key groups names"
    );
    place.write("groups.json", "{\"a\": [0, 0]}");
    assert_eq!(
        chakra(&place, &ranks, "groups = 'groups.json'").unwrap_err(),
        "groups.json: found [0,0] for \"a\", expected a JSON object with a list of different ranks \
         for each process group, such as {\"0\": [0, 1]}"
    );
    // The first list of a key must not give way to the second one.
    place.write("groups.json", "{\"a\": [0, 3], \"b\": [2, 1], \"a\": [3]}");
    assert_eq!(
        chakra(&place, &ranks, "groups = 'groups.json'").unwrap_err(),
        "groups.json: found the key \"a\" twice, expected each process group once: remove one of \
         its lists"
    );
}

/// PyTorch's default group has no name. Calls on the processor, as traces of the schema 1.0.1 have
/// them, only compute.
#[test]
fn calls_of_collectives_are_computations() {
    let place = Place::new();
    let on_processor = [("is_cpu_op", Value::Bool(true))];
    let call = Node { duration_micros: 7, ..node(1, Kind::Collective, &[], &on_processor) };
    let mut kernel = collective(2, Operation::Broadcast, 10);
    kernel.ctrl_deps = vec![1];
    for (name, value) in [("pg_name", Value::Text(String::new())), on_processor[0].clone()] {
        kernel.attr.push(Attribute { name: name.into(), value: Some(value) });
    }
    let nodes = vec![call, kernel];
    let job = chakra(&place, &[nodes.clone(), nodes], "").unwrap();
    assert_eq!(job.computation(0, 0), Some(Computation { span: Span::us(7), stream: 1 }));
    assert_eq!((needs(&job, 0), sent(&job, 0)), (vec![0, 1], vec![(1, 1, 1, 10)]));
    assert_eq!(needs(&job, 1), [0, 2]);
}

/// The control dependency of the first node closes a cycle, and that of the second one is missing.
#[test]
fn ctrl_deps_can_be_ignored() {
    let place = Place::new();
    let cycle = {
        let mut nodes = vec![compute(1, 10), node(2, Kind::Compute, &[1], &[]), compute(3, 5)];
        nodes[0].ctrl_deps = vec![2];
        nodes
    };
    let data = "dependencies = 'data'";
    let kept = chakra(&place, std::slice::from_ref(&cycle), data).unwrap();
    assert_eq!(needs(&kept, 0), [0, 1, 0]);
    let remedy = "dependencies = \"data\", which ignores ctrl_deps";
    let message = format!(
        "x.0.et: found a deadlock of 2 operations, expected operations that do not wait for each \
         other: rank 0, node 1 waits for rank 0, node 2, which waits for the first one; remove one \
         of these dependencies or messages, or set {remedy}"
    );
    assert_eq!(chakra(&place, std::slice::from_ref(&cycle), "").unwrap_err(), message);
    let all = "dependencies = 'all'";
    assert_eq!(chakra(&place, std::slice::from_ref(&cycle), all).unwrap_err(), message);
    // A cycle of data dependencies has no such remedy.
    let mut both = cycle.clone();
    both[0].data_deps = vec![2];
    for keys in ["", data] {
        let error = chakra(&place, std::slice::from_ref(&both), keys).unwrap_err();
        assert!(error.ends_with("remove one of these dependencies or messages"), "{error}");
    }
    let missing = vec![Node { ctrl_deps: vec![7], ..compute(1, 10) }];
    assert_eq!(
        chakra(&place, std::slice::from_ref(&missing), "").unwrap_err(),
        format!(
            "x.0.et: found a dependency on node 7 in node 1 (n1), expected IDs of nodes of this \
             file in ctrl_deps and data_deps, or {remedy}"
        )
    );
    assert_eq!(needs(&chakra(&place, &[missing], data).unwrap(), 0), [0]);
}

#[test]
fn wrong_chakra_traces_are_refused() {
    let place = Place::new();
    let both = |nodes: Vec<Node>| vec![nodes.clone(), nodes];
    let unknown = Node { kind: 8, ..compute(4, 1) };
    let size = |bytes| ("comm_size", Value::Int64(bytes));
    let to = |rank| ("comm_dst", Value::Int32(rank));
    let dims = Value::Bools(Bools { values: vec![true, false] });
    let mut some_dims = collective(2, Operation::AllReduce, 8);
    some_dims.attr.push(Attribute { name: "involved_dim".into(), value: Some(dims) });
    let mut without_value = collective(2, Operation::AllReduce, 8);
    without_value.attr[1].value = None;
    let mut numbered_group = collective(2, Operation::AllReduce, 8);
    let seven = Some(Value::Int64(7));
    numbered_group.attr.push(Attribute { name: "pg_name".into(), value: seven });
    let from_0 = [("comm_src", Value::Int32(0)), size(1)];
    let from_1 = [("comm_src", Value::Int32(1)), size(1)];
    let waits = |from: &[(&str, Value)], peer| {
        vec![node(1, Kind::Receive, &[], from), node(2, Kind::Send, &[1], &[to(peer), size(1)])]
    };
    let cases = [
        (
            both(vec![unknown]),
            "x.0.et: found the node type 8 in node 4 (n4), expected a metadata (1), memory (2, 3), \
             compute (4), send (5), receive (6) or collective node (7): convert the trace with a \
             known schema",
        ),
        (
            both(vec![node(4, Kind::Compute, &[3], &[])]),
            "x.0.et: found a dependency on node 3 in node 4 (n4), expected IDs of nodes of this \
             file in ctrl_deps and data_deps",
        ),
        (
            both(vec![compute(4, 1), compute(4, 1)]),
            "x.0.et: found node 4 twice, expected a different ID for each node of a rank",
        ),
        (
            both(vec![compute(4, 2_000_000_000)]),
            "x.0.et: found a duration of 2000000000 us in node 4 (n4), expected at most 1000s with \
             compute_scale and straggler_factor",
        ),
        (
            both(vec![node(1, Kind::Send, &[], &[to(0), size(2_000_000_000_000_000)])]),
            "x.0.et: found comm_size = 2000000000000000 in node 1 (n1), expected a whole \
             number up to 1000000000000000 in the attribute comm_size",
        ),
        (
            both(vec![node(1, Kind::Send, &[], &[to(2), size(1)])]),
            "x.0.et: found comm_dst = 2 in node 1 (n1), expected a rank from 0 to 1, because there \
             are 2 traces",
        ),
        (
            vec![vec![node(1, Kind::Send, &[], &[to(1), size(1)])]],
            "x.0.et: found comm_dst = 1 in node 1 (n1), expected rank 0, because there is one \
             trace",
        ),
        (
            both(vec![node(1, Kind::Send, &[], &[to(1), size(-5)])]),
            "x.0.et: found comm_size = -5 in node 1 (n1), expected a whole number up to \
             1000000000000000 in the attribute comm_size",
        ),
        (
            both(vec![node(1, Kind::Send, &[], &[to(1), size(5), from_1[0].clone()])]),
            "x.0.et: found comm_src = 1 in node 1 (n1), expected 0, the rank of the file, or no \
             comm_src",
        ),
        (
            both(vec![node(1, Kind::Receive, &[], &[to(1), size(5), from_1[0].clone()])]),
            "x.0.et: found comm_dst = 1 in node 1 (n1), expected 0, the rank of the file, or no \
             comm_dst",
        ),
        (
            both(vec![without_value]),
            "x.0.et: found comm_size with a value of another type in node 2 (n2), expected a whole \
             number up to 1000000000000000 in the attribute comm_size",
        ),
        (
            both(vec![numbered_group]),
            "x.0.et: found pg_name = 7 in node 2 (n2), expected text in the attribute pg_name",
        ),
        (
            both(vec![node(1, Kind::Send, &[], &[to(1)])]),
            "x.0.et: found no comm_size in node 1 (n1), expected the attribute comm_size, a whole \
             number",
        ),
        (
            vec![vec![node(1, Kind::Send, &[], &[to(1), size(1)])], vec![]],
            "x.0.et: found a send without a receive: rank 0, node 1, expected as many receives of \
             rank 1 from rank 0 with tag 0 as sends: add the receive, or remove the send",
        ),
        (
            vec![waits(&from_1, 1), waits(&from_0, 0)],
            "x.0.et: found a deadlock of 4 operations, expected operations that do not wait for \
             each other: rank 0, node 1 waits for rank 1, node 2, which waits for rank 1, node 1, \
             which waits for rank 0, node 2, which waits for the first one; remove one of these \
             dependencies or messages",
        ),
        (
            both(vec![collective(2, Operation::Gather, 8)]),
            "x.0.et: found the collective comm_type = 3 in node 2 (n2), expected all-reduce (0), \
             reduce (1), all-gather (2), broadcast (5), all-to-all (6), reduce-scatter (7, 8) or \
             barrier (9)",
        ),
        (
            both(vec![some_dims]),
            "x.0.et: found involved_dim with a dimension that is left out in node 2 (n2), expected \
             collectives over all dimensions: name their ranks by pg_name and the key groups \
             instead",
        ),
        (
            vec![
                vec![collective(2, Operation::AllReduce, 8)],
                vec![collective(3, Operation::AllReduce, 9)],
            ],
            "x.1.et: found comm_type = 0 of 9 bytes in node 3 (n3), expected the operation and \
             comm_size of node 2 in x.0.et, which is the same collective",
        ),
        (
            vec![vec![collective(2, Operation::AllReduce, 8)], vec![]],
            "x.0.et: found a collective in node 2 without rank 1, expected the same number of \
             collectives of a process group at all its ranks: see x.1.et",
        ),
    ];
    for (ranks, error) in cases {
        assert_eq!(chakra(&Place::new(), &ranks, "").unwrap_err(), error);
    }
    assert_eq!(
        chakra(&place, &both(vec![compute(4, 1)]), "hosts = 'h0'").unwrap_err(),
        "x.0.et: found 2 ranks, expected at most 1 rank, one per host: use a larger fabric, or a \
         job of fewer ranks"
    );
}

/// No cut of a file is read, and none panics.
#[test]
fn truncated_chakra_traces_are_refused() {
    let place = Place::new();
    let whole = trace(&[compute(4, 1_000), collective(5, Operation::Barrier, 1)]);
    let ends = [trace(&[]).len(), trace(&[compute(4, 1_000)]).len()];
    for length in (0..whole.len()).filter(|length| !ends.contains(length)) {
        place.write("x.0.et", &whole[..length]);
        let error = place.load("file = 'x.*.et'").unwrap_err();
        assert!(error.starts_with("x.0.et: found "), "{length}: {error}");
    }
    place.write("x.0.et", &whole[..whole.len() - 1]);
    let error = place.load("file = 'x.*.et'").unwrap_err();
    assert!(
        error.starts_with(
            "x.0.et: found damage in message 2 after the metadata, which begins at byte "
        ) && error.ends_with("expected a complete Chakra trace (.et): record or copy it again"),
        "{error}"
    );
    place.write("x.0.et", [0x1f, 0x8b, 8, 0]);
    assert_eq!(
        place.load("file = 'x.*.et'").unwrap_err(),
        "x.0.et: found a file compressed by gzip, expected a Chakra trace without compression: run \
         gunzip first"
    );
}

/// Peak memory of this process in bytes.
#[cfg(target_os = "linux")]
fn peak_bytes() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    1_024 * line.trim().strip_suffix(" kB").unwrap().parse::<u64>().unwrap()
}

/// A million operations of 1,024 ranks: computing, sending to the next rank, and receiving, in
/// turns. Run it alone and optimised: `cargo test --release -p tidegate-scenario --test main --
/// --ignored --nocapture large_jobs`.
#[cfg(target_os = "linux")]
#[test]
#[ignore = "takes seconds, and needs a process of its own"]
#[allow(clippy::disallowed_types, reason = "it measures the reader")]
fn large_jobs_load_in_time_and_memory() {
    use std::fmt::Write;
    const RANKS: u64 = 1_024;
    const STEPS: u64 = 326;
    let place = Place::new();
    let load = |file: &str| {
        place.write(
            "x.toml",
            format!(
                "duration = '1ms'\n[fabric]\nkind = 'leaf-spine'\nracks = 32\nhosts_per_rack = \
                 32\nspines = 8\n[transport]\nprotocol = 'swift'\n[[traffic]]\nkind = \
                 'job'\nfile = '{file}'\n"
            ),
        );
        let start = std::time::Instant::now();
        let plan = load_file(&place.path().join("x.toml"), &[]).unwrap();
        let (operations, took) = (job(&plan, 0).program.operations.len(), start.elapsed());
        println!("{file}: {operations} operations, {took:?}, peak {} MB", peak_bytes() >> 20);
        assert!(operations as u64 == RANKS * STEPS * 3 && took.as_secs() < 10, "{took:?}");
        assert!(peak_bytes() < 1 << 30);
    };
    for rank in 0..RANKS {
        let (next, before) = ((rank + 1) % RANKS, (rank + RANKS - 1) % RANKS);
        let mut nodes = Vec::new();
        for step in 0..STEPS {
            let after: Vec<u64> = (step > 0).then(|| 3 * step - 1).into_iter().collect();
            let tag = ("comm_tag", Value::Int32(step as i32));
            let size = ("comm_size", Value::Int64(4_096));
            let to = [("comm_dst", Value::Int32(next as i32)), tag.clone(), size.clone()];
            let from = [("comm_src", Value::Int32(before as i32)), tag, size];
            nodes.push(Node { data_deps: after, ..compute(3 * step, 5) });
            nodes.push(node(3 * step + 1, Kind::Send, &[3 * step], &to));
            nodes.push(node(3 * step + 2, Kind::Receive, &[3 * step], &from));
        }
        place.write(&format!("x.{rank}.et"), trace(&nodes));
    }
    load("x.*.et");
    let mut goal = format!("num_ranks {RANKS}\n");
    for rank in 0..RANKS {
        let (next, before) = ((rank + 1) % RANKS, (rank + RANKS - 1) % RANKS);
        writeln!(goal, "rank {rank} {{").unwrap();
        for step in 0..STEPS {
            write!(
                goal,
                "c{step}: calc 5000\ns{step}: send 4096b to {next} tag {step}\nr{step}: recv \
                 4096b from {before} tag {step}\ns{step} requires c{step}\nr{step} requires \
                 c{step}\n"
            )
            .unwrap();
            if step > 0 {
                writeln!(goal, "c{step} requires r{}", step - 1).unwrap();
            }
        }
        goal.push_str("}\n");
    }
    place.write("x.goal", &goal);
    drop(goal);
    load("x.goal");
}
