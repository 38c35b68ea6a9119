//! The generator: submissions of messages, and of those that wait for others.

use std::sync::Arc;

use tidegate_core::{Message, MessageId, PathOracle, Role, Span, Time};

use super::Partition;
use super::clock::{Clock, Source};
use crate::measures::iterations::IterationTime;
use crate::measures::probe::Probe;
use crate::naming::Naming;
use crate::partition::partitioning::Partitioning;
use crate::setup::Setup;
use crate::traffic::agenda::{Action, Agenda};
use crate::traffic::dependents::Dependents;
use crate::traffic::flows::Flows;
use crate::traffic::submission::{Submission, Wake};

/// Work of a submission, in events: it looks up paths and may create a transport.
const WORK: u64 = 64;

/// Submissions to come in a partition.
pub(super) struct Generator {
    agenda: Agenda,
    /// Dependent messages, if the run has any.
    dependents: Option<Box<Dependents>>,
    /// The work limit was reached between submissions of one instant. The remaining ones are
    /// handled before any other event.
    has_due_submissions: bool,
    /// Number of ranks that have ended their jobs.
    ended: u64,
    /// By host: when its link within the server is free. Empty without servers.
    free_at: Vec<Time>,
    setup: Arc<Setup>,
}

impl Generator {
    /// For the partition `number`, with the messages that depend on no other.
    pub(super) fn new(setup: &Arc<Setup>, partitioning: &Partitioning, number: u32) -> Generator {
        let mut agenda = Agenda::default();
        let mut ended = 0;
        let mut dependents = Dependents::new(setup, &partitioning.of_host, number);
        if let Some(dependents) = &mut dependents {
            let is_here = |host| partitioning.of_host[host as usize] == number;
            dependents.first(is_here, |next| ended += u64::from(agenda.add(next)));
        }
        let with_links = if setup.fabric.servers.is_some() { setup.fabric.hosts.len() } else { 0 };
        let free_at = vec![Time::ZERO; with_links];
        Generator {
            ended,
            agenda,
            dependents,
            has_due_submissions: false,
            free_at,
            setup: setup.clone(),
        }
    }

    /// Sets the event of the next submission.
    pub(super) fn schedule<N: Naming>(&self, clock: &mut Clock<N>) {
        clock.set(Source::Generator, self.agenda.next_at());
    }

    /// Returns whether submissions of this instant remain.
    #[inline]
    pub(super) fn has_due_submissions(&self) -> bool {
        self.has_due_submissions
    }

    /// Dependent messages that start here and arrive elsewhere, with their partition.
    pub(super) fn take_announced(&mut self) -> impl Iterator<Item = (u32, Submission)> {
        self.dependents.iter_mut().flat_map(|dependents| dependents.take_announced())
    }

    /// Adds flows that another partition has sent.
    pub(super) fn submit_all<N: Naming>(
        &mut self,
        clock: &mut Clock<N>,
        submissions: &mut Vec<Submission>,
    ) {
        if !submissions.is_empty() {
            submissions.drain(..).for_each(|submission| self.agenda.submit(submission));
            self.schedule(clock);
        }
    }

    /// Messages with dependents have arrived: schedules the messages that follow.
    #[cold]
    pub(super) fn start_dependents<N: Naming>(&mut self, clock: &mut Clock<N>, flows: &mut Flows) {
        let Some(dependents) = &mut self.dependents else { return };
        for id in flows.awaited.drain(..) {
            let answered = &mut flows.done.answered;
            let (agenda, ended) = (&mut self.agenda, &mut self.ended);
            dependents.arrived(id, clock.now(), answered, |next| {
                *ended += u64::from(agenda.add(next));
            });
        }
        self.schedule(clock);
    }

    /// Continues a rank of a job, which has waited for `now`.
    fn wake(&mut self, wake: Wake, now: Time) {
        let (agenda, ended) = (&mut self.agenda, &mut self.ended);
        if let Some(dependents) = &mut self.dependents {
            dependents.woken(wake, now, |next| *ended += u64::from(agenda.add(next)));
        }
    }

    /// Registers a flow that will arrive in this partition.
    pub(super) fn expect(
        &mut self,
        flows: &mut Flows,
        paths: &dyn PathOracle,
        submission: &Submission,
    ) {
        let flow = &submission.flow;
        let path = paths.path(flow.src, flow.dst);
        let full = self.setup.sizes(flow.stack).data(path.mtu) as u64;
        flows.receive(submission, path.bottleneck_rate.serialise(full));
        if let Some(dependents) = &mut self.dependents {
            dependents.expect(submission);
        }
    }

