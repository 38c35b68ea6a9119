//! Scenarios of manifests, which runs write beside their results as JSON.

use core::fmt::Write;
use std::path::PathBuf;

use serde_json::Value;

/// Returns the scenario of a manifest as TOML, and the folder of the files that it names; `None` if
/// the text is TOML. A manifest holds them under the keys `scenario` and `folder`; the scenario
/// alone is accepted, too. An error describes the text.
pub(crate) fn scenario(text: &str) -> Option<Result<(String, Option<PathBuf>), String>> {
    if !text.trim_start().starts_with('{') {
        return None;
    }
    let read = |text| {
        let json: Value =
            serde_json::from_str(text).map_err(|why| format!("JSON with an error ({why})"))?;
        if let Some(points) = json.get("points").and_then(Value::as_array) {
            let count = points.len();
            return Err(format!("a sweep of {count} points, which `tidegate sweep` repeats"));
        }
        let scenario = json.get("scenario");
        let folder = scenario.and_then(|_| json.get("folder")).and_then(Value::as_str);
        if scenario.or(json.get("fabric")).is_none() {
            return Err("JSON without a scenario".to_owned());
        }
        let mut toml = String::new();
        for (key, value) in scenario.unwrap_or(&json).as_object().into_iter().flatten() {
            entry(&mut toml, key, value);
            toml.push('\n');
        }
        Ok((toml, folder.map(PathBuf::from)))
    };
    Some(read(text))
}

/// Adds a key and its value. Strings, numbers and booleans of JSON are TOML. Null is not, and no
/// resolved scenario has it.
fn entry(toml: &mut String, key: &str, value: &Value) {
    write!(toml, "{} = ", Value::from(key)).expect("memory");
    put(toml, value);
}

fn put(toml: &mut String, value: &Value) {
    match value {
        Value::Array(items) => list(toml, ['[', ']'], items, put),
        Value::Object(map) => list(toml, ['{', '}'], map, |toml, (key, value)| {
            entry(toml, key, value);
        }),
        other => write!(toml, "{other}").expect("memory"),
    }
}

/// Adds items, separated by commas, between the brackets.
fn list<T>(
    toml: &mut String,
    [open, close]: [char; 2],
    items: impl IntoIterator<Item = T>,
    add: impl Fn(&mut String, T),
) {
    toml.push(open);
    for (number, item) in items.into_iter().enumerate() {
        if number > 0 {
            toml.push_str(", ");
        }
        add(toml, item);
    }
    toml.push(close);
}
