//! Receivers that return telemetry of their own invention, on native C: the largest increase of a
//! window is that of the protocol.

use tidegate_core::{Rate, Span};
use tidegate_kernel::{Control, Fabric, Params, Step};

use crate::laws::Random;

/// Fabrics of a rack, a campus, and namespaces.
const FABRICS: [(Fabric, u64); 3] = [
    (Fabric { base_rtt: Span::us(10), rate: Rate::gbps(100), hops: 2 }, 4_200),
    (Fabric { base_rtt: Span::us(100), rate: Rate::gbps(10), hops: 2 }, 1_542),
    (Fabric { base_rtt: Span::ms(5), rate: Rate::mbps(200), hops: 2 }, 1_542),
];

/// A hop of an acknowledgement, as the control reads it from a word of the option.
fn hop(word: u64) -> [u64; 4] {
    let mut step = Step { op: Step::RECORD, a: word, ..Step::default() };
    step.run();
    *step.ack[6..].first_chunk().unwrap()
}

/// One law on native C whose receiver returns what it wants.
struct Liar {
    step: Step,
    op: u64,
    /// Of the next packet.
    now: u64,
    rtt: u64,
    random: Random,
}

impl Liar {
    fn new(control: Control, op: u64, fabric: &Fabric, packet: u64) -> Liar {
        let params: Params = Control::params(&control.protocol.stack(), fabric).unwrap();
        let mut step = Step { op, a: packet, params, ..Step::default() };
        step.run();
        let rtt = fabric.base_rtt.as_ps() / 1_000;
        Liar { step, op, now: 1_000_000_000, rtt, random: Random(7) }
    }

    fn window(&self) -> u64 {
        match (self.op, self.step.state[0]) {
            (Step::POWERTCP_FLOW, 0) => self.step.state[18],
            (Step::POWERTCP_FLOW, _) => self.step.state[1],
            (_, window) => window,
        }
    }

    /// A round trip whose acknowledgements cover `packets`. The best lie is the smallest delay and
    /// an idle link; the others are random.
    fn round(&mut self, packets: u64, best: bool) {
        let mut left = packets;
        while left > 0 {
            let acked = if best { 1 } else { left.min(1 + self.random.below(8)) };
            left -= acked;
            self.ack(acked, self.rtt / packets, best);
        }
    }

    fn ack(&mut self, acked: u64, after: u64, best: bool) {
        self.now += after;
        let delay = if best { 256 } else { self.random.below(1 << 16) << 8 };
        // 200 Mbit/s of which nothing is used.
        let at = self.now >> 6 & 0xfffff;
        let word = if best { (17 << 7 | 67) << 52 | at << 32 } else { self.random.next() };
        self.step.op = self.op + 1;
        self.step.ack.fill(0);
        self.step.ack[..6].copy_from_slice(&[self.now, self.rtt, delay, acked, 1, 1]);
        self.step.ack[6..10].copy_from_slice(&hop(word));
        self.step.run();
    }

    fn lose(&mut self) {
        self.step.op = self.op + 2;
        self.step.loss = [self.now, self.rtt, 0];
        self.step.run();
    }
}

const Q30: f64 = (1u64 << 30) as f64;

/// Poseidon may multiply its window by max_mi in a round trip, one packet's worth at least (eq. 4);
/// Swift may add `ai` packets (its Algorithm 1).
#[test]
fn lies_raise_windows_by_the_largest_increase_at_most() {
    for (name, op) in [("poseidon", Step::POSEIDON), ("swift", Step::SWIFT)] {
        let (control, mut tightest) = (Control::named(name).unwrap(), f64::INFINITY);
        for (fabric, packet) in FABRICS {
            for best in [true, false] {
                let mut liar = Liar::new(control, op, &fabric, packet);
                for round in 0..200 {
                    // A window that lies have not raised.
                    if liar.window() as f64 / Q30 > 200.0 || round % 7 == 0 {
                        (0..3).for_each(|_| {
                            liar.now += 2 * liar.rtt;
                            liar.lose();
                        });
                    }
                    liar.now += 2 * liar.rtt;
                    let before = liar.window() as f64 / Q30;
                    liar.round((before as u64).max(1), best);
                    let grown = liar.window() as f64 / Q30 - before;
                    let params = &liar.step.params;
                    let bound = match op {
                        Step::POSEIDON => (params[8] as f64 / Q30 - 1.0) * before.max(1.0),
                        _ => params[4] as f64 / Q30,
                    };
                    // Each acknowledgement rounds once.
                    assert!(grown < bound + 1e-6, "{name}: {grown} of {bound} from {before}");
                    tightest = tightest.min((bound - grown) / bound);
                }
            }
        }
        assert!(tightest < 0.05, "{name}: no lie comes near to the bound: {tightest}");
    }
}

/// The floor of the current bounds the growth from the window of a round trip ago. The RTT of
/// theta-PowerTCP is no telemetry.
#[test]
fn lies_at_most_double_powertcp_windows_per_rtt() {
    let (control, mut tightest) = (Control::named("powertcp").unwrap(), f64::INFINITY);
    for (fabric, packet) in FABRICS {
        for best in [true, false] {
            let mut liar = Liar::new(control, Step::POWERTCP, &fabric, packet);
            let params = liar.step.params;
            let (beta, floor) = (params[1], params[3]);
            assert_eq!(floor as f64 / Q30, 0.5);
            let mut begun = None;
            for at in 0..20_000 {
                if at % 500 == 0 {
                    (0..3).for_each(|_| liar.lose());
                }
                // The second word is the window of a round trip ago.
                let [before, old] = *liar.step.state.first_chunk().unwrap();
                liar.ack(1, liar.rtt / 10, best);
                let bound = (2 * old + beta).max(before);
                // Fixed point rounds each of the operations.
                let grown = (liar.window() as f64 - bound as f64) / bound as f64;
                assert!(grown < 1e-6, "{before}, from {old} to {}", liar.window());
                if liar.window() > before {
                    tightest = tightest.min(-grown);
                }
                if liar.step.state[1] != old {
                    let apart = begun.map_or(liar.rtt, |begun| liar.now - begun);
                    assert!(apart >= liar.rtt, "rounds are {apart} ns apart");
                    begun = Some(liar.now);
                }
            }
        }
    }
    assert!(tightest < 0.1, "no lie comes near to the bound: {tightest}");
}

/// The laws bound the window by `max_window`.
#[test]
fn lies_raise_windows_to_max_window_at_most() {
    for (name, op) in [
        ("powertcp", Step::POWERTCP),
        ("powertcp", Step::POWERTCP_FLOW),
        ("theta-powertcp", Step::THETA),
    ] {
        for (fabric, packet) in FABRICS {
            for best in [true, false] {
                let mut liar = Liar::new(Control::named(name).unwrap(), op, &fabric, packet);
                let most = liar.step.params[6];
                (0..3).for_each(|_| liar.lose());
                let begun = liar.window();
                for _ in 0..200 {
                    let packets = ((liar.window() / packet) >> 16).max(1);
                    liar.round(packets, best);
                    assert!(liar.window() <= most, "{name}: {} of {most}", liar.window());
                }
                // The bound is reached, from below.
                assert!(begun < most && (!best || liar.window() == most), "{name}: {begun}");
            }
        }
    }
}
