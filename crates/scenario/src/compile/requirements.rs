//! What the running protocols want of the fabric, together. What the scenario says itself wins.

use tidegate_algos::Stack;
use tidegate_core::fabric::{CreditQueue, Fabric, Routing};
use tidegate_core::params::Parameter;
use tidegate_core::{
    FabricProperties, FabricRequirements, MAX_HOPS, MIN_WIRE_BYTES, Marking, Need, RecoveryRule,
};

use super::credit_queue;
use super::transport::Stacks;
use crate::error::{Error, one_of};
use crate::read::table::{Table, Word};

/// What each protocol in use wants.
#[derive(Debug)]
pub(crate) struct Requirements<'a> {
    stacks: &'a Stacks<'a>,
    list: Vec<Requirement<'a>>,
}

/// What one of them wants.
#[derive(Debug)]
struct Requirement<'a> {
    stack: &'a Stack,
    name: &'static str,
    requirements: FabricRequirements,
}

impl<'a> Requirements<'a> {
    /// Asks every stack.
    pub(crate) fn of(stacks: &'a Stacks<'a>, properties: &FabricProperties) -> Requirements<'a> {
        let requirement = |stack: &'a Stack| Requirement {
            stack,
            name: stack.protocol().info().name,
            requirements: stack.requirements(properties),
        };
        Requirements { stacks, list: stacks.iter().map(requirement).collect() }
    }

    fn first(&self, wants: impl Fn(&FabricRequirements) -> bool) -> Option<&'static str> {
        self.list
            .iter()
            .find(|requirement| wants(&requirement.requirements))
            .map(|requirement| requirement.name)
    }

    /// Its protocol, and the key that names it: another run of a comparison leaves what flows name.
    fn who(&self, requirement: &Requirement<'_>) -> String {
        format!("{} ({})", requirement.name, self.stacks.key(requirement.stack))
    }

    /// How packets choose among equal paths: as `[switch]` says, or else in the one way that suits
    /// all. Where nothing can be chosen (`paths_differ` says), any way suits all.
    pub(crate) fn routing(
        &self,
        table: &Table,
        paths_differ: impl Fn() -> bool,
        warnings: &mut Vec<String>,
    ) -> Result<Routing, Error> {
        let wanting = |routing| self.first(|requirements| requirements.routing == routing);
        let (spray, symmetric) = (wanting(Routing::Spray), wanting(Routing::SymmetricEcmp));
        if let Some(Word(set)) = table.find("routing") {
            let routing = Routing::ALL.into_iter().find(|routing| routing.name() == set);
            let routing = routing.unwrap_or(Routing::Ecmp);
            let misses = |name: Option<&'static str>, meant| {
                name.filter(|_| routing != meant && paths_differ())
            };
            if let Some(name) = misses(spray, Routing::Spray) {
                warnings
                    .push(format!("{name} is meant for spraying, but switch.routing is \"{set}\""));
            }
            if let Some(name) = misses(symmetric, Routing::SymmetricEcmp) {
                warnings.push(format!(
                    "{name} is meant for symmetric paths, but switch.routing is \"{set}\""
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
                    "{} to be set, since {} asks for spraying and {} does not",
                    one_of(Routing::ALL.map(Routing::name).into_iter()),
                    self.who(spraying),
                    self.who(other)
                );
                Err(table.error("routing", expected))
            }
            (Some(_), None, _) => Ok(Routing::Spray),
            // One way of ECMP is as good as another to those that ask for none in particular.
            (None, _, Some(_)) => Ok(Routing::SymmetricEcmp),
            (None, _, None) => Ok(Routing::Ecmp),
        }
    }

    /// The marking that is asked for, which must be one.
    pub(crate) fn marking(&self, table: &Table) -> Result<Option<Marking>, Error> {
        let mut asked: Option<(Marking, &Requirement<'_>)> = None;
        for requirement in &self.list {
            match (requirement.requirements.ecn, asked) {
                (Some(marking), Some((other, first))) if other != marking => {
                    let expected = format!(
                        "ecn to be set, since {} asks for {other} and {} for {marking}",
                        self.who(first),
                        self.who(requirement)
                    );
                    return Err(table.error("ecn", expected));
                }
                (Some(marking), _) => asked = Some((marking, requirement)),
                (None, _) => {}
            }
        }
        Ok(asked.map(|(marking, _)| marking))
    }

    /// The queues for credits that are asked for, which must be one unless the scenario says all of
    /// them itself.
    pub(crate) fn credit_queue(&self, table: &Table) -> Result<Option<CreditQueue>, Error> {
        let mut asked: Option<(CreditQueue, &Requirement<'_>)> = None;
        for requirement in self.list.iter().filter(|_| !credit_queue::is_whole(table)) {
            match (requirement.requirements.credit_queue, asked) {
                (Some(queue), Some((other, first))) if other != queue => {
                    let expected = format!(
                        "all of credit_queue to be set: {} asks for {other} and {} for {queue}",
                        self.who(first),
                        self.who(requirement)
                    );
                    return Err(table.error("credit_queue", expected));
                }
                (Some(queue), _) => asked = Some((queue, requirement)),
                (None, _) => {}
            }
        }
        Ok(asked.map(|(queue, _)| queue))
    }

    /// The longest credit of any of them, in bytes, and who sends it.
    pub(crate) fn largest_credit(&self) -> Option<(u32, String)> {
        let longest =
            self.list.iter().max_by_key(|requirement| requirement.requirements.largest_credit)?;
        let bytes = longest.requirements.largest_credit;
        (bytes > 0).then(|| (bytes, self.who(longest)))
    }

    /// Warns of parameters that the scenario sets and that say how a protocol would have switches
    /// mark, where the scenario sets other marks at every switch of `fabric` itself.
    pub(crate) fn overruled(
        &self,
        properties: &FabricProperties,
        fabric: &Fabric,
        warnings: &mut Vec<String>,
    ) {
        for Requirement { stack, requirements, .. } in &self.list {
            let required = requirements.ecn.map(|marking| marking.resolved(properties.bdp_bytes));
            if fabric.switches.iter().all(|switch| switch.ecn == required) {
                continue;
            }
            let table = stack.protocol().table();
            // Another value of such a parameter asks for other marks.
            let asks = |name: &str| {
                let info = table.iter().find(|info| info.name == name);
                let bounds = info.and_then(|info| info.range).map(|range| [range.min, range.max]);
                let default = info.map(|info| info.default);
                default.into_iter().chain(bounds.into_iter().flatten()).any(|value| {
                    let mut other = (*stack).clone();
                    other.set(name, value).is_ok()
                        && other.requirements(properties).ecn != requirements.ecn
                })
            };
            let keys = self.stacks.set(stack).into_iter().filter(|(_, name)| asks(name));
            let keys: Vec<String> = keys.map(|(key, _)| key).collect();
            if !keys.is_empty() {
                warnings.push(format!(
                    "switch.ecn says how switches mark, so they do not heed {}",
                    keys.join(", ")
                ));
            }
        }
    }

    /// Who wants that nothing is dropped, if anybody does.
    pub(crate) fn lossless(&self) -> Option<&'static str> {
        self.first(|requirements| requirements.lossless)
    }

    /// The largest packet of any of them on the wire, in bytes.
    pub(crate) fn largest_packet(&self, properties: &FabricProperties) -> u32 {
        let of = |requirement: &Requirement<'_>| {
            let protocol = requirement.stack.protocol();
            let info = protocol.info();
            let data = properties.mtu + protocol.header_bytes() + info.telemetry(properties.hops);
            data.max(MIN_WIRE_BYTES + info.echo(properties.hops))
        };
        self.list.iter().map(of).max().unwrap_or(MIN_WIRE_BYTES)
    }

    /// Says so where some of the running protocols send above the priority of data, and others
    /// have data alone.
    pub(crate) fn classes(&self, fabric: &Fabric, warnings: &mut Vec<String>) {
        let some = self.first(|requirements| requirements.classes > 0);
        let none = self.first(|requirements| requirements.classes == 0);
        if let (Some(some), Some(none)) = (some, none)
            && fabric.switches.iter().all(|switch| switch.priorities > 1)
        {
            warnings.push(format!(
                "{some} sends some packets above the priority of data, {none} sends none: with \
                 switch.priorities = 1 they would be equal"
            ));
        }
    }

    /// Says so where some send above the priority of data, and racks have queues that know no
    /// priorities.
    pub(crate) fn queues_of_racks(&self, fabric: &Fabric, warnings: &mut Vec<String>) {
        let some = self.first(|requirements| requirements.classes > 0);
        if let (Some(some), true) = (some, fabric.circuits.is_some()) {
            warnings.push(format!(
                "{some} sends some packets above the priority of data, which queues for other \
                 racks do not know"
            ));
        }
    }

    /// Warns of who takes a packet that comes early for a loss, where packets overtake each other.
    pub(crate) fn overtaking(
        &self,
        fabric: &Fabric,
        routing: Routing,
        paths_differ: impl Fn() -> bool,
        warnings: &mut Vec<String>,
    ) {
        let place = if fabric.circuits.is_some() {
            "where a circuit stands beside a packet network"
        } else if routing == Routing::Spray && paths_differ() {
            "under spraying"
        } else {
            return;
        };
        let goes_back = ("recovery", RecoveryRule::GoBackN.to_value());
        for Requirement { stack, name, .. } in &self.list {
            if stack.values().contains(&goes_back) {
                warnings.push(format!(
                    "{name} takes a packet that overtakes another for a loss, and sends all from \
                     there again (recovery = \"go-back-n\"): packets do overtake {place}"
                ));
            }
        }
    }

    /// Refuses a fabric that lacks what a protocol needs.
    pub(crate) fn provide(
        &self,
        fabric: &Fabric,
        properties: &FabricProperties,
        table: &Table,
    ) -> Result<(), Error> {
        for Requirement { stack, name, requirements } in &self.list {
            let lack = |need| Some((need, lack(fabric, properties, need)?));
            let Some((need, lack)) = requirements.needs().find_map(lack) else { continue };
            let expected = format!("{}: {name} needs {}", lack.expected, need.name());
            return Err(match lack.key {
                None => self.stacks.error(stack, lack.found, expected),
                Some(key) => {
                    let is_said = table.item(key).is_some_and(|item| !item.at.is_builtin());
                    let mut changes = table.tables("override").iter();
                    let change = changes.find(|change| !is_said && change.item(key).is_some());
                    change.unwrap_or(table).error_found(key, lack.found, expected)
                }
            });
        }
        Ok(())
    }
}

