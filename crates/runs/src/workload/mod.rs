//! Scenarios from a user's own traffic, how closely the synthetic traffic resembles it, and how
//! closely simulated completion times resemble measured ones. The scenario crate reads and analyses
//! the traffic.

mod completions;

use std::path::Path;

use serde_json::{Map, Value, json};
use tidegate_core::Time;
use tidegate_scenario::load_file;
use tidegate_scenario::workload::{
    Distance, Profile, TracedFlow, Workload, WorkloadOptions, distances, percentile,
};

use crate::{Destination, Error, guarded};

pub use completions::{CompletedClass, Completions, Percentiles, compare_completions};

/// Files of a workload that are not results of runs.
const FILES: [&str; 8] = [
    "sizes.csv",
    "incast-sizes.csv",
    "trace.csv",
    "completions.csv",
    "hosts.csv",
    "replay.toml",
    "workload.json",
    "scenario.toml",
];

/// A user's own traffic, and synthetic traffic with the same sizes, load and incasts.
#[derive(Clone, Debug)]
pub struct MeasuredWorkload {
    /// The analysis of the traffic.
    pub workload: Workload,
    /// Measures of the synthetic traffic, drawn with the seed of the scenario.
    pub synthetic: Profile,
    /// Differences between the two.
    pub distances: Vec<Distance>,
    files: Vec<(String, String)>,
}

/// Reads and analyses a list of flows or a packet capture, and draws synthetic traffic like it.
///
/// # Errors
/// If the file or an option is invalid.
pub fn workload_from(path: &Path, options: &WorkloadOptions) -> Result<MeasuredWorkload, Error> {
    guarded(|| {
        let workload = Workload::read(path, options).map_err(Error::scenario)?;
        let files = workload.files();
        let synthetic = synthetic(&workload, &files)?;
        let distances = distances(&workload.profile, &synthetic);
        Ok(MeasuredWorkload { workload, synthetic, distances, files })
    })
}

/// Loads both scenarios from a temporary folder, and measures the synthetic traffic.
fn synthetic(workload: &Workload, files: &[(String, String)]) -> Result<Profile, Error> {
    let failed = |error: std::io::Error| Error::Run(format!("a temporary folder: {error}"));
    let folder = tempfile::tempdir().map_err(failed)?;
    for (name, text) in files {
        std::fs::write(folder.path().join(name), text).map_err(failed)?;
    }
    let load = |name: &str| load_file(&folder.path().join(name), &[]).map_err(Error::scenario);
    load("replay.toml")?;
    let plan = load("scenario.toml")?;
    let hosts = plan.fabric.hosts.len();
    let drawn = tidegate_sim::flows(&plan.workload, hosts as u32, plan.seed, plan.duration);
    // As the trace would have recorded them.
    let resolution = workload.trace.resolution.as_ps();
    let recorded = |at: Time| Time::ps(at.as_ps() / resolution * resolution);
    let flows: Vec<TracedFlow> = drawn
        .map(|flow| TracedFlow {
            at: recorded(flow.start),
            src: flow.src,
            dst: flow.dst,
            bytes: flow.bytes,
            lasted: None,
        })
        .collect();
    Ok(Profile::of(&flows, hosts, workload.trace.duration, workload.rule.window))
}

/// Opens the folder for the files of a workload.
///
/// # Errors
/// As [`Destination::open`], and if the folder holds such files and `force` is not set.
pub fn workload_destination(out: &Path, force: bool) -> Result<Destination, Error> {
    let destination = Destination::open(out, force)?;
    if let Some(name) = FILES.iter().find(|name| !force && out.join(name).exists()) {
        let taken = out.join(name);
        let message = format!("{} already exists; replace it with --force", taken.display());
        return Err(Error::Usage { option: "--out", message });
    }
    Ok(destination)
}

