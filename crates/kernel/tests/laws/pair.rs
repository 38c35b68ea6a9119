//! A connection of the Rust protocol and one of the law in C that receive the same events.

use tidegate_algos::cc::poseidon::{Poseidon, PoseidonParams};
use tidegate_algos::cc::powertcp::{PowerTcp, PowerTcpParams};
use tidegate_algos::cc::swift::{Swift, SwiftParams};
use tidegate_algos::cc::theta_powertcp::{ThetaPowerTcp, ThetaPowerTcpParams};
use tidegate_algos::windowed::WindowedParams;
use tidegate_algos::{Protocol, Stack};
use tidegate_core::{Ack, CongestionControl, Extent, Loss, LossKind, Path, Rate, Span, Time};
use tidegate_kernel::{Control, Params, Step};

use super::random::{Event, Setting, WRAP};

/// A protocol and its law.
pub(super) trait Law: CongestionControl {
    /// The first of its operations.
    const OP: u64;
    /// Packets per unit of the first word of the state.
    fn packets(word: u64, setting: &Setting) -> f64;
    fn params(setting: &Setting) -> Self::Params;
    fn stack(params: Self::Params) -> Stack;
    /// Distance of the delay from the target in ns, if the law compares them.
    fn margin(&self, _params: &Self::Params, _path: &Path, _rtt: u64, _delay: u64) -> f64 {
        f64::INFINITY
    }
}

fn scaled(span: Span, setting: &Setting) -> Span {
    Span::from_ps_f64((span.as_ps() as f64 * setting.scale / 1e3).round() * 1e3)
}

impl Law for Poseidon {
    const OP: u64 = Step::POSEIDON;
    fn packets(word: u64, _setting: &Setting) -> f64 {
        word as f64 / 2f64.powi(30)
    }
    fn params(setting: &Setting) -> PoseidonParams {
        let default = PoseidonParams::default();
        let (p, k) = (scaled(default.p, setting), scaled(default.k, setting));
        match setting.varied {
            false => PoseidonParams { p, k, ..default },
            true => PoseidonParams {
                p: p.scale(1.5),
                k: k.scale(0.5),
                m: 0.1,
                min_rate: Rate::mbps(300),
                max_rate: Rate::gbps(80),
                min_md: 0.6,
                max_mi: 1.3,
                min_cwnd: 0.2,
                max_cwnd: 150.0,
                retx_reset_threshold: 2,
                initial_window: Extent::Bdp(0.4),
                ..default
            },
        }
    }
    fn stack(control: PoseidonParams) -> Stack {
        Stack::Poseidon(Box::new(WindowedParams { control, ..Default::default() }))
    }
    fn margin(&self, params: &PoseidonParams, path: &Path, rtt: u64, delay: u64) -> f64 {
        let rate = self.limit(params).window_bytes * 8e9 / rtt as f64;
        let target = Poseidon::operating_point(params, path, rate).queue_target.unwrap();
        (target.as_ps() as f64 / 1e3 - delay as f64).abs()
    }
}

impl Law for Swift {
    const OP: u64 = Step::SWIFT;
    fn packets(word: u64, _setting: &Setting) -> f64 {
        word as f64 / 2f64.powi(30)
    }
    fn params(setting: &Setting) -> SwiftParams {
        let default = SwiftParams::default();
        let fs_range = scaled(default.fs_range, setting);
        match setting.varied {
            false => {
                SwiftParams { base_target: setting.fabric.base_rtt.scale(1.5), fs_range, ..default }
            }
            true => SwiftParams {
                base_target: setting.fabric.base_rtt.scale(1.2),
                per_hop: Span::ns(300),
                fs_range: fs_range.scale(0.5),
                fs_min: 0.3,
                fs_max: 60.0,
                ai: 0.4,
                beta: 0.5,
                max_mdf: 0.3,
                min_cwnd: 0.2,
                max_cwnd: 150.0,
                retx_reset_threshold: 2,
                initial_window: Extent::Bdp(0.4),
            },
        }
    }
    fn stack(control: SwiftParams) -> Stack {
        Stack::Swift(Box::new(WindowedParams { control, ..Default::default() }))
    }
    fn margin(&self, params: &SwiftParams, path: &Path, rtt: u64, _delay: u64) -> f64 {
        let ns = |span: Span| span.as_ps() as f64 / 1e3;
        let cwnd = self.limit(params).window_bytes / f64::from(path.full_wire_bytes);
        let range = ns(params.fs_range);
        let alpha = range / (params.fs_min.sqrt().recip() - params.fs_max.sqrt().recip());
        let scaling = (alpha / cwnd.sqrt() - alpha / params.fs_max.sqrt()).clamp(0.0, range);
        let hops = f64::from(path.hops) * ns(params.per_hop);
        (ns(params.base_target) + hops + scaling - rtt as f64).abs()
    }
}

