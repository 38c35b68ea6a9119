//! Merges the fabric requirements of the running protocols. Settings of the scenario take
//! precedence.

use tidegate_algos::Stack;
use tidegate_core::fabric::{CreditQueue, Fabric, Routing, Stamping};
use tidegate_core::params::Parameter;
use tidegate_core::{
    FabricProperties, FabricRequirements, MAX_HOPS, MIN_WIRE_BYTES, Marking, Need, RecoveryRule,
    Telemetry, TrimmingRule,
};

use super::transport::Stacks;
use super::trimming::{HEADER_WEIGHT, HEADERS};
use super::{credit_queue, trimming};
use crate::error::{Error, one_of};
use crate::read::table::{Or, Table, Word};

/// Requirements of all protocols in use.
#[derive(Debug)]
pub(crate) struct Requirements<'a> {
    stacks: &'a Stacks<'a>,
    list: Vec<Requirement<'a>>,
}

/// Requirements of one protocol.
#[derive(Debug)]
struct Requirement<'a> {
    stack: &'a Stack,
    name: &'static str,
    requirements: FabricRequirements,
}

impl<'a> Requirements<'a> {
    /// Collects the requirements of all stacks.
    pub(crate) fn of(stacks: &'a Stacks<'a>, properties: &FabricProperties) -> Requirements<'a> {
        let requirement = |stack: &'a Stack| Requirement {
            stack,
            name: stack.protocol().info().name,
            requirements: stack.requirements(properties),
        };
        Requirements { stacks, list: stacks.iter().map(requirement).collect() }
    }

    fn first(&self, requires: impl Fn(&FabricRequirements) -> bool) -> Option<&'static str> {
        self.list
            .iter()
            .find(|requirement| requires(&requirement.requirements))
            .map(|requirement| requirement.name)
    }

    /// Returns the protocol of a requirement and the key that names it. In a comparison, flows that
    /// name a protocol keep it, so the protocol alone is ambiguous.
    fn protocol_and_key(&self, requirement: &Requirement<'_>) -> String {
        format!("{} ({})", requirement.name, self.stacks.key(requirement.stack))
    }

    /// Resolves the routing: the setting of `[switch]`, or else the one routing that satisfies all
    /// protocols. If `paths_differ` returns false, no packet has a choice and any routing does.
    pub(crate) fn routing(
        &self,
        table: &Table,
        paths_differ: impl Fn() -> bool,
        warnings: &mut Vec<String>,
    ) -> Result<Routing, Error> {
        let requiring = |routing| self.first(|requirements| requirements.routing == routing);
        let (spray, symmetric) = (requiring(Routing::Spray), requiring(Routing::SymmetricEcmp));
        if let Some(Word(set)) = table.find("routing") {
            let routing = Routing::ALL.into_iter().find(|routing| routing.name() == set);
            let routing = routing.unwrap_or(Routing::Ecmp);
            let misses = |name: Option<&'static str>, required| {
                name.filter(|_| routing != required && paths_differ())
            };
            if let Some(name) = misses(spray, Routing::Spray) {
                warnings.push(format!(
                    "{name} expects switch.routing = \"spray\", but it is \"{set}\""
                ));
            }
            if let Some(name) = misses(symmetric, Routing::SymmetricEcmp) {
                warnings.push(format!(
                    "{name} expects switch.routing = \"symmetric-ecmp\", but it is \"{set}\""
                ));
            }
            return Ok(routing);
        }
        let sprays =
            |requirement: &&Requirement<'_>| requirement.requirements.routing == Routing::Spray;
        let spraying = self.list.iter().find(sprays);
        match (spraying, self.list.iter().find(|requirement| !sprays(requirement)), symmetric) {
            (Some(_), Some(_), _) if !paths_differ() => Ok(Routing::Ecmp),
            (Some(spraying), Some(other), _) => {
                let expected = format!(
                    "{}: set one, because {} requires spraying and {} does not",
                    one_of(Routing::ALL.map(Routing::name).into_iter()),
                    self.protocol_and_key(spraying),
                    self.protocol_and_key(other)
                );
                Err(table.error("routing", expected))
            }
            (Some(_), None, _) => Ok(Routing::Spray),
            // Protocols that do not require symmetric ECMP accept it too.
            (None, _, Some(_)) => Ok(Routing::SymmetricEcmp),
            (None, _, None) => Ok(Routing::Ecmp),
        }
    }

    /// Returns the marking that the protocols require. All protocols that require marking must
    /// agree.
    pub(crate) fn marking(&self, table: &Table) -> Result<Option<Marking>, Error> {
        let mut required: Option<(Marking, &Requirement<'_>)> = None;
        for requirement in &self.list {
            match (requirement.requirements.ecn, required) {
                (Some(marking), Some((other, first))) if other != marking => {
                    let expected = format!(
                        "one marking: set switch.ecn, because {} requires {other} and {} requires \
                         {marking}",
                        self.protocol_and_key(first),
                        self.protocol_and_key(requirement)
                    );
                    return Err(table.error("ecn", expected));
                }
                (Some(marking), _) => required = Some((marking, requirement)),
                (None, _) => {}
            }
        }
        Ok(required.map(|(marking, _)| marking))
    }

    /// Returns the credit queues that the protocols require. All protocols that require them must
    /// agree, unless the scenario sets all keys of credit_queue.
    pub(crate) fn credit_queue(&self, table: &Table) -> Result<Option<CreditQueue>, Error> {
        let mut required: Option<(CreditQueue, &Requirement<'_>)> = None;
        for requirement in self.list.iter().filter(|_| !credit_queue::is_whole(table)) {
            match (requirement.requirements.credit_queue, required) {
                (Some(queue), Some((other, first))) if other != queue => {
                    let expected = format!(
                        "all keys of credit_queue to be set, because {} requires {other} and {} \
                         requires {queue}",
                        self.protocol_and_key(first),
                        self.protocol_and_key(requirement)
                    );
                    return Err(table.error("credit_queue", expected));
                }
                (Some(queue), _) => required = Some((queue, requirement)),
                (None, _) => {}
            }
        }
        Ok(required.map(|(queue, _)| queue))
    }

    /// Returns the packet trimming that the protocols require. All protocols that require it must
    /// agree, unless the scenario sets it; on the queue and the weight of headers, unless it sets
    /// these.
    pub(crate) fn trimming(&self, table: &Table) -> Result<Option<TrimmingRule>, Error> {
        let set = table.find::<Or<&Table>>("trimming");
        let lacks = |key: &str| match set {
            Some(Or::Value(set)) => set.item(key).is_none(),
            Some(Or::Word(_)) => false,
            None => true,
        };
        // The key that must be set because two protocols disagree on it.
        let open = |a: TrimmingRule, b: TrimmingRule| {
            let TrimmingRule { header_weight, header_queues, .. } = b;
            let other_headers = TrimmingRule { header_weight, header_queues, ..a };
            if set.is_none() && other_headers != b {
                Some("trimming")
            } else if a.header_weight != b.header_weight && lacks(HEADER_WEIGHT) {
                Some("trimming.header_weight")
            } else if a.header_queues != b.header_queues && lacks(HEADERS) {
                Some("trimming.headers")
            } else {
                None
            }
        };
        let mut required: Option<(TrimmingRule, &Requirement<'_>)> = None;
        for requirement in self.list.iter() {
            match (requirement.requirements.trimming, required) {
                (Some(rule), Some((other, first))) => {
                    if let Some(key) = open(other, rule) {
                        let expected = format!(
                            "{key} to be set, because {} requires {other} and {} requires {rule}",
                            self.protocol_and_key(first),
                            self.protocol_and_key(requirement)
                        );
                        return Err(table.error("trimming", expected));
                    }
                }
                (Some(rule), None) => required = Some((rule, requirement)),
                (None, _) => {}
            }
        }
        Ok(required.map(|(rule, _)| rule))
    }

    /// Returns the size of the longest credit of all protocols, in bytes, and the protocol that
    /// sends it.
    pub(crate) fn largest_credit(&self) -> Option<(u32, String)> {
        let longest =
            self.list.iter().max_by_key(|requirement| requirement.requirements.largest_credit)?;
        let bytes = longest.requirements.largest_credit;
        (bytes > 0).then(|| (bytes, self.protocol_and_key(longest)))
    }

    /// Restricts telemetry to ports between switches if no running protocol needs it elsewhere.
    pub(crate) fn stamping(&self, fabric: &mut Fabric) {
        let telemetry = |requirement: &Requirement<'_>| requirement.requirements.telemetry;
        let everywhere =
            |telemetry: Telemetry| telemetry != Telemetry::NONE && !telemetry.core_only;
        if self.list.iter().map(telemetry).any(everywhere)
            || !self.list.iter().any(|requirement| telemetry(requirement).core_only)
        {
            return;
        }
        for switch in fabric.network_switches_mut() {
            if switch.telemetry == Stamping::All {
                switch.telemetry = Stamping::Core;
            }
        }
    }

    /// Returns the first protocol that requires a lossless fabric, if any does.
    pub(crate) fn lossless(&self) -> Option<&'static str> {
        self.first(|requirements| requirements.lossless)
    }

    /// Returns the size on the wire of the largest packet of all protocols, in bytes.
    pub(crate) fn largest_packet(&self, properties: &FabricProperties) -> u32 {
        let of = |requirement: &Requirement<'_>| {
            let (_, control) = requirement.stack.full_packet(properties.mtu, properties.hops);
            requirement.stack.largest_data(properties.mtu, properties.hops).max(control)
        };
        self.list.iter().map(of).max().unwrap_or(MIN_WIRE_BYTES)
    }

    /// Warns if some running protocols send packets above the priority of data and others do not.
    pub(crate) fn classes(&self, fabric: &Fabric, warnings: &mut Vec<String>) {
        let some = self.first(|requirements| requirements.classes > 0);
        let none = self.first(|requirements| requirements.classes == 0);
        if let (Some(some), Some(none)) = (some, none)
            && fabric.network_switches().iter().all(|switch| switch.priorities > 1)
        {
            let needs_class = self.first(|requirements| requirements.needs_class).is_some();
            let advice = match needs_class {
                true => "",
                false => ": set switch.priorities = 1 to treat them alike",
            };
            warnings.push(format!(
                "{some} sends some packets above the priority of data, {none} sends none{advice}"
            ));
        }
    }

    /// Warns if a protocol sends packets above the priority of data and the fabric has queues for
    /// other racks, which have no priorities.
    pub(crate) fn queues_of_racks(&self, fabric: &Fabric, warnings: &mut Vec<String>) {
        let some = self.first(|requirements| requirements.classes > 0);
        if let (Some(some), true) = (some, fabric.circuits.is_some()) {
            warnings.push(format!(
                "{some} sends some packets above the priority of data, but queues for other racks \
                 have no priorities"
            ));
        }
    }

    /// Warns of protocols whose choice of paths has no effect, or that wait for trimmed packets at
    /// switches that do not trim.
    pub(crate) fn paths(
        &self,
        fabric: &Fabric,
        routing: Routing,
        paths_differ: impl Fn() -> bool,
        warnings: &mut Vec<String>,
    ) {
        let ignored = routing == Routing::Spray && paths_differ();
        let is_trimmed = ("recovery", RecoveryRule::Trimmed.to_value());
        let trims = fabric.network_switches().iter().any(|switch| switch.trimming.is_some());
        let ports = fabric.ports_per_host();
        for Requirement { stack, name, .. } in &self.list {
            if ports > 1 && routing != Routing::Spray && !stack.takes_many_paths() {
                let has_rule = stack.protocol().table().iter().any(|info| info.name == "multipath");
                let advice = if has_rule { ": set multipath in its params" } else { "" };
                warnings.push(format!(
                    "a connection of {name} uses one of the {ports} ports of its host{advice}"
                ));
            }
            if stack.takes_many_paths() && ignored {
                warnings.push(format!(
                    "multipath of {name} has no effect under switch.routing = \"spray\": it needs \
                     \"ecmp\""
                ));
            }
            if stack.values().contains(&is_trimmed) && !trims {
                warnings.push(format!(
                    "no switch trims packets, so only timeouts detect the losses of {name} \
                     (recovery = \"trimmed\")"
                ));
            }
        }
    }

    /// Warns of protocols that interpret reordering as loss, if packets can overtake each other.
    pub(crate) fn warn_of_reordering(
        &self,
        fabric: &Fabric,
        routing: Routing,
        paths_differ: impl Fn() -> bool,
        warnings: &mut Vec<String>,
    ) {
        let place = if fabric.circuits.is_some() {
            "if a circuit is parallel to a packet network"
        } else if !paths_differ() {
            return;
        } else if routing == Routing::Spray {
            "under spraying"
        } else {
            "under multipath"
        };
        let everywhere = routing == Routing::Spray || fabric.circuits.is_some();
        let goes_back = ("recovery", RecoveryRule::GoBackN.to_value());
        for Requirement { stack, name, .. } in &self.list {
            let is_reordered = everywhere || stack.takes_many_paths();
            if is_reordered && stack.values().contains(&goes_back) {
                warnings.push(format!(
                    "{name} interprets reordering as loss and retransmits all following packets \
                     (recovery = \"go-back-n\"): packets are reordered {place}"
                ));
            }
        }
    }

    /// Refuses a fabric that does not satisfy a need of a protocol.
    pub(crate) fn check_needs(
        &self,
        fabric: &Fabric,
        properties: &FabricProperties,
        table: &Table,
    ) -> Result<(), Error> {
        for Requirement { stack, name, requirements } in &self.list {
            let find = |need| Some((need, unsatisfied(fabric, properties, need)?));
            let Some((need, unsatisfied)) = requirements.needs().find_map(find) else { continue };
            let expected = format!("{}: {name} needs {}", unsatisfied.expected, need.name());
            return Err(match unsatisfied.key {
                None => self.stacks.error(stack, unsatisfied.found, expected),
                Some(key) => {
                    let is_set = table.item(key).is_some_and(|item| !item.at.is_builtin());
                    let mut changes = table.tables("override").iter();
                    let change = changes.find(|change| !is_set && change.item(key).is_some());
                    change.unwrap_or(table).error_found(key, unsatisfied.found, expected)
                }
            });
        }
        Ok(())
    }
}

