//! The top level of a scenario file.

use serde_json::{Value as Json, json};
use tidegate_algos::{Protocol, Setup, Stack};
use tidegate_core::fabric::{Fabric, Node, Routing};
use tidegate_core::routes::Routes;
use tidegate_core::workload::{Sizes, Traffic, Workload};
use tidegate_core::{FabricProperties, Span, Time};

use super::context::Context;
use super::glob::Glob;
use super::hosts::{self, Hosts};
use super::no_effect::{self, NoEffect};
use super::requirements::Requirements;
use super::transport::{Stacks, json_params};
use super::{
    Labels, RunSettings, collective, credit_queue, degraded, domain, fabric, failure, faults,
    flows, paths, pfc, servers, sizes, switch, telemetry, traffic, transport, trimming,
};
use crate::error::{Error, nearest, one_of};
use crate::inputs::Reader;
use crate::overload;
use crate::plan::{Counted, Output, Plan, QUANTITIES};
use crate::read::keys::{
    Default, INTERVAL, Key, LONGEST, Optional, Required, SEED, SPAN, Shape, key,
};
use crate::read::table::{Or, Table, Word};

/// Limit of switch ports up to which histograms of queues are the default.
const HISTOGRAM_PORTS_MAX: usize = 512;

/// Keys of the file.
pub(crate) const ROOT: &[&[Key]] = &[SECTIONS];

static SECTIONS: &[Key] = &[
    key(
        "name",
        Shape::Text,
        Optional,
        "Name of the run in results. Default: the name of the file.",
    ),
    key("seed", SEED, Default("1"), "Seed of all random numbers."),
    key(
        "duration",
        Shape::Span { min: Span::ns(1), max: LONGEST },
        Required,
        "Simulated time; with until = \"done\", the upper bound.",
    ),
    key(
        "until",
        Shape::Word(&["duration", "done"]),
        Optional,
        "End of the run: duration (default), or done: the next microsecond after warmup at which \
         all senders of jobs, collectives, chains, flows with a size, traces, permutations, \
         all-to-all and single incasts have their acknowledgements. Other traffic does not delay \
         the end. The run ends at duration at the latest.",
    ),
    key(
        "warmup",
        SPAN,
        Default("0us"),
        "Start of the measured window: results leave out what happens before.",
    ),
    key(
        "drain",
        SPAN,
        Default("0ms"),
        "Longest time that the run continues after duration to let messages complete. No new \
         messages are submitted, unlimited flows stop, and only completion times are measured.",
    ),
    key(
        "fabric",
        Shape::Kinds(fabric::COMMON, fabric::KINDS),
        Required,
        "Hosts, switches and links.",
    ),
    key("switch", Shape::Table(switch::KEYS), Default("{}"), "Behaviour of the switches."),
    key(
        "transport",
        Shape::Table(&[transport::KEYS]),
        Required,
        "Protocol that carries the flows.",
    ),
    key(
        "protocols",
        Shape::ByProtocol(&[transport::TUNING]),
        Optional,
        "Presets and parameters by protocol. They apply wherever the protocol is used; protocols \
         that the run does not use are allowed.",
    ),
    key("flows", Shape::Tables(&[flows::KEYS, transport::CHOICE]), Optional, "Explicit flows."),
    key("traffic", Shape::ManyKinds(traffic::COMMON, traffic::KINDS), Optional, "Generated flows."),
    key("hosts", Shape::Table(&[hosts::KEYS]), Default("{}"), "Behaviour of the hosts."),
    key(
        "faults",
        Shape::Table(&[faults::KEYS, failure::KEYS, degraded::KEYS]),
        Optional,
        "Faults that the run injects.",
    ),
    key("output", Shape::Table(&[OUTPUT]), Default("{}"), "Recorded results."),
];

pub(crate) static OUTPUT: &[Key] = &[
    key(
        "histograms",
        Shape::Flag,
        Optional,
        "Record percentiles of the queue at every port. Default: true in small fabrics.",
    ),
    key(
        "timeseries",
        Shape::Or(&["off"], &INTERVAL),
        Default("off"),
        "Interval at which flows and queues are sampled.",
    ),
    key(
        "quantities",
        Shape::Names,
        Optional,
        "Recorded quantities. Of flows: delivered_bytes, goodput_gbps and window_bytes. Of ports: \
         queue_bytes, mean_queue_bytes (over the interval), sent_gbps (on the wire) and paused_us. \
         Default: all except mean_queue_bytes and sent_gbps.",
    ),
    key(
        "messages",
        Shape::Word(&["submitted", "completed"]),
        Optional,
        "Messages that completion times and slowdowns include: those submitted from \
         warm-up on, the unfinished ones counted as such (submitted, unless set), or those that \
         complete between warm-up and duration, whenever they were submitted (completed).",
    ),
    key(
        "ports",
        Shape::Globs,
        Optional,
        "Ports whose time series are recorded, by name or wildcard: \"tor0>h*\". Default: all.",
    ),
];

