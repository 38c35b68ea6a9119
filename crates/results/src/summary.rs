//! The model of `summary.json`.

use crate::fct::FctSummary;
use crate::fixed::Fixed;
use crate::jobs::JobSummary;
use crate::queue::{QueueBytes, QueueDelay};
use crate::real::RealSummary;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::io;

/// Largest number of flows in `flows`; larger runs have only `flows.parquet`.
pub const FLOWS_MAX: usize = 1000;
/// Largest number of links in `links`; larger fabrics keep only the busiest.
pub const LINKS_MAX: usize = 1000;

/// Summary of a run: the content of `summary.json`.
///
/// The same scenario, seed and build give the same summary, except for the volatile keys of
/// [`Engine`].
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Summary {
    /// Version of this schema. New keys do not change the version.
    pub schema: u32,
    /// Name of the scenario.
    pub name: String,
    /// Seed of all random numbers.
    pub seed: u64,
    /// Names of the protocols in use, in order of first use.
    pub protocols: Vec<String>,
    /// How messages share connections: `per-message`, `per-pair`, or a number of connections per
    /// ordered pair of hosts.
    #[serde(default)]
    pub connections: String,
    /// Routing among equal paths: the value of the key `routing`. Missing in older results.
    #[serde(default)]
    pub routing: String,
    /// Rates per connection, in Gbit/s, of protocols that send at a fixed rate: all distinct rates
    /// that the scenario sets, by protocol.
    #[serde(skip_serializing_if = "BTreeMap::is_empty", default)]
    pub fixed_rates_gbps: BTreeMap<String, Vec<f64>>,
    /// End of submissions and of the measured window, in seconds.
    pub sim_seconds: f64,
    /// Duration of the drain, in seconds: time after `sim_seconds` for messages to complete.
    #[serde(default)]
    pub drain_seconds: f64,
    /// Longest allowed drain, in seconds.
    #[serde(default)]
    pub drain_max_seconds: f64,
    /// Start of the measured window of goodput, queues and utilisation, in seconds.
    pub warmup_seconds: f64,
    /// Whether the run ended early.
    pub truncated: bool,
    /// Warnings of settings and results that are allowed but probably unintended.
    pub warnings: Vec<String>,
    /// Measurements of the run itself.
    pub engine: Engine,
    /// In live UDP mode: measurements of the machine.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub real: Option<RealSummary>,
    /// Flows by id, if there are at most [`FLOWS_MAX`].
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub flows: Option<Vec<FlowSummary>>,
    /// File that contains the flows, if `flows` does not.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub flows_in: Option<String>,
    /// Flows by label and protocol.
    pub groups: Vec<GroupSummary>,
    /// Completion times of messages submitted after warm-up: `all`, and by label.
    pub fct: BTreeMap<String, FctSummary>,
    /// For closed loops, times from the submission of a request to the last byte of its reply: as
    /// in [`fct`](Self::fct), by the label of requests, without slowdowns and sizes. Only requests
    /// submitted after warm-up count. A request without a reply at the end is unfinished.
    #[serde(skip_serializing_if = "BTreeMap::is_empty", default)]
    pub exchanges: BTreeMap<String, FctSummary>,
    /// Collectives, in order of the scenario.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub jobs: Vec<JobSummary>,
    /// Links, one entry per direction.
    pub links: Vec<LinkSummary>,
    /// Number of omitted links, which are less busy than those in `links`.
    pub links_omitted: u64,
    /// Switches.
    pub switches: Vec<SwitchSummary>,
    /// Circuits between racks, if the fabric has any.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub circuits: Option<CircuitSettings>,
    /// Effects of injected faults, if the scenario has any.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub faults: Option<FaultSummary>,
    /// Hosts that paused their switch for 100 us or more.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub pause_storms: Vec<PauseStormSummary>,
    /// PFC pauses of all links; absent if no switch has PFC.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub pauses: Option<PauseSummary>,
}

impl Summary {
    /// Value of [`schema`](Self::schema).
    pub const SCHEMA: u32 = 1;

