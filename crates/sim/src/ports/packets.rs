//! The packet slab. Frames (read at every hop) are stored apart from bodies (read only at ends) and
//! hop traces (stored only if a protocol needs them).

use tidegate_core::{Body, Frame, HopTrace, PacketMut};

use crate::prefetch::prefetch;

/// No packet.
pub(crate) const NIL: u32 = u32::MAX;

/// All packets in the network.
#[derive(Default)]
pub(crate) struct Packets {
    pub(crate) frames: Vec<Frame>,
    bodies: Vec<Body>,
    /// One per packet if some protocol needs hop records, otherwise a single unused one.
    traces: Vec<HopTrace>,
    traced: bool,
    pub(crate) free: Vec<u32>,
}

impl Packets {
    pub(crate) fn new(traced: bool) -> Self {
        Packets { traced, traces: vec![HopTrace::default()], ..Self::default() }
    }

    #[inline]
    pub(crate) fn alloc(&mut self) -> u32 {
        self.free.pop().unwrap_or_else(|| self.grow())
    }

    #[cold]
    fn grow(&mut self) -> u32 {
        self.frames.push(Frame::default());
        self.bodies.push(Body::default());
        if self.traced {
            self.traces.push(HopTrace::default());
        }
        // All packets can be free at once; reserving now avoids growth at that time.
        self.free.reserve(self.frames.len());
        self.frames.len() as u32 - 1
    }

    #[inline]
    pub(crate) fn free(&mut self, packet: u32) {
        self.free.push(packet);
    }

    /// A copy of `packet`.
    pub(crate) fn copy(&mut self, packet: u32) -> u32 {
        let copy = self.alloc();
        self.frames[copy as usize] = self.frames[packet as usize];
        self.bodies[copy as usize] = self.bodies[packet as usize];
        if self.traced {
            self.traces[copy as usize] = self.traces[packet as usize];
        }
        copy
    }

    /// Prefetches a packet that lands soon. `at_end` is set if it lands at a host.
    #[inline]
    pub(crate) fn prefetch(&self, packet: u32, at_end: bool) {
        prefetch(&self.frames, packet as usize);
        if self.traced {
            prefetch(&self.traces, packet as usize);
        }
        // Landings at hosts are too irregular for a branch.
        prefetch(&self.bodies, std::hint::select_unpredictable(at_end, packet, 0) as usize);
    }

    #[inline]
    pub(crate) fn body(&mut self, packet: u32) -> &mut Body {
        &mut self.bodies[packet as usize]
    }

    #[inline]
    pub(crate) fn trace(&mut self, packet: u32) -> &mut HopTrace {
        &mut self.traces[if self.traced { packet as usize } else { 0 }]
    }

    #[inline]
    pub(crate) fn get(&mut self, packet: u32) -> PacketMut<'_> {
        let trace = if self.traced { packet as usize } else { 0 };
        PacketMut {
            frame: &mut self.frames[packet as usize],
            body: &mut self.bodies[packet as usize],
            hops: &mut self.traces[trace],
        }
    }

    /// Number of packets that are not free.
    pub(crate) fn in_use(&self) -> usize {
        self.frames.len() - self.free.len()
    }
}
