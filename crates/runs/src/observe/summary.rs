//! The content of `summary.json`.

use std::collections::{BTreeMap, BTreeSet};

use tidegate_core::workload::Sizes;
use tidegate_core::{Message, Span, Time};
use tidegate_results::{
    Engine as EngineSummary, Fixed, GroupSummary, RealSummary, Recorded, Recorder, Summary, busiest,
};
use tidegate_scenario::{Counted, Plan, disconnected, overload};
use tidegate_sim::{FlowRecord, PauseStorm, SwitchRecord};

use super::{End, Measure, RunOutput, Start, unfinished};
use crate::fair_share::FairShares;
use crate::{Error, convert, machine};

/// If several protocols share the fabric, a smaller share of the fair rate causes a warning.
const STARVED_BELOW: f64 = 0.25;

/// Builds the summary.
pub struct Summarised {
    recorder: Recorder,
    shares: FairShares,
    /// Time of the last submission.
    last_start: Time,
    /// Number of messages submitted at any time.
    messages: u64,
}

impl Summarised {
    /// The measure for runs of `plan`.
    pub fn new(plan: &Plan) -> Summarised {
        let recorder = Recorder::new(convert::names(plan), plan.warmup, plan.duration)
            .with_jobs(convert::jobs(plan));
        let shares = FairShares::default();
        Summarised { recorder, shares, last_start: Time::ZERO, messages: 0 }
    }

    fn add(&mut self, plan: &Plan, record: &FlowRecord) {
        let share = self.shares.get(record.src, record.dst, record.stack);
        self.recorder.add(&convert::flow(plan, record, share));
    }
}

impl Measure for Summarised {
    fn begin(&mut self, start: &Start<'_>) -> Result<(), Error> {
        self.shares = FairShares::of(start.plan).with_targets(start.plan, start.paths);
        Ok(())
    }

    fn flow(&mut self, plan: &Plan, record: &FlowRecord) -> Result<(), Error> {
        self.last_start = self.last_start.max(record.start);
        self.messages += u64::from(record.bytes != Message::UNLIMITED);
        // For others, the elapsed time is known only at the end.
        if record.completed.is_some() {
            self.add(plan, record);
        }
        Ok(())
    }

    fn finish(mut self: Box<Self>, end: &End<'_>, output: &mut RunOutput) -> Result<(), Error> {
        self.recorder.ends(end.plan.duration);
        self.recorder.over(end.plan.duration.after(end.drained));
        end.outcome.unfinished.iter().for_each(|record| self.add(end.plan, record));
        for time in &end.outcome.iterations {
            self.recorder.add_iteration(convert::iteration(time));
        }
        let Summarised { recorder, shares, last_start, messages } = *self;
        let mut recorded = recorder.finish();
        for group in &mut recorded.groups {
            let (label, protocol) = (&group.label, &group.protocol);
            let aim = shares.queue_aim(end.plan, label, protocol, &end.outcome.links);
            group.hop_delay_us = aim.and_then(|aim| Fixed::nearest(aim.hop_delay_us));
            group.queue_target_us = aim.and_then(|aim| aim.target_us).and_then(Fixed::nearest);
            group.asked_gbps = configured_gbps(end.plan, &group.label, &group.protocol);
        }
        let summary = summary(recorded, (last_start, messages), end);
        // Live hosts see arrivals when they wake up, so a sample can slightly exceed the possible.
        // Messages within servers can exceed the rates of NICs, and flows the last rate of a link.
        let fabric = &end.plan.fabric;
        let has_one_rate = fabric.servers.is_none() && fabric.rate_changes.is_empty();
        let is_bounded = end.real.is_none() && has_one_rate;
        debug_assert!(!is_bounded || summary.impossible().is_empty(), "{summary:?}");
        output.seen.summary = Some(summary);
        Ok(())
    }
}

