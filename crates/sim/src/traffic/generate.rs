//! Generates the flows of a workload, in order of time.
//!
//! Every block of traffic and every sending host draws from a random stream of its own, so arrivals
//! are the same under every protocol, and an added block changes no other block.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::sync::Arc;

use tidegate_core::workload::{Flow, Pattern, Traffic, Workload, share};
use tidegate_core::{Domain, Message, Rng, Span, Time};

/// Flows to come. Holds one arrival per source, not per message.
pub(crate) struct Generator {
    /// (time, rank among equals, source).
    due: BinaryHeap<Reverse<(Time, u64, u32)>>,
    sources: Vec<Source>,
    order: u64,
}

/// The flows of a workload on `hosts` hosts that start before `until`, in order of time. Dependent
/// messages (closed loops, collectives, replies) are not included, nor are messages that are
/// answered: they start when others have arrived.
pub fn flows(
    workload: &Workload,
    hosts: u32,
    seed: u64,
    until: Time,
) -> impl Iterator<Item = Flow> + use<> {
    let mut generator = Generator::new(workload, hosts, seed);
    std::iter::from_fn(move || generator.take(until.before(Span::ps(1))))
}

/// The flows that start before `until`, of the block of traffic with this number.
pub(crate) fn flows_of(
    block: &Traffic,
    number: u64,
    hosts: u32,
    seed: u64,
    until: Time,
) -> Vec<Flow> {
    let mut generator = Generator { due: BinaryHeap::new(), sources: Vec::new(), order: 0 };
    generator.add_block(block, number, hosts, seed);
    std::iter::from_fn(|| generator.take(until.before(Span::ps(1)))).collect()
}

/// A source of successive flows.
struct Source {
    /// The flow that it submits next.
    pending: Flow,
    next: Next,
}

/// Origin of a source's later flows.
enum Next {
    /// A list, in reverse order.
    List(Vec<Flow>),
    /// Poisson arrivals of one host.
    Poisson { rng: Rng, block: Arc<Traffic>, sender: u32 },
    /// Requests of one host, and the replies to the last request that have not been submitted.
    Requests { rng: Rng, block: Arc<Traffic>, asker: u32, rest: Vec<Flow> },
    /// Bursts, and the rest of the present burst in reverse order.
    Incast { rng: Rng, block: Arc<Traffic>, hosts: u32, burst_at: Time, rest: Vec<Flow> },
    /// One host of a rotating incast. The receiver is a function of the message's number.
    Rotating { rng: Rng, block: Arc<Traffic>, sender: u32, number: u64 },
}

impl Generator {
    pub(crate) fn new(workload: &Workload, hosts: u32, seed: u64) -> Generator {
        let mut generator = Generator { due: BinaryHeap::new(), sources: Vec::new(), order: 0 };
        let mut flows = workload.flows.clone();
        flows.sort_by_key(|flow| flow.start); // stable: equal times keep the order of the file
        flows.reverse();
        generator.add_list(flows);
        for (number, block) in workload.traffic.iter().enumerate() {
            generator.add_block(block, number as u64, hosts, seed);
        }
        generator
    }

    fn add_block(&mut self, block: &Traffic, number: u64, hosts: u32, seed: u64) {
        let stream = |entity: u64| Rng::stream(seed, Domain::Traffic, number << 32 | entity);
        match &block.pattern {
            Pattern::Permutation => {
                let mut rng = stream(u32::MAX as u64);
                let targets = derangement(hosts, &mut rng);
                let flows = (0..hosts)
                    .map(|src| flow(block, src, targets[src as usize], block.start, &mut rng));
                let flows: Vec<_> = flows.collect();
                self.add_list(flows.into_iter().rev().collect());
            }
            Pattern::AllToAll => {
                let mut rng = stream(u32::MAX as u64);
                let mut flows = Vec::new();
                for shift in 1..hosts {
                    flows.extend(
                        (0..hosts).map(|src| {
                            flow(block, src, (src + shift) % hosts, block.start, &mut rng)
                        }),
                    );
                }
                flows.reverse();
                self.add_list(flows);
            }
            Pattern::Trace(arrivals) => {
                let mut flows: Vec<_> = arrivals
                    .iter()
                    .map(|a| Flow {
                        src: a.src,
                        dst: a.dst,
                        bytes: a.bytes,
                        start: a.at,
                        ..template(block)
                    })
                    .collect();
                flows.reverse();
                self.add_list(flows);
            }
            // These messages start at their hosts, when others arrive.
            Pattern::ClosedLoop { .. }
            | Pattern::Collective(_)
            | Pattern::Job(_)
            | Pattern::Answered { .. } => {}
            Pattern::Requests { askers, .. } => {
                let block = Arc::new(block.clone());
                for &asker in askers {
                    let (rng, rest) = (stream(asker as u64), Vec::new());
                    let mut next = Next::Requests { rng, block: block.clone(), asker, rest };
                    if let Some(first) = next.draw(block.start) {
                        self.add(first, next);
                    }
                }
            }
            Pattern::Poisson { senders, .. } => {
                // Shared by all senders, because it lists them all.
                let block = Arc::new(block.clone());
                for &sender in senders {
                    let mut next =
                        Next::Poisson { rng: stream(sender as u64), block: block.clone(), sender };
                    if let Some(first) = next.draw(block.start) {
                        self.add(first, next);
                    }
                }
            }
            Pattern::Incast { interval, poisson, .. } => {
                let mut rng = stream(u32::MAX as u64);
                let burst_at = if *poisson {
                    block.start.after(interval.scale(rng.exponential()))
                } else {
                    block.start
                };
                let block = Arc::new(block.clone());
                let mut next =
                    Next::Incast { rng, block: block.clone(), hosts, burst_at, rest: Vec::new() };
                if let Some(first) = next.draw(block.start) {
                    self.add(first, next);
                }
            }
            Pattern::RotatingIncast { senders, jitter, .. } => {
                let block = Arc::new(block.clone());
                for &sender in senders {
                    let mut rng = stream(sender as u64);
                    let start = block.start.after(jitter.scale(rng.unit()));
                    let mut next = Next::Rotating { rng, block: block.clone(), sender, number: 0 };
                    if let Some(first) = next.draw(start) {
                        self.add(Flow { start, ..first }, next);
                    }
                }
            }
        }
    }

