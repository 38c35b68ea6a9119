//! Jobs: collective operations, whose messages start when the messages that they depend on have
//! arrived.
//!
//! The messages that a rank may send depend only on what has arrived at its host, so the partition
//! of that host decides alone: it counts arrivals by rank, chunk and round. A rank is at most one
//! iteration ahead of any other, because no iteration ends before data of all ranks has arrived,
//! directly or through other ranks. So counts of two iterations suffice.

use std::sync::Arc;

use tidegate_core::Time;
use tidegate_core::collective::{Collective, MOST_MESSAGES, Place};
use tidegate_core::workload::{Flow, Pattern, Traffic};

use crate::ids::{FIRST_JOB, ITERATION_BIT, JOB_BIT, Step, step};
use crate::setup::Setup;
use crate::traffic::submission::Submission;

/// Message numbers of jobs at their host have this bit, and not the one above it, which marks
/// closed loops. Other messages of a host have neither.
const NUMBER: u32 = 1 << 30;
/// Not a rank of this partition.
const ELSEWHERE: u32 = u32::MAX;

/// Jobs of a run, for the hosts of one partition.
pub(crate) struct Jobs {
    setup: Arc<Setup>,
    all: Vec<Job>,
    /// Number of messages in one iteration of all jobs together.
    numbers: u64,
}

/// A job.
struct Job {
    /// Index of its block of traffic.
    block: usize,
    /// Index among all jobs.
    number: u64,
    /// Number of its first message.
    first: u64,
    /// Local index by rank, or `ELSEWHERE`.
    local: Vec<u32>,
    /// Ranks of this partition.
    ranks: Vec<Rank>,
    /// By rank and chunk: number of rounds passed.
    passed: Vec<u32>,
    /// Messages that have arrived, by parity of the iteration, then by rank, chunk and round.
    arrived: [Vec<u16>; 2],
}

/// Progress of a rank.
#[derive(Clone, Copy)]
struct Rank {
    iteration: u32,
    /// Start of the iteration, after computing.
    begins: Time,
    /// Number of chunks with rounds left.
    open: u32,
}

/// Inputs of a job.
#[derive(Clone, Copy)]
struct Plan<'a> {
    block: &'a Traffic,
    of: &'a Collective,
    /// As in [`Jobs`].
    numbers: u64,
}