    /// Returns inconsistencies: goodput or utilisation above link rates, a mean or percentile above
    /// a maximum. A correct run has none; tests check this for every run.
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
        // A host has one link. A NIC has a link to its host and one for each port; these repeat the
        // host's capacity, so only hosts count.
        let mut links_from: BTreeMap<&str, u32> = BTreeMap::new();
        for link in self.links.iter().filter(|link| link.from_host) {
            *links_from.entry(&link.from).or_default() += 1;
        }
        let of_host = |link: &&LinkSummary| links_from.get(&*link.from) == Some(&1);
        let nics = || self.links.iter().filter(of_host).map(|link| link.rate_gbps);
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

    /// Writes `summary.json`.
    ///
    /// # Errors
    /// If writing to `to` fails.
    pub fn write(&self, to: impl io::Write) -> io::Result<()> {
        write_json(self, to)
    }
}

/// Writes indented JSON with a newline at the end.
///
/// # Errors
/// If writing to `to` fails.
pub fn write_json(value: &impl Serialize, mut to: impl io::Write) -> io::Result<()> {
    serde_json::to_writer_pretty(&mut to, value)?;
    to.write_all(b"\n")
}

/// Measurements of the run itself. Some of them [vary](Self::VARIES) from run to run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Engine {
    /// Digest of the simulated outcome, 16 hexadecimal digits.
    pub digest: String,
    /// Packets, data or control, delivered over any link, including host links.
    pub packet_hops: u64,
    /// Wall-clock time of the run.
    pub wall_seconds: f64,
    /// Processor time of the run.
    pub cpu_seconds: f64,
    /// Number of events.
    pub events: u64,
    /// Packet-hops over wall seconds; null if no time passed.
    pub packet_hops_per_second: Option<f64>,
    /// Number of threads.
    pub threads: usize,
    /// Peak memory of the process, if the system reports it.
    pub peak_rss_bytes: Option<u64>,
}

impl Engine {
    /// The keys that vary from run to run.
    pub const VARIES: [&str; 6] = [
        "wall_seconds",
        "cpu_seconds",
        "events",
        "packet_hops_per_second",
        "threads",
        "peak_rss_bytes",
    ];
}

/// One flow: an explicit one or a generated message.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct FlowSummary {
    /// Number in order of submission.
    pub id: u64,
    /// Label in the scenario; may be empty.
    pub label: String,
    /// Sending host.
    pub src: String,
    /// Receiving host.
    pub dst: String,
    /// Protocol.
    pub protocol: String,
    /// Time of submission.
    pub start_us: Fixed,
    /// Payload; null for an unlimited flow.
    pub size_bytes: Option<u64>,
    /// Payload delivered to the receiving application since time 0.
    pub delivered_bytes: u64,
    /// Payload delivered within the measured window, over the part of the flow's lifetime within
    /// it; null if that part is shorter than the time of ten full packets on the slowest link of
    /// its path.
    pub goodput_gbps: Option<f64>,
    /// Max-min fair rate, if it is defined and known (this depends on the routing).
    pub fair_share_gbps: Option<f64>,
    /// Time from submission to the last byte at the receiving application.
    pub fct_us: Option<Fixed>,
    /// Time from submission until the sender knows that the message is complete.
    pub acked_us: Option<Fixed>,
    /// Completion time of the same transfer in an empty network; null if undefined.
    #[serde(default)]
    pub ideal_us: Option<Fixed>,
    /// Completion time over the ideal completion time.
    pub slowdown: Option<Fixed>,
    /// Retransmitted payload.
    pub retransmitted_bytes: u64,
    /// Whether the flow counts in completion times: it has a limited size and was submitted after
    /// warm-up.
    #[serde(default)]
    pub measured: bool,
    /// For a reply in a closed loop, time from the submission of its request to the last byte.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub exchange_us: Option<Fixed>,
}

