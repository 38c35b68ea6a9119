//! The workload of the hosts, as data. Drivers contain the generators.

use alloc::boxed::Box;
use alloc::vec::Vec;

use crate::collective::Collective;
pub use crate::collective::share;
use crate::job::{Job, Schedule};
use crate::{Message, Span, Time};

/// One explicit flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Flow {
    /// Sending host.
    pub src: u32,
    /// Receiving host.
    pub dst: u32,
    /// Payload bytes, or [`Message::UNLIMITED`](crate::Message::UNLIMITED).
    pub bytes: u64,
    /// Time of submission.
    pub start: Time,
    /// Time at which it stops sending, or [`Time::NEVER`].
    pub stop: Time,
    /// Stack of the run that carries it.
    pub stack: u16,
    /// Label of the run under which it is counted.
    pub label: u16,
    /// The flow needs a connection of its own.
    pub dedicated: bool,
}

/// Sizes of generated messages.
#[derive(Clone, Debug, PartialEq)]
pub enum Sizes {
    /// Constant size.
    Fixed(u64),
    /// Sizes drawn from a distribution.
    Drawn(Distribution),
}

/// Interpolation of a distribution between its points.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sampling {
    /// Piecewise linear inverse.
    Linear,
    /// None: only the listed sizes occur.
    Step,
    /// Linear in the logarithm of the size.
    Logarithmic,
}

/// A flow-size distribution.
#[derive(Clone, Debug, PartialEq)]
pub struct Distribution {
    /// (size in bytes, cumulative probability), both rising; the last probability is 1.
    pub points: Vec<(f64, f64)>,
    /// Interpolation between the points.
    pub sampling: Sampling,
    /// Mean size in bytes, from which loads are computed.
    pub mean_bytes: f64,
}

/// Generated flows.
#[derive(Clone, Debug, PartialEq)]
pub struct Traffic {
    /// Pattern.
    pub pattern: Pattern,
    /// Message sizes.
    pub sizes: Sizes,
    /// Stack of the run that carries them.
    pub stack: u16,
    /// Label of the run under which they are counted.
    pub label: u16,
    /// Time of the first submission.
    pub start: Time,
    /// End of submissions (exclusive).
    pub stop: Time,
}

/// A pattern of generated flows.
#[derive(Clone, Debug, PartialEq)]
pub enum Pattern {
    /// Every host sends one message to one other host, and no host receives two: a random
    /// derangement.
    Permutation,
    /// At the same time, `fan_in` random senders send one message each to one receiver. This
    /// happens every `interval`, or once if that is [`Span::FOREVER`]. If `poisson` is set, the
    /// gaps are exponential. If `dst` is `None`, the receiver is random.
    Incast {
        /// Senders per burst.
        fan_in: u32,
        /// Receiver.
        dst: Option<u32>,
        /// (Mean) time between bursts.
        interval: Span,
        /// Exponential gaps.
        poisson: bool,
        /// Each sender starts at a uniform random time within this span after the burst.
        jitter: Span,
    },
    /// Each sender submits messages to uniform random receivers at random times.
    Poisson {
        /// Mean gap between messages of one host, in picoseconds.
        mean_gap_ps: f64,
        /// Sending hosts.
        senders: Vec<u32>,
        /// Receiving hosts. A sender never selects itself.
        receivers: Vec<u32>,
    },
    /// Every host sends one message to every other host at the same time.
    AllToAll,
    /// Incast in rounds: all `senders` send one message each to the same receiver, and in the next
    /// round to the next receiver.
    RotatingIncast {
        /// Sending hosts.
        senders: Vec<u32>,
        /// Receiving hosts, in cyclic order. A sender that is the receiver of a round sends to the
        /// next one.
        receivers: Vec<u32>,
        /// Length of a round, in picoseconds.
        gap_ps: f64,
        /// Each sender starts at a uniform random time within this span after the start of the
        /// round. The time is the same in every round.
        jitter: Span,
    },
    /// Each requesting host sends requests at random times to `fan_in` random hosts of one random
    /// other rack, which all reply at once. Sizes are those of all replies to a request together.
    Requests {
        /// Mean gap between requests of one host, in picoseconds.
        mean_gap_ps: f64,
        /// Hosts that send requests.
        askers: Vec<u32>,
        /// Hosts by rack: at least two racks, each with at least `fan_in` hosts.
        racks: Vec<Vec<u32>>,
        /// Number of replies to a request.
        fan_in: u32,
    },
    /// Clients that send a request to a random server, wait for its reply, think, and repeat. The
    /// traffic's sizes are those of requests.
    ClosedLoop {
        /// Hosts of the clients; a host with several clients is listed several times.
        clients: Vec<u32>,
        /// Servers. A client never selects its own host, and each client has another one.
        servers: Vec<u32>,
        /// Sizes of replies.
        replies: Sizes,
        /// Label of the run under which replies are counted.
        reply_label: u16,
        /// (Mean) time from a reply to the next request.
        think: Span,
        /// Thinking times are exponential.
        exponential: bool,
    },
    /// Messages that start when the messages that they depend on have arrived at their host.
    Collective(Collective),
    /// Operations from a file, which compute, and send and receive messages.
    Job(Job),
    /// A list of arrivals, in order of time.
    Trace(Vec<Arrival>),
    /// Messages with known start times, each of which its receiver answers: the reply is submitted
    /// when the last byte of the message has arrived.
    Answered {
        /// Pattern of these messages. It must not contain dependent messages.
        of: Box<Pattern>,
        /// Sizes of replies.
        replies: Sizes,
        /// Label of the run under which replies are counted.
        reply_label: u16,
    },
}

