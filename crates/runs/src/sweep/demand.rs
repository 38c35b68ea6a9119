//! The traffic that a workload brings, as far as it is known before the run.

use tidegate_core::fabric::Node;
use tidegate_core::workload::{Flow, Pattern, Sizes, Traffic, Workload};
use tidegate_core::{Message, Span, Time};
use tidegate_scenario::Plan;
use tidegate_sim::{FlowRecord, flows};

use crate::Error;
use crate::fair_share::unlimited;

/// Kind of traffic, by the properties that are known before the run.
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

/// Data packets between two times, if links of hosts and the fair shares of flows are the limit.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Source {
    pub(super) kind: Kind,
    pub(super) start: Time,
    stop: Time,
    /// Packets per second.
    rate: f64,
}

/// After this number of messages, a block of traffic is assumed to repeat them, at the same mean
/// rate. Runs of hours have billions.
const MESSAGES_MAX: usize = 200_000;
/// The same for a rough number of packets, without a trial run.
const MESSAGES_FEW: usize = 2_000;

/// Number of full packets that have the payload of a message.
fn packets(plan: &Plan, bytes: f64) -> f64 {
    (bytes / f64::from(plan.fabric.mtu)).ceil().max(1.0)
}

/// A message whose time is known before the run.
#[derive(Clone, Copy)]
struct Submitted {
    start: Time,
    src: u32,
    dst: u32,
    data: Load,
    /// The reply.
    reply: Load,
}

/// Data packets, and their bytes on a link.
#[derive(Clone, Copy, Default)]
struct Load {
    packets: f32,
    wire_bytes: f32,
}

impl Load {
    /// A message of this payload under a transport of the plan.
    fn of(plan: &Plan, bytes: f64, stack: u16) -> Load {
        let (packets, mtu) = (packets(plan, bytes), plan.fabric.mtu);
        let (full_wire_bytes, _) = plan.stacks[usize::from(stack)].full_packet(mtu, 1);
        let wire_bytes = bytes + packets * f64::from(full_wire_bytes - mtu);
        Load { packets: packets as f32, wire_bytes: wire_bytes as f32 }
    }

    fn times(self, factor: f64) -> Load {
        let Load { packets, wire_bytes } = self;
        Load { packets: packets * factor as f32, wire_bytes: wire_bytes * factor as f32 }
    }
}

/// The links of hosts: their rates, and until when the messages so far occupy them.
struct HostLinks {
    /// Bytes per second.
    rates: Vec<f64>,
    /// The highest of them.
    line: f64,
    up: Vec<Time>,
    down: Vec<Time>,
}

impl HostLinks {
    fn of(plan: &Plan) -> HostLinks {
        let hosts = plan.fabric.hosts.len();
        let mut rates = vec![0.0_f64; hosts];
        for (port, link) in (0..).step_by(2).zip(&plan.fabric.links) {
            let rate = plan.fabric.fastest(port).as_bps() as f64 / 8.0;
            for node in [link.a, link.b] {
                if let Node::Host(host) = node {
                    rates[host as usize] = rates[host as usize].max(rate);
                }
            }
        }
        let line = rates.iter().copied().fold(0.0, f64::max);
        HostLinks { rates, line, up: vec![Time::ZERO; hosts], down: vec![Time::ZERO; hosts] }
    }

    /// The message as it arrives if every link carries one message after another, in order of
    /// submission. The number of bytes that links carry does not depend on the order.
    fn carry(&mut self, kind: Kind, message: Submitted) -> Source {
        let Submitted { start, src, dst, data, reply } = message;
        let mut stop = start;
        for (from, to, of) in [(src, dst, data), (dst, src, reply)] {
            for (busy, host) in [(&mut self.up, from as usize), (&mut self.down, to as usize)] {
                let takes = Span::from_ps_f64(f64::from(of.wire_bytes) / self.rates[host] * 1e12);
                busy[host] = busy[host].max(start).after(takes);
                stop = stop.max(busy[host]);
            }
        }
        let packets = f64::from(data.packets) + f64::from(reply.packets);
        let wire_bytes = f64::from(data.wire_bytes) + f64::from(reply.wire_bytes);
        let alone = Span::from_ps_f64(wire_bytes / self.line * 1e12);
        let start = start.max(stop.before(alone));
        Source { kind, start, stop, rate: packets / stop.since(start).as_s_f64().max(1e-12) }
    }
}

