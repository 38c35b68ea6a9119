//! Hands flows to the partitions that their hosts are in, ahead of their time.

use tidegate_core::Time;

use crate::flows::Submission;
use crate::generate::Generator;
use crate::setup::Setup;

/// At least so many flows are handed out at a time.
const BATCH: u32 = 64;

/// Flows to come.
pub(crate) struct Feed {
    generator: Generator,
    /// By host: messages so far.
    numbers: Vec<u32>,
    submitted: u64,
    /// All flows that begin until then have been handed out.
    known: Time,
    /// By host: its partition.
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

    /// All flows that begin until then have been handed out.
    pub(crate) fn known(&self) -> Time {
        self.known
    }

    /// Hands out all flows that begin until `until`, and a few more, to the partitions of both
    /// hosts; all that begin at one time together. When the first of them begins.
    pub(crate) fn hand_out(&mut self, until: Time, mut to: impl FnMut(u32, Submission)) -> Time {
        let (first, mut last, mut left) = (self.generator.next_at(), Time::ZERO, BATCH);
        loop {
            let next = self.generator.next_at();
            let wanted = next <= until.max(last) || left > 0;
            let taken = wanted.then(|| self.generator.take_one(next)).flatten();
            let Some((flow, listed)) = taken else {
                // The end of time is known where nothing is left.
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

    /// No more flows begin.
    pub(crate) fn close(&mut self) {
        self.generator.close();
        self.known = Time::NEVER;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tidegate_core::workload::{Flow, Workload};

    /// Flows that begin in pairs, one pair a microsecond.
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
    fn what_is_known_has_been_handed_out_and_nothing_else_begins_by_then() {
        let (mut feed, mut begun) = (feed(500), Vec::new());
        for until in [0, 3, 4, 100, 101] {
            let before = begun.len() as u64;
            let first = feed.hand_out(Time::us(until), |_, flow| begun.push(flow.flow.start));
            assert_eq!(first, Time::us(before / 2));
            // Both of a pair, so the next begins a microsecond later, and not before.
            let next = begun.len() as u64 / 2;
            assert_eq!(begun.len() % 2, 0);
            assert!(feed.known() >= Time::us(until));
            assert_eq!(feed.known(), Time::ps(Time::us(next).as_ps() - 1));
        }
        feed.hand_out(Time::us(600), |_, flow| begun.push(flow.flow.start));
        assert_eq!((feed.known(), begun.len()), (Time::NEVER, 1_000));
    }
}
