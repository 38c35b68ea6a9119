//! Numbers from observations, by name: what claims measure and sweeps draw.

use serde::Deserialize;

use super::observe::{FlowTrace, Observation};

/// A question to a run.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Ask {
    /// Name of the metric.
    pub(crate) metric: String,
    /// The run that is asked. Left out in charts, which ask all of theirs.
    #[serde(default)]
    pub(crate) run: String,
    /// Several runs instead: the claim's value is the mean of theirs.
    #[serde(default)]
    pub(crate) runs: Vec<String>,
    /// Flows or messages with this label; all unless set.
    label: Option<String>,
    /// From here on, in milliseconds; warm-up unless set.
    from_ms: Option<f64>,
    /// Up to here; the end unless set.
    to_ms: Option<f64>,
    /// Width of the averages that a metric looks at, in microseconds; the trace's interval unless
    /// set.
    bin_us: Option<f64>,
    /// Share of messages, for `message`.
    share: Option<f64>,
    /// Goodput that counts as arrival, for `convergence`; the one to be near, for `settling`.
    gbps: Option<f64>,
    /// A port, as `from>to`.
    link: Option<String>,
    /// (from ms, to ms, expected), for `worst`.
    #[serde(default)]
    phases: Vec<(f64, f64, f64)>,
}

impl Ask {
    /// The label of the flows asked about.
    #[cfg(test)]
    pub(crate) fn label(&self) -> Option<&str> {
        self.label.as_deref()
    }

    /// The question to the first, second, … of several runs.
    pub(crate) fn of_run(&self, i: usize) -> Ask {
        let run = self.runs.get(i).unwrap_or(&self.run).clone();
        Ask { run, runs: Vec::new(), ..self.clone() }
    }
}

/// Answers a question; nothing where the run has no answer.
type Metric = fn(&Ask, &Observation) -> Option<f64>;

/// Every metric.
const METRICS: &[(&str, Metric)] = &[
    ("goodput", goodput),
    ("worst", worst),
    ("jain", jain),
    ("deviation", deviation),
    ("convergence", convergence),
    ("convergence-rtts", convergence_rtts),
    ("settling", settling),
    ("rtt", |ask, seen| mean(ask, seen, |flow| &flow.rtt_us)),
    ("peak", |ask, seen| mean(ask, seen, |flow| &flow.peak_us)),
    ("target", |ask, seen| mean(ask, seen, |flow| &flow.target_us)),
    ("window", |ask, seen| mean(ask, seen, |flow| &flow.window_kb)),
    ("rtt-of-all", |_, seen| (seen.rtt_us.mean > 0.0).then_some(seen.rtt_us.mean)),
    ("rtt-of-all-p99", |_, seen| seen.rtt_us.p99),
    ("message", message),
    ("utilization", |ask, seen| Some(100.0 * port(ask, seen)?.utilization)),
    ("queue-delay", |ask, seen| Some(port(ask, seen)?.delay_us.mean)),
    ("queue-delay-p99", |ask, seen| port(ask, seen)?.delay_us.p99),
];

/// The metric of that name.
pub(crate) fn named(name: &str) -> Option<Metric> {
    METRICS.iter().find(|(known, _)| *known == name).map(|(_, metric)| *metric)
}

/// The answer of a run that was made with several seeds: the mean of theirs.
pub(crate) fn answer(ask: &Ask, seeds: &[&Observation]) -> Option<f64> {
    let metric = named(&ask.metric)?;
    let values: Option<Vec<f64>> = seeds.iter().map(|seen| metric(ask, seen)).collect();
    let values = values.filter(|values| !values.is_empty())?;
    Some(values.iter().sum::<f64>() / values.len() as f64)
}

fn flows<'a>(ask: &'a Ask, seen: &'a Observation) -> impl Iterator<Item = &'a FlowTrace> {
    seen.flows.iter().filter(|flow| ask.label.as_ref().is_none_or(|label| *label == flow.label))
}

fn port<'a>(ask: &Ask, seen: &'a Observation) -> Option<&'a super::observe::Link> {
    let (from, to) = ask.link.as_ref()?.split_once('>')?;
    seen.links.iter().find(|link| link.from == from && link.to == to)
}

/// Intervals that lie wholly in the time asked about.
fn bins(ask: &Ask, seen: &Observation) -> std::ops::Range<usize> {
    between(
        seen,
        ask.from_ms.map_or(seen.warmup_us, |ms| ms * 1e3),
        ask.to_ms.map_or(seen.duration_us, |ms| ms * 1e3),
    )
}

fn between(seen: &Observation, from_us: f64, to_us: f64) -> std::ops::Range<usize> {
    let end = (to_us.min(seen.duration_us) / seen.interval_us + 1e-6) as usize;
    let from = (from_us / seen.interval_us - 1e-6).ceil().max(0.0) as usize;
    from.min(end)..end
}

