//! Template of a scenario: required keys with values, and all other keys as comments with their
//! defaults.

use textwrap::Options;
use tidegate_algos::Protocol;

use crate::compile::{fabric, faults, hosts, scenario, switch, traffic, transport};
use crate::error::{Error, nearest, one_of};
use crate::overload::overload;
use crate::presets;
use crate::read::keys::{Key, Keys, Presence, Shape, Variant};

/// Line width of a file.
const WIDTH: usize = 100;
/// Kinds of fabrics without a generator, for which there is no template.
const LISTED: [&str; 1] = ["graph"];
/// Loads: the usual one, and one for fabrics whose links between switches carry less.
const LOADS: [&str; 2] = ["0.2", "0.05"];
/// Kind of the example traffic.
const TRAFFIC: &str = "poisson";

/// Fabrics that have a template: those of papers, and generated kinds.
pub fn templates() -> impl Iterator<Item = &'static str> {
    let kinds = fabric::KINDS.iter().map(|variant| variant.kind);
    let presets = presets::FABRICS.iter().map(|(name, _)| *name);
    presets.chain(kinds.filter(|kind| !LISTED.contains(kind)))
}

/// Returns a sentence that describes a template; empty if no template has that name.
pub fn template_summary(name: &str) -> String {
    let preset = presets::FABRICS.iter().find(|(known, _)| *known == name);
    let description = match (preset, variant(fabric::KINDS, name)) {
        (Some((_, text)), _) => {
            let lines = text.lines().map_while(|line| line.strip_prefix('#'));
            lines.collect::<Vec<_>>().concat()
        }
        (None, Some(kind)) => kind.doc.to_owned(),
        (None, None) => String::new(),
    };
    let sentence = description.split_once(". ").map_or(&*description, |(first, _)| first);
    format!("{}.", sentence.trim().trim_end_matches('.'))
}

/// Returns a scenario on a fabric as a file with comments: Poisson arrivals with web-search sizes
/// at a load that its links carry, under [`Protocol::DEFAULT`]. Most of these runs take a second.
/// `name` is one of [`templates`].
///
/// # Errors
/// If there is no such fabric.
pub fn template(name: &str) -> Result<String, Error> {
    let [load, lower] = LOADS;
    let plan = crate::load(&with(name, load, ["10ms", "2ms"])?, name, &[])?;
    let load = if overload(&plan).is_some() { lower } else { load };
    // Enough messages for a 99th percentile.
    let times = match plan.fabric.hosts.len() {
        ..=16 => ["50ms", "10ms"],
        17..=200 => ["10ms", "2ms"],
        _ => ["2ms", "400us"],
    };
    with(name, load, times)
}

/// The same with a given load, duration and warm-up.
fn with(name: &str, load: &str, [duration, warmup]: [&str; 2]) -> Result<String, Error> {
    let mut file = File::default();
    let preset = presets::FABRICS.iter().find(|(known, _)| *known == name);
    let kind = variant(fabric::KINDS, name).filter(|_| !LISTED.contains(&name));
    if preset.is_none() && kind.is_none() {
        let wrong = Error::whole("tidegate new", format!("{name:?}"), one_of(templates()));
        return Err(wrong.suggest(nearest(name, templates())));
    }
    file.comment(&format!(
        "A scenario on {name}: `tidegate run FILE` runs it. Lines with # show optional keys; a \
         value there is the default. docs/scenario.md describes all keys, and `tidegate protocols` \
         lists the protocols."
    ));
    file.0.push('\n');
    let named = format!("{name:?}");
    let [duration, warmup] = [duration, warmup].map(|time| format!("{time:?}"));
    let top =
        [("name", &*named), ("duration", &*duration), ("warmup", &*warmup), ("drain", "\"100ms\"")];
    file.keys(all(scenario::ROOT).filter(|key| !is_section(key)), &top);
    file.section("[fabric]");
    match (preset, kind) {
        (Some((_, text)), _) => {
            file.0 += &format!("preset = {named}\n# The preset sets:\n");
            for line in text.lines() {
                file.0 += format!("#   {line}").trim_end();
                file.0.push('\n');
            }
        }
        (_, Some(kind)) => {
            let keys = fabric::COMMON.iter().filter(|key| key.name != "preset").chain(kind.keys);
            file.keys(keys, &[("kind", &named)]);
        }
        _ => {}
    }
    if preset.is_none() {
        file.section("[switch]");
        file.keys(all(switch::KEYS), &[]);
    }
    file.section("[transport]");
    let keys = transport::KEYS.iter();
    // The fabric's preset sets the other keys.
    let keys = keys.filter(|key| preset.is_none() || key.name == "protocol");
    file.keys(keys, &[("protocol", &format!("{:?}", Protocol::DEFAULT.info().name))]);
    if preset.is_some_and(|(_, text)| text.contains("\nplanes = ")) {
        file.comment("Packets of a connection take all ports of its host.");
        file.0 += "params = { multipath = \"mixed\" }\n";
    }
    file.section("[[traffic]]");
    let kind = variant(traffic::KINDS, TRAFFIC).map_or(&[][..], |kind| kind.keys);
    let values = [
        ("kind", "\"poisson\""),
        ("label", "\"search\""),
        ("sizes", "\"websearch\""),
        ("load", load),
    ];
    file.keys(traffic::COMMON.iter().chain(kind), &values);
    file.section("[hosts]");
    file.keys(hosts::KEYS.iter(), &[]);
    file.section("[faults]");
    file.keys(faults::KEYS.iter(), &[]);
    file.section("[output]");
    file.keys(scenario::OUTPUT.iter(), &[]);
    Ok(file.0)
}

