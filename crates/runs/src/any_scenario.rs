//! Small scenarios of arbitrary content, for tests and fuzz targets.

use std::fmt::Write;

use tidegate_algos::Protocol;
use tidegate_core::collective::OPS;

/// The choices of a script, byte by byte; zeros after its end.
struct Choices<'a> {
    script: &'a [u8],
    /// The file of training jobs.
    job: &'a str,
}

impl Choices<'_> {
    fn byte(&mut self) -> usize {
        let (&first, rest) = self.script.split_first().unwrap_or((&0, &[]));
        self.script = rest;
        first.into()
    }

    /// A number from `least` to `most`.
    fn within(&mut self, least: usize, most: usize) -> usize {
        least + self.byte() % (most - least + 1)
    }

    fn of<T: Copy>(&mut self, all: &[T]) -> T {
        all[self.byte() % all.len()]
    }

    /// Yes in one of `among` cases.
    fn once_in(&mut self, among: usize) -> bool {
        self.byte() % among == among - 1
    }
}

/// A scenario with a few thousand packets on a fabric of two to six racks, in up to three planes
/// and with rails or along the links of a random graph, and with any protocols, switch functions,
/// faults and traffic, collectives and training jobs included. Some combinations are refused. `job`
/// is the file of a GOAL schedule of four ranks.
pub(crate) fn any_scenario(script: &[u8], job: &str) -> String {
    let mut choices = Choices { script, job };
    let mut text = String::new();
    let _ = write(&mut text, &mut choices);
    text
}

