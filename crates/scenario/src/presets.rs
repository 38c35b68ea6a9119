//! Presets: fabrics and parameters of papers, which are data files of this crate.

use std::collections::BTreeMap;

use tidegate_algos::Protocol;

use crate::error::{Error, nearest, one_of};
use crate::read::tree::{Entries, Node, Raw, Source};

include!(concat!(env!("OUT_DIR"), "/presets.rs"));

/// Preset of all protocols: their defaults.
pub(crate) const PAPER: &str = "paper";

/// Removes `fabric.preset` from a document and adds the preset's values that the document does not
/// set.
pub(crate) fn fill(document: &mut Node) -> Result<(), Error> {
    let Raw::Table(entries) = &mut document.raw else { return Ok(()) };
    let Some((_, Node { raw: Raw::Table(fabric), .. })) = entries.get_mut("fabric") else {
        return Ok(());
    };
    let Some((_, named)) = fabric.remove("preset") else { return Ok(()) };
    let known = || FABRICS.iter().map(|(name, _)| *name);
    let wrong = |name: &str| {
        named
            .at
            .error("fabric.preset", named.found(), one_of(known()))
            .suggest(nearest(name, known()))
    };
    let Raw::Text(name) = &named.raw else { return Err(wrong("")) };
    let (_, text) = FABRICS.iter().find(|(known, _)| known == name).ok_or_else(|| wrong(name))?;
    let preset = document_of(&format!("preset {name}"), text)?;
    let kind = fabric_kind(name);
    if let Some((_, own)) = fabric.get("kind")
        && !matches!(&own.raw, Raw::Text(text) if Some(text) == kind.as_ref())
    {
        let expected = format!(
            "{:?}, which is the kind of preset {name:?}, or no kind",
            kind.unwrap_or_default()
        );
        return Err(own.at.error("fabric.kind", own.found(), expected));
    }
    document.fill(preset);
    Ok(())
}

/// Returns the kind of a preset's fabric.
pub(crate) fn fabric_kind(name: &str) -> Option<String> {
    let (_, text) = FABRICS.iter().find(|(known, _)| *known == name)?;
    let (_, fabric) = entries(document_of(name, text).ok()?)?.remove("fabric")?;
    match &entries(fabric)?.get("kind")?.1.raw {
        Raw::Text(kind) => Some(kind.clone()),
        _ => None,
    }
}

fn entries(node: Node) -> Option<Entries> {
    match node.raw {
        Raw::Table(entries) => Some(entries),
        _ => None,
    }
}

fn document_of(name: &str, text: &str) -> Result<Node, Error> {
    Node::document(&Source::builtin(name.to_string(), text))
}

fn file_of(protocol: Protocol) -> Option<Entries> {
    let (name, text) = PROTOCOLS.iter().find(|(name, _)| *name == protocol.info().name)?;
    entries(document_of(&format!("presets of {name}"), text).ok()?)
}

/// Returns the comment above each preset of a protocol.
pub(crate) fn sources(protocol: Protocol) -> BTreeMap<String, String> {
    let file = PROTOCOLS.iter().find(|(name, _)| *name == protocol.info().name);
    let (mut sources, mut comment) = (BTreeMap::new(), Vec::new());
    for line in file.map_or("", |(_, text)| text).lines() {
        if let Some(text) = line.strip_prefix("# ") {
            comment.push(text);
        } else {
            if let Some(name) = line.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')) {
                sources.insert(name.to_owned(), comment.join(" "));
            }
            comment.clear();
        }
    }
    sources
}

/// Returns the names of a protocol's presets.
pub(crate) fn of_protocol(protocol: Protocol) -> Vec<String> {
    let shipped = file_of(protocol).unwrap_or_default();
    [PAPER.to_string()].into_iter().chain(shipped.into_keys()).collect()
}

/// Returns the parameters of a preset; empty for `paper`, which is the defaults.
pub(crate) fn parameters(protocol: Protocol, preset: &str) -> Option<Entries> {
    if preset == PAPER {
        return Some(Entries::new());
    }
    let (_, node) = file_of(protocol)?.remove(preset)?;
    entries(node)
}
