//! The messages that a host is sending.

use core::ops::Index;

use super::counts::Count;
use super::sender::{NONE, Sender};
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

    /// Queues `message` on the connection of that number.
    pub(super) fn append<C>(
        &mut self,
        sender: &mut Sender<C>,
        connection: u32,
        message: &Message,
        mtu: u32,
    ) -> Key {
        let first = if sender.tail == NONE { sender.next } else { self[sender.tail].end };
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
        if sender.tail == NONE {
            sender.head = slot;
        } else {
            self.0[sender.tail].next = slot;
        }
        sender.tail = slot;
        if sender.sending == NONE {
            sender.sending = slot;
        }
        sender.queued_messages += 1;
        self.0.key(slot)
    }

    /// Forgets all messages of a connection. Returns their unsent payload.
    pub(super) fn forget<C>(&mut self, sender: &Sender<C>, mtu: u32) -> u64 {
        let (mut unsent, mut slot) = (0, sender.head);
        while slot != NONE {
            let message = &self[slot];
            let sent = sender.next.saturating_sub(message.first);
            if message.packets < u64::MAX && sent < message.packets {
                let full = message.packets - sent - 1;
                unsent += full * mtu as u64 + message.last_payload as u64;
            }
            let next = message.next;
            self.remove(slot);
            slot = next;
        }
        unsent
    }

    /// Unsent payload of the connection's current message; zero if only lost packets are left.
    pub(super) fn left<C>(&self, sender: &Sender<C>, mtu: u32) -> u64 {
        if sender.sending == NONE {
            return 0;
        }
        let message = &self[sender.sending];
        let before_last = (message.end - sender.next).saturating_sub(1);
        before_last.saturating_mul(mtu as u64).saturating_add(message.last_payload as u64)
    }

    /// Ends an unlimited message behind its sent packets, and assigns packet numbers to the
    /// messages behind it.
    pub(super) fn stop<C>(&mut self, sender: &mut Sender<C>, slot: u32) {
        if self[slot].packets < u64::MAX {
            return;
        }
        let Outgoing { first, next: behind, .. } = self[slot];
        let end = if sender.sending == slot {
            sender.sending = behind;
            self.0[slot].end = sender.next;
            self.0[slot].packets = sender.next - first;
            sender.next
        } else {
            // The message has not started and is removed.
            let mut before = sender.sending;
            while self[before].next != slot {
                before = self[before].next;
            }
            self.0[before].next = behind;
            sender.tail = if sender.tail == slot { before } else { sender.tail };
            sender.queued_messages -= 1;
            self.0.remove(slot);
            first
        };
        self.place(behind, end);
        if sender.head == slot && sender.next == sender.una {
            sender.head = behind;
            sender.tail = if behind == NONE { NONE } else { sender.tail };
            sender.queued_messages -= 1;
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