/// One line of a trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Arrival {
    /// Time of submission.
    pub at: Time,
    /// Sending host.
    pub src: u32,
    /// Receiving host.
    pub dst: u32,
    /// Payload bytes.
    pub bytes: u64,
}

/// The workload of a run.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Workload {
    /// Explicit flows.
    pub flows: Vec<Flow>,
    /// Generated flows.
    pub traffic: Vec<Traffic>,
}

/// Sizes of all messages that the generators of a stack produce, as far as they are known before
/// the run. Protocols may adapt to them.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct SizeMix {
    /// Sizes in bytes, rising and without duplicates, each with the number of messages per second.
    /// Unlimited messages are excluded.
    pub points: Vec<(u64, f64)>,
}

/// Number of pieces that approximate a distribution with interpolation.
const PIECES: usize = 1024;
/// Shortest round of a closed loop that a mix assumes.
const SHORTEST_LOOP: Span = Span::us(10);

impl Traffic {
    /// Number of messages on `hosts` hosts, if the traffic is finite.
    pub fn messages(&self, hosts: u32) -> Option<u64> {
        self.pattern.messages(hosts, self.sizes == Sizes::Fixed(Message::UNLIMITED))
    }
}

impl Pattern {
    /// The operations of a collective or a job.
    pub fn schedule(&self) -> Option<&dyn Schedule> {
        match self {
            Pattern::Collective(of) => Some(of),
            Pattern::Job(of) => Some(of),
            _ => None,
        }
    }

    fn messages(&self, hosts: u32, unlimited: bool) -> Option<u64> {
        let hosts_64 = u64::from(hosts);
        match self {
            Pattern::Collective(of) => Some(of.messages() * u64::from(of.iterations)),
            // The end of a rank counts as a message, because it may compute after the last one.
            Pattern::Job(of) => {
                let messages = of.program.sizes().count() as u64;
                Some(messages * u64::from(of.iterations) + of.hosts.len() as u64)
            }
            Pattern::Trace(arrivals) => Some(arrivals.len() as u64),
            Pattern::Answered { of, .. } => of.messages(hosts, unlimited).map(|count| 2 * count),
            _ if unlimited => None,
            Pattern::Permutation => Some(hosts_64),
            Pattern::AllToAll => Some(hosts_64 * (hosts_64 - 1)),
            Pattern::Incast { fan_in, interval: Span::FOREVER, poisson: false, .. } => {
                Some(u64::from(*fan_in))
            }
            _ => None,
        }
    }
}

impl Workload {
    /// Number of messages of flows with a size and of finite traffic.
    pub fn messages(&self, hosts: u32) -> u64 {
        let flows = self.flows.iter().filter(|flow| flow.bytes != Message::UNLIMITED).count();
        flows as u64 + self.traffic.iter().filter_map(|block| block.messages(hosts)).sum::<u64>()
    }

    /// Sizes of the messages that `stack` will carry until `until` among `hosts` hosts, without
    /// explicit flows.
    pub fn size_mix(&self, stack: u16, hosts: u32, until: Time) -> SizeMix {
        let mut points = Vec::new();
        for traffic in self.traffic.iter().filter(|traffic| traffic.stack == stack) {
            traffic.mix(hosts, until, &mut points);
        }
        SizeMix::ordered(points)
    }
}

impl SizeMix {
    /// The mix of one generator, which produces a message per second.
    pub fn of(sizes: &Sizes) -> SizeMix {
        let mut points = Vec::new();
        sizes.mix(1.0, &mut points);
        SizeMix::ordered(points)
    }

    fn ordered(mut points: Vec<(u64, f64)>) -> SizeMix {
        points.retain(|&(bytes, rate)| bytes != Message::UNLIMITED && rate > 0.0);
        points.sort_by_key(|&(bytes, _)| bytes);
        points.dedup_by(|next, last| {
            let same = next.0 == last.0;
            last.1 += if same { next.1 } else { 0.0 };
            same
        });
        SizeMix { points }
    }
}

