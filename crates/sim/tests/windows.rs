//! Windows, thresholds and arrivals against what their papers compute of them.
mod common;

use common::*;
use tidegate_algos::Protocol;
use tidegate_core::fabric::{Buffer, Ecn, Fabric, MarkAt, Node, Routing};
use tidegate_core::params::Value;
use tidegate_core::workload::{Distribution, Pattern, Sampling, Sizes, Traffic};
use tidegate_core::{Domain, Extent, HEADER_BYTES, Message, Need, Rate, Rng, Time};
use tidegate_sim::{Departure, Engine, FlowRecord, Probe, Setup};

/// Peaks and troughs of the queue that packets leave behind at one port.
struct Swing {
    port: u32,
    from: Time,
    /// A swing goes above the second and below the first.
    band: (u32, u32),
    rising: bool,
    extreme: u32,
    peaks: Vec<f64>,
    troughs: Vec<f64>,
}

impl Swing {
    fn of(port: u32, from: Time, band: (u32, u32)) -> Swing {
        Swing { port, from, band, rising: true, extreme: 0, peaks: Vec::new(), troughs: Vec::new() }
    }
}

impl Probe for Swing {
    fn departed(&mut self, d: &Departure<'_>) {
        if d.port != self.port || d.at < self.from {
            return;
        }
        let queue = d.queue_bytes;
        let turns = if self.rising { queue < self.band.0 } else { queue > self.band.1 };
        if turns {
            let turned = if self.rising { &mut self.peaks } else { &mut self.troughs };
            turned.push(f64::from(self.extreme));
            self.rising = !self.rising;
            self.extreme = queue;
        }
        self.extreme = if self.rising { self.extreme.max(queue) } else { self.extreme.min(queue) };
    }
}

fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len() as f64
}

/// `senders` hosts and one receiver around a switch, and the port that leads to the receiver.
fn funnel(senders: u32, rate: Rate, delay: Time, mtu: u32) -> (Fabric, usize) {
    let fabric = star(senders + 1, rate, delay, mtu);
    // Link i gives ports 2i (from the host) and 2i + 1 (from the switch).
    let port = 2 * fabric.links.len() - 1;
    (fabric, port)
}

/// Slope and intercept of the least-squares line.
fn line(points: &[(f64, f64)]) -> (f64, f64) {
    let n = points.len() as f64;
    let (x, y) = points.iter().fold((0.0, 0.0), |(x, y), p| (x + p.0 / n, y + p.1 / n));
    let (xy, xx) = points.iter().fold((0.0, 0.0), |(xy, xx), p| (xy + (p.0 - x) * (p.1 - y), xx + (p.0 - x).powi(2)));
    (xy / xx, y - xy / xx * x)
}

/// PowerTCP (NSDI 2022), theorem 1 and appendix A: the windows at a link add up to bτ + Σβ, so its queue is Σβ.
#[test]
fn powertcp_leaves_a_queue_of_the_sum_of_its_betas() {
    let (flows, rate) = (4, Rate::gbps(200));
    for (mtu, delay) in [(1000, Time::us(1)), (4096, Time::us(1)), (4096, Time::us(3))] {
        let mut points = Vec::new();
        for sum in [0.2, 0.4, 0.6, 0.8, 1.0] {
            let (fabric, port) = funnel(flows, rate, delay, mtu);
            let mut stack = stack("powertcp");
            stack.set("tau", Value::Choice("path")).unwrap();
            stack.set("beta", Value::Extent(Extent::Bdp(sum / f64::from(flows)))).unwrap();
            let mut rng = Rng::stream(1, Domain::Traffic, 9);
            let starts = (0..flows).map(|h| unlimited(h, flows, Time::us(20).scale(rng.unit()))).collect();
            let mut setup = setup(fabric, stack, starts, Time::ms(4));
            setup.warmup = Time::ms(2);
            let mut engine = Engine::new(setup, ()).unwrap();
            let path = engine.paths().path(0, flows);
            engine.advance(Time::ms(4));
            let (finished, outcome) = engine.finish();
            let link = &outcome.links[port];
            let utilisation = link.wire_bytes as f64 * 8.0 / 2e-3 / rate.as_bps() as f64;
            println!("mtu {mtu} delay {delay} tau {} bdp {} sum {sum}: queue {:.0} bdp share {:.3} max {} util {utilisation:.4} jain {:.4}", path.base_rtt, path.bdp_bytes, link.queue_bytes.mean, link.queue_bytes.mean / path.bdp_bytes, link.queue_bytes.max, jain(&goodputs(&finished, &outcome)));
            points.push((sum * path.bdp_bytes, link.queue_bytes.mean));
        }
        let (slope, intercept) = line(&points);
        println!("slope {slope:.3} intercept {intercept:.0} B = {:.2} packets a flow", intercept / f64::from(flows) / f64::from(mtu + 80));
    }
}

