//! Telemetry of limited resolution: values in units of a quantum, read once in each period.

use tidegate_core::fabric::{Fabric, Node, TelemetryResolution};
use tidegate_core::{Rate, Span, Time};

/// State of a port at the start of a transmission.
#[derive(Clone, Copy)]
pub(super) struct Reading {
    /// Start of the transmission.
    pub(super) at: Time,
    /// Time that the packet has waited.
    pub(super) delay: Span,
    /// Bytes sent before.
    pub(super) tx_bytes: u64,
    /// Bytes queued behind.
    pub(super) queue_bytes: u32,
}

/// Resolutions and latest readings of the ports of a partition.
pub(super) struct CoarseTelemetry {
    ports: Vec<Latest>,
}

struct Latest {
    resolution: TelemetryResolution,
    reading: Reading,
    /// Start of the next period.
    next: Time,
}

impl CoarseTelemetry {
    /// For ports with global IDs `names`. `None` if the telemetry of all switches is exact.
    pub(super) fn new(fabric: &Fabric, names: &[u32]) -> Option<Box<CoarseTelemetry>> {
        let exact = TelemetryResolution::EXACT;
        if fabric.switches.iter().all(|switch| switch.telemetry_resolution == exact) {
            return None;
        }
        let latest = |&name: &u32| Latest {
            resolution: match fabric.port_ends(name).from {
                Node::Switch(switch) => fabric.switches[switch as usize].telemetry_resolution,
                Node::Host(_) => exact,
            },
            reading: Reading { at: Time::ZERO, delay: Span::ZERO, tx_bytes: 0, queue_bytes: 0 },
            next: Time::ZERO,
        };
        Some(Box::new(CoarseTelemetry { ports: names.iter().map(latest).collect() }))
    }

    /// The values that a packet carries for which a port reads `exact`. Only packets that request
    /// telemetry may call this, in the order of their transmissions.
    #[cold]
    pub(super) fn read(&mut self, index: u32, rate: Rate, exact: Reading) -> Reading {
        let Latest { resolution: TelemetryResolution { quantum, period }, reading, next } =
            &mut self.ports[index as usize];
        if exact.at >= *next {
            *reading = exact;
            if *period > Span::ZERO {
                *next = exact.at.before(in_period(exact.at.as_ps(), *period)).after(*period);
            }
        }
        let Reading { at, delay, tx_bytes, queue_bytes } = *reading;
        let unit = rate.bytes_in(*quantum).max(1);
        Reading {
            at: at.before(in_period(at.as_ps(), *quantum)),
            delay: Span::ps(delay.as_ps() - in_period(delay.as_ps(), *quantum).as_ps()),
            tx_bytes: tx_bytes - tx_bytes % unit,
            queue_bytes: queue_bytes - (queue_bytes as u64 % unit) as u32,
        }
    }
}

/// The remainder after the last multiple of `period`.
fn in_period(ps: u64, period: Span) -> Span {
    Span::ps(ps.checked_rem(period.as_ps()).unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn coarse(quantum: Span, period: Span) -> CoarseTelemetry {
        let resolution = TelemetryResolution { quantum, period };
        let reading = Reading { at: Time::ZERO, delay: Span::ZERO, tx_bytes: 0, queue_bytes: 0 };
        CoarseTelemetry { ports: vec![Latest { resolution, reading, next: Time::ZERO }] }
    }

    /// The values in a packet that starts at `at` ns, after a tenth of that in a queue.
    fn read(coarse: &mut CoarseTelemetry, at: u64) -> (u64, u64, u64, u32) {
        let (at, delay) = (Time::ns(at), Span::ns(at / 10));
        let exact = Reading { at, delay, tx_bytes: at.as_ps() / 80, queue_bytes: 12_345 };
        let Reading { at, delay, tx_bytes, queue_bytes } = coarse.read(0, Rate::gbps(100), exact);
        (at.as_ps() / 1_000, delay.as_ps() / 1_000, tx_bytes, queue_bytes)
    }

    #[test]
    fn quantum_rounds_values_down_to_units() {
        // 100 Gbit/s are 12.5 bytes a nanosecond: 100 ns are 1,250 bytes.
        let mut coarse = coarse(Span::ns(100), Span::ZERO);
        assert_eq!(read(&mut coarse, 1_000), (1_000, 100, 12_500, 11_250));
        assert_eq!(read(&mut coarse, 1_999), (1_900, 100, 23_750, 11_250));
        assert_eq!(read(&mut coarse, 2_000), (2_000, 200, 25_000, 11_250));
    }

    #[test]
    fn packets_of_a_period_carry_its_first_values() {
        let mut coarse = coarse(Span::ZERO, Span::us(1));
        assert_eq!(read(&mut coarse, 1_200), (1_200, 120, 15_000, 12_345));
        assert_eq!(read(&mut coarse, 1_999), (1_200, 120, 15_000, 12_345));
        assert_eq!(read(&mut coarse, 2_000), (2_000, 200, 25_000, 12_345));
        // Periods begin at multiples, and an idle port keeps no old values.
        assert_eq!(read(&mut coarse, 5_900), (5_900, 590, 73_750, 12_345));
        assert_eq!(read(&mut coarse, 6_000), (6_000, 600, 75_000, 12_345));
    }
}
