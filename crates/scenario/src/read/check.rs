//! Checks a tree of TOML and turns it into a tree of typed values. It checks unknown and missing
//! keys, types, units and bounds, and adds defaults. Later steps check only relations between
//! values.

use tidegate_algos::Protocol;

use super::keys::{Key, Keys, MESSAGE, Presence, Shape, Variant};
use super::quantity::{self, Dimension, RATE, SIZE, TIME, Why};
use super::table::{Datum, Item, Row, Table, join};
use super::tree::{Entries, Node, Place, Raw};
use crate::error::{Error, either, nearest, one_of};
use tidegate_core::Span;
use tidegate_core::params::Sizes;

/// Checks a whole table.
pub(crate) fn table(node: Node, groups: Keys, path: &str) -> Result<Table, Error> {
    keyed(node, &groups.concat_refs(), path, true)
}

trait ConcatRefs {
    fn concat_refs(&self) -> Vec<&'static Key>;
}
impl ConcatRefs for Keys {
    fn concat_refs(&self) -> Vec<&'static Key> {
        self.iter().flat_map(|group| group.iter()).collect()
    }
}

/// Returns `a table of rate, delay`.
fn table_of(keys: &[&'static Key]) -> String {
    let names: Vec<&str> = keys.iter().map(|key| key.name).collect();
    format!("a table of {}", names.join(", "))
}

/// Checks a table against its keys. If `complete`, it adds defaults and reports missing keys.
fn keyed(node: Node, keys: &[&'static Key], path: &str, complete: bool) -> Result<Table, Error> {
    let (mut entries, at) = entries(node, path, || table_of(keys))?;
    for (name, (place, _)) in &entries {
        if !keys.iter().any(|key| key.name == name) {
            let known = || keys.iter().map(|key| key.name);
            return Err(place
                .error(
                    join(path, name),
                    format!("the unknown key {:?}", shorten(name)),
                    one_of(known()),
                )
                .suggest(nearest(name, known())));
        }
    }
    let mut items = Vec::new();
    for key in keys {
        let own = entries.remove(key.name).map(|(_, node)| node);
        let node = match (own, key.presence) {
            (own, Presence::Default(text)) if complete => {
                let default = Node::default(text);
                Some(match own {
                    Some(mut own) => {
                        own.fill(default);
                        own
                    }
                    // A key that this table lacks is reported at the parent table.
                    None if matches!(default.raw, Raw::Table(_)) => {
                        Node { at: at.clone(), ..default }
                    }
                    None => default,
                })
            }
            (own, _) => own,
        };
        let path = join(path, key.name);
        match node {
            Some(node) => {
                let item = item(node, key.shape, &path).map_err(|error| match key.shape {
                    Shape::Text => described(error, key),
                    _ => error,
                });
                items.push((key.name, item?));
            }
            None if matches!(key.presence, Presence::Required) => {
                return Err(described(at.error(path, "nothing", key.shape.expected()), key));
            }
            None => {}
        }
    }
    Ok(Table { path: path.to_string(), at, items })
}

/// Adds the meaning of its key to an error.
fn described(mut error: Error, key: &Key) -> Error {
    error.expected = format!("{} ({})", error.expected, meaning(key)).into();
    error
}

/// Returns the first sentence of a key's description, for use within another sentence.
fn meaning(key: &Key) -> String {
    let sentence = key.doc.split_inclusive(['.', ';']).next().unwrap_or("");
    let sentence = sentence.trim_end_matches(['.', ';']);
    let mut chars = sentence.chars();
    chars.next().map(|first| first.to_lowercase().chain(chars).collect()).unwrap_or_default()
}

fn shorten(text: &str) -> String {
    if text.chars().count() <= 60 {
        text.to_string()
    } else {
        text.chars().take(60).chain(['…']).collect()
    }
}

fn entries(
    node: Node,
    path: &str,
    expected: impl Fn() -> String,
) -> Result<(Entries, Place), Error> {
    match node.raw {
        Raw::Table(entries) => Ok((entries, node.at)),
        _ => Err(no_table(&node, path, expected())),
    }
}

/// Returns the error for a value that is not a table. A list of tables results from double
/// brackets.
fn no_table(node: &Node, path: &str, expected: String) -> Error {
    let doubled = matches!(&node.raw, Raw::List(items)
        if !items.is_empty() && items.iter().all(|item| matches!(item.raw, Raw::Table(_))));
    let suggestion = (doubled && !path.contains('[')).then(|| format!("[{path}]"));
    node.at.error(path, node.found(), expected).suggest(suggestion)
}

/// Returns the error for a value that is not a list of tables. A table results from single
/// brackets.
fn no_list(node: &Node, path: &str) -> Error {
    let Raw::Table(entries) = &node.raw else {
        return node.at.error(path, node.found(), "a list of tables");
    };
    // In `[traffic.search]`, the user probably intends `search` as a name.
    let named = !entries.is_empty()
        && entries.values().all(|(_, value)| matches!(value.raw, Raw::Table(_)));
    let (found, expected) = match entries.keys().next().filter(|_| named) {
        Some(name) => (
            format!("a table with the key {:?}", shorten(name)),
            "a list of tables, which have no names",
        ),
        None => (node.found(), "a list of tables"),
    };
    let header = path.split('.').map(|step| step.split('[').next().unwrap_or(step));
    let header = header.collect::<Vec<_>>().join(".");
    node.at.error(path, found, expected).suggest(Some(format!("[[{header}]]")))
}

fn kinds(
    node: Node,
    common: &'static [Key],
    variants: &'static [Variant],
    path: &str,
) -> Result<Table, Error> {
    let known = || variants.iter().map(|variant| variant.kind);
    let wrong = |at: &Place, found: String, text: &str| {
        at.error(join(path, "kind"), found, one_of(known())).suggest(nearest(text, known()))
    };
    let variant = match &node.raw {
        Raw::Table(entries) => match entries.get("kind").map(|(_, node)| node) {
            None => return Err(wrong(&node.at, "nothing".into(), "")),
            Some(Node { raw: Raw::Text(text), at }) => variants
                .iter()
                .find(|variant| variant.kind == text)
                .ok_or_else(|| wrong(at, at.excerpt(), text))?,
            Some(other) => return Err(wrong(&other.at, other.found(), "")),
        },
        _ => return Err(no_table(&node, path, Shape::Kinds(common, variants).expected())),
    };
    let keys: Vec<&'static Key> = common.iter().chain(variant.keys).collect();
    keyed(node, &keys, path, true)
}

fn list<T>(
    node: Node,
    path: &str,
    mut each: impl FnMut(Node, &str) -> Result<T, Error>,
) -> Result<Vec<T>, Error> {
    match node.raw {
        Raw::List(items) => items
            .into_iter()
            .enumerate()
            .map(|(i, item)| each(item, &format!("{path}[{i}]")))
            .collect(),
        _ => Err(no_list(&node, path)),
    }
}

/// Checks one value.
pub(crate) fn item(node: Node, shape: Shape, path: &str) -> Result<Item, Error> {
    let at = node.at.clone();
    let datum = match shape {
        Shape::Table(keys) => Datum::Table(table(node, keys, path)?),
        Shape::Kinds(common, variants) => Datum::Table(kinds(node, common, variants, path)?),
        Shape::Tables(keys) => {
            Datum::Tables(list(node, path, |node, path| table(node, keys, path))?)
        }
        Shape::Changes(keys) => Datum::Tables(list(node, path, |node, path| {
            keyed(node, &keys.concat_refs(), path, false)
        })?),
        Shape::ManyKinds(common, variants) => {
            Datum::Tables(list(node, path, |node, path| kinds(node, common, variants, path))?)
        }
        Shape::ByProtocol(keys) => Datum::ByProtocol(by_protocol(node, keys, path)?),
        Shape::Params => Datum::Params(entries(node, path, || shape.expected())?.0),
        Shape::Or(words, rest) => match &node.raw {
            Raw::Text(text) if words.contains(&text.as_str()) => {
                word(text, words).expect("just found")
            }
            Raw::Text(text) if nearest(text, words.iter().copied()).is_some() => {
                let error = at.error(path, node.found(), shape.expected());
                return Err(error.suggest(nearest(text, words.iter().copied())));
            }
            _ => {
                return item(node, *rest, path).map_err(|mut error| {
                    if *error.key == *path {
                        error.expected = or(words, error.expected.into());
                    }
                    error
                });
            }
        },
        Shape::Rows => Datum::Rows(rows(&node, path)?),
        Shape::Sizes => Datum::Sizes(sizes(&node, path)?),
        Shape::Names | Shape::Globs | Shape::Addresses => Datum::Texts(texts(&node, shape, path)?),
        _ => leaf(&node.raw, shape)
            .map_err(|why| at.error(path, node.found(), why.expected).suggest(why.suggestion))?,
    };
    Ok(Item { datum, at })
}

/// Returns `"a", "b" or a number`.
fn or(words: &[&str], rest: String) -> Box<str> {
    either(words.iter().map(|word| format!("{word:?}")).chain([rest]).collect()).into()
}

fn by_protocol(node: Node, keys: Keys, path: &str) -> Result<Vec<(Protocol, Table)>, Error> {
    let (entries, _) = entries(node, path, || Shape::ByProtocol(keys).expected())?;
    entries
        .into_iter()
        .map(|(name, (place, node))| {
            let path = join(path, &name);
            let protocol = Protocol::named(&name).ok_or_else(|| {
                place
                    .error(
                        path.clone(),
                        format!("the unknown protocol {:?}", shorten(&name)),
                        one_of(protocols()),
                    )
                    .suggest(nearest(&name, protocols()))
            })?;
            Ok((protocol, table(node, keys, &path)?))
        })
        .collect()
}

fn texts(node: &Node, shape: Shape, path: &str) -> Result<Vec<String>, Error> {
    let text = |node: &Node, path: &str| match &node.raw {
        Raw::Text(text) if !text.is_empty() => Ok(text.clone()),
        _ => Err(node.at.error(path, node.found(), shape.expected())),
    };
    match &node.raw {
        Raw::List(items) if !items.is_empty() => {
            items.iter().enumerate().map(|(i, item)| text(item, &format!("{path}[{i}]"))).collect()
        }
        _ if matches!(shape, Shape::Globs | Shape::Addresses) => Ok(vec![text(node, path)?]),
        _ => Err(node.at.error(path, node.found(), shape.expected())),
    }
}

fn sizes(node: &Node, path: &str) -> Result<Sizes, Error> {
    let expected = || Shape::Sizes.expected();
    let Raw::List(items) = &node.raw else {
        return Err(node.at.error(path, node.found(), expected()));
    };
    let size = |(i, node): (usize, &Node)| match leaf(&node.raw, MESSAGE) {
        Ok(Datum::Bytes(bytes)) => Ok(bytes),
        Ok(_) => Err(node.at.error(format!("{path}[{i}]"), node.found(), MESSAGE.expected())),
        Err(why) => {
            let error = node.at.error(format!("{path}[{i}]"), node.found(), why.expected);
            Err(error.suggest(why.suggestion))
        }
    };
    let sizes = items.iter().enumerate().map(size).collect::<Result<Vec<u64>, Error>>()?;
    let found = || format!("a list of {}", sizes.len());
    Sizes::of(&sizes).ok_or_else(|| node.at.error(path, found(), expected()))
}

fn rows(node: &Node, path: &str) -> Result<Vec<Row>, Error> {
    let list = |node: &Node, path: &str, expected: &str| match &node.raw {
        Raw::List(items) if !items.is_empty() => Ok(items.clone()),
        _ => Err(node.at.error(path, node.found(), expected)),
    };
    let number = |(i, node): (usize, &Node), path: &str| {
        let number = match node.raw {
            Raw::Integer(number) => u64::try_from(number).ok(),
            _ => None,
        };
        let wrong = || node.at.error(format!("{path}[{i}]"), node.found(), "a whole number");
        number.ok_or_else(wrong)
    };
    let row = |(i, node): (usize, &Node)| {
        let path = format!("{path}[{i}]");
        let items = list(node, &path, "a list of at least one whole number")?;
        let numbers = items.iter().enumerate().map(|item| number(item, &path));
        Ok(Row { numbers: numbers.collect::<Result<_, Error>>()?, at: node.at.clone() })
    };
    list(node, path, &Shape::Rows.expected())?.iter().enumerate().map(row).collect()
}

/// Returns the names of all protocols.
pub(crate) fn protocols() -> impl Iterator<Item = &'static str> {
    Protocol::ALL.iter().map(|protocol| protocol.info().name)
}

fn word(text: &str, words: &'static [&'static str]) -> Option<Datum> {
    words.iter().find(|word| **word == text).map(|word| Datum::Word(word))
}

