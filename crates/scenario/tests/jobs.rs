//! Traffic of the kind `job`: keys, GOAL schedules, and errors in them.

use std::path::Path;

use tidegate_core::job::{Computation, Job, Schedule};
use tidegate_core::workload::Pattern;
use tidegate_core::{Span, Time};
use tidegate_scenario::{Override, Plan, content_hash, load_file};

/// A folder with a scenario on four hosts.
pub(crate) struct Place(tempfile::TempDir);

impl Place {
    pub(crate) fn new() -> Place {
        Place(tempfile::tempdir().unwrap())
    }

    pub(crate) fn path(&self) -> &Path {
        self.0.path()
    }

    pub(crate) fn write(&self, name: &str, content: impl AsRef<[u8]>) {
        std::fs::write(self.path().join(name), content).unwrap();
    }

    /// The plan or the error with these keys of the job.
    pub(crate) fn load(&self, keys: &str) -> Result<Plan, String> {
        self.write(
            "x.toml",
            format!(
                "duration = '1ms'\n[fabric]\nkind = 'star'\nhosts = 4\n[transport]\nprotocol = \
                 'swift'\n[[traffic]]\nkind = 'job'\n{keys}\n"
            ),
        );
        let here = format!("{}/", self.path().display());
        load_file(&self.path().join("x.toml"), &[])
            .map_err(|error| error.to_string().replace(&here, ""))
    }

    fn goal(&self, text: &str) -> Result<Job, String> {
        self.write("x.goal", text);
        self.load("file = 'x.goal'").map(|plan| job(&plan, 0))
    }
}

pub(crate) fn job(plan: &Plan, block: usize) -> Job {
    match &plan.workload.traffic[block].pattern {
        Pattern::Job(job) => job.clone(),
        other => panic!("{other:?}"),
    }
}

/// (operation, receiving rank, receiving operation, bytes) of every message of a rank.
pub(crate) fn sent(job: &Job, rank: u32) -> Vec<(u32, u32, u32, u64)> {
    let mut all = Vec::new();
    for operation in 0..job.operations(rank) {
        job.messages(rank, operation, &mut |sent| {
            let (to, landing) = job.landing_of(sent.number).unwrap();
            assert_eq!(to, sent.to);
            all.push((operation, to, landing, sent.bytes));
        });
    }
    all
}

pub(crate) fn needs(job: &Job, rank: u32) -> Vec<u32> {
    (0..job.operations(rank)).map(|operation| job.needs(rank, operation)).collect()
}

const GOAL: &str = "\
num_ranks 3
/* several
   lines */
rank 0 { // of the first rank
  a: calc 1500 cpu 1
  b: send 4096b to 2 tag 7 cpu 0 nic 1
  b requires a
  c: send 10 b to 2 tag 7
  c irequires a
}
rank 2 {
  l1: recv 4096b from 0 tag 7
  recv 64b from 0 tag 7
  calc 0
  l4: send 0b to 2
  l5: recv 0b from 2
}
";

#[test]
fn goal_schedule_is_compiled() {
    let place = Place::new();
    let job = place.goal(GOAL).unwrap();
    assert_eq!((&job.hosts[..], job.iterations), (&[0, 1, 2][..], 1));
    assert_eq!([0, 1, 2].map(|rank| job.operations(rank)), [3, 0, 5]);
    assert_eq!(job.computation(0, 0), Some(Computation { span: Span::ns(1_500), stream: 1 }));
    // In order of the file; the message of rank 2 to itself is a dependency.
    assert_eq!(sent(&job, 0), [(1, 2, 0, 4_096), (2, 2, 1, 10)]);
    assert_eq!(sent(&job, 2), []);
    assert_eq!((needs(&job, 0), needs(&job, 2)), (vec![0, 1, 1], vec![1, 1, 0, 0, 1]));
    let mut after = Vec::new();
    job.dependents(0, 0, &mut |of| after.push((of.operation, of.on_start)));
    assert_eq!(after, [(1, false), (2, true)]);
}

