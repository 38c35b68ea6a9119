//! What each second of a run was like.

use std::time::Duration;

use serde::Serialize;
use tidegate_core::{Span, Time};

use super::report::{Times, gbps, rate_shown, time_shown};

/// As long as an interval is, but the last.
const LENGTH: Span = Span::s(1);

/// A second of what was measured. The last is as long as what was left.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Interval {
    /// When it began, since measuring did.
    pub start_seconds: f64,
    /// How long it was.
    pub seconds: f64,
    /// Payload of messages that the other side has since then, over that time.
    pub goodput_gbps: f64,
    /// Payload of replies that arrived here in it, over that time.
    pub received_gbps: f64,
    /// Requests that were answered in it; where none are sent, messages that were delivered.
    pub done: u64,
    /// Median of what those took.
    pub p50_us: Option<f64>,
    /// 99th percentile.
    pub p99_us: Option<f64>,
    /// 99.9th percentile.
    pub p999_us: Option<f64>,
}

/// Seconds as they pass.
pub(super) struct Intervals {
    begun: Time,
    since: Time,
    delivered: u64,
    received: u64,
    times: Times,
    over: Vec<Interval>,
}

impl Intervals {
    /// From that time on.
    pub(super) fn new(begun: Time) -> Intervals {
        let (times, over) = (Times::new(), Vec::new());
        Intervals { begun, since: begun, delivered: 0, received: 0, times, over }
    }

    /// The other side has all of a message.
    pub(super) fn delivered(&mut self, bytes: u64) {
        self.delivered += bytes;
    }

    /// A reply has come.
    pub(super) fn received(&mut self, bytes: u64) {
        self.received += bytes;
    }

    /// What is asked for is done.
    pub(super) fn took(&mut self, time: Duration) {
        self.times.add(time);
    }

    /// The interval that is over by now, if one is.
    pub(super) fn next(&mut self, now: Time) -> Option<&Interval> {
        if now.since(self.since) < LENGTH {
            return None;
        }
        self.end(now);
        self.over.last()
    }

    /// All of them, when nothing more is measured.
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

impl Interval {
    /// As people read it, in a line.
    pub(super) fn shown(&self) -> String {
        let end = self.start_seconds + self.seconds;
        let rates = match self.received_gbps {
            0.0 => rate_shown(self.goodput_gbps),
            back => format!("{}, {} back", rate_shown(self.goodput_gbps), rate_shown(back)),
        };
        let time = |time: Option<f64>| time.map_or("-".into(), time_shown);
        let [p50, p99, p999] = [self.p50_us, self.p99_us, self.p999_us].map(time);
        format!("{end:.0} s: {rates}, {} done, p50 {p50}, p99 {p99}, p99.9 {p999}", self.done)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_second_stands_for_itself() {
        let mut intervals = Intervals::new(Time::s(10));
        intervals.delivered(125_000_000);
        intervals.took(Duration::from_micros(50));
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
