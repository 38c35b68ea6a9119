//! Warnings about messages, collectives and jobs that did not finish: one for each cause.

use std::collections::BTreeSet;

use tidegate_core::Message;
use tidegate_core::workload::{Flow, Traffic};
use tidegate_results::{GroupSummary, JobSummary};
use tidegate_scenario::{Plan, disconnected, overload};
use tidegate_sim::FlowRecord;

use super::End;

/// A larger share of unfinished messages causes a warning.
const UNFINISHED_MAX: f64 = 0.02;

/// Label and stack of the messages of a flow or of traffic.
type Kind = (u16, u16);

/// The warnings about a run with these groups and jobs.
pub(super) fn warnings(end: &End<'_>, groups: &[GroupSummary], jobs: &[JobSummary]) -> Vec<String> {
    let plan = end.plan;
    let is_job = |block: &&Traffic| block.pattern.schedule().is_some();
    let blocks = plan.workload.traffic.iter().filter(is_job);
    let cut = jobs.iter().zip(blocks).filter(|(job, _)| job.finished < job.iterations);
    let cut: Vec<_> = cut.collect();
    let of_cut: BTreeSet<Kind> = cut.iter().map(|(_, block)| kind(block)).collect();
    let no_path = disconnected(plan);
    // Kinds of unfinished messages without a path, and of others.
    let (mut apart, mut delayed) = (BTreeSet::new(), BTreeSet::new());
    for record in end.outcome.unfinished.iter().filter(|of| of.bytes != Message::UNLIMITED) {
        let kinds = if no_path(record.src, record.dst) { &mut apart } else { &mut delayed };
        kinds.insert((record.label, record.stack));
    }
    let waits = awaited(end, &cut, no_path);
    // Whether each source of the group's messages has a warning with the key to change.
    let is_reported = |group: &GroupSummary| {
        let is_its = |(label, stack): Kind| {
            plan.labels[usize::from(label)] == group.label
                && plan.protocol_name(stack) == group.protocol
        };
        let hosts = plan.fabric.hosts.len() as u32;
        let block_is = |block: &Traffic| {
            waits.is_some() && block.messages(hosts).is_some()
                || is_job(&block) && of_cut.contains(&kind(block))
        };
        let flows = plan.workload.flows.iter().filter(|flow| flow.bytes != Message::UNLIMITED);
        let flows = flows.map(|flow| ((flow.label, flow.stack), waits.is_some()));
        let blocks = plan.workload.traffic.iter().map(|block| (kind(block), block_is(block)));
        let mut sources = flows.chain(blocks).filter(|(of, _)| is_its(*of)).peekable();
        let is_apart = |of: &Kind| apart.contains(of) && !delayed.contains(of);
        sources.peek().is_some() && sources.all(|(of, is_reported)| is_reported || is_apart(&of))
    };
    let of_group = |group| unfinished(group, || is_reported(group), || overload(plan));
    let mut warnings: Vec<String> = groups.iter().filter_map(of_group).collect();
    let is_apart = |block| apart.contains(&kind(block));
    warnings.extend(cut.iter().map(|(job, block)| of_job(plan, job, block, is_apart(block))));
    warnings.extend(waits);
    warnings
}

fn kind(block: &Traffic) -> Kind {
    (block.label, block.stack)
}

/// A warning about unfinished messages, if their number makes the mean of the others misleading.
/// `is_reported`: another warning names the cause if no message finished.
fn unfinished(
    group: &GroupSummary,
    is_reported: impl Fn() -> bool,
    overload: impl Fn() -> Option<String>,
) -> Option<String> {
    let GroupSummary { label, protocol, fct, .. } = group;
    let label = if label.is_empty() { String::new() } else { format!("{label}: ") };
    let (unfinished, count) = (fct.unfinished, fct.count);
    let share = unfinished as f64 / count as f64;
    if count > 0 && unfinished == count {
        let messages = match count {
            1 => "the only message of".to_owned(),
            _ => format!("all {count} messages of"),
        };
        return (!is_reported()).then(|| {
            let remedy = match overload() {
                Some(overload) => format!(
                    "increase `duration` or `drain`, or reduce the load, which is up to {overload}"
                ),
                None => "increase `duration` or `drain`".to_owned(),
            };
            format!("{label}{messages} {protocol} did not finish: no completion times; {remedy}")
        });
    }
    (share > UNFINISHED_MAX).then(|| {
        format!(
            "{label}{unfinished} of {count} messages of {protocol} ({:.1} %) did not finish: the \
             mean covers only the others and is too low; percentiles are estimates over all \
             messages",
            share * 100.0
        )
    })
}

