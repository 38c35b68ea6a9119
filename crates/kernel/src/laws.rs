//! Parameters of protocols as the laws in the kernel use them: integers in fixed point.

use tidegate_algos::cc::poseidon::{self, Poseidon, PoseidonParams};
use tidegate_algos::cc::powertcp::{self, PowerTcp, PowerTcpParams};
use tidegate_algos::cc::swift::{Swift, SwiftParams};
use tidegate_algos::cc::theta_powertcp::{ThetaPowerTcp, ThetaPowerTcpParams};
use tidegate_algos::law::{Reaction, Tau};
use tidegate_algos::{Protocol, Stack};
use tidegate_core::params::Value;
use tidegate_core::{CongestionControl, Extent, OperatingPoint, Path, Rate, Span, WindowRule};

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

    /// A hundredth of the rate: a smallest rate for a hundred flows.
    fn hundredth(&self) -> Rate {
        Rate::bps(self.rate.as_bps() / 100)
    }

    /// The longest path, with packets for Ethernet's usual MTU.
    fn path(&self) -> Path {
        let Fabric { base_rtt, rate, hops } = *self;
        Path {
            base_rtt,
            fabric_base_rtt: base_rtt,
            nic_rate: rate,
            bottleneck_rate: rate,
            bdp_bytes: self.bdp(),
            mtu: 1_448,
            full_wire_bytes: 1_538,
            hops,
        }
    }
}

/// A word of a law's parameters: name, bits behind the point, and unit. The law computes some of
/// them from several parameters of the protocol.
type Field = (&'static str, i32, &'static str);

/// As `struct tg_poseidon_params` in `poseidon.h`.
const POSEIDON: [Field; 11] = [
    ("k", 8, "ns"),
    ("slope", 8, "ns"),
    ("gain", 56, "per ns"),
    ("log2_max_rate", 31, ""),
    ("log2_span", 31, ""),
    ("min_cwnd", 30, "packets"),
    ("max_cwnd", 30, "packets"),
    ("min_md", 30, ""),
    ("max_mi", 30, ""),
    ("reset_after", 0, "timeouts"),
    ("initial", 0, "bytes"),
];

/// As `struct tg_swift_params` in `swift.h`.
const SWIFT: [Field; 11] = [
    ("base", 8, "ns"),
    ("alpha", 8, "ns"),
    ("minus_beta", 8, "ns"),
    ("fs_range", 8, "ns"),
    ("ai", 30, "packets"),
    ("beta", 30, ""),
    ("min_factor", 30, ""),
    ("min_cwnd", 30, "packets"),
    ("max_cwnd", 30, "packets"),
    ("reset_after", 0, "timeouts"),
    ("initial", 0, "bytes"),
];

/// As `struct tg_powertcp_params` in `powertcp.h`.
const POWERTCP: [Field; 10] = [
    ("gamma", 30, ""),
    ("beta", 16, "bytes"),
    ("eta", 30, ""),
    ("floor", 30, ""),
    ("tau", 0, "ns"),
    ("min_window", 16, "bytes"),
    ("max_window", 16, "bytes"),
    ("initial", 16, "bytes"),
    ("time_mask", 0, "ns"),
    ("tx_mask", 0, "bytes"),
];

/// As `struct tg_theta_params` in `theta_powertcp.h`.
const THETA: [Field; 8] = [
    ("gamma", 30, ""),
    ("beta", 16, "bytes"),
    ("floor", 30, ""),
    ("tau", 0, "ns"),
    ("normal", 0, "ns"),
    ("min_window", 16, "bytes"),
    ("max_window", 16, "bytes"),
    ("initial", 16, "bytes"),
];

/// Behind the parameters of any law: the network, which laws do not read, and the connection's.
const COMMON: [Field; 4] =
    [("rate", 0, "bit/s"), ("base_rtt", 0, "ns"), ("round_up", 0, ""), ("restart_after", 0, "ns")];
const RATE: usize = PARAMS - COMMON.len();
const BASE_RTT: usize = RATE + 1;
const ROUND_UP: usize = RATE + 2;
const RESTART_AFTER: usize = RATE + 3;

/// `x` in units of `2^-bits`.
fn fixed(x: f64, bits: i32) -> u64 {
    (x * f64::powi(2.0, bits)).round() as u64
}

