//! Warnings of protocols that a scenario uses outside their design range.

use std::collections::BTreeMap;

use tidegate_core::routes::Reach;
use tidegate_core::workload::{Flow, Workload};
use tidegate_core::{FabricProperties, Message, Path, Time};

use super::transport::Stacks;

/// Warns of protocols outside their design range on the longest path or on `shortest`, at the
/// share that unlimited flows leave each other. Warnings of both paths that differ in numbers only
/// are of one kind; then that for the longest is reported.
pub(crate) fn outside(
    stacks: &Stacks<'_>,
    workload: &Workload,
    properties: &FabricProperties,
    shortest: Option<Path>,
    warnings: &mut Vec<String>,
) {
    for (number, stack) in stacks.iter().enumerate() {
        let share = properties.host_rate.as_bps() as f64 / fan_in(workload, number as u16) as f64;
        let point = |path| stack.operating_point(&path, share);
        let mut longest = point(properties.path());
        add_other_kinds(
            &mut longest.domain_warnings,
            shortest.map_or(Vec::new(), |path| point(path).domain_warnings),
        );
        if let Some(warning) = longest.domain_warning() {
            warnings.push(format!("{}: {warning}", stack.protocol().info().name));
        }
    }
}

/// Warns of paths with a much larger base RTT than the fastest one of the same pair.
pub(crate) fn warn_of_unequal_paths(reach: Reach, warnings: &mut Vec<String>) {
    let Reach { base_rtt, spread, .. } = reach;
    if spread > base_rtt.scale(0.25) {
        warnings.push(format!(
            "paths of a pair of hosts with the same number of switches differ by up to {:.2} us in \
             their base RTTs; base RTTs, of at most {:.2} us, and BDPs are those of the fastest, \
             so a protocol that limits bytes in flight to a BDP does not fill the others: set \
             transport.bdp to the BDP of the slowest",
            spread.as_us_f64(),
            base_rtt.as_us_f64()
        ));
    }
}

/// Largest number of unlimited flows of a stack that a host receives at a time; at least 1.
fn fan_in(workload: &Workload, stack: u16) -> usize {
    let mut received: BTreeMap<u32, usize> = BTreeMap::new();
    let unlimited = |flow: &&Flow| flow.stack == stack && flow.bytes == Message::UNLIMITED;
    for flow in workload.flows.iter().filter(unlimited).filter(|flow| flow.stop == Time::NEVER) {
        *received.entry(flow.dst).or_default() += 1;
    }
    received.into_values().max().unwrap_or(1)
}

/// Adds the warnings that differ from all present ones in more than numbers.
fn add_other_kinds(warnings: &mut Vec<String>, others: Vec<String>) {
    let kind = |text: &str| text.replace(|c: char| c.is_ascii_digit() || c == '.', "");
    for other in others {
        if !warnings.iter().any(|known| kind(known) == kind(&other)) {
            warnings.push(other);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::add_other_kinds;
    use crate::load;

    #[test]
    fn other_kinds_of_warnings_are_added() {
        let texts = |list: &[&str]| list.iter().map(ToString::to_string).collect::<Vec<_>>();
        let mut warnings = texts(&["the target of 25.5us is low; set 1B", "the window is small"]);
        add_other_kinds(
            &mut warnings,
            texts(&["the target of 4us is low; set 20B", "the target of 4us is high"]),
        );
        let expected = ["the target of 25.5us is low; set 1B", "the window is small"];
        assert_eq!(warnings, [&expected[..], &["the target of 4us is high"]].concat());
    }

    #[test]
    fn paths_of_different_length_are_reported() {
        let warnings = |delay: &str, more: &str| -> Vec<String> {
            let links = [("h0", "t0", "1us"), ("h1", "t1", "1us"), ("t0", "s0", "1us")]
                .into_iter()
                .chain([("s0", "t1", "1us"), ("t0", "s1", delay), ("s1", "t1", "1us")])
                .map(|(a, b, delay)| {
                    format!("{{ a = '{a}', b = '{b}', rate = '100Gbps', delay = '{delay}' }}")
                });
            let text = format!(
                "duration = '1ms'\nflows = [{{ src = 'h0', dst = 'h1' }}]\n\
                 fabric = {{ kind = 'graph', hosts = ['h0', 'h1'], \
                 switches = ['t0', 't1', 's0', 's1'], links = [{}] }}\n\
                 transport = {{ protocol = 'swift'{more} }}",
                links.collect::<Vec<_>>().join(", ")
            );
            let warnings = load(&text, "x.toml", &[]).unwrap().warnings;
            warnings.into_iter().filter(|text| text.contains("number of switches")).collect()
        };
        // Four links of a microsecond each way, and four times 4,260 B at 80 ps.
        let base_us = 8.0 + 4.0 * 4260.0 * 80e-6;
        let none: [String; 0] = [];
        assert_eq!(warnings("1us", ""), none);
        assert_eq!(warnings(&format!("{}ns", 1000.0 + base_us * 124.0), ""), none);
        let found = warnings(&format!("{}ns", 1000.0 + base_us * 126.0), "");
        assert!(found[0].contains("up to 2.36 us") && found[0].contains("9.36 us"), "{found:?}");
        assert_eq!(warnings("9us", ", bdp = '400KB'"), none);
    }
}