/// Flows of one label and one protocol.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct GroupSummary {
    /// Label in the scenario; may be empty.
    pub label: String,
    /// Protocol.
    pub protocol: String,
    /// Number of flows.
    pub flows: u64,
    /// Payload delivered since time 0.
    pub delivered_bytes: u64,
    /// Retransmitted payload.
    pub retransmitted_bytes: u64,
    /// Payload of the messages submitted after warm-up, over the time from warm-up to the end.
    pub offered_gbps: Option<f64>,
    /// Mean offered rate that the scenario sets; `offered_gbps` is a random sample of it. Null
    /// unless all messages belong to traffic with a load, a rate or a gap.
    #[serde(default)]
    pub asked_gbps: Option<f64>,
    /// Goodput of the flows that have one.
    pub goodput_gbps: Goodput,
    /// Mean of the flows' max-min fair shares; null unless every flow has one.
    pub fair_share_gbps: Option<f64>,
    /// Largest mean queueing delay of a hop of a flow's path, averaged over the flows; null if fair
    /// shares are null.
    #[serde(default)]
    pub hop_delay_us: Option<Fixed>,
    /// Queueing delay that the protocol aims at if each flow has its fair share; null if it has no
    /// target.
    #[serde(default)]
    pub queue_target_us: Option<Fixed>,
    /// Completion times of the group's messages, as in [`Summary::fct`].
    pub fct: FctSummary,
}

/// Goodput over several flows.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Goodput {
    /// Mean of the flows' goodputs.
    pub mean: Option<f64>,
    /// Minimum.
    pub min: Option<f64>,
    /// Maximum.
    pub max: Option<f64>,
    /// Payload of all flows delivered within the measured window, over its length.
    pub total: Option<f64>,
    /// Jain's index of the flows' goodputs: 1 if all are equal, 1/n if one flow has everything.
    pub jain: Option<f64>,
}

/// One direction of a link, within the measured window.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct LinkSummary {
    /// Node at the sending end.
    pub from: String,
    /// Node at the receiving end.
    pub to: String,
    /// Rate, at the end of the run if it changes.
    pub rate_gbps: f64,
    /// Wire bytes sent over the capacity; null if nothing is measured.
    pub utilization: Option<f64>,
    /// Queue length over time, without the packet in service.
    pub queue_bytes: QueueBytes,
    /// Time from enqueue to start of transmission, over packets.
    pub queue_delay_us: QueueDelay,
    /// Packets sent, which is the number of delays in the mean and the percentile.
    #[serde(default)]
    pub packets: u64,
    /// Packets dropped, without credits dropped at the credit queue.
    pub drops: u64,
    /// Credits dropped at the credit queue; absent if there is none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub credit_drops: Option<u64>,
    /// Packets that lost their payload; absent if the switch does not trim.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trims: Option<u64>,
    /// Trimmed packets that were sent back to their senders because there was no room for them.
    /// They count in `drops` only if a switch drops them later. Absent if the switch does not
    /// return packets.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub returned: Option<u64>,
    /// Packets with an ECN mark from this port.
    pub ecn_marks: u64,
    /// PFC pauses received: number of times that a class was paused.
    pub pfc_pauses: u64,
    /// Time in which any class was paused. Missing in older results.
    #[serde(default)]
    pub paused_us: Option<Fixed>,
    /// Whether the sending end is a host, or the NIC of a host with several ports. A host's port
    /// pulls packets, so nothing queues there. All ports of a NIC have queues.
    pub from_host: bool,
}

/// One switch, within the measured window.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SwitchSummary {
    /// Name in the scenario.
    pub name: String,
    /// Number of hosts linked to it; a switch with hosts is a ToR.
    pub hosts: u64,
    /// Bytes queued at all its ports. The percentile is that of samples every 10 µs.
    pub buffer_bytes: QueueBytes,
    /// Number of samples.
    #[serde(default)]
    pub samples: u64,
    /// Packets dropped.
    pub drops: u64,
    /// Settings. Missing in older results.
    #[serde(default)]
    pub settings: Option<SwitchSettings>,
}