fn summary(recorded: Recorded, (last_start, messages): (Time, u64), end: &End<'_>) -> Summary {
    let End { plan, outcome, drained, .. } = *end;
    let (links, links_omitted) = busiest(&outcome.links, |record| record.utilisation);
    let links = links.into_iter().map(|record| convert::link(plan, record)).collect();
    let mut protocols = Vec::new();
    for name in convert::names(plan).protocols {
        if !protocols.contains(&name) {
            protocols.push(name);
        }
    }
    let mut warnings = plan.warnings.clone();
    warnings.extend(unfinished::warnings(end, &recorded.groups, &recorded.jobs));
    warnings.extend(starved(&recorded.groups));
    warnings.extend(uncounted(plan, &recorded, messages));
    warnings.extend(omitted(plan, &outcome.unfinished));
    warnings.extend(stormy(plan, &outcome.storms));
    warnings.extend(lossy(plan, &outcome.switches));
    warnings.extend(end.real.as_ref().and_then(RealSummary::warning));
    let is_apart = disconnected(plan);
    let (apart, unfinished): (Vec<_>, Vec<_>) = outcome
        .unfinished
        .iter()
        .filter(|record| record.bytes != Message::UNLIMITED)
        .partition(|record| is_apart(record.src, record.dst));
    warnings.extend(without_path(apart.len()));
    let quiet = plan.duration.after(drained).since(last_start);
    warnings.extend(unfinished_warning(&unfinished, quiet, || overload(plan)));
    Summary {
        schema: Summary::SCHEMA,
        name: plan.name.clone(),
        seed: plan.seed,
        protocols,
        connections: convert::connections(plan.connections),
        routing: plan.routing.name().to_owned(),
        fixed_rates_gbps: convert::fixed_rates(plan),
        sim_seconds: plan.duration.as_s_f64(),
        drain_seconds: drained.as_s_f64(),
        drain_max_seconds: plan.drain.as_s_f64(),
        warmup_seconds: plan.warmup.as_s_f64(),
        truncated: false,
        warnings,
        engine: engine(end),
        real: end.real.clone(),
        flows_in: recorded.flows.is_none().then(|| "flows.parquet".to_owned()),
        flows: recorded.flows,
        groups: recorded.groups,
        fct: recorded.fct,
        exchanges: recorded.exchanges,
        jobs: recorded.jobs,
        links,
        links_omitted,
        switches: convert::switches(&plan.fabric, &outcome.switches),
        circuits: convert::circuits(plan),
        pause_storms: convert::pause_storms(plan, &outcome.storms),
        pauses: convert::pauses(plan, &outcome.links),
        faults: (plan.faults != Default::default()).then(|| convert::faults(&outcome.faults)),
    }
}

fn engine(end: &End<'_>) -> EngineSummary {
    let End { outcome, watch, threads, .. } = *end;
    let wall_seconds = watch.wall().as_secs_f64();
    let rate = outcome.packet_hops as f64 / wall_seconds;
    EngineSummary {
        digest: format!("{:016x}", outcome.digest),
        packet_hops: outcome.packet_hops,
        wall_seconds,
        cpu_seconds: watch.cpu(threads).as_secs_f64(),
        events: outcome.events,
        packet_hops_per_second: rate.is_finite().then_some(rate),
        threads,
        peak_rss_bytes: machine::peak_rss_bytes(),
    }
}

/// Configured load of a group's messages in Gbit/s between warm-up and the end; `None` if some
/// belong to traffic without a rate.
fn configured_gbps(plan: &Plan, label: &str, protocol: &str) -> Option<f64> {
    let is_its = |(of, stack): (u16, u16)| {
        plan.labels[usize::from(of)] == label && plan.protocol_name(stack) == protocol
    };
    let messages = plan.workload.flows.iter().filter(|flow| flow.bytes != Message::UNLIMITED);
    if messages.into_iter().any(|flow| is_its((flow.label, flow.stack))) {
        return None;
    }
    let blocks = plan.workload.traffic.iter();
    let blocks = blocks.filter(|block| is_its((block.label, block.stack)));
    let measured = plan.duration.since(plan.warmup).as_s_f64();
    let mut sum = None;
    for block in blocks {
        let lasts = block.stop.min(plan.duration).since(block.start.max(plan.warmup)).as_s_f64();
        let gbps = tidegate_scenario::configured_bps(block)? / 1e9;
        sum = Some(sum.unwrap_or(0.0) + gbps * lasts / measured);
    }
    sum
}

