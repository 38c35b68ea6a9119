//! Injected faults: impairments of packets at the end of a link, and outages of links and hosts.

use super::*;

impl<P: Probe, N: Naming> Partition<P, N> {
    #[inline(never)]
    pub(super) fn apply_impairments(&mut self, index: u32, to: u32, packet: u32) {
        if self.packets.frames[packet as usize].flags & frame_flag::PAUSE != 0 {
            return self.take_pause(index, packet);
        }
        if let Some(ingress) = &mut self.ingress {
            ingress.came_in(packet, index);
        }
        match self.injector.impairment(index) {
            Impairment::Arrives => self.arrive(to, packet, self.now),
            Impairment::Lost => {
                self.fault_counts.lost += 1;
                self.packets.free(packet);
            }
            Impairment::Corrupted => {
                self.packets.frames[packet as usize].flags |= frame_flag::CORRUPT;
                self.arrive(to, packet, self.now);
            }
            Impairment::Duplicated => {
                self.fault_counts.duplicated += 1;
                let copy = self.packets.copy(packet);
                if let Some(ingress) = &mut self.ingress {
                    ingress.came_in(copy, index);
                }
                self.arrive(to, packet, self.now);
                self.arrive(to, copy, self.now);
            }
            Impairment::Late(by) => {
                self.fault_counts.reordered += 1;
                self.hold(self.now + by, Held { packet, to, landed: self.now, received: None });
            }
        }
    }

    fn hold(&mut self, until: Time, held: Held) {
        self.injector.hold(until, held);
        self.schedule_faults();
    }

    pub(super) fn schedule_faults(&mut self) {
        let source = self.fault_source();
        match self.injector.next_at() {
            Time::NEVER => self.events.clear(source),
            at => self.events.set(source, at.clamp(self.now, self.now.after(FAR))),
        }
    }

    /// Releases held packets, starts and ends PFC storms, and takes links and hosts down and up.
    pub(super) fn on_faults(&mut self) {
        let now = self.now;
        while let Some(Held { packet, to, landed, received }) = self.injector.release(now) {
            match received {
                None => self.arrive(to, packet, landed),
                Some(_) if self.hosts[(to & !HOST) as usize].stopped => self.lose(packet),
                Some(received) => {
                    // RTTs are measured from NIC to NIC.
                    self.packets.body(packet).sent_at += now - received;
                    self.deliver_with_care(to & !HOST, packet, landed);
                }
            }
        }
        while let Some((host, on)) = self.injector.storm(now) {
            let local = self.local_host(host);
            local.into_iter().for_each(|host| self.storm(host, on));
        }
        let mut rerouted = false;
        while let Some(Changed { down, link, host }) = self.injector.change(now) {
            if let Some(link) = link {
                self.toggle(link, down);
                rerouted = true;
            }
            if let Some(host) = host.and_then(|host| self.local_host(host)) {
                self.hosts[host as usize].stopped = down;
                if !down {
                    self.on_host(host);
                }
            }
        }
        if rerouted {
            let injector = &self.injector;
            self.routing.reroute(|link| !injector.is_down(link));
        }
        self.schedule_faults();
    }

    /// Takes a link down or brings it back.
    pub(super) fn toggle(&mut self, link: u32, down: bool) {
        for name in [2 * link, 2 * link + 1] {
            let index = self.port_names.index_of(name);
            if index == NOWHERE {
                continue;
            }
            if index < self.own_ports as u32 && name % 2 == 0 {
                self.fault_counts.outages += down as u64;
            }
            self.commit(index);
            self.forget_pauses(index);
            let now = self.now;
            if down {
                let queued = self.queued_byte_ps(index, now);
                let shared = self.ports[index as usize].queue_bytes - self.credit_bytes(index);
                // Packets that are sent in reaction to these losses must not queue here either.
                self.ports[index as usize].flags |= flag::DOWN;
                let waited = self.credits_waited(index, now);
                if let Some(scheduler) = self.scheduler(index) {
                    scheduler.credit_byte_ps += waited;
                }
                self.drain_scheduler(index);
                let is_boundary =
                    self.boundaries.binary_search_by_key(&index, |&(port, _)| port).is_ok();
                let port = &mut self.ports[index as usize];
                let sentinel = is_boundary.then(|| port.land(&self.packets.frames).0);
                let unsent = port.busy_beyond(now);
                let Packets { frames, free, .. } = &mut self.packets;
                let before = free.len();
                port.cut(frames, |packet| free.push(packet));
                self.fault_counts.lost += (free.len() - before) as u64;
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
            } else {
                let port = &mut self.ports[index as usize];
                port.mend(now);
                if port.owner & HOST != 0 {
                    let host = port.owner & !HOST;
                    self.hosts[host as usize].quiet_until = Time::ZERO;
                    self.pull(host);
                }
            }
        }
    }

    #[cold]
    pub(super) fn lose(&mut self, packet: u32) {
        self.fault_counts.lost += 1;
        self.discard(packet);
    }

    /// Returns whether a packet that has reached a host's NIC continues to its transport now. A
    /// corrupted packet does not; nor does a packet that was held back until after the host had
    /// stopped. If host software takes time, the packet is held for that long and delivered later.
    #[cold]
    pub(super) fn takes(&mut self, host: u32, packet: u32, landed: Time) -> bool {
        let now = self.now;
        let corrupt = self.packets.frames[packet as usize].flags & frame_flag::CORRUPT != 0;
        self.fault_counts.corrupted += corrupt as u64;
        if self.hosts[host as usize].stopped {
            self.lose(packet);
            return false;
        }
        if corrupt {
            self.packets.free(packet);
            return false;
        }
        let Some((busy_until, rng)) = self.stacks_busy.get_mut(host as usize) else { return true };
        let StackTime { delay, jitter } = self.setup.stack_time;
        let jitter =
            if jitter > Span::ZERO { Span::ps(rng.below(jitter.as_ps() + 1)) } else { jitter };
        *busy_until = (now + delay + jitter).max(*busy_until);
        let until = *busy_until;
        self.hold(until, Held { packet, to: host | HOST, landed, received: Some(now) });
        false
    }
}