/// Checks a value that is neither a table nor a list.
pub(crate) fn leaf(raw: &Raw, shape: Shape) -> Result<Datum, Why> {
    let expected = || Why { expected: shape.expected(), suggestion: None };
    let between = |inside: bool, datum: Datum| if inside { Ok(datum) } else { Err(expected()) };
    // Instead of the limit of the base unit, the message has that of the key.
    let limited = |why: Why, text: &str, of: &Dimension| {
        if quantity::is_too_large(text, of) { expected() } else { why }
    };
    let with = |more: &str| Why { expected: shape.expected() + more, suggestion: None };
    match (shape, raw) {
        (Shape::Text, Raw::Text(text)) if !text.is_empty() => Ok(Datum::Text(text.clone())),
        (Shape::Flag, Raw::Flag(flag)) => Ok(Datum::Flag(*flag)),
        (Shape::Number { min, max }, Raw::Number(_) | Raw::Integer(_) | Raw::Text(_)) => {
            let x = match raw {
                Raw::Number(x) => *x,
                Raw::Integer(x) => *x as f64,
                Raw::Text(text) if text == "inf" => f64::INFINITY,
                Raw::Text(text) => quantity::share(text).unwrap_or(f64::NAN),
                _ => f64::NAN,
            };
            match raw {
                _ if min <= x && x <= max => Ok(Datum::Number(x)),
                Raw::Text(text) if text.parse().is_ok_and(f64::is_finite) => {
                    Err(with(", without quotes"))
                }
                Raw::Text(_) => Err(with(", or a percentage such as \"60%\"")),
                // The user probably intends a percentage.
                _ if max <= 10.0 && 10.0 < x && x <= 100.0 => {
                    Err(Why { suggestion: Some(format!("{x}%")), ..expected() })
                }
                _ => Err(expected()),
            }
        }
        (Shape::Count { min, max }, Raw::Integer(x)) => {
            let count = u64::try_from(*x).ok().filter(|count| (min..=max).contains(count));
            count.map(Datum::Count).ok_or_else(expected)
        }
        (Shape::Count { .. }, Raw::Number(x)) if x.fract() == 0.0 => {
            Err(with(", without a decimal point or an exponent"))
        }
        (Shape::Count { .. }, Raw::Text(text)) if text.parse::<u64>().is_ok() => {
            Err(with(", without quotes"))
        }
        (Shape::Text, Raw::Integer(_) | Raw::Number(_)) => Err(with(" in quotes")),
        (Shape::Span { max, .. }, Raw::Text(text)) if text == "inf" && max == Span::FOREVER => {
            Ok(Datum::Span(max))
        }
        (Shape::Span { min, max }, Raw::Text(text)) => {
            let span = quantity::span(text).map_err(|why| limited(why, text, &TIME))?;
            between(min <= span && span <= max, Datum::Span(span))
        }
        (Shape::Rate { min, max }, Raw::Text(text)) => {
            let rate = quantity::rate(text).map_err(|why| limited(why, text, &RATE))?;
            between(min <= rate && rate <= max, Datum::Rate(rate))
        }
        (Shape::Bytes { min, max }, Raw::Text(text)) => {
            let bytes = quantity::bytes(text).map_err(|why| limited(why, text, &SIZE))?;
            between(min <= bytes && bytes <= max, Datum::Bytes(bytes))
        }
        (Shape::Extent, Raw::Text(text)) => quantity::extent(text).map(Datum::Extent),
        (Shape::Span { .. }, _) => Err(with_unit(&TIME)),
        (Shape::Rate { .. }, _) => Err(with_unit(&RATE)),
        (Shape::Bytes { .. }, _) => Err(with_unit(&SIZE)),
        (Shape::Extent, _) => Err(quantity::or_relative(with_unit(&SIZE))),
        (Shape::Word(words), Raw::Text(text)) => word(text, words).ok_or_else(|| Why {
            suggestion: nearest(text, words.iter().copied()).map(String::from),
            ..expected()
        }),
        (Shape::Protocol, Raw::Text(text)) => {
            Protocol::named(text).map(Datum::Protocol).ok_or_else(|| Why {
                suggestion: nearest(text, protocols()).map(String::from),
                ..expected()
            })
        }
        _ => Err(expected()),
    }
}