/// Data packets of one kind before, in, and after the last quarter of a trial run, if links of
/// hosts and fair shares are the limit.
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
        // An overloaded network delivers a share of what hosts could receive. If they could receive
        // more than before, it may deliver more.
        let share = if self.lately > 0.0 { (lately / self.lately).min(1.0) } else { 1.0 };
        (all.min((rate * left).max(share * self.after)), Some(all / rate))
    }

    /// Packets of unlimited flows or clients that will arrive if they continue as in the last
    /// quarter; `None` if none has arrived so far.
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

/// Data packets of a run, if links of hosts and fair shares are the limit.
///
/// # Errors
/// Those of `check`.
pub(super) fn all_packets(
    plan: &Plan,
    check: &dyn Fn() -> Result<(), Error>,
) -> Result<f64, Error> {
    let end = plan.duration.after(plan.drain);
    let times = Times { before: Time::ZERO, now: Time::ZERO, end };
    let mut all = Demand::default();
    for is_finite in [true, false] {
        each_source(plan, is_finite, plan.duration, MESSAGES_FEW, |source| {
            all.add(times, &source);
            check()
        })?;
    }
    Ok(all.after)
}

/// Calls `each` with the sources of the run that start before `until` and are finite, or are not.
///
/// # Errors
/// Those of `each`.
pub(super) fn sources(
    plan: &Plan,
    is_finite: bool,
    until: Time,
    each: impl FnMut(Source) -> Result<(), Error>,
) -> Result<(), Error> {
    each_source(plan, is_finite, until, MESSAGES_MAX, each)
}

/// The same, with at most `most` different messages of a block of open traffic.
fn each_source(
    plan: &Plan,
    is_finite: bool,
    until: Time,
    most: usize,
    mut each: impl FnMut(Source) -> Result<(), Error>,
) -> Result<(), Error> {
    let mut links = HostLinks::of(plan);
    // Full packets per second.
    let line = links.line / f64::from(plan.fabric.mtu);
    let mut submitted = Vec::new();
    let shares = (!is_finite).then(|| unlimited(plan)).flatten();
    for flow in plan.workload.flows.iter().filter(|flow| flow.start < until) {
        let is_unlimited = flow.bytes == Message::UNLIMITED;
        if is_unlimited && !is_finite && shares.is_none() {
            each(lasting(flow, line))?;
        } else if !is_unlimited && is_finite {
            submitted.push(message(plan, flow, None));
        }
    }
    for (start, stop, gbps) in shares.into_iter().flatten().filter(|(start, ..)| *start < until) {
        let rate = gbps * 1e9 / 8.0 / f64::from(plan.fabric.mtu);
        each(Source { kind: Kind::Unlimited, start, stop, rate })?;
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
            let rate = f64::from(ranks) * line;
            let takes = Span::from_ps_f64(f64::from(iterations) * packets / rate * 1e12);
            Source { kind, start, stop: start.after(takes), rate }
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
            Pattern::ClosedLoop { clients, replies, think, .. } => {
                let of = |sizes: &Sizes| packets(plan, sizes.mean_bytes());
                let round = of(&block.sizes) + of(replies);
                let rate = clients.len() as f64 * round / (think.as_s_f64() + round / line);
                each(Source { kind, start, stop: block.stop, rate })?;
            }
            Pattern::Answered { of, replies, .. } => {
                let reply = Some(replies.mean_bytes());
                let block = Traffic { pattern: (**of).clone(), ..block.clone() };
                draw(plan, (number, block), (kind, reply), (until, most), &mut submitted);
            }
            _ if kind == Kind::Unlimited => {
                let flows = drawn(plan, (number, block.clone()), until);
                flows.map(|flow| lasting(&flow, line)).try_for_each(&mut each)?;
            }
            _ => draw(plan, (number, block.clone()), (kind, None), (until, most), &mut submitted),
        }
    }
    submitted.sort_by_key(|message| message.start);
    let kind = if is_finite { Kind::Finite } else { Kind::Open };
    submitted.into_iter().try_for_each(|message| each(links.carry(kind, message)))
}

