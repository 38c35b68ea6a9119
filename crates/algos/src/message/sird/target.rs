//! Control loop of shared links by a target delay: Poseidon's law, applied to the credit limit of a
//! sender instead of a window. The equations and their parameters are in `tide.rs`.

use tidegate_core::{Rate, Span, Time, choice, math};

choice! {
    /// Delay that is compared with the target.
    pub enum Signal {
        /// The largest queueing delay of a hop between switches.
        PeakHopDelay = "peak-hop-delay",
        /// The same, a round trip from now if it continues to grow: PowerTCP's power, as a delay.
        Power = "power",
    }
}
choice! {
    /// When a credit limit changes.
    pub enum Update {
        /// With every packet, by the packet's share of a round trip.
        EveryPacket = "every-packet",
        /// Increases with every packet, decreases at most once a round trip: Poseidon's algorithm
        /// 1.
        RoundTrip = "round-trip",
    }
}
choice! {
    /// How credit follows a limit that is no whole number of packets.
    pub enum Rounding {
        /// The next credit is delayed so that the mean outstanding credit is the limit.
        TimeAverage = "time-average",
        /// The outstanding credit is the nearest number of packets, and at least one.
        Nearest = "nearest",
    }
}

/// Parameters of the law.
pub(crate) struct Target {
    pub(crate) p: Span,
    pub(crate) k: Span,
    pub(crate) m: f64,
    pub(crate) min_rate: Rate,
    pub(crate) max_rate: Rate,
    pub(crate) min_md: f64,
    pub(crate) max_mi: f64,
    pub(crate) signal: Signal,
    pub(crate) update: Update,
    pub(crate) rounding: Rounding,
    pub(crate) jitter: f64,
}

/// Smallest credit limit in bytes: growth is a share of the limit, so it must not be zero.
pub(super) const LEAST_LIMIT: f64 = 64.0;

/// Number of congested hops whose longest queues a credit limit may fill beside the empty path.
const MOST_HOPS: f64 = 2.0;

/// The law of a receiver.
#[derive(Clone, Debug)]
pub(crate) struct TargetLaw {
    /// T = offset − slope · ln(rate), in picoseconds.
    offset: f64,
    slope: f64,
    /// A · m / p, per picosecond.
    gain: f64,
    min_rate: f64,
    max_rate: f64,
    /// In picoseconds.
    base_rtt: f64,
    ln_min_md: f64,
    ln_max_mi: f64,
    /// Largest credit limit in bytes.
    pub(super) most: f64,
    signal: Signal,
    update: Update,
    pub(super) rounding: Rounding,
    pub(super) jitter: f64,
}

/// Delays of one sender's packets, in picoseconds.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Delays {
    latest: f64,
    /// Smoothed prediction of the delay in one round trip.
    predicted: f64,
    at: Time,
    decreased_at: Option<Time>,
    /// Latest round trip from a credit to its data; zero before the first.
    round_trip: f64,
    /// A credit whose round trip is measured: its time, and the bytes of later credits.
    probe: Option<(Time, i64)>,
}

impl Delays {
    /// Registers a credit for `wire` bytes, after which `outstanding` bytes are outstanding.
    #[inline]
    pub(super) fn issued(&mut self, wire: i64, outstanding: i64, now: Time) {
        match &mut self.probe {
            Some((_, later)) if outstanding > wire => *later += wire,
            // Also after a pause: data of an older credit was cancelled.
            probe => *probe = Some((now, 0)),
        }
    }

    /// Registers that `outstanding` bytes are left after data has arrived. The credit's data has
    /// arrived when only the bytes of later credits are left.
    #[inline]
    fn returned(&mut self, outstanding: i64, now: Time) {
        if let Some((at, later)) = self.probe
            && outstanding <= later
        {
            self.round_trip = now.since(at).as_ps() as f64;
            self.probe = None;
        }
    }

    /// Ends the measurement without a result: the sender does not respond, a lost packet has been
    /// retransmitted (Karn's rule), or credit has been cancelled with the end of its message.
    pub(super) fn cancel(&mut self) {
        self.probe = None;
    }
}

/// A data packet.
#[derive(Clone, Copy)]
pub(super) struct Arrival {
    /// Its bytes on the wire.
    pub(super) wire: f64,
    /// Largest queueing delay of a hop between switches.
    pub(super) delay: Span,
    /// Credit outstanding after it.
    pub(super) outstanding: i64,
    pub(super) now: Time,
}

