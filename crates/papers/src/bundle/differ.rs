//! The first difference between two files of results. Keys that depend on the machine do not count.

use std::fs;
use std::io::{self, ErrorKind};
use std::path::Path;

use serde_json::Value;
use tidegate_results::{Engine, Origin};

/// The first difference of the file `again` from `first`; `None` if they are the same.
pub(super) fn difference(first: &Path, again: &Path) -> io::Result<Option<String>> {
    let read = |path: &Path| match fs::read(path) {
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        content => content.map(Some),
    };
    let [first_bytes, again_bytes] = [read(first)?, read(again)?];
    let (Some(a), Some(b)) = (&first_bytes, &again_bytes) else {
        let missing =
            if first_bytes.is_none() { "only the repeated runs" } else { "no repeated run" };
        return Ok(Some(format!("{missing} wrote it")));
    };
    if a == b {
        return Ok(None);
    }
    let is_manifest = first.ends_with("manifest.json");
    if let [Ok(a), Ok(b)] = [a, b].map(|bytes| serde_json::from_slice::<Value>(bytes)) {
        return Ok(of_values("", &constant(a, is_manifest), &constant(b, is_manifest)));
    }
    Ok(Some(of_bytes(a, b)))
}

/// The first difference of a file from the `expected` text; `None` if it has this text.
pub(super) fn from_text(path: &Path, expected: &str) -> io::Result<Option<String>> {
    match fs::read(path) {
        Err(error) if error.kind() == ErrorKind::NotFound => {
            Ok(Some("the bundle lacks it".to_owned()))
        }
        content => content.map(|bytes| {
            (bytes != expected.as_bytes()).then(|| of_bytes(&bytes, expected.as_bytes()))
        }),
    }
}

/// A value without the keys that vary from run to run.
fn constant(mut value: Value, is_manifest: bool) -> Value {
    if let Some(map) = value.as_object_mut().filter(|_| is_manifest) {
        Origin::VARIES.iter().for_each(|key| drop(map.remove(*key)));
    }
    match &mut value {
        Value::Object(map) => {
            if let Some(engine) = map.get_mut("engine").and_then(Value::as_object_mut) {
                Engine::VARIES.iter().for_each(|key| drop(engine.remove(*key)));
            }
            map.values_mut().for_each(|value| *value = constant(value.take(), false));
        }
        Value::Array(items) => {
            items.iter_mut().for_each(|item| *item = constant(item.take(), false));
        }
        _ => {}
    }
    value
}

/// `runs.0.summary.seed: 1, repeated 2`
fn of_values(path: &str, a: &Value, b: &Value) -> Option<String> {
    let below = |key: &str| if path.is_empty() { key.to_owned() } else { format!("{path}.{key}") };
    match (a, b) {
        (Value::Object(a), Value::Object(b)) => {
            let keys = a.keys().chain(b.keys().filter(|key| !a.contains_key(*key)));
            let get = |map: &serde_json::Map<String, Value>, key| {
                map.get(key).cloned().unwrap_or_default()
            };
            keys.into_iter().find_map(|key| of_values(&below(key), &get(a, key), &get(b, key)))
        }
        (Value::Array(a), Value::Array(b)) if a.len() == b.len() => {
            let items = a.iter().zip(b).enumerate();
            items.into_iter().find_map(|(i, (a, b))| of_values(&below(&i.to_string()), a, b))
        }
        _ => (a != b).then(|| format!("{path}: {}, repeated {}", short(a), short(b))),
    }
}

/// A value of at most 60 characters.
fn short(value: &Value) -> String {
    let text = value.to_string();
    let mut cut: String = text.chars().take(60).collect();
    if cut.len() < text.len() {
        cut.push('…');
    }
    cut
}

/// The first line of a text, or the first byte, that differs.
fn of_bytes(a: &[u8], b: &[u8]) -> String {
    let at = a.iter().zip(b).position(|(a, b)| a != b).unwrap_or(a.len().min(b.len()));
    if std::str::from_utf8(a).is_ok() && std::str::from_utf8(b).is_ok() {
        let line = a[..at].iter().filter(|byte| **byte == b'\n').count() + 1;
        return format!("line {line}");
    }
    format!("byte {at} of {}, repeated {}", a.len(), b.len())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn of(name: &str, a: &[u8], b: &[u8]) -> Option<String> {
        let dir = tempfile::tempdir().unwrap();
        let paths = ["a", "b"].map(|folder| dir.path().join(folder).join(name));
        for (path, bytes) in paths.iter().zip([a, b]) {
            fs::create_dir(path.parent().unwrap()).unwrap();
            fs::write(path, bytes).unwrap();
        }
        difference(&paths[0], &paths[1]).unwrap()
    }

    #[test]
    fn difference_names_the_first_one() {
        let json =
            |name, a: Value, b: Value| of(name, a.to_string().as_bytes(), b.to_string().as_bytes());
        let run = |digest: &str, wall: f64| {
            let engine = json!({ "digest": digest, "wall_seconds": wall });
            json!({ "runs": [{ "engine": engine }] })
        };
        assert_eq!(json("comparison.json", run("a", 1.0), run("a", 2.0)), None);
        let found = json("comparison.json", run("a", 1.0), run("b", 2.0));
        assert_eq!(found.as_deref(), Some("runs.0.engine.digest: \"a\", repeated \"b\""));
        let made = |compiler: &str| json!({ "compiler": compiler, "seed": 1 });
        assert_eq!(json("manifest.json", made("x"), made("y")), None);
        assert!(json("summary.json", made("x"), made("y")).is_some());
        assert_eq!(of("x.csv", b"a\nb", b"a\nc").as_deref(), Some("line 2"));
        assert_eq!(
            of("x.parquet", b"a\xff", b"a\xff\0").as_deref(),
            Some("byte 2 of 2, repeated 3")
        );
    }
}
