//! Pause state of a sender under PFC.

use tidegate_core::{Span, Time};

/// Pause state of a sender, as set by the switch that it sends to.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct PauseState {
    /// Paused classes; one bit each.
    pub(crate) classes: u8,
    /// Start of the present pause of any class.
    pub(crate) since: Time,
    /// Number of times that a class was paused.
    pub(crate) times: u64,
    /// Total pause time until `since`.
    before: Span,
}

impl PauseState {
    /// Pauses or resumes a class. Returns whether this changes its state.
    pub(crate) fn set(&mut self, now: Time, class: u8, on: bool) -> bool {
        let before = self.classes;
        self.classes = if on { before | 1 << class } else { before & !(1 << class) };
        if before == self.classes {
            return false;
        }
        self.times += on as u64;
        if before == 0 {
            self.since = now;
        } else if self.classes == 0 {
            self.before += now.since(self.since);
        }
        true
    }

    /// Time for which any class was paused, by `now`.
    pub(crate) fn span(&self, now: Time) -> Span {
        let current = if self.classes == 0 { Span::ZERO } else { now.since(self.since) };
        self.before + current
    }

    /// Returns whether any class is paused, and has been since `at` or earlier.
    pub(crate) fn since_before(&self, at: Time) -> bool {
        self.classes != 0 && self.since <= at
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn overlapping_pauses_count_once() {
        let mut pause_state = PauseState::default();
        assert!(pause_state.set(Time::us(1), 3, true));
        assert!(!pause_state.set(Time::us(2), 3, true));
        assert!(pause_state.set(Time::us(3), 4, true));
        assert!(pause_state.set(Time::us(5), 3, false));
        assert_eq!((pause_state.times, pause_state.span(Time::us(6))), (2, Span::us(5)));
        assert!(pause_state.since_before(Time::us(1)) && !pause_state.since_before(Time::ZERO));
        assert!(pause_state.set(Time::us(7), 4, false));
        assert_eq!((pause_state.classes, pause_state.span(Time::us(9))), (0, Span::us(6)));
    }
}