impl Law for PowerTcp {
    const OP: u64 = Step::POWERTCP;
    fn packets(word: u64, setting: &Setting) -> f64 {
        word as f64 / 2f64.powi(16) / f64::from(setting.wire_bytes)
    }
    fn params(setting: &Setting) -> PowerTcpParams {
        let default = PowerTcpParams { beta: setting.beta(), ..PowerTcpParams::default() };
        match setting.varied {
            false => default,
            true => PowerTcpParams {
                gamma: 0.4,
                beta: Extent::Bdp(0.05),
                eta: 0.7,
                current_floor: 0.3,
                min_rate: Rate::mbps(500),
                max_window: Extent::Bdp(1.7),
                initial_window: Extent::Bdp(0.4),
                ..default
            },
        }
    }
    fn stack(control: PowerTcpParams) -> Stack {
        Stack::PowerTcp(Box::new(WindowedParams { control, ..Default::default() }))
    }
}

impl Law for ThetaPowerTcp {
    const OP: u64 = Step::THETA;
    fn packets(word: u64, setting: &Setting) -> f64 {
        word as f64 / 2f64.powi(16) / f64::from(setting.wire_bytes)
    }
    fn params(setting: &Setting) -> ThetaPowerTcpParams {
        let default = ThetaPowerTcpParams { beta: setting.beta(), ..Default::default() };
        match setting.varied {
            false => default,
            true => ThetaPowerTcpParams {
                gamma: 0.4,
                beta: Extent::Bdp(0.05),
                gradient_floor: 0.2,
                tolerance: 1.1,
                min_rate: Rate::mbps(500),
                max_window: Extent::Bdp(1.7),
                initial_window: Extent::Bdp(0.4),
                ..default
            },
        }
    }
    fn stack(control: ThetaPowerTcpParams) -> Stack {
        Stack::ThetaPowerTcp(Box::new(WindowedParams { control, ..Default::default() }))
    }
}

/// Rounds the fields of a record as the option does: 64 ns, 64 B, 128 B, eight bits of the rate.
fn round(words: &mut [u64]) {
    for (word, unit) in words.iter_mut().zip([64, 64, 128]) {
        *word -= *word % unit;
    }
    let kbps = words[3] / 1_000;
    let unit = 1 << kbps.ilog2().saturating_sub(7);
    words[3] = (kbps - kbps % unit) * 1_000;
}

/// Both connections.
pub(super) struct Pair<L: Law> {
    pub(super) setting: Setting,
    /// Largest values of the fields of hop records.
    masks: [u64; 2],
    /// Whether fields of hop records are rounded as in the option.
    pub(super) rounds: bool,
    /// Largest permitted difference of the windows.
    pub(super) tolerance: f64,
    params: L::Params,
    flow: L,
    pub(super) step: Step,
    /// Largest relative difference of the windows, where they are above a thousandth of a packet.
    pub(super) worst: f64,
    /// Events within the error of a decision.
    pub(super) skipped: usize,
}

/// The fields of hop records in the option.
pub(super) const OPTION: [u64; 2] = [(1 << 26) - 1, (1 << 22) - 1];

/// Parameters of the law, with these widths of hop records.
fn words(stack: &Stack, setting: &Setting, masks: [u64; 2]) -> Params {
    let mut words = Control::params(stack, &setting.fabric).unwrap();
    if stack.protocol() == Protocol::PowerTcp {
        assert_eq!(words[8..10], OPTION);
        words[8..10].copy_from_slice(&masks);
    }
    words
}

impl<L: Law> Pair<L> {
    pub(super) fn new(setting: Setting) -> Pair<L> {
        Pair::with_records(setting, [WRAP - 1; 2])
    }

