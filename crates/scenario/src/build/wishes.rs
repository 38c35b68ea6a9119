//! What the running protocols want of the fabric, together. What the scenario says itself wins.

use tidegate_algos::Stack;
use tidegate_core::fabric::{Fabric, Routing};
use tidegate_core::{Equipment, Facts, MAX_HOPS, Marking, Need};

use super::transport::Stacks;
use crate::error::{Error, one_of};
use crate::read::table::{Table, Word};

/// What each protocol in use wants.
#[derive(Debug)]
pub(crate) struct Wishes<'a> {
    stacks: &'a Stacks<'a>,
    list: Vec<Wish<'a>>,
}

/// What one of them wants.
#[derive(Debug)]
struct Wish<'a> {
    stack: &'a Stack,
    name: &'static str,
    equipment: Equipment,
}

impl<'a> Wishes<'a> {
    /// Asks every stack.
    pub(crate) fn of(stacks: &'a Stacks<'a>, facts: &Facts) -> Wishes<'a> {
        let wish = |stack: &'a Stack| Wish {
            stack,
            name: stack.protocol().card().name,
            equipment: stack.equipment(facts),
        };
        Wishes { stacks, list: stacks.iter().map(wish).collect() }
    }

    fn first(&self, wants: impl Fn(&Equipment) -> bool) -> Option<&'static str> {
        self.list.iter().find(|wish| wants(&wish.equipment)).map(|wish| wish.name)
    }

    /// How packets choose among equal paths: as `[switch]` says, or else in the one way that suits
    /// all.
    pub(crate) fn routing(
        &self,
        table: &Table,
        warnings: &mut Vec<String>,
    ) -> Result<Routing, Error> {
        let wanting = |routing| self.first(|equipment| equipment.routing == routing);
        let (spray, symmetric) = (wanting(Routing::Spray), wanting(Routing::SymmetricEcmp));
        if let Some(Word(set)) = table.find("routing") {
            let routing = Routing::ALL.into_iter().find(|routing| routing.name() == set);
            let routing = routing.unwrap_or(Routing::Ecmp);
            if let (Some(name), false) = (spray, routing == Routing::Spray) {
                warnings
                    .push(format!("{name} is meant for spraying, but switch.routing is \"{set}\""));
            }
            if let (Some(name), false) = (symmetric, routing == Routing::SymmetricEcmp) {
                warnings.push(format!(
                    "{name} is meant for symmetric paths, but switch.routing is \"{set}\""
                ));
            }
            return Ok(routing);
        }
        match (spray, self.first(|equipment| equipment.routing != Routing::Spray), symmetric) {
            (Some(spray), Some(other), _) => {
                let expected = format!(
                    "{} to be set, since {spray} asks for spraying and {other} does not",
                    one_of(Routing::ALL.map(Routing::name).into_iter())
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
        let mut asked: Option<(Marking, &str)> = None;
        for Wish { name, equipment, .. } in &self.list {
            match (equipment.ecn, asked) {
                (Some(marking), Some((other, who))) if other != marking => {
                    let expected = format!(
                        "ecn to be set, since {who} asks for {other} and {name} for {marking}"
                    );
                    return Err(table.error("ecn", expected));
                }
                (Some(marking), _) => asked = Some((marking, name)),
                (None, _) => {}
            }
        }
        Ok(asked.map(|(marking, _)| marking))
    }

    /// Says so where some of the running protocols send above the priority of data, and others
    /// have data alone.
    pub(crate) fn classes(&self, fabric: &Fabric, warnings: &mut Vec<String>) {
        let some = self.first(|equipment| equipment.classes > 0);
        let none = self.first(|equipment| equipment.classes == 0);
        if let (Some(some), Some(none)) = (some, none)
            && fabric.switches.iter().all(|switch| switch.priorities > 1)
        {
            warnings.push(format!(
                "{some} sends some packets above the priority of data, {none} sends none: with \
                 switch.priorities = 1 they would be equal"
            ));
        }
    }

    /// Refuses a fabric that lacks what a protocol needs.
    pub(crate) fn provide(
        &self,
        fabric: &Fabric,
        facts: &Facts,
        table: &Table,
    ) -> Result<(), Error> {
        for Wish { stack, name, equipment } in &self.list {
            let lack = |need| Some((need, lack(fabric, facts, need)?));
            let Some((need, lack)) = equipment.needs().find_map(lack) else { continue };
            let expected = format!("{}: {name} needs {}", lack.expected, need.name());
            return Err(match lack.key {
                None => self.stacks.error(stack, lack.found, expected),
                Some(key) => table.error_found(key, lack.found, expected),
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

fn lack(fabric: &Fabric, facts: &Facts, need: Need) -> Option<Lack> {
    let (key, found, expected): (_, String, String) = match need {
        Need::PeakHopDelay | Need::HopRecords
            if fabric.switches.iter().all(|switch| !switch.telemetry) =>
        {
            (Some("telemetry"), "no switch with telemetry".into(), "true on some switch".into())
        }
        Need::HopRecords if facts.hops as usize > MAX_HOPS => {
            let found = format!("a fabric with {} switches on a path", facts.hops);
            (None, found, format!("at most {MAX_HOPS} on every path"))
        }
        Need::Ecn | Need::CoreEcn if fabric.switches.iter().all(|switch| switch.ecn.is_none()) => {
            (Some("ecn"), "no switch that marks".into(), "marking on some switch".into())
        }
        Need::Lossless | Need::CreditQueues | Need::Circuits => (
            None,
            format!("a fabric without {}", need.name()),
            "another protocol, as fabrics do not have it yet".into(),
        ),
        _ => return None,
    };
    Some(Lack { key, found, expected })
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
            lack(fabric, &paths::facts(fabric, None).unwrap(), need).map(|lack| lack.found)
        };
        let good = chain(8, "ecn = { kmin = '1BDP' }");
        for need in [
            Need::Ecn,
            Need::CoreEcn,
            Need::PeakHopDelay,
            Need::HopRecords,
            Need::Spraying,
            Need::SymmetricPaths,
        ] {
            assert_eq!(lacks(&good, need), None);
        }
        for (need, name) in [
            (Need::Lossless, "pauses (PFC)"),
            (Need::CreditQueues, "credit queues"),
            (Need::Circuits, "circuit announcements"),
        ] {
            assert_eq!(lacks(&good, need).unwrap(), format!("a fabric without {name}"));
        }
        assert_eq!(
            lacks(&chain(9, ""), Need::HopRecords).unwrap(),
            "a fabric with 9 switches on a path"
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
