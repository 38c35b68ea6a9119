//! `[switch]`: settings of all switches, and overrides for some.

use serde_json::{Value as Json, json};
use tidegate_core::fabric::{
    Buffer, Ecn, Fabric, HashSeeds, MarkAt, Routing, Stamping, TelemetryResolution,
};
use tidegate_core::{Extent, Marking, Span};

use super::glob::Glob;
use super::pfc;
use super::topology::Topology;
use super::{credit_queue, trimming};
use crate::error::{Error, nearest};
use crate::read::keys::{Default, FLIGHT, Key, LINK_RATE, Optional, Required, Shape, key};
use crate::read::table::{Or, Table, Word};

static PER_SWITCH: &[Key] = &[
    key(
        "buffer",
        Shape::Or(&["unlimited"], &Shape::Bytes { min: 10_000, max: 1_000_000_000_000 }),
        Default("unlimited"),
        "Size of the packet buffer that all ports of a switch share.",
    ),
    key(
        "sharing",
        Shape::Word(&["dynamic-threshold", "complete"]),
        Optional,
        "How ports share a limited buffer. dynamic-threshold (default): each port may hold alpha \
         times the free buffer. complete: each port may hold all of the free buffer.",
    ),
    key(
        "alpha",
        Shape::Number { min: 0.001, max: 1_000.0 },
        Optional,
        "For dynamic-threshold sharing: limit of one port's queue as a multiple of the free \
         buffer. Default: 1.",
    ),
    key(
        "latency",
        FLIGHT,
        Default("0us"),
        "Processing time of every packet before it joins a queue. Telemetry does not include it.",
    ),
    key(
        "telemetry",
        Shape::Flag,
        Default("true"),
        "Whether the switch writes telemetry into packets of protocols that use it.",
    ),
    key(
        "telemetry_quantum",
        FLIGHT,
        Optional,
        "Unit of the delays and times in telemetry, which are rounded down: from 0us, exact \
         values, to 1s. Bytes have the unit that the link sends in this time. A warning reports a \
         quantum above the smallest delay target of a protocol. Default: 0us.",
    ),
    key(
        "telemetry_period",
        FLIGHT,
        Optional,
        "Each port reads the values of telemetry once in this time, at the first packet that \
         requests them, and writes these into all packets until the next period: from 0us, where \
         each packet has its own values, to 1s. A warning reports a period above the base RTT. \
         Default: 0us.",
    ),
    key(
        "priorities",
        Shape::Count { min: 1, max: 8 },
        Default("8"),
        "Number of strict priorities at a port.",
    ),
    key(
        "pfc",
        Shape::Or(&["off"], &Shape::Table(&[pfc::KEYS])),
        Optional,
        "Priority flow control (PFC): the switch pauses its neighbours instead of dropping their \
         packets. The limited buffer is then accounted per ingress port, and sharing and alpha do \
         not apply. Default: off, unless a running protocol requires it.",
    ),
    key(
        "ecn",
        Shape::Or(&["off"], &Shape::Table(&[ECN])),
        Optional,
        "ECN marking at the ports. Default: the marking that the running protocols require, if any \
         (`tidegate protocols NAME` shows it).",
    ),
];

static ECN: &[Key] = &[
    key("kmin", Shape::Extent, Required, "Queue length below which no packet is marked."),
    key(
        "kmax",
        Shape::Extent,
        Optional,
        "Queue length from which every packet is marked. Default: kmin.",
    ),
    key(
        "pmax",
        Shape::Number { min: 0.0, max: 1.0 },
        Default("1.0"),
        "Marking probability just below kmax.",
    ),
    key(
        "at",
        Shape::Word(&["enqueue", "dequeue"]),
        Default("enqueue"),
        "When the switch decides on the mark: when a packet joins the queue or when it leaves. It \
         uses the queue length at that time.",
    ),
    key(
        "ports",
        Shape::Word(&["all", "core"]),
        Default("all"),
        "Ports that mark: all, or only those to other switches (core).",
    ),
    key(
        "per",
        LINK_RATE,
        Optional,
        "Port rate for which kmin and kmax hold. At other ports, they are scaled in proportion to \
         the rate. Default: the same at all ports.",
    ),
];

