//! One scenario under several protocols.

use std::io::{self, Write};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use tidegate_algos::Protocol;
use tidegate_core::fabric::{Buffer, Switch};
use tidegate_results::{Summary, write_json};
use tidegate_scenario::{Override, Plan};

use crate::ideal_paths::ideal_paths_warning;
use crate::results::{Compared, Comparison, Results};
use crate::run::{publish, run_numbered};
use crate::{Destination, Error, RunOptions, Source, catalog, interrupt, load};

/// Runs the scenario under each of `protocols`, several at a time if there are enough threads. The
/// results of each run go to its own subfolder of `options.out`, next to `comparison.json`.
///
/// # Errors
/// When a protocol, the scenario or an override is invalid: then nothing runs and nothing is
/// written. When a run fails: the other runs complete and are written, and the first failure is
/// returned. [`Error::Unwritten`] when all runs complete and results cannot be written.
pub fn compare(
    scenario: impl Into<Source>,
    overrides: &[Override],
    protocols: &[String],
    options: &RunOptions<'_>,
) -> Result<Comparison, Error> {
    let plans = {
        let (scenario, overrides, protocols) =
            (scenario.into(), overrides.to_vec(), protocols.to_vec());
        let make = move || plans(&scenario, &overrides, &protocols);
        interrupt::run_abandonable(&|| options.is_interrupted(), make)?
    };
    compare_plans(protocols, &plans, options)
}

/// As [`compare`], of one plan per protocol.
///
/// # Errors
/// As those of [`compare`].
pub fn compare_plans(
    protocols: &[String],
    plans: &[Plan],
    options: &RunOptions<'_>,
) -> Result<Comparison, Error> {
    // Held until all runs are done: if the comparison fails, the folder is removed.
    let destination = options.out.map(|out| Destination::open(out, options.force)).transpose()?;
    let destination_of = |name: &String| {
        let out = options.out.map(|out| Destination::open(&out.join(name), options.force));
        Ok(Mutex::new(out.transpose()?))
    };
    let destinations = protocols.iter().map(destination_of).collect::<Result<Vec<_>, Error>>()?;
    let named: Vec<_> = protocols.iter().map(String::as_str).zip(plans).collect();
    options.report_resolved(&named);
    let done = in_parallel(plans.len(), options.threads(), |i, threads| {
        let out = destinations[i].lock().unwrap_or_else(|poisoned| poisoned.into_inner()).take();
        run_numbered(&plans[i], options, threads, i, out)
    });

    let (mut unwritten, mut is_any) = (None, false);
    let published = done.into_iter().map(|result| {
        let (summary, kept) = result?;
        let published = publish(kept);
        is_any |= published.is_ok();
        unwritten = unwritten.take().or(published.err());
        Ok(summary)
    });
    let published = published.collect();
    let (comparison, failure) = Comparison::of(protocols, plans, published);
    if let Some(destination) = destination.filter(|_| is_any) {
        let whole = failure.is_none() && unwritten.is_none();
        unwritten = unwritten.or(comparison.publish(destination, whole).err());
    }
    match (failure, unwritten) {
        (Some(failure), _) => Err(failure),
        (None, Some(why)) => Err(Error::unwritten(Results::Comparison(comparison), why)),
        (None, None) => Ok(comparison),
    }
}

impl Comparison {
    /// Builds a comparison from one run per protocol: the runs that succeeded, and the first
    /// failure.
    pub fn of(
        protocols: &[String],
        plans: &[Plan],
        done: Vec<Result<Summary, Error>>,
    ) -> (Comparison, Option<Error>) {
        let (mut runs, mut failure) = (Vec::with_capacity(plans.len()), None);
        for (protocol, result) in protocols.iter().zip(done) {
            match result {
                Ok(summary) => runs.push(Compared { protocol: protocol.clone(), summary }),
                Err(error) => failure = failure.or(Some(error)),
            }
        }
        let first = plans.first().map(|plan| (plan.name.clone(), plan.seed));
        let (name, seed) = first.unwrap_or_default();
        let warnings = own_warnings(protocols, plans);
        (Comparison { schema: 1, name, seed, warnings, runs }, failure)
    }

    /// Warnings of the comparison and of all its runs, each once. A warning that not every run has
    /// and that does not name its protocol is prefixed with it.
    pub fn all_warnings(&self) -> Vec<String> {
        let of_run = |run: &'_ Compared| (run.protocol.clone(), run.summary.warnings.clone());
        with_those_of_runs(self.warnings.clone(), &self.runs.iter().map(of_run).collect::<Vec<_>>())
    }

    /// The bytes of `comparison.json`.
    ///
    /// # Errors
    /// When writing to `to` fails.
    pub fn write(&self, to: impl Write) -> io::Result<()> {
        write_json(self, to)
    }

