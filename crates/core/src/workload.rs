//! What the hosts want to send, as data. Generators live with their driver.

use alloc::vec::Vec;

use crate::{Span, Time};

/// One explicit flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Flow {
    /// Sending host.
    pub src: u32,
    /// Receiving host.
    pub dst: u32,
    /// Payload bytes, or [`Message::UNLIMITED`](crate::Message::UNLIMITED).
    pub bytes: u64,
    /// When it is submitted.
    pub start: Time,
    /// When it stops sending, or [`Time::NEVER`].
    pub stop: Time,
    /// Which stack of the run carries it.
    pub stack: u16,
    /// Which label of the run it is counted under.
    pub label: u16,
    /// Wants a connection of its own.
    pub dedicated: bool,
}

/// Sizes of generated messages.
#[derive(Clone, Debug, PartialEq)]
pub enum Sizes {
    /// All the same.
    Fixed(u64),
    /// Drawn from a distribution.
    Drawn(Distribution),
}

/// How a listed distribution is sampled between its points.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sampling {
    /// Piecewise linear inverse.
    Linear,
    /// Only listed sizes occur.
    Step,
    /// Linear in the logarithm of the size.
    Logarithmic,
}

/// A flow-size distribution.
#[derive(Clone, Debug, PartialEq)]
pub struct Distribution {
    /// (size in bytes, cumulative probability), both rising; the last probability is 1.
    pub points: Vec<(f64, f64)>,
    /// Between the points.
    pub sampling: Sampling,
    /// Mean size in bytes that loads are computed with.
    pub mean_bytes: f64,
}

/// Generated flows.
#[derive(Clone, Debug, PartialEq)]
pub struct Traffic {
    /// What pattern.
    pub pattern: Pattern,
    /// How large the messages are.
    pub sizes: Sizes,
    /// Which stack of the run carries them.
    pub stack: u16,
    /// Which label of the run they are counted under.
    pub label: u16,
    /// First submission.
    pub start: Time,
    /// No submission from here on.
    pub stop: Time,
}

/// A pattern of generated flows.
#[derive(Clone, Debug, PartialEq)]
pub enum Pattern {
    /// Every host sends one message to one other host, no host receives two: a random derangement.
    Permutation,
    /// `fan_in` random senders send one message each to one receiver at once, every `interval`
    /// (once where it is [`Span::FOREVER`]); with `poisson` the gaps are exponential. The receiver
    /// is random where `dst` is `None`.
    Incast {
        /// Senders at a time.
        fan_in: u32,
        /// The receiver.
        dst: Option<u32>,
        /// (Mean) time between bursts.
        interval: Span,
        /// Exponential gaps.
        poisson: bool,
        /// Each sender starts at a uniform time within this span of the burst.
        jitter: Span,
    },
    /// Each sending host submits messages at random times to uniform random others.
    Poisson {
        /// Mean gap between messages of one host, in picoseconds.
        mean_gap_ps: f64,
        /// Sending hosts.
        senders: Vec<u32>,
        /// Receiving hosts; never the sender itself.
        receivers: Vec<u32>,
    },
    /// Every host sends one message to every other at once.
    AllToAll,
    /// In rounds: all `senders` send one message each to the same receiver, in the next round to
    /// the next one.
    RotatingIncast {
        /// Sending hosts.
        senders: Vec<u32>,
        /// Receiving hosts, in turn; a sender whose turn it is itself takes the one after.
        receivers: Vec<u32>,
        /// Length of a round, in picoseconds.
        gap_ps: f64,
        /// Each sender starts at a uniform time within this span of the round, the same in every
        /// round.
        jitter: Span,
    },
    /// Each asking host requests something at random times of `fan_in` random hosts of one other
    /// rack, drawn too, which all answer at once: a size is that of all answers together.
    Requests {
        /// Mean gap between requests of one host, in picoseconds.
        mean_gap_ps: f64,
        /// Asking hosts.
        askers: Vec<u32>,
        /// Hosts by rack, of two racks at least, each with `fan_in` hosts at least.
        racks: Vec<Vec<u32>>,
        /// Answers to a request.
        fan_in: u32,
    },
    /// Clients that each send a request, whose sizes are the traffic's, to a random server, wait
    /// for its reply, think, and ask again.
    ClosedLoop {
        /// Their hosts, each as often as it has clients.
        clients: Vec<u32>,
        /// Hosts that reply; a client asks none on its own host, and there is another for each.
        servers: Vec<u32>,
        /// How large replies are.
        replies: Sizes,
        /// Which label of the run they are counted under.
        reply_label: u16,
        /// (Mean) time from a reply to the next request.
        think: Span,
        /// It is exponential.
        exponential: bool,
    },
    /// A list of arrivals, in order of time.
    Trace(Vec<Arrival>),
}

/// One line of a trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Arrival {
    /// When.
    pub at: Time,
    /// Sending host.
    pub src: u32,
    /// Receiving host.
    pub dst: u32,
    /// Payload bytes.
    pub bytes: u64,
}

/// Everything the hosts want to send.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Workload {
    /// Explicit flows.
    pub flows: Vec<Flow>,
    /// Generated flows.
    pub traffic: Vec<Traffic>,
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
