//! The schema accepts every file that loads, and refuses the errors that it can express.
#![allow(missing_docs)]

use crate::common::{GRAPH, RACKS, beside, patched};
use serde_json::{Map, Value, json};
use tidegate_algos::Protocol;
use tidegate_scenario::{load, resolved, schema};
use toml::de::{DeTable, DeValue};

/// A TOML value as JSON.
fn to_json(value: &DeValue<'_>) -> Value {
    match value {
        DeValue::String(text) => json!(text),
        DeValue::Integer(integer) => json!(integer.as_str().parse::<i64>().unwrap()),
        DeValue::Float(float) => json!(float.as_str().parse::<f64>().unwrap()),
        DeValue::Boolean(flag) => json!(flag),
        DeValue::Datetime(date) => json!(date.to_string()),
        DeValue::Array(items) => items.iter().map(|item| to_json(item.get_ref())).collect(),
        DeValue::Table(table) => table_to_json(table),
    }
}

fn table_to_json(table: &DeTable<'_>) -> Value {
    table
        .iter()
        .map(|(key, value)| (key.get_ref().to_string(), to_json(value.get_ref())))
        .collect::<Map<_, _>>()
        .into()
}

/// Validates the keywords that the schema uses; others fail the test.
fn valid(root: &Value, schema: &Value, value: &Value) -> bool {
    let all = |schemas: &Value| {
        schemas
            .as_array()
            .unwrap()
            .iter()
            .map(|schema| valid(root, schema, value))
            .collect::<Vec<bool>>()
    };
    schema.as_object().unwrap().iter().all(|(keyword, rule)| match keyword.as_str() {
        "$schema" | "$defs" | "title" | "description" | "default" | "examples" | "then" => true,
        "$ref" => {
            let name = rule.as_str().unwrap().strip_prefix("#/$defs/").unwrap();
            valid(root, &root["$defs"][name], value)
        }
        "type" => match rule.as_str().unwrap() {
            "object" => value.is_object(),
            "array" => value.is_array(),
            "string" => value.is_string(),
            "boolean" => value.is_boolean(),
            "integer" => value.is_u64() || value.is_i64(),
            "number" => value.is_number(),
            other => panic!("{other}"),
        },
        "const" => rule == value,
        "enum" => rule.as_array().unwrap().contains(value),
        "minimum" => value.as_f64().is_none_or(|x| x >= rule.as_f64().unwrap()),
        "maximum" => value.as_f64().is_none_or(|x| x <= rule.as_f64().unwrap()),
        "minLength" => {
            value.as_str().is_none_or(|text| text.len() as u64 >= rule.as_u64().unwrap())
        }
        "minItems" => {
            value.as_array().is_none_or(|items| items.len() as u64 >= rule.as_u64().unwrap())
        }
        "pattern" => value.as_str().is_none_or(|text| quantity(rule.as_str().unwrap(), text)),
        "items" => {
            value.as_array().is_none_or(|items| items.iter().all(|item| valid(root, rule, item)))
        }
        "required" => value.as_object().is_none_or(|object| {
            rule.as_array().unwrap().iter().all(|key| object.contains_key(key.as_str().unwrap()))
        }),
        "properties" => value.as_object().is_none_or(|object| {
            object
                .iter()
                .all(|(key, value)| rule.get(key).is_none_or(|schema| valid(root, schema, value)))
        }),
        "additionalProperties" => value
            .as_object()
            .is_none_or(|object| object.keys().all(|key| schema["properties"].get(key).is_some())),
        "anyOf" => all(rule).contains(&true),
        "allOf" => !all(rule).contains(&false),
        "oneOf" => all(rule).into_iter().filter(|valid| *valid).count() == 1,
        "if" => !valid(root, rule, value) || valid(root, &schema["then"], value),
        other => panic!("{other} is new"),
    })
}