fn average(values: &[f32]) -> Option<f64> {
    (!values.is_empty())
        .then(|| values.iter().map(|&x| f64::from(x)).sum::<f64>() / values.len() as f64)
}

/// Means of the flows over the time asked about, in Gbit/s.
fn goodputs(ask: &Ask, seen: &Observation, bins: &std::ops::Range<usize>) -> Option<Vec<f64>> {
    let each = flows(ask, seen).map(|flow| average(flow.goodput_gbps.get(bins.clone())?));
    each.collect::<Option<Vec<f64>>>().filter(|all| !all.is_empty())
}

/// Goodput of a flow in Gbit/s, the mean of all that are asked about.
fn goodput(ask: &Ask, seen: &Observation) -> Option<f64> {
    let all = goodputs(ask, seen, &bins(ask, seen))?;
    Some(all.iter().sum::<f64>() / all.len() as f64)
}

/// Over several stretches of time, the goodput furthest from what is expected, as a share of that.
fn worst(ask: &Ask, seen: &Observation) -> Option<f64> {
    let mut worst: Option<f64> = None;
    for &(from_ms, to_ms, expected) in &ask.phases {
        let all = goodputs(ask, seen, &between(seen, from_ms * 1e3, to_ms * 1e3))?;
        let share = all.iter().sum::<f64>() / all.len() as f64 / expected;
        if worst.is_none_or(|worst| (share - 1.0).abs() > (worst - 1.0).abs()) {
            worst = Some(share);
        }
    }
    worst
}

/// Jain's index of the goodputs over bins of the width asked for, its mean over time.
fn jain(ask: &Ask, seen: &Observation) -> Option<f64> {
    let bins = bins(ask, seen);
    let each =
        flows(ask, seen).map(|flow| Some(binned(ask, seen, flow.goodput_gbps.get(bins.clone())?)));
    let each = each.collect::<Option<Vec<Vec<f64>>>>()?;
    let index = |time: usize| {
        let rates = each.iter().map(|flow| flow[time]);
        let (sum, squares) = rates.fold((0.0, 0.0), |(sum, squares), x| (sum + x, squares + x * x));
        (squares > 0.0).then(|| sum * sum / (each.len() as f64 * squares))
    };
    let indices = (0..each.first()?.len()).map(index).collect::<Option<Vec<f64>>>()?;
    (!indices.is_empty()).then(|| indices.iter().sum::<f64>() / indices.len() as f64)
}

/// Averages of a flow over bins of the width asked for.
fn binned(ask: &Ask, seen: &Observation, values: &[f32]) -> Vec<f64> {
    let width = ask.bin_us.map_or(1, |us| (us / seen.interval_us).round().max(1.0) as usize);
    values.chunks_exact(width).filter_map(average).collect()
}

/// Standard deviation over time of a flow's goodput in Gbit/s, the mean of all that are asked
/// about.
fn deviation(ask: &Ask, seen: &Observation) -> Option<f64> {
    let bins = bins(ask, seen);
    let each = flows(ask, seen).map(|flow| {
        let values = binned(ask, seen, flow.goodput_gbps.get(bins.clone())?);
        let n = values.len() as f64;
        let mean = values.iter().sum::<f64>() / n;
        (n > 1.0).then(|| (values.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / n).sqrt())
    });
    let each = each.collect::<Option<Vec<f64>>>().filter(|all| !all.is_empty())?;
    Some(each.iter().sum::<f64>() / each.len() as f64)
}

/// Goodput of the first flow asked about since its start, over windows of the width asked for that
/// slide by an interval, and the number of intervals in one.
fn sliding(ask: &Ask, seen: &Observation) -> Option<(Vec<f64>, usize)> {
    let flow = flows(ask, seen).next()?;
    let first = (flow.start_us / seen.interval_us) as usize;
    let width = ask.bin_us.map_or(1, |us| (us / seen.interval_us).round().max(1.0) as usize);
    let means = flow.goodput_gbps.get(first..)?.windows(width).filter_map(average);
    Some((means.collect(), width))
}

/// Time in microseconds from a flow's start until its goodput over the last window is as asked;
/// none where it never is.
fn convergence(ask: &Ask, seen: &Observation) -> Option<f64> {
    let (means, width) = sliding(ask, seen)?;
    let enough = ask.gbps?;
    let reached = means.iter().position(|&gbps| gbps >= enough)?;
    Some((reached + width) as f64 * seen.interval_us)
}

