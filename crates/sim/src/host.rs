//! A host: its transports and the uplink that polls them.

use tidegate_algos::{AnyTransport, Stack};
use tidegate_core::{HostContext, Time, Transport};

use crate::ports::uplink::{Deadlines, Uplink};

/// Maximum number of protocols in one run (`poll` keeps them in a bit set).
pub(crate) const MAX_STACKS: usize = 64;

/// A host.
pub(crate) struct Host {
    pub(crate) uplink: Uplink,
    pub(crate) transports: Transports,
}

/// The transports of a host, which share its uplink.
pub(crate) struct Transports {
    /// By stack. Created when the first message or packet needs it.
    queues: Vec<Option<ProtocolQueue>>,
    context: HostContext,
}

/// A transport and its share of the uplink.
struct ProtocolQueue {
    transport: AnyTransport,
    /// Wire bytes sent. Raised when the transport returns from idleness, so that it saves up no
    /// share.
    sent_bytes: u64,
}

impl Host {
    /// For a host whose uplink is the port with the index `port`.
    pub(crate) fn new(port: u32, stacks: usize, context: HostContext) -> Self {
        let queues = (0..stacks).map(|_| None).collect();
        Host { uplink: Uplink::new(port), transports: Transports { queues, context } }
    }
}

impl Deadlines for Transports {
    #[inline]
    fn deadline(&self) -> Time {
        if let [Some(only)] = &self.queues[..] {
            return only.transport.deadline();
        }
        let deadlines = self.queues.iter().flatten().map(|queue| queue.transport.deadline());
        deadlines.min().unwrap_or(Time::NEVER)
    }

    #[inline]
    fn timer(&self) -> Time {
        if let [Some(only)] = &self.queues[..] {
            return only.transport.timer();
        }
        let timers = self.queues.iter().flatten().map(|queue| queue.transport.timer());
        timers.min().unwrap_or(Time::NEVER)
    }

    fn deadline_after(&self, at: Time) -> Time {
        let deadlines = self.queues.iter().flatten().map(|queue| queue.transport.deadline());
        deadlines.filter(|&deadline| deadline > at).min().unwrap_or(Time::NEVER)
    }
}

impl Transports {
    /// Global ID of the host.
    #[inline]
    pub(crate) fn host(&self) -> u32 {
        self.context.host
    }

    /// Returns the transport of `stack`, which is created if necessary.
    #[inline]
    pub(crate) fn transport(&mut self, stack: u16, stacks: &[Stack]) -> &mut AnyTransport {
        let context = &self.context;
        &mut self.queues[stack as usize]
            .get_or_insert_with(|| ProtocolQueue {
                transport: stacks[stack as usize].transport(context),
                sent_bytes: 0,
            })
            .transport
    }

    pub(crate) fn existing(&self, stack: u16) -> Option<&AnyTransport> {
        self.queues.get(stack as usize)?.as_ref().map(|queue| &queue.transport)
    }

    pub(crate) fn existing_mut(&mut self, stack: usize) -> Option<&mut AnyTransport> {
        self.queues.get_mut(stack)?.as_mut().map(|queue| &mut queue.transport)
    }

    pub(crate) fn stacks(&self) -> usize {
        self.queues.len()
    }

    /// Polls the transports byte-fairly. `poll` polls one and returns the bytes that it sent.
    /// Returns the stack that sent.
    #[inline]
    pub(crate) fn poll(
        &mut self,
        mut poll: impl FnMut(&mut AnyTransport) -> Option<u32>,
    ) -> Option<u16> {
        if let [Some(only)] = &mut self.queues[..] {
            return poll(&mut only.transport).map(|_| 0);
        }
        self.poll_fairly(poll)
    }

    #[inline(never)]
    fn poll_fairly(
        &mut self,
        mut poll: impl FnMut(&mut AnyTransport) -> Option<u32>,
    ) -> Option<u16> {
        // At most one round per stack. Each round tries the transport that has sent least among
        // those not yet tried.
        let mut tried = 0u64;
        loop {
            let next = self
                .queues
                .iter()
                .enumerate()
                .filter_map(|(i, queue)| queue.as_ref().map(|l| (l.sent_bytes, i)));
            let (sent, i) = next.filter(|&(_, i)| tried & 1 << i == 0).min()?;
            let queue = self.queues[i].as_mut()?;
            if let Some(bytes) = poll(&mut queue.transport) {
                queue.sent_bytes += bytes as u64;
                for (j, idle) in self.queues.iter_mut().enumerate() {
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
        self.queues.iter().flatten().map(|queue| queue.transport.backlog_bytes()).sum()
    }
}
