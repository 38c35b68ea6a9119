//! Jobs: collective operations whose messages begin when those they wait for have arrived.
//!
//! What a rank may send depends on what has arrived at its host, and on nothing else, so that the
//! part of that host decides alone: it counts what arrives, by rank, chunk and round. A rank is at
//! most one iteration ahead of any other, because none ends without word of all ranks, however many
//! hands that went through; counts of two iterations are enough.

use std::sync::Arc;

use tidegate_core::Time;
use tidegate_core::collective::{Collective, MOST_ITERATIONS, MOST_JOBS, MOST_MESSAGES, Place};
use tidegate_core::workload::{Flow, Pattern, Traffic};

use crate::flows::Submission;
use crate::outcome::Step;
use crate::setup::Setup;

/// Ids of the messages of jobs have this bit; below it are the job, the iteration and the message,
/// so that an id says by itself what it is part of.
const FIRST_ID: u64 = MOST_JOBS << JOB_BIT;
const JOB_BIT: u32 = ITERATION_BIT + MOST_ITERATIONS.ilog2();
const ITERATION_BIT: u32 = MOST_MESSAGES.ilog2();
/// Numbers that hosts give to messages of jobs have this bit, and not the one above it: those of
/// closed loops have that, and other messages of a host neither.
const NUMBER: u32 = 1 << 30;
/// Not a rank of this partition.
const ELSEWHERE: u32 = u32::MAX;

/// The step that the message with this id is part of.
pub(crate) fn step(id: u64) -> Option<Step> {
    let place = id.checked_sub(FIRST_ID)?;
    let iteration = (place >> ITERATION_BIT) % MOST_ITERATIONS;
    Some(Step { job: (place >> JOB_BIT) as u32, iteration: iteration as u32 })
}

/// The jobs of a run, as the hosts of a partition know them.
pub(crate) struct Jobs {
    setup: Arc<Setup>,
    all: Vec<Job>,
    /// Messages of an iteration of all jobs together are numbered below this.
    numbers: u64,
}

/// A job.
struct Job {
    /// Its block of traffic.
    block: usize,
    /// Which of all jobs.
    number: u64,
    /// Its messages are numbered from here on.
    first: u64,
    /// By rank: where it is among those that are here.
    here: Vec<u32>,
    /// Of those.
    ranks: Vec<Rank>,
    /// By rank and chunk: rounds that are behind it.
    passed: Vec<u32>,
    /// By half, iterations taking turns, and by rank, chunk and round: messages that have arrived.
    arrived: [Vec<u16>; 2],
}

/// Where a rank is.
#[derive(Clone, Copy)]
struct Rank {
    iteration: u32,
    /// When it began that, or does after computing.
    begins: Time,
    /// Chunks that have rounds to go.
    open: u32,
}

/// What a job is made from.
#[derive(Clone, Copy)]
struct Plan<'a> {
    block: &'a Traffic,
    of: &'a Collective,
    /// As in [`Jobs`].
    numbers: u64,
}

impl Jobs {
    /// The jobs of a run; `is_here` says which hosts are of this partition.
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

    /// What the ranks here begin with.
    pub(crate) fn first(&mut self, mut begin: impl FnMut(Submission)) {
        for job in &mut self.all {
            let plan = job.plan(&self.setup, self.numbers);
            for rank in 0..plan.of.ranks() {
                if let Some(here) = job.here(rank) {
                    job.go_on(plan, (rank, here), None, plan.block.start, &mut begin);
                }
            }
        }
    }

    /// What the arrival of a message at `now` leads to.
    pub(crate) fn arrived(&mut self, id: u64, now: Time, mut begin: impl FnMut(Submission)) {
        let Some(Step { job, iteration }) = step(id) else { return };
        let Some(job) = self.all.get_mut(job as usize) else { return };
        let plan = job.plan(&self.setup, self.numbers);
        let place = plan.of.place((id % MOST_MESSAGES) as u32);
        let Some((rank, round)) = plan.of.landing(place) else { return };
        let Some(here) = job.here(rank) else { return };
        *job.count(plan.of, iteration, (here, place.chunk), round) += 1;
        if job.ranks[here].iteration == iteration {
            job.go_on(plan, (rank, here), Some(place.chunk), now, &mut begin);
        }
    }
}

