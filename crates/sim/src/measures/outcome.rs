//! The outcome of a run.

use tidegate_core::fabric::Node;
use tidegate_core::{Span, Time};

use crate::bytes::bytes;
use crate::ids::{self, Step};
use crate::measures::iterations::IterationTime;

/// Version of the engine's semantics. It is part of every cache key, and changes whenever a golden
/// digest does.
pub const SEMANTICS: u32 = 7;

/// One flow: an explicit one or a generated message.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct FlowRecord {
    /// In order of submission. IDs of closed loops follow all others, in order for each client;
    /// those of collectives come last, with each iteration's together.
    pub id: u64,
    /// Label of the run.
    pub label: u16,
    /// Stack of the run.
    pub stack: u16,
    /// Sending host.
    pub src: u32,
    /// Receiving host.
    pub dst: u32,
    /// Time of submission.
    pub start: Time,
    /// Payload bytes; `u64::MAX` if unlimited.
    pub bytes: u64,
    /// Payload delivered to the receiver since submission.
    pub delivered_bytes: u64,
    /// Payload delivered in the measured window.
    pub window_bytes: u64,
    /// Intersection of the flow's life with the measured window. The life ends with the last
    /// delivery if the flow completed. If it stopped, it ends at the stop or the last delivery,
    /// whichever is later. Otherwise it lasts to the end of the window.
    pub measured: Window,
    /// Serialisation time of a full packet on the slowest link of its path.
    pub packet_time: Span,
    /// Time at which the last byte was delivered.
    pub completed: Option<Time>,
    /// Time at which the sender learned of completion.
    pub acked: Option<Time>,
    /// Retransmitted payload.
    pub retransmitted_bytes: u64,
    /// Completion time of the same transfer in an empty network (contract: "Slowdown"); zero for
    /// unlimited flows.
    pub ideal: Span,
    /// Whether it is a flow with a size, or one of a known number of messages; false on live
    /// hosts.
    pub listed: bool,
    /// Request and reply that it belongs to, if it is a message of a closed loop.
    pub exchange: Option<Exchange>,
}

/// A request and its reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Exchange {
    /// Time at which the request was submitted.
    pub requested: Time,
    /// Label of the request.
    pub label: u16,
    /// The message is the reply.
    pub is_reply: bool,
}

impl FlowRecord {
    /// The iteration that it belongs to, if it is a message of a collective.
    pub fn step(&self) -> Option<Step> {
        ids::step(self.id)
    }

    /// Time over which [`window_bytes`](Self::window_bytes) were counted. `None` below ten packet
    /// times, because a rate over so short a time would reflect packet boundaries rather than the
    /// flow.
    pub fn lifetime(&self) -> Option<Span> {
        let lifetime = self.measured.span();
        (lifetime >= self.packet_time.times(10)).then_some(lifetime)
    }

    /// Goodput in bit/s over the flow's life in the measured window.
    pub fn goodput_bps(&self) -> Option<f64> {
        self.lifetime().map(|lifetime| self.window_bytes as f64 * 8.0 / lifetime.as_s_f64())
    }
}

/// An interval of simulated time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Window {
    /// Start.
    pub from: Time,
    /// End.
    pub until: Time,
}

impl Window {
    /// Its length.
    pub fn span(self) -> Span {
        self.until.since(self.from)
    }
}

/// Mean, percentile and maximum of one quantity.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Spread {
    /// Mean.
    pub mean: f64,
    /// 99th percentile, if histograms were kept.
    pub p99: Option<f64>,
    /// Maximum.
    pub max: f64,
}

/// Record of one direction of a link over the measured window.
#[derive(Clone, Debug, PartialEq)]
pub struct LinkRecord {
    /// Sending end.
    pub from: Node,
    /// Receiving end.
    pub to: Node,
    /// In bit/s.
    pub rate_bps: u64,
    /// Wire bytes sent; a packet counts when its transmission starts.
    pub wire_bytes: u64,
    /// Share of the window in which it was sending. Transmissions count only for the part that lies
    /// within the window.
    pub utilisation: f64,
    /// Packets sent.
    pub packets: u64,
    /// Time-weighted queue in wire bytes, without the packet in service. Zero at hosts, whose
    /// packets wait in transports.
    pub queue_bytes: Spread,
    /// Queueing delay per packet, from enqueue to start of transmission.
    pub queue_delay_us: Spread,
    /// Packets dropped, not including credits that the credit queue had no room for.
    pub drops: u64,
    /// Credits that the credit queue dropped. Such drops inform receivers of the link's capacity;
    /// they are no losses.
    pub credit_drops: u64,
    /// Packets that lost their payload.
    pub trims: u64,
    /// Trimmed packets for which there was no room, sent back to their senders. They are drops only
    /// if a switch drops them later.
    pub returned: u64,
    /// Packets marked.
    pub ecn_marks: u64,
    /// Number of times that a class was paused.
    pub pfc_pauses: u64,
    /// Time for which any class was paused.
    pub paused: Span,
}

