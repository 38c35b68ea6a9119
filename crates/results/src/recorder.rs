//! Flows in, one at a time; a summary of them out.

use crate::fct::FctSummary;
use crate::fixed::Fixed;
use crate::groups::{Exchanges, Rates, SizedFct, gbps};
use crate::jobs::{Job, JobSummary, StepRow, Tally};
use crate::summary::{FLOWS_MAX, FlowSummary, GroupSummary};
use std::collections::BTreeMap;
use tidegate_core::{Span, Time};

/// Names that rows refer to by number.
#[derive(Clone, Debug, Default)]
pub struct Names {
    /// Of hosts.
    pub hosts: Vec<String>,
    /// Of switches.
    pub switches: Vec<String>,
    /// Of labels; the first is empty (unlabelled).
    pub labels: Vec<String>,
    /// Of protocols, by stack; two stacks may share one.
    pub protocols: Vec<String>,
}

/// One flow, finished or not.
#[derive(Clone, Copy, Debug)]
pub struct FlowRow {
    /// In order of submission.
    pub id: u64,
    /// Number of its label.
    pub label: u16,
    /// Number of its stack.
    pub stack: u16,
    /// Number of the sending host.
    pub src: u32,
    /// Number of the receiving host.
    pub dst: u32,
    /// When it was submitted.
    pub start: Time,
    /// Payload; `None`: unlimited.
    pub size_bytes: Option<u64>,
    /// Payload delivered since time 0.
    pub delivered_bytes: u64,
    /// Payload delivered between warm-up and the end.
    pub window_bytes: u64,
    /// How much of its life lay there; `None` where that is too little for a rate to mean anything.
    pub lifetime: Option<Span>,
    /// When the last byte reached the receiving application.
    pub completed: Option<Time>,
    /// When the sender knew.
    pub acked: Option<Time>,
    /// Payload sent again.
    pub retransmitted_bytes: u64,
    /// The same transfer in an empty network; zero where that is undefined.
    pub ideal: Span,
    /// What max-min fairness would give it, where known.
    pub fair_share_gbps: Option<f64>,
    /// Whether it counts among completion times: of a limited size, and submitted after warm-up.
    pub measured: bool,
    /// What it is part of, where it is a request or a reply of a closed loop.
    pub exchange: Option<ExchangeRow>,
    /// What it is part of, where it is a message of a collective.
    pub step: Option<StepRow>,
}

/// A request and its reply.
#[derive(Clone, Copy, Debug)]
pub struct ExchangeRow {
    /// When the request was submitted.
    pub asked: Time,
    /// Number of the request's label.
    pub label: u16,
    /// This is the reply.
    pub is_reply: bool,
}

impl FlowRow {
    /// From submission to the last byte at the receiver.
    pub fn fct(&self) -> Option<Span> {
        self.completed.map(|at| at.since(self.start))
    }
    /// From submission to the sender's knowledge of completion.
    pub fn acked_after(&self) -> Option<Span> {
        self.acked.map(|at| at.since(self.start))
    }
    /// Of a reply, from the submission of its request to its last byte at the client.
    pub fn exchange(&self) -> Option<Span> {
        let exchange = self.exchange.filter(|exchange| exchange.is_reply)?;
        self.completed.map(|at| at.since(exchange.asked))
    }
    /// Completion time over the ideal one, to six decimals.
    pub fn slowdown(&self) -> Option<Fixed> {
        self.slowdown_of(self.fct()?)
    }
    /// The same where it takes so long.
    pub(crate) fn slowdown_of(&self, took: Span) -> Option<Fixed> {
        let (ideal, took) = (u128::from(self.ideal.as_ps()), u128::from(took.as_ps()));
        (ideal > 0).then(|| Fixed::millionths(((took * 1_000_000 + ideal / 2) / ideal) as u64))
    }
    /// Payload delivered between warm-up and the end, over the part of its life that lay there.
    pub fn goodput_gbps(&self) -> Option<f64> {
        gbps(self.window_bytes, self.lifetime?)
    }
}

/// What is kept of a label and protocol.
#[derive(Default)]
struct Group {
    flows: u64,
    delivered_bytes: u64,
    /// Of messages submitted after warm-up.
    offered_bytes: u64,
    retransmitted_bytes: u64,
    rates: Rates,
    shares: Option<f64>,
    fct: SizedFct,
}

/// Takes every flow of a run once, in the order of `flows.parquet`, in memory that does not grow
/// with their number.
pub struct Recorder {
    names: Names,
    warmup: Time,
    end: Time,
    /// When the run was over.
    over: Time,
    /// `None` once there are too many.
    flows: Option<Vec<FlowSummary>>,
    /// By label and protocol; a protocol is known by its first stack.
    groups: BTreeMap<(u16, u16), Group>,
    /// By the label of requests.
    exchanges: BTreeMap<u16, Exchanges>,
    /// By number.
    jobs: Vec<Tally>,
    /// First stack of the same protocol, by stack.
    first_stacks: Vec<u16>,
}

/// The parts of a summary that come from flows.
#[derive(Clone, Debug)]
pub struct Recorded {
    /// Every flow by id, unless there are too many.
    pub flows: Option<Vec<FlowSummary>>,
    /// Flows by label and protocol, labels in order of the scenario.
    pub groups: Vec<GroupSummary>,
    /// Completion times of all messages, and of each label. A label called `all` has no entry of
    /// its own.
    pub fct: BTreeMap<String, FctSummary>,
    /// Times from request to reply of closed loops, of all and by the label of requests; empty
    /// where there are none.
    pub exchanges: BTreeMap<String, FctSummary>,
    /// Collectives, in order of the scenario.
    pub jobs: Vec<JobSummary>,
}

impl Recorder {
    /// For a run that is measured from `warmup` to `end`.
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

    /// Of a run with these collectives, by number.
    pub fn with_jobs(self, jobs: Vec<Job>) -> Recorder {
        Recorder { jobs: jobs.into_iter().map(Tally::new).collect(), ..self }
    }

    /// What is measured ended before its time.
    pub fn ends(&mut self, end: Time) {
        (self.end, self.over) = (end, end);
    }

    /// The run went on until then for messages to finish: of flows that are added from here on,
    /// what did not finish took longer than that.
    pub fn over(&mut self, at: Time) {
        self.over = at;
    }

    /// Takes one flow.
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
        if let Some(exchange) = row.exchange.filter(|exchange| exchange.asked >= self.warmup) {
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

    /// Ends the run.
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

/// The name at `index`; what has none is shown as `?`.
pub(crate) fn name(names: &[String], index: usize) -> &str {
    names.get(index).map_or("?", String::as_str)
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
