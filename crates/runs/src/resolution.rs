//! Text form of resolved scenarios, to be shown before they run.

use std::collections::BTreeSet;

use serde_json::Value as Json;
use tidegate_algos::Stack;
use tidegate_core::routes::Routes;
use tidegate_core::{FabricProperties, Message, Rate, Time};
use tidegate_scenario::Plan;

/// Longest list that is shown in full; of a longer one, only the length.
const ITEMS: usize = 4;

/// Lines that describe the plans. A line that is equal for all appears once; otherwise it is
/// prefixed with the names of its plans.
pub(crate) fn resolution(plans: &[(&str, &Plan)]) -> Vec<String> {
    let kinds: [fn(&Plan) -> String; 7] = [times, fabric, paths, switches, stacks, sharing, demand];
    let of_kind = |of: fn(&Plan) -> String| {
        let mut all: Vec<(String, Vec<&str>)> = Vec::new();
        for (name, plan) in plans {
            let text = of(plan);
            match all.iter_mut().find(|(other, _)| *other == text) {
                Some((_, names)) => names.push(name),
                None => all.push((text, vec![name])),
            }
        }
        let differ = all.len() > 1;
        let line = move |(text, names): (String, Vec<&str>)| {
            if differ { format!("{}: {text}", names.join(", ")) } else { text }
        };
        all.into_iter().map(line)
    };
    kinds.into_iter().flat_map(of_kind).collect()
}

fn times(plan: &Plan) -> String {
    let times =
        ["duration", "warmup", "drain"].map(|key| format!("{key} {}", text(&plan.resolved[key])));
    let until = if plan.until_done { ", until done" } else { "" };
    format!("{}: seed {}, {}{until}", plan.name, plan.seed, times.join(", "))
}

fn fabric(plan: &Plan) -> String {
    let fabric = &plan.fabric;
    let switches = fabric.network_switches().len();
    // The link between a NIC and its host is internal and does not count.
    let nics = fabric.switches.len() - switches;
    let mut parts = vec![
        counted(fabric.hosts.len(), "host", "hosts"),
        counted(switches, "switch", "switches"),
        counted(fabric.links.len() - nics, "link", "links"),
    ];
    if nics > 0 {
        let ports = counted(fabric.ports_per_host() as usize, "port", "ports");
        parts.push(format!("{} of {ports}", counted(nics, "NIC", "NICs")));
    }
    format!("fabric: {}; {}", parts.join(", "), pairs(&plan.resolved["fabric"]))
}

/// The largest base RTT, and the bandwidth-delay products of each rate of hosts and of a switch
/// port, to which sizes in BDP refer.
fn paths(plan: &Plan) -> String {
    let Ok(routes) = Routes::of_sizes(&plan.fabric, plan.largest_sizes()) else {
        return "paths: some hosts have none".into();
    };
    let base_rtt = routes.reach().base_rtt;
    let hosts = 0..plan.fabric.hosts.len() as u32;
    let rates: BTreeSet<Rate> = hosts.map(|host| routes.edge(routes.uplink(host)).rate).collect();
    let of_rate = |rate: Rate| format!("{:.1} KB at {rate}", rate.bytes_in(base_rtt) as f64 / 1e3);
    let of_hosts = match plan.bdp_bytes {
        Some(bytes) => format!("{:.1} KB, as set", bytes / 1e3),
        None => rates.into_iter().map(of_rate).collect::<Vec<_>>().join(", "),
    };
    let properties = FabricProperties::of(&plan.fabric, routes.reach(), plan.bdp_bytes);
    let of_port = properties.port_bdp_bytes() / 1e3;
    format!(
        "paths: base RTT {:.2} us at most; BDP of hosts {of_hosts}, of switch ports \
         {of_port:.1} KB",
        base_rtt.as_us_f64()
    )
}

fn switches(plan: &Plan) -> String {
    format!("switch: {}", pairs(&plan.resolved["switch"]))
}

fn stacks(plan: &Plan) -> String {
    plan.stacks.iter().map(stack).collect::<Vec<_>>().join("; ")
}

/// A protocol, and its parameters that differ from the defaults.
fn stack(stack: &Stack) -> String {
    let defaults = stack.protocol().table();
    let default = |name: &str| defaults.iter().find(|info| info.name == name).map(|of| of.default);
    let changed = stack.values().into_iter().filter_map(|(name, value)| {
        let default = default(name).filter(|default| *default != value)?;
        Some(format!("{name} = {value} (default {default})"))
    });
    let parameters: Vec<String> = changed.collect();
    let name = stack.protocol().info().name;
    match parameters.is_empty() {
        true => format!("{name}: all parameters at their defaults"),
        false => format!("{name}: {}", parameters.join(", ")),
    }
}

fn sharing(plan: &Plan) -> String {
    format!("connections: {}", text(&plan.resolved["transport"]["connections"]))
}

