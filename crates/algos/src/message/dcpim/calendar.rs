//! When what happens, the same at all hosts: epochs, rounds of matching, phases of data.
//!
//! Epoch `e` begins at `e` times the data phase. It is matched in `r` rounds of an iteration each;
//! its data phase follows while the next epoch is matched. Everything is computed from the time
//! alone, so a host that was idle is in step with the others at once.

use tidegate_core::{Span, Time};

use super::DcpimParams;

/// What is known of the fabric.
#[derive(Clone, Copy, Debug)]
pub(super) struct FabricProperties {
    /// What a question and its answer take.
    pub(super) control_rtt: Span,
    /// By how much a packet of control is late that finds a full packet begun at every hop.
    pub(super) blocked: Span,
    /// What a full packet takes on this host's link.
    pub(super) packet: Span,
    /// What a request takes there.
    pub(super) request: Span,
    /// Full packets that fill a round trip.
    pub(super) bdp_packets: u64,
}

/// Lengths of time, and what fits in them.
#[derive(Clone, Copy, Debug)]
pub(super) struct Calendar {
    /// A round.
    pub(super) iteration: Span,
    /// Rounds of an epoch.
    pub(super) rounds: u64,
    /// A phase of data, and from epoch to epoch.
    pub(super) phase: Span,
    /// Full packets that a channel carries in a phase.
    pub(super) quota: u64,
    /// A full packet on this host's link.
    pub(super) packet: Span,
    /// That of a BDP of packets.
    pub(super) bdp_time: Span,
    /// A token is good for so long after the phase it is of.
    pub(super) grace: Span,
    /// Requests that leave in the first half of a round: later ones are too late for it.
    pub(super) requests: u64,
}

/// What begins or ends at a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Stage {
    /// The matching of this epoch has ended, and its data phase begins.
    pub(super) begins: Option<u64>,
    /// This round begins: its epoch, and its number from 1.
    pub(super) opens: Option<(u64, u32)>,
}

impl Calendar {
    pub(super) fn new(params: &DcpimParams, properties: &FabricProperties) -> Calendar {
        let FabricProperties { control_rtt, blocked, packet, request, bdp_packets } = *properties;
        // Each half of a round must hold a packet of control that is blocked.
        let least = control_rtt + blocked.times(2);
        let iteration = control_rtt.scale(params.beta).max(least).max(packet);
        // A round has two halves.
        let iteration = Span::ps(iteration.as_ps().next_multiple_of(2));
        let matching = iteration.times(params.rounds);
        let phase = matching.scale(params.alpha).max(matching);
        let quota = phase.as_ps() / (packet.as_ps().max(1) * params.channels);
        Calendar {
            iteration,
            rounds: params.rounds,
            phase,
            quota: quota.max(1),
            packet,
            bdp_time: packet.times(bdp_packets),
            grace: Span::ps(control_rtt.as_ps() / 2) + packet.times(params.channels),
            requests: (iteration.as_ps() / 2 / request.as_ps().max(1)).max(1),
        }
    }

    fn matching(&self) -> u64 {
        self.iteration.as_ps() * self.rounds
    }

    /// The epoch that begins last by then.
    pub(super) fn epoch(&self, at: Time) -> u64 {
        at.as_ps() / self.phase.as_ps()
    }

    /// The round that runs, and since when.
    pub(super) fn round(&self, at: Time) -> Option<(u64, u32, Time)> {
        let epoch = self.epoch(at);
        let round = at.as_ps() % self.phase.as_ps() / self.iteration.as_ps();
        let since = Time::ps(epoch * self.phase.as_ps() + round * self.iteration.as_ps());
        (round < self.rounds).then_some((epoch, round as u32 + 1, since))
    }

    /// What happens at the time of a stage.
    pub(super) fn stage(&self, at: Time) -> Stage {
        let (at_ps, phase) = (at.as_ps(), self.phase.as_ps());
        let ended = at_ps.checked_sub(self.matching()).filter(|since| since.is_multiple_of(phase));
        Stage {
            begins: ended.map(|since| since / phase),
            opens: self.round(at).map(|(epoch, round, _)| (epoch, round)),
        }
    }

    /// The next time after `at` at which a round begins or ends.
    pub(super) fn next_stage(&self, at: Time) -> Time {
        let (iteration, phase) = (self.iteration.as_ps(), self.phase.as_ps());
        let began = at.as_ps() / phase * phase;
        let next = (at.as_ps() - began) / iteration + 1;
        let within = if next <= self.rounds { next * iteration } else { phase };
        Time::ps(began.saturating_add(within.min(phase)))
    }

    /// When the phase of data ends that runs then.
    pub(super) fn phase_end(&self, at: Time) -> Time {
        let phases = match at.as_ps().checked_sub(self.matching()) {
            Some(since) => since / self.phase.as_ps() + 1,
            None => 0,
        };
        Time::ps(phases.saturating_mul(self.phase.as_ps()).saturating_add(self.matching()))
    }

    /// The middle of a round that began at `since`: senders answer.
    pub(super) fn half(&self, since: Time) -> Time {
        since + Span::ps(self.iteration.as_ps() / 2)
    }
}