impl Jobs {
    /// The jobs of a run. `is_here` returns whether a host belongs to this partition.
    pub(crate) fn new(setup: &Arc<Setup>, is_here: impl Fn(u32) -> bool) -> Jobs {
        let mut jobs = Jobs { setup: setup.clone(), all: Vec::new(), numbers: 0 };
        for (block, traffic) in setup.workload.traffic.iter().enumerate() {
            if let Pattern::Collective(of) = &traffic.pattern {
                let mut job = Job::new(of, traffic.start, &is_here);
                (job.block, job.number, job.first) = (block, jobs.all.len() as u64, jobs.numbers);
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

    /// Starts the first messages of the ranks in this partition.
    pub(crate) fn first(&mut self, mut begin: impl FnMut(Submission)) {
        for job in &mut self.all {
            let plan = job.plan(&self.setup, self.numbers);
            for rank in 0..plan.of.ranks() {
                if let Some(local) = job.index_of(rank) {
                    job.proceed(plan, (rank, local), None, plan.block.start, &mut begin);
                }
            }
        }
    }

    /// Starts the messages that follow the arrival of a message at `now`.
    pub(crate) fn arrived(&mut self, id: u64, now: Time, mut begin: impl FnMut(Submission)) {
        let Some(Step { job, iteration }) = step(id) else { return };
        let Some(job) = self.all.get_mut(job as usize) else { return };
        let plan = job.plan(&self.setup, self.numbers);
        let place = plan.of.place((id % MOST_MESSAGES) as u32);
        let Some((rank, round)) = plan.of.landing(place) else { return };
        let Some(local) = job.index_of(rank) else { return };
        *job.count(plan.of, iteration, (local, place.chunk), round) += 1;
        if job.ranks[local].iteration == iteration {
            job.proceed(plan, (rank, local), Some(place.chunk), now, &mut begin);
        }
    }
}

impl Job {
    /// A job with the ranks for which `is_here` returns true.
    fn new(of: &Collective, start: Time, is_here: impl Fn(u32) -> bool) -> Job {
        let mut ranks = Vec::new();
        let local = of.hosts.iter().map(|&host| {
            if !is_here(host) {
                return ELSEWHERE;
            }
            ranks.push(Rank { iteration: 0, begins: start, open: of.chunks });
            ranks.len() as u32 - 1
        });
        let local = local.collect();
        let passed = vec![0; ranks.len() * of.chunks as usize];
        let counts = vec![0; passed.len() * of.rounds() as usize];
        let arrived = [counts.clone(), counts];
        Job { block: 0, number: 0, first: 0, local, ranks, passed, arrived }
    }

    fn plan<'a>(&self, setup: &'a Setup, numbers: u64) -> Plan<'a> {
        let block = &setup.workload.traffic[self.block];
        let Pattern::Collective(of) = &block.pattern else { unreachable!("jobs are collectives") };
        Plan { block, of, numbers }
    }

    /// Local index of `rank`, if it belongs to this partition.
    fn index_of(&self, rank: u32) -> Option<usize> {
        let local = self.local[rank as usize];
        (local != ELSEWHERE).then_some(local as usize)
    }

    /// Number of messages of a chunk that have arrived for a local rank and `round`.
    fn count(
        &mut self,
        of: &Collective,
        iteration: u32,
        (local, chunk): (usize, u32),
        round: u32,
    ) -> &mut u16 {
        let lane = local * of.chunks as usize + chunk as usize;
        let at = lane * of.rounds() as usize + round as usize;
        &mut self.arrived[iteration as usize % 2][at]
    }

    /// Advances a rank in one chunk, or in all, as far as the arrivals until `now` allow.
    fn proceed(
        &mut self,
        plan: Plan<'_>,
        (rank, local): (u32, usize),
        chunk: Option<u32>,
        now: Time,
        begin: &mut impl FnMut(Submission),
    ) {
        let all = plan.of.chunks;
        let mut chunks = chunk.map_or(0..all, |chunk| chunk..chunk + 1);
        loop {
            for chunk in chunks {
                self.pass(plan, (rank, local), chunk, now, begin);
            }
            let state = &mut self.ranks[local];
            if state.open > 0 || state.iteration + 1 == plan.of.iterations {
                return;
            }
            // The rank has received everything. Messages of the next iteration may have arrived,
            // too.
            state.iteration += 1;
            state.begins = state.begins.max(now).after(plan.of.compute);
            state.open = all;
            chunks = 0..all;
            self.passed[local * all as usize..][..all as usize].fill(0);
        }
    }

    /// Passes the rounds of a chunk for which all messages have arrived.
    fn pass(
        &mut self,
        plan: Plan<'_>,
        (rank, local): (u32, usize),
        chunk: u32,
        now: Time,
        begin: &mut impl FnMut(Submission),
    ) {
        let of = plan.of;
        let lane = local * of.chunks as usize + chunk as usize;
        let Rank { iteration, begins, .. } = self.ranks[local];
        while self.passed[lane] < of.rounds() {
            let round = self.passed[lane];
            let arrived = self.count(of, iteration, (local, chunk), round);
            if u32::from(*arrived) < of.waits(rank, round) {
                return;
            }
            *arrived = 0;
            self.passed[lane] += 1;
            for nth in 0..of.fan_out() {
                let place = Place { rank, round, nth, chunk };
                self.submission(plan, iteration, place, begins.max(now))
                    .into_iter()
                    .for_each(&mut *begin);
            }
        }
        self.ranks[local].open -= 1;
    }

    /// The message at `place` that starts at `at`; `None` if there is none or the block has
    /// stopped.
    fn submission(
        &self,
        Plan { block, of, numbers }: Plan<'_>,
        iteration: u32,
        place: Place,
        at: Time,
    ) -> Option<Submission> {
        let (to, bytes) = of.message(place).filter(|_| at < block.stop)?;
        let [src, dst] = [place.rank, to].map(|rank| of.hosts[rank as usize]);
        let (iteration, number) = (u64::from(iteration), u64::from(of.number(place)));
        let id = FIRST_JOB | self.number << JOB_BIT | iteration << ITERATION_BIT | number;
        // Before a number recurs, the message that had it is long forgotten.
        let rounds = u64::from(NUMBER) / numbers;
        let number = iteration % rounds * numbers + self.first + number;
        let flow = Flow {
            src,
            dst,
            bytes,
            start: at,
            stop: Time::NEVER,
            stack: block.stack,
            label: block.label,
            dedicated: false,
        };
        Some(Submission { flow, id, number: NUMBER | number as u32, listed: true })
    }
}
