//! The JSON Schema, generated from the tables of keys that check a file.

use serde_json::{Map, Value as Json, json};
use tidegate_algos::Protocol;
use tidegate_core::params::{Bounds, Info, Sizes, Value};
use tidegate_core::{Extent, Span};

use crate::compile::{scenario, transport};
use crate::presets;
use crate::read::check::protocols;
use crate::read::keys::{Key, Keys, MESSAGE, Presence, Shape, Variant};
use crate::read::quantity::{BDP, Dimension, RATE, SHARE, SIZE, TIME};
use crate::read::tree::{Node, Raw};

/// Returns the JSON Schema (draft 2020-12) of scenario files. Every file that [`load`](crate::load)
/// accepts is valid. The schema does not check relations between values, such as a stop after its
/// start, or that names exist.
pub fn schema() -> Json {
    let mut schema = object(&keys_of(scenario::ROOT), true);
    schema["$schema"] = json!("https://json-schema.org/draft/2020-12/schema");
    schema["title"] = json!("tidegate scenario");
    schema["description"] =
        json!("One simulated run: a fabric, its protocols, and the traffic of its hosts.");
    let mut definitions = Map::new();
    for (name, dimension) in [("duration", &TIME), ("rate", &RATE), ("size", &SIZE)] {
        definitions.insert(name.into(), quantity(dimension, &[]));
    }
    definitions.insert("extent".into(), quantity(&SIZE, &[BDP]));
    definitions.insert("percentage".into(), quantity(&SHARE, &[]));
    for protocol in Protocol::ALL {
        definitions.insert(params_name(*protocol), params(*protocol));
    }
    schema["$defs"] = definitions.into();
    schema
}

fn keys_of(groups: Keys) -> Vec<&'static Key> {
    groups.iter().flat_map(|group| group.iter()).collect()
}

fn params_name(protocol: Protocol) -> String {
    format!("params-{}", protocol.info().name)
}

fn reference(name: &str) -> Json {
    json!({ "$ref": format!("#/$defs/{name}") })
}

