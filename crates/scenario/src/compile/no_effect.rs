//! Warnings of keys and parameters that a scenario sets and that have no effect in it.
//!
//! A key that contradicts another one is an error. A key is only warned of if scenarios may have it
//! for other runs: under another protocol, or with another value of the key that it depends on.

use tidegate_algos::{Protocol, Stack};
use tidegate_core::fabric::Fabric;
use tidegate_core::params::{Info, Value};
use tidegate_core::workload::Workload;
use tidegate_core::{Extent, FabricProperties, FabricRequirements, Span, Time};

use super::preset::presets;
use super::transport::Stacks;
use super::{Labels, RunSettings, faults};
use crate::plan::Ineffective;
use crate::read::check;
use crate::read::keys::{Key, Presence};
use crate::read::table::{Or, Table, Word};
use crate::read::tree::Node;

/// Keys without effect, by reason.
#[derive(Debug, Default)]
pub(crate) struct NoEffect(Vec<(String, Vec<String>)>);

impl NoEffect {
    /// Adds a key, with a reason that completes `KEY has no effect …`.
    pub(crate) fn add(&mut self, key: String, reason: impl Into<String>) {
        let reason = reason.into();
        match self.0.iter_mut().find(|(known, _)| *known == reason) {
            Some((_, keys)) if keys.contains(&key) => {}
            Some((_, keys)) => keys.push(key),
            None => self.0.push((reason, vec![key])),
        }
    }

    /// One warning for each reason.
    pub(crate) fn warnings(self) -> impl Iterator<Item = String> {
        self.0.into_iter().map(|(reason, keys)| {
            let has = if keys.len() == 1 { "has" } else { "have" };
            format!("{} {has} no effect {reason}", keys.join(", "))
        })
    }
}

/// Whether a table sets a key to another value than its default, which a resolved scenario lists.
fn is_set(table: &Table, keys: &[Key], key: &str) -> bool {
    let Some(item) = table.item(key).filter(|item| !item.at.is_builtin()) else { return false };
    let known = keys.iter().find(|known| known.name == key);
    let default = known.and_then(|known| match known.presence {
        Presence::Default(text) => check::item(Node::default(text), known.shape, key).ok(),
        Presence::Optional | Presence::Required => None,
    });
    default.is_none_or(|default| default.json() != item.json())
}

/// The parameters of a stack that have no effect in a scenario, at switches with the settings of
/// `table`. `sets_marking`: all switches have the marking that the scenario sets. `full_packet`:
/// wire bytes of the largest packet.
pub(crate) fn of_stack(
    stack: &Stack,
    properties: &FabricProperties,
    fabric: &Fabric,
    table: &Table,
    (sets_marking, full_packet): (bool, u32),
) -> Vec<Ineffective> {
    let declared = stack.without_effect().into_iter().map(|(parameter, needs)| Ineffective {
        parameter,
        depends_on: Some(needs.parameter),
        reason: format!("without {needs}"),
    });
    let mut all: Vec<Ineffective> = declared.collect();
    let required = stack.requirements(properties);
    let bdp_bytes = properties.port_bdp_bytes();
    let mut overruled = |changes: &dyn Fn(&FabricRequirements) -> bool, key: &str| {
        // A choice or a flag selects a mechanism, which is more than its marking.
        let is_numeric = |info: &Info| !matches!(info.default, Value::Choice(_) | Value::Flag(_));
        for info in stack.protocol().table().into_iter().filter(is_numeric) {
            if all.iter().any(|known| known.parameter == info.name) {
                continue;
            }
            // A parameter affects a requirement if its least, largest or default value changes the
            // requirement. The default is between the bounds, if there are any.
            let values = match info.range {
                Some(range) => vec![range.min, range.max],
                None => vec![info.default],
            };
            let affects = values.into_iter().any(|value| {
                let mut other = stack.clone();
                other.set(info.name, value).is_ok() && changes(&other.requirements(properties))
            });
            if affects {
                let reason = format!("because {key} is set");
                let parameter = info.name;
                all.push(Ineffective { parameter, depends_on: None, reason });
            }
        }
    };
    let switches = fabric.network_switches();
    let marking = required.ecn.map(|marking| marking.resolved(bdp_bytes));
    if sets_marking && marking.is_some() && switches.iter().any(|switch| switch.ecn != marking) {
        let key = if table.item("ecn").is_some() { "switch.ecn" } else { "switch.override[].ecn" };
        overruled(&|other| other.ecn.is_some() && other.ecn != required.ecn, key);
    }
    if let (Some(Or::Value(set)), Some(rule)) =
        (table.find::<Or<&Table>>("trimming"), required.trimming)
    {
        let bytes = rule.resolved(bdp_bytes).data_bytes.max(full_packet);
        let differs = switches.iter().flat_map(|switch| switch.trimming);
        if set.item("data").is_some() && differs.into_iter().any(|it| it.data_bytes != bytes) {
            let data = |rules: &FabricRequirements| rules.trimming.map(|rule| rule.data);
            overruled(&|other| data(other) != Some(rule.data), "switch.trimming.data");
        }
    }
    all
}