/// The same in round trips of the flow.
fn convergence_rtts(ask: &Ask, seen: &Observation) -> Option<f64> {
    let us = convergence(ask, seen)?;
    let flow = flows(ask, seen).next()?;
    let bins = between(seen, flow.start_us, flow.start_us + us);
    let rtts: Vec<f32> = flow.rtt_us.get(bins)?.iter().flatten().copied().collect();
    Some(us / average(&rtts)?)
}

/// Part of the time after a flow's start that it has to stay in place at the end, for it to count
/// as having settled.
const SETTLED: f64 = 0.1;

/// Time in microseconds from a flow's start until its goodput over every later window is within a
/// tenth of what is asked; none where it is not for the last part of the run.
fn settling(ask: &Ask, seen: &Observation) -> Option<f64> {
    let (means, width) = sliding(ask, seen)?;
    let expected = ask.gbps?;
    let is_off = |gbps: &f64| (gbps - expected).abs() > 0.1 * expected;
    let windows = means.iter().rposition(is_off).map_or(0, |last| last + 1);
    let stayed = means.len() - windows;
    (stayed as f64 > SETTLED * means.len() as f64)
        .then(|| (windows + width) as f64 * seen.interval_us)
}

/// Mean over time and flows of something that is not there in every interval.
fn mean(
    ask: &Ask,
    seen: &Observation,
    of: impl Fn(&FlowTrace) -> &Vec<Option<f32>>,
) -> Option<f64> {
    let bins = bins(ask, seen);
    let values =
        flows(ask, seen).flat_map(|flow| of(flow).get(bins.clone()).unwrap_or(&[])).flatten();
    average(&values.copied().collect::<Vec<f32>>())
}

/// Completion time in microseconds.
fn message(ask: &Ask, seen: &Observation) -> Option<f64> {
    seen.messages.get(ask.label.as_deref().unwrap_or(""))?.quantile(ask.share.unwrap_or(0.5))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ask(text: &str) -> Ask {
        toml::from_str(text).unwrap()
    }

    fn seen() -> Observation {
        let flow = |label: &str, start_us, goodput_gbps: &[f32]| FlowTrace {
            label: label.to_owned(),
            start_us,
            goodput_gbps: goodput_gbps.to_vec(),
            rtt_us: vec![Some(10.0); goodput_gbps.len()],
            ..FlowTrace::default()
        };
        Observation {
            duration_us: 400.0,
            interval_us: 100.0,
            flows: vec![
                flow("a", 0.0, &[10.0, 30.0, 10.0, 30.0]),
                flow("b", 100.0, &[0.0, 5.0, 10.0, 20.0]),
            ],
            ..Observation::default()
        }
    }

    #[track_caller]
    fn check(text: &str, expected: f64) {
        let ask = ask(text);
        let value = named(&ask.metric).unwrap()(&ask, &seen()).unwrap();
        assert!((value - expected).abs() < 1e-6, "{text}: {value}");
    }

    #[test]
    fn metrics_look_at_their_flows_and_times() {
        check("metric = 'goodput'\nlabel = 'a'", 20.0);
        check("metric = 'goodput'\nlabel = 'a'\nfrom_ms = 0.1\nto_ms = 0.2", 30.0);
        check("metric = 'deviation'\nlabel = 'a'", 10.0);
        check("metric = 'deviation'\nlabel = 'a'\nbin_us = 200.0", 0.0);
        check("metric = 'convergence'\nlabel = 'b'\ngbps = 9.0", 200.0);
        check("metric = 'convergence-rtts'\nlabel = 'b'\ngbps = 9.0", 20.0);
        check("metric = 'settling'\nlabel = 'b'\ngbps = 20.0", 300.0);
        check("metric = 'settling'\nlabel = 'b'\ngbps = 14.0\nbin_us = 200.0", 300.0);
        check("metric = 'jain'", (0.5 + 1225.0 / 1850.0 + 1.0 + 2500.0 / 2600.0) / 4.0);
        check("metric = 'worst'\nlabel = 'a'\nphases = [[0.0, 0.2, 20.0], [0.2, 0.3, 20.0]]", 0.5);
        check("metric = 'jain'\nfrom_ms = 0.2\nto_ms = 0.3", 1.0);
    }

    #[test]
    fn what_is_not_there_has_no_answer() {
        for text in [
            "metric = 'goodput'\nlabel = 'c'",
            "metric = 'peak'",
            "metric = 'message'",
            "metric = 'utilization'",
            "metric = 'convergence'\nlabel = 'b'\ngbps = 90.0",
            "metric = 'convergence'\nlabel = 'b'",
            "metric = 'settling'\nlabel = 'b'\ngbps = 50.0",
        ] {
            let ask = ask(text);
            assert_eq!(named(&ask.metric).unwrap()(&ask, &seen()), None, "{text}");
        }
    }
}
