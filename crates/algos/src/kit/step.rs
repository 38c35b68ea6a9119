//! Context of every step of a transport. SIRD passes it through all of its functions; Homa's
//! grants, dcPIM's rounds and tokens and ExpressPass's credits are control packets of the same
//! kind, beside data.

use alloc::collections::VecDeque;

use tidegate_core::Time;

/// Number of waiting packets above which packets are not added that will be repeated anyway, or
/// that others will request.
pub(crate) const MOST_WAITING: usize = 1 << 16;

/// A packet other than data, ready to send.
pub(crate) struct Control<H> {
    pub(crate) dst: u32,
    pub(crate) header: H,
}

/// The transport's settings, the time, and the queue of control packets.
pub(crate) struct Step<'a, S, H> {
    pub(crate) settings: &'a S,
    pub(crate) now: Time,
    pub(crate) control: &'a mut VecDeque<Control<H>>,
}

impl<S, H> Step<'_, S, H> {
    /// The same context at another time, for actions that were due then.
    #[inline]
    pub(crate) fn at(&mut self, now: Time) -> Step<'_, S, H> {
        Step { settings: self.settings, now, control: self.control }
    }

    /// Queues a control packet.
    #[inline]
    pub(crate) fn send(&mut self, dst: u32, header: H) {
        self.control.push_back(Control { dst, header });
    }

    /// Whether optional packets may be queued. There is always room unless a peer forges thousands
    /// of packets that require responses or requests.
    #[inline]
    pub(crate) fn has_room(&self) -> bool {
        self.control.len() < MOST_WAITING
    }

    /// Removes queued packets to `dst`.
    pub(crate) fn drop_to(&mut self, dst: u32) {
        self.control.retain(|waiting| waiting.dst != dst);
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

    #[test]
    fn drop_removes_packets_to_one_host() {
        let mut control = VecDeque::new();
        let mut step = Step { settings: &(), now: Time::us(1), control: &mut control };
        for (dst, header) in [(3, 'a'), (4, 'b'), (3, 'c'), (5, 'd')] {
            step.send(dst, header);
        }
        step.drop_to(3);
        assert!(control.iter().map(|waiting| waiting.header).eq(['b', 'd']));
    }
}
