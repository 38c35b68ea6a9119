//! Converts the engine's records to the types of the results crate.

use std::collections::{BTreeMap, BTreeSet};

use tidegate_core::fabric::{
    Buffer, CreditQueue, Fabric, MarkAt, Node, Switch, TelemetryResolution,
};
use tidegate_core::params::Value;
use tidegate_core::workload::{Pattern, Traffic};
use tidegate_core::{ConnectionPolicy, Message, Rate, Span};
use tidegate_results::{
    CircuitSettings, Entity, ExchangeRow, FaultSummary, Fixed, FlowRow, IterationRow, Job,
    LinkSummary, MarkedAt, Names, PauseStormSummary, PauseSummary, QueueBytes, QueueDelay,
    SeriesRow, StepRow, SwitchSettings, SwitchSummary,
};
use tidegate_scenario::{Counted, Plan};
use tidegate_sim::{
    Exchange, FaultCounts, FlowRecord, IterationTime, LinkRecord, PauseStorm, Quantity, Sample,
    Spread, Step, SwitchRecord,
};

/// How messages share connections, as written in scenarios.
pub fn connections(policy: ConnectionPolicy) -> String {
    match policy {
        ConnectionPolicy::PerMessage => "per-message".to_owned(),
        ConnectionPolicy::PerPair => "per-pair".to_owned(),
        ConnectionPolicy::ShortestFirst => "shortest-first".to_owned(),
        ConnectionPolicy::Pool(connections) => connections.to_string(),
    }
}

/// Rates of stacks that send at a configured rate, that is, have a parameter `rate`.
pub fn fixed_rates(plan: &Plan) -> BTreeMap<String, Vec<f64>> {
    let mut rates = BTreeMap::<String, Vec<f64>>::new();
    for stack in &plan.stacks {
        let rate = stack.values().into_iter().find(|(name, _)| *name == "rate");
        if let Some((_, Value::Rate(rate))) = rate {
            let all = rates.entry(stack.protocol().info().name.to_owned()).or_default();
            let rate = rate.as_gbps_f64();
            if !all.contains(&rate) {
                all.push(rate);
            }
        }
    }
    rates
}

/// The names of a plan's numbered items.
pub fn names(plan: &Plan) -> Names {
    Names {
        hosts: plan.fabric.hosts.clone(),
        switches: plan.fabric.switches.iter().map(|switch| switch.name.clone()).collect(),
        labels: plan.labels.clone(),
        protocols: (0..plan.stacks.len() as u16)
            .map(|stack| plan.protocol_name(stack).to_owned())
            .collect(),
    }
}

/// Whether a flow counts in completion times: it is a message that was submitted after warm-up or,
/// with `output.messages = "completed"`, that completed inside the measured window.
pub fn is_measured(plan: &Plan, record: &FlowRecord) -> bool {
    let counts = match plan.output.messages {
        Counted::Submitted => record.start >= plan.warmup,
        Counted::Completed => {
            record.completed.is_some_and(|at| plan.warmup <= at && at < plan.duration)
        }
    };
    record.bytes != Message::UNLIMITED && counts
}

/// Row of a flow.
pub fn flow(plan: &Plan, record: &FlowRecord, fair_share_gbps: Option<f64>) -> FlowRow {
    FlowRow {
        id: record.id,
        label: record.label,
        stack: record.stack,
        src: record.src,
        dst: record.dst,
        start: record.start,
        size_bytes: (record.bytes != Message::UNLIMITED).then_some(record.bytes),
        delivered_bytes: record.delivered_bytes,
        window_bytes: record.window_bytes,
        lifetime: record.lifetime(),
        completed: record.completed,
        acked: record.acked,
        retransmitted_bytes: record.retransmitted_bytes,
        ideal: record.ideal,
        fair_share_gbps,
        measured: is_measured(plan, record),
        exchange: record.exchange.map(|Exchange { requested, label, is_reply }| ExchangeRow {
            requested,
            label,
            is_reply,
        }),
        step: record.step().map(|Step { job, iteration }| StepRow { job, iteration }),
    }
}

/// The collectives and jobs of a plan.
pub fn jobs(plan: &Plan) -> Vec<Job> {
    let job = |block: &Traffic| {
        let (op, size_bytes, messages, bus_factor) = match &block.pattern {
            Pattern::Collective(of) => (of.name(), of.bytes, of.messages(), of.bus_factor()),
            Pattern::Job(of) => {
                let bytes = of.program.sizes().fold(0, u64::saturating_add);
                (JOB, bytes, of.program.sizes().count() as u64, None)
            }
            _ => return None,
        };
        let of = block.pattern.schedule()?;
        Some(Job {
            label: block.label,
            stack: block.stack,
            op,
            ranks: of.hosts().len() as u32,
            size_bytes,
            is_file: op == JOB,
            iterations: of.iterations(),
            messages,
            bus_factor,
            start: block.start,
        })
    };
    plan.workload.traffic.iter().filter_map(job).collect()
}