/// Warnings about groups that got a small part of their fair share beside other protocols.
fn starved(groups: &[GroupSummary]) -> Vec<String> {
    let starved = |group: &GroupSummary| {
        let (goodput, share) = group.goodput_gbps.mean.zip(group.fair_share_gbps)?;
        let protocols = groups.iter().map(|other| other.protocol.as_str());
        let others: BTreeSet<&str> = protocols.filter(|other| *other != group.protocol).collect();
        let names = others.iter().copied().collect::<Vec<_>>();
        (!others.is_empty() && goodput < STARVED_BELOW * share).then(|| {
            format!(
                "{}: a flow got {goodput:.2} Gbit/s on average, but its fair share is {share:.1} \
                 Gbit/s: it is starved by {}",
                group.protocol,
                names.join(", ")
            )
        })
    };
    groups.iter().filter_map(starved).collect()
}

/// A warning if messages were to be sent, but none counts in the measurements.
fn uncounted(plan: &Plan, recorded: &Recorded, messages: u64) -> Option<String> {
    let traffic = plan.workload.traffic.iter();
    let sends = messages > 0
        || traffic.into_iter().any(|block| block.sizes != Sizes::Fixed(Message::UNLIMITED));
    let counted = recorded.fct.get("all").map_or(0, |all| all.count);
    let before = match messages {
        0 => String::new(),
        1 => "; one message was submitted before warm-up".to_owned(),
        _ => format!("; {messages} messages were submitted before warm-up"),
    };
    let (what, before) = match plan.output.messages {
        Counted::Submitted => ("was submitted", before),
        Counted::Completed => ("completed", String::new()),
    };
    (sends && counted == 0).then(|| {
        format!(
            "no completion times: no message {what} between warm-up at {} and the end at \
             {}{before}",
            plan.warmup, plan.duration
        )
    })
}

/// A warning about incomplete messages, if only messages that completed count.
fn omitted(plan: &Plan, unfinished: &[FlowRecord]) -> Option<String> {
    let open = |record: &&FlowRecord| record.bytes != Message::UNLIMITED;
    let count = unfinished.iter().filter(open).count();
    let messages = if count == 1 { "message that was" } else { "messages that were" };
    (plan.output.messages == Counted::Completed && count > 0).then(|| {
        format!(
            "completion times omit {count} {messages} unfinished at the end of the run: \
             output.messages is \"completed\""
        )
    })
}

/// A warning about hosts that paused their switch for long. Traffic to them is blocked, and
/// eventually traffic on the same paths, too.
fn stormy(plan: &Plan, storms: &[PauseStorm]) -> Option<String> {
    let first = storms.iter().min_by_key(|storm| storm.since)?;
    let others = match storms.len() - 1 {
        0 => String::new(),
        1 => " and another host".to_owned(),
        others => format!(" and {others} other hosts"),
    };
    let host = &plan.fabric.hosts[first.host as usize];
    Some(format!("{host}{others} paused the switch for at least 100us, first at {}", first.since))
}

/// A warning about switches with PFC that dropped packets.
fn lossy(plan: &Plan, switches: &[SwitchRecord]) -> Option<String> {
    let pauses = |record: &&SwitchRecord| {
        let switch = plan.fabric.switches.get(record.switch as usize);
        record.drops > 0 && switch.is_some_and(|switch| switch.pausing.is_some())
    };
    let lossy: Vec<_> = switches.iter().filter(pauses).collect();
    let most = lossy.iter().max_by_key(|record| record.drops)?;
    let drops: u64 = lossy.iter().map(|record| record.drops).sum();
    Some(format!(
        "{drops} packets were dropped despite PFC, most at {}: either more arrived after a \
         pause than the headroom holds (switch.pfc.headroom), or the packets' class is not paused \
         (switch.pfc.classes)",
        plan.fabric.switches[most.switch as usize].name
    ))
}

/// A warning about messages that can never finish, because a failure that is not repaired within
/// the run leaves no path between their hosts.
fn without_path(count: usize) -> Option<String> {
    let messages = if count == 1 { "message is" } else { "messages are" };
    (count > 0).then(|| {
        format!(
            "{count} {messages} unfinished because failed links or hosts leave no path between \
             sender and receiver: more time would not help; set the end of the failure (`up`, or \
             `failure_up`) to a time within the run if it should be repaired"
        )
    })
}

