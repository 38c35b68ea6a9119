//! Random acknowledgements.

use tidegate_core::{Extent, Hop, Rate, Span, Time};
use tidegate_kernel::Fabric;

/// SplitMix64.
pub(super) struct Random(pub(super) u64);

impl Random {
    pub(super) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    pub(super) fn below(&mut self, end: u64) -> u64 {
        self.next() % end
    }

    /// From 0 to 1.
    pub(super) fn unit(&mut self) -> f64 {
        (self.next() >> 11) as f64 / 2f64.powi(53)
    }

    fn chance(&mut self, share: f64) -> bool {
        self.unit() < share
    }
}

/// Something that happens to a connection. Times are whole nanoseconds.
#[derive(Clone, Debug)]
pub(super) enum Event {
    Ack {
        now: u64,
        rtt: u64,
        delay: u64,
        acked: u32,
        limited: bool,
        hops: Vec<Hop>,
    },
    Loss {
        now: u64,
        rtt: u64,
        timeout: bool,
    },
    /// A new connection.
    Start,
}

/// A path and the size of its packets.
#[derive(Clone, Copy, Debug)]
pub(super) struct Setting {
    pub(super) fabric: Fabric,
    pub(super) wire_bytes: u32,
    /// Factor of times in the defaults of parameters.
    pub(super) scale: f64,
}

/// A rack, a campus, and the testbed of docs/kernel.md.
pub(super) const SETTINGS: [Setting; 3] = [
    setting(Rate::gbps(100), Span::us(10), 4200, 1.0),
    setting(Rate::gbps(10), Span::us(100), 1500, 8.0),
    setting(Rate::mbps(200), Span::ms(5), 1542, 384.0),
];

const fn setting(rate: Rate, base_rtt: Span, wire_bytes: u32, scale: f64) -> Setting {
    Setting { fabric: Fabric { base_rtt, rate, hops: 2 }, wire_bytes, scale }
}

impl Setting {
    pub(super) fn bdp(&self) -> f64 {
        self.fabric.rate.as_bps() as f64 * self.fabric.base_rtt.as_ps() as f64 / 8e12
    }

    pub(super) fn path(&self) -> tidegate_core::Path {
        tidegate_core::Path {
            base_rtt: self.fabric.base_rtt,
            fabric_base_rtt: self.fabric.base_rtt,
            nic_rate: self.fabric.rate,
            bottleneck_rate: self.fabric.rate,
            bdp_bytes: self.bdp(),
            mtu: self.wire_bytes - 90,
            full_wire_bytes: self.wire_bytes,
            hops: self.fabric.hops,
        }
    }

    /// One packet, or a hundredth of the BDP if that is more.
    pub(super) fn beta(&self) -> Extent {
        Extent::Bytes(f64::from(self.wire_bytes).max(self.bdp() / 100.0))
    }
}

/// Number of events: `TIDEGATE_KERNEL_EVENTS`, or 50,000.
pub(super) fn count() -> usize {
    let set = std::env::var("TIDEGATE_KERNEL_EVENTS").ok();
    set.map_or(50_000, |count| count.parse().expect("TIDEGATE_KERNEL_EVENTS is a number"))
}

/// A hop whose queue and counters move at random.
struct Port {
    rate: Rate,
    port: u32,
    at: u64,
    tx: u64,
    queue: f64,
}

/// Events of one connection: mostly acknowledgements, with congestion that comes and goes.
pub(super) struct Events {
    random: Random,
    setting: Setting,
    now: u64,
    /// Share of the queue's range that is full.
    congestion: f64,
    ports: Vec<Port>,
    /// Paths so far.
    paths: u64,
}

impl Events {
    pub(super) fn new(setting: Setting, seed: u64) -> Events {
        let mut events = Events {
            random: Random(seed),
            setting,
            now: 1_000_000_000,
            congestion: 0.2,
            ports: Vec::new(),
            paths: 0,
        };
        events.change_path();
        events
    }

    /// Other ports. Their rates, by which the law in C recognises them, are unique. Their counters
    /// are about to wrap at 32 bits.
    fn change_path(&mut self) {
        self.paths += 1;
        let (random, paths) = (&mut self.random, self.paths);
        let count = 1 + random.below(3);
        let base = self.setting.fabric.rate.as_bps();
        let port = |_| Port {
            rate: Rate::bps(base * (1 + random.below(4)) + paths * 1_000_000),
            port: random.next() as u32,
            at: (1 << 32) - random.below(1_000_000),
            tx: (1 << 32) - random.below(1_000_000),
            queue: 0.0,
        };
        self.ports = (0..count).map(port).collect();
    }

    /// The ports' records a moment later.
    fn records(&mut self, dt: u64) -> Vec<Hop> {
        let (random, bdp) = (&mut self.random, self.setting.bdp());
        if random.chance(0.02) {
            return Vec::new();
        }
        let older = random.chance(0.01);
        let congestion = self.congestion;
        let records = self.ports.iter_mut().map(|port| {
            let before = (port.at, port.tx);
            port.at += dt + if dt > 0 { random.below(dt / 4 + 1) } else { 0 };
            let could = port.rate.as_bps() as f64 * (port.at - before.0) as f64 / 8e9;
            port.tx += (could * random.unit()) as u64;
            // Never empty: hops without queues have the same power, up to the last bit.
            port.queue = port.queue * 0.9 + 0.2 * random.unit() * congestion * bdp;
            port.queue = port.queue.max(1.0 + random.below(1_000) as f64);
            // An overtaken packet has an older record.
            let at = if older { before.0 - 1 } else { port.at };
            Hop {
                at: Time::ZERO.after(Span::ns(at)),
                tx_bytes: port.tx,
                rate: port.rate,
                queue_bytes: port.queue as u32,
                port: port.port,
            }
        });
        records.collect()
    }
}

impl Iterator for Events {
    type Item = Event;

    fn next(&mut self) -> Option<Event> {
        let base = self.setting.fabric.base_rtt.as_ps() / 1_000;
        let random = &mut self.random;
        if random.chance(0.0005) {
            return Some(Event::Start);
        }
        if random.chance(0.001) {
            self.change_path();
        }
        let random = &mut self.random;
        // Several acknowledgements at once, some apart, and rarely an idle time.
        let dt = match random.below(1000) {
            0..200 => 0,
            200..990 => random.below(base / 10),
            990..999 => random.below(base * 3),
            _ => random.below(base * 100).min(1_000_000_000),
        };
        self.now += dt;
        let drift = (random.unit() - 0.5) * 0.2;
        self.congestion = (self.congestion + drift).clamp(0.0, 2.0);
        let queue = base as f64 * self.congestion * random.unit();
        let rtt = base + queue as u64;
        if random.chance(0.01) {
            let timeout = random.chance(0.3);
            return Some(Event::Loss { now: self.now, rtt, timeout });
        }
        // Targets are a multiple of the defaults in slower settings.
        let scaled = self.setting.scale * 12_000.0 * 2.0;
        let delay = (scaled * self.congestion.min(1.0) * random.unit()) as u64;
        // More than a window, if earlier acknowledgements were lost.
        let most = if random.chance(0.01) { 1000 } else { 4 };
        let acked = random.below(most) as u32;
        let limited = random.chance(0.9);
        let hops = self.records(dt);
        Some(Event::Ack { now: self.now, rtt, delay, acked, limited, hops })
    }
}