impl NoEffect {
    /// Adds the parameters whose value has no effect in any stack that has it, as
    /// `PROTOCOL.PARAMETER`: a resolved scenario, which must cause the same warnings, sets them in
    /// other tables.
    pub(crate) fn parameters(
        &mut self,
        stacks: &Stacks<'_>,
        ineffective: impl Fn(&Stack) -> Vec<Ineffective>,
    ) {
        let mut all: Vec<(Protocol, &str, Value, Option<String>)> = Vec::new();
        for stack in stacks.iter() {
            let (protocol, ineffective) = (stack.protocol(), ineffective(stack));
            for (name, value) in changed(stack) {
                let found = ineffective.iter().find(|known| known.parameter == name);
                let reason = found.map(|found| found.reason.clone());
                let is_it = |(of, known, with, _): &&mut (Protocol, &str, Value, _)| {
                    (*of, *known, *with) == (protocol, name, value)
                };
                match all.iter_mut().find(is_it) {
                    Some((.., known)) => *known = known.take().and(reason),
                    None => all.push((protocol, name, value, reason)),
                }
            }
        }
        for (protocol, name, value, reason) in all {
            if let Some(reason) = reason {
                self.parameter(protocol, (name, value), reason);
            }
        }
    }

    /// Adds the parameters that the scenario sets for `transport.protocol` if no flow uses it.
    pub(crate) fn unused(&mut self, base: &Stack, stacks: &Stacks<'_>) {
        let protocol = base.protocol();
        if stacks.iter().all(|stack| stack.protocol() != protocol) {
            let reason = format!("because no flow uses {}", protocol.info().name);
            for pair in changed(base) {
                self.parameter(protocol, pair, reason.clone());
            }
        }
    }

    /// Adds a parameter, unless a preset has its value: a resolved scenario lists all parameters
    /// and no preset.
    fn parameter(&mut self, protocol: Protocol, pair: (&'static str, Value), reason: String) {
        if presets(protocol).iter().all(|preset| !preset.parameters.contains(&pair)) {
            self.add(format!("{}.{}", protocol.info().name, pair.0), reason);
        }
    }

    /// Adds weights of messages whose protocols ignore them.
    pub(crate) fn weights(
        &mut self,
        root: &Table,
        labels: &Labels,
        workload: &Workload,
        stacks: &Stacks<'_>,
    ) {
        let tables = root.tables("flows").iter().chain(root.tables("traffic"));
        for table in tables.filter(|table| table.find::<u64>("weight").is_some_and(|it| it > 1)) {
            let label = labels.known(table.find("label").unwrap_or(""));
            let flows = workload.flows.iter().map(|flow| (flow.label, flow.stack));
            let blocks = workload.traffic.iter().map(|block| (block.label, block.stack));
            let of_label = flows.chain(blocks).filter(|(of, _)| Some(*of) == label);
            let mut used: Vec<u16> = of_label.map(|(_, stack)| stack).collect();
            used.sort_unstable();
            used.dedup();
            let ignored = used.into_iter().map(|number| stacks.stack(number)).map(|stack| {
                let reason = stack.ignores_weights()?;
                Some(format!("under {}: {reason}", stack.protocol().info().name))
            });
            if let Some(reasons) = ignored.collect::<Option<Vec<String>>>() {
                self.add(table.path("weight"), reasons.join("; "));
            }
        }
    }

    /// Adds keys that need another key, or a longer run.
    pub(crate) fn keys(&mut self, root: &Table, run: RunSettings) {
        let output: &Table = root.get("output");
        match output.get("timeseries") {
            Or::Word(_) => {
                for key in ["quantities", "ports"]
                    .into_iter()
                    .filter(|key| output.item(key).is_some_and(|item| !item.at.is_builtin()))
                {
                    self.add(output.path(key), "without output.timeseries");
                }
            }
            Or::Value(interval) if Time::ZERO + interval > run.duration => {
                let reason = format!(
                    "beyond a sample at the end, because the run ends within an interval, at {}",
                    run.duration
                );
                self.add(output.path("timeseries"), reason);
            }
            Or::Value(_) => {}
        }
        let switch: &Table = root.get("switch");
        for table in [switch].into_iter().chain(switch.tables("override")) {
            let ecn = match table.find::<Or<&Table>>("ecn") {
                Some(Or::Value(ecn)) if ecn.find::<f64>("pmax").is_some_and(|it| it < 1.0) => ecn,
                _ => continue,
            };
            let (kmin, kmax): (Option<Extent>, _) = (ecn.find("kmin"), ecn.find("kmax"));
            if kmax.is_none() || kmin == kmax {
                self.add(ecn.path("pmax"), "without a kmax above kmin");
            }
        }
        if let Some(table) = root.find::<&Table>("faults")
            && is_set(table, faults::KEYS, "reorder_delay")
            && table.get::<f64>("reordering") == 0.0
        {
            self.add(table.path("reorder_delay"), "without faults.reordering");
        }
        for table in root.tables("traffic") {
            if table.find::<Word>("think_times").is_some_and(|it| it.0 == "exponential")
                && table.get::<Span>("think") == Span::ZERO
            {
                self.add(table.path("think_times"), "without think");
            }
        }
    }
}

/// The parameters whose values are not the defaults.
fn changed(stack: &Stack) -> Vec<(&'static str, Value)> {
    let defaults = stack.protocol().stack().values();
    let mut set = stack.values();
    set.retain(|pair| !defaults.contains(pair));
    set
}