impl MeasuredWorkload {
    /// Writes distributions, trace, hosts, scenarios, measures and `page`, all or none.
    ///
    /// # Errors
    /// If a file cannot be written.
    pub fn write(&self, to: Destination, page: String) -> Result<(), Error> {
        let out = to.path().to_owned();
        let mut files: Vec<(String, Vec<u8>)> = self
            .files
            .iter()
            .map(|(name, text)| (name.clone(), text.clone().into_bytes()))
            .collect();
        let mut json = Vec::new();
        tidegate_results::write_json(&self.json(), &mut json).map_err(Error::output(&out))?;
        // The scenario stays last: if it exists, the others do.
        let last = files.len().saturating_sub(1);
        files.insert(last, ("workload.json".to_owned(), json));
        files.insert(last, ("report.html".to_owned(), page.into_bytes()));
        to.write(&files)?;
        for old in FILES.iter().filter(|name| files.iter().all(|(new, _)| new != *name)) {
            match std::fs::remove_file(out.join(old)) {
                Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                    return Err(Error::output(&out)(error));
                }
                _ => {}
            }
        }
        Ok(())
    }

    /// All measures, as in `workload.json`.
    pub fn json(&self) -> Value {
        let Workload { trace, host_link, incast, rule, profile, warnings, .. } = &self.workload;
        let noted: Map<String, Value> =
            trace.noted.iter().map(|noted| (noted.name.to_owned(), noted.count.into())).collect();
        let incast = incast.as_ref().map(|found| {
            json!({
                "bursts": found.bursts,
                "fan_in": found.fan_in,
                "fan_in_min": found.fan_in_range.0,
                "fan_in_max": found.fan_in_range.1,
                "flows": found.flows,
                "bytes": found.bytes,
                "destinations": found.destinations,
                "dst": found.dst.map(|dst| format!("h{dst}")),
                "interval_us": found.interval.map(|span| span.as_us_f64()),
                "random_intervals": found.is_random,
                "spread_us": found.spread.as_us_f64(),
            })
        });
        let distances = self.distances.iter().map(|distance| {
            json!({
                "name": distance.name,
                "kind": distance.kind.name(),
                "value": distance.value,
                "by_chance": distance.by_chance,
            })
        });
        json!({
            "schema": 1,
            "file": trace.file,
            "kind": if trace.is_capture { "capture" } else { "list" },
            "hosts": trace.hosts.len(),
            "duration_seconds": trace.duration.as_s_f64(),
            "resolution_us": trace.resolution.as_us_f64(),
            "noted": noted,
            "host_link_gbps": host_link.rate.as_gbps_f64(),
            "host_link_needed_gbps": host_link.reason.bps().map(gbps),
            "incast_rule": {
                "window_us": rule.window.as_us_f64(),
                "sources": rule.sources,
            },
            "incast": incast,
            "measured": measures(profile),
            "synthetic": measures(&self.synthetic),
            "distances": distances.collect::<Vec<_>>(),
            "warnings": warnings,
        })
    }
}

fn gbps(bps: f64) -> f64 {
    bps / 1e9
}

fn measures(of: &Profile) -> Value {
    let at = |share: f64| percentile(&of.sizes, share);
    let flows = of.sizes.len();
    let busiest = |bytes: &[u64]| {
        let most = (0..bytes.len()).rev().max_by_key(|i| bytes[*i]);
        most.map(|host| format!("h{host}"))
    };
    json!({
        "flows": flows,
        "bytes": of.bytes,
        "load_gbps": gbps(of.mean_bps()),
        "peak_load_gbps": gbps(of.peak_bps()),
        "host_load_gbps": gbps(of.mean_host_bps()),
        "busiest_host_gbps": gbps(of.busiest_bps()),
        "busiest_sender": busiest(&of.sent_bytes),
        "busiest_receiver": busiest(&of.received_bytes),
        "host_pairs": of.pair_bytes.len(),
        "size_bytes": {
            "mean": (flows > 0).then(|| of.bytes as f64 / flows as f64),
            "p10": at(0.1),
            "p50": at(0.5),
            "p90": at(0.9),
            "p99": at(0.99),
            "max": of.sizes.last(),
        },
        "fan_in_max": of.fan_ins.last(),
    })
}