static WHOLE: &[Key] = &[
    key(
        "credit_queue",
        Shape::Or(&["off"], &Shape::Table(&[credit_queue::KEYS])),
        Optional,
        "Separate credit queues at all ports of all switches. Credits precede data, and a token \
         bucket limits them to a share of the link rate. Credits that do not fit are counted \
         separately from drops. Default: the queues that the running protocols require, if any.",
    ),
    key(
        "trimming",
        Shape::Or(&["off"], &Shape::Table(&[trimming::KEYS])),
        Optional,
        "Packet trimming at all ports of all switches: if the queue for data is full, a packet \
         loses its payload, and its headers precede data. Needs three priorities or more. Default: \
         the trimming that the running protocols require, if any.",
    ),
    key(
        "routing",
        Shape::Word(&["ecmp", "spray", "symmetric-ecmp"]),
        Optional,
        "How packets choose among equal paths. ecmp: one path per connection. spray: a random path \
         per packet. symmetric-ecmp: one path per connection, over the same links in both \
         directions (in fabrics of regular tiers, which all generated fabrics are). Default: the \
         routing that the running protocols require.",
    ),
    key(
        "hash_seeds",
        Shape::Word(&["per-switch", "per-tier", "same"]),
        Optional,
        "Switches that select among equal paths by the same function. per-switch (default): every \
         switch has its own. per-tier: switches at the same distance from hosts share one. same: \
         all switches share one, so that switches of one path with equal numbers of ways make the \
         same choice (polarisation). Not with symmetric-ecmp.",
    ),
    key(
        "override",
        Shape::Changes(&[MATCH, PER_SWITCH]),
        Optional,
        "Settings that override those of [switch] for some switches. The last matching table has \
         precedence.",
    ),
];

static MATCH: &[Key] = &[key(
    "match",
    Shape::Globs,
    Required,
    "Names of switches. * matches any text, [0-15] a range of numbers.",
)];

/// Keys of the section.
pub(crate) const KEYS: &[&[Key]] = &[PER_SWITCH, WHOLE];

/// ECN setting of one switch.
#[derive(Clone, Copy, Debug, PartialEq)]
enum EcnSetting {
    Unset,
    Off,
    On(Marking),
}

/// Settings of one switch.
#[derive(Clone, Copy, Debug)]
struct Settings {
    bytes: Option<u64>,
    alpha: f64,
    latency: Span,
    telemetry: Stamping,
    telemetry_resolution: TelemetryResolution,
    priorities: u8,
    ecn: EcnSetting,
    pfc: pfc::PfcSetting,
}

/// Switches with all settings resolved except those that depend on the running protocols: marking,
/// whose thresholds need the bandwidth-delay product, and PFC.
#[derive(Debug)]
pub(crate) struct ConfiguredSwitches {
    pub(crate) fabric: Fabric,
    markings: Vec<EcnSetting>,
    pub(crate) pfc: Vec<pfc::PfcSetting>,
}

/// Applies the settings to the switches of a topology.
pub(crate) fn configure(
    table: &Table,
    topology: Topology,
    mtu: u32,
) -> Result<ConfiguredSwitches, Error> {
    let unset = Settings {
        bytes: None,
        alpha: 1.0,
        latency: Span::ZERO,
        telemetry: Stamping::All,
        telemetry_resolution: TelemetryResolution::EXACT,
        priorities: 8,
        ecn: EcnSetting::Unset,
        pfc: pfc::PfcSetting::Unset,
    };
    let Topology { hosts, mut switches, links, circuits, first_nic, .. } = topology;
    // NICs have no settings: they neither drop nor mark.
    let number = first_nic.map_or(switches.len(), |first| first as usize);
    let set = &mut switches[..number];
    let mut settings = vec![unset.changed(table, None)?; number];
    for (number, change) in table.tables("override").iter().enumerate() {
        for pattern in change.get::<&[String]>("match") {
            let glob = Glob::new(pattern);
            let mut matched = false;
            for (switch, settings) in set.iter().zip(&mut settings) {
                if glob.matches(&switch.name) {
                    matched = true;
                    *settings = settings.changed(change, Some(number))?;
                }
            }
            let names: Vec<_> = set.iter().map(|switch| switch.name.as_str()).collect();
            if !matched {
                return Err(change
                    .error_found(
                        "match",
                        format!("{pattern:?}, which matches no switch"),
                        glob.expected("the name of a switch of the fabric".into()),
                    )
                    .suggest(nearest(pattern, names.iter().copied())));
            }
            if let Some(switch) = glob.beyond(&names) {
                let found = format!("{pattern:?}, but there is no switch {switch:?}");
                return Err(change.error_found("match", found, "ranges within the fabric"));
            }
        }
    }
    for (switch, settings) in set.iter_mut().zip(&settings) {
        switch.latency = settings.latency;
        switch.telemetry = settings.telemetry;
        switch.telemetry_resolution = settings.telemetry_resolution;
        switch.priorities = settings.priorities;
        switch.buffer = match settings.bytes {
            None => Buffer::Unlimited,
            Some(bytes) => Buffer::Shared { bytes, alpha: settings.alpha },
        };
    }
    let markings = settings.iter().map(|settings| settings.ecn).collect();
    let pfc = settings.iter().map(|settings| settings.pfc).collect();
    Ok(ConfiguredSwitches {
        fabric: Fabric {
            hosts,
            switches,
            links,
            mtu,
            port_rates: Vec::new(),
            rate_changes: Vec::new(),
            hash_seeds: hash_seeds(table),
            circuits,
            first_nic,
            servers: None,
        },
        markings,
        pfc,
    })
}

