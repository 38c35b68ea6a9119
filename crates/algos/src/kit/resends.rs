//! Packets that a receiver has requested again. SIRD's senders queue them before new data, as
//! Homa's do on a RESEND; dcPIM's and ExpressPass's senders receive requests for missing packets,
//! too.

use alloc::collections::VecDeque;

use super::slab::{Key, Slab};

/// Largest number of waiting requests, of 64 packets each; the receiver repeats dropped ones.
const MOST: usize = 256;

/// Packets of a message to retransmit: those with a set bit, from `start` on.
struct Again {
    message: Key,
    start: u64,
    map: u64,
}

/// All packets to retransmit, in the order of the requests.
#[derive(Default)]
pub(crate) struct Resends(VecDeque<Again>);

impl Resends {
    /// Adds a request. Returns whether there was room.
    pub(crate) fn push(&mut self, message: Key, start: u64, map: u64) -> bool {
        let has_room = self.0.len() < MOST;
        if has_room {
            self.0.push_back(Again { message, start, map });
        }
        has_room
    }

    /// Removes requests for messages that no longer exist; otherwise they occupy entries until they
    /// are next.
    pub(crate) fn drop_gone<T>(&mut self, messages: &Slab<T>) {
        self.0.retain(|again| messages.slot(again.message).is_some());
    }

    /// Takes the next packet of a message that still exists. Returns its slot and the packet.
    #[inline]
    pub(crate) fn pop<T>(&mut self, messages: &Slab<T>) -> Option<(u32, u64)> {
        while let Some(again) = self.0.front_mut() {
            if again.map != 0
                && let Some(slot) = messages.slot(again.message)
            {
                let packet = again.start + again.map.trailing_zeros() as u64;
                again.map &= again.map - 1;
                return Some((slot, packet));
            }
            self.0.pop_front();
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_are_in_order_without_removed_messages() {
        let mut messages = Slab::<u8>::default();
        let [a, b] = [0, 1].map(|value| {
            let slot = messages.insert(|_| value);
            messages.key(slot)
        });
        let mut resends = Resends::default();
        resends.push(a, 100, 0b1001);
        resends.push(b, 7, 1 << 63);
        resends.push(a, 0, 0);
        resends.push(b, 0, 0b1);
        assert_eq!(resends.pop(&messages), Some((a.slot, 100)));
        // Another message reuses the slot of the requested one.
        messages.remove(a.slot);
        assert_eq!(messages.insert(|_| 2), a.slot);
        assert_eq!(resends.pop(&messages), Some((b.slot, 70)));
        assert_eq!(resends.pop(&messages), Some((b.slot, 0)));
        assert_eq!(resends.pop(&messages), None);
    }

    #[test]
    fn more_requests_than_can_wait_are_dropped() {
        let mut messages = Slab::<u8>::default();
        let slot = messages.insert(|_| 0);
        let mut resends = Resends::default();
        for start in 0..2 * MOST as u64 {
            assert_eq!(resends.push(messages.key(slot), start, 1), start < MOST as u64);
        }
        resends.drop_gone(&messages);
        let all = core::iter::from_fn(|| resends.pop(&messages).map(|(_, packet)| packet));
        assert!(all.eq(0..MOST as u64));
        // Requests of a removed message free their entries.
        (0..MOST as u64).for_each(|start| _ = resends.push(messages.key(slot), start, 1));
        messages.remove(slot);
        resends.drop_gone(&messages);
        let other = messages.insert(|_| 0);
        assert!(resends.push(messages.key(other), 5, 1));
        assert_eq!(resends.pop(&messages), Some((other, 5)));
    }
}
