//! A small, busy fabric, and an observer that records all of it.

use std::cell::RefCell;

use tidegate_algos::Stack;
use tidegate_core::fabric::{Ecn, MarkAt};
use tidegate_core::workload::{Pattern, Sizes, Traffic};
use tidegate_core::{Body, ConnectionPolicy, Frame, Hop, Rate, Span, Time};
use tidegate_sim::{Departure, Observer, Setup};

use super::{leaf_spine, setup, unlimited};

/// All fields of a departure.
#[derive(Clone, Debug, PartialEq)]
pub struct Record {
    pub at: Time,
    pub port: u32,
    pub waited: Span,
    pub queue_bytes: u32,
    pub dst: u32,
    pub entropy: u32,
    pub frame: (Span, u16, u8, u8),
    pub body: Body,
    pub hops: Vec<Hop>,
}

/// Records every departure, by port and in order.
#[derive(Default)]
pub struct Recorder {
    ports: RefCell<Vec<Vec<Record>>>,
    pub arrived: u64,
}

impl Recorder {
    /// Takes the records out of the engine: copies of them took a third of the time of these tests.
    pub fn take_ports(&self) -> Vec<Vec<Record>> {
        self.ports.take()
    }
}

impl Observer for Recorder {
    fn arrived(&mut self, _now: Time, _host: u32, _frame: &Frame, _body: &Body) {
        self.arrived += 1;
    }
    fn departed(&mut self, d: &Departure<'_>) {
        let (port, ports) = (d.port as usize, self.ports.get_mut());
        if ports.len() <= port {
            ports.resize(port + 1, Vec::new());
        }
        ports[port].push(Record {
            at: d.at,
            port: d.port,
            waited: d.waited,
            queue_bytes: d.queue_bytes,
            dst: d.frame.dst,
            entropy: d.frame.entropy,
            frame: (d.frame.peak_hop_delay, d.frame.wire_bytes, d.frame.priority, d.frame.flags),
            body: *d.body,
            hops: d.hops.as_slice().to_vec(),
        });
    }
}

/// A busy small fabric: incast, cross traffic and short messages over a leaf-spine.
pub fn busy(stack: Stack, seed: u64) -> Setup {
    let fabric = leaf_spine(3, 4, 2, Rate::gbps(100), Rate::gbps(100), Span::ns(600), 1000);
    let mut setup = setup(fabric, stack, vec![unlimited(0, 11, Time::ZERO)], Time::us(400));
    let block = |pattern, bytes, start| Traffic {
        pattern,
        sizes: Sizes::Fixed(bytes),
        stack: 0,
        label: 0,
        start,
        stop: Time::us(300),
    };
    let incast = Pattern::Incast {
        fan_in: 8,
        dst: Some(2),
        interval: Span::us(90),
        poisson: false,
        jitter: Span::us(1),
    };
    let poisson = Pattern::Poisson {
        mean_gap_ps: 4e6,
        senders: (0..12).collect(),
        receivers: (0..12).collect(),
    };
    setup.workload.traffic = vec![
        block(Pattern::Permutation, 300_000, Time::us(5)),
        block(incast, 50_000, Time::us(10)),
        block(poisson, 1_500, Time::ZERO),
    ];
    setup.connections = ConnectionPolicy::Pool(3);
    setup.seed = seed;
    setup
}

pub fn with_ecn(mut setup: Setup) -> Setup {
    for switch in &mut setup.fabric.switches {
        switch.ecn = Some(Ecn {
            min_bytes: 20e3,
            max_bytes: 60e3,
            max_probability: 0.5,
            at: MarkAt::Dequeue,
            core_only: false,
            per: None,
        });
    }
    setup
}
