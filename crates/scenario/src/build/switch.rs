//! `[switch]`: what every switch does, what some do differently, and what the running protocols
//! need of them.

use tidegate_core::fabric::{Buffer, Ecn, Fabric, MarkAt, Routing};
use tidegate_core::math::round;
use tidegate_core::params::Value;
use tidegate_core::{Extent, MAX_HOPS, Need, Time};

use super::fabric::Topology;
use super::glob::Glob;
use super::paths::Longest;
use super::transport::Stacks;
use crate::error::{Error, nearest};
use crate::read::keys::{Default, FLIGHT, Key, Optional, Required, Shape, key};
use crate::read::table::{Or, Table, Word};

static PER_SWITCH: &[Key] = &[
    key(
        "buffer",
        Shape::Or(&["unlimited"], &Shape::Bytes { min: 10_000, max: 1_000_000_000_000 }),
        Default("unlimited"),
        "Size of the buffer that all ports of a switch share.",
    ),
    key(
        "sharing",
        Shape::Word(&["dynamic-threshold", "complete"]),
        Optional,
        "How ports share a limited buffer: each may hold alpha times what is free (the default), \
         or whatever is free.",
    ),
    key(
        "alpha",
        Shape::Number { min: 0.001, max: 1_000.0 },
        Optional,
        "Of dynamic-threshold sharing: share of the free buffer that one port may hold. 1 unless \
         set.",
    ),
    key(
        "latency",
        FLIGHT,
        Default("0us"),
        "Time that a switch holds every packet before queueing it; telemetry does not count it.",
    ),
    key(
        "telemetry",
        Shape::Flag,
        Default("true"),
        "Whether the switch writes telemetry into packets that want it.",
    ),
    key(
        "priorities",
        Shape::Count { min: 1, max: 8 },
        Default("8"),
        "Strict priorities of a port.",
    ),
    key(
        "ecn",
        Shape::Or(&["off"], &Shape::Table(&[ECN])),
        Optional,
        "Marking at the ports. Unset: as the running protocols need it, by default a step: all \
         from 1.25BDP on, \
         unless a parameter ecn_threshold says another.",
    ),
];

static ECN: &[Key] = &[
    key("kmin", Shape::Extent, Required, "Below this queue nothing is marked."),
    key(
        "kmax",
        Shape::Extent,
        Optional,
        "From this queue on everything is marked; kmin unless set.",
    ),
    key(
        "pmax",
        Shape::Number { min: 0.0, max: 1.0 },
        Default("1.0"),
        "Probability of a mark just below kmax.",
    ),
    key(
        "at",
        Shape::Word(&["enqueue", "dequeue"]),
        Default("enqueue"),
        "When it is decided, by the queue at that moment.",
    ),
    key(
        "ports",
        Shape::Word(&["all", "core"]),
        Default("all"),
        "Which ports mark: all, or only those that lead to other switches.",
    ),
];

static WHOLE: &[Key] = &[
    key(
        "routing",
        Shape::Word(&["ecmp", "spray"]),
        Optional,
        "How packets choose among equal paths: by connection, or each at random. Unset: as the \
         running protocols need it.",
    ),
    key(
        "override",
        Shape::Changes(&[MATCH, PER_SWITCH]),
        Optional,
        "What some switches do differently; the last that matches wins.",
    ),
];

static MATCH: &[Key] = &[key(
    "match",
    Shape::Globs,
    Required,
    "Names of switches: * for any text, [0-15] for a range of numbers.",
)];

/// Keys of the section.
pub(crate) const KEYS: &[&[Key]] = &[PER_SWITCH, WHOLE];

/// Marking where neither scenario nor protocol says more: a step at this many BDP (SIRD, table 2).
/// The key `ecn` tells it.
const DEFAULT_STEP: Extent = Extent::Bdp(1.25);
/// A parameter of this name, where a protocol has it, is the queue at which it wants packets
/// marked.
const STEP_PARAMETER: &str = "ecn_threshold";

/// Marking with thresholds that may still be relative.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Marking {
    kmin: Extent,
    kmax: Extent,
    pmax: f64,
    at: MarkAt,
    core_only: bool,
}

/// What a scenario says of one switch's marking.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Ecned {
    Unsaid,
    Off,
    On(Marking),
}

/// Everything said about one switch.
#[derive(Clone, Copy, Debug)]
struct Settings {
    bytes: Option<u64>,
    alpha: f64,
    latency: Time,
    telemetry: bool,
    priorities: u8,
    ecn: Ecned,
}

