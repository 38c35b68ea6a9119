//! Aggregates flows, one at a time, into a summary.

use crate::fct::FctSummary;
use crate::fixed::Fixed;
use crate::groups::{Exchanges, Rates, SizedFct};
use crate::jobs::{Job, JobSummary, JobTotals};
use crate::rows::{FlowRow, IterationRow, Names, StepRow, gbps, name};
use crate::summary::{FLOWS_MAX, FlowSummary, GroupSummary};
use std::collections::BTreeMap;
use tidegate_core::{Span, Time};

/// Accumulated data of a label and protocol.
#[derive(Default)]
struct Group {
    flows: u64,
    delivered_bytes: u64,
    /// Payload of messages submitted after warm-up.
    offered_bytes: u64,
    retransmitted_bytes: u64,
    rates: Rates,
    shares: Option<f64>,
    fct: SizedFct,
}

/// Aggregates the flows of a run, each once and in the order of `flows.parquet`. Memory does not
/// grow with their number.
pub struct Recorder {
    names: Names,
    warmup: Time,
    end: Time,
    /// End of the run, including the drain.
    over: Time,
    /// All flows; `None` if there are too many.
    flows: Option<Vec<FlowSummary>>,
    /// Groups by label and protocol. The key of a protocol is its first stack.
    groups: BTreeMap<(u16, u16), Group>,
    /// Exchanges by the label of requests.
    exchanges: BTreeMap<u16, Exchanges>,
    /// Collectives by number.
    jobs: Vec<JobTotals>,
    /// First stack of the same protocol, by stack.
    first_stacks: Vec<u16>,
}

/// The parts of a summary that come from flows.
#[derive(Clone, Debug)]
pub struct Recorded {
    /// Flows by id; `None` if there are too many.
    pub flows: Option<Vec<FlowSummary>>,
    /// Flows by label and protocol, labels in order of the scenario.
    pub groups: Vec<GroupSummary>,
    /// Completion times of all messages (`all`), and by label.
    pub fct: BTreeMap<String, FctSummary>,
    /// Times from request to reply of closed loops: of all, and by the label of requests; empty if
    /// there are none.
    pub exchanges: BTreeMap<String, FctSummary>,
    /// Collectives, in order of the scenario.
    pub jobs: Vec<JobSummary>,
}

impl Recorder {
    /// A recorder for a run with the measured window from `warmup` to `end`.
    pub fn new(names: Names, warmup: Time, end: Time) -> Recorder {
        let first =
            |name| names.protocols.iter().position(|other| other == name).unwrap_or(0) as u16;
        let first_stacks = names.protocols.iter().map(first).collect();
        Recorder {
            names,
            warmup,
            end,
            over: end,
            flows: Some(Vec::new()),
            groups: BTreeMap::new(),
            exchanges: BTreeMap::new(),
            jobs: Vec::new(),
            first_stacks,
        }
    }

    /// Sets the collectives of the run, by number.
    pub fn with_jobs(self, jobs: Vec<Job>) -> Recorder {
        Recorder { jobs: jobs.into_iter().map(JobTotals::new).collect(), ..self }
    }

    /// Sets an end of the measured window that is before the planned one.
    pub fn ends(&mut self, end: Time) {
        (self.end, self.over) = (end, end);
    }

    /// Sets the end of the run, including the drain. Unfinished flows that are added later are
    /// censored at this time.
    pub fn over(&mut self, at: Time) {
        self.over = at;
    }

    /// Adds one flow.
    pub fn add(&mut self, row: &FlowRow) {
        let protocol = self.first_stacks.get(usize::from(row.stack)).copied().unwrap_or(row.stack);
        let group = self.groups.entry((row.label, protocol)).or_default();
        group.shares = match (group.flows, group.shares, row.fair_share_gbps) {
            (0, _, share) => share,
            (_, Some(sum), Some(share)) => Some(sum + share),
            _ => None,
        };
        group.flows += 1;
        group.delivered_bytes = group.delivered_bytes.saturating_add(row.delivered_bytes);
        group.retransmitted_bytes =
            group.retransmitted_bytes.saturating_add(row.retransmitted_bytes);
        group.rates.add(row);
        if let Some(bytes) = row.size_bytes {
            let offered = if row.start >= self.warmup { bytes } else { 0 };
            group.offered_bytes = group.offered_bytes.saturating_add(offered);
            if row.measured {
                group.fct.add(bytes, row, self.over);
            }
        }
        if let Some(exchange) = row.exchange.filter(|exchange| exchange.requested >= self.warmup) {
            self.exchanges.entry(exchange.label).or_default().add(row, self.over);
        }
        if let Some(StepRow { job, iteration }) = row.step
            && let Some(job) = self.jobs.get_mut(job as usize)
        {
            job.add(iteration, row);
        }
        match &mut self.flows {
            Some(flows) if flows.len() == FLOWS_MAX => self.flows = None,
            Some(flows) => flows.push(flow_summary(&self.names, row)),
            None => {}
        }
    }