/// The only form of pattern in the schema: a number with one of several units, which a space may
/// precede.
fn quantity(pattern: &str, text: &str) -> bool {
    let number = r"^[0-9]+(\.[0-9]+)?([eE][+-]?[0-9]+)? *(";
    let units = pattern.strip_prefix(number).unwrap().strip_suffix(")$").unwrap();
    units.split('|').any(|unit| {
        text.strip_suffix(unit)
            .is_some_and(|rest| rest.trim_end_matches(' ').parse::<f64>().is_ok())
    })
}

fn accepts(schema: &Value, text: &str) -> bool {
    valid(schema, schema, &table_to_json(DeTable::parse(text).unwrap().get_ref()))
}

#[test]
fn schema_accepts_what_loads() {
    let schema = schema();
    let preset = "duration = '1ms'\nfabric = { preset = 'poseidon-clos', pods = 2, core_link = { \
        rate = '1Gbps' } }\n\
                  transport = { protocol = 'dctcp', preset = 'sird', connections = 40 }\n\
                  traffic = [{ kind = 'permutation', sizes = '1MB', protocol = 'swift', preset = \
                  'sird' }]\n\
                  protocols = { swift = { preset = 'sird' } }";
    // A link without a key has that of the default link.
    let partial = "duration = '1ms'\nfabric = { kind = 'star', hosts = 4, host_link = { delay = \
        '2us' } }\ntransport = { protocol = 'swift' }\n\
                   traffic = [{ kind = 'permutation', sizes = '1MB' }]";
    for text in [GRAPH, RACKS, preset, partial] {
        let plan = load(text, &beside("x.toml"), &[]).unwrap();
        assert!(accepts(&schema, text), "{text}");
        assert!(valid(&schema, &schema, &resolved(&plan)), "{:#}", resolved(&plan));
    }
}

#[test]
fn schema_refuses_expressible_errors() {
    let schema = schema();
    for (from, to) in [
        ("seed = 1", "sed = 1"),
        ("kind = \"graph\"", "kind = \"star\""),
        ("kind = \"graph\"", ""),
        ("rate = \"100Gbps\"", "rate = \"10Gbsp\""),
        ("m = 0.25", "mm = 0.25"),
        ("m = 0.25", "m = 25.0"),
        ("match = \"s1\"", ""),
        ("priorities = 8", "priorities = 9"),
        ("size = \"inf\"", "size = 5"),
        ("kind = \"poisson\"", "kind = \"incast\""),
        ("preset = \"paper\"", "preset = \"sird\""),
        ("src = \"h0\"", ""),
        ("kind = \"poisson\"", "kind = \"poisson\"\nprotocol = \"swift\"\npreset = \"none\""),
    ] {
        assert!(!accepts(&schema, &patched(GRAPH, from, to)), "{to}");
    }
}

#[test]
fn defaults_of_links_are_those_of_the_kind() {
    let schema = schema();
    let kinds = schema["properties"]["fabric"]["oneOf"].as_array().unwrap();
    let rate = |kind: &Value| kind["properties"]["host_link"]["properties"]["rate"].clone();
    let (presets, plain): (Vec<_>, Vec<_>) = kinds
        .iter()
        .filter(|kind| !rate(kind).is_null())
        .partition(|kind| kind["required"].as_array().unwrap().contains(&"preset".into()));
    // A preset has links of its own.
    assert!(!presets.is_empty() && presets.iter().all(|kind| rate(kind)["default"].is_null()));
    assert!(!plain.is_empty() && plain.iter().all(|kind| rate(kind)["default"].is_string()));
}

#[test]
fn schema_describes_every_parameter() {
    let schema = schema();
    for protocol in Protocol::ALL {
        let params = &schema["$defs"][format!("params-{}", protocol.info().name)]["properties"];
        for info in protocol.table() {
            let entry = &params[info.name];
            assert!(entry["description"].as_str().unwrap().contains("Source:"), "{}", info.name);
            assert!(!entry["default"].is_null(), "{}", info.name);
        }
    }
}
