//! The switches of a fabric without its hosts, generators or a clock: whoever has packets of
//! another kind hands them in as they arrive at the first switch, and takes them as they leave the
//! last.
//!
//! It is a part of a run like others, with hosts beyond its boundaries. So paths, queues, marks,
//! telemetry, thresholds and the picoseconds of all of it are the simulator's because they are made
//! by the same code.

use std::cell::RefCell;

use tidegate_core::fabric::{Fabric, Node, Routing, StackTime, Switch};
use tidegate_core::faults::Faults;
use tidegate_core::workload::Workload;
use tidegate_core::{Body, ConnectionPolicy, Frame, HopTrace, Span, Time};

use crate::engine::Ground;
use crate::naming::Table;
use crate::outcome::{LinkRecord, SwitchRecord};
use crate::partition::{Mailbox, Partition};
use crate::partitioning::Partitioning;
use crate::probe::Probe;
use crate::setup::Setup;

/// A packet as switches see it.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Packet {
    /// What its owner calls it.
    pub number: u32,
    /// To the host `dst`. `at` and `next` are the switches'.
    pub frame: Frame,
    /// Records of the hops before, and of those here once it has left.
    pub hops: HopTrace,
}

/// A packet that has begun to leave for its host.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Leaving {
    /// With the marks and the telemetry of all switches.
    pub packet: Packet,
    /// When its transmission began.
    pub start: Time,
    /// When its last bit is on the link.
    pub end: Time,
    /// When that is at the host.
    pub landing: Time,
}

/// Switches by themselves.
pub struct OpenFabric {
    partition: Partition<Dropped, Table>,
    mail: RefCell<Mailbox>,
    uplinks: Vec<Uplink>,
}

/// How packets get from a host to its switch.
struct Uplink {
    /// The switch holds them so long before it queues them.
    latency: Span,
    /// When the last of them is queued: none overtakes another.
    last: Time,
}

/// Numbers of the packets that went no further.
#[derive(Default)]
struct Dropped(Vec<u32>);

impl Probe for Dropped {
    fn dropped(&mut self, body: &Body) {
        self.0.push(body.message);
    }
}

impl OpenFabric {
    /// All chance, in marks and paths, comes from `seed`.
    ///
    /// # Errors
    /// Switches that pause, which whoever sends would have to answer, circuits, and what no engine
    /// takes: hosts that cannot reach each other, links on which a packet spends more than four
    /// seconds, credit queues that let nothing through, say.
    pub fn new(fabric: Fabric, routing: Routing, seed: u64) -> Result<OpenFabric, String> {
        let pauses = |switch: &&Switch| switch.pausing.is_some();
        if let Some(Switch { name, .. }) = fabric.switches.iter().find(pauses) {
            return Err(format!("switch {name} pauses, which nobody here would hear"));
        }
        if fabric.circuits.is_some() || !fabric.rate_changes.is_empty() {
            return Err("circuits, or rates that change, by a clock that is not here".to_owned());
        }
        let partitioning = Partitioning {
            partitions: 2,
            of_switch: vec![0; fabric.switches.len()],
            of_host: vec![1; fabric.hosts.len()],
            lookahead: Span::FOREVER,
        };
        let mut ground = Ground::of(setup(fabric, routing, seed))?;
        ground.keeps_records = true;
        let partition = Partition::new(&ground, &partitioning, 0, Dropped::default()).open();
        let fabric = &ground.setup.fabric;
        let uplink = |host: u32| {
            let latency = match fabric.port_ends(ground.routes.uplink(host)).to {
                Node::Switch(switch) => fabric.switches[switch as usize].latency,
                Node::Host(_) => Span::ZERO,
            };
            Uplink { latency, last: Time::ZERO }
        };
        let uplinks = (0..fabric.hosts.len() as u32).map(uplink).collect();
        Ok(OpenFabric { partition, mail: RefCell::default(), uplinks })
    }

    /// How far it has come.
    pub fn now(&self) -> Time {
        self.partition.now
    }

    /// A packet from a host has arrived in full at its switch at `now`, or when the one before from
    /// there has or at [`now()`](Self::now), where that is later; `false` where there is no such
    /// host, or none that it is for.
    pub fn arrive(&mut self, now: Time, host: u32, packet: &Packet) -> bool {
        if packet.frame.dst as usize >= self.uplinks.len() {
            return false;
        }
        let Some(uplink) = self.uplinks.get_mut(host as usize) else { return false };
        // Others may arrive at the same time: which of them is first is decided with all there.
        self.partition.come_to(now.before(Span::ps(1)));
        uplink.last = uplink.last.max(now.max(self.partition.now) + uplink.latency);
        self.partition.enter(host, uplink.last, packet);
        true
    }

    /// Comes to `now`. Appends to `leaving` what has begun to leave for hosts, by host, each one's
    /// in order, and to `dropped` the numbers of those packets that went no further. At equal times
    /// departures are before arrivals, and those in the order of the simulator.
    pub fn advance(&mut self, now: Time, leaving: &mut Vec<Leaving>, dropped: &mut Vec<u32>) {
        self.partition.come_to(now);
        self.partition.release(&self.mail, leaving);
        dropped.append(&mut self.partition.probe.0);
    }

    /// When something happens next if nothing else arrives before: no packet begins to leave for a
    /// host earlier that [`advance`](Self::advance) has not told.
    pub fn next(&self) -> Time {
        self.partition.next_at()
    }

    /// What has been measured so far is forgotten; as of when.
    pub fn measure_anew(&mut self) -> Time {
        let now = self.partition.now;
        self.partition.measure_from(now);
        now
    }

    /// Bytes queued now at the ports of switches: each as [`Sample::entity`](crate::Sample) names
    /// it.
    pub fn queues(&mut self) -> impl Iterator<Item = (u64, u32)> {
        self.partition.commit_all();
        self.partition.queues().map(|(port, bytes)| (u64::from(port), bytes))
    }

    /// What the ports of switches, by number, and the switches have done so far. Of buffers there
    /// is no percentile: they are not sampled.
    pub fn records(&mut self) -> (Vec<LinkRecord>, Vec<SwitchRecord>) {
        let (links, switches) = self.partition.records();
        (links.into_iter().map(|(_, link)| link).collect(), switches)
    }
}

/// Where nothing is sent but what others hand in, until for ever.
fn setup(fabric: Fabric, routing: Routing, seed: u64) -> Setup {
    Setup {
        fabric,
        routing,
        stacks: Vec::new(),
        connections: ConnectionPolicy::PerMessage,
        bdp_bytes: None,
        workload: Workload::default(),
        seed,
        duration: Time::NEVER,
        until_done: false,
        warmup: Time::ZERO,
        drain: Span::ZERO,
        weights: Vec::new(),
        faults: Faults::default(),
        stack_time: StackTime::default(),
        histograms: true,
    }
}