fn nanoseconds(span: Span) -> f64 {
    span.as_ps() as f64 / 1e3
}

fn words<const N: usize>(fields: &[Field; N], values: [f64; N]) -> Params {
    const { assert!(N <= RATE, "words of the law and of the network overlap") }
    let mut all = [0; PARAMS];
    for (word, (value, (_, bits, _))) in all.iter_mut().zip(values.into_iter().zip(fields)) {
        *word = fixed(value, *bits);
    }
    all
}

/// Base RTTs for which the laws are defined: the kernel's samples are in microseconds.
pub const BASE_RTTS: [Span; 2] = [Span::us(1), Span::ms(1_000)];

fn params(stack: &Stack, fabric: &Fabric) -> Result<Params, String> {
    let [least, most] = BASE_RTTS;
    if !(least..=most).contains(&fabric.base_rtt) {
        return Err(format!("base RTT: found {}; expected 1us to 1s", fabric.base_rtt));
    }
    let (mut words, connection) = match stack {
        Stack::Poseidon(params) => (of_poseidon(&params.control, fabric)?, &params.connection),
        Stack::Swift(params) => (of_swift(&params.control, fabric), &params.connection),
        Stack::PowerTcp(params) => (of_powertcp(&params.control, fabric)?, &params.connection),
        Stack::ThetaPowerTcp(params) => (of_theta(&params.control, fabric)?, &params.connection),
        _ => return Err(unsupported(stack)),
    };
    words[RATE] = fabric.rate.as_bps();
    words[BASE_RTT] = nanoseconds(fabric.base_rtt) as u64;
    words[ROUND_UP] = (connection.window_rule == WindowRule::Below).into();
    words[RESTART_AFTER] = nanoseconds(connection.restart_after) as u64;
    Ok(words)
}

fn unsupported(stack: &Stack) -> String {
    format!("{} has no law for the kernel", stack.protocol().info().name)
}

impl Control {
    /// The law's parameters for a protocol's.
    ///
    /// # Errors
    /// If a parameter selects a variant that the kernel does not have, or leaves no room for the
    /// window: the parameter's name and what is allowed.
    pub fn params(stack: &Stack, fabric: &Fabric) -> Result<Params, String> {
        params(stack, fabric)
    }

