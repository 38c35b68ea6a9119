//! A flow's rate and a window proportional to it, as in congestion controls of RDMA NICs.

use tidegate_core::{Extent, Limit, Path, Rate, Time};

/// A rate between a minimum and the NIC's rate. It paces packets, and a window proportional to it
/// bounds the bytes in flight (rdma-hw.cc of HPCC's simulator); at least one packet may be in
/// flight.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Pace {
    bps: f64,
    line_bps: f64,
    min_bps: f64,
    /// Window per bit/s of the rate.
    bytes_per_bps: f64,
    /// Smallest window.
    packet: f64,
}

impl Pace {
    /// The NIC's rate, at which the window is `max_window`.
    pub(crate) fn of_line(min_rate: Rate, max_window: Extent, path: &Path) -> Pace {
        let line_bps = path.nic_rate.as_bps() as f64;
        Pace {
            bps: line_bps,
            line_bps,
            min_bps: (min_rate.as_bps() as f64).min(line_bps),
            bytes_per_bps: max_window.bytes(path.bdp_bytes) / line_bps,
            packet: path.full_wire_bytes as f64,
        }
    }

    /// The rate in bit/s.
    #[inline]
    pub(crate) fn bps(&self) -> f64 {
        self.bps
    }

    /// The NIC's rate in bit/s: the maximum.
    #[inline]
    pub(crate) fn line_bps(&self) -> f64 {
        self.line_bps
    }

    /// Time of a full packet at the rate, in picoseconds.
    #[inline]
    pub(crate) fn gap_ps(&self) -> f64 {
        self.packet * 8e12 / self.bps
    }

    /// Sets the rate, limited to the allowed range.
    #[inline]
    pub(crate) fn set(&mut self, bps: f64) {
        self.bps = bps.clamp(self.min_bps, self.line_bps);
    }

    #[inline]
    pub(crate) fn limit(&self, wake_at: Time) -> Limit {
        let window_bytes = (self.bps * self.bytes_per_bps).max(self.packet);
        Limit { window_bytes, pace_bps: self.bps, wake_at }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::contract::{PIPE, path};

    #[test]
    fn window_falls_with_the_rate_to_one_packet() {
        let mut pace = Pace::of_line(Rate::mbps(100), Extent::Bdp(1.0), &path());
        let full = f64::from(path().full_wire_bytes);
        for (bps, paced, window) in
            [(1e12, 1e11, PIPE), (5e10, 5e10, PIPE / 2.0), (1e9, 1e9, full), (0.0, 1e8, full)]
        {
            pace.set(bps);
            let limit = pace.limit(Time::NEVER);
            assert_eq!((limit.pace_bps, limit.window_bytes), (paced, window), "{bps}");
        }
    }
}
