//! `[switch]`: what every switch does, and what some do differently.

use serde_json::{Value as Json, json};
use tidegate_core::fabric::{Buffer, Ecn, Fabric, MarkAt, Routing};
use tidegate_core::{Extent, Marking, Span};

use super::credit_queue;
use super::fabric::Topology;
use super::glob::Glob;
use super::pfc;
use crate::error::{Error, nearest};
use crate::read::keys::{Default, FLIGHT, Key, LINK_RATE, Optional, Required, Shape, key};
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
        "pfc",
        Shape::Or(&["off"], &Shape::Table(&[pfc::KEYS])),
        Optional,
        "Whether the switch pauses who sends to it rather than drop (priority flow control): its \
         limited buffer is then shared by where packets came in, and sharing and alpha have no \
         place. Unset: off, unless a running protocol needs it.",
    ),
    key(
        "ecn",
        Shape::Or(&["off"], &Shape::Table(&[ECN])),
        Optional,
        "Marking at the ports. Unset: as the running protocols ask for it, if any does (`tidegate \
         protocols NAME` says how).",
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
    key(
        "per",
        LINK_RATE,
        Optional,
        "kmin and kmax are for ports of this rate, and in proportion at others. Unset: they are \
         the same at all ports.",
    ),
];

static WHOLE: &[Key] = &[
    key(
        "credit_queue",
        Shape::Or(&["off"], &Shape::Table(&[credit_queue::KEYS])),
        Optional,
        "Queues for credits at all ports of all switches, apart from data and before it, which a \
         token bucket lets a share of the link through. Credits that find no room are counted \
         apart from drops. Unset: as the running protocols ask for them, if any does.",
    ),
    key(
        "routing",
        Shape::Word(&["ecmp", "spray", "symmetric-ecmp"]),
        Optional,
        "How packets choose among equal paths: by connection, each at random, or by connection and \
         the same links in both directions (in fabrics of regular tiers, as all generated ones \
         are). Unset: as the running protocols need it.",
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
    latency: Span,
    telemetry: bool,
    priorities: u8,
    ecn: Ecned,
    pfc: pfc::PfcSetting,
}

/// Switches with all settled but what depends on the running protocols: marking, whose thresholds
/// need the bandwidth-delay product, and pauses.
#[derive(Debug)]
pub(crate) struct Equipped {
    pub(crate) fabric: Fabric,
    markings: Vec<Ecned>,
    pub(crate) pfc: Vec<pfc::PfcSetting>,
}

/// Equips the switches of a topology.
pub(crate) fn equip(table: &Table, mut topology: Topology, mtu: u32) -> Result<Equipped, Error> {
    let unset = Settings {
        bytes: None,
        alpha: 1.0,
        latency: Span::ZERO,
        telemetry: true,
        priorities: 8,
        ecn: Ecned::Unsaid,
        pfc: pfc::PfcSetting::Nothing,
    };
    let mut settings = vec![unset.changed(table, None)?; topology.switches.len()];
    for (number, change) in table.tables("override").iter().enumerate() {
        for pattern in change.get::<&[String]>("match") {
            let glob = Glob::new(pattern);
            let mut matched = false;
            for (switch, settings) in topology.switches.iter().zip(&mut settings) {
                if glob.matches(&switch.name) {
                    matched = true;
                    *settings = settings.changed(change, Some(number))?;
                }
            }
            if !matched {
                let names = topology.switches.iter().map(|switch| switch.name.as_str());
                return Err(change
                    .error_found(
                        "match",
                        format!("{pattern:?}, which no switch matches"),
                        glob.expected("names of switches of the fabric".into()),
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
    let pfc = settings.iter().map(|settings| settings.pfc).collect();
    let Topology { hosts, switches, links, circuits } = topology;
    Ok(Equipped {
        fabric: Fabric { hosts, switches, links, mtu, rate_changes: Vec::new(), circuits },
        markings,
        pfc,
    })
}

impl Settings {
    /// With what `table` says, which may be an override of that number.
    fn changed(mut self, table: &Table, number: Option<usize>) -> Result<Settings, Error> {
        match table.find::<Or<u64>>("buffer") {
            Some(Or::Word(_)) => self.bytes = None,
            Some(Or::Value(bytes)) => self.bytes = Some(bytes),
            None => {}
        }
        match table.find::<Or<&Table>>("pfc") {
            Some(Or::Word(_)) => self.pfc = pfc::PfcSetting::Off,
            Some(Or::Value(pfc)) => self.pfc = pfc::PfcSetting::On(pfc::pausing(pfc), number),
            None => {}
        }
        // What a preset says of a limited buffer may stand beside the user's unlimited one.
        let says = |key| table.item(key).is_some_and(|item| !item.at.is_builtin());
        let sharing = table.find::<Word>("sharing").map(|word| word.0);
        let pauses = matches!(self.pfc, pfc::PfcSetting::On(..));
        for key in ["sharing", "alpha"].into_iter().filter(|key| says(key)) {
            if self.bytes.is_none() {
                return Err(table.error(key, "no such key while the buffer is unlimited"));
            }
            if pauses {
                let expected = "no such key beside pfc, whose alpha is the threshold";
                return Err(table.error(key, expected));
            }
        }
        if pauses && self.bytes.is_none() && says("pfc") {
            return Err(table.error("pfc", "a buffer of limited size, or \"off\""));
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
    Ok(Marking { kmin, kmax, pmax: table.get("pmax"), at, core_only, per: table.find("per") })
}

impl Equipped {
    /// Whether the marking of some switch is left to the protocols.
    pub(crate) fn leaves_marking(&self) -> bool {
        self.markings.contains(&Ecned::Unsaid)
    }

    /// Settles marking: as the scenario says, or else as the running protocols ask for it.
    pub(crate) fn mark(
        &mut self,
        table: &Table,
        asked: Option<Marking>,
        bdp_bytes: f64,
    ) -> Result<(), Error> {
        for (switch, ecned) in self.fabric.switches.iter_mut().zip(&self.markings) {
            let marking = match ecned {
                Ecned::Off => None,
                Ecned::On(marking) => Some(*marking),
                Ecned::Unsaid => asked,
            };
            let Some(marking) = marking else { continue };
            switch.ecn = Some(resolved(table, marking, bdp_bytes)?);
        }
        Ok(())
    }
}

/// Marking in bytes.
fn resolved(table: &Table, marking: Marking, bdp_bytes: f64) -> Result<Ecn, Error> {
    let ecn = marking.resolved(bdp_bytes);
    if ecn.min_bytes > ecn.max_bytes {
        let Marking { kmin, kmax, .. } = marking;
        let found = format!("kmin {kmin} above kmax {kmax}");
        let relative = [kmin, kmax].iter().any(|k| matches!(k, Extent::Bdp(_)));
        let bdp = match relative {
            true => format!(", with a BDP of {bdp_bytes:.0}B"),
            false => String::new(),
        };
        return Err(table.error_found("ecn", found, format!("kmin at most kmax{bdp}")));
    }
    Ok(ecn)
}

/// The ways that packets take, where no protocol is there to be asked.
pub(crate) fn routing(table: &Table) -> Routing {
    let said = table.find::<Word>("routing");
    let named = |routing: &Routing| said.is_some_and(|word| word.0 == routing.name());
    Routing::ALL.into_iter().find(named).unwrap_or(Routing::Ecmp)
}

impl Equipped {
    /// Switches that real packets meet, of whom no protocol asks anything.
    pub(crate) fn real(self, table: &Table) -> Result<Fabric, Error> {
        let Equipped { mut fabric, markings, pfc } = self;
        let credits = credit_queue::alone(table)?;
        for ((switch, ecned), pfc) in fabric.switches.iter_mut().zip(markings).zip(pfc) {
            let at = |what| format!("{what} at switch {}", switch.name);
            if matches!(pfc, pfc::PfcSetting::On(..)) {
                let expected = "\"off\": who sends real packets hears of no pauses";
                return Err(table.error_found("pfc", at("pauses"), expected));
            }
            if switch.buffer == Buffer::Unlimited {
                let expected = "a size, for what waits here takes memory";
                return Err(table.error_found("buffer", at("no end"), expected));
            }
            if let Ecned::On(marking) = ecned {
                if [marking.kmin, marking.kmax].iter().any(|k| matches!(k, Extent::Bdp(_))) {
                    let expected = "sizes in bytes: the round trips of real packets are not known";
                    return Err(table.error_found("ecn", at("sizes in BDP"), expected));
                }
                switch.ecn = Some(resolved(table, marking, 0.0)?);
            }
            switch.credit_queue = credits;
        }
        Ok(fabric)
    }
}

/// Marking as a scenario would say it.
pub(crate) fn json_ecn(ecn: Ecn) -> Json {
    let mut json = json!({
        "kmin": format!("{}B", ecn.min_bytes),
        "kmax": format!("{}B", ecn.max_bytes),
        "pmax": ecn.max_probability,
        "ports": if ecn.core_only { "core" } else { "all" },
        "at": if ecn.at == MarkAt::Enqueue { "enqueue" } else { "dequeue" },
    });
    if let Some(rate) = ecn.per {
        json["per"] = json!(rate.to_string());
    }
    json
}

/// Does this override say anything about the marking of the switch of that name?
pub(crate) fn touches_ecn(change: &Table, name: &str) -> bool {
    change.item("ecn").is_some()
        && change.get::<&[String]>("match").iter().any(|glob| Glob::new(glob).matches(name))
}