/// Name of the operation of jobs whose operations come from a file.
const JOB: &str = "job";

/// Times of ranks in an iteration.
pub fn iteration(time: &IterationTime) -> IterationRow {
    let IterationTime { job, iteration: _, ranks, begins, ends, span_ps, busy_ps } = *time;
    IterationRow { job, ranks, begins, ends, span_ps, busy_ps }
}

/// Summary of a direction of a link.
pub fn link(plan: &Plan, record: &LinkRecord) -> LinkSummary {
    link_of(&plan.fabric, record, plan.duration > plan.warmup)
}

/// Summary of a link of a fabric. If `measured` is false, the utilisation is absent.
pub fn link_of(fabric: &Fabric, record: &LinkRecord, measured: bool) -> LinkSummary {
    let waited = record.packets > 0;
    let micros = |us: f64| Fixed::nearest(us).filter(|_| waited);
    let delay = &record.queue_delay_us;
    LinkSummary {
        from: node(fabric, record.from),
        to: node(fabric, record.to),
        rate_gbps: record.rate_bps as f64 / 1e9,
        utilization: measured.then_some(record.utilisation),
        queue_bytes: bytes(&record.queue_bytes),
        queue_delay_us: QueueDelay {
            mean: micros(delay.mean),
            // A histogram rounds up; a percentile above the exact maximum would look like an error.
            p99: delay.p99.map(|p99| p99.min(delay.max)).and_then(micros),
            max: micros(delay.max),
        },
        packets: record.packets,
        drops: record.drops,
        credit_drops: queue_for_credits(fabric, record.from).map(|_| record.credit_drops),
        trims: switch_at(fabric, record.from)
            .and_then(|switch| switch.trimming)
            .map(|_| record.trims),
        returned: switch_at(fabric, record.from)
            .filter(|switch| switch.returns_to_sender())
            .map(|_| record.returned),
        ecn_marks: record.ecn_marks,
        pfc_pauses: record.pfc_pauses,
        paused_us: Fixed::nearest(record.paused.as_us_f64()),
        from_host: fabric.host_at(record.from).is_some(),
    }
}

/// The switch at this node, if it is one.
fn switch_at(fabric: &Fabric, node: Node) -> Option<&Switch> {
    match node {
        Node::Switch(switch) => fabric.switches.get(switch as usize),
        Node::Host(_) => None,
    }
}

/// The credit queue at the ports of a node, if it has one.
fn queue_for_credits(fabric: &Fabric, node: Node) -> Option<CreditQueue> {
    switch_at(fabric, node)?.credit_queue
}

/// Summaries of all switches.
pub fn switches(fabric: &Fabric, records: &[SwitchRecord]) -> Vec<SwitchSummary> {
    let mut hosts = vec![0; fabric.switches.len()];
    // A host may have several links to a switch.
    let ends: BTreeSet<(u32, u32)> =
        fabric.links.iter().filter_map(|link| fabric.access(link)).collect();
    for (_, switch) in ends {
        hosts[switch as usize] += 1;
    }
    let switch = |record: &SwitchRecord| SwitchSummary {
        name: node(fabric, Node::Switch(record.switch)),
        hosts: hosts.get(record.switch as usize).copied().unwrap_or(0),
        buffer_bytes: bytes(&record.buffer_bytes),
        samples: record.samples,
        drops: record.drops,
        settings: fabric.switches.get(record.switch as usize).map(settings),
    };
    let is_nic = |record: &&SwitchRecord| fabric.is_nic(Node::Switch(record.switch));
    records.iter().filter(|record| !is_nic(record)).map(switch).collect()
}

/// The settings of a switch.
fn settings(switch: &Switch) -> SwitchSettings {
    let TelemetryResolution { quantum, period } = switch.telemetry_resolution;
    let set = |span: Span| (span > Span::ZERO).then(|| span.as_us_f64());
    SwitchSettings {
        priorities: Some(switch.priorities),
        buffer_size_bytes: match switch.buffer {
            Buffer::Unlimited => None,
            Buffer::Shared { bytes, .. } => Some(bytes),
        },
        mark_from_bytes: switch.ecn.map(|ecn| ecn.min_bytes),
        mark_all_bytes: switch.ecn.map(|ecn| ecn.max_bytes),
        mark_max_probability: switch.ecn.map(|ecn| ecn.max_probability),
        mark_at: switch.ecn.map(|ecn| match (ecn.core_only, ecn.at) {
            (false, MarkAt::Enqueue) => MarkedAt::Enqueue,
            (false, MarkAt::Dequeue) => MarkedAt::Dequeue,
            (true, MarkAt::Enqueue) => MarkedAt::CoreEnqueue,
            (true, MarkAt::Dequeue) => MarkedAt::CoreDequeue,
        }),
        pfc_alpha: switch.pausing.map(|pausing| pausing.alpha),
        credit_share: switch.credit_queue.map(|queue| queue.share),
        mark_per_gbps: switch.ecn.and_then(|ecn| ecn.per).map(Rate::as_gbps_f64),
        telemetry_quantum_us: set(quantum),
        telemetry_period_us: set(period),
    }
}

