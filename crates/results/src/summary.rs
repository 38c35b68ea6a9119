//! The model of `summary.json`.

use crate::fct::FctSummary;
use crate::fixed::Fixed;
use crate::jobs::JobSummary;
use crate::real::RealSummary;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::io;

/// With more flows than this, `flows` gives way to `flows.parquet`.
pub const FLOWS_MAX: usize = 1000;
/// With more links than this, only so many of the busiest are kept.
pub const LINKS_MAX: usize = 1000;

/// A run in numbers: the content of `summary.json`.
///
/// The same scenario, seed and build give the same summary, but for the volatile keys of
/// [`Engine`].
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Summary {
    /// Version of this schema. Keys may be added without a new version.
    pub schema: u32,
    /// What the scenario calls itself.
    pub name: String,
    /// All randomness came from here.
    pub seed: u64,
    /// Names of the protocols in use, in order of first use.
    pub protocols: Vec<String>,
    /// How messages share connections: `per-message`, `per-pair`, or so many connections of each
    /// ordered pair of hosts.
    #[serde(default)]
    pub connections: String,
    /// How packets choose among equal paths, as scenarios say it; older results do not.
    #[serde(default)]
    pub routing: String,
    /// Of protocols that send at a rate of their own, whatever the network says: the rate of each
    /// connection, in Gbit/s, every one that the scenario gives them.
    #[serde(skip_serializing_if = "BTreeMap::is_empty", default)]
    pub fixed_rates_gbps: BTreeMap<String, Vec<f64>>,
    /// Seconds until which messages are submitted and everything is measured.
    pub sim_seconds: f64,
    /// Seconds that the run went on for messages to finish.
    #[serde(default)]
    pub drain_seconds: f64,
    /// Seconds that it might have gone on.
    #[serde(default)]
    pub drain_max_seconds: f64,
    /// From here on goodput, queues and utilisation are measured.
    pub warmup_seconds: f64,
    /// Whether the run ended before its time.
    pub truncated: bool,
    /// Things that are allowed but probably not meant.
    pub warnings: Vec<String>,
    /// About the run itself.
    pub engine: Engine,
    /// Where packets were real: what is behind the numbers.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub real: Option<RealSummary>,
    /// Every flow by id, where there are at most [`FLOWS_MAX`].
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub flows: Option<Vec<FlowSummary>>,
    /// Where the flows are, when they are not here.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub flows_in: Option<String>,
    /// Flows by label and protocol.
    pub groups: Vec<GroupSummary>,
    /// Completion times of the messages submitted after warm-up: `all`, and each label.
    pub fct: BTreeMap<String, FctSummary>,
    /// Times from the submission of a request to the last byte of its reply, of closed loops: as
    /// in [`fct`](Self::fct), by the label of requests, without slowdowns and sizes. Requests
    /// submitted after warm-up count; what has no reply by the end is unfinished.
    #[serde(skip_serializing_if = "BTreeMap::is_empty", default)]
    pub exchanges: BTreeMap<String, FctSummary>,
    /// Collectives, in order of the scenario.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub jobs: Vec<JobSummary>,
    /// Each direction of each link.
    pub links: Vec<LinkSummary>,
    /// How many links were left out for being less busy than those above.
    pub links_omitted: u64,
    /// Each switch.
    pub switches: Vec<SwitchSummary>,
    /// Circuits between racks, where there are any.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub circuits: Option<CircuitSettings>,
    /// What went wrong, where the scenario says that something may.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub faults: Option<FaultSummary>,
    /// Hosts that paused their switch for 100 us and more.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub pause_storms: Vec<PauseStormSummary>,
    /// Pauses of all links; nothing where no switch pauses.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub pauses: Option<PauseSummary>,
}

impl Summary {
    /// The version that [`schema`](Self::schema) carries.
    pub const SCHEMA: u32 = 1;

