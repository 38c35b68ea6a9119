//! Warnings of telemetry whose resolution is too coarse for the protocols of a scenario.

use tidegate_core::fabric::{Fabric, Stamping, TelemetryResolution};
use tidegate_core::{FabricProperties, Path, Span, Telemetry};

use super::transport::Stacks;

/// Warns of protocols that read telemetry whose quantum exceeds their smallest delay target, or the
/// base RTT of `shortest` if they have none, or whose period exceeds that base RTT.
pub(crate) fn coarse(
    stacks: &Stacks<'_>,
    properties: &FabricProperties,
    fabric: &Fabric,
    shortest: Path,
    warnings: &mut Vec<String>,
) {
    let stamping = fabric.switches.iter().filter(|switch| switch.telemetry != Stamping::Off);
    let all: Vec<TelemetryResolution> =
        stamping.map(|switch| switch.telemetry_resolution).collect();
    let longest = |of: fn(&TelemetryResolution) -> Span| all.iter().map(of).max();
    let quantum = longest(|of| of.quantum).unwrap_or(Span::ZERO);
    let period = longest(|of| of.period).unwrap_or(Span::ZERO);
    let base_rtt = shortest.base_rtt;
    for stack in stacks.iter() {
        if stack.requirements(properties).telemetry == Telemetry::NONE {
            continue;
        }
        // The target falls with the rate.
        let rate = shortest.nic_rate.as_bps() as f64;
        let target = stack.operating_point(&shortest, rate).telemetry_target;
        let limit = target.unwrap_or(base_rtt);
        let (of, unseen) = match target {
            Some(_) => ("smallest delay target", "queueing delays below the quantum"),
            None => ("shortest base RTT", "changes within a round trip"),
        };
        let name = stack.protocol().info().name;
        let mut add = |text: String| {
            let text = format!("{name}: {text}");
            if !warnings.contains(&text) {
                warnings.push(text);
            }
        };
        if quantum > limit {
            add(format!(
                "the telemetry quantum of {} exceeds the {of} of {}: the protocol cannot observe \
                 {unseen}; use a smaller `switch.telemetry_quantum`",
                us(quantum),
                us(limit)
            ));
        }
        if period > base_rtt {
            add(format!(
                "the telemetry period of {} exceeds the shortest base RTT of {}: the protocol \
                 observes the same values in several round trips; use a smaller \
                 `switch.telemetry_period`",
                us(period),
                us(base_rtt)
            ));
        }
    }
}

/// A span in microseconds, to a nanosecond.
fn us(span: Span) -> String {
    format!("{} us", (span.as_us_f64() * 1e3).round() / 1e3)
}