/// Switches with all settled but marking, whose thresholds need the bandwidth-delay product.
#[derive(Debug)]
pub(crate) struct Equipped {
    pub(crate) fabric: Fabric,
    markings: Vec<Ecned>,
}

/// Equips the switches of a topology.
pub(crate) fn equip(table: &Table, mut topology: Topology, mtu: u32) -> Result<Equipped, Error> {
    let unset = Settings {
        bytes: None,
        alpha: 1.0,
        latency: Time::ZERO,
        telemetry: true,
        priorities: 8,
        ecn: Ecned::Unsaid,
    };
    let mut settings = vec![unset.changed(table)?; topology.switches.len()];
    for change in table.tables("override") {
        for pattern in change.get::<&[String]>("match") {
            let glob = Glob::new(pattern);
            let mut matched = false;
            for (switch, settings) in topology.switches.iter().zip(&mut settings) {
                if glob.matches(&switch.name) {
                    matched = true;
                    *settings = settings.changed(change)?;
                }
            }
            if !matched {
                let names = topology.switches.iter().map(|switch| switch.name.as_str());
                return Err(change
                    .error_found(
                        "match",
                        format!("{pattern:?}, which no switch matches"),
                        "names of switches of the fabric",
                    )
                    .meant(nearest(pattern, names)));
            }
        }
    }
    for (switch, settings) in topology.switches.iter_mut().zip(&settings) {
        switch.latency = settings.latency;
        switch.telemetry = settings.telemetry;
        switch.priorities = settings.priorities;
        switch.buffer = match settings.bytes {
            None => Buffer::Unlimited,
            Some(bytes) => Buffer::Shared { bytes, alpha: settings.alpha },
        };
    }
    let markings = settings.iter().map(|settings| settings.ecn).collect();
    let Topology { hosts, switches, links } = topology;
    Ok(Equipped {
        fabric: Fabric { hosts, switches, links, mtu, rate_changes: Vec::new() },
        markings,
    })
}

impl Settings {
    /// With what `table` says.
    fn changed(mut self, table: &Table) -> Result<Settings, Error> {
        match table.find::<Or<u64>>("buffer") {
            Some(Or::Word(_)) => self.bytes = None,
            Some(Or::Value(bytes)) => self.bytes = Some(bytes),
            None => {}
        }
        let sharing = table.find::<Word>("sharing").map(|word| word.0);
        for key in ["sharing", "alpha"] {
            // A preset's alpha may stand beside the user's unlimited buffer.
            if self.bytes.is_none() && table.item(key).is_some_and(|item| !item.at.is_builtin()) {
                return Err(table.error(key, "no such key while the buffer is unlimited"));
            }
        }
        let alpha: Option<f64> = table.find("alpha");
        match sharing {
            Some("complete") if alpha.is_some() => {
                return Err(table.error("alpha", "no such key under complete sharing"));
            }
            Some("complete") => self.alpha = f64::INFINITY,
            Some(_) if self.alpha.is_infinite() => self.alpha = 1.0,
            _ => {}
        }
        self.alpha = alpha.unwrap_or(self.alpha);
        self.latency = table.find("latency").unwrap_or(self.latency);
        self.telemetry = table.find("telemetry").unwrap_or(self.telemetry);
        self.priorities =
            table.find::<u64>("priorities").map_or(self.priorities, |levels| levels as u8);
        match table.find::<Or<&Table>>("ecn") {
            Some(Or::Word(_)) => self.ecn = Ecned::Off,
            Some(Or::Value(ecn)) => self.ecn = Ecned::On(marking(ecn)?),
            None => {}
        }
        Ok(self)
    }
}

fn marking(table: &Table) -> Result<Marking, Error> {
    let kmin: Extent = table.get("kmin");
    let kmax = table.find("kmax").unwrap_or(kmin);
    let at = if table.get::<Word>("at").0 == "dequeue" { MarkAt::Dequeue } else { MarkAt::Enqueue };
    for (key, extent) in [("kmin", kmin), ("kmax", kmax)] {
        if !extent.bytes(1.0).is_finite() {
            return Err(table.error(key, "a finite size"));
        }
    }
    let core_only = table.get::<Word>("ports").0 == "core";
    Ok(Marking { kmin, kmax, pmax: table.get("pmax"), at, core_only })
}

