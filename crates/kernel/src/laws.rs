//! Parameters of protocols as the laws in the kernel use them: integers in fixed point.

use tidegate_algos::cc::poseidon::{self, PoseidonParams};
use tidegate_algos::cc::powertcp::{self, PowerTcpParams};
use tidegate_algos::cc::swift::SwiftParams;
use tidegate_algos::cc::theta_powertcp::ThetaPowerTcpParams;
use tidegate_algos::law::{Reaction, Tau};
use tidegate_algos::{Protocol, Stack};
use tidegate_core::{Extent, Rate, Span, WindowRule};

/// Words of the parameters of a law.
pub const PARAMS: usize = 16;

/// Parameters of a law.
pub type Params = [u64; PARAMS];

/// A congestion control of the kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Control {
    /// The protocol.
    pub protocol: Protocol,
    /// Its name in the kernel.
    pub name: &'static str,
}

impl Control {
    /// All controls.
    pub const ALL: [Control; 4] = [
        Control { protocol: Protocol::Poseidon, name: "tg_poseidon" },
        Control { protocol: Protocol::PowerTcp, name: "tg_powertcp" },
        Control { protocol: Protocol::Swift, name: "tg_swift" },
        Control { protocol: Protocol::ThetaPowerTcp, name: "tg_theta" },
    ];

    /// The control of a protocol, by the protocol's name.
    pub fn named(name: &str) -> Option<Control> {
        Control::ALL.into_iter().find(|control| control.protocol.info().name == name)
    }
}

/// Properties of the network that a law needs and cannot measure.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Fabric {
    /// The largest base RTT.
    pub base_rtt: Span,
    /// Rate of the sender's network card.
    pub rate: Rate,
    /// Switches on a path.
    pub hops: u32,
}

impl Fabric {
    fn bdp(&self) -> f64 {
        self.rate.as_bps() as f64 * self.base_rtt.as_ps() as f64 / 8e12
    }

    fn bytes(&self, extent: Extent) -> f64 {
        extent.bytes(self.bdp())
    }
}

/// `x` in units of `2^-bits`.
fn fixed(x: f64, bits: i32) -> u64 {
    (x * f64::powi(2.0, bits)).round() as u64
}

fn nanoseconds(span: Span) -> f64 {
    span.as_ps() as f64 / 1e3
}

fn words<const N: usize>(words: [u64; N]) -> Params {
    let mut all = [0; PARAMS];
    all[..N].copy_from_slice(&words);
    all
}

/// The law's parameters for a protocol's.
///
/// # Errors
/// If a parameter selects a variant that the kernel does not have, with the parameter's name and
/// what is allowed.
pub(crate) fn params(stack: &Stack, fabric: &Fabric) -> Result<Params, String> {
    let (mut words, connection) = match stack {
        Stack::Poseidon(params) => (of_poseidon(&params.control, fabric)?, &params.connection),
        Stack::Swift(params) => (of_swift(&params.control, fabric), &params.connection),
        Stack::PowerTcp(params) => (of_powertcp(&params.control, fabric)?, &params.connection),
        Stack::ThetaPowerTcp(params) => (of_theta(&params.control, fabric)?, &params.connection),
        _ => return Err(format!("{} has no law for the kernel", stack.protocol().info().name)),
    };
    words[ROUND_UP] = (connection.window_rule == WindowRule::Below).into();
    words[RESTART_AFTER] = nanoseconds(connection.restart_after) as u64;
    Ok(words)
}

/// Places of a connection's parameters, behind those of any law.
const ROUND_UP: usize = 14;
const RESTART_AFTER: usize = 15;

impl Control {
    /// The law's parameters.
    ///
    /// # Errors
    /// If a parameter selects a variant that the kernel does not have.
    pub fn params(stack: &Stack, fabric: &Fabric) -> Result<Params, String> {
        params(stack, fabric)
    }
}

/// Refuses variants: the laws in the kernel have one each.
fn only(allowed: &[(&str, bool, &str)]) -> Result<(), String> {
    match allowed.iter().find(|(_, holds, _)| !holds) {
        None => Ok(()),
        Some((name, _, value)) => Err(format!("{name}: the kernel's law supports only {value}")),
    }
}