/// The offered traffic: an estimate of its size.
fn demand(plan: &Plan) -> String {
    let mut bytes = 0.0;
    let mut without_rate = 0;
    for block in &plan.workload.traffic {
        let end = block.stop.min(plan.duration);
        match tidegate_scenario::configured_bps(block) {
            Some(bps) => bytes += bps / 8e12 * end.since(block.start.min(end)).as_ps() as f64,
            None => without_rate += 1,
        }
    }
    let flows = &plan.workload.flows;
    let endless = flows.iter().filter(|flow| flow.bytes == Message::UNLIMITED).count();
    let sized = flows.iter().filter(|flow| flow.bytes != Message::UNLIMITED);
    bytes += sized.map(|flow| flow.bytes as f64).sum::<f64>();
    let ms = plan.duration.since(Time::ZERO).as_us_f64() / 1e3;
    let packets = bytes / f64::from(plan.fabric.mtu);
    let mut demand = format!(
        "to send: {}, {endless} of them unlimited; with generated messages about {:.3} MB \
         in {ms} ms, {packets:.0} full packets",
        counted(flows.len(), "flow", "flows"),
        bytes / 1e6,
    );
    if without_rate > 0 {
        let blocks = counted(without_rate, "traffic block", "traffic blocks");
        demand.push_str(&format!("; plus {blocks} without a rate"));
    }
    demand
}

fn counted(count: usize, one: &str, many: &str) -> String {
    format!("{count} {}", if count == 1 { one } else { many })
}

/// Keys and values of a table.
fn pairs(table: &Json) -> String {
    let entries = table.as_object().into_iter().flatten();
    let pairs: Vec<String> = entries.map(|(key, value)| format!("{key} {}", text(value))).collect();
    pairs.join(", ")
}

fn text(value: &Json) -> String {
    match value {
        Json::String(text) => text.clone(),
        Json::Object(_) => format!("{{ {} }}", pairs(value)),
        Json::Array(items) if items.len() > ITEMS => format!("[{} items]", items.len()),
        Json::Array(items) => {
            format!("[{}]", items.iter().map(text).collect::<Vec<_>>().join(", "))
        }
        other => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tidegate_scenario::{Override, load};

    const TWO_RACKS: &str = "name = 'two racks'\nduration = '1ms'\n\
        fabric = { kind = 'leaf-spine', racks = 2, hosts_per_rack = 2, mtu = '1000B' }\n\
        transport = { protocol = 'swift', params = { beta = 0.5 } }\n\
        flows = [{ src = 'h0', dst = 'h3' }, { src = 'h0', dst = 'h3', size = '1MB' }]\n\
        [[traffic]]\nkind = 'poisson'\nsizes = '20KB'\nload = 0.1\n\
        [[traffic]]\nkind = 'permutation'\nsizes = '20KB'\n";

    #[test]
    fn defaults_are_shown() {
        let plan = load(TWO_RACKS, "x.toml", &[]).unwrap();
        let lines = resolution(&[("", &plan)]);
        let beta = "swift: beta = 0.5 (default 0.8)";
        for (line, expected) in [
            (0, "two racks: seed 1, duration 1ms"),
            (1, "fabric: 4 hosts, 6 switches, 12 links; "),
            (1, "mtu 1000B"),
            // 6 us on the links; 1,080 B and 84 B take 216 and 17 ns at 100 and 400 Gbit/s.
            (
                2,
                "paths: base RTT 6.23 us at most; BDP of hosts 77.9 KB at 100Gbps, of switch ports",
            ),
            (2, " 77.9 KB"),
            (3, "routing ecmp"),
            (4, beta),
            (5, "connections: per-message"),
            // A tenth of four links of 100 Gbit/s: 5 MB, and the flow of one.
            (6, "to send: 2 flows, 1 of them unlimited; with generated messages about 6.000 MB"),
            (6, " in 1 ms, 6000 full packets; plus 1 traffic block without a rate"),
        ] {
            assert!(lines[line].contains(expected), "{expected}: {lines:#?}");
        }
        assert_eq!(lines.len(), 7);
    }

    #[test]
    fn nics_are_no_switches() {
        let text = TWO_RACKS.replace("racks = 2", "planes = 4, racks = 2");
        let plan = load(&text, "x.toml", &[]).unwrap();
        let line = &resolution(&[("", &plan)])[1];
        let counts = "fabric: 4 hosts, 24 switches, 48 links, 4 NICs of 4 ports; ";
        assert!(line.starts_with(counts), "{line}");
        // Four ports of a quarter of the rate that the host has.
        let line = &resolution(&[("", &plan)])[2];
        assert!(
            line.ends_with("BDP of hosts 314.0 KB at 400Gbps, of switch ports 78.5 KB"),
            "{line}"
        );
        let set = text.replace("protocol = 'swift'", "bdp = '40KB', protocol = 'swift'");
        let line = &resolution(&[("", &load(&set, "x.toml", &[]).unwrap())])[2];
        assert!(line.ends_with("BDP of hosts 40.0 KB, as set, of switch ports 10.0 KB"), "{line}");
    }

    #[test]
    fn equal_lines_appear_once() {
        let under = |name| load(TWO_RACKS, "x", &[Override::protocol("x", name)]).unwrap();
        let (swift, dctcp) = (under("swift"), under("dctcp"));
        let lines = resolution(&[("swift", &swift), ("dctcp", &dctcp)]);
        assert_eq!(lines.iter().filter(|line| line.contains("fabric: ")).count(), 1);
        let of = |start: &str| lines.iter().filter(|line| line.starts_with(start)).count();
        assert_eq!((of("swift: "), of("dctcp: ")), (2, 2), "{lines:#?}");
    }

    #[test]
    fn parameters_have_their_own_defaults() {
        let mut nscc = tidegate_algos::Protocol::named("nscc").unwrap().stack();
        // Parameters that came later are listed only if they are set.
        nscc.set("paths", tidegate_core::params::Value::Integer(256)).unwrap();
        assert_eq!(stack(&nscc), "nscc: paths = 256 (default 64)");
    }
}