fn with_unit(dimension: &Dimension) -> Why {
    Why { expected: dimension.expected("in quotes, with a unit, such as"), suggestion: None }
}

/// Returns a size in the largest unit that gives a whole number.
fn size(bytes: u64) -> String {
    let fits = |(_, unit): &&(&str, u64)| bytes >= *unit && bytes.is_multiple_of(*unit);
    let decimal = SIZE.units.iter().filter(|(name, _)| !name.contains('i'));
    let (name, unit) = decimal.rev().find(fits).unwrap_or(&("B", 1));
    format!("{}{name}", bytes / unit)
}

impl Shape {
    /// Returns the allowed values, for a message.
    pub(crate) fn expected(&self) -> String {
        match *self {
            Shape::Text => "a non-empty text".into(),
            Shape::Flag => "true or false".into(),
            Shape::Number { min, max } if min == f64::MIN && max == f64::MAX => {
                "a finite number".into()
            }
            Shape::Number { min, max } => format!("a number from {min} to {max}"),
            Shape::Count { min, max } => format!("a whole number from {min} to {max}"),
            Shape::Span { min, max } => {
                format!("a duration from {min} to {max}, such as {:?}", TIME.example)
            }
            Shape::Rate { min, max } => {
                format!("a rate from {min} to {max}, such as {:?}", RATE.example)
            }
            Shape::Bytes { min, max } => format!("a size from {} to {}", size(min), size(max)),
            Shape::Extent => format!("a size such as {:?} or \"1.5BDP\"", SIZE.example),
            Shape::Word(words) => one_of(words.iter().copied()),
            Shape::Or(words, rest) => or(words, rest.expected()).into(),
            Shape::Protocol => format!("a protocol: {}", one_of(protocols())),
            Shape::Names => "a list of at least one name".into(),
            Shape::Rows => "a list of at least one list of whole numbers".into(),
            Shape::Sizes => {
                let most = Sizes::MOST;
                format!("a list of at most {most} sizes up to 4 GiB such as [\"200B\", \"4KB\"]")
            }
            Shape::Addresses => {
                "an IPv4 address with a UDP port, such as \"127.0.0.1:9000\", or a list of such \
                 addresses"
                    .into()
            }
            Shape::Globs => {
                "a name or a list of names; in names, * matches any text and [0-15] a range of \
                 numbers"
                    .into()
            }
            Shape::Params | Shape::ByProtocol(_) => "a table".into(),
            Shape::Table(keys) => {
                format!("a table with {}", one_of(keys.concat_refs().iter().map(|key| key.name)))
            }
            Shape::Tables(_) | Shape::Changes(_) | Shape::ManyKinds(..) => {
                "a list of tables".into()
            }
            Shape::Kinds(_, variants) => {
                format!(
                    "a table whose kind is {}",
                    one_of(variants.iter().map(|variant| variant.kind))
                )
            }
        }
    }
}
