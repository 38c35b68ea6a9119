//! Window over queue of one bottleneck, for solved models and for packets.

use tidegate_fluid::{NoSolution, Windows, solve};

use super::{FlowTrace, Observations, Traced};

/// A model and its trajectories.
#[derive(Clone, Debug)]
pub struct Followed {
    /// The model.
    pub model: Windows,
    /// One trajectory per starting point.
    pub trajectories: Vec<Trajectory>,
}

/// Queue, and total window of all flows, over time.
#[derive(Clone, Debug, PartialEq)]
pub struct Trajectory {
    /// Time of the first point, in microseconds.
    pub first_us: f64,
    /// Interval between two points.
    pub every_us: f64,
    /// Queue and window in KB.
    pub points: Vec<(f64, f64)>,
}

impl Followed {
    /// Solves a model from each of these queues and windows.
    pub fn new(
        model: Windows,
        starts: &[(f64, f64)],
        until_us: f64,
        every_us: f64,
    ) -> Result<Followed, NoSolution> {
        let trajectory = |&(queue_kb, window_kb): &(f64, f64)| {
            let states = solve(&model, [queue_kb, window_kb], until_us, every_us)?;
            let points = states.into_iter().map(|[queue, window]| (queue, window)).collect();
            Ok(Trajectory { first_us: 0.0, every_us, points })
        };
        let trajectories = starts.iter().map(trajectory).collect::<Result<_, NoSolution>>()?;
        Ok(Followed { model, trajectories })
    }
}

impl Observations {
    /// The trajectories of a model; or that of packets: the total window of all flows that have
    /// one, and the queue of the port between the named nodes.
    pub fn trajectories(&self, port: Option<(&str, &str)>) -> Vec<Trajectory> {
        if let Some(followed) = &self.model {
            return followed.trajectories.clone();
        }
        let Some((from, to)) = port else { return Vec::new() };
        // A port that never had a queue has no trace.
        let queue = self.queues.iter().find(|queue| queue.from == from && queue.to == to);
        let queue_kb = |bin: usize| {
            let us = queue.and_then(|queue| Some((queue.delay_us.get(bin)?, queue.rate_gbps)));
            us.map_or(0.0, |(us, gbps)| f64::from(*us) * gbps / 8.0)
        };
        let end = |flow: &FlowTrace| flow.first + flow.goodput_gbps.len();
        let bins = self.traces.iter().map(end).max().unwrap_or(0);
        let window_kb = |bin: usize| {
            let windows = self.traces.iter().filter_map(|flow| flow.at(Traced::Window, bin));
            windows.map(f64::from).reduce(|sum, window| sum + window)
        };
        let first = (0..bins).find(|bin| window_kb(*bin).is_some()).unwrap_or(bins);
        let known = (first..bins).map_while(|bin| Some((queue_kb(bin), window_kb(bin)?)));
        // Both are sampled at the end of each interval.
        let every_us = self.interval_us;
        let first_us = (first + 1) as f64 * every_us;
        vec![Trajectory { first_us, every_us, points: known.collect() }]
    }
}

#[cfg(test)]
mod tests {
    use super::super::QueueTrace;
    use super::*;

    #[test]
    fn windows_add_up_over_the_queue_of_a_port() {
        let flow = |first, window_kb: &[Option<f32>]| FlowTrace {
            first,
            goodput_gbps: vec![1.0; window_kb.len()],
            window_kb: window_kb.to_vec(),
            ..FlowTrace::default()
        };
        let queue = QueueTrace {
            from: "a".to_owned(),
            to: "b".to_owned(),
            rate_gbps: 100.0,
            delay_us: vec![0.0, 2.0, 4.0, 8.0],
        };
        let seen = Observations {
            interval_us: 10.0,
            traces: vec![
                flow(0, &[None, Some(10.0), Some(20.0), None]),
                flow(2, &[Some(5.0), Some(7.0)]),
            ],
            queues: vec![queue],
            ..Observations::default()
        };
        let of = |port| {
            let [one] = <[Trajectory; 1]>::try_from(seen.trajectories(Some(port))).unwrap();
            (one.first_us, one.every_us, one.points)
        };
        assert_eq!(of(("a", "b")), (20.0, 10.0, vec![(25.0, 10.0), (50.0, 25.0), (100.0, 7.0)]));
        assert_eq!(of(("b", "a")), (20.0, 10.0, vec![(0.0, 10.0), (0.0, 25.0), (0.0, 7.0)]));
        assert_eq!(seen.trajectories(None), []);
    }
}
