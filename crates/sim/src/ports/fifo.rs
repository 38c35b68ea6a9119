//! A queue of packets, linked through their frames.

use tidegate_core::Frame;

use crate::ports::packets::NIL;

/// Packets in order of arrival, linked through their frames.
#[derive(Clone, Copy)]
pub(crate) struct Fifo {
    head: u32,
    tail: u32,
}

impl Fifo {
    pub(crate) const EMPTY: Fifo = Fifo { head: NIL, tail: NIL };

    #[inline]
    pub(crate) fn push(&mut self, packet: u32, frames: &mut [Frame]) {
        frames[packet as usize].next = NIL;
        match self.tail {
            NIL => self.head = packet,
            tail => frames[tail as usize].next = packet,
        }
        self.tail = packet;
    }

    #[inline]
    pub(crate) fn pop(&mut self, frames: &[Frame]) -> u32 {
        let packet = self.head;
        self.head = frames[packet as usize].next;
        if self.head == NIL {
            self.tail = NIL;
        }
        packet
    }

    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.head == NIL
    }

    /// The packet that has waited longest; [`NIL`] if there is none.
    #[inline]
    pub(crate) fn head(&self) -> u32 {
        self.head
    }

    #[inline]
    pub(crate) fn iter<'a>(&self, frames: &'a [Frame]) -> impl Iterator<Item = u32> + 'a {
        let some = |packet: u32| Some(packet).filter(|&packet| packet != NIL);
        std::iter::successors(some(self.head), move |&packet| some(frames[packet as usize].next))
    }
}