/// Unsatisfied need.
struct Unsatisfied {
    /// Key of `[switch]` that satisfies the need; `None`: only another protocol helps.
    key: Option<&'static str>,
    found: String,
    expected: String,
}

fn unsatisfied(fabric: &Fabric, properties: &FabricProperties, need: Need) -> Option<Unsatisfied> {
    let (key, found, expected): (_, String, String) = match need {
        Need::PeakHopDelay | Need::CorePeakHopDelay | Need::HopRecords
            if fabric.network_switches().iter().all(|switch| switch.telemetry == Stamping::Off) =>
        {
            (
                Some("telemetry"),
                "no switch with telemetry".into(),
                "true at one switch or more".into(),
            )
        }
        Need::HopRecords if properties.hops as usize > MAX_HOPS => {
            let found = format!("a fabric with {} switches on a path", properties.hops);
            (None, found, format!("at most {MAX_HOPS} switches on every path"))
        }
        Need::Ecn | Need::CoreEcn
            if fabric.network_switches().iter().all(|switch| switch.ecn.is_none()) =>
        {
            (
                Some("ecn"),
                "no switch that marks packets".into(),
                "marking at one switch or more".into(),
            )
        }
        Need::Priorities
            if fabric.network_switches().iter().any(|switch| switch.priorities < 2) =>
        {
            (Some("priorities"), "a switch with one priority".into(), "at least 2".into())
        }
        Need::Circuits if fabric.circuits.is_none() => (
            None,
            "a fabric without circuits".into(),
            "another protocol, or fabric.kind = \"reconfigurable\"".into(),
        ),
        Need::CreditQueues
            if fabric.network_switches().iter().any(|s| s.credit_queue.is_none()) =>
        {
            // Only these three settings exclude credit queues.
            if fabric.circuits.is_some() {
                let expected =
                    "another protocol, because queues for other racks do not support credits";
                (None, "a fabric with circuits".into(), expected.into())
            } else if fabric.network_switches().iter().any(|switch| switch.pausing.is_some()) {
                (Some("pfc"), "switches with PFC".into(), "\"off\"".into())
            } else {
                (Some("credit_queue"), "\"off\"".into(), "a table, or no credit_queue".into())
            }
        }
        Need::Trimming
            if fabric.network_switches().iter().any(|switch| switch.trimming.is_none()) =>
        {
            match trimming::exclusion(fabric) {
                Some(exclusion) => (
                    None,
                    "switches that do not trim".into(),
                    format!("another protocol, because trimming is not supported {exclusion}"),
                ),
                None => (Some("trimming"), "\"off\"".into(), "a table, or no trimming".into()),
            }
        }
        _ => return None,
    };
    Some(Unsatisfied { key, found, expected })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::read::tree::{Node, Source};
    use tidegate_core::Extent;
    use tidegate_core::routes::Routes;

    fn chain(switches: u32, more: &str) -> Fabric {
        let text = format!(
            "duration = '1ms'\nfabric = {{ kind = 'parking-lot', switches = {switches} \
             }}\ntransport = {{ protocol = 'swift' }}\n\
             flows = [{{ src = 'h0', dst = 'h1' }}]\nswitch = {{ {more} }}"
        );
        crate::load(&text, "x.toml", &[]).unwrap().setup.fabric
    }

    /// A fabric of racks with circuits.
    fn racks() -> Fabric {
        let text = "duration = '1ms'\nfabric = { kind = 'reconfigurable', racks = 2 }\n\
                    transport = { protocol = 'swift' }\nflows = [{ src = 'h0', dst = 'h4' }]";
        crate::load(text, "x.toml", &[]).unwrap().setup.fabric
    }

    /// Calls `query` for protocols "one", "two" and "three" with these requirements.
    fn merged<T>(
        requirements: &[FabricRequirements],
        query: impl FnOnce(&Requirements<'_>, &Table) -> Result<T, Error>,
    ) -> Result<T, String> {
        let text = "duration = '1ms'\nswitch = {}\nfabric = { kind = 'star' }\ntransport = { \
                    protocol = 'swift' }\nflows = [{ src = 'h0', dst = 'h1' }]";
        let document = Node::document(&Source::file("x.toml", text)).unwrap();
        let root = crate::read::check::table(document, crate::compile::scenario::ROOT, "").unwrap();
        let stacks = Stacks::new(root.get("transport"), &[]).unwrap();
        let stack = stacks.base(root.get::<&Table>("transport").get("protocol")).unwrap();
        let names = ["one", "two", "three"].into_iter();
        let list = requirements.iter().zip(names);
        let list =
            list.map(|(&requirements, name)| Requirement { stack: &stack, name, requirements });
        let requirements = Requirements { stacks: &stacks, list: list.collect() };
        query(&requirements, root.get("switch")).map_err(|error| error.to_string())
    }

    #[test]
    fn requirements_merge_and_conflicts_name_protocols() {
        let routed_where = |differ: bool, ways: &[Routing]| {
            let requirement = |&routing| FabricRequirements { routing, ..FabricRequirements::NONE };
            let requirements: Vec<_> = ways.iter().map(requirement).collect();
            merged(&requirements, |requirements, table| {
                requirements.routing(table, || differ, &mut Vec::new())
            })
        };
        let routed = |ways: &[Routing]| routed_where(true, ways);
        let (ecmp, spray, symmetric) = (Routing::Ecmp, Routing::Spray, Routing::SymmetricEcmp);
        assert_eq!(routed(&[ecmp, ecmp]), Ok(ecmp));
        assert_eq!(routed(&[spray, spray]), Ok(spray));
        assert_eq!(routed(&[ecmp, symmetric]), Ok(symmetric));
        for other in [ecmp, symmetric] {
            let message = routed(&[other, spray]).unwrap_err();
            let expected =
                "two (transport.protocol) requires spraying and one (transport.protocol) does not";
            assert!(message.contains(expected), "{message}");
            assert!(message.starts_with("x.toml:2: switch.routing: found nothing"), "{message}");
            assert_eq!(routed_where(false, &[other, spray]), Ok(ecmp));
        }

        let step = |bdp| Marking::step(Extent::Bdp(bdp));
        let ramp = Marking { kmax: Extent::Bdp(4.0), pmax: 0.2, ..step(1.0) };
        let marked = |markings: &[Option<Marking>]| {
            let requirement = |&ecn| FabricRequirements { ecn, ..FabricRequirements::NONE };
            let requirements: Vec<_> = markings.iter().map(requirement).collect();
            merged(&requirements, |requirements, table| requirements.marking(table))
        };
        assert_eq!(marked(&[None, None]), Ok(None));
        assert_eq!(marked(&[None, Some(ramp), Some(ramp)]), Ok(Some(ramp)));
        let queue = CreditQueue { share: 0.05, bytes: 672, burst_bytes: 168 };
        let queues = |queues: &[Option<CreditQueue>]| {
            let requirement =
                |&credit_queue| FabricRequirements { credit_queue, ..FabricRequirements::NONE };
            let requirements: Vec<_> = queues.iter().map(requirement).collect();
            merged(&requirements, |requirements, table| requirements.credit_queue(table))
        };
        assert_eq!(queues(&[None, Some(queue), Some(queue)]), Ok(Some(queue)));
        let message =
            queues(&[Some(queue), Some(CreditQueue { bytes: 840, ..queue })]).unwrap_err();
        let expected = "one (transport.protocol) requires credit queues of 672B for 5.000% of a \
                        link with bursts of 168B and two (transport.protocol) requires credit \
                        queues of 840B";
        assert!(message.contains(expected), "{message}");

        let rule = |bdp| TrimmingRule::new(Extent::Bdp(bdp), 84);
        let trimmed = |rules: &[Option<TrimmingRule>]| {
            let requirement =
                |&trimming| FabricRequirements { trimming, ..FabricRequirements::NONE };
            let requirements: Vec<_> = rules.iter().map(requirement).collect();
            merged(&requirements, |requirements, table| requirements.trimming(table))
        };
        assert_eq!(trimmed(&[None, Some(rule(1.0)), Some(rule(1.0))]), Ok(Some(rule(1.0))));
        let message = trimmed(&[Some(rule(1.0)), Some(rule(2.0))]).unwrap_err();
        let expected = "one (transport.protocol) requires trimming to 84B from 1BDP on and two \
                        (transport.protocol) requires trimming to 84B from 2BDP on";
        assert!(message.contains(expected), "{message}");
        let returned = TrimmingRule { return_to_sender: true, ..rule(1.0) };
        let message = trimmed(&[Some(rule(1.0)), Some(returned)]).unwrap_err();
        let expected = "two (transport.protocol) requires trimming to 84B from 1BDP on with \
                        return to sender";
        assert!(message.contains(expected), "{message}");
        let weighted = TrimmingRule { header_weight: Some(10), ..rule(1.0) };
        let message = trimmed(&[Some(rule(1.0)), Some(weighted)]).unwrap_err();
        let expected = "expected trimming.header_weight to be set, because one \
                        (transport.protocol) requires trimming to 84B from 1BDP on and two \
                        (transport.protocol) requires trimming to 84B from 1BDP on with 10 header \
                        packets per data packet";
        assert!(message.contains(expected), "{message}");
        let short = TrimmingRule { header_queues: 1, ..rule(1.0) };
        let message = trimmed(&[Some(rule(1.0)), Some(short)]).unwrap_err();
        let expected = "expected trimming.headers to be set, because one (transport.protocol) \
                        requires trimming to 84B from 1BDP on and two (transport.protocol) \
                        requires trimming to 84B from 1BDP on with 1 times this queue for headers";
        assert!(message.contains(expected), "{message}");

        let message = marked(&[Some(step(1.0)), None, Some(ramp)]).unwrap_err();
        let expected = "one (transport.protocol) requires marking from 1BDP on and three \
                    (transport.protocol) requires marking from 1BDP to 4BDP by up to 0.2";
        assert!(message.contains(expected), "{message}");
    }

    #[test]
    fn every_need_is_checked() {
        let lacks = |fabric: &Fabric, need| {
            let reach = Routes::new(fabric).unwrap().reach();
            let properties = FabricProperties::of(fabric, reach, None);
            unsatisfied(fabric, &properties, need).map(|of| of.found)
        };
        let good = chain(8, "ecn = { kmin = '1BDP' }");
        for need in [
            Need::Ecn,
            Need::CoreEcn,
            Need::PeakHopDelay,
            Need::CorePeakHopDelay,
            Need::HopRecords,
            Need::Spraying,
            Need::SymmetricPaths,
            Need::Lossless,
            Need::Priorities,
        ] {
            assert_eq!(lacks(&good, need), None);
        }
        assert_eq!(lacks(&good, Need::Trimming).unwrap(), "\"off\"");
        assert_eq!(lacks(&chain(2, "trimming = {}"), Need::Trimming), None);
        let two = chain(2, "priorities = 2");
        assert_eq!(lacks(&two, Need::Trimming).unwrap(), "switches that do not trim");
        assert_eq!(lacks(&good, Need::CreditQueues).unwrap(), "\"off\"");
        assert_eq!(lacks(&chain(2, "credit_queue = {}"), Need::CreditQueues), None);
        assert_eq!(lacks(&racks(), Need::CreditQueues).unwrap(), "a fabric with circuits");
        assert_eq!(lacks(&good, Need::Circuits).unwrap(), "a fabric without circuits");
        assert_eq!(lacks(&racks(), Need::Circuits), None);
        assert_eq!(
            lacks(&chain(9, ""), Need::HopRecords).unwrap(),
            "a fabric with 9 switches on a path"
        );
        assert_eq!(
            lacks(&chain(3, "ecn = 'off'"), Need::Ecn).unwrap(),
            "no switch that marks packets"
        );
        let plain = chain(3, "priorities = 1");
        assert_eq!(lacks(&plain, Need::Priorities).unwrap(), "a switch with one priority");
        let off = chain(3, "telemetry = false");
        for need in [Need::PeakHopDelay, Need::HopRecords] {
            assert_eq!(lacks(&off, need).unwrap(), "no switch with telemetry");
        }
        let partly =
            chain(3, "telemetry = false, override = [{ match = 'tor1', telemetry = true }]");
        assert_eq!(lacks(&partly, Need::PeakHopDelay), None);
    }

    #[test]
    fn priority_warning_needs_two_priorities() {
        let some = FabricRequirements { classes: 1, ..FabricRequirements::NONE };
        let warned = |more: &str| {
            let fabric = chain(2, more);
            merged(&[some, FabricRequirements::NONE], |requirements, _| {
                let mut warnings = Vec::new();
                requirements.classes(&fabric, &mut warnings);
                Ok(warnings.len())
            })
        };
        assert_eq!((warned("priorities = 2"), warned("priorities = 1")), (Ok(1), Ok(0)));
    }
}