fn quantity(dimension: &Dimension, more: &[&'static str]) -> Json {
    let units: Vec<&str> = dimension.names().chain(more.iter().copied()).collect();
    json!({
        "type": "string",
        "pattern": format!("^[0-9]+(\\.[0-9]+)?([eE][+-]?[0-9]+)? *({})$", units.join("|")),
        "examples": [dimension.example],
    })
}

/// A file may leave out keys of a table that the table's default has: none of them is required.
fn complete_table(schema: &mut Json, default: &Json) {
    let (Some(schema), Some(default)) = (schema.as_object_mut(), default.as_object()) else {
        return;
    };
    if let Some(required) = schema.get_mut("required").and_then(Json::as_array_mut) {
        required.retain(|key| !default.contains_key(key.as_str().unwrap_or_default()));
        if required.is_empty() {
            schema.remove("required");
        }
    }
    let keys = schema.get_mut("properties").and_then(Json::as_object_mut);
    for (key, schema) in keys.into_iter().flatten() {
        if let Some(value) = default.get(key) {
            schema["default"] = value.clone();
        }
    }
}

/// Returns the schema of a table. If `complete`, it includes required keys and defaults.
fn object(keys: &[&'static Key], complete: bool) -> Json {
    let mut properties = Map::new();
    let mut required = Vec::new();
    for key in keys {
        let mut value = of(key.shape);
        value["description"] = json!(key.doc);
        match key.presence {
            Presence::Default(text) if complete => {
                let default = plain(&Node::default(text));
                complete_table(&mut value, &default);
                value["default"] = default;
            }
            Presence::Required => required.push(key.name),
            _ => {}
        }
        properties.insert(key.name.into(), value);
    }
    let mut schema =
        json!({ "type": "object", "properties": properties, "additionalProperties": false });
    if !required.is_empty() {
        schema["required"] = json!(required);
    }
    if ["protocol", "params"].iter().all(|name| keys.iter().any(|key| key.name == *name)) {
        schema["allOf"] = Protocol::ALL.iter().map(|protocol| by_choice(*protocol)).collect();
    }
    schema
}

/// Returns the condition that a protocol puts on preset and parameters.
fn by_choice(protocol: Protocol) -> Json {
    json!({
        "if": {
            "properties": { "protocol": { "const": protocol.info().name } },
            "required": ["protocol"],
        },
        "then": { "properties": tuning(protocol) },
    })
}

fn tuning(protocol: Protocol) -> Json {
    json!({
        "params": reference(&params_name(protocol)),
        "preset": { "enum": presets::of_protocol(protocol) },
    })
}

/// A whole number.
const COUNT: Shape = Shape::Count { min: 0, max: u64::MAX };

fn of(shape: Shape) -> Json {
    match shape {
        Shape::Text => json!({ "type": "string", "minLength": 1 }),
        Shape::Flag => json!({ "type": "boolean" }),
        Shape::Number { min, max } => {
            json!({ "anyOf": [bounded("number", min, max), reference("percentage")] })
        }
        Shape::Count { min, max: u64::MAX } => json!({ "type": "integer", "minimum": min }),
        Shape::Count { min, max } => json!({ "type": "integer", "minimum": min, "maximum": max }),
        Shape::Span { max: Span::FOREVER, .. } => {
            json!({ "anyOf": [{ "const": "inf" }, reference("duration")] })
        }
        Shape::Span { .. } => reference("duration"),
        Shape::Rate { .. } => reference("rate"),
        Shape::Bytes { .. } => reference("size"),
        Shape::Extent => reference("extent"),
        Shape::Word(words) => json!({ "enum": words }),
        Shape::Or(words, rest) => json!({ "anyOf": [{ "enum": words }, of(*rest)] }),
        Shape::Protocol => json!({ "enum": protocols().collect::<Vec<_>>() }),
        Shape::Names => json!({ "type": "array", "items": of(Shape::Text), "minItems": 1 }),
        Shape::Rows => {
            let row = json!({ "type": "array", "items": of(COUNT), "minItems": 1 });
            json!({ "type": "array", "items": row, "minItems": 1 })
        }
        Shape::Sizes => {
            json!({ "type": "array", "items": of(MESSAGE), "maxItems": Sizes::MOST })
        }
        Shape::Globs | Shape::Addresses => json!({ "anyOf": [of(Shape::Text), of(Shape::Names)] }),
        Shape::Params => json!({ "type": "object" }),
        Shape::Table(keys) => table(keys),
        Shape::Tables(keys) => json!({ "type": "array", "items": table(keys) }),
        Shape::Changes(keys) => json!({ "type": "array", "items": object(&keys_of(keys), false) }),
        Shape::Kinds(common, variants) => kinds(common, variants),
        Shape::ManyKinds(common, variants) => {
            json!({ "type": "array", "items": kinds(common, variants) })
        }
        Shape::ByProtocol(_) => {
            let each = |protocol: &Protocol| {
                let schema = json!({
                    "type": "object",
                    "properties": tuning(*protocol),
                    "additionalProperties": false,
                });
                (protocol.info().name.to_string(), schema)
            };
            let properties: Map<String, Json> = Protocol::ALL.iter().map(each).collect();
            json!({ "type": "object", "properties": properties, "additionalProperties": false })
        }
    }
}

fn bounded(kind: &str, min: f64, max: f64) -> Json {
    let mut schema = json!({ "type": kind });
    for (name, bound) in [("minimum", min), ("maximum", max)] {
        if bound.is_finite() && bound.abs() != f64::MAX {
            schema[name] = json!(bound);
        }
    }
    if max == f64::INFINITY { json!({ "anyOf": [{ "const": "inf" }, schema] }) } else { schema }
}

/// Returns the schema of a table with its required keys and defaults.
fn table(keys: Keys) -> Json {
    object(&keys_of(keys), true)
}

/// Returns one alternative for each kind. If presets can imply the kind, it adds one for each kind
/// that a preset has.
fn kinds(common: &'static [Key], variants: &'static [Variant]) -> Json {
    // A preset of a fabric implies the kind. A preset of traffic is one of its protocol's
    // parameters.
    let has = |name| common.iter().any(|key| key.name == name);
    let takes_presets = has(PRESET) && !has("protocol");
    let plain = variants.iter().map(|variant| {
        let mut schema = variant_object(common, variant);
        if takes_presets {
            properties(&mut schema).remove(PRESET);
        }
        schema
    });
    let preset = variants.iter().filter(|_| takes_presets).filter_map(|variant| {
        let names: Vec<&str> = presets::FABRICS
            .iter()
            .map(|(name, _)| *name)
            .filter(|name| presets::fabric_kind(name).as_deref() == Some(variant.kind))
            .collect();
        let mut schema = variant_object(common, variant);
        schema["required"] = json!([PRESET]);
        properties(&mut schema)[PRESET]["enum"] = json!(names);
        let links = properties(&mut schema).values_mut().filter_map(Json::as_object_mut);
        links.for_each(|link| {
            link.remove("required");
            link.remove("default");
            let keys =
                link.get_mut("properties").and_then(Json::as_object_mut).into_iter().flatten();
            keys.filter_map(|(_, key)| key.as_object_mut())
                .for_each(|key| _ = key.remove("default"));
        });
        (!names.is_empty()).then_some(schema)
    });
    json!({ "oneOf": plain.chain(preset).collect::<Vec<_>>() })
}

const PRESET: &str = "preset";

fn variant_object(common: &'static [Key], variant: &'static Variant) -> Json {
    let keys: Vec<&'static Key> = common.iter().chain(variant.keys).collect();
    let mut schema = object(&keys, true);
    properties(&mut schema)["kind"]["const"] = json!(variant.kind);
    schema["description"] = json!(variant.doc);
    schema
}

fn properties(schema: &mut Json) -> &mut Map<String, Json> {
    schema["properties"].as_object_mut().expect("an object schema")
}

/// Returns the schema of a protocol's parameters.
fn params(protocol: Protocol) -> Json {
    let each = |info: &Info| {
        let mut schema = of(transport::shape(info));
        if let Some(Bounds { max: Value::Extent(Extent::Bdp(f64::INFINITY)), .. }) = info.range {
            schema = json!({ "anyOf": [{ "const": "inf" }, schema] });
        }
        schema["description"] = json!(format!("{} Source: {}.", info.meaning(), info.source));
        schema["default"] = transport::json_value(info.default);
        (info.name.to_string(), schema)
    };
    let properties: Map<String, Json> = protocol.table().iter().map(each).collect();
    let info = protocol.info();
    json!({
        "type": "object",
        "description": format!("Parameters of {}.", info.title),
        "properties": properties,
        "additionalProperties": false,
    })
}

/// Returns a default as JSON.
fn plain(node: &Node) -> Json {
    match &node.raw {
        Raw::Text(text) => json!(text),
        Raw::Integer(integer) => json!(*integer as i64),
        Raw::Number(number) => json!(number),
        Raw::Flag(flag) => json!(flag),
        Raw::Date => Json::Null,
        Raw::List(items) => items.iter().map(plain).collect(),
        Raw::Table(entries) => entries
            .iter()
            .map(|(key, (_, node))| (key.clone(), plain(node)))
            .collect::<Map<_, _>>()
            .into(),
    }
}
