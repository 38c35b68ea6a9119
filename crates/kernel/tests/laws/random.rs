//! Random acknowledgements.

use tidegate_core::{Extent, Hop, Rate, Span, Time};
use tidegate_kernel::Fabric;

/// SplitMix64.
pub(crate) struct Random(pub(crate) u64);

impl Random {
    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    pub(crate) fn below(&mut self, end: u64) -> u64 {
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
    /// Whether no parameter has its default.
    pub(super) varied: bool,
}

/// A rack, a campus, and the testbed of docs/kernel.md, the first two also with other parameters.
/// Scripts combine each with each theme: the numbers of both have no common factor.
pub(super) const SETTINGS: [Setting; 5] = [
    setting(Rate::gbps(100), Span::us(10), 4200, 1.0, false),
    setting(Rate::gbps(10), Span::us(100), 1500, 8.0, false),
    setting(Rate::mbps(200), Span::ms(5), 1542, 384.0, false),
    setting(Rate::gbps(100), Span::us(10), 4200, 1.0, true),
    setting(Rate::gbps(10), Span::us(100), 1500, 8.0, true),
];

const fn setting(rate: Rate, base_rtt: Span, wire_bytes: u32, scale: f64, varied: bool) -> Setting {
    Setting { fabric: Fabric { base_rtt, rate, hops: 2 }, wire_bytes, scale, varied }
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

/// Counters of hop records wrap here.
pub(super) const WRAP: u64 = 1 << 40;

/// Shares of events that are rare in [`Odds::REAL`].
#[derive(Clone, Copy, Debug)]
pub(super) struct Odds {
    start: f64,
    path: f64,
    /// Of a thousand: no time between two events; rarely an idle time.
    at_once: u64,
    idle: u64,
    unstamped: f64,
    older: f64,
    lost: f64,
    timeout: f64,
    /// Whether counters of ports wrap within the first events of a path.
    pub(super) wraps: bool,
}

impl Odds {
    pub(super) const REAL: Odds = Odds {
        start: 0.0005,
        path: 0.001,
        at_once: 200,
        idle: 1,
        unstamped: 0.02,
        older: 0.01,
        lost: 0.01,
        timeout: 0.3,
        wraps: false,
    };

    /// Pauses are shorter than the times in which the counters of the option wrap.
    pub(super) const BUSY: Odds = Odds { idle: 0, ..Odds::REAL };

    /// One path.
    pub(super) const STEADY: Odds = Odds { start: 0.0, path: 0.0, ..Odds::BUSY };

    /// This share of acknowledgements lacks records.
    pub(super) const fn without_records(share: f64) -> Odds {
        Odds { unstamped: share, ..Odds::REAL }
    }

    /// A script of one theme: loss, timeouts, reordering, idle times, zero intervals, changes of
    /// path, missing telemetry, short connections, counters that wrap.
    pub(super) const THEMES: [Odds; 9] = [
        Odds { lost: 0.3, timeout: 0.0, ..Odds::REAL },
        Odds { lost: 0.3, timeout: 1.0, ..Odds::REAL },
        Odds { older: 0.4, ..Odds::REAL },
        Odds { idle: 300, ..Odds::REAL },
        Odds { at_once: 900, ..Odds::REAL },
        Odds { path: 0.3, ..Odds::REAL },
        Odds { unstamped: 0.5, ..Odds::REAL },
        Odds { start: 0.2, ..Odds::REAL },
        Odds { wraps: true, ..Odds::REAL },
    ];
}

/// A hop whose queue and counters move at random.
struct Port {
    rate: Rate,
    port: u32,
    /// Its clock less that of the sender.
    offset: u64,
    at: u64,
    tx: u64,
    queue: f64,
    /// Time, bytes and queue of the latest record and of the latest that was older.
    shown: [(u64, u64, u32); 2],
}

/// Events of one connection: mostly acknowledgements, with congestion that comes and goes.
pub(super) struct Events {
    random: Random,
    setting: Setting,
    odds: Odds,
    now: u64,
    /// Share of the queue's range that is full.
    congestion: f64,
    ports: Vec<Port>,
    /// Paths so far.
    paths: u64,
    /// Time of the latest records, and of those that were not older.
    recorded: [u64; 2],
}

impl Events {
    pub(super) fn with(setting: Setting, seed: u64, odds: Odds) -> Events {
        let mut events = Events {
            random: Random(seed),
            setting,
            odds,
            now: 1_000_000_000,
            congestion: 0.2,
            ports: Vec::new(),
            paths: 0,
            recorded: [0; 2],
        };
        events.change_path();
        events
    }

    /// Other ports, whose counters are about to wrap. The law in C recognises them by their rates,
    /// or, if these are equal, by their clocks, if these differ by more than a round trip.
    fn change_path(&mut self) {
        self.paths += 1;
        let (random, paths, now) = (&mut self.random, self.paths, self.now);
        let wraps = self.odds.wraps;
        let base = self.setting.fabric.base_rtt.as_ps() / 1_000;
        let rate = self.setting.fabric.rate.as_bps();
        let count = 1 + random.below(3);
        let mut port = |rate, offset| Port {
            rate,
            port: random.next() as u32,
            offset,
            at: now + offset,
            tx: WRAP - random.below(if wraps { 5_000 } else { 1_000_000 }),
            queue: 0.0,
            shown: [(0, 0, 0); 2],
        };
        if paths % 4 > 1 {
            // The longest round trip is three base RTTs.
            let further = |before: &Port| before.offset + (4 + paths % 3) * base;
            self.ports = self.ports.iter().map(|old| port(old.rate, further(old))).collect();
            return;
        }
        let offset = WRAP - now - if wraps { base } else { 1_000_000 * (paths % 8) };
        let rates =
            (0..count).map(|hop| Rate::bps(rate * (1 + (paths + hop) % 4) + paths * 1_000_000));
        self.ports = rates.map(|rate| port(rate, offset)).collect();
    }

    /// The ports' records now.
    fn records(&mut self) -> Vec<Hop> {
        let (random, bdp) = (&mut self.random, self.setting.bdp());
        if random.chance(self.odds.unstamped) {
            return Vec::new();
        }
        let (now, base) = (self.now, self.setting.fabric.base_rtt.as_ps() / 1_000);
        let [latest, newest] = self.recorded;
        // A packet that was overtaken arrives less than a round trip late.
        let older = random.chance(self.odds.older) && now - newest < base / 2;
        self.recorded = [now, if older { newest } else { now }];
        let congestion = self.congestion;
        let records = self.ports.iter_mut().map(|port| {
            let before = (port.at, port.tx);
            // The record returns within half a round trip.
            if now > latest {
                port.at = port.at.max(now + port.offset - random.below(base / 2));
            }
            let could = port.rate.as_bps() as f64 * (port.at - before.0) as f64 / 8e9;
            port.tx += (could * random.unit()) as u64;
            // Never empty: hops without queues have the same power, up to the last bit.
            port.queue = port.queue * 0.9 + 0.2 * random.unit() * congestion * bdp;
            port.queue = port.queue.max(1.0 + random.below(1_000) as f64);
            // An overtaken packet has an older record.
            let at = if older { before.0 - 1 } else { port.at };
            // A record of the same time is the same record: a simulated port sends one packet at a
            // time.
            if !port.shown.iter().any(|shown| shown.0 == at) {
                port.shown[usize::from(older)] = (at, port.tx, port.queue as u32);
            }
            let shown = port.shown.iter().find(|shown| shown.0 == at);
            let (at, tx_bytes, queue_bytes) = *shown.expect("it is there");
            let at = Time::ZERO.after(Span::ns(at));
            Hop { at, tx_bytes, rate: port.rate, queue_bytes, port: port.port }
        });
        records.collect()
    }
}

impl Iterator for Events {
    type Item = Event;

    fn next(&mut self) -> Option<Event> {
        let base = self.setting.fabric.base_rtt.as_ps() / 1_000;
        let (random, odds) = (&mut self.random, self.odds);
        if random.chance(odds.start) {
            return Some(Event::Start);
        }
        if random.chance(odds.path) {
            self.change_path();
        }
        let random = &mut self.random;
        // Several acknowledgements at once, some apart, and rarely an idle time.
        let dt = match random.below(1000) {
            at if at < odds.at_once => 0,
            at if at >= 1000 - odds.idle => random.below(base * 100).min(1_000_000_000),
            at if at >= 990 - odds.idle => random.below(base * 3),
            _ => random.below(base / 10),
        };
        self.now += dt;
        let drift = (random.unit() - 0.5) * 0.2;
        self.congestion = (self.congestion + drift).clamp(0.0, 2.0);
        let queue = base as f64 * self.congestion * random.unit();
        let rtt = base + queue as u64;
        if random.chance(odds.lost) {
            let timeout = random.chance(odds.timeout);
            return Some(Event::Loss { now: self.now, rtt, timeout });
        }
        // Targets are a multiple of the defaults in slower settings.
        let scaled = self.setting.scale * 12_000.0 * 2.0;
        let delay = (scaled * self.congestion.min(1.0) * random.unit()) as u64;
        // More than a window, if earlier acknowledgements were lost.
        let most = if random.chance(0.01) { 1000 } else { 4 };
        let acked = random.below(most) as u32;
        let limited = random.chance(0.9);
        let hops = self.records();
        Some(Event::Ack { now: self.now, rtt, delay, acked, limited, hops })
    }
}
