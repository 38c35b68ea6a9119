//! `[transport]` and `[protocols.NAME]`: protocols of a run and their parameters.

use serde_json::{Value as Json, json};
use tidegate_algos::{Protocol, Stack};
use tidegate_core::params::{Bounds, Info, Kind, SetError, Value};
use tidegate_core::{ConnectionPolicy, Extent, PacketSizes, Rate, Span};

use crate::error::{Error, nearest, one_of};
use crate::presets;
use crate::read::check;
use crate::read::keys::{Default, Key, Optional, Required, Shape, key};
use crate::read::table::{Datum, Or, Table, join};
use crate::read::tree::Entries;

/// Transport keys of a flow or a block of traffic.
pub(crate) static CHOICE: &[Key] = &[
    key(
        "protocol",
        Shape::Protocol,
        Optional,
        "Protocol of these flows. Default: transport.protocol.",
    ),
    key(
        "preset",
        Shape::Text,
        Optional,
        "Named set of parameters of the protocol. \"paper\" is the protocol's defaults.",
    ),
    key(
        "params",
        Shape::Params,
        Optional,
        "Parameters that override the preset, or the values that the protocol has elsewhere in the \
         scenario.",
    ),
];

/// Keys of `[transport]`.
pub(crate) static KEYS: &[Key] = &[
    key("protocol", Shape::Protocol, Required, "Protocol of all flows that do not name one."),
    key(
        "preset",
        Shape::Text,
        Optional,
        "Named set of parameters of the protocol. \"paper\" is the protocol's defaults.",
    ),
    key("params", Shape::Params, Optional, "Parameters that override the preset or the defaults."),
    key(
        "connections",
        Shape::Or(
            &["per-message", "per-pair", "shortest-first"],
            &Shape::Count { min: 1, max: 65_535 },
        ),
        Default("per-message"),
        "How messages share connections: one connection per message, one per ordered pair of \
         hosts, or a pool of this many per ordered pair. A host schedules its connections \
         round-robin by packet. \"shortest-first\": one connection per message, and the message \
         with the fewest remaining bytes sends first.",
    ),
    key(
        "bdp",
        Shape::Bytes { min: 64, max: 1_000_000_000_000 },
        Optional,
        "Bandwidth-delay product (BDP) that relative sizes refer to. Protocols whose law uses a \
         base RTT derive it from this value: BDP divided by the host's rate. Default: each host's \
         rate times the largest base RTT.",
    ),
];

/// Keys of `[protocols.NAME]`.
pub(crate) static TUNING: &[Key] = &[
    key(
        "preset",
        Shape::Text,
        Optional,
        "Named set of parameters of the protocol. \"paper\" is the protocol's defaults.",
    ),
    key("params", Shape::Params, Optional, "Parameters that override the preset or the defaults."),
];

/// Returns the policy of `connections`.
pub(crate) fn connections(table: &Table) -> ConnectionPolicy {
    match table.get("connections") {
        Or::Word("per-message") => ConnectionPolicy::PerMessage,
        Or::Word("shortest-first") => ConnectionPolicy::ShortestFirst,
        Or::Word(_) => ConnectionPolicy::PerPair,
        Or::Value::<u64>(pool) => ConnectionPolicy::Pool(pool as u32),
    }
}

/// The distinct (protocol, parameters) pairs of a scenario.
#[derive(Debug)]
pub(crate) struct Stacks<'a> {
    transport: &'a Table,
    tuned: &'a [(Protocol, Table)],
    /// Each stack with the table that first uses it.
    list: Vec<(Stack, &'a Table)>,
}