fn write(text: &mut String, choices: &mut Choices<'_>) -> std::fmt::Result {
    let any_protocol = |choices: &mut Choices<'_>| choices.of(Protocol::ALL).info().name;
    writeln!(text, "seed = {}", choices.byte())?;
    let duration_us = choices.within(20, 150);
    writeln!(text, "duration = '{duration_us}us'\nwarmup = '{}us'", duration_us / 4)?;
    writeln!(text, "drain = '{}us'", choices.of(&[0, 30, 200]))?;
    if choices.once_in(8) {
        writeln!(text, "until = 'done'")?;
    }

    writeln!(text, "[fabric]\nmtu = '{}B'", choices.of(&[1_000, 4_096, 256, 1_460, 9_000]))?;
    let host_gbps = choices.of(&[100, 25, 10, 40]);
    let hosts_per_rack = choices.within(1, 3);
    let kinds = ["leaf-spine", "leaf-spine", "fat-tree", "dumbbell", "clos", "graph"];
    let kind = choices.of(&kinds);
    if kind != "graph" && choices.once_in(4) {
        writeln!(text, "planes = {}", choices.within(2, 3))?;
    }
    let hosts = match kind {
        "graph" => graph(text, choices, hosts_per_rack, host_gbps)?,
        "leaf-spine" => {
            let racks = choices.within(2, 6);
            let (spines, parallel) = (choices.within(1, 3), choices.of(&[1, 1, 2]));
            writeln!(
                text,
                "kind = 'leaf-spine'\nracks = {racks}\nhosts_per_rack = {hosts_per_rack}\n\
                 spines = {spines}\nlinks_per_spine = {parallel}"
            )?;
            if choices.once_in(4) {
                writeln!(text, "rails = {racks}")?;
            }
            link(text, choices, "fabric_link", host_gbps)?;
            racks * hosts_per_rack
        }
        "fat-tree" => {
            writeln!(text, "kind = 'fat-tree'\nk = 4")?;
            link(text, choices, "fabric_link", host_gbps)?;
            16
        }
        "clos" => {
            writeln!(
                text,
                "kind = 'clos'\npods = 2\nracks_per_pod = 2\naggs_per_pod = 2\n\
                 cores_per_plane = 1\nhosts_per_rack = {hosts_per_rack}"
            )?;
            if choices.once_in(4) {
                writeln!(text, "rails = 2")?;
            }
            link(text, choices, "agg_link", host_gbps)?;
            link(text, choices, "core_link", host_gbps)?;
            4 * hosts_per_rack
        }
        _ => {
            writeln!(text, "kind = 'dumbbell'\npairs = {}", hosts_per_rack + 1)?;
            link(text, choices, "bottleneck", host_gbps)?;
            2 * (hosts_per_rack + 1)
        }
    };
    if kind != "graph" {
        let delay_ns = choices.of(&[1_000, 500, 50, 0, 3_000]);
        writeln!(text, "host_link = {{ rate = '{host_gbps}Gbps', delay = '{delay_ns}ns' }}")?;
    }

    writeln!(text, "[switch]")?;
    writeln!(text, "latency = '{}ns'", choices.of(&[0, 0, 500]))?;
    writeln!(text, "routing = '{}'", choices.of(&["ecmp", "spray", "symmetric-ecmp"]))?;
    if choices.once_in(4) {
        let (quantum, period) = (choices.of(&[0, 64, 1_000]), choices.within(0, 40));
        writeln!(text, "telemetry_quantum = '{quantum}ns'\ntelemetry_period = '{period}us'")?;
    }
    let buffer_kb = choices.of(&[0, 0, 400, 60, 2_000]);
    if buffer_kb > 0 {
        writeln!(text, "buffer = '{buffer_kb}KB'")?;
        let headroom_kb = choices.within(5, 20);
        match choices.byte() % 3 {
            0 => {}
            1 => writeln!(text, "pfc = {{ headroom = '{headroom_kb}KB' }}")?,
            _ => writeln!(text, "pfc = 'off'\nalpha = {}", choices.of(&[1.0, 0.25, 8.0]))?,
        }
    }
    if choices.once_in(3) {
        let (kmin, more) = (choices.within(1, 60), choices.within(0, 60));
        let (pmax, at) = (choices.of(&[1.0, 0.1]), choices.of(&["enqueue", "dequeue"]));
        writeln!(
            text,
            "ecn = {{ kmin = '{kmin}KB', kmax = '{}KB', pmax = {pmax}, at = '{at}' }}",
            kmin + more
        )?;
    }
    if choices.once_in(4) {
        let (data, victim) = (choices.within(10, 100), choices.of(&["random", "arriving"]));
        writeln!(text, "trimming = {{ data = '{data}KB', victim = '{victim}' }}")?;
    }

    if choices.once_in(4) {
        let (delay, jitter) = (choices.of(&[0, 100, 2_000]), choices.of(&[0, 300, 1_000]));
        writeln!(text, "[hosts]\nstack_delay = '{delay}ns'\nstack_jitter = '{jitter}ns'")?;
    }

    writeln!(text, "[transport]\nprotocol = '{}'", any_protocol(choices))?;
    let connections = choices.of(&["'per-message'", "'per-pair'", "'shortest-first'", "2"]);
    writeln!(text, "connections = {connections}")?;

    if choices.once_in(3) {
        writeln!(text, "[faults]")?;
        for (what, most) in
            [("loss", 40), ("corruption", 20), ("duplication", 40), ("reordering", 80)]
        {
            if choices.once_in(2) {
                writeln!(text, "{what} = {}e-3", choices.within(1, most))?;
            }
        }
        if choices.once_in(3) {
            let (up, down) = (choices.within(5, 60), choices.within(1, 30));
            writeln!(text, "flaps = {{ mean_up = '{up}us', mean_down = '{down}us' }}")?;
            writeln!(text, "convergence = '{}us'", choices.of(&[0, 5]))?;
        }
        if choices.once_in(3) {
            let (host, down) = (choices.byte() % hosts, choices.within(1, 60));
            let up = down + choices.within(1, 30);
            writeln!(text, "[[faults.host]]\nhost = 'h{host}'\ndown = '{down}us'\nup = '{up}us'")?;
        }
    }

    for _ in 0..choices.within(0, 3) {
        let (src, further) = (choices.byte() % hosts, choices.within(1, hosts - 1));
        let size = choices.of(&["'inf'", "'30KB'", "'1B'", "'200KB'"]);
        writeln!(text, "[[flows]]\nsrc = 'h{src}'\ndst = 'h{}'", (src + further) % hosts)?;
        writeln!(text, "size = {size}\nstart = '{}us'", choices.of(&[0, 0, 3, 20]))?;
        if choices.once_in(4) {
            writeln!(text, "protocol = '{}'", any_protocol(choices))?;
        }
    }
    for number in 0..choices.within(1, 3) {
        let sizes = choices.of(&["20KB", "websearch", "1KB", "wka", "150KB"]);
        writeln!(text, "[[traffic]]\nlabel = 't{number}'")?;
        match choices.byte() % 7 {
            5 => collective(text, choices, sizes)?,
            // Jobs have hosts of their own, of which there are too few for two.
            6 if hosts >= 4 && number == 0 => {
                let placement = choices.of(&["packed", "strided", "random"]);
                let iterations = choices.within(1, 3);
                let job = choices.job;
                writeln!(
                    text,
                    "kind = 'job'\nfile = '{job}'\nplacement = '{placement}'\n\
                     iterations = {iterations}"
                )?;
            }
            0 | 1 | 6 => {
                let load = choices.of(&[0.3, 0.8, 0.05]);
                writeln!(text, "kind = 'poisson'\nsizes = '{sizes}'\nload = {load}")?;
                if choices.once_in(3) {
                    writeln!(text, "reply = '4B'")?;
                }
            }
            2 => {
                let (fan_in, interval) = (choices.within(1, hosts - 1), choices.of(&[25, 60, 10]));
                writeln!(
                    text,
                    "kind = 'incast'\nfan_in = {fan_in}\nsizes = '20KB'\ninterval = '{interval}us'"
                )?;
                writeln!(text, "jitter = '{}us'", choices.of(&[0, 0, 2]))?;
            }
            3 => writeln!(text, "kind = 'permutation'\nsizes = '150KB'")?,
            _ => {
                let think = choices.of(&[0, 3]);
                writeln!(
                    text,
                    "kind = 'closed-loop'\nrequest = '3KB'\nreply = '20KB'\nthink = '{think}us'"
                )?;
            }
        }
        if choices.once_in(5) {
            writeln!(text, "protocol = '{}'", any_protocol(choices))?;
        }
    }
    Ok(())
}