/// Why a need is not met.
struct Lack {
    /// Of `[switch]`; `None`: only another protocol helps.
    key: Option<&'static str>,
    found: String,
    expected: String,
}

fn lack(fabric: &Fabric, properties: &FabricProperties, need: Need) -> Option<Lack> {
    let (key, found, expected): (_, String, String) = match need {
        Need::PeakHopDelay | Need::HopRecords
            if fabric.switches.iter().all(|switch| !switch.telemetry) =>
        {
            (Some("telemetry"), "no switch with telemetry".into(), "true on some switch".into())
        }
        Need::HopRecords if properties.hops as usize > MAX_HOPS => {
            let found = format!("a fabric with {} switches on a path", properties.hops);
            (None, found, format!("at most {MAX_HOPS} on every path"))
        }
        Need::Ecn | Need::CoreEcn if fabric.switches.iter().all(|switch| switch.ecn.is_none()) => {
            (Some("ecn"), "no switch that marks".into(), "marking on some switch".into())
        }
        Need::Priorities if fabric.switches.iter().any(|switch| switch.priorities < 2) => {
            (Some("priorities"), "a switch with one priority".into(), "at least 2".into())
        }
        Need::Circuits if fabric.circuits.is_none() => (
            None,
            "a fabric without circuits".into(),
            "another protocol, or fabric.kind = \"reconfigurable\"".into(),
        ),
        Need::CreditQueues if fabric.switches.iter().any(|s| s.credit_queue.is_none()) => {
            // Nothing else than these three keeps a fabric from having them.
            if fabric.circuits.is_some() {
                let expected = "another protocol, as queues for other racks know no credits";
                (None, "a fabric with circuits".into(), expected.into())
            } else if fabric.switches.iter().any(|switch| switch.pausing.is_some()) {
                (Some("pfc"), "switches that pause".into(), "\"off\"".into())
            } else {
                (Some("credit_queue"), "\"off\"".into(), "a table, or no such key".into())
            }
        }
        _ => return None,
    };
    Some(Lack { key, found, expected })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::compile::paths;
    use crate::read::tree::{Node, Source};
    use tidegate_core::Extent;

    fn chain(switches: u32, more: &str) -> Fabric {
        let text = format!(
            "duration = '1ms'\nfabric = {{ kind = 'parking-lot', switches = {switches} \
             }}\ntransport = {{ protocol = 'swift' }}\n\
             flows = [{{ src = 'h0', dst = 'h1' }}]\nswitch = {{ {more} }}"
        );
        crate::load(&text, "x.toml", &[]).unwrap().fabric
    }

    /// Of racks that circuits join.
    fn racks() -> Fabric {
        let text = "duration = '1ms'\nfabric = { kind = 'reconfigurable', racks = 2 }\n\
                    transport = { protocol = 'swift' }\nflows = [{ src = 'h0', dst = 'h4' }]";
        crate::load(text, "x.toml", &[]).unwrap().fabric
    }

    /// What is said of protocols that want these things, by number from "one" on.
    fn merged<T>(
        requirements: &[FabricRequirements],
        ask: impl FnOnce(&Requirements<'_>, &Table) -> Result<T, Error>,
    ) -> Result<T, String> {
        let text = "duration = '1ms'\nswitch = {}\nfabric = { kind = 'star' }\ntransport = { \
                    protocol = 'swift' }\nflows = [{ src = 'h0', dst = 'h1' }]";
        let document = Node::document(&Source::file("x.toml", text)).unwrap();
        let root = crate::read::check::table(document, crate::compile::scenario::ROOT, "").unwrap();
        let stacks = Stacks::new(root.get("transport"), &[]).unwrap();
        let stack = stacks.usual(root.get::<&Table>("transport").get("protocol")).unwrap();
        let names = ["one", "two", "three"].into_iter();
        let list = requirements.iter().zip(names);
        let list =
            list.map(|(&requirements, name)| Requirement { stack: &stack, name, requirements });
        let requirements = Requirements { stacks: &stacks, list: list.collect() };
        ask(&requirements, root.get("switch")).map_err(|error| error.to_string())
    }

    #[test]
    fn what_protocols_want_is_merged_and_conflicts_name_them() {
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
            let said = "two (transport.protocol) asks for spraying and one (transport.protocol) \
                        does not";
            assert!(message.contains(said), "{message}");
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
        let said = "one (transport.protocol) asks for credit queues of 672B for 5.000% of a link \
                    with bursts of 168B and two (transport.protocol) for credit queues of 840B";
        assert!(message.contains(said), "{message}");

        let message = marked(&[Some(step(1.0)), None, Some(ramp)]).unwrap_err();
        let said = "one (transport.protocol) asks for marking from 1BDP on and three \
                    (transport.protocol) for marking from 1BDP to 4BDP by up to 0.2";
        assert!(message.contains(said), "{message}");
    }

    #[test]
    fn parameters_that_ask_for_marks_in_vain_are_named() {
        let warned = |ecn: &str| {
            let text = format!(
                "duration = '1ms'\nfabric = {{ kind = 'star' }}\nswitch = {{ {ecn} }}\n\
                 transport = {{ protocol = 'dcqcn', params = {{ pmax = 0.5, timer = '1ms' }} }}\n\
                 protocols = {{ dcqcn = {{ params = {{ kmin = '5KB' }} }}, \
                 dctcp = {{ params = {{ g = 0.5 }} }} }}\n\
                 flows = [{{ src = 'h0', dst = 'h1' }}]"
            );
            let mut warnings = crate::load(&text, "x.toml", &[]).unwrap().warnings;
            warnings.retain(|warning| warning.contains("heed"));
            warnings
        };
        let said = "switch.ecn says how switches mark, so they do not heed \
                    protocols.dcqcn.params.kmin, transport.params.pmax";
        assert_eq!(warned("ecn = { kmin = '100KB' }, buffer = '8MB'"), [said]);
        assert_eq!(warned("buffer = '8MB'"), Vec::<String>::new());
    }

    #[test]
    fn every_need_is_checked() {
        let lacks = |fabric: &Fabric, need| {
            lack(fabric, &paths::properties(fabric, None).unwrap(), need).map(|lack| lack.found)
        };
        let good = chain(8, "ecn = { kmin = '1BDP' }");
        for need in [
            Need::Ecn,
            Need::CoreEcn,
            Need::PeakHopDelay,
            Need::HopRecords,
            Need::Spraying,
            Need::SymmetricPaths,
            Need::Lossless,
            Need::Priorities,
        ] {
            assert_eq!(lacks(&good, need), None);
        }
        assert_eq!(lacks(&good, Need::CreditQueues).unwrap(), "\"off\"");
        assert_eq!(lacks(&chain(2, "credit_queue = {}"), Need::CreditQueues), None);
        assert_eq!(lacks(&racks(), Need::CreditQueues).unwrap(), "a fabric with circuits");
        assert_eq!(lacks(&good, Need::Circuits).unwrap(), "a fabric without circuits");
        assert_eq!(lacks(&racks(), Need::Circuits), None);
        assert_eq!(
            lacks(&chain(9, ""), Need::HopRecords).unwrap(),
            "a fabric with 9 switches on a path"
        );
        assert_eq!(lacks(&chain(3, "ecn = 'off'"), Need::Ecn).unwrap(), "no switch that marks");
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
    fn who_is_above_data_is_said_only_where_there_is_an_above() {
        let some = FabricRequirements { classes: 1, ..FabricRequirements::NONE };
        let said = |more: &str| {
            let fabric = chain(2, more);
            merged(&[some, FabricRequirements::NONE], |requirements, _| {
                let mut warnings = Vec::new();
                requirements.classes(&fabric, &mut warnings);
                Ok(warnings.len())
            })
        };
        assert_eq!((said("priorities = 2"), said("priorities = 1")), (Ok(1), Ok(0)));
    }
}