impl<'a> Stacks<'a> {
    /// An empty list. `[transport]` and `[protocols]` are checked and determine the parameters of
    /// stacks that are added later.
    pub(crate) fn new(
        transport: &'a Table,
        tuned: &'a [(Protocol, Table)],
    ) -> Result<Stacks<'a>, Error> {
        let stacks = Stacks { transport, tuned, list: Vec::new() };
        for (protocol, _) in tuned {
            stacks.tuned(*protocol)?;
        }
        stacks.base(transport.get("protocol"))?;
        Ok(stacks)
    }

    /// Returns a protocol with the parameters of `[protocols.NAME]`.
    pub(crate) fn tuned(&self, protocol: Protocol) -> Result<Stack, Error> {
        match self.tuned.iter().find(|(tuned, _)| *tuned == protocol) {
            Some((_, table)) => refined(protocol.stack(), table),
            None => Ok(protocol.stack()),
        }
    }

    /// Returns the stack of flows that name the protocol without parameters of their own.
    pub(crate) fn base(&self, protocol: Protocol) -> Result<Stack, Error> {
        let stack = self.tuned(protocol)?;
        if protocol == self.transport.get("protocol") {
            refined(stack, self.transport)
        } else {
            Ok(stack)
        }
    }

    /// Returns the number of the stack of a flow or a block of traffic, and adds the stack if it is
    /// new.
    pub(crate) fn number(&mut self, table: &'a Table) -> Result<u16, Error> {
        let protocol = table.find("protocol").unwrap_or_else(|| self.transport.get("protocol"));
        let stack = refined(self.base(protocol)?, table)?;
        if let Some(known) = self.list.iter().position(|(known, _)| *known == stack) {
            return Ok(known as u16);
        }
        self.list.push((stack, table));
        u16::try_from(self.list.len() - 1).map_err(|_| {
            table.error_found(
                "params",
                "too many different sets of parameters",
                "at most 65536 pairs of protocol and parameters",
            )
        })
    }

    /// All stacks in use.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &Stack> {
        self.list.iter().map(|(stack, _)| stack)
    }

    /// Returns the stack with this number.
    pub(crate) fn stack(&self, number: u16) -> &Stack {
        &self.list[usize::from(number)].0
    }

    /// Returns the table that first uses a stack.
    fn origin(&self, stack: &Stack) -> &'a Table {
        let found = self.list.iter().find(|(known, _)| known == stack);
        found.map_or(self.transport, |(_, table)| table)
    }

    /// Returns the table that names the protocol of a stack.
    fn naming(&self, stack: &Stack) -> &'a Table {
        let origin = self.origin(stack);
        if origin.item("protocol").is_some() { origin } else { self.transport }
    }

    /// Returns the path of the key that names the protocol of a stack, such as
    /// `traffic[0].protocol`.
    pub(crate) fn key(&self, stack: &Stack) -> String {
        self.naming(stack).path("protocol")
    }

    /// Returns an error at the key that names the protocol of a stack.
    pub(crate) fn error(&self, stack: &Stack, found: String, expected: String) -> Error {
        self.naming(stack).error_found("protocol", found, expected)
    }

    /// The largest sizes of all protocols' packets.
    pub(crate) fn largest_sizes(&self) -> PacketSizes {
        PacketSizes::largest(self.iter().map(Stack::sizes))
    }

    /// Refuses headers and control packets that are longer than the payload of a full packet.
    pub(crate) fn check_sizes(&self, mtu: u32) -> Result<(), Error> {
        for stack in self.iter() {
            let (sizes, usual) = (stack.sizes(), PacketSizes::STANDARD);
            let sizes = [
                ("header_bytes", sizes.header_bytes, usual.header_bytes),
                ("control_bytes", sizes.control_bytes, usual.control_bytes),
            ];
            for (key, bytes, usual) in sizes {
                if bytes > mtu && bytes != usual {
                    let name = stack.protocol().info().name;
                    let found = format!("{name} with {key} = {bytes}");
                    let most = format!("{key} of at most {mtu}, the payload of a full packet");
                    return Err(self.error(stack, found, format!("{most} (fabric.mtu)")));
                }
            }
        }
        Ok(())
    }

    /// Returns the stacks without their tables.
    pub(crate) fn into_list(self) -> Vec<Stack> {
        self.list.into_iter().map(|(stack, _)| stack).collect()
    }
}

