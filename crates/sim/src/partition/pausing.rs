//! PFC in a partition: arriving pause frames, pause storms, and the pauses of all ports.
//!
//! Switches count bytes and send pause frames in [`switching`](super::switching). Pauses of hosts
//! are in [`uplinks`](super::uplinks).

use tidegate_core::{Span, Time, frame_flag};

use super::Partition;
use super::uplinks::host_of;
use crate::measures::probe::Probe;
use crate::naming::Naming;
use crate::ports::deadlock::{INTERVAL, PausedPort, Waits};
use crate::ports::pause_state::PauseState;
use crate::ports::port::HOST;

impl<P: Probe, N: Naming> Partition<P, N> {
    /// Obeys a pause or resume frame that has arrived by the port `ingress`. Returns `false` if the
    /// packet is no such frame.
    #[inline]
    pub(super) fn takes_pause_frame(&mut self, ingress: u32, packet: u32) -> bool {
        let is_pause = self.links.packets.frames[packet as usize].flags & frame_flag::PAUSE != 0;
        if is_pause {
            self.take_pause(ingress, packet);
        }
        is_pause
    }

    #[cold]
    fn take_pause(&mut self, ingress: u32, packet: u32) {
        let Partition { links, switching, uplinks, flows, .. } = self;
        let pause = links.packets.frames[packet as usize].entropy;
        links.packets.free(packet);
        let (class, on) = (pause as u8 & 7, pause >> 8 != 0);
        let back = links.opposite(ingress);
        match host_of(links.ports[back as usize].owner) {
            Some(host) => uplinks.pause(links, flows, host, class, on),
            None => switching.pause_port(links, back, class, on),
        }
    }

    /// Delivers a packet to the transport of a host that may be paused.
    pub(super) fn deliver_to_pausable(&mut self, host: u32, packet: u32, landed: Time) {
        self.uplinks.send_while_paused(&mut self.links, &mut self.flows, host);
        self.deliver(host, packet, landed);
        self.uplinks.send_while_paused(&mut self.links, &mut self.flows, host);
    }

    /// Clears all pauses over a link that has gone down or come back.
    pub(super) fn clear_pauses(&mut self, index: u32) {
        self.switching.clear_pauses(&mut self.links, index);
        if let Some(host) = host_of(self.links.ports[index as usize].owner) {
            self.uplinks.clear_pauses(&mut self.links, host);
        }
    }

    /// Starts or ends a PFC storm: the host pauses all lossless classes of its switch's downlink.
    pub(super) fn storm(&mut self, host: u32, on: bool) {
        let Partition { links, switching, uplinks, .. } = self;
        let index = links.opposite(uplinks.host(host).uplink.port());
        let switch = links.ports[index as usize].owner;
        let classes = switching.pausable_classes(switch);
        for class in (0..8).filter(|class| classes & 1 << class != 0) {
            switching.pause_port(links, index, class, on);
        }
    }

    /// Pause state of a port; `None` if it can never be paused.
    fn pause_state(&self, index: u32) -> Option<&PauseState> {
        if let Some(scheduler) = self.switching.scheduler(index) {
            return Some(&scheduler.pause_state);
        }
        let host = host_of(self.links.ports[index as usize].owner)?;
        Some(self.uplinks.host(host).uplink.pause_state())
    }

    /// Number of pauses of a port, and their total duration by `now`.
    pub(super) fn paused(&self, index: u32, now: Time) -> (u64, Span) {
        self.pause_state(index).map_or((0, Span::ZERO), |state| (state.times, state.span(now)))
    }

    /// Total pause time of the partition's ports that have ever been paused, by global port ID.
    pub(crate) fn pauses(&self) -> impl Iterator<Item = (u32, Span)> {
        let ports = if self.switching.uses_pfc() { self.boundary.own_ports() } else { 0..0 };
        let paused = ports.map(|index| (index, self.paused(index, self.links.now())));
        let ever_paused = paused.filter(|(_, (times, _))| *times > 0);
        ever_paused.map(|(index, (_, span))| (self.links.name(index), span))
    }

    /// Ports that have been paused for an interval by `now`, and the ingress ports that wait for
    /// them.
    pub(crate) fn waits(&self, now: Time) -> Waits {
        let Partition { links, switching, boundary, .. } = self;
        let mut waits = Waits::default();
        if !switching.uses_pfc() {
            return waits;
        }
        let mut switches = Vec::new();
        for index in boundary.own_ports() {
            let Some(&PauseState { classes, since, .. }) =
                self.pause_state(index).filter(|state| state.since_before(now.before(INTERVAL)))
            else {
                continue;
            };
            waits.paused.push(PausedPort { port: links.name(index), classes, since });
            let owner = links.ports[index as usize].owner;
            if owner & HOST == 0 {
                switches.push(owner);
                switching.queued_by_ingress(links, index, classes, &mut waits.queued);
            }
        }
        switches.sort_unstable();
        switches.dedup();
        for switch in switches {
            switching.held_by_ingress(links, switch, &mut waits.held);
        }
        waits
    }
}
