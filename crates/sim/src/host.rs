//! A host: its transports and the uplink that pulls from them.

use tidegate_algos::{AnyTransport, Stack};
use tidegate_core::{HostContext, Time, Transport};

use crate::pause_state::PauseState;

/// Most protocols side by side in one run (the turns of a host keep them in a bit set).
pub(crate) const MAX_STACKS: usize = 64;

/// A host.
pub(crate) struct Host {
    /// Its uplink.
    pub(crate) port: u32,
    /// By stack; made when the first message or packet needs it.
    transports: Vec<Option<ProtocolQueue>>,
    pub(crate) context: HostContext,
    /// Everything that could leave before this time has left.
    pub(crate) pulled_until: Time,
    /// Nothing will want to leave before this time unless something happens first.
    pub(crate) quiet_until: Time,
    /// An outage holds it: its transports stand still.
    pub(crate) stopped: bool,
    /// What its switch has told it. While a class stands still its uplink counts as busy.
    pub(crate) pause_state: PauseState,
    /// Then: when the uplink is free for what may leave.
    pub(crate) free_at: Time,
    /// Time of its entry in the event list.
    pub(crate) armed_at: Time,
    /// When its timers were last seen to.
    pub(crate) seen_to: Time,
}

/// A transport and its share of the uplink.
struct ProtocolQueue {
    transport: AnyTransport,
    /// Wire bytes sent, raised on return from idleness so that nobody saves up turns.
    sent_bytes: u64,
}

impl Host {
    pub(crate) fn new(port: u32, stacks: usize, context: HostContext) -> Self {
        Host {
            port,
            transports: (0..stacks).map(|_| None).collect(),
            context,
            pulled_until: Time::ZERO,
            quiet_until: Time::ZERO,
            stopped: false,
            pause_state: PauseState::default(),
            free_at: Time::ZERO,
            armed_at: Time::NEVER,
            seen_to: Time::NEVER,
        }
    }

    /// The transport of `stack`; made if there is none.
    #[inline]
    pub(crate) fn transport(&mut self, stack: u16, stacks: &[Stack]) -> &mut AnyTransport {
        let context = &self.context;
        &mut self.transports[stack as usize]
            .get_or_insert_with(|| ProtocolQueue {
                transport: stacks[stack as usize].transport(context),
                sent_bytes: 0,
            })
            .transport
    }

    pub(crate) fn existing(&self, stack: u16) -> Option<&AnyTransport> {
        self.transports.get(stack as usize)?.as_ref().map(|queue| &queue.transport)
    }

    pub(crate) fn existing_mut(&mut self, stack: usize) -> Option<&mut AnyTransport> {
        self.transports.get_mut(stack)?.as_mut().map(|queue| &mut queue.transport)
    }

    pub(crate) fn stacks(&self) -> usize {
        self.transports.len()
    }

    /// The earliest deadline of its transports.
    #[inline]
    pub(crate) fn deadline(&self) -> Time {
        if let [Some(only)] = &self.transports[..] {
            return only.transport.deadline();
        }
        let deadlines = self.transports.iter().flatten().map(|queue| queue.transport.deadline());
        deadlines.min().unwrap_or(Time::NEVER)
    }

    /// The earliest of those deadlines that are more than wishes to transmit.
    #[inline]
    pub(crate) fn timer(&self) -> Time {
        if let [Some(only)] = &self.transports[..] {
            return only.transport.timer();
        }
        let timers = self.transports.iter().flatten().map(|queue| queue.transport.timer());
        timers.min().unwrap_or(Time::NEVER)
    }

    /// The earliest deadline of its transports that is later than `at`.
    pub(crate) fn deadline_after(&self, at: Time) -> Time {
        let deadlines = self.transports.iter().flatten().map(|queue| queue.transport.deadline());
        deadlines.filter(|&deadline| deadline > at).min().unwrap_or(Time::NEVER)
    }

    /// Asks the transports in byte-fair turns; `pull` tries one and says how many bytes it sent.
    /// The stack that sent.
    #[inline]
    pub(crate) fn pull(
        &mut self,
        mut pull: impl FnMut(&mut AnyTransport) -> Option<u32>,
    ) -> Option<u16> {
        if let [Some(only)] = &mut self.transports[..] {
            return pull(&mut only.transport).map(|_| 0);
        }
        self.pull_fairly(pull)
    }

    #[inline(never)]
    fn pull_fairly(
        &mut self,
        mut pull: impl FnMut(&mut AnyTransport) -> Option<u32>,
    ) -> Option<u16> {
        // At most as many rounds as stacks: each round tries the one that has sent least among
        // those not tried.
        let mut tried = 0u64;
        loop {
            let next = self
                .transports
                .iter()
                .enumerate()
                .filter_map(|(i, queue)| queue.as_ref().map(|l| (l.sent_bytes, i)));
            let (sent, i) = next.filter(|&(_, i)| tried & 1 << i == 0).min()?;
            let queue = self.transports[i].as_mut()?;
            if let Some(bytes) = pull(&mut queue.transport) {
                queue.sent_bytes += bytes as u64;
                for (j, idle) in self.transports.iter_mut().enumerate() {
                    if let Some(idle) = idle.as_mut().filter(|_| tried & 1 << j != 0) {
                        idle.sent_bytes = idle.sent_bytes.max(sent);
                    }
                }
                return Some(i as u16);
            }
            tried |= 1 << i;
        }
    }

    /// Payload submitted and not yet sent.
    pub(crate) fn backlog_bytes(&self) -> u64 {
        self.transports.iter().flatten().map(|queue| queue.transport.backlog_bytes()).sum()
    }
}
