//! Outages of links and hosts, rate changes, and PFC storms.

use super::Partition;
use super::uplinks::host_of;
use crate::fabric::faults::{Changed, NewRate};
use crate::measures::probe::Probe;
use crate::naming::Naming;

impl<P: Probe, N: Naming> Partition<P, N> {
    /// Releases held packets, starts and ends PFC storms, changes rates, and takes links and hosts
    /// down and up.
    pub(super) fn on_faults(&mut self) {
        let now = self.links.now();
        self.release_held();
        while let Some((host, on)) = self.injector.storm(now) {
            if let Some(host) = self.uplinks.find(host) {
                self.storm(host, on);
            }
        }
        self.change_rates();
        while let Some(Changed { down, link, host }) = self.injector.change(now) {
            if let Some(link) = link {
                self.toggle(link, down);
            }
            if let Some(host) = host.and_then(|host| self.uplinks.find(host)) {
                self.uplinks.set_stopped(host, down);
                if !down {
                    self.on_host(host);
                }
            }
        }
        if self.injector.converge(now) {
            let injector = &self.injector;
            self.switching.routing_mut().reroute(|link| !injector.is_avoided(link));
        }
        self.schedule_faults();
    }

    /// Changes rates that are due. Those of the start of a run precede its first event.
    pub(super) fn change_rates(&mut self) {
        while let Some(new) = self.injector.new_rate(self.links.now()) {
            self.set_rate(new);
        }
    }

    /// Sets the rate of the transmissions of a port that start from now on.
    fn set_rate(&mut self, NewRate { port, rate, marking }: NewRate) {
        let Some(index) = self.links.find(port) else { return };
        self.commit(index);
        let Partition { links, switching, measures, .. } = self;
        measures.before_rate_change(links, index);
        links.set_rate(index, rate);
        if let Some(marking) = marking {
            links.ports[index as usize].marking = marking;
        }
        if let Some(scheduler) = switching.scheduler_mut(index) {
            scheduler.set_rate(rate);
        }
    }

    /// Takes a link down or brings it up.
    fn toggle(&mut self, link: u32, down: bool) {
        for name in [2 * link, 2 * link + 1] {
            let Some(index) = self.links.find(name) else { continue };
            if down && name % 2 == 0 && self.boundary.is_own(index) {
                self.link_effects.count_outage();
            }
            self.commit(index);
            self.clear_pauses(index);
            if down { self.take_down(index) } else { self.bring_up(index) }
        }
    }

    fn take_down(&mut self, index: u32) {
        let Partition { links, switching, boundary, measures, .. } = self;
        let now = links.now();
        switching.empty_port(links, index);
        let sentinel = boundary.take_sentinel(links, index);
        measures.cut_short(index, links.ports[index as usize].busy_beyond(now));
        links.cut(index);
        if let Some(sentinel) = sentinel {
            boundary.put_sentinel(links, index, sentinel);
        }
    }

    fn bring_up(&mut self, index: u32) {
        let now = self.links.now();
        let port = &mut self.links.ports[index as usize];
        port.bring_up(now);
        if let Some(host) = host_of(port.owner) {
            self.uplinks.restart(&mut self.links, &mut self.flows, host);
        }
    }
}
