//! What a run leaves behind.

use tidegate_core::fabric::Node;
use tidegate_core::{Span, Time};

use crate::jobs;

/// Version of the engine's semantics. It is part of every cache key, and changes whenever a golden
/// digest does.
pub const SEMANTICS: u32 = 6;

/// One flow: an explicit one or a generated message.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct FlowRecord {
    /// In order of submission; messages of closed loops after all others, each client's in order,
    /// and those of collectives last, each iteration's together.
    pub id: u64,
    /// Which label of the run.
    pub label: u16,
    /// Which stack of the run.
    pub stack: u16,
    /// Sending host.
    pub src: u32,
    /// Receiving host.
    pub dst: u32,
    /// When it was submitted.
    pub start: Time,
    /// Payload bytes; `u64::MAX`: unlimited.
    pub bytes: u64,
    /// Payload delivered to the receiver since it was submitted.
    pub delivered_bytes: u64,
    /// Payload delivered between warm-up and the end.
    pub window_bytes: u64,
    /// The part of the flow's life that lies between warm-up and the end: from its start to its
    /// last delivery where it finished, to its stop, or its last delivery if that is later, where
    /// it stopped, and else to the end.
    pub measured: Window,
    /// What a full packet takes on the slowest link of its path.
    pub packet_time: Span,
    /// When the last byte was delivered.
    pub completed: Option<Time>,
    /// When the sender knew.
    pub acked: Option<Time>,
    /// Payload sent again.
    pub retransmitted_bytes: u64,
    /// The same transfer with nothing else in the network (contract: "Slowdown"); zero for
    /// unlimited flows.
    pub ideal: Span,
    /// What it is part of, where it is a request or a reply of a closed loop.
    pub exchange: Option<Exchange>,
}

/// A request and its reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Exchange {
    /// When the request was submitted.
    pub asked: Time,
    /// Which label of the run the request has.
    pub label: u16,
    /// This is the reply.
    pub is_reply: bool,
}

/// An iteration of a collective.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Step {
    /// Which collective of the run's workload.
    pub job: u32,
    /// Which of its iterations.
    pub iteration: u32,
}

impl FlowRecord {
    /// What it is part of, where it is a message of a collective.
    pub fn step(&self) -> Option<Step> {
        jobs::step(self.id)
    }

    /// How long [`window_bytes`](Self::window_bytes) were counted; `None` below ten packet times,
    /// over which a rate would say more of where packets begin and end than of the flow.
    pub fn lifetime(&self) -> Option<Span> {
        let lifetime = self.measured.span();
        (lifetime >= self.packet_time.times(10)).then_some(lifetime)
    }

    /// Payload delivered between warm-up and the end, in bit/s of the flow's life there.
    pub fn goodput_bps(&self) -> Option<f64> {
        self.lifetime().map(|lifetime| self.window_bytes as f64 * 8.0 / lifetime.as_s_f64())
    }
}

/// A part of simulated time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Window {
    /// From when.
    pub from: Time,
    /// Until when.
    pub until: Time,
}

impl Window {
    /// How long it is.
    pub fn span(self) -> Span {
        self.until.since(self.from)
    }
}

/// Mean, percentile and maximum of one quantity.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Spread {
    /// Mean.
    pub mean: f64,
    /// 99th percentile, where histograms were kept.
    pub p99: Option<f64>,
    /// Maximum.
    pub max: f64,
}

/// One direction of a link, from warm-up to the end.
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
    /// Share of the measured time in which it was sending; what it began and did not send within
    /// that time is left out.
    pub utilisation: f64,
    /// Packets sent.
    pub packets: u64,
    /// Time-weighted queue in wire bytes, without the packet in service. Zero at hosts, which are
    /// pulled.
    pub queue_bytes: Spread,
    /// Per packet, from enqueue to start of transmission.
    pub queue_delay_us: Spread,
    /// Packets refused, without credits that found no room in their own queue.
    pub drops: u64,
    /// Those: how receivers learn what the link can take, and no loss.
    pub credit_drops: u64,
    /// Packets marked.
    pub ecn_marks: u64,
    /// Pauses received: times that a class came to stand still.
    pub pfc_pauses: u64,
    /// How long any class stood still.
    pub paused: Span,
}

/// One switch, from warm-up to the end.
#[derive(Clone, Debug, PartialEq)]
pub struct SwitchRecord {
    /// Number of the switch.
    pub switch: u32,
    /// Bytes queued over all its ports: mean and maximum exact, p99 from samples every 10 µs.
    pub buffer_bytes: Spread,
    /// How many samples those are.
    pub samples: u64,
    /// Packets refused.
    pub drops: u64,
}

/// What injected faults did, over the whole run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FaultCounts {
    /// Packets lost on links, for want of a path, or queued for a link that went down.
    pub lost: u64,
    /// Packets that a receiving host's checksum refused.
    pub corrupted: u64,
    /// Packets delivered twice.
    pub duplicated: u64,
    /// Packets held back.
    pub reordered: u64,
    /// Times that a link went down.
    pub outages: u64,
}

impl FaultCounts {
    /// Those of two partitions.
    pub(crate) fn plus(self, other: &FaultCounts) -> FaultCounts {
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
    /// Since when, where it first did.
    pub since: Time,
}

/// One sample of the time series.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Sample {
    /// When.
    pub at: Time,
    /// Of what: a flow's id, or a link's number in [`Outcome::links`].
    pub entity: u64,
    /// What was sampled.
    pub quantity: Quantity,
    /// How much.
    pub value: f64,
}

/// What a sample says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Quantity {
    /// Payload bytes a flow has delivered so far.
    DeliveredBytes,
    /// A flow's window in wire bytes.
    WindowBytes,
    /// Bytes queued at a port.
    QueueBytes,
    /// Their integral over time so far, in byte picoseconds; of a mean over an interval, the
    /// difference of two is what counts.
    QueueBytePs,
    /// Wire bytes that a port has sent so far, of every packet that has begun to leave.
    SentBytes,
    /// How long a port has stood still so far, in picoseconds, of those that were ever told to
    /// pause.
    PausedPs,
}

/// Everything but the finished flows that were taken while the run went on.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// Flows that have finished and were not taken.
    pub finished: Vec<FlowRecord>,
    /// Flows that had not finished.
    pub unfinished: Vec<FlowRecord>,
    /// Every direction of every link: link i of the fabric gives records 2i (a to b) and 2i + 1 (b
    /// to a).
    pub links: Vec<LinkRecord>,
    /// Every switch.
    pub switches: Vec<SwitchRecord>,
    /// What injected faults did.
    pub faults: FaultCounts,
    /// Hosts that paused their switch for 100 us and more, by number.
    pub storms: Vec<PauseStorm>,
    /// Covers the simulated outcome; the same whatever the threads and the way dequeues are
    /// scheduled.
    pub digest: u64,
    /// Packets, data or control, delivered over any link, hosts' included.
    pub packet_hops: u64,
    /// Events handled.
    pub events: u64,
}