    /// Those of the named parameters that have other values than the defaults and do not change the
    /// law in the kernel.
    pub fn ineffective<'a>(
        stack: &Stack,
        fabric: &Fabric,
        names: impl IntoIterator<Item = &'a str>,
    ) -> Vec<&'a str> {
        let table = stack.protocol().table();
        let is_ineffective = |name: &&str| {
            let info = table.iter().find(|info| info.name == *name);
            let mut other = stack.clone();
            let was_set = info.is_some_and(|info| other.set(name, info.default).is_ok());
            was_set && other != *stack && params(&other, fabric) == params(stack, fabric)
        };
        names.into_iter().filter(is_ineffective).collect()
    }

    /// Whether the number of switches changes the law or the warnings.
    pub fn depends_on_hops(stack: &Stack, fabric: &Fabric) -> bool {
        let further = Fabric { hops: fabric.hops + 1, ..*fabric };
        matches!(stack, Stack::ThetaPowerTcp(_)) || params(stack, fabric) != params(stack, &further)
    }

    /// Reasons why the law's parameters are outside their design range in this network.
    ///
    /// # Errors
    /// If the protocol has no law for the kernel.
    pub fn warnings(stack: &Stack, fabric: &Fabric) -> Result<Vec<String>, String> {
        let path = fabric.path();
        let rate = fabric.rate.as_bps() as f64;
        let point: OperatingPoint = match stack {
            Stack::Poseidon(params) => Poseidon::operating_point(&params.control, &path, rate),
            Stack::Swift(params) => Swift::operating_point(&params.control, &path, rate),
            Stack::PowerTcp(params) => PowerTcp::operating_point(&params.control, &path, rate),
            Stack::ThetaPowerTcp(params) => {
                ThetaPowerTcp::operating_point(&params.control, &path, rate)
            }
            _ => return Err(unsupported(stack)),
        };
        let min_rate = match stack {
            Stack::PowerTcp(params) => Some(params.control.min_rate),
            Stack::ThetaPowerTcp(params) => Some(params.control.min_rate),
            _ => None,
        };
        let large = min_rate.filter(|min| *min > fabric.hundredth()).map(|min| {
            format!(
                "min_rate = {min} is above a hundredth of the rate: flows of a port build a queue, \
                 because windows do not fall below min_rate times the base RTT"
            )
        });
        // A warning ends with a remedy for simulations: `advice` has one for the kernel.
        let reason = |text: String| {
            let remedy = ["; set ", ": set ", "; no values suit"].iter();
            let at = remedy.filter_map(|start| text.find(start)).min();
            at.map_or(text.clone(), |at| text[..at].to_owned())
        };
        Ok(point.domain_warnings.into_iter().map(reason).chain(large).collect())
    }

    /// Parameters that suit this network, by name, with their values; `None` if they are outside
    /// their ranges.
    pub fn advice(self, fabric: &Fabric) -> Option<Vec<(&'static str, Value)>> {
        let advice = self.suitable(fabric);
        let mut stack = self.protocol.stack();
        let is_allowed = advice.iter().all(|(name, value)| stack.set(name, *value).is_ok());
        (is_allowed && stack.conflict().is_none()).then_some(advice)
    }

    fn suitable(self, fabric: &Fabric) -> Vec<(&'static str, Value)> {
        let packet = f64::from(fabric.path().full_wire_bytes);
        let slowest = ("min_rate", Value::Rate(fabric.hundredth()));
        let power = |links: f64| {
            let beta = ("beta", Value::Extent(Extent::Bytes(links * packet)));
            vec![beta, slowest, ("max_window", Value::Extent(Extent::Bdp(2.0)))]
        };
        let micros = |span: Span| Value::Span(Span::us(1 + (span.as_us_f64() * MARGIN) as u64));
        match self.protocol {
            Protocol::Poseidon => {
                // In the ranges of the parameters.
                let min = fabric.hundredth().clamp(Rate::mbps(1), Rate::gbps(1));
                let max = Rate::bps(fabric.rate.as_bps() * 10).max(Rate::gbps(2));
                let p = shortest_p(fabric, (max.as_bps() as f64 / min.as_bps() as f64).ln());
                vec![
                    ("m", Value::Number(STEP)),
                    ("min_rate", Value::Rate(min)),
                    ("max_rate", Value::Rate(max)),
                    ("p", micros(p)),
                    ("k", micros(p.scale(0.05))),
                ]
            }
            Protocol::Swift => vec![("base_target", micros(fabric.base_rtt.scale(1.1)))],
            Protocol::PowerTcp => power(2.0),
            _ => power(f64::from(fabric.hops) + 1.0),
        }
    }

    /// Queueing delays that the law keeps at a port of the network card's rate, with one flow and
    /// with ten, and the largest, for which the port needs a buffer; `None` if these do not depend
    /// on the rate of a flow.
    pub fn queues(stack: &Stack, fabric: &Fabric) -> Option<[Span; 3]> {
        let Stack::Poseidon(params) = stack else { return None };
        let target = |flows| {
            let rate = fabric.rate.as_bps() as f64 / flows;
            Poseidon::operating_point(&params.control, &fabric.path(), rate).queue_target
        };
        let most = params.control.p.plus(params.control.k);
        let rounded = |span: Span| Span::us(span.as_us_f64().round() as u64);
        Some([target(1.0)?, target(10.0)?, most].map(rounded))
    }

    /// Name, value and unit of each of the law's parameters, and of its network's.
    pub fn readable(self, params: &Params) -> Vec<(&'static str, f64, &'static str)> {
        let law: &[Field] = match self.protocol {
            Protocol::Poseidon => &POSEIDON,
            Protocol::PowerTcp => &POWERTCP,
            Protocol::Swift => &SWIFT,
            _ => &THETA,
        };
        let value = |((name, bits, unit), word): (&Field, &u64)| {
            (*name, *word as f64 / f64::powi(2.0, *bits), *unit)
        };
        let of_law = law.iter().zip(params);
        of_law.chain(COMMON.iter().zip(&params[RATE..])).map(value).collect()
    }
}

/// Margin above the shortest targets of Poseidon and Swift: a base RTT may be inexact.
const MARGIN: f64 = 1.05;
/// `m` of the advice for Poseidon: the law is steady without a long `p`.
const STEP: f64 = 0.1;

