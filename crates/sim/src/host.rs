//! A host: its transports and the uplink that pulls from them.

use tidegate_algos::{AnyTransport, Stack};
use tidegate_core::{HostContext, Time, Transport};

use crate::ports::pause_state::PauseState;

/// Maximum number of protocols in one run (`pull` keeps them in a bit set).
pub(crate) const MAX_STACKS: usize = 64;

/// A host.
pub(crate) struct Host {
    /// Index of its uplink.
    pub(crate) port: u32,
    /// By stack. Created when the first message or packet needs it.
    transports: Vec<Option<ProtocolQueue>>,
    pub(crate) context: HostContext,
    /// Everything that could leave before this time has left.
    pub(crate) pulled_until: Time,
    /// No transport will send before this time unless something happens first.
    pub(crate) quiet_until: Time,
    /// An outage has stopped the host, and with it its transports.
    pub(crate) stopped: bool,
    /// Pause state. While any class is paused, the uplink counts as busy.
    pub(crate) pause_state: PauseState,
    /// While paused: time at which the uplink is free for packets that may leave.
    pub(crate) free_at: Time,
    /// Time of its entry in the event list.
    pub(crate) armed_at: Time,
    /// Time at which its timers were last handled.
    pub(crate) seen_to: Time,
}

/// A transport and its share of the uplink.
struct ProtocolQueue {
    transport: AnyTransport,
    /// Wire bytes sent. Raised when the transport returns from idleness, so that it saves up no
    /// share.
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

    /// Returns the transport of `stack`, which is created if necessary.
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

    /// The earliest deadline of its transports that is a timer, not a transmission.
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

    /// Polls the transports byte-fairly. `pull` polls one and returns the bytes that it sent.
    /// Returns the stack that sent.
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
        // At most one round per stack. Each round tries the transport that has sent least among
        // those not yet tried.
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

    /// Payload submitted and not yet sent for the first time.
    pub(crate) fn backlog_bytes(&self) -> u64 {
        self.transports.iter().flatten().map(|queue| queue.transport.backlog_bytes()).sum()
    }
}