/// The flows that start before `until`, of the block of traffic with this number.
fn drawn(
    plan: &Plan,
    (number, block): (usize, Traffic),
    until: Time,
) -> impl Iterator<Item = Flow> {
    // The number of a block selects its random stream.
    let empty = Traffic { pattern: Pattern::Trace(Vec::new()), ..block.clone() };
    let mut traffic = vec![empty; number];
    traffic.push(block);
    let workload = Workload { flows: Vec::new(), traffic };
    flows(&workload, plan.fabric.hosts.len() as u32, plan.seed, until)
}

/// Adds the messages of this block of traffic, each with a reply of `reply` bytes.
fn draw(
    plan: &Plan,
    (number, block): (usize, Traffic),
    (kind, reply): (Kind, Option<f64>),
    (until, most): (Time, usize),
    submitted: &mut Vec<Submitted>,
) {
    let (start, end, before) = (block.start, block.stop.min(until), submitted.len());
    for flow in drawn(plan, (number, block), until) {
        let last = submitted.last().map_or(start, |last| last.start).max(start);
        if kind == Kind::Open && submitted.len() >= before + most && last > start {
            // All messages so far once more, over the rest of the time.
            let factor = end.since(last).as_s_f64() / last.since(start).as_s_f64();
            for number in before..submitted.len() {
                let of = submitted[number];
                let start = last.after(of.start.since(start).scale(factor));
                let [data, reply] = [of.data, of.reply].map(|of| of.times(factor));
                submitted.push(Submitted { start, data, reply, ..of });
            }
            return;
        }
        submitted.push(message(plan, &flow, reply));
    }
}

fn message(plan: &Plan, flow: &Flow, reply: Option<f64>) -> Submitted {
    let Flow { src, dst, bytes, start, stack, .. } = *flow;
    let load = |bytes| Load::of(plan, bytes, stack);
    let reply = reply.map_or_else(Load::default, load);
    Submitted { start, src, dst, data: load(bytes as f64), reply }
}

/// The source of a flow without a size that has a link of this rate for itself.
fn lasting(flow: &Flow, line: f64) -> Source {
    Source { kind: Kind::Unlimited, start: flow.start, stop: flow.stop, rate: line }
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

    /// Wire bytes over payload of a full packet.
    const HEADERS: f64 = 1.08;

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
        // Not before its submission, and some at once.
        assert_eq!(all.len(), starts.len());
        assert!(all.iter().zip(&starts).all(|(source, start)| source.start >= *start));
        assert!(all.iter().zip(&starts).any(|(source, start)| source.start == *start));
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
        assert_eq!(all.len(), 2 * MESSAGES_MAX);
        let (_, packets) = messages(&plan, false);
        assert!((packets / whole as f64 - 1.0).abs() < 0.02, "{packets} of {whole}");
        // Links carry about a quarter of it, and there is no gap.
        let times = Times { before: Time::ms(3), now: Time::ms(6), end: Time::ms(9) };
        let mut demand = Demand::default();
        all.iter().for_each(|source| demand.add(times, source));
        let line = 12.5e3 / HEADERS * 4.0 * 3.0;
        for carried in [demand.before, demand.lately, demand.after] {
            assert!((0.95..=1.0).contains(&(carried / line)), "{demand:?}");
        }
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
            // Milliseconds of a link of 100 Gbit/s.
            [before, lately, after].map(|packets| (packets / 12.5).round() / 1e3)
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
            assert!((ours / 12.5e3 - expected).abs() < 1e-6, "{demand:?}");
        }
    }

    #[test]
    fn messages_wait_for_links_of_hosts() {
        // Two messages of 1.08 ms each to one receiver, and two from one sender.
        for (one, other) in [
            ("src = 'h0', dst = 'h2'", "src = 'h1', dst = 'h2'"),
            ("src = 'h0', dst = 'h1'", "src = 'h0', dst = 'h2'"),
        ] {
            let flow = |ends| format!("{{ {ends}, size = '12.5MB' }},\n");
            let plan = plan(&format!("flows = [\n{}{}]\n", flow(one), flow(other)));
            let all = listed(&plan, true, plan.duration);
            let times: Vec<_> = all.iter().map(|source| (source.start, source.stop)).collect();
            let [first, second] = [Time::us(1080), Time::us(2160)];
            assert_eq!(times, [(Time::ZERO, first), (first, second)]);
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