/// The warning about an unfinished collective or job. `is_apart`: some of its messages have no
/// path.
fn of_job(plan: &Plan, job: &JobSummary, block: &Traffic, is_apart: bool) -> String {
    let JobSummary { label, op, iterations, finished, .. } = job;
    let name = if label.is_empty() { op.clone() } else { format!("{label} ({op})") };
    let remedy = if is_apart {
        "failed links or hosts leave no path between some of its hosts".to_owned()
    } else if block.stop < plan.duration {
        format!("set `stop` of this traffic, which is {}, to a later time", block.stop)
    } else if finished + 1 == *iterations {
        format!("increase `duration`, which is {}, or `drain`", plan.duration)
    } else {
        format!("increase `duration`, which is {}", plan.duration)
    };
    format!(
        "{name}: {finished} of {iterations} iterations finished by the end of the run: {remedy}"
    )
}

/// A warning about a run with `until = "done"` that reached its duration first; `None` if only
/// messages of the jobs `cut` were unfinished, whose warnings name the same key.
fn awaited(
    end: &End<'_>,
    cut: &[(&JobSummary, &Traffic)],
    no_path: impl Fn(u32, u32) -> bool,
) -> Option<String> {
    let End { plan, outcome, awaited, .. } = *end;
    let is_named = cut.iter().any(|(_, block)| block.stop >= plan.duration);
    let hosts = plan.fabric.hosts.len() as u32;
    let is_finite =
        |block: &&Traffic| block.pattern.schedule().is_none() && block.messages(hosts).is_some();
    let finite: BTreeSet<Kind> = plan.workload.traffic.iter().filter(is_finite).map(kind).collect();
    let is_other = |record: &FlowRecord| {
        let FlowRecord { src, dst, start, bytes, label, stack, .. } = *record;
        let is_it =
            |flow: &Flow| (flow.src, flow.dst, flow.start, flow.bytes) == (src, dst, start, bytes);
        bytes != Message::UNLIMITED
            && (finite.contains(&(label, stack)) || plan.workload.flows.iter().any(is_it))
    };
    let others = || outcome.unfinished.iter().filter(|record| is_other(record));
    (awaited > 0 && (!is_named || others().next().is_some())).then(|| {
        let (messages, were) = if awaited == 1 { ("message", "was") } else { ("messages", "were") };
        let remedy = match others().any(|record| no_path(record.src, record.dst)) {
            true => "failed links or hosts leave no path for some of them".to_owned(),
            false => format!("increase `duration`, which is {}", plan.duration),
        };
        format!(
            "until = \"done\": {awaited} {messages} of collectives, jobs, chains and listed flows \
             {were} unfinished at the end: {remedy}"
        )
    })
}

#[cfg(test)]
mod tests {
    use crate::observe::summary::tests::group;

    #[test]
    fn unfinished_messages_cause_a_warning() {
        let warning = |unfinished, count, is_reported| {
            let mut group = group("shy", 1.0);
            (group.fct.unfinished, group.fct.count) = (unfinished, count);
            super::unfinished(&group, || is_reported, || None)
        };
        for is_reported in [false, true] {
            let some = warning(3, 100, is_reported).unwrap();
            let expected = "3 of 100 messages of shy (3.0 %) did not finish: the mean covers";
            assert!(some.starts_with(expected), "{some}");
            let none = warning(2, 100, is_reported).or(warning(0, 0, is_reported));
            assert_eq!(none, None);
        }
        // No others, so no mean.
        let none = ["the only message of shy", "all 7 messages of shy"].map(|messages| {
            let remedy = "increase `duration` or `drain`";
            Some(format!("{messages} did not finish: no completion times; {remedy}"))
        });
        assert_eq!([warning(1, 1, false), warning(7, 7, false)], none);
        assert_eq!(warning(7, 7, true), None);
        let mut group = group("shy", 1.0);
        (group.fct.unfinished, group.fct.count) = (7, 7);
        let overload = || Some("1.50 times the capacity of the link of h0".to_owned());
        let found = super::unfinished(&group, || false, overload).unwrap();
        let expected = "reduce the load, which is up to 1.50 times the capacity of the link of h0";
        assert!(found.ends_with(expected), "{found}");
    }
}