fn all(groups: Keys) -> impl Iterator<Item = &'static Key> {
    groups.iter().flat_map(|group| group.iter())
}

fn variant(variants: &'static [Variant], kind: &str) -> Option<&'static Variant> {
    variants.iter().find(|variant| variant.kind == kind)
}

/// Whether a top-level key is a section.
fn is_section(key: &Key) -> bool {
    matches!(
        key.shape,
        Shape::Table(_)
            | Shape::Tables(_)
            | Shape::Kinds(..)
            | Shape::ManyKinds(..)
            | Shape::ByProtocol(_)
    )
}

/// A file under construction.
#[derive(Default)]
struct File(String);

impl File {
    fn section(&mut self, name: &str) {
        self.0 += &format!("\n{name}\n");
    }

    /// Appends a comment.
    fn comment(&mut self, text: &str) {
        let lines = Options::new(WIDTH).initial_indent("# ").subsequent_indent("# ");
        self.0 += &textwrap::fill(text, lines);
        self.0.push('\n');
    }

    /// Appends keys with their descriptions: those in `values` with a value, others as comments.
    fn keys<'a>(&mut self, keys: impl Iterator<Item = &'a Key>, values: &[(&str, &str)]) {
        for key in keys {
            let name = key.name;
            if let Some((_, value)) = values.iter().find(|(known, _)| *known == name) {
                self.comment(key.doc);
                self.0 += &format!("{name} = {value}\n");
            } else if let Presence::Default(text) = key.presence {
                self.comment(key.doc);
                self.0 += &format!("# {name} = {}\n", written(key.shape, text));
            } else {
                self.comment(&format!("{name}: {}. {}", key.shape.expected(), key.doc));
            }
        }
    }
}

/// Returns a default as TOML: bare texts get quotes.
fn written(shape: Shape, text: &str) -> String {
    let is_text = match shape {
        Shape::Text
        | Shape::Span { .. }
        | Shape::Rate { .. }
        | Shape::Bytes { .. }
        | Shape::Extent
        | Shape::Word(_)
        | Shape::Protocol
        | Shape::Globs
        | Shape::Addresses => true,
        Shape::Or(words, rest) => words.contains(&text) || written(*rest, text) != text,
        _ => false,
    };
    if is_text { format!("{text:?}") } else { text.to_string() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{content_hash, load};

    #[test]
    fn templates_load_and_show_true_defaults() {
        for name in templates() {
            let text = template(name).unwrap();
            let hash = |text: &str| {
                let plan = load(text, "x.toml", &[])
                    .unwrap_or_else(|wrong| panic!("{name}: {wrong}\n{text}"));
                content_hash(&plan)
            };
            let as_is = hash(&text);
            assert_eq!(overload(&load(&text, "x.toml", &[]).unwrap()), None, "{name}");
            let mut defaults = 0;
            for (at, line) in text.match_indices("\n# ").map(|(at, _)| (at, &text[at + 3..])) {
                let line = line.lines().next().unwrap();
                let is_key =
                    |name: &str| name.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'_');
                if !line.split_once(" = ").is_some_and(|(name, _)| is_key(name)) {
                    continue;
                }
                let set = format!("{}\n{}", &text[..at], &text[at + 3..]);
                assert_eq!(hash(&set), as_is, "{name}: {line}");
                defaults += 1;
            }
            assert!(defaults > 8, "{name}: {defaults} defaults");
            let longest = text.lines().map(|line| line.chars().count()).max();
            // Texts of presets are indented and may be wider.
            assert!(longest <= Some(WIDTH + 4), "{name}: {longest:?}\n{text}");
        }
    }

    #[test]
    fn other_names_are_refused() {
        let wrong = template("sird-leaf-spin").unwrap_err().to_string();
        assert!(wrong.contains("did you mean \"sird-leaf-spine\""), "{wrong}");
        assert!(template("graph").is_err() && template("").is_err());
    }
}
