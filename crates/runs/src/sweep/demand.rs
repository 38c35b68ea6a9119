//! The traffic that a workload brings, as far as it is known before the run.

use tidegate_core::fabric::{Link, Node};
use tidegate_core::workload::{Flow, Pattern, Sizes, Traffic, Workload};
use tidegate_core::{Message, Span, Time};
use tidegate_scenario::Plan;
use tidegate_sim::{FlowRecord, flows};

use crate::Error;
use crate::fair_share::unlimited;

/// Kind of traffic, by the facts that are known before the run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// All messages: `until = "done"` waits for them.
    Finite,
    /// The messages by any time: they arrive at a rate, or periodically.
    Open,
    /// Start and stop of flows without a size.
    Unlimited,
    /// Start and stop of clients that wait for replies.
    Closed,
}

impl Kind {
    pub(super) const COUNT: usize = 4;
}

/// Messages that arrive, or flows or clients that send, between two times.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Source {
    pub(super) kind: Kind,
    pub(super) start: Time,
    /// For a message, the earliest end: it arrives no faster than a host's link carries it.
    stop: Time,
    /// Data packets per second of messages; number of clients, or of unlimited flows that would
    /// have the same rate if each had a host's link for itself.
    rate: f64,
}

/// After this number of messages, a block of traffic is assumed to continue at its mean rate. Runs
/// of hours have billions.
const MESSAGES_MAX: usize = 200_000;
/// Number of sources that stand for the messages after these.
const SLICES: u64 = 1000;

/// Number of full packets that have the payload of a message.
fn packets(plan: &Plan, bytes: f64) -> f64 {
    (bytes / f64::from(plan.fabric.mtu)).ceil().max(1.0)
}

/// Full packets per second on the fastest link of a host.
fn line_rate(plan: &Plan) -> f64 {
    let is_host = |node| matches!(node, Node::Host(_));
    let of_host =
        |(port, link): &(u32, &Link)| (is_host(link.a) || is_host(link.b)).then_some(*port);
    let ports = (0..).step_by(2).zip(&plan.fabric.links).filter_map(|link| of_host(&link));
    let fastest = ports.map(|port| plan.fabric.fastest(port).as_bps()).max().unwrap_or(1);
    fastest as f64 / 8.0 / f64::from(plan.fabric.mtu)
}

/// Traffic of one kind before, in, and after the last quarter of a trial run: packets of messages,
/// or seconds of all unlimited flows or clients together.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Demand {
    before: f64,
    lately: f64,
    pub(super) after: f64,
}

/// Begin and end of the last quarter of a trial run, and the end of the run.
#[derive(Clone, Copy)]
pub(super) struct Times {
    pub(super) before: Time,
    pub(super) now: Time,
    pub(super) end: Time,
}

impl Demand {
    pub(super) fn add(&mut self, times: Times, source: &Source) {
        let Source { start, stop, rate, .. } = *source;
        let within = |from: Time, to: Time| to.min(stop).since(from.max(start)).as_s_f64() * rate;
        self.before += within(Time::ZERO, times.before);
        self.lately += within(times.before, times.now);
        self.after += within(times.now, times.end);
    }

    pub(super) fn so_far(&self) -> f64 {
        self.before + self.lately
    }

    /// Packets of messages that will arrive in the rest of the run, and the seconds that all of
    /// them need at the rate so far; `None` if none has arrived. `lately` of those `delivered` so
    /// far arrived in the last quarter.
    pub(super) fn messages(&self, times: Times, delivered: f64, lately: f64) -> (f64, Option<f64>) {
        let all = (self.so_far() - delivered).max(0.0) + self.after;
        if delivered == 0.0 {
            return (all, (all == 0.0).then_some(0.0));
        }
        let quarter = times.now.since(times.before).as_s_f64().max(1e-12);
        // Computation between messages may fill the last quarter, hence the mean.
        let rate = (lately / quarter).max(delivered / times.now.as_s_f64());
        let left = times.end.since(times.now).as_s_f64();
        // An overloaded network delivers a share of what is submitted. If more is submitted than
        // before, it may deliver more.
        let share = if self.lately > 0.0 { (lately / self.lately).min(1.0) } else { 1.0 };
        (all.min((rate * left).max(share * self.after)), Some(all / rate))
    }

