//! The bytes of sent messages and of partly received ones.

use std::collections::VecDeque;

use super::{Terms, Ticket};
use bytes::Bytes;
use tidegate_core::Handle;

/// Maximum length of a head.
const HEAD_BYTES: usize = 24;

/// A message that is being sent.
pub(super) struct Outgoing {
    pub(super) ticket: Ticket,
    pub(super) peer: u32,
    head: [u8; HEAD_BYTES],
    head_bytes: usize,
    body: Bytes,
    pub(super) terms: Terms,
    /// Its handle in the transport, once submitted.
    pub(super) handle: Option<Handle>,
}

impl Outgoing {
    /// Length of head and body.
    pub(super) fn bytes(&self) -> u64 {
        (self.head_bytes + self.body.len()) as u64
    }

    /// Copies the bytes from `offset` on; false if the message is too short.
    pub(super) fn copy(&self, offset: u64, to: &mut [u8]) -> bool {
        let given = self.bytes().saturating_sub(offset).min(to.len() as u64) as usize;
        let (to, behind) = to.split_at_mut(given);
        if !behind.is_empty() && !self.terms.endless {
            return false;
        }
        behind.fill(0);
        if to.is_empty() {
            return true;
        }
        let offset = offset as usize;
        let of_head = self.head_bytes.saturating_sub(offset).min(to.len());
        let (head, body) = to.split_at_mut(of_head);
        head.copy_from_slice(&self.head[offset.min(HEAD_BYTES)..][..of_head]);
        let from = (offset + of_head).saturating_sub(self.head_bytes);
        body.copy_from_slice(&self.body[from..][..body.len()]);
        true
    }
}

/// Messages that are being sent, by their number in the transport.
#[derive(Default)]
pub(super) struct Outbox {
    all: Vec<Option<Outgoing>>,
    /// Free numbers; the first has been free for the longest time.
    free: VecDeque<u32>,
    tickets: u64,
}

impl Outbox {
    /// Adds a message; returns its number, which is reused later, and its unique ticket.
    pub(super) fn add(
        &mut self,
        peer: u32,
        head: &[u8],
        body: Bytes,
        terms: Terms,
    ) -> (u32, Ticket) {
        let ticket = Ticket(self.tickets);
        self.tickets += 1;
        let head_bytes = head.len().min(HEAD_BYTES);
        let mut kept = [0; HEAD_BYTES];
        kept[..head_bytes].copy_from_slice(&head[..head_bytes]);
        let handle = None;
        let message = Outgoing { ticket, peer, head: kept, head_bytes, body, terms, handle };
        let id = match self.free.pop_front() {
            Some(id) => {
                self.all[id as usize] = Some(message);
                id
            }
            None => {
                self.all.push(Some(message));
                self.all.len() as u32 - 1
            }
        };
        (id, ticket)
    }

    pub(super) fn get(&self, id: u32) -> Option<&Outgoing> {
        self.all.get(id as usize)?.as_ref()
    }

    /// Records that the transport has a message.
    pub(super) fn submitted(&mut self, id: u32, handle: Handle) {
        if let Some(Some(message)) = self.all.get_mut(id as usize) {
            message.handle = Some(handle);
        }
    }

    /// The number of a pending message.
    pub(super) fn number(&self, ticket: Ticket) -> Option<u32> {
        let is_it =
            |message: &Option<Outgoing>| message.as_ref().is_some_and(|m| m.ticket == ticket);
        self.all.iter().position(is_it).map(|id| id as u32)
    }

    pub(super) fn remove(&mut self, id: u32) -> Option<Outgoing> {
        let message = self.all.get_mut(id as usize)?.take()?;
        // The receiver of an endless message does not learn of its end, so its number is not
        // reused.
        if !message.terms.endless {
            self.free.push_back(id);
        }
        Some(message)
    }

    /// The numbers of all messages to a peer.
    pub(super) fn to(&self, peer: u32) -> Vec<u32> {
        let all = (0..).zip(&self.all);
        let ours = all.filter(|(_, message)| message.as_ref().is_some_and(|m| m.peer == peer));
        ours.map(|(id, _)| id).collect()
    }
}

/// A partly received message.
#[derive(Default)]
pub(super) struct Incoming {
    pub(super) bytes: Vec<u8>,
}

impl Incoming {
    /// Writes received bytes at `offset`; returns by how much the message grew.
    pub(super) fn put(&mut self, offset: u64, arrived: &[u8], spare: &mut Spare) -> u64 {
        let (from, before) = (offset as usize, self.bytes.len());
        let end = from + arrived.len();
        if end > self.bytes.capacity()
            && let Some(mut memory) = spare.take(end)
        {
            memory.extend_from_slice(&self.bytes);
            self.bytes = memory;
        }
        if from == before {
            self.bytes.extend_from_slice(arrived);
        } else {
            self.bytes.resize(before.max(end), 0);
            self.bytes[from..end].copy_from_slice(arrived);
        }
        (self.bytes.len() - before) as u64
    }
}

