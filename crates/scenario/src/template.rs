//! A scenario to begin with: what has to be said, and all else as comments with what holds unless
//! it is said.

use textwrap::Options;
use tidegate_algos::Protocol;

use crate::compile::{fabric, faults, hosts, scenario, switch, traffic, transport};
use crate::error::{Error, nearest, one_of};
use crate::presets;
use crate::read::keys::{Key, Keys, Presence, Shape, Variant};

/// Columns of a file.
const WIDTH: usize = 100;
/// Kinds of fabrics of which everything has to be listed one by one.
const LISTED: [&str; 1] = ["graph"];
/// Kind of the traffic that hosts send.
const TRAFFIC: &str = "poisson";

/// Fabrics that a template can be on: those of papers, and kinds that are generated.
pub fn templates() -> impl Iterator<Item = &'static str> {
    let kinds = fabric::KINDS.iter().map(|variant| variant.kind);
    let presets = presets::FABRICS.iter().map(|(name, _)| *name);
    presets.chain(kinds.filter(|kind| !LISTED.contains(kind)))
}

/// What a template is on, in a sentence; empty where there is none of that name.
pub fn template_says(name: &str) -> String {
    let preset = presets::FABRICS.iter().find(|(known, _)| *known == name);
    let says = match (preset, variant(fabric::KINDS, name)) {
        (Some((_, text)), _) => {
            let lines = text.lines().map_while(|line| line.strip_prefix('#'));
            lines.collect::<Vec<_>>().concat()
        }
        (None, Some(kind)) => kind.doc.to_owned(),
        (None, None) => String::new(),
    };
    let sentence = says.split_once(". ").map_or(&*says, |(first, _)| first);
    format!("{}.", sentence.trim().trim_end_matches('.'))
}

/// A scenario on a fabric, as a file with comments: Poisson arrivals of web search at half load,
/// under [`Protocol::USUAL`]. `name` is one of [`templates`].
///
/// # Errors
/// When there is no such fabric.
pub fn template(name: &str) -> Result<String, Error> {
    let mut file = File::default();
    let preset = presets::FABRICS.iter().find(|(known, _)| *known == name);
    let kind = variant(fabric::KINDS, name).filter(|_| !LISTED.contains(&name));
    if preset.is_none() && kind.is_none() {
        let wrong = Error::whole("tidegate new", format!("{name:?}"), one_of(templates()));
        return Err(wrong.meant(nearest(name, templates())));
    }
    file.say(&format!(
        "A scenario on {name}: `tidegate run FILE` runs it. What is behind a # may be said, too; \
         where it has a value, that holds unless another is said. docs/scenario.md has all keys, \
         `tidegate protocols` the protocols."
    ));
    file.0.push('\n');
    let named = format!("{name:?}");
    let top = [("name", &*named), ("duration", "\"10ms\""), ("warmup", "\"2ms\"")];
    file.keys(all(scenario::ROOT).filter(|key| !is_section(key)), &top);
    file.section("[fabric]");
    match (preset, kind) {
        (Some((_, text)), _) => {
            file.0 += &format!("preset = {named}\n# It says:\n");
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
    // What a fabric's paper says of connections holds.
    let keys = keys.filter(|key| preset.is_none() || key.name == "protocol");
    file.keys(keys, &[("protocol", &format!("{:?}", Protocol::USUAL.info().name))]);
    file.section("[[traffic]]");
    let kind = variant(traffic::KINDS, TRAFFIC).map_or(&[][..], |kind| kind.keys);
    let said = [
        ("kind", "\"poisson\""),
        ("label", "\"search\""),
        ("sizes", "\"websearch\""),
        ("load", "0.5"),
    ];
    file.keys(traffic::COMMON.iter().chain(kind), &said);
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

/// Whether a key of the file has a section of its own.
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

/// A text that grows.
#[derive(Default)]
struct File(String);

impl File {
    fn section(&mut self, name: &str) {
        self.0 += &format!("\n{name}\n");
    }

    /// A comment.
    fn say(&mut self, text: &str) {
        let lines = Options::new(WIDTH).initial_indent("# ").subsequent_indent("# ");
        self.0 += &textwrap::fill(text, lines);
        self.0.push('\n');
    }

    /// Keys, each with what it means: those in `said` with a value, others as comments.
    fn keys<'a>(&mut self, keys: impl Iterator<Item = &'a Key>, said: &[(&str, &str)]) {
        for key in keys {
            let name = key.name;
            if let Some((_, value)) = said.iter().find(|(known, _)| *known == name) {
                self.say(key.doc);
                self.0 += &format!("{name} = {value}\n");
            } else if let Presence::Default(text) = key.presence {
                self.say(key.doc);
                self.0 += &format!("# {name} = {}\n", written(key.shape, text));
            } else {
                self.say(&format!("{name}: {}. {}", key.shape.expected(), key.doc));
            }
        }
    }
}

/// A default as a file has it: bare texts get quotes.
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
    fn templates_load_and_say_what_holds_anyway() {
        for name in templates() {
            let text = template(name).unwrap();
            let hash = |text: &str| {
                let plan = load(text, "x.toml", &[])
                    .unwrap_or_else(|wrong| panic!("{name}: {wrong}\n{text}"));
                content_hash(&plan)
            };
            let as_is = hash(&text);
            let mut defaults = 0;
            for (at, line) in text.match_indices("\n# ").map(|(at, _)| (at, &text[at + 3..])) {
                let line = line.lines().next().unwrap();
                let is_key =
                    |name: &str| name.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'_');
                if !line.split_once(" = ").is_some_and(|(name, _)| is_key(name)) {
                    continue;
                }
                let said = format!("{}\n{}", &text[..at], &text[at + 3..]);
                assert_eq!(hash(&said), as_is, "{name}: {line}");
                defaults += 1;
            }
            assert!(defaults > 8, "{name}: {defaults} defaults");
            let longest = text.lines().map(|line| line.chars().count()).max();
            // Texts of presets are as wide as a file, and indented.
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
