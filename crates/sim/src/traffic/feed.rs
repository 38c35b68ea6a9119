//! The feed: distributes flows to the partitions of their hosts ahead of their start.

use tidegate_core::Time;

use crate::setup::Setup;
use crate::traffic::generate::Generator;
use crate::traffic::submission::Submission;

/// Minimum number of flows that are distributed at a time.
const BATCH: u32 = 64;

/// Flows that have not been distributed.
pub(crate) struct Feed {
    generator: Generator,
    /// By host: number of its messages so far.
    numbers: Vec<u32>,
    submitted: u64,
    /// All flows that start up to this time have been distributed.
    known: Time,
    /// Partition by host.
    partition_of: Vec<u32>,
}

impl Feed {
    pub(crate) fn new(setup: &Setup, partition_of: Vec<u32>) -> Feed {
        let hosts = setup.fabric.hosts.len();
        Feed {
            generator: Generator::new(&setup.workload, hosts as u32, setup.seed),
            numbers: vec![0; hosts],
            submitted: 0,
            known: Time::ZERO,
            partition_of,
        }
    }

    /// Returns the time up to which all flows have been distributed.
    pub(crate) fn known(&self) -> Time {
        self.known
    }

    /// Distributes all flows that start up to `until`, and a few more, to the partitions of both
    /// hosts. Flows that start at the same time are distributed together. Returns the start of the
    /// first one.
    pub(crate) fn distribute(&mut self, until: Time, mut to: impl FnMut(u32, Submission)) -> Time {
        let (first, mut last, mut left) = (self.generator.next_at(), Time::ZERO, BATCH);
        loop {
            let next = self.generator.next_at();
            let is_due = next <= until.max(last) || left > 0;
            let taken = is_due.then(|| self.generator.take_one(next)).flatten();
            let Some((flow, listed)) = taken else {
                // If no flow is left, everything is known.
                let before = if next == Time::NEVER { u64::MAX } else { next.as_ps() - 1 };
                self.known = Time::ps(before);
                return first;
            };
            (last, left) = (next, left.saturating_sub(1));
            let number = &mut self.numbers[flow.src as usize];
            let submission = Submission { flow, id: self.submitted, number: *number, listed };
            *number = number.wrapping_add(1);
            self.submitted += 1;
            let [src, dst] = [flow.src, flow.dst].map(|host| self.partition_of[host as usize]);
            to(src, submission);
            if dst != src {
                to(dst, submission);
            }
        }
    }

    /// Ends submissions.
    pub(crate) fn close(&mut self) {
        self.generator.close();
        self.known = Time::NEVER;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tidegate_core::workload::{Flow, Workload};

    /// Flows that start in pairs, one pair per microsecond.
    fn feed(pairs: u64) -> Feed {
        let flow = |number: u64| Flow {
            src: (number % 2) as u32,
            dst: 2,
            bytes: 1,
            start: Time::us(number / 2),
            stop: Time::NEVER,
            stack: 0,
            label: 0,
            dedicated: false,
        };
        let flows = (0..2 * pairs).map(flow).collect();
        let generator = Generator::new(&Workload { flows, traffic: Vec::new() }, 3, 1);
        Feed {
            generator,
            numbers: vec![0; 3],
            submitted: 0,
            known: Time::ZERO,
            partition_of: vec![0; 3],
        }
    }

    #[test]
    fn known_time_covers_all_distributed_flows() {
        let (mut feed, mut started) = (feed(500), Vec::new());
        for until in [0, 3, 4, 100, 101] {
            let before = started.len() as u64;
            let first = feed.distribute(Time::us(until), |_, flow| started.push(flow.flow.start));
            assert_eq!(first, Time::us(before / 2));
            // Both flows of a pair have been distributed, so the next one starts a microsecond
            // later.
            let next = started.len() as u64 / 2;
            assert_eq!(started.len() % 2, 0);
            assert!(feed.known() >= Time::us(until));
            assert_eq!(feed.known(), Time::ps(Time::us(next).as_ps() - 1));
        }
        feed.distribute(Time::us(600), |_, flow| started.push(flow.flow.start));
        assert_eq!((feed.known(), started.len()), (Time::NEVER, 1_000));
    }
}