/// DCTCP
#[test]
fn dctcp_swings() {
    let (rate, mtu, k) = (Rate::gbps(10), 1420, 40.0);
    let packet = f64::from(mtu + HEADER_BYTES);
    for n in [2u32, 5, 10, 20, 40] {
        for seed in 1..=3 {
        let (mut fabric, port) = funnel(n, rate, Time::us(24), mtu);
        let full = fabric.links.len() - 1;
        for l in 0..full { fabric.links[l].rate = rate; }
        fabric.switches[0].ecn = Some(Ecn { min_bytes: k * packet, max_bytes: k * packet, max_probability: 1.0, at: MarkAt::Enqueue, core_only: false });
        fabric.switches[0].buffer = Buffer::Shared { bytes: 1_000_000, alpha: f64::INFINITY };
        let mut rng = Rng::stream(seed, Domain::Traffic, 9);
        let starts = (0..n).map(|h| unlimited(h, n, Time::us(100).scale(rng.unit()))).collect();
        let mut setup = setup(fabric, stack("dctcp"), starts, Time::ms(400));
        setup.warmup = Time::ms(100);
        setup.seed = seed;
        setup.histograms = true;
        let mut engine = Engine::new(setup, Swing::of(port as u32, Time::ms(100), (((k - 4.0) * packet) as u32, (k * packet) as u32))).unwrap();
        let path = engine.paths().path(0, n);
        engine.advance(Time::ms(400));
        let swing = engine.probe();
        let (least, most) = (mean(&swing.troughs[1..]) / packet, mean(&swing.peaks[1..]) / packet);
        let cycles = swing.troughs.len();
        let (finished, outcome) = engine.finish();
        let link = &outcome.links[port];
        let pipe = rate.bytes_in(path.base_rtt) as f64 / packet;
        let nf = f64::from(n);
        let qmax = k + nf;
        let w = (pipe + k) / nf;
        let mut alpha = 0.0f64;
        for _ in 0..50 { alpha = ((2.0 * w + 1.0) / ((w + 1.0) * (w + 1.0)) / (1.0 - alpha / 4.0)).sqrt(); }
        let amp = nf * (w + 1.0) * alpha / 2.0;
        println!("cycles {cycles} swing {:.1} theory mean {:.1}", most - least, qmax - amp / 2.0);
        println!("n {n} pipe {pipe:.1} W* {w:.1}: mean {:.1} p99 {:.1} least {least:.1} most {most:.1} max {:.1}; theory qmax {qmax} amp {amp:.1} qmin {:.1}; drops {} jain {:.3} util {:.4}", link.queue_bytes.mean / packet, link.queue_bytes.p99.unwrap() / packet, link.queue_bytes.max / packet, qmax - amp, link.drops, jain(&goodputs(&finished, &outcome)), link.wire_bytes as f64 * 8.0 / 0.3 / 1e10);
        }
    }
}

/// DT
#[test]
fn dynamic_thresholds() {
    let (rate, mtu, buffer) = (Rate::gbps(100), 1000, 1_000_000u64);
    for alpha in [0.125, 0.5, 1.0, 2.0, 8.0] {
        for k in [1u32, 2, 4, 8] {
            let mut fabric = star(3 * k, rate, Time::us(1), mtu);
            fabric.switches[0].buffer = Buffer::Shared { bytes: buffer, alpha };
            let mut open = stack("open-loop");
            open.set("rate", Value::Rate(rate)).unwrap();
            let flows = (0..2 * k).map(|h| unlimited(h, 2 * k + h / 2, Time::us(u64::from(h / 2) * 50))).collect();
            let mut setup = setup(fabric, open, flows, Time::ms(6));
            setup.warmup = Time::ms(2);
            let (_, outcome) = run(setup, ());
            let expect = alpha * buffer as f64 / (1.0 + f64::from(k) * alpha);
            let queues: Vec<_> = (0..k).map(|r| { let l = &outcome.links[2 * (2 * k + r) as usize + 1]; (l.queue_bytes.mean, l.queue_bytes.max, l.drops, l.wire_bytes as f64 * 8.0 / 4e-3 / 1e11) }).collect();
            println!("alpha {alpha} k {k}: expect {expect:.0} queues {queues:?}");
        }
    }
}
