//! Jobs: operations of ranks that start when the operations and messages that they need are
//! complete. Collectives are jobs, too.
//!
//! The progress of a rank depends only on what has arrived at its host, so the partition of that
//! host decides alone: it counts what each operation needs and has got. A rank may be iterations
//! ahead of another one. Arrivals for an iteration that their rank has not begun are kept until
//! then.

use std::collections::BTreeMap;
use std::sync::Arc;

use tidegate_core::collective::{MOST_ITERATIONS, MOST_MESSAGES, NUMBERS};
use tidegate_core::job::{Computation, Dependent, Schedule, Sent};
use tidegate_core::workload::{Flow, Traffic};
use tidegate_core::{Span, Time};

use crate::ids::{FIRST_JOB, ITERATION_BIT, JOB_BIT, Step, step};
use crate::measures::iterations::{IterationTime, Iterations};
use crate::setup::Setup;
use crate::traffic::submission::{Next, Submission, Wake};

/// Message numbers of jobs at their host have this bit, and not the one above it, which marks
/// closed loops. Other messages of a host have neither.
const NUMBER: u32 = NUMBERS as u32;
/// Not a rank of this partition.
const ELSEWHERE: u32 = u32::MAX;

/// Jobs of a run, for the hosts of one partition.
pub(crate) struct Jobs {
    setup: Arc<Setup>,
    all: Vec<Job>,
    /// Number of messages in one iteration of all jobs together.
    numbers: u64,
    /// Operations whose needs are satisfied; empty between calls.
    ready: Vec<u32>,
}

/// A job.
struct Job {
    /// Index of its block of traffic.
    block: usize,
    /// Index among all jobs.
    number: u32,
    /// Number of its first message.
    first: u64,
    /// Local index by rank, or `ELSEWHERE`.
    local: Vec<u32>,
    /// Ranks of this partition.
    ranks: Vec<Rank>,
    /// By local rank and operation: completions and arrivals so far.
    satisfied: Vec<u32>,
    /// By local rank and compute stream: end of its last computation.
    streams: Vec<Time>,
    /// By local rank, iteration and operation: arrivals for iterations that have not begun.
    early: BTreeMap<(u32, u32, u32), u32>,
    times: Iterations,
}

/// Progress of a rank.
struct Rank {
    rank: u32,
    /// Index of its first operation in [`Job::satisfied`].
    offset: usize,
    iteration: u32,
    /// End of the previous iteration.
    since: Time,
    /// The computation between the iterations is over.
    has_begun: bool,
    /// Number of operations that are not complete.
    open: u32,
    /// Time of the iteration in which it computes.
    busy: Span,
    /// It computes until this time.
    busy_until: Time,
}

/// A job with its schedule, during a call.
struct Running<'a> {
    setup: &'a Setup,
    schedule: &'a dyn Schedule,
    job: &'a mut Job,
    /// As in [`Jobs`].
    numbers: u64,
    ready: &'a mut Vec<u32>,
}

impl Jobs {
    /// The jobs of a run. `is_here` returns whether a host belongs to this partition.
    pub(crate) fn new(setup: &Arc<Setup>, is_here: impl Fn(u32) -> bool) -> Jobs {
        let mut jobs =
            Jobs { setup: setup.clone(), all: Vec::new(), numbers: 0, ready: Vec::new() };
        for (block, traffic) in setup.workload.traffic.iter().enumerate() {
            if let Some(of) = traffic.pattern.schedule() {
                let mut job = Job::new(of, traffic.start, &is_here);
                (job.block, job.number, job.first) = (block, jobs.all.len() as u32, jobs.numbers);
                jobs.all.push(job);
                jobs.numbers += of.numbers();
            }
        }
        debug_assert!(jobs.numbers <= MOST_MESSAGES, "{} messages", jobs.numbers);
        jobs
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.all.is_empty()
    }

    /// Begins the first iteration of the ranks in this partition.
    pub(crate) fn first(&mut self, mut out: impl FnMut(Next)) {
        for number in 0..self.all.len() as u32 {
            let Some(mut running) = self.running(number) else { continue };
            let start = running.block().start;
            (0..running.job.ranks.len()).for_each(|local| running.begin(local, start, &mut out));
        }
    }

    /// Continues after the arrival of a message at `now`.
    pub(crate) fn arrived(&mut self, id: u64, now: Time, mut out: impl FnMut(Next)) {
        let Some(Step { job, iteration }) = step(id) else { return };
        let Some(mut running) = self.running(job) else { return };
        let number = (id % MOST_MESSAGES) as u32;
        let Some((rank, operation)) = running.schedule.landing_of(number) else { return };
        if let Some(local) = running.job.index_of(rank) {
            running.land((local, iteration), operation, now, &mut out);
        }
    }