/// Returns the recorded quantities.
fn quantities(output: &Table) -> Result<Vec<&'static str>, Error> {
    let Some(names) = output.find::<&[String]>("quantities") else {
        return Ok(QUANTITIES
            .iter()
            .filter(|(_, is_default)| *is_default)
            .map(|(name, _)| *name)
            .collect());
    };
    let known = || QUANTITIES.iter().map(|(name, _)| *name);
    match names.iter().find(|name| !known().any(|known| known == *name)) {
        Some(name) => Err(output
            .error_found("quantities", format!("{name:?}"), one_of(known()))
            .suggest(nearest(name, known()))),
        None => Ok(known().filter(|known| names.iter().any(|name| name == known)).collect()),
    }
}

/// Returns the directions of links whose time series are recorded; `None` means all.
fn ports(output: &Table, fabric: &Fabric) -> Result<Option<Vec<u32>>, Error> {
    let Some(patterns) = output.find::<&[String]>("ports") else { return Ok(None) };
    let name = |node| match node {
        Node::Host(number) => fabric.hosts[number as usize].as_str(),
        Node::Switch(number) => fabric.switches[number as usize].name.as_str(),
    };
    let names = fabric.links.iter().flat_map(|link| {
        let (a, b) = (name(link.a), name(link.b));
        [format!("{a}>{b}"), format!("{b}>{a}")]
    });
    let names: Vec<String> = names.collect();
    let mut numbers = Vec::new();
    for pattern in patterns {
        let glob = Glob::new(pattern);
        let before = numbers.len();
        numbers.extend((0..).zip(&names).filter(|(_, name)| glob.matches(name)).map(|(i, _)| i));
        if numbers.len() == before {
            let found = format!("{pattern:?}, which matches no port");
            let example = names.first().map_or("", String::as_str);
            let expected = glob.expected(format!("the name of a port, such as {example:?}"));
            return Err(output
                .error_found("ports", found, expected)
                .suggest(nearest(pattern, names.iter().map(String::as_str))));
        }
        if let Some(port) = glob.beyond(&names) {
            let found = format!("{pattern:?}, but there is no port {port:?}");
            return Err(output.error_found("ports", found, "ranges within the fabric"));
        }
    }
    numbers.sort_unstable();
    numbers.dedup();
    Ok(Some(numbers))
}

/// Returns the number of switch ports.
fn switch_ports(fabric: &Fabric) -> usize {
    let ends = fabric.links.iter().flat_map(|link| [link.a, link.b]);
    ends.filter(|end| matches!(end, Node::Switch(_))).count()
}

