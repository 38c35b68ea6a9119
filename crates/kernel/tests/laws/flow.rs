//! PowerTCP in a connection whose acknowledgements may lack records (`bpf/powertcp_flow.h`).

use tidegate_algos::cc::powertcp::PowerTcp;
use tidegate_core::{Hop, Rate, Span, Time};
use tidegate_kernel::Step;

use super::pair::{Law, OPTION, Pair};
use super::random::{Event, Events, Odds, Random, SETTINGS, Setting};

/// Positions in the state: whether the window is PowerTCP's, and both windows.
const RECORDS: usize = 0;
const POWERTCP: usize = 1;
const THETA: usize = 18;

/// A connection under the law in C, with records as wide as those of the option.
pub(super) struct Flow {
    pair: Pair<PowerTcp>,
    /// Packets that the next acknowledgement reports as lost.
    pub(super) lost: u64,
    /// The kernel's state of congestion avoidance.
    pub(super) state: u64,
}

pub(super) const OPEN: u64 = 0;
pub(super) const RECOVERY: u64 = 3;
pub(super) const LOSS: u64 = 4;

impl Flow {
    pub(super) fn new(setting: Setting) -> Flow {
        let pair = Pair::with_records(setting, OPTION);
        let mut flow = Flow { pair, lost: 0, state: OPEN };
        flow.write(&Event::Start);
        flow.pair.step.run();
        flow
    }

    /// The step of an event.
    pub(super) fn write(&mut self, event: &Event) -> &mut Step {
        assert!(self.pair.write(event), "PowerTCP makes no decision by a delay");
        let step = &mut self.pair.step;
        step.op = step.op - <PowerTcp as Law>::OP + Step::POWERTCP_FLOW;
        step.ack[18..].copy_from_slice(&[self.lost, self.state]);
        step
    }

    fn apply(&mut self, event: &Event) {
        self.write(event).run();
    }

    fn has_records(&self) -> bool {
        self.pair.step.state[RECORDS] != 0
    }

    /// Bytes.
    fn window(&self) -> f64 {
        let at = if self.has_records() { POWERTCP } else { THETA };
        self.pair.step.state[at] as f64 / 65_536.0
    }
}

fn beta(setting: &Setting) -> f64 {
    setting.beta().bytes(setting.bdp())
}

fn base(setting: &Setting) -> u64 {
    setting.fabric.base_rtt.as_ps() / 1_000
}

fn ack(now: u64, rtt: u64, hops: Vec<Hop>) -> Event {
    Event::Ack { now, rtt, delay: 0, acked: 1, limited: true, hops }
}

/// Without records, the law is theta-PowerTCP with the parameters of PowerTCP.
#[test]
fn without_records_it_is_theta_powertcp() {
    for setting in SETTINGS {
        let mut flow = Flow::new(setting);
        let params = flow.pair.step.params;
        let [gamma, beta, _, floor, tau, min_window, max_window, initial] = params[..8] else {
            unreachable!()
        };
        let mut theta = Step { op: Step::THETA, ..Step::default() };
        theta.params[..8]
            .copy_from_slice(&[gamma, beta, floor, tau, tau, min_window, max_window, initial]);
        theta.run();
        let odds = Odds::without_records(1.0);
        for event in Events::with(setting, 77, odds).take(5_000) {
            let step = *flow.write(&event);
            flow.pair.step.run();
            theta = Step {
                op: step.op - Step::POWERTCP_FLOW + Step::THETA,
                params: theta.params,
                state: theta.state,
                ..step
            };
            theta.run();
            assert!(!flow.has_records());
            assert_eq!(flow.pair.step.state[THETA..][..6], theta.state[..6], "{event:?}");
        }
    }
}

/// Without records, the window does not grow in a recovery, and further losses halve it once in one
/// and a quarter round trips, also after a timeout. The path is shorter than tau, so that
/// theta-PowerTCP would grow.
#[test]
fn repairs_without_records_bound_the_window() {
    let (setting, halvings) = (SETTINGS[0], 3);
    let halved = 0.5f64.powi(halvings);
    let rtt = base(&setting) / 2;
    for (state, lost, expected) in [
        (OPEN, 0, 1.5..f64::INFINITY),
        (OPEN, 1, 1.5..f64::INFINITY),
        (RECOVERY, 0, 1.0..1.001),
        (RECOVERY, 1, 0.999 * halved..1.001 * halved),
        (LOSS, 0, 1.5..f64::INFINITY),
        (LOSS, 1, 0.999 * halved..1.001 * halved),
    ] {
        let mut flow = Flow::new(setting);
        // No bounds.
        flow.pair.step.params[5..7].copy_from_slice(&[1, 1 << 60]);
        flow.apply(&Event::Loss { now: 1_000_000_000, rtt, timeout: false });
        let before = flow.window();
        (flow.state, flow.lost) = (state, lost);
        // The next would be at the 80th.
        for at in 1..80 {
            flow.apply(&ack(1_000_000_000 + at * rtt / 16, rtt, vec![]));
        }
        let changed = flow.window() / before;
        assert!(expected.contains(&changed), "{state}, {lost}: {changed}");
    }
}

