//! A scenario under several seeds: its runs, and their aggregate.

use std::io::{self, Write};
use std::path::PathBuf;

use tidegate_results::write_json;
use tidegate_scenario::sweep::SeedList;
use tidegate_scenario::{Override, Plan};

use crate::aggregated::{Aggregated, aggregated};
use crate::compare::{self, in_parallel};
use crate::destination::folder_name;
use crate::paired::{self, Candidate};
use crate::readings::readings;
use crate::results::{Aggregate, Comparison, Results, SeededRun};
use crate::run::{publish, run_numbered};
use crate::warnings::gathered;
use crate::{Destination, Error, RunOptions, Source, destination, interrupt, load};

impl Aggregate {
    /// The version that [`schema`](Self::schema) carries.
    pub const SCHEMA: u32 = 1;

    /// The bytes of `aggregate.json`.
    ///
    /// # Errors
    /// When writing to `to` fails.
    pub fn write(&self, to: impl Write) -> io::Result<()> {
        write_json(self, to)
    }
}

/// One seed: its runs, and the folders of their results.
struct Seed {
    plans: Vec<Plan>,
    folder: Option<PathBuf>,
}

/// Runs the scenario under each of `seeds`, and under each of `protocols` if protocols are
/// compared, several at a time if there are enough threads. Protocols are compared with `baseline`,
/// by default the first. The results of each seed go to its own subfolder of `options.out`, in the
/// layout of [`run`](crate::run) or [`compare`](crate::compare), next to `aggregate.json`.
///
/// # Errors
/// When a protocol, the baseline, the scenario or an override is invalid, or an override sets the
/// seed: then nothing runs and nothing is written. When a run fails: the others complete and are
/// written, and the first failure is returned. [`Error::Unwritten`] when all runs complete and
/// results cannot be written.
pub fn run_seeds(
    scenario: impl Into<Source>,
    overrides: &[Override],
    protocols: Option<&[String]>,
    baseline: Option<&str>,
    seeds: &SeedList,
    options: &RunOptions<'_>,
) -> Result<Aggregate, Error> {
    only_seeds("--seeds", overrides)?;
    let baseline = paired::baseline(baseline, protocols.unwrap_or_default())?;
    let plans = {
        let (scenario, overrides) = (scenario.into(), overrides.to_vec());
        let (protocols, seeds) = (protocols.map(<[String]>::to_vec), seeds.clone());
        let make = move || plans(&scenario, &overrides, protocols.as_deref(), &seeds);
        interrupt::run_abandonable(&|| options.is_interrupted(), make)?
    };
    run_seeded(plans, protocols, baseline, seeds, options)
}