impl Settings {
    /// Returns the settings with the keys of `table` applied. `number` is the number of the
    /// override, if `table` is one.
    fn changed(mut self, table: &Table, number: Option<usize>) -> Result<Settings, Error> {
        match table.find::<Or<u64>>("buffer") {
            Some(Or::Word(_)) => self.bytes = None,
            Some(Or::Value(bytes)) => self.bytes = Some(bytes),
            None => {}
        }
        match table.find::<Or<&Table>>("pfc") {
            Some(Or::Word(_)) => self.pfc = pfc::PfcSetting::Off,
            Some(Or::Value(_)) => self.pfc = pfc::PfcSetting::On(number),
            None => {}
        }
        // A preset's keys for a limited buffer are ignored if the user sets an unlimited one.
        let is_set = |key| table.item(key).is_some_and(|item| !item.at.is_builtin());
        let sharing = table.find::<Word>("sharing").map(|word| word.0);
        let pauses = matches!(self.pfc, pfc::PfcSetting::On(..));
        for key in ["sharing", "alpha"].into_iter().filter(|key| is_set(key)) {
            if self.bytes.is_none() {
                return Err(table.error(
                    key,
                    format!(
                        "no {key} with an unlimited buffer: remove {key}, or set a size for buffer"
                    ),
                ));
            }
            if pauses {
                let expected =
                    format!("no {key} with PFC: remove {key}; pfc.alpha sets the pause threshold");
                return Err(table.error(key, expected));
            }
        }
        if pauses && self.bytes.is_none() && is_set("pfc") {
            return Err(
                table.error("pfc", "\"off\" with an unlimited buffer: PFC needs a size for buffer")
            );
        }
        let alpha: Option<f64> = table.find("alpha");
        match sharing {
            Some("complete") if alpha.is_some() => {
                return Err(table.error(
                    "alpha",
                    "no alpha with complete sharing: remove alpha, or set sharing = \
                     \"dynamic-threshold\"",
                ));
            }
            Some("complete") => self.alpha = f64::INFINITY,
            Some(_) if self.alpha.is_infinite() => self.alpha = 1.0,
            _ => {}
        }
        self.alpha = alpha.unwrap_or(self.alpha);
        self.latency = table.find("latency").unwrap_or(self.latency);
        match table.find("telemetry") {
            Some(true) => self.telemetry = Stamping::All,
            Some(false) => self.telemetry = Stamping::Off,
            None => {}
        }
        let TelemetryResolution { quantum, period } = &mut self.telemetry_resolution;
        for (key, span) in [("telemetry_quantum", quantum), ("telemetry_period", period)] {
            let Some(set) = table.find(key) else { continue };
            if self.telemetry == Stamping::Off {
                return Err(table.error(
                    key,
                    format!("no {key} without telemetry: remove {key}, or set telemetry = true"),
                ));
            }
            *span = set;
        }
        self.priorities =
            table.find::<u64>("priorities").map_or(self.priorities, |levels| levels as u8);
        match table.find::<Or<&Table>>("ecn") {
            Some(Or::Word(_)) => self.ecn = EcnSetting::Off,
            Some(Or::Value(ecn)) => self.ecn = EcnSetting::On(marking(ecn)?),
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

impl ConfiguredSwitches {
    /// Whether the scenario leaves the marking of some switch to the protocols.
    pub(crate) fn leaves_marking(&self) -> bool {
        self.markings.contains(&EcnSetting::Unset)
    }

    /// Resolves marking: the setting of the scenario, or else the marking that the running
    /// protocols require.
    pub(crate) fn mark(
        &mut self,
        table: &Table,
        required: Option<Marking>,
        bdp_bytes: f64,
    ) -> Result<(), Error> {
        for (switch, setting) in self.fabric.switches.iter_mut().zip(&self.markings) {
            let marking = match setting {
                EcnSetting::Off => None,
                EcnSetting::On(marking) => Some(*marking),
                EcnSetting::Unset => required,
            };
            let Some(marking) = marking else { continue };
            switch.ecn = Some(resolved(table, marking, bdp_bytes)?);
        }
        Ok(())
    }
}

/// Resolves marking thresholds to bytes.
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
        return Err(table.error_found("ecn", found, format!("kmin of at most kmax{bdp}")));
    }
    Ok(ecn)
}

/// Returns the switches that hash alike.
fn hash_seeds(table: &Table) -> HashSeeds {
    let set = table.find::<Word>("hash_seeds");
    let named = |seeds: &HashSeeds| set.is_some_and(|word| word.0 == seeds.name());
    HashSeeds::ALL.into_iter().find(named).unwrap_or_default()
}

/// Refuses seeds for a routing that has none.
pub(crate) fn check_hash_seeds(table: &Table, routing: Routing) -> Result<(), Error> {
    if table.item("hash_seeds").is_some() && routing == Routing::SymmetricEcmp {
        let expected = "no hash_seeds with symmetric-ecmp, whose choices do not depend on the \
                        switch that makes them: remove hash_seeds, or set routing = \"ecmp\"";
        return Err(table.error("hash_seeds", expected));
    }
    Ok(())
}

/// Returns the routing of switches without protocols: the setting, or else ECMP.
pub(crate) fn routing(table: &Table) -> Routing {
    let set = table.find::<Word>("routing");
    let named = |routing: &Routing| set.is_some_and(|word| word.0 == routing.name());
    Routing::ALL.into_iter().find(named).unwrap_or(Routing::Ecmp)
}

impl ConfiguredSwitches {
    /// Returns switches for live UDP mode, where no protocol sets requirements.
    pub(crate) fn real(self, table: &Table) -> Result<Fabric, Error> {
        let ConfiguredSwitches { mut fabric, markings, pfc } = self;
        let credits = credit_queue::alone(table)?;
        for ((switch, setting), pfc) in fabric.switches.iter_mut().zip(markings).zip(pfc) {
            let at = |what| format!("{what} at switch {}", switch.name);
            if matches!(pfc, pfc::PfcSetting::On(..)) {
                let expected = "\"off\": live switches do not support PFC";
                return Err(table.error_found("pfc", at("PFC"), expected));
            }
            if switch.buffer == Buffer::Unlimited {
                let expected = "a size: a live switch keeps its queues in memory";
                return Err(table.error_found("buffer", at("an unlimited buffer"), expected));
            }
            if let EcnSetting::On(marking) = setting {
                if [marking.kmin, marking.kmax].iter().any(|k| matches!(k, Extent::Bdp(_))) {
                    let expected = "thresholds in bytes: a live switch does not know the base RTT";
                    return Err(table.error_found("ecn", at("thresholds in BDP"), expected));
                }
                switch.ecn = Some(resolved(table, marking, 0.0)?);
            }
            switch.credit_queue = credits;
        }
        let trimming = trimming::alone(table, &fabric)?;
        fabric.switches.iter_mut().for_each(|switch| switch.trimming = trimming);
        Ok(fabric)
    }
}

/// Marking as a table of a scenario.
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

/// Whether this override sets the marking of the switch `name`.
pub(crate) fn touches_ecn(change: &Table, name: &str) -> bool {
    change.item("ecn").is_some()
        && change.get::<&[String]>("match").iter().any(|glob| Glob::new(glob).matches(name))
}
