//! Common parts of window laws: the pipe that they use, which is a base RTT and the bytes that the
//! NIC sends in it, their reaction times, and a limit of flows where switches trim packets.

use alloc::format;
use alloc::string::String;

use tidegate_core::{Ack, Loss, MIN_WIRE_BYTES, Path, Time, choice};

choice! {
    /// Base RTT of a law and its windows.
    pub enum Tau {
        /// The largest of the fabric.
        Fabric = "fabric",
        /// The connection's own.
        Path = "path",
    }
}

choice! {
    /// When a window is recomputed.
    pub enum Reaction {
        /// Once a round trip.
        Round = "round",
        /// With every acknowledgement, from the window of the last round trip.
        Ack = "ack",
    }
}

/// One base RTT for a law and for its windows, whatever BDP the scenario sets.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pipe {
    /// In picoseconds, above zero.
    pub(crate) tau: f64,
    /// In wire bytes.
    pub(crate) bdp: f64,
}

impl Pipe {
    pub(crate) fn of(tau: Tau, path: &Path) -> Pipe {
        let share = match tau {
            Tau::Fabric => 1.0,
            Tau::Path => path.base_rtt.as_ps() as f64 / path.fabric_base_rtt.as_ps().max(1) as f64,
        };
        Pipe { tau: share * path.bdp_time_ps(), bdp: share * path.bdp_bytes }
    }
}

/// A round trip: it ends when a packet is acknowledged that left after its start. Packets that were
/// not sent before have higher numbers. A retransmission has its old number, so departure times
/// decide after a loss: a round trip that waited for a higher number would last until all lost
/// packets of a window have been sent again. They do not decide otherwise, because RTTs exclude the
/// time in which hosts hold packets.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct RoundTrip {
    began: Time,
    /// Number of the next new packet at the start.
    pub(crate) end: u64,
    /// Packets below this number may be retransmissions.
    lost_end: u64,
}

impl RoundTrip {
    /// The first round trip: any acknowledgement ends it.
    pub(crate) const FIRST: RoundTrip = RoundTrip { began: Time::ZERO, end: 0, lost_end: 0 };

    /// The round trip that begins at the detection of a loss.
    pub(crate) fn after(loss: &Loss) -> RoundTrip {
        RoundTrip { began: loss.now, end: u64::MAX, lost_end: u64::MAX }
    }

    /// Whether `ack` is of a packet that left after the start.
    #[inline]
    pub(crate) fn is_over(&self, ack: &Ack<'_>) -> bool {
        ack.seq >= self.end || (ack.seq < self.lost_end && ack.now.before(ack.rtt) >= self.began)
    }

    /// Begins the next round trip.
    #[inline]
    pub(crate) fn begin(&mut self, ack: &Ack<'_>) {
        (self.began, self.end) = (ack.now, ack.next_seq);
    }

    /// Packets of this round trip are lost.
    pub(crate) fn lose(&mut self, loss: &Loss) {
        // Under go-back-N the next new packet is the first lost one.
        self.lost_end = self.lost_end.max(self.end).max(loss.next_seq);
    }
}

/// Warns if the headers of trimmed packets fill a link that flows of this rate share equally. The
/// window of each flow is at least a packet, switches trim, and headers have strict priority. A
/// trimmed packet returns to its sender sooner than a whole one, by the time of its payload on that
/// link.
pub(crate) fn headers_fill_link(path: &Path, rate_bps: f64) -> Option<String> {
    const HEADER: u64 = MIN_WIRE_BYTES as u64;
    let link = path.bottleneck_rate;
    let payload = u64::from(path.full_wire_bytes).saturating_sub(HEADER);
    let rtt = path.base_rtt.beyond(link.serialise(payload));
    let flows = link.as_bps() as f64 / rate_bps.max(1.0);
    let most = link.bytes_in(rtt) / HEADER;
    (flows > most as f64).then(|| {
        format!(
            "{flows:.0} flows share a link of {link}, each with at least a packet in flight; if \
             switches serve headers strictly before data, the headers of {most} flows fill the \
             link, and it delivers nothing: use fewer flows over this link, or set \
             switch.trimming.header_weight to 10"
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::contract;
    use tidegate_core::Span;

    #[test]
    fn headers_of_many_flows_fill_a_link() {
        // Headers take 5.67 us of the base RTT of 6 us: 843 of 84 B in 100 Gbit/s.
        let path = contract::path();
        let warning = |flows: f64| headers_fill_link(&path, 1e11 / flows);
        assert_eq!(warning(843.0), None);
        let text = warning(844.0).unwrap();
        assert!(text.starts_with("844 flows") && text.contains("headers of 843 flows"), "{text}");
    }

    #[test]
    fn rounds_end_by_number_or_by_departure_after_losses() {
        let ack = |now, seq| Ack { rtt: Span::us(6), seq, ..contract::ack(Time::us(now)) };
        let mut round = RoundTrip::FIRST;
        assert!(round.is_over(&ack(6, 0)));
        round.begin(&Ack { next_seq: 20, ..ack(10, 0) });
        assert_eq!([19, 20].map(|seq| round.is_over(&ack(11, seq))), [false, true]);
        assert!(!round.is_over(&ack(100, 19)), "its departure seems later if hosts held it");
        // Under go-back-N, packet 5 is the next one.
        let loss = |next_seq| {
            let (now, rtt) = (Time::us(12), Span::us(6));
            Loss { now, kind: tidegate_core::LossKind::Recovery, rtt, next_seq }
        };
        for next_seq in [5, 20] {
            round.lose(&loss(next_seq));
            assert_eq!([15, 16].map(|now| round.is_over(&ack(now, 7))), [false, true]);
        }
        let round = RoundTrip::after(&loss(20));
        for seq in [0, 1000] {
            assert_eq!([17, 18].map(|now| round.is_over(&ack(now, seq))), [false, true]);
        }
    }
}