/// As [`run_seeds`], of the plans of each seed: one, or one per protocol.
///
/// # Errors
/// As those of [`run_seeds`].
pub fn run_seeded(
    plans: Vec<Vec<Plan>>,
    protocols: Option<&[String]>,
    baseline: Option<String>,
    seeds: &SeedList,
    options: &RunOptions<'_>,
) -> Result<Aggregate, Error> {
    let destination = options.out.map(|out| Destination::open(out, options.force)).transpose()?;
    let folder_of = |seed: &u64| options.out.map(|out| out.join(folder_name(*seed)));
    let all = seeds.seeds().iter().zip(plans);
    let all: Vec<Seed> = all.map(|(seed, plans)| Seed { plans, folder: folder_of(seed) }).collect();
    // Without a comparison there is one run per seed, in the seed's own folder.
    let names = protocols.map_or_else(|| vec![String::new()], <[String]>::to_vec);
    let open = |i: usize| {
        let name = protocols.map(|protocols| &protocols[i % names.len()]);
        let folder = all[i / names.len()].folder.as_ref();
        let folder = folder.map(|folder| name.map_or(folder.clone(), |name| folder.join(name)));
        folder.map(|folder| Destination::open(&folder, options.force)).transpose()
    };
    // Checks before anything runs that all folders can be written. Each is opened again for its
    // run, because a system limits the number of open files.
    (0..all.len() * names.len()).try_for_each(|i| open(i).map(drop))?;
    let first = names.iter().map(String::as_str).zip(&all[0].plans);
    options.report_resolved(&first.collect::<Vec<_>>());
    let done = in_parallel(all.len() * names.len(), options.threads(), |i, threads| {
        let plan = &all[i / names.len()].plans[i % names.len()];
        let (summary, kept) = run_numbered(plan, options, threads, i, open(i)?)?;
        Ok((summary, publish(kept).err()))
    });

    if done.iter().any(|result| matches!(result, Err(Error::Interrupted))) {
        // After an interrupt the results of single seeds are removed: they are incomplete.
        let folders = all.iter().filter_map(|seed| seed.folder.as_deref());
        folders.for_each(|folder| destination::clear_made(folder, &names));
        return Err(Error::Interrupted);
    }
    let (mut failure, mut unwritten) = (None, None);
    let done: Vec<_> = done
        .into_iter()
        .map(|result| {
            let (summary, why) = result?;
            unwritten = unwritten.take().or(why);
            Ok(summary)
        })
        .collect();
    let mut done = done.into_iter();
    let (mut comparisons, mut kept) = (Vec::new(), Vec::new());
    for (seed, of) in seeds.seeds().iter().zip(&all) {
        let results = done.by_ref().take(names.len()).collect();
        let (comparison, failed) = Comparison::of(&names, &of.plans, results);
        if !comparison.runs.is_empty() && unwritten.is_none() {
            let folder = of.folder.as_ref().filter(|_| protocols.is_some());
            let folder = folder.map(|folder| Destination::open(folder, true)).transpose()?;
            let written = folder.map(|folder| comparison.publish(folder, failed.is_none()));
            unwritten = written.transpose().err();
            kept.push(folder_name(*seed));
        }
        failure = failure.or(failed);
        comparisons.push(comparison);
    }
    let destination = destination.filter(|_| !kept.is_empty());
    if let Some(error) = failure {
        // The previous results of the folder are replaced by the completed runs.
        destination.map(|folder| folder.publish(Vec::new(), &kept)).transpose()?;
        return Err(error);
    }
    let aggregate = Aggregate::of(seeds, &names, baseline, &comparisons);
    let keep = |folder: Destination| {
        let write = || {
            let mut file = folder.partial("aggregate.json")?;
            aggregate.write(&mut file)?;
            Ok(file)
        };
        let file = write().map_err(Error::output(folder.path()))?;
        folder.publish(vec![file], &kept)
    };
    let destination = destination.filter(|_| unwritten.is_none());
    match unwritten.or(destination.and_then(|folder| keep(folder).err())) {
        Some(why) => Err(Error::unwritten(Results::Aggregate(aggregate), why)),
        None => Ok(aggregate),
    }
}

/// The plans that [`run_seeds`] would run.
///
/// # Errors
/// When a protocol, the scenario or an override is wrong, or one says the seed.
pub fn seeded_plans(
    scenario: impl Into<Source>,
    overrides: &[Override],
    protocols: Option<&[String]>,
    seeds: Option<&SeedList>,
) -> Result<Vec<Plan>, Error> {
    let scenario = scenario.into();
    match (seeds, protocols) {
        (Some(seeds), _) => {
            only_seeds("--seeds", overrides)?;
            Ok(plans(&scenario, overrides, protocols, seeds)?.into_iter().flatten().collect())
        }
        (None, Some(protocols)) => compare::plans(&scenario, overrides, protocols),
        (None, None) => load(scenario, overrides).map(|plan| vec![plan]),
    }
}

/// The warnings of [`seeded_plans`] that are known before the runs.
pub fn planned_warnings(plans: &[Plan], protocols: Option<&[String]>) -> Vec<String> {
    let names = protocols.map_or_else(|| vec![String::new()], <[String]>::to_vec);
    let of_seed = |plans: &[Plan]| {
        (format!("seed {}", plans[0].seed), compare::planned_warnings(&names, plans))
    };
    gathered(&plans.chunks(names.len().max(1)).map(of_seed).collect::<Vec<_>>())
}

/// Checks that no override sets the seed beside an option for it: `--seeds` or `--seed`.
///
/// # Errors
/// When an override does.
pub fn only_seeds(option: &'static str, overrides: &[Override]) -> Result<(), Error> {
    let Some(other) = overrides.iter().find(|change| change.key == "seed") else { return Ok(()) };
    let message = format!("cannot be combined with {}, which also sets the seed", other.option);
    Err(Error::Usage { option, message })
}

/// The plan for each seed and protocol.
fn plans(
    scenario: &Source,
    overrides: &[Override],
    protocols: Option<&[String]>,
    seeds: &SeedList,
) -> Result<Vec<Vec<Plan>>, Error> {
    let plans = |seed: &u64| {
        let seed = Override::option("--seeds", "seed", &seed.to_string());
        let overrides: Vec<Override> = overrides.iter().cloned().chain([seed]).collect();
        match protocols {
            Some(protocols) => compare::plans(scenario, &overrides, protocols),
            None => Ok(vec![load(scenario.clone(), &overrides)?]),
        }
    };
    seeds.seeds().iter().map(plans).collect()
}