/// Applies the preset and the parameters of a table to a stack. A preset replaces all parameters by
/// those of the preset and the protocol's defaults.
fn refined(mut stack: Stack, table: &Table) -> Result<Stack, Error> {
    let protocol = stack.protocol();
    if let Some(preset) = table.find::<&str>("preset") {
        stack = protocol.stack();
        match presets::parameters(protocol, preset) {
            Some(entries) => apply(&mut stack, &entries, &format!("preset {preset}"))?,
            None => {
                let known = presets::of_protocol(protocol);
                let nearest = nearest(preset, known.iter().map(String::as_str));
                let expected = format!(
                    "a preset of {}: {}",
                    protocol.info().name,
                    one_of(known.iter().map(String::as_str))
                );
                return Err(table.error("preset", expected).suggest(nearest));
            }
        }
    }
    if let Some(entries) = table.find::<&Entries>("params") {
        apply(&mut stack, entries, &table.path("params"))?;
    }
    match stack.conflict() {
        None => Ok(stack),
        Some(conflict) => {
            let key = if table.item("params").is_some() { "params" } else { "preset" };
            Err(table.error_found(
                key,
                format!("conflicting parameters ({conflict})"),
                "parameters without this conflict",
            ))
        }
    }
}

/// Sets the parameters of a stack one by one.
pub(crate) fn apply(stack: &mut Stack, entries: &Entries, path: &str) -> Result<(), Error> {
    let table = stack.protocol().table();
    for (name, (place, node)) in entries {
        let path = join(path, name);
        let Some(info) = table.iter().find(|info| info.name == name) else {
            let names = || table.iter().map(|info| info.name);
            let found = format!("an unknown parameter of {}", stack.protocol().info().name);
            return Err(place.error(path, found, one_of(names())).suggest(nearest(name, names())));
        };
        let value = value(check::item(node.clone(), shape(info), &path)?.datum);
        match stack.set(info.name, value) {
            Ok(()) => {}
            Err(SetError::Range(Bounds { min, max })) => {
                return Err(node.at.error(
                    path,
                    node.found(),
                    format!("a value from {min} to {max}"),
                ));
            }
            Err(error) => {
                return Err(node.at.error(
                    path,
                    node.found(),
                    format!("a valid value ({error:?})"),
                ));
            }
        }
    }
    Ok(())
}

/// Returns the shape of a parameter's value, with the bounds of the parameter table. [`Stack::set`]
/// checks the bounds of extents.
pub(crate) fn shape(info: &Info) -> Shape {
    match (info.kind, info.range) {
        (Kind::Number, Some(Bounds { min: Value::Number(min), max: Value::Number(max) })) => {
            Shape::Number { min, max }
        }
        (Kind::Number, _) => Shape::Number { min: f64::MIN, max: f64::MAX },
        (Kind::Integer, Some(Bounds { min: Value::Integer(min), max: Value::Integer(max) })) => {
            Shape::Count { min, max }
        }
        (Kind::Integer, _) => Shape::Count { min: 0, max: u64::MAX },
        (Kind::Span, Some(Bounds { min: Value::Span(min), max: Value::Span(max) })) => {
            Shape::Span { min, max }
        }
        (Kind::Span, _) => Shape::Span { min: Span::ZERO, max: Span::s(1_000) },
        (Kind::Rate, Some(Bounds { min: Value::Rate(min), max: Value::Rate(max) })) => {
            Shape::Rate { min, max }
        }
        (Kind::Rate, _) => Shape::Rate { min: Rate::bps(1), max: Rate::gbps(1_000_000) },
        (Kind::Extent, _) => Shape::Extent,
        (Kind::Flag, _) => Shape::Flag,
        (Kind::Choice(words), _) => Shape::Word(words),
        (Kind::Sizes, _) => Shape::Sizes,
    }
}