    /// Replaces the previous results of the folder. Only a complete comparison is written.
    pub fn publish(&self, to: Destination, whole: bool) -> Result<(), Error> {
        let mut files = Vec::new();
        if whole {
            let write = || {
                let mut file = to.partial("comparison.json")?;
                self.write(&mut file)?;
                Ok(file)
            };
            files.push(write().map_err(Error::output(to.path()))?);
        }
        let protocols: Vec<String> = self.runs.iter().map(|run| run.protocol.clone()).collect();
        to.publish(files, &protocols)
    }
}

/// Warnings of the comparison of these plans, without those of single plans.
fn own_warnings(protocols: &[String], plans: &[Plan]) -> Vec<String> {
    unlike(protocols, plans).into_iter().chain(ideal_paths_warning(plans.iter())).collect()
}

/// Warnings of a comparison that are known before its runs, each once.
pub(crate) fn planned_warnings(protocols: &[String], plans: &[Plan]) -> Vec<String> {
    let of_plan = |(name, plan): (&String, &Plan)| (name.clone(), plan.warnings.clone());
    let runs: Vec<_> = protocols.iter().zip(plans).map(of_plan).collect();
    with_those_of_runs(own_warnings(protocols, plans), &runs)
}

/// Adds the warnings of runs, each run with its protocol.
fn with_those_of_runs(mut all: Vec<String>, runs: &[(String, Vec<String>)]) -> Vec<String> {
    for (protocol, warnings) in runs {
        for warning in warnings {
            let is_everywhere = runs.iter().all(|(_, warnings)| warnings.contains(warning));
            let text = if is_everywhere || warning.contains(protocol) {
                warning.clone()
            } else {
                format!("{protocol}: {warning}")
            };
            if !all.contains(&text) {
                all.push(text);
            }
        }
    }
    all
}

/// The scenario under each protocol.
pub(crate) fn plans(
    scenario: &Source,
    overrides: &[Override],
    protocols: &[String],
) -> Result<Vec<Plan>, Error> {
    let usage = |message| Error::Usage { option: "--protocols", message };
    for (i, name) in protocols.iter().enumerate() {
        catalog::find(name).map_err(usage)?;
        if protocols[..i].contains(name) {
            return Err(usage(format!("`{name}` is listed twice")));
        }
    }
    check(scenario, overrides)?;
    let plan = |name: &String| {
        under(name, scenario, overrides).map_err(|error| match error {
            Error::Scenario(message) => Error::Scenario(format!("under {name}: {message}")),
            other => other,
        })
    };
    let planned: Vec<_> = protocols.iter().map(plan).collect();
    let is_fit = |planned: &Result<Plan, Error>| !matches!(planned, Err(Error::Scenario(_)));
    let fit: Vec<&str> = protocols
        .iter()
        .zip(&planned)
        .filter(|(_, one)| is_fit(one))
        .map(|(name, _)| name.as_str())
        .collect();
    let advised = |error| match error {
        Error::Scenario(message) => match advice(scenario, overrides, &fit, &message) {
            Some(advice) => Error::Advised { why: Box::new(Error::Scenario(message)), advice },
            None => Error::Scenario(message),
        },
        other => other,
    };
    planned.into_iter().collect::<Result<_, Error>>().map_err(advised)
}

/// Advice on an error under one of several protocols, of which `fit` have none: the keys of a
/// parameter that only these have, or the command that compares these.
fn advice(
    scenario: &Source,
    overrides: &[Override],
    fit: &[&str],
    message: &str,
) -> Option<String> {
    let refused = overrides.iter().find_map(|change| {
        let is_named = message.contains(&format!("{}: {}: ", change.option, change.key));
        change.key.strip_prefix("transport.params.").filter(|_| is_named)
    });
    match (scenario, refused) {
        _ if fit.is_empty() => None,
        (_, Some(param)) => {
            let keys: Vec<String> =
                fit.iter().map(|name| format!("protocols.{name}.params.{param}")).collect();
            Some(format!(
                "transport.params applies to every compared protocol; to set a parameter of one \
                 protocol, use {}",
                keys.join(" or ")
            ))
        }
        (Source::File(path), None) => Some(format!(
            "to compare the others: tidegate compare {} --protocols {}",
            path.display(),
            fit.join(",")
        )),
        _ => None,
    }
}

/// Checks what all protocols share, including the scenario's own protocol.
fn check(scenario: &Source, overrides: &[Override]) -> Result<(), Error> {
    if let Some(other) = overrides.iter().find(|change| is_protocol(&change.key)) {
        let message =
            format!("selects the protocols, so `{}` cannot be used with it", other.option);
        return Err(Error::Usage { option: "--protocols", message });
    }
    let of_all = |change: &&Override| !change.key.starts_with("transport.");
    load(scenario.clone(), &overrides.iter().filter(of_all).cloned().collect::<Vec<_>>()).map(drop)
}

/// Whether a key is the protocol, or the table that contains it.
fn is_protocol(key: &str) -> bool {
    ["transport", "transport.protocol"].contains(&key)
}

/// The scenario under a protocol. Parameters of the scenario apply to its own protocol; overrides
/// apply to every compared protocol.
fn under(name: &str, scenario: &Source, overrides: &[Override]) -> Result<Plan, Error> {
    let mut all = vec![Override::protocol("--protocols", name)];
    all.extend_from_slice(overrides);
    load(scenario.clone(), &all)
}

