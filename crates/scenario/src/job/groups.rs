//! Process groups of Chakra traces, from a JSON file.

use std::collections::BTreeSet;
use std::fmt;

use serde::de::{Deserialize, Deserializer, MapAccess, Visitor};
use serde_json::Value as Json;

use super::chakra::Groups;
use super::{Source, ranks_of};
use crate::error::Error;

const EXPECTED: &str = "a JSON object with a list of different ranks for each process group, such \
                        as {\"0\": [0, 1]}";

/// Reads the ranks of each process group of a job with this number of ranks.
pub(super) fn read(source: &Source, ranks: usize) -> Result<Groups, Error> {
    let wrong = |found: String| Error::whole(&source.name, found, EXPECTED);
    let json: Json = serde_json::from_slice(&source.bytes).map_err(|why| wrong(why.to_string()))?;
    if !json.is_object() {
        return Err(wrong("no object".into()));
    }
    let Entries(entries) =
        serde_json::from_slice(&source.bytes).map_err(|why| wrong(why.to_string()))?;
    let mut groups = Groups::new();
    for (name, value) in entries {
        let members = members(&value).ok_or_else(|| wrong(format!("{value} for {name:?}")))?;
        if let Some(rank) = members.iter().find(|&&rank| rank as usize >= ranks) {
            let found = format!("rank {rank} in the process group {name:?}");
            return Err(Error::whole(&source.name, found, ranks_of(ranks)));
        }
        if groups.contains_key(&name) {
            let expected = "each process group once: remove one of its lists";
            return Err(Error::whole(&source.name, format!("the key {name:?} twice"), expected));
        }
        groups.insert(name, members);
    }
    Ok(groups)
}

/// Different ranks, at least one.
fn members(value: &Json) -> Option<Vec<u32>> {
    let rank = |value: &Json| value.as_u64()?.try_into().ok();
    let members: Vec<u32> = value.as_array()?.iter().map(rank).collect::<Option<_>>()?;
    let different: BTreeSet<u32> = members.iter().copied().collect();
    (!members.is_empty() && different.len() == members.len()).then_some(members)
}

/// Keys and values of an object in the order of the file. A map would keep only the last value of a
/// key that occurs twice.
struct Entries(Vec<(String, Json)>);

impl<'de> Deserialize<'de> for Entries {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Entries, D::Error> {
        struct Pairs;
        impl<'de> Visitor<'de> for Pairs {
            type Value = Entries;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Entries, A::Error> {
                let mut entries = Vec::new();
                while let Some(entry) = map.next_entry()? {
                    entries.push(entry);
                }
                Ok(Entries(entries))
            }
        }
        deserializer.deserialize_map(Pairs)
    }
}
