//! Warnings of protocols that a scenario uses outside their design range.

use std::collections::BTreeMap;

use tidegate_core::fabric::Fabric;
use tidegate_core::routes::Routes;
use tidegate_core::workload::{Flow, Workload};
use tidegate_core::{FabricProperties, Message, Time};

use super::paths;
use super::transport::Stacks;

/// Warns of protocols outside their design range on the longest path or on the shortest, at the
/// share that unlimited flows leave each other. Warnings of both paths that differ in numbers only
/// are of one kind; then that for the longest is reported.
pub(crate) fn outside(
    stacks: &Stacks<'_>,
    workload: &Workload,
    properties: &FabricProperties,
    fabric: &Fabric,
    routes: &Routes,
    warnings: &mut Vec<String>,
) {
    let shortest = paths::shortest(fabric, routes, workload, properties);
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
}
