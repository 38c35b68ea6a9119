//! What every step of a transport is handed. SIRD passes it through all of its functions; Homa's
//! grants, dcPIM's rounds and tokens and ExpressPass's credits are control of the same kind, beside
//! data.

use alloc::collections::VecDeque;

use tidegate_core::Time;

/// A packet other than data, ready to go.
pub(crate) struct Control<H> {
    pub(crate) dst: u32,
    pub(crate) header: H,
}

/// The transport's settings, the time, and where packets of control go.
pub(crate) struct Step<'a, S, H> {
    pub(crate) settings: &'a S,
    pub(crate) now: Time,
    pub(crate) control: &'a mut VecDeque<Control<H>>,
}

impl<S, H> Step<'_, S, H> {
    /// The same at another time: what was due then is done as if it were.
    #[inline]
    pub(crate) fn at(&mut self, now: Time) -> Step<'_, S, H> {
        Step { settings: self.settings, now, control: self.control }
    }

    /// Sends a packet of control, after those that wait.
    #[inline]
    pub(crate) fn send(&mut self, dst: u32, header: H) {
        self.control.push_back(Control { dst, header });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_step_at_another_time_has_that_time() {
        let mut control = VecDeque::<Control<u8>>::new();
        let mut step = Step { settings: &(), now: Time::us(1), control: &mut control };
        assert_eq!(step.at(Time::us(2)).now, Time::us(2));
        assert_eq!(step.now, Time::us(1));
    }
}