/// The shortest `p` in Poseidon's design range, for targets over `a` e-folds of the rate. The
/// largest rate is ten times that of a port, so that also a single flow has a queue.
fn shortest_p(fabric: &Fabric, a: f64) -> Span {
    let packet = fabric.rate.serialise(u64::from(fabric.path().full_wire_bytes));
    fabric.base_rtt.scale(a * STEP / 0.75).max(packet.scale(10.0 * a))
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
    // Packets carry the delay in the format of the option whatever the parameter.
    let (Quantum::Exact | Quantum::Ns256) = params.quantum;
    let max_rate = (params.max_rate.as_bps() as f64).log2();
    let span = max_rate - (params.min_rate.as_bps() as f64).log2();
    let slope = nanoseconds(params.p) / span;
    let values = [
        nanoseconds(params.k),
        slope,
        params.m / slope,
        max_rate,
        span,
        params.min_cwnd,
        params.max_cwnd,
        params.min_md,
        params.max_mi,
        params.retx_reset_threshold as f64,
        fabric.bytes(params.initial_window),
    ];
    Ok(words(&POSEIDON, values))
}

fn of_swift(params: &SwiftParams, fabric: &Fabric) -> Params {
    let range = nanoseconds(params.fs_range);
    // Swift section 3.5
    let alpha = range / (params.fs_min.sqrt().recip() - params.fs_max.sqrt().recip());
    let base = nanoseconds(params.base_target) + fabric.hops as f64 * nanoseconds(params.per_hop);
    let values = [
        base,
        alpha,
        alpha / params.fs_max.sqrt(),
        range,
        params.ai,
        params.beta,
        1.0 - params.max_mdf,
        params.min_cwnd,
        params.max_cwnd,
        params.retx_reset_threshold as f64,
        fabric.bytes(params.initial_window),
    ];
    words(&SWIFT, values)
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
        windows(params.min_rate, params.max_window, params.initial_window, fabric)?;
    let values = [
        params.gamma,
        fabric.bytes(params.beta),
        params.eta,
        params.current_floor,
        nanoseconds(fabric.base_rtt),
        min,
        max,
        initial,
        TIME_MASK as f64,
        TX_MASK as f64,
    ];
    Ok(words(&POWERTCP, values))
}

fn of_theta(params: &ThetaPowerTcpParams, fabric: &Fabric) -> Result<Params, String> {
    only(&[
        ("tau", params.tau == Tau::Fabric, "fabric"),
        ("minimum_rtt", !params.minimum_rtt, "false"),
        ("reaction", params.reaction == Reaction::Round, "round"),
    ])?;
    let [min, max, initial] =
        windows(params.min_rate, params.max_window, params.initial_window, fabric)?;
    let tau = nanoseconds(fabric.base_rtt);
    let values = [
        params.gamma,
        fabric.bytes(params.beta),
        params.gradient_floor,
        tau,
        params.tolerance * tau,
        min,
        max,
        initial,
    ];
    Ok(words(&THETA, values))
}

/// Smallest, largest and initial window in bytes.
fn windows(
    min_rate: Rate,
    max: Extent,
    initial: Extent,
    fabric: &Fabric,
) -> Result<[f64; 3], String> {
    let min = min_rate.as_bps() as f64 * fabric.base_rtt.as_ps() as f64 / 8e12;
    let largest = fabric.bytes(max);
    if min >= largest {
        return Err(format!(
            "min_rate: found {min_rate}, but the smallest window (min_rate times the base RTT, \
             {min:.0} B) must be below the largest (max_window, {largest:.0} B): set a lower \
             min_rate, e.g. {}, a hundredth of the network card's rate",
            fabric.hundredth()
        ));
    }
    Ok([min, largest, fabric.bytes(initial).clamp(min, largest)])
}

#[cfg(test)]
mod tests {
    use super::*;

    const FABRIC: Fabric = Fabric { base_rtt: Span::us(50), rate: Rate::gbps(10), hops: 2 };

