//! The messages that a host is sending.

use core::ops::{Index, Range};

use super::NONE;
use super::counts::Count;
use crate::kit::slab::{Key, Slab};
use tidegate_core::Message;

/// A message that is being sent.
#[derive(Default)]
pub(super) struct Outgoing {
    pub(super) id: u32,
    /// Its first packet.
    pub(super) first: u64,
    /// Its last packet, plus one.
    pub(super) end: u64,
    /// Number of its packets; the largest number if the size is unknown.
    packets: u64,
    pub(super) last_payload: u32,
    pub(super) connection: u32,
    /// The next message of the connection.
    pub(super) next: u32,
}

/// The messages of a connection: slots of some of them, and their number.
pub(super) struct Queue {
    /// Oldest message not fully acknowledged.
    pub(super) head: u32,
    pub(super) tail: u32,
    /// Message that the next new packet belongs to.
    pub(super) sending: u32,
    pub(super) len: u32,
}

impl Default for Queue {
    fn default() -> Queue {
        Queue { head: NONE, tail: NONE, sending: NONE, len: 0 }
    }
}

/// All messages that a host is sending.
#[derive(Default)]
pub(super) struct Messages(Slab<Outgoing>);

impl Index<u32> for Messages {
    type Output = Outgoing;
    #[inline]
    fn index(&self, slot: u32) -> &Outgoing {
        &self.0[slot]
    }
}

impl Messages {
    /// Slot of a message that still exists.
    pub(super) fn slot(&self, message: Key) -> Option<u32> {
        self.0.slot(message)
    }

    #[inline]
    pub(super) fn remove(&mut self, slot: u32) {
        self.0.remove(slot);
    }

    #[cfg(test)]
    pub(super) fn is_empty(&self) -> bool {
        self.0.len() == 0
    }

    /// Queues `message` on the connection of that number, whose next new packet is `next`.
    #[inline]
    pub(super) fn append(
        &mut self,
        queue: &mut Queue,
        next: u64,
        connection: u32,
        message: &Message,
        mtu: u32,
    ) -> Key {
        let first = if queue.tail == NONE { next } else { self[queue.tail].end };
        let (packets, last_payload) = if message.bytes == Message::UNLIMITED {
            (u64::MAX, mtu)
        } else {
            let packets = message.bytes.div_ceil(mtu as u64);
            (packets, (message.bytes - (packets - 1) * mtu as u64) as u32)
        };
        // Behind a message of unknown size it has no packet numbers yet.
        let end = first.saturating_add(packets);
        let outgoing =
            Outgoing { id: message.id, first, end, packets, last_payload, connection, next: NONE };
        let slot = self.0.insert(|_| outgoing);
        if queue.tail == NONE {
            queue.head = slot;
        } else {
            self.0[queue.tail].next = slot;
        }
        queue.tail = slot;
        if queue.sending == NONE {
            queue.sending = slot;
        }
        queue.len += 1;
        self.0.key(slot)
    }

    /// Forgets all messages of a connection. Returns their unsent payload.
    pub(super) fn forget(&mut self, queue: &Queue, next: u64, mtu: u32) -> u64 {
        let (mut unsent, mut slot) = (0, queue.head);
        while slot != NONE {
            let message = &self[slot];
            let sent = next.saturating_sub(message.first);
            if message.packets < u64::MAX && sent < message.packets {
                let full = message.packets - sent - 1;
                unsent += full * mtu as u64 + message.last_payload as u64;
            }
            let behind = message.next;
            self.remove(slot);
            slot = behind;
        }
        unsent
    }

    /// Unsent payload of the connection's current message; zero if only lost packets are left.
    #[inline]
    pub(super) fn left(&self, queue: &Queue, next: u64, mtu: u32) -> u64 {
        if queue.sending == NONE {
            return 0;
        }
        let message = &self[queue.sending];
        let before_last = (message.end - next).saturating_sub(1);
        before_last.saturating_mul(mtu as u64).saturating_add(message.last_payload as u64)
    }

    /// Ends an unlimited message behind its sent packets, and assigns packet numbers to the
    /// messages behind it. `in_flight` are the packets from the first unacknowledged one to the
    /// next new one.
    pub(super) fn stop(&mut self, queue: &mut Queue, in_flight: Range<u64>, slot: u32) {
        if self[slot].packets < u64::MAX {
            return;
        }
        let Outgoing { first, next: behind, .. } = self[slot];
        let end = if queue.sending == slot {
            queue.sending = behind;
            self.0[slot].end = in_flight.end;
            self.0[slot].packets = in_flight.end - first;
            in_flight.end
        } else {
            // The message has not started and is removed.
            let mut before = queue.sending;
            while self[before].next != slot {
                before = self[before].next;
            }
            self.0[before].next = behind;
            queue.tail = if queue.tail == slot { before } else { queue.tail };
            queue.len -= 1;
            self.0.remove(slot);
            first
        };
        self.place(behind, end);
        if queue.head == slot && in_flight.is_empty() {
            queue.head = behind;
            queue.tail = if behind == NONE { NONE } else { queue.tail };
            queue.len -= 1;
            self.0.remove(slot);
        }
    }

    /// Numbers the packets of the message in `slot` from `first` on, and those of the messages
    /// behind it.
    fn place(&mut self, mut slot: u32, mut first: u64) {
        while slot != NONE {
            let message = &mut self.0[slot];
            message.first = first;
            message.end = first.saturating_add(message.packets);
            (first, slot) = (message.end, message.next);
        }
    }

    /// The message that packet `seq` belongs to; `head` is the oldest unacknowledged one.
    pub(super) fn holding(&self, head: u32, seq: u64) -> u32 {
        let mut slot = head;
        while self[slot].end <= seq {
            slot = self[slot].next;
        }
        slot
    }

    /// Bytes of packet `seq` that count.
    pub(super) fn counted(&self, head: u32, seq: u64, mtu: u32, count: Count) -> u64 {
        let message = &self[self.holding(head, seq)];
        let payload = if seq + 1 == message.end { message.last_payload } else { mtu };
        count.of(payload) as u64
    }
}
