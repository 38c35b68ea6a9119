//! JSON merge patches (RFC 7396).

use serde_json::{Map, Value as Json};

/// The merge patch from one scenario to another; `None` if they are equal. Resolved scenarios have
/// no null, which such a patch cannot express.
pub(super) fn patch(from: &Json, to: &Json) -> Option<Json> {
    let (Json::Object(from), Json::Object(to)) = (from, to) else {
        return (from != to).then(|| to.clone());
    };
    let removed = from.keys().filter(|key| !to.contains_key(*key));
    let mut changes: Map<_, _> = removed.map(|key| (key.clone(), Json::Null)).collect();
    for (key, value) in to {
        let change = from.get(key).map_or_else(|| Some(value.clone()), |old| patch(old, value));
        changes.extend(change.map(|change| (key.clone(), change)));
    }
    (!changes.is_empty()).then(|| changes.into())
}

/// Applies a merge patch.
pub(super) fn patched(target: Json, patch: &Json) -> Json {
    let Json::Object(changes) = patch else { return patch.clone() };
    let mut map = if let Json::Object(map) = target { map } else { Map::new() };
    for (key, change) in changes {
        let old = map.remove(key).unwrap_or_default();
        if !change.is_null() {
            map.insert(key.clone(), patched(old, change));
        }
    }
    map.into()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn patched_returns_to_the_scenario() {
        let from = json!({ "a": { "b": 1, "c": [1, 2] }, "d": "x", "e": { "f": 1 } });
        for to in [
            from.clone(),
            json!({ "a": { "b": 2, "c": [1] }, "d": "x" }),
            json!({ "a": 3, "d": { "b": { "c": 1 } }, "e": { "f": 1, "g": false } }),
        ] {
            let changes = patch(&from, &to).unwrap_or(json!({}));
            assert_eq!(patched(from.clone(), &changes), to, "{changes}");
        }
        assert_eq!(patch(&from, &json!({ "a": from["a"], "d": "x" })), Some(json!({ "e": null })));
    }
}