    /// What is said here and cannot be: goodput or utilisation above links, a mean or percentile
    /// above a maximum. Nothing, of any run: tests hold every one to it.
    pub fn impossible(&self) -> Vec<String> {
        let mut found = Vec::new();
        let mut hold = |what: String, value: Option<f64>, most: Option<f64>| {
            if let (Some(value), Some(most)) = (value, most)
                && value > most * (1.0 + 1e-6)
            {
                found.push(format!("{what}: {value} is above {most}"));
            }
        };
        let nic = |host: &str| {
            self.links
                .iter()
                .find(|link| link.from_host && link.from == host)
                .map(|link| link.rate_gbps)
        };
        for flow in self.flows.iter().flatten() {
            for host in [&flow.src, &flow.dst] {
                hold(format!("flow {}, host {host}", flow.id), flow.goodput_gbps, nic(host));
            }
        }
        let nics = || self.links.iter().filter(|link| link.from_host).map(|link| link.rate_gbps);
        let all_links = self.links_omitted == 0;
        for group in &self.groups {
            let (what, goodput) = (format!("group `{}`", group.label), &group.goodput_gbps);
            hold(what.clone(), goodput.total, all_links.then(|| nics().sum()));
            hold(what.clone(), goodput.max, nics().max_by(f64::total_cmp).filter(|_| all_links));
            hold(what.clone(), goodput.mean, goodput.max);
            hold(what.clone(), goodput.min, goodput.mean);
            hold(what, goodput.jain, Some(1.0));
        }
        for link in &self.links {
            let what = format!("link {} to {}", link.from, link.to);
            hold(what.clone(), link.utilization, Some(1.0));
            hold(what.clone(), link.queue_bytes.mean, link.queue_bytes.max);
            hold(what, link.queue_bytes.p99, link.queue_bytes.max);
        }
        for switch in &self.switches {
            hold(switch.name.clone(), switch.buffer_bytes.mean, switch.buffer_bytes.max);
            hold(switch.name.clone(), switch.buffer_bytes.p99, switch.buffer_bytes.max);
        }
        found
    }

    /// The bytes of `summary.json`.
    ///
    /// # Errors
    /// When `to` refuses to be written.
    pub fn write(&self, to: impl io::Write) -> io::Result<()> {
        write_json(self, to)
    }
}

/// JSON for people too: indented, with a newline at the end.
///
/// # Errors
/// When `to` refuses to be written.
pub fn write_json(value: &impl Serialize, mut to: impl io::Write) -> io::Result<()> {
    serde_json::to_writer_pretty(&mut to, value)?;
    to.write_all(b"\n")
}

/// About the run itself. All but `digest` and `packet_hops` vary from run to run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Engine {
    /// Covers the simulated outcome; 16 hexadecimal digits.
    pub digest: String,
    /// Packets, data or control, delivered over any link, hosts' included.
    pub packet_hops: u64,
    /// How long the run took.
    pub wall_seconds: f64,
    /// How long processors worked on it.
    pub cpu_seconds: f64,
    /// Events handled.
    pub events: u64,
    /// Packet-hops over wall seconds; null where no time passed.
    pub packet_hops_per_second: Option<f64>,
    /// Threads that worked.
    pub threads: usize,
    /// Most memory the process ever had, where the system tells.
    pub peak_rss_bytes: Option<u64>,
}

/// One flow: an explicit one or a generated message.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct FlowSummary {
    /// In order of submission.
    pub id: u64,
    /// As the scenario labels it; may be empty.
    pub label: String,
    /// Sending host.
    pub src: String,
    /// Receiving host.
    pub dst: String,
    /// Its protocol.
    pub protocol: String,
    /// When it was submitted.
    pub start_us: Fixed,
    /// Payload; null for an unlimited flow.
    pub size_bytes: Option<u64>,
    /// Payload delivered to the receiving application since time 0.
    pub delivered_bytes: u64,
    /// Payload delivered between warm-up and the end, over the part of the flow's life that lies
    /// there; null where that is shorter than ten full packets take on the slowest link of its
    /// path.
    pub goodput_gbps: Option<f64>,
    /// What max-min fairness would give it, where that is defined and known (see the scenario's
    /// routing).
    pub fair_share_gbps: Option<f64>,
    /// From submission to the last byte at the receiving application.
    pub fct_us: Option<Fixed>,
    /// From submission to the sender's knowledge of it.
    pub acked_us: Option<Fixed>,
    /// The same transfer in an empty network; null where that is undefined.
    #[serde(default)]
    pub ideal_us: Option<Fixed>,
    /// Completion time over that.
    pub slowdown: Option<Fixed>,
    /// Payload sent again.
    pub retransmitted_bytes: u64,
    /// Whether it counts among completion times: of a limited size, and submitted after warm-up.
    #[serde(default)]
    pub measured: bool,
    /// Of a reply in a closed loop, from the submission of its request to the last byte.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub exchange_us: Option<Fixed>,
}