    /// Continues at a time that a rank has waited for.
    pub(crate) fn woken(&mut self, wake: Wake, now: Time, mut out: impl FnMut(Next)) {
        let (Wake::Begin { job, rank }
        | Wake::Started { job, rank, .. }
        | Wake::Computed { job, rank, .. }) = wake;
        let Some(mut running) = self.running(job) else { return };
        let Some(local) = running.job.index_of(rank) else { return };
        match wake {
            Wake::Begin { .. } => return running.begin(local, now, &mut out),
            Wake::Started { operation, .. } => running.started(local, operation),
            Wake::Computed { operation, .. } => running.complete(local, operation, now, &mut out),
        }
        running.proceed(local, now, &mut out);
    }

    /// Times of the iterations that ranks of this partition have ended.
    pub(crate) fn times(&self) -> Vec<IterationTime> {
        self.all.iter().flat_map(|job| job.times.of_job(job.number)).collect()
    }

    fn running(&mut self, job: u32) -> Option<Running<'_>> {
        let job = self.all.get_mut(job as usize)?;
        let schedule = self.setup.workload.traffic[job.block].pattern.schedule()?;
        let (numbers, ready) = (self.numbers, &mut self.ready);
        Some(Running { setup: &self.setup, schedule, job, numbers, ready })
    }
}

impl Job {
    /// A job with the ranks for which `is_here` returns true.
    fn new(of: &dyn Schedule, start: Time, is_here: impl Fn(u32) -> bool) -> Job {
        let (mut ranks, mut offset) = (Vec::new(), 0);
        let local = (0..).zip(of.hosts()).map(|(rank, &host)| {
            if !is_here(host) {
                return ELSEWHERE;
            }
            ranks.push(Rank {
                rank,
                offset,
                iteration: 0,
                since: start,
                has_begun: false,
                open: of.operations(rank),
                busy: Span::ZERO,
                busy_until: start,
            });
            offset += of.operations(rank) as usize;
            ranks.len() as u32 - 1
        });
        let local = local.collect();
        Job {
            block: 0,
            number: 0,
            first: 0,
            local,
            satisfied: vec![0; offset],
            streams: vec![start; ranks.len() * of.streams() as usize],
            ranks,
            early: BTreeMap::new(),
            times: Iterations::new(of.computes()),
        }
    }

    /// Local index of `rank`, if it belongs to this partition.
    fn index_of(&self, rank: u32) -> Option<usize> {
        let local = self.local[rank as usize];
        (local != ELSEWHERE).then_some(local as usize)
    }
}

