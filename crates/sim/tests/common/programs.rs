//! Programs of jobs.

use std::sync::Arc;

use tidegate_core::Span;
use tidegate_core::job::{Computation, Job, Operation, Program, Schedule};

/// An operation of a program.
#[derive(Clone, Default)]
pub struct Step {
    pub computation: Option<Computation>,
    /// Operations of its rank that it waits for.
    pub after: Vec<usize>,
    /// Operations of its rank whose start it waits for.
    pub after_start: Vec<usize>,
    /// Rank and operation that receives its message, and bytes.
    pub sends: Option<(usize, usize, u64)>,
}

/// An operation that computes.
pub fn computes(us: u64, stream: u32) -> Step {
    Step { computation: Some(Computation { span: Span::us(us), stream }), ..Step::default() }
}

/// A job with these operations by rank, on hosts of the same numbers.
pub fn job(ranks: &[Vec<Step>], iterations: u32) -> Job {
    let mut first = vec![0];
    ranks.iter().for_each(|steps| first.push(first[first.len() - 1] + steps.len() as u32));
    let index = |rank: usize, operation: usize| first[rank] + operation as u32;
    let mut needs = vec![0; first[ranks.len()] as usize];
    let (mut operations, mut dependents, mut streams) = (Vec::new(), Vec::new(), 0);
    for (rank, steps) in ranks.iter().enumerate() {
        for (at, step) in steps.iter().enumerate() {
            needs[index(rank, at) as usize] += (step.after.len() + step.after_start.len()) as u32;
            let (landing, bytes) = step.sends.map_or((u32::MAX, 0), |(to, operation, bytes)| {
                needs[index(to, operation) as usize] += 1;
                (index(to, operation), bytes)
            });
            let Computation { span, stream } = step
                .computation
                .unwrap_or(Computation { span: Span::ZERO, stream: Operation::NO_STREAM });
            streams = streams.max(stream.wrapping_add(1));
            let from = dependents.len() as u32;
            operations.push(Operation { needs: 0, dependents: from, landing, stream, span, bytes });
            for (other, later) in steps.iter().enumerate() {
                let waits =
                    |list: &[usize], flag| list.contains(&at).then(|| index(rank, other) | flag);
                dependents.extend(waits(&later.after, 0));
                dependents.extend(waits(&later.after_start, Program::ON_START));
            }
        }
    }
    operations.iter_mut().zip(needs).for_each(|(operation, needs)| operation.needs = needs);
    let hash = String::new();
    let program = Program { first, operations, dependents, streams, hash };
    Job { program: Arc::new(program), hosts: (0..ranks.len() as u32).collect(), iterations }
}

/// A job with the operations of another schedule, each of which computes for `span`. Each
/// operation sends at most one message.
pub fn copied(of: &dyn Schedule, span: Span) -> Job {
    let ranks: Vec<Vec<Step>> = (0..of.hosts().len() as u32)
        .map(|rank| {
            let mut steps = vec![Step::default(); of.operations(rank) as usize];
            for at in 0..of.operations(rank) {
                if span > Span::ZERO {
                    let stream = at % 2;
                    steps[at as usize].computation = Some(Computation { span, stream });
                }
                of.messages(rank, at, &mut |sent| {
                    let (to, landing) = of.landing_of(sent.number).unwrap();
                    let sends = (to as usize, landing as usize, sent.bytes);
                    assert!(steps[at as usize].sends.replace(sends).is_none());
                });
                of.dependents(rank, at, &mut |dependent| {
                    steps[dependent.operation as usize].after.push(at as usize);
                });
            }
            steps
        })
        .collect();
    Job { hosts: of.hosts().to_vec(), ..job(&ranks, of.iterations()) }
}
