//! Datagrams in the switch, by the number of their packet.

use tidegate_sim::Packet;

use crate::datagram::Datagram;

#[derive(Default)]
pub(crate) struct Slots {
    all: Vec<Slot>,
    free: Vec<u32>,
}

/// The route of a datagram.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Route {
    /// Number of the path in the backend: source and destination among real hosts.
    pub(crate) path: u32,
    /// Source and destination among hosts of the fabric.
    pub(crate) from: u32,
    pub(crate) to: u32,
    /// Hash of the connection, equal in both directions; connections may take different paths.
    pub(crate) flow: u64,
}

/// A datagram with its route.
#[derive(Default)]
pub(crate) struct Slot {
    pub(crate) route: Route,
    pub(crate) datagram: Datagram,
    /// Its packet in the switches.
    pub(crate) packet: Packet,
}

impl Slots {
    /// Takes a free slot and returns its number.
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

    /// Number of used slots.
    #[cfg(feature = "testing")]
    pub(crate) fn used(&self) -> usize {
        self.all.len() - self.free.len()
    }
}
