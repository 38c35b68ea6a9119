//! Datagrams that are in the switch, by the number that their packet has there.

use tidegate_sim::Packet;

use crate::datagram::Datagram;

#[derive(Default)]
pub(crate) struct Slots {
    all: Vec<Slot>,
    free: Vec<u32>,
}

/// Where a datagram goes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Way {
    /// Number of the path, which its border knows: from which real host to which.
    pub(crate) path: u32,
    /// The hosts of the fabric that it leads from and to.
    pub(crate) from: u32,
    pub(crate) to: u32,
    /// Tells connections between the two apart, whose paths may differ; alike in both directions.
    pub(crate) flow: u64,
}

/// A datagram and where it goes.
#[derive(Default)]
pub(crate) struct Slot {
    pub(crate) way: Way,
    pub(crate) datagram: Datagram,
    /// What switches see of it.
    pub(crate) packet: Packet,
}

impl Slots {
    /// Takes a free one; its number.
    pub(crate) fn take(&mut self) -> u32 {
        self.free.pop().unwrap_or_else(|| {
            self.all.push(Slot::default());
            self.all.len() as u32 - 1
        })
    }

    pub(crate) fn get(&mut self, number: u32) -> &mut Slot {
        &mut self.all[number as usize]
    }

    pub(crate) fn free(&mut self, number: u32) {
        self.free.push(number);
    }

    /// So many are not free.
    #[cfg(feature = "testing")]
    pub(crate) fn used(&self) -> usize {
        self.all.len() - self.free.len()
    }
}
