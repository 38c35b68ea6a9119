//! Round-robin: a new member is served last, and the first is served next. Used for windowed
//! connections that may send, and for messages with or for credit of the documented example.
//!
//! The ring is linked through its members, so adding and removing access records that are accessed
//! anyway.

/// No member.
const END: u32 = u32::MAX;
/// Marks a member of no ring.
const OUT: u32 = u32::MAX - 1;

/// A member's place in a ring; initially in none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Link(u32);

impl Default for Link {
    fn default() -> Link {
        Link(OUT)
    }
}

impl Link {
    #[inline]
    pub(crate) fn waits(self) -> bool {
        self.0 != OUT
    }
}

/// A record that can be in a ring. While it is, it does not move.
pub(crate) trait Linked {
    fn link(&mut self) -> &mut Link;
}

/// A ring through members of a slice.
pub(crate) struct Ring {
    head: u32,
    tail: u32,
}

impl Default for Ring {
    fn default() -> Ring {
        Ring { head: END, tail: END }
    }
}

impl Ring {
    #[allow(dead_code, reason = "the documented example uses it")]
    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.head == END
    }

    /// Adds a member that is in no ring as the last.
    #[inline]
    pub(crate) fn push(&mut self, id: u32, members: &mut [impl Linked]) {
        let link = members[id as usize].link();
        debug_assert!(!link.waits());
        *link = Link(END);
        if self.tail == END {
            self.head = id;
        } else {
            *members[self.tail as usize].link() = Link(id);
        }
        self.tail = id;
    }

    /// Removes all members for which `stays` is false.
    pub(crate) fn retain<M: Linked>(&mut self, members: &mut [M], stays: impl Fn(&M) -> bool) {
        let mut left = Ring::default();
        while let Some(id) = self.pop(members) {
            if stays(&members[id as usize]) {
                left.push(id, members);
            }
        }
        *self = left;
    }

    /// Removes and returns the first member.
    #[inline]
    pub(crate) fn pop(&mut self, members: &mut [impl Linked]) -> Option<u32> {
        let first = self.head;
        if first == END {
            return None;
        }
        let Link(next) = core::mem::take(members[first as usize].link());
        self.head = next;
        if next == END {
            self.tail = END;
        }
        Some(first)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::collections::VecDeque;
    use tidegate_core::{Domain, Rng};

    #[derive(Default)]
    struct Member {
        number: u32,
        link: Link,
    }

    impl Linked for Member {
        fn link(&mut self) -> &mut Link {
            &mut self.link
        }
    }

    #[test]
    fn ring_agrees_with_a_queue() {
        let mut rng = Rng::stream(1, Domain::Transport, 0);
        let mut members: [Member; 20] =
            core::array::from_fn(|i| Member { number: i as u32, ..Member::default() });
        let (mut ring, mut expected) = (Ring::default(), VecDeque::new());
        for _ in 0..20_000 {
            let id = rng.below(20) as u32;
            if rng.below(50) == 0 {
                let stays = |number: u32| number % 4 != id % 4;
                ring.retain(&mut members, |member| stays(member.number));
                expected.retain(|&number| stays(number));
            } else if rng.below(2) == 0 {
                assert_eq!(ring.pop(&mut members), expected.pop_front());
            } else if !members[id as usize].link.waits() {
                ring.push(id, &mut members);
                expected.push_back(id);
            }
            assert_eq!(ring.is_empty(), expected.is_empty());
            for member in &members {
                assert_eq!(member.link.waits(), expected.contains(&member.number));
            }
        }
    }
}
