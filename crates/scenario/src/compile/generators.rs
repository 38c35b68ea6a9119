//! Message lists of other simulators: the same messages at the same times, drawn with the
//! algorithms of their generators.

use tidegate_core::Time;
use tidegate_core::workload::{Arrival, Distribution, Sampling, Sizes};

use super::mersenne::Mersenne;
use super::sizes::sampling_name;
use crate::error::Error;
use crate::read::keys::{Key, Optional, SEED, Shape, key};
use crate::read::table::{Table, Word};

pub(crate) const GENERATOR: Key = key(
    "generator",
    Shape::Word(&["tidegate", "sird-simulator", "python"]),
    Optional,
    "Generator that draws the messages. Default: tidegate. sird-simulator: exactly the messages of \
     github.com/epfl-dcsl/SIRD-Simulator, the same for every seed; each host has one MT19937 for \
     gaps, one for sizes and one for receivers. python: one MT19937, seeded like Python's random, \
     draws gap, size, sender and receiver of each message; times are whole nanoseconds, sizes at \
     least 100 B. Both draw from time 0 on and leave out the messages before `start`.",
);

pub(crate) const GENERATOR_SEED: Key = key(
    "generator_seed",
    SEED,
    Optional,
    "For python: seed of the generator, the same for every seed of the scenario. Default: the \
     scenario's seed.",
);

/// Inputs of another simulator's generator.
#[derive(Clone, Copy, Debug)]
pub(crate) struct GeneratorInputs<'a> {
    pub(crate) hosts: u32,
    /// Mean time between two messages of a host.
    pub(crate) mean_gap_ps: f64,
    pub(crate) sizes: &'a Distribution,
    pub(crate) seed: u64,
    /// All messages start before this.
    pub(crate) until: Time,
}

/// Returns the messages of the generator that the table names, in order of time; `None` if that is
/// this simulator's own.
pub(crate) fn list<'a>(
    table: &Table,
    sizes: &'a Sizes,
    inputs: impl FnOnce(&'a Distribution) -> GeneratorInputs<'a>,
) -> Result<Option<Vec<Arrival>>, Error> {
    let generator = match table.find::<Word>("generator") {
        None | Some(Word("tidegate")) => None,
        Some(Word(generator)) => Some(generator),
    };
    if generator != Some("python") && table.item("generator_seed").is_some() {
        return Err(table.error(
            "generator_seed",
            "no generator_seed unless generator is \"python\": remove generator_seed",
        ));
    }
    let Some(generator) = generator else { return Ok(None) };
    let is_given = |key: &&str| table.item(key).is_some();
    if let Some(key) = ["senders", "receivers"].into_iter().find(is_given) {
        return Err(table.error(
            key,
            format!("no {key}: generator {generator:?} draws messages for all hosts"),
        ));
    }
    let Sizes::Drawn(sizes) = sizes else {
        let expected = format!("a distribution: generator {generator:?} needs one");
        return Err(table.error("sizes", expected));
    };
    let required = if generator == "python" { Sampling::Linear } else { Sampling::Logarithmic };
    if sizes.sampling != required {
        let [found, required] = [sizes.sampling, required].map(sampling_name);
        let expected = format!("{required:?}, the sampling of generator {generator:?}");
        return Err(table.error_found("sampling", format!("{found:?}"), expected));
    }
    let inputs = inputs(sizes);
    let mut list = if generator == "python" { python(inputs) } else { sird_simulator(inputs) };
    let start: Time = table.get("start");
    list.retain(|arrival| arrival.at >= start);
    Ok(Some(list))
}

/// Messages of SIRD's simulator (github.com/epfl-dcsl/SIRD-Simulator, commit f2be06a). Host j has a
/// generator for gaps and one for sizes, both seeded with 134 j + 1, and one for receivers, seeded
/// with j.
fn sird_simulator(
    GeneratorInputs { hosts, mean_gap_ps, sizes, until, .. }: GeneratorInputs<'_>,
) -> Vec<Arrival> {
    let mut arrivals = Vec::new();
    for src in 0..hosts {
        let [mut gaps, mut draws] = [134 * src + 1; 2].map(Mersenne::new);
        let mut receivers = Mersenne::new(src);
        let mut at_ps = 0.0;
        loop {
            at_ps -= (1.0 - gaps.canonical()).ln() * mean_gap_ps;
            let at = Time::ps(at_ps.round() as u64);
            if at >= until {
                break;
            }
            let bytes = (logarithmic(sizes, draws.canonical()) as u64).max(4);
            let other = receivers.below(hosts - 1);
            arrivals.push(Arrival { at, src, dst: other + u32::from(other >= src), bytes });
        }
    }
    arrivals.sort_by_key(|arrival| arrival.at);
    arrivals
}

