//! Small fabrics and runs for the tests of the engine.
#![allow(dead_code, unreachable_pub, reason = "each test file uses a part of it")]

pub mod busy;
pub mod cuts;
pub mod left;
pub mod observers;
pub mod programs;
pub mod racks;

use tidegate_algos::message::sird::header::Header;
use tidegate_algos::{Protocol, Stack};
use tidegate_core::fabric::{
    Buffer, Fabric, Headroom, Link, Node, Pausing, Stamping, Switch, TelemetryResolution,
};
use tidegate_core::params::Value;
use tidegate_core::routes::Routes;
use tidegate_core::wire::Carried;
use tidegate_core::workload::{Flow, Workload};
use tidegate_core::{
    Body, ConnectionPolicy, Extent, FabricProperties, FabricRequirements, Marking, Message, Rate,
    Span, Time, mix64,
};
pub use tidegate_sim::simulation::{Simulation, unobserved};
use tidegate_sim::{Departure, Engine, FlowRecord, Outcome, Setup};

use observers::{Observer, ObserverAccess, TestProbe};

pub fn switch(name: &str) -> Switch {
    Switch {
        name: name.into(),
        latency: Span::ZERO,
        telemetry: Stamping::All,
        telemetry_resolution: TelemetryResolution::EXACT,
        buffer: Buffer::Unlimited,
        ecn: None,
        priorities: 8,
        pausing: None,
        credit_queue: None,
        trimming: None,
    }
}

pub fn link(a: Node, b: Node, rate: Rate, delay: Span) -> Link {
    Link { a, b, rate, delay }
}

/// `hosts` hosts around one switch.
pub fn star(hosts: u32, rate: Rate, delay: Span, mtu: u32) -> Fabric {
    Fabric {
        hosts: (0..hosts).map(|h| format!("h{h}")).collect(),
        switches: vec![switch("s0")],
        links: (0..hosts).map(|h| link(Node::Host(h), Node::Switch(0), rate, delay)).collect(),
        mtu,
        ..Fabric::default()
    }
}

/// Racks of hosts, every rack linked to every spine.
pub fn leaf_spine(
    racks: u32,
    hosts: u32,
    spines: u32,
    host_rate: Rate,
    fabric_rate: Rate,
    delay: Span,
    mtu: u32,
) -> Fabric {
    let mut fabric = Fabric {
        hosts: (0..racks * hosts).map(|h| format!("h{h}")).collect(),
        switches: (0..racks).map(|r| switch(&format!("tor{r}"))).collect(),
        links: Vec::new(),
        mtu,
        ..Fabric::default()
    };
    fabric.switches.extend((0..spines).map(|s| switch(&format!("spine{s}"))));
    for h in 0..racks * hosts {
        fabric.links.push(link(Node::Host(h), Node::Switch(h / hosts), host_rate, delay));
    }
    for r in 0..racks {
        for s in 0..spines {
            fabric.links.push(link(Node::Switch(r), Node::Switch(racks + s), fabric_rate, delay));
        }
    }
    fabric
}

/// Enables PFC at every switch, for the class of data, with a buffer of `bytes`.
pub fn lossless(setup: &mut Setup, bytes: u64) {
    for switch in &mut setup.fabric.switches {
        switch.buffer = Buffer::Shared { bytes, alpha: 1.0 };
        switch.pausing = Some(Pausing {
            classes: 1 << (switch.priorities - 1),
            alpha: 0.125,
            reserved_bytes: 2_000,
            headroom: Headroom::RoundTrip { packet_bytes: setup.fabric.mtu + 150 },
            headroom_on_top: false,
            resume_offset_bytes: 3_000,
        });
    }
}

/// Packets dropped at all ports.
pub fn dropped(outcome: &Outcome) -> u64 {
    outcome.links.iter().map(|link| link.drops).sum()
}

pub fn stack(name: &str) -> Stack {
    Protocol::named(name).unwrap_or_else(|| panic!("no protocol {name}")).stack()
}

/// Sends at a constant rate in Gbit/s.
pub fn open_loop(gbps: u64) -> Stack {
    let mut stack = stack("open-loop");
    stack.set("rate", Value::Rate(Rate::gbps(gbps))).unwrap();
    stack
}

