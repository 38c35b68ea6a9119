//! PowerTCP in a connection whose acknowledgements may lack records (`bpf/powertcp_flow.h`).

use tidegate_algos::cc::powertcp::PowerTcp;
use tidegate_core::{Hop, Span, Time};
use tidegate_kernel::Step;

use super::pair::{Law, Pair};
use super::random::{Event, Events, Odds, Random, SETTINGS, Setting};

/// Positions in the state: whether the window is PowerTCP's, and both windows.
const RECORDS: usize = 0;
const POWERTCP: usize = 1;
const THETA: usize = 18;

/// A connection under the law in C.
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
        let mut flow = Flow { pair: Pair::new(setting), lost: 0, state: OPEN };
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

/// Without records, the window does not grow in a recovery, and further losses halve it once a
/// round trip, also after a timeout. The path is shorter than tau, so that theta-PowerTCP would
/// grow.
#[test]
fn repairs_without_records_bound_the_window() {
    let (setting, rounds) = (SETTINGS[0], 5);
    let rtt = base(&setting) / 2;
    for (state, lost, expected) in [
        (OPEN, 0, 1.5..f64::INFINITY),
        (OPEN, 1, 1.5..f64::INFINITY),
        (RECOVERY, 0, 1.0..1.001),
        (RECOVERY, 1, 0.5f64.powi(rounds)..0.5f64.powi(rounds - 1)),
        (LOSS, 0, 1.5..f64::INFINITY),
        (LOSS, 1, 0.5f64.powi(rounds)..0.5f64.powi(rounds - 1)),
    ] {
        let mut flow = Flow::new(setting);
        // No bounds.
        flow.pair.step.params[5..7].copy_from_slice(&[1, 1 << 60]);
        flow.apply(&Event::Loss { now: 1_000_000_000, rtt, timeout: false });
        let before = flow.window();
        (flow.state, flow.lost) = (state, lost);
        for at in 1..=10 * rounds as u64 {
            flow.apply(&ack(1_000_000_000 + at * rtt / 10, rtt, vec![]));
        }
        let changed = flow.window() / before;
        assert!(expected.contains(&changed), "{state}, {lost}: {changed}");
    }
}

/// Records, none for some time, and records again. The port is busy, with a queue of a tenth of the
/// BDP that round trips also show.
#[test]
fn laws_replace_each_other_without_a_step_of_the_window() {
    for setting in SETTINGS.into_iter().filter(|setting| !setting.varied) {
        let (base, bdp) = (base(&setting), setting.bdp());
        let rate = setting.fabric.rate;
        let mut flow = Flow::new(setting);
        let mut before = None::<f64>;
        for at in 0..400 {
            let now = 1_000_000_000 + at * base / 10;
            let hop = Hop {
                at: Time::ZERO.after(Span::ns(now - base / 2)),
                tx_bytes: (now as f64 * rate.as_bps() as f64 / 8e9) as u64,
                rate,
                queue_bytes: (bdp / 10.0) as u32,
                port: 1,
            };
            let is_silent = (100..150).contains(&at) || (200..205).contains(&at);
            let hops = if is_silent { vec![] } else { vec![hop] };
            flow.apply(&ack(now, base + base / 10, hops));
            // The first record is only stored. A round trip, 11 acknowledgements, passes without
            // records before theta-PowerTCP follows.
            let expected = at > 0 && !(111..150).contains(&at);
            assert_eq!(flow.has_records(), expected, "{at}");
            if let Some(before) = before {
                let step = flow.window() / before;
                // A tenth of queue is a tenth of the window less, before beta.
                assert!((0.85..1.1).contains(&step), "{at}: {before} to {}", flow.window());
            }
            before = Some(flow.window());
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