    /// Adds flows that are in reverse order of submission.
    fn add_list(&mut self, mut flows: Vec<Flow>) {
        if let Some(first) = flows.pop() {
            self.add(first, Next::List(flows));
        }
    }

    fn add(&mut self, first: Flow, next: Next) {
        let source = self.sources.len() as u32;
        self.sources.push(Source { pending: first, next });
        self.push(first.start, source);
    }

    fn push(&mut self, at: Time, source: u32) {
        self.order += 1;
        self.due.push(Reverse((at, self.order, source)));
    }

    /// Ends submissions.
    pub(crate) fn close(&mut self) {
        self.due.clear();
    }

    /// Time of the next flow.
    pub(crate) fn next_at(&self) -> Time {
        self.due.peek().map_or(Time::NEVER, |Reverse((at, ..))| *at)
    }

    /// Takes a flow that is due by `until`.
    pub(crate) fn take(&mut self, until: Time) -> Option<Flow> {
        self.take_one(until).map(|(flow, _)| flow)
    }

    /// Likewise, and whether it is one of a known number of messages, as
    /// [`Workload::messages`] counts them.
    pub(crate) fn take_one(&mut self, until: Time) -> Option<(Flow, bool)> {
        let Reverse((at, _, index)) = self.due.peek().copied()?;
        if at > until {
            return None;
        }
        self.due.pop();
        let source = &mut self.sources[index as usize];
        let submitted = source.pending;
        let listed = source.next.is_listed() && submitted.bytes != Message::UNLIMITED;
        if let Some(next) = source.next.draw(submitted.start) {
            debug_assert!(next.start >= submitted.start, "flows come in order");
            source.pending = next;
            self.push(next.start, index);
        }
        Some((submitted, listed))
    }
}

impl Next {
    /// Whether the traffic is finite.
    fn is_listed(&self) -> bool {
        match self {
            Next::List(_) => true,
            Next::Incast { block, .. } => matches!(
                block.pattern,
                Pattern::Incast { interval: Span::FOREVER, poisson: false, .. }
            ),
            _ => false,
        }
    }