impl Equipped {
    /// Settles marking: as the scenario says, or else as the running protocols need it.
    pub(crate) fn mark(
        &mut self,
        table: &Table,
        stacks: &Stacks,
        bdp_bytes: f64,
    ) -> Result<(), Error> {
        let asked =
            if self.markings.contains(&Ecned::Unsaid) { asked(table, stacks)? } else { None };
        for (switch, ecned) in self.fabric.switches.iter_mut().zip(&self.markings) {
            let marking = match ecned {
                Ecned::Off => None,
                Ecned::On(marking) => Some(*marking),
                Ecned::Unsaid => asked,
            };
            let Some(Marking { kmin, kmax, pmax, at, core_only }) = marking else { continue };
            let [min_bytes, max_bytes] = [kmin, kmax].map(|extent| round(extent.bytes(bdp_bytes)));
            if min_bytes > max_bytes {
                let found = format!("kmin {kmin} above kmax {kmax}");
                return Err(table.error_found(
                    "ecn",
                    found,
                    format!("kmin at most kmax, with a BDP of {bdp_bytes:.0}B"),
                ));
            }
            switch.ecn = Some(Ecn { min_bytes, max_bytes, max_probability: pmax, at, core_only });
        }
        Ok(())
    }
}

impl core::fmt::Display for Marking {
    /// As those that protocols ask for differ.
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        let ports = if self.core_only { " between switches" } else { "" };
        write!(f, "marking{ports} from {} on", self.kmin)
    }
}

/// The marking that the running protocols need, which must be one.
fn asked(table: &Table, stacks: &Stacks) -> Result<Option<Marking>, Error> {
    let mut asked: Option<(Marking, &str)> = None;
    for stack in stacks.iter() {
        let card = stack.protocol().card();
        let core_only = card.needs.has(Need::CoreEcn);
        if !core_only && !card.needs.has(Need::Ecn) {
            continue;
        }
        let step = stack.values().into_iter().find_map(|(name, value)| match value {
            Value::Extent(extent) if name == STEP_PARAMETER => Some(extent),
            _ => None,
        });
        let step = step.unwrap_or(DEFAULT_STEP);
        let marking = Marking { kmin: step, kmax: step, pmax: 1.0, at: MarkAt::Enqueue, core_only };
        match asked {
            Some((other, who)) if other != marking => {
                let expected = format!(
                    "ecn to be set, since {who} asks for {other} and {} for {marking}",
                    card.name
                );
                return Err(table.error("ecn", expected));
            }
            _ => asked = Some((marking, card.name)),
        }
    }
    Ok(asked.map(|(marking, _)| marking))
}

/// How packets choose among equal paths: as set, or else as the running protocols need it, which
/// must be one way.
pub(crate) fn routing(
    table: &Table,
    stacks: &Stacks,
    warnings: &mut Vec<String>,
) -> Result<Routing, Error> {
    let cards = || stacks.iter().map(|stack| stack.protocol().card());
    let sprayed = cards().find(|card| card.needs.has(Need::Spraying));
    let other = cards().find(|card| !card.needs.has(Need::Spraying));
    match (table.find::<Word>("routing").map(|word| word.0), sprayed, other) {
        (Some("spray"), ..) => Ok(Routing::Spray),
        (Some(_), sprayed, _) => {
            if let Some(card) = sprayed {
                warnings.push(format!(
                    "{} is meant for spraying, but switch.routing is \"ecmp\"",
                    card.name
                ));
            }
            Ok(Routing::Ecmp)
        }
        (None, Some(sprayed), Some(other)) => {
            let expected = format!(
                "\"ecmp\" or \"spray\" to be set, since {} asks for spraying and {} does not",
                sprayed.name, other.name
            );
            Err(table.error("routing", expected))
        }
        (None, Some(_), None) => Ok(Routing::Spray),
        (None, None, _) => Ok(Routing::Ecmp),
    }
}

/// Says so where some of the running protocols send above the priority of data, and others have
/// data alone.
pub(crate) fn classes(fabric: &Fabric, stacks: &Stacks, warnings: &mut Vec<String>) {
    let name = |above| {
        let mut stacks = stacks.iter().filter(|stack| stack.overtakes_data() == above);
        stacks.next().map(|stack| stack.protocol().card().name)
    };
    if let (Some(some), Some(none)) = (name(true), name(false))
        && fabric.switches.iter().all(|switch| switch.priorities > 1)
    {
        warnings.push(format!(
            "{some} sends some packets above the priority of data, {none} sends none: with \
             switch.priorities = 1 they would be equal"
        ));
    }
}

