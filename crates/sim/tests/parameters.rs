//! Parameters that a protocol declares to be without effect have none.

use std::panic::{AssertUnwindSafe, catch_unwind};

use tidegate_algos::{Protocol, Stack};
use tidegate_core::fabric::Buffer;
use tidegate_core::params::{Kind, Value};
use tidegate_core::routes::Routes;
use tidegate_core::{FabricProperties, Time};
use tidegate_sim::Setup;

use crate::common::busy::busy;
use crate::common::run;

/// A busy fabric that satisfies the requirements of a protocol, with small buffers and some loss.
fn lossy(stack: Stack) -> Setup {
    let mut setup = busy(stack, 1);
    let reach = Routes::new(&setup.fabric).expect("a valid fabric").reach();
    let properties = FabricProperties::of(&setup.fabric, reach, None);
    let requirements = setup.stacks[0].requirements(&properties);
    let bdp_bytes = properties.port_bdp_bytes();
    for switch in &mut setup.fabric.switches {
        switch.buffer = Buffer::Shared { bytes: 250_000, alpha: 1.0 };
        switch.ecn = requirements.ecn.map(|marking| marking.resolved(bdp_bytes));
        switch.credit_queue = requirements.credit_queue;
        switch.trimming = requirements.trimming.map(|rule| rule.resolved(bdp_bytes));
    }
    setup.routing = requirements.routing;
    setup.duration = Time::us(200);
    setup.faults.loss = 0.001;
    setup
}

/// Values of a parameter: its bounds, or all choices.
fn values(protocol: Protocol, name: &str) -> Vec<Value> {
    let table = protocol.table();
    let info = table.iter().find(|info| info.name == name).expect("a parameter");
    match info.kind {
        Kind::Choice(names) => names.iter().map(|name| Value::Choice(name)).collect(),
        Kind::Flag => vec![Value::Flag(false), Value::Flag(true)],
        _ => info.range.map_or(Vec::new(), |range| vec![range.min, range.max]),
    }
}

/// Stacks that differ in one parameter, without those whose parameters contradict each other.
fn varied(stack: &Stack, name: &str) -> Vec<Stack> {
    let change = |value: Value| {
        let mut other = stack.clone();
        other.set(name, value).ok()?;
        other.conflict().is_none().then_some(other)
    };
    values(stack.protocol(), name).into_iter().filter_map(change).collect()
}

/// Under each value of a parameter that violates a condition, no value of the dependent parameter
/// changes a run. Parameters that several protocols of a family declare alike are tested under one
/// of them.
#[test]
fn parameters_without_effect_change_no_run() {
    let digest = |stack: &Stack| run(lossy(stack.clone())).1.digest;
    let mut known = Vec::new();
    for &protocol in Protocol::ALL {
        for info in protocol.table() {
            for needs in &info.needs {
                let of = (info.name, protocol.family(), format!("{:?}", info.default));
                if known.contains(&of) {
                    continue;
                }
                known.push(of);
                let fails = |stack: &&Stack| {
                    stack
                        .without_effect()
                        .iter()
                        .any(|(name, why)| *name == info.name && why == needs)
                };
                let base = protocol.stack();
                let mut bases = varied(&base, needs.parameter);
                bases.insert(0, base);
                let at = format!("{}: {} without {needs}", protocol.info().name, info.name);
                let bases: Vec<&Stack> = bases.iter().filter(fails).collect();
                let mut compared = 0;
                for base in bases {
                    // Some extreme values are invalid in this fabric.
                    let Ok(plain) = catch_unwind(AssertUnwindSafe(|| digest(base))) else {
                        continue;
                    };
                    compared += 1;
                    for other in varied(base, info.name) {
                        let found = catch_unwind(AssertUnwindSafe(|| digest(&other)));
                        assert_eq!(found.ok(), Some(plain), "{at}: {:?}", other.values());
                    }
                }
                assert!(compared > 0, "{at}: never");
            }
        }
    }
    assert!(known.len() > 30, "{} conditions", known.len());
}