#[test]
fn keys_of_a_job_scale_and_place_it() {
    let place = Place::new();
    place.write("x.goal", "num_ranks 2\nrank 0 {\ncalc 1000\n}\nrank 1 {\ncalc 1000\n}\n");
    let load = |keys: &str| place.load(&format!("file = 'x.goal'\n{keys}")).unwrap();
    let spans = |keys: &str| {
        let job = job(&load(keys), 0);
        [0, 1].map(|rank| job.computation(rank, 0).unwrap().span)
    };
    assert_eq!(spans("compute_scale = 2.5"), [Span::ns(2_500); 2]);
    // The number of stragglers is rounded.
    for (share, slowest) in [(0.2, 2), (0.3, 3), (0.5, 3)] {
        let keys = format!("compute_scale = 2\nstragglers = {share}\nstraggler_factor = 1.5");
        let mut slow = spans(&keys);
        slow.sort_unstable();
        assert_eq!(slow, [Span::us(2), Span::us(slowest)], "{share}");
    }
    let hosts = |keys: &str| job(&load(keys), 0).hosts;
    assert_eq!(hosts("placement = 'packed'"), [0, 1]);
    assert_eq!(hosts("placement = 'strided'"), [0, 2]);
    assert_eq!(hosts("hosts = ['h3', 'h1']"), [3, 1]);
    let random = hosts("placement = 'random'");
    assert!(random.len() == 2 && random[0] != random[1]);
    assert_eq!(random, hosts("placement = 'random'"), "the seed decides");
    // A later job takes the hosts that are left.
    let two = load("[[traffic]]\nkind = 'job'\nfile = 'x.goal'\niterations = 9");
    assert_eq!((job(&two, 1).hosts, job(&two, 1).iterations), (vec![2, 3], 9));
    // The plan has the content of the file.
    let before = content_hash(&load(""));
    place.write("x.goal", "num_ranks 2\nrank 0 {\ncalc 1000\n}\nrank 1 {\ncalc 1001\n}\n");
    assert_ne!(content_hash(&load("")), before);
    let [alone, after, at] = ["", "b requires a\n", "b irequires a\n"].map(|order| {
        let text = format!("num_ranks 1\nrank 0 {{\na: calc 1000\nb: calc 1000\n{order}}}\n");
        place.write("x.goal", text);
        content_hash(&load(""))
    });
    assert!(alone != after && after != at && at != alone);
    assert_eq!(load("start = '5us'").workload.traffic[0].start, Time::us(5));
}

/// Stragglers are not on the hosts that placement draws first.
#[test]
fn placement_and_stragglers_are_independent() {
    let place = Place::new();
    let ranks = (0..4).map(|rank| format!("rank {rank} {{\ncalc 9\n}}\n"));
    place.write("x.goal", format!("num_ranks 4\n{}", ranks.collect::<String>()));
    place.load("file = 'x.goal'\nplacement = 'random'\nstragglers = 0.25").unwrap();
    let slow_at_first = (1..=40).filter(|seed| {
        let seed = Override::set(&format!("seed={seed}")).unwrap();
        let job = job(&load_file(&place.path().join("x.toml"), &[seed]).unwrap(), 0);
        let slow = |&rank: &u32| job.computation(rank, 0).unwrap().span > Span::ns(9);
        (0..4).find(slow) == Some(job.hosts[0])
    });
    assert!((1..20).contains(&slow_at_first.count()));
}

/// Empty messages have one byte, and sends have no start.
#[test]
fn sends_complete_at_once() {
    let place = Place::new();
    let text = "num_ranks 2\nrank 0 {\na: send 0b to 1\nb: calc 1\nb irequires a\n}\nrank 1 {\n\
                recv 0b from 0\n}";
    let job = place.goal(text).unwrap();
    assert_eq!((sent(&job, 0), needs(&job, 1)), (vec![(0, 1, 0, 1)], vec![1]));
    let mut after = Vec::new();
    job.dependents(0, 0, &mut |of| after.push((of.operation, of.on_start)));
    assert_eq!(after, [(1, false)]);
}