/// Refuses a fabric that lacks what a protocol in use needs.
pub(crate) fn provide(
    fabric: &Fabric,
    longest: &Longest,
    stacks: &Stacks,
    table: &Table,
) -> Result<(), Error> {
    for stack in stacks.iter() {
        let card = stack.protocol().card();
        if let Some((key, found, expected)) =
            card.needs.iter().find_map(|need| lack(fabric, longest, need))
        {
            let expected = format!("{expected}: {} needs {}", card.name, key.1);
            return Err(match key.0 {
                "" => stacks.error(stack, found, expected),
                key => table.error_found(key, found, expected),
            });
        }
    }
    Ok(())
}

/// What is wrong where `need` is not met: the key to change (none: the protocol) and the need's
/// name, what was found, what is allowed.
type Lack = ((&'static str, &'static str), String, String);

fn lack(fabric: &Fabric, longest: &Longest, need: Need) -> Option<Lack> {
    let (key, found, expected): (_, String, String) = match need {
        Need::PeakHopDelay | Need::HopRecords
            if fabric.switches.iter().all(|switch| !switch.telemetry) =>
        {
            ("telemetry", "no switch with telemetry".into(), "true on some switch".into())
        }
        Need::HopRecords if longest.most_hops as usize > MAX_HOPS => {
            let found = format!("a fabric with {} switches on a path", longest.most_hops);
            ("", found, format!("at most {MAX_HOPS} on every path"))
        }
        Need::Priorities if fabric.switches.iter().any(|switch| switch.priorities < 2) => {
            ("priorities", "a switch with 1 priority".into(), "at least 2 on every switch".into())
        }
        Need::CreditShaping => (
            "",
            "a fabric without credit shaping".into(),
            "another protocol, as fabrics do not have it yet".into(),
        ),
        Need::Ecn | Need::CoreEcn if fabric.switches.iter().all(|switch| switch.ecn.is_none()) => {
            ("ecn", "no switch that marks".into(), "marking on some switch".into())
        }
        _ => return None,
    };
    Some(((key, need.name()), found, expected))
}

/// Does this override say anything about the marking of the switch of that name?
pub(crate) fn touches_ecn(change: &Table, name: &str) -> bool {
    change.item("ecn").is_some()
        && change.get::<&[String]>("match").iter().any(|glob| Glob::new(glob).matches(name))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::build::paths;

    fn chain(switches: u32, more: &str) -> Fabric {
        let text = format!(
            "duration = '1ms'\nfabric = {{ kind = 'parking-lot', switches = {switches} \
             }}\ntransport = {{ protocol = 'swift' }}\n\
             flows = [{{ src = 'h0', dst = 'h1' }}]\nswitch = {{ {more} }}"
        );
        crate::load(&text, "x.toml", &[]).unwrap().fabric
    }

    #[test]
    fn every_need_is_checked() {
        let lacks = |fabric: &Fabric, need| {
            lack(fabric, &paths::longest(fabric).unwrap(), need).map(|(_, found, _)| found)
        };
        let good = chain(8, "ecn = { kmin = '1BDP' }");
        for need in [
            Need::Ecn,
            Need::CoreEcn,
            Need::PeakHopDelay,
            Need::HopRecords,
            Need::Priorities,
            Need::Spraying,
        ] {
            assert_eq!(lacks(&good, need), None);
        }
        assert!(lacks(&good, Need::CreditShaping).is_some());
        assert_eq!(
            lacks(&chain(9, ""), Need::HopRecords).unwrap(),
            "a fabric with 9 switches on a path"
        );
        assert_eq!(
            lacks(&chain(3, "priorities = 1"), Need::Priorities).unwrap(),
            "a switch with 1 priority"
        );
        assert_eq!(lacks(&chain(3, "ecn = 'off'"), Need::Ecn).unwrap(), "no switch that marks");
        let off = chain(3, "telemetry = false");
        for need in [Need::PeakHopDelay, Need::HopRecords] {
            assert_eq!(lacks(&off, need).unwrap(), "no switch with telemetry");
        }
        let partly =
            chain(3, "telemetry = false, override = [{ match = 'tor1', telemetry = true }]");
        assert_eq!(lacks(&partly, Need::PeakHopDelay), None);
    }
}