    /// Sends a message to a host of the same server, if it is one. Returns whether it is.
    fn send_within(&mut self, flows: &mut Flows, submission: &Submission, now: Time) -> bool {
        let flow = &submission.flow;
        let Some(servers) = self.setup.fabric.servers.filter(|all| all.joins(flow.src, flow.dst))
        else {
            return false;
        };
        let lasts = servers.rate.serialise(flow.bytes);
        flows.send(submission, now, lasts + servers.delay);
        let free_at = &mut self.free_at[flow.src as usize];
        let began = now.max(*free_at);
        *free_at = began.after(lasts);
        let message = MessageId { src: flow.src, id: submission.number };
        self.agenda.arrive_at(free_at.after(servers.delay), message, began);
        true
    }

    /// The message of a submission.
    fn message(&self, submission: &Submission) -> Message {
        let flow = &submission.flow;
        let role = |dependents: &Dependents| dependents.role(submission.id);
        Message {
            id: submission.number,
            dst: flow.dst,
            bytes: flow.bytes,
            dedicated: flow.dedicated,
            weight: self.setup.weights.get(flow.label as usize).copied().unwrap_or(1),
            role: self.dependents.as_deref().map_or(Role::Alone, role),
        }
    }
}

impl<P: Probe, N: Naming> Partition<P, N> {
    /// Adds a flow, which starts at its time. [`schedule_generator`](Self::schedule_generator) must
    /// follow.
    pub(crate) fn submit(&mut self, submission: Submission) {
        self.generator.agenda.submit(submission);
    }

    /// Sets the event of the next submission.
    pub(crate) fn schedule_generator(&mut self) {
        self.generator.schedule(&mut self.links.clock);
    }

    /// The event of the generator.
    pub(super) fn on_generator(&mut self) {
        let now = self.links.now();
        while self.work > 0
            && let Some(action) = self.generator.agenda.take(now)
        {
            self.work = self.work.saturating_sub(WORK);
            match action {
                Action::Submit(submission) => self.begin(&submission),
                Action::Wake(at, wake) => self.generator.wake(wake, at),
                Action::Arrive(message, began) => {
                    self.flows.carried(now, began, message);
                    self.start_dependents();
                }
                Action::Stop(slot) => self.uplinks.stop(&mut self.links, &mut self.flows, slot),
            }
        }
        self.generator.has_due_submissions = self.generator.agenda.next_at() <= now;
        self.schedule_generator();
    }

    /// Starts a flow that has at least one end in this partition.
    fn begin(&mut self, submission: &Submission) {
        let Partition { links, switching, uplinks, flows, generator, .. } = self;
        let flow = &submission.flow;
        if uplinks.find(flow.dst).is_some() {
            generator.expect(flows, switching.routing(), submission);
        } else if let Some(dependents) = &mut generator.dependents {
            dependents.announce(submission);
        }
        let Some(host) = uplinks.find(flow.src) else { return };
        if generator.send_within(flows, submission, links.now()) {
            return;
        }
        let is_unlimited = flow.bytes == Message::UNLIMITED;
        let ideal = match is_unlimited {
            true => Span::ZERO,
            false => switching.routing_mut().ideal(&generator.setup, flow),
        };
        let slot = flows.send(submission, links.now(), ideal);
        if is_unlimited && flow.stop < Time::NEVER {
            generator.agenda.stop_at(flow.stop, slot);
        }
        let message = generator.message(submission);
        uplinks.submit(links, flows, host, (slot, flow.stack), message, switching.routing());
    }

    /// Number of listed messages that are complete here, and of ranks that have ended their jobs,
    /// which count as messages.
    pub(crate) fn listed_done(&self) -> u64 {
        self.flows.listed_done() + self.generator.ended
    }

    /// Times of the iterations of jobs that ranks of this partition have ended.
    pub(crate) fn iterations(&self) -> Vec<IterationTime> {
        self.generator.dependents.as_ref().map_or(Vec::new(), |dependents| dependents.times())
    }

    /// Ends submissions and stops unlimited flows.
    pub(crate) fn close_to_arrivals(&mut self) {
        self.generator.agenda.close();
        if let Some(dependents) = &mut self.generator.dependents {
            dependents.close();
        }
        for slot in self.flows.unlimited(self.links.now()) {
            self.uplinks.stop(&mut self.links, &mut self.flows, slot);
        }
    }
}