    /// Adds the times of the ranks of a job in its next iteration.
    pub fn add_iteration(&mut self, row: IterationRow) {
        if let Some(job) = self.jobs.get_mut(row.job as usize) {
            job.add_ranks(row);
        }
    }

    /// Returns the aggregated results.
    pub fn finish(self) -> Recorded {
        let measured = self.end.since(self.warmup);
        let mut all = SizedFct::default();
        let mut labels = vec![SizedFct::default(); self.names.labels.len()];
        let mut groups = Vec::with_capacity(self.groups.len());
        for ((label, protocol), group) in &self.groups {
            all.merge(&group.fct);
            if let Some(of_label) = labels.get_mut(usize::from(*label)) {
                of_label.merge(&group.fct);
            }
            groups.push(GroupSummary {
                label: name(&self.names.labels, usize::from(*label)).to_owned(),
                protocol: name(&self.names.protocols, usize::from(*protocol)).to_owned(),
                flows: group.flows,
                delivered_bytes: group.delivered_bytes,
                retransmitted_bytes: group.retransmitted_bytes,
                offered_gbps: gbps(group.offered_bytes, measured),
                asked_gbps: None,
                goodput_gbps: group.rates.summary(measured),
                fair_share_gbps: group.shares.map(|sum| sum / group.flows as f64),
                hop_delay_us: None,
                queue_target_us: None,
                fct: group.fct.summary(),
            });
        }
        let labelled = self.names.labels.iter().zip(&labels).filter(|(label, _)| !label.is_empty());
        let mut fct: BTreeMap<_, _> =
            labelled.map(|(label, times)| (label.clone(), times.summary())).collect();
        fct.insert("all".to_owned(), all.summary());
        let exchanges = self.exchanges();
        let jobs = self.jobs.iter().map(|job| job.summary(&self.names, self.warmup)).collect();
        let mut flows = self.flows;
        if let Some(flows) = &mut flows {
            flows.sort_by_key(|flow| flow.id);
        }
        Recorded { flows, groups, fct, exchanges, jobs }
    }

    fn exchanges(&self) -> BTreeMap<String, FctSummary> {
        if self.exchanges.is_empty() {
            return BTreeMap::new();
        }
        let mut all = Exchanges::default();
        self.exchanges.values().for_each(|exchanges| all.merge(exchanges));
        let of_label = |(&label, exchanges): (&u16, &Exchanges)| {
            (name(&self.names.labels, usize::from(label)).to_owned(), exchanges.summary())
        };
        let labelled = self.exchanges.iter().map(of_label).filter(|(label, _)| !label.is_empty());
        labelled.chain([("all".to_owned(), all.summary())]).collect()
    }
}

fn flow_summary(names: &Names, row: &FlowRow) -> FlowSummary {
    FlowSummary {
        id: row.id,
        label: name(&names.labels, usize::from(row.label)).to_owned(),
        src: name(&names.hosts, row.src as usize).to_owned(),
        dst: name(&names.hosts, row.dst as usize).to_owned(),
        protocol: name(&names.protocols, usize::from(row.stack)).to_owned(),
        start_us: Fixed::micros(row.start.since(Time::ZERO)),
        size_bytes: row.size_bytes,
        delivered_bytes: row.delivered_bytes,
        goodput_gbps: row.goodput_gbps(),
        fair_share_gbps: row.fair_share_gbps,
        fct_us: row.fct().map(Fixed::micros),
        acked_us: row.acked_after().map(Fixed::micros),
        ideal_us: (row.ideal > Span::ZERO).then(|| Fixed::micros(row.ideal)),
        slowdown: row.slowdown(),
        retransmitted_bytes: row.retransmitted_bytes,
        measured: row.measured,
        exchange_us: row.exchange().map(Fixed::micros),
    }
}