fn value(datum: Datum) -> Value {
    match datum {
        Datum::Number(x) => Value::Number(x),
        Datum::Count(x) => Value::Integer(x),
        Datum::Span(x) => Value::Span(x),
        Datum::Rate(x) => Value::Rate(x),
        Datum::Extent(x) => Value::Extent(x),
        Datum::Flag(x) => Value::Flag(x),
        Datum::Word(x) => Value::Choice(x),
        Datum::Sizes(x) => Value::Sizes(x),
        other => unreachable!("no parameter has the value {other:?}"),
    }
}

/// A parameter's value as a scenario sets it.
pub(crate) fn json_value(value: Value) -> Json {
    match value {
        Value::Number(x) if x.is_finite() => json!(x),
        Value::Integer(x) => json!(x),
        Value::Flag(x) => json!(x),
        Value::Extent(Extent::Bdp(x)) if x.is_infinite() => json!("inf"),
        Value::Sizes(x) => x.as_slice().iter().map(|bytes| json!(format!("{bytes}B"))).collect(),
        other => json!(other.to_string()),
    }
}

/// All parameters of a stack as a scenario sets them.
pub(crate) fn json_params(stack: &Stack) -> Json {
    stack
        .values()
        .into_iter()
        .map(|(name, value)| (name.to_string(), json_value(value)))
        .collect::<serde_json::Map<_, _>>()
        .into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn presets_fit_their_protocols() {
        for protocol in Protocol::ALL {
            for preset in presets::of_protocol(*protocol) {
                let entries = presets::parameters(*protocol, &preset).unwrap();
                let mut stack = protocol.stack();
                apply(&mut stack, &entries, &preset).unwrap_or_else(|error| panic!("{error}"));
                assert_eq!(stack.conflict(), None);
                assert_eq!(
                    stack == protocol.stack(),
                    preset == presets::PAPER,
                    "{preset} of {protocol:?}"
                );
            }
        }
    }

    #[test]
    fn headers_and_control_fit_into_a_full_packet() {
        let load = |mtu: &str, params: &str| {
            let text = format!(
                "duration = '1ms'\nfabric = {{ kind = 'star', hosts = 2, mtu = '{mtu}' }}\n\
                 transport = {{ protocol = 'dcpim', params = {{ {params} }} }}\n\
                 flows = [{{ src = 'h0', dst = 'h1' }}]"
            );
            crate::load(&text, "x.toml", &[]).map(|plan| plan.stacks[0].sizes())
        };
        for key in ["header_bytes", "control_bytes"] {
            let set = format!("{key} = 513");
            let expected = format!(
                "x.toml:3: transport.protocol: found dcpim with {key} = 513, expected {key} of at \
                 most 512, the payload of a full packet (fabric.mtu)"
            );
            assert_eq!(load("512B", &set).unwrap_err().to_string(), expected);
            assert!(load("513B", &set).is_ok());
        }
        // Defaults pass at any MTU.
        assert_eq!(load("64B", "").unwrap(), PacketSizes::STANDARD);
        let sizes = load("1460B", "header_bytes = 40, control_bytes = 40").unwrap();
        assert_eq!(sizes, PacketSizes::new(40, 40));
    }

    #[test]
    fn defaults_read_back() {
        for protocol in Protocol::ALL {
            let entries = json_params(&protocol.stack());
            let text: Vec<String> = entries
                .as_object()
                .unwrap()
                .iter()
                .map(|(key, value)| format!("{key} = {value}"))
                .collect();
            let source = crate::read::tree::Source::file("defaults", &text.join("\n"));
            let crate::read::tree::Raw::Table(entries) =
                crate::read::tree::Node::document(&source).unwrap().raw
            else {
                panic!()
            };
            let mut stack = protocol.stack();
            apply(&mut stack, &entries, "params").unwrap_or_else(|error| panic!("{error}"));
            assert_eq!(stack, protocol.stack());
        }
    }
}