    /// Packets that unlimited flows or clients will send if they continue as in the last quarter;
    /// `None` if none has sent so far.
    pub(super) fn lasting(&self, delivered: f64, lately: f64) -> Option<f64> {
        let so_far = self.so_far();
        match () {
            () if self.after == 0.0 => Some(0.0),
            () if lately > 0.0 && self.lately > 0.0 => Some(lately / self.lately * self.after),
            () if delivered > 0.0 && so_far > 0.0 => Some(delivered / so_far * self.after),
            () => None,
        }
    }
}

/// Calls `each` with the sources of the run that start before `until` and are finite, or are not.
///
/// # Errors
/// Those of `each`.
pub(super) fn sources(
    plan: &Plan,
    is_finite: bool,
    until: Time,
    mut each: impl FnMut(Source) -> Result<(), Error>,
) -> Result<(), Error> {
    let line = line_rate(plan);
    let shares = (!is_finite).then(|| unlimited(plan)).flatten();
    for &flow in &plan.workload.flows {
        let (source, _) = of_flow(plan, Kind::Finite, &flow, (0.0, line));
        let is_shared = source.kind == Kind::Unlimited && shares.is_some();
        if (source.kind == Kind::Finite) == is_finite && flow.start < until && !is_shared {
            each(source)?;
        }
    }
    let line_gbps = line * f64::from(plan.fabric.mtu) * 8.0 / 1e9;
    for (start, stop, gbps) in shares.into_iter().flatten().filter(|(start, ..)| *start < until) {
        each(Source { kind: Kind::Unlimited, start, stop, rate: gbps / line_gbps })?;
    }
    let hosts = plan.fabric.hosts.len() as u32;
    for (number, block) in plan.workload.traffic.iter().enumerate() {
        let kind = kind(block, hosts);
        if (kind == Kind::Finite) != is_finite || block.start >= until {
            continue;
        }
        let start = block.start;
        // All ranks send at the same time.
        let of_ranks = |ranks: u32, iterations: u32, packets: f64| {
            message(kind, start, f64::from(iterations) * packets, f64::from(ranks) * line)
        };
        match &block.pattern {
            Pattern::Collective(of) => {
                let sizes = of.sizes().into_iter();
                let all = sizes.map(|(bytes, count)| packets(plan, bytes as f64) * count as f64);
                each(of_ranks(of.ranks(), of.iterations, all.sum()))?;
            }
            Pattern::Job(of) => {
                let all = of.program.sizes().map(|bytes| packets(plan, bytes as f64));
                each(of_ranks(of.program.ranks(), of.iterations, all.sum()))?;
            }
            Pattern::ClosedLoop { clients, .. } => {
                each(Source { kind, start, stop: block.stop, rate: clients.len() as f64 })?;
            }
            Pattern::Answered { of, replies, .. } => {
                let replies = packets(plan, replies.mean_bytes());
                let block = Traffic { pattern: (**of).clone(), ..block.clone() };
                drawn(plan, number, (kind, block), (replies, line), until, &mut each)?;
            }
            _ => drawn(plan, number, (kind, block.clone()), (0.0, line), until, &mut each)?,
        }
    }
    Ok(())
}

/// Calls `each` with the messages that a block of traffic with this number draws in the run. Each
/// has `more` packets in addition to its own. `line` is the rate of hosts.
fn drawn(
    plan: &Plan,
    number: usize,
    (kind, block): (Kind, Traffic),
    (more, line): (f64, f64),
    until: Time,
    each: &mut impl FnMut(Source) -> Result<(), Error>,
) -> Result<(), Error> {
    let (start, end) = (block.start, block.stop.min(until));
    // The number of a block selects its random stream.
    let empty = Traffic { pattern: Pattern::Trace(Vec::new()), ..block.clone() };
    let mut traffic = vec![empty; number];
    traffic.push(block);
    let workload = Workload { flows: Vec::new(), traffic };
    let hosts = plan.fabric.hosts.len() as u32;
    let (mut sum, mut last) = (0.0, start);
    for (count, flow) in flows(&workload, hosts, plan.seed, until).enumerate() {
        let (source, packets) = of_flow(plan, kind, &flow, (more, line));
        if kind == Kind::Open && count >= MESSAGES_MAX && last > start {
            let rate = sum / last.since(start).as_s_f64();
            let slice = Span::ps(end.since(last).as_ps() / SLICES);
            return (0..SLICES).try_for_each(|number| {
                let start = last.after(slice.times(number));
                each(Source { kind, start, stop: start.after(slice), rate })
            });
        }
        (sum, last) = (sum + packets, flow.start);
        each(source)?;
    }
    Ok(())
}