/// Record of one switch over the measured window.
#[derive(Clone, Debug, PartialEq)]
pub struct SwitchRecord {
    /// Index of the switch.
    pub switch: u32,
    /// Bytes queued over all its ports: mean and maximum exact, p99 from samples every 10 µs.
    pub buffer_bytes: Spread,
    /// Number of those samples.
    pub samples: u64,
    /// Packets dropped.
    pub drops: u64,
}

/// Effects of injected faults over the whole run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FaultCounts {
    /// Packets lost on links, without a path, or queued for a link that went down.
    pub lost: u64,
    /// Packets that a receiving host dropped because of their checksum.
    pub corrupted: u64,
    /// Packets delivered twice.
    pub duplicated: u64,
    /// Packets that were delayed.
    pub reordered: u64,
    /// Number of link outages.
    pub outages: u64,
}

bytes! {
    Spread { mean, p99, max }
    LinkRecord {
        from, to, rate_bps, wire_bytes, utilisation, packets, queue_bytes, queue_delay_us, drops,
        credit_drops, trims, returned, ecn_marks, pfc_pauses, paused,
    }
    SwitchRecord { switch, buffer_bytes, samples, drops }
    FaultCounts { lost, corrupted, duplicated, reordered, outages }
}

impl FaultCounts {
    /// Sum of the counts of two partitions.
    pub(crate) fn plus(self, other: FaultCounts) -> FaultCounts {
        FaultCounts {
            lost: self.lost + other.lost,
            corrupted: self.corrupted + other.corrupted,
            duplicated: self.duplicated + other.duplicated,
            reordered: self.reordered + other.reordered,
            outages: self.outages + other.outages,
        }
    }
}

/// A host that has paused its switch for long.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PauseStorm {
    /// The host.
    pub host: u32,
    /// Start of its first such pause.
    pub since: Time,
}

/// One sample of the time series.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Sample {
    /// Time of the sample.
    pub at: Time,
    /// A flow's ID, or a link's index in [`Outcome::links`].
    pub entity: u64,
    /// Sampled quantity.
    pub quantity: Quantity,
    /// Value.
    pub value: f64,
}

/// Sampled quantity.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Quantity {
    /// Payload bytes of a flow delivered so far.
    DeliveredBytes,
    /// A flow's window in wire bytes.
    WindowBytes,
    /// Bytes queued at a port.
    QueueBytes,
    /// Time integral of the queued bytes so far, in byte picoseconds. The difference of two samples
    /// gives the mean over their interval.
    QueueBytePs,
    /// Wire bytes that a port has sent so far, of every packet whose transmission has started.
    SentBytes,
    /// Total pause time of a port so far, in picoseconds. Only for ports that have ever been
    /// paused.
    PausedPs,
}

/// Results of a run, except for the completed flows that were taken during the run.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// Completed flows that were not taken.
    pub finished: Vec<FlowRecord>,
    /// Flows that have not completed.
    pub unfinished: Vec<FlowRecord>,
    /// Every direction of every link: link i of the fabric has records 2i (a to b) and 2i + 1 (b to
    /// a).
    pub links: Vec<LinkRecord>,
    /// Every switch.
    pub switches: Vec<SwitchRecord>,
    /// Effects of injected faults.
    pub faults: FaultCounts,
    /// Times of the iterations of jobs that compute, by job and iteration, as far as ranks have
    /// ended them.
    pub iterations: Vec<IterationTime>,
    /// Hosts that paused their switch for 100 us or longer, by index.
    pub storms: Vec<PauseStorm>,
    /// Digest of the simulated outcome. It does not depend on the number of threads or on explicit
    /// dequeues.
    pub digest: u64,
    /// Data and control packets delivered over any link, including those of hosts.
    pub packet_hops: u64,
    /// Number of events handled.
    pub events: u64,
}