/// A warning about messages that are unfinished although there was enough time: since the last
/// submission, which was `quiet` before the end, every host could have sent, and received, all of
/// its unfinished messages one after another.
fn unfinished_warning(
    unfinished: &[&FlowRecord],
    quiet: Span,
    overload: impl Fn() -> Option<String>,
) -> Option<String> {
    let mut needed: BTreeMap<(bool, u32), Span> = BTreeMap::new();
    for record in unfinished {
        for host in [(false, record.src), (true, record.dst)] {
            let sum = needed.entry(host).or_default();
            *sum = sum.plus(record.ideal);
        }
    }
    let is_stuck = needed.values().max().is_some_and(|needed| quiet > *needed);
    let count = unfinished.len();
    let messages = if count == 1 { "message is" } else { "messages are" };
    is_stuck.then(|| {
        let advice = advice(count, overload());
        format!(
            "{count} {messages} unfinished, but nothing was submitted in the last {} of the run: \
             {advice}",
            rounded(quiet)
        )
    })
}

/// The remedy for unfinished messages, if their hosts had enough time for them.
fn advice(count: usize, overload: Option<String>) -> String {
    let are = if count == 1 { "it is" } else { "they are" };
    match overload {
        Some(overload) => {
            format!("the load was up to {overload}: reduce it, or increase `drain` to empty queues")
        }
        None => format!(
            "increase `drain` if {are} queued behind others; otherwise the transport has stalled"
        ),
    }
}

/// A span in a common unit.
fn rounded(span: Span) -> String {
    let s = span.as_s_f64();
    let units = [(1.0, "s"), (1e-3, "ms"), (1e-6, "us")];
    let (scale, unit) = units.into_iter().find(|(scale, _)| s >= *scale).unwrap_or((1e-9, "ns"));
    format!("{:.1} {unit}", s / scale)
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use tidegate_results::Goodput;

    pub(in crate::observe) fn group(protocol: &str, goodput: f64) -> GroupSummary {
        GroupSummary {
            label: String::new(),
            protocol: protocol.to_owned(),
            flows: 1,
            delivered_bytes: 0,
            retransmitted_bytes: 0,
            offered_gbps: None,
            asked_gbps: None,
            goodput_gbps: Goodput {
                mean: Some(goodput),
                min: None,
                max: None,
                total: None,
                jain: None,
            },
            fair_share_gbps: Some(49.0),
            hop_delay_us: None,
            queue_target_us: None,
            fct: Recorder::new(Default::default(), Time::ZERO, Time::ZERO).finish().fct["all"]
                .clone(),
        }
    }

    #[test]
    fn a_starved_protocol_causes_a_warning() {
        assert_eq!(
            starved(&[group("bold", 97.8), group("shy", 0.29), group("bold", 40.0)]),
            ["shy: a flow got 0.29 Gbit/s on average, but its fair share is 49.0 Gbit/s: it is \
              starved by bold"]
        );
        assert_eq!(starved(&[group("bold", 85.0), group("shy", 12.0)]).len(), 1);
        assert!(starved(&[group("bold", 85.0), group("shy", 12.5)]).is_empty());
        // A protocol without others has no such warning.
        assert!(starved(&[group("shy", 90.0), group("shy", 0.29)]).is_empty());
        let unknown = GroupSummary { fair_share_gbps: None, ..group("shy", 0.29) };
        assert!(starved(&[group("bold", 90.0), unknown]).is_empty());
    }

    #[test]
    fn unfinished_messages_after_an_overload() {
        assert!(advice(1, None).ends_with("otherwise the transport has stalled"));
        let overload = "1.50 times the capacity of the uplinks of tor0".to_owned();
        let found = advice(2, Some(overload.clone()));
        assert!(found.starts_with(&format!("the load was up to {overload}: reduce it")), "{found}");
        assert!(!found.contains("stalled"), "{found}");
    }

    #[test]
    fn spans_are_rounded_to_common_units() {
        let spans = [Span::ps(10_003_536_794), Span::ns(1500), Span::ps(70), Span::ms(2500)];
        assert_eq!(spans.map(rounded), ["10.0 ms", "1.5 us", "0.1 ns", "2.5 s"]);
    }
}