/// Effective settings of a switch.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct SwitchSettings {
    /// Number of strict priorities at a port. Missing in older results.
    #[serde(default)]
    pub priorities: Option<u8>,
    /// Size of the shared packet buffer; null: unlimited.
    pub buffer_size_bytes: Option<u64>,
    /// Queue length from which packets may be marked; null: no marking.
    pub mark_from_bytes: Option<f64>,
    /// Queue length from which every packet is marked; null: no marking.
    pub mark_all_bytes: Option<f64>,
    /// Marking probability just below `mark_all_bytes`; null: no marking, or older results.
    #[serde(default)]
    pub mark_max_probability: Option<f64>,
    /// Where packets are marked; null: no marking, or older results.
    #[serde(default)]
    pub mark_at: Option<MarkedAt>,
    /// Port rate for which both thresholds hold; at other ports they scale with the rate. Absent:
    /// the same at all ports.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mark_per_gbps: Option<f64>,
    /// PFC threshold of a sender as a multiple of the free shared buffer; absent: no PFC.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pfc_alpha: Option<f64>,
    /// Share of the link rate that the credit queue may use; absent: no credit queue.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub credit_share: Option<f64>,
    /// Unit of delays in telemetry; absent: exact.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub telemetry_quantum_us: Option<f64>,
    /// Period in which a port renews the values of telemetry; absent: with each packet.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub telemetry_period_us: Option<f64>,
}

/// Where packets are marked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum MarkedAt {
    /// When they join the queue of a port.
    Enqueue,
    /// When they leave the queue of a port.
    Dequeue,
    /// When they join the queue of a port to another switch.
    CoreEnqueue,
    /// When they leave the queue of a port to another switch.
    CoreDequeue,
}

/// Effective settings of circuits between racks.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct CircuitSettings {
    /// Duration of a matching.
    pub day_us: f64,
    /// Time between two days.
    pub night_us: f64,
    /// Period of the schedule of matchings.
    pub week_us: f64,
    /// Time before a day from which packets are marked as in that day.
    pub prebuffer_us: f64,
    /// Capacity of a rack's queue for another rack; null: unlimited.
    pub voq_bytes: Option<u64>,
    /// Capacity of that queue from prebuffer before a day of its circuit until the end of the day;
    /// null: unlimited.
    pub enlarged_voq_bytes: Option<u64>,
}

/// Effects of injected faults over the whole run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct FaultSummary {
    /// Packets lost on links, without a path, or in the queue of a link that failed.
    pub lost: u64,
    /// Packets dropped by a receiving host because of a checksum error.
    pub corrupted: u64,
    /// Packets delivered twice.
    pub duplicated: u64,
    /// Packets held back.
    pub reordered: u64,
    /// Number of link failures.
    pub outages: u64,
}

/// PFC pauses within the measured window, over all links, listed or not.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PauseSummary {
    /// Number of pauses.
    pub pauses: u64,
    /// Number of links, counted per direction.
    pub links: u64,
    /// Number of links that were paused at least once.
    pub paused_links: u64,
    /// Mean over all links of the share of the measured window in which a link was paused.
    pub share_mean: Option<f64>,
    /// Share of the link that was paused longest.
    pub share_max: Option<f64>,
    /// Ends of that link, from and to; null if no link was paused.
    pub longest: Option<(String, String)>,
}

/// A host that paused its switch for a long time (pause storm).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PauseStormSummary {
    /// The host.
    pub host: String,
    /// Start of its first long pause.
    pub since_us: Option<Fixed>,
}

/// Returns the [`LINKS_MAX`] busiest of `links` in their original order, and the number of omitted
/// links. Among equally busy links, the first are kept. The selection precedes the summaries of
/// links, because a large fabric has hundreds of thousands of links.
pub fn busiest<L>(links: &[L], load: impl Fn(&L) -> f64) -> (Vec<&L>, u64) {
    let mut order: Vec<usize> = (0..links.len()).collect();
    order.sort_by(|&a, &b| load(&links[b]).total_cmp(&load(&links[a])));
    order.truncate(LINKS_MAX);
    order.sort_unstable();
    let omitted = (links.len() - order.len()) as u64;
    (order.into_iter().map(|i| &links[i]).collect(), omitted)
}
