//! Schedule of epochs, matching rounds and data phases, identical at all hosts.
//!
//! Epoch `e` starts at `e` times the data phase. It is matched in `r` rounds of one iteration each;
//! its data phase follows, while the next epoch is matched. The schedule is computed from the time
//! alone, so a host that was idle is synchronised with the others immediately.

use tidegate_core::{Span, Time};

use super::DcpimParams;

/// Properties of the fabric that determine the schedule.
#[derive(Clone, Copy, Debug)]
pub(super) struct FabricProperties {
    /// Round-trip time of control packets.
    pub(super) control_rtt: Span,
    /// Largest delay of a control packet that waits for a full packet at every hop.
    pub(super) blocked: Span,
    /// Time of a full packet on this host's link.
    pub(super) packet: Span,
    /// Time of a request on this host's link.
    pub(super) request: Span,
    /// Number of full packets in a BDP.
    pub(super) bdp_packets: u64,
}

/// Durations of the schedule, and the number of packets that fit into them.
#[derive(Clone, Copy, Debug)]
pub(super) struct Calendar {
    /// Duration of a round.
    pub(super) iteration: Span,
    /// Rounds of an epoch.
    pub(super) rounds: u64,
    /// Duration of a data phase, and interval between epochs.
    pub(super) phase: Span,
    /// Full packets that a channel carries in a phase.
    pub(super) quota: u64,
    /// Time of a full packet on this host's link.
    pub(super) packet: Span,
    /// Time of a BDP of packets.
    pub(super) bdp_time: Span,
    /// Time after its phase for which a token is valid.
    pub(super) grace: Span,
    /// Number of requests that leave in the first half of a round: later ones would miss the round.
    pub(super) requests: u64,
}

/// Start or end of a phase or round.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Stage {
    /// Epoch whose matching has ended and whose data phase starts.
    pub(super) begins: Option<u64>,
    /// Round that starts: its epoch, and its number from 1.
    pub(super) opens: Option<(u64, u32)>,
}

impl Calendar {
    pub(super) fn new(params: &DcpimParams, properties: &FabricProperties) -> Calendar {
        let FabricProperties { control_rtt, blocked, packet, request, bdp_packets } = *properties;
        // Each half of a round must have room for a delayed control packet.
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

    /// The last epoch that starts by then.
    pub(super) fn epoch(&self, at: Time) -> u64 {
        at.as_ps() / self.phase.as_ps()
    }

    /// The current round and its start.
    pub(super) fn round(&self, at: Time) -> Option<(u64, u32, Time)> {
        let epoch = self.epoch(at);
        let round = at.as_ps() % self.phase.as_ps() / self.iteration.as_ps();
        let since = Time::ps(epoch * self.phase.as_ps() + round * self.iteration.as_ps());
        (round < self.rounds).then_some((epoch, round as u32 + 1, since))
    }

    /// Events at the time of a stage.
    pub(super) fn stage(&self, at: Time) -> Stage {
        let (at_ps, phase) = (at.as_ps(), self.phase.as_ps());
        let ended = at_ps.checked_sub(self.matching()).filter(|since| since.is_multiple_of(phase));
        Stage {
            begins: ended.map(|since| since / phase),
            opens: self.round(at).map(|(epoch, round, _)| (epoch, round)),
        }
    }

    /// The next time after `at` at which a round starts or ends.
    pub(super) fn next_stage(&self, at: Time) -> Time {
        let (iteration, phase) = (self.iteration.as_ps(), self.phase.as_ps());
        let began = at.as_ps() / phase * phase;
        let next = (at.as_ps() - began) / iteration + 1;
        let within = if next <= self.rounds { next * iteration } else { phase };
        Time::ps(began.saturating_add(within.min(phase)))
    }

    /// End of the current data phase.
    pub(super) fn phase_end(&self, at: Time) -> Time {
        let phases = match at.as_ps().checked_sub(self.matching()) {
            Some(since) => since / self.phase.as_ps() + 1,
            None => 0,
        };
        Time::ps(phases.saturating_mul(self.phase.as_ps()).saturating_add(self.matching()))
    }

    /// The middle of a round that started at `since`: senders grant.
    pub(super) fn half(&self, since: Time) -> Time {
        since + Span::ps(self.iteration.as_ps() / 2)
    }
}
