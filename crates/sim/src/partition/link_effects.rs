//! Link effects: the steps that a packet passes between the end of a link and the node behind it.
//!
//! Most runs have none, and the packet reaches its node at once. In other runs it passes, in this
//! order:
//!
//! 1. PFC ([`pausing`](super::pausing)): a pause frame is consumed here. For any other packet, the
//!    link that it arrived by is recorded, because switches count buffered bytes by ingress.
//! 2. The link's impairments: the packet is lost, corrupted, duplicated, delayed or unchanged.
//!    Switches forward corrupted packets.
//! 3. If the link leads to a host, its NIC: it drops corrupted packets, and all packets while an
//!    outage has stopped the host.
//! 4. If the link leads to a host, its software: the packet waits for the processing time.
//!
//! Steps 2 and 4 may hold the packet. It continues with the next step when the injector releases
//! it.

use tidegate_core::fabric::StackTime;
use tidegate_core::{Domain, Rng, Span, Time, frame_flag};

use super::Partition;
use super::clock::Source;
use super::switching::Switching;
use super::uplinks::host_of;
use crate::fabric::faults::{Held, Impairment};
use crate::measures::outcome::FaultCounts;
use crate::measures::probe::Probe;
use crate::naming::Naming;
use crate::ports::port::HOST;
use crate::setup::Setup;

/// State of the link effects of a partition.
pub(super) struct LinkEffects {
    /// No packet needs any of the steps.
    none: bool,
    /// No packet needs a step after PFC: links do not impair packets, and software takes no time.
    /// The NIC has nothing to do then: while a host is stopped, its link is down.
    only_pfc: bool,
    stack_time: StackTime,
    /// By host, if host software takes time: when it delivers the last packet that it holds, and
    /// the random stream of its jitter.
    stacks: Vec<(Time, Rng)>,
    /// Without the packets that links have lost.
    counts: FaultCounts,
}

impl LinkEffects {
    /// For a partition with these hosts and switches.
    pub(super) fn new(setup: &Setup, hosts: &[u32], switching: &Switching) -> LinkEffects {
        let Setup { faults, stack_time, seed, .. } = setup;
        let takes_time = stack_time.most() > Span::ZERO;
        let only_pfc = !faults.touch_packets() && !takes_time;
        let stream = |&host: &u32| (Time::ZERO, Rng::stream(*seed, Domain::Stack, host as u64));
        LinkEffects {
            none: only_pfc && !switching.uses_pfc(),
            only_pfc,
            stack_time: *stack_time,
            stacks: hosts.iter().filter(|_| takes_time).map(stream).collect(),
            counts: FaultCounts::default(),
        }
    }

    /// Returns whether packets reach the end of their links without any effect.
    #[inline(always)]
    pub(super) fn are_none(&self) -> bool {
        self.none
    }

    /// Counts an outage of a link.
    pub(super) fn count_outage(&mut self) {
        self.counts.outages += 1;
    }

    /// Time at which a host's software delivers a packet that its NIC takes now; `None` if software
    /// takes no time.
    fn delivery(&mut self, now: Time, host: u32) -> Option<Time> {
        let (busy_until, rng) = self.stacks.get_mut(host as usize)?;
        let StackTime { delay, jitter } = self.stack_time;
        let jitter =
            if jitter > Span::ZERO { Span::ps(rng.below(jitter.as_ps() + 1)) } else { jitter };
        *busy_until = (now + delay + jitter).max(*busy_until);
        Some(*busy_until)
    }
}

impl<P: Probe, N: Naming> Partition<P, N> {
    /// A packet has come off the link of the port `index`, which leads to `to`. Returns `false` if
    /// it arrives at the switch `to` now; in all other cases, this method has handled it.
    #[inline(always)]
    pub(super) fn link_effects_take(&mut self, index: u32, to: u32, packet: u32) -> bool {
        if self.takes_pause_frame(index, packet) {
            return true;
        }
        self.switching.record_ingress(index, packet);
        match host_of(to) {
            _ if !self.link_effects.only_pfc => self.apply_link_effects(index, to, packet),
            Some(host) => self.deliver_to_pausable(host, packet, self.links.now()),
            None => return false,
        }
        true
    }

    /// The steps after PFC.
    #[inline(never)]
    fn apply_link_effects(&mut self, index: u32, to: u32, mut packet: u32) {
        let now = self.links.now();
        match self.injector.impairment(index) {
            Impairment::Arrives => {}
            Impairment::Lost => return self.links.lose_in_flight(packet),
            Impairment::Corrupted => {
                self.links.packets.frames[packet as usize].flags |= frame_flag::CORRUPT;
            }
            Impairment::Duplicated => {
                self.link_effects.counts.duplicated += 1;
                let copy = self.links.packets.copy(packet);
                self.switching.record_ingress(index, copy);
                self.reach(to, packet, now);
                packet = copy;
            }
            Impairment::Late(by) => {
                self.link_effects.counts.reordered += 1;
                return self.hold(now + by, Held { packet, to, landed: now, received: None });
            }
        }
        self.reach(to, packet, now);
    }

    /// A packet that came off its link at `landed` has passed the link's impairments.
    fn reach(&mut self, to: u32, packet: u32, landed: Time) {
        match host_of(to) {
            None => self.switching.arrive(&mut self.links, to, packet),
            Some(host) if self.passes_nic(host, packet, landed) => {
                self.deliver_to_pausable(host, packet, landed);
            }
            Some(_) => {}
        }
    }

    /// A packet has reached a host's NIC. Returns whether it continues to the transport now.
    /// Otherwise the NIC has dropped it, or host software takes time and the injector holds it.
    fn passes_nic(&mut self, host: u32, packet: u32, landed: Time) -> bool {
        let now = self.links.now();
        let corrupt = self.links.packets.frames[packet as usize].flags & frame_flag::CORRUPT != 0;
        self.link_effects.counts.corrupted += corrupt as u64;
        if self.uplinks.host(host).uplink.is_stopped() {
            self.links.lose(packet);
            return false;
        }
        if corrupt {
            self.links.packets.free(packet);
            return false;
        }
        let Some(until) = self.link_effects.delivery(now, host) else { return true };
        self.hold(until, Held { packet, to: host | HOST, landed, received: Some(now) });
        false
    }

    fn hold(&mut self, until: Time, held: Held) {
        self.injector.hold(until, held);
        self.schedule_faults();
    }

    /// Continues with the held packets that are due.
    pub(super) fn release_held(&mut self) {
        let now = self.links.now();
        while let Some(Held { packet, to, landed, received }) = self.injector.release(now) {
            let host = to & !HOST;
            match received {
                None => self.reach(to, packet, landed),
                Some(_) if self.uplinks.host(host).uplink.is_stopped() => self.links.lose(packet),
                Some(received) => {
                    // RTTs are measured from NIC to NIC.
                    self.links.packets.body(packet).sent_at += now - received;
                    self.deliver_to_pausable(host, packet, landed);
                }
            }
        }
    }

    /// Sets the event of the next fault or release.
    pub(super) fn schedule_faults(&mut self) {
        self.links.clock.set(Source::Faults, self.injector.next_at());
    }

    /// Counts of faults so far.
    pub(crate) fn fault_counts(&self) -> FaultCounts {
        FaultCounts { lost: self.links.lost(), ..self.link_effects.counts }
    }
}
