//! A warning of compared runs whose slowdowns have different denominators: the ideal completion
//! time is that of one path, or that of all paths together.

use std::collections::{BTreeMap, BTreeSet};

use tidegate_core::Message;
use tidegate_core::routes::Routes;
use tidegate_core::workload::Sizes;
use tidegate_scenario::Plan;

/// A warning if the ideal completion times of large messages differ between the plans, because some
/// protocols use one path for a message and others all.
pub fn ideal_paths_warning<'a>(plans: impl Iterator<Item = &'a Plan> + Clone) -> Option<String> {
    // The routings under which a protocol uses one path, and all paths.
    let mut uses: [BTreeMap<&str, BTreeSet<&str>>; 2] = Default::default();
    for plan in plans.clone() {
        for stack in stacks_of_messages(plan) {
            let of = &mut uses[usize::from(plan.takes_many_paths(stack))];
            of.entry(plan.protocol_name(stack)).or_default().insert(plan.routing.name());
        }
    }
    if uses.iter().any(BTreeMap::is_empty) {
        return None;
    }
    // Routes are computed once for consecutive plans with the same fabric.
    let mut last = None;
    let mut fabrics = plans.filter(|plan| last.replace(&plan.fabric) != Some(&plan.fabric));
    if !fabrics.any(gains_from_paths) {
        return None;
    }
    let [one, all] = [(0, 1), (1, 0)].map(|(own, other)| {
        let name = |(name, routings): (&&str, &BTreeSet<&str>)| {
            let routings = routings.iter().copied().collect::<Vec<_>>().join(", ");
            if uses[other].contains_key(name) {
                format!("{name} ({routings})")
            } else {
                (*name).to_owned()
            }
        };
        uses[own].iter().map(name).collect::<Vec<_>>().join(", ")
    });
    Some(format!(
        "slowdowns have different denominators: the ideal completion time of one path for {one}, \
         and the shorter one of all paths together for {all}; compare completion times instead"
    ))
}

/// Stacks that carry messages of limited size.
fn stacks_of_messages(plan: &Plan) -> BTreeSet<u16> {
    let flows = plan.workload.flows.iter().filter(|flow| flow.bytes != Message::UNLIMITED);
    let blocks = plan.workload.traffic.iter();
    let blocks = blocks.filter(|block| block.sizes != Sizes::Fixed(Message::UNLIMITED));
    flows.map(|flow| flow.stack).chain(blocks.map(|block| block.stack)).collect()
}

/// Whether all paths together between some hosts are faster than one of them. The first host is one
/// end of the examined pairs.
fn gains_from_paths(plan: &Plan) -> bool {
    let fabric = &plan.fabric;
    let Ok(routes) = Routes::of_sizes(fabric, plan.largest_sizes()) else { return false };
    let rate = |port: &u32| fabric.rate(*port).as_bps();
    let mut kinds = BTreeSet::new();
    (1..fabric.hosts.len() as u32).any(|host| {
        let is_new = routes.kind_of_pair(0, host).is_some_and(|kind| kinds.insert(kind));
        is_new && {
            let ends = [routes.uplink(0), routes.uplink(host) ^ 1].map(|port| rate(&port));
            let layers = routes.layers(0, host);
            let one = layers.iter().filter_map(|layer| layer.iter().map(rate).max());
            let all = layers.iter().map(|layer| layer.iter().map(rate).sum());
            one.chain(ends).min() < all.chain(ends).min()
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plan(protocol: &str, routing: &str, gbps: u32) -> Plan {
        let text = format!(
            "duration = '1ms'\ntransport = {{ protocol = '{protocol}' }}\nswitch = {{ routing = \
             '{routing}' }}\ntraffic = [{{ kind = 'permutation', sizes = '1MB' }}]\nfabric = {{ \
             kind = 'leaf-spine', racks = 2, hosts_per_rack = 2, spines = 2, fabric_link = {{ rate \
             = '{gbps}Gbps', delay = '1us' }} }}"
        );
        tidegate_scenario::load(&text, "x.toml", &[]).unwrap()
    }

    #[test]
    fn denominators_that_differ_are_named() {
        let names = crate::protocols();
        let [a, b] = [names[0].name, names[1].name];
        let of = |plans: &[Plan]| ideal_paths_warning(plans.iter());
        let (one, all) = (plan(a, "ecmp", 50), plan(b, "spray", 50));
        let found = of(&[one.clone(), all.clone()]).unwrap();
        assert!(found.contains(&format!("of one path for {a}, and")), "{found}");
        assert!(found.contains(&format!("all paths together for {b};")), "{found}");
        let found = of(&[one.clone(), plan(a, "spray", 50)]).unwrap();
        let both = [format!("one path for {a} (ecmp)"), format!("together for {a} (spray)")];
        assert!(both.iter().all(|text| found.contains(text)), "{found}");
        // The same denominator, or hosts that one path serves at full rate.
        assert_eq!(of(&[one, plan(b, "ecmp", 50)]), None);
        assert_eq!(of(&[plan(a, "ecmp", 100), plan(b, "spray", 100)]), None);
    }
}
