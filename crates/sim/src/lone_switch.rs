//! One switch of the engine without hosts, generators or a clock: whoever has packets of another
//! kind hands them in as they arrive, and takes them as they leave.
//!
//! It is a part of a run like others, whose every port is a border. So queues, marks, telemetry,
//! thresholds and the picoseconds of all of it are the simulator's because they are made by the
//! same code.

use std::cell::RefCell;

use tidegate_core::fabric::{Fabric, Link, Node, Routing, StackTime, Switch};
use tidegate_core::faults::Faults;
use tidegate_core::workload::Workload;
use tidegate_core::{ConnectionPolicy, Frame, HopTrace, Rate, Span, Time};

use crate::engine::Ground;
use crate::naming::Table;
use crate::outcome::{LinkRecord, SwitchRecord};
use crate::part::{Mail, Part};
use crate::partition::Partition;
use crate::setup::Setup;

/// A port and the link behind it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LonePort {
    /// Unique.
    pub name: String,
    /// What it sends at.
    pub rate: Rate,
    /// Propagation from the port to the other end of its link.
    pub delay: Span,
}

/// A packet as a switch sees it.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Packet {
    /// What its owner calls it.
    pub number: u32,
    /// To the port `dst`. `at` and `next` are the switch's.
    pub frame: Frame,
    /// Records of the hops before, and of this one once it has left.
    pub hops: HopTrace,
}

/// A packet that has begun to leave.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Leaving {
    /// With the marks and the telemetry of this switch.
    pub packet: Packet,
    /// When its transmission began.
    pub start: Time,
    /// When its last bit is on the link.
    pub end: Time,
    /// When that is at the other end.
    pub landing: Time,
}

/// A switch by itself.
pub struct LoneSwitch {
    part: Part<(), Table>,
    mail: RefCell<Mail>,
    ports: u32,
}

impl LoneSwitch {
    /// With these ports; all chance in marks comes from `seed`.
    ///
    /// # Errors
    /// A switch that does what nobody here could answer (pauses, latency, queues by destination),
    /// fewer than two ports, a port on which a packet spends more than four seconds, and what no
    /// engine takes: credit queues that let nothing through, say.
    pub fn new(switch: Switch, ports: &[LonePort], seed: u64) -> Result<LoneSwitch, String> {
        let named = |what| Err(format!("switch {}: {what}", switch.name));
        if switch.pausing.is_some() {
            return named("pauses would have to be answered by whoever sends to it");
        }
        if switch.latency > Span::ZERO {
            return named("latency is for whoever hands packets in to add");
        }
        if switch.discipline.is_some() {
            return named("queues of its own, where priorities and credits are known");
        }
        if ports.len() < 2 {
            return named("at least two ports");
        }
        let here = Node::Switch(0);
        let link = |(host, port): (u32, &LonePort)| {
            let LonePort { rate, delay, .. } = *port;
            Link { a: Node::Host(host), b: here, rate, delay }
        };
        let fabric = Fabric {
            hosts: ports.iter().map(|port| port.name.clone()).collect(),
            switches: vec![switch],
            links: (0..).zip(ports).map(link).collect(),
            rate_changes: Vec::new(),
            circuits: None,
            mtu: 1,
        };
        let mut ground = Ground::of(setup(fabric, seed))?;
        ground.keeps_records = true;
        let partition = Partition {
            parts: 2,
            of_switch: vec![0],
            of_host: vec![1; ports.len()],
            lookahead: Span::FOREVER,
        };
        let part = Part::new(&ground, &partition, 0, ()).without_samples();
        Ok(LoneSwitch { part, mail: RefCell::default(), ports: ports.len() as u32 })
    }

    /// How far it has come.
    pub fn now(&self) -> Time {
        self.part.now
    }

    /// A packet has arrived in full at `now`, or at [`now()`](Self::now) where that is later;
    /// whether there is a port and room for it. Packets that arrive at one time are taken in the
    /// order of the calls.
    pub fn arrive(&mut self, now: Time, packet: &Packet) -> bool {
        self.part.come_to(now);
        packet.frame.dst < self.ports && self.part.admit(packet)
    }

    /// Comes to `now` and appends what has begun to leave, by port, each port's in order. At equal
    /// times departures are before arrivals.
    pub fn advance(&mut self, now: Time, out: &mut Vec<Leaving>) {
        self.part.come_to(now);
        self.part.release(&self.mail, out);
    }

    /// When the next packet begins to leave, if nothing else arrives before; [`Time::NEVER`] where
    /// none waits. What has begun since the last [`advance`](Self::advance) is no part of it.
    pub fn next(&self) -> Time {
        self.part.next_start_of_all()
    }

    /// What its ports, in their order, and the switch have done so far. Of buffers there is no
    /// percentile: they are not sampled.
    pub fn records(&mut self) -> (Vec<LinkRecord>, SwitchRecord) {
        self.part.records_so_far()
    }
}

/// Where nothing is sent but what others hand in, until for ever.
fn setup(fabric: Fabric, seed: u64) -> Setup {
    Setup {
        fabric,
        routing: Routing::Ecmp,
        stacks: Vec::new(),
        connections: ConnectionPolicy::PerMessage,
        bdp_bytes: None,
        workload: Workload::default(),
        seed,
        duration: Time::NEVER,
        warmup: Time::ZERO,
        drain: Span::ZERO,
        weights: Vec::new(),
        faults: Faults::default(),
        stack_time: StackTime::default(),
        histograms: true,
    }
}