#[test]
fn wrong_goal_files_are_refused() {
    let place = Place::new();
    let head = "num_ranks 2\nrank 0 {\n";
    let cases = [
        ("", "x.goal: found no num_ranks, expected the line \"num_ranks N\" before the first rank"),
        (
            "num_ranks 9",
            "x.goal:1: found 9 ranks, expected at most 4 ranks, one per host: use a larger fabric, \
             or a job of fewer ranks",
        ),
        ("num_ranks 0", "x.goal:1: found 0 ranks, expected at least 1 rank"),
        (
            "rank 0 {",
            "x.goal:1: found a rank before num_ranks, expected num_ranks before the first rank",
        ),
        (
            "num_ranks 2\nrank 2 {",
            "x.goal:2: found rank 2, expected a rank from 0 to 1, because num_ranks is 2",
        ),
        (
            "num_ranks 2\nrank 1 {\n}\nrank 0 {\n}",
            "x.goal:4: found rank 0 after a later one, or again, expected ranks in rising order, \
             each once: sort the blocks",
        ),
        (
            "num_ranks 2\nrank 1 {\n",
            "x.goal:2: found rank 1 without a closing brace, expected } after the last operation \
             of each rank",
        ),
        (
            "HEADcalc 1 /* one\n} /* two",
            "x.goal:3: found a comment without an end, expected */ at the end of the comment",
        ),
        (
            "HEADa: calc 1\na requires a\n}",
            "x.goal:3: found an operation that waits for itself: rank 0, line 3 (a: calc 1), \
             expected operations that do not wait for themselves: remove this dependency",
        ),
        (
            "HEADsend 8b to 1 cpu 0 cpu 1\n}",
            "x.goal:3: found \"cpu\", expected the end of the line, or nic",
        ),
        (
            "HEADsend 8b to 1 tag 1 nic 0 cpu 1\n}",
            "x.goal:3: found \"cpu\", expected the end of the line",
        ),
        (
            "HEADsend 1b to 2\n}",
            "x.goal:3: found rank 2, expected a rank from 0 to 1, because num_ranks is 2",
        ),
        (
            "HEADsend 1000000000000001b to 1\n}",
            "x.goal:3: found \"1000000000000001b\", expected a size in bytes, such as \"4096b\", \
             up to 1000000000000000b",
        ),
        (
            "HEADcalc 1000000000001\n}",
            "x.goal:3: found \"1000000000001\", expected a computing time in nanoseconds: a whole \
             number up to 1000000000000",
        ),
        (
            "HEADrecv 1b from -1\n}",
            "x.goal:3: found \"-1\", expected the rank that sends the message: a receive from any \
             rank is not supported",
        ),
        (
            "HEADrecv 1b from 1 tag -1\n}",
            "x.goal:3: found \"-1\", expected the tag of the message: a receive with any tag is \
             not supported",
        ),
        (
            "HEADa: calc 1\nb requires a\n}",
            "x.goal:4: found \"b\", expected a label of an operation of rank 0",
        ),
        (
            "HEADa: calc 1\na: calc 2\n}",
            "x.goal:4: found the label \"a\" again, expected labels that differ within a rank: \
             rename one of them",
        ),
        (
            "HEADa: wait 1\n}",
            "x.goal:3: found \"wait\", expected calc, send or recv after the label",
        ),
        ("HEADcalc 1 tag 2\n}", "x.goal:3: found \"tag\", expected the end of the line, or cpu"),
        // The receive has another tag.
        (
            "HEADa: send 8b to 1 tag 4\n}\nrank 1 {\nrecv 8b from 0 tag 5\n}",
            "x.goal:3: found a send without a receive: rank 0, line 3 (a: send 8b to 1 tag 4), \
             expected as many receives of rank 1 from rank 0 with tag 4 as sends: add the receive, \
             or remove the send",
        ),
        (
            "HEADrecv 8b from 1\n}",
            "x.goal:3: found a receive without a send: rank 0, line 3 (recv 8b from 1), expected \
             as many receives of rank 0 from rank 1 with tag 0 as sends: add the send, or remove \
             the receive",
        ),
        (
            "HEADsend 8b to 1\n}\nrank 1 {\nrecv 7b from 0\n}",
            "x.goal:6: found a receive of 7 bytes: rank 1, line 6 (recv 7b from 0), expected at \
             least 8 bytes, the size of the message that rank 0 sends",
        ),
        (
            "HEADa: calc 1\nb: calc 2\na requires b\nb irequires a\n}",
            "x.goal:3: found a deadlock of 2 operations, expected operations that do not wait for \
             each other: rank 0, line 3 (a: calc 1) waits for rank 0, line 4 (b: calc 2), which \
             waits for the first one; remove one of these dependencies or messages",
        ),
        // Both ranks receive before they send.
        (
            "HEADr: recv 8b from 1\ns: send 8b to 1\ns requires r\n}\nrank 1 {\n\
             r: recv 8b from 0\ns: send 8b to 0\ns requires r\n}",
            "x.goal:3: found a deadlock of 4 operations, expected operations that do not wait for \
             each other: rank 0, line 3 (r: recv 8b from 1) waits for rank 1, line 9 (s: send 8b \
             to 0), which waits for rank 1, line 8 (r: recv 8b from 0), which waits for rank 0, \
             line 4 (s: send 8b to 1), which waits for the first one; remove one of these \
             dependencies or messages",
        ),
    ];
    for (text, error) in cases {
        let text = text.replace("HEAD", head);
        assert_eq!(place.goal(&text).unwrap_err(), error, "{text}");
    }
    place.write("x.goal", b"num_ranks 2\n\xff");
    assert_eq!(
        place.load("file = 'x.goal'").unwrap_err(),
        "x.goal: found no UTF-8 at byte 12, expected a GOAL file in its text form, as before \
         `txt2bin`"
    );
}

