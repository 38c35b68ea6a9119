//! The files of a workload: distributions, a trace, and two scenarios.

use std::fmt::Write;

use tidegate_algos::Protocol;
use tidegate_core::Span;

use super::distribution::{is_alike, steps};
use super::{Workload, synthetic};
use crate::compile::csv::TRACE;
use crate::interop::decimal;

/// Propagation delay of the links.
const DELAY: &str = "1us";
/// Longest time for messages to complete after the last start.
const DRAIN: &str = "1s";
/// Columns of the measured completion times.
pub const COMPLETIONS: &str = "start_us,src,dst,size_bytes,completion_us";

/// The files, with the scenario last.
pub(super) fn files(of: &Workload) -> Vec<(String, String)> {
    let trace = &of.trace;
    let mut files = Vec::new();
    let mut add = |name: &str, text: String| files.push((name.to_owned(), text));
    let background = sizes(of, false);
    if !background.is_empty() {
        let about = "sizes of flows outside incasts";
        add("sizes.csv", distribution(about, &trace.file, &background));
    }
    let burst = sizes(of, true);
    if !burst.is_empty() && !is_alike(&burst) {
        add("incast-sizes.csv", distribution("sizes of flows in incasts", &trace.file, &burst));
    }
    let mut hosts = "address,host\n".to_owned();
    let mut list = TRACE.join(",") + "\n";
    let mut completions = COMPLETIONS.to_owned() + "\n";
    for (number, address) in trace.hosts.iter().enumerate() {
        let _ = writeln!(hosts, "{address},h{number}");
    }
    for flow in &trace.flows {
        let at = decimal(flow.at, Span::us(1));
        let line = format!("{at},h{},h{},{}", flow.src, flow.dst, flow.bytes);
        if let Some(lasted) = flow.lasted.filter(|_| trace.has_completions) {
            let lasted = decimal(tidegate_core::Time::ZERO + lasted, Span::us(1));
            let _ = writeln!(completions, "{line},{lasted}");
        }
        list += &line;
        list.push('\n');
    }
    add("trace.csv", list);
    if trace.has_completions {
        add("completions.csv", completions);
    }
    add("hosts.csv", hosts);
    let replay = "\n[[traffic]]\nkind = \"trace\"\nfile = \"trace.csv\"\n\
        # scale = 2.0           # twice the load: start times are divided by this factor;\n\
        #                       # divide the duration by it, too, or set until = \"done\"\n";
    add("replay.toml", head(of, "replay", "The flows of the file as they are.") + replay);
    let about = "Synthetic traffic with the load, the sizes and the incasts of the file.";
    let traffic = synthetic::traffic(of, &background, &burst);
    add("scenario.toml", head(of, "synthetic", about) + &traffic);
    files
}

/// Sizes of the flows in incasts or outside, in order.
fn sizes(of: &Workload, in_incast: bool) -> Vec<u64> {
    let flows = of.trace.flows.iter().zip(&of.is_incast);
    let mut sizes: Vec<u64> =
        flows.filter(|(_, is)| **is == in_incast).map(|(flow, _)| flow.bytes).collect();
    sizes.sort_unstable();
    sizes
}

fn distribution(about: &str, file: &str, sorted: &[u64]) -> String {
    let mut text = format!("# {file}: {about}, n = {}\nsize_bytes,cdf\n", sorted.len());
    for (size, share) in steps(sorted) {
        let size = format!("{size:.3}");
        let size = size.trim_end_matches('0').trim_end_matches('.');
        let _ = writeln!(text, "{size},{share}");
    }
    text
}

/// The parts that both scenarios share.
fn head(of: &Workload, kind: &str, about: &str) -> String {
    let stem = of.trace.file.rsplit_once('.').map_or(&*of.trace.file, |(stem, _)| stem);
    let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.' | ' ');
    let name: String = stem.chars().map(|c| if is_plain(c) { c } else { '_' }).collect();
    let (hosts, protocol) = (of.trace.hosts.len(), Protocol::DEFAULT.info().name);
    format!(
        "# Written by `tidegate workload from`.\n# {about}\n# hosts.csv lists the address of each \
         host.\n\nname = \"{name} {kind}\"\nduration = \"{}\"\ndrain = \"{DRAIN}\"\n\n[fabric]\n\
         kind = \"star\"\nhosts = {hosts}\nhost_link = {{ rate = \"{}\", delay = \"{DELAY}\" }}\n\n\
         [transport]\nprotocol = \"{protocol}\"\n",
        of.trace.duration, of.host_link.rate
    )
}
