//! Detection of losses by overtaking on paths that do not keep order. SIRD and Homa use it to
//! detect missing packets: a packet that was missing below the highest packet of a message a
//! timeout ago left before that one, so it is lost.

use tidegate_core::{Span, Time};

use super::window::Window;

/// All packets of a message that are missing below a packet a timeout after a given time are lost.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Horizon {
    packet: u64,
    since: Time,
}

impl Horizon {
    /// The horizon above all packets that have arrived by `now`.
    pub(crate) fn of(window: &Window, now: Time) -> Horizon {
        Horizon { packet: window.high(), since: now }
    }

    /// Time at which missing packets are lost. Packets that were last requested at `requested_at`
    /// arrive within a timeout, too.
    pub(crate) fn due(self, requested_at: Time, timeout: Span) -> Time {
        self.since.max(requested_at).after(timeout)
    }

    /// Packet number below which all missing packets are lost by `now`, if any. Advances a horizon
    /// that has become useless.
    pub(crate) fn overtaken(
        &mut self,
        window: &Window,
        requested_at: Time,
        now: Time,
        timeout: Span,
    ) -> Option<u64> {
        let (base, high) = (window.base(), window.high());
        let lost = base < self.packet && now >= self.due(requested_at, timeout);
        let lost = lost.then_some(self.packet);
        // Without a gap, the next missing packet is younger than this horizon.
        let passed = base >= self.packet && now.since(self.since) >= timeout;
        if lost.is_some() || base == high || passed {
            *self = Horizon::of(window, now);
        }
        lost
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TIMEOUT: Span = Span::us(10);

    fn window(arrived: &[u64]) -> Window {
        let mut window = Window::default();
        for &packet in arrived {
            assert!(window.insert(packet));
        }
        window
    }

    #[test]
    fn overtaken_packets_are_lost_a_timeout_later() {
        let window = window(&[0, 1, 3, 7]);
        let mut horizon = Horizon::of(&window, Time::us(5));
        let before = horizon;
        let early = Time::us(15).before(Span::ps(1));
        assert_eq!(horizon.overtaken(&window, Time::ZERO, early, TIMEOUT), None);
        assert_eq!(horizon, before, "there is a gap, and it is not due");
        assert_eq!(horizon.overtaken(&window, Time::ZERO, Time::us(15), TIMEOUT), Some(8));
        assert_eq!(horizon.due(Time::ZERO, TIMEOUT), Time::us(25), "repeated a timeout later");
    }

    #[test]
    fn recently_requested_packets_are_not_lost() {
        let window = window(&[1]);
        let mut horizon = Horizon::of(&window, Time::us(5));
        assert_eq!(horizon.due(Time::us(8), TIMEOUT), Time::us(18));
        assert_eq!(horizon.overtaken(&window, Time::us(8), Time::us(17), TIMEOUT), None);
        assert_eq!(horizon.overtaken(&window, Time::us(8), Time::us(18), TIMEOUT), Some(2));
    }

    #[test]
    fn later_gaps_need_a_later_horizon() {
        // All below 2 have arrived, 3 is missing since some later time.
        let (then, now) = (window(&[0, 1]), window(&[0, 1, 2, 4]));
        let mut horizon = Horizon::of(&then, Time::us(5));
        assert_eq!(horizon.overtaken(&now, Time::ZERO, Time::us(14), TIMEOUT), None);
        assert_eq!(horizon, Horizon::of(&then, Time::us(5)), "it may be younger than a timeout");
        assert_eq!(horizon.overtaken(&now, Time::ZERO, Time::us(15), TIMEOUT), None);
        assert_eq!(horizon, Horizon::of(&now, Time::us(15)));
        // If nothing is missing, the horizon advances immediately.
        let whole = window(&[0, 1, 2, 3, 4]);
        assert_eq!(horizon.overtaken(&whole, Time::ZERO, Time::us(16), TIMEOUT), None);
        assert_eq!(horizon, Horizon::of(&whole, Time::us(16)));
    }
}