impl TargetLaw {
    pub(crate) fn new(target: &Target, bdp_bytes: f64, nic_rate: Rate) -> TargetLaw {
        let [min_rate, max_rate] =
            [target.min_rate, target.max_rate].map(|rate| rate.as_bps() as f64);
        let (p, k) = (target.p.as_ps() as f64, target.k.as_ps() as f64);
        let slope = p / math::ln(max_rate / min_rate);
        TargetLaw {
            offset: k + slope * math::ln(max_rate),
            slope,
            gain: target.m / slope,
            min_rate,
            max_rate,
            base_rtt: (bdp_bytes * 8e12 / nic_rate.as_bps() as f64).max(1.0),
            ln_min_md: math::ln(target.min_md),
            ln_max_mi: math::ln(target.max_mi),
            most: bdp_bytes + nic_rate.bytes_in(target.p + target.k) as f64 * MOST_HOPS,
            signal: target.signal,
            update: target.update,
            rounding: target.rounding,
            jitter: target.jitter,
        }
    }

    /// The law, with a largest limit of at least `bytes`.
    pub(super) fn with_room(mut self, bytes: f64) -> TargetLaw {
        self.most = self.most.max(bytes);
        self
    }

    /// Round trip from a credit to its data, in picoseconds; the base RTT before it is measured.
    pub(super) fn round_trip(&self, delays: &Delays) -> f64 {
        if delays.round_trip > 0.0 { delays.round_trip } else { self.base_rtt }
    }

    /// Target in picoseconds for a sender with `bytes` of credit a round trip (Poseidon, equation
    /// 3).
    fn target(&self, bytes: f64, round_trip: f64) -> f64 {
        self.target_at(bytes * 8e12 / round_trip)
    }

    /// Target in picoseconds at this rate in bits per second.
    pub(crate) fn target_at(&self, rate: f64) -> f64 {
        self.offset - self.slope * math::ln(rate.clamp(self.min_rate, self.max_rate))
    }

    /// Delay that is compared with the target: that of the packet, or, from its delay and the
    /// growth of the delay since the previous packet, the one in a round trip from now.
    fn signal(&self, delays: &mut Delays, delay: f64, now: Time) -> f64 {
        if self.signal == Signal::PeakHopDelay {
            return delay;
        }
        let elapsed = now.since(delays.at).as_ps() as f64;
        if elapsed > 0.0 {
            let growth = (delay - delays.latest) / elapsed;
            let power = (delay + self.base_rtt) * (1.0 + growth) - self.base_rtt;
            let weight = (elapsed / self.base_rtt).min(1.0);
            // After a silence of a round trip or more, the previous delay says nothing.
            let next = if weight < 1.0 { power } else { delay };
            delays.predicted += weight * (next - delays.predicted);
            (delays.latest, delays.at) = (delay, now);
        }
        delays.predicted
    }

    /// The next credit limit of a sender with the limit `bytes`, and the share of its round trip
    /// that its packets wait between switches.
    pub(super) fn next(&self, delays: &mut Delays, bytes: f64, arrival: Arrival) -> (f64, f64) {
        let Arrival { wire, delay, outstanding, now } = arrival;
        delays.returned(outstanding, now);
        let round_trip = self.round_trip(delays);
        let waited = (delay.as_ps() as f64 / round_trip).min(1.0);
        let delay = self.signal(delays, delay.as_ps() as f64, now);
        let target = self.target(bytes, round_trip);
        // ln U (Poseidon, equation 4).
        let ln_ratio = ((target - delay) * self.gain).clamp(self.ln_min_md, self.ln_max_mi);
        let next = match self.update {
            Update::EveryPacket => bytes + ln_ratio * wire.min(bytes),
            // Poseidon, algorithm 1.
            Update::RoundTrip if ln_ratio >= 0.0 => {
                bytes + (math::exp(ln_ratio) - 1.0) * wire.min(bytes)
            }
            Update::RoundTrip => {
                let round_trip = Span::from_ps_f64(round_trip);
                if delays.decreased_at.is_some_and(|last| now.since(last) <= round_trip) {
                    bytes
                } else {
                    delays.decreased_at = Some(now);
                    bytes * math::exp(ln_ratio)
                }
            }
        };
        (next, waited)
    }
}