impl Aggregate {
    /// Aggregates the runs of all seeds, given one comparison per seed. An empty name denotes a
    /// scenario that runs without a comparison.
    fn of(
        seeds: &SeedList,
        names: &[String],
        baseline: Option<String>,
        comparisons: &[Comparison],
    ) -> Aggregate {
        let summaries = |i: usize| comparisons.iter().map(move |all| &all.runs[i].summary);
        let run = |(i, name): (usize, &String)| {
            let first = comparisons[0].runs[i].summary.clone();
            SeededRun {
                protocol: if name.is_empty() { first.protocols.join(" + ") } else { name.clone() },
                digests: summaries(i).map(|summary| summary.engine.digest.clone()).collect(),
                metrics: aggregated(&summaries(i).map(readings).collect::<Vec<_>>()),
                first,
            }
        };
        let mut runs: Vec<SeededRun> = names.iter().enumerate().map(run).collect();
        let candidates = runs.iter_mut().map(|SeededRun { protocol, metrics, .. }| {
            let protocol = protocol.as_str();
            Candidate { protocol, metrics }
        });
        paired::compare(&mut [candidates.collect()], baseline.as_deref());
        let warnings = warnings(seeds.seeds(), comparisons, &runs);
        let (schema, name) = (Aggregate::SCHEMA, comparisons[0].name.clone());
        Aggregate { schema, name, seeds: seeds.seeds().to_vec(), baseline, warnings, runs }
    }
}

/// Merged warnings of all runs, and a warning for runs on which the seed has no effect.
fn warnings(seeds: &[u64], comparisons: &[Comparison], runs: &[SeededRun]) -> Vec<String> {
    let of_seed = |(seed, comparison): (&u64, &Comparison)| {
        (format!("seed {seed}"), comparison.all_warnings())
    };
    let mut all = gathered(&seeds.iter().zip(comparisons).map(of_seed).collect::<Vec<_>>());
    let fixed = runs.iter().filter(|run| is_fixed(&run.metrics));
    let names = fixed.map(|run| run.protocol.as_str()).collect::<Vec<_>>().join(", ");
    if !names.is_empty() {
        all.push(format!(
            "{names}: every seed gives the same values, so confidence intervals are meaningless"
        ));
    }
    all
}

/// Whether all seeds gave the same values for every metric.
pub(crate) fn is_fixed(metrics: &[Aggregated]) -> bool {
    let several = metrics.iter().any(|one| one.n > 1);
    several && metrics.iter().all(|one| one.n == one.values.len() && one.min == one.max)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Compared;
    use crate::samples::summary;

    fn comparison(seed: u64, warnings: &[&str]) -> Comparison {
        let mut summary = summary(seed);
        summary.warnings = warnings.iter().map(|text| (*text).to_owned()).collect();
        let runs = vec![Compared { protocol: String::new(), summary }];
        Comparison { schema: 1, name: "x".to_owned(), seed, warnings: Vec::new(), runs }
    }

    #[test]
    fn warnings_of_seeds_are_merged() {
        let seeds: SeedList = "3..5".parse().unwrap();
        let comparisons = [
            comparison(3, &["always", "7 of 10 are late"]),
            comparison(4, &["always"]),
            comparison(5, &["always", "9 of 11 are late", "odd"]),
        ];
        let aggregate = Aggregate::of(&seeds, &[String::new()], None, &comparisons);
        let expected = ["always", "seed 3, and 1 similar: 7 of 10 are late", "seed 5: odd"];
        assert_eq!(aggregate.warnings[..3], expected);
        assert_eq!(aggregate.runs[0].protocol, "swift");
        assert_eq!(aggregate.runs[0].digests.len(), 3);
    }

    #[test]
    fn seeds_without_effect_cause_a_warning() {
        let seeds: SeedList = "1,2".parse().unwrap();
        let same = [comparison(1, &[]), comparison(1, &[])];
        let aggregate = Aggregate::of(&seeds, &[String::new()], None, &same);
        assert_eq!(aggregate.warnings.len(), 1);
        assert!(aggregate.warnings[0].starts_with("swift: every seed gives the same values"));
        let twice = same.map(|mut one| {
            one.runs.push(one.runs[0].clone());
            one
        });
        let aggregate = Aggregate::of(&seeds, &[String::new(), String::new()], None, &twice);
        assert_eq!(aggregate.warnings.len(), 1, "one warning for both: {:?}", aggregate.warnings);
        assert!(aggregate.warnings[0].starts_with("swift, swift: every seed"));
    }
}