impl Running<'_> {
    fn block(&self) -> &Traffic {
        &self.setup.workload.traffic[self.job.block]
    }

    /// Begins the iteration of a local rank, whose computation is over.
    fn begin(&mut self, local: usize, now: Time, out: &mut impl FnMut(Next)) {
        self.prepare(local);
        self.proceed(local, now, out);
    }

    /// Takes in the early arrivals of the iteration that a local rank begins, and finds the
    /// operations that are ready.
    fn prepare(&mut self, local: usize) {
        let Rank { rank, offset, iteration, .. } = self.job.ranks[local];
        self.job.ranks[local].has_begun = true;
        let key = |operation| (local as u32, iteration, operation);
        let range = key(0)..=key(u32::MAX);
        while let Some((&at, &count)) = self.job.early.range(range.clone()).next() {
            self.job.early.remove(&at);
            self.job.satisfied[offset + at.2 as usize] = count;
        }
        for operation in 0..self.schedule.operations(rank) {
            if self.job.satisfied[offset + operation as usize]
                == self.schedule.needs(rank, operation)
            {
                self.ready.push(operation);
            }
        }
    }

    /// Counts a message that has arrived for an operation of a local rank.
    fn land(
        &mut self,
        (local, iteration): (usize, u32),
        operation: u32,
        now: Time,
        out: &mut impl FnMut(Next),
    ) {
        let rank = &self.job.ranks[local];
        if rank.iteration == iteration && rank.has_begun {
            self.satisfy(local, operation);
            self.proceed(local, now, out);
        } else {
            *self.job.early.entry((local as u32, iteration, operation)).or_insert(0) += 1;
        }
    }

    /// Counts one of the needs of an operation as satisfied.
    fn satisfy(&mut self, local: usize, operation: u32) {
        let Rank { rank, offset, .. } = self.job.ranks[local];
        let satisfied = &mut self.job.satisfied[offset + operation as usize];
        *satisfied += 1;
        if *satisfied == self.schedule.needs(rank, operation) {
            self.ready.push(operation);
        }
    }

    /// Runs the operations that are ready, and goes on with the next iteration if all operations
    /// are complete.
    fn proceed(&mut self, local: usize, now: Time, out: &mut impl FnMut(Next)) {
        loop {
            let mut next = 0;
            while let Some(&operation) = self.ready.get(next) {
                next += 1;
                self.run(local, operation, now, out);
            }
            self.ready.clear();
            if self.job.ranks[local].open > 0 || !self.end(local, now, out) {
                return;
            }
            self.prepare(local);
        }
    }

    /// Runs an operation whose needs are satisfied.
    fn run(&mut self, local: usize, operation: u32, now: Time, out: &mut impl FnMut(Next)) {
        let Rank { rank, offset, .. } = self.job.ranks[local];
        self.job.satisfied[offset + operation as usize] = 0;
        let computation = self.schedule.computation(rank, operation);
        let Some(Computation { span, stream }) = computation else {
            self.started(local, operation);
            return self.complete(local, operation, now, out);
        };
        let free = local * self.schedule.streams() as usize + stream as usize;
        let start = self.job.streams[free].max(now);
        let done = start.after(span);
        self.job.streams[free] = done;
        // A stream has no gap between `now` and `done`.
        let state = &mut self.job.ranks[local];
        state.busy += done.since(state.busy_until.max(now));
        state.busy_until = state.busy_until.max(done);
        let job = self.job.number;
        if start == now {
            self.started(local, operation);
        } else {
            out(Next::Wake(start, Wake::Started { job, rank, operation }));
        }
        if done == now {
            self.complete(local, operation, now, out);
        } else {
            out(Next::Wake(done, Wake::Computed { job, rank, operation }));
        }
    }

    /// An operation has started.
    fn started(&mut self, local: usize, operation: u32) {
        self.satisfy_dependents(local, operation, true);
    }

    /// An operation has computed: it sends its messages and is complete.
    fn complete(&mut self, local: usize, operation: u32, now: Time, out: &mut impl FnMut(Next)) {
        let Rank { rank, .. } = self.job.ranks[local];
        self.schedule.messages(rank, operation, &mut |sent| {
            if let Some(submission) = self.submission(local, sent, now) {
                out(Next::Submit(submission));
            }
        });
        self.job.ranks[local].open -= 1;
        self.satisfy_dependents(local, operation, false);
    }

    fn satisfy_dependents(&mut self, local: usize, operation: u32, starts: bool) {
        let (rank, schedule) = (self.job.ranks[local].rank, self.schedule);
        schedule.dependents(rank, operation, &mut |Dependent { operation, on_start }| {
            if on_start == starts {
                self.satisfy(local, operation);
            }
        });
    }

    /// Ends the iteration of a local rank. Returns whether the next one begins at once.
    fn end(&mut self, local: usize, now: Time, out: &mut impl FnMut(Next)) -> bool {
        let state = &mut self.job.ranks[local];
        let Rank { rank, iteration, since, busy, .. } = *state;
        self.job.times.add(iteration, since, now, busy);
        if iteration + 1 == self.schedule.iterations() {
            if self.schedule.ends_late() {
                out(Next::Ended);
            }
            return false;
        }
        let busy = self.schedule.computing_time(rank);
        let open = self.schedule.operations(rank);
        (state.iteration, state.since, state.busy, state.open) = (iteration + 1, now, busy, open);
        state.has_begun = false;
        if busy > Span::ZERO {
            out(Next::Wake(now.after(busy), Wake::Begin { job: self.job.number, rank }));
        }
        busy == Span::ZERO
    }

    /// The message of a local rank that starts at `at`; `None` if the block has stopped.
    fn submission(&self, local: usize, sent: Sent, at: Time) -> Option<Submission> {
        let (block, hosts) = (self.block(), self.schedule.hosts());
        if at >= block.stop {
            return None;
        }
        let Rank { rank, iteration, .. } = self.job.ranks[local];
        let (iteration, number) = (u64::from(iteration), u64::from(sent.number));
        debug_assert!(iteration < MOST_ITERATIONS);
        let job = u64::from(self.job.number);
        let id = FIRST_JOB | job << JOB_BIT | iteration << ITERATION_BIT | number;
        // Before a number recurs, the message that had it is long forgotten.
        let rounds = NUMBERS / self.numbers;
        let number = iteration % rounds * self.numbers + self.job.first + number;
        let flow = Flow {
            src: hosts[rank as usize],
            dst: hosts[sent.to as usize],
            bytes: sent.bytes,
            start: at,
            stop: Time::NEVER,
            stack: block.stack,
            label: block.label,
            dedicated: false,
        };
        Some(Submission { flow, id, number: NUMBER | number as u32, listed: true })
    }
}