/// Size at probability `u` if the logarithms to base ten of sizes rise linearly. The logarithm
/// rounds listed sizes down: 1,442 B become 1,441.99.
fn logarithmic(sizes: &Distribution, u: f64) -> f64 {
    let points = &sizes.points;
    let next = points.iter().position(|&(_, cdf)| u <= cdf).unwrap_or(points.len() - 1);
    let (size, cdf) = points[next];
    let (below, below_cdf) = if next == 0 { (size, 0.0) } else { points[next - 1] };
    if cdf <= below_cdf {
        return below;
    }
    let (from, to) = (below.log10(), size.log10());
    10f64.powf(from + (to - from) * (u - below_cdf) / (cdf - below_cdf))
}

/// Messages of a script that uses only Python's `random`: `expovariate`, `random`, and `randrange`
/// twice.
fn python(
    GeneratorInputs { hosts, mean_gap_ps, sizes, seed, until }: GeneratorInputs<'_>,
) -> Vec<Arrival> {
    let mut rng = Mersenne::of_python(seed);
    let mean_gap_ns = mean_gap_ps / 1e3 / f64::from(hosts);
    let (mut arrivals, mut at_ns) = (Vec::new(), 0.0);
    loop {
        at_ns -= (1.0 - rng.random()).ln() * mean_gap_ns;
        let at = Time::ps(at_ns as u64 * 1000);
        if at >= until {
            return arrivals;
        }
        let bytes = (sizes.quantile(rng.random()) as u64).max(100);
        let src = rng.randrange(hosts);
        let other = rng.randrange(hosts - 1);
        arrivals.push(Arrival { at, src, dst: other + u32::from(other >= src), bytes });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::compile::sizes;

    fn inputs<'a>(
        sizes: &'a Distribution,
        hosts: u32,
        load: f64,
        gbps: f64,
        ms: f64,
    ) -> GeneratorInputs<'a> {
        let mean_gap_ps = sizes.mean_bytes * 8e3 / (load * gbps);
        let until = Time::ps((ms * 1e9) as u64);
        GeneratorInputs { hosts, mean_gap_ps, sizes, seed: 1, until }
    }

    fn totals(arrivals: &[Arrival]) -> (usize, u64) {
        (arrivals.len(), arrivals.iter().map(|arrival| arrival.bytes).sum())
    }

    /// Messages and bytes of the lists that SIRD's own program wrote, and its first messages.
    #[test]
    fn sird_simulator_matches_the_original() {
        for (name, load, ms, messages, bytes) in [
            ("wkc", 0.5, 5.0, 1_705, 3_829_420_118),
            ("wkc", 0.8, 2.465, 1_342, 2_927_271_660),
            ("wkc", 0.8, 3.0, 1_629, 3_544_690_951),
            ("wka", 0.5, 0.5, 153_448, 486_831_166),
        ] {
            let sizes = sizes::builtin(name);
            let list = sird_simulator(inputs(&sizes, 144, load, 100.0, ms));
            assert_eq!(totals(&list), (messages, bytes), "{name} {load} {ms} ms");
            if (name, load) == ("wkc", 0.5) {
                let first = list.iter().map(|of| (of.at.as_ps() / 1000, of.src, of.dst, of.bytes));
                let first: Vec<_> = first.take(4).collect();
                let theirs = [
                    (3, 47, 16, 1441),
                    (1960, 46, 113, 1441),
                    (3304, 87, 94, 1441),
                    (11_025, 118, 135, 1524),
                ];
                assert_eq!(first, theirs);
            }
        }
    }

    #[test]
    fn python_matches_the_script() {
        let sizes = sizes::builtin("lb-dctcp");
        let list = python(inputs(&sizes, 256, 0.170_759, 25.0, 40.0));
        assert_eq!(totals(&list), (3_131, 4_865_793_759));
        let first = list.iter().map(|of| (of.at.as_ps() / 1000, of.src, of.dst, of.bytes));
        let theirs =
            [(1807, 32, 66, 3_423_012), (3379, 241, 166, 1_609_624), (9359, 249, 7, 20_995)];
        assert_eq!(first.take(3).collect::<Vec<_>>(), theirs);
    }
}