    /// The flow that follows the one submitted at `previous`.
    fn draw(&mut self, previous: Time) -> Option<Flow> {
        match self {
            Next::List(flows) => flows.pop(),
            Next::Poisson { rng, block, sender } => {
                let Pattern::Poisson { mean_gap_ps, receivers, .. } = &block.pattern else {
                    return None;
                };
                let at = previous.after(Span::from_ps_f64(mean_gap_ps * rng.exponential()));
                if at >= block.stop {
                    return None;
                }
                let dst = loop {
                    let dst = receivers[rng.below(receivers.len() as u64) as usize];
                    if dst != *sender {
                        break dst;
                    }
                };
                Some(flow(block, *sender, dst, at, rng))
            }
            Next::Incast { rng, block, hosts, burst_at, rest } => {
                let Pattern::Incast { fan_in, dst, interval, poisson, jitter } = block.pattern
                else {
                    return None;
                };
                // With much jitter, a burst starts before the last flow of the previous one.
                while *burst_at < block.stop
                    && rest.last().is_none_or(|first| *burst_at <= first.start)
                {
                    let dst = dst.unwrap_or_else(|| rng.below(*hosts as u64) as u32);
                    let mut others: Vec<u32> = (0..*hosts).filter(|&host| host != dst).collect();
                    rng.shuffle(&mut others);
                    rest.extend(others[..fan_in as usize].iter().map(|&src| {
                        let at = burst_at.after(jitter.scale(rng.unit()));
                        flow(block, src, dst, at, rng)
                    }));
                    rest.sort_by_key(|flow| Reverse(flow.start));
                    let gap = if poisson { interval.scale(rng.exponential()) } else { interval };
                    *burst_at =
                        if interval == Span::FOREVER { Time::NEVER } else { burst_at.after(gap) };
                }
                rest.pop()
            }
            Next::Requests { rng, block, asker, rest } => {
                if rest.is_empty() {
                    let Pattern::Requests { mean_gap_ps, .. } = block.pattern else { return None };
                    let at = previous.after(Span::from_ps_f64(mean_gap_ps * rng.exponential()));
                    if at >= block.stop {
                        return None;
                    }
                    *rest = replies(block, *asker, at, rng);
                }
                rest.pop()
            }
            Next::Rotating { rng, block, sender, number } => {
                let Pattern::RotatingIncast { receivers, gap_ps, .. } = &block.pattern else {
                    return None;
                };
                let at = if *number == 0 {
                    previous
                } else {
                    previous.after(Span::from_ps_f64(*gap_ps))
                };
                if at >= block.stop {
                    return None;
                }
                let receiver = |number: u64| receivers[(number % receivers.len() as u64) as usize];
                let dst = if receiver(*number) == *sender {
                    receiver(*number + 1)
                } else {
                    receiver(*number)
                };
                *number += 1;
                Some(flow(block, *sender, dst, at, rng))
            }
        }
    }
}

fn template(block: &Traffic) -> Flow {
    Flow {
        src: 0,
        dst: 0,
        bytes: 0,
        start: block.start,
        stop: Time::NEVER,
        stack: block.stack,
        label: block.label,
        dedicated: false,
    }
}

fn flow(block: &Traffic, src: u32, dst: u32, start: Time, rng: &mut Rng) -> Flow {
    Flow { src, dst, bytes: block.sizes.draw(rng), start, ..template(block) }
}

/// The replies to a request of `asker`, all of which start at `at`.
fn replies(block: &Traffic, asker: u32, at: Time, rng: &mut Rng) -> Vec<Flow> {
    let Pattern::Requests { racks, fan_in, .. } = &block.pattern else { return Vec::new() };
    let others: Vec<_> = racks.iter().filter(|rack| !rack.contains(&asker)).collect();
    let mut servers = others[rng.below(others.len() as u64) as usize].clone();
    rng.shuffle(&mut servers);
    let whole = block.sizes.draw(rng);
    let reply = |(number, &src)| {
        let bytes = share(whole, *fan_in, number);
        Flow { src, dst: asker, bytes, start: at, ..template(block) }
    };
    (0..*fan_in).zip(&servers).map(reply).collect()
}