/// The protocols that a scenario can run under.
#[derive(Clone, Debug)]
pub struct RunnableProtocols {
    /// Their names, in the order of the catalog; at least one.
    pub protocols: Vec<String>,
    /// The other protocols, and the reason for each.
    pub refused: Vec<(Vec<String>, String)>,
}

/// Determines the protocols that a scenario can run under, to resolve `all`.
///
/// # Errors
/// When the scenario or an override is invalid under every protocol, or no protocol can run it.
pub fn runnable_protocols(
    scenario: impl Into<Source>,
    overrides: &[Override],
) -> Result<RunnableProtocols, Error> {
    let scenario = &scenario.into();
    check(scenario, overrides)?;
    let mut runnable = RunnableProtocols { protocols: Vec::new(), refused: Vec::new() };
    for name in Protocol::ALL.iter().map(|protocol| protocol.info().name) {
        match under(name, scenario, overrides) {
            Ok(_) => runnable.protocols.push(name.to_owned()),
            Err(Error::Scenario(why)) => {
                // The message names the option alone, so that equal faults of several protocols are
                // grouped.
                let why = why.replace(&format!("--protocols {name}"), "--protocols");
                match runnable.refused.iter_mut().find(|(_, other)| *other == why) {
                    Some((names, _)) => names.push(name.to_owned()),
                    None => runnable.refused.push((vec![name.to_owned()], why)),
                }
            }
            Err(other) => return Err(other),
        }
    }
    match runnable.refused.first().filter(|_| runnable.protocols.is_empty()) {
        Some((names, why)) => Err(Error::Scenario(format!("under {}: {why}", names.join(", ")))),
        None => Ok(runnable),
    }
}

/// Warns if the switches pause in some plans and drop in others. This happens because each protocol
/// decides what the scenario leaves open.
fn unlike(protocols: &[String], plans: &[Plan]) -> Option<String> {
    let pauses = |plan: &Plan| plan.fabric.switches.iter().any(|switch| switch.pausing.is_some());
    let drops = |plan: &Plan| {
        let limited = |switch: &Switch| switch.buffer != Buffer::Unlimited;
        !pauses(plan) && plan.fabric.switches.iter().any(limited)
    };
    let named = |which: &dyn Fn(&Plan) -> bool| {
        let these = protocols.iter().zip(plans).filter(|(_, plan)| which(plan));
        these.map(|(name, _)| name.as_str()).collect::<Vec<_>>().join(", ")
    };
    let (pausing, dropping) = (named(&pauses), named(&drops));
    (!pausing.is_empty() && !dropping.is_empty()).then(|| {
        format!(
            "switches pause under {pausing} and drop under {dropping}: results may differ for this \
             reason; set switch.pfc to give all runs the same switches"
        )
    })
}

/// Runs `jobs` jobs on at most `threads` threads and returns the results in order. Each job
/// receives its number and its share of the threads. A job that panics counts as a failed run.
pub fn in_parallel<T: Send>(
    jobs: usize,
    threads: usize,
    job: impl Fn(usize, usize) -> Result<T, Error> + Sync,
) -> Vec<Result<T, Error>> {
    let (next, left) = (AtomicUsize::new(0), AtomicUsize::new(jobs));
    let done: Vec<Mutex<Option<Result<T, Error>>>> = (0..jobs).map(|_| Mutex::new(None)).collect();
    std::thread::scope(|scope| {
        let work = || {
            loop {
                let i = next.fetch_add(1, Ordering::Relaxed);
                let Some(slot) = done.get(i) else { break };
                let share = threads / threads.min(left.load(Ordering::Relaxed)).max(1);
                let result = crate::guarded(|| job(i, share.max(1)));
                left.fetch_sub(1, Ordering::Relaxed);
                *slot.lock().unwrap_or_else(|poisoned| poisoned.into_inner()) = Some(result);
            }
        };
        for _ in 1..threads.min(jobs) {
            scope.spawn(work);
        }
        work();
    });
    let result =
        |slot: Mutex<Option<_>>| slot.into_inner().unwrap_or_else(|poisoned| poisoned.into_inner());
    let missing = || Err(Error::Run("a run ended without a result".to_owned()));
    done.into_iter().map(|slot| result(slot).unwrap_or_else(missing)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn jobs_keep_their_order() {
        for threads in [1, 2, 7] {
            let results = in_parallel(20, threads, |i, _| Ok(i * i));
            let squares: Vec<_> = results.into_iter().map(Result::unwrap).collect();
            assert_eq!(squares, (0..20).map(|i| i * i).collect::<Vec<_>>());
        }
    }

    #[test]
    fn a_panic_fails_only_its_own_run() {
        let results =
            in_parallel(3, 2, |i, _| if i == 1 { panic!("as it happens") } else { Ok(i) });
        assert!(
            matches!(&results[1], Err(Error::Run(message)) if message.contains("as it happens"))
        );
        assert!(results[0].is_ok() && results[2].is_ok());
    }
}