impl Traffic {
    /// Adds the sizes of its messages, each with the number of messages per second.
    fn mix(&self, hosts: u32, until: Time, out: &mut Vec<(u64, f64)>) {
        let life = self.stop.min(until).since(self.start).as_s_f64();
        let once = |messages: f64| if life > 0.0 { messages / life } else { 0.0 };
        let count = f64::from(hosts);
        let rate = match &self.pattern {
            Pattern::Permutation => once(count),
            Pattern::AllToAll => once(count * (count - 1.0)),
            Pattern::Incast { fan_in, interval: Span::FOREVER, .. } => once(f64::from(*fan_in)),
            Pattern::Incast { fan_in, interval, .. } => f64::from(*fan_in) / interval.as_s_f64(),
            Pattern::Poisson { mean_gap_ps, senders, .. } => {
                senders.len() as f64 * 1e12 / mean_gap_ps
            }
            Pattern::RotatingIncast { senders, gap_ps, .. } => senders.len() as f64 * 1e12 / gap_ps,
            Pattern::Requests { mean_gap_ps, askers, fan_in, .. } => {
                // A size is that of all replies together.
                let mut wholes = Vec::new();
                let fan_in = u64::from(*fan_in);
                let rate = (askers.len() as u64 * fan_in) as f64 * 1e12 / mean_gap_ps;
                self.sizes.mix(rate, &mut wholes);
                return out.extend(wholes.iter().map(|&(all, rate)| ((all / fan_in).max(1), rate)));
            }
            Pattern::ClosedLoop { clients, replies, think, .. } => {
                let rate = clients.len() as f64 / (*think).max(SHORTEST_LOOP).as_s_f64();
                replies.mix(rate, out);
                rate
            }
            Pattern::Collective(of) => {
                let times = f64::from(of.iterations);
                let sizes = of.sizes().into_iter();
                let rates = sizes.map(|(bytes, count)| (bytes, once(count as f64 * times)));
                return out.extend(rates);
            }
            Pattern::Job(of) => {
                let rate = once(f64::from(of.iterations));
                return out.extend(of.program.sizes().map(|bytes| (bytes, rate)));
            }
            Pattern::Trace(arrivals) => {
                return out.extend(arrivals.iter().map(|arrival| (arrival.bytes, once(1.0))));
            }
            Pattern::Answered { of, replies, .. } => {
                let mut messages = Vec::new();
                let of = Traffic { pattern: (**of).clone(), ..self.clone() };
                of.mix(hosts, until, &mut messages);
                replies.mix(messages.iter().map(|&(_, rate)| rate).sum(), out);
                return out.extend(messages);
            }
        };
        self.sizes.mix(rate, out);
    }
}

impl Distribution {
    /// The size in bytes below which a fraction `u` of the messages lies.
    pub fn quantile(&self, u: f64) -> f64 {
        let next = self.points.partition_point(|&(_, cdf)| cdf < u);
        let Some(&(size, cdf)) = self.points.get(next).or(self.points.last()) else { return 0.0 };
        if next == 0 || next == self.points.len() || self.sampling == Sampling::Step {
            return size;
        }
        let (below, below_cdf) = self.points[next - 1];
        let share = (u - below_cdf) / (cdf - below_cdf);
        match self.sampling {
            Sampling::Logarithmic if below > 0.0 => crate::math::exp(
                crate::math::ln(below) + share * (crate::math::ln(size) - crate::math::ln(below)),
            ),
            _ => below + share * (size - below),
        }
    }
}

impl Sizes {
    /// Mean size in bytes.
    pub fn mean_bytes(&self) -> f64 {
        match self {
            Sizes::Fixed(bytes) => *bytes as f64,
            Sizes::Drawn(distribution) => distribution.mean_bytes,
        }
    }

    /// Largest size in bytes.
    pub fn largest_bytes(&self) -> f64 {
        match self {
            Sizes::Fixed(bytes) => *bytes as f64,
            Sizes::Drawn(distribution) => distribution.points.last().map_or(0.0, |&(size, _)| size),
        }
    }

    /// Adds the sizes, each with its part of `rate` messages per second.
    fn mix(&self, rate: f64, out: &mut Vec<(u64, f64)>) {
        let Sizes::Drawn(distribution) = self else {
            let Sizes::Fixed(bytes) = *self else { return };
            return out.push((bytes, rate));
        };
        let size = |u| (crate::math::round(distribution.quantile(u)) as u64).max(1);
        let pieces = match distribution.sampling {
            Sampling::Step => 1,
            Sampling::Linear | Sampling::Logarithmic => {
                PIECES.div_ceil(distribution.points.len().max(1))
            }
        };
        let mut below = 0.0;
        for &(_, cdf) in &distribution.points {
            let share = (cdf - below) / pieces as f64;
            // The middle of each piece represents it.
            let middles = (0..pieces).map(|piece| below + share * (piece as f64 + 0.5));
            out.extend(middles.map(|u| (size(u), rate * share)));
            below = cdf;
        }
    }

