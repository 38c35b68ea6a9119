//! What overtaking tells of loss where packets take paths of their own. SIRD and Homa ask by it for
//! what is missing: what was missing below the highest packet of a message a timeout ago left
//! before that one, so it is lost.

use tidegate_core::{Span, Time};

use super::window::Window;

/// Whatever is missing of a message below a packet a timeout from a time on is lost.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Horizon {
    packet: u64,
    since: Time,
}

impl Horizon {
    /// Below all that has arrived by `now`.
    pub(crate) fn of(window: &Window, now: Time) -> Horizon {
        Horizon { packet: window.high(), since: now }
    }

    /// When what is missing is lost. Packets were last asked for at `asked_at`, and come within a
    /// timeout too.
    pub(crate) fn due(self, asked_at: Time, timeout: Span) -> Time {
        self.since.max(asked_at).after(timeout)
    }

    /// Below which packet whatever is missing is lost by `now`, if anything is. Moves on where it
    /// is of no use any more.
    pub(crate) fn overtaken(
        &mut self,
        window: &Window,
        asked_at: Time,
        now: Time,
        timeout: Span,
    ) -> Option<u64> {
        let (base, high) = (window.base(), window.high());
        let lost = base < self.packet && now >= self.due(asked_at, timeout);
        let lost = lost.then_some(self.packet);
        // Without a gap the next one is younger than this.
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
    fn what_a_later_packet_overtook_is_lost_a_timeout_later() {
        let window = window(&[0, 1, 3, 7]);
        let mut horizon = Horizon::of(&window, Time::us(5));
        let before = horizon;
        let early = Time::us(15).before(Span::ps(1));
        assert_eq!(horizon.overtaken(&window, Time::ZERO, early, TIMEOUT), None);
        assert_eq!(horizon, before, "there is a gap, and it is not due");
        assert_eq!(horizon.overtaken(&window, Time::ZERO, Time::us(15), TIMEOUT), Some(8));
        assert_eq!(horizon.due(Time::ZERO, TIMEOUT), Time::us(25), "and again a timeout later");
    }

    #[test]
    fn what_was_asked_for_lately_is_not_lost_yet() {
        let window = window(&[1]);
        let mut horizon = Horizon::of(&window, Time::us(5));
        assert_eq!(horizon.due(Time::us(8), TIMEOUT), Time::us(18));
        assert_eq!(horizon.overtaken(&window, Time::us(8), Time::us(17), TIMEOUT), None);
        assert_eq!(horizon.overtaken(&window, Time::us(8), Time::us(18), TIMEOUT), Some(2));
    }

    #[test]
    fn what_came_after_it_is_judged_by_a_later_one() {
        // All below 2 has come, 3 is missing since some time after.
        let (then, now) = (window(&[0, 1]), window(&[0, 1, 2, 4]));
        let mut horizon = Horizon::of(&then, Time::us(5));
        assert_eq!(horizon.overtaken(&now, Time::ZERO, Time::us(14), TIMEOUT), None);
        assert_eq!(horizon, Horizon::of(&then, Time::us(5)), "it may be younger than a timeout");
        assert_eq!(horizon.overtaken(&now, Time::ZERO, Time::us(15), TIMEOUT), None);
        assert_eq!(horizon, Horizon::of(&now, Time::us(15)));
        // Where nothing is missing it moves on at once.
        let whole = window(&[0, 1, 2, 3, 4]);
        assert_eq!(horizon.overtaken(&whole, Time::ZERO, Time::us(16), TIMEOUT), None);
        assert_eq!(horizon, Horizon::of(&whole, Time::us(16)));
    }
}