/// A random permutation without fixed points.
fn derangement(n: u32, rng: &mut Rng) -> Vec<u32> {
    let mut targets: Vec<u32> = (0..n).collect();
    loop {
        rng.shuffle(&mut targets);
        if targets.iter().enumerate().all(|(i, &target)| i as u32 != target) {
            return targets;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;
    use tidegate_core::workload::Sizes;

    fn block(pattern: Pattern) -> Traffic {
        Traffic {
            pattern,
            sizes: Sizes::Fixed(1000),
            stack: 0,
            label: 0,
            start: Time::ZERO,
            stop: Time::ms(100),
        }
    }

    fn run(traffic: Vec<Traffic>, hosts: u32) -> Vec<Flow> {
        let workload = Workload { flows: Vec::new(), traffic };
        let mut generator = Generator::new(&workload, hosts, 1);
        let mut out = Vec::new();
        while generator.next_at() < Time::NEVER {
            let now = generator.next_at();
            while let Some(flow) = generator.take(now) {
                out.push(flow);
            }
        }
        out
    }

    #[test]
    fn permutation_has_no_fixed_points() {
        let flows = run(vec![block(Pattern::Permutation)], 17);
        let mut dsts: Vec<_> = flows.iter().map(|flow| flow.dst).collect();
        dsts.sort_unstable();
        assert!(dsts.into_iter().eq(0..17));
        assert!(flows.iter().all(|flow| flow.src != flow.dst));
    }

    #[test]
    fn poisson_has_its_rate_and_is_independent() {
        let poisson = |gap| {
            block(Pattern::Poisson {
                mean_gap_ps: gap,
                senders: (0..10).collect(),
                receivers: (0..10).collect(),
            })
        };
        let flows = run(vec![poisson(1e7)], 10);
        let expected = 10.0 * 100e9 / 1e7;
        assert!((flows.len() as f64 / expected - 1.0).abs() < 0.02, "{}", flows.len());
        assert!(flows.windows(2).all(|w| w[0].start <= w[1].start));
        let with_more = run(vec![poisson(1e7), block(Pattern::AllToAll)], 10);
        assert_eq!(with_more.len(), flows.len() + 90);
        let of_first = with_more.iter().filter(|flow| flow.start > Time::ZERO);
        assert!(of_first.eq(flows.iter()));
    }

    #[test]
    fn overlapping_bursts_are_in_order_of_time() {
        let (interval, jitter) = (Span::us(1), Span::us(20));
        for poisson in [false, true] {
            let incast = Pattern::Incast { fan_in: 4, dst: Some(0), interval, poisson, jitter };
            let flows = run(vec![Traffic { stop: Time::us(400), ..block(incast) }], 9);
            assert!(flows.len() > 1_000, "{}", flows.len());
            assert!(flows.windows(2).all(|pair| pair[0].start <= pair[1].start));
        }
    }

    #[test]
    fn replies_come_from_one_other_rack() {
        let racks: Vec<Vec<u32>> = vec![vec![0, 1, 2, 3, 4], vec![5, 6, 7], vec![8, 9, 10, 11]];
        let (askers, mean_gap_ps) = ((0..12).collect(), 600e6);
        let pattern = Pattern::Requests { mean_gap_ps, askers, racks: racks.clone(), fan_in: 3 };
        let flows = run(vec![block(pattern)], 12);
        assert!(flows.windows(2).all(|pair| pair[0].start <= pair[1].start));
        let mut requests: BTreeMap<(Time, u32), Vec<Flow>> = BTreeMap::new();
        for flow in flows {
            requests.entry((flow.start, flow.dst)).or_default().push(flow);
        }
        // 2,000 are expected: within four standard deviations.
        assert!((1_821..=2_179).contains(&requests.len()), "{}", requests.len());
        let rack = |host: u32| racks.iter().position(|rack| rack.contains(&host)).unwrap();
        let (mut by_client, mut replies) = ([0; 12], [[0i32; 3]; 3]);
        for ((_, asker), flows) in &requests {
            let from = rack(flows[0].src);
            assert!(from != rack(*asker) && flows.iter().all(|flow| rack(flow.src) == from));
            let mut servers: Vec<u32> = flows.iter().map(|flow| flow.src).collect();
            servers.sort_unstable();
            servers.dedup();
            assert_eq!(servers.len(), 3, "each server replies once");
            let mut shares: Vec<u64> = flows.iter().map(|flow| flow.bytes).collect();
            shares.sort_unstable();
            assert_eq!(shares, [333, 333, 334], "of 1,000 bytes");
            by_client[*asker as usize] += 1;
            replies[rack(*asker)][from] += 1;
        }
        // Expected: 167 of each. The other two racks are equally likely, in 500 to 833 draws.
        assert!(by_client.iter().all(|count| (115..=218).contains(count)), "{by_client:?}");
        for (own, counts) in replies.iter().enumerate() {
            let [a, b] = [(own + 1) % 3, (own + 2) % 3].map(|other| counts[other]);
            assert!((a - b).abs() < 120, "{replies:?}");
        }
    }

    #[test]
    fn rotating_incast_cycles_through_receivers() {
        let (senders, receivers) = (vec![0, 1, 2], vec![2, 5]);
        let pattern =
            Pattern::RotatingIncast { senders, receivers, gap_ps: 1e10, jitter: Span::us(5) };
        let flows = run(vec![block(pattern)], 8);
        assert_eq!(flows.len(), 30);
        for (round, flows) in flows.chunks(3).enumerate() {
            let (from, dst) = (Time::ms(10 * round as u64), [2, 5][round % 2]);
            for flow in flows {
                assert!(flow.start >= from && flow.start <= from + Span::us(5), "{flow:?}");
                assert_eq!(flow.dst, if flow.src == dst { 5 } else { dst });
            }
        }
    }

    #[test]
    fn incast_bursts_to_one_receiver() {
        let pattern = Pattern::Incast {
            fan_in: 3,
            dst: None,
            interval: Span::ms(10),
            poisson: false,
            jitter: Span::us(5),
        };
        let flows = run(vec![block(pattern)], 8);
        assert_eq!(flows.len(), 30);
        for burst in flows.chunks(3) {
            assert!(burst.iter().all(|flow| flow.dst == burst[0].dst && flow.src != flow.dst));
        }
    }
}