/// Builds the plan of a checked file. `files` reads the files that it names; `stem` is its name
/// without extension.
pub(crate) fn plan(root: &Table, files: Reader, stem: &str) -> Result<Plan, Error> {
    let (duration, warmup): (Time, Time) = (root.get("duration"), root.get("warmup"));
    if warmup >= duration {
        // If an option changed the duration, the message blames the option.
        return Err(match root.is_changed("duration") {
            true => root.error("duration", format!("a time after warmup, which is {warmup}")),
            false => root.error("warmup", format!("a time before duration, which is {duration}")),
        });
    }
    let until_done = matches!(root.find("until"), Some(Word("done")));
    let run = RunSettings { duration, until_done, seed: root.get("seed") };
    let fabric_table: &Table = root.get("fabric");
    let switch_table: &Table = root.get("switch");
    let transport_table: &Table = root.get("transport");
    let mtu = fabric_table.get::<u64>("mtu") as u32;

    let mut configured = switch::configure(switch_table, fabric::topology(fabric_table)?, mtu)?;
    let set_bdp = transport_table.find::<u64>("bdp").map(|bytes| bytes as f64);
    let mut stacks = Stacks::new(transport_table, root.find("protocols").unwrap_or(&[]))?;
    let mut labels = Labels::new();
    let mut warnings = Vec::new();
    configured.fabric.servers = servers::servers(root.get("hosts"), &configured.fabric)?;
    let workload = {
        let hosts = Hosts::new(&configured.fabric.hosts);
        let context = Context { files: &files, fabric: &configured.fabric, hosts: &hosts, run };
        let flows = flows::flows(root.tables("flows"), &hosts, &mut stacks, &mut labels, run)?;
        let mut traffic: Vec<Traffic> = Vec::new();
        for table in root.tables("traffic") {
            let known = traffic::Known { stacks: &mut stacks, labels: &mut labels };
            let block = traffic::traffic(table, &context, known, &traffic, &mut warnings)?;
            traffic.push(block);
        }
        Workload { flows, traffic }
    };
    servers::check_within(root, &configured.fabric, &workload)?;
    // The load of generated traffic refers to intact links.
    degraded::degrade(root.find("faults"), &mut configured.fabric, run)?;
    let faults = faults::faults(
        root.find("faults"),
        &configured.fabric,
        &Hosts::new(&configured.fabric.hosts),
        run,
        &mut warnings,
    )?;
    if workload.flows.is_empty() && workload.traffic.is_empty() {
        return Err(root.error_found(
            "flows",
            "no flows and no traffic",
            "at least one [[flows]] or [[traffic]] table",
        ));
    }

    if until_done && workload.messages(configured.fabric.hosts.len() as u32) == 0 {
        return Err(root.error_found(
            "until",
            "\"done\" without finite traffic",
            "\"duration\", or finite traffic: a job, a collective, a chain, flows with a size, a \
             trace, a permutation, all-to-all traffic or a single incast",
        ));
    }

    collective::fit(root.tables("traffic"), &workload.traffic)?;
    let stack = |number| stacks.stack(number);
    let blocks = root.tables("traffic");
    overload::warn(blocks, &workload.traffic, &configured.fabric, stack, &mut warnings);

    stacks.check_sizes(configured.fabric.mtu)?;
    let sizes = stacks.largest_sizes();
    let routes = Routes::of_sizes(&configured.fabric, sizes).map_err(|why| {
        let allowed = "a fabric of regular tiers, or one with fewer switches";
        fabric_table.error_found("kind", why, allowed)
    })?;
    let properties = FabricProperties::of(&configured.fabric, routes.reach(), set_bdp);
    let requirements = Requirements::of(&stacks, &properties);
    let routing = requirements.routing(switch_table, || routes.have_choices(), &mut warnings)?;
    switch::check_hash_seeds(switch_table, routing)?;
    let is_left = configured.leaves_marking();
    let marking = if is_left { requirements.marking(switch_table)? } else { None };
    configured.mark(switch_table, marking, properties.port_bdp_bytes())?;
    let switch::ConfiguredSwitches { mut fabric, pfc: pfc_settings, .. } = configured;
    requirements.stamping(&mut fabric);
    let largest = requirements.largest_packet(&properties);
    pfc::resolve(
        switch_table,
        &mut fabric,
        &pfc_settings,
        requirements.lossless(),
        largest,
        &mut warnings,
    )?;
    credit_queue::resolve(switch_table, &mut fabric, requirements.credit_queue(switch_table)?)?;
    let required = requirements.trimming(switch_table)?;
    trimming::resolve(switch_table, &mut fabric, required, properties.port_bdp_bytes(), largest)?;
    credit_queue::check_room(switch_table, requirements.largest_credit())?;
    faults::check_storms(root.find("faults"), &faults, &fabric)?;
    let convergence = faults::convergence(root.find("faults"), &faults, &mut warnings);
    requirements.classes(&fabric, &mut warnings);
    requirements.queues_of_racks(&fabric, &mut warnings);
    requirements.paths(&fabric, routing, || routes.have_choices(), &mut warnings);
    requirements.warn_of_reordering(&fabric, routing, || routes.have_choices(), &mut warnings);
    requirements.check_needs(&fabric, &properties, switch_table)?;
    if set_bdp.is_none() {
        domain::warn_of_unequal_paths(routes.reach(), &mut warnings);
    }
    domain::warn_of_slow_marking_ports(&stacks, &properties, &fabric, &mut warnings);
    let shortest = paths::shortest(&fabric, &routes, &workload, &properties);
    domain::outside(&stacks, &workload, &properties, shortest, &mut warnings);
    let shortest = shortest.unwrap_or_else(|| properties.path());
    telemetry::coarse(&stacks, &properties, &fabric, shortest, &mut warnings);
    let stack_time = hosts::stack_time(root.get("hosts"));
    hosts::uncovered(stack_time, properties.base_rtt, set_bdp.is_some(), &stacks, &mut warnings);
    let mut no_effect = NoEffect::default();
    let ineffective = |stack: &Stack| {
        let switches = (!is_left, largest);
        no_effect::of_stack(stack, &properties, &fabric, switch_table, switches)
    };
    no_effect.parameters(&stacks, ineffective);
    let base = stacks.base(transport_table.get("protocol"))?;
    let is_used = stacks.iter().any(|stack| stack.protocol() == base.protocol());
    let ineffective = if is_used { ineffective(&base) } else { Vec::new() };
    no_effect.unused(&base, &stacks);
    no_effect.weights(root, &labels, &workload, &stacks);
    no_effect.keys(root, run);
    warnings.extend(no_effect.warnings());
    let output: &Table = root.get("output");
    let (quantities, ports) = (quantities(output)?, ports(output, &fabric)?);
    let name = root.find::<&str>("name").unwrap_or(stem).to_string();
    let (labels, weights) = labels.into_lists();
    let resolved = resolved(root, &name, &fabric, routing, &stacks, &workload)?;
    let mut stacks = stacks.into_list();
    for (number, stack) in stacks.iter_mut().enumerate() {
        let sizes = workload.size_mix(number as u16, fabric.hosts.len() as u32, duration);
        let warning = stack.fit(&properties, &sizes);
        let name = stack.protocol().info().name;
        warnings.extend(warning.map(|warning| format!("{name}: {warning}")));
    }
    let histograms = output.find("histograms");
    Ok(Plan {
        name,
        setup: Setup {
            histograms: histograms.unwrap_or_else(|| switch_ports(&fabric) <= HISTOGRAM_PORTS_MAX),
            fabric,
            routing,
            stacks,
            connections: transport::connections(transport_table),
            bdp_bytes: set_bdp,
            workload,
            seed: run.seed,
            duration,
            until_done,
            warmup,
            drain: root.get("drain"),
            weights,
            faults,
            convergence,
            stack_time,
        },
        labels,
        output: Output {
            histograms,
            timeseries: match output.get("timeseries") {
                Or::Word(_) => None,
                Or::Value(interval) => Some(interval),
            },
            quantities,
            ports,
            messages: match output.find::<Word>("messages") {
                Some(Word("completed")) => Counted::Completed,
                _ => Counted::Submitted,
            },
            carried_by: None,
        },
        warnings,
        ineffective,
        resolved,
        files: files.into_files(),
    })
}

