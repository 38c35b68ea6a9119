//! Outages of links and hosts, and PFC storms.

use super::Partition;
use crate::fabric::faults::Changed;
use crate::measures::probe::Probe;
use crate::naming::{NOWHERE, Naming};
use crate::ports::packets::Packets;
use crate::ports::port::{HOST, flag};
use tidegate_core::Time;

impl<P: Probe, N: Naming> Partition<P, N> {
    /// Releases held packets, starts and ends PFC storms, and takes links and hosts down and up.
    pub(super) fn on_faults(&mut self) {
        let now = self.now;
        self.release_held();
        while let Some((host, on)) = self.effects.injector.storm(now) {
            let local = self.local_host(host);
            local.into_iter().for_each(|host| self.storm(host, on));
        }
        let mut rerouted = false;
        while let Some(Changed { down, link, host }) = self.effects.injector.change(now) {
            if let Some(link) = link {
                self.toggle(link, down);
                rerouted = true;
            }
            if let Some(host) = host.and_then(|host| self.local_host(host)) {
                self.hosts[host as usize].uplink.set_stopped(down);
                if !down {
                    self.on_host(host);
                }
            }
        }
        if rerouted {
            let injector = &self.effects.injector;
            self.routing.reroute(|link| !injector.is_down(link));
        }
        self.schedule_faults();
    }

    /// Takes a link down or brings it back.
    fn toggle(&mut self, link: u32, down: bool) {
        for name in [2 * link, 2 * link + 1] {
            let index = self.port_names.index_of(name);
            if index == NOWHERE {
                continue;
            }
            if index < self.own_ports as u32 && name % 2 == 0 {
                self.effects.counts.outages += down as u64;
            }
            self.commit(index);
            self.forget_pauses(index);
            if down { self.take_down(index) } else { self.bring_back(index) }
        }
    }

    fn take_down(&mut self, index: u32) {
        let now = self.now;
        let queued = self.queued_byte_ps(index, now);
        let shared = self.ports[index as usize].queue_bytes - self.credit_bytes(index);
        // Packets that are sent in reaction to these losses must not queue here either.
        self.ports[index as usize].flags |= flag::DOWN;
        let waited = self.credits_waited(index, now);
        if let Some(scheduler) = self.scheduler(index) {
            scheduler.credit_byte_ps += waited;
        }
        self.drain_scheduler(index);
        let is_boundary = self.boundaries.binary_search_by_key(&index, |&(port, _)| port).is_ok();
        let port = &mut self.ports[index as usize];
        let sentinel = is_boundary.then(|| port.land(&self.packets.frames).0);
        let unsent = port.busy_beyond(now);
        let Packets { frames, free, .. } = &mut self.packets;
        let before = free.len();
        port.cut(frames, |packet| free.push(packet));
        self.effects.counts.lost += (free.len() - before) as u64;
        self.baselines[index as usize].unsent += unsent;
        if port.owner & HOST == 0 {
            port.waits.byte_ps += queued;
            self.switches[port.owner as usize].used -= shared as u64;
        }
        if P::EXPLICIT_DEQUEUES {
            self.landings[index as usize] = Time::NEVER;
        }
        self.events.clear(index);
        sentinel.into_iter().for_each(|sentinel| self.restore_sentinel(index, sentinel));
    }

    fn bring_back(&mut self, index: u32) {
        let port = &mut self.ports[index as usize];
        port.mend(self.now);
        if port.owner & HOST != 0 {
            let host = port.owner & !HOST;
            self.hosts[host as usize].uplink.changed();
            self.pull(host);
        }
    }
}