/// Hosts 0 and 1 send to 2 and 3 over one link.
pub fn over_one_link(change: impl FnOnce(&mut Setup)) -> (Vec<f64>, Outcome) {
    let mut fabric = star(4, Rate::gbps(100), Span::us(1), 1000);
    fabric.switches.push(switch("s1"));
    for host in [2, 3] {
        fabric.links[host].b = Node::Switch(1);
    }
    let (a, b) = (Node::Switch(0), Node::Switch(1));
    fabric.links.push(link(a, b, Rate::gbps(100), Span::us(1)));
    let flows = vec![unlimited(0, 2, Time::ZERO), unlimited(1, 3, Time::ZERO)];
    let mut setup = setup(fabric, open_loop(100), flows, Time::ms(2));
    setup.warmup = Time::us(200);
    change(&mut setup);
    let (finished, outcome) = run(setup);
    (goodputs(&finished, &outcome), outcome)
}

/// Switches in a ring, two hosts each. Every host sends to the switch after the next.
pub fn ring(switches: u32) -> Setup {
    let hosts = 2 * switches;
    let (rate, delay) = (Rate::gbps(100), Span::us(1));
    let to_host = |h| link(Node::Host(h), Node::Switch(h / 2), rate, delay);
    let around = |s| link(Node::Switch(s), Node::Switch((s + 1) % switches), rate, delay);
    let fabric = Fabric {
        hosts: (0..hosts).map(|h| format!("h{h}")).collect(),
        switches: (0..switches).map(|s| switch(&format!("s{s}"))).collect(),
        links: (0..hosts).map(to_host).chain((0..switches).map(around)).collect(),
        mtu: 1000,
        ..Fabric::default()
    };
    // Several flows of each pair, so that some take each direction.
    let flows = (0..8 * hosts).map(|i| unlimited(i / 8, (i / 8 + 4) % hosts, Time::ZERO)).collect();
    let mut setup = setup(fabric, open_loop(100), flows, Time::ms(20));
    lossless(&mut setup, 400_000);
    setup
}

pub fn flow(src: u32, dst: u32, bytes: u64, start: Time) -> Flow {
    Flow { src, dst, bytes, start, stop: Time::NEVER, stack: 0, label: 0, dedicated: true }
}

pub fn unlimited(src: u32, dst: u32, start: Time) -> Flow {
    flow(src, dst, Message::UNLIMITED, start)
}

pub fn setup(fabric: Fabric, stack: Stack, flows: Vec<Flow>, duration: Time) -> Setup {
    Setup {
        stacks: vec![stack],
        connections: ConnectionPolicy::PerPair,
        workload: Workload { flows, traffic: Vec::new() },
        duration,
        ..Setup::new(fabric, 1)
    }
}

/// Requirements of the first protocol of a run.
pub fn requirements_of(setup: &Setup) -> FabricRequirements {
    let reach = Routes::new(&setup.fabric).expect("a valid fabric").reach();
    setup.stacks[0].requirements(&FabricProperties::of(&setup.fabric, reach, setup.bdp_bytes))
}

/// Gives the fabric the requirements of the run's first protocol; step marking has its threshold at
/// `step_bytes`.
pub fn equipped(mut setup: Setup, step_bytes: f64) -> Setup {
    let FabricRequirements { ecn, routing, credit_queue, .. } = requirements_of(&setup);
    let step = |marking: Marking| {
        Marking { core_only: marking.core_only, ..Marking::step(Extent::Bytes(step_bytes)) }
            .resolved(0.0)
    };
    for switch in &mut setup.fabric.switches {
        (switch.ecn, switch.credit_queue) = (ecn.map(step), credit_queue);
    }
    setup.routing = routing;
    setup
}

/// Gives the switches the credit queues that the first protocol of a run requires, and its routing.
pub fn crediting(mut setup: Setup) -> Setup {
    let FabricRequirements { routing, credit_queue, .. } = requirements_of(&setup);
    setup.fabric.switches.iter_mut().for_each(|switch| switch.credit_queue = credit_queue);
    setup.routing = routing;
    setup
}

/// [`Engine::advance`] of runs without observers. The library has their engines, so they are not
/// compiled again.
pub trait Advance {
    fn advance(&mut self, until: Time);
}

