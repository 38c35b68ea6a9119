//! One scenario under several protocols.

use std::io::{self, Write};
use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use serde::Serialize;
use tidegate_results::{Folder, Summary, write_json};
use tidegate_scenario::{Override, Plan};

use crate::run::{check_free, run_numbered};
use crate::{Error, RunOptions, catalog, load};

/// A scenario under several protocols: the content of `comparison.json`.
#[derive(Clone, Debug, Serialize)]
pub struct Comparison {
    /// Version of this schema.
    pub schema: u32,
    /// What the scenario calls itself.
    pub name: String,
    /// All randomness came from here.
    pub seed: u64,
    /// One run a protocol, in the order asked for.
    pub runs: Vec<Compared>,
}

/// One run of a comparison.
#[derive(Clone, Debug, Serialize)]
pub struct Compared {
    /// The protocol under comparison. Flows that name another one in the scenario keep it.
    pub protocol: String,
    /// Its results.
    pub summary: Summary,
}

/// Runs the scenario at `path` under each of `protocols`, several at a time where there are threads for it. The results of
/// each go to a folder of its own in `options.out`, next to `comparison.json`.
///
/// # Errors
/// When a protocol, the scenario or an override is wrong, nothing has run and nothing is written. When a run fails, the
/// others are done all the same; the first failure is returned.
pub fn compare(
    path: &Path,
    overrides: &[Override],
    protocols: &[String],
    options: &RunOptions<'_>,
) -> Result<Comparison, Error> {
    let plans = plans(path, overrides, protocols)?;
    let outs: Vec<_> = protocols.iter().map(|name| options.out.map(|out| out.join(name))).collect();
    for out in options.out.into_iter().chain(outs.iter().flatten().map(|out| out.as_path())) {
        check_free(out, options.force)?;
    }
    // Held until all is done: if nothing comes of it, the folder goes again.
    let folder = options.out.map(|out| Folder::open(out).map_err(Error::output(out))).transpose()?;
    let summaries = in_parallel(plans.len(), options.threads(), |i| {
        let options = RunOptions { out: outs[i].as_deref(), ..*options };
        run_numbered(&plans[i], &options, i)
    });
    let mut runs = Vec::with_capacity(plans.len());
    for (protocol, summary) in protocols.iter().zip(summaries) {
        runs.push(Compared { protocol: protocol.clone(), summary: summary? });
    }
    let first = plans.first().map(|plan| (plan.name.clone(), plan.seed));
    let (name, seed) = first.unwrap_or_default();
    let comparison = Comparison { schema: 1, name, seed, runs };
    if let Some((out, folder)) = options.out.zip(folder) {
        comparison.publish(folder).map_err(Error::output(out))?;
    }
    Ok(comparison)
}

impl Comparison {
    /// The bytes of `comparison.json`.
    ///
    /// # Errors
    /// When `to` refuses to be written.
    pub fn write(&self, to: impl Write) -> io::Result<()> {
        write_json(self, to)
    }

    fn publish(&self, folder: Folder) -> io::Result<()> {
        let mut file = folder.partial("comparison.json")?;
        self.write(&mut file)?;
        folder.publish(vec![file])
    }
}

/// The scenario under each protocol.
fn plans(path: &Path, overrides: &[Override], protocols: &[String]) -> Result<Vec<Plan>, Error> {
    let usage = |message| Error::Usage { option: "--protocols", message };
    for (i, name) in protocols.iter().enumerate() {
        catalog::find(name).map_err(usage)?;
        if protocols[..i].contains(name) {
            return Err(usage(format!("`{name}` stands there twice")));
        }
    }
    let own = load(path, overrides)?;
    let plan = |name: &String| {
        let mut overrides = overrides.to_vec();
        overrides.push(Override::option("--protocols", "transport.protocol", name));
        if own.resolved["transport"]["protocol"] != name.as_str() {
            // What the scenario sets there is of its own protocol. Others have `[protocols.NAME]`.
            overrides.push(Override::option("--protocols", "transport.params", "{}"));
        }
        load(path, &overrides)
    };
    protocols.iter().map(plan).collect()
}

/// Does `jobs` jobs on at most `threads` threads; results in order. A job that panics is a failed run.
pub(crate) fn in_parallel<T: Send>(
    jobs: usize,
    threads: usize,
    job: impl Fn(usize) -> Result<T, Error> + Sync,
) -> Vec<Result<T, Error>> {
    let next = AtomicUsize::new(0);
    let done: Vec<Mutex<Option<Result<T, Error>>>> = (0..jobs).map(|_| Mutex::new(None)).collect();
    std::thread::scope(|scope| {
        let work = || {
            loop {
                let i = next.fetch_add(1, Ordering::Relaxed);
                let Some(slot) = done.get(i) else { break };
                let result = crate::guarded(|| job(i));
                *slot.lock().unwrap_or_else(|poisoned| poisoned.into_inner()) = Some(result);
            }
        };
        for _ in 1..threads.min(jobs) {
            scope.spawn(work);
        }
        work();
    });
    let result = |slot: Mutex<Option<_>>| slot.into_inner().unwrap_or_else(|poisoned| poisoned.into_inner());
    let missing = || Err(Error::Run("a run ended without a result".to_owned()));
    done.into_iter().map(|slot| result(slot).unwrap_or_else(missing)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn jobs_keep_their_order_whatever_the_threads() {
        for threads in [1, 2, 7] {
            let results = in_parallel(20, threads, |i| Ok(i * i));
            let squares: Vec<_> = results.into_iter().map(Result::unwrap).collect();
            assert_eq!(squares, (0..20).map(|i| i * i).collect::<Vec<_>>());
        }
    }

    #[test]
    fn a_panic_is_a_failed_run_and_the_others_are_done() {
        let results = in_parallel(3, 2, |i| if i == 1 { panic!("as it happens") } else { Ok(i) });
        assert!(matches!(&results[1], Err(Error::Run(message)) if message.contains("as it happens")));
        assert!(results[0].is_ok() && results[2].is_ok());
    }
}