/// The complete file: the values that the scenario sets, all defaults, the switch settings that
/// protocols require, and every parameter.
fn resolved(
    root: &Table,
    name: &str,
    fabric: &Fabric,
    routing: Routing,
    stacks: &Stacks<'_>,
    workload: &Workload,
) -> Result<Json, Error> {
    let mut json = root.json();
    json["name"] = json!(name);
    json["switch"]["routing"] = json!(routing.name());
    if json["switch"].get("ecn").is_none() {
        // A protocol requires this marking, so it is the same at all switches whose overrides set
        // none.
        let overridden = |at: usize| {
            let name = &fabric.switches[at].name;
            root.get::<&Table>("switch")
                .tables("override")
                .iter()
                .any(|change| switch::touches_ecn(change, name))
        };
        let plain = (0..fabric.switches.len()).find(|at| !overridden(*at));
        json["switch"]["ecn"] =
            plain.and_then(|at| fabric.switches[at].ecn).map_or(json!("off"), switch::json_ecn);
    }
    if json["switch"].get("pfc").is_none()
        && let Some(pausing) = fabric.switches.iter().find_map(|switch| switch.pausing)
        && root.get::<&Table>("switch").tables("override").is_empty()
    {
        // A running protocol requires PFC.
        json["switch"]["pfc"] = pfc::json(pausing);
    }
    if let Some(queue) = fabric.switches.iter().find_map(|switch| switch.credit_queue) {
        json["switch"]["credit_queue"] = credit_queue::json(queue);
    }
    if let Some(trimming) = fabric.switches.iter().find_map(|switch| switch.trimming) {
        json["switch"]["trimming"] = trimming::json(trimming);
    }
    let complete = |json: &mut Json, stack: &tidegate_algos::Stack| {
        json["protocol"] = json!(stack.protocol().info().name);
        json["params"] = json_params(stack);
        json.as_object_mut().expect("a table").remove("preset");
    };
    let transport: &Table = root.get("transport");
    complete(&mut json["transport"], &stacks.base(transport.get("protocol"))?);
    if let Some(tuned) = root.find::<&[(Protocol, Table)]>("protocols") {
        for (protocol, _) in tuned {
            let json = &mut json["protocols"][protocol.info().name];
            json["params"] = json_params(&stacks.tuned(*protocol)?);
            json.as_object_mut().expect("a table").remove("preset");
        }
    }
    let mut flow = 0;
    for (i, table) in root.tables("flows").iter().enumerate() {
        if ["protocol", "preset", "params"].iter().any(|key| table.item(key).is_some()) {
            complete(&mut json["flows"][i], stacks.stack(workload.flows[flow].stack));
        }
        flow += (table.get::<u64>("count") * flows::pairs(table)) as usize;
    }
    for (i, traffic) in workload.traffic.iter().enumerate() {
        let table = &root.tables("traffic")[i];
        if ["protocol", "preset", "params"].iter().any(|key| table.item(key).is_some()) {
            complete(&mut json["traffic"][i], stacks.stack(traffic.stack));
        }
        json["traffic"][i]["stop"] = json!(traffic.stop.to_string());
        if let Sizes::Drawn(distribution) = &traffic.sizes
            && table.item("sizes").is_some()
        {
            json["traffic"][i]["sampling"] = json!(sizes::sampling_name(distribution.sampling));
        }
    }
    Ok(json)
}