impl Job {
    /// With the ranks for which `is_here`.
    fn new(of: &Collective, start: Time, is_here: impl Fn(u32) -> bool) -> Job {
        let mut ranks = Vec::new();
        let here = of.hosts.iter().map(|&host| {
            if !is_here(host) {
                return ELSEWHERE;
            }
            ranks.push(Rank { iteration: 0, begins: start, open: of.chunks });
            ranks.len() as u32 - 1
        });
        let here = here.collect();
        let passed = vec![0; ranks.len() * of.chunks as usize];
        let counts = vec![0; passed.len() * of.rounds() as usize];
        let arrived = [counts.clone(), counts];
        Job { block: 0, number: 0, first: 0, here, ranks, passed, arrived }
    }

    fn plan<'a>(&self, setup: &'a Setup, numbers: u64) -> Plan<'a> {
        let block = &setup.workload.traffic[self.block];
        let Pattern::Collective(of) = &block.pattern else { unreachable!("jobs are collectives") };
        Plan { block, of, numbers }
    }

    /// Where `rank` is among those that are here, if it is.
    fn here(&self, rank: u32) -> Option<usize> {
        let here = self.here[rank as usize];
        (here != ELSEWHERE).then_some(here as usize)
    }

    /// How many messages of a chunk have arrived of those that a rank here waits for in `round`.
    fn count(
        &mut self,
        of: &Collective,
        iteration: u32,
        (here, chunk): (usize, u32),
        round: u32,
    ) -> &mut u16 {
        let lane = here * of.chunks as usize + chunk as usize;
        let at = lane * of.rounds() as usize + round as usize;
        &mut self.arrived[iteration as usize % 2][at]
    }

    /// Lets a rank go on with a chunk, or with all, as far as what has arrived by `now` allows.
    fn go_on(
        &mut self,
        plan: Plan<'_>,
        (rank, here): (u32, usize),
        chunk: Option<u32>,
        now: Time,
        begin: &mut impl FnMut(Submission),
    ) {
        let all = plan.of.chunks;
        let mut chunks = chunk.map_or(0..all, |chunk| chunk..chunk + 1);
        loop {
            for chunk in chunks {
                self.pass(plan, (rank, here), chunk, now, begin);
            }
            let state = &mut self.ranks[here];
            if state.open > 0 || state.iteration + 1 == plan.of.iterations {
                return;
            }
            // All it waited for is there; what others have sent of the next may be there, too.
            state.iteration += 1;
            state.begins = state.begins.max(now).after(plan.of.compute);
            state.open = all;
            chunks = 0..all;
            self.passed[here * all as usize..][..all as usize].fill(0);
        }
    }

    /// Lets a chunk go through the rounds that wait for nothing more.
    fn pass(
        &mut self,
        plan: Plan<'_>,
        (rank, here): (u32, usize),
        chunk: u32,
        now: Time,
        begin: &mut impl FnMut(Submission),
    ) {
        let of = plan.of;
        let lane = here * of.chunks as usize + chunk as usize;
        let Rank { iteration, begins, .. } = self.ranks[here];
        while self.passed[lane] < of.rounds() {
            let round = self.passed[lane];
            let arrived = self.count(of, iteration, (here, chunk), round);
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
        self.ranks[here].open -= 1;
    }

    /// The message at `place` that begins at `at`, if there is one and it is not too late.
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
        let id = FIRST_ID | self.number << JOB_BIT | iteration << ITERATION_BIT | number;
        // Long before a number comes again, the message that had it is forgotten.
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