    #[test]
    fn parameters_that_laws_do_not_read_are_found() {
        for control in Control::ALL {
            let mut stack = control.protocol.stack();
            stack.set("min_rto", Value::Span(Span::ms(77))).unwrap();
            stack.set("multipath", Value::Choice("oblivious")).unwrap();
            stack.set("initial_window", Value::Extent(Extent::Bdp(0.5))).unwrap();
            let names = ["min_rto", "initial_window", "restart_after", "multipath"];
            let found = Control::ineffective(&stack, &FABRIC, names);
            assert_eq!(found, ["min_rto", "multipath"], "{}", control.name);
            let depends = matches!(stack, Stack::Swift(_) | Stack::ThetaPowerTcp(_));
            assert_eq!(Control::depends_on_hops(&stack, &FABRIC), depends, "{}", control.name);
        }
    }

    #[test]
    fn parameters_of_connections_are_behind_those_of_laws() {
        for control in Control::ALL {
            let mut stack = control.protocol.stack();
            stack.set("restart_after", Value::Span(Span::ms(7))).unwrap();
            let words = Control::params(&stack, &FABRIC).unwrap();
            assert_eq!(words[RESTART_AFTER], 7_000_000, "{}", control.name);
        }
    }

    #[test]
    fn smallest_rates_that_build_queues_are_named() {
        let slow = Fabric { rate: Rate::mbps(9_999), ..FABRIC };
        for control in Control::ALL {
            let stack = control.protocol.stack();
            let named = |fabric| {
                let warnings = Control::warnings(&stack, fabric).unwrap();
                warnings.iter().any(|text| text.starts_with("min_rate = 100Mbps is above"))
            };
            let has_rate = matches!(stack, Stack::PowerTcp(_) | Stack::ThetaPowerTcp(_));
            assert_eq!((named(&slow), named(&FABRIC)), (has_rate, false), "{}", control.name);
        }
    }

    #[test]
    fn advice_suits_its_network() {
        let rates = [1, 10, 50, 100, 1_000, 10_000, 100_000, 400_000];
        let networks = rates.into_iter().flat_map(|mbps| {
            [10, 50, 500, 5_000, 20_000, 60_000, 200_000].map(|us| (Rate::mbps(mbps), Span::us(us)))
        });
        let fast = Fabric { rate: Rate::gbps(400), base_rtt: Span::us(20), hops: 2 };
        let warnings = Control::warnings(&Protocol::Poseidon.stack(), &fast).unwrap();
        assert!(warnings[0].contains("the base RTT of 20.00 us is above"), "{warnings:?}");
        assert!(warnings[1].contains("the NIC's 400Gbps is above max_rate"), "{warnings:?}");
        for (rate, base_rtt) in networks {
            let fabric = Fabric { base_rtt, rate, hops: 2 };
            for control in Control::ALL {
                let mut stack = control.protocol.stack();
                for warning in Control::warnings(&stack, &fabric).unwrap() {
                    assert!(!warning.contains("set ") && !warning.contains("suit"), "{warning}");
                }
                let Some(advice) = control.advice(&fabric) else {
                    assert!(rate == Rate::mbps(1) || base_rtt == Span::ms(200), "{fabric:?}");
                    continue;
                };
                advice.iter().for_each(|(name, value)| stack.set(name, *value).unwrap());
                let warnings = Control::warnings(&stack, &fabric).unwrap();
                assert_eq!(warnings, [""; 0], "{}: {rate} {base_rtt} {advice:?}", control.name);
                let words = Control::params(&stack, &fabric);
                // A packet of a slow link may take longer than a short base RTT.
                assert!(fabric.bdp() < 4.0 * 1_538.0 || words.is_ok(), "{words:?} {advice:?}");
            }
        }
    }

    #[test]
    fn windows_have_room_above_their_minimum() {
        for protocol in [Protocol::PowerTcp, Protocol::ThetaPowerTcp] {
            let params = |rate| {
                Control::params(&protocol.stack(), &Fabric { rate: Rate::mbps(rate), ..FABRIC })
            };
            let error = params(100).unwrap_err();
            assert!(
                error.starts_with("min_rate: found 100Mbps, but the smallest window"),
                "{error}"
            );
            assert!(params(101).is_ok());
        }
    }

    #[test]
    fn fabrics_outside_the_design_range_cause_warnings() {
        let warnings = |base_rtt| {
            let fabric = Fabric { base_rtt, rate: Rate::gbps(100), ..FABRIC };
            Control::warnings(&Protocol::Poseidon.stack(), &fabric).unwrap()
        };
        assert_eq!((warnings(Span::us(50)).len(), warnings(Span::us(5)).len()), (1, 0));
    }
}