impl Advance for dyn Simulation {
    fn advance(&mut self, until: Time) {
        while !self.advance_some(until, u64::MAX).unwrap_or_else(|why| panic!("{why}")) {}
    }
}

/// Runs to the end. Returns completed flows, then the rest.
pub fn run(setup: Setup) -> (Vec<FlowRecord>, Outcome) {
    let mut engine = unobserved(setup, 1).expect("a valid setup");
    engine.advance(Time::NEVER);
    let mut outcome = engine.finish().unwrap();
    let finished = std::mem::take(&mut outcome.finished);
    none_beats_its_ideal(&finished);
    (finished, outcome)
}

/// Asserts that no message is faster than in an empty network.
pub fn none_beats_its_ideal(finished: &[FlowRecord]) {
    for row in finished {
        let took = row.completed.expect("finished").since(row.start);
        assert!(took >= row.ideal, "{took} for {} B, ideally {}: {row:?}", row.bytes, row.ideal);
    }
}

/// Goodput in bit/s after warm-up of every flow, by source host.
pub fn goodputs(finished: &[FlowRecord], outcome: &Outcome) -> Vec<f64> {
    let mut all: Vec<_> = finished.iter().chain(&outcome.unfinished).collect();
    all.sort_by_key(|record| record.src);
    all.iter().map(|record| record.goodput_bps().expect("a life of ten packets")).collect()
}

/// Jain's fairness index.
pub fn jain(rates: &[f64]) -> f64 {
    let (sum, squares) = rates.iter().fold((0.0, 0.0), |(s, q), r| (s + r, q + r * r));
    sum * sum / (rates.len() as f64 * squares)
}

/// One number for every packet of a SIRD run: its departure time and port, and its contents.
#[derive(Default)]
pub struct Trace {
    ports: Vec<u64>,
}

impl Trace {
    /// By port; each port belongs to one partition.
    pub fn merged<'a>(traces: impl Iterator<Item = &'a Trace>) -> u64 {
        let mut all = Trace::default();
        for trace in traces {
            all.ports.resize(all.ports.len().max(trace.ports.len()), 0);
            all.ports.iter_mut().zip(&trace.ports).for_each(|(all, port)| *all ^= port);
        }
        all.digest()
    }

    pub fn digest(&self) -> u64 {
        self.ports.iter().fold(0, |digest, &port| mix64(digest ^ port).wrapping_add(1))
    }
}

/// Kind, flags and offset of a SIRD packet, encoded as in the first traces.
fn packet_values(body: &Body) -> (u64, u64, u64) {
    let again = if body.is_retransmission { 2 } else { 0 };
    match Header::read(body).expect("a SIRD packet") {
        Header::Data(data) => {
            let csn = if data.sender_congested { 16 } else { 0 };
            (0, data.end_of_message as u64 | again | csn, data.offset)
        }
        Header::Ack(ack) => (1, 0, ack.granted),
        Header::Credit(credit) => (2, 0, credit.offset),
        Header::Request(request) => (3, again, request.sent),
        Header::Resend(resend) => (16, if resend.stalled { 32 } else { 0 }, resend.offset),
        Header::Busy(_) => (17, 0, 0),
    }
}

impl Observer for Trace {
    fn departed(&mut self, d: &Departure<'_>) {
        let port = d.port as usize;
        if self.ports.len() <= port {
            self.ports.resize(port + 1, 0);
        }
        let (kind, flags, number) = packet_values(d.body);
        let what = kind << 32 | flags << 16 | d.frame.wire_bytes as u64;
        let partitions =
            [d.at.as_ps(), what, (d.body.src as u64) << 32 | d.frame.dst as u64, number];
        self.ports[port] = partitions
            .iter()
            .fold(self.ports[port], |digest, &x| mix64(digest ^ x).wrapping_add(1));
    }
}

/// Trace of all packets of a run.
pub fn trace(setup: Setup) -> u64 {
    let duration = setup.duration;
    let mut engine = Engine::new(setup, TestProbe::of(Trace::default())).expect("a valid setup");
    engine.advance(duration);
    engine.probe().inner::<Trace>().digest()
}