/// Records that return at least once a round trip leave the window to PowerTCP: further losses of a
/// recovery do not reduce it.
#[test]
fn records_in_a_recovery_leave_the_window_to_powertcp() {
    let setting = SETTINGS[2];
    let base = base(&setting);
    let mut flows = [Flow::new(setting), Flow::new(setting)];
    for at in 0..400 {
        let now = 1_000_000_000 + at * base / 10;
        for flow in &mut flows {
            if at == 80 {
                flow.apply(&Event::Loss { now, rtt: base, timeout: false });
            }
            let hops = if at % 8 == 0 { vec![busy(&setting, now)] } else { vec![] };
            flow.apply(&ack(now, base + base / 10, hops));
            assert_eq!(flow.has_records(), at >= 8, "{at}");
        }
        assert_eq!(flows[0].window(), flows[1].window(), "{at}");
        if at == 80 {
            (flows[1].lost, flows[1].state) = (1, RECOVERY);
        }
    }
}

/// Record of a busy port, with a queue of a tenth of the BDP, half a round trip before `now`.
fn busy(setting: &Setting, now: u64) -> Hop {
    let rate = setting.fabric.rate;
    Hop {
        at: Time::ZERO.after(Span::ns(now - base(setting) / 2)),
        tx_bytes: (now as f64 * rate.as_bps() as f64 / 8e9) as u64,
        rate,
        queue_bytes: (setting.bdp() / 10.0) as u32,
        port: 1,
    }
}

/// Records that cannot be compared, and records that are sometimes late or repeated. The port is
/// busy, and round trips also show its queue.
#[test]
fn laws_replace_each_other_without_a_window_step() {
    // With a base RTT of 5 ms, the silence exceeds the range of the records' clock, 67 ms.
    let silence = 100..300;
    for setting in SETTINGS.into_iter().filter(|setting| !setting.varied) {
        let base = base(&setting);
        let begin = 1_000_000_000;
        let record = |at: u64| busy(&setting, begin + at * base / 10);
        let other = |at| Hop { rate: Rate::bps(setting.fabric.rate.as_bps() / 2), ..record(at) };
        type Records<'a> = &'a dyn Fn(u64) -> Vec<Hop>;
        let silent: [(&str, Records<'_>); 4] = [
            ("none", &|_| vec![]),
            ("repeated", &|_| vec![record(99)]),
            ("older", &|_| vec![record(98)]),
            ("alternating paths", &|at| vec![if at % 2 == 0 { other(at) } else { record(at) }]),
        ];
        let usual: [(&str, Records<'_>); 3] = [
            ("each", &|at| vec![record(at)]),
            ("repeated", &|at| vec![record(at - at % 3)]),
            ("reordered", &|at| vec![record(if at % 3 == 2 { at - 2 } else { at })]),
        ];
        for ((gap, missing), (name, usual)) in
            silent.into_iter().flat_map(|silent| usual.map(|usual| (silent, usual)))
        {
            let mut flow = Flow::new(setting);
            let mut before = None::<f64>;
            for at in 0..500 {
                // A short gap changes nothing.
                let is_silent = silence.contains(&at) || (400..405).contains(&at);
                let hops = if is_silent { missing(at) } else { usual(at) };
                flow.apply(&ack(begin + at * base / 10, base + base / 10, hops));
                let name = (setting.fabric.base_rtt, gap, name, at);
                // The first record is only stored, as is the first of another path. A round trip,
                // 11 acknowledgements, passes without records before theta-PowerTCP follows.
                match at {
                    5..109 | 310..500 => assert!(flow.has_records(), "{name:?}"),
                    115..300 => assert!(!flow.has_records(), "{name:?}"),
                    _ => {}
                }
                if let Some(before) = before {
                    let step = flow.window() / before;
                    // A tenth of queue is a tenth of the window less, before beta.
                    assert!((0.85..1.1).contains(&step), "{name:?}: {before} to {}", flow.window());
                }
                before = Some(flow.window());
            }
        }
    }
}

/// A receiver that withholds records for longer than a round trip and then reports an idle port
/// does not raise the window faster than one that always reports it.
#[test]
fn withheld_records_do_not_raise_windows_faster() {
    let setting = SETTINGS[2];
    let (rtt, beta) = (base(&setting), beta(&setting));
    let mut random = Random(3);
    for attack in [true, false] {
        let mut flow = Flow::new(setting);
        // The bound is not the largest window.
        flow.pair.step.params[6] = 1 << 60;
        (0..40).for_each(|_| flow.apply(&Event::Loss { now: 1_000, rtt, timeout: false }));
        let (begun, start) = (flow.window(), 1_000_000_000);
        let mut now = start;
        for at in 0..60 {
            let withheld = if attack { at % 3 == 0 } else { random.below(2) == 0 };
            now += match (attack, withheld) {
                (true, true) => rtt + 1,
                (true, false) => 10_000,
                (false, _) => random.below(rtt + rtt / 5),
            };
            let hop = Hop {
                at: Time::ZERO.after(Span::ns(now - rtt / 2)),
                tx_bytes: 0,
                rate: setting.fabric.rate,
                queue_bytes: 0,
                port: 1,
            };
            flow.apply(&ack(now, rtt, if withheld { vec![] } else { vec![hop] }));
            let rounds = (now - start) as f64 / rtt as f64;
            let bound = (begun + beta) * 2f64.powf(rounds + 1.0);
            assert!(flow.window() < bound, "{at}: {} after {rounds} round trips", flow.window());
        }
        assert!(flow.window() > 4.0 * begun, "the lie has no effect");
    }
}