    /// Draws a size in bytes, at least 1.
    pub fn draw(&self, rng: &mut crate::Rng) -> u64 {
        match self {
            Sizes::Fixed(bytes) => *bytes,
            Sizes::Drawn(distribution) => {
                (crate::math::round(distribution.quantile(rng.unit())) as u64).max(1)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec;

    fn traffic(pattern: Pattern, sizes: Sizes, stack: u16) -> Traffic {
        Traffic { pattern, sizes, stack, label: 0, start: Time::ms(1), stop: Time::NEVER }
    }

    fn poisson(gap_us: f64, senders: u32) -> Pattern {
        let senders = (0..senders).collect();
        Pattern::Poisson { mean_gap_ps: gap_us * 1e6, senders, receivers: vec![0] }
    }

    fn mix(traffic: Vec<Traffic>) -> Vec<(u64, f64)> {
        let workload = Workload { flows: Vec::new(), traffic };
        workload.size_mix(1, 10, Time::ms(3)).points
    }

    #[test]
    fn size_mix_weights_the_generators_of_a_stack() {
        let points = vec![(100.0, 0.25), (900.0, 1.0)];
        let drawn = |sampling| {
            Sizes::Drawn(Distribution { points: points.clone(), sampling, mean_bytes: 700.0 })
        };
        let of = vec![
            traffic(poisson(10.0, 2), drawn(Sampling::Step), 1),
            traffic(poisson(5.0, 1), Sizes::Fixed(900), 1),
            traffic(poisson(1.0, 9), Sizes::Fixed(5), 0),
            traffic(poisson(1.0, 9), Sizes::Fixed(Message::UNLIMITED), 1),
            // Ten messages in two milliseconds.
            traffic(Pattern::Permutation, Sizes::Fixed(7), 1),
        ];
        assert_eq!(mix(of), [(7, 5e3), (100, 0.5e5), (900, 1.5e5 + 2e5)]);
        assert_eq!(mix(Vec::new()), []);

        let between = mix(vec![traffic(poisson(1.0, 1), drawn(Sampling::Linear), 1)]);
        let (rate, bytes) =
            between.iter().fold((0.0, 0.0), |(r, b), &(n, rate)| (r + rate, b + n as f64 * rate));
        assert!((rate / 1e6 - 1.0).abs() < 1e-9, "{rate}");
        // A quarter at 100 B, the rest evenly up to 900 B.
        assert!((bytes / rate / 400.0 - 1.0).abs() < 1e-3, "{}", bytes / rate);
    }

    #[test]
    fn shares_add_up_to_the_whole() {
        for (whole, count) in [(2_000_000, 10), (1_001, 10), (7, 3)] {
            let parts: Vec<u64> = (0..count).map(|number| share(whole, count, number)).collect();
            assert_eq!(parts.iter().sum::<u64>(), whole);
            assert!(parts.iter().max().unwrap() - parts.iter().min().unwrap() <= 1);
        }
        assert_eq!([0, 1, 2].map(|number| share(2, 3, number)), [1, 1, 1]);
    }

    #[test]
    fn size_mix_includes_replies_of_all_patterns() {
        let requests =
            Pattern::Requests { mean_gap_ps: 1e6, askers: vec![0], racks: Vec::new(), fan_in: 4 };
        assert_eq!(mix(vec![traffic(requests, Sizes::Fixed(400), 1)]), [(100, 4e6)]);
        let closed = Pattern::ClosedLoop {
            clients: vec![0, 0],
            servers: vec![1],
            replies: Sizes::Fixed(9),
            reply_label: 0,
            think: Span::ms(500),
            exponential: false,
        };
        assert_eq!(mix(vec![traffic(closed, Sizes::Fixed(4), 1)]), [(4, 4.0), (9, 4.0)]);
        let at = |bytes| Arrival { at: Time::ZERO, src: 0, dst: 1, bytes };
        let trace = Pattern::Trace(vec![at(3), at(2), at(3)]);
        assert_eq!(mix(vec![traffic(trace.clone(), Sizes::Fixed(1), 1)]), [(2, 500.0), (3, 1e3)]);
        let answered =
            Pattern::Answered { of: Box::new(trace), replies: Sizes::Fixed(9), reply_label: 0 };
        let all = [(2, 500.0), (3, 1e3), (9, 1.5e3)];
        assert_eq!(mix(vec![traffic(answered, Sizes::Fixed(1), 1)]), all);
    }
}
