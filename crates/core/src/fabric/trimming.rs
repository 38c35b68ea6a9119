//! Packet trimming, as data.

use core::fmt;

use crate::Rate;

/// Packet trimming: a switch whose queue for data is full keeps the headers of a packet and drops
/// only its payload. The headers precede data, or share the link with it by `header_weight`.
/// Source: NDP (SIGCOMM'17); `compositequeue.cpp` of ultraethernet/uet-htsim.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Trimming {
    /// Capacity of the queue for data of a port, in bytes on the wire.
    pub data_bytes: u32,
    /// Capacity of the queue for headers and control packets of a port. Packets that do not fit are
    /// dropped, or returned to their sender.
    pub header_queue_bytes: u32,
    /// Bytes on the wire of a packet without its payload.
    pub trimmed_bytes: u16,
    /// Packet that loses its payload.
    pub victim: TrimVictim,
    /// Rate that both capacities refer to; at other rates they scale in proportion. `None`: they
    /// are the same at all ports.
    pub per: Option<Rate>,
    /// A trimmed packet that does not fit is returned to its sender; if it does not fit on its way
    /// back either, it is dropped. Source: NDP; `compositequeue.cpp` of Broadcom/csg-htsim.
    pub return_to_sender: bool,
    /// While both queues of a port hold packets, it sends this number of packets of the queue for
    /// headers, then one of data, so that headers cannot starve data (weighted round robin).
    /// `None`: the queue for headers has strict priority.
    pub header_weight: Option<u16>,
}

impl Trimming {
    /// One of its capacities at a port of this rate.
    #[inline]
    pub fn at_rate(&self, bytes: u32, rate: Rate) -> u32 {
        let Some(per) = self.per else { return bytes };
        let scaled = bytes as u128 * rate.as_bps() as u128 / per.as_bps().max(1) as u128;
        scaled.min(u32::MAX as u128) as u32
    }
}

impl fmt::Debug for Trimming {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = f.debug_struct("Trimming");
        shown.field("data_bytes", &self.data_bytes);
        shown.field("header_queue_bytes", &self.header_queue_bytes);
        shown.field("trimmed_bytes", &self.trimmed_bytes).field("victim", &self.victim);
        // A later field is named only if it is not the default, so that hashes of plans stay.
        if let Some(per) = self.per {
            shown.field("per", &per);
        }
        if self.return_to_sender {
            shown.field("return_to_sender", &true);
        }
        if let Some(weight) = self.header_weight {
            shown.field("header_weight", &weight);
        }
        shown.finish()
    }
}

/// Packet that loses its payload at a full queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TrimVictim {
    /// The one that arrives.
    Arriving,
    /// The one that arrives or the last in the queue, with equal probability, so that no flow
    /// loses every race for a slot.
    Random,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn capacities_follow_the_rate_they_refer_to() {
        let of = |per| Trimming {
            data_bytes: 100_000,
            header_queue_bytes: 200_000,
            trimmed_bytes: 84,
            victim: TrimVictim::Arriving,
            per,
            return_to_sender: false,
            header_weight: None,
        };
        let at = |per, gbps| of(per).at_rate(100_000, Rate::gbps(gbps));
        assert_eq!([at(None, 25), at(None, 400)], [100_000, 100_000]);
        let per = Some(Rate::gbps(100));
        assert_eq!([at(per, 25), at(per, 100), at(per, 400)], [25_000, 100_000, 400_000]);
        assert_eq!(of(per).at_rate(u32::MAX, Rate::gbps(400)), u32::MAX);
    }
}