/// Memory of finished messages, for reuse: to allocate memory and have the system clear it takes
/// longer than to fill it. Short messages are not worth it.
#[derive(Default)]
pub(super) struct Spare {
    all: Vec<Vec<u8>>,
    bytes: usize,
}

impl Spare {
    /// Minimum size of kept memory, in bytes.
    pub(super) const LEAST: usize = 64 << 10;
    /// Maximum total of kept memory, in bytes.
    const MOST: usize = 16 << 20;

    /// Returns memory for reuse.
    pub(super) fn put(&mut self, mut memory: Vec<u8>) {
        let bytes = memory.capacity();
        if bytes >= Spare::LEAST && self.bytes + bytes <= Spare::MOST {
            memory.clear();
            self.bytes += bytes;
            self.all.push(memory);
        }
    }

    /// Takes empty memory for a message of this length.
    fn take(&mut self, length: usize) -> Option<Vec<u8>> {
        if length < Spare::LEAST {
            return None;
        }
        let place = self.all.iter().rposition(|memory| memory.capacity() >= length)?;
        let memory = self.all.swap_remove(place);
        self.bytes -= memory.capacity();
        Some(memory)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn copy_head_and_body() {
        let mut outbox = Outbox::default();
        let body = Bytes::from((0..100).collect::<Vec<u8>>());
        let (id, _) = outbox.add(1, &[200, 201, 202], body, Terms::default());
        let whole: Vec<u8> = [200, 201, 202].into_iter().chain(0..100).collect();
        let message = outbox.get(id).unwrap();
        assert_eq!(message.bytes(), 103);
        for from in 0..=103 {
            for to in from..=103 {
                let mut piece = vec![9; to - from];
                assert!(message.copy(from as u64, &mut piece));
                assert_eq!(piece, whole[from..to]);
            }
        }
        assert!(!message.copy(103, &mut [0]) && !message.copy(u64::MAX, &mut [0]));
    }

    #[test]
    fn endless_message_continues_with_zeros() {
        let mut outbox = Outbox::default();
        let terms = Terms { endless: true, ..Terms::default() };
        let (id, _) = outbox.add(1, &[1, 2], Bytes::from_static(&[3]), terms);
        for (offset, expected) in
            [(0, [1, 2, 3, 0]), (2, [3, 0, 0, 0]), (3, [0; 4]), (u64::MAX, [0; 4])]
        {
            let mut piece = [9; 4];
            assert!(outbox.get(id).unwrap().copy(offset, &mut piece));
            assert_eq!(piece, expected, "at {offset}");
        }
        // Its number is not reused.
        assert!(outbox.remove(id).is_some());
        assert_ne!(outbox.add(1, &[], Bytes::new(), Terms::default()).0, id);
    }

    #[test]
    fn numbers_are_reused_and_tickets_are_not() {
        let mut outbox = Outbox::default();
        let add =
            |outbox: &mut Outbox| outbox.add(1, &[], Bytes::from_static(b"x"), Terms::default());
        assert_eq!([add(&mut outbox), add(&mut outbox)], [(0, Ticket(0)), (1, Ticket(1))]);
        assert!(outbox.remove(0).is_some() && outbox.remove(0).is_none());
        assert_eq!(add(&mut outbox), (0, Ticket(2)));
        assert_eq!(outbox.to(1), [0, 1]);
        assert_eq!(outbox.to(2), []);
    }

    #[test]
    fn put_pieces_in_any_order() {
        let (mut incoming, mut spare) = (Incoming::default(), Spare::default());
        assert_eq!(incoming.put(3, b"def", &mut spare), 6);
        assert_eq!(incoming.put(0, b"abc", &mut spare), 0);
        assert_eq!(incoming.put(6, b"ghi", &mut spare), 3);
        assert_eq!(incoming.put(5, b"fgh", &mut spare), 0);
        assert_eq!(incoming.bytes, b"abcdefghi");
    }

    #[test]
    fn spare_memory_for_long_messages() {
        let mut spare = Spare::default();
        spare.put(Vec::with_capacity(Spare::LEAST - 1));
        spare.put(Vec::with_capacity(Spare::MOST + 1));
        assert!(spare.all.is_empty());
        let (mut used, half) = (vec![7; 2 * Spare::LEAST], vec![1; Spare::LEAST / 2]);
        let at = used.as_mut_ptr();
        spare.put(used);
        let mut incoming = Incoming::default();
        assert_eq!(incoming.put(0, &half, &mut spare), half.len() as u64);
        assert!(
            incoming.bytes.as_ptr() != at && spare.bytes > 0,
            "a short message uses no spare memory"
        );
        // Old contents are not visible in the gap.
        assert_eq!(incoming.put(half.len() as u64 * 3, &half, &mut spare), 3 * half.len() as u64);
        assert!(incoming.bytes.as_ptr() == at && spare.bytes == 0 && spare.all.is_empty());
        let missing = &incoming.bytes[half.len()..half.len() * 3];
        assert!(missing.iter().all(|&byte| byte == 0));
    }
}
