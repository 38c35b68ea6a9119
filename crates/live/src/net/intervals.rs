//! Measurements of each second of a run.

use std::time::Duration;

use tidegate_core::{Span, Time};

use super::report::{Interval, Times, gbps};

/// Length of an interval; the last may be shorter.
const LENGTH: Span = Span::s(1);

/// Intervals in progress.
pub(super) struct Intervals {
    begun: Time,
    since: Time,
    delivered: u64,
    received: u64,
    times: Times,
    over: Vec<Interval>,
}

impl Intervals {
    /// Starts measuring at that time.
    pub(super) fn new(begun: Time) -> Intervals {
        let (times, over) = (Times::new(), Vec::new());
        Intervals { begun, since: begun, delivered: 0, received: 0, times, over }
    }

    /// Records a message that the peer received completely.
    pub(super) fn delivered(&mut self, bytes: u64) {
        self.delivered += bytes;
    }

    /// Records a reply.
    pub(super) fn received(&mut self, bytes: u64) {
        self.received += bytes;
    }

    /// Records the completion time of a request or message.
    pub(super) fn completed(&mut self, time: Duration) {
        self.times.add(time);
    }

    /// The interval that ended before `now`, if any.
    pub(super) fn next(&mut self, now: Time) -> Option<&Interval> {
        if now.since(self.since) < LENGTH {
            return None;
        }
        self.end(now);
        self.over.last()
    }

    /// All intervals at the end of measurement.
    pub(super) fn all(&mut self, now: Time) -> Vec<Interval> {
        if now > self.since {
            self.end(now);
        }
        std::mem::take(&mut self.over)
    }

    fn end(&mut self, now: Time) {
        let seconds = now.since(self.since).as_s_f64();
        let times = self.times.summary();
        self.over.push(Interval {
            start_seconds: self.since.since(self.begun).as_s_f64(),
            seconds,
            goodput_gbps: gbps(self.delivered, seconds),
            received_gbps: gbps(self.received, seconds),
            done: self.times.done(),
            p50_us: times.p50_us,
            p99_us: times.p99_us,
            p999_us: times.p999_us,
        });
        self.times.clear();
        (self.since, self.delivered, self.received) = (now, 0, 0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_second_is_measured_separately() {
        let mut intervals = Intervals::new(Time::s(10));
        intervals.delivered(125_000_000);
        intervals.completed(Duration::from_micros(50));
        assert!(intervals.next(Time::ms(10_999)).is_none());
        let first = intervals.next(Time::ms(11_000)).unwrap();
        assert_eq!((first.start_seconds, first.seconds), (0.0, 1.0));
        assert_eq!((first.goodput_gbps, first.done), (1.0, 1));
        let p50 = first.p50_us.unwrap();
        assert!((p50 - 50.0).abs() < 0.1, "{p50}");
        assert!(first.shown().starts_with("1 s: 1.00 Gbps, 1 done, p50 50.0 us"));

        intervals.received(125_000_000);
        let all = intervals.all(Time::ms(11_500));
        assert_eq!(all.len(), 2);
        let second = &all[1];
        assert_eq!((second.start_seconds, second.seconds), (1.0, 0.5));
        assert_eq!((second.goodput_gbps, second.received_gbps, second.done), (0.0, 2.0, 0));
        assert_eq!(second.p999_us, None);
        assert_eq!(Intervals::new(Time::s(1)).all(Time::s(1)), []);
    }
}