/// Flows of one label and one protocol.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct GroupSummary {
    /// As the scenario labels them; may be empty.
    pub label: String,
    /// Their protocol.
    pub protocol: String,
    /// How many.
    pub flows: u64,
    /// Payload delivered since time 0.
    pub delivered_bytes: u64,
    /// Payload sent again.
    pub retransmitted_bytes: u64,
    /// Payload of the messages submitted after warm-up, over the time from warm-up to the end.
    pub offered_gbps: Option<f64>,
    /// What the scenario asks for in its place: from it, `offered_gbps` is drawn. Null unless all
    /// messages come of traffic with a load, a rate or a time between messages.
    #[serde(default)]
    pub asked_gbps: Option<f64>,
    /// Of the flows that have a goodput.
    pub goodput_gbps: Goodput,
    /// Mean of the flows' max-min fair shares; null unless every one has one.
    pub fair_share_gbps: Option<f64>,
    /// The longest mean wait at any hop of their paths, mean over the flows; null where fair shares
    /// are.
    #[serde(default)]
    pub hop_delay_us: Option<Fixed>,
    /// The queueing delay that their protocol aims at where each has its fair share; null where it
    /// aims at none.
    #[serde(default)]
    pub queue_target_us: Option<Fixed>,
    /// Completion times of their messages, as in [`Summary::fct`].
    pub fct: FctSummary,
}

/// Goodput over several flows.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Goodput {
    /// Mean of the flows' goodputs.
    pub mean: Option<f64>,
    /// Smallest.
    pub min: Option<f64>,
    /// Largest.
    pub max: Option<f64>,
    /// Payload of all of them delivered between warm-up and the end, over that time.
    pub total: Option<f64>,
    /// Jain's index of the flows' goodputs: 1 when all are equal, 1/n when one has everything.
    pub jain: Option<f64>,
}

/// One direction of a link, from warm-up to the end.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct LinkSummary {
    /// Sending end.
    pub from: String,
    /// Receiving end.
    pub to: String,
    /// Rate.
    pub rate_gbps: f64,
    /// Wire bytes sent over what would fit; null where nothing is measured.
    pub utilization: Option<f64>,
    /// Queue without the packet in service, over time.
    pub queue_bytes: QueueBytes,
    /// From enqueue to start of transmission, over packets.
    pub queue_delay_us: QueueDelay,
    /// Packets sent: so many delays are behind the mean and the percentile.
    #[serde(default)]
    pub packets: u64,
    /// Packets refused, without credits that found no room in their own queue.
    pub drops: u64,
    /// Those; absent: there is no queue for credits.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub credit_drops: Option<u64>,
    /// Packets marked.
    pub ecn_marks: u64,
    /// Pauses received: times that a class came to stand still.
    pub pfc_pauses: u64,
    /// How long any class stood still; older results do not say.
    #[serde(default)]
    pub paused_us: Option<Fixed>,
    /// Whether the sending end is a host: hosts are pulled, so nothing queues there.
    pub from_host: bool,
}

/// Bytes that wait.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct QueueBytes {
    /// Mean.
    pub mean: Option<f64>,
    /// 99th percentile, where it was recorded.
    pub p99: Option<f64>,
    /// Maximum.
    pub max: Option<f64>,
}

/// How long packets wait.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct QueueDelay {
    /// Mean.
    pub mean: Option<Fixed>,
    /// 99th percentile, where it was recorded.
    pub p99: Option<Fixed>,
    /// Maximum.
    pub max: Option<Fixed>,
}