#[test]
fn wrong_keys_of_a_job_are_refused() {
    let place = Place::new();
    place.write("x.goal", "num_ranks 3\n");
    let cases = [
        (
            "file = 'x.txt'",
            "x.toml:9: traffic[0].file: found 'x.txt', expected a GOAL schedule (.goal), or \
             Chakra traces (.et) with one * for the rank",
        ),
        (
            "file = 'y.goal'",
            "x.toml:9: traffic[0].file: found 'y.goal', expected a readable file (y.goal: No \
             such file or directory (os error 2))",
        ),
        (
            "file = 'y.*.et'",
            "x.toml:9: traffic[0].file: found 'y.*.et', expected a readable file (y.0.et: No \
             such file or directory (os error 2))",
        ),
        (
            "file = 'x.goal'\nhosts = ['h1', 'h2']",
            "x.goal:1: found 3 ranks, expected at most 2 ranks, one per host: use a larger fabric, \
             or a job of fewer ranks",
        ),
        (
            "file = 'x.goal'\nall_reduce = 'tree'",
            "x.toml:10: traffic[0].all_reduce: found 'tree', expected no all_reduce with a GOAL \
             schedule: remove all_reduce",
        ),
        (
            "file = 'x.goal'\ndependencies = 'data'",
            "x.toml:10: traffic[0].dependencies: found 'data', expected no dependencies with a \
             GOAL schedule: remove dependencies",
        ),
        (
            "file = 'x.goal'\nstraggler_factor = 2",
            "x.toml:10: traffic[0].straggler_factor: found 2, expected stragglers to be set too: \
             the factor is that of their computing times",
        ),
    ];
    for (keys, error) in cases {
        assert_eq!(place.load(keys).unwrap_err(), error, "{keys}");
    }
}