/// The source of a flow, and its packets.
fn of_flow(plan: &Plan, kind: Kind, flow: &Flow, (more, line): (f64, f64)) -> (Source, f64) {
    let Flow { bytes, start, stop, .. } = *flow;
    if bytes == Message::UNLIMITED {
        return (Source { kind: Kind::Unlimited, start, stop, rate: 1.0 }, 0.0);
    }
    let packets = packets(plan, bytes as f64) + more;
    (message(kind, start, packets, line), packets)
}

/// Messages of this number of packets that arrive at this rate.
fn message(kind: Kind, start: Time, packets: f64, rate: f64) -> Source {
    Source { kind, start, stop: start.after(Span::from_ps_f64(packets / rate * 1e12)), rate }
}

fn kind(block: &Traffic, hosts: u32) -> Kind {
    match block.pattern {
        Pattern::ClosedLoop { .. } => Kind::Closed,
        _ if block.messages(hosts).is_some() => Kind::Finite,
        _ if block.sizes == Sizes::Fixed(Message::UNLIMITED) => Kind::Unlimited,
        _ => Kind::Open,
    }
}

/// The kind of a message, and the data packets of it that have arrived.
pub(super) fn delivered(plan: &Plan, record: &FlowRecord) -> (Kind, f64) {
    let FlowRecord { bytes, delivered_bytes, listed, exchange, .. } = *record;
    let delivered = delivered_bytes as f64;
    if bytes == Message::UNLIMITED {
        return (Kind::Unlimited, delivered / f64::from(plan.fabric.mtu));
    }
    let is_closed = |label: u16| {
        let closed = |of: &Pattern| matches!(of, Pattern::ClosedLoop { .. });
        plan.workload.traffic.iter().any(|block| block.label == label && closed(&block.pattern))
    };
    let kind = match exchange {
        _ if listed => Kind::Finite,
        Some(exchange) if is_closed(exchange.label) => Kind::Closed,
        _ => Kind::Open,
    };
    (kind, packets(plan, bytes as f64) * delivered / bytes.max(1) as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plan(text: &str) -> Plan {
        let text = format!(
            "duration = '10ms'\ntransport = {{ protocol = 'PROTOCOL' }}\n\
             fabric = {{ kind = 'star', hosts = 4, mtu = '1000B' }}\n{text}"
        );
        let text = text.replace("PROTOCOL", crate::protocols()[0].name);
        tidegate_scenario::load(&text, "test.toml", &[]).unwrap()
    }

    fn listed(plan: &Plan, is_finite: bool, until: Time) -> Vec<Source> {
        let mut all = Vec::new();
        let each = |source| {
            all.push(source);
            Ok(())
        };
        sources(plan, is_finite, until, each).unwrap();
        all
    }

    /// Kinds and data packets of all messages.
    fn messages(plan: &Plan, is_finite: bool) -> (Vec<Kind>, f64) {
        let all = listed(plan, is_finite, plan.duration);
        let packets = |source: &Source| source.stop.since(source.start).as_s_f64() * source.rate;
        let mut kinds: Vec<Kind> = all.iter().map(|source| source.kind).collect();
        kinds.dedup();
        (kinds, all.iter().map(packets).sum())
    }

    #[test]
    fn finite_traffic_has_known_packets() {
        let cases = [
            ("flows = [{ src = 'h0', dst = 'h1', size = '2500B', count = 2 }]", 6.0),
            ("[[traffic]]\nkind = 'permutation'\nsizes = '1MB'", 4e3),
            ("[[traffic]]\nkind = 'all-to-all'\nsizes = '1KB'", 12.0),
            // Two times three quarters of the data leave each rank in each iteration.
            (
                "[[traffic]]\nkind = 'collective'\nop = 'ring-all-reduce'\nsize = '4MB'\n\
                 iterations = 5",
                5.0 * 4.0 * 6e3,
            ),
        ];
        for (text, packets) in cases {
            let plan = plan(text);
            let (kinds, sum) = messages(&plan, true);
            assert_eq!(kinds, [Kind::Finite], "{text}");
            assert!((sum / packets - 1.0).abs() < 1e-3, "{text}: {sum}");
            assert!(listed(&plan, false, plan.duration).is_empty(), "{text}");
        }
    }

    #[test]
    fn open_traffic_is_as_in_the_run() {
        let text = "[[traffic]]\nkind = 'poisson'\nsizes = '20KB'\nload = 0.5\nstart = '6ms'\n";
        let plan = plan(text);
        let all = listed(&plan, false, plan.duration);
        let hosts = plan.fabric.hosts.len() as u32;
        let starts: Vec<Time> =
            flows(&plan.workload, hosts, plan.seed, plan.duration).map(|flow| flow.start).collect();
        assert!(starts.len() > 100 && starts[0] >= Time::ms(6), "{}", starts.len());
        assert_eq!(all.iter().map(|source| source.start).collect::<Vec<_>>(), starts);
        let packets = 20.0 * starts.len() as f64;
        assert!((messages(&plan, false).1 / packets - 1.0).abs() < 1e-6);
    }

    #[test]
    fn long_open_traffic_continues_at_its_mean_rate() {
        // At eight times the load.
        let mut plan = plan("[[traffic]]\nkind = 'poisson'\nsizes = '1KB'\nload = 0.5\n");
        let Pattern::Poisson { mean_gap_ps, .. } = &mut plan.workload.traffic[0].pattern else {
            unreachable!("it is Poisson")
        };
        *mean_gap_ps /= 8.0;
        let whole = flows(&plan.workload, 4, plan.seed, plan.duration).count();
        assert!(whole > 2 * MESSAGES_MAX, "{whole}");
        let all = listed(&plan, false, plan.duration);
        assert_eq!(all.len(), MESSAGES_MAX + SLICES as usize);
        let (_, packets) = messages(&plan, false);
        assert!((packets / whole as f64 - 1.0).abs() < 0.02, "{packets} of {whole}");
    }

    /// Kinds do not depend on labels.
    #[test]
    fn kinds_of_arrived_packets() {
        let plan = plan(
            "flows = [\n\
             { src = 'h0', dst = 'h1', size = '1.5MB' },\n{ src = 'h2', dst = 'h3' },\n]\n\
             [[traffic]]\nkind = 'poisson'\nsizes = '2500B'\nload = 0.1\n\
             reply = '500B'\nstop = '9ms'\n\
             [[traffic]]\nkind = 'closed-loop'\nrequest = '1KB'\nreply = '9KB'\n\
             think = '1ms'\nlabel = 'rpc'\n",
        );
        let mut engine =
            tidegate_sim::simulation::unobserved(plan.setup.clone(), 1).expect("it is valid");
        while !engine.is_over() {
            engine.advance_some(plan.duration, u64::MAX).expect("it runs");
        }
        let outcome = engine.finish().expect("one process");
        let mut packets = [0.0; Kind::COUNT];
        for record in outcome.finished.iter().chain(&outcome.unfinished) {
            let (kind, arrived) = delivered(&plan, record);
            packets[kind as usize] += arrived;
        }
        assert_eq!(packets[Kind::Finite as usize], 1500.0);
        // Three packets and their reply, at once.
        let mut demand = Demand::default();
        for source in listed(&plan, false, plan.duration) {
            let times = Times { before: Time::ZERO, now: Time::ZERO, end: Time::NEVER };
            if source.kind == Kind::Open {
                demand.add(times, &source);
            }
        }
        assert!(demand.after > 400.0, "{demand:?}");
        let ratio = packets[Kind::Open as usize] / demand.after;
        assert!((0.99..=1.001).contains(&ratio), "{ratio}");
        assert!(packets[Kind::Unlimited as usize] > 1e4, "{packets:?}");
        // A request and nine packets per client and round, of at least a millisecond.
        let rounds = packets[Kind::Closed as usize] / 40.0;
        assert!((5.0..=10.0).contains(&rounds), "{packets:?}");
    }

    #[test]
    fn lasting_traffic_has_clients_and_times() {
        let plan = plan(
            "flows = [{ src = 'h0', dst = 'h1', start = '1ms', stop = '3ms' }]\n\
             [[traffic]]\nkind = 'closed-loop'\nrequest = '1KB'\nreply = '9KB'\nstart = '2ms'\n\
             stop = '9ms'\n",
        );
        let mut demand = [Demand::default(); Kind::COUNT];
        let times = Times { before: Time::ms(2), now: Time::ms(4), end: Time::ms(10) };
        for source in listed(&plan, false, plan.duration) {
            demand[source.kind as usize].add(times, &source);
        }
        let of = |kind| {
            let Demand { before, lately, after } = demand[kind as usize];
            [before, lately, after].map(|seconds| (seconds * 1e6).round() / 1e3)
        };
        assert_eq!(of(Kind::Unlimited), [1.0, 1.0, 0.0]);
        assert_eq!(of(Kind::Closed), [0.0, 4.0 * 2.0, 4.0 * 5.0]);
        assert_eq!(of(Kind::Open), [0.0; 3]);
        assert!(listed(&plan, true, plan.duration).is_empty());
    }

    #[test]
    fn unlimited_flows_share_links() {
        let plan = plan(
            "flows = [\n{ src = 'h0', dst = 'h3' },\n\
             { src = 'h1', dst = 'h3', start = '4ms' },\n\
             { src = 'h2', dst = 'h1', start = '6ms' },\n]\n",
        );
        let mut demand = Demand::default();
        let times = Times { before: Time::ms(2), now: Time::ms(5), end: plan.duration };
        listed(&plan, false, plan.duration).iter().for_each(|source| demand.add(times, source));
        // One link is full, and from 6 ms on two links are.
        let Demand { before, lately, after } = demand;
        let expected = [2.0, 3.0, 1.0 + 2.0 * 4.0];
        for (ours, expected) in [before, lately, after].into_iter().zip(expected) {
            assert!((ours * 1e3 - expected).abs() < 1e-6, "{demand:?}");
        }
    }

    const TIMES: Times = Times { before: Time::ms(3), now: Time::ms(4), end: Time::ms(8) };

    #[test]
    fn messages_arrive_at_the_rate_of_the_network() {
        let of = |before, lately, after, delivered, recent| {
            Demand { before, lately, after }.messages(TIMES, delivered, recent).0
        };
        assert_eq!(of(30.0, 10.0, 40.0, 36.0, 9.0), 4.0 * 9.0, "steady");
        assert_eq!(of(3.0, 10.0, 400.0, 13.0, 10.0), 400.0, "the load rises");
        assert_eq!(of(60.0, 20.0, 80.0, 40.0, 10.0), 40.0, "overloaded");
        assert_eq!(of(100.0, 0.0, 0.0, 80.0, 20.0), 20.0, "all is submitted");
        assert_eq!(of(1000.0, 0.0, 0.0, 80.0, 20.0), 80.0, "and more than can arrive");
        assert_eq!(of(0.0, 0.0, 50.0, 0.0, 0.0), 50.0, "nothing so far");
    }

    #[test]
    fn lasting_traffic_continues_as_in_the_last_quarter() {
        let of = |before, lately, after, delivered, recent| {
            Demand { before, lately, after }.lasting(delivered, recent)
        };
        assert_eq!(of(3.0, 1.0, 4.0, 35.0, 10.0), Some(40.0));
        assert_eq!(of(2.0, 0.0, 4.0, 35.0, 0.0), Some(70.0), "none lately");
        assert_eq!(of(2.0, 0.0, 0.0, 35.0, 0.0), Some(0.0));
        assert_eq!(of(0.0, 0.0, 4.0, 0.0, 0.0), None);
    }
}