/// Racks that a random tree and a few further links join, as imported topologies do. Returns the
/// number of hosts.
fn graph(
    text: &mut String,
    choices: &mut Choices<'_>,
    hosts_per_rack: usize,
    host_gbps: usize,
) -> Result<usize, std::fmt::Error> {
    let racks = choices.within(2, 6);
    let hosts = racks * hosts_per_rack;
    let names = |prefix: &str, count: usize| {
        (0..count).map(|number| format!("'{prefix}{number}', ")).collect::<String>()
    };
    writeln!(text, "kind = 'graph'\nhosts = [{}]", names("h", hosts))?;
    writeln!(text, "switches = [{}]\nlinks = [", names("s", racks))?;
    let mut link = |a: String, b: String, gbps: usize, delays: &[usize]| {
        let delay_ns = choices.of(delays);
        writeln!(text, "{{ a = '{a}', b = '{b}', rate = '{gbps}Gbps', delay = '{delay_ns}ns' }},")?;
        Ok(choices.byte())
    };
    for host in 0..hosts {
        let rack = host / hosts_per_rack;
        link(format!("h{host}"), format!("s{rack}"), host_gbps, &[1_000, 500, 50])?;
    }
    let mut other = 0;
    for rack in 1..racks {
        let between = [500, 1_000, 100, 60, 5_000];
        let to = format!("s{}", other % rack);
        other = link(format!("s{rack}"), to, host_gbps * (1 + other % 4), &between)?;
        if other.is_multiple_of(3) {
            let to = format!("s{}", other % rack);
            other = link(format!("s{rack}"), to, host_gbps, &between)?;
        }
    }
    writeln!(text, "]")?;
    Ok(hosts)
}

/// A collective operation of all hosts.
fn collective(text: &mut String, choices: &mut Choices<'_>, sizes: &str) -> std::fmt::Result {
    let op = choices.of(&OPS);
    let (size, iterations) = (if sizes == "150KB" { sizes } else { "20KB" }, choices.within(1, 3));
    writeln!(text, "kind = 'collective'\nop = '{op}'\nsize = '{size}'")?;
    writeln!(text, "iterations = {iterations}\ncompute = '{}us'", choices.of(&[0, 0, 2, 9]))?;
    if op.ends_with("all-reduce") && choices.once_in(3) {
        writeln!(text, "chunks = {}", choices.within(2, 5))?;
    }
    Ok(())
}

fn link(
    text: &mut String,
    choices: &mut Choices<'_>,
    name: &str,
    host_gbps: usize,
) -> std::fmt::Result {
    let gbps = host_gbps * choices.of(&[1, 4, 2]);
    let delay_ns = choices.of(&[500, 1_000, 100, 60, 5_000]);
    writeln!(text, "{name} = {{ rate = '{gbps}Gbps', delay = '{delay_ns}ns' }}")
}

#[cfg(test)]
mod tests {
    use tidegate_core::{Domain, Rng};

    use super::*;

    const JOB: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../scenarios/jobs/ring.goal");

    #[test]
    fn every_kind_of_scenario_is_accepted() {
        let texts = (0..300).map(|seed| {
            let mut rng = Rng::stream(seed, Domain::Faults, 0);
            any_scenario(&(0..200).map(|_| rng.below(256) as u8).collect::<Vec<_>>(), JOB)
        });
        let loads = |text: &String| tidegate_scenario::load(text, "any.toml", &[]).is_ok();
        let accepted: Vec<String> = texts.filter(loads).collect();
        assert!(accepted.len() > 150, "{} of 300", accepted.len());
        for part in [
            "planes = ",
            "rails = ",
            "'leaf-spine'",
            "'fat-tree'",
            "'clos'",
            "'dumbbell'",
            "'graph'",
            "'poisson'",
            "'incast'",
            "'permutation'",
            "'closed-loop'",
            "'collective'",
            "'job'",
            "telemetry_quantum = '64ns'",
            "telemetry_quantum = '1000ns'",
            "telemetry_period = '1",
        ] {
            let count = accepted.iter().filter(|text| text.contains(part)).count();
            assert!(count >= 5, "{part}: {count} of {}", accepted.len());
        }
    }
}