/// Circuits between racks, if the fabric has any.
pub fn circuits(plan: &Plan) -> Option<CircuitSettings> {
    let circuits = plan.fabric.circuits.as_ref()?;
    let bytes = |bytes: u32| (bytes < u32::MAX).then_some(u64::from(bytes));
    Some(CircuitSettings {
        day_us: circuits.day.as_us_f64(),
        night_us: circuits.night.as_us_f64(),
        week_us: circuits.week().as_us_f64(),
        prebuffer_us: circuits.ahead.as_us_f64(),
        voq_bytes: bytes(circuits.queue_bytes),
        enlarged_voq_bytes: bytes(circuits.enlarged_bytes),
    })
}

/// Counts of injected faults.
pub fn faults(counts: &FaultCounts) -> FaultSummary {
    let FaultCounts { lost, corrupted, duplicated, reordered, outages } = *counts;
    FaultSummary { lost, corrupted, duplicated, reordered, outages }
}

/// Hosts that paused their switches for a long time.
pub fn pause_storms(plan: &Plan, storms: &[PauseStorm]) -> Vec<PauseStormSummary> {
    let storm = |storm: &PauseStorm| PauseStormSummary {
        host: node(&plan.fabric, Node::Host(storm.host)),
        since_us: Fixed::nearest(storm.since.as_us_f64()),
    };
    storms.iter().map(storm).collect()
}

/// Pauses of all links; `None` if no switch pauses.
pub fn pauses(plan: &Plan, links: &[LinkRecord]) -> Option<PauseSummary> {
    plan.fabric.switches.iter().find(|switch| switch.pausing.is_some())?;
    let measured = plan.duration.since(plan.warmup).as_ps() as f64;
    let share = |ps: f64| Some(ps / measured).filter(|share| share.is_finite());
    let sum: u128 = links.iter().map(|link| u128::from(link.paused.as_ps())).sum();
    // The first of equally paused links.
    let longest = links.iter().rev().max_by(|a, b| a.paused.cmp(&b.paused));
    let longest = longest.filter(|link| link.pfc_pauses > 0);
    Some(PauseSummary {
        pauses: links.iter().map(|link| link.pfc_pauses).sum(),
        links: links.len() as u64,
        paused_links: links.iter().filter(|link| link.pfc_pauses > 0).count() as u64,
        share_mean: share(sum as f64 / links.len() as f64),
        share_max: share(longest.map_or(0, |link| link.paused.as_ps()) as f64),
        longest: longest.map(|link| (node(&plan.fabric, link.from), node(&plan.fabric, link.to))),
    })
}

/// Row of a sample. Sums over time have the value that the file shows.
pub fn sample(plan: &Plan, sample: &Sample) -> SeriesRow {
    let link = || {
        let port = sample.entity as usize;
        plan.fabric.links.get(port / 2).map_or(Entity::Flow(sample.entity), |link| match port % 2 {
            0 => Entity::Link(link.a, link.b),
            _ => Entity::Link(link.b, link.a),
        })
    };
    let (quantity, entity, value) = match sample.quantity {
        Quantity::DeliveredBytes => ("delivered_bytes", Entity::Flow(sample.entity), sample.value),
        Quantity::WindowBytes => ("window_bytes", Entity::Flow(sample.entity), sample.value),
        Quantity::QueueBytes => ("queue_bytes", link(), sample.value),
        Quantity::QueueBytePs => ("mean_queue_bytes", link(), sample.value),
        Quantity::SentBytes => ("sent_gbps", link(), sample.value),
        Quantity::PausedPs => ("paused_us", link(), sample.value * 1e-6),
    };
    SeriesRow { at: sample.at, entity, quantity, value }
}

fn bytes(spread: &Spread) -> QueueBytes {
    let finite = |x: f64| x.is_finite().then_some(x);
    QueueBytes {
        mean: finite(spread.mean),
        p99: spread.p99.and_then(finite),
        max: finite(spread.max),
    }
}

fn node(fabric: &Fabric, node: Node) -> String {
    let name = match node {
        Node::Host(i) => fabric.hosts.get(i as usize),
        Node::Switch(i) => fabric.switches.get(i as usize).map(|switch| &switch.name),
    };
    name.cloned().unwrap_or_else(|| "?".to_owned())
}