/// One switch, from warm-up to the end.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SwitchSummary {
    /// As the scenario names it.
    pub name: String,
    /// Hosts linked to it; a switch that has some is a ToR.
    pub hosts: u64,
    /// Bytes queued over all its ports. The percentile is one of samples every 10 µs.
    pub buffer_bytes: QueueBytes,
    /// How many samples those are.
    #[serde(default)]
    pub samples: u64,
    /// Packets refused.
    pub drops: u64,
    /// What it was set to; older results do not say.
    #[serde(default)]
    pub settings: Option<SwitchSettings>,
}

/// What decides at a switch, as in force.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct SwitchSettings {
    /// Strict priorities of a port; older results do not say.
    #[serde(default)]
    pub priorities: Option<u8>,
    /// Size of the buffer that its ports share; null: unlimited.
    pub buffer_size_bytes: Option<u64>,
    /// Queue from which on packets may be marked; null: none is.
    pub mark_from_bytes: Option<f64>,
    /// Queue from which on every packet is marked; null: none is.
    pub mark_all_bytes: Option<f64>,
    /// Share of packets that is marked just below `mark_all_bytes`; null: none is, or older
    /// results.
    #[serde(default)]
    pub mark_max_probability: Option<f64>,
    /// Where packets are marked; null: nowhere, or older results.
    #[serde(default)]
    pub mark_at: Option<MarkedAt>,
    /// Both are for ports of this rate, and in proportion at others; absent: the same at all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mark_per_gbps: Option<f64>,
    /// Senders are paused that have this times what is free of the shared buffer; absent: none is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pfc_alpha: Option<f64>,
    /// Share of a link that credits may take, which have a queue of their own; absent: they have
    /// none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub credit_share: Option<f64>,
}

/// Where packets are marked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum MarkedAt {
    /// Where they join the queue of a port.
    Enqueue,
    /// Where they leave it.
    Dequeue,
    /// Where they join the queue of a port to another switch.
    CoreEnqueue,
    /// Where they leave the queue of a port to another switch.
    CoreDequeue,
}

/// Circuits between racks, as in force.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct CircuitSettings {
    /// Time that a matching stays.
    pub day_us: f64,
    /// Time from a day to the next.
    pub night_us: f64,
    /// Time until the first matching is there again.
    pub week_us: f64,
    /// So long before a day packets are told of its circuit.
    pub prebuffer_us: f64,
    /// What the queue of a rack for another holds; null: unlimited.
    pub voq_bytes: Option<u64>,
    /// The same from prebuffer before a day of its circuit until that ends; null: unlimited.
    pub enlarged_voq_bytes: Option<u64>,
}

/// What injected faults did, over the whole run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct FaultSummary {
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

/// How much links were paused between warm-up and the end: all links, whether they are listed or
/// not.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PauseSummary {
    /// Pauses, over all links.
    pub pauses: u64,
    /// Links that there are, one for each direction.
    pub links: u64,
    /// Those of them that were ever paused.
    pub paused_links: u64,
    /// Share of the measured time in which a link was paused: mean over all links.
    pub share_mean: Option<f64>,
    /// Of the link that was paused longest.
    pub share_max: Option<f64>,
    /// That link, from and to; nothing where none was paused.
    pub longest: Option<(String, String)>,
}

/// A host that paused its switch for long.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PauseStormSummary {
    /// The host.
    pub host: String,
    /// Since when, where it first did.
    pub since_us: Option<Fixed>,
}

/// The [`LINKS_MAX`] busiest of `links`, in their old order, and how many are left out. Of equally
/// busy links the first stay. They are chosen before they are described, since a large fabric has
/// hundreds of thousands.
pub fn busiest<L>(links: &[L], load: impl Fn(&L) -> f64) -> (Vec<&L>, u64) {
    let mut order: Vec<usize> = (0..links.len()).collect();
    order.sort_by(|&a, &b| load(&links[b]).total_cmp(&load(&links[a])));
    order.truncate(LINKS_MAX);
    order.sort_unstable();
    let omitted = (links.len() - order.len()) as u64;
    (order.into_iter().map(|i| &links[i]).collect(), omitted)
}