fn of_poseidon(params: &PoseidonParams, fabric: &Fabric) -> Result<Params, String> {
    use poseidon::{Quantum, Signal, SmallWindowIncrease, Target, Update};
    let additive = params.small_window_increase == SmallWindowIncrease::Additive;
    only(&[
        ("small_window_increase", additive, "additive"),
        ("signal", params.signal == Signal::PeakHopDelay, "peak-hop-delay"),
        ("target", params.target == Target::LnRate, "ln-rate"),
        ("update", params.update == Update::Exponential, "exponential"),
        ("brownfield", !params.brownfield, "false"),
    ])?;
    // Packets carry units of 256 ns whatever the parameter.
    let (Quantum::Exact | Quantum::Ns256) = params.quantum;
    let max_rate = (params.max_rate.as_bps() as f64).log2();
    let span = max_rate - (params.min_rate.as_bps() as f64).log2();
    let slope = nanoseconds(params.p) / span;
    Ok(words([
        fixed(nanoseconds(params.k), 8),
        fixed(slope, 8),
        fixed(params.m / slope, 56),
        fixed(max_rate, 31),
        fixed(span, 31),
        fixed(params.min_cwnd, 30),
        fixed(params.max_cwnd, 30),
        fixed(params.min_md, 30),
        fixed(params.max_mi, 30),
        params.retx_reset_threshold,
        fabric.bytes(params.initial_window).round() as u64,
    ]))
}

fn of_swift(params: &SwiftParams, fabric: &Fabric) -> Params {
    let range = nanoseconds(params.fs_range);
    // Swift section 3.5
    let alpha = range / (params.fs_min.sqrt().recip() - params.fs_max.sqrt().recip());
    words([
        fixed(
            nanoseconds(params.base_target) + fabric.hops as f64 * nanoseconds(params.per_hop),
            8,
        ),
        fixed(alpha, 8),
        fixed(alpha / params.fs_max.sqrt(), 8),
        fixed(range, 8),
        fixed(params.ai, 30),
        fixed(params.beta, 30),
        fixed(1.0 - params.max_mdf, 30),
        fixed(params.min_cwnd, 30),
        fixed(params.max_cwnd, 30),
        params.retx_reset_threshold,
        fabric.bytes(params.initial_window).round() as u64,
    ])
}

/// Largest values of the fields of hop records in TCP options.
const TIME_MASK: u64 = (1 << 26) - 1;
const TX_MASK: u64 = (1 << 22) - 1;

fn of_powertcp(params: &PowerTcpParams, fabric: &Fabric) -> Result<Params, String> {
    use powertcp::{FirstSample, Reference};
    only(&[
        ("tau", params.tau == Tau::Fabric, "fabric"),
        ("reference", params.reference == Reference::Live, "live-window"),
        ("reaction", params.reaction == Reaction::Ack, "ack"),
        ("circuits", !params.circuits, "false"),
        ("first_sample", params.first_sample == FirstSample::Stored, "stored"),
    ])?;
    let [min, max, initial] =
        windows(params.min_rate, params.max_window, params.initial_window, fabric);
    Ok(words([
        fixed(params.gamma, 30),
        fixed(fabric.bytes(params.beta), 16),
        fixed(params.eta, 30),
        fixed(params.current_floor, 30),
        nanoseconds(fabric.base_rtt).round() as u64,
        min,
        max,
        initial,
        TIME_MASK,
        TX_MASK,
    ]))
}

fn of_theta(params: &ThetaPowerTcpParams, fabric: &Fabric) -> Result<Params, String> {
    only(&[
        ("tau", params.tau == Tau::Fabric, "fabric"),
        ("minimum_rtt", !params.minimum_rtt, "false"),
        ("reaction", params.reaction == Reaction::Round, "round"),
    ])?;
    let [min, max, initial] =
        windows(params.min_rate, params.max_window, params.initial_window, fabric);
    let tau = nanoseconds(fabric.base_rtt);
    Ok(words([
        fixed(params.gamma, 30),
        fixed(fabric.bytes(params.beta), 16),
        fixed(params.gradient_floor, 30),
        tau.round() as u64,
        (params.tolerance * tau).round() as u64,
        min,
        max,
        initial,
    ]))
}

/// Smallest, largest and initial window in bytes, Q16.
fn windows(min_rate: Rate, max: Extent, initial: Extent, fabric: &Fabric) -> [u64; 3] {
    let min = min_rate.as_bps() as f64 * fabric.base_rtt.as_ps() as f64 / 8e12;
    let max = fabric.bytes(max).max(min);
    let initial = fabric.bytes(initial).clamp(min, max);
    [min, max, initial].map(|bytes| fixed(bytes, 16))
}