    pub(super) fn with_records(setting: Setting, masks: [u64; 2]) -> Pair<L> {
        let words = words(&L::stack(L::params(&setting)), &setting, masks);
        let params = L::params(&setting);
        let flow = L::start(&params, &setting.path(), Time::ZERO, 0);
        let step = Step { a: setting.wire_bytes.into(), params: words, ..Step::default() };
        let mut pair = Pair {
            setting,
            masks,
            rounds: false,
            tolerance: 0.005,
            params,
            flow,
            step,
            worst: 0.0,
            skipped: 0,
        };
        pair.apply(&Event::Start);
        pair
    }

    /// Window of the law in C, in packets.
    pub(super) fn window(&self) -> f64 {
        L::packets(self.step.state[0], &self.setting)
    }

    /// Window of the protocol in Rust, in packets.
    pub(super) fn expected(&self) -> f64 {
        self.flow.limit(&self.params).window_bytes / f64::from(self.setting.wire_bytes)
    }

    /// Writes the event into `step`; false if there is none to apply.
    pub(super) fn write(&mut self, event: &Event) -> bool {
        match event {
            Event::Start => self.step.op = L::OP,
            Event::Ack { now, rtt, delay, acked, limited, hops } => {
                let margin = self.flow.margin(&self.params, &self.setting.path(), *rtt, *delay);
                // 1e-5 octaves of the slope, and the rounding of the slope.
                if margin < 0.01 + 0.2 * self.setting.scale {
                    self.skipped += 1;
                    return false;
                }
                self.step.op = L::OP + 1;
                let ack = &mut self.step.ack;
                ack.fill(0);
                ack[..6].copy_from_slice(&[
                    *now,
                    *rtt,
                    *delay,
                    (*acked).into(),
                    (*limited).into(),
                    hops.len() as u64,
                ]);
                for (hop, words) in hops.iter().zip(ack[6..].chunks_exact_mut(4)) {
                    let [at, tx] = [hop.at.as_ps() / 1_000, hop.tx_bytes];
                    words.copy_from_slice(&[
                        at & self.masks[0],
                        tx & self.masks[1],
                        hop.queue_bytes.into(),
                        hop.rate.as_bps(),
                    ]);
                    if self.rounds {
                        round(words);
                    }
                }
            }
            Event::Loss { now, rtt, timeout } => {
                self.step.op = L::OP + 2;
                self.step.loss = [*now, *rtt, (*timeout).into()];
            }
        }
        true
    }

    /// Applies an event to both and compares the windows.
    pub(super) fn apply(&mut self, event: &Event) {
        if !self.write(event) {
            return;
        }
        self.step.run();
        let at = |ns: u64| Time::ZERO.after(Span::ns(ns));
        match event {
            Event::Start => {
                self.flow = L::start(&self.params, &self.setting.path(), Time::ZERO, 0);
            }
            Event::Ack { now, rtt, delay, acked, limited, hops } => {
                let ack = Ack {
                    now: at(*now),
                    rtt: Span::ns(*rtt),
                    acked_packets: *acked,
                    acked_bytes: u64::from(*acked) * u64::from(self.setting.wire_bytes),
                    in_flight_bytes: 0,
                    // In C, round trips end by departure time. These numbers are times.
                    seq: now.saturating_sub(*rtt),
                    next_seq: *now,
                    marked: false,
                    circuit: false,
                    window_limited: *limited,
                    peak_hop_delay: Span::ns(*delay),
                    reverse_peak_hop_delay: Span::ZERO,
                    hops,
                };
                self.flow.on_ack(&self.params, &ack);
            }
            Event::Loss { now, rtt, timeout } => {
                let kind = if *timeout { LossKind::Timeout } else { LossKind::Recovery };
                let loss = Loss { now: at(*now), kind, rtt: Span::ns(*rtt), next_seq: 0 };
                self.flow.on_loss(&self.params, &loss);
            }
        }
        let (window, expected) = (self.window(), self.expected());
        let difference = (window - expected).abs() / expected.max(0.001);
        assert!(
            difference < self.tolerance,
            "{window} packets in C, {expected} in Rust after {event:?}\n{:?}",
            self.flow
        );
        self.worst = self.worst.max(difference);
    }
}
